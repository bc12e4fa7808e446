//! The endpoints for durable facts that a model proposed for `agent.md`, and for the decisions on them.

use agent::{FactKind, FactListRequest, FactReceipt, FactState, FactVerdict, MemoryFact, NoteReplacement};
use axum::Json;
use jiff::Timestamp;
use langgraph::extract::{JsonBody, PathParams, QueryParams, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{FactId, MessageRole, Seq, SummaryId, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::project_scope;

/// Default number of facts in a list.
const FACTS_DEFAULT: usize = 50;
/// Maximum number of facts in a list.
const FACTS_MAX: usize = 1_000;
/// Maximum number of facts that a list skips.
const OFFSET_MAX: usize = 1_000_000;

/// A fact that a model proposed, with the words that it quotes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactShape {
    /// The id of the fact.
    #[schema(value_type = String, format = Uuid)]
    fact_id: FactId,
    /// `proposed`, `accepted`, `edited`, `declined` or `superseded`.
    #[schema(value_type = String)]
    state: FactState,
    /// `preference`, `decision`, `environment` or `name`.
    #[schema(value_type = String)]
    kind: FactKind,
    /// The fact as the model proposed it.
    text: String,
    /// The path of the project whose conversations it is for; `null` for those of all projects.
    project: Option<String>,
    /// Words of the message that states it; empty if its thread was deleted.
    quote: String,
    /// The thread of the message; `null` if it was deleted.
    #[schema(value_type = Option<String>, format = Uuid)]
    thread_id: Option<ThreadId>,
    /// The position of the message in the thread.
    seq: Seq,
    /// `user` or `assistant`: the author of the message.
    #[schema(value_type = String)]
    role: MessageRole,
    /// The summary with which it was proposed.
    #[schema(value_type = String, format = Uuid)]
    summary_id: SummaryId,
    /// The note in `agent.md` that it replaces.
    replaces: Option<String>,
    /// The note in `agent.md`, if it was accepted.
    note: Option<String>,
    /// When it was decided.
    #[schema(value_type = Option<String>, format = DateTime)]
    decided_at: Option<Timestamp>,
    /// When it was proposed.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<MemoryFact> for FactShape {
    fn from(fact: MemoryFact) -> Self {
        Self {
            fact_id: fact.fact_id,
            state: fact.state,
            kind: fact.kind,
            text: fact.text,
            project: fact.project,
            quote: fact.quote,
            thread_id: fact.thread_id,
            seq: fact.seq,
            role: fact.role,
            summary_id: fact.summary_id,
            replaces: fact.replaces,
            note: fact.decided_text,
            decided_at: fact.decided_at,
            created_at: fact.created_at,
        }
    }
}

/// A list of facts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactsBody {
    /// The facts, oldest first.
    facts: Vec<FactShape>,
    /// The `offset` of the next page; `null` if there are no more facts.
    next_offset: Option<usize>,
}

