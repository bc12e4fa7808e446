//! The lines of `segue run --json`: one JSON object for each frame of a turn. `docs/src/run-json.md` documents them, and a test
//! compares the page with the code.

use agent::{Frame, FramePosition, RunEnd};
use protocol::message::StopReason;
use protocol::{Interrupt, RunId, ThreadId, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the format. It increases if an existing field or frame changes its meaning.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The first line of the output.
#[derive(Debug, Serialize)]
pub(crate) struct RunStartLine<'a> {
    /// Always `start`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Equals [`SCHEMA_VERSION`].
    schema_version: u32,
    /// The thread of the turn.
    thread_id: ThreadId,
    /// The model that is configured; `null` if no model is configured.
    model: Option<&'a str>,
}

impl<'a> RunStartLine<'a> {
    /// Returns the first line of a turn in a thread.
    pub(crate) fn new(thread_id: ThreadId, model: Option<&'a str>) -> Self {
        Self { kind: "start", schema_version: SCHEMA_VERSION, thread_id, model }
    }
}

/// The last line of the output.
#[derive(Debug, Serialize)]
pub(crate) struct RunResultLine<'a> {
    /// Always `result`.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// The status of the run: `success`, `interrupted`, `error`, `timeout` or `cancelled`.
    pub(crate) status: &'a str,
    /// The exit code of the process.
    pub(crate) exit_code: u8,
    /// The thread of the turn.
    pub(crate) thread_id: ThreadId,
    /// The run; `null` if no run was started.
    pub(crate) run_id: Option<RunId>,
    /// The text of the last answer.
    pub(crate) answer: &'a str,
    /// The reason why the model stopped after the last answer, if the provider reports it.
    pub(crate) stop: Option<StopReason>,
    /// The tokens of this run's own model calls, without those of sub-agents.
    pub(crate) usage: Usage,
    /// The cost of `usage`.
    pub(crate) cost: RunCost,
    /// The wall-clock time of the command, in milliseconds.
    pub(crate) duration_ms: u64,
    /// The interrupts that need a decision.
    pub(crate) interrupts: &'a [Interrupt],
    /// The command that answers the first interrupt.
    pub(crate) next_command: Option<&'a str>,
    /// The failure, in the form of every JSON error; `null` on success.
    pub(crate) error: Option<Value>,
}

/// The cost of this run's own model calls.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct RunCost {
    /// US dollars; `null` if the price is unknown.
    pub(crate) dollars: Option<f64>,
}

/// Returns whether a frame is printed. The runs, tool calls and notices of a sub-agent are printed, but its text is
/// not.
pub(crate) fn has_line(frame: &Frame) -> bool {
    let Frame::Subagent(subagent) = frame else { return true };
    matches!(
        *subagent.frame,
        Frame::RunStarted { .. }
            | Frame::ToolStarted { .. }
            | Frame::ToolEnded { .. }
            | Frame::Notice { .. }
            | Frame::AttemptFailed { .. }
            | Frame::RunEnded { .. }
    )
}

/// Returns the line of a frame: its position in the stream, then its own fields.
///
/// # Errors
/// Fails if the frame cannot be serialized.
pub(crate) fn frame_line(position: FramePosition, frame: &Frame) -> serde_json::Result<Value> {
    let mut line = positioned_line("frame", position);
    if let Value::Object(fields) = serde_json::to_value(frame)? {
        // The frame's own tag follows the position and comes before the fields that it describes.
        line.extend(fields);
    }
    Ok(Value::Object(line))
}

/// Returns the line about frames that were lost because the output was not read in time. `after` is the position of the
/// last frame before the gap.
pub(crate) fn gap_line(after: FramePosition) -> Value {
    Value::Object(positioned_line("gap", after))
}

/// Returns the common fields of lines with a position.
fn positioned_line(kind: &str, position: FramePosition) -> Map<String, Value> {
    Map::from_iter([
        ("type".to_owned(), Value::from(kind)),
        ("seq".to_owned(), Value::from(position.seq)),
        ("sub".to_owned(), Value::from(position.sub)),
    ])
}

/// Returns the `status` of the result line. Without a run, it follows from the exit code.
pub(crate) fn result_status(end: Option<&RunEnd>, code: crate::exit::ExitReason) -> &'static str {
    match end {
        Some(end) => end.status.as_str(),
        None if code == crate::exit::ExitReason::Undecided => "interrupted",
        None => "error",
    }
}

#[cfg(test)]
mod tests {
    use agent::Frame;
    use protocol::{
        ActionRequest, CarriedFacts, Compaction, CompactionTrigger, CondensedSummary, Event, EventType,
        InterruptId, InterruptPayload, InterruptStatus, Message, NewEvent, ReviewConfig, RunStatus,
    };
    use serde_json::json;

    use super::*;

    /// The page of the book that documents the JSON.
    const PAGE: &str = include_str!("../../../../../docs/src/run-json.md");

