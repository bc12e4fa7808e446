//! The effects of writes outside their own rows, which the engines need to know. Applying a write is the task of
//! `engines::apply`.

use jiff::Timestamp;
use protocol::{Handoff, RunFeedback, ThreadId};

use super::Write;
use crate::{Artifact, ImportSource, MessageEmbeddings};

/// The effects of a write outside its own row, which the engines need to know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WriteEffects {
    /// The thread whose head the write reads. A transaction locks these heads first and in ascending order. A head that it
    /// locks later may be locked by a transaction that waits for this one.
    pub(crate) reads_head_of: Option<ThreadId>,
    /// The thread about whose change other processes are notified.
    pub(crate) notifies_thread: Option<ThreadId>,
    /// `true` if the write may change cached thread heads, so that they must be read again.
    pub(crate) changes_heads: bool,
    /// `true` if a run ends, is released or is taken over, in a thread that the write does not name.
    pub(crate) releases_run: bool,
    /// `true` if the write deletes texts that may be in the search index, so that their terms must be purged.
    pub(crate) deletes_texts: bool,
}

impl Write {
    /// Returns the effects of the write. A new variant must be classified here.
    pub(crate) fn effects(&self) -> WriteEffects {
        let none = WriteEffects::default();
        match self {
            Self::Append { thread_id, .. } => append_effects(*thread_id),
            Self::QueueRun(run) | Self::AdmitRun(run) | Self::BeginRun(run) => append_effects(run.thread_id),
            Self::PutCheckpoint(checkpoint) => {
                WriteEffects { reads_head_of: Some(checkpoint.thread_id), ..none }
            }
            Self::CreateThread(thread) => WriteEffects { notifies_thread: Some(thread.thread_id), ..none },
            Self::UpdateThread { thread_id, patch } => WriteEffects {
                reads_head_of: Some(*thread_id),
                notifies_thread: Some(*thread_id),
                changes_heads: patch.updated_at.is_some(),
                ..none
            },
            Self::DeleteThread { thread_id } => deletion_effects(*thread_id),
            // A rewind removes summaries.
            Self::Rewind { thread_id, .. } => deletion_effects(*thread_id),
            Self::DeleteItem { .. } => WriteEffects { deletes_texts: true, ..none },
            Self::SettleThread { thread_id } => WriteEffects { notifies_thread: Some(*thread_id), ..none },
            // The head of a thread contains its newest checkpoint.
            Self::RestoreCheckpoint { thread_id, .. } => {
                WriteEffects { changes_heads: true, ..append_effects(*thread_id) }
            }
            Self::RaiseInterrupt(interrupt) => append_effects(interrupt.thread_id),
            Self::PutArtifact(Artifact { thread_id, .. })
            | Self::PutEmbeddings(MessageEmbeddings { thread_id, .. })
            | Self::PutFeedback(RunFeedback { thread_id, .. })
            | Self::CreateHandoff(Handoff { parent_thread_id: thread_id, .. })
            | Self::PutImport { source: ImportSource { thread_id, .. }, .. }
            | Self::ExpectNoMessage { thread_id }
            | Self::ExpectPins { thread_id, .. } => WriteEffects { reads_head_of: Some(*thread_id), ..none },
            Self::CopyEvents { .. } | Self::SummarizeTurns(_) => WriteEffects { changes_heads: true, ..none },
            Self::RestoreTurns { .. } => WriteEffects { changes_heads: true, deletes_texts: true, ..none },
            // Other processes do not need to know of a renewed lease.
            Self::UpdateRun { patch, .. } => {
                let is_expired = |until: Timestamp| until <= Timestamp::now();
                let releases_run = patch.status.is_some() || patch.lease_until.is_some_and(is_expired);
                WriteEffects { releases_run, ..none }
            }
            Self::ReleaseRuns { .. } | Self::DeleteRun { .. } | Self::ReclaimRun { .. } => {
                WriteEffects { releases_run: true, ..none }
            }
            // The replaced text of an item that changes often is no reason for a purge of its own.
            Self::PutItem(_)
            | Self::ExpectCheckpoint { .. }
            | Self::ExpectUnchangedContext(_)
            | Self::PutRunRequest { .. }
            | Self::RecordHeartbeat { .. }
            | Self::ResolveFolder { .. }
            | Self::ClaimRuns(_)
            | Self::ResolveInterrupt { .. }
            | Self::ExpectPendingInterrupt { .. }
            | Self::TransitionHandoff { .. }
            | Self::PutProposal(_)
            | Self::DeleteHandoff { .. }
            | Self::RemoveFeedback { .. }
            | Self::ProposeFact(_)
            | Self::DecideFact(_)
            | Self::RecordNotesRevision(_)
            | Self::PutApiKey(_)
            | Self::RevokeApiKey { .. }
            | Self::PutOutboxItem(_)
            | Self::UpdateOutboxItem { .. }
            | Self::RemoveOutboxItem { .. } => none,
        }
    }
}

/// Returns the effects of a write that deletes a thread or a part of its texts.
fn deletion_effects(thread_id: ThreadId) -> WriteEffects {
    WriteEffects {
        reads_head_of: Some(thread_id),
        notifies_thread: Some(thread_id),
        changes_heads: true,
        deletes_texts: true,
        ..WriteEffects::default()
    }
}

/// Returns the effects of a write that continues a thread: it reads the head of the thread and notifies readers.
fn append_effects(thread_id: ThreadId) -> WriteEffects {
    WriteEffects {
        reads_head_of: Some(thread_id),
        notifies_thread: Some(thread_id),
        ..WriteEffects::default()
    }
}
