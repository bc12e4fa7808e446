//! The handoff service: requesting and deciding handoffs. Queries, costs, expiry, statistics and the export
//! are in the files beside this one. The `handoff` crate contains the rules.

mod acceptance;
mod continuity;
pub(crate) mod cost;
mod edit_preview;
pub(crate) mod error;
mod expiry;
mod merging;
pub(crate) mod mirror;
mod package;
mod preview;
pub(crate) mod queries;
mod statistics;

use acceptance::{incomplete_acceptance_text, is_accepted};
pub(crate) use continuity::ContinuityChecks;
pub use continuity::ProbeMethod;
pub use cost::{ContextUsage, HandoffCost};
pub(crate) use merging::MergedHandoffs;
pub use merging::MergedParent;
pub use package::{ChildPackage, LineUpdate, StaleLine, StaleReason};
use queries::check_not_superseded;
pub use queries::{HandoffOrigin, HandoffReview, ListedHandoff};

use futures::future::BoxFuture;
use handoff::HandoffOptions;
use journal::HandoffFilter;
use protocol::{
    Decision, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, Proposal, RunStatus, ThreadId, Usage,
};
use runtime::{Frame, FrameSender, RunEnd, RunStart};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::assembly::RunPurpose;
use crate::{Agent, Error, HandoffError, Result, RunError, ThreadError};

/// Handoffs: requesting, reviewing and deciding them, and the export of accepted ones to PostgreSQL.
#[derive(Clone, Copy)]
pub struct HandoffService<'a> {
    /// The agent whose handoffs the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for handoffs.
    pub const fn handoffs(&self) -> HandoffService<'_> {
        HandoffService { agent: self }
    }
}

/// The options of a handoff request, such as its goal and its window of messages.
pub type HandoffRequestOptions = HandoffOptions;

/// A handoff that awaits a decision, with everything a reviewer needs.
#[derive(Debug, Clone, Serialize)]
pub struct PendingHandoff {
    /// The handoff.
    pub handoff: Handoff,
    /// The pending interrupt. Its payload contains the proposal as it is stored.
    pub interrupt: Interrupt,
    /// The newest proposal.
    pub proposal: Proposal,
    /// The number of messages in the parent thread after the range that the summary covers.
    pub uncovered_messages: u64,
    /// The number of refinements that are still allowed.
    pub remaining_refinements: u32,
    /// A problem with the newest draft, in one line; `None` if there was none. The proposal is the offline
    /// summary that replaces the draft, or the proposal before it.
    pub problem: Option<String>,
    /// The feedback that the failed draft was to incorporate.
    pub unused_feedback: Option<String>,
    /// True if this call created the proposal. `false` if it existed before and is returned again.
    pub is_new: bool,
    /// The tokens that this draft used, if it was only previewed, so that the journal has no record of them.
    #[serde(skip)]
    pub draft_usage: Option<Usage>,
}

impl PendingHandoff {
    /// Returns whether the proposal was only previewed, so that neither it nor its handoff is stored.
    pub const fn is_unstored(&self) -> bool {
        self.draft_usage.is_some()
    }

    /// Returns a proposal with the details that its interrupt contains.
    fn new(
        handoff: Handoff,
        interrupt: Interrupt,
        proposal: Proposal,
        presentation: ProposalPresentation,
    ) -> Self {
        let args = interrupt.payload.action_requests.first().map(|request| &request.args);
        let text = |key: &str| Some(args?.get(key)?.as_str()?.to_owned());
        let number = |key: &str| args.and_then(|args| args.get(key)?.as_u64()).unwrap_or(0);
        Self {
            uncovered_messages: number("uncovered_messages"),
            remaining_refinements: u32::try_from(number("remaining_refinements")).unwrap_or(u32::MAX),
            problem: text("problem"),
            unused_feedback: text("unused_feedback"),
            is_new: presentation == ProposalPresentation::First,
            draft_usage: None,
            handoff,
            interrupt,
            proposal,
        }
    }
}

