//! Tests of the translator with both encoders: one turn with a tool call in each mode and channel, and data that must
//! never be sent.

use agent::{StateOrigin, client_channels};
use protocol::{
    AiMessage, CheckpointId, ContentBlock, EventType, HumanMessage, InterruptId, InterruptPayload,
    InterruptStatus, NewEvent, RunFailure, ThreadId, ToolMessage, ToolStatus, Usage,
};
use uuid::Uuid;

use super::*;
use crate::events::filter::EventFilterBody;
use crate::events::writer::ChannelWriter;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::mode::StreamModes;
use crate::modes::writer::{EventIds, ModeWriter};
use crate::streams::follow::StreamWriter;

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(0x018f_0000_0000_7000_8000_0000_0000_0000 | number)
}

fn thread_id() -> ThreadId {
    ThreadId::from_uuid(uuid(1))
}

fn run_id() -> RunId {
    RunId::from_uuid(uuid(2))
}

fn timestamp_at(seq: Seq) -> Timestamp {
    Timestamp::from_second(1_763_784_000 + i64::try_from(seq).unwrap()).unwrap()
}

fn root_origin(subgraphs: SubgraphStreaming) -> RunOrigin {
    RunOrigin {
        thread_id: thread_id(),
        namespace: "".into(),
        call_id: None,
        message_thread_id: thread_id(),
        run_id: run_id(),
        graph_id: "agent".to_owned(),
        assistant_id: "fe096781-5601-53d2-b2f6-0d3403f7e9ca".to_owned(),
        metadata: Map::new(),
        tags: vec!["mine".to_owned()],
        subgraphs,
    }
}

/// A scripted run: its frames with their positions, and the events in the journal.
#[derive(Default)]
struct FramePlayer {
    frames: Vec<(FramePosition, Frame)>,
    events: Vec<Event>,
    position: FramePosition,
}

impl FramePlayer {
    fn push_frame(mut self, frame: Frame) -> Self {
        self.position = match &frame {
            Frame::Event(event) => FramePosition { seq: event.seq, sub: 0 },
            _ => FramePosition { sub: self.position.sub + 1, ..self.position },
        };
        self.frames.push((self.position, frame));
        self
    }

    fn push_event(mut self, new: NewEvent) -> Self {
        let seq = self.events.last().map_or(0, |event| event.seq) + 1;
        let new = NewEvent { created_at: timestamp_at(seq), ..new.with_run(run_id()) };
        self.events.push(Event::from_new(new, thread_id(), seq));
        self
    }

    fn push_message(self, message: &Message) -> Self {
        let player = self.push_event(NewEvent::from_message(message, timestamp_at(0)).unwrap());
        let event = player.events.last().cloned().unwrap();
        player.push_frame(Frame::Event(Box::new(event)))
    }

    fn push_custom_event(self, kind: EventType, content: &Value) -> Self {
        let player = self.push_event(NewEvent::new(kind, content, timestamp_at(0)).unwrap());
        let event = player.events.last().cloned().unwrap();
        player.push_frame(Frame::Event(Box::new(event)))
    }

    /// Returns a run that starts with a message of the user.
    fn start_run(text: &str) -> Self {
        let human = HumanMessage { id: Some("h-1".to_owned()), ..HumanMessage::text(text) };
        let mut player = Self::default()
            .push_event(NewEvent::from_message(&Message::Human(human), timestamp_at(0)).unwrap());
        player.position = FramePosition { seq: 1, sub: 0 };
        player
            .push_frame(Frame::RunStarted { thread_id: thread_id(), run_id: run_id() })
            .push_values(0, "model")
    }

    fn push_values(self, step: u64, next: &str) -> Self {
        let head_seq = self.events.last().map_or(0, |event| event.seq);
        self.push_frame(Frame::Values {
            run_id: run_id(),
            step,
            checkpoint_id: CheckpointId::from_uuid(uuid(u128::from(step) + 0x1000)),
            head_seq,
            next: Some(next.to_owned()).filter(|next| !next.is_empty()),
            channels: Map::from_iter([("tools_wanted".to_owned(), Value::from(true))]),
        })
    }

    fn push_step(self, node: &str, step: u64) -> Self {
        self.push_frame(Frame::StepStarted { node: node.to_owned(), step })
    }

    fn push_text(self, id: &str, text: &str) -> Self {
        self.push_frame(Frame::Text { message_id: id.to_owned(), text: text.to_owned() })
    }

    fn push_updates(self, node: &str, channels: &Value) -> Self {
        let channels = channels.as_object().cloned().unwrap_or_default();
        self.push_frame(Frame::Updates { node: node.to_owned(), channels })
    }

