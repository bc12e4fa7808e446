//! Search by words in all messages, summaries, handoffs and items, of one assistant or of all. Recall within one
//! conversation is the task of [`crate::recall()`].
//!
//! The journal's index matches and scores; see `journal::Store::search`. This module parses the text of a request,
//! reads the candidates and orders them by `recall::ranking`.

pub(crate) mod dates;
pub(crate) mod embeddings;
mod search_match;

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{
    IndexAnswer, IndexBacklog, IndexHitKind, MeaningComparison, PAGE_ROWS_MAX, ProjectScope, SearchQuery,
    SearchUnit, Store, WordMatchMode,
};
use protocol::{AssistantId, HandoffId, Seq, SummaryId, ThreadId};
use serde::Serialize;

use crate::recall::query_words;
use crate::recall::ranking::{WordWeights, rank_newest_first};
use crate::{RecallError, Speaker};

pub(crate) use search_match::SearchMatch;

/// Default number of hits.
const DEFAULT_LIMIT: usize = 10;
/// Minimum number of candidates to rank. A shorter answer is cut from these.
const CANDIDATES_MIN: usize = 20;
/// Number of candidates read for each requested hit, because some only repeat recalled text.
const CANDIDATE_FACTOR: usize = 2;

/// Minimum score of a newer statement about the same thing, as a share of the older one's; see [`rank_newest_first`].
/// A lower share finds less: 80.6 % of LoCoMo's evidence with 0.2, and 81.2 % with 0.5.
const REVISION_SCORE_SHARE: f64 = 0.5;

/// A search request. Every set field must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// Words, or a question in plain words; in quotation marks, words that follow each other as they do there.
    pub text: String,
    /// The kinds to search; empty means all except items.
    pub kinds: Vec<IndexHitKind>,
    /// Restricts the search to this thread.
    pub thread_id: Option<ThreadId>,
    /// Restricts the search to this assistant. Of items, only those that the assistant keeps itself match; items
    /// of clients belong to no assistant.
    pub assistant_id: Option<AssistantId>,
    /// The projects that are searched.
    pub project: ProjectScope,
    /// Restricts the search to entries made at this time or later.
    pub since: Option<Timestamp>,
    /// The unit of a hit: a message, or a message with the messages before and after it.
    pub unit: SearchUnit,
    /// The most hits to return, 1 to [`journal::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl SearchRequest {
    /// Returns a request for the ten best hits of everything, in all projects.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kinds: Vec::new(),
            thread_id: None,
            assistant_id: None,
            project: ProjectScope::Any,
            since: None,
            unit: SearchUnit::Message,
            limit: DEFAULT_LIMIT,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// The hits, best first. Among hits of one kind about the same thing, the newest comes first.
    pub hits: Vec<SearchHit>,
    /// The words of the request that were searched for.
    pub words: Vec<String>,
    /// The messages of the searched threads that are not indexed yet, so that they were not searched.
    pub backlog: IndexBacklog,
    /// The way in which meaning was compared.
    pub meaning: MeaningComparison,
}

/// The best matches of a request.
pub(crate) struct BestMatches {
    /// The words that were searched for.
    pub(crate) words: Vec<String>,
    /// The matches, in the order of [`search`].
    pub(crate) matches: Vec<SearchMatch>,
    /// The messages that were not searched.
    pub(crate) backlog: IndexBacklog,
    /// The way in which meaning was compared.
    pub(crate) meaning: MeaningComparison,
}

/// A search hit.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The message, summary, handoff or item.
    pub source: SearchHitSource,
    /// Time at which it was written or stored.
    pub at: Timestamp,
    /// The best passage, with matching words between `\u{2}` and `\u{3}`.
    ///
    /// Secrets are not redacted, because people searching their own journal expect the original text. Show it to
    /// people only, never to a model. The text is untrusted: escape it for terminals.
    pub snippet: String,
    /// The score, above 0. Only comparable with other hits of the same answer.
    pub score: f64,
    /// The reason why it was found.
    pub matched_by: MatchBasis,
}

/// The reason why a hit was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchBasis {
    /// It has words of the question.
    Words,
    /// It has none of them, but is close to the meaning of the question.
    Meaning,
}

/// The kind and location of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchHitSource {
    /// A message.
    Message {
        /// The thread.
        thread_id: ThreadId,
        /// The message's seq in the thread.
        seq: Seq,
        /// The author of the message.
        speaker: Speaker,
        /// The previous message.
        before: Option<AdjacentMessage>,
        /// The next message.
        after: Option<AdjacentMessage>,
    },
    /// A summary of medium-term memory.
    Summary {
        /// The summary.
        summary_id: SummaryId,
        /// The thread of its first message; `None` if that thread was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index (`turn_index`) of its messages.
        first_turn: u64,
        /// The highest index of its messages.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The thread that was handed off.
        parent_thread_id: ThreadId,
        /// The thread that the handoff seeded. If the handoff was not accepted, this thread does not exist.
        child_thread_id: ThreadId,
    },
    /// An item of the store.
    Item {
        /// The labels of the item's namespace.
        namespace: Vec<String>,
        /// The item's key in the namespace.
        key: String,
    },
}

/// The message before or after a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdjacentMessage {
    /// Its seq in the thread.
    pub seq: Seq,
    /// Its author.
    pub speaker: Speaker,
    /// The text, shortened and with secrets redacted. It is untrusted, like a snippet.
    pub text: String,
}

