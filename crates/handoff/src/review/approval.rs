//! The node that asks a person for a decision about the proposal, and applies the decision.
//!
//! The node has no side effect. The rows that a decision changes are committed together with the decision; effects
//! outside the journal are an activity that is performed afterwards.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Store, Write};
use protocol::event::body::{
    DraftRequest, HandoffDeclined, HandoffEdited, HandoffExpired, HandoffPreviewed, HandoffRefined,
    HandoffReverted,
};
use protocol::{
    Decision, Decisions, Handoff, HandoffId, HandoffStatus, Interrupt, NewEvent, Proposal, ToolStatus,
};
use runtime::{
    ChannelError, Channels, DecisionRejection, FailureKind, Frame, GraphUpdate, InterruptRequest, Node,
    QuestionLifetime, StepContext, StepFailure,
};

use crate::accept;
use crate::accept::waiting_calls::{self, AcceptedPackage, WaitingCalls};
use crate::draft::summarization::DraftSettings;
use crate::draft::window::ThreadSource;
use crate::lifecycle::log::HandoffLogLine;
use crate::lifecycle::{HandoffAction, transition_write};
use crate::request::tool;
use crate::request::{WAITING_CALL_CHANNEL, WaitingToolCall, current_handoff};
use crate::review::decide::{self, DecisionOutcome, EditedSummary};
use crate::review::edit::grounding::EditGrounding;
use crate::review::payload::{ReviewContext, review_payload};
use crate::state::{HandoffInput, HandoffState, ProposalRef, Refinement, Revision, changed_channels};
use crate::summary::render;

/// The maximum length of a call in an error, in grapheme clusters.
const CALL_GRAPHEMES_MAX: usize = 80;
/// The name of the node.
pub const APPROVAL_NODE: &str = "handoff_approval";

/// The node that raises the interrupt about the stored proposal and applies the decision.
#[derive(Clone)]
pub struct HandoffApproval {
    /// The settings of drafting, from which it follows whether another draft is possible.
    pub drafting: DraftSettings,
    /// The maximum number of refinements of a handoff (`handoff.max_refinements`).
    pub max_refinements: u32,
}

#[async_trait]
impl Node for HandoffApproval {
    fn name(&self) -> &'static str {
        APPROVAL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        let state = match HandoffState::read(step.channels) {
            Ok(state) => state.ok_or_else(missing_proposal_failure)?,
            Err(error) => return end_unreadable_handoff(&step, error).await,
        };
        let handoff_id = state.in_progress().ok_or_else(missing_proposal_failure)?.metadata.handoff_id;
        let handoff = current_handoff(&step, handoff_id).await?.ok_or_else(missing_proposal_failure)?;
        let mut proposals = step.store.proposals(handoff_id).await?;
        proposals.extend(deferred_proposal(&step, handoff_id));
        let Some(decisions) = step.answer(APPROVAL_NODE) else {
            let interrupt = self.interrupt_request(&step, &state, &proposals).await?;
            return Ok(GraphUpdate { interrupts: vec![interrupt], ..GraphUpdate::default() });
        };
        let current = proposals.last().ok_or_else(missing_proposal_failure)?;
        let remaining = self.remaining_refinements(&proposals);
        let outcome = decide::single_decision(decisions)
            .and_then(|decision| decide::decision_outcome(current, remaining, decision))
            .map_err(|rejection| StepFailure::new(FailureKind::Internal, rejection.to_string()))?;
        let outcome = self.ground_edit(&step, &handoff, &proposals, outcome).await;
        let now = Timestamp::now();
        let context = DecisionContext { step: &step, handoff: &handoff, proposals: &proposals, current, now };
        let mut effect = context.apply_decision(outcome).await?;
        let state = effect.inputs.drain(..).try_fold(state, HandoffState::transition)?;
        effect.update.channels.extend(changed_channels(state.channels(), step.channels));
        if let Some(next_proposal) = effect.next_proposal {
            proposals.push(next_proposal);
            effect.update.interrupts.push(self.interrupt_request(&step, &state, &proposals).await?);
        }
        Ok(effect.update)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn question_lifetime(&self) -> QuestionLifetime {
        // New messages of the parent do not withdraw the question. They are counted as not covered, and the proposal
        // stays as it was shown.
        QuestionLifetime::Thread
    }

