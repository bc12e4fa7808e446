//! The content of a terminal's screen as plain values: the text, position and style of each cell. [`super::svg`] draws
//! them.

use vt100::Color;

/// The visible content of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenContent {
    /// The number of columns.
    pub columns: u16,
    /// The rows, top to bottom.
    pub rows: Vec<Vec<Cell>>,
    /// The cursor, unless it is hidden.
    pub cursor: Option<CursorPosition>,
}

/// A position of the cursor, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorPosition {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: u16,
}

/// One character of the screen with its combining characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The column of its left edge, from 0.
    pub column: u16,
    /// The number of columns: 2 for a wide character, else 1.
    pub width: u16,
    /// The text. An empty cell has a space.
    pub text: String,
    /// The colours and attributes.
    pub style: CellStyle,
}

/// The colours and attributes of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellStyle {
    /// The text colour before [`Self::inverse`] swaps it.
    pub foreground: Color,
    /// The background colour before [`Self::inverse`] swaps it.
    pub background: Color,
    /// Bold, dim or neither.
    pub intensity: Intensity,
    /// The text is slanted.
    pub italic: bool,
    /// The text is underlined.
    pub underline: bool,
    /// The two colours are swapped.
    pub inverse: bool,
}

/// The intensity of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intensity {
    /// Neither bold nor dim.
    Normal,
    /// Bold.
    Bold,
    /// Nearer to the background.
    Dim,
}

impl ScreenContent {
    /// Returns the content of a terminal without the blank rows at its end.
    pub fn from_terminal(terminal: &vt100::Screen) -> Self {
        let (rows, columns) = terminal.size();
        let row_cells = |row| {
            let cell_at = |column| Some(Cell::from_terminal(terminal.cell(row, column)?, column));
            (0..columns.get()).filter_map(cell_at).flatten().collect()
        };
        let mut rows: Vec<Vec<Cell>> = (0..rows.get()).map(row_cells).collect();
        let (row, column) = terminal.cursor_position();
        let cursor = (!terminal.hide_cursor()).then_some(CursorPosition { row: usize::from(row), column });
        rows.truncate(count_used_rows(&rows).max(cursor.map_or(0, |cursor| cursor.row + 1)));
        Self { columns: columns.get(), rows, cursor }
    }

    /// Returns the content without the cursor, as it is after the program has exited.
    #[must_use]
    pub fn without_cursor(mut self) -> Self {
        self.cursor = None;
        self.rows.truncate(count_used_rows(&self.rows));
        self
    }

    /// Returns the rows above the first row that begins with `text`, without blank rows at the end, or `None` if there
    /// is no such row.
    #[must_use]
    pub fn rows_above(mut self, text: &str) -> Option<Self> {
        let end = self.rows.iter().position(|row| row_text(row).starts_with(text))?;
        self.rows.truncate(end);
        Some(self.without_cursor())
    }

    /// Returns the text of all rows, without styles, for error messages.
    pub fn text(&self) -> String {
        self.rows.iter().map(|row| row_text(row)).collect::<Vec<_>>().join("\n")
    }
}

impl Cell {
    /// Returns the cell, or `None` for the right half of a wide character.
    fn from_terminal(cell: &vt100::Cell, column: u16) -> Option<Self> {
        if cell.is_wide_continuation() {
            return None;
        }
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let intensity = match (cell.bold(), cell.dim()) {
            (true, _) => Intensity::Bold,
            (false, true) => Intensity::Dim,
            (false, false) => Intensity::Normal,
        };
        let style = CellStyle {
            foreground: cell.fgcolor(),
            background: cell.bgcolor(),
            intensity,
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
        };
        Some(Self { column, width: if cell.is_wide() { 2 } else { 1 }, text: text.to_owned(), style })
    }
}

/// Returns the number of rows without the blank ones at the end.
fn count_used_rows(rows: &[Vec<Cell>]) -> usize {
    rows.iter().rposition(|row| !row_text(row).is_empty()).map_or(0, |last| last + 1)
}

/// Returns the text of a row without spaces at its end.
fn row_text(row: &[Cell]) -> String {
    let text: String = row.iter().map(|cell| cell.text.as_str()).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
pub mod testing {
    //! Screens for tests.

    use std::num::NonZeroU16;

    use super::ScreenContent;

    /// Returns the content of a terminal of 20 columns and 5 rows after a program has written `bytes`.
    pub fn draw(bytes: &str) -> ScreenContent {
        let cells = |count| NonZeroU16::new(count).unwrap();
        let mut parser = vt100::Parser::new(cells(5), cells(20), 0);
        parser.process(bytes.as_bytes());
        ScreenContent::from_terminal(parser.screen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::draw;

    #[test]
    fn cells_keep_their_column_width_and_style() {
        let screen = draw("a世\x1b[1;31mb\x1b[0m\x1b[2mc");
        let cells: Vec<_> =
            screen.rows[0][..4].iter().map(|c| (c.column, c.width, c.text.as_str())).collect();
        assert_eq!(cells, [(0, 1, "a"), (1, 2, "世"), (3, 1, "b"), (4, 1, "c")]);
        let style = |index: usize| screen.rows[0][index].style;
        assert_eq!((style(2).foreground, style(2).intensity), (Color::Idx(1), Intensity::Bold));
        assert_eq!((style(3).foreground, style(3).intensity), (Color::Default, Intensity::Dim));
    }

    #[test]
    fn blank_rows_at_the_end_are_removed_up_to_the_cursor() {
        let check = |bytes: &str, rows: usize, cursor: Option<(usize, u16)>| {
            let screen = draw(bytes);
            let actual = screen.cursor.map(|cursor| (cursor.row, cursor.column));
            assert_eq!((screen.rows.len(), actual), (rows, cursor), "{bytes:?}");
        };
        check("a", 1, Some((0, 1)));
        check("a\r\n\n", 3, Some((2, 0)));
        check("a\r\n\n\x1b[?25l", 1, None);
        check("\x1b[?25l", 0, None);
        assert_eq!(draw("a\r\n\n").without_cursor().rows.len(), 1);
    }

    #[test]
    fn a_screen_is_cut_above_a_row() {
        let screen = draw("one\r\n\ntwo\r\nthree");
        assert_eq!(screen.clone().rows_above("two").unwrap().text(), "one");
        assert_eq!(screen.clone().rows_above("hree"), None);
        assert_eq!(screen.text(), "one\n\ntwo\nthree");
    }
}
