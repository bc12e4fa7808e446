//! Prints a turn outside the chat: for a user the text as it arrives, for a program the whole answer or JSON lines.

use std::io::{self, Write};
use std::time::Instant;

use agent::{Frame, RunEnd};
use protocol::message::{StopReason, joined_text};
use protocol::{AiMessage, EventType, Interrupt, Message, ThreadId, ToolStatus, Usage};
use serde::Serialize;
use serde_json::Value;
use terminal::tool_calls::{DECLINED_OUTCOME, outcome_text, stop_notice, title};
use terminal::{Audience, WatchEvent, marker, sanitize, sanitize_line, shorten};

use crate::cli::OutputFormat;
use crate::commands::run::decide::handoff_command;
use crate::commands::run::json_lines::{self, RunCost, RunResultLine, RunStartLine};
use crate::commands::{CommandContext, approval};
use crate::exit::{self, CliFailure, CommandResult, ExitReason};

/// The widest line about a failed tool call, in columns.
const ERROR_COLUMNS_MAX: usize = 160;

/// Prints a turn to stdout and stderr.
pub(crate) struct TurnPrinter<'a> {
    /// The agent and the output.
    pub(super) context: &'a CommandContext,
    /// The thread of the turn.
    pub(super) thread_id: ThreadId,
    /// True once the start line of JSON output was printed.
    is_start_printed: bool,
    /// A note to print once the run is admitted, with its style.
    first_note: Option<String>,
    /// The time at which the printer was created.
    started: Instant,
    /// The text of the answer that is streaming in.
    partial_answer: String,
    /// The text of the last complete answer.
    answer: String,
    /// The model of the last answer; before it, the configured model.
    model: Option<String>,
    /// The tokens of the run's own model calls.
    usage: Usage,
    /// The reason why the model stopped after the last answer.
    stop_reason: Option<StopReason>,
    /// The interrupts at which the run stopped.
    interrupts: Vec<Interrupt>,
    /// True if the last character on stdout was a newline.
    is_at_line_start: bool,
}

