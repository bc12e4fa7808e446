//! Which images and documents a request can carry: what each provider takes, how large, and how much in all. How they
//! look on the wire is not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{Block, Message};

use super::conversation::Media;
use super::pixels::longer_side;
use crate::name::Provider;

/// Bytes of media by their lowercase hex SHA-256.
pub type Available = BTreeMap<String, Arc<[u8]>>;

/// Bytes of one image at most, as base64: what Anthropic takes.
pub const ANTHROPIC_IMAGE_BYTES_MAX: usize = 5 << 20;

/// Pixels of an image's longer side at most that Anthropic takes.
pub const ANTHROPIC_SIDE_PIXELS_MAX: u32 = 8_000;

/// Bytes of all media of a request at most, as base64: Anthropic takes requests of 32 MB.
pub const ANTHROPIC_MEDIA_BYTES_MAX: usize = 24 << 20;

/// Images and documents of a request at most that Anthropic takes.
pub const ANTHROPIC_MEDIA_MAX: usize = 100;

/// Bytes of one image at most, as base64, for both formats of OpenAI.
pub const OPENAI_IMAGE_BYTES_MAX: usize = 20 << 20;

/// Bytes of all media of a request at most, as base64: OpenAI takes requests of 50 MB.
pub const OPENAI_MEDIA_BYTES_MAX: usize = 40 << 20;

/// Images of a request at most that OpenAI takes.
pub const OPENAI_MEDIA_MAX: usize = 500;

/// Bytes of all media of a request at most, as base64: Gemini takes requests of 20 MB.
pub const GEMINI_MEDIA_BYTES_MAX: usize = 16 << 20;

/// Images and documents of a request at most that Gemini takes.
pub const GEMINI_MEDIA_MAX: usize = 900;

/// The media type of documents.
pub(crate) const PDF: &str = "application/pdf";

/// What one provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takes {
    types: &'static [&'static str],
    /// Bytes of one, as base64.
    one_bytes_max: usize,
    /// Bytes of all, as base64.
    all_bytes_max: usize,
    /// Pixels of an image's longer side, where the provider does not make a larger one smaller itself.
    side_pixels_max: u32,
    count_max: usize,
}

impl Takes {
    /// Returns what a provider takes.
    pub(super) const fn of(provider: Provider) -> Self {
        match provider {
            Provider::Anthropic => Self {
                types: &["image/png", "image/jpeg", "image/gif", "image/webp", PDF],
                one_bytes_max: ANTHROPIC_IMAGE_BYTES_MAX,
                all_bytes_max: ANTHROPIC_MEDIA_BYTES_MAX,
                side_pixels_max: ANTHROPIC_SIDE_PIXELS_MAX,
                count_max: ANTHROPIC_MEDIA_MAX,
            },
            Provider::OpenAi => Self {
                types: &["image/png", "image/jpeg", "image/gif", "image/webp", PDF],
                one_bytes_max: OPENAI_IMAGE_BYTES_MAX,
                all_bytes_max: OPENAI_MEDIA_BYTES_MAX,
                side_pixels_max: u32::MAX,
                count_max: OPENAI_MEDIA_MAX,
            },
            // Documents are OpenAI's own; other servers of the format know images only.
            Provider::OpenAiChat => Self {
                types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
                one_bytes_max: OPENAI_IMAGE_BYTES_MAX,
                all_bytes_max: OPENAI_MEDIA_BYTES_MAX,
                side_pixels_max: u32::MAX,
                count_max: OPENAI_MEDIA_MAX,
            },
            Provider::Gemini => Self {
                types: &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", PDF],
                one_bytes_max: GEMINI_MEDIA_BYTES_MAX,
                all_bytes_max: GEMINI_MEDIA_BYTES_MAX,
                side_pixels_max: u32::MAX,
                count_max: GEMINI_MEDIA_MAX,
            },
        }
    }

    /// Returns how many bytes one of this type may have, as base64; `None` when the provider takes none of it.
    fn bytes_max(&self, media_type: &str) -> Option<usize> {
        let is_taken = self.types.contains(&media_type);
        let is_document = media_type == PDF;
        is_taken.then_some(if is_document { self.all_bytes_max } else { self.one_bytes_max })
    }
}

/// Returns the length of so many bytes as base64.
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Decides which media of one conversation are sent.
pub(super) struct Chosen<'a> {
    available: &'a Available,
    takes: Takes,
    /// Media of earlier messages would make the request too large.
    first_message: usize,
}

/// Why media are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The bytes are not there.
    Absent,
    /// The provider takes none of the type.
    Type,
    /// It is larger than the provider takes.
    Large,
    /// The newer ones fill the request.
    Full,
}

impl Left {
    /// Returns the reason as the end of a sentence.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Absent => "",
            Self::Type => ", because you cannot be sent files of this type",
            Self::Large => ", because it is larger than you can be sent",
            Self::Full => ", because newer files fill the request",
        }
    }
}

impl<'a> Chosen<'a> {
    /// Chooses from what is available; where not everything can be sent, the newest is.
    pub(super) fn new(messages: &[Message], available: &'a Available, provider: Provider) -> Self {
        let mut chosen = Self { available, takes: Takes::of(provider), first_message: 0 };
        if available.is_empty() {
            return chosen;
        }
        let (mut bytes, mut count) = (0, 0);
        for (index, message) in messages.iter().enumerate().rev() {
            for block in speakable(message) {
                if let Ok(media) = chosen.media(index, block) {
                    bytes += encoded_len(media.bytes.len());
                    count += 1;
                }
            }
            if bytes > chosen.takes.all_bytes_max || count > chosen.takes.count_max {
                chosen.first_message = index + 1;
                break;
            }
        }
        chosen
    }

    /// Returns the media to send for a block of the message at `index`, or why they are not sent.
    pub(super) fn media<'m>(&self, index: usize, block: &'m Block) -> Result<Media<'m>, Left>
    where
        'a: 'm,
    {
        let Block::Media { media_type, sha256: Some(sha256), .. } = block else { return Err(Left::Absent) };
        let bytes = self.available.get(sha256).filter(|bytes| !bytes.is_empty()).ok_or(Left::Absent)?;
        let bytes_max = self.takes.bytes_max(media_type).ok_or(Left::Type)?;
        let is_wide = longer_side(bytes).is_some_and(|side| side > self.takes.side_pixels_max);
        if is_wide || encoded_len(bytes.len()) > bytes_max {
            return Err(Left::Large);
        }
        if index < self.first_message {
            return Err(Left::Full);
        }
        Ok(Media { media_type, sha256, bytes })
    }
}

/// Returns the blocks that may hold media to send: a model is not sent its own.
fn speakable(message: &Message) -> &[Block] {
    match message {
        Message::Human(_) | Message::Tool(_) => message.content(),
        Message::Ai(_) => &[],
    }
}
