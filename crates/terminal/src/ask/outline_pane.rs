//! A pane over the whole terminal that shows a text in sections. The user opens and closes them, and opens the places that
//! an item refers to. The pane shows and never changes anything.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::ask::question::RawModeGuard;
use crate::screen::Screen;
use crate::text::sanitize::{sanitize, sanitize_line};
use crate::text::wrap::{shorten, wrap, wrap_entry};

/// The rows of the pane below and above the text: the title, and the line with the keys.
const FRAME_ROWS: usize = 2;
/// The keys, in the last row.
const KEYS: &str = "↑↓ move · Enter open/close, also #1 · o/c all · q back";

/// The mark of the selected row.
const SELECTED_MARK: &str = "›";

/// True while a pane covers the terminal, so that an abrupt end of the program can uncover it.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Returns the escape sequence that uncovers the terminal; empty if no pane covers it.
pub(crate) fn leave_sequence() -> &'static str {
    if IS_OPEN.swap(false, Ordering::Relaxed) { "\u{1b}[?1049l" } else { "" }
}

/// A section of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineSection {
    /// The heading, on one line.
    pub heading: String,
    /// The items.
    pub items: Vec<OutlineItem>,
    /// True if the items are shown.
    pub is_open: bool,
}

/// An item of a section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutlineItem {
    /// The text; of one line, except for a request or a pin of several.
    pub text: String,
    /// The places that the item refers to.
    pub refs: Vec<u64>,
    /// The lines of those places, one text for each; `None` until they are needed.
    pub places: Option<Vec<String>>,
    /// True if the places are shown.
    pub is_open: bool,
}

/// The reason why the pane returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaneOutcome {
    /// The user closed the pane.
    Closed,
    /// The places of this item are needed: the caller sets [`OutlineItem::places`] and shows the pane again.
    NeedsPlaces {
        /// The index of the section.
        section: usize,
        /// The index of the item.
        item: usize,
    },
}

/// The state of all sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionFold {
    Open,
    Closed,
}

/// A row that can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PaneRow {
    /// A heading.
    Section(usize),
    /// An item of a section.
    Item(usize, usize),
}

/// A text in sections, and the state of its view.
#[derive(Debug, Clone)]
pub struct OutlinePane {
    /// The title, on one line.
    pub title: String,
    /// The sections.
    pub sections: Vec<OutlineSection>,
    /// The index of the selected row among the shown ones.
    selected: usize,
    /// The first line on the screen.
    top: usize,
}

impl OutlinePane {
    /// Returns a pane whose first row is selected.
    pub const fn new(title: String, sections: Vec<OutlineSection>) -> Self {
        Self { title, sections, selected: 0, top: 0 }
    }

