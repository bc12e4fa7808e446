//! `segue handoff`: drafts a summary of a thread or a session file, has the user review it, and creates the child
//! thread. The submodules list and show handoffs, answer them, report the outcome, and perform the subcommands `stats`
//! and `export`.

pub(crate) mod answer;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod inspect;
mod preview;
mod report;
mod stats;
mod update;

use std::path::{Path, PathBuf};

use agent::{HandoffRequestOptions, ImportReport, PendingHandoff};
use protocol::{Handoff, HandoffId, HandoffStatus, Proposal, Thread, ThreadId};
use terminal::{Audience, TypeAheadBuffer, sanitize_line, sanitize_path, shorten};

use crate::cli::OutputFormat;
use crate::cli::handoff::{HandoffArgs, HandoffCommand};
use crate::commands::review::{self, FoldedLists};
use crate::commands::{CommandContext, import, threads};
use crate::exit::{CliFailure, CommandResult, ExitReason};
use answer::{HandoffAnswerSource, answer_source, apply_answer};
use inspect::durable_handoff_id;
use report::{HandoffConclusion, report_conclusion};

/// Performs `segue handoff`.
///
/// # Errors
/// Fails if the thread, the file or the handoff cannot be found, or if the draft or the decision fails.
pub(crate) async fn run(context: &CommandContext, mut args: HandoffArgs) -> CommandResult {
    match args.command.take() {
        Some(HandoffCommand::Update(args)) => return update::run(context, args).await,
        Some(HandoffCommand::Stats(args)) => return stats::run(context, args).await,
        Some(HandoffCommand::Export(command)) => return export::run(context, command).await,
        None => {}
    }
    if args.list || args.show.is_some() || args.decide.is_some() {
        threads::settle_handoffs(context).await;
    }
    let outcome = match (&args.show, &args.decide) {
        _ if args.list => return inspect::list_handoffs(context).await.map(|()| ExitReason::Success),
        (Some(id), _) => {
            return inspect::show_handoff(context, id, args.draft).await.map(|()| ExitReason::Success);
        }
        (None, Some(id)) => decide_pending(context, id, &args).await,
        // Not even the export of earlier handoffs is continued, because a preview changes nothing.
        (None, None) if args.preview => return preview::run(context, &args).await,
        (None, None) => request_handoff(context, &args).await,
    };
    context.agent.handoffs().wait_for_mirror().await;
    outcome
}

/// Drafts a handoff of the thread or the session file in the arguments, or finds its pending handoff, and answers it.
///
/// # Errors
/// Fails if the source or the decision file cannot be read, or if the draft or the decision fails.
async fn request_handoff(context: &CommandContext, args: &HandoffArgs) -> CommandResult {
    let answer = answer_source(context, args)?;
    let (source, goal) = source_and_goal(context, args)?;
    let (thread, imported) = match source {
        HandoffSource::Thread(id) => (context.agent.threads().find(&id).await?, None),
        HandoffSource::Session(path) => import_source(context, &path).await?,
    };
    threads::warn_of_incomplete_import(context, &thread);
    let request = request_options(context, args, goal).await?;
    let into = request.into;
    let answer = AnswerRequest { answer, is_probed: args.probe };
    match draft_and_answer(context, thread.thread_id, request, answer, imported.as_ref()).await {
        Err(failure) if failure.is_conflict() => match into {
            // The command that came first has added this summary: this one fails as it would have a moment later.
            Some(child) => {
                context.agent.handoffs().check_mergeable(thread.thread_id, child).await?;
                Err(failure)
            }
            None => Err(failure),
        },
        outcome => outcome,
    }
}

/// Drafts a handoff of the thread, or finds its pending handoff, and answers it.
async fn draft_and_answer(
    context: &CommandContext,
    thread_id: ThreadId,
    request: HandoffRequestOptions,
    answer: AnswerRequest,
    imported: Option<&ImportReport>,
) -> CommandResult {
    let mut typed = TypeAheadBuffer::default();
    let drafted = review::draft_handoff(context, thread_id, request, &mut typed).await;
    if !matches!(drafted, Ok(Some(_))) {
        review::show_unsent_input(context, &mut typed)?;
    }
    let Some(pending) = drafted? else { return report_stopped_draft(context) };
    answer_and_report(context, &pending, answer, imported).await
}

/// Returns the options of the request that the arguments describe.
///
/// # Errors
/// Fails if the thread of `--into` cannot be found.
async fn request_options(
    context: &CommandContext,
    args: &HandoffArgs,
    goal: Option<String>,
) -> Result<HandoffRequestOptions, CliFailure> {
    let into = match &args.into {
        Some(id) => Some(context.agent.threads().find(id).await?.thread_id),
        None => None,
    };
    Ok(HandoffRequestOptions { goal, messages: args.messages, into, ..HandoffRequestOptions::default() })
}

