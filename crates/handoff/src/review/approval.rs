//! The node that asks for a decision, and turns the answer into what follows. It has no side effect: the rows of an accept
//! become durable with the answer, and what lies outside the journal is an activity performed after it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Store, Write};
use protocol::event::body::{
    DraftRequest, HandoffDeclined, HandoffExpired, HandoffPreviewed, HandoffRefined, HandoffReverted,
};
use protocol::{
    Decision, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, NewEvent, Proposal, ToolStatus,
};
use runtime::{
    Ask, ChannelError, Channels, Failure, FailureKind, Node, Question, Rejection, StepContext, Update,
};

use crate::accept;
use crate::draft::summarization::Drafting;
use crate::lifecycle::log::Line;
use crate::lifecycle::{Step, moved};
use crate::request::tool;
use crate::request::{ASKER_CHANNEL, Asker};
use crate::review::decide::{self, Edited, Outcome};
use crate::review::payload::{Situation, payload};
use crate::state::{HandoffInput, HandoffState, ProposalRef, Refinement, Revision, changed};

/// The name of the node.
pub const APPROVAL_NODE: &str = "handoff_approval";

/// Asks for a decision about the stored proposal.
#[derive(Clone)]
pub struct HandoffApproval {
    /// How another draft would be made.
    pub drafting: Drafting,
    /// How often a proposal may be refined.
    pub max_refinements: u32,
}

#[async_trait]
impl Node for HandoffApproval {
    fn name(&self) -> &'static str {
        APPROVAL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let state = match HandoffState::read(step.channels) {
            Ok(state) => state.ok_or_else(lost)?,
            Err(error) => return end_unreadable(&step, error).await,
        };
        let handoff_id = state.in_progress().ok_or_else(lost)?.metadata.handoff_id;
        let handoff = step.store.handoff(handoff_id).await?.ok_or_else(lost)?;
        let mut proposals = step.store.proposals(handoff_id).await?;
        proposals.extend(unwritten(&step, handoff_id));
        let Some(decisions) = step.answer(APPROVAL_NODE) else {
            let ask = self.ask(&step, &state, &proposals).await?;
            return Ok(Update { asks: vec![ask], ..Update::default() });
        };
        let current = proposals.last().ok_or_else(lost)?;
        let left = self.remaining_refinements(&proposals);
        let outcome = decide::single(decisions)
            .and_then(|decision| decide::outcome(current, left, decision))
            .map_err(|rejection| Failure::new(FailureKind::Internal, rejection.to_string()))?;
        let now = Timestamp::now();
        let review = Review { step: &step, handoff: &handoff, proposals: &proposals, current, now };
        let mut taken = review.take(outcome).await?;
        let state = state.next(taken.input)?;
        taken.update.channels.extend(changed(state.channels(), step.channels));
        if let Some(shown) = taken.shown {
            proposals.push(shown);
            taken.update.asks.push(self.ask(&step, &state, &proposals).await?);
        }
        Ok(taken.update)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn question(&self) -> Question {
        // What is said in the parent meanwhile is counted as not covered; the proposal stays as it was shown.
        Question::OfThread
    }

    fn takes_unlisted(&self, decision: &Decision) -> bool {
        // At the cap `edit` is no longer listed, which takes feedback away and leaves a person's own text.
        matches!(decision, Decision::Edit { .. })
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        let proposal = decide::shown(interrupt)?;
        let proposals = store.proposals(proposal.handoff_id).await;
        let proposals = proposals.map_err(|error| Rejection::Invalid(format!("failed to {error}")))?;
        let can_refine = self.can_refine(&proposal);
        let no_model = || {
            let why =
                "no model is configured to redraft: edit the text yourself, or set one up (`segue models`)";
            Err(Rejection::Invalid(why.to_owned()))
        };
        // Without a model nothing is left, which is not because it was used up.
        let left = if can_refine { self.remaining_refinements(&proposals) } else { 1 };
        match decide::outcome(&proposal, left, decide::single(decisions)?)? {
            Outcome::Refine(_) if !can_refine => no_model(),
            Outcome::Redraft(None) if self.drafting.model.is_none() => no_model(),
            Outcome::Redraft(Some(name)) => self.drafting.named(&name).map(drop).map_err(|problem| {
                Rejection::Invalid(format!("another draft by `{name}` cannot be made: {problem}"))
            }),
            Outcome::Accept
            | Outcome::AcceptEdited(_)
            | Outcome::Refine(_)
            | Outcome::Revert(_)
            | Outcome::Redraft(None)
            | Outcome::Decline(_)
            | Outcome::Preview => Ok(()),
        }
    }
}

impl HandoffApproval {
    /// Returns how often the newest of `proposals` may still be refined: never without a model.
    pub fn remaining_refinements(&self, proposals: &[Proposal]) -> u32 {
        match proposals.last() {
            Some(newest) if self.can_refine(newest) => {
                self.max_refinements.saturating_sub(refinements(proposals))
            }
            Some(_) | None => 0,
        }
    }

