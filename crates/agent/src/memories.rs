//! The memory service: notes in `agent.md`, pins, search, statistics, stored items, and the summarization of old
//! messages after a turn. The `memory` crate decides which messages are summarized, and how.

pub(crate) mod embeddings;
pub(crate) mod error;
pub(crate) mod facts;

use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{
    OutboxItem, OutboxQuery, PAGE_ROWS_MAX, ProjectScope, RevisionCause, StoredSummary, SummaryQuery,
};

use memory::{
    AgentFileGuard, AgentFileSnapshot, ItemStore, NotesScope, PinReceipt, PinRequest, RecallQuery,
    RecallResult, RememberedNote, RewriteOutcome, SearchRequest, SearchResults, SummarizationHandoff,
    SummarizationWorker, TRANSFER_OUTBOX_KIND, ThreadPins, UnpinReceipt,
};
use model::ChatModel;
use protocol::{AssistantId, LoggedMessage, Pin, RunStatus, ThreadId};
use runtime::{Frame, FrameSender, RunEnd};
use serde::{Deserialize, Serialize};

use crate::{Agent, Result};

/// Memory that outlives a context: `agent.md`, summaries of old messages, stored items, search and recall.
#[derive(Clone, Copy)]
pub struct MemoryService<'a> {
    /// The agent whose memory the service works on.
    pub(crate) agent: &'a Agent,
}

impl Agent {
    /// Returns the service for memory and search.
    pub const fn memory(&self) -> MemoryService<'_> {
        MemoryService { agent: self }
    }
}

/// The amount of an assistant's memory, by tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// Long-term memory: the `agent.md` that every conversation begins with.
    pub agent_md: AgentMdStats,
    /// Short-term memory: the plain-text messages of people and models.
    pub turns: MessageStats,
    /// Medium-term memory: the number of stored summaries.
    pub summaries: u64,
    /// The number of items in the store, of all writers.
    pub items: u64,
    /// The number of proposed facts that await review.
    pub facts_to_review: u64,
    /// The number of the assistant's threads with messages that are queued for summarization.
    pub due: u64,
}

/// The state and size of `agent.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentMdStats {
    /// The path of the file.
    pub path: PathBuf,
    /// True if the path exists.
    pub exists: bool,
    /// Its size in bytes.
    pub bytes: u64,
    /// The largest size in bytes up to which notes may be added.
    pub bytes_max: u64,
    /// The reason why it cannot be read; `None` if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The number of an assistant's messages, by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MessageStats {
    /// Messages that no summary covers.
    pub active: u64,
    /// Messages that a summary covers.
    pub summarised: u64,
    /// Messages that a rewind hid.
    pub withdrawn: u64,
}

/// The fields of a queued summarization that identify its thread.
#[derive(Deserialize)]
struct DueThreadRecord {
    /// The assistant that owns the messages.
    agent_id: AssistantId,
    /// The thread with the messages.
    thread_id: ThreadId,
}

impl<'a> MemoryService<'a> {
    /// Recalls original messages of the thread and of the threads from which it was handed off.
    ///
    /// # Errors
    /// Fails if the query contains no word to search for, if the range is empty, if the named thread is not
    /// in the lineage, or if the journal fails.
    pub fn recall(self, thread_id: ThreadId, query: &'a RecallQuery) -> BoxFuture<'a, Result<RecallResult>> {
        journal::box_future(async move { Ok(memory::recall(&*self.agent.store, thread_id, query).await?) })
    }

    /// Searches messages, including archived ones, summaries, handoffs and items. The best hits come first.
    ///
    /// # Errors
    /// Fails if the request contains no word to search for, or if the journal fails.
    pub fn search(self, request: &'a SearchRequest) -> BoxFuture<'a, Result<SearchResults>> {
        journal::box_future(async move { Ok(memory::search(&*self.agent.store, request).await?) })
    }

    /// Adds a note to those in `agent.md` that conversations in `scope` see: to those of the project, or to the personal ones
    /// if the scope is that of all projects. Secrets in it are redacted.
    ///
    /// # Errors
    /// Fails if the text is blank, or if the file cannot be written.
    pub fn remember(self, scope: NotesScope, text: &'a str) -> BoxFuture<'a, Result<RememberedNote>> {
        journal::box_future(async move {
            if let NotesScope::Project(_) = scope {
                // Another folder's path may become the same text.
                self.agent.workspace_name()?;
            }
            let text = text.to_owned();
            let note = move |file: &mut AgentFileGuard<'_>| file.remember(scope.default_owner(), &text);
            Ok(self.notes_history().change(RevisionCause::Remember, note).await?)
        })
    }

    /// Returns the pins of the thread: the texts that each of its model requests contains word for word.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn pins(self, thread_id: ThreadId) -> BoxFuture<'a, Result<Vec<Pin>>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            Ok(ThreadPins::read(&*self.agent.store, thread_id).await?.pins)
        })
    }

