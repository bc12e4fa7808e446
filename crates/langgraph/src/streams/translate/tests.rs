//! Frames in, bytes of each protocol out: one turn with a tool call in every mode and channel, and what must never be told.

use agent::{StateOrigin, shown_channels};
use protocol::{
    AiMessage, Block, CheckpointId, EventType, HumanMessage, InterruptId, InterruptPayload, InterruptStatus,
    NewEvent, RunFailure, ThreadId, ToolMessage, ToolStatus, Usage,
};
use uuid::Uuid;

use super::*;
use crate::events::filter::FilterBody;
use crate::events::out::ChannelWriter;
use crate::modes::cursor::{Cursor, EventId};
use crate::modes::mode::Modes;
use crate::modes::out::{Ids, ModeWriter};
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

fn at(seq: Seq) -> Timestamp {
    Timestamp::from_second(1_763_784_000 + i64::try_from(seq).unwrap()).unwrap()
}

fn about(subgraphs: Subgraphs) -> About {
    About {
        thread_id: thread_id(),
        namespace: "".into(),
        call_id: None,
        held_in: thread_id(),
        run_id: run_id(),
        graph_id: "agent".to_owned(),
        assistant_id: "fe096781-5601-53d2-b2f6-0d3403f7e9ca".to_owned(),
        metadata: Map::new(),
        tags: vec!["mine".to_owned()],
        subgraphs,
    }
}

/// A stream that is played: frames with their places, and what the journal holds.
#[derive(Default)]
struct Play {
    frames: Vec<(Position, Frame)>,
    events: Vec<Event>,
    position: Position,
}

impl Play {
    fn frame(mut self, frame: Frame) -> Self {
        self.position = match &frame {
            Frame::Event(event) => Position { seq: event.seq, sub: 0 },
            _ => Position { sub: self.position.sub + 1, ..self.position },
        };
        self.frames.push((self.position, frame));
        self
    }

    fn stored(mut self, new: NewEvent) -> Self {
        let seq = self.events.last().map_or(0, |event| event.seq) + 1;
        let new = NewEvent { created_at: at(seq), ..new.in_run(run_id()) };
        self.events.push(Event::stored(new, thread_id(), seq));
        self
    }

    fn message(self, message: &Message) -> Self {
        let play = self.stored(NewEvent::message(message, at(0)).unwrap());
        let event = play.events.last().cloned().unwrap();
        play.frame(Frame::Event(Box::new(event)))
    }

    fn told(self, kind: EventType, content: &Value) -> Self {
        let play = self.stored(NewEvent::new(kind, content, at(0)).unwrap());
        let event = play.events.last().cloned().unwrap();
        play.frame(Frame::Event(Box::new(event)))
    }

    /// A run begins with what a person said.
    fn begin(text: &str) -> Self {
        let human = HumanMessage { id: Some("h-1".to_owned()), ..HumanMessage::text(text) };
        let mut play = Self::default().stored(NewEvent::message(&Message::Human(human), at(0)).unwrap());
        play.position = Position { seq: 1, sub: 0 };
        play.frame(Frame::RunStarted { thread_id: thread_id(), run_id: run_id() }).values(0, "model")
    }

    fn values(self, step: u64, next: &str) -> Self {
        let head_seq = self.events.last().map_or(0, |event| event.seq);
        self.frame(Frame::Values {
            run_id: run_id(),
            step,
            checkpoint_id: CheckpointId::from_uuid(uuid(u128::from(step) + 0x1000)),
            head_seq,
            next: Some(next.to_owned()).filter(|next| !next.is_empty()),
            channels: Map::from_iter([("tools_wanted".to_owned(), Value::from(true))]),
        })
    }

    fn step(self, node: &str, step: u64) -> Self {
        self.frame(Frame::StepStarted { node: node.to_owned(), step })
    }

    fn text(self, id: &str, text: &str) -> Self {
        self.frame(Frame::Text { message_id: id.to_owned(), text: text.to_owned() })
    }

    fn updates(self, node: &str, channels: &Value) -> Self {
        let channels = channels.as_object().cloned().unwrap_or_default();
        self.frame(Frame::Updates { node: node.to_owned(), channels })
    }

    fn end(self, status: RunStatus, error: Option<&str>) -> Self {
        let failure = RunFailure::from_stored_text(status, error);
        self.frame(Frame::RunEnded { run_id: run_id(), status, failure })
    }

