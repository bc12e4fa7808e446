//! The threads a thread came from, and how far each belongs to its conversation. What is read in them is not decided
//! here.

use journal::{EventQuery, HandoffFilter, Store, SupersededVisibility, ThreadPrefix};

use protocol::{Category, Event, EventType, Handoff, HandoffId, ParentKind, Seq, ThreadId};

use super::RecallError;

/// The most threads of a lineage; what is further back is not looked at.
pub(super) const LINEAGE_THREADS_MAX: usize = 64;
/// Facts behind what a summary covers among which its acceptance is looked for. Each draft and each feedback is one.
const EVENTS_SCANNED_MAX: usize = 64;

/// A thread of a lineage.
#[derive(Debug)]
pub(super) struct Ancestor {
    pub(super) thread_id: ThreadId,
    /// The thread that a handoff of this one seeded; `None` for the first of a lineage, which all belongs to it.
    child_id: Option<ThreadId>,
    /// The threads whose transcript it copied, nearest first. They are not looked at: it holds what it copied at the
    /// same seqs, what was said in them later is no part of it, and what it took back is to stay so.
    copied_from: Vec<ThreadId>,
}

impl Ancestor {
    const fn new(thread_id: ThreadId, child_id: Option<ThreadId>) -> Self {
        Self { thread_id, child_id, copied_from: Vec::new() }
    }

    fn has_id(&self, thread_id: ThreadId) -> bool {
        self.thread_id == thread_id || self.copied_from.contains(&thread_id)
    }

    /// Returns whether a handoff of this thread seeded that one.
    pub(super) fn has_seeded(&self, thread_id: ThreadId) -> bool {
        self.child_id == Some(thread_id)
    }

    /// Returns the part of the thread that belongs to the lineage: what was said before the conversation left it.
    pub(super) async fn thread_part(&self, store: &dyn Store) -> Result<ThreadPrefix, RecallError> {
        let before = match self.child_id {
            Some(child_id) => Some(departure_seq(store, self.thread_id, child_id).await?),
            None => None,
        };
        Ok(ThreadPrefix { thread_id: self.thread_id, before })
    }
}

/// Returns the lineage of a thread that is looked at alone.
pub(super) async fn single_thread_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<Vec<Ancestor>, RecallError> {
    store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    Ok(vec![Ancestor::new(thread_id, None)])
}

/// Returns the thread, the one it came from by a handoff or a fork, and so on, nearest first; what a fork copied counts
/// as the fork.
///
/// A sub-agent's thread has no lineage but itself: its task is all it was given. What is not a plain chain is an error,
/// never a guess.
pub(super) async fn load_lineage(
    store: &dyn Store,
    thread_id: ThreadId,
) -> Result<Vec<Ancestor>, RecallError> {
    let mut thread = store.thread(thread_id).await?.ok_or(RecallError::UnknownThread { thread_id })?;
    let mut lineage = Vec::new();
    let mut ancestor = Ancestor::new(thread_id, None);
    for _ in 1..LINEAGE_THREADS_MAX {
        let Some(parent_id) = thread.parent_id else { break };
        let is_met = |ancestor: &Ancestor| ancestor.has_id(parent_id);
        if lineage.iter().chain([&ancestor]).any(is_met) {
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
        let gone = RecallError::ParentMissing { thread_id: thread.thread_id, parent_id };
        thread = store.thread(parent_id).await?.ok_or(gone)?;
    }
    lineage.push(ancestor);
    Ok(lineage)
}

/// Returns the seq at which the conversation left `parent_id` for the child that a handoff seeded: where the handoff was
/// accepted. What was said while its summary was made and reviewed belongs to the child too, though no summary has it.
///
/// An acceptance that does not stand near what the summary covers is not looked for; then only what it covers belongs
/// to the child.
async fn departure_seq(
    store: &dyn Store,
    parent_id: ThreadId,
    child_id: ThreadId,
) -> Result<Seq, RecallError> {
    let unknown = RecallError::BranchUnknown { thread_id: child_id, parent_id };
    let Some((handoff, covered)) = find_accepted_handoff(store, parent_id, child_id).await? else {
        return Err(unknown);
    };
    let mut at = covered;
    // One at a time: the next fact is mostly the one, and the one after it may be a long thread away.
    for _ in 0..EVENTS_SCANNED_MAX {
        let query = EventQuery {
            categories: vec![Category::Middleware],
            superseded: SupersededVisibility::Shown,
            ..EventQuery::after(at, 1)
        };
        let Some(fact) = store.events(parent_id, query).await?.pop() else { break };
        if is_acceptance(&fact, handoff.handoff_id) {
            return Ok(fact.seq);
        }
        at = fact.seq;
    }
    Ok(covered.saturating_add(1))
}

/// Returns the handoff of `parent_id` that seeded the child, and the last seq that the accepted summary covers.
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
            let covered = proposal.summary_json.coverage.last_seq;
            return Ok(Some((handoff, covered)));
        }
    }
    Ok(None)
}

fn is_acceptance(fact: &Event, handoff_id: HandoffId) -> bool {
    fact.kind() == Some(EventType::HandoffAccepted) && fact.handoff_id() == Some(handoff_id)
}

/// Returns the thread of `lineage` whose id begins with `prefix`; hyphens and case are ignored. Who names what a fork
/// copied means the fork.
pub(super) fn find_named<'a>(lineage: &'a [Ancestor], prefix: &str) -> Result<&'a Ancestor, RecallError> {
    let digits = |text: &str| text.trim().replace('-', "").to_lowercase();
    let wanted = digits(prefix);
    let is_meant = |id: &ThreadId| !wanted.is_empty() && digits(&id.to_string()).starts_with(&wanted);
    // Answers shorten the ids of the threads that are looked at so that these are told apart, and no others.
    let mut matches: Vec<&Ancestor> = lineage.iter().filter(|one| is_meant(&one.thread_id)).collect();
    if matches.is_empty() {
        matches = lineage.iter().filter(|one| one.copied_from.iter().any(is_meant)).collect();
    }
    match matches[..] {
        [only] => Ok(only),
        [] => Err(RecallError::ForeignThread {
            prefix: prefix.to_owned(),
            lineage: lineage.iter().map(|one| one.thread_id).collect(),
        }),
        _ => Err(RecallError::AmbiguousThread { prefix: prefix.to_owned() }),
    }
}
