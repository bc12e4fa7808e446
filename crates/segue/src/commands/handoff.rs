//! `segue handoff`: from a thread or a session file to a reviewed summary, and from there to a fresh thread. Looking at
//! handoffs, answering them and telling what came of it are in the files beside this one.

pub(crate) mod answer;
pub(crate) mod look;
pub(crate) mod mirror;
mod report;
pub(crate) mod stats;

use std::path::{Path, PathBuf};

use agent::{Decided, HandoffRequest, ImportReport, PendingHandoff};
use protocol::{Decision, Decisions, HandoffId, HandoffStatus, Thread, ThreadId};
use terminal::{Audience, Typed, one_line, shorten, shown_path};

use crate::cli::Format;
use crate::cli::handoff::Handoff;
use crate::commands::{Context, import, review, threads};
use crate::exit::{Code, Failure, Outcome};
use answer::{Answer, answer, settle};
use report::{Ended, finish};

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Handoff) -> Outcome {
    let outcome = match (&args.show, &args.decide) {
        _ if args.list => return look::list(context).await.map(|()| Code::Done),
        (Some(id), _) => return look::show(context, id, args.draft).await.map(|()| Code::Done),
        (None, Some(id)) => decide(context, id, &args).await,
        (None, None) => request(context, &args).await,
    };
    context.agent.handoffs().rest_mirror().await;
    outcome
}

/// Drafts a handoff of what is named, or finds the pending one, and answers it.
async fn request(context: &Context, args: &Handoff) -> Outcome {
    let answer = answer(context, args)?;
    let mut goal = args.goal.clone();
    let (thread, imported) = match (&args.source, args.latest) {
        (source, true) => {
            goal.splice(0..0, source.clone());
            from_file(context, &import::newest(context)?).await?
        }
        (Some(source), false) => from(context, source).await?,
        // The arguments require one of them.
        (None, false) => return Err(Failure::new(Code::User, "hand off: no thread or file is named")),
    };
    let request = HandoffRequest {
        goal: Some(goal.join(" ")).filter(|goal| !goal.trim().is_empty()),
        preview_only: args.preview,
        messages: args.messages,
        ..HandoffRequest::default()
    };
    let mut typed = Typed::default();
    let drafted = review::draft(context, thread.thread_id, request, &mut typed).await;
    if !matches!(drafted, Ok(Some(_))) {
        review::show_typed(context, &mut typed)?;
    }
    let Some(pending) = drafted? else {
        return match (context.format, context.screen.audience) {
            (Format::Text, Audience::Person) => {
                context.screen.line("Stopped; nothing was left behind.")?;
                Ok(Code::Cancelled)
            }
            (Format::Json, _) | (Format::Text, Audience::Program) => {
                Err(Failure::cancelled("draft the handoff")
                    .with_hint("nothing was left behind; the same command drafts it again"))
            }
        };
    };
    conclude(context, &pending, answer, imported.as_ref()).await
}

/// Answers the handoff of that id, which waits already.
async fn decide(context: &Context, id: &str, args: &Handoff) -> Outcome {
    let answer = answer(context, args)?;
    let found = match &args.source {
        Some(thread) => {
            let thread = context.agent.threads().find(thread).await?;
            context.agent.handoffs().find_in(id, thread.thread_id).await?
        }
        None => context.agent.handoffs().find(id).await?,
    };
    let pending = waiting(context, found.handoff_id).await?;
    let answer = match answer {
        // Whoever names the handoff does not come upon it by chance: the preview is its answer.
        Answer::Preview => Answer::Given(Decisions { decisions: vec![Decision::Preview {}] }),
        Answer::Ask | Answer::Apply | Answer::Given(_) | Answer::Nobody => answer,
    };
    conclude(context, &pending, answer, None).await
}

