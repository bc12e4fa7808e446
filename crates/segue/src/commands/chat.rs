//! `segue chat`: a conversation in the terminal. A line that begins with `/` is a slash command; every other line is a
//! message, which starts a turn.
//!
//! This file has the loop of the chat and the course of a turn. The submodules perform the slash commands.

mod compact_commands;
mod growth_prompt;
mod handoff_commands;
mod history_command;
mod input;
mod inspect_commands;
mod memory_commands;
pub(crate) mod message_draft;
mod slash_commands;
mod status_line;
mod thread_commands;
mod thread_intro;

use std::path::Path;

use agent::{Agent, CancellationToken, FrameSender, RunEnd, RunError, ThreadFilter};
use protocol::{RunStatus, Thread, ThreadId};
use terminal::signals::{self, SignalModeGuard};
use terminal::{
    Audience, BracketedPasteGuard, NoEchoGuard, TurnTotals, TurnView, TypeAheadBuffer, pick, sanitize,
    sanitize_line, shorten, watch, wrap,
};

use crate::cli::{self, OutputFormat};
use crate::commands::approval::ApprovalAnswer;
use crate::commands::{CommandContext, NO_MODEL_HINT, NO_TERMINAL, approval, history, threads};
use crate::exit::{self, CliFailure, CommandResult, ExitReason};
use input::paste::ExpandedInput;
use input::{ChatLineReader, CompletionCandidates, InputLine, PROMPT};
use memory_commands::BackgroundSummarizer;
use message_draft::MessageDraft;
use status_line::ThreadTotals;

/// The most threads that a list offers to choose from, newest first.
const THREADS_OFFERED_MAX: usize = 50;
/// The notice before a turn that a crash interrupted is resumed.
const RECOVERED_NOTICE: &str = "The last turn was interrupted; it is resumed now. Esc or Ctrl-C stops it.";

/// The notice after the user has stopped a turn.
const STOPPED_NOTICE: &str = "Stopped. Everything that had arrived is kept.";
/// The notice after a turn failed.
const MESSAGE_KEPT_NOTICE: &str =
    "Your message is kept: write “try again” to retry, or choose another model with /model.";
/// The notice after the user has stopped a turn during the compaction before its model call.
const COMPACTION_STOPPED_NOTICE: &str =
    "Stopped: nothing was compacted. Everything that had arrived before is kept.";

/// The state of a chat.
struct ChatSession {
    /// The agent and the output.
    context: CommandContext,
    /// The current thread; `None` until the first message, which creates the thread.
    thread: Option<Thread>,
    /// The reader of the user's lines.
    input: ChatLineReader,
    /// The input that was typed while a run or a question was shown.
    type_ahead: TypeAheadBuffer,
    /// The totals of the last turn, until the status line has shown them.
    turn_totals: Option<TurnTotals>,
    /// The totals of the thread; `None` until they are read from the journal.
    thread_totals: Option<ThreadTotals>,
    /// The ids and arguments of the last answer's tool calls that have no result yet, in order.
    pending_calls: Vec<(String, serde_json::Value)>,
    /// A note to print before the first output of the next run.
    first_note: Option<String>,
    /// True if the status line must be printed before the next prompt.
    is_status_stale: bool,
    /// True if the last key was Ctrl-C at an empty prompt. Another Ctrl-C then ends the chat.
    is_quit_armed: bool,
    /// The reason for the exit code at the end of the chat.
    exit_reason: ExitReason,
    /// The background task that summarizes old messages.
    background: BackgroundSummarizer,
}

/// The effect of a line on the loop of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChatFlow {
    /// The chat reads the next line.
    Continue,
    /// The chat ends.
    Quit,
}

