//! `segue trace`: what happened in a run, in a thread or for a handoff, as a tree of spans with their times, tokens and costs;
//! `--follow` tells each as it ends, and `--events` prints the events they are made from.

mod events;
mod tree;

use std::collections::HashSet;
use std::time::Duration;

use agent::{Span, Traced};
use jiff::Timestamp;
use protocol::HandoffStatus;
use serde::Serialize;

use crate::cli::Format;
use crate::cli::history::Trace;
use crate::commands::Context;
use crate::exit::{Code, Failure, Outcome};

/// How often it is looked at the most for what ended, however much happens.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A span as programs are told of it.
#[derive(Serialize)]
struct Told<'s> {
    #[serde(flatten)]
    span: &'s Span,
    duration_ms: u64,
    /// US dollars, of a call of a model whose price is known.
    cost: Option<f64>,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: &Trace) -> Outcome {
    if args.events {
        return events::run(context, &args.what).await;
    }
    let traced = context.agent.runs().find_traced(&args.what).await?;
    if args.follow { follow(context, &traced).await } else { show(context, &traced).await }
}

async fn show(context: &Context, traced: &Traced) -> Outcome {
    let spans = spans(context, traced).await?;
    if context.format == Format::Json {
        spans.iter().try_for_each(|span| tell(context, span))?;
        return Ok(Code::Done);
    }
    context.screen.line(context.screen.style.bold(tree::head(traced)))?;
    if spans.is_empty() {
        context.screen.line("Nothing has happened yet.")?;
    }
    context.screen.lines(tree::lines(context, &spans, Timestamp::now()))?;
    Ok(Code::Done)
}

/// Tells each span when it has ended, those that have already first, until nothing more can come or somebody stops it.
async fn follow(context: &Context, traced: &Traced) -> Outcome {
    let mut told = HashSet::new();
    let mut news = context.agent.threads().commits();
    loop {
        let spans = spans(context, traced).await?;
        let (ended, open): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.end.is_some());
        for span in ended {
            if !told.insert(span.span_id) {
                continue;
            }
            match context.format {
                Format::Json => tell(context, span)?,
                Format::Text => context.screen.line(tree::line(context, span, &spans))?,
            }
        }
        let is_over = match traced {
            Traced::Run(_) => open.is_empty() && !spans.is_empty(),
            Traced::Handoff(handoff) => {
                let status = context.agent.handoffs().review(handoff.handoff_id).await?.handoff.status;
                // The child's first turn is still to come.
                !status.is_pending() && !matches!(status, HandoffStatus::Accepted | HandoffStatus::Seeded)
            }
            Traced::Thread(_) => false,
        };
        if is_over {
            return Ok(Code::Done);
        }
        let happens = async {
            news.changed().await;
            tokio::time::sleep(LOOK_EVERY).await;
        };
        tokio::select! {
            () = happens => {}
            stopped = tokio::signal::ctrl_c() => {
                stopped?;
                return Ok(Code::Done);
            }
        }
    }
}

async fn spans(context: &Context, traced: &Traced) -> Result<Vec<Span>, Failure> {
    Ok(match traced {
        Traced::Run(run) => context.agent.runs().spans(run).await?,
        Traced::Thread(thread) => context.agent.runs().thread_spans(thread.thread_id).await?,
        Traced::Handoff(handoff) => context.agent.runs().handoff_spans(handoff).await?,
    })
}

fn tell(context: &Context, span: &Span) -> Result<(), Failure> {
    let duration = span.duration(Timestamp::now());
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    context.json(&Told { span, duration_ms, cost: context.agent.runs().span_cost(span) })
}
