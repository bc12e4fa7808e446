//! The body of a request that creates a run, and its conversion into a [`RunRequest`].
//!
//! Only the form of the body is checked here. The input and the command are kept as the client sent them and are
//! interpreted when the run is admitted, because their meaning depends on the state of the thread at that time.

use protocol::{CheckpointId, DisconnectMode, MultitaskStrategy, RunCommand, RunRequest};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::json_limits::check_channels_size;
use crate::extract::parse_checkpoint_id;
use crate::modes::mode::StreamModes;

/// The body of a request that creates a run. Unknown fields are ignored, and `null` counts as missing.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RunBody {
    /// The assistant, by id or by name.
    pub assistant_id: String,
    /// The input: `{"messages": […]}` starts a turn; without input the run resumes at the thread's checkpoint.
    #[serde(default)]
    input: Option<Value>,
    /// A command: answers to interrupts, a state update, or the node to continue at. Takes precedence over `input`.
    #[serde(default)]
    command: Option<CommandBody>,
    /// The stream modes, one or several; `values` by default.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    pub stream_mode: Option<OneOrMany>,
    /// True to stream the events of sub-agents too.
    #[serde(default)]
    stream_subgraphs: Option<bool>,
    /// True to send event ids and to keep the stream for clients that reconnect.
    #[serde(default)]
    stream_resumable: Option<bool>,
    /// The effect on the run when this client disconnects: `cancel` or `continue`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    on_disconnect: Option<DisconnectMode>,
    /// The strategy if the thread is busy: `enqueue` (the default), `reject`, `interrupt` or `rollback`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    multitask_strategy: Option<MultitaskStrategy>,
    /// The behaviour if the thread does not exist: `reject` (the default) or `create`.
    #[serde(default)]
    pub if_not_exists: Option<IfNotExistsBody>,
    /// For a run on its own thread: `delete` (the default) or `keep` that thread when the run ends.
    #[serde(default)]
    pub on_completion: Option<OnCompletion>,
    /// The configuration: `tags`, `recursion_limit` (the maximum number of steps) and `configurable`.
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// The static context of the run. Cannot be combined with `config.configurable`.
    #[serde(default)]
    context: Option<Map<String, Value>>,
    /// The client's metadata about the run.
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    /// The checkpoint of the thread to start from. An older checkpoint starts a branch.
    #[serde(default)]
    checkpoint: Option<CheckpointBody>,
    /// The id of the checkpoint to start from. Used if `checkpoint` has no id.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
    /// Nodes before which the run stops: names, or `*` for all.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    interrupt_before: Option<OneOrMany>,
    /// Nodes after which the run stops: names, or `*` for all.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    interrupt_after: Option<OneOrMany>,
    /// The URL that receives a request when the run has ended.
    #[serde(default)]
    webhook: Option<String>,
    /// True to refuse an answer to an interrupt that is not pending.
    #[serde(default)]
    strict_resume: Option<bool>,
    /// Stored and returned with the run, but without effect: every step is durable.
    #[serde(default)]
    durability: Option<Durability>,
    /// The deprecated form of `durability`. Accepted and ignored.
    #[serde(default, rename = "checkpoint_during")]
    _checkpoint_during: Option<bool>,
    /// The delay of the run in seconds. It must not be negative; otherwise accepted and ignored.
    #[serde(default)]
    after_seconds: Option<f64>,
    /// The names of feedback to collect. Accepted and ignored.
    #[serde(default, rename = "feedback_keys")]
    _feedback_keys: Option<Vec<String>>,
}

/// The durability mode that a client requests for a run. It has no effect, because every step is durable before the
/// next one starts (`sync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Durability {
    /// Checkpoints are written while the next step runs.
    Async,
    /// Each checkpoint is written before the next step starts.
    Sync,
    /// One checkpoint is written when the run ends.
    Exit,
}

impl Durability {
    /// Returns the name on the wire.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
            Self::Exit => "exit",
        }
    }
}

/// A command to a thread. Its fields can be combined.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CommandBody {
    /// The answer to the pending interrupt, or an object with the answers to several interrupts by their ids.
    #[serde(default)]
    pub(crate) resume: Option<Value>,
    /// A state update to apply before the run continues.
    #[serde(default)]
    pub(crate) update: Option<Value>,
    /// The node or nodes to continue at: a name, a list of names, or an object `{node, input}`.
    #[serde(default)]
    pub(crate) goto: Option<Value>,
}

/// The behaviour if the thread does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IfNotExistsBody {
    /// The thread is created.
    Create,
    /// The request fails with status 404.
    Reject,
}

/// The effect on a run's own thread when the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnCompletion {
    /// The thread is deleted.
    Delete,
    /// The thread is kept.
    Keep,
}

/// A reference to a checkpoint. Other fields that clients send with it, such as `checkpoint_ns`, are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CheckpointBody {
    /// The id of the checkpoint.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    checkpoint_id: Option<CheckpointId>,
}

/// A list of strings that a client may also send as a single string.
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
            Either::One(entry) => Self(vec![entry]),
            Either::Many(entries) => Self(entries),
        })
    }
}

/// The maximum number of entries of each list in the body: stream modes, and nodes to stop at.
const LIST_ENTRIES_MAX: usize = 100;

