//! A turn as a summariser is shown it: its role before it, without secrets, cut, and unable to end the block it stands in
//! or to pass for another turn. Which turns are shown is decided elsewhere.

use facts::formatting::truncate_with_ellipsis;
use facts::redact_and_count;
use facts::tool_use::head_words;
use jiff::Timestamp;
use model::untrusted_text;
use protocol::{LoggedMessage, MessageRole};

/// Grapheme clusters of a turn that are shown.
pub(super) const TURN_GRAPHEMES_MAX: usize = 1_500;
/// Bytes of a turn that are looked at: a cluster has no end of its own, and a turn may be megabytes.
const TURN_BYTES_MAX: usize = 64 * 1024;

/// The text of a turn that may be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SummarizerTurn {
    pub role: MessageRole,
    pub at: Timestamp,
    /// Its beginning, without secrets.
    pub text: String,
    /// Secrets that were in it.
    pub redacted_secrets: u64,
}

impl SummarizerTurn {
    /// Returns what may be kept of the turn in so many grapheme clusters.
    pub(super) fn from_logged(turn: &LoggedMessage, graphemes_max: usize) -> Self {
        let (safe, redacted_secrets) = redact_and_count(head_words(turn.content.trim(), TURN_BYTES_MAX));
        let text = truncate_with_ellipsis(safe.trim(), graphemes_max);
        Self { role: turn.role, at: turn.created_at, text, redacted_secrets }
    }

    /// Returns the turn as a line, or several, of a conversation: only a new turn begins at the margin.
    pub(super) fn to_lines(&self) -> String {
        // Escaped last: nothing that is cut off can take an escape apart.
        let text = untrusted_text::neutralize(&self.text);
        let mut lines = format!("{}: ", role_label(self.role));
        for (at, line) in text.split(is_line_end).filter(|line| !line.trim().is_empty()).enumerate() {
            if at > 0 {
                lines.push_str("\n  ");
            }
            lines.push_str(line.trim_end());
        }
        lines.push('\n');
        lines
    }
}

/// Returns who speaks, as the prompt names them.
pub(super) const fn role_label(role: MessageRole) -> &'static str {
    match role {
        MessageRole::User => "User",
        MessageRole::Assistant => "Assistant",
    }
}

/// Returns whether a line may be seen to end here.
const fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
