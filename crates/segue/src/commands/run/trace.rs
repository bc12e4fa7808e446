//! `segue trace`: the spans of a run, a thread or a handoff as a tree, with times, tokens and costs. `--follow` prints each span
//! when it ends; `--events` prints the events of a run.

mod events;
mod tree;

use std::collections::HashSet;
use std::time::Duration;

use agent::{TraceSpan, TraceSubject};
use jiff::Timestamp;
use protocol::HandoffStatus;
use serde::Serialize;

use crate::cli::OutputFormat;
use crate::cli::history::TraceArgs;
use crate::commands::CommandContext;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The shortest time between two reads of the spans with `--follow`. A busy thread commits many times a second, and
/// each read loads all its spans.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A span in the form of `--json`.
#[derive(Serialize)]
struct SpanReport<'s> {
    /// The span.
    #[serde(flatten)]
    span: &'s TraceSpan,
    /// The duration in milliseconds; for an open span, until now.
    duration_ms: u64,
    /// The cost of a model call in US dollars; `null` if the price is unknown or the span is not a model call.
    cost: Option<f64>,
}

/// Performs `segue trace`.
///
/// # Errors
/// Fails if no such run, thread or handoff exists, the journal cannot be read, or stdout cannot be written.
pub(crate) async fn run(context: &CommandContext, args: &TraceArgs) -> CommandResult {
    if args.events {
        return events::run(context, &args.subject).await;
    }
    let subject = context.agent.runs().find_trace_subject(&args.subject).await?;
    if args.follow { follow_trace(context, &subject).await } else { show_trace(context, &subject).await }
}

/// Prints all spans that exist at present.
async fn show_trace(context: &CommandContext, subject: &TraceSubject) -> CommandResult {
    let spans = load_spans(context, subject).await?;
    if context.format == OutputFormat::Json {
        spans.iter().try_for_each(|span| print_span_json(context, span))?;
        return Ok(ExitReason::Success);
    }
    context.screen.print_line(context.screen.style.bold(tree::trace_heading(subject)))?;
    if spans.is_empty() {
        context.screen.print_line("Nothing has happened yet.")?;
    }
    context.screen.print_lines(tree::span_tree_lines(context, &spans, Timestamp::now()))?;
    Ok(ExitReason::Success)
}

/// Prints each span once it has ended, until no more spans can follow or Ctrl-C is pressed. Following a thread ends
/// only with Ctrl-C, because a thread can always get another run.
async fn follow_trace(context: &CommandContext, subject: &TraceSubject) -> CommandResult {
    let mut printed = HashSet::new();
    let mut commits = context.agent.threads().subscribe_commits();
    loop {
        let spans = load_spans(context, subject).await?;
        let (ended, open): (Vec<&TraceSpan>, Vec<&TraceSpan>) =
            spans.iter().partition(|span| span.end.is_some());
        for span in ended {
            if !printed.insert(span.span_id) {
                continue;
            }
            match context.format {
                OutputFormat::Json => print_span_json(context, span)?,
                OutputFormat::Text => context.screen.print_line(tree::span_line(context, span, &spans))?,
            }
        }
        let is_over = match subject {
            TraceSubject::Run(_) => open.is_empty() && !spans.is_empty(),
            TraceSubject::Handoff(handoff) => {
                let status = context.agent.handoffs().review(handoff.handoff_id).await?.handoff.status;
                // An accepted handoff ends with the first turn of its child thread.
                !status.is_pending() && !matches!(status, HandoffStatus::Accepted | HandoffStatus::Seeded)
            }
            TraceSubject::Thread(_) => false,
        };
        if is_over {
            return Ok(ExitReason::Success);
        }
        let next_commit = async {
            commits.changed().await;
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        tokio::select! {
            () = next_commit => {}
            stopped = tokio::signal::ctrl_c() => {
                stopped?;
                return Ok(ExitReason::Success);
            }
        }
    }
}

/// Reads the spans of a subject from the journal.
async fn load_spans(context: &CommandContext, subject: &TraceSubject) -> Result<Vec<TraceSpan>, CliFailure> {
    Ok(match subject {
        TraceSubject::Run(run) => context.agent.runs().spans(run).await?,
        TraceSubject::Thread(thread) => context.agent.runs().thread_spans(thread.thread_id).await?,
        TraceSubject::Handoff(handoff) => context.agent.runs().handoff_spans(handoff).await?,
    })
}

/// Prints a span as a line of JSON.
fn print_span_json(context: &CommandContext, span: &TraceSpan) -> Result<(), CliFailure> {
    let duration = span.duration(Timestamp::now());
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    context.print_json(&SpanReport { span, duration_ms, cost: context.agent.runs().span_cost(span) })
}
