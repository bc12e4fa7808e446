//! A turn as it happens: the answer line by line, one line for each tool call with what came of it, and below them what
//! is under way. Keys that are typed meanwhile are kept. What the turn asks is left to the caller.

mod tool_calls;

use std::io;
use std::time::{Duration, Instant};

use agent::Frame;
use protocol::event::body::{ToolCallDecision, SubagentEnded, ToolCallDecided};
use protocol::{AiMessage, Event, EventType, Message, Usage};
use serde_json::Value;

use crate::screen::{Audience, Screen};
use crate::render::tool_calls::{format_duration, stop_notice, title};
use crate::render::markdown::MarkdownRenderer;
use crate::render::marker;
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, wrap};
use crate::run_view::live_rows::LiveRows;
use crate::run_view::turn_view::tool_calls::ToolCallsView;
use crate::run_view::type_ahead::{TypeAheadBuffer, KeyCommand};
use crate::run_view::watch::{WatchEvent, WatchControl};

/// The pictures of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// How long each is shown.
const SPINNER_FRAME: Duration = Duration::from_millis(80);
/// Rows of the line of the answer that is not whole.
const PREVIEW_ROWS_MAX: usize = 6;
/// Rows of what was typed ahead.
const TYPED_ROWS_MAX: usize = 3;

/// A turn being shown.
#[derive(Debug)]
pub struct TurnView<'a> {
    screen: Screen,
    live: LiveRows,
    answer: MarkdownRenderer,
    calls: ToolCallsView,
    type_ahead: &'a mut TypeAheadBuffer,
    phase: TurnViewPhase,
    started: Instant,
    phase_started: Instant,
    totals: TurnTotals,
    /// A note that is printed before the first visible output, if there is any output.
    first_note: Option<String>,
}

/// The cost of a turn: time, tokens and calls.
#[derive(Debug, Clone, Default)]
pub struct TurnTotals {
    /// The tokens of its own calls of the model, which its end tells.
    pub usage: Usage,
    /// The model that answered.
    pub model: Option<String>,
    /// The tokens of each sub-agent that ended, and its model.
    pub subagent_usage: Vec<(Option<String>, Usage)>,
    /// The calls of the last answer that have no result yet: their ids and arguments, in order.
    pub pending_calls: Vec<(String, Value)>,
    /// The time.
    pub elapsed: Duration,
    /// The last event that was shown, when the display fell behind; what came after is in the journal.
    pub lost_after: Option<protocol::Seq>,
    /// True if the conversation was being compacted when the run ended.
    pub is_compacting: bool,
}

impl TurnTotals {
    /// Adds what came after.
    pub fn add(&mut self, more: Self) {
        self.usage.add(more.usage);
        self.subagent_usage.extend(more.subagent_usage);
        self.model = more.model.or_else(|| self.model.take());
        self.elapsed += more.elapsed;
        self.is_compacting = more.is_compacting;
    }
}

/// The current activity, for the spinner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TurnViewPhase {
    Waiting,
    Thinking,
    Answering,
    Calling,
    Working(String),
    Stopping,
}

impl<'a> TurnView<'a> {
    /// Returns a turn of which nothing is shown yet; `typed` takes what is typed meanwhile.
    pub fn new(screen: &Screen, type_ahead: &'a mut TypeAheadBuffer) -> Self {
        let now = Instant::now();
        Self {
            screen: *screen,
            live: LiveRows::new(screen),
            answer: MarkdownRenderer::new(screen),
            calls: ToolCallsView::default(),
            type_ahead,
            phase: TurnViewPhase::Waiting,
            started: now,
            phase_started: now,
            totals: TurnTotals::default(),
            first_note: None,
        }
    }

    /// Says `text` as soon as there is anything but a notice to see of the work, which is once its run is admitted.
    pub fn set_first_note(&mut self, text: String) {
        self.first_note = Some(text);
    }

    /// Says what is under way before the work tells anything itself.
    pub fn set_initial_phase(&mut self, what: &str) {
        self.phase = TurnViewPhase::Working(what.to_owned());
    }

    /// Tells the calls whose results are still to come, in order: one that is declined gets its result without ever
    /// running.
    pub fn expect_calls(&mut self, calls: Vec<(String, Value)>) {
        self.calls.expect_calls(calls);
    }

