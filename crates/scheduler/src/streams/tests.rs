//! Which streams are there, and for how long.

use protocol::{RunRef, RunRequest, RunStatus};

use super::*;

fn local() -> Scope {
    Scope::Owner(None)
}

fn streams(retention: u64, bytes_max: usize) -> Streams {
    let retention = Duration::from_secs(retention);
    Streams::new(&Limits { retention, retained_bytes_max: bytes_max, ..Limits::default() })
}

fn begun(streams: &Streams, thread_id: ThreadId, stream_resumable: bool) -> Arc<Stream> {
    let request = RunRequest { stream_resumable, ..RunRequest::default() };
    let stream = Arc::new(Stream::new(RunRef { thread_id, run_id: RunId::generate() }, &local(), &request));
    streams.open(&stream);
    streams.begun(&stream);
    stream
}

fn end(streams: &Streams, stream: &Arc<Stream>, now: Instant) {
    stream.tell_end(RunStatus::Success, None);
    streams.close(stream, now);
}

#[test]
fn i1_a_resumable_stream_is_kept_for_a_while_and_another_is_not() {
    let (streams, thread, now) = (streams(120, usize::MAX), ThreadId::generate(), Instant::now());
    let (kept, gone) = (begun(&streams, thread, true), begun(&streams, thread, false));
    assert!(streams.get(gone.run_id).is_some(), "it works");
    end(&streams, &kept, now);
    end(&streams, &gone, now);
    assert!(streams.get(kept.run_id).is_some() && streams.get(gone.run_id).is_none());
    assert!(streams.expire(now + Duration::from_secs(119)).is_empty());
    assert!(streams.get(kept.run_id).is_some());
    assert_eq!(streams.expire(now + Duration::from_secs(120)).len(), 1);
    assert!(streams.get(kept.run_id).is_none());
    assert_eq!(streams.held(), (0, 0));
    assert!(streams.registry.lock().by_thread.is_empty(), "nothing is left of the thread");
}

#[test]
fn i1_who_reads_a_stream_that_another_takes_the_place_of_is_told_to_go_on_with_that() {
    let streams = streams(120, usize::MAX);
    let before = begun(&streams, ThreadId::generate(), true);
    let run = before.run_ref();
    let after = Arc::new(Stream::new(run, &local(), &RunRequest::default()));
    streams.open(&after);
    assert!(before.closed.is_cancelled() && !after.closed.is_cancelled());
    assert!(Arc::ptr_eq(&streams.get(run.run_id).unwrap(), &after));
}

#[test]
fn i6_what_is_kept_is_bounded_in_bytes_and_the_oldest_go_first() {
    let (thread, now) = (ThreadId::generate(), Instant::now());
    let (all, one) = (streams(120, usize::MAX), streams(120, usize::MAX));
    end(&one, &begun(&one, thread, true), now);
    let (_, bytes) = one.held();
    assert!(bytes >= STREAM_FIXED_BYTES);
    let streams = streams(120, bytes * 3);
    let runs: Vec<_> = (0..10).map(|_| begun(&streams, thread, true)).collect();
    for stream in &runs {
        end(&streams, stream, now);
        // A second end changes nothing.
        end(&streams, stream, now);
        begun(&all, thread, true);
    }
    let left: Vec<_> = runs.iter().filter(|stream| streams.get(stream.run_id).is_some()).collect();
    assert_eq!(left.len(), 3);
    assert_eq!(left[0].run_id, runs[7].run_id);
    assert!(streams.held().1 <= bytes * 3);
    assert_eq!(all.held(), (10, 0), "what works is bounded by how many may work");
}

#[test]
fn i1_what_follows_a_thread_keeps_its_runs_and_is_told_of_new_ones() {
    let (streams, thread, now) = (streams(120, usize::MAX), ThreadId::generate(), Instant::now());
    let before = begun(&streams, thread, false);
    let Following { runs, begun: mut told, .. } = streams.follow(&local(), thread);
    assert_eq!(runs, [before.run_id]);
    let other = begun(&streams, ThreadId::generate(), false);
    let after = begun(&streams, thread, false);
    for stream in [&before, &other, &after] {
        end(&streams, stream, now);
    }
    assert_eq!(told.try_recv().unwrap(), after.run_id);
    assert!(told.try_recv().is_err());
    assert!(streams.get(before.run_id).is_some() && streams.get(after.run_id).is_some());
    assert!(streams.get(other.run_id).is_none(), "nobody follows that one");
}

