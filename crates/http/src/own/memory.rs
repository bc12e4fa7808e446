//! What outlives a context, over HTTP: how much is remembered, `agent.md`, the summaries of old turns, and keeping a
//! sentence. The part of `agent.md` that is Segue's own is nobody else's to change.

use agent::{AgentMd, Extent, MemoryStats, Rewritten, StoredSummary};
use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use jiff::Timestamp;
use langgraph::extract::{Body, Params};
use langgraph::{Caller, Envelope, Fault};
use protocol::{SummaryId, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Summaries of a list when nobody says how many.
const SUMMARIES: usize = 20;
/// Summaries of a list, at most.
const SUMMARIES_MAX: usize = 1_000;

/// How much an assistant remembers, tier by tier.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsBody {
    /// What every conversation begins with.
    agent_md: FileShape,
    /// What was said in plain words.
    turns: TurnsShape,
    /// Summaries of old turns.
    summaries: u64,
    /// Items in the store.
    items: u64,
    /// Threads with turns that wait for a summary.
    due: u64,
}

/// The size of agent.md.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileShape {
    /// Whether it is there.
    exists: bool,
    /// Its bytes.
    bytes: u64,
    /// The most bytes that may be noted in it.
    bytes_max: u64,
    /// Why it cannot be read, if it cannot.
    problem: Option<String>,
}

/// Turns, by what became of them.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnsShape {
    /// In the context of their thread, or in reach of it.
    active: u64,
    /// A summary stands for them.
    summarised: u64,
    /// They were taken back.
    withdrawn: u64,
}

impl From<MemoryStats> for StatsBody {
    fn from(stats: MemoryStats) -> Self {
        let (file, turns) = (stats.agent_md, stats.turns);
        Self {
            agent_md: FileShape {
                exists: file.exists,
                bytes: file.bytes,
                bytes_max: file.bytes_max,
                problem: file.problem,
            },
            turns: TurnsShape {
                active: turns.active,
                summarised: turns.summarised,
                withdrawn: turns.withdrawn,
            },
            summaries: stats.summaries,
            items: stats.items,
            due: stats.due,
        }
    }
}

/// Returns how much is remembered, tier by tier
#[utoipa::path(get, path = "/api/memory", tag = "segue", operation_id = "memory_stats",
    responses((status = 200, body = StatsBody)))]
pub(crate) async fn stats(caller: Caller) -> Result<Json<StatsBody>, Fault> {
    Ok(Json(caller.agent.memory().stats().await?.into()))
}

/// agent.md: what every conversation of the assistant begins with.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentMdBody {
    /// The text; empty where there is no file.
    text: String,
    /// SHA-256 of the file, in hex: name it when you change the text.
    sha256: String,
    /// What is between `<current_thread_summary>` and `</current_thread_summary>`, which Segue keeps; `null` without them.
    block: Option<String>,
    /// Whether the file goes on after the text.
    is_cut: bool,
}

impl From<&AgentMd> for AgentMdBody {
    fn from(read: &AgentMd) -> Self {
        Self {
            text: String::from_utf8_lossy(&read.bytes).into_owned(),
            sha256: read.sha256.clone(),
            block: read.block.clone(),
            is_cut: read.extent == Extent::Beginning,
        }
    }
}

/// Returns agent.md
#[utoipa::path(get, path = "/api/memory/agent_md", tag = "segue", operation_id = "get_agent_md",
    responses((status = 200, body = AgentMdBody)))]
pub(crate) async fn show(caller: Caller) -> Result<Json<AgentMdBody>, Fault> {
    let read = caller.agent.memory().agent_md()?;
    Ok(Json(AgentMdBody::from(&*read)))
}

/// Another text for agent.md.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EditedAgentMd {
    /// The whole text. What is between `<current_thread_summary>` and `</current_thread_summary>` must be as it was.
    text: String,
    /// The `sha256` of the text it was made from; the header `If-Match` may have it instead.
    sha256: Option<String>,
}

/// Puts another text in the place of agent.md, made from the one that is there
#[utoipa::path(put, path = "/api/memory/agent_md", tag = "segue", operation_id = "put_agent_md",
    params(("if-match" = Option<String>, Header, description = "The `sha256` of the text it was made from")),
    request_body = EditedAgentMd,
    responses((status = 200, body = AgentMdBody),
        (status = 409, body = Envelope, description = "It is another text by now"),
        (status = 422, body = Envelope, description = "No hash, a change in Segue's own part, a secret, or too large")))]
