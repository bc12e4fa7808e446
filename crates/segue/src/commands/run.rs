//! `segue run`: sends one prompt and prints the answer without asking questions. `output` prints the turn, and
//! `json_lines` defines its JSON form. `decide`, `feedback` and `trace` perform the commands about an existing run.

pub(crate) mod decide;
pub(crate) mod feedback;
mod json_lines;
pub(crate) mod output;
pub(crate) mod trace;

use std::io::{self, IsTerminal};

use agent::{Agent, CancellationToken, ErrorClass, FrameSender, RunEnd};
use protocol::{ContentBlock, HumanMessage, RunStatus, Thread, ThreadId};
use terminal::{WatchControl, watch};

use crate::cli::{self, OutputFormat};
use crate::commands::agent_work::run_with_notices;
use crate::commands::memory::summarize;
use crate::commands::{CommandContext, approval, read_stdin, threads};
use crate::exit::{self, CliFailure, CommandResult, ExitReason};
use output::TurnPrinter;

/// Performs `segue run`.
///
/// # Errors
/// Fails if the model's provider is unknown, the prompt is empty, the thread does not exist, or the turn fails.
pub(crate) async fn run(context: &CommandContext, args: cli::RunArgs) -> CommandResult {
    check_model(context)?;
    context.agent.workspace_name()?;
    let message = read_message(args.prompt.as_deref())?;
    let Some(thread) = find_thread(context, &args).await? else {
        let new = context.agent.threads().prepare()?;
        let printer = TurnPrinter::for_new_thread(context, new.thread_id());
        return run_turn(printer, async |agent, frames, cancel| {
            agent.runs().send_first_message(&new, message, frames, cancel).await.map(Some)
        })
        .await;
    };
    threads::warn_of_incomplete_import(context, &thread);
    let thread_id = thread.thread_id;
    recover_run(context, thread_id).await?;
    let dropped_calls = approval::dropped_calls_notice(context, thread_id).await?;
    let printer = TurnPrinter::new(context, thread_id)?.with_first_note(dropped_calls);
    run_turn(printer, async |agent, frames, cancel| {
        agent.runs().send_message(thread_id, message, frames, cancel).await.map(Some)
    })
    .await
}

/// Performs a turn, or the remaining part of one, and prints it: for a user the answer as it arrives, for a program
/// only the whole answer, or every frame as JSON. If `work` returns `None`, a decision is still pending.
///
/// # Errors
/// Fails if the turn fails or cannot be printed. With JSON output, a failed turn is part of the result line instead.
pub(crate) async fn run_turn(
    mut printer: TurnPrinter<'_>,
    work: impl AsyncFnOnce(&Agent, &FrameSender, &CancellationToken) -> agent::Result<Option<RunEnd>>,
) -> CommandResult {
    let context = printer.context;
    let agent = &context.agent;
    let result = watch(
        async |frames, cancel| work(agent, &frames, &cancel).await,
        |event| printer.handle_event(event).map(|()| WatchControl::Continue),
    )
    .await?;
    let (end, outcome) = match result {
        Ok(Some(end)) if end.status == RunStatus::Error => {
            let id = context.durable_id(printer.thread_id).await;
            let retry = format!("the message is kept: `segue run -t {id} -p \"try again\"` retries");
            let outcome = exit::result_of_run(&end).map_err(|failure| failure.with_extra_hint(&retry));
            (Some(end), outcome)
        }
        Ok(Some(end)) => {
            let outcome = exit::result_of_run(&end);
            (Some(end), outcome)
        }
        Ok(None) => (None, Ok(ExitReason::Undecided)),
        Err(error) => (None, Err(error.into())),
    };
    printer.finish(end.as_ref(), &outcome).await?;
    if matches!(outcome, Ok(ExitReason::Success)) {
        summarize::summarize_after_command(context).await;
    }
    match (context.format, outcome) {
        // The result line already contains the failure.
        (OutputFormat::Json, Err(CliFailure::Reported(failure))) => Ok(failure.code),
        (_, outcome) => outcome,
    }
}

