//! Checkpoints as points in a thread's past, which can be listed, read and resumed.

use journal::{CheckpointRef, Error, PAGE_ROWS_MAX, RunPatch, SupersededVisibility, Write};
use protocol::{
    Checkpoint, CheckpointEntry, CheckpointId, CheckpointSource, EventType, NewEvent, Run, RunStatus, Seq,
    ThreadId,
};
use serde_json::{Map, Value, json};

use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    ai, append, at, checkpoint, commit, create, create_run, event, human, rewind, tool_result, trace_event,
};

fn with_channels(run: &Run, step: u64, channels: Value) -> Checkpoint {
    Checkpoint { channels: channels.as_object().unwrap().clone(), ..checkpoint(run, step) }
}

/// Appends an event and stores the checkpoint. Returns the entry that the store is expected to list for it. The
/// checkpoint's step equals the number of checkpoints that the thread already has.
async fn step(store: &SharedStore, point: Checkpoint) -> CheckpointEntry {
    let head_seq = append(&**store, point.thread_id, vec![trace_event(point.step)]).await.unwrap()[0];
    commit(&**store, vec![Write::PutCheckpoint(point.clone())]).await.unwrap();
    CheckpointEntry {
        checkpoint_id: point.checkpoint_id,
        run_id: point.run_id,
        step: point.step,
        head_seq,
        next: point.next,
        source: point.source,
        input_seq: None,
        number: i64::try_from(point.step).unwrap(),
        created_at: point.created_at,
    }
}

async fn end_run(store: &SharedStore, run: &Run) {
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    commit(&**store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
}

async fn channels_at(store: &SharedStore, thread_id: ThreadId, at: CheckpointRef) -> Option<Value> {
    let entry = store.checkpoint_at(thread_id, at, SupersededVisibility::Hidden).await.unwrap();
    entry.map(|(_, channels): (_, Map<String, Value>)| Value::Object(channels))
}

pub async fn points_are_listed_newest_first_in_pages(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let mut expected = Vec::new();
    for number in 0..7 {
        expected.insert(0, step(&store, checkpoint(&run, number)).await);
    }
    // A step without an event is listed after the step before it.
    let without_event = Checkpoint { next: None, ..checkpoint(&run, 7) };
    commit(&*store, vec![Write::PutCheckpoint(without_event.clone())]).await.unwrap();
    let at_the_end = CheckpointEntry {
        checkpoint_id: without_event.checkpoint_id,
        step: 7,
        number: 7,
        next: None,
        ..expected[0].clone()
    };
    expected.insert(0, at_the_end);
    let mut listed: Vec<CheckpointEntry> = Vec::new();
    loop {
        let before = listed.last().map(|point| point.checkpoint_id);
        let page = store.checkpoints(run.thread_id, before, 3, SupersededVisibility::Hidden).await.unwrap();
        assert_eq!(page.len(), 3.min(expected.len() - listed.len()));
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, expected);
    let other = create_run(&*store, "one").await;
    assert!(
        store.checkpoints(other.thread_id, None, 9, SupersededVisibility::Hidden).await.unwrap().is_empty()
    );
    let foreign = Some(expected[0].checkpoint_id);
    assert!(
        store
            .checkpoints(other.thread_id, foreign, 9, SupersededVisibility::Hidden)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .checkpoints(ThreadId::generate(), None, 9, SupersededVisibility::Hidden)
            .await
            .unwrap()
            .is_empty()
    );
    for limit in [0, PAGE_ROWS_MAX + 1] {
        let refused = store.checkpoints(run.thread_id, None, limit, SupersededVisibility::Hidden).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{limit}");
    }
}

pub async fn a_point_has_the_public_channels_of_its_time(store: SharedStore) {
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
            let stored = store.checkpoint_at(thread_id, at, SupersededVisibility::Hidden).await.unwrap();
            assert_eq!(stored, Some((point.clone(), public.clone())), "{at:?}");
        }
    }
    // The checkpoint for resuming also has the private channels.
    let newest = store.checkpoint(thread_id).await.unwrap().unwrap();
    assert_eq!(Value::Object(newest.channels), json!({"_private": 3}));
    append(&*store, thread_id, vec![trace_event(9)]).await.unwrap();
    let newest = store
        .checkpoint_at(thread_id, CheckpointRef::Seq(u64::MAX), SupersededVisibility::Hidden)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(newest.0, points[5], "the newest at or before");
    for at in [CheckpointRef::Seq(0), CheckpointRef::Id(CheckpointId::generate())] {
        assert_eq!(channels_at(&store, thread_id, at).await, None, "{at:?}");
    }
    assert_eq!(channels_at(&store, ThreadId::generate(), CheckpointRef::Seq(9)).await, None);
}

