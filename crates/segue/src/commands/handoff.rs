//! `segue handoff`: from a thread or a session file to a reviewed summary, and from there to a fresh thread.

use std::io::Read;
use std::path::{Path, PathBuf};

use agent::{Decided, Frame, HandoffRequest, ImportReport, PendingHandoff};
use protocol::{
    Coverage, Decision, Decisions, Handoff, HandoffStatus, HandoffSummary, Proposal, Thread, ThreadId,
};
use serde::Serialize;

use crate::cli::{self, Format};
use crate::commands::{Context, import, review, threads};
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::screen::Audience;
use crate::terminal::text::safe::one_line;
use crate::terminal::text::wrap::shorten;
use crate::terminal::work::progress::{Progress, Unit};
use crate::terminal::work::typed::Typed;
use crate::terminal::work::watch::{Seen, Then, watch};

/// Where the answer comes from.
enum Answer {
    /// The person at the terminal.
    Ask,
    /// `--preview`.
    Preview,
    /// `--apply`.
    Apply,
    /// `--decision-file`: what it holds.
    Given(String),
    /// Nobody is there to answer.
    Nobody,
}

/// How far a handoff came.
enum Reached {
    /// It waits for a decision.
    Pending,
    /// It waited before and was only looked at.
    LookedAt,
    /// It was decided.
    Decided(Box<Decided>),
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Handoff) -> Outcome {
    let answer = answer(context, &args)?;
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
    let pending = draft(context, thread.thread_id, request).await?;
    if context.format == Format::Text {
        let (screen, id) = (&context.screen, context.short_id(thread.thread_id).await);
        let from = format!("Handoff of {id} {}", threads::title(&thread));
        screen.line(screen.style.dim(shorten(&from, screen.columns)))?;
        review::show(context, &pending)?;
    }
    let reached = settle(context, &pending, answer).await?;
    finish(context, &pending, reached, imported.as_ref()).await
}

/// Drafts the handoff, or finds the pending one.
pub(crate) async fn draft(
    context: &Context,
    thread_id: ThreadId,
    request: HandoffRequest,
) -> Result<PendingHandoff, Failure> {
    let progress = Progress::new(context.format, Unit::Steps);
    let agent = &context.agent;
    let (drafted, stopped) = watch(
        async |frames, cancel| {
            (agent.request_handoff(thread_id, request, &frames, &cancel).await, cancel.is_cancelled())
        },
        |seen| {
            match seen {
                Seen::Frame(_, Frame::Notice { text }) => progress.aside(|| context.notice(text)),
                Seen::Frame(_, frame) => progress.show(frame),
                Seen::Gap(_) | Seen::Tick | Seen::Stopping => {}
            }
            Ok(Then::GoOn)
        },
    )
    .await?;
    match drafted {
        Err(_) if stopped => Err(Failure::cancelled("draft the handoff")
            .with_hint("run the same command again: it goes on where this one stopped")),
        drafted => Ok(drafted?),
    }
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

fn answer(context: &Context, args: &cli::Handoff) -> Result<Answer, Failure> {
    Ok(match (&args.decision_file, args.preview, args.apply) {
        // Read before anything is drafted: a missing file should cost nothing.
        (Some(path), _, _) => Answer::Given(read(path)?),
        (None, true, _) => Answer::Preview,
        (None, false, true) => Answer::Apply,
        (None, false, false)
            if context.format == Format::Text && context.screen.audience == Audience::Person =>
        {
            Answer::Ask
        }
        (None, false, false) => Answer::Nobody,
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|content| text = content),
    };
    read.map_err(|error| {
        Failure::new(Code::User, format!("read the decision in {}: {error}", path.display()))
            .with_hint("nothing was drafted or decided; check the path")
    })?;
    Ok(text)
}

/// Finds the thread that is named, or imports the file that is.
async fn from(context: &Context, source: &str) -> Result<(Thread, Option<ImportReport>), Failure> {
    let is_id = source == "last" || source.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    match is_id && source != "-" && !Path::new(source).exists() {
        true => Ok((context.agent.find_thread(source).await?, None)),
        false => from_file(context, Path::new(source)).await,
    }
}

/// Imports the file and returns its thread; of several, the one that was active last.
async fn from_file(context: &Context, path: &Path) -> Result<(Thread, Option<ImportReport>), Failure> {
    let report = import::import(context, &[PathBuf::from(path)]).await?;
    let mut newest: Option<Thread> = None;
    for imported in &report.threads {
        let thread = context.agent.find_thread(&imported.thread_id.to_string()).await?;
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
                path.display()
            ));
        }
    }
    Ok((thread, Some(report)))
}

