//! The channel `messages`: a message is a sequence of events: `message-start`; for each content block
//! `content-block-start`, any number of `content-block-delta` and `content-block-finish`; and `message-finish`.
//!
//! A message that is streamed is sent as it grows. When it is stored, only the part that was not streamed is sent. A
//! message that was not streamed at all, such as the result of a tool, is sent whole when it is stored.

use agent::StateMessage;
use protocol::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use super::writer::{ChannelEvent, ChannelWriter};
use crate::streams::item::{MessageDelta, MessageRoute, StoredMessage};
use crate::streams::streamed_message::{SegmentChange, SegmentKind, StreamedMessage, unstreamed_rest};
use crate::wire;

impl SegmentKind {
    /// Returns a content block of this kind with that text.
    fn content_block(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text", "text": text}),
            Self::Reasoning => json!({"type": "reasoning", "reasoning": text}),
        }
    }

    /// Returns a delta that appends `text` to a content block of this kind.
    fn content_delta(self, text: &str) -> Value {
        match self {
            Self::Text => json!({"type": "text-delta", "text": text}),
            Self::Reasoning => json!({"type": "reasoning-delta", "reasoning": text}),
        }
    }
}

/// Sends a delta of a message. A delta that opens a segment first finishes the previous content block; the first delta
/// of a message starts the message.
pub(super) fn send_delta(delta: &MessageDelta<'_>, node: &str, out: &mut ChannelWriter) {
    let MessageDelta { message: streamed, text, segment, .. } = delta;
    let Some(((kind, _), before)) = streamed.segments.split_last() else { return };
    let index = before.len();
    match (segment, before.last()) {
        (SegmentChange::Opened, None) => {
            start_message(&streamed.id, node, out);
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

/// Sends the part of a stored message that has not been streamed. A person's message is not sent on this channel.
pub(super) fn send_stored_message(stored: StoredMessage<'_>, node: &str, out: &mut ChannelWriter) {
    let StoredMessage { message, streamed, route } = stored;
    if route == MessageRoute::FrameAfterLoss {
        out.mark_replayed();
    }
    match &message.message {
        Message::Human(_) => {}
        Message::Ai(ai) => {
            let streamed = streamed.unwrap_or_else(|| StreamedMessage::new(&message.id));
            finish_message(ai, streamed, node, out);
        }
        Message::Tool(tool) => send_tool_result(message, tool, node, out),
    }
}

/// Finishes a model's message: sends the text that was not streamed, the tool calls, and the usage.
fn finish_message(ai: &AiMessage, mut streamed: StreamedMessage, node: &str, out: &mut ChannelWriter) {
    let (mut reasoning, mut text) = (String::new(), String::new());
    for block in &ai.content {
        match block {
            ContentBlock::Text { text: more } => text.push_str(more),
            ContentBlock::Thinking { text: more, .. } => reasoning.push_str(more),
            ContentBlock::ToolCall { .. } | ContentBlock::Media { .. } | ContentBlock::Opaque { .. } => {}
        }
    }
    for (kind, whole) in [(SegmentKind::Reasoning, reasoning), (SegmentKind::Text, text)] {
        let text = unstreamed_rest(&whole, &streamed.text_of(kind)).to_owned();
        if !text.is_empty() {
            let segment = streamed.append(kind, &text);
            let delta = MessageDelta { message: &streamed, text: &text, segment, opens_message: false };
            send_delta(&delta, node, out);
        }
    }
    match streamed.segments.split_last() {
        Some(((kind, text), before)) => finish_content_block(before.len(), *kind, text, node, out),
        None => start_message(&streamed.id, node, out),
    }
    let (calls, _) = wire::message::tool_calls(&ai.content);
    for (index, call) in (streamed.segments.len()..).zip(&calls) {
        // The arguments of a call come with the finished block only: a stored message has them complete.
        let without_args = json!({"type": call["type"], "id": call["id"], "name": call["name"], "args": {}});
        send_message_event(
            out,
            node,
            || json!({"event": "content-block-start", "index": index, "content": without_args}),
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

/// Sends the result of a tool call twice: as a message of role `tool` in the namespace of the call, and as the end of
/// the call on the channel `tools`.
fn send_tool_result(message: &StateMessage, tool: &ToolMessage, node: &str, out: &mut ChannelWriter) {
    let (call_id, text, kind) = (&tool.call_id, message.message.text(), SegmentKind::Text);
    let namespace = format!("tools:{call_id}");
    let status = match tool.status {
        ToolStatus::Success => "success",
        ToolStatus::Error => "error",
    };
    let namespace: &[&str] = &[&namespace];
    send_message_event_from(
        namespace,
        node,
        out,
        || json!({"event": "message-start", "role": "tool", "id": message.id, "tool_call_id": call_id}),
    );
    send_message_event_from(
        namespace,
        node,
        out,
        || json!({"event": "content-block-start", "index": 0, "content": kind.content_block("")}),
    );
    send_message_event_from(
        namespace,
        node,
        out,
        || json!({"event": "content-block-delta", "index": 0, "delta": kind.content_delta(&text)}),
    );
    send_message_event_from(
        namespace,
        node,
        out,
        || json!({"event": "content-block-finish", "index": 0, "content": kind.content_block(&text)}),
    );
    send_message_event_from(
        namespace,
        node,
        out,
        || json!({"event": "message-finish", "metadata": {"status": status}}),
    );
    out.send_tool_event(node, || match tool.status {
        ToolStatus::Success => json!({"event": "tool-finished", "tool_call_id": call_id, "output": text}),
        ToolStatus::Error => json!({"event": "tool-error", "tool_call_id": call_id, "message": text}),
    });
}

/// Sends `message-start` for a model's message.
fn start_message(id: &str, node: &str, out: &mut ChannelWriter) {
    send_message_event(out, node, || json!({"event": "message-start", "role": "ai", "id": id}));
}

/// Sends `content-block-start` with an empty block.
fn start_content_block(index: usize, kind: SegmentKind, node: &str, out: &mut ChannelWriter) {
    send_message_event(
        out,
        node,
        || json!({"event": "content-block-start", "index": index, "content": kind.content_block("")}),
    );
}

/// Sends `content-block-finish` with the whole text of the block.
fn finish_content_block(index: usize, kind: SegmentKind, text: &str, node: &str, out: &mut ChannelWriter) {
    send_message_event(
        out,
        node,
        || json!({"event": "content-block-finish", "index": index, "content": kind.content_block(text)}),
    );
}

/// Sends an event on the channel `messages` from the current namespace.
fn send_message_event(out: &mut ChannelWriter, node: &str, data: impl FnOnce() -> Value) {
    send_message_event_from(&[], node, out, data);
}

/// Sends an event on the channel `messages` from `namespace`, which is relative to the current one.
fn send_message_event_from(
    namespace: &[&str],
    node: &str,
    out: &mut ChannelWriter,
    data: impl FnOnce() -> Value,
) {
    out.send(ChannelEvent { namespace, node: Some(node), ..ChannelEvent::new("messages", data) });
}
