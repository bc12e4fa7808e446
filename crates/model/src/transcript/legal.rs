//! Makes a conversation legal. What is wrong with one that is not is said elsewhere, so that each checks the other.

use std::borrow::Cow;

use protocol::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use serde_json::Value;

use super::Profile;
use super::conversation::{Args, Conversation, Own, Piece, Speaker};
use super::media::{Available, Chosen, Left};
use super::pairing::pair;
use super::rename::{Renamed, legal_name};
use crate::name::Provider;

/// What is sent for a call whose result was never recorded.
pub const NO_RESULT: &str = "The call did not finish; no result was recorded.";

/// What is sent for a result without content.
pub const NO_OUTPUT: &str = "(no output)";

/// What is sent in place of a person's words when a conversation begins with the model's.
pub const EARLIER_NOT_SHOWN: &str = "(Earlier messages are not shown.)";

/// What is sent as a person's words when a conversation ends with the model's, or is empty.
pub const GO_ON: &str = "Continue.";

/// Returns the conversation in a form the provider accepts.
///
/// Dangling calls get [`NO_RESULT`]; results without a call, and all but the first result of one, are dropped;
/// results move right behind their batch; neighbours of one role become one message; empty messages go; ids and names
/// are rewritten alike on call and result; media whose bytes are not `available`, or that the provider does not take,
/// become a line of text. Where one of the provider's own signed blocks of reasoning cannot be sent, none of its tool
/// loop is. [`super::violations`] of the outcome is empty, and an outcome passed again stays as it is.
pub fn legal<'a>(messages: &'a [Message], available: &'a Available, profile: &Profile) -> Conversation<'a> {
    let results = pair(messages);
    let mut draft = Draft {
        messages,
        profile: *profile,
        chosen: Chosen::new(messages, available, profile.provider),
        renamed: Renamed::with_capacity(results.len(), profile),
        conversation: Conversation::with_capacity(messages.len()),
        batch: Vec::new(),
    };
    let mut results = results.into_iter();
    let mut reasoning = None;
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Human(human) => {
                if draft.human(index, &human.content) {
                    reasoning = None;
                }
            }
            Message::Ai(ai) => {
                let reasoning = *reasoning.get_or_insert_with(|| draft.reasoning(&messages[index..]));
                draft.model(ai, reasoning);
                draft.results(&mut results);
            }
            // Sent with the call it answers.
            Message::Tool(_) => {}
        }
    }
    draft.conversation.completed()
}

/// What becomes of the reasoning in a tool loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reasoning {
    /// All of it is sent.
    Kept,
    /// Some cannot be sent, so that none is.
    Dropped,
}

