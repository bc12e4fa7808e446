//! Search: what an assistant, or everybody, ever said, summarised and handed off, found again by words. What a thread
//! itself came from is `recall`'s matter.

mod dates;
mod search_match;

use jiff::Timestamp;
use journal::{IndexHitKind, PAGE_ROWS_MAX, SearchQuery, Store, WordMatchMode};
use protocol::{AssistantId, HandoffId, Seq, SummaryId, ThreadId};

use crate::recall::query_words;
use crate::recall::ranking::{WordWeights, rank_newest_first};
use crate::{RecallError, Speaker};

pub(crate) use search_match::SearchMatch;

/// Hits when nobody says how many.
const DEFAULT_LIMIT: usize = 10;
/// The best matches of which the newest about the same thing come first; a shorter answer is cut from these.
const CANDIDATES_MIN: usize = 20;
/// So many times as many are asked for, because some only repeat what was recalled.
const CANDIDATE_FACTOR: usize = 2;

/// What is to be found; every set field must match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchRequest {
    /// Words, or a question in plain words; in quotation marks, words that follow each other as they do there.
    pub text: String,
    /// What is looked for; empty means everything but items.
    pub kinds: Vec<IndexHitKind>,
    /// Only what belongs to this thread.
    pub thread_id: Option<ThreadId>,
    /// Only what belongs to this assistant. Of items, that is what it keeps itself; what others keep belongs to nobody.
    pub assistant_id: Option<AssistantId>,
    /// Only what was said or stored at this time or later.
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

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResults {
    /// The best first, and of several about the same thing the newest.
    pub hits: Vec<SearchHit>,
    /// The words of the request that were looked for.
    pub words: Vec<String>,
}

/// Something found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// What.
    pub source: SearchHitSource,
    /// When it was said or stored.
    pub at: Timestamp,
    /// The passage that says most about the words, which stand between `\u{2}` and `\u{3}`. It is as it was said, with any
    /// secret in it: who searches their own journal finds what is there. It is for people alone, never for a model, and
    /// foreign: not inert, and not for a terminal as it is.
    pub snippet: String,
    /// How well it matches, above 0. It compares hits of one answer and means nothing beside another.
    pub score: f64,
}

/// What was found, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchHitSource {
    /// A message.
    Message {
        /// The thread.
        thread_id: ThreadId,
        /// The message's place in it.
        seq: Seq,
        /// Who said it.
        speaker: Speaker,
        /// What was said right before.
        before: Option<AdjacentMessage>,
        /// What was said right after.
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

/// What was said right before or after a message found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdjacentMessage {
    /// Its place in the thread.
    pub seq: Seq,
    /// Who said it.
    pub speaker: Speaker,
    /// The text, without secrets, shortened. It is foreign, as a snippet is.
    pub text: String,
}

/// Returns what says most about the words of the request: the best first, but of several messages about the same thing
/// the newest. A message that a fork copied is found once, the answers of recalls never, and superseded messages neither.
///
/// # Errors
/// When the limit is none or too high, there is no word to look for, or the journal fails.
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
