//! Tests of two processes on one database: one that is killed with active runs, and one that stays alive.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use agent::{FramePosition, SubscriptionItem};
use protocol::{MultitaskStrategy, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, RecoveryReport, Scheduler, SchedulerLimits, StreamPosition};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, end_statuses, gated_model, is_busy, join, new_run_on, read_to_end,
    run_row, submit_message, transcript_lines, user_request, wait_for_first_step, wait_until_idle,
};

/// The environment variable with the fixture's folder, for the peer process.
const FOLDER_VAR: &str = "SEGUE_TEST_FOLDER";
/// The environment variable with the number of threads on which the peer process starts a run.
const THREADS_VAR: &str = "SEGUE_TEST_THREADS";
/// The environment variable with the number of runs that the peer process queues on each thread.
const QUEUED_VAR: &str = "SEGUE_TEST_WAITING";

/// The body of the peer process: it starts runs, prints their ids, and lives until its standard input is closed. As a
/// normal test, without the variables, it does nothing.
#[tokio::test]
async fn peer_process() {
    let Ok(folder) = std::env::var(FOLDER_VAR) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let scheduler = SchedulerFixture::at(folder.into()).new_scheduler(SchedulerLimits::default());
    let mut created_runs = Vec::new();
    for _ in 0..number(THREADS_VAR) {
        let thread = ThreadId::generate();
        let request = RunRequest { stream_resumable: true, ..user_request("slow") };
        let mut created = scheduler.create_run(&LOCAL, new_run_on(thread, request)).await.unwrap();
        wait_for_first_step(&mut created.reader).await;
        println!("\nrun {thread} {}", created.run.run_id);
        created_runs.push(created);
        for _ in 0..number(QUEUED_VAR) {
            let created = submit_message(&scheduler, thread, "behind").await;
            println!("\nrun {thread} {}", created.run.run_id);
            created_runs.push(created);
        }
    }
    println!("\nready");
    std::io::stdout().flush().unwrap();
    let closed = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    closed.await.unwrap();
    for created in &created_runs {
        join(&scheduler, created).await;
    }
}

struct PeerProcess {
    process: Child,
    input: Option<ChildStdin>,
    runs: Vec<(ThreadId, RunId)>,
    _output: Lines<BufReader<ChildStdout>>,
}

impl PeerProcess {
    /// Starts a peer process and waits until its runs are active and queued.
    fn start(fixture: &SchedulerFixture, threads: usize, queued_per_thread: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "several::processes::peer_process", "--nocapture"]);
        command.env(FOLDER_VAR, fixture.folder());
        command.env(THREADS_VAR, threads.to_string()).env(QUEUED_VAR, queued_per_thread.to_string());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut runs = Vec::new();
        for line in output.by_ref() {
            let line = line.unwrap();
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["run", thread, run] => runs.push((thread.parse().unwrap(), run.parse().unwrap())),
                ["ready"] => break,
                _ => {}
            }
        }
        assert_eq!(runs.len(), threads * (1 + queued_per_thread));
        Self { process, input, runs, _output: output }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets the process exit after its runs have ended.
    fn close(&mut self) {
        drop(self.input.take());
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        // An error means that the process has exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn assert_all_succeeded(scheduler: &Arc<Scheduler>, runs: &[(ThreadId, RunId)]) {
    for (thread_id, run_id) in runs {
        let run = scheduler.join_run(&LOCAL, *thread_id, *run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success, "{run:?}");
    }
}

#[tokio::test]
async fn j2_after_a_kill_with_fifty_active_runs_every_run_ends_and_every_reader_sees_the_continuation() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let mut peer = PeerProcess::start(&fixture, 50, 1);
    peer.kill();
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let report = scheduler.recover().await.unwrap();
    assert_eq!(report, RecoveryReport { resumed: 50, queued: 50, remote: 0 });
    let mut readers = Vec::new();
    for (_, run_id) in &peer.runs {
        // The active runs get their streams one by one as they are taken over.
        let mut run_reader = loop {
            match scheduler.run_reader(*run_id, Some(StreamPosition { seq: u64::MAX, sub: 0, index: 0 })) {
                Some(run_reader) => break run_reader,
                None => tokio::task::yield_now().await,
            }
        };
        readers.push(tokio::spawn(async move { read_to_end(&mut run_reader).await }));
    }
    server.open_gate(GATE);
    assert_all_succeeded(&scheduler, &peer.runs).await;
    for reader in readers {
        assert_eq!(end_statuses(&reader.await.unwrap()), [RunStatus::Success]);
    }
    for (thread_id, run_id) in peer.runs.iter().step_by(2) {
        let lines = transcript_lines(&scheduler, *thread_id).await;
        assert_eq!(lines, ["U: slow", "A: late", "U: behind", "A: late"]);
        let repeated = read_to_end(&mut scheduler.run_reader(*run_id, None).unwrap()).await;
        assert!(
            matches!(repeated[0], SubscriptionItem::Frame(position, _) if position == FramePosition { seq: 3, sub: 1 }),
            "{repeated:?}"
        );
    }
}

