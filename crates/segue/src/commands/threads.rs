//! `segue threads`: lists, shows, renames, forks, rewinds, stops, deletes and exports threads. The crate `agent`
//! decides whether an operation is allowed.

pub(crate) mod newest;
pub(crate) mod prune;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use agent::{CancellationToken, FrameSender, ThreadExport, ThreadFilter, ThreadNode, TranscriptFormat};
use jiff::Timestamp;
use protocol::{ParentKind, SHORT_ID_CHARS, Seq, Thread, ThreadId, ThreadState};
use serde::Serialize;
use serde_json::json;
use terminal::{Audience, KeyChoice, TableColumn, ask, sanitize, sanitize_line, shorten, table, width, wrap};

use crate::cli::OutputFormat;
use crate::cli::threads::{ExportFormat, ThreadsCommand};
use crate::commands::chat::message_draft::FILE_BLOCK;
use crate::commands::compact::{active_compaction, active_compaction_change_text};
use crate::commands::{CommandContext, NO_TERMINAL, approval};
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The most columns of a thread's name within a sentence.
const NAME_COLUMNS: usize = 60;

/// Completes the acceptances that a process left half done when it was killed, and closes the handoffs that nobody decided in
/// time, so that no list shows them as waiting.
pub(crate) async fn settle_handoffs(context: &CommandContext) {
    // A journal that cannot be written can still be listed. The next decision about the handoff reports the failure.
    let never = CancellationToken::new();
    let _ = context.agent.runs().complete_decisions(&FrameSender::default(), &never).await;
    let _ = context.agent.handoffs().expire_overdue().await;
}

/// Performs `segue threads`.
///
/// # Errors
/// Fails if the thread does not exist, the operation is refused, the journal cannot be used, or stdout cannot be
/// written.
pub(crate) async fn run(context: &CommandContext, args: ThreadsCommand) -> CommandResult {
    settle_handoffs(context).await;
    match args {
        ThreadsCommand::List { limit } => list_threads(context, limit as usize).await?,
        ThreadsCommand::Show { thread } => show_thread(context, &thread).await?,
        ThreadsCommand::Tree { thread } => show_tree(context, thread.as_deref()).await?,
        ThreadsCommand::Rename { thread, name } => rename_thread(context, &thread, &name.join(" ")).await?,
        ThreadsCommand::Fork { thread, until } => {
            let parent = context.agent.threads().find(&thread).await?;
            let fork = context.agent.threads().fork(parent.thread_id, until).await?;
            print_thread(context, "Forked into", &fork).await?;
        }
        ThreadsCommand::Rewind { thread, keep } => {
            let thread = context.agent.threads().find(&thread).await?;
            rewind_thread(context, thread.thread_id, keep).await?;
        }
        ThreadsCommand::Stop { thread } => stop_run(context, &thread).await?,
        ThreadsCommand::Delete { thread, yes } => {
            let confirmation = if yes { DeleteConfirmation::Skip } else { DeleteConfirmation::Ask };
            return delete_thread(context, &thread, confirmation).await;
        }
        ThreadsCommand::Export { thread, format, output } => {
            export_thread(context, &thread, format, output.as_deref()).await?
        }
    }
    Ok(ExitReason::Success)
}

/// Rewinds a thread to an event, and reports a change of its active compaction. Later events are hidden, not deleted.
async fn rewind_thread(context: &CommandContext, thread_id: ThreadId, keep: Seq) -> Result<(), CliFailure> {
    let before = active_compaction(context, thread_id).await;
    let rewind = context.agent.threads().rewind(thread_id, keep).await?;
    let after = active_compaction(context, thread_id).await;
    if context.format == OutputFormat::Json {
        return context.print_json(&json!({
            "thread_id": thread_id, "keep_seq": rewind.keep_seq, "superseded": rewind.superseded, "marker_seq": after,
        }));
    }
    let screen = &context.screen;
    screen.print_line(format!(
        "The thread is rewound to event {}; {} hidden. Files were not changed.",
        rewind.keep_seq,
        super::import::format_count(rewind.superseded, "message")
    ))?;
    if let Some(text) = active_compaction_change_text(before, after) {
        screen.print_line(wrap(&text, screen.text_columns(), "", "  "))?;
    }
    Ok(())
}