/// Performs `segue chat`.
///
/// # Errors
/// Fails with JSON output, if the thread of the arguments does not exist, or if the terminal fails. Failed turns are reported
/// in the chat and do not end it.
pub(crate) async fn run(context: CommandContext, args: cli::ChatArgs) -> CommandResult {
    if context.format == OutputFormat::Json {
        return Err(CliFailure::new(ExitReason::User, "chat with --json: the chat is for people")
            .with_hint("`segue run -p TEXT --json` streams an answer for programs"));
    }
    let thread = match choose_initial_thread(&context, &args).await? {
        InitialThread::Existing(thread) => Some(*thread),
        InitialThread::New => None,
        InitialThread::NoneChosen => return Ok(ExitReason::Success),
    };
    // Between turns, Ctrl-C is an ordinary key and does not end the program.
    let _key_input = SignalModeGuard::for_key_input()?;
    let input = ChatLineReader::open(&context)?;
    let _no_echo = NoEchoGuard::enable(&context.screen)?;
    let mut chat = ChatSession {
        context,
        thread: None,
        input,
        type_ahead: TypeAheadBuffer::default(),
        turn_totals: None,
        thread_totals: None,
        pending_calls: Vec::new(),
        first_note: None,
        is_status_stale: false,
        is_quit_armed: false,
        exit_reason: ExitReason::Success,
        background: BackgroundSummarizer::default(),
    };
    chat.show_model()?;
    // An earlier process may have left threads to summarize.
    chat.background.start(&chat.context.agent);
    let embedding = CancellationToken::new();
    let embed = embed_in_background(chat.context.agent.clone(), embedding.clone());
    let embed = tokio::spawn(embed);
    match thread {
        Some(thread) => chat.enter_thread(thread).await?,
        None => chat.print_info("New thread. Write a message, or /help for the commands and keys.")?,
    }
    let outcome = chat.run_loop().await;
    embedding.cancel();
    chat.background.stop().await;
    // A request to the model is dropped, so the task ends at once.
    let _ = embed.await;
    chat.context.agent.handoffs().wait_for_mirror().await;
    chat.context.agent.close().await;
    outcome
}

/// Embeds new messages until it is cancelled.
async fn embed_in_background(agent: Agent, cancel: CancellationToken) {
    agent.memory().keep_embedding(cancel).await;
}

/// The outcome of recovering a thread's interrupted run.
enum RecoveryOutcome {
    /// The thread has no interrupted run.
    Nothing,
    /// A run was resumed and has ended.
    Recovered,
}

/// The thread in which a chat starts.
enum InitialThread {
    /// A thread that the user has chosen or the arguments name.
    Existing(Box<Thread>),
    /// A new thread, which is created with its first message.
    New,
    /// The user was asked and chose no thread, so the chat does not start.
    NoneChosen,
}

/// Returns the thread that the arguments select, or that the user chooses if the arguments ask for a choice.
async fn choose_initial_thread(
    context: &CommandContext,
    args: &cli::ChatArgs,
) -> Result<InitialThread, CliFailure> {
    let id_prefix = args.thread.as_deref().or(args.resume.as_ref().and_then(|id| id.as_deref()));
    Ok(match id_prefix {
        Some(prefix) => InitialThread::Existing(Box::new(context.agent.threads().find(prefix).await?)),
        None if args.continue_newest => {
            InitialThread::Existing(Box::new(threads::newest::newest_thread_here(context).await?))
        }
        None if args.resume.is_some() => match choose_thread(context, "Continue").await? {
            Some(thread) => InitialThread::Existing(Box::new(thread)),
            None => InitialThread::NoneChosen,
        },
        None => InitialThread::New,
    })
}

/// Asks the user to choose one of the newest threads; `None` if there is no thread or the user chooses none.
///
/// # Errors
/// Fails if no user is at the terminal, or if the journal cannot be read.
async fn choose_thread(context: &CommandContext, label: &str) -> Result<Option<Thread>, CliFailure> {
    if context.screen.audience == Audience::Program {
        return Err(CliFailure::new(ExitReason::User, format!("choose a thread: {NO_TERMINAL}"))
            .with_hint("name it: `segue chat -r ID`; `segue threads list` shows them"));
    }
    let filter = ThreadFilter { limit: THREADS_OFFERED_MAX, ..ThreadFilter::default() };
    let mut threads = context.agent.threads().list(filter).await?;
    if threads.is_empty() {
        context.screen.print_line("There are no threads yet.")?;
        return Ok(None);
    }
    let (now, columns) = (jiff::Timestamp::now(), context.screen.columns.saturating_sub(4));
    let ids = threads::short_ids(threads.iter().map(|thread| thread.thread_id));
    let items = threads.iter().zip(ids).map(|(thread, id)| {
        let line = format!(
            "{id}  {:<11} {}",
            threads::format_age(now, thread.updated_at),
            threads::thread_title(thread)
        );
        shorten(&line, columns).into_owned()
    });
    Ok(pick(&context.screen, label, items.collect())?.map(|index| threads.swap_remove(index)))
}

