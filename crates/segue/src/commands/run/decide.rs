//! `segue decide`: answers what a run stopped to ask, and lets it go on. What an answer does is decided by the room
//! that asked.

use std::io::Read;
use std::path::Path;

use agent::RunEnd;
use protocol::{Decision, Decisions, Interrupt, InterruptId};

use crate::cli::{self, Format};
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
    if let Ok(interrupt_id) = what.parse::<InterruptId>() {
        return Ok(vec![context.agent.interrupt(interrupt_id).await?]);
    }
    let thread = context.agent.find_thread(what).await?;
    let pending = context.agent.pending(thread.thread_id).await?;
    let about_calls: Vec<Interrupt> =
        pending.iter().filter(|interrupt| approval::is_about_calls(interrupt)).cloned().collect();
    match (about_calls.is_empty(), pending.is_empty()) {
        (true, false) => Err(Failure::new(Code::User, format!("decide `{what}`: a handoff waits there"))
            .with_hint(format!("`segue handoff {what}` shows it and takes the answer"))),
        _ => Ok(about_calls),
    }
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
            let decisions = read(path)?;
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

fn read(path: &Path) -> Result<Decisions, Failure> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|content| text = content),
    };
    read.map_err(|error| {
        Failure::new(Code::User, format!("read the decisions in {}: {error}", path.display()))
            .with_hint("nothing was decided; check the path")
    })?;
    Decisions::from_request(&text).map_err(|error| {
        Failure::new(Code::User, format!("read the decisions: {error}")).with_hint(
            "the question still waits; the file holds {\"decisions\":[{\"type\":\"approve|edit|reject|respond\"}]}",
        )
    })
}
