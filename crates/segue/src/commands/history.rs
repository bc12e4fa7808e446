//! `segue history`: what was said in a thread, a page at a time, whatever was condensed since. How one entry looks is in
//! `entry`, which markers there are around a page in `marks`.

pub(crate) mod entry;
pub(crate) mod marks;
pub(crate) mod recall;

use agent::{EventQuery, HistoryEntry, HistoryItem, HistoryPage, HistoryQuery, Superseded};
use protocol::{EventType, RunFeedback, Seq, ThreadId};
use serde::Serialize;

use crate::cli::Format;
use crate::cli::history::History;
use crate::commands::Context;
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::show::marker::Fold;
use entry::{Look, show};
use marks::Marks;

/// Entries that are shown of a turn whose display fell behind.
const CATCH_UP_ENTRIES: usize = 200;
/// The events that `--markers` shows.
const MARKERS: [EventType; 2] = [EventType::Compacted, EventType::CompactionUndone];

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
    let thread_id = context.agent.find_thread(&args.thread).await?.thread_id;
    let superseded = if args.all { Superseded::Shown } else { Superseded::Hidden };
    let query = HistoryQuery {
        before_seq: args.before,
        after_seq: args.after,
        limit: args.limit as usize,
        superseded,
        feedback: Some(RunFeedback::LOCAL.to_owned()),
    };
    let page = match args.markers {
        true => markers(context, thread_id, &query).await?,
        false => context.agent.history_page(thread_id, &query).await?,
    };
    let fold = if args.expand { Fold::Open } else { Fold::Closed };
    let marks = Marks::around(context, &page, (fold, superseded)).await?;
    let (first_seq, last_seq) =
        (page.entries.first().map(|entry| entry.seq), page.entries.last().map(|entry| entry.seq));
    if context.format == Format::Json {
        let markers = args.expand.then(|| marks.covering(first_seq, last_seq));
        context.json(&Printed { page: &page, first_seq, last_seq, markers: markers.as_deref() })?;
        return Ok(Code::Done);
    }
    let look = Look { lines_max: usize::MAX, fold, marks: &marks };
    for entry in &page.entries {
        show(&context.screen, entry, look)?;
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
    let options = [(args.markers, " --markers"), (args.expand, " --expand"), (args.all, " --all")];
    let options: String = options.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let history = format!("segue history {}", args.thread);
    let originals = page.entries.iter().filter_map(|entry| match &entry.what {
        HistoryItem::Marker(marker) if args.expand && (args.markers || marker.first_seq < first.seq) => {
            let (after, before) = (marker.first_seq.saturating_sub(1), marker.last_seq.saturating_add(1));
            let range = format!("--after {after} --before {before}");
            Some(format!("Originals of marker #{}: `{history} {range}`", entry.seq))
        }
        HistoryItem::Marker(_)
        | HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Undone(_) => None,
    });
    let earlier =
        page.has_more_before.then(|| format!("Earlier: `{history}{options} --before {}`", first.seq));
    let later = page.has_more_after.then(|| format!("Later: `{history}{options} --after {}`", last.seq));
    for note in originals.chain(earlier).chain(later) {
        context.screen.note(context.screen.style.dim(note));
    }
}

/// Returns a page of nothing but markers, and what became of them.
async fn markers(
    context: &Context,
    thread_id: ThreadId,
    query: &HistoryQuery,
) -> Result<HistoryPage, Failure> {
    let is_forward = query.after_seq.is_some();
    let query = EventQuery {
        after: query.after_seq,
        before: query.before_seq,
        types: MARKERS.to_vec(),
        superseded: query.superseded,
        limit: query.limit + 1,
        ..EventQuery::default()
    };
    let limit = query.limit - 1;
    let mut events = context.agent.store().events(thread_id, query).await.map_err(agent::Error::from)?;
    let is_cut = events.len() > limit;
    match is_forward {
        true => events.truncate(limit),
        false => drop(events.drain(..events.len().saturating_sub(limit))),
    }
    let (has_more_before, has_more_after) = if is_forward { (false, is_cut) } else { (is_cut, false) };
    let entries = agent::history_of(&events);
    Ok(HistoryPage { thread_id, source: "journal", entries, has_more_before, has_more_after })
}

/// Shows what was said in a thread after an event, the first page of it.
///
/// # Errors
/// When the journal or stdout fails.
pub(crate) async fn show_after(context: &Context, thread_id: ThreadId, seq: Seq) -> Result<(), Failure> {
    let query = HistoryQuery { after_seq: Some(seq), limit: CATCH_UP_ENTRIES, ..HistoryQuery::default() };
    show_page(context, thread_id, &query).await
}

/// Shows a page of what was said in a thread, with its markers closed.
///
/// # Errors
/// When the journal or stdout fails.
pub(crate) async fn show_page(
    context: &Context,
    thread_id: ThreadId,
    query: &HistoryQuery,
) -> Result<(), Failure> {
    let page = context.agent.history_page(thread_id, query).await?;
    let marks = Marks::around(context, &page, (Fold::Closed, query.superseded)).await?;
    for entry in &page.entries {
        show(&context.screen, entry, Look { lines_max: usize::MAX, fold: Fold::Closed, marks: &marks })?;
    }
    Ok(())
}
