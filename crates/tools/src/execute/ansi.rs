//! Taking colours, cursor movements and other escapes out of what a program writes, piece by piece. What the text says
//! is left alone.

/// Where in an escape the last piece ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum AnsiEscapeParser {
    /// In text.
    #[default]
    Text,
    /// After the escape character.
    Escape,
    /// After an escape that takes one more character.
    SingleCharacter,
    /// In a control sequence, which ends with a letter.
    Control,
    /// In a string, which ends with a bell or an escape.
    String,
    /// In a string, after an escape.
    StringEscape,
}

impl AnsiEscapeParser {
    /// Adds what is text of `bytes` to `text`: no escapes, and of the control characters only new line, tab and return.
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
                // A line end inside one means that it was none.
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
    fn escapes_are_taken_out_wherever_the_pieces_end() {
        let written =
            b"\x1b[1;31mred\x1b[0m\t\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x08\x1b(Bc\x1b[?25l\r\nd\x1b7e";
        for size in 1..written.len() {
            let (mut escapes, mut text) = (AnsiEscapeParser::default(), Vec::new());
            written.chunks(size).for_each(|piece| escapes.strip(piece, &mut text));
            assert_eq!(std::string::String::from_utf8_lossy(&text), "red\tabc\r\nde", "{size}");
        }
    }
}