/// The outcome of a decision.
#[derive(Debug, Clone, Serialize)]
pub struct HandoffOutcome {
    /// The handoff after the decision.
    pub handoff: Handoff,
    /// The proposal that was decided.
    pub proposal: Proposal,
    /// The child thread, once the handoff is accepted.
    pub child_thread_id: Option<ThreadId>,
    /// The suggested first message of the child thread. It is only offered; nothing sends it.
    pub suggested_message: Option<String>,
    /// The text about the parts of an accepted handoff that are not written yet, and when they will be; `None` if nothing is
    /// missing.
    pub incomplete_acceptance: Option<String>,
    /// The next proposal, if the decision requested a refinement or the handoff is still pending.
    pub next: Option<PendingHandoff>,
    /// The end of the run that took the decision. For a handoff that the agent requested, that run also
    /// completes the turn.
    #[serde(skip)]
    pub end: RunEnd,
}

impl<'a> HandoffService<'a> {
    /// Drafts a handoff of the thread and stores the proposal. A pending handoff is returned again without
    /// another draft. A handoff whose draft was cut off is drafted to its end.
    ///
    /// # Errors
    /// [`HandoffError::EmptyThread`] if there is nothing to hand off. [`journal::Error::HandoffPending`] if
    /// the pending handoff was requested with another goal or window. [`HandoffError::Stopped`] if the draft
    /// was cancelled. Also fails if another run is active, or if the journal fails.
    pub fn request(
        self,
        thread_id: ThreadId,
        request: HandoffRequestOptions,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<PendingHandoff>> {
        journal::box_future(async move {
            let request = with_normalized_goal(request)?;
            let thread = self.agent.thread(thread_id).await?;
            if handoff::is_blank(&*self.agent.store, &thread).await? {
                return Err(HandoffError::EmptyThread(thread_id).into());
            }
            let before = handoff::find_pending_handoff(&*self.agent.store, thread_id).await?;
            self.agent.runs().sweep_all_threads(frames, cancel).await?;
            self.agent.runs().recover_before_run(thread_id, frames, cancel).await?;
            let pending = self
                .expire_if_due(handoff::find_pending_handoff(&*self.agent.store, thread_id).await?)
                .await?;
            let pending = pending.filter(|handoff| handoff.status.is_pending());
            if let (Some(before), None) = (before, &pending) {
                // Recovery finished a handoff that was decided before a crash. Without this check a second one
                // would be drafted.
                let current = self.agent.store.handoff(before.handoff_id).await?;
                if let Some(decided) = current.filter(|handoff| handoff.status != HandoffStatus::Expired) {
                    return Err(already_decided_error(&decided).into());
                }
            }
            let mut start = match &pending {
                Some(handoff) if !is_same_request(&request, handoff) => {
                    let (parent_thread_id, handoff_id) = (thread_id, handoff.handoff_id);
                    return Err(journal::Error::HandoffPending { parent_thread_id, handoff_id }.into());
                }
                Some(handoff) => match self.handoff_interrupt(handoff).await? {
                    Some(interrupt) => {
                        notify_existing_child(&request, handoff, frames);
                        return self
                            .pending_handoff(handoff.clone(), interrupt, ProposalPresentation::Repeated)
                            .await;
                    }
                    None => match self.get(handoff.handoff_id).await? {
                        current if current.status.is_pending() => self.restart_point(&current).await?,
                        decided => return Err(already_decided_error(&decided).into()),
                    },
                },
                None => handoff::handoff_run_start(&self.prepare_request(&thread, request).await?)
                    .map_err(|failure| HandoffError::NotDrafted { thread_id, reason: failure.message })?,
            };
            start.channels.extend(RunPurpose::Handoff.entry_channels());
            let end = self.agent.runs().run_prepared(thread_id, start, frames, cancel).await?;
            self.pending_handoff_of_run(thread_id, end).await
        })
    }

    /// Returns the start of a run that drafts a pending handoff whose earlier run ended before it asked for a
    /// decision.
    async fn restart_point(self, handoff: &Handoff) -> Result<RunStart> {
        let before = self.agent.store.checkpoint(handoff.parent_thread_id).await?;
        let channels = before.map(|point| point.channels).unwrap_or_default();
        Ok(handoff::handoff_run_restart(handoff, &channels)?)
    }

    /// Returns the pending handoff after the run that drafted it.
    async fn pending_handoff_of_run(self, thread_id: ThreadId, end: RunEnd) -> Result<PendingHandoff> {
        let Some(interrupt) = end.interrupts.first().cloned() else {
            return Err(not_drafted_error(thread_id, end).into());
        };
        let filter =
            HandoffFilter { parent_thread_id: Some(thread_id), limit: Some(1), ..HandoffFilter::default() };
        let newest = self.agent.store.handoffs(filter).await?.into_iter().next();
        match newest {
            Some(handoff) if handoff.status.is_pending() => {
                self.pending_handoff(handoff, interrupt, ProposalPresentation::First).await
            }
            // Another client saw the proposal first and decided it.
            Some(handoff) => Err(already_decided_error(&handoff).into()),
            None => Err(ThreadError::Unknown(thread_id.to_string()).into()),
        }
    }

    /// Decides a pending handoff. The first decision holds.
    ///
    /// # Errors
    /// [`HandoffError::AlreadyDecided`] if another client decided first, [`HandoffError::Expired`] past the
    /// time limit, [`HandoffError::Redrafting`] while a refinement is drafted, and [`HandoffError::Superseded`] if the
    /// decision names an earlier proposal.
    /// [`runtime::Error::Rejected`] if the decision is invalid; the handoff stays pending in that case.
    pub fn decide(
        self,
        handoff_id: HandoffId,
        decisions: &'a Decisions,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<HandoffOutcome>> {
        journal::box_future(async move {
            let thread_id = self.get(handoff_id).await?.parent_thread_id;
            self.agent.runs().recover_before_run(thread_id, frames, cancel).await?;
            let handoff = self.get(handoff_id).await?;
            let Some(handoff) = self.expire_if_due(Some(handoff)).await? else {
                return Err(expired_error(handoff_id, None).into());
            };
            let Some(interrupt) = self.handoff_interrupt(&handoff).await? else {
                // The handoff is read again, because the answer may have been stored between the two reads.
                return Err(already_decided_error(&self.get(handoff_id).await?).into());
            };
            let proposals = self.agent.store.proposals(handoff_id).await?;
            check_not_superseded(handoff_id, &proposals, decisions)?;
            let interrupt = self.refresh_interrupt(&handoff, &proposals, interrupt).await?;
            match self.agent.runs().answer_interrupt(&interrupt, decisions, frames, cancel).await {
                Ok(Some(end)) => self.decision_outcome(handoff_id, decisions, end, frames).await,
                Ok(None)
                | Err(
                    Error::Run(RunError::Refused(_)) | Error::Journal(journal::Error::AlreadyDecided { .. }),
                ) => Err(already_decided_error(&self.get(handoff_id).await?).into()),
                Err(error) => match self.end_after_acceptance(handoff_id, &error).await? {
                    Some(end) => self.decision_outcome(handoff_id, decisions, end, frames).await,
                    None => Err(error),
                },
            }
        })
    }

    /// Returns the decisions, in which an acceptance that names no proposal names the current one. A caller that may wait
    /// before it decides binds an acceptance to what was current when it was sent, so that it cannot accept a later draft.
    ///
    /// # Errors
    /// [`HandoffError::NotShown`] if another client than that of this agent requested the current proposal; otherwise
    /// fails only if the journal does.
    pub fn bind_to_current(
        self,
        handoff_id: HandoffId,
        mut decisions: Decisions,
    ) -> BoxFuture<'a, Result<Decisions>> {
        journal::box_future(async move {
            let current = self.agent.store.proposals(handoff_id).await?.pop();
            if decisions.decisions.iter().any(Decision::is_unbound_acceptance)
                && let Some(interrupt) = self.handoff_interrupt(&self.get(handoff_id).await?).await?
            {
                self.check_proposal_shown(&interrupt, self.agent.client.as_deref()).await?;
            }
            let unbound = decisions.decisions.iter_mut().filter(|decision| decision.is_unbound_acceptance());
            for (decision, current) in unbound.zip(std::iter::repeat(current)) {
                let Some(proposal) = current else { continue };
                let hash = proposal.summary_sha256;
                match decision {
                    Decision::Approve { summary_sha256, .. } => *summary_sha256 = Some(hash),
                    Decision::Edit { edited_action } => {
                        edited_action.args.insert(Decision::SUMMARY_HASH_ARG.to_owned(), hash.into());
                    }
                    Decision::Reject { .. }
                    | Decision::Respond { .. }
                    | Decision::Preview {}
                    | Decision::Defer {} => {}
                }
            }
            Ok(decisions)
        })
    }