/// Returns the best matches of the request's words. Of several messages about the same thing, the newest comes
/// first.
///
/// A message copied by a fork appears once. Answers of recalls and superseded messages never appear.
///
/// # Errors
/// When the limit is zero or too high, the text has no word to search for, or the journal fails.
pub fn search<'a>(
    store: &'a dyn Store,
    request: &'a SearchRequest,
) -> BoxFuture<'a, Result<SearchResults, RecallError>> {
    journal::box_future(async move {
        let BestMatches { words, matches, backlog, meaning } = best_matches(store, request).await?;
        let mut hits = Vec::with_capacity(matches.len());
        for search_match in &matches {
            hits.push(search_match.to_search_hit(store).await?);
        }
        Ok(SearchResults { hits, words, backlog, meaning })
    })
}

/// Returns the best matches of a request.
///
/// # Errors
/// The errors of [`search`].
pub(crate) async fn best_matches(
    store: &dyn Store,
    request: &SearchRequest,
) -> Result<BestMatches, RecallError> {
    if !(1..=PAGE_ROWS_MAX).contains(&request.limit) {
        return Err(RecallError::BadLimit { limit: request.limit });
    }
    let (words, match_mode) = parse_search_text(&request.text);
    if words.is_empty() {
        return Err(RecallError::NoWords);
    }
    let considered = request.limit.max(CANDIDATES_MIN);
    let query = SearchQuery {
        scope: None,
        words: words.clone(),
        match_mode,
        kinds: request.kinds.clone(),
        thread_id: request.thread_id,
        assistant_id: request.assistant_id.clone(),
        project: request.project.clone(),
        since: request.since,
        dates: dates::parse_dates(&request.text),
        question: request.text.clone(),
        unit: request.unit,
        limit: considered.saturating_mul(CANDIDATE_FACTOR).min(PAGE_ROWS_MAX),
    };
    let Candidates { matches: read, weights, backlog, meaning } =
        read_candidates(store, query, considered).await?;
    let order = rank_order(&read, &weights);
    let mut read: Vec<Option<SearchMatch>> = read.into_iter().map(Some).collect();
    let matches = order.into_iter().take(request.limit).filter_map(|index| read[index].take()).collect();
    Ok(BestMatches { words, matches, backlog, meaning })
}

/// Matches in the order of the index.
struct Candidates {
    /// The matches.
    matches: Vec<SearchMatch>,
    /// The weights of the words, by all candidates of the index.
    weights: WordWeights,
    /// The messages that were not searched.
    backlog: IndexBacklog,
    /// The way in which meaning was compared.
    meaning: MeaningComparison,
}

/// Reads the best `considered` matches, or all when there are fewer, and weighs the words by all candidates.
///
/// Answers of recalls are skipped when they are read. If too few matches remain, the query is repeated once with the
/// largest possible limit.
async fn read_candidates(
    store: &dyn Store,
    mut query: SearchQuery,
    considered: usize,
) -> Result<Candidates, RecallError> {
    loop {
        let limit = query.limit;
        let IndexAnswer { hits: candidates, backlog, meaning } = store.search(query.clone()).await?;
        let weights =
            WordWeights::from_matches(&candidates.iter().map(|hit| hit.matched_words).collect::<Vec<_>>());
        let is_all = candidates.len() < limit || limit == PAGE_ROWS_MAX;
        let mut read = Vec::new();
        for candidate in candidates {
            if read.len() == considered {
                break;
            }
            read.extend(SearchMatch::read(store, candidate).await?);
        }
        if is_all || read.len() == considered {
            return Ok(Candidates { matches: read, weights, backlog, meaning });
        }
        query.limit = PAGE_ROWS_MAX;
    }
}

/// Returns the words to search for and how many of them a hit needs. A text in quotation marks is one phrase that
/// must occur as given; of any other text, any content word is enough.
fn parse_search_text(text: &str) -> (Vec<String>, WordMatchMode) {
    let quoted = text.trim().strip_prefix('"').and_then(|tail| tail.strip_suffix('"')).map(str::trim);
    match quoted.filter(|quoted| quoted.contains(char::is_alphanumeric) && !quoted.contains('"')) {
        Some(quoted) => (vec![quoted.to_owned()], WordMatchMode::All),
        None => (query_words::parse_query_words(text), WordMatchMode::Any),
    }
}

/// Returns the indexes of the matches in their final order. Among matches of one kind about the same thing, the
/// newest comes first. Recency is not compared between kinds: a summary is stored after the messages it was made
/// from, but is not newer information.
fn rank_order(read: &[SearchMatch], weights: &WordWeights) -> Vec<usize> {
    let mut order: Vec<usize> = (0..read.len()).collect();
    for kind in [IndexHitKind::Message, IndexHitKind::Summary, IndexHitKind::Handoff, IndexHitKind::Item] {
        let ranks: Vec<usize> = (0..read.len()).filter(|index| read[*index].kind() == kind).collect();
        let matches: Vec<_> = ranks.iter().map(|index| read[*index].ranked_match()).collect();
        for (rank, newest) in ranks.iter().zip(rank_newest_first(&matches, weights, REVISION_SCORE_SHARE)) {
            order[*rank] = ranks[newest];
        }
    }
    order
}
