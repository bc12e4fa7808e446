//! `segue memory stats`, `summaries` and `trace`: the size of each tier, the summaries of old messages, and the tier of
//! each message of a thread. These commands only read.

use agent::{MemoryStats, ProjectScope, StoredSummary, SummaryProject};
use protocol::{LoggedMessage, MediumTermSummary, MessageRole, ThreadId};
use serde::Serialize;
use serde_json::json;
use terminal::search_hits::ThreadNames;
use terminal::{
    Screen, TableColumn, format_bytes, format_minute, marker, sanitize_line, sanitize_path, table, wrap,
};

use crate::cli::OutputFormat;
use crate::cli::memory::ProjectArgs;
use crate::commands::CommandContext;
use crate::commands::history::search::{CommandSyntax, thread_names};
use crate::commands::import::format_count;
use crate::commands::memory::project_scope;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The size of agent.md, in percent of its limit, at which a warning is shown.
const NEARLY_FULL_PERCENT: u64 = 80;

/// Performs `segue memory stats`.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn run_stats(context: &CommandContext) -> CommandResult {
    let stats = context.agent.memory().stats().await?;
    if context.format == OutputFormat::Json {
        context.print_json(&stats)?;
        return Ok(ExitReason::Success);
    }
    show_stats(context, &stats)?;
    Ok(ExitReason::Success)
}

/// Prints the size of each tier, and a warning if agent.md cannot be read or is too large.
///
/// # Errors
/// Fails if stdout cannot be written.
pub(crate) fn show_stats(context: &CommandContext, stats: &MemoryStats) -> Result<(), CliFailure> {
    let screen = &context.screen;
    screen.print_lines(stats_lines(screen, stats))?;
    let text = "Messages are those of you and the agent with text, in all threads, without calls and results of tools.";
    screen.print_line(screen.style.dim(wrap(text, screen.text_columns(), "", "")))?;
    let problem = stats.agent_md.problem.as_ref().map(|problem| format!("failed to {problem}"));
    if let Some(notice) = problem.or_else(|| size_warning(stats)) {
        context.print_notice(&notice);
    }
    Ok(())
}

/// Returns the lines of the table of tiers.
fn stats_lines(screen: &Screen, stats: &MemoryStats) -> Vec<String> {
    let file = &stats.agent_md;
    let bytes = match (&file.problem, file.exists) {
        (Some(_), _) => "cannot be read".to_owned(),
        (None, true) => format!("{} of {}", format_bytes(file.bytes), format_bytes(file.bytes_max)),
        (None, false) => "none yet".to_owned(),
    };
    let row = |tier: &str, content: String, size: String| vec![tier.to_owned(), content, size];
    let rows = [
        row("short-term", "active messages with text".to_owned(), stats.turns.active.to_string()),
        row("medium-term", "summaries of old messages".to_owned(), stats.summaries.to_string()),
        row("", "summarized messages".to_owned(), stats.turns.summarised.to_string()),
        row("", "rewound messages".to_owned(), stats.turns.withdrawn.to_string()),
        row("long-term", format!("agent.md in {}", agent_md_folder(stats)), bytes),
        row("", "items in the store".to_owned(), stats.items.to_string()),
        row("", "facts to review".to_owned(), stats.facts_to_review.to_string()),
        row("due", "threads with messages to summarize".to_owned(), stats.due.to_string()),
    ];
    let columns = [TableColumn::Left("TIER"), TableColumn::Flexible("CONTENT"), TableColumn::Right("SIZE")];
    table(screen, &columns, &rows)
}

/// Returns the folder of agent.md for display.
fn agent_md_folder(stats: &MemoryStats) -> String {
    stats.agent_md.path.parent().map(sanitize_path).unwrap_or_default()
}

/// Returns a warning if agent.md exceeds its size limit or has nearly reached it.
fn size_warning(stats: &MemoryStats) -> Option<String> {
    let file = &stats.agent_md;
    if file.bytes > file.bytes_max {
        return Some(format!(
            "agent.md has {}, which exceeds the limit of {}: nothing more can be added. Shorten it with `segue memory edit`.",
            format_bytes(file.bytes),
            format_bytes(file.bytes_max)
        ));
    }
    let percent = file.bytes * 100 / file.bytes_max.max(1);
    (percent >= NEARLY_FULL_PERCENT).then(|| {
        format!("agent.md has reached {percent} % of its size limit. Shorten it with `segue memory edit`.")
    })
}