    /// Completes a draft that was cancelled before its run reached the drafting node. The result is that of a
    /// cancellation during the draft: no model is called, the last good proposal becomes pending again, and
    /// without one the handoff is removed.
    pub(crate) async fn finish_cancelled_draft(
        self,
        thread_id: ThreadId,
        end: &RunEnd,
        frames: &FrameSender,
    ) -> Result<()> {
        if !matches!(end.status, RunStatus::Cancelled | RunStatus::Timeout) {
            return Ok(());
        }
        let pending = handoff::find_pending_handoff(&*self.agent.store, thread_id).await?;
        let Some(handoff) = pending.filter(|handoff| handoff.status == HandoffStatus::Drafting) else {
            return Ok(());
        };
        let stopped = CancellationToken::new();
        stopped.cancel();
        let mut start = self.restart_point(&handoff).await?;
        start.channels.extend(RunPurpose::Handoff.entry_channels());
        self.agent.runs().run_prepared(thread_id, start, frames, &stopped).await.map(drop)
    }

    /// Returns the outcome of a decision after the run that took it.
    async fn decision_outcome(
        self,
        handoff_id: HandoffId,
        decisions: &Decisions,
        end: RunEnd,
        frames: &FrameSender,
    ) -> Result<HandoffOutcome> {
        let handoff = self.get(handoff_id).await?;
        let (parent, status) = (handoff.parent_thread_id, handoff.status);
        let is_broken = matches!(end.status, RunStatus::Error | RunStatus::Timeout) && status.is_pending();
        if is_broken || status == HandoffStatus::Drafting {
            return Err(not_drafted_error(parent, end).into());
        }
        let question =
            end.interrupts.iter().find(|interrupt| is_about_handoff(interrupt, handoff_id)).cloned();
        let next = match question {
            Some(interrupt) => {
                Some(self.pending_handoff(handoff.clone(), interrupt, ProposalPresentation::First).await?)
            }
            // The refinement was cancelled: the last proposal is presented again, without another draft.
            None if status == HandoffStatus::AwaitingDecision => {
                let never_cancelled = CancellationToken::new();
                let repeated = self.request(parent, HandoffOptions::default(), frames, &never_cancelled);
                let next = Box::pin(repeated).await?;
                let unused_feedback = feedback_of(decisions).map(str::to_owned);
                Some(PendingHandoff { unused_feedback: unused_feedback.or(next.unused_feedback), ..next })
            }
            None => None,
        };
        let proposal = match &next {
            Some(next) => next.proposal.clone(),
            None => self
                .agent
                .store
                .proposals(handoff_id)
                .await?
                .pop()
                .ok_or_else(|| unknown_handoff_error(handoff_id))?,
        };
        let child_thread_id = is_accepted(status).then_some(handoff.child_thread_id);
        let agent_md = self.agent.agent_file(&handoff.assistant_id);
        let incomplete_acceptance = (status == HandoffStatus::Accepted)
            .then(|| incomplete_acceptance_text(&handoff, agent_md.path(), &end));
        if let Some(text) = incomplete_acceptance.clone() {
            frames.send(Frame::Notice { text });
        }
        let suggested_message =
            child_thread_id.and_then(|_| handoff::suggested_message(&proposal.summary_json));
        Ok(HandoffOutcome {
            handoff,
            proposal,
            child_thread_id,
            suggested_message,
            incomplete_acceptance,
            next,
            end,
        })
    }

