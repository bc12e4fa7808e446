//! A client's request for a run. While the run is queued the request is stored as received, so that any process can start it;
//! afterwards it is stored without the messages, because the thread has them. Admission decides what it means.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{CheckpointId, InterruptId};

/// A client's request for a run. Fields that the client did not set are not stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRequest {
    /// The input: an object starts a turn, `None` resumes at the thread's checkpoint.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub input: Option<Value>,
    /// An answer, a change of the state, a place to go; it wins over `input`.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub command: Option<RunCommand>,
    /// The point of the thread's past to begin at; `None` means where it stands.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub checkpoint_id: Option<CheckpointId>,
    /// Nodes to stop before; `*` means every node.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub interrupt_before: Vec<String>,
    /// Nodes to stop behind; `*` means every node.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub interrupt_after: Vec<String>,
    /// `tags`, `recursion_limit`, `configurable`, as the client sent them.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub config: Map<String, Value>,
    /// The static context, as the client sent it.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub context: Option<Value>,
    /// Notes of the client about the run.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub metadata: Map<String, Value>,
    /// The stream modes.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub stream_mode: Vec<String>,
    /// True to stream the frames of sub-agents too.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub stream_subgraphs: bool,
    /// True to keep the stream for clients that reconnect.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub stream_resumable: bool,
    /// The effect on the run when the client that started it disconnects.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub on_disconnect: DisconnectMode,
    /// The strategy when the thread is busy.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub multitask_strategy: MultitaskStrategy,
    /// Where to tell of its end.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub webhook: Option<String>,
    /// True to delete the thread when the run ends.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub temporary: bool,
    /// True to refuse an answer to a question that is not pending.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub strict_resume: bool,
    /// How often the client wants checkpoints; kept for it to read back, every step is durable.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub durability: Option<String>,
    /// The folder in which the run's tools work. The terminal names its own; where a request names none, the run works in
    /// the thread's folder. A run that has begun is stored with the folder it works in.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub workspace: Option<String>,
    /// True to move the thread to the run's folder. Pending calls are requested again there.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub rehome: bool,
    /// The question that has to wait still when the thread moves; `None` moves it whatever waits.
    #[serde(skip_serializing_if = "is_unsaid")]
    pub rehome_interrupt_id: Option<InterruptId>,
}

/// Returns whether a client that says nothing says this.
fn is_unsaid<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The field, or the name in a pair, under which messages are put in.
const MESSAGES: &str = "messages";

impl RunRequest {
    /// Returns the request without the messages that were put in, and what they hold: once its run has begun, they are
    /// events of the thread. Of the address that is told of its end the query is not kept: it may hold a key.
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
        }
    }

    /// Returns what is put in beside messages.
    #[must_use]
    pub fn input_without_messages(&self) -> Option<Value> {
        self.input.as_ref().map(without_messages)
    }

    /// Returns the address that is told of the run's end, without the query.
    #[must_use]
    pub fn webhook_url_without_query(&self) -> Option<&str> {
        self.webhook.as_deref().and_then(|address| address.split(['?', '#']).next())
    }
}

/// Returns an object, or a list of pairs, without the messages in it.
fn without_messages(values: &Value) -> Value {
    match values {
        Value::Object(fields) => fields_without_messages(fields).into(),
        Value::Array(pairs) => pairs.iter().filter(|pair| pair[0] != MESSAGES).cloned().collect(),
        value => value.clone(),
    }
}

fn fields_without_messages(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(name, _)| *name != MESSAGES);
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a place to go without the messages that are put in there.
fn goto_without_messages(place: &Value) -> Value {
    match place {
        Value::Object(fields) => {
            let kept = fields.iter().map(|(name, value)| match name.as_str() {
                "input" => (name.clone(), without_messages(value)),
                _ => (name.clone(), value.clone()),
            });
            kept.collect::<Map<_, _>>().into()
        }
        place => place.clone(),
    }
}

/// A client's command, sent in place of an input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunCommand {
    /// An answer to what the thread asks. `null` is none: clients send it beside a place to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<Value>,
    /// A change of the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Value>,
    /// A node, several, or `{node, input}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goto: Option<Value>,
}

impl RunCommand {
    /// Returns what is commanded beside messages and the answer.
    #[must_use]
    pub fn without_messages_and_resume(&self) -> Self {
        Self {
            resume: None,
            update: self.update.as_ref().map(without_messages),
            goto: self.goto.as_ref().map(|goto| match goto {
                Value::Array(places) => places.iter().map(goto_without_messages).collect(),
                place => goto_without_messages(place),
            }),
        }
    }
}

/// The effect on a run when the client that started it disconnects (`on_disconnect`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisconnectMode {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled.
    Cancel,
}

/// The strategy for a new run on a busy thread (`multitask_strategy`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MultitaskStrategy {
    /// It waits for its turn.
    #[default]
    Enqueue,
    /// It is refused.
    Reject,
    /// The one that works is stopped, and what it did stays.
    Interrupt,
    /// The one that works is stopped, and what it did is taken back.
    Rollback,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a20_what_was_said_is_not_kept_a_second_time_beside_the_run() {
        let said = json!({"messages": [{"role": "user", "content": "x"}], "colour": "red"});
        let check = |asked: Value, expected: Value| {
            let asked: RunRequest = serde_json::from_value(asked).unwrap();
            let expected: RunRequest = serde_json::from_value(expected).unwrap();
            assert_eq!(asked.without_input_messages(), expected);
            assert_eq!(expected.without_input_messages(), expected);
        };
        let webhook = "http://127.0.0.1/";
        check(
            json!({"input": said, "metadata": {"messages": 1}, "webhook": webhook, "durability": "sync"}),
            json!({"input": {"colour": "red"}, "metadata": {"messages": 1}, "webhook": webhook, "durability": "sync"}),
        );
        check(
            json!({"webhook": "http://127.0.0.1/told?key=x#y"}),
            json!({"webhook": "http://127.0.0.1/told"}),
        );
        check(json!({"input": null, "temporary": true}), json!({"input": null, "temporary": true}));
        check(
            json!({"command": {"resume": "yes", "update": [["messages", said], ["colour", "red"]]}}),
            json!({"command": {"resume": "yes", "update": [["colour", "red"]]}}),
        );
        let kept = json!([{"node": "model", "input": {"colour": "red"}}, "tools"]);
        check(
            json!({"command": {"update": said, "goto": [{"node": "model", "input": said}, "tools"]}}),
            json!({"command": {"update": {"colour": "red"}, "goto": kept}}),
        );
    }
}
