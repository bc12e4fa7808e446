//! Commit notifications: other processes receive a notification of a commit from the server, so they do not wait for their
//! next poll.

use std::time::Duration;

use postgres::NotificationListener;

use super::races::open_processes;
use crate::conformance::fixtures::create;

/// Maximum time to wait for a notification. A failed `NOTIFY` is only logged, so the test would otherwise wait forever.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_notifies_other_processes_through_the_server() {
    let (database, stores) = open_processes(1).await;
    let target = database.socket_url().parse().unwrap();
    let mut listener = NotificationListener::open(&target, "segue_news").await.unwrap();
    create(&*stores[0]).await;
    let notification = tokio::time::timeout(NOTIFICATION_TIMEOUT, listener.next_notification()).await;
    assert!(matches!(notification, Ok(Some(_))), "{notification:?}");
}
