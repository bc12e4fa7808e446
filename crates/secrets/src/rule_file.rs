//! The rule files: their format, and the files that are built in.

use serde::Deserialize;

/// The rules of gitleaks, converted by `cargo xtask secret-rules`.
const GITLEAKS_RULES: &str = include_str!("../rules/gitleaks.json");
/// Segue's own rules.
const SEGUE_RULES: &str = include_str!("../rules/segue.json");

/// A file with rules.
#[derive(Debug, Deserialize)]
pub struct RuleFile {
    /// The name of the rule set.
    pub name: String,
    /// The version of the rule set. Empty for Segue's own.
    #[serde(default)]
    pub version: String,
    /// Patterns of values that are not secrets, for all rules of the file.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Texts that no secret contains, for all rules of the file.
    #[serde(default)]
    pub stopwords: Vec<String>,
    /// The rules.
    pub rules: Vec<RuleRecord>,
}

/// A rule in a file.
#[derive(Debug, Deserialize)]
pub struct RuleRecord {
    /// The id, which names the kind of the secret.
    pub id: String,
    /// A sentence that says what the rule finds.
    pub description: String,
    /// Where the pattern is tried.
    pub scope: RuleScope,
    /// The words by which the rule is tried, in lower case. `[ab]` in a word stands for each of its characters.
    pub words: Vec<String>,
    /// The condition on the text before a match.
    #[serde(default)]
    pub boundary: Boundary,
    /// The pattern. Letters, digits and word boundaries are ASCII.
    pub pattern: String,
    /// The group of the pattern that contains the secret. By default the first group that takes part in the match, or
    /// the whole match.
    pub group: Option<usize>,
    /// Values with this entropy or less are not secrets, in bits for each byte.
    pub entropy: Option<f64>,
    /// A further condition on the value.
    #[serde(default)]
    pub check: ValueCheck,
    /// The commands of which one must call the match as its argument. Empty for a rule of any text.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Patterns of values that are not secrets.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// Where a pattern is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleScope {
    /// At the start of each of the rule's words. The pattern begins with `^`.
    Start,
    /// In the text around each of the rule's words.
    Near,
    /// At the start of each text of three parts with dots between them, of which the second has
    /// [`DOTTED_PART_BYTES`](crate::scan::dotted::DOTTED_PART_BYTES). The pattern begins with `^`.
    Dotted,
}

/// The minimum length of a word that an underscore may join to a name before it, in bytes.
pub const JOINED_WORD_BYTES_MIN: usize = 4;

/// The condition on the text before a match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Anything.
    #[default]
    Any,
    /// No letter or digit, or an escaped line break or tab. An underscore may stand before a word of
    /// [`JOINED_WORD_BYTES_MIN`] or more, as in the file name `backup_ghp_….json`.
    Word,
    /// A space, or the start of the text.
    Space,
    /// A separator of the parameters of a URL.
    Parameter,
}

/// A condition on the value that a pattern has matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueCheck {
    /// No condition.
    #[default]
    None,
    /// The value looks random: it is not made of words.
    Random,
    /// The long parts of the value between dots are scrambled: capitals, small letters and digits alternate.
    Scrambled,
    /// The value contains at least two digits.
    Digit,
    /// The value is no placeholder and no reference.
    Literal,
    /// The value is no placeholder and no reference, and it is no word: it contains a digit or a sign.
    Password,
    /// The body of a private key follows the value.
    PrivateKey,
    /// The lines of a private key stand before the value, which is its last line.
    PrivateKeyEnd,
    /// The value is the first line of the body of a private key, which its further lines follow.
    PrivateKeyBody,
}

/// Returns the built-in rule files.
pub fn builtin_files() -> [RuleFile; 2] {
    [GITLEAKS_RULES, SEGUE_RULES]
        .map(|text| serde_json::from_str(text).expect("the rule files are constants that the tests parse"))
}