pub async fn a_repeated_checkpoint_is_one_point(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let first = with_channels(&run, 0, json!({"a": 1}));
    let point = step(&store, first.clone()).await;
    commit(&*store, vec![Write::PutCheckpoint(first.clone())]).await.unwrap();
    let moved = step(&store, first).await;
    assert_eq!(moved, CheckpointEntry { head_seq: point.head_seq + 1, ..point });
    let at = CheckpointRef::Id(moved.checkpoint_id);
    assert_eq!(
        store.checkpoints(run.thread_id, None, 9, SupersededVisibility::Hidden).await.unwrap(),
        [moved]
    );
    assert_eq!(channels_at(&store, run.thread_id, at).await, Some(json!({"a": 1})));
}

pub async fn superseded_points_are_left_out(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let mut points = Vec::new();
    for number in 0..5 {
        points.push(step(&store, with_channels(&run, number, json!({"n": number / 2}))).await);
    }
    end_run(&store, &run).await;
    rewind(&*store, thread_id, points[2].head_seq).await.unwrap();
    let listed = store.checkpoints(thread_id, None, 9, SupersededVisibility::Hidden).await.unwrap();
    assert_eq!(listed, [&points[2], &points[1], &points[0]].map(Clone::clone));
    let from_a_superseded_one = Some(points[4].checkpoint_id);
    assert_eq!(
        store.checkpoints(thread_id, from_a_superseded_one, 9, SupersededVisibility::Hidden).await.unwrap(),
        listed
    );
    assert_eq!(channels_at(&store, thread_id, CheckpointRef::Id(points[3].checkpoint_id)).await, None);
    let found = store
        .checkpoint_at(thread_id, CheckpointRef::Seq(points[4].head_seq), SupersededVisibility::Hidden)
        .await
        .unwrap();
    assert_eq!(found.map(|(point, _)| point), Some(points[2].clone()));
    // The thread continues with the channels of the superseded end, and then with those of the retained point.
    for (number, n) in [(5, 2), (6, 1)] {
        let point = step(&store, with_channels(&run, number, json!({"n": n}))).await;
        let at = CheckpointRef::Id(point.checkpoint_id);
        assert_eq!(channels_at(&store, thread_id, at).await, Some(json!({"n": n})));
        assert_eq!(
            store.checkpoints(thread_id, None, 1, SupersededVisibility::Hidden).await.unwrap(),
            [point]
        );
    }
}

pub async fn a_thread_can_be_rewound_to_a_point_before_its_first_event(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run = crate::conformance::fixtures::run(thread_id, "one");
    let first = with_channels(&run, 0, json!({"a": 1}));
    commit(&*store, vec![Write::PutCheckpoint(first.clone())]).await.unwrap();
    append(&*store, thread_id, vec![trace_event(0)]).await.unwrap();
    rewind(&*store, thread_id, 0).await.unwrap();
    let listed = store.checkpoints(thread_id, None, 9, SupersededVisibility::Hidden).await.unwrap();
    assert_eq!(listed.iter().map(|point| point.checkpoint_id).collect::<Vec<_>>(), [first.checkpoint_id]);
    assert_eq!(channels_at(&store, thread_id, CheckpointRef::Seq(0)).await, Some(json!({"a": 1})));
}