/// Reports a draft that the user stopped.
///
/// # Errors
/// Fails for a program, which must not continue as if there were a draft.
fn report_stopped_draft(context: &CommandContext) -> CommandResult {
    match (context.format, context.screen.audience) {
        (OutputFormat::Text, Audience::Person) => {
            context.screen.print_line("Stopped. No draft was kept.")?;
            Ok(ExitReason::Cancelled)
        }
        (OutputFormat::Json, _) | (OutputFormat::Text, Audience::Program) => {
            Err(CliFailure::cancelled("draft the handoff")
                .with_hint("no draft was kept; run the same command to draft it again"))
        }
    }
}

/// Answers the pending handoff whose id begins with `id`. If the arguments name a thread, only its handoffs are
/// searched.
async fn decide_pending(context: &CommandContext, id: &str, args: &HandoffArgs) -> CommandResult {
    let answer = answer_source(context, args)?;
    let handoff = match &args.source {
        Some(thread) => {
            let thread = context.agent.threads().find(thread).await?;
            context.agent.handoffs().find_in_thread(id, thread.thread_id).await?
        }
        None => context.agent.handoffs().find(id).await?,
    };
    let pending = find_pending(context, handoff.handoff_id).await?;
    // A review shows the current proposal before it asks; every other answer is about the one that its id names.
    if !matches!(answer, HandoffAnswerSource::Ask) {
        context.agent.handoffs().check_named_proposal(id).await?;
    }
    answer_and_report(context, &pending, AnswerRequest { answer, is_probed: args.probe }, None).await
}

/// Returns the pending handoff with the given id.
///
/// # Errors
/// Fails if the handoff is expired or decided, or is not ready for a decision.
async fn find_pending(context: &CommandContext, handoff_id: HandoffId) -> Result<PendingHandoff, CliFailure> {
    let review = context.agent.handoffs().review(handoff_id).await?;
    match (review.pending, review.handoff.status) {
        (Some(pending), _) => Ok(pending),
        (None, HandoffStatus::Expired) => {
            let reason = review.handoff.note.unwrap_or_else(|| agent::UNDECIDED_NOTE.to_owned());
            Err(agent::Error::from(agent::HandoffError::Expired { handoff_id, reason }).into())
        }
        // A run is drafting the handoff or performing a decision, or was interrupted while it did.
        (None, status) if status.is_pending() => {
            let thread = context.short_id(review.handoff.parent_thread_id).await;
            let id = durable_handoff_id(context, handoff_id).await;
            let problem = format!("decide handoff {handoff_id}: a run is working on it, or was interrupted");
            Err(CliFailure::new(ExitReason::Conflict, problem).with_hint(format!(
                "try again in a moment; if its process has ended, `segue handoff {thread}` resumes the run, and then \
                 `segue handoff --decide {id}` decides"
            )))
        }
        (None, status) => {
            Err(agent::Error::from(agent::HandoffError::AlreadyDecided { handoff_id, status }).into())
        }
    }
}

/// The answer to a handoff as the arguments give it.
struct AnswerRequest {
    /// The source of the answer.
    answer: HandoffAnswerSource,
    /// True if it is to be checked what the summary alone answers.
    is_probed: bool,
}

/// Shows the handoff, applies the answer, and reports the result.
async fn answer_and_report(
    context: &CommandContext,
    pending: &PendingHandoff,
    AnswerRequest { answer, is_probed }: AnswerRequest,
    imported: Option<&ImportReport>,
) -> CommandResult {
    // A review at the terminal makes the check itself.
    let is_probed = is_probed && !matches!(answer, HandoffAnswerSource::Ask);
    let thread = context.agent.threads().find(&pending.handoff.parent_thread_id.to_string()).await?;
    let lists = match answer {
        HandoffAnswerSource::Ask => FoldedLists::ReviewKey,
        HandoffAnswerSource::Preview
        | HandoffAnswerSource::Apply
        | HandoffAnswerSource::Redraft
        | HandoffAnswerSource::FromFile(_)
        | HandoffAnswerSource::NoAnswer => FoldedLists::JsonOption,
    };
    let shown = match context.format {
        OutputFormat::Text => show_pending(context, &thread, pending, lists).await,
        OutputFormat::Json => Ok(()),
    };
    match (shown, &answer) {
        // An answer from an option or a file is applied even if the reader has closed the output.
        (
            Err(CliFailure::OutputClosed),
            HandoffAnswerSource::FromFile(_)
            | HandoffAnswerSource::Apply
            | HandoffAnswerSource::Preview
            | HandoffAnswerSource::Redraft,
        ) => {}
        (shown, _) => shown?,
    }
    let is_accepted_unseen = matches!(answer, HandoffAnswerSource::Apply);
    let continuity = match is_probed && is_accepted_unseen {
        true => review::requested_report(context, pending).await?,
        false => None,
    };
    let result = apply_answer(context, pending, answer).await?;
    let mut conclusion =
        HandoffConclusion { pending, result, last_seq_before: thread.last_seq, import: imported, continuity };
    if let Some(pending) = conclusion.still_pending().filter(|_| is_probed) {
        conclusion.continuity = review::requested_report(context, pending).await?;
    }
    report_conclusion(context, conclusion).await
}

