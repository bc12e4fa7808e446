//! From what the runtime tells of a run to the events of every stream mode. Pure: frames in, bytes out. What the journal
//! knows and frames do not say, is asked for with [`Translator::need`] and given with [`Translator::give`].

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Frame, Position, State, StateMessage, Within};
use jiff::Timestamp;
use protocol::{Event, Interrupt, Message, Run, RunStatus, Seq};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::about::{About, Step, Subgraphs, TaskEnd, debug, point};
use crate::streams::mode::Mode;
use crate::streams::need::{Given, Need, Points};
use crate::streams::out::{Out, Slot};
use crate::streams::said::{Delta, Speaking, Voice};
use crate::streams::transcript::{Raws, Transcript, changes_transcript, raw};
use crate::wire;

/// Tells one run.
pub(crate) struct Translator {
    about: About,
    step: Step,
    /// Whether the step that is under way was told: one that does nothing is not.
    is_step_told: bool,
    speaking: Option<Speaking>,
    /// The messages that the step wrote.
    wrote: Vec<Arc<RawValue>>,
    transcript: Transcript,
    /// Who tells the sub-agents that work, by the calls that began them.
    subagents: BTreeMap<String, Translator>,
    /// The newest message of those that were given.
    newest: Option<Arc<StateMessage>>,
    /// What was given for the next frame.
    given: Option<Box<Points>>,
    /// The number of the newest point that was given.
    number: i64,
    /// The channels of the newest state.
    channels: Map<String, Value>,
    is_changed: bool,
    asked: Vec<Interrupt>,
    /// What is told beside the messages of this step.
    beside: Option<Arc<RawValue>>,
    /// Whether frames were lost since the step began.
    is_blind: bool,
    /// The newest moment that the run told; what is told again must say the same.
    clock: Timestamp,
}

impl Translator {
    pub(crate) fn new(about: About) -> Self {
        Self {
            step: Step::default(),
            is_step_told: false,
            speaking: None,
            wrote: Vec::new(),
            transcript: Transcript::of(about.held_in),
            subagents: BTreeMap::new(),
            newest: None,
            given: None,
            number: 0,
            channels: Map::new(),
            is_changed: true,
            asked: Vec::new(),
            beside: None,
            is_blind: false,
            clock: Timestamp::UNIX_EPOCH,
            about,
        }
    }

    /// Returns what has to be given before `frame` can be told.
    pub(crate) fn need(&mut self, position: Position, frame: &Frame, out: &mut Out) -> Need {
        out.at(position);
        let held_in = self.about.held_in;
        let (checkpoint_id, head_seq) = match frame {
            Frame::Within(_) if self.about.subgraphs == Subgraphs::LeftOut => return Need::Nothing,
            Frame::Within(within) => return self.of_subagent(within).need(position, &within.frame, out),
            Frame::Values { checkpoint_id, head_seq, .. } => (checkpoint_id, head_seq),
            // Its bytes are beside it.
            Frame::Event(event) if agent::has_media(event) => return Need::Messages(held_in, event.seq),
            _ => return Need::Nothing,
        };
        // What is told in the envelope carries the moments of the points before, also of those the reader has had.
        let needs_point = out.wants(Slot::Point) || out.modes().has(Mode::Debug);
        let needs_messages = out.wants(Slot::Values) || out.modes().has(Mode::Tasks);
        match (needs_point, needs_messages && !self.transcript.is_known()) {
            (true, _) => Need::Points(held_in, *checkpoint_id),
            (false, true) => Need::Messages(held_in, *head_seq),
            (false, false) => Need::Nothing,
        }
    }

