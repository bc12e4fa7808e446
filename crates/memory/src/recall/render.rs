//! Renders a recall result for a model: delimited, inert, each passage with its location.

use model::untrusted_text;
use protocol::ThreadId;

use super::{NoteSource, RecallNote, RecallResult, RecallScope, RecalledMessage, Remaining, Speaker};

/// The frame around the passages.
const RECALLED_TEMPLATE: &str = include_str!("../../prompts/recalled.md");
/// The frame when everything was looked through.
const RECALLED_EVERYTHING_TEMPLATE: &str = include_str!("../../prompts/recalled_everything.md");
/// Stands in the place of passages when there are none.
const NOTHING_FOUND: &str = include_str!("../../prompts/recall/nothing_found.md");
/// Stands in their place when everything was looked through.
const NOTHING_FOUND_ANYWHERE: &str = include_str!("../../prompts/recall/nothing_at_all.md");
/// Stands before what summaries and handoffs say.
const NOTES_INTRO: &str = include_str!("../../prompts/recall/notes.md");
/// Stands behind the passages when more messages match.
const MORE_MESSAGES: &str = include_str!("../../prompts/recall/more_messages.md");
/// Stands at the end of a range that goes on where the thread does not belong to the conversation any longer.
const THREAD_DEPARTED: &str = include_str!("../../prompts/recall/left.md");

/// Stands at the end of a range whose first message goes on.
const MESSAGE_CONTINUES: &str = include_str!("../../prompts/recall/goes_on.md");

/// The most characters of everything but the passages.
pub(super) const FRAME_CHARS_MAX: u64 = 1_000;
/// Between excerpts.
const SEPARATOR: &str = "--\n";
/// Hex digits of a thread's id that are shown when they are enough.
const ID_DIGITS_MIN: usize = 8;
/// Hex digits of an id.
const ID_DIGITS_MAX: usize = 32;
/// Characters of a tool's name.
const NAME_CHARS_MAX: usize = 60;

impl RecallResult {
    /// Returns the text for a model: the passages as inert data between tags, and what else there is.
    pub fn to_text(&self) -> String {
        let rest = self.remaining_text();
        if self.is_empty() {
            return rest;
        }
        let digits = id_digits(self.scope, &self.threads);
        let excerpts = self
            .excerpts
            .iter()
            .map(|excerpt| excerpt.iter().map(|passage| render_message(passage, digits)).collect());
        let notes = self.notes.iter().map(render_note);
        let passages = excerpts.chain(notes).collect::<Vec<String>>().join(SEPARATOR);
        // What is filled in is never searched for fields.
        let template = match self.scope {
            RecallScope::Conversation => RECALLED_TEMPLATE,
            RecallScope::Everything => RECALLED_EVERYTHING_TEMPLATE,
        };
        let (before, after) = template.split_once("{{passages}}").unwrap_or((template, ""));
        let (between, after) = after.split_once("{{rest}}").unwrap_or((after, ""));
        let rest = if self.notes.is_empty() { rest } else { format!("{} {rest}", NOTES_INTRO.trim()) };
        let text = format!("{before}{}{between}{rest}{after}", passages.trim_end());
        text.trim_end().to_owned()
    }

    fn is_empty(&self) -> bool {
        self.excerpts.is_empty() && self.notes.is_empty()
    }

    fn remaining_text(&self) -> String {
        match self.resume_at {
            None => self.remaining_messages_text(),
            Some((seq, chars)) => {
                let goes_on = fill_number(MESSAGE_CONTINUES, "{{seq}}", seq)
                    .replace("{{char}}", &(chars + 1).to_string());
                format!("{goes_on} {}", self.remaining_messages_text())
            }
        }
    }