/// Prints the `limit` most recently active threads.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn list_threads(context: &CommandContext, limit: usize) -> Result<(), CliFailure> {
    let threads = context.agent.threads().list(ThreadFilter { limit, ..ThreadFilter::default() }).await?;
    let states = context.agent.threads().display_states(&threads).await?;
    if context.format == OutputFormat::Json {
        let listed: Vec<ThreadListEntry> =
            threads.iter().map(|thread| ThreadListEntry::new(thread, &states)).collect();
        return context.print_json_with_names(&listed);
    }
    if threads.is_empty() {
        context
            .screen
            .print_line("There are no threads. `segue import PATH` imports one; `segue chat` starts one.")?;
        return Ok(());
    }
    let now = Timestamp::now();
    let ids = short_ids(threads.iter().map(|thread| thread.thread_id));
    let rows: Vec<Vec<String>> = threads
        .iter()
        .zip(ids)
        .map(|(thread, id)| {
            let name = match state_mark(ThreadListEntry::new(thread, &states)) {
                "" => thread_title(thread),
                mark => format!("[{mark}] {}", thread_title(thread)),
            };
            vec![id, format_age(now, thread.updated_at), thread.message_count.to_string(), name]
        })
        .collect();
    let columns = [
        TableColumn::Left("ID"),
        TableColumn::Left("ACTIVE"),
        TableColumn::Right("MESSAGES"),
        TableColumn::Flexible("NAME"),
    ];
    context.screen.print_lines(table(&context.screen, &columns, &rows))?;
    if threads.len() == limit {
        let hint = format!("These are the newest {limit}; `--limit N` shows more.");
        context.screen.print_to_stderr(context.screen.style.dim(hint));
    }
    Ok(())
}

/// Prints the properties of a thread, and its pending tool calls.
///
/// # Errors
/// Fails if the thread does not exist, the journal cannot be read, or stdout cannot be written.
async fn show_thread(context: &CommandContext, prefix: &str) -> Result<(), CliFailure> {
    let thread = context.agent.threads().find(prefix).await?;
    let states = context.agent.threads().display_states([&thread]).await?;
    let entry = ThreadListEntry::new(&thread, &states);
    let folder = context.agent.threads().thread_workspace(&thread).await?;
    let folder = folder.map(|folder| folder.to_string_lossy().into_owned());
    if context.format == OutputFormat::Json {
        return context.print_json_with_names(&ThreadReport { entry, folder: folder.as_deref() });
    }
    let format_time = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let mut properties = vec![
        ("id", thread.thread_id.to_string()),
        ("assistant", thread.assistant_id.to_string()),
        ("state", state_word(entry.state).to_owned()),
        ("messages", format!("{} (events: {})", thread.message_count, thread.last_seq)),
        ("created", format_time(thread.created_at)),
        ("active", format_time(thread.updated_at)),
    ];
    let folders = [("folder", folder.as_deref()), ("project", thread.project.as_deref())];
    let known = folders.into_iter().filter_map(|(name, path)| Some((name, sanitize_line(path?))));
    properties.extend(known);
    if let (Some(parent), Some(kind)) = (thread.parent_id, thread.parent_kind) {
        properties.push(("parent", format!("{parent} ({})", kind.as_str())));
    }
    for parent in context.agent.handoffs().merged_parents(&thread).await? {
        properties.push(("parent", format!("{} (handoff, merged)", parent.thread_id)));
    }
    if let Some(notice) = agent::incomplete_import_notice(&thread) {
        properties.push(("warning", sanitize_line(&notice)));
    }
    if let Some(mark) = thread.handoff_mark() {
        let is_unused = mark.pending && mark.child_thread_id == thread.thread_id;
        let state = if is_unused { "waits for its first turn" } else { "done" };
        properties.push(("handoff", format!("{}: {state}", mark.handoff_id)));
    }
    for interrupt in context.agent.runs().pending_interrupts(thread.thread_id).await? {
        if approval::is_tool_approval(&interrupt) {
            let (id, calls) = (interrupt.interrupt_id, approval::call_lines(&interrupt).join("; "));
            properties.push(("pending", format!("{calls} (`segue decide {id}`)")));
        }
    }
    if let Some(prompt) = &thread.first_prompt {
        properties.push(("begins", sanitize_line(&agent::redact(prompt))));
    }
    let screen = &context.screen;
    screen.print_line(screen.style.bold(wrap(&thread_title(&thread), screen.columns, "", "")))?;
    for (name, value) in properties {
        let lead = screen.style.dim(format!("{name:<10}"));
        screen.print_line(wrap(&value, screen.columns, &lead, "          "))?;
    }
    Ok(())
}

