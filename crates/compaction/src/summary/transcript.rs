//! Rendering messages for a summarizing model: each message as an element of its own, trimmed, redacted and
//! neutralized, in chunks of a given size.

use std::borrow::Cow;
use std::collections::HashMap;

use facts::TranscriptItemKind;
use facts::tool_use::{head_words, tail_words};
use model::tokens::{CHARS_PER_TOKEN, floor_grapheme_boundary, head_end, tail_start, weight};
use model::untrusted_text;
use protocol::message::joined_text;
use protocol::{AiMessage, ContentBlock, Message, Seq, ToolMessage, ToolStatus};
use secrets::redact;

use crate::cut::ContextMessage;

/// The stronger trim limits in tokens that are tried, in order, when the configured one leaves too much text.
const FALLBACK_TRIM_TOKENS: [u64; 4] = [1_000, 300, 80, 20];
/// The maximum size of an element's tags, as a weight. A weight counts characters of ordinary text; characters that
/// take more tokens count more.
const TAGS_WEIGHT_MAX: u64 = 160;
/// The maximum length of a tool's name in characters.
const TOOL_NAME_CHARS: usize = 64;
/// The minimum size of a piece, as a weight, when a long text is divided among chunks.
const PIECE_WEIGHT_MIN: u64 = 200;

/// The limits of a rendered transcript.
#[derive(Debug, Clone, Copy)]
pub(super) struct TranscriptLimits {
    /// The size to which a tool result is trimmed, in tokens; messages of users and models may be longer (see
    /// [`TranscriptRole::token_limit`]). `None` trims nothing.
    pub trim_tokens: Option<u64>,
    /// The maximum size of a chunk in tokens.
    pub chunk_tokens: u64,
    /// The maximum number of chunks.
    pub chunks_max: usize,
}

/// Returns the messages in chunks, in order; `None` when they do not fit even with the strongest trimming.
///
/// Texts are trimmed to the configured size, and further only if they would not fit otherwise.
pub(super) fn render_chunks(messages: &[ContextMessage], limits: TranscriptLimits) -> Option<Vec<String>> {
    let stronger =
        FALLBACK_TRIM_TOKENS.into_iter().filter(|trim| limits.trim_tokens.is_none_or(|set| *trim < set));
    let mut trims = std::iter::once(limits.trim_tokens).chain(stronger.map(Some));
    trims.find_map(|trim| TranscriptChunker::new(limits).pack_messages(messages, trim))
}

/// The role of a text, which gives the element its name.
#[derive(Clone, Copy)]
enum TranscriptRole {
    /// A message of the user.
    User,
    /// A message that a program injected in the user's name.
    Note,
    /// A message of the assistant.
    Assistant,
    /// A tool call.
    Call,
    /// A tool result.
    Result,
    /// A summary from another thread or agent.
    Summary,
}

impl TranscriptRole {
    /// Returns the name of the element.
    const fn element_name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Note => "note",
            Self::Assistant => "assistant",
            Self::Call => "call",
            Self::Result => "result",
            Self::Summary => "summary",
        }
    }

    /// Returns the size to which a text of this role is trimmed, when `trim` is the size for a tool result.
    const fn token_limit(self, trim: u64) -> u64 {
        match self {
            Self::User | Self::Summary => trim * 4,
            Self::Assistant => trim * 2,
            Self::Result => trim,
            Self::Call | Self::Note => trim / 2,
        }
    }
}

/// A writer that fills chunks with elements.
struct TranscriptChunker<'a> {
    /// The limits.
    limits: TranscriptLimits,
    /// The full chunks.
    finished: Vec<String>,
    /// The chunk being filled.
    current: String,
    /// The weight of `current`.
    current_weight: u64,
    /// The tool names of the calls so far, by call id.
    tool_names: HashMap<&'a str, &'a str>,
}

impl<'a> TranscriptChunker<'a> {
    /// Returns a writer without chunks.
    fn new(limits: TranscriptLimits) -> Self {
        Self {
            limits,
            finished: Vec::new(),
            current: String::new(),
            current_weight: 0,
            tool_names: HashMap::new(),
        }
    }

    /// Writes the messages and returns the chunks; `None` when there are too many. Messages of sub-agents are left out.
    fn pack_messages(mut self, messages: &'a [ContextMessage], trim: Option<u64>) -> Option<Vec<String>> {
        for message in messages.iter().filter(|message| !message.item.is_subagent) {
            self.add_message(message, trim);
            if self.finished.len() > self.limits.chunks_max {
                return None;
            }
        }
        self.flush_chunk();
        (self.finished.len() <= self.limits.chunks_max).then_some(self.finished)
    }

    /// Writes the elements of one message.
    fn add_message(&mut self, message: &'a ContextMessage, trim: Option<u64>) {
        let seq = message.item.seq;
        match &message.item.kind {
            TranscriptItemKind::Message(Message::Human(human)) if message.item.is_injected => {
                self.add_text(TranscriptRole::Note, seq, "", &joined_text(&human.content), trim);
            }
            TranscriptItemKind::Message(Message::Human(human)) => {
                let text = message.item.user_text().unwrap_or_default();
                self.add_text(TranscriptRole::User, seq, "", &append_media_lines(text, &human.content), trim);
            }
            TranscriptItemKind::Message(Message::Ai(ai)) => self.add_ai_message(seq, ai, trim),
            TranscriptItemKind::Message(Message::Tool(result)) => self.add_tool_result(seq, result, trim),
            TranscriptItemKind::ImportedSummary(text) | TranscriptItemKind::InheritedSummary { text, .. } => {
                self.add_text(TranscriptRole::Summary, seq, "", text, trim);
            }
            TranscriptItemKind::Note
            | TranscriptItemKind::Boundary
            | TranscriptItemKind::Unreadable
            | TranscriptItemKind::Other => {}
        }
    }