/// A summary in the form of `--json`.
#[derive(Serialize)]
pub(crate) struct StoredSummaryReport<'a> {
    /// The summary.
    #[serde(flatten)]
    summary: &'a MediumTermSummary,
    /// The summarized thread; `null` if it was deleted.
    thread_id: Option<ThreadId>,
    /// The number of summarized messages.
    turns: u64,
    /// The path of the project; `null` if it belongs to none or to several.
    project: Option<&'a str>,
}

/// Returns summaries in the form of `--json`.
pub(crate) fn summary_reports(summaries: &[StoredSummary]) -> Vec<StoredSummaryReport<'_>> {
    let reports = summaries.iter().map(|stored| StoredSummaryReport {
        summary: &stored.summary,
        thread_id: stored.thread_id,
        turns: stored.turns,
        project: match &stored.project {
            SummaryProject::Project(path) => Some(path),
            SummaryProject::Personal | SummaryProject::Several => None,
        },
    });
    reports.collect()
}

/// Returns the path of the project of a summary, or words if it has none.
fn project_text(project: &SummaryProject) -> &str {
    match project {
        SummaryProject::Project(path) => path,
        SummaryProject::Personal => "personal",
        SummaryProject::Several => "several projects",
    }
}

/// Performs `segue memory summaries`.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn run_summaries(
    context: &CommandContext,
    projects: ProjectArgs,
    limit: usize,
) -> CommandResult {
    let summaries = context.agent.memory().recent_summaries(project_scope(context, projects), limit).await?;
    if context.format == OutputFormat::Json {
        context.print_json(&json!({"summaries": summary_reports(&summaries)}))?;
        return Ok(ExitReason::Success);
    }
    show_summaries(context, &summaries, CommandSyntax::Shell).await?;
    if summaries.len() == limit {
        let hint = format!("These are the newest {limit}; `--limit N` shows more.");
        context.screen.print_to_stderr(context.screen.style.dim(hint));
    }
    Ok(ExitReason::Success)
}

/// Prints summaries, each with a heading that names its messages, and the commands that show the messages themselves.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn show_summaries(
    context: &CommandContext,
    summaries: &[StoredSummary],
    syntax: CommandSyntax,
) -> Result<(), CliFailure> {
    let screen = &context.screen;
    if summaries.is_empty() {
        return print_no_summaries(context, syntax).await;
    }
    let own_project = context.agent.project();
    let names = thread_names(context, summaries.iter().filter_map(|stored| stored.thread_id)).await?;
    for (index, stored) in summaries.iter().enumerate() {
        if index > 0 {
            screen.print_line("")?;
        }
        screen.print_line(heading_line(screen, stored, &names, &own_project))?;
        screen.print_lines(marker::summary_lines(screen, &stored.summary.summary_text))?;
    }
    if let Some(text) = navigation_hint(context, summaries, &names, syntax).await {
        let text = screen.style.dim(wrap(&text, screen.text_columns(), "", "  "));
        match syntax {
            CommandSyntax::Shell => screen.print_to_stderr(text),
            CommandSyntax::Chat => screen.print_line(text)?,
        }
    }
    Ok(())
}

/// Prints that there are no summaries, and how to see those of other projects if there are any.
async fn print_no_summaries(context: &CommandContext, syntax: CommandSyntax) -> Result<(), CliFailure> {
    let elsewhere = context.agent.memory().recent_summaries(ProjectScope::Any, 1).await?;
    let text = match (elsewhere.is_empty(), syntax) {
        (true, _) => "No message was summarized yet.",
        (false, CommandSyntax::Shell) => {
            "No message of this project was summarized yet; `--everywhere` shows all projects."
        }
        (false, CommandSyntax::Chat) => "No message of this project was summarized yet.",
    };
    Ok(context.screen.print_line(text)?)
}

/// Returns the heading of a summary, in the form of a search hit: its thread, the numbers of its messages, and its time.
/// The project is named if it is not that of the current folder.
fn heading_line(screen: &Screen, stored: &StoredSummary, names: &ThreadNames, own_project: &str) -> String {
    let summary = &stored.summary;
    let thread = stored.thread_id.and_then(|thread_id| names.get(&thread_id));
    let thread = thread.map_or("(deleted)", |(id, _)| id.as_str());
    let messages = message_range(summary.turn_range_start, summary.turn_range_end);
    let project = match project_text(&stored.project) {
        project if project == own_project => String::new(),
        project => format!(", {}", sanitize_line(project)),
    };
    let heading = format!("summary of {messages} {}{project}", format_minute(summary.created_at));
    format!("{} {}", screen.style.code(thread), screen.style.dim(heading))
}