async fn settle(context: &Context, pending: &PendingHandoff, answer: Answer) -> Result<Reached, Failure> {
    let decision = match answer {
        Answer::Nobody => return Ok(Reached::Pending),
        Answer::Ask => {
            let decided = review::ask_person(context, pending, &mut Typed::default()).await?;
            return Ok(decided.map_or(Reached::Pending, |decided| Reached::Decided(Box::new(decided))));
        }
        // One that waited before belongs to whoever asked for it: a look does not end it.
        Answer::Preview if !pending.is_new => return Ok(Reached::LookedAt),
        Answer::Preview => Decisions { decisions: vec![Decision::Preview {}] },
        Answer::Apply => Decisions { decisions: vec![review::acceptance(pending)] },
        Answer::Given(text) => Decisions::from_request(&text).map_err(|error| {
            Failure::new(Code::User, format!("read the decision: {error}")).with_hint(
                "the handoff still waits; the file holds {\"decisions\":[{\"type\":\"approve|edit|reject|preview\"}]}",
            )
        })?,
    };
    let decided = review::decide(context, pending.handoff.handoff_id, &decision).await??;
    Ok(Reached::Decided(Box::new(decided)))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    outcome: &'static str,
    thread_id: ThreadId,
    child_thread_id: Option<ThreadId>,
    next_command: Option<String>,
    handoff: &'a Handoff,
    summary_json: &'a HandoffSummary,
    summary_md: &'a str,
    summary_sha256: &'a str,
    coverage: &'a Coverage,
    uncovered_messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<&'a ImportReport>,
}

async fn finish(
    context: &Context,
    pending: &PendingHandoff,
    reached: Reached,
    imported: Option<&ImportReport>,
) -> Outcome {
    let (handoff, proposal, child): (&Handoff, &Proposal, Option<ThreadId>) = match &reached {
        Reached::Pending | Reached::LookedAt => (&pending.handoff, &pending.proposal, None),
        Reached::Decided(decided) => (&decided.handoff, &decided.proposal, decided.child_thread_id),
    };
    let outcome = review::outcome(handoff.status);
    let thread = context.short_id(handoff.parent_thread_id).await;
    let next_command = match (child, outcome) {
        (Some(child), _) => Some(format!("segue chat -t {}", context.id_to_keep(child).await)),
        (None, "pending") => Some(format!("segue handoff {thread}")),
        (None, _) => None,
    };
    match context.format {
        Format::Json => context.json(&Report {
            outcome,
            thread_id: handoff.parent_thread_id,
            child_thread_id: child,
            next_command,
            handoff,
            summary_json: &proposal.summary_json,
            summary_md: &proposal.summary_md,
            summary_sha256: &proposal.summary_sha256,
            coverage: &proposal.summary_json.coverage,
            uncovered_messages: pending.uncovered_messages,
            import: imported,
        })?,
        Format::Text => tell(context, &reached, next_command).await?,
    }
    Ok(match (&reached, outcome) {
        (Reached::LookedAt, _) => Code::Done,
        (Reached::Pending | Reached::Decided(_), "pending") => Code::Undecided,
        (Reached::Pending | Reached::Decided(_), _) => Code::Done,
    })
}

async fn tell(context: &Context, reached: &Reached, next: Option<String>) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let next = style.code(next.unwrap_or_default());
    match reached {
        Reached::Pending | Reached::LookedAt => {
            screen.line(format!("Nothing was decided; the handoff waits. Come back with: {next}"))?;
        }
        Reached::Decided(decided) => match (decided.child_thread_id, &decided.next) {
            (Some(child), _) => {
                show_child(context, decided, child).await?;
                screen.line(format!("Go on with: {next}"))?;
            }
            (None, Some(redrafted)) => {
                review::show(context, redrafted)?;
                screen.line(format!("There is another draft; the handoff waits. Decide with: {next}"))?;
            }
            (None, None) if decided.handoff.status == HandoffStatus::Declined => {
                screen.line("Declined. Nothing was changed; the thread goes on as it was.")?;
            }
            (None, None) => screen.line("Only shown. Nothing was changed.")?,
        },
    }
    Ok(())
}
