//! `segue memory stats`, `summaries` and `trace`: how much there is in each tier, the summaries that stand for old turns,
//! and what became of each turn of a thread. It changes nothing.

use agent::MemoryStats;
use protocol::{LoggedTurn, MediumTermSummary, TurnRole};
use serde_json::json;

use crate::cli::Format;
use crate::commands::import::count;
use crate::commands::{Context, threads};
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::screen::Screen;
use crate::terminal::show::marker;
use crate::terminal::text::moment::minute;
use crate::terminal::text::safe::{one_line, shown_path};
use crate::terminal::text::table::{Column, table};
use crate::terminal::text::wrap::{size, wrap};

/// The share of its limit, in percent, from which on agent.md is told to be nearly full.
const NEARLY_FULL_PERCENT: u64 = 80;
/// The fewest characters of a summary's id that are shown.
const ID_CHARS_MIN: usize = 8;

/// Performs `segue memory stats`.
pub(crate) async fn stats(context: &Context) -> Outcome {
    let stats = context.agent.memory_stats().await?;
    if context.format == Format::Json {
        context.json(&stats)?;
        return Ok(Code::Done);
    }
    show_stats(context, &stats)?;
    Ok(Code::Done)
}

/// Shows how much there is in each tier, and what a person should know of it.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn show_stats(context: &Context, stats: &MemoryStats) -> Result<(), Failure> {
    for line in counted(&context.screen, stats) {
        context.screen.line(line)?;
    }
    if let Some(notice) = nearly_full(stats) {
        context.notice(&notice);
    }
    Ok(())
}

fn counted(screen: &Screen, stats: &MemoryStats) -> Vec<String> {
    let file = &stats.agent_md;
    let bytes = match file.exists {
        true => format!("{} of {}", size(file.bytes), size(file.bytes_max)),
        false => "none yet".to_owned(),
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
            "agent.md is larger than {}: the model sees its beginning only. `segue memory edit` shortens it.",
            size(file.bytes_max)
        ));
    }
    let percent = file.bytes * 100 / file.bytes_max.max(1);
    (percent >= NEARLY_FULL_PERCENT).then(|| {
        format!("agent.md has {percent} % of the size it may have. `segue memory edit` shortens it.")
    })
}

/// Performs `segue memory summaries`.
pub(crate) async fn summaries(context: &Context, limit: usize) -> Outcome {
    let found = context.agent.recent_summaries(limit).await?;
    if context.format == Format::Json {
        context.json(&json!({"summaries": found}))?;
        return Ok(Code::Done);
    }
    show_summaries(&context.screen, &found)?;
    if found.len() == limit {
        context.screen.note(context.screen.style.dim(format!("The newest {limit}; `--limit N` shows more.")));
    }
    Ok(Code::Done)
}

/// Shows summaries, each under a line that says for what it stands.
///
/// # Errors
/// When stdout cannot be written to.
pub(crate) fn show_summaries(screen: &Screen, summaries: &[MediumTermSummary]) -> Result<(), Failure> {
    if summaries.is_empty() {
        screen.line(wrap("No turn has become a summary yet.", screen.text_columns(), "", ""))?;
    }
    let ids = threads::beginnings(summaries.iter().map(|summary| summary.id), ID_CHARS_MIN);
    for (at, (summary, id)) in summaries.iter().zip(ids).enumerate() {
        if at > 0 {
            screen.line("")?;
        }
        let turns = range(summary.turn_range_start, summary.turn_range_end);
        let about = screen.style.dim(format!("{turns}  {}", minute(summary.created_at)));
        screen.line(format!("{}  {about}", screen.style.code(id)))?;
        for line in marker::summary(screen, &summary.summary_text) {
            screen.line(line)?;
        }
    }
    Ok(())
}

fn range(first: u64, last: u64) -> String {
    if first == last { format!("turn {first}") } else { format!("turns {first}–{last}") }
}

/// Performs `segue memory trace`.
pub(crate) async fn trace(context: &Context, thread: &str, after: Option<u64>, limit: usize) -> Outcome {
    let thread_id = context.agent.find_thread(thread).await?.thread_id;
    let turns = context.agent.task_trace(thread_id, after, limit).await?;
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
    for line in traced(screen, &turns) {
        screen.line(line)?;
    }
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
    let mut summaries: Vec<_> = turns.iter().filter_map(|turn| turn.summary_id).collect();
    summaries.sort_unstable();
    summaries.dedup();
    let ids = threads::beginnings(summaries.iter(), ID_CHARS_MIN);
    let state = |turn: &LoggedTurn| match (turn.is_archived, turn.summary_id) {
        (_, Some(summary)) => {
            let at = summaries.binary_search(&summary).ok();
            format!("summary {}", at.map(|at| ids[at].as_str()).unwrap_or_default())
        }
        (true, None) => "taken back".to_owned(),
        (false, None) => "active".to_owned(),
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
                state(turn),
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
