//! The order of a thread's queue, and which stop requests have an effect.

use super::*;
use crate::error::Error;
use protocol::{OwnerScope, RunRef, RunRequest};

fn local() -> OwnerScope {
    OwnerScope::Owner(None)
}

fn quota(all: usize, own: usize) -> Arc<Quota> {
    Quota::new(QuotaLimits { global: all, per_owner: own })
}

fn queued_run(thread_id: ThreadId) -> (RunId, QueuedWork) {
    let run_id = RunId::generate();
    let stream = RunStream::new(RunRef { thread_id, run_id }, &local(), &RunRequest::default());
    let permit = quota(1, 1).acquire(&local()).unwrap();
    (run_id, QueuedWork::Run(Arc::new(stream), permit))
}

fn exclusive_work(
    grant_sender: oneshot::Sender<ExclusiveGrant>,
    position: QueuePosition,
    permit: QuotaPermit,
) -> QueuedWork {
    let age = QueueAge::new(Timestamp::UNIX_EPOCH);
    QueuedWork::Exclusive(QueuedExclusive { grant_sender, position, age, permit })
}

fn occupancy(occupant: Occupant) -> Occupancy {
    Occupancy::new(occupant, CancellationToken::new())
}

fn dequeue_run_id(queues: &mut ThreadQueues, thread_id: ThreadId) -> Option<RunId> {
    match queues.dequeue(thread_id)? {
        QueuedWork::Run(stream, _) => Some(stream.run_id),
        QueuedWork::Exclusive(..) => None,
    }
}

#[test]
fn j1_one_entry_is_active_on_a_thread_and_the_others_wait_in_order() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    assert_eq!(queues.admit(thread, occupancy(Occupant::Exclusive)), Admission::Admitted);
    assert_eq!(queues.admit(thread, occupancy(Occupant::Exclusive)), Admission::Occupied);
    let queued: Vec<RunId> = (0..3)
        .map(|_| {
            let (run_id, entry) = queued_run(thread);
            assert_eq!(queues.enqueue(thread, entry, QueuePosition::Back), EnqueueOutcome::Queued);
            run_id
        })
        .collect();
    let (first, first_entry) = queued_run(thread);
    assert_eq!(queues.enqueue(thread, first_entry, QueuePosition::Front), EnqueueOutcome::Queued);
    assert_eq!(queues.release(thread), Backlog::Pending);
    let order: Vec<RunId> = std::iter::from_fn(|| dequeue_run_id(&mut queues, thread)).collect();
    assert_eq!(order, [vec![first], queued].concat());
    assert_eq!(queues.counts(), (0, 0), "an empty queue is removed");
}

#[test]
fn j1_runs_that_displace_the_active_one_are_next_in_the_order_of_their_creation() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    let enqueue = |queues: &mut ThreadQueues, multitask_strategy: MultitaskStrategy| {
        let request = RunRequest { multitask_strategy, ..RunRequest::default() };
        let stream =
            RunStream::new(RunRef { thread_id: thread, run_id: RunId::generate() }, &local(), &request);
        let (run_id, permit) = (stream.run_id, quota(1, 1).acquire(&local()).unwrap());
        queues.enqueue(
            thread,
            QueuedWork::Run(Arc::new(stream), permit),
            QueuePosition::for_strategy(multitask_strategy),
        );
        run_id
    };
    let last = enqueue(&mut queues, MultitaskStrategy::Enqueue);
    let first = enqueue(&mut queues, MultitaskStrategy::Interrupt);
    let second = enqueue(&mut queues, MultitaskStrategy::Rollback);
    // The rollback of the displaced run comes before them.
    let (grant_sender, _grant_receiver) = oneshot::channel();
    let permit = quota(1, 1).acquire(&local()).unwrap();
    queues.enqueue(thread, exclusive_work(grant_sender, QueuePosition::Front, permit), QueuePosition::Front);
    let third = enqueue(&mut queues, MultitaskStrategy::Interrupt);
    queues.release(thread);
    assert!(matches!(queues.dequeue(thread), Some(QueuedWork::Exclusive(..))));
    let order: Vec<RunId> = std::iter::from_fn(|| dequeue_run_id(&mut queues, thread)).collect();
    assert_eq!(order, [first, second, third, last]);
}

#[test]
fn j4_a_stop_request_for_a_remote_run_is_kept_when_the_run_is_taken_over() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    let (_, entry) = queued_run(thread);
    let QueuedWork::Run(stream, _) = entry else { unreachable!("it is a run") };
    queues.admit(thread, occupancy(Occupant::Remote));
    assert!(queues.request_stop(thread, Occupant::Remote, CancelAction::Rollback));
    queues.hold_for_remote(thread, None);
    queues.occupy_with_run(thread, &stream);
    assert!(stream.cancel.is_cancelled());
    assert_eq!(queues.vacate(thread), Some(CancelAction::Rollback));
}

