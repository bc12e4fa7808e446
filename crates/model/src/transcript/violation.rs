//! Says what a provider would refuse in a conversation. It is written apart from the step that makes a conversation
//! legal, down to the alphabet of ids, so that each checks the other. It runs on every request that leaves.

use std::collections::HashSet;

use serde_json::Value;

use super::Profile;
use super::conversation::{Args, Conversation, Media, Own, Piece, Said, Speaker};
use super::media::{
    ANTHROPIC_IMAGE_BYTES_MAX, ANTHROPIC_MEDIA_BYTES_MAX, ANTHROPIC_MEDIA_MAX, ANTHROPIC_SIDE_PIXELS_MAX,
    GEMINI_MEDIA_BYTES_MAX, GEMINI_MEDIA_MAX, OPENAI_IMAGE_BYTES_MAX, OPENAI_MEDIA_BYTES_MAX,
    OPENAI_MEDIA_MAX,
};
use super::pixels::longer_side;
use crate::name::Provider;

/// A rule that a message breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The message; 0 for an empty conversation.
    pub index: usize,
    /// The rule.
    pub rule: Rule,
}

/// What every provider asks of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// There is a message.
    NotEmpty,
    /// A person speaks first.
    HumanFirst,
    /// The model does not speak last.
    NotModelLast,
    /// No two messages in a row are of one role, results of one batch aside.
    Alternation,
    /// A message has content, beside reasoning.
    Content,
    /// Text is not blank.
    NotBlank,
    /// Every call is answered, in call order, right behind its message.
    Answered,
    /// Every result answers a call right before it, under its id and its name, and is the only one to do so.
    Result,
    /// A call's id is legal and unique.
    CallId,
    /// A tool's name is legal.
    ToolName,
    /// A call's arguments are an object.
    Args,
    /// Reasoning and opaque blocks are the provider's own, whole and signed where it signs, and not the end of a
    /// message where they may not be.
    OwnBlocks,
    /// Each kind of piece is in a message that may hold it.
    PieceKind,
    /// Media are of a type, a size and a number that the provider takes.
    Media,
}

/// Returns every rule that the conversation breaks, in order; nothing for a legal one.
pub fn violations(conversation: &Conversation<'_>, profile: &Profile) -> Vec<Violation> {
    let mut check = Check {
        profile,
        found: Vec::new(),
        ids: HashSet::with_capacity(conversation.len() / 2),
        open: None,
        previous: None,
        media_bytes: 0,
        media: 0,
    };
    for (index, said) in conversation.iter().enumerate() {
        check.message(index, said);
    }
    let last = conversation.len().saturating_sub(1);
    let is_open = check.open.as_mut().is_some_and(|batch| batch.next_call().is_some());
    check.note(last, is_open.then_some(Rule::Answered));
    check.note(0, conversation.is_empty().then_some(Rule::NotEmpty));
    check.note(last, (check.previous == Some(Role::Model)).then_some(Rule::NotModelLast));
    let too_much = check.media_bytes > check.media_bytes_max() || check.media > check.media_max();
    check.note(last, too_much.then_some(Rule::Media));
    check.found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Human,
    Model,
    Tool,
}

struct Check<'p, 'c, 'a> {
    profile: &'p Profile,
    found: Vec<Violation>,
    ids: HashSet<&'c str>,
    /// The batch whose calls are being answered.
    open: Option<Batch<'c, 'a>>,
    previous: Option<Role>,
    media_bytes: usize,
    media: usize,
}

/// The calls of one message that are not answered yet.
struct Batch<'c, 'a>(&'c [Piece<'a>]);

impl<'c> Batch<'c, '_> {
    /// Takes the next call and returns its id and name.
    fn next_call(&mut self) -> Option<(&'c str, &'c str)> {
        while let Some((first, rest)) = self.0.split_first() {
            self.0 = rest;
            if let Piece::Call { id, name, .. } = first {
                return Some((id, name));
            }
        }
        None
    }
}

