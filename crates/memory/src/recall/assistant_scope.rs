//! Recall from everything an assistant has: the original messages of all its threads, its summaries and its handoffs. How
//! these are found and ordered is the search's matter.

use journal::{HitLocation, IndexHitKind, Store, ThreadPrefix};
use protocol::{AssistantId, OwnerScope, ParentKind, Seq, ThreadId};

use super::collect::{MATCH_CHARS_MAX, RecallCollector, SHOWN_MAX};
use super::lineage::LINEAGE_THREADS_MAX;
use super::messages;
use super::passage::QueryWordFinder;
use super::{NoteSource, RecallError, RecallNote, RecallQuery, RecallResult, RecallScope, Remaining};
use crate::search::{SearchMatch, SearchRequest, best_matches};

/// Summaries and handoffs that are shown.
const NOTES_MAX: usize = 3;
/// The part of the room for an answer that these may take.
const NOTES_DIVISOR: u64 = 4;

/// Returns what the assistant of the thread that asks has about the words of `text`.
pub(super) async fn recall_from_assistant(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
    text: &str,
) -> Result<RecallResult, RecallError> {
    let assistant_id = requesting_assistant(store, thread_id).await?;
    let of_thread = match &query.thread {
        Some(prefix) => Some(find_thread(store, &assistant_id, prefix).await?),
        None => None,
    };
    let request = |kinds: Vec<IndexHitKind>, limit: usize| SearchRequest {
        kinds,
        limit,
        thread_id: of_thread,
        assistant_id: Some(assistant_id.clone()),
        ..SearchRequest::new(text)
    };
    // Twice as many, because some are in sight.
    let (words, found) = best_matches(store, &request(vec![IndexHitKind::Message], SHOWN_MAX * 2)).await?;
    let (_, notes) =
        best_matches(store, &request(vec![IndexHitKind::Summary, IndexHitKind::Handoff], NOTES_MAX)).await?;
    let mut places: Vec<(ThreadId, Seq)> = Vec::new();
    for message in &found {
        if let HitLocation::Message { thread_id: found_in, seq, .. } = *message.location()
            && !is_visible(store, thread_id, query, found_in, seq).await?
        {
            places.push((found_in, seq));
        }
    }
    let mut threads: Vec<ThreadId> = Vec::new();
    for (found_in, _) in &places {
        if !threads.contains(found_in) {
            threads.push(*found_in);
        }
    }
    let finder = QueryWordFinder::new(&words);
    let notes = notes.iter().filter_map(|read| to_note(read, &finder)).collect();
    let parts =
        threads.iter().map(|thread_id| ThreadPrefix { thread_id: *thread_id, before: None }).collect();
    let mut gathering = RecallCollector::for_assistant(store, parts, query.tokens_max);
    let notes = gathering.place_notes(notes, query.tokens_max / NOTES_DIVISOR);
    let left = places.len().saturating_sub(SHOWN_MAX);
    places.truncate(SHOWN_MAX);
    let (excerpts, hidden) = gathering.collect_at(&places, &finder).await?;
    let rest = Remaining::Messages((left + hidden) as u64);
    Ok(RecallResult {
        scope: RecallScope::Everything,
        threads,
        excerpts,
        notes,
        remaining: rest,
        resume_at: None,
        departed_at: None,
    })
}

/// Returns whether who asks has a message in sight. What a fork copied is found where it was said.
async fn is_visible(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &RecallQuery,
    found_in: ThreadId,
    seq: Seq,
) -> Result<bool, RecallError> {
    let is_within =
        query.visible_from.is_some_and(|before| seq >= before) || query.visible_request == Some(seq);
    if !is_within || found_in == thread_id {
        return Ok(is_within);
    }
    let event_of = async |thread_id| -> Result<_, RecallError> {
        Ok(messages::read_utterance(store, thread_id, seq).await?.map(|said| said.event_id))
    };
    Ok(event_of(thread_id).await? == event_of(found_in).await?)
}

/// Returns the assistant whose thread asks, unless that is a sub-agent's or came from one.
async fn requesting_assistant(store: &dyn Store, thread_id: ThreadId) -> Result<AssistantId, RecallError> {
    let asking = store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    let (mut parent_id, mut parent_kind) = (asking.parent_id, asking.parent_kind);
    for _ in 0..LINEAGE_THREADS_MAX {
        if parent_kind == Some(ParentKind::Subagent) {
            return Err(RecallError::SubagentScope);
        }
        let Some(id) = parent_id else { break };
        let Some(parent) = store.thread(id).await? else { break };
        (parent_id, parent_kind) = (parent.parent_id, parent.parent_kind);
    }
    Ok(asking.assistant_id)
}

/// Returns the one thread of the assistant whose id begins with `prefix`. A thread of another one is not told from one
/// that does not exist.
async fn find_thread(
    store: &dyn Store,
    assistant_id: &AssistantId,
    prefix: &str,
) -> Result<ThreadId, RecallError> {
    let prefix = prefix.trim();
    let mut own = Vec::new();
    if !prefix.is_empty() {
        for thread_id in store.threads_by_prefix(prefix, &OwnerScope::Owner(assistant_id.owner())).await? {
            if store.thread(thread_id).await?.is_some_and(|thread| thread.assistant_id == *assistant_id) {
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

/// Returns the thread with that prefix that belongs to the assistant of the thread that asks.
pub(super) async fn find_thread_of_same_assistant(
    store: &dyn Store,
    thread_id: ThreadId,
    prefix: &str,
) -> Result<ThreadId, RecallError> {
    find_thread(store, &requesting_assistant(store, thread_id).await?, prefix).await
}

/// Returns what a summary or a handoff says; `None` for anything else.
fn to_note(read: &SearchMatch, finder: &QueryWordFinder) -> Option<RecallNote> {
    let source = match *read.location() {
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
        at: read.created_at(),
        text: finder.best_passage(&read.redacted_text(), MATCH_CHARS_MAX),
    })
}