/// Returns a sentence with the commands that show the messages of the newest summary whose thread still exists.
async fn navigation_hint(
    context: &CommandContext,
    summaries: &[StoredSummary],
    names: &ThreadNames,
    syntax: CommandSyntax,
) -> Option<String> {
    let position = |stored: &StoredSummary| {
        let thread_id = stored.thread_id?;
        let (id, _) = names.get(&thread_id)?;
        Some((thread_id, id.clone(), stored.summary.turn_range_start.saturating_sub(1)))
    };
    let (thread_id, id, after) = summaries.iter().find_map(position)?;
    let messages = context.agent.memory().task_trace(thread_id, Some(after), 1).await.ok()?;
    let history = match syntax {
        CommandSyntax::Shell => "segue history",
        CommandSyntax::Chat => "/history",
    };
    let command =
        messages.first().map(|message| format!(", `{history} {id} --around {}` shows them", message.seq));
    let command = command.unwrap_or_default();
    Some(format!("`segue memory trace {id} --after {after}` lists the messages of a summary{command}."))
}

/// Returns the numbers of the first and the last message as text.
fn message_range(first: u64, last: u64) -> String {
    if first == last { format!("message {first}") } else { format!("messages {first}–{last}") }
}

/// Performs `segue memory trace`.
///
/// # Errors
/// Fails if the thread does not exist, the journal cannot be read, or stdout cannot be written.
pub(crate) async fn run_trace(
    context: &CommandContext,
    thread: &str,
    after: Option<u64>,
    limit: usize,
) -> CommandResult {
    let thread_id = context.agent.threads().find(thread).await?.thread_id;
    let messages = context.agent.memory().task_trace(thread_id, after, limit).await?;
    if context.format == OutputFormat::Json {
        let next = messages.last().filter(|_| messages.len() == limit).map(|message| message.turn_index);
        context.print_json(&json!({"thread_id": thread_id, "turns": messages, "next_after": next}))?;
        return Ok(ExitReason::Success);
    }
    let screen = &context.screen;
    if messages.is_empty() {
        screen.print_line("There are no messages with text.")?;
        return Ok(ExitReason::Success);
    }
    screen.print_lines(trace_lines(screen, &messages))?;
    let id = context.short_id(thread_id).await;
    let (first_seq, last) = (messages.first().map_or(0, |message| message.seq), messages.last());
    let more = last.filter(|_| messages.len() == limit);
    let more = more.map(|last| format!("There may be more: `--after {}`. ", last.turn_index));
    let text = format!(
        "{}`segue history {id} --around {first_seq}` shows the history around the first.",
        more.unwrap_or_default()
    );
    screen.print_to_stderr(screen.style.dim(wrap(&text, screen.text_columns(), "", "  ")));
    Ok(ExitReason::Success)
}

/// Returns the lines of the table of messages.
fn trace_lines(screen: &Screen, messages: &[LoggedMessage]) -> Vec<String> {
    let state = |message: &LoggedMessage| match (message.is_archived, message.summary_id) {
        (_, Some(_)) => "summarized",
        (true, None) => "rewound",
        (false, None) => "active",
    };
    let rows: Vec<Vec<String>> = messages
        .iter()
        .map(|message| {
            let speaker = match message.role {
                MessageRole::User => "you",
                MessageRole::Assistant => "assistant",
            };
            vec![
                message.turn_index.to_string(),
                format!("#{}", message.seq),
                speaker.to_owned(),
                format_minute(message.created_at),
                state(message).to_owned(),
                sanitize_line(&message.content),
            ]
        })
        .collect();
    let columns = [
        TableColumn::Right("NUMBER"),
        TableColumn::Right("EVENT"),
        TableColumn::Left("SPEAKER"),
        TableColumn::Left("TIME"),
        TableColumn::Left("STATE"),
        TableColumn::Flexible("TEXT"),
    ];
    table(screen, &columns, &rows)
}

/// Returns a sentence about the number of redacted secrets; `None` if the number is 0.
pub(crate) fn redaction_text(secrets: u64) -> Option<String> {
    let verb = if secrets == 1 { "was" } else { "were" };
    (secrets > 0).then(|| format!("{} {verb} redacted.", format_count(secrets, "secret")))
}
