//! The size of an image in pixels, read from the header of its file. Nothing is decoded.

/// Returns the longer side of a PNG, JPEG, GIF or WebP image in pixels; `None` for other files and truncated
/// ones.
pub(super) fn longer_side(file: &[u8]) -> Option<u32> {
    let (width, height) = match file {
        [0x89, b'P', b'N', b'G', ..] => (read_big_endian(file, 16, 4)?, read_big_endian(file, 20, 4)?),
        [b'G', b'I', b'F', b'8', ..] => (read_little_endian(file, 6, 2)?, read_little_endian(file, 8, 2)?),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp_size(file)?,
        [0xff, 0xd8, ..] => jpeg_size(file)?,
        _ => return None,
    };
    Some(width.max(height))
}

/// Returns width and height of a WebP image: lossy, lossless or extended.
fn webp_size(file: &[u8]) -> Option<(u32, u32)> {
    match file.get(12..16)? {
        b"VP8 " => {
            Some((read_little_endian(file, 26, 2)? & 0x3fff, read_little_endian(file, 28, 2)? & 0x3fff))
        }
        b"VP8L" => {
            let bits = read_little_endian(file, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => Some((read_little_endian(file, 24, 3)? + 1, read_little_endian(file, 27, 3)? + 1)),
        _ => None,
    }
}

/// Returns width and height of a JPEG image. The file is a sequence of segments with lengths, and the frame
/// header is one of the first.
fn jpeg_size(file: &[u8]) -> Option<(u32, u32)> {
    let mut offset = 2;
    loop {
        match file.get(offset..offset + 2)? {
            [0xff, 0xff] => offset += 1,
            [0xff, 0xc4 | 0xc8 | 0xcc] => offset += 2 + read_big_endian(file, offset + 2, 2)? as usize,
            [0xff, 0xc0..=0xcf] => {
                return Some((read_big_endian(file, offset + 7, 2)?, read_big_endian(file, offset + 5, 2)?));
            }
            [0xff, _] => offset += 2 + read_big_endian(file, offset + 2, 2)? as usize,
            _ => return None,
        }
    }
}

/// Returns the big-endian number of `length` bytes at `offset`.
fn read_big_endian(file: &[u8], offset: usize, length: usize) -> Option<u32> {
    Some(file.get(offset..offset + length)?.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
}

/// Returns the little-endian number of `length` bytes at `offset`.
fn read_little_endian(file: &[u8], offset: usize, length: usize) -> Option<u32> {
    Some(
        file.get(offset..offset + length)?
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u32::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the concatenation of the pieces.
    fn file(pieces: &[&[u8]]) -> Vec<u8> {
        pieces.concat()
    }

    #[test]
    fn l10_the_size_of_an_image_is_read_from_its_header() {
        let png = file(&[b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &[0, 0, 0x1f, 0x41, 0, 0, 0, 9]]);
        let gif = file(&[b"GIF89a", &[0x40, 0x01, 0xf0, 0]]);
        let jpeg = file(&[
            &[0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc4, 0, 3, 0, 0xff, 0xff],
            &[0xc2, 0, 11, 8, 0x0b, 0xb8, 0x0f, 0xa0, 3],
        ]);
        let riff: &[u8] = b"RIFF\0\0\0\0WEBP";
        let lossy = file(&[riff, b"VP8 \0\0\0\0\0\0\0\x9d\x01\x2a", &[0x80, 0x02, 0xe0, 0x01]]);
        let lossless = file(&[riff, b"VP8L\0\0\0\0\x2f", &[0xff, 0xc0, 0x31, 0]]);
        let extended = file(&[riff, b"VP8X\0\0\0\0\0\0\0\0", &[0x0f, 0x27, 0, 0xff, 0, 0]]);
        for (name, file, expected) in [
            ("png", png.clone(), Some(8001)),
            ("gif", gif, Some(320)),
            ("jpeg", jpeg.clone(), Some(4000)),
            ("lossy", lossy, Some(640)),
            ("lossless", lossless, Some(256)),
            ("extended", extended, Some(10_000)),
            ("cut png", png[..18].to_vec(), None),
            ("cut jpeg", jpeg[..16].to_vec(), None),
            ("text", b"hello".to_vec(), None),
            ("nothing", Vec::new(), None),
        ] {
            assert_eq!(longer_side(&file), expected, "{name}");
        }
    }
}
