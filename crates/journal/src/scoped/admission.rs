//! Which transactions a scope lets through. A write to what belongs to others fails as it would if that were not there; where
//! such a write would have been as good as done, it is left out.

use std::collections::HashSet;

use protocol::{HandoffId, RunId, ThreadId};

use super::claims::{self, Claim};
use super::{Scoped, Whose};
use crate::{Committed, Error, Result, Store, Transaction, Write};

/// What a transaction makes, which later writes of it may name.
#[derive(Default)]
struct Made {
    threads: HashSet<ThreadId>,
    runs: HashSet<RunId>,
    handoffs: HashSet<HandoffId>,
    /// Runs that are gone.
    forgotten: Vec<RunId>,
}

/// What becomes of a write that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Perform,
    /// There is nothing to be done.
    LeaveOut,
}

impl Scoped {
    /// Commits a transaction of the scope; nothing of it when a part is not.
    pub(super) async fn commit_own(&self, transaction: Transaction) -> Result<Committed> {
        let mut made = Made::default();
        if let Some(fence) = &transaction.fence {
            self.check(Claim::Run(fence.run_id), &made).await?;
        }
        let mut writes = Vec::with_capacity(transaction.writes.len());
        for write in transaction.writes {
            let mut verdict = Verdict::Perform;
            for claim in claims::of(&write).into_iter().flatten() {
                if self.check(claim, &made).await? == Verdict::LeaveOut {
                    verdict = Verdict::LeaveOut;
                }
            }
            made.note(&write);
            if verdict == Verdict::Perform {
                writes.push(self.named(write)?);
            }
        }
        let committed = self.inner.commit(Transaction { fence: transaction.fence, writes }).await;
        let committed = committed.map_err(|error| self.unnamed(error))?;
        made.threads.into_iter().for_each(|thread_id| self.known.add_thread(thread_id));
        made.runs.into_iter().for_each(|run_id| self.known.add_run(run_id));
        made.forgotten.into_iter().for_each(|run_id| self.known.forget_run(run_id));
        Ok(committed)
    }

    async fn check(&self, claim: Claim<'_>, made: &Made) -> Result<Verdict> {
        let is_own = match claim {
            Claim::Thread(thread_id) => {
                made.threads.contains(&thread_id) || self.has_thread(thread_id).await?
            }
            Claim::AnyThread(thread_id) => self.whose_thread(thread_id).await? != Whose::Foreign,
            Claim::At(thread_id, expected) => match (self.whose_thread(thread_id).await?, expected) {
                (Whose::Foreign, None) => return Ok(Verdict::LeaveOut),
                (Whose::Foreign, Some(_)) => return Err(Error::differing_checkpoint(thread_id)),
                (Whose::Own | Whose::Nobodys, _) => true,
            },
            Claim::Assistant(assistant_id) => self.scope.admits(assistant_id),
            Claim::Run(run_id) => made.runs.contains(&run_id) || self.has_run(run_id).await?,
            Claim::Interrupt(interrupt_id) => self.interrupt(interrupt_id).await?.is_some(),
            Claim::Handoff(handoff_id) => {
                made.handoffs.contains(&handoff_id) || self.has_handoff(handoff_id).await?
            }
            Claim::KeyOf(user_id) => self.has_key_of(user_id),
            Claim::Key(key_id) => {
                self.inner.key(key_id).await?.is_some_and(|key| self.has_key_of(&key.user_id))
            }
            Claim::FromThread(thread_id) => {
                let is_there = made.threads.contains(&thread_id) || self.has_thread(thread_id).await?;
                return Ok(if is_there { Verdict::Perform } else { Verdict::LeaveOut });
            }
            Claim::FromHandoff(handoff_id) => {
                let is_there = made.handoffs.contains(&handoff_id) || self.has_handoff(handoff_id).await?;
                return Ok(if is_there { Verdict::Perform } else { Verdict::LeaveOut });
            }
        };
        if is_own { Ok(Verdict::Perform) } else { Err(claim.not_found()) }
    }

    /// Gives what hangs on no thread a name of the owner's own.
    fn named(&self, mut write: Write) -> Result<Write> {
        let reserved = |what, reason: &str| Error::Invalid { what, reason: reason.to_owned() };
        let of_namespace = || reserved("a namespace", "its first label begins with `@`");
        let of_key = || reserved("a key", "it begins with `@`");
        let of_all = || reserved("a write", "it concerns the runs of everybody");
        if let Write::Announce { .. } | Write::ReleaseRuns { .. } | Write::ClaimRuns(_) = &write {
            return Err(of_all());
        }
        if let Write::PutItem(item) = &mut write {
            item.namespace = self.root.namespace(&item.namespace).ok_or_else(of_namespace)?.into_owned();
        } else if let Write::DeleteItem { namespace, .. } = &mut write {
            *namespace = self.root.namespace(namespace).ok_or_else(of_namespace)?.into_owned();
        } else if let Write::Enqueue(item) | Write::ChangeQueued { was: item, .. } = &mut write {
            item.key = self.root.key(&item.key).ok_or_else(of_key)?.into_owned();
        } else if let Write::Dequeue { key, .. } = &mut write {
            *key = self.root.key(key).ok_or_else(of_key)?.into_owned();
        } else if let Write::PutImport { source, .. } = &mut write {
            source.source_key = self.root.key(&source.source_key).ok_or_else(of_key)?.into_owned();
        } else if let Write::RestoreTurns { scope, .. } = &mut write {
            *scope = self.narrowed(scope.take());
        }
        Ok(write)
    }

    /// Returns a failure in the words of whoever committed.
    fn unnamed(&self, error: Error) -> Error {
        match error {
            Error::Differs { what, id } => {
                let own = self.root.own_key(&id);
                Error::Differs { what, id: own.unwrap_or(id) }
            }
            other => other,
        }
    }

    async fn has_handoff(&self, handoff_id: HandoffId) -> Result<bool> {
        let handoff = self.inner.handoff(handoff_id).await?;
        Ok(handoff.is_some_and(|handoff| self.scope.admits(&handoff.assistant_id)))
    }
}

impl Claim<'_> {
    fn not_found(self) -> Error {
        match self {
            Self::Thread(id) | Self::AnyThread(id) | Self::At(id, _) | Self::FromThread(id) => {
                Error::not_found("thread", &id)
            }
            Self::Assistant(id) => Error::not_found("assistant", id),
            Self::Run(id) => Error::not_found("run", &id),
            Self::Interrupt(id) => Error::not_found("interrupt", &id),
            Self::Handoff(id) | Self::FromHandoff(id) => Error::not_found("handoff", &id),
            Self::KeyOf(id) => Error::not_found("user", id),
            Self::Key(id) => Error::not_found("key", &id),
        }
    }
}

impl Made {
    fn note(&mut self, write: &Write) {
        if let Write::CreateThread(thread) = write {
            self.threads.insert(thread.thread_id);
        } else if let Write::QueueRun(run) | Write::AdmitRun(run) = write {
            self.runs.insert(run.run_id);
        } else if let Write::CreateHandoff(handoff) = write {
            self.handoffs.insert(handoff.handoff_id);
        } else if let Write::ForgetRun { run_id } = write {
            self.forgotten.push(*run_id);
        }
    }
}
