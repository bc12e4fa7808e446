//! `segue trace --events`: all events of a run in the order in which they were stored, one event on each line.

use std::time::Duration;

use agent::SummaryMarker;
use jiff::Timestamp;
use protocol::event::body::{ModelCalled, RunFailed, SubagentEnded, ToolCallDecided};
use protocol::message::joined_text;
use protocol::{
    ClippedResult, Compaction, CompactionFailed, Event, EventBodyError, EventType, Message, Run, Usage,
};
use serde_json::Value;
use terminal::marker::format_seq_range;
use terminal::tool_calls::{format_duration, outcome_text, title};
use terminal::{Audience, format_tokens, pad, sanitize_line, shorten};

use crate::cli::OutputFormat;
use crate::commands::CommandContext;
use crate::commands::import::format_count;
use crate::exit::{CommandResult, ExitReason};

/// The number of events that one query reads.
const PAGE_EVENTS: usize = 500;
/// The width of a line, in columns, if the output is not a terminal.
const FILE_COLUMNS: usize = 200;
/// The width of the time since the start of the run, in columns.
const TIME_COLUMNS: usize = 9;
/// The width of an event's type, in columns.
const TYPE_COLUMNS: usize = 21;

/// Prints the events of the run whose id begins with `prefix`.
///
/// # Errors
/// Fails if no such run exists, the journal cannot be read, or stdout cannot be written.
pub(super) async fn run(context: &CommandContext, prefix: &str) -> CommandResult {
    let run = context.agent.runs().find(prefix).await?;
    if context.format == OutputFormat::Text {
        context.screen.print_line(context.screen.style.bold(run_heading(&run)))?;
    }
    let mut after = 0;
    loop {
        let events = context.agent.runs().run_events(run.run_id, after, PAGE_EVENTS).await?;
        let Some(last) = events.last() else { return Ok(ExitReason::Success) };
        after = last.seq;
        for event in &events {
            match context.format {
                OutputFormat::Json => {
                    context.print_json(event)?;
                }
                OutputFormat::Text => {
                    context.screen.print_line(event_line(context, event, run.created_at))?
                }
            }
        }
        if events.len() < PAGE_EVENTS {
            return Ok(ExitReason::Success);
        }
    }
}

/// Returns the heading: the run, its thread, model, status and failure.
fn run_heading(run: &Run) -> String {
    let model = run.model.as_deref().map(|model| format!(" · {}", sanitize_line(model))).unwrap_or_default();
    let error = run
        .failure
        .as_ref()
        .map(|failure| format!(": {}", sanitize_line(&failure.message)))
        .unwrap_or_default();
    format!("run {} of thread {}{model} · {}{error}", run.run_id, run.thread_id, run.status.as_str())
}

/// Returns the line of an event: its number, the time since the start of the run, its type and content.
/// A line is shortened to the terminal. In a file, it has at most [`FILE_COLUMNS`] columns.
fn event_line(context: &CommandContext, event: &Event, started: Timestamp) -> String {
    let screen = &context.screen;
    let millis = event.created_at.as_millisecond().saturating_sub(started.as_millisecond());
    let time = format!("+{}", format_duration(Duration::from_millis(u64::try_from(millis).unwrap_or(0))));
    let columns = match screen.audience {
        Audience::Person => screen.columns,
        Audience::Program => FILE_COLUMNS,
    };
    let lead = format!("#{:<5} {}", event.seq, pad(&time, TIME_COLUMNS));
    let text = format!("{} {}", pad(&sanitize_line(&event.event_type), TYPE_COLUMNS), event_text(event));
    let text = shorten(text.trim_end(), columns.saturating_sub(lead.len() + 1));
    format!("{} {text}", screen.style.dim(lead))
}

/// Returns the content of an event on one line.
fn event_text(event: &Event) -> String {
    if let Some(message) = event.message() {
        return message_text(&message);
    }
    describe_body(event).ok().flatten().unwrap_or_else(|| match event.content_value() {
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Null => String::new(),
        content => sanitize_line(&content.to_string()),
    })
}