/// Returns the handoff as it waits for a decision.
async fn waiting(context: &Context, handoff_id: HandoffId) -> Result<PendingHandoff, Failure> {
    let review = context.agent.handoffs().review(handoff_id).await?;
    match (review.pending, review.handoff.status) {
        (Some(pending), _) => Ok(pending),
        (None, HandoffStatus::Expired) => {
            let reason = review.handoff.note.unwrap_or_else(|| agent::UNDECIDED.to_owned());
            Err(agent::Error::from(agent::HandoffError::Expired { handoff_id, reason }).into())
        }
        // Nothing is asked: a run drafts it or carries a decision out, or was cut off when it did.
        (None, status) if status.is_pending() => {
            let thread = context.short_id(review.handoff.parent_thread_id).await;
            let what = format!("decide handoff {handoff_id}: it is being worked on, or that was cut off");
            Err(Failure::new(Code::Conflict, what).with_hint(format!(
                "try again in a moment; `segue handoff {thread}` finishes what was cut off"
            )))
        }
        (None, status) => Err(agent::Error::from(agent::HandoffError::Decided { handoff_id, status }).into()),
    }
}

/// Shows the handoff, has it answered, and tells what came of it.
async fn conclude(
    context: &Context,
    pending: &PendingHandoff,
    answer: Answer,
    imported: Option<&ImportReport>,
) -> Outcome {
    let thread = context.agent.threads().find(&pending.handoff.parent_thread_id.to_string()).await?;
    let shown = match context.format {
        Format::Text => show(context, &thread, pending).await,
        Format::Json => Ok(()),
    };
    match (shown, &answer) {
        // An answer that was given before it was shown does not depend on whether somebody reads on.
        (Err(Failure::OutputClosed), Answer::Given(_) | Answer::Apply | Answer::Preview) => {}
        (shown, _) => shown?,
    }
    let reached = settle(context, pending, answer).await?;
    finish(context, Ended { pending, reached, before: thread.last_seq, imported }).await
}

async fn show(context: &Context, thread: &Thread, pending: &PendingHandoff) -> Result<(), Failure> {
    let (screen, id) = (&context.screen, context.short_id(thread.thread_id).await);
    let from = format!("Handoff of {id} {}", threads::title(thread));
    screen.line(screen.style.dim(shorten(&from, screen.columns)))?;
    review::show(context, pending).await
}

/// Tells where the way goes on after a handoff was accepted.
pub(crate) async fn show_child(context: &Context, decided: &Decided, child: ThreadId) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let short = context.short_id(child).await;
    screen.line(format!("{} {}", style.good("Accepted."), one_line(&decided.proposal.summary_json.title)))?;
    screen.line(format!("New thread {short} {}", style.dim(format!("({child})"))))?;
    if let Some(note) =
        decided.handoff.note.as_ref().filter(|_| decided.handoff.status == HandoffStatus::Accepted)
    {
        screen.note(style.warn(format!(
            "agent.md could not be written; the thread gets its summary all the same: {}",
            one_line(note)
        )));
    }
    Ok(())
}

/// Finds the thread that is named, or imports the file that is.
async fn from(context: &Context, source: &str) -> Result<(Thread, Option<ImportReport>), Failure> {
    let is_id = source == "last" || source.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_id && source != "-" && !Path::new(source).exists() {
        true => Ok((context.agent.threads().find(source).await?, None)),
        false => from_file(context, Path::new(source)).await,
    }
}

/// Imports the file and returns its thread; of several, the one that was active last.
async fn from_file(context: &Context, path: &Path) -> Result<(Thread, Option<ImportReport>), Failure> {
    let report = import::import(context, &[PathBuf::from(path)]).await?;
    let mut newest: Option<Thread> = None;
    for imported in &report.threads {
        let thread = context.agent.threads().find(&imported.thread_id.to_string()).await?;
        if newest.as_ref().is_none_or(|newest| newest.updated_at < thread.updated_at) {
            newest = Some(thread);
        }
    }
    let Some(thread) = newest else {
        return Err(Failure::new(
            Code::User,
            format!("hand off {}: it holds no conversation", path.display()),
        )
        .with_hint("`segue import --discover` lists the sessions of this machine"));
    };
    if context.format == Format::Text {
        import::note_problems(context, &report);
        if report.threads.len() > 1 {
            let id = context.short_id(thread.thread_id).await;
            let count = report.threads.len();
            context.screen.note(format!(
                "{} holds {count} conversations; this is the newest, {id}. `segue threads list` shows the others.",
                shown_path(path)
            ));
        }
    }
    Ok((thread, Some(report)))
}
