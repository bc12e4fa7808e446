//! The text of a logged message for a summarizer: labelled with its role, with its secrets redacted, cut to a maximum
//! length, and escaped so that it can neither close the block around it nor imitate another message.
//!
//! It does not select messages.

use facts::formatting::truncate_with_ellipsis;
use facts::tool_use::head_words;
use jiff::Timestamp;
use model::untrusted_text;
use protocol::{LoggedMessage, MessageRole};
use secrets::redact_and_count;

/// Maximum length of a message in grapheme clusters (contract §12).
pub(super) const TURN_GRAPHEMES_MAX: usize = 1_500;
/// Maximum bytes of a message that are read, 64 KiB. A grapheme cluster has no maximum length, and a message may have
/// megabytes.
const TURN_BYTES_MAX: usize = 64 * 1024;

/// A logged message that is safe to store in a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SummarizerTurn {
    pub role: MessageRole,
    /// Time of the message.
    pub at: Timestamp,
    /// The beginning of the message, with its secrets redacted. Not escaped.
    pub text: String,
    /// Number of secrets redacted from it.
    pub redacted_secrets: u64,
}

impl SummarizerTurn {
    /// Redacts the message and cuts it to `graphemes_max` grapheme clusters.
    pub(super) fn from_logged(turn: &LoggedMessage, graphemes_max: usize) -> Self {
        let (safe, redacted_secrets) = redact_and_count(head_words(turn.content.trim(), TURN_BYTES_MAX));
        let text = truncate_with_ellipsis(safe.trim(), graphemes_max);
        Self { role: turn.role, at: turn.created_at, text, redacted_secrets }
    }

    /// Returns the message as escaped lines of a conversation, ending with a line break. All lines but the first are
    /// indented, so that a message cannot imitate the start of another one.
    pub(super) fn to_lines(&self) -> String {
        // The text is escaped after it was cut, so that no cut can divide an escape sequence.
        let text = untrusted_text::neutralize(&self.text);
        let mut lines = format!("{}: ", role_label(self.role));
        for (number, line) in text.split(is_line_end).filter(|line| !line.trim().is_empty()).enumerate() {
            if number > 0 {
                lines.push_str("\n  ");
            }
            lines.push_str(line.trim_end());
        }
        lines.push('\n');
        lines
    }
}

/// Returns the label of the role in the prompt.
pub(super) const fn role_label(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "User",
        MessageRole::Assistant => "Assistant",
    }
}

/// Returns whether a reader may take the character for a line break.
const fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
