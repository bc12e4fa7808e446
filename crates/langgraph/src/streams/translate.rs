//! The translator of runs: frames in, items out. Pure. What the journal knows and frames do not hold is asked for with
//! [`Translator::need`] and given with [`Translator::give`]. In which shape an item is sent is the [`Encoder`]'s work.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Frame, Position, State, StateMessage, Within};
use jiff::Timestamp;
use protocol::{Event, Interrupt, Message, Run, RunFailure, RunId, RunRef, RunStatus, Seq};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::about::{About, Step, Subgraphs};
use crate::streams::item::{
    Delta, Encoder, ItemSource, Needs, PointMark, Route, StepWrites, StoredMessage, StreamItem, ToolCall,
};
use crate::streams::need::{Given, Need, Points};
use crate::streams::speech::{Speech, SpeechKind};
use crate::streams::transcript::{Transcript, changes_transcript, raw};
use crate::wire::failure::RunFault;

/// What becomes of a message when frames are lost while it is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// It is completed: the rest of it follows what was sent.
    Completed,
    /// It is sent again, whole.
    Repeated,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Unseen,
    Begun,
    Ended,
}

/// The translator of one run.
pub(crate) struct Translator {
    about: About,
    unfinished: Unfinished,
    phase: Phase,
    step: Step,
    speech: Option<Speech>,
    /// The messages that the step wrote.
    wrote: Vec<Arc<RawValue>>,
    transcript: Transcript,
    /// The translators of the sub-agents that work, by the calls that began them.
    subagents: BTreeMap<String, Translator>,
    /// The newest message of those that were given.
    newest: Option<Arc<StateMessage>>,
    /// What was given for the next frame.
    points: Option<Box<Points>>,
    /// The events of the admission that were given.
    admitted: Vec<Event>,
    /// The newest point that was given.
    point: PointMark,
    /// The channels of the newest state.
    channels: Map<String, Value>,
    is_changed: bool,
    asked: Vec<Interrupt>,
    /// Whether frames were lost since the step began.
    is_blind: bool,
    /// The last event that was told of instead of lost frames.
    caught_up: Seq,
    /// The newest moment that an event of the run told.
    clock: Timestamp,
}

impl Translator {
    pub(crate) fn new(about: About, unfinished: Unfinished) -> Self {
        Self {
            unfinished,
            phase: Phase::Unseen,
            step: Step::default(),
            speech: None,
            wrote: Vec::new(),
            transcript: Transcript::of(about.held_in),
            subagents: BTreeMap::new(),
            newest: None,
            points: None,
            admitted: Vec::new(),
            point: PointMark { number: 0, created_at: Timestamp::UNIX_EPOCH },
            channels: Map::new(),
            is_changed: true,
            asked: Vec::new(),
            is_blind: false,
            caught_up: 0,
            clock: Timestamp::UNIX_EPOCH,
            about,
        }
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.about.run_id
    }

    /// Returns whether the run's end was told.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns what has to be given before `frame` can be translated.
    pub(crate) fn need(&mut self, position: Position, frame: &Frame, encoder: &mut impl Encoder) -> Need {
        encoder.at(position);
        match frame {
            Frame::RunStarted { thread_id, run_id } if encoder.needs().admission => {
                Need::Admission(RunRef { thread_id: *thread_id, run_id: *run_id }, position.seq)
            }
            frame => self.need_of(frame, encoder.needs()),
        }
    }