/// Prints all threads as trees, or the tree of one thread.
///
/// # Errors
/// Fails if the thread does not exist, the journal cannot be read, or stdout cannot be written.
async fn show_tree(context: &CommandContext, prefix: Option<&str>) -> Result<(), CliFailure> {
    let root = match prefix {
        Some(prefix) => Some(context.agent.threads().find(prefix).await?.thread_id),
        None => None,
    };
    let nodes = context.agent.threads().tree(root).await?;
    if context.format == OutputFormat::Json {
        return context.print_json_with_names(&nodes);
    }
    let mut all_ids = Vec::new();
    collect_ids(&nodes, &mut all_ids);
    all_ids.sort_unstable();
    all_ids.dedup();
    let ids: BTreeMap<ThreadId, String> =
        all_ids.iter().copied().zip(short_ids(all_ids.iter().copied())).collect();
    for node in &nodes {
        show_node(context, node, &ids, "", "")?;
    }
    Ok(())
}

/// Appends the ids of all threads of the trees.
fn collect_ids(nodes: &[ThreadNode], ids: &mut Vec<ThreadId>) {
    for node in nodes {
        ids.push(node.thread.thread_id);
        ids.extend(node.merged_parents.iter().map(|parent| parent.thread_id));
        ids.extend(node.merged_children.iter().map(|child| child.thread_id));
        collect_ids(&node.children, ids);
    }
}

/// Prints a thread and, below it, its children. `own_lead` is the prefix of the thread's own line, and `child_lead` is
/// the prefix of its children's lines.
fn show_node(
    context: &CommandContext,
    node: &ThreadNode,
    ids: &BTreeMap<ThreadId, String>,
    own_lead: &str,
    child_lead: &str,
) -> Result<(), CliFailure> {
    let (screen, thread) = (&context.screen, &node.thread);
    let origin = match thread.parent_kind {
        Some(ParentKind::Fork) => " (fork)",
        Some(ParentKind::Subagent) => " (sub-agent)",
        Some(ParentKind::Handoff) | None => "",
    };
    let short_id = |id: &ThreadId| ids.get(id).map(String::as_str).unwrap_or_default();
    let merged: Vec<&str> = node.merged_parents.iter().map(|parent| short_id(&parent.thread_id)).collect();
    let merged =
        if merged.is_empty() { String::new() } else { format!(" (merged from {})", merged.join(", ")) };
    let lead = format!("{own_lead}{}{origin}{merged}  ", short_id(&thread.thread_id));
    let columns = screen.columns.saturating_sub(width(&lead)).max(10);
    screen.print_line(format!("{}{}", screen.style.dim(&lead), shorten(&thread_title(thread), columns)))?;
    let count = node.children.len() + node.merged_children.len();
    let branch = |index: usize| if index + 1 == count { ("└─ ", "   ") } else { ("├─ ", "│  ") };
    for (index, child) in node.children.iter().enumerate() {
        let (branch, lead) = branch(index);
        show_node(context, child, ids, &format!("{child_lead}{branch}"), &format!("{child_lead}{lead}"))?;
    }
    // The descendants of such a child are printed below its parent.
    for (index, child) in (node.children.len()..).zip(&node.merged_children) {
        let lead = format!("{child_lead}{}{} (merged)  ", branch(index).0, short_id(&child.thread_id));
        let columns = screen.columns.saturating_sub(width(&lead)).max(10);
        screen.print_line(format!(
            "{}{}",
            screen.style.dim(&lead),
            shorten(&thread_title(child), columns)
        ))?;
    }
    Ok(())
}

/// Renames a thread.
///
/// # Errors
/// Fails if the name is empty, the thread does not exist, or the journal cannot be written.
async fn rename_thread(context: &CommandContext, prefix: &str, name: &str) -> Result<(), CliFailure> {
    let name = sanitize_line(name);
    if name.is_empty() {
        return Err(CliFailure::new(ExitReason::User, "rename the thread: the name is empty")
            .with_hint("`segue threads rename THREAD NAME`"));
    }
    let thread = context.agent.threads().find(prefix).await?;
    let renamed = context.agent.threads().rename(thread.thread_id, &name).await?;
    print_thread(context, "Renamed", &renamed).await
}

