//! Which command lines only read, and what of the workspace they name. Whatever [`tables`] does not list may do more,
//! and in doubt a line is not one that only reads. Who may run which is not decided here.

mod tables;

use std::path::{Path, PathBuf};

use crate::execute::git;
use crate::permission::{SECRET_NAMES, looks_secret};
use crate::shell::{self, ShellRedirect, SimpleCommand};
use crate::workspace::Workspace;
use tables::{
    BRANCH_LIST_OPTIONS, FIND_TESTS, GIT_SUBCOMMANDS, OperandRule, PATCH_OPTIONS, READ_ONLY_PROGRAMS,
    ReadOnlyProgram,
};

/// A line of programs that only read, wherever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReadOnlyCommand {
    /// The line to run in its place: the same words, none of them expanded, with options that keep the programs from
    /// doing more.
    pub script: String,
    /// True if git is among the programs.
    pub uses_git: bool,
    /// True if the command shows more of the workspace than it names.
    pub is_search: bool,
    /// Words that may name something.
    operands: Vec<String>,
    /// Those of them that must not name a folder.
    file_operands: Vec<String>,
    /// Folders it changes into.
    visited_folders: Vec<String>,
}

/// Takes the line for one that only reads; `None` when it may do more.
pub(super) fn parse_read_only(line: &str) -> Option<ReadOnlyCommand> {
    let parsed = shell::parse_command_line(line)?;
    let mut reading = ReadOnlyCommand::default();
    for command in &parsed.commands {
        let argv = command.literal_words()?;
        if !command.assignments.is_empty() || command.redirects_to_file() {
            return None;
        }
        match argv.split_first()? {
            (name, [folder]) if name == "cd" => reading.visited_folders.push(folder.clone()),
            (name, words) => reading.add_command(name, words)?,
        }
    }
    reading.script = parsed.render(render_command);
    Some(reading)
}

impl ReadOnlyCommand {
    /// Returns what the line names of the workspace, relative to it, or the workspace itself when it names nothing;
    /// `None` when something is outside, or when it would go through a folder that it must not.
    pub fn paths(&self, workspace: &Workspace) -> Option<Vec<PathBuf>> {
        for folder in &self.visited_folders {
            // Anywhere else the paths that follow would mean something else.
            workspace.resolve_word(folder).ok()?.filter(|path| path.as_os_str().is_empty())?;
        }
        if self.file_operands.iter().any(|word| workspace.root().join(word).is_dir()) {
            return None;
        }
        // In a larger repository `HEAD:a` is not the workspace's.
        let is_whole = workspace.root().join(".git").exists();
        if self.uses_git && !is_whole && self.operands.iter().any(|word| word.contains(':')) {
            return None;
        }
        let mut paths = Vec::new();
        for word in &self.operands {
            paths.extend(workspace.resolve_word(word).ok()?);
            paths.extend(path_in_commit(word, workspace));
        }
        if paths.is_empty() {
            paths.push(PathBuf::new());
        }
        Some(paths)
    }

    /// Adds a command; `None` when it may do more than read.
    fn add_command(&mut self, name: &str, words: &[String]) -> Option<()> {
        let program = READ_ONLY_PROGRAMS.iter().find(|program| program.name == name)?;
        let named = match program.operands {
            OperandRule::Git => {
                let (sub, words) = words.split_first()?;
                let program = GIT_SUBCOMMANDS.iter().find(|program| program.name == sub)?;
                check_program(program, words)?
            }
            OperandRule::Find => check_find(words)?,
            OperandRule::Any
            | OperandRule::AtMostOne
            | OperandRule::Files
            | OperandRule::None
            | OperandRule::Format
            | OperandRule::ListOnly => check_program(program, words)?,
        };
        let named = named.into_iter().map(str::to_owned);
        self.uses_git |= program.operands == OperandRule::Git;
        self.is_search |= is_search(name, words);
        if program.operands == OperandRule::Files {
            self.file_operands.extend(named.clone());
        }
        self.operands.extend(named);
        Some(())
    }
}

/// Returns the path in a word such as `HEAD:src/a.rs`, or the word when it looks like a file of secrets that is gone.
fn path_in_commit(word: &str, workspace: &Workspace) -> Option<PathBuf> {
    let path = word.rsplit(':').next().filter(|path| !path.is_empty())?;
    if looks_secret(Path::new(path)) {
        return Some(PathBuf::from(path));
    }
    word.contains(':').then(|| workspace.resolve(path).ok())?.map(|target| target.relative().to_owned())
}

/// Returns whether the command shows more of the workspace than it names.
fn is_search(name: &str, words: &[String]) -> bool {
    let has = |letter: char| leading_short_options(words).any(|letters| letters.contains(letter));
    match (name, words.first().map(String::as_str)) {
        ("rg" | "find" | "du", _) | ("git", Some("diff" | "show" | "ls-files")) => true,
        ("grep", _) => has('r'),
        ("ls", _) => has('R'),
        ("git", Some("log")) => {
            has('p') || has('U') || words.iter().any(|word| PATCH_OPTIONS.contains(&option_name(word)))
        }
        _ => false,
    }
}

fn leading_short_options(words: &[String]) -> impl Iterator<Item = &str> {
    let options = words.iter().map(String::as_str).take_while(|word| *word != "--");
    options.filter(|word| !word.starts_with("--")).filter_map(|word| word.strip_prefix('-'))
}

