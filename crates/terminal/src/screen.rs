//! The screen: where lines go, how wide they may be, and whether anyone can answer.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::text::style::{Style, is_dumb_terminal};

/// Columns where the width is not known.
const COLUMNS_DEFAULT: usize = 80;
/// The narrowest screen that is laid out for.
const COLUMNS_MIN: usize = 40;
/// The widest line of running text; longer ones are hard to read.
const TEXT_COLUMNS_MAX: usize = 100;

/// The kind of reader at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Keys can be read and answers shown.
    Person,
    /// A pipe or a file.
    Program,
}

/// The ability to overwrite rows that were drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMode {
    /// The cursor can be moved.
    Free,
    /// Printed rows cannot be overwritten: a dumb terminal, plain mode, a pipe or a file.
    Fixed,
}

/// How a terminal is drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawMode {
    /// As far as the terminal can: with colour, and over what was drawn.
    Live,
    /// Line under line, without colour; questions are answered by the line.
    Plain,
}

/// Where lines go.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// How text is emphasised.
    pub style: Style,
    /// The columns of a line.
    pub columns: usize,
    /// The reader.
    pub audience: Audience,
    /// The ability to overwrite rows.
    pub cursor: CursorMode,
}

impl Screen {
    /// Returns the screen of this process. Without a `style`, it is the one that fits stdout.
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

    /// Returns whether a person sits at it who is shown every line once, and nothing that moves.
    pub fn is_plain(&self) -> bool {
        self.audience == Audience::Person && self.cursor == CursorMode::Fixed
    }

    /// Measures the screen again: a person may have changed its width.
    pub fn update_width(&mut self) {
        self.columns = detect_columns(&io::stdout());
    }

    /// Returns the columns of a line of running text.
    pub fn text_columns(&self) -> usize {
        self.columns.min(TEXT_COLUMNS_MAX)
    }

    /// Writes a line to stdout.
    pub fn print_line(&self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Writes lines to stdout.
    pub fn print_lines(&self, lines: impl IntoIterator<Item = impl Display>) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        lines.into_iter().try_for_each(|line| writeln!(stdout, "{line}"))
    }

    /// Writes text to stdout at once, without a newline of its own.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Writes a line to stderr, for what is not the command's result.
    pub fn print_to_stderr(&self, text: impl Display) {
        // Whoever closed stderr does not want to know.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// The width of a terminal is measured; elsewhere it is what `COLUMNS` says.
pub fn detect_columns(output: &impl IsTerminal) -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse::<usize>().ok();
    let measured = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let found = if output.is_terminal() { measured().or_else(named) } else { named() };
    found.filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT).max(COLUMNS_MIN)
}
