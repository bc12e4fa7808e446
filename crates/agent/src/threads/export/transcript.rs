//! The transcript of a thread as Markdown for people, and as JSON, rendered in parts. Reasoning of models is left out. This
//! module reads nothing; callers pass the entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use journal::view::{ArchiveMarker, HistoryEntry, HistoryItem, SummaryMarker};
use protocol::{ContentBlock, Message, Rating, Seq, Thread};
use serde::Serialize;

use super::TranscriptFormat;
use crate::HandoffOrigin;

/// The rendering of one transcript: its head, then its entries in order and in any number of parts, then its end.
#[derive(Debug)]
pub(super) struct TranscriptRenderer {
    /// The format.
    pub(super) format: TranscriptFormat,
    /// The seqs of compactions that were undone later.
    pub(super) undone: BTreeSet<Seq>,
    /// `true` once an entry was rendered.
    pub(super) has_entries: bool,
}

impl TranscriptRenderer {
    /// Returns the beginning of the transcript. In Markdown, it contains the packages that were handed to the thread, which its
    /// requests contain and its messages do not.
    ///
    /// # Errors
    /// Fails if the thread cannot be serialized as JSON.
    pub(super) fn render_head(
        &self,
        thread: &Thread,
        origins: &[HandoffOrigin],
    ) -> serde_json::Result<String> {
        match self.format {
            TranscriptFormat::Markdown => Ok(markdown_head(thread, origins)),
            TranscriptFormat::Json => {
                let mut out = "{\n  \"thread\": ".to_owned();
                push_json(&mut out, thread, "\n  ")?;
                out.push_str(",\n  \"history\": [");
                Ok(out)
            }
        }
    }

    /// Returns the next entries.
    ///
    /// # Errors
    /// Fails if an entry cannot be serialized as JSON.
    pub(super) fn render_entries(&mut self, entries: Vec<HistoryEntry>) -> serde_json::Result<String> {
        let mut out = String::new();
        for mut entry in entries {
            match self.format {
                TranscriptFormat::Markdown => push_markdown_entry(&mut out, &entry, &self.undone),
                TranscriptFormat::Json => {
                    remove_reasoning(&mut entry);
                    out.push_str(if self.has_entries { ",\n    " } else { "\n    " });
                    push_json(&mut out, &entry, "\n    ")?;
                }
            }
            self.has_entries = true;
        }
        Ok(out)
    }

    /// Returns the end of the transcript.
    pub(super) const fn render_end(&self) -> &'static str {
        match (self.format, self.has_entries) {
            (TranscriptFormat::Markdown, _) => "",
            (TranscriptFormat::Json, true) => "\n  ]\n}\n",
            (TranscriptFormat::Json, false) => "]\n}\n",
        }
    }
}

/// Appends a value as JSON. Its lines are separated by `line_break`, which contains the indentation.
fn push_json(out: &mut String, value: &impl Serialize, line_break: &str) -> serde_json::Result<()> {
    let json = serde_json::to_string_pretty(value)?;
    let mut lines = json.split('\n');
    out.extend(lines.next());
    for line in lines {
        out.push_str(line_break);
        out.push_str(line);
    }
    Ok(())
}

/// Returns the title of a thread as Markdown, and the packages that were handed to it.
fn markdown_head(thread: &Thread, origins: &[HandoffOrigin]) -> String {
    let mut out = format!("# {}\n", thread.name.as_deref().unwrap_or("Thread"));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\nThread `{}`\n", thread.thread_id);
    for origin in origins {
        let package = origin.updated.as_ref().unwrap_or(&origin.proposal);
        let parent = origin.handoff.parent_thread_id;
        let _ = writeln!(out, "## Continues thread `{parent}`\n\n{}\n", quote_summary(&package.package_md));
    }
    out
}

/// Appends an entry as Markdown, unless it has no text.
fn push_markdown_entry(out: &mut String, entry: &HistoryEntry, undone: &BTreeSet<Seq>) {
    let (heading, mut text) = match &entry.item {
        HistoryItem::Message(message) => (speaker_label(message).to_owned(), message_markdown(message)),
        HistoryItem::Boundary(boundary) => {
            ("Earlier messages compacted by the original agent".to_owned(), boundary.text.clone())
        }
        HistoryItem::Marker(marker) => {
            let suffix = if undone.contains(&entry.seq) { ", undone" } else { "" };
            (format!("{}{suffix}", marker_heading(marker)), quote_summary(&marker.summary))
        }
        HistoryItem::Undone(undone) => (
            format!("Compaction undone (marker {})", undone.marker_seq),
            "_The compacted messages are sent to the model again._".to_owned(),
        ),
        HistoryItem::Failed(failed) => ("Compaction failed".to_owned(), quote_summary(&failed.reason)),
        HistoryItem::Archived(archived) => {
            let ArchiveMarker { turn_count, first_seq, last_seq, model, .. } = &**archived;
            let heading = format!("{turn_count} messages moved to memory ({first_seq}–{last_seq}; {model})");
            (heading, quote_summary(&archived.summary))
        }
        HistoryItem::Audit(audit) => ("Event".to_owned(), format!("_{}_", to_one_line(&audit.text))),
        HistoryItem::Damaged(damaged) => ("Damaged event".to_owned(), format!("_{}_", damaged.text)),
    };
    if let Some(Some(feedback)) = &entry.feedback {
        let thumb = match feedback.rating {
            Rating::Up => "up",
            Rating::Down => "down",
        };
        let comment = feedback.comment.as_deref().map(|text| format!(": {}", to_one_line(text)));
        let _ = writeln!(text, "\n_Feedback: thumb {thumb}{}_", comment.unwrap_or_default());
    }
    if !text.trim().is_empty() {
        let _ = writeln!(out, "## {heading} · {}\n\n{}\n", entry.seq, text.trim_end());
    }
}

