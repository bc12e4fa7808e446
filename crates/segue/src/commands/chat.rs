//! `segue chat`: a conversation in the terminal. Lines that begin with `/` are commands; everything else is a turn.

mod compacting;
mod facts;
mod growth;
mod handing;
mod line;
mod looking;
pub(crate) mod message;
mod opening;
mod remembering;
mod slash;
mod status;
mod threading;

use std::path::Path;

use agent::{Agent, CancellationToken, Frames, RunEnd, RunError, ThreadFilter};
use protocol::{RunStatus, Thread, ThreadId};
use terminal::signals::{self, During};
use terminal::{
    Audience, Bracketed, Quiet, Spent, Stream, Typed, one_line, pick, safe, shorten, watch, wrap,
};

use crate::cli::{self, Format};
use crate::commands::approval::Answered;
use crate::commands::{Context, NO_MODEL_HINT, approval, history, threads};
use crate::exit::{self, Code, Failure, Outcome};
use line::paste::Written;
use line::{Known, Line, Lines, PROMPT};
use message::Draft;
use remembering::Behind;
use status::Total;

/// Threads that a person can choose from.
const THREADS_OFFERED_MAX: usize = 50;
/// What is said before a turn goes on that nobody asked for just now.
const CUT_OFF: &str = "The last turn had been cut off; it goes on where it stopped. Esc or Ctrl-C stops it.";

/// What is said when a person stopped a turn.
const STOPPED: &str = "Stopped. What had arrived is kept.";
/// What is said after a turn that failed.
const KEPT: &str = "Your message is kept: write “try again” to retry, or choose another model with /model.";
/// The same where the turn was about to condense the conversation first.
const STOPPED_CONDENSING: &str = "Stopped: nothing was condensed. What had arrived before is kept.";

/// A conversation under way.
struct Chat {
    context: Context,
    /// The thread, once there is one: a new one is created with its first message.
    thread: Option<Thread>,
    lines: Lines,
    /// What was typed while something else was done.
    typed: Typed,
    /// What the last turn took, until it is shown.
    spent: Option<Spent>,
    /// What the thread has taken so far, once that was read.
    total: Option<Total>,
    /// The calls of the last answer that have no result yet: their ids and arguments, in order.
    waiting: Vec<(String, serde_json::Value)>,
    /// What is said when the next run begins to show.
    opening: Option<String>,
    /// Whether the status is to be shown before the next line.
    is_changed: bool,
    /// Whether Ctrl-C was the last key at an empty prompt.
    is_leaving: bool,
    /// How the program ends when the conversation does.
    code: Code,
    /// What goes on behind the conversation.
    behind: Behind,
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
            .with_hint("`segue run -p TEXT --json` streams an answer for programs"));
    }
    let thread = match opened(&context, &args).await? {
        Opened::Thread(thread) => Some(*thread),
        Opened::New => None,
        Opened::Nothing => return Ok(Code::Done),
    };
    // From here on Ctrl-C between two turns is a key like others, and does not end the program.
    let _keys = During::keys()?;
    let lines = Lines::open(&context)?;
    let _quiet = Quiet::begin(&context.screen)?;
    let mut chat = Chat {
        context,
        thread: None,
        lines,
        typed: Typed::default(),
        spent: None,
        total: None,
        waiting: Vec::new(),
        opening: None,
        is_changed: false,
        is_leaving: false,
        code: Code::Done,
        behind: Behind::default(),
    };
    chat.note_model()?;
    // What an earlier process left to do.
    chat.behind.begin(&chat.context.agent);
    match thread {
        Some(thread) => chat.enter(thread).await?,
        None => chat.say("New thread. Write a message, or /help for what else there is.")?,
    }
    let outcome = chat.talk().await;
    chat.behind.end().await;
    chat.context.agent.handoffs().rest_mirror().await;
    chat.context.agent.close().await;
    outcome
}

/// What a look for a run that was cut off found.
enum Recovered {
    Nothing,
    /// One that went on, and was followed to its end.
    Run,
}

/// What a chat begins in.
enum Opened {
    Thread(Box<Thread>),
    New,
    /// The person chose none.
    Nothing,
}

async fn opened(context: &Context, args: &cli::Chat) -> Result<Opened, Failure> {
    let named = args.thread.as_deref().or(args.resume.as_ref().and_then(|named| named.as_deref()));
    Ok(match named {
        Some(prefix) => Opened::Thread(Box::new(context.agent.threads().find(prefix).await?)),
        None if args.go_on => Opened::Thread(Box::new(threads::newest::newest_here(context).await?)),
        None if args.resume.is_some() => match choose(context, "Go on in").await? {
            Some(thread) => Opened::Thread(Box::new(thread)),
            None => Opened::Nothing,
        },
        None => Opened::New,
    })
}

