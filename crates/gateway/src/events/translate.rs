//! From what the runtime tells of a run to the events of the protocol. Pure, but for the messages of the state, which are
//! asked for and given.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Frame, Position, State, StateMessage, Within};
use protocol::{Event, Interrupt, InterruptId, Message, Run, RunStatus, Seq, ToolStatus};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::out::{Out, Told};
use super::said::{Kind, Saying, result};
use super::stored;
use crate::streams::about::{About, Step};
use crate::streams::need::{Given, Need, Points};
use crate::streams::transcript::{Raws, Transcript, changes_transcript, raw};
use crate::wire;

/// Tells one run.
pub(super) struct Translator {
    about: About,
    step: Step,
    saying: Option<Saying>,
    transcript: Transcript,
    /// Who tells the sub-agents that work, by the calls that began them.
    subagents: BTreeMap<String, Translator>,
    /// The newest message of those that were given.
    newest: Option<Arc<StateMessage>>,
    channels: Map<String, Value>,
    is_changed: bool,
    wrote: Vec<Arc<RawValue>>,
    /// The point that was given for the next frame.
    points: Option<Box<Points>>,
    /// Whether frames were lost since the step began.
    is_blind: bool,
    /// What was told instead of lost frames reaches up to here.
    caught_up: Seq,
    /// What was asked.
    asked: Vec<InterruptId>,
    is_begun: bool,
    is_ended: bool,
}

impl Translator {
    pub(super) fn new(about: About) -> Self {
        Self {
            step: Step::default(),
            saying: None,
            transcript: Transcript::of(about.held_in),
            subagents: BTreeMap::new(),
            newest: None,
            channels: Map::new(),
            is_changed: true,
            wrote: Vec::new(),
            points: None,
            is_blind: false,
            caught_up: 0,
            asked: Vec::new(),
            is_begun: false,
            is_ended: false,
            about,
        }
    }

    /// Returns what has to be given before `frame` can be told.
    pub(super) fn need(&mut self, frame: &Frame, out: &Out) -> Need {
        let held_in = self.about.held_in;
        match frame {
            Frame::Within(within) => self.of_subagent(within).need(&within.frame, out),
            Frame::Values { checkpoint_id, .. } if out.filter.has("checkpoints") => {
                Need::Points(held_in, *checkpoint_id)
            }
            Frame::Values { head_seq, .. } if out.filter.has("values") && !self.transcript.is_known() => {
                Need::Messages(held_in, *head_seq)
            }
            // Its bytes are beside it.
            Frame::Event(event) if agent::has_media(event) => Need::Messages(held_in, event.seq),
            _ => Need::Nothing,
        }
    }

    /// Takes what was asked for.
    pub(super) fn give(&mut self, frame: &Frame, given: Given) {
        if let Frame::Within(within) = frame {
            return self.of_subagent(within).give(&within.frame, given);
        }
        match given {
            Given::Nothing => {}
            Given::Messages(messages) => {
                self.transcript.set(&messages);
                self.newest = messages.last().cloned();
            }
            Given::Points(points) => {
                self.transcript.set(&points.state.messages);
                self.points = Some(points);
            }
        }
    }

    /// Says that frames are missing before the next one: what is being said is told whole once it is stored.
    pub(super) fn lose_sight(&mut self) {
        self.is_blind = true;
        self.subagents.clear();
        self.saying = None;
        self.wrote.clear();
        self.transcript.is_stale();
    }

    /// Tells what the journal has instead of lost frames: that the run works, the messages that the client has `missed`, the
    /// state, and what waits for an answer. Frames that tell the same are told no more.
    pub(super) fn catch_up(&mut self, (state, missed): (&State, &[Arc<StateMessage>]), out: &mut Out) {
        self.retell(missed, out);
        self.transcript.set(&state.messages);
        self.caught_up = state.messages.iter().map(|message| message.seq).max().unwrap_or(0);
        self.channels.clone_from(&state.channels);
        self.values(out);
        point(state, out);
        let run_id = self.about.run_id;
        for interrupt in state.interrupts.iter().filter(|asked| asked.run_id == run_id) {
            self.asks(interrupt, out);
        }
    }

    /// Tells that the run works, and the messages that the client has `missed`.
    pub(super) fn retell(&mut self, missed: &[Arc<StateMessage>], out: &mut Out) {
        self.lose_sight();
        if !self.is_begun {
            self.begun(out);
        }
        for message in missed {
            out.clock(message.created_at);
            self.message(message, out);
        }
    }

    /// Tells how the run ended, where no frame did.
    pub(super) fn end_as(&mut self, run: &Run, out: &mut Out) {
        if !self.is_ended {
            self.ended(run.status, run.error.as_deref(), out);
        }
    }

