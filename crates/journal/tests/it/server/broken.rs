//! Failures of PostgreSQL: slow and broken connections, servers that stop, crash or have a full disk, and a client process
//! that is suspended during a transaction.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use journal::{Error, FencingToken, PoolSettings, PostgresStore, RunPatch, Store, Transaction, Write};
use protocol::{Run, RunStatus, Seq, ThreadId};
use test_postgres::{Cluster, CutPoint, Proxy, TestDatabase};

use crate::backends::POOL;
use crate::conformance::fixtures::{
    ai, all_events, append, at, checkpoint, commit, create, create_run, human, run, seqs, trace_event,
};
use crate::server::races::check_consistency;

const CHILD_URL: &str = "JOURNAL_POSTGRES_CHILD_URL";
const CHILD_RUN: &str = "JOURNAL_POSTGRES_CHILD_RUN";

/// One-way latency of the proxy: half of a round trip.
const MIDWAY_DELAY: Duration = Duration::from_millis(40);
/// Maximum number of round trips of a run's admission, step and end together.
const RUN_ROUND_TRIPS_MAX: u128 = 16;

/// Appends that are acknowledged between two failures of the server.
const APPENDS_PER_FAILURE: u64 = 30;

/// Creates a database and opens a store that connects to it through a proxy.
async fn open_behind_proxy(settings: PoolSettings) -> (TestDatabase, Proxy, PostgresStore) {
    let database = TestDatabase::create().unwrap();
    let proxy = Proxy::start(database.address()).unwrap();
    let store = PostgresStore::open(&database.url_through(proxy.address()), settings).await.unwrap();
    (database, proxy, store)
}

/// Returns the number of round trips of an operation: the minimum of five measurements, because notifications of earlier
/// commits can add to one.
async fn count_round_trips<F: Future<Output = ()>>(proxy: &Proxy, mut work: impl FnMut() -> F) -> u128 {
    // Each connection prepares a statement on its first use.
    for _ in 0..8 {
        work().await;
    }
    proxy.delay(MIDWAY_DELAY, MIDWAY_DELAY);
    let mut best = u128::MAX;
    for _ in 0..5 {
        let started_at = Instant::now();
        work().await;
        best = best.min(started_at.elapsed().as_millis() / (2 * MIDWAY_DELAY).as_millis());
    }
    proxy.delay(Duration::ZERO, Duration::ZERO);
    best
}

#[tokio::test(flavor = "multi_thread")]
async fn common_operations_take_few_round_trips_to_the_server() {
    let (_database, proxy, store) = open_behind_proxy(PoolSettings { max: 2, ..POOL }).await;
    let (store, thread_id) = (&store, create(&store).await);
    let append_trips = count_round_trips(&proxy, async || {
        drop(append(store, thread_id, vec![human("q"), ai("a")]).await.unwrap())
    });
    let append_trips = append_trips.await;
    let append_many =
        || async { drop(append(store, thread_id, (0..100).map(trace_event).collect()).await.unwrap()) };
    let append_many_trips = count_round_trips(&proxy, append_many).await;
    let read_trips =
        count_round_trips(&proxy, async || assert!(store.thread(thread_id).await.unwrap().is_some())).await;
    let run_trips = count_round_trips(&proxy, async || complete_run(store, thread_id).await).await;
    eprintln!(
        "round trips: append {append_trips}, long append {append_many_trips}, read {read_trips}, run of three commits {run_trips}"
    );
    assert!(
        append_trips <= 2 && append_many_trips <= 2 && read_trips <= 1 && run_trips <= RUN_ROUND_TRIPS_MAX
    );
}