#[tokio::test]
async fn i2_a_reader_that_reconnects_after_a_kill_loses_only_the_start_of_the_repeated_step() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let mut peer = PeerProcess::start(&fixture, 1, 0);
    peer.kill();
    let (thread_id, run_id) = peer.runs[0];
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let seq = scheduler.agent(&LOCAL).store().thread(thread_id).await.unwrap().unwrap().last_seq;
    scheduler.recover().await.unwrap();
    let position = |seq, sub| Some(StreamPosition { seq, sub, index: 0 });
    let mut run_reader = loop {
        match scheduler.run_reader(run_id, position(seq, 0)) {
            Some(run_reader) => break run_reader,
            None => tokio::task::yield_now().await,
        }
    };
    let items = read_to_end(&mut scheduler.run_reader(run_id, position(seq, 3)).unwrap()).await;
    assert!(
        matches!(items[..], [SubscriptionItem::Gap { after }] if after == FramePosition { seq, sub: 3 }),
        "{items:?}"
    );
    for (seq, sub) in [(seq, 2), (seq, 1), (seq - 1, 0), (0, 0)] {
        let first = scheduler.run_reader(run_id, position(seq, sub)).unwrap().try_next();
        assert!(matches!(first, Some(SubscriptionItem::Frame(..))), "{first:?}");
    }
    server.open_gate(GATE);
    assert_eq!(
        end_statuses(&read_to_end(&mut run_reader).await),
        [RunStatus::Success],
        "a reader at the newest event lost nothing"
    );
}

#[tokio::test]
async fn j8_a_run_of_another_live_process_is_left_alone_and_waited_for() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let mut peer = PeerProcess::start(&fixture, 1, 1);
    let (thread, _) = peer.runs[0];
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let report = scheduler.recover().await.unwrap();
    assert_eq!(report, RecoveryReport { resumed: 0, queued: 0, remote: 1 });
    let refused = RunRequest { multitask_strategy: MultitaskStrategy::Reject, ..user_request("now") };
    assert!(is_busy(&scheduler.create_run(&LOCAL, new_run_on(thread, refused)).await));
    let own_run = submit_message(&scheduler, thread, "from here").await;
    assert_eq!(own_run.run.status, RunStatus::Pending);
    server.open_gate(GATE);
    peer.close();
    assert_all_succeeded(&scheduler, &peer.runs).await;
    assert_eq!(join(&scheduler, &own_run).await.status, RunStatus::Success);
    let user_lines =
        transcript_lines(&scheduler, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(user_lines.count(), 3, "each run was executed once");
}

#[tokio::test]
async fn j4_a_run_of_another_process_can_be_cancelled_from_here() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let peer = PeerProcess::start(&fixture, 2, 1);
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let [(thread, run), (_, queued), (second, rolled_back), _] = peer.runs[..] else {
        unreachable!("four runs")
    };
    scheduler.cancel_run(&LOCAL, thread, queued, CancelAction::Interrupt).await.unwrap();
    assert_eq!(run_row(&scheduler, queued).await.unwrap().status, RunStatus::Cancelled);
    let stopped = tokio::join!(
        scheduler.cancel_run(&LOCAL, thread, run, CancelAction::Interrupt),
        scheduler.cancel_run(&LOCAL, thread, run, CancelAction::Interrupt)
    );
    assert!(matches!(stopped, (Ok(()), Ok(()))), "{stopped:?}");
    assert_eq!(run_row(&scheduler, run).await.unwrap().status, RunStatus::Cancelled);
    scheduler.cancel_run(&LOCAL, second, peer.runs[3].1, CancelAction::Rollback).await.unwrap();
    scheduler.cancel_run(&LOCAL, second, rolled_back, CancelAction::Rollback).await.unwrap();
    assert!(run_row(&scheduler, rolled_back).await.is_none());
    assert_eq!(transcript_lines(&scheduler, second).await, Vec::<String>::new());
}

#[tokio::test]
async fn i5_a_run_of_a_dead_process_can_be_cancelled_before_it_is_taken_over() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let mut peer = PeerProcess::start(&fixture, 1, 1);
    peer.kill();
    let [(thread, run), (_, queued)] = peer.runs[..] else { unreachable!("two runs") };
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    scheduler.cancel_run(&LOCAL, thread, queued, CancelAction::Interrupt).await.unwrap();
    scheduler.cancel_run(&LOCAL, thread, run, CancelAction::Interrupt).await.unwrap();
    assert_eq!(run_row(&scheduler, run).await.unwrap().status, RunStatus::Cancelled);
    wait_until_idle(&scheduler).await;
}

#[tokio::test]
async fn j2_a_new_run_on_a_thread_of_a_dead_process_starts_after_the_old_run_has_ended() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    fixture.configure(&server);
    let mut peer = PeerProcess::start(&fixture, 1, 0);
    peer.kill();
    let (thread, run) = peer.runs[0];
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let own_run = submit_message(&scheduler, thread, "from here").await;
    server.open_gate(GATE);
    assert_eq!(join(&scheduler, &own_run).await.status, RunStatus::Success);
    assert_eq!(run_row(&scheduler, run).await.unwrap().status, RunStatus::Success);
    assert_eq!(transcript_lines(&scheduler, thread).await[..3], ["U: slow", "A: late", "U: from here"]);
}
