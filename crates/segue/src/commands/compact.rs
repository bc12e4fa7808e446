//! `segue compact`, `segue uncompact` and `segue context`: what the model is sent of a thread, and making it less or more
//! again. The chat has the same. What is condensed, and when, is decided by the `compaction` room.

use agent::{
    Agent, CancellationToken, CompactionRequest, Condensed, ContextReport, EXTRACTIVE, Error, Frames, Keep,
    RunError, ThreadError, Uncompacted,
};
use protocol::{Seq, ThreadId};
use serde::Serialize;
use serde_json::json;
use terminal::marker::{Fold, Standing, card};
use terminal::window::report;
use terminal::{Audience, Screen, Spent, Typed, one_line, tokens, wrap};

use crate::cli::Format;
use crate::cli::compact::Compact;
use crate::commands::import::count;
use crate::commands::memory::settle;
use crate::commands::work::{Showing, Telling, is_watched, noted, shown};
use crate::commands::{Context, NO_MODEL_HINT};
use crate::exit::{Code, Failure, Outcome};

/// What is said of it before it tells anything itself.
const WHAT: &str = "condensing the conversation";

/// What is said when a person stopped it.
pub(crate) const STOPPED: &str = "Stopped: nothing was changed.";

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Asked {
    /// What the summary must keep above all.
    pub(crate) focus: Option<String>,
    /// How many of the newest messages stay as they are.
    pub(crate) keep: Option<u64>,
    /// Whether something is changed.
    pub(crate) purpose: Purpose,
}

/// Whether something is changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is.
    #[default]
    Store,
    /// It is only shown what it would be.
    Preview,
}

/// What it came to.
pub(crate) enum Reached {
    /// A compaction, stored or not.
    Condensed(Box<Condensed>),
    /// There was nothing to condense, and why.
    Nothing(String),
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    thread_id: ThreadId,
    outcome: &'static str,
    reason: Option<&'a str>,
    /// The marker, as `segue history --json` has it.
    marker: Option<&'a agent::HistoryEntry>,
    /// Everything that is stored of it, or would be.
    compaction: Option<&'a protocol::Compaction>,
}

/// Performs `segue compact`.
pub(crate) async fn run(context: &Context, args: Compact) -> Outcome {
    let thread_id = context.agent.threads().find(&args.thread).await?.thread_id;
    let purpose = if args.preview { Purpose::Preview } else { Purpose::Store };
    let asked = Asked { focus: args.focus, keep: args.keep, purpose };
    let mut typed = Typed::default();
    let condensed = condense(context, thread_id, asked, &mut typed, &mut Spent::default()).await?;
    let Some(reached) = condensed else {
        return match is_watched(context) {
            true => {
                context.screen.line(STOPPED)?;
                Ok(Code::Cancelled)
            }
            false => Err(Failure::cancelled("condense the thread")
                .with_hint("nothing was changed; the same command begins again")),
        };
    };
    match context.format {
        Format::Json => tell_json(context, thread_id, &reached)?,
        Format::Text => tell(context, thread_id, &reached).await?,
    }
    if purpose == Purpose::Store {
        settle::afterwards(context).await;
    }
    Ok(Code::Done)
}

async fn tell(context: &Context, thread_id: ThreadId, reached: &Reached) -> Result<(), Failure> {
    context.screen.lines(told(&context.screen, reached))?;
    if let Reached::Condensed(done) = reached
        && done.is_stored
        && context.screen.audience == Audience::Person
    {
        let id = context.short_id(thread_id).await;
        let hint = format!(
            "The originals stay: `segue history {id} --expand` shows them, `segue uncompact {id}` takes it back."
        );
        let hint = wrap(&hint, context.screen.text_columns(), "", "  ");
        context.screen.line(context.screen.style.dim(hint))?;
    }
    Ok(())
}

