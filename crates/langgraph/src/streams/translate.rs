//! The translator of a run: it converts the run's frames into items, independent of a wire format. An [`Encoder`]
//! writes the items for a client.
//!
//! The translator is pure. Data of the journal that frames do not contain is requested with
//! [`RunTranslator::query_for_frame`] and supplied with [`RunTranslator::supply`], before the frame is translated.

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
    /// The message is completed: when it is stored, the part after the streamed text is sent.
    Complete,
    /// The message is sent again as a whole when it is stored.
    Repeat,
}

/// The progress of a run, as far as its frames show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunPhase {
    NotStarted,
    Running,
    Ended,
}

/// The translator of one run, or of one sub-agent of a run.
pub(crate) struct RunTranslator {
    origin: RunOrigin,
    partial_messages: PartialMessagePolicy,
    phase: RunPhase,
    step: CurrentStep,
    /// The message that is being streamed.
    streamed: Option<StreamedMessage>,
    /// The messages that the current step has stored, as JSON. They are part of the step's update.
    step_messages: Vec<Arc<RawValue>>,
    transcript: StreamTranscript,
    /// The translators of active sub-agents, by the id of the tool call that started each.
    subagents: BTreeMap<String, RunTranslator>,
    /// The newest of the messages that were supplied for the next frame. It contains the bytes of its files, unlike a
    /// message that is made from the frame's event.
    newest_message: Option<Arc<StateMessage>>,
    /// The checkpoints that were supplied for the next frame.
    checkpoints: Option<Box<CheckpointStates>>,
    /// The events of the admission that were supplied for the next frame.
    admission_events: Vec<Event>,
    /// The newest checkpoint that was supplied.
    checkpoint: CheckpointMark,
    /// The channels of the newest state that clients may see.
    channels: Map<String, Value>,
    /// True if the state has changed for clients since it was sent. It is true at the start, so that the first state
    /// is sent.
    is_changed: bool,
    /// The interrupts that the run has raised. They are sent when the run stops.
    interrupts: Vec<Interrupt>,
    /// True if frames were lost since the step started. Deltas are then dropped, because they no longer fit to the
    /// streamed text.
    has_lost_frames: bool,
    /// The last message that was sent from the journal. The frames of messages up to it are skipped.
    caught_up_seq: Seq,
    /// The time of the newest event of the run.
    clock: Timestamp,
}

impl RunTranslator {
    /// Returns a translator at the start of a run.
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

    /// Returns the id of the run.
    pub(crate) const fn run_id(&self) -> RunId {
        self.origin.run_id
    }

    /// Returns whether the end of the run was translated.
    pub(crate) fn is_ended(&self) -> bool {
        self.phase == RunPhase::Ended
    }

    /// Returns the query whose result must be supplied before the frame can be translated.
    ///
    /// The encoder decides which data it needs; most frames need none.
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

    /// Returns the query for any frame except the start of the run itself. The frame of a sub-agent is passed to its
    /// translator.
    fn query_for(&mut self, frame: &Frame, needs: EncoderNeeds) -> JournalQuery {
        let thread_id = self.origin.message_thread_id;
        if let Frame::Subagent(subagent) = frame {
            return match self.origin.subgraphs {
                SubgraphStreaming::Excluded => JournalQuery::Nothing,
                SubgraphStreaming::Included => {
                    self.subagent_translator(subagent).query_for(&subagent.frame, needs)
                }
            };
        }
        if let Frame::Values { checkpoint_id, head_seq, .. } = frame {
            return match (needs.checkpoints, needs.messages && !self.transcript.is_complete()) {
                (true, _) => JournalQuery::Checkpoints(thread_id, *checkpoint_id),
                (false, true) => JournalQuery::Messages(thread_id, *head_seq),
                (false, false) => JournalQuery::Nothing,
            };
        }
        // The bytes of a message's files are not in its event, but in artifacts.
        if let Frame::Event(event) = frame
            && agent::has_media(event)
        {
            return JournalQuery::Messages(thread_id, event.seq);
        }
        JournalQuery::Nothing
    }

