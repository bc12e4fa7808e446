//! A turn as it happens: the answer line by line, one line for each tool call with what came of it, and below them what
//! is under way. Keys that are typed meanwhile are kept. What the turn asks is left to the caller.

mod calls;

use std::io;
use std::time::{Duration, Instant};

use agent::Frame;
use protocol::event::body::{CallDecision, SubagentEnded, ToolCallDecided};
use protocol::{AiMessage, Event, EventType, Message, Usage};
use serde_json::Value;

use crate::screen::{Audience, Screen};
use crate::show::calls::{duration, stopped, title};
use crate::show::markdown::Markdown;
use crate::show::marker;
use crate::text::safe::one_line;
use crate::text::wrap::{shorten, wrap};
use crate::work::live::Live;
use crate::work::stream::calls::Calls;
use crate::work::typed::{Typed, Wish};
use crate::work::watch::{Seen, Then};

/// The pictures of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each is shown.
const PICTURE: Duration = Duration::from_millis(80);
/// Rows of the line of the answer that is not whole.
const PREVIEW_ROWS_MAX: usize = 6;
/// Rows of what was typed ahead.
const TYPED_ROWS_MAX: usize = 3;

/// A turn being shown.
#[derive(Debug)]
pub struct Stream<'a> {
    screen: Screen,
    live: Live,
    answer: Markdown,
    calls: Calls,
    typed: &'a mut Typed,
    phase: Phase,
    started: Instant,
    phase_started: Instant,
    spent: Spent,
    /// What is said before the first thing that is seen of the work, should there be any.
    opening: Option<String>,
}

/// What a turn took.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// The tokens of its own calls of the model, which its end tells.
    pub usage: Usage,
    /// The model that answered.
    pub model: Option<String>,
    /// The tokens of each sub-agent that ended, and its model.
    pub subagents: Vec<(Option<String>, Usage)>,
    /// The calls of the last answer that have no result yet: their ids and arguments, in order.
    pub waiting: Vec<(String, Value)>,
    /// The time.
    pub time: Duration,
    /// The last event that was shown, when the display fell behind; what came after is in the journal.
    pub lost_after: Option<protocol::Seq>,
    /// Whether it was condensing the conversation when it ended.
    pub is_condensing: bool,
}

impl Spent {
    /// Adds what came after.
    pub fn add(&mut self, more: Self) {
        self.usage.add(more.usage);
        self.subagents.extend(more.subagents);
        self.model = more.model.or_else(|| self.model.take());
        self.time += more.time;
        self.is_condensing = more.is_condensing;
    }
}

/// What is under way, for the spinner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Waiting,
    Thinking,
    Answering,
    Calling,
    Working(String),
    Stopping,
}

impl<'a> Stream<'a> {
    /// Returns a turn of which nothing is shown yet; `typed` takes what is typed meanwhile.
    pub fn new(screen: &Screen, typed: &'a mut Typed) -> Self {
        let now = Instant::now();
        Self {
            screen: *screen,
            live: Live::new(screen),
            answer: Markdown::new(screen),
            calls: Calls::default(),
            typed,
            phase: Phase::Waiting,
            started: now,
            phase_started: now,
            spent: Spent::default(),
            opening: None,
        }
    }

    /// Says `text` as soon as there is anything but a notice to see of the work, which is once its run is admitted.
    pub fn open_with(&mut self, text: String) {
        self.opening = Some(text);
    }

    /// Says what is under way before the work tells anything itself.
    pub fn begin_with(&mut self, what: &str) {
        self.phase = Phase::Working(what.to_owned());
    }

    /// Tells the calls whose results are still to come, in order: one that is declined gets its result without ever
    /// running.
    pub fn expect(&mut self, calls: Vec<(String, Value)>) {
        self.calls.expect(calls);
    }

    /// Shows what is seen of the work.
    ///
    /// # Errors
    /// When stdout cannot be written to, or keys cannot be read.
    pub fn show(&mut self, seen: Seen<'_>) -> io::Result<Then> {
        match seen {
            Seen::Frame(_, frame) => {
                if !matches!(frame, Frame::Notice { .. })
                    && let Some(text) = self.opening.take()
                {
                    self.note(&text)?;
                }
                self.frame(frame)?;
            }
            Seen::Gap(after) => {
                self.end_answer()?;
                self.spent.lost_after = Some(after.seq);
                let text = "The display fell behind; what follows is shown once the turn is over.";
                self.print_line(&self.screen.style.warn(text))?;
            }
            Seen::Stopping => {
                self.calls.stop();
                self.enter(Phase::Stopping);
                self.redraw("")?;
            }
            Seen::Tick => return self.tick(),
        }
        Ok(Then::GoOn)
    }

