//! The tool calls of a turn: the running calls with the end of their output, and one line for each call whose result is
//! stored.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use agent::{Frame, SubagentFrame};
use protocol::message::joined_text;
use protocol::{ToolMessage, ToolStatus};
use serde_json::Value;

use crate::render::tool_calls::{detail_lines, format_duration, outcome_text, title};
use crate::screen::Screen;
use crate::text::sanitize::{sanitize, sanitize_line};
use crate::text::wrap::{shorten, width};

/// The number of output lines shown of a running call.
const FOLDED_LINES: usize = 4;
/// The number of output lines shown of a running call after Ctrl-O.
const UNFOLDED_LINES: usize = 24;
/// The most bytes stored of one output line, because a program may print without ever ending its line.
const LINE_BYTES_MAX: usize = 4_096;

/// The tool with which the agent requests a handoff.
const REQUEST_HANDOFF: &str = "request_handoff";

/// The view of a turn's tool calls.
#[derive(Debug, Default)]
pub(super) struct ToolCallsView {
    /// The calls without a printed result, in the order in which they started.
    running: Vec<RunningCall>,
    /// The ids and arguments of the calls whose results are not shown yet, in order. They include rejected calls, which
    /// get a result but never run.
    pending_calls: VecDeque<(String, Value)>,
    /// Results that arrived before those of earlier calls.
    early_results: Vec<ToolMessage>,
    /// The ids of the calls for which the user gave the result.
    answered_by_user: HashSet<String>,
    /// True if the user declined the handoff that a call requested.
    is_handoff_declined: bool,
    /// The reason why running calls may end without a result.
    stop_reason: CallStopReason,
    /// True if [`UNFOLDED_LINES`] are shown of each running call.
    is_unfolded: bool,
}

/// The reason why the run stops before its calls have results.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CallStopReason {
    /// No reason is known.
    #[default]
    None,
    /// The user stops the run.
    Cancelled,
    /// The run stops to ask the user.
    Interrupted,
}

/// The mark at the beginning of a call's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallMark {
    /// The call succeeded.
    Done,
    /// The call failed, or ended without a result.
    Failed,
    /// The user gave the result, or declined the handoff.
    Answered,
    /// The call ended because the user stopped the run.
    Stopped,
    /// The run stopped to ask the user about this call.
    AwaitsDecision,
}

/// A call that is running, or has ended and has no stored result yet.
#[derive(Debug)]
struct RunningCall {
    /// The id that the model gave the call.
    call_id: String,
    /// The name of the tool.
    name: String,
    /// The arguments.
    args: Value,
    /// The time at which the call started.
    started: Instant,
    /// The duration of the call, once it has ended.
    duration: Option<Duration>,
    /// The last lines of the output, at most [`UNFOLDED_LINES`] and an incomplete one.
    output: VecDeque<String>,
}

impl ToolCallsView {
    /// Records the start of a call.
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

    /// Sets the calls whose results are expected, in order.
    pub(super) fn expect_calls(&mut self, calls: Vec<(String, Value)>) {
        self.pending_calls = calls.into();
    }

    /// Records that the user gave the result of a call.
    pub(super) fn mark_answered(&mut self, call_id: &str) {
        self.answered_by_user.insert(call_id.to_owned());
    }

    /// Records that the user declined a handoff. The next result of `request_handoff` belongs to the declined handoff.
    pub(super) fn mark_handoff_declined(&mut self) {
        self.is_handoff_declined = true;
    }

    /// Records that the user stops the run.
    pub(super) fn mark_cancelled(&mut self) {
        self.stop_reason = CallStopReason::Cancelled;
    }

    /// Records that the run stops to ask the user. A stop by the user takes precedence.
    pub(super) fn mark_interrupted(&mut self) {
        if self.stop_reason == CallStopReason::None {
            self.stop_reason = CallStopReason::Interrupted;
        }
    }