/// Selects whether the user must confirm a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeleteConfirmation {
    /// The user is asked.
    Ask,
    /// The thread is deleted without a question.
    Skip,
}

/// Deletes a thread after a confirmation. Deleting a thread is the only way to remove its events.
///
/// # Errors
/// Fails if the thread does not exist, the deletion is refused, or the command cannot ask without a terminal.
async fn delete_thread(
    context: &CommandContext,
    prefix: &str,
    confirmation: DeleteConfirmation,
) -> CommandResult {
    let thread = context.agent.threads().find(prefix).await?;
    if confirmation == DeleteConfirmation::Ask && !confirm_deletion(context, &thread).await? {
        context.screen.print_to_stderr("Nothing was deleted.");
        return Ok(ExitReason::Success);
    }
    context.agent.threads().delete(thread.thread_id).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({"deleted": thread.thread_id}))?,
        OutputFormat::Text => {
            let deleted = format!("Deleted {} {}", thread.thread_id, thread_title(&thread));
            context.screen.print_line(shorten(&deleted, context.screen.columns))?;
        }
    }
    context.agent.handoffs().wait_for_mirror().await;
    Ok(ExitReason::Success)
}

/// Asks whether to delete a thread.
///
/// # Errors
/// Fails if the command cannot ask without a terminal.
async fn confirm_deletion(context: &CommandContext, thread: &Thread) -> Result<bool, CliFailure> {
    if context.screen.audience == Audience::Program || context.format == OutputFormat::Json {
        return Err(CliFailure::new(
            ExitReason::User,
            format!("delete thread {}: {NO_TERMINAL}", thread.thread_id),
        )
        .with_hint("add `--yes` to delete it without confirmation"));
    }
    let messages = super::import::format_count(thread.message_count, "message");
    let name = thread_title(thread);
    let of_thread = ThreadFilter { parent_id: Some(thread.thread_id), ..ThreadFilter::default() };
    let children = match context.agent.threads().count(of_thread, None).await? {
        0 => String::new(),
        1 => " A thread that came from it stays, but can no longer search its messages.".to_owned(),
        count => format!(" {count} threads that came from it stay, but can no longer search its messages."),
    };
    let question = format!(
        "Delete `{}` with its {messages}?{children} This cannot be undone.",
        shorten(&name, NAME_COLUMNS)
    );
    context.screen.print_line(wrap(&question, context.screen.columns, "", ""))?;
    let choices = [
        KeyChoice { key: 'y', label: "Delete", answer: true },
        KeyChoice { key: 'n', label: "Keep", answer: false },
    ];
    Ok(ask(&context.screen, &choices, "Keep")?.unwrap_or(false))
}

/// Requests the active run of a thread to stop, also if it is active in another process.
/// The run notices the request when it next polls the journal; this command does not wait for it.
///
/// # Errors
/// Fails if the thread does not exist or the journal cannot be used.
async fn stop_run(context: &CommandContext, prefix: &str) -> Result<(), CliFailure> {
    let thread = context.agent.threads().find(prefix).await?;
    let is_active = context.agent.runs().stop_thread(thread.thread_id).await?;
    match context.format {
        OutputFormat::Json => context.print_json(&json!({"thread_id": thread.thread_id, "asked": is_active})),
        OutputFormat::Text => {
            let text = match is_active {
                true => "The run was asked to stop. Everything that had arrived is kept.",
                false => "No run is active in this thread.",
            };
            Ok(context.screen.print_line(text)?)
        }
    }
}

