//! An answer as it grows: blocks in the order they began, tool-call ids that are unique, usage and the reason to
//! stop. It knows no wire format; each provider's events are turned into calls of this type.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{AiMessage, Block, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::Part;
use crate::name::ModelName;

/// The ids of tool calls that an answer must not repeat, and the beginning of those it invents.
#[derive(Debug, Clone)]
pub(crate) struct CallIds {
    conversation: Arc<Vec<Message>>,
    /// Ids in use; read from the conversation when the answer calls a tool, which most do not.
    used: Option<HashSet<String>>,
    seed: String,
    invented: usize,
}

impl CallIds {
    /// Returns the ids in use by a conversation. `seed` is unique to the answer; ids made from it are too.
    pub(crate) const fn of(conversation: Arc<Vec<Message>>, seed: String) -> Self {
        Self { conversation, used: None, seed, invented: 0 }
    }

    /// Returns `id` if it is one and unused, and another one otherwise. Some servers give none, some count from
    /// zero in every answer.
    fn unique(&mut self, id: &str) -> String {
        let used = self.used.get_or_insert_with(|| {
            self.conversation.iter().flat_map(Message::tool_calls).map(|(id, _, _)| id.to_owned()).collect()
        });
        if !id.is_empty() && used.insert(id.to_owned()) {
            return id.to_owned();
        }
        self.invented += 1;
        format!("call_{}{}", self.seed, self.invented)
    }
}

/// The place of a block in a provider's answer.
pub(super) type Key = (u64, u64);

/// An answer as far as it has arrived.
pub(super) struct Answer {
    model: ModelName,
    ids: CallIds,
    blocks: Vec<(Key, Growing)>,
    parts: Vec<Part>,
    /// The text block that was last added to; another one begins on a new line, as in the whole message.
    text_key: Option<Key>,
    /// The block of reasoning that was last added to; another one begins on a new line too.
    thinking_key: Option<Key>,
    /// The provider's id of the message.
    pub(super) id: Option<String>,
    /// Tokens, as last reported.
    pub(super) usage: Option<Usage>,
    /// Why the model stopped, as reported.
    pub(super) stop: Option<StopReason>,
}

enum Growing {
    Text(String),
    Thinking { text: String, raw: Option<Value> },
    Call { id: String, name: String, args: Args },
    Opaque(Value),
}

/// The arguments of a call: whole, or JSON text in pieces.
enum Args {
    Whole(Value),
    Pieces(String),
}

impl Answer {
    pub(super) fn new(model: &ModelName, ids: CallIds) -> Self {
        Self {
            model: model.clone(),
            ids,
            blocks: Vec::new(),
            parts: Vec::new(),
            text_key: None,
            thinking_key: None,
            id: None,
            usage: None,
            stop: None,
        }
    }

