//! A client's request for a run. While the run is queued, the whole request is stored, so that any process can start
//! it. After the run has started, the request is stored without its messages, because the thread's events contain
//! them. The admission code of the runtime interprets the request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CheckpointId, InterruptId};

/// A client's request for a run. Fields with their default value are not stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// The input: an object starts a turn; `None` resumes at the thread's checkpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub input: Option<Value>,
    /// A command (an answer, a state update, or a jump to a node). It takes precedence over `input`.
    #[serde(skip_serializing_if = "is_default")]
    pub command: Option<RunCommand>,
    /// The checkpoint from which the run starts; `None` means the thread's newest checkpoint.
    #[serde(skip_serializing_if = "is_default")]
    pub checkpoint_id: Option<CheckpointId>,
    /// Nodes before which the run is interrupted; `*` means every node.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupt_before: Vec<String>,
    /// Nodes after which the run is interrupted; `*` means every node.
    #[serde(skip_serializing_if = "is_default")]
    pub interrupt_after: Vec<String>,
    /// The configuration (`tags`, `recursion_limit`, `configurable`), as the client sent it.
    #[serde(skip_serializing_if = "is_default")]
    pub config: Map<String, Value>,
    /// The static context, as the client sent it.
    #[serde(skip_serializing_if = "is_default")]
    pub context: Option<Value>,
    /// The client's metadata about the run, which Segue stores and does not interpret.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata: Map<String, Value>,
    /// The requested stream modes.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_mode: Vec<String>,
    /// True to stream the frames of sub-agents too.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_subgraphs: bool,
    /// True to buffer the stream for clients that reconnect.
    #[serde(skip_serializing_if = "is_default")]
    pub stream_resumable: bool,
    /// The effect on the run when the client that started it disconnects.
    #[serde(skip_serializing_if = "is_default")]
    pub on_disconnect: DisconnectMode,
    /// The strategy if the thread is busy.
    #[serde(skip_serializing_if = "is_default")]
    pub multitask_strategy: MultitaskStrategy,
    /// The URL to which a webhook is sent when the run ends.
    #[serde(skip_serializing_if = "is_default")]
    pub webhook: Option<String>,
    /// True to delete the thread when the run ends.
    #[serde(skip_serializing_if = "is_default")]
    pub temporary: bool,
    /// True to refuse an answer to a question that is not pending.
    #[serde(skip_serializing_if = "is_default")]
    pub strict_resume: bool,
    /// The client's durability mode. It is only stored for the client to read, because Segue commits every step
    /// durably.
    #[serde(skip_serializing_if = "is_default")]
    pub durability: Option<String>,
    /// The working directory of the run's tools. The terminal sends its own. If a request names none, the run uses
    /// the thread's folder. The request of a started run is stored with the folder in use.
    #[serde(skip_serializing_if = "is_default")]
    pub workspace: Option<String>,
    /// True to move the thread to the run's folder. Pending calls are requested again there.
    #[serde(skip_serializing_if = "is_default")]
    pub rehome: bool,
    /// The interrupt that must still be pending when the thread is moved; `None` moves the thread in any case.
    #[serde(skip_serializing_if = "is_default")]
    pub rehome_interrupt_id: Option<InterruptId>,
    /// The interrupts that the answer in `command` is for: those that it names or, without names, the only one that it
    /// could be for when the server received it. The server sets this field. `None` for a request without an answer,
    /// and for an answer that is matched to the interrupts that are pending when its run starts.
    #[serde(skip_serializing_if = "is_default")]
    pub answered_interrupts: Option<Vec<InterruptId>>,
    /// A fingerprint of the client that sent the request. The server sets this field. `None` for a run of the terminal.
    #[serde(skip_serializing_if = "is_default")]
    pub client: Option<String>,
}

/// Returns true if the value is the default, so that the field need not be stored.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The name of the messages channel, as a field of an object or as the first element of a pair.
const MESSAGES: &str = "messages";

impl RunRequest {
    /// Returns the request without its input messages, which are events of the thread once the run has started. The
    /// query of the webhook URL is removed too, because it may contain a secret.
    #[must_use]
    pub fn without_input_messages(&self) -> Self {
        let command = self.command.as_ref().map(|command| RunCommand {
            resume: command.resume.clone(),
            ..command.without_messages_and_resume()
        });
        Self {
            input: self.input_without_messages(),
            command,
            checkpoint_id: self.checkpoint_id,
            interrupt_before: self.interrupt_before.clone(),
            interrupt_after: self.interrupt_after.clone(),
            config: self.config.clone(),
            context: self.context.clone(),
            metadata: self.metadata.clone(),
            stream_mode: self.stream_mode.clone(),
            stream_subgraphs: self.stream_subgraphs,
            stream_resumable: self.stream_resumable,
            on_disconnect: self.on_disconnect,
            multitask_strategy: self.multitask_strategy,
            webhook: self.webhook_url_without_query().map(str::to_owned),
            temporary: self.temporary,
            strict_resume: self.strict_resume,
            durability: self.durability.clone(),
            workspace: self.workspace.clone(),
            rehome: self.rehome,
            rehome_interrupt_id: self.rehome_interrupt_id,
            answered_interrupts: self.answered_interrupts.clone(),
            client: self.client.clone(),
        }
    }

