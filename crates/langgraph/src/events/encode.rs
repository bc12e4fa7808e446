//! The encoder of the event stream: each item becomes the events of its channels. What this client does not want is counted
//! all the same, so that a number means the same to every client.

use std::sync::Arc;

use agent::{FramePosition, ThreadSnapshot};
use protocol::{Interrupt, RunStatus};
use serde_json::{Value, json};

use super::filter::HISTORY_CHANNEL;
use super::history;
use super::messages;
use super::writer::{ChannelEvent, ChannelWriter};
use crate::streams::item::{Encoder, EncoderNeeds, ItemSource, StreamItem};
use crate::streams::journal_query::CheckpointStates;
use crate::streams::origin::RunOrigin;
use crate::streams::transcript::StreamedState;
use crate::wire;

impl Encoder for ChannelWriter {
    fn set_frame_position(&mut self, position: FramePosition) {
        self.set_position(position);
    }

    fn enter_namespace(&mut self, namespace: &Arc<str>) {
        self.set_namespace(namespace);
    }

    fn needs(&self) -> EncoderNeeds {
        // Which blocks a message has is counted, whether the client wants to see them or not.
        EncoderNeeds {
            checkpoints: self.filter.has_channel("checkpoints"),
            messages: self.filter.has_channel("values"),
            streamed_messages: true,
            admission: self.filter.has_channel(HISTORY_CHANNEL),
        }
    }

    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>) {
        self.advance_clock(source.clock);
        let node = source.step.node.as_str();
        match item {
            StreamItem::RunStarted | StreamItem::RunJoined => self.send_run_started(source.origin),
            StreamItem::Delta(delta) => messages::send_delta(&delta, node, self),
            StreamItem::ToolStarted { call_id, name, args } => self.send_tool_event(node, || {
                json!({"event": "tool-started", "tool_call_id": call_id, "tool_name": name, "input": args})
            }),
            StreamItem::Custom { name, payload } => {
                let data = || json!({"name": name, "payload": payload});
                self.send_custom(name, ChannelEvent { node: Some(node), ..ChannelEvent::new("custom", data) });
            }
            StreamItem::Message(stored) => messages::send_stored_message(stored, node, self),
            StreamItem::Stored(event) => history::send_stored_event(event, self),
            StreamItem::Update(writes) => {
                let data = || json!({writes.node: writes.to_object()});
                self.send(ChannelEvent { node: Some(writes.node), ..ChannelEvent::new("updates", data) });
            }
            StreamItem::Values(values) => self.send_values(&values),
            StreamItem::Checkpoints(points) => self.send_checkpoints(points),
            StreamItem::Snapshot(state, values) => {
                self.send_values(&values);
                self.send_checkpoint(state);
                for asked in state.interrupts.iter().filter(|asked| asked.run_id == source.origin.run_id) {
                    self.send_interrupt(source.origin, asked);
                }
            }
            StreamItem::Interrupted(interrupt) => self.send_interrupt(source.origin, interrupt),
            StreamItem::RunEnded(status, failure) => {
                self.send_run_ended(source.origin, status, failure.map(|failure| failure.message));
            }
            StreamItem::TaskStarted(_)
            | StreamItem::TaskFailed(_)
            | StreamItem::ToolCall(_)
            | StreamItem::Paused(..) => {}
        }
    }
}

impl ChannelWriter {
    fn send_values(&mut self, values: &StreamedState<'_>) {
        self.send(ChannelEvent::new("values", || values));
    }

    fn send_checkpoints(&mut self, points: Option<&CheckpointStates>) {
        let Some(points) = points else {
            self.skip_event();
            return self.skip_event();
        };
        match &points.input {
            Some(input) => self.send_checkpoint(input),
            None => self.skip_event(),
        }
        self.send_checkpoint(&points.state);
    }

    fn send_checkpoint(&mut self, state: &ThreadSnapshot) {
        let ThreadSnapshot { checkpoint_id, parent_id, number, .. } = state;
        let source = wire::state::checkpoint_source(state);
        self.send(ChannelEvent::new(
            "checkpoints",
            || json!({"id": checkpoint_id, "parent_id": parent_id, "step": number, "source": source}),
        ));
    }

    fn send_run_started(&mut self, about: &RunOrigin) {
        let graph_name = &about.graph_id;
        self.send(ChannelEvent::new("lifecycle", || match &about.call_id {
            None => json!({"event": "running", "graph_name": graph_name}),
            Some(call_id) => {
                let cause = json!({"type": "toolCall", "tool_call_id": call_id});
                json!({
                    "event": "started", "graph_name": graph_name, "cause": cause,
                    "namespace": namespace_segments(about), "thread_id": about.message_thread_id,
                })
            }
        }));
    }

    fn send_run_ended(&mut self, about: &RunOrigin, status: RunStatus, failure: Option<String>) {
        let event = match status {
            RunStatus::Error | RunStatus::Timeout => "failed",
            RunStatus::Interrupted | RunStatus::Cancelled => "interrupted",
            RunStatus::Success | RunStatus::Pending | RunStatus::Running => "completed",
        };
        self.send(ChannelEvent::new("lifecycle", || {
            let mut data = json!({"event": event, "graph_name": about.graph_id});
            if event == "failed" {
                data["error"] = json!(failure);
            }
            if !about.is_root() {
                data["namespace"] = namespace_segments(about);
            }
            data
        }));
    }

    /// Sends a question, once.
    fn send_interrupt(&mut self, about: &RunOrigin, interrupt: &Interrupt) {
        // What a sub-agent asks, its parent asks for it.
        if !about.is_root() || !self.mark_interrupt_sent(interrupt.interrupt_id) {
            return;
        }
        let wire::Interrupt { id, value } = wire::Interrupt::from(interrupt);
        let data = || json!({"interrupt_id": id, "payload": value, "value": value});
        let node = Some(interrupt.node.as_str());
        self.send(ChannelEvent { method: "input.requested", node, ..ChannelEvent::new("input", data) });
    }

    pub(super) fn send_tool_event(&mut self, node: &str, data: impl FnOnce() -> Value) {
        self.send(ChannelEvent { node: Some(node), ..ChannelEvent::new("tools", data) });
    }
}

/// Returns where within the run the sub-agent works.
fn namespace_segments(about: &RunOrigin) -> Value {
    about.namespace.split('|').filter(|segment| !segment.is_empty()).collect()
}
