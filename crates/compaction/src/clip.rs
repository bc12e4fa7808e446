//! Clipping: a single tool result that is too large for what is kept becomes its ends and a pointer to the whole, which
//! is kept as an artifact of the thread. The stored result stays as it is.

use facts::What;
use facts::tool_use::{head_words, tail_words};
use jiff::Timestamp;
use journal::{ARTIFACT_BYTES_MAX, Artifact, Write};
use model::tokens::{self, CHARS_PER_TOKEN};
use protocol::message::joined_text;
use protocol::{ClippedResult, Message, NewEvent, ThreadId};

use crate::cut::Unit;

/// Hex digits by which a pointer names an artifact.
const NAME_DIGITS: usize = 16;

/// The part of the limit that is kept of a result over it.
const CLIPPED_PART: u64 = 4;

/// A result that is clipped.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clip {
    /// What the journal holds of it.
    pub clipped: ClippedResult,
    /// The whole text, as far as one artifact holds it.
    pub artifact: Artifact,
    /// Tokens it has become, by estimate.
    pub tokens: u64,
}

impl Clip {
    /// Returns the write and the event that clip it.
    pub(crate) fn store(self) -> Result<(Write, NewEvent), serde_json::Error> {
        let event = NewEvent::of(&self.clipped, self.artifact.created_at)?;
        Ok((Write::PutArtifact(self.artifact), event))
    }
}

/// Returns the results among `units` that are larger than `tokens_max`, each clipped to about a quarter of that; the model
/// counts `times` as many tokens as are estimated.
pub(crate) fn clips(
    units: &[Unit],
    tokens_max: u64,
    times: f64,
    thread_id: ThreadId,
    now: Timestamp,
) -> Vec<Clip> {
    // Truncation of a non-negative number is meant.
    let tokens_kept = ((tokens_max / CLIPPED_PART) as f64 / times) as u64;
    let large = units.iter().filter(|unit| unit.tokens > tokens_max);
    large.filter_map(|unit| clip(unit, tokens_kept, thread_id, now)).collect()
}

fn clip(unit: &Unit, tokens_kept: u64, thread_id: ThreadId, now: Timestamp) -> Option<Clip> {
    let What::Message(Message::Tool(result)) = &unit.item.what else { return None };
    let whole = joined_text(&result.content);
    let bytes_kept = usize::try_from(tokens_kept * CHARS_PER_TOKEN).ok()?;
    // A tool says first what it did.
    let (head, tail) = (head_words(&whole, bytes_kept - bytes_kept / 4), tail_words(&whole, bytes_kept / 4));
    let left_out = whole.len().checked_sub(head.len() + tail.len()).filter(|bytes| *bytes > 0)?;
    let stored = &whole[..whole.floor_char_boundary(ARTIFACT_BYTES_MAX)];
    let artifact = Artifact::new(thread_id, "text/plain", stored.as_bytes().to_vec(), now);
    let name = &artifact.sha256[..NAME_DIGITS];
    let shown = match stored.len() == whole.len() {
        true => "all of it".to_owned(),
        false => format!("its first {} bytes", stored.len()),
    };
    let text =
        format!("{head}\n[{left_out} bytes left out; read_file artifact:{name} shows {shown}]\n{tail}");
    let tokens = tokens::estimate(&text) + tokens::TOKENS_PER_MESSAGE;
    let clipped = ClippedResult {
        seq: unit.item.seq,
        call_id: result.call_id.clone(),
        bytes: whole.len() as u64,
        sha256: artifact.sha256.clone(),
        text,
    };
    Some(Clip { clipped, artifact, tokens })
}
