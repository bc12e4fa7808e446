//! Recognition of command lines that only read, with the workspace paths that they name.
//!
//! A line counts as read-only if [`tables`] lists each of its programs with each of its options. In doubt a line is not
//! read-only, because a read-only line inside the workspace runs without approval. The decision about a call is made in
//! [`crate::permission`].

mod change_command;
mod tables;

use std::path::{Path, PathBuf};

use crate::execute::git::{self, ExpectedObjects};
use crate::permission::{
    is_folder_name, looks_secret, secret_folders, secret_name_globs, secret_path_globs, shared_folder_names,
};
use crate::shell::{self, CommandLine, ShellRedirect, SimpleCommand};
use crate::workspace::Workspace;
use change_command::ChangeCommand;
use tables::{
    BRANCH_LIST_OPTIONS, FIND_TESTS, GIT_SUBCOMMANDS, OperandRule, READ_ONLY_PROGRAMS, ReadOnlyProgram,
};

/// A command line that only reads, inside or outside the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadOnlyCommand {
    /// The line in its parsed form.
    parsed: CommandLine,
    /// True if git is among the programs.
    pub uses_git: bool,
    /// True if the command walks folders, so that its output may include files that it does not name.
    pub is_search: bool,
    /// Words that may name a file, a folder or a commit.
    operands: Vec<String>,
    /// Operands that must not name a folder.
    file_operands: Vec<String>,
    /// Arguments of `cd`.
    visited_folders: Vec<String>,
}

/// Parses a line as a read-only command. Returns `None` if it may do more than read, or is not understood.
pub(super) fn parse_read_only(line: &str) -> Option<ReadOnlyCommand> {
    let parsed = shell::parse_command_line(line)?;
    let mut read_only = ReadOnlyCommand {
        parsed: parsed.clone(),
        uses_git: false,
        is_search: false,
        operands: Vec::new(),
        file_operands: Vec::new(),
        visited_folders: Vec::new(),
    };
    for command in &parsed.commands {
        let argv = command.literal_words()?;
        if !command.assignments.is_empty() || command.redirects_to_file() {
            return None;
        }
        match argv.split_first()? {
            (name, [folder]) if name == "cd" => read_only.visited_folders.push(folder.clone()),
            (name, words) => read_only.add_command(name, words)?,
        }
    }
    Some(read_only)
}

impl ReadOnlyCommand {
    /// Returns the line to run instead of the original: the same words, quoted so that the shell expands none of them,
    /// with additional options that keep the programs from starting others or showing secrets.
    pub fn script(&self, workspace: &Workspace) -> String {
        self.parsed.render(|command| render_command(command, workspace))
    }

    /// Returns the objects that the operands of git must name, so that [`Self::paths`] contains everything the line
    /// reads.
    pub fn expected_objects(&self, workspace: &Workspace) -> ExpectedObjects {
        let mut expected = ExpectedObjects::default();
        for command in self.change_commands(workspace) {
            let objects = command.expected_objects();
            expected.commits.extend(objects.commits);
            expected.files.extend(objects.files);
        }
        expected
    }

    /// Returns the commands of git that show changes.
    fn change_commands(&self, workspace: &Workspace) -> Vec<ChangeCommand> {
        let argvs = self.parsed.commands.iter().filter_map(SimpleCommand::literal_words);
        argvs.filter_map(|argv| ChangeCommand::parse(&argv, workspace)).collect()
    }

