//! The live view of a turn: the answer line by line, one line for each tool call with its outcome, and below them the
//! current activity. Keys that are typed meanwhile are buffered. The caller asks the questions of the turn.

mod tool_calls;

use std::io;
use std::time::{Duration, Instant};

use agent::Frame;
use protocol::event::body::{SubagentEnded, ToolCallDecided, ToolCallDecision};
use protocol::{AiMessage, Event, EventType, Message, Usage};
use serde_json::Value;

use crate::render::markdown::MarkdownRenderer;
use crate::render::marker;
use crate::render::tool_calls::{format_duration, stop_notice, title};
use crate::run_view::live_rows::LiveRows;
use crate::run_view::turn_view::tool_calls::ToolCallsView;
use crate::run_view::type_ahead::{KeyCommand, TypeAheadBuffer};
use crate::run_view::watch::{WatchControl, WatchEvent};
use crate::screen::{Audience, Screen};
use crate::text::sanitize::sanitize_line;
use crate::text::wrap::{shorten, wrap};

/// The frames of the spinner.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The time for which each frame of the spinner is shown.
const SPINNER_FRAME: Duration = Duration::from_millis(80);
/// The most rows for the preview of the answer's unfinished block.
const PREVIEW_ROWS_MAX: usize = 6;
/// The most rows for the line that is typed ahead.
const TYPED_ROWS_MAX: usize = 3;

/// The live view of a turn. It consumes [`WatchEvent`]s and ends with [`TurnView::finish`].
#[derive(Debug)]
pub struct TurnView<'a> {
    /// The output. Its width is updated at every tick.
    screen: Screen,
    /// The rows below the printed lines.
    live: LiveRows,
    /// The answer that streams in.
    answer: MarkdownRenderer,
    /// The tool calls of the last answer.
    calls: ToolCallsView,
    /// The buffer for keys that are typed while the view is shown.
    type_ahead: &'a mut TypeAheadBuffer,
    /// The current activity.
    phase: TurnViewPhase,
    /// The time at which the view was created.
    started: Instant,
    /// The time at which the current activity began.
    phase_started: Instant,
    /// The totals that [`TurnView::finish`] returns.
    totals: TurnTotals,
    /// A note that is printed before the first visible output, if there is any output.
    first_note: Option<String>,
}

/// The totals of a turn: time, tokens and calls.
#[derive(Debug, Clone, Default)]
pub struct TurnTotals {
    /// The tokens of the turn's own model calls. The end of the run reports them.
    pub usage: Usage,
    /// The model that answered.
    pub model: Option<String>,
    /// The model and the tokens of each sub-agent that has ended.
    pub subagent_usage: Vec<(Option<String>, Usage)>,
    /// The ids and arguments of the last answer's tool calls that have no result yet, in order.
    pub pending_calls: Vec<(String, Value)>,
    /// The wall-clock time for which the view was shown.
    pub elapsed: Duration,
    /// The last event that the view has shown, if it has missed later frames. The later events can be read from the
    /// journal.
    pub lost_after: Option<protocol::Seq>,
    /// True if the conversation was being compacted when the run ended.
    pub is_compacting: bool,
}

impl TurnTotals {
    /// Adds the totals of a later run of the same turn. `pending_calls` and `lost_after` are not changed.
    pub fn add(&mut self, later: Self) {
        self.usage.add(later.usage);
        self.subagent_usage.extend(later.subagent_usage);
        self.model = later.model.or_else(|| self.model.take());
        self.elapsed += later.elapsed;
        self.is_compacting = later.is_compacting;
    }
}

/// The current activity, which the status row shows next to the spinner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TurnViewPhase {
    /// The model was called and has not begun to answer.
    Waiting,
    /// The model sends its reasoning.
    Thinking,
    /// The model sends text.
    Answering,
    /// Tool calls are running.
    Calling,
    /// Other work, such as a compaction, with its label.
    Working(String),
    /// The run was asked to stop.
    Stopping,
}

impl<'a> TurnView<'a> {
    /// Returns an empty view. Keys that are typed meanwhile go to `type_ahead`.
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

    /// Sets a note that is printed before the first frame other than a notice, that is, once the run is admitted.
    pub fn set_first_note(&mut self, text: String) {
        self.first_note = Some(text);
    }

    /// Sets the label of the activity that is shown until the first frame arrives.
    pub fn set_initial_phase(&mut self, label: &str) {
        self.phase = TurnViewPhase::Working(label.to_owned());
    }

    /// Sets the calls whose results are expected, in order. A rejected call gets its result without running, so its
    /// arguments cannot be learned from a frame and must be passed here.
    pub fn expect_calls(&mut self, calls: Vec<(String, Value)>) {
        self.calls.expect_calls(calls);
    }

