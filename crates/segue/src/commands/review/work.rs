//! What the agent does for a review, and how it is shown while it goes on: drafting and deciding. Keys that are typed
//! meanwhile are kept; Ctrl-C stops it.

use agent::{Agent, CancellationToken, Decided, Frame, Frames, HandoffRequest, PendingHandoff};
use protocol::{Decision, Decisions, HandoffId, ThreadId};

use super::{Review, single};
use crate::cli::Format;
use crate::commands::Context;
use crate::exit::Failure;
use crate::terminal::keyboard::{Bracketed, Quiet};
use crate::terminal::screen::Audience;
use crate::terminal::work::progress::{Progress, Unit};
use crate::terminal::work::stream::{Spent, Stream};
use crate::terminal::work::typed::Typed;
use crate::terminal::work::watch::{Seen, Then, watch};

/// How a failed draft is told; the panel says it again, and stays.
const FAILED: &str = "summarization failed: ";

/// What is shown of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Everything: the agent may go on with its turn.
    Everything,
    /// What is under way, and nothing that stays.
    Progress,
}

/// What came of work.
pub(super) struct Done<T> {
    pub(super) done: T,
    /// Whether the person stopped it.
    pub(super) is_stopped: bool,
}

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
        agent.request_handoff(thread_id, request, frames, cancel).await
    };
    let done = match is_watched(context) {
        true => shown(context, (typed, Telling::Progress), &mut Spent::default(), work).await?,
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
    let open = context.agent.open_handoffs().await?;
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
        agent.decide_handoff(handoff_id, decisions, frames, cancel).await
    };
    Ok(noted(context, work).await?.done)
}

impl Review<'_> {
    /// Passes an answer on and shows what it leads to.
    pub(super) async fn work(&mut self, decision: Decision) -> Result<Done<agent::Result<Decided>>, Failure> {
        let (handoff_id, decisions) = (self.pending.handoff.handoff_id, single(decision));
        let work = async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| {
            agent.decide_handoff(handoff_id, &decisions, frames, cancel).await
        };
        if !is_watched(self.context) {
            return noted(self.context, work).await;
        }
        let mut spent = Spent { waiting: std::mem::take(&mut self.spent.waiting), ..Spent::default() };
        let done = shown(self.context, (self.typed, self.telling), &mut spent, work).await?;
        if let Ok(decided) = &done.done {
            spent.usage = decided.end.usage;
        }
        self.spent.waiting = std::mem::take(&mut spent.waiting);
        self.spent.lost_after = spent.lost_after.or(self.spent.lost_after);
        self.spent.add(spent);
        Ok(done)
    }
}

fn is_watched(context: &Context) -> bool {
    context.format == Format::Text && context.screen.audience == Audience::Person
}

/// Does work where a person watches; `spent` holds the calls that wait for a result, before and after.
async fn shown<T>(
    context: &Context,
    (typed, telling): (&mut Typed, Telling),
    spent: &mut Spent,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> T,
) -> Result<Done<T>, Failure> {
    let _quiet = Quiet::begin(&context.screen)?;
    let _pastes = Bracketed::begin(&context.screen)?;
    let mut stream = Stream::new(&context.screen, typed);
    stream.begin_with("working on the handoff");
    stream.expect(std::mem::take(&mut spent.waiting));
    let done = watch(
        async |frames, cancel| Done {
            done: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |seen| match seen {
            Seen::Frame(_, Frame::Notice { text }) if text.starts_with(FAILED) => Ok(Then::GoOn),
            Seen::Frame(_, Frame::Notice { .. } | Frame::Progress { .. }) | Seen::Tick | Seen::Stopping => {
                stream.show(seen)
            }
            Seen::Frame(..) | Seen::Gap(_) if telling == Telling::Everything => stream.show(seen),
            Seen::Frame(..) | Seen::Gap(_) => Ok(Then::GoOn),
        },
    )
    .await;
    *spent = stream.finish()?;
    done
}

/// Does work of which only notices are told.
async fn noted<T>(
    context: &Context,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> T,
) -> Result<Done<T>, Failure> {
    let progress = Progress::new(&context.screen, context.format, Unit::Steps);
    watch(
        async |frames, cancel| Done {
            done: work(&context.agent, &frames, &cancel).await,
            is_stopped: cancel.is_cancelled(),
        },
        |seen| {
            match seen {
                Seen::Frame(_, Frame::Notice { text }) => progress.aside(|| context.notice(text)),
                Seen::Frame(_, frame) => progress.show(frame),
                Seen::Gap(_) | Seen::Tick | Seen::Stopping => {}
            }
            Ok(Then::GoOn)
        },
    )
    .await
}
