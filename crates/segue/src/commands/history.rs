//! `segue history`: the messages of a thread, one page at a time, including compacted messages. `entry` prints one
//! entry, `markers` loads the markers around a page, and `recall` and `search` find messages.

pub(crate) mod entry;
pub(crate) mod markers;
pub(crate) mod recall;
pub(crate) mod search;

use agent::{
    HandoffOrigin, HistoryEntry, HistoryFilter, HistoryItem, HistoryPage, HistoryQuery, SupersededVisibility,
};
use protocol::{EventType, HandoffId, IncompleteImport, RunFeedback, RunStatus, Seq, ThreadId};
use serde::Serialize;
use terminal::marker::CardFold;
use terminal::{facts, sanitize_line, summary, wrap};

use crate::cli::OutputFormat;
use crate::cli::history::HistoryArgs;
use crate::commands::{CommandContext, threads};
use crate::exit::{CliFailure, CommandResult, ExitReason};
use entry::{EntryDisplay, show_entry};
use markers::CompactionMarkers;

/// The most entries that are printed to catch up after a live view has missed frames.
const CATCH_UP_ENTRIES: usize = 200;

/// The output of `--json`.
#[derive(Serialize)]
struct HistoryPageReport<'a> {
    /// The entries.
    #[serde(flatten)]
    page: &'a HistoryPage,
    /// The summary that the thread began with; absent unless a handoff created the thread and the page is its beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    began_with: Option<HandoffBeginning<'a>>,
    /// The summaries of other threads that were handed off into this one, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    merged: Vec<HandoffBeginning<'a>>,
    /// The mark of a thread that has only the beginning of an imported session.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete_import: Option<IncompleteImport>,
    /// The first event of the page; `null` if the page is empty.
    first_seq: Option<Seq>,
    /// The last event of the page; `null` if the page is empty.
    last_seq: Option<Seq>,
    /// The markers that cover messages of this page, including markers on other pages. Only with `--expand`.
    #[serde(skip_serializing_if = "Option::is_none")]
    markers: Option<&'a [HistoryEntry]>,
}

/// The beginning of a thread that a handoff created.
#[derive(Serialize)]
struct HandoffBeginning<'a> {
    /// The handoff.
    handoff_id: HandoffId,
    /// The thread that was handed off.
    parent_thread_id: ThreadId,
    /// The accepted text, which the thread's requests contain.
    package_md: &'a str,
    /// The text of `package_md`, under its name of version 1.
    summary_md: &'a str,
    /// The hash of the text.
    summary_sha256: &'a str,
}

impl<'a> HandoffBeginning<'a> {
    /// Returns the fields of the report.
    fn from_origin(origin: &'a HandoffOrigin) -> Self {
        Self {
            handoff_id: origin.handoff.handoff_id,
            parent_thread_id: origin.handoff.parent_thread_id,
            package_md: &origin.proposal.package_md,
            summary_md: &origin.proposal.package_md,
            summary_sha256: &origin.proposal.summary_sha256,
        }
    }
}

/// Prints the summary that a thread began with.
///
/// # Errors
/// Fails if stdout cannot be written.
async fn show_origin(context: &CommandContext, origin: &HandoffOrigin) -> Result<(), CliFailure> {
    let screen = &context.screen;
    let parent = context.short_id(origin.handoff.parent_thread_id).await;
    let proposal = &origin.proposal;
    screen.print_line(screen.style.dim(format!("Continues thread {parent} with this summary:")))?;
    screen.print_line(screen.style.bold(sanitize_line(&proposal.summary_json.title)))?;
    screen.print_line(summary::render_body(screen, &proposal.summary_json))?;
    screen.print_lines(facts::render_full(screen, proposal))?;
    if origin.updated.is_some() {
        let note = format!(
            "Lines of this summary were updated since. `segue handoff --show {}` shows it as it is now.",
            origin.handoff.handoff_id
        );
        screen.print_line(screen.style.dim(wrap(&note, screen.text_columns(), "", "  ")))?;
    }
    screen.print_line("")?;
    Ok(())
}

