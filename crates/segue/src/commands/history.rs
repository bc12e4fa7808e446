//! `segue history`: what was said in a thread, a page at a time, whatever was condensed since. How one entry looks is in
//! `entry`, which markers there are around a page in `marks`; how something is found again is in `recall` and `search`.

pub(crate) mod entry;
pub(crate) mod marks;
pub(crate) mod recall;
pub(crate) mod search;

use agent::{HistoryEntry, HistoryItem, HistoryPage, HistoryQuery, Shown, Superseded};
use protocol::{RunFeedback, RunStatus, Seq, ThreadId};
use serde::Serialize;
use terminal::marker::Fold;
use terminal::{one_line, wrap};

use crate::cli::Format;
use crate::cli::history::History;
use crate::commands::Context;
use crate::exit::{Code, Failure, Outcome};
use entry::{Look, show};
use marks::Marks;

/// Entries that are shown of a turn whose display fell behind.
const CATCH_UP_ENTRIES: usize = 200;

/// The page `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    page: &'a HistoryPage,
    first_seq: Option<Seq>,
    last_seq: Option<Seq>,
    /// With `--expand`: the markers of every page whose messages are on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    markers: Option<&'a [HistoryEntry]>,
}

/// Performs the command.
pub(crate) async fn run(context: &Context, args: History) -> Outcome {
    let thread_id = context.agent.threads().find(&args.thread).await?.thread_id;
    let superseded = if args.all { Superseded::Shown } else { Superseded::Hidden };
    let limit = if args.around.is_some() { History::LIMIT_AROUND } else { History::LIMIT };
    let query = HistoryQuery {
        before_seq: args.before,
        after_seq: args.after,
        limit: args.limit.map_or(limit, |limit| limit as usize),
        shown: if args.markers { Shown::Markers } else { Shown::All },
        superseded,
        feedback: Some(RunFeedback::LOCAL.to_owned()),
    };
    let query = match args.around {
        Some(seq) => around(context, thread_id, query, seq).await?,
        None => query,
    };
    let page = context.agent.threads().history_page(thread_id, &query).await?;
    let fold = if args.expand { Fold::Open } else { Fold::Closed };
    let marks = Marks::around(context, &page, fold, superseded).await?;
    let (first_seq, last_seq) =
        (page.entries.first().map(|entry| entry.seq), page.entries.last().map(|entry| entry.seq));
    if context.format == Format::Json {
        let markers = args.expand.then(|| marks.covering(first_seq, last_seq));
        context.json(&Printed { page: &page, first_seq, last_seq, markers: markers.as_deref() })?;
        return Ok(Code::Done);
    }
    let look = Look { lines_max: usize::MAX, fold, marks: &marks, sought: args.around };
    for entry in &page.entries {
        show(&context.screen, entry, look)?;
        show_end(context, &page, entry).await?;
    }
    if page.entries.is_empty() && args.markers {
        context.screen.line("Nothing was condensed there.")?;
    }
    note_more(context, &args, &page);
    Ok(Code::Done)
}

/// Says how to come to what is before and after the page, and to the originals of markers that were opened.
fn note_more(context: &Context, args: &History, page: &HistoryPage) {
    let (Some(first), Some(last)) = (page.entries.first(), page.entries.last()) else { return };
    let history = format!("segue history {}", args.thread);
    let originals = page.entries.iter().filter_map(|entry| {
        let range = stands_for(entry).filter(|(first_seq, _)| args.markers || *first_seq < first.seq);
        let (first_seq, last_seq) = range.filter(|_| args.expand)?;
        let (after, before) = (first_seq.saturating_sub(1), last_seq.saturating_add(1));
        let range = format!("--after {after} --before {before}");
        Some(format!("Originals of marker #{}: `{history} {range}`", entry.seq))
    });
    let page_of = format!("{history}{}", options(args));
    let earlier = page.has_more_before.then(|| format!("Earlier: `{page_of} --before {}`", first.seq));
    // Within a range it goes on to the end of the range.
    let end = args.after.and(args.before).map(|end| format!(" --before {end}")).unwrap_or_default();
    let later = page.has_more_after.then(|| format!("Later: `{page_of} --after {}{end}`", last.seq));
    for note in originals.chain(earlier).chain(later) {
        context.screen.note(context.screen.style.dim(note));
    }
}