    /// Returns whether the run's end was told.
    pub(super) const fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Tells a frame.
    pub(super) fn frame(&mut self, position: Position, frame: &Frame, out: &mut Out) {
        out.at(position);
        match frame {
            Frame::RunStarted { .. } => self.begun(out),
            Frame::StepStarted { node, step } => {
                self.step = Step { node: node.clone(), number: *step, ..Step::default() };
                self.is_blind = false;
            }
            Frame::Text { message_id, text } => self.said(message_id, (Kind::Text, text), out),
            Frame::Thinking { message_id, text } => self.said(message_id, (Kind::Reasoning, text), out),
            Frame::ToolStarted { call_id, name, args } => self.tools(out, || {
                json!({"event": "tool-started", "tool_call_id": call_id, "tool_name": name, "input": args})
            }),
            Frame::ToolCall { .. } | Frame::ToolEnded { .. } => {}
            Frame::ToolOutput { call_id, text } => {
                self.custom("tool_output", &json!({"tool_call_id": call_id, "text": text}), out);
            }
            Frame::Within(within) => self.subagent(position, within, out),
            Frame::Custom { name, value } => self.custom(name, value, out),
            Frame::Progress { what, done, total } => {
                self.custom("progress", &json!({"what": what, "done": done, "total": total}), out);
            }
            Frame::Notice { text } => self.custom("notice", &json!({"text": text}), out),
            Frame::Event(event) => {
                self.event(event, out);
                stored::tell(event, out);
            }
            Frame::Updates { node, channels } => self.wrote(node, channels, out),
            Frame::Values { channels, .. } => self.stands(channels, out),
            Frame::Interrupted(interrupt) => self.asks(interrupt, out),
            Frame::RunEnded { status, error, .. } => self.ended(*status, error.as_deref(), out),
        }
    }

    fn said(&mut self, id: &str, (kind, text): (Kind, &str), out: &mut Out) {
        if self.is_blind {
            return;
        }
        let node = self.step.node.as_str();
        let mut saying = match self.saying.take() {
            Some(saying) if saying.is(id) => saying,
            Some(_) | None => Saying::begin(id, node, out),
        };
        saying.more((kind, text), node, out);
        self.saying = Some(saying);
    }

    fn event(&mut self, event: &Event, out: &mut Out) {
        out.clock(event.created_at);
        if event.kind().is_some_and(changes_transcript) {
            self.transcript.is_stale();
            self.is_changed = true;
        }
        let given = self.newest.take().filter(|given| given.seq == event.seq);
        let Some(message) = given.or_else(|| StateMessage::of(event).map(Arc::new)) else { return };
        self.is_changed = true;
        if message.seq > self.caught_up {
            if self.is_blind {
                out.retell();
            }
            self.message(&message, out);
        }
        self.transcript.push(&message);
        self.wrote.push(raw(self.about.held_in, &message));
    }

    /// Tells a message that is stored: what was not said of it before.
    fn message(&mut self, message: &StateMessage, out: &mut Out) {
        match &message.message {
            Message::Human(_) => {}
            Message::Ai(_) => {
                let said = self.saying.take().filter(|saying| saying.is(&message.id));
                let saying = said.unwrap_or_else(|| Saying::begin(&message.id, &self.step.node, out));
                saying.end(message, &self.step.node, out);
            }
            Message::Tool(tool) => {
                result(message, &self.step.node, out);
                let (call_id, text) = (&tool.call_id, message.message.text());
                self.tools(out, || match tool.status {
                    ToolStatus::Success => {
                        json!({"event": "tool-finished", "tool_call_id": call_id, "output": text})
                    }
                    ToolStatus::Error => {
                        json!({"event": "tool-error", "tool_call_id": call_id, "message": text})
                    }
                });
            }
        }
    }

    fn wrote(&mut self, node: &str, channels: &Map<String, Value>, out: &mut Out) {
        let messages = std::mem::take(&mut self.wrote);
        let mut update = agent::shown_channels(channels);
        if update.is_empty() && messages.is_empty() {
            return;
        }
        self.is_changed = true;
        let data = || {
            if !messages.is_empty() {
                let messages = serde_json::to_value(Raws(&messages)).unwrap_or_default();
                update.shift_insert(0, "messages".to_owned(), messages);
            }
            json!({node: update})
        };
        out.send("updates", Told { method: "updates", namespace: &[], node: Some(node), data });
    }

