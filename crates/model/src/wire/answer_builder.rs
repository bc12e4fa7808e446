//! The construction of an answer from its parts: blocks in the order in which they started, unique tool-call ids,
//! usage and stop reason. It is independent of wire formats; each provider's decoder calls its methods.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{AiMessage, ContentBlock, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::name::ModelName;

/// An allocator for the ids of an answer's tool calls. They must not repeat an id of the conversation.
#[derive(Debug, Clone)]
pub(crate) struct CallIds {
    /// The conversation that the answer belongs to.
    conversation: Arc<Vec<Message>>,
    /// The ids in use. They are collected when the answer first calls a tool, because most answers do not.
    used: Option<HashSet<String>>,
    /// The prefix of generated ids; unique to the answer.
    seed: String,
    /// The number of ids that were generated.
    generated: usize,
}

impl CallIds {
    /// Returns an allocator for an answer to this conversation. `seed` must be unique to the answer, so that
    /// generated ids are unique, too.
    pub(crate) const fn for_conversation(conversation: Arc<Vec<Message>>, seed: String) -> Self {
        Self { conversation, used: None, seed, generated: 0 }
    }

    /// Returns `id` if it is not empty and unused, otherwise a generated id. Some servers send no ids, and some
    /// count from zero in every answer.
    fn make_unique(&mut self, id: &str) -> String {
        let used = self.used.get_or_insert_with(|| {
            self.conversation.iter().flat_map(Message::tool_calls).map(|(id, _, _)| id.to_owned()).collect()
        });
        if !id.is_empty() && used.insert(id.to_owned()) {
            return id.to_owned();
        }
        self.generated += 1;
        format!("call_{}{}", self.seed, self.generated)
    }
}

/// The key of a block in a provider's answer. Each decoder chooses the two numbers.
pub(super) type BlockKey = (u64, u64);

/// An answer that is being received.
pub(super) struct AnswerBuilder {
    /// The model that answers.
    model: ModelName,
    /// The allocator of call ids.
    ids: CallIds,
    /// The blocks with their keys, in the order in which they started.
    blocks: Vec<(BlockKey, PartialBlock)>,
    /// The parts that were not returned yet.
    parts: Vec<AnswerPart>,
    /// The key of the text block that was last extended. Text of another block begins on a new line, as in the
    /// complete message.
    text_key: Option<BlockKey>,
    /// The key of the block of reasoning that was last extended. Another block begins on a new line, too.
    thinking_key: Option<BlockKey>,
    /// The provider's id of the message.
    pub(super) id: Option<String>,
    /// The usage as last reported.
    pub(super) usage: Option<Usage>,
    /// The stop reason as reported.
    pub(super) stop: Option<StopReason>,
}

/// A block that is being received.
enum PartialBlock {
    /// A text.
    Text(String),
    /// Reasoning, with the provider's own block once it is complete.
    Thinking { text: String, raw: Option<Value> },
    /// A tool call.
    Call { id: String, name: String, args: StreamedArguments },
    /// A block that only the provider can interpret.
    Opaque(Value),
}

/// The arguments of a call that is being received.
enum StreamedArguments {
    /// The complete arguments.
    Whole(Value),
    /// The deltas so far, which add up to JSON text.
    Pieces(String),
}

impl AnswerBuilder {
    /// Returns an answer without content.
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

    /// Returns the parts that were added since the last call.
    pub(super) fn take_parts(&mut self) -> Vec<AnswerPart> {
        std::mem::take(&mut self.parts)
    }

    /// Returns the newest block with this key.
    fn block_mut(&mut self, key: BlockKey) -> Option<&mut PartialBlock> {
        self.blocks.iter_mut().rev().find(|(block_key, _)| *block_key == key).map(|(_, block)| block)
    }

    /// Appends text to the text block at `key`, and starts the block if necessary.
    pub(super) fn push_text(&mut self, key: BlockKey, delta: &str) {
        if delta.is_empty() {
            return;
        }
        match self.block_mut(key) {
            Some(PartialBlock::Text(text)) => text.push_str(delta),
            Some(PartialBlock::Thinking { .. } | PartialBlock::Call { .. } | PartialBlock::Opaque(_))
            | None => {
                self.blocks.push((key, PartialBlock::Text(delta.to_owned())));
            }
        }
        let begins_line = self.text_key.replace(key).is_some_and(|previous| previous != key);
        self.parts.push(AnswerPart::Text(if begins_line { format!("\n{delta}") } else { delta.to_owned() }));
    }

    /// Returns whether a text block at `key` was started.
    pub(super) fn has_text(&mut self, key: BlockKey) -> bool {
        matches!(self.block_mut(key), Some(PartialBlock::Text(_)))
    }

