//! The encoder of the event stream: each item becomes the events of its channels. What this client does not want is counted
//! all the same, so that a number means the same to every client.

use std::sync::Arc;

use agent::{Position, State};
use protocol::{Interrupt, RunStatus};
use serde_json::{Value, json};

use super::filter::HISTORY;
use super::messages;
use super::out::{ChannelEvent, ChannelWriter};
use super::stored;
use crate::streams::about::About;
use crate::streams::item::{Encoder, ItemSource, Needs, StreamItem};
use crate::streams::need::Points;
use crate::streams::transcript::StreamedState;
use crate::wire;

impl Encoder for ChannelWriter {
    fn at(&mut self, position: Position) {
        self.set_position(position);
    }

    fn enter(&mut self, namespace: &Arc<str>) {
        self.set_namespace(namespace);
    }

    fn needs(&self) -> Needs {
        // Which blocks a message has is counted, whether the client wants to see them or not.
        Needs {
            points: self.filter.has("checkpoints"),
            messages: self.filter.has("values"),
            speech: true,
            admission: self.filter.has(HISTORY),
        }
    }

    fn encode(&mut self, source: &ItemSource<'_>, item: StreamItem<'_>) {
        self.clock(source.clock);
        let node = source.step.node.as_str();
        match item {
            StreamItem::RunStarted | StreamItem::RunFound => self.begun(source.about),
            StreamItem::Delta(delta) => messages::delta(&delta, node, self),
            StreamItem::ToolStarted { call_id, name, args } => self.tools(node, || {
                json!({"event": "tool-started", "tool_call_id": call_id, "tool_name": name, "input": args})
            }),
            StreamItem::Custom { name, payload } => {
                let data = || json!({"name": name, "payload": payload});
                self.send_custom(name, ChannelEvent { node: Some(node), ..ChannelEvent::new("custom", data) });
            }
            StreamItem::Message(stored) => messages::stored(stored, node, self),
            StreamItem::Stored(event) => stored::tell(event, self),
            StreamItem::Update(writes) => {
                let data = || json!({writes.node: writes.merged()});
                self.send(ChannelEvent { node: Some(writes.node), ..ChannelEvent::new("updates", data) });
            }
            StreamItem::Values(values) => self.values(&values),
            StreamItem::Points(points) => self.points(points),
            StreamItem::CaughtUp(state, values) => {
                self.values(&values);
                self.point(state);
                for asked in state.interrupts.iter().filter(|asked| asked.run_id == source.about.run_id) {
                    self.asks(source.about, asked);
                }
            }
            StreamItem::Interrupted(interrupt) => self.asks(source.about, interrupt),
            StreamItem::RunEnded(status, failure) => {
                self.ended(source.about, status, failure.map(|failure| failure.message));
            }
            StreamItem::TaskStarted(_)
            | StreamItem::TaskFailed(_)
            | StreamItem::ToolCall(_)
            | StreamItem::Paused(..) => {}
        }
    }
}

impl ChannelWriter {
    fn values(&mut self, values: &StreamedState<'_>) {
        self.send(ChannelEvent::new("values", || values));
    }

    fn points(&mut self, points: Option<&Points>) {
        let Some(points) = points else {
            self.pass();
            return self.pass();
        };
        match &points.input {
            Some(input) => self.point(input),
            None => self.pass(),
        }
        self.point(&points.state);
    }

    fn point(&mut self, state: &State) {
        let State { checkpoint_id, parent_id, number, .. } = state;
        let source = wire::state::source(state);
        self.send(ChannelEvent::new(
            "checkpoints",
            || json!({"id": checkpoint_id, "parent_id": parent_id, "step": number, "source": source}),
        ));
    }

    fn begun(&mut self, about: &About) {
        let graph_name = &about.graph_id;
        self.send(ChannelEvent::new("lifecycle", || match &about.call_id {
            None => json!({"event": "running", "graph_name": graph_name}),
            Some(call_id) => {
                let cause = json!({"type": "toolCall", "tool_call_id": call_id});
                json!({
                    "event": "started", "graph_name": graph_name, "cause": cause,
                    "namespace": segments(about), "thread_id": about.held_in,
                })
            }
        }));
    }

    fn ended(&mut self, about: &About, status: RunStatus, failure: Option<String>) {
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
                data["namespace"] = segments(about);
            }
            data
        }));
    }

    /// Sends a question, once.
    fn asks(&mut self, about: &About, interrupt: &Interrupt) {
        // What a sub-agent asks, its parent asks for it.
        if !about.is_root() || !self.note_question(interrupt.interrupt_id) {
            return;
        }
        let wire::Interrupt { id, value } = wire::Interrupt::from(interrupt);
        let data = || json!({"interrupt_id": id, "payload": value, "value": value});
        let node = Some(interrupt.node.as_str());
        self.send(ChannelEvent { method: "input.requested", node, ..ChannelEvent::new("input", data) });
    }

    pub(super) fn tools(&mut self, node: &str, data: impl FnOnce() -> Value) {
        self.send(ChannelEvent { node: Some(node), ..ChannelEvent::new("tools", data) });
    }
}

/// Returns where within the run the sub-agent works.
fn segments(about: &About) -> Value {
    about.namespace.split('|').filter(|segment| !segment.is_empty()).collect()
}