impl ChatSession {
    /// Reads lines and performs them until the user leaves or the input ends.
    async fn run_loop(&mut self) -> CommandResult {
        loop {
            if signals::is_exiting() {
                return Ok(ExitReason::Cancelled);
            }
            self.context.screen.update_width();
            let line = self.next_line().await?;
            let was_leaving = std::mem::replace(&mut self.is_quit_armed, line == InputLine::Interrupted);
            match line {
                InputLine::Text(input) if input.text.trim().is_empty() && input.images.is_empty() => {}
                InputLine::Text(input) => match input.text.trim().strip_prefix('/') {
                    Some(command) if is_command(command) => {
                        let command = command.to_owned();
                        if self.run_slash_command(&command).await? == ChatFlow::Quit {
                            return Ok(self.exit_reason);
                        }
                    }
                    Some(_) | None => {
                        let text = input.text.clone();
                        match self.send_message(input).await {
                            Ok(()) => {}
                            Err(failure) => {
                                if failure.is_busy() {
                                    // The message was not stored, so the user can send it again.
                                    self.type_ahead.queued_lines.push_front(text);
                                    self.type_ahead.hold_queued_lines();
                                }
                                self.report_turn_failure(failure)?;
                            }
                        }
                    }
                },
                InputLine::Interrupted if was_leaving => return Ok(ExitReason::Success),
                InputLine::Interrupted => {
                    self.print_info("Press Ctrl-C again, or Ctrl-D, or write /quit, to leave.")?
                }
                InputLine::Cleared => {}
                InputLine::Eof => return Ok(self.exit_reason),
            }
        }
    }

    /// Returns the next line: a line that was typed ahead, else a line from the prompt. Prints reports of background
    /// work and the status line first.
    async fn next_line(&mut self) -> Result<InputLine, CliFailure> {
        self.report_background_work().await?;
        while std::mem::take(&mut self.is_status_stale)
            && let Some(thread) = &self.thread
        {
            let totals = self.turn_totals.take();
            let context_use =
                status_line::show_status(&self.context, thread, totals.as_ref(), &mut self.thread_totals)
                    .await?;
            self.propose_growth_action(context_use).await?;
        }
        for text in self.type_ahead.pastes.drain(..) {
            self.input.record_paste(&text);
        }
        if let Some(text) = self.type_ahead.queued_lines.pop_front() {
            let prompt_text = text.replace('\n', "\n     … ");
            self.context.screen.print_line(format!("{PROMPT}{}", sanitize(&prompt_text)))?;
            return Ok(InputLine::Text(self.input.expand_pastes(&text)));
        }
        let is_plain = self.context.screen.is_plain();
        if !is_plain && !self.type_ahead.drafts.is_empty() {
            self.print_info("You typed this at a question, so it was not sent. Enter sends it.")?;
        }
        // A plain terminal has no line to put a draft into, so all drafts are printed at once.
        let draft =
            if is_plain { self.type_ahead.take_all_drafts() } else { self.type_ahead.take_next_draft() };
        if is_plain && !draft.is_empty() {
            self.print_info("You typed this at a question, so it was not sent:")?;
            self.context.screen.print_line(sanitize(&draft))?;
        }
        self.input.prefill(&draft);
        if self.context.screen.audience == Audience::Person {
            let candidates = self.completion_candidates().await;
            self.input.set_candidates(candidates);
        }
        self.input.read_line()
    }

