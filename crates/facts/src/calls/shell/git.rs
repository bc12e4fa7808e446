//! The effects of git's subcommands on the files of the working tree.

use super::operations::{FileOperationKind, OperationList, operands};
use super::parser::ShellWord;
use super::paths::{is_persistent_file, is_plain_path, join_path};
use crate::tool_use::{is_file_path, normalize_path};

/// Global options of git with a value.
const VALUE_OPTIONS: [&str; 4] = ["-c", "--git-dir", "--work-tree", "--namespace"];
/// Options of `git checkout` with which it creates a branch, asks, or settles a conflict.
const CHECKOUT_EXCLUSIONS: [&str; 9] =
    ["-b", "-B", "--orphan", "-t", "--track", "-p", "--patch", "--ours", "--theirs"];

/// Adds the effects of git with these arguments.
pub(super) fn collect_operations(list: &mut OperationList<'_>, arguments: &[ShellWord]) {
    let mut words = arguments;
    while let [option, rest @ ..] = words {
        words = match option.text.as_str() {
            "-C" => {
                let Some(folder) = rest.first() else { return };
                if is_plain_path(&folder.text) {
                    list.folder = join_path(&list.folder, &folder.text).trim_end_matches('/').to_owned();
                }
                &rest[1..]
            }
            option if VALUE_OPTIONS.contains(&option) => rest.get(1..).unwrap_or_default(),
            option if option.starts_with('-') => rest,
            _ => break,
        };
    }
    let [subcommand, arguments @ ..] = words else { return };
    let has = |options: &[&str]| arguments.iter().any(|word| options.contains(&word.text.as_str()));
    match subcommand.text.as_str() {
        "rm" if !has(&["--cached", "-n", "--dry-run"]) => list.delete(operands(arguments)),
        "mv" if !has(&["-n", "--dry-run"]) => {
            let sources = list.copy(arguments);
            list.delete(sources);
        }
        "commit" if !has(&["--dry-run"]) => list.push(FileOperationKind::Commit, "", ""),
        "reset" if has(&["--hard"]) && operands(arguments).all(|word| is_head(&word.text)) => {
            list.push(FileOperationKind::Reset, "", "");
        }
        "clean" => {
            let is_letter = |letter: char| {
                arguments.iter().any(|word| {
                    word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(letter)
                })
            };
            let is_forced = is_letter('f') || has(&["--force"]);
            let deletes = is_forced && !is_letter('n') && !is_letter('X') && !has(&["--dry-run"]);
            if deletes && operands(arguments).next().is_none() {
                list.push(FileOperationKind::Clean, "", "");
            }
        }
        "restore" => restore(list, arguments),
        "checkout" if !has(&CHECKOUT_EXCLUSIONS) => checkout(list, arguments),
        _ => {}
    }
}

/// Adds the effects of `git restore`.
fn restore(list: &mut OperationList<'_>, arguments: &[ShellWord]) {
    let has = |options: &[&str]| arguments.iter().any(|word| options.contains(&word.text.as_str()));
    if has(&["-p", "--patch"]) || has(&["--staged", "-S"]) && !has(&["--worktree", "-W"]) {
        return;
    }
    let mut source = None;
    let mut paths = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "-s" | "--source" => source = words.next().map(|word| word.text.as_str()),
            text => match text.strip_prefix("--source=") {
                Some(reference) => source = Some(reference),
                None if text.starts_with('-') => {}
                None => paths.push(word),
            },
        }
    }
    push_restorations(list, source, &paths);
}

/// Adds the effects of `git checkout`. Without `--`, a word is a file if it has a known extension, and the word before a file
/// is the commit.
fn checkout(list: &mut OperationList<'_>, arguments: &[ShellWord]) {
    let separator = arguments.iter().position(|word| word.text == "--");
    let (references, paths): (Vec<&ShellWord>, Vec<&ShellWord>) = match separator {
        Some(separator) => {
            (operands(&arguments[..separator]).collect(), arguments[separator + 1..].iter().collect())
        }
        None => {
            let is_path =
                |word: &&ShellWord| is_file_path(&word.text) || word.text == "." || word.text.ends_with('/');
            let words: Vec<&ShellWord> = operands(arguments).collect();
            match words.as_slice() {
                [] if arguments.iter().any(|word| matches!(word.text.as_str(), "-f" | "--force")) => {
                    list.push(FileOperationKind::Reset, "", "");
                    return;
                }
                [first, ..] if is_path(first) => (Vec::new(), words),
                [_, paths @ ..] if paths.iter().any(is_path) => (vec![words[0]], paths.to_vec()),
                _ => return,
            }
        }
    };
    push_restorations(list, references.first().map(|word| word.text.as_str()), &paths);
}

/// Adds the effect of bringing paths back from a commit, or from the last one.
fn push_restorations(list: &mut OperationList<'_>, source: Option<&str>, paths: &[&ShellWord]) {
    let is_last = source.is_none_or(is_head);
    for path in paths.iter().map(|word| word.text.as_str()).filter(|path| is_plain_path(path)) {
        match path {
            "." if is_last => list.push(FileOperationKind::Restore, "", path),
            _ if is_last => list.push(FileOperationKind::Restore, path, path),
            _ if is_persistent_file(&normalize_path(path)) => list.push(FileOperationKind::Edit, path, path),
            _ => {}
        }
    }
}

/// Returns whether a reference is the last commit.
fn is_head(reference: &str) -> bool {
    matches!(reference, "HEAD" | "@" | "HEAD~0" | "@{0}")
}