    /// Removes and returns the calls without a result.
    pub(super) fn take_pending_calls(&mut self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.pending_calls).into()
    }

    /// Appends to the output of a running call. Only the last lines, and the first [`LINE_BYTES_MAX`] bytes of each
    /// line, are stored.
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

    /// Appends the tool calls and notices of a sub-agent to the output of the call that started it.
    pub(super) fn append_subagent_frame(&mut self, subagent: &SubagentFrame) {
        if let Frame::ToolStarted { name, args, .. } = &*subagent.frame {
            self.append_output(&subagent.call_id, &format!("⏺ {}\n", title(name, args)));
        } else if let Frame::Notice { text } | Frame::AttemptFailed { text } = &*subagent.frame {
            self.append_output(&subagent.call_id, &format!("{text}\n"));
        }
    }

    /// Records the end of a call.
    pub(super) fn end_call(&mut self, call_id: &str) {
        if let Some(call) = self.running.iter_mut().find(|call| call.call_id == call_id) {
            call.duration = Some(call.started.elapsed());
        }
    }

    /// Toggles between few and many output lines of running calls.
    pub(super) fn toggle_unfold(&mut self) {
        self.is_unfolded = !self.is_unfolded;
    }

    /// Returns the lines of a stored result, and of results that had to wait for it.
    ///
    /// Results are printed in the order of their calls. A result that arrives before those of earlier calls is held
    /// back until these are printed; the returned text is then empty.
    pub(super) fn render_result(&mut self, screen: &Screen, result: ToolMessage) -> String {
        if !self.pending_calls.iter().any(|(call_id, _)| *call_id == result.call_id) {
            return self.result_lines(screen, &result, &Value::Null);
        }
        self.early_results.push(result);
        let mut lines = String::new();
        while let Some((call_id, _)) = self.pending_calls.front()
            && let Some(index) = self.early_results.iter().position(|result| result.call_id == *call_id)
        {
            let result = self.early_results.remove(index);
            let args = self.pending_calls.pop_front().map_or(Value::Null, |(_, args)| args);
            lines.push_str(&self.result_lines(screen, &result, &args));
        }
        lines
    }

    /// Returns the lines of a result. `requested_args` are the arguments that are shown for a call that never ran.
    fn result_lines(&mut self, screen: &Screen, result: &ToolMessage, requested_args: &Value) -> String {
        let index = self.running.iter().position(|call| call.call_id == result.call_id);
        let call = index.map(|index| self.running.remove(index));
        let (name, args, duration) = match &call {
            Some(call) => (call.name.as_str(), &call.args, call.duration),
            None => (result.name.as_deref().unwrap_or("tool"), requested_args, None),
        };
        let text = joined_text(&result.content);
        let is_answered = self.answered_by_user.remove(&result.call_id);
        let (mark, outcome) = match result.status {
            ToolStatus::Success if is_answered => (CallMark::Answered, "answered by you".to_owned()),
            ToolStatus::Error if self.stop_reason == CallStopReason::Cancelled => {
                (CallMark::Stopped, "stopped".to_owned())
            }
            // A handoff that the user declined is not a failure.
            ToolStatus::Error if name == REQUEST_HANDOFF && self.is_handoff_declined => {
                self.is_handoff_declined = false;
                (CallMark::Answered, "declined".to_owned())
            }
            ToolStatus::Success => (CallMark::Done, outcome_text(result.status, &text, duration)),
            ToolStatus::Error => (CallMark::Failed, outcome_text(result.status, &text, duration)),
        };
        let mut lines = call_line(screen, mark, &title(name, args), &outcome);
        if mark == CallMark::Done {
            for line in detail_lines(screen, name, args) {
                lines.push_str(&format!("  {line}\n"));
            }
        }
        lines
    }

    /// Returns the lines of results that were held back, and of calls that have started but have no result.
    pub(super) fn unfinished_lines(&mut self, screen: &Screen) -> String {
        let mut lines = String::new();
        for result in std::mem::take(&mut self.early_results) {
            let index = self.pending_calls.iter().position(|(call_id, _)| *call_id == result.call_id);
            let call = index.and_then(|index| self.pending_calls.remove(index));
            let args = call.map_or(Value::Null, |(_, args)| args);
            lines.push_str(&self.result_lines(screen, &result, &args));
        }
        for call in std::mem::take(&mut self.running) {
            let (mark, outcome) = match self.stop_reason {
                CallStopReason::None => (CallMark::Failed, "no result"),
                CallStopReason::Cancelled => (CallMark::Stopped, "stopped"),
                CallStopReason::Interrupted => (CallMark::AwaitsDecision, "needs a decision"),
            };
            lines.push_str(&call_line(screen, mark, &title(&call.name, &call.args), outcome));
        }
        lines
    }

    /// Returns the live rows of the running calls: a title row each, followed by the last lines of the output.
    pub(super) fn running_rows(&self, screen: &Screen) -> Vec<String> {
        let columns = screen.columns.saturating_sub(1);
        let lines_max = if self.is_unfolded { UNFOLDED_LINES } else { FOLDED_LINES };
        let mut rows = Vec::new();
        for call in &self.running {
            let (mark, time) = match call.duration {
                Some(duration) => ("✓", duration),
                None => ("⏺", call.started.elapsed()),
            };
            let time =
                if time.as_secs() > 0 { format!(" · {}", format_duration(time)) } else { String::new() };
            let title = title(&call.name, &call.args);
            rows.push(format!("{mark} {}{time}", shorten(&title, columns.saturating_sub(2 + time.len()))));
            let lines: Vec<&String> = call.output.iter().filter(|line| !line.trim().is_empty()).collect();
            for line in &lines[lines.len().saturating_sub(lines_max)..] {
                rows.push(
                    screen.style.dim(format!("  {}", shorten(&sanitize(line), columns.saturating_sub(2)))),
                );
            }
        }
        rows
    }
}

