//! `segue decide`: answers the pending tool calls of a thread and resumes its run. The crate `tools` decides the effect
//! of an answer.

use agent::RunEnd;
use protocol::{Decision, Decisions, Interrupt, InterruptId, InterruptStatus};
use terminal::{Audience, TypeAheadBuffer};

use crate::cli::{self, OutputFormat};
use crate::commands::approval::ApprovalAnswer;
use crate::commands::handoff::answer::{DecisionFileKind, read_decisions};
use crate::commands::handoff::inspect::durable_handoff_id;
use crate::commands::import::format_count;
use crate::commands::run::output::TurnPrinter;
use crate::commands::{CommandContext, NO_TERMINAL, approval, run};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// Performs `segue decide`.
///
/// The answers to all pending interrupts are collected before the first is submitted, so postponing one question submits
/// none of them.
///
/// # Errors
/// Fails if no decision is pending, the answer does not fit the question, or the turn that continues fails.
pub(crate) async fn run(context: &CommandContext, args: cli::DecideArgs) -> CommandResult {
    let thread_id = match args.target.parse::<InterruptId>() {
        Ok(interrupt_id) => context.agent.runs().interrupt(interrupt_id).await?.thread_id,
        Err(_) => context.agent.threads().find(&args.target).await?.thread_id,
    };
    run::recover_run(context, thread_id).await?;
    let pending = pending_tool_approvals(context, &args.target).await?;
    let Some(first) = pending.first() else {
        return Err(CliFailure::new(
            ExitReason::User,
            format!("decide `{}`: nothing is pending", args.target),
        )
        .with_hint("`segue threads list` marks the threads that need a decision"));
    };
    if args.here {
        return move_here(context, first).await;
    }
    let mut answers: Vec<(InterruptId, Decisions)> = Vec::new();
    for interrupt in &pending {
        match resolve_answer(context, &args, interrupt, pending.len()).await? {
            Some(DecideAnswer::Decisions(decisions)) => answers.push((interrupt.interrupt_id, decisions)),
            Some(DecideAnswer::MoveHere) => {
                return match move_here(context, interrupt).await? {
                    // The thread has moved, and its calls are pending again for this folder.
                    ExitReason::Undecided => {
                        let args = cli::DecideArgs { target: thread_id.to_string(), ..args };
                        Box::pin(run(context, args)).await
                    }
                    code => Ok(code),
                };
            }
            None if context.format == OutputFormat::Json => {
                return run::run_turn(TurnPrinter::new(context, thread_id)?, async |_, _, _| Ok(None)).await;
            }
            None => return Ok(ExitReason::Undecided),
        }
    }
    let outcome = run::run_turn(TurnPrinter::new(context, thread_id)?, async |agent, frames, cancel| {
        let mut end: Option<RunEnd> = None;
        for (interrupt_id, decisions) in &answers {
            end = agent.runs().resume(*interrupt_id, decisions, frames, cancel).await?;
        }
        Ok(end)
    });
    match outcome.await {
        Err(failure) if failure.is_conflict() && !failure.is_busy() => {
            let id = context.durable_id(thread_id).await;
            Err(failure
                .with_hint(format!("another decision was recorded first; `segue history {id}` shows it")))
        }
        outcome => outcome,
    }
}

/// Moves the thread to the current folder; its calls become pending again.
///
/// # Errors
/// Fails if the current folder cannot be used, or if the thread cannot be moved.
async fn move_here(context: &CommandContext, interrupt: &Interrupt) -> CommandResult {
    run::run_turn(TurnPrinter::new(context, interrupt.thread_id)?, async |agent, frames, cancel| {
        agent.runs().rehome_thread(interrupt, frames, cancel).await.map(Some)
    })
    .await
}

/// Returns the pending tool approvals of `target`: one interrupt by its id, or all interrupts of a thread.
///
/// # Errors
/// Fails if the target does not exist, is already decided, or only has a pending handoff.
async fn pending_tool_approvals(
    context: &CommandContext,
    target: &str,
) -> Result<Vec<Interrupt>, CliFailure> {
    let pending = match target.parse::<InterruptId>() {
        Ok(interrupt_id) => vec![context.agent.runs().interrupt(interrupt_id).await?],
        Err(_) => {
            let thread = context.agent.threads().find(target).await?;
            context.agent.runs().pending_interrupts(thread.thread_id).await?
        }
    };
    let (tool_approvals, others): (Vec<Interrupt>, Vec<Interrupt>) =
        pending.into_iter().partition(approval::is_tool_approval);
    match others.first() {
        Some(handoff) if tool_approvals.is_empty() => {
            let command = handoff_command(context, handoff).await;
            Err(CliFailure::new(
                ExitReason::User,
                format!("decide `{target}`: it is a question about a handoff"),
            )
            .with_hint(format!("`{command}` shows the summary and answers the question")))
        }
        Some(_) | None => {
            match tool_approvals.iter().find(|interrupt| interrupt.status != InterruptStatus::Pending) {
                Some(closed) => Err(CliFailure::new(
                    ExitReason::Conflict,
                    format!(
                        "decide `{target}`: the question is no longer pending ({})",
                        closed.status.as_str()
                    ),
                )
                .with_hint(format!(
                    "nothing was changed; `segue history {}` shows the decision",
                    closed.thread_id
                ))),
                None => Ok(tool_approvals),
            }
        }
    }
}

