//! Runs and exclusive work that answer interrupts. An answer is for the interrupts that were pending when it was received.
//! It is checked, and its run started or queued, before the next answer of the same thread is checked, so that only the
//! first of several concurrent answers is accepted. Exclusive work has answered as soon as its decision is durable.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Weak};

use agent::Agent;
use parking_lot::Mutex;
use protocol::{Interrupt, InterruptId, OwnerScope, ThreadId};
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::Result;
use crate::queue::QuotaPermit;
use crate::scheduler::Scheduler;
use crate::worker::exclusive::ExclusiveContext;

use super::{CreatedRun, IfNotExists, NewRun, send_reply};

/// One lock for each thread to which an answer is given at the moment.
#[derive(Debug, Default)]
pub(crate) struct AnswerLocks(Mutex<HashMap<ThreadId, Weak<tokio::sync::Mutex<()>>>>);

impl AnswerLocks {
    /// Returns the lock of the thread's answers. Requests get it in their order.
    fn for_thread(&self, thread_id: ThreadId) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock();
        let lock = locks.get(&thread_id).and_then(Weak::upgrade).unwrap_or_else(|| {
            locks.retain(|_, lock| lock.strong_count() > 0);
            Arc::default()
        });
        locks.insert(thread_id, Arc::downgrade(&lock));
        lock
    }
}

/// The locked answers of a thread, while exclusive work decides. The work and its caller share it, because the work
/// continues if its caller is gone. The lock is released by the first of them to see the decision, or by the last to end.
#[derive(Clone)]
struct SharedAnswerGuard(Arc<Mutex<Option<OwnedMutexGuard<()>>>>);

impl SharedAnswerGuard {
    /// Returns the shared form of a guard.
    fn new(guard: OwnedMutexGuard<()>) -> Self {
        Self(Arc::new(Mutex::new(Some(guard))))
    }

    /// Releases the lock for all that share it.
    fn release(&self) {
        drop(self.0.lock().take());
    }
}

impl Scheduler {
    /// Executes a decision about a pending interrupt of a thread, like [`Self::change_thread`]. Other answers are checked
    /// when the decision is durable or was refused, so that those that come too late are refused with its outcome.
    ///
    /// Dropping the returned future removes a decision that is queued. A decision that is being executed continues.
    ///
    /// # Errors
    /// Those of [`Self::change_thread`].
    pub async fn decide_exclusively<T, F>(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        decide: impl Fn(ExclusiveContext) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = agent::Result<T>> + Send + 'static,
    {
        let queue_permit = self.queue_quota.acquire(scope)?;
        let guard = SharedAnswerGuard::new(self.answer_locks.for_thread(thread_id).lock_owned().await);
        let agent = self.agent(scope);
        let pending = agent.runs().pending_interrupts(thread_id).await?;
        let work_guard = guard.clone();
        let work = move |context: ExclusiveContext| {
            let (deciding, guard) = (decide(context), work_guard.clone());
            async move {
                let result = deciding.await;
                drop(guard);
                result
            }
        };
        let mut changing = pin!(self.change_thread_with_permit(scope, thread_id, queue_permit, work));
        tokio::select! {
            biased;
            result = &mut changing => return result,
            () = wait_for_decision(&agent, thread_id, &pending) => guard.release(),
        }
        changing.await
    }

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

    /// Admits the run of an answer and sends the result.
    async fn submit_answer(
        self: Arc<Self>,
        scope: OwnerScope,
        thread_id: ThreadId,
        new: NewRun,
        reply: oneshot::Sender<Result<CreatedRun>>,
    ) {
        let created = self.admit_answer(&scope, thread_id, new).await;
        send_reply(reply, created);
    }

    /// Binds an answer to the interrupts that are pending now, and admits its run when the answers before it are
    /// admitted or have decided.
    async fn admit_answer(
        self: &Arc<Self>,
        scope: &OwnerScope,
        thread_id: ThreadId,
        mut new: NewRun,
    ) -> Result<CreatedRun> {
        new.request.answered_interrupts = self.bind_answer(scope, thread_id, &new).await?;
        let lock = self.answer_locks.for_thread(thread_id);
        let (guard, queue_permit) = match Arc::clone(&lock).try_lock_owned() {
            Ok(guard) => (guard, None),
            // An answer that waits counts as queued, because the work before it may wait for a run.
            Err(_) => {
                let queue_permit = self.queue_quota.acquire(scope)?;
                (lock.lock_owned().await, Some(queue_permit))
            }
        };
        let created = self.submit_bound_run(scope, new, queue_permit).await;
        drop(guard);
        created
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

/// Waits until one of the interrupts is not pending any more. Returns at once if there are none.
async fn wait_for_decision(agent: &Agent, thread_id: ThreadId, interrupts: &[Interrupt]) {
    if interrupts.is_empty() {
        return;
    }
    let mut commits = agent.threads().subscribe_thread_commits(thread_id);
    loop {
        // If the journal cannot be read, it is read again after the next commit.
        if let Ok(pending) = agent.runs().pending_interrupts(thread_id).await
            && !interrupts.iter().all(|interrupt| is_among(interrupt, &pending))
        {
            return;
        }
        commits.changed().await;
    }
}

/// Returns whether the list contains the interrupt.
fn is_among(interrupt: &Interrupt, interrupts: &[Interrupt]) -> bool {
    interrupts.iter().any(|other| other.interrupt_id == interrupt.interrupt_id)
}
