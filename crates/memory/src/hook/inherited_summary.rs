//! The summary that a child thread was handed, and how long it is part of the thread's requests.
//!
//! The handoff's row is the source of truth, not the block in agent.md: the file is shared by all threads, so its block is
//! cleared after the child's first complete turn, whatever is decided here.

use journal::{EventQuery, HandoffFilter, Store};
use protocol::{Category, Event, EventType, Handoff, ParentKind, ThreadId};

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

/// Returns the summary to send with the requests of the thread; `None` if the thread is not a child, or if its time is over.
pub(super) async fn find_inherited_summary(
    store: &dyn Store,
    thread_id: ThreadId,
    retention: SummaryRetention,
) -> journal::Result<Option<InheritedSummary>> {
    let Some(thread) = store.thread(thread_id).await? else { return Ok(None) };
    if thread.parent_kind != Some(ParentKind::Handoff) {
        return Ok(None);
    }
    let mark = thread.handoff_mark().filter(|mark| mark.child_thread_id == thread_id);
    let is_first_turn = mark.is_some_and(|mark| mark.pending);
    let is_due = match retention {
        SummaryRetention::FirstTurn => is_first_turn,
        SummaryRetention::UntilUsed => is_first_turn || !is_used(store, thread_id).await?,
        SummaryRetention::Thread => true,
    };
    if !is_due {
        return Ok(None);
    }
    let filter = HandoffFilter { child_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let is_accepted = |handoff: &Handoff| handoff.accepted_sha256.is_some();
    let Some(handoff) = store.handoffs(filter).await?.into_iter().find(is_accepted) else { return Ok(None) };
    let proposals = store.proposals(handoff.handoff_id).await?;
    let accepted =
        proposals.into_iter().find(|p| Some(&p.summary_sha256) == handoff.accepted_sha256.as_ref());
    Ok(accepted.map(|proposal| InheritedSummary {
        summary_md: proposal.summary_md,
        separate_facts: Some(proposal.summary_json.carry_over).filter(|facts| !facts.is_in_markdown),
    }))
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
