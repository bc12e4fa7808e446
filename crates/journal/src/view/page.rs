//! A page of history: as many entries as were asked for, whatever lies between them, each with what it needs to be
//! understood alone. It only reads.

use std::collections::BTreeSet;

use protocol::{EventType, Message, RunId, Seq, ThreadId};

use super::history::{CallHeader, HistoryEntry, HistoryItem, MARKERS, SHOWN, listed};
use super::is_side;
use crate::{Error, EventQuery, PAGE_ROWS_MAX, Result, Store, Superseded};

/// How many messages of the model are looked at in search of the calls that a page's first results answer.
const CALL_LOOKBACK_MAX: usize = 1_000;

/// How many are read at most for that, those of sub-agents included, which a call may have many of behind it.
const CALL_LOOKBACK_ROWS_MAX: usize = 50_000;

/// How many times as much each look for something outside a page takes in as the one before.
const LOOK_GROWTH: usize = 4;

/// Which entries a page has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shown {
    /// All of them.
    #[default]
    All,
    /// The markers of compactions, what took them back, and what went to memory.
    Markers,
}

/// Which page of a thread's history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Only entries before this seq.
    pub before_seq: Option<Seq>,
    /// Only entries after this seq: the page begins there, and otherwise it ends with the newest ones.
    pub after_seq: Option<Seq>,
    /// The most entries to return, 1 to [`PAGE_ROWS_MAX`].
    pub limit: usize,
    /// Which entries it has; the others take no place in it.
    pub shown: Shown,
    /// Whether entries that a rewind superseded are among them.
    pub superseded: Superseded,
    /// Whose feedback is told; `None` where feedback is not asked for.
    pub feedback: Option<String>,
}

/// A page of a thread's history.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct HistoryPage {
    /// The thread.
    pub thread_id: ThreadId,
    /// Where the entries are from: `journal`.
    pub source: &'static str,
    /// The entries, in ascending order.
    pub entries: Vec<HistoryEntry>,
    /// Whether there are earlier ones: of a page that was read from `after_seq` on, those up to it.
    pub has_more_before: bool,
    /// Whether there are later ones: of a page that was read back from `before_seq`, those from it on; otherwise those
    /// before it.
    pub has_more_after: bool,
}

/// Returns a page of what people are shown of the thread. An unknown thread has no entries.
///
/// # Errors
/// [`Error::Invalid`] when the limit is 0 or more than [`PAGE_ROWS_MAX`], and when the journal fails.
pub async fn history_page(
    store: &dyn Store,
    thread_id: ThreadId,
    query: &HistoryQuery,
) -> Result<HistoryPage> {
    let pages = Pages { store, thread_id, query };
    let (mut entries, is_cut) = pages.entries().await?;
    let is_forward = query.after_seq.is_some();
    let beyond = pages.has_beyond().await?;
    let (has_more_before, has_more_after) = if is_forward { (beyond, is_cut) } else { (is_cut, beyond) };
    pages.add_calls(&mut entries).await?;
    if query.superseded == Superseded::Shown {
        pages.flag_superseded(&mut entries).await?;
    }
    let mut page = HistoryPage { thread_id, source: "journal", entries, has_more_before, has_more_after };
    if let Some(user_id) = &query.feedback {
        pages.add_feedback(&mut page, user_id).await?;
    }
    Ok(page)
}

/// One page being read.
struct Pages<'a> {
    store: &'a dyn Store,
    thread_id: ThreadId,
    query: &'a HistoryQuery,
}

