//! Several processes write to one SQLite database. A child process is this test binary, started with its task in
//! environment variables.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use journal::{HealthCheckDepth, SqliteStore, Store, Write};
use protocol::ThreadId;

use crate::conformance::fixtures::{all_events, append, commit, create, seqs, thread, trace_event};

const CHILD_TASK: &str = "JOURNAL_CHILD_TASK";
const CHILD_DATABASE: &str = "JOURNAL_CHILD_DATABASE";
const CHILD_THREAD: &str = "JOURNAL_CHILD_THREAD";

/// Starts this test binary as a child process that performs `task`.
pub fn spawn(task: &str, database: &Path, thread_id: ThreadId) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::in_a_child", "--nocapture"])
        .env(CHILD_TASK, task)
        .env(CHILD_DATABASE, database)
        .env(CHILD_THREAD, thread_id.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Performs the task of a child process. Does nothing in the parent.
#[tokio::test]
async fn in_a_child() {
    let Ok(task) = std::env::var(CHILD_TASK) else { return };
    let store = Arc::new(SqliteStore::open(Path::new(&std::env::var(CHILD_DATABASE).unwrap())).unwrap());
    let thread_id: ThreadId = std::env::var(CHILD_THREAD).unwrap().parse().unwrap();
    match task.as_str() {
        "create_thread" => {
            create(&*store).await;
        }
        "append_1000" => append_from_tasks(&store, thread_id, 40).await,
        "append_until_killed" => append_from_tasks(&store, thread_id, u64::MAX).await,
        "rewind_until_killed" => crate::crash::rewind_and_copy(&*store, thread_id).await,
        "converse_until_killed" => crate::kills::converse(&*store, thread_id).await,
        other => panic!("unknown task {other}"),
    }
}

/// Appends from 25 tasks and reports each seq as soon as it is acknowledged.
async fn append_from_tasks(store: &Arc<SqliteStore>, thread_id: ThreadId, appends_per_task: u64) {
    let mut tasks = Vec::new();
    for _ in 0..25 {
        let store = Arc::clone(store);
        tasks.push(tokio::spawn(async move {
            for number in 0..appends_per_task {
                for seq in
                    append(&*store, thread_id, vec![trace_event(number), trace_event(number)]).await.unwrap()
                {
                    println!("acknowledged {seq}");
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn a1_j8_two_processes_share_one_thread_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let store = SqliteStore::open(&database).unwrap();
    let thread_id = create(&store).await;
    let children = [(); 2].map(|()| spawn("append_1000", &database, thread_id));
    let mut acknowledged = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        acknowledged.extend(crate::crash::acknowledged_seqs(&String::from_utf8(output.stdout).unwrap()));
    }
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (1..=4_000).collect::<Vec<_>>());
    assert_eq!(seqs(&all_events(&store, thread_id, &[]).await), acknowledged);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test]
async fn eight_processes_may_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("new").join("segue.db");
    let children: Vec<_> = (0..8).map(|_| spawn("create_thread", &database, ThreadId::generate())).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let store = SqliteStore::open(&database).unwrap();
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.threads, health.problems), (8, vec![]));
}

#[tokio::test]
async fn eight_threads_may_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let openers: Vec<_> = (0..8)
        .map(|_| {
            let database = database.clone();
            std::thread::spawn(move || SqliteStore::open(&database).unwrap())
        })
        .collect();
    let stores: Vec<_> = openers.into_iter().map(|opener| opener.join().unwrap()).collect();
    for store in &stores {
        commit(store, vec![Write::CreateThread(thread())]).await.unwrap();
    }
    assert_eq!(stores[0].health(HealthCheckDepth::Counts).await.unwrap().threads, 8);
}