    /// Shows the pane until the user closes it or opens places that are not known. Blocks the thread.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written.
    pub fn show(&mut self, screen: &Screen) -> io::Result<PaneOutcome> {
        let _raw_mode = RawModeGuard::enable(screen)?;
        let _cover = CoverGuard::enable()?;
        loop {
            self.draw(screen)?;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let page = page_rows();
                    if let Some(outcome) = self.handle_key(key, page) {
                        return Ok(outcome);
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles a key; returns the reason to leave the pane, if there is one. `page` is the number of rows of a page.
    fn handle_key(&mut self, key: KeyEvent, page: usize) -> Option<PaneOutcome> {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return Some(PaneOutcome::Closed),
            KeyCode::Char('c' | 'd') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(PaneOutcome::Closed);
            }
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = last.min(self.selected + 1),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(page),
            KeyCode::PageDown => self.selected = last.min(self.selected + page),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Enter | KeyCode::Char(' ') => return self.toggle(*rows.get(self.selected)?),
            KeyCode::Right => return self.open(*rows.get(self.selected)?),
            KeyCode::Left => self.close(*rows.get(self.selected)?),
            KeyCode::Char('o') => self.fold_all(SectionFold::Open),
            KeyCode::Char('c') => self.fold_all(SectionFold::Closed),
            _ => {}
        }
        None
    }

    /// Opens a closed row and closes an open one.
    fn toggle(&mut self, row: PaneRow) -> Option<PaneOutcome> {
        let is_open = match row {
            PaneRow::Section(section) => self.sections[section].is_open,
            PaneRow::Item(section, item) => self.sections[section].items[item].is_open,
        };
        if is_open {
            self.close(row);
            return None;
        }
        self.open(row)
    }

    /// Shows the items of a section or the places of an item.
    fn open(&mut self, row: PaneRow) -> Option<PaneOutcome> {
        match row {
            PaneRow::Section(section) => self.sections[section].is_open = true,
            PaneRow::Item(section, index) => {
                let item = &mut self.sections[section].items[index];
                item.is_open = !item.refs.is_empty();
                if item.is_open && item.places.is_none() {
                    return Some(PaneOutcome::NeedsPlaces { section, item: index });
                }
            }
        }
        None
    }

    /// Hides the places of an item, or else the items of its section, whose heading is selected then.
    fn close(&mut self, row: PaneRow) {
        match row {
            PaneRow::Item(section, index) if self.sections[section].items[index].is_open => {
                self.sections[section].items[index].is_open = false;
            }
            PaneRow::Item(section, _) | PaneRow::Section(section) => {
                self.sections[section].is_open = false;
                let heading = PaneRow::Section(section);
                self.selected = self.rows().iter().position(|row| *row == heading).unwrap_or(0);
            }
        }
    }

    /// Opens or closes all sections. The selected section stays selected.
    fn fold_all(&mut self, fold: SectionFold) {
        let section = match self.rows().get(self.selected) {
            Some(PaneRow::Section(section) | PaneRow::Item(section, _)) => *section,
            None => 0,
        };
        self.sections.iter_mut().for_each(|section| section.is_open = fold == SectionFold::Open);
        self.selected =
            self.rows().iter().position(|row| *row == PaneRow::Section(section)).unwrap_or_default();
    }

    /// Returns the shown rows.
    fn rows(&self) -> Vec<PaneRow> {
        let mut rows = Vec::new();
        for (index, section) in self.sections.iter().enumerate() {
            rows.push(PaneRow::Section(index));
            if section.is_open {
                rows.extend((0..section.items.len()).map(|item| PaneRow::Item(index, item)));
            }
        }
        rows
    }

    /// Returns the lines of all shown rows, and the range of lines of the selected one.
    fn lines(&self, screen: &Screen) -> (Vec<String>, std::ops::Range<usize>) {
        let mut lines = Vec::new();
        let mut selected = 0..0;
        for (index, row) in self.rows().into_iter().enumerate() {
            let first = lines.len();
            let is_selected = index == self.selected;
            let mark = if is_selected { SELECTED_MARK } else { " " };
            lines.extend(self.row_lines(screen, row, mark));
            if is_selected {
                selected = first..lines.len();
            }
        }
        (lines, selected)
    }

    /// Returns the lines of a row, the first one after `mark`.
    fn row_lines(&self, screen: &Screen, row: PaneRow, mark: &str) -> Vec<String> {
        let (style, columns) = (screen.style, screen.text_columns());
        match row {
            PaneRow::Section(index) => {
                let OutlineSection { heading, items, is_open } = &self.sections[index];
                let sign = if *is_open { "▾" } else { "▸" };
                let text = format!("{mark} {sign} {} ({})", sanitize_line(heading), items.len());
                vec![style.bold(shorten(&text, columns))]
            }
            PaneRow::Item(section, index) => {
                let item = &self.sections[section].items[index];
                let refs: Vec<String> = item.refs.iter().map(|seq| format!("#{seq}")).collect();
                let text = format!("{} {}", sanitize(&item.text), refs.join(" "));
                let first = format!("{mark}   • ");
                let mut lines = split_lines(&wrap_entry(text.trim_end(), columns, &first, "      "));
                for place in item.places.iter().flatten().filter(|_| item.is_open) {
                    let place = wrap(&sanitize_line(place), columns, "        ", "          ");
                    lines.extend(split_lines(&place).into_iter().map(|line| style.dim(line)));
                }
                lines
            }
        }
    }

    /// Draws the part of the text around the selected row.
    fn draw(&mut self, screen: &Screen) -> io::Result<()> {
        let mut screen = *screen;
        screen.update_width();
        let height = page_rows();
        let (lines, selected) = self.lines(&screen);
        self.top = visible_top(self.top, &selected, height).min(lines.len().saturating_sub(1));
        let columns = screen.columns;
        let title = screen.style.bold(shorten(&sanitize_line(&self.title), columns));
        let mut text = format!("\u{1b}[H\u{1b}[2J{title}\r\n");
        for line in lines.iter().skip(self.top).take(height) {
            text.push_str(line);
            text.push_str("\r\n");
        }
        let keys = screen.style.dim(shorten(KEYS, columns));
        text.push_str(&format!("\u{1b}[{};1H{keys}", height + FRAME_ROWS));
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}

/// Returns the first line to show, so that the selected lines are on a screen of `height` rows that began with `top`. Of
/// selected lines that do not fit, the first ones are shown.
fn visible_top(top: usize, selected: &std::ops::Range<usize>, height: usize) -> usize {
    let lowest = selected.end.saturating_sub(height);
    top.max(lowest).min(selected.start)
}

/// Returns the number of rows for the text.
fn page_rows() -> usize {
    let rows = crossterm::terminal::size().map_or(24, |(_, rows)| usize::from(rows));
    rows.saturating_sub(FRAME_ROWS).max(1)
}

/// Returns the lines of a text.
fn split_lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// A guard that covers the terminal with an empty screen and hides the cursor. Dropping it shows what was there before.
struct CoverGuard;

impl CoverGuard {
    /// Covers the terminal.
    fn enable() -> io::Result<Self> {
        IS_OPEN.store(true, Ordering::Relaxed);
        let mut stdout = io::stdout().lock();
        stdout.write_all(b"\x1b[?1049h\x1b[?25l")?;
        stdout.flush()?;
        Ok(Self)
    }
}

impl Drop for CoverGuard {
    fn drop(&mut self) {
        let leave = leave_sequence();
        let mut stdout = io::stdout().lock();
        // A terminal that was closed cannot be restored.
        let _ = write!(stdout, "\u{1b}[?25h{leave}").and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    const SCREEN: Screen =
        Screen { style: Style::Plain, columns: 60, audience: Audience::Person, cursor: CursorMode::Free };

    fn pane() -> OutlinePane {
        let item = |text: &str, refs: &[u64]| OutlineItem {
            text: text.to_owned(),
            refs: refs.to_vec(),
            ..OutlineItem::default()
        };
        let section = |heading: &str, items: Vec<OutlineItem>| OutlineSection {
            heading: heading.to_owned(),
            items,
            is_open: true,
        };
        let sections = vec![
            section("Objective", vec![item("Fix the importer.", &[1, 6])]),
            section("Commands", vec![item("make", &[]), item("a \u{1b}[2J b", &[])]),
        ];
        OutlinePane::new("Title".to_owned(), sections)
    }

    /// Presses keys and returns the last outcome: `d`/`u` move, `r`/`l` are the arrows to the right and left, `\r` is Enter.
    fn press(pane: &mut OutlinePane, keys: &str) -> Option<PaneOutcome> {
        let mut outcome = None;
        for key in keys.chars() {
            let code = match key {
                'd' => KeyCode::Down,
                'u' => KeyCode::Up,
                'r' => KeyCode::Right,
                'l' => KeyCode::Left,
                '\r' => KeyCode::Enter,
                other => KeyCode::Char(other),
            };
            outcome = pane.handle_key(KeyEvent::from(code), 10);
        }
        outcome
    }

    fn text(pane: &OutlinePane) -> String {
        pane.lines(&SCREEN).0.join("\n")
    }

    #[test]
    fn sections_open_and_close_and_the_selection_stays_on_a_shown_row() {
        let mut pane = pane();
        assert_eq!(
            text(&pane),
            "› ▾ Objective (1)\n    • Fix the importer. #1 #6\n  ▾ Commands (2)\n    • make\n    • a b"
        );
        press(&mut pane, "\r");
        assert!(text(&pane).starts_with("› ▸ Objective (1)\n  ▾ Commands (2)"), "{}", text(&pane));
        press(&mut pane, "ddddddl");
        assert_eq!(
            text(&pane),
            "  ▸ Objective (1)\n› ▸ Commands (2)",
            "the heading of a closed item is selected"
        );
        press(&mut pane, "o");
        assert!(text(&pane).contains("› ▾ Commands (2)"));
        press(&mut pane, "c");
        assert_eq!(text(&pane), "  ▸ Objective (1)\n› ▸ Commands (2)");
    }

    #[test]
    fn an_item_opens_the_places_it_refers_to() {
        let mut pane = pane();
        assert_eq!(press(&mut pane, "d\r"), Some(PaneOutcome::NeedsPlaces { section: 0, item: 0 }));
        pane.sections[0].items[0].places = Some(vec!["#1 user: fix".to_owned(), "#6 user: test".to_owned()]);
        assert!(text(&pane).contains("\n        #1 user: fix\n        #6 user: test\n"), "{}", text(&pane));
        assert_eq!(press(&mut pane, "l"), None);
        assert!(!text(&pane).contains("user: fix"));
        assert_eq!(press(&mut pane, "r"), None, "the places are known");
        assert!(text(&pane).contains("user: fix"));
        assert_eq!(press(&mut pane, "ddr"), None, "an item without places opens nothing");
        assert_eq!(press(&mut pane, "q"), Some(PaneOutcome::Closed));
    }

    #[test]
    fn the_selected_lines_are_on_the_screen() {
        for (top, selected, height, expected) in
            [(0, 0..1, 5, 0), (0, 7..9, 5, 4), (6, 2..3, 5, 2), (3, 4..5, 5, 3), (0, 3..20, 5, 3)]
        {
            assert_eq!(visible_top(top, &selected, height), expected, "{top} {selected:?}");
        }
    }
}
