//! Finding out that another process committed: a number that the engine counts up for each connection that is not the one
//! who asks. It is asked on the writer's connection, so that what this process commits is no news.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::writer::Job;
use crate::news::{Change, News};

/// How often the number is looked at while somebody listens.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks until the journal is closed.
pub(crate) async fn look(news: News, jobs: mpsc::WeakSender<Job>) {
    let mut last = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !news.is_heard() {
            continue;
        }
        let Some(jobs) = jobs.upgrade() else { return };
        let Some(version) = version(jobs).await else { continue };
        if last.replace(version) != Some(version) {
            news.tell(Change::Any);
        }
    }
}

/// Returns the number; `None` when it cannot be read now.
async fn version(jobs: mpsc::Sender<Job>) -> Option<i64> {
    let (reply, answer) = oneshot::channel();
    let question = move |connection: &rusqlite::Connection| {
        let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
        // Whoever does not wait any longer does not need the answer.
        let _ = reply.send(version.ok());
    };
    jobs.send(Job::Ask(Box::new(question))).await.ok()?;
    drop(jobs);
    answer.await.ok().flatten()
}
