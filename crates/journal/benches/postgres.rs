//! Append throughput in PostgreSQL, compared with an upper bound: the rows per second that `pgbench` inserts, one for each
//! transaction, with the same number of clients. The data is on the disk of the target folder, and every commit is synced.
//!
//! `cargo bench -p segue-journal --bench postgres` prints the table; it takes about a minute.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use journal::{PoolSettings, PostgresStore, Store, Transaction, Write};
use protocol::{AssistantId, EventType, Message, NewEvent, RunId, Thread, ThreadId};
use serde_json::json;
use test_postgres::{Cluster, ClusterSettings, DataLocation, TestDatabase};

/// Duration of the measurement of each row of the table.
const MEASURED_TIME: Duration = Duration::from_secs(5);
/// Events in one batch.
const BATCH: usize = 100;

fn main() {
    let options = vec![("fsync", "on"), ("full_page_writes", "on"), ("shared_buffers", "256MB")];
    let settings =
        ClusterSettings { data_location: DataLocation::Disk, options, ..ClusterSettings::default() };
    let server = Cluster::start_with(&settings).expect("PostgreSQL is installed");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    println!("clients   plain rows/s   messages/s   share   trace events/s   share   batched events/s");
    for clients in [1, 8, 64] {
        let plain = plain_inserts(&server, clients);
        let messages = runtime.block_on(appends(&server, clients, |n| vec![message(n)]));
        let traces = runtime.block_on(appends(&server, clients, |n| vec![trace(n)]));
        let batched =
            runtime.block_on(appends(&server, clients, |n| (0..BATCH).map(|i| trace(n + i)).collect()));
        println!(
            "{clients:>7} {plain:>14.0} {messages:>12.0} {:>6.0} % {traces:>15.0} {:>6.0} % {batched:>16.0}",
            100.0 * messages / plain,
            100.0 * traces / plain,
        );
    }
}

/// Returns the rows per second that `pgbench` inserts, one for each transaction.
fn plain_inserts(server: &Cluster, clients: usize) -> f64 {
    let database = server.create_database().expect("the server runs");
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("insert.sql");
    std::fs::write(
        &script,
        "INSERT INTO plain (thread, content) VALUES (:client_id, repeat('a sentence of some length. ', 10));\n",
    )
    .expect("the folder is writable");
    let url = database.socket_url();
    let status = Command::new("psql")
        .args(["-qc", "CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, thread bigint, content text)"])
        .arg(&url)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "psql creates the table");
    let clients = clients.to_string();
    let seconds = MEASURED_TIME.as_secs().to_string();
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-j", "2", "-c", &clients, "-T", &seconds, "-f"])
        .arg(&script)
        .arg(&url)
        .output()
        .expect("pgbench is installed");
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = output_text.lines().find(|line| line.starts_with("tps = ")).unwrap_or_else(|| {
        eprintln!("{output_text}{}", String::from_utf8_lossy(&output.stderr));
        "tps = 0 "
    });
    line["tps = ".len()..].split(' ').next().and_then(|tps| tps.parse().ok()).unwrap_or(0.0)
}

/// Returns the events per second that `clients` tasks append, each to its own thread.
async fn appends(server: &Cluster, clients: usize, events: fn(usize) -> Vec<NewEvent>) -> f64 {
    let (_database, store) = open_database(server).await;
    let threads: Vec<Thread> = (0..clients).map(|_| thread()).collect();
    let ids: Vec<ThreadId> = threads.iter().map(|thread| thread.thread_id).collect();
    commit(&store, threads.into_iter().map(Write::CreateThread).collect()).await;
    for thread_id in &ids {
        commit(&store, vec![Write::Append { thread_id: *thread_id, events: events(0) }]).await;
    }
    let count = Arc::new(AtomicU64::new(0));
    let started_at = Instant::now();
    let tasks: Vec<_> = ids
        .into_iter()
        .map(|thread_id| {
            let (store, count) = (store.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let mut number = 0;
                while started_at.elapsed() < MEASURED_TIME {
                    let events = events(number);
                    number += events.len();
                    let stored = events.len() as u64;
                    commit(&store, vec![Write::Append { thread_id, events }]).await;
                    count.fetch_add(stored, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no append fails");
    }
    count.load(Ordering::Relaxed) as f64 / started_at.elapsed().as_secs_f64()
}

async fn open_database(server: &Cluster) -> (TestDatabase, PostgresStore) {
    let database = server.create_database().expect("the server runs");
    let pool = PoolSettings {
        min_idle: 2,
        max: 10,
        idle_timeout: Duration::from_secs(300),
        max_lifetime: Duration::from_secs(3_600),
        wait_timeout: Duration::from_secs(30),
    };
    let store = PostgresStore::open(&database.socket_url(), pool).await.expect("an empty database");
    (database, store)
}

async fn commit(store: &PostgresStore, writes: Vec<Write>) {
    store.commit(Transaction { fence: None, writes }).await.expect("the server runs");
}

fn thread() -> Thread {
    Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH)
}

fn message(number: usize) -> NewEvent {
    let text = format!("{number}: {}", "a sentence of some length. ".repeat(10));
    let message = if number.is_multiple_of(2) { Message::human(text) } else { Message::ai(text) };
    NewEvent::from_message(&message, Timestamp::now()).expect("text is JSON")
}

fn trace(number: usize) -> NewEvent {
    let content =
        json!({"purpose": "handoff", "model": "scripted/one", "number": number, "run": RunId::generate()});
    NewEvent::new(EventType::ModelCalled, &content, Timestamp::now()).expect("JSON")
}
