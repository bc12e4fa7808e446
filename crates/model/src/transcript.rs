//! The one step every conversation passes before it leaves the process: it becomes a form that the provider accepts.
//! It changes what is sent, never what is stored, and it chooses nothing: cutting to a budget happened before.
//!
//! All providers get the strictest form any of them asks for, because it costs nothing where it is not needed: a person
//! speaks first and last, nobody speaks twice in a row, and each batch of tool calls is followed by its results in
//! call order. They differ in the ids they take and in whose reasoning they read.

mod pairing;
mod rename;
mod violation;

use protocol::{AiMessage, Block, HumanMessage, Message, ToolMessage, ToolStatus};
use serde_json::{Value, json};

use crate::name::Provider;
use pairing::pair;
use rename::{Renamed, legal_name};

pub use violation::{Rule, Violation, violations};

/// What is sent for a call whose result was never recorded.
pub const NO_RESULT: &str = "The call did not finish; no result was recorded.";

/// What is sent for a result without content.
pub const NO_OUTPUT: &str = "(no output)";

/// What is sent in place of a person's words when a conversation begins with the model's.
pub const EARLIER_NOT_SHOWN: &str = "(Earlier messages are not shown.)";

/// What is sent as a person's words when a conversation ends with the model's, or is empty.
pub const GO_ON: &str = "Continue.";

/// What a provider accepts, where providers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Whose reasoning and opaque blocks are sent back; those of others are left out.
    pub provider: Provider,
    /// Characters of a tool call's id at most; legal ones are `a–z A–Z 0–9 _ -`.
    pub call_id_chars_max: usize,
    /// Characters of a tool's name at most; the same ones are legal.
    pub tool_name_chars_max: usize,
}

impl Profile {
    /// Returns the profile of a provider.
    pub const fn of(provider: Provider) -> Self {
        let call_id_chars_max = match provider {
            Provider::OpenAiChat => 40,
            Provider::Anthropic | Provider::OpenAi | Provider::Gemini => 64,
        };
        Self { provider, call_id_chars_max, tool_name_chars_max: 64 }
    }

    /// Returns whether a message may end in reasoning. Gemini signs a closing empty part; elsewhere reasoning
    /// without what it led to is refused.
    const fn ends_in_thinking(&self) -> bool {
        match self.provider {
            Provider::Gemini => true,
            Provider::Anthropic | Provider::OpenAi | Provider::OpenAiChat => false,
        }
    }
}

/// Returns the conversation in a form the provider accepts.
///
/// Dangling calls get [`NO_RESULT`]; results without a call, and all but the first result of one, are dropped;
/// results move right behind their batch; neighbours of one role become one message; empty messages go; ids and names
/// are rewritten alike on call and result; media become a line of text. [`violations`] of the outcome is empty, and an
/// outcome passed again stays as it is.
pub fn legal(messages: &[Message], profile: &Profile) -> Vec<Message> {
    let mut results = pair(messages).into_iter();
    let mut legal = Legal { messages: Vec::with_capacity(messages.len()), renamed: Renamed::new(profile) };
    for message in messages {
        match message {
            Message::Human(human) => legal.push_human(spoken(&human.content), human.id.clone()),
            Message::Ai(ai) => {
                let calls = message.tool_calls().count();
                let results: Vec<Option<usize>> = results.by_ref().take(calls).collect();
                let results = results.into_iter().map(|at| at.and_then(|at| tool_message(&messages[at])));
                legal.push_ai(ai, results.collect(), profile);
            }
            // Sent with the call it answers.
            Message::Tool(_) => {}
        }
    }
    match legal.messages.last() {
        None | Some(Message::Ai(_)) => legal.push_human(vec![Block::text(GO_ON)], None),
        Some(Message::Human(_) | Message::Tool(_)) => {}
    }
    legal.messages
}

/// The conversation as far as it has been made legal.
struct Legal {
    messages: Vec<Message>,
    renamed: Renamed,
}

