//! The preview of a person's own text for a pending handoff: the notes for its review, before it is accepted.

use axum::Json;
use langgraph::extract::{JsonBody, PathParams, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::HandoffId;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::continuity::find_pending;
use super::shapes::ProposalShape;

/// A text of the person: the arguments of a decision about it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditBody {
    /// The hash of the proposal that was edited.
    summary_sha256: Option<String>,
    /// The text as Markdown.
    summary_md: Option<String>,
    /// Another title.
    title: Option<String>,
    /// The text as fields: `title`, `tldr`, `body` and, optionally, `carry_over`.
    #[schema(value_type = Option<Object>)]
    summary_json: Option<Value>,
}

impl EditBody {
    /// Returns the text as the arguments of a decision.
    fn into_args(self) -> Map<String, Value> {
        let text = |text: Option<String>| text.map(Value::String);
        let fields = [
            ("summary_sha256", text(self.summary_sha256)),
            ("summary_md", text(self.summary_md)),
            ("title", text(self.title)),
            ("summary_json", self.summary_json),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Returns the summary that a text would become if it were accepted
///
/// `summary_json.notes` contains what a reviewer has to know before accepting it: `rules` that the text has lost or may
/// contradict, and `names_by_user` that the conversation does not contain. Nothing is stored.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/edit-preview", tag = "segue", operation_id = "preview_edit",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = EditBody,
    responses((status = 200, body = ProposalShape), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The handoff is not pending"),
        (status = 422, body = ErrorBody, description = "A decision with this text would be refused")))]
pub(crate) async fn preview(
    caller: Caller,
    path: PathParams,
    JsonBody(body): JsonBody<EditBody>,
) -> Result<Json<ProposalShape>, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let pending = find_pending(&caller, handoff_id).await?;
    let proposal = caller.agent.handoffs().preview_edit(&pending, &body.into_args()).await?;
    Ok(Json(ProposalShape::new(proposal, Some(&pending.proposal.summary_md))))
}
