//! The conversion of a conversation into a legal one. The rules are checked independently by `violation`.

use std::borrow::Cow;

use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::Value;

use super::ProviderProfile;
use super::conversation::{CallArguments, Conversation, MessagePiece, ProviderBlock, Speaker};
use super::legal_ids::{CallIdAllocator, legal_name};
use super::media::{AvailableMedia, MediaSelection, OmissionReason};
use super::pairing::pair_results;
use crate::name::Provider;

/// The text of a result for a call whose result was never recorded.
pub const NO_RESULT: &str = "The call did not finish; no result was recorded.";

/// The text of a result without content.
pub const NO_OUTPUT: &str = "(no output)";

/// The text of a person's message that is inserted when a conversation begins with the model.
pub const EARLIER_MESSAGES_NOTE: &str = "(Earlier messages are not shown.)";

/// The text of a person's message that is added when a conversation ends with the model or is empty.
pub const CONTINUE_PROMPT: &str = "Continue.";

/// Returns the conversation in a form that the provider accepts.
///
/// - A call without a result gets [`NO_RESULT`]. Results without a call are dropped, and so are all but the first
///   result of a call. Results move directly behind their batch of calls.
/// - Adjacent messages of one role are merged, and empty messages are dropped.
/// - Ids and names are rewritten consistently in calls and results.
/// - Media become a line of text if their bytes are not `available` or the provider does not accept them.
/// - If one of the provider's own signed blocks of reasoning cannot be sent, all reasoning of its tool loop is
///   dropped.
///
/// [`super::find_violations`] finds nothing in the result, and converting the result again changes nothing.
pub fn legalize<'a>(
    messages: &'a [Message],
    available: &'a AvailableMedia,
    profile: &ProviderProfile,
) -> Conversation<'a> {
    let results = pair_results(messages);
    let mut builder = ConversationBuilder {
        messages,
        profile: *profile,
        media: MediaSelection::new(messages, available, profile.provider),
        call_ids: CallIdAllocator::with_capacity(results.len(), profile),
        conversation: Conversation::with_capacity(messages.len()),
        batch: Vec::new(),
    };
    let mut results = results.into_iter();
    let mut reasoning = None;
    for (index, message) in messages.iter().enumerate() {
        match message {
            Message::Human(human) => {
                if builder.add_human(index, &human.content) {
                    reasoning = None;
                }
            }
            Message::Ai(ai) => {
                let reasoning =
                    *reasoning.get_or_insert_with(|| builder.reasoning_policy(&messages[index..]));
                builder.add_model(ai, reasoning);
                builder.add_results(&mut results);
            }
            // A result is sent with the call that it answers.
            Message::Tool(_) => {}
        }
    }
    builder.conversation.with_human_ends()
}

/// The treatment of the reasoning in one tool loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReasoningPolicy {
    /// All reasoning is sent.
    Keep,
    /// No reasoning is sent, because some of it cannot be.
    Drop,
}

