//! The screen: standard output, its width, and its capabilities. Layout is in `render`.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::text::style::{Style, is_dumb_terminal};

/// The width, in columns, if it cannot be determined.
const COLUMNS_DEFAULT: usize = 80;
/// The smallest width, in columns, for which lines are laid out. On a narrower terminal, the terminal itself wraps the
/// lines.
const COLUMNS_MIN: usize = 40;
/// The widest line of running text, in columns. Longer lines are hard to read.
const TEXT_COLUMNS_MAX: usize = 100;

/// The reader of the program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A user at a terminal, who can answer questions.
    Person,
    /// A program: the input or the output is a pipe or a file.
    Program,
}

/// The ability of the output to overwrite rows that were already printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMode {
    /// The cursor can be moved, so that rows can be redrawn.
    Free,
    /// Printed rows cannot be overwritten: a dumb terminal, plain mode, a pipe or a file.
    Fixed,
}

/// The way in which the program draws on a terminal, as the user chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawMode {
    /// With all capabilities of the terminal: colour, and rows that are redrawn.
    Live,
    /// Line by line without colour. Questions are answered with a line.
    Plain,
}

/// The output of the program.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// The style of text: plain or coloured.
    pub style: Style,
    /// The width of a line, in columns.
    pub columns: usize,
    /// The reader: a user at a terminal, or a program.
    pub audience: Audience,
    /// The ability to redraw printed rows.
    pub cursor: CursorMode,
}

impl Screen {
    /// Returns the screen of this process. If `style` is `None`, the default style of stdout is used.
    pub fn new(style: Option<Style>, drawing: DrawMode) -> Self {
        let stdout = io::stdout();
        let audience = match stdout.is_terminal() && io::stdin().is_terminal() {
            true => Audience::Person,
            false => Audience::Program,
        };
        let cursor = match (audience, drawing) {
            (Audience::Person, DrawMode::Live) if !is_dumb_terminal() => CursorMode::Free,
            (Audience::Person | Audience::Program, DrawMode::Live | DrawMode::Plain) => CursorMode::Fixed,
        };
        let style = match drawing {
            DrawMode::Live => style.unwrap_or_else(|| Style::detect(&stdout)),
            DrawMode::Plain => Style::Plain,
        };
        Self { style, columns: detect_columns(&stdout), audience, cursor }
    }

    /// Returns whether the reader is a user at a terminal on which rows are not redrawn, such as a user with a screen
    /// reader.
    pub fn is_plain(&self) -> bool {
        self.audience == Audience::Person && self.cursor == CursorMode::Fixed
    }

    /// Measures the width again, because the user may have resized the terminal.
    pub fn update_width(&mut self) {
        self.columns = detect_columns(&io::stdout());
    }

    /// Returns the height of the terminal in rows; `None` if it shows no pane or cannot be measured.
    pub fn rows(&self) -> Option<usize> {
        let measured = || crossterm::terminal::size().ok().map(|(_, rows)| usize::from(rows));
        (self.cursor == CursorMode::Free).then(measured).flatten()
    }

    /// Returns the width of a line of running text, in columns.
    pub fn text_columns(&self) -> usize {
        self.columns.min(TEXT_COLUMNS_MAX)
    }

    /// Writes a line to stdout.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn print_line(&self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Writes lines to stdout.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn print_lines(&self, lines: impl IntoIterator<Item = impl Display>) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        lines.into_iter().try_for_each(|line| writeln!(stdout, "{line}"))
    }

    /// Writes text to stdout without adding a newline, and flushes stdout.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Writes a line to stderr, for text that is not part of the command's result.
    pub fn print_to_stderr(&self, text: impl Display) {
        // A closed stderr does not make the command fail.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Returns the width of an output, in columns: the measured width of a terminal, else the value of `COLUMNS`, else 80.
/// At least 40.
pub fn detect_columns(output: &impl IsTerminal) -> usize {
    let from_variable = || std::env::var("COLUMNS").ok()?.parse::<usize>().ok();
    let measured = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let columns = if output.is_terminal() { measured().or_else(from_variable) } else { from_variable() };
    columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT).max(COLUMNS_MIN)
}
