//! Pages of the history view. A page has the requested number of entries, regardless of hidden events between them,
//! and each entry has the data that is needed to understand it alone. Damaged events are entries without content, so that
//! the rest of the thread can be read. It only reads.

use std::collections::BTreeSet;

use protocol::{EventType, Message, RunId, Seq, ThreadId};

use super::history::{
    BOUNDARY_EVENTS, HISTORY_EVENTS, HistoryEntry, HistoryItem, ToolCallHeader, page_entry,
};
use super::is_from_subagent;
use crate::{
    DamageHandling, Error, EventQuery, PAGE_ROWS_MAX, Result, Store, SupersededVisibility, is_damaged,
};

/// Maximum number of model messages that are searched for the calls of results at the beginning of a page.
const CALL_LOOKBACK_MAX: usize = 1_000;

/// Maximum number of rows that this search reads, including messages of sub-agents, which can be numerous after a
/// call.
const CALL_LOOKBACK_ROWS_MAX: usize = 50_000;

/// Growth factor of successive reads outside a page.
const READ_GROWTH: usize = 4;

/// A filter for the entries of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HistoryFilter {
    /// All entries.
    #[default]
    All,
    /// Only markers: compactions, their undoing, and messages that memory archived.
    Markers,
}

/// A query for a page of a thread's history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Only entries before this seq.
    pub before_seq: Option<Seq>,
    /// Only entries after this seq: the page starts with the first of them. Without it, the page ends with the newest
    /// entries.
    pub after_seq: Option<Seq>,
    /// Maximum number of entries, from 1 to [`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// The entries to return. Other entries do not count toward the limit.
    pub filter: HistoryFilter,
    /// The visibility of entries that a rewind superseded.
    pub superseded: SupersededVisibility,
    /// The person whose feedback is added; `None` adds no feedback.
    pub feedback: Option<String>,
}

/// A page of a thread's history.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct HistoryPage {
    /// The thread.
    pub thread_id: ThreadId,
    /// The source of the entries: `journal`.
    pub source: &'static str,
    /// The entries in ascending order of seqs.
    pub entries: Vec<HistoryEntry>,
    /// `true` if there are earlier entries. For a page after `after_seq`, these are the entries up to it.
    pub has_more_before: bool,
    /// `true` if there are later entries. For a page before `before_seq`, these are the entries from it on.
    pub has_more_after: bool,
}

/// Returns a page of a thread's history. A thread that does not exist has no entries.
///
/// # Errors
/// [`Error::InvalidRequest`] if the limit is 0 or more than [`PAGE_ROWS_MAX`]; otherwise the errors of the store.
pub async fn history_page(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &HistoryQuery,
) -> Result<HistoryPage> {
    let reader = HistoryPageReader { store, thread_id, query };
    let (mut entries, has_more) = reader.read_entries().await?;
    let is_forward = query.after_seq.is_some();
    let has_more_beyond = reader.has_more_beyond().await?;
    let (has_more_before, has_more_after) =
        if is_forward { (has_more_beyond, has_more) } else { (has_more, has_more_beyond) };
    reader.add_calls(&mut entries).await?;
    if query.superseded == SupersededVisibility::Shown {
        reader.flag_superseded(&mut entries).await?;
    }
    let mut page = HistoryPage { thread_id, source: "journal", entries, has_more_before, has_more_after };
    if let Some(user_id) = &query.feedback {
        reader.add_feedback(&mut page, user_id).await?;
    }
    Ok(page)
}

/// Reads one page.
struct HistoryPageReader<'a> {
    /// The store.
    store: &'a dyn Store,
    /// The thread.
    thread_id: ThreadId,
    /// The query.
    query: &'a HistoryQuery,
}

