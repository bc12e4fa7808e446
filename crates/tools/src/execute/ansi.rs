//! A streaming parser that removes ANSI escape sequences (colors, cursor movements, titles, links) from a program's
//! output. It never changes the text between them.

/// The state of the parser between two chunks of output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AnsiEscapeParser {
    /// Outside escape sequences.
    #[default]
    Text,
    /// After the escape character (ESC).
    Escape,
    /// In a sequence of intermediate bytes that one final byte ends, such as `ESC ( B`.
    SingleCharacter,
    /// In a control sequence (`ESC [`), which ends with a byte from `@` to `~`.
    Control,
    /// In a control string (`ESC ]`, `ESC P` and others), which ends with BEL or `ESC \`.
    String,
    /// In a control string, after ESC.
    StringEscape,
}

impl AnsiEscapeParser {
    /// Appends the text in `bytes` to `text`, without escape sequences. Of the control characters, only line break, tab
    /// and carriage return are kept. A sequence may continue in the next chunk.
    pub fn strip(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        for byte in bytes.iter().copied() {
            *self = match (*self, byte) {
                (Self::Text, 0x1b) => Self::Escape,
                (Self::Text, _) => {
                    if byte >= 0x20 && byte != 0x7f || matches!(byte, b'\n' | b'\t' | b'\r') {
                        text.push(byte);
                    }
                    Self::Text
                }
                (Self::Escape, b'[') => Self::Control,
                (Self::Escape, b']' | b'P' | b'X' | b'^' | b'_') => Self::String,
                (Self::Escape, b' '..=b'/') => Self::SingleCharacter,
                (Self::Escape, 0x1b) => Self::Escape,
                (Self::Escape, _) => Self::Text,
                (Self::SingleCharacter, b' '..=b'/') => Self::SingleCharacter,
                (Self::SingleCharacter, _) => Self::Text,
                // A line break inside a sequence means that the sequence is malformed, and the text continues.
                (Self::Control | Self::String, b'\n') => {
                    text.push(byte);
                    Self::Text
                }
                (Self::Control, b'@'..=b'~') => Self::Text,
                (Self::Control, 0x1b) => Self::Escape,
                (Self::Control, _) => Self::Control,
                (Self::String, 0x07) => Self::Text,
                (Self::String, 0x1b) => Self::StringEscape,
                (Self::String, _) => Self::String,
                (Self::StringEscape, b'\\') => Self::Text,
                (Self::StringEscape, 0x1b) => Self::StringEscape,
                (Self::StringEscape, _) => Self::String,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_removed_for_every_chunk_size() {
        let output =
            b"\x1b[1;31mred\x1b[0m\t\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x08\x1b(Bc\x1b[?25l\r\nd\x1b7e";
        for size in 1..output.len() {
            let (mut parser, mut text) = (AnsiEscapeParser::default(), Vec::new());
            output.chunks(size).for_each(|chunk| parser.strip(chunk, &mut text));
            assert_eq!(std::string::String::from_utf8_lossy(&text), "red\tabc\r\nde", "{size}");
        }
    }
}