    fn can_accept_unlisted(&self, decision: &Decision) -> bool {
        // At the limit of refinements, `edit` is no longer listed because feedback is not allowed. An `edit` with the
        // person's own text is still valid.
        matches!(decision, Decision::Edit { .. })
    }

    async fn validate_decisions(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        let proposal = decide::shown_proposal(interrupt)?;
        let proposals = store.proposals(proposal.handoff_id).await;
        let proposals =
            proposals.map_err(|error| DecisionRejection::Invalid(format!("failed to {error}")))?;
        let can_refine = self.can_refine(&proposal);
        let no_model = || {
            let reason =
                "no model is configured to redraft: edit the text yourself, or set one up (`segue models`)";
            Err(DecisionRejection::Invalid(reason.to_owned()))
        };
        // Without a model no refinement remains, but the error must name the missing model, not the limit.
        let remaining = if can_refine { self.remaining_refinements(&proposals) } else { 1 };
        match decide::decision_outcome(&proposal, remaining, decide::single_decision(decisions)?)? {
            DecisionOutcome::Refine(_) | DecisionOutcome::RefineEdited(..) if !can_refine => no_model(),
            DecisionOutcome::Redraft(None) if self.drafting.model.is_none() => no_model(),
            DecisionOutcome::CoverNewer => match count_uncovered_messages(&**store, &proposal).await {
                Ok(0) => Err(DecisionRejection::Invalid(
                    "the draft covers all messages, so there is nothing newer to add: `\"redraft\": {}` drafts again, \
                     `feedback` refines"
                        .to_owned(),
                )),
                Ok(_) => Ok(()),
                Err(error) => Err(DecisionRejection::Invalid(format!("failed to {error}"))),
            },
            DecisionOutcome::Redraft(Some(name)) => {
                self.drafting.open_named_model(&name).map(drop).map_err(|problem| {
                    DecisionRejection::Invalid(format!("the model `{name}` cannot redraft: {problem}"))
                })
            }
            DecisionOutcome::Accept(calls) | DecisionOutcome::AcceptEdited(_, calls) => {
                check_calls_were_seen(&**store, &proposals, calls).await
            }
            DecisionOutcome::SaveEdited(_)
            | DecisionOutcome::Refine(_)
            | DecisionOutcome::RefineEdited(..)
            | DecisionOutcome::Revert(_)
            | DecisionOutcome::Redraft(None)
            | DecisionOutcome::Decline(_)
            | DecisionOutcome::Preview => Ok(()),
        }
    }
}

impl HandoffApproval {
    /// Returns how often the newest of `proposals` may still be refined; 0 when no model could do it.
    pub fn remaining_refinements(&self, proposals: &[Proposal]) -> u32 {
        match proposals.last() {
            Some(newest) if self.can_refine(newest) => {
                self.max_refinements.saturating_sub(count_refinements(proposals))
            }
            Some(_) | None => 0,
        }
    }

    /// Returns whether a model for another draft exists: the configured one, or the one that drafted `newest`, which
    /// the person may have chosen although none is configured.
    fn can_refine(&self, newest: &Proposal) -> bool {
        self.drafting.model.is_some()
            || matches!(self.drafting.open_named_model(&newest.summary_json.model), Ok(Some(_)))
    }

    /// Looks for the names in the person's own text in the conversation. If the conversation cannot be read, the text is accepted
    /// without this check, and a notice says so.
    async fn ground_edit(
        &self,
        step: &StepContext<'_>,
        handoff: &Handoff,
        proposals: &[Proposal],
        mut outcome: DecisionOutcome,
    ) -> DecisionOutcome {
        let (DecisionOutcome::AcceptEdited(edited, _)
        | DecisionOutcome::SaveEdited(edited)
        | DecisionOutcome::RefineEdited(edited, _)) = &mut outcome
        else {
            return outcome;
        };
        let options = serde_json::from_value(handoff.options.clone()).unwrap_or_default();
        let thread = ThreadSource::from_step(step);
        let grounding = EditGrounding::new(thread, &self.drafting.scan_cache, &options, proposals);
        let Some(shown) = proposals.last() else { return outcome };
        if let Err(failure) = grounding.ground(&shown.summary_json, edited).await {
            let text = format!("failed to look for the names of your text in the conversation: {failure}");
            step.frames.send(Frame::Notice { text });
        }
        outcome
    }

