//! Messages as the protocol tells them: a beginning, blocks that grow, an end. Pure.

use agent::StateMessage;
use protocol::{Block, Message, ToolStatus};
use serde_json::{Value, json};

use super::out::{Out, Told};
use crate::wire;

/// The channel and method of all of this.
const MESSAGES: &str = "messages";

/// What kind of block grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Reasoning,
}

/// A message that is being said.
#[derive(Debug)]
pub(super) struct Saying {
    id: String,
    /// The blocks that are complete.
    done: usize,
    open: Option<(Kind, String)>,
    /// Everything that was said of a kind.
    said: [String; 2],
}

impl Kind {
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

impl Saying {
    /// Begins a message.
    pub(super) fn begin(id: &str, node: &str, out: &mut Out) -> Self {
        send(out, (&[], node), || json!({"event": "message-start", "role": "ai", "id": id}));
        Self { id: id.to_owned(), done: 0, open: None, said: Default::default() }
    }

    pub(super) fn is(&self, id: &str) -> bool {
        self.id == id
    }

    /// Says more.
    pub(super) fn more(&mut self, (kind, text): (Kind, &str), node: &str, out: &mut Out) {
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close(node, out);
            let index = self.done;
            send(
                out,
                (&[], node),
                || json!({"event": "content-block-start", "index": index, "content": kind.block("")}),
            );
            self.open = Some((kind, String::new()));
        }
        let index = self.done;
        send(
            out,
            (&[], node),
            || json!({"event": "content-block-delta", "index": index, "delta": kind.delta(text)}),
        );
        if let Some((_, so_far)) = &mut self.open {
            so_far.push_str(text);
        }
        self.said[kind as usize].push_str(text);
    }

    fn close(&mut self, node: &str, out: &mut Out) {
        let Some((kind, text)) = self.open.take() else { return };
        let index = self.done;
        self.done += 1;
        send(
            out,
            (&[], node),
            || json!({"event": "content-block-finish", "index": index, "content": kind.block(&text)}),
        );
    }

    /// Ends the message with what is stored: what was not said before, the calls, and what it cost.
    pub(super) fn end(mut self, message: &StateMessage, node: &str, out: &mut Out) {
        let Message::Ai(ai) = &message.message else { return };
        let mut whole = [String::new(), String::new()];
        for block in &ai.content {
            match block {
                Block::Text { text } => whole[Kind::Text as usize].push_str(text),
                Block::Thinking { text, .. } => whole[Kind::Reasoning as usize].push_str(text),
                Block::ToolCall { .. } | Block::Media { .. } | Block::Opaque { .. } => {}
            }
        }
        for kind in [Kind::Reasoning, Kind::Text] {
            let rest =
                whole[kind as usize].strip_prefix(self.said[kind as usize].as_str()).unwrap_or_default();
            if !rest.is_empty() {
                self.more((kind, rest), node, out);
            }
        }
        self.close(node, out);
        let (calls, _) = wire::message::tool_calls(&ai.content);
        for call in calls {
            self.whole(&call, node, out);
        }
        let usage = ai.usage.as_ref().map(wire::message::usage);
        send(out, (&[], node), || {
            let mut told = json!({"event": "message-finish", "metadata": {"model": ai.model}});
            if let Some(usage) = usage {
                told["usage"] = usage;
            }
            told
        });
    }

    fn whole(&mut self, block: &Value, node: &str, out: &mut Out) {
        let index = self.done;
        self.done += 1;
        let begun = json!({"type": block["type"], "id": block["id"], "name": block["name"], "args": {}});
        send(out, (&[], node), || json!({"event": "content-block-start", "index": index, "content": begun}));
        send(out, (&[], node), || json!({"event": "content-block-finish", "index": index, "content": block}));
    }
}

/// Tells the result of a call as a message of its own.
pub(super) fn result(message: &StateMessage, node: &str, out: &mut Out) {
    let Message::Tool(tool) = &message.message else { return };
    let namespace = format!("tools:{}", tool.call_id);
    let within: &[&str] = &[&namespace];
    let status = match tool.status {
        ToolStatus::Success => "success",
        ToolStatus::Error => "error",
    };
    send(
        out,
        (within, node),
        || json!({"event": "message-start", "role": "tool", "id": message.id, "tool_call_id": tool.call_id}),
    );
    let text = message.message.text();
    send(
        out,
        (within, node),
        || json!({"event": "content-block-start", "index": 0, "content": Kind::Text.block("")}),
    );
    send(
        out,
        (within, node),
        || json!({"event": "content-block-delta", "index": 0, "delta": Kind::Text.delta(&text)}),
    );
    send(
        out,
        (within, node),
        || json!({"event": "content-block-finish", "index": 0, "content": Kind::Text.block(&text)}),
    );
    send(out, (within, node), || json!({"event": "message-finish", "metadata": {"status": status}}));
}

fn send(out: &mut Out, (namespace, node): (&[&str], &str), data: impl FnOnce() -> Value) {
    out.send(MESSAGES, Told { method: MESSAGES, namespace, node: Some(node), data });
}
