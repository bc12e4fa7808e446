//! Which command lines only read, and what of the workspace they name. Whatever [`tables`] does not list may do more,
//! and in doubt a line is not one that only reads. Who may run which is not decided here.

mod tables;

use std::path::{Path, PathBuf};

use crate::execute::git;
use crate::permission::{SECRET_NAMES, looks_secret};
use crate::shell::{self, Redirect, Simple};
use crate::workspace::Workspace;
use tables::{BRANCH_LISTS, FIND, GIT, PATCHES, PROGRAMS, Program, Words};

/// A line of programs that only read, wherever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The line to run in its place: the same words, none of them expanded, with options that keep the programs from
    /// doing more.
    pub script: String,
    /// Whether git is among the programs.
    pub uses_git: bool,
    /// Whether it shows more of the workspace than it names.
    pub searches: bool,
    /// Words that may name something.
    words: Vec<String>,
    /// Those of them that must not name a folder.
    files: Vec<String>,
    /// Folders it changes into.
    folders: Vec<String>,
}

/// Takes the line for one that only reads; `None` when it may do more.
pub(super) fn reading(line: &str) -> Option<Reading> {
    let parsed = shell::parse(line)?;
    let mut reading = Reading::default();
    for command in &parsed.commands {
        let argv = command.literal()?;
        if !command.assignments.is_empty() || command.redirects_to_file() {
            return None;
        }
        match argv.split_first()? {
            (name, [folder]) if name == "cd" => reading.folders.push(folder.clone()),
            (name, words) => reading.add(name, words)?,
        }
    }
    reading.script = parsed.rendered(rendered);
    Some(reading)
}

impl Reading {
    /// Returns what the line names of the workspace, relative to it, or the workspace itself when it names nothing;
    /// `None` when something is outside, or when it would go through a folder that it must not.
    pub fn paths(&self, workspace: &Workspace) -> Option<Vec<PathBuf>> {
        for folder in &self.folders {
            // Anywhere else the paths that follow would mean something else.
            workspace.named_by(folder).ok()?.filter(|path| path.as_os_str().is_empty())?;
        }
        if self.files.iter().any(|word| workspace.root().join(word).is_dir()) {
            return None;
        }
        // In a larger repository `HEAD:a` is not the workspace's.
        let is_whole = workspace.root().join(".git").exists();
        if self.uses_git && !is_whole && self.words.iter().any(|word| word.contains(':')) {
            return None;
        }
        let mut paths = Vec::new();
        for word in &self.words {
            paths.extend(workspace.named_by(word).ok()?);
            paths.extend(in_a_commit(word, workspace));
        }
        if paths.is_empty() {
            paths.push(PathBuf::new());
        }
        Some(paths)
    }

    /// Adds a command; `None` when it may do more than read.
    fn add(&mut self, name: &str, words: &[String]) -> Option<()> {
        let program = PROGRAMS.iter().find(|program| program.name == name)?;
        let named = match program.words {
            Words::Git => {
                let (sub, words) = words.split_first()?;
                let program = GIT.iter().find(|program| program.name == sub)?;
                check(program, words)?
            }
            Words::Find => check_find(words)?,
            Words::Any | Words::AtMostOne | Words::Files | Words::None | Words::Format | Words::Listed => {
                check(program, words)?
            }
        };
        let named = named.into_iter().map(str::to_owned);
        self.uses_git |= program.words == Words::Git;
        self.searches |= searches(name, words);
        if program.words == Words::Files {
            self.files.extend(named.clone());
        }
        self.words.extend(named);
        Some(())
    }
}

/// Returns the path in a word such as `HEAD:src/a.rs`, or the word when it looks like a file of secrets that is gone.
fn in_a_commit(word: &str, workspace: &Workspace) -> Option<PathBuf> {
    let path = word.rsplit(':').next().filter(|path| !path.is_empty())?;
    if looks_secret(Path::new(path)) {
        return Some(PathBuf::from(path));
    }
    word.contains(':').then(|| workspace.target(path).ok())?.map(|target| target.relative().to_owned())
}

/// Returns whether the command shows more of the workspace than it names.
fn searches(name: &str, words: &[String]) -> bool {
    let has = |letter: char| letters_before_words(words).any(|letters| letters.contains(letter));
    match (name, words.first().map(String::as_str)) {
        ("rg" | "find" | "du", _) | ("git", Some("diff" | "show" | "ls-files")) => true,
        ("grep", _) => has('r'),
        ("ls", _) => has('R'),
        ("git", Some("log")) => {
            has('p') || has('U') || words.iter().any(|word| PATCHES.contains(&option_name(word)))
        }
        _ => false,
    }
}

