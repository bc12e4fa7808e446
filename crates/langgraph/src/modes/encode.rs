//! The encoder of streams by modes: each item becomes the events of the modes that show it.

use std::sync::Arc;

use agent::{Position, State};
use protocol::{Interrupt, Message};
use serde_json::{Map, Value, json};

use crate::modes::mode::Mode;
use crate::modes::out::{ModeWriter, Slot};
use crate::modes::payload::{TaskEnd, custom, debug, message_metadata, point, task_ended, task_started};
use crate::modes::said::{DeltaChunk, announcement, last_chunk, so_far};
use crate::streams::item::{
    Delta, Encoder, ItemSource, Needs, StepWrites, StoredMessage, StreamItem, ToolCall,
};
use crate::streams::need::Points;
use crate::streams::transcript::{StreamedState, raw};
use crate::wire;

impl Encoder for ModeWriter {
    fn at(&mut self, position: Position) {
        self.set_position(position);
    }

    fn enter(&mut self, namespace: &Arc<str>) {
        self.set_namespace(namespace);
    }

    fn needs(&self) -> Needs {
        let modes = self.modes();
        Needs {
            // What is told in the envelope carries the moments of the points before, also of those the reader has had.
            points: self.wants(Slot::Point) || modes.has(Mode::Debug),
            messages: self.wants(Slot::Values) || modes.has(Mode::Tasks),
            speech: modes.has_any(&[Mode::Tuple, Mode::Messages]),
            admission: false,
        }
    }

    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>) {
        let is_root = source.about.is_root();
        match item {
            StreamItem::RunStarted if is_root => {
                let begun = json!({"run_id": source.about.run_id, "attempt": 1});
                self.send(Slot::Begin, "metadata", &begun);
            }
            StreamItem::TaskStarted(input) => self.task_started(source, input),
            StreamItem::TaskFailed(message) => {
                self.end_task(
                    source,
                    &TaskEnd { error: Some(message), result: &Map::new(), interrupts: &[] },
                );
            }
            StreamItem::Delta(delta) => self.delta(source, &delta),
            StreamItem::ToolCall(call) => self.call(source, &call),
            StreamItem::Custom { name, payload } if self.wants(Slot::Custom) => {
                self.send(Slot::Custom, "custom", &custom(name, payload));
            }
            StreamItem::Message(stored) => self.message(source, &stored),
            StreamItem::Update(writes) => self.update(source, &writes),
            StreamItem::Values(values) => self.send(Slot::Values, "values", &values),
            StreamItem::Points(Some(points)) => self.points(source, points),
            StreamItem::CaughtUp(state, values) => {
                let interrupts: Vec<_> = state.interrupts.iter().map(wire::Interrupt::from).collect();
                self.send(Slot::Values, "values", &values.asking(&interrupts));
            }
            StreamItem::Paused(asked, values) => self.paused(source, asked, values),
            // How a sub-agent failed is its call's result.
            StreamItem::RunEnded(_, Some(failure)) if is_root => self.send(Slot::Failure, "error", &failure),
            StreamItem::RunStarted
            | StreamItem::RunFound
            | StreamItem::ToolStarted { .. }
            | StreamItem::Custom { .. }
            | StreamItem::Stored(_)
            | StreamItem::Points(None)
            | StreamItem::Interrupted(_)
            | StreamItem::RunEnded(..) => {}
        }
    }
}

impl ModeWriter {
    fn task_started(&mut self, source: &ItemSource<'_>, input: StreamedState<'_>) {
        if self.wants(Slot::TaskBegan) || self.wants(Slot::TaskBeganDebug) {
            let task = task_started(source, &input);
            self.send(Slot::TaskBegan, "tasks", &task);
            self.send_debug(source, Slot::TaskBeganDebug, "task", &task);
        }
    }

    fn end_task(&mut self, source: &ItemSource<'_>, ended: &TaskEnd<'_>) {
        if self.wants(Slot::TaskEnded) || self.wants(Slot::TaskEndedDebug) {
            let task = task_ended(source, ended);
            self.send(Slot::TaskEnded, "tasks", &task);
            self.send_debug(source, Slot::TaskEndedDebug, "task_result", &task);
        }
    }