    /// Returns the interrupt that asks for a decision about the newest of `proposals`.
    async fn interrupt_request(
        &self,
        step: &StepContext<'_>,
        state: &HandoffState,
        proposals: &[Proposal],
    ) -> Result<InterruptRequest, StepFailure> {
        let current = proposals.last().ok_or_else(missing_proposal_failure)?;
        let metadata = &state.in_progress().ok_or_else(missing_proposal_failure)?.metadata;
        let context = ReviewContext {
            options: metadata.options.clone(),
            uncovered_messages: count_uncovered_messages(&**step.store, current).await?,
            remaining_refinements: self.remaining_refinements(proposals),
            is_refinement_limit_reached: count_refinements(proposals) >= self.max_refinements,
            feedback_history: proposals.iter().filter_map(|proposal| proposal.feedback.clone()).collect(),
            problem: state.problem().cloned(),
        };
        Ok(InterruptRequest { key: APPROVAL_NODE.to_owned(), payload: review_payload(current, &context)? })
    }
}

/// Returns the proposal among the deferred writes of the drafting step, which are committed together with this step.
fn deferred_proposal(step: &StepContext<'_>, handoff_id: HandoffId) -> Option<Proposal> {
    step.deferred_writes.iter().find_map(|write| {
        let Write::PutProposal(proposal) = write else { return None };
        (proposal.handoff_id == handoff_id).then(|| proposal.clone())
    })
}

/// Checks that the reviewer has seen every call that a decision with this choice closes.
async fn check_calls_were_seen(
    store: &dyn Store,
    proposals: &[Proposal],
    calls: WaitingCalls,
) -> Result<(), DecisionRejection> {
    if !calls.closes_calls() {
        return Ok(());
    }
    match waiting_calls::unseen_call(store, proposals).await {
        Ok(None) => Ok(()),
        Ok(Some(call)) => Err(DecisionRejection::Stale(format!(
            "a call waits for approval that the draft does not list: {}; redraft, or choose `leave` or `copy`",
            model::tokens::truncate_graphemes(&call, CALL_GRAPHEMES_MAX)
        ))),
        Err(error) => Err(DecisionRejection::Invalid(format!("failed to {error}"))),
    }
}

/// Returns the number of messages of the parent thread after the range that the proposal covers.
async fn count_uncovered_messages(store: &dyn Store, proposal: &Proposal) -> journal::Result<u64> {
    let summary = &proposal.summary_json;
    store.messages_after(summary.parent_thread_id, summary.coverage.last_seq).await
}

/// Returns the number of refinements among `proposals`. A draft that covers newer messages is none, because the draft
/// before it is not outdated through the person's fault.
fn count_refinements(proposals: &[Proposal]) -> u32 {
    let count = proposals.iter().filter(|proposal| proposal.feedback.is_some()).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The data that applying a decision needs.
struct DecisionContext<'a> {
    /// The step that received the decision.
    step: &'a StepContext<'a>,
    /// The handoff's row.
    handoff: &'a Handoff,
    /// All proposals of the handoff, in order of iteration.
    proposals: &'a [Proposal],
    /// The newest proposal, which the decision is about.
    current: &'a Proposal,
    /// The time of the decision.
    now: Timestamp,
}

/// The changes that follow from a decision.
struct DecisionEffect {
    /// The events, writes and activities, without the state.
    update: GraphUpdate,
    /// The inputs for the state machine, in order.
    inputs: Vec<HandoffInput>,
    /// The proposal to ask about next in the same step; `None` when there is none.
    next_proposal: Option<Proposal>,
}

impl DecisionEffect {
    /// Returns an effect after which no proposal is asked about in the same step.
    fn new(update: GraphUpdate, input: HandoffInput) -> Self {
        Self { update, inputs: vec![input], next_proposal: None }
    }
}