    /// Returns the existing paths that the line names, relative to the workspace, or the workspace itself (an empty
    /// path) if it names none. Returns `None` if a path is outside the workspace, if `cd` leads anywhere but to the
    /// workspace, if a program that must read single files would walk a folder, or if git could show a file of secrets
    /// that the line does not name.
    pub fn paths(&self, workspace: &Workspace) -> Option<Vec<PathBuf>> {
        for folder in &self.visited_folders {
            // After a `cd` to another folder, the following relative paths would name different files.
            workspace.resolve_word(folder).ok()?.filter(|path| path.as_os_str().is_empty())?;
        }
        if self.file_operands.iter().any(|word| workspace.root().join(word).is_dir()) {
            return None;
        }
        // If the workspace is a sub-folder of the repository, `HEAD:a` names a file relative to the repository's root.
        let is_whole = workspace.root().join(".git").exists();
        if self.uses_git && !is_whole && self.operands.iter().any(|word| word.contains(':')) {
            return None;
        }
        if self.change_commands(workspace).iter().any(ChangeCommand::may_show_unnamed_secrets) {
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

    /// Adds a command with its operands. Returns `None` if it may do more than read.
    fn add_command(&mut self, name: &str, words: &[String]) -> Option<()> {
        let program = READ_ONLY_PROGRAMS.iter().find(|program| program.name == name)?;
        let operands = match program.operands {
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
        let operands = operands.into_iter().map(str::to_owned);
        self.uses_git |= program.operands == OperandRule::Git;
        self.is_search |= is_search(name, words);
        if program.operands == OperandRule::Files {
            self.file_operands.extend(operands.clone());
        }
        self.operands.extend(operands);
        Some(())
    }
}

/// Returns the path in a word such as `HEAD:src/a.rs`. Also returns the word itself if its name suggests secrets,
/// because git can show a file of an earlier commit that does not exist any more.
fn path_in_commit(word: &str, workspace: &Workspace) -> Option<PathBuf> {
    let path = Some(change_command::path_part(word)).filter(|path| !path.is_empty())?;
    if looks_secret(Path::new(path)) {
        return Some(PathBuf::from(path));
    }
    word.contains(':').then(|| workspace.resolve(path).ok())?.map(|target| target.relative().to_owned())
}

/// Returns whether the command walks folders, so that its output may include files that it does not name.
fn is_search(name: &str, words: &[String]) -> bool {
    let has = |letter: char| leading_short_options(words).any(|letters| letters.contains(letter));
    match (name, words.first().map(String::as_str)) {
        ("rg" | "find" | "du", _) | ("git", Some("diff" | "show" | "ls-files")) => true,
        ("grep", _) => has('r'),
        ("ls", _) => has('R'),
        ("git", Some("log")) => change_command::shows_content("log", words),
        _ => false,
    }
}

/// Returns the letters of the words that begin with a single hyphen, up to `--`.
fn leading_short_options(words: &[String]) -> impl Iterator<Item = &str> {
    let options = words.iter().map(String::as_str).take_while(|word| *word != "--");
    options.filter(|word| !word.starts_with("--")).filter_map(|word| word.strip_prefix('-'))
}

/// Renders a command with its forced options. Every word is quoted.
fn render_command(command: &SimpleCommand, workspace: &Workspace) -> String {
    let mut argv = command.literal_words().unwrap_or_default();
    let changes = ChangeCommand::parse(&argv, workspace);
    let words = argv.split_off(1);
    argv.extend(match (argv[0].as_str(), changes) {
        (_, Some(changes)) => git::safe_arguments(&words[0], &changes.arguments()),
        ("git", None) => git::safe_arguments(&words[0], &words[1..]),
        // A configuration file of ripgrep could name a preprocessor, which is a program.
        ("rg", None) => add_options([vec!["--no-config".to_owned()], words].concat(), ripgrep_exclusions()),
        // Without `-r`, grep reads only the files that it names, and those are judged by the permission rules.
        ("grep", None) if is_search("grep", &words) => add_options(words, grep_exclusions()),
        (_, None) => words,
    });
    let redirects = command.redirects.iter().filter_map(|redirect| match redirect {
        ShellRedirect::Harmless(text) => Some(text.clone()),
        ShellRedirect::File => None,
    });
    argv.iter().map(|word| shell::quote(word)).chain(redirects).collect::<Vec<_>>().join(" ")
}

/// Adds options after all other options, because the last matching option wins. The options before are complete (see
/// [`check_options`]), so none of them can take an added one as its value.
fn add_options(mut words: Vec<String>, options: Vec<String>) -> Vec<String> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let operands = words.split_off(end);
    words.extend(options);
    words.extend(operands);
    words
}

/// Returns the options with which ripgrep leaves out files of secrets. Its globs match folders too.
fn ripgrep_exclusions() -> Vec<String> {
    let names = secret_name_globs().into_iter().filter(|name| !is_folder_name(name));
    let paths = secret_path_globs().map(|path| format!("**/{path}"));
    names.chain(paths).map(|glob| format!("--iglob=!{glob}")).collect()
}

/// Returns the options with which grep leaves out files of secrets. Its globs match names only, so it leaves out whole
/// folders such as `.kube`.
fn grep_exclusions() -> Vec<String> {
    let names = secret_name_globs().into_iter().chain(shared_folder_names().into_iter().map(str::to_owned));
    let names = names.map(|name| format!("--exclude={}", case_insensitive_glob(&name)));
    let folders =
        secret_folders().into_iter().map(|name| format!("--exclude-dir={}", case_insensitive_glob(name)));
    names.chain(folders).collect()
}

/// Returns a glob that matches the same names as `name` in any case, for programs without a case-insensitive option.
fn case_insensitive_glob(name: &str) -> String {
    let (mut glob, mut is_in_class) = (String::new(), false);
    for c in name.chars() {
        is_in_class = (is_in_class || c == '[') && c != ']';
        match c {
            'a'..='z' if is_in_class => glob.extend([c, c.to_ascii_uppercase()]),
            'a'..='z' => glob.extend(['[', c, c.to_ascii_uppercase(), ']']),
            _ => glob.push(c),
        }
    }
    glob
}

/// Checks the options and operands of a program, and returns the words that may name files. Returns `None` if the
/// command may do more than read.
fn check_program<'a>(program: &ReadOnlyProgram, words: &'a [String]) -> Option<Vec<&'a str>> {
    let operands = check_options(program, words)?.into_operands();
    let is_allowed = match program.operands {
        OperandRule::None => operands.is_empty(),
        OperandRule::AtMostOne => operands.len() <= 1,
        OperandRule::Format => operands.iter().all(|word| word.starts_with('+')),
        OperandRule::ListOnly => {
            operands.is_empty() || words.iter().any(|word| contains_option(BRANCH_LIST_OPTIONS, word))
        }
        OperandRule::Any | OperandRule::Files | OperandRule::Find | OperandRule::Git => true,
    };
    is_allowed.then_some(operands)
}

