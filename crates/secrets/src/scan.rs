//! One pass over a text: finds the words of all rules, tries the patterns there, and merges what they find.
//!
//! Each attempt examines a bounded window. A value that a rule has matched or rejected is not examined again by the same
//! rule, so a text of repeated prefixes is linear too.

pub mod command_line;
pub mod dotted;
mod invisible;
mod markup;

use std::ops::Range;

use aho_corasick::Input;
use regex::bytes::Captures;

use self::invisible::{VisibleText, remove_invisible};
use self::markup::join_interrupted_words;
use crate::assignment::{self, AssignmentKind, headers};
use crate::patterns::installed_patterns;
use crate::pem;
use crate::rule_file::{Boundary, JOINED_WORD_BYTES_MIN, RuleScope, ValueCheck};
use crate::rule_set::{CompiledRule, RuleSet, RuleTarget, builtin_rules};
use crate::scan::command_line::is_argument_of;
use crate::shape::{
    has_scrambled_parts, is_placeholder, is_reference, is_value_byte, looks_random, looks_scrambled,
    shannon_entropy,
};

/// The number of bytes that one attempt examines. The longest tokens of fixed length are shorter; a longer run of a
/// token's characters is redacted up to its end.
pub const WINDOW_BYTES: usize = 4096;
/// The number of bytes around a word in which a rule of scope `near` is tried.
const NEAR_BYTES: usize = 512;
/// The maximum length of a word of a rule, in bytes.
pub const WORD_BYTES_MAX: usize = 64;
/// A secret in a text. `start` and `end` are offsets in bytes, on character boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMatch {
    /// The offset of the first byte.
    pub start: usize,
    /// The offset behind the last byte.
    pub end: usize,
    /// The rule that matched.
    pub rule: MatchedRule,
}

/// The rule of a match. Of two rules that match the same text, the first in this order names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedRule {
    /// A pattern of the user, by its name.
    User(String),
    /// A rule of a rule file, by its index.
    Listed(usize),
    /// A name and a value.
    Assigned(AssignmentKind),
}

/// The secrets of a text, and what was done to find them.
#[derive(Debug, Default)]
pub struct ScanResult {
    /// The secrets in the order of the text, without overlaps.
    pub matches: Vec<SecretMatch>,
    /// The number of patterns that were tried. Each examined [`WINDOW_BYTES`] at most.
    pub attempts: u64,
    /// The number of bytes of the values that were read, with those behind the windows.
    pub examined: u64,
}

impl ScanResult {
    /// Adds what was found in a text from which characters were removed.
    fn add_assembled(&mut self, assembled: Self, visible: &VisibleText) {
        self.attempts += assembled.attempts;
        self.examined += assembled.examined;
        if assembled.matches.is_empty() {
            return;
        }
        self.matches.extend(assembled.matches.into_iter().map(|secret| {
            let range = visible.original_range(secret.start..secret.end);
            SecretMatch { start: range.start, end: range.end, ..secret }
        }));
        self.matches = merge_overlaps(std::mem::take(&mut self.matches));
    }
}

/// Finds all secrets in `text`: those in the text as it is, those that appear when its invisible characters are removed, and
/// tokens that marks of Markdown interrupt.
pub fn find_matches(text: &str) -> ScanResult {
    let mut result = scan_marked_text(text);
    if let Some(visible) = remove_invisible(text) {
        result.add_assembled(scan_marked_text(&visible.text), &visible);
    }
    result
}

/// Finds the secrets in the text as it is, and the tokens in it that marks interrupt.
fn scan_marked_text(text: &str) -> ScanResult {
    let mut result = scan_text(text);
    if let Some(joined) = join_interrupted_words(text) {
        let mut assembled = scan_text(&joined.text);
        assembled.matches.retain(|secret| is_interrupted_token(text, &joined, secret));
        result.add_assembled(assembled, &joined);
    }
    result
}

/// The minimum number of digits of an interrupted token of small letters or capitals alone.
const INTERRUPTED_DIGITS_MIN: usize = 3;