    fn send_debug(&mut self, source: &ItemSource<'_>, slot: Slot, kind: &str, payload: &Value) {
        if self.wants(slot) {
            let at = source.clock.max(source.point.created_at);
            self.send(slot, "debug", &debug(kind, source.point.number + 1, at, payload));
        }
    }

    fn delta(&mut self, source: &ItemSource<'_>, delta: &Delta<'_>) {
        let Delta { speech, text, opens_message, .. } = *delta;
        let id = speech.id.as_str();
        if self.wants(Slot::Chunk)
            && let Some((kind, _)) = speech.segments.last()
        {
            let chunk = DeltaChunk::new(id, *kind, text);
            self.send(Slot::Chunk, "messages", &(chunk, message_metadata(source)));
        }
        if opens_message {
            self.send_message_metadata(source, id);
        }
        if self.wants(Slot::Message) {
            self.send(Slot::Message, "messages/partial", &[so_far(speech)]);
        }
    }

    fn call(&mut self, source: &ItemSource<'_>, call: &ToolCall<'_>) {
        if self.wants(Slot::Chunk) {
            self.send(Slot::Chunk, "messages", &(announcement(call), message_metadata(source)));
        }
        if call.opens_message {
            self.send_message_metadata(source, &call.speech.id);
        }
    }

    fn send_message_metadata(&mut self, source: &ItemSource<'_>, id: &str) {
        if self.wants(Slot::MessageMetadata) {
            let metadata = json!({id: {"metadata": message_metadata(source)}});
            self.send(Slot::MessageMetadata, "messages/metadata", &metadata);
        }
    }

    fn message(&mut self, source: &ItemSource<'_>, stored: &StoredMessage<'_>) {
        let StoredMessage { message, speech, .. } = stored;
        let raw = raw(source.about.held_in, message);
        let was_streamed = speech.is_some();
        match &message.message {
            Message::Human(_) => return,
            Message::Tool(_) if self.wants(Slot::Chunk) => {
                self.send(Slot::Chunk, "messages", &(&*raw, message_metadata(source)));
            }
            Message::Ai(_) if self.wants(Slot::Chunk) => {
                let chunk = last_chunk(speech.as_ref(), &raw);
                self.send(Slot::Chunk, "messages", &(chunk, message_metadata(source)));
            }
            Message::Tool(_) | Message::Ai(_) => {}
        }
        if was_streamed {
            self.send(Slot::Message, "messages/partial", &[&*raw]);
        } else {
            self.send_message_metadata(source, &message.id);
            self.send(Slot::Message, "messages/complete", &[&*raw]);
        }
    }

    fn update(&mut self, source: &ItemSource<'_>, writes: &StepWrites<'_>) {
        let wanted = [Slot::Update, Slot::TaskEnded, Slot::TaskEndedDebug];
        if !wanted.into_iter().any(|slot| self.wants(slot)) {
            return;
        }
        let update = writes.merged();
        if self.wants(Slot::Update) {
            self.send(Slot::Update, "updates", &json!({writes.node: update}));
        }
        self.end_task(source, &TaskEnd { error: None, result: &update, interrupts: &[] });
    }

    fn points(&mut self, source: &ItemSource<'_>, points: &Points) {
        if let Some(input) = &points.input {
            self.point(source, input, [Slot::InputPoint, Slot::InputPointDebug]);
        }
        self.point(source, &points.state, [Slot::Point, Slot::PointDebug]);
    }

    fn point(&mut self, source: &ItemSource<'_>, state: &State, [slot, in_debug]: [Slot; 2]) {
        if !self.wants(slot) && !self.wants(in_debug) {
            return;
        }
        let payload = point(source.about.held_in, state);
        self.send(slot, "checkpoints", &payload);
        if self.wants(in_debug) {
            self.send(in_debug, "debug", &debug("checkpoint", state.number, state.created_at, &payload));
        }
    }

    fn paused(&mut self, source: &ItemSource<'_>, asked: &[Interrupt], values: StreamedState<'_>) {
        let interrupts: Vec<_> = asked.iter().map(wire::Interrupt::from).collect();
        self.send(Slot::Update, "updates", &json!({"__interrupt__": interrupts}));
        if !asked.is_empty() {
            self.end_task(source, &TaskEnd { error: None, result: &Map::new(), interrupts: &interrupts });
            self.send(Slot::Values, "values", &values.asking(&interrupts));
        }
    }
}
