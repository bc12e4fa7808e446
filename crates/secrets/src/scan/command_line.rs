//! The command that an argument in a text belongs to.

use memchr::memmem;

/// The number of bytes before an argument in which the name of its command must stand.
const COMMAND_BYTES: usize = 512;
/// Words of sentences, which do not stand between a command and its arguments.
const SENTENCE_WORDS: [&str; 3] = [" and ", " or ", " then "];

/// Returns whether one of `commands` stands before `position` on the same command line. A line break that a backslash
/// escapes does not end the line; the signs `|`, `;` and `&&` end a command.
pub fn is_argument_of<T: AsRef<str>>(text: &str, position: usize, commands: &[T]) -> bool {
    let start = text.floor_char_boundary(position.saturating_sub(COMMAND_BYTES));
    let line = last_command(&text[start..position]);
    commands.iter().any(|command| contains_command(line, command.as_ref()))
}

/// Returns the last command of a text of commands.
fn last_command(text: &str) -> &str {
    let ends = memchr::memrchr3_iter(b'\n', b'|', b';', text.as_bytes());
    let is_continued =
        |end: usize| text.as_bytes()[end] == b'\n' && text[..end].trim_end_matches('\r').ends_with('\\');
    let start = ends.into_iter().find(|end| !is_continued(*end)).map_or(0, |end| end + 1);
    let line = &text[start..];
    memmem::rfind(line.as_bytes(), b"&&").map_or(line, |end| &line[end + 2..])
}

/// Returns whether a line contains the words of a command, with arguments behind them.
fn contains_command(line: &str, command: &str) -> bool {
    let is_word_end = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    memmem::find_iter(line.as_bytes(), command.as_bytes()).any(|start| {
        let behind = &line[start + command.len()..];
        behind.starts_with(char::is_whitespace)
            && !line[..start].ends_with(is_word_end)
            && !SENTENCE_WORDS.iter().any(|word| behind.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_belongs_to_the_command_before_it_on_its_line() {
        for (text, expected) in [
            ("mysql -u root ", true),
            ("$ sudo /usr/bin/mysql ", true),
            ("mysql \\\n  -h db ", true),
            ("(mysql ", true),
            ("mysql -h mysql-db ", true),
            ("mysql-client ", false),
            ("my.mysql ", false),
            ("mysql\n", false),
            ("mysql x | tee ", false),
            ("mysql x && mkdir ", false),
            ("mysql x; mkdir ", false),
            ("mysql and then mkdir ", false),
        ] {
            assert_eq!(is_argument_of(text, text.len(), &["mysql"]), expected, "{text:?}");
        }
    }
}
