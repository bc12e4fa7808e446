//! Renders a recall result for a model: delimited, inert, each passage with its location.

use journal::MeaningComparison;
use model::untrusted_text;
use protocol::ThreadId;

use super::{NoteSource, RecallNote, RecallResult, RecallScope, RecalledMessage, Remaining, Speaker};

/// Template of the text around the passages, in the scope of a conversation.
const RECALLED_TEMPLATE: &str = include_str!("../../prompts/recalled.md");
/// Template of the text around the passages, in the scope of everything.
const RECALLED_EVERYTHING_TEMPLATE: &str = include_str!("../../prompts/recalled_everything.md");
/// Template of the text around the passages, in the scope of a project.
const RECALLED_PROJECT_TEMPLATE: &str = include_str!("../../prompts/recalled_project.md");
/// The answer when nothing was found in the project.
const NOTHING_FOUND_IN_PROJECT: &str = include_str!("../../prompts/recall/nothing_in_project.md");
/// The answer when nothing was found in the conversation.
const NOTHING_FOUND: &str = include_str!("../../prompts/recall/nothing_found.md");
/// The answer when nothing was found in the scope of everything.
const NOTHING_FOUND_ANYWHERE: &str = include_str!("../../prompts/recall/nothing_at_all.md");
/// A note that passages of summaries and handoffs are not original words.
const NOTES_INTRO: &str = include_str!("../../prompts/recall/notes.md");
/// The closing sentence when more messages match.
const MORE_MESSAGES: &str = include_str!("../../prompts/recall/more_messages.md");
/// The closing sentence of a range that extends beyond the point at which the conversation left the thread.
const THREAD_DEPARTED: &str = include_str!("../../prompts/recall/left.md");
/// The closing sentence when messages are not indexed yet.
const NOT_INDEXED: &str = include_str!("../../prompts/recall/not_indexed.md");
/// The closing sentence when the embedding model does not answer.
const WORDS_ONLY: &str = include_str!("../../prompts/recall/words_only.md");
/// The closing sentence when damaged messages were left out.
const DAMAGED: &str = include_str!("../../prompts/recall/damaged.md");
/// The closing sentence of a range whose first message was cut.
const MESSAGE_CONTINUES: &str = include_str!("../../prompts/recall/goes_on.md");

/// Upper bound in characters of everything but the passages. It is reserved in the budget of an answer.
pub(super) const FRAME_CHARS_MAX: u64 = 1_000;
/// Upper bound in characters of the sentence about damaged messages, which is not a part of [`FRAME_CHARS_MAX`].
pub(super) const DAMAGED_CHARS_MAX: u64 = 120;
/// The line between two excerpts.
const SEPARATOR: &str = "--\n";
/// Minimum number of hex digits of a thread id. More are shown where these are not unique.
const ID_DIGITS_MIN: usize = 8;
/// Number of hex digits of a whole id.
const ID_DIGITS_MAX: usize = 32;
/// Maximum characters of a tool's name.
const NAME_CHARS_MAX: usize = 60;

impl RecallResult {
    /// Returns the text for a model: the passages as inert data between tags, and a closing sentence about the
    /// remaining messages. A result without passages is only that sentence.
    ///
    /// The text has at most the tokens of [`super::RecallQuery::tokens_max`], by estimate.
    pub fn to_text(&self) -> String {
        let remaining = self.remaining_text();
        if self.is_empty() {
            return remaining;
        }
        let digits = id_digits(self.scope, &self.threads);
        let excerpts = self
            .excerpts
            .iter()
            .map(|excerpt| excerpt.iter().map(|passage| render_message(passage, digits)).collect());
        let notes = self.notes.iter().map(render_note);
        let passages = excerpts.chain(notes).collect::<Vec<String>>().join(SEPARATOR);
        // The template is split at its fields instead of being filled by `replace`, because a passage can contain the
        // text of a field.
        let template = match self.scope {
            RecallScope::Conversation => RECALLED_TEMPLATE,
            RecallScope::Project => RECALLED_PROJECT_TEMPLATE,
            RecallScope::Everything => RECALLED_EVERYTHING_TEMPLATE,
        };
        let (before, after) = template.split_once("{{passages}}").unwrap_or((template, ""));
        let (between, after) = after.split_once("{{rest}}").unwrap_or((after, ""));
        let remaining =
            if self.notes.is_empty() { remaining } else { format!("{} {remaining}", NOTES_INTRO.trim()) };
        let text = format!("{before}{}{between}{remaining}{after}", passages.trim_end());
        text.trim_end().to_owned()
    }

