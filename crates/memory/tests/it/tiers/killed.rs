//! A worker that is killed at any point: each message is in exactly one summary, and the queue is empty in the end.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use journal::{HealthCheckDepth, SqliteStore, Store};
use memory::{SummarizationHandoff, SummarizationWorker};
use protocol::ThreadId;
use runtime::FrameSender;
use tokio_util::sync::CancellationToken;

use super::{TierFixture, timestamp};

/// Number of times that the worker is killed.
const KILLS: u64 = 60;
/// Number of threads that the worker writes to.
const THREADS: usize = 3;
/// Maximum number of lines that the worker prints before it is killed, and the maximum delay of the kill in spins.
const LINES_MAX: u64 = 3;
const SPINS_MAX: u64 = 3_000_000;
/// The environment variable with the path of the child's database.
const DATABASE: &str = "SEGUE_TEST_DATABASE";
const THREAD: &str = "SEGUE_TEST_THREADS";

/// A deterministic generator of pseudo-random numbers (SplitMix64).
struct KillTestRandom(u64);

impl KillTestRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

fn open_fixture(database: &Path) -> TierFixture {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(database).unwrap());
    let mut desk = TierFixture::with_store(store, []);
    desk.settings.short_term_tokens = Some(300);
    desk
}

fn offline_worker(desk: &TierFixture) -> SummarizationWorker {
    let tiers: SummarizationHandoff = desk.offline_summarization();
    SummarizationWorker { summarization: Arc::new(tiers), ..desk.worker() }
}

#[test]
fn f8_a_killed_worker_loses_no_message_and_summarizes_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("segue.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let threads: Vec<ThreadId> = runtime.block_on(async {
        let desk = open_fixture(&database);
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            threads.push(desk.create_thread().await);
        }
        threads
    });
    let mut random = KillTestRandom(7);
    for _ in 0..KILLS {
        let (lines, spins) = (random.below(LINES_MAX + 1), random.below(SPINS_MAX));
        work_until_killed(&database, &threads, (lines, spins));
    }
    runtime.block_on(check_summaries(&database, &threads));
}

fn work_until_killed(database: &Path, threads: &[ThreadId], (lines, spins): (u64, u64)) {
    let threads: Vec<String> = threads.iter().map(ThreadId::to_string).collect();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "tiers::killed::process_that_settles", "--nocapture"])
        .env(DATABASE, database)
        .env(THREAD, threads.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines_read = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines_read =
        lines_read.filter(|line| line.contains("settled")).take(usize::try_from(lines).unwrap()).count();
    assert_eq!(lines_read as u64, lines, "the child ended on its own");
    (0..spins).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The entry point of the child process: appends messages and summarizes due ones until it is killed. Does nothing
/// without the environment variables.
#[test]
fn process_that_settles() {
    let (Some(database), Ok(threads)) = (env::var_os(DATABASE), env::var(THREAD)) else { return };
    let threads: Vec<ThreadId> = threads.split(',').map(|id| id.parse().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let desk = open_fixture(Path::new(&database));
        let tiering = offline_worker(&desk);
        for round in 0.. {
            let thread_id = threads[round % threads.len()];
            append_turns(&desk, thread_id).await;
            if round % 4 == 3 {
                let last = desk.store.thread(thread_id).await.unwrap().unwrap().last_seq;
                desk.compact(thread_id, last - 4, None).await;
            }
            tiering.enqueue_if_due(thread_id).await.unwrap();
            if round % 2 == 1 {
                let settled = tiering
                    .summarize_queue(&FrameSender::default(), &CancellationToken::new())
                    .await
                    .unwrap();
                println!("settled {}", settled.len());
            }
        }
    });
}

async fn append_turns(desk: &TierFixture, thread_id: ThreadId) {
    for number in 0..3 {
        let asked = format!("U: What of the harbour, the {number}th time that it is asked?");
        desk.append_lines(thread_id, &[&asked, "A: It is as it was the last time, and nobody minds."]).await;
    }
}

async fn check_summaries(database: &Path, threads: &[ThreadId]) {
    let desk = open_fixture(database);
    assert_eq!(desk.store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    let tiering = offline_worker(&desk);
    for thread_id in threads {
        tiering.enqueue_if_due(*thread_id).await.unwrap();
    }
    tiering.summarize_queue(&FrameSender::default(), &CancellationToken::new()).await.unwrap();
    assert_eq!(desk.queued_items().await, []);
    let summaries = desk.summarization().retrieve_recent_summaries(&super::agent_id(), 5_000).await.unwrap();
    assert!(summaries.len() > 20, "{}", summaries.len());
    let mut archived_turns = 0;
    for thread_id in threads {
        let trace = desk.task_trace(*thread_id).await;
        let archived = desk.archived_events(*thread_id).await;
        for event in &archived {
            let of: Vec<_> = trace.iter().filter(|turn| turn.summary_id == Some(event.summary_id)).collect();
            assert_eq!(of.len() as u64, event.turn_count);
            assert!(of.iter().all(|turn| (event.first_seq..=event.last_seq).contains(&turn.seq)));
            assert!(summaries.iter().any(|summary| summary.id == event.summary_id));
        }
        assert!(trace.iter().all(|turn| turn.is_archived == turn.summary_id.is_some()));
        archived_turns += trace.iter().filter(|turn| turn.is_archived).count() as u64;
        // The context has exactly the messages that no summary for the budget covers.
        let context = desk.context_texts(*thread_id).await;
        let unarchived = trace.iter().filter(|turn| !turn.is_archived).count();
        assert!(
            unarchived <= context.len() && context.len() <= unarchived + 12,
            "{unarchived} {}",
            context.len()
        );
    }
    let counts = desk.counts().await;
    assert_eq!(counts.summarised_turns, archived_turns);
    assert_eq!(counts.summaries as usize, summaries.len());
    let _ = timestamp(0);
}
