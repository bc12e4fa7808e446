//! Who is next in a line, and who may ask what to stop.

use super::*;
use crate::error::Error;
use protocol::{RunRef, RunRequest, Scope};

fn local() -> Scope {
    Scope::Owner(None)
}

fn places(all: usize, own: usize) -> Arc<Places> {
    Places::new(PlacesMax { all, owner: own })
}

fn run(thread_id: ThreadId) -> (RunId, Waiting) {
    let run_id = RunId::generate();
    let stream = Stream::new(RunRef { thread_id, run_id }, &local(), &RunRequest::default());
    let place = places(1, 1).take(&local()).unwrap();
    (run_id, Waiting::Run(Arc::new(stream), place))
}

fn working(who: Who) -> Working {
    Working::new(who, CancellationToken::new())
}

fn taken(lines: &mut Lines, thread_id: ThreadId) -> Option<RunId> {
    match lines.take(thread_id)? {
        Waiting::Run(stream, _) => Some(stream.run_id),
        Waiting::Exclusive(..) => None,
    }
}

#[test]
fn j1_one_works_on_a_thread_and_the_others_wait_in_order() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    assert_eq!(lines.enter(thread, working(Who::Exclusive)), Entered::First);
    assert_eq!(lines.enter(thread, working(Who::Exclusive)), Entered::Behind);
    let waiting: Vec<RunId> = (0..3)
        .map(|_| {
            let (run_id, waiting) = run(thread);
            assert_eq!(lines.put(thread, waiting, End::Back), Put::Waits);
            run_id
        })
        .collect();
    let (first, waiting_first) = run(thread);
    assert_eq!(lines.put(thread, waiting_first, End::Front), Put::Waits);
    assert_eq!(lines.leave(thread), Behind::Some);
    let order: Vec<RunId> = std::iter::from_fn(|| taken(&mut lines, thread)).collect();
    assert_eq!(order, [vec![first], waiting].concat());
    assert_eq!(lines.counts(), (0, 0), "an empty line is gone");
}

#[test]
fn j1_those_who_displace_what_works_are_next_in_the_order_in_which_they_came() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    lines.enter(thread, working(Who::Exclusive));
    let put = |lines: &mut Lines, multitask_strategy: Multitask| {
        let request = RunRequest { multitask_strategy, ..RunRequest::default() };
        let stream = Stream::new(RunRef { thread_id: thread, run_id: RunId::generate() }, &local(), &request);
        let (run_id, place) = (stream.run_id, places(1, 1).take(&local()).unwrap());
        lines.put(thread, Waiting::Run(Arc::new(stream), place), End::of(multitask_strategy));
        run_id
    };
    let last = put(&mut lines, Multitask::Enqueue);
    let first = put(&mut lines, Multitask::Interrupt);
    let second = put(&mut lines, Multitask::Rollback);
    // What sees to the end of what is displaced comes before them.
    let (ticket, _waits) = oneshot::channel();
    let place = places(1, 1).take(&local()).unwrap();
    lines.put(thread, Waiting::Exclusive(ticket, End::Front, place), End::Front);
    let third = put(&mut lines, Multitask::Interrupt);
    lines.leave(thread);
    assert!(matches!(lines.take(thread), Some(Waiting::Exclusive(..))));
    let order: Vec<RunId> = std::iter::from_fn(|| taken(&mut lines, thread)).collect();
    assert_eq!(order, [first, second, third, last]);
}

#[test]
fn j4_how_something_elsewhere_is_to_be_stopped_is_not_forgotten_when_it_is_taken_over() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    let (_, waiting) = run(thread);
    let Waiting::Run(stream, _) = waiting else { unreachable!("it is a run") };
    lines.enter(thread, working(Who::Elsewhere));
    assert!(lines.stop(thread, Who::Elsewhere, CancelAction::Rollback));
    lines.put_back(thread, None);
    lines.take_over(thread, &stream);
    assert!(stream.cancel.is_cancelled());
    assert_eq!(lines.rested(thread), Some(CancelAction::Rollback));
}

