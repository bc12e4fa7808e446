//! The tool calls of a turn: what runs, the last of what it printed, and the line that stays once its result is stored.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use agent::{Frame, SubagentFrame};
use protocol::message::joined_text;
use protocol::{ToolMessage, ToolStatus};
use serde_json::Value;

use crate::screen::Screen;
use crate::render::tool_calls::{detail_lines, format_duration, outcome_text, title};
use crate::text::sanitize::{sanitize_line, sanitize};
use crate::text::wrap::{shorten, width};

/// Lines of its output that are shown of a running call.
const FOLDED_LINES: usize = 4;
/// Lines that are shown when a person asked for more.
const UNFOLDED_LINES: usize = 24;
/// Bytes of a line of output that are kept; it may never end.
const LINE_BYTES_MAX: usize = 4_096;

/// The tool with which the agent asks for a handoff.
const REQUEST_HANDOFF: &str = "request_handoff";

/// The calls under way.
#[derive(Debug, Default)]
pub(super) struct ToolCallsView {
    running: Vec<RunningCall>,
    /// Calls whose results are still to be shown, in order; one that is declined never runs.
    pending_calls: VecDeque<(String, Value)>,
    /// Results that came before those of earlier calls.
    early_results: Vec<ToolMessage>,
    /// Calls that a person answered in the tool's place.
    answered_by_user: HashSet<String>,
    /// True if the person declined the handoff that a call requested.
    is_handoff_declined: bool,
    /// Why calls may come to no result of their own.
    stop_reason: CallStopReason,
    is_unfolded: bool,
}

/// The reason why the run is about to pause.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CallStopReason {
    /// Nothing is known of it.
    #[default]
    None,
    /// A person stops it.
    Cancelled,
    /// It asks a person.
    Interrupted,
}

/// How a call's line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallMark {
    Done,
    Failed,
    Answered,
    Stopped,
    AwaitsDecision,
}

#[derive(Debug)]
struct RunningCall {
    call_id: String,
    name: String,
    args: Value,
    started: Instant,
    duration: Option<Duration>,
    /// The last lines of its output; the last one may go on.
    output: VecDeque<String>,
}

impl ToolCallsView {
    pub(super) fn start_call(&mut self, call_id: &str, name: &str, args: &Value) {
        self.running.push(RunningCall {
            call_id: call_id.to_owned(),
            name: name.to_owned(),
            args: args.clone(),
            started: Instant::now(),
            duration: None,
            output: VecDeque::from([String::new()]),
        });
    }

    /// Takes the calls whose results are to come, in order.
    pub(super) fn expect_calls(&mut self, calls: Vec<(String, Value)>) {
        self.pending_calls = calls.into();
    }

    /// Takes down that a person answered in the place of the tool.
    pub(super) fn mark_answered(&mut self, call_id: &str) {
        self.answered_by_user.insert(call_id.to_owned());
    }

    /// Notes that the person declined the handoff, whose call gets a result next.
    pub(super) fn mark_handoff_declined(&mut self) {
        self.is_handoff_declined = true;
    }

    /// Takes down that a person stops the run.
    pub(super) fn mark_cancelled(&mut self) {
        self.stop_reason = CallStopReason::Cancelled;
    }

    /// Takes down that the run asks a person, unless it is stopped.
    pub(super) fn mark_interrupted(&mut self) {
        if self.stop_reason == CallStopReason::None {
            self.stop_reason = CallStopReason::Interrupted;
        }
    }

