//! Damaged events in PostgreSQL: they are noticed as in SQLite, and a copy between the engines keeps the checksums.

use std::ops::ControlFlow;

use journal::copy::{JournalLocation, copy};
use journal::{
    DamagedEvent, Error, EventQuery, HealthCheckDepth, PostgresStore, SqliteStore, Store,
    VerificationPosition,
};
use protocol::{Category, EventType};
use test_postgres::TestDatabase;

use crate::backends::POOL;
use crate::conformance::fixtures::{ai, append, create, human};
use crate::damage::events::{
    append_between_rewinds, check_pages_without_later_events, check_rewound_pages_without_later_events,
    later_version_sql,
};

#[tokio::test(flavor = "multi_thread")]
async fn a4_a_changed_event_is_noticed_and_not_served() {
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("the kettle"), ai("leaks"), human("mend it")]).await.unwrap();
    assert_eq!(store.verify_events(VerificationPosition::OLDEST, 50).await.unwrap().damaged, []);
    database.execute("UPDATE events SET content = replace(content, 'leaks', 'leaps') WHERE seq = 2").unwrap();
    for query in [
        EventQuery::after(0, 50),
        EventQuery { limit: 50, ..EventQuery::default() },
        EventQuery { superseded: journal::SupersededVisibility::Shown, ..EventQuery::after(0, 50) },
    ] {
        let read = store.events(thread_id, query).await;
        assert!(matches!(read, Err(Error::DamagedEvent { seq: 2, .. })), "{read:?}");
    }
    let verified = store.verify_events(VerificationPosition::OLDEST, 50).await.unwrap();
    assert_eq!(verified.damaged, [DamagedEvent { thread_id, seq: 2 }]);
    let newest = store.verify_events(VerificationPosition::NEWEST, 1).await.unwrap();
    let second = store.verify_events(newest.next.unwrap(), 1).await.unwrap();
    assert_eq!((newest.damaged, second.damaged), (Vec::new(), verified.damaged));
    let problems = store.health(HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, [format!("damaged events of thread {thread_id}: 2")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a4_a_damaged_category_or_type_hides_no_event_from_a_filtered_read() {
    for damage in ["category = 'messagf'", "event_type = 'ai_messagf'"] {
        let database = TestDatabase::create().unwrap();
        let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
        let thread_id = create(&store).await;
        append(&store, thread_id, vec![human("the kettle"), ai("leaks"), human("mend it")]).await.unwrap();
        database.execute(&format!("UPDATE events SET {damage} WHERE seq = 2")).unwrap();
        for query in [
            EventQuery { categories: vec![Category::Message], limit: 50, ..EventQuery::default() },
            EventQuery { types: vec![EventType::AiMessage], ..EventQuery::after(0, 50) },
        ] {
            let read = store.events(thread_id, query).await;
            assert!(matches!(read, Err(Error::DamagedEvent { seq: 2, .. })), "{damage}: {read:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_events_of_a_later_version_take_the_place_of_no_others_on_a_page() {
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, (1..=10).map(|number| human(&number.to_string())).collect()).await.unwrap();
    database.execute(&later_version_sql("2, 3, 7")).unwrap();
    check_pages_without_later_events(&store, thread_id).await;
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    append_between_rewinds(&store, thread_id).await;
    database.execute(&later_version_sql("4")).unwrap();
    check_rewound_pages_without_later_events(&store, thread_id).await;
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
    let verified = copied.verify_events(VerificationPosition::OLDEST, 50).await.unwrap();
    assert_eq!((verified.events, verified.unchecked, verified.damaged), (2, 0, Vec::new()));
    assert_eq!(copied.events(thread_id, EventQuery::after(0, 50)).await.unwrap().len(), 2);
}
