//! Handoffs over HTTP: ask for one, look at those there are, decide. The decisions are those of contract §6, and the same
//! handoff may be begun, refined and decided in any client. Nothing is decided here.

mod shapes;

use agent::{Agent, HandoffCost, HandoffRequest, PendingHandoff};
use axum::Json;
use axum::extract::Request;
use axum::response::Response;
use langgraph::extract::{Body, InThread, Params, PathParams, id, path_id, read};
use langgraph::{Caller, Envelope, Fault};
use protocol::{Decisions, HandoffId, HandoffStatus};
use serde::Deserialize;
use utoipa::ToSchema;

use super::held::held;
use shapes::{DecidedShape, HandoffList, ListedShape, PendingShape, ReviewShape};

/// Handoffs of a list when nobody says how many.
const LISTED: usize = 50;
/// Handoffs of a list, at most.
const LISTED_MAX: usize = 1_000;

/// How a handoff is asked for.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct HandoffBody {
    /// What the next thread is for.
    goal: Option<String>,
    /// Cover only the newest messages, this many.
    #[schema(minimum = 1)]
    messages: Option<u64>,
    /// The summary's budget in tokens.
    #[schema(minimum = 1)]
    max_summary_tokens: Option<u64>,
    /// Only shows the summary: an approval changes nothing.
    #[serde(default)]
    preview: bool,
}

/// Drafts a handoff of a thread and stores the proposal
///
/// One that waits already is shown again, without another draft. It waits for the thread's runs; a long answer begins with
/// blanks.
#[utoipa::path(post, path = "/api/threads/{thread_id}/handoffs", tag = "segue", operation_id = "request_handoff",
    params(("thread_id" = String, Path, format = Uuid)), request_body = HandoffBody,
    responses((status = 200, body = PendingShape), (status = 404, body = Envelope),
        (status = 409, body = Envelope, description = "One waits that was asked for with another goal or window"),
        (status = 422, body = Envelope)))]
pub(crate) async fn request(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<HandoffBody>,
) -> Result<Response, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    for (name, number) in [("messages", body.messages), ("max_summary_tokens", body.max_summary_tokens)] {
        if number == Some(0) {
            return Err(Fault::invalid(format!("`{name}` must be 1 or more")));
        }
    }
    let options = HandoffRequest {
        goal: body.goal.filter(|goal| !goal.trim().is_empty()),
        preview_only: body.preview,
        messages: body.messages,
        max_summary_tokens: body.max_summary_tokens,
        ..HandoffRequest::default()
    };
    Ok(held(super::in_line(caller, thread_id, move |agent, frames, cancel| async move {
        let pending = agent.handoffs().request(thread_id, options, &frames, &cancel).await?;
        let cost = agent.handoffs().cost(&pending).await?;
        Ok(PendingShape::new(pending, cost))
    }))
    .await)
}

/// Lists handoffs, newest first
#[utoipa::path(get, path = "/api/handoffs", tag = "segue", operation_id = "list_handoffs",
    params(
        ("status" = Option<String>, Query, description = "`pending` (drafted or waiting), `accepted`, `declined`, `previewed`, `failed`, `expired` or `all`; `pending` unless given"),
        ("thread_id" = Option<String>, Query, format = Uuid, description = "Only handoffs of this thread"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most handoffs; 50 unless given"),
    ),
    responses((status = 200, body = HandoffList), (status = 422, body = Envelope)))]
pub(crate) async fn list(caller: Caller, params: Params) -> Result<Json<HandoffList>, Fault> {
    let statuses = statuses(params.text("status").unwrap_or("pending"))?;
    let thread_id = params.text("thread_id").map(|text| id(text, "thread")).transpose()?;
    if let Some(thread_id) = thread_id {
        langgraph::thread(&caller, thread_id).await?;
    }
    let limit = params.number("limit", 1..=LISTED_MAX)?.unwrap_or(LISTED);
    let found = caller.agent.handoffs().list(thread_id, &statuses, limit).await?;
    Ok(Json(HandoffList { handoffs: found.into_iter().map(ListedShape::from).collect() }))
}

