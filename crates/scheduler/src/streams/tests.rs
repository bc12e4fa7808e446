//! The registry of streams: which streams exist, and for how long.

use protocol::{RunRef, RunRequest, RunStatus};

use super::*;

fn local() -> OwnerScope {
    OwnerScope::Owner(None)
}

fn new_registry(retention: u64, bytes_max: usize) -> StreamRegistry {
    let retention = Duration::from_secs(retention);
    StreamRegistry::new(&SchedulerLimits {
        retention,
        retained_bytes_max: bytes_max,
        ..SchedulerLimits::default()
    })
}

fn open_and_start(streams: &StreamRegistry, thread_id: ThreadId, stream_resumable: bool) -> Arc<RunStream> {
    let request = RunRequest { stream_resumable, ..RunRequest::default() };
    let stream =
        Arc::new(RunStream::new(RunRef { thread_id, run_id: RunId::generate() }, &local(), &request));
    streams.open(&stream);
    streams.publish_start(&stream);
    stream
}

fn end_and_close(streams: &StreamRegistry, stream: &Arc<RunStream>, now: Instant) {
    stream.publish_end(RunStatus::Success, None);
    streams.close(stream, now);
}

#[test]
fn i1_a_resumable_stream_is_kept_for_a_while_and_another_is_not() {
    let (streams, thread, now) = (new_registry(120, usize::MAX), ThreadId::generate(), Instant::now());
    let (kept, gone) = (open_and_start(&streams, thread, true), open_and_start(&streams, thread, false));
    assert!(streams.get(gone.run_id).is_some(), "the run is active");
    end_and_close(&streams, &kept, now);
    end_and_close(&streams, &gone, now);
    assert!(streams.get(kept.run_id).is_some() && streams.get(gone.run_id).is_none());
    assert!(streams.expire(now + Duration::from_secs(119)).is_empty());
    assert!(streams.get(kept.run_id).is_some());
    assert_eq!(streams.expire(now + Duration::from_secs(120)).len(), 1);
    assert!(streams.get(kept.run_id).is_none());
    assert_eq!(streams.retained_totals(), (0, 0));
    assert!(streams.table.lock().by_thread.is_empty(), "nothing is left of the thread");
}

#[test]
fn i1_a_new_stream_of_a_run_closes_the_previous_one_so_that_its_readers_continue_with_the_new_one() {
    let streams = new_registry(120, usize::MAX);
    let before = open_and_start(&streams, ThreadId::generate(), true);
    let run = before.run_ref();
    let after = Arc::new(RunStream::new(run, &local(), &RunRequest::default()));
    streams.open(&after);
    assert!(before.closed.is_cancelled() && !after.closed.is_cancelled());
    assert!(Arc::ptr_eq(&streams.get(run.run_id).unwrap(), &after));
}

#[test]
fn i6_kept_streams_are_limited_in_bytes_and_the_oldest_are_evicted_first() {
    let (thread, now) = (ThreadId::generate(), Instant::now());
    let (unclosed, single) = (new_registry(120, usize::MAX), new_registry(120, usize::MAX));
    end_and_close(&single, &open_and_start(&single, thread, true), now);
    let (_, bytes) = single.retained_totals();
    assert!(bytes >= STREAM_FIXED_BYTES);
    let streams = new_registry(120, bytes * 3);
    let runs: Vec<_> = (0..10).map(|_| open_and_start(&streams, thread, true)).collect();
    for stream in &runs {
        end_and_close(&streams, stream, now);
        // A second end changes nothing.
        end_and_close(&streams, stream, now);
        open_and_start(&unclosed, thread, true);
    }
    let kept: Vec<_> = runs.iter().filter(|stream| streams.get(stream.run_id).is_some()).collect();
    assert_eq!(kept.len(), 3);
    assert_eq!(kept[0].run_id, runs[7].run_id);
    assert!(streams.retained_totals().1 <= bytes * 3);
    assert_eq!(unclosed.retained_totals(), (10, 0), "open streams are limited by the number of active runs");
}

#[test]
fn i1_a_reader_of_a_thread_keeps_its_runs_and_is_notified_of_new_ones() {
    let (streams, thread, now) = (new_registry(120, usize::MAX), ThreadId::generate(), Instant::now());
    let before = open_and_start(&streams, thread, false);
    let ThreadRunSubscription { runs, started_runs: mut started, .. } = streams.subscribe(&local(), thread);
    assert_eq!(runs, [before.run_id]);
    let other = open_and_start(&streams, ThreadId::generate(), false);
    let after = open_and_start(&streams, thread, false);
    for stream in [&before, &other, &after] {
        end_and_close(&streams, stream, now);
    }
    assert_eq!(started.try_recv().unwrap(), after.run_id);
    assert!(started.try_recv().is_err());
    assert!(streams.get(before.run_id).is_some() && streams.get(after.run_id).is_some());
    assert!(streams.get(other.run_id).is_none(), "the other thread has no reader");
}

