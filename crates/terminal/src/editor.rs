//! Editing a text in the user's own editor (`VISUAL` or `EDITOR`), in a private temporary file that is deleted
//! afterwards.

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempPath;

use crate::error::{Error, Result};
use crate::keyboard;

/// The editors that are used if neither `VISUAL` nor `EDITOR` is set, in this order.
const FALLBACK_EDITORS: [&str; 2] = ["vi", "nano"];

/// The exit code of a shell if the program cannot be executed.
const EXIT_NOT_EXECUTABLE: i32 = 126;
/// The exit code of a shell if the program does not exist.
const EXIT_NOT_FOUND: i32 = 127;

/// The outcome of editing a text.
#[derive(Debug, PartialEq, Eq)]
pub enum EditOutcome {
    /// The text is unchanged or empty.
    Unchanged,
    /// The text was changed.
    Changed {
        /// The new text, with one newline at its end.
        text: String,
        /// The number of the line in the file on which the text begins, from 1.
        first_line: usize,
    },
}

/// Returns whether an editor is configured or installed.
pub fn is_available() -> bool {
    choose_editor(|name| std::env::var(name).ok(), is_usable).is_ok()
}

/// Writes `bytes` to a new private file in `folder`, for [`edit_file`]. The file is deleted when the returned path is
/// dropped, unless the caller persists it.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn create_temp_file(folder: &Path, bytes: &[u8]) -> Result<TempPath> {
    let mut file = tempfile::Builder::new().prefix("segue-").suffix(".md").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.flush()?;
    Ok(file.into_temp_path())
}

/// Opens a file in the user's editor, waits until the editor ends, and returns the new content of the file. Blocks the
/// thread meanwhile.
///
/// # Errors
/// Fails if no editor can be started, or if it reports a failure.
pub fn edit_file(path: &Path) -> Result<Vec<u8>> {
    let editor = choose_editor(|name| std::env::var(name).ok(), is_usable)?;
    run_editor(&editor, path)?;
    // The file is read by its path, because an editor may have replaced it with another file.
    Ok(fs::read(path)?)
}

/// Opens `text` in the user's editor, in a private file in `folder`. `head` is an explanation at the top of the file,
/// in a comment that is not part of the text.
///
/// The text counts as unchanged if the edit only changed white space at its ends, or left no text. Blocks the thread
/// meanwhile.
///
/// # Errors
/// Fails if no editor can be started, or if it reports a failure; then the edited text is discarded.
pub fn edit_text(folder: &Path, head: &str, text: &str) -> Result<EditOutcome> {
    let editor = choose_editor(|name| std::env::var(name).ok(), is_usable)?;
    let mut file = tempfile::Builder::new().prefix("segue-").suffix(".md").tempfile_in(folder)?;
    write!(file, "<!--\n{}\n-->\n{text}", head.replace("-->", "->"))?;
    file.flush()?;
    run_editor(&editor, file.path())?;
    // The file is read by its path, because an editor may have replaced it with another file.
    let file = fs::read_to_string(file.path())?;
    let edited = strip_header(&file);
    let first_line = 1 + file[..file.len() - edited.len()].matches('\n').count();
    Ok(match edited.trim().is_empty() || edited.trim() == text.trim() {
        true => EditOutcome::Unchanged,
        false => EditOutcome::Changed { text: format!("{}\n", edited.trim_end()), first_line },
    })
}

/// Runs the editor on a file until it ends.
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

/// Returns the configured editor, else the first fallback that `exists` accepts.
fn choose_editor(variable: impl Fn(&str) -> Option<String>, exists: impl Fn(&str) -> bool) -> Result<String> {
    let configured =
        ["VISUAL", "EDITOR"].into_iter().filter_map(variable).find(|value| !value.trim().is_empty());
    let fallback = || FALLBACK_EDITORS.into_iter().find(|name| exists(name)).map(str::to_owned);
    configured.or_else(fallback).ok_or(Error::NoEditor)
}

/// Returns whether a fallback editor can be used. It needs a terminal: without one, it would wait forever.
fn is_usable(name: &str) -> bool {
    std::io::stdin().is_terminal() && is_on_path(name)
}

/// Returns whether a folder of `PATH` contains a file with this name.
fn is_on_path(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder: PathBuf| folder.join(name).is_file())
}

/// Returns the command that opens a file in the editor. A shell parses the configured text, which may contain arguments and
/// quotes.
#[cfg(unix)]
fn editor_command(editor: &str, file: &Path) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    command
}

/// Returns the command that opens a file in the editor. Arguments in the configured text are separated by blanks.
#[cfg(not(unix))]
fn editor_command(editor: &str, file: &Path) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(editor));
    command.args(words).arg(file);
    command
}

/// Returns the text without the comment at its top, if it has one.
fn strip_header(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let body = text.strip_prefix("<!--").and_then(|comment| comment.split_once("-->")).map(|(_, body)| body);
    body.map_or(text, |body| body.strip_prefix('\n').unwrap_or(body))
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
    fn the_configured_editor_is_used_else_one_that_is_installed() {
        let check = |variables: &[(&str, &str)], installed: &[&str], expected: Option<&str>| {
            let variable = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let chosen = choose_editor(variable, |name| installed.contains(&name));
            assert_eq!(chosen.ok().as_deref(), expected);
        };
        check(&[("VISUAL", "code -w"), ("EDITOR", "ed")], &["vi"], Some("code -w"));
        check(&[("VISUAL", " "), ("EDITOR", "ed")], &["vi"], Some("ed"));
        check(&[], &["vi", "nano"], Some("vi"));
        check(&[], &["nano"], Some("nano"));
        check(&[], &[], None);
    }
}
