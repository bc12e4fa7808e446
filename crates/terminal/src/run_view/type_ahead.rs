//! Type-ahead: input that the user types while a run is active. Complete lines are queued, and the incomplete line goes
//! into the next prompt. This file sends nothing.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;

/// Input that was typed ahead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TypeAheadBuffer {
    /// Lines that were ended with Enter. They are sent without being shown again.
    pub queued_lines: VecDeque<String>,
    /// The line that is being typed and was not ended with Enter.
    pub partial_line: String,
    /// Lines that were typed at a question or held back. The user sees them again before they are sent.
    pub drafts: Vec<String>,
    /// The texts that were pasted into any of the lines.
    pub pastes: Vec<String>,
}

/// The immediate effect of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCommand {
    /// Stop the run.
    Stop,
    /// Show more of the output of running tool calls, or less again.
    ToggleOutput,
}

impl TypeAheadBuffer {
    /// Reads the keys that were pressed since the last call, without waiting, and returns the last command among them.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read.
    pub fn read_keys(&mut self) -> io::Result<Option<KeyCommand>> {
        let mut command = None;
        while event::poll(Duration::ZERO)? {
            command = self.handle_event(event::read()?).or(command);
        }
        Ok(command)
    }

    /// Turns all queued lines into drafts, so that the user sees each of them again before it is sent.
    pub fn hold_queued_lines(&mut self) {
        self.drafts.splice(0..0, self.queued_lines.drain(..));
    }

    /// Removes and returns the first draft, or the line that was not ended if there is no draft.
    pub fn take_next_draft(&mut self) -> String {
        match self.drafts.is_empty() {
            true => std::mem::take(&mut self.partial_line),
            false => self.drafts.remove(0),
        }
    }

    /// Removes and returns all queued lines, drafts and the incomplete line as one text.
    pub fn take_all_drafts(&mut self) -> String {
        let mut texts: Vec<String> = self.queued_lines.drain(..).chain(self.drafts.drain(..)).collect();
        texts.push(std::mem::take(&mut self.partial_line));
        texts.retain(|text| !text.is_empty());
        texts.join("\n")
    }

    /// Handles an input event, and returns the command that it stands for, if any. Other input changes the buffer.
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

    /// Handles a key, and returns the command that it stands for, if any.
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
                let end = self.partial_line.grapheme_indices(true).next_back().map_or(0, |(index, _)| index);
                self.partial_line.truncate(end);
            }
            KeyCode::Enter if !self.partial_line.trim().is_empty() => {
                self.queued_lines.push_back(std::mem::take(&mut self.partial_line));
            }
            // The last queued line can be edited again.
            KeyCode::Up if self.partial_line.is_empty() => {
                self.partial_line = self.queued_lines.pop_back().unwrap_or_default();
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles keys in an empty buffer, and returns the buffer and the last command.
    fn type_keys(keys: &[(KeyCode, KeyModifiers)]) -> (TypeAheadBuffer, Option<KeyCommand>) {
        let mut typed = TypeAheadBuffer::default();
        let command = keys
            .iter()
            .map(|(code, modifiers)| typed.handle_event(Event::Key(KeyEvent::new(*code, *modifiers))))
            .fold(None, |last, command| command.or(last));
        (typed, command)
    }

    /// Returns the keys of a text without modifiers; `\r` is Enter.
    fn plain_keys(keys: &str) -> Vec<(KeyCode, KeyModifiers)> {
        let code = |c| if c == '\r' { KeyCode::Enter } else { KeyCode::Char(c) };
        keys.chars().map(|c| (code(c), KeyModifiers::NONE)).collect()
    }

    #[test]
    fn complete_lines_are_queued_and_the_incomplete_line_is_kept() {
        let (mut typed, command) = type_keys(&plain_keys("one\r\rtwö"));
        assert_eq!((typed.queued_lines.len(), typed.partial_line.as_str(), command), (1, "twö", None));
        assert_eq!(typed.take_all_drafts(), "one\ntwö");
        assert_eq!(typed, TypeAheadBuffer::default());
    }

    #[test]
    fn lines_that_are_held_back_are_returned_one_by_one() {
        let (mut typed, _) = type_keys(&plain_keys("one\rtwo\rthr"));
        typed.drafts.push("draft".to_owned());
        typed.hold_queued_lines();
        assert!(typed.queued_lines.is_empty(), "a queued line is sent without being seen");
        let drafts: Vec<String> = (0..5).map(|_| typed.take_next_draft()).collect();
        assert_eq!(drafts, ["one", "two", "draft", "thr", ""]);
        assert_eq!(typed, TypeAheadBuffer::default());
    }

    #[test]
    fn a_queued_line_can_be_edited_and_deleted() {
        let mut keys = plain_keys("onex\r");
        keys.extend([(KeyCode::Up, KeyModifiers::NONE), (KeyCode::Backspace, KeyModifiers::NONE)]);
        assert_eq!(type_keys(&keys).0.partial_line, "one");
        keys.push((KeyCode::Char('u'), KeyModifiers::CONTROL));
        assert_eq!(type_keys(&keys).0, TypeAheadBuffer::default());
    }

    #[test]
    fn command_keys_are_not_text() {
        for (code, modifiers, command) in [
            (KeyCode::Esc, KeyModifiers::NONE, KeyCommand::Stop),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, KeyCommand::Stop),
            (KeyCode::Char('o'), KeyModifiers::CONTROL, KeyCommand::ToggleOutput),
        ] {
            assert_eq!(type_keys(&[(code, modifiers)]), (TypeAheadBuffer::default(), Some(command)));
        }
    }
}