pub(crate) async fn edit(
    caller: Caller,
    headers: HeaderMap,
    Body(edited): Body<EditedAgentMd>,
) -> Result<Json<AgentMdBody>, Fault> {
    let tag = headers.get(IF_MATCH).and_then(|value| value.to_str().ok());
    let tag = tag.map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
    let made_from = edited.sha256.or(tag);
    let made_from = made_from.ok_or_else(|| Fault::invalid("`sha256`: name the text it was made from"))?;
    let shown = caller.agent.memory().agent_md()?;
    if shown.sha256 != made_from {
        return Err(outrun());
    }
    if shown.extent == Extent::Beginning {
        return Err(Fault::invalid("agent.md is too large to be changed here"));
    }
    match caller.agent.memory().edit_agent_md(shown.bytes.clone(), edited.text.into_bytes()).await? {
        Rewritten::Done | Rewritten::Unchanged => show(caller).await,
        Rewritten::InBlock => Err(Fault::invalid(
            "`text`: what is between <current_thread_summary> and </current_thread_summary> is Segue's own, and must stay",
        )),
        Rewritten::Outrun => Err(outrun()),
        Rewritten::Secrets { count } => {
            let many = if count == 1 { "a secret".to_owned() } else { format!("{count} secrets") };
            Err(Fault::invalid(format!("`text`: it holds what looks like {many}, and was not kept")))
        }
    }
}

fn outrun() -> Fault {
    Fault::conflict("agent.md is another text by now").with_hint("read it again and make the change in that")
}

/// Summaries of old turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SummariesBody {
    /// The summaries, newest first.
    summaries: Vec<SummaryShape>,
}

/// A summary of old turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SummaryShape {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    id: SummaryId,
    /// The assistant's name.
    agent_id: String,
    /// The text.
    summary_text: String,
    /// The first turn it stands for.
    turn_range_start: u64,
    /// The last one.
    turn_range_end: u64,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The thread of its first turn; `null` when that was deleted.
    #[schema(value_type = Option<String>, format = Uuid)]
    thread_id: Option<ThreadId>,
    /// How many turns it stands for.
    turns: u64,
}

impl From<StoredSummary> for SummaryShape {
    fn from(StoredSummary { summary, thread_id, turns }: StoredSummary) -> Self {
        Self {
            id: summary.id,
            agent_id: summary.agent_id.name().to_owned(),
            summary_text: summary.summary_text,
            turn_range_start: summary.turn_range_start,
            turn_range_end: summary.turn_range_end,
            created_at: summary.created_at,
            thread_id,
            turns,
        }
    }
}

/// Returns the newest summaries of old turns
#[utoipa::path(get, path = "/api/memory/summaries", tag = "segue", operation_id = "memory_summaries",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "The most summaries; 20 unless given")),
    responses((status = 200, body = SummariesBody), (status = 422, body = Envelope)))]
pub(crate) async fn summaries(caller: Caller, params: Params) -> Result<Json<SummariesBody>, Fault> {
    let limit = params.number("limit", 1..=SUMMARIES_MAX)?.unwrap_or(SUMMARIES);
    let found = caller.agent.memory().recent_summaries(limit).await?;
    Ok(Json(SummariesBody { summaries: found.into_iter().map(SummaryShape::from).collect() }))
}

/// What is to be remembered.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RememberBody {
    /// A sentence or two.
    text: String,
}

/// What was remembered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RememberedBody {
    /// The line in agent.md.
    line: String,
    /// Whether it was there already.
    was_known: bool,
    /// Secrets that were kept out of it.
    withheld: u64,
    /// Bytes of the file.
    bytes: u64,
    /// Bytes it may have.
    bytes_max: u64,
}

/// Keeps a sentence in agent.md, outside Segue's own part; secrets are kept out
#[utoipa::path(post, path = "/api/memory/remember", tag = "segue", operation_id = "remember",
    request_body = RememberBody,
    responses((status = 200, body = RememberedBody), (status = 422, body = Envelope, description = "Nothing to remember, or too much")))]
pub(crate) async fn remember(
    caller: Caller,
    Body(RememberBody { text }): Body<RememberBody>,
) -> Result<Json<RememberedBody>, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::invalid("`text` has no words"));
    }
    let kept = caller.agent.memory().remember(text.trim()).await?;
    Ok(Json(RememberedBody {
        line: kept.line,
        was_known: kept.was_known,
        withheld: kept.withheld,
        bytes: kept.bytes,
        bytes_max: kept.bytes_max,
    }))
}
