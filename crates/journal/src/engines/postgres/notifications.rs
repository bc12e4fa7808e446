//! Notifications between the processes that share a database: the ids of the threads for which a process committed
//! something.
//!
//! Notifications are sent after the commit and outside its transaction, all pending ones together, because `NOTIFY`
//! inside a transaction serializes all commits. A notification can be lost, for example when a process dies before it
//! sends it. Subscribers therefore also poll everything from time to time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use postgres::{NotificationListener, Pool, SqlValue};
use protocol::ThreadId;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::commit_feed::{CommitFeed, CommitNotice};
use crate::{Transaction, Write};

/// The channel of the notifications. All processes of a database must use the same name.
const NOTIFY_CHANNEL: &str = "segue_news";
/// Maximum number of threads that one notification names. PostgreSQL limits a payload to 8,000 bytes.
const MESSAGE_THREADS_MAX: usize = 300;
/// Maximum number of threads that are sent individually. If more are pending, one notification for any thread is
/// sent.
const PENDING_THREADS_MAX: usize = 3_000;
/// Sent in place of thread ids when any thread may have changed.
const ANY_THREAD: &str = "*";
/// Interval at which subscribers poll while no connection receives notifications.
const DISCONNECTED_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which subscribers poll although notifications are received.
const CONNECTED_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Sends and receives notifications until it is dropped.
pub(super) struct CommitNotifier {
    /// Notifications to be sent.
    pending: Arc<PendingNotifications>,
    /// The tasks that send and receive.
    tasks: [JoinHandle<()>; 2],
}

/// Notifications to be sent, collected from all commits since the last round.
#[derive(Default)]
struct PendingNotifications {
    /// Threads that were changed.
    threads: Mutex<HashSet<ThreadId>>,
    /// `true` if any thread may have been changed.
    is_any_thread: AtomicBool,
    /// Wakes the sending task.
    wake: Notify,
}

impl CommitNotifier {
    /// Starts the tasks that send notifications and publish received ones to `feed`.
    pub(super) fn start(pool: Pool, feed: CommitFeed) -> Self {
        let pending = Arc::new(PendingNotifications::default());
        let process_id = URL_SAFE_NO_PAD.encode(Uuid::now_v7().into_bytes());
        let notifier = tokio::spawn(run_notifier(pool.clone(), Arc::clone(&pending), process_id.clone()));
        let listener = tokio::spawn(run_listener(pool, feed, process_id));
        Self { pending, tasks: [notifier, listener] }
    }

    /// Schedules notifications about the threads that a transaction changed.
    pub(super) fn notify(&self, changed: ChangedThreads) {
        match changed {
            ChangedThreads::Threads(threads) if threads.is_empty() => return,
            ChangedThreads::Threads(threads) => self.pending.threads.lock().extend(threads),
            ChangedThreads::Any => self.pending.is_any_thread.store(true, Ordering::Relaxed),
        }
        self.pending.wake.notify_one();
    }
}