#[test]
fn k1_a_reader_of_another_owners_thread_sees_nothing() {
    let (streams, thread) = (new_registry(120, usize::MAX), ThreadId::generate());
    open_and_start(&streams, thread, true);
    let alice = OwnerScope::Owner(Some("alice".parse().unwrap()));
    let ThreadRunSubscription { runs, started_runs: mut started, .. } = streams.subscribe(&alice, thread);
    open_and_start(&streams, thread, true);
    assert!(runs.is_empty() && started.try_recv().is_err());
    let scoped_thread = ScopedThread { thread_id: thread, scope: alice };
    streams.unsubscribe(&scoped_thread);
    assert!(!streams.table.lock().by_thread.contains_key(&scoped_thread));
}

#[test]
fn h3_the_ended_streams_of_a_deleted_thread_are_removed() {
    let (streams, thread, now) = (new_registry(120, usize::MAX), ThreadId::generate(), Instant::now());
    let (ended, active) = (open_and_start(&streams, thread, true), open_and_start(&streams, thread, true));
    end_and_close(&streams, &ended, now);
    assert!(streams.retained_totals().1 > 0);
    streams.forget_thread(&ScopedThread { thread_id: thread, scope: local() });
    assert!(streams.get(ended.run_id).is_none() && streams.get(active.run_id).is_some());
    assert_eq!(streams.retained_totals(), (1, 0), "its bytes are not counted any more");
    end_and_close(&streams, &active, now);
    streams.expire(now + Duration::from_secs(120));
    assert_eq!(streams.retained_totals(), (0, 0));
}

#[test]
fn i6_readers_that_never_read_hold_no_more_bytes_than_the_limit() {
    let (streams, thread, now) = (new_registry(120, 64 * 1024), ThreadId::generate(), Instant::now());
    let read = |is_resumable: bool| {
        let stream = open_and_start(&streams, thread, is_resumable);
        stream.add_reader();
        let reader = stream.frames.subscribe(None).unwrap();
        let text = "x".repeat(10 * 1024);
        stream.frames.send(agent::Frame::Text { message_id: String::new(), text });
        end_and_close(&streams, &stream, now);
        (stream, reader)
    };
    let held_bytes = |runs: &[(Arc<RunStream>, agent::FrameSubscription)]| -> usize {
        runs.iter().map(|(stream, _)| stream.frames.buffered_bytes()).sum()
    };
    let mut runs: Vec<_> = (0..20).map(|number| read(number % 2 == 0)).collect();
    assert!(held_bytes(&runs) <= 64 * 1024, "{}", held_bytes(&runs));
    assert!(
        matches!(runs[0].1.try_next(), Some(agent::SubscriptionItem::Gap { .. })),
        "the oldest stream was cleared"
    );
    let (newest, reader) = runs.last_mut().unwrap();
    assert!(
        newest.frames.buffered_bytes() > 0
            && matches!(reader.try_next(), Some(agent::SubscriptionItem::Frame(..)))
    );
}

#[test]
fn i1_the_buffers_of_slow_readers_are_cleared_before_kept_streams_are_evicted() {
    let now = Instant::now();
    let slow = |streams: &StreamRegistry| {
        let stream = open_and_start(streams, ThreadId::generate(), false);
        stream.add_reader();
        let text = "x".repeat(20 * 1024);
        stream.frames.send(agent::Frame::Text { message_id: String::new(), text });
        end_and_close(streams, &stream, now);
        stream
    };
    let bytes_each = stream_bytes(&slow(&new_registry(120, usize::MAX)));
    // With the kept stream, the limit is exceeded by one stream.
    let streams = new_registry(120, 3 * bytes_each + STREAM_FIXED_BYTES / 2);
    let read = [slow(&streams), slow(&streams), slow(&streams)];
    assert!(read.iter().all(|stream| stream_bytes(stream) == bytes_each));
    let kept = open_and_start(&streams, ThreadId::generate(), true);
    end_and_close(&streams, &kept, now);
    assert!(streams.get(kept.run_id).is_some());
    assert_eq!(
        read.map(|stream| stream_bytes(&stream) == bytes_each),
        [false, true, true],
        "the oldest was cleared"
    );
}
