//! `segue threads`: list, show, tree, rename, fork, delete, export.

pub(crate) mod newest;
pub(crate) mod prune;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use agent::{ThreadFilter, ThreadNode};
use jiff::Timestamp;
use protocol::{ParentKind, Seq, Thread, ThreadId, ThreadState};
use serde::Serialize;
use serde_json::json;
use terminal::{Audience, Choice, Column, ask, one_line, safe, shorten, table, width, wrap};

use crate::cli::{ExportFormat, Format, Threads};
use crate::commands::chat::message::FILE_BLOCK;
use crate::commands::compact::{in_effect, told_in_effect};
use crate::commands::{Context, approval};
use crate::exit::{Code, Failure, Outcome};

/// The fewest characters of an id that are shown.
const ID_CHARS_MIN: usize = 8;

/// Columns of a thread's name in a sentence.
const NAME_COLUMNS: usize = 60;

/// Performs the command.
pub(crate) async fn run(context: &Context, args: Threads) -> Outcome {
    match args {
        Threads::List { limit } => list(context, limit as usize).await?,
        Threads::Show { thread } => show(context, &thread).await?,
        Threads::Tree { thread } => tree(context, thread.as_deref()).await?,
        Threads::Rename { thread, name } => rename(context, &thread, &name.join(" ")).await?,
        Threads::Fork { thread, until } => {
            let parent = context.agent.threads().find(&thread).await?;
            let fork = context.agent.threads().fork(parent.thread_id, until).await?;
            tell(context, "Forked into", &fork).await?;
        }
        Threads::Rewind { thread, keep } => {
            let thread = context.agent.threads().find(&thread).await?;
            rewind(context, thread.thread_id, keep).await?;
        }
        Threads::Stop { thread } => stop(context, &thread).await?,
        Threads::Delete { thread, yes } => {
            return delete(context, &thread, if yes { Ask::Never } else { Ask::First }).await;
        }
        Threads::Export { thread, format, output } => {
            export(context, &thread, format, output.as_deref()).await?
        }
    }
    Ok(Code::Done)
}

async fn rewind(context: &Context, thread_id: ThreadId, keep: Seq) -> Result<(), Failure> {
    let before = in_effect(context, thread_id).await;
    let done = context.agent.threads().rewind(thread_id, keep).await?;
    let after = in_effect(context, thread_id).await;
    if context.format == Format::Json {
        return context.json(&json!({
            "thread_id": thread_id, "keep_seq": done.keep_seq, "superseded": done.superseded, "marker_seq": after,
        }));
    }
    let screen = &context.screen;
    screen.line(format!(
        "Back at event {}; {} out of sight, files stay as they are.",
        done.keep_seq,
        super::import::count(done.superseded, "message")
    ))?;
    if let Some(text) = told_in_effect(before, after) {
        screen.line(wrap(&text, screen.text_columns(), "", "  "))?;
    }
    Ok(())
}

/// Shows a page of threads, most recently active first.
pub(crate) async fn list(context: &Context, limit: usize) -> Result<(), Failure> {
    let threads = context.agent.threads().list(ThreadFilter { limit, ..ThreadFilter::default() }).await?;
    let states = context.agent.threads().display_states(&threads).await?;
    if context.format == Format::Json {
        let listed: Vec<ListedThread> =
            threads.iter().map(|thread| ListedThread::of(thread, &states)).collect();
        return context.json(&listed);
    }
    if threads.is_empty() {
        context
            .screen
            .line("There are no threads. `segue import PATH` brings one in; `segue chat` begins one.")?;
        return Ok(());
    }
    let now = Timestamp::now();
    let ids = short_ids(threads.iter().map(|thread| thread.thread_id));
    let rows: Vec<Vec<String>> = threads
        .iter()
        .zip(ids)
        .map(|(thread, id)| {
            let name = match mark(ListedThread::of(thread, &states)) {
                "" => title(thread),
                mark => format!("[{mark}] {}", title(thread)),
            };
            vec![id, ago(now, thread.updated_at), thread.message_count.to_string(), name]
        })
        .collect();
    let columns =
        [Column::Left("ID"), Column::Left("ACTIVE"), Column::Right("MESSAGES"), Column::Flexible("NAME")];
    context.screen.lines(table(&context.screen, &columns, &rows))?;
    if threads.len() == limit {
        context.screen.note(context.screen.style.dim(format!("The newest {limit}; `--limit N` shows more.")));
    }
    Ok(())
}

