//! Images and documents that a model can look at: which they are, and how large they may be. Opening them is not done
//! here.

/// The most bytes of an image: five megabytes once it is written as base64, which every provider takes.
const IMAGE_BYTES_MAX: u64 = 3_750_000;
/// The most bytes of a PDF.
const PDF_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The kind of a file, detected from its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MediaFormat {
    /// The media type.
    pub media_type: &'static str,
    /// The most bytes that are shown to a model.
    pub bytes_max: u64,
}

/// Returns what a file that begins with these bytes is; `None` when a model cannot look at it.
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
