//! Recall in the scope of a project or of everything: searches the original messages of an assistant's threads, its
//! summaries and its handoffs. Matching and ranking are the task of [`crate::search`].

use journal::{HitLocation, IndexHitKind, ProjectScope, Store, ThreadPrefix};
use protocol::{OwnerScope, ParentKind, Seq, Thread, ThreadId};

use super::collect::{MATCH_CHARS_MAX, RecallCollector};
use super::lineage::LINEAGE_THREADS_MAX;
use super::messages;
use super::passage::QueryWordFinder;
use super::{NoteSource, RecallError, RecallNote, RecallQuery, RecallResult, RecallScope, Remaining};
use crate::search::{BestMatches, SearchMatch, SearchRequest, best_matches};

/// Maximum number of summaries and handoffs in an answer.
const NOTES_MAX: usize = 3;
/// Divisor of an answer's token limit: summaries and handoffs together get a quarter of it, because original messages
/// are more exact.
const NOTES_DIVISOR: u64 = 4;

/// Returns the best matches of the words of `text` among what the assistant of `thread_id` has in the scope of the query.
///
/// # Errors
/// When `thread_id` is a sub-agent's thread, when the query names a thread that the assistant does not have, when the
/// text has no word, and when the journal fails.
pub(super) async fn recall_from_assistant(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
    text: &str,
) -> Result<RecallResult, RecallError> {
    let requesting = requesting_thread(store, thread_id).await?;
    let of_thread = match &query.thread {
        Some(prefix) => Some(find_thread(store, &requesting, prefix, query.scope).await?),
        None => None,
    };
    let project = match query.scope {
        RecallScope::Everything => ProjectScope::Any,
        RecallScope::Project | RecallScope::Conversation => ProjectScope::of(requesting.project.as_deref()),
    };
    let request = |kinds: Vec<IndexHitKind>, limit: usize| SearchRequest {
        kinds,
        limit,
        thread_id: of_thread,
        assistant_id: Some(requesting.assistant_id.clone()),
        project: project.clone(),
        ..SearchRequest::new(text)
    };
    // Twice as many as are shown, because the visible ones are removed.
    let BestMatches { words, matches: message_matches, backlog, meaning } =
        best_matches(store, &request(vec![IndexHitKind::Message], query.matches_max * 2)).await?;
    let note_kinds = vec![IndexHitKind::Summary, IndexHitKind::Handoff];
    let notes = best_matches(store, &request(note_kinds, NOTES_MAX)).await?.matches;
    let mut locations: Vec<(ThreadId, Seq)> = Vec::new();
    for message in &message_matches {
        if let HitLocation::Message { thread_id: match_thread_id, seq, .. } = *message.location()
            && !is_visible(store, thread_id, query, match_thread_id, seq).await?
        {
            locations.push((match_thread_id, seq));
        }
    }
    let mut threads: Vec<ThreadId> = Vec::new();
    for (match_thread_id, _) in &locations {
        if !threads.contains(match_thread_id) {
            threads.push(*match_thread_id);
        }
    }
    let finder = QueryWordFinder::new(&words);
    let notes = notes.iter().filter_map(|note| to_note(note, &finder)).collect();
    let parts =
        threads.iter().map(|thread_id| ThreadPrefix { thread_id: *thread_id, before: None }).collect();
    let mut collector = RecallCollector::for_assistant(store, parts, query.tokens_max);
    // Notes are placed first, because their share of the budget is limited and messages may use all that remains.
    let notes = collector.place_notes(notes, query.tokens_max / NOTES_DIVISOR);
    let skipped = locations.len().saturating_sub(query.matches_max);
    locations.truncate(query.matches_max);
    let (excerpts, hidden) = collector.collect_at(&locations, &finder).await?;
    let remaining = Remaining::Messages((skipped + hidden) as u64);
    Ok(RecallResult {
        scope: query.scope,
        threads,
        excerpts,
        notes,
        remaining,
        damaged: collector.damaged,
        backlog,
        meaning,
        resume_at: None,
        departed_at: None,
    })
}