impl<'c, 'a> Check<'_, 'c, 'a> {
    fn note(&mut self, index: usize, broken: Option<Rule>) {
        self.found.extend(broken.map(|rule| Violation { index, rule }));
    }

    fn message(&mut self, index: usize, said: Said<'c, 'a>) {
        let role = match said.speaker {
            Speaker::Human => Role::Human,
            Speaker::Model => Role::Model,
            Speaker::Tool { .. } => Role::Tool,
        };
        self.note(index, (self.previous.is_none() && role != Role::Human).then_some(Rule::HumanFirst));
        self.note(index, (self.previous == Some(role) && role != Role::Tool).then_some(Rule::Alternation));
        self.previous = Some(role);
        match said.speaker {
            Speaker::Tool { call_id, name, .. } => {
                let call = self.open.as_mut().and_then(Batch::next_call);
                self.note(index, (call != Some((call_id.as_ref(), name.as_ref()))).then_some(Rule::Result));
            }
            Speaker::Human | Speaker::Model => {
                let is_open = self.open.take().is_some_and(|mut batch| batch.next_call().is_some());
                self.note(index, is_open.then_some(Rule::Answered));
                self.open = (role == Role::Model).then_some(Batch(said.pieces));
            }
        }
        let mut before = None;
        for piece in said.pieces {
            self.piece(index, piece, role, before);
            before = Some(piece);
        }
        let is_thinking = |piece: &Piece<'_>| matches!(piece, Piece::Thinking(_));
        self.note(index, said.pieces.iter().all(is_thinking).then_some(Rule::Content));
        let may_end_so = self.profile.provider == Provider::Gemini;
        self.note(
            index,
            (!may_end_so && said.pieces.last().is_some_and(is_thinking)).then_some(Rule::OwnBlocks),
        );
    }

    fn piece(&mut self, index: usize, piece: &'c Piece<'a>, role: Role, before: Option<&Piece<'a>>) {
        match piece {
            Piece::Text(text) => {
                // Gemini signs empty text too, and wants it back.
                let is_signed =
                    self.profile.provider == Provider::Gemini && matches!(before, Some(Piece::Thinking(_)));
                let is_blank = !is_signed && text.chars().all(char::is_whitespace);
                self.note(index, is_blank.then_some(Rule::NotBlank));
            }
            Piece::Media(media) => {
                self.note(index, (role == Role::Model).then_some(Rule::PieceKind));
                self.media(index, media);
            }
            Piece::Thinking(own) => {
                self.note(index, (role != Role::Model).then_some(Rule::PieceKind));
                self.note(index, (!self.is_own(own) || !self.is_whole(own.raw)).then_some(Rule::OwnBlocks));
            }
            Piece::Opaque(own) => {
                self.note(index, (role != Role::Model).then_some(Rule::PieceKind));
                let is_known = self.profile.provider != Provider::OpenAiChat && own.raw.is_object();
                self.note(index, (!self.is_own(own) || !is_known).then_some(Rule::OwnBlocks));
            }
            Piece::Call { id, name, args } => {
                self.note(index, (role != Role::Model).then_some(Rule::PieceKind));
                let is_new = self.ids.insert(id);
                self.note(
                    index,
                    (!is_new || !is_word(id, self.profile.call_id_chars_max)).then_some(Rule::CallId),
                );
                self.note(
                    index,
                    (!is_word(name, self.profile.tool_name_chars_max)).then_some(Rule::ToolName),
                );
                let is_object = match args {
                    Args::Object(args) => args.is_object(),
                    Args::Empty | Args::Invalid(_) => true,
                };
                self.note(index, (!is_object).then_some(Rule::Args));
            }
        }
    }

    fn is_own(&self, own: &Own<'_>) -> bool {
        own.provider == self.profile.provider.as_str()
    }

    /// Returns whether a block of reasoning has what the provider checks.
    fn is_whole(&self, raw: &Value) -> bool {
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

    fn media(&mut self, index: usize, media: &Media<'_>) {
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
        let is_taken = (is_image || is_document) && (1..=bytes_max).contains(&bytes);
        let is_wide = self.profile.provider == Provider::Anthropic
            && longer_side(media.bytes).is_some_and(|side| side > ANTHROPIC_SIDE_PIXELS_MAX);
        self.note(index, (!is_taken || is_wide).then_some(Rule::Media));
    }

    const fn media_bytes_max(&self) -> usize {
        match self.profile.provider {
            Provider::Anthropic => ANTHROPIC_MEDIA_BYTES_MAX,
            Provider::OpenAi | Provider::OpenAiChat => OPENAI_MEDIA_BYTES_MAX,
            Provider::Gemini => GEMINI_MEDIA_BYTES_MAX,
        }
    }

    const fn media_max(&self) -> usize {
        match self.profile.provider {
            Provider::Anthropic => ANTHROPIC_MEDIA_MAX,
            Provider::OpenAi | Provider::OpenAiChat => OPENAI_MEDIA_MAX,
            Provider::Gemini => GEMINI_MEDIA_MAX,
        }
    }
}

/// Returns whether providers take the text as an id or a name.
fn is_word(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-'))
}
