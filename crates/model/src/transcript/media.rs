//! Selection of the images and documents of a request: the types and sizes that each provider accepts, and the
//! limits for a request. The wire formats are in `wire`.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::{ContentBlock, Message};

use super::conversation::MediaBytes;
use super::image_size::longer_side;
use crate::name::Provider;

/// The bytes of media, by their lowercase hex SHA-256.
pub type AvailableMedia = BTreeMap<String, Arc<[u8]>>;

/// The most bytes of one image, as base64, that Anthropic accepts.
pub const ANTHROPIC_IMAGE_BYTES_MAX: usize = 5 << 20;

/// The most pixels of an image's longer side that Anthropic accepts.
pub const ANTHROPIC_SIDE_PIXELS_MAX: u32 = 8_000;

/// The most bytes of all media of a request to Anthropic, as base64. Anthropic accepts requests of 32 MB.
pub const ANTHROPIC_MEDIA_BYTES_MAX: usize = 24 << 20;

/// The most images and documents of a request that Anthropic accepts.
pub const ANTHROPIC_MEDIA_MAX: usize = 100;

/// The most bytes of one image, as base64, for both formats of OpenAI.
pub const OPENAI_IMAGE_BYTES_MAX: usize = 20 << 20;

/// The most bytes of all media of a request to OpenAI, as base64. OpenAI accepts requests of 50 MB.
pub const OPENAI_MEDIA_BYTES_MAX: usize = 40 << 20;

/// The most images of a request that OpenAI accepts.
pub const OPENAI_MEDIA_MAX: usize = 500;

/// The most bytes of all media of a request to Gemini, as base64. Gemini accepts requests of 20 MB.
pub const GEMINI_MEDIA_BYTES_MAX: usize = 16 << 20;

/// The most images and documents of a request that Gemini accepts.
pub const GEMINI_MEDIA_MAX: usize = 900;

/// The media type of documents.
pub(crate) const PDF: &str = "application/pdf";

/// The media that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MediaLimits {
    /// The media types that are accepted.
    types: &'static [&'static str],
    /// The most bytes of one image, as base64.
    one_bytes_max: usize,
    /// The most bytes of all media of a request, as base64.
    all_bytes_max: usize,
    /// The most pixels of an image's longer side. Unlimited where the provider scales larger images down itself.
    side_pixels_max: u32,
    /// The most media of a request.
    count_max: usize,
}

impl MediaLimits {
    /// Returns the limits of a provider.
    pub(super) const fn for_provider(provider: Provider) -> Self {
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
            // Only OpenAI itself accepts documents; other servers of the format know images only.
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

    /// Returns the most bytes of one medium of this type, as base64; `None` if the provider does not accept the
    /// type.
    fn bytes_max(&self, media_type: &str) -> Option<usize> {
        let is_accepted = self.types.contains(&media_type);
        let is_document = media_type == PDF;
        is_accepted.then_some(if is_document { self.all_bytes_max } else { self.one_bytes_max })
    }
}

/// Returns the length of the base64 encoding of this many bytes.
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// The selection of the media of one conversation.
pub(super) struct MediaSelection<'a> {
    /// The bytes that are available.
    available: &'a AvailableMedia,
    /// The limits of the provider.
    limits: MediaLimits,
    /// The index of the first message whose media are sent. The media of earlier messages would exceed the limits
    /// of the request.
    first_message: usize,
}

/// The reason why a medium is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OmissionReason {
    /// Its bytes are not available.
    BytesMissing,
    /// The provider does not accept its type.
    UnsupportedType,
    /// It is larger than the provider accepts.
    TooLarge,
    /// Newer media use up the limits of the request.
    RequestFull,
}

impl OmissionReason {
    /// Returns the reason as the end of a sentence to the model.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::BytesMissing => "",
            Self::UnsupportedType => ", because you cannot be sent files of this type",
            Self::TooLarge => ", because it is larger than you can be sent",
            Self::RequestFull => ", because newer files fill the request",
        }
    }
}

impl<'a> MediaSelection<'a> {
    /// Selects media from those that are available. If not all of them fit into a request, the newest are
    /// selected.
    pub(super) fn new(messages: &[Message], available: &'a AvailableMedia, provider: Provider) -> Self {
        let mut selection = Self { available, limits: MediaLimits::for_provider(provider), first_message: 0 };
        if available.is_empty() {
            return selection;
        }
        let (mut bytes, mut count) = (0, 0);
        for (index, message) in messages.iter().enumerate().rev() {
            for block in sendable_blocks(message) {
                if let Ok(media) = selection.media(index, block) {
                    bytes += encoded_len(media.bytes.len());
                    count += 1;
                }
            }
            if bytes > selection.limits.all_bytes_max || count > selection.limits.count_max {
                selection.first_message = index + 1;
                break;
            }
        }
        selection
    }

    /// Returns the medium of a block in the message at `index`, or the reason why it is not sent.
    pub(super) fn media<'m>(
        &self,
        index: usize,
        block: &'m ContentBlock,
    ) -> Result<MediaBytes<'m>, OmissionReason>
    where
        'a: 'm,
    {
        let ContentBlock::Media { media_type, sha256: Some(sha256), .. } = block else {
            return Err(OmissionReason::BytesMissing);
        };
        let bytes = self
            .available
            .get(sha256)
            .filter(|bytes| !bytes.is_empty())
            .ok_or(OmissionReason::BytesMissing)?;
        let bytes_max = self.limits.bytes_max(media_type).ok_or(OmissionReason::UnsupportedType)?;
        let has_too_many_pixels = longer_side(bytes).is_some_and(|side| side > self.limits.side_pixels_max);
        if has_too_many_pixels || encoded_len(bytes.len()) > bytes_max {
            return Err(OmissionReason::TooLarge);
        }
        if index < self.first_message {
            return Err(OmissionReason::RequestFull);
        }
        Ok(MediaBytes { media_type, sha256, bytes })
    }
}

/// Returns the blocks of the message that may hold media to send. Media of the model are never sent back.
fn sendable_blocks(message: &Message) -> &[ContentBlock] {
    match message {
        Message::Human(_) | Message::Tool(_) => message.content(),
        Message::Ai(_) => &[],
    }
}
