//! Everything at once: many clients who begin, stop, leave and come back on a few threads. Afterwards every run has ended,
//! and nothing is held.

use std::sync::Arc;

use protocol::{EventType, Multitask, OnDisconnect, RunRequest, ThreadId};
use scheduler::{CancelAction, Dispatch, Error, Limits};

use crate::world::{LOCAL, World, answering, events, frames, idle, on, saying};

const CLIENTS: u64 = 8;
const ROUNDS: u64 = 30;

/// The same numbers at every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn request(dice: &mut Dice) -> RunRequest {
    let strategies = [
        Multitask::Enqueue,
        Multitask::Enqueue,
        Multitask::Interrupt,
        Multitask::Rollback,
        Multitask::Reject,
    ];
    let on_disconnect = [OnDisconnect::Continue, OnDisconnect::Cancel];
    RunRequest {
        multitask_strategy: strategies[usize::try_from(dice.roll(5)).unwrap()],
        on_disconnect: on_disconnect[usize::try_from(dice.roll(2)).unwrap()],
        stream_resumable: dice.roll(2) == 0,
        ..saying("hello")
    }
}

async fn client(dispatch: Arc<Dispatch>, threads: [ThreadId; 3], number: u64) {
    let mut dice = Dice(number);
    for _ in 0..ROUNDS {
        let thread = threads[usize::try_from(dice.roll(3)).unwrap()];
        if dice.roll(8) == 0 {
            let work = |_| async { tokio::task::yield_now().await };
            let done = dispatch.exclusive(&LOCAL, thread, work).await;
            assert!(matches!(done, Ok(()) | Err(Error::Full { .. })), "{done:?}");
            continue;
        }
        let mut created = match dispatch.create(&LOCAL, on(thread, request(&mut dice))).await {
            Ok(created) => created,
            Err(Error::Busy { .. } | Error::Full { .. }) => continue,
            Err(error) => unreachable!("failed to {error}"),
        };
        match dice.roll(4) {
            0 => {
                frames(&mut created.live).await;
            }
            1 => {
                let action = [CancelAction::Interrupt, CancelAction::Rollback];
                let action = action[usize::try_from(dice.roll(2)).unwrap()];
                match dispatch.cancel(&LOCAL, thread, created.run.run_id, action).await {
                    Ok(()) | Err(Error::Ended { .. } | Error::UnknownRun { .. }) => {}
                    Err(error) => unreachable!("failed to {error}"),
                }
            }
            2 => match dispatch.join(&LOCAL, thread, created.run.run_id).await {
                Ok(run) => assert!(!run.status.is_active()),
                Err(Error::UnknownRun { .. }) => {}
                Err(error) => unreachable!("failed to {error}"),
            },
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j1_whatever_clients_do_every_run_ends_and_none_meets_another() {
    let (world, server) = (World::new(), answering("yes"));
    world.configure(&server);
    let limits = Limits { runs_max: 2, queue_max: 12, ..Limits::default() };
    let dispatch = world.dispatch(limits);
    let threads = [ThreadId::generate(), ThreadId::generate(), ThreadId::generate()];
    for thread in threads {
        dispatch
            .agent(&LOCAL)
            .threads()
            .ensure(Some(thread), Default::default(), agent::IfExists::DoNothing)
            .await
            .unwrap();
    }
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(Arc::clone(&dispatch), threads, number))).collect();
    for client in clients {
        client.await.unwrap();
    }
    for thread in threads {
        dispatch.exclusive(&LOCAL, thread, |_| async {}).await.unwrap();
        idle(&dispatch).await;
        let store = Arc::clone(dispatch.agent(&LOCAL).store());
        assert!(store.active_runs(Some(thread)).await.unwrap().is_empty());
        assert!(store.queued_runs(Some(thread)).await.unwrap().is_empty());
        let mut working = None;
        for event in events(&dispatch, thread).await {
            let ended = [EventType::RunEnded, EventType::RunFailed]
                .iter()
                .any(|one| one.as_str() == event.event_type);
            if event.event_type == EventType::RunStarted.as_str() {
                assert_eq!(working, None, "a run began while another worked");
                working = event.run_id;
            } else if ended && working == event.run_id {
                working = None;
            }
        }
    }
    // All places were given back: as many as there are find one, and no more.
    let hold = agent::CancellationToken::new();
    let taking = |number: usize| {
        let (dispatch, held) = (Arc::clone(&dispatch), hold.clone());
        let work = move |_| async move { held.cancelled().await };
        tokio::spawn(async move { (number, dispatch.exclusive(&LOCAL, threads[0], work).await) })
    };
    let first = taking(0);
    while dispatch.figures().working == 0 {
        tokio::task::yield_now().await;
    }
    let others: Vec<_> = (1..=12).map(taking).collect();
    while dispatch.figures().waiting < 12 {
        tokio::task::yield_now().await;
    }
    let refused = taking(13).await.unwrap().1;
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    hold.cancel();
    for done in std::iter::once(first).chain(others) {
        done.await.unwrap().1.unwrap();
    }
}
