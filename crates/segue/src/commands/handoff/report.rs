//! The report at the end of `segue handoff`: one JSON object or a few lines of text, and the exit code. This file does
//! not change the handoff.

use std::borrow::Cow;
use std::path::Path;

use agent::{
    HandoffCost, HandoffOutcome, HistoryEntry, HistoryQuery, ImportReport, ImportedThread, PendingHandoff,
};
use protocol::{
    ContinuityProbe, ContinuityReport, Coverage, Handoff, HandoffStatus, HandoffSummary, Interrupt,
    InterruptId, Message, Proposal, RunStatus, Seq, ThreadId,
};
use serde::Serialize;
use serde_json::Value;
use terminal::{Audience, sanitize_line, wrap};

use super::answer::HandoffAnswerResult;
use super::inspect::durable_handoff_id;
use super::show_child_thread;
use crate::cli::OutputFormat;
use crate::commands::review::{self, FoldedLists};
use crate::commands::run::output::{next_command, print_pending_interrupts};
use crate::commands::{CommandContext, history};
use crate::exit::{self, CliFailure, CommandResult, ExitReason};

/// The most history entries that are read after a decision to find the agent's reply.
const ANSWER_ENTRIES_MAX: usize = 200;

/// The output of `segue handoff --json`. The fields describe the pending proposal, else the decided one.
#[derive(Serialize)]
pub(super) struct HandoffReport<'a> {
    /// The outcome that the handoff's status stands for.
    outcome: &'static str,
    /// The thread that was handed off.
    thread_id: ThreadId,
    /// The child thread of an accepted handoff.
    child_thread_id: Option<ThreadId>,
    /// A first message to offer in the child thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggested_message: Option<&'a str>,
    /// The command that continues: chat in the child thread, or decide.
    next_command: Option<String>,
    /// The handoff after the answer.
    handoff: &'a Handoff,
    /// The iteration of the proposal, from 0.
    iteration: u32,
    /// The structured summary.
    summary_json: &'a HandoffSummary,
    /// The package as Markdown.
    package_md: &'a str,
    /// The text of `package_md`, under its name of version 1.
    summary_md: &'a str,
    /// The SHA-256 hash of the package; an approval names it.
    summary_sha256: &'a str,
    /// The messages that the summary is based on.
    coverage: &'a Coverage,
    /// The number of messages that are newer than the draft.
    uncovered_messages: u64,
    /// The check of what the summary alone answers, with `--probe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    continuity: Option<ContinuityFields<'a>>,
    /// The reason why the newest draft failed, so that the summary is a replacement for it, or why an accepted summary is not in
    /// `agent.md`.
    problem: Option<Cow<'a, str>>,
    /// Further fields if the handoff is still pending.
    #[serde(flatten)]
    pending_fields: Option<PendingHandoffFields<'a>>,
    /// The questions of the agent that requested the handoff, if its turn has continued and was interrupted.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interrupts: &'a [Interrupt],
    /// The reply of the agent that requested the handoff, if its turn has continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// The import of the session file that was handed off.
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<&'a ImportReport>,
}

/// The check of what the summary alone answers, with the fields of the HTTP endpoint.
#[derive(Serialize)]
struct ContinuityFields<'a> {
    /// The SHA-256 of the checked text, in hex.
    summary_sha256: &'a str,
    /// The model that answered; `null` if the text was searched.
    model: Option<&'a str>,
    /// Tokens used.
    tokens: u64,
    /// Their price in US dollars; `null` if unknown.
    dollars: Option<f64>,
    /// The reason why the model could not answer.
    problem: Option<&'a str>,
    /// The number of questions that the text answers.
    passed: usize,
    /// The questions, with the answers from the text alone.
    probes: &'a [ContinuityProbe],
    /// Feedback for a refinement that adds what was not found; `null` if everything was.
    feedback: Option<String>,
}

impl<'a> ContinuityFields<'a> {
    /// Returns the fields of a report.
    fn new(context: &CommandContext, report: &'a ContinuityReport) -> Self {
        Self {
            summary_sha256: &report.summary_sha256,
            model: report.model.as_deref(),
            tokens: report.usage.total_tokens(),
            dollars: context.agent.handoffs().probe_price(report),
            problem: report.problem.as_deref(),
            passed: report.passed_count(),
            probes: &report.probes,
            feedback: report.feedback(),
        }
    }
}

/// The fields of the report that only a pending handoff has.
#[derive(Serialize)]
struct PendingHandoffFields<'a> {
    /// The interrupt that asks for the decision.
    interrupt_id: InterruptId,
    /// The types of decisions that are accepted.
    allowed_decisions: Vec<&'a str>,
    /// The number of further drafts that can be requested.
    remaining_refinements: u32,
    /// The feedback of earlier refinements, oldest first.
    feedback_history: Vec<&'a str>,
    /// Feedback that was given for a draft that failed.
    unused_feedback: Option<&'a str>,
    /// The cost of the draft, and an estimate of the child's first request.
    cost: HandoffCost,
}

