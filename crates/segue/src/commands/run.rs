//! `segue run`: one prompt, one answer, no terminal needed. How a turn is told to a program is in `lines`; the commands
//! about a run that was made are beside it.

pub(crate) mod decide;
pub(crate) mod feedback;
mod lines;
pub(crate) mod told;
pub(crate) mod trace;

use std::io::{self, IsTerminal, Read};

use agent::{Agent, CancellationToken, Class, Frames, RunEnd};
use protocol::{Block, HumanMessage, RunStatus, ThreadId};
use terminal::{Then, watch};

use crate::cli::{self, Format};
use crate::commands::memory::settle;
use crate::commands::work::noted;
use crate::commands::{Context, approval, threads};
use crate::exit::{self, Code, Failure, Outcome};
use told::Teller;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Run) -> Outcome {
    check_model(context)?;
    context.agent.named_workspace()?;
    let message = message(args.prompt.as_deref())?;
    let thread_id = thread(context, &args).await?;
    take_up(context, thread_id).await?;
    let dropped = approval::dropped(context, thread_id).await?;
    let teller = Teller::new(context, thread_id)?.opening_with(dropped);
    turn(teller, async |agent, frames, cancel| {
        agent.runs().send(thread_id, message, frames, cancel).await.map(Some)
    })
    .await
}

/// Does a turn, or the rest of one, and tells it: to a person the answer as it comes, to a program the answer alone or
/// every frame. `None` as its end says that something still waits.
///
/// # Errors
/// When the turn did not succeed, or could not be told.
pub(crate) async fn turn(
    mut teller: Teller<'_>,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> agent::Result<Option<RunEnd>>,
) -> Outcome {
    let context = teller.context;
    let agent = &context.agent;
    let done = watch(
        async |frames, cancel| work(agent, &frames, &cancel).await,
        |seen| teller.tell(seen).map(|()| Then::GoOn),
    )
    .await?;
    let (end, outcome) = match done {
        Ok(Some(end)) if end.status == RunStatus::Error => {
            let id = context.id_to_keep(teller.thread_id).await;
            let retry = format!("the message is kept: `segue run -t {id} -p \"try again\"` asks again");
            let outcome = exit::of_run(&end).map_err(|failure| failure.with_more_hint(&retry));
            (Some(end), outcome)
        }
        Ok(Some(end)) => {
            let outcome = exit::of_run(&end);
            (Some(end), outcome)
        }
        Ok(None) => (None, Ok(Code::Undecided)),
        Err(error) => (None, Err(error.into())),
    };
    teller.finish(end.as_ref(), &outcome).await?;
    if matches!(outcome, Ok(Code::Done)) {
        settle::afterwards(context).await;
    }
    match (context.format, outcome) {
        // The result says it already.
        (Format::Json, Err(Failure::Told(told))) => Ok(told.code),
        (_, outcome) => outcome,
    }
}

/// Goes on with a run of the thread that was cut off, and says so. One that is alive elsewhere is left to what follows.
///
/// # Errors
/// When it cannot be gone on with, or is stopped.
async fn take_up(context: &Context, thread_id: ThreadId) -> Result<(), Failure> {
    let done = noted(context, async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| {
        agent.runs().take_up(thread_id, frames, cancel).await
    })
    .await?;
    match done.done {
        _ if done.is_stopped => Err(Failure::cancelled("go on with the run that was cut off")),
        Ok(Some(_)) => {
            context.screen.note("A run of the thread had been cut off; it was gone on with.");
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) if error.class() == Class::Conflict => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a model of a provider that there is not, before anything is done. With one that cannot be used for another
/// reason the message is kept, and the turn fails.
fn check_model(context: &Context) -> Result<(), Failure> {
    let models = context.agent.models();
    let (Some(name), Some(problem)) = (&context.model, models.problem) else { return Ok(()) };
    let provider = name.split('/').next().unwrap_or_default();
    match models.providers.iter().any(|known| known.provider == provider) {
        true => Ok(()),
        false => Err(Failure::new(Code::User, problem)
            .with_hint("name one as `--model PROVIDER/NAME`; `segue models` shows the providers")),
    }
}

async fn thread(context: &Context, args: &cli::Run) -> Result<ThreadId, Failure> {
    if let Some(prefix) = &args.thread {
        return Ok(context.agent.threads().find(prefix).await?.thread_id);
    }
    if args.go_on {
        return Ok(threads::newest::newest_here(context).await?.thread_id);
    }
    let created = context.agent.threads().create(None).await?.thread_id;
    let models = context.agent.models();
    // Where no model can be used, the failure names the thread.
    let is_answered = models.default.is_some() && models.problem.is_none();
    if context.format == Format::Text && is_answered {
        context.screen.note(context.screen.style.dim(format!("thread {created}")));
    }
    Ok(created)
}

/// Returns the prompt, with what is piped in besides as a block of its own.
fn message(prompt: Option<&str>) -> Result<HumanMessage, Failure> {
    let named = prompt.filter(|prompt| *prompt != "-");
    let piped = match named {
        // Whoever names no prompt means standard input, even if it is a terminal that has to be typed into.
        None => read_input()?,
        Some(_) if is_piped() => read_input()?,
        Some(_) => String::new(),
    };
    let mut content: Vec<Block> = named.map(Block::text).into_iter().collect();
    match named {
        None => content.push(Block::text(piped)),
        Some(_) if piped.trim().is_empty() => {}
        Some(_) => {
            let piped = piped.replace("</standard_input", "<\\/standard_input");
            content.push(Block::text(format!("<standard_input>\n{}\n</standard_input>", piped.trim_end())));
        }
    }
    let is_empty = |block: &Block| matches!(block, Block::Text { text } if text.trim().is_empty());
    if content.iter().all(is_empty) {
        return Err(Failure::new(Code::User, "send a message: it is empty")
            .with_hint("pass it with `-p TEXT`, or on standard input"));
    }
    Ok(HumanMessage { id: None, content })
}

fn read_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| {
        Failure::new(Code::User, format!("read the message from standard input: {error}"))
    })?;
    Ok(text)
}

/// Returns whether something was piped or redirected in; nothing else is read unasked, for it might never end.
#[cfg(unix)]
fn is_piped() -> bool {
    use rustix::fs::{FileType, fstat};
    let kind = fstat(rustix::stdio::stdin()).map(|found| FileType::from_raw_mode(found.st_mode));
    !io::stdin().is_terminal() && matches!(kind, Ok(FileType::Fifo | FileType::RegularFile))
}

#[cfg(not(unix))]
fn is_piped() -> bool {
    !io::stdin().is_terminal()
}
