//! Statements of the assistant that later work or a later statement contradicts, such as "No `package.json` exists" before the
//! file was written, or "I found the flag" before "The flag is wrong".

use std::collections::HashSet;

use facts::identifier::{self, NameKind};
use facts::{ConversationFacts, ValueChange};
use protocol::Seq;

/// Lowercase texts that say that something does not exist.
const ABSENCE_CUES: &[&str] = &[
    "does not exist",
    "doesn't exist",
    "doesn’t exist",
    "do not exist",
    "don't exist",
    "don’t exist",
    "not yet exist",
    "is missing",
    "are missing",
    "there is no ",
    "there's no ",
    "there’s no ",
    "there are no ",
    "no such file",
];
/// Lowercase words that say that something was made.
const CREATION_WORDS: &[&str] = &["created", "added", "wrote", "written", "creating", "adding"];
/// Beginnings of lowercase words that report a success.
const SUCCESS_STEMS: &[&str] = &[
    "found", "find", "fix", "solv", "recover", "work", "pass", "succe", "resolv", "correct", "complete",
    "done", "reproduc", "build", "built", "compil",
];
/// Lowercase words that turn a success into its opposite.
const NEGATIONS: &[&str] = &["not", "never", "cannot", "can't", "couldn't", "unable"];
/// Lowercase words that report a failure without a negation.
const FAILURES: &[&str] =
    &["wrong", "incorrect", "incorrectly", "failed", "fails", "fail", "broken", "unsuccessful"];
/// Lowercase texts with which a sentence withdraws something that was said.
const CORRECTIONS: &[&str] = &["i was wrong", "was wrong", "was mistaken", "correction:", "scratch that"];
/// Lowercase words that tell nothing about the object of a statement.
const STOP_WORDS: &[&str] = &[
    "the",
    "and",
    "that",
    "this",
    "these",
    "those",
    "have",
    "has",
    "had",
    "was",
    "were",
    "are",
    "been",
    "being",
    "with",
    "for",
    "from",
    "into",
    "now",
    "all",
    "its",
    "our",
    "your",
    "you",
    "they",
    "them",
    "looks",
    "look",
    "like",
    "seems",
    "seem",
    "appears",
    "think",
    "believe",
    "successfully",
    "should",
    "would",
    "could",
    "can",
    "will",
    "did",
    "does",
    "still",
    "yet",
    "but",
    "using",
    "used",
    "use",
    "there",
    "here",
    "then",
    "when",
    "which",
    "what",
];

/// A sentence of the assistant as it is compared with others.
struct ComparedStatement {
    /// The event of the sentence.
    seq: Seq,
    /// The result that it reports.
    outcome: StatedOutcome,
    /// True when it corrects something that was said before.
    is_correction: bool,
    /// The lowercase words for what it is about.
    objects: HashSet<String>,
}

/// The result that a sentence reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatedOutcome {
    /// It reports a success.
    Success,
    /// It reports a failure.
    Failure,
    /// It reports no result.
    None,
}

impl ComparedStatement {
    /// Reads a sentence of the event `seq`.
    fn new(seq: Seq, sentence: &str) -> Self {
        let lower = sentence.to_lowercase().replace('’', "'");
        let words = || {
            let is_separator = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\'' | '.' | '-' | '/'));
            lower
                .split(is_separator)
                .map(|word| word.trim_matches(['.', '-', '\'']))
                .filter(|word| !word.is_empty())
        };
        let is_success = |word: &str| SUCCESS_STEMS.iter().any(|stem| word.starts_with(stem));
        let is_negation = |word: &str| NEGATIONS.contains(&word) || word.ends_with("n't");
        let has_success = words().any(is_success);
        let has_failure = words().any(|word| FAILURES.contains(&word));
        let outcome = match (has_success, has_failure, words().any(is_negation)) {
            (_, true, true) => StatedOutcome::None,
            (_, true, false) | (true, false, true) => StatedOutcome::Failure,
            (true, false, false) => StatedOutcome::Success,
            (false, false, _) => StatedOutcome::None,
        };
        let is_object = |word: &&str| {
            word.chars().count() > 2
                && !is_success(word)
                && !is_negation(word)
                && !FAILURES.contains(word)
                && !STOP_WORDS.contains(word)
        };
        let singular =
            |word: &str| word.strip_suffix('s').filter(|word| word.len() > 3).unwrap_or(word).to_owned();
        let is_correction = CORRECTIONS.iter().any(|cue| lower.contains(cue)) && words().any(is_negation)
            || CORRECTIONS.iter().any(|cue| lower.starts_with(cue));
        Self { seq, outcome, is_correction, objects: words().filter(is_object).map(singular).collect() }
    }

    /// Returns whether a later statement reports the opposite result about the same object.
    fn is_contradicted_by(&self, later: &Self) -> bool {
        let is_opposite = matches!(
            (self.outcome, later.outcome),
            (StatedOutcome::Success, StatedOutcome::Failure)
                | (StatedOutcome::Failure, StatedOutcome::Success)
        );
        let shared = self.objects.intersection(&later.objects).count();
        let is_corrected = later.is_correction && !self.is_correction && shared > 1;
        (is_opposite && shared > 0 || is_corrected) && shared * 2 >= self.objects.len()
    }
}

