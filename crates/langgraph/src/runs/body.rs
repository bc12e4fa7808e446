//! The body of a request for a run: what clients send, as [`RunRequest`] keeps it. What it means for a thread is decided
//! where runs are admitted.

use protocol::{CheckpointId, DisconnectMode, MultitaskStrategy, RunCommand, RunRequest};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::parse_checkpoint_id;
use crate::modes::mode::StreamModes;

/// The body of a request for a run. Unknown fields are ignored, and `null` counts as missing.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RunBody {
    /// The assistant, by id or by name.
    pub assistant_id: String,
    /// The input: `{"messages": […]}` starts a turn; without input the run resumes at the thread's checkpoint.
    #[serde(default)]
    input: Option<Value>,
    /// An answer, a change of the state, a place to go; it wins over `input`.
    #[serde(default)]
    command: Option<CommandBody>,
    /// The stream modes: one or several.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    pub stream_mode: Option<OneOrMany>,
    /// True to stream events of sub-agents too.
    #[serde(default)]
    stream_subgraphs: Option<bool>,
    /// True to give the stream ids and to keep it for clients that reconnect.
    #[serde(default)]
    stream_resumable: Option<bool>,
    /// The effect on the run when this client disconnects.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    on_disconnect: Option<DisconnectMode>,
    /// The strategy when the thread is busy.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    multitask_strategy: Option<MultitaskStrategy>,
    /// The behaviour if the thread does not exist.
    #[serde(default)]
    pub if_not_exists: Option<IfNotExistsBody>,
    /// The fate of a run's own thread at its end, if the request named no thread.
    #[serde(default)]
    pub on_completion: Option<OnCompletion>,
    /// `tags`, `recursion_limit`, `configurable`.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// The static context.
    #[serde(default)]
    context: Option<Map<String, Value>>,
    /// Notes about the run.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// The point of the thread's past to begin at.
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    /// The same, by its id alone.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
    /// Nodes to stop before: `*`, or names.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    interrupt_before: Option<OneOrMany>,
    /// Nodes to stop behind: `*`, or names.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    interrupt_after: Option<OneOrMany>,
    /// Where to tell of the end.
    #[serde(default)]
    webhook: Option<String>,
    /// True to refuse an answer to a question that is not pending.
    #[serde(default)]
    strict_resume: Option<bool>,
    /// Kept to be read back; every step is durable.
    #[serde(default)]
    durability: Option<Durability>,
    /// The same, as older clients say it.
    #[serde(default, rename = "checkpoint_during")]
    _checkpoint_during: Option<bool>,
    /// Seconds to wait before; taken and not looked at.
    #[serde(default)]
    after_seconds: Option<f64>,
    /// Names of feedback; taken and not looked at.
    #[serde(default, rename = "feedback_keys")]
    _feedback_keys: Option<Vec<String>>,
}

/// When what a run does is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Durability {
    Async,
    Sync,
    Exit,
}

impl Durability {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
            Self::Exit => "exit",
        }
    }
}

/// A command, as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CommandBody {
    /// An answer to what the thread asks.
    #[serde(default)]
    pub(crate) resume: Option<Value>,
    /// A change of the state.
    #[serde(default)]
    pub(crate) update: Option<Value>,
    /// A node, several, or `{node, input}`.
    #[serde(default)]
    pub(crate) goto: Option<Value>,
}

/// The behaviour if the thread does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IfNotExistsBody {
    /// It is made.
    Create,
    /// The run is refused.
    Reject,
}

/// The fate of a run's own thread at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnCompletion {
    /// It goes.
    Delete,
    /// It stays.
    Keep,
}

/// A point of the thread's past.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CheckpointBody {
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
}

/// A word or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneOrMany(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a string or an array of strings")]
        enum Either {
            One(String),
            Many(Vec<String>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::One(word) => Self(vec![word]),
            Either::Many(words) => Self(words),
        })
    }
}

/// The most words of a list in a request for a run.
const LIST_ENTRIES_MAX: usize = 100;

