//! What the model is sent of a thread, and what changes that: condensing, taking it back, going back. The messages people
//! see stay. What is condensed, and how, is decided in the rooms below.

use agent::{
    CompactionRequest, Condensed, ContextReport, Error, HistoryEntry, Keep, ModelWindow, Rewound,
    ThreadError, Uncompacted,
};
use axum::Json;
use axum::response::Response;
use langgraph::extract::{Body, InThread};
use langgraph::{Caller, Envelope, Fault};
use protocol::{Compaction, Seq, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::held::held;
/// What the next request to the model would hold. It is not the transcript: that is `values.messages` of the state, and
/// the history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// `provider/name` of the model; `null` without one.
    model: Option<String>,
    /// Tokens of its window; `null` when nobody knows.
    window_tokens: Option<u64>,
    /// The parts, in the order they are sent.
    parts: Vec<PartShape>,
    /// Tokens of all of them.
    tokens: u64,
    /// Messages of the conversation that are sent as they are.
    message_count: usize,
    /// Tokens from which on the conversation is condensed by itself; `null` when it is not.
    trigger_tokens: Option<u64>,
    /// What is condensed; `null` when nothing is.
    condensed: Option<CondensedShape>,
    /// The conversation as the model sees it, beside the transcript.
    conversation: ConversationShape,
}

/// What of the transcript the model sees.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationShape {
    /// The summary that stands for what was condensed; `null` when nothing is.
    summary: Option<String>,
    /// The messages that are sent as they are, by their positions.
    #[schema(value_type = Vec<u64>)]
    kept_seqs: Vec<Seq>,
    /// How many messages the transcript has.
    transcript_messages: usize,
    /// Tokens of what is sent of the conversation, by estimate.
    tokens: u64,
}

/// One part of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartShape {
    /// What it is.
    name: String,
    /// Its size.
    tokens: u64,
}

/// What of a thread is condensed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CondensedShape {
    /// The marker of the newest compaction.
    #[schema(value_type = u64)]
    marker_seq: Seq,
    /// The last event that is condensed; what comes after it is sent as it is.
    #[schema(value_type = u64)]
    last_seq: Seq,
    /// The part of the request that stands for it.
    part: &'static str,
}

impl ContextBody {
    fn new(thread_id: ThreadId, report: ContextReport, window: ModelWindow) -> Self {
        let part = |part: agent::ContextPart| PartShape { name: part.name, tokens: part.tokens };
        Self {
            thread_id,
            model: report.model,
            window_tokens: report.window_tokens,
            parts: report.parts.into_iter().map(part).collect(),
            tokens: report.tokens,
            message_count: report.message_count,
            trigger_tokens: report.trigger_tokens,
            condensed: report.condensed.map(|condensed| CondensedShape {
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

/// Returns what the next request to the model would hold, part by part
#[utoipa::path(get, path = "/api/threads/{thread_id}/context", tag = "segue", operation_id = "thread_context",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = ContextBody), (status = 404, body = Envelope)))]
pub(crate) async fn context(
    caller: Caller,
    InThread(thread_id): InThread,
) -> Result<Json<ContextBody>, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    let report = caller.agent.threads().context_report(thread_id).await?;
    let window = caller.agent.threads().context_of(thread_id).await?;
    Ok(Json(ContextBody::new(thread_id, report, window)))
}

/// How a thread is condensed.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct CompactBody {
    /// How much stays as it is; as `config.toml` has it unless given.
    keep: Option<KeepShape>,
    /// What is to be kept above all.
    focus: Option<String>,
    /// Only shows what it would be.
    #[serde(default)]
    preview: bool,
}

/// How much stays as it is: one of the three.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeepShape {
    /// So many tokens.
    Tokens(u64),
    /// So many messages.
    Messages(u64),
    /// This share of the model's window, from 0 to 1.
    Fraction(f64),
}

/// What came of condensing.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompactedBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// `condensed`, `previewed`, or `nothing` when there was nothing to condense.
    outcome: &'static str,
    /// Why nothing was done.
    reason: Option<String>,
    /// The marker, as the history has it; `null` unless something was stored.
    #[schema(value_type = Option<Object>)]
    marker: Option<HistoryEntry>,
    /// What was condensed, or would be: range, counts, tokens, summary.
    #[schema(value_type = Option<Object>)]
    compaction: Option<Compaction>,
}

/// Condenses the older part of a thread for the model
///
/// The messages stay in the history, and `uncompact` takes it back. It waits for the thread's runs; a long answer begins
/// with blanks.
#[utoipa::path(post, path = "/api/threads/{thread_id}/compact", tag = "segue", operation_id = "compact_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = CompactBody,
    responses((status = 200, body = CompactedBody), (status = 404, body = Envelope), (status = 422, body = Envelope)))]