#[test]
fn j4_the_first_who_stops_a_run_decides_and_only_what_works_is_stopped() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    let (run_id, waiting) = run(thread);
    assert_eq!(lines.put(thread, waiting, End::Back), Put::IsNew);
    assert!(!lines.stop(thread, Who::Run(run_id), CancelAction::Interrupt), "it waits");
    assert_eq!(taken(&mut lines, thread), Some(run_id));
    assert!(!lines.stop(thread, Who::Run(RunId::generate()), CancelAction::Interrupt), "it is another");
    assert!(lines.stop(thread, Who::Run(run_id), CancelAction::Rollback));
    assert!(lines.stop(thread, Who::Run(run_id), CancelAction::Interrupt));
    assert!(lines.cancel_of(thread).is_cancelled());
    assert_eq!(lines.rested(thread), Some(CancelAction::Rollback));
    assert!(!lines.stop(thread, Who::Run(run_id), CancelAction::Interrupt), "it has come to rest");
    assert_eq!(lines.leave(thread), Behind::Nobody);
}

#[test]
fn j4_a_run_that_waits_is_taken_out_wherever_it_stands() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    let ids: Vec<RunId> = (0..3)
        .map(|_| {
            let (run_id, waiting) = run(thread);
            lines.put(thread, waiting, End::Back);
            run_id
        })
        .collect();
    assert!(lines.remove(thread, ids[1]).is_some());
    assert!(lines.remove(thread, ids[1]).is_none());
    assert_eq!([taken(&mut lines, thread), taken(&mut lines, thread)], [Some(ids[0]), Some(ids[2])]);
}

#[test]
fn what_could_not_begin_is_next_again() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    let ((first, waiting), (second, behind)) = (run(thread), run(thread));
    lines.put(thread, waiting, End::Back);
    lines.put(thread, behind, End::Back);
    let held = lines.take(thread);
    lines.rested(thread);
    lines.put_back(thread, held);
    assert_eq!(lines.working(thread), Some(Who::Elsewhere));
    assert_eq!(lines.leave(thread), Behind::Some);
    assert_eq!([taken(&mut lines, thread), taken(&mut lines, thread)], [Some(first), Some(second)]);
}

#[test]
fn work_that_nobody_waits_for_is_passed_over() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    let (ticket, gone) = oneshot::channel();
    lines.put(thread, Waiting::Exclusive(ticket, End::Back, places(1, 1).take(&local()).unwrap()), End::Back);
    drop(gone);
    let (run_id, waiting) = run(thread);
    lines.put(thread, waiting, End::Back);
    assert_eq!(taken(&mut lines, thread), Some(run_id));
}

#[test]
fn j5_a_closed_line_takes_nobody_and_forgets_who_waits() {
    let (mut lines, thread) = (Lines::default(), ThreadId::generate());
    lines.enter(thread, working(Who::Exclusive));
    let (_, waiting) = run(thread);
    lines.put(thread, waiting, End::Back);
    lines.close();
    assert_eq!(lines.leave(thread), Behind::Nobody);
    assert_eq!(lines.enter(thread, working(Who::Exclusive)), Entered::Closed);
    let (_, waiting) = run(thread);
    assert_eq!(lines.put(thread, waiting, End::Back), Put::Closed);
}

#[test]
fn places_are_bounded_by_owner_and_in_all_and_given_back() {
    let places = places(3, 2);
    let alice = Scope::Owner(Some("alice".parse().unwrap()));
    let full = |scope: &Scope| matches!(places.take(scope), Err(Error::Full { .. }));
    let own: Vec<Place> = (0..2).map(|_| places.take(&local()).unwrap()).collect();
    assert!(full(&local()), "two of one owner");
    let hers = places.take(&alice).unwrap();
    assert!(full(&alice), "three in all");
    let left_before = places.take_anyway(&alice);
    drop((own, left_before));
    assert!(!full(&local()));
    drop(hers);
    assert!(!full(&alice));
}
