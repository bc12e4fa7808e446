//! `cargo xtask secret-rules FILE VERSION`: converts the rules of gitleaks into the rule file of the crate `secrets`.
//!
//! The input is `config/gitleaks.toml` of a release of gitleaks. The conversion keeps ids, descriptions, entropies and
//! allow lists. It rewrites patterns so that a search can begin at a word of the rule, and leaves out rules that need
//! the path of a file. This module recognizes no secrets; the crate `secrets` does.

pub mod evaluation;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use regex::bytes::RegexBuilder;
use regex_syntax::hir::literal::Extractor;
use serde::{Deserialize, Serialize};

/// The converted file, relative to the workspace.
const RULE_FILE: &str = "crates/secrets/rules/gitleaks.json";
/// The licence of the rules, relative to the workspace.
const LICENCE_FILE: &str = "crates/secrets/rules/LICENSE-gitleaks";
/// The minimum number of converted rules. Fewer mean that the format of the input has changed.
const RULES_MIN: usize = 150;
/// The minimum length of a word with which a match begins, in bytes.
const WORD_BYTES_MIN: usize = 3;
/// The maximum length of such a word, in bytes.
const WORD_BYTES_MAX: usize = 12;
/// The maximum number of such words of one rule.
const WORDS_MAX: usize = 64;
/// The maximum size of a compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4 << 20;

/// Rules that are left out, each with the reason.
const SKIPPED_RULES: &[(&str, &str)] = &[
    (
        "curl-auth-header",
        "scans to the end of the line for each `curl`; the rule `auth-scheme` finds the header",
    ),
    (
        "curl-auth-user",
        "scans to the end of the line for each `curl`; the rule `curl-user` finds the password",
    ),
    ("generic-api-key", "the assignment rules read the name and the value"),
    ("hashicorp-tf-password", "only for Terraform files; the assignment rules find the password"),
    ("kubernetes-secret-yaml", "only for YAML files"),
    ("nuget-config-password", "scans to the end of the line; the rule `nuget-password` finds the password"),
    ("pkcs12-file", "names a file and has no pattern"),
    (
        "private-key",
        "scans to the end of the text; the rule `private-key` of Segue stops at the end of the key",
    ),
];

/// Rules whose matches begin with a word that their pattern does not spell out. The header of a JSON Web Token is the
/// Base64 of an object, which begins with `eyJ`.
/// Tokens of old versions of Vault begin with `s.`, as many calls in code do; the assignment rules find them.
const STARTING_WORDS: &[(&str, &str)] = &[("jwt", "eyj"), ("vault-service-token", "hvs.")];

/// Rules whose groups are parts of the secret. The whole match is redacted.
const WHOLE_MATCHES: &[&str] = &["jwt-base64", "microsoft-teams-webhook"];

/// The text of upstream's patterns before the name of an assignment. A search begins at the name.
const NAME_HEAD: &str = r"[\w.-]{0,50}?";
/// The text of upstream's patterns between the name and the value of an assignment.
const ASSIGNMENT: &str = r#"(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"#;
/// The replacement of [`ASSIGNMENT`]: quotes may be escaped, as they are in JSON within JSON.
const PROSE_ASSIGNMENT: &str =
    r#"(?:[ \t\w.-]{0,20})[\s'"\\]{0,5}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=\\]{0,6}"#;
/// The text of upstream's patterns behind a value.
const VALUE_END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;
/// The replacement of [`VALUE_END`]: punctuation may follow a value, as it does in prose.
const PROSE_VALUE_END: &str = r"(?:[^\w+/=.-]|\.(?:\W|$)|$)";

/// The replacement of [`PROSE_VALUE_END`] behind a value that its prefix tells: the name or the extension of a file may follow.
const PREFIXED_VALUE_END: &str = r"(?:[^\w+=-]|$)";
/// The rules with a prefix whose values may go on behind a slash, with their ends.
const SLASH_VALUE_ENDS: [(&str, &str); 1] = [("square-access-token", r"(?:[^\w+/=-]|$)")];

