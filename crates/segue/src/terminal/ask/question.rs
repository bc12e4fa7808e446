//! Questions: a row of labelled keys, and a line of text. Nothing is chosen by Enter alone before a person has moved
//! to a choice, and keys that were pressed before the question stood there do not answer it.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use reedline::{DefaultPrompt, DefaultPromptSegment, Reedline, Signal};

use crate::terminal::screen::{Cursor, Screen};
use crate::terminal::text::style::Style;
use crate::terminal::text::wrap::width;

/// One possible answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice<T> {
    /// The key that gives it.
    pub(crate) key: char,
    /// What it does, for the screen.
    pub(crate) label: &'static str,
    /// The answer.
    pub(crate) answer: T,
}

/// Asks, and returns the answer; `None` when the person leaves the question with Esc or Ctrl-C. `later` says what
/// that means.
pub(crate) fn ask<T: Copy>(screen: &Screen, choices: &[Choice<T>], later: &str) -> io::Result<Option<T>> {
    if screen.cursor == Cursor::Fixed {
        return ask_by_line(screen, choices, later);
    }
    let _raw = Raw::begin()?;
    while event::poll(Duration::ZERO)? {
        event::read()?;
    }
    let mut chosen: Option<usize> = None;
    let mut rows = draw(screen, choices, (chosen, later), 0)?;
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match pressed(key, choices, chosen) {
                // Only the answer stays: the choices would look like a question that still stands.
                Pressed::Answer(at) => {
                    put(&[screen.style.dim(format!("→ {}", choices[at].label))], rows)?;
                    end()?;
                    return Ok(Some(choices[at].answer));
                }
                Pressed::Leave => {
                    put(&[screen.style.dim(format!("→ {later}"))], rows)?;
                    end()?;
                    return Ok(None);
                }
                Pressed::Move(at) => chosen = Some(at),
                Pressed::Nothing => continue,
            },
            Event::Resize(..) => {}
            _ => continue,
        }
        rows = draw(screen, choices, (chosen, later), rows)?;
    }
}

/// Asks where nothing can be drawn over: the choices are printed, and a line that begins with a key answers.
fn ask_by_line<T: Copy>(screen: &Screen, choices: &[Choice<T>], later: &str) -> io::Result<Option<T>> {
    loop {
        for row in rows(screen, choices, None, later) {
            screen.line(row)?;
        }
        match plain_line(screen, "Choose a key, Enter for none")? {
            Some(line) if !line.trim().is_empty() => {
                let found = line.trim().chars().next().and_then(|key| find(choices, key));
                if let Some(at) = found {
                    return Ok(Some(choices[at].answer));
                }
            }
            Some(_) | None => return Ok(None),
        }
    }
}

/// Reads a line the way the terminal gives it; `None` at its end.
fn plain_line(screen: &Screen, label: &str) -> io::Result<Option<String>> {
    screen.write(&format!("{label}> "))?;
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    Ok((count > 0).then(|| line.trim_end_matches(['\n', '\r']).to_owned()))
}

/// Returns the choice a key stands for: the very key, else the same letter in the other case.
fn find<T>(choices: &[Choice<T>], key: char) -> Option<usize> {
    let same = choices.iter().position(|choice| choice.key == key);
    same.or_else(|| choices.iter().position(|choice| choice.key == key.to_ascii_lowercase()))
}

/// Asks for one line of text; `None` when the person leaves with Esc, Ctrl-C or Ctrl-D.
pub(crate) fn ask_line(screen: &Screen, label: &str) -> io::Result<Option<String>> {
    if screen.cursor == Cursor::Fixed {
        return plain_line(screen, label);
    }
    let prompt =
        DefaultPrompt::new(DefaultPromptSegment::Basic(label.to_owned()), DefaultPromptSegment::Empty);
    let mut editor = Reedline::create().with_ansi_colors(screen.style == Style::Color);
    match editor.read_line(&prompt) {
        Ok(Signal::Success(line)) => Ok(Some(line)),
        Ok(_) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// What a key does.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    Answer(usize),
    Move(usize),
    Leave,
    Nothing,
}

fn pressed<T>(key: KeyEvent, choices: &[Choice<T>], chosen: Option<usize>) -> Pressed {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    let last = choices.len().saturating_sub(1);
    match key.code {
        KeyCode::Esc => Pressed::Leave,
        KeyCode::Char('c' | 'd') if control => Pressed::Leave,
        KeyCode::Char(_) if control || key.modifiers.contains(KeyModifiers::ALT) => Pressed::Nothing,
        KeyCode::Char(c) => find(choices, c).map_or(Pressed::Nothing, Pressed::Answer),
        KeyCode::Enter => chosen.map_or(Pressed::Nothing, Pressed::Answer),
        KeyCode::Right | KeyCode::Down | KeyCode::Tab => {
            Pressed::Move(chosen.map_or(0, |at| if at == last { 0 } else { at + 1 }))
        }
        KeyCode::Left | KeyCode::Up | KeyCode::BackTab => {
            Pressed::Move(chosen.map_or(last, |at| at.checked_sub(1).unwrap_or(last)))
        }
        _ => Pressed::Nothing,
    }
}

/// Draws the choices over the `drawn` rows of the last time; returns how many rows there are.
fn draw<T>(
    screen: &Screen,
    choices: &[Choice<T>],
    (chosen, later): (Option<usize>, &str),
    drawn: usize,
) -> io::Result<usize> {
    let rows = rows(screen, choices, chosen, later);
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

/// Keys are read one by one as long as this lives.
struct Raw;

impl Raw {
    fn begin() -> io::Result<Self> {
        enable_raw_mode()?;
        Ok(Self)
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
    use crate::terminal::screen::Audience;

    const CHOICES: [Choice<u8>; 3] = [
        Choice { key: 'a', label: "Accept", answer: 1 },
        Choice { key: 'e', label: "Edit", answer: 2 },
        Choice { key: 'd', label: "Decline", answer: 3 },
    ];

    fn check(code: KeyCode, chosen: Option<usize>, expected: Pressed) {
        assert_eq!(pressed(KeyEvent::new(code, KeyModifiers::NONE), &CHOICES, chosen), expected, "{code:?}");
    }

    #[test]
    fn g5_enter_alone_chooses_nothing() {
        check(KeyCode::Enter, None, Pressed::Nothing);
        check(KeyCode::Enter, Some(1), Pressed::Answer(1));
        check(KeyCode::Char(' '), None, Pressed::Nothing);
        check(KeyCode::Char('y'), None, Pressed::Nothing);
        check(KeyCode::Char('A'), None, Pressed::Answer(0));
        check(KeyCode::Tab, None, Pressed::Move(0));
        check(KeyCode::Right, Some(2), Pressed::Move(0));
        check(KeyCode::Left, None, Pressed::Move(2));
        check(KeyCode::Esc, Some(0), Pressed::Leave);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(pressed(control_c, &CHOICES, Some(0)), Pressed::Leave);
        let control_a = KeyEvent::new(KeyCode::Char('a'), KeyModifiers::CONTROL);
        assert_eq!(pressed(control_a, &CHOICES, None), Pressed::Nothing);
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