#[test]
fn j4_the_first_stop_request_decides_and_only_active_work_is_stopped() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    let (run_id, entry) = queued_run(thread);
    assert_eq!(queues.enqueue(thread, entry, QueuePosition::Back), EnqueueOutcome::QueueCreated);
    assert!(!queues.request_stop(thread, Occupant::Run(run_id), CancelAction::Interrupt), "it is queued");
    assert_eq!(dequeue_run_id(&mut queues, thread), Some(run_id));
    assert!(
        !queues.request_stop(thread, Occupant::Run(RunId::generate()), CancelAction::Interrupt),
        "another run is active"
    );
    assert!(queues.request_stop(thread, Occupant::Run(run_id), CancelAction::Rollback));
    assert!(queues.request_stop(thread, Occupant::Run(run_id), CancelAction::Interrupt));
    assert!(queues.cancel_token(thread).is_cancelled());
    assert_eq!(queues.vacate(thread), Some(CancelAction::Rollback));
    assert!(
        !queues.request_stop(thread, Occupant::Run(run_id), CancelAction::Interrupt),
        "the run has ended"
    );
    assert_eq!(queues.release(thread), Backlog::Empty);
}

#[test]
fn j4_a_queued_run_can_be_removed_from_any_position() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    let ids: Vec<RunId> = (0..3)
        .map(|_| {
            let (run_id, entry) = queued_run(thread);
            queues.enqueue(thread, entry, QueuePosition::Back);
            run_id
        })
        .collect();
    assert!(queues.remove_run(thread, ids[1]).is_some());
    assert!(queues.remove_run(thread, ids[1]).is_none());
    assert_eq!(
        [dequeue_run_id(&mut queues, thread), dequeue_run_id(&mut queues, thread)],
        [Some(ids[0]), Some(ids[2])]
    );
}

#[test]
fn an_entry_that_could_not_start_is_next_again() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    let ((first, entry), (second, second_entry)) = (queued_run(thread), queued_run(thread));
    queues.enqueue(thread, entry, QueuePosition::Back);
    queues.enqueue(thread, second_entry, QueuePosition::Back);
    let first_entry = queues.dequeue(thread);
    queues.vacate(thread);
    queues.hold_for_remote(thread, first_entry);
    assert_eq!(queues.occupant(thread), Some(Occupant::Remote));
    assert_eq!(queues.release(thread), Backlog::Pending);
    assert_eq!(
        [dequeue_run_id(&mut queues, thread), dequeue_run_id(&mut queues, thread)],
        [Some(first), Some(second)]
    );
}

#[test]
fn exclusive_work_whose_caller_is_gone_is_skipped() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    let (grant_sender, grant_receiver) = oneshot::channel();
    queues.enqueue(
        thread,
        exclusive_work(grant_sender, QueuePosition::Back, quota(1, 1).acquire(&local()).unwrap()),
        QueuePosition::Back,
    );
    drop(grant_receiver);
    let (run_id, entry) = queued_run(thread);
    queues.enqueue(thread, entry, QueuePosition::Back);
    assert_eq!(dequeue_run_id(&mut queues, thread), Some(run_id));
}

#[test]
fn j5_closed_queues_accept_nothing_and_drop_their_entries() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    let (_, entry) = queued_run(thread);
    queues.enqueue(thread, entry, QueuePosition::Back);
    queues.close();
    assert_eq!(queues.release(thread), Backlog::Empty);
    assert_eq!(queues.admit(thread, occupancy(Occupant::Exclusive)), Admission::Closed);
    let (_, entry) = queued_run(thread);
    assert_eq!(queues.enqueue(thread, entry, QueuePosition::Back), EnqueueOutcome::Closed);
}

#[test]
fn permits_are_limited_by_owner_and_in_total_and_can_be_returned() {
    let quota = quota(3, 2);
    let alice = OwnerScope::Owner(Some("alice".parse().unwrap()));
    let full = |scope: &OwnerScope| matches!(quota.acquire(scope), Err(Error::QueueFull { .. }));
    let own_permits: Vec<QuotaPermit> = (0..2).map(|_| quota.acquire(&local()).unwrap()).collect();
    assert!(full(&local()), "two permits of one owner");
    let alice_permit = quota.acquire(&alice).unwrap();
    assert!(full(&alice), "three permits in total");
    let permit_over_limit = quota.acquire_over_limit(&alice);
    drop((own_permits, permit_over_limit));
    assert!(!full(&local()));
    drop(alice_permit);
    assert!(!full(&alice));
}

