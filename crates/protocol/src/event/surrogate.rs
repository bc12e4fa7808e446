//! Escapes in JSON that stand for half of a surrogate pair. Such a text has no UTF-8 form: it can neither be stored nor sent.

/// Returns where `json` escapes half of a surrogate pair, which is not text and has no UTF-8 form.
pub fn lone_surrogate(json: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a6_half_a_surrogate_pair_is_found_wherever_it_stands() {
        for (json, at) in [
            (r#""plain""#, None),
            (r#""\ud83d\ude00""#, None),
            (r#""\\ud83d""#, None),
            (r#""\u0000\u2028""#, None),
            (r#""\ud83d""#, Some(1)),
            (r#""a\n\uDE00""#, Some(4)),
            (r#""\ud83d\ud83d\ude00""#, Some(1)),
            (r#""\ud83dA""#, Some(1)),
        ] {
            assert_eq!(lone_surrogate(json), at, "{json}");
        }
    }
}