    fn is_empty(&self) -> bool {
        self.excerpts.is_empty() && self.notes.is_empty()
    }

    /// Returns the closing sentences: how to read on in a message that was cut, which messages remain, which are damaged, and
    /// which were not searched.
    fn remaining_text(&self) -> String {
        let continues = self.resume_at.map(|(seq, chars)| {
            // The tool's argument `from_char` counts from one.
            fill_number(MESSAGE_CONTINUES, "{{seq}}", seq).replace("{{char}}", &(chars + 1).to_string())
        });
        let not_indexed = (!self.backlog.is_empty()).then(|| {
            fill_number(NOT_INDEXED, "{{messages}}", self.backlog.messages)
                .replace("{{threads}}", &self.backlog.threads.to_string())
        });
        let words_only = matches!(self.meaning, MeaningComparison::Unavailable { .. })
            .then(|| WORDS_ONLY.trim().to_owned());
        let damaged = (self.damaged > 0).then(|| fill_number(DAMAGED, "{{count}}", self.damaged));
        let sentences = [continues, Some(self.remaining_messages_text()), damaged, not_indexed, words_only];
        sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Returns the sentence about the messages that the excerpts do not contain.
    fn remaining_messages_text(&self) -> String {
        let is_empty = self.is_empty() && self.damaged == 0;
        match (self.remaining, self.departed_at) {
            (Remaining::Messages(0), _) if is_empty && self.scope == RecallScope::Everything => {
                NOTHING_FOUND_ANYWHERE.trim().to_owned()
            }
            (Remaining::Messages(0), _) if is_empty && self.scope == RecallScope::Project => {
                NOTHING_FOUND_IN_PROJECT.trim().to_owned()
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

/// Returns the sentence with the number in place of the field.
fn fill_number(sentence: &str, field: &str, number: u64) -> String {
    sentence.trim().replace(field, &number.to_string())
}

/// Returns the passage as text with its location, ending with a line break. Only locations begin at the start of a
/// line; lines of the message are indented, so that a message cannot imitate another passage.
pub(super) fn render_message(passage: &RecalledMessage, id_digits: usize) -> String {
    let id = short_thread_id(passage.thread_id, id_digits);
    let at = passage.at.strftime("%Y-%m-%d %H:%M");
    let text = untrusted_text::neutralize(&indent_continuation_lines(&passage.text));
    format!("[thread {id}: {}] {}, {at}: {text}\n", passage.seq, speaker_label(&passage.speaker))
}

/// Returns the note as text with its location, ending with a line break, in the form of [`render_message`].
pub(super) fn render_note(note: &RecallNote) -> String {
    let id = |id: ThreadId| short_thread_id(id, ID_DIGITS_MAX);
    let location = match note.source {
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
    format!("[{location}] {at}: {}\n", untrusted_text::neutralize(&indent_continuation_lines(&note.text)))
}

/// Returns the number of leading hex digits that make the ids of `threads` distinct. In a wider scope these
/// are all digits, because the answer must also be distinct from the assistant's other threads.
pub(super) fn id_digits(scope: RecallScope, threads: &[ThreadId]) -> usize {
    let digits_min = match scope {
        RecallScope::Conversation => ID_DIGITS_MIN,
        RecallScope::Project | RecallScope::Everything => ID_DIGITS_MAX,
    };
    let ids: Vec<String> = threads.iter().map(|id| id.uuid().simple().to_string()).collect();
    let are_distinct = |digits: &usize| {
        let mut prefixes: Vec<&str> = ids.iter().map(|id| &id[..*digits]).collect();
        prefixes.sort_unstable();
        prefixes.windows(2).all(|pair| pair[0] != pair[1])
    };
    (digits_min..ID_DIGITS_MAX).find(are_distinct).unwrap_or(ID_DIGITS_MAX)
}

/// Returns the first hex digits of the id, without hyphens.
fn short_thread_id(thread_id: ThreadId, digits: usize) -> String {
    let mut id = thread_id.uuid().simple().to_string();
    id.truncate(digits);
    id
}

/// Returns the author's label. A tool's name is untrusted: it is made inert and cannot end the backticks around it.
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

/// Returns `text` with every line except the first indented, and without blank lines. Every character that a reader may
/// take for a line break ends a line.
fn indent_continuation_lines(text: &str) -> String {
    let ends_line =
        |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let lines: Vec<&str> = text.split(ends_line).map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines.join("\n  ")
}
