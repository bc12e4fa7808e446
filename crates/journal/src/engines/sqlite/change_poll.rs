//! Detection of commits of other processes by polling `PRAGMA data_version`, which SQLite increments for every commit
//! of another connection. The pragma is read on the writer's connection, so that commits of this process do not
//! count.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::writer::WriterJob;
use crate::commit_feed::{CommitFeed, CommitNotice};

/// Interval at which the pragma is read while the feed has subscribers.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Polls until the journal is closed, and publishes a notice for any thread after each change.
pub(crate) async fn poll_changes(feed: CommitFeed, jobs: mpsc::WeakSender<WriterJob>) {
    let mut last = None;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if !feed.has_subscribers() {
            continue;
        }
        let Some(jobs) = jobs.upgrade() else { return };
        let Some(version) = data_version(jobs).await else { continue };
        if last.replace(version) != Some(version) {
            feed.publish(CommitNotice::Any);
        }
    }
}

/// Returns the data version, or `None` if it cannot be read at the moment.
async fn data_version(jobs: mpsc::Sender<WriterJob>) -> Option<i64> {
    let (reply, result) = oneshot::channel();
    let query = move |connection: &rusqlite::Connection| {
        let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
        // The send fails if the caller was dropped. Then nobody needs the result.
        let _ = reply.send(version.ok());
    };
    jobs.send(WriterJob::Query(Box::new(query))).await.ok()?;
    drop(jobs);
    result.await.ok().flatten()
}
