//! Reads how large a picture is from the beginning of its file. It decodes nothing.

/// Returns the longer side of a PNG, JPEG, GIF or WebP picture in pixels; `None` for anything else, cut files included.
pub(super) fn longer_side(file: &[u8]) -> Option<u32> {
    let (width, height) = match file {
        [0x89, b'P', b'N', b'G', ..] => (big_endian(file, 16, 4)?, big_endian(file, 20, 4)?),
        [b'G', b'I', b'F', b'8', ..] => (little_endian(file, 6, 2)?, little_endian(file, 8, 2)?),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(file)?,
        [0xff, 0xd8, ..] => jpeg(file)?,
        _ => return None,
    };
    Some(width.max(height))
}

fn webp(file: &[u8]) -> Option<(u32, u32)> {
    match file.get(12..16)? {
        b"VP8 " => Some((little_endian(file, 26, 2)? & 0x3fff, little_endian(file, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little_endian(file, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => Some((little_endian(file, 24, 3)? + 1, little_endian(file, 27, 3)? + 1)),
        _ => None,
    }
}

/// A JPEG file is a row of segments, each with its length; the frame's header is one of the first.
fn jpeg(file: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        match file.get(at..at + 2)? {
            [0xff, 0xff] => at += 1,
            [0xff, 0xc4 | 0xc8 | 0xcc] => at += 2 + big_endian(file, at + 2, 2)? as usize,
            [0xff, 0xc0..=0xcf] => return Some((big_endian(file, at + 7, 2)?, big_endian(file, at + 5, 2)?)),
            [0xff, _] => at += 2 + big_endian(file, at + 2, 2)? as usize,
            _ => return None,
        }
    }
}

fn big_endian(file: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(file.get(at..at + length)?.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
}

fn little_endian(file: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(file.get(at..at + length)?.iter().rev().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file of these pieces.
    fn file(pieces: &[&[u8]]) -> Vec<u8> {
        pieces.concat()
    }

    #[test]
    fn l10_the_size_of_a_picture_is_read_from_its_header() {
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