    /// Takes what was asked for.
    pub(crate) fn give(&mut self, frame: &Frame, given: Given) {
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
                self.clock = self.clock.max(points.state.created_at);
                self.number = points.state.number;
                self.given = Some(points);
            }
        }
    }

    /// Tells a frame.
    pub(crate) fn frame(&mut self, position: Position, frame: &Frame, out: &mut Out) {
        out.at(position);
        match frame {
            Frame::RunStarted { .. } if !self.is_root() => {}
            Frame::RunStarted { run_id, .. } => {
                out.send(Slot::Begin, "metadata", &json!({"run_id": run_id, "attempt": 1}));
            }
            Frame::StepStarted { node, step } => {
                self.step = Step { node: node.clone(), number: *step, ..self.step };
                self.is_step_told = false;
                self.is_blind = false;
                self.beside = None;
            }
            Frame::Text { message_id, text } => self.said(message_id, (Voice::Text, text), out),
            Frame::Thinking { message_id, text } => self.said(message_id, (Voice::Reasoning, text), out),
            Frame::ToolCall { message_id, index, call_id, name } => {
                self.calls(message_id, (*index, call_id, name), out);
            }
            Frame::ToolStarted { .. } => self.begin_step(out),
            Frame::ToolEnded { .. } => {}
            Frame::ToolOutput { call_id, text } => {
                self.custom(&json!({"type": "tool_output", "tool_call_id": call_id, "text": text}), out);
            }
            Frame::Within(within) => self.subagent(position, within, out),
            Frame::Custom { name, value } => self.custom(&custom(name, value), out),
            Frame::Progress { what, done, total } => {
                self.custom(&json!({"type": "progress", "what": what, "done": done, "total": total}), out);
            }
            Frame::Notice { text } => self.custom(&json!({"type": "notice", "text": text}), out),
            Frame::Event(event) => self.event(event, out),
            Frame::Updates { node, channels } => self.wrote(node, channels, out),
            Frame::Values { checkpoint_id, channels, .. } => {
                self.stands(channels, out);
                self.step.after = Some(*checkpoint_id);
            }
            Frame::Interrupted(interrupt) => self.asked.push((**interrupt).clone()),
            Frame::RunEnded { status, error, .. } => self.ended(*status, error.as_deref(), out),
        }
    }

    /// Says that frames are missing before the next one: what is being said is told again whole, once it is stored, or
    /// the part of it that the reader has not had.
    pub(crate) fn lose_sight(&mut self) {
        self.is_blind = true;
        self.subagents.clear();
        self.transcript.is_stale();
        self.wrote.clear();
    }

    /// Tells the messages and the state that the journal has of the run, where frames were lost: from here on the stream
    /// is whole again.
    pub(crate) fn catch_up(&mut self, position: Position, (state, had): (&State, Seq), out: &mut Out) {
        self.retell(position, (state, had), out);
        self.transcript.set(&state.messages);
        (self.step.after, self.number) = (Some(state.checkpoint_id), state.number);
        self.channels.clone_from(&state.channels);
        let interrupts: Vec<_> = state.interrupts.iter().map(wire::Interrupt::from).collect();
        out.send(Slot::Values, "values", &self.transcript.values(&self.channels).asking(&interrupts));
    }

    /// Tells the messages that the journal has of the run behind `had`.
    pub(crate) fn retell(&mut self, position: Position, (state, had): (&State, Seq), out: &mut Out) {
        out.at(position);
        let is_missed =
            |message: &StateMessage| message.seq > had && message.run_id == Some(self.about.run_id);
        let missed: Vec<_> = state.messages.iter().filter(|message| is_missed(message)).cloned().collect();
        for message in missed {
            self.complete(&message, out);
        }
        self.wrote.clear();
    }

    /// Tells how a run ended whose last frame nobody heard.
    pub(crate) fn end_as(&mut self, run: &Run, out: &mut Out) {
        if let Some(failure) = failure(run.status, run.error.as_deref()) {
            out.send(Slot::Failure, "error", &failure);
        }
    }

    fn said(&mut self, id: &str, (voice, text): (Voice, &str), out: &mut Out) {
        self.begin_step(out);
        if self.is_blind || !out.modes().has_any(&[Mode::Tuple, Mode::Messages]) {
            return;
        }
        let is_new = self.speaking.as_ref().is_none_or(|speaking| speaking.id != id);
        if is_new {
            self.speaking = Some(Speaking::of(id));
        }
        if out.wants(Slot::Chunk) {
            out.send(Slot::Chunk, "messages", &(Delta::new(id, voice, text), &*self.beside()));
        }
        if is_new && out.wants(Slot::MessageMetadata) {
            out.send(Slot::MessageMetadata, "messages/metadata", &json!({id: {"metadata": &*self.beside()}}));
        }
        let Some(speaking) = &mut self.speaking else { return };
        speaking.add(voice, text);
        if out.wants(Slot::Message) {
            out.send(Slot::Message, "messages/partial", &[speaking.so_far()]);
        }
    }

    /// Tells that the model calls a tool, before it has said with what.
    fn calls(&mut self, id: &str, call: (usize, &str, &str), out: &mut Out) {
        self.begin_step(out);
        if self.is_blind || !out.modes().has_any(&[Mode::Tuple, Mode::Messages]) {
            return;
        }
        let beside = self.beside();
        let is_new = self.speaking.as_ref().is_none_or(|speaking| speaking.id != id);
        if is_new {
            self.speaking = Some(Speaking::of(id));
        }
        let Some(speaking) = &mut self.speaking else { return };
        let chunk = speaking.announce(call);
        out.send(Slot::Chunk, "messages", &(chunk, &*beside));
        if is_new && out.wants(Slot::MessageMetadata) {
            out.send(Slot::MessageMetadata, "messages/metadata", &json!({id: {"metadata": &*beside}}));
        }
    }

    fn event(&mut self, event: &Event, out: &mut Out) {
        self.clock = self.clock.max(event.created_at);
        let given = self.newest.take().filter(|given| given.seq == event.seq);
        if let Some(message) = given.or_else(|| StateMessage::of(event).map(Arc::new)) {
            self.begin_step(out);
            self.complete(&message, out);
            self.transcript.push(&message);
        } else if event.kind().is_some_and(changes_transcript) {
            self.transcript.is_stale();
            self.is_changed = true;
        }
    }

    /// Tells a message that is stored.
    fn complete(&mut self, message: &StateMessage, out: &mut Out) {
        let raw = raw(self.about.held_in, message);
        let name = match &message.message {
            Message::Human(_) => None,
            Message::Tool(_) => {
                if out.wants(Slot::Chunk) {
                    out.send(Slot::Chunk, "messages", &(&*raw, &*self.beside()));
                }
                Some("messages/complete")
            }
            Message::Ai(_) => {
                let said = self.speaking.take().filter(|speaking| speaking.id == message.id);
                let was_streamed = said.is_some();
                if out.wants(Slot::Chunk) {
                    let chunk = said.unwrap_or_default().last_chunk(&raw);
                    out.send(Slot::Chunk, "messages", &(chunk, &*self.beside()));
                }
                Some(if was_streamed { "messages/partial" } else { "messages/complete" })
            }
        };
        if let Some(name) = name {
            if name == "messages/complete" && out.wants(Slot::MessageMetadata) {
                let told = json!({message.id.as_str(): {"metadata": &*self.beside()}});
                out.send(Slot::MessageMetadata, "messages/metadata", &told);
            }
            out.send(Slot::Message, name, &[&*raw]);
        }
        self.is_changed = true;
        self.wrote.push(raw);
    }

    /// Returns what is told beside the messages of this step.
    fn beside(&mut self) -> Arc<RawValue> {
        let (about, step) = (&self.about, &self.step);
        Arc::clone(self.beside.get_or_insert_with(|| about.of_message(step)))
    }

    /// Tells that the step does something; it is told once.
    fn begin_step(&mut self, out: &mut Out) {
        if self.is_step_told || self.step.node.is_empty() {
            return;
        }
        self.is_step_told = true;
        if out.wants(Slot::TaskBegan) || out.wants(Slot::TaskBeganDebug) {
            let told = self.about.task_began(&self.step, &self.transcript.values(&self.channels));
            out.send(Slot::TaskBegan, "tasks", &told);
            self.send_debug(Slot::TaskBeganDebug, "task", &told, out);
        }
    }

    /// Tells what a step wrote. One that wrote nothing a client may see is not told.
    fn wrote(&mut self, node: &str, channels: &Map<String, Value>, out: &mut Out) {
        let messages = std::mem::take(&mut self.wrote);
        let mut update = agent::shown_channels(channels);
        if update.is_empty() && messages.is_empty() {
            return;
        }
        self.is_changed = true;
        node.clone_into(&mut self.step.node);
        self.begin_step(out);
        let wanted = [Slot::Update, Slot::TaskEnded, Slot::TaskEndedDebug];
        if !wanted.into_iter().any(|slot| out.wants(slot)) {
            return;
        }
        if !messages.is_empty() {
            let messages = serde_json::to_value(Raws(&messages)).unwrap_or_default();
            update.shift_insert(0, "messages".to_owned(), messages);
        }
        if out.wants(Slot::Update) {
            out.send(Slot::Update, "updates", &json!({node: update}));
        }
        self.end_step(&TaskEnd { error: None, result: &update, interrupts: &[] }, out);
    }

    fn end_step(&self, ended: &TaskEnd<'_>, out: &mut Out) {
        if out.wants(Slot::TaskEnded) || out.wants(Slot::TaskEndedDebug) {
            let told = self.about.task_ended(&self.step, ended);
            out.send(Slot::TaskEnded, "tasks", &told);
            self.send_debug(Slot::TaskEndedDebug, "task_result", &told, out);
        }
    }

    /// Tells the state after a step, if the step changed what a client sees of it.
    fn stands(&mut self, channels: &Map<String, Value>, out: &mut Out) {
        if out.modes().has_any(&[Mode::Values, Mode::Tasks, Mode::Debug]) {
            self.channels = agent::shown_channels(channels);
        }
        if std::mem::take(&mut self.is_changed) {
            out.send(Slot::Values, "values", &self.transcript.values(&self.channels));
        }
        let Some(points) = self.given.take() else { return };
        if let Some(input) = &points.input {
            self.point(input, (Slot::InputPoint, Slot::InputPointDebug), out);
        }
        self.point(&points.state, (Slot::Point, Slot::PointDebug), out);
    }

    fn point(&self, state: &State, (slot, in_debug): (Slot, Slot), out: &mut Out) {
        if !out.wants(slot) && !out.wants(in_debug) {
            return;
        }
        let (number, at) = (state.number, state.created_at);
        let told = point(self.about.held_in, state);
        out.send(slot, "checkpoints", &told);
        if out.wants(in_debug) {
            out.send(in_debug, "debug", &debug("checkpoint", number, at, &told));
        }
    }

    fn ended(&mut self, status: RunStatus, error: Option<&str>, out: &mut Out) {
        match status {
            // What a sub-agent asks, its parent asks for it.
            RunStatus::Interrupted if !self.is_root() => {}
            RunStatus::Interrupted => self.stopped_to_ask(out),
            RunStatus::Error | RunStatus::Timeout => {
                let Some(failure) = failure(status, error) else { return };
                if self.is_step_told {
                    let told = Some(failure.message.as_str());
                    self.end_step(&TaskEnd { error: told, result: &Map::new(), interrupts: &[] }, out);
                }
                // How a sub-agent failed is its call's result.
                if self.is_root() {
                    out.send(Slot::Failure, "error", &failure);
                }
            }
            RunStatus::Pending | RunStatus::Running | RunStatus::Success | RunStatus::Cancelled => {}
        }
    }

    /// Tells what waits for an answer, with the whole state; nothing waits at a breakpoint.
    fn stopped_to_ask(&mut self, out: &mut Out) {
        let asked = std::mem::take(&mut self.asked);
        let interrupts: Vec<_> = asked.iter().map(wire::Interrupt::from).collect();
        if let Some(first) = asked.first() {
            first.node.clone_into(&mut self.step.node);
            self.begin_step(out);
        }
        out.send(Slot::Update, "updates", &json!({"__interrupt__": interrupts}));
        if !asked.is_empty() {
            self.end_step(&TaskEnd { error: None, result: &Map::new(), interrupts: &interrupts }, out);
            out.send(Slot::Values, "values", &self.transcript.values(&self.channels).asking(&interrupts));
        }
    }

    fn custom(&mut self, told: &Value, out: &mut Out) {
        self.begin_step(out);
        out.send(Slot::Custom, "custom", told);
    }

    /// Tells what a sub-agent does, to those who want to know; never at the root.
    fn subagent(&mut self, position: Position, within: &Within, out: &mut Out) {
        if self.about.subgraphs == Subgraphs::LeftOut {
            return;
        }
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

    const fn is_root(&self) -> bool {
        self.about.call_id.is_none()
    }

    fn send_debug(&self, slot: Slot, kind: &str, told: &Value, out: &mut Out) {
        if out.wants(slot) {
            out.send(slot, "debug", &debug(kind, self.number + 1, self.clock, told));
        }
    }
}

/// Returns how a run failed; one that was stopped has not.
fn failure(status: RunStatus, error: Option<&str>) -> Option<agent::Fault> {
    agent::Fault::of(status, error).filter(|_| status != RunStatus::Cancelled)
}

/// Returns what a tool or hook tells, marked with what it is.
fn custom(name: &str, value: &Value) -> Value {
    let mut told = Map::from_iter([("type".to_owned(), Value::from(name))]);
    match value {
        Value::Object(fields) => told.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone()))),
        other => drop(told.insert("value".to_owned(), other.clone())),
    }
    Value::Object(told)
}

#[cfg(test)]
mod tests;
