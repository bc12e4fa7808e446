//! The check of a pending handoff's summary: questions that the next agent has to be able to answer. `agent` asks and
//! judges.

use agent::{FrameSender, PendingHandoff, ProbeMethod};
use axum::Json;
use axum::response::{IntoResponse, Response};
use langgraph::extract::{JsonBody, PathParams, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{ContinuityProbe, ContinuityReport, HandoffId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::slow_response::respond_when_done;

/// The problem of a check that was requested from a model and had none.
const NO_MODEL_PROBLEM: &str = "no model is configured";

/// The options of a check.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ProbeBody {
    /// `model`: the model of the child thread answers from the summary alone. `text`: the summary is searched for the
    /// answers, which costs nothing. By default as configured by `[handoff] probe`.
    method: Option<String>,
    /// True for a check that nobody asked for. The response is `null` if the configuration turns such checks off.
    #[serde(default)]
    automatic: bool,
}

/// The report about the questions that a summary alone answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContinuityShape {
    /// The SHA-256 of the checked text, in hex.
    summary_sha256: String,
    /// The model that answered; `null` if the text was searched.
    model: Option<String>,
    /// Tokens used.
    tokens: u64,
    /// Their price in US dollars; `null` if unknown.
    dollars: Option<f64>,
    /// The reason why the model could not answer.
    problem: Option<String>,
    /// The number of questions that the text answers.
    passed: usize,
    /// The questions, with the answers from the text alone.
    probes: Vec<ProbeShape>,
    /// Feedback for a refinement that adds what was not found; `null` if everything was.
    feedback: Option<String>,
}

/// One question.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProbeShape {
    /// `last_request`, `open_task`, `rule`, `file` or `decision`.
    #[schema(value_type = String)]
    kind: protocol::ProbeKind,
    /// The question.
    question: String,
    /// The expected answer, from the conversation.
    expected: String,
    /// The position of the message that contains it.
    #[schema(value_type = Option<u64>)]
    seq: Option<Seq>,
    /// The answer that was given, or the closest line of the text.
    answer: Option<String>,
    /// True if the answer agrees with the expected one.
    passed: bool,
    /// `rules` or `model`.
    #[schema(value_type = String)]
    judged_by: protocol::ProbeJudge,
}

impl From<ContinuityProbe> for ProbeShape {
    fn from(probe: ContinuityProbe) -> Self {
        let ContinuityProbe { kind, question, expected, seq, answer, passed, judged_by } = probe;
        Self { kind, question, expected, seq, answer, passed, judged_by }
    }
}

impl ContinuityShape {
    /// Returns the shape of a report.
    pub(super) fn new(report: ContinuityReport, dollars: Option<f64>) -> Self {
        Self {
            passed: report.passed_count(),
            feedback: report.feedback(),
            summary_sha256: report.summary_sha256,
            model: report.model,
            tokens: report.usage.total_tokens(),
            dollars,
            problem: report.problem,
            probes: report.probes.into_iter().map(ProbeShape::from).collect(),
        }
    }
}

/// Checks what the pending summary alone answers
///
/// Up to five questions, about the last request, an open task, a rule, a file and a decision, are answered from the summary
/// and compared with the conversation. Nothing is added to a thread. The report of a model is kept: the next request for the
/// same text returns it without a model call. A response that takes long begins with whitespace.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/probe", tag = "segue", operation_id = "probe_handoff",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = ProbeBody,
    responses((status = 200, body = Option<ContinuityShape>), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The handoff is not pending"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn probe(
    caller: Caller,
    path: PathParams,
    JsonBody(body): JsonBody<ProbeBody>,
) -> Result<Response, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let automatic = caller.agent.handoffs().automatic_probe();
    if body.automatic && automatic.is_none() {
        return Ok(Json(None::<ContinuityShape>).into_response());
    }
    let method = match body.method.as_deref() {
        None => automatic.unwrap_or(ProbeMethod::Model),
        Some(name) => ProbeMethod::from_name(name)
            .ok_or_else(|| ApiError::invalid(format!("`method`: `{name}` is not one of model, text")))?,
    };
    let needs_model = body.method.is_some() && method == ProbeMethod::Model;
    let pending = find_pending(&caller, handoff_id).await?;
    let cancel = agent::CancellationToken::new();
    // A client that leaves stops the check, which still records what its calls have used.
    let stop_when_dropped = cancel.clone().drop_guard();
    let check = tokio::spawn(async move {
        let (frames, handoffs) = (FrameSender::default(), caller.agent.handoffs());
        let report = handoffs.probe(&pending, method, &frames, &cancel).await?;
        let report = report.ok_or_else(|| ApiError::invalid("the check was stopped"))?;
        let dollars = handoffs.probe_price(&report);
        let mut shape = ContinuityShape::new(report, dollars);
        if needs_model && shape.model.is_none() {
            shape.problem.get_or_insert_with(|| NO_MODEL_PROBLEM.to_owned());
        }
        Ok(shape)
    });
    Ok(respond_when_done(async move {
        let _guard = stop_when_dropped;
        check.await.map_err(ApiError::internal)?
    })
    .await)
}

/// Returns the pending handoff with this id.
///
/// # Errors
/// A conflict if the handoff is decided, expired or being drafted.
pub(super) async fn find_pending(caller: &Caller, handoff_id: HandoffId) -> Result<PendingHandoff, ApiError> {
    let review = caller.agent.handoffs().review(handoff_id).await?;
    match (review.pending, review.handoff.status) {
        (Some(pending), _) => Ok(pending),
        (None, status) if status.is_pending() => {
            Err(agent::Error::from(agent::HandoffError::Redrafting(handoff_id)).into())
        }
        (None, status) => {
            Err(agent::Error::from(agent::HandoffError::AlreadyDecided { handoff_id, status }).into())
        }
    }
}
