//! The names in use: the few commands, references, files and identifiers that the next turns are most likely to need.

use std::collections::{BTreeMap, HashMap};

use facts::identifier::{self, NameKind};
use facts::{ConversationFacts, NameUsage, tool_use};
use protocol::Seq;

use super::files::short_name;
use super::section::SectionRequest;

/// The maximum number of names.
const NAMES_MAX: usize = 60;

/// Lowercase words of names that stand for a means of payment if they have a number.
const PAYMENT_WORDS: &[&str] = &["card", "certificate", "voucher", "iban", "account", "payment"];
/// The minimum number of digits of the number of a card.
const CARD_DIGITS_MIN: usize = 12;

/// Options that many programs have, and those of git and GitHub's program that only shape the output. No successor has to be told.
const COMMON_OPTIONS: &[&str] = &[
    "--abbrev",
    "--abbrev-ref",
    "--body",
    "--body-file",
    "--color",
    "--decorate",
    "--git-dir",
    "--graph",
    "--help",
    "--line-number",
    "--max-count",
    "--message",
    "--no-color",
    "--no-edit",
    "--no-pager",
    "--no-patch",
    "--oneline",
    "--paginate",
    "--porcelain",
    "--pretty",
    "--quiet",
    "--show-current",
    "--show-toplevel",
    "--title",
    "--verbose",
    "--version",
    "--yes",
];
/// Lowercase names that instructions and examples use for a name to be filled in.
const PLACEHOLDERS: &[&str] = &[
    "filename.py",
    "file.py",
    "newfile.py",
    "file.ts",
    "file.js",
    "filename.ext",
    "file.txt",
    "path/to/file",
    "script_name",
    "file_name",
    "function_name",
    "my_value",
    "my_env_var",
    "my_var",
    "example_response",
    "your_name",
    "foo_bar",
    "issue_description",
];

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InUseKind {
    /// A program with its subcommand.
    Command,
    /// An issue, a hash, a version, a code or an id.
    Reference,
    /// A URL.
    Url,
    /// A file.
    File,
    /// A name in code, or an option.
    Identifier,
}

impl InUseKind {
    /// Returns the value of the kind: the more specific and the more useful, the higher.
    fn value(self) -> f64 {
        match self {
            Self::Reference => 2.2,
            Self::Command | Self::File => 0.8,
            Self::Identifier => 0.0,
            Self::Url => -1.1,
        }
    }
}

/// A name that may be in use, and its uses.
struct Candidate<'a> {
    text: &'a str,
    kind: InUseKind,
    /// The last use.
    seq: Seq,
    /// The last use in a tool call; 0 if there is none.
    call_seq: Seq,
    /// Number of uses in tool calls.
    calls: u32,
    /// Number of uses in messages.
    mentions: u32,
}

/// The state of the thread that the scores of all names depend on.
struct ScoreContext<'a> {
    /// The last event.
    last_seq: Seq,
    /// The first event since the last boundary.
    recent_from: Seq,
    last_statement: &'a str,
    last_request: &'a str,
}

impl Candidate<'_> {
    /// Returns how likely the name is to be used next, for the room that it takes. The weights were fitted on the open half
    /// of the evaluation set only: on each half of it for the other, then on all of it.
    fn score(&self, context: &ScoreContext<'_>) -> f64 {
        let age = |seq: Seq| ((context.last_seq.saturating_sub(seq) + 1) as f64).ln();
        // A name that no call uses is as old as the work.
        let call_seq = if self.calls > 0 { self.call_seq } else { context.recent_from.saturating_sub(1) };
        let length = self.text.chars().count() as f64;
        let bonus = |is_shown: bool, value: f64| if is_shown { value } else { 0.0 };
        let weight = 1.8 * f64::from(self.mentions).ln_1p() + 0.4 * f64::from(self.calls).ln_1p()
            - 0.1 * age(self.seq)
            - 0.5 * age(call_seq)
            + bonus(context.last_statement.contains(self.text), 0.2)
            + bonus(context.last_request.contains(self.text), 0.9)
            + 0.7 * length.ln()
            + self.kind.value()
            - 1.7;
        1.0 / (1.0 + (-weight).exp()) / (length + 2.0).sqrt()
    }
}

/// Returns whether a name contains a secret that the conversation names, or is what redacting one left of a longer name.
fn is_part_of_secret(facts: &ConversationFacts, name: &str) -> bool {
    name.contains("[redacted") || facts.known_secrets.redact(name) != name
}