/// Writes the transcript of a thread to a file or stdout.
///
/// With the global option `--json`, the transcript is always JSON. Without a format, it is also JSON if the name of the
/// file ends with `.json`.
///
/// # Errors
/// Fails if the thread does not exist or the output cannot be written.
async fn export_thread(
    context: &CommandContext,
    prefix: &str,
    format: Option<ExportFormat>,
    output: Option<&Path>,
) -> Result<(), CliFailure> {
    let thread = context.agent.threads().find(prefix).await?;
    let format = match (format, context.format) {
        (Some(ExportFormat::Json), _) | (_, OutputFormat::Json) => TranscriptFormat::Json,
        (Some(ExportFormat::Md), OutputFormat::Text) => TranscriptFormat::Markdown,
        (None, OutputFormat::Text) => output.map_or(TranscriptFormat::Markdown, format_of_file),
    };
    let mut export = context.agent.threads().export(&thread, format).await?;
    if let Some(path) = output {
        return write_export_file(export, path).await;
    }
    while let Some(part) = export.next_part().await? {
        let mut stdout = std::io::stdout().lock();
        match context.screen.audience {
            // Escape sequences in a transcript must not reach the terminal.
            Audience::Person => stdout.write_all(sanitize(&part).as_bytes())?,
            Audience::Program => stdout.write_all(part.as_bytes())?,
        }
    }
    Ok(())
}

/// Returns the format of the transcript in a file of that name.
pub(crate) fn format_of_file(path: &Path) -> TranscriptFormat {
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        true => TranscriptFormat::Json,
        false => TranscriptFormat::Markdown,
    }
}

/// Writes an export to a file. It is complete in a temporary file before the file is changed, so that a failure of the
/// journal does not destroy an earlier export.
///
/// # Errors
/// Fails if the journal cannot be read or the file cannot be written.
pub(crate) async fn write_export_file(mut export: ThreadExport, path: &Path) -> Result<(), CliFailure> {
    let failure = |error: std::io::Error| {
        CliFailure::new(ExitReason::User, format!("write {}: {error}", path.display()))
            .with_hint("name a file that you can write to")
    };
    let mut complete = tempfile::tempfile().map_err(failure)?;
    while let Some(part) = export.next_part().await? {
        complete.write_all(part.as_bytes()).map_err(failure)?;
    }
    complete.rewind().map_err(failure)?;
    std::io::copy(&mut complete, &mut File::create(path).map_err(failure)?).map_err(failure)?;
    Ok(())
}

/// Prints a thread that was changed or created. `action` is the beginning of the line, such as `Renamed`.
async fn print_thread(context: &CommandContext, action: &str, thread: &Thread) -> Result<(), CliFailure> {
    if context.format == OutputFormat::Json {
        return context.print_json_with_names(thread);
    }
    let id = context.short_id(thread.thread_id).await;
    let name = thread_title(thread);
    context.screen.print_line(format!(
        "{action} {}  {}",
        context.screen.style.code(id),
        shorten(&name, NAME_COLUMNS)
    ))?;
    Ok(())
}

/// Prints a warning to stderr if the thread has only the beginning of an imported session.
pub(crate) fn warn_of_incomplete_import(context: &CommandContext, thread: &Thread) {
    if let Some(notice) = agent::incomplete_import_notice(thread) {
        let text = wrap(&sanitize_line(&notice), context.screen.columns, "", "");
        context.screen.print_to_stderr(context.screen.style.warn(text));
    }
}

/// Returns the name of a thread, else its first prompt without attached files. Secrets are redacted, because titles stand
/// in lists and above packages.
pub(crate) fn thread_title(thread: &Thread) -> String {
    let prompt = thread.first_prompt.as_deref().map(|prompt| match prompt.split_once(FILE_BLOCK) {
        Some((text, _)) if !text.trim().is_empty() => text,
        Some(_) | None => prompt,
    });
    sanitize_line(&agent::redact(thread.name.as_deref().or(prompt).unwrap_or("(no messages yet)")))
}

/// The output of `segue threads show --json`.
#[derive(Serialize)]
struct ThreadReport<'a> {
    #[serde(flatten)]
    entry: ThreadListEntry<'a>,
    /// The folder in which the thread's tools work; `null` if it is unknown.
    folder: Option<&'a str>,
}

/// A thread with its state, in the form of `--json`.
#[derive(Debug, Clone, Copy, Serialize)]
struct ThreadListEntry<'a> {
    /// The thread.
    #[serde(flatten)]
    thread: &'a Thread,
    /// The state that a user is shown.
    state: ThreadState,
}

impl<'a> ThreadListEntry<'a> {
    /// Returns the entry of a thread, with its state from `states`.
    fn new(thread: &'a Thread, states: &BTreeMap<ThreadId, ThreadState>) -> Self {
        Self { thread, state: agent::display_state(thread, states) }
    }
}