    /// Returns the thread ids and models that completion offers. Without a readable journal, no threads are offered.
    async fn completion_candidates(&self) -> CompletionCandidates {
        let filter = ThreadFilter { limit: THREADS_OFFERED_MAX, ..ThreadFilter::default() };
        let threads = self.context.agent.threads().list(filter).await.unwrap_or_default();
        let ids = threads::short_ids(threads.iter().map(|thread| thread.thread_id));
        let titles = threads.iter().map(|thread| shorten(&threads::thread_title(thread), 40).into_owned());
        CompletionCandidates {
            threads: ids.into_iter().zip(titles).collect(),
            models: inspect_commands::model_candidates(&self.context.agent),
        }
    }

    /// Prints a dimmed text, wrapped to the screen.
    fn print_info(&self, text: &str) -> Result<(), CliFailure> {
        let screen = &self.context.screen;
        Ok(screen.print_line(screen.style.dim(wrap(text, screen.columns, "", "  ")))?)
    }

    /// Reports the failure of a turn. The chat continues; if its input is a pipe, it will end with the failure's exit code.
    fn report_turn_failure(&mut self, failure: CliFailure) -> Result<(), CliFailure> {
        if let CliFailure::Reported(report) = &failure
            && self.context.screen.audience == Audience::Program
        {
            self.exit_reason = report.code;
        }
        self.report_failure(failure)
    }

    /// Reports a failure. The chat continues.
    ///
    /// # Errors
    /// Returns the failure if the program is ending or the output is closed.
    fn report_failure(&self, failure: CliFailure) -> Result<(), CliFailure> {
        match failure {
            CliFailure::Reported(report) if report.code == ExitReason::Cancelled && signals::is_exiting() => {
                Err(CliFailure::Reported(report))
            }
            CliFailure::Reported(report) => {
                exit::print_failure(&report, OutputFormat::Text);
                Ok(())
            }
            CliFailure::OutputClosed => Err(CliFailure::OutputClosed),
        }
    }

    /// Prints the model that answers. If no model can be used, prints a warning that explains which commands still
    /// work.
    fn show_model(&self) -> Result<(), CliFailure> {
        let models = self.context.agent.model_status();
        let reason = match (models.default, models.problem) {
            (Some(name), None) => return self.print_info(&format!("Model: {}", sanitize_line(&name))),
            (_, Some(problem)) => format!("Failed to {}", sanitize_line(&problem)),
            (None, None) => "No model is configured".to_owned(),
        };
        let text = format!(
            "{reason}, so messages get no answer: they are kept until a model can be used. /handoff and the other commands work."
        );
        let screen = &self.context.screen;
        screen.print_line(screen.style.warn(wrap(&text, screen.columns, "", "")))?;
        self.print_info(&format!("hint: {NO_MODEL_HINT}"))
    }

    /// Makes `thread` the current thread, shows its last messages, and continues its pending work: an interrupted run
    /// or a handoff.
    async fn enter_thread(&mut self, thread: Thread) -> Result<(), CliFailure> {
        let thread_id = thread.thread_id;
        self.switch_thread(Some(thread));
        thread_intro::show_thread_intro(&self.context, self.thread.as_ref()).await?;
        match self.recover_run(thread_id).await? {
            RecoveryOutcome::Nothing => self.offer_pending_handoff(thread_id).await,
            RecoveryOutcome::Recovered => Ok(()),
        }
    }

    /// Makes `thread` the current thread without showing it.
    fn switch_thread(&mut self, thread: Option<Thread>) {
        self.is_status_stale = thread.is_some();
        self.thread = thread;
        self.thread_totals = None;
        self.pending_calls.clear();
        self.input.suggest(None);
    }

    /// Resumes the thread's run if its process is gone, for example after a crash, and prints a note about it.
    async fn recover_run(&mut self, thread_id: ThreadId) -> Result<RecoveryOutcome, CliFailure> {
        self.first_note = Some(RECOVERED_NOTICE.to_owned());
        let recovered = self
            .run_watched(async |agent, frames, cancel| agent.runs().recover(thread_id, frames, cancel).await)
            .await?;
        match recovered {
            Ok(None) => Ok(RecoveryOutcome::Nothing),
            Ok(Some(end)) => self.handle_run_end(thread_id, end).await.map(|()| RecoveryOutcome::Recovered),
            Err(error) => self.report_failure(error.into()).map(|()| RecoveryOutcome::Nothing),
        }
    }

