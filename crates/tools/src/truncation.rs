//! Truncation of tool output to the size that a model is shown. Every function marks the cut in the text. Where the
//! whole text can be read is the caller's concern.

/// Maximum number of bytes of text in a tool's output.
pub(crate) const OUTPUT_BYTES_MAX: usize = 48 * 1024;
/// Maximum number of characters of one line of a file that are shown.
pub(crate) const LINE_CHARS_MAX: usize = 1_000;

/// Returns the first `chars_max` characters of `line`, with ` […]` appended if it has more.
pub(crate) fn truncate_line(line: &str, chars_max: usize) -> String {
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{} […]", &line[..end]),
        None => line.to_owned(),
    }
}

/// Returns `text`, or its beginning and its end with a line between them that gives the number of omitted bytes. The
/// two parts together have at most `bytes_max` bytes.
pub(crate) fn truncate_middle(text: &str, bytes_max: usize) -> String {
    match split_ends(text, bytes_max) {
        None => text.to_owned(),
        Some((head, tail)) => {
            let left_out = text.len() - head.len() - tail.len();
            format!("{}[{left_out} bytes left out]\n{tail}", with_final_newline(head))
        }
    }
}

/// Splits off the beginning and the end of `text`, together at most `bytes_max` bytes, or returns `None` if all of it
/// fits. The cut is moved to a line break if that drops at most half of a part.
pub(crate) fn split_ends(text: &str, bytes_max: usize) -> Option<(&str, &str)> {
    if text.len() <= bytes_max {
        return None;
    }
    let half = bytes_max / 2;
    let head = &text[..text.floor_char_boundary(half)];
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    let head = match head.rfind('\n') {
        Some(index) if index >= half / 2 => &head[..=index],
        Some(_) | None => head,
    };
    let tail = match tail.find('\n') {
        Some(index) if index <= half / 2 => &tail[index + 1..],
        Some(_) | None => tail,
    };
    Some((head, tail))
}

/// Returns `text` with a line break at its end. Empty text stays empty.
pub(crate) fn with_final_newline(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_marks_the_omitted_text() {
        assert_eq!(truncate_line("añb", 2), "añ […]");
        assert_eq!(truncate_line("añb", 3), "añb");
        assert_eq!(truncate_middle("short", 10), "short");
        assert_eq!(truncate_middle("one\ntwo\nthree\nfour\n", 12), "one\n[10 bytes left out]\nfour\n");
        assert_eq!(truncate_middle("ääääääää", 8), "ää\n[8 bytes left out]\nää");
    }
}