/// Returns the command that answers the interrupt of a handoff.
/// The command names the handoff, or the interrupt if the handoff cannot be read.
pub(super) async fn handoff_command(context: &CommandContext, interrupt: &Interrupt) -> String {
    let id = match context.agent.handoffs().find(&interrupt.interrupt_id.to_string()).await {
        Ok(handoff) => durable_handoff_id(context, handoff.handoff_id).await,
        Err(_) => interrupt.interrupt_id.to_string(),
    };
    format!("segue handoff --decide {id}")
}

/// The answer to an interrupt.
enum DecideAnswer {
    /// One decision for each call.
    Decisions(Decisions),
    /// Move the thread to the current folder and ask again.
    MoveHere,
}

/// Returns the answer from the options, a file or the user; `None` if no answer was given. `count` is the number of
/// pending interrupts.
///
/// # Errors
/// Fails if the decision file is invalid or ambiguous, or if no answer was given and the command cannot ask without a
/// terminal.
async fn resolve_answer(
    context: &CommandContext,
    args: &cli::DecideArgs,
    interrupt: &Interrupt,
    count: usize,
) -> Result<Option<DecideAnswer>, CliFailure> {
    let decide_all = |decision: Decision| {
        let count = interrupt.payload.action_requests.len();
        Ok(Some(DecideAnswer::Decisions(Decisions { decisions: vec![decision; count] })))
    };
    match (&args.reject, &args.decision_file) {
        _ if args.approve => {
            let calls = match approval::can_run_when_approved(interrupt) {
                true => approval::call_lines(interrupt),
                false => Vec::new(),
            };
            for call in calls {
                context.screen.print_to_stderr(context.screen.style.dim(call));
            }
            decide_all(Decision::Approve { args: None, summary_sha256: None })
        }
        (Some(reason), _) => {
            let message = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
            decide_all(Decision::Reject { message })
        }
        (None, Some(_)) if count > 1 => Err(CliFailure::new(
            ExitReason::User,
            format!("decide `{}`: {count} questions are pending", args.target),
        )
        .with_hint("name an interrupt by its id; `--json` shows the ids")),
        (None, Some(path)) => {
            let decisions = read_decisions(path, DecisionFileKind::ToolCalls)?;
            check_decisions(interrupt, &decisions)?;
            Ok(Some(DecideAnswer::Decisions(decisions)))
        }
        (None, None)
            if context.format == OutputFormat::Text && context.screen.audience == Audience::Person =>
        {
            match approval::ask_for_decisions(context, interrupt, &mut TypeAheadBuffer::default())? {
                Some(ApprovalAnswer::Decided { decisions, remembered_rules }) => {
                    approval::store_rules(context, interrupt, &remembered_rules).await?;
                    Ok(Some(DecideAnswer::Decisions(decisions)))
                }
                Some(ApprovalAnswer::MoveHere) => Ok(Some(DecideAnswer::MoveHere)),
                None => Ok(None),
            }
        }
        // With JSON output, the result line contains the questions.
        (None, None) if context.format == OutputFormat::Json => Ok(None),
        (None, None) => {
            let calls = approval::call_lines(interrupt).join("; ");
            let id = interrupt.interrupt_id;
            Err(CliFailure::new(ExitReason::User, format!("decide on {calls}: {NO_TERMINAL}")).with_hint(
                format!(
                    "`segue decide {id}` with --approve, --reject [MESSAGE], --decision-file FILE or --here"
                ),
            ))
        }
    }
}

/// Checks that the decisions fit the question: one for each call, each of a type that tool calls allow.
///
/// # Errors
/// Fails if they do not fit; the question stays pending.
fn check_decisions(interrupt: &Interrupt, decisions: &Decisions) -> Result<(), CliFailure> {
    let (requested, given) = (interrupt.payload.action_requests.len(), decisions.decisions.len());
    if requested != given {
        let verb = if given == 1 { "was" } else { "were" };
        let problem = format!(
            "accept the decisions: {} {verb} given for {}",
            format_count(given as u64, "decision"),
            format_count(requested as u64, "action")
        );
        return Err(CliFailure::new(ExitReason::User, problem).with_hint(
            "the question is still pending; give one decision for each action request, in their order",
        ));
    }
    match approval::is_tool_approval(interrupt) && decisions.decisions.contains(&Decision::Preview {}) {
        true => {
            Err(CliFailure::new(ExitReason::User, "accept the decisions: a tool call cannot be previewed")
                .with_hint(
                    "the question is still pending; a tool call allows approve, edit, reject or respond",
                ))
        }
        false => Ok(()),
    }
}