    /// One turn: the model thinks, speaks, calls a tool, and answers.
    fn turn() -> Self {
        let call = Block::ToolCall { id: "c1".into(), name: "read_file".into(), args: json!({"path": "a"}) };
        let thinking = Block::Thinking { text: "hm".into(), provider: None, raw: None };
        let usage = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
        let answer = AiMessage {
            id: Some("m-1".to_owned()),
            content: vec![thinking, Block::text("I look."), call],
            usage: Some(usage),
            ..AiMessage::default()
        };
        let result = ToolMessage {
            id: None,
            call_id: "c1".into(),
            name: Some("read_file".into()),
            content: vec![Block::text("a row")],
            status: ToolStatus::Success,
        };
        let last = AiMessage {
            id: Some("m-2".to_owned()),
            content: vec![Block::text("Done.")],
            ..AiMessage::default()
        };
        let (id, args) = ("m-1".to_owned(), json!({"path": "a"}));
        Self::begin("hi")
            .step("before_agent", 1)
            .step("model", 1)
            .frame(Frame::Thinking { message_id: id.clone(), text: "hm".into() })
            .text("m-1", "I ")
            .text("m-1", "look.")
            .frame(Frame::ToolCall {
                message_id: id,
                index: 0,
                call_id: "c1".into(),
                name: "read_file".into(),
            })
            .message(&Message::Ai(answer))
            .updates("model", &json!({"tools_wanted": true}))
            .values(1, "tools")
            .step("after_model", 2)
            .step("tools", 2)
            .frame(Frame::ToolStarted { call_id: "c1".into(), name: "read_file".into(), args })
            .frame(Frame::Custom { name: "progress".into(), value: json!({"rows": 1}) })
            .frame(Frame::ToolEnded { call_id: "c1".into(), name: "read_file".into(), failed: false })
            .message(&Message::Tool(result))
            .updates("tools", &json!({"tools_wanted": null}))
            .values(2, "model")
            .step("model", 3)
            .text("m-2", "Done.")
            .message(&Message::Ai(last))
            .updates("model", &json!({"tools_wanted": false}))
            .values(3, "after_agent")
            .step("mark_first_handoff_turn", 4)
            .updates("mark_first_handoff_turn", &json!({}))
            .values(4, "")
            .end(RunStatus::Success, None)
    }

    /// A run whose sub-agent is met midway, that fails at a call of its own and asks.
    fn subagent() -> Self {
        let within = |frame| {
            Frame::Within(Within { call_id: "c9".into(), thread_id: thread_id(), frame: Box::new(frame) })
        };
        let failed = ToolMessage {
            id: None,
            call_id: "c9".into(),
            name: None,
            content: vec![Block::text("no")],
            status: ToolStatus::Error,
        };
        Self::begin("hi")
            .step("tools", 1)
            .frame(within(Frame::StepStarted { node: "model".into(), step: 1 }))
            .frame(within(Frame::Text { message_id: "m-9".into(), text: "I ".into() }))
            .frame(within(Frame::Thinking { message_id: "m-9".into(), text: "look.".into() }))
            .frame(within(Frame::Notice { text: "note".into() }))
            .frame(within(Frame::RunEnded {
                run_id: run_id(),
                status: RunStatus::Error,
                failure: RunFailure::from_stored_text(RunStatus::Error, Some("call the model")),
            }))
            .frame(Frame::ToolOutput { call_id: "c9".into(), text: "row".into() })
            .frame(Frame::Progress { what: "reading".into(), done: 1, total: None })
            .message(&Message::Tool(failed))
            .frame(Frame::Interrupted(Box::new(interrupt())))
            .frame(Frame::Interrupted(Box::new(interrupt())))
            .end(RunStatus::Interrupted, None)
    }

    fn state(&self, checkpoint_id: CheckpointId, head_seq: Seq) -> State {
        let number = i64::try_from(checkpoint_id.uuid().as_u128() & 0xfff).unwrap();
        let messages = self.events.iter().filter(|event| event.seq <= head_seq).filter_map(StateMessage::of);
        State {
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
            created_at: at(head_seq),
            run_metadata: Map::new(),
        }
    }

    /// Plays it for one reader of modes.
    fn play(&self, modes: &[&str], subgraphs: Subgraphs, after: Option<EventId>) -> String {
        let mut out = ModeWriter::new(Modes::named(modes.iter().copied()).unwrap(), Ids::Sent);
        if let Some(after) = after {
            out.had(after);
        }
        self.translate(&mut Translator::new(about(subgraphs), Unfinished::Completed), &mut out);
        String::from_utf8(out.take().to_vec()).unwrap()
    }

    /// Plays it for one reader of channels.
    fn play_channels(&self, channels: &[&str]) -> String {
        let body: FilterBody = serde_json::from_value(json!({"channels": channels})).unwrap();
        let mut out = ChannelWriter::new(body.filter().unwrap());
        out.of(run_id(), at(0));
        self.translate(&mut Translator::new(about(Subgraphs::Told), Unfinished::Repeated), &mut out);
        String::from_utf8(out.take().to_vec()).unwrap()
    }

