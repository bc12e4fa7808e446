//! Access checks of transactions. A write to a row of another owner fails as if the row were missing. A deletion that
//! has no effect on a missing row is skipped for a foreign row.

use std::collections::HashSet;

use protocol::{HandoffId, RunId, ThreadId};

use super::write_requirements::{self, AccessRequirement};
use super::{Ownership, ScopedStore};
use crate::{CommitReceipt, Error, Result, Store, Transaction, Write};

/// Rows that a transaction creates, so that its later writes may refer to them.
#[derive(Default)]
struct CreatedRows {
    /// Created threads.
    threads: HashSet<ThreadId>,
    /// Created runs.
    runs: HashSet<RunId>,
    /// Created handoffs.
    handoffs: HashSet<HandoffId>,
    /// Deleted runs.
    deleted_runs: Vec<RunId>,
    /// Deleted handoffs.
    deleted_handoffs: Vec<HandoffId>,
}

/// The decision on an allowed write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteVerdict {
    /// Execute the write.
    Perform,
    /// Leave the write out, because it has no effect within the scope.
    Skip,
}

impl ScopedStore {
    /// Commits a transaction of the scope. If one of its writes is not allowed, nothing is written.
    pub(super) async fn commit_in_scope(&self, transaction: Transaction) -> Result<CommitReceipt> {
        let mut created = CreatedRows::default();
        if let Some(fence) = &transaction.fence {
            self.check_requirement(AccessRequirement::Run(fence.run_id), &created).await?;
        }
        let mut writes = Vec::with_capacity(transaction.writes.len());
        for write in transaction.writes {
            let mut verdict = WriteVerdict::Perform;
            for requirement in write_requirements::write_requirements(&write).into_iter().flatten() {
                if self.check_requirement(requirement, &created).await? == WriteVerdict::Skip {
                    verdict = WriteVerdict::Skip;
                }
            }
            created.record_write(&write);
            if verdict == WriteVerdict::Perform {
                writes.push(self.add_owner_prefix(write)?);
            }
        }
        let receipt = self.inner.commit(Transaction { fence: transaction.fence, writes }).await;
        let receipt = receipt.map_err(|error| self.strip_prefix_from_error(error))?;
        created.threads.into_iter().for_each(|thread_id| self.cache.add_thread(thread_id));
        created.runs.into_iter().for_each(|run_id| self.cache.add_run(run_id));
        created.deleted_runs.into_iter().for_each(|run_id| self.cache.remove_run(run_id));
        created.handoffs.into_iter().for_each(|handoff_id| self.cache.add_handoff(handoff_id));
        created.deleted_handoffs.into_iter().for_each(|handoff_id| self.cache.remove_handoff(handoff_id));
        Ok(receipt)
    }

    /// Checks a requirement of a write.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the row is not in the scope.
    async fn check_requirement(
        &self,
        requirement: AccessRequirement<'_>,
        created: &CreatedRows,
    ) -> Result<WriteVerdict> {
        let is_own = match requirement {
            AccessRequirement::Thread(thread_id) => {
                created.threads.contains(&thread_id) || self.has_thread(thread_id).await?
            }
            AccessRequirement::ThreadIfPresent(thread_id) => {
                self.thread_ownership(thread_id).await? != Ownership::Foreign
            }
            AccessRequirement::ThreadAtCheckpoint(thread_id, expected) => {
                match (self.thread_ownership(thread_id).await?, expected) {
                    (Ownership::Foreign, None) => return Ok(WriteVerdict::Skip),
                    (Ownership::Foreign, Some(_)) => return Err(Error::checkpoint_conflict(thread_id)),
                    (Ownership::Own | Ownership::Missing, _) => true,
                }
            }
            AccessRequirement::Assistant(assistant_id) => self.scope.can_access(assistant_id),
            AccessRequirement::Run(run_id) => created.runs.contains(&run_id) || self.has_run(run_id).await?,
            AccessRequirement::Interrupt(interrupt_id) => self.interrupt(interrupt_id).await?.is_some(),
            AccessRequirement::Handoff(handoff_id) => {
                created.handoffs.contains(&handoff_id) || self.has_handoff(handoff_id).await?
            }
            AccessRequirement::Fact(fact_id) => self.fact(fact_id).await?.is_some(),
            AccessRequirement::KeysOfUser(user_id) => self.can_access_keys_of(user_id),
            AccessRequirement::ApiKey(key_id) => {
                self.inner.api_key(key_id).await?.is_some_and(|key| self.can_access_keys_of(&key.user_id))
            }
            AccessRequirement::ThreadRemoval(thread_id) => {
                let is_own = created.threads.contains(&thread_id) || self.has_thread(thread_id).await?;
                return Ok(if is_own { WriteVerdict::Perform } else { WriteVerdict::Skip });
            }
            AccessRequirement::HandoffRemoval(handoff_id) => {
                let is_own = created.handoffs.contains(&handoff_id) || self.has_handoff(handoff_id).await?;
                return Ok(if is_own { WriteVerdict::Perform } else { WriteVerdict::Skip });
            }
        };
        if is_own { Ok(WriteVerdict::Perform) } else { Err(requirement.not_found()) }
    }

