//! Messages as the event stream sends them: a beginning, blocks that grow, an end.

use agent::StateMessage;
use protocol::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::out::{ChannelEvent, ChannelWriter};
use crate::streams::item::{Delta, Route, StoredMessage};
use crate::streams::speech::{Segment, Speech, SpeechKind, rest};
use crate::wire;

impl SpeechKind {
    fn block(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text", "text": text}),
            Self::Reasoning => json!({"type": "reasoning", "reasoning": text}),
        }
    }

    fn delta(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text-delta", "text": text}),
            Self::Reasoning => json!({"type": "reasoning-delta", "reasoning": text}),
        }
    }
}

/// Sends a piece of a message. A piece that opens a segment ends the block before it; the first one begins the message.
pub(super) fn delta(delta: &Delta<'_>, node: &str, out: &mut ChannelWriter) {
    let Delta { speech, text, segment, .. } = delta;
    let Some(((kind, _), before)) = speech.segments.split_last() else { return };
    let index = before.len();
    match (segment, before.last()) {
        (Segment::Opened, None) => {
            begin(&speech.id, node, out);
            open_block(index, *kind, node, out);
        }
        (Segment::Opened, Some((before, text))) => {
            close_block(index - 1, *before, text, node, out);
            open_block(index, *kind, node, out);
        }
        (Segment::Extended, _) => {}
    }
    send(out, node, || json!({"event": "content-block-delta", "index": index, "delta": kind.delta(text)}));
}

/// Sends what was not sent before of a message that is stored.
pub(super) fn stored(stored: StoredMessage<'_>, node: &str, out: &mut ChannelWriter) {
    let StoredMessage { message, speech, route } = stored;
    if route == Route::FrameAfterLoss {
        out.retell();
    }
    match &message.message {
        Message::Human(_) => {}
        Message::Ai(ai) => {
            let speech = speech.unwrap_or_else(|| Speech::new(&message.id));
            end(ai, speech, node, out);
        }
        Message::Tool(tool) => result(message, tool, node, out),
    }
}

/// Ends a message: what was not streamed, the calls, and what it cost.
fn end(ai: &AiMessage, mut speech: Speech, node: &str, out: &mut ChannelWriter) {
    let (mut reasoning, mut text) = (String::new(), String::new());
    for block in &ai.content {
        match block {
            Block::Text { text: more } => text.push_str(more),
            Block::Thinking { text: more, .. } => reasoning.push_str(more),
            Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
        }
    }
    for (kind, whole) in [(SpeechKind::Reasoning, reasoning), (SpeechKind::Text, text)] {
        let text = rest(&whole, &speech.all(kind)).to_owned();
        if !text.is_empty() {
            let segment = speech.add(kind, &text);
            let piece = Delta { speech: &speech, text: &text, segment, opens_message: false };
            delta(&piece, node, out);
        }
    }
    match speech.segments.split_last() {
        Some(((kind, text), before)) => close_block(before.len(), *kind, text, node, out),
        None => begin(&speech.id, node, out),
    }
    let (calls, _) = wire::message::tool_calls(&ai.content);
    for (index, call) in (speech.segments.len()..).zip(&calls) {
        let begun = json!({"type": call["type"], "id": call["id"], "name": call["name"], "args": {}});
        send(out, node, || json!({"event": "content-block-start", "index": index, "content": begun}));
        send(out, node, || json!({"event": "content-block-finish", "index": index, "content": call}));
    }
    let usage = ai.usage.as_ref().map(wire::message::usage);
    send(out, node, || {
        let mut data = json!({"event": "message-finish", "metadata": {"model": ai.model}});
        if let Some(usage) = usage {
            data["usage"] = usage;
        }
        data
    });
}

/// Sends the result of a call: as a message of its own, and as the end of the call.
fn result(message: &StateMessage, tool: &ToolMessage, node: &str, out: &mut ChannelWriter) {
    let (call_id, text, kind) = (&tool.call_id, message.message.text(), SpeechKind::Text);
    let namespace = format!("tools:{call_id}");
    let status = match tool.status {
        ToolStatus::Success => "success",
        ToolStatus::Error => "error",
    };
    let at: &[&str] = &[&namespace];
    send_from(
        at,
        node,
        out,
        || json!({"event": "message-start", "role": "tool", "id": message.id, "tool_call_id": call_id}),
    );
    send_from(
        at,
        node,
        out,
        || json!({"event": "content-block-start", "index": 0, "content": kind.block("")}),
    );
    send_from(
        at,
        node,
        out,
        || json!({"event": "content-block-delta", "index": 0, "delta": kind.delta(&text)}),
    );
    send_from(
        at,
        node,
        out,
        || json!({"event": "content-block-finish", "index": 0, "content": kind.block(&text)}),
    );
    send_from(at, node, out, || json!({"event": "message-finish", "metadata": {"status": status}}));
    out.tools(node, || match tool.status {
        ToolStatus::Success => json!({"event": "tool-finished", "tool_call_id": call_id, "output": text}),
        ToolStatus::Error => json!({"event": "tool-error", "tool_call_id": call_id, "message": text}),
    });
}

fn begin(id: &str, node: &str, out: &mut ChannelWriter) {
    send(out, node, || json!({"event": "message-start", "role": "ai", "id": id}));
}

fn open_block(index: usize, kind: SpeechKind, node: &str, out: &mut ChannelWriter) {
    send(out, node, || json!({"event": "content-block-start", "index": index, "content": kind.block("")}));
}

fn close_block(index: usize, kind: SpeechKind, text: &str, node: &str, out: &mut ChannelWriter) {
    send(out, node, || json!({"event": "content-block-finish", "index": index, "content": kind.block(text)}));
}

fn send(out: &mut ChannelWriter, node: &str, data: impl FnOnce() -> Value) {
    send_from(&[], node, out, data);
}

fn send_from(namespace: &[&str], node: &str, out: &mut ChannelWriter, data: impl FnOnce() -> Value) {
    out.send(ChannelEvent { namespace, node: Some(node), ..ChannelEvent::new("messages", data) });
}
