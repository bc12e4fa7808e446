//! Tests of changes of a thread on which another server works: they wait in the queue like runs, in the same order, and
//! nothing waits for them that they wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agent::{CancellationToken, StateChange};
use protocol::{MultitaskStrategy, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{CreatedRun, Error, Result, Scheduler, SchedulerMetrics};
use serde_json::json;
use test_model::ScriptedServer;
use tokio::task::JoinHandle;

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, answering_model, drop_scheduler, end_statuses, gated_model, join,
    new_run_on, read_to_end, submit_message, transcript_lines, user_request, wait_for_first_step,
    wait_until_idle,
};

/// A change of a thread that a background task requests.
struct PendingChange {
    /// The result of the request.
    task: JoinHandle<Result<()>>,
    /// The number of attempts that have started.
    attempts: Arc<AtomicUsize>,
}

impl PendingChange {
    /// Requests a state update that adds a message of the user.
    fn add_message(scheduler: &Arc<Scheduler>, thread: ThreadId, text: &str) -> Self {
        let values = json!({"messages": [{"role": "user", "content": text}]});
        let values = values.as_object().cloned();
        let update = langgraph::read_state_update(thread, values, None, None).unwrap();
        Self::request(scheduler, thread, update)
    }

    fn request(scheduler: &Arc<Scheduler>, thread: ThreadId, update: StateChange) -> Self {
        let (inner, attempts) = (Arc::clone(scheduler), Arc::new(AtomicUsize::new(0)));
        let (agent, counter) = (scheduler.agent(&LOCAL), Arc::clone(&attempts));
        let change = move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let (agent, update) = (Arc::clone(&agent), update.clone());
            async move { agent.threads().update_state(thread, update).await.map(drop) }
        };
        let task = tokio::spawn(async move { inner.change_thread(&LOCAL, thread, change).await });
        Self { task, attempts }
    }

    /// Waits until the journal has refused the change and it is the only entry of its queue.
    async fn wait_until_requeued(&self, scheduler: &Scheduler) {
        let is_requeued = || {
            let metrics = scheduler.metrics();
            self.attempt_count() > 0 && matches!(metrics, SchedulerMetrics { busy_threads: 1, queued: 1, .. })
        };
        while !is_requeued() {
            tokio::task::yield_now().await;
        }
    }

    fn attempt_count(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }
}

/// A thread on which one of two servers executes a run. Its model waits at [`GATE`].
struct BusyThread {
    _fixture: SchedulerFixture,
    /// The model.
    server: ScriptedServer,
    /// The server that executes the run.
    remote: Arc<Scheduler>,
    /// The other server.
    local: Arc<Scheduler>,
    thread: ThreadId,
    /// The run.
    slow: CreatedRun,
}

impl BusyThread {
    async fn start() -> Self {
        let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
        let (remote, local) = (fixture.scheduler_with_model(&server), fixture.scheduler_with_model(&server));
        let thread = ThreadId::generate();
        let mut slow = submit_message(&remote, thread, "slow").await;
        wait_for_first_step(&mut slow.reader).await;
        Self { _fixture: fixture, server, remote, local, thread, slow }
    }
}

#[tokio::test]
async fn j1_a_change_waits_for_the_active_run_of_another_server() {
    let BusyThread { _fixture, server, remote, local, thread, slow } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    server.open_gate(GATE);
    change.task.await.unwrap().unwrap();
    assert_eq!(join(&remote, &slow).await.status, RunStatus::Success);
    assert_eq!(transcript_lines(&local, thread).await, ["U: slow", "A: late", "U: added"]);
    wait_until_idle(&local).await;
}

#[tokio::test]
async fn h5_a_change_starts_after_the_runs_that_another_server_has_queued() {
    let BusyThread { _fixture, server, remote, local, thread, slow: _slow } = BusyThread::start().await;
    for text in ["one", "two", "three"] {
        submit_message(&remote, thread, text).await.reader.detach();
    }
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    server.open_gate(GATE);
    change.task.await.unwrap().unwrap();
    assert_eq!(
        transcript_lines(&local, thread).await,
        ["U: slow", "A: late", "U: one", "A: late", "U: two", "A: late", "U: three", "A: late", "U: added"]
    );
}

#[tokio::test]
async fn h5_a_change_starts_before_later_runs_and_does_not_wait_for_runs_that_wait_for_them() {
    let BusyThread { _fixture, server, remote, local, thread, slow: _slow } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    let second = submit_message(&local, thread, "second").await;
    let third = submit_message(&remote, thread, "third").await;
    server.open_gate(GATE);
    change.task.await.unwrap().unwrap();
    for (scheduler, created) in [(&local, &second), (&remote, &third)] {
        assert_eq!(join(scheduler, created).await.status, RunStatus::Success);
    }
    assert_eq!(
        transcript_lines(&local, thread).await,
        ["U: slow", "A: late", "U: added", "U: second", "A: late", "U: third", "A: late"]
    );
}

