//! Detection of images and documents that a model can view, with their size limits. The format is detected from the
//! first bytes, not from the file name. Opening files is the caller's task.

/// Maximum size of an image in bytes. Encoded as base64 it has five megabytes, which every provider accepts.
const IMAGE_BYTES_MAX: u64 = 3_750_000;
/// Maximum size of a PDF in bytes.
const PDF_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The kind of a file, detected from its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MediaFormat {
    /// The media type, such as `image/png`.
    pub media_type: &'static str,
    /// Maximum size in bytes of a file of this format that is sent to a model.
    pub bytes_max: u64,
}

/// Returns the format of a file that begins with these bytes (at least 12), or `None` if it is not an image or document
/// that a model can view.
pub(super) fn detect_media(beginning: &[u8]) -> Option<MediaFormat> {
    let image = |media_type| Some(MediaFormat { media_type, bytes_max: IMAGE_BYTES_MAX });
    match beginning {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => image("image/png"),
        [0xff, 0xd8, 0xff, ..] => image("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => image("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => image("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => {
            Some(MediaFormat { media_type: "application/pdf", bytes_max: PDF_BYTES_MAX })
        }
        _ => None,
    }
}
