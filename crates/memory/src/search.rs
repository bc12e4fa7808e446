//! Search by words in all messages, summaries, handoffs and items, of one assistant or of all. Recall within one
//! conversation is the task of [`crate::recall()`].

mod dates;
mod search_match;

use jiff::Timestamp;
use journal::{IndexHitKind, PAGE_ROWS_MAX, SearchQuery, Store, WordMatchMode};
use protocol::{AssistantId, HandoffId, Seq, SummaryId, ThreadId};

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
    /// Restricts the search to entries made at this time or later.
    pub since: Option<Timestamp>,
    /// The most hits to return, 1 to [`journal::PAGE_ROWS_MAX`].
    pub limit: usize,
}

impl SearchRequest {
    /// Returns a request for the ten best hits of everything.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kinds: Vec::new(),
            thread_id: None,
            assistant_id: None,
            since: None,
            limit: DEFAULT_LIMIT,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// The best first, and of several about the same thing the newest.
    pub hits: Vec<SearchHit>,
    /// The words of the request that were searched for.
    pub words: Vec<String>,
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
        /// The thread of its first turn; `None` when that was deleted.
        thread_id: Option<ThreadId>,
        /// The lowest index of its turns.
        first_turn: u64,
        /// The highest index of its turns.
        last_turn: u64,
    },
    /// A handoff.
    Handoff {
        /// The handoff.
        handoff_id: HandoffId,
        /// The thread it came from.
        parent_thread_id: ThreadId,
        /// The thread it seeded, or would have.
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
pub async fn search(store: &dyn Store, request: &SearchRequest) -> Result<SearchResults, RecallError> {
    let (words, read) = best_matches(store, request).await?;
    let mut hits = Vec::with_capacity(read.len());
    for one in &read {
        hits.push(one.to_search_hit(store).await?);
    }
    Ok(SearchResults { hits, words })
}

/// Returns the words that were looked for, and what says most about them in the order of [`search`].
pub(crate) async fn best_matches(
    store: &dyn Store,
    request: &SearchRequest,
) -> Result<(Vec<String>, Vec<SearchMatch>), RecallError> {
    if !(1..=PAGE_ROWS_MAX).contains(&request.limit) {
        return Err(RecallError::BadLimit { limit: request.limit });
    }
    let (words, require) = parse_search_text(&request.text);
    if words.is_empty() {
        return Err(RecallError::NoWords);
    }
    let considered = request.limit.max(CANDIDATES_MIN);
    let query = SearchQuery {
        scope: None,
        words: words.clone(),
        match_mode: require,
        kinds: request.kinds.clone(),
        thread_id: request.thread_id,
        assistant_id: request.assistant_id.clone(),
        since: request.since,
        dates: dates::parse_dates(&request.text),
        limit: considered.saturating_mul(CANDIDATE_FACTOR).min(PAGE_ROWS_MAX),
    };
    let (read, weights) = read_candidates(store, query, considered).await?;
    let order = rank_order(&read, &weights);
    let mut read: Vec<Option<SearchMatch>> = read.into_iter().map(Some).collect();
    let best = order.into_iter().take(request.limit).filter_map(|place| read[place].take()).collect();
    Ok((words, best))
}

/// Returns so many of the best matches, if there are, without answers of recalls.
async fn read_candidates(
    store: &dyn Store,
    mut query: SearchQuery,
    considered: usize,
) -> Result<(Vec<SearchMatch>, WordWeights), RecallError> {
    loop {
        let limit = query.limit;
        let candidates = store.search(query.clone()).await?;
        let weights =
            WordWeights::from_matches(&candidates.iter().map(|one| one.matched_words).collect::<Vec<_>>());
        let is_all = candidates.len() < limit || limit == PAGE_ROWS_MAX;
        let mut read = Vec::new();
        for candidate in candidates {
            if read.len() == considered {
                break;
            }
            read.extend(SearchMatch::read(store, candidate).await?);
        }
        if is_all || read.len() == considered {
            return Ok((read, weights));
        }
        query.limit = PAGE_ROWS_MAX;
    }
}

/// Returns what to look for: a text in quotation marks as it stands there, and any of the telling words of another.
fn parse_search_text(text: &str) -> (Vec<String>, WordMatchMode) {
    let quoted = text.trim().strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::trim);
    match quoted.filter(|quoted| quoted.contains(char::is_alphanumeric) && !quoted.contains('"')) {
        Some(quoted) => (vec![quoted.to_owned()], WordMatchMode::All),
        None => (query_words::parse_query_words(text), WordMatchMode::Any),
    }
}

/// Returns the places in the order in which they are to be read. Of each kind the newest of several about the same thing
/// comes first; a summary is no newer than what it was made from by being stored later.
fn rank_order(read: &[SearchMatch], weights: &WordWeights) -> Vec<usize> {
    let mut order: Vec<usize> = (0..read.len()).collect();
    for kind in [IndexHitKind::Message, IndexHitKind::Summary, IndexHitKind::Handoff, IndexHitKind::Item] {
        let ranks: Vec<usize> = (0..read.len()).filter(|at| read[*at].kind() == kind).collect();
        let matches: Vec<_> = ranks.iter().map(|at| read[*at].ranked_match()).collect();
        for (rank, newest) in ranks.iter().zip(rank_newest_first(&matches, weights)) {
            order[*rank] = ranks[newest];
        }
    }
    order
}
