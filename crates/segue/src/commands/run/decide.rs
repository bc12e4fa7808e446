//! `segue decide`: answers what a run stopped to ask, and lets it go on. What an answer does is decided by the room
//! that asked.

use agent::RunEnd;
use protocol::{Decision, Decisions, Interrupt, InterruptId};

use crate::cli::{self, Format};
use crate::commands::handoff::answer::read;
use crate::commands::handoff::look::id_to_keep;
use crate::commands::{Context, approval, run};
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::screen::Audience;
use crate::terminal::work::typed::Typed;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Decide) -> Outcome {
    let pending = pending(context, &args.what).await?;
    let Some(first) = pending.first() else {
        return Err(Failure::new(Code::User, format!("decide `{}`: nothing waits there", args.what))
            .with_hint("`segue threads list` marks the threads that wait"));
    };
    let thread_id = first.thread_id;
    let mut answers: Vec<(InterruptId, Decisions)> = Vec::new();
    for interrupt in &pending {
        match answer(context, &args, interrupt, pending.len()).await? {
            Some(decisions) => answers.push((interrupt.interrupt_id, decisions)),
            None => return Ok(Code::Undecided),
        }
    }
    run::turn(context, thread_id, async |agent, frames, cancel| {
        let mut end: Option<RunEnd> = None;
        for (interrupt_id, decisions) in &answers {
            end = agent.resume(*interrupt_id, decisions, frames, cancel).await?;
        }
        Ok(end)
    })
    .await
}

/// Returns what waits: the one interrupt, or all of the thread.
async fn pending(context: &Context, what: &str) -> Result<Vec<Interrupt>, Failure> {
    let pending = match what.parse::<InterruptId>() {
        Ok(interrupt_id) => vec![context.agent.interrupt(interrupt_id).await?],
        Err(_) => {
            let thread = context.agent.find_thread(what).await?;
            context.agent.pending(thread.thread_id).await?
        }
    };
    let (about_calls, others): (Vec<Interrupt>, Vec<Interrupt>) =
        pending.into_iter().partition(approval::is_about_calls);
    match others.first() {
        Some(handoff) if about_calls.is_empty() => {
            let command = handoff_command(context, handoff).await;
            Err(Failure::new(Code::User, format!("decide `{what}`: it asks about a handoff"))
                .with_hint(format!("`{command}` shows the summary and takes the answer")))
        }
        Some(_) | None => Ok(about_calls),
    }
}

/// Returns the command that answers a handoff's question.
pub(super) async fn handoff_command(context: &Context, interrupt: &Interrupt) -> String {
    let id = match context.agent.find_handoff(&interrupt.interrupt_id.to_string()).await {
        Ok(handoff) => id_to_keep(context, handoff.handoff_id).await,
        Err(_) => interrupt.interrupt_id.to_string(),
    };
    format!("segue handoff --decide {id}")
}

async fn answer(
    context: &Context,
    args: &cli::Decide,
    interrupt: &Interrupt,
    count: usize,
) -> Result<Option<Decisions>, Failure> {
    let all = |decision: Decision| {
        let count = interrupt.payload.action_requests.len();
        Ok(Some(Decisions { decisions: vec![decision; count] }))
    };
    match (&args.reject, &args.decision_file) {
        _ if args.approve => all(Decision::Approve { args: None, summary_sha256: None }),
        (Some(why), _) => {
            let message = Some(why.trim().to_owned()).filter(|why| !why.is_empty());
            all(Decision::Reject { message })
        }
        (None, Some(_)) if count > 1 => {
            Err(Failure::new(Code::User, format!("decide `{}`: {count} questions wait there", args.what))
                .with_hint("name one by its interrupt id; `segue run --json` and `--json` here show the ids"))
        }
        (None, Some(path)) => {
            let decisions = read(path, "approve|edit|reject|respond")?;
            check(interrupt, &decisions)?;
            Ok(Some(decisions))
        }
        (None, None) if context.format == Format::Text && context.screen.audience == Audience::Person => {
            match approval::ask_person(context, interrupt, &mut Typed::default())? {
                Some(answered) => {
                    approval::remember(context, &answered.remembered).await?;
                    Ok(Some(answered.decisions))
                }
                None => Ok(None),
            }
        }
        (None, None) => Err(Failure::new(Code::User, "decide: nobody can be asked")
            .with_hint("add --approve, --reject [MESSAGE] or --decision-file FILE")),
    }
}

/// Checks that the decisions fit the question: one for each call, and of a sort that tool calls know.
fn check(interrupt: &Interrupt, decisions: &Decisions) -> Result<(), Failure> {
    let (asked, given) = (interrupt.payload.action_requests.len(), decisions.decisions.len());
    if asked != given {
        let what = format!("take the decisions: the question has {asked}, the file {given}");
        return Err(Failure::new(Code::User, what).with_hint(
            "the question still waits; give one decision for each action request, in their order",
        ));
    }
    match approval::is_about_calls(interrupt) && decisions.decisions.contains(&Decision::Preview {}) {
        true => Err(Failure::new(Code::User, "take the decisions: a tool call cannot be previewed")
            .with_hint("the question still waits; a call takes approve, edit, reject or respond")),
        false => Ok(()),
    }
}