impl Legal {
    fn push_human(&mut self, content: Vec<Block>, id: Option<String>) {
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(Message::Human(before)) => before.content.extend(content),
            Some(Message::Ai(_) | Message::Tool(_)) | None => {
                self.messages.push(Message::Human(HumanMessage { id, content }));
            }
        }
    }

    fn push_ai(&mut self, ai: &AiMessage, results: Vec<Option<&ToolMessage>>, profile: &Profile) {
        let mut content: Vec<Block> = ai.content.iter().filter_map(|block| sayable(block, profile)).collect();
        if !profile.ends_in_thinking() {
            while matches!(content.last(), Some(Block::Thinking { .. })) {
                content.pop();
            }
        }
        if content.iter().all(|block| matches!(block, Block::Thinking { .. })) {
            return;
        }
        let mut answers = Vec::with_capacity(results.len());
        let mut results = results.into_iter();
        for block in &mut content {
            if let Block::ToolCall { id, name, .. } = block {
                *id = self.renamed.call_id(id);
                *name = legal_name(name, profile);
                answers.push(answer(id, name, results.next().flatten()));
            }
        }
        self.append_ai(AiMessage { content, ..ai_without_content(ai) });
        self.messages.extend(answers.into_iter().map(Message::Tool));
    }

    fn append_ai(&mut self, ai: AiMessage) {
        match self.messages.last_mut() {
            Some(Message::Ai(before)) => before.content.extend(ai.content),
            Some(Message::Human(_) | Message::Tool(_)) => self.messages.push(Message::Ai(ai)),
            None => {
                self.messages.push(Message::human(EARLIER_NOT_SHOWN));
                self.messages.push(Message::Ai(ai));
            }
        }
    }
}

fn ai_without_content(ai: &AiMessage) -> AiMessage {
    AiMessage {
        id: ai.id.clone(),
        content: Vec::new(),
        model: ai.model.clone(),
        usage: ai.usage,
        incomplete: ai.incomplete,
        stop: ai.stop,
    }
}

fn tool_message(message: &Message) -> Option<&ToolMessage> {
    match message {
        Message::Tool(tool) => Some(tool),
        Message::Human(_) | Message::Ai(_) => None,
    }
}

fn answer(call_id: &str, name: &str, result: Option<&ToolMessage>) -> ToolMessage {
    let (id, mut content, status) = match result {
        Some(result) => (result.id.clone(), spoken(&result.content), result.status),
        None => (None, vec![Block::text(NO_RESULT)], ToolStatus::Error),
    };
    if content.is_empty() {
        content.push(Block::text(NO_OUTPUT));
    }
    ToolMessage { id, call_id: call_id.to_owned(), name: Some(name.to_owned()), content, status }
}

/// Returns what a person or a tool may send: text, and media by reference.
fn spoken(content: &[Block]) -> Vec<Block> {
    content
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } => said(text),
            Block::Media { media_type, sha256, bytes } => {
                Some(reference(media_type, sha256.as_deref(), *bytes))
            }
            Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => None,
        })
        .collect()
}

/// Returns the block as the model's own words, unless the provider would refuse it.
fn sayable(block: &Block, profile: &Profile) -> Option<Block> {
    let ours = profile.provider.as_str();
    match block {
        Block::Text { text } => said(text),
        Block::Media { media_type, sha256, bytes } => Some(reference(media_type, sha256.as_deref(), *bytes)),
        Block::Thinking { provider, raw, .. } => {
            (provider.as_deref() == Some(ours) && raw.is_some()).then(|| block.clone())
        }
        Block::Opaque { provider, .. } => (provider == ours).then(|| block.clone()),
        Block::ToolCall { id, name, args } => {
            Some(Block::ToolCall { id: id.clone(), name: name.clone(), args: legal_args(args) })
        }
    }
}

/// Providers refuse text that is blank.
fn said(text: &str) -> Option<Block> {
    (!text.trim().is_empty()).then(|| Block::text(text))
}

/// Arguments that were not a JSON object are shown to the model inside one, so that it can see its mistake.
fn legal_args(args: &Value) -> Value {
    match args {
        Value::Object(_) => args.clone(),
        Value::Null => json!({}),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({"invalid_arguments": args})
        }
    }
}

fn reference(media_type: &str, sha256: Option<&str>, bytes: Option<u64>) -> Block {
    let kind = if media_type.is_empty() { "media" } else { media_type };
    let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    let hash = sha256.map(|hash| format!(", sha256 {hash}")).unwrap_or_default();
    Block::text(format!("[{kind}{size}{hash}: not included]"))
}

#[cfg(test)]
mod tests;
