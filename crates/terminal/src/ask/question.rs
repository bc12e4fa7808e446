//! Questions: a row of labelled keys. A key only marks an answer and Enter confirms it; Enter alone chooses nothing.
//! Letters of a word, whether it was begun before the question stood there or in it, are a line typed ahead, and a paste
//! is nothing: neither answers. What an answer means is up to the caller.

use std::io::{self, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::ask::line::plain_line;
use crate::keyboard::Bracketed;
use crate::screen::{Audience, Cursor, Screen};
use crate::text::safe::one_line;
use crate::text::wrap::{shorten, width};
use crate::work::typed::Typed;

/// One possible answer.
#[derive(Debug, Clone, Copy)]
pub struct Choice<T> {
    /// The key that marks it.
    pub key: char,
    /// What it does, for the screen.
    pub label: &'static str,
    /// The answer.
    pub answer: T,
}

/// Asks, and returns the answer; `None` when the person leaves the question with Esc or Ctrl-C. `later` says what
/// that means.
pub fn ask<T: Copy>(screen: &Screen, choices: &[Choice<T>], later: &str) -> io::Result<Option<T>> {
    put_question(screen, choices, later, None)
}

/// Asks as [`ask`] does, where a person may be typing: what they typed before, and go on to type, goes to `typed`.
pub fn ask_amid<T: Copy>(
    screen: &Screen,
    choices: &[Choice<T>],
    later: &str,
    typed: &mut Typed,
) -> io::Result<Option<T>> {
    put_question(screen, choices, later, Some(typed))
}

fn put_question<T: Copy>(
    screen: &Screen,
    choices: &[Choice<T>],
    later: &str,
    mut typed: Option<&mut Typed>,
) -> io::Result<Option<T>> {
    if screen.cursor == Cursor::Fixed {
        return ask_by_line(screen, choices, later, typed);
    }
    let _raw = Raw::begin(screen)?;
    while event::poll(Duration::ZERO)? {
        let event = event::read()?;
        if let Some(typed) = &mut typed {
            typed.take(event);
        }
    }
    let mut panel = Panel { choices, mark: Mark::None, note: "", typed };
    let mut drawn = draw(screen, &panel, later, 0)?;
    loop {
        match panel.take(event::read()?) {
            // Only the answer stays: the choices would look like a question that still stands.
            Pressed::Answer(at) => {
                put(&[screen.style.dim(format!("→ {}", choices[at].label))], drawn)?;
                end()?;
                return Ok(Some(choices[at].answer));
            }
            Pressed::Leave => {
                put(&[screen.style.dim(format!("→ {later}"))], drawn)?;
                end()?;
                return Ok(None);
            }
            Pressed::Other => drawn = draw(screen, &panel, later, drawn)?,
        }
    }
}

/// Asks where nothing can be drawn over: the choices are printed, and a line that is a key or the word beside it answers.
/// Any other line, and every one that was written before the question stood there, is a message for later.
fn ask_by_line<T: Copy>(
    screen: &Screen,
    choices: &[Choice<T>],
    later: &str,
    mut typed: Option<&mut Typed>,
) -> io::Result<Option<T>> {
    if screen.audience == Audience::Person {
        typed.as_deref_mut().unwrap_or(&mut Typed::default()).read()?;
    }
    loop {
        for row in rows(screen, choices, None, later) {
            screen.line(row)?;
        }
        let Some(line) = plain_line(screen, "Choose a key, Enter for none")? else { return Ok(None) };
        match named(choices, line.trim()) {
            Some(at) => return Ok(Some(choices[at].answer)),
            None if line.trim().is_empty() => return Ok(None),
            None => match typed.as_mut().filter(|_| line.trim().chars().nth(1).is_some()) {
                Some(typed) if screen.audience == Audience::Person => {
                    screen.line(format!("Kept for your next message: {}", one_line(&line)))?;
                    typed.kept.push(line);
                }
                Some(_) | None => screen.line("That is none of the keys.")?,
            },
        }
    }
}

/// Returns the choice that a line names: by its key, by the words beside it, or by the first of them where no other begins
/// so.
fn named<T>(choices: &[Choice<T>], line: &str) -> Option<usize> {
    let mut letters = line.chars();
    if let (Some(key), None) = (letters.next(), letters.next()) {
        return find(choices, key);
    }
    let whole = choices.iter().position(|choice| choice.label.eq_ignore_ascii_case(line));
    whole.or_else(|| {
        let begins = |choice: &Choice<T>| {
            choice.label.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(line))
        };
        let mut found = (0..choices.len()).filter(|at| begins(&choices[*at]));
        found.next().filter(|_| found.next().is_none())
    })
}

/// Returns the choice a key stands for: the very key, else the same letter in the other case.
fn find<T>(choices: &[Choice<T>], key: char) -> Option<usize> {
    let same = choices.iter().position(|choice| choice.key == key);
    same.or_else(|| choices.iter().position(|choice| choice.key.eq_ignore_ascii_case(&key)))
}

