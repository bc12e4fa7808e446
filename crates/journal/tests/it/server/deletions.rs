//! Deletions of threads by several processes. Every run without a thread of its own deletes the thread that it was given, so
//! deletions must not wait for rows that the threads of a project or of an agent share.

use std::collections::BTreeSet;

use journal::{PoolSettings, PostgresStore, Store, Write};
use postgres::Connection;
use protocol::Thread;
use test_postgres::{RecordedStatement, StatementRecorder, TestDatabase};
use tokio::task::block_in_place;

use super::races::{check_consistency, open_processes};
use crate::backends::POOL;
use crate::conformance::deletions::{begin_deletion, create_long};
use crate::conformance::fixtures::{append, commit, human, messages, thread};

/// The project of all threads.
const PROJECT: &str = "/app";
/// Maximum number of round trips of the deletion of a thread. It holds its locks as long as they take.
const DELETION_ROUND_TRIPS_MAX: usize = 8;

/// Returns a new thread of the project.
fn thread_in_project() -> Thread {
    Thread { project: Some(PROJECT.to_owned()), ..thread() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_wait_for_other_threads_of_its_project_and_agent() {
    let (database, stores) = open_processes(2).await;
    let threads = [(); 4].map(|()| thread_in_project());
    for thread in &threads {
        commit(&*stores[0], vec![Write::CreateThread(thread.clone())]).await.unwrap();
        append(&*stores[0], thread.thread_id, vec![human("a heron")]).await.unwrap();
    }
    let keeping = threads[3].thread_id;
    let deleted =
        threads.map(|thread| thread.thread_id).into_iter().filter(|thread_id| *thread_id != keeping);
    // Another process has created a thread in the project and stored a message of the agent, and has not committed it.
    let other = block_in_place(|| {
        let other = Connection::open(&database.socket_url().parse().unwrap()).unwrap();
        other.batch_execute("SET idle_in_transaction_session_timeout = 0; BEGIN").unwrap();
        let shared = [
            "SELECT 1::bigint FROM projects FOR KEY SHARE",
            "UPDATE agents SET turn_floor = turn_floor RETURNING 1::bigint",
        ];
        for sql in shared {
            assert_eq!(other.query(sql, &[]).unwrap().len(), 1, "{sql}");
        }
        other
    });
    for thread_id in deleted {
        commit(&*stores[0], vec![Write::DeleteThread { thread_id }]).await.unwrap();
    }
    block_in_place(|| other.batch_execute("ROLLBACK")).unwrap();
    assert_eq!(messages(&*stores[1], "heron").await, [(keeping, 1)]);
    assert_eq!(database.query_texts("SELECT path FROM projects").unwrap(), [PROJECT]);
    commit(&*stores[1], vec![Write::DeleteThread { thread_id: keeping }]).await.unwrap();
    assert!(database.query_texts("SELECT path FROM projects").unwrap().is_empty());
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_of_concurrent_deletions_of_all_threads_of_a_project_the_last_deletes_the_project() {
    let (database, stores) = open_processes(3).await;
    for round in 0..20 {
        let threads: Vec<Thread> = (0..2 + round % 5).map(|_| thread_in_project()).collect();
        for thread in &threads {
            commit(&*stores[0], vec![Write::CreateThread(thread.clone())]).await.unwrap();
        }
        let deletions = threads.iter().enumerate().map(|(number, thread)| {
            let (store, thread_id) = (&stores[number % stores.len()], thread.thread_id);
            commit(&**store, vec![Write::DeleteThread { thread_id }])
        });
        for deleted in futures::future::join_all(deletions).await {
            deleted.unwrap();
        }
        assert!(database.query_texts("SELECT path FROM projects").unwrap().is_empty(), "round {round}");
    }
    check_consistency(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_takes_few_round_trips() {
    let database = TestDatabase::create().unwrap();
    let recorder = StatementRecorder::start(database.address()).unwrap();
    let pool = PoolSettings { max: 1, ..POOL };
    let store = PostgresStore::open(&database.url_through(recorder.address()), pool).await.unwrap();
    commit(&store, vec![Write::CreateThread(thread_in_project())]).await.unwrap();
    let mut statements = Vec::new();
    // After the first deletion the connection has every statement prepared.
    for _ in 0..2 {
        let thread = thread_in_project();
        commit(&store, vec![Write::CreateThread(thread.clone())]).await.unwrap();
        append(&store, thread.thread_id, vec![human("a heron")]).await.unwrap();
        let _ = recorder.take_statements();
        commit(&store, vec![Write::DeleteThread { thread_id: thread.thread_id }]).await.unwrap();
        statements = recorder.take_statements();
    }
    let is_of_deletion = |sent: &&RecordedStatement| !sent.sql.contains("pg_notify");
    let trips: BTreeSet<usize> =
        statements.iter().filter(is_of_deletion).map(|sent| sent.round_trip).collect();
    assert!(trips.len() <= DELETION_ROUND_TRIPS_MAX, "{} round trips: {statements:#?}", trips.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_the_index_of_a_deleted_message_is_not_assigned_again() {
    let (_database, stores) = open_processes(2).await;
    let mut last_index = 0;
    for round in 0..4 {
        let thread = thread();
        let store = &*stores[round % 2];
        commit(store, vec![Write::CreateThread(thread.clone())]).await.unwrap();
        append(store, thread.thread_id, vec![human("a heron")]).await.unwrap();
        let turns = store.turns(journal::TurnQuery::for_agent(thread.assistant_id.clone())).await.unwrap();
        assert!(turns.len() == 1 && turns[0].turn_index > last_index, "{turns:?} after {last_index}");
        last_index = turns[0].turn_index;
        commit(store, vec![Write::DeleteThread { thread_id: thread.thread_id }]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_a_process_left_incomplete_is_completed_by_the_index_update_of_another() {
    let (database, stores) = open_processes(2).await;
    let thread_id = create_long(&*stores[0]).await;
    drop(begin_deletion(&*stores[0], thread_id).await);
    stores[1].start_index_update();
    let tables = ["events", "search_index", "outbox"];
    let is_left = |table: &str| {
        !database.query_texts(&format!("SELECT 'row' FROM {table} LIMIT 1")).unwrap().is_empty()
    };
    while tables.into_iter().any(is_left) {
        tokio::task::yield_now().await;
    }
    check_consistency(&stores[1]).await;
}
