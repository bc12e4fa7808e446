//! Draws the spans of a trace as a tree of lines, with columns for times, tokens and costs.

use std::collections::{HashMap, HashSet};

use agent::{SpanId, SpanOutcome, TraceSpan, TraceSpanKind, TraceSubject};
use jiff::Timestamp;
use protocol::Usage;
use terminal::tool_calls::format_duration;
use terminal::{format_dollars, format_tokens, pad, sanitize_line, shorten, width};

use crate::commands::CommandContext;

/// The width of a span's name and the tree lines before it, in columns.
const NAME_COLUMNS: usize = 46;
/// The width of a span's duration, in columns.
const TIME_COLUMNS: usize = 9;
/// The width of a span's tokens, in columns.
const TOKEN_COLUMNS: usize = 20;

/// Returns the heading of a trace: the id and the state of its subject.
pub(super) fn trace_heading(subject: &TraceSubject) -> String {
    match subject {
        TraceSubject::Run(run) => {
            let model =
                run.model.as_deref().map(|model| format!(" · {}", sanitize_line(model))).unwrap_or_default();
            let error = run
                .failure
                .as_ref()
                .map(|failure| format!(": {}", sanitize_line(&failure.message)))
                .unwrap_or_default();
            let status = run.status.as_str();
            format!("run {} of thread {}{model} · {status}{error}", run.run_id, run.thread_id)
        }
        TraceSubject::Thread(thread) => {
            let name =
                thread.name.as_deref().map(|name| format!(" · {}", sanitize_line(name))).unwrap_or_default();
            format!("thread {}{name}", thread.thread_id)
        }
        TraceSubject::Handoff(handoff) => format!(
            "handoff {} of thread {} · {}",
            handoff.handoff_id,
            handoff.parent_thread_id,
            handoff.status.as_str()
        ),
    }
}

/// Returns the spans as a tree, each below its parent, siblings in the order of their start. A span whose parent is not in
/// `spans` is a root.
pub(super) fn span_tree_lines(context: &CommandContext, spans: &[TraceSpan], now: Timestamp) -> Vec<String> {
    let known: HashSet<SpanId> = spans.iter().map(|span| span.span_id).collect();
    let mut children: HashMap<Option<SpanId>, Vec<&TraceSpan>> = HashMap::new();
    for span in spans {
        let parent = span.parent_id.filter(|parent| known.contains(parent));
        children.entry(parent).or_default().push(span);
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|span| (span.start, span.seq));
    }
    let mut tree = SpanTree { context, children, now, lines: Vec::new() };
    for root in tree.take_children(None) {
        tree.lines.push(draw_span(context, root, "", "", now));
        tree.draw_children(root.span_id, "");
    }
    tree.lines
}

/// The state of drawing a tree of spans line by line.
struct SpanTree<'s> {
    /// The agent, which knows prices, and the output.
    context: &'s CommandContext,
    /// The spans that are not drawn yet, by their parent; `None` has the roots.
    children: HashMap<Option<SpanId>, Vec<&'s TraceSpan>>,
    /// The end of open spans.
    now: Timestamp,
    /// The lines that are drawn already.
    lines: Vec<String>,
}

impl<'s> SpanTree<'s> {
    /// Removes and returns the children of a span; `None` are the roots.
    fn take_children(&mut self, parent: Option<SpanId>) -> Vec<&'s TraceSpan> {
        self.children.remove(&parent).unwrap_or_default()
    }

    /// Draws the descendants of a span, each line with the prefix `lead`.
    fn draw_children(&mut self, parent: SpanId, lead: &str) {
        let siblings = self.take_children(Some(parent));
        for (index, span) in siblings.iter().enumerate() {
            let is_last = index + 1 == siblings.len();
            let (branch, continuation) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.lines.push(draw_span(self.context, span, lead, branch, self.now));
            self.draw_children(span.span_id, &format!("{lead}{continuation}"));
        }
    }
}