/// Returns the command with the options it is always given.
fn render_command(command: &SimpleCommand) -> String {
    let mut argv = command.literal_words().unwrap_or_default();
    let words = argv.split_off(1);
    argv.extend(match argv[0].as_str() {
        "git" => git::safe_arguments(&words),
        // A configuration file could name a preprocessor.
        "rg" => exclude_secret_files([vec!["--no-config".to_owned()], words].concat(), |name| {
            format!("--iglob=!{name}")
        }),
        // Without `-r` it reads the files it names, and those are asked about.
        "grep" if is_search("grep", &words) => {
            exclude_secret_files(words, |name| format!("--exclude={}", case_insensitive_glob(name)))
        }
        _ => words,
    });
    let redirects = command.redirects.iter().filter_map(|redirect| match redirect {
        ShellRedirect::Harmless(text) => Some(text.clone()),
        ShellRedirect::File => None,
    });
    argv.iter().map(|word| shell::quote(word)).chain(redirects).collect::<Vec<_>>().join(" ")
}

/// Adds an option for each name of files that hold secrets, behind all other options: the last one counts. None of
/// those lacks its value, so none takes an added one for it.
fn exclude_secret_files(mut words: Vec<String>, option: impl Fn(&str) -> String) -> Vec<String> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let rest = words.split_off(end);
    words.extend(SECRET_NAMES.iter().map(|name| option(name)));
    words.extend(rest);
    words
}

/// Returns a glob of names that matches them in upper and lower case.
pub(super) fn case_insensitive_glob(name: &str) -> String {
    let letter = |c: char| match c {
        'a'..='z' => format!("[{c}{}]", c.to_ascii_uppercase()),
        _ => c.to_string(),
    };
    name.chars().map(letter).collect()
}

/// Returns the words that may name something when the command only reads.
fn check_program<'a>(program: &ReadOnlyProgram, words: &'a [String]) -> Option<Vec<&'a str>> {
    let plain = check_options(program, words)?;
    let is_allowed = match program.operands {
        OperandRule::None => plain.is_empty(),
        OperandRule::AtMostOne => plain.len() <= 1,
        OperandRule::Format => plain.iter().all(|word| word.starts_with('+')),
        OperandRule::ListOnly => {
            plain.is_empty() || words.iter().any(|word| contains_option(BRANCH_LIST_OPTIONS, word))
        }
        OperandRule::Any | OperandRule::Files | OperandRule::Find | OperandRule::Git => true,
    };
    is_allowed.then_some(plain)
}

/// Checks the options and returns the other words.
fn check_options<'a>(program: &ReadOnlyProgram, words: &'a [String]) -> Option<Vec<&'a str>> {
    let mut plain = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            "--" => plain.extend(rest.by_ref()),
            // On its own it is the input, or a place that is written to.
            "-" => plain.push(word),
            _ if !word.starts_with('-') => plain.push(word),
            _ => match option_arity(program, word)? {
                OptionArity::NoValue => {}
                OptionArity::Value => drop(rest.next().filter(|word| is_value(word))?),
                OptionArity::CheckedValue => plain.push(rest.next().filter(|word| is_value(word))?),
            },
        }
    }
    Some(plain)
}

/// The number of following words that an option takes.
enum OptionArity {
    NoValue,
    Value,
    /// A value that is looked at as if it were no value.
    CheckedValue,
}

/// Returns what the option needs; `None` when it is not allowed.
fn option_arity(program: &ReadOnlyProgram, word: &str) -> Option<OptionArity> {
    let name = option_name(word);
    for option in program.long_options.iter().copied().flatten() {
        match option.strip_suffix('=') {
            Some(option) if option == word => return Some(OptionArity::CheckedValue),
            Some(option) if option == name => return Some(OptionArity::NoValue),
            None if *option == name => return Some(OptionArity::NoValue),
            Some(_) | None => {}
        }
    }
    if word.starts_with("--") { None } else { short_options_arity(program, &word[1..]) }
}

fn short_options_arity(program: &ReadOnlyProgram, letters: &str) -> Option<OptionArity> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // As in `head -20`.
    if is_number(letters) {
        return program.value_letters.contains('n').then_some(OptionArity::NoValue);
    }
    if letters.starts_with(|letter| program.number_letters.contains(letter)) && is_number(&letters[1..]) {
        return Some(OptionArity::NoValue);
    }
    for (at, letter) in letters.char_indices() {
        if program.value_letters.contains(letter) {
            let is_last = at + letter.len_utf8() == letters.len();
            return Some(if is_last { OptionArity::Value } else { OptionArity::NoValue });
        }
        if !program.flag_letters.contains(letter) {
            return None;
        }
    }
    Some(OptionArity::NoValue)
}

/// Returns whether a word can only be a value, and no option whatever the program makes of it.
fn is_value(word: &str) -> bool {
    match word.strip_prefix('-') {
        Some(rest) => rest.starts_with(|c: char| c.is_ascii_digit()),
        None => true,
    }
}

fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

fn contains_option(options: &[&str], word: &str) -> bool {
    options.iter().any(|option| option.trim_end_matches('=') == option_name(word))
}

fn check_find(words: &[String]) -> Option<Vec<&str>> {
    let mut named = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match FIND_TESTS.iter().find(|(name, _)| *name == word) {
            Some((_, count)) => {
                for _ in 0..*count {
                    named.push(rest.next().filter(|word| is_value(word))?);
                }
            }
            None if word.starts_with('-') => return None,
            None => named.push(word),
        }
    }
    Some(named)
}

#[cfg(test)]
mod tests;
