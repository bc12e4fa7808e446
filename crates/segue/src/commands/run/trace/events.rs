//! `segue trace --events`: every event of a run, one a line, as it was stored. It leaves nothing out and explains little.

use std::io::Write;
use std::time::Duration;

use agent::SummaryMarker;
use jiff::Timestamp;
use protocol::event::body::{ModelCalled, RunFailed, SubagentEnded, ToolCallDecided};
use protocol::message::joined_text;
use protocol::{
    ClippedResult, Compaction, CompactionFailed, Event, EventType, Message, Run, UnreadableBody, Usage,
};
use serde_json::Value;
use terminal::calls::{duration, outcome, title};
use terminal::marker::range;
use terminal::{Audience, one_line, pad, shorten, tokens};

use crate::cli::Format;
use crate::commands::Context;
use crate::commands::import::count;
use crate::exit::{Code, Outcome};

/// Events that are read at a time.
const READ_AT_ONCE: usize = 500;
/// Columns of a line where nobody measures the screen.
const COLUMNS_OF_A_FILE: usize = 200;
/// Columns of the time since the run began.
const TIME_COLUMNS: usize = 9;
/// Columns of an event's type.
const TYPE_COLUMNS: usize = 21;

pub(super) async fn run(context: &Context, prefix: &str) -> Outcome {
    let run = context.agent.runs().find(prefix).await?;
    if context.format == Format::Text {
        context.screen.line(context.screen.style.bold(head(&run)))?;
    }
    let mut after = 0;
    loop {
        let events = context.agent.runs().events_of(run.run_id, after, READ_AT_ONCE).await?;
        let Some(last) = events.last() else { return Ok(Code::Done) };
        after = last.seq;
        for event in &events {
            match context.format {
                Format::Json => {
                    let mut stdout = std::io::stdout().lock();
                    serde_json::to_writer(&mut stdout, event)?;
                    stdout.write_all(b"\n")?;
                }
                Format::Text => context.screen.line(line(context, event, run.created_at))?,
            }
        }
        if events.len() < READ_AT_ONCE {
            return Ok(Code::Done);
        }
    }
}

fn head(run: &Run) -> String {
    let model = run.model.as_deref().map(|model| format!(" · {}", one_line(model))).unwrap_or_default();
    let error =
        run.failure.as_ref().map(|failure| format!(": {}", one_line(&failure.message))).unwrap_or_default();
    format!("run {} of thread {}{model} · {}{error}", run.run_id, run.thread_id, run.status.as_str())
}

fn line(context: &Context, event: &Event, started: Timestamp) -> String {
    let screen = &context.screen;
    let millis = event.created_at.as_millisecond().saturating_sub(started.as_millisecond());
    let time = format!("+{}", duration(Duration::from_millis(u64::try_from(millis).unwrap_or(0))));
    let columns = match screen.audience {
        Audience::Person => screen.columns,
        Audience::Program => COLUMNS_OF_A_FILE,
    };
    let lead = format!("#{:<5} {}", event.seq, pad(&time, TIME_COLUMNS));
    let text = format!("{} {}", pad(&one_line(&event.event_type), TYPE_COLUMNS), about(event));
    let text = shorten(text.trim_end(), columns.saturating_sub(lead.len() + 1));
    format!("{} {text}", screen.style.dim(lead))
}

/// Returns what an event says, on one line.
fn about(event: &Event) -> String {
    if let Some(message) = event.message() {
        return said(&message);
    }
    described(event).ok().flatten().unwrap_or_else(|| match event.content_value() {
        Value::Object(fields) if fields.is_empty() => String::new(),
        Value::Null => String::new(),
        content => one_line(&content.to_string()),
    })
}

/// Returns a line about an event whose content is not shown as it is.
fn described(event: &Event) -> Result<Option<String>, UnreadableBody> {
    let line = match event.kind() {
        Some(EventType::Compacted) => condensed(&event.body::<Compaction>()?.into()),
        Some(EventType::CompactionFailed) => {
            let failed: CompactionFailed = event.body()?;
            fields([Some(failed.trigger.as_str()), Some(&failed.reason)])
        }
        Some(EventType::RunFailed) => {
            let RunFailed { failure, .. } = event.body()?;
            fields([Some(failure.kind.as_str()), Some(&failure.message)])
        }
        Some(EventType::ToolCallDecided) => {
            let decided: ToolCallDecided = event.body()?;
            let (tool, decision) = (Some(decided.tool.as_str()), Some(decided.decision.as_str()));
            fields([tool, decision, Some(&decided.by), decided.rule.as_deref()])
        }
        Some(EventType::ModelCalled) => {
            let called: ModelCalled = event.body()?;
            let line = fields([Some(called.purpose.as_str()), called.model.as_deref()]);
            format!("{line}{}", called.usage.as_ref().map(took).unwrap_or_default())
        }
        Some(EventType::SubagentEnded) => {
            let ended: SubagentEnded = event.body()?;
            format!("{}{}", fields([Some(ended.status.as_str()), ended.model.as_deref()]), took(&ended.usage))
        }
        Some(EventType::ResultClipped) => {
            let ClippedResult { seq, bytes, .. } = event.body()?;
            format!("result #{seq} of {bytes} bytes")
        }
        Some(_) | None => return Ok(None),
    };
    Ok(Some(line))
}

fn fields<const N: usize>(fields: [Option<&str>; N]) -> String {
    fields.into_iter().flatten().map(one_line).collect::<Vec<_>>().join(" · ")
}

fn said(message: &Message) -> String {
    match message {
        Message::Human(_) => one_line(&message.text()),
        Message::Ai(answer) => {
            let calls = message.tool_calls().map(|(_, name, args)| format!("→ {}", title(name, args)));
            let text = Some(one_line(&message.text())).filter(|text| !text.is_empty());
            let parts: Vec<String> = text.into_iter().chain(calls).collect();
            format!("{}{}", parts.join(" "), answer.usage.as_ref().map(took).unwrap_or_default())
        }
        Message::Tool(result) => {
            let name = one_line(result.name.as_deref().unwrap_or("tool"));
            format!("{name} · {}", outcome(result.status, &joined_text(&result.content), None))
        }
    }
}

fn condensed(marker: &SummaryMarker) -> String {
    format!(
        "{} {} · {} → {} tokens · {} · {}",
        count(marker.replaced_count, "message"),
        range(marker.first_seq, marker.last_seq),
        tokens(marker.tokens_before),
        tokens(marker.tokens_after),
        marker.trigger.as_str(),
        one_line(&marker.model)
    )
}

fn took(usage: &Usage) -> String {
    match usage.total_tokens() {
        0 => String::new(),
        _ => format!(" · {} in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)),
    }
}

#[cfg(test)]
mod tests {
    use protocol::NewEvent;
    use serde_json::json;

    use super::*;

    fn check(event_type: EventType, content: Value, expected: &str) {
        let new = NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
        let thread_id = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b".parse().unwrap();
        assert_eq!(about(&Event::stored(new, thread_id, 3)), expected);
    }

    #[test]
    fn every_event_is_told_on_one_line() {
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