/// The file of gitleaks.
#[derive(Debug, Deserialize)]
struct UpstreamConfig {
    allowlist: UpstreamAllowList,
    rules: Vec<UpstreamRule>,
}

/// A list of values that are not secrets.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UpstreamAllowList {
    regexes: Vec<String>,
    regex_target: Option<String>,
    stopwords: Vec<String>,
}

/// A rule of gitleaks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpstreamRule {
    id: String,
    description: String,
    #[serde(default)]
    regex: String,
    entropy: Option<f64>,
    secret_group: Option<usize>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<UpstreamAllowList>,
}

/// The converted file.
#[derive(Debug, Serialize)]
struct ConvertedFile {
    name: &'static str,
    version: String,
    source: String,
    licence: &'static str,
    skipped: Vec<String>,
    allow: Vec<String>,
    stopwords: Vec<String>,
    rules: Vec<ConvertedRule>,
}

/// A converted rule. The crate `secrets` describes the fields.
#[derive(Debug, Serialize)]
struct ConvertedRule {
    id: String,
    description: String,
    scope: &'static str,
    words: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boundary: Option<&'static str>,
    pattern: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entropy: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
}

/// Converts the file that the first argument names. The second argument is the version of gitleaks.
///
/// # Errors
/// If the arguments are wrong, the file cannot be read or parsed, a pattern cannot be compiled, fewer than [`RULES_MIN`]
/// rules remain, or the result cannot be written.
pub fn convert_rules(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let [file, version] = args else {
        bail!("convert rules: give the path of gitleaks.toml and the version of gitleaks");
    };
    ensure!(root.join(LICENCE_FILE).is_file(), "convert rules: {LICENCE_FILE} is missing");
    let text = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    let converted = convert_config(&text, version)?;
    let count = converted.rules.len();
    ensure!(count >= RULES_MIN, "convert rules: only {count} rules remain; the minimum is {RULES_MIN}");
    let skipped = converted.skipped.join(", ");
    fs::write(root.join(RULE_FILE), to_json_lines(converted)?)
        .with_context(|| format!("write {RULE_FILE}"))?;
    println!("{count} rules in {RULE_FILE}; left out: {skipped}");
    Ok(())
}

/// Returns the file as JSON with one line for each rule. The file is part of the program, and indentation would be a quarter
/// of it.
fn to_json_lines(mut file: ConvertedFile) -> anyhow::Result<String> {
    let rules = std::mem::take(&mut file.rules);
    let lines = rules.iter().map(serde_json::to_string).collect::<Result<Vec<String>, _>>()?;
    let head = serde_json::to_string_pretty(&file)?;
    Ok(head.replace("\"rules\": []", &format!("\"rules\": [\n{}\n]", lines.join(",\n"))) + "\n")
}

/// Converts the text of gitleaks.toml.
fn convert_config(text: &str, version: &str) -> anyhow::Result<ConvertedFile> {
    let config: UpstreamConfig = toml_edit::de::from_str(text).context("parse the rules of gitleaks")?;
    let is_skipped = |rule: &&UpstreamRule| SKIPPED_RULES.iter().any(|(id, _)| *id == rule.id);
    let mut rules = Vec::new();
    for rule in config.rules.iter().filter(|rule| !is_skipped(rule)) {
        rules.push(convert_rule(rule).with_context(|| format!("convert the rule {}", rule.id))?);
    }
    let allow: Vec<String> = config.allowlist.regexes.iter().map(|regex| escape_braces(regex)).collect();
    for pattern in &allow {
        compile_pattern(pattern)?;
    }
    Ok(ConvertedFile {
        name: "gitleaks",
        version: version.to_owned(),
        source: format!("https://github.com/gitleaks/gitleaks/blob/v{version}/config/gitleaks.toml"),
        licence: "MIT",
        skipped: SKIPPED_RULES.iter().map(|(id, reason)| format!("{id}: {reason}")).collect(),
        allow,
        stopwords: config.allowlist.stopwords,
        rules,
    })
}

