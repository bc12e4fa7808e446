//! The rows at the bottom of the screen that are drawn again and again while work goes on. What is printed goes above
//! them and stays. On a screen whose cursor is fixed there are none.

use std::io::{self, Write};

use crate::screen::{CursorMode, Screen};
use crate::text::wrap::width;

/// The rows, as they stand on the screen.
#[derive(Debug)]
pub struct LiveRows {
    cursor: CursorMode,
    /// The widths of the rows that stand there.
    drawn_widths: Vec<usize>,
}

impl LiveRows {
    /// Returns an empty place for rows.
    pub fn new(screen: &Screen) -> Self {
        Self { cursor: screen.cursor, drawn_widths: Vec::new() }
    }

    /// Returns whether rows are drawn at all.
    pub fn can_draw(&self) -> bool {
        self.cursor == CursorMode::Free
    }

    /// Prints whole lines, which stay, above the rows, and draws `rows` in place of the ones that stand there. Each row
    /// must be narrower than the screen.
    pub fn update(&mut self, lines: &str, rows: &[String]) -> io::Result<()> {
        self.redraw(lines, if self.can_draw() { rows } else { &[] })
    }

    /// Takes the rows away.
    pub fn clear(&mut self) -> io::Result<()> {
        self.redraw("", &[])
    }

    /// One write, so that the rows do not flicker.
    fn redraw(&mut self, lines: &str, rows: &[String]) -> io::Result<()> {
        let mut out = String::new();
        match wrapped_height(&self.drawn_widths) {
            0 => {}
            1 => out.push_str("\r\u{1b}[J"),
            drawn => out.push_str(&format!("\r\u{1b}[{}A\u{1b}[J", drawn - 1)),
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

/// Returns how many lines of the screen the rows take: those of a screen that became narrower wrap.
fn wrapped_height(rows: &[usize]) -> usize {
    // Asked only where something is drawn, so that a pipe is never asked.
    let columns = match rows {
        [] => return 0,
        _ => crossterm::terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns).max(1)),
    };
    rows.iter().map(|width| width.div_ceil(columns).max(1)).sum()
}

impl Drop for LiveRows {
    fn drop(&mut self) {
        // A screen that cannot be written to shows no rows either.
        let _ = self.clear();
    }
}