    /// A person may have had the proposal drafted by a model of their choice where none is configured.
    fn can_refine(&self, newest: &Proposal) -> bool {
        self.drafting.model.is_some()
            || matches!(self.drafting.named(&newest.summary_json.model), Ok(Some(_)))
    }

    async fn ask(
        &self,
        step: &StepContext<'_>,
        state: &HandoffState,
        proposals: &[Proposal],
    ) -> Result<Ask, Failure> {
        let current = proposals.last().ok_or_else(lost)?;
        let covered = current.summary_json.coverage.last_seq;
        let metadata = &state.in_progress().ok_or_else(lost)?.metadata;
        let situation = Situation {
            options: metadata.options.clone(),
            uncovered_messages: step.store.messages_after(metadata.parent_thread_id, covered).await?,
            remaining_refinements: self.remaining_refinements(proposals),
            is_capped: refinements(proposals) >= self.max_refinements,
            feedback_history: proposals.iter().filter_map(|proposal| proposal.feedback.clone()).collect(),
            problem: state.problem().cloned(),
        };
        Ok(Ask { key: APPROVAL_NODE.to_owned(), payload: payload(current, &situation)? })
    }
}

/// Returns the proposals that were drafted just before, and become durable with the question about them.
fn unwritten(step: &StepContext<'_>, handoff_id: HandoffId) -> Option<Proposal> {
    step.unwritten.iter().find_map(|write| {
        let Write::PutProposal(proposal) = write else { return None };
        (proposal.handoff_id == handoff_id).then(|| proposal.clone())
    })
}

/// Returns how often `proposals` were refined.
fn refinements(proposals: &[Proposal]) -> u32 {
    let used = proposals.iter().filter(|proposal| proposal.feedback.is_some()).count();
    u32::try_from(used).unwrap_or(u32::MAX)
}

/// A proposal that a person has decided about.
struct Review<'a> {
    step: &'a StepContext<'a>,
    handoff: &'a Handoff,
    proposals: &'a [Proposal],
    /// The newest of them.
    current: &'a Proposal,
    now: Timestamp,
}

/// What a decision changes.
struct TakenDecision {
    /// Everything but the state.
    update: Update,
    /// What it means for the state.
    input: HandoffInput,
    /// The proposal that is to be asked about next, when there is one at once.
    shown: Option<Proposal>,
}

impl TakenDecision {
    const fn new(update: Update, input: HandoffInput) -> Self {
        Self { update, input, shown: None }
    }
}

impl Review<'_> {
    /// Returns what a checked decision changes.
    async fn take(&self, outcome: Outcome) -> Result<TakenDecision, Failure> {
        match outcome {
            Outcome::Accept => self.accept(self.current).await,
            Outcome::AcceptEdited(edited) => self.accept_edited(*edited).await,
            Outcome::Refine(feedback) => {
                let refinement = Refinement {
                    iteration: self.current.iteration,
                    feedback,
                    summary_md: self.current.summary_md.clone(),
                    timestamp: self.now,
                };
                let request = DraftRequest::Feedback { feedback: refinement.feedback.clone() };
                self.revise(request, Revision::Refine(refinement))
            }
            Outcome::Redraft(model) => {
                self.revise(DraftRequest::Model { model: model.clone() }, Revision::Redraft { model })
            }
            Outcome::Revert(to) => self.revert(to),
            Outcome::Decline(message) => {
                Line::Skipped("it was declined").of(self.handoff, Some(self.current));
                let update = decline(self.handoff, message, self.now)?;
                Ok(TakenDecision::new(update, HandoffInput::Decline))
            }
            Outcome::Preview => {
                Line::Skipped("it was previewed").of(self.handoff, Some(self.current));
                let update = preview(self.handoff, self.now)?;
                Ok(TakenDecision::new(update, HandoffInput::Preview))
            }
        }
    }

    async fn accept(&self, proposal: &Proposal) -> Result<TakenDecision, Failure> {
        let update = accept::accepted(&**self.step.store, self.handoff, proposal, self.now).await?;
        let child_thread_id = self.handoff.child_thread_id;
        Ok(TakenDecision::new(update, HandoffInput::Accept { child_thread_id }))
    }

    /// A person's own text is stored as one more proposal, so that what is injected is always one.
    async fn accept_edited(&self, edited: Edited) -> Result<TakenDecision, Failure> {
        let mut summary_json = edited.summary_json;
        summary_json.iteration = self.current.iteration + 1;
        let proposal = Proposal {
            handoff_id: self.handoff.handoff_id,
            iteration: summary_json.iteration,
            summary_json,
            summary_sha256: protocol::sha256_hex(&edited.summary_md),
            summary_md: edited.summary_md,
            feedback: None,
            created_at: self.now,
        };
        let mut taken = self.accept(&proposal).await?;
        taken.update.writes.insert(0, Write::PutProposal(proposal));
        Ok(taken)
    }

    /// Returns what shows the text of iteration `to` again.
    fn revert(&self, to: u32) -> Result<TakenDecision, Failure> {
        let reverted = self.proposals.iter().find(|proposal| proposal.iteration == to);
        let mut proposal = reverted.ok_or_else(lost)?.clone();
        proposal.iteration = self.current.iteration + 1;
        proposal.summary_json.iteration = proposal.iteration;
        // Nobody was paid for it again.
        proposal.summary_json.tokens_used = 0;
        proposal.feedback = None;
        proposal.created_at = self.now;
        let handoff_id = self.handoff.handoff_id;
        let reverted = HandoffReverted { handoff_id, iteration: proposal.iteration, reverted_to: to };
        let events = vec![NewEvent::of(&reverted, self.now)?];
        let patch = HandoffPatch { iteration: Some(proposal.iteration), ..HandoffPatch::default() };
        let moved = moved(self.handoff, Step::Revert, patch, self.now)?;
        let writes = vec![Write::PutProposal(proposal.clone()), moved];
        let update = Update { events, writes, ..Update::default() };
        let input = HandoffInput::Revert(ProposalRef::of(&proposal));
        Ok(TakenDecision { update, input, shown: Some(proposal) })
    }

    /// Returns what begins another draft; `request` is what its event says of it.
    fn revise(&self, request: DraftRequest, revision: Revision) -> Result<TakenDecision, Failure> {
        let handoff_id = self.handoff.handoff_id;
        let refined = HandoffRefined { request, handoff_id, iteration: self.current.iteration };
        let iteration = Some(self.current.iteration + 1);
        let patch = HandoffPatch { iteration, ..HandoffPatch::default() };
        let events = vec![NewEvent::of(&refined, self.now)?];
        let writes = vec![moved(self.handoff, Step::Draft, patch, self.now)?];
        let update = Update { events, writes, ..Update::default() };
        Ok(TakenDecision::new(update, HandoffInput::Revise(revision)))
    }
}