/// The conversation as far as it has been made legal.
struct Draft<'a> {
    messages: &'a [Message],
    profile: Profile,
    chosen: Chosen<'a>,
    renamed: Renamed<'a>,
    conversation: Conversation<'a>,
    /// Ids and names of the calls whose results follow.
    batch: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Draft<'a> {
    /// Adds a person's words; returns whether there are any.
    fn human(&mut self, index: usize, content: &'a [Block]) -> bool {
        self.spoken(index, content);
        if self.conversation.unsaid().is_empty() {
            return false;
        }
        match self.conversation.last_speaker() {
            Some(Speaker::Human) => self.conversation.say_on(),
            Some(Speaker::Model | Speaker::Tool { .. }) | None => self.conversation.say(Speaker::Human),
        }
        true
    }

    /// Adds what the model said, its calls included.
    fn model(&mut self, ai: &'a AiMessage, reasoning: Reasoning) {
        for block in &ai.content {
            if let Some(piece) = self.sayable(block, reasoning) {
                self.conversation.add(piece);
            }
        }
        if !self.profile.ends_in_thinking() {
            while matches!(self.conversation.unsaid().last(), Some(Piece::Thinking(_))) {
                self.conversation.take_back();
            }
        }
        if self.conversation.unsaid().iter().all(|piece| matches!(piece, Piece::Thinking(_))) {
            self.conversation.take_all_back();
            return;
        }
        match self.conversation.last_speaker() {
            Some(Speaker::Model) => self.conversation.say_on(),
            Some(Speaker::Human | Speaker::Tool { .. }) | None => self.conversation.say(Speaker::Model),
        }
    }

    /// Adds the results of the batch that was added last.
    fn results(&mut self, results: &mut impl Iterator<Item = Option<usize>>) {
        let mut batch = std::mem::take(&mut self.batch);
        for (call_id, name) in batch.drain(..) {
            let status = self.result(results.next().flatten());
            self.conversation.say(Speaker::Tool { call_id, name, status });
        }
        self.batch = batch;
    }

    fn result(&mut self, index: Option<usize>) -> ToolStatus {
        let Some((index, result)) = index.and_then(|index| Some((index, tool(&self.messages[index])?)))
        else {
            self.conversation.add(Piece::Text(Cow::Borrowed(NO_RESULT)));
            return ToolStatus::Error;
        };
        self.spoken(index, &result.content);
        if self.conversation.unsaid().is_empty() {
            self.conversation.add(Piece::Text(Cow::Borrowed(NO_OUTPUT)));
        }
        result.status
    }

    /// Adds what a person or a tool may send: text, and media if they are at hand.
    fn spoken(&mut self, index: usize, content: &'a [Block]) {
        for block in content {
            match block {
                Block::Text { text } if is_blank(text) => {}
                Block::Text { text } => self.conversation.add(Piece::Text(Cow::Borrowed(text))),
                Block::Media { .. } => self.conversation.add(match self.chosen.media(index, block) {
                    Ok(media) => Piece::Media(media),
                    Err(left) => reference(block, left),
                }),
                Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => {}
            }
        }
    }

    /// Returns the block as the model's own words, unless the provider would refuse it.
    fn sayable(&mut self, block: &'a Block, reasoning: Reasoning) -> Option<Piece<'a>> {
        match block {
            Block::Text { text } => {
                let is_signed = self.profile.provider == Provider::Gemini
                    && self.conversation.unsaid().last().is_some_and(signs_next);
                (is_signed || !is_blank(text)).then(|| Piece::Text(Cow::Borrowed(text)))
            }
            Block::Media { .. } => Some(reference(block, Left::Absent)),
            Block::Thinking { .. } => {
                self.own_thinking(block).filter(|_| reasoning == Reasoning::Kept).map(Piece::Thinking)
            }
            Block::Opaque { provider, raw } => {
                let is_own = provider == self.profile.provider.as_str() && self.profile.takes_opaque(raw);
                is_own.then_some(Piece::Opaque(Own { provider, raw }))
            }
            Block::ToolCall { id, name, args } => {
                let (id, name) = (self.renamed.call_id(id), legal_name(name, &self.profile));
                self.batch.push((id.clone(), name.clone()));
                Some(Piece::Call { id, name, args: legal_args(args) })
            }
        }
    }

    fn own_thinking<'b>(&self, block: &'b Block) -> Option<Own<'b>> {
        let Block::Thinking { provider: Some(provider), raw: Some(raw), .. } = block else { return None };
        let is_own = provider == self.profile.provider.as_str() && self.profile.takes_thinking(raw);
        is_own.then_some(Own { provider, raw })
    }

    /// Returns what becomes of the reasoning in the tool loop that `messages` begin with.
    fn reasoning(&self, messages: &[Message]) -> Reasoning {
        let is_whole = !self.profile.signs_thinking()
            || messages
                .iter()
                .take_while(|message| !matches!(message, Message::Human(human) if speaks(&human.content)))
                .all(|message| match message {
                    Message::Ai(ai) => self.keeps_thinking_of(ai),
                    Message::Human(_) | Message::Tool(_) => true,
                });
        if is_whole { Reasoning::Kept } else { Reasoning::Dropped }
    }

    /// Returns whether all of one message's reasoning can be sent.
    fn keeps_thinking_of(&self, ai: &AiMessage) -> bool {
        let is_thinking = |block: &Block| self.own_thinking(block).is_some();
        let sent = |block: &&Block| match block {
            Block::Text { text } => !is_blank(text),
            Block::Thinking { .. } => is_thinking(block),
            Block::Opaque { provider, raw } => {
                provider == self.profile.provider.as_str() && self.profile.takes_opaque(raw)
            }
            Block::ToolCall { .. } | Block::Media { .. } => true,
        };
        if self.profile.ends_in_thinking() {
            let mut sent = ai.content.iter().filter(sent).peekable();
            return sent.peek().is_none() || sent.any(|block| !is_thinking(block));
        }
        !ai.content.iter().rev().find(sent).is_some_and(is_thinking)
    }
}

impl Conversation<'_> {
    /// Returns the conversation with a person at both ends.
    fn completed(mut self) -> Self {
        match self.last_speaker() {
            None | Some(Speaker::Model) => {
                self.add(Piece::Text(Cow::Borrowed(GO_ON)));
                self.say(Speaker::Human);
            }
            Some(Speaker::Human | Speaker::Tool { .. }) => {}
        }
        match self.said(0).speaker {
            Speaker::Model => self.begin_with(EARLIER_NOT_SHOWN),
            // A tool never speaks before the model that called it.
            Speaker::Human | Speaker::Tool { .. } => {}
        }
        self
    }
}

/// Returns whether reasoning is a signature that belongs to what follows it.
fn signs_next(piece: &Piece<'_>) -> bool {
    matches!(piece, Piece::Thinking(own) if own.raw.get("text").is_none())
}

fn tool(message: &Message) -> Option<&ToolMessage> {
    match message {
        Message::Tool(tool) => Some(tool),
        Message::Human(_) | Message::Ai(_) => None,
    }
}

/// Returns whether a person's message says anything that is sent.
fn speaks(content: &[Block]) -> bool {
    content.iter().any(|block| match block {
        Block::Text { text } => !is_blank(text),
        Block::Media { .. } => true,
        Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => false,
    })
}

/// Providers refuse text that is blank.
fn is_blank(text: &str) -> bool {
    text.trim_start().is_empty()
}

const fn legal_args(args: &Value) -> Args<'_> {
    match args {
        Value::Object(_) => Args::Object(args),
        Value::Null => Args::Empty,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Args::Invalid(args),
    }
}

/// Returns the line that is sent in place of media.
fn reference<'a>(block: &Block, left: Left) -> Piece<'a> {
    let Block::Media { media_type, sha256, bytes } = block else {
        return Piece::Text(Cow::Borrowed("[media: not included]"));
    };
    let kind = if media_type.is_empty() { "media" } else { media_type };
    let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    let hash = sha256.as_ref().map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
    Piece::Text(Cow::Owned(format!("[{kind}{size}{hash}: not included{}]", left.reason())))
}