    fn translate(&self, translator: &mut Translator, encoder: &mut impl Encoder) {
        for (position, frame) in &self.frames {
            let head =
                self.events.iter().map(|event| event.seq).take_while(|seq| *seq <= position.seq).last();
            match translator.need(*position, frame, encoder) {
                Need::Nothing | Need::Admission(..) => {}
                Need::Messages(_, seq) => {
                    let held = self.events.iter().filter(|event| event.seq <= seq);
                    let held: Vec<_> = held.filter_map(StateMessage::of).map(Arc::new).collect();
                    translator.give(frame, Given::Messages(held));
                }
                Need::Points(_, id) => {
                    let points = Points { state: self.state(id, head.unwrap_or(0)), input: None };
                    translator.give(frame, Given::Points(Box::new(points)));
                }
            }
            translator.frame(*position, frame, encoder);
        }
    }

    fn plays(&self, modes: &[&str]) -> String {
        self.play(modes, Subgraphs::LeftOut, None)
    }
}

fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

fn data(text: &str, name: &str) -> Vec<Value> {
    let events = text.split("\n\n").filter(|event| event.starts_with(&format!("event: {name}\n")));
    let data = events.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn s9_one_turn_with_a_tool_in_every_mode() {
    for mode in ["values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"]
    {
        insta::assert_snapshot!(mode, Play::turn().plays(&[mode]));
    }
}

/// The channels that show something of a run.
const CHANNELS: [&str; 9] =
    ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "custom", "history"];

#[test]
fn s19_one_turn_with_a_tool_in_every_channel() {
    insta::assert_snapshot!("channels", Play::turn().play_channels(&CHANNELS));
}

#[test]
fn s19_what_is_lost_and_asked_and_done_by_subagents_is_told_by_channels() {
    insta::assert_snapshot!("channels_of_a_subagent", Play::subagent().play_channels(&CHANNELS));
}

#[test]
fn s19_the_number_of_an_event_does_not_depend_on_what_else_is_asked_for() {
    let all = Play::turn().play_channels(&CHANNELS);
    let events: Vec<&str> = all.split_inclusive("\n\n").collect();
    for channel in CHANNELS {
        for event in Play::turn().play_channels(&[channel]).split_inclusive("\n\n") {
            assert!(events.contains(&event), "{channel}: {event}");
        }
    }
}

