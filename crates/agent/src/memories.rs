//! Memory, as a front end asks for it: keep, look, find, trace, and the work that is done behind a turn. What becomes a
//! summary, and how, is decided in the `memory` room.

pub(crate) mod error;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use journal::{OutboxItem, OutboxQuery, PAGE_ROWS_MAX, StoredSummary, SummaryQuery};

use memory::{
    AgentFile, Items, Remembered, Rewritten, SearchRequest, SearchResults, Snapshot, SummarizationHandoff,
    TRANSFER_DUE, Tiering,
};
use model::ChatModel;
use protocol::{AssistantId, LoggedTurn, RunStatus, ThreadId};
use runtime::{Frame, Frames, RunEnd};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::agent::services::MemoryService;

/// How much an assistant remembers, tier by tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// Long-term memory that every conversation begins with.
    pub agent_md: AgentMdStats,
    /// What people and models said in plain words.
    pub turns: TurnStats,
    /// Summaries of medium-term memory.
    pub summaries: u64,
    /// Items in the store, whoever put them.
    pub items: u64,
    /// Threads of the assistant some of whose turns wait to be summarised.
    pub due: u64,
}

/// The size of agent.md.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentMdStats {
    /// Where it is.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// Its bytes.
    pub bytes: u64,
    /// The most bytes that may be noted in it.
    pub bytes_max: u64,
    /// Why it cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Turns of an assistant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TurnStats {
    /// No summary stands for them.
    pub active: u64,
    /// A summary does.
    pub summarised: u64,
    /// A rewind took them back.
    pub withdrawn: u64,
}

/// What an item of the queue says of whose turns are due.
#[derive(Deserialize)]
struct Due {
    agent_id: AssistantId,
    thread_id: ThreadId,
}

