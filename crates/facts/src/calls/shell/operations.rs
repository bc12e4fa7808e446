//! The effects of commands on files, in the order in which they take place. The operations of git are in `git`.

use super::git;
use super::parser::{self, ShellWord, SimpleCommand};
use super::paths::{self, is_persistent_file, is_plain_path, join_path};
use super::scripts::script_arguments;
use crate::tool_use::normalize_path;

/// Maximum depth of commands in the arguments of shells.
const DEPTH_MAX: usize = 2;

/// The kind of an effect on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOperationKind {
    /// Changes a file that may have existed before, or brings it back with the content of another commit.
    Edit,
    /// Writes a whole file.
    Create,
    /// Deletes a file or folder, or moves it away.
    Delete,
    /// Deletes a temporary file or a log.
    Discard,
    /// Undoes the changes to a file or folder since the last commit. Of an empty path, to all files.
    Restore,
    /// Undoes the changes to all files of the repository that the folder belongs to.
    Reset,
    /// Deletes the files that git does not know.
    Clean,
    /// Commits the changes.
    Commit,
}

/// An effect of a command on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileOperation {
    /// The kind of the effect.
    pub kind: FileOperationKind,
    /// Normalized path of the file or folder. The operations of a whole repository have the folder of the command.
    pub path: String,
    /// The program, which begins its error messages with its name.
    pub program: String,
    /// The argument by which an error message of the program names the operation: the path as it was passed, and for a move
    /// its source.
    pub operand: String,
    /// Normalized path of the file that is copied or moved to the path.
    pub source: Option<String>,
}

/// The operations of a simple command.
#[derive(Debug)]
pub(super) struct OperationList<'a> {
    /// The program of the command.
    pub program: &'a str,
    /// The folder in which the command runs; empty if it is unknown.
    pub folder: String,
    /// The operations.
    pub operations: Vec<FileOperation>,
}

impl OperationList<'_> {
    /// Adds an operation on a path in the folder.
    pub(super) fn push(&mut self, kind: FileOperationKind, path: &str, operand: &str) {
        self.operations.push(FileOperation {
            kind,
            path: join_path(&self.folder, path),
            program: self.program.to_owned(),
            operand: operand.to_owned(),
            source: None,
        });
    }

    /// Adds a write of each of the words that is a file of the work.
    pub(super) fn write<'w>(
        &mut self,
        kind: FileOperationKind,
        words: impl IntoIterator<Item = &'w ShellWord>,
    ) {
        let words = words.into_iter().map(|word| word.text.as_str());
        words
            .filter(|word| is_persistent_file(&normalize_path(word)))
            .for_each(|word| self.push(kind, word, word));
    }

    /// Adds the deletion of each of the words that is a plain path.
    pub(super) fn delete<'w>(&mut self, words: impl IntoIterator<Item = &'w ShellWord>) {
        for word in words.into_iter().map(|word| word.text.as_str()) {
            let path = normalize_path(word);
            let is_temporary = paths::is_temporary_file(&path);
            let kind = if is_temporary { FileOperationKind::Discard } else { FileOperationKind::Delete };
            if is_plain_path(&path) && !path.starts_with("/dev/") {
                self.push(kind, word, word);
            }
        }
    }

    /// Adds the creation of the files that `cp` or `mv` with these arguments makes. Returns their sources.
    pub(super) fn copy<'w>(&mut self, arguments: &'w [ShellWord]) -> Vec<&'w ShellWord> {
        let is_target_option = |word: &ShellWord| matches!(word.text.as_str(), "-t" | "--target-directory");
        let option = arguments.iter().position(is_target_option);
        let mut operands: Vec<&ShellWord> = operands(arguments).collect();
        let target = match option.and_then(|option| arguments.get(option + 1)) {
            Some(target) => {
                operands.retain(|word| word.span != target.span);
                target
            }
            None => {
                let Some(target) = operands.pop() else { return Vec::new() };
                target
            }
        };
        let target = target.text.as_str();
        let is_folder = option.is_some()
            || operands.len() > 1
            || target.ends_with('/')
            || matches!(target.rsplit('/').next(), Some("." | ".."));
        for source in &operands {
            let name = normalize_path(&source.text);
            let name = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let path = if is_folder { paths::resolve_path(target, name) } else { normalize_path(target) };
            if is_persistent_file(&path) {
                self.push(FileOperationKind::Create, &path, &source.text);
                let source = join_path(&self.folder, &source.text);
                self.operations.last_mut().into_iter().for_each(|copy| copy.source = Some(source.clone()));
            }
        }
        operands
    }
}

/// Returns the arguments that are no options.
pub(super) fn operands(arguments: &[ShellWord]) -> impl Iterator<Item = &ShellWord> {
    arguments.iter().filter(|word| !word.text.starts_with('-') && !word.text.is_empty())
}

/// Returns the effects of simple commands on files, in order.
pub(super) fn file_operations(commands: &[SimpleCommand]) -> Vec<FileOperation> {
    let mut operations = Vec::new();
    commands.iter().for_each(|command| collect_operations(command, 0, &mut operations));
    operations
}

/// Appends the effects of a simple command on files. `depth` counts the shells around the command.
fn collect_operations(command: &SimpleCommand, depth: usize, operations: &mut Vec<FileOperation>) {
    let (program, arguments) = command.program();
    let mut list = OperationList { program, folder: command.folder.clone(), operations: Vec::new() };
    match program {
        "rm" | "unlink" => list.delete(operands(arguments)),
        "mv" => {
            let sources = list.copy(arguments);
            list.delete(sources);
        }
        "cp" => {
            list.copy(arguments);
        }
        "touch" => list.write(FileOperationKind::Create, operands(arguments)),
        "tee" => {
            let appends = arguments.iter().any(|word| matches!(word.text.as_str(), "-a" | "--append"));
            let kind = if appends { FileOperationKind::Edit } else { FileOperationKind::Create };
            list.write(kind, operands(arguments));
        }
        "git" => git::collect_operations(&mut list, arguments),
        "jj" if arguments.first().is_some_and(|word| word.text == "commit") => {
            list.push(FileOperationKind::Commit, "", "");
        }
        "bash" | "sh" | "zsh" if depth < DEPTH_MAX => {
            let option =
                arguments.iter().position(|word| word.text.starts_with('-') && word.text.ends_with('c'));
            let script = option.and_then(|option| arguments.get(option + 1));
            for mut inner in script.iter().flat_map(|script| parser::parse_commands(&script.text).commands) {
                inner.folder = join_path(&command.folder, &inner.folder);
                collect_operations(&inner, depth + 1, &mut list.operations);
            }
        }
        _ => {
            let arguments = script_arguments(program, arguments).filter(|arguments| arguments.is_in_place);
            list.write(FileOperationKind::Edit, arguments.into_iter().flat_map(|arguments| arguments.files));
        }
    }
    for output in &command.outputs {
        let kind = if output.appends { FileOperationKind::Edit } else { FileOperationKind::Create };
        if is_persistent_file(&normalize_path(&output.path)) {
            list.push(kind, &output.path, &output.path);
        }
    }
    operations.append(&mut list.operations);
}