/// Returns one span on a line, indented by its depth in the tree of `all` spans.
pub(super) fn span_line(context: &CommandContext, span: &TraceSpan, all: &[TraceSpan]) -> String {
    let mut depth = 0;
    let mut parent = span.parent_id;
    while let Some(ancestor) = parent.and_then(|id| all.iter().find(|span| span.span_id == id)) {
        depth += 1;
        parent = ancestor.parent_id;
    }
    draw_span(context, span, &"  ".repeat(depth), "", Timestamp::now())
}

/// Returns the line of a span: its name, duration, tokens, cost and outcome.
fn draw_span(context: &CommandContext, span: &TraceSpan, lead: &str, branch: &str, now: Timestamp) -> String {
    let style = &context.screen.style;
    let name = span_name(span);
    let name = shorten(&name, NAME_COLUMNS.saturating_sub(width(lead) + width(branch)));
    let name_columns = width(lead) + width(branch) + width(&name);
    let time = if span.end == Some(span.start) { String::new() } else { format_duration(span.duration(now)) };
    let tokens = span.usage.as_ref().map(usage_text).unwrap_or_default();
    let cost = context.agent.runs().span_cost(span).map(format_dollars).unwrap_or_default();
    let columns = format!("{} {} {cost}", pad(&time, TIME_COLUMNS), pad(&tokens, TOKEN_COLUMNS));
    let gap = " ".repeat((NAME_COLUMNS + 1).saturating_sub(name_columns));
    let line =
        format!("{}{name}{gap}{}", style.dim(format!("{lead}{branch}")), style.dim(columns.trim_end()));
    match outcome_text(span) {
        (text, true) => format!("{} {}", line.trim_end(), style.bad(text)),
        (text, false) if text.is_empty() => line.trim_end().to_owned(),
        (text, false) => format!("{} {}", line.trim_end(), style.dim(text)),
    }
}

/// Returns the display name of a span, with its detail.
fn span_name(span: &TraceSpan) -> String {
    let name = match span.kind {
        TraceSpanKind::Run => "run",
        TraceSpanKind::Interrupt => "question",
        TraceSpanKind::Resume => "resume",
        TraceSpanKind::Accept => "accept",
        TraceSpanKind::Seed => "write agent.md",
        TraceSpanKind::Cleanup => "clear agent.md",
        TraceSpanKind::Mirror => "export",
        TraceSpanKind::Compaction => "compact",
        TraceSpanKind::Transfer => "summarize",
        TraceSpanKind::Decision => span.name.trim_start_matches("handoff_"),
        TraceSpanKind::Tool => span.name.trim_start_matches("execute_tool "),
        TraceSpanKind::Step | TraceSpanKind::Model | TraceSpanKind::Draft => &span.name,
    };
    let detail = if span.detail.is_empty() { String::new() } else { format!(" · {}", span.detail) };
    sanitize_line(&format!("{name}{detail}"))
}

/// Returns the outcome of a span, and whether it is a failure. The text is empty if the span succeeded.
fn outcome_text(span: &TraceSpan) -> (String, bool) {
    match &span.outcome {
        SpanOutcome::Done => (String::new(), false),
        SpanOutcome::Working => ("active".to_owned(), false),
        // A question has a separate span. The run that follows it shows whether it was answered.
        SpanOutcome::Waiting if span.kind == TraceSpanKind::Interrupt => (pending_actions(span), false),
        SpanOutcome::Waiting => (String::new(), false),
        SpanOutcome::Stopped => ("interrupted".to_owned(), false),
        SpanOutcome::Failed(reason) => (format!("failed: {}", sanitize_line(reason)), true),
    }
}

/// Returns the names of the actions that a question is about.
fn pending_actions(span: &TraceSpan) -> String {
    let actions = span.metadata.get("actions").and_then(serde_json::Value::as_array);
    let names = actions.into_iter().flatten().filter_map(serde_json::Value::as_str);
    sanitize_line(&names.collect::<Vec<_>>().join(", "))
}

/// Returns the tokens as text; empty if no tokens were used.
fn usage_text(usage: &Usage) -> String {
    match usage.total_tokens() {
        0 => String::new(),
        _ => format!("{} in, {} out", format_tokens(usage.input_tokens), format_tokens(usage.output_tokens)),
    }
}
