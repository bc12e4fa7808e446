//! The translator of runs: frames in, items out. Pure. What the journal knows and frames do not hold is asked for with
//! [`Translator::need`] and given with [`Translator::give`]. In which shape an item is sent is the [`Encoder`]'s work.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::{Frame, FramePosition, StateMessage, SubagentFrame, ThreadSnapshot};
use jiff::Timestamp;
use protocol::{Event, Interrupt, Message, Run, RunFailure, RunId, RunRef, RunStatus, Seq};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::streams::item::{
    CheckpointMark, Encoder, EncoderNeeds, ItemSource, MessageDelta, MessageRoute, StepWrites, StoredMessage,
    StreamItem, ToolCallAnnouncement,
};
use crate::streams::journal_query::{CheckpointStates, JournalQuery, JournalReply};
use crate::streams::origin::{CurrentStep, RunOrigin, SubgraphStreaming};
use crate::streams::streamed_message::{SegmentKind, StreamedMessage};
use crate::streams::transcript::{StreamTranscript, changes_transcript, raw_message};
use crate::wire::failure::WireRunFailure;

/// The handling of a message when frames are lost while it is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartialMessagePolicy {
    /// It is completed: the rest of it follows what was sent.
    Complete,
    /// It is sent again, whole.
    Repeat,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    NotStarted,
    Running,
    Ended,
}

/// The translator of one run.
pub(crate) struct RunTranslator {
    origin: RunOrigin,
    partial_messages: PartialMessagePolicy,
    phase: RunPhase,
    step: CurrentStep,
    streamed: Option<StreamedMessage>,
    /// The messages that the step wrote.
    step_messages: Vec<Arc<RawValue>>,
    transcript: StreamTranscript,
    /// The translators of the sub-agents that work, by the calls that began them.
    subagents: BTreeMap<String, RunTranslator>,
    /// The newest message of those that were given.
    newest_message: Option<Arc<StateMessage>>,
    /// The query results for the next frame.
    checkpoints: Option<Box<CheckpointStates>>,
    /// The events of the admission that were given.
    admission_events: Vec<Event>,
    /// The newest point that was given.
    checkpoint: CheckpointMark,
    /// The channels of the newest state.
    channels: Map<String, Value>,
    is_changed: bool,
    interrupts: Vec<Interrupt>,
    /// True if frames were lost since the step started.
    has_lost_frames: bool,
    /// The last event that was told of instead of lost frames.
    caught_up_seq: Seq,
    /// The newest moment that an event of the run told.
    clock: Timestamp,
}

impl RunTranslator {
    pub(crate) fn new(origin: RunOrigin, partial_messages: PartialMessagePolicy) -> Self {
        Self {
            partial_messages,
            phase: RunPhase::NotStarted,
            step: CurrentStep::default(),
            streamed: None,
            step_messages: Vec::new(),
            transcript: StreamTranscript::new(origin.message_thread_id),
            subagents: BTreeMap::new(),
            newest_message: None,
            checkpoints: None,
            admission_events: Vec::new(),
            checkpoint: CheckpointMark { number: 0, created_at: Timestamp::UNIX_EPOCH },
            channels: Map::new(),
            is_changed: true,
            interrupts: Vec::new(),
            has_lost_frames: false,
            caught_up_seq: 0,
            clock: Timestamp::UNIX_EPOCH,
            origin,
        }
    }

