//! Threads that clients create, and the metadata that clients store with them. Clients cannot set the
//! metadata keys that Segue uses itself.

use futures::future::BoxFuture;
use jiff::Timestamp;
use journal::{ThreadPatch, Transaction, Write};
use protocol::event::body::ThreadCreated;
use protocol::{IncompleteImport, NewEvent, RunId, Thread, ThreadId};
use serde_json::{Map, Value, json};

use super::secret_check::has_secret;
use crate::ThreadService;
use crate::workspace::WORKSPACE_KEY;
use crate::{Error, Result, ThreadError};

/// Metadata keys that clients cannot set. Values for them in a client's metadata are ignored.
pub(crate) const RESERVED_METADATA: [&str; 7] = [
    "handoff",
    "last_handoff",
    WORKSPACE_KEY,
    "source",
    "owner",
    Thread::TEMPORARY_KEY,
    IncompleteImport::KEY,
];

/// The most bytes of a thread's metadata as JSON.
pub(crate) const METADATA_BYTES_MAX: usize = 64 << 10;

/// The behaviour of a request to create a thread that already exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfExists {
    /// The request fails.
    #[default]
    Raise,
    /// The existing thread is returned unchanged.
    DoNothing,
}

impl<'a> ThreadService<'a> {
    /// Creates a blank thread with this id, or with a new one. Returns the thread and whether it was created.
    ///
    /// # Errors
    /// [`ThreadError::Exists`] if the thread exists and `if_exists` is [`IfExists::Raise`], or if it belongs
    /// to another owner. Also fails if the metadata is too large or contains a secret, or if the journal
    /// fails.
    pub fn ensure_thread(
        self,
        thread_id: Option<ThreadId>,
        metadata: Map<String, Value>,
        if_exists: IfExists,
    ) -> BoxFuture<'a, Result<(Thread, bool)>> {
        journal::box_future(async move {
            let metadata = client_metadata(metadata)?;
            if let Some(thread_id) = thread_id
                && let Some(existing) = self.agent.store.thread(thread_id).await?
            {
                return match if_exists {
                    IfExists::Raise => Err(ThreadError::Exists(thread_id).into()),
                    IfExists::DoNothing => Ok((existing, false)),
                };
            }
            let thread_id = thread_id.unwrap_or_else(ThreadId::generate);
            let mut thread = self.blank_thread(thread_id, metadata);
            let writes = create_thread_writes(&thread)?.into();
            let committed = match self.agent.store.commit(Transaction { fence: None, writes }).await {
                Err(journal::Error::Conflict { .. }) => return Err(ThreadError::Exists(thread_id).into()),
                committed => committed?,
            };
            if committed.stored_events == 0 {
                return match if_exists {
                    IfExists::Raise => Err(ThreadError::Exists(thread_id).into()),
                    IfExists::DoNothing => Ok((self.agent.thread(thread_id).await?, false)),
                };
            }
            thread.last_seq = committed.seqs.iter().flatten().copied().max().unwrap_or(0);
            Ok((thread, true))
        })
    }

    /// Returns a blank thread with this id, which becomes durable with its first run
    /// ([`crate::RunService::begin_on_new_thread`]).
    ///
    /// # Errors
    /// Fails if the metadata is too large or contains a secret.
    pub fn prepare_new_thread(self, thread_id: ThreadId, metadata: Map<String, Value>) -> Result<NewThread> {
        Ok(NewThread(self.blank_thread(thread_id, client_metadata(metadata)?).with_assistant_metadata()))
    }

    /// Stores a prepared thread without a run. A thread that exists already stays unchanged.
    ///
    /// # Errors
    /// [`ThreadError::Exists`] if the id belongs to a thread of another owner. Also fails if the journal does.
    pub fn store_new_thread(self, new: &'a NewThread) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let writes = create_thread_writes(&new.0)?.into();
            let committed = self.agent.store.commit(Transaction { fence: None, writes }).await;
            committed.map(drop).map_err(|error| new.classify_error(error.into()))
        })
    }

    /// Returns a blank thread in the agent's folder. It is not stored.
    pub(crate) fn blank_thread(self, thread_id: ThreadId, metadata: Map<String, Value>) -> Thread {
        let mut thread = Thread::blank(thread_id, self.agent.settings.assistant_id.clone(), Timestamp::now());
        thread.metadata = metadata;
        let workspace = self.agent.settings.workspace.to_string_lossy().into_owned();
        thread.metadata.insert(WORKSPACE_KEY.to_owned(), workspace.into());
        thread.project = Some(self.agent.project());
        thread
    }

    /// Merges a client's metadata into that of the thread. Existing keys are replaced and other keys are
    /// kept.
    ///
    /// # Errors
    /// Fails if the thread does not exist, if the metadata would become too large or contains a secret, or if
    /// the journal fails.
    pub fn patch_metadata(
        self,
        thread_id: ThreadId,
        metadata: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Thread>> {
        journal::box_future(async move {
            let before = self.agent.thread(thread_id).await?;
            let metadata = client_metadata(metadata)?;
            let mut all = before.metadata;
            all.extend(metadata.clone());
            check_metadata_size(&all)?;
            let patch =
                ThreadPatch { metadata, updated_at: Some(Timestamp::now()), ..ThreadPatch::default() };
            let writes = vec![Write::UpdateThread { thread_id, patch }];
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            self.agent.thread(thread_id).await
        })
    }
}

