//! The summaries that a child thread is sent, their lines that later work contradicts, and the change of one line.

use agent::{ChildPackage, LineUpdate, StaleLine};
use axum::Json;
use langgraph::extract::{JsonBody, PathParams, ThreadPath, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{HandoffId, Proposal, Seq, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::shapes::ProposalShape;

/// The summaries that a thread is sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PackageList {
    /// The summaries, the oldest first. Empty if no handoff created the thread.
    packages: Vec<PackageShape>,
}

/// A summary that a child thread is sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PackageShape {
    /// The handoff that handed it over.
    #[schema(value_type = String, format = Uuid)]
    handoff_id: HandoffId,
    /// The package as it is sent now.
    package_md: String,
    /// The text of `package_md`, under its name of version 1.
    summary_md: String,
    /// The SHA-256 of `package_md`, in hex.
    summary_sha256: String,
    /// The summary with its coverage.
    proposal: ProposalShape,
    /// The thread that was handed off.
    #[schema(value_type = String, format = Uuid)]
    parent_thread_id: ThreadId,
    /// The lines that later work contradicts.
    stale: Vec<StaleLineShape>,
}

/// A line of a summary that later work contradicts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StaleLineShape {
    /// The line.
    line: String,
    /// Its number in the summary, from 1.
    number: usize,
    /// `task_done`, `file_deleted`, `newer_request`, `error_resolved` or `contradicted`.
    #[schema(value_type = String)]
    reason: agent::StaleReason,
    /// The reason as a clause.
    text: &'static str,
    /// The thread with the later work.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The position of the event with it.
    #[schema(value_type = u64)]
    seq: Seq,
    /// The line to put in its place; `null` to remove it.
    replacement: Option<String>,
    /// The other lines that the change removes, such as the number of open tasks in the TL;DR.
    also_removed: Vec<String>,
    /// The lines that the change puts in their place.
    also_added: Vec<String>,
}

impl From<StaleLine> for StaleLineShape {
    fn from(stale: StaleLine) -> Self {
        let StaleLine { line, number, reason, thread_id, seq, replacement, also_removed, also_added } = stale;
        let text = reason.text();
        Self { line, number, reason, text, thread_id, seq, replacement, also_removed, also_added }
    }
}

impl PackageShape {
    /// Returns the shape of a package.
    fn new(handoff_id: HandoffId, package: Proposal, stale: Vec<StaleLine>) -> Self {
        Self {
            handoff_id,
            package_md: package.package_md.clone(),
            summary_md: package.package_md.clone(),
            summary_sha256: package.summary_sha256.clone(),
            parent_thread_id: package.summary_json.parent_thread_id,
            proposal: ProposalShape::new(package, None),
            stale: stale.into_iter().map(StaleLineShape::from).collect(),
        }
    }
}

/// Returns the summaries that a thread is sent, with the lines that later work contradicts
#[utoipa::path(get, path = "/api/threads/{thread_id}/packages", tag = "segue", operation_id = "thread_packages",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = PackageList), (status = 404, body = ErrorBody)))]
pub(crate) async fn list(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<PackageList>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let packages = caller.agent.handoffs().packages(thread_id).await?;
    let shape = |ChildPackage { handoff_id, package, stale }| PackageShape::new(handoff_id, package, stale);
    Ok(Json(PackageList { packages: packages.into_iter().map(shape).collect() }))
}

/// The change of one line.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct LineUpdateBody {
    /// The hash of the summary that was shown.
    summary_sha256: String,
    /// The line, as it is in the summary.
    line: String,
    /// Its number, from 1; the first line with this text if it is absent.
    number: Option<usize>,
    /// The line to put in its place; `null` or absent to remove it.
    replacement: Option<String>,
}

/// Changes one line of an accepted summary
///
/// The next request of the child thread contains the changed summary. The summary as it was accepted stays stored.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/package", tag = "segue", operation_id = "update_package",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = LineUpdateBody,
    responses((status = 200, body = PackageShape), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The summary has changed, or does not contain the line"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn update(
    caller: Caller,
    path: PathParams,
    JsonBody(body): JsonBody<LineUpdateBody>,
) -> Result<Json<PackageShape>, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let LineUpdateBody { summary_sha256, line, number, replacement } = body;
    let update = LineUpdate { summary_sha256, line, number, replacement };
    let package = caller.agent.handoffs().update_package(handoff_id, &update).await?;
    Ok(Json(PackageShape::new(handoff_id, package, Vec::new())))
}
