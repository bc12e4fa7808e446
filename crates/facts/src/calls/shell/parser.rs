//! Splits the text of a command into simple commands with their words, redirections and folders. It interprets quotes,
//! comments, subshells and `cd`, but expands no variables and no patterns.

use std::ops::Range;

use super::paths::{is_plain_path, resolve_path};

/// A word of a command, without the quotation marks around its quoted parts.
#[derive(Debug, Clone, Default)]
pub(super) struct ShellWord {
    /// The text. Backslashes are kept, so that an escaped word is no plain path.
    pub text: String,
    /// The position in the text of the command, with quotation marks.
    pub span: Range<usize>,
}

/// A file to which a command redirects its output.
#[derive(Debug, Clone)]
pub(super) struct OutputTarget {
    /// The name of the file.
    pub path: String,
    /// True if the output is appended.
    pub appends: bool,
}

/// A program with its arguments: one part of a pipe or sequence.
#[derive(Debug, Clone, Default)]
pub(super) struct SimpleCommand {
    /// The program and its arguments, with the words before them, such as `sudo`.
    pub words: Vec<ShellWord>,
    /// The files that the output is redirected to.
    pub outputs: Vec<OutputTarget>,
    /// The folder that an earlier `cd` went into; empty before one, or if the folder is unknown.
    pub folder: String,
    /// The position of the command's end in the text.
    pub end: usize,
}

/// Words before the program of a simple command.
const PREFIXES: &[&str] = &[
    "sudo", "time", "env", "then", "do", "else", "if", "elif", "while", "until", "!", "{", "nohup", "exec",
    "command",
];

impl SimpleCommand {
    /// Returns the program, without its folder, and its arguments. Prefixes such as `sudo`, `timeout 30`, `xargs -0` and
    /// variable assignments are skipped, and for `find … -exec` the executed program is returned.
    pub(super) fn program(&self) -> (&str, &[ShellWord]) {
        let mut words = self.words.as_slice();
        while let [first, rest @ ..] = words {
            let word = first.text.as_str();
            let is_assignment =
                word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && super::is_word(name));
            let is_option = |word: &&ShellWord| {
                word.text.starts_with(['-', '{']) || word.text.bytes().all(|b| b.is_ascii_digit())
            };
            words = match word {
                "timeout" => rest.get(1..).unwrap_or_default(),
                "xargs" => &rest[rest.iter().take_while(is_option).count()..],
                "find" => {
                    let executes = |word: &ShellWord| matches!(word.text.as_str(), "-exec" | "-execdir");
                    match rest.iter().position(executes) {
                        Some(option) => &rest[option + 1..],
                        None => return ("find", rest),
                    }
                }
                _ if PREFIXES.contains(&word) || is_assignment => rest,
                _ => return (word.rsplit('/').next().unwrap_or(word), rest),
            };
        }
        ("", &[])
    }
}

/// The use of the word that is being read.
#[derive(Debug, Clone, Copy, Default)]
enum WordUse {
    /// An argument of the command.
    #[default]
    Argument,
    /// The file that the output replaces.
    Output,
    /// The file that the output is appended to.
    AppendedOutput,
    /// The target of another redirection.
    OtherTarget,
}

/// The parts of the text of a command.
#[derive(Debug, Default)]
pub(super) struct ParsedText {
    /// The simple commands, in order.
    pub commands: Vec<SimpleCommand>,
    /// The positions of the comments.
    pub comments: Vec<Range<usize>>,
}

/// The state of a parse.
#[derive(Debug, Default)]
struct ShellParser<'a> {
    /// The text that is parsed.
    text: &'a str,
    /// The commands and comments that have ended.
    parsed: ParsedText,
    /// The command that is being read.
    command: SimpleCommand,
    /// The word that is being read; `None` between words.
    word: Option<ShellWord>,
    /// The use of that word, or of the next one.
    word_use: WordUse,
    /// The folder of the current command.
    folder: String,
    /// The folders of the commands around the subshells that are open.
    outer_folders: Vec<String>,
    /// The quotation marks that do not occur any more.
    ended_quotes: Vec<char>,
}

/// Returns the simple commands and the comments of a text without here-documents.
pub(super) fn parse_commands(text: &str) -> ParsedText {
    let mut parser = ShellParser { text, ..ShellParser::default() };
    let mut offset = 0;
    while let Some(c) = text[offset..].chars().next() {
        offset += parser.read(offset, c);
    }
    parser.end_command(text.len());
    parser.parsed
}