impl RunBody {
    /// Returns what is asked for, with what the client wants to see of it.
    ///
    /// # Errors
    /// When a field makes no sense, alone or beside another.
    pub(crate) fn into_request(self) -> Result<(RunRequest, StreamModes), ApiError> {
        let words = |given: Option<OneOrMany>, field: &str| match given {
            Some(OneOrMany(words)) if words.len() > LIST_ENTRIES_MAX => {
                Err(ApiError::invalid(format!("`{field}`: at most {LIST_ENTRIES_MAX} entries")))
            }
            given => Ok(given.map(|OneOrMany(words)| words).unwrap_or_default()),
        };
        let stream_mode = words(self.stream_mode, "stream_mode")?;
        let modes = StreamModes::from_names(stream_mode.iter().map(String::as_str));
        let modes = modes.map_err(|error| ApiError::invalid(error.to_string()))?;
        let config = self.config.unwrap_or_default();
        let configurable = match config.get("configurable") {
            None | Some(Value::Null) => None,
            Some(Value::Object(given)) => Some(given),
            Some(_) => return Err(ApiError::invalid("`config.configurable`: expected an object")),
        };
        let is_given = |fields: Option<&Map<String, Value>>| fields.is_some_and(|fields| !fields.is_empty());
        if is_given(self.context.as_ref()) && is_given(configurable) {
            let detail = "Cannot specify both configurable and context. Use context alone";
            return Err(ApiError::bad_request(detail));
        }
        if self.after_seconds.is_some_and(|seconds| seconds < 0.0) {
            return Err(ApiError::invalid("`after_seconds`: expected a number that is not negative"));
        }
        let named = self.checkpoint.and_then(|checkpoint| checkpoint.checkpoint_id).or(self.checkpoint_id);
        let checkpoint_id = named.map_or_else(|| configured_checkpoint(&config), |named| Ok(Some(named)))?;
        let request = RunRequest {
            input: self.input,
            command: self.command.and_then(CommandBody::into_command),
            checkpoint_id,
            interrupt_before: words(self.interrupt_before, "interrupt_before")?,
            interrupt_after: words(self.interrupt_after, "interrupt_after")?,
            context: self.context.map(Value::Object),
            metadata: self.metadata.unwrap_or_default(),
            stream_mode: if stream_mode.is_empty() { vec!["values".to_owned()] } else { stream_mode },
            stream_subgraphs: self.stream_subgraphs.unwrap_or(false),
            stream_resumable: self.stream_resumable.unwrap_or(false),
            on_disconnect: self.on_disconnect.unwrap_or_default(),
            multitask_strategy: self.multitask_strategy.unwrap_or_default(),
            webhook: self.webhook,
            temporary: false,
            strict_resume: self.strict_resume.unwrap_or(false),
            durability: self.durability.map(|durability| durability.as_str().to_owned()),
            config,
            workspace: None,
            rehome: false,
            rehome_interrupt_id: None,
        };
        Ok((request, modes))
    }
}

impl CommandBody {
    /// Returns the command; `None` when it commands nothing.
    pub(crate) fn into_command(self) -> Option<RunCommand> {
        let Self { resume, update, goto } = self;
        let is_any = resume.is_some() || update.is_some() || goto.is_some();
        is_any.then_some(RunCommand { resume, update, goto })
    }
}

