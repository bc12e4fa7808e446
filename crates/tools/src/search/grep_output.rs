//! The bounded output of `grep`, in the requested form. It receives matching and other lines in order and keeps those
//! that are shown; it searches nothing itself.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::truncation::{OUTPUT_BYTES_MAX, truncate_line};

/// Maximum number of context lines before and after a match.
pub(super) const CONTEXT_LINES_MAX: usize = 20;
/// Maximum number of matching lines that are shown, or of files in the other modes.
const MATCHES_MAX: usize = 200;
/// Maximum number of characters of a line that are shown.
const LINE_CHARS_MAX: usize = 300;

/// The form in which matches are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum GrepOutputMode {
    /// The line.
    #[default]
    Lines,
    /// The file.
    Files,
    /// The file, and how many lines match.
    Counts,
}

/// The output of a search so far.
#[derive(Debug)]
pub(super) struct GrepOutput {
    mode: GrepOutputMode,
    /// Context lines before and after each match; 0 unless the mode is `Lines`.
    context: usize,
    /// The output lines.
    lines: Vec<String>,
    /// Total length of `lines` in bytes, without separators.
    bytes: usize,
    /// Matching lines so far, or files in the other modes.
    matches: usize,
    /// State of the file that is being searched.
    file: FileMatches,
}

/// The matches in the file that is being searched.
#[derive(Debug, Default)]
struct FileMatches {
    /// The file's path, relative to the workspace.
    path: String,
    /// Matching lines in this file.
    matches: usize,
    /// The newest lines that were not shown, with their numbers: the context before a possible next match.
    before: VecDeque<(u64, String)>,
    /// Number of lines after the last match that are still to be shown.
    after: usize,
    /// Number of the last line that was shown, counted from 1.
    last_shown: Option<u64>,
}

impl GrepOutput {
    /// Returns an empty output. `context` is limited to [`CONTEXT_LINES_MAX`].
    pub fn new(mode: GrepOutputMode, context: usize) -> Self {
        let context = if mode == GrepOutputMode::Lines { context.min(CONTEXT_LINES_MAX) } else { 0 };
        Self { mode, context, lines: Vec::new(), bytes: 0, matches: 0, file: FileMatches::default() }
    }

    /// Starts the next file. `path` is its path as it is shown.
    pub fn begin_file(&mut self, path: &str) {
        self.file = FileMatches { path: path.to_owned(), ..FileMatches::default() };
    }

    /// Adds a matching line. `number` is its line number, counted from 1.
    pub fn push_match(&mut self, number: u64, text: &[u8]) {
        self.file.matches += 1;
        if self.mode != GrepOutputMode::Lines {
            return;
        }
        self.matches += 1;
        let first = self.file.before.front().map_or(number, |(number, _)| *number);
        if self.context > 0
            && !self.lines.is_empty()
            && self.file.last_shown.is_none_or(|shown| shown + 1 < first)
        {
            self.push_line("--".to_owned());
        }
        for (number, text) in std::mem::take(&mut self.file.before) {
            self.push_line(format!("{}-{number}-{text}", self.file.path));
        }
        self.push_line(format!("{}:{number}:{}", self.file.path, display_line(text)));
        self.file.last_shown = Some(number);
        self.file.after = self.context;
    }

    /// Adds a line that does not match. It is shown only as context of a match.
    pub fn push_context_line(&mut self, number: u64, text: &[u8]) {
        if self.context == 0 {
            return;
        }
        if self.file.after > 0 {
            self.file.after -= 1;
            self.file.last_shown = Some(number);
            self.push_line(format!("{}-{number}-{}", self.file.path, display_line(text)));
            return;
        }
        if self.file.before.len() == self.context {
            self.file.before.pop_front();
        }
        self.file.before.push_back((number, display_line(text)));
    }

    /// Ends the current file. In the modes `Files` and `Counts` this adds its output line, if it has matches.
    pub fn end_file(&mut self) {
        if self.file.matches == 0 {
            return;
        }
        match self.mode {
            GrepOutputMode::Lines => {}
            GrepOutputMode::Files => {
                self.matches += 1;
                self.push_line(self.file.path.clone());
            }
            GrepOutputMode::Counts => {
                self.matches += 1;
                self.push_line(format!("{}:{}", self.file.path, self.file.matches));
            }
        }
    }

    /// Returns whether the remaining lines of the current file cannot change the output.
    pub fn has_enough(&self) -> bool {
        self.is_full() || (self.mode == GrepOutputMode::Files && self.file.matches > 0)
    }

    /// Returns whether a limit of the output is reached, so that the search ends.
    pub fn is_full(&self) -> bool {
        self.matches >= MATCHES_MAX || self.bytes >= OUTPUT_BYTES_MAX
    }

    /// Returns the output as text, with `note` as its last line. The note explains why a search ended early.
    pub fn into_text(mut self, note: Option<&str>) -> String {
        self.lines.extend(note.map(str::to_owned));
        if self.lines.is_empty() { "no line matches".to_owned() } else { self.lines.join("\n") }
    }

    fn push_line(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push(line);
    }
}

/// Returns a line as it is shown: as UTF-8, without blanks at its end, and truncated.
fn display_line(text: &[u8]) -> String {
    truncate_line(String::from_utf8_lossy(text).trim_end(), LINE_CHARS_MAX)
}
