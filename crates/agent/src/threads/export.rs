//! The history of a thread as Markdown for people, and as JSON. Reasoning of models is left out. This module
//! reads nothing; callers pass the entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use journal::view::{ArchiveMarker, HistoryEntry, HistoryItem, SummaryMarker};
use protocol::{ContentBlock, Message, Rating, Seq, Thread};
use serde_json::json;

use crate::HandoffOrigin;

/// Returns the history as Markdown for people, without reasoning. It begins with the packages that were handed to the thread,
/// which its requests contain and its messages do not.
pub fn export_markdown(thread: &Thread, origins: &[HandoffOrigin], entries: &[HistoryEntry]) -> String {
    let mut out = format!("# {}\n", thread.name.as_deref().unwrap_or("Thread"));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\nThread `{}`\n", thread.thread_id);
    for origin in origins {
        let package = origin.updated.as_ref().unwrap_or(&origin.proposal);
        let parent = origin.handoff.parent_thread_id;
        let _ = writeln!(out, "## Continues thread `{parent}`\n\n{}\n", quote_summary(&package.package_md));
    }
    let undone: BTreeSet<Seq> = entries.iter().filter_map(undone_marker_seq).collect();
    for entry in entries {
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
                let heading =
                    format!("{turn_count} messages moved to memory ({first_seq}–{last_seq}; {model})");
                (heading, quote_summary(&archived.summary))
            }
            HistoryItem::Audit(audit) => ("Event".to_owned(), format!("_{}_", to_one_line(&audit.text))),
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
    out
}

/// Returns the thread and its history as JSON, without reasoning.
///
/// # Errors
/// Fails if a value cannot be serialized as JSON.
pub fn export_json(thread: &Thread, mut entries: Vec<HistoryEntry>) -> serde_json::Result<String> {
    entries.iter_mut().for_each(remove_reasoning);
    Ok(serde_json::to_string_pretty(&json!({"thread": thread, "history": entries}))? + "\n")
}

/// Removes the reasoning from a model's message, because it is not part of the conversation.
fn remove_reasoning(entry: &mut HistoryEntry) {
    if let HistoryItem::Message(Message::Ai(answer)) = &mut entry.item {
        answer.content.retain(|block| !matches!(block, ContentBlock::Thinking { .. }));
    }
}

/// Returns the seq of the compaction boundary that the entry undoes; `None` for other entries.
fn undone_marker_seq(entry: &HistoryEntry) -> Option<Seq> {
    match &entry.item {
        HistoryItem::Undone(undone) => Some(undone.marker_seq),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Marker(_)
        | HistoryItem::Archived(_)
        | HistoryItem::Audit(_) => None,
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
        AssistantId, Compaction, CompactionTrigger, CompactionUndone, Event, EventType, NewEvent,
        RunFeedback, RunId, ThreadId,
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
        let markdown = export_markdown(&Thread::blank(thread_id, AssistantId::default(), now), &[], &entries);
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