    fn push_end(self, status: RunStatus, error: Option<&str>) -> Self {
        let failure = RunFailure::from_stored_text(status, error);
        self.push_frame(Frame::RunEnded { run_id: run_id(), status, failure })
    }

    /// Returns one turn: the model reasons, writes text, calls a tool, and answers.
    fn full_turn() -> Self {
        let call =
            ContentBlock::ToolCall { id: "c1".into(), name: "read_file".into(), args: json!({"path": "a"}) };
        let thinking = ContentBlock::Thinking { text: "hm".into(), provider: None, raw: None };
        let usage = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
        let answer = AiMessage {
            id: Some("m-1".to_owned()),
            content: vec![thinking, ContentBlock::text("I look."), call],
            usage: Some(usage),
            ..AiMessage::default()
        };
        let result = ToolMessage {
            id: None,
            call_id: "c1".into(),
            name: Some("read_file".into()),
            content: vec![ContentBlock::text("a row")],
            status: ToolStatus::Success,
        };
        let last = AiMessage {
            id: Some("m-2".to_owned()),
            content: vec![ContentBlock::text("Done.")],
            ..AiMessage::default()
        };
        let (id, args) = ("m-1".to_owned(), json!({"path": "a"}));
        Self::start_run("hi")
            .push_step("before_agent", 1)
            .push_step("model", 1)
            .push_frame(Frame::Thinking { message_id: id.clone(), text: "hm".into() })
            .push_text("m-1", "I ")
            .push_text("m-1", "look.")
            .push_frame(Frame::ToolCall {
                message_id: id,
                index: 0,
                call_id: "c1".into(),
                name: "read_file".into(),
            })
            .push_message(&Message::Ai(answer))
            .push_updates("model", &json!({"tools_wanted": true}))
            .push_values(1, "tools")
            .push_step("after_model", 2)
            .push_step("tools", 2)
            .push_frame(Frame::ToolStarted { call_id: "c1".into(), name: "read_file".into(), args })
            .push_frame(Frame::Custom { name: "progress".into(), value: json!({"rows": 1}) })
            .push_frame(Frame::ToolEnded { call_id: "c1".into(), name: "read_file".into(), failed: false })
            .push_message(&Message::Tool(result))
            .push_updates("tools", &json!({"tools_wanted": null}))
            .push_values(2, "model")
            .push_step("model", 3)
            .push_text("m-2", "Done.")
            .push_message(&Message::Ai(last))
            .push_updates("model", &json!({"tools_wanted": false}))
            .push_values(3, "after_agent")
            .push_step("mark_first_handoff_turn", 4)
            .push_updates("mark_first_handoff_turn", &json!({}))
            .push_values(4, "")
            .push_end(RunStatus::Success, None)
    }

    /// Returns a run whose sub-agent has lost its first frames and fails, and that stops with two interrupts.
    fn subagent_run() -> Self {
        let subagent_frame = |frame| {
            Frame::Subagent(SubagentFrame {
                call_id: "c9".into(),
                thread_id: thread_id(),
                frame: Box::new(frame),
            })
        };
        let failed = ToolMessage {
            id: None,
            call_id: "c9".into(),
            name: None,
            content: vec![ContentBlock::text("no")],
            status: ToolStatus::Error,
        };
        Self::start_run("hi")
            .push_step("tools", 1)
            .push_frame(subagent_frame(Frame::StepStarted { node: "model".into(), step: 1 }))
            .push_frame(subagent_frame(Frame::Text { message_id: "m-9".into(), text: "I ".into() }))
            .push_frame(subagent_frame(Frame::Thinking { message_id: "m-9".into(), text: "look.".into() }))
            .push_frame(subagent_frame(Frame::Notice { text: "note".into() }))
            .push_frame(subagent_frame(Frame::RunEnded {
                run_id: run_id(),
                status: RunStatus::Error,
                failure: RunFailure::from_stored_text(RunStatus::Error, Some("call the model")),
            }))
            .push_frame(Frame::ToolOutput { call_id: "c9".into(), text: "row".into() })
            .push_frame(Frame::Progress { what: "reading".into(), done: 1, total: None })
            .push_message(&Message::Tool(failed))
            .push_frame(Frame::Interrupted(Box::new(interrupt())))
            .push_frame(Frame::Interrupted(Box::new(interrupt())))
            .push_end(RunStatus::Interrupted, None)
    }