fn statuses(outcome: &str) -> Result<Vec<HandoffStatus>, Fault> {
    if outcome == "all" {
        return Ok(HandoffStatus::ALL.to_vec());
    }
    let all = HandoffStatus::ALL.into_iter();
    let found: Vec<_> =
        all.filter(|status| status.outcome() == outcome || status.as_str() == outcome).collect();
    match found.is_empty() {
        true => Err(Fault::invalid(format!(
            "`status`: `{outcome}` is none of pending, accepted, declined, previewed, failed, expired, all"
        ))),
        false => Ok(found),
    }
}

/// Returns a handoff with everything that was proposed, what changed between the proposals, and what waits
#[utoipa::path(get, path = "/api/handoffs/{handoff_id}", tag = "segue", operation_id = "show_handoff",
    params(("handoff_id" = String, Path, format = Uuid)),
    responses((status = 200, body = ReviewShape), (status = 404, body = Envelope)))]
pub(crate) async fn show(caller: Caller, path: PathParams) -> Result<Json<ReviewShape>, Fault> {
    let handoff_id: HandoffId = path_id(&path, "handoff")?;
    let review = caller.agent.handoffs().review(handoff_id).await?;
    let cost = cost(&caller.agent, review.pending.as_ref()).await?;
    Ok(Json(ReviewShape::new(review, cost)))
}

/// Decisions about a handoff, as contract §6 has them: exactly one.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes what the protocol's own shape is read from")]
struct DecisionsBody {
    /// `{"type":"approve"}`, with `summary_sha256` or `args` (`summary_md`, `title`) if wanted; `{"type":"edit",
    /// "edited_action":{"name":"handoff_summary","args":{"feedback":…}}}`; `{"type":"reject","message":…}`; `{"type":"preview"}`.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 1)]
    decisions: Vec<()>,
}

/// Answers a handoff that waits; the first decision holds
///
/// An approval gives the thread that goes on, feedback the next proposal. A decision that cannot be taken changes nothing,
/// and the handoff still waits. A long answer begins with blanks.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/decision", tag = "segue", operation_id = "decide_handoff",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = DecisionsBody,
    responses((status = 200, body = DecidedShape), (status = 404, body = Envelope),
        (status = 409, body = Envelope, description = "It was decided before; the text names the outcome"),
        (status = 422, body = Envelope, description = "The decision cannot be taken; it still waits")))]
pub(crate) async fn decide(caller: Caller, path: PathParams, request: Request) -> Result<Response, Fault> {
    let handoff_id: HandoffId = path_id(&path, "handoff")?;
    let body = read(request).await?;
    let text = std::str::from_utf8(&body).map_err(|_| Fault::invalid("the body is not UTF-8"))?;
    let decisions =
        Decisions::from_request(text).map_err(|wrong| Fault::invalid(format!("`decisions`: {wrong}")))?;
    let handoff = caller.agent.handoffs().get(handoff_id).await?;
    let (thread_id, status) = (handoff.parent_thread_id, handoff.status);
    if !status.is_pending() {
        // Nobody waits in line for that.
        return Err(agent::Error::from(agent::HandoffError::Decided { handoff_id, status }).into());
    }
    Ok(held(super::in_line(caller, thread_id, move |agent, frames, cancel| async move {
        let decided = agent.handoffs().decide(handoff_id, &decisions, &frames, &cancel).await?;
        let cost = cost(&agent, decided.next.as_ref()).await?;
        Ok(DecidedShape::new(decided, cost))
    }))
    .await)
}

async fn cost(agent: &Agent, pending: Option<&PendingHandoff>) -> Result<HandoffCost, Fault> {
    match pending {
        Some(pending) => Ok(agent.handoffs().cost(pending).await?),
        None => Ok(HandoffCost::default()),
    }
}