async fn show(context: &Context, prefix: &str) -> Result<(), Failure> {
    let thread = context.agent.threads().find(prefix).await?;
    let states = context.agent.threads().display_states([&thread]).await?;
    let listed = ListedThread::of(&thread, &states);
    if context.format == Format::Json {
        return context.json(&listed);
    }
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let mut facts = vec![
        ("id", thread.thread_id.to_string()),
        ("assistant", thread.assistant_id.to_string()),
        ("state", word(listed.state).to_owned()),
        ("messages", format!("{} (events: {})", thread.message_count, thread.last_seq)),
        ("created", time(thread.created_at)),
        ("active", time(thread.updated_at)),
    ];
    if let (Some(parent), Some(kind)) = (thread.parent_id, thread.parent_kind) {
        facts.push(("parent", format!("{parent} ({})", kind.as_str())));
    }
    if let Some(mark) = thread.handoff() {
        let waits = mark.pending && mark.child_thread_id == thread.thread_id;
        let state = if waits { "its summary goes into the first turn" } else { "done" };
        facts.push(("handoff", format!("{}: {state}", mark.handoff_id)));
    }
    for asked in context.agent.runs().pending_interrupts(thread.thread_id).await? {
        if approval::is_about_calls(&asked) {
            let (id, calls) = (asked.interrupt_id, approval::call_lines(&asked).join("; "));
            facts.push(("waits", format!("{calls} (`segue decide {id}`)")));
        }
    }
    if let Some(prompt) = &thread.first_prompt {
        facts.push(("begins", one_line(prompt)));
    }
    let screen = &context.screen;
    screen.line(screen.style.bold(wrap(&title(&thread), screen.columns, "", "")))?;
    for (name, value) in facts {
        let lead = screen.style.dim(format!("{name:<10}"));
        screen.line(wrap(&value, screen.columns, &lead, "          "))?;
    }
    Ok(())
}

async fn tree(context: &Context, prefix: Option<&str>) -> Result<(), Failure> {
    let root = match prefix {
        Some(prefix) => Some(context.agent.threads().find(prefix).await?.thread_id),
        None => None,
    };
    let nodes = context.agent.threads().tree(root).await?;
    if context.format == Format::Json {
        return context.json(&nodes);
    }
    let mut all = Vec::new();
    gather(&nodes, &mut all);
    let ids: BTreeMap<ThreadId, String> = all.iter().copied().zip(short_ids(all.iter().copied())).collect();
    for node in &nodes {
        show_node(context, node, &ids, "", "")?;
    }
    Ok(())
}

fn gather(nodes: &[ThreadNode], ids: &mut Vec<ThreadId>) {
    for node in nodes {
        ids.push(node.thread.thread_id);
        gather(&node.children, ids);
    }
}

fn show_node(
    context: &Context,
    node: &ThreadNode,
    ids: &BTreeMap<ThreadId, String>,
    own: &str,
    below: &str,
) -> Result<(), Failure> {
    let (screen, thread) = (&context.screen, &node.thread);
    let how = match thread.parent_kind {
        Some(ParentKind::Fork) => " (fork)",
        Some(ParentKind::Subagent) => " (sub-agent)",
        Some(ParentKind::Handoff) | None => "",
    };
    let id = ids.get(&thread.thread_id).map(String::as_str).unwrap_or_default();
    let lead = format!("{own}{id}{how}  ");
    let columns = screen.columns.saturating_sub(width(&lead)).max(10);
    screen.line(format!("{}{}", screen.style.dim(&lead), shorten(&title(thread), columns)))?;
    for (at, child) in node.children.iter().enumerate() {
        let is_last = at + 1 == node.children.len();
        let (mark, lead) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        show_node(context, child, ids, &format!("{below}{mark}"), &format!("{below}{lead}"))?;
    }
    Ok(())
}

