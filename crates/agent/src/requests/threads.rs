//! Threads as clients make them and note about them. What Segue itself notes about a thread is not a client's to set.

use jiff::Timestamp;
use journal::{ThreadPatch, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::{NewEvent, RunId, Thread, ThreadId};
use serde_json::{Map, Value, json};

use super::secrets::holds_secret;
use crate::agent::services::ThreadService;
use crate::workspace::WORKSPACE_KEY;
use crate::{Result, ThreadError};

/// Metadata keys of a thread that no client sets: what a client says under them is left out.
pub(crate) const RESERVED_METADATA: [&str; 6] =
    ["handoff", "last_handoff", WORKSPACE_KEY, "source", "owner", TEMPORARY_KEY];

/// The metadata key of a thread that is to last one run: `{"run_id": …}`.
pub const TEMPORARY_KEY: &str = "temporary";

/// The most bytes of what clients note about a thread.
pub(crate) const METADATA_BYTES_MAX: usize = 64 << 10;

/// What becomes of a request for a thread that is there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfExists {
    /// It is refused.
    #[default]
    Raise,
    /// The thread is returned as it is.
    DoNothing,
}

impl ThreadService<'_> {
    /// Makes a blank thread with this id, or one of its own; says whether it did.
    ///
    /// # Errors
    /// [`ThreadError::Exists`] when there is one and that is not wanted, or it is somebody else's. When the notes are too
    /// large, or the journal fails.
    pub async fn ensure(
        self,
        thread_id: Option<ThreadId>,
        metadata: Map<String, Value>,
        if_exists: IfExists,
    ) -> Result<(Thread, bool)> {
        let noted = noted(metadata)?;
        if let Some(thread_id) = thread_id
            && let Some(there) = self.agent.store.thread(thread_id).await?
        {
            return match if_exists {
                IfExists::Raise => Err(ThreadError::Exists(thread_id).into()),
                IfExists::DoNothing => Ok((there, false)),
            };
        }
        let thread_id = thread_id.unwrap_or_else(ThreadId::generate);
        let mut thread = self.blank(thread_id, noted);
        let writes = made(&thread)?.into();
        let committed = match self.agent.store.commit(Transaction { fence: None, writes }).await {
            Err(journal::Error::Differs { .. }) => return Err(ThreadError::Exists(thread_id).into()),
            committed => committed?,
        };
        if committed.stored == 0 {
            return match if_exists {
                IfExists::Raise => Err(ThreadError::Exists(thread_id).into()),
                IfExists::DoNothing => Ok((self.agent.thread(thread_id).await?, false)),
            };
        }
        thread.last_seq = committed.seqs.iter().flatten().copied().max().unwrap_or(0);
        Ok((thread, true))
    }

    /// Returns a blank thread with an id of its own, which becomes durable with its first run ([`crate::RunService::begin_on_new`]).
    ///
    /// # Errors
    /// When the notes are too large, or hold a secret.
    pub fn prepare_new(self, metadata: Map<String, Value>) -> Result<NewThread> {
        Ok(NewThread(self.blank(ThreadId::generate(), noted(metadata)?).stamped()))
    }

    /// Makes such a thread durable without a run.
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn store_new(self, new: &NewThread) -> Result<()> {
        let writes = made(&new.0)?.into();
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    /// Returns a thread that begins in the agent's folder, and is not stored.
    pub(crate) fn blank(self, thread_id: ThreadId, metadata: Map<String, Value>) -> Thread {
        let mut thread = Thread::blank(thread_id, self.agent.settings.assistant_id.clone(), Timestamp::now());
        thread.metadata = metadata;
        let workspace = self.agent.settings.workspace.to_string_lossy().into_owned();
        thread.metadata.insert(WORKSPACE_KEY.to_owned(), workspace.into());
        thread
    }

    /// Notes what a client says about the thread beside what is noted there.
    ///
    /// # Errors
    /// When there is no such thread, the notes are too large, or the journal fails.
    pub async fn patch(self, thread_id: ThreadId, metadata: Map<String, Value>) -> Result<Thread> {
        let before = self.agent.thread(thread_id).await?;
        let metadata = noted(metadata)?;
        let mut all = before.metadata;
        all.extend(metadata.clone());
        check_size(&all)?;
        let patch = ThreadPatch { metadata, updated_at: Some(Timestamp::now()), ..ThreadPatch::default() };
        let writes = vec![Write::UpdateThread { thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(thread_id).await
    }
}

/// A thread that is not stored yet.
#[derive(Debug)]
pub struct NewThread(pub(super) Thread);

impl NewThread {
    /// Notes that the thread is to last no longer than this run of its.
    #[must_use]
    pub fn temporary(mut self, run_id: RunId) -> Self {
        self.0.metadata.insert(TEMPORARY_KEY.to_owned(), json!({"run_id": run_id}));
        self
    }

    /// Returns the id it will have.
    pub const fn thread_id(&self) -> ThreadId {
        self.0.thread_id
    }
}

/// Returns the writes that make the thread. Of two that make it at the same time, one finds that it is there.
pub(crate) fn made(thread: &Thread) -> Result<[Write; 2]> {
    let created = NewEvent::of(&ThreadCreated::New, thread.created_at)?;
    let events = vec![created.keyed("created")];
    Ok([Write::CreateThread(thread.clone()), Write::Append { thread_id: thread.thread_id, events }])
}

/// Returns what a client may note.
fn noted(mut metadata: Map<String, Value>) -> Result<Map<String, Value>> {
    metadata.retain(|key, _| !RESERVED_METADATA.contains(&key.as_str()));
    check_size(&metadata)?;
    match metadata.iter().find(|(_, value)| holds_secret(value)) {
        Some((key, _)) => Err(ThreadError::SecretInMetadata(key.clone()).into()),
        None => Ok(metadata),
    }
}

fn check_size(metadata: &Map<String, Value>) -> Result<()> {
    let bytes = serde_json::to_string(metadata)?.len();
    match bytes > METADATA_BYTES_MAX {
        true => Err(ThreadError::MetadataTooLarge(bytes).into()),
        false => Ok(()),
    }
}

/// Returns the change that says on the thread which assistant works in it; `None` where it is said already.
pub(crate) fn stamped(thread: &Thread) -> Option<ThreadPatch> {
    let metadata = thread.stamp();
    (!metadata.is_empty()).then(|| ThreadPatch { metadata, ..ThreadPatch::default() })
}