impl<'a> TurnPrinter<'a> {
    /// Returns a printer. With JSON output, prints the start line.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub(crate) fn new(context: &'a CommandContext, thread_id: ThreadId) -> Result<Self, CliFailure> {
        let mut printer = Self::for_new_thread(context, thread_id);
        printer.first_note = None;
        printer.print_start_line()?;
        Ok(printer)
    }

    /// Returns a printer for a thread that is created together with the run. The start line, or a note with the id of the
    /// thread, is printed once the thread exists.
    pub(super) fn for_new_thread(context: &'a CommandContext, thread_id: ThreadId) -> Self {
        let models = context.agent.model_status();
        // If no model can be used, the failure of the turn names the thread.
        let is_answered = models.default.is_some() && models.problem.is_none();
        let first_note = (context.format == OutputFormat::Text && is_answered)
            .then(|| context.screen.style.dim(format!("thread {thread_id}")));
        Self {
            context,
            thread_id,
            is_start_printed: false,
            first_note,
            started: Instant::now(),
            partial_answer: String::new(),
            answer: String::new(),
            model: models.default,
            usage: Usage::default(),
            stop_reason: None,
            interrupts: Vec::new(),
            is_at_line_start: true,
        }
    }

    /// Prints the start line of JSON output, once.
    fn print_start_line(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_start_printed, true) || self.context.format == OutputFormat::Text {
            return Ok(());
        }
        print_json(&RunStartLine::new(self.thread_id, self.model.as_deref()))
    }

    /// Sets a note to print once the run is admitted.
    pub(super) fn with_first_note(mut self, text: Option<String>) -> Self {
        self.first_note = text.map(|text| self.context.screen.style.warn(sanitize_line(&text)));
        self
    }

    /// Prints an event of the run, and records the data for the result.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub(super) fn handle_event(&mut self, event: WatchEvent<'_>) -> io::Result<()> {
        if let WatchEvent::Frame(_, frame) = event {
            self.print_start_line()?;
            if matches!(frame, Frame::RunStarted { .. })
                && let Some(note) = self.first_note.take()
            {
                self.context.screen.print_to_stderr(note);
            }
            self.record_frame(frame);
        }
        match (self.context.format, event) {
            (OutputFormat::Json, WatchEvent::Frame(_, frame)) if !json_lines::has_line(frame) => Ok(()),
            (OutputFormat::Json, WatchEvent::Frame(position, frame)) => {
                print_json(&json_lines::frame_line(position, frame)?)
            }
            (OutputFormat::Json, WatchEvent::Gap(after)) => print_json(&json_lines::gap_line(after)),
            (OutputFormat::Text, WatchEvent::Frame(_, frame)) => self.print_frame(frame),
            (OutputFormat::Text, WatchEvent::Gap(_)) => {
                self.print_note(
                    "some output was lost because it was not read in time; `segue history` shows everything",
                );
                Ok(())
            }
            (OutputFormat::Text, WatchEvent::Stopping) => {
                self.end_line()?;
                self.print_note("stopping; press Ctrl-C again to stop waiting");
                Ok(())
            }
            (_, WatchEvent::Tick) | (OutputFormat::Json, WatchEvent::Stopping) => Ok(()),
        }
    }

    /// Records the text, the questions and the usage of a frame for the result.
    /// The recorded text is the answer in the result, also if the run stops before the answer is complete.
    fn record_frame(&mut self, frame: &Frame) {
        if let Frame::Text { text, .. } = frame {
            self.partial_answer.push_str(text);
        } else if let Frame::Interrupted(interrupt) = frame {
            self.interrupts.push((**interrupt).clone());
        } else if let Frame::Event(event) = frame
            && let Some(Message::Ai(answer)) = event.message()
        {
            self.record_answer(answer);
        }
    }

    /// Records a complete answer. An answer without text does not replace the last text.
    fn record_answer(&mut self, answer: AiMessage) {
        self.partial_answer.clear();
        self.usage.add(answer.usage.unwrap_or_default());
        self.stop_reason = answer.stop;
        let text = joined_text(&answer.content);
        if !text.trim().is_empty() {
            self.answer = text;
        }
        self.model = answer.model.or(self.model.take());
    }

    /// Prints a frame as text: the answer to stdout, everything else to stderr.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    fn print_frame(&mut self, frame: &Frame) -> io::Result<()> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        match frame {
            // A program gets only the last answer, so its text is printed at the end.
            Frame::Text { text, .. } if screen.audience == Audience::Person => {
                self.is_at_line_start = text.ends_with('\n');
                screen.write(&sanitize(text))
            }
            Frame::ToolStarted { name, args, .. } => {
                self.end_line()?;
                screen.print_to_stderr(style.dim(format!("  {}", title(name, args))));
                Ok(())
            }
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.end_line()?;
                screen.print_to_stderr(style.warn(sanitize_line(text)));
                Ok(())
            }
            Frame::Event(event) => {
                self.end_line()?;
                for line in marker::render_context_event(screen, event) {
                    screen.print_to_stderr(line);
                }
                if event.kind() == Some(EventType::ToolMessage)
                    && let Some(Message::Tool(result)) = event.message()
                    && result.status == ToolStatus::Error
                {
                    let name = sanitize_line(result.name.as_deref().unwrap_or("tool"));
                    let outcome = outcome_text(result.status, &joined_text(&result.content), None);
                    let text = match outcome.strip_prefix(DECLINED_OUTCOME) {
                        Some("") => format!("  The user declined `{name}`."),
                        Some(message) => format!("  The user declined `{name}`{message}"),
                        None => format!("  {name} {outcome}"),
                    };
                    screen.print_to_stderr(style.dim(shorten(&text, ERROR_COLUMNS_MAX)));
                }
                Ok(())
            }
            Frame::RunEnded { .. } => self.end_line(),
            Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Text { .. }
            | Frame::Thinking { .. }
            | Frame::ToolCall { .. }
            | Frame::ToolOutput { .. }
            | Frame::ToolEnded { .. }
            | Frame::Progress { .. }
            | Frame::Subagent(_)
            | Frame::Custom { .. }
            | Frame::Updates { .. }
            | Frame::Values { .. }
            | Frame::Interrupted(_) => Ok(()),
        }
    }

    /// Prints the end of the turn: the answer or the result line, and pending questions.
    ///
    /// # Errors
    /// Fails if stdout cannot be written or the journal cannot be read.
    pub(super) async fn finish(
        mut self,
        end: Option<&RunEnd>,
        outcome: &CommandResult,
    ) -> Result<(), CliFailure> {
        let code = match outcome {
            Ok(code) => *code,
            Err(CliFailure::Reported(failure)) => failure.code,
            Err(CliFailure::OutputClosed) => return Ok(()),
        };
        if !self.partial_answer.is_empty() {
            self.answer = std::mem::take(&mut self.partial_answer);
        }
        if end.is_none() && code == ExitReason::Undecided {
            self.interrupts = self.context.agent.runs().pending_interrupts(self.thread_id).await?;
        }
        let next = next_command(self.context, &self.interrupts).await;
        self.print_start_line()?;
        match self.context.format {
            OutputFormat::Json => self.print_result(end, outcome, next),
            OutputFormat::Text => {
                self.end_line()?;
                if self.context.screen.audience == Audience::Program && !self.answer.is_empty() {
                    let newline = if self.answer.ends_with('\n') { "" } else { "\n" };
                    self.context.screen.write(&format!("{}{newline}", self.answer))?;
                }
                if let Some(note) = stop_notice(self.stop_reason) {
                    self.print_note(note);
                }
                print_pending_interrupts(self.context, &self.interrupts, next.as_deref());
                Ok(())
            }
        }
    }

    /// Prints the result line of JSON output.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    fn print_result(
        &self,
        end: Option<&RunEnd>,
        outcome: &CommandResult,
        next: Option<String>,
    ) -> Result<(), CliFailure> {
        let (code, error) = match outcome {
            Err(CliFailure::Reported(failure)) => (failure.code, Some(exit::failure_json(failure))),
            Ok(code) => (*code, None),
            Err(CliFailure::OutputClosed) => (ExitReason::Success, None),
        };
        let model = self.model.as_deref().unwrap_or_default();
        print_json(&RunResultLine {
            kind: "result",
            status: json_lines::result_status(end, code),
            exit_code: code.exit_code(),
            thread_id: self.thread_id,
            run_id: end.map(|end| end.run_id),
            answer: &self.answer,
            stop: self.stop_reason,
            usage: self.usage,
            cost: RunCost { dollars: self.context.agent.admin().usage_price(model, &self.usage) },
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            interrupts: &self.interrupts,
            next_command: next.as_deref(),
            error,
        })?;
        Ok(())
    }

    /// Prints a warning to stderr.
    fn print_note(&self, text: &str) {
        print_note(self.context, text);
    }

    /// Ends the current line on stdout, if it has any text.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.is_at_line_start, true) {
            true => Ok(()),
            false => self.context.screen.write("\n"),
        }
    }
}