/// Reads the point of the past that a configuration names.
pub(crate) fn configured_checkpoint(config: &Map<String, Value>) -> Result<Option<CheckpointId>, ApiError> {
    let named = config.get("configurable").and_then(|given| given.get("checkpoint_id"));
    named.and_then(Value::as_str).map(parse_checkpoint_id).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POINT: &str = "1ef4f797-8335-6428-8001-8a1503f9b875";
    use crate::modes::mode::StreamMode;

    fn parse_body(body: &Value) -> Result<(RunRequest, StreamModes), ApiError> {
        crate::extract::parse_json::<RunBody>(body.to_string().as_bytes())?.into_request()
    }

    fn assert_refused(body: &Value, status: u16, named: &str) {
        let fault = parse_body(body).unwrap_err();
        assert_eq!(fault.status().as_u16(), status, "{body}: {fault}");
        assert!(fault.detail().contains(named), "{body}: {fault}");
    }

    #[test]
    fn what_real_clients_send_is_understood() {
        let (request, modes) = parse_body(&json!({
            "assistant_id": "agent", "input": null, "command": {"resume": {"decisions": []}, "goto": null},
            "stream_mode": ["values", "messages-tuple", "custom", "tools"], "stream_resumable": true,
            "on_disconnect": "cancel", "multitask_strategy": null, "metadata": null, "langsmith_tracer": {},
            "checkpoint": {"checkpoint_id": POINT, "checkpoint_ns": ""}, "checkpoint_during": true,
            "config": {"recursion_limit": 100, "configurable": {}}, "context": {"thread_id": "x"},
            "interrupt_before": "*", "interrupt_after": ["tools"], "feedback_keys": [], "after_seconds": 1,
        }))
        .unwrap();
        assert!(
            modes.has(StreamMode::MessagesTuple)
                && modes.has(StreamMode::Values)
                && !modes.has(StreamMode::Updates)
        );
        assert_eq!(request.command.unwrap().resume, Some(json!({"decisions": []})));
        assert_eq!(request.checkpoint_id, Some(POINT.parse().unwrap()));
        assert_eq!(request.interrupt_before, ["*"]);
        assert_eq!(request.on_disconnect, DisconnectMode::Cancel);
        assert_eq!(request.multitask_strategy, MultitaskStrategy::Enqueue);
    }

    #[test]
    fn a_command_of_nothings_is_none_and_no_mode_means_values() {
        let (request, modes) =
            parse_body(&json!({"assistant_id": "a", "command": {"goto": null}, "stream_mode": []})).unwrap();
        assert_eq!(request.command, None);
        assert!(modes.has(StreamMode::Values));
        assert_eq!(request.stream_mode, ["values"]);
        let (request, _) =
            parse_body(&json!({"assistant_id": "a", "config": {"configurable": {"checkpoint_id": POINT}}}))
                .unwrap();
        assert_eq!(request.checkpoint_id, Some(POINT.parse().unwrap()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_field() {
        assert_refused(&json!({}), 422, "assistant_id");
        assert_refused(&json!({"assistant_id": 1}), 422, "assistant_id");
        assert_refused(&json!({"assistant_id": "a", "stream_mode": "nope"}), 422, "messages-tuple");
        assert_refused(&json!({"assistant_id": "a", "stream_mode": {"a": 1}}), 422, "stream_mode");
        assert_refused(&json!({"assistant_id": "a", "on_disconnect": "explode"}), 422, "on_disconnect");
        assert_refused(&json!({"assistant_id": "a", "multitask_strategy": "x"}), 422, "multitask_strategy");
        assert_refused(&json!({"assistant_id": "a", "if_not_exists": "x"}), 422, "if_not_exists");
        assert_refused(&json!({"assistant_id": "a", "config": []}), 422, "config");
        assert_refused(&json!({"assistant_id": "a", "metadata": "x"}), 422, "metadata");
        assert_refused(&json!({"assistant_id": "a", "command": "x"}), 422, "command");
        assert_refused(&json!({"assistant_id": "a", "checkpoint": "x"}), 422, "checkpoint");
        assert_refused(&json!({"assistant_id": "a", "checkpoint_id": "x"}), 422, "checkpoint_id");
        assert_refused(
            &json!({"assistant_id": "a", "checkpoint": {"checkpoint_id": "x"}}),
            422,
            "checkpoint",
        );
        let configured = json!({"configurable": {"checkpoint_id": "x"}});
        assert_refused(&json!({"assistant_id": "a", "config": configured}), 404, "checkpoint");
        assert_refused(&json!({"assistant_id": "a", "interrupt_before": 3}), 422, "interrupt_before");
        for (field, wrong) in [
            ("context", json!(3)),
            ("durability", json!("x")),
            ("checkpoint_during", json!("x")),
            ("after_seconds", json!("x")),
            ("after_seconds", json!(-1)),
            ("feedback_keys", json!("x")),
        ] {
            assert_refused(&json!({"assistant_id": "a", field: wrong}), 422, field);
        }
        assert_refused(
            &json!({"assistant_id": "a", "config": {"configurable": 3}}),
            422,
            "config.configurable",
        );
        assert_refused(
            &json!({"assistant_id": "a", "interrupt_after": vec!["n"; 101]}),
            422,
            "interrupt_after",
        );
        let both = json!({"assistant_id": "a", "context": {"a": 1}, "config": {"configurable": {"b": 1}}});
        assert_refused(&both, 400, "context");
    }
}