/// A conversation that is being made legal.
struct ConversationBuilder<'a> {
    /// The original messages.
    messages: &'a [Message],
    /// The rules of the provider.
    profile: ProviderProfile,
    /// The media that are sent.
    media: MediaSelection<'a>,
    /// The ids that were assigned so far.
    call_ids: CallIdAllocator<'a>,
    /// The legal conversation so far.
    conversation: Conversation<'a>,
    /// The ids and names of the last message's calls, whose results follow.
    batch: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> ConversationBuilder<'a> {
    /// Adds a message of a person. Returns false if it has no content to send.
    fn add_human(&mut self, index: usize, content: &'a [ContentBlock]) -> bool {
        self.add_content(index, content);
        if self.conversation.pending_pieces().is_empty() {
            return false;
        }
        match self.conversation.last_speaker() {
            Some(Speaker::Human) => self.conversation.extend_last_message(),
            Some(Speaker::Model | Speaker::Tool { .. }) | None => {
                self.conversation.finish_message(Speaker::Human)
            }
        }
        true
    }

    /// Adds a message of the model, including its calls.
    fn add_model(&mut self, ai: &'a AiMessage, reasoning: ReasoningPolicy) {
        for block in &ai.content {
            if let Some(piece) = self.model_piece(block, reasoning) {
                self.conversation.push_piece(piece);
            }
        }
        if !self.profile.allows_trailing_thinking() {
            while matches!(self.conversation.pending_pieces().last(), Some(MessagePiece::Thinking(_))) {
                self.conversation.pop_piece();
            }
        }
        if self.conversation.pending_pieces().iter().all(|piece| matches!(piece, MessagePiece::Thinking(_))) {
            self.conversation.discard_pending();
            return;
        }
        match self.conversation.last_speaker() {
            Some(Speaker::Model) => self.conversation.extend_last_message(),
            Some(Speaker::Human | Speaker::Tool { .. }) | None => {
                self.conversation.finish_message(Speaker::Model)
            }
        }
    }

    /// Adds the results of the last batch of calls.
    fn add_results(&mut self, results: &mut impl Iterator<Item = Option<usize>>) {
        let mut batch = std::mem::take(&mut self.batch);
        for (call_id, name) in batch.drain(..) {
            let status = self.add_result(results.next().flatten());
            self.conversation.finish_message(Speaker::Tool { call_id, name, status });
        }
        self.batch = batch;
    }

    /// Adds the content of one result and returns its status. `index` is the message with the result, if there is
    /// one.
    fn add_result(&mut self, index: Option<usize>) -> ToolStatus {
        let Some((index, result)) = index.and_then(|index| Some((index, as_tool(&self.messages[index])?)))
        else {
            self.conversation.push_piece(MessagePiece::Text(Cow::Borrowed(NO_RESULT)));
            return ToolStatus::Error;
        };
        self.add_content(index, &result.content);
        if self.conversation.pending_pieces().is_empty() {
            self.conversation.push_piece(MessagePiece::Text(Cow::Borrowed(NO_OUTPUT)));
        }
        result.status
    }

    /// Adds the content of a person or a tool: texts, and media if they can be sent.
    fn add_content(&mut self, index: usize, content: &'a [ContentBlock]) {
        for block in content {
            match block {
                ContentBlock::Text { text } if is_blank(text) => {}
                ContentBlock::Text { text } => {
                    self.conversation.push_piece(MessagePiece::Text(Cow::Borrowed(text)))
                }
                ContentBlock::Media { .. } => {
                    self.conversation.push_piece(match self.media.media(index, block) {
                        Ok(media) => MessagePiece::Media(media),
                        Err(reason) => media_note(block, reason),
                    })
                }
                ContentBlock::Thinking { .. }
                | ContentBlock::ToolCall { .. }
                | ContentBlock::Opaque { .. } => {}
            }
        }
    }

    /// Returns the piece for a block of the model; `None` if the provider would refuse it.
    fn model_piece(
        &mut self,
        block: &'a ContentBlock,
        reasoning: ReasoningPolicy,
    ) -> Option<MessagePiece<'a>> {
        match block {
            ContentBlock::Text { text } => {
                let is_signed = self.profile.provider == Provider::Gemini
                    && self.conversation.pending_pieces().last().is_some_and(is_signature_for_next);
                (is_signed || !is_blank(text)).then(|| MessagePiece::Text(Cow::Borrowed(text)))
            }
            ContentBlock::Media { .. } => Some(media_note(block, OmissionReason::BytesMissing)),
            ContentBlock::Thinking { .. } => self
                .thinking_block(block)
                .filter(|_| reasoning == ReasoningPolicy::Keep)
                .map(MessagePiece::Thinking),
            ContentBlock::Opaque { provider, raw } => {
                let is_own = provider == self.profile.provider.as_str() && self.profile.accepts_opaque(raw);
                is_own.then_some(MessagePiece::Opaque(ProviderBlock { provider, raw }))
            }
            ContentBlock::ToolCall { id, name, args } => {
                let (id, name) = (self.call_ids.allocate(id), legal_name(name, &self.profile));
                self.batch.push((id.clone(), name.clone()));
                Some(MessagePiece::Call { id, name, args: call_arguments(args) })
            }
        }
    }

    /// Returns the block of reasoning if the provider accepts it back.
    fn thinking_block<'b>(&self, block: &'b ContentBlock) -> Option<ProviderBlock<'b>> {
        let ContentBlock::Thinking { provider: Some(provider), raw: Some(raw), .. } = block else {
            return None;
        };
        let is_own = provider == self.profile.provider.as_str() && self.profile.accepts_thinking(raw);
        is_own.then_some(ProviderBlock { provider, raw })
    }

    /// Returns the treatment of the reasoning in the tool loop at the beginning of `messages`.
    fn reasoning_policy(&self, messages: &[Message]) -> ReasoningPolicy {
        let can_send_all = !self.profile.has_signed_thinking()
            || messages
                .iter()
                .take_while(
                    |message| !matches!(message, Message::Human(human) if has_content(&human.content)),
                )
                .all(|message| match message {
                    Message::Ai(ai) => self.can_send_thinking(ai),
                    Message::Human(_) | Message::Tool(_) => true,
                });
        if can_send_all { ReasoningPolicy::Keep } else { ReasoningPolicy::Drop }
    }

    /// Returns whether all reasoning of the message can be sent.
    fn can_send_thinking(&self, ai: &AiMessage) -> bool {
        let is_thinking = |block: &ContentBlock| self.thinking_block(block).is_some();
        let is_sent = |block: &&ContentBlock| match block {
            ContentBlock::Text { text } => !is_blank(text),
            ContentBlock::Thinking { .. } => is_thinking(block),
            ContentBlock::Opaque { provider, raw } => {
                provider == self.profile.provider.as_str() && self.profile.accepts_opaque(raw)
            }
            ContentBlock::ToolCall { .. } | ContentBlock::Media { .. } => true,
        };
        if self.profile.allows_trailing_thinking() {
            let mut sent = ai.content.iter().filter(is_sent).peekable();
            return sent.peek().is_none() || sent.any(|block| !is_thinking(block));
        }
        !ai.content.iter().rev().find(is_sent).is_some_and(is_thinking)
    }
}

