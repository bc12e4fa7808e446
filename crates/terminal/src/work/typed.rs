//! What a person types while work goes on: whole lines wait their turn, the rest goes into the next prompt. It sends
//! nothing.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// What was typed ahead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Lines that were ended with Enter.
    pub lines: VecDeque<String>,
    /// The line that was not.
    pub rest: String,
    /// Lines that were ended at a question: they are looked at again before they are sent.
    pub kept: Vec<String>,
    /// What of all was pasted.
    pub pasted: Vec<String>,
}

/// What a key asks for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The work shall stop.
    Stop,
    /// More, or less, of what is running shall be shown.
    Unfold,
}

impl Typed {
    /// Takes the keys that were pressed since the last time; does not wait.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn read(&mut self) -> io::Result<Option<Wish>> {
        let mut wish = None;
        while event::poll(Duration::ZERO)? {
            wish = self.take(event::read()?).or(wish);
        }
        Ok(wish)
    }

    /// Holds back what waits: each line is looked at again before it is sent.
    pub fn hold(&mut self) {
        self.kept.splice(0..0, self.lines.drain(..));
    }

    /// Takes what is to be looked at next before it is sent: one line that was held back, else the one that was not ended.
    pub fn next_unsent(&mut self) -> String {
        match self.kept.is_empty() {
            true => std::mem::take(&mut self.rest),
            false => self.kept.remove(0),
        }
    }

    /// Takes everything back into one text, to be looked at by whoever wrote it.
    pub fn unsent(&mut self) -> String {
        let mut texts: Vec<String> = self.lines.drain(..).chain(self.kept.drain(..)).collect();
        texts.push(std::mem::take(&mut self.rest));
        texts.retain(|text| !text.is_empty());
        texts.join("\n")
    }

    /// Takes one event; returns what it asks for at once.
    pub fn take(&mut self, event: Event) -> Option<Wish> {
        match event {
            Event::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                self.rest.push_str(&text);
                self.pasted.push(text);
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.press(key),
            Event::Key(_) | Event::Resize(..) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => {}
        }
        None
    }

    fn press(&mut self, key: KeyEvent) -> Option<Wish> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            // A terminal that reports Ctrl-C as a key did not send the signal.
            KeyCode::Char('c') if control => return Some(Wish::Stop),
            KeyCode::Esc => return Some(Wish::Stop),
            KeyCode::Char('o') if control => return Some(Wish::Unfold),
            KeyCode::Char('j') if control => self.rest.push('\n'),
            KeyCode::Enter if alt => self.rest.push('\n'),
            KeyCode::Char('u') if control => self.rest.clear(),
            KeyCode::Char(c) if !control && !alt => self.rest.push(c),
            KeyCode::Backspace => {
                let end = self.rest.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
                self.rest.truncate(end);
            }
            KeyCode::Enter if !self.rest.trim().is_empty() => {
                self.lines.push_back(std::mem::take(&mut self.rest));
            }
            // The last line that waits can be changed again.
            KeyCode::Up if self.rest.is_empty() => self.rest = self.lines.pop_back().unwrap_or_default(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[(KeyCode, KeyModifiers)]) -> (Typed, Option<Wish>) {
        let mut typed = Typed::default();
        let wish = keys
            .iter()
            .map(|(code, modifiers)| typed.take(Event::Key(KeyEvent::new(*code, *modifiers))))
            .fold(None, |last, wish| wish.or(last));
        (typed, wish)
    }

    fn plain(keys: &str) -> Vec<(KeyCode, KeyModifiers)> {
        let code = |c| if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
        keys.chars().map(|c| (code(c), KeyModifiers::NONE)).collect()
    }

    #[test]
    fn lines_wait_and_the_rest_is_kept() {
        let (mut both, wish) = typed(&plain("one\r\rtwö"));
        assert_eq!((both.lines.len(), both.rest.as_str(), wish), (1, "twö", None));
        assert_eq!(both.unsent(), "one\ntwö");
        assert_eq!(both, Typed::default());
    }

    #[test]
    fn lines_that_are_held_back_are_looked_at_one_by_one() {
        let (mut both, _) = typed(&plain("one\rtwo\rthr"));
        both.kept.push("asked".to_owned());
        both.hold();
        assert!(both.lines.is_empty(), "nothing is sent by itself");
        let next: Vec<String> = (0..5).map(|_| both.next_unsent()).collect();
        assert_eq!(next, ["one", "two", "asked", "thr", ""]);
        assert_eq!(both, Typed::default());
    }

    #[test]
    fn a_line_that_waits_can_be_changed_and_taken_back() {
        let mut keys = plain("onex\r");
        keys.extend([(KeyCode::Up, KeyModifiers::NONE), (KeyCode::Backspace, KeyModifiers::NONE)]);
        assert_eq!(typed(&keys).0.rest, "one");
        keys.push((KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(typed(&keys).0, Typed::default());
    }

    #[test]
    fn keys_that_ask_for_something_are_no_text() {
        for (code, modifiers, wish) in [
            (KeyCode::Esc, KeyModifiers::NONE, Wish::Stop),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, Wish::Stop),
            (KeyCode::Char('o'), KeyModifiers::CONTROL, Wish::Unfold),
        ] {
            assert_eq!(typed(&[(code, modifiers)]), (Typed::default(), Some(wish)));
        }
    }
}