/// Lets the person choose a thread; `None` when they choose none.
async fn choose(context: &Context, label: &str) -> Result<Option<Thread>, Failure> {
    if context.screen.audience == Audience::Program {
        return Err(Failure::new(Code::User, "choose a thread: nobody can be asked")
            .with_hint("name it: `segue chat -r ID`; `segue threads list` shows them"));
    }
    let filter = ThreadFilter { limit: THREADS_OFFERED_MAX, ..ThreadFilter::default() };
    let mut threads = context.agent.threads().list(filter).await?;
    if threads.is_empty() {
        context.screen.line("There are no threads yet.")?;
        return Ok(None);
    }
    let (now, columns) = (jiff::Timestamp::now(), context.screen.columns.saturating_sub(4));
    let ids = threads::short_ids(threads.iter().map(|thread| thread.thread_id));
    let items = threads.iter().zip(ids).map(|(thread, id)| {
        let line = format!("{id}  {:<11} {}", threads::ago(now, thread.updated_at), threads::title(thread));
        shorten(&line, columns).into_owned()
    });
    Ok(pick(&context.screen, label, items.collect())?.map(|at| threads.swap_remove(at)))
}

impl Chat {
    async fn talk(&mut self) -> Outcome {
        loop {
            if signals::is_ending() {
                return Ok(Code::Cancelled);
            }
            self.context.screen.measure();
            let line = self.next_line().await?;
            let was_leaving = std::mem::replace(&mut self.is_leaving, line == Line::Abandoned);
            match line {
                Line::Text(written) if written.text.trim().is_empty() && written.images.is_empty() => {}
                Line::Text(written) => match written.text.trim().strip_prefix('/') {
                    Some(command) if is_command(command) => {
                        let command = command.to_owned();
                        if self.command(&command).await? == Then::Quit {
                            return Ok(self.code);
                        }
                    }
                    Some(_) | None => {
                        let text = written.text.clone();
                        match self.send(written).await {
                            Ok(()) => {}
                            Err(failure) => {
                                if failure.is_busy() {
                                    // The message was not taken: it can be sent again.
                                    self.typed.lines.push_front(text);
                                    self.typed.hold();
                                }
                                self.fail(failure)?;
                            }
                        }
                    }
                },
                Line::Abandoned if was_leaving => return Ok(Code::Done),
                Line::Abandoned => self.say("Ctrl-C once more, Ctrl-D or /quit leaves.")?,
                Line::Cleared => {}
                Line::End => return Ok(self.code),
            }
        }
    }

    /// Returns the next line: one that was typed ahead, else one the person writes now.
    async fn next_line(&mut self) -> Result<Line, Failure> {
        self.tell_behind().await?;
        while std::mem::take(&mut self.is_changed)
            && let Some(thread) = &self.thread
        {
            let spent = self.spent.take();
            let full = status::show(&self.context, thread, spent.as_ref(), &mut self.total).await?;
            self.propose(full).await?;
        }
        for text in self.typed.pasted.drain(..) {
            self.lines.pasted(&text);
        }
        if let Some(text) = self.typed.lines.pop_front() {
            let shown = text.replace('\n', "\n     … ");
            self.context.screen.line(format!("{PROMPT}{}", safe(&shown)))?;
            return Ok(Line::Text(self.lines.written(&text)));
        }
        let is_plain = self.context.screen.is_plain();
        if !is_plain && !self.typed.kept.is_empty() {
            self.say("You had typed this at a question; it was not sent. Enter sends it.")?;
        }
        // Where nothing can be put into the line, all of it is told at once.
        let rest = if is_plain { self.typed.unsent() } else { self.typed.next_unsent() };
        if is_plain && !rest.is_empty() {
            self.say("You had typed, and it was not sent:")?;
            self.context.screen.line(safe(&rest))?;
        }
        self.lines.prefill(&rest);
        if self.context.screen.audience == Audience::Person {
            let known = self.known().await;
            self.lines.know(known);
        }
        self.lines.next()
    }

    /// Returns what can be completed; what cannot be read is left out.
    async fn known(&self) -> Known {
        let filter = ThreadFilter { limit: THREADS_OFFERED_MAX, ..ThreadFilter::default() };
        let threads = self.context.agent.threads().list(filter).await.unwrap_or_default();
        let ids = threads::short_ids(threads.iter().map(|thread| thread.thread_id));
        let titles = threads.iter().map(|thread| shorten(&threads::title(thread), 40).into_owned());
        Known { threads: ids.into_iter().zip(titles).collect(), models: facts::models(&self.context.agent) }
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        let screen = &self.context.screen;
        Ok(screen.line(screen.style.dim(wrap(text, screen.columns, "", "  ")))?)
    }

