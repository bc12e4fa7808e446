//! The compiled rules: one automaton over the words of all rules, and patterns that are compiled when they are first
//! needed.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

use crate::assignment::ASSIGNMENT_WORDS;
use crate::rule_file::{RuleFile, RuleRecord, RuleScope, builtin_files};

/// The maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// All built-in rules. They are compiled at the first search, not when the program starts.
static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::compile(builtin_files()));

/// Returns the built-in rules.
pub fn builtin_rules() -> &'static RuleSet {
    &RULES
}

/// A built-in rule, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSummary {
    /// The kind of secret, such as `github-pat`.
    pub kind: String,
    /// The rule: the name of its rule set, the version of that, and the kind.
    pub rule: String,
}

/// Returns all built-in rules with a pattern, in the order of the rule files.
pub fn rule_summaries() -> Vec<RuleSummary> {
    let rules = builtin_rules().rules.iter();
    rules.map(|rule| RuleSummary { kind: rule.record.id.clone(), rule: rule.name() }).collect()
}

/// The compiled rules and the automaton that finds their words.
#[derive(Debug)]
pub struct RuleSet {
    /// Finds the words of all rules, without case.
    pub automaton: AhoCorasick,
    /// The targets that are tried at a word, by the index of the word in the automaton.
    pub targets: Vec<Vec<RuleTarget>>,
    /// The rules.
    pub rules: Vec<CompiledRule>,
    /// The indexes of the rules of scope `dotted`, which have no words in the automaton.
    pub dotted: Vec<usize>,
}

/// A rule or reader that is tried where a word occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleTarget {
    /// The pattern of the rule with that index, at the word.
    Start(usize),
    /// The pattern of the rule with that index, around the word.
    Near(usize),
    /// An assignment whose name contains the word.
    Name,
    /// The credentials of an authorization header, behind the name of their scheme.
    Scheme,
    /// An authorization header, at its name.
    Header,
    /// The cookies of a header, at its name, or of an option of `curl`.
    Cookie,
}

/// A rule with its patterns.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule as in its file.
    pub record: RuleRecord,
    /// The name and version of the rule's file.
    pub origin: String,
    /// Words that no secret of the rule's file contains.
    stopwords: Vec<String>,
    /// Patterns of texts that are no secrets for any rule of the file.
    file_allow: Vec<String>,
    pattern: OnceLock<Regex>,
    allow: OnceLock<Vec<Regex>>,
}

impl RuleSet {
    /// Builds the automaton for the rules of `files`. The patterns of the rules are not compiled yet.
    fn compile(files: impl IntoIterator<Item = RuleFile>) -> Self {
        let mut words: Vec<String> = Vec::new();
        let mut targets: Vec<Vec<RuleTarget>> = Vec::new();
        let mut indexes: HashMap<String, usize> = HashMap::new();
        let mut add_target = |word: &str, target| match indexes.get(word) {
            Some(index) => targets[*index].push(target),
            None => {
                indexes.insert(word.to_owned(), words.len());
                words.push(word.to_owned());
                targets.push(vec![target]);
            }
        };
        let mut rules: Vec<CompiledRule> = Vec::new();
        for file in files {
            let origin = format!("{} {}", file.name, file.version).trim_end().to_owned();
            for record in file.rules {
                for word in record.words.iter().flat_map(|word| expand_classes(word)) {
                    let target = match record.scope {
                        RuleScope::Start => RuleTarget::Start(rules.len()),
                        RuleScope::Near => RuleTarget::Near(rules.len()),
                        RuleScope::Dotted => continue,
                    };
                    add_target(&word, target);
                }
                rules.push(CompiledRule {
                    record,
                    origin: origin.clone(),
                    stopwords: file.stopwords.clone(),
                    file_allow: file.allow.clone(),
                    pattern: OnceLock::new(),
                    allow: OnceLock::new(),
                });
            }
        }
        for (word, target) in ASSIGNMENT_WORDS {
            add_target(word, *target);
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&words)
            .expect("the words are constants that the tests build");
        let is_dotted = |index: &usize| rules[*index].record.scope == RuleScope::Dotted;
        let dotted = (0..rules.len()).filter(is_dotted).collect();
        Self { automaton, targets, rules, dotted }
    }
}

impl CompiledRule {
    /// Returns the name of the rule: its rule set, the version of that, and its id.
    pub fn name(&self) -> String {
        format!("{}: {}", self.origin, self.record.id)
    }

    /// Returns the compiled pattern.
    pub fn pattern(&self) -> &Regex {
        self.pattern.get_or_init(|| compile_builtin(&self.record.pattern))
    }

    /// Returns whether the rule or its file lists `value` as no secret.
    pub fn is_allowed(&self, value: &[u8]) -> bool {
        let patterns = self.allow.get_or_init(|| {
            self.record.allow.iter().chain(&self.file_allow).map(|pattern| compile_builtin(pattern)).collect()
        });
        patterns.iter().any(|pattern| pattern.is_match(value)) || {
            let lower = value.to_ascii_lowercase();
            self.stopwords.iter().any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
        }
    }
}

/// Returns the words for which a word with classes such as `[ab]` stands.
pub fn expand_classes(word: &str) -> Vec<String> {
    let parts = word.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
    let Some((before, (class, rest))) = parts else { return vec![word.to_owned()] };
    let ends = expand_classes(rest);
    let starts = class.chars().map(|character| format!("{before}{character}"));
    starts.flat_map(|start| ends.iter().map(move |end| format!("{start}{end}"))).collect()
}

/// Compiles a pattern of a built-in rule.
fn compile_builtin(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(PATTERN_BYTES_MAX)
        .build()
        .expect("the patterns are constants that the tests compile")
}