/// Commits a run as the runtime does: an admission, a step and an end, one transaction each.
async fn complete_run(store: &PostgresStore, thread_id: ThreadId) {
    let run = run(thread_id, "one");
    let fence = Some(FencingToken { run_id: run.run_id, owner: "one".to_owned() });
    let append =
        |event: protocol::NewEvent| Write::Append { thread_id, events: vec![event.with_run(run.run_id)] };
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    let admission =
        vec![Write::AdmitRun(run.clone()), append(human("q")), Write::PutCheckpoint(checkpoint(&run, 0))];
    commit(store, admission).await.unwrap();
    let step = vec![append(ai("a")), Write::PutCheckpoint(checkpoint(&run, 1))];
    store.commit(Transaction { fence: fence.clone(), writes: step }).await.unwrap();
    let end = vec![
        append(trace_event(1)),
        Write::PutCheckpoint(checkpoint(&run, 2)),
        Write::UpdateRun { run_id: run.run_id, patch },
        Write::SettleThread { thread_id },
    ];
    store.commit(Transaction { fence, writes: end }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a8_m2_an_append_is_stored_once_wherever_the_connection_breaks() {
    let (_database, proxy, store) = open_behind_proxy(PoolSettings { max: 1, ..POOL }).await;
    let thread_id = create(&store).await;
    let mut assigned: Vec<Seq> = Vec::new();
    let cuts =
        (0..1_400).step_by(23).flat_map(|bytes| [CutPoint::ToServer(bytes), CutPoint::ToClient(bytes)]);
    for cut in cuts.chain([CutPoint::Answer("COMMIT"), CutPoint::Request("COMMIT")]) {
        proxy.cut_at(cut);
        let seqs = append(&store, thread_id, vec![trace_event(1), trace_event(2)]).await;
        assigned.extend(seqs.unwrap_or_else(|error| panic!("{cut:?}: {error}")));
    }
    assert_eq!(assigned, (1..=assigned.len() as u64).collect::<Vec<_>>());
    assert_eq!(seqs(&all_events(&store, thread_id, &[]).await), assigned);
    assert!(store.pool_statistics().broken > 30, "{:?}", store.pool_statistics());
    check_consistency(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_an_unreachable_database_is_reported_and_used_again_when_reachable() {
    let (_database, proxy, store) =
        open_behind_proxy(PoolSettings { wait_timeout: Duration::from_secs(1), ..POOL }).await;
    let thread_id = create(&store).await;
    proxy.refuse();
    proxy.cut();
    let error = append(&store, thread_id, vec![trace_event(1)]).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = store.thread(thread_id).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    proxy.restore();
    assert_eq!(append(&store, thread_id, vec![trace_event(1)]).await.unwrap(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_a_server_stop_or_crash_neither_loses_nor_duplicates_acknowledged_events() {
    let cluster = Cluster::start().unwrap();
    let database = cluster.create_database().unwrap();
    let store = Arc::new(PostgresStore::open(&database.socket_url(), POOL).await.unwrap());
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let done = Arc::new(AtomicU64::new(0));
    let mut writers = Vec::new();
    for _ in 0..6 {
        let thread_id = create(&*store).await;
        let (store, stopped, done) = (Arc::clone(&store), stopped.clone(), Arc::clone(&done));
        writers.push(tokio::spawn(async move {
            let (mut acknowledged, mut in_doubt) = (Vec::new(), 0);
            while !*stopped.borrow() {
                match append(&*store, thread_id, vec![trace_event(1), trace_event(2)]).await {
                    Ok(seqs) => {
                        acknowledged.extend(seqs);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(Error::CommitUnknown { .. }) => in_doubt += 1,
                    Err(Error::Unreachable { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            (thread_id, acknowledged, in_doubt)
        }));
    }
    // Waits until more appends are acknowledged, so that no failure follows another one immediately.
    let wait_for_appends = async || {
        let target = done.load(Ordering::Relaxed) + APPENDS_PER_FAILURE;
        while done.load(Ordering::Relaxed) < target {
            tokio::task::yield_now().await;
        }
    };
    for round in 0..6 {
        wait_for_appends().await;
        if round % 3 == 0 { cluster.stop() } else { cluster.crash() }.unwrap();
        cluster.start_again().unwrap();
    }
    wait_for_appends().await;
    stop.send(true).unwrap();
    for writer in writers {
        let (thread_id, acknowledged, in_doubt) = writer.await.unwrap();
        let stored = seqs(&all_events(&*store, thread_id, &[]).await);
        assert_eq!(stored, (1..=stored.len() as u64).collect::<Vec<_>>());
        let unacknowledged = stored.iter().filter(|seq| acknowledged.binary_search(seq).is_err()).count();
        assert_eq!(
            stored.len(),
            acknowledged.len() + unacknowledged,
            "each acknowledged event is stored once"
        );
        assert!(
            unacknowledged <= 2 * in_doubt,
            "{unacknowledged} stored without acknowledgement, {in_doubt} unknown commits"
        );
    }
    check_consistency(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_and_leaves_no_partial_write() {
    let Some(cluster) = Cluster::start_on_small_disk(170).unwrap() else { return };
    let database = cluster.create_database().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let thread_id = create(&store).await;
    let first = append(&store, thread_id, vec![human("before")]).await.unwrap();
    cluster.fill_disk().unwrap();
    // Incompressible text occupies its full length on disk.
    let noise: String =
        (0..200_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let mut stored = first;
    let error = loop {
        match append(&store, thread_id, vec![human(&noise), human("behind it")]).await {
            Ok(seqs) => stored.extend(seqs),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    assert_eq!(seqs(&all_events(&store, thread_id, &[]).await), stored);
    cluster.free_disk().unwrap();
    stored.extend(append(&store, thread_id, vec![human(&noise), human("after")]).await.unwrap());
    assert_eq!(seqs(&all_events(&store, thread_id, &[]).await), stored);
    check_consistency(&store).await;
}

/// The child process: appends events of a run until a commit is fenced off. Does nothing in the parent.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_child() {
    let Ok(url) = std::env::var(CHILD_URL) else { return };
    let store = PostgresStore::open(&url, POOL).await.unwrap();
    let run = store.run(std::env::var(CHILD_RUN).unwrap().parse().unwrap()).await.unwrap().unwrap();
    let fence = FencingToken { run_id: run.run_id, owner: "child".to_owned() };
    loop {
        match store.commit(append_transaction(&run, &fence, 0)).await {
            Ok(committed) => println!("\nacknowledged {}", committed.seqs[0][0]),
            Err(Error::Fenced { .. }) => break,
            // The server closed its connections while the process was suspended.
            Err(Error::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    println!("\nfenced");
}

fn append_transaction(run: &Run, fence: &FencingToken, number: u64) -> Transaction {
    let events = vec![trace_event(number).with_run(run.run_id)];
    Transaction {
        fence: Some(fence.clone()),
        writes: vec![Write::Append { thread_id: run.thread_id, events }],
    }
}

/// Sends the signal to the process.
fn signal(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn j3_a_process_suspended_beyond_its_lease_writes_nothing_after_it_continues() {
    let database = TestDatabase::create().unwrap();
    let store = PostgresStore::open(&database.socket_url(), POOL).await.unwrap();
    let run = create_run(&store, "child").await;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server::broken::in_a_child", "--nocapture"])
        .env(CHILD_URL, database.socket_url())
        .env(CHILD_RUN, run.run_id.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "acknowledged 20"));
    signal("-STOP", child.id());
    // If the child was suspended during a transaction, the server releases its locks before another transaction that waits
    // for them times out.
    let reclaim =
        Write::ReclaimRun { run_id: run.run_id, owner: "new".to_owned(), now: at(100), lease_until: at(200) };
    commit(&store, vec![reclaim]).await.unwrap();
    let fence = FencingToken { run_id: run.run_id, owner: "new".to_owned() };
    let first = store.commit(append_transaction(&run, &fence, 1)).await.unwrap().seqs[0][0];
    signal("-CONT", child.id());
    let output: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success() && output.iter().any(|line| line == "fenced"), "{output:?}");
    assert!(!output.contains(&format!("acknowledged {first}")));
    let stored = all_events(&store, run.thread_id, &[]).await;
    assert_eq!(
        stored.last().map(|event| event.seq),
        Some(first),
        "nothing is behind what the new owner wrote"
    );
    check_consistency(&store).await;
}
