//! Questions with labelled keys.
//!
//! A key only highlights an answer, and Enter confirms it. Enter alone chooses nothing, so a key that was pressed by
//! accident never decides anything (invariant G5).
//!
//! Several letters in a row are treated as a message that the user is typing ahead, also if its first letter was typed
//! before the question appeared. Neither such a message nor pasted text answers the question.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::ask::text_input::read_plain_line;
use crate::keyboard::BracketedPasteGuard;
use crate::run_view::type_ahead::TypeAheadBuffer;
use crate::screen::{Audience, CursorMode, Screen};
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, width};

/// One possible answer.
#[derive(Debug, Clone, Copy)]
pub struct KeyChoice<T> {
    /// The key that highlights the answer.
    pub key: char,
    /// The label on the screen.
    pub label: &'static str,
    /// The answer.
    pub answer: T,
}

/// Asks a question and returns the answer, or `None` if the user leaves the question with Esc, Ctrl-C or Ctrl-D.
/// `later` is the label for leaving.
///
/// Input that was typed before the question appeared is discarded. Blocks the thread until the user answers.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn ask<T: Copy>(screen: &Screen, choices: &[KeyChoice<T>], later: &str) -> io::Result<Option<T>> {
    run_question(screen, choices, later, None)
}

/// Asks like [`ask`] while the user may be typing a message. Lines that the user types before the question appears, or
/// while it is open, go to `typed`.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub fn ask_while_typing<T: Copy>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    later: &str,
    typed: &mut TypeAheadBuffer,
) -> io::Result<Option<T>> {
    run_question(screen, choices, later, Some(typed))
}

/// Asks a question. Without `typed`, letters that are not a key of the question are ignored.
fn run_question<T: Copy>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    later: &str,
    mut typed: Option<&mut TypeAheadBuffer>,
) -> io::Result<Option<T>> {
    if screen.cursor == CursorMode::Fixed {
        return ask_on_plain_terminal(screen, choices, later, typed);
    }
    let _raw_mode = RawModeGuard::enable(screen)?;
    // Keys that were pressed before the question appeared do not answer it.
    while event::poll(Duration::ZERO)? {
        let event = event::read()?;
        if let Some(typed) = &mut typed {
            typed.handle_event(event);
        }
    }
    let mut panel = QuestionPanel { choices, highlight: ChoiceHighlight::None, note: "", type_ahead: typed };
    let mut row_count = draw(screen, &panel, later, 0)?;
    loop {
        match panel.handle_event(event::read()?) {
            // The answer replaces the choices, which would look like an open question.
            QuestionAction::Answer(index) => {
                overwrite_rows(&[screen.style.dim(format!("→ {}", choices[index].label))], row_count)?;
                write_newline()?;
                return Ok(Some(choices[index].answer));
            }
            QuestionAction::Cancel => {
                overwrite_rows(&[screen.style.dim(format!("→ {later}"))], row_count)?;
                write_newline()?;
                return Ok(None);
            }
            QuestionAction::Redraw => row_count = draw(screen, &panel, later, row_count)?,
        }
    }
}

/// Asks on a terminal whose rows cannot be redrawn: the choices are printed, and a line answers if it is a key or a
/// label. Any other line of more than one letter is stored as a draft of the next message. The end of the input leaves
/// the question.
fn ask_on_plain_terminal<T: Copy>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    later: &str,
    mut typed: Option<&mut TypeAheadBuffer>,
) -> io::Result<Option<T>> {
    if screen.audience == Audience::Person {
        typed.as_deref_mut().unwrap_or(&mut TypeAheadBuffer::default()).read_keys()?;
    }
    loop {
        for row in choice_rows(screen, choices, None, later) {
            screen.print_line(row)?;
        }
        let Some(line) = read_plain_line(screen, "Choose a key, Enter for none")? else { return Ok(None) };
        match find_choice_by_text(choices, line.trim()) {
            Some(index) => return Ok(Some(choices[index].answer)),
            None if line.trim().is_empty() => return Ok(None),
            None => match typed.as_mut().filter(|_| line.trim().chars().nth(1).is_some()) {
                Some(typed) if screen.audience == Audience::Person => {
                    screen.print_line(format!("Kept for your next message: {}", sanitize_line(&line)))?;
                    typed.drafts.push(line);
                }
                Some(_) | None => screen.print_line("There is no such key.")?,
            },
        }
    }
}

