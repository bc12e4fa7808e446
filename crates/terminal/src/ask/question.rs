//! Questions: a row of labelled keys. A key only marks an answer and Enter confirms it; Enter alone chooses nothing.
//! Letters of a word, whether it was begun before the question stood there or in it, are a line typed ahead, and a paste
//! is nothing: neither answers. What an answer means is up to the caller.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::ask::text_input::read_plain_line;
use crate::keyboard::BracketedPasteGuard;
use crate::screen::{Audience, CursorMode, Screen};
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, width};
use crate::run_view::type_ahead::TypeAheadBuffer;

/// One possible answer.
#[derive(Debug, Clone, Copy)]
pub struct KeyChoice<T> {
    /// The key that marks it.
    pub key: char,
    /// The label on the screen.
    pub label: &'static str,
    /// The answer.
    pub answer: T,
}

/// Asks, and returns the answer; `None` when the person leaves the question with Esc or Ctrl-C. `later` says what
/// that means.
pub fn ask<T: Copy>(screen: &Screen, choices: &[KeyChoice<T>], later: &str) -> io::Result<Option<T>> {
    run_question(screen, choices, later, None)
}

/// Asks as [`ask`] does, where a person may be typing: what they typed before, and go on to type, goes to `typed`.
pub fn ask_while_typing<T: Copy>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    later: &str,
    typed: &mut TypeAheadBuffer,
) -> io::Result<Option<T>> {
    run_question(screen, choices, later, Some(typed))
}

fn run_question<T: Copy>(
    screen: &Screen,
    choices: &[KeyChoice<T>],
    later: &str,
    mut typed: Option<&mut TypeAheadBuffer>,
) -> io::Result<Option<T>> {
    if screen.cursor == CursorMode::Fixed {
        return ask_on_plain_terminal(screen, choices, later, typed);
    }
    let _raw = RawModeGuard::enable(screen)?;
    while event::poll(Duration::ZERO)? {
        let event = event::read()?;
        if let Some(typed) = &mut typed {
            typed.handle_event(event);
        }
    }
    let mut panel = QuestionPanel { choices, highlight: ChoiceHighlight::None, note: "", type_ahead: typed };
    let mut drawn = draw(screen, &panel, later, 0)?;
    loop {
        match panel.handle_event(event::read()?) {
            // Only the answer stays: the choices would look like a question that still stands.
            QuestionAction::Answer(at) => {
                overwrite_rows(&[screen.style.dim(format!("→ {}", choices[at].label))], drawn)?;
                write_newline()?;
                return Ok(Some(choices[at].answer));
            }
            QuestionAction::Cancel => {
                overwrite_rows(&[screen.style.dim(format!("→ {later}"))], drawn)?;
                write_newline()?;
                return Ok(None);
            }
            QuestionAction::Redraw => drawn = draw(screen, &panel, later, drawn)?,
        }
    }
}

/// Asks where nothing can be drawn over: the choices are printed, and a line that is a key or the word beside it answers.
/// Any other line, and every one that was written before the question stood there, is a message for later.
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
            Some(at) => return Ok(Some(choices[at].answer)),
            None if line.trim().is_empty() => return Ok(None),
            None => match typed.as_mut().filter(|_| line.trim().chars().nth(1).is_some()) {
                Some(typed) if screen.audience == Audience::Person => {
                    screen.print_line(format!("Kept for your next message: {}", sanitize_line(&line)))?;
                    typed.drafts.push(line);
                }
                Some(_) | None => screen.print_line("That is none of the keys.")?,
            },
        }
    }
}

/// Returns the choice that a line names: by its key, by the words beside it, or by the first of them where no other begins
/// so.
fn find_choice_by_text<T>(choices: &[KeyChoice<T>], line: &str) -> Option<usize> {
    let mut letters = line.chars();
    if let (Some(key), None) = (letters.next(), letters.next()) {
        return find_choice_by_key(choices, key);
    }
    let whole = choices.iter().position(|choice| choice.label.eq_ignore_ascii_case(line));
    whole.or_else(|| {
        let begins = |choice: &KeyChoice<T>| {
            choice.label.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(line))
        };
        let mut found = (0..choices.len()).filter(|at| begins(&choices[*at]));
        found.next().filter(|_| found.next().is_none())
    })
}

/// Returns the choice a key stands for: the very key, else the same letter in the other case.
fn find_choice_by_key<T>(choices: &[KeyChoice<T>], key: char) -> Option<usize> {
    let same = choices.iter().position(|choice| choice.key == key);
    same.or_else(|| choices.iter().position(|choice| choice.key.eq_ignore_ascii_case(&key)))
}

/// The effect of an input event.
#[derive(Debug, PartialEq, Eq)]
enum QuestionAction {
    Answer(usize),
    Cancel,
    Redraw,
}

