//! `segue run`: one message, one answer, no terminal needed.

use std::io::{self, Read, Write};

use agent::Frame;
use protocol::ThreadId;

use crate::cli::{self, Format};
use crate::commands::{Context, NO_MODEL_HINT};
use crate::exit::{self, Code, Failure, Outcome};
use crate::terminal::safe::{one_line, safe};
use crate::terminal::screen::Audience;
use crate::terminal::stream::call;
use crate::terminal::watch::watch;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: cli::Run) -> Outcome {
    let text = prompt(args.prompt)?;
    let thread_id = thread(context, args.thread.as_deref()).await?;
    let agent = &context.agent;
    let mut answer = Answer { ends_line: true };
    let end = watch(
        async |frames, cancel| agent.send(thread_id, &text, &frames, &cancel).await,
        |frame| match context.format {
            Format::Json => print_json(&frame),
            Format::Text => answer.show(context, &frame),
        },
    )
    .await??;
    exit::of_run(&end)
}

async fn thread(context: &Context, named: Option<&str>) -> Result<ThreadId, Failure> {
    match named {
        Some(prefix) => Ok(context.agent.find_thread(prefix).await?.thread_id),
        // A thread that nothing can answer in would be left behind empty.
        None if context.agent.models().default.is_none() => {
            Err(Failure::new(Code::Config, "begin a thread: no model is configured").with_hint(NO_MODEL_HINT))
        }
        None if context.agent.models().problem.is_some() => {
            let problem = context.agent.models().problem.unwrap_or_default();
            Err(Failure::new(Code::Config, problem).with_hint(NO_MODEL_HINT))
        }
        None => {
            let created = context.agent.create_thread(None).await?.thread_id;
            if context.format == Format::Text {
                context.screen.note(context.screen.style.dim(format!("thread {created}")));
            }
            Ok(created)
        }
    }
}

fn prompt(text: String) -> Result<String, Failure> {
    let text = match text.as_str() {
        "-" => {
            let mut read = String::new();
            io::stdin().read_to_string(&mut read).map_err(|error| {
                Failure::new(Code::User, format!("read the message from standard input: {error}"))
            })?;
            read
        }
        _ => text,
    };
    match text.trim().is_empty() {
        true => {
            Err(Failure::new(Code::User, "send a message: it is empty").with_hint("pass it with `-p TEXT`"))
        }
        false => Ok(text),
    }
}

fn print_json(frame: &Frame) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, frame)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// The answer on its way to stdout; everything else goes to stderr.
struct Answer {
    /// Whether the last character was a newline.
    ends_line: bool,
}

impl Answer {
    fn show(&mut self, context: &Context, frame: &Frame) -> io::Result<()> {
        let (screen, style) = (&context.screen, context.screen.style);
        match frame {
            Frame::Text { text } => {
                self.ends_line = text.ends_with('\n');
                // A program gets the bytes as they are; a terminal must not be steered by them.
                match screen.audience {
                    Audience::Person => screen.write(&safe(text)),
                    Audience::Program => screen.write(text),
                }
            }
            Frame::ToolStarted { name, args, .. } => {
                self.end_line(context)?;
                screen.note(style.dim(format!("  {}", call(name, args))));
                Ok(())
            }
            Frame::ToolEnded { name, failed: true, .. } => {
                screen.note(style.dim(format!("  {} failed", one_line(name))));
                Ok(())
            }
            Frame::Notice { text } => {
                screen.note(style.warn(one_line(text)));
                Ok(())
            }
            Frame::Event(_) | Frame::RunEnded { .. } => self.end_line(context),
            Frame::ToolEnded { .. }
            | Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Thinking { .. }
            | Frame::Progress { .. }
            | Frame::Interrupted(_) => Ok(()),
        }
    }

    fn end_line(&mut self, context: &Context) -> io::Result<()> {
        match std::mem::replace(&mut self.ends_line, true) {
            true => Ok(()),
            false => context.screen.write("\n"),
        }
    }
}
