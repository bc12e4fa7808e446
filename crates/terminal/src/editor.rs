//! Editing a text in the person's own editor, on a private file that is removed afterwards. What the text means is up
//! to the caller.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempPath;

use crate::error::{Error, Result};
use crate::keyboard;

/// Editors that are tried when none is set.
const FALLBACK_EDITORS: [&str; 2] = ["vi", "nano"];

/// The exit code of a shell that could not start a program.
const EXIT_NOT_EXECUTABLE: i32 = 126;
const EXIT_NOT_FOUND: i32 = 127;

/// The outcome of editing a text.
#[derive(Debug, PartialEq, Eq)]
pub enum EditOutcome {
    /// It is as it was, or empty.
    Unchanged,
    /// It is another one.
    Changed {
        /// The text.
        text: String,
        /// The line of the file it begins on, from 1.
        first_line: usize,
    },
}

/// Returns whether there is an editor to edit a text in.
pub fn is_available() -> bool {
    choose_editor(|name| std::env::var(name).ok(), is_usable).is_ok()
}

/// Writes `bytes` into a private file in `folder`, to be [opened](open). The file goes with the path, unless it is kept.
///
/// # Errors
/// When it cannot be written.
pub fn create_temp_file(folder: &Path, bytes: &[u8]) -> Result<TempPath> {
    let mut file = tempfile::Builder::new().prefix("segue-").suffix(".md").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.flush()?;
    Ok(file.into_temp_path())
}

/// Lets the person edit a file, and returns its bytes as they are then.
///
/// # Errors
/// When no editor can be started, or it reports a failure.
pub fn edit_file(path: &Path) -> Result<Vec<u8>> {
    let editor = choose_editor(|name| std::env::var(name).ok(), is_usable)?;
    run_editor(&editor, path)?;
    // Read by its path: an editor may have put another file in its place.
    Ok(fs::read(path)?)
}

/// Lets the person edit `text` in a file in `folder`; `head` explains, as a comment that is not part of the text.
///
/// # Errors
/// When no editor can be started, or it reports a failure: nothing is taken over then.
pub fn edit_text(folder: &Path, head: &str, text: &str) -> Result<EditOutcome> {
    let editor = choose_editor(|name| std::env::var(name).ok(), is_usable)?;
    let mut file = tempfile::Builder::new().prefix("segue-").suffix(".md").tempfile_in(folder)?;
    write!(file, "<!--\n{}\n-->\n{text}", head.replace("-->", "->"))?;
    file.flush()?;
    run_editor(&editor, file.path())?;
    // Read by its path: an editor may have put another file in its place.
    let file = fs::read_to_string(file.path())?;
    let edited = strip_header(&file);
    let first_line = 1 + file[..file.len() - edited.len()].matches('\n').count();
    Ok(match edited.trim().is_empty() || edited.trim() == text.trim() {
        true => EditOutcome::Unchanged,
        false => EditOutcome::Changed { text: format!("{}\n", edited.trim_end()), first_line },
    })
}

fn run_editor(editor: &str, path: &Path) -> Result<()> {
    let mut command = editor_command(editor, path);
    let status = keyboard::run_in_cooked_mode(|| command.status())
        .map_err(|error| Error::EditorNotStarted { editor: editor.to_owned(), reason: error.to_string() })?;
    match status.code() {
        Some(0) => Ok(()),
        Some(EXIT_NOT_EXECUTABLE | EXIT_NOT_FOUND) => {
            Err(Error::EditorNotStarted { editor: editor.to_owned(), reason: status.to_string() })
        }
        Some(_) | None => Err(Error::EditorFailed { editor: editor.to_owned(), status }),
    }
}

fn choose_editor(variable: impl Fn(&str) -> Option<String>, exists: impl Fn(&str) -> bool) -> Result<String> {
    let set = ["VISUAL", "EDITOR"].into_iter().filter_map(variable).find(|value| !value.trim().is_empty());
    let fallback = || FALLBACK_EDITORS.into_iter().find(|name| exists(name)).map(str::to_owned);
    set.or_else(fallback).ok_or(Error::NoEditor)
}

/// Returns whether an editor that nobody set can be used: it draws on a terminal, and would wait for ever without one.
fn is_usable(name: &str) -> bool {
    std::io::stdin().is_terminal() && is_on_path(name)
}

fn is_on_path(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder: PathBuf| folder.join(name).is_file())
}

/// The variable may hold arguments and quotes, which are the shell's to read.
#[cfg(unix)]
fn editor_command(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    command
}

#[cfg(not(unix))]
fn editor_command(editor: &str, file: &Path) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(editor));
    command.args(words).arg(file);
    command
}

fn strip_header(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let rest = text.strip_prefix("<!--").and_then(|rest| rest.split_once("-->")).map(|(_, rest)| rest);
    rest.map_or(text, |rest| rest.strip_prefix('\n').unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comment_at_the_top_is_not_part_of_the_text() {
        assert_eq!(strip_header("<!--\nhow\n-->\n# T\n<!-- mine -->\n"), "# T\n<!-- mine -->\n");
        assert_eq!(strip_header("# T\n"), "# T\n");
        assert_eq!(strip_header("<!-- unclosed\n# T\n"), "<!-- unclosed\n# T\n");
    }

    #[test]
    fn the_editor_is_the_one_that_is_set_else_one_that_is_there() {
        let check = |set: &[(&str, &str)], there: &[&str], expected: Option<&str>| {
            let variable =
                |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            let chosen = choose_editor(variable, |name| there.contains(&name));
            assert_eq!(chosen.ok().as_deref(), expected);
        };
        check(&[("VISUAL", "code -w"), ("EDITOR", "ed")], &["vi"], Some("code -w"));
        check(&[("VISUAL", " "), ("EDITOR", "ed")], &["vi"], Some("ed"));
        check(&[], &["vi", "nano"], Some("vi"));
        check(&[], &["nano"], Some("nano"));
        check(&[], &[], None);
    }
}
