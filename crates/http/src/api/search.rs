//! `GET /api/search`: full-text search over messages, summaries, handoffs and stored items. Matching and ranking are
//! done by the `memory` crate.

use agent::{
    AdjacentMessage, IndexBacklog, IndexHitKind, MatchBasis, MeaningComparison, SearchHit, SearchHitSource,
    SearchRequest, SearchResults, Speaker,
};
use axum::Json;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use langgraph::extract::{QueryParams, parse_id};
use langgraph::{ApiError, Caller, ErrorBody};
use protocol::{HandoffId, Seq, SummaryId, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

use super::memory::project_scope;

/// Maximum number of hits in a response.
const HITS_MAX: usize = 200;

/// The result of a search.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchResultBody {
    /// The words that were searched for.
    words: Vec<String>,
    /// The messages of the searched threads that are not indexed yet, so that they were not searched. Each search indexes
    /// more of them, and the server continues in the background.
    not_indexed: IndexBacklogShape,
    /// The way in which meaning was compared.
    meaning: MeaningShape,
    /// The hits, best first.
    hits: Vec<SearchHitShape>,
}

/// The way in which a search compared meaning.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum MeaningShape {
    /// Not at all: no embedding model is configured, or the words are a phrase.
    Off,
    /// With the embeddings of the configured model.
    Compared {
        /// Number of messages in the scope without an embedding, so that only their words were compared; partly estimated.
        missing: u64,
    },
    /// Not at all: the model gave no embedding of the question.
    Unavailable {
        /// The reason.
        reason: String,
    },
}

/// Messages that are not indexed yet.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexBacklogShape {
    /// Number of messages, estimated for threads of which a part is indexed.
    messages: u64,
    /// Number of threads with such messages.
    threads: u64,
}

/// A search hit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SearchHitShape {
    #[serde(flatten)]
    source: SearchSourceShape,
    /// When the source was written or stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The rank of the hit. Scores are comparable only within one response.
    score: f64,
    /// `words` if it has words of the question, or `meaning` if it has none and is close to its meaning.
    matched_by: &'static str,
    /// The best matching passage.
    snippet: String,
}

/// The source of a search hit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SearchSourceShape {
    /// A message.
    Message {
        /// The thread.
        #[schema(value_type = String, format = Uuid)]
        thread_id: ThreadId,
        /// The position of the message in the thread.
        #[schema(value_type = u64)]
        seq: Seq,
        #[serde(flatten)]
        speaker: SpeakerShape,
        /// The message before this one.
        before: Option<AdjacentMessageShape>,
        /// The message after this one.
        after: Option<AdjacentMessageShape>,
    },
    /// A summary of old messages.
    Summary {
        /// The summary.
        #[schema(value_type = String, format = Uuid)]
        summary_id: SummaryId,
        /// The thread of the first summarized message; `null` if the thread was deleted.
        #[schema(value_type = Option<String>, format = Uuid)]
        thread_id: Option<ThreadId>,
        /// The first summarized message.
        first_turn: u64,
        /// The last summarized message.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The handoff.
        #[schema(value_type = String, format = Uuid)]
        handoff_id: HandoffId,
        /// The parent thread.
        #[schema(value_type = String, format = Uuid)]
        parent_thread_id: ThreadId,
        /// The child thread that the handoff creates, if it was accepted.
        #[schema(value_type = String, format = Uuid)]
        child_thread_id: ThreadId,
    },
    /// An item of the store.
    Item {
        /// The namespace of the item.
        namespace: Vec<String>,
        /// The key of the item within its namespace.
        key: String,
    },
}

/// The author of a message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpeakerShape {
    /// `human`, `ai`, `tool` or `harness`.
    speaker: &'static str,
    /// The name of the tool, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
}

/// The message before or after a hit, shortened.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AdjacentMessageShape {
    /// The position of the message in the thread.
    #[schema(value_type = u64)]
    seq: Seq,
    #[serde(flatten)]
    speaker: SpeakerShape,
    /// The text.
    text: String,
}

/// Searches messages, summaries, handoffs and stored items
#[utoipa::path(get, path = "/api/search", tag = "segue", operation_id = "search",
    params(
        ("q" = String, Query, description = "A question in plain words, or single words; words in quotation marks must follow each other"),
        ("kinds" = Option<String>, Query, description = "`message`, `summary`, `handoff` or `item`, separated by commas or as repeated parameters; all except items by default"),
        ("thread_id" = Option<String>, Query, format = Uuid, description = "Only hits of this thread"),
        ("scope" = Option<String>, Query, description = "`project` for hits of the server's project, `everything` for those of all projects; by default what `memory.scope` says, and everything with `thread_id`"),
        ("since" = Option<String>, Query, description = "Only hits that were written or stored at this time or later: a date, or an RFC 3339 time"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 200, description = "Maximum number of hits; 10 by default"),
    ),
    responses((status = 200, body = SearchResultBody), (status = 422, body = ErrorBody, description = "`q` contains no word, or a kind is unknown")))]