/// Resumes an interrupted run of the thread and prints a note. A run that is active in another process is not touched;
/// the next step of the command then fails as busy.
///
/// # Errors
/// Fails if the run cannot be resumed, or if the user stops it.
async fn recover_run(context: &CommandContext, thread_id: ThreadId) -> Result<(), CliFailure> {
    let work = async |agent: &Agent, frames: &FrameSender, cancel: &CancellationToken| {
        agent.runs().recover_before_run(thread_id, frames, cancel).await
    };
    let result = run_with_notices(context, work).await?;
    match result.output {
        _ if result.is_stopped => Err(CliFailure::cancelled("resume the interrupted run")),
        Ok(Some(_)) => {
            context.screen.print_to_stderr("A run of the thread was interrupted; it was resumed.");
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) if error.class() == ErrorClass::Conflict => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the model's provider exists, before anything is stored. If the model cannot be used for another reason, the
/// message is stored and the turn fails.
///
/// # Errors
/// Fails if the provider is unknown.
fn check_model(context: &CommandContext) -> Result<(), CliFailure> {
    let models = context.agent.model_status();
    let (Some(name), Some(problem)) = (&context.model, models.problem) else { return Ok(()) };
    let provider = name.split('/').next().unwrap_or_default();
    match models.providers.iter().any(|known| known.provider == provider) {
        true => Ok(()),
        false => Err(CliFailure::new(ExitReason::User, problem)
            .with_hint("choose a model with `--model PROVIDER/NAME`; `segue models` lists the providers")),
    }
}

/// Returns the thread of the arguments, or `None` if they ask for a new one.
///
/// # Errors
/// Fails if the thread does not exist or the journal cannot be used.
async fn find_thread(context: &CommandContext, args: &cli::RunArgs) -> Result<Option<Thread>, CliFailure> {
    if let Some(prefix) = &args.thread {
        return Ok(Some(context.agent.threads().find(prefix).await?));
    }
    if args.continue_newest {
        return Ok(Some(threads::newest::newest_thread_here(context).await?));
    }
    Ok(None)
}

/// Returns the message: the prompt, followed by piped input as a separate, delimited block.
///
/// # Errors
/// Fails if both are empty or standard input cannot be read.
fn read_message(prompt: Option<&str>) -> Result<HumanMessage, CliFailure> {
    let prompt = prompt.filter(|prompt| *prompt != "-");
    let piped = match prompt {
        // Without a prompt, the message comes from standard input, even if that is a terminal.
        None => read_stdin("the message")?,
        Some(_) if is_piped() => read_stdin("the message")?,
        Some(_) => String::new(),
    };
    let mut content: Vec<ContentBlock> = prompt.map(ContentBlock::text).into_iter().collect();
    match prompt {
        None => content.push(ContentBlock::text(piped)),
        Some(_) if piped.trim().is_empty() => {}
        Some(_) => {
            // Escaped, so that the piped text cannot close its block.
            let piped = piped.replace("</standard_input", "<\\/standard_input");
            content.push(ContentBlock::text(format!(
                "<standard_input>\n{}\n</standard_input>",
                piped.trim_end()
            )));
        }
    }
    let is_empty =
        |block: &ContentBlock| matches!(block, ContentBlock::Text { text } if text.trim().is_empty());
    if content.iter().all(is_empty) {
        return Err(CliFailure::new(ExitReason::User, "send a message: it is empty")
            .with_hint("pass it with `-p TEXT`, or on standard input"));
    }
    Ok(HumanMessage { id: None, content })
}

/// Returns whether standard input is a pipe or a file. Any other kind, such as a socket, may never end, so it is read
/// only if the arguments request it.
#[cfg(unix)]
fn is_piped() -> bool {
    use rustix::fs::{FileType, fstat};
    let kind = fstat(rustix::stdio::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    !io::stdin().is_terminal() && matches!(kind, Ok(FileType::Fifo | FileType::RegularFile))
}

/// Returns whether standard input is not a terminal.
#[cfg(not(unix))]
fn is_piped() -> bool {
    !io::stdin().is_terminal()
}