/// Converts one rule.
fn convert_rule(rule: &UpstreamRule) -> anyhow::Result<ConvertedRule> {
    let regex =
        escape_braces(&rule.regex).replace(ASSIGNMENT, PROSE_ASSIGNMENT).replace(VALUE_END, PROSE_VALUE_END);
    let (start, has_boundary) = strip_head(&regex);
    let known = STARTING_WORDS.iter().find(|(id, _)| *id == rule.id);
    let words = match known {
        Some((_, word)) => Some(vec![(*word).to_owned()]),
        None => starting_words(&start)?,
    };
    let (scope, boundary, pattern, words) = match words {
        Some(words) => {
            let start =
                if rule.regex.contains(ASSIGNMENT) { start } else { end_prefixed_value(rule, &start) };
            ("start", has_boundary.then_some("word"), format!("^(?:{start})"), words)
        }
        None => ("near", None, regex, rule.keywords.iter().map(|word| word.to_lowercase()).collect()),
    };
    let compiled = compile_pattern(&pattern)?;
    let mut allow = Vec::new();
    for list in rule.allowlists.iter().filter(|list| list.regex_target.is_none()) {
        // A pattern that the rule matches is a published key. It stays out of the repository.
        let patterns = list.regexes.iter().filter(|regex| !compiled.is_match(regex.as_bytes()));
        allow.extend(patterns.map(|regex| escape_braces(regex)));
    }
    for pattern in &allow {
        compile_pattern(pattern)?;
    }
    let description = rule.description.split(", ").next().unwrap_or_default();
    Ok(ConvertedRule {
        id: rule.id.clone(),
        description: description.trim_end_matches('.').to_owned(),
        scope,
        words,
        boundary,
        pattern,
        group: if WHOLE_MATCHES.contains(&rule.id.as_str()) { Some(0) } else { rule.secret_group },
        entropy: rule.entropy,
        allow,
    })
}

/// Returns the pattern of a rule whose values begin with a prefix, with the end of such a value.
fn end_prefixed_value(rule: &UpstreamRule, pattern: &str) -> String {
    let other = SLASH_VALUE_ENDS.iter().find(|(id, _)| *id == rule.id);
    pattern.replace(PROSE_VALUE_END, other.map_or(PREFIXED_VALUE_END, |(_, end)| *end))
}

/// Escapes braces that are no repetition. Go accepts them as literals, Rust does not.
fn escape_braces(pattern: &str) -> String {
    let mut escaped = String::with_capacity(pattern.len());
    let mut is_escape = false;
    for (index, character) in pattern.char_indices() {
        let counts = pattern[index + character.len_utf8()..].split('}').next().unwrap_or_default();
        let is_repetition = counts.starts_with(|c: char| c.is_ascii_digit())
            && counts.bytes().all(|b| b.is_ascii_digit() || b == b',');
        if character == '{' && !is_escape && !is_repetition {
            escaped.push('\\');
        }
        escaped.push(character);
        is_escape = character == '\\' && !is_escape;
    }
    escaped
}

/// Removes what stands before the first word of a pattern. Returns the rest, and whether a word boundary was removed.
fn strip_head(pattern: &str) -> (String, bool) {
    let (mut flags, mut rest, mut has_boundary) = ("", pattern, false);
    loop {
        if let Some(next) = rest.strip_prefix("(?i)") {
            (flags, rest) = ("(?i)", next);
        } else if let Some(next) = rest.strip_prefix(NAME_HEAD) {
            rest = next;
        } else if let Some(next) = rest.strip_prefix(r"\b") {
            (rest, has_boundary) = (next, true);
        } else {
            return (format!("{flags}{}", rest.replacen(NAME_HEAD, "", 1)), has_boundary);
        }
    }
}

