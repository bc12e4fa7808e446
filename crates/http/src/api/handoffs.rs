//! The handoff endpoints: request, list, show and decide. Decisions have the form of contract §6, and one handoff may
//! be requested, refined and decided by different clients. The rules of handoffs are in `agent`.

pub(crate) mod continuity;
pub(crate) mod edit_preview;
pub(crate) mod package;
mod shapes;

use std::sync::Arc;

use agent::{Agent, FrameSender, HandoffCost, HandoffRequestOptions, PendingHandoff};
use axum::Json;
use axum::extract::Request;
use axum::response::Response;
use langgraph::extract::{
    JsonBody, PathParams, QueryParams, ThreadPath, parse_id, parse_path_id, read_json_body,
};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Decisions, HandoffId, HandoffStatus, ThreadId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::slow_response::respond_when_done;
use shapes::{
    DecisionResultShape, HandoffList, HandoffListItem, HandoffReviewShape, PartsEstimateShape,
    PendingHandoffShape,
};

/// Default number of handoffs in a list.
const HANDOFFS_DEFAULT: usize = 50;
/// Maximum number of handoffs in a list.
const HANDOFFS_MAX: usize = 1_000;

/// The options of a handoff request.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct HandoffBody {
    /// The goal of the new thread.
    goal: Option<String>,
    /// Covers only that many of the newest messages.
    #[schema(minimum = 1)]
    messages: Option<u64>,
    /// Maximum size of the summary, in tokens.
    #[schema(minimum = 1)]
    max_summary_tokens: Option<u64>,
    /// Only shows the summary; an approval then changes nothing.
    #[serde(default)]
    preview: bool,
    /// The child of an accepted handoff, in which nobody has written yet. The summary is added to it, and no thread is created.
    #[schema(value_type = Option<String>, format = Uuid)]
    into: Option<ThreadId>,
}

/// Drafts a handoff of a thread and stores the proposal
///
/// If a handoff of the thread is pending, its proposal is returned without a new draft. The request is queued behind
/// the thread's runs. A response that takes long begins with whitespace.
#[utoipa::path(post, path = "/api/threads/{thread_id}/handoffs", tag = "segue", operation_id = "request_handoff",
    params(("thread_id" = String, Path, format = Uuid)), request_body = HandoffBody,
    responses((status = 200, body = PendingHandoffShape), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "A handoff with another goal or window is pending"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn request_handoff(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<HandoffBody>,
) -> Result<Response, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    for (name, number) in [("messages", body.messages), ("max_summary_tokens", body.max_summary_tokens)] {
        if number == Some(0) {
            return Err(ApiError::invalid(format!("`{name}` must be 1 or more")));
        }
    }
    let options = HandoffRequestOptions {
        goal: body.goal.filter(|goal| !goal.trim().is_empty()),
        preview_only: body.preview,
        messages: body.messages,
        max_summary_tokens: body.max_summary_tokens,
        into: body.into,
        ..HandoffRequestOptions::default()
    };
    Ok(respond_when_done(super::change_thread(caller, thread_id, move |agent, frames, cancel| {
        let options = options.clone();
        async move {
            let pending = agent.handoffs().request(thread_id, options, &frames, &cancel).await?;
            let cost = agent.handoffs().cost(&pending).await?;
            Ok(PendingHandoffShape::new(pending, cost))
        }
    }))
    .await)
}

/// Estimates the model calls of a handoff that precede its draft
///
/// A conversation that does not fit into the call that drafts is summarized in parts first, one call each. A part whose
/// summary is stored needs no call. No model is called.
#[utoipa::path(get, path = "/api/threads/{thread_id}/handoffs/estimate", tag = "segue", operation_id = "estimate_handoff",
    params(("thread_id" = String, Path, format = Uuid),
        ("goal" = Option<String>, Query, description = "The goal of the new thread"),
        ("messages" = Option<u64>, Query, minimum = 1, description = "Covers only that many of the newest messages")),
    responses((status = 200, body = PartsEstimateShape), (status = 404, body = ErrorBody),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn estimate(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    params: QueryParams,
) -> Result<Json<PartsEstimateShape>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let messages = params.number("messages", 1..=usize::MAX)?.map(|messages| messages as u64);
    let goal = params.text("goal").map(str::to_owned).filter(|goal| !goal.trim().is_empty());
    let options = HandoffRequestOptions { goal, messages, ..HandoffRequestOptions::default() };
    let frames = FrameSender::default();
    let estimate = caller.agent.handoffs().estimate_parts(thread_id, options, &frames).await?;
    Ok(Json(estimate.into()))
}

/// Lists handoffs, newest first
#[utoipa::path(get, path = "/api/handoffs", tag = "segue", operation_id = "list_handoffs",
    params(
        ("status" = Option<String>, Query, description = "`pending` (being drafted or waiting for a decision; the default), `accepted`, `declined`, `previewed`, `failed`, `expired` or `all`"),
        ("thread_id" = Option<String>, Query, format = Uuid, description = "Only handoffs of this thread"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Maximum number of handoffs; 50 by default"),
    ),
    responses((status = 200, body = HandoffList), (status = 422, body = ErrorBody)))]
