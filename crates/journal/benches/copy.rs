//! Benchmarks of copying a journal from a file to PostgreSQL and back, including the comparison of every row and the search
//! index: throughput and peak memory. The data is on the disk of the target folder, and the server calls `fsync`.
//!
//! `cargo bench -p segue-journal --bench moving -- 1000` copies a journal of 1,000 megabytes.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use journal::copy::{self, CopyPhase, CopyProgress, JournalLocation, ProgressCallback};
use journal::{SqliteStore, Store, Transaction, Write};
use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};
use test_postgres::{Cluster, ClusterSettings, DataLocation};

/// Default size of the copied journal, in megabytes.
const MEGABYTES: usize = 100;
/// Events in each thread.
const EVENTS: usize = 1_000;
/// Events in each transaction.
const BATCH: usize = 100;
/// Approximate size of an event, in bytes.
const BYTES: usize = 1_000;

fn main() {
    let megabytes = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let threads = megabytes.unwrap_or(MEGABYTES) * 1_000_000 / BYTES / EVENTS;
    let options = vec![("fsync", "on"), ("full_page_writes", "on"), ("shared_buffers", "256MB")];
    let settings =
        ClusterSettings { data_location: DataLocation::Disk, options, ..ClusterSettings::default() };
    let server = Cluster::start_with(&settings).expect("PostgreSQL is installed");
    let database = server.create_database().expect("the server runs");
    let folder = tempfile::tempdir_in(".").expect("the current folder is writable");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (first, back) = (folder.path().join("first.db"), folder.path().join("back.db"));
        fill(&first, threads).await;
        println!(
            "{:>22} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}",
            "", "rows", "copy/s", "compare/s", "index/s", "all s", "peak MiB"
        );
        let there = || JournalLocation::Server(database.socket_url());
        measure_copy("SQLite to PostgreSQL", JournalLocation::File(first.clone()), there()).await;
        measure_copy("PostgreSQL to SQLite", there(), JournalLocation::File(back)).await;
        let started_at = Instant::now();
        let file = folder.path().join("backup.db");
        let backup =
            copy::backup(JournalLocation::File(first), file, Box::new(|_| ControlFlow::Continue(()))).await;
        let bytes = backup.expect("the backup succeeds").expect("the backup was not cancelled").bytes;
        println!("backup of {} MiB in {:.1} s", bytes >> 20, started_at.elapsed().as_secs_f64());
    });
}

async fn measure_copy(what: &str, from: JournalLocation, to: JournalLocation) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let started_at = Instant::now();
    let watch: ProgressCallback = Box::new(move |CopyProgress { step, .. }: &CopyProgress| {
        // Sending fails if the receiver was dropped at the end of the copy.
        let _ = sender.send((*step, started_at.elapsed()));
        ControlFlow::Continue(())
    });
    let copied = copy::copy(from, to, watch).await.expect("the copy succeeds");
    let total = started_at.elapsed();
    let mut ends = [Duration::ZERO; 3];
    for (step, at) in receiver {
        ends[match step {
            CopyPhase::Copy => 0,
            CopyPhase::Compare => 1,
            CopyPhase::Index => 2,
        }] = at;
    }
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
    let rate = |from: Duration, to: Duration| copied.rows as f64 / (to - from).as_secs_f64();
    println!(
        "{what:>22} {:>9} {:>9.0} {:>9.0} {:>9.0} {:>9.1} {:>10}",
        copied.rows,
        rate(Duration::ZERO, ends[0]),
        rate(ends[0], ends[1]),
        rate(ends[1], ends[2]),
        total.as_secs_f64(),
        peak_mebibytes(),
    );
}

async fn fill(path: &Path, threads: usize) {
    let store = SqliteStore::open(path).expect("the folder is empty");
    let words = "and then the clock was passed in as an argument ".repeat(BYTES / 50);
    for _ in 0..threads {
        let thread_id = ThreadId::generate();
        let now = Timestamp::now();
        let created = Write::CreateThread(Thread::blank(thread_id, AssistantId::default(), now));
        store.commit(Transaction { fence: None, writes: vec![created] }).await.expect("the commit succeeds");
        for batch in 0..EVENTS / BATCH {
            let event = |at: usize| {
                let message = Message::human(format!("{} {words}", batch * BATCH + at));
                NewEvent::from_message(&message, now).expect("text is JSON")
            };
            let events = (0..BATCH).map(event).collect();
            let writes = vec![Write::Append { thread_id, events }];
            store.commit(Transaction { fence: None, writes }).await.expect("the commit succeeds");
        }
    }
    store.update_search_index().await.expect("the index is updated");
}

/// Returns the peak memory of this process in MiB, or 0 if the system does not report it.
fn peak_mebibytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or_default() >> 10
}