impl HistoryPageReader<'_> {
    /// Returns the entries of the page, and whether there are more in the direction of reading.
    async fn read_entries(&self) -> Result<(Vec<HistoryEntry>, bool)> {
        let limit = self.query.limit;
        if limit == 0 || limit > PAGE_ROWS_MAX {
            let reason = format!("the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}");
            return Err(Error::InvalidRequest { what: "history", reason });
        }
        let mut entries = self.read_range(self.query.after_seq, self.query.before_seq, limit + 1).await?;
        let has_more = entries.len() > limit;
        if self.query.after_seq.is_some() {
            entries.truncate(limit);
        } else {
            entries.drain(..entries.len() - limit.min(entries.len()));
        }
        Ok((entries, has_more))
    }

    /// Returns at least `wanted` entries between two seqs, if there are as many. Hidden events do not count; the more
    /// of them are found, the more rows are read at a time.
    async fn read_range(
        &self,
        mut after: Option<Seq>,
        mut before: Option<Seq>,
        count: usize,
    ) -> Result<Vec<HistoryEntry>> {
        let is_forward = after.is_some();
        let mut entries: Vec<HistoryEntry> = Vec::new();
        let mut rows_per_entry = 1;
        loop {
            let limit = (count - entries.len()).saturating_mul(rows_per_entry).min(PAGE_ROWS_MAX);
            let query = EventQuery { after, before, limit, ..self.event_query() };
            let page = self.store.events(self.thread_id, query).await?;
            let new_entries = page.iter().filter_map(page_entry);
            match is_forward {
                true => entries.extend(new_entries),
                false => drop(entries.splice(0..0, new_entries)),
            }
            let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(entries) };
            if entries.len() >= count || page.len() < limit {
                return Ok(entries);
            }
            match is_forward {
                true => after = Some(last.seq),
                false => before = Some(first.seq),
            }
            rows_per_entry = rows_per_entry.saturating_mul(2);
        }
    }

    /// Returns whether there are entries on the other side of the position from which the page is read.
    async fn has_more_beyond(&self) -> Result<bool> {
        let (after, before) = match (self.query.after_seq, self.query.before_seq) {
            (Some(after), _) => (None, Some(after.saturating_add(1))),
            (None, Some(before)) => (Some(before.saturating_sub(1)), None),
            (None, None) => return Ok(false),
        };
        Ok(!self.read_range(after, before, 1).await?.is_empty())
    }

    /// Adds to each tool result the call that it answers, unless the call precedes it on the page.
    async fn add_calls(&self, entries: &mut [HistoryEntry]) -> Result<()> {
        let mut missing = results_without_call(entries);
        let mut before = entries.first().map(|entry| entry.seq);
        let (mut limit, mut examined, mut rows_read) = (1, 0, 0);
        while !missing.is_empty() && examined < CALL_LOOKBACK_MAX && rows_read < CALL_LOOKBACK_ROWS_MAX {
            let types = vec![EventType::AiMessage];
            let superseded = self.query.superseded;
            let damage = DamageHandling::Mark;
            let query = EventQuery { before, types, superseded, damage, limit, ..EventQuery::default() };
            let page = self.store.events(self.thread_id, query).await?;
            for answer in page.iter().rev().filter(|event| !is_from_subagent(event)) {
                examined += 1;
                let Some(message) = answer.message() else { continue };
                missing.retain(|index| !add_call(&mut entries[*index], answer.seq, &message));
            }
            if page.len() < limit {
                break;
            }
            rows_read += page.len();
            before = page.first().map(|event| event.seq);
            limit = (limit * READ_GROWTH).min(CALL_LOOKBACK_MAX);
        }
        Ok(())
    }

    /// Flags the entries that a rewind superseded: those that are missing in a read of visible events.
    async fn flag_superseded(&self, entries: &mut [HistoryEntry]) -> Result<()> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let (after, before) = (Some(first.seq.saturating_sub(1)), Some(last.seq.saturating_add(1)));
        let query = &HistoryQuery { superseded: SupersededVisibility::Hidden, ..self.query.clone() };
        let visible = HistoryPageReader { query, ..*self }.read_range(after, before, entries.len()).await?;
        let visible: BTreeSet<Seq> = visible.iter().map(|entry| entry.seq).collect();
        for entry in entries {
            entry.is_superseded = !visible.contains(&entry.seq);
        }
        Ok(())
    }

    /// Adds a person's feedback to the last answer of each run on the page. Messages copied from another thread
    /// belong to runs of that thread and get none.
    async fn add_feedback(&self, page: &mut HistoryPage, user_id: &str) -> Result<()> {
        let mut last_answers: Vec<(RunId, usize)> = Vec::new();
        for (index, entry) in page.entries.iter().enumerate() {
            let is_answer = matches!(entry.item, HistoryItem::Message(Message::Ai(_)));
            let Some(run_id) = entry.run_id.filter(|_| is_answer) else { continue };
            last_answers.retain(|(other, _)| *other != run_id);
            last_answers.push((run_id, index));
        }
        if page.has_more_after || self.query.before_seq.is_some() {
            let end = page.entries.last().map_or(0, |entry| entry.seq);
            let continuing_run = self.next_answer_run(end).await?;
            last_answers.retain(|(run_id, _)| Some(*run_id) != continuing_run);
        }
        self.retain_own_runs(&mut last_answers).await?;
        if last_answers.is_empty() {
            return Ok(());
        }
        let run_ids: Vec<RunId> = last_answers.iter().map(|(run_id, _)| *run_id).collect();
        let mut feedback = self.store.feedback(self.thread_id, &run_ids, user_id).await?;
        for (run_id, index) in last_answers {
            let position = feedback.iter().position(|entry| entry.run_id == run_id);
            page.entries[index].feedback = Some(position.map(|position| feedback.swap_remove(position)));
        }
        Ok(())
    }

    /// Returns the run of the first answer after `seq`. The runs of a thread do not overlap, so only this run can
    /// have answers both before and after `seq`.
    async fn next_answer_run(&self, seq: Seq) -> Result<Option<RunId>> {
        let mut after = seq;
        let mut limit = 1;
        loop {
            let types = vec![EventType::AiMessage];
            let superseded = self.query.superseded;
            let damage = DamageHandling::Mark;
            let query = EventQuery { types, superseded, damage, ..EventQuery::after(after, limit) };
            let page = self.store.events(self.thread_id, query).await?;
            if let Some(answer) = page.iter().find(|event| !is_damaged(event) && !is_from_subagent(event)) {
                return Ok(answer.run_id);
            }
            match page.last() {
                Some(last) if page.len() == limit => after = last.seq,
                Some(_) | None => return Ok(None),
            }
            limit = (limit * READ_GROWTH).min(PAGE_ROWS_MAX);
        }
    }

    /// Removes the runs of other threads. All of them precede the first run of this thread, which is found by binary
    /// search.
    async fn retain_own_runs(&self, runs: &mut Vec<(RunId, usize)>) -> Result<()> {
        // Start at index 0, because in most cases all runs belong to this thread.
        let (mut copied, mut middle, mut end) = (0, 0, runs.len());
        while copied < end {
            let run = self.store.run(runs[middle].0).await?;
            match run.is_some_and(|run| run.thread_id == self.thread_id) {
                true => end = middle,
                false => copied = middle + 1,
            }
            middle = copied.midpoint(end);
        }
        runs.drain(..copied);
        Ok(())
    }

    /// Returns the query for the events of the page's entries.
    fn event_query(&self) -> EventQuery {
        let types = match self.query.filter {
            HistoryFilter::All => HISTORY_EVENTS.to_vec(),
            HistoryFilter::Markers => BOUNDARY_EVENTS.to_vec(),
        };
        let (superseded, damage) = (self.query.superseded, DamageHandling::Mark);
        EventQuery { types, superseded, damage, ..EventQuery::default() }
    }
}

/// Returns the indexes of the entries that are tool results without their call before them on the page.
fn results_without_call(entries: &[HistoryEntry]) -> Vec<usize> {
    let mut called = BTreeSet::new();
    let mut missing = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        match entry.message() {
            Some(message @ Message::Ai(_)) => called.extend(message.tool_calls().map(|(id, ..)| id)),
            Some(Message::Tool(result)) => {
                if !result.call_id.is_empty() && !called.contains(result.call_id.as_str()) {
                    missing.push(index);
                }
            }
            Some(Message::Human(_)) | None => {}
        }
    }
    missing
}

/// Adds the call to a tool result. Returns `false` if `answer` does not make that call.
fn add_call(entry: &mut HistoryEntry, seq: Seq, answer: &Message) -> bool {
    let HistoryItem::Message(Message::Tool(result)) = &entry.item else { return false };
    let Some((id, name, args)) = answer.tool_calls().find(|(id, ..)| *id == result.call_id) else {
        return false;
    };
    entry.call = Some(ToolCallHeader { seq, id: id.to_owned(), name: name.to_owned(), args: args.clone() });
    true
}