/// Returns for each sentence whether a later one of the same list contradicts it, or the facts do. The sentences are in the order
/// of the thread.
pub(super) fn superseded_sentences(facts: &ConversationFacts, sentences: &[(Seq, &str)]) -> Vec<bool> {
    let compared: Vec<ComparedStatement> =
        sentences.iter().map(|(seq, sentence)| ComparedStatement::new(*seq, sentence)).collect();
    // The sentences of one message are true together.
    let is_contradicted = |index: usize| {
        let statement = &compared[index];
        let mut later = compared[index + 1..].iter().filter(|later| later.seq > statement.seq);
        later.any(|later| statement.is_contradicted_by(later))
    };
    let changes: Vec<(Seq, ValueChange)> =
        sentences.iter().filter_map(|(seq, sentence)| Some((*seq, ValueChange::read(sentence)?))).collect();
    let has_former_value = |index: usize| {
        let (seq, sentence) = sentences[index];
        changes.iter().any(|(later, change)| *later > seq && change.changes(sentence))
    };
    sentences
        .iter()
        .enumerate()
        .map(|(index, (seq, sentence))| {
            contradicts_files(facts, *seq, sentence) || is_contradicted(index) || has_former_value(index)
        })
        .collect()
}

/// Returns whether a sentence of the event `seq` says that a file does not exist which was written since, or that a file was made
/// which was deleted since.
fn contradicts_files(facts: &ConversationFacts, seq: Seq, sentence: &str) -> bool {
    let lower = sentence.to_lowercase();
    let states_no =
        lower.split(|c: char| !c.is_alphanumeric()).any(|word| word == "no") && lower.contains("exist");
    let is_absent = states_no || ABSENCE_CUES.iter().any(|cue| lower.contains(cue));
    let is_made = lower.split(|c: char| !c.is_alphanumeric()).any(|word| CREATION_WORDS.contains(&word));
    if !is_absent && !is_made {
        return false;
    }
    let mut is_contradicted = false;
    identifier::scan_names(sentence, |kind, name| {
        let same = |path: &str| path == name || path.ends_with(&format!("/{name}"));
        is_contradicted |= kind == NameKind::Path
            && facts.files.iter().filter(|file| same(&file.path)).any(|file| {
                is_absent && !file.is_deleted() && file.last_write_seq >= seq
                    || is_made && file.is_deleted() && file.deleted_seq >= seq
            });
    });
    is_contradicted
}

#[cfg(test)]
mod tests {
    use facts::notation::parse_facts;

    use super::*;

    #[test]
    fn a_statement_that_later_work_contradicts_is_superseded() {
        for (earlier, later, expected) in [
            (
                "It looks like we have found the flag.",
                "It seems like we have not recovered the correct flag.",
                true,
            ),
            ("The login test fails on Windows.", "The login test passes on Windows now.", true),
            ("I fixed the parser.", "The lexer is not fixed.", false),
            ("I fixed the parser.", "I fixed the lexer too.", false),
            ("The parser reads both forms.", "The parser does not read a third one.", false),
            (
                "The root cause is a double free in the pool.",
                "I was wrong: the root cause is not a double free.",
                true,
            ),
            ("The pool holds eight connections.", "I was wrong about the double free.", false),
            ("The export works.", "The export is broken on empty tables.", true),
            ("The server listens on port 8080.", "The server now listens on port 9090.", true),
            ("The server listens on port 8080.", "The metrics listen on port 9090.", false),
        ] {
            let sentences = [(2, earlier), (4, later)];
            let facts = ConversationFacts::default();
            assert_eq!(superseded_sentences(&facts, &sentences), [expected, false], "{earlier} / {later}");
        }
    }

    #[test]
    fn a_missing_file_that_was_written_since_is_not_told_as_missing() {
        let facts = parse_facts(
            "U: Add it.\n A: Confirmed: no `package.json` exists.\n C: w Write {\"file_path\":\"/w/package.json\",\"content\":\"{}\"}\n T: w ok\n A: Done.",
        );
        let said =
            |seq, sentence| superseded_sentences(&facts, &[(seq, sentence), (9, "It is in place.")])[0];
        assert!(said(2, "Confirmed: no `package.json` exists."));
        assert!(said(2, "The file package.json is missing."));
        assert!(!said(2, "No `tsconfig.json` exists."));
        assert!(!said(8, "No `package.json` exists."));
    }
}