    /// Shows why a turn failed; the conversation goes on, and a program's ends with the failure's code.
    fn fail(&mut self, failure: Failure) -> Result<(), Failure> {
        if let Failure::Told(told) = &failure
            && self.context.screen.audience == Audience::Program
        {
            self.code = told.code;
        }
        self.tell(failure)
    }

    /// Shows what failed; the conversation goes on.
    fn tell(&self, failure: Failure) -> Result<(), Failure> {
        match failure {
            Failure::Told(told) if told.code == Code::Cancelled && signals::is_ending() => {
                Err(Failure::Told(told))
            }
            Failure::Told(told) => {
                exit::tell(&told, Format::Text);
                Ok(())
            }
            Failure::OutputClosed => Err(Failure::OutputClosed),
        }
    }

    /// Says which model answers; without one, what still works.
    fn note_model(&self) -> Result<(), Failure> {
        let models = self.context.agent.models();
        let why = match (models.default, models.problem) {
            (Some(name), None) => return self.say(&format!("Model: {}", one_line(&name))),
            (_, Some(problem)) => format!("Failed to {}", one_line(&problem)),
            (None, None) => "No model is configured".to_owned(),
        };
        let text = format!(
            "{why}, so nothing answers here: messages are kept until one does. /handoff and the other commands work."
        );
        let screen = &self.context.screen;
        screen.line(screen.style.warn(wrap(&text, screen.columns, "", "")))?;
        self.say(&format!("hint: {NO_MODEL_HINT}"))
    }

    /// Makes `thread` the one that is talked in.
    async fn enter(&mut self, thread: Thread) -> Result<(), Failure> {
        let thread_id = thread.thread_id;
        self.go_to(Some(thread));
        opening::show(&self.context, self.thread.as_ref()).await?;
        match self.recover(thread_id).await? {
            Recovered::Nothing => self.offer_pending(thread_id).await,
            Recovered::Run => Ok(()),
        }
    }

    /// Makes `thread` the one that is talked in, without a look at it.
    fn go_to(&mut self, thread: Option<Thread>) {
        self.is_changed = thread.is_some();
        self.thread = thread;
        self.total = None;
        self.waiting.clear();
    }

    /// Goes on where a crash cut a run off, and says so.
    async fn recover(&mut self, thread_id: ThreadId) -> Result<Recovered, Failure> {
        self.opening = Some(CUT_OFF.to_owned());
        let recovered = self
            .watched(async |agent, frames, cancel| agent.runs().recover(thread_id, frames, cancel).await)
            .await?;
        match recovered {
            Ok(None) => Ok(Recovered::Nothing),
            Ok(Some(end)) => self.settle(thread_id, end).await.map(|()| Recovered::Run),
            Err(error) => self.tell(error.into()).map(|()| Recovered::Nothing),
        }
    }