/// Returns whether a match in the joined words of `text` is a token that marks interrupt. Only tokens count that a word of their
/// rule begins: names, commands and addresses have meaning only in the text as it is.
fn is_interrupted_token(text: &str, joined: &VisibleText, secret: &SecretMatch) -> bool {
    let MatchedRule::Listed(index) = secret.rule else { return false };
    let record = &builtin_rules().rules[index].record;
    let range = secret.start..secret.end;
    let value = &joined.text[range.clone()];
    let is_prefixed = record
        .words
        .iter()
        .any(|word| value.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)));
    if !(is_prefixed || record.scope == RuleScope::Dotted) || !joined.is_interrupted(range.clone()) {
        return false;
    }
    // Two underscores also join words, as in `hf_transformers__configuration`.
    let is_random =
        value.bytes().filter(u8::is_ascii_digit).count() >= INTERRUPTED_DIGITS_MIN || looks_scrambled(value);
    is_random && !text[joined.original_range(range)].contains(|c: char| c.is_ascii_whitespace())
}

/// Finds the secrets in the text as it is.
fn scan_text(text: &str) -> ScanResult {
    let rules = builtin_rules();
    let mut scanner =
        Scanner { text, rules, result: ScanResult::default(), examined: Vec::new(), near: Vec::new() };
    // Most texts contain none of the words. One search without state decides for them.
    let Some(first) = rules.automaton.find(text) else { return scanner.finish() };
    let start = first.end().saturating_sub(WORD_BYTES_MAX);
    for word in rules.automaton.find_overlapping_iter(Input::new(text).range(start..)) {
        for target in &rules.targets[word.pattern().as_usize()] {
            scanner.try_target(*target, word.range());
        }
    }
    scanner.scan_near();
    scanner.finish()
}

/// The state of a pass over a text.
struct Scanner<'t> {
    text: &'t str,
    rules: &'static RuleSet,
    result: ScanResult,
    /// The offset up to which each rule has examined the text, by index. The last entries are the assignment rules.
    examined: Vec<usize>,
    /// The regions around words of rules with scope `near`: rule and range.
    near: Vec<(usize, Range<usize>)>,
}