    /// Returns an id of any kind that ends in this byte.
    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    /// Returns a pending interrupt about one command.
    fn interrupt() -> Interrupt {
        Interrupt {
            interrupt_id: InterruptId::derive(id(2), 1, "tools"),
            thread_id: id(1),
            run_id: id(2),
            node: "tools".to_owned(),
            payload: InterruptPayload {
                schema_version: 1,
                middleware_source: "ToolApprovalMiddleware".to_owned(),
                action_requests: vec![ActionRequest {
                    name: "execute".to_owned(),
                    description: "Run a command".to_owned(),
                    args: json!({"command": "make"}),
                    details: None,
                }],
                review_configs: vec![ReviewConfig {
                    action_name: "execute".to_owned(),
                    allowed_decisions: vec!["approve".to_owned(), "reject".to_owned()],
                }],
                workspace: None,
            },
            status: InterruptStatus::Pending,
            decisions: None,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            resolved_at: None,
        }
    }

    /// Returns the frames of a compaction and of a failed one.
    fn compaction_frames() -> [Frame; 2] {
        let compaction = Compaction {
            schema_version: 1,
            trigger: CompactionTrigger::Auto,
            first_seq: 1,
            last_seq: 2,
            replaced_count: 2,
            kept_count: 1,
            tokens_before: 150_240,
            tokens_after: 18_120,
            model: "anthropic/x".to_owned(),
            summary: "### Goal\nMend the kettle.\n".to_owned(),
            sections: CondensedSummary { goal: "Mend the kettle.".to_owned(), ..CondensedSummary::default() },
            carried: CarriedFacts::default(),
            last_request_seq: None,
            previous_seq: None,
            focus: None,
            duration_ms: 2_300,
            step: 1,
            usage: Usage::default(),
            prompt_sha256: None,
        };
        let failed = json!({"trigger": "auto", "reason": "the request would not become smaller"});
        let stored = |event_type, content: &Value| {
            let mut new = NewEvent::new(event_type, content, jiff::Timestamp::UNIX_EPOCH).unwrap();
            (new.event_id, new.run_id) = (id(3), Some(id(2)));
            Frame::Event(Box::new(Event::from_new(new, id(1), 3)))
        };
        [
            stored(EventType::Compacted, &serde_json::to_value(compaction).unwrap()),
            stored(EventType::CompactionFailed, &failed),
        ]
    }

    /// Returns every kind of frame, in the order of the page.
    fn frames() -> Vec<Frame> {
        let [compacted, failed] = compaction_frames();
        let mut new = NewEvent::from_message(&Message::human("hi"), jiff::Timestamp::UNIX_EPOCH).unwrap();
        new.event_id = id(3);
        assert_eq!(new.event_type, EventType::HumanMessage);
        vec![
            Frame::RunStarted { thread_id: id(1), run_id: id(2) },
            Frame::StepStarted { node: "model".to_owned(), step: 1 },
            Frame::Text { message_id: id::<RunId>(5).to_string(), text: "Hel".to_owned() },
            Frame::Thinking { message_id: id::<RunId>(5).to_string(), text: "Hm".to_owned() },
            Frame::ToolCall {
                message_id: id::<RunId>(5).to_string(),
                index: 0,
                call_id: "c1".to_owned(),
                name: "ls".to_owned(),
            },
            Frame::ToolStarted {
                call_id: "c1".to_owned(),
                name: "ls".to_owned(),
                args: json!({"path": "."}),
            },
            Frame::ToolOutput { call_id: "c1".to_owned(), text: "a line\n".to_owned() },
            Frame::ToolEnded { call_id: "c1".to_owned(), name: "ls".to_owned(), failed: false },
            Frame::Custom { name: "subagent".to_owned(), value: json!({"call_id": "c1"}) },
            Frame::Updates {
                node: "tools".to_owned(),
                channels: Map::from_iter([("todos".to_owned(), json!([]))]),
            },
            Frame::Values {
                run_id: id(2),
                step: 2,
                checkpoint_id: id(4),
                head_seq: 3,
                next: Some("model".to_owned()),
                channels: Map::new(),
            },
            Frame::Progress { what: "reading".to_owned(), done: 1, total: Some(2) },
            Frame::Notice { text: "something to know".to_owned() },
            Frame::Event(Box::new(Event::from_new(new, id(1), 3))),
            compacted,
            failed,
            Frame::Interrupted(Box::new(interrupt())),
            Frame::RunEnded { run_id: id(2), status: RunStatus::Success, failure: None },
        ]
    }

    #[test]
    fn i4_the_page_shows_the_json_of_every_kind_of_line() {
        let position = FramePosition { seq: 3, sub: 1 };
        let interrupts = [interrupt()];
        let report = RunResultLine {
            kind: "result",
            status: "success",
            exit_code: 0,
            thread_id: id(1),
            run_id: Some(id(2)),
            answer: "Hello",
            stop: Some(StopReason::EndTurn),
            usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
            cost: RunCost { dollars: Some(0.0001) },
            duration_ms: 12,
            interrupts: &interrupts[..0],
            next_command: None,
            error: None,
        };
        let mut lines = vec![serde_json::to_string(&RunStartLine::new(id(1), Some("anthropic/x"))).unwrap()];
        for frame in frames() {
            let is_event = matches!(frame, Frame::Event(_));
            let frame_position = if is_event { FramePosition { seq: 3, sub: 0 } } else { position };
            lines.push(frame_line(frame_position, &frame).unwrap().to_string());
        }
        lines.push(gap_line(position).to_string());
        lines.push(serde_json::to_string(&report).unwrap());
        let shown: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("{\"type\":")).collect();
        assert_eq!(shown, lines, "docs/src/run-json.md must show:\n{}", lines.join("\n"));
    }
}