pub async fn superseded_points_are_returned_on_request(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let mut points = Vec::new();
    for number in 0..4 {
        points.push(step(&store, with_channels(&run, number, json!({"n": number}))).await);
    }
    end_run(&store, &run).await;
    rewind(&*store, thread_id, points[1].head_seq).await.unwrap();
    let again = with_channels(&run, 2, json!({"n": 9}));
    let head_seq = append(&*store, thread_id, vec![trace_event(9)]).await.unwrap()[0];
    commit(&*store, vec![Write::PutCheckpoint(again.clone())]).await.unwrap();
    let all = store.checkpoints(thread_id, None, 9, SupersededVisibility::Shown).await.unwrap();
    let ids: Vec<_> = points.iter().map(|point| point.checkpoint_id).chain([again.checkpoint_id]).collect();
    assert_eq!(all.iter().rev().map(|point| point.checkpoint_id).collect::<Vec<_>>(), ids);
    let before = Some(points[3].checkpoint_id);
    let older = store.checkpoints(thread_id, before, 9, SupersededVisibility::Shown).await.unwrap();
    assert_eq!(older, [&points[2], &points[1], &points[0]].map(Clone::clone));
    for (at, n) in [
        (CheckpointRef::Id(points[3].checkpoint_id), 3),
        (CheckpointRef::Seq(points[2].head_seq), 2),
        (CheckpointRef::Seq(head_seq), 9),
    ] {
        let entry = store.checkpoint_at(thread_id, at, SupersededVisibility::Shown).await.unwrap();
        assert_eq!(entry.unwrap().1.get("n"), Some(&json!(n)), "{at:?}");
    }
    let hidden = store.checkpoint_at(
        thread_id,
        CheckpointRef::Id(points[3].checkpoint_id),
        SupersededVisibility::Hidden,
    );
    assert_eq!(hidden.await.unwrap(), None);
}

/// Admits a run with these messages, ends it one step later, and returns both points.
async fn turn(store: &SharedStore, thread_id: ThreadId, events: Vec<NewEvent>) -> [CheckpointEntry; 2] {
    let run = crate::conformance::fixtures::run(thread_id, "one");
    let events = events.into_iter().map(|event| event.with_run(run.run_id)).collect();
    let writes = vec![
        Write::AdmitRun(run.clone()),
        Write::Append { thread_id, events },
        Write::PutCheckpoint(checkpoint(&run, 0)),
    ];
    commit(&**store, writes).await.unwrap();
    append(&**store, thread_id, vec![ai("answer").with_run(run.run_id)]).await.unwrap();
    commit(&**store, vec![Write::PutCheckpoint(checkpoint(&run, 1))]).await.unwrap();
    end_run(store, &run).await;
    let mut points =
        store.checkpoints(thread_id, None, 2, SupersededVisibility::Hidden).await.unwrap().into_iter();
    let (after, admission) = (points.next().unwrap(), points.next().unwrap());
    [admission, after]
}

pub async fn an_admission_has_the_messages_of_its_transaction(store: SharedStore) {
    let thread_id = create(&*store).await;
    for (events, expected) in [
        (vec![human("one"), trace_event(0)], Some(1)),
        (vec![trace_event(1)], None),
        (vec![tool_result("c", "not done"), human("two"), human("three")], Some(7)),
        (vec![tool_result("c", "refused")], None),
        (vec![ai("put in its mouth")], Some(12)),
    ] {
        let [admission, after] = turn(&store, thread_id, events).await;
        assert_eq!((admission.input_seq, after.input_seq), (expected, None));
        let at = CheckpointRef::Id(admission.checkpoint_id);
        let (entry, _) =
            store.checkpoint_at(thread_id, at, SupersededVisibility::Hidden).await.unwrap().unwrap();
        assert_eq!(entry, admission);
    }
    // A message of another run in the same transaction is not the input of this run.
    let (run, other) = (crate::conformance::fixtures::run(thread_id, "one"), protocol::RunId::generate());
    let writes = vec![
        Write::AdmitRun(run.clone()),
        Write::PutCheckpoint(checkpoint(&run, 0)),
        Write::Append { thread_id, events: vec![human("beside").with_run(other), human("nobody's")] },
    ];
    commit(&*store, writes).await.unwrap();
    let newest = store.checkpoints(thread_id, None, 1, SupersededVisibility::Hidden).await.unwrap();
    assert_eq!(newest[0].input_seq, None);
}