/// Prints a warning to stderr on one line.
fn print_note(context: &CommandContext, text: &str) {
    context.screen.print_to_stderr(context.screen.style.warn(sanitize_line(text)));
}

/// Prints the pending questions to stderr, and the command that answers them. Prints nothing if `next` is `None`.
pub(crate) fn print_pending_interrupts(
    context: &CommandContext,
    interrupts: &[Interrupt],
    next: Option<&str>,
) {
    let Some(next) = next else { return };
    for interrupt in interrupts {
        let questions = match approval::is_tool_approval(interrupt) {
            true => approval::call_lines(interrupt),
            false => {
                let requests = interrupt.payload.action_requests.iter();
                requests.map(|request| format!("handoff: {}", handoff_title(&request.args))).collect()
            }
        };
        for question in questions {
            print_note(context, &format!("needs a decision: {question}"));
        }
    }
    let command = match interrupts.iter().any(approval::is_tool_approval) {
        true => format!("{next} --approve, or --reject \"REASON\""),
        false => next.to_owned(),
    };
    print_note(context, &format!("answer with: {command}"));
}

/// Returns the command that answers the first pending question; tool calls come before a handoff. The command contains
/// the id of the interrupt, so that it cannot answer a later question by mistake.
pub(crate) async fn next_command(context: &CommandContext, interrupts: &[Interrupt]) -> Option<String> {
    let tool_approval = interrupts.iter().find(|interrupt| approval::is_tool_approval(interrupt));
    match (interrupts.first(), tool_approval) {
        (None, _) => None,
        (Some(_), Some(interrupt)) => Some(format!("segue decide {}", interrupt.interrupt_id)),
        (Some(handoff), None) => Some(handoff_command(context, handoff).await),
    }
}

/// Returns the title of the summary in the arguments of a handoff's action request.
fn handoff_title(args: &Value) -> String {
    sanitize_line(args["summary_json"]["title"].as_str().unwrap_or("(untitled)"))
}

/// Prints a line of JSON and flushes stdout, so that a reader gets it at once.
fn print_json(line: &impl Serialize) -> io::Result<()> {
    let mut text = Vec::new();
    terminal::write_json(&mut text, line)?;
    text.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&text)?;
    stdout.flush()
}