/// Performs `segue history`.
///
/// # Errors
/// Fails if the thread does not exist, or if the journal cannot be read or stdout cannot be written.
pub(crate) async fn run(context: &CommandContext, args: HistoryArgs) -> CommandResult {
    threads::settle_handoffs(context).await;
    let thread = context.agent.threads().find(&args.thread).await?;
    let thread_id = thread.thread_id;
    let superseded = if args.all { SupersededVisibility::Shown } else { SupersededVisibility::Hidden };
    let limit =
        if args.around.is_some() { HistoryArgs::LIMIT_AROUND_DEFAULT } else { HistoryArgs::LIMIT_DEFAULT };
    let query = HistoryQuery {
        before_seq: args.before,
        after_seq: args.after,
        limit: args.limit.map_or(limit, |limit| limit as usize),
        filter: if args.markers { HistoryFilter::Markers } else { HistoryFilter::All },
        superseded,
        feedback: Some(RunFeedback::LOCAL_USER.to_owned()),
    };
    let query = match args.around {
        Some(seq) => query_around(context, thread_id, query, seq).await?,
        None => query,
    };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let fold = if args.expand { CardFold::Open } else { CardFold::Closed };
    let loaded_markers = CompactionMarkers::load_around(context, &page, fold, superseded).await?;
    let origins = origins_at_beginning(context, thread_id, &query, &page).await?;
    let (first_seq, last_seq) =
        (page.entries.first().map(|entry| entry.seq), page.entries.last().map(|entry| entry.seq));
    if context.format == OutputFormat::Json {
        let markers = args.expand.then(|| loaded_markers.markers_covering(first_seq, last_seq));
        context.print_json(&HistoryPageReport {
            page: &page,
            began_with: origins.first().map(HandoffBeginning::from_origin),
            merged: origins.iter().skip(1).map(HandoffBeginning::from_origin).collect(),
            incomplete_import: thread.incomplete_import(),
            first_seq,
            last_seq,
            markers: markers.as_deref(),
        })?;
        return Ok(ExitReason::Success);
    }
    threads::warn_of_incomplete_import(context, &thread);
    for origin in &origins {
        show_origin(context, origin).await?;
    }
    let display =
        EntryDisplay { lines_max: usize::MAX, fold, markers: &loaded_markers, requested_seq: args.around };
    for entry in &page.entries {
        show_entry(&context.screen, entry, display)?;
        show_run_end(context, &page, entry).await?;
    }
    if page.entries.is_empty() {
        context.screen.print_line(if args.markers {
            "There are no markers."
        } else {
            "There are no messages."
        })?;
    }
    print_navigation_hints(context, &args, &page);
    Ok(ExitReason::Success)
}

/// Returns the handoffs into a thread if the page is the beginning of its history, and nobody asked for a certain part of it.
///
/// # Errors
/// Fails if the journal cannot be read.
async fn origins_at_beginning(
    context: &CommandContext,
    thread_id: ThreadId,
    query: &HistoryQuery,
    page: &HistoryPage,
) -> Result<Vec<HandoffOrigin>, CliFailure> {
    let is_whole =
        query.before_seq.is_none() && query.after_seq.is_none() && query.filter == HistoryFilter::All;
    if !is_whole || page.has_more_before {
        return Ok(Vec::new());
    }
    match context.agent.threads().get(thread_id).await? {
        Some(thread) => Ok(context.agent.handoffs().origins(&thread).await?),
        None => Ok(Vec::new()),
    }
}

/// Prints the commands for the earlier and the later page to stderr, and for the original messages of opened markers.
fn print_navigation_hints(context: &CommandContext, args: &HistoryArgs, page: &HistoryPage) {
    let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) else { return };
    let history = format!("segue history {}", args.thread);
    let originals = page.entries.iter().filter_map(|entry| {
        let range = covered_range(entry).filter(|(first_seq, _)| args.markers || *first_seq < first.seq);
        let (first_seq, last_seq) = range.filter(|_| args.expand)?;
        let (after, before) = (first_seq.saturating_sub(1), last_seq.saturating_add(1));
        let range = format!("--after {after} --before {before}");
        Some(format!("Messages of marker #{}: `{history} {range}`", entry.seq))
    });
    let command = format!("{history}{}", page_options(args));
    let earlier = page.has_more_before.then(|| format!("Earlier: `{command} --before {}`", first.seq));
    // If a range was requested, the later page ends where the range ends.
    let end = args.after.and(args.before).map(|end| format!(" --before {end}")).unwrap_or_default();
    let later = page.has_more_after.then(|| format!("Later: `{command} --after {}{end}`", last.seq));
    for hint in originals.chain(earlier).chain(later) {
        context.screen.print_to_stderr(context.screen.style.dim(hint));
    }
}

