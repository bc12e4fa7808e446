//! The export of a thread as a file: its history is read page by page and rendered in parts, so that the memory that it
//! needs does not depend on the length of the thread.

mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{EventQuery, PAGE_ROWS_MAX, Store};
use protocol::{Event, EventType, Message, RunId, Seq, Thread, ThreadId};
use tokio_util::task::AbortOnDropHandle;

use self::transcript::TranscriptRenderer;
use crate::{Result, ThreadError, ThreadService};

/// Number of events that are read at a time.
const PAGE_EVENTS: usize = 500;
/// Growth factor of successive reads that look for the next answer.
const READ_GROWTH: usize = 4;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptFormat {
    /// Markdown for people.
    Markdown,
    /// The thread and the entries of its history as JSON.
    Json,
}

/// An export of a thread, without the reasoning of models. Take its parts until there are no more.
pub struct ThreadExport {
    /// The journal.
    store: Arc<dyn Store>,
    /// The thread.
    thread_id: ThreadId,
    /// The person whose feedback the export contains.
    user_id: String,
    /// The rendering.
    renderer: TranscriptRenderer,
    /// The beginning, until it is taken.
    head: Option<String>,
    /// The next page of events, which is read while the previous part is rendered; `None` after the last page.
    next_page: Option<AbortOnDropHandle<journal::Result<Vec<Event>>>>,
}

impl<'a> ThreadService<'a> {
    /// Starts the export of a thread, with this person's feedback on its runs.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn export(self, thread: &'a Thread, format: TranscriptFormat) -> BoxFuture<'a, Result<ThreadExport>> {
        journal::box_future(async move {
            let (origins, undone) = match format {
                TranscriptFormat::Markdown => (
                    self.agent.handoffs().origins(thread).await?,
                    self.undone_markers(thread.thread_id).await?,
                ),
                TranscriptFormat::Json => (Vec::new(), BTreeSet::new()),
            };
            let renderer = TranscriptRenderer { format, undone, has_entries: false };
            let mut export = ThreadExport {
                store: Arc::clone(&self.agent.store),
                thread_id: thread.thread_id,
                user_id: self.agent.feedback_user().to_owned(),
                head: Some(renderer.render_head(thread, &origins)?),
                renderer,
                next_page: None,
            };
            export.start_reading(0);
            Ok(export)
        })
    }

    /// Returns the seqs of the compactions that were undone.
    async fn undone_markers(self, thread_id: ThreadId) -> Result<BTreeSet<Seq>> {
        let mut markers = BTreeSet::new();
        let mut after = 0;
        loop {
            let types = vec![EventType::CompactionUndone];
            let query = EventQuery { types, ..EventQuery::after(after, PAGE_ROWS_MAX) };
            let page = self.agent.store.events(thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(markers) };
            after = last.seq;
            markers.extend(history(&page).iter().filter_map(undone_marker_seq));
        }
    }
}

impl ThreadExport {
    /// Returns the next part of the text, or `None` at the end.
    ///
    /// # Errors
    /// Fails if the journal does, or if the thread was deleted meanwhile. The parts that were returned are incomplete in
    /// that case.
    pub async fn next_part(&mut self) -> Result<Option<String>> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        let Some(page) = self.next_page.take() else { return Ok(None) };
        let page = page.await.unwrap_or(Err(journal::Error::Closed))?;
        let Some(last) = page.last() else {
            // A deleted thread has no events either.
            let thread = self.store.thread(self.thread_id).await?;
            thread.ok_or_else(|| ThreadError::Unknown(self.thread_id.to_string()))?;
            return Ok(Some(self.renderer.render_end().to_owned()));
        };
        let last_seq = last.seq;
        self.start_reading(last_seq);
        let mut entries = history(&page);
        drop(page);
        self.add_feedback(&mut entries, last_seq).await?;
        Ok(Some(self.renderer.render_entries(entries)?))
    }

    /// Starts to read the page after `after`.
    fn start_reading(&mut self, after: Seq) {
        let (store, thread_id) = (Arc::clone(&self.store), self.thread_id);
        let read = async move { store.events(thread_id, EventQuery::after(after, PAGE_EVENTS)).await };
        self.next_page = Some(AbortOnDropHandle::new(tokio::spawn(read)));
    }

    /// Adds the person's feedback to the last answer of each run. `last_seq` is the end of the page.
    async fn add_feedback(&self, entries: &mut [HistoryEntry], last_seq: Seq) -> Result<()> {
        let mut answers: BTreeMap<RunId, usize> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            if let Some(run_id) = answer_run(entry) {
                answers.insert(run_id, index);
            }
        }
        if answers.is_empty() {
            return Ok(());
        }
        let run_ids: Vec<RunId> = answers.keys().copied().collect();
        let feedback = self.store.feedback(self.thread_id, &run_ids, &self.user_id).await?;
        if feedback.is_empty() {
            return Ok(());
        }
        // The runs of a thread do not overlap, so only this run can have its last answer on a later page.
        let continuing_run = self.next_answer_run(last_seq).await?;
        for feedback in feedback {
            if let Some(index) =
                answers.get(&feedback.run_id).filter(|_| Some(feedback.run_id) != continuing_run)
            {
                entries[*index].feedback = Some(Some(feedback));
            }
        }
        Ok(())
    }

    /// Returns the run of the first answer after `after`.
    async fn next_answer_run(&self, mut after: Seq) -> Result<Option<RunId>> {
        let mut limit = 1;
        loop {
            let query = EventQuery { types: vec![EventType::AiMessage], ..EventQuery::after(after, limit) };
            let page = self.store.events(self.thread_id, query).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after = last.seq;
            if let Some(run_id) = history(&page).iter().find_map(answer_run) {
                return Ok(Some(run_id));
            }
            limit = (limit * READ_GROWTH).min(PAGE_EVENTS);
        }
    }
}

/// Returns the run of an entry that is an answer of a model.
const fn answer_run(entry: &HistoryEntry) -> Option<RunId> {
    match &entry.item {
        HistoryItem::Message(Message::Ai(_)) => entry.run_id,
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Marker(_)
        | HistoryItem::Undone(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Archived(_)
        | HistoryItem::Audit(_)
        | HistoryItem::Damaged(_) => None,
    }
}

/// Returns the seq of the compaction boundary that the entry undoes; `None` for other entries.
fn undone_marker_seq(entry: &HistoryEntry) -> Option<Seq> {
    match &entry.item {
        HistoryItem::Undone(undone) => Some(undone.marker_seq),
        HistoryItem::Message(_)
        | HistoryItem::Boundary(_)
        | HistoryItem::Failed(_)
        | HistoryItem::Marker(_)
        | HistoryItem::Archived(_)
        | HistoryItem::Audit(_)
        | HistoryItem::Damaged(_) => None,
    }
}