/// Returns the label in brackets before a thread's name in the list; empty for an idle thread.
fn state_mark(ThreadListEntry { thread, state }: ThreadListEntry<'_>) -> &'static str {
    match state {
        ThreadState::Idle => match thread.handoff_mark() {
            Some(mark) if mark.pending && mark.child_thread_id == thread.thread_id => "fresh",
            Some(_) | None if thread.incomplete_import().is_some() => "import incomplete",
            Some(_) | None => "",
        },
        ThreadState::Running | ThreadState::NeedsInput | ThreadState::Stopped | ThreadState::Error => {
            state_word(state)
        }
    }
}

/// Returns the label of a state. The web page uses the same labels.
const fn state_word(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Idle => "idle",
        ThreadState::Running => "working",
        ThreadState::NeedsInput => "needs you",
        ThreadState::Stopped => "stopped",
        ThreadState::Error => "failed",
    }
}

/// Returns prefixes of the ids, all of the same length, that are distinct among these ids. Only another thread that was
/// created in the same millisecond can have the same prefix.
pub(crate) fn short_ids(ids: impl Iterator<Item = ThreadId>) -> Vec<String> {
    unique_prefixes(ids, SHORT_ID_CHARS)
}

/// Returns distinct prefixes of ids of any kind, like [`short_ids`], with at least `chars_min` characters.
pub(crate) fn unique_prefixes(ids: impl Iterator<Item = impl ToString>, chars_min: usize) -> Vec<String> {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let common = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let length = sorted.windows(2).map(|pair| common(pair) + 1).max().unwrap_or(0).max(chars_min);
    // A prefix that ends in a hyphen looks truncated.
    let ends_in_hyphen = ids.first().is_some_and(|id| id.as_bytes().get(length - 1) == Some(&b'-'));
    let length = if ends_in_hyphen { length + 1 } else { length };
    ids.into_iter().map(|id| id.chars().take(length).collect()).collect()
}

/// Returns the age of a point in time, or its date if it is older than a week. A future time counts as the present,
/// because the clocks of two machines can differ.
pub(crate) fn format_age(now: Timestamp, time: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(time.as_second());
    match seconds {
        ..60 => "just now".to_owned(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        86_400..604_800 => format!("{} d ago", seconds / 86_400),
        _ => time.strftime("%Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_prefixes_are_just_long_enough_to_differ() {
        let check = |ids: &[&str], expected: &[&str]| {
            assert_eq!(short_ids(ids.iter().map(|id| id.parse().unwrap())), expected, "{ids:?}");
        };
        check(&[], &[]);
        check(&["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b"], &["0192f0c1-2d3e"]);
        check(
            &["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b", "0192f0c1-2d3f-7a4b-8c5d-6e7f80910a1b"],
            &["0192f0c1-2d3e", "0192f0c1-2d3f"],
        );
        check(
            &["0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b", "0192f0c1-2d3e-7a4c-8c5d-6e7f80910a1b"],
            &["0192f0c1-2d3e-7a4b", "0192f0c1-2d3e-7a4c"],
        );
    }

    #[test]
    fn h1_a_shown_id_is_not_the_beginning_of_an_id_that_is_created_later() {
        let created_at = |millis: u64| -> ThreadId {
            let time = format!("{millis:012x}");
            format!("{}-{}-7a4b-8c5d-6e7f80910a1b", &time[..8], &time[8..]).parse().unwrap()
        };
        let now = 1_790_000_000_000;
        let shown = short_ids([created_at(now)].into_iter()).remove(0);
        for later in [1, 1_000, 60_000] {
            let id = created_at(now + later).to_string();
            assert!(!id.starts_with(&shown), "{id} begins with {shown}");
        }
    }

    #[test]
    fn an_age_is_shown_in_its_largest_unit() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let check = |time: &str, expected: &str| assert_eq!(format_age(now, time.parse().unwrap()), expected);
        check("2026-11-21T11:59:30Z", "just now");
        check("2026-11-21T12:05:00Z", "just now");
        check("2026-11-21T11:30:00Z", "30 min ago");
        check("2026-11-21T09:00:00Z", "3 h ago");
        check("2026-11-18T09:00:00Z", "3 d ago");
        check("2026-10-01T09:00:00Z", "2026-10-01");
    }
}
