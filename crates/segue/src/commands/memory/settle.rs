//! Old turns become summaries: `segue memory settle`, and what `segue run` and `segue compact` do of it before they end. What is due is in
//! the journal's queue, so that nothing is lost when it is stopped half-way.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::{CancellationToken, EXTRACTIVE, Frames, Settled};
use serde_json::json;
use terminal::{Quiet, Spent, Typed, one_line, wrap};
use tokio::time::sleep;

use crate::cli::Format;
use crate::commands::Context;
use crate::commands::import::count;
use crate::commands::memory::tiers::withheld;
use crate::commands::work::{Showing, Telling, is_watched, noted, shown};
use crate::exit::{Code, Failure, Outcome, chain};

/// What is said of it before it tells anything itself.
const WHAT: &str = "summarising old turns";
/// What is said when a person stopped it.
const STOPPED: &str = "Stopped: what was not done waits.";
/// The longest that another command goes on with it once it has done what it was asked.
const AFTERWARDS_MAX: Duration = Duration::from_secs(30);

/// Performs `segue memory settle`.
pub(crate) async fn run(context: &Context) -> Outcome {
    let tiering = context.agent.memory().tiering()?;
    if let Some(problem) = context.agent.memory().summariser_problem() {
        context.notice(&problem);
    }
    let work = async |_: &agent::Agent, frames: &Frames, cancel: &CancellationToken| {
        tiering.settle(frames, cancel).await
    };
    let done = match is_watched(context) {
        true => {
            let showing = Showing { what: WHAT, telling: Telling::Progress };
            shown(context, showing, &mut Typed::default(), &mut Spent::default(), work).await?
        }
        false => noted(context, work).await?,
    };
    let settled = match done.done {
        // What was done before it was stopped is stored; what was not is not told as a failure.
        Err(_) if done.is_stopped => Vec::new(),
        settled => settled.map_err(agent::Error::from)?,
    };
    let waiting = context.agent.memory().memory_due().await?;
    if context.format == Format::Json {
        context.json(&json!({"settled": settled, "waiting": waiting}))?;
    } else {
        tell(context, &settled).await?;
        let threads = count(waiting, "thread");
        let verb = if waiting == 1 { "waits" } else { "wait" };
        match (done.is_stopped, settled.is_empty(), waiting) {
            (true, _, _) => context.screen.line(STOPPED)?,
            (false, true, 0) => context.screen.line("Nothing is due.")?,
            (false, false, 0) => {}
            (false, _, _) => context.notice(&format!(
                "{threads} still {verb}: a run is active there, a decision is pending, or it failed. It is tried again later."
            )),
        }
    }
    Ok(if done.is_stopped { Code::Cancelled } else { Code::Done })
}

async fn tell(context: &Context, settled: &[Settled]) -> Result<(), Failure> {
    let screen = &context.screen;
    for one in settled {
        let id = context.short_id(one.thread_id).await;
        let summary = writer([one.model.as_str()].into());
        let secrets = withheld(one.withheld).map(|text| format!(" {text}")).unwrap_or_default();
        let text = format!("{} became a {summary}.{secrets}", count(one.turns, "turn"));
        screen.line(wrap(&text, screen.text_columns(), &format!("{}  ", screen.style.code(id)), "  "))?;
    }
    Ok(())
}

/// Returns what a person is told of turns that went to memory, on one line; nothing when none did.
pub(crate) fn told(settled: &[Settled]) -> Option<String> {
    let turns: u64 = settled.iter().map(|one| one.turns).sum();
    let models: BTreeSet<&str> = settled.iter().map(|one| one.model.as_str()).collect();
    let secrets = withheld(settled.iter().map(|one| one.withheld).sum());
    let secrets = secrets.map(|text| format!(" {text}")).unwrap_or_default();
    let what = format!("{} went to memory ({}).", count(turns, "turn"), writer(models));
    (turns > 0).then(|| format!("{what}{secrets}"))
}

/// Returns who wrote the summaries.
fn writer(models: BTreeSet<&str>) -> String {
    let names = models.into_iter().map(|model| match model {
        EXTRACTIVE => "the offline extract".to_owned(),
        model => one_line(model),
    });
    format!("summary by {}", names.collect::<Vec<_>>().join(" and "))
}

/// Makes the summaries that are due once a command has done what it was asked, for a while at most. Ctrl-C ends it; what is
/// not done then waits in the queue. What goes wrong stays in the queue too, is told, and changes nothing about the command.
pub(crate) async fn afterwards(context: &Context) {
    match context.agent.memory().memory_due().await {
        Ok(due) if due > 0 => {}
        Ok(_) | Err(_) => return,
    }
    // A model that cannot be opened was told of by the command itself.
    let Ok(tiering) = context.agent.memory().tiering() else { return };
    // An echoed key would move the line that is drawn over. Where that cannot be prevented, it is only less pretty.
    let _quiet = Quiet::begin(&context.screen);
    let work = async |_: &agent::Agent, frames: &Frames, cancel: &CancellationToken| {
        let stop = cancel.child_token();
        let settled = tiering.settle(frames, &stop);
        tokio::pin!(settled);
        tokio::select! {
            biased;
            settled = &mut settled => settled,
            () = sleep(AFTERWARDS_MAX) => {
                stop.cancel();
                // It is waited for: it notes what the calls that were made have cost.
                settled.await
            }
        }
    };
    // Who gives up waiting is not told of it a second time.
    let Ok(done) = noted(context, work).await else { return };
    match done.done {
        Ok(settled) => {
            let expected = if tiering.tiers.summariser.is_some() { Writer::Model } else { Writer::Extract };
            if let Some(text) = worth_telling(&settled, expected) {
                context.notice(&text);
            }
        }
        Err(_) if done.is_stopped => {}
        Err(error) => context.notice(&format!("failed to {}", chain(&error.into()))),
    }
}

/// Who is to write summaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    Model,
    Extract,
}

/// Returns what a person is told unasked: that the extract stood in for a model, and that secrets were withheld.
fn worth_telling(settled: &[Settled], expected: Writer) -> Option<String> {
    let stood_in = expected == Writer::Model && settled.iter().any(|one| one.model == EXTRACTIVE);
    let is_withheld = settled.iter().any(|one| one.withheld > 0);
    (stood_in || is_withheld).then(|| told(settled)).flatten()
}