impl Conversation<'_> {
    /// Returns the conversation with a person's message at the beginning, and at the end unless results end it.
    fn with_human_ends(mut self) -> Self {
        match self.last_speaker() {
            None | Some(Speaker::Model) => {
                self.push_piece(MessagePiece::Text(Cow::Borrowed(CONTINUE_PROMPT)));
                self.finish_message(Speaker::Human);
            }
            Some(Speaker::Human | Speaker::Tool { .. }) => {}
        }
        match self.message(0).speaker {
            Speaker::Model => self.prepend_human(EARLIER_MESSAGES_NOTE),
            // A result never precedes the message that made its call.
            Speaker::Human | Speaker::Tool { .. } => {}
        }
        self
    }
}

/// Returns whether the reasoning is only a signature for the piece after it.
fn is_signature_for_next(piece: &MessagePiece<'_>) -> bool {
    matches!(piece, MessagePiece::Thinking(block) if block.raw.get("text").is_none())
}

/// Returns the message as a tool result, if it is one.
fn as_tool(message: &Message) -> Option<&ToolMessage> {
    match message {
        Message::Tool(tool) => Some(tool),
        Message::Human(_) | Message::Ai(_) => None,
    }
}

/// Returns whether a person's message has content that is sent.
fn has_content(content: &[ContentBlock]) -> bool {
    content.iter().any(|block| match block {
        ContentBlock::Text { text } => !is_blank(text),
        ContentBlock::Media { .. } => true,
        ContentBlock::Thinking { .. } | ContentBlock::ToolCall { .. } | ContentBlock::Opaque { .. } => false,
    })
}

/// Returns whether the text is blank. Providers refuse blank texts.
fn is_blank(text: &str) -> bool {
    text.trim_start().is_empty()
}

/// Returns the arguments in the form in which they are sent.
const fn call_arguments(args: &Value) -> CallArguments<'_> {
    match args {
        Value::Object(_) => CallArguments::Object(args),
        Value::Null => CallArguments::Empty,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            CallArguments::Invalid(args)
        }
    }
}

/// Returns the line of text that replaces a medium.
fn media_note<'a>(block: &ContentBlock, reason: OmissionReason) -> MessagePiece<'a> {
    let ContentBlock::Media { media_type, sha256, bytes } = block else {
        return MessagePiece::Text(Cow::Borrowed("[media: not included]"));
    };
    let kind = if media_type.is_empty() { "media" } else { media_type };
    let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    let hash = sha256.as_ref().map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
    MessagePiece::Text(Cow::Owned(format!("[{kind}{size}{hash}: not included{}]", reason.reason())))
}