impl Scanner<'_> {
    /// Adds the matches of the rules of scope `dotted` and of the user's patterns, and returns the result.
    fn finish(mut self) -> ScanResult {
        self.scan_dotted();
        if let Some(user) = installed_patterns() {
            user.find_in(self.text, &mut self.result);
        }
        if !self.result.matches.is_empty() {
            self.result.matches = merge_overlaps(self.result.matches);
        }
        self.result
    }

    /// Tries a rule at a word.
    fn try_target(&mut self, target: RuleTarget, word: Range<usize>) {
        let slot = match target {
            RuleTarget::Start(rule) => rule,
            RuleTarget::Near(rule) => return self.add_region(rule, word),
            RuleTarget::Name => self.rules.rules.len(),
            RuleTarget::Scheme | RuleTarget::Header | RuleTarget::Cookie => self.rules.rules.len() + 1,
        };
        if word.start < self.examined.get(slot).copied().unwrap_or(0) {
            return;
        }
        let examined_end = match target {
            RuleTarget::Start(rule) => self.try_pattern(rule, word),
            RuleTarget::Near(_)
            | RuleTarget::Name
            | RuleTarget::Scheme
            | RuleTarget::Header
            | RuleTarget::Cookie => self.try_assignment(target, word),
        };
        if let Some(end) = examined_end {
            if self.examined.len() <= slot {
                self.examined.resize(self.rules.rules.len() + 2, 0);
            }
            self.examined[slot] = end;
        }
    }

    /// Tries the pattern of a rule at a word. Returns the end of what it matched, whether it is a secret or not.
    fn try_pattern(&mut self, index: usize, word: Range<usize>) -> Option<usize> {
        let rule = &self.rules.rules[index];
        if !has_boundary(self.text, &word, rule.record.boundary) {
            return None;
        }
        let start = word.start;
        self.result.attempts += 1;
        let bytes = self.text.as_bytes();
        let window = &bytes[start..bytes.len().min(start + WINDOW_BYTES)];
        if !rule.pattern().is_match(window) {
            return None;
        }
        let captures = rule.pattern().captures(window)?;
        let end = start + captures[0].len();
        let secret = secret_group(rule, &captures, start)?;
        let secret = secret.start..self.extend_run(secret.end, start + WINDOW_BYTES);
        // A run that is no secret was read to its end too, and is not read again from its middle.
        let read_end = end.max(secret.end);
        self.result.examined += (read_end - start) as u64;
        let end = self.add_match(index, secret).unwrap_or(read_end).max(read_end);
        self.result.examined += (end - read_end) as u64;
        Some(end)
    }

    /// Adds a match of a rule if it passes the rule's conditions. Returns its end.
    fn add_match(&mut self, index: usize, secret: Range<usize>) -> Option<usize> {
        let rule = &self.rules.rules[index];
        let secret = match rule.record.check {
            ValueCheck::PrivateKey => secret.start..pem::key_end(self.text, secret.end)?,
            ValueCheck::PrivateKeyEnd => {
                let start = pem::cut_key_start(self.text, secret.start)?;
                self.result.examined += (secret.start - start) as u64;
                start..secret.end
            }
            ValueCheck::PrivateKeyBody => secret.start..pem::body_end(self.text, secret),
            check => passes_check(self.text, &secret, check).then_some(secret)?,
        };
        let commands = &rule.record.commands;
        if !commands.is_empty() && !is_argument_of(self.text, secret.start, commands) {
            return None;
        }
        let value = &self.text.as_bytes()[secret.clone()];
        if rule.record.entropy.is_some_and(|entropy_min| shannon_entropy(value) <= entropy_min)
            || rule.is_allowed(value)
        {
            return None;
        }
        let (start, end) =
            (self.text.floor_char_boundary(secret.start), self.text.ceil_char_boundary(secret.end));
        self.result.matches.push(SecretMatch { start, end, rule: MatchedRule::Listed(index) });
        Some(end)
    }

    /// Reads the assignment or header at a word, and adds its secrets. Returns the end of the text that was read.
    fn try_assignment(&mut self, target: RuleTarget, word: Range<usize>) -> Option<usize> {
        self.result.attempts += 1;
        let word_start = word.start;
        let reading = match target {
            RuleTarget::Scheme => headers::read_credentials(self.text, word),
            RuleTarget::Header => headers::read_authorization(self.text, word),
            RuleTarget::Cookie => headers::read_cookies(self.text, word),
            RuleTarget::Name | RuleTarget::Start(_) | RuleTarget::Near(_) => {
                assignment::read_assignment(self.text, word)
            }
        }?;
        for (kind, value) in reading.secrets {
            let rule = MatchedRule::Assigned(kind);
            self.result.matches.push(SecretMatch { start: value.start, end: value.end, rule });
        }
        // A value that fills the window continues behind it, whether it is a secret or not.
        let end = self.extend_run(reading.end, reading.window_end);
        if let Some(last) = self.result.matches.last_mut().filter(|last| last.end == reading.end) {
            last.end = end;
        }
        self.result.examined += end.saturating_sub(word_start) as u64;
        Some(end)
    }

    /// Returns the end of a value. A value that ends with its window continues to the end of its run of characters.
    fn extend_run(&self, end: usize, window_end: usize) -> usize {
        if end < window_end {
            return end;
        }
        let rest = &self.text.as_bytes()[end..];
        end + rest.iter().position(|byte| !is_value_byte(*byte)).unwrap_or(rest.len())
    }

    /// Adds the text around a word to the regions of a rule. Regions that touch become one.
    fn add_region(&mut self, rule: usize, word: Range<usize>) {
        let start = self.text.floor_char_boundary(word.start.saturating_sub(NEAR_BYTES));
        let end = self.text.ceil_char_boundary(word.end + NEAR_BYTES);
        match self.near.iter_mut().rev().find(|(other, _)| *other == rule) {
            Some((_, region)) if region.end >= start => region.end = region.end.max(end),
            _ => self.near.push((rule, start..end)),
        }
    }

    /// Tries the rules of scope `dotted` at the first parts of dotted texts.
    fn scan_dotted(&mut self) {
        for part in dotted::first_parts(self.text) {
            for rule in &self.rules.dotted {
                self.try_target(RuleTarget::Start(*rule), part.clone());
            }
        }
    }

    /// Tries the rules of scope `near` in their regions.
    fn scan_near(&mut self) {
        for (index, region) in std::mem::take(&mut self.near) {
            let rule = &self.rules.rules[index];
            let bytes = &self.text.as_bytes()[..region.end];
            let mut position = region.start;
            loop {
                self.result.attempts += 1;
                let Some(captures) = rule.pattern().captures_at(bytes, position) else { break };
                position = captures.get(0).map_or(region.end, |whole| whole.end().max(position + 1));
                if let Some(secret) = secret_group(rule, &captures, 0) {
                    let _ = self.add_match(index, secret);
                }
                if position >= region.end {
                    break;
                }
            }
        }
    }
}

