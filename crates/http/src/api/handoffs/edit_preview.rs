//! The preview of a person's own text for a pending handoff: the notes for its review, before it is accepted.

use axum::Json;
use langgraph::extract::{JsonBody, PathParams, parse_path_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{HandoffId, RuleProblem};
use serde::{Deserialize, Serialize};
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
    /// The text as Markdown. Version 1 called it `summary_md`.
    #[serde(alias = "summary_md")]
    package_md: Option<String>,
    /// Another title.
    title: Option<String>,
    /// The text as fields: `title`, `tldr`, `body` and, optionally, `carried`.
    #[schema(value_type = Option<Object>)]
    summary_json: Option<Value>,
}

impl EditBody {
    /// Returns the text as the arguments of a decision.
    fn into_args(self) -> Map<String, Value> {
        let text = |text: Option<String>| text.map(Value::String);
        let fields = [
            ("summary_sha256", text(self.summary_sha256)),
            ("package_md", text(self.package_md)),
            ("title", text(self.title)),
            ("summary_json", self.summary_json),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// The summary that a text would become.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EditPreviewShape {
    /// The summary with its notes.
    #[serde(flatten)]
    proposal: ProposalShape,
    /// The given Markdown with the rules that it has lost; null if it has lost none, or was given as fields.
    restored_md: Option<String>,
}

/// Returns the summary that a text would become if it were accepted
///
/// `summary_json.notes` contains what a reviewer has to know before accepting it: `rules` that the text has lost or may
/// contradict, and `names_by_user` that the conversation does not contain. Nothing is stored.
#[utoipa::path(post, path = "/api/handoffs/{handoff_id}/edit-preview", tag = "segue", operation_id = "preview_edit",
    params(("handoff_id" = String, Path, format = Uuid)), request_body = EditBody,
    responses((status = 200, body = EditPreviewShape), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "The handoff is not pending, or another draft has replaced that of the hash"),
        (status = 422, body = ErrorBody, description = "A decision with this text would be refused")))]
pub(crate) async fn preview(
    caller: Caller,
    path: PathParams,
    JsonBody(body): JsonBody<EditBody>,
) -> Result<Json<EditPreviewShape>, ApiError> {
    let handoff_id: HandoffId = parse_path_id(&path, "handoff")?;
    let pending = find_pending(&caller, handoff_id).await?;
    if let Some(hash) = &body.summary_sha256 {
        caller.agent.handoffs().check_current(handoff_id, hash).await?;
    }
    let markdown = body.package_md.clone();
    let proposal = caller.agent.handoffs().preview_edit(&pending, &body.into_args()).await?;
    let notes = proposal.summary_json.notes.rules.iter();
    let mut lost = notes.filter(|note| note.problem == RuleProblem::Lost).peekable();
    let has_lost = lost.peek().is_some();
    let restored_md = markdown
        .filter(|_| has_lost)
        .map(|markdown| lost.fold(markdown, |text, note| agent::add_rule(&text, &note.rule.text)));
    let proposal = ProposalShape::new(proposal, Some(&pending.proposal.package_md));
    Ok(Json(EditPreviewShape { proposal, restored_md }))
}
