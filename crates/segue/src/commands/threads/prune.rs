//! `segue prune`: deletes threads that were inactive for a long time. The crate `agent` selects them.

use agent::{NamedThreadPolicy, PrunePlan, PruneReport};
use jiff::Timestamp;
use protocol::OwnerScope;
use serde_json::{Value, json};
use terminal::{
    Audience, KeyChoice, ProgressUnit, TableColumn, WatchControl, WatchEvent, ask, sanitize_line, table,
    watch, wrap,
};

use super::format_age;
use crate::cli::OutputFormat;
use crate::cli::database::PruneArgs;
use crate::commands::agent_work::progress_display;
use crate::commands::import::{format_byte_size, format_count};
use crate::commands::{CommandContext, NO_TERMINAL};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most threads that a dry run lists; the others are counted.
const SHOWN_MAX: usize = 50;

/// Performs `segue prune`.
///
/// The plan is made before the confirmation. A thread that becomes active after that is not deleted. With `--vacuum`,
/// the space of the deleted rows is returned to the file system.
///
/// # Errors
/// Fails if the deletion is not confirmed and the command cannot ask without a terminal, if the journal cannot be used,
/// or if the user stops the deletion.
pub(crate) async fn run(context: &CommandContext, args: PruneArgs) -> CommandResult {
    let named = if args.keep_named { NamedThreadPolicy::Keep } else { NamedThreadPolicy::Prune };
    let agent = match args.everyone {
        true => context.agent.scoped(OwnerScope::Everyone),
        false => context.agent.clone(),
    };
    let plan = agent.threads().prune_plan(args.older_than.resolve(Timestamp::now()), named).await?;
    if args.dry_run {
        return show_dry_run(context, &plan);
    }
    if !plan.threads.is_empty() && !args.yes && !confirm_pruning(context, &plan)? {
        context.screen.print_line("Nothing was deleted.")?;
        return Ok(ExitReason::Success);
    }
    let bar = progress_display(&context.screen, context.format, ProgressUnit::Steps);
    let pruned = watch(
        async |frames, cancel| agent.threads().prune(&plan, &frames, &cancel).await,
        |event| {
            if let WatchEvent::Frame(_, frame) = event {
                bar.update(frame);
            }
            Ok(WatchControl::Continue)
        },
    )
    .await??;
    drop(bar);
    let is_shrunk = args.vacuum && !pruned.is_stopped;
    if is_shrunk {
        agent.admin().shrink_journal().await?;
    }
    print_result(context, &plan, &pruned, is_shrunk.then_some(DatabaseShrunk))?;
    context.agent.handoffs().wait_for_mirror().await;
    match pruned.is_stopped {
        true => Err(CliFailure::cancelled("delete all threads of the plan")
            .with_hint("run the same command to continue")),
        false => Ok(ExitReason::Success),
    }
}

/// Prints the threads that would be deleted, and the totals.
///
/// # Errors
/// Fails if stdout cannot be written.
fn show_dry_run(context: &CommandContext, plan: &PrunePlan) -> CommandResult {
    if context.format == OutputFormat::Json {
        context.print_json_with_names(&plan)?;
        return Ok(ExitReason::Success);
    }
    let screen = &context.screen;
    let ids = super::short_ids(plan.threads.iter().map(|thread| thread.thread_id));
    let now = Timestamp::now();
    let row = |(thread, id): (&agent::PrunableThread, &String)| {
        vec![
            id.clone(),
            format_age(now, thread.updated_at),
            thread.messages.to_string(),
            format_byte_size(thread.size.bytes),
            sanitize_line(&agent::redact(thread.name.as_deref().unwrap_or("(no name)"))),
        ]
    };
    let rows: Vec<Vec<String>> = plan.threads.iter().zip(&ids).take(SHOWN_MAX).map(row).collect();
    let columns = [
        TableColumn::Left("ID"),
        TableColumn::Left("ACTIVE"),
        TableColumn::Right("MESSAGES"),
        TableColumn::Right("SIZE"),
        TableColumn::Flexible("NAME"),
    ];
    screen.print_lines(table(screen, &columns, &rows))?;
    if let Some(more) = plan.threads.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        screen.print_line(format!("… and {more} more; `--json` lists them all"))?;
    }
    let text = format!("{} would be deleted{}.", prunable_text(plan), kept_text(plan));
    screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?;
    Ok(ExitReason::Success)
}