/// A handoff with its answer, which the report describes.
pub(super) struct HandoffConclusion<'a> {
    /// The handoff as it was shown before the answer.
    pub(super) pending: &'a PendingHandoff,
    /// The result of the answer.
    pub(super) result: HandoffAnswerResult,
    /// The newest event of the thread before the decision.
    pub(super) last_seq_before: Seq,
    /// The import of the session file, if the handoff began with one.
    pub(super) import: Option<&'a ImportReport>,
    /// The check of the reported proposal, if it was requested.
    pub(super) continuity: Option<ContinuityReport>,
}

impl HandoffConclusion<'_> {
    /// Returns the proposal that is pending after the answer: a new proposal, or the one that was shown. `None` if the
    /// handoff was decided.
    pub(super) fn still_pending(&self) -> Option<&PendingHandoff> {
        match &self.result {
            HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed => Some(self.pending),
            HandoffAnswerResult::Previewed => None,
            HandoffAnswerResult::Decided(decided) => decided.next.as_ref(),
        }
    }

    /// Returns the interrupts at which the agent's turn stopped after the decision.
    fn open_interrupts(&self) -> &[Interrupt] {
        match &self.result {
            HandoffAnswerResult::Decided(decided) if decided.next.is_none() => &decided.end.interrupts,
            HandoffAnswerResult::Pending
            | HandoffAnswerResult::Viewed
            | HandoffAnswerResult::Previewed
            | HandoffAnswerResult::Decided(_) => &[],
        }
    }

    /// Returns the child thread, if the handoff was accepted.
    pub(super) fn child_thread_id(&self) -> Option<ThreadId> {
        match &self.result {
            HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed | HandoffAnswerResult::Previewed => {
                None
            }
            HandoffAnswerResult::Decided(decided) => decided.child_thread_id,
        }
    }

    /// Returns the import of the handoff's thread, if it has new events.
    fn new_import(&self) -> Option<&ImportedThread> {
        let thread_id = self.pending.handoff.parent_thread_id;
        let mut threads = self.import.into_iter().flat_map(|report| &report.threads);
        threads.find(|thread| thread.thread_id == thread_id && thread.events_new > 0)
    }

    /// Returns the file of the previewed session, if an import would store something; `None` for standard input, which
    /// cannot be read again.
    fn unstored_session(&self) -> Option<&Path> {
        self.new_import().map(|imported| imported.path.as_path()).filter(|path| path.exists())
    }

    /// Returns the suggested first message of the child thread.
    fn suggested_message(&self) -> Option<&str> {
        match &self.result {
            HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed | HandoffAnswerResult::Previewed => {
                None
            }
            HandoffAnswerResult::Decided(decided) => decided.suggested_message.as_deref(),
        }
    }

    /// Returns the handoff and the proposal to report: the pending one, else the decided one.
    fn reported_proposal(&self) -> (&Handoff, &Proposal) {
        match (self.still_pending(), &self.result) {
            (Some(pending), _) => (&pending.handoff, &pending.proposal),
            (None, HandoffAnswerResult::Decided(decided)) => (&decided.handoff, &decided.proposal),
            (
                None,
                HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed | HandoffAnswerResult::Previewed,
            ) => (&self.pending.handoff, &self.pending.proposal),
        }
    }

    /// Returns the result of the command. Its exit code tells a script whether a decision is still needed.
    fn command_result(&self) -> CommandResult {
        match &self.result {
            HandoffAnswerResult::Viewed | HandoffAnswerResult::Previewed => Ok(ExitReason::Success),
            HandoffAnswerResult::Pending => Ok(ExitReason::Undecided),
            HandoffAnswerResult::Decided(decided) if decided.next.is_some() => match decided.end.status {
                RunStatus::Cancelled => Ok(ExitReason::Cancelled),
                RunStatus::Pending
                | RunStatus::Running
                | RunStatus::Success
                | RunStatus::Error
                | RunStatus::Interrupted
                | RunStatus::Timeout => Ok(ExitReason::Undecided),
            },
            HandoffAnswerResult::Decided(decided) if decided.child_thread_id.is_some() => {
                Ok(ExitReason::Success)
            }
            // If the agent had requested the handoff, its turn has continued and may have failed.
            HandoffAnswerResult::Decided(decided) => exit::result_of_run(&decided.end),
        }
    }
}

