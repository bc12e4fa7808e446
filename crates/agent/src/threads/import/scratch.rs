//! Reading sessions without storing them: an import into a journal in memory, in which everything else reads as it
//! would after a real import.

use std::path::PathBuf;

use futures::future::BoxFuture;
use journal::{EventQuery, PAGE_ROWS_MAX, Transaction, Write};
use protocol::{Event, EventType, IncompleteImport, NewEvent, Thread, ThreadId};
use runtime::FrameSender;
use tokio_util::sync::CancellationToken;

use super::ImportReport;
use crate::{Agent, Result, ThreadService};

/// The largest total size of sessions that are read into memory, in bytes: larger than nearly every session, and small
/// enough for any machine on which an agent runs.
pub(super) const SCRATCH_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Sessions that were read and not stored.
pub struct ScratchImport {
    /// The report of the import, as if its threads were stored.
    pub report: ImportReport,
    /// The agent over the journal in memory.
    scratch: Agent,
}

impl ScratchImport {
    /// Returns the agent that has the thread: the one over the journal in memory, or the stored one if the import adds
    /// nothing to the thread.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub fn agent_of(&self, thread_id: ThreadId) -> BoxFuture<'_, Result<Agent>> {
        journal::box_future(async move {
            let is_in_memory = self.scratch.store.thread(thread_id).await?.is_some();
            Ok(if is_in_memory { self.scratch.clone() } else { self.scratch.stored_agent().clone() })
        })
    }
}

impl<'a> ThreadService<'a> {
    /// Reads sessions as [`ThreadService::import`] does, into a journal in memory. What is stored does not change.
    ///
    /// # Errors
    /// Fails as [`ThreadService::import`] does, and with [`crate::ThreadError::TooLargeToPreview`].
    pub fn import_to_scratch(
        self,
        paths: &'a [PathBuf],
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ScratchImport>> {
        journal::box_future(async move {
            let scratch = self.agent.with_scratch_journal()?;
            let report = scratch.threads().import(paths, frames, cancel).await?;
            Ok(ScratchImport { report, scratch })
        })
    }
}

/// Copies a stored thread with its visible events into the journal of `scratch`, unless it is there already or is not
/// stored. Without rewinds, the events keep their seqs.
pub(super) async fn copy_thread(stored: &Agent, scratch: &Agent, thread_id: ThreadId) -> Result<()> {
    if scratch.store.thread(thread_id).await?.is_some() {
        return Ok(());
    }
    let Some(mut thread) = stored.store.thread(thread_id).await? else { return Ok(()) };
    // The session is read to its end after this.
    thread.metadata.remove(IncompleteImport::KEY);
    let mut writes = vec![Write::CreateThread(Thread { parent_id: None, ..thread })];
    let mut after = 0;
    loop {
        let page = stored.store.events(thread_id, EventQuery::after(after, PAGE_ROWS_MAX)).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        let events = page.into_iter().filter_map(event_copy).collect();
        writes.push(Write::Append { thread_id, events });
        scratch.store.commit(Transaction { fence: None, writes: std::mem::take(&mut writes) }).await?;
    }
    Ok(())
}

/// Returns an event in the form in which it is appended; `None` if this version does not know its type.
fn event_copy(event: Event) -> Option<NewEvent> {
    Some(NewEvent {
        event_id: event.event_id,
        event_type: EventType::from_name(&event.event_type)?,
        run_id: event.run_id,
        event_key: None,
        content: event.content,
        metadata: event.metadata,
        created_at: event.created_at,
    })
}
