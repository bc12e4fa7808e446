//! A parser for the subset of the shell language whose meaning is certain: simple commands joined by `|`, `&&`, `||`,
//! `;` and line breaks.
//!
//! Substitutions, sub-shells, here-documents, background jobs, comments and control structures are not parsed. A line
//! that contains one of them is rejected as a whole, because a permission decision must not rest on a guess.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;

use std::iter::Peekable;
use std::str::Chars;

/// A parsed command line: simple commands and the operators between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The commands, in order; at least one.
    pub commands: Vec<SimpleCommand>,
    /// The operators between the commands, in order.
    pub operators: Vec<CommandOperator>,
}

/// An operator between two commands. There is none for `&`: a line with a background job is not parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandOperator {
    /// `|`
    Pipe,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;` or a line break
    Sequence,
}

/// A program with its arguments, assignments and redirections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// Assignments before the program, such as `LANG=C`, in their source form.
    pub assignments: Vec<String>,
    /// The program's name and its arguments.
    pub words: Vec<ShellWord>,
    /// Redirections of inputs and outputs, in order.
    pub redirects: Vec<ShellRedirect>,
}

/// One word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellWord {
    /// The word after quote removal. The program receives exactly this text unless `is_expanded` is set.
    pub text: String,
    /// The word in its source form, with quotes and backslashes.
    pub source: String,
    /// True if the shell expands the word: a variable, a pattern or a home folder.
    pub is_expanded: bool,
}

/// A redirection of an input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShellRedirect {
    /// A redirection to or from `/dev/null`, or to standard output or error, as shell text.
    Harmless(String),
    /// A redirection to or from a file, or any other redirection that is not known to be harmless.
    File,
}

/// Words that begin or end a control structure when they stand in the place of a program name.
const RESERVED_WORDS: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "time", "until", "while", "{", "}",
];

/// Programs that bash or another shell executes itself, and that differ between shells. All other programs on the search path
/// are the same files for every shell.
const SHELL_BUILTINS: &[&str] = &[
    ".",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "print",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "whence",
];

/// The redirections that every shell understands.
const PORTABLE_REDIRECTS: &[&str] =
    &["2>&1", "1>&2", ">&2", ">&1", ">/dev/null", "1>/dev/null", "2>/dev/null", "</dev/null"];

/// Returns whether a line means the same to every POSIX shell as to bash: it runs programs whose arguments no shell
/// expands, and no builtin that differs between shells.
pub(crate) fn is_portable(line: &str) -> bool {
    parse_command_line(line).is_some_and(|parsed| parsed.commands.iter().all(SimpleCommand::is_portable))
}

/// Parses a command line. Returns `None` if it contains anything outside the supported subset, a command without a
/// program, or a control character other than a tab and a line break.
pub(crate) fn parse_command_line(line: &str) -> Option<CommandLine> {
    if line.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return None;
    }
    let mut scanner = ShellScanner { remaining: line.chars().peekable() };
    let mut parsed = CommandLine { commands: Vec::new(), operators: Vec::new() };
    scanner.skip_blanks_and_lines();
    loop {
        let (command, operator) = scanner.parse_command()?;
        let is_empty = command.words.is_empty();
        if is_empty {
            return None;
        }
        parsed.commands.push(command);
        let Some(operator) = operator else { return Some(parsed) };
        scanner.skip_blanks_and_lines();
        if scanner.remaining.peek().is_none() {
            return (operator == CommandOperator::Sequence).then_some(parsed);
        }
        parsed.operators.push(operator);
    }
}

impl CommandLine {
    /// Returns the line with each command rendered by `write`, joined by the original operators. If `write` quotes
    /// every word, the shell expands none of them.
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
    /// Returns the canonical form that permission rules match: assignments, program and arguments, separated by single
    /// spaces. Words that the shell does not expand are quoted uniformly. Redirections are left out.
    pub fn canonical(&self) -> String {
        let words = self.words.iter().map(ShellWord::canonical);
        self.assignments.iter().cloned().chain(words).collect::<Vec<_>>().join(" ")
    }

    /// Returns whether a redirection makes the shell itself read or write a file.
    pub fn redirects_to_file(&self) -> bool {
        self.redirects.contains(&ShellRedirect::File)
    }

    /// Returns whether the command means the same to every POSIX shell, see [`is_portable`].
    fn is_portable(&self) -> bool {
        let is_portable_redirect = |redirect: &ShellRedirect| match redirect {
            ShellRedirect::Harmless(text) => PORTABLE_REDIRECTS.contains(&text.as_str()),
            ShellRedirect::File => false,
        };
        let is_portable_program = |words: &[ShellWord]| match words {
            // With other arguments, one shell enters a folder and another one fails.
            [program, folder] if program.text == "cd" => !folder.text.starts_with('-'),
            [program, ..] if program.text == "cd" => false,
            // A script without an interpreter line is interpreted by the shell itself.
            [program, ..] => !program.text.contains('/') && !SHELL_BUILTINS.contains(&program.text.as_str()),
            [] => false,
        };
        self.assignments.is_empty()
            && self.words.iter().all(|word| !word.is_expanded)
            && self.redirects.iter().all(is_portable_redirect)
            && is_portable_program(&self.words)
    }

    /// Returns the words as the program receives them, or `None` if the shell expands at least one of them.
    pub fn literal_words(&self) -> Option<Vec<String>> {
        self.words.iter().map(|word| (!word.is_expanded).then(|| word.text.clone())).collect()
    }
}

impl ShellWord {
    /// Returns the source form of a word that the shell expands, and the uniformly quoted text of any other word.
    fn canonical(&self) -> String {
        if self.is_expanded { self.source.clone() } else { quote(&self.text) }
    }
}

/// Quotes a word so that the shell takes it literally. A word without special characters stays unquoted.
pub fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+:,./^~-".contains(c);
    let is_option = text.starts_with('-');
    let has_home = text.starts_with('~') || text.contains(":~") || text.contains("=~");
    if !text.is_empty() && !has_home && text.chars().all(|c| is_plain(c) || (is_option && c == '=')) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The position of the parser in a command line. Every `parse_…` method returns `None` for unsupported syntax.
struct ShellScanner<'a> {
    /// Characters that have not been parsed yet.
    remaining: Peekable<Chars<'a>>,
}

impl ShellScanner<'_> {
    /// Parses one command and the operator after it. The operator is `None` at the end of the line.
    fn parse_command(&mut self) -> Option<(SimpleCommand, Option<CommandOperator>)> {
        let mut command = SimpleCommand::default();
        loop {
            self.skip_blanks();
            let operator = match self.remaining.peek() {
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
                    // A single `&` starts a background job, and `&>` redirects both outputs to a file.
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
            // `|&` also pipes standard error and is not part of the supported subset.
            if self.remaining.peek() == Some(&'&') && operator == CommandOperator::Pipe {
                return None;
            }
            return Some((command, Some(operator)));
        }
    }

    /// Parses a word and adds it to the command as an assignment, a redirection (if it is the number of a file
    /// descriptor, as in `2>&1`) or a word.
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

    /// Parses a redirection from its operator on. `number` is the file descriptor before the operator, or empty.
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

    /// Parses one word up to a blank or an operator.
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
                    // `$'…'` interprets escapes, and `$"…"` translates the text.
                    if matches!(self.remaining.peek(), Some('\'' | '"')) {
                        return None;
                    }
                    self.parse_dollar(&mut word)?;
                }
                '*' | '?' | '[' | '{' | '}' => {
                    word.text.push(c);
                    word.is_expanded = true;
                }
                // The shell expands `~` at the beginning of a word, and after `:` or `=` in an assignment.
                '~' => {
                    word.is_expanded |= matches!(word.source.as_bytes(), [b'~'] | [.., b':' | b'=', b'~']);
                    word.text.push(c);
                }
                _ => word.text.push(c),
            }
        }
        Some(word)
    }

    /// Parses the text of single quotes up to the closing quote. Nothing in it is special.
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

    /// Parses the text of double quotes up to the closing quote. A backslash escapes only `$`, `` ` ``, `"` and `\`,
    /// and removes a line break.
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

    /// Parses the text after a `$`. `$name` and `${name}` mark the word as expanded; `$(…)`, `$[…]` and every other
    /// form of `${…}` is unsupported, because it may run a command.
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

    /// Skips spaces, tabs and escaped line breaks.
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

    /// Skips blanks and line breaks.
    fn skip_blanks_and_lines(&mut self) {
        loop {
            self.skip_blanks();
            if !self.accept('\n') {
                return;
            }
        }
    }

    /// Consumes the next character if it is `wanted`, and returns whether it was.
    fn accept(&mut self, wanted: char) -> bool {
        self.remaining.next_if_eq(&wanted).is_some()
    }
}

/// Returns whether a text is a legal variable name.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a word has the form `name=…` or `name+=…`.
fn is_assignment(source: &str) -> bool {
    source.split_once('=').is_some_and(|(name, _)| is_name(name.strip_suffix('+').unwrap_or(name)))
}

#[cfg(test)]
mod tests;