/// Returns whether the requesting thread already sees the message `seq` of `match_thread_id`.
///
/// The index returns a copied message in the thread where it was written, so a match in another thread may be one
/// that a fork copied. A copy has the same seq and the same event id as its original.
async fn is_visible(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
    match_thread_id: ThreadId,
    seq: Seq,
) -> Result<bool, RecallError> {
    let is_within =
        query.visible_from.is_some_and(|before| seq >= before) || query.visible_request == Some(seq);
    if !is_within || match_thread_id == thread_id {
        return Ok(is_within);
    }
    let event_of = async |thread_id| -> Result<_, RecallError> {
        Ok(messages::read_utterance(store, thread_id, seq).await?.map(|utterance| utterance.event_id))
    };
    match (event_of(thread_id).await, event_of(match_thread_id).await) {
        // The collector reads the match again, and counts it if it is the damaged one.
        (Err(error), _) | (_, Err(error)) if error.is_message_damaged() => Ok(false),
        (own, matched) => Ok(own? == matched?),
    }
}

/// Returns the requesting thread.
///
/// # Errors
/// [`RecallError::SubagentScope`] when the thread is a sub-agent's or descends from one: a sub-agent knows only its
/// task. At most [`LINEAGE_THREADS_MAX`] ancestors are checked.
async fn requesting_thread(store: &dyn Store, thread_id: ThreadId) -> Result<Thread, RecallError> {
    let requesting = store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    let (mut parent_id, mut parent_kind) = (requesting.parent_id, requesting.parent_kind);
    for _ in 0..LINEAGE_THREADS_MAX {
        if parent_kind == Some(ParentKind::Subagent) {
            return Err(RecallError::SubagentScope);
        }
        let Some(id) = parent_id else { break };
        let Some(parent) = store.thread(id).await? else { break };
        (parent_id, parent_kind) = (parent.parent_id, parent.parent_kind);
    }
    Ok(requesting)
}

/// Returns the one thread whose id begins with `prefix`, among those of the same assistant that are in the scope.
///
/// # Errors
/// When no thread or several threads match. The error does not reveal whether another assistant or project has such a
/// thread.
async fn find_thread(
    store: &dyn Store,
    requesting: &Thread,
    prefix: &str,
    scope: RecallScope,
) -> Result<ThreadId, RecallError> {
    let prefix = prefix.trim();
    let is_in_scope = |thread: &Thread| {
        thread.assistant_id == requesting.assistant_id
            && (scope == RecallScope::Everything || thread.project == requesting.project)
    };
    let owner = OwnerScope::Owner(requesting.assistant_id.owner());
    let mut own = Vec::new();
    if !prefix.is_empty() {
        for thread_id in store.threads_by_prefix(prefix, &owner).await? {
            if store.thread(thread_id).await?.is_some_and(|thread| is_in_scope(&thread)) {
                own.push(thread_id);
            }
        }
    }
    match own[..] {
        [only] => Ok(only),
        [] => Err(RecallError::ForeignThread { prefix: prefix.to_owned(), lineage: Vec::new() }),
        _ => Err(RecallError::AmbiguousThread { prefix: prefix.to_owned() }),
    }
}

/// Returns the thread in the scope whose id begins with `prefix` and that belongs to the same assistant as `thread_id`.
/// The scope of a conversation counts as that of its project.
pub(super) async fn find_range_thread(
    store: &dyn Store,
    thread_id: ThreadId,
    prefix: &str,
    scope: RecallScope,
) -> Result<ThreadId, RecallError> {
    find_thread(store, &requesting_thread(store, thread_id).await?, prefix, scope).await
}

/// Returns the best passage of a matching summary or handoff as a note; `None` for other kinds.
fn to_note(search_match: &SearchMatch, finder: &QueryWordFinder) -> Option<RecallNote> {
    let source = match *search_match.location() {
        HitLocation::Summary { thread_id, first_turn, last_turn, .. } => {
            NoteSource::Summary { thread_id, first_turn, last_turn }
        }
        HitLocation::Handoff { parent_thread_id, child_thread_id, .. } => {
            NoteSource::Handoff { parent_thread_id, child_thread_id }
        }
        HitLocation::Message { .. } | HitLocation::Item { .. } => return None,
    };
    Some(RecallNote {
        source,
        at: search_match.created_at(),
        text: finder.best_passage(&search_match.redacted_text(), MATCH_CHARS_MAX),
    })
}