    /// Appends reasoning to the block at `key`, and starts the block if necessary.
    pub(super) fn push_thinking(&mut self, key: BlockKey, delta: &str) {
        match self.block_mut(key) {
            Some(PartialBlock::Thinking { text, .. }) => text.push_str(delta),
            Some(PartialBlock::Text(_) | PartialBlock::Call { .. } | PartialBlock::Opaque(_)) | None => {
                self.blocks.push((key, PartialBlock::Thinking { text: delta.to_owned(), raw: None }));
            }
        }
        if delta.is_empty() {
            return;
        }
        let begins_line = self.thinking_key.replace(key).is_some_and(|previous| previous != key);
        self.parts.push(AnswerPart::Thinking(if begins_line {
            format!("\n{delta}")
        } else {
            delta.to_owned()
        }));
    }

    /// Returns the reasoning of the block at `key` so far.
    pub(super) fn thinking_so_far(&mut self, key: BlockKey) -> &str {
        match self.block_mut(key) {
            Some(PartialBlock::Thinking { text, .. }) => text,
            Some(PartialBlock::Text(_) | PartialBlock::Call { .. } | PartialBlock::Opaque(_)) | None => "",
        }
    }

    /// Sets the provider's own block for the reasoning at `key`. It is sent back to the provider unchanged.
    pub(super) fn seal_thinking(&mut self, key: BlockKey, sealed: Value) {
        match self.block_mut(key) {
            Some(PartialBlock::Thinking { raw, .. }) => *raw = Some(sealed),
            Some(PartialBlock::Text(_) | PartialBlock::Call { .. } | PartialBlock::Opaque(_)) | None => {
                self.blocks.push((key, PartialBlock::Thinking { text: String::new(), raw: Some(sealed) }));
            }
        }
    }

    /// Starts a tool call at `key`. Its id is replaced if it is empty or in use.
    pub(super) fn begin_call(&mut self, key: BlockKey, id: &str, name: &str) {
        let id = self.ids.make_unique(id);
        self.parts.push(AnswerPart::ToolCall { id: id.clone(), name: name.to_owned() });
        self.blocks.push((
            key,
            PartialBlock::Call { id, name: name.to_owned(), args: StreamedArguments::Pieces(String::new()) },
        ));
    }

    /// Appends a delta to the arguments of the call at `key`.
    pub(super) fn push_args(&mut self, key: BlockKey, delta: &str) {
        if let Some(PartialBlock::Call { args: StreamedArguments::Pieces(pieces), .. }) = self.block_mut(key)
        {
            pieces.push_str(delta);
        }
    }

    /// Sets the complete arguments of the call at `key`.
    pub(super) fn set_args(&mut self, key: BlockKey, whole: Value) {
        if let Some(PartialBlock::Call { args, .. }) = self.block_mut(key) {
            *args = StreamedArguments::Whole(whole);
        }
    }

    /// Sets the complete arguments of the call at `key`, unless deltas have arrived.
    pub(super) fn set_args_if_empty(&mut self, key: BlockKey, whole: &Value) {
        if let Some(PartialBlock::Call { args, .. }) = self.block_mut(key)
            && matches!(args, StreamedArguments::Pieces(pieces) if pieces.is_empty())
        {
            *args = StreamedArguments::Whole(whole.clone());
        }
    }

    /// Adds a block that is stored unchanged.
    pub(super) fn push_opaque(&mut self, key: BlockKey, raw: Value) {
        self.blocks.push((key, PartialBlock::Opaque(raw)));
    }

    /// Returns the answer. Blocks without content are dropped, and the stop reason is corrected to match the
    /// calls.
    pub(super) fn finish(self) -> AiMessage {
        let provider = self.model.provider.as_str();
        let content: Vec<ContentBlock> = self
            .blocks
            .into_iter()
            .map(|(_, block)| block.into_block(provider))
            .filter(has_content)
            .collect();
        let calls = content.iter().any(|block| matches!(block, ContentBlock::ToolCall { .. }));
        // Several servers report `stop` although they call tools.
        let stop = match self.stop {
            Some(StopReason::EndTurn) if calls => Some(StopReason::ToolCalls),
            Some(StopReason::ToolCalls) if !calls => Some(StopReason::EndTurn),
            stop => stop,
        };
        let model = Some(self.model.to_string());
        AiMessage { id: self.id, content, model, usage: self.usage, stop, ..AiMessage::default() }
    }
}

impl PartialBlock {
    /// Returns the block of the finished answer.
    fn into_block(self, provider: &str) -> ContentBlock {
        match self {
            Self::Text(text) => ContentBlock::Text { text },
            Self::Thinking { text, raw } => {
                ContentBlock::Thinking { text, provider: Some(provider.to_owned()), raw }
            }
            Self::Call { id, name, args } => ContentBlock::ToolCall { id, name, args: args.into_value() },
            Self::Opaque(raw) => ContentBlock::Opaque { provider: provider.to_owned(), raw },
        }
    }
}

/// Returns whether the block has any content.
fn has_content(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text { text } => !text.is_empty(),
        ContentBlock::Thinking { text, raw, .. } => !text.is_empty() || raw.is_some(),
        ContentBlock::ToolCall { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => true,
    }
}

impl StreamedArguments {
    /// Returns the arguments as JSON. Text that is not JSON, such as that of a truncated call, is kept as a
    /// string.
    fn into_value(self) -> Value {
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
