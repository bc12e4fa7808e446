//! The import of one conversation: how much of it is already stored, in which thread, and which entries are
//! added. Every entry is stored under the digest of all entries up to it. One look-up therefore shows whether
//! a whole prefix is stored.

use std::ops::Range;
use std::path::Path;

use jiff::Timestamp;
use journal::{EventQuery, ImportProgress, ImportSource, ThreadPatch, Transaction, Write};
use protocol::{Category, IncompleteImport, NewEvent, Seq, Thread, ThreadId};
use serde_json::{Map, json};
use transcripts::{ConversationInfo, TranscriptSource};

use super::message_counts::MessageCounts;
use super::reader::{BatchPosition, EntryBatch, KeyedEvent, modified_time};
use super::scratch;
use super::source_import::AddedCounts;
use crate::Result;
use crate::agent::Agent;
use crate::project::project_name;

/// Instructions for reading a conversation again.
#[derive(Debug)]
pub(super) struct ConversationRetry {
    /// The key under which the conversation is imported.
    pub(super) key: String,
    /// The thread that contains the beginning of the conversation but cannot take the rest.
    pub(super) continues: Option<ThreadId>,
}

/// The state of one conversation's import.
pub(super) struct ConversationImport {
    /// The key of its session. Histories that diverged from the one stored under this key have keys that
    /// begin with it.
    pub(super) session_key: String,
    /// The thread that contains the conversation, or will contain it.
    pub(super) thread_id: ThreadId,
    /// The number of entries read so far.
    pub(super) entries_read: u64,
    /// The number of messages among them.
    messages_read: u64,
    /// The treatment of the next entries.
    pub(super) state: ConversationImportState,
    /// The key under which the conversation is imported: that of the session, or of a diverged history.
    key: String,
    /// The thread to create if the conversation is not stored yet.
    new_thread: Thread,
    /// The mark of the thread until the import is complete, without the counts.
    mark: IncompleteImport,
    /// The stored mark of the thread.
    mark_state: MarkState,
}

/// The stored mark of a thread, as far as this import knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkState {
    /// The thread has no mark.
    Unmarked,
    /// The thread has the mark of an incomplete import.
    Marked,
}

/// The treatment of a conversation's next entries.
pub(super) enum ConversationImportState {
    /// All entries so far are stored. The next ones are compared with the stored source.
    Comparing(ImportSource),
    /// The next entries are new and are appended. The progress is that of the stored source; `None` before
    /// the thread exists.
    Appending(Option<ImportProgress>),
    /// The next entries are skipped, because the conversation must be read again.
    Retry(ConversationRetry),
}

/// The decision whether new entries are appended to the stored ones.
enum AppendDecision {
    /// They are appended to the same thread.
    Append {
        /// The stored progress.
        progress: ImportProgress,
        /// The mark of the thread.
        mark_state: MarkState,
    },
    /// Another process has stored more entries meanwhile, so that some of them may not be new.
    StoredFurther(ImportSource),
    /// They are not appended, because the thread was continued here or a run is active on it.
    Diverged,
    /// The thread was deleted meanwhile.
    ThreadDeleted,
}

impl ConversationImport {
    /// Finds the stored source of a conversation, before any of its entries were read.
    pub(super) async fn locate(
        agent: &Agent,
        source: &TranscriptSource,
        session: String,
        ConversationRetry { key, continues }: ConversationRetry,
        conversation: Box<ConversationInfo>,
    ) -> Result<Self> {
        let known = agent.stored_agent().store.import_source(&key).await?;
        let thread_id = known.as_ref().map_or_else(ThreadId::generate, |known| known.thread_id);
        let started_at = conversation.started_at.unwrap_or_else(|| modified_time(source));
        let mut blank = Thread::blank(thread_id, agent.settings.assistant_id.clone(), started_at);
        blank.name.clone_from(&conversation.title);
        blank.project = conversation.workspace.as_deref().map(|folder| project_name(Path::new(folder)));
        blank.metadata = source_metadata(&conversation, source, continues);
        let state =
            known.map_or(ConversationImportState::Appending(None), ConversationImportState::Comparing);
        Ok(Self {
            session_key: session,
            thread_id,
            entries_read: 0,
            messages_read: 0,
            state,
            key,
            new_thread: blank.with_assistant_metadata(),
            mark: IncompleteImport {
                path: source.lasting_path().map(|path| path.to_string_lossy().into_owned()),
                messages: 0,
                messages_total: None,
                whole_thread_id: None,
            },
            mark_state: MarkState::Unmarked,
        })
    }

