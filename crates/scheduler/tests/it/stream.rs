//! Tests of streams: a reader receives every run completely, once and in order; retention, gaps, and slow readers.

use std::sync::Arc;

use agent::{Frame, FramePosition, SubscriptionItem};
use protocol::{RunId, RunRequest, RunStatus, ThreadId, ThreadStatus};
use scheduler::{IfNotExists, NewRun, RunReader, SchedulerLimits, StreamPosition, ThreadItem};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::fixture::{
    GATE, LOCAL, SchedulerFixture, alice, answering_model, drop_scheduler, end_statuses, gate_at_start,
    gated_model, join, new_run_on, read_to_end, run_status, submit_message, user_request,
    wait_for_first_step,
};

/// Returns a request for a run whose stream is retained after its end.
fn resumable_request(text: &str) -> RunRequest {
    RunRequest { stream_resumable: true, ..user_request(text) }
}

/// Returns the items as text. Equal texts mean equal streams.
fn debug_lines(items: &[SubscriptionItem]) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

/// Returns the positions of the frames.
fn positions(items: &[SubscriptionItem]) -> Vec<FramePosition> {
    let position = |item: &SubscriptionItem| match item {
        SubscriptionItem::Frame(position, _) => Some(*position),
        SubscriptionItem::Gap { .. } => None,
    };
    items.iter().filter_map(position).collect()
}

/// Returns the id of the run whose start is among the items.
fn run_id_of(items: &[SubscriptionItem]) -> Option<RunId> {
    items.iter().find_map(|item| match item {
        SubscriptionItem::Frame(_, frame) => match **frame {
            Frame::RunStarted { run_id, .. } => Some(run_id),
            _ => None,
        },
        SubscriptionItem::Gap { .. } => None,
    })
}

#[tokio::test]
async fn i3_a_stream_ends_once_and_only_when_the_rows_are_final() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    for _ in 0..20 {
        let mut created = submit_message(&scheduler, thread, "hello").await;
        assert_eq!(
            created.run.status,
            RunStatus::Running,
            "the thread is free as soon as the stream has ended"
        );
        let items = read_to_end(&mut created.reader).await;
        assert_eq!(end_statuses(&items), [RunStatus::Success]);
        assert!(created.reader.next().await.is_none(), "nothing follows the end");
        assert_eq!(run_status(&scheduler, &created).await, Some(RunStatus::Success));
        let row = scheduler.agent(&LOCAL).store().thread(thread).await.unwrap().unwrap();
        assert_eq!(row.status, ThreadStatus::Idle);
    }
}

#[tokio::test]
async fn i1_a_retained_stream_is_the_same_when_read_again_from_any_position() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes, of course"));
    let scheduler = fixture.scheduler_with_model(&server);
    let mut created = scheduler
        .create_run(&LOCAL, new_run_on(ThreadId::generate(), resumable_request("hello")))
        .await
        .unwrap();
    let all = read_to_end(&mut created.reader).await;
    let all_positions = positions(&all);
    assert!(all_positions.is_sorted_by(|position, next| position < next), "{all_positions:?}");
    let run_id = created.run.run_id;
    let again = read_to_end(&mut scheduler.run_reader(run_id, None).unwrap()).await;
    assert_eq!(debug_lines(&again), debug_lines(&all));
    for (index, FramePosition { seq, sub }) in all_positions.into_iter().enumerate() {
        let after = Some(StreamPosition { seq, sub, index: 7 });
        let remaining = read_to_end(&mut scheduler.run_reader(run_id, after).unwrap()).await;
        assert_eq!(debug_lines(&remaining), debug_lines(&all[index..]), "from {seq}-{sub} on");
    }
}

#[tokio::test]
async fn i1_a_stream_without_retention_is_removed_at_the_end_of_its_run() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let scheduler = fixture.scheduler_with_model(&server);
    let mut created = submit_message(&scheduler, ThreadId::generate(), "slow").await;
    let run_id = created.run.run_id;
    let mut joined = scheduler.run_reader(run_id, None).unwrap();
    server.open_gate(GATE);
    let all = read_to_end(&mut created.reader).await;
    assert_eq!(
        debug_lines(&read_to_end(&mut joined).await),
        debug_lines(&all),
        "a reader that joined during the run sees all of it"
    );
    assert!(scheduler.run_reader(run_id, None).is_none());
    assert!(scheduler.run_reader(RunId::generate(), None).is_none());
}

