//! Telling a turn that nobody can interrupt with keys: to a person as it happens, to a program as JSON lines or as the
//! answer alone.

use std::io::{self, Write};
use std::time::Instant;

use agent::{Frame, RunEnd};
use protocol::message::{StopReason, joined_text};
use protocol::{AiMessage, EventType, Interrupt, Message, ThreadId, ToolStatus, Usage};
use serde::Serialize;
use serde_json::Value;
use terminal::calls::{outcome, stopped, title};
use terminal::{Audience, Seen, marker, one_line, safe, shorten};

use crate::cli::Format;
use crate::commands::run::decide::handoff_command;
use crate::commands::run::lines::{self, Cost, Report, Start};
use crate::commands::{Context, approval};
use crate::exit::{self, Code, Failure, Outcome};

/// Columns of the line that says why a tool failed.
const WHY_COLUMNS_MAX: usize = 160;

/// A turn on its way to stdout and stderr.
pub(crate) struct Teller<'a> {
    pub(super) context: &'a Context,
    pub(super) thread_id: ThreadId,
    /// What is told once the run is admitted.
    opening: Option<String>,
    started: Instant,
    /// The text of the answer under way, and of the last whole one.
    pending: String,
    answer: String,
    model: Option<String>,
    usage: Usage,
    stop: Option<StopReason>,
    interrupts: Vec<Interrupt>,
    /// Whether the last character on stdout was a newline.
    ends_line: bool,
}

impl<'a> Teller<'a> {
    /// Begins to tell a turn.
    pub(crate) fn new(context: &'a Context, thread_id: ThreadId) -> Result<Self, Failure> {
        let model = context.agent.models().default;
        if context.format == Format::Json {
            print_json(&Start::new(thread_id, model.as_deref()))?;
        }
        Ok(Self {
            context,
            thread_id,
            opening: None,
            started: Instant::now(),
            pending: String::new(),
            answer: String::new(),
            model,
            usage: Usage::default(),
            stop: None,
            interrupts: Vec::new(),
            ends_line: true,
        })
    }

    /// Tells `text`, if there is any, once the run is admitted.
    pub(super) fn opening_with(mut self, text: Option<String>) -> Self {
        self.opening = text;
        self
    }

    pub(super) fn tell(&mut self, seen: Seen<'_>) -> io::Result<()> {
        if let Seen::Frame(_, frame) = seen {
            if matches!(frame, Frame::RunStarted { .. })
                && let Some(text) = self.opening.take()
            {
                self.note(&text);
            }
            self.gather(frame);
        }
        match (self.context.format, seen) {
            (Format::Json, Seen::Frame(_, frame)) if !lines::is_told(frame) => Ok(()),
            (Format::Json, Seen::Frame(at, frame)) => print_json(&lines::frame(at, frame)?),
            (Format::Json, Seen::Gap(after)) => print_json(&lines::gap(after)),
            (Format::Text, Seen::Frame(_, frame)) => self.show(frame),
            (Format::Text, Seen::Gap(_)) => {
                self.note("what is told fell behind; `segue history` has all of it");
                Ok(())
            }
            (Format::Text, Seen::Stopping) => {
                self.end_line()?;
                self.note("stopping; Ctrl-C again gives up waiting");
                Ok(())
            }
            (_, Seen::Tick) | (Format::Json, Seen::Stopping) => Ok(()),
        }
    }

    fn gather(&mut self, frame: &Frame) {
        if let Frame::Text { text, .. } = frame {
            self.pending.push_str(text);
        } else if let Frame::Interrupted(interrupt) = frame {
            self.interrupts.push((**interrupt).clone());
        } else if let Frame::Event(event) = frame
            && let Some(Message::Ai(answer)) = event.message()
        {
            self.answered(answer);
        }
    }

    fn answered(&mut self, answer: AiMessage) {
        self.pending.clear();
        self.usage.add(answer.usage.unwrap_or_default());
        self.stop = answer.stop;
        let text = joined_text(&answer.content);
        if !text.trim().is_empty() {
            self.answer = text;
        }
        self.model = answer.model.or(self.model.take());
    }