    /// Handles the next entries. New ones are stored together with the progress in one transaction. Returns
    /// the counts of what was added.
    pub(super) async fn import_batch(
        &mut self,
        agent: &Agent,
        batch: EntryBatch,
        counts: &mut MessageCounts,
    ) -> Result<AddedCounts> {
        let EntryBatch { mut entries, position } = batch;
        let stored = self.skip_stored(agent, &entries).await?;
        self.entries_read += entries.len() as u64;
        self.messages_read += entries.iter().filter(|entry| entry.is_message()).count() as u64;
        let new_entries = entries.split_off(stored);
        match (&self.state, new_entries.is_empty()) {
            (ConversationImportState::Appending(progress), false) => {
                let progress = *progress;
                let mark = match agent.scratch_of {
                    // A scratch journal is never continued by another import.
                    Some(_) => None,
                    None => self.mark_patch(position, counts).await?,
                };
                self.append_events(agent, progress, new_entries, mark).await
            }
            (
                ConversationImportState::Appending(_)
                | ConversationImportState::Comparing(_)
                | ConversationImportState::Retry(_),
                _,
            ) => Ok(AddedCounts::default()),
        }
    }

    /// Returns the change of the thread's mark that is stored with a batch: a batch before others sets it, and the last one
    /// removes it. `None` if the mark stays as it is.
    async fn mark_patch(
        &self,
        position: BatchPosition,
        counts: &mut MessageCounts,
    ) -> Result<Option<ThreadPatch>> {
        let mut patch = ThreadPatch::default();
        match (position, self.mark_state) {
            (BatchPosition::Inner, MarkState::Unmarked | MarkState::Marked) => {
                let mark = IncompleteImport {
                    messages: self.messages_read,
                    messages_total: counts.total(&self.session_key).await,
                    ..self.mark.clone()
                };
                patch.metadata.insert(IncompleteImport::KEY.to_owned(), serde_json::to_value(mark)?);
            }
            (BatchPosition::Last, MarkState::Marked) => {
                patch.remove_metadata.push(IncompleteImport::KEY.to_owned());
            }
            (BatchPosition::Last, MarkState::Unmarked) => return Ok(None),
        }
        Ok(Some(patch))
    }

    /// Returns how many entries of the batch are stored or skipped. On the way, finds out which stored
    /// history the conversation continues.
    async fn skip_stored(&mut self, agent: &Agent, batch: &[KeyedEvent]) -> Result<usize> {
        let mut from = 0;
        while let ConversationImportState::Comparing(known) = &self.state {
            let remaining =
                usize::try_from(known.entries.saturating_sub(self.entries_read)).unwrap_or(usize::MAX);
            let end = remaining.min(batch.len());
            let (index, continues) = match self.first_unstored(agent, known, batch, from..end).await? {
                Some(index) => (index, None),
                None if end == batch.len() => return Ok(end),
                None => match append_decision(agent, known).await? {
                    AppendDecision::Append { progress, mark_state } => {
                        self.state = ConversationImportState::Appending(Some(progress));
                        self.mark_state = mark_state;
                        return Ok(end);
                    }
                    AppendDecision::StoredFurther(known) => {
                        self.state = ConversationImportState::Comparing(known);
                        from = end;
                        continue;
                    }
                    AppendDecision::Diverged => (end, Some(known.thread_id)),
                    AppendDecision::ThreadDeleted => {
                        self.state = ConversationImportState::Retry(ConversationRetry {
                            key: self.session_key.clone(),
                            continues: None,
                        });
                        return Ok(batch.len());
                    }
                },
            };
            self.switch_to_branch(agent, &batch[index].chain, index, continues).await?;
            from = index + 1;
        }
        match self.state {
            ConversationImportState::Appending(_) => Ok(from),
            ConversationImportState::Comparing(_) | ConversationImportState::Retry(_) => Ok(batch.len()),
        }
    }

    /// Switches to the history that diverged from the current one at entry `index` of the batch.
    ///
    /// The key of that history is the digest at that entry. It stays the same however long either history
    /// grows.
    async fn switch_to_branch(
        &mut self,
        agent: &Agent,
        chain: &str,
        index: usize,
        continues: Option<ThreadId>,
    ) -> Result<()> {
        let key = format!("{}:{chain}", self.session_key);
        let known = agent.stored_agent().store.import_source(&key).await?;
        match known.filter(|known| known.entries > self.entries_read + index as u64) {
            Some(known) => {
                (self.key, self.thread_id) = (key, known.thread_id);
                self.state = ConversationImportState::Comparing(known);
            }
            // The diverged history is not stored yet. Its beginning was skipped as stored, so the
            // conversation must be read again.
            None => self.state = ConversationImportState::Retry(ConversationRetry { key, continues }),
        }
        Ok(())
    }