/// Returns the first and the last event that a marker's summary covers; `None` for other entries.
pub(crate) fn covered_range(entry: &HistoryEntry) -> Option<(Seq, Seq)> {
    match &entry.item {
        HistoryItem::Marker(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Archived(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Undone(_)
        | HistoryItem::Audit(_)
        | HistoryItem::Damaged(_) => None,
    }
}

/// Returns the options of the arguments that also apply to the adjacent pages.
fn page_options(args: &HistoryArgs) -> String {
    let flags = [(args.markers, " --markers"), (args.expand, " --expand"), (args.all, " --all")];
    let mut options: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    if let Some(limit) = args.limit {
        options.push_str(&format!(" --limit {limit}"));
    }
    options
}

/// Returns the query for a page with the event `seq` in its middle, or as close to the middle as the ends of the thread
/// allow.
///
/// # Errors
/// Fails if the journal cannot be read.
pub(crate) async fn query_around(
    context: &CommandContext,
    thread_id: ThreadId,
    query: HistoryQuery,
    seq: Seq,
) -> Result<HistoryQuery, CliFailure> {
    let before = HistoryQuery {
        before_seq: Some(seq.saturating_add(1)),
        limit: query.limit.div_ceil(2),
        ..query.clone()
    };
    let first = context
        .agent
        .threads()
        .history_page(thread_id, &before)
        .await?
        .entries
        .first()
        .map(|entry| entry.seq);
    Ok(HistoryQuery { after_seq: Some(first.unwrap_or(seq).saturating_sub(1)), ..query })
}

/// Prints the entries of a thread after an event, at most [`CATCH_UP_ENTRIES`].
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn show_entries_after(
    context: &CommandContext,
    thread_id: ThreadId,
    seq: Seq,
) -> Result<(), CliFailure> {
    let query = HistoryQuery { after_seq: Some(seq), limit: CATCH_UP_ENTRIES, ..HistoryQuery::default() };
    show_page(context, thread_id, &query, CardFold::Closed, None).await.map(drop)
}

/// Prints a page of a thread's history and returns it, at the beginning with the summaries that the thread began with. The event
/// `requested_seq` is labelled.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn show_page(
    context: &CommandContext,
    thread_id: ThreadId,
    query: &HistoryQuery,
    fold: CardFold,
    requested_seq: Option<Seq>,
) -> Result<HistoryPage, CliFailure> {
    let page = context.agent.threads().history_page(thread_id, query).await?;
    for origin in origins_at_beginning(context, thread_id, query, &page).await? {
        show_origin(context, &origin).await?;
    }
    let markers = CompactionMarkers::load_around(context, &page, fold, query.superseded).await?;
    let display = EntryDisplay { lines_max: usize::MAX, fold, markers: &markers, requested_seq };
    for entry in &page.entries {
        show_entry(&context.screen, entry, display)?;
        show_run_end(context, &page, entry).await?;
    }
    Ok(page)
}

/// Prints the end of a run that did not succeed, if `entry` is the run's last entry. Returns whether a line was
/// printed.
///
/// # Errors
/// Fails if the journal cannot be read or stdout cannot be written.
pub(crate) async fn show_run_end(
    context: &CommandContext,
    page: &HistoryPage,
    entry: &HistoryEntry,
) -> Result<bool, CliFailure> {
    let next = page.entries.iter().find(|next| next.seq > entry.seq);
    let is_last = next.map_or(!page.has_more_after, |next| next.run_id != entry.run_id);
    let Some(run_id) = entry.run_id.filter(|_| is_last) else { return Ok(false) };
    if is_run_failure(entry) {
        return Ok(true);
    }
    let Some(run) = context.agent.runs().get(run_id).await? else { return Ok(false) };
    let (screen, style) = (&context.screen, context.screen.style);
    let reason =
        run.failure.map_or_else(String::new, |failure| format!(": {}", sanitize_line(&failure.message)));
    let line = match run.status {
        RunStatus::Pending | RunStatus::Running | RunStatus::Success | RunStatus::Interrupted => {
            return Ok(false);
        }
        RunStatus::Cancelled => style.warn("── stopped"),
        RunStatus::Timeout => {
            style.warn(wrap(&format!("── timed out{reason}"), screen.text_columns(), "", "   "))
        }
        RunStatus::Error => style.bad(wrap(&format!("── failed{reason}"), screen.text_columns(), "", "   ")),
    };
    screen.print_line(line)?;
    screen.print_line("")?;
    Ok(true)
}

/// Returns whether the entry itself says that its run failed.
fn is_run_failure(entry: &HistoryEntry) -> bool {
    matches!(&entry.item, HistoryItem::Audit(audit) if audit.event_type == EventType::RunFailed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use agent::{
        ArchiveMarker, AuditEntry, CompactionFailedEntry, CompactionUndoneEntry, DamagedEntry,
        ImportedBoundaryEntry, SummaryMarker, ToolCallHeader,
    };
    use jiff::Timestamp;
    use protocol::{
        ArchiveReason, CompactionTrigger, ContentBlock, EventType, Message, Rating, RunId, ToolMessage,
        ToolStatus,
    };
    use serde_json::{Value, json};

    use super::*;

    /// The page of the book that documents the JSON.
    const PAGE: &str = include_str!("../../../../docs/src/history-json.md");

    /// Returns an id of any kind that ends in this byte.
    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    /// Returns an entry without feedback, call or duration.
    fn entry(seq: Seq, run_id: Option<RunId>, item: HistoryItem) -> HistoryEntry {
        let (created_at, id) = (Timestamp::UNIX_EPOCH, format!("m{seq}"));
        HistoryEntry {
            id,
            seq,
            run_id,
            created_at,
            item,
            is_superseded: false,
            call: None,
            duration_ms: None,
            feedback: None,
        }
    }

    /// Returns the result of a tool call, with the header of the call.
    fn result() -> HistoryEntry {
        let result = ToolMessage {
            id: None,
            call_id: "c1".to_owned(),
            name: Some("ls".to_owned()),
            content: vec![ContentBlock::text("a file")],
            status: ToolStatus::Success,
        };
        let call =
            ToolCallHeader { seq: 4, id: "c1".to_owned(), name: "ls".to_owned(), args: json!({"path": "."}) };
        let message = HistoryItem::Message(Message::Tool(result));
        HistoryEntry { call: Some(call), ..entry(5, Some(id(2)), message) }
    }

    /// Returns two answers: one with a rating, and one without a rating that a rewind has hidden.
    fn answers() -> [HistoryEntry; 2] {
        let time = Timestamp::UNIX_EPOCH;
        let rated = RunFeedback {
            thread_id: id(1),
            run_id: id(2),
            user_id: RunFeedback::LOCAL_USER.to_owned(),
            rating: Rating::Up,
            comment: Some("well done".to_owned()),
            created_at: time,
            updated_at: time,
        };
        let answer = |seq, run| entry(seq, Some(id(run)), HistoryItem::Message(Message::ai("Hello.")));
        [
            HistoryEntry { feedback: Some(Some(rated)), ..answer(6, 2) },
            HistoryEntry { feedback: Some(None), is_superseded: true, ..answer(7, 3) },
        ]
    }

    /// Returns the marker of a compaction on request.
    fn marker() -> HistoryEntry {
        let marker = SummaryMarker {
            replaced_count: 4,
            kept_count: 2,
            first_seq: 3,
            last_seq: 6,
            tokens_before: 150_240,
            tokens_after: 18_120,
            trigger: CompactionTrigger::Manual,
            model: "anthropic/x".to_owned(),
            summary: "### Goal\nMend the kettle.\n".to_owned(),
            previous_seq: Some(2),
            focus: Some("the lid".to_owned()),
            duration_ms: 2_300,
        };
        let item = HistoryItem::Marker(Box::new(marker));
        HistoryEntry { id: "summary-marker-8".to_owned(), ..entry(8, Some(id(4)), item) }
    }

    /// Returns the marker of messages that were moved to memory.
    fn archived() -> HistoryEntry {
        let marker = ArchiveMarker {
            turn_count: 4,
            first_seq: 3,
            last_seq: 6,
            reason: ArchiveReason::Budget,
            summary: "The kettle leaks.".to_owned(),
            model: "anthropic/x".to_owned(),
            summary_id: id(6),
        };
        let item = HistoryItem::Archived(Box::new(marker));
        HistoryEntry { id: "archive-marker-10".to_owned(), ..entry(10, None, item) }
    }

    /// Returns the entry of a new name.
    fn renamed() -> HistoryItem {
        let details = json!({"name": "The lid", "previous": "Kettle"});
        HistoryItem::Audit(AuditEntry {
            event_type: EventType::ThreadRenamed,
            text: "Thread renamed from “Kettle” to “The lid”".to_owned(),
            details: details.as_object().unwrap().clone(),
        })
    }

    /// Returns one entry of every kind, in the order of the page.
    fn entries() -> Vec<HistoryEntry> {
        let boundary = |seq, kind, text: &str| {
            entry(seq, None, HistoryItem::Boundary(ImportedBoundaryEntry { kind, text: text.to_owned() }))
        };
        let undone = HistoryItem::Undone(CompactionUndoneEntry { marker_seq: 8 });
        let reason = "the request would not become smaller".to_owned();
        let failed = CompactionFailedEntry { trigger: CompactionTrigger::Auto, reason };
        let failed = HistoryItem::Failed(failed);
        let text = "Event 13 is damaged in the database and cannot be shown".to_owned();
        let damaged = HistoryItem::Damaged(DamagedEntry { text });
        let [rated, superseded] = answers();
        vec![
            boundary(1, "imported_boundary", "Conversation compacted"),
            boundary(2, "imported_summary", "The kettle leaks."),
            entry(3, Some(id(2)), HistoryItem::Message(Message::human("Hi."))),
            result(),
            rated,
            superseded,
            marker(),
            HistoryEntry { id: "summary-undone-9".to_owned(), ..entry(9, Some(id(5)), undone) },
            archived(),
            HistoryEntry { id: "compaction-failed-11".to_owned(), ..entry(11, Some(id(5)), failed) },
            HistoryEntry { id: "audit-12".to_owned(), ..entry(12, None, renamed()) },
            HistoryEntry { id: "event-damaged-13".to_owned(), ..entry(13, None, damaged) },
        ]
    }

    #[test]
    fn b5_the_page_shows_the_json_of_every_kind_of_entry() {
        let written = |entry: &HistoryEntry| serde_json::to_string(entry).unwrap();
        let lines: Vec<String> = entries().iter().map(written).collect();
        let shown: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("{\"id\":")).collect();
        assert_eq!(shown, lines, "docs/src/history-json.md must show:\n{}", lines.join("\n"));
    }

    #[test]
    fn b5_the_page_lists_every_field_of_a_history_page() {
        let page = HistoryPage {
            thread_id: id(1),
            source: "journal",
            entries: Vec::new(),
            has_more_before: true,
            has_more_after: false,
        };
        let report = HistoryPageReport {
            page: &page,
            began_with: None,
            merged: Vec::new(),
            incomplete_import: Some(IncompleteImport {
                path: None,
                messages: 1,
                messages_total: None,
                whole_thread_id: None,
            }),
            first_seq: None,
            last_seq: None,
            markers: Some(&[]),
        };
        let Value::Object(fields) = serde_json::to_value(&report).unwrap() else { panic!("an object") };
        let (_, table) = PAGE.split_once("| --- | --- |\n").unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        // The names are in the first column, between backticks.
        let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
        assert_eq!(names.collect::<BTreeSet<_>>(), fields.keys().map(String::as_str).collect());
    }
}