impl Drop for CommitNotifier {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The threads that other processes are notified of after a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChangedThreads {
    /// Exactly these threads. Empty if no process can be waiting for a change of the transaction.
    Threads(Vec<ThreadId>),
    /// The transaction changed runs by their ids, and the threads of these runs are not known.
    Any,
}

/// Returns the threads whose changes in a transaction other processes may be waiting for.
pub(super) fn changed_threads(transaction: &Transaction) -> ChangedThreads {
    let effects = || transaction.writes.iter().map(Write::effects);
    let mut threads: Vec<ThreadId> = effects().filter_map(|effects| effects.notifies_thread).collect();
    threads.sort_unstable();
    threads.dedup();
    match threads.is_empty() && effects().any(|effects| effects.releases_run) {
        true => ChangedThreads::Any,
        false => ChangedThreads::Threads(threads),
    }
}

/// Sends pending notifications, all of them together, whenever there are any.
async fn run_notifier(pool: Pool, pending: Arc<PendingNotifications>, process_id: String) {
    loop {
        pending.wake.notified().await;
        let threads: Vec<ThreadId> = pending.threads.lock().drain().collect();
        let payloads = match pending.is_any_thread.swap(false, Ordering::Relaxed) {
            true => vec![format!("{process_id}{ANY_THREAD}")],
            false => encode_messages(&process_id, &threads),
        };
        let payloads: Vec<SqlValue<'static>> = payloads.into_iter().map(SqlValue::from).collect();
        let result = pool.with_connection(move |connection| {
            for payload in payloads {
                connection.query("SELECT pg_notify('segue_news', $1)::text", &[payload])?;
            }
            Ok::<_, postgres::Error>(())
        });
        if let Err(error) = result.await {
            tracing::debug!(%error, "failed to notify other processes of commits");
        }
    }
}

/// Returns the payloads for these threads: the id of the sending process, followed by the ids of the threads.
fn encode_messages(process_id: &str, threads: &[ThreadId]) -> Vec<String> {
    if threads.len() > PENDING_THREADS_MAX {
        return vec![format!("{process_id}{ANY_THREAD}")];
    }
    let encode = |threads: &[ThreadId]| {
        let names = threads.iter().map(|thread_id| URL_SAFE_NO_PAD.encode(thread_id.uuid().as_bytes()));
        format!("{process_id}{}", names.collect::<String>())
    };
    threads.chunks(MESSAGE_THREADS_MAX).map(encode).collect()
}

/// Decodes a payload of another process. A payload of this process yields nothing.
fn decode_changes(process_id: &str, message: &str) -> Vec<CommitNotice> {
    let length = process_id.len();
    let Some((sender, names)) = message.split_at_checked(length) else { return vec![CommitNotice::Any] };
    if sender == process_id {
        return Vec::new();
    }
    let read = |name: &[u8]| {
        let bytes = URL_SAFE_NO_PAD.decode(name).ok()?;
        Some(CommitNotice::Thread(ThreadId::from_uuid(Uuid::from_slice(&bytes).ok()?)))
    };
    names.as_bytes().chunks(length).map(|name| read(name).unwrap_or(CommitNotice::Any)).collect()
}

/// Receives notifications while the feed has subscribers, and reconnects when the connection is lost.
async fn run_listener(pool: Pool, feed: CommitFeed, process_id: String) {
    loop {
        let listener = match feed.has_subscribers() {
            true => poll_while(&feed, NotificationListener::open(pool.target(), NOTIFY_CHANNEL)).await,
            false => {
                tokio::time::sleep(DISCONNECTED_POLL_INTERVAL).await;
                continue;
            }
        };
        match listener {
            Ok(mut listener) => {
                // Notifications that were sent before this connection listened are lost, so subscribers must poll
                // once.
                feed.publish(CommitNotice::Any);
                forward_notifications(&mut listener, &feed, &process_id).await;
            }
            Err(error) => tracing::debug!(%error, "failed to listen for notifications of other processes"),
        }
        feed.publish(CommitNotice::Any);
        tokio::time::sleep(DISCONNECTED_POLL_INTERVAL).await;
    }
}

/// Waits for a future. Until it is ready, subscribers poll at an interval.
async fn poll_while<T>(feed: &CommitFeed, future: impl Future<Output = T>) -> T {
    let mut poll_interval = tokio::time::interval(DISCONNECTED_POLL_INTERVAL);
    let mut future = std::pin::pin!(future);
    loop {
        tokio::select! {
            result = &mut future => return result,
            _ = poll_interval.tick() => feed.publish(CommitNotice::Any),
        }
    }
}

/// Publishes received notifications until the connection is lost.
async fn forward_notifications(listener: &mut NotificationListener, feed: &CommitFeed, process_id: &str) {
    let mut poll_interval = tokio::time::interval(CONNECTED_POLL_INTERVAL);
    loop {
        tokio::select! {
            _ = poll_interval.tick() => feed.publish(CommitNotice::Any),
            message = listener.next_notification() => match message {
                Some(message) => decode_changes(process_id, &message).into_iter().for_each(|change| feed.publish(change)),
                None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_decode_the_encoded_threads() {
        let (own, other) = ("A".repeat(22), "B".repeat(22));
        let threads: Vec<ThreadId> = (0..700).map(|_| ThreadId::generate()).collect();
        let payloads = encode_messages(&own, &threads);
        assert!(payloads.len() == 3 && payloads.iter().all(|payload| payload.len() < 8_000));
        let notices: Vec<CommitNotice> =
            payloads.iter().flat_map(|payload| decode_changes(&other, payload)).collect();
        assert_eq!(notices, threads.into_iter().map(CommitNotice::Thread).collect::<Vec<_>>());
        assert!(payloads.iter().all(|payload| decode_changes(&own, payload).is_empty()));
        let many: Vec<ThreadId> = (0..=PENDING_THREADS_MAX).map(|_| ThreadId::generate()).collect();
        assert_eq!(decode_changes(&other, &encode_messages(&own, &many)[0]), [CommitNotice::Any]);
        assert_eq!(decode_changes(&other, "?"), [CommitNotice::Any]);
    }
}