    /// Returns the index of the first entry in `range` of the batch that is not stored in the thread; `None`
    /// if all are. Uses binary search, because the digest of an entry covers all entries before it.
    async fn first_unstored(
        &self,
        agent: &Agent,
        known: &ImportSource,
        batch: &[KeyedEvent],
        range: Range<usize>,
    ) -> Result<Option<usize>> {
        if range.is_empty() || self.is_stored(agent, known, batch, range.end - 1).await? {
            return Ok(None);
        }
        let (mut low, mut high) = (range.start, range.end - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_stored(agent, known, batch, middle).await? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }

    /// Returns whether the entry at `index` of the batch is stored. The newest stored entry is compared
    /// without a query.
    async fn is_stored(
        &self,
        agent: &Agent,
        known: &ImportSource,
        batch: &[KeyedEvent],
        index: usize,
    ) -> Result<bool> {
        let chain = &batch[index].chain;
        if known.entries == self.entries_read + index as u64 + 1 {
            return Ok(*chain == known.chain);
        }
        Ok(agent.stored_agent().store.seq_of_event_key(known.thread_id, chain).await?.is_some())
    }

    /// Appends events after the stored ones and changes the thread's mark, if the stored progress is still `progress`.
    /// Without progress, creates the thread in the same transaction.
    async fn append_events(
        &mut self,
        agent: &Agent,
        progress: Option<ImportProgress>,
        new_entries: Vec<KeyedEvent>,
        mark: Option<ThreadPatch>,
    ) -> Result<AddedCounts> {
        let thread_id = self.thread_id;
        let source = ImportSource {
            source_key: self.key.clone(),
            thread_id,
            entries: self.entries_read,
            chain: new_entries.last().map(|newest| newest.chain.clone()).unwrap_or_default(),
            updated_at: Timestamp::now(),
        };
        let events: Vec<NewEvent> = new_entries.into_iter().map(|keyed| keyed.event).collect();
        let is_new = progress.is_none();
        let mark_state = match &mark {
            Some(patch) if patch.metadata.is_empty() => MarkState::Unmarked,
            Some(_) => MarkState::Marked,
            None => self.mark_state,
        };
        let mut writes = Vec::new();
        if is_new {
            let mut thread = self.new_thread.clone();
            thread.metadata.extend(mark.into_iter().flat_map(|patch| patch.metadata));
            writes.push(Write::CreateThread(thread));
        } else {
            writes.extend(mark.map(|patch| Write::UpdateThread { thread_id, patch }));
        }
        match &agent.scratch_of {
            None => writes.push(Write::PutImport { source, expected: progress }),
            // The stored progress stays as it is, so the scratch journal has none.
            Some(stored) => scratch::copy_thread(stored, agent, thread_id).await?,
        }
        writes.push(Write::Append { thread_id, events });
        match agent.store.commit(Transaction { fence: None, writes }).await {
            Ok(committed) => {
                let before = progress.map_or(0, |progress| progress.last_seq);
                let last_seq = committed.seqs.iter().flatten().copied().fold(before, Seq::max);
                self.state = ConversationImportState::Appending(Some(ImportProgress {
                    entries: self.entries_read,
                    last_seq,
                }));
                self.mark_state = mark_state;
                Ok(AddedCounts { events: committed.stored_events, is_new })
            }
            // Another process stored entries first, or the thread was continued or deleted. The conversation
            // is read again.
            Err(journal::Error::Conflict { .. } | journal::Error::NotFound { .. }) => {
                self.state = ConversationImportState::Retry(ConversationRetry {
                    key: self.session_key.clone(),
                    continues: None,
                });
                Ok(AddedCounts::default())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Decides whether new entries of a session are appended to its thread. They must not follow messages that
/// were added to the thread since the last import. Renaming the thread or handing it off is no obstacle.
async fn append_decision(agent: &Agent, known: &ImportSource) -> Result<AppendDecision> {
    let (store, thread_id) = (&agent.stored_agent().store, known.thread_id);
    match store.import_source(&known.source_key).await? {
        Some(stored) if stored.thread_id != thread_id => return Ok(AppendDecision::ThreadDeleted),
        Some(stored) if stored.entries > known.entries => return Ok(AppendDecision::StoredFurther(stored)),
        Some(_) => {}
        None => return Ok(AppendDecision::ThreadDeleted),
    }
    let Some(thread) = store.thread(thread_id).await? else { return Ok(AppendDecision::ThreadDeleted) };
    if !store.active_runs(Some(thread_id)).await?.is_empty() {
        return Ok(AppendDecision::Diverged);
    }
    if thread.last_seq > known.entries {
        let imported = store.seq_of_event_key(thread_id, &known.chain).await?.unwrap_or_default();
        let messages = EventQuery { categories: vec![Category::Message], ..EventQuery::after(imported, 1) };
        if !store.events(thread_id, messages).await?.is_empty() {
            return Ok(AppendDecision::Diverged);
        }
    }
    let progress = ImportProgress { entries: known.entries, last_seq: thread.last_seq };
    let mark_state = match thread.incomplete_import() {
        Some(_) => MarkState::Marked,
        None => MarkState::Unmarked,
    };
    Ok(AppendDecision::Append { progress, mark_state })
}

/// Returns the metadata that records the source of a thread.
fn source_metadata(
    conversation: &ConversationInfo,
    source: &TranscriptSource,
    continues: Option<ThreadId>,
) -> Map<String, serde_json::Value> {
    let mut metadata = json!({
        "format": conversation.format.as_str(),
        "name": conversation.name,
        "session_id": conversation.session_id,
        "parent_session": conversation.parent_session,
        "workspace": conversation.workspace,
        "model": conversation.model,
        "path": source.display_name(),
    });
    if let Some(thread_id) = continues {
        metadata["continues"] = json!(thread_id);
    }
    Map::from_iter([("source".to_owned(), metadata)])
}
