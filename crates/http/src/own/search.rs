//! `GET /api/search`: what was ever said, summarised, handed off or kept, found again by words. What is found, and in
//! which order, is decided by the `memory` room.

use agent::{Beside, Found, FoundKind, SearchHit, SearchRequest, SearchResults, Speaker};
use axum::Json;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use langgraph::extract::{Params, id};
use langgraph::{Caller, Envelope, Fault};
use protocol::{HandoffId, Seq, SummaryId, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

/// Hits of an answer, at most.
const HITS_MAX: usize = 200;

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchBody {
    /// The words that were looked for.
    words: Vec<String>,
    /// What was found, best first.
    hits: Vec<HitShape>,
}

/// Something found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HitShape {
    #[serde(flatten)]
    place: PlaceShape,
    /// When it was said or stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// How well it matches; it compares hits of one answer and means nothing beside another.
    score: f64,
    /// The passage that says most.
    snippet: String,
}

/// Where something was found.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum PlaceShape {
    /// A message.
    Message {
        /// The thread.
        #[schema(value_type = String, format = Uuid)]
        thread_id: ThreadId,
        /// The message's place in it.
        #[schema(value_type = u64)]
        seq: Seq,
        #[serde(flatten)]
        by: ByShape,
        /// What was said right before.
        before: Option<BesideShape>,
        /// What was said right after.
        after: Option<BesideShape>,
    },
    /// A summary of old turns.
    Summary {
        /// The summary.
        #[schema(value_type = String, format = Uuid)]
        summary_id: SummaryId,
        /// The thread of its first turn; `null` when that was deleted.
        #[schema(value_type = Option<String>, format = Uuid)]
        thread_id: Option<ThreadId>,
        /// Its first turn.
        first_turn: u64,
        /// Its last turn.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The handoff.
        #[schema(value_type = String, format = Uuid)]
        handoff_id: HandoffId,
        /// The thread it came from.
        #[schema(value_type = String, format = Uuid)]
        parent_thread_id: ThreadId,
        /// The thread it seeded, if it was accepted.
        #[schema(value_type = String, format = Uuid)]
        child_thread_id: ThreadId,
    },
    /// An item of the store.
    Item {
        /// Where it is.
        namespace: Vec<String>,
        /// Its name there.
        key: String,
    },
}

/// Who said something.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ByShape {
    /// `human`, `ai`, `tool` or `harness`.
    speaker: &'static str,
    /// The tool, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
}

/// What was said right before or after a message found, shortened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BesideShape {
    /// Its place in the thread.
    #[schema(value_type = u64)]
    seq: Seq,
    #[serde(flatten)]
    by: ByShape,
    /// The text.
    text: String,
}

/// Finds what was said, summarised, handed off or kept
#[utoipa::path(get, path = "/api/search", tag = "segue", operation_id = "search",
    params(
        ("q" = String, Query, description = "A question in plain words, or words; in quotation marks, words that follow each other"),
        ("kinds" = Option<String>, Query, description = "`message`, `summary`, `handoff` or `item`, separated by commas or given several times; without it everything but items"),
        ("thread_id" = Option<String>, Query, format = Uuid, description = "Only what belongs to this thread"),
        ("since" = Option<String>, Query, description = "Only what was said or stored then or later: a date, or a time as RFC 3339 has it"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "The most hits; 10 unless given"),
    ),
    responses((status = 200, body = SearchBody), (status = 422, body = Envelope, description = "No word to look for, or no such kind")))]
pub(crate) async fn search(caller: Caller, params: Params) -> Result<Json<SearchBody>, Fault> {
    let text = params.text("q").filter(|text| text.contains(char::is_alphanumeric));
    let mut request = SearchRequest::of(text.ok_or_else(|| Fault::invalid("`q` has no word to look for"))?);
    request.kinds = kinds(&params)?;
    request.thread_id = params.text("thread_id").map(|text| id(text, "thread")).transpose()?;
    request.since = params.text("since").map(since).transpose()?;
    request.limit = params.number("limit", 1..=HITS_MAX)?.unwrap_or(request.limit);
    if let Some(thread_id) = request.thread_id {
        langgraph::thread(&caller, thread_id).await?;
    }
    Ok(Json(caller.agent.memory().search(&request).await?.into()))
}

fn kinds(params: &Params) -> Result<Vec<FoundKind>, Fault> {
    let names =
        params.all("kinds").flat_map(|text| text.split(',')).map(str::trim).filter(|name| !name.is_empty());
    let kind = |name: &str| match name {
        "message" => Ok(FoundKind::Message),
        "summary" => Ok(FoundKind::Summary),
        "handoff" => Ok(FoundKind::Handoff),
        "item" => Ok(FoundKind::Item),
        _ => Err(Fault::invalid(format!("`kinds`: `{name}` is none of message, summary, handoff, item"))),
    };
    names.map(kind).collect()
}

fn since(text: &str) -> Result<Timestamp, Fault> {
    let day = || {
        let date: Date = text.parse().ok().filter(|_| text.len() == 10)?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let wrong =
        || Fault::invalid(format!("`since`: `{text}` is no time; write 2026-03-01 or 2026-03-01T09:30:00Z"));
    text.parse().ok().or_else(day).ok_or_else(wrong)
}

impl From<SearchResults> for SearchBody {
    fn from(found: SearchResults) -> Self {
        Self { words: found.words, hits: found.hits.into_iter().map(HitShape::from).collect() }
    }
}

impl From<SearchHit> for HitShape {
    fn from(hit: SearchHit) -> Self {
        let place = match hit.found {
            Found::Message { thread_id, seq, speaker, before, after } => PlaceShape::Message {
                thread_id,
                seq,
                by: speaker.into(),
                before: before.map(BesideShape::from),
                after: after.map(BesideShape::from),
            },
            Found::Summary { summary_id, thread_id, first_turn, last_turn } => {
                PlaceShape::Summary { summary_id, thread_id, first_turn, last_turn }
            }
            Found::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
                PlaceShape::Handoff { handoff_id, parent_thread_id, child_thread_id }
            }
            Found::Item { namespace, key } => PlaceShape::Item { namespace, key },
        };
        let is_mark = |character: &char| !matches!(character, '\u{2}' | '\u{3}');
        let snippet = hit.snippet.chars().filter(is_mark).collect();
        Self { place, created_at: hit.at, score: hit.score, snippet }
    }
}

impl From<Speaker> for ByShape {
    fn from(speaker: Speaker) -> Self {
        let (speaker, tool) = match speaker {
            Speaker::User => ("human", None),
            Speaker::Assistant => ("ai", None),
            Speaker::Tool(name) => ("tool", name),
            Speaker::Harness => ("harness", None),
        };
        Self { speaker, tool }
    }
}

impl From<Beside> for BesideShape {
    fn from(beside: Beside) -> Self {
        Self { seq: beside.seq, by: beside.speaker.into(), text: beside.text }
    }
}