    /// Returns what was added since the last call.
    pub(super) fn take_parts(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.parts)
    }

    fn block(&mut self, key: Key) -> Option<&mut Growing> {
        self.blocks.iter_mut().rev().find(|(at, _)| *at == key).map(|(_, block)| block)
    }

    /// Adds text to the block at `key`, which begins with it if need be.
    pub(super) fn text(&mut self, key: Key, delta: &str) {
        if delta.is_empty() {
            return;
        }
        match self.block(key) {
            Some(Growing::Text(text)) => text.push_str(delta),
            Some(Growing::Thinking { .. } | Growing::Call { .. } | Growing::Opaque(_)) | None => {
                self.blocks.push((key, Growing::Text(delta.to_owned())));
            }
        }
        let begins_line = self.text_key.replace(key).is_some_and(|before| before != key);
        self.parts.push(Part::Text(if begins_line { format!("\n{delta}") } else { delta.to_owned() }));
    }

    /// Returns whether a text block at `key` has begun.
    pub(super) fn has_text(&mut self, key: Key) -> bool {
        matches!(self.block(key), Some(Growing::Text(_)))
    }

    /// Adds reasoning to the block at `key`, which begins with it if need be.
    pub(super) fn thinking(&mut self, key: Key, delta: &str) {
        match self.block(key) {
            Some(Growing::Thinking { text, .. }) => text.push_str(delta),
            Some(Growing::Text(_) | Growing::Call { .. } | Growing::Opaque(_)) | None => {
                self.blocks.push((key, Growing::Thinking { text: delta.to_owned(), raw: None }));
            }
        }
        if delta.is_empty() {
            return;
        }
        let begins_line = self.thinking_key.replace(key).is_some_and(|before| before != key);
        self.parts.push(Part::Thinking(if begins_line { format!("\n{delta}") } else { delta.to_owned() }));
    }

    /// Returns the reasoning at `key` so far.
    pub(super) fn thinking_so_far(&mut self, key: Key) -> &str {
        match self.block(key) {
            Some(Growing::Thinking { text, .. }) => text,
            Some(Growing::Text(_) | Growing::Call { .. } | Growing::Opaque(_)) | None => "",
        }
    }

    /// Sets the provider's own block for the reasoning at `key`, to be replayed unchanged.
    pub(super) fn seal_thinking(&mut self, key: Key, sealed: Value) {
        match self.block(key) {
            Some(Growing::Thinking { raw, .. }) => *raw = Some(sealed),
            Some(Growing::Text(_) | Growing::Call { .. } | Growing::Opaque(_)) | None => {
                self.blocks.push((key, Growing::Thinking { text: String::new(), raw: Some(sealed) }));
            }
        }
    }

    /// Begins a tool call.
    pub(super) fn call(&mut self, key: Key, id: &str, name: &str) {
        let id = self.ids.unique(id);
        self.parts.push(Part::ToolCall { id: id.clone(), name: name.to_owned() });
        self.blocks
            .push((key, Growing::Call { id, name: name.to_owned(), args: Args::Pieces(String::new()) }));
    }

    /// Adds to the arguments of the call at `key`.
    pub(super) fn args(&mut self, key: Key, delta: &str) {
        if let Some(Growing::Call { args: Args::Pieces(pieces), .. }) = self.block(key) {
            pieces.push_str(delta);
        }
    }

    /// Sets the whole arguments of the call at `key`.
    pub(super) fn whole_args(&mut self, key: Key, whole: Value) {
        if let Some(Growing::Call { args, .. }) = self.block(key) {
            *args = Args::Whole(whole);
        }
    }

    /// Sets the whole arguments of the call at `key` unless pieces of them have arrived.
    pub(super) fn args_unless_pieces(&mut self, key: Key, whole: &Value) {
        if let Some(Growing::Call { args, .. }) = self.block(key)
            && matches!(args, Args::Pieces(pieces) if pieces.is_empty())
        {
            *args = Args::Whole(whole.clone());
        }
    }

    /// Adds a block that is kept as it came.
    pub(super) fn opaque(&mut self, key: Key, raw: Value) {
        self.blocks.push((key, Growing::Opaque(raw)));
    }

    /// Returns the whole answer.
    pub(super) fn finish(self) -> AiMessage {
        let provider = self.model.provider.as_str();
        let content: Vec<Block> =
            self.blocks.into_iter().map(|(_, block)| block.whole(provider)).filter(has_content).collect();
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
        // Several servers say `stop` although they call tools.
        let stop = match self.stop {
            Some(StopReason::EndTurn) if calls => Some(StopReason::ToolCalls),
            Some(StopReason::ToolCalls) if !calls => Some(StopReason::EndTurn),
            stop => stop,
        };
        let model = Some(self.model.to_string());
        AiMessage { id: self.id, content, model, usage: self.usage, stop, ..AiMessage::default() }
    }
}

impl Growing {
    fn whole(self, provider: &str) -> Block {
        match self {
            Self::Text(text) => Block::Text { text },
            Self::Thinking { text, raw } => {
                Block::Thinking { text, provider: Some(provider.to_owned()), raw }
            }
            Self::Call { id, name, args } => Block::ToolCall { id, name, args: args.whole() },
            Self::Opaque(raw) => Block::Opaque { provider: provider.to_owned(), raw },
        }
    }
}

fn has_content(block: &Block) -> bool {
    match block {
        Block::Text { text } => !text.is_empty(),
        Block::Thinking { text, raw, .. } => !text.is_empty() || raw.is_some(),
        Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => true,
    }
}

impl Args {
    /// Returns the arguments as JSON; text that is none, such as a call cut short, is kept as a string.
    fn whole(self) -> Value {
        match self {
            Self::Whole(Value::Null) => json!({}),
            Self::Whole(value) => value,
            Self::Pieces(pieces) if pieces.trim().is_empty() => json!({}),
            Self::Pieces(pieces) => match serde_json::from_str(&pieces) {
                Ok(Value::Null) => json!({}),
                Ok(value) => value,
                Err(_) => Value::String(pieces),
            },
        }
    }
}
