//! Handoffs, as a front end asks for them: request, look, decide. The rules are in the `handoff` room.

use handoff::{Options, Request};
use jiff::Timestamp;
use journal::HandoffFilter;
use protocol::{Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, Proposal, RunStatus, ThreadId};
use runtime::{Frames, RunEnd};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::assembly::Purpose;
use crate::{Error, Result};

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
}

impl Agent {
    /// Drafts a handoff of the thread and stores the proposal. A handoff that is pending already is shown again,
    /// without another draft; one whose draft was cut off is drafted to its end.
    ///
    /// # Errors
    /// [`journal::Error::HandoffPending`] when the pending one was asked for with another goal or window. When another
    /// run is active, the draft was stopped, or the journal fails.
    pub async fn request_handoff(
        &self,
        thread_id: ThreadId,
        request: HandoffRequest,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<PendingHandoff> {
        let thread = self.thread(thread_id).await?;
        let before = self.pending_of(thread_id).await?;
        self.sweep(frames, cancel).await?;
        self.take_up(thread_id, frames, cancel).await?;
        let pending = self.pending_of(thread_id).await?;
        if let (Some(decided), None) = (before, &pending) {
            // Recovery finished a handoff that was decided before a crash; asking again would draft a second one.
            let status = self.handoff(decided.handoff_id).await?.status;
            return Err(Error::Decided { handoff_id: decided.handoff_id, status });
        }
        let model = self.models.open()?;
        let mut start = match &pending {
            Some(handoff) => match self.interrupt_of(handoff).await? {
                Some(interrupt) if is_same(&request, handoff) => {
                    return self.shown(handoff.clone(), interrupt, Shown::Again).await;
                }
                Some(_) => {
                    let (parent_thread_id, handoff_id) = (thread_id, handoff.handoff_id);
                    return Err(journal::Error::HandoffPending { parent_thread_id, handoff_id }.into());
                }
                None => handoff::restart(handoff)?,
            },
            None => handoff::start(&Request {
                handoff_id: HandoffId::generate(),
                child_thread_id: ThreadId::generate(),
                parent_thread_id: thread_id,
                assistant_id: thread.assistant_id,
                now: Timestamp::now(),
                options: request,
            })?,
        };
        start.channels.extend(Purpose::Handoff.channels());
        let end = self.run(thread_id, start, model.as_ref(), (frames, cancel)).await?;
        self.proposed(thread_id, end).await
    }

    async fn proposed(&self, thread_id: ThreadId, end: RunEnd) -> Result<PendingHandoff> {
        let Some(interrupt) = end.interrupts.into_iter().next() else {
            let reason = end.error.unwrap_or_else(|| format!("the run ended as {}", end.status.as_str()));
            return Err(Error::NotDrafted { thread_id, reason });
        };
        let filter = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
        let newest = self.store.handoffs(filter).await?.into_iter().next();
        match newest {
            Some(handoff) if handoff.status.is_pending() => {
                self.shown(handoff, interrupt, Shown::First).await
            }
            // Someone else saw the proposal first, and decided.
            Some(handoff) => Err(Error::Decided { handoff_id: handoff.handoff_id, status: handoff.status }),
            None => Err(Error::UnknownThread { prefix: thread_id.to_string() }),
        }
    }

    /// Answers a pending handoff. The first decision holds.
    ///
    /// # Errors
    /// [`Error::Decided`] when someone else was first; [`runtime::Error::Rejected`] when the decision cannot be
    /// taken, and the handoff still waits then.
    pub async fn decide_handoff(
        &self,
        handoff_id: HandoffId,
        decisions: &Decisions,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Decided> {
        let thread_id = self.handoff(handoff_id).await?.parent_thread_id;
        self.take_up(thread_id, frames, cancel).await?;
        let handoff = self.handoff(handoff_id).await?;
        let Some(interrupt) = self.interrupt_of(&handoff).await? else {
            return Err(Error::Decided { handoff_id, status: handoff.status });
        };
        let interrupt = self.present(&handoff, interrupt).await?;
        match self.answer(&interrupt, decisions, (frames, cancel)).await {
            Ok(Some(end)) => self.decided(handoff_id, end, frames).await,
            Ok(None)
            | Err(Error::Runtime(runtime::Error::Journal(journal::Error::AlreadyDecided { .. }))) => {
                let status = self.handoff(handoff_id).await?.status;
                Err(Error::Decided { handoff_id, status })
            }
            Err(error) => Err(error),
        }
    }

    async fn decided(&self, handoff_id: HandoffId, end: RunEnd, frames: &Frames) -> Result<Decided> {
        let handoff = self.handoff(handoff_id).await?;
        let (status, parent) = (handoff.status, handoff.parent_thread_id);
        if matches!(end.status, RunStatus::Error | RunStatus::Timeout) || status == HandoffStatus::Drafting {
            let reason = end.error.unwrap_or_else(|| "the run failed".to_owned());
            return Err(Error::NotDrafted { thread_id: parent, reason });
        }
        let next = match end.interrupts.into_iter().next() {
            Some(interrupt) => Some(self.shown(handoff.clone(), interrupt, Shown::First).await?),
            // A refinement that was stopped: the last proposal is asked about again, without another draft.
            None if status == HandoffStatus::AwaitingDecision => {
                let unhurried = CancellationToken::new();
                let again = self.request_handoff(parent, Options::default(), frames, &unhurried);
                Some(Box::pin(again).await?)
            }
            None => None,
        };
        let proposal = self.newest_proposal(&handoff).await?;
        let accepted =
            matches!(status, HandoffStatus::Accepted | HandoffStatus::Seeded | HandoffStatus::Cleaned);
        let child_thread_id = accepted.then_some(handoff.child_thread_id);
        Ok(Decided { handoff, proposal, child_thread_id, next })
    }

    /// Returns the handoffs that wait for a decision, of one thread or of all, newest first.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn pending_handoffs(&self, thread_id: Option<ThreadId>) -> Result<Vec<PendingHandoff>> {
        let filter = HandoffFilter {
            parent_thread_id: thread_id,
            statuses: vec![HandoffStatus::AwaitingDecision],
            ..HandoffFilter::default()
        };
        let mut pending = Vec::new();
        for handoff in self.store.handoffs(filter).await? {
            if let Some(interrupt) = self.interrupt_of(&handoff).await? {
                pending.push(self.shown(handoff, interrupt, Shown::Again).await?);
            }
        }
        Ok(pending)
    }

    /// Returns the handoff, which must exist.
    ///
    /// # Errors
    /// [`Error::UnknownHandoff`] when it does not.
    pub async fn handoff(&self, handoff_id: HandoffId) -> Result<Handoff> {
        self.store.handoff(handoff_id).await?.ok_or(Error::UnknownHandoff { handoff_id })
    }

    async fn pending_of(&self, thread_id: ThreadId) -> Result<Option<Handoff>> {
        let filter = HandoffFilter {
            parent_thread_id: Some(thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..HandoffFilter::default()
        };
        Ok(self.store.handoffs(filter).await?.into_iter().next())
    }

    async fn interrupt_of(&self, handoff: &Handoff) -> Result<Option<Interrupt>> {
        let id = handoff.handoff_id.to_string();
        let pending = self.store.pending_interrupts(handoff.parent_thread_id).await?;
        Ok(pending.into_iter().find(|interrupt| {
            interrupt.payload.action_requests.iter().any(|request| {
                request.args.get("handoff_id").and_then(serde_json::Value::as_str) == Some(id.as_str())
            })
        }))
    }

    async fn shown(&self, handoff: Handoff, interrupt: Interrupt, shown: Shown) -> Result<PendingHandoff> {
        let interrupt = self.present(&handoff, interrupt).await?;
        let proposal = self.newest_proposal(&handoff).await?;
        let covered = proposal.summary_json.coverage.last_seq;
        let uncovered_messages =
            handoff::uncovered_messages(&self.store, handoff.parent_thread_id, covered).await?;
        Ok(PendingHandoff { handoff, interrupt, proposal, uncovered_messages, is_new: shown == Shown::First })
    }

    /// Returns the interrupt with what changes while it waits as it is at present: the messages that are not
    /// covered, and the refinements that are left.
    async fn present(&self, handoff: &Handoff, mut interrupt: Interrupt) -> Result<Interrupt> {
        let proposals = self.store.proposals(handoff.handoff_id).await?;
        let covered = proposals.last().map_or(0, |proposal| proposal.summary_json.coverage.last_seq);
        let uncovered = handoff::uncovered_messages(&self.store, handoff.parent_thread_id, covered).await?;
        let can_refine = self.models.open()?.is_some();
        let left = handoff::refinements_left(&proposals, self.config.handoff.max_refinements);
        for request in &mut interrupt.payload.action_requests {
            request.args["uncovered_messages"] = uncovered.into();
            request.args["remaining_refinements"] = if can_refine { left } else { 0 }.into();
        }
        Ok(interrupt)
    }

    async fn newest_proposal(&self, handoff: &Handoff) -> Result<Proposal> {
        let newest = self.store.proposals(handoff.handoff_id).await?.pop();
        newest.ok_or(Error::UnknownHandoff { handoff_id: handoff.handoff_id })
    }
}

/// Returns whether `request` asks for nothing that the pending handoff was not asked for.
fn is_same(request: &HandoffRequest, pending: &Handoff) -> bool {
    let of = serde_json::from_value::<Options>(pending.options.clone()).unwrap_or_default();
    let same_goal = request.goal.is_none() || request.goal == of.goal;
    let same_window = request.messages.is_none() || request.messages == of.messages;
    same_goal && same_window
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    First,
    Again,
}