impl DecisionContext<'_> {
    /// Returns the effect of a validated decision.
    async fn apply_decision(&self, outcome: DecisionOutcome) -> Result<DecisionEffect, StepFailure> {
        match outcome {
            DecisionOutcome::Accept(calls) => self.accept_proposal(self.current, calls).await,
            DecisionOutcome::AcceptEdited(edited, calls) => self.accept_edited(*edited, calls).await,
            DecisionOutcome::SaveEdited(edited) => self.save_edited(*edited),
            DecisionOutcome::Refine(feedback) => self.refine_proposal(self.current, feedback),
            DecisionOutcome::RefineEdited(edited, feedback) => self.refine_edited(*edited, feedback),
            DecisionOutcome::Redraft(model) => self.revise_proposal(
                self.current,
                DraftRequest::Model { model: model.clone() },
                Revision::Redraft { model },
            ),
            DecisionOutcome::CoverNewer => self.cover_newer_messages().await,
            DecisionOutcome::Revert(to) => self.revert_proposal(to),
            DecisionOutcome::Decline(message) => {
                HandoffLogLine::Skipped("it was declined").log(self.handoff, Some(self.current));
                let update = decline_update(self.handoff, message, self.now)?;
                Ok(DecisionEffect::new(update, HandoffInput::Decline))
            }
            DecisionOutcome::Preview => {
                HandoffLogLine::Skipped("it was previewed").log(self.handoff, Some(self.current));
                let update = preview_update(self.handoff, self.now)?;
                Ok(DecisionEffect::new(update, HandoffInput::Preview))
            }
        }
    }

    /// Returns the effect of accepting `proposal`: part one of the acceptance, and the results of the calls that are closed.
    async fn accept_proposal(
        &self,
        proposal: &Proposal,
        calls: WaitingCalls,
    ) -> Result<DecisionEffect, StepFailure> {
        let store = &**self.step.store;
        let mut update = accept::accept_update(store, self.handoff, proposal, self.now).await?;
        let waiting_call = WaitingToolCall::read_lenient(self.step.channels);
        let package = AcceptedPackage {
            handoff: self.handoff,
            accepted: proposal,
            proposals: self.proposals,
            waiting_call: waiting_call.as_ref().map(|call| call.call_id.as_str()),
        };
        update.merge(waiting_calls::closing_update(store, &package, calls, self.now).await?);
        let child_thread_id = self.handoff.child_thread_id;
        Ok(DecisionEffect::new(update, HandoffInput::Accept { child_thread_id }))
    }

    /// Returns the effect of accepting the person's own text. The text is stored as one more proposal, so that an
    /// injected summary is always a stored proposal.
    async fn accept_edited(
        &self,
        edited: EditedSummary,
        calls: WaitingCalls,
    ) -> Result<DecisionEffect, StepFailure> {
        let proposal = self.edited_proposal(edited);
        let mut effect = self.accept_proposal(&proposal, calls).await?;
        effect.update.writes.insert(0, Write::PutProposal(proposal));
        Ok(effect)
    }

    /// Returns the person's own text as the proposal that follows the current one.
    fn edited_proposal(&self, edited: EditedSummary) -> Proposal {
        let mut summary_json = edited.summary_json;
        summary_json.iteration = self.current.iteration + 1;
        Proposal {
            handoff_id: self.handoff.handoff_id,
            iteration: summary_json.iteration,
            summary_json,
            summary_sha256: protocol::sha256_hex(&edited.package_md),
            package_md: edited.package_md,
            feedback: None,
            created_at: self.now,
        }
    }

    /// Returns the effect of storing the person's own text as a proposal, which is asked about in the same step.
    fn save_edited(&self, edited: EditedSummary) -> Result<DecisionEffect, StepFailure> {
        let proposal = self.edited_proposal(edited);
        let event = self.edited_event(&proposal)?;
        self.replace_proposal(proposal, event)
    }

    /// Returns the effect of storing the person's own text as a proposal and requesting a draft that follows `feedback`
    /// on it.
    fn refine_edited(&self, edited: EditedSummary, feedback: String) -> Result<DecisionEffect, StepFailure> {
        let proposal = self.edited_proposal(edited);
        let mut effect = self.refine_proposal(&proposal, feedback)?;
        effect.update.events.insert(0, self.edited_event(&proposal)?);
        effect.inputs.insert(0, HandoffInput::ReplaceProposal(ProposalRef::from_proposal(&proposal)));
        effect.update.writes.insert(0, Write::PutProposal(proposal));
        Ok(effect)
    }

    /// Returns the event about the person's own text that was stored as `proposal`.
    fn edited_event(&self, proposal: &Proposal) -> Result<NewEvent, StepFailure> {
        let edited = HandoffEdited { handoff_id: proposal.handoff_id, iteration: proposal.iteration };
        Ok(NewEvent::from_body(&edited, self.now)?)
    }

    /// Returns the effect of going back to the text of iteration `to`. The text is stored as a new proposal, which is
    /// asked about in the same step.
    fn revert_proposal(&self, to: u32) -> Result<DecisionEffect, StepFailure> {
        let reverted = self.proposals.iter().find(|proposal| proposal.iteration == to);
        let mut proposal = reverted.ok_or_else(missing_proposal_failure)?.clone();
        proposal.iteration = self.current.iteration + 1;
        proposal.summary_json.iteration = proposal.iteration;
        // The text was not drafted again, so it used no tokens.
        proposal.summary_json.tokens_used = 0;
        proposal.feedback = None;
        proposal.created_at = self.now;
        let handoff_id = self.handoff.handoff_id;
        let reverted = HandoffReverted { handoff_id, iteration: proposal.iteration, reverted_to: to };
        let event = NewEvent::from_body(&reverted, self.now)?;
        self.replace_proposal(proposal, event)
    }

    /// Returns the effect of storing `proposal`, a text that needs no draft, in place of the current one. It is asked about
    /// in the same step. `event` says where the text comes from.
    fn replace_proposal(&self, proposal: Proposal, event: NewEvent) -> Result<DecisionEffect, StepFailure> {
        let patch = HandoffPatch { iteration: Some(proposal.iteration), ..HandoffPatch::default() };
        let transition = transition_write(self.handoff, HandoffAction::ReplaceProposal, patch, self.now)?;
        let writes = vec![Write::PutProposal(proposal.clone()), transition];
        let update = GraphUpdate { events: vec![event], writes, ..GraphUpdate::default() };
        let input = HandoffInput::ReplaceProposal(ProposalRef::from_proposal(&proposal));
        Ok(DecisionEffect { update, inputs: vec![input], next_proposal: Some(proposal) })
    }

    /// Returns the effect of requesting a draft that follows `feedback` on `proposal`.
    fn refine_proposal(&self, proposal: &Proposal, feedback: String) -> Result<DecisionEffect, StepFailure> {
        let refinement = Refinement {
            iteration: proposal.iteration,
            feedback,
            // The facts have a place of their own in the prompt.
            summary_md: render::render_body(&proposal.summary_json),
            timestamp: self.now,
        };
        let request = DraftRequest::Feedback { feedback: refinement.feedback.clone() };
        self.revise_proposal(proposal, request, Revision::Refine(refinement))
    }

    /// Returns the effect of requesting a draft that also covers the messages after the current proposal.
    async fn cover_newer_messages(&self) -> Result<DecisionEffect, StepFailure> {
        let newer_messages = count_uncovered_messages(&**self.step.store, self.current).await?;
        let summary = &self.current.summary_json;
        let revision = Revision::CoverNewer {
            summary_md: render::render_body(summary),
            covered_until: summary.coverage.last_seq,
        };
        self.revise_proposal(self.current, DraftRequest::NewerMessages { newer_messages }, revision)
    }

    /// Returns the effect of requesting another draft after `proposal`. `request` goes into the event, `revision` into the
    /// state.
    fn revise_proposal(
        &self,
        proposal: &Proposal,
        request: DraftRequest,
        revision: Revision,
    ) -> Result<DecisionEffect, StepFailure> {
        let handoff_id = self.handoff.handoff_id;
        let refined = HandoffRefined { request, handoff_id, iteration: proposal.iteration };
        let iteration = Some(proposal.iteration + 1);
        let patch = HandoffPatch { iteration, ..HandoffPatch::default() };
        let events = vec![NewEvent::from_body(&refined, self.now)?];
        let writes = vec![transition_write(self.handoff, HandoffAction::Draft, patch, self.now)?];
        let update = GraphUpdate { events, writes, ..GraphUpdate::default() };
        Ok(DecisionEffect::new(update, HandoffInput::Revise(revision)))
    }
}

