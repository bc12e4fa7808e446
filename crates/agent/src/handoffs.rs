//! Handoffs, as a front end asks for them: request and decide. Looking at them is in the files beside this one; the
//! rules are in the `handoff` room.

pub(crate) mod error;
mod expiry;
pub(crate) mod look;
pub(crate) mod mirror;
pub(crate) mod size;
mod statistics;

pub use look::{HandoffReview, ListedHandoff};
pub use size::{Fullness, HandoffCost};

use handoff::{Options, Request};
use jiff::Timestamp;
use journal::HandoffFilter;
use protocol::{Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, Proposal, RunStatus, ThreadId};
use runtime::{Frames, RunEnd, Start};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::agent::services::HandoffService;
use crate::assembly::Purpose;
use crate::{Error, HandoffError, Result, RunError, ThreadError};

/// How a handoff is asked for.
pub type HandoffRequest = Options;

/// A handoff that waits for a decision: what to show, and what to answer.
#[derive(Debug, Clone, Serialize)]
pub struct PendingHandoff {
    /// The handoff.
    pub handoff: Handoff,
    /// What is to be decided; its payload holds the proposal as it is stored.
    pub interrupt: Interrupt,
    /// The newest proposal.
    pub proposal: Proposal,
    /// Messages of the parent that came after what the summary covers.
    pub uncovered_messages: u64,
    /// Refinements that are still possible.
    pub remaining_refinements: u32,
    /// What was wrong with the newest draft, in one line: the proposal is the offline extract that stands in for it, or
    /// the one that was shown before.
    pub problem: Option<String>,
    /// The feedback that was not worked in then.
    pub unused_feedback: Option<String>,
    /// False when it was requested before, here or elsewhere, and is shown again.
    pub is_new: bool,
}

/// What a decision led to.
#[derive(Debug, Clone, Serialize)]
pub struct Decided {
    /// The handoff as it stands.
    pub handoff: Handoff,
    /// The proposal that was decided about.
    pub proposal: Proposal,
    /// The child thread, once the handoff is accepted.
    pub child_thread_id: Option<ThreadId>,
    /// The next proposal, when the decision asked for one.
    pub next: Option<PendingHandoff>,
    /// How the run that took the decision came to rest; of a handoff the agent asked for, that is the rest of its turn.
    #[serde(skip)]
    pub end: RunEnd,
}

