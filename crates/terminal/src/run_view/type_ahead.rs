//! Input typed while a run is active: complete lines are queued, the rest goes into the next prompt. It sends nothing.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// Input that was typed ahead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TypeAheadBuffer {
    /// Lines that were ended with Enter.
    pub queued_lines: VecDeque<String>,
    /// The line that was not.
    pub partial_line: String,
    /// Lines that were ended at a question: they are looked at again before they are sent.
    pub drafts: Vec<String>,
    /// The parts of it that were pasted.
    pub pastes: Vec<String>,
}

/// The immediate effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCommand {
    /// The work shall stop.
    Stop,
    /// More, or less, of what is running shall be shown.
    ToggleOutput,
}

impl TypeAheadBuffer {
    /// Takes the keys that were pressed since the last time; does not wait.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub fn read_keys(&mut self) -> io::Result<Option<KeyCommand>> {
        let mut wish = None;
        while event::poll(Duration::ZERO)? {
            wish = self.handle_event(event::read()?).or(wish);
        }
        Ok(wish)
    }

    /// Holds back what waits: each line is looked at again before it is sent.
    pub fn hold_queued_lines(&mut self) {
        self.drafts.splice(0..0, self.queued_lines.drain(..));
    }

    /// Takes what is to be looked at next before it is sent: one line that was held back, else the one that was not ended.
    pub fn take_next_draft(&mut self) -> String {
        match self.drafts.is_empty() {
            true => std::mem::take(&mut self.partial_line),
            false => self.drafts.remove(0),
        }
    }

    /// Takes everything back into one text, to be looked at by whoever wrote it.
    pub fn take_all_drafts(&mut self) -> String {
        let mut texts: Vec<String> = self.queued_lines.drain(..).chain(self.drafts.drain(..)).collect();
        texts.push(std::mem::take(&mut self.partial_line));
        texts.retain(|text| !text.is_empty());
        texts.join("\n")
    }

    /// Takes one event; returns what it asks for at once.
    pub fn handle_event(&mut self, event: Event) -> Option<KeyCommand> {
        match event {
            Event::Paste(text) => {
                let text = text.replace("\r\n", "\n").replace('\r', "\n");
                self.partial_line.push_str(&text);
                self.pastes.push(text);
            }
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.handle_key(key),
            Event::Key(_) | Event::Resize(..) | Event::Mouse(_) | Event::FocusGained | Event::FocusLost => {}
        }
        None
    }

    fn handle_key(&mut self, key: KeyEvent) -> Option<KeyCommand> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            // A terminal that reports Ctrl-C as a key did not send the signal.
            KeyCode::Char('c') if control => return Some(KeyCommand::Stop),
            KeyCode::Esc => return Some(KeyCommand::Stop),
            KeyCode::Char('o') if control => return Some(KeyCommand::ToggleOutput),
            KeyCode::Char('j') if control => self.partial_line.push('\n'),
            KeyCode::Enter if alt => self.partial_line.push('\n'),
            KeyCode::Char('u') if control => self.partial_line.clear(),
            KeyCode::Char(c) if !control && !alt => self.partial_line.push(c),
            KeyCode::Backspace => {
                let end = self.partial_line.grapheme_indices(true).next_back().map_or(0, |(at, _)| at);
                self.partial_line.truncate(end);
            }
            KeyCode::Enter if !self.partial_line.trim().is_empty() => {
                self.queued_lines.push_back(std::mem::take(&mut self.partial_line));
            }
            // The last line that waits can be changed again.
            KeyCode::Up if self.partial_line.is_empty() => self.partial_line = self.queued_lines.pop_back().unwrap_or_default(),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_keys(keys: &[(KeyCode, KeyModifiers)]) -> (TypeAheadBuffer, Option<KeyCommand>) {
        let mut typed = TypeAheadBuffer::default();
        let wish = keys
            .iter()
            .map(|(code, modifiers)| typed.handle_event(Event::Key(KeyEvent::new(*code, *modifiers))))
            .fold(None, |last, wish| wish.or(last));
        (typed, wish)
    }

    fn plain_keys(keys: &str) -> Vec<(KeyCode, KeyModifiers)> {
        let code = |c| if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
        keys.chars().map(|c| (code(c), KeyModifiers::NONE)).collect()
    }

    #[test]
    fn lines_wait_and_the_rest_is_kept() {
        let (mut both, wish) = type_keys(&plain_keys("one\r\rtwö"));
        assert_eq!((both.queued_lines.len(), both.partial_line.as_str(), wish), (1, "twö", None));
        assert_eq!(both.take_all_drafts(), "one\ntwö");
        assert_eq!(both, TypeAheadBuffer::default());
    }

    #[test]
    fn lines_that_are_held_back_are_looked_at_one_by_one() {
        let (mut both, _) = type_keys(&plain_keys("one\rtwo\rthr"));
        both.drafts.push("asked".to_owned());
        both.hold_queued_lines();
        assert!(both.queued_lines.is_empty(), "nothing is sent by itself");
        let next: Vec<String> = (0..5).map(|_| both.take_next_draft()).collect();
        assert_eq!(next, ["one", "two", "asked", "thr", ""]);
        assert_eq!(both, TypeAheadBuffer::default());
    }

    #[test]
    fn a_line_that_waits_can_be_changed_and_taken_back() {
        let mut keys = plain_keys("onex\r");
        keys.extend([(KeyCode::Up, KeyModifiers::NONE), (KeyCode::Backspace, KeyModifiers::NONE)]);
        assert_eq!(type_keys(&keys).0.partial_line, "one");
        keys.push((KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(type_keys(&keys).0, TypeAheadBuffer::default());
    }

    #[test]
    fn keys_that_ask_for_something_are_no_text() {
        for (code, modifiers, wish) in [
            (KeyCode::Esc, KeyModifiers::NONE, KeyCommand::Stop),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, KeyCommand::Stop),
            (KeyCode::Char('o'), KeyModifiers::CONTROL, KeyCommand::ToggleOutput),
        ] {
            assert_eq!(type_keys(&[(code, modifiers)]), (TypeAheadBuffer::default(), Some(wish)));
        }
    }
}
