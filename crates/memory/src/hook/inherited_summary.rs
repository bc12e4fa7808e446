//! The summaries that a child thread was handed, and how long they are part of the thread's requests. A thread has several if
//! several threads were handed off into it.
//!
//! The handoff's row is the source of truth, not the block in agent.md: the file is shared by all threads, so its block is
//! cleared after the child's first complete turn, whatever is decided here.

use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, Event, EventType, ParentKind, ThreadId};

use crate::prompt::InheritedSummary;

/// How long a child thread is sent the summary that it was handed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SummaryRetention {
    /// In its first complete turn only.
    FirstTurn,
    /// Until a turn has called a tool, and for at most [`UNUSED_TURNS_MAX`] turns.
    UntilUsed,
    /// As long as the thread exists. A thread whose first message is a greeting, or whose task takes many turns, keeps
    /// its rules and open work; a provider's cache makes the repeated text cheap.
    #[default]
    Thread,
}

/// The number of turns after which an unused summary is no longer sent.
pub const UNUSED_TURNS_MAX: usize = 5;

/// The number of messages at the beginning of the thread in which a tool call is looked for.
const MESSAGES_READ_MAX: usize = 100;

/// Returns the summaries to send with the requests of the thread, in the order in which they were handed to it; none if the
/// thread is not a child, or if their time is over.
pub(super) async fn find_inherited_summaries(
    store: &dyn Store,
    thread_id: ThreadId,
    retention: SummaryRetention,
) -> journal::Result<Vec<InheritedSummary>> {
    let Some(thread) = store.thread(thread_id).await? else { return Ok(Vec::new()) };
    if thread.parent_kind != Some(ParentKind::Handoff) {
        return Ok(Vec::new());
    }
    let mark = thread.handoff_mark().filter(|mark| mark.child_thread_id == thread_id);
    let is_first_turn = mark.is_some_and(|mark| mark.pending);
    let is_due = match retention {
        SummaryRetention::FirstTurn => is_first_turn,
        SummaryRetention::UntilUsed => is_first_turn || !is_used(store, thread_id).await?,
        SummaryRetention::Thread => true,
    };
    if !is_due {
        return Ok(Vec::new());
    }
    let filter = HandoffFilter { child_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let mut summaries = Vec::new();
    // The journal returns the newest handoff first.
    for handoff in store.handoffs(filter).await?.into_iter().rev() {
        let Some(sha256) = &handoff.accepted_sha256 else { continue };
        let proposals = store.proposals(handoff.handoff_id).await?;
        // A proposal after the accepted one is that package with lines that a person updated.
        let is_accepted = proposals.iter().any(|proposal| proposal.summary_sha256 == *sha256);
        let current = proposals.into_iter().last().filter(|_| is_accepted);
        summaries.extend(current.map(|proposal| InheritedSummary {
            package_md: proposal.package_md,
            separate_facts: Some(proposal.summary_json.carried).filter(|facts| !facts.is_in_markdown),
        }));
    }
    Ok(summaries)
}

/// Returns whether an earlier turn of the thread has called a tool, or there were [`UNUSED_TURNS_MAX`] turns.
async fn is_used(store: &dyn Store, thread_id: ThreadId) -> journal::Result<bool> {
    let query = EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, MESSAGES_READ_MAX) };
    let events = store.events(thread_id, query).await?;
    let is_of = |event: &Event, kind: EventType| event.event_type == kind.as_str();
    // The newest message of a person begins the current turn.
    let turn_start = events.iter().rposition(|event| is_of(event, EventType::HumanMessage)).unwrap_or(0);
    let earlier = &events[..turn_start];
    let turns = earlier.iter().filter(|event| is_of(event, EventType::HumanMessage)).count();
    let has_called = earlier.iter().any(|event| is_of(event, EventType::ToolMessage));
    Ok(has_called || turns >= UNUSED_TURNS_MAX || events.len() == MESSAGES_READ_MAX)
}
