//! Checkpoints as points of a thread's past.

use journal::{CheckpointRef, Error, PAGE_ROWS_MAX, RunPatch, Write};
use protocol::{Checkpoint, CheckpointId, Run, RunStatus, StepPoint, ThreadId};
use serde_json::{Map, Value, json};

use super::Subject;
use super::fixtures::{append, checkpoint, commit, create, create_run, rewind, trace};

fn with_channels(run: &Run, step: u64, channels: Value) -> Checkpoint {
    Checkpoint { channels: channels.as_object().unwrap().clone(), ..checkpoint(run, step) }
}

/// Appends an event and stores the checkpoint; returns the point it is expected to be.
async fn step(store: &Subject, point: Checkpoint) -> StepPoint {
    let head_seq = append(&**store, point.thread_id, vec![trace(point.step)]).await.unwrap()[0];
    commit(&**store, vec![Write::PutCheckpoint(point.clone())]).await.unwrap();
    StepPoint {
        checkpoint_id: point.checkpoint_id,
        run_id: point.run_id,
        step: point.step,
        head_seq,
        next: point.next,
        created_at: point.created_at,
    }
}

async fn end(store: &Subject, run: &Run) {
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    commit(&**store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
}

async fn channels_at(store: &Subject, thread_id: ThreadId, at: CheckpointRef) -> Option<Value> {
    let found = store.checkpoint_at(thread_id, at).await.unwrap();
    found.map(|(_, channels): (_, Map<String, Value>)| Value::Object(channels))
}

pub async fn points_are_listed_newest_first_in_pages(store: Subject) {
    let run = create_run(&*store, "one").await;
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.insert(0, step(&store, checkpoint(&run, number)).await);
    }
    // A step without an event of its own stands after the one before it.
    let quiet = Checkpoint { next: None, ..checkpoint(&run, 7) };
    commit(&*store, vec![Write::PutCheckpoint(quiet.clone())]).await.unwrap();
    let at_the_end =
        StepPoint { checkpoint_id: quiet.checkpoint_id, step: 7, next: None, ..expected[0].clone() };
    expected.insert(0, at_the_end);
    let mut read: Vec<StepPoint> = Vec::new();
    loop {
        let before = read.last().map(|point| point.checkpoint_id);
        let page = store.checkpoints(run.thread_id, before, 3).await.unwrap();
        assert_eq!(page.len(), 3.min(expected.len() - read.len()));
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    assert_eq!(read, expected);
    let other = create_run(&*store, "one").await;
    assert!(store.checkpoints(other.thread_id, None, 9).await.unwrap().is_empty());
    let foreign = Some(expected[0].checkpoint_id);
    assert!(store.checkpoints(other.thread_id, foreign, 9).await.unwrap().is_empty());
    assert!(store.checkpoints(ThreadId::generate(), None, 9).await.unwrap().is_empty());
    for limit in [0, PAGE_ROWS_MAX + 1] {
        let refused = store.checkpoints(run.thread_id, None, limit).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{limit}");
    }
}

pub async fn a_point_has_the_public_channels_of_its_time(store: Subject) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let states = [
        json!({}),
        json!({"todos": [1]}),
        json!({"todos": [1], "_private": 1}),
        json!({"todos": [1], "mode": "plan", "_private": 2}),
        json!({"mode": "plan"}),
        json!({"_private": 3}),
    ];
    let mut points = Vec::new();
    for (number, state) in (0..).zip(&states) {
        points.push(step(&store, with_channels(&run, number, state.clone())).await);
    }
    for (point, state) in points.iter().zip(&states) {
        let mut public = state.as_object().unwrap().clone();
        public.retain(|name, _| !name.starts_with('_'));
        for at in [CheckpointRef::Id(point.checkpoint_id), CheckpointRef::Seq(point.head_seq)] {
            let found = store.checkpoint_at(thread_id, at).await.unwrap();
            assert_eq!(found, Some((point.clone(), public.clone())), "{at:?}");
        }
    }
    // The checkpoint to resume from has the private ones, too.
    let newest = store.checkpoint(thread_id).await.unwrap().unwrap();
    assert_eq!(Value::Object(newest.channels), json!({"_private": 3}));
    append(&*store, thread_id, vec![trace(9)]).await.unwrap();
    let newest = store.checkpoint_at(thread_id, CheckpointRef::Seq(u64::MAX)).await.unwrap().unwrap();
    assert_eq!(newest.0, points[5], "the newest at or before");
    for at in [CheckpointRef::Seq(0), CheckpointRef::Id(CheckpointId::generate())] {
        assert_eq!(channels_at(&store, thread_id, at).await, None, "{at:?}");
    }
    assert_eq!(channels_at(&store, ThreadId::generate(), CheckpointRef::Seq(9)).await, None);
}