#[tokio::test]
async fn h5_changes_that_wait_for_another_server_keep_their_order() {
    let BusyThread { _fixture, server, local, thread, remote: _remote, slow: _slow } =
        BusyThread::start().await;
    let first = PendingChange::add_message(&local, thread, "first");
    first.wait_until_requeued(&local).await;
    let second = PendingChange::add_message(&local, thread, "second");
    while local.metrics().queued < 2 {
        tokio::task::yield_now().await;
    }
    server.open_gate(GATE);
    for change in [first, second] {
        change.task.await.unwrap().unwrap();
    }
    assert_eq!(transcript_lines(&local, thread).await, ["U: slow", "A: late", "U: first", "U: second"]);
}

#[tokio::test]
async fn j4_a_run_that_interrupts_stops_the_run_for_which_a_change_waits_and_comes_first() {
    let BusyThread { _fixture, server, local, thread, mut slow, remote: _remote } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    let urgent = RunRequest { multitask_strategy: MultitaskStrategy::Interrupt, ..user_request("urgent") };
    let urgent = local.create_run(&LOCAL, new_run_on(thread, urgent)).await.unwrap();
    assert_eq!(end_statuses(&read_to_end(&mut slow.reader).await), [RunStatus::Cancelled]);
    // The urgent request contains the first message, so it waits at the gate too.
    server.open_gate(GATE);
    change.task.await.unwrap().unwrap();
    assert_eq!(join(&local, &urgent).await.status, RunStatus::Success);
    let lines = transcript_lines(&local, thread).await;
    let users: Vec<&String> = lines.iter().filter(|line| line.starts_with("U: ")).collect();
    assert_eq!(users, ["U: slow", "U: urgent", "U: added"]);
}

#[tokio::test]
async fn j2_a_change_follows_the_run_that_its_server_takes_over_from_a_dead_one() {
    let BusyThread { _fixture, server, remote, local, thread, slow: _slow } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    remote.shutdown(Duration::ZERO).await;
    server.open_gate(GATE);
    drop_scheduler(remote).await;
    change.task.await.unwrap().unwrap();
    assert_eq!(transcript_lines(&local, thread).await, ["U: slow", "A: late", "U: added"]);
    assert_eq!(local.metrics().taken_over, 1);
}

#[tokio::test]
async fn a_change_is_forgotten_if_its_caller_leaves_while_it_waits_for_another_server() {
    let BusyThread { _fixture, server, remote, local, thread, slow } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    let attempts = change.attempt_count();
    change.task.abort();
    assert!(change.task.await.unwrap_err().is_cancelled());
    server.open_gate(GATE);
    join(&remote, &slow).await;
    wait_until_idle(&local).await;
    assert_eq!(transcript_lines(&local, thread).await, ["U: slow", "A: late"]);
    assert_eq!(change.attempts.load(Ordering::Relaxed), attempts);
}

#[tokio::test]
async fn j5_a_change_that_waits_for_another_server_is_refused_at_a_shutdown() {
    let BusyThread { _fixture, server, remote, local, thread, slow } = BusyThread::start().await;
    let change = PendingChange::add_message(&local, thread, "added");
    change.wait_until_requeued(&local).await;
    local.shutdown(Duration::ZERO).await;
    let refused = change.task.await.unwrap();
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    server.open_gate(GATE);
    assert_eq!(join(&remote, &slow).await.status, RunStatus::Success);
}

#[tokio::test]
async fn a_change_that_was_refused_because_of_another_thread_is_not_repeated() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&attempts);
    let change = move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        let busy = journal::Error::Busy { thread_id: ThreadId::generate(), run_id: RunId::generate() };
        async move { agent::Result::<()>::Err(busy.into()) }
    };
    let refused = scheduler.change_thread(&LOCAL, thread, change).await;
    assert!(matches!(&refused, Err(Error::Agent(error)) if error.is_busy()), "{refused:?}");
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
    wait_until_idle(&scheduler).await;
}

#[tokio::test]
async fn a_change_that_has_started_a_run_is_not_repeated() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    join(&scheduler, &submit_message(&scheduler, thread, "hello").await).await;
    let agent = scheduler.agent(&LOCAL);
    let change = move |context: scheduler::ExclusiveContext| {
        let agent = Arc::clone(&agent);
        async move {
            let never_cancelled = CancellationToken::new();
            agent.runs().send_message(thread, "again", &context.frames, &never_cancelled).await?;
            agent::Result::<()>::Err(
                journal::Error::Busy { thread_id: thread, run_id: RunId::generate() }.into(),
            )
        }
    };
    let refused = scheduler.change_thread(&LOCAL, thread, change).await;
    assert!(matches!(&refused, Err(Error::Agent(error)) if error.is_busy()), "{refused:?}");
    assert_eq!(transcript_lines(&scheduler, thread).await, ["U: hello", "A: yes", "U: again", "A: yes"]);
}
