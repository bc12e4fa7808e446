//! Spans as lines: a tree of what happened in what, with times, tokens and costs in columns.

use std::collections::{HashMap, HashSet};

use agent::{Span, SpanId, SpanKind, SpanOutcome, Traced};
use jiff::Timestamp;
use protocol::Usage;
use terminal::calls::duration;
use terminal::{dollars, one_line, pad, shorten, tokens, width};

use crate::commands::Context;

/// Columns of what was done, with the lines of the tree before it.
const NAME_COLUMNS: usize = 46;
/// Columns of the time it took.
const TIME_COLUMNS: usize = 9;
const TOKEN_COLUMNS: usize = 20;

/// Returns what the tree is of.
pub(super) fn head(traced: &Traced) -> String {
    match traced {
        Traced::Run(run) => {
            let model =
                run.model.as_deref().map(|model| format!(" · {}", one_line(model))).unwrap_or_default();
            let error = run
                .failure
                .as_ref()
                .map(|failure| format!(": {}", one_line(&failure.message)))
                .unwrap_or_default();
            let status = run.status.as_str();
            format!("run {} of thread {}{model} · {status}{error}", run.run_id, run.thread_id)
        }
        Traced::Thread(thread) => {
            let name =
                thread.name.as_deref().map(|name| format!(" · {}", one_line(name))).unwrap_or_default();
            format!("thread {}{name}", thread.thread_id)
        }
        Traced::Handoff(handoff) => format!(
            "handoff {} of thread {} · {}",
            handoff.handoff_id,
            handoff.parent_thread_id,
            handoff.status.as_str()
        ),
    }
}

/// Returns the spans as a tree, each below the one it happened in, in the order in which they began.
pub(super) fn lines(context: &Context, spans: &[Span], now: Timestamp) -> Vec<String> {
    let known: HashSet<SpanId> = spans.iter().map(|span| span.span_id).collect();
    let mut children: HashMap<Option<SpanId>, Vec<&Span>> = HashMap::new();
    for span in spans {
        let parent = span.parent_id.filter(|parent| known.contains(parent));
        children.entry(parent).or_default().push(span);
    }
    for siblings in children.values_mut() {
        siblings.sort_by_key(|span| (span.start, span.seq));
    }
    let mut tree = Tree { context, children, now, lines: Vec::new() };
    for root in tree.below(None) {
        tree.lines.push(drawn(context, root, "", "", now));
        tree.draw(root.span_id, "");
    }
    tree.lines
}

/// A tree that is drawn line by line.
struct Tree<'s> {
    context: &'s Context,
    children: HashMap<Option<SpanId>, Vec<&'s Span>>,
    now: Timestamp,
    lines: Vec<String>,
}

impl<'s> Tree<'s> {
    fn below(&mut self, parent: Option<SpanId>) -> Vec<&'s Span> {
        self.children.remove(&parent).unwrap_or_default()
    }

    /// Draws what happened in a span, behind `lead`.
    fn draw(&mut self, parent: SpanId, lead: &str) {
        let siblings = self.below(Some(parent));
        for (at, span) in siblings.iter().enumerate() {
            let (branch, on) =
                if at + 1 == siblings.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.lines.push(drawn(self.context, span, lead, branch, self.now));
            self.draw(span.span_id, &format!("{lead}{on}"));
        }
    }
}

/// Returns one span on a line, as deep as what it happened in.
pub(super) fn line(context: &Context, span: &Span, all: &[Span]) -> String {
    let mut depth = 0;
    let mut parent = span.parent_id;
    while let Some(above) = parent.and_then(|id| all.iter().find(|span| span.span_id == id)) {
        depth += 1;
        parent = above.parent_id;
    }
    drawn(context, span, &"  ".repeat(depth), "", Timestamp::now())
}

fn drawn(context: &Context, span: &Span, lead: &str, branch: &str, now: Timestamp) -> String {
    let style = &context.screen.style;
    let name = named(span);
    let name = shorten(&name, NAME_COLUMNS.saturating_sub(width(lead) + width(branch)));
    let used = width(lead) + width(branch) + width(&name);
    let time = if span.end == Some(span.start) { String::new() } else { duration(span.duration(now)) };
    let spent = span.usage.as_ref().map(took).unwrap_or_default();
    let cost = context.agent.runs().span_cost(span).map(dollars).unwrap_or_default();
    let columns = format!("{} {} {cost}", pad(&time, TIME_COLUMNS), pad(&spent, TOKEN_COLUMNS));
    let gap = " ".repeat((NAME_COLUMNS + 1).saturating_sub(used));
    let told =
        format!("{}{name}{gap}{}", style.dim(format!("{lead}{branch}")), style.dim(columns.trim_end()));
    match ended(span) {
        (text, true) => format!("{} {}", told.trim_end(), style.bad(text)),
        (text, false) if text.is_empty() => told.trim_end().to_owned(),
        (text, false) => format!("{} {}", told.trim_end(), style.dim(text)),
    }
}

/// Returns what was done, in words.
fn named(span: &Span) -> String {
    let name = match span.kind {
        SpanKind::Run => "run",
        SpanKind::Interrupt => "asks",
        SpanKind::Resume => "goes on",
        SpanKind::Accept => "accept",
        SpanKind::Seed => "write agent.md",
        SpanKind::Cleanup => "clear agent.md",
        SpanKind::Mirror => "mirror",
        SpanKind::Compaction => "condense",
        SpanKind::Transfer => "remember",
        SpanKind::Decision => span.name.trim_start_matches("handoff_"),
        SpanKind::Tool => span.name.trim_start_matches("execute_tool "),
        SpanKind::Step | SpanKind::Model | SpanKind::Draft => &span.name,
    };
    let detail = if span.detail.is_empty() { String::new() } else { format!(" · {}", span.detail) };
    one_line(&format!("{name}{detail}"))
}

/// Returns what came of it where that is not what was to be, and whether it is a failure.
fn ended(span: &Span) -> (String, bool) {
    match &span.outcome {
        SpanOutcome::Done => (String::new(), false),
        SpanOutcome::Working => ("works".to_owned(), false),
        // That it asks is a line of its own; whether it was answered since, the run behind it says.
        SpanOutcome::Waiting if span.kind == SpanKind::Interrupt => (asked(span), false),
        SpanOutcome::Waiting => (String::new(), false),
        SpanOutcome::Stopped => ("cut off".to_owned(), false),
        SpanOutcome::Failed(reason) => (format!("failed: {}", one_line(reason)), true),
    }
}

/// Returns what a person is asked about.
fn asked(span: &Span) -> String {
    let actions = span.metadata.get("actions").and_then(serde_json::Value::as_array);
    let names = actions.into_iter().flatten().filter_map(serde_json::Value::as_str);
    one_line(&names.collect::<Vec<_>>().join(", "))
}

fn took(usage: &Usage) -> String {
    match usage.total_tokens() {
        0 => String::new(),
        _ => format!("{} in, {} out", tokens(usage.input_tokens), tokens(usage.output_tokens)),
    }
}