impl RunBody {
    /// Converts the body into a run request, and the stream modes that the client wants to receive.
    ///
    /// # Errors
    /// 413 if the channels of the input or the update exceed their limit; an invalid field if a list is too long, or if a stream mode, `config.configurable` or `after_seconds` is
    /// invalid; a bad request if both `context` and `config.configurable` are set; not found if `config.configurable`
    /// names a malformed checkpoint id.
    pub(crate) fn into_request(self) -> Result<(RunRequest, StreamModes), ApiError> {
        let update = self.command.as_ref().and_then(|command| command.update.as_ref());
        for channels in [self.input.as_ref(), update].into_iter().flatten().filter_map(Value::as_object) {
            check_channels_size(channels)?;
        }
        let entries = |list: Option<OneOrMany>, field: &str| match list {
            Some(OneOrMany(entries)) if entries.len() > LIST_ENTRIES_MAX => {
                Err(ApiError::invalid(format!("`{field}`: at most {LIST_ENTRIES_MAX} entries")))
            }
            list => Ok(list.map(|OneOrMany(entries)| entries).unwrap_or_default()),
        };
        let stream_mode = entries(self.stream_mode, "stream_mode")?;
        let modes = StreamModes::from_names(stream_mode.iter().map(String::as_str));
        let modes = modes.map_err(|error| ApiError::invalid(error.to_string()))?;
        let config = self.config.unwrap_or_default();
        let configurable = match config.get("configurable") {
            None | Some(Value::Null) => None,
            Some(Value::Object(fields)) => Some(fields),
            Some(_) => return Err(ApiError::invalid("`config.configurable`: expected an object")),
        };
        let is_set = |fields: Option<&Map<String, Value>>| fields.is_some_and(|fields| !fields.is_empty());
        if is_set(self.context.as_ref()) && is_set(configurable) {
            let detail = "Cannot specify both configurable and context. Use context alone";
            return Err(ApiError::bad_request(detail));
        }
        if self.after_seconds.is_some_and(|seconds| seconds < 0.0) {
            return Err(ApiError::invalid("`after_seconds`: expected a number that is not negative"));
        }
        let explicit = self.checkpoint.and_then(|checkpoint| checkpoint.checkpoint_id).or(self.checkpoint_id);
        let checkpoint_id = explicit.map_or_else(|| configured_checkpoint(&config), |id| Ok(Some(id)))?;
        let request = RunRequest {
            input: self.input,
            command: self.command.and_then(CommandBody::into_command),
            checkpoint_id,
            interrupt_before: entries(self.interrupt_before, "interrupt_before")?,
            interrupt_after: entries(self.interrupt_after, "interrupt_after")?,
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
            // The server sets these two when it submits the request.
            answered_interrupts: None,
            client: None,
        };
        Ok((request, modes))
    }
}

impl CommandBody {
    /// Converts the body into a command. Returns `None` if no field is set.
    pub(crate) fn into_command(self) -> Option<RunCommand> {
        let Self { resume, update, goto } = self;
        let has_field = resume.is_some() || update.is_some() || goto.is_some();
        has_field.then_some(RunCommand { resume, update, goto })
    }
}

/// Returns the checkpoint id in a run's configuration (`configurable.checkpoint_id`), if there is one. Values that are
/// not text are ignored.
///
/// # Errors
/// Not found if the text is not a checkpoint id.
pub(crate) fn configured_checkpoint(config: &Map<String, Value>) -> Result<Option<CheckpointId>, ApiError> {
    let id = config.get("configurable").and_then(|configurable| configurable.get("checkpoint_id"));
    id.and_then(Value::as_str).map(parse_checkpoint_id).transpose()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    use crate::modes::mode::StreamMode;

    /// A checkpoint id as LangGraph makes them.
    const CHECKPOINT_ID: &str = "1ef4f797-8335-6428-8001-8a1503f9b875";

    fn parse_body(body: &Value) -> Result<(RunRequest, StreamModes), ApiError> {
        crate::extract::parse_json::<RunBody>(body.to_string().as_bytes())?.into_request()
    }

    fn assert_refused(body: &Value, status: u16, expected: &str) {
        let error = parse_body(body).unwrap_err();
        assert_eq!(error.status().as_u16(), status, "{body}: {error}");
        assert!(error.detail().contains(expected), "{body}: {error}");
    }

    #[test]
    fn i8_bodies_of_real_clients_are_accepted() {
        let (request, modes) = parse_body(&json!({
            "assistant_id": "agent", "input": null, "command": {"resume": {"decisions": []}, "goto": null},
            "stream_mode": ["values", "messages-tuple", "custom", "tools"], "stream_resumable": true,
            "on_disconnect": "cancel", "multitask_strategy": null, "metadata": null, "langsmith_tracer": {},
            "checkpoint": {"checkpoint_id": CHECKPOINT_ID, "checkpoint_ns": ""}, "checkpoint_during": true,
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
        assert_eq!(request.checkpoint_id, Some(CHECKPOINT_ID.parse().unwrap()));
        assert_eq!(request.interrupt_before, ["*"]);
        assert_eq!(request.on_disconnect, DisconnectMode::Cancel);
        assert_eq!(request.multitask_strategy, MultitaskStrategy::Enqueue);
    }

    #[test]
    fn an_empty_command_is_none_and_the_default_mode_is_values() {
        let (request, modes) =
            parse_body(&json!({"assistant_id": "a", "command": {"goto": null}, "stream_mode": []})).unwrap();
        assert_eq!(request.command, None);
        assert!(modes.has(StreamMode::Values));
        assert_eq!(request.stream_mode, ["values"]);
        let (request, _) = parse_body(
            &json!({"assistant_id": "a", "config": {"configurable": {"checkpoint_id": CHECKPOINT_ID}}}),
        )
        .unwrap();
        assert_eq!(request.checkpoint_id, Some(CHECKPOINT_ID.parse().unwrap()));
    }

    #[test]
    fn i8_invalid_fields_are_refused_and_named_in_the_error() {
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