/// Returns the index of the choice that a line names: by its key, its label, or the first word of its label if that is unique.
fn find_choice_by_text<T>(choices: &[KeyChoice<T>], line: &str) -> Option<usize> {
    let mut letters = line.chars();
    if let (Some(key), None) = (letters.next(), letters.next()) {
        return find_choice_by_key(choices, key);
    }
    let by_label = choices.iter().position(|choice| choice.label.eq_ignore_ascii_case(line));
    by_label.or_else(|| {
        let has_first_word = |choice: &KeyChoice<T>| {
            choice.label.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(line))
        };
        let mut matches = (0..choices.len()).filter(|index| has_first_word(&choices[*index]));
        matches.next().filter(|_| matches.next().is_none())
    })
}

/// Returns the index of the choice with this key, else of the choice with the same letter in the other case.
fn find_choice_by_key<T>(choices: &[KeyChoice<T>], key: char) -> Option<usize> {
    let exact = choices.iter().position(|choice| choice.key == key);
    exact.or_else(|| choices.iter().position(|choice| choice.key.eq_ignore_ascii_case(&key)))
}

/// The effect of an input event on an open question.
#[derive(Debug, PartialEq, Eq)]
enum QuestionAction {
    /// Ends the question with the choice at this index.
    Answer(usize),
    /// Ends the question without an answer.
    Cancel,
    /// Draws the question again; it stays open.
    Redraw,
}

/// The highlighted choice, which Enter confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChoiceHighlight {
    /// No choice is highlighted, so Enter does nothing.
    None,
    /// The choice was highlighted with an arrow key or Tab.
    ByArrowKey(usize),
    /// The choice was highlighted with its key, which may also be the first letter of a message.
    ByLetter(usize, char),
}

impl ChoiceHighlight {
    /// Returns the index of the highlighted choice.
    const fn index(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::ByArrowKey(index) | Self::ByLetter(index, _) => Some(index),
        }
    }
}

/// The state of an open question.
struct QuestionPanel<'a, T> {
    /// The possible answers, in the order in which they are shown.
    choices: &'a [KeyChoice<T>],
    /// The choice that Enter confirms.
    highlight: ChoiceHighlight,
    /// A note about the user's last input, such as `paste ignored`; empty if there is none.
    note: &'static str,
    /// The buffer for messages that the user types while the question is open; `None` if messages cannot be sent here.
    type_ahead: Option<&'a mut TypeAheadBuffer>,
}