/// Prints the report, and returns the result of the command.
///
/// # Errors
/// Fails if the report cannot be read or printed, or if the turn that continued after the decision failed.
pub(super) async fn report_conclusion(
    context: &CommandContext,
    conclusion: HandoffConclusion<'_>,
) -> CommandResult {
    let next = conclusion_command(context, &conclusion).await;
    match context.format {
        OutputFormat::Json => {
            context.print_json_with_names(&build_report(context, &conclusion, next).await?)?
        }
        OutputFormat::Text => print_text(context, &conclusion, &next.unwrap_or_default()).await?,
    }
    conclusion.command_result()
}

/// Returns the command that continues: chat in the child thread, decide the pending handoff, or answer the agent's
/// questions. `None` if nothing remains to be done.
pub(super) async fn conclusion_command(
    context: &CommandContext,
    conclusion: &HandoffConclusion<'_>,
) -> Option<String> {
    match (conclusion.child_thread_id(), conclusion.still_pending()) {
        (Some(child), _) => Some(format!("segue chat -t {}", context.durable_id(child).await)),
        (None, Some(pending)) => Some(decide_command(context, pending).await),
        (None, None) => next_command(context, conclusion.open_interrupts()).await,
    }
}

/// Returns the command that answers a pending handoff.
async fn decide_command(context: &CommandContext, pending: &PendingHandoff) -> String {
    format!("segue handoff --decide {}", durable_handoff_id(context, pending.handoff.handoff_id).await)
}

/// Returns the output of `--json`.
///
/// # Errors
/// Fails if the journal cannot be read.
pub(super) async fn build_report<'a>(
    context: &CommandContext,
    conclusion: &'a HandoffConclusion<'_>,
    next_command: Option<String>,
) -> Result<HandoffReport<'a>, CliFailure> {
    let (handoff, proposal) = conclusion.reported_proposal();
    let reported = conclusion.still_pending().unwrap_or(conclusion.pending);
    let pending_fields = match conclusion.still_pending() {
        Some(pending) => Some(pending_fields(context, pending).await?),
        None => None,
    };
    Ok(HandoffReport {
        outcome: handoff.status.outcome(),
        thread_id: handoff.parent_thread_id,
        child_thread_id: conclusion.child_thread_id(),
        suggested_message: conclusion.suggested_message(),
        next_command,
        handoff,
        iteration: proposal.iteration,
        summary_json: &proposal.summary_json,
        package_md: &proposal.package_md,
        summary_md: &proposal.package_md,
        summary_sha256: &proposal.summary_sha256,
        coverage: &proposal.summary_json.coverage,
        uncovered_messages: reported.uncovered_messages,
        continuity: conclusion.continuity.as_ref().map(|report| ContinuityFields::new(context, report)),
        problem: match (block_problem(handoff), incomplete_acceptance(conclusion)) {
            (Some(problem), _) => Some(problem.into()),
            (None, Some(problem)) => Some(problem.into()),
            (None, None) => reported.problem.as_deref().map(Cow::Borrowed),
        },
        pending_fields,
        interrupts: conclusion.open_interrupts(),
        answer: agent_reply(context, conclusion).await?,
        import: conclusion.import,
    })
}

/// Returns the text about what an acceptance has not written yet; `None` if it is complete, or was not made.
fn incomplete_acceptance<'a>(conclusion: &'a HandoffConclusion<'_>) -> Option<&'a str> {
    match &conclusion.result {
        HandoffAnswerResult::Decided(decided) => decided.incomplete_acceptance.as_deref(),
        HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed | HandoffAnswerResult::Previewed => None,
    }
}

/// Returns the sentence that says why an accepted summary is not in `agent.md`, as the text output says it; `None` if it is there.
fn block_problem(handoff: &Handoff) -> Option<String> {
    let seeded = handoff.note.as_ref().filter(|_| handoff.status == HandoffStatus::Seeded);
    seeded.map(|note| {
        let note = sanitize_line(note);
        format!("Failed to {note}. The new thread still gets its summary. Run `segue doctor` for details.")
    })
}

/// Returns the fields that only a pending handoff has.
async fn pending_fields<'a>(
    context: &CommandContext,
    pending: &'a PendingHandoff,
) -> Result<PendingHandoffFields<'a>, CliFailure> {
    let payload = &pending.interrupt.payload;
    let allowed = payload.review_configs.iter().flat_map(|config| &config.allowed_decisions);
    let history = payload.action_requests.first().and_then(|request| request.args.get("feedback_history"));
    let history = history.and_then(Value::as_array).into_iter().flatten();
    Ok(PendingHandoffFields {
        interrupt_id: pending.interrupt.interrupt_id,
        allowed_decisions: allowed.map(String::as_str).collect(),
        remaining_refinements: pending.remaining_refinements,
        feedback_history: history.filter_map(Value::as_str).collect(),
        unused_feedback: pending.unused_feedback.as_deref(),
        cost: context.agent.handoffs().cost(pending).await?,
    })
}