    /// Returns the handoffs that await a decision, of one thread or of all, newest first. Handoffs past their
    /// time limit are left out.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn pending(self, thread_id: Option<ThreadId>) -> BoxFuture<'a, Result<Vec<PendingHandoff>>> {
        journal::box_future(async move {
            let filter = HandoffFilter {
                parent_thread_id: thread_id,
                statuses: vec![HandoffStatus::AwaitingDecision],
                ..HandoffFilter::default()
            };
            let mut pending = Vec::new();
            for handoff in self
                .agent
                .store
                .handoffs(filter)
                .await?
                .into_iter()
                .filter(|handoff| !self.is_past_expiry(handoff))
            {
                if let Some(interrupt) = self.handoff_interrupt(&handoff).await? {
                    pending.push(
                        self.pending_handoff(handoff, interrupt, ProposalPresentation::Repeated).await?,
                    );
                }
            }
            Ok(pending)
        })
    }

    /// Returns a handoff.
    ///
    /// # Errors
    /// [`HandoffError::Unknown`] if it does not exist or belongs to another owner.
    pub fn get(self, handoff_id: HandoffId) -> BoxFuture<'a, Result<Handoff>> {
        journal::box_future(async move {
            Ok(self
                .agent
                .store
                .handoff(handoff_id)
                .await?
                .ok_or_else(|| unknown_handoff_error(handoff_id))?)
        })
    }

    /// Returns the pending interrupt of a handoff; `None` if it has none.
    async fn handoff_interrupt(self, handoff: &Handoff) -> Result<Option<Interrupt>> {
        let pending = self.agent.store.pending_interrupts(handoff.parent_thread_id).await?;
        Ok(pending.into_iter().find(|interrupt| is_about_handoff(interrupt, handoff.handoff_id)))
    }

    /// Returns a handoff with its interrupt, its newest proposal and the details for a reviewer.
    async fn pending_handoff(
        self,
        handoff: Handoff,
        interrupt: Interrupt,
        presentation: ProposalPresentation,
    ) -> Result<PendingHandoff> {
        let mut proposals = self.agent.store.proposals(handoff.handoff_id).await?;
        let interrupt = self.refresh_interrupt(&handoff, &proposals, interrupt).await?;
        let proposal = proposals.pop().ok_or_else(|| unknown_handoff_error(handoff.handoff_id))?;
        Ok(PendingHandoff::new(handoff, interrupt, proposal, presentation))
    }

    /// Returns the interrupt with the values that change while it is pending: the number of uncovered
    /// messages and the remaining refinements.
    async fn refresh_interrupt(
        self,
        handoff: &Handoff,
        proposals: &[Proposal],
        mut interrupt: Interrupt,
    ) -> Result<Interrupt> {
        let covered = proposals.last().map_or(0, |proposal| proposal.summary_json.coverage.last_seq);
        let uncovered = self.agent.store.messages_after(handoff.parent_thread_id, covered).await?;
        let remaining = self
            .agent
            .handoff_approval_node(self.agent.models.open_if_usable().as_ref())
            .remaining_refinements(proposals);
        for request in &mut interrupt.payload.action_requests {
            request.args["uncovered_messages"] = uncovered.into();
            request.args["remaining_refinements"] = remaining.into();
        }
        Ok(interrupt)
    }
}

