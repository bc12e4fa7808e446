//! Live rows: the rows at the bottom of the screen that are redrawn while work runs. Printed lines are inserted above
//! them and stay. On a screen whose rows cannot be redrawn there are no live rows.

use std::io::{self, Write};

use crate::screen::{CursorMode, Screen};
use crate::text::wrap::width;

/// The live rows on the screen.
#[derive(Debug)]
pub struct LiveRows {
    /// Decides whether rows can be drawn at all.
    cursor: CursorMode,
    /// The widths, in columns, of the rows that are on the screen.
    drawn_widths: Vec<usize>,
}

impl LiveRows {
    /// Returns an empty set of rows.
    pub fn new(screen: &Screen) -> Self {
        Self { cursor: screen.cursor, drawn_widths: Vec::new() }
    }

    /// Returns whether rows are drawn on this screen.
    pub fn can_draw(&self) -> bool {
        self.cursor == CursorMode::Free
    }

    /// Prints complete lines above the rows, and replaces the rows. Each row must be narrower than the screen.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn update(&mut self, lines: &str, rows: &[String]) -> io::Result<()> {
        self.redraw(lines, if self.can_draw() { rows } else { &[] })
    }

    /// Removes the rows from the screen.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn clear(&mut self) -> io::Result<()> {
        self.redraw("", &[])
    }

    /// Prints lines and replaces the rows with a single write, so that the rows do not flicker.
    fn redraw(&mut self, lines: &str, rows: &[String]) -> io::Result<()> {
        let mut out = String::new();
        match wrapped_height(&self.drawn_widths) {
            0 => {}
            1 => out.push_str("\r\u{1b}[J"),
            height => out.push_str(&format!("\r\u{1b}[{}A\u{1b}[J", height - 1)),
        }
        out.push_str(lines);
        out.push_str(&rows.join("\n"));
        self.drawn_widths = rows.iter().map(|row| width(row)).collect();
        if out.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(out.as_bytes())?;
        stdout.flush()
    }
}

/// Returns the number of screen lines that rows of these widths take. Rows wrap if the screen has become narrower.
fn wrapped_height(widths: &[usize]) -> usize {
    // The size is only queried if there are rows, so never for a pipe.
    let columns = match widths {
        [] => return 0,
        _ => crossterm::terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns).max(1)),
    };
    widths.iter().map(|width| width.div_ceil(columns).max(1)).sum()
}

impl Drop for LiveRows {
    fn drop(&mut self) {
        // If stdout cannot be written, there are no rows to remove.
        let _ = self.clear();
    }
}