/// Which choice Enter confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChoiceHighlight {
    None,
    ByArrowKey(usize),
    /// It was marked by its key, which may yet turn out to be the first letter of a word.
    ByLetter(usize, char),
}

impl ChoiceHighlight {
    const fn index(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::ByArrowKey(at) | Self::ByLetter(at, _) => Some(at),
        }
    }
}

/// A question that stands.
struct QuestionPanel<'a, T> {
    choices: &'a [KeyChoice<T>],
    highlight: ChoiceHighlight,
    /// A note for the person about their last input.
    note: &'static str,
    /// Where a line goes that is no answer; `None` where nobody could send it.
    type_ahead: Option<&'a mut TypeAheadBuffer>,
}

impl<T> QuestionPanel<'_, T> {
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

    fn handle_key(&mut self, key: KeyEvent) -> QuestionAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_plain = !control && !key.modifiers.contains(KeyModifiers::ALT);
        match (key.code, self.highlight) {
            (KeyCode::Esc, _) => return QuestionAction::Cancel,
            (KeyCode::Char('c' | 'd'), _) if control => return QuestionAction::Cancel,
            _ if self.is_typing() => self.extend_typed_line(key),
            (KeyCode::Char(c), mark) if is_plain => self.handle_letter(c, mark),
            (KeyCode::Enter, mark) => return mark.index().map_or(QuestionAction::Redraw, QuestionAction::Answer),
            (KeyCode::Backspace, _) => self.highlight = ChoiceHighlight::None,
            (KeyCode::Right | KeyCode::Down | KeyCode::Tab, mark) => {
                let last = self.choices.len().saturating_sub(1);
                self.highlight = ChoiceHighlight::ByArrowKey(mark.index().map_or(0, |at| if at == last { 0 } else { at + 1 }));
            }
            (KeyCode::Left | KeyCode::Up | KeyCode::BackTab, mark) => {
                let last = self.choices.len().saturating_sub(1);
                self.highlight = ChoiceHighlight::ByArrowKey(mark.index().map_or(last, |at| at.checked_sub(1).unwrap_or(last)));
            }
            _ => {}
        }
        QuestionAction::Redraw
    }

    fn is_typing(&self) -> bool {
        self.type_ahead.as_ref().is_some_and(|typed| !typed.partial_line.is_empty())
    }

    /// Takes a key of a line that is being typed; one that is ended here is looked at again before it is sent.
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

    /// One letter marks a choice; where a message can be typed, a second one says that a word is being typed.
    fn handle_letter(&mut self, c: char, mark: ChoiceHighlight) {
        let found = find_choice_by_key(self.choices, c);
        self.highlight = match (&mut self.type_ahead, found, mark) {
            (_, Some(at), ChoiceHighlight::ByLetter(before, _)) if at == before => mark,
            (Some(typed), _, ChoiceHighlight::ByLetter(_, first)) => {
                typed.partial_line.extend([first, c]);
                ChoiceHighlight::None
            }
            (_, Some(at), _) => ChoiceHighlight::ByLetter(at, c),
            (_, None, _) if c == ' ' => mark,
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

    fn render_rows(&self, screen: &Screen, later: &str) -> Vec<String> {
        let style = screen.style;
        let chosen = self.highlight.index();
        let mut rows = choice_rows(screen, self.choices, chosen, later);
        let columns = screen.columns.saturating_sub(1);
        let line = self.type_ahead.as_ref().map(|typed| sanitize_line(&typed.partial_line)).filter(|_| self.is_typing());
        let hint = match (chosen, &line) {
            (_, Some(_)) => "You are typing a message: Enter keeps it for later, then choose.".to_owned(),
            (Some(at), None) => format!("Enter confirms: {}", self.choices[at].label),
            (None, None) => "A key marks an answer, Enter confirms it.".to_owned(),
        };
        rows.extend(line.map(|line| shorten(&format!("> {line}"), columns).into_owned()));
        let hint = if self.note.is_empty() { hint } else { format!("{} – {hint}", self.note) };
        rows.push(style.dim(format!(" {}", shorten(&hint, columns.saturating_sub(1)))));
        rows
    }
}

/// Draws the question over the `drawn` rows of the last time; returns how many rows there are.
fn draw<T>(screen: &Screen, panel: &QuestionPanel<'_, T>, later: &str, drawn: usize) -> io::Result<usize> {
    let rows = panel.render_rows(screen, later);
    overwrite_rows(&rows, drawn)?;
    Ok(rows.len())
}

/// Puts rows where the `drawn` ones stand.
fn overwrite_rows(rows: &[String], drawn: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if drawn > 1 {
        write!(stdout, "\u{1b}[{}A", drawn - 1)?;
    }
    write!(stdout, "\r\u{1b}[J{}", rows.join("\r\n"))?;
    stdout.flush()
}

fn choice_rows<T>(screen: &Screen, choices: &[KeyChoice<T>], chosen: Option<usize>, later: &str) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for (at, choice) in choices.iter().enumerate() {
        let text = format!("[{}] {}", choice.key, choice.label);
        cells.push(match Some(at) == chosen {
            true => format!("▸{}", screen.style.inverse(text)),
            false => format!(" {text}"),
        });
    }
    cells.push(screen.style.dim(format!(" [Esc] {later}")));
    let mut rows: Vec<String> = vec![String::new()];
    for cell in cells {
        match rows.last_mut() {
            Some(row) if row.is_empty() => row.push_str(&cell),
            // One column stays free: a full line would wrap on some terminals.
            Some(row) if width(row) + 1 + width(&cell) < screen.columns => {
                row.push(' ');
                row.push_str(&cell);
            }
            Some(_) | None => rows.push(cell),
        }
    }
    rows
}