/// Returns the first and the last event that a marker's summary stands for; other entries stand for themselves.
pub(crate) fn stands_for(entry: &HistoryEntry) -> Option<(Seq, Seq)> {
    match &entry.what {
        HistoryItem::Marker(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Archived(marker) => Some((marker.first_seq, marker.last_seq)),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Undone(_) => None,
    }
}

/// Returns the options that another page of the same is asked for with.
fn options(args: &History) -> String {
    let flags = [(args.markers, " --markers"), (args.expand, " --expand"), (args.all, " --all")];
    let mut options: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    if let Some(limit) = args.limit {
        options.push_str(&format!(" --limit {limit}"));
    }
    options
}

/// Returns the query of a page that has the event in its middle, as far as there is something on either side of it.
pub(crate) async fn around(
    context: &Context,
    thread_id: ThreadId,
    query: HistoryQuery,
    seq: Seq,
) -> Result<HistoryQuery, Failure> {
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

/// Shows what was said in a thread after an event, the first page of it.
pub(crate) async fn show_after(context: &Context, thread_id: ThreadId, seq: Seq) -> Result<(), Failure> {
    let query = HistoryQuery { after_seq: Some(seq), limit: CATCH_UP_ENTRIES, ..HistoryQuery::default() };
    show_page(context, thread_id, &query, Fold::Closed, None).await.map(drop)
}

/// Shows a page of what was said in a thread, its markers closed or opened, and returns it. The event that was asked for is
/// told from the others.
pub(crate) async fn show_page(
    context: &Context,
    thread_id: ThreadId,
    query: &HistoryQuery,
    fold: Fold,
    sought: Option<Seq>,
) -> Result<HistoryPage, Failure> {
    let page = context.agent.threads().history_page(thread_id, query).await?;
    let marks = Marks::around(context, &page, fold, query.superseded).await?;
    for entry in &page.entries {
        show(&context.screen, entry, Look { lines_max: usize::MAX, fold, marks: &marks, sought })?;
        show_end(context, &page, entry).await?;
    }
    Ok(page)
}

/// Shows how a run ended that did not succeed, after its last entry. Returns whether it did.
pub(crate) async fn show_end(
    context: &Context,
    page: &HistoryPage,
    entry: &HistoryEntry,
) -> Result<bool, Failure> {
    let next = page.entries.iter().find(|next| next.seq > entry.seq);
    let is_last = next.map_or(!page.has_more_after, |next| next.run_id != entry.run_id);
    let Some(run_id) = entry.run_id.filter(|_| is_last) else { return Ok(false) };
    let Some(run) = context.agent.runs().get(run_id).await? else { return Ok(false) };
    let (screen, style) = (&context.screen, context.screen.style);
    let reason = run.failure.map_or_else(String::new, |failure| format!(": {}", one_line(&failure.message)));
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
    screen.line(line)?;
    screen.line("")?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use agent::{ArchiveMarker, BoundaryEntry, CallHeader, FailedEntry, SummaryMarker, UndoneEntry};
    use jiff::Timestamp;
    use protocol::{
        ArchiveReason, Block, CompactionTrigger, Message, Rating, RunId, ToolMessage, ToolStatus,
    };
    use serde_json::{Value, json};

    use super::*;

    /// The page that describes the shapes.
    const PAGE: &str = include_str!("../../../../docs/src/history-json.md");

    fn id<T: std::str::FromStr>(last: u8) -> T
    where
        T::Err: std::fmt::Debug,
    {
        format!("0192f0c1-2d3e-7a4b-8c5d-6e7f809100{last:02x}").parse().unwrap()
    }

    fn entry(seq: Seq, run_id: Option<RunId>, what: HistoryItem) -> HistoryEntry {
        let (created_at, id) = (Timestamp::UNIX_EPOCH, format!("m{seq}"));
        HistoryEntry {
            id,
            seq,
            run_id,
            created_at,
            what,
            is_superseded: false,
            call: None,
            duration_ms: None,
            feedback: None,
        }
    }

    fn result() -> HistoryEntry {
        let result = ToolMessage {
            id: None,
            call_id: "c1".to_owned(),
            name: Some("ls".to_owned()),
            content: vec![Block::text("a file")],
            status: ToolStatus::Success,
        };
        let call =
            CallHeader { seq: 4, id: "c1".to_owned(), name: "ls".to_owned(), args: json!({"path": "."}) };
        let message = HistoryItem::Message(Message::Tool(result));
        HistoryEntry { call: Some(call), ..entry(5, Some(id(2)), message) }
    }

    fn answers() -> [HistoryEntry; 2] {
        let at = Timestamp::UNIX_EPOCH;
        let rated = RunFeedback {
            thread_id: id(1),
            run_id: id(2),
            user_id: RunFeedback::LOCAL.to_owned(),
            rating: Rating::Up,
            comment: Some("well done".to_owned()),
            created_at: at,
            updated_at: at,
        };
        let answer = |seq, run| entry(seq, Some(id(run)), HistoryItem::Message(Message::ai("Hello.")));
        [
            HistoryEntry { feedback: Some(Some(rated)), ..answer(6, 2) },
            HistoryEntry { feedback: Some(None), is_superseded: true, ..answer(7, 3) },
        ]
    }

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
        let what = HistoryItem::Marker(Box::new(marker));
        HistoryEntry { id: "summary-marker-8".to_owned(), ..entry(8, Some(id(4)), what) }
    }

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
        let what = HistoryItem::Archived(Box::new(marker));
        HistoryEntry { id: "archive-marker-10".to_owned(), ..entry(10, None, what) }
    }

    /// One entry of every sort there is, in the order of the page.
    fn entries() -> Vec<HistoryEntry> {
        let boundary = |seq, kind, text: &str| {
            entry(seq, None, HistoryItem::Boundary(BoundaryEntry { kind, text: text.to_owned() }))
        };
        let undone = HistoryItem::Undone(UndoneEntry { marker_seq: 8 });
        let reason = "the request would not become smaller".to_owned();
        let failed = FailedEntry { trigger: CompactionTrigger::Auto, reason };
        let failed = HistoryItem::Failed(failed);
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
        ]
    }

    #[test]
    fn b5_the_page_shows_every_entry_as_it_is_written() {
        let written = |entry: &HistoryEntry| serde_json::to_string(entry).unwrap();
        let lines: Vec<String> = entries().iter().map(written).collect();
        let shown: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("{\"id\":")).collect();
        assert_eq!(shown, lines, "docs/src/history-json.md must show:\n{}", lines.join("\n"));
    }

    #[test]
    fn b5_the_page_names_every_field_of_a_page() {
        let page = HistoryPage {
            thread_id: id(1),
            source: "journal",
            entries: Vec::new(),
            has_more_before: true,
            has_more_after: false,
        };
        let printed = Printed { page: &page, first_seq: None, last_seq: None, markers: Some(&[]) };
        let Value::Object(fields) = serde_json::to_value(&printed).unwrap() else { panic!("an object") };
        let (_, table) = PAGE.split_once("| --- | --- |\n").unwrap();
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        // The names are in the first column, between backticks.
        let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
        assert_eq!(names.collect::<BTreeSet<_>>(), fields.keys().map(String::as_str).collect());
    }
}