/// Asks whether to delete the threads of the plan.
///
/// # Errors
/// Fails if the command cannot ask without a terminal.
fn confirm_pruning(context: &CommandContext, plan: &PrunePlan) -> Result<bool, CliFailure> {
    let threads = format_count(plan.threads.len() as u64, "thread");
    if context.screen.audience == Audience::Program || context.format == OutputFormat::Json {
        return Err(CliFailure::new(ExitReason::User, format!("delete {threads}: {NO_TERMINAL}"))
            .with_hint("add `--yes` to delete them without confirmation, or `--dry-run` to list them"));
    }
    let text = format!("Delete {}{}? This cannot be undone.", prunable_text(plan), kept_text(plan));
    context.screen.print_line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    let choices = [
        KeyChoice { key: 'y', label: "Delete", answer: true },
        KeyChoice { key: 'n', label: "Keep", answer: false },
    ];
    Ok(ask(&context.screen, &choices, "Keep")?.unwrap_or(false))
}

/// Evidence that the freed space of the database file was returned to the file system. Only then does the report omit
/// the hint about `--vacuum`.
struct DatabaseShrunk;

/// Prints the number and the size of the deleted threads, and the old threads that stay.
///
/// # Errors
/// Fails if stdout cannot be written.
fn print_result(
    context: &CommandContext,
    plan: &PrunePlan,
    pruned: &PruneReport,
    shrunk: Option<DatabaseShrunk>,
) -> Result<(), CliFailure> {
    if context.format == OutputFormat::Json {
        let mut report = serde_json::to_value(pruned)?;
        if let Value::Object(fields) = &mut report {
            fields.insert("before".to_owned(), json!(plan.before));
            fields.insert("kept".to_owned(), json!(plan.kept));
            fields.insert("vacuumed".to_owned(), json!(shrunk.is_some()));
        }
        return context.print_json_with_names(&report);
    }
    let mut text = format!(
        "Deleted {} with {} ({}){}.",
        format_count(pruned.threads as u64, "thread"),
        format_count(pruned.size.events, "event"),
        format_byte_size(pruned.size.bytes),
        kept_text(plan)
    );
    if pruned.came_to_use > 0 {
        let threads = format_count(pruned.came_to_use as u64, "thread");
        text.push_str(&format!(" {threads} became active meanwhile and stayed."));
    }
    if pruned.threads > 0 && shrunk.is_none() && context.agent.admin().connection_metrics().is_none() {
        text.push_str(
            " The file keeps its size, and the freed space is reused; `--vacuum` makes the file smaller.",
        );
    }
    context.screen.print_line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    Ok(())
}

/// Returns the number and the size of the threads to delete.
fn prunable_text(plan: &PrunePlan) -> String {
    let (mut events, mut size) = (0, 0);
    for thread in &plan.threads {
        events += thread.size.events;
        size += thread.size.bytes;
    }
    let threads = format_count(plan.threads.len() as u64, "thread");
    format!("{threads} with {} ({})", format_count(events, "event"), format_byte_size(size))
}

/// Returns the number of old threads that stay, with the reasons; empty if no old thread stays.
fn kept_text(plan: &PrunePlan) -> String {
    let reasons = [
        (plan.kept.in_use, "with a run or a question"),
        (plan.kept.named, "with a name"),
        (plan.kept.with_children, "whose children stay"),
    ];
    let kept: Vec<String> = reasons
        .into_iter()
        .filter(|(threads, _)| *threads > 0)
        .map(|(threads, reason)| format!("{threads} {reason}"))
        .collect();
    if kept.is_empty() { String::new() } else { format!("; other old threads stay: {}", kept.join(", ")) }
}