    /// Sends a message in the current thread and shows the turn that follows. Creates the thread if there is none.
    async fn send_message(&mut self, input: ExpandedInput) -> Result<(), CliFailure> {
        self.input.suggest(None);
        let draft = MessageDraft::new(input, self.context.agent.workspace());
        for note in &draft.notes {
            self.print_info(&sanitize_line(note))?;
        }
        let thread_id = match &self.thread {
            Some(thread) => thread.thread_id,
            None => {
                let created = self.context.agent.threads().create(None).await?;
                self.thread.insert(created).thread_id
            }
        };
        let message = draft.into_message(&self.context.agent, thread_id).await?;
        self.first_note = approval::dropped_calls_notice(&self.context, thread_id).await?;
        let end = self
            .run_watched(async |agent, frames, cancel| {
                agent.runs().send_message(thread_id, message, frames, cancel).await.map(Some)
            })
            .await?;
        match end? {
            Some(end) => self.handle_run_end(thread_id, end).await,
            None => Ok(()),
        }
    }

    /// Shows a run until it ends, and adds its totals. Input that is typed meanwhile goes to `type_ahead`.
    ///
    /// # Errors
    /// The outer error is a failure of the terminal, the inner one a failure of the run.
    async fn run_watched(
        &mut self,
        work: impl AsyncFnOnce(&Agent, &FrameSender, &CancellationToken) -> agent::Result<Option<RunEnd>>,
    ) -> Result<agent::Result<Option<RunEnd>>, CliFailure> {
        self.context.screen.update_width();
        self.is_status_stale = true;
        let _bracketed_paste = BracketedPasteGuard::enable(&self.context.screen)?;
        let agent = &self.context.agent;
        let mut view = TurnView::new(&self.context.screen, &mut self.type_ahead);
        view.expect_calls(std::mem::take(&mut self.pending_calls));
        if let Some(text) = self.first_note.take() {
            view.set_first_note(text);
        }
        let outcome = watch(
            async |frames, cancel| work(agent, &frames, &cancel).await,
            |event| view.handle_watch_event(event),
        )
        .await;
        let mut totals = view.finish()?;
        if let Ok(Ok(Some(end))) = &outcome {
            totals.usage = end.usage;
        }
        match &outcome {
            // There was no run, so the calls are still without a result.
            Ok(Ok(None)) => self.pending_calls = totals.pending_calls,
            Ok(Ok(Some(_)) | Err(_)) | Err(_) => self.record_totals(totals).await?,
        }
        Ok(outcome?)
    }

    /// Adds the totals of a run to those of the turn and the thread. If the view has missed frames of the run, the entries
    /// after the gap are read from the journal and shown.
    async fn record_totals(&mut self, mut totals: TurnTotals) -> Result<(), CliFailure> {
        self.pending_calls = std::mem::take(&mut totals.pending_calls);
        match (&mut self.thread_totals, totals.lost_after.take()) {
            (total, Some(seq)) => {
                *total = None;
                if let Some(thread) = &self.thread {
                    history::show_entries_after(&self.context, thread.thread_id, seq).await?;
                }
            }
            (Some(total), None) => total.add(&self.context.agent, &totals),
            (None, None) => {}
        }
        match &mut self.turn_totals {
            Some(earlier) => earlier.add(totals),
            empty => *empty = Some(totals),
        }
        Ok(())
    }

    /// Asks the questions of an interrupted run, resumes it until no question is left, and reports its end. Then starts
    /// to summarize old messages in the background.
    async fn handle_run_end(&mut self, thread_id: ThreadId, end: RunEnd) -> Result<(), CliFailure> {
        let result = self.answer_interrupts(thread_id, end).await;
        self.background.start(&self.context.agent);
        result
    }

