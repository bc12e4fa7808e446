//! A thread's history as Markdown, for people, and as JSON. Reasoning is left out; nothing is read or decided here.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use journal::view::{ArchiveMarker, HistoryEntry, HistoryItem, SummaryMarker};
use protocol::{Block, Message, Rating, Seq, Thread};
use serde_json::json;

/// Returns the history as Markdown for people; reasoning is left out.
pub fn export_markdown(thread: &Thread, entries: &[HistoryEntry]) -> String {
    let mut out = format!("# {}\n", thread.name.as_deref().unwrap_or("Thread"));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\nThread `{}`\n", thread.thread_id);
    let undone: BTreeSet<Seq> = entries.iter().filter_map(undone_marker).collect();
    for entry in entries {
        let (who, mut text) = match &entry.what {
            HistoryItem::Message(message) => (speaker(message).to_owned(), markdown(message)),
            HistoryItem::Boundary(boundary) => {
                ("Earlier messages condensed by the original agent".to_owned(), boundary.text.clone())
            }
            HistoryItem::Marker(marker) => {
                let standing = if undone.contains(&entry.seq) { ", taken back" } else { "" };
                (format!("{}{standing}", condensed(marker)), quoted(&marker.summary))
            }
            HistoryItem::Undone(undone) => (
                format!("Condensing taken back (marker {})", undone.marker_seq),
                "_What it stood for is sent again._".to_owned(),
            ),
            HistoryItem::Failed(failed) => ("Condensing failed".to_owned(), quoted(&failed.reason)),
            HistoryItem::Archived(archived) => {
                let ArchiveMarker { turn_count, first_seq, last_seq, model, .. } = &**archived;
                let told = format!("{turn_count} turns went to memory ({first_seq}–{last_seq}; {model})");
                (told, quoted(&archived.summary))
            }
        };
        if let Some(Some(feedback)) = &entry.feedback {
            let thumb = match feedback.rating {
                Rating::Up => "up",
                Rating::Down => "down",
            };
            let comment = feedback.comment.as_deref().map(|text| format!(": {}", one_line(text)));
            let _ = writeln!(text, "\n_Feedback: thumb {thumb}{}_", comment.unwrap_or_default());
        }
        if !text.trim().is_empty() {
            let _ = writeln!(out, "## {who} · {}\n\n{}\n", entry.seq, text.trim_end());
        }
    }
    out
}

/// Returns the thread and its history as JSON; reasoning is left out.
///
/// # Errors
/// When something in them cannot be written as JSON.
pub fn export_json(thread: &Thread, mut entries: Vec<HistoryEntry>) -> serde_json::Result<String> {
    entries.iter_mut().for_each(leave_out_reasoning);
    Ok(serde_json::to_string_pretty(&json!({"thread": thread, "history": entries}))? + "\n")
}

/// Reasoning is not part of what was said.
fn leave_out_reasoning(entry: &mut HistoryEntry) {
    if let HistoryItem::Message(Message::Ai(answer)) = &mut entry.what {
        answer.content.retain(|block| !matches!(block, Block::Thinking { .. }));
    }
}

fn undone_marker(entry: &HistoryEntry) -> Option<Seq> {
    match &entry.what {
        HistoryItem::Undone(undone) => Some(undone.marker_seq),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Marker(_)
        | HistoryItem::Archived(_) => None,
    }
}

/// Returns the heading of a marker.
fn condensed(marker: &SummaryMarker) -> String {
    let SummaryMarker { replaced_count, first_seq, last_seq, tokens_before, tokens_after, .. } = marker;
    format!(
        "{replaced_count} messages condensed ({first_seq}–{last_seq}; {tokens_before} → {tokens_after} tokens; {}; {})",
        marker.trigger.as_str(),
        marker.model
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a summary as a quotation: its headings are none of the document.
fn quoted(summary: &str) -> String {
    summary.lines().map(|line| format!("> {line}\n")).collect()
}

const fn speaker(message: &Message) -> &'static str {
    match message {
        Message::Human(_) => "Human",
        Message::Ai(_) => "AI",
        Message::Tool(_) => "Tool",
    }
}

fn markdown(message: &Message) -> String {
    let mut text = String::new();
    for block in message.content() {
        match block {
            Block::Text { text: part } => {
                let _ = writeln!(text, "{part}");
            }
            Block::ToolCall { name, args, .. } => {
                let _ = writeln!(text, "`{name}` {args}");
            }
            Block::Media { media_type, .. } => {
                let _ = writeln!(text, "[{media_type}]");
            }
            Block::Thinking { .. } | Block::Opaque { .. } => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use journal::view::history;
    use protocol::{
        AssistantId, Compaction, CompactionTrigger, CompactionUndone, Event, EventType, NewEvent,
        RunFeedback, RunId, ThreadId,
    };

    use super::*;

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
            carry_over: protocol::CarryOver::default(),
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
    fn c6_d7_markers_what_was_taken_back_and_feedback_are_in_the_export() {
        let (thread_id, at, run_id) = (ThreadId::generate(), Timestamp::UNIX_EPOCH, RunId::generate());
        let undone = CompactionUndone { marker_seq: 3, clip_seqs: Vec::new() };
        let events = [
            NewEvent::message(&Message::human("Count."), at).unwrap(),
            NewEvent::message(&Message::ai("One."), at).unwrap(),
            NewEvent::new(EventType::Compacted, &compaction(), at).unwrap(),
            NewEvent::new(EventType::CompactionUndone, &undone, at).unwrap(),
        ];
        let stored = events.into_iter().zip(1..).map(|(event, seq)| Event::stored(event, thread_id, seq));
        let mut entries = history(&stored.collect::<Vec<_>>());
        entries[1].feedback = Some(Some(RunFeedback {
            thread_id,
            run_id,
            user_id: RunFeedback::LOCAL.to_owned(),
            rating: Rating::Up,
            comment: Some("good\n# one".to_owned()),
            created_at: at,
            updated_at: at,
        }));
        let markdown = export_markdown(&Thread::blank(thread_id, AssistantId::default(), at), &entries);
        for line in [
            "## 2 messages condensed (1–2; 900 → 300 tokens; manual; extractive), taken back · 3",
            "> # Not a heading",
            "_Feedback: thumb up: good # one_",
            "## Condensing taken back (marker 3) · 4",
        ] {
            assert!(markdown.lines().any(|found| found == line), "{line}: {markdown}");
        }
    }
}
