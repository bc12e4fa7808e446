//! Taking a shell command line apart into its simple commands, as far as that can be done with certainty. What is not
//! understood to the letter (substitutions, sub-shells, here-documents, control structures) is not guessed at.

use std::iter::Peekable;
use std::str::Chars;

/// A command line: simple commands and what stands between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The commands, in order; at least one.
    pub commands: Vec<Simple>,
    /// What joins each command to the next.
    pub joints: Vec<Joint>,
}

/// What joins two commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joint {
    Pipe,
    And,
    Or,
    /// `;` or a new line
    Then,
}

/// One program with its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Simple {
    /// Assignments before the program, as they are written.
    pub assignments: Vec<String>,
    pub words: Vec<Word>,
    /// Where its inputs and outputs go.
    pub redirects: Vec<Redirect>,
}

/// One word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// What the program is given, when the shell changes nothing of it.
    pub text: String,
    /// As it is written.
    pub source: String,
    /// Whether the shell expands it: a variable, a pattern, a home folder.
    pub expands: bool,
}

/// Where an input or output goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// To nowhere, or to another output: as it is written.
    Harmless(String),
    File,
}

/// Words that begin or end a control structure when they are where a program could be.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "{", "}",
];

/// Takes a line apart; `None` when it holds anything that is not understood.
pub(crate) fn parse(line: &str) -> Option<Line> {
    if line.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return None;
    }
    let mut scanner = Scanner { rest: line.chars().peekable() };
    let mut parsed = Line { commands: Vec::new(), joints: Vec::new() };
    scanner.skip_blanks_and_lines();
    loop {
        let (command, joint) = scanner.command()?;
        let is_empty = command.words.is_empty();
        if is_empty {
            return None;
        }
        parsed.commands.push(command);
        let Some(joint) = joint else { return Some(parsed) };
        scanner.skip_blanks_and_lines();
        if scanner.rest.peek().is_none() {
            return (joint == Joint::Then).then_some(parsed);
        }
        parsed.joints.push(joint);
    }
}

impl Line {
    /// Returns the line written so that the shell reads the same words and expands none of them but those that
    /// `write` gives back as they are written.
    pub fn rendered(&self, write: impl Fn(&Simple) -> String) -> String {
        let mut text = String::new();
        for (index, command) in self.commands.iter().enumerate() {
            text.push_str(&write(command));
            text.push_str(match self.joints.get(index) {
                Some(Joint::Pipe) => " | ",
                Some(Joint::And) => " && ",
                Some(Joint::Or) => " || ",
                Some(Joint::Then) => "; ",
                None => "",
            });
        }
        text
    }
}

impl Simple {
    /// Returns the command in the one form that rules compare: assignments, program and arguments, one blank apart.
    pub fn canonical(&self) -> String {
        let words = self.words.iter().map(Word::canonical);
        self.assignments.iter().cloned().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether it reads from or writes to a file by itself.
    pub fn redirects_to_file(&self) -> bool {
        self.redirects.contains(&Redirect::File)
    }

    /// Returns the words as the program gets them; `None` when the shell changes one.
    pub fn literal(&self) -> Option<Vec<String>> {
        self.words.iter().map(|word| (!word.expands).then(|| word.text.clone())).collect()
    }
}

impl Word {
    fn canonical(&self) -> String {
        if self.expands { self.source.clone() } else { quoted(&self.text) }
    }
}

/// Returns a word written so that the shell takes it as it is.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+:,./^~-".contains(c);
    let is_option = text.starts_with('-');
    let has_home = text.starts_with('~') || text.contains(":~") || text.contains("=~");
    if !text.is_empty() && !has_home && text.chars().all(|c| is_plain(c) || (is_option && c == '=')) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

struct Scanner<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Scanner<'_> {
    /// Reads one command and what follows it; `None` for what is not understood.
    fn command(&mut self) -> Option<(Simple, Option<Joint>)> {
        let mut command = Simple::default();
        loop {
            self.skip_blanks();
            let joint = match self.rest.peek() {
                None => return Some((command, None)),
                Some('#' | '(' | ')') => return None,
                Some('\n') => {
                    self.rest.next();
                    Joint::Then
                }
                Some(';') => {
                    self.rest.next();
                    Joint::Then
                }
                Some('|') => {
                    self.rest.next();
                    if self.take('|') { Joint::Or } else { Joint::Pipe }
                }
                Some('&') => {
                    self.rest.next();
                    // In the background, or both outputs to a file.
                    if !self.take('&') {
                        return None;
                    }
                    Joint::And
                }
                Some('<' | '>') => {
                    let redirect = self.redirect("")?;
                    command.redirects.push(redirect);
                    continue;
                }
                Some(_) => {
                    self.word_into(&mut command)?;
                    continue;
                }
            };
            if self.rest.peek() == Some(&'&') && joint == Joint::Pipe {
                return None;
            }
            return Some((command, Some(joint)));
        }
    }

