//! What `segue handoff` tells at its end: one JSON object for a program, a few lines for a person, and the exit code. Nothing
//! is decided here.

use agent::{HandoffCost, HistoryEntry, HistoryQuery, ImportReport, PendingHandoff};
use protocol::{
    Coverage, Handoff, HandoffStatus, HandoffSummary, Interrupt, InterruptId, Message, Proposal, RunStatus,
    Seq, ThreadId,
};
use serde::Serialize;
use serde_json::Value;
use terminal::Audience;

use super::answer::Reached;
use super::look::id_to_keep;
use super::show_child;
use crate::cli::Format;
use crate::commands::run::told::{next_command, tell_what_waits};
use crate::commands::{Context, history, review};
use crate::exit::{self, Code, Failure, Outcome};

/// Events that are read of what the agent said after a decision.
const ANSWER_ENTRIES_MAX: usize = 200;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    outcome: &'static str,
    thread_id: ThreadId,
    child_thread_id: Option<ThreadId>,
    next_command: Option<String>,
    handoff: &'a Handoff,
    iteration: u32,
    summary_json: &'a HandoffSummary,
    summary_md: &'a str,
    summary_sha256: &'a str,
    coverage: &'a Coverage,
    uncovered_messages: u64,
    /// What was wrong with the newest draft: what is shown stands in for it.
    problem: Option<&'a str>,
    #[serde(flatten)]
    waiting: Option<Waiting<'a>>,
    /// What the agent asks that had asked for the handoff and went on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    interrupts: &'a [Interrupt],
    /// What the agent that had asked for the handoff went on to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<&'a ImportReport>,
}

/// What there is to know of a handoff that waits.
#[derive(Serialize)]
struct Waiting<'a> {
    interrupt_id: InterruptId,
    allowed_decisions: Vec<&'a str>,
    remaining_refinements: u32,
    feedback_history: Vec<&'a str>,
    unused_feedback: Option<&'a str>,
    cost: HandoffCost,
}

/// What is reported about.
pub(super) struct Ended<'a> {
    /// The handoff as it was shown.
    pub(super) pending: &'a PendingHandoff,
    /// What came of it.
    pub(super) reached: Reached,
    /// The newest event of the thread before the decision.
    pub(super) before: Seq,
    /// What was imported first.
    pub(super) imported: Option<&'a ImportReport>,
}

impl Ended<'_> {
    /// Returns what waits, if something does: another proposal, or the one that was shown.
    fn waits(&self) -> Option<&PendingHandoff> {
        match &self.reached {
            Reached::Pending | Reached::LookedAt => Some(self.pending),
            Reached::Decided(decided) => decided.next.as_ref(),
        }
    }

    /// Returns what the turn asks that went on after the decision.
    fn questions(&self) -> &[Interrupt] {
        match &self.reached {
            Reached::Decided(decided) if decided.next.is_none() => &decided.end.interrupts,
            Reached::Pending | Reached::LookedAt | Reached::Decided(_) => &[],
        }
    }

    fn child(&self) -> Option<ThreadId> {
        match &self.reached {
            Reached::Pending | Reached::LookedAt => None,
            Reached::Decided(decided) => decided.child_thread_id,
        }
    }

    /// Returns the handoff and the proposal that the report is about.
    fn subject(&self) -> (&Handoff, &Proposal) {
        match (self.waits(), &self.reached) {
            (Some(pending), _) => (&pending.handoff, &pending.proposal),
            (None, Reached::Decided(decided)) => (&decided.handoff, &decided.proposal),
            (None, Reached::Pending | Reached::LookedAt) => (&self.pending.handoff, &self.pending.proposal),
        }
    }

    /// Returns how the command ends.
    fn outcome(&self) -> Outcome {
        match &self.reached {
            Reached::LookedAt => Ok(Code::Done),
            Reached::Pending => Ok(Code::Undecided),
            Reached::Decided(decided) if decided.next.is_some() => match decided.end.status {
                RunStatus::Cancelled => Ok(Code::Cancelled),
                RunStatus::Pending
                | RunStatus::Running
                | RunStatus::Success
                | RunStatus::Error
                | RunStatus::Interrupted
                | RunStatus::Timeout => Ok(Code::Undecided),
            },
            Reached::Decided(decided) if decided.child_thread_id.is_some() => Ok(Code::Done),
            // The agent had asked for it, and its turn went on.
            Reached::Decided(decided) => exit::of_run(&decided.end),
        }
    }
}

/// Tells what came of the handoff, and returns how the program ends.
///
/// # Errors
/// When it cannot be told, or the turn that went on failed.
pub(super) async fn finish(context: &Context, ended: Ended<'_>) -> Outcome {
    let next = match (ended.child(), ended.waits()) {
        (Some(child), _) => Some(format!("segue chat -t {}", context.id_to_keep(child).await)),
        (None, Some(pending)) => Some(decide_command(context, pending).await),
        (None, None) => next_command(context, ended.questions()).await,
    };
    match context.format {
        Format::Json => context.json(&report(context, &ended, next).await?)?,
        Format::Text => tell(context, &ended, &next.unwrap_or_default()).await?,
    }
    ended.outcome()
}