    fn state_at(&self, checkpoint_id: CheckpointId, head_seq: Seq) -> ThreadSnapshot {
        let number = i64::try_from(checkpoint_id.uuid().as_u128() & 0xfff).unwrap();
        let messages =
            self.events.iter().filter(|event| event.seq <= head_seq).filter_map(StateMessage::from_event);
        ThreadSnapshot {
            checkpoint_id,
            parent_id: Some(CheckpointId::from_uuid(uuid(0xfff + u128::try_from(number).unwrap()))),
            origin: StateOrigin::Step,
            number,
            run_id: Some(run_id()),
            next: Vec::new(),
            messages: messages.map(Arc::new).collect(),
            channels: Map::new(),
            interrupts: Vec::new(),
            error: None,
            created_at: timestamp_at(head_seq),
            run_metadata: Map::new(),
        }
    }

    /// Returns the stream for a client of modes, from the event after `after`.
    fn render_modes(&self, modes: &[&str], subgraphs: SubgraphStreaming, after: Option<EventId>) -> String {
        let mut out =
            ModeWriter::new(StreamModes::from_names(modes.iter().copied()).unwrap(), EventIds::Sent);
        if let Some(after) = after {
            out.mark_received(after);
        }
        self.translate(
            &mut RunTranslator::new(root_origin(subgraphs), PartialMessagePolicy::Complete),
            &mut out,
        );
        String::from_utf8(out.take_bytes().to_vec()).unwrap()
    }

    /// Returns the stream for a client of channels.
    fn render_channels(&self, channels: &[&str]) -> String {
        let body: EventFilterBody = serde_json::from_value(json!({"channels": channels})).unwrap();
        let mut out = ChannelWriter::new(body.into_filter().unwrap());
        out.begin_run(run_id(), timestamp_at(0));
        self.translate(
            &mut RunTranslator::new(root_origin(SubgraphStreaming::Included), PartialMessagePolicy::Repeat),
            &mut out,
        );
        String::from_utf8(out.take_bytes().to_vec()).unwrap()
    }

    fn translate(&self, translator: &mut RunTranslator, encoder: &mut impl Encoder) {
        for (position, frame) in &self.frames {
            let head =
                self.events.iter().map(|event| event.seq).take_while(|seq| *seq <= position.seq).last();
            match translator.query_for_frame(*position, frame, encoder) {
                JournalQuery::Nothing | JournalQuery::Admission(..) => {}
                JournalQuery::Messages(_, seq) => {
                    let events = self.events.iter().filter(|event| event.seq <= seq);
                    let messages = events.filter_map(StateMessage::from_event).map(Arc::new).collect();
                    translator.supply(frame, JournalReply::Messages(messages));
                }
                JournalQuery::Checkpoints(_, id) => {
                    let points =
                        CheckpointStates { state: self.state_at(id, head.unwrap_or(0)), input: None };
                    translator.supply(frame, JournalReply::Checkpoints(Box::new(points)));
                }
            }
            translator.translate_frame(*position, frame, encoder);
        }
    }

