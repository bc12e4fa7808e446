//! Damaged events in PostgreSQL: they are noticed as in SQLite, and a copy between the engines keeps the checksums.

use std::ops::ControlFlow;

use journal::copy::{JournalLocation, copy};
use journal::{DamagedEvent, Error, EventQuery, HealthCheckDepth, PostgresStore, SqliteStore, Store};
use test_postgres::TestDatabase;

use crate::backends::POOL;
use crate::conformance::fixtures::{ai, append, create, human};

#[tokio::test(flavor = "multi_thread")]
async fn a4_a_changed_event_is_noticed_and_not_served() {
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("the kettle"), ai("leaks"), human("mend it")]).await.unwrap();
    assert_eq!(store.verify_events(0, 50).await.unwrap().damaged, []);
    database.execute("UPDATE events SET content = replace(content, 'leaks', 'leaps') WHERE seq = 2").unwrap();
    for query in [
        EventQuery::after(0, 50),
        EventQuery { limit: 50, ..EventQuery::default() },
        EventQuery { superseded: journal::SupersededVisibility::Shown, ..EventQuery::after(0, 50) },
    ] {
        let read = store.events(thread_id, query).await;
        assert!(matches!(read, Err(Error::DamagedEvent { seq: 2, .. })), "{read:?}");
    }
    let verified = store.verify_events(0, 50).await.unwrap();
    assert_eq!(verified.damaged, [DamagedEvent { thread_id, seq: 2 }]);
    let problems = store.health(HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, [format!("damaged events of thread {thread_id}: 2")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a4_a11_both_engines_compute_the_same_checksums() {
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("the kettle ☕"), ai("leaks")]).await.unwrap();
    drop(store);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let (from, to) = (JournalLocation::Server(database.socket_url()), JournalLocation::File(path.clone()));
    copy(from, to, Box::new(|_| ControlFlow::Continue(()))).await.unwrap();
    let copied = SqliteStore::open(&path).unwrap();
    let verified = copied.verify_events(0, 50).await.unwrap();
    assert_eq!((verified.events, verified.unchecked, verified.damaged), (2, 0, Vec::new()));
    assert_eq!(copied.events(thread_id, EventQuery::after(0, 50)).await.unwrap().len(), 2);
}
