//! The screen: where lines go, how wide they may be, and whether anyone can answer.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use crate::cli::{ColorChoice, Drawing};
use crate::terminal::text::style::{Style, is_dumb};

/// Columns where the width is not known.
const COLUMNS_DEFAULT: usize = 80;
/// The narrowest screen that is laid out for.
const COLUMNS_MIN: usize = 40;
/// The widest line of running text; longer ones are hard to read.
const TEXT_COLUMNS_MAX: usize = 100;

/// Whether someone sits at the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Keys can be read and answers shown.
    Person,
    /// A pipe or a file.
    Program,
}

/// Whether rows that were drawn can be drawn over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// The cursor can be moved.
    Free,
    /// What is printed stays: a dumb terminal, one a person wants plain, a pipe or a file.
    Fixed,
}

/// Where lines go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    /// How text is emphasised.
    pub(crate) style: Style,
    /// The columns of a line.
    pub(crate) columns: usize,
    /// Who looks at it.
    pub(crate) audience: Audience,
    /// Whether rows can be drawn over.
    pub(crate) cursor: Cursor,
}

impl Screen {
    /// Returns the screen of this process.
    pub(crate) fn new(color: ColorChoice, drawing: Drawing) -> Self {
        let stdout = io::stdout();
        let audience = match stdout.is_terminal() && io::stdin().is_terminal() {
            true => Audience::Person,
            false => Audience::Program,
        };
        let cursor = match (audience, drawing) {
            (Audience::Person, Drawing::Live) if !is_dumb() => Cursor::Free,
            (Audience::Person | Audience::Program, Drawing::Live | Drawing::Plain) => Cursor::Fixed,
        };
        let style = match drawing {
            Drawing::Live => Style::choose(color, &stdout),
            Drawing::Plain => Style::Plain,
        };
        Self { style, columns: columns(&stdout), audience, cursor }
    }

    /// Returns whether a person sits at it who is shown every line once, and nothing that moves.
    pub(crate) fn is_plain(&self) -> bool {
        self.audience == Audience::Person && self.cursor == Cursor::Fixed
    }

    /// Measures the screen again: a person may have changed its width.
    pub(crate) fn measure(&mut self) {
        self.columns = columns(&io::stdout());
    }

    /// Returns the columns of a line of running text.
    pub(crate) fn text_columns(&self) -> usize {
        self.columns.min(TEXT_COLUMNS_MAX)
    }

    /// Writes a line to stdout.
    pub(crate) fn line(&self, text: impl Display) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Writes text to stdout at once, without a newline of its own.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Writes a line to stderr, for what is not the command's result.
    pub(crate) fn note(&self, text: impl Display) {
        // Whoever closed stderr does not want to know.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// The width of a terminal is measured; elsewhere it is what `COLUMNS` says.
pub(crate) fn columns(output: &impl IsTerminal) -> usize {
    let named = || std::env::var("COLUMNS").ok()?.parse::<usize>().ok();
    let measured = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let found = if output.is_terminal() { measured().or_else(named) } else { named() };
    found.filter(|columns| *columns > 0).unwrap_or(COLUMNS_DEFAULT).max(COLUMNS_MIN)
}