    /// Returns true if the command answers interrupts.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        let resume = self.command.as_ref().and_then(|command| command.resume.as_ref());
        resume.is_some_and(|answer| !answer.is_null())
    }

    /// Returns the input without messages.
    #[must_use]
    pub fn input_without_messages(&self) -> Option<Value> {
        self.input.as_ref().map(without_messages)
    }

    /// Returns the webhook URL without its query and fragment.
    #[must_use]
    pub fn webhook_url_without_query(&self) -> Option<&str> {
        self.webhook.as_deref().and_then(|address| address.split(['?', '#']).next())
    }
}

/// Returns a state update, which is an object or a list of `[channel, value]` pairs, without the messages channel.
fn without_messages(values: &Value) -> Value {
    match values {
        Value::Object(fields) => fields_without_messages(fields).into(),
        Value::Array(pairs) => pairs.iter().filter(|pair| pair[0] != MESSAGES).cloned().collect(),
        value => value.clone(),
    }
}

/// Returns the fields of a state update without the messages channel.
fn fields_without_messages(fields: &Map<String, Value>) -> Map<String, Value> {
    let other_fields = fields.iter().filter(|(name, _)| *name != MESSAGES);
    other_fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a `goto` target, which is a node's name or `{node, input}`, without the messages of its input.
fn goto_without_messages(target: &Value) -> Value {
    match target {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match name.as_str() {
                "input" => (name.clone(), without_messages(value)),
                _ => (name.clone(), value.clone()),
            });
            fields.collect::<Map<_, _>>().into()
        }
        target => target.clone(),
    }
}

/// A client's command, sent in place of an input (the `Command` of the Agent Server protocol).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCommand {
    /// An answer to a pending interrupt. `null` means no answer; clients send it together with `goto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Value>,
    /// A state update: an object or a list of `[channel, value]` pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Value>,
    /// The nodes to execute next: a node's name, `{node, input}`, or a list of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goto: Option<Value>,
}

impl RunCommand {
    /// Returns the command without its answer and without messages.
    #[must_use]
    pub fn without_messages_and_resume(&self) -> Self {
        Self {
            resume: None,
            update: self.update.as_ref().map(without_messages),
            goto: self.goto.as_ref().map(|goto| match goto {
                Value::Array(targets) => targets.iter().map(goto_without_messages).collect(),
                target => goto_without_messages(target),
            }),
        }
    }
}

/// The effect on a run when the client that started it disconnects (`on_disconnect`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisconnectMode {
    /// The run continues.
    #[default]
    Continue,
    /// The run is cancelled.
    Cancel,
}

/// The strategy for a new run on a busy thread (`multitask_strategy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MultitaskStrategy {
    /// The new run is queued.
    #[default]
    Enqueue,
    /// The new run is refused.
    Reject,
    /// The active run is stopped, and its effects on the thread are preserved.
    Interrupt,
    /// The active run is stopped, and its effects on the thread are undone.
    Rollback,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a20_the_stored_request_does_not_repeat_the_messages_of_the_thread() {
        let update = json!({"messages": [{"role": "user", "content": "x"}], "colour": "red"});
        let check = |request: Value, expected: Value| {
            let request: RunRequest = serde_json::from_value(request).unwrap();
            let expected: RunRequest = serde_json::from_value(expected).unwrap();
            assert_eq!(request.without_input_messages(), expected);
            assert_eq!(expected.without_input_messages(), expected);
        };
        let webhook = "http://127.0.0.1/";
        check(
            json!({"input": update, "metadata": {"messages": 1}, "webhook": webhook, "durability": "sync"}),
            json!({"input": {"colour": "red"}, "metadata": {"messages": 1}, "webhook": webhook, "durability": "sync"}),
        );
        check(
            json!({"webhook": "http://127.0.0.1/run-ended?key=x#y"}),
            json!({"webhook": "http://127.0.0.1/run-ended"}),
        );
        check(json!({"input": null, "temporary": true}), json!({"input": null, "temporary": true}));
        check(
            json!({"command": {"resume": "yes", "update": [["messages", update], ["colour", "red"]]}}),
            json!({"command": {"resume": "yes", "update": [["colour", "red"]]}}),
        );
        let targets = json!([{"node": "model", "input": {"colour": "red"}}, "tools"]);
        check(
            json!({"command": {"update": update, "goto": [{"node": "model", "input": update}, "tools"]}}),
            json!({"command": {"update": {"colour": "red"}, "goto": targets}}),
        );
    }
}