    /// Adds the owner's prefix or scope to a write that refers to no thread.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] if a name begins with the mark of an owner, or the write concerns the runs of all
    /// owners.
    fn add_owner_prefix(&self, mut write: Write) -> Result<Write> {
        let reserved = |what, reason: &str| Error::InvalidRequest { what, reason: reason.to_owned() };
        let reserved_namespace = || reserved("a namespace", "its first label begins with `@`");
        let reserved_key = || reserved("a key", "it begins with `@`");
        let unrestricted_only = || reserved("a write", "it concerns all owners");
        if let Write::RecordHeartbeat { .. }
        | Write::ResolveFolder { .. }
        | Write::ReleaseRuns { .. }
        | Write::ClaimRuns(_) = &write
        {
            return Err(unrestricted_only());
        }
        if let Write::PutItem(item) = &mut write {
            item.namespace =
                self.prefix.stored_namespace(&item.namespace).ok_or_else(reserved_namespace)?.into_owned();
        } else if let Write::DeleteItem { namespace, .. } = &mut write {
            *namespace = self.prefix.stored_namespace(namespace).ok_or_else(reserved_namespace)?.into_owned();
        } else if let Write::PutOutboxItem(item) | Write::UpdateOutboxItem { expected: item, .. } = &mut write
        {
            item.key = self.prefix.stored_key(&item.key).ok_or_else(reserved_key)?.into_owned();
        } else if let Write::RemoveOutboxItem { key, .. } = &mut write {
            *key = self.prefix.stored_key(key).ok_or_else(reserved_key)?.into_owned();
        } else if let Write::PutImport { source, .. } = &mut write {
            source.source_key =
                self.prefix.stored_key(&source.source_key).ok_or_else(reserved_key)?.into_owned();
        } else if let Write::RestoreTurns { scope, .. } = &mut write {
            *scope = self.narrow_optional_scope(scope.take());
        }
        Ok(write)
    }

    /// Converts an error of the unrestricted store: keys are returned without the owner's prefix.
    fn strip_prefix_from_error(&self, error: Error) -> Error {
        match error {
            Error::Conflict { what, id } => {
                let visible_key = self.prefix.visible_key(&id);
                Error::Conflict { what, id: visible_key.unwrap_or(id) }
            }
            other => other,
        }
    }
}

impl AccessRequirement<'_> {
    /// Returns the error for a row that is not in the scope.
    fn not_found(self) -> Error {
        match self {
            Self::Thread(id)
            | Self::ThreadIfPresent(id)
            | Self::ThreadAtCheckpoint(id, _)
            | Self::ThreadRemoval(id) => Error::not_found("thread", &id),
            Self::Assistant(id) => Error::not_found("assistant", id),
            Self::Run(id) => Error::not_found("run", &id),
            Self::Interrupt(id) => Error::not_found("interrupt", &id),
            Self::Handoff(id) | Self::HandoffRemoval(id) => Error::not_found("handoff", &id),
            Self::Fact(id) => Error::not_found("fact", &id),
            Self::KeysOfUser(id) => Error::not_found("user", id),
            Self::ApiKey(id) => Error::not_found("key", &id),
        }
    }
}

impl CreatedRows {
    /// Records the rows that a write creates or deletes.
    fn record_write(&mut self, write: &Write) {
        if let Write::CreateThread(thread) = write {
            self.threads.insert(thread.thread_id);
        } else if let Write::QueueRun(run) | Write::AdmitRun(run) = write {
            self.runs.insert(run.run_id);
        } else if let Write::CreateHandoff(handoff) = write {
            self.handoffs.insert(handoff.handoff_id);
        } else if let Write::DeleteRun { run_id } = write {
            self.deleted_runs.push(*run_id);
        } else if let Write::DeleteHandoff { handoff_id } = write {
            self.deleted_handoffs.push(*handoff_id);
        }
    }
}