    /// Pins a text, or a message of the thread word for word. The next model request contains it, even within a run.
    /// Secrets in it are redacted. A text that is pinned already is not pinned again.
    ///
    /// # Errors
    /// [`memory::PinError`] if the text is blank or too long, if there are too many pins, or if the message cannot be
    /// pinned. Fails if the thread does not exist, or if the journal fails.
    pub fn pin(self, thread_id: ThreadId, request: &'a PinRequest) -> BoxFuture<'a, Result<PinReceipt>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            Ok(memory::pin(&*self.agent.store, thread_id, request, Timestamp::now()).await?)
        })
    }

    /// Removes a pin of the thread. The message that it quotes stays as it is.
    ///
    /// # Errors
    /// [`memory::PinError`] if the thread has no pin with this number. Fails if the thread does not exist, or if the
    /// journal fails.
    pub fn unpin(self, thread_id: ThreadId, number: u64) -> BoxFuture<'a, Result<UnpinReceipt>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            Ok(memory::unpin(&*self.agent.store, thread_id, number, Timestamp::now()).await?)
        })
    }

    /// Returns the content of `agent.md` on disk. A missing file is returned as an empty one.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be read.
    pub fn agent_md(self) -> Result<Arc<AgentFileSnapshot>> {
        Ok(self.agent.agent_file(&self.agent.settings.assistant_id).read()?)
    }

    /// Returns the path of `agent.md`.
    pub fn agent_md_path(self) -> PathBuf {
        self.agent.settings.home.agent_md_path(&self.agent.settings.assistant_id)
    }

    /// Replaces the text of `agent.md` with a person's edit of it. `displayed` is the text that the person
    /// started from.
    ///
    /// The managed block is not part of the edit. If someone else changed the file since `displayed` was
    /// read, nothing is written and the outcome says so, so that no note is lost.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written, or if the result would be too large. The file is
    /// unchanged in that case.
    pub fn edit_agent_md(self, displayed: Vec<u8>, edited: Vec<u8>) -> BoxFuture<'a, Result<RewriteOutcome>> {
        journal::box_future(async move {
            let edit = move |file: &mut AgentFileGuard<'_>| file.rewrite(&displayed, &edited);
            Ok(self.notes_history().change(RevisionCause::Edit, edit).await?)
        })
    }

    /// Returns the amount of the assistant's memory.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn stats(self) -> BoxFuture<'a, Result<MemoryStats>> {
        journal::box_future(async move {
            let assistant_id = &self.agent.settings.assistant_id;
            let counts = self.agent.store.memory_counts(assistant_id).await?;
            let due = self.due_thread_count().await?;
            Ok(MemoryStats {
                agent_md: self.agent_md_stats(),
                turns: MessageStats {
                    active: counts.active_turns,
                    summarised: counts.summarised_turns,
                    withdrawn: counts.rewound_turns,
                },
                summaries: counts.summaries,
                items: counts.items,
                facts_to_review: counts.proposed_facts,
                due,
            })
        })
    }

    /// Returns the number of the assistant's threads with messages that are queued for summarization. Reads
    /// only the outbox, page by page.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn due_thread_count(self) -> BoxFuture<'a, Result<u64>> {
        journal::box_future(async move {
            let mut threads = BTreeSet::new();
            let mut page = OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, PAGE_ROWS_MAX);
            loop {
                let items = self.agent.store.outbox(page.clone()).await?;
                let records =
                    items.iter().filter_map(|item| DueThreadRecord::deserialize(&item.payload).ok());
                let own = records.filter(|record| record.agent_id == self.agent.settings.assistant_id);
                threads.extend(own.map(|record| record.thread_id));
                if items.len() < page.limit {
                    return Ok(threads.len() as u64);
                }
                page.after = items.last().map(OutboxItem::cursor);
            }
        })
    }

    /// Returns the newest summaries of the assistant's old messages in these projects, newest first, each with the thread in
    /// which they begin. Returns at most 5,000, and none for a limit of 0.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn recent_summaries(
        self,
        project: ProjectScope,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSummary>>> {
        journal::box_future(async move {
            let agent_id = self.agent.settings.assistant_id.clone();
            let limit = limit.min(PAGE_ROWS_MAX);
            let query = SummaryQuery { agent_id, project, except_thread: None, offset: 0, limit };
            Ok(self.agent.store.summaries(query).await?)
        })
    }

    /// Returns a page of the thread's plain-text messages in order, including archived ones. The page starts
    /// at the beginning, or at the first message after index `after`.
    ///
    /// # Errors
    /// Fails if the thread does not exist, or if the journal fails.
    pub fn task_trace(
        self,
        thread_id: ThreadId,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<LoggedMessage>>> {
        journal::box_future(async move {
            self.agent.thread(thread_id).await?;
            Ok(self.summarization_handoff(None).get_task_trace(thread_id, after, limit).await?)
        })
    }

    /// Returns the store of named items of agents and clients.
    pub fn items(self) -> ItemStore {
        ItemStore { store: Arc::clone(&self.agent.store) }
    }

    /// Returns the worker that summarizes old messages. No turn waits for it. The worker is owned: spawn its
    /// `summarize_queue` after a turn, and at program start for the queue that an earlier process left.
    ///
    /// All pending work is in the journal's outbox. Dropping the worker half-way therefore loses nothing, and
    /// two processes that work on the queue do each summary once. A turn that starts meanwhile takes
    /// precedence.
    ///
    /// # Errors
    /// Fails if no summarizer is configured and the selected model cannot be opened. A configured summarizer
    /// that cannot be opened is reported by [`Self::summarizer_problem`] instead.
    pub fn tiering_worker(self) -> Result<SummarizationWorker> {
        let summarizer = self.open_summarizer()?;
        Ok(self.tiering_worker_with(summarizer))
    }

    /// Returns a message about a configured summarizer that cannot be used; `None` if it can. Offline
    /// summaries replace it then. Turns report the problem once as a notice; callers that only summarize the
    /// queue ask here.
    pub fn summarizer_problem(self) -> Option<String> {
        let settings = &self.agent.config.memory;
        let name = settings.model.as_deref().filter(|_| settings.enabled)?;
        let problem = self.agent.models.open_summarizer(name).err()?;
        Some(format!(
            "`memory.model` is not used, and old messages get an offline summary: failed to {problem}"
        ))
    }

    /// Queues the thread for summarization if its messages are due after a run. A failure is sent as a notice
    /// and does not affect the turn. An interrupted run is skipped, because its turn continues.
    pub(crate) async fn check_memory_due(self, thread_id: ThreadId, end: &RunEnd, frames: &FrameSender) {
        if !self.agent.config.memory.enabled || end.status == RunStatus::Interrupted {
            return;
        }
        if let Err(error) = self.tiering_worker_with(None).enqueue_if_due(thread_id).await {
            let text = format!("failed to check whether messages are due for memory: {error}");
            frames.send(Frame::Notice { text });
        }
    }

    /// Returns a worker with that summarizer. If the selected model cannot be opened, its window is unknown
    /// here; the run that uses the model reports the failure.
    fn tiering_worker_with(self, summarizer: Option<Arc<dyn ChatModel>>) -> SummarizationWorker {
        let model = self.agent.models.open_if_usable();
        SummarizationWorker {
            summarization: Arc::new(self.summarization_handoff(summarizer)),
            contexts: Arc::clone(&self.agent.contexts),
            model: model.as_ref().map(|model| model.name().to_string()).unwrap_or_default(),
            window: model.as_ref().and_then(|model| model.limits().context_tokens),
        }
    }

    /// Returns the summarization of the `memory` crate with the configured settings and that summarizer.
    fn summarization_handoff(self, summarizer: Option<Arc<dyn ChatModel>>) -> SummarizationHandoff {
        let store = Arc::clone(&self.agent.store);
        let agent_md = Some(self.agent.agent_file_lookup());
        SummarizationHandoff { store, summarizer, settings: self.agent.config.memory.clone(), agent_md }
    }

    /// Opens the model that summarizes old messages; `None` means the offline summary.
    ///
    /// A configured model that cannot be opened is replaced by the offline summary and never by another
    /// model. Otherwise messages would be sent to a provider that the person did not choose.
    fn open_summarizer(self) -> Result<Option<Arc<dyn ChatModel>>> {
        match &self.agent.config.memory.model {
            Some(name) => Ok(self.agent.models.open_summarizer(name).unwrap_or(None)),
            None => self.agent.models.open_small(),
        }
    }

    /// Returns the state and size of `agent.md`.
    fn agent_md_stats(self) -> AgentMdStats {
        let path = self.agent_md_path();
        let metadata = std::fs::metadata(&path);
        AgentMdStats {
            exists: path.symlink_metadata().is_ok(),
            bytes: metadata.map_or(0, |metadata| metadata.len()),
            bytes_max: memory::EDITED_BYTES_MAX as u64,
            problem: self.agent_md().err().map(|error| error.to_string()),
            path,
        }
    }
}
