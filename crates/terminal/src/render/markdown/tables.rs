//! Lays out a Markdown table for the screen: the widest columns shrink until the table fits, and their cells wrap.

use pulldown_cmark::Alignment;

use crate::text::style::{Style, close_styles_per_line};
use crate::text::wrap::{pad, width, wrap};

/// The separator between two columns.
const GAP: &str = " │ ";
/// The narrowest column, in columns of the screen.
const COLUMN_MIN: usize = 4;

/// Returns the lines of a table whose first row is its header; `None` if not even the narrowest columns fit `columns`.
/// Cells may contain escape sequences of `style`. A line break within a cell closes its emphasis, so that the emphasis
/// does not spread to the next column.
pub(super) fn layout_table(
    rows: &[Vec<String>],
    alignments: &[Alignment],
    columns: usize,
    style: Style,
) -> Option<Vec<String>> {
    let count = alignments.len().max(1);
    let gaps = (count - 1) * width(GAP);
    if columns < gaps + count * COLUMN_MIN {
        return None;
    }
    let widths = fit_widths(rows, count, columns - gaps);
    let mut out = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        if index == 0 {
            let head: Vec<String> = row.iter().map(|cell| style.bold(cell)).collect();
            out.extend(layout_row(&head, &widths, alignments, style));
            let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push(style.dim(dashes.join("─┼─")));
        } else {
            out.extend(layout_row(row, &widths, alignments, style));
        }
    }
    Some(out)
}

/// Returns the widths of the columns: the width of the widest cell, with the widest columns reduced until all fit.
/// Reducing the widest column first leaves narrow columns, such as numbers, readable.
fn fit_widths(rows: &[Vec<String>], count: usize, columns: usize) -> Vec<usize> {
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let mut widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0).max(1)).collect();
    while widths.iter().sum::<usize>() > columns {
        let Some(widest) = widths.iter_mut().max() else { break };
        *widest -= 1;
    }
    widths
}

/// Returns the lines of one row. It is as high as its highest cell.
fn layout_row(row: &[String], widths: &[usize], alignments: &[Alignment], style: Style) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| {
            let cell = row.get(column).map(String::as_str).unwrap_or_default();
            close_styles_per_line(wrap(cell, *width, "", "").lines())
        })
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let gap = style.dim(GAP);
    (0..height)
        .map(|line| {
            let cells: Vec<String> = wrapped
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, columns))| {
                    let text = cell.get(line).map(String::as_str).unwrap_or_default();
                    match alignments.get(column) {
                        Some(Alignment::Right) => {
                            format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
                        }
                        Some(Alignment::Left | Alignment::Center | Alignment::None) | None => {
                            pad(text, *columns)
                        }
                    }
                })
                .collect();
            cells.join(&gap).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::render::markdown::MarkdownRenderer;
    use crate::screen::{Audience, CursorMode, Screen};
    use crate::text::style::Style;
    use crate::text::wrap::width;

    /// Renders a text and returns its lines.
    fn layout_lines(text: &str, columns: usize, style: Style) -> Vec<String> {
        let screen = Screen { style, columns, audience: Audience::Program, cursor: CursorMode::Fixed };
        let mut markdown = MarkdownRenderer::new(&screen);
        let lines = markdown.push(text) + &markdown.finish();
        lines.lines().map(str::to_owned).collect()
    }

    /// Checks the lines of a text without colour.
    fn check(text: &str, columns: usize, expected: &[&str]) {
        assert_eq!(layout_lines(text, columns, Style::Plain), expected, "{text}");
    }

    #[test]
    fn the_cells_of_a_wide_table_wrap() {
        check(
            "| a | number |\n|---|------:|\n| `x\\|y` | 1 |\n| **b** | 22 |",
            40,
            &["a   │ number", "────┼───────", "x|y │      1", "b   │     22"],
        );
        check(
            "|k|text|\n|-|-|\n|1|one two three four|",
            18,
            &["k │ text", "──┼───────────────", "1 │ one two three", "  │ four"],
        );
    }

    /// Bold text that wraps in the right column must not make the separator or the left column bold.
    #[test]
    fn emphasis_stays_in_its_cell() {
        let lines = layout_lines("|k|text|\n|-|-|\n|1|**one twofold** three|", 11, Style::Color);
        assert_eq!(lines[2], "1\u{1b}[2m │ \u{1b}[22m\u{1b}[1mone\u{1b}[22m");
        assert_eq!(lines[3], " \u{1b}[2m │ \u{1b}[22m\u{1b}[1mtwofold\u{1b}[22m");
    }

    /// GitHub-flavoured Markdown requires the row of dashes.
    #[test]
    fn rows_without_a_header_rule_are_plain_text() {
        check("| a | b |", 40, &["| a | b |"]);
        check("|a|b|\n|c|d|", 40, &["|a|b|", "|c|d|"]);
    }

    #[test]
    fn a_table_in_a_list_is_indented() {
        check("- x\n\n  |a|b|\n  |-|-|\n  |1|2|\n", 40, &["• x", "", "  a │ b", "  ──┼──", "  1 │ 2"]);
    }

    /// Wide characters and words without blanks are the cases in which wrapping could exceed the width.
    #[test]
    fn every_line_fits_for_any_cells() {
        let row = format!("| {} | {} | x |", "漢字".repeat(40), "w".repeat(90));
        for columns in [40, 60, 100] {
            let lines = layout_lines(&format!("|a|b|c|\n|-|-|-|\n{row}"), columns, Style::Color);
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
        }
    }
}