impl<T> QuestionPanel<'_, T> {
    /// Handles an input event and returns its effect.
    fn handle_event(&mut self, event: Event) -> QuestionAction {
        match event {
            Event::Paste(_) => {
                self.highlight = ChoiceHighlight::None;
                self.note = "paste ignored";
                QuestionAction::Redraw
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.note = "";
                self.handle_key(key)
            }
            _ => QuestionAction::Redraw,
        }
    }

    /// Handles a key and returns its effect.
    fn handle_key(&mut self, key: KeyEvent) -> QuestionAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_plain = !control && !key.modifiers.contains(KeyModifiers::ALT);
        match (key.code, self.highlight) {
            (KeyCode::Esc, _) => return QuestionAction::Cancel,
            (KeyCode::Char('c' | 'd'), _) if control => return QuestionAction::Cancel,
            _ if self.is_typing() => self.extend_typed_line(key),
            (KeyCode::Char(c), highlight) if is_plain => self.handle_letter(c, highlight),
            (KeyCode::Enter, highlight) => {
                return highlight.index().map_or(QuestionAction::Redraw, QuestionAction::Answer);
            }
            (KeyCode::Backspace, _) => self.highlight = ChoiceHighlight::None,
            (KeyCode::Right | KeyCode::Down | KeyCode::Tab, highlight) => {
                let last = self.choices.len().saturating_sub(1);
                let next = highlight.index().map_or(0, |index| if index == last { 0 } else { index + 1 });
                self.highlight = ChoiceHighlight::ByArrowKey(next);
            }
            (KeyCode::Left | KeyCode::Up | KeyCode::BackTab, highlight) => {
                let last = self.choices.len().saturating_sub(1);
                let previous = highlight.index().map_or(last, |index| index.checked_sub(1).unwrap_or(last));
                self.highlight = ChoiceHighlight::ByArrowKey(previous);
            }
            _ => {}
        }
        QuestionAction::Redraw
    }

    /// Returns whether the user has begun to type a message.
    fn is_typing(&self) -> bool {
        self.type_ahead.as_ref().is_some_and(|typed| !typed.partial_line.is_empty())
    }

    /// Adds a key to the message that is being typed. Enter ends the message and stores it as a draft, so that the user
    /// sees it again before it is sent.
    fn extend_typed_line(&mut self, key: KeyEvent) {
        let Some(typed) = &mut self.type_ahead else { return };
        match key.code {
            KeyCode::Enter if !key.modifiers.contains(KeyModifiers::ALT) => {
                typed.drafts.push(std::mem::take(&mut typed.partial_line));
            }
            _ => {
                typed.handle_event(Event::Key(key));
            }
        }
        if typed.partial_line.trim().is_empty() {
            typed.partial_line.clear();
        }
    }

    /// Handles a letter. The first letter highlights the choice with that key. If messages can be typed, a second
    /// letter starts a message that begins with both letters.
    fn handle_letter(&mut self, c: char, highlight: ChoiceHighlight) {
        let choice = find_choice_by_key(self.choices, c);
        self.highlight = match (&mut self.type_ahead, choice, highlight) {
            (_, Some(index), ChoiceHighlight::ByLetter(previous, _)) if index == previous => highlight,
            (Some(typed), _, ChoiceHighlight::ByLetter(_, first)) => {
                typed.partial_line.extend([first, c]);
                ChoiceHighlight::None
            }
            (_, Some(index), _) => ChoiceHighlight::ByLetter(index, c),
            (_, None, _) if c == ' ' => highlight,
            (Some(typed), None, _) => {
                typed.partial_line.push(c);
                ChoiceHighlight::None
            }
            (None, None, _) => {
                self.note = "no such answer";
                ChoiceHighlight::None
            }
        };
    }

    /// Returns the rows of the question: the choices, the message that is being typed, and a hint.
    fn render_rows(&self, screen: &Screen, later: &str) -> Vec<String> {
        let style = screen.style;
        let highlighted = self.highlight.index();
        let mut rows = choice_rows(screen, self.choices, highlighted, later);
        let columns = screen.columns.saturating_sub(1);
        let line = self
            .type_ahead
            .as_ref()
            .map(|typed| sanitize_line(&typed.partial_line))
            .filter(|_| self.is_typing());
        let hint = match (highlighted, &line) {
            (_, Some(_)) => "You are typing a message: Enter keeps it for later, then choose.".to_owned(),
            (Some(index), None) => format!("Enter confirms: {}", self.choices[index].label),
            (None, None) => "A key selects an answer, Enter confirms it.".to_owned(),
        };
        rows.extend(line.map(|line| shorten(&format!("> {line}"), columns).into_owned()));
        let hint = if self.note.is_empty() { hint } else { format!("{} – {hint}", self.note) };
        rows.push(style.dim(format!(" {}", shorten(&hint, columns.saturating_sub(1)))));
        rows
    }
}

/// Draws the question over its `previous_count` rows on the screen, and returns its new number of rows.
fn draw<T>(
    screen: &Screen,
    panel: &QuestionPanel<'_, T>,
    later: &str,
    previous_count: usize,
) -> io::Result<usize> {
    let rows = panel.render_rows(screen, later);
    overwrite_rows(&rows, previous_count)?;
    Ok(rows.len())
}

