//! Clipping: if a tool result is too large for the kept part of the context, the model is sent its beginning, its end
//! and a pointer to the whole text, which is stored as an artifact of the thread. The stored result is not changed.

use facts::TranscriptItemKind;
use facts::tool_use::{head_words, tail_words};
use jiff::Timestamp;
use journal::{ARTIFACT_BYTES_MAX, Artifact, Write};
use model::tokens::{self, CHARS_PER_TOKEN};
use protocol::message::joined_text;
use protocol::{ClippedResult, Message, NewEvent, ThreadId};

use crate::cut::ContextMessage;

/// The number of hex digits of an artifact's hash in a pointer.
const ARTIFACT_NAME_DIGITS: usize = 16;

/// The divisor that gives the size of a clipped result: a quarter of the limit that it exceeds.
const CLIP_DIVISOR: u64 = 4;

/// A tool result to clip.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResultClip {
    /// The content of the `result_clipped` event.
    pub clipped_result: ClippedResult,
    /// The artifact with the whole text, or with as much of it as an artifact can hold.
    pub artifact: Artifact,
    /// The estimated tokens of the clipped result.
    pub tokens_after: u64,
}

impl ResultClip {
    /// Returns the write of the artifact and the event that clips the result. Both are committed together.
    ///
    /// # Errors
    ///
    /// Never in practice: the event's content is text and numbers.
    pub(crate) fn into_write_and_event(self) -> Result<(Write, NewEvent), serde_json::Error> {
        let event = NewEvent::from_body(&self.clipped_result, self.artifact.created_at)?;
        Ok((Write::PutArtifact(self.artifact), event))
    }
}

/// Returns clips for the tool results among `messages` that have more than `tokens_max` tokens, each to about a
/// quarter of that limit. `estimate_factor` is the number of the model's tokens for one estimated token.
pub(crate) fn clip_large_results(
    messages: &[ContextMessage],
    tokens_max: u64,
    estimate_factor: f64,
    thread_id: ThreadId,
    now: Timestamp,
) -> Vec<ResultClip> {
    // The conversion truncates a non-negative number, as intended.
    let tokens_kept = ((tokens_max / CLIP_DIVISOR) as f64 / estimate_factor) as u64;
    let large = messages.iter().filter(|message| message.tokens > tokens_max);
    large.filter_map(|message| clip_result(message, tokens_kept, thread_id, now)).collect()
}

/// Returns the clip of one message; `None` if it is not a tool result or would not become shorter.
fn clip_result(
    message: &ContextMessage,
    tokens_kept: u64,
    thread_id: ThreadId,
    now: Timestamp,
) -> Option<ResultClip> {
    let TranscriptItemKind::Message(Message::Tool(result)) = &message.item.kind else { return None };
    let whole = joined_text(&result.content);
    let bytes_kept = usize::try_from(tokens_kept * CHARS_PER_TOKEN).ok()?;
    // The beginning gets three quarters, because a tool usually reports its outcome first.
    let (head, tail) = (head_words(&whole, bytes_kept - bytes_kept / 4), tail_words(&whole, bytes_kept / 4));
    let omitted = whole.len().checked_sub(head.len() + tail.len()).filter(|bytes| *bytes > 0)?;
    let stored = &whole[..whole.floor_char_boundary(ARTIFACT_BYTES_MAX)];
    let artifact = Artifact::new(thread_id, "text/plain", stored.as_bytes().to_vec(), now);
    let name = &artifact.sha256[..ARTIFACT_NAME_DIGITS];
    let readable = match stored.len() == whole.len() {
        true => "all of it".to_owned(),
        false => format!("its first {} bytes", stored.len()),
    };
    let text =
        format!("{head}\n[{omitted} bytes left out; read_file artifact:{name} shows {readable}]\n{tail}");
    let tokens = tokens::estimate_tokens(&text) + tokens::TOKENS_PER_MESSAGE;
    let clipped = ClippedResult {
        seq: message.item.seq,
        call_id: result.call_id.clone(),
        bytes: whole.len() as u64,
        sha256: artifact.sha256.clone(),
        text,
    };
    Some(ResultClip { clipped_result: clipped, artifact, tokens_after: tokens })
}
