//! The lineage of a thread: the thread itself, the threads that it came from by handoffs and forks, and the part of
//! each that belongs to its conversation. Messages are not read here.

use std::collections::HashSet;

use journal::{DamageHandling, EventQuery, HandoffFilter, Store, SupersededVisibility, ThreadPrefix};

use protocol::{Category, Event, EventType, Handoff, HandoffId, ParentKind, Seq, Thread, ThreadId};

use super::RecallError;

/// Maximum number of threads of a lineage. Older ancestors are not searched.
pub(super) const LINEAGE_THREADS_MAX: usize = 64;
/// Maximum number of middleware events that are scanned for the acceptance of a handoff, from the end of the range that
/// its summary covers. Each draft and each feedback is one such event.
const EVENTS_SCANNED_MAX: usize = 64;

/// A thread of a lineage.
#[derive(Debug)]
pub(super) struct Ancestor {
    pub(super) thread_id: ThreadId,
    /// The thread that a handoff of this thread seeded. `None` for the first thread of a lineage, which belongs to the
    /// conversation as a whole.
    child_id: Option<ThreadId>,
    /// The threads that this thread copied as a fork, nearest first.
    ///
    /// They are not searched. The fork has the copied messages at the same seqs; later messages of its source do not
    /// belong to the fork; and messages that the fork rewound must stay hidden.
    copied_from: Vec<ThreadId>,
}

impl Ancestor {
    const fn new(thread_id: ThreadId, child_id: Option<ThreadId>) -> Self {
        Self { thread_id, child_id, copied_from: Vec::new() }
    }

    /// Returns whether this is the thread, or a fork of it.
    fn has_id(&self, thread_id: ThreadId) -> bool {
        self.thread_id == thread_id || self.copied_from.contains(&thread_id)
    }

    /// Returns whether a handoff of this thread seeded the thread `thread_id`.
    pub(super) fn has_seeded(&self, thread_id: ThreadId) -> bool {
        self.child_id == Some(thread_id)
    }

    /// Returns the part of the thread that belongs to the conversation: everything before the conversation left it.
    ///
    /// # Errors
    /// When the handoff to the child is not recorded, and when the journal fails.
    pub(super) async fn thread_part(&self, store: &dyn Store) -> Result<ThreadPrefix, RecallError> {
        let before = match self.child_id {
            Some(child_id) => Some(departure_seq(store, self.thread_id, child_id).await?),
            None => None,
        };
        Ok(ThreadPrefix { thread_id: self.thread_id, before })
    }
}

/// Returns a lineage of only the thread itself, without loading its ancestors.
///
/// # Errors
/// When the thread does not exist, and when the journal fails.
pub(super) async fn single_thread_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<Vec<Ancestor>, RecallError> {
    store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    Ok(vec![Ancestor::new(thread_id, None)])
}

/// Returns the thread and its ancestors by handoffs and forks, nearest first. A fork and the threads that it copied
/// are one entry.
///
/// The lineage of a sub-agent's thread is that thread alone, because a sub-agent knows only its task.
///
/// # Errors
/// When the thread or an ancestor does not exist, when the ancestors form a cycle, and when the journal fails. A
/// lineage that is not a plain chain is never completed by a guess.
pub(super) async fn load_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<Vec<Ancestor>, RecallError> {
    let thread = store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    let mut lineage = load_chain(store, thread, None).await?;
    add_merged_threads(store, &mut lineage).await?;
    Ok(lineage)
}

/// Returns the thread and the chain of its first parents. `child_id` is the thread into which it was handed off.
async fn load_chain(
    store: &dyn Store,
    mut thread: Thread,
    child_id: Option<ThreadId>,
) -> Result<Vec<Ancestor>, RecallError> {
    let mut lineage = Vec::new();
    let mut ancestor = Ancestor::new(thread.thread_id, child_id);
    for _ in 1..LINEAGE_THREADS_MAX {
        let Some(parent_id) = thread.parent_id else { break };
        let is_parent = |ancestor: &Ancestor| ancestor.has_id(parent_id);
        if lineage.iter().chain([&ancestor]).any(is_parent) {
            return Err(RecallError::Cycle { thread_id: parent_id });
        }
        match thread.parent_kind {
            Some(ParentKind::Subagent) => break,
            Some(ParentKind::Fork) => ancestor.copied_from.push(parent_id),
            Some(ParentKind::Handoff) | None => {
                let parent = Ancestor::new(parent_id, Some(thread.thread_id));
                lineage.push(std::mem::replace(&mut ancestor, parent));
            }
        }
        let missing = RecallError::ParentMissing { thread_id: thread.thread_id, parent_id };
        thread = store.thread(parent_id).await?.ok_or(missing)?;
    }
    lineage.push(ancestor);
    Ok(lineage)
}

