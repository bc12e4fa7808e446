//! A stress test: many clients create, cancel, join and abandon runs on a few threads. Afterwards every run has ended,
//! and every permit has been returned.

use std::sync::Arc;

use protocol::{DisconnectMode, EventType, MultitaskStrategy, RunRequest, ThreadId};
use scheduler::{CancelAction, Error, Scheduler, SchedulerLimits};

use crate::fixture::{
    LOCAL, SchedulerFixture, answering_model, events, new_run_on, read_to_end, user_request, wait_until_idle,
};

/// Number of concurrent clients.
const CLIENTS: u64 = 8;
/// Number of actions of each client.
const ROUNDS: u64 = 30;

/// A deterministic pseudo-random generator, so that every test run uses the same numbers.
struct TestRng(u64);

impl TestRng {
    /// Returns the next number, which is less than `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns a request with a random strategy, disconnect mode and retention.
fn random_request(rng: &mut TestRng) -> RunRequest {
    let strategies = [
        MultitaskStrategy::Enqueue,
        MultitaskStrategy::Enqueue,
        MultitaskStrategy::Interrupt,
        MultitaskStrategy::Rollback,
        MultitaskStrategy::Reject,
    ];
    let on_disconnect = [DisconnectMode::Continue, DisconnectMode::Cancel];
    RunRequest {
        multitask_strategy: strategies[usize::try_from(rng.below(5)).unwrap()],
        on_disconnect: on_disconnect[usize::try_from(rng.below(2)).unwrap()],
        stream_resumable: rng.below(2) == 0,
        ..user_request("hello")
    }
}

/// Performs the actions of one client, whose number is the seed of its random choices.
async fn run_client(scheduler: Arc<Scheduler>, threads: [ThreadId; 3], number: u64) {
    let mut rng = TestRng(number);
    for _ in 0..ROUNDS {
        let thread = threads[usize::try_from(rng.below(3)).unwrap()];
        if rng.below(8) == 0 {
            let work = |_| async { tokio::task::yield_now().await };
            let done = scheduler.run_exclusive(&LOCAL, thread, work).await;
            assert!(matches!(done, Ok(()) | Err(Error::QueueFull { .. })), "{done:?}");
            continue;
        }
        let mut created =
            match scheduler.create_run(&LOCAL, new_run_on(thread, random_request(&mut rng))).await {
                Ok(created) => created,
                Err(Error::Busy { .. } | Error::QueueFull { .. }) => continue,
                Err(error) => unreachable!("failed to {error}"),
            };
        match rng.below(4) {
            0 => {
                read_to_end(&mut created.reader).await;
            }
            1 => {
                let action = [CancelAction::Interrupt, CancelAction::Rollback];
                let action = action[usize::try_from(rng.below(2)).unwrap()];
                match scheduler.cancel_run(&LOCAL, thread, created.run.run_id, action).await {
                    Ok(()) | Err(Error::Ended { .. } | Error::UnknownRun { .. }) => {}
                    Err(error) => unreachable!("failed to {error}"),
                }
            }
            2 => match scheduler.join_run(&LOCAL, thread, created.run.run_id).await {
                Ok(run) => assert!(!run.status.is_active()),
                Err(Error::UnknownRun { .. }) => {}
                Err(error) => unreachable!("failed to {error}"),
            },
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j1_under_concurrent_clients_every_run_ends_and_no_two_runs_of_a_thread_overlap() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    fixture.configure(&server);
    let limits = SchedulerLimits { runs_max: 2, queue_max: 12, ..SchedulerLimits::default() };
    let scheduler = fixture.new_scheduler(limits);
    let threads = [ThreadId::generate(), ThreadId::generate(), ThreadId::generate()];
    for thread in threads {
        scheduler
            .agent(&LOCAL)
            .threads()
            .ensure_thread(Some(thread), Default::default(), agent::IfExists::DoNothing)
            .await
            .unwrap();
    }
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(run_client(Arc::clone(&scheduler), threads, number)))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    for thread in threads {
        scheduler.run_exclusive(&LOCAL, thread, |_| async {}).await.unwrap();
        wait_until_idle(&scheduler).await;
        let store = Arc::clone(scheduler.agent(&LOCAL).store());
        assert!(store.active_runs(Some(thread)).await.unwrap().is_empty());
        assert!(store.queued_runs(Some(thread)).await.unwrap().is_empty());
        let mut active = None;
        for event in events(&scheduler, thread).await {
            let ended = [EventType::RunEnded, EventType::RunFailed]
                .iter()
                .any(|event_type| event_type.as_str() == event.event_type);
            if event.event_type == EventType::RunStarted.as_str() {
                assert_eq!(active, None, "a run started while another was active");
                active = event.run_id;
            } else if ended && active == event.run_id {
                active = None;
            }
        }
    }
    // All permits were returned: exactly as many as the limit can be acquired again.
    let release = agent::CancellationToken::new();
    let occupy = |number: usize| {
        let (scheduler, released) = (Arc::clone(&scheduler), release.clone());
        let work = move |_| async move { released.cancelled().await };
        tokio::spawn(async move { (number, scheduler.run_exclusive(&LOCAL, threads[0], work).await) })
    };
    let first = occupy(0);
    while scheduler.metrics().busy_threads == 0 {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (1..=12).map(occupy).collect();
    while scheduler.metrics().queued < 12 {
        tokio::task::yield_now().await;
    }
    let refused = occupy(13).await.unwrap().1;
    assert!(matches!(refused, Err(Error::QueueFull { .. })), "{refused:?}");
    release.cancel();
    for done in std::iter::once(first).chain(others) {
        done.await.unwrap().1.unwrap();
    }
}