impl ShellParser<'_> {
    /// Reads the part of the text at `offset`, which begins with `c`. Returns its length in bytes.
    fn read(&mut self, offset: usize, c: char) -> usize {
        let rest = &self.text[offset..];
        match c {
            '\\' if rest[1..].starts_with('\n') => {
                self.end_word();
                2
            }
            '\\' => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                self.push(offset, length, &rest[..length])
            }
            '\'' | '"' => match self.quoted_length(rest, c) {
                Some(length) => self.push(offset, length, &rest[1..length - 1]),
                // A quotation mark without an end is an apostrophe.
                None => self.push(offset, 1, &rest[..1]),
            },
            '#' if self.word.is_none() => {
                let length = rest.find('\n').unwrap_or(rest.len());
                self.parsed.comments.push(offset..offset + length);
                length
            }
            '>' | '<' => self.read_redirection(offset),
            '&' if rest[1..].starts_with('>') => {
                self.end_word();
                let length = 1 + rest[1..].bytes().take_while(|b| *b == b'>').count();
                self.word_use = WordUse::OtherTarget;
                length
            }
            '\n' | ';' | '|' | '&' => {
                self.end_command(offset);
                1
            }
            '(' => {
                self.end_command(offset);
                self.outer_folders.push(self.folder.clone());
                1
            }
            ')' => {
                self.end_command(offset);
                self.folder = self.outer_folders.pop().unwrap_or_else(|| self.folder.clone());
                1
            }
            c if c.is_whitespace() => {
                self.end_word();
                c.len_utf8()
            }
            c => self.push(offset, c.len_utf8(), &rest[..c.len_utf8()]),
        }
    }

    /// Returns the length of the quoted part at the beginning of `rest`, with both quotation marks; `None` if it does not
    /// end.
    fn quoted_length(&mut self, rest: &str, quote: char) -> Option<usize> {
        if self.ended_quotes.contains(&quote) {
            return None;
        }
        let length = quoted_length(rest, quote);
        if length.is_none() {
            self.ended_quotes.push(quote);
        }
        length
    }

    /// Reads the operator of a redirection. Returns its length.
    fn read_redirection(&mut self, offset: usize) -> usize {
        let rest = &self.text[offset..];
        let descriptor = self.word.take_if(|word| word.text.bytes().all(|b| b.is_ascii_digit()));
        self.end_word();
        let length = rest.bytes().take_while(|b| matches!(b, b'>' | b'<' | b'|' | b'&' | b'-')).count();
        let operator = &rest[..length];
        let is_output = descriptor.is_none_or(|word| word.text == "1");
        self.word_use = match operator {
            ">" | ">|" if is_output => WordUse::Output,
            ">>" if is_output => WordUse::AppendedOutput,
            // A descriptor is closed.
            _ if operator.ends_with("&-") => WordUse::Argument,
            _ => WordUse::OtherTarget,
        };
        length
    }

    /// Appends `content` to the current word. Returns `length`, the length of the content with its quotation marks.
    fn push(&mut self, offset: usize, length: usize, content: &str) -> usize {
        let word = self.word.get_or_insert_with(|| ShellWord { text: String::new(), span: offset..offset });
        word.text.push_str(content);
        word.span.end = offset + length;
        length
    }

    /// Ends the current word, if there is one.
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let output = |appends| OutputTarget { path: word.text.clone(), appends };
        match std::mem::take(&mut self.word_use) {
            WordUse::Output => self.command.outputs.push(output(false)),
            WordUse::AppendedOutput => self.command.outputs.push(output(true)),
            WordUse::OtherTarget => {}
            WordUse::Argument => self.command.words.push(word),
        }
    }

    /// Ends the current command. The commands after a `cd` are in its folder.
    fn end_command(&mut self, end: usize) {
        self.end_word();
        self.word_use = WordUse::Argument;
        let mut command = std::mem::take(&mut self.command);
        command.folder.clone_from(&self.folder);
        command.end = end;
        if let ("cd" | "pushd" | "popd", operands) = command.program() {
            let target = operands.iter().map(|word| word.text.as_str()).find(|word| !word.starts_with('-'));
            let is_known = target.is_some_and(|target| is_plain_path(target) && !target.starts_with('~'));
            let target = target.filter(|_| is_known).map(|target| resolve_path(&self.folder, target));
            // The names of files above an unknown folder are not known either.
            self.folder = target.filter(|folder| !folder.starts_with("..")).unwrap_or_default();
        }
        self.parsed.commands.push(command);
    }
}

/// Returns the length of the quoted part at the beginning of `text` with both quotation marks; `None` if it does not end.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (offset, c) in text.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return Some(offset + 1);
        }
        is_escaped = quote == '"' && c == '\\' && !is_escaped;
    }
    None
}