impl Pages<'_> {
    /// Returns the page's entries, and whether there are more of them in the direction it is read in.
    async fn entries(&self) -> Result<(Vec<HistoryEntry>, bool)> {
        let limit = self.query.limit;
        if limit == 0 || limit > PAGE_ROWS_MAX {
            let reason = format!("the limit must be 1 to {PAGE_ROWS_MAX}, not {limit}");
            return Err(Error::Invalid { what: "history", reason });
        }
        let mut entries = self.read(self.query.after_seq, self.query.before_seq, limit + 1).await?;
        let is_cut = entries.len() > limit;
        if self.query.after_seq.is_some() {
            entries.truncate(limit);
        } else {
            entries.drain(..entries.len() - limit.min(entries.len()));
        }
        Ok((entries, is_cut))
    }

    /// Returns at least `wanted` entries between the seqs, if there are as many. What is hidden takes no place; the more
    /// of it there is, the more is read at a time.
    async fn read(
        &self,
        mut after: Option<Seq>,
        mut before: Option<Seq>,
        wanted: usize,
    ) -> Result<Vec<HistoryEntry>> {
        let is_forward = after.is_some();
        let mut entries: Vec<HistoryEntry> = Vec::new();
        let mut rows_per_entry = 1;
        loop {
            let limit = (wanted - entries.len()).saturating_mul(rows_per_entry).min(PAGE_ROWS_MAX);
            let query = EventQuery { after, before, limit, ..self.events() };
            let page = self.store.events(self.thread_id, query).await?;
            let shown = page.iter().filter_map(listed);
            match is_forward {
                true => entries.extend(shown),
                false => drop(entries.splice(0..0, shown)),
            }
            let (Some(first), Some(last)) = (page.first(), page.last()) else { return Ok(entries) };
            if entries.len() >= wanted || page.len() < limit {
                return Ok(entries);
            }
            match is_forward {
                true => after = Some(last.seq),
                false => before = Some(first.seq),
            }
            rows_per_entry = rows_per_entry.saturating_mul(2);
        }
    }

    /// Returns whether there are entries on the other side of where the page is read from.
    async fn has_beyond(&self) -> Result<bool> {
        let (after, before) = match (self.query.after_seq, self.query.before_seq) {
            (Some(after), _) => (None, Some(after.saturating_add(1))),
            (None, Some(before)) => (Some(before.saturating_sub(1)), None),
            (None, None) => return Ok(false),
        };
        Ok(!self.read(after, before, 1).await?.is_empty())
    }

    /// Tells with each result the call that it answers, unless that is on the page before it.
    async fn add_calls(&self, entries: &mut [HistoryEntry]) -> Result<()> {
        let mut missing = without_call(entries);
        let mut before = entries.first().map(|entry| entry.seq);
        let (mut limit, mut looked_at, mut read) = (1, 0, 0);
        while !missing.is_empty() && looked_at < CALL_LOOKBACK_MAX && read < CALL_LOOKBACK_ROWS_MAX {
            let types = vec![EventType::AiMessage];
            let superseded = self.query.superseded;
            let query = EventQuery { before, types, superseded, limit, ..EventQuery::default() };
            let page = self.store.events(self.thread_id, query).await?;
            for answer in page.iter().rev().filter(|event| !is_side(event)) {
                looked_at += 1;
                let Some(message) = answer.message() else { continue };
                missing.retain(|at| !add_call(&mut entries[*at], answer.seq, &message));
            }
            if page.len() < limit {
                break;
            }
            read += page.len();
            before = page.first().map(|event| event.seq);
            limit = (limit * LOOK_GROWTH).min(CALL_LOOKBACK_MAX);
        }
        Ok(())
    }

    /// Says which entries a rewind took out of sight: those that are missing where such are left out.
    async fn flag_superseded(&self, entries: &mut [HistoryEntry]) -> Result<()> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
        let (after, before) = (Some(first.seq.saturating_sub(1)), Some(last.seq.saturating_add(1)));
        let query = &HistoryQuery { superseded: Superseded::Hidden, ..self.query.clone() };
        let visible = Pages { query, ..*self }.read(after, before, entries.len()).await?;
        let visible: BTreeSet<Seq> = visible.iter().map(|entry| entry.seq).collect();
        for entry in entries {
            entry.is_superseded = !visible.contains(&entry.seq);
        }
        Ok(())
    }

    /// Tells what a person thinks of the runs whose last answer is on the page. What was copied from another thread is
    /// of runs that are that thread's.
    async fn add_feedback(&self, page: &mut HistoryPage, user_id: &str) -> Result<()> {
        let mut last: Vec<(RunId, usize)> = Vec::new();
        for (at, entry) in page.entries.iter().enumerate() {
            let is_answer = matches!(entry.what, HistoryItem::Message(Message::Ai(_)));
            let Some(run_id) = entry.run_id.filter(|_| is_answer) else { continue };
            last.retain(|(known, _)| *known != run_id);
            last.push((run_id, at));
        }
        if page.has_more_after || self.query.before_seq.is_some() {
            let end = page.entries.last().map_or(0, |entry| entry.seq);
            let going_on = self.run_of_next_answer(end).await?;
            last.retain(|(run_id, _)| Some(*run_id) != going_on);
        }
        self.keep_own(&mut last).await?;
        if last.is_empty() {
            return Ok(());
        }
        let run_ids: Vec<RunId> = last.iter().map(|(run_id, _)| *run_id).collect();
        let mut given = self.store.feedback(self.thread_id, &run_ids, user_id).await?;
        for (run_id, at) in last {
            let found = given.iter().position(|feedback| feedback.run_id == run_id);
            page.entries[at].feedback = Some(found.map(|at| given.swap_remove(at)));
        }
        Ok(())
    }

    /// Returns the run of the first answer after `seq`. The runs of a thread follow each other, so that no other run has
    /// answers both before and after it.
    async fn run_of_next_answer(&self, seq: Seq) -> Result<Option<RunId>> {
        let mut after = seq;
        let mut limit = 1;
        loop {
            let types = vec![EventType::AiMessage];
            let superseded = self.query.superseded;
            let query = EventQuery { types, superseded, ..EventQuery::after(after, limit) };
            let page = self.store.events(self.thread_id, query).await?;
            if let Some(answer) = page.iter().find(|event| !is_side(event)) {
                return Ok(answer.run_id);
            }
            match page.last() {
                Some(last) if page.len() == limit => after = last.seq,
                Some(_) | None => return Ok(None),
            }
            limit = (limit * LOOK_GROWTH).min(PAGE_ROWS_MAX);
        }
    }

    /// Leaves out the runs of other threads: they are all before the first one of this thread, which is looked for.
    async fn keep_own(&self, runs: &mut Vec<(RunId, usize)>) -> Result<()> {
        // Mostly all of them are its own.
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

    /// Returns the query for the events that the page's entries are.
    fn events(&self) -> EventQuery {
        let types = match self.query.shown {
            Shown::All => SHOWN.to_vec(),
            Shown::Markers => MARKERS.to_vec(),
        };
        EventQuery { types, superseded: self.query.superseded, ..EventQuery::default() }
    }
}

/// Returns which entries are results whose call is not on the page before them.
fn without_call(entries: &[HistoryEntry]) -> Vec<usize> {
    let mut called = BTreeSet::new();
    let mut missing = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        match entry.message() {
            Some(message @ Message::Ai(_)) => called.extend(message.tool_calls().map(|(id, ..)| id)),
            Some(Message::Tool(result)) => {
                if !result.call_id.is_empty() && !called.contains(result.call_id.as_str()) {
                    missing.push(at);
                }
            }
            Some(Message::Human(_)) | None => {}
        }
    }
    missing
}

/// Adds the call to the result that answers it; returns whether `answer` makes that call.
fn add_call(entry: &mut HistoryEntry, seq: Seq, answer: &Message) -> bool {
    let HistoryItem::Message(Message::Tool(result)) = &entry.what else { return false };
    let Some((id, name, args)) = answer.tool_calls().find(|(id, ..)| *id == result.call_id) else {
        return false;
    };
    entry.call = Some(CallHeader { seq, id: id.to_owned(), name: name.to_owned(), args: args.clone() });
    true
}
