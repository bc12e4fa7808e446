//! Two processes: one that is killed with runs in flight, and one that lives beside another on one database.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use agent::{Item, Position};
use protocol::{Multitask, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{CancelAction, Dispatch, Limits, Recovered, StreamPosition};

use crate::world::{
    GATE, LOCAL, World, begun, ended, frames, gated, idle, is_busy, join, on, row, said, say, saying,
};

/// Tells the other process where its world is.
const FOLDER: &str = "SEGUE_TEST_FOLDER";
/// Tells it how many threads to begin a run on.
const THREADS: &str = "SEGUE_TEST_THREADS";
/// Tells it how many runs to have wait on each.
const WAITING: &str = "SEGUE_TEST_WAITING";

/// The part that runs in a process of its own: it begins runs, names them, and lives until its input is closed. Without the
/// variables there is nothing to do.
#[tokio::test]
async fn process_beside() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let dispatch = World::at(folder.into()).dispatch(Limits::default());
    let mut kept = Vec::new();
    for _ in 0..number(THREADS) {
        let thread = ThreadId::generate();
        let request = RunRequest { stream_resumable: true, ..saying("slow") };
        let mut created = dispatch.create(&LOCAL, on(thread, request)).await.unwrap();
        begun(&mut created.live).await;
        println!("\nrun {thread} {}", created.run.run_id);
        kept.push(created);
        for _ in 0..number(WAITING) {
            let created = say(&dispatch, thread, "behind").await;
            println!("\nrun {thread} {}", created.run.run_id);
            kept.push(created);
        }
    }
    println!("\nready");
    std::io::stdout().flush().unwrap();
    let closed = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
    closed.await.unwrap();
    for created in &kept {
        join(&dispatch, created).await;
    }
}

struct Beside {
    process: Child,
    input: Option<ChildStdin>,
    runs: Vec<(ThreadId, RunId)>,
    _output: Lines<BufReader<ChildStdout>>,
}

impl Beside {
    /// Starts a process, and waits until its runs work and wait.
    fn start(world: &World, (threads, waiting): (usize, usize)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "several::processes::process_beside", "--nocapture"]);
        command.env(FOLDER, world.folder());
        command.env(THREADS, threads.to_string()).env(WAITING, waiting.to_string());
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
        assert_eq!(runs.len(), threads * (1 + waiting));
        Self { process, input, runs, _output: output }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Lets it end when its runs have.
    fn close(&mut self) {
        drop(self.input.take());
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn succeeded(dispatch: &Arc<Dispatch>, runs: &[(ThreadId, RunId)]) {
    for (thread_id, run_id) in runs {
        let run = dispatch.join(&LOCAL, *thread_id, *run_id).await.unwrap();
        assert_eq!(run.status, RunStatus::Success, "{run:?}");
    }
}

#[tokio::test]
async fn j2_after_a_kill_with_fifty_runs_in_flight_every_run_ends_and_every_reader_sees_the_rest() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let mut other = Beside::start(&world, (50, 1));
    other.kill();
    let dispatch = world.dispatch(Limits::default());
    let recovered = dispatch.recover().await.unwrap();
    assert_eq!(recovered, Recovered { resumed: 50, waiting: 50, elsewhere: 0 });
    let mut readers = Vec::new();
    for (_, run_id) in &other.runs {
        // Those that worked open their streams one by one as they are taken over.
        let mut live = loop {
            match dispatch.live(*run_id, Some(StreamPosition { seq: u64::MAX, sub: 0, n: 0 })) {
                Some(live) => break live,
                None => tokio::task::yield_now().await,
            }
        };
        readers.push(tokio::spawn(async move { frames(&mut live).await }));
    }
    server.open(GATE);
    succeeded(&dispatch, &other.runs).await;
    for reader in readers {
        assert_eq!(ended(&reader.await.unwrap()), [RunStatus::Success]);
    }
    for (thread_id, run_id) in other.runs.iter().step_by(2) {
        let lines = said(&dispatch, *thread_id).await;
        assert_eq!(lines, ["U: slow", "A: late", "U: behind", "A: late"]);
        let again = frames(&mut dispatch.live(*run_id, None).unwrap()).await;
        assert!(matches!(again[0], Item::Frame(at, _) if at == Position { seq: 3, sub: 1 }), "{again:?}");
    }
}