    /// Returns the calls whose results have not come.
    pub(super) fn take_pending_calls(&mut self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.pending_calls).into()
    }

    pub(super) fn append_output(&mut self, call_id: &str, text: &str) {
        let Some(call) = self.running.iter_mut().find(|call| call.call_id == call_id) else { return };
        for part in text.split_inclusive('\n') {
            if let Some(line) = call.output.back_mut()
                && line.len() + part.len() <= LINE_BYTES_MAX
            {
                line.push_str(part.trim_end_matches('\n'));
            }
            if part.ends_with('\n') {
                call.output.push_back(String::new());
            }
        }
        while call.output.len() > UNFOLDED_LINES + 1 {
            call.output.pop_front();
        }
    }

    /// Shows what the sub-agent of a call does as the call's output.
    pub(super) fn append_subagent_frame(&mut self, within: &SubagentFrame) {
        if let Frame::ToolStarted { name, args, .. } = &*within.frame {
            self.append_output(&within.call_id, &format!("⏺ {}\n", title(name, args)));
        } else if let Frame::Notice { text } | Frame::AttemptFailed { text } = &*within.frame {
            self.append_output(&within.call_id, &format!("{text}\n"));
        }
    }

    pub(super) fn end_call(&mut self, call_id: &str) {
        if let Some(call) = self.running.iter_mut().find(|call| call.call_id == call_id) {
            call.duration = Some(call.started.elapsed());
        }
    }

    /// Shows more of what running calls print, or less again.
    pub(super) fn toggle_unfold(&mut self) {
        self.is_unfolded = !self.is_unfolded;
    }

    /// Takes a stored result and returns the lines that stay of it. Results stand in the order of their calls: one that
    /// comes before those of earlier calls waits for them.
    pub(super) fn render_result(&mut self, screen: &Screen, result: ToolMessage) -> String {
        if !self.pending_calls.iter().any(|(call_id, _)| *call_id == result.call_id) {
            return self.result_lines(screen, &result, &Value::Null);
        }
        self.early_results.push(result);
        let mut lines = String::new();
        while let Some((call_id, _)) = self.pending_calls.front()
            && let Some(at) = self.early_results.iter().position(|result| result.call_id == *call_id)
        {
            let result = self.early_results.remove(at);
            let args = self.pending_calls.pop_front().map_or(Value::Null, |(_, args)| args);
            lines.push_str(&self.result_lines(screen, &result, &args));
        }
        lines
    }

    /// Returns the lines of a result; `asked` are the arguments of a call that never ran.
    fn result_lines(&mut self, screen: &Screen, result: &ToolMessage, asked: &Value) -> String {
        let at = self.running.iter().position(|call| call.call_id == result.call_id);
        let call = at.map(|at| self.running.remove(at));
        let (name, args, took) = match &call {
            Some(call) => (call.name.as_str(), &call.args, call.duration),
            None => (result.name.as_deref().unwrap_or("tool"), asked, None),
        };
        let text = joined_text(&result.content);
        let is_answered = self.answered_by_user.remove(&result.call_id);
        let (mark, outcome) = match result.status {
            ToolStatus::Success if is_answered => (CallMark::Answered, "answered instead".to_owned()),
            ToolStatus::Error if self.stop_reason == CallStopReason::Cancelled => (CallMark::Stopped, "stopped".to_owned()),
            // The person's own answer is no failure.
            ToolStatus::Error if name == REQUEST_HANDOFF && self.is_handoff_declined => {
                self.is_handoff_declined = false;
                (CallMark::Answered, "declined".to_owned())
            }
            ToolStatus::Success => (CallMark::Done, outcome_text(result.status, &text, took)),
            ToolStatus::Error => (CallMark::Failed, outcome_text(result.status, &text, took)),
        };
        let mut lines = call_line(screen, mark, &title(name, args), &outcome);
        if mark == CallMark::Done {
            for below in detail_lines(screen, name, args) {
                lines.push_str(&format!("  {below}\n"));
            }
        }
        lines
    }

    /// Returns the lines of results that came early, and of calls that began and never got one.
    pub(super) fn unfinished_lines(&mut self, screen: &Screen) -> String {
        let mut lines = String::new();
        for result in std::mem::take(&mut self.early_results) {
            let at = self.pending_calls.iter().position(|(call_id, _)| *call_id == result.call_id);
            let args = at.and_then(|at| self.pending_calls.remove(at)).map_or(Value::Null, |(_, args)| args);
            lines.push_str(&self.result_lines(screen, &result, &args));
        }
        for call in std::mem::take(&mut self.running) {
            let (mark, what) = match self.stop_reason {
                CallStopReason::None => (CallMark::Failed, "no result"),
                CallStopReason::Cancelled => (CallMark::Stopped, "stopped"),
                CallStopReason::Interrupted => (CallMark::AwaitsDecision, "waits for a decision"),
            };
            lines.push_str(&call_line(screen, mark, &title(&call.name, &call.args), what));
        }
        lines
    }

    /// Returns the rows of what runs.
    pub(super) fn running_rows(&self, screen: &Screen) -> Vec<String> {
        let columns = screen.columns.saturating_sub(1);
        let lines_max = if self.is_unfolded { UNFOLDED_LINES } else { FOLDED_LINES };
        let mut rows = Vec::new();
        for call in &self.running {
            let (mark, time) = match call.duration {
                Some(took) => ("✓", took),
                None => ("⏺", call.started.elapsed()),
            };
            let time = if time.as_secs() > 0 { format!(" · {}", format_duration(time)) } else { String::new() };
            let title = title(&call.name, &call.args);
            rows.push(format!("{mark} {}{time}", shorten(&title, columns.saturating_sub(2 + time.len()))));
            let lines: Vec<&String> = call.output.iter().filter(|line| !line.trim().is_empty()).collect();
            for line in &lines[lines.len().saturating_sub(lines_max)..] {
                rows.push(screen.style.dim(format!("  {}", shorten(&sanitize(line), columns.saturating_sub(2)))));
            }
        }
        rows
    }
}

