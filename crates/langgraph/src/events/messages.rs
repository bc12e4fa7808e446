//! Messages as the event stream sends them: a beginning, blocks that grow, an end.

use agent::StateMessage;
use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::writer::{ChannelEvent, ChannelWriter};
use crate::streams::item::{MessageDelta, MessageRoute, StoredMessage};
use crate::streams::streamed_message::{SegmentChange, SegmentKind, StreamedMessage, unstreamed_rest};
use crate::wire;

impl SegmentKind {
    fn content_block(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text", "text": text}),
            Self::Reasoning => json!({"type": "reasoning", "reasoning": text}),
        }
    }

    fn content_delta(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text-delta", "text": text}),
            Self::Reasoning => json!({"type": "reasoning-delta", "reasoning": text}),
        }
    }
}

/// Sends a piece of a message. A piece that opens a segment ends the block before it; the first one begins the message.
pub(super) fn send_delta(delta: &MessageDelta<'_>, node: &str, out: &mut ChannelWriter) {
    let MessageDelta { message: speech, text, segment, .. } = delta;
    let Some(((kind, _), before)) = speech.segments.split_last() else { return };
    let index = before.len();
    match (segment, before.last()) {
        (SegmentChange::Opened, None) => {
            start_message(&speech.id, node, out);
            start_content_block(index, *kind, node, out);
        }
        (SegmentChange::Opened, Some((before, text))) => {
            finish_content_block(index - 1, *before, text, node, out);
            start_content_block(index, *kind, node, out);
        }
        (SegmentChange::Extended, _) => {}
    }
    send_message_event(
        out,
        node,
        || json!({"event": "content-block-delta", "index": index, "delta": kind.content_delta(text)}),
    );
}

/// Sends what was not sent before of a message that is stored.
pub(super) fn send_stored_message(stored: StoredMessage<'_>, node: &str, out: &mut ChannelWriter) {
    let StoredMessage { message, streamed: speech, route } = stored;
    if route == MessageRoute::FrameAfterLoss {
        out.mark_replayed();
    }
    match &message.message {
        Message::Human(_) => {}
        Message::Ai(ai) => {
            let speech = speech.unwrap_or_else(|| StreamedMessage::new(&message.id));
            finish_message(ai, speech, node, out);
        }
        Message::Tool(tool) => send_tool_result(message, tool, node, out),
    }
}

/// Ends a message: what was not streamed, the calls, and what it cost.
fn finish_message(ai: &AiMessage, mut speech: StreamedMessage, node: &str, out: &mut ChannelWriter) {
    let (mut reasoning, mut text) = (String::new(), String::new());
    for block in &ai.content {
        match block {
            ContentBlock::Text { text: more } => text.push_str(more),
            ContentBlock::Thinking { text: more, .. } => reasoning.push_str(more),
            ContentBlock::ToolCall { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => {}
        }
    }
    for (kind, whole) in [(SegmentKind::Reasoning, reasoning), (SegmentKind::Text, text)] {
        let text = unstreamed_rest(&whole, &speech.text_of(kind)).to_owned();
        if !text.is_empty() {
            let segment = speech.append(kind, &text);
            let piece = MessageDelta { message: &speech, text: &text, segment, opens_message: false };
            send_delta(&piece, node, out);
        }
    }
    match speech.segments.split_last() {
        Some(((kind, text), before)) => finish_content_block(before.len(), *kind, text, node, out),
        None => start_message(&speech.id, node, out),
    }
    let (calls, _) = wire::message::tool_calls(&ai.content);
    for (index, call) in (speech.segments.len()..).zip(&calls) {
        let begun = json!({"type": call["type"], "id": call["id"], "name": call["name"], "args": {}});
        send_message_event(
            out,
            node,
            || json!({"event": "content-block-start", "index": index, "content": begun}),
        );
        send_message_event(
            out,
            node,
            || json!({"event": "content-block-finish", "index": index, "content": call}),
        );
    }
    let usage = ai.usage.as_ref().map(wire::message::usage);
    send_message_event(out, node, || {
        let mut data = json!({"event": "message-finish", "metadata": {"model": ai.model}});
        if let Some(usage) = usage {
            data["usage"] = usage;
        }
        data
    });
}

/// Sends the result of a call: as a message of its own, and as the end of the call.
fn send_tool_result(message: &StateMessage, tool: &ToolMessage, node: &str, out: &mut ChannelWriter) {
    let (call_id, text, kind) = (&tool.call_id, message.message.text(), SegmentKind::Text);
    let namespace = format!("tools:{call_id}");
    let status = match tool.status {
        ToolStatus::Success => "success",
        ToolStatus::Error => "error",
    };
    let at: &[&str] = &[&namespace];
    send_message_event_from(
        at,
        node,
        out,
        || json!({"event": "message-start", "role": "tool", "id": message.id, "tool_call_id": call_id}),
    );
    send_message_event_from(
        at,
        node,
        out,
        || json!({"event": "content-block-start", "index": 0, "content": kind.content_block("")}),
    );
    send_message_event_from(
        at,
        node,
        out,
        || json!({"event": "content-block-delta", "index": 0, "delta": kind.content_delta(&text)}),
    );
    send_message_event_from(
        at,
        node,
        out,
        || json!({"event": "content-block-finish", "index": 0, "content": kind.content_block(&text)}),
    );
    send_message_event_from(
        at,
        node,
        out,
        || json!({"event": "message-finish", "metadata": {"status": status}}),
    );
    out.send_tool_event(node, || match tool.status {
        ToolStatus::Success => json!({"event": "tool-finished", "tool_call_id": call_id, "output": text}),
        ToolStatus::Error => json!({"event": "tool-error", "tool_call_id": call_id, "message": text}),
    });
}

fn start_message(id: &str, node: &str, out: &mut ChannelWriter) {
    send_message_event(out, node, || json!({"event": "message-start", "role": "ai", "id": id}));
}

fn start_content_block(index: usize, kind: SegmentKind, node: &str, out: &mut ChannelWriter) {
    send_message_event(
        out,
        node,
        || json!({"event": "content-block-start", "index": index, "content": kind.content_block("")}),
    );
}

fn finish_content_block(index: usize, kind: SegmentKind, text: &str, node: &str, out: &mut ChannelWriter) {
    send_message_event(
        out,
        node,
        || json!({"event": "content-block-finish", "index": index, "content": kind.content_block(text)}),
    );
}

fn send_message_event(out: &mut ChannelWriter, node: &str, data: impl FnOnce() -> Value) {
    send_message_event_from(&[], node, out, data);
}

fn send_message_event_from(
    namespace: &[&str],
    node: &str,
    out: &mut ChannelWriter,
    data: impl FnOnce() -> Value,
) {
    out.send(ChannelEvent { namespace, node: Some(node), ..ChannelEvent::new("messages", data) });
}
