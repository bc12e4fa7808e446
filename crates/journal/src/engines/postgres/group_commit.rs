//! Group commit: transactions that are pending at the same time are executed in one database transaction, so that
//! they share its round trips and its sync to disk. If one of them fails, or another process holds a lock, each is
//! executed on its own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use postgres::{Pool, TransactionLocks};
use protocol::ThreadId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::locks;
use crate::engines::apply::apply_transaction;
use crate::engines::sql::SqlConnection;
use crate::tables::threads::{self, PreconditionChecks, ThreadHeadCache};
use crate::{CommitReceipt, Error, Result, Transaction};

/// Number of groups that are executed concurrently. While the server syncs one group, it executes the other. More
/// groups would be smaller.
const GROUPS_IN_FLIGHT: usize = 2;
/// Maximum number of transactions in a group.
const GROUP_TRANSACTIONS_MAX: usize = 128;
/// Number of writes at which a group is full.
const GROUP_WRITES_MAX: usize = 1_024;
/// Maximum number of transactions in a queue. When it is full, callers wait.
const QUEUE_MAX: usize = 1_024;
/// Maximum time that a group waits for a lock that another process holds. Then its transactions are executed one by
/// one, and each waits on its own.
const GROUP_LOCK_WAIT: Duration = Duration::from_millis(200);

/// Queues of pending transactions, each with a worker that executes them in groups.
pub(super) struct GroupCommitter {
    /// The queues. All transactions with the same first lock use the same queue.
    queues: Vec<mpsc::Sender<QueuedCommit>>,
    /// The workers of the queues.
    tasks: Vec<JoinHandle<()>>,
}

/// A transaction in a queue, and the channel of its result.
struct QueuedCommit {
    /// The transaction.
    transaction: Arc<Transaction>,
    /// The keys of its locks, in ascending order.
    locks: Vec<i64>,
    /// Receives the result.
    reply: oneshot::Sender<Result<CommitReceipt>>,
}

impl QueuedCommit {
    /// Sends the result to the caller.
    fn send_reply(self, outcome: Result<CommitReceipt>) {
        // The send fails if the caller was dropped. Then nobody needs the result.
        let _ = self.reply.send(outcome);
    }
}

impl GroupCommitter {
    /// Starts the workers.
    pub(super) fn start(pool: &Pool) -> Self {
        let (queues, tasks) = (0..GROUPS_IN_FLIGHT)
            .map(|_| {
                let (queue, requests) = mpsc::channel(QUEUE_MAX);
                (queue, tokio::spawn(run_commit_worker(pool.clone(), requests)))
            })
            .unzip();
        Self { queues, tasks }
    }

    /// Executes a transaction, alone or in a group, and returns once it is durable. If the call is cancelled, the
    /// transaction may still be executed.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<CommitReceipt> {
        let locks = locks::transaction_locks(&transaction);
        // Transactions that need the same lock use the same queue. In different groups they would wait for each
        // other.
        let index = locks.first().map_or(0, |lock| lock.cast_unsigned() % self.queues.len() as u64);
        let queue = &self.queues[usize::try_from(index).unwrap_or(0)];
        let (reply, result) = oneshot::channel();
        let request = QueuedCommit { transaction: Arc::new(transaction), locks, reply };
        queue.send(request).await.map_err(|_| Error::Closed)?;
        result.await.map_err(|_| Error::Closed)?
    }
}

impl Drop for GroupCommitter {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Executes the transactions of a queue in groups until the queue is closed.
async fn run_commit_worker(pool: Pool, mut requests: mpsc::Receiver<QueuedCommit>) {
    while let Some(first) = requests.recv().await {
        let mut writes = first.transaction.writes.len();
        let mut group = vec![first];
        while group.len() < GROUP_TRANSACTIONS_MAX && writes < GROUP_WRITES_MAX {
            let Ok(next) = requests.try_recv() else { break };
            writes += next.transaction.writes.len();
            group.push(next);
        }
        commit_group(&pool, group).await;
    }
}

/// Executes a group together and sends the results. Falls back to executing each transaction alone on a task of its
/// own.
async fn commit_group(pool: &Pool, group: Vec<QueuedCommit>) {
    match commit_together(pool, &group).await {
        Ok(receipts) => {
            group.into_iter().zip(receipts).for_each(|(request, receipt)| request.send_reply(Ok(receipt)));
        }
        Err(Error::Postgres(error)) if affects_whole_group(&error) => {
            group.into_iter().for_each(|request| request.send_reply(Err(error.clone().into())));
        }
        Err(_) => {
            for request in group {
                let pool = pool.clone();
                // A transaction that waits for a lock must not delay the transactions queued after it.
                tokio::spawn(async move {
                    let outcome = commit_alone(&pool, &request).await;
                    request.send_reply(outcome);
                });
            }
        }
    }
}

/// Returns whether a failure concerns all transactions of a group, so that none would succeed alone. A transaction
/// whose outcome is unknown must not be executed again.
const fn affects_whole_group(error: &postgres::Error) -> bool {
    matches!(
        error,
        postgres::Error::CommitUnknown(_)
            | postgres::Error::Unreachable(_)
            | postgres::Error::Exhausted
            | postgres::Error::ConnectionRejected(_)
    )
}

/// Executes all transactions of a group in one database transaction. Either all are committed or none. Checks are deferred in
/// the first attempt only.
async fn commit_together(pool: &Pool, group: &[QueuedCommit]) -> Result<Vec<CommitReceipt>> {
    let mut locks: Vec<i64> = group.iter().flat_map(|request| request.locks.iter().copied()).collect();
    locks.sort_unstable();
    locks.dedup();
    let transactions: Vec<Arc<Transaction>> =
        group.iter().map(|request| Arc::clone(&request.transaction)).collect();
    let next_checks = Mutex::new(PreconditionChecks::Deferred);
    pool.write(TransactionLocks { locks, lock_timeout: Some(GROUP_LOCK_WAIT) }, move |connection| {
        let checks = std::mem::take(&mut *next_checks.lock());
        apply_all(connection, &transactions, checks)
    })
    .await
}

/// Executes one transaction in a database transaction of its own, without a time limit for its locks.
async fn commit_alone(pool: &Pool, request: &QueuedCommit) -> Result<CommitReceipt> {
    let transactions = [Arc::clone(&request.transaction)];
    let locks = TransactionLocks { locks: request.locks.clone(), lock_timeout: None };
    let receipts = pool
        .write(locks, move |connection| apply_all(connection, &transactions, PreconditionChecks::Immediate));
    let receipts = receipts.await?;
    receipts.into_iter().next().ok_or(Error::Closed)
}

/// Applies transactions one after another on a connection. The heads of all threads that they append to are read in
/// one query.
fn apply_all(
    connection: &postgres::Connection,
    transactions: &[Arc<Transaction>],
    checks: PreconditionChecks,
) -> Result<Vec<CommitReceipt>> {
    let heads = ThreadHeadCache::new(checks);
    let client = connection;
    let connection = SqlConnection::Postgres(client, &heads);
    let writes = transactions.iter().flat_map(|transaction| &transaction.writes);
    let mut thread_ids: Vec<ThreadId> = writes.filter_map(|write| write.effects().reads_head_of).collect();
    thread_ids.sort_unstable();
    thread_ids.dedup();
    threads::prefetch_heads(&connection, &thread_ids)?;
    let receipts = transactions
        .iter()
        .map(|transaction| apply_transaction(&connection, transaction))
        .collect::<Result<_>>()?;
    heads.flush(client)?;
    Ok(receipts)
}
