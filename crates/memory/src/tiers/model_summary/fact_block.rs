//! The block of durable facts in an answer: cut off before the summary is read, and parsed leniently. A missing, malformed or
//! unfinished block has no facts, and never makes the summary unusable.

use journal::{FactKind, FactScope, FactSource, comparison_key};
use model::untrusted_text;
use secrets::redact_and_count;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use super::known_notes::KnownNotes;
use crate::edit::notes::note_text;
use crate::managed_block;
use crate::tiers::turn_text::SummarizerTurn;
use facts::formatting::truncate_with_ellipsis;
use protocol::MessageRole;

/// Maximum number of facts of one answer.
pub(super) const FACTS_MAX: usize = 5;
/// Maximum length of a fact in grapheme clusters. A longer one is dropped, because a part of it could say something else.
pub(super) const FACT_CHARS_MAX: usize = 300;
/// Maximum length of a stored quote in grapheme clusters.
const QUOTE_CHARS_MAX: usize = 300;
/// Minimum length of a quote in characters. A shorter one occurs in nearly every message.
const QUOTE_CHARS_MIN: usize = 5;
/// The tag that opens the block.
const OPEN_TAG: &str = "<durable_facts>";
/// The tag that closes the block.
const CLOSE_TAG: &str = "</durable_facts>";

/// A fact as the model writes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct FactClaim {
    kind: FactKind,
    text: String,
    quote: String,
    #[serde(default)]
    scope: FactScope,
    #[serde(default)]
    replaces: Option<u64>,
}

/// A fact with the message that states it. It is proposed when the summary is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::tiers) struct UnstoredFact {
    pub kind: FactKind,
    pub scope: FactScope,
    pub text: String,
    pub quote: String,
    pub thread_id: protocol::ThreadId,
    pub seq: protocol::Seq,
    pub role: MessageRole,
    /// The note of agent.md that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}

/// A message of a chunk, as the model was shown it.
#[derive(Debug, Clone)]
pub(in crate::tiers) struct QuotableTurn {
    pub source: FactSource,
    /// The comparison key of its text.
    key: String,
}

impl QuotableTurn {
    /// Returns the message with this source.
    pub(in crate::tiers) fn new(source: FactSource, turn: &SummarizerTurn) -> Self {
        Self { source, key: comparison_key(&untrusted_text::strip_hidden_characters(&turn.text)) }
    }
}

/// Splits an answer into the summary and the claims of its block.
pub(super) fn split_answer(answer: &str) -> (String, Vec<FactClaim>) {
    let Some((before, after)) = answer.split_once(OPEN_TAG) else { return (answer.to_owned(), Vec::new()) };
    let (block, rest) = after.split_once(CLOSE_TAG).unwrap_or((after, ""));
    // Some models write the block first.
    let summary = if before.trim().is_empty() { rest } else { before };
    (summary.trim().to_owned(), parse_claims(block))
}

/// Returns the well-formed claims of a block, at most [`FACTS_MAX`].
fn parse_claims(block: &str) -> Vec<FactClaim> {
    let array = block.find('[').zip(block.rfind(']')).and_then(|(start, end)| block.get(start..=end));
    let values: Vec<Value> = array.and_then(|array| serde_json::from_str(array).ok()).unwrap_or_default();
    let claims = values.into_iter().filter_map(|value| serde_json::from_value(value).ok());
    claims.take(FACTS_MAX).collect()
}

/// Returns the fact of a claim whose quote occurs in one of the messages; `None` if the claim has no source, repeats a note,
/// or is empty or too long. A message of the user is preferred.
pub(super) fn check_claim(
    claim: FactClaim,
    turns: &[QuotableTurn],
    notes: &KnownNotes,
) -> Option<UnstoredFact> {
    let quote = to_safe_line(&claim.quote);
    // The message is compared as it was shown, before the quote is redacted again.
    let key = comparison_key(&unescape(&untrusted_text::strip_hidden_characters(&claim.quote)));
    if key.chars().count() < QUOTE_CHARS_MIN {
        return None;
    }
    let mut sources = turns.iter().filter(|turn| turn.key.contains(&key)).map(|turn| turn.source);
    let first = sources.next()?;
    let of_user = std::iter::once(first).chain(sources).find(|source| source.role == MessageRole::User);
    let FactSource { thread_id, seq, role } = of_user.unwrap_or(first);
    let text = to_safe_line(&claim.text);
    let text = note_text(&text).trim().to_owned();
    let length = text.graphemes(true).count();
    if text.is_empty() || length > FACT_CHARS_MAX || notes.contains(&text) {
        return None;
    }
    Some(UnstoredFact {
        kind: claim.kind,
        scope: claim.scope,
        text,
        quote: truncate_with_ellipsis(&quote, QUOTE_CHARS_MAX),
        thread_id,
        seq,
        role,
        replaces: claim.replaces.and_then(|number| notes.note(number)),
    })
}

/// Returns the text on one line, without hidden characters, with its secrets redacted and the tags of the managed block
/// escaped.
fn to_safe_line(text: &str) -> String {
    let visible = untrusted_text::strip_hidden_characters(text);
    let line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let (safe, _) = redact_and_count(&line);
    managed_block::escape_block_tags(&unescape(&safe))
}

/// Returns the text as it was before the prompt escaped it.
fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_block_is_cut_off_and_has_no_facts() {
        let good = r#"{"kind":"name","text":"Ada.","quote":"I am Ada"}"#;
        for (answer, summary, facts) in [
            ("We talked.".to_owned(), "We talked.", 0),
            (format!("We talked.\n\n<durable_facts>[{good}]</durable_facts>"), "We talked.", 1),
            (format!("We talked.\n<durable_facts>\n```json\n[{good}, {good}]\n```\n"), "We talked.", 2),
            (format!("<durable_facts>[{good}]</durable_facts>\nWe talked."), "We talked.", 1),
            (format!("We talked.<durable_facts>[{good}, {{\"kind\":"), "We talked.", 0),
            ("We talked.<durable_facts>none</durable_facts> Bye.".to_owned(), "We talked.", 0),
            ("We talked.<durable_facts>] [</durable_facts>".to_owned(), "We talked.", 0),
            (format!("We talked.<durable_facts>[7, {{}}, {good}, null]</durable_facts>"), "We talked.", 1),
            (
                format!("We talked.<durable_facts>[{}{good}]", format!("{good},").repeat(9)),
                "We talked.",
                FACTS_MAX,
            ),
        ] {
            let (text, claims) = split_answer(&answer);
            assert_eq!((text.as_str(), claims.len()), (summary, facts), "{answer}");
        }
    }
}