async fn rename(context: &Context, prefix: &str, name: &str) -> Result<(), Failure> {
    let name = one_line(name);
    if name.is_empty() {
        return Err(Failure::new(Code::User, "rename the thread: the name is empty")
            .with_hint("`segue threads rename THREAD NAME`"));
    }
    let thread = context.agent.threads().find(prefix).await?;
    let renamed = context.agent.threads().rename(thread.thread_id, &name).await?;
    tell(context, "Renamed", &renamed).await
}

/// Whether a person is asked before something is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    First,
    Never,
}

async fn delete(context: &Context, prefix: &str, confirm: Ask) -> Outcome {
    let thread = context.agent.threads().find(prefix).await?;
    if confirm == Ask::First && !confirmed(context, &thread)? {
        context.screen.note("Nothing was deleted.");
        return Ok(Code::Done);
    }
    context.agent.threads().delete(thread.thread_id).await?;
    match context.format {
        Format::Json => context.json(&json!({"deleted": thread.thread_id}))?,
        Format::Text => {
            let deleted = format!("Deleted {} {}", thread.thread_id, title(&thread));
            context.screen.line(shorten(&deleted, context.screen.columns))?;
        }
    }
    context.agent.handoffs().rest_mirror().await;
    Ok(Code::Done)
}

fn confirmed(context: &Context, thread: &Thread) -> Result<bool, Failure> {
    if context.screen.audience == Audience::Program || context.format == Format::Json {
        return Err(Failure::new(
            Code::User,
            format!("delete thread {}: nobody can be asked", thread.thread_id),
        )
        .with_hint("add `--yes` to delete it without a question"));
    }
    let messages = super::import::count(thread.message_count, "message");
    let name = title(thread);
    let question =
        format!("Delete `{}` with its {messages}? This cannot be undone.", shorten(&name, NAME_COLUMNS));
    context.screen.line(wrap(&question, context.screen.columns, "", ""))?;
    let choices = [
        Choice { key: 'y', label: "Delete", answer: true },
        Choice { key: 'n', label: "Keep", answer: false },
    ];
    Ok(ask(&context.screen, &choices, "Keep")?.unwrap_or(false))
}

async fn stop(context: &Context, prefix: &str) -> Result<(), Failure> {
    let thread = context.agent.threads().find(prefix).await?;
    let asked = context.agent.runs().stop(thread.thread_id).await?;
    match (context.format, asked) {
        (Format::Json, asked) => context.json(&json!({"thread_id": thread.thread_id, "asked": asked})),
        (Format::Text, true) => Ok(context.screen.line("Asked to stop; what had arrived is kept.")?),
        (Format::Text, false) => Ok(context.screen.line("Nothing runs there.")?),
    }
}

async fn export(
    context: &Context,
    prefix: &str,
    format: ExportFormat,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let thread = context.agent.threads().find(prefix).await?;
    let entries = context.agent.threads().history(thread.thread_id).await?;
    let text = match (format, context.format) {
        (ExportFormat::Md, Format::Text) => agent::export_markdown(&thread, &entries),
        (ExportFormat::Json, _) | (ExportFormat::Md, Format::Json) => agent::export_json(&thread, entries)?,
    };
    match output {
        Some(path) => std::fs::write(path, text).map_err(|error| {
            Failure::new(Code::User, format!("write {}: {error}", path.display()))
                .with_hint("name a file you can write")
        }),
        None => {
            let mut stdout = std::io::stdout().lock();
            match context.screen.audience {
                Audience::Person => stdout.write_all(safe(&text).as_bytes())?,
                Audience::Program => stdout.write_all(text.as_bytes())?,
            }
            Ok(())
        }
    }
}

async fn tell(context: &Context, what: &str, thread: &Thread) -> Result<(), Failure> {
    if context.format == Format::Json {
        return context.json(thread);
    }
    let id = context.short_id(thread.thread_id).await;
    let name = title(thread);
    context.screen.line(format!(
        "{what} {}  {}",
        context.screen.style.code(id),
        shorten(&name, NAME_COLUMNS)
    ))?;
    Ok(())
}

