//! A few connections that only read, each opened when it is first needed. Whatever may take long is read off the async
//! threads.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use super::connect;
use super::faults::Place;
use crate::{Error, Result};

/// Connections that read at the same time; more readers wait.
const READERS_MAX: usize = 4;

/// The connections.
pub(crate) struct Readers {
    place: Arc<Place>,
    lock_wait: Duration,
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Returns a pool without any connection yet.
    pub(crate) fn new(place: Arc<Place>, lock_wait: Duration) -> Self {
        let free = Arc::new(Semaphore::new(READERS_MAX));
        Self { place, lock_wait, free, idle: Mutex::new(Vec::new()) }
    }

    /// Answers `question` on one of the connections. It waits for one on a task of its own: leave that is given to a caller who
    /// is not polled for a while, because it waits for something else that asks here, would be nobody's.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let readers = Arc::clone(self);
        let asked = tokio::spawn(async move {
            let permit = Arc::clone(&readers.free).acquire_owned().await.map_err(|_| Error::Closed)?;
            let answering = move || {
                let _permit = permit;
                readers.answer(question)
            };
            // A question that panicked took its connection with it; nothing else is affected.
            tokio::task::spawn_blocking(answering).await.unwrap_or(Err(Error::Closed))
        });
        AbortOnDropHandle::new(asked).await.unwrap_or(Err(Error::Closed))
    }

    /// Answers `question` here and now if a connection is free, else as [`Readers::ask`] does. For what is found by an
    /// index in a few pages: handing such a question to another thread and waiting for it takes several times as long as
    /// answering it.
    pub(crate) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let is_open = !self.idle.lock().is_empty();
        if is_open && let Ok(_permit) = self.free.try_acquire() {
            return self.answer(question);
        }
        self.ask(question).await
    }

    fn answer<T>(&self, question: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect::reader(&self.place, self.lock_wait)?,
        };
        let answer = question(&connection);
        self.idle.lock().push(connection);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::poll;

    use super::*;

    #[tokio::test]
    async fn who_asks_and_is_not_polled_any_more_keeps_nobody_from_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE some (x)").unwrap();
        let readers = Arc::new(Readers::new(Arc::new(Place(path)), Duration::from_secs(1)));
        let (ready, begun) = mpsc::channel();
        let slow = std::array::from_fn::<_, READERS_MAX, _>(|_| {
            let (goes_on, waits) = mpsc::channel::<()>();
            let (readers, ready) = (Arc::clone(&readers), ready.clone());
            let asking = async move {
                let question = move |_: &Connection| {
                    ready.send(()).unwrap();
                    waits.recv().unwrap();
                    Ok(())
                };
                readers.ask(question).await
            };
            (tokio::spawn(asking), goes_on)
        });
        let all_begun = tokio::task::spawn_blocking(move || begun.iter().take(READERS_MAX).count());
        assert_eq!(all_begun.await.unwrap(), READERS_MAX);
        let mut forgotten = std::array::from_fn::<_, { 2 * READERS_MAX }, _>(|number| {
            Box::pin(readers.look(move |_| Ok(number)))
        });
        for asking in &mut forgotten {
            assert!(poll!(asking).is_pending());
        }
        for (asking, goes_on) in slow {
            goes_on.send(()).unwrap();
            asking.await.unwrap().unwrap();
        }
        for _ in 0..READERS_MAX {
            assert_eq!(readers.ask(|_| Ok("answered")).await.unwrap(), "answered");
        }
        for (number, asking) in forgotten.into_iter().enumerate() {
            assert_eq!(asking.await.unwrap(), number);
        }
    }
}