    /// Shows what is seen of the work.
    ///
    /// # Errors
    /// When stdout cannot be written to, or keys cannot be read.
    pub fn handle_watch_event(&mut self, seen: WatchEvent<'_>) -> io::Result<WatchControl> {
        match seen {
            WatchEvent::Frame(_, frame) => {
                if !matches!(frame, Frame::Notice { .. })
                    && let Some(text) = self.first_note.take()
                {
                    self.print_note(&text)?;
                }
                self.handle_frame(frame)?;
            }
            WatchEvent::Gap(after) => {
                self.flush_answer()?;
                self.totals.lost_after = Some(after.seq);
                let text = "The display fell behind; what follows is shown once the turn is over.";
                self.print_line(&self.screen.style.warn(text))?;
            }
            WatchEvent::Stopping => {
                self.calls.mark_cancelled();
                self.enter_phase(TurnViewPhase::Stopping);
                self.redraw("")?;
            }
            WatchEvent::Tick => return self.handle_tick(),
        }
        Ok(WatchControl::Continue)
    }

    /// Ends the display and returns what the turn took.
    pub fn finish(mut self) -> io::Result<TurnTotals> {
        self.flush_answer()?;
        let left = self.calls.unfinished_lines(&self.screen);
        if self.totals.lost_after.is_none() {
            self.print(&left)?;
        }
        self.live.clear()?;
        self.totals.elapsed = self.started.elapsed();
        self.totals.pending_calls = self.calls.take_pending_calls();
        Ok(std::mem::take(&mut self.totals))
    }

    fn handle_frame(&mut self, frame: &Frame) -> io::Result<()> {
        match frame {
            Frame::Text { text, .. } => {
                self.enter_phase(TurnViewPhase::Answering);
                let lines = self.answer.push(text);
                self.print(&lines)
            }
            Frame::Thinking { .. } if self.phase == TurnViewPhase::Waiting => {
                self.enter_phase(TurnViewPhase::Thinking);
                match self.live.can_draw() {
                    true => Ok(()),
                    false => self.print_line(&self.screen.style.dim("  thinking …")),
                }
            }
            Frame::ToolStarted { call_id, name, args } => {
                self.flush_answer()?;
                self.enter_phase(TurnViewPhase::Calling);
                self.calls.start_call(call_id, name, args);
                // Whoever sees no rows should see what a long call is about.
                if !self.live.can_draw() && self.screen.audience == Audience::Person {
                    return self.print_line(&self.screen.style.dim(format!("⏺ {}", title(name, args))));
                }
                Ok(())
            }
            Frame::ToolOutput { call_id, text } => {
                self.calls.append_output(call_id, text);
                Ok(())
            }
            Frame::ToolEnded { call_id, .. } => {
                self.calls.end_call(call_id);
                Ok(())
            }
            Frame::Event(event) => self.handle_event(event),
            Frame::Notice { text } | Frame::AttemptFailed { text } => {
                self.flush_answer()?;
                self.print_note(text)
            }
            Frame::Subagent(within) => {
                self.calls.append_subagent_frame(within);
                Ok(())
            }
            Frame::Progress { what, .. } => {
                // Within a turn nothing else tells how far it is.
                self.totals.is_compacting = true;
                self.show_progress(what)
            }
            Frame::Interrupted(_) => {
                self.calls.mark_interrupted();
                Ok(())
            }
            Frame::RunEnded { .. } => self.flush_answer(),
            Frame::RunStarted { .. }
            | Frame::StepStarted { .. }
            | Frame::Thinking { .. }
            | Frame::ToolCall { .. }
            | Frame::Custom { .. }
            | Frame::Updates { .. }
            | Frame::Values { .. } => Ok(()),
        }
    }

    fn show_progress(&mut self, what: &str) -> io::Result<()> {
        let phase = TurnViewPhase::Working(sanitize_line(what));
        let is_told =
            self.phase == phase || self.live.can_draw() || self.screen.audience == Audience::Program;
        let line = self.screen.style.dim(format!("  {} … Ctrl-C stops it", sanitize_line(what)));
        self.enter_phase(phase);
        if is_told { Ok(()) } else { self.print_line(&line) }
    }

    fn handle_event(&mut self, event: &Event) -> io::Result<()> {
        match event.kind() {
            Some(EventType::SubagentEnded) => {
                let ended = event.body().map(|SubagentEnded { model, usage, .. }| (model, usage));
                self.totals.subagent_usage.extend(ended.ok());
            }
            Some(EventType::ToolCallDecided) => {
                if let Ok(ToolCallDecided { decision: ToolCallDecision::Respond, call_id, .. }) = event.body() {
                    self.calls.mark_answered(&call_id);
                }
            }
            Some(EventType::HandoffDeclined) => self.calls.mark_handoff_declined(),
            Some(EventType::Compacted | EventType::CompactionFailed | EventType::ResultClipped) => {
                return self.show_context_event(event);
            }
            Some(_) | None => {}
        }
        match event.message() {
            Some(Message::Ai(answer)) => self.show_answer(answer),
            Some(Message::Tool(result)) => {
                let lines = self.calls.render_result(&self.screen, result);
                self.enter_phase(TurnViewPhase::Waiting);
                self.print(&lines)
            }
            Some(Message::Human(_)) | None => Ok(()),
        }
    }