    fn need_of(&mut self, frame: &Frame, needs: Needs) -> Need {
        let held_in = self.about.held_in;
        if let Frame::Within(within) = frame {
            return match self.about.subgraphs {
                Subgraphs::LeftOut => Need::Nothing,
                Subgraphs::Told => self.of_subagent(within).need_of(&within.frame, needs),
            };
        }
        if let Frame::Values { checkpoint_id, head_seq, .. } = frame {
            return match (needs.points, needs.messages && !self.transcript.is_known()) {
                (true, _) => Need::Points(held_in, *checkpoint_id),
                (false, true) => Need::Messages(held_in, *head_seq),
                (false, false) => Need::Nothing,
            };
        }
        // The bytes of an event's files are stored apart from it.
        if let Frame::Event(event) = frame
            && agent::has_media(event)
        {
            return Need::Messages(held_in, event.seq);
        }
        Need::Nothing
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
                let State { messages, created_at, number, .. } = &points.state;
                self.transcript.set(messages);
                let created_at = self.point.created_at.max(*created_at);
                self.point = PointMark { number: *number, created_at };
                self.points = Some(points);
            }
            Given::Admission(events) => self.admitted = events,
        }
    }

    /// Translates a frame.
    pub(crate) fn frame(&mut self, position: Position, frame: &Frame, encoder: &mut impl Encoder) {
        encoder.at(position);
        self.translate(frame, encoder);
    }

    fn translate(&mut self, frame: &Frame, encoder: &mut impl Encoder) {
        match frame {
            Frame::RunStarted { .. } => {
                self.phase = Phase::Begun;
                encoder.encode(&self.source(), StreamItem::RunStarted);
                for event in std::mem::take(&mut self.admitted) {
                    encoder.encode(&self.source(), StreamItem::Stored(&event));
                }
            }
            Frame::StepStarted { node, step } => {
                self.step =
                    Step { node: node.clone(), number: *step, after: self.step.after, ..Step::default() };
                self.is_blind = false;
            }
            Frame::Text { message_id, text } => {
                self.delta(message_id, SpeechKind::Text, text, encoder);
            }
            Frame::Thinking { message_id, text } => {
                self.delta(message_id, SpeechKind::Reasoning, text, encoder);
            }
            Frame::ToolCall { .. } => self.call(frame, encoder),
            Frame::ToolStarted { call_id, name, args } => {
                self.begin_task(encoder);
                encoder.encode(&self.source(), StreamItem::ToolStarted { call_id, name, args });
            }
            Frame::ToolEnded { .. } => {}
            Frame::ToolOutput { call_id, text } => {
                self.custom("tool_output", &json!({"tool_call_id": call_id, "text": text}), encoder);
            }
            Frame::Within(within) => self.subagent(within, encoder),
            Frame::Custom { name, value } => self.custom(name, value, encoder),
            Frame::Progress { what, done, total } => {
                self.custom("progress", &json!({"what": what, "done": done, "total": total}), encoder);
            }
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.custom("notice", &json!({"text": text}), encoder);
            }
            Frame::Event(event) => {
                self.event(event, encoder);
                encoder.encode(&self.source(), StreamItem::Stored(event));
            }
            Frame::Updates { node, channels } => self.update(node, channels, encoder),
            Frame::Values { checkpoint_id, channels, .. } => {
                self.values(channels, encoder);
                self.step.after = Some(*checkpoint_id);
            }
            Frame::Interrupted(interrupt) => {
                self.asked.push((**interrupt).clone());
                encoder.encode(&self.source(), StreamItem::Interrupted(interrupt));
            }
            Frame::RunEnded { status, failure, .. } => self.ended(*status, failure.clone(), encoder),
        }
    }

    /// Says that frames are missing before the next one: what is being streamed is sent again, or the rest of it, once it is
    /// stored.
    pub(crate) fn lose_sight(&mut self) {
        self.is_blind = true;
        self.subagents.clear();
        self.transcript.is_stale();
        self.wrote.clear();
        match self.unfinished {
            Unfinished::Completed => {}
            Unfinished::Repeated => self.speech = None,
        }
    }

    /// Translates what the journal has instead of lost frames: the messages that the client has `missed`, and the state.
    /// From here on the stream is whole again; frames that tell of the same messages are left out.
    pub(crate) fn catch_up(
        &mut self,
        state: &State,
        missed: &[Arc<StateMessage>],
        encoder: &mut impl Encoder,
    ) {
        self.retell(missed, encoder);
        self.transcript.set(&state.messages);
        self.caught_up = state.messages.iter().map(|message| message.seq).max().unwrap_or(0);
        (self.step.after, self.point.number) = (Some(state.checkpoint_id), state.number);
        self.channels.clone_from(&state.channels);
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.source(), StreamItem::CaughtUp(state, values));
    }

    /// Translates the messages of the run that the client has `missed`.
    pub(crate) fn retell(&mut self, missed: &[Arc<StateMessage>], encoder: &mut impl Encoder) {
        self.lose_sight();
        if self.phase == Phase::Unseen {
            self.phase = Phase::Begun;
            encoder.encode(&self.source(), StreamItem::RunFound);
        }
        for message in missed {
            self.clock = self.clock.max(message.created_at);
            self.message(message, Route::Journal, encoder);
        }
    }

    /// Translates the end of a run whose last frame was lost.
    pub(crate) fn end_as(&mut self, run: &Run, encoder: &mut impl Encoder) {
        if !self.is_ended() {
            self.phase = Phase::Ended;
            let failure = failure(run.status, run.failure.clone());
            encoder.encode(&self.source(), StreamItem::RunEnded(run.status, failure));
        }
    }

    fn source(&self) -> ItemSource<'_> {
        ItemSource { about: &self.about, step: &self.step, clock: self.clock, point: self.point }
    }

    /// Says that the step does something, once.
    fn begin_task(&mut self, encoder: &mut impl Encoder) {
        if self.step.is_told || self.step.node.is_empty() {
            return;
        }
        self.step.is_told = true;
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.source(), StreamItem::TaskStarted(values));
    }

    fn delta(&mut self, id: &str, kind: SpeechKind, text: &str, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        if self.is_blind || !encoder.needs().speech {
            return;
        }
        let opens_message = self.open_message(id);
        let Some(speech) = &mut self.speech else { return };
        let segment = speech.add(kind, text);
        let Some(speech) = &self.speech else { return };
        let delta = Delta { speech, text, segment, opens_message };
        encoder.encode(&self.source(), StreamItem::Delta(delta));
    }

    fn call(&mut self, frame: &Frame, encoder: &mut impl Encoder) {
        let Frame::ToolCall { message_id, index, call_id, name } = frame else { return };
        self.begin_task(encoder);
        if self.is_blind || !encoder.needs().speech {
            return;
        }
        let opens_message = self.open_message(message_id);
        if let Some(speech) = &mut self.speech {
            speech.announced.push(*index);
        }
        let Some(speech) = &self.speech else { return };
        let call = ToolCall { speech, index: *index, call_id, name, opens_message };
        encoder.encode(&self.source(), StreamItem::ToolCall(call));
    }

    /// Returns whether a message of that id begins: nothing of it was streamed before.
    fn open_message(&mut self, id: &str) -> bool {
        let is_new = self.speech.as_ref().is_none_or(|speech| speech.id != id);
        if is_new {
            self.speech = Some(Speech::new(id));
        }
        is_new
    }

    fn event(&mut self, event: &Event, encoder: &mut impl Encoder) {
        self.clock = self.clock.max(event.created_at);
        if event.kind().is_some_and(changes_transcript) {
            self.transcript.is_stale();
            self.is_changed = true;
        }
        let given = self.newest.take().filter(|given| given.seq == event.seq);
        let Some(message) = given.or_else(|| StateMessage::of(event).map(Arc::new)) else { return };
        self.is_changed = true;
        self.begin_task(encoder);
        if message.seq > self.caught_up {
            let route = if self.is_blind { Route::FrameAfterLoss } else { Route::Frame };
            self.message(&message, route, encoder);
        }
        self.transcript.push(&message);
        self.wrote.push(raw(self.about.held_in, &message));
    }

    /// Sends a message that is stored, with what was streamed of it.
    fn message(&mut self, message: &StateMessage, route: Route, encoder: &mut impl Encoder) {
        let speech = match &message.message {
            Message::Ai(_) => self.speech.take().filter(|speech| speech.id == message.id),
            Message::Human(_) | Message::Tool(_) => None,
        };
        let stored = StoredMessage { message, speech, route };
        encoder.encode(&self.source(), StreamItem::Message(stored));
    }

    fn custom(&mut self, name: &str, payload: &Value, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        encoder.encode(&self.source(), StreamItem::Custom { name, payload });
    }

    /// Sends what a step wrote. One that wrote nothing a client may see is not told.
    fn update(&mut self, node: &str, channels: &Map<String, Value>, encoder: &mut impl Encoder) {
        let messages = std::mem::take(&mut self.wrote);
        let channels = agent::shown_channels(channels);
        if channels.is_empty() && messages.is_empty() {
            return;
        }
        self.is_changed = true;
        node.clone_into(&mut self.step.node);
        self.begin_task(encoder);
        let writes = StepWrites { node, messages: &messages, channels: &channels };
        encoder.encode(&self.source(), StreamItem::Update(writes));
    }

    /// Sends the state after a step, if the step changed what a client sees of it.
    fn values(&mut self, channels: &Map<String, Value>, encoder: &mut impl Encoder) {
        self.channels = agent::shown_channels(channels);
        if std::mem::take(&mut self.is_changed) {
            let values = self.transcript.values(&self.channels);
            encoder.encode(&self.source(), StreamItem::Values(values));
        }
        let points = self.points.take();
        encoder.encode(&self.source(), StreamItem::Points(points.as_deref()));
    }

    fn ended(&mut self, status: RunStatus, failed: Option<RunFailure>, encoder: &mut impl Encoder) {
        self.phase = Phase::Ended;
        let failure = failure(status, failed);
        // What a sub-agent asks, its parent asks for it.
        if status == RunStatus::Interrupted && self.about.is_root() {
            self.pause(encoder);
        }
        if let Some(failure) = failure.as_ref().filter(|_| self.step.is_told) {
            encoder.encode(&self.source(), StreamItem::TaskFailed(&failure.message));
        }
        encoder.encode(&self.source(), StreamItem::RunEnded(status, failure));
    }

    fn pause(&mut self, encoder: &mut impl Encoder) {
        let asked = std::mem::take(&mut self.asked);
        if let Some(first) = asked.first() {
            first.node.clone_into(&mut self.step.node);
            self.begin_task(encoder);
        }
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.source(), StreamItem::Paused(&asked, values));
    }

    /// Translates what a sub-agent does, for clients that want to know.
    fn subagent(&mut self, within: &Within, encoder: &mut impl Encoder) {
        if self.about.subgraphs == Subgraphs::LeftOut {
            return;
        }
        let subagent = self.of_subagent(within);
        encoder.enter(&subagent.about.namespace);
        subagent.translate(&within.frame, encoder);
        encoder.enter(&self.about.namespace);
        if matches!(&*within.frame, Frame::RunEnded { .. }) {
            self.subagents.remove(&within.call_id);
        }
    }

    /// Returns the translator of the sub-agent of that call. Of one that is met midway, the message it streams is sent whole.
    fn of_subagent(&mut self, within: &Within) -> &mut Self {
        let (about, unfinished) = (&self.about, self.unfinished);
        self.subagents.entry(within.call_id.clone()).or_insert_with(|| {
            let mut subagent = Self::new(about.within(within), unfinished);
            subagent.is_blind = !matches!(&*within.frame, Frame::RunStarted { .. });
            subagent
        })
    }
}

/// Returns how a run failed; one that was stopped has not.
fn failure(status: RunStatus, failure: Option<RunFailure>) -> Option<RunFault> {
    failure.map(RunFault::from).filter(|_| status != RunStatus::Cancelled)
}

/// Returns the messages of a run that a client has missed that had everything up to `had`.
pub(crate) fn missed_messages(state: &State, run_id: RunId, had: Seq) -> Vec<Arc<StateMessage>> {
    let is_missed = |message: &&Arc<StateMessage>| message.seq > had && message.run_id == Some(run_id);
    state.messages.iter().filter(is_missed).cloned().collect()
}

#[cfg(test)]
mod tests;
