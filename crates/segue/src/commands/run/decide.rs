//! `segue decide`: answers what a run stopped to ask, and lets it go on. What an answer does is decided by the room
//! that asked.

use agent::RunEnd;
use protocol::{Decision, Decisions, Interrupt, InterruptId, InterruptStatus};
use terminal::{Audience, Typed};

use crate::cli::{self, Format};
use crate::commands::approval::Answered;
use crate::commands::handoff::answer::read;
use crate::commands::handoff::look::id_to_keep;
use crate::commands::run::told::Teller;
use crate::commands::{Context, approval, run};
use crate::exit::{Code, Failure, Outcome};

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Decide) -> Outcome {
    let thread_id = match args.what.parse::<InterruptId>() {
        Ok(interrupt_id) => context.agent.runs().interrupt(interrupt_id).await?.thread_id,
        Err(_) => context.agent.threads().find(&args.what).await?.thread_id,
    };
    run::take_up(context, thread_id).await?;
    let pending = pending(context, &args.what).await?;
    let Some(first) = pending.first() else {
        return Err(Failure::new(Code::User, format!("decide `{}`: nothing waits there", args.what))
            .with_hint("`segue threads list` marks the threads that wait"));
    };
    if args.here {
        return go_on_here(context, first).await;
    }
    let mut answers: Vec<(InterruptId, Decisions)> = Vec::new();
    for interrupt in &pending {
        match answer(context, &args, interrupt, pending.len()).await? {
            Some(Given::Decisions(decisions)) => answers.push((interrupt.interrupt_id, decisions)),
            Some(Given::GoOnHere) => {
                return match go_on_here(context, interrupt).await? {
                    // It is asked again, for this folder.
                    Code::Undecided => {
                        let args = cli::Decide { what: thread_id.to_string(), ..args };
                        Box::pin(run(context, args)).await
                    }
                    code => Ok(code),
                };
            }
            None if context.format == Format::Json => {
                return run::turn(Teller::new(context, thread_id)?, async |_, _, _| Ok(None)).await;
            }
            None => return Ok(Code::Undecided),
        }
    }
    run::turn(Teller::new(context, thread_id)?, async |agent, frames, cancel| {
        let mut end: Option<RunEnd> = None;
        for (interrupt_id, decisions) in &answers {
            end = agent.runs().resume(*interrupt_id, decisions, frames, cancel).await?;
        }
        Ok(end)
    })
    .await
}

/// Moves the thread to this folder, and has the calls asked about again.
async fn go_on_here(context: &Context, interrupt: &Interrupt) -> Outcome {
    run::turn(Teller::new(context, interrupt.thread_id)?, async |agent, frames, cancel| {
        agent.runs().rehome(interrupt, frames, cancel).await.map(Some)
    })
    .await
}

/// Returns what waits: the one interrupt, or all of the thread.
async fn pending(context: &Context, what: &str) -> Result<Vec<Interrupt>, Failure> {
    let pending = match what.parse::<InterruptId>() {
        Ok(interrupt_id) => vec![context.agent.runs().interrupt(interrupt_id).await?],
        Err(_) => {
            let thread = context.agent.threads().find(what).await?;
            context.agent.runs().pending_interrupts(thread.thread_id).await?
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
        Some(_) | None => {
            match about_calls.iter().find(|interrupt| interrupt.status != InterruptStatus::Pending) {
                Some(over) => Err(Failure::new(
                    Code::Conflict,
                    format!("decide `{what}`: the question is {} already", over.status.as_str()),
                )
                .with_hint(format!(
                    "nothing was changed; `segue history {}` shows what was decided",
                    over.thread_id
                ))),
                None => Ok(about_calls),
            }
        }
    }
}

/// Returns the command that answers a handoff's question.
pub(super) async fn handoff_command(context: &Context, interrupt: &Interrupt) -> String {
    let id = match context.agent.handoffs().find(&interrupt.interrupt_id.to_string()).await {
        Ok(handoff) => id_to_keep(context, handoff.handoff_id).await,
        Err(_) => interrupt.interrupt_id.to_string(),
    };
    format!("segue handoff --decide {id}")
}

/// What somebody answers.
enum Given {
    Decisions(Decisions),
    /// The calls are asked about again in this folder.
    GoOnHere,
}

async fn answer(
    context: &Context,
    args: &cli::Decide,
    interrupt: &Interrupt,
    count: usize,
) -> Result<Option<Given>, Failure> {
    let all = |decision: Decision| {
        let count = interrupt.payload.action_requests.len();
        Ok(Some(Given::Decisions(Decisions { decisions: vec![decision; count] })))
    };
    match (&args.reject, &args.decision_file) {
        _ if args.approve => {
            let calls = match approval::is_made_when_approved(interrupt) {
                true => approval::call_lines(interrupt),
                false => Vec::new(),
            };
            for call in calls {
                context.screen.note(context.screen.style.dim(call));
            }
            all(Decision::Approve { args: None, summary_sha256: None })
        }
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
            Ok(Some(Given::Decisions(decisions)))
        }
        (None, None) if context.format == Format::Text && context.screen.audience == Audience::Person => {
            match approval::ask_person(context, interrupt, &mut Typed::default())? {
                Some(Answered::Decided { decisions, remembered }) => {
                    approval::remember(context, interrupt, &remembered).await?;
                    Ok(Some(Given::Decisions(decisions)))
                }
                Some(Answered::GoOnHere) => Ok(Some(Given::GoOnHere)),
                None => Ok(None),
            }
        }
        // A program reads the question in the result.
        (None, None) if context.format == Format::Json => Ok(None),
        (None, None) => {
            let calls = approval::call_lines(interrupt).join("; ");
            let id = interrupt.interrupt_id;
            Err(Failure::new(Code::User, format!("decide about {calls}: nobody can be asked")).with_hint(
                format!(
                    "`segue decide {id}` with --approve, --reject [MESSAGE], --decision-file FILE or --here"
                ),
            ))
        }
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