/// What an event does.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Answer(usize),
    Leave,
    Other,
}

/// Which choice Enter confirms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Moved(usize),
    /// It was marked by its key, which may yet turn out to be the first letter of a word.
    Key(usize, char),
}

impl Mark {
    const fn at(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Moved(at) | Self::Key(at, _) => Some(at),
        }
    }
}

/// A question that stands.
struct Panel<'a, T> {
    choices: &'a [Choice<T>],
    mark: Mark,
    /// What the person should know of what they just did.
    note: &'static str,
    /// Where a line goes that is no answer; `None` where nobody could send it.
    typed: Option<&'a mut Typed>,
}

impl<T> Panel<'_, T> {
    fn take(&mut self, event: Event) -> Pressed {
        match event {
            Event::Paste(_) => {
                self.mark = Mark::None;
                self.note = "paste ignored";
                Pressed::Other
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.note = "";
                self.press(key)
            }
            _ => Pressed::Other,
        }
    }

    fn press(&mut self, key: KeyEvent) -> Pressed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_plain = !control && !key.modifiers.contains(KeyModifiers::ALT);
        match (key.code, self.mark) {
            (KeyCode::Esc, _) => return Pressed::Leave,
            (KeyCode::Char('c' | 'd'), _) if control => return Pressed::Leave,
            _ if self.is_typing() => self.type_on(key),
            (KeyCode::Char(c), mark) if is_plain => self.letter(c, mark),
            (KeyCode::Enter, mark) => return mark.at().map_or(Pressed::Other, Pressed::Answer),
            (KeyCode::Backspace, _) => self.mark = Mark::None,
            (KeyCode::Right | KeyCode::Down | KeyCode::Tab, mark) => {
                let last = self.choices.len().saturating_sub(1);
                self.mark = Mark::Moved(mark.at().map_or(0, |at| if at == last { 0 } else { at + 1 }));
            }
            (KeyCode::Left | KeyCode::Up | KeyCode::BackTab, mark) => {
                let last = self.choices.len().saturating_sub(1);
                self.mark = Mark::Moved(mark.at().map_or(last, |at| at.checked_sub(1).unwrap_or(last)));
            }
            _ => {}
        }
        Pressed::Other
    }

    fn is_typing(&self) -> bool {
        self.typed.as_ref().is_some_and(|typed| !typed.rest.is_empty())
    }

    /// Takes a key of a line that is being typed; one that is ended here is looked at again before it is sent.
    fn type_on(&mut self, key: KeyEvent) {
        let Some(typed) = &mut self.typed else { return };
        match key.code {
            KeyCode::Enter if !key.modifiers.contains(KeyModifiers::ALT) => {
                typed.kept.push(std::mem::take(&mut typed.rest));
            }
            _ => {
                typed.take(Event::Key(key));
            }
        }
        if typed.rest.trim().is_empty() {
            typed.rest.clear();
        }
    }

    /// One letter marks a choice; where a message can be typed, a second one says that a word is being typed.
    fn letter(&mut self, c: char, mark: Mark) {
        let found = find(self.choices, c);
        self.mark = match (&mut self.typed, found, mark) {
            (_, Some(at), Mark::Key(before, _)) if at == before => mark,
            (Some(typed), _, Mark::Key(_, first)) => {
                typed.rest.extend([first, c]);
                Mark::None
            }
            (_, Some(at), _) => Mark::Key(at, c),
            (_, None, _) if c == ' ' => mark,
            (Some(typed), None, _) => {
                typed.rest.push(c);
                Mark::None
            }
            (None, None, _) => {
                self.note = "no such answer";
                Mark::None
            }
        };
    }

    fn rows(&self, screen: &Screen, later: &str) -> Vec<String> {
        let style = screen.style;
        let chosen = self.mark.at();
        let mut rows = rows(screen, self.choices, chosen, later);
        let columns = screen.columns.saturating_sub(1);
        let line = self.typed.as_ref().map(|typed| one_line(&typed.rest)).filter(|_| self.is_typing());
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
fn draw<T>(screen: &Screen, panel: &Panel<'_, T>, later: &str, drawn: usize) -> io::Result<usize> {
    let rows = panel.rows(screen, later);
    put(&rows, drawn)?;
    Ok(rows.len())
}

/// Puts rows where the `drawn` ones stand.
fn put(rows: &[String], drawn: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if drawn > 1 {
        write!(stdout, "\u{1b}[{}A", drawn - 1)?;
    }
    write!(stdout, "\r\u{1b}[J{}", rows.join("\r\n"))?;
    stdout.flush()
}

fn rows<T>(screen: &Screen, choices: &[Choice<T>], chosen: Option<usize>, later: &str) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for (at, choice) in choices.iter().enumerate() {
        let text = format!("[{}] {}", choice.key, choice.label);
        cells.push(match Some(at) == chosen {
            true => format!("▸{}", screen.style.chosen(text)),
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

fn end() -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"\r\n")?;
    stdout.flush()
}

/// Keys are read one by one, and pastes whole, as long as this lives.
struct Raw {
    _pastes: Option<Bracketed>,
}

impl Raw {
    fn begin(screen: &Screen) -> io::Result<Self> {
        let pastes = Bracketed::begin(screen)?;
        enable_raw_mode()?;
        Ok(Self { _pastes: pastes })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that went away.
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::style::Style;

    const CHOICES: [Choice<u8>; 3] = [
        Choice { key: 'a', label: "Accept", answer: 1 },
        Choice { key: 'e', label: "Edit", answer: 2 },
        Choice { key: 'd', label: "Decline", answer: 3 },
    ];

    /// Presses keys in a question; `\t` moves, `\r` is Enter, `\x1b` is Esc.
    fn press(before: &str, keys: &str) -> (Pressed, Typed) {
        let mut typed = Typed { rest: before.to_owned(), ..Typed::default() };
        let mut panel = Panel { choices: &CHOICES, mark: Mark::None, note: "", typed: Some(&mut typed) };
        let mut last = Pressed::Other;
        for c in keys.chars() {
            let code = match c {
                '\r' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            last = panel.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            if last != Pressed::Other {
                break;
            }
        }
        (last, typed)
    }

    #[test]
    fn g5_a_key_marks_and_only_enter_confirms() {
        for (keys, expected) in [
            ("\r\r ", Pressed::Other),
            ("a", Pressed::Other),
            ("A\r", Pressed::Answer(0)),
            ("aa\r", Pressed::Answer(0)),
            ("\t\r", Pressed::Answer(0)),
            ("\t\t\t\t\r", Pressed::Answer(0)),
            ("\td\r", Pressed::Answer(2)),
            ("a\t\r", Pressed::Answer(1)),
            ("a\x1b", Pressed::Leave),
        ] {
            assert_eq!(press("", keys).0, expected, "{keys:?}");
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
            let (pressed, typed) = press(before, keys);
            assert_eq!(pressed, Pressed::Other, "{before:?} {keys:?}");
            assert_eq!(typed.kept, [line], "{before:?} {keys:?}");
            assert!(typed.lines.is_empty(), "it would be sent by itself");
        }
        let (pressed, typed) = press("half", " a\ra\r");
        assert_eq!((pressed, typed.kept.len()), (Pressed::Answer(0), 1));
    }

    #[test]
    fn where_no_message_can_be_sent_other_letters_are_no_answer() {
        let mut panel = Panel { choices: &CHOICES, mark: Mark::None, note: "", typed: None };
        let mut press = |c| {
            panel.take(Event::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
            (panel.mark, panel.note)
        };
        assert_eq!(press('x'), (Mark::None, "no such answer"));
        assert_eq!(press('a'), (Mark::Key(0, 'a'), ""));
        assert_eq!(press('e'), (Mark::Key(1, 'e'), ""));
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
            assert_eq!(named(&CHOICES, line), expected, "{line:?}");
        }
    }

    #[test]
    fn the_first_word_of_a_label_names_it_where_no_other_begins_so() {
        let choice = |key, label| Choice { key, label, answer: key };
        let choices = [choice('a', "Always here"), choice('p', "Always there"), choice('s', "Stay here")];
        assert_eq!((named(&choices, "stay"), named(&choices, "always")), (Some(2), None));
        assert_eq!(named(&choices, "always THERE"), Some(1));
    }

    #[test]
    fn of_two_keys_that_are_one_letter_each_case_has_its_own() {
        let choice = |key| Choice { key, label: "", answer: key };
        let both = [choice('D'), choice('d')];
        assert_eq!((find(&both, 'D'), find(&both, 'd')), (Some(0), Some(1)));
        assert_eq!((find(&both[..1], 'd'), find(&both[1..], 'D')), (Some(0), Some(0)));
    }

    #[test]
    fn a_paste_answers_nothing() {
        let mut typed = Typed::default();
        let mut panel = Panel { choices: &CHOICES, mark: Mark::None, note: "", typed: Some(&mut typed) };
        panel.take(Event::Key(KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE)));
        assert_eq!(panel.take(Event::Paste("a\r".to_owned())), Pressed::Other);
        assert_eq!((panel.mark, panel.note), (Mark::None, "paste ignored"));
        let enter = Event::Key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        assert_eq!(panel.take(enter), Pressed::Other);
        assert_eq!(typed, Typed::default());
    }

    #[test]
    fn every_row_of_a_question_fits_the_screen() {
        for columns in [40, 80, 120] {
            let screen =
                Screen { style: Style::Color, columns, audience: Audience::Person, cursor: Cursor::Free };
            let rows = rows(&screen, &CHOICES, Some(1), "decide later");
            assert!(rows.iter().all(|row| width(row) < columns), "{rows:?}");
        }
    }
}