/// Returns the update that declines or previews the handoff of a thread whose graph state cannot be read. The handoff
/// is found by its row, so the person can always end it.
///
/// # Errors
///
/// `error` for any other decision, because its effect depends on the unreadable state.
async fn end_unreadable_handoff(
    step: &StepContext<'_>,
    error: ChannelError,
) -> Result<GraphUpdate, StepFailure> {
    let decision = step.answer(APPROVAL_NODE).map(decide::single_decision);
    let Some(handoff) = tool::find_pending_handoff(&**step.store, step.thread_id).await? else {
        return Err(error.into());
    };
    let now = Timestamp::now();
    let (mut update, state) = match decision {
        Some(Ok(Decision::Reject { message })) => {
            (decline_update(&handoff, message.clone(), now)?, HandoffState::Declined)
        }
        Some(Ok(Decision::Preview {})) => (preview_update(&handoff, now)?, HandoffState::Previewed),
        Some(
            Ok(
                Decision::Approve { .. }
                | Decision::Edit { .. }
                | Decision::Respond { .. }
                | Decision::Defer {},
            )
            | Err(_),
        )
        | None => return Err(error.into()),
    };
    update.channels.extend(changed_channels(state.channels(), step.channels));
    Ok(update)
}

/// Returns the update that ends a pending handoff because a person dismissed everything that waits in the thread.
///
/// A handoff that awaits a decision is declined; one that has no proposal yet expires. A tool call that waits for the
/// handoff gets its result. `channels` is the state of the parent thread. The caller withdraws the interrupt.
///
/// # Errors
///
/// When the handoff is not pending.
pub fn dismiss_handoff(
    handoff: &Handoff,
    channels: &Channels,
    message: Option<String>,
    now: Timestamp,
) -> Result<GraphUpdate, StepFailure> {
    let mut update = if handoff.status == HandoffStatus::AwaitingDecision {
        decline_update(handoff, message.clone(), now)?
    } else {
        let event = NewEvent::from_body(&HandoffExpired { handoff_id: handoff.handoff_id }, now)?;
        end_update(handoff, HandoffAction::Expire, event, message.clone())?
    };
    update.channels.extend(HandoffState::Declined.channels());
    let waiting_call = WaitingToolCall::read_lenient(channels);
    WAITING_CALL_CHANNEL.clear(&mut update.channels);
    if let Some(waiting_call) = waiting_call.filter(|call| call.handoff_id == handoff.handoff_id) {
        let text = tool::declined_text(message.as_deref());
        update.merge(tool::call_result_update(&waiting_call, ToolStatus::Error, text, now)?);
    }
    Ok(update)
}

