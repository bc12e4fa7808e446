//! A stretch of conversation as a summariser is shown it: each message in an element of its own, trimmed, without secrets
//! and unable to open or close an element; in chunks of a given size. What is made of it is decided elsewhere.

use std::borrow::Cow;
use std::collections::HashMap;

use facts::tool_use::{head_words, tail_words};
use facts::{What, redact};
use model::inert;
use model::tokens::{CHARS_PER_TOKEN, begin_of_tail, cut_at, end_of_head, weight};
use protocol::message::joined_text;
use protocol::{AiMessage, Block, Message, Seq, ToolMessage, ToolStatus};

use crate::cut::Unit;

/// The limits of a text that are tried, in tokens, when those that are configured leave too much.
const STRONGER_TRIMS: [u64; 4] = [1_000, 300, 80, 20];
/// Plain characters of an element's own tags at most.
const TAGS_WEIGHT_MAX: u64 = 160;
/// Characters of a tool's name that are shown.
const TOOL_NAME_CHARS: usize = 64;
/// Plain characters of the smallest piece of a text that is divided among chunks.
const PIECE_WEIGHT_MIN: u64 = 200;

/// How much may be shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Tokens of one tool result; what people and models say has more room. `None` shows all of it.
    pub trim_tokens: Option<u64>,
    pub chunk_tokens: u64,
    pub chunks_max: usize,
}

/// Returns the conversation in chunks, in order; `None` when it does not fit however much is trimmed.
///
/// Texts are trimmed as configured, and more only where they would not fit otherwise.
pub(super) fn chunks(units: &[Unit], room: Room) -> Option<Vec<String>> {
    let stronger = STRONGER_TRIMS.into_iter().filter(|trim| room.trim_tokens.is_none_or(|set| *trim < set));
    let mut trims = std::iter::once(room.trim_tokens).chain(stronger.map(Some));
    trims.find_map(|trim| Packing::of(room).pack(units, trim))
}

/// Who speaks in an element; also its name.
#[derive(Clone, Copy)]
enum Voice {
    User,
    Note,
    Assistant,
    Call,
    Result,
    Summary,
}

impl Voice {
    const fn element(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Note => "note",
            Self::Assistant => "assistant",
            Self::Call => "call",
            Self::Result => "result",
            Self::Summary => "summary",
        }
    }

    /// Returns the tokens of a text of it, where a tool result has `trim`.
    const fn tokens(self, trim: u64) -> u64 {
        match self {
            Self::User | Self::Summary => trim * 4,
            Self::Assistant => trim * 2,
            Self::Result => trim,
            Self::Call | Self::Note => trim / 2,
        }
    }
}

/// Chunks being filled.
struct Packing<'a> {
    room: Room,
    done: Vec<String>,
    current: String,
    current_weight: u64,
    tools: HashMap<&'a str, &'a str>,
}

impl<'a> Packing<'a> {
    fn of(room: Room) -> Self {
        Self { room, done: Vec::new(), current: String::new(), current_weight: 0, tools: HashMap::new() }
    }

    /// Returns the chunks; `None` once they are too many.
    fn pack(mut self, units: &'a [Unit], trim: Option<u64>) -> Option<Vec<String>> {
        for unit in units.iter().filter(|unit| !unit.item.side) {
            self.unit(unit, trim);
            if self.done.len() > self.room.chunks_max {
                return None;
            }
        }
        self.flush();
        (self.done.len() <= self.room.chunks_max).then_some(self.done)
    }

    fn unit(&mut self, unit: &'a Unit, trim: Option<u64>) {
        let seq = unit.item.seq;
        match &unit.item.what {
            What::Message(Message::Human(human)) if unit.item.injected => {
                self.say(Voice::Note, seq, "", &joined_text(&human.content), trim);
            }
            What::Message(Message::Human(human)) => {
                let text = unit.item.user_text().unwrap_or_default();
                self.say(Voice::User, seq, "", &with_media(text, &human.content), trim);
            }
            What::Message(Message::Ai(ai)) => self.answer(seq, ai, trim),
            What::Message(Message::Tool(result)) => self.result(seq, result, trim),
            What::ImportedSummary(text) | What::InheritedSummary { text, .. } => {
                self.say(Voice::Summary, seq, "", text, trim);
            }
            What::Note | What::Boundary | What::Unread | What::Other => {}
        }
    }