    /// Shows an event of the run, and returns whether the run is to continue or stop.
    ///
    /// # Errors
    /// Fails if stdout cannot be written or keys cannot be read.
    pub fn handle_watch_event(&mut self, event: WatchEvent<'_>) -> io::Result<WatchControl> {
        match event {
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
                let text = "The display was too slow and lost output; it is shown when the turn has ended.";
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

    /// Prints the remaining lines, removes the live rows, and returns the totals.
    ///
    /// # Errors
    /// Fails if stdout cannot be written.
    pub fn finish(mut self) -> io::Result<TurnTotals> {
        self.flush_answer()?;
        let unfinished = self.calls.unfinished_lines(&self.screen);
        if self.totals.lost_after.is_none() {
            self.print(&unfinished)?;
        }
        self.live.clear()?;
        self.totals.elapsed = self.started.elapsed();
        self.totals.pending_calls = self.calls.take_pending_calls();
        Ok(std::mem::take(&mut self.totals))
    }

    /// Shows a frame of the run.
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
                // Without live rows, the start of a call is printed, so that a long call can be recognised.
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
            Frame::Subagent(subagent) => {
                self.calls.append_subagent_frame(subagent);
                Ok(())
            }
            Frame::Progress { what, .. } => {
                // Within a turn, only a compaction reports progress.
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

    /// Shows the activity of a progress frame: in the live rows, or once as a printed line if there are none.
    fn show_progress(&mut self, label: &str) -> io::Result<()> {
        let phase = TurnViewPhase::Working(sanitize_line(label));
        let is_shown =
            self.phase == phase || self.live.can_draw() || self.screen.audience == Audience::Program;
        let line = self.screen.style.dim(format!("  {} … Ctrl-C stops it", sanitize_line(label)));
        self.enter_phase(phase);
        if is_shown { Ok(()) } else { self.print_line(&line) }
    }

    /// Shows a durable event of the run.
    fn handle_event(&mut self, event: &Event) -> io::Result<()> {
        match event.kind() {
            Some(EventType::SubagentEnded) => {
                let ended = event.body().map(|SubagentEnded { model, usage, .. }| (model, usage));
                self.totals.subagent_usage.extend(ended.ok());
            }
            Some(EventType::ToolCallDecided) => {
                if let Ok(ToolCallDecided { decision: ToolCallDecision::Respond, call_id, .. }) = event.body()
                {
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

    /// Shows an event that changed the context: the card of a compaction, or one line.
    fn show_context_event(&mut self, event: &Event) -> io::Result<()> {
        self.flush_answer()?;
        self.totals.is_compacting = false;
        self.enter_phase(TurnViewPhase::Waiting);
        let lines = marker::render_context_event(&self.screen, event);
        self.print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())
    }

    /// Records a complete answer, whose text was already printed while it streamed in.
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

    /// Prints a warning above the live rows.
    fn print_note(&mut self, text: &str) -> io::Result<()> {
        let text = wrap(&sanitize_line(text), self.screen.text_columns(), "", "  ");
        self.print_line(&self.screen.style.warn(text))
    }

    /// Reads keys and redraws the live rows. Returns [`WatchControl::Stop`] if a key stops the run.
    fn handle_tick(&mut self) -> io::Result<WatchControl> {
        if !self.live.can_draw() {
            return Ok(WatchControl::Continue);
        }
        // The user may have resized the terminal.
        self.screen.update_width();
        self.answer.fit_width(&self.screen);
        let command = self.type_ahead.read_keys()?;
        match command {
            Some(KeyCommand::ToggleOutput) => self.calls.toggle_unfold(),
            Some(KeyCommand::Stop) => {
                self.calls.mark_cancelled();
                self.enter_phase(TurnViewPhase::Stopping);
            }
            None => {}
        }
        self.redraw("")?;
        Ok(if command == Some(KeyCommand::Stop) { WatchControl::Stop } else { WatchControl::Continue })
    }

    /// Sets the current activity. `Stopping` is final.
    fn enter_phase(&mut self, phase: TurnViewPhase) {
        if self.phase != phase && self.phase != TurnViewPhase::Stopping {
            self.phase = phase;
            self.phase_started = Instant::now();
        }
    }

    /// Prints the part of the answer that was held back because later text could change it.
    fn flush_answer(&mut self) -> io::Result<()> {
        let lines = self.answer.finish();
        self.print(&lines)
    }

    /// Prints a line above the live rows.
    fn print_line(&mut self, line: &str) -> io::Result<()> {
        self.print(&format!("{line}\n"))
    }

    /// Prints complete lines above the live rows. An empty text prints nothing.
    fn print(&mut self, lines: &str) -> io::Result<()> {
        if lines.is_empty() { Ok(()) } else { self.redraw(lines) }
    }

    /// Prints complete lines and draws the live rows below them.
    fn redraw(&mut self, lines: &str) -> io::Result<()> {
        let rows = if self.live.can_draw() { self.render_rows() } else { Vec::new() };
        self.live.update(lines, &rows)
    }

    /// Returns the live rows: the preview of the answer, running calls, the status, queued lines, and the line that is
    /// being typed.
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
            let last_rows = &typed[typed.len().saturating_sub(TYPED_ROWS_MAX)..];
            rows.extend(last_rows.iter().map(|row| (*row).to_owned()));
        }
        rows
    }

    /// Returns the row with the spinner, the activity, its duration and the keys that stop it.
    fn status_row(&self) -> String {
        let frame = (self.started.elapsed().as_millis() / SPINNER_FRAME.as_millis()) as usize % SPINNER.len();
        let activity = match &self.phase {
            TurnViewPhase::Waiting => "waiting for the model",
            TurnViewPhase::Thinking => "thinking",
            TurnViewPhase::Answering => "answering",
            TurnViewPhase::Calling => "working",
            TurnViewPhase::Working(label) => label,
            TurnViewPhase::Stopping => "stopping",
        };
        let time = match self.phase_started.elapsed() {
            short if short < Duration::from_secs(1) => String::new(),
            long => format!(" · {}", format_duration(Duration::from_secs(long.as_secs()))),
        };
        let hint = match self.phase {
            TurnViewPhase::Stopping => " · Ctrl-C stops waiting",
            TurnViewPhase::Waiting
            | TurnViewPhase::Thinking
            | TurnViewPhase::Answering
            | TurnViewPhase::Calling
            | TurnViewPhase::Working(_) => " · Esc or Ctrl-C stops",
        };
        format!("{} {activity}{time}{hint}", SPINNER[frame])
    }
}
