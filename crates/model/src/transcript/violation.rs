//! Violations: the rules of a provider that a conversation breaks. This check is written independently of the
//! code that makes conversations legal, including the alphabet of ids, so that each verifies the other. It runs
//! on every request before it is sent.

use std::collections::HashSet;

use serde_json::Value;

use super::ProviderProfile;
use super::conversation::{
    CallArguments, Conversation, ConversationMessage, MediaBytes, MessagePiece, ProviderBlock, Speaker,
};
use super::image_size::longer_side;
use super::media::{
    ANTHROPIC_IMAGE_BYTES_MAX, ANTHROPIC_MEDIA_BYTES_MAX, ANTHROPIC_MEDIA_MAX, ANTHROPIC_SIDE_PIXELS_MAX,
    GEMINI_MEDIA_BYTES_MAX, GEMINI_MEDIA_MAX, OPENAI_IMAGE_BYTES_MAX, OPENAI_MEDIA_BYTES_MAX,
    OPENAI_MEDIA_MAX,
};
use crate::name::Provider;

/// A broken rule, with the message that breaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The index of the message; 0 for an empty conversation.
    pub index: usize,
    /// The broken rule.
    pub rule: ConversationRule,
}

/// The rules for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConversationRule {
    /// The conversation has at least one message.
    NotEmpty,
    /// The first message is a person's.
    HumanFirst,
    /// The last message is not the model's.
    NotModelLast,
    /// No two messages in a row have the same role, except the results of one batch.
    Alternation,
    /// Each message has content other than reasoning.
    Content,
    /// No text is blank.
    NotBlank,
    /// The results of all calls of a message follow it directly, in the order of the calls.
    Answered,
    /// Each result belongs to a call of the batch directly before it, with the same id and name, and is that
    /// call's only result.
    Result,
    /// The id of each call is legal and unique in the conversation.
    CallId,
    /// The name of each tool is legal.
    ToolName,
    /// The arguments of each call are an object.
    Args,
    /// Reasoning and opaque blocks are the provider's own, complete, and signed where the provider signs.
    /// Reasoning does not end a message, except for Gemini.
    OwnBlocks,
    /// Each piece is in a message of a role that may contain its kind.
    PieceKind,
    /// The types, sizes and number of media are within the provider's limits.
    Media,
}

/// Returns every violation of the conversation, in order. A legal conversation has none.
pub fn find_violations(conversation: &Conversation<'_>, profile: &ProviderProfile) -> Vec<Violation> {
    let mut check = ViolationCheck {
        profile,
        violations: Vec::new(),
        ids: HashSet::with_capacity(conversation.len() / 2),
        unanswered: None,
        previous: None,
        media_bytes: 0,
        media: 0,
    };
    for (index, message) in conversation.iter().enumerate() {
        check.check_message(index, message);
    }
    let last = conversation.len().saturating_sub(1);
    let has_unanswered_calls = check.unanswered.as_mut().is_some_and(|batch| batch.next_call().is_some());
    check.record_violation(last, has_unanswered_calls.then_some(ConversationRule::Answered));
    check.record_violation(0, conversation.is_empty().then_some(ConversationRule::NotEmpty));
    check.record_violation(
        last,
        (check.previous == Some(SenderRole::Model)).then_some(ConversationRule::NotModelLast),
    );
    let too_much = check.media_bytes > check.media_bytes_max() || check.media > check.media_max();
    check.record_violation(last, too_much.then_some(ConversationRule::Media));
    check.violations
}

/// The role of a message's sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SenderRole {
    Human,
    Model,
    Tool,
}

/// The state of a check.
struct ViolationCheck<'p, 'c, 'a> {
    /// The rules of the provider.
    profile: &'p ProviderProfile,
    /// The violations so far.
    violations: Vec<Violation>,
    /// The ids of the calls so far.
    ids: HashSet<&'c str>,
    /// The calls of the current batch that have no result yet.
    unanswered: Option<UnansweredCalls<'c, 'a>>,
    /// The role of the previous message.
    previous: Option<SenderRole>,
    /// The size of all media so far, as base64.
    media_bytes: usize,
    /// The number of media so far.
    media: usize,
}