/// Returns the command that answers a handoff.
async fn decide_command(context: &Context, pending: &PendingHandoff) -> String {
    format!("segue handoff --decide {}", id_to_keep(context, pending.handoff.handoff_id).await)
}

async fn report<'a>(
    context: &Context,
    ended: &'a Ended<'_>,
    next_command: Option<String>,
) -> Result<Report<'a>, Failure> {
    let (handoff, proposal) = ended.subject();
    let shown = ended.waits().unwrap_or(ended.pending);
    let waiting = match ended.waits() {
        Some(pending) => Some(waiting(context, pending).await?),
        None => None,
    };
    Ok(Report {
        outcome: handoff.status.outcome(),
        thread_id: handoff.parent_thread_id,
        child_thread_id: ended.child(),
        next_command,
        handoff,
        iteration: proposal.iteration,
        summary_json: &proposal.summary_json,
        summary_md: &proposal.summary_md,
        summary_sha256: &proposal.summary_sha256,
        coverage: &proposal.summary_json.coverage,
        uncovered_messages: shown.uncovered_messages,
        problem: shown.problem.as_deref(),
        waiting,
        interrupts: ended.questions(),
        answer: answered(context, ended).await?,
        import: ended.imported,
    })
}

async fn waiting<'a>(context: &Context, pending: &'a PendingHandoff) -> Result<Waiting<'a>, Failure> {
    let payload = &pending.interrupt.payload;
    let allowed = payload.review_configs.iter().flat_map(|config| &config.allowed_decisions);
    let history = payload.action_requests.first().and_then(|request| request.args.get("feedback_history"));
    let history = history.and_then(Value::as_array).into_iter().flatten();
    Ok(Waiting {
        interrupt_id: pending.interrupt.interrupt_id,
        allowed_decisions: allowed.map(String::as_str).collect(),
        remaining_refinements: pending.remaining_refinements,
        feedback_history: history.filter_map(Value::as_str).collect(),
        unused_feedback: pending.unused_feedback.as_deref(),
        cost: context.agent.handoffs().cost(pending).await?,
    })
}

/// Returns what the agent went on to say, if it had asked for the handoff.
async fn answered(context: &Context, ended: &Ended<'_>) -> Result<Option<String>, Failure> {
    if ended.waits().is_some() || !review::is_asked_by_agent(ended.pending) {
        return Ok(None);
    }
    let thread_id = ended.pending.handoff.parent_thread_id;
    let query =
        HistoryQuery { after_seq: Some(ended.before), limit: ANSWER_ENTRIES_MAX, ..HistoryQuery::default() };
    let said = context.agent.threads().history_page(thread_id, &query).await?;
    let answers = said.entries.iter().rev().filter_map(HistoryEntry::message);
    let mut texts = answers.filter(|message| matches!(message, Message::Ai(_))).map(Message::text);
    Ok(texts.find(|text| !text.trim().is_empty()))
}

async fn tell(context: &Context, ended: &Ended<'_>, next: &str) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let command = style.code(next);
    match &ended.reached {
        Reached::Pending | Reached::LookedAt => {
            screen.line(format!("Nothing was decided; the handoff waits. Come back with:\n  {command}"))?;
            if screen.audience == Audience::Program {
                screen.line("Without a terminal add --apply, which accepts it, or --decision-file FILE.")?;
            }
        }
        Reached::Decided(decided) => match (decided.child_thread_id, &decided.next) {
            (Some(child), _) => {
                show_child(context, decided, child).await?;
                screen.line(format!("Go on with: {command}"))?;
            }
            (None, Some(waiting)) => {
                let is_other = waiting.proposal.iteration != ended.pending.proposal.iteration;
                review::show(context, waiting).await?;
                let what = match (is_other, decided.end.status == RunStatus::Cancelled) {
                    (true, _) => "There is another draft; the handoff waits.",
                    (false, true) => "Stopped; the proposal still waits as it was shown.",
                    (false, false) => "Nothing was drafted; the proposal still waits as it was shown.",
                };
                if waiting.unused_feedback.is_some() {
                    screen.line("Your feedback is kept: Refine begins with it.")?;
                }
                screen.line(format!("{what} Decide with:\n  {command}"))?;
            }
            (None, None) if decided.handoff.status == HandoffStatus::Declined => {
                screen.line("Declined. Nothing was changed; the thread goes on as it was.")?;
            }
            (None, None) => screen.line("Only shown. Nothing was changed.")?,
        },
    }
    if ended.waits().is_none() && review::is_asked_by_agent(ended.pending) {
        history::show_after(context, ended.pending.handoff.parent_thread_id, ended.before).await?;
    }
    if !ended.questions().is_empty() {
        tell_what_waits(context, ended.questions(), Some(next));
    }
    Ok(())
}