/// Ends the handoff of a thread whose state cannot be read, if that is what the person decided; its row says which it is.
///
/// # Errors
/// After any other decision, for it would depend on what cannot be read.
async fn end_unreadable(step: &StepContext<'_>, error: ChannelError) -> Result<Update, Failure> {
    let decision = step.answer(APPROVAL_NODE).map(decide::single);
    let Some(handoff) = tool::pending(&**step.store, step.thread_id).await? else { return Err(error.into()) };
    let now = Timestamp::now();
    let (mut update, state) = match decision {
        Some(Ok(Decision::Reject { message })) => {
            (decline(&handoff, message.clone(), now)?, HandoffState::Declined)
        }
        Some(Ok(Decision::Preview {})) => (preview(&handoff, now)?, HandoffState::Previewed),
        Some(Ok(Decision::Approve { .. } | Decision::Edit { .. } | Decision::Respond { .. }) | Err(_))
        | None => return Err(error.into()),
    };
    update.channels.extend(changed(state.channels(), step.channels));
    Ok(update)
}

/// Returns what ends a pending handoff of a thread with these channels, because a person put everything aside that waits
/// there: it is declined, and a call of the agent that asked for it has its result. One that was cut off before its first
/// proposal is given up. The question about it is the caller's to withdraw.
///
/// # Errors
/// When the handoff is decided already.
pub fn put_aside(
    handoff: &Handoff,
    channels: &Channels,
    message: Option<String>,
    now: Timestamp,
) -> Result<Update, Failure> {
    let mut update = if handoff.status == HandoffStatus::AwaitingDecision {
        decline(handoff, message.clone(), now)?
    } else {
        let event = NewEvent::of(&HandoffExpired { handoff_id: handoff.handoff_id }, now)?;
        ended(handoff, Step::Expire, event, message.clone())?
    };
    update.channels.extend(HandoffState::Declined.channels());
    let asker = Asker::left_behind(channels);
    ASKER_CHANNEL.clear(&mut update.channels);
    if let Some(asker) = asker.filter(|asker| asker.handoff_id == handoff.handoff_id) {
        let text = tool::declined(message.as_deref());
        update.merge(tool::answered(&asker, ToolStatus::Error, text, now)?);
    }
    Ok(update)
}

fn decline(handoff: &Handoff, message: Option<String>, now: Timestamp) -> Result<Update, Failure> {
    let declined = HandoffDeclined { handoff_id: handoff.handoff_id, message: message.clone() };
    let event = NewEvent::of(&declined, now)?;
    ended(handoff, Step::Decline, event, message)
}

fn preview(handoff: &Handoff, now: Timestamp) -> Result<Update, Failure> {
    let event = NewEvent::of(&HandoffPreviewed { handoff_id: handoff.handoff_id }, now)?;
    ended(handoff, Step::Preview, event, None)
}

/// Returns the event and the row of a handoff that leads nowhere.
fn ended(handoff: &Handoff, step: Step, event: NewEvent, note: Option<String>) -> Result<Update, Failure> {
    let patch = HandoffPatch { note, ..HandoffPatch::default() };
    let write = moved(handoff, step, patch, event.created_at)?;
    Ok(Update { events: vec![event], writes: vec![write], ..Update::default() })
}

fn lost() -> Failure {
    Failure::new(FailureKind::Internal, "find the proposal that waits for a decision")
}