    /// Shows what became of the context: the card that the history has too, or one line.
    fn show_context_event(&mut self, event: &Event) -> io::Result<()> {
        self.flush_answer()?;
        self.totals.is_compacting = false;
        self.enter_phase(TurnViewPhase::Waiting);
        let lines = marker::render_context_event(&self.screen, event);
        self.print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    fn show_answer(&mut self, answer: AiMessage) -> io::Result<()> {
        let answer = Message::Ai(answer);
        let note = match &answer {
            Message::Ai(answer) => stop_notice(answer.stop),
            Message::Human(_) | Message::Tool(_) => None,
        };
        let calls = answer.tool_calls().map(|(id, _, args)| (id.to_owned(), args.clone())).collect();
        self.calls.expect_calls(calls);
        if let Message::Ai(answer) = answer {
            self.totals.model = answer.model.or_else(|| self.totals.model.take());
        }
        self.enter_phase(TurnViewPhase::Waiting);
        self.flush_answer()?;
        match note {
            Some(note) => self.print_note(note),
            None => Ok(()),
        }
    }

    fn print_note(&mut self, text: &str) -> io::Result<()> {
        let text = wrap(&sanitize_line(text), self.screen.text_columns(), "", "  ");
        self.print_line(&self.screen.style.warn(text))
    }

    fn handle_tick(&mut self) -> io::Result<WatchControl> {
        if !self.live.can_draw() {
            return Ok(WatchControl::Continue);
        }
        // The person may have changed the width.
        self.screen.update_width();
        self.answer.fit_width(&self.screen);
        let wish = self.type_ahead.read_keys()?;
        match wish {
            Some(KeyCommand::ToggleOutput) => self.calls.toggle_unfold(),
            Some(KeyCommand::Stop) => {
                self.calls.mark_cancelled();
                self.enter_phase(TurnViewPhase::Stopping);
            }
            None => {}
        }
        self.redraw("")?;
        Ok(if wish == Some(KeyCommand::Stop) { WatchControl::Stop } else { WatchControl::Continue })
    }

    fn enter_phase(&mut self, phase: TurnViewPhase) {
        if self.phase != phase && self.phase != TurnViewPhase::Stopping {
            self.phase = phase;
            self.phase_started = Instant::now();
        }
    }

    fn flush_answer(&mut self) -> io::Result<()> {
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
        let rows = if self.live.can_draw() { self.render_rows() } else { Vec::new() };
        self.live.update(lines, &rows)
    }

    fn render_rows(&self) -> Vec<String> {
        let (style, columns) = (self.screen.style, self.screen.columns.saturating_sub(1));
        let preview = self.answer.preview();
        let mut rows: Vec<String> = preview[preview.len().saturating_sub(PREVIEW_ROWS_MAX)..].to_vec();
        rows.extend(self.calls.running_rows(&self.screen));
        rows.push(style.dim(shorten(&self.status_row(), columns)));
        for line in &self.type_ahead.queued_lines {
            rows.push(style.dim(shorten(&format!("  next: {}", sanitize_line(line)), columns)));
        }
        if !self.type_ahead.partial_line.is_empty() {
            let safe = crate::text::sanitize::sanitize(&self.type_ahead.partial_line);
            let typed = wrap(&safe.replace('\n', " ⏎ "), columns, "> ", "  ");
            let typed: Vec<&str> = typed.lines().collect();
            rows.extend(
                typed[typed.len().saturating_sub(TYPED_ROWS_MAX)..].iter().map(|row| (*row).to_owned()),
            );
        }
        rows
    }

    fn status_row(&self) -> String {
        let picture = (self.started.elapsed().as_millis() / SPINNER_FRAME.as_millis()) as usize % SPINNER.len();
        let what = match &self.phase {
            TurnViewPhase::Waiting => "waiting for the model",
            TurnViewPhase::Thinking => "thinking",
            TurnViewPhase::Answering => "answering",
            TurnViewPhase::Calling => "working",
            TurnViewPhase::Working(what) => what,
            TurnViewPhase::Stopping => "stopping",
        };
        let time = match self.phase_started.elapsed() {
            short if short < Duration::from_secs(1) => String::new(),
            long => format!(" · {}", format_duration(Duration::from_secs(long.as_secs()))),
        };
        let hint = match self.phase {
            TurnViewPhase::Stopping => " · Ctrl-C gives up waiting",
            TurnViewPhase::Waiting | TurnViewPhase::Thinking | TurnViewPhase::Answering | TurnViewPhase::Calling | TurnViewPhase::Working(_) => {
                " · Esc or Ctrl-C stops"
            }
        };
        format!("{} {what}{time}{hint}", SPINNER[picture])
    }
}