    fn answer(&mut self, seq: Seq, ai: &'a AiMessage, trim: Option<u64>) {
        let text = with_media(joined_text(&ai.content), &ai.content);
        let mark = if ai.incomplete { " incomplete=\"true\"" } else { "" };
        self.say(Voice::Assistant, seq, mark, &text, trim);
        for block in &ai.content {
            if let Block::ToolCall { id, name, args } = block {
                self.tools.insert(id, name);
                let mark = format!(" tool=\"{}\"", attribute(name));
                self.say(Voice::Call, seq, &mark, &args.to_string(), trim);
            }
        }
    }

    fn result(&mut self, seq: Seq, result: &'a ToolMessage, trim: Option<u64>) {
        let name = result.name.as_deref().or_else(|| self.tools.get(result.call_id.as_str()).copied());
        let mut mark = name.map(|name| format!(" tool=\"{}\"", attribute(name))).unwrap_or_default();
        if result.status == ToolStatus::Error {
            mark.push_str(" failed=\"true\"");
        }
        let text = with_media(joined_text(&result.content), &result.content);
        self.say(Voice::Result, seq, &mark, &text, trim);
    }

    /// Adds a text in its element, divided where it is longer than a chunk; a blank one is left out.
    fn say(&mut self, voice: Voice, seq: Seq, mark: &str, text: &str, trim: Option<u64>) {
        let safe = redact(text.trim());
        let shown = match trim {
            Some(trim) => trimmed(&safe, voice.tokens(trim)),
            None => safe,
        };
        // Escaped last: nothing that is cut off can take an escape apart.
        let mut body = inert::text(shown.trim());
        if body.is_empty() {
            return;
        }
        let name = voice.element();
        let mut part = "";
        loop {
            let room = self.chunk_weight().saturating_sub(TAGS_WEIGHT_MAX).max(PIECE_WEIGHT_MIN);
            let rest = split_off(&mut body, room);
            self.add(&format!("<{name} seq=\"{seq}\"{mark}{part}>\n{body}\n</{name}>\n"));
            match rest {
                Some(rest) => body = rest,
                None => return,
            }
            part = " continued=\"true\"";
        }
    }

    fn chunk_weight(&self) -> u64 {
        self.room.chunk_tokens * CHARS_PER_TOKEN
    }

    fn add(&mut self, element: &str) {
        let weight = weight(element);
        if self.current_weight + weight > self.chunk_weight() {
            self.flush();
        }
        self.current.push_str(element);
        self.current_weight += weight;
    }

    fn flush(&mut self) {
        if !self.current.is_empty() {
            self.done.push(std::mem::take(&mut self.current));
            self.current_weight = 0;
        }
    }
}

/// Cuts off what is behind the beginning of that weight, between grapheme clusters.
fn split_off(text: &mut String, weight_max: u64) -> Option<String> {
    let end = end_of_head(text, weight_max);
    if end == text.len() {
        return None;
    }
    // One cluster that is longer than a chunk is parted.
    let at = Some(cut_at(text, end)).filter(|at| *at > 0).unwrap_or(end);
    Some(text.split_off(at))
}

/// Returns the beginning and the end of a text that is longer than so many tokens, with a mark of what is left out.
pub(super) fn trimmed(text: &str, tokens_max: u64) -> Cow<'_, str> {
    if model::tokens::fits(text, tokens_max) {
        return Cow::Borrowed(text);
    }
    let weight_max = tokens_max * CHARS_PER_TOKEN;
    let head = head_words(text, end_of_head(text, weight_max - weight_max / 3));
    let tail = tail_words(text, text.len() - begin_of_tail(text, weight_max / 3));
    let head = &text[..cut_at(text, head.len())];
    let from = cut_at(text, text.len() - tail.len()).max(head.len());
    let left_out = text[head.len()..from].chars().count();
    if left_out == 0 {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{head}\n[… {left_out} characters left out …]\n{}", &text[from..]))
}

/// Returns the text with a line for each of the media, which are only named.
fn with_media(mut text: String, content: &[Block]) -> String {
    for block in content {
        if let Block::Media { media_type, sha256, bytes } = block {
            let kind = if media_type.is_empty() { "media" } else { media_type };
            let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
            let hash = sha256.as_ref().map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
            text.push_str(&format!("\n[{kind}{size}{hash}: not shown]"));
        }
    }
    text
}

/// Returns a name as the value of an attribute.
fn attribute(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
    name.chars().filter(is_plain).take(TOOL_NAME_CHARS).collect()
}

#[cfg(test)]
pub(super) mod tests;
