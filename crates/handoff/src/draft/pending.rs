//! A draft that is due: what it has to follow, and the update that stores its proposal, or keeps the previous one when
//! it failed or was stopped.

use jiff::Timestamp;
use journal::{HandoffPatch, Write};
use protocol::event::body::{HandoffFailed, HandoffProposed};
use protocol::{Handoff, HandoffSummary, NewEvent, Proposal, Seq, ToolStatus};
use runtime::{FailureKind, GraphUpdate, StepContext, StepFailure};
use secrets::redact;

use crate::draft::reviewer_changes::ReviewerChanges;
use crate::lifecycle::{HandoffAction, transition_write};
use crate::request::tool;
use crate::request::{DraftProblem, WAITING_CALL_CHANNEL, current_handoff};
use crate::review::edit::{AUTHOR, marks};
use crate::state::{
    HandoffInProgress, HandoffInput, HandoffState, ProposalRef, Revision, changed_channels, cleared_channels,
};
use crate::summary::offline_summary::open_tasks;
use crate::summary::{render, rules};

/// A draft that is due.
pub(super) struct PendingDraft {
    /// The graph state before the draft.
    state: HandoffState,
    /// The handoff to draft.
    pub(super) in_progress: HandoffInProgress,
    /// The reason for another draft; `None` for the first one.
    pub(super) revision: Option<Revision>,
    /// The handoff's row.
    pub(super) handoff: Handoff,
}

impl PendingDraft {
    /// Returns the draft that is due; `None` when its proposal is stored already, for example because the step is
    /// repeated after a crash.
    ///
    /// # Errors
    ///
    /// When the state or the row is missing or cannot be read.
    pub(super) async fn read(step: &StepContext<'_>) -> Result<Option<Self>, StepFailure> {
        let missing = || StepFailure::new(FailureKind::Internal, "find the handoff that is to be drafted");
        let state = HandoffState::read(step.channels)?.ok_or_else(missing)?;
        if matches!(state, HandoffState::AwaitingDecision { .. }) {
            return Ok(None);
        }
        let in_progress = state.in_progress().ok_or_else(missing)?.clone();
        let handoff_id = in_progress.metadata.handoff_id;
        let handoff = current_handoff(step, handoff_id).await?.ok_or_else(missing)?;
        let revision = state.revision().cloned();
        Ok(Some(Self { state, in_progress, revision, handoff }))
    }

    /// Returns the result of the step: the proposal, the handoff's new status and the event, which are committed
    /// together.
    pub(super) fn propose_summary(
        self,
        step: &StepContext<'_>,
        summary_json: HandoffSummary,
        problem: Option<DraftProblem>,
        mut update: GraphUpdate,
    ) -> Result<GraphUpdate, StepFailure> {
        let now = Timestamp::now();
        let package_md = render::render_summary(&summary_json);
        let proposal = Proposal {
            handoff_id: self.handoff.handoff_id,
            iteration: self.handoff.iteration,
            summary_json,
            summary_sha256: protocol::sha256_hex(&package_md),
            package_md,
            feedback: self.revision.as_ref().and_then(Revision::feedback).map(str::to_owned),
            created_at: now,
        };
        let proposal_ref = ProposalRef::from_proposal(&proposal);
        let proposed = HandoffProposed {
            handoff_id: proposal.handoff_id,
            iteration: proposal.iteration,
            summary_sha256: proposal.summary_sha256.clone(),
        };
        update.events.push(NewEvent::from_body(&proposed, now)?);
        update.writes.push(Write::PutProposal(proposal));
        let patch = HandoffPatch { run_id: Some(step.run_id), ..HandoffPatch::default() };
        update.writes.push(transition_write(&self.handoff, HandoffAction::Propose, patch, now)?);
        let state = self.state.transition(HandoffInput::Propose { proposal: proposal_ref, problem })?;
        update.channels.extend(changed_channels(state.channels(), step.channels));
        Ok(update)
    }

    /// Returns the result of a draft that the person stopped. If an earlier proposal exists, it awaits a decision
    /// again. Otherwise the handoff's row is deleted, and only the events in the journal remain.
    pub(super) fn stop_draft(
        self,
        step: &StepContext<'_>,
        mut update: GraphUpdate,
    ) -> Result<GraphUpdate, StepFailure> {
        if self.revision.is_some() {
            return self.keep_proposal(step, update, None);
        }
        let now = Timestamp::now();
        let reason = "the draft was stopped".to_owned();
        let failed = HandoffFailed { handoff_id: self.handoff.handoff_id, reason };
        update.events.push(NewEvent::from_body(&failed, now)?);
        update.writes.push(Write::DeleteHandoff { handoff_id: self.handoff.handoff_id });
        update.channels.extend(changed_channels(cleared_channels(), step.channels));
        if let Some(waiting_call) = WAITING_CALL_CHANNEL.get(step.channels)? {
            update.merge(tool::call_result_update(
                &waiting_call,
                ToolStatus::Error,
                tool::STOPPED_TEXT.to_owned(),
                now,
            )?);
        }
        Ok(update)
    }

