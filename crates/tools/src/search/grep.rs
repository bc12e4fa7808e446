//! The tool `grep`: lines by regular expression, over the files a search sees. How lines around a match are put
//! together is in [`crate::search::found`].

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

/// The most bytes of one file that are searched.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// The most bytes of one line that are searched.
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

pub(crate) const GREP: ReadOnlyTool<GrepArgs> = ReadOnlyTool {
    name: "grep",
    description: "Finds lines that match a regular expression in the text files of the workspace; shows \
                          path:line:text. Files that .gitignore names, and files of secrets, are left out.",
    path: |args| args.path.as_deref(),
    read: search_files,
};

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
    let only = args.glob.as_deref().map(path_matcher).transpose()?;
    let start = workspace.resolve_existing(args.path.as_deref().unwrap_or("."))?;
    let hidden = hidden.for_search_below(workspace.relative_path(&start));
    let (mut found, mut left_out) = (GrepOutput::new(args.output, args.context), 0);
    let walked = walk_files(&start, cancel, |path| {
        let shown = workspace.relative_path(path);
        let is_meant = only.as_ref().is_none_or(|only| only.is_match(shown));
        if is_meant && hidden.is_hidden(shown) {
            left_out += 1;
        } else if is_meant {
            found.begin_file(&shown.display().to_string());
            // A file that cannot be read has no lines to show.
            let _ = search_one_file(path, &pattern, cancel, &mut found);
            found.end_file();
        }
        if found.is_full() { WalkControl::Stop } else { WalkControl::Continue }
    })?;
    let mut text = found.into_text(match walked {
        WalkEnd::Complete => None,
        WalkEnd::LimitReached => Some("[the search ended early: too many files; narrow it with path]"),
        WalkEnd::Stopped => Some("[there may be more; narrow the pattern, path or glob]"),
    });
    if let Some(note) = permission::hidden_note(left_out) {
        text.push('\n');
        text.push_str(&note);
    }
    Ok(text)
}

fn search_one_file(
    path: &Path,
    pattern: &Regex,
    cancel: &CancellationToken,
    found: &mut GrepOutput,
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
            found.push_match(number, text);
        } else {
            found.push_context_line(number, text);
        }
        if found.has_enough() || (number.is_multiple_of(4096) && cancel.is_cancelled()) {
            return Ok(());
        }
        number += u64::from(ended);
        line.clear();
    }
    Ok(())
}
