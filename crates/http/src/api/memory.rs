//! The memory endpoints: statistics, `agent.md`, summaries of old messages, and noting a sentence in `agent.md`. `facts` has
//! those for proposed facts, and `history` those for earlier states of `agent.md`.
//! Clients cannot change the managed block of `agent.md`.
//!
//! `agent.md` is edited with optimistic concurrency: a client sends the hash of the text that it edited, in the body or
//! in `If-Match`, and the edit is refused with 409 if the file has changed meanwhile.

pub(super) mod facts;
pub(super) mod history;

use agent::{
    AgentFileSnapshot, MemoryStats, NotesScope, ProjectScope, ReadExtent, RewriteOutcome, StoredSummary,
    SummaryProject,
};
use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use jiff::Timestamp;
use langgraph::extract::{JsonBody, QueryParams};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{SummaryId, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Default number of summaries in a list.
const SUMMARIES_DEFAULT: usize = 20;
/// Maximum number of summaries in a list.
const SUMMARIES_MAX: usize = 1_000;

/// The size of an assistant's memory, by tier.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemoryStatsBody {
    /// The file `agent.md`, which is part of every conversation.
    agent_md: AgentMdStatsShape,
    /// Messages of users and models.
    turns: TurnStatsShape,
    /// Number of summaries of old messages.
    summaries: u64,
    /// Number of items in the store.
    items: u64,
    /// Number of proposed facts that await review.
    facts_to_review: u64,
    /// Number of threads whose messages are to be summarized.
    due: u64,
}

/// The size of agent.md.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentMdStatsShape {
    /// True if the file exists.
    exists: bool,
    /// The size of the file, in bytes.
    bytes: u64,
    /// Maximum size of the file up to which notes are added, in bytes.
    bytes_max: u64,
    /// The reason why the file cannot be read, if it cannot.
    problem: Option<String>,
}

/// Number of messages, by their state in memory.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnStatsShape {
    /// Messages that no summary replaces.
    active: u64,
    /// Messages that a summary replaces.
    summarised: u64,
    /// Messages that a rewind or an edit has hidden.
    withdrawn: u64,
}

impl From<MemoryStats> for MemoryStatsBody {
    fn from(stats: MemoryStats) -> Self {
        let (file, turns) = (stats.agent_md, stats.turns);
        Self {
            agent_md: AgentMdStatsShape {
                exists: file.exists,
                bytes: file.bytes,
                bytes_max: file.bytes_max,
                problem: file.problem,
            },
            turns: TurnStatsShape {
                active: turns.active,
                summarised: turns.summarised,
                withdrawn: turns.withdrawn,
            },
            summaries: stats.summaries,
            items: stats.items,
            facts_to_review: stats.facts_to_review,
            due: stats.due,
        }
    }
}

/// Returns the size of the memory, by tier
#[utoipa::path(get, path = "/api/memory", tag = "segue", operation_id = "memory_stats",
    responses((status = 200, body = MemoryStatsBody)))]
pub(crate) async fn get_memory_stats(caller: Caller) -> Result<Json<MemoryStatsBody>, ApiError> {
    Ok(Json(caller.agent.memory().stats().await?.into()))
}

/// The file `agent.md`, which is part of every conversation of the assistant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentMdBody {
    /// The text; empty if the file does not exist.
    text: String,
    /// The SHA-256 of the file, in hex. Send it with a change of the text.
    sha256: String,
    /// The text between `<current_thread_summary>` and `</current_thread_summary>`, which Segue manages; `null` without
    /// them.
    block: Option<String>,
    /// True if `text` is only the beginning of the file.
    is_cut: bool,
}

impl From<&AgentFileSnapshot> for AgentMdBody {
    fn from(snapshot: &AgentFileSnapshot) -> Self {
        Self {
            text: String::from_utf8_lossy(&snapshot.bytes).into_owned(),
            sha256: snapshot.sha256.clone(),
            block: snapshot.block.clone(),
            is_cut: snapshot.extent == ReadExtent::Beginning,
        }
    }
}

