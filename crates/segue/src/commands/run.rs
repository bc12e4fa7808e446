//! `segue run`: one prompt, one answer, no terminal needed. How a turn is told to a program is in `lines`; the commands
//! about a run that was made are beside it.

pub(crate) mod decide;
pub(crate) mod feedback;
mod lines;
mod told;
pub(crate) mod trace;

use std::io::{self, IsTerminal, Read};

use agent::{Agent, CancellationToken, Frames, RunEnd};
use protocol::{Block, HumanMessage, ThreadId};

use crate::cli::{self, Format};
use crate::commands::memory::settle;
use crate::commands::{Context, NO_MODEL_HINT, approval, threads};
use crate::exit::{self, Code, Failure, Outcome};
use crate::terminal::work::watch::{Then, watch};

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Run) -> Outcome {
    check_model(context)?;
    let message = message(args.prompt.as_deref())?;
    let thread_id = thread(context, &args).await?;
    if let Some(text) = approval::dropped(context, thread_id).await? {
        context.screen.note(context.screen.style.warn(text));
    }
    turn(context, thread_id, async |agent, frames, cancel| {
        agent.send(thread_id, message, frames, cancel).await.map(Some)
    })
    .await
}

/// Does a turn, or the rest of one, and tells it: to a person the answer as it comes, to a program the answer alone or
/// every frame. `None` as its end says that something still waits.
///
/// # Errors
/// When the turn did not succeed, or could not be told.
pub(crate) async fn turn(
    context: &Context,
    thread_id: ThreadId,
    work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> agent::Result<Option<RunEnd>>,
) -> Outcome {
    let agent = &context.agent;
    let mut teller = told::Teller::new(context, thread_id)?;
    let done = watch(
        async |frames, cancel| work(agent, &frames, &cancel).await,
        |seen| teller.tell(seen).map(|()| Then::GoOn),
    )
    .await?;
    let (end, outcome) = match done {
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

/// Refuses a model that was asked for and cannot be used, before anything is done.
fn check_model(context: &Context) -> Result<(), Failure> {
    let models = context.agent.models();
    let (Some(name), Some(problem)) = (&context.model, models.problem) else { return Ok(()) };
    let provider = name.split('/').next().unwrap_or_default();
    Err(match models.providers.iter().any(|known| known.provider == provider) {
        true => Failure::new(Code::Config, problem).with_hint(NO_MODEL_HINT),
        false => Failure::new(Code::User, problem)
            .with_hint("name one as `--model PROVIDER/NAME`; `segue models` shows the providers"),
    })
}

async fn thread(context: &Context, args: &cli::Run) -> Result<ThreadId, Failure> {
    if let Some(prefix) = &args.thread {
        return Ok(context.agent.find_thread(prefix).await?.thread_id);
    }
    if args.go_on {
        return Ok(threads::newest::newest_here(context).await?.thread_id);
    }
    // A thread that nothing can answer in would be left behind empty.
    let models = context.agent.models();
    if models.default.is_none() {
        return Err(
            Failure::new(Code::Config, "begin a thread: no model is configured").with_hint(NO_MODEL_HINT)
        );
    }
    if let Some(problem) = models.problem {
        return Err(Failure::new(Code::Config, problem).with_hint(NO_MODEL_HINT));
    }
    let created = context.agent.create_thread(None).await?.thread_id;
    if context.format == Format::Text {
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
