//! Taking a shell command line apart into its simple commands, as far as that can be done with certainty. What is not
//! understood to the letter (substitutions, sub-shells, here-documents, control structures) is not guessed at.

use std::iter::Peekable;
use std::str::Chars;

/// A command line: simple commands and what stands between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The commands, in order; at least one.
    pub commands: Vec<SimpleCommand>,
    /// The operators between the commands, in order.
    pub operators: Vec<CommandOperator>,
}

/// An operator between two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOperator {
    Pipe,
    And,
    Or,
    /// `;` or a new line
    Sequence,
}

/// One program with its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// Assignments before the program, as they are written.
    pub assignments: Vec<String>,
    pub words: Vec<ShellWord>,
    /// Where its inputs and outputs go.
    pub redirects: Vec<ShellRedirect>,
}

/// One word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The word as the program receives it, when the shell changes nothing in it.
    pub text: String,
    /// As it is written.
    pub source: String,
    /// True if the shell expands the word: a variable, a pattern or a home folder.
    pub is_expanded: bool,
}

/// Where an input or output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShellRedirect {
    /// To nowhere, or to another output: as it is written.
    Harmless(String),
    File,
}

/// Words that begin or end a control structure when they are where a program could be.
const RESERVED_WORDS: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "{", "}",
];

/// Takes a line apart; `None` when it holds anything that is not understood.
pub(crate) fn parse_command_line(line: &str) -> Option<CommandLine> {
    if line.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return None;
    }
    let mut scanner = ShellScanner { remaining: line.chars().peekable() };
    let mut parsed = CommandLine { commands: Vec::new(), operators: Vec::new() };
    scanner.skip_blanks_and_lines();
    loop {
        let (command, joint) = scanner.parse_command()?;
        let is_empty = command.words.is_empty();
        if is_empty {
            return None;
        }
        parsed.commands.push(command);
        let Some(joint) = joint else { return Some(parsed) };
        scanner.skip_blanks_and_lines();
        if scanner.remaining.peek().is_none() {
            return (joint == CommandOperator::Sequence).then_some(parsed);
        }
        parsed.operators.push(joint);
    }
}

impl CommandLine {
    /// Returns the line written so that the shell reads the same words and expands none of them but those that
    /// `write` gives back as they are written.
    pub fn render(&self, write: impl Fn(&SimpleCommand) -> String) -> String {
        let mut text = String::new();
        for (index, command) in self.commands.iter().enumerate() {
            text.push_str(&write(command));
            text.push_str(match self.operators.get(index) {
                Some(CommandOperator::Pipe) => " | ",
                Some(CommandOperator::And) => " && ",
                Some(CommandOperator::Or) => " || ",
                Some(CommandOperator::Sequence) => "; ",
                None => "",
            });
        }
        text
    }
}

impl SimpleCommand {
    /// Returns the command in the one form that rules compare: assignments, program and arguments, one blank apart.
    pub fn canonical(&self) -> String {
        let words = self.words.iter().map(ShellWord::canonical);
        self.assignments.iter().cloned().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether it reads from or writes to a file by itself.
    pub fn redirects_to_file(&self) -> bool {
        self.redirects.contains(&ShellRedirect::File)
    }

    /// Returns the words as the program gets them; `None` when the shell changes one.
    pub fn literal_words(&self) -> Option<Vec<String>> {
        self.words.iter().map(|word| (!word.is_expanded).then(|| word.text.clone())).collect()
    }
}

impl ShellWord {
    fn canonical(&self) -> String {
        if self.is_expanded { self.source.clone() } else { quote(&self.text) }
    }
}

/// Returns a word written so that the shell takes it literally.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+:,./^~-".contains(c);
    let is_option = text.starts_with('-');
    let has_home = text.starts_with('~') || text.contains(":~") || text.contains("=~");
    if !text.is_empty() && !has_home && text.chars().all(|c| is_plain(c) || (is_option && c == '=')) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

struct ShellScanner<'a> {
    remaining: Peekable<Chars<'a>>,
}