/// Replaces the last `previous_count` rows on the screen. The cursor stays at the end of the last row.
fn overwrite_rows(rows: &[String], previous_count: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if previous_count > 1 {
        write!(stdout, "\u{1b}[{}A", previous_count - 1)?;
    }
    write!(stdout, "\r\u{1b}[J{}", rows.join("\r\n"))?;
    stdout.flush()
}

/// Returns the choices as cells such as `[a] Accept`, laid out in as few rows as fit the screen.
fn choice_rows<T>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    highlighted: Option<usize>,
    later: &str,
) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for (index, choice) in choices.iter().enumerate() {
        let text = format!("[{}] {}", choice.key, choice.label);
        cells.push(match Some(index) == highlighted {
            true => format!("▸{}", screen.style.inverse(text)),
            false => format!(" {text}"),
        });
    }
    cells.push(screen.style.dim(format!(" [Esc] {later}")));
    let mut rows: Vec<String> = vec![String::new()];
    for cell in cells {
        match rows.last_mut() {
            Some(row) if row.is_empty() => row.push_str(&cell),
            // One column stays free, because some terminals wrap a full line.
            Some(row) if width(row) + 1 + width(&cell) < screen.columns => {
                row.push(' ');
                row.push_str(&cell);
            }
            Some(_) | None => rows.push(cell),
        }
    }
    rows
}

/// Writes a line break. Raw mode needs an explicit carriage return.
fn write_newline() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"\r\n")?;
    stdout.flush()
}

/// A guard that sets raw mode, in which the terminal delivers each key at once, and bracketed paste, in which it
/// delivers pasted text as one event. Dropping it restores both.
pub(super) struct RawModeGuard {
    /// Disables bracketed paste when it is dropped. `None` if the terminal cannot be controlled.
    _bracketed_paste: Option<BracketedPasteGuard>,
}

impl RawModeGuard {
    /// Enables both modes.
    pub(super) fn enable(screen: &Screen) -> io::Result<Self> {
        let bracketed_paste = BracketedPasteGuard::enable(screen)?;
        enable_raw_mode()?;
        Ok(Self { _bracketed_paste: bracketed_paste })
    }
}