    fn render_all(&self, modes: &[&str]) -> String {
        self.render_modes(modes, SubgraphStreaming::Excluded, None)
    }
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

fn data_of(text: &str, name: &str) -> Vec<Value> {
    let events = text.split("\n\n").filter(|event| event.starts_with(&format!("event: {name}\n")));
    let data = events.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn s9_one_turn_with_a_tool_in_every_mode() {
    for mode in ["values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"]
    {
        insta::assert_snapshot!(mode, FramePlayer::full_turn().render_all(&[mode]));
    }
}

/// The channels in which a run has events.
const CHANNELS: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom", "history"];

#[test]
fn s19_one_turn_with_a_tool_in_every_channel() {
    insta::assert_snapshot!("channels", FramePlayer::full_turn().render_channels(&CHANNELS));
}

#[test]
fn s19_channels_show_subagents_interrupts_and_lost_frames() {
    insta::assert_snapshot!("channels_of_a_subagent", FramePlayer::subagent_run().render_channels(&CHANNELS));
}

#[test]
fn s19_the_number_of_an_event_does_not_depend_on_the_other_requested_channels() {
    let all = FramePlayer::full_turn().render_channels(&CHANNELS);
    let events: Vec<&str> = all.split_inclusive("\n\n").collect();
    for channel in CHANNELS {
        for event in FramePlayer::full_turn().render_channels(&[channel]).split_inclusive("\n\n") {
            assert!(events.contains(&event), "{channel}: {event}");
        }
    }
}

#[test]
fn i1_the_id_of_an_event_does_not_depend_on_the_other_requested_modes() {
    let modes =
        ["values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"];
    let all = FramePlayer::full_turn().render_all(&modes);
    let events: Vec<&str> = all.split_inclusive("\n\n").collect();
    for mode in modes {
        for event in FramePlayer::full_turn().render_all(&[mode]).split_inclusive("\n\n") {
            assert!(events.contains(&event), "{mode}: {event}");
        }
    }
    let cursors: Vec<_> = ids(&all).into_iter().map(|id| Cursor::parse(id).unwrap()).collect();
    let ids: Vec<EventId> = cursors
        .into_iter()
        .map(|cursor| match cursor {
            Cursor::After(id) => id,
            Cursor::Beginning | Cursor::Foreign => unreachable!("an id of ours"),
        })
        .collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    // A stream that starts after an event contains exactly the events that followed it.
    for (index, id) in ids.iter().enumerate() {
        let remaining = FramePlayer::full_turn().render_modes(&modes, SubgraphStreaming::Excluded, Some(*id));
        assert_eq!(remaining, events[index + 1..].concat(), "after {id}");
    }
}

#[test]
fn i4_the_deltas_add_up_to_the_message_and_usage_is_sent_once() {
    let messages = data_of(&FramePlayer::full_turn().render_all(&["messages-tuple"]), "messages");
    let of = |id: &str| messages.iter().filter(move |data| data[0]["id"] == id).collect::<Vec<_>>();
    let text = |id: &str| of(id).iter().map(|data| data[0]["content"].as_str().unwrap()).collect::<String>();
    assert_eq!((text("m-1").as_str(), text("m-2").as_str()), ("I look.", "Done."));
    assert_eq!(of("m-1").iter().filter(|data| !data[0]["usage_metadata"].is_null()).count(), 1);
    let chunks: Vec<&Value> =
        of("m-1").into_iter().flat_map(|data| data[0]["tool_call_chunks"].as_array().unwrap()).collect();
    let args: String = chunks.iter().map(|chunk| chunk["args"].as_str().unwrap()).collect();
    assert_eq!(args, r#"{"path":"a"}"#);
    assert_eq!(chunks.iter().filter(|chunk| chunk["name"] == "read_file").count(), 1);
    assert!(messages.iter().all(|data| data[0]["id"].is_string()), "a message without an id is dropped");
}

#[test]
fn c8_the_summary_of_a_compaction_is_not_sent_as_a_message() {
    let summary = json!({"summary": "they spoke of rows"});
    let player = FramePlayer::start_run("hi")
        .push_step("compaction", 1)
        .push_frame(Frame::Progress { what: "compacting".into(), done: 1, total: Some(2) })
        .push_custom_event(EventType::Compacted, &summary)
        .push_updates("compaction", &json!({}))
        .push_values(1, "model")
        .push_end(RunStatus::Success, None);
    let stream = player.render_all(&["messages-tuple", "messages", "updates", "values"]);
    assert!(!stream.contains("rows"), "{stream}");
    assert_eq!(data_of(&stream, "values").len(), 1, "the state did not change for clients");
    assert_eq!(data_of(&stream, "updates"), Vec::<Value>::new());
}

fn interrupt() -> Interrupt {
    Interrupt {
        interrupt_id: InterruptId::derive(run_id(), 2, "after_model"),
        thread_id: thread_id(),
        run_id: run_id(),
        node: "after_model".to_owned(),
        payload: InterruptPayload {
            schema_version: 1,
            middleware_source: "ToolApproval".to_owned(),
            action_requests: Vec::new(),
            review_configs: Vec::new(),
            workspace: None,
        },
        status: InterruptStatus::Pending,
        decisions: None,
        created_at: timestamp_at(1),
        resolved_at: None,
    }
}

#[test]
fn s12_1_interrupts_are_sent_with_the_complete_state() {
    let player = FramePlayer::start_run("hi")
        .push_frame(Frame::Interrupted(Box::new(interrupt())))
        .push_end(RunStatus::Interrupted, None);
    let stream = player.render_all(&["values", "updates", "messages-tuple"]);
    let updates = data_of(&stream, "updates");
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["__interrupt__"][0]["id"], interrupt().interrupt_id.to_string());
    let values = data_of(&stream, "values");
    assert_eq!(values.last().unwrap()["__interrupt__"], updates[0]["__interrupt__"]);
    assert_eq!(values.last().unwrap()["messages"][0]["content"], "hi", "s22_11");
    assert!(values[0].get("__interrupt__").is_none());
    assert!(data_of(&stream, "messages").is_empty());
    let breakpoint = FramePlayer::start_run("hi")
        .push_end(RunStatus::Interrupted, None)
        .render_all(&["updates", "values"]);
    assert_eq!(data_of(&breakpoint, "updates"), [json!({"__interrupt__": []})]);
    assert_eq!(data_of(&breakpoint, "values").len(), 1);
}

#[test]
fn s8_a_failure_is_an_error_event_and_a_cancellation_is_not() {
    let check = |status, error: Option<&str>, expected: &[Value]| {
        let stream = FramePlayer::start_run("hi").push_end(status, error).render_all(&["values"]);
        assert_eq!(data_of(&stream, "error"), expected, "{status:?}");
    };
    check(RunStatus::Success, None, &[]);
    check(RunStatus::Cancelled, Some("it was stopped"), &[]);
    check(
        RunStatus::Error,
        Some("call the model"),
        &[json!({"error": "RunError", "message": "call the model"})],
    );
    check(RunStatus::Timeout, None, &[json!({"error": "TimeoutError", "message": "its time is up"})]);
}

#[test]
fn s22_15_events_of_a_subagent_are_sent_in_its_namespace_or_not_at_all() {
    let subagent_frame = |frame| {
        Frame::Subagent(SubagentFrame {
            call_id: "c9".into(),
            thread_id: thread_id(),
            frame: Box::new(frame),
        })
    };
    let player = FramePlayer::start_run("hi")
        .push_step("tools", 1)
        .push_frame(subagent_frame(Frame::RunStarted { thread_id: thread_id(), run_id: RunId::generate() }))
        .push_frame(subagent_frame(Frame::StepStarted { node: "model".into(), step: 1 }))
        .push_frame(subagent_frame(Frame::Text { message_id: "m-9".into(), text: "I look.".into() }))
        .push_frame(subagent_frame(Frame::Notice { text: "note".into() }))
        .push_end(RunStatus::Success, None);
    let modes = ["values", "updates", "messages-tuple", "custom", "tasks"];
    assert!(!player.render_all(&modes).contains("c9"));
    let stream = player.render_modes(&modes, SubgraphStreaming::Included, None);
    assert_eq!(data_of(&stream, "custom|tools:c9"), [json!({"type": "notice", "text": "note"})]);
    let [chunk] = &*data_of(&stream, "messages|tools:c9") else { unreachable!("{stream}") };
    assert_eq!((&chunk[0]["id"], &chunk[0]["content"]), (&json!("m-9"), &json!("I look.")));
    assert!(chunk[1]["checkpoint_ns"].as_str().unwrap().starts_with("tools:c9|model:"), "{chunk}");
    assert!(data_of(&stream, "custom").is_empty() && data_of(&stream, "messages").is_empty());
    assert!(!stream.contains("|\n"), "s22_4: event names of the root have no suffix");
}

#[test]
fn i1_a_message_with_lost_deltas_is_completed_and_not_repeated() {
    let mut out = ModeWriter::new(StreamModes::from_names(["messages-tuple"]).unwrap(), EventIds::Sent);
    let mut translator =
        RunTranslator::new(root_origin(SubgraphStreaming::Excluded), PartialMessagePolicy::Complete);
    let player =
        FramePlayer::start_run("hi").push_step("model", 1).push_text("m-2", "one ").push_text("m-2", "two ");
    for (position, frame) in &player.frames {
        translator.translate_frame(*position, frame, &mut out);
    }
    // Frames are lost. The deltas that follow do not continue the streamed text.
    translator.mark_frames_lost();
    let last = AiMessage {
        id: Some("m-2".into()),
        content: vec![ContentBlock::text("one two three four")],
        ..AiMessage::default()
    };
    let remaining = FramePlayer { frames: Vec::new(), ..player }
        .push_text("m-2", "four")
        .push_message(&Message::Ai(last));
    for (position, frame) in &remaining.frames {
        translator.translate_frame(*position, frame, &mut out);
    }
    let stream = String::from_utf8(out.take_bytes().to_vec()).unwrap();
    let text: String = data_of(&stream, "messages")
        .iter()
        .map(|data| data[0]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(text, "one two three four");
}

#[test]
fn channels_that_only_the_graph_reads_are_not_sent() {
    let public = client_channels(&Map::from_iter([
        ("tools_wanted".to_owned(), json!(true)),
        ("_x".to_owned(), json!(1)),
    ]));
    assert!(public.is_empty());
    let stream = FramePlayer::full_turn().render_all(&["values", "updates", "tasks", "debug"]);
    assert!(!stream.contains("tools_wanted"));
}