    /// Returns the result of another draft that was stopped or failed: the last good proposal awaits a decision
    /// again, and `problem` is shown with it.
    pub(super) fn keep_proposal(
        self,
        step: &StepContext<'_>,
        mut update: GraphUpdate,
        problem: Option<String>,
    ) -> Result<GraphUpdate, StepFailure> {
        let iteration = Some(self.handoff.iteration.saturating_sub(1));
        let patch = HandoffPatch { iteration, ..HandoffPatch::default() };
        update.writes.push(transition_write(&self.handoff, HandoffAction::Propose, patch, Timestamp::now())?);
        let state = self.state.transition(HandoffInput::KeepProposal { problem })?;
        update.channels.extend(changed_channels(state.channels(), step.channels));
        Ok(update)
    }

    /// Returns the purpose of the child thread, redacted.
    pub(super) fn goal(&self) -> Option<String> {
        self.in_progress.metadata.options.goal.as_deref().map(|goal| redact(goal).into_owned())
    }

    /// Returns the last event that the previous proposal covers, if this draft has to cover newer ones too.
    pub(super) fn covered_until(&self) -> Option<Seq> {
        match &self.revision {
            Some(Revision::CoverNewer { covered_until, .. }) => Some(*covered_until),
            Some(Revision::Refine(_) | Revision::Redraft { .. }) | None => None,
        }
    }

    /// Returns the changes that the person made to the proposals of the handoff so far.
    pub(super) async fn reviewer_changes(
        &self,
        step: &StepContext<'_>,
    ) -> Result<ReviewerChanges, StepFailure> {
        Ok(ReviewerChanges::of_proposals(&self.earlier_proposals(step).await?))
    }

    /// Sets the notes about the rules of the user in the summary of this draft, and about the names that they wrote into
    /// earlier texts.
    pub(super) async fn note_user_texts(
        &self,
        step: &StepContext<'_>,
        summary: &mut HandoffSummary,
    ) -> Result<(), StepFailure> {
        let earlier = self.earlier_proposals(step).await?;
        let last = earlier.last().map(|proposal| &proposal.summary_json);
        rules::note_rules(summary, &last.map(rules::known_rules).unwrap_or_default());
        summary.notes.done_task_claims = open_tasks::done_task_claims(summary);
        summary.notes.left_out_facts = render::facts::left_out_facts(&summary.carried);
        let text = render::render_summary(summary);
        let names = last.into_iter().flat_map(|last| &last.notes.names_by_user);
        summary.notes.names_by_user = names.filter(|name| text.contains(name.as_str())).cloned().collect();
        Ok(())
    }

    /// Returns the proposals before this draft, in their order.
    async fn earlier_proposals(&self, step: &StepContext<'_>) -> Result<Vec<Proposal>, StepFailure> {
        match self.revision {
            Some(_) => Ok(step.store.proposals(self.handoff.handoff_id).await?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns what the person wrote about the drafts of the handoff: all feedback, and the verified parts of their own texts, without
    /// the names that drafts have invented.
    pub(super) async fn user_texts(&self, step: &StepContext<'_>) -> Result<Vec<String>, StepFailure> {
        let earlier = self.in_progress.refinements.iter().map(|refinement| refinement.feedback.as_str());
        let feedback = earlier.chain(self.revision.as_ref().and_then(Revision::feedback));
        let mut texts: Vec<String> = feedback.map(str::to_owned).collect();
        let proposals = self.earlier_proposals(step).await?;
        texts.extend(proposals.iter().filter_map(|proposal| user_text(&proposal.summary_json)));
        let invented = marks::invented_names(&proposals);
        Ok(texts.iter().map(|text| marks::without_names(text, &invented)).collect())
    }

    /// Returns the feedback of earlier refinements, one Markdown bullet for each; `None` when there is none.
    pub(super) fn earlier_feedback(&self) -> Option<String> {
        let line =
            |feedback: &str| format!("- {}", feedback.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines: Vec<String> =
            self.in_progress.refinements.iter().map(|refinement| line(&refinement.feedback)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Returns the verified parts of a text that a person wrote, one a line; `None` for a draft.
fn user_text(summary: &HandoffSummary) -> Option<String> {
    let notes = &summary.notes;
    let head = [(&summary.title, &notes.title_unfound), (&summary.tldr, &notes.tldr_unfound)].into_iter();
    let head = head.filter(|(_, unfound)| unfound.is_empty()).map(|(text, _)| text.as_str());
    let items = summary.body.iter().filter(|item| item.verified).map(|item| item.text.as_str());
    (summary.model == AUTHOR).then(|| head.chain(items).collect::<Vec<_>>().join("\n"))
}