#[test]
fn i1_the_ids_of_events_do_not_depend_on_what_else_is_asked_for() {
    let modes =
        ["values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"];
    let all = Play::turn().plays(&modes);
    let events: Vec<&str> = all.split_inclusive("\n\n").collect();
    for mode in modes {
        for event in Play::turn().plays(&[mode]).split_inclusive("\n\n") {
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
    // Behind each event comes what came behind it.
    for (index, id) in ids.iter().enumerate() {
        let rest = Play::turn().play(&modes, Subgraphs::LeftOut, Some(*id));
        assert_eq!(rest, events[index + 1..].concat(), "after {id}");
    }
}

#[test]
fn i4_deltas_together_are_the_message_and_usage_is_told_once() {
    let told = data(&Play::turn().plays(&["messages-tuple"]), "messages");
    let of = |id: &str| told.iter().filter(move |told| told[0]["id"] == id).collect::<Vec<_>>();
    let text = |id: &str| of(id).iter().map(|told| told[0]["content"].as_str().unwrap()).collect::<String>();
    assert_eq!((text("m-1").as_str(), text("m-2").as_str()), ("I look.", "Done."));
    assert_eq!(of("m-1").iter().filter(|told| !told[0]["usage_metadata"].is_null()).count(), 1);
    let chunks: Vec<&Value> =
        of("m-1").into_iter().flat_map(|told| told[0]["tool_call_chunks"].as_array().unwrap()).collect();
    let args: String = chunks.iter().map(|chunk| chunk["args"].as_str().unwrap()).collect();
    assert_eq!(args, r#"{"path":"a"}"#);
    assert_eq!(chunks.iter().filter(|chunk| chunk["name"] == "read_file").count(), 1);
    assert!(told.iter().all(|told| told[0]["id"].is_string()), "a message without an id is dropped");
}

#[test]
fn c8_what_a_compaction_writes_is_no_message() {
    let summary = json!({"summary": "they spoke of rows"});
    let play = Play::begin("hi")
        .step("compaction", 1)
        .frame(Frame::Progress { what: "condensing".into(), done: 1, total: Some(2) })
        .told(EventType::Compacted, &summary)
        .updates("compaction", &json!({}))
        .values(1, "model")
        .end(RunStatus::Success, None);
    let told = play.plays(&["messages-tuple", "messages", "updates", "values"]);
    assert!(!told.contains("rows"), "{told}");
    assert_eq!(data(&told, "values").len(), 1, "the state a client sees did not change");
    assert_eq!(data(&told, "updates"), Vec::<Value>::new());
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
        created_at: at(1),
        resolved_at: None,
    }
}

#[test]
fn s12_1_what_is_asked_is_told_with_the_whole_state() {
    let play =
        Play::begin("hi").frame(Frame::Interrupted(Box::new(interrupt()))).end(RunStatus::Interrupted, None);
    let told = play.plays(&["values", "updates", "messages-tuple"]);
    let asked = data(&told, "updates");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["__interrupt__"][0]["id"], interrupt().interrupt_id.to_string());
    let values = data(&told, "values");
    assert_eq!(values.last().unwrap()["__interrupt__"], asked[0]["__interrupt__"]);
    assert_eq!(values.last().unwrap()["messages"][0]["content"], "hi", "s22_11");
    assert!(values[0].get("__interrupt__").is_none());
    assert!(data(&told, "messages").is_empty());
    let breakpoint = Play::begin("hi").end(RunStatus::Interrupted, None).plays(&["updates", "values"]);
    assert_eq!(data(&breakpoint, "updates"), [json!({"__interrupt__": []})]);
    assert_eq!(data(&breakpoint, "values").len(), 1);
}

#[test]
fn s8_a_failure_is_an_error_event_and_a_stop_is_none() {
    let check = |status, error: Option<&str>, expected: &[Value]| {
        let told = Play::begin("hi").end(status, error).plays(&["values"]);
        assert_eq!(data(&told, "error"), expected, "{status:?}");
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
fn s22_15_what_a_subagent_does_is_told_in_its_namespace_or_not_at_all() {
    let within = |frame| {
        Frame::Within(Within { call_id: "c9".into(), thread_id: thread_id(), frame: Box::new(frame) })
    };
    let play = Play::begin("hi")
        .step("tools", 1)
        .frame(within(Frame::RunStarted { thread_id: thread_id(), run_id: RunId::generate() }))
        .frame(within(Frame::StepStarted { node: "model".into(), step: 1 }))
        .frame(within(Frame::Text { message_id: "m-9".into(), text: "I look.".into() }))
        .frame(within(Frame::Notice { text: "note".into() }))
        .end(RunStatus::Success, None);
    let modes = ["values", "updates", "messages-tuple", "custom", "tasks"];
    assert!(!play.plays(&modes).contains("c9"));
    let told = play.play(&modes, Subgraphs::Told, None);
    assert_eq!(data(&told, "custom|tools:c9"), [json!({"type": "notice", "text": "note"})]);
    let [chunk] = &*data(&told, "messages|tools:c9") else { unreachable!("{told}") };
    assert_eq!((&chunk[0]["id"], &chunk[0]["content"]), (&json!("m-9"), &json!("I look.")));
    assert!(chunk[1]["checkpoint_ns"].as_str().unwrap().starts_with("tools:c9|model:"), "{chunk}");
    assert!(data(&told, "custom").is_empty() && data(&told, "messages").is_empty());
    assert!(!told.contains("|\n"), "s22_4: at the root there is no suffix");
}

#[test]
fn i1_a_message_that_was_lost_in_the_middle_is_completed_and_not_repeated() {
    let mut out = ModeWriter::new(Modes::named(["messages-tuple"]).unwrap(), Ids::Sent);
    let mut translator = Translator::new(about(Subgraphs::LeftOut), Unfinished::Completed);
    let play = Play::begin("hi").step("model", 1).text("m-2", "one ").text("m-2", "two ");
    for (position, frame) in &play.frames {
        translator.frame(*position, frame, &mut out);
    }
    // Frames are lost; the deltas that follow do not fit to what was said.
    translator.lose_sight();
    let last = AiMessage {
        id: Some("m-2".into()),
        content: vec![Block::text("one two three four")],
        ..AiMessage::default()
    };
    let rest = Play { frames: Vec::new(), ..play }.text("m-2", "four").message(&Message::Ai(last));
    for (position, frame) in &rest.frames {
        translator.frame(*position, frame, &mut out);
    }
    let told = String::from_utf8(out.take().to_vec()).unwrap();
    let text: String =
        data(&told, "messages").iter().map(|told| told[0]["content"].as_str().unwrap().to_owned()).collect();
    assert_eq!(text, "one two three four");
}

#[test]
fn channels_that_only_the_graph_reads_are_not_told() {
    let shown = shown_channels(&Map::from_iter([
        ("tools_wanted".to_owned(), json!(true)),
        ("_x".to_owned(), json!(1)),
    ]));
    assert!(shown.is_empty());
    let told = Play::turn().plays(&["values", "updates", "tasks", "debug"]);
    assert!(!told.contains("tools_wanted"));
}