/// Returns the request with its goal as it is stored.
fn with_normalized_goal(request: HandoffRequestOptions) -> Result<HandoffRequestOptions> {
    let goal = handoff::normalize_goal(request.goal).map_err(HandoffError::GoalTooLong)?;
    Ok(HandoffRequestOptions { goal, ..request })
}

/// Returns whether the pending handoff already has everything that `request` specifies. Options that the
/// request leaves open match any value.
fn is_same_request(request: &HandoffRequestOptions, pending: &Handoff) -> bool {
    let existing = serde_json::from_value::<HandoffOptions>(pending.options.clone()).unwrap_or_default();
    let same_goal = request.goal.is_none() || request.goal == existing.goal;
    let same_window = request.messages.is_none() || request.messages == existing.messages;
    let same_child = request.into.is_none() || request.into == existing.into;
    same_goal && same_window && same_child
}

/// Tells the person that a pending handoff goes into an existing thread, if the request does not say so.
fn notify_existing_child(request: &HandoffRequestOptions, pending: &Handoff, frames: &FrameSender) {
    let existing = serde_json::from_value::<HandoffOptions>(pending.options.clone()).unwrap_or_default();
    if let (None, Some(child)) = (request.into, existing.into) {
        let text = format!(
            "This handoff was requested before, into thread {child}: an acceptance adds the summary there. \
             For a new thread, decline it and request it again."
        );
        frames.send(Frame::Notice { text });
    }
}