    /// Writes an assistant message and its tool calls.
    fn add_ai_message(&mut self, seq: Seq, ai: &'a AiMessage, trim: Option<u64>) {
        let text = append_media_lines(joined_text(&ai.content), &ai.content);
        let attributes = if ai.incomplete { " incomplete=\"true\"" } else { "" };
        self.add_text(TranscriptRole::Assistant, seq, attributes, &text, trim);
        for block in &ai.content {
            if let ContentBlock::ToolCall { id, name, args } = block {
                self.tool_names.insert(id, name);
                let attributes = format!(" tool=\"{}\"", attribute_value(name));
                self.add_text(TranscriptRole::Call, seq, &attributes, &args.to_string(), trim);
            }
        }
    }

    /// Writes a tool result with the name of its tool.
    fn add_tool_result(&mut self, seq: Seq, result: &'a ToolMessage, trim: Option<u64>) {
        let name = result.name.as_deref().or_else(|| self.tool_names.get(result.call_id.as_str()).copied());
        let mut attributes =
            name.map(|name| format!(" tool=\"{}\"", attribute_value(name))).unwrap_or_default();
        if result.status == ToolStatus::Error {
            attributes.push_str(" failed=\"true\"");
        }
        let text = append_media_lines(joined_text(&result.content), &result.content);
        self.add_text(TranscriptRole::Result, seq, &attributes, &text, trim);
    }

    /// Writes a text as an element, or as several if it is longer than a chunk. A blank text is left out.
    fn add_text(&mut self, role: TranscriptRole, seq: Seq, attributes: &str, text: &str, trim: Option<u64>) {
        let safe = redact(text.trim());
        let shown = match trim {
            Some(trim) => trim_middle(&safe, role.token_limit(trim)),
            None => safe,
        };
        // The text is escaped after trimming, so that a cut cannot split an escape.
        let mut body = untrusted_text::neutralize(shown.trim());
        if body.is_empty() {
            return;
        }
        let name = role.element_name();
        let mut continued = "";
        loop {
            let weight_max = self.chunk_weight().saturating_sub(TAGS_WEIGHT_MAX).max(PIECE_WEIGHT_MIN);
            let following = split_after_weight(&mut body, weight_max);
            self.push_element(&format!("<{name} seq=\"{seq}\"{attributes}{continued}>\n{body}\n</{name}>\n"));
            match following {
                Some(following) => body = following,
                None => return,
            }
            continued = " continued=\"true\"";
        }
    }

    /// Returns the maximum weight of a chunk.
    fn chunk_weight(&self) -> u64 {
        self.limits.chunk_tokens * CHARS_PER_TOKEN
    }

    /// Appends an element to the current chunk, or to a new one if it does not fit.
    fn push_element(&mut self, element: &str) {
        let weight = weight(element);
        if self.current_weight + weight > self.chunk_weight() {
            self.flush_chunk();
        }
        self.current.push_str(element);
        self.current_weight += weight;
    }

    /// Finishes the current chunk unless it is empty.
    fn flush_chunk(&mut self) {
        if !self.current.is_empty() {
            self.finished.push(std::mem::take(&mut self.current));
            self.current_weight = 0;
        }
    }
}

/// Truncates `text` to `weight_max`, between grapheme clusters, and returns the remainder; `None` when the text fits.
fn split_after_weight(text: &mut String, weight_max: u64) -> Option<String> {
    let end = head_end(text, weight_max);
    if end == text.len() {
        return None;
    }
    // A single cluster that is longer than a chunk is split.
    let boundary = Some(floor_grapheme_boundary(text, end)).filter(|boundary| *boundary > 0).unwrap_or(end);
    Some(text.split_off(boundary))
}

/// Returns a text of at most `tokens_max` tokens: a longer text keeps two thirds from its beginning and a third from
/// its end, with a note of the number of omitted characters between them.
pub(super) fn trim_middle(text: &str, tokens_max: u64) -> Cow<'_, str> {
    if model::tokens::fits(text, tokens_max) {
        return Cow::Borrowed(text);
    }
    let weight_max = tokens_max * CHARS_PER_TOKEN;
    let head = head_words(text, head_end(text, weight_max - weight_max / 3));
    let tail = tail_words(text, text.len() - tail_start(text, weight_max / 3));
    let head = &text[..floor_grapheme_boundary(text, head.len())];
    let tail_start_index = floor_grapheme_boundary(text, text.len() - tail.len()).max(head.len());
    let omitted = text[head.len()..tail_start_index].chars().count();
    if omitted == 0 {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{head}\n[… {omitted} characters left out …]\n{}", &text[tail_start_index..]))
}

/// Returns the text with a line for each media block, because media themselves are not shown to the summarizing model.
fn append_media_lines(mut text: String, content: &[ContentBlock]) -> String {
    for block in content {
        if let ContentBlock::Media { media_type, sha256, bytes } = block {
            let kind = if media_type.is_empty() { "media" } else { media_type };
            let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
            let hash = sha256.as_ref().map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
            text.push_str(&format!("\n[{kind}{size}{hash}: not shown]"));
        }
    }
    text
}

/// Returns a tool's name as the value of an attribute: cut to [`TOOL_NAME_CHARS`], and without characters that need
/// escaping.
fn attribute_value(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    name.chars().filter(is_plain).take(TOOL_NAME_CHARS).collect()
}

#[cfg(test)]
pub(super) mod tests;
