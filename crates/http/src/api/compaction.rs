//! The endpoints for a thread's context: its report, compaction, undoing a compaction, and rewinding. The messages in
//! the history stay. What is compacted, and how, is decided by `agent` and `compaction`.

use agent::{
    CompactionParameters, ContextReport, Error, HistoryEntry, KeepPolicy, ModelWindow, RewindResult,
    ThreadCompaction, ThreadCompactionUndo, ThreadError,
};
use axum::Json;
use axum::response::Response;
use langgraph::extract::{JsonBody, ThreadPath};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{Compaction, Seq, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::slow_response::respond_when_done;
/// The content of the next request to the model. This is not the transcript, which is `values.messages` of the state
/// and the history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The model, as `provider/name`; `null` without one.
    model: Option<String>,
    /// Tokens of the model's context window; `null` if unknown.
    window_tokens: Option<u64>,
    /// The parts of the request, in order.
    parts: Vec<ContextPartShape>,
    /// Tokens of all parts.
    tokens: u64,
    /// Number of messages that are sent uncompacted.
    message_count: usize,
    /// Number of tokens at which the conversation is compacted automatically; `null` if it is not.
    trigger_tokens: Option<u64>,
    /// The compacted range; `null` if nothing is compacted.
    condensed: Option<CompactedRangeShape>,
    /// The conversation as the model sees it, compared with the transcript.
    conversation: ConversationShape,
}

/// The conversation as the model sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationShape {
    /// The summary that replaces the compacted messages; `null` if nothing is compacted.
    summary: Option<String>,
    /// The positions of the messages that are sent uncompacted.
    #[schema(value_type = Vec<u64>)]
    kept_seqs: Vec<Seq>,
    /// Number of messages in the transcript.
    transcript_messages: usize,
    /// Estimated tokens of the conversation as it is sent.
    tokens: u64,
}

/// A part of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextPartShape {
    /// The name of the part.
    name: String,
    /// The size of the part, in tokens.
    tokens: u64,
}

/// The compacted range of a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompactedRangeShape {
    /// The position of the newest compaction's marker.
    #[schema(value_type = u64)]
    marker_seq: Seq,
    /// The last compacted position; later events are sent uncompacted.
    #[schema(value_type = u64)]
    last_seq: Seq,
    /// The name of the part of the request that contains the summary.
    part: &'static str,
}

impl ContextBody {
    /// Returns the shape of a context report.
    fn new(thread_id: ThreadId, report: ContextReport, window: ModelWindow) -> Self {
        let part = |part: agent::ContextPart| ContextPartShape { name: part.name, tokens: part.tokens };
        Self {
            thread_id,
            model: report.model,
            window_tokens: report.window_tokens,
            parts: report.parts.into_iter().map(part).collect(),
            tokens: report.tokens,
            message_count: report.message_count,
            trigger_tokens: report.trigger_tokens,
            condensed: report.condensed.map(|condensed| CompactedRangeShape {
                marker_seq: condensed.marker_seq,
                last_seq: condensed.last_seq,
                part: condensed.part,
            }),
            conversation: ConversationShape {
                summary: window.summary,
                kept_seqs: window.kept_seqs,
                transcript_messages: window.transcript_messages,
                tokens: window.tokens,
            },
        }
    }
}

/// Returns the content of the next request to the model, part by part
#[utoipa::path(get, path = "/api/threads/{thread_id}/context", tag = "segue", operation_id = "thread_context",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = ContextBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn get_context(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Json<ContextBody>, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let report = caller.agent.threads().context_report(thread_id).await?;
    let window = caller.agent.threads().model_window(thread_id).await?;
    Ok(Json(ContextBody::new(thread_id, report, window)))
}

/// The options of a compaction.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct CompactBody {
    /// How much stays uncompacted; the value of `config.toml` by default.
    keep: Option<KeepShape>,
    /// A topic that the summary should keep above all.
    focus: Option<String>,
    /// Only returns the result without storing it.
    #[serde(default)]
    preview: bool,
}

/// How much stays uncompacted, in one of three units.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeepShape {
    /// Number of tokens.
    Tokens(u64),
    /// Number of messages.
    Messages(u64),
    /// Share of the model's context window, from 0 to 1.
    Fraction(f64),
}

/// The result of a compaction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompactResultBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// `condensed`, `previewed`, or `nothing` if there was nothing to compact.
    outcome: &'static str,
    /// The reason why nothing was compacted.
    reason: Option<String>,
    /// The marker, as in the history; `null` unless the compaction was stored.
    #[schema(value_type = Option<Object>)]
    marker: Option<HistoryEntry>,
    /// The compaction, stored or previewed: range, counts, tokens, summary.
    #[schema(value_type = Option<Object>)]
    compaction: Option<Compaction>,
}

/// Compacts the older part of a thread for the model
///
/// The messages stay in the history, and `uncompact` undoes the compaction. The request is queued behind the thread's
/// runs. A response that takes long begins with whitespace.
#[utoipa::path(post, path = "/api/threads/{thread_id}/compact", tag = "segue", operation_id = "compact_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = CompactBody,
    responses((status = 200, body = CompactResultBody), (status = 404, body = ErrorBody), (status = 422, body = ErrorBody)))]