    /// Returns the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.origin.run_id
    }

    /// Returns whether the run's end was told.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase == RunPhase::Ended
    }

    /// Returns what has to be given before `frame` can be translated.
    pub(crate) fn query_for_frame(
        &mut self,
        position: FramePosition,
        frame: &Frame,
        encoder: &mut impl Encoder,
    ) -> JournalQuery {
        encoder.set_frame_position(position);
        match frame {
            Frame::RunStarted { thread_id, run_id } if encoder.needs().admission => {
                JournalQuery::Admission(RunRef { thread_id: *thread_id, run_id: *run_id }, position.seq)
            }
            frame => self.query_for(frame, encoder.needs()),
        }
    }

    fn query_for(&mut self, frame: &Frame, needs: EncoderNeeds) -> JournalQuery {
        let held_in = self.origin.message_thread_id;
        if let Frame::Subagent(within) = frame {
            return match self.origin.subgraphs {
                SubgraphStreaming::Excluded => JournalQuery::Nothing,
                SubgraphStreaming::Included => {
                    self.subagent_translator(within).query_for(&within.frame, needs)
                }
            };
        }
        if let Frame::Values { checkpoint_id, head_seq, .. } = frame {
            return match (needs.checkpoints, needs.messages && !self.transcript.is_complete()) {
                (true, _) => JournalQuery::Checkpoints(held_in, *checkpoint_id),
                (false, true) => JournalQuery::Messages(held_in, *head_seq),
                (false, false) => JournalQuery::Nothing,
            };
        }
        // The bytes of an event's files are stored apart from it.
        if let Frame::Event(event) = frame
            && agent::has_media(event)
        {
            return JournalQuery::Messages(held_in, event.seq);
        }
        JournalQuery::Nothing
    }

    /// Takes what was asked for.
    pub(crate) fn supply(&mut self, frame: &Frame, given: JournalReply) {
        if let Frame::Subagent(within) = frame {
            return self.subagent_translator(within).supply(&within.frame, given);
        }
        match given {
            JournalReply::Nothing => {}
            JournalReply::Messages(messages) => {
                self.transcript.set(&messages);
                self.newest_message = messages.last().cloned();
            }
            JournalReply::Checkpoints(points) => {
                let ThreadSnapshot { messages, created_at, number, .. } = &points.state;
                self.transcript.set(messages);
                let created_at = self.checkpoint.created_at.max(*created_at);
                self.checkpoint = CheckpointMark { number: *number, created_at };
                self.checkpoints = Some(points);
            }
            JournalReply::Admission(events) => self.admission_events = events,
        }
    }

    /// Translates a frame.
    pub(crate) fn translate_frame(
        &mut self,
        position: FramePosition,
        frame: &Frame,
        encoder: &mut impl Encoder,
    ) {
        encoder.set_frame_position(position);
        self.translate(frame, encoder);
    }

    fn translate(&mut self, frame: &Frame, encoder: &mut impl Encoder) {
        match frame {
            Frame::RunStarted { .. } => {
                self.phase = RunPhase::Running;
                encoder.encode(&self.item_source(), StreamItem::RunStarted);
                for event in std::mem::take(&mut self.admission_events) {
                    encoder.encode(&self.item_source(), StreamItem::Stored(&event));
                }
            }
            Frame::StepStarted { node, step } => {
                self.step = CurrentStep {
                    node: node.clone(),
                    number: *step,
                    start_checkpoint: self.step.start_checkpoint,
                    ..CurrentStep::default()
                };
                self.has_lost_frames = false;
            }
            Frame::Text { message_id, text } => {
                self.translate_delta(message_id, SegmentKind::Text, text, encoder);
            }
            Frame::Thinking { message_id, text } => {
                self.translate_delta(message_id, SegmentKind::Reasoning, text, encoder);
            }
            Frame::ToolCall { .. } => self.translate_tool_call(frame, encoder),
            Frame::ToolStarted { call_id, name, args } => {
                self.begin_task(encoder);
                encoder.encode(&self.item_source(), StreamItem::ToolStarted { call_id, name, args });
            }
            Frame::ToolEnded { .. } => {}
            Frame::ToolOutput { call_id, text } => {
                self.send_custom("tool_output", &json!({"tool_call_id": call_id, "text": text}), encoder);
            }
            Frame::Subagent(within) => self.translate_subagent(within, encoder),
            Frame::Custom { name, value } => self.send_custom(name, value, encoder),
            Frame::Progress { what, done, total } => {
                self.send_custom("progress", &json!({"what": what, "done": done, "total": total}), encoder);
            }
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.send_custom("notice", &json!({"text": text}), encoder);
            }
            Frame::Event(event) => {
                self.translate_event(event, encoder);
                encoder.encode(&self.item_source(), StreamItem::Stored(event));
            }
            Frame::Updates { node, channels } => self.send_update(node, channels, encoder),
            Frame::Values { checkpoint_id, channels, .. } => {
                self.send_values(channels, encoder);
                self.step.start_checkpoint = Some(*checkpoint_id);
            }
            Frame::Interrupted(interrupt) => {
                self.interrupts.push((**interrupt).clone());
                encoder.encode(&self.item_source(), StreamItem::Interrupted(interrupt));
            }
            Frame::RunEnded { status, failure, .. } => self.translate_end(*status, failure.clone(), encoder),
        }
    }

    /// Says that frames are missing before the next one: what is being streamed is sent again, or the rest of it, once it is
    /// stored.
    pub(crate) fn mark_frames_lost(&mut self) {
        self.has_lost_frames = true;
        self.subagents.clear();
        self.transcript.mark_stale();
        self.step_messages.clear();
        match self.partial_messages {
            PartialMessagePolicy::Complete => {}
            PartialMessagePolicy::Repeat => self.streamed = None,
        }
    }

    /// Translates what the journal has instead of lost frames: the messages that the client has `missed`, and the state.
    /// From here on the stream is whole again; frames that tell of the same messages are left out.
    pub(crate) fn catch_up(
        &mut self,
        state: &ThreadSnapshot,
        missed: &[Arc<StateMessage>],
        encoder: &mut impl Encoder,
    ) {
        self.replay_messages(missed, encoder);
        self.transcript.set(&state.messages);
        self.caught_up_seq = state.messages.iter().map(|message| message.seq).max().unwrap_or(0);
        (self.step.start_checkpoint, self.checkpoint.number) = (Some(state.checkpoint_id), state.number);
        self.channels.clone_from(&state.channels);
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.item_source(), StreamItem::Snapshot(state, values));
    }

    /// Translates the messages of the run that the client has `missed`.
    pub(crate) fn replay_messages(&mut self, missed: &[Arc<StateMessage>], encoder: &mut impl Encoder) {
        self.mark_frames_lost();
        if self.phase == RunPhase::NotStarted {
            self.phase = RunPhase::Running;
            encoder.encode(&self.item_source(), StreamItem::RunJoined);
        }
        for message in missed {
            self.clock = self.clock.max(message.created_at);
            self.send_message(message, MessageRoute::Journal, encoder);
        }
    }

    /// Translates the end of a run whose last frame was lost.
    pub(crate) fn send_end_of(&mut self, run: &Run, encoder: &mut impl Encoder) {
        if !self.is_ended() {
            self.phase = RunPhase::Ended;
            let failure = wire_failure(run.status, run.failure.clone());
            encoder.encode(&self.item_source(), StreamItem::RunEnded(run.status, failure));
        }
    }

    fn item_source(&self) -> ItemSource<'_> {
        ItemSource { origin: &self.origin, step: &self.step, clock: self.clock, checkpoint: self.checkpoint }
    }

    /// Says that the step does something, once.
    fn begin_task(&mut self, encoder: &mut impl Encoder) {
        if self.step.is_announced || self.step.node.is_empty() {
            return;
        }
        self.step.is_announced = true;
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.item_source(), StreamItem::TaskStarted(values));
    }

    fn translate_delta(&mut self, id: &str, kind: SegmentKind, text: &str, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        if self.has_lost_frames || !encoder.needs().streamed_messages {
            return;
        }
        let opens_message = self.open_message(id);
        let Some(speech) = &mut self.streamed else { return };
        let segment = speech.append(kind, text);
        let Some(speech) = &self.streamed else { return };
        let delta = MessageDelta { message: speech, text, segment, opens_message };
        encoder.encode(&self.item_source(), StreamItem::Delta(delta));
    }

    fn translate_tool_call(&mut self, frame: &Frame, encoder: &mut impl Encoder) {
        let Frame::ToolCall { message_id, index, call_id, name } = frame else { return };
        self.begin_task(encoder);
        if self.has_lost_frames || !encoder.needs().streamed_messages {
            return;
        }
        let opens_message = self.open_message(message_id);
        if let Some(speech) = &mut self.streamed {
            speech.announced_calls.push(*index);
        }
        let Some(speech) = &self.streamed else { return };
        let call = ToolCallAnnouncement { message: speech, index: *index, call_id, name, opens_message };
        encoder.encode(&self.item_source(), StreamItem::ToolCall(call));
    }

    /// Returns whether a message of that id begins: nothing of it was streamed before.
    fn open_message(&mut self, id: &str) -> bool {
        let is_new = self.streamed.as_ref().is_none_or(|speech| speech.id != id);
        if is_new {
            self.streamed = Some(StreamedMessage::new(id));
        }
        is_new
    }

    fn translate_event(&mut self, event: &Event, encoder: &mut impl Encoder) {
        self.clock = self.clock.max(event.created_at);
        if event.kind().is_some_and(changes_transcript) {
            self.transcript.mark_stale();
            self.is_changed = true;
        }
        let given = self.newest_message.take().filter(|given| given.seq == event.seq);
        let Some(message) = given.or_else(|| StateMessage::from_event(event).map(Arc::new)) else { return };
        self.is_changed = true;
        self.begin_task(encoder);
        if message.seq > self.caught_up_seq {
            let route = if self.has_lost_frames { MessageRoute::FrameAfterLoss } else { MessageRoute::Frame };
            self.send_message(&message, route, encoder);
        }
        self.transcript.push(&message);
        self.step_messages.push(raw_message(self.origin.message_thread_id, &message));
    }

    /// Sends a message that is stored, with what was streamed of it.
    fn send_message(&mut self, message: &StateMessage, route: MessageRoute, encoder: &mut impl Encoder) {
        let speech = match &message.message {
            Message::Ai(_) => self.streamed.take().filter(|speech| speech.id == message.id),
            Message::Human(_) | Message::Tool(_) => None,
        };
        let stored = StoredMessage { message, streamed: speech, route };
        encoder.encode(&self.item_source(), StreamItem::Message(stored));
    }

    fn send_custom(&mut self, name: &str, payload: &Value, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        encoder.encode(&self.item_source(), StreamItem::Custom { name, payload });
    }

    /// Sends what a step wrote. One that wrote nothing a client may see is not told.
    fn send_update(&mut self, node: &str, channels: &Map<String, Value>, encoder: &mut impl Encoder) {
        let messages = std::mem::take(&mut self.step_messages);
        let channels = agent::client_channels(channels);
        if channels.is_empty() && messages.is_empty() {
            return;
        }
        self.is_changed = true;
        node.clone_into(&mut self.step.node);
        self.begin_task(encoder);
        let writes = StepWrites { node, messages: &messages, channels: &channels };
        encoder.encode(&self.item_source(), StreamItem::Update(writes));
    }

    /// Sends the state after a step, if the step changed what a client sees of it.
    fn send_values(&mut self, channels: &Map<String, Value>, encoder: &mut impl Encoder) {
        self.channels = agent::client_channels(channels);
        if std::mem::take(&mut self.is_changed) {
            let values = self.transcript.values(&self.channels);
            encoder.encode(&self.item_source(), StreamItem::Values(values));
        }
        let points = self.checkpoints.take();
        encoder.encode(&self.item_source(), StreamItem::Checkpoints(points.as_deref()));
    }

    fn translate_end(&mut self, status: RunStatus, failed: Option<RunFailure>, encoder: &mut impl Encoder) {
        self.phase = RunPhase::Ended;
        let failure = wire_failure(status, failed);
        // What a sub-agent asks, its parent asks for it.
        if status == RunStatus::Interrupted && self.origin.is_root() {
            self.send_paused(encoder);
        }
        if let Some(failure) = failure.as_ref().filter(|_| self.step.is_announced) {
            encoder.encode(&self.item_source(), StreamItem::TaskFailed(&failure.message));
        }
        encoder.encode(&self.item_source(), StreamItem::RunEnded(status, failure));
    }

    fn send_paused(&mut self, encoder: &mut impl Encoder) {
        let asked = std::mem::take(&mut self.interrupts);
        if let Some(first) = asked.first() {
            first.node.clone_into(&mut self.step.node);
            self.begin_task(encoder);
        }
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.item_source(), StreamItem::Paused(&asked, values));
    }

    /// Translates what a sub-agent does, for clients that want to know.
    fn translate_subagent(&mut self, within: &SubagentFrame, encoder: &mut impl Encoder) {
        if self.origin.subgraphs == SubgraphStreaming::Excluded {
            return;
        }
        let subagent = self.subagent_translator(within);
        encoder.enter_namespace(&subagent.origin.namespace);
        subagent.translate(&within.frame, encoder);
        encoder.enter_namespace(&self.origin.namespace);
        if matches!(&*within.frame, Frame::RunEnded { .. }) {
            self.subagents.remove(&within.call_id);
        }
    }

    /// Returns the translator of the sub-agent of that call. Of one that is met midway, the message it streams is sent whole.
    fn subagent_translator(&mut self, within: &SubagentFrame) -> &mut Self {
        let (about, unfinished) = (&self.origin, self.partial_messages);
        self.subagents.entry(within.call_id.clone()).or_insert_with(|| {
            let mut subagent = Self::new(about.for_subagent(within), unfinished);
            subagent.has_lost_frames = !matches!(&*within.frame, Frame::RunStarted { .. });
            subagent
        })
    }
}

/// Returns how a run failed; one that was stopped has not.
fn wire_failure(status: RunStatus, failure: Option<RunFailure>) -> Option<WireRunFailure> {
    failure.map(WireRunFailure::from).filter(|_| status != RunStatus::Cancelled)
}

/// Returns the messages of a run that a client has missed that had everything up to `had`.
pub(crate) fn missed_messages(state: &ThreadSnapshot, run_id: RunId, had: Seq) -> Vec<Arc<StateMessage>> {
    let is_missed = |message: &&Arc<StateMessage>| message.seq > had && message.run_id == Some(run_id);
    state.messages.iter().filter(is_missed).cloned().collect()
}

#[cfg(test)]
mod tests;
