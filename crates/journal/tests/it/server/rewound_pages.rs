//! Pages of threads with many rewinds. Each statement is a round trip to the server, so their number must not follow the
//! number of rewinds.

use std::collections::BTreeSet;

use jiff::Timestamp;
use journal::{EventQuery, PoolSettings, PostgresStore, Store, SupersededVisibility, Write};
use protocol::Event;
use test_postgres::{StatementRecorder, TestDatabase};

use crate::backends::POOL;
use crate::conformance::fixtures::{append, commit, human, thread};

/// Number of rewinds of the thread.
const REWINDS: u64 = 80;
/// Maximum number of round trips of a page of the thread: the start of the snapshot, the thread, its visible ranges, and
/// groups of 1, 4, 16 and 64 ranges.
const PAGE_ROUND_TRIPS_MAX: usize = 9;

#[tokio::test(flavor = "multi_thread")]
async fn b7_a_page_of_a_thread_with_many_rewinds_takes_few_round_trips() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let pool = PoolSettings { max: 1, ..POOL };
    let store = PostgresStore::open(&database.url_through(recorder.address()), pool).await.unwrap();
    let thread = thread();
    let thread_id = thread.thread_id;
    commit(&store, vec![Write::CreateThread(thread)]).await.unwrap();
    // Of each three messages, the second and the third are superseded.
    for rewind in 0..REWINDS {
        for text in ["kept", "superseded", "superseded"] {
            append(&store, thread_id, vec![human(text)]).await.unwrap();
        }
        let keep_seq = rewind * 3 + 1;
        commit(&store, vec![Write::Rewind { thread_id, keep_seq, at: Timestamp::now() }]).await.unwrap();
    }
    let seqs = |events: &[Event]| events.iter().map(|event| event.seq).collect::<Vec<_>>();
    let visible: Vec<u64> = (0..REWINDS).map(|rewind| rewind * 3 + 1).collect();
    let newest = |limit| EventQuery { limit, ..EventQuery::default() };
    for (query, expected) in [
        (newest(1_000), &visible[..]),
        (newest(10), &visible[70..]),
        (EventQuery { before: Some(100), ..newest(7) }, &visible[26..33]),
        (EventQuery { after: Some(0), ..newest(1_000) }, &visible[..]),
        (EventQuery { after: Some(2), ..newest(33) }, &visible[1..34]),
        (EventQuery { after: Some(98), before: Some(110), ..newest(50) }, &visible[33..37]),
        (EventQuery { after: Some(REWINDS * 3), ..newest(5) }, &[]),
    ] {
        // After the first read the connection has the statements prepared.
        store.events(thread_id, query.clone()).await.unwrap();
        let _ = recorder.take_statements();
        let events = store.events(thread_id, query.clone()).await.unwrap();
        let statements = recorder.take_statements();
        assert_eq!(seqs(&events), expected, "{query:?}");
        let trips: BTreeSet<usize> = statements.iter().map(|sent| sent.round_trip).collect();
        assert!(trips.len() <= PAGE_ROUND_TRIPS_MAX, "{} round trips: {statements:#?}", trips.len());
    }
    let all = EventQuery { superseded: SupersededVisibility::Shown, ..newest(1_000) };
    assert_eq!(store.events(thread_id, all).await.unwrap().len() as u64, REWINDS * 3);
}