/// Returns exclusive work at the end of a queue, and the receiver of its grant.
fn queued_change() -> (oneshot::Receiver<ExclusiveGrant>, QueuedWork) {
    let (grant_sender, grant_receiver) = oneshot::channel();
    let permit = quota(1, 1).acquire(&local()).unwrap();
    (grant_receiver, exclusive_work(grant_sender, QueuePosition::Back, permit))
}

#[test]
fn a_change_that_waits_for_another_process_is_next_after_runs_that_displace_the_active_one() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    let (last, last_entry) = queued_run(thread);
    queues.enqueue(thread, last_entry, QueuePosition::Back);
    let request = RunRequest { multitask_strategy: MultitaskStrategy::Interrupt, ..RunRequest::default() };
    let stream = RunStream::new(RunRef { thread_id: thread, run_id: RunId::generate() }, &local(), &request);
    let (urgent, permit) = (stream.run_id, quota(1, 1).acquire(&local()).unwrap());
    queues.enqueue(thread, QueuedWork::Run(Arc::new(stream), permit), QueuePosition::Displacing);
    let (_grant_receiver, change) = queued_change();
    queues.requeue_behind_remote(thread, change);
    assert_eq!(queues.occupant(thread), Some(Occupant::Remote));
    assert_eq!(dequeue_run_id(&mut queues, thread), Some(urgent));
    assert!(matches!(queues.next_entry(thread), Some(NextEntry::Exclusive(QueuePosition::Back, _))));
    assert_eq!(dequeue_run_id(&mut queues, thread), None, "the change");
    assert_eq!(dequeue_run_id(&mut queues, thread), Some(last));
}

/// Adds a run that displaces the active one.
fn enqueue_displacing(queues: &mut ThreadQueues, thread_id: ThreadId) -> RunId {
    let request = RunRequest { multitask_strategy: MultitaskStrategy::Interrupt, ..RunRequest::default() };
    let stream = RunStream::new(RunRef { thread_id, run_id: RunId::generate() }, &local(), &request);
    let (run_id, permit) = (stream.run_id, quota(1, 1).acquire(&local()).unwrap());
    queues.enqueue(thread_id, QueuedWork::Run(Arc::new(stream), permit), QueuePosition::Displacing);
    run_id
}

#[test]
fn h5_a_change_comes_first_after_runs_have_overtaken_it_often() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    let (first, first_entry) = queued_run(thread);
    queues.enqueue(thread, first_entry, QueuePosition::Back);
    let (_grant_receiver, change) = queued_change();
    queues.enqueue(thread, change, QueuePosition::Back);
    // Each of these runs is executed before the next one displaces it.
    for number in 0..OVERTAKES_MAX {
        let urgent = enqueue_displacing(&mut queues, thread);
        queues.release(thread);
        assert_eq!(dequeue_run_id(&mut queues, thread), Some(urgent), "{number}");
    }
    let urgent = [enqueue_displacing(&mut queues, thread), enqueue_displacing(&mut queues, thread)];
    queues.release(thread);
    assert_eq!(dequeue_run_id(&mut queues, thread), None, "the change");
    let order: Vec<RunId> = std::iter::from_fn(|| dequeue_run_id(&mut queues, thread)).collect();
    assert_eq!(order, [urgent[0], urgent[1], first], "the runs keep their order");
}

#[test]
fn h5_a_change_that_is_queued_again_keeps_its_age() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    let (_grant_receiver, change) = queued_change();
    queues.enqueue(thread, change, QueuePosition::Back);
    for _ in 0..OVERTAKES_MAX {
        enqueue_displacing(&mut queues, thread);
    }
    for _ in 0..OVERTAKES_MAX {
        assert!(dequeue_run_id(&mut queues, thread).is_some());
    }
    let Some(QueuedWork::Exclusive(exclusive)) = queues.dequeue(thread) else { unreachable!("the change") };
    let (grant, _completion) = ExclusiveGrant::new(CancellationToken::new(), exclusive.age);
    let urgent = enqueue_displacing(&mut queues, thread);
    let (grant_sender, _next_grant) = oneshot::channel();
    let again = QueuedExclusive { grant_sender, age: grant.age, ..exclusive };
    queues.requeue_behind_remote(thread, QueuedWork::Exclusive(again));
    assert_eq!(dequeue_run_id(&mut queues, thread), None, "the change");
    assert_eq!(dequeue_run_id(&mut queues, thread), Some(urgent));
}

#[test]
fn j5_a_change_that_has_to_wait_after_the_queues_were_closed_is_dropped() {
    let (mut queues, thread) = (ThreadQueues::default(), ThreadId::generate());
    queues.admit(thread, occupancy(Occupant::Exclusive));
    queues.close();
    let (mut grant_receiver, change) = queued_change();
    queues.requeue_behind_remote(thread, change);
    assert!(grant_receiver.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
}