/// Rewinds to `keep_seq` as an admission does, and returns the number of the point that records the rewind.
async fn rewind_to(store: &SharedStore, run: &Run, keep_seq: Seq, named: Option<CheckpointId>) -> i64 {
    let thread_id = run.thread_id;
    let content = json!({"keep_seq": keep_seq, "superseded": 1, "checkpoint_id": named});
    let point = Checkpoint { source: CheckpointSource::Rewind, ..checkpoint(run, 9) };
    let writes = vec![
        Write::Rewind { thread_id, keep_seq, at: at(3) },
        Write::Append { thread_id, events: vec![event(EventType::ThreadRewound, &content)] },
        Write::PutCheckpoint(point.clone()),
    ];
    commit(&**store, writes).await.unwrap();
    let newest = store.checkpoints(thread_id, None, 1, SupersededVisibility::Hidden).await.unwrap().remove(0);
    assert_eq!((newest.checkpoint_id, newest.source), (point.checkpoint_id, CheckpointSource::Rewind));
    assert_eq!(store.checkpoint(thread_id).await.unwrap().unwrap().source, CheckpointSource::Rewind);
    newest.number
}

fn numbers(points: &[CheckpointEntry; 2]) -> [i64; 2] {
    [points[0].number, points[1].number]
}

pub async fn points_are_numbered_along_their_branch(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run = crate::conformance::fixtures::run(thread_id, "one");
    let first = turn(&store, thread_id, vec![human("one")]).await;
    let second = turn(&store, thread_id, vec![human("two")]).await;
    let resumed = turn(&store, thread_id, vec![trace_event(0)]).await;
    assert_eq!(
        [&first, &second, &resumed].map(numbers),
        [[0, 1], [3, 4], [5, 6]],
        "an input has the one before"
    );
    let updated = Checkpoint { source: CheckpointSource::Update, ..checkpoint(&run, 0) };
    commit(&*store, vec![Write::PutCheckpoint(updated)]).await.unwrap();
    let updated =
        store.checkpoints(thread_id, None, 1, SupersededVisibility::Hidden).await.unwrap().remove(0);
    assert_eq!((updated.source, updated.number), (CheckpointSource::Update, 7));
    // Numbers of a branch continue from its starting point, not from the thread's newest point.
    assert_eq!(rewind_to(&store, &run, first[1].head_seq, None).await, 1);
    assert_eq!(numbers(&turn(&store, thread_id, vec![human("other")]).await), [3, 4]);
    assert_eq!(rewind_to(&store, &run, first[0].head_seq, None).await, 0);
    assert_eq!(numbers(&turn(&store, thread_id, vec![trace_event(1)]).await), [1, 2]);
    rewind_to(&store, &run, 0, None).await;
    assert_eq!(numbers(&turn(&store, thread_id, vec![human("anew")]).await), [0, 1]);
}

pub async fn a_branch_is_numbered_from_the_point_it_names(store: SharedStore) {
    let thread_id = create(&*store).await;
    let run = crate::conformance::fixtures::run(thread_id, "one");
    turn(&store, thread_id, vec![human("one")]).await;
    let [admission, after] = turn(&store, thread_id, vec![human("two")]).await;
    for _ in 0..2 {
        commit(&*store, vec![Write::PutCheckpoint(checkpoint(&run, 2))]).await.unwrap();
    }
    // Several points can have the same seq, so the checkpoint id selects one of them. The input of an
    // admission is selected by the checkpoint id just before the admission's own id.
    let input = CheckpointId::from_uuid(uuid::Uuid::from_u128(admission.checkpoint_id.uuid().as_u128() - 1));
    for (keep_seq, named, expected) in [
        (after.head_seq, Some(after.checkpoint_id), 4),
        (after.head_seq, None, 6),
        (admission.input_seq.unwrap() - 1, Some(input), 2),
        (admission.input_seq.unwrap() - 1, None, 1),
        (admission.input_seq.unwrap() - 1, Some(CheckpointId::generate()), 1),
    ] {
        assert_eq!(rewind_to(&store, &run, keep_seq, named).await, expected, "{keep_seq} {named:?}");
    }
}
