//! Transactions that wait for the server at the same time go to it as one: they share what a transaction costs beside its
//! writes, the journeys and the sync. When one of them fails, or somebody is in its way, each is performed alone. What they do
//! is not known here.

use std::sync::Arc;
use std::time::Duration;

use postgres::{Pool, Taking};
use protocol::ThreadId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::locks;
use crate::engines::perform::perform;
use crate::engines::sql::Connection;
use crate::tables::threads::{self, Heads};
use crate::{Committed, Error, Result, Transaction};

/// Groups that are on their way at the same time: while the server syncs one, it works on another. More of them are
/// smaller.
const LINES: usize = 2;
/// Transactions of one group.
const GROUP_MAX: usize = 128;
/// Writes after which no further transaction joins a group.
const WRITES_MAX: usize = 1_024;
/// Transactions that may wait in a line; more make their senders wait.
const QUEUE_MAX: usize = 1_024;
/// How long a group waits for a lock that somebody else holds, before each of it waits alone.
const GROUP_LOCK_WAIT: Duration = Duration::from_millis(200);

/// The lines in which transactions wait.
pub(super) struct Groups {
    lines: Vec<mpsc::Sender<Request>>,
    tasks: Vec<JoinHandle<()>>,
}

/// A transaction and where its answer goes.
struct Request {
    transaction: Arc<Transaction>,
    locks: Vec<i64>,
    reply: oneshot::Sender<Result<Committed>>,
}

impl Request {
    fn answer(self, outcome: Result<Committed>) {
        // Whoever does not wait any longer does not need the answer.
        let _ = self.reply.send(outcome);
    }
}

impl Groups {
    /// Begins to take transactions.
    pub(super) fn begin(pool: &Pool) -> Self {
        let (lines, tasks) = (0..LINES)
            .map(|_| {
                let (line, requests) = mpsc::channel(QUEUE_MAX);
                (line, tokio::spawn(work_through(pool.clone(), requests)))
            })
            .unzip();
        Self { lines, tasks }
    }

    /// Performs a transaction, with others or alone.
    pub(super) async fn commit(&self, transaction: Transaction) -> Result<Committed> {
        let locks = locks::of(&transaction);
        // What is about the same goes the same way: it would wait for itself.
        let line = locks.first().map_or(0, |lock| lock.cast_unsigned() % self.lines.len() as u64);
        let line = &self.lines[usize::try_from(line).unwrap_or(0)];
        let (reply, answer) = oneshot::channel();
        let request = Request { transaction: Arc::new(transaction), locks, reply };
        line.send(request).await.map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn work_through(pool: Pool, mut requests: mpsc::Receiver<Request>) {
    while let Some(first) = requests.recv().await {
        let mut writes = first.transaction.writes.len();
        let mut group = vec![first];
        while group.len() < GROUP_MAX && writes < WRITES_MAX {
            let Ok(next) = requests.try_recv() else { break };
            writes += next.transaction.writes.len();
            group.push(next);
        }
        commit(&pool, group).await;
    }
}

async fn commit(pool: &Pool, group: Vec<Request>) {
    match together(pool, &group).await {
        Ok(committed) => {
            group.into_iter().zip(committed).for_each(|(request, done)| request.answer(Ok(done)));
        }
        Err(Error::Postgres(fault)) if is_everybodys(&fault) => {
            group.into_iter().for_each(|request| request.answer(Err(fault.clone().into())));
        }
        Err(error) if group.len() == 1 && !is_in_the_way(&error) => {
            group.into_iter().take(1).zip([error]).for_each(|(request, error)| request.answer(Err(error)));
        }
        Err(_) => {
            for request in group {
                let pool = pool.clone();
                // What waits for somebody else holds up nobody behind it.
                tokio::spawn(async move {
                    let outcome = alone(&pool, &request).await;
                    request.answer(outcome);
                });
            }
        }
    }
}

/// Returns whether a failure is that of all that went together: none would fare better alone. What may have been done is not
/// done again.
const fn is_everybodys(fault: &postgres::Error) -> bool {
    matches!(
        fault,
        postgres::Error::Unsettled(_)
            | postgres::Error::Unreachable(_)
            | postgres::Error::Exhausted
            | postgres::Error::Refused(_)
    )
}

/// Returns whether somebody else held what was to be taken.
const fn is_in_the_way(error: &Error) -> bool {
    matches!(error, Error::Postgres(postgres::Error::TimedOut(_)))
}

async fn together(pool: &Pool, group: &[Request]) -> Result<Vec<Committed>> {
    let mut locks: Vec<i64> = group.iter().flat_map(|request| request.locks.iter().copied()).collect();
    locks.sort_unstable();
    locks.dedup();
    let transactions: Vec<Arc<Transaction>> =
        group.iter().map(|request| Arc::clone(&request.transaction)).collect();
    pool.write(Taking { locks, wait: Some(GROUP_LOCK_WAIT) }, move |connection| {
        all(connection, &transactions)
    })
    .await
}

async fn alone(pool: &Pool, request: &Request) -> Result<Committed> {
    let transactions = [Arc::clone(&request.transaction)];
    let taking = Taking { locks: request.locks.clone(), wait: None };
    let done = pool.write(taking, move |connection| all(connection, &transactions)).await?;
    done.into_iter().next().ok_or(Error::Closed)
}

fn all(connection: &postgres::Connection, transactions: &[Arc<Transaction>]) -> Result<Vec<Committed>> {
    let heads = Heads::default();
    let server = connection;
    let connection = Connection::Postgres(server, &heads);
    let writes = transactions.iter().flat_map(|transaction| &transaction.writes);
    let mut moved: Vec<ThreadId> = writes.filter_map(|write| write.effects().head_of).collect();
    moved.sort_unstable();
    moved.dedup();
    threads::prefetch(&connection, &moved)?;
    let done =
        transactions.iter().map(|transaction| perform(&connection, transaction)).collect::<Result<_>>()?;
    heads.store(server)?;
    Ok(done)
}