    /// Ends the display and returns what the turn took.
    pub fn finish(mut self) -> io::Result<Spent> {
        self.end_answer()?;
        let left = self.calls.unfinished(&self.screen);
        if self.spent.lost_after.is_none() {
            self.print(&left)?;
        }
        self.live.clear()?;
        self.spent.time = self.started.elapsed();
        self.spent.waiting = self.calls.expected();
        Ok(std::mem::take(&mut self.spent))
    }

    fn frame(&mut self, frame: &Frame) -> io::Result<()> {
        match frame {
            Frame::Text { text, .. } => {
                self.enter(Phase::Answering);
                let lines = self.answer.push(text);
                self.print(&lines)
            }
            Frame::Thinking { .. } if self.phase == Phase::Waiting => {
                self.enter(Phase::Thinking);
                match self.live.is_drawn() {
                    true => Ok(()),
                    false => self.print_line(&self.screen.style.dim("  thinking …")),
                }
            }
            Frame::ToolStarted { call_id, name, args } => {
                self.end_answer()?;
                self.enter(Phase::Calling);
                self.calls.begin(call_id, name, args);
                // Whoever sees no rows should see what a long call is about.
                if !self.live.is_drawn() && self.screen.audience == Audience::Person {
                    return self.print_line(&self.screen.style.dim(format!("⏺ {}", title(name, args))));
                }
                Ok(())
            }
            Frame::ToolOutput { call_id, text } => {
                self.calls.output(call_id, text);
                Ok(())
            }
            Frame::ToolEnded { call_id, .. } => {
                self.calls.end(call_id);
                Ok(())
            }
            Frame::Event(event) => self.event(event),
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.end_answer()?;
                self.note(text)
            }
            Frame::Within(within) => {
                self.calls.subagent(within);
                Ok(())
            }
            Frame::Progress { what, .. } => {
                // Within a turn nothing else tells how far it is.
                self.spent.is_condensing = true;
                self.progress(what)
            }
            Frame::Interrupted(_) => {
                self.calls.ask();
                Ok(())
            }
            Frame::RunEnded { .. } => self.end_answer(),
            Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Thinking { .. }
            | Frame::ToolCall { .. }
            | Frame::Custom { .. }
            | Frame::Updates { .. }
            | Frame::Values { .. } => Ok(()),
        }
    }

    fn progress(&mut self, what: &str) -> io::Result<()> {
        let phase = Phase::Working(one_line(what));
        let is_told =
            self.phase == phase || self.live.is_drawn() || self.screen.audience == Audience::Program;
        let line = self.screen.style.dim(format!("  {} … Ctrl-C stops it", one_line(what)));
        self.enter(phase);
        if is_told { Ok(()) } else { self.print_line(&line) }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match event.kind() {
            Some(EventType::SubagentEnded) => {
                let ended = event.body().map(|SubagentEnded { model, usage, .. }| (model, usage));
                self.spent.subagents.extend(ended.ok());
            }
            Some(EventType::ToolCallDecided) => {
                if let Ok(ToolCallDecided { decision: CallDecision::Respond, call_id, .. }) = event.body() {
                    self.calls.answered(&call_id);
                }
            }
            Some(EventType::HandoffDeclined) => self.calls.decline_handoff(),
            Some(EventType::Compacted | EventType::CompactionFailed | EventType::ResultClipped) => {
                return self.condensed(event);
            }
            Some(_) | None => {}
        }
        match event.message() {
            Some(Message::Ai(answer)) => self.answered(answer),
            Some(Message::Tool(result)) => {
                let lines = self.calls.result(&self.screen, result);
                self.enter(Phase::Waiting);
                self.print(&lines)
            }
            Some(Message::Human(_)) | None => Ok(()),
        }
    }

    /// Shows what became of the context: the card that the history has too, or one line.
    fn condensed(&mut self, event: &Event) -> io::Result<()> {
        self.end_answer()?;
        self.spent.is_condensing = false;
        self.enter(Phase::Waiting);
        let lines = marker::happened(&self.screen, event);
        self.print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    fn answered(&mut self, answer: AiMessage) -> io::Result<()> {
        let answer = Message::Ai(answer);
        let note = match &answer {
            Message::Ai(answer) => stopped(answer.stop),
            Message::Human(_) | Message::Tool(_) => None,
        };
        let calls = answer.tool_calls().map(|(id, _, args)| (id.to_owned(), args.clone())).collect();
        self.calls.expect(calls);
        if let Message::Ai(answer) = answer {
            self.spent.model = answer.model.or_else(|| self.spent.model.take());
        }
        self.enter(Phase::Waiting);
        self.end_answer()?;
        match note {
            Some(note) => self.note(note),
            None => Ok(()),
        }
    }

    fn note(&mut self, text: &str) -> io::Result<()> {
        let text = wrap(&one_line(text), self.screen.text_columns(), "", "  ");
        self.print_line(&self.screen.style.warn(text))
    }

    fn tick(&mut self) -> io::Result<Then> {
        if !self.live.is_drawn() {
            return Ok(Then::GoOn);
        }
        // The person may have changed the width.
        self.screen.measure();
        self.answer.fit(&self.screen);
        let wish = self.typed.read()?;
        match wish {
            Some(Wish::Unfold) => self.calls.unfold(),
            Some(Wish::Stop) => {
                self.calls.stop();
                self.enter(Phase::Stopping);
            }
            None => {}
        }
        self.redraw("")?;
        Ok(if wish == Some(Wish::Stop) { Then::Stop } else { Then::GoOn })
    }

    fn enter(&mut self, phase: Phase) {
        if self.phase != phase && self.phase != Phase::Stopping {
            self.phase = phase;
            self.phase_started = Instant::now();
        }
    }

    fn end_answer(&mut self) -> io::Result<()> {
        let lines = self.answer.finish();
        self.print(&lines)
    }

    fn print_line(&mut self, line: &str) -> io::Result<()> {
        self.print(&format!("{line}\n"))
    }

    fn print(&mut self, lines: &str) -> io::Result<()> {
        if lines.is_empty() { Ok(()) } else { self.redraw(lines) }
    }

    fn redraw(&mut self, lines: &str) -> io::Result<()> {
        let rows = if self.live.is_drawn() { self.rows() } else { Vec::new() };
        self.live.show(lines, &rows)
    }

    fn rows(&self) -> Vec<String> {
        let (style, columns) = (self.screen.style, self.screen.columns.saturating_sub(1));
        let preview = self.answer.preview();
        let mut rows: Vec<String> = preview[preview.len().saturating_sub(PREVIEW_ROWS_MAX)..].to_vec();
        rows.extend(self.calls.rows(&self.screen));
        rows.push(style.dim(shorten(&self.status(), columns)));
        for line in &self.typed.lines {
            rows.push(style.dim(shorten(&format!("  next: {}", one_line(line)), columns)));
        }
        if !self.typed.rest.is_empty() {
            let safe = crate::text::safe::safe(&self.typed.rest);
            let typed = wrap(&safe.replace('\n', " ⏎ "), columns, "> ", "  ");
            let typed: Vec<&str> = typed.lines().collect();
            rows.extend(
                typed[typed.len().saturating_sub(TYPED_ROWS_MAX)..].iter().map(|row| (*row).to_owned()),
            );
        }
        rows
    }

    fn status(&self) -> String {
        let picture = (self.started.elapsed().as_millis() / PICTURE.as_millis()) as usize % SPINNER.len();
        let what = match &self.phase {
            Phase::Waiting => "waiting for the model",
            Phase::Thinking => "thinking",
            Phase::Answering => "answering",
            Phase::Calling => "working",
            Phase::Working(what) => what,
            Phase::Stopping => "stopping",
        };
        let time = match self.phase_started.elapsed() {
            short if short < Duration::from_secs(1) => String::new(),
            long => format!(" · {}", duration(Duration::from_secs(long.as_secs()))),
        };
        let hint = match self.phase {
            Phase::Stopping => " · Ctrl-C gives up waiting",
            Phase::Waiting | Phase::Thinking | Phase::Answering | Phase::Calling | Phase::Working(_) => {
                " · Esc or Ctrl-C stops"
            }
        };
        format!("{} {what}{time}{hint}", SPINNER[picture])
    }
}