    fn word_into(&mut self, command: &mut Simple) -> Option<()> {
        let word = self.word()?;
        let is_number = !word.source.is_empty() && word.source.chars().all(|c| c.is_ascii_digit());
        if is_number && matches!(self.rest.peek(), Some('<' | '>')) {
            let redirect = self.redirect(&word.source)?;
            command.redirects.push(redirect);
            return Some(());
        }
        if command.words.is_empty() {
            if RESERVED.contains(&word.source.as_str()) {
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

    fn redirect(&mut self, number: &str) -> Option<Redirect> {
        let mut operator = String::from(self.rest.next()?);
        while let Some(c @ ('<' | '>' | '&' | '|')) = self.rest.peek().copied() {
            operator.push(c);
            self.rest.next();
        }
        if !["<", ">", ">>", ">&", "<&", ">|", "<>"].contains(&operator.as_str()) {
            return None;
        }
        self.skip_blanks();
        if matches!(self.rest.peek(), None | Some('\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')) {
            return None;
        }
        let target = self.word()?;
        let is_output = ["", "1", "2"].contains(&number);
        let is_harmless = !target.expands
            && match operator.as_str() {
                ">" | ">>" => is_output && target.text == "/dev/null",
                ">&" => is_output && ["1", "2"].contains(&target.text.as_str()),
                "<" => number.is_empty() && target.text == "/dev/null",
                _ => false,
            };
        let text = format!("{number}{operator}{}", target.text);
        Some(if is_harmless { Redirect::Harmless(text) } else { Redirect::File })
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        while let Some(c) = self.rest.peek().copied() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                _ => {}
            }
            self.rest.next();
            word.source.push(c);
            match c {
                '`' => return None,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    let escaped = self.rest.next()?;
                    word.source.push(escaped);
                    if escaped != '\n' {
                        word.text.push(escaped);
                    }
                }
                '$' => {
                    if matches!(self.rest.peek(), Some('\'' | '"')) {
                        return None;
                    }
                    self.dollar(&mut word)?;
                }
                '*' | '?' | '[' | '{' | '}' => {
                    word.text.push(c);
                    word.expands = true;
                }
                '~' => {
                    word.expands |= matches!(word.source.as_bytes(), [b'~'] | [.., b':' | b'=', b'~']);
                    word.text.push(c);
                }
                _ => word.text.push(c),
            }
        }
        Some(word)
    }

    fn single_quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            let c = self.rest.next()?;
            word.source.push(c);
            if c == '\'' {
                return Some(());
            }
            word.text.push(c);
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            let c = self.rest.next()?;
            word.source.push(c);
            match c {
                '"' => return Some(()),
                '`' => return None,
                '$' => self.dollar(word)?,
                '\\' => {
                    let escaped = self.rest.next()?;
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
    fn dollar(&mut self, word: &mut Word) -> Option<()> {
        match self.rest.peek().copied() {
            Some('(' | '[') => return None,
            Some('{') => {
                let mut name = String::new();
                word.source.push('{');
                self.rest.next();
                loop {
                    let c = self.rest.next()?;
                    word.source.push(c);
                    if c == '}' {
                        break;
                    }
                    name.push(c);
                }
                if !is_name(&name) {
                    return None;
                }
                word.expands = true;
            }
            Some(c) if c.is_ascii_alphanumeric() || "_?$!#@*-".contains(c) => word.expands = true,
            Some(_) | None => word.text.push('$'),
        }
        Some(())
    }

    fn skip_blanks(&mut self) {
        loop {
            match self.rest.peek() {
                Some(' ' | '\t') => drop(self.rest.next()),
                Some('\\') => {
                    let mut ahead = self.rest.clone();
                    ahead.next();
                    if ahead.next() != Some('\n') {
                        return;
                    }
                    self.rest = ahead;
                }
                Some(_) | None => return,
            }
        }
    }

    fn skip_blanks_and_lines(&mut self) {
        loop {
            self.skip_blanks();
            if !self.take('\n') {
                return;
            }
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
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