#[tokio::test]
async fn i2_who_comes_back_after_a_kill_loses_nothing_but_the_beginning_of_what_is_done_anew() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let mut other = Beside::start(&world, (1, 0));
    other.kill();
    let (thread_id, run_id) = other.runs[0];
    let dispatch = world.dispatch(Limits::default());
    let seq = dispatch.agent(&LOCAL).store().thread(thread_id).await.unwrap().unwrap().last_seq;
    dispatch.recover().await.unwrap();
    let at = |seq, sub| Some(StreamPosition { seq, sub, n: 0 });
    let mut live = loop {
        match dispatch.live(run_id, at(seq, 0)) {
            Some(live) => break live,
            None => tokio::task::yield_now().await,
        }
    };
    let items = frames(&mut dispatch.live(run_id, at(seq, 3)).unwrap()).await;
    assert!(matches!(items[..], [Item::Gap { after }] if after == Position { seq, sub: 3 }), "{items:?}");
    for (seq, sub) in [(seq, 2), (seq, 1), (seq - 1, 0), (0, 0)] {
        let first = dispatch.live(run_id, at(seq, sub)).unwrap().try_next();
        assert!(matches!(first, Some(Item::Frame(..))), "{first:?}");
    }
    server.open(GATE);
    assert_eq!(
        ended(&frames(&mut live).await),
        [RunStatus::Success],
        "whoever knew the newest event lost nothing"
    );
}

#[tokio::test]
async fn j8_a_run_of_another_process_is_left_alone_and_waited_for() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let mut other = Beside::start(&world, (1, 1));
    let (thread, _) = other.runs[0];
    let dispatch = world.dispatch(Limits::default());
    let recovered = dispatch.recover().await.unwrap();
    assert_eq!(recovered, Recovered { resumed: 0, waiting: 0, elsewhere: 1 });
    let refused = RunRequest { multitask_strategy: Multitask::Reject, ..saying("now") };
    assert!(is_busy(&dispatch.create(&LOCAL, on(thread, refused)).await));
    let own = say(&dispatch, thread, "from here").await;
    assert_eq!(own.run.status, RunStatus::Pending);
    server.open(GATE);
    other.close();
    succeeded(&dispatch, &other.runs).await;
    assert_eq!(join(&dispatch, &own).await.status, RunStatus::Success);
    let people = said(&dispatch, thread).await.into_iter().filter(|line| line.starts_with("U:"));
    assert_eq!(people.count(), 3, "each ran once");
}

#[tokio::test]
async fn j4_a_run_of_another_process_is_stopped_from_here() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let other = Beside::start(&world, (2, 1));
    let dispatch = world.dispatch(Limits::default());
    let [(thread, run), (_, behind), (second, rolled), _] = other.runs[..] else { unreachable!("four runs") };
    dispatch.cancel(&LOCAL, thread, behind, CancelAction::Interrupt).await.unwrap();
    assert_eq!(row(&dispatch, behind).await.unwrap().status, RunStatus::Cancelled);
    let stopped = tokio::join!(
        dispatch.cancel(&LOCAL, thread, run, CancelAction::Interrupt),
        dispatch.cancel(&LOCAL, thread, run, CancelAction::Interrupt)
    );
    assert!(matches!(stopped, (Ok(()), Ok(()))), "{stopped:?}");
    assert_eq!(row(&dispatch, run).await.unwrap().status, RunStatus::Cancelled);
    dispatch.cancel(&LOCAL, second, other.runs[3].1, CancelAction::Rollback).await.unwrap();
    dispatch.cancel(&LOCAL, second, rolled, CancelAction::Rollback).await.unwrap();
    assert!(row(&dispatch, rolled).await.is_none());
    assert_eq!(said(&dispatch, second).await, Vec::<String>::new());
}

#[tokio::test]
async fn i5_a_run_whose_process_died_can_be_stopped_before_anybody_took_it_over() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let mut other = Beside::start(&world, (1, 1));
    other.kill();
    let [(thread, run), (_, behind)] = other.runs[..] else { unreachable!("two runs") };
    let dispatch = world.dispatch(Limits::default());
    dispatch.cancel(&LOCAL, thread, behind, CancelAction::Interrupt).await.unwrap();
    dispatch.cancel(&LOCAL, thread, run, CancelAction::Interrupt).await.unwrap();
    assert_eq!(row(&dispatch, run).await.unwrap().status, RunStatus::Cancelled);
    idle(&dispatch).await;
}

#[tokio::test]
async fn j2_a_new_run_on_a_thread_whose_process_died_begins_once_the_old_one_is_done() {
    let (world, server) = (World::new(), gated("slow"));
    world.configure(&server);
    let mut other = Beside::start(&world, (1, 0));
    other.kill();
    let (thread, run) = other.runs[0];
    let dispatch = world.dispatch(Limits::default());
    let own = say(&dispatch, thread, "from here").await;
    server.open(GATE);
    assert_eq!(join(&dispatch, &own).await.status, RunStatus::Success);
    assert_eq!(row(&dispatch, run).await.unwrap().status, RunStatus::Success);
    assert_eq!(said(&dispatch, thread).await[..3], ["U: slow", "A: late", "U: from here"]);
}
