//! A pool of read-only connections, each opened when it is first needed. Reads that may take long run outside the
//! async threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::connect;
use super::errors::DatabasePath;
use super::wal::OpenFiles;
use crate::{Error, Result};

/// Maximum number of connections. Further reads wait.
pub(super) const READERS_MAX: usize = 4;

/// The pool.
pub(super) struct ReaderPool {
    /// The path of the database.
    path: Arc<DatabasePath>,
    /// The files that the writer has opened. Readers must not open others.
    files: Arc<OpenFiles>,
    /// Maximum time that a read waits for another process.
    lock_wait: Duration,
    /// One permit for each connection that may be in use.
    permits: Arc<Semaphore>,
    /// Open connections that are not in use.
    idle_connections: Mutex<Vec<Connection>>,
    /// True once a connection was opened.
    is_used: AtomicBool,
}

impl ReaderPool {
    /// Returns a pool without open connections.
    pub(super) fn new(path: Arc<DatabasePath>, files: Arc<OpenFiles>, lock_wait: Duration) -> Self {
        let permits = Arc::new(Semaphore::new(READERS_MAX));
        Self {
            path,
            files,
            lock_wait,
            permits,
            idle_connections: Mutex::default(),
            is_used: AtomicBool::new(false),
        }
    }

    /// Returns the files of the database.
    pub(super) fn files(&self) -> Arc<OpenFiles> {
        Arc::clone(&self.files)
    }

    /// Returns whether a connection was opened.
    pub(crate) fn has_connection(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Executes a query on a connection of the pool, on a blocking thread.
    ///
    /// The permit is acquired on a task of its own. Otherwise a permit could be granted to a caller that is not
    /// polled, because it waits for another read, and the permit would be unusable until then.
    pub(crate) async fn query<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let readers = Arc::clone(self);
        let task = tokio::spawn(async move {
            let permit = Arc::clone(&readers.permits).acquire_owned().await.map_err(|_| Error::Closed)?;
            let run = move || {
                let _permit = permit;
                readers.run_query(query)
            };
            // A query that panics loses its connection, and affects nothing else.
            tokio::task::spawn_blocking(run).await.unwrap_or(Err(Error::Closed))
        });
        AbortOnDropHandle::new(task).await.unwrap_or(Err(Error::Closed))
    }

    /// Executes a query on the current thread if an open connection is idle, and like [`Self::query`] otherwise. For
    /// queries that read few pages through an index: passing such a query to another thread and waiting for it takes
    /// several times as long as executing it.
    pub(crate) async fn query_inline<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let is_open = !self.idle_connections.lock().is_empty();
        if is_open && let Ok(_permit) = self.permits.try_acquire() {
            return self.run_query(query);
        }
        self.query(query).await
    }

    /// Takes an idle connection or opens one, executes the query and returns the connection to the pool.
    fn run_query<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle_connections.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                self.is_used.store(true, Ordering::Relaxed);
                // A new connection deletes the log of a file that was truncated to nothing.
                self.files.check()?;
                let connection = connect::open_reader(&self.path, self.lock_wait)?;
                self.files.check()?;
                connection
            }
        };
        let result = query(&connection);
        self.idle_connections.lock().push(connection);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn a_caller_that_is_not_polled_does_not_block_other_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE some (x)").unwrap();
        let path = Arc::new(DatabasePath::new(path));
        let files = Arc::new(OpenFiles::identify(&path).unwrap());
        let readers = Arc::new(ReaderPool::new(path, files, Duration::from_secs(1)));
        let (started_sender, started) = mpsc::channel();
        let slow = std::array::from_fn::<_, READERS_MAX, _>(|_| {
            let (release, released) = mpsc::channel::<()>();
            let (readers, started_sender) = (Arc::clone(&readers), started_sender.clone());
            let read = async move {
                let query = move |_: &Connection| {
                    started_sender.send(()).unwrap();
                    released.recv().unwrap();
                    Ok(())
                };
                readers.query(query).await
            };
            (tokio::spawn(read), release)
        });
        let started_count = tokio::task::spawn_blocking(move || started.iter().take(READERS_MAX).count());
        assert_eq!(started_count.await.unwrap(), READERS_MAX);
        let mut unpolled = std::array::from_fn::<_, { 2 * READERS_MAX }, _>(|number| {
            Box::pin(readers.query_inline(move |_| Ok(number)))
        });
        for read in &mut unpolled {
            assert!(poll!(read).is_pending());
        }
        for (read, release) in slow {
            release.send(()).unwrap();
            read.await.unwrap().unwrap();
        }
        for _ in 0..READERS_MAX {
            assert_eq!(readers.query(|_| Ok("answered")).await.unwrap(), "answered");
        }
        for (number, read) in unpolled.into_iter().enumerate() {
            assert_eq!(read.await.unwrap(), number);
        }
    }
}
