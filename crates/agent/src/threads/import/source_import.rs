//! The import of one source. A source is read several times if needed; each reading decides which
//! conversations must be read again. [`ConversationImport`] decides what is stored of each conversation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use journal::{ThreadPatch, Transaction, Write};
use protocol::{IncompleteImport, Thread, ThreadId};
use runtime::{Frame, RunScope};
use tokio_util::sync::CancellationToken;
use transcripts::{ConversationInfo, TranscriptSource};

use super::background_index::start_indexing;
use super::conversation_import::{ConversationImport, ConversationImportState, ConversationRetry};
use super::incomplete;
use super::message_counts::MessageCounts;
use super::reader::{ReaderEvent, SourceReader};
use super::{ImportReport, ImportedThread, SessionImportProblem};
use crate::Result;
use crate::agent::Agent;

/// The most readings of one source. Two suffice, unless other processes import the same sessions or continue
/// their threads meanwhile: then each batch that another process stores can cost one reading.
const PASSES_MAX: usize = 64;

/// Conversations that must be read again, by the key of their session.
type RetriesBySession = BTreeMap<String, ConversationRetry>;

/// The numbers of what this import added to a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AddedCounts {
    /// The number of added events.
    pub(super) events: u64,
    /// True if this import created the thread.
    pub(super) is_new: bool,
}

/// The part of a session that its thread contains after a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredPart {
    /// All of it, as far as the file has it.
    Whole,
    /// More than the file has, which is an earlier copy of the session.
    MoreThanFile,
}

/// The import of one source.
pub(super) struct SourceImport<'a> {
    /// The agent whose journal stores the threads.
    agent: &'a Agent,
    /// The source to read.
    source: Arc<TranscriptSource>,
    /// The counts of added events so far, by thread.
    added_by_thread: HashMap<ThreadId, AddedCounts>,
    /// The number of messages of each conversation.
    message_counts: MessageCounts,
}

impl<'a> SourceImport<'a> {
    /// Creates the import of a source. Reads nothing yet.
    pub(super) fn new(agent: &'a Agent, source: TranscriptSource, cancel: &CancellationToken) -> Self {
        let source = Arc::new(source);
        let message_counts = MessageCounts::new(Arc::clone(&source), cancel.clone());
        Self { agent, source, added_by_thread: HashMap::new(), message_counts }
    }

    /// Imports all conversations of the source. Conversations that are not stored after [`PASSES_MAX`]
    /// readings are reported as problems. What is stored is indexed in the background.
    pub(super) async fn run(mut self, report: &mut ImportReport, scope: RunScope<'_>) -> Result<()> {
        let mut retries = self.read_pass(None, report, scope).await?;
        for _ in 1..PASSES_MAX {
            if retries.is_empty() || scope.cancel.is_cancelled() {
                return Ok(());
            }
            retries = self.read_pass(Some(retries), report, scope).await?;
        }
        for key in retries.into_keys() {
            let reason = format!("skipped {key}: its thread keeps changing; import it again");
            report.problems.push(self.source_problem(reason));
        }
        Ok(())
    }

