//! The threads a thread came from. What is read in them is not decided here.

use journal::Store;
use protocol::{ParentKind, Thread, ThreadId};

use super::RecallError;

/// The most threads of a lineage; what is further back is not looked at.
pub(super) const LINEAGE_THREADS_MAX: usize = 64;

/// Returns the thread, the one it came from by a handoff or a fork, and so on, nearest first.
///
/// A sub-agent's thread has no lineage but itself: its task is all it was given. What is not a plain chain is an error,
/// never a guess.
pub(super) async fn lineage(store: &dyn Store, thread_id: ThreadId) -> Result<Vec<Thread>, RecallError> {
    let first = store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    let mut threads = vec![first];
    while threads.len() < LINEAGE_THREADS_MAX {
        let Some((child_id, parent_id)) = threads.last().and_then(parent) else { break };
        if threads.iter().any(|thread| thread.thread_id == parent_id) {
            return Err(RecallError::Cycle { thread_id: parent_id });
        }
        let found = store.thread(parent_id).await?;
        threads.push(found.ok_or(RecallError::ParentGone { thread_id: child_id, parent_id })?);
    }
    Ok(threads)
}

fn parent(thread: &Thread) -> Option<(ThreadId, ThreadId)> {
    match thread.parent_kind {
        Some(ParentKind::Subagent) => None,
        Some(ParentKind::Handoff | ParentKind::Fork) | None => {
            thread.parent_id.map(|parent_id| (thread.thread_id, parent_id))
        }
    }
}

/// Returns the thread of `lineage` whose id begins with `prefix`; hyphens and case are ignored.
pub(super) fn named<'a>(lineage: &'a [Thread], prefix: &str) -> Result<&'a Thread, RecallError> {
    let digits = |text: &str| text.trim().replace('-', "").to_lowercase();
    let wanted = digits(prefix);
    let mut matches = lineage
        .iter()
        .filter(|thread| !wanted.is_empty() && digits(&thread.thread_id.to_string()).starts_with(&wanted));
    match (matches.next(), matches.next()) {
        (Some(only), None) => Ok(only),
        (Some(_), Some(_)) => Err(RecallError::AmbiguousThread { prefix: prefix.to_owned() }),
        (None, _) => Err(RecallError::ForeignThread {
            prefix: prefix.to_owned(),
            lineage: lineage.iter().map(|thread| thread.thread_id).collect(),
        }),
    }
}