/// Returns the last text of the agent after the decision, if the agent had requested the handoff and its turn has continued.
async fn agent_reply(
    context: &CommandContext,
    conclusion: &HandoffConclusion<'_>,
) -> Result<Option<String>, CliFailure> {
    if conclusion.still_pending().is_some() || !review::is_requested_by_agent(conclusion.pending) {
        return Ok(None);
    }
    let thread_id = conclusion.pending.handoff.parent_thread_id;
    let query = HistoryQuery {
        after_seq: Some(conclusion.last_seq_before),
        limit: ANSWER_ENTRIES_MAX,
        ..HistoryQuery::default()
    };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let messages = page.entries.iter().rev().filter_map(HistoryEntry::message);
    let mut texts = messages.filter(|message| matches!(message, Message::Ai(_))).map(Message::text);
    Ok(texts.find(|text| !text.trim().is_empty()))
}

/// Prints the report as text. `next` is the command to continue with.
async fn print_text(
    context: &CommandContext,
    conclusion: &HandoffConclusion<'_>,
    next: &str,
) -> Result<(), CliFailure> {
    let (screen, command) = (&context.screen, context.screen.style.code(next));
    if let Some(report) = &conclusion.continuity {
        review::show_report(context, report)?;
    }
    match &conclusion.result {
        HandoffAnswerResult::Pending | HandoffAnswerResult::Viewed => {
            screen.print_line(format!(
                "Nothing was decided; the handoff is pending. Decide with:\n  {command}"
            ))?;
            if screen.audience == Audience::Program {
                screen
                    .print_line("Without a terminal, add --apply to accept it, or --decision-file FILE.")?;
            }
            print_import(context, conclusion).await?;
        }
        HandoffAnswerResult::Previewed => {
            screen.print_line("Only shown: nothing was stored, and no thread was created.")?;
            if let Some(path) = conclusion.unstored_session() {
                let command = format!("segue import {}", agent::quote_shell_word(&path.to_string_lossy()));
                screen.print_line(format!("To keep the session: {}", screen.style.code(command)))?;
            }
        }
        HandoffAnswerResult::Decided(decided) => match (decided.child_thread_id, &decided.next) {
            (Some(_), _) => {
                show_child_thread(context, &decided.handoff, &decided.proposal).await?;
                screen.print_line(format!("Continue with: {command}"))?;
                if let Some(message) = conclusion.suggested_message() {
                    let text = format!("Suggested first message: {}", sanitize_line(message));
                    screen.print_line(screen.style.dim(wrap(&text, screen.text_columns(), "", "  ")))?;
                }
            }
            (None, Some(next)) => {
                review::show_proposal(context, next, FoldedLists::JsonOption).await?;
                if next.unused_feedback.is_some() {
                    screen.print_line("Your feedback is kept: Refine starts with it.")?;
                }
                let state = pending_text(conclusion, decided, next);
                screen.print_line(format!("{state} Decide with:\n  {command}"))?;
            }
            (None, None) => {
                let is_declined = decided.handoff.status == HandoffStatus::Declined;
                let end = if is_declined { "Declined." } else { "Only shown." };
                screen.print_line(format!("{end} No child thread was created."))?;
                print_import(context, conclusion).await?;
            }
        },
    }
    if conclusion.still_pending().is_none() && review::is_requested_by_agent(conclusion.pending) {
        history::show_entries_after(
            context,
            conclusion.pending.handoff.parent_thread_id,
            conclusion.last_seq_before,
        )
        .await?;
    }
    if !conclusion.open_interrupts().is_empty() {
        print_pending_interrupts(context, conclusion.open_interrupts(), Some(next));
    }
    Ok(())
}

/// Returns the reason why a handoff is still pending after a decision.
fn pending_text(
    conclusion: &HandoffConclusion<'_>,
    decided: &HandoffOutcome,
    next: &PendingHandoff,
) -> &'static str {
    let is_new_draft = next.proposal.iteration != conclusion.pending.proposal.iteration;
    match (is_new_draft, decided.end.status == RunStatus::Cancelled) {
        (true, _) => "There is a new draft; the handoff is pending.",
        (false, true) => "Stopped; the proposal is still pending as it was shown.",
        (false, false) => "There is no new draft; the proposal is still pending as it was shown.",
    }
}

/// Prints the thread into which the session file was imported, if the import has stored new events. An undecided or
/// declined handoff leaves this thread in the journal.
async fn print_import(
    context: &CommandContext,
    conclusion: &HandoffConclusion<'_>,
) -> Result<(), CliFailure> {
    let thread_id = conclusion.pending.handoff.parent_thread_id;
    let Some(imported) = conclusion.new_import() else { return Ok(()) };
    let id = context.short_id(thread_id).await;
    let text = match imported.is_new {
        true => format!("The session was imported as thread {id}."),
        false => format!("New messages of the session were imported into thread {id}."),
    };
    Ok(context.screen.print_line(text)?)
}
