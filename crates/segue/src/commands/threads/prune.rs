//! `segue prune`: which threads nobody used for long, and deleting them. Which these are is decided by the agent.

use agent::{Named, Prunable, Pruned};
use jiff::Timestamp;
use protocol::Scope;
use serde_json::{Value, json};
use terminal::{Audience, Choice, Column, Seen, Then, Unit, ask, one_line, table, watch, wrap};

use super::ago;
use crate::cli::Format;
use crate::cli::database::Prune;
use crate::commands::Context;
use crate::commands::import::{bytes, count};
use crate::commands::work::progress;
use crate::exit::{Code, Failure, Outcome};

/// The most threads that are shown one by one.
const SHOWN_MAX: usize = 50;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Prune) -> Outcome {
    let named = if args.keep_named { Named::Kept } else { Named::Pruned };
    let agent = match args.everyone {
        true => context.agent.scoped(Scope::Everyone),
        false => context.agent.clone(),
    };
    let prunable = agent.threads().prunable(args.older_than.seen_from(Timestamp::now()), named).await?;
    if args.dry_run {
        return dry(context, &prunable);
    }
    if !prunable.threads.is_empty() && !args.yes && !confirmed(context, &prunable)? {
        context.screen.line("Kept.")?;
        return Ok(Code::Done);
    }
    let bar = progress(&context.screen, context.format, Unit::Steps);
    let pruned = watch(
        async |frames, cancel| agent.threads().prune(&prunable, &frames, &cancel).await,
        |seen| {
            if let Seen::Frame(_, frame) = seen {
                bar.show(frame);
            }
            Ok(Then::GoOn)
        },
    )
    .await??;
    drop(bar);
    let is_shrunk = args.vacuum && !pruned.is_stopped;
    if is_shrunk {
        agent.admin().shrink_journal().await?;
    }
    tell(context, &prunable, &pruned, is_shrunk.then_some(Shrunk))?;
    context.agent.handoffs().rest_mirror().await;
    match pruned.is_stopped {
        true => Err(Failure::cancelled("delete all of them").with_hint("the same command goes on")),
        false => Ok(Code::Done),
    }
}

fn dry(context: &Context, prunable: &Prunable) -> Outcome {
    if context.format == Format::Json {
        context.json(&prunable)?;
        return Ok(Code::Done);
    }
    let screen = &context.screen;
    let ids = super::short_ids(prunable.threads.iter().map(|thread| thread.thread_id));
    let now = Timestamp::now();
    let row = |(thread, id): (&agent::PrunableThread, &String)| {
        vec![
            id.clone(),
            ago(now, thread.updated_at),
            thread.messages.to_string(),
            bytes(thread.size.bytes),
            one_line(thread.name.as_deref().unwrap_or("(no name)")),
        ]
    };
    let rows: Vec<Vec<String>> = prunable.threads.iter().zip(&ids).take(SHOWN_MAX).map(row).collect();
    let columns = [
        Column::Left("ID"),
        Column::Left("ACTIVE"),
        Column::Right("MESSAGES"),
        Column::Right("SIZE"),
        Column::Flexible("NAME"),
    ];
    screen.lines(table(screen, &columns, &rows))?;
    if let Some(more) = prunable.threads.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        screen.line(format!("… and {more} more; `--json` lists them all"))?;
    }
    let text = format!("{} would be deleted{}.", summed(prunable), kept(prunable));
    screen.line(wrap(&text, screen.text_columns(), "", "  "))?;
    Ok(Code::Done)
}

fn confirmed(context: &Context, prunable: &Prunable) -> Result<bool, Failure> {
    let threads = count(prunable.threads.len() as u64, "thread");
    if context.screen.audience == Audience::Program || context.format == Format::Json {
        return Err(Failure::new(Code::User, format!("delete {threads}: nobody can be asked"))
            .with_hint("add `--yes` to delete them without a question, or `--dry-run` to see them"));
    }
    let text = format!("Delete {}{}? This cannot be undone.", summed(prunable), kept(prunable));
    context.screen.line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    let choices = [
        Choice { key: 'y', label: "Delete", answer: true },
        Choice { key: 'n', label: "Keep", answer: false },
    ];
    Ok(ask(&context.screen, &choices, "Keep")?.unwrap_or(false))
}

/// The file was made smaller.
struct Shrunk;

fn tell(
    context: &Context,
    prunable: &Prunable,
    pruned: &Pruned,
    file: Option<Shrunk>,
) -> Result<(), Failure> {
    if context.format == Format::Json {
        let mut told = serde_json::to_value(pruned)?;
        if let Value::Object(fields) = &mut told {
            fields.insert("before".to_owned(), json!(prunable.before));
            fields.insert("kept".to_owned(), json!(prunable.kept));
            fields.insert("vacuumed".to_owned(), json!(file.is_some()));
        }
        return context.json(&told);
    }
    let mut text = format!(
        "Deleted {} with {} ({}){}.",
        count(pruned.threads as u64, "thread"),
        count(pruned.size.events, "event"),
        bytes(pruned.size.bytes),
        kept(prunable)
    );
    if pruned.came_to_use > 0 {
        text.push_str(&format!(" {} came to be used meanwhile.", count(pruned.came_to_use as u64, "thread")));
    }
    if pruned.threads > 0 && file.is_none() && context.agent.admin().connections().is_none() {
        text.push_str(" The file keeps its size and fills again; `--vacuum` makes it smaller.");
    }
    context.screen.line(wrap(&text, context.screen.text_columns(), "", "  "))?;
    Ok(())
}

/// Says how much goes.
fn summed(prunable: &Prunable) -> String {
    let (mut events, mut size) = (0, 0);
    for thread in &prunable.threads {
        events += thread.size.events;
        size += thread.size.bytes;
    }
    let threads = count(prunable.threads.len() as u64, "thread");
    format!("{threads} with {} ({})", count(events, "event"), bytes(size))
}

/// Says what stays though it is old.
fn kept(prunable: &Prunable) -> String {
    let reasons = [
        (prunable.kept.in_use, "with work or a question"),
        (prunable.kept.named, "with a name"),
        (prunable.kept.with_children, "from which one came that stays"),
    ];
    let told: Vec<String> = reasons
        .into_iter()
        .filter(|(threads, _)| *threads > 0)
        .map(|(threads, why)| format!("{threads} {why}"))
        .collect();
    if told.is_empty() { String::new() } else { format!("; older ones stay: {}", told.join(", ")) }
}
