//! The line "In use": the few commands, references, files and identifiers that the next turns are most likely to need.

use std::collections::BTreeMap;

use facts::{ConversationFacts, identifier};
use protocol::Seq;

use super::SummaryLine;
use super::section::SectionRequest;

/// The maximum number of names in the line.
const NAMES_MAX: usize = 60;
/// The minimum number of uses of an identifier. One that occurs once is not in use.
const IDENTIFIER_USES_MIN: u32 = 2;

/// Lowercase words of names that stand for a means of payment if they have a number.
const PAYMENT_WORDS: &[&str] = &["card", "certificate", "voucher", "iban", "account", "payment"];
/// The minimum number of digits of the number of a card.
const CARD_DIGITS_MIN: usize = 12;

/// A name that may be in use, with what its score depends on.
struct Candidate<'a> {
    text: &'a str,
    seq: Seq,
    /// Number of uses in tool calls.
    calls: u32,
    /// Number of uses in messages.
    mentions: u32,
    /// The value of its kind: the more specific and the more useful, the higher.
    kind: f64,
}

impl Candidate<'_> {
    /// Returns how likely the name is to be used next, for each character that it takes. The weights were fitted on the
    /// open half of the evaluation set only.
    fn score(&self, facts: &ConversationFacts, last_statement: &str) -> f64 {
        let age = (facts.last_seq.saturating_sub(self.seq) + 1) as f64;
        let length = self.text.chars().count() as f64;
        let (calls, mentions) = (f64::from(self.calls), f64::from(self.mentions));
        let argument_age = if self.calls > 0 { 0.25 * age.ln() } else { 0.0 };
        let is_stated = if last_statement.contains(self.text) { 0.5 } else { 0.0 };
        let weight = 1.4 * (calls + mentions).ln_1p() + 0.9 * mentions.ln_1p()
            - 0.5 * calls.ln_1p()
            - 0.15 * age.ln()
            - argument_age
            + is_stated
            + self.kind
            - 0.3 * length.ln()
            - 2.5;
        1.0 / (1.0 + (-weight).exp()) / (length + 2.0).sqrt()
    }
}

/// Returns the line of the names in use that no earlier section shows, the most likely first.
pub(super) fn in_use(request: &SectionRequest<'_>) -> Vec<SummaryLine> {
    let facts = request.facts;
    let last_statement = facts.statements.last().map_or("", |quote| quote.text.as_str());
    let mut names: Vec<(f64, Candidate<'_>)> = candidates(facts)
        .filter(|name| name.seq >= facts.recent_from && !request.shown.contains(name.text))
        .filter(|name| !is_private_number(name.text))
        .map(|name| (name.score(facts, last_statement), name))
        .collect();
    names.sort_by(|(left, a), (right, b)| right.total_cmp(left).then_with(|| a.text.cmp(b.text)));
    request.sort_by_goal(&mut names, |(_, name)| name.text);
    let relevant = request.goal_relevant_len(&names, |(_, name)| name.text);
    names.truncate(relevant.unwrap_or(names.len()));
    let mut line = SummaryLine { text: "In use:".to_owned(), refs: Vec::new() };
    let mut remaining = request.chars_max.saturating_sub(line.text.len() + 3);
    for (_, name) in names {
        let length = name.text.chars().count() + 2;
        let is_known = line.text.contains(name.text);
        if line.refs.len() >= NAMES_MAX || length > remaining || is_known {
            continue;
        }
        remaining -= length;
        line.text.push_str(if line.refs.is_empty() { " " } else { ", " });
        line.text.push_str(name.text);
        line.refs.push(name.seq);
    }
    if line.refs.is_empty() { Vec::new() } else { vec![line] }
}

/// Returns whether a name is a number of a person and not of the work: of a card or another means of payment, or a date, such
/// as a date of birth.
fn is_private_number(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_only_digits = digits + name.matches(['-', ' ']).count() == name.len();
    let is_date = name.len() == 10 && digits == 8 && is_only_digits;
    let is_payment =
        lower.split(|c: char| !c.is_ascii_alphabetic()).any(|word| PAYMENT_WORDS.contains(&word));
    is_date || digits >= 4 && is_payment || digits >= CARD_DIGITS_MIN && is_only_digits
}

/// Returns the names that may be in use.
fn candidates(facts: &ConversationFacts) -> impl Iterator<Item = Candidate<'_>> {
    let commands = facts.commands.iter().map(|name| Candidate {
        text: &name.text,
        seq: name.seq,
        calls: name.count,
        mentions: 0,
        kind: 0.8,
    });
    let values = facts.argument_values.iter().map(|name| Candidate {
        text: &name.text,
        seq: name.seq,
        calls: name.count,
        mentions: 0,
        kind: 0.6,
    });
    commands.chain(values).chain(file_candidates(facts)).chain(name_candidates(facts))
}

/// Returns the references and identifiers in messages and in the arguments of calls.
fn name_candidates(facts: &ConversationFacts) -> impl Iterator<Item = Candidate<'_>> {
    let mut names: BTreeMap<&str, Candidate<'_>> = BTreeMap::new();
    let references = facts.references.iter().map(|name| (name, false, 0.6));
    let identifiers = facts.identifiers.iter().map(|name| (name, false, -1.1));
    let arguments = facts.argument_names.iter().map(|name| (name, true, -1.1));
    for (name, is_argument, kind) in references.chain(identifiers).chain(arguments) {
        let unused = Candidate { text: &name.text, seq: 0, calls: 0, mentions: 0, kind };
        let known = names.entry(&name.text).or_insert(unused);
        known.seq = known.seq.max(name.seq);
        *(if is_argument { &mut known.calls } else { &mut known.mentions }) += name.count;
    }
    names.into_values().filter(|name| name.kind > 0.0 || name.calls + name.mentions >= IDENTIFIER_USES_MIN)
}

/// Returns the files that calls used or messages name, by their names without folders.
fn file_candidates(facts: &ConversationFacts) -> impl Iterator<Item = Candidate<'_>> {
    let mut files: BTreeMap<&str, Candidate<'_>> = BTreeMap::new();
    let used = facts.files.iter().map(|file| {
        let seq = if file.is_deleted() { 0 } else { file.last_read_seq.max(file.last_write_seq) };
        (file.path.as_str(), seq, file.use_count, 0)
    });
    let mentioned = facts.mentioned_paths.iter().map(|name| (name.text.as_str(), name.seq, 0, name.count));
    for (path, seq, calls, mentions) in used.chain(mentioned) {
        let text = path.rsplit('/').next().unwrap_or(path);
        let is_file = text
            .rsplit_once('.')
            .is_some_and(|(stem, extension)| !stem.is_empty() && identifier::is_extension(extension));
        if !is_file {
            continue;
        }
        let unused = Candidate { text, seq: 0, calls: 0, mentions: 0, kind: 0.5 };
        let file = files.entry(text).or_insert(unused);
        file.seq = file.seq.max(seq);
        file.calls += calls;
        file.mentions += mentions;
    }
    files.into_values()
}