#[test]
fn k1_whoever_follows_a_foreign_thread_sees_nothing() {
    let (streams, thread) = (streams(120, usize::MAX), ThreadId::generate());
    begun(&streams, thread, true);
    let alice = Scope::Owner(Some("alice".parse().unwrap()));
    let Following { runs, begun: mut told, .. } = streams.follow(&alice, thread);
    begun(&streams, thread, true);
    assert!(runs.is_empty() && told.try_recv().is_err());
    let whose = ScopedThread { thread_id: thread, scope: alice };
    streams.unfollow(&whose);
    assert!(!streams.registry.lock().by_thread.contains_key(&whose));
}

#[test]
fn h3_a_thread_that_is_removed_leaves_no_stream_that_has_ended() {
    let (streams, thread, now) = (streams(120, usize::MAX), ThreadId::generate(), Instant::now());
    let (over, working) = (begun(&streams, thread, true), begun(&streams, thread, true));
    end(&streams, &over, now);
    assert!(streams.held().1 > 0);
    streams.forget(&ScopedThread { thread_id: thread, scope: local() });
    assert!(streams.get(over.run_id).is_none() && streams.get(working.run_id).is_some());
    assert_eq!(streams.held(), (1, 0), "it counts no more");
    end(&streams, &working, now);
    streams.expire(now + Duration::from_secs(120));
    assert_eq!(streams.held(), (0, 0));
}

#[test]
fn i6_readers_who_never_read_hold_no_more_than_what_may_be_kept() {
    let (streams, thread, now) = (streams(120, 64 * 1024), ThreadId::generate(), Instant::now());
    let read = |is_kept: bool| {
        let stream = begun(&streams, thread, is_kept);
        stream.enter();
        let reader = stream.frames.subscribe(None).unwrap();
        let text = "x".repeat(10 * 1024);
        stream.frames.send(agent::Frame::Text { message_id: String::new(), text });
        end(&streams, &stream, now);
        (stream, reader)
    };
    let held = |runs: &[(Arc<Stream>, agent::Subscription)]| -> usize {
        runs.iter().map(|(stream, _)| stream.frames.bytes()).sum()
    };
    let mut runs: Vec<_> = (0..20).map(|number| read(number % 2 == 0)).collect();
    assert!(held(&runs) <= 64 * 1024, "{}", held(&runs));
    assert!(matches!(runs[0].1.try_next(), Some(agent::Item::Gap { .. })), "the oldest one lost it");
    let (newest, reader) = runs.last_mut().unwrap();
    assert!(newest.frames.bytes() > 0 && matches!(reader.try_next(), Some(agent::Item::Frame(..))));
}

#[test]
fn i1_slow_readers_lose_what_they_hold_before_others_lose_what_is_kept() {
    let now = Instant::now();
    let slow = |streams: &Streams| {
        let stream = begun(streams, ThreadId::generate(), false);
        stream.enter();
        let text = "x".repeat(20 * 1024);
        stream.frames.send(agent::Frame::Text { message_id: String::new(), text });
        end(streams, &stream, now);
        stream
    };
    let one = bytes(&slow(&streams(120, usize::MAX)));
    // What is kept is one too many.
    let streams = streams(120, 3 * one + STREAM_FIXED_BYTES / 2);
    let read = [slow(&streams), slow(&streams), slow(&streams)];
    assert!(read.iter().all(|stream| bytes(stream) == one));
    let kept = begun(&streams, ThreadId::generate(), true);
    end(&streams, &kept, now);
    assert!(streams.get(kept.run_id).is_some());
    assert_eq!(read.map(|stream| bytes(&stream) == one), [false, true, true], "the oldest lost it");
}
