//! A table of a Markdown text, laid out for the screen: columns give way to each other, and cells wrap. What is in them
//! is one line of Markdown each.

use crate::terminal::show::inline::inline;
use crate::terminal::text::style::{Style, apart};
use crate::terminal::text::wrap::{pad, width, wrap};

/// What stands between two columns.
const GAP: &str = " │ ";
/// The narrowest column.
const COLUMN_MIN: usize = 4;

/// How the cells of a column are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Left,
    Right,
}

/// Returns the lines of the table, or the lines as they are when they are none: a table has a line of dashes below its
/// head. The lines must be safe.
pub(crate) fn table(lines: &[String], columns: usize, style: Style) -> Vec<String> {
    let Some(sets) = lines.get(1).and_then(|line| alignments(line)) else { return lines.to_vec() };
    let rows: Vec<Vec<String>> = lines
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 1)
        .map(|(at, line)| {
            let cells = cells(line);
            let cells = cells.iter().map(|cell| inline(cell, style));
            if at == 0 { cells.map(|cell| style.bold(cell)).collect() } else { cells.collect() }
        })
        .collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let gaps = (count - 1) * width(GAP);
    if columns < gaps + count * COLUMN_MIN {
        return lines.to_vec();
    }
    let widths = fitted(&rows, count, columns - gaps);
    let mut out = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let laid = set_row(row, &widths, &sets, style);
        out.extend(laid);
        if at == 0 {
            let dashes: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push(style.dim(dashes.join("─┼─")));
        }
    }
    out
}

/// Returns how the columns are set, if the line is the one of dashes below a head.
fn alignments(line: &str) -> Option<Vec<Set>> {
    let cells = cells(line);
    let is_dashes = |cell: &String| cell.contains('-') && cell.chars().all(|c| c == '-' || c == ':');
    let set =
        |cell: &String| if cell.ends_with(':') && !cell.starts_with(':') { Set::Right } else { Set::Left };
    (!cells.is_empty() && cells.iter().all(is_dashes)).then(|| cells.iter().map(set).collect())
}

/// Returns the cells of a line. A `|` in a code span or after a backslash parts none.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').filter(|rest| !rest.ends_with('\\')).unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut in_code, mut escaped) = (false, false);
    for c in line.chars() {
        let is_gap = c == '|' && !in_code && !escaped;
        in_code ^= c == '`';
        match cells.last_mut() {
            Some(_) if is_gap => cells.push(String::new()),
            Some(cell) => {
                if c == '|' && escaped {
                    cell.pop();
                }
                cell.push(c);
            }
            None => {}
        }
        escaped = c == '\\' && !escaped;
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Returns the widths of the columns: as wide as their cells, and the widest give way until all fit.
fn fitted(rows: &[Vec<String>], count: usize, columns: usize) -> Vec<usize> {
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell)).max();
    let mut widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or(0).max(1)).collect();
    while widths.iter().sum::<usize>() > columns {
        let Some(widest) = widths.iter_mut().max() else { break };
        *widest -= 1;
    }
    widths
}

fn set_row(row: &[String], widths: &[usize], sets: &[Set], style: Style) -> Vec<String> {
    let wrapped: Vec<Vec<String>> = widths
        .iter()
        .enumerate()
        .map(|(at, width)| {
            let cell = row.get(at).map(String::as_str).unwrap_or_default();
            apart(wrap(cell, *width, "", "").lines())
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
                .map(|(at, (cell, columns))| {
                    let text = cell.get(line).map(String::as_str).unwrap_or_default();
                    match sets.get(at) {
                        Some(Set::Right) => {
                            format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
                        }
                        Some(Set::Left) | None => pad(text, *columns),
                    }
                })
                .collect();
            cells.join(&gap).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, columns: usize, expected: &[&str]) {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(table(&lines, columns, Style::Plain), expected, "{text}");
    }

    #[test]
    fn a_table_is_laid_out_and_its_cells_wrap_where_it_is_too_wide() {
        check(
            "| a | number |\n|---|------:|\n| `x|y` | 1 |\n| **b** | 22 |",
            40,
            &["a   │ number", "────┼───────", "x|y │      1", "b   │     22"],
        );
        check(
            "|k|text|\n|-|-|\n|1|one two three four|",
            18,
            &["k │ text", "──┼───────────────", "1 │ one two three", "  │ four"],
        );
    }

    #[test]
    fn emphasis_stays_in_its_cell() {
        let lines = ["|k|text|".to_owned(), "|-|-|".to_owned(), "|1|**one twofold** three|".to_owned()];
        let laid = table(&lines, 11, Style::Color);
        assert_eq!(laid[2], "1\u{1b}[2m │ \u{1b}[22m\u{1b}[1mone\u{1b}[22m");
        assert_eq!(laid[3], " \u{1b}[2m │ \u{1b}[22m\u{1b}[1mtwofold\u{1b}[22m");
    }

    #[test]
    fn what_is_no_table_stays_as_it_is() {
        check("| a | b |", 40, &["| a | b |"]);
        check("|a|b|\n|c|d|", 40, &["|a|b|", "|c|d|"]);
    }

    #[test]
    fn every_line_fits_whatever_the_cells_hold() {
        let row = format!("| {} | {} | x |", "漢字".repeat(40), "w".repeat(90));
        let lines: Vec<String> = vec!["|a|b|c|".to_owned(), "|-|-|-|".to_owned(), row];
        for columns in [40, 60, 100] {
            let laid = table(&lines, columns, Style::Color);
            assert!(laid.iter().all(|line| width(line) <= columns), "{columns}: {laid:#?}");
        }
    }
}
