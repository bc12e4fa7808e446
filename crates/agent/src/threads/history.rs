//! What happened in a thread, as a front end shows it: pages of history, every event, the trace of a run, what people
//! think of it. Where messages were condensed there is a marker; the messages are there all the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{EventQuery, HistoryPage, HistoryQuery, ThreadFilter, Transaction, Write};
use model::tokens::truncate_graphemes;
use protocol::{Event, Message, Rating, Run, RunFeedback, RunId, Seq, ThreadId};

use crate::agent::services::{RunService, ThreadService};
use crate::{Result, RunError};

/// Threads that are looked through for the newest run: those that were active last.
const NEWEST_THREADS: usize = 20;

impl ThreadService<'_> {
    /// Returns every event of the thread, in order.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn events(self, thread_id: ThreadId) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let page =
                self.agent.store.events(thread_id, EventQuery::after(after, journal::PAGE_ROWS_MAX)).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    /// Returns what people are shown of the thread, all of it, with what the person here thinks of its runs.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn history(self, thread_id: ThreadId) -> Result<Vec<HistoryEntry>> {
        let mut entries = history(&self.events(thread_id).await?);
        let mut answers: BTreeMap<RunId, usize> = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            if let (HistoryItem::Message(Message::Ai(_)), Some(run_id)) = (&entry.what, entry.run_id) {
                answers.insert(run_id, at);
            }
        }
        let run_ids: Vec<RunId> = answers.keys().copied().collect();
        for feedback in self.agent.store.feedback(thread_id, &run_ids, self.agent.feedback_user()).await? {
            if let Some(at) = answers.get(&feedback.run_id) {
                entries[*at].feedback = Some(Some(feedback));
            }
        }
        Ok(entries)
    }

    /// Returns a page of what people are shown of the thread. What they are not shown does not count.
    ///
    /// # Errors
    /// When the page has no rows or too many, or the journal fails.
    pub async fn history_page(self, thread_id: ThreadId, query: &HistoryQuery) -> Result<HistoryPage> {
        Ok(journal::history_page(&*self.agent.store, thread_id, query).await?)
    }
}

impl RunService<'_> {
    /// Returns the run whose id begins with `prefix`; `last` is the newest one of the most recently active thread.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn find(self, prefix: &str) -> Result<Run> {
        let unknown = || RunError::Unknown(prefix.to_owned());
        let matches = match prefix {
            "last" => self.newest_run().await?.into_iter().collect(),
            _ if prefix.trim().is_empty() => Vec::new(),
            _ => self.agent.store.runs_by_prefix(prefix, &self.agent.scope).await?,
        };
        match matches.as_slice() {
            [only] => Ok(self.agent.store.run(*only).await?.ok_or_else(unknown)?),
            [] => Err(unknown().into()),
            _ => {
                let matches = matches.iter().map(RunId::to_string).collect();
                Err(RunError::Ambiguous { prefix: prefix.to_owned(), matches }.into())
            }
        }
    }

    async fn newest_run(self) -> Result<Option<RunId>> {
        // The child of a handoff and a fork are newer than the run they came from, and have none yet.
        let filter = ThreadFilter { limit: NEWEST_THREADS, ..ThreadFilter::default() };
        let mut newest = None;
        for thread in self.agent.threads().list(filter).await? {
            // Ids of runs are in the order of time.
            newest = newest.max(self.agent.store.newest_run(thread.thread_id).await?);
        }
        Ok(newest)
    }

    /// Remembers what the person here thinks of a run; `None` forgets it. Without a comment, an earlier one of the same
    /// thumb stays.
    ///
    /// # Errors
    /// When there is no such run, the comment is too long, or the journal fails.
    pub async fn set_feedback(
        self,
        run_id: RunId,
        rating: Option<Rating>,
        comment: Option<String>,
    ) -> Result<Option<RunFeedback>> {
        let run = self.known_run(run_id).await?;
        let (thread_id, user_id) = (run.thread_id, self.agent.feedback_user().to_owned());
        if let Some(text) = &comment
            && truncate_graphemes(text, RunFeedback::COMMENT_GRAPHEMES_MAX).len() < text.len()
        {
            return Err(RunError::CommentTooLong.into());
        }
        let before = self.agent.store.feedback(thread_id, &[run_id], self.agent.feedback_user()).await?.pop();
        let kept = before.filter(|before| Some(before.rating) == rating).and_then(|before| before.comment);
        let comment = comment.or(kept);
        let now = Timestamp::now();
        let write = match rating {
            Some(rating) => Write::PutFeedback(RunFeedback {
                thread_id,
                run_id,
                user_id,
                rating,
                comment,
                created_at: now,
                updated_at: now,
            }),
            None => Write::RemoveFeedback { thread_id, run_id, user_id },
        };
        self.agent.store.commit(Transaction { fence: None, writes: vec![write] }).await?;
        Ok(self.agent.store.feedback(thread_id, &[run_id], self.agent.feedback_user()).await?.pop())
    }

    /// Returns a page of the events of a run, from the first one after `after`: those that were condensed or taken back
    /// since, too.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn events_of(self, run_id: RunId, after: Seq, limit: usize) -> Result<Vec<Event>> {
        let run = self.known_run(run_id).await?;
        Ok(self.agent.store.run_events(run.thread_id, run_id, after, limit).await?)
    }
}