/// Returns the facts that a model proposed for agent.md
#[utoipa::path(get, path = "/api/memory/facts", tag = "segue", operation_id = "list_facts",
    params(
        ("state" = Option<String>, Query, description = "`proposed`, which is the default, `accepted`, `edited`, `declined`, `superseded` or `all`"),
        ("scope" = Option<String>, Query, description = "`project` for the facts that conversations in the server's project see, `everything` for those of all projects; by default what `memory.scope` says"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of facts; 50 by default"),
        ("offset" = Option<u32>, Query, description = "Number of facts to skip"),
    ),
    responses((status = 200, body = FactsBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn list_facts(caller: Caller, params: QueryParams) -> Result<Json<FactsBody>, ApiError> {
    let limit = params.number("limit", 1..=FACTS_MAX)?.unwrap_or(FACTS_DEFAULT);
    let offset = params.number("offset", 0..=OFFSET_MAX)?.unwrap_or_default();
    let project = project_scope(&caller, &params)?;
    // One more than the page says if there is a next page.
    let request = FactListRequest { project, states: parse_states(&params)?, offset, limit: limit + 1 };
    let mut facts = caller.agent.memory().facts(request).await?;
    let next_offset = (facts.len() > limit).then_some(offset + limit);
    facts.truncate(limit);
    Ok(Json(FactsBody { facts: facts.into_iter().map(FactShape::from).collect(), next_offset }))
}

/// Parses the `state` parameter.
fn parse_states(params: &QueryParams) -> Result<Vec<FactState>, ApiError> {
    match params.text("state") {
        None => Ok(vec![FactState::Proposed]),
        Some("all") => Ok(Vec::new()),
        Some(name) => FactState::from_name(name).map(|state| vec![state]).ok_or_else(|| {
            ApiError::invalid(format!(
                "`state`: `{name}` is not one of proposed, accepted, edited, declined, superseded, all"
            ))
        }),
    }
}

/// A decision on a proposed fact.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactDecisionBody {
    /// The decision.
    decision: FactDecisionKind,
    /// The text of the note; only with `edit`.
    text: Option<String>,
}

/// The kinds of decisions on a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FactDecisionKind {
    /// Write it to `agent.md` as it is.
    Accept,
    /// Write `text` to `agent.md` instead.
    Edit,
    /// Do not keep it, and do not propose it again.
    Decline,
}

/// The result of a decision on a fact.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactResultBody {
    /// The fact after the decision.
    fact: FactShape,
    /// `none` if it replaces no note, `replaced` if it stands in the place of that note, and `not_found` if that note does
    /// not stand exactly once among the notes of the same project, or the personal ones, so that the fact was added.
    replacement: &'static str,
    /// Number of secrets that were redacted from the note.
    withheld: u64,
}

impl From<FactReceipt> for FactResultBody {
    fn from(receipt: FactReceipt) -> Self {
        Self {
            replacement: match receipt.replacement {
                NoteReplacement::NotRequested => "none",
                NoteReplacement::Replaced => "replaced",
                NoteReplacement::NotFound => "not_found",
            },
            withheld: receipt.note.map_or(0, |note| note.redacted_secrets),
            fact: receipt.fact.into(),
        }
    }
}

/// Decides on a proposed fact; an accepted fact becomes a note in agent.md
#[utoipa::path(post, path = "/api/memory/facts/{fact_id}", tag = "segue", operation_id = "decide_fact",
    params(("fact_id" = String, Path, format = Uuid)),
    request_body = FactDecisionBody,
    responses((status = 200, body = FactResultBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The fact was decided before; the first decision stands"),
        (status = 422, body = ErrorBody, description = "The text is missing, empty or too long, or is sent without `edit`")))]
pub(crate) async fn decide_fact(
    caller: Caller,
    params: PathParams,
    JsonBody(FactDecisionBody { decision, text }): JsonBody<FactDecisionBody>,
) -> Result<Json<FactResultBody>, ApiError> {
    let fact_id: FactId = parse_path_id(&params, "fact")?;
    let verdict = match (decision, text) {
        (FactDecisionKind::Accept, None) => FactVerdict::Accept,
        (FactDecisionKind::Decline, None) => FactVerdict::Decline,
        (FactDecisionKind::Edit, Some(text)) if text.trim().is_empty() => {
            return Err(ApiError::invalid("`text` contains no words"));
        }
        (FactDecisionKind::Edit, Some(text)) => FactVerdict::Edit(text),
        (FactDecisionKind::Edit, None) => return Err(ApiError::invalid("`text`: send the text of the note")),
        (FactDecisionKind::Accept | FactDecisionKind::Decline, Some(_)) => {
            return Err(ApiError::invalid("`text`: send it with the decision `edit` only"));
        }
    };
    Ok(Json(caller.agent.memory().decide_fact(fact_id, verdict).await?.into()))
}