pub(crate) async fn compact(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(body): JsonBody<CompactBody>,
) -> Result<Response, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let request = CompactionParameters { focus: body.focus, keep: body.keep.map(parse_keep).transpose()? };
    let is_preview = body.preview;
    Ok(respond_when_done(super::change_thread(caller, thread_id, move |agent, frames, cancel| {
        let request = request.clone();
        async move {
            let outcome = match is_preview {
                true => agent.threads().preview_compaction(thread_id, &request, &frames, &cancel).await,
                false => agent.threads().compact(thread_id, &request, &frames, &cancel).await,
            };
            match outcome {
                Ok(outcome) => Ok(compact_result(thread_id, outcome)),
                Err(Error::Thread(ThreadError::NothingToCompact { reason, .. })) => Ok(CompactResultBody {
                    thread_id,
                    outcome: "nothing",
                    reason: Some(reason),
                    marker: None,
                    compaction: None,
                }),
                Err(error) => Err(error),
            }
        }
    }))
    .await)
}

/// Validates the requested size of the uncompacted part.
fn parse_keep(keep: KeepShape) -> Result<KeepPolicy, ApiError> {
    match keep {
        KeepShape::Tokens(tokens) => Ok(KeepPolicy::Tokens(tokens)),
        KeepShape::Messages(messages) => Ok(KeepPolicy::Messages(messages)),
        KeepShape::Fraction(share) if (0.0..=1.0).contains(&share) => Ok(KeepPolicy::Fraction(share)),
        KeepShape::Fraction(_) => Err(ApiError::invalid("`keep.fraction` must be 0 to 1")),
    }
}

/// Returns the response for a stored or previewed compaction.
fn compact_result(thread_id: ThreadId, outcome: ThreadCompaction) -> CompactResultBody {
    CompactResultBody {
        thread_id,
        outcome: if outcome.is_stored { "condensed" } else { "previewed" },
        reason: None,
        marker: outcome.marker,
        compaction: Some(outcome.compaction),
    }
}

/// The result of undoing a compaction.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UncompactResultBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The position of the undone compaction's marker.
    #[schema(value_type = u64)]
    marker_seq: Seq,
    /// Number of messages that are sent uncompacted again.
    replaced_count: u64,
    /// Tokens of the next request with the summary.
    tokens_before: u64,
    /// Tokens of the next request without the summary.
    tokens_after: u64,
    /// True if the request is now too large for the model, so that the next message compacts the thread again.
    is_too_large: bool,
}

/// Undoes the newest compaction of a thread
#[utoipa::path(post, path = "/api/threads/{thread_id}/uncompact", tag = "segue", operation_id = "uncompact_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = UncompactResultBody), (status = 404, body = ErrorBody),
        (status = 409, body = ErrorBody, description = "Nothing is compacted in the thread")))]
pub(crate) async fn uncompact(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
) -> Result<Response, ApiError> {
    langgraph::find_thread(&caller, thread_id).await?;
    let undo = super::change_thread(caller, thread_id, move |agent, _, _| async move {
        match agent.threads().undo_compaction(thread_id).await {
            Ok(outcome) => Ok(Ok(uncompact_result(thread_id, outcome))),
            Err(error @ Error::Thread(ThreadError::NothingToUndo(_))) => {
                Ok(Err(ApiError::conflict(format!("failed to {error}"))))
            }
            Err(error) => Err(error),
        }
    });
    Ok(respond_when_done(async move { undo.await? }).await)
}

/// Returns the response for an undone compaction.
fn uncompact_result(thread_id: ThreadId, outcome: ThreadCompactionUndo) -> UncompactResultBody {
    let ThreadCompactionUndo { marker_seq, replaced_count, tokens_before, tokens_after, is_too_large } =
        outcome;
    UncompactResultBody { thread_id, marker_seq, replaced_count, tokens_before, tokens_after, is_too_large }
}

/// The position to which a thread is rewound.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RewindBody {
    /// The last position that stays visible; 0 hides everything.
    #[schema(value_type = u64)]
    keep_seq: Seq,
}

/// The result of rewinding a thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RewindResultBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The last visible position.
    #[schema(value_type = u64)]
    keep_seq: Seq,
    /// Number of hidden messages; the history shows them with `superseded`.
    superseded: u64,
}

/// Rewinds a thread to a position; later entries are hidden, not deleted
#[utoipa::path(post, path = "/api/threads/{thread_id}/rewind", tag = "segue", operation_id = "rewind_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = RewindBody,
    responses((status = 200, body = RewindResultBody), (status = 404, body = ErrorBody, description = "The thread or the position does not exist"),
        (status = 422, body = ErrorBody)))]
pub(crate) async fn rewind(
    caller: Caller,
    ThreadPath(thread_id): ThreadPath,
    JsonBody(RewindBody { keep_seq }): JsonBody<RewindBody>,
) -> Result<Response, ApiError> {
    let last_seq = langgraph::find_thread(&caller, thread_id).await?.last_seq;
    if keep_seq > last_seq {
        return Err(Error::from(ThreadError::UnknownEvent { thread_id, seq: keep_seq, last_seq }).into());
    }
    Ok(respond_when_done(super::change_thread(caller, thread_id, move |agent, _, _| async move {
        let RewindResult { keep_seq, superseded } = agent.threads().rewind(thread_id, keep_seq).await?;
        Ok(RewindResultBody { thread_id, keep_seq, superseded })
    }))
    .await)
}