/// Returns the text of agent.md
#[utoipa::path(get, path = "/api/memory/agent_md", tag = "segue", operation_id = "get_agent_md",
    responses((status = 200, body = AgentMdBody)))]
pub(crate) async fn get_agent_md(caller: Caller) -> Result<Json<AgentMdBody>, ApiError> {
    let snapshot = caller.agent.memory().agent_md()?;
    Ok(Json(AgentMdBody::from(&*snapshot)))
}

/// A new text for `agent.md`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AgentMdEditBody {
    /// The whole text. The part between `<current_thread_summary>` and `</current_thread_summary>` must be unchanged.
    text: String,
    /// The `sha256` of the text that was edited; alternatively, send it in the header `If-Match`.
    sha256: Option<String>,
}

/// Replaces the text of agent.md with an edited version
#[utoipa::path(put, path = "/api/memory/agent_md", tag = "segue", operation_id = "put_agent_md",
    params(("if-match" = Option<String>, Header, description = "The `sha256` of the text that was edited")),
    request_body = AgentMdEditBody,
    responses((status = 200, body = AgentMdBody),
        (status = 409, body = ErrorBody, description = "The file has changed since it was read"),
        (status = 422, body = ErrorBody, description = "The hash is missing, the managed block was changed, the text contains a secret, or it is too large")))]
pub(crate) async fn put_agent_md(
    caller: Caller,
    headers: HeaderMap,
    JsonBody(edited): JsonBody<AgentMdEditBody>,
) -> Result<Json<AgentMdBody>, ApiError> {
    let tag = headers.get(IF_MATCH).and_then(|value| value.to_str().ok());
    let tag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
    let base_sha256 = edited.sha256.or(tag);
    let base_sha256 = base_sha256
        .ok_or_else(|| ApiError::invalid("`sha256`: send the hash of the text that was edited"))?;
    let current = caller.agent.memory().agent_md()?;
    if current.sha256 != base_sha256 {
        return Err(edit_conflict());
    }
    if current.extent == ReadExtent::Beginning {
        return Err(ApiError::invalid("agent.md is too large to be edited here"));
    }
    match caller.agent.memory().edit_agent_md(current.bytes.clone(), edited.text.into_bytes()).await? {
        RewriteOutcome::Replaced | RewriteOutcome::Unchanged => get_agent_md(caller).await,
        RewriteOutcome::BlockChanged => Err(ApiError::invalid(
            "`text`: the part between <current_thread_summary> and </current_thread_summary> is managed by Segue and must not change",
        )),
        RewriteOutcome::Conflict => Err(edit_conflict()),
        RewriteOutcome::NewSecrets { count } => {
            let secrets = if count == 1 { "a secret".to_owned() } else { format!("{count} secrets") };
            Err(ApiError::invalid(format!(
                "`text`: it contains what looks like {secrets}, so it was not saved"
            )))
        }
    }
}

/// Returns the error for an edit of an outdated text.
fn edit_conflict() -> ApiError {
    ApiError::conflict("agent.md has changed since it was read")
        .with_hint("read it again and repeat the change")
}

/// A list of summaries of old messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SummariesBody {
    /// The summaries, newest first.
    summaries: Vec<SummaryShape>,
}

/// A summary of old messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SummaryShape {
    /// The id of the summary.
    #[schema(value_type = String, format = Uuid)]
    id: SummaryId,
    /// The assistant's name.
    agent_id: String,
    /// The text of the summary.
    summary_text: String,
    /// The first summarized message.
    turn_range_start: u64,
    /// The last summarized message.
    turn_range_end: u64,
    /// When the summary was stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The thread of the first summarized message; `null` if the thread was deleted.
    #[schema(value_type = Option<String>, format = Uuid)]
    thread_id: Option<ThreadId>,
    /// Number of summarized messages.
    turns: u64,
    /// The path of the project of the messages; `null` if they are personal, or of several projects.
    project: Option<String>,
}