    fn stands(&mut self, channels: &Map<String, Value>, out: &mut Out) {
        if out.filter.has("values") {
            self.channels = agent::shown_channels(channels);
        }
        if std::mem::take(&mut self.is_changed) {
            self.values(out);
        }
        match self.points.take() {
            Some(points) => {
                // What is not there is counted all the same: a number means the same to every client.
                match &points.input {
                    Some(input) => point(input, out),
                    None => out.pass(),
                }
                point(&points.state, out);
            }
            None => {
                out.pass();
                out.pass();
            }
        }
    }

    fn values(&self, out: &mut Out) {
        let data = || self.transcript.values(&self.channels);
        out.send("values", Told { method: "values", namespace: &[], node: None, data });
    }

    fn begun(&mut self, out: &mut Out) {
        self.is_begun = true;
        let About { graph_id: graph_name, call_id, .. } = &self.about;
        lifecycle(out, || match call_id {
            None => json!({"event": "running", "graph_name": graph_name}),
            Some(call_id) => {
                let cause = json!({"type": "toolCall", "tool_call_id": call_id});
                let mut told = json!({"event": "started", "graph_name": graph_name, "cause": cause});
                told["namespace"] = self.namespace();
                told["thread_id"] = json!(self.about.held_in);
                told
            }
        });
    }

    /// Tells a question, once.
    fn asks(&mut self, interrupt: &Interrupt, out: &mut Out) {
        // What a sub-agent asks, its parent asks for it.
        if self.about.call_id.is_some() || self.asked.contains(&interrupt.interrupt_id) {
            return;
        }
        self.asked.push(interrupt.interrupt_id);
        let wire::Interrupt { id, value } = wire::Interrupt::from(interrupt);
        let data = || json!({"interrupt_id": id, "payload": value, "value": value});
        let node = Some(interrupt.node.as_str());
        out.send("input", Told { method: "input.requested", namespace: &[], node, data });
    }

    fn ended(&mut self, status: RunStatus, error: Option<&str>, out: &mut Out) {
        self.is_ended = true;
        let event = match status {
            RunStatus::Error | RunStatus::Timeout => "failed",
            RunStatus::Interrupted | RunStatus::Cancelled => "interrupted",
            RunStatus::Success | RunStatus::Pending | RunStatus::Running => "completed",
        };
        lifecycle(out, || {
            let mut told = json!({"event": event, "graph_name": self.about.graph_id});
            if event == "failed" {
                told["error"] = json!(agent::Fault::of(status, error).map(|fault| fault.message));
            }
            if self.about.call_id.is_some() {
                told["namespace"] = self.namespace();
            }
            told
        });
    }

    /// Returns where within the run this happens.
    fn namespace(&self) -> Value {
        self.about.namespace.split('|').filter(|segment| !segment.is_empty()).collect()
    }

    fn tools(&self, out: &mut Out, data: impl FnOnce() -> Value) {
        let node = Some(self.step.node.as_str());
        out.send("tools", Told { method: "tools", namespace: &[], node, data });
    }

    fn custom(&self, name: &str, payload: &Value, out: &mut Out) {
        let (node, data) = (Some(self.step.node.as_str()), || json!({"name": name, "payload": payload}));
        out.send_custom(name, Told { method: "custom", namespace: &[], node, data });
    }

    /// Tells what a sub-agent does, in the namespace of the call that began it.
    fn subagent(&mut self, position: Position, within: &Within, out: &mut Out) {
        let subagent = self.of_subagent(within);
        out.enter(&subagent.about.namespace);
        subagent.frame(position, &within.frame, out);
        out.enter(&self.about.namespace);
        if matches!(&*within.frame, Frame::RunEnded { .. }) {
            self.subagents.remove(&within.call_id);
        }
    }

    /// Returns who tells the sub-agent of that call. Of one that is met midway, what it is saying is told whole.
    fn of_subagent(&mut self, within: &Within) -> &mut Self {
        let about = &self.about;
        self.subagents.entry(within.call_id.clone()).or_insert_with(|| {
            let mut subagent = Self::new(about.within(within));
            subagent.is_blind = !matches!(&*within.frame, Frame::RunStarted { .. });
            subagent
        })
    }
}

/// Tells of a point of the thread's past.
fn point(state: &State, out: &mut Out) {
    let State { checkpoint_id, parent_id, number, source, .. } = state;
    let data = || json!({"id": checkpoint_id, "parent_id": parent_id, "step": number, "source": source});
    out.send("checkpoints", Told { method: "checkpoints", namespace: &[], node: None, data });
}

fn lifecycle(out: &mut Out, data: impl FnOnce() -> Value) {
    out.send("lifecycle", Told { method: "lifecycle", namespace: &[], node: None, data });
}
