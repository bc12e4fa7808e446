//! The endpoints for the history of `agent.md`: the recorded states of its notes, without the managed block.

use agent::{NotesRevision, RestoreOutcome, RevisionCause, RevisionEntry};
use axum::Json;
use jiff::Timestamp;
use langgraph::extract::{PathParams, QueryParams};
use langgraph::{ApiError, Caller, ErrorBody};
use serde::Serialize;
use utoipa::ToSchema;

/// Default number of revisions in a list.
const REVISIONS_DEFAULT: usize = 20;
/// Maximum number of revisions in a list.
const REVISIONS_MAX: usize = 100;

/// A list of revisions of `agent.md`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionsBody {
    /// The revisions, newest first.
    revisions: Vec<RevisionShape>,
}

/// A recorded state of the notes in `agent.md`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionShape {
    /// The number of the revision, from 1.
    revision: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The reason for the change: `outside` for another program, `remember`, `tool` for the agent, `edit`, `fact` or `restore`.
    #[schema(value_type = String)]
    cause: RevisionCause,
    /// The SHA-256 of the notes, in hex.
    sha256: String,
    /// Number of lines that were added since the revision before it.
    added: usize,
    /// Number of lines that were removed since the revision before it.
    removed: usize,
}

impl From<RevisionEntry> for RevisionShape {
    fn from(entry: RevisionEntry) -> Self {
        Self {
            revision: entry.number,
            created_at: entry.created_at,
            cause: entry.cause,
            sha256: entry.sha256,
            added: entry.added_lines,
            removed: entry.removed_lines,
        }
    }
}

/// A recorded state of the notes, with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionBody {
    /// The number of the revision.
    revision: u64,
    /// When it was recorded.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The reason for the change.
    #[schema(value_type = String)]
    cause: RevisionCause,
    /// The SHA-256 of the notes, in hex.
    sha256: String,
    /// The notes: `agent.md` without the text that Segue manages.
    text: String,
    /// The unified diff to the revision before it.
    diff: String,
}

/// The result of restoring a revision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RestoreResultBody {
    /// The number of the restored revision.
    revision: u64,
    /// False if the file had these notes already.
    changed: bool,
}

/// Returns the recorded states of the notes in agent.md
#[utoipa::path(get, path = "/api/memory/history", tag = "segue", operation_id = "list_revisions",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Maximum number of revisions; 20 by default"),
        ("before" = Option<u64>, Query, description = "Only revisions before this number"),
    ),
    responses((status = 200, body = RevisionsBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn list_revisions(
    caller: Caller,
    params: QueryParams,
) -> Result<Json<RevisionsBody>, ApiError> {
    let limit = params.number("limit", 1..=REVISIONS_MAX)?.unwrap_or(REVISIONS_DEFAULT);
    let before = params.text("before").map(|text| parse_number("before", text)).transpose()?;
    let revisions = caller.agent.memory().notes_revisions(before, limit).await?;
    Ok(Json(RevisionsBody { revisions: revisions.into_iter().map(RevisionShape::from).collect() }))
}

/// Returns a recorded state of the notes in agent.md
#[utoipa::path(get, path = "/api/memory/history/{revision}", tag = "segue", operation_id = "get_revision",
    params(("revision" = u64, Path)),
    responses((status = 200, body = RevisionBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn get_revision(caller: Caller, params: PathParams) -> Result<Json<RevisionBody>, ApiError> {
    let number = parse_number("revision", params.get("revision"))?;
    let NotesRevision { number, cause, sha256, notes, created_at, .. } =
        caller.agent.memory().notes_revision(number).await?;
    let text = String::from_utf8_lossy(&notes).into_owned();
    let diff = caller.agent.memory().notes_diff(number).await?;
    Ok(Json(RevisionBody { revision: number, created_at, cause, sha256, text, diff }))
}

/// Writes a recorded state of the notes back to agent.md; the text that Segue manages stays
#[utoipa::path(post, path = "/api/memory/history/{revision}/restore", tag = "segue", operation_id = "restore_revision",
    params(("revision" = u64, Path)),
    responses((status = 200, body = RestoreResultBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn restore_revision(
    caller: Caller,
    params: PathParams,
) -> Result<Json<RestoreResultBody>, ApiError> {
    let revision = parse_number("revision", params.get("revision"))?;
    let outcome = caller.agent.memory().restore_notes(revision).await?;
    Ok(Json(RestoreResultBody { revision, changed: outcome == RestoreOutcome::Restored }))
}

/// Parses the number of a revision.
fn parse_number(name: &str, text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("`{name}`: `{text}` is not the number of a revision")))
}
