//! Tables that fit the screen: one column is shortened, the others have the width of their widest cell.

use crate::screen::Screen;
use crate::text::wrap::{pad, shorten, width};

/// The gap between two columns.
const GAP: &str = "  ";
/// The minimum width of the column that is shortened.
/// On a narrower screen the table overflows.
const FLEXIBLE_COLUMNS_MIN: usize = 10;

/// A column with its title and its alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableColumn {
    /// A column that is aligned to the left.
    Left(&'static str),
    /// A column that is aligned to the right, for numbers.
    Right(&'static str),
    /// A column that is aligned to the left and shortened if the screen is too narrow. A table has at most one.
    Flexible(&'static str),
}

impl TableColumn {
    /// Returns the title.
    const fn title(self) -> &'static str {
        match self {
            Self::Left(title) | Self::Right(title) | Self::Flexible(title) => title,
        }
    }
}

/// Returns the lines of a table with its header. Cells must be sanitized and on one line.
///
/// The flexible column gets the columns that the others leave; without a flexible column the table may be wider than
/// the screen.
pub fn table(screen: &Screen, columns: &[TableColumn], rows: &[Vec<String>]) -> Vec<String> {
    let mut widths: Vec<usize> = columns.iter().map(|column| width(column.title())).collect();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            widths[index] = widths[index].max(width(cell));
        }
    }
    if let Some(flexible) = columns.iter().position(|column| matches!(column, TableColumn::Flexible(_))) {
        let others: usize = widths.iter().sum::<usize>() - widths[flexible] + GAP.len() * (columns.len() - 1);
        let available = screen.columns.saturating_sub(others).max(FLEXIBLE_COLUMNS_MIN);
        widths[flexible] = widths[flexible].min(available);
    }
    let titles: Vec<String> = columns.iter().map(|column| column.title().to_owned()).collect();
    let header = screen.style.dim(layout_row(columns, &widths, &titles));
    std::iter::once(header).chain(rows.iter().map(|row| layout_row(columns, &widths, row))).collect()
}

/// Returns one row, with each cell padded or shortened to the width of its column.
fn layout_row(columns: &[TableColumn], widths: &[usize], cells: &[String]) -> String {
    let cells: Vec<String> = columns
        .iter()
        .zip(widths)
        .zip(cells)
        .map(|((column, columns), cell)| match column {
            TableColumn::Left(_) => pad(cell, *columns),
            TableColumn::Right(_) => format!("{}{cell}", " ".repeat(columns.saturating_sub(width(cell)))),
            TableColumn::Flexible(_) => pad(&shorten(cell, *columns), *columns),
        })
        .collect();
    cells.join(GAP).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// The flexible cell is much wider than each screen and consists of wide characters.
    #[test]
    fn a_table_fits_the_screen_whatever_its_cells_contain() {
        let rows = vec![
            vec!["0192f0c1".to_owned(), "漢字".repeat(80), "12".to_owned()],
            vec!["0192f0c2".to_owned(), "short".to_owned(), "1".to_owned()],
        ];
        let columns =
            [TableColumn::Left("ID"), TableColumn::Flexible("NAME"), TableColumn::Right("MESSAGES")];
        for columns_of_screen in [40, 80, 120] {
            let screen = Screen {
                style: Style::Plain,
                columns: columns_of_screen,
                audience: Audience::Program,
                cursor: CursorMode::Fixed,
            };
            let lines = table(&screen, &columns, &rows);
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| width(line) <= columns_of_screen), "{lines:#?}");
            assert!(lines[2].ends_with(" 1"), "{lines:#?}");
        }
    }
}
