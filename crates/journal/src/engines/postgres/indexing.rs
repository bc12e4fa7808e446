//! Who brings the search index up to date before a search: one of a process at a time, and one process at a time. Who waits for
//! another holds no connection meanwhile. What is indexed is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postgres::Pool;
use tokio::sync::Mutex;

use super::locks;
use crate::engines::sql::Connection;
use crate::tables::search::{self, CatchUp, Pass};
use crate::tables::threads::Heads;
use crate::{Error, Result};

/// Between two looks at whether another process has left anything to index.
const OTHERS_WORK: Duration = Duration::from_millis(25);

/// The catching up of one process.
#[derive(Default)]
pub(super) struct Indexing {
    /// How many have asked for it.
    asked: AtomicU64,
    /// Held by whoever does it.
    passes: Mutex<Passes>,
}

/// What came of it.
#[derive(Default)]
struct Passes {
    /// For so many of those who asked, what was stored by then is in the index, …
    done: u64,
    /// … and for so many it failed like this.
    failed: Option<(u64, postgres::Error)>,
}

impl Indexing {
    /// Has the index hold what was committed by now.
    pub(super) async fn catch_up(&self, pool: &Pool) -> Result<()> {
        // Most searches find nothing to catch up with, and need not wait for who does.
        if !is_behind(pool, Pass::default()).await? {
            return Ok(());
        }
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut passes = self.passes.lock().await;
        if passes.done >= number {
            return Ok(());
        }
        if let Some((_, failure)) = passes.failed.as_ref().filter(|(asked, _)| *asked >= number) {
            return Err(failure.clone().into());
        }
        // What they ask for was committed before this begins.
        let asked = self.asked.load(Ordering::SeqCst);
        let passed = pass(pool).await;
        match &passed {
            Ok(()) => passes.done = asked,
            Err(Error::Postgres(failure)) => passes.failed = Some((asked, failure.clone())),
            Err(_) => {}
        }
        passed
    }
}

/// Passes once over all threads.
async fn pass(pool: &Pool) -> Result<()> {
    let mut pass = Pass::default();
    loop {
        let batch = pool.write(Vec::new(), move |connection| {
            let heads = Heads::default();
            let tables = Connection::Postgres(connection, &heads);
            match locks::try_index(&tables)? {
                true => search::index_batch(&tables, pass).map(Some),
                false => Ok(None),
            }
        });
        match batch.await? {
            Some(CatchUp::Finished) => return Ok(()),
            Some(CatchUp::Unfinished(next)) => pass = next,
            None => {
                tokio::time::sleep(OTHERS_WORK).await;
                if !is_behind(pool, pass).await? {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns whether anything that a pass has before it was stored since that the index has not.
async fn is_behind(pool: &Pool, pass: Pass) -> Result<bool> {
    pool.read(move |connection| search::is_behind(&Connection::Postgres(connection, &Heads::default()), pass))
        .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use jiff::Timestamp;
    use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};

    use super::super::{Plain, PoolSettings, Postgres};
    use super::*;
    use crate::{SearchQuery, Store, Transaction, Write};

    const POOL: PoolSettings = PoolSettings {
        min_idle: 0,
        max: 2,
        idle: Duration::from_secs(60),
        lifetime: Duration::from_secs(600),
        patience: Duration::from_secs(5),
    };
    const SEARCHES: u64 = 8;

    /// Holds the lock of the index until it is told to let go; returns when it has it.
    fn held(url: String) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
        let (taken, has) = mpsc::channel();
        let (let_go, until) = mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let plain = Plain::open(&url).unwrap();
            plain.connection.query("SELECT pg_advisory_lock($1)::text", &[locks::INDEX.into()]).unwrap();
            taken.send(()).unwrap();
            // It lets go when nobody can tell it any more, too.
            let _ = until.recv();
        });
        has.recv().unwrap();
        (let_go, holder)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn searches_that_wait_for_the_index_leave_the_connections_to_others() {
        let database = test_postgres::Database::create().unwrap();
        let store = Postgres::open(&database.socket_url(), POOL).await.unwrap();
        let thread_id = ThreadId::generate();
        let now = Timestamp::now();
        let thread = Thread::blank(thread_id, AssistantId::default(), now);
        let event = NewEvent::message(&Message::human("a heron"), now).unwrap();
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events: vec![event] }];
        store.commit(Transaction { fence: None, writes }).await.unwrap();
        let (let_go, holder) = held(database.socket_url());
        let before = store.pool().gets;
        let searches: Vec<_> = (0..SEARCHES)
            .map(|_| {
                let store = store.clone();
                let query =
                    SearchQuery { words: vec!["heron".to_owned()], limit: 10, ..SearchQuery::default() };
                tokio::spawn(async move { store.search(query).await })
            })
            .collect();
        // Each has looked whether anything is to be done, and one has begun to do it.
        while store.pool().gets < before + SEARCHES + 1 {
            tokio::task::yield_now().await;
        }
        for _ in 0..20 {
            assert!(store.thread(thread_id).await.unwrap().is_some());
        }
        drop(let_go);
        holder.join().unwrap();
        for search in searches {
            assert_eq!(search.await.unwrap().unwrap().len(), 1);
        }
    }
}