/// Returns a description of an event whose content is not printed as JSON; `None` for every other event.
///
/// # Errors
/// Fails if the content does not have the form of the event's type.
/// Other events are printed as compact JSON, which needs no code for each type.
fn describe_body(event: &Event) -> Result<Option<String>, EventBodyError> {
    let line = match event.kind() {
        Some(EventType::Compacted) => compaction_text(&event.body::<Compaction>()?.into()),
        Some(EventType::CompactionFailed) => {
            let failed: CompactionFailed = event.body()?;
            join_fields([Some(failed.trigger.as_str()), Some(&failed.reason)])
        }
        Some(EventType::RunFailed) => {
            let RunFailed { failure, .. } = event.body()?;
            join_fields([Some(failure.kind.as_str()), Some(&failure.message)])
        }
        Some(EventType::ToolCallDecided) => {
            let decided: ToolCallDecided = event.body()?;
            let (tool, decision) = (Some(decided.tool.as_str()), Some(decided.decision.as_str()));
            join_fields([tool, decision, Some(&decided.by), decided.rule.as_deref()])
        }
        Some(EventType::ModelCalled) => {
            let called: ModelCalled = event.body()?;
            let line = join_fields([Some(called.purpose.as_str()), called.model.as_deref()]);
            format!("{line}{}", called.usage.as_ref().map(usage_text).unwrap_or_default())
        }
        Some(EventType::SubagentEnded) => {
            let ended: SubagentEnded = event.body()?;
            format!(
                "{}{}",
                join_fields([Some(ended.status.as_str()), ended.model.as_deref()]),
                usage_text(&ended.usage)
            )
        }
        Some(EventType::ResultClipped) => {
            let ClippedResult { seq, bytes, .. } = event.body()?;
            format!("result #{seq} of {bytes} bytes")
        }
        Some(_) | None => return Ok(None),
    };
    Ok(Some(line))
}

/// Returns the fields that are present, separated by dots.
fn join_fields<const N: usize>(fields: [Option<&str>; N]) -> String {
    fields.into_iter().flatten().map(sanitize_line).collect::<Vec<_>>().join(" · ")
}

/// Returns a message on one line: its text and its tool calls, or the outcome of a tool.
fn message_text(message: &Message) -> String {
    match message {
        Message::Human(_) => sanitize_line(&message.text()),
        Message::Ai(answer) => {
            let calls = message.tool_calls().map(|(_, name, args)| format!("→ {}", title(name, args)));
            let text = Some(sanitize_line(&message.text())).filter(|text| !text.is_empty());
            let parts: Vec<String> = text.into_iter().chain(calls).collect();
            format!("{}{}", parts.join(" "), answer.usage.as_ref().map(usage_text).unwrap_or_default())
        }
        Message::Tool(result) => {
            let name = sanitize_line(result.name.as_deref().unwrap_or("tool"));
            format!("{name} · {}", outcome_text(result.status, &joined_text(&result.content), None))
        }
    }
}

/// Returns a compaction on one line: the compacted messages, tokens, trigger and model.
fn compaction_text(marker: &SummaryMarker) -> String {
    format!(
        "{} {} · {} → {} tokens · {} · {}",
        format_count(marker.replaced_count, "message"),
        format_seq_range(marker.first_seq, marker.last_seq),
        format_tokens(marker.tokens_before),
        format_tokens(marker.tokens_after),
        marker.trigger.as_str(),
        sanitize_line(&marker.model)
    )
}

/// Returns the tokens with a leading separator; empty if no tokens were used.
fn usage_text(usage: &Usage) -> String {
    match usage.total_tokens() {
        0 => String::new(),
        _ => {
            format!(" · {} in, {} out", format_tokens(usage.input_tokens), format_tokens(usage.output_tokens))
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::NewEvent;
    use serde_json::json;

    use super::*;

    /// Checks the text of an event with this type and content.
    fn check(event_type: EventType, content: Value, expected: &str) {
        let new = NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
        let thread_id = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b".parse().unwrap();
        assert_eq!(event_text(&Event::from_new(new, thread_id, 3)), expected);
    }

    /// Newlines and escape sequences in stored texts must not reach the terminal.
    #[test]
    fn every_event_is_shown_on_one_line() {
        check(
            EventType::HumanMessage,
            json!({"type": "human", "content": [{"type": "text", "text": "a\nb"}]}),
            "a b",
        );
        check(EventType::RunStarted, json!({"model": "a/b"}), r#"{"model":"a/b"}"#);
        check(EventType::RunStopRequested, json!({}), "");
        check(
            EventType::RunFailed,
            json!({"kind": "model", "message": "no\u{1b}[2J\nway"}),
            "model · no way",
        );
        check(
            EventType::ModelCalled,
            json!({"purpose": "compaction", "model": "a/b", "usage": {"input_tokens": 12_000, "output_tokens": 40,
                   "cache_read_tokens": 0, "cache_write_tokens": 0}}),
            "compaction · a/b · 12.0k in, 40 out",
        );
        check(
            EventType::CompactionFailed,
            json!({"trigger": "auto", "reason": "it did not help"}),
            "auto · it did not help",
        );
        check(
            EventType::ResultClipped,
            json!({"seq": 7, "call_id": "c", "sha256": "ab", "bytes": 900, "text": "…"}),
            "result #7 of 900 bytes",
        );
    }
}
