//! Old turns become summaries: `segue memory settle`, and what `segue run` does of it before it ends. What is due is in
//! the journal's queue, so that nothing is lost when it is stopped half-way.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::{CancellationToken, EXTRACTIVE, Frames, Settled};
use serde_json::json;

use crate::cli::Format;
use crate::commands::Context;
use crate::commands::import::count;
use crate::commands::memory::tiers::withheld;
use crate::commands::work::{Showing, Telling, is_watched, noted, shown};
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::keyboard::Quiet;
use crate::terminal::text::safe::one_line;
use crate::terminal::text::wrap::wrap;
use crate::terminal::work::progress::{Progress, Unit};
use crate::terminal::work::stream::Spent;
use crate::terminal::work::typed::Typed;
use crate::terminal::work::watch::{Seen, Then, watch};

/// What is said of it before it tells anything itself.
const WHAT: &str = "summarising old turns";
/// What is said when a person stopped it.
const STOPPED: &str = "Stopped: what was not done waits.";
/// The longest that `segue run` goes on with it once it has answered.
const AFTER_RUN_MAX: Duration = Duration::from_secs(30);

/// Performs `segue memory settle`.
pub(crate) async fn run(context: &Context) -> Outcome {
    let tiering = context.agent.tiering()?;
    let work = async |_: &agent::Agent, frames: &Frames, cancel: &CancellationToken| {
        tiering.settle(frames, cancel).await
    };
    let done = match is_watched(context) {
        true => {
            let showing = Showing { what: WHAT, telling: Telling::Progress };
            shown(context, showing, (&mut Typed::default(), &mut Spent::default()), work).await?
        }
        false => noted(context, work).await?,
    };
    let settled = match done.done {
        // What was done before it was stopped is stored; what was not is not told as a failure.
        Err(_) if done.is_stopped => Vec::new(),
        settled => settled.map_err(agent::Error::from)?,
    };
    let waiting = context.agent.memory_stats().await?.due;
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

/// Makes the summaries that are due once a run has answered, for a while at most. Ctrl-C ends it; what is not done then
/// waits in the queue. What goes wrong here stays in the queue too, and changes nothing about the run.
pub(crate) async fn after_run(context: &Context) {
    match context.agent.memory_stats().await {
        Ok(stats) if stats.due > 0 => {}
        Ok(_) | Err(_) => return,
    }
    let Ok(tiering) = context.agent.tiering() else { return };
    // An echoed key would move the line that is drawn over. Where that cannot be prevented, it is only less pretty.
    let _quiet = Quiet::begin(&context.screen);
    let progress = Progress::new(&context.screen, context.format, Unit::Steps);
    let work = watch(
        async |frames, cancel| tiering.settle(&frames, &cancel).await.map(drop),
        |seen| {
            if let Seen::Frame(_, frame) = seen {
                progress.show(frame);
            }
            Ok(Then::GoOn)
        },
    );
    // Out of time, stopped or failed: what was not done is in the queue as before.
    let _ = tokio::time::timeout(AFTER_RUN_MAX, work).await;
}
