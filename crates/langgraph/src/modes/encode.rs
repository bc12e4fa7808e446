//! The encoder of streams by stream mode: each item of a run becomes one event for each requested mode that shows it.
//!
//! The functions check [`ModeWriter::wants`] before they build an expensive payload. [`ModeWriter::send`] drops
//! events of modes that were not requested, and events that the client has already received.

use std::sync::Arc;

use agent::{FramePosition, ThreadSnapshot};
use protocol::{Interrupt, Message};
use serde_json::{Map, Value, json};

use crate::modes::chunks::{DeltaChunk, last_chunk, partial_message, tool_call_announcement};
use crate::modes::mode::StreamMode;
use crate::modes::payload::{
    TaskResult, checkpoint_payload, custom_payload, debug_payload, message_metadata, task_ended_payload,
    task_started_payload,
};
use crate::modes::writer::{EventSlot, ModeWriter};
use crate::streams::item::{
    Encoder, EncoderNeeds, ItemSource, MessageDelta, StepWrites, StoredMessage, StreamItem,
    ToolCallAnnouncement,
};
use crate::streams::journal_query::CheckpointStates;
use crate::streams::transcript::{StreamedState, raw_message};
use crate::wire;

impl Encoder for ModeWriter {
    fn set_frame_position(&mut self, position: FramePosition) {
        self.set_position(position);
    }

    fn enter_namespace(&mut self, namespace: &Arc<str>) {
        self.set_namespace(namespace);
    }

    fn needs(&self) -> EncoderNeeds {
        let modes = self.modes();
        EncoderNeeds {
            // The timestamps of `debug` events depend on earlier checkpoints, also on those that the client has
            // received.
            checkpoints: self.wants(EventSlot::Checkpoint) || modes.has(StreamMode::Debug),
            messages: self.wants(EventSlot::Values) || modes.has(StreamMode::Tasks),
            streamed_messages: modes.has_any(&[StreamMode::MessagesTuple, StreamMode::Messages]),
            admission: false,
        }
    }

    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>) {
        let is_root = source.origin.is_root();
        match item {
            StreamItem::RunStarted if is_root => {
                let started = json!({"run_id": source.origin.run_id, "attempt": 1});
                self.send(EventSlot::RunStarted, "metadata", &started);
            }
            StreamItem::TaskStarted(input) => self.send_task_started(source, input),
            StreamItem::TaskFailed(message) => {
                self.send_task_ended(
                    source,
                    &TaskResult { error: Some(message), result: &Map::new(), interrupts: &[] },
                );
            }
            StreamItem::Delta(delta) => self.send_delta(source, &delta),
            StreamItem::ToolCall(call) => self.send_tool_call(source, &call),
            StreamItem::Custom { name, payload } if self.wants(EventSlot::Custom) => {
                self.send(EventSlot::Custom, "custom", &custom_payload(name, payload));
            }
            StreamItem::Message(stored) => self.send_message(source, &stored),
            StreamItem::Update(writes) => self.send_update(source, &writes),
            StreamItem::Values(values) => self.send(EventSlot::Values, "values", &values),
            StreamItem::Checkpoints(Some(points)) => self.send_checkpoints(source, points),
            StreamItem::Snapshot(state, values) => {
                let interrupts: Vec<_> = state.interrupts.iter().map(wire::Interrupt::from).collect();
                self.send(EventSlot::Values, "values", &values.with_interrupts(&interrupts));
            }
            StreamItem::Paused(interrupts, values) => self.send_paused(source, interrupts, values),
            // The failure of a sub-agent is reported by the result of its tool call.
            StreamItem::RunEnded(_, Some(failure)) if is_root => {
                self.send(EventSlot::RunFailed, "error", &failure)
            }
            StreamItem::RunStarted
            | StreamItem::RunJoined
            | StreamItem::ToolStarted { .. }
            | StreamItem::Custom { .. }
            | StreamItem::Stored(_)
            | StreamItem::Checkpoints(None)
            | StreamItem::Interrupted(_)
            | StreamItem::RunEnded(..) => {}
        }
    }
}

impl ModeWriter {
    /// Sends the start of a step in the modes `tasks` and `debug`.
    fn send_task_started(&mut self, source: &ItemSource<'_>, input: StreamedState<'_>) {
        if self.wants(EventSlot::TaskStarted) || self.wants(EventSlot::TaskStartedDebug) {
            let task = task_started_payload(source, &input);
            self.send(EventSlot::TaskStarted, "tasks", &task);
            self.send_debug(source, EventSlot::TaskStartedDebug, "task", &task);
        }
    }

    /// Sends the end of a step in the modes `tasks` and `debug`.
    fn send_task_ended(&mut self, source: &ItemSource<'_>, outcome: &TaskResult<'_>) {
        if self.wants(EventSlot::TaskEnded) || self.wants(EventSlot::TaskEndedDebug) {
            let task = task_ended_payload(source, outcome);
            self.send(EventSlot::TaskEnded, "tasks", &task);
            self.send_debug(source, EventSlot::TaskEndedDebug, "task_result", &task);
        }
    }

    /// Sends a payload of a step in the envelope of the mode `debug`.
    fn send_debug(&mut self, source: &ItemSource<'_>, slot: EventSlot, kind: &str, payload: &Value) {
        if self.wants(slot) {
            let time = source.clock.max(source.checkpoint.created_at);
            self.send(slot, "debug", &debug_payload(kind, source.checkpoint.number + 1, time, payload));
        }
    }