    /// Accepts the result of the query for the frame. Call it before the frame is translated.
    pub(crate) fn supply(&mut self, frame: &Frame, reply: JournalReply) {
        if let Frame::Subagent(subagent) = frame {
            return self.subagent_translator(subagent).supply(&subagent.frame, reply);
        }
        match reply {
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

    /// Translates the frame at that position into items for the encoder.
    pub(crate) fn translate_frame(
        &mut self,
        position: FramePosition,
        frame: &Frame,
        encoder: &mut impl Encoder,
    ) {
        encoder.set_frame_position(position);
        self.translate(frame, encoder);
    }

    /// Translates a frame at the position that the encoder has.
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
            Frame::Subagent(subagent) => self.translate_subagent(subagent, encoder),
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

    /// Records that frames before the next one were lost. The message that was being streamed is completed or
    /// repeated when it is stored, according to the [`PartialMessagePolicy`]. The messages of the thread are read
    /// again before the next state.
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

    /// Sends the messages that the client has `missed` and the state, both from the journal, in place of lost frames.
    ///
    /// The stream is complete again from here on. Later frames of the same messages are skipped.
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

    /// Sends the messages of the run that the client has `missed`, without the state.
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

    /// Sends the end of a run whose last frame was lost, from the row of the run. Does nothing if the end was sent.
    pub(crate) fn send_end_of(&mut self, run: &Run, encoder: &mut impl Encoder) {
        if !self.is_ended() {
            self.phase = RunPhase::Ended;
            let failure = wire_failure(run.status, run.failure.clone());
            encoder.encode(&self.item_source(), StreamItem::RunEnded(run.status, failure));
        }
    }

    /// Returns the source of the next items.
    fn item_source(&self) -> ItemSource<'_> {
        ItemSource { origin: &self.origin, step: &self.step, clock: self.clock, checkpoint: self.checkpoint }
    }

    /// Sends the start of the current step, once. It is called before the first effect of the step.
    fn begin_task(&mut self, encoder: &mut impl Encoder) {
        if self.step.is_announced || self.step.node.is_empty() {
            return;
        }
        self.step.is_announced = true;
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.item_source(), StreamItem::TaskStarted(values));
    }

    /// Sends a delta of a message, unless frames of the step were lost or the encoder does not need deltas.
    fn translate_delta(&mut self, id: &str, kind: SegmentKind, text: &str, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        if self.has_lost_frames || !encoder.needs().streamed_messages {
            return;
        }
        let opens_message = self.open_message(id);
        let Some(streamed) = &mut self.streamed else { return };
        let segment = streamed.append(kind, text);
        let Some(streamed) = &self.streamed else { return };
        let delta = MessageDelta { message: streamed, text, segment, opens_message };
        encoder.encode(&self.item_source(), StreamItem::Delta(delta));
    }

    /// Sends the announcement of a tool call, under the same conditions as a delta.
    fn translate_tool_call(&mut self, frame: &Frame, encoder: &mut impl Encoder) {
        let Frame::ToolCall { message_id, index, call_id, name } = frame else { return };
        self.begin_task(encoder);
        if self.has_lost_frames || !encoder.needs().streamed_messages {
            return;
        }
        let opens_message = self.open_message(message_id);
        if let Some(streamed) = &mut self.streamed {
            streamed.announced_calls.push(*index);
        }
        let Some(streamed) = &self.streamed else { return };
        let call = ToolCallAnnouncement { message: streamed, index: *index, call_id, name, opens_message };
        encoder.encode(&self.item_source(), StreamItem::ToolCall(call));
    }

    /// Makes the message with that id the streamed one. Returns true if nothing of it was streamed before.
    fn open_message(&mut self, id: &str) -> bool {
        let is_new = self.streamed.as_ref().is_none_or(|streamed| streamed.id != id);
        if is_new {
            self.streamed = Some(StreamedMessage::new(id));
        }
        is_new
    }

    /// Translates a stored event. An event that is a message is sent as a message, unless it was sent from the journal.
    fn translate_event(&mut self, event: &Event, encoder: &mut impl Encoder) {
        self.clock = self.clock.max(event.created_at);
        if event.kind().is_some_and(changes_transcript) {
            self.transcript.mark_stale();
            self.is_changed = true;
        }
        let supplied = self.newest_message.take().filter(|supplied| supplied.seq == event.seq);
        let Some(message) = supplied.or_else(|| StateMessage::from_event(event).map(Arc::new)) else {
            return;
        };
        self.is_changed = true;
        self.begin_task(encoder);
        if message.seq > self.caught_up_seq {
            let route = if self.has_lost_frames { MessageRoute::FrameAfterLoss } else { MessageRoute::Frame };
            self.send_message(&message, route, encoder);
        }
        self.transcript.push(&message);
        self.step_messages.push(raw_message(self.origin.message_thread_id, &message));
    }