    /// Reads the source once: all of it, or only the conversations in `only`. Returns the conversations that
    /// must be read again.
    async fn read_pass(
        &mut self,
        mut only: Option<RetriesBySession>,
        report: &mut ImportReport,
        RunScope { frames, cancel }: RunScope<'_>,
    ) -> Result<RetriesBySession> {
        let is_first = only.is_none();
        let mut reader = SourceReader::start(Arc::clone(&self.source), cancel.clone());
        let mut key_counts: HashMap<String, u64> = HashMap::new();
        let mut retries = RetriesBySession::new();
        let mut import: Option<ConversationImport> = None;
        while let Some(event) = reader.next_event().await {
            match event {
                ReaderEvent::Begin(conversation) => {
                    let session = session_key(&conversation, &mut key_counts);
                    import = self.begin_conversation(session, conversation, only.as_mut()).await?;
                }
                ReaderEvent::Batch(batch) => {
                    if let Some(import) = import.as_mut() {
                        let added = import.import_batch(self.agent, batch, &mut self.message_counts).await?;
                        let total = self.added_by_thread.entry(import.thread_id).or_default();
                        total.events += added.events;
                        total.is_new |= added.is_new;
                        start_indexing(self.agent);
                    }
                }
                ReaderEvent::End(conversation) => {
                    if let Some(import) = import.take() {
                        retries.extend(self.finish_conversation(import, &conversation, report).await?);
                    }
                }
                ReaderEvent::Problem(problem) if is_first => report.problems.push(problem.into()),
                ReaderEvent::Problem(_) => {}
                ReaderEvent::Progress(done) => {
                    let what = format!("import {}", self.source.display_name().display());
                    frames.send(Frame::Progress { what, done, total: Some(self.source.bytes()) });
                }
            }
        }
        match reader.finish().await {
            Err(error) if !cancel.is_cancelled() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if !cancel.is_cancelled() {
            let missing =
                only.into_iter().flatten().map(|(key, _)| format!("skipped {key}: the file changed"));
            report.problems.extend(missing.map(|reason| self.source_problem(reason)));
        }
        Ok(retries)
    }

    /// Returns the import of a conversation; `None` if this reading skips the conversation.
    async fn begin_conversation(
        &self,
        session: String,
        conversation: Box<ConversationInfo>,
        only: Option<&mut RetriesBySession>,
    ) -> Result<Option<ConversationImport>> {
        let retry = match only {
            None => ConversationRetry { key: session.clone(), continues: None },
            Some(only) => match only.remove(&session) {
                Some(retry) => retry,
                None => return Ok(None),
            },
        };
        Ok(Some(ConversationImport::locate(self.agent, &self.source, session, retry, conversation).await?))
    }

    /// Reports the thread of a conversation, or returns how the conversation must be read again.
    async fn finish_conversation(
        &self,
        import: ConversationImport,
        conversation: &ConversationInfo,
        report: &mut ImportReport,
    ) -> Result<Option<(String, ConversationRetry)>> {
        let stored = match import.state {
            ConversationImportState::Retry(retry) => return Ok(Some((import.session_key, retry))),
            ConversationImportState::Appending(None) => return Ok(None),
            ConversationImportState::Comparing(known) if known.entries > import.entries_read => {
                StoredPart::MoreThanFile
            }
            ConversationImportState::Comparing(_) | ConversationImportState::Appending(Some(_)) => {
                StoredPart::Whole
            }
        };
        let thread = self.finish_thread(import.thread_id, conversation, stored).await?;
        let added = self.added_by_thread.get(&import.thread_id).copied().unwrap_or_default();
        report.threads.push(ImportedThread {
            thread_id: import.thread_id,
            name: thread.name,
            first_prompt: thread.first_prompt,
            format: conversation.format.as_str().to_owned(),
            path: self.source.display_name().to_owned(),
            events_new: added.events,
            events_total: import.entries_read,
            is_new: added.is_new,
        });
        Ok(None)
    }

    /// Gives the thread the title of the session, unless it has a name, and removes the mark of an incomplete import if the
    /// thread has the whole session. Returns the thread.
    async fn finish_thread(
        &self,
        thread_id: ThreadId,
        conversation: &ConversationInfo,
        stored: StoredPart,
    ) -> Result<Thread> {
        // A scratch journal has no copy of a thread to which nothing is added.
        let thread = match self.agent.store.thread(thread_id).await? {
            Some(thread) => thread,
            None => return self.agent.stored_agent().thread(thread_id).await,
        };
        let mut patch = ThreadPatch::default();
        if thread.name.is_none() {
            patch.name.clone_from(&conversation.title);
        }
        if stored == StoredPart::Whole {
            if thread.incomplete_import().is_some() {
                patch.remove_metadata.push(IncompleteImport::KEY.to_owned());
            }
            if self.agent.scratch_of.is_none() {
                incomplete::name_whole_thread(self.agent, &thread).await?;
            }
        }
        if patch == ThreadPatch::default() {
            return Ok(thread);
        }
        let writes = vec![Write::UpdateThread { thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(thread_id).await
    }

    /// Returns a problem of the source.
    fn source_problem(&self, reason: String) -> SessionImportProblem {
        SessionImportProblem { path: self.source.display_name().to_owned(), line: None, reason }
    }
}

/// Returns the key of a conversation's session. Conversations of one file may have no better key than their
/// beginning; those that begin alike are distinguished by their order.
pub(super) fn session_key(conversation: &ConversationInfo, counts: &mut HashMap<String, u64>) -> String {
    let key = conversation.source_key();
    let count = counts.entry(key.clone()).or_default();
    *count += 1;
    if *count == 1 { key } else { format!("{key}#{count}") }
}