    fn remaining_messages_text(&self) -> String {
        let is_empty = self.is_empty();
        match (self.remaining, self.departed_at) {
            (Remaining::Messages(0), _) if is_empty && self.scope == RecallScope::Everything => {
                NOTHING_FOUND_ANYWHERE.trim().to_owned()
            }
            (Remaining::Messages(0), _) if is_empty => {
                fill_number(NOTHING_FOUND, "{{threads}}", self.threads.len() as u64)
            }
            (Remaining::Messages(0), _) => "Nothing else was found.".to_owned(),
            (Remaining::Messages(count), _) => fill_number(MORE_MESSAGES, "{{count}}", count),
            (Remaining::Range { next_seq: Some(seq) }, _) => {
                format!("There is more; go on with from_seq {seq}.")
            }
            (Remaining::Range { next_seq: None }, Some(seq)) => fill_number(THREAD_DEPARTED, "{{seq}}", seq),
            (Remaining::Range { next_seq: None }, None) if is_empty => {
                "There are no messages at these numbers.".to_owned()
            }
            (Remaining::Range { next_seq: None }, None) => "That is all of the range.".to_owned(),
        }
    }
}

fn fill_number(sentence: &str, field: &str, number: u64) -> String {
    sentence.trim().replace(field, &number.to_string())
}

/// Returns the passage with its place, ended by a line break. Only the places stand at the beginning of a line, so that
/// no text can pretend to be another passage.
pub(super) fn render_message(passage: &RecalledMessage, id_digits: usize) -> String {
    let id = short_thread_id(passage.thread_id, id_digits);
    let at = passage.at.strftime("%Y-%m-%d %H:%M");
    let text = untrusted_text::neutralize(&indent_continuation_lines(&passage.text));
    format!("[thread {id}: {}] {}, {at}: {text}\n", passage.seq, speaker_label(&passage.speaker))
}

/// Returns the note with its location, ended by a line break, like [`render_message`].
pub(super) fn render_note(note: &RecallNote) -> String {
    let id = |id: ThreadId| short_thread_id(id, ID_DIGITS_MAX);
    let place = match note.source {
        NoteSource::Summary { thread_id: Some(thread_id), first_turn, last_turn } => {
            format!("summary of messages {first_turn} to {last_turn}, from thread {} on", id(thread_id))
        }
        NoteSource::Summary { thread_id: None, first_turn, last_turn } => {
            format!("summary of messages {first_turn} to {last_turn}")
        }
        NoteSource::Handoff { parent_thread_id, child_thread_id } => {
            format!("handoff from thread {} to thread {}", id(parent_thread_id), id(child_thread_id))
        }
    };
    let at = note.at.strftime("%Y-%m-%d %H:%M");
    format!("[{place}] {at}: {}\n", untrusted_text::neutralize(&indent_continuation_lines(&note.text)))
}

/// Returns how many hex digits tell the threads apart: all where these are some of very many.
pub(super) fn id_digits(scope: RecallScope, threads: &[ThreadId]) -> usize {
    let least = match scope {
        RecallScope::Conversation => ID_DIGITS_MIN,
        RecallScope::Everything => ID_DIGITS_MAX,
    };
    let ids: Vec<String> = threads.iter().map(|id| id.uuid().simple().to_string()).collect();
    let are_different = |digits: &usize| {
        let mut beginnings: Vec<&str> = ids.iter().map(|id| &id[..*digits]).collect();
        beginnings.sort_unstable();
        beginnings.windows(2).all(|pair| pair[0] != pair[1])
    };
    (least..ID_DIGITS_MAX).find(are_different).unwrap_or(ID_DIGITS_MAX)
}

fn short_thread_id(thread_id: ThreadId, digits: usize) -> String {
    let mut id = thread_id.uuid().simple().to_string();
    id.truncate(digits);
    id
}

fn speaker_label(speaker: &Speaker) -> String {
    match speaker {
        Speaker::User => "User".to_owned(),
        Speaker::Assistant => "Assistant".to_owned(),
        Speaker::Harness => "Harness".to_owned(),
        Speaker::Tool(None) => "Tool".to_owned(),
        Speaker::Tool(Some(name)) => {
            let name =
                untrusted_text::neutralize_line(model::tokens::truncate_graphemes(name, NAME_CHARS_MAX));
            format!("Tool `{}`", name.replace('`', "'"))
        }
    }
}

/// Returns `text` with every line but the first set in.
fn indent_continuation_lines(text: &str) -> String {
    let ends_line =
        |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let lines: Vec<&str> = text.split(ends_line).map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join("\n  ")
}