impl MemoryService<'_> {
    /// Returns what there is about some words: messages, archived ones too, summaries, handoffs and items, best first.
    ///
    /// # Errors
    /// When there is no word to look for, or the journal fails.
    pub async fn search(self, request: &SearchRequest) -> Result<SearchResults> {
        Ok(memory::search(&*self.agent.store, request).await?)
    }

    /// Adds a line to the notes in agent.md, outside the block; secrets are withheld from it.
    ///
    /// # Errors
    /// When there is nothing to add, or the file cannot be written.
    pub async fn remember(self, text: &str) -> Result<Remembered> {
        let text = text.to_owned();
        self.with_agent_md(move |file| memory::remember(file, &text)).await
    }

    /// Returns agent.md as it is on disk; a missing one is empty.
    ///
    /// # Errors
    /// When there is something that cannot be read.
    pub fn agent_md(self) -> Result<Arc<Snapshot>> {
        Ok(self.agent.agent_file(&self.agent.settings.assistant_id).read()?)
    }

    /// Returns where agent.md is.
    pub fn agent_md_path(self) -> PathBuf {
        self.agent.settings.home.agent_md(&self.agent.settings.assistant_id)
    }

    /// Puts what a person made of the text they were shown in the place of agent.md. The block is not theirs to change,
    /// and what others noted meanwhile is not lost: the answer says so, and nothing is written then.
    ///
    /// # Errors
    /// When the file cannot be read or written, or would be too large; it is as it was.
    pub async fn edit_agent_md(self, shown: Vec<u8>, edited: Vec<u8>) -> Result<Rewritten> {
        self.with_agent_md(move |file| file.rewrite(&shown, &edited)).await
    }

    /// Returns how much the assistant remembers.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn stats(self) -> Result<MemoryStats> {
        let assistant_id = &self.agent.settings.assistant_id;
        let counts = self.agent.store.memory_counts(assistant_id).await?;
        let due = self.memory_due().await?;
        Ok(MemoryStats {
            agent_md: self.agent_md_stats(),
            turns: TurnStats {
                active: counts.active_turns,
                summarised: counts.summarised_turns,
                withdrawn: counts.withdrawn_turns,
            },
            summaries: counts.summaries,
            items: counts.items,
            due,
        })
    }

    /// Returns how many threads of the assistant have turns that wait to be summarised. Only the queue is read.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn memory_due(self) -> Result<u64> {
        let mut threads = BTreeSet::new();
        let mut page = OutboxQuery::of(TRANSFER_DUE, PAGE_ROWS_MAX);
        loop {
            let items = self.agent.store.outbox(page.clone()).await?;
            let dues = items.iter().filter_map(|item| Due::deserialize(&item.payload).ok());
            let own = dues.filter(|due| due.agent_id == self.agent.settings.assistant_id);
            threads.extend(own.map(|due| due.thread_id));
            if items.len() < page.limit {
                return Ok(threads.len() as u64);
            }
            page.after = items.last().map(OutboxItem::place);
        }
    }

    /// Returns the newest summaries of the assistant's old turns, newest first, each with the thread they begin in; never
    /// more than 5,000, and none for a limit of 0.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn recent_summaries(self, limit: usize) -> Result<Vec<StoredSummary>> {
        let agent_id = self.agent.settings.assistant_id.clone();
        let query =
            SummaryQuery { agent_id, except_thread: None, offset: 0, limit: limit.min(PAGE_ROWS_MAX) };
        Ok(self.agent.store.summaries(query).await?)
    }

    /// Returns a page of what was said in the thread in plain words, archived turns too, in order: from the beginning, or
    /// from the first turn after index `after`.
    ///
    /// # Errors
    /// When the thread does not exist, or the journal fails.
    pub async fn task_trace(
        self,
        thread_id: ThreadId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<LoggedTurn>> {
        self.agent.thread(thread_id).await?;
        Ok(self.tiers(None).get_task_trace(thread_id, after, limit).await?)
    }

    /// Returns what agents and clients keep under names.
    pub fn items(self) -> Items {
        Items { store: Arc::clone(&self.agent.store) }
    }

    /// Returns what does the work of memory that no turn waits for. It is owned: spawn its `settle` when a turn has ended,
    /// and when a program begins, for what an earlier process left.
    ///
    /// Everything that is due is in the journal's queue, so that nothing is lost when the work is dropped half-way, and
    /// two processes that do it do it once. A turn that begins meanwhile goes first.
    ///
    /// # Errors
    /// When no model is configured for it and the one in use cannot be opened. One that is configured and cannot be opened
    /// is told of by [`Self::summariser_problem`].
    pub fn tiering(self) -> Result<Tiering> {
        let summariser = self.summariser()?;
        Ok(self.tiering_with(summariser))
    }

    /// Says what is wrong with the configured model for summaries, if anything is: they are extracted then. A turn tells it
    /// once in a notice; whoever only settles what is due asks here.
    pub fn summariser_problem(self) -> Option<String> {
        let settings = &self.agent.config.memory;
        let name = settings.model.as_deref().filter(|_| settings.enabled)?;
        let fault = self.agent.models.summariser(name).err()?;
        Some(format!("`memory.model` is not used, and old turns are extracted: failed to {fault}"))
    }

    /// Does something with agent.md that may wait for another process to let go of it.
    async fn with_agent_md<T: Send + 'static>(
        self,
        work: impl FnOnce(&AgentFile) -> memory::Result<T> + Send + 'static,
    ) -> Result<T> {
        let file = self.agent.agent_file(&self.agent.settings.assistant_id);
        Ok(tokio::task::spawn_blocking(move || work(&file)).await??)
    }

    /// Notices whether turns of a thread whose run has ended are due. What goes wrong here is told and changes nothing
    /// about the turn.
    pub(crate) async fn look_at_memory(self, thread_id: ThreadId, end: &RunEnd, frames: &Frames) {
        if !self.agent.config.memory.enabled || end.status == RunStatus::Interrupted {
            return;
        }
        if let Err(error) = self.tiering_with(None).look(thread_id).await {
            let text = format!("failed to see whether turns are due for memory: {error}");
            frames.send(Frame::Notice { text });
        }
    }

    /// Returns the worker with that summariser. A model in use that cannot be opened is told of where it is asked; here
    /// it only means that nobody knows its window.
    fn tiering_with(self, summariser: Option<Arc<dyn ChatModel>>) -> Tiering {
        let model = self.agent.models.usable();
        Tiering {
            tiers: Arc::new(self.tiers(summariser)),
            contexts: Arc::clone(&self.agent.contexts),
            model: model.as_ref().map(|model| model.name().to_string()).unwrap_or_default(),
            window: model.as_ref().and_then(|model| model.limits().context_tokens),
        }
    }

    fn tiers(self, summariser: Option<Arc<dyn ChatModel>>) -> SummarizationHandoff {
        let store = Arc::clone(&self.agent.store);
        SummarizationHandoff { store, summariser, settings: self.agent.config.memory.clone() }
    }

    /// Opens the model that writes summaries of old turns; `None` means the extract. A configured one that cannot be opened
    /// is replaced by the extract and by no other model: what was said would go to somebody nobody named.
    fn summariser(self) -> Result<Option<Arc<dyn ChatModel>>> {
        match &self.agent.config.memory.model {
            Some(name) => Ok(self.agent.models.summariser(name).unwrap_or(None)),
            None => self.agent.models.small(),
        }
    }

    fn agent_md_stats(self) -> AgentMdStats {
        let path = self.agent_md_path();
        let found = std::fs::metadata(&path);
        AgentMdStats {
            exists: path.symlink_metadata().is_ok(),
            bytes: found.map_or(0, |found| found.len()),
            bytes_max: memory::EDITED_BYTES_MAX as u64,
            problem: self.agent_md().err().map(|error| error.to_string()),
            path,
        }
    }
}
