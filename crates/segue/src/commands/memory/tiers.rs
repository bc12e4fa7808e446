//! `segue memory stats`, `summaries` and `trace`: how much there is in each tier, the summaries that stand for old turns,
//! and what became of each turn of a thread. It changes nothing.

use agent::{MemoryStats, StoredSummary};
use protocol::{LoggedTurn, MediumTermSummary, ThreadId, TurnRole};
use serde::Serialize;
use serde_json::json;
use terminal::found::Names;
use terminal::{Column, Screen, marker, minute, one_line, shown_path, size, table, wrap};

use crate::cli::Format;
use crate::commands::Context;
use crate::commands::history::search::{Asked, named};
use crate::commands::import::count;
use crate::exit::{Code, Failure, Outcome};

/// The share of its limit, in percent, from which on agent.md is told to be nearly full.
const NEARLY_FULL_PERCENT: u64 = 80;

/// Performs `segue memory stats`.
pub(crate) async fn stats(context: &Context) -> Outcome {
    let stats = context.agent.memory().stats().await?;
    if context.format == Format::Json {
        context.json(&stats)?;
        return Ok(Code::Done);
    }
    show_stats(context, &stats)?;
    Ok(Code::Done)
}

/// Shows how much there is in each tier, and what a person should know of it.
pub(crate) fn show_stats(context: &Context, stats: &MemoryStats) -> Result<(), Failure> {
    context.screen.lines(counted(&context.screen, stats))?;
    let problem = stats.agent_md.problem.as_ref().map(|problem| format!("failed to {problem}"));
    if let Some(notice) = problem.or_else(|| nearly_full(stats)) {
        context.notice(&notice);
    }
    Ok(())
}

fn counted(screen: &Screen, stats: &MemoryStats) -> Vec<String> {
    let file = &stats.agent_md;
    let bytes = match (&file.problem, file.exists) {
        (Some(_), _) => "cannot be read".to_owned(),
        (None, true) => format!("{} of {}", size(file.bytes), size(file.bytes_max)),
        (None, false) => "none yet".to_owned(),
    };
    let row = |tier: &str, what: String, holds: String| vec![tier.to_owned(), what, holds];
    let rows = [
        row("short-term", "turns as they were said".to_owned(), stats.turns.active.to_string()),
        row("medium-term", "summaries of old turns".to_owned(), stats.summaries.to_string()),
        row("", "turns they stand for".to_owned(), stats.turns.summarised.to_string()),
        row("", "turns that were taken back".to_owned(), stats.turns.withdrawn.to_string()),
        row("long-term", format!("agent.md in {}", folder(stats)), bytes),
        row("", "items in the store".to_owned(), stats.items.to_string()),
        row("waiting", "threads with turns to be summarised".to_owned(), stats.due.to_string()),
    ];
    let columns = [Column::Left("TIER"), Column::Flexible("WHAT"), Column::Right("HOLDS")];
    table(screen, &columns, &rows)
}

fn folder(stats: &MemoryStats) -> String {
    stats.agent_md.path.parent().map(shown_path).unwrap_or_default()
}

/// Returns what a person is told whose agent.md is nearly as large as it may be.
fn nearly_full(stats: &MemoryStats) -> Option<String> {
    let file = &stats.agent_md;
    if file.bytes > file.bytes_max {
        return Some(format!(
            "agent.md has {}, and {} is the limit: nothing more is noted in it. `segue memory edit` shortens it.",
            size(file.bytes),
            size(file.bytes_max)
        ));
    }
    let percent = file.bytes * 100 / file.bytes_max.max(1);
    (percent >= NEARLY_FULL_PERCENT).then(|| {
        format!("agent.md has {percent} % of the size it may have. `segue memory edit` shortens it.")
    })
}

/// A summary, as `--json` has it.
#[derive(Serialize)]
pub(crate) struct Printed<'a> {
    #[serde(flatten)]
    summary: &'a MediumTermSummary,
    thread_id: Option<ThreadId>,
    turns: u64,
}

/// Returns summaries as `--json` has them.
pub(crate) fn printed(summaries: &[StoredSummary]) -> Vec<Printed<'_>> {
    let printed = summaries.iter().map(|stored| Printed {
        summary: &stored.summary,
        thread_id: stored.thread_id,
        turns: stored.turns,
    });
    printed.collect()
}

/// Performs `segue memory summaries`.
pub(crate) async fn summaries(context: &Context, limit: usize) -> Outcome {
    let found = context.agent.memory().recent_summaries(limit).await?;
    if context.format == Format::Json {
        context.json(&json!({"summaries": printed(&found)}))?;
        return Ok(Code::Done);
    }
    show_summaries(context, &found, Asked::Command).await?;
    if found.len() == limit {
        context.screen.note(context.screen.style.dim(format!("The newest {limit}; `--limit N` shows more.")));
    }
    Ok(Code::Done)
}