/// Returns the names in use that no other section shows, the most likely first.
pub(super) fn names_in_use(request: &SectionRequest<'_>) -> Vec<String> {
    let facts = request.facts;
    let context = ScoreContext {
        last_seq: facts.last_seq,
        recent_from: facts.recent_from,
        last_statement: facts.statements.last().map_or("", |quote| quote.text.as_str()),
        last_request: facts.requests.last().map_or("", |quote| quote.text.as_str()),
    };
    let mut names: Vec<(f64, Candidate<'_>)> = candidates(facts)
        .into_values()
        .filter(|name| name.seq >= facts.recent_from)
        .filter(|name| !request.shown.contains(name.text))
        .filter(|name| !is_private_number(name.text) && !is_generic(name.text))
        .filter(|name| !is_part_of_secret(facts, name.text))
        .map(|name| (name.score(&context), name))
        .collect();
    names.sort_by(|(left, a), (right, b)| right.total_cmp(left).then_with(|| a.text.cmp(b.text)));
    request.sort_by_goal(&mut names, |(_, name)| name.text);
    let relevant = request.goal_relevant_len(&names, |(_, name)| name.text);
    names.truncate(relevant.unwrap_or(names.len()));
    let mut chosen: Vec<String> = Vec::new();
    let mut remaining = request.chars_max.saturating_sub("- ".len());
    for (_, name) in names {
        let length = name.text.chars().count() + ", ".len();
        let is_known = chosen.iter().any(|known| known.contains(name.text));
        if chosen.len() >= NAMES_MAX || length > remaining || is_known {
            continue;
        }
        remaining -= length;
        chosen.push(name.text.to_owned());
    }
    chosen
}

/// Returns whether a name is a number of a person and not of the work: of a card or another means of payment.
fn is_private_number(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_only_digits = digits + name.matches(['-', ' ']).count() == name.len();
    let is_payment =
        lower.split(|c: char| !c.is_ascii_alphabetic()).any(|word| PAYMENT_WORDS.contains(&word));
    digits >= 4 && is_payment || digits >= CARD_DIGITS_MIN && is_only_digits
}

/// Returns whether a name tells nothing about the work: an option that many programs have, a placeholder, or a number that text
/// around it would have to explain.
fn is_generic(name: &str) -> bool {
    let is_small_number = name.strip_prefix('#').is_some_and(|number| number.len() == 1);
    COMMON_OPTIONS.contains(&name)
        || is_small_number
        || name.starts_with("...")
        || PLACEHOLDERS.contains(&name.to_ascii_lowercase().as_str())
}

/// Returns the names that may be in use. Files are named without their folders, unless the name alone is ambiguous.
fn candidates(facts: &ConversationFacts) -> BTreeMap<&str, Candidate<'_>> {
    let mut names = CandidateNames::default();
    for file in &facts.files {
        let seq = if file.is_deleted() { 0 } else { file.last_read_seq.max(file.last_write_seq) };
        names.add_file_call(&file.path, seq, file.use_count);
    }
    let deleted = deleted_names(facts);
    // A deleted file is in use again if it is named after its deletion; a temporary one is not.
    let is_in_use = |path: &&NameUsage| {
        deleted.get(short_name(&path.text)).is_none_or(|deleted_seq| path.seq > *deleted_seq)
    };
    for path in facts.argument_paths.iter().filter(is_in_use) {
        names.add_file_call(&path.text, path.seq, path.count);
    }
    let mentioned = facts.mentioned_paths.iter().filter(is_in_use);
    for path in mentioned.filter(|path| tool_use::is_file_path(&path.text)) {
        names.add_mention(short_name(&path.text), InUseKind::File, path);
    }
    for name in &facts.references {
        let is_url = name.text.starts_with("http");
        let kind = if is_url { InUseKind::Url } else { InUseKind::Reference };
        names.add_mention(&name.text, kind, name);
    }
    for name in &facts.identifiers {
        names.add_mention(&name.text, InUseKind::Identifier, name);
    }
    for name in &facts.commands {
        names.add_call(&name.text, InUseKind::Command, name.seq, name.count);
    }
    for name in &facts.argument_values {
        names.add_call(&name.text, InUseKind::Reference, name.seq, name.count);
    }
    for name in &facts.argument_names {
        let is_reference = matches!(identifier::classify_word(&name.text), Some((NameKind::Reference, _)));
        let kind = if is_reference { InUseKind::Reference } else { InUseKind::Identifier };
        names.add_call(&name.text, kind, name.seq, name.count);
    }
    names.by_text
}

/// Returns the short names that only deleted files have, each with the `seq` of the last deletion. Names of temporary files
/// have the highest one.
fn deleted_names(facts: &ConversationFacts) -> HashMap<&str, Seq> {
    let mut names = HashMap::new();
    for file in facts.files.iter().filter(|file| file.is_deleted()) {
        let seq = if file.is_temporary() { Seq::MAX } else { file.deleted_seq };
        let last = names.entry(short_name(&file.path)).or_insert(seq);
        *last = seq.max(*last);
    }
    for file in facts.files.iter().filter(|file| !file.is_deleted()) {
        names.remove(short_name(&file.path));
    }
    names
}

/// The names that may be in use, by text.
#[derive(Default)]
struct CandidateNames<'a> {
    by_text: BTreeMap<&'a str, Candidate<'a>>,
}

impl<'a> CandidateNames<'a> {
    /// Returns the candidate with this text, which is created with the kind if necessary.
    fn entry(&mut self, text: &'a str, kind: InUseKind) -> &mut Candidate<'a> {
        let unused = Candidate { text, kind, seq: 0, call_seq: 0, calls: 0, mentions: 0 };
        self.by_text.entry(text).or_insert(unused)
    }

    /// Adds uses of a name in messages.
    fn add_mention(&mut self, text: &'a str, kind: InUseKind, usage: &NameUsage) {
        let name = self.entry(text, kind);
        name.seq = name.seq.max(usage.seq);
        name.mentions += usage.count;
    }

    /// Adds uses of a name in tool calls, the last by the event `seq`.
    fn add_call(&mut self, text: &'a str, kind: InUseKind, seq: Seq, count: u32) {
        let name = self.entry(text, kind);
        name.seq = name.seq.max(seq);
        name.call_seq = name.call_seq.max(seq);
        name.calls += count;
    }

    /// Adds uses of a file in tool calls, the last by the event `seq`. Other paths are skipped.
    fn add_file_call(&mut self, path: &'a str, seq: Seq, count: u32) {
        if tool_use::is_file_path(path) {
            self.add_call(short_name(path), InUseKind::File, seq, count);
        }
    }
}