/// Returns the range of the secret in a match: the rule's group, else the first group that took part, else everything.
fn secret_group(rule: &CompiledRule, captures: &Captures<'_>, offset: usize) -> Option<Range<usize>> {
    let group = match rule.record.group {
        Some(group) => captures.get(group),
        None => (1..captures.len()).find_map(|group| captures.get(group)).or_else(|| captures.get(0)),
    }?;
    Some(group.start() + offset..group.end() + offset)
}

/// Returns whether what stands before a word satisfies the boundary of a rule.
fn has_boundary(text: &str, word: &Range<usize>, boundary: Boundary) -> bool {
    let (bytes, start) = (text.as_bytes(), word.start);
    let Some(before) = start.checked_sub(1).map(|index| bytes[index]) else { return true };
    match boundary {
        Boundary::Any => true,
        Boundary::Space => before.is_ascii_whitespace(),
        Boundary::Parameter => matches!(before, b'?' | b'&' | b';'),
        Boundary::Word => {
            let is_escape = start >= 2 && bytes[start - 2] == b'\\' && matches!(before, b'n' | b'r' | b't');
            let is_joined = before == b'_' && word.len() < JOINED_WORD_BYTES_MIN;
            !(before.is_ascii_alphanumeric() || is_joined) || is_escape
        }
    }
}

/// Returns whether a value passes the condition of its rule.
fn passes_check(text: &str, value: &Range<usize>, check: ValueCheck) -> bool {
    let Some(secret) = text.get(value.clone()) else { return true };
    let is_literal = || !is_placeholder(secret) && !is_reference(secret);
    match check {
        ValueCheck::None
        | ValueCheck::PrivateKey
        | ValueCheck::PrivateKeyEnd
        | ValueCheck::PrivateKeyBody => true,
        ValueCheck::Random => looks_random(secret),
        ValueCheck::Scrambled => has_scrambled_parts(secret),
        ValueCheck::Digit => secret.bytes().filter(u8::is_ascii_digit).count() >= 2,
        ValueCheck::Literal => is_literal(),
        ValueCheck::Password => {
            let is_sign = |byte: u8| byte.is_ascii_digit() || b"!@#^+=$%&*~?".contains(&byte);
            is_literal() && secret.bytes().any(is_sign)
        }
    }
}

/// Sorts the matches and joins those that overlap. The more specific rule names the result.
fn merge_overlaps(mut matches: Vec<SecretMatch>) -> Vec<SecretMatch> {
    matches.sort_by(|a, b| (a.start, &a.rule).cmp(&(b.start, &b.rule)));
    let mut merged: Vec<SecretMatch> = Vec::with_capacity(matches.len());
    for secret in matches {
        match merged.last_mut() {
            Some(last) if secret.start < last.end => {
                last.end = last.end.max(secret.end);
                if secret.rule < last.rule {
                    last.rule = secret.rule;
                }
            }
            _ => merged.push(secret),
        }
    }
    merged
}