impl From<StoredSummary> for SummaryShape {
    fn from(StoredSummary { summary, thread_id, turns, project }: StoredSummary) -> Self {
        Self {
            project: match project {
                SummaryProject::Project(path) => Some(path),
                SummaryProject::Personal | SummaryProject::Several => None,
            },
            id: summary.id,
            agent_id: summary.agent_id.name().to_owned(),
            summary_text: summary.summary_text,
            turn_range_start: summary.turn_range_start,
            turn_range_end: summary.turn_range_end,
            created_at: summary.created_at,
            thread_id,
            turns,
        }
    }
}

/// Returns the newest summaries of old messages
#[utoipa::path(get, path = "/api/memory/summaries", tag = "segue", operation_id = "memory_summaries",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of summaries; 20 by default"),
        ("scope" = Option<String>, Query, description = "`project` for the summaries of the server's project, `everything` for those of all projects; by default what `memory.scope` says"),
    ),
    responses((status = 200, body = SummariesBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn list_summaries(
    caller: Caller,
    params: QueryParams,
) -> Result<Json<SummariesBody>, ApiError> {
    let limit = params.number("limit", 1..=SUMMARIES_MAX)?.unwrap_or(SUMMARIES_DEFAULT);
    let project = project_scope(&caller, &params)?;
    let summaries = caller.agent.memory().recent_summaries(project, limit).await?;
    Ok(Json(SummariesBody { summaries: summaries.into_iter().map(SummaryShape::from).collect() }))
}

/// Parses the `scope` parameter. Without it, the configuration decides.
pub(crate) fn project_scope(caller: &Caller, params: &QueryParams) -> Result<ProjectScope, ApiError> {
    match params.text("scope") {
        None => Ok(caller.agent.default_project_scope()),
        Some("project") => Ok(ProjectScope::Project(caller.agent.project())),
        Some("everything") => Ok(ProjectScope::Any),
        Some(other) => {
            Err(ApiError::invalid(format!("`scope`: `{other}` is not one of project, everything")))
        }
    }
}

/// A note for `agent.md`.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RememberBody {
    /// The text, a sentence or two.
    text: String,
    /// The conversations that see it. Without this field, the setting `memory.scope` decides.
    #[serde(default)]
    scope: Option<RememberScope>,
}

/// The conversations that see a note.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RememberScope {
    /// Those in the server's project.
    Project,
    /// Those in all projects.
    Everything,
}

/// The result of noting a text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RememberResultBody {
    /// The line in `agent.md`.
    line: String,
    /// The path of the project whose conversations see it; null for those of all projects.
    project: Option<String>,
    /// True if the line was there already.
    was_known: bool,
    /// Number of secrets that were redacted.
    withheld: u64,
    /// The size of the file, in bytes.
    bytes: u64,
    /// Maximum size of the file up to which notes are added, in bytes.
    bytes_max: u64,
}

/// Notes a text in agent.md, outside the managed block; secrets are redacted
#[utoipa::path(post, path = "/api/memory/remember", tag = "segue", operation_id = "remember",
    request_body = RememberBody,
    responses((status = 200, body = RememberResultBody), (status = 422, body = ErrorBody, description = "The text is empty or too long")))]
pub(crate) async fn remember(
    caller: Caller,
    JsonBody(RememberBody { text, scope }): JsonBody<RememberBody>,
) -> Result<Json<RememberResultBody>, ApiError> {
    if text.trim().is_empty() {
        return Err(ApiError::invalid("`text` contains no words"));
    }
    let scope = match scope {
        None => caller.agent.notes_scope(),
        Some(RememberScope::Project) => NotesScope::Project(caller.agent.project()),
        Some(RememberScope::Everything) => NotesScope::AllProjects,
    };
    let note = caller.agent.memory().remember(scope, text.trim()).await?;
    Ok(Json(RememberResultBody {
        line: note.line,
        project: note.project,
        was_known: note.was_already_noted,
        withheld: note.redacted_secrets,
        bytes: note.bytes,
        bytes_max: note.bytes_max,
    }))
}