/// Returns the line of a call: its mark, title and outcome.
fn call_line(screen: &Screen, mark: CallMark, title: &str, outcome: &str) -> String {
    let style = screen.style;
    let mark = match mark {
        CallMark::Done => style.good("✓"),
        CallMark::Failed => style.bad("✗"),
        CallMark::Answered => style.warn("↩"),
        CallMark::Stopped => style.warn("■"),
        CallMark::AwaitsDecision => style.warn("?"),
    };
    // If the title and the outcome do not fit together, each gets half of the line, plus the columns that the other does not need.
    let available = screen.columns.saturating_sub(6);
    let title_columns = available.saturating_sub(width(outcome)).max(available / 2);
    let title = shorten(title, title_columns);
    let outcome = shorten(outcome, available.saturating_sub(width(&title)));
    format!("{mark} {} {}\n", sanitize_line(&title), style.dim(format!("· {outcome}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::screen::{Audience, CursorMode};
    use crate::text::style::Style;

    /// Returns a terminal of 60 columns without colour.
    fn test_screen() -> Screen {
        Screen { style: Style::Plain, columns: 60, audience: Audience::Person, cursor: CursorMode::Free }
    }

    #[test]
    fn the_last_output_lines_of_a_running_call_are_shown() {
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
    fn results_are_printed_in_the_order_of_their_calls() {
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
    fn a_call_that_was_answered_stopped_or_interrupted_is_shown_as_such() {
        let result = |status| ToolMessage {
            id: None,
            call_id: "c1".to_owned(),
            name: None,
            content: vec![protocol::ContentBlock::text("words\n")],
            status,
        };
        let start_call = || {
            let mut calls = ToolCallsView::default();
            calls.start_call("c1", "task", &json!({"description": "look"}));
            calls
        };
        let mut calls = start_call();
        calls.mark_answered("c1");
        let line = calls.render_result(&test_screen(), result(ToolStatus::Success));
        assert_eq!(line, "↩ task look · answered by you\n");
        let mut calls = start_call();
        calls.mark_cancelled();
        assert_eq!(calls.render_result(&test_screen(), result(ToolStatus::Error)), "■ task look · stopped\n");
        let mut calls = start_call();
        calls.mark_interrupted();
        assert_eq!(calls.unfinished_lines(&test_screen()), "? task look · needs a decision\n");
    }

    #[test]
    fn a_call_without_a_result_is_shown_as_such() {
        let mut calls = ToolCallsView::default();
        calls.start_call("c1", "execute", &json!({"command": "x".repeat(100)}));
        let line = calls.unfinished_lines(&test_screen());
        assert!(line.starts_with("✗ execute xxx") && line.ends_with("… · no result\n"), "{line}");
        assert!(width(line.trim_end()) <= 60, "{line}");
    }
}