fn letters_before_words(words: &[String]) -> impl Iterator<Item = &str> {
    let options = words.iter().map(String::as_str).take_while(|word| *word != "--");
    options.filter(|word| !word.starts_with("--")).filter_map(|word| word.strip_prefix('-'))
}

/// Returns the command with the options it is always given.
fn rendered(command: &Simple) -> String {
    let mut argv = command.literal().unwrap_or_default();
    let words = argv.split_off(1);
    argv.extend(match argv[0].as_str() {
        "git" => git::arguments(&words),
        // A configuration file could name a preprocessor.
        "rg" => without_secrets([vec!["--no-config".to_owned()], words].concat(), |name| {
            format!("--iglob=!{name}")
        }),
        // Without `-r` it reads the files it names, and those are asked about.
        "grep" if searches("grep", &words) => {
            without_secrets(words, |name| format!("--exclude={}", in_any_case(name)))
        }
        _ => words,
    });
    let redirects = command.redirects.iter().filter_map(|redirect| match redirect {
        Redirect::Harmless(text) => Some(text.clone()),
        Redirect::File => None,
    });
    argv.iter().map(|word| shell::quoted(word)).chain(redirects).collect::<Vec<_>>().join(" ")
}

/// Adds an option for each name of files that hold secrets, behind all other options: the last one counts. None of
/// those lacks its value, so none takes an added one for it.
fn without_secrets(mut words: Vec<String>, option: impl Fn(&str) -> String) -> Vec<String> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let rest = words.split_off(end);
    words.extend(SECRET_NAMES.iter().map(|name| option(name)));
    words.extend(rest);
    words
}

/// Returns a glob of names that matches them in upper and lower case.
pub(super) fn in_any_case(name: &str) -> String {
    let letter = |c: char| match c {
        'a'..='z' => format!("[{c}{}]", c.to_ascii_uppercase()),
        _ => c.to_string(),
    };
    name.chars().map(letter).collect()
}

/// Returns the words that may name something when the command only reads.
fn check<'a>(program: &Program, words: &'a [String]) -> Option<Vec<&'a str>> {
    let plain = check_options(program, words)?;
    let is_allowed = match program.words {
        Words::None => plain.is_empty(),
        Words::AtMostOne => plain.len() <= 1,
        Words::Format => plain.iter().all(|word| word.starts_with('+')),
        Words::Listed => plain.is_empty() || words.iter().any(|word| has(BRANCH_LISTS, word)),
        Words::Any | Words::Files | Words::Find | Words::Git => true,
    };
    is_allowed.then_some(plain)
}

/// Checks the options and returns the other words.
fn check_options<'a>(program: &Program, words: &'a [String]) -> Option<Vec<&'a str>> {
    let mut plain = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match word {
            "--" => plain.extend(rest.by_ref()),
            // On its own it is the input, or a place that is written to.
            "-" => plain.push(word),
            _ if !word.starts_with('-') => plain.push(word),
            _ => match needs(program, word)? {
                Needs::Nothing => {}
                Needs::Value => drop(rest.next().filter(|word| is_value(word))?),
                Needs::Word => plain.push(rest.next().filter(|word| is_value(word))?),
            },
        }
    }
    Some(plain)
}

/// What an option takes of the words behind it.
enum Needs {
    Nothing,
    Value,
    /// A value that is looked at as if it were no value.
    Word,
}

/// Returns what the option needs; `None` when it is not allowed.
fn needs(program: &Program, word: &str) -> Option<Needs> {
    let name = option_name(word);
    for option in program.long.iter().copied().flatten() {
        match option.strip_suffix('=') {
            Some(option) if option == word => return Some(Needs::Word),
            Some(option) if option == name => return Some(Needs::Nothing),
            None if *option == name => return Some(Needs::Nothing),
            Some(_) | None => {}
        }
    }
    if word.starts_with("--") { None } else { letters_need(program, &word[1..]) }
}

fn letters_need(program: &Program, letters: &str) -> Option<Needs> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // As in `head -20`.
    if is_number(letters) {
        return program.values.contains('n').then_some(Needs::Nothing);
    }
    if letters.starts_with(|letter| program.numbers.contains(letter)) && is_number(&letters[1..]) {
        return Some(Needs::Nothing);
    }
    for (at, letter) in letters.char_indices() {
        if program.values.contains(letter) {
            let is_last = at + letter.len_utf8() == letters.len();
            return Some(if is_last { Needs::Value } else { Needs::Nothing });
        }
        if !program.flags.contains(letter) {
            return None;
        }
    }
    Some(Needs::Nothing)
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

fn has(options: &[&str], word: &str) -> bool {
    options.iter().any(|option| option.trim_end_matches('=') == option_name(word))
}

fn check_find(words: &[String]) -> Option<Vec<&str>> {
    let mut named = Vec::new();
    let mut rest = words.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        match FIND.iter().find(|(name, _)| *name == word) {
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