/// Removes the reasoning from a model's message, because it is not part of the conversation.
fn remove_reasoning(entry: &mut HistoryEntry) {
    if let HistoryItem::Message(Message::Ai(answer)) = &mut entry.item {
        answer.content.retain(|block| !matches!(block, ContentBlock::Thinking { .. }));
    }
}

/// Returns the heading of a compaction.
fn marker_heading(marker: &SummaryMarker) -> String {
    let SummaryMarker { replaced_count, first_seq, last_seq, tokens_before, tokens_after, .. } = marker;
    format!(
        "{replaced_count} messages compacted ({first_seq}–{last_seq}; {tokens_before} → {tokens_after} tokens; {}; {})",
        marker.trigger.as_str(),
        marker.model
    )
}

/// Returns the text with all whitespace, including line breaks, reduced to single spaces.
fn to_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a summary as a block quote, so that its headings are not headings of the document.
fn quote_summary(summary: &str) -> String {
    summary.lines().map(|line| format!("> {line}\n")).collect()
}

/// Returns the name of the speaker of a message.
const fn speaker_label(message: &Message) -> &'static str {
    match message {
        Message::Human(_) => "Human",
        Message::Ai(_) => "AI",
        Message::Tool(_) => "Tool",
    }
}

/// Returns the content of a message as Markdown.
fn message_markdown(message: &Message) -> String {
    let mut text = String::new();
    for block in message.content() {
        match block {
            ContentBlock::Text { text: part } => {
                let _ = writeln!(text, "{part}");
            }
            ContentBlock::ToolCall { name, args, .. } => {
                let _ = writeln!(text, "`{name}` {args}");
            }
            ContentBlock::Media { media_type, .. } => {
                let _ = writeln!(text, "[{media_type}]");
            }
            ContentBlock::Thinking { .. } | ContentBlock::Opaque { .. } => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use journal::view::history;
    use protocol::{
        Compaction, CompactionTrigger, CompactionUndone, Event, EventType, NewEvent, RunFeedback, RunId,
        ThreadId,
    };

    use super::*;

    /// Returns a compaction of two messages.
    fn compaction() -> Compaction {
        Compaction {
            schema_version: 1,
            trigger: CompactionTrigger::Manual,
            first_seq: 1,
            last_seq: 2,
            replaced_count: 2,
            kept_count: 1,
            tokens_before: 900,
            tokens_after: 300,
            model: "extractive".to_owned(),
            summary: "# Not a heading".to_owned(),
            sections: protocol::CondensedSummary::default(),
            carried: protocol::CarriedFacts::default(),
            last_request_seq: None,
            previous_seq: None,
            focus: None,
            duration_ms: 1,
            step: 0,
            usage: protocol::Usage::default(),
            prompt_sha256: None,
        }
    }

    #[test]
    fn c6_d7_the_export_contains_markers_undone_compactions_and_feedback() {
        let (thread_id, now, run_id) = (ThreadId::generate(), Timestamp::UNIX_EPOCH, RunId::generate());
        let undone = CompactionUndone { marker_seq: 3, clip_seqs: Vec::new() };
        let events = [
            NewEvent::from_message(&Message::human("Count."), now).unwrap(),
            NewEvent::from_message(&Message::ai("One."), now).unwrap(),
            NewEvent::new(EventType::Compacted, &compaction(), now).unwrap(),
            NewEvent::new(EventType::CompactionUndone, &undone, now).unwrap(),
        ];
        let stored = events.into_iter().zip(1..).map(|(event, seq)| Event::from_new(event, thread_id, seq));
        let mut entries = history(&stored.collect::<Vec<_>>());
        entries[1].feedback = Some(Some(RunFeedback {
            thread_id,
            run_id,
            user_id: RunFeedback::LOCAL_USER.to_owned(),
            rating: Rating::Up,
            comment: Some("good\n# one".to_owned()),
            created_at: now,
            updated_at: now,
        }));
        let undone = BTreeSet::from([3]);
        let mut renderer =
            TranscriptRenderer { format: TranscriptFormat::Markdown, undone, has_entries: false };
        let markdown = renderer.render_entries(entries).unwrap();
        for line in [
            "## 2 messages compacted (1–2; 900 → 300 tokens; manual; extractive), undone · 3",
            "> # Not a heading",
            "_Feedback: thumb up: good # one_",
            "## Compaction undone (marker 3) · 4",
        ] {
            assert!(markdown.lines().any(|exported| exported == line), "{line}: {markdown}");
        }
    }
}