impl HandoffService<'_> {
    /// Drafts a handoff of the thread and stores the proposal. A handoff that is pending already is shown again,
    /// without another draft; one whose draft was cut off is drafted to its end.
    ///
    /// # Errors
    /// [`journal::Error::HandoffPending`] when the pending one was asked for with another goal or window;
    /// [`HandoffError::Stopped`] when the draft was stopped. When another run is active, or the journal fails.
    pub async fn request(
        self,
        thread_id: ThreadId,
        request: HandoffRequest,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<PendingHandoff> {
        let thread = self.agent.thread(thread_id).await?;
        if handoff::is_blank(&*self.agent.store, &thread).await? {
            return Err(HandoffError::EmptyThread(thread_id).into());
        }
        let before = handoff::pending(&*self.agent.store, thread_id).await?;
        self.agent.runs().sweep(frames, cancel).await?;
        self.agent.runs().take_up(thread_id, frames, cancel).await?;
        let pending = self.unexpired(handoff::pending(&*self.agent.store, thread_id).await?).await?;
        let pending = pending.filter(|handoff| handoff.status.is_pending());
        if let (Some(before), None) = (before, &pending) {
            // Recovery finished a handoff that was decided before a crash; asking again would draft a second one.
            let now = self.agent.store.handoff(before.handoff_id).await?;
            if let Some(decided) = now.filter(|handoff| handoff.status != HandoffStatus::Expired) {
                return Err(decided_as(&decided).into());
            }
        }
        let mut start = match &pending {
            Some(handoff) if !is_same(&request, handoff) => {
                let (parent_thread_id, handoff_id) = (thread_id, handoff.handoff_id);
                return Err(journal::Error::HandoffPending { parent_thread_id, handoff_id }.into());
            }
            Some(handoff) => match self.interrupt_of(handoff).await? {
                Some(interrupt) => return self.shown(handoff.clone(), interrupt, Shown::Again).await,
                None => match self.get(handoff.handoff_id).await? {
                    now if now.status.is_pending() => self.restart(&now).await?,
                    decided => return Err(decided_as(&decided).into()),
                },
            },
            None => handoff::start(&Request {
                handoff_id: HandoffId::generate(),
                child_thread_id: ThreadId::generate(),
                parent_thread_id: thread_id,
                assistant_id: thread.assistant_id.clone(),
                now: Timestamp::now(),
                // Who asks and where is not for a client to say.
                options: Options {
                    workspace: self.agent.threads().workspace_of(&thread).await?,
                    tool_call_id: None,
                    ..request
                },
            })
            .map_err(|failure| HandoffError::NotDrafted { thread_id, reason: failure.message })?,
        };
        start.channels.extend(Purpose::Handoff.channels());
        let end = self.agent.runs().run_prepared(thread_id, start, frames, cancel).await?;
        self.proposed(thread_id, end).await
    }

    /// Returns what takes up a pending handoff whose run ended before it asked.
    async fn restart(self, handoff: &Handoff) -> Result<Start> {
        let before = self.agent.store.checkpoint(handoff.parent_thread_id).await?;
        let channels = before.map(|point| point.channels).unwrap_or_default();
        Ok(handoff::restart(handoff, &channels)?)
    }

    async fn proposed(self, thread_id: ThreadId, end: RunEnd) -> Result<PendingHandoff> {
        let Some(interrupt) = end.interrupts.first().cloned() else {
            return Err(not_drafted(thread_id, end).into());
        };
        let filter =
            HandoffFilter { parent_thread_id: Some(thread_id), limit: Some(1), ..HandoffFilter::default() };
        let newest = self.agent.store.handoffs(filter).await?.into_iter().next();
        match newest {
            Some(handoff) if handoff.status.is_pending() => {
                self.shown(handoff, interrupt, Shown::First).await
            }
            // Someone else saw the proposal first, and decided.
            Some(handoff) => Err(decided_as(&handoff).into()),
            None => Err(ThreadError::Unknown(thread_id.to_string()).into()),
        }
    }

    /// Answers a pending handoff. The first decision holds.
    ///
    /// # Errors
    /// [`HandoffError::Decided`] when someone else was first; [`runtime::Error::Rejected`] when the decision cannot be
    /// taken, and the handoff still waits then.
    pub async fn decide(
        self,
        handoff_id: HandoffId,
        decisions: &Decisions,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Decided> {
        let thread_id = self.get(handoff_id).await?.parent_thread_id;
        self.agent.runs().take_up(thread_id, frames, cancel).await?;
        let handoff = self.get(handoff_id).await?;
        let Some(handoff) = self.unexpired(Some(handoff)).await? else {
            return Err(expired(handoff_id, None).into());
        };
        let Some(interrupt) = self.interrupt_of(&handoff).await? else {
            // Read again: the answer may have been stored between the two reads.
            return Err(decided_as(&self.get(handoff_id).await?).into());
        };
        let proposals = self.agent.store.proposals(handoff_id).await?;
        let interrupt = self.present(&handoff, &proposals, interrupt).await?;
        match self.agent.runs().answer(&interrupt, decisions, frames, cancel).await {
            Ok(Some(end)) => self.decided(handoff_id, end, frames).await,
            Ok(None)
            | Err(Error::Run(RunError::Refused(_)) | Error::Journal(journal::Error::AlreadyDecided { .. })) => {
                Err(decided_as(&self.get(handoff_id).await?).into())
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a draft that was stopped before it began, as one that was stopped on its way: without a word to a model, the
    /// last good proposal waits again, and without one nothing is left of the handoff.
    pub(crate) async fn end_stopped(self, thread_id: ThreadId, end: &RunEnd, frames: &Frames) -> Result<()> {
        if !matches!(end.status, RunStatus::Cancelled | RunStatus::Timeout) {
            return Ok(());
        }
        let pending = handoff::pending(&*self.agent.store, thread_id).await?;
        let Some(handoff) = pending.filter(|handoff| handoff.status == HandoffStatus::Drafting) else {
            return Ok(());
        };
        let stopped = CancellationToken::new();
        stopped.cancel();
        let mut start = self.restart(&handoff).await?;
        start.channels.extend(Purpose::Handoff.channels());
        self.agent.runs().run_prepared(thread_id, start, frames, &stopped).await.map(drop)
    }

    async fn decided(self, handoff_id: HandoffId, end: RunEnd, frames: &Frames) -> Result<Decided> {
        let handoff = self.get(handoff_id).await?;
        let (parent, status) = (handoff.parent_thread_id, handoff.status);
        let is_broken = matches!(end.status, RunStatus::Error | RunStatus::Timeout) && status.is_pending();
        if is_broken || status == HandoffStatus::Drafting {
            return Err(not_drafted(parent, end).into());
        }
        let asked = end.interrupts.iter().find(|interrupt| is_about(interrupt, handoff_id)).cloned();
        let next = match asked {
            Some(interrupt) => Some(self.shown(handoff.clone(), interrupt, Shown::First).await?),
            // A refinement that was stopped: the last proposal is asked about again, without another draft.
            None if status == HandoffStatus::AwaitingDecision => {
                let unhurried = CancellationToken::new();
                let again = self.request(parent, Options::default(), frames, &unhurried);
                Some(Box::pin(again).await?)
            }
            None => None,
        };
        let proposal = match &next {
            Some(next) => next.proposal.clone(),
            None => self.agent.store.proposals(handoff_id).await?.pop().ok_or_else(|| unknown(handoff_id))?,
        };
        let accepted =
            matches!(status, HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned);
        let child_thread_id = accepted.then_some(handoff.child_thread_id);
        Ok(Decided { handoff, proposal, child_thread_id, next, end })
    }

    /// Returns the handoffs that wait for a decision, of one thread or of all, newest first.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn pending(self, thread_id: Option<ThreadId>) -> Result<Vec<PendingHandoff>> {
        let filter = HandoffFilter {
            parent_thread_id: thread_id,
            statuses: vec![HandoffStatus::AwaitingDecision],
            ..HandoffFilter::default()
        };
        let mut pending = Vec::new();
        for handoff in
            self.agent.store.handoffs(filter).await?.into_iter().filter(|handoff| !self.is_old(handoff))
        {
            if let Some(interrupt) = self.interrupt_of(&handoff).await? {
                pending.push(self.shown(handoff, interrupt, Shown::Again).await?);
            }
        }
        Ok(pending)
    }

    /// Returns the handoff, which must exist.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`] when it does not.
    pub async fn get(self, handoff_id: HandoffId) -> Result<Handoff> {
        Ok(self.agent.store.handoff(handoff_id).await?.ok_or_else(|| unknown(handoff_id))?)
    }

    async fn interrupt_of(self, handoff: &Handoff) -> Result<Option<Interrupt>> {
        let pending = self.agent.store.pending_interrupts(handoff.parent_thread_id).await?;
        Ok(pending.into_iter().find(|interrupt| is_about(interrupt, handoff.handoff_id)))
    }

    async fn shown(self, handoff: Handoff, interrupt: Interrupt, shown: Shown) -> Result<PendingHandoff> {
        let mut proposals = self.agent.store.proposals(handoff.handoff_id).await?;
        let interrupt = self.present(&handoff, &proposals, interrupt).await?;
        let proposal = proposals.pop().ok_or_else(|| unknown(handoff.handoff_id))?;
        let args = interrupt.payload.action_requests.first().map(|request| &request.args);
        let text = |key: &str| Some(args?.get(key)?.as_str()?.to_owned());
        let number = |key: &str| args.and_then(|args| args.get(key)?.as_u64()).unwrap_or(0);
        Ok(PendingHandoff {
            uncovered_messages: number("uncovered_messages"),
            remaining_refinements: u32::try_from(number("remaining_refinements")).unwrap_or(u32::MAX),
            problem: text("problem"),
            unused_feedback: text("unused_feedback"),
            is_new: shown == Shown::First,
            handoff,
            interrupt,
            proposal,
        })
    }

    /// Returns the interrupt with what changes while it waits as it is at present: the messages that are not
    /// covered, and the refinements that are left.
    async fn present(
        self,
        handoff: &Handoff,
        proposals: &[Proposal],
        mut interrupt: Interrupt,
    ) -> Result<Interrupt> {
        let covered = proposals.last().map_or(0, |proposal| proposal.summary_json.coverage.last_seq);
        let uncovered = self.agent.store.messages_after(handoff.parent_thread_id, covered).await?;
        let left = self.agent.approval(self.agent.models.usable().as_ref()).remaining_refinements(proposals);
        for request in &mut interrupt.payload.action_requests {
            request.args["uncovered_messages"] = uncovered.into();
            request.args["remaining_refinements"] = left.into();
        }
        Ok(interrupt)
    }
}

/// Returns whether `request` asks for nothing that the pending handoff was not asked for.
fn is_same(request: &HandoffRequest, pending: &Handoff) -> bool {
    let of = serde_json::from_value::<Options>(pending.options.clone()).unwrap_or_default();
    let same_goal = request.goal.is_none() || request.goal == of.goal;
    let same_window = request.messages.is_none() || request.messages == of.messages;
    same_goal && same_window
}

fn is_about(interrupt: &Interrupt, handoff_id: HandoffId) -> bool {
    look::handoff_of(interrupt) == Some(handoff_id)
}

fn unknown(handoff_id: HandoffId) -> HandoffError {
    HandoffError::Unknown(handoff_id.to_string())
}

/// Returns the error of a run that ended without a proposal.
fn not_drafted(thread_id: ThreadId, end: RunEnd) -> HandoffError {
    if end.status == RunStatus::Cancelled {
        return HandoffError::Stopped(thread_id);
    }
    let message = end.failure.map(|failure| failure.message);
    let reason = message.unwrap_or_else(|| format!("the run ended as {}", end.status.as_str()));
    HandoffError::NotDrafted { thread_id, reason }
}

/// Returns the error of a decision that comes too late.
fn decided_as(handoff: &Handoff) -> HandoffError {
    let handoff_id = handoff.handoff_id;
    match handoff.status {
        HandoffStatus::Expired => expired(handoff_id, handoff.note.clone()),
        status if status.is_pending() => HandoffError::Redrafting(handoff_id),
        status => HandoffError::Decided { handoff_id, status },
    }
}

fn expired(handoff_id: HandoffId, note: Option<String>) -> HandoffError {
    HandoffError::Expired { handoff_id, reason: note.unwrap_or_else(|| handoff::UNDECIDED.to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    First,
    Again,
}