/// The words of a command by their kind, each kind in the order of the words.
#[derive(Debug, Default)]
struct CheckedWords<'a> {
    /// Options with their values.
    options: Vec<&'a str>,
    /// Values of options that may name files.
    file_values: Vec<&'a str>,
    /// Operands before `--`.
    operands: Vec<&'a str>,
    /// Operands after `--`, if there is one.
    separated: Option<Vec<&'a str>>,
}

impl<'a> CheckedWords<'a> {
    /// Returns all words that may name files.
    fn into_operands(self) -> Vec<&'a str> {
        [self.file_values, self.operands, self.separated.unwrap_or_default()].concat()
    }
}

/// Checks the options against the program's table and sorts the words by their kind. Returns `None` if an option is not
/// listed, or its value is missing or could be an option itself.
fn check_options<'a>(program: &ReadOnlyProgram, words: &'a [String]) -> Option<CheckedWords<'a>> {
    let mut checked = CheckedWords::default();
    let mut remaining = words.iter().map(String::as_str);
    while let Some(word) = remaining.next() {
        match word {
            "--" => checked.separated = Some(remaining.by_ref().collect()),
            // A single hyphen means the standard input, or a file to write to, so it counts as an operand.
            "-" => checked.operands.push(word),
            _ if !word.starts_with('-') => checked.operands.push(word),
            _ => {
                let arity = option_arity(program, word)?;
                checked.options.push(word);
                if matches!(arity, OptionArity::NoValue) {
                    continue;
                }
                let value = remaining.next().filter(|word| is_value(word))?;
                checked.options.push(value);
                if matches!(arity, OptionArity::CheckedValue) {
                    checked.file_values.push(value);
                }
            }
        }
    }
    Some(checked)
}

/// The value that an option takes from the next word.
enum OptionArity {
    /// None: the option has no value, or the value is attached.
    NoValue,
    /// One value.
    Value,
    /// One value that may name a file, and is therefore checked like an operand.
    CheckedValue,
}

/// Returns the arity of an option, or `None` if the program's table does not list it.
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

/// Returns the arity of a word of single-letter options, such as `-nr`. `letters` is the word without its hyphen.
fn short_options_arity(program: &ReadOnlyProgram, letters: &str) -> Option<OptionArity> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // `head -20` is short for `head -n 20`.
    if is_number(letters) {
        return program.value_letters.contains('n').then_some(OptionArity::NoValue);
    }
    if letters.starts_with(|letter| program.number_letters.contains(letter)) && is_number(&letters[1..]) {
        return Some(OptionArity::NoValue);
    }
    for (index, letter) in letters.char_indices() {
        if program.value_letters.contains(letter) {
            let is_last = index + letter.len_utf8() == letters.len();
            return Some(if is_last { OptionArity::Value } else { OptionArity::NoValue });
        }
        if !program.flag_letters.contains(letter) {
            return None;
        }
    }
    Some(OptionArity::NoValue)
}

/// Returns whether a word can only be a value. A word with a hyphen is one only if it looks like a negative number,
/// because programs differ in how they treat an option in the place of a value.
fn is_value(word: &str) -> bool {
    match word.strip_prefix('-') {
        Some(digits) => digits.starts_with(|c: char| c.is_ascii_digit()),
        None => true,
    }
}

/// Returns the name of an option without an attached `=value`.
fn option_name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Returns whether the table of options lists the option `word`.
fn contains_option(options: &[&str], word: &str) -> bool {
    options.iter().any(|option| option.trim_end_matches('=') == option_name(word))
}

/// Checks the arguments of `find` and returns the words that may name files: start folders and the values of tests.
/// Returns `None` if an argument is not listed in [`FIND_TESTS`], such as `-delete` and `-exec`.
fn check_find(words: &[String]) -> Option<Vec<&str>> {
    let mut operands = Vec::new();
    let mut remaining = words.iter().map(String::as_str);
    while let Some(word) = remaining.next() {
        match FIND_TESTS.iter().find(|(name, _)| *name == word) {
            Some((_, count)) => {
                for _ in 0..*count {
                    operands.push(remaining.next().filter(|word| is_value(word))?);
                }
            }
            None if word.starts_with('-') => return None,
            None => operands.push(word),
        }
    }
    Some(operands)
}

#[cfg(test)]
mod tests;