/// Prints a heading with the thread of the handoff, and the proposal.
async fn show_pending(
    context: &CommandContext,
    thread: &Thread,
    pending: &PendingHandoff,
    lists: FoldedLists,
) -> Result<(), CliFailure> {
    let (screen, id) = (&context.screen, context.short_id(thread.thread_id).await);
    let heading = format!("Handoff of {id} {}", threads::thread_title(thread));
    screen.print_line(screen.style.dim(shorten(&heading, screen.columns)))?;
    review::show_proposal(context, pending, lists).await
}

/// Prints the child thread of an accepted handoff. A notice has said before if `agent.md` could not be written.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) async fn show_child_thread(
    context: &CommandContext,
    handoff: &Handoff,
    proposal: &Proposal,
) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let child = handoff.child_thread_id;
    let short = context.short_id(child).await;
    screen.print_line(format!(
        "{} {}",
        style.good("Accepted."),
        sanitize_line(&proposal.summary_json.title)
    ))?;
    let is_merged = handoff.options.get("into").is_some_and(|into| !into.is_null());
    let lead = if is_merged { "Added to thread" } else { "New thread" };
    screen.print_line(format!("{lead} {short} {}", style.dim(format!("({child})"))))?;
    Ok(())
}

/// The conversation to hand off.
enum HandoffSource {
    /// A thread, by the beginning of its id or `last`.
    Thread(String),
    /// A session file, a folder of them, or standard input.
    Session(PathBuf),
}

/// Returns the conversation and the goal that the arguments name. A text that could be a thread id but is also the path
/// of an existing file names the file.
///
/// # Errors
/// Fails if the arguments name no conversation, or if no session is found for `--latest`.
fn source_and_goal(
    context: &CommandContext,
    args: &HandoffArgs,
) -> Result<(HandoffSource, Option<String>), CliFailure> {
    let mut words = args.goal.clone();
    let source = match &args.source {
        source if args.latest => {
            words.splice(0..0, source.clone());
            HandoffSource::Session(import::newest_session(context)?)
        }
        Some(source) => {
            let is_id =
                source == "last" || source.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
            match is_id && source != "-" && !Path::new(source).exists() {
                true => HandoffSource::Thread(source.clone()),
                false => HandoffSource::Session(PathBuf::from(source)),
            }
        }
        // The parser of the arguments requires one of them.
        None => return Err(CliFailure::new(ExitReason::User, "hand off: no thread or file is given")),
    };
    Ok((source, Some(words.join(" ")).filter(|goal| !goal.trim().is_empty())))
}

/// Imports a session file and returns its thread; of several threads, the most recently active.
///
/// # Errors
/// Fails if the file cannot be read or contains no conversation.
async fn import_source(
    context: &CommandContext,
    path: &Path,
) -> Result<(Thread, Option<ImportReport>), CliFailure> {
    let report = import::import_sessions(context, &[PathBuf::from(path)])
        .await
        .map_err(|failure| add_thread_hint(failure, path))?;
    let mut threads = Vec::new();
    for imported in &report.threads {
        threads.push(context.agent.threads().find(&imported.thread_id.to_string()).await?);
    }
    let thread = most_recent_thread(threads, path)?;
    if context.format == OutputFormat::Text {
        import::print_problems(context, &report);
        if report.threads.len() > 1 {
            let id = context.short_id(thread.thread_id).await;
            let count = report.threads.len();
            context.screen.print_to_stderr(format!(
                "{} contains {count} conversations; this is the newest, {id}. `segue threads list` shows the others.",
                sanitize_path(path)
            ));
        }
    }
    Ok((thread, Some(report)))
}

/// Adds a hint about threads to the failure to read a path that does not exist, because the argument may be meant as the
/// name of a thread.
fn add_thread_hint(failure: CliFailure, path: &Path) -> CliFailure {
    let is_missing = path.as_os_str() != "-" && !path.exists();
    if is_missing { failure.with_extra_hint("`segue threads list` lists the threads") } else { failure }
}

/// Returns the most recently active of the threads that were read from a path; of equally recent ones, the first.
///
/// # Errors
/// Fails if there is none.
fn most_recent_thread(threads: Vec<Thread>, path: &Path) -> Result<Thread, CliFailure> {
    threads.into_iter().rev().max_by_key(|thread| thread.updated_at).ok_or_else(|| {
        CliFailure::new(ExitReason::User, format!("hand off {}: it contains no conversation", path.display()))
            .with_hint("`segue import --discover` lists the sessions of this machine")
    })
}