/// A thread that is not stored yet.
#[derive(Debug)]
pub struct NewThread(pub(in crate::runs) Thread);

impl NewThread {
    /// Marks the thread as one that exists for this run only.
    #[must_use]
    pub fn with_temporary_run(mut self, run_id: RunId) -> Self {
        self.0.metadata.insert(Thread::TEMPORARY_KEY.to_owned(), json!({"run_id": run_id}));
        self
    }

    /// Returns the id of the thread.
    pub const fn thread_id(&self) -> ThreadId {
        self.0.thread_id
    }

    /// Converts the error of storing the thread if its id belongs to a thread of another owner.
    pub(in crate::runs) fn classify_error(&self, error: Error) -> Error {
        match error {
            Error::Journal(journal::Error::Conflict { what: "thread", .. }) => {
                ThreadError::Exists(self.thread_id()).into()
            }
            other => other,
        }
    }
}

/// Returns the writes that create the thread. The event has a key, so that of two concurrent creations one
/// finds that the thread exists.
pub(crate) fn create_thread_writes(thread: &Thread) -> Result<[Write; 2]> {
    let created = NewEvent::from_body(&ThreadCreated::New, thread.created_at)?;
    let events = vec![created.with_key("created")];
    Ok([Write::CreateThread(thread.clone()), Write::Append { thread_id: thread.thread_id, events }])
}

/// Returns the metadata that a client may store: without reserved keys, checked for size and secrets.
fn client_metadata(mut metadata: Map<String, Value>) -> Result<Map<String, Value>> {
    metadata.retain(|key, _| !RESERVED_METADATA.contains(&key.as_str()));
    check_metadata_size(&metadata)?;
    match metadata.iter().find(|(_, value)| has_secret(value)) {
        Some((key, _)) => Err(ThreadError::SecretInMetadata(key.clone()).into()),
        None => Ok(metadata),
    }
}

/// Checks that the metadata is at most [`METADATA_BYTES_MAX`] bytes of JSON.
fn check_metadata_size(metadata: &Map<String, Value>) -> Result<()> {
    let bytes = serde_json::to_string(metadata)?.len();
    match bytes > METADATA_BYTES_MAX {
        true => Err(ThreadError::MetadataTooLarge(bytes).into()),
        false => Ok(()),
    }
}

/// Returns the patch that stores the thread's assistant in its metadata; `None` if it is stored already.
pub(crate) fn assistant_patch(thread: &Thread) -> Option<ThreadPatch> {
    let metadata = thread.missing_assistant_metadata();
    (!metadata.is_empty()).then(|| ThreadPatch { metadata, ..ThreadPatch::default() })
}