/// Shows summaries, each under a line that says for what it stands, and how to come to the turns themselves.
///
/// # Errors
/// When the journal fails, or stdout cannot be written to.
pub(crate) async fn show_summaries(
    context: &Context,
    summaries: &[StoredSummary],
    asked: Asked,
) -> Result<(), Failure> {
    let screen = &context.screen;
    if summaries.is_empty() {
        return Ok(screen.line("No turn has become a summary yet.")?);
    }
    let names = named(context, summaries.iter().filter_map(|stored| stored.thread_id)).await?;
    for (at, stored) in summaries.iter().enumerate() {
        if at > 0 {
            screen.line("")?;
        }
        screen.line(head(screen, stored, &names))?;
        screen.lines(marker::summary(screen, &stored.summary.summary_text))?;
    }
    if let Some(text) = way(context, summaries, &names, asked).await {
        let text = screen.style.dim(wrap(&text, screen.text_columns(), "", "  "));
        match asked {
            Asked::Command => screen.note(text),
            Asked::Chat => screen.line(text)?,
        }
    }
    Ok(())
}

/// Returns the line above a summary, as a search shows it: where the turns it stands for were said, and which.
fn head(screen: &Screen, stored: &StoredSummary, names: &Names) -> String {
    let summary = &stored.summary;
    let thread = stored.thread_id.and_then(|thread_id| names.get(&thread_id));
    let thread = thread.map_or("(gone)", |(id, _)| id.as_str());
    let turns = range(summary.turn_range_start, summary.turn_range_end);
    let about = format!("summary of {turns} {}", minute(summary.created_at));
    format!("{} {}", screen.style.code(thread), screen.style.dim(about))
}

/// Returns how to come to the turns of a summary: for the newest one whose thread is there.
async fn way(context: &Context, summaries: &[StoredSummary], names: &Names, asked: Asked) -> Option<String> {
    let of = |stored: &StoredSummary| {
        let thread_id = stored.thread_id?;
        let (id, _) = names.get(&thread_id)?;
        Some((thread_id, id.clone(), stored.summary.turn_range_start.saturating_sub(1)))
    };
    let (thread_id, id, after) = summaries.iter().find_map(of)?;
    let turns = context.agent.memory().task_trace(thread_id, Some(after), 1).await.ok()?;
    let history = match asked {
        Asked::Command => "segue history",
        Asked::Chat => "/history",
    };
    let place = turns.first().map(|turn| format!(", `{history} {id} --around {}` opens them", turn.seq));
    let place = place.unwrap_or_default();
    Some(format!("`segue memory trace {id} --after {after}` lists the turns of a summary{place}."))
}

fn range(first: u64, last: u64) -> String {
    if first == last { format!("turn {first}") } else { format!("turns {first}–{last}") }
}

/// Performs `segue memory trace`.
pub(crate) async fn trace(context: &Context, thread: &str, after: Option<u64>, limit: usize) -> Outcome {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let turns = context.agent.memory().task_trace(thread_id, after, limit).await?;
    if context.format == Format::Json {
        let next = turns.last().filter(|_| turns.len() == limit).map(|turn| turn.turn_index);
        context.json(&json!({"thread_id": thread_id, "turns": turns, "next_after": next}))?;
        return Ok(Code::Done);
    }
    let screen = &context.screen;
    if turns.is_empty() {
        screen.line("Nothing was said there in plain words.")?;
        return Ok(Code::Done);
    }
    screen.lines(traced(screen, &turns))?;
    let id = context.short_id(thread_id).await;
    let (first, last) = (turns.first().map_or(0, |turn| turn.seq), turns.last());
    let more = last.filter(|_| turns.len() == limit);
    let more = more.map(|last| format!("More, if there are: `--after {}`. ", last.turn_index));
    let text =
        format!("{}`segue history {id} --around {first}` opens the history there.", more.unwrap_or_default());
    screen.note(screen.style.dim(wrap(&text, screen.text_columns(), "", "  ")));
    Ok(Code::Done)
}

fn traced(screen: &Screen, turns: &[LoggedTurn]) -> Vec<String> {
    let state = |turn: &LoggedTurn| match (turn.is_archived, turn.summary_id) {
        (_, Some(_)) => "in a summary",
        (true, None) => "taken back",
        (false, None) => "active",
    };
    let rows: Vec<Vec<String>> = turns
        .iter()
        .map(|turn| {
            let who = match turn.role {
                TurnRole::User => "you",
                TurnRole::Assistant => "assistant",
            };
            let (turn_index, seq) = (turn.turn_index.to_string(), format!("#{}", turn.seq));
            vec![
                turn_index,
                seq,
                who.to_owned(),
                minute(turn.created_at),
                state(turn).to_owned(),
                one_line(&turn.content),
            ]
        })
        .collect();
    let columns = [
        Column::Right("TURN"),
        Column::Right("EVENT"),
        Column::Left("WHO"),
        Column::Left("SAID"),
        Column::Left("NOW"),
        Column::Flexible("WORDS"),
    ];
    table(screen, &columns, &rows)
}

/// Returns how many secrets were withheld, as a sentence; nothing when none was.
pub(crate) fn withheld(secrets: u64) -> Option<String> {
    let verb = if secrets == 1 { "was" } else { "were" };
    (secrets > 0).then(|| format!("{} {verb} withheld.", count(secrets, "secret")))
}
