//! The bounded output of a line search, in the requested form. It searches nothing itself.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::truncation::{OUTPUT_BYTES_MAX, truncate_line};

/// The most lines shown around a match.
pub(super) const CONTEXT_LINES_MAX: usize = 20;
/// The most matching lines, or files, shown.
const MATCHES_MAX: usize = 200;
/// The most characters of a line that are shown.
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

/// The lines of the answer so far.
#[derive(Debug)]
pub(super) struct GrepOutput {
    mode: GrepOutputMode,
    context: usize,
    lines: Vec<String>,
    bytes: usize,
    matches: usize,
    file: FileMatches,
}

/// The matches in the file that is being searched.
#[derive(Debug, Default)]
struct FileMatches {
    path: String,
    matches: usize,
    /// Lines before a match to come.
    before: VecDeque<(u64, String)>,
    /// How many lines after the last match are still to be shown.
    after: usize,
    /// The number of the line shown last.
    last_shown: Option<u64>,
}

impl GrepOutput {
    /// Returns an empty answer.
    pub fn new(mode: GrepOutputMode, context: usize) -> Self {
        let context = if mode == GrepOutputMode::Lines { context.min(CONTEXT_LINES_MAX) } else { 0 };
        Self { mode, context, lines: Vec::new(), bytes: 0, matches: 0, file: FileMatches::default() }
    }

    /// Goes to the next file.
    pub fn begin_file(&mut self, path: &str) {
        self.file = FileMatches { path: path.to_owned(), ..FileMatches::default() };
    }

    /// Takes a line that matches.
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

    /// Takes a line that does not match.
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

    /// Ends the file.
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

    /// Returns whether the rest of the file cannot change the answer.
    pub fn has_enough(&self) -> bool {
        self.is_full() || (self.mode == GrepOutputMode::Files && self.file.matches > 0)
    }

    /// Returns whether nothing more fits.
    pub fn is_full(&self) -> bool {
        self.matches >= MATCHES_MAX || self.bytes >= OUTPUT_BYTES_MAX
    }

    /// Returns the answer, with a last line that says why it ends early.
    pub fn into_text(mut self, note: Option<&str>) -> String {
        self.lines.extend(note.map(str::to_owned));
        if self.lines.is_empty() { "no line matches".to_owned() } else { self.lines.join("\n") }
    }

    fn push_line(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push(line);
    }
}

fn display_line(text: &[u8]) -> String {
    truncate_line(String::from_utf8_lossy(text).trim_end(), LINE_CHARS_MAX)
}