/// Returns the event and the row change of a declined handoff.
fn decline_update(
    handoff: &Handoff,
    message: Option<String>,
    now: Timestamp,
) -> Result<GraphUpdate, StepFailure> {
    let declined = HandoffDeclined { handoff_id: handoff.handoff_id, message: message.clone() };
    let event = NewEvent::from_body(&declined, now)?;
    end_update(handoff, HandoffAction::Decline, event, message)
}

/// Returns the event and the row change of a handoff that was only previewed.
fn preview_update(handoff: &Handoff, now: Timestamp) -> Result<GraphUpdate, StepFailure> {
    let event = NewEvent::from_body(&HandoffPreviewed { handoff_id: handoff.handoff_id }, now)?;
    end_update(handoff, HandoffAction::Preview, event, None)
}

/// Returns the update that ends a handoff without a child thread: `event`, and the transition by `step` with `note`.
fn end_update(
    handoff: &Handoff,
    step: HandoffAction,
    event: NewEvent,
    note: Option<String>,
) -> Result<GraphUpdate, StepFailure> {
    let patch = HandoffPatch { note, ..HandoffPatch::default() };
    let write = transition_write(handoff, step, patch, event.created_at)?;
    Ok(GraphUpdate { events: vec![event], writes: vec![write], ..GraphUpdate::default() })
}

/// Returns the failure for a state or row that has no proposal although one awaits a decision.
fn missing_proposal_failure() -> StepFailure {
    StepFailure::new(FailureKind::Internal, "find the proposal that waits for a decision")
}