pub(crate) async fn search(caller: Caller, params: QueryParams) -> Result<Json<SearchResultBody>, ApiError> {
    let text = params.text("q").filter(|text| text.contains(char::is_alphanumeric));
    let mut request =
        SearchRequest::new(text.ok_or_else(|| ApiError::invalid("`q` contains no word to search for"))?);
    request.kinds = parse_kinds(&params)?;
    request.thread_id = params.text("thread_id").map(|text| parse_id(text, "thread")).transpose()?;
    if request.thread_id.is_none() || params.text("scope").is_some() {
        request.project = project_scope(&caller, &params)?;
    }
    request.since = params.text("since").map(parse_since).transpose()?;
    request.limit = params.number("limit", 1..=HITS_MAX)?.unwrap_or(request.limit);
    if let Some(thread_id) = request.thread_id {
        langgraph::find_thread(&caller, thread_id).await?;
    }
    Ok(Json(caller.agent.memory().search(&request).await?.into()))
}

/// Parses the `kinds` parameter.
fn parse_kinds(params: &QueryParams) -> Result<Vec<IndexHitKind>, ApiError> {
    let names =
        params.all("kinds").flat_map(|text| text.split(',')).map(str::trim).filter(|name| !name.is_empty());
    let kind = |name: &str| match name {
        "message" => Ok(IndexHitKind::Message),
        "summary" => Ok(IndexHitKind::Summary),
        "handoff" => Ok(IndexHitKind::Handoff),
        "item" => Ok(IndexHitKind::Item),
        _ => {
            Err(ApiError::invalid(format!("`kinds`: `{name}` is not one of message, summary, handoff, item")))
        }
    };
    names.map(kind).collect()
}

/// Parses the `since` parameter: a date, which stands for its start in UTC, or an RFC 3339 time.
fn parse_since(text: &str) -> Result<Timestamp, ApiError> {
    let day = || {
        let date: Date = text.parse().ok().filter(|_| text.len() == 10)?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let invalid = || {
        ApiError::invalid(format!(
            "`since`: `{text}` is not a time; use a form such as 2026-03-01 or 2026-03-01T09:30:00Z"
        ))
    };
    text.parse().ok().or_else(day).ok_or_else(invalid)
}

impl From<SearchResults> for SearchResultBody {
    fn from(results: SearchResults) -> Self {
        let IndexBacklog { messages, threads } = results.backlog;
        let hits = results.hits.into_iter().map(SearchHitShape::from).collect();
        let not_indexed = IndexBacklogShape { messages, threads };
        Self { words: results.words, not_indexed, meaning: results.meaning.into(), hits }
    }
}

impl From<MeaningComparison> for MeaningShape {
    fn from(meaning: MeaningComparison) -> Self {
        match meaning {
            MeaningComparison::Off => Self::Off,
            MeaningComparison::Compared { missing } => Self::Compared { missing },
            MeaningComparison::Unavailable { reason } => Self::Unavailable { reason },
        }
    }
}

impl From<SearchHit> for SearchHitShape {
    fn from(hit: SearchHit) -> Self {
        let source = match hit.source {
            SearchHitSource::Message { thread_id, seq, speaker, before, after } => {
                SearchSourceShape::Message {
                    thread_id,
                    seq,
                    speaker: speaker.into(),
                    before: before.map(AdjacentMessageShape::from),
                    after: after.map(AdjacentMessageShape::from),
                }
            }
            SearchHitSource::Summary { summary_id, thread_id, first_turn, last_turn } => {
                SearchSourceShape::Summary { summary_id, thread_id, first_turn, last_turn }
            }
            SearchHitSource::Handoff { handoff_id, parent_thread_id, child_thread_id } => {
                SearchSourceShape::Handoff { handoff_id, parent_thread_id, child_thread_id }
            }
            SearchHitSource::Item { namespace, key } => SearchSourceShape::Item { namespace, key },
        };
        let is_text = |character: &char| !matches!(character, '\u{2}' | '\u{3}');
        let snippet = hit.snippet.chars().filter(is_text).collect();
        let matched_by = match hit.matched_by {
            MatchBasis::Words => "words",
            MatchBasis::Meaning => "meaning",
        };
        Self { source, created_at: hit.at, score: hit.score, matched_by, snippet }
    }
}

impl From<Speaker> for SpeakerShape {
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

impl From<AdjacentMessage> for AdjacentMessageShape {
    fn from(message: AdjacentMessage) -> Self {
        Self { seq: message.seq, speaker: message.speaker.into(), text: message.text }
    }
}
