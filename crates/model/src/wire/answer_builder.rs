//! The construction of an answer from its parts: blocks in the order in which they started, unique tool-call ids,
//! usage and stop reason. It is independent of wire formats; each provider's decoder calls its methods.

use std::collections::HashSet;
use std::sync::Arc;

use protocol::{AiMessage, ContentBlock, Message, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::AnswerPart;
use crate::name::ModelName;
use crate::wire::fault::AnswerFault;

/// The most blocks of one answer, and the most parts of one event. The longest answers of today have 128,000 tokens: this is
/// one block for every 16 of them. An answer with many small blocks takes several times its own size in memory.
pub(super) const BLOCKS_MAX: usize = 1 << 13;

/// The most JSON values in the arguments of calls and in the provider's own blocks, in one answer: two for each of 128,000
/// tokens. A value takes at least 32 bytes of memory, and may take only two bytes of the answer.
pub(super) const VALUES_MAX: usize = 1 << 18;

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
    /// The number of JSON values in the blocks.
    values: usize,
    /// Set once the answer exceeds a limit. Then blocks and parts are dropped.
    is_too_large: bool,
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
            values: 0,
            is_too_large: false,
            text_key: None,
            thinking_key: None,
            id: None,
            usage: None,
            stop: None,
        }
    }

    /// Returns the parts that were added since the last call.
    ///
    /// # Errors
    /// [`AnswerFault::TooLarge`] if the answer exceeds [`BLOCKS_MAX`] or [`VALUES_MAX`].
    pub(super) fn take_parts(&mut self) -> Result<Vec<AnswerPart>, AnswerFault> {
        match self.is_too_large {
            true => Err(AnswerFault::TooLarge),
            false => Ok(std::mem::take(&mut self.parts)),
        }
    }

    /// Returns true once the answer exceeds a limit. A decoder then skips the rest of the event.
    pub(super) const fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Adds a block, unless the answer has as many as it may have.
    fn push_block(&mut self, key: BlockKey, block: PartialBlock) {
        match self.blocks.len() < BLOCKS_MAX {
            true => self.blocks.push((key, block)),
            false => self.is_too_large = true,
        }
    }

    /// Adds a part, unless the event has as many as it may have.
    fn push_part(&mut self, part: AnswerPart) {
        match self.parts.len() < BLOCKS_MAX {
            true => self.parts.push(part),
            false => self.is_too_large = true,
        }
    }

    /// Adds to the number of JSON values in the blocks.
    const fn count_values(&mut self, added: usize) {
        self.values = self.values.saturating_add(added);
        self.is_too_large |= self.values > VALUES_MAX;
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
            | None => self.push_block(key, PartialBlock::Text(delta.to_owned())),
        }
        let begins_line = self.text_key.replace(key).is_some_and(|previous| previous != key);
        self.push_part(AnswerPart::Text(if begins_line { format!("\n{delta}") } else { delta.to_owned() }));
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
                self.push_block(key, PartialBlock::Thinking { text: delta.to_owned(), raw: None });
            }
        }
        if delta.is_empty() {
            return;
        }
        let begins_line = self.thinking_key.replace(key).is_some_and(|previous| previous != key);
        self.push_part(AnswerPart::Thinking(if begins_line {
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
        self.count_values(count_json_values(&sealed));
        match self.block_mut(key) {
            Some(PartialBlock::Thinking { raw, .. }) => *raw = Some(sealed),
            Some(PartialBlock::Text(_) | PartialBlock::Call { .. } | PartialBlock::Opaque(_)) | None => {
                self.push_block(key, PartialBlock::Thinking { text: String::new(), raw: Some(sealed) });
            }
        }
    }

    /// Starts a tool call at `key`. Its id is replaced if it is empty or in use.
    pub(super) fn begin_call(&mut self, key: BlockKey, id: &str, name: &str) {
        if self.blocks.len() >= BLOCKS_MAX {
            self.is_too_large = true;
            return;
        }
        let id = self.ids.make_unique(id);
        self.push_part(AnswerPart::ToolCall { id: id.clone(), name: name.to_owned() });
        let args = StreamedArguments::Pieces(String::new());
        self.push_block(key, PartialBlock::Call { id, name: name.to_owned(), args });
    }

    /// Appends a delta to the arguments of the call at `key`.
    pub(super) fn push_args(&mut self, key: BlockKey, delta: &str) {
        if let Some(PartialBlock::Call { args: StreamedArguments::Pieces(pieces), .. }) = self.block_mut(key)
        {
            pieces.push_str(delta);
            // Each value in the text has one of these before it, except the first.
            let begins_value = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
            self.count_values(delta.bytes().filter(begins_value).count());
        }
    }

    /// Sets the complete arguments of the call at `key`.
    pub(super) fn set_args(&mut self, key: BlockKey, whole: Value) {
        let added = count_json_values(&whole);
        let Some(PartialBlock::Call { args, .. }) = self.block_mut(key) else { return };
        // Some servers send the whole arguments with every delta.
        let removed = match std::mem::replace(args, StreamedArguments::Whole(whole)) {
            StreamedArguments::Whole(before) => count_json_values(&before),
            StreamedArguments::Pieces(_) => 0,
        };
        self.values = self.values.saturating_sub(removed);
        self.count_values(added);
    }

    /// Sets the complete arguments of the call at `key`, unless deltas have arrived.
    pub(super) fn set_args_if_empty(&mut self, key: BlockKey, whole: &Value) {
        if let Some(PartialBlock::Call { args, .. }) = self.block_mut(key)
            && matches!(args, StreamedArguments::Pieces(pieces) if pieces.is_empty())
        {
            *args = StreamedArguments::Whole(whole.clone());
            self.count_values(count_json_values(whole));
        }
    }

    /// Adds a block that is stored unchanged.
    pub(super) fn push_opaque(&mut self, key: BlockKey, raw: Value) {
        self.count_values(count_json_values(&raw));
        self.push_block(key, PartialBlock::Opaque(raw));
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

/// Returns the number of values in a JSON value, itself included.
fn count_json_values(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(count_json_values).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count_json_values).sum::<usize>(),
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
