//! What happened in a thread, as a front end shows it: pages of history, every event, the trace of a run, what people
//! think of it, and export. Where messages were condensed there is a marker; the messages are there all the same.

use std::fmt::Write as _;

use jiff::Timestamp;
use journal::view::{HistoryEntry, HistoryItem, history};
use journal::{EventQuery, HistoryPage, HistoryQuery, Transaction, Write};
use model::tokens::truncate_graphemes;
use protocol::{Block, Event, Message, Rating, Run, RunFeedback, RunId, Seq, Thread, ThreadId};

use crate::agent::Agent;
use crate::{Error, Result};

/// Entries among which the newest run of a thread is looked for.
const NEWEST_ENTRIES: usize = 50;

impl Agent {
    /// Returns every event of the thread, in order.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn events(&self, thread_id: ThreadId) -> Result<Vec<Event>> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            let after = events.last().map_or(0, |event| event.seq);
            let page = self.store.events(thread_id, EventQuery::after(after, journal::PAGE_ROWS_MAX)).await?;
            if page.is_empty() {
                return Ok(events);
            }
            events.extend(page);
        }
    }

    /// Returns what people are shown of the thread, all of it.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn history(&self, thread_id: ThreadId) -> Result<Vec<HistoryEntry>> {
        Ok(history(&self.events(thread_id).await?))
    }

    /// Returns a page of what people are shown of the thread. What they are not shown does not count.
    ///
    /// # Errors
    /// When the page has no rows or too many, or the journal fails.
    pub async fn history_page(&self, thread_id: ThreadId, query: &HistoryQuery) -> Result<HistoryPage> {
        Ok(journal::history_page(&*self.store, thread_id, query).await?)
    }

    /// Returns the run whose id begins with `prefix`; `last` is the newest one of the most recently active thread.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn find_run(&self, prefix: &str) -> Result<Run> {
        let unknown = || Error::UnknownRun { given: prefix.to_owned() };
        let matches = match prefix {
            "last" => self.newest_run().await?.into_iter().collect(),
            _ if prefix.trim().is_empty() => Vec::new(),
            _ => self.store.runs_by_prefix(prefix).await?,
        };
        match matches.as_slice() {
            [only] => self.store.run(*only).await?.ok_or_else(unknown),
            [] => Err(unknown()),
            _ => Err(Error::AmbiguousRun { prefix: prefix.to_owned(), matches }),
        }
    }

    async fn newest_run(&self) -> Result<Option<RunId>> {
        let thread_id = self.find_thread("last").await?.thread_id;
        let query = HistoryQuery { limit: NEWEST_ENTRIES, ..HistoryQuery::default() };
        let page = self.history_page(thread_id, &query).await?;
        Ok(page.entries.iter().rev().find_map(|entry| entry.run_id))
    }

    /// Remembers what the person here thinks of a run; `None` forgets it.
    ///
    /// # Errors
    /// When there is no such run, the comment is too long, or the journal fails.
    pub async fn set_feedback(
        &self,
        run_id: RunId,
        rating: Option<Rating>,
        comment: Option<String>,
    ) -> Result<Option<RunFeedback>> {
        let run =
            self.store.run(run_id).await?.ok_or_else(|| Error::UnknownRun { given: run_id.to_string() })?;
        let (thread_id, user_id) = (run.thread_id, RunFeedback::LOCAL.to_owned());
        if let Some(text) = &comment
            && truncate_graphemes(text, RunFeedback::COMMENT_GRAPHEMES_MAX).len() < text.len()
        {
            return Err(Error::CommentTooLong { graphemes_max: RunFeedback::COMMENT_GRAPHEMES_MAX });
        }
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
        self.store.commit(Transaction { fence: None, writes: vec![write] }).await?;
        Ok(self.store.feedback(thread_id, &[run_id], RunFeedback::LOCAL).await?.pop())
    }

    /// Returns a page of the events of a run, from the first one after `after`: those that were condensed or taken back
    /// since, too.
    ///
    /// # Errors
    /// When there is no such run, or the journal fails.
    pub async fn run_trace(&self, run_id: RunId, after: Seq, limit: usize) -> Result<Vec<Event>> {
        let run =
            self.store.run(run_id).await?.ok_or_else(|| Error::UnknownRun { given: run_id.to_string() })?;
        Ok(self.store.run_events(run.thread_id, run_id, after, limit).await?)
    }
}

/// Returns the history as Markdown for people; reasoning is left out.
pub fn export_markdown(thread: &Thread, entries: &[HistoryEntry]) -> String {
    let mut out = format!("# {}\n", thread.name.as_deref().unwrap_or("Thread"));
    // Writing to a String cannot fail.
    let _ = writeln!(out, "\nThread `{}`\n", thread.thread_id);
    for entry in entries {
        let (who, text) = match &entry.what {
            HistoryItem::Message(message) => (speaker(message).to_owned(), markdown(message)),
            HistoryItem::Boundary(boundary) => {
                ("Earlier messages condensed by the original agent".to_owned(), boundary.text.clone())
            }
            HistoryItem::Marker(marker) => (
                format!(
                    "{} messages condensed ({}–{})",
                    marker.replaced_count, marker.first_seq, marker.last_seq
                ),
                quoted(&marker.summary),
            ),
            HistoryItem::Undone(undone) => (
                format!("Condensing undone (marker {})", undone.marker_seq),
                "_All of it is sent again._".to_owned(),
            ),
        };
        if !text.trim().is_empty() {
            let _ = writeln!(out, "## {who} · {}\n\n{}\n", entry.seq, text.trim_end());
        }
    }
    out
}

/// Returns a summary as a quotation: its headings are none of the document.
fn quoted(summary: &str) -> String {
    summary.lines().map(|line| format!("> {line}\n")).collect()
}

const fn speaker(message: &Message) -> &'static str {
    match message {
        Message::Human(_) => "Human",
        Message::Ai(_) => "AI",
        Message::Tool(_) => "Tool",
    }
}

fn markdown(message: &Message) -> String {
    let mut text = String::new();
    for block in message.content() {
        match block {
            Block::Text { text: part } => {
                let _ = writeln!(text, "{part}");
            }
            Block::ToolCall { name, args, .. } => {
                let _ = writeln!(text, "`{name}` {args}");
            }
            Block::Media { media_type, .. } => {
                let _ = writeln!(text, "[{media_type}]");
            }
            Block::Thinking { .. } | Block::Opaque { .. } => {}
        }
    }
    text
}
