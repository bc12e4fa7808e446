//! The check of what the next agent would know from the shown proposal: made by itself or with a key, and printed below the
//! proposal.

use agent::{PendingHandoff, ProbeMethod};
use protocol::ContinuityReport;
use terminal::{TypeAheadBuffer, continuity, signals};

use super::HandoffReviewSession;
use super::drafting::probe_proposal;
use crate::commands::CommandContext;
use crate::exit::CliFailure;

impl HandoffReviewSession<'_> {
    /// Checks the proposal under review if the configuration says so.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written.
    pub(super) async fn check_automatically(&mut self) -> Result<(), CliFailure> {
        match self.context.agent.handoffs().automatic_probe() {
            Some(method) => self.check_proposal(method).await,
            None => Ok(()),
        }
    }

    /// Checks the proposal under review and prints the report. A check that fails or is stopped leaves the proposal as it
    /// is.
    ///
    /// # Errors
    /// Fails if the terminal cannot be read or written.
    pub(super) async fn check_proposal(&mut self, method: ProbeMethod) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        match probe_proposal(self.context, &self.pending, method, self.type_ahead).await {
            Ok(Some(report)) => {
                show_report(self.context, &report)?;
                self.continuity = Some(report);
            }
            Ok(None) => screen.print_line("Stopped. The proposal was not checked.")?,
            Err(closed @ CliFailure::OutputClosed) => return Err(closed),
            Err(exiting @ CliFailure::Reported(_)) if signals::is_exiting() => return Err(exiting),
            Err(CliFailure::Reported(failure)) => {
                self.context.print_notice(&failure.message());
            }
        }
        Ok(())
    }

    /// Removes the suggested feedback if the user left it unchanged and went back.
    pub(super) fn remove_unchanged_suggestion(&mut self) {
        let suggested = self.continuity.as_ref().and_then(ContinuityReport::feedback);
        if suggested.as_ref() == Some(&self.feedback) {
            self.feedback.clear();
        }
    }

    /// Adds what the check did not find to the feedback, which the user can edit before it is sent.
    pub(super) fn add_unanswered_to_feedback(&mut self) {
        let Some(suggested) = self.continuity.as_ref().and_then(ContinuityReport::feedback) else { return };
        if self.feedback.contains(&suggested) {
            return;
        }
        if !self.feedback.is_empty() {
            self.feedback.push_str("\n\n");
        }
        self.feedback.push_str(&suggested);
    }
}

/// Returns the report about a proposal for `--probe`; `None` if the user stopped the check.
///
/// # Errors
/// Fails if the journal or the terminal cannot be used.
pub(crate) async fn requested_report(
    context: &CommandContext,
    pending: &PendingHandoff,
) -> Result<Option<ContinuityReport>, CliFailure> {
    let method = context.agent.handoffs().automatic_probe().unwrap_or(ProbeMethod::Model);
    probe_proposal(context, pending, method, &mut TypeAheadBuffer::default()).await
}

/// Prints a report.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn show_report(context: &CommandContext, report: &ContinuityReport) -> Result<(), CliFailure> {
    let screen = &context.screen;
    screen.print_lines(continuity::render_report(screen, report, context.agent.handoffs()))?;
    Ok(screen.print_line("")?)
}
