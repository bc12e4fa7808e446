//! Drafting and deciding a handoff in the foreground, with a progress display. Keys that are typed meanwhile are
//! buffered; Ctrl-C stops the work.

use agent::{
    Agent, CancellationToken, FrameSender, HandoffOutcome, HandoffRequestOptions, PendingHandoff, ProbeMethod,
};
use protocol::{ContinuityReport, Decision, Decisions, HandoffId, ThreadId};
use terminal::{TurnTotals, TypeAheadBuffer, signals};

use super::{HandoffReviewSession, single_decision};
use crate::commands::CommandContext;
use crate::commands::agent_work::{
    WorkDisplay, WorkResult, WorkVisibility, is_interactive, run_with_display, run_with_notices,
};
use crate::exit::CliFailure;

/// The label of the progress until the run reports its first phase.
const PHASE_LABEL: &str = "working on the handoff";

/// Drafts a handoff, or returns the pending one; `None` if the user stopped the draft and no draft was stored. Text
/// that is typed meanwhile goes to `typed`.
///
/// # Errors
/// Fails if the thread is empty, another run is active, the thread has a different pending handoff, or the journal
/// cannot be used.
pub(crate) async fn draft_handoff(
    context: &CommandContext,
    thread_id: ThreadId,
    request: HandoffRequestOptions,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<PendingHandoff>, CliFailure> {
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.handoffs().request(thread_id, request, frames, cancel).await
    };
    let result = run_draft(context, typed, work).await?;
    match result.output {
        Ok(pending) => Ok(Some(pending)),
        // A handoff that exists in spite of the stop must be reported.
        Err(error) if result.is_stopped => match has_undecided_handoff(context, thread_id).await? {
            true => Err(error.into()),
            false => Ok(None),
        },
        Err(error) => Err(error.into()),
    }
}

/// Returns the draft that [`draft_handoff`] would store, without storing anything, or the pending one; `None` if the user
/// stopped the draft.
///
/// # Errors
/// Fails if the thread is empty or has a different pending handoff, or if the journal cannot be read.
pub(crate) async fn preview_handoff(
    context: &CommandContext,
    thread_id: ThreadId,
    request: HandoffRequestOptions,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<PendingHandoff>, CliFailure> {
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.handoffs().preview(thread_id, request, frames, cancel).await
    };
    let result = run_draft(context, typed, work).await?;
    match result.output {
        Err(_) if result.is_stopped => Ok(None),
        output => Ok(Some(output?)),
    }
}

/// Probes a proposal in the foreground; `None` if the user stopped it. Text that is typed meanwhile goes to `typed`.
///
/// # Errors
/// Fails if the journal or the terminal cannot be used.
pub(crate) async fn probe_proposal(
    context: &CommandContext,
    pending: &PendingHandoff,
    method: ProbeMethod,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<ContinuityReport>, CliFailure> {
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.handoffs().probe(pending, method, frames, cancel).await
    };
    let result = run_draft(context, typed, work).await?;
    match result.output? {
        // A signal ends the program; a key only stops the check.
        None if signals::is_exiting() => Err(CliFailure::cancelled("check the draft")),
        report => Ok(report),
    }
}

/// Drafts in the foreground: with a progress display for a person, and with notices only for a program.
async fn run_draft<T>(
    context: &CommandContext,
    typed: &mut TypeAheadBuffer,
    work: impl AsyncFnOnce(&Agent, &FrameSender, &CancellationToken) -> T,
) -> Result<WorkResult<T>, CliFailure> {
    if !is_interactive(context) {
        return run_with_notices(context, work).await;
    }
    let display = WorkDisplay { label: PHASE_LABEL, visibility: WorkVisibility::Progress };
    run_with_display(context, display, typed, &mut TurnTotals::default(), work).await
}

/// Returns whether the thread has a handoff without a decision.
async fn has_undecided_handoff(context: &CommandContext, thread_id: ThreadId) -> Result<bool, CliFailure> {
    let handoffs = context.agent.handoffs().undecided().await?;
    Ok(handoffs.iter().any(|entry| entry.handoff.parent_thread_id == thread_id))
}

/// Decides a handoff without a review, and prints the notices of the run that follows.
///
/// # Errors
/// The outer error is a failure of the terminal. The inner error means that the decision was refused: it is invalid, or
/// another client has decided the handoff.
pub(crate) async fn decide_handoff(
    context: &CommandContext,
    handoff_id: HandoffId,
    decisions: &Decisions,
) -> Result<agent::Result<HandoffOutcome>, CliFailure> {
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.handoffs().decide(handoff_id, decisions, frames, cancel).await
    };
    Ok(run_with_notices(context, work).await?.output)
}

impl HandoffReviewSession<'_> {
    /// Decides the handoff under review, shows the run that follows, and adds its totals.
    ///
    /// # Errors
    /// Like [`decide_handoff`].
    pub(super) async fn run_decision(
        &mut self,
        decision: Decision,
    ) -> Result<WorkResult<agent::Result<HandoffOutcome>>, CliFailure> {
        let (handoff_id, decisions) = (self.pending.handoff.handoff_id, single_decision(decision));
        let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
            agent.handoffs().decide(handoff_id, &decisions, frames, cancel).await
        };
        if !is_interactive(self.context) {
            return run_with_notices(self.context, work).await;
        }
        let pending_calls = std::mem::take(&mut self.totals.pending_calls);
        let mut totals = TurnTotals { pending_calls, ..TurnTotals::default() };
        let display = WorkDisplay { label: PHASE_LABEL, visibility: self.visibility };
        let result = run_with_display(self.context, display, self.type_ahead, &mut totals, work).await?;
        if let Ok(decided) = &result.output {
            totals.usage = decided.end.usage;
        }
        self.totals.pending_calls = std::mem::take(&mut totals.pending_calls);
        self.totals.lost_after = totals.lost_after.or(self.totals.lost_after);
        self.totals.add(totals);
        Ok(result)
    }
}