    /// Sends a delta: as a chunk in the mode `messages-tuple`, and as the message so far in the mode `messages`.
    fn send_delta(&mut self, source: &ItemSource<'_>, delta: &MessageDelta<'_>) {
        let MessageDelta { message: streamed, text, opens_message, .. } = *delta;
        let id = streamed.id.as_str();
        if self.wants(EventSlot::Chunk)
            && let Some((kind, _)) = streamed.segments.last()
        {
            let chunk = DeltaChunk::new(id, *kind, text);
            self.send(EventSlot::Chunk, "messages", &(chunk, message_metadata(source)));
        }
        if opens_message {
            self.send_message_metadata(source, id);
        }
        if self.wants(EventSlot::Message) {
            self.send(EventSlot::Message, "messages/partial", &[partial_message(streamed)]);
        }
    }

    /// Sends the announcement of a tool call. The mode `messages` shows calls only in the stored message.
    fn send_tool_call(&mut self, source: &ItemSource<'_>, call: &ToolCallAnnouncement<'_>) {
        if self.wants(EventSlot::Chunk) {
            self.send(
                EventSlot::Chunk,
                "messages",
                &(tool_call_announcement(call), message_metadata(source)),
            );
        }
        if call.opens_message {
            self.send_message_metadata(source, &call.message.id);
        }
    }

    /// Sends the metadata of a message, which the mode `messages` has once for each message.
    fn send_message_metadata(&mut self, source: &ItemSource<'_>, id: &str) {
        if self.wants(EventSlot::MessageMetadata) {
            let metadata = json!({id: {"metadata": message_metadata(source)}});
            self.send(EventSlot::MessageMetadata, "messages/metadata", &metadata);
        }
    }

    /// Sends a stored message of a model or tool. Human messages are not part of the message modes.
    fn send_message(&mut self, source: &ItemSource<'_>, stored: &StoredMessage<'_>) {
        let StoredMessage { message, streamed, .. } = stored;
        let raw = raw_message(source.origin.message_thread_id, message);
        let was_streamed = streamed.is_some();
        match &message.message {
            Message::Human(_) => return,
            Message::Tool(_) if self.wants(EventSlot::Chunk) => {
                self.send(EventSlot::Chunk, "messages", &(&*raw, message_metadata(source)));
            }
            Message::Ai(_) if self.wants(EventSlot::Chunk) => {
                let chunk = last_chunk(streamed.as_ref(), &raw);
                self.send(EventSlot::Chunk, "messages", &(chunk, message_metadata(source)));
            }
            Message::Tool(_) | Message::Ai(_) => {}
        }
        if was_streamed {
            self.send(EventSlot::Message, "messages/partial", &[&*raw]);
        } else {
            self.send_message_metadata(source, &message.id);
            self.send(EventSlot::Message, "messages/complete", &[&*raw]);
        }
    }

    /// Sends the changes of a step in the mode `updates`, and the end of the step.
    fn send_update(&mut self, source: &ItemSource<'_>, writes: &StepWrites<'_>) {
        let slots = [EventSlot::Update, EventSlot::TaskEnded, EventSlot::TaskEndedDebug];
        if !slots.into_iter().any(|slot| self.wants(slot)) {
            return;
        }
        let update = writes.to_object();
        if self.wants(EventSlot::Update) {
            self.send(EventSlot::Update, "updates", &json!({writes.node: update}));
        }
        self.send_task_ended(source, &TaskResult { error: None, result: &update, interrupts: &[] });
    }

    /// Sends the checkpoints that a step wrote: the one before the run's input if there is one, then the one after
    /// the step.
    fn send_checkpoints(&mut self, source: &ItemSource<'_>, points: &CheckpointStates) {
        if let Some(input) = &points.input {
            self.send_checkpoint(
                source,
                input,
                [EventSlot::InputCheckpoint, EventSlot::InputCheckpointDebug],
            );
        }
        self.send_checkpoint(source, &points.state, [EventSlot::Checkpoint, EventSlot::CheckpointDebug]);
    }

    /// Sends a checkpoint in the slot of the mode `checkpoints`, and in that of the mode `debug`.
    fn send_checkpoint(
        &mut self,
        source: &ItemSource<'_>,
        state: &ThreadSnapshot,
        [slot, debug_slot]: [EventSlot; 2],
    ) {
        if !self.wants(slot) && !self.wants(debug_slot) {
            return;
        }
        let payload = checkpoint_payload(source.origin.message_thread_id, state);
        self.send(slot, "checkpoints", &payload);
        if self.wants(debug_slot) {
            self.send(
                debug_slot,
                "debug",
                &debug_payload("checkpoint", state.number, state.created_at, &payload),
            );
        }
    }

    /// Sends the pending interrupts of a run that waits for answers: as an update, as the end of the step that raised
    /// them, and with the state. A run that stopped at a breakpoint has no interrupts, and gets the update alone.
    fn send_paused(&mut self, source: &ItemSource<'_>, pending: &[Interrupt], values: StreamedState<'_>) {
        let interrupts: Vec<_> = pending.iter().map(wire::Interrupt::from).collect();
        self.send(EventSlot::Update, "updates", &json!({"__interrupt__": interrupts}));
        if !pending.is_empty() {
            self.send_task_ended(
                source,
                &TaskResult { error: None, result: &Map::new(), interrupts: &interrupts },
            );
            self.send(EventSlot::Values, "values", &values.with_interrupts(&interrupts));
        }
    }
}