impl Drop for RawModeGuard {
    fn drop(&mut self) {
        // A terminal that was closed cannot be restored.
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::style::Style;

    /// Three choices with distinct keys.
    const CHOICES: [KeyChoice<u8>; 3] = [
        KeyChoice { key: 'a', label: "Accept", answer: 1 },
        KeyChoice { key: 'e', label: "Edit", answer: 2 },
        KeyChoice { key: 'd', label: "Decline", answer: 3 },
    ];

    /// Presses keys in a question: `\t` is Tab, `\r` is Enter, `\x1b` is Esc. `partial_line` was typed before the question.
    fn press_keys(partial_line: &str, keys: &str) -> (QuestionAction, TypeAheadBuffer) {
        let mut typed =
            TypeAheadBuffer { partial_line: partial_line.to_owned(), ..TypeAheadBuffer::default() };
        let mut panel = open_panel(Some(&mut typed));
        let mut last = QuestionAction::Redraw;
        for c in keys.chars() {
            let code = match c {
                '\r' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            last = panel.handle_event(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            if last != QuestionAction::Redraw {
                break;
            }
        }
        (last, typed)
    }

    /// Returns an open question without a highlighted choice.
    fn open_panel(type_ahead: Option<&mut TypeAheadBuffer>) -> QuestionPanel<'_, u8> {
        QuestionPanel { choices: &CHOICES, highlight: ChoiceHighlight::None, note: "", type_ahead }
    }

    #[test]
    fn g5_a_key_highlights_an_answer_and_only_enter_confirms_it() {
        for (keys, expected) in [
            ("\r\r ", QuestionAction::Redraw),
            ("a", QuestionAction::Redraw),
            ("A\r", QuestionAction::Answer(0)),
            ("aa\r", QuestionAction::Answer(0)),
            ("\t\r", QuestionAction::Answer(0)),
            ("\t\t\t\t\r", QuestionAction::Answer(0)),
            ("\td\r", QuestionAction::Answer(2)),
            ("a\t\r", QuestionAction::Answer(1)),
            ("a\x1b", QuestionAction::Cancel),
        ] {
            assert_eq!(press_keys("", keys).0, expected, "{keys:?}");
        }
    }

    /// Typed text must become a draft even if it contains keys of the question, and must not be queued, because a
    /// queued line is sent without being shown again.
    #[test]
    fn a_typed_line_answers_nothing_and_is_kept() {
        for (before, keys, line) in [
            ("any", "way please\r", "anyway please"),
            ("anyw", "a\r", "anywa"),
            ("", "add it\r", "add it"),
            ("", "yea\r", "yea"),
        ] {
            let (pressed, typed) = press_keys(before, keys);
            assert_eq!(pressed, QuestionAction::Redraw, "{before:?} {keys:?}");
            assert_eq!(typed.drafts, [line], "{before:?} {keys:?}");
            assert!(typed.queued_lines.is_empty(), "a queued line is sent without being seen");
        }
        let (pressed, typed) = press_keys("half", " a\ra\r");
        assert_eq!((pressed, typed.drafts.len()), (QuestionAction::Answer(0), 1));
    }

    #[test]
    fn without_a_message_to_type_other_letters_are_no_answer() {
        let mut panel = open_panel(None);
        let mut press = |c| {
            panel.handle_event(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
            (panel.highlight, panel.note)
        };
        assert_eq!(press('x'), (ChoiceHighlight::None, "no such answer"));
        assert_eq!(press('a'), (ChoiceHighlight::ByLetter(0, 'a'), ""));
        assert_eq!(press('e'), (ChoiceHighlight::ByLetter(1, 'e'), ""));
    }

    #[test]
    fn g5_a_line_answers_only_when_it_is_a_key_or_a_whole_label() {
        for (line, expected) in [
            ("a", Some(0)),
            ("A", Some(0)),
            ("decline", Some(2)),
            ("", None),
            ("accept the risk", None),
            ("ae", None),
            ("x", None),
        ] {
            assert_eq!(find_choice_by_text(&CHOICES, line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_first_word_of_a_label_names_a_choice_if_it_is_unique() {
        let choice = |key, label| KeyChoice { key, label, answer: key };
        let choices = [choice('a', "Always here"), choice('p', "Always there"), choice('s', "Stay here")];
        assert_eq!(
            (find_choice_by_text(&choices, "stay"), find_choice_by_text(&choices, "always")),
            (Some(2), None)
        );
        assert_eq!(find_choice_by_text(&choices, "always THERE"), Some(1));
    }

    /// The review uses `D` for Decline and `d` for the diff.
    #[test]
    fn a_letter_in_both_cases_can_be_two_keys() {
        let choice = |key| KeyChoice { key, label: "", answer: key };
        let both = [choice('D'), choice('d')];
        assert_eq!((find_choice_by_key(&both, 'D'), find_choice_by_key(&both, 'd')), (Some(0), Some(1)));
        assert_eq!(
            (find_choice_by_key(&both[..1], 'd'), find_choice_by_key(&both[1..], 'D')),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn a_paste_answers_nothing() {
        let mut typed = TypeAheadBuffer::default();
        let mut panel = open_panel(Some(&mut typed));
        panel.handle_event(Event::Key(KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE)));
        assert_eq!(panel.handle_event(Event::Paste("a\r".to_owned())), QuestionAction::Redraw);
        assert_eq!((panel.highlight, panel.note), (ChoiceHighlight::None, "paste ignored"));
        let enter = Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert_eq!(panel.handle_event(enter), QuestionAction::Redraw);
        assert_eq!(typed, TypeAheadBuffer::default());
    }

    /// A row as wide as the screen would wrap on some terminals, and then redrawing would leave remnants of it.
    #[test]
    fn every_row_of_a_question_fits_the_screen() {
        for columns in [40, 80, 120] {
            let screen =
                Screen { style: Style::Color, columns, audience: Audience::Person, cursor: CursorMode::Free };
            let rows = choice_rows(&screen, &CHOICES, Some(1), "decide later");
            assert!(rows.iter().all(|row| width(row) < columns), "{rows:?}");
        }
    }
}