pub async fn a_repeated_checkpoint_is_one_point(store: Subject) {
    let run = create_run(&*store, "one").await;
    let first = with_channels(&run, 0, json!({"a": 1}));
    let point = step(&store, first.clone()).await;
    commit(&*store, vec![Write::PutCheckpoint(first.clone())]).await.unwrap();
    let moved = step(&store, first).await;
    assert_eq!(moved, StepPoint { head_seq: point.head_seq + 1, ..point });
    let at = CheckpointRef::Id(moved.checkpoint_id);
    assert_eq!(store.checkpoints(run.thread_id, None, 9).await.unwrap(), [moved]);
    assert_eq!(channels_at(&store, run.thread_id, at).await, Some(json!({"a": 1})));
}

pub async fn superseded_points_are_left_out(store: Subject) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let mut points = Vec::new();
    for number in 0..5 {
        points.push(step(&store, with_channels(&run, number, json!({"n": number / 2}))).await);
    }
    end(&store, &run).await;
    rewind(&*store, thread_id, points[2].head_seq).await.unwrap();
    let listed = store.checkpoints(thread_id, None, 9).await.unwrap();
    assert_eq!(listed, [&points[2], &points[1], &points[0]].map(Clone::clone));
    let from_a_superseded_one = Some(points[4].checkpoint_id);
    assert_eq!(store.checkpoints(thread_id, from_a_superseded_one, 9).await.unwrap(), listed);
    assert_eq!(channels_at(&store, thread_id, CheckpointRef::Id(points[3].checkpoint_id)).await, None);
    let found = store.checkpoint_at(thread_id, CheckpointRef::Seq(points[4].head_seq)).await.unwrap();
    assert_eq!(found.map(|(point, _)| point), Some(points[2].clone()));
    // The thread goes on with the channels of the superseded end, and then with those of the point kept.
    for (number, n) in [(5, 2), (6, 1)] {
        let point = step(&store, with_channels(&run, number, json!({"n": n}))).await;
        let at = CheckpointRef::Id(point.checkpoint_id);
        assert_eq!(channels_at(&store, thread_id, at).await, Some(json!({"n": n})));
        assert_eq!(store.checkpoints(thread_id, None, 1).await.unwrap(), [point]);
    }
}

pub async fn a_point_before_the_first_event_can_be_gone_back_to(store: Subject) {
    let thread_id = create(&*store).await;
    let run = super::fixtures::run(thread_id, "one");
    let first = with_channels(&run, 0, json!({"a": 1}));
    commit(&*store, vec![Write::PutCheckpoint(first.clone())]).await.unwrap();
    append(&*store, thread_id, vec![trace(0)]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    let listed = store.checkpoints(thread_id, None, 9).await.unwrap();
    assert_eq!(listed.iter().map(|point| point.checkpoint_id).collect::<Vec<_>>(), [first.checkpoint_id]);
    assert_eq!(channels_at(&store, thread_id, CheckpointRef::Seq(0)).await, Some(json!({"a": 1})));
}
