//! Detection of JSON escapes of a lone UTF-16 surrogate. Such a string has no UTF-8 form, so it can neither be stored
//! nor sent.

/// Returns the byte offset of the first escape of a lone surrogate in `json`, such as `\ud83d` without its second
/// half. Linear in the length of `json`, which must be well-formed JSON: escapes are recognized outside strings too.
pub fn lone_surrogate(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    // The UTF-16 code unit that is escaped at this offset, or `None` for any other escape, such as `\n`.
    let code_unit = |offset: usize| {
        let digits = bytes.get(offset..offset + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut offset = 0;
    while let Some(distance) = bytes[offset..].iter().position(|byte| *byte == b'\\') {
        offset += distance;
        match code_unit(offset) {
            // A high surrogate followed by a low surrogate is a pair.
            Some(0xD800..=0xDBFF) if matches!(code_unit(offset + 6), Some(0xDC00..=0xDFFF)) => offset += 12,
            Some(0xD800..=0xDFFF) => return Some(offset),
            Some(_) => offset += 6,
            // The second byte is skipped, because it may be an escaped backslash.
            None => offset += 2,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_a_lone_surrogate_is_found_at_any_offset() {
        for (json, offset) in [
            (r#""plain""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u0000\u2028""#, None),
            (r#""\ud83d""#, Some(1)),
            (r#""a\n\uDE00""#, Some(4)),
            (r#""\ud83d\ud83d\ude00""#, Some(1)),
            (r#""\ud83dA""#, Some(1)),
        ] {
            assert_eq!(lone_surrogate(json), offset, "{json}");
        }
    }
}