pub(crate) async fn compact(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(body): Body<CompactBody>,
) -> Result<Response, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    let request = CompactionRequest { focus: body.focus, keep: body.keep.map(keep).transpose()? };
    let is_preview = body.preview;
    Ok(held(super::in_line(caller, thread_id, move |agent, frames, cancel| async move {
        let done = match is_preview {
            true => agent.threads().preview_compaction(thread_id, &request, &frames, &cancel).await,
            false => agent.threads().compact(thread_id, &request, &frames, &cancel).await,
        };
        match done {
            Ok(done) => Ok(compacted(thread_id, done)),
            Err(Error::Thread(ThreadError::NothingToCompact { reason, .. })) => Ok(CompactedBody {
                thread_id,
                outcome: "nothing",
                reason: Some(reason),
                marker: None,
                compaction: None,
            }),
            Err(error) => Err(error.into()),
        }
    }))
    .await)
}

fn keep(keep: KeepShape) -> Result<Keep, Fault> {
    match keep {
        KeepShape::Tokens(tokens) => Ok(Keep::Tokens(tokens)),
        KeepShape::Messages(messages) => Ok(Keep::Messages(messages)),
        KeepShape::Fraction(share) if (0.0..=1.0).contains(&share) => Ok(Keep::Fraction(share)),
        KeepShape::Fraction(_) => Err(Fault::invalid("`keep.fraction` must be 0 to 1")),
    }
}

fn compacted(thread_id: ThreadId, done: Condensed) -> CompactedBody {
    CompactedBody {
        thread_id,
        outcome: if done.is_stored { "condensed" } else { "previewed" },
        reason: None,
        marker: done.marker,
        compaction: Some(done.compaction),
    }
}

/// What taking a compaction back did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UncompactedBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The marker that was taken back.
    #[schema(value_type = u64)]
    marker_seq: Seq,
    /// How many messages are sent as they are again.
    replaced_count: u64,
    /// Tokens of the next request with the summary.
    tokens_before: u64,
    /// Tokens of the next request without it.
    tokens_after: u64,
    /// Whether the model does not take so many: the next message condenses the thread again.
    is_too_large: bool,
}

/// Takes the newest compaction of a thread back
#[utoipa::path(post, path = "/api/threads/{thread_id}/uncompact", tag = "segue", operation_id = "uncompact_thread",
    params(("thread_id" = String, Path, format = Uuid)),
    responses((status = 200, body = UncompactedBody), (status = 404, body = Envelope),
        (status = 409, body = Envelope, description = "Nothing is condensed in it")))]
pub(crate) async fn uncompact(caller: Caller, InThread(thread_id): InThread) -> Result<Response, Fault> {
    langgraph::thread(&caller, thread_id).await?;
    Ok(held(super::in_line(caller, thread_id, move |agent, _, _| async move {
        match agent.threads().uncompact(thread_id).await {
            Ok(done) => Ok(uncompacted(thread_id, done)),
            Err(error @ Error::Thread(ThreadError::NothingToUndo(_))) => {
                Err(Fault::conflict(format!("failed to {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }))
    .await)
}

fn uncompacted(thread_id: ThreadId, done: Uncompacted) -> UncompactedBody {
    let Uncompacted { marker_seq, replaced_count, tokens_before, tokens_after, is_too_large } = done;
    UncompactedBody { thread_id, marker_seq, replaced_count, tokens_before, tokens_after, is_too_large }
}

/// Where a thread is taken back to.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RewindBody {
    /// The last position that stays in sight; 0 keeps nothing.
    #[schema(value_type = u64)]
    keep_seq: Seq,
}

/// What taking a thread back did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RewoundBody {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The last position that stays in sight.
    #[schema(value_type = u64)]
    keep_seq: Seq,
    /// How many messages are out of sight; the history shows them with `superseded`.
    superseded: u64,
}

/// Takes a thread back to a position; what came after it is out of sight, not gone
#[utoipa::path(post, path = "/api/threads/{thread_id}/rewind", tag = "segue", operation_id = "rewind_thread",
    params(("thread_id" = String, Path, format = Uuid)), request_body = RewindBody,
    responses((status = 200, body = RewoundBody), (status = 404, body = Envelope, description = "No such thread, or no such position"),
        (status = 422, body = Envelope)))]
pub(crate) async fn rewind(
    caller: Caller,
    InThread(thread_id): InThread,
    Body(RewindBody { keep_seq }): Body<RewindBody>,
) -> Result<Response, Fault> {
    let last_seq = langgraph::thread(&caller, thread_id).await?.last_seq;
    if keep_seq > last_seq {
        return Err(Error::from(ThreadError::UnknownEvent { thread_id, seq: keep_seq, last_seq }).into());
    }
    Ok(held(super::in_line(caller, thread_id, move |agent, _, _| async move {
        let Rewound { keep_seq, superseded } = agent.threads().rewind(thread_id, keep_seq).await?;
        Ok(RewoundBody { thread_id, keep_seq, superseded })
    }))
    .await)
}