    /// Sends a stored message, with the part of it that was streamed.
    fn send_message(&mut self, message: &StateMessage, route: MessageRoute, encoder: &mut impl Encoder) {
        let streamed = match &message.message {
            Message::Ai(_) => self.streamed.take().filter(|streamed| streamed.id == message.id),
            Message::Human(_) | Message::Tool(_) => None,
        };
        let stored = StoredMessage { message, streamed, route };
        encoder.encode(&self.item_source(), StreamItem::Message(stored));
    }

    /// Sends a custom event of the current step.
    fn send_custom(&mut self, name: &str, payload: &Value, encoder: &mut impl Encoder) {
        self.begin_task(encoder);
        encoder.encode(&self.item_source(), StreamItem::Custom { name, payload });
    }

    /// Sends the changes of a step that has ended. A step without changes that clients may see is not sent.
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

    /// Sends the state after a step if it has changed for clients, and the checkpoints of the step.
    fn send_values(&mut self, channels: &Map<String, Value>, encoder: &mut impl Encoder) {
        self.channels = agent::client_channels(channels);
        if std::mem::take(&mut self.is_changed) {
            let values = self.transcript.values(&self.channels);
            encoder.encode(&self.item_source(), StreamItem::Values(values));
        }
        let checkpoints = self.checkpoints.take();
        encoder.encode(&self.item_source(), StreamItem::Checkpoints(checkpoints.as_deref()));
    }

    /// Sends the end of the run, preceded by the pending interrupts or by the failure of its last step.
    fn translate_end(&mut self, status: RunStatus, failure: Option<RunFailure>, encoder: &mut impl Encoder) {
        self.phase = RunPhase::Ended;
        let failure = wire_failure(status, failure);
        // The interrupts of a sub-agent are raised again by its parent, and are sent there.
        if status == RunStatus::Interrupted && self.origin.is_root() {
            self.send_paused(encoder);
        }
        if let Some(failure) = failure.as_ref().filter(|_| self.step.is_announced) {
            encoder.encode(&self.item_source(), StreamItem::TaskFailed(&failure.message));
        }
        encoder.encode(&self.item_source(), StreamItem::RunEnded(status, failure));
    }

    /// Sends the stop of a run with its pending interrupts. The step that is shown is that of the node which raised
    /// them.
    fn send_paused(&mut self, encoder: &mut impl Encoder) {
        let interrupts = std::mem::take(&mut self.interrupts);
        if let Some(first) = interrupts.first() {
            first.node.clone_into(&mut self.step.node);
            self.begin_task(encoder);
        }
        let values = self.transcript.values(&self.channels);
        encoder.encode(&self.item_source(), StreamItem::Paused(&interrupts, values));
    }

    /// Translates the frame of a sub-agent in the namespace of the sub-agent, for clients that requested sub-agents.
    fn translate_subagent(&mut self, frame: &SubagentFrame, encoder: &mut impl Encoder) {
        if self.origin.subgraphs == SubgraphStreaming::Excluded {
            return;
        }
        let subagent = self.subagent_translator(frame);
        encoder.enter_namespace(&subagent.origin.namespace);
        subagent.translate(&frame.frame, encoder);
        encoder.enter_namespace(&self.origin.namespace);
        if matches!(&*frame.frame, Frame::RunEnded { .. }) {
            self.subagents.remove(&frame.call_id);
        }
    }

    /// Returns the translator of the frame's sub-agent, and creates it if necessary.
    ///
    /// If the first frame is not the start of the sub-agent, earlier frames were lost. Deltas of the message that it
    /// streams are then dropped, and the message is sent as a whole when it is stored.
    fn subagent_translator(&mut self, frame: &SubagentFrame) -> &mut Self {
        let (origin, partial_messages) = (&self.origin, self.partial_messages);
        self.subagents.entry(frame.call_id.clone()).or_insert_with(|| {
            let mut subagent = Self::new(origin.for_subagent(frame), partial_messages);
            subagent.has_lost_frames = !matches!(&*frame.frame, Frame::RunStarted { .. });
            subagent
        })
    }
}

/// Returns the failure of a run on the wire. A cancelled run has none, although its row contains the reason.
fn wire_failure(status: RunStatus, failure: Option<RunFailure>) -> Option<WireRunFailure> {
    failure.map(WireRunFailure::from).filter(|_| status != RunStatus::Cancelled)
}

/// Returns the messages of a run after `received`, the last event that the client has received.
pub(crate) fn missed_messages(
    state: &ThreadSnapshot,
    run_id: RunId,
    received: Seq,
) -> Vec<Arc<StateMessage>> {
    let is_missed = |message: &&Arc<StateMessage>| message.seq > received && message.run_id == Some(run_id);
    state.messages.iter().filter(is_missed).cloned().collect()
}

#[cfg(test)]
mod tests;