    fn show(&mut self, frame: &Frame) -> io::Result<()> {
        let (screen, style) = (&self.context.screen, self.context.screen.style);
        match frame {
            // A program gets the answer once it is known to be the last one.
            Frame::Text { text, .. } if screen.audience == Audience::Person => {
                self.ends_line = text.ends_with('\n');
                screen.write(&safe(text))
            }
            Frame::ToolStarted { name, args, .. } => {
                self.end_line()?;
                screen.note(style.dim(format!("  {}", title(name, args))));
                Ok(())
            }
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.end_line()?;
                screen.note(style.warn(one_line(text)));
                Ok(())
            }
            Frame::Event(event) => {
                self.end_line()?;
                for line in marker::happened(screen, event) {
                    screen.note(line);
                }
                if event.kind() == Some(EventType::ToolMessage)
                    && let Some(Message::Tool(result)) = event.message()
                    && result.status == ToolStatus::Error
                {
                    let name = one_line(result.name.as_deref().unwrap_or("tool"));
                    let why = outcome(result.status, &joined_text(&result.content), None);
                    screen.note(style.dim(shorten(&format!("  {name} {why}"), WHY_COLUMNS_MAX)));
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
            | Frame::Within(_)
            | Frame::Custom { .. }
            | Frame::Updates { .. }
            | Frame::Values { .. }
            | Frame::Interrupted(_) => Ok(()),
        }
    }

    /// Tells how the turn ended.
    pub(super) async fn finish(mut self, end: Option<&RunEnd>, outcome: &Outcome) -> Result<(), Failure> {
        let code = match outcome {
            Ok(code) => *code,
            Err(Failure::Told(told)) => told.code,
            Err(Failure::OutputClosed) => return Ok(()),
        };
        if !self.pending.is_empty() {
            self.answer = std::mem::take(&mut self.pending);
        }
        if end.is_none() && code == Code::Undecided {
            self.interrupts = self.context.agent.runs().pending_interrupts(self.thread_id).await?;
        }
        let next = next_command(self.context, &self.interrupts).await;
        match self.context.format {
            Format::Json => self.report(end, outcome, next),
            Format::Text => {
                self.end_line()?;
                if self.context.screen.audience == Audience::Program && !self.answer.is_empty() {
                    let newline = if self.answer.ends_with('\n') { "" } else { "\n" };
                    self.context.screen.write(&format!("{}{newline}", self.answer))?;
                }
                if let Some(note) = stopped(self.stop) {
                    self.note(note);
                }
                tell_what_waits(self.context, &self.interrupts, next.as_deref());
                Ok(())
            }
        }
    }

    fn report(&self, end: Option<&RunEnd>, outcome: &Outcome, next: Option<String>) -> Result<(), Failure> {
        let (code, error) = match outcome {
            Err(Failure::Told(told)) => (told.code, Some(exit::json(told))),
            Ok(code) => (*code, None),
            Err(Failure::OutputClosed) => (Code::Done, None),
        };
        let model = self.model.as_deref().unwrap_or_default();
        print_json(&Report {
            kind: "result",
            status: lines::status(end, code),
            exit_code: code.number(),
            thread_id: self.thread_id,
            run_id: end.map(|end| end.run_id),
            answer: &self.answer,
            stop: self.stop,
            usage: self.usage,
            cost: Cost { dollars: self.context.agent.admin().price_of(model, &self.usage) },
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            interrupts: &self.interrupts,
            next_command: next.as_deref(),
            error,
        })?;
        Ok(())
    }

    fn note(&self, text: &str) {
        note(self.context, text);
    }

    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.ends_line, true) {
            true => Ok(()),
            false => self.context.screen.write("\n"),
        }
    }
}

fn note(context: &Context, text: &str) {
    context.screen.note(context.screen.style.warn(one_line(text)));
}

/// Tells a person what waits, and the command that answers it.
pub(crate) fn tell_what_waits(context: &Context, interrupts: &[Interrupt], next: Option<&str>) {
    let Some(next) = next else { return };
    for interrupt in interrupts {
        let waiting = match approval::is_about_calls(interrupt) {
            true => approval::call_lines(interrupt),
            false => {
                let requests = interrupt.payload.action_requests.iter();
                requests.map(|request| format!("handoff: {}", handoff_title(&request.args))).collect()
            }
        };
        for what in waiting {
            note(context, &format!("waits for a decision: {what}"));
        }
    }
    let how = match interrupts.iter().any(approval::is_about_calls) {
        true => format!("{next} --approve, or --reject \"why\""),
        false => next.to_owned(),
    };
    note(context, &format!("answer with: {how}"));
}

/// Returns the command that answers what waits, tool calls first. It names the question, so that it answers no later one.
pub(crate) async fn next_command(context: &Context, interrupts: &[Interrupt]) -> Option<String> {
    let about_calls = interrupts.iter().find(|interrupt| approval::is_about_calls(interrupt));
    match (interrupts.first(), about_calls) {
        (None, _) => None,
        (Some(_), Some(asked)) => Some(format!("segue decide {}", asked.interrupt_id)),
        (Some(handoff), None) => Some(handoff_command(context, handoff).await),
    }
}

/// Returns the title of the summary that a handoff's question shows.
fn handoff_title(args: &Value) -> String {
    one_line(args["summary_json"]["title"].as_str().unwrap_or("(untitled)"))
}

fn print_json(line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&text)?;
    stdout.flush()
}