/// Returns the words in lower case of which every match begins with one, or `None` if a match can begin with anything.
fn starting_words(pattern: &str) -> anyhow::Result<Option<Vec<String>>> {
    // The words are compared without case, so the cases need no expansion.
    let one_case = pattern.replace("(?i)", "").replace("(?i:", "(?:").replace("(?-i:", "(?:");
    let hir = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(&one_case)?;
    for class_max in [10, 40] {
        let mut extractor = Extractor::new();
        extractor.limit_class(class_max).limit_literal_len(WORD_BYTES_MAX).limit_total(4096);
        let literals = extractor.extract(&hir);
        let Some(literals) = literals.literals() else { return Ok(None) };
        let words: Vec<String> = literals
            .iter()
            .map(|literal| String::from_utf8_lossy(literal.as_bytes()).to_lowercase())
            .collect();
        let Some(words) = shorten_words(&words) else { continue };
        return Ok(Some(words));
    }
    Ok(None)
}

/// Returns the words cut to the largest length with which there are at most [`WORDS_MAX`], or `None` if one is shorter
/// than [`WORD_BYTES_MIN`].
fn shorten_words(words: &[String]) -> Option<Vec<String>> {
    if words.iter().any(|word| word.len() < WORD_BYTES_MIN || !word.is_ascii()) {
        return None;
    }
    (WORD_BYTES_MIN..=WORD_BYTES_MAX)
        .rev()
        .map(|bytes| words.iter().map(|word| word[..bytes.min(word.len())].to_owned()).collect())
        .find(|short: &BTreeSet<String>| short.len() <= WORDS_MAX)
        .map(|short| short.into_iter().collect())
}

/// Compiles a pattern as the crate `secrets` does.
fn compile_pattern(pattern: &str) -> anyhow::Result<regex::bytes::Regex> {
    Ok(RegexBuilder::new(pattern).unicode(false).size_limit(PATTERN_BYTES_MAX).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a rule with that pattern, and returns its scope, words and pattern.
    fn convert(regex: &str) -> (String, String, String) {
        let rule = UpstreamRule {
            id: "sample".to_owned(),
            description: "Found a sample, which is bad.".to_owned(),
            regex: regex.to_owned(),
            entropy: None,
            secret_group: None,
            keywords: vec!["Word".to_owned()],
            allowlists: Vec::new(),
        };
        let converted = convert_rule(&rule).unwrap();
        assert_eq!(converted.description, "Found a sample");
        (converted.scope.to_owned(), converted.words.join(" "), converted.pattern)
    }

    #[test]
    fn a_search_begins_at_the_first_word_where_the_pattern_has_one() {
        for (regex, scope, words, pattern) in [
            (r"\b(ab_[a-z]{36})\b", "start", "ab_", r"^(?:(ab_[a-z]{36})\b)"),
            (r"(?i)[\w.-]{0,50}?(?:acme)([0-9a-f]{64})", "start", "acme", "^(?:(?i)(?:acme)([0-9a-f]{64}))"),
            (r"x[rs]y-[A-Z]{9}", "start", "xry- xsy-", "^(?:x[rs]y-[A-Z]{9})"),
            (r"\b[a-z]{14}\.ab", "near", "word", r"\b[a-z]{14}\.ab"),
        ] {
            assert_eq!(convert(regex), (scope.to_owned(), words.to_owned(), pattern.to_owned()), "{regex}");
        }
    }

    #[test]
    fn literal_braces_are_escaped_and_repetitions_are_not() {
        for (pattern, expected) in [
            (r"^\$(?:\d+|{\d+})$", r"^\$(?:\d+|\{\d+})$"),
            ("a{2}b{3,}c{4,5}", "a{2}b{3,}c{4,5}"),
            (r"^\{\{x}}$", r"^\{\{x}}$"),
        ] {
            assert_eq!(escape_braces(pattern), expected);
        }
    }

    #[test]
    fn a_file_without_rules_or_with_a_bad_pattern_is_refused() {
        assert!(convert_config("title = 'x'", "1").is_err());
        let bad = "[allowlist]\n[[rules]]\nid='x'\ndescription='y'\nregex='(abc'\n";
        assert!(format!("{:#}", convert_config(bad, "1").unwrap_err()).contains("convert the rule x"));
    }
}