fn write_newline() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"\r\n")?;
    stdout.flush()
}

/// Keys are read one by one, and pastes whole, as long as this lives.
struct RawModeGuard {
    _bracketed_paste: Option<BracketedPasteGuard>,
}

impl RawModeGuard {
    fn enable(screen: &Screen) -> io::Result<Self> {
        let pastes = BracketedPasteGuard::enable(screen)?;
        enable_raw_mode()?;
        Ok(Self { _bracketed_paste: pastes })
    }
}

impl Drop for RawModeGuard {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that went away.
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::style::Style;

    const CHOICES: [KeyChoice<u8>; 3] = [
        KeyChoice { key: 'a', label: "Accept", answer: 1 },
        KeyChoice { key: 'e', label: "Edit", answer: 2 },
        KeyChoice { key: 'd', label: "Decline", answer: 3 },
    ];

    /// Presses keys in a question; `\t` moves, `\r` is Enter, `\x1b` is Esc.
    fn press_keys(before: &str, keys: &str) -> (QuestionAction, TypeAheadBuffer) {
        let mut typed = TypeAheadBuffer { partial_line: before.to_owned(), ..TypeAheadBuffer::default() };
        let mut panel = QuestionPanel { choices: &CHOICES, highlight: ChoiceHighlight::None, note: "", type_ahead: Some(&mut typed) };
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

    #[test]
    fn g5_a_key_marks_and_only_enter_confirms() {
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

    #[test]
    fn what_is_typed_as_a_line_answers_nothing_and_is_kept() {
        for (before, keys, line) in [
            ("any", "way please\r", "anyway please"),
            ("anyw", "a\r", "anywa"),
            ("", "add it\r", "add it"),
            ("", "yea\r", "yea"),
        ] {
            let (pressed, typed) = press_keys(before, keys);
            assert_eq!(pressed, QuestionAction::Redraw, "{before:?} {keys:?}");
            assert_eq!(typed.drafts, [line], "{before:?} {keys:?}");
            assert!(typed.queued_lines.is_empty(), "it would be sent by itself");
        }
        let (pressed, typed) = press_keys("half", " a\ra\r");
        assert_eq!((pressed, typed.drafts.len()), (QuestionAction::Answer(0), 1));
    }

    #[test]
    fn where_no_message_can_be_sent_other_letters_are_no_answer() {
        let mut panel = QuestionPanel { choices: &CHOICES, highlight: ChoiceHighlight::None, note: "", type_ahead: None };
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
    fn the_first_word_of_a_label_names_it_where_no_other_begins_so() {
        let choice = |key, label| KeyChoice { key, label, answer: key };
        let choices = [choice('a', "Always here"), choice('p', "Always there"), choice('s', "Stay here")];
        assert_eq!((find_choice_by_text(&choices, "stay"), find_choice_by_text(&choices, "always")), (Some(2), None));
        assert_eq!(find_choice_by_text(&choices, "always THERE"), Some(1));
    }

    #[test]
    fn of_two_keys_that_are_one_letter_each_case_has_its_own() {
        let choice = |key| KeyChoice { key, label: "", answer: key };
        let both = [choice('D'), choice('d')];
        assert_eq!((find_choice_by_key(&both, 'D'), find_choice_by_key(&both, 'd')), (Some(0), Some(1)));
        assert_eq!((find_choice_by_key(&both[..1], 'd'), find_choice_by_key(&both[1..], 'D')), (Some(0), Some(0)));
    }

    #[test]
    fn a_paste_answers_nothing() {
        let mut typed = TypeAheadBuffer::default();
        let mut panel = QuestionPanel { choices: &CHOICES, highlight: ChoiceHighlight::None, note: "", type_ahead: Some(&mut typed) };
        panel.handle_event(Event::Key(KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE)));
        assert_eq!(panel.handle_event(Event::Paste("a\r".to_owned())), QuestionAction::Redraw);
        assert_eq!((panel.highlight, panel.note), (ChoiceHighlight::None, "paste ignored"));
        let enter = Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert_eq!(panel.handle_event(enter), QuestionAction::Redraw);
        assert_eq!(typed, TypeAheadBuffer::default());
    }

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