fn call_line(screen: &Screen, mark: CallMark, title: &str, outcome: &str) -> String {
    let style = screen.style;
    let mark = match mark {
        CallMark::Done => style.good("✓"),
        CallMark::Failed => style.bad("✗"),
        CallMark::Answered => style.warn("↩"),
        CallMark::Stopped => style.warn("■"),
        CallMark::AwaitsDecision => style.warn("?"),
    };
    // Where both do not fit, each gets half, and what one leaves goes to the other.
    let room = screen.columns.saturating_sub(6);
    let title_room = room.saturating_sub(width(outcome)).max(room / 2);
    let title = shorten(title, title_room);
    let outcome = shorten(outcome, room.saturating_sub(width(&title)));
    format!("{mark} {} {}\n", sanitize_line(&title), style.dim(format!("· {outcome}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    fn test_screen() -> Screen {
        Screen { style: Style::Plain, columns: 60, audience: Audience::Person, cursor: CursorMode::Free }
    }

    #[test]
    fn the_last_lines_of_a_running_call_are_shown_and_then_folded() {
        let mut calls = ToolCallsView::default();
        calls.start_call("c1", "execute", &json!({"command": "make"}));
        for number in 0..100 {
            calls.append_output("c1", &format!("line {number}\nhalf"));
            calls.append_output("c1", " of it\n");
        }
        calls.append_output("c1", "\u{1b}[2Jsta");
        calls.append_output("c1", "rt");
        assert_eq!(
            calls.running_rows(&test_screen()),
            ["⏺ execute make", "  half of it", "  line 99", "  half of it", "  start"]
        );
        calls.toggle_unfold();
        assert_eq!(calls.running_rows(&test_screen()).len(), 1 + UNFOLDED_LINES);
        calls.end_call("c1");
        let result = ToolMessage {
            id: None,
            call_id: "c1".to_owned(),
            name: None,
            content: vec![protocol::ContentBlock::text("a\nb\n")],
            status: ToolStatus::Success,
        };
        let line = calls.render_result(&test_screen(), result);
        assert!(line.starts_with("✓ execute make · 2 lines"), "{line}");
        assert_eq!(calls.running_rows(&test_screen()), Vec::<String>::new());
    }

    #[test]
    fn results_stand_in_the_order_of_their_calls_whichever_comes_first() {
        let args = |path: &str| json!({"path": path});
        let result = |call_id: &str| ToolMessage {
            id: None,
            call_id: call_id.to_owned(),
            name: Some("read_file".to_owned()),
            content: vec![protocol::ContentBlock::text("a\n")],
            status: ToolStatus::Success,
        };
        let mut calls = ToolCallsView::default();
        let expected = ["c1", "c2", "c3"].map(|id| (id.to_owned(), args(id))).to_vec();
        calls.expect_calls(expected);
        calls.start_call("c1", "read_file", &args("c1"));
        assert_eq!(calls.render_result(&test_screen(), result("c2")), "");
        assert_eq!(
            calls.render_result(&test_screen(), result("c1")),
            "✓ read_file c1 · 1 line\n✓ read_file c2 · 1 line\n"
        );
        assert_eq!(calls.render_result(&test_screen(), result("other")), "✓ read_file · 1 line\n");
        assert_eq!(calls.unfinished_lines(&test_screen()), "");
        assert_eq!(calls.take_pending_calls(), [("c3".to_owned(), args("c3"))]);
    }

    #[test]
    fn a_line_says_no_more_than_what_happened() {
        let result = |status| ToolMessage {
            id: None,
            call_id: "c1".to_owned(),
            name: None,
            content: vec![protocol::ContentBlock::text("words\n")],
            status,
        };
        let begun = || {
            let mut calls = ToolCallsView::default();
            calls.start_call("c1", "task", &json!({"description": "look"}));
            calls
        };
        let mut calls = begun();
        calls.mark_answered("c1");
        let line = calls.render_result(&test_screen(), result(ToolStatus::Success));
        assert_eq!(line, "↩ task look · answered instead\n");
        let mut calls = begun();
        calls.mark_cancelled();
        assert_eq!(calls.render_result(&test_screen(), result(ToolStatus::Error)), "■ task look · stopped\n");
        let mut calls = begun();
        calls.mark_interrupted();
        assert_eq!(calls.unfinished_lines(&test_screen()), "? task look · waits for a decision\n");
    }

    #[test]
    fn a_call_without_a_result_is_told_as_such() {
        let mut calls = ToolCallsView::default();
        calls.start_call("c1", "execute", &json!({"command": "x".repeat(100)}));
        let line = calls.unfinished_lines(&test_screen());
        assert!(line.starts_with("✗ execute xxx") && line.ends_with("… · no result\n"), "{line}");
        assert!(width(line.trim_end()) <= 60, "{line}");
    }
}