/// The pieces of a message from its first unanswered call on.
struct UnansweredCalls<'c, 'a>(&'c [MessagePiece<'a>]);

impl<'c> UnansweredCalls<'c, '_> {
    /// Removes the next call and returns its id and name.
    fn next_call(&mut self) -> Option<(&'c str, &'c str)> {
        while let Some((first, remaining)) = self.0.split_first() {
            self.0 = remaining;
            if let MessagePiece::Call { id, name, .. } = first {
                return Some((id, name));
            }
        }
        None
    }
}

impl<'c, 'a> ViolationCheck<'_, 'c, 'a> {
    /// Records a violation if a rule is given.
    fn record_violation(&mut self, index: usize, broken: Option<ConversationRule>) {
        self.violations.extend(broken.map(|rule| Violation { index, rule }));
    }

    /// Checks one message against the messages before it.
    fn check_message(&mut self, index: usize, message: ConversationMessage<'c, 'a>) {
        let role = match message.speaker {
            Speaker::Human => SenderRole::Human,
            Speaker::Model => SenderRole::Model,
            Speaker::Tool { .. } => SenderRole::Tool,
        };
        self.record_violation(
            index,
            (self.previous.is_none() && role != SenderRole::Human).then_some(ConversationRule::HumanFirst),
        );
        self.record_violation(
            index,
            (self.previous == Some(role) && role != SenderRole::Tool)
                .then_some(ConversationRule::Alternation),
        );
        self.previous = Some(role);
        match message.speaker {
            Speaker::Tool { call_id, name, .. } => {
                let call = self.unanswered.as_mut().and_then(UnansweredCalls::next_call);
                self.record_violation(
                    index,
                    (call != Some((call_id.as_ref(), name.as_ref()))).then_some(ConversationRule::Result),
                );
            }
            Speaker::Human | Speaker::Model => {
                let has_unanswered_calls =
                    self.unanswered.take().is_some_and(|mut batch| batch.next_call().is_some());
                self.record_violation(index, has_unanswered_calls.then_some(ConversationRule::Answered));
                self.unanswered = (role == SenderRole::Model).then_some(UnansweredCalls(message.pieces));
            }
        }
        let mut previous = None;
        for piece in message.pieces {
            self.check_piece(index, piece, role, previous);
            previous = Some(piece);
        }
        let is_thinking = |piece: &MessagePiece<'_>| matches!(piece, MessagePiece::Thinking(_));
        self.record_violation(
            index,
            message.pieces.iter().all(is_thinking).then_some(ConversationRule::Content),
        );
        let may_end_in_thinking = self.profile.provider == Provider::Gemini;
        self.record_violation(
            index,
            (!may_end_in_thinking && message.pieces.last().is_some_and(is_thinking))
                .then_some(ConversationRule::OwnBlocks),
        );
    }

    /// Checks one piece. `previous` is the piece before it in the same message.
    fn check_piece(
        &mut self,
        index: usize,
        piece: &'c MessagePiece<'a>,
        role: SenderRole,
        previous: Option<&MessagePiece<'a>>,
    ) {
        match piece {
            MessagePiece::Text(text) => {
                // Gemini also signs empty texts and requires them back.
                let is_signed = self.profile.provider == Provider::Gemini
                    && matches!(previous, Some(MessagePiece::Thinking(_)));
                let is_blank = !is_signed && text.chars().all(char::is_whitespace);
                self.record_violation(index, is_blank.then_some(ConversationRule::NotBlank));
            }
            MessagePiece::Media(media) => {
                self.record_violation(
                    index,
                    (role == SenderRole::Model).then_some(ConversationRule::PieceKind),
                );
                self.check_media(index, media);
            }
            MessagePiece::Thinking(block) => {
                self.record_violation(
                    index,
                    (role != SenderRole::Model).then_some(ConversationRule::PieceKind),
                );
                self.record_violation(
                    index,
                    (!self.is_own_block(block) || !self.is_complete_thinking(block.raw))
                        .then_some(ConversationRule::OwnBlocks),
                );
            }
            MessagePiece::Opaque(block) => {
                self.record_violation(
                    index,
                    (role != SenderRole::Model).then_some(ConversationRule::PieceKind),
                );
                let is_known = self.profile.provider != Provider::OpenAiChat && block.raw.is_object();
                self.record_violation(
                    index,
                    (!self.is_own_block(block) || !is_known).then_some(ConversationRule::OwnBlocks),
                );
            }
            MessagePiece::Call { id, name, args } => {
                self.record_violation(
                    index,
                    (role != SenderRole::Model).then_some(ConversationRule::PieceKind),
                );
                let is_new = self.ids.insert(id);
                self.record_violation(
                    index,
                    (!is_new || !is_legal_identifier(id, self.profile.call_id_chars_max))
                        .then_some(ConversationRule::CallId),
                );
                self.record_violation(
                    index,
                    (!is_legal_identifier(name, self.profile.tool_name_chars_max))
                        .then_some(ConversationRule::ToolName),
                );
                let is_object = match args {
                    CallArguments::Object(args) => args.is_object(),
                    CallArguments::Empty | CallArguments::Invalid(_) => true,
                };
                self.record_violation(index, (!is_object).then_some(ConversationRule::Args));
            }
        }
    }

    /// Returns whether the block is the provider's own.
    fn is_own_block(&self, block: &ProviderBlock<'_>) -> bool {
        block.provider == self.profile.provider.as_str()
    }

    /// Returns whether a block of reasoning has the fields that the provider verifies.
    fn is_complete_thinking(&self, raw: &Value) -> bool {
        let text = |field: &str| raw[field].as_str().unwrap_or_default();
        match (self.profile.provider, text("type")) {
            (Provider::Anthropic, "thinking") => !text("signature").is_empty(),
            (Provider::Anthropic, kind) => kind == "redacted_thinking" && !text("data").is_empty(),
            (Provider::OpenAi, kind) => kind == "reasoning" && !text("encrypted_content").is_empty(),
            (Provider::OpenAiChat, _) => {
                !(text("reasoning_content").is_empty() && text("reasoning").is_empty())
            }
            (Provider::Gemini, _) => !text("thoughtSignature").is_empty(),
        }
    }

    /// Checks one medium and adds it to the totals.
    fn check_media(&mut self, index: usize, media: &MediaBytes<'_>) {
        let bytes = media.bytes.len().div_ceil(3) * 4;
        self.media_bytes += bytes;
        self.media += 1;
        let is_image = media.media_type.starts_with("image/");
        let is_document = media.media_type == "application/pdf";
        let bytes_max = match self.profile.provider {
            Provider::Anthropic if is_image => ANTHROPIC_IMAGE_BYTES_MAX,
            Provider::OpenAi | Provider::OpenAiChat if is_image => OPENAI_IMAGE_BYTES_MAX,
            Provider::OpenAiChat => 0,
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => self.media_bytes_max(),
        };
        let is_accepted = (is_image || is_document) && (1..=bytes_max).contains(&bytes);
        let has_too_many_pixels = self.profile.provider == Provider::Anthropic
            && longer_side(media.bytes).is_some_and(|side| side > ANTHROPIC_SIDE_PIXELS_MAX);
        self.record_violation(
            index,
            (!is_accepted || has_too_many_pixels).then_some(ConversationRule::Media),
        );
    }

    /// Returns the most bytes of all media as base64.
    const fn media_bytes_max(&self) -> usize {
        match self.profile.provider {
            Provider::Anthropic => ANTHROPIC_MEDIA_BYTES_MAX,
            Provider::OpenAi | Provider::OpenAiChat => OPENAI_MEDIA_BYTES_MAX,
            Provider::Gemini => GEMINI_MEDIA_BYTES_MAX,
        }
    }

    /// Returns the most media of a request.
    const fn media_max(&self) -> usize {
        match self.profile.provider {
            Provider::Anthropic => ANTHROPIC_MEDIA_MAX,
            Provider::OpenAi | Provider::OpenAiChat => OPENAI_MEDIA_MAX,
            Provider::Gemini => GEMINI_MEDIA_MAX,
        }
    }
}

/// Returns whether the text is legal as an id or a name.
fn is_legal_identifier(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-'))
}
