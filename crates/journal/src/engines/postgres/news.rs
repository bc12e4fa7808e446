//! News between the processes that share a database: which threads one of them committed something about. They are told after
//! the commit and apart from it, all that came together at once: within a transaction, telling would make all commits wait for
//! each other. What is lost on the way, or with a process that dies in between, is found by looking everywhere now and then.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use postgres::{Listener, Pool, Value};
use protocol::ThreadId;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::news::{Change, News};
use crate::{Transaction, Write};

/// Where the processes are told; part of what they agree on.
const CHANNEL: &str = "segue_news";
/// Threads one message names; the server takes 8,000 bytes.
const THREADS_MAX: usize = 300;
/// Threads that may wait to be told; of more it is told that there are many.
const WAITING_MAX: usize = 3_000;
/// Instead of threads: something happened somewhere.
const ANYWHERE: &str = "*";
/// How often everything is looked at while nobody tells us.
const LOOK_DEAF: Duration = Duration::from_millis(500);
/// How often everything is looked at though we are told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Telling, and being told, until it is dropped.
pub(super) struct Telling {
    waiting: Arc<Waiting>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Default)]
struct Waiting {
    threads: Mutex<HashSet<ThreadId>>,
    is_anywhere: AtomicBool,
    rings: Notify,
}

impl Telling {
    /// Begins to tell others, and to listen to them.
    pub(super) fn begin(pool: Pool, news: News) -> Self {
        let waiting = Arc::new(Waiting::default());
        let own = URL_SAFE_NO_PAD.encode(Uuid::now_v7().into_bytes());
        let tell = tokio::spawn(tell(pool.clone(), Arc::clone(&waiting), own.clone()));
        let listen = tokio::spawn(listen(pool, news, own));
        Self { waiting, tasks: [tell, listen] }
    }

    /// Has others told what a transaction was about.
    pub(super) fn tell(&self, about: About) {
        match about {
            About::Threads(threads) if threads.is_empty() => return,
            About::Threads(threads) => self.waiting.threads.lock().extend(threads),
            About::Anywhere => self.waiting.is_anywhere.store(true, Ordering::Relaxed),
        }
        self.waiting.rings.notify_one();
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What others are told of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum About {
    /// It is about these threads; nothing that anybody waits for, if there are none.
    Threads(Vec<ThreadId>),
    /// It says of which runs, but not in which threads they are.
    Anywhere,
}

/// Returns what a transaction is about, as far as others may be waiting for something to happen there.
pub(super) fn about(transaction: &Transaction) -> About {
    let effects = || transaction.writes.iter().map(Write::effects);
    let mut threads: Vec<ThreadId> = effects().filter_map(|effects| effects.news_of).collect();
    threads.sort_unstable();
    threads.dedup();
    match threads.is_empty() && effects().any(|effects| effects.releases_run) {
        true => About::Anywhere,
        false => About::Threads(threads),
    }
}

/// Tells what waits, all of it at once, as often as something does.
async fn tell(pool: Pool, waiting: Arc<Waiting>, own: String) {
    loop {
        waiting.rings.notified().await;
        let threads: Vec<ThreadId> = waiting.threads.lock().drain().collect();
        let said = match waiting.is_anywhere.swap(false, Ordering::Relaxed) {
            true => vec![format!("{own}{ANYWHERE}")],
            false => messages(&own, &threads),
        };
        let messages: Vec<Value<'static>> = said.into_iter().map(Value::from).collect();
        let told = pool.with(move |connection| {
            for message in messages {
                connection.query("SELECT pg_notify('segue_news', ?1)::text", &[message])?;
            }
            Ok::<_, postgres::Error>(())
        });
        if let Err(error) = told.await {
            tracing::debug!(%error, "failed to tell other processes what was committed");
        }
    }
}

/// Returns what is said, and by whom.
fn messages(own: &str, threads: &[ThreadId]) -> Vec<String> {
    if threads.len() > WAITING_MAX {
        return vec![format!("{own}{ANYWHERE}")];
    }
    let named = |threads: &[ThreadId]| {
        let names = threads.iter().map(|thread_id| URL_SAFE_NO_PAD.encode(thread_id.uuid().as_bytes()));
        format!("{own}{}", names.collect::<String>())
    };
    threads.chunks(THREADS_MAX).map(named).collect()
}

/// Returns what another process said; nothing when it is what we said.
fn changes(own: &str, message: &str) -> Vec<Change> {
    let length = own.len();
    let Some((by, names)) = message.split_at_checked(length) else { return vec![Change::Any] };
    if by == own {
        return Vec::new();
    }
    let read = |name: &[u8]| {
        let bytes = URL_SAFE_NO_PAD.decode(name).ok()?;
        Some(Change::Thread(ThreadId::from_uuid(Uuid::from_slice(&bytes).ok()?)))
    };
    names.as_bytes().chunks(length).map(|name| read(name).unwrap_or(Change::Any)).collect()
}

async fn listen(pool: Pool, news: News, own: String) {
    loop {
        let listener = match news.is_heard() {
            true => meanwhile(&news, Listener::open(pool.target(), CHANNEL)).await,
            false => {
                tokio::time::sleep(LOOK_DEAF).await;
                continue;
            }
        };
        match listener {
            Ok(mut listener) => {
                // What was told before is not told again.
                news.tell(Change::Any);
                hear(&mut listener, &news, &own).await;
            }
            Err(error) => tracing::debug!(%error, "failed to listen to other processes"),
        }
        news.tell(Change::Any);
        tokio::time::sleep(LOOK_DEAF).await;
    }
}

/// Has everything looked at now and then until something is done.
async fn meanwhile<T>(news: &News, doing: impl Future<Output = T>) -> T {
    let mut looks = tokio::time::interval(LOOK_DEAF);
    let mut doing = std::pin::pin!(doing);
    loop {
        tokio::select! {
            done = &mut doing => return done,
            _ = looks.tick() => news.tell(Change::Any),
        }
    }
}

/// Passes on what is heard, until the connection is lost.
async fn hear(listener: &mut Listener, news: &News, own: &str) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = looks.tick() => news.tell(Change::Any),
            message = listener.next() => match message {
                Some(message) => changes(own, &message).into_iter().for_each(|change| news.tell(change)),
                None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard_by_others() {
        let (own, other) = ("A".repeat(22), "B".repeat(22));
        let threads: Vec<ThreadId> = (0..700).map(|_| ThreadId::generate()).collect();
        let said = messages(&own, &threads);
        assert!(said.len() == 3 && said.iter().all(|message| message.len() < 8_000));
        let heard: Vec<Change> = said.iter().flat_map(|message| changes(&other, message)).collect();
        assert_eq!(heard, threads.into_iter().map(Change::Thread).collect::<Vec<_>>());
        assert!(said.iter().all(|message| changes(&own, message).is_empty()));
        let many: Vec<ThreadId> = (0..=WAITING_MAX).map(|_| ThreadId::generate()).collect();
        assert_eq!(changes(&other, &messages(&own, &many)[0]), [Change::Any]);
        assert_eq!(changes(&other, "?"), [Change::Any]);
    }
}