/// Returns the feedback of a decision that asks for a refined draft.
fn feedback_of(decisions: &Decisions) -> Option<&str> {
    decisions.decisions.iter().find_map(|decision| match decision {
        Decision::Edit { edited_action } => edited_action.args.get("feedback")?.as_str(),
        Decision::Approve { .. }
        | Decision::Reject { .. }
        | Decision::Respond { .. }
        | Decision::Preview {}
        | Decision::Defer {} => None,
    })
}

/// Returns whether the interrupt is the question of that handoff.
fn is_about_handoff(interrupt: &Interrupt, handoff_id: HandoffId) -> bool {
    queries::handoff_id_of(interrupt) == Some(handoff_id)
}

/// Builds the error for a handoff that does not exist.
fn unknown_handoff_error(handoff_id: HandoffId) -> HandoffError {
    HandoffError::Unknown(handoff_id.to_string())
}

/// Builds the error for a run that ended without a proposal.
fn not_drafted_error(thread_id: ThreadId, end: RunEnd) -> HandoffError {
    if end.status == RunStatus::Cancelled {
        return HandoffError::Stopped(thread_id);
    }
    let message = end.failure.map(|failure| failure.message);
    let reason = message.unwrap_or_else(|| format!("the run ended as {}", end.status.as_str()));
    HandoffError::NotDrafted { thread_id, reason }
}

/// Builds the error for a decision that comes too late, from the handoff's current status.
fn already_decided_error(handoff: &Handoff) -> HandoffError {
    let handoff_id = handoff.handoff_id;
    match handoff.status {
        HandoffStatus::Expired => expired_error(handoff_id, handoff.note.clone()),
        status if status.is_pending() => HandoffError::Redrafting(handoff_id),
        status => HandoffError::AlreadyDecided { handoff_id, status },
    }
}

/// Builds the error for an expired handoff. `note` is the recorded reason, if it is known.
fn expired_error(handoff_id: HandoffId, note: Option<String>) -> HandoffError {
    HandoffError::Expired { handoff_id, reason: note.unwrap_or_else(|| handoff::UNDECIDED_NOTE.to_owned()) }
}

/// The presentation of a proposal: for the first time, or again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProposalPresentation {
    /// The call created the proposal.
    First,
    /// The proposal existed before.
    Repeated,
}