#[tokio::test]
async fn i6_a_slow_reader_receives_one_gap_and_delays_no_other_reader() {
    let pieces =
        ScriptedReply { text: (0..9_000).map(|n| format!("{n} ")).collect(), ..ScriptedReply::default() };
    let (fixture, server) =
        (SchedulerFixture::new(), ScriptedServer::start(Script::new([gate_at_start(pieces)])).unwrap());
    let scheduler = fixture.scheduler_with_model(&server);
    let mut created = scheduler
        .create_run(&LOCAL, new_run_on(ThreadId::generate(), resumable_request("much")))
        .await
        .unwrap();
    wait_for_first_step(&mut created.reader).await;
    let mut slow = scheduler.run_reader(created.run.run_id, None).unwrap();
    assert!(matches!(slow.next().await, Some(SubscriptionItem::Frame(..))));
    let readers: Vec<_> = (0..100)
        .map(|_| {
            let mut run_reader = scheduler.run_reader(created.run.run_id, None).unwrap();
            tokio::spawn(async move { read_to_end(&mut run_reader).await.len() })
        })
        .collect();
    server.open_gate(GATE);
    let all = read_to_end(&mut created.reader).await;
    assert_eq!(end_statuses(&all), [RunStatus::Success], "a fast reader loses nothing");
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert!(matches!(slow.next().await, Some(SubscriptionItem::Gap { .. })));
    assert!(slow.next().await.is_none(), "nothing follows a gap");
    let mut late = scheduler.run_reader(created.run.run_id, None).unwrap();
    assert!(
        matches!(late.next().await, Some(SubscriptionItem::Gap { .. })),
        "the beginning is lost, which is reported as a gap"
    );
}

#[tokio::test]
async fn i6_retained_streams_are_limited_in_bytes() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model(&"x".repeat(20_000)));
    fixture.configure(&server);
    let scheduler =
        fixture.new_scheduler(SchedulerLimits { retained_bytes_max: 100_000, ..SchedulerLimits::default() });
    let mut runs = Vec::new();
    for _ in 0..8 {
        let thread = ThreadId::generate();
        let mut created =
            scheduler.create_run(&LOCAL, new_run_on(thread, resumable_request("hello"))).await.unwrap();
        read_to_end(&mut created.reader).await;
        runs.push(created.run.run_id);
    }
    let retained = runs.iter().filter(|run_id| scheduler.run_reader(**run_id, None).is_some()).count();
    assert!((1..5).contains(&retained), "{retained} streams are retained");
    assert!(scheduler.run_reader(runs[7], None).is_some(), "the newest stream is retained");
}

