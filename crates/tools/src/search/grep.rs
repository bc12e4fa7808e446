//! The tool `grep`: finds lines that match a regular expression in the files of the workspace. Formatting the matches
//! and their context lines is the task of [`crate::search::grep_output`].

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::BINARY_PROBE_BYTES;
use crate::permission::{self, HiddenPaths};
use crate::read_only_tool::ReadOnlyTool;
use crate::search::file_walk::{WalkControl, WalkEnd, path_matcher, walk_files};
use crate::search::grep_output::{CONTEXT_LINES_MAX, GrepOutput, GrepOutputMode};
use crate::workspace::Workspace;

/// Maximum number of bytes of one file that are searched. The rest of a larger file is skipped.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Maximum number of bytes of one line that are matched at once. A longer line is matched in pieces of this size, so
/// memory stays bounded.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The arguments of a call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepArgs {
    /// The regular expression (Rust syntax).
    pattern: String,
    /// Only this file or folder.
    #[serde(default)]
    path: Option<String>,
    /// Only files whose path matches, such as *.rs.
    #[serde(default)]
    glob: Option<String>,
    /// Upper and lower case are the same. Default: false.
    #[serde(default)]
    ignore_case: bool,
    /// Matching lines, only the files that have some, or how many each has. Default: lines.
    #[serde(default)]
    output: GrepOutputMode,
    /// Lines shown before and after each match. Default: 0.
    #[serde(default)]
    #[schemars(range(max = CONTEXT_LINES_MAX))]
    context: usize,
}

/// The tool `grep`.
pub(crate) const GREP: ReadOnlyTool<GrepArgs> = ReadOnlyTool {
    name: "grep",
    description: "Finds lines that match a regular expression in the text files of the workspace; shows \
                          path:line:text. Files that .gitignore names, and files of secrets, are left out.",
    path: |args| args.path.as_deref(),
    read: search_files,
};

/// Searches the files below the given path and returns the formatted matches. Files that a permission rule hides are
/// counted in a note at the end instead.
///
/// # Errors
/// Returns the message for the model if the pattern, the glob or the path is invalid, or the call was cancelled.
fn search_files(
    workspace: &Workspace,
    args: &GrepArgs,
    hidden: HiddenPaths,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let pattern = RegexBuilder::new(&args.pattern)
        .case_insensitive(args.ignore_case)
        .build()
        .map_err(|error| format!("bad pattern: {error}"))?;
    let path_filter = args.glob.as_deref().map(path_matcher).transpose()?;
    let start = workspace.resolve_existing(args.path.as_deref().unwrap_or("."))?;
    let hidden = hidden.for_search_below(workspace.relative_path(&start));
    let (mut output, mut hidden_count) = (GrepOutput::new(args.output, args.context), 0);
    let walk_end = walk_files(&start, cancel, |path| {
        let relative = workspace.relative_path(path);
        let is_selected = path_filter.as_ref().is_none_or(|filter| filter.is_match(relative));
        if is_selected && hidden.is_hidden(relative) {
            hidden_count += 1;
        } else if is_selected {
            output.begin_file(&relative.display().to_string());
            // A file that cannot be read counts as a file without matches.
            let _ = search_one_file(path, &pattern, cancel, &mut output);
            output.end_file();
        }
        if output.is_full() { WalkControl::Stop } else { WalkControl::Continue }
    })?;
    let mut text = output.into_text(match walk_end {
        WalkEnd::Complete => None,
        WalkEnd::LimitReached => Some("[the search ended early: too many files; narrow it with path]"),
        WalkEnd::Stopped => Some("[there may be more; narrow the pattern, path or glob]"),
    });
    if let Some(note) = permission::hidden_note(hidden_count) {
        text.push('\n');
        text.push_str(&note);
    }
    Ok(text)
}

/// Searches one file line by line and adds the matches to `output`. A binary file has no matches. Line endings (`\n`,
/// `\r\n`) are not part of the matched text. Cancellation is checked every 4,096 lines.
///
/// # Errors
/// Returns the I/O error if the file cannot be opened or read.
fn search_one_file(
    path: &Path,
    pattern: &Regex,
    cancel: &CancellationToken,
    output: &mut GrepOutput,
) -> std::io::Result<()> {
    let mut reader = BufReader::with_capacity(64 * 1024, File::open(path)?.take(FILE_BYTES_MAX));
    let probe = reader.fill_buf()?;
    if probe[..probe.len().min(BINARY_PROBE_BYTES)].contains(&0) {
        return Ok(());
    }
    let mut line = Vec::new();
    let mut number = 1_u64;
    while reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
        let ended = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if pattern.is_match(text) {
            output.push_match(number, text);
        } else {
            output.push_context_line(number, text);
        }
        if output.has_enough() || (number.is_multiple_of(4096) && cancel.is_cancelled()) {
            return Ok(());
        }
        number += u64::from(ended);
        line.clear();
    }
    Ok(())
}
