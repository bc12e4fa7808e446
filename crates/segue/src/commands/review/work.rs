//! What the agent does for a review, and how it is shown while it goes on: drafting and deciding. Keys that are typed
//! meanwhile are kept; Ctrl-C stops it.

use agent::{Agent, CancellationToken, Decided, Frames, HandoffRequest, PendingHandoff};
use protocol::{Decision, Decisions, HandoffId, ThreadId};
use terminal::{Spent, Typed};

use super::{Review, single};
use crate::commands::Context;
use crate::commands::work::{Done, Showing, Telling, is_watched, noted, shown};
use crate::exit::Failure;

/// What is said of it before it tells anything itself.
const WHAT: &str = "working on the handoff";

/// Drafts the handoff, or finds the pending one; `None` when the person stops it and nothing is left behind. What they type
/// meanwhile goes to `typed`.
///
/// # Errors
/// When there is nothing to hand off, another run is active, or the journal fails.
pub(crate) async fn draft(
    context: &Context,
    thread_id: ThreadId,
    request: HandoffRequest,
    typed: &mut Typed,
) -> Result<Option<PendingHandoff>, Failure> {
    let work = async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| {
        agent.handoffs().request(thread_id, request, frames, cancel).await
    };
    let done = match is_watched(context) {
        true => {
            let showing = Showing { what: WHAT, telling: Telling::Progress };
            shown(context, showing, typed, &mut Spent::default(), work).await?
        }
        false => noted(context, work).await?,
    };
    match done.done {
        Ok(pending) => Ok(Some(pending)),
        Err(error) if done.is_stopped => match is_left(context, thread_id).await? {
            true => Err(error.into()),
            false => Ok(None),
        },
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a handoff of the thread is there that nobody decided.
async fn is_left(context: &Context, thread_id: ThreadId) -> Result<bool, Failure> {
    let open = context.agent.handoffs().undecided().await?;
    Ok(open.iter().any(|open| open.handoff.parent_thread_id == thread_id))
}

/// Passes an answer on that was given without a review, and tells what a person should know of its consequences.
///
/// # Errors
/// The inner one when the answer was not taken: the handoff still waits, or was decided by someone else.
pub(crate) async fn decide(
    context: &Context,
    handoff_id: HandoffId,
    decisions: &Decisions,
) -> Result<agent::Result<Decided>, Failure> {
    let work = async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| {
        agent.handoffs().decide(handoff_id, decisions, frames, cancel).await
    };
    Ok(noted(context, work).await?.done)
}

impl Review<'_> {
    /// Passes an answer on and shows what it leads to.
    pub(super) async fn work(&mut self, decision: Decision) -> Result<Done<agent::Result<Decided>>, Failure> {
        let (handoff_id, decisions) = (self.pending.handoff.handoff_id, single(decision));
        let work = async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| {
            agent.handoffs().decide(handoff_id, &decisions, frames, cancel).await
        };
        if !is_watched(self.context) {
            return noted(self.context, work).await;
        }
        let mut spent = Spent { waiting: std::mem::take(&mut self.spent.waiting), ..Spent::default() };
        let showing = Showing { what: WHAT, telling: self.telling };
        let done = shown(self.context, showing, self.typed, &mut spent, work).await?;
        if let Ok(decided) = &done.done {
            spent.usage = decided.end.usage;
        }
        self.spent.waiting = std::mem::take(&mut spent.waiting);
        self.spent.lost_after = spent.lost_after.or(self.spent.lost_after);
        self.spent.add(spent);
        Ok(done)
    }
}