/// Condenses the thread, or works out what that would come to; `None` when the person stops it and nothing was changed.
/// What is typed meanwhile goes to `typed`, what it takes to `spent`.
///
/// # Errors
/// When it failed, another run is active, something waits for a decision, or the journal fails.
pub(crate) async fn condense(
    context: &Context,
    thread_id: ThreadId,
    asked: Asked,
    typed: &mut Typed,
    spent: &mut Spent,
) -> Result<Option<Reached>, Failure> {
    let request = CompactionRequest { focus: asked.focus, keep: asked.keep.map(Keep::Messages) };
    let work = async |agent: &Agent, frames: &Frames, cancel: &CancellationToken| match asked.purpose {
        Purpose::Store => agent.threads().compact(thread_id, &request, frames, cancel).await,
        Purpose::Preview => agent.threads().preview_compaction(thread_id, &request, frames, cancel).await,
    };
    let done = match is_watched(context) {
        true => {
            let showing = Showing { what: WHAT, telling: Telling::Progress };
            shown(context, showing, typed, spent, work).await?
        }
        false => noted(context, work).await?,
    };
    match done.done {
        Ok(condensed) => Ok(Some(Reached::Condensed(Box::new(condensed)))),
        Err(Error::Thread(ThreadError::NothingToCompact { reason, .. })) => {
            Ok(Some(Reached::Nothing(reason)))
        }
        // It is one transaction: what was not finished is not there.
        Err(_) if done.is_stopped => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a person is told of it: the card, or one line.
pub(crate) fn told(screen: &Screen, reached: &Reached) -> Vec<String> {
    let say = |text: &str| wrap(text, screen.text_columns(), "", "  ");
    match reached {
        Reached::Condensed(done) => {
            let (standing, fold) = match &done.marker {
                Some(marker) => (Standing::Stands(marker.seq), Fold::Closed),
                None => (Standing::Preview, Fold::Open),
            };
            let at = done.marker.as_ref().map(|marker| marker.created_at);
            let mut lines = card(screen, &done.compaction.clone().into(), at, standing, fold);
            if done.compaction.model == EXTRACTIVE {
                lines.push(screen.style.warn(say("No model wrote the summary: it is the offline extract.")));
            }
            if !done.is_stored {
                lines.push(screen.style.dim(say("A preview: nothing was changed.")));
            }
            lines
        }
        Reached::Nothing(reason) => vec![say(&format!("Nothing to compact: {}.", one_line(reason)))],
    }
}

fn tell_json(context: &Context, thread_id: ThreadId, reached: &Reached) -> Result<(), Failure> {
    let report = |outcome| Report { thread_id, outcome, reason: None, marker: None, compaction: None };
    context.json(&match reached {
        Reached::Condensed(done) => Report {
            marker: done.marker.as_ref(),
            compaction: Some(&done.compaction),
            ..report(if done.is_stored { "condensed" } else { "previewed" })
        },
        Reached::Nothing(reason) => Report { reason: Some(reason), ..report("nothing") },
    })
}

/// Performs `segue uncompact`.
pub(crate) async fn undo(context: &Context, thread: &str) -> Outcome {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let undone = context.agent.threads().uncompact(thread_id).await?;
    match context.format {
        Format::Json => context.json(&json!({
            "thread_id": thread_id, "marker_seq": undone.marker_seq, "replaced_count": undone.replaced_count,
            "tokens_before": undone.tokens_before, "tokens_after": undone.tokens_after,
        }))?,
        Format::Text => {
            context.screen.line(wrap(&told_undone(&undone), context.screen.text_columns(), "", "  "))?;
        }
    }
    Ok(Code::Done)
}

/// Returns what a person is told of a compaction that was taken back.
pub(crate) fn told_undone(undone: &Uncompacted) -> String {
    let verb = if undone.replaced_count == 1 { "is" } else { "are" };
    let again = match undone.is_too_large {
        true => " That does not fit the model: the next message condenses them again.",
        false => "",
    };
    format!(
        "Taken back: {} {verb} sent as before, {} → {} tokens.{again}",
        count(undone.replaced_count, "message"),
        tokens(undone.tokens_before),
        tokens(undone.tokens_after)
    )
}

/// Returns the marker of the compaction that is in effect in the thread, if one is; what cannot be worked out is not told.
pub(crate) async fn in_effect(context: &Context, thread_id: ThreadId) -> Option<Seq> {
    let report = context.agent.threads().context_report(thread_id).await.ok()?;
    report.condensed.map(|condensed| condensed.marker_seq)
}

/// Returns what a person is told where another compaction came into effect, or none is any more.
pub(crate) fn told_in_effect(before: Option<Seq>, after: Option<Seq>) -> Option<String> {
    match after {
        _ if before == after => None,
        Some(marker_seq) => Some(format!(
            "The compaction of marker #{marker_seq} is in effect again: its summary is sent in place of what is older."
        )),
        None => Some("Nothing is condensed any more: all messages are sent as they are.".to_owned()),
    }
}

/// Performs `segue context`.
pub(crate) async fn window(context: &Context, thread: &str) -> Outcome {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let filled = filled(context, thread_id).await?;
    if context.format == Format::Json {
        context.json(&filled)?;
        return Ok(Code::Done);
    }
    context.screen.lines(report(&context.screen, &filled))?;
    Ok(Code::Done)
}

/// Returns what fills the model's window in the thread.
///
/// # Errors
/// When no model is configured, or the journal fails.
pub(crate) async fn filled(context: &Context, thread_id: ThreadId) -> Result<ContextReport, Failure> {
    match context.agent.threads().context_report(thread_id).await {
        Err(Error::Run(RunError::NoModel(_))) => {
            Err(Failure::new(Code::Config, "work out what fills the window: no model is configured")
                .with_hint(NO_MODEL_HINT))
        }
        filled => Ok(filled?),
    }
}