    /// Asks about tool calls and handoffs as long as the run stops at a question, and reports the end of the last run.
    async fn answer_interrupts(&mut self, thread_id: ThreadId, end: RunEnd) -> Result<(), CliFailure> {
        let mut end = end;
        while end.status == RunStatus::Interrupted && !signals::is_exiting() {
            // If the input is a pipe, questions are asked only on `/approve`: the next line may be a message.
            let approved = match self.context.screen.audience {
                Audience::Person => self.approve_calls(thread_id).await?,
                Audience::Program => None,
            };
            let resumed = match approved {
                Some(next) => Some(next),
                None => self.review_requested_handoff(thread_id, &end).await?,
            };
            match resumed {
                Some(next) => end = next,
                None => return Ok(()),
            }
        }
        match (end.status, exit::result_of_run(&end)) {
            (RunStatus::Cancelled, _) => {
                // Lines that were typed ahead may refer to an answer that never came, so they are not sent unseen.
                self.type_ahead.hold_queued_lines();
                let is_compacting = self.turn_totals.as_ref().is_some_and(|totals| totals.is_compacting);
                self.print_info(if is_compacting { COMPACTION_STOPPED_NOTICE } else { STOPPED_NOTICE })
            }
            (_, Err(failure)) => {
                self.type_ahead.hold_queued_lines();
                self.report_turn_failure(failure)?;
                self.print_info(MESSAGE_KEPT_NOTICE)
            }
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Asks about the pending tool calls and resumes the run with the answers. Returns the end of that run, or `None`
    /// if no call is pending or the user postponed the answer.
    async fn approve_calls(&mut self, thread_id: ThreadId) -> Result<Option<RunEnd>, CliFailure> {
        let pending = self.context.agent.runs().pending_interrupts(thread_id).await?;
        let mut interrupts =
            pending.iter().filter(|interrupt| approval::is_tool_approval(interrupt)).peekable();
        while let Some(interrupt) = interrupts.peek().copied() {
            let answer = approval::ask_for_decisions(&self.context, interrupt, &mut self.type_ahead)?;
            let (decisions, remembered_rules) = match answer {
                Some(ApprovalAnswer::Decided { decisions, remembered_rules }) => {
                    (decisions, remembered_rules)
                }
                Some(ApprovalAnswer::MoveHere) => {
                    return self
                        .run_watched(async |agent, frames, cancel| {
                            agent.runs().rehome_thread(interrupt, frames, cancel).await.map(Some)
                        })
                        .await?
                        .map_err(CliFailure::from);
                }
                None => {
                    // A message would withdraw the calls, so lines that were typed ahead are not sent unseen.
                    self.type_ahead.hold_queued_lines();
                    return Ok(None);
                }
            };
            approval::store_rules(&self.context, interrupt, &remembered_rules).await?;
            if self.pending_calls.is_empty() {
                self.pending_calls = approval::pending_calls(interrupt);
            }
            let id = interrupt.interrupt_id;
            let end = self
                .run_watched(async |agent, frames, cancel| {
                    agent.runs().resume(id, &decisions, frames, cancel).await
                })
                .await?;
            match end {
                // The folder was deleted while the question was open. Ask again: moving the thread is offered now.
                Err(agent::Error::Run(RunError::WorkspaceGone { .. })) => continue,
                end => match end? {
                    Some(end) => return Ok(Some(end)),
                    None => interrupts.next(),
                },
            };
        }
        Ok(None)
    }

    /// Selects another model for the following messages.
    ///
    /// # Errors
    /// Fails if the model cannot be used; the current model stays selected.
    fn use_model(&mut self, name: &str) -> Result<(), CliFailure> {
        let context = &mut self.context;
        context.agent.use_model(Some(name.to_owned()));
        if let Some(problem) = context.agent.model_status().problem {
            context.agent.use_model(context.model.clone());
            return Err(CliFailure::new(ExitReason::Config, problem).with_hint("the model was not changed"));
        }
        context.model = Some(name.to_owned());
        self.is_status_stale = true;
        self.show_model()
    }

    /// Returns the id of the current thread; if there is none, prints a notice and returns `None`.
    fn current_thread_id(&self) -> Result<Option<ThreadId>, CliFailure> {
        if self.thread.is_none() {
            self.print_info("This thread has no messages yet.")?;
        }
        Ok(self.thread.as_ref().map(|thread| thread.thread_id))
    }
}

/// Returns whether a text after a `/` is a slash command. A message may also begin with a path: the text is a path if
/// it has another `/` and its first folder exists.
fn is_command(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.split_once('/').is_none_or(|(first, _)| !Path::new("/").join(first).exists())
}