/// Returns what a thread is called, or how it begins; files that went along with a prompt are no beginning.
pub(crate) fn title(thread: &Thread) -> String {
    let prompt = thread.first_prompt.as_deref().map(|prompt| match prompt.split_once(FILE_BLOCK) {
        Some((words, _)) if !words.trim().is_empty() => words,
        Some(_) | None => prompt,
    });
    one_line(thread.name.as_deref().or(prompt).unwrap_or("(nothing was said yet)"))
}

/// A thread with its state, as `--json` prints it.
#[derive(Debug, Clone, Copy, Serialize)]
struct ListedThread<'a> {
    #[serde(flatten)]
    thread: &'a Thread,
    state: ThreadState,
}

impl<'a> ListedThread<'a> {
    fn of(thread: &'a Thread, states: &BTreeMap<ThreadId, ThreadState>) -> Self {
        Self { thread, state: agent::state_of(thread, states) }
    }
}

/// Returns the word in brackets before a thread's name in the list; empty where there is nothing to do.
fn mark(ListedThread { thread, state }: ListedThread<'_>) -> &'static str {
    match state {
        ThreadState::Idle => match thread.handoff() {
            Some(mark) if mark.pending && mark.child_thread_id == thread.thread_id => "fresh",
            Some(_) | None => "",
        },
        ThreadState::Running | ThreadState::NeedsYou | ThreadState::Stopped | ThreadState::Error => {
            word(state)
        }
    }
}

/// Returns the word that people read for a state; the page uses the same.
const fn word(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Idle => "idle",
        ThreadState::Running => "working",
        ThreadState::NeedsYou => "needs you",
        ThreadState::Stopped => "stopped",
        ThreadState::Error => "failed",
    }
}

/// Returns the beginnings of the ids, all of one length, that are distinct among them.
pub(crate) fn short_ids(ids: impl Iterator<Item = ThreadId>) -> Vec<String> {
    beginnings(ids, ID_CHARS_MIN)
}

/// Returns the beginnings of ids of any sort, of that many characters at least, as [`short_ids`] does.
pub(crate) fn beginnings(ids: impl Iterator<Item = impl ToString>, chars_min: usize) -> Vec<String> {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let common = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let needed = sorted.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(chars_min);
    // An id that ends in a hyphen looks cut off.
    let ends_in_hyphen = ids.first().is_some_and(|id| id.as_bytes().get(needed - 1) == Some(&b'-'));
    let needed = if ends_in_hyphen { needed + 1 } else { needed };
    ids.into_iter().map(|id| id.chars().take(needed).collect()).collect()
}

/// Returns how long ago something was, or its date.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(at.as_second());
    match seconds {
        ..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..604_800 => format!("{} d ago", seconds / 86_400),
        _ => at.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_long_as_they_must_be_to_differ() {
        let check = |ids: &[&str], expected: &[&str]| {
            assert_eq!(short_ids(ids.iter().map(|id| id.parse().unwrap())), expected, "{ids:?}");
        };
        check(&[], &[]);
        check(&["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b"], &["0192f0c1"]);
        check(
            &["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b", "0192f0c1-2d3f-7a4b-8c5d-6e7f80910a1b"],
            &["0192f0c1-2d3e", "0192f0c1-2d3f"],
        );
        check(
            &["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b", "0192f0c2-2d3f-7a4b-8c5d-6e7f80910a1b"],
            &["0192f0c1", "0192f0c2"],
        );
    }

    #[test]
    fn times_are_told_as_people_do() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let check = |at: &str, expected: &str| assert_eq!(ago(now, at.parse().unwrap()), expected);
        check("2026-11-21T11:59:30Z", "just now");
        check("2026-11-21T12:05:00Z", "just now");
        check("2026-11-21T11:30:00Z", "30 min ago");
        check("2026-11-21T09:00:00Z", "3 h ago");
        check("2026-11-18T09:00:00Z", "3 d ago");
        check("2026-10-01T09:00:00Z", "2026-10-01");
    }
}
