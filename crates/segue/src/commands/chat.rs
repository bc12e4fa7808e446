//! `segue chat`: a conversation in the terminal. Lines that begin with `/` are commands; everything else is a turn.

mod line;
mod opening;
mod slash;

use agent::{Agent, RunEnd, Settings};
use protocol::{RunStatus, Thread, ThreadId};

use crate::cli::{self, Format};
use crate::commands::{Context, NO_MODEL_HINT, threads};
use crate::exit::{self, Code, Failure, Outcome};
use crate::terminal::stream::Stream;
use crate::terminal::watch::watch;
use crate::terminal::wrap::wrap;
use line::{Line, Lines};

/// A conversation under way.
struct Chat {
    context: Context,
    /// The thread, once there is one: a new one is created with its first message.
    thread: Option<Thread>,
    lines: Lines,
}

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Quit,
}

/// Performs the command.
pub(crate) async fn run(context: Context, args: cli::Chat) -> Outcome {
    if context.format == Format::Json {
        return Err(Failure::new(Code::User, "chat in JSON: a chat is for people")
            .with_hint("`segue run -t THREAD -p TEXT --json` streams an answer for programs"));
    }
    let thread = match &args.thread {
        Some(prefix) => Some(context.agent.find_thread(prefix).await?),
        None => None,
    };
    let lines = Lines::open(&context)?;
    let mut chat = Chat { context, thread: None, lines };
    chat.note_model()?;
    match thread {
        Some(thread) => chat.enter(thread).await?,
        None => chat.say("New thread. Write a message, or /help for what else there is.")?,
    }
    loop {
        match chat.lines.next()? {
            Line::Text(text) if text.trim().is_empty() => {}
            Line::Text(text) => match text.trim().strip_prefix('/') {
                Some(command) => {
                    if chat.command(command).await? == Then::Quit {
                        return Ok(Code::Done);
                    }
                }
                None => match chat.send(&text).await {
                    Ok(()) => {}
                    Err(failure) => chat.tell(failure)?,
                },
            },
            Line::Abandoned => chat.say("Ctrl-D or /quit leaves.")?,
            Line::End => return Ok(Code::Done),
        }
    }
}

impl Chat {
    fn say(&self, text: &str) -> Result<(), Failure> {
        let screen = &self.context.screen;
        Ok(screen.line(screen.style.dim(wrap(text, screen.columns, "", "  ")))?)
    }

    /// Shows what failed; the conversation goes on.
    fn tell(&self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Told(told) => {
                exit::tell(&told, Format::Text);
                Ok(())
            }
            Failure::OutputClosed => Err(Failure::OutputClosed),
        }
    }

    /// Says which model answers; without one, what still works.
    fn note_model(&self) -> Result<(), Failure> {
        match self.context.agent.models().default {
            Some(name) => self.say(&format!("Model: {name}")),
            None => {
                let style = self.context.screen.style;
                let text =
                    "No model is configured, so nothing answers here; /handoff and the other commands work.";
                self.context.screen.line(style.warn(wrap(text, self.context.screen.columns, "", "")))?;
                self.say(&format!("hint: {NO_MODEL_HINT}"))
            }
        }
    }

    /// Makes `thread` the one that is talked in.
    async fn enter(&mut self, thread: Thread) -> Result<(), Failure> {
        let thread_id = thread.thread_id;
        self.thread = Some(thread);
        opening::show(&self.context, self.thread.as_ref()).await?;
        self.recover(thread_id).await
    }

    /// Goes on where a crash cut a run off, and says so.
    async fn recover(&mut self, thread_id: ThreadId) -> Result<(), Failure> {
        let agent = &self.context.agent;
        let mut stream = Stream::new(&self.context.screen);
        let recovered = watch(
            async |frames, cancel| agent.recover(thread_id, &frames, &cancel).await,
            |frame| stream.show(&frame),
        )
        .await?;
        match recovered {
            Ok(None) => Ok(()),
            Ok(Some(end)) => {
                self.say("The last turn had been cut off; it went on where it stopped.")?;
                self.ended(&end)
            }
            Err(error) => self.tell(error.into()),
        }
    }

    async fn send(&mut self, text: &str) -> Result<(), Failure> {
        if self.context.agent.models().default.is_none() {
            return self.note_model();
        }
        let thread_id = match &self.thread {
            Some(thread) => thread.thread_id,
            None => {
                let created = self.context.agent.create_thread(None).await?;
                self.thread.insert(created).thread_id
            }
        };
        let agent = &self.context.agent;
        let mut stream = Stream::new(&self.context.screen);
        let end = watch(
            async |frames, cancel| agent.send(thread_id, text, &frames, &cancel).await,
            |frame| stream.show(&frame),
        )
        .await?;
        stream.finish()?;
        self.ended(&end?)
    }

    fn ended(&self, end: &RunEnd) -> Result<(), Failure> {
        match (end.status, exit::of_run(end)) {
            (RunStatus::Cancelled, _) => self.say("Stopped. What had arrived is kept."),
            (_, Err(failure)) => self.tell(failure),
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Opens the agent again, with another model.
    fn use_model(&mut self, name: &str) -> Result<(), Failure> {
        let agent = &self.context.agent;
        let settings = Settings {
            home: agent.home().clone(),
            workspace: agent.workspace().to_owned(),
            assistant_id: agent.assistant_id().clone(),
            model: Some(name.to_owned()),
        };
        self.context.agent = Agent::with_store(settings, std::sync::Arc::clone(agent.store()))?;
        self.note_model()
    }

    /// Returns the thread, or says that there is none yet.
    fn current(&self) -> Result<Option<ThreadId>, Failure> {
        if self.thread.is_none() {
            self.say("Nothing was said yet.")?;
        }
        Ok(self.thread.as_ref().map(|thread| thread.thread_id))
    }

    async fn list(&self) -> Result<(), Failure> {
        threads::list(&self.context, 20).await
    }
}