#[tokio::test]
async fn i1_a_reader_of_a_thread_sees_one_run_after_the_other() {
    let (fixture, server) = (SchedulerFixture::new(), gated_model("slow"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut readers = [scheduler.thread_reader(&LOCAL, thread), scheduler.thread_reader(&LOCAL, thread)];
    let mut foreign = scheduler.thread_reader(&alice(), thread);
    let mut runs = Vec::new();
    for text in ["first", "second", "third"] {
        let mut created = submit_message(&scheduler, thread, text).await;
        runs.push((created.run.run_id, debug_lines(&read_to_end(&mut created.reader).await)));
    }
    readers[1] = scheduler.thread_reader(&LOCAL, thread);
    for reader in &mut readers {
        for (run_id, expected) in &runs {
            let Some(ThreadItem::Run(mut run_reader)) = reader.next().await else {
                unreachable!("the thread has a run")
            };
            assert_eq!(run_reader.run_id, *run_id);
            let items = read_to_end(&mut run_reader).await;
            assert_eq!((run_id_of(&items), debug_lines(&items)), (Some(*run_id), expected.clone()));
        }
        assert!(reader.try_next().is_none());
    }
    let mut late = scheduler.thread_reader(&LOCAL, thread).skip_ended();
    assert!(late.try_next().is_none());
    let created = submit_message(&scheduler, thread, "slow").await;
    let Some(ThreadItem::Run(run_reader)) = late.next().await else { unreachable!("the thread has a run") };
    assert_eq!(run_reader.run_id, created.run.run_id);
    let active = scheduler.thread_reader(&LOCAL, thread).skip_ended().try_next();
    assert!(matches!(active, Some(ThreadItem::Run(run_reader)) if run_reader.run_id == created.run.run_id));
    assert!(foreign.try_next().is_none());
    server.open_gate(GATE);
    join(&scheduler, &created).await;
}

#[tokio::test]
async fn i1_a_reader_of_a_thread_that_lags_far_behind_receives_a_gap() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let (scheduler, thread) = (fixture.scheduler_with_model(&server), ThreadId::generate());
    let mut reader = scheduler.thread_reader(&LOCAL, thread);
    let mut last = None;
    for _ in 0..40 {
        let mut created = submit_message(&scheduler, thread, "hello").await;
        read_to_end(&mut created.reader).await;
        last = Some(created.run.run_id);
    }
    assert!(matches!(reader.next().await, Some(ThreadItem::Gap)));
    let mut seen = None;
    while let Some(item) = reader.try_next() {
        match item {
            ThreadItem::Run(run_reader) => seen = Some(run_reader.run_id),
            ThreadItem::Gap => unreachable!("a gap is reported once"),
        }
    }
    assert_eq!(seen, last);
}

#[tokio::test]
async fn a_temporary_thread_is_deleted_when_its_last_reader_is_dropped() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    let scheduler = fixture.scheduler_with_model(&server);
    let request = RunRequest { temporary: true, ..user_request("hello") };
    let new = scheduler::NewRun { thread_id: None, request, if_not_exists: scheduler::IfNotExists::Create };
    let mut created = scheduler.create_run(&LOCAL, new).await.unwrap();
    let thread = created.run.thread_id;
    read_to_end(&mut created.reader).await;
    let store = Arc::clone(scheduler.agent(&LOCAL).store());
    assert!(store.thread(thread).await.unwrap().is_some(), "the result can still be read");
    drop(created);
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i6_a_thousand_readers_of_one_run_see_the_same_frames() {
    let pieces =
        ScriptedReply { text: (0..200).map(|n| format!("{n} ")).collect(), ..ScriptedReply::default() };
    let (fixture, server) =
        (SchedulerFixture::new(), ScriptedServer::start(Script::new([gate_at_start(pieces)])).unwrap());
    let scheduler = fixture.scheduler_with_model(&server);
    let mut created = submit_message(&scheduler, ThreadId::generate(), "much").await;
    wait_for_first_step(&mut created.reader).await;
    let run_id = created.run.run_id;
    let readers: Vec<_> = (0..1_000)
        .map(|_| {
            let run_reader: RunReader = scheduler.run_reader(run_id, None).unwrap();
            tokio::spawn(async move {
                let mut run_reader = run_reader;
                positions(&read_to_end(&mut run_reader).await)
            })
        })
        .collect();
    server.open_gate(GATE);
    read_to_end(&mut created.reader).await;
    let mut all = std::collections::HashSet::new();
    for reader in readers {
        all.insert(reader.await.unwrap());
    }
    assert_eq!(all.len(), 1, "every reader saw the same frames");
}

#[tokio::test]
async fn a_temporary_thread_is_kept_as_long_as_its_stream() {
    let (fixture, server) = (SchedulerFixture::new(), answering_model("yes"));
    fixture.configure(&server);
    let scheduler =
        fixture.new_scheduler(SchedulerLimits { retained_bytes_max: 0, ..SchedulerLimits::default() });
    let request = RunRequest { temporary: true, ..resumable_request("hello") };
    let temporary_run = |request| NewRun { thread_id: None, request, if_not_exists: IfNotExists::Create };
    let mut first = scheduler.create_run(&LOCAL, temporary_run(request.clone())).await.unwrap();
    let thread = first.run.thread_id;
    read_to_end(&mut first.reader).await;
    let store = Arc::clone(scheduler.agent(&LOCAL).store());
    assert!(store.thread(thread).await.unwrap().is_some(), "its stream was evicted, but still has a reader");
    drop(first);
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    drop_scheduler(scheduler).await;
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    let mut second = scheduler.create_run(&LOCAL, temporary_run(request)).await.unwrap();
    let thread = second.run.thread_id;
    read_to_end(&mut second.reader).await;
    let run_id = second.run.run_id;
    drop(second);
    assert!(scheduler.run_reader(run_id, None).is_some(), "a reader may reconnect");
    assert!(store.thread(thread).await.unwrap().is_some());
    drop_scheduler(scheduler).await;
    let scheduler = fixture.new_scheduler(SchedulerLimits::default());
    scheduler.recover().await.unwrap();
    while store.thread(thread).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
}