/// Adds the other threads that were handed off into a thread of the lineage, with their ancestors, which can have merged
/// threads too. A thread that is reached by two paths is added once.
async fn add_merged_threads(store: &dyn Store, lineage: &mut Vec<Ancestor>) -> Result<(), RecallError> {
    let mut children = HashSet::new();
    let mut position = 0;
    while let Some(ancestor) = lineage.get(position) {
        position += 1;
        let Some(child_id) = ancestor.child_id.filter(|child_id| children.insert(*child_id)) else {
            continue;
        };
        let filter = HandoffFilter { child_thread_id: Some(child_id), ..HandoffFilter::default() };
        let accepted = store.handoffs(filter).await?.into_iter().rev();
        for handoff in accepted.filter(|handoff| handoff.accepted_sha256.is_some()) {
            let parent_id = handoff.parent_thread_id;
            if lineage.iter().any(|known| known.has_id(parent_id)) {
                continue;
            }
            let Some(parent) = store.thread(parent_id).await? else { continue };
            let chain = load_chain(store, parent, Some(child_id)).await?;
            let is_new = |ancestor: &Ancestor, lineage: &[Ancestor]| {
                !lineage.iter().any(|known| known.has_id(ancestor.thread_id))
            };
            for ancestor in chain {
                if lineage.len() < LINEAGE_THREADS_MAX && is_new(&ancestor, lineage) {
                    lineage.push(ancestor);
                }
            }
        }
    }
    Ok(())
}

/// Returns the seq at which the conversation left `parent_id` for the child that a handoff seeded: the seq of the event
/// that accepted the handoff. Messages before it belong to the child's conversation even if they were added during the
/// review, after the range that the summary covers.
///
/// If the acceptance is damaged, or not within [`EVENTS_SCANNED_MAX`] middleware events after the covered range, the
/// conversation ends with that range.
async fn departure_seq(
    store: &dyn Store,
    parent_id: ThreadId,
    child_id: ThreadId,
) -> Result<Seq, RecallError> {
    let unknown = RecallError::BranchUnknown { thread_id: child_id, parent_id };
    let Some((handoff, last_covered_seq)) = find_accepted_handoff(store, parent_id, child_id).await? else {
        return Err(unknown);
    };
    let mut cursor = last_covered_seq;
    // Events are read one at a time, because the first is usually the acceptance, and a page would make the journal
    // search a long thread for events that are not needed.
    for _ in 0..EVENTS_SCANNED_MAX {
        let query = EventQuery {
            categories: vec![Category::Middleware],
            superseded: SupersededVisibility::Shown,
            damage: DamageHandling::Mark,
            ..EventQuery::after(cursor, 1)
        };
        let Some(event) = store.events(parent_id, query).await?.pop() else { break };
        if is_acceptance(&event, handoff.handoff_id) {
            return Ok(event.seq);
        }
        cursor = event.seq;
    }
    Ok(last_covered_seq.saturating_add(1))
}

/// Returns the handoff of `parent_id` that seeded the child, and the last seq that its accepted summary covers.
///
/// The accepted proposal is identified by the hash of its summary. Returns `None` when no handoff between the threads
/// was accepted.
async fn find_accepted_handoff(
    store: &dyn Store,
    parent_id: ThreadId,
    child_id: ThreadId,
) -> Result<Option<(Handoff, Seq)>, RecallError> {
    let filter = HandoffFilter {
        parent_thread_id: Some(parent_id),
        child_thread_id: Some(child_id),
        ..HandoffFilter::default()
    };
    for handoff in store.handoffs(filter).await? {
        let Some(sha256) = &handoff.accepted_sha256 else { continue };
        let proposals = store.proposals(handoff.handoff_id).await?;
        if let Some(proposal) = proposals.iter().find(|proposal| proposal.summary_sha256 == *sha256) {
            let last_covered_seq = proposal.summary_json.coverage.last_seq;
            return Ok(Some((handoff, last_covered_seq)));
        }
    }
    Ok(None)
}

fn is_acceptance(event: &Event, handoff_id: HandoffId) -> bool {
    event.kind() == Some(EventType::HandoffAccepted) && event.handoff_id() == Some(handoff_id)
}

/// Returns the thread of `lineage` whose id begins with `prefix`. Hyphens and case are ignored. A prefix of a thread
/// that a fork copied refers to the fork.
///
/// # Errors
/// [`RecallError::ForeignThread`] when no thread matches, [`RecallError::AmbiguousThread`] when several do.
pub(super) fn find_named<'a>(lineage: &'a [Ancestor], prefix: &str) -> Result<&'a Ancestor, RecallError> {
    let hex_digits = |text: &str| text.trim().replace('-', "").to_lowercase();
    let digits = hex_digits(prefix);
    let is_named = |id: &ThreadId| !digits.is_empty() && hex_digits(&id.to_string()).starts_with(&digits);
    // The threads of the lineage are matched first: answers shorten ids so that these are distinct from each other, but
    // not from the ids of the threads that were copied.
    let mut matches: Vec<&Ancestor> =
        lineage.iter().filter(|ancestor| is_named(&ancestor.thread_id)).collect();
    if matches.is_empty() {
        matches = lineage.iter().filter(|ancestor| ancestor.copied_from.iter().any(is_named)).collect();
    }
    match matches[..] {
        [only] => Ok(only),
        [] => Err(RecallError::ForeignThread {
            prefix: prefix.to_owned(),
            lineage: lineage.iter().map(|ancestor| ancestor.thread_id).collect(),
        }),
        _ => Err(RecallError::AmbiguousThread { prefix: prefix.to_owned() }),
    }
}
