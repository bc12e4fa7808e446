//! Runs that answer interrupts. An answer is for the interrupts that were pending when it was received. It is checked, and
//! its run started or queued, before the next answer of the same thread is checked, so that only the first of several
//! concurrent answers is accepted.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use protocol::{InterruptId, OwnerScope, ThreadId};
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::Result;
use crate::queue::QuotaPermit;
use crate::scheduler::Scheduler;

use super::{CreatedRun, IfNotExists, NewRun, send_reply};

/// One lock for each thread to which an answer is given at the moment.
#[derive(Debug, Default)]
pub(crate) struct AnswerLocks(Mutex<HashMap<ThreadId, Weak<tokio::sync::Mutex<()>>>>);

impl AnswerLocks {
    /// Waits for the answers that were given to the thread before, and locks it until the guard is dropped.
    pub(crate) async fn acquire(&self, thread_id: ThreadId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            let lock = locks.get(&thread_id).and_then(Weak::upgrade).unwrap_or_else(|| {
                locks.retain(|_, lock| lock.strong_count() > 0);
                Arc::default()
            });
            locks.insert(thread_id, Arc::downgrade(&lock));
            lock
        };
        lock.lock_owned().await
    }
}

impl Scheduler {
    /// Admits one run and waits for the reply. An answer is bound to its interrupts first.
    pub(super) async fn submit_run(
        self: &Arc<Self>,
        scope: &OwnerScope,
        new: NewRun,
        queue_permit: Option<QuotaPermit>,
    ) -> Result<CreatedRun> {
        match new.thread_id.filter(|_| new.request.has_answer()) {
            Some(thread_id) => {
                let (reply, response) = oneshot::channel();
                let submitting = Arc::clone(self).submit_answer(scope.clone(), thread_id, new, reply);
                self.spawn_detached(submitting, response).await
            }
            None => self.submit_bound_run(scope, new, queue_permit).await,
        }
    }

    /// Binds an answer to the interrupts that are pending now, and admits its run when the answers before it are
    /// admitted.
    async fn submit_answer(
        self: Arc<Self>,
        scope: OwnerScope,
        thread_id: ThreadId,
        mut new: NewRun,
        reply: oneshot::Sender<Result<CreatedRun>>,
    ) {
        match self.bind_answer(&scope, thread_id, &new).await {
            Ok(bound) => {
                new.request.answered_interrupts = bound;
                let lock = self.answer_locks.acquire(thread_id).await;
                let created = self.submit_bound_run(&scope, new, None).await;
                drop(lock);
                send_reply(reply, created);
            }
            Err(error) => send_reply(reply, Err(error)),
        }
    }
    /// Returns the interrupts that an answer is for. An answer that names one is refused if the run creates the thread.
    async fn bind_answer(
        &self,
        scope: &OwnerScope,
        thread_id: ThreadId,
        new: &NewRun,
    ) -> Result<Option<Vec<InterruptId>>> {
        let agent = self.agent(scope);
        let bound = agent.runs().bind_answers(thread_id, &new.request).await?;
        if bound.is_none() && new.if_not_exists == IfNotExists::Create {
            agent.runs().check_answer_to_new_thread(thread_id, &new.request)?;
        }
        Ok(bound)
    }
}