impl ShellScanner<'_> {
    /// Reads one command and what follows it; `None` for what is not understood.
    fn parse_command(&mut self) -> Option<(SimpleCommand, Option<CommandOperator>)> {
        let mut command = SimpleCommand::default();
        loop {
            self.skip_blanks();
            let joint = match self.remaining.peek() {
                None => return Some((command, None)),
                Some('#' | '(' | ')') => return None,
                Some('\n') => {
                    self.remaining.next();
                    CommandOperator::Sequence
                }
                Some(';') => {
                    self.remaining.next();
                    CommandOperator::Sequence
                }
                Some('|') => {
                    self.remaining.next();
                    if self.accept('|') { CommandOperator::Or } else { CommandOperator::Pipe }
                }
                Some('&') => {
                    self.remaining.next();
                    // In the background, or both outputs to a file.
                    if !self.accept('&') {
                        return None;
                    }
                    CommandOperator::And
                }
                Some('<' | '>') => {
                    let redirect = self.parse_redirect("")?;
                    command.redirects.push(redirect);
                    continue;
                }
                Some(_) => {
                    self.parse_word_into(&mut command)?;
                    continue;
                }
            };
            if self.remaining.peek() == Some(&'&') && joint == CommandOperator::Pipe {
                return None;
            }
            return Some((command, Some(joint)));
        }
    }

    fn parse_word_into(&mut self, command: &mut SimpleCommand) -> Option<()> {
        let word = self.parse_word()?;
        let is_number = !word.source.is_empty() && word.source.chars().all(|c| c.is_ascii_digit());
        if is_number && matches!(self.remaining.peek(), Some('<' | '>')) {
            let redirect = self.parse_redirect(&word.source)?;
            command.redirects.push(redirect);
            return Some(());
        }
        if command.words.is_empty() {
            if RESERVED_WORDS.contains(&word.source.as_str()) {
                return None;
            }
            if is_assignment(&word.source) {
                command.assignments.push(word.source);
                return Some(());
            }
        }
        command.words.push(word);
        Some(())
    }

    fn parse_redirect(&mut self, number: &str) -> Option<ShellRedirect> {
        let mut operator = String::from(self.remaining.next()?);
        while let Some(c @ ('<' | '>' | '&' | '|')) = self.remaining.peek().copied() {
            operator.push(c);
            self.remaining.next();
        }
        if !["<", ">", ">>", ">&", "<&", ">|", "<>"].contains(&operator.as_str()) {
            return None;
        }
        self.skip_blanks();
        if matches!(self.remaining.peek(), None | Some('\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')) {
            return None;
        }
        let target = self.parse_word()?;
        let is_output = ["", "1", "2"].contains(&number);
        let is_harmless = !target.is_expanded
            && match operator.as_str() {
                ">" | ">>" => is_output && target.text == "/dev/null",
                ">&" => is_output && ["1", "2"].contains(&target.text.as_str()),
                "<" => number.is_empty() && target.text == "/dev/null",
                _ => false,
            };
        let text = format!("{number}{operator}{}", target.text);
        Some(if is_harmless { ShellRedirect::Harmless(text) } else { ShellRedirect::File })
    }

    fn parse_word(&mut self) -> Option<ShellWord> {
        let mut word = ShellWord::default();
        while let Some(c) = self.remaining.peek().copied() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => {}
            }
            self.remaining.next();
            word.source.push(c);
            match c {
                '`' => return None,
                '\'' => self.parse_single_quoted(&mut word)?,
                '"' => self.parse_double_quoted(&mut word)?,
                '\\' => {
                    let escaped = self.remaining.next()?;
                    word.source.push(escaped);
                    if escaped != '\n' {
                        word.text.push(escaped);
                    }
                }
                '$' => {
                    if matches!(self.remaining.peek(), Some('\'' | '"')) {
                        return None;
                    }
                    self.parse_dollar(&mut word)?;
                }
                '*' | '?' | '[' | '{' | '}' => {
                    word.text.push(c);
                    word.is_expanded = true;
                }
                '~' => {
                    word.is_expanded |= matches!(word.source.as_bytes(), [b'~'] | [.., b':' | b'=', b'~']);
                    word.text.push(c);
                }
                _ => word.text.push(c),
            }
        }
        Some(word)
    }

    fn parse_single_quoted(&mut self, word: &mut ShellWord) -> Option<()> {
        loop {
            let c = self.remaining.next()?;
            word.source.push(c);
            if c == '\'' {
                return Some(());
            }
            word.text.push(c);
        }
    }

    fn parse_double_quoted(&mut self, word: &mut ShellWord) -> Option<()> {
        loop {
            let c = self.remaining.next()?;
            word.source.push(c);
            match c {
                '"' => return Some(()),
                '`' => return None,
                '$' => self.parse_dollar(word)?,
                '\\' => {
                    let escaped = self.remaining.next()?;
                    word.source.push(escaped);
                    match escaped {
                        '\n' => {}
                        '$' | '`' | '"' | '\\' => word.text.push(escaped),
                        _ => word.text.extend(['\\', escaped]),
                    }
                }
                _ => word.text.push(c),
            }
        }
    }

    /// Reads what follows a `$`: a plain variable expands, anything that could run something is not understood.
    fn parse_dollar(&mut self, word: &mut ShellWord) -> Option<()> {
        match self.remaining.peek().copied() {
            Some('(' | '[') => return None,
            Some('{') => {
                let mut name = String::new();
                word.source.push('{');
                self.remaining.next();
                loop {
                    let c = self.remaining.next()?;
                    word.source.push(c);
                    if c == '}' {
                        break;
                    }
                    name.push(c);
                }
                if !is_name(&name) {
                    return None;
                }
                word.is_expanded = true;
            }
            Some(c) if c.is_ascii_alphanumeric() || "_?$!#@*-".contains(c) => word.is_expanded = true,
            Some(_) | None => word.text.push('$'),
        }
        Some(())
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.remaining.peek() {
                Some(' ' | '\t') => drop(self.remaining.next()),
                Some('\\') => {
                    let mut ahead = self.remaining.clone();
                    ahead.next();
                    if ahead.next() != Some('\n') {
                        return;
                    }
                    self.remaining = ahead;
                }
                Some(_) | None => return,
            }
        }
    }

    fn skip_blanks_and_lines(&mut self) {
        loop {
            self.skip_blanks();
            if !self.accept('\n') {
                return;
            }
        }
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.remaining.next_if_eq(&wanted).is_some()
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_assignment(source: &str) -> bool {
    source.split_once('=').is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

#[cfg(test)]
mod tests;