pub(crate) async fn list(caller: Caller, params: QueryParams) -> Result<Json<HandoffList>, ApiError> {
    let statuses = parse_statuses(params.text("status").unwrap_or("pending"))?;
    let thread_id = params.text("thread_id").map(|text| parse_id(text, "thread")).transpose()?;
    if let Some(thread_id) = thread_id {
        langgraph::find_thread(&caller, thread_id).await?;
    }
    let limit = params.number("limit", 1..=HANDOFFS_MAX)?.unwrap_or(HANDOFFS_DEFAULT);
    let handoffs = caller.agent.handoffs().list(thread_id, &statuses, limit).await?;
    Ok(Json(HandoffList { handoffs: handoffs.into_iter().map(HandoffListItem::from).collect() }))
}

/// Returns the statuses that a `status` parameter selects. It names an outcome, a single status, or `all`.
fn parse_statuses(outcome: &str) -> Result<Vec<HandoffStatus>, ApiError> {
    if outcome == "all" {
        return Ok(HandoffStatus::ALL.to_vec());
    }
    let all = HandoffStatus::ALL.into_iter();
    let statuses: Vec<_> =
        all.filter(|status| status.outcome() == outcome || status.as_str() == outcome).collect();
    match statuses.is_empty() {
        true => Err(ApiError::invalid(format!(
            "`status`: `{outcome}` is not one of pending, accepted, declined, previewed, failed, expired, all"
        ))),
        false => Ok(statuses),
    }
}

/// Returns a handoff with all proposals, their differences, and the pending decision
#[utoipa::path(get, path = "/api/handoffs/{handoff_id}", tag = "segue", operation_id = "show_handoff",
    params(("handoff_id" = String, Path, format = Uuid)),
    responses((status = 200, body = HandoffReviewShape), (status = 404, body = ErrorBody)))]
pub(crate) async fn show(caller: Caller, path: PathParams) -> Result<Json<HandoffReviewShape>, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let review = caller.agent.handoffs().review(handoff_id).await?;
    let cost = handoff_cost(&caller.agent, review.pending.as_ref()).await?;
    Ok(Json(HandoffReviewShape::new(review, cost)))
}

/// The decision on a handoff, as specified in contract §6: exactly one entry.
#[derive(ToSchema)]
#[expect(dead_code, reason = "documents the JSON form that `Decisions::parse_request` reads")]
struct DecisionsBody {
    /// `{"type":"approve"}`, optionally with `summary_sha256` or `args` (`package_md`, `title`,
    /// `pending_approvals`: `transfer`, `cancel`, `leave` or `copy`); `{"type":"edit",
    /// "edited_action":{"name":"handoff_summary","args":{"feedback":…}}}`, or with `"redraft":true` in `args` while
    /// `uncovered_messages` is above 0; `{"type":"reject","message":…}`; `{"type":"preview"}`.
    #[schema(value_type = Vec<Object>, min_items = 1, max_items = 1)]
    decisions: Vec<()>,
}

/// Decides a pending handoff; the first decision wins
///
/// An approval creates the child thread; an edit with feedback creates the next proposal, and one with `"redraft":true` a
/// proposal that also covers the messages since the last one. A decision that is refused changes nothing, and the handoff
/// stays pending. A response that takes long begins with whitespace.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/decision", tag = "segue", operation_id = "decide_handoff",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = DecisionsBody,
    responses((status = 200, body = DecisionResultShape), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The handoff was decided before, the decision is about an earlier proposal, or it names none and another client requested the current one; the text names the outcome"),
        (status = 422, body = ErrorBody, description = "The decision is invalid; the handoff stays pending")))]
pub(crate) async fn decide(caller: Caller, path: PathParams, request: Request) -> Result<Response, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let body = read_json_body(request).await?;
    let text = std::str::from_utf8(&body).map_err(|_| ApiError::invalid("the body is not UTF-8"))?;
    let decisions =
        Decisions::parse_request(text).map_err(|error| ApiError::invalid(format!("`decisions`: {error}")))?;
    let handoff = caller.agent.handoffs().get(handoff_id).await?;
    let (thread_id, status) = (handoff.parent_thread_id, handoff.status);
    if !status.is_pending() {
        // A decided handoff is refused at once, without a wait in the thread's queue.
        return Err(agent::Error::from(agent::HandoffError::AlreadyDecided { handoff_id, status }).into());
    }
    let agent = Arc::new(Agent::clone(&caller.agent).with_client(Arc::clone(&caller.client)));
    // The decision may wait for a refinement by the same caller, whose draft nobody has seen.
    let decisions = agent.handoffs().bind_to_current(handoff_id, decisions).await?;
    let caller = Caller { agent, ..caller };
    Ok(respond_when_done(super::decide_in_thread(caller, thread_id, move |agent, frames, cancel| {
        let decisions = decisions.clone();
        async move {
            let outcome = agent.handoffs().decide(handoff_id, &decisions, &frames, &cancel).await?;
            let cost = handoff_cost(&agent, outcome.next.as_ref()).await?;
            Ok(DecisionResultShape::new(outcome, cost))
        }
    }))
    .await)
}

/// Returns the cost of a pending handoff; zero without one.
async fn handoff_cost(agent: &Agent, pending: Option<&PendingHandoff>) -> agent::Result<HandoffCost> {
    match pending {
        Some(pending) => agent.handoffs().cost(pending).await,
        None => Ok(HandoffCost::default()),
    }
}
