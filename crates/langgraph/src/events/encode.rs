//! The encoder of the event stream: turns each stream item into the events of its channels.
//!
//! An event that the client's filter excludes still takes a number ([`ChannelWriter::skip_event`]). Each item therefore
//! has to produce the same count of events for every client: only then does a number identify the same event on every
//! connection.

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
        // The number of content blocks of a message depends on its streamed part, and the blocks take numbers even if
        // the client's filter excludes them.
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
            StreamItem::Checkpoints(checkpoints) => self.send_checkpoints(checkpoints),
            StreamItem::Snapshot(state, values) => {
                self.send_values(&values);
                self.send_checkpoint(state);
                let run_id = source.origin.run_id;
                for interrupt in state.interrupts.iter().filter(|interrupt| interrupt.run_id == run_id) {
                    self.send_interrupt(source.origin, interrupt);
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
    /// Sends the state of the thread on the channel `values`.
    fn send_values(&mut self, values: &StreamedState<'_>) {
        self.send(ChannelEvent::new("values", || values));
    }

    /// Sends the checkpoints that a step wrote: the one before the run's input, if the step has one, and the one after
    /// the step. Always takes two numbers, even if the checkpoints were not read because the client does not want them.
    fn send_checkpoints(&mut self, checkpoints: Option<&CheckpointStates>) {
        let Some(checkpoints) = checkpoints else {
            self.skip_event();
            return self.skip_event();
        };
        match &checkpoints.input {
            Some(input) => self.send_checkpoint(input),
            None => self.skip_event(),
        }
        self.send_checkpoint(&checkpoints.state);
    }

    /// Sends one checkpoint on the channel `checkpoints`: its id, its parent and its step number, but not its state.
    fn send_checkpoint(&mut self, state: &ThreadSnapshot) {
        let ThreadSnapshot { checkpoint_id, parent_id, number, .. } = state;
        let source = wire::state::checkpoint_source(state);
        self.send(ChannelEvent::new(
            "checkpoints",
            || json!({"id": checkpoint_id, "parent_id": parent_id, "step": number, "source": source}),
        ));
    }

    /// Sends the start of a run on the channel `lifecycle`: `running` for the run itself, and `started` with the tool
    /// call as its cause for a sub-agent.
    fn send_run_started(&mut self, origin: &RunOrigin) {
        let graph_name = &origin.graph_id;
        self.send(ChannelEvent::new("lifecycle", || match &origin.call_id {
            None => json!({"event": "running", "graph_name": graph_name}),
            Some(call_id) => {
                let cause = json!({"type": "toolCall", "tool_call_id": call_id});
                json!({
                    "event": "started", "graph_name": graph_name, "cause": cause,
                    "namespace": namespace_segments(origin), "thread_id": origin.message_thread_id,
                })
            }
        }));
    }

    /// Sends the end of a run on the channel `lifecycle`. A failed run comes with the text of its failure, or `null`. A
    /// cancelled run is `interrupted`, because the protocol has no other event for it.
    fn send_run_ended(&mut self, origin: &RunOrigin, status: RunStatus, failure: Option<String>) {
        let event = match status {
            RunStatus::Error | RunStatus::Timeout => "failed",
            RunStatus::Interrupted | RunStatus::Cancelled => "interrupted",
            RunStatus::Success | RunStatus::Pending | RunStatus::Running => "completed",
        };
        self.send(ChannelEvent::new("lifecycle", || {
            let mut data = json!({"event": event, "graph_name": origin.graph_id});
            if event == "failed" {
                data["error"] = json!(failure);
            }
            if !origin.is_root() {
                data["namespace"] = namespace_segments(origin);
            }
            data
        }));
    }

    /// Sends an interrupt of the run on the channel `input`. An interrupt that was sent before is not sent again.
    fn send_interrupt(&mut self, origin: &RunOrigin, interrupt: &Interrupt) {
        // The parent run raises the interrupts of its sub-agents as its own.
        if !origin.is_root() || !self.mark_interrupt_sent(interrupt.interrupt_id) {
            return;
        }
        let wire::Interrupt { id, value } = wire::Interrupt::from(interrupt);
        // The protocol defines `payload`; the Python SDK reads `value`.
        let data = || json!({"interrupt_id": id, "payload": value, "value": value});
        let node = Some(interrupt.node.as_str());
        self.send(ChannelEvent { method: "input.requested", node, ..ChannelEvent::new("input", data) });
    }

    /// Sends an event about a tool call on the channel `tools`.
    pub(super) fn send_tool_event(&mut self, node: &str, data: impl FnOnce() -> Value) {
        self.send(ChannelEvent { node: Some(node), ..ChannelEvent::new("tools", data) });
    }
}

/// Returns the namespace of the run or sub-agent as a JSON array of its segments.
fn namespace_segments(origin: &RunOrigin) -> Value {
    origin.namespace.split('|').filter(|segment| !segment.is_empty()).collect()
}
