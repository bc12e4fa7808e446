//! The history of threads and runs for people: pages of entries, all events, and feedback on runs. Compacted
//! messages are part of the history, with a marker for each compaction.

use futures::future::BoxFuture;
use std::collections::BTreeMap;

use jiff::Timestamp;
use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{EventQuery, HistoryPage, HistoryQuery, ThreadFilter, Transaction, Write};
use model::tokens::truncate_graphemes;
use protocol::{Event, Message, Rating, Run, RunFeedback, RunId, Seq, ThreadId};

use crate::{Result, RunError};
use crate::{RunService, ThreadService};

/// The number of most recently active threads that are searched for the newest run.
const NEWEST_RUN_THREADS_MAX: usize = 20;

impl<'a> ThreadService<'a> {
    /// Returns all visible events of the thread in order. Reads page by page.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn events(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<Event>>> {
        journal::box_future(async move {
            let mut events: Vec<Event> = Vec::new();
            loop {
                let after = events.last().map_or(0, |event| event.seq);
                let page = self
                    .agent
                    .store
                    .events(thread_id, EventQuery::after(after, journal::PAGE_ROWS_MAX))
                    .await?;
                if page.is_empty() {
                    return Ok(events);
                }
                events.extend(page);
            }
        })
    }

    /// Returns the complete history of the thread, with this person's feedback on its runs.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn history(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<HistoryEntry>>> {
        journal::box_future(async move {
            let mut entries = history(&self.events(thread_id).await?);
            let mut answers: BTreeMap<RunId, usize> = BTreeMap::new();
            for (index, entry) in entries.iter().enumerate() {
                if let (HistoryItem::Message(Message::Ai(_)), Some(run_id)) = (&entry.item, entry.run_id) {
                    answers.insert(run_id, index);
                }
            }
            let run_ids: Vec<RunId> = answers.keys().copied().collect();
            for feedback in self.agent.store.feedback(thread_id, &run_ids, self.agent.feedback_user()).await?
            {
                if let Some(index) = answers.get(&feedback.run_id) {
                    entries[*index].feedback = Some(Some(feedback));
                }
            }
            Ok(entries)
        })
    }

    /// Returns a page of the thread's history. Events that are not shown to people do not count against the
    /// size of the page.
    ///
    /// # Errors
    /// Fails if the page has no rows or more than [`journal::PAGE_ROWS_MAX`], or if the journal fails.
    pub fn history_page(
        self,
        thread_id: ThreadId,
        query: &'a HistoryQuery,
    ) -> BoxFuture<'a, Result<HistoryPage>> {
        journal::box_future(
            async move { Ok(journal::history_page(&*self.agent.store, thread_id, query).await?) },
        )
    }
}

impl<'a> RunService<'a> {
    /// Finds the run whose id begins with `prefix`. The prefix `last` means the newest run.
    ///
    /// # Errors
    /// [`RunError::Unknown`] if there is none; [`RunError::Ambiguous`] if there are several.
    pub fn find(self, prefix: &'a str) -> BoxFuture<'a, Result<Run>> {
        journal::box_future(async move {
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
        })
    }

    /// Returns the newest run of the most recently active threads.
    async fn newest_run(self) -> Result<Option<RunId>> {
        // Several threads are searched, because a fork or the child of a handoff is newer than the last run
        // but has no run yet.
        let filter = ThreadFilter { limit: NEWEST_RUN_THREADS_MAX, ..ThreadFilter::default() };
        let mut newest = None;
        for thread in self.agent.threads().list(filter).await? {
            // Run ids are UUIDv7, so the greatest one is the newest.
            newest = newest.max(self.agent.store.newest_run(thread.thread_id).await?);
        }
        Ok(newest)
    }

    /// Stores this person's feedback on a run, or removes it if `rating` is `None`. Without a new comment,
    /// the comment of earlier feedback with the same rating is kept. Returns the stored feedback.
    ///
    /// # Errors
    /// Fails if the run does not exist, if the comment is too long, or if the journal fails.
    pub fn set_feedback(
        self,
        run_id: RunId,
        rating: Option<Rating>,
        comment: Option<String>,
    ) -> BoxFuture<'a, Result<Option<RunFeedback>>> {
        journal::box_future(async move {
            let run = self.existing_run(run_id).await?;
            let (thread_id, user_id) = (run.thread_id, self.agent.feedback_user().to_owned());
            if let Some(text) = &comment
                && truncate_graphemes(text, RunFeedback::COMMENT_GRAPHEMES_MAX).len() < text.len()
            {
                return Err(RunError::CommentTooLong.into());
            }
            let before =
                self.agent.store.feedback(thread_id, &[run_id], self.agent.feedback_user()).await?.pop();
            let earlier_comment =
                before.filter(|before| Some(before.rating) == rating).and_then(|before| before.comment);
            let comment = comment.or(earlier_comment);
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
        })
    }

    /// Returns a page of the events of a run, from the first one after `after`. Compacted and rewound events
    /// are included.
    ///
    /// # Errors
    /// Fails if the run does not exist, or if the journal fails.
    pub fn run_events(self, run_id: RunId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Event>>> {
        journal::box_future(async move {
            let run = self.existing_run(run_id).await?;
            Ok(self.agent.store.run_events(run.thread_id, run_id, after, limit).await?)
        })
    }
}