    async fn send(&mut self, written: Written) -> Result<(), Failure> {
        let draft = Draft::new(written, self.context.agent.workspace());
        for note in &draft.notes {
            self.say(&one_line(note))?;
        }
        let thread_id = match &self.thread {
            Some(thread) => thread.thread_id,
            None => {
                let created = self.context.agent.threads().create(None).await?;
                self.thread.insert(created).thread_id
            }
        };
        let message = draft.message(&self.context.agent, thread_id).await?;
        self.opening = approval::dropped(&self.context, thread_id).await?;
        let end = self
            .watched(async |agent, frames, cancel| {
                agent.runs().send(thread_id, message, frames, cancel).await.map(Some)
            })
            .await?;
        match end? {
            Some(end) => self.settle(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// Does a run and shows it, and adds up what it took; what is typed meanwhile is kept.
    async fn watched(
        &mut self,
        work: impl AsyncFnOnce(&Agent, &Frames, &CancellationToken) -> agent::Result<Option<RunEnd>>,
    ) -> Result<agent::Result<Option<RunEnd>>, Failure> {
        self.context.screen.measure();
        self.is_changed = true;
        let _pastes = Bracketed::begin(&self.context.screen)?;
        let agent = &self.context.agent;
        let mut stream = Stream::new(&self.context.screen, &mut self.typed);
        stream.expect(std::mem::take(&mut self.waiting));
        if let Some(text) = self.opening.take() {
            stream.open_with(text);
        }
        let done =
            watch(async |frames, cancel| work(agent, &frames, &cancel).await, |seen| stream.show(seen)).await;
        let mut spent = stream.finish()?;
        if let Ok(Ok(Some(end))) = &done {
            spent.usage = end.usage;
        }
        match &done {
            // Nothing ran.
            Ok(Ok(None)) => self.waiting = spent.waiting,
            Ok(Ok(Some(_)) | Err(_)) | Err(_) => self.took(spent).await?,
        }
        Ok(done?)
    }

    /// Takes down what a run took; what the display lost of it is shown.
    async fn took(&mut self, mut spent: Spent) -> Result<(), Failure> {
        self.waiting = std::mem::take(&mut spent.waiting);
        match (&mut self.total, spent.lost_after.take()) {
            (total, Some(seq)) => {
                *total = None;
                if let Some(thread) = &self.thread {
                    history::show_after(&self.context, thread.thread_id, seq).await?;
                }
            }
            (Some(total), None) => total.add(&self.context.agent, &spent),
            (None, None) => {}
        }
        match &mut self.spent {
            Some(before) => before.add(spent),
            none => *none = Some(spent),
        }
        Ok(())
    }

    /// Asks what a run that stopped asks, tool calls or a handoff, as long as there is something, and says how it ended.
    async fn settle(&mut self, thread_id: ThreadId, end: RunEnd) -> Result<(), Failure> {
        let ended = self.settle_asked(thread_id, end).await;
        self.behind.begin(&self.context.agent);
        ended
    }

    async fn settle_asked(&mut self, thread_id: ThreadId, end: RunEnd) -> Result<(), Failure> {
        let mut end = end;
        while end.status == RunStatus::Interrupted && !signals::is_ending() {
            // A program is asked only where it sends `/approve`.
            let approved = match self.context.screen.audience {
                Audience::Person => self.approve(thread_id).await?,
                Audience::Program => None,
            };
            let went_on = match approved {
                Some(next) => Some(next),
                None => self.review_asked(thread_id, &end).await?,
            };
            match went_on {
                Some(next) => end = next,
                None => return Ok(()),
            }
        }
        match (end.status, exit::of_run(&end)) {
            (RunStatus::Cancelled, _) => {
                // What was typed for an answer that never came is looked at again before it is sent.
                self.typed.hold();
                let is_condensing = self.spent.as_ref().is_some_and(|spent| spent.is_condensing);
                self.say(if is_condensing { STOPPED_CONDENSING } else { STOPPED })
            }
            (_, Err(failure)) => {
                self.typed.hold();
                self.fail(failure)?;
                self.say(KEPT)
            }
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Asks about the tool calls that wait; returns how the run that went on with the answers ended.
    async fn approve(&mut self, thread_id: ThreadId) -> Result<Option<RunEnd>, Failure> {
        let pending = self.context.agent.runs().pending_interrupts(thread_id).await?;
        let mut asked = pending.iter().filter(|interrupt| approval::is_about_calls(interrupt)).peekable();
        while let Some(interrupt) = asked.peek().copied() {
            let answered = approval::ask_person(&self.context, interrupt, &mut self.typed)?;
            let (decisions, remembered) = match answered {
                Some(Answered::Decided { decisions, remembered }) => (decisions, remembered),
                Some(Answered::GoOnHere) => {
                    return self
                        .watched(async |agent, frames, cancel| {
                            agent.runs().rehome(interrupt, frames, cancel).await.map(Some)
                        })
                        .await?
                        .map_err(Failure::from);
                }
                None => {
                    // A line that waits would give up the calls: it is looked at again before it is sent.
                    self.typed.hold();
                    return Ok(None);
                }
            };
            approval::remember(&self.context, interrupt, &remembered).await?;
            if self.waiting.is_empty() {
                self.waiting = approval::calls(interrupt);
            }
            let id = interrupt.interrupt_id;
            let end = self
                .watched(async |agent, frames, cancel| {
                    agent.runs().resume(id, &decisions, frames, cancel).await
                })
                .await?;
            match end {
                // The folder disappeared while the question was open: it is shown again, with what can be done then.
                Err(agent::Error::Run(RunError::WorkspaceGone { .. })) => continue,
                end => match end? {
                    Some(end) => return Ok(Some(end)),
                    None => asked.next(),
                },
            };
        }
        Ok(None)
    }

    /// Uses another model from the next message on, if it can be used.
    fn use_model(&mut self, name: &str) -> Result<(), Failure> {
        let context = &mut self.context;
        context.agent.use_model(Some(name.to_owned()));
        if let Some(problem) = context.agent.models().problem {
            context.agent.use_model(context.model.clone());
            return Err(Failure::new(Code::Config, problem).with_hint("the model stays as it was"));
        }
        context.model = Some(name.to_owned());
        self.is_changed = true;
        self.note_model()
    }

    /// Returns the thread, or says that there is none yet.
    fn current(&self) -> Result<Option<ThreadId>, Failure> {
        if self.thread.is_none() {
            self.say("Nothing was said yet.")?;
        }
        Ok(self.thread.as_ref().map(|thread| thread.thread_id))
    }
}

/// Returns whether a text after a `/` is a command. A path that begins a message is none, as long as its first folder exists.
fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.split_once('/').is_none_or(|(first, _)| !Path::new("/").join(first).exists())
}
