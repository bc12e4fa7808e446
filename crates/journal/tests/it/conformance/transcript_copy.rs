//! Copied transcripts: the events that a fork copies from its source, and those that it does not.

use journal::{Error, HealthCheckDepth, Write};
use protocol::{Category, EventType, RunId, ThreadId};
use serde_json::json;

use super::SharedStore;
use super::fixtures::{
    ai, all_events, append, artifact, commit, create, event, fork, human, messages, rewind, seqs, thread,
    trace_event,
};

pub async fn b12_a_copy_has_the_transcript_at_the_same_seqs(store: SharedStore) {
    let run_id = RunId::generate();
    let source = create(&*store).await;
    let side = human("to a sub-agent").with_metadata(&json!({"side": true})).unwrap();
    let events = vec![
        event(EventType::ThreadCreated, &json!({"origin": "new"})),
        side,
        human("fix it").with_run(run_id).with_key("k"),
        trace_event(0),
        ai("done").with_run(run_id),
        event(EventType::ImportedBoundary, &json!({"label": "b"})),
        event(EventType::ImportedNote, &json!({"role": "user", "text": "n"})),
        event(EventType::RunEnded, &json!({"status": "success"})),
    ];
    append(&*store, source, events).await.unwrap();
    let before = all_events(&*store, source, &[]).await;
    let fork = fork(&*store, source, None).await;
    let copied = all_events(&*store, fork, &[]).await;
    assert_eq!(seqs(&copied), [2, 3, 5, 6, 7]);
    for event in &copied {
        let original = &before[event.seq as usize - 1];
        assert_eq!(*event, protocol::Event { thread_id: fork, ..original.clone() });
    }
    let stored = store.thread(fork).await.unwrap().unwrap();
    assert_eq!((stored.last_seq, stored.message_count), (8, 3));
    assert_eq!(stored.first_prompt.as_deref(), Some("fix it"));
    assert_eq!(append(&*store, fork, vec![human("and then").with_key("k")]).await.unwrap(), [9]);
    assert_eq!(all_events(&*store, source, &[]).await, before, "the source is unchanged");
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.events, health.problems), (14, vec![]));
}

pub async fn b12_a_copy_ends_at_the_given_seq_and_skips_superseded_events(store: SharedStore) {
    let source = create(&*store).await;
    append(&*store, source, (1..=4).map(|n| human(&n.to_string())).collect()).await.unwrap();
    rewind(&*store, source, 2).await.unwrap();
    append(&*store, source, (6..=8).map(|n| ai(&n.to_string())).collect()).await.unwrap();
    for (until, expected, next) in [
        (None, &[1, 2, 6, 7, 8][..], 9),
        (Some(u64::MAX), &[1, 2, 6, 7, 8], 9),
        (Some(7), &[1, 2, 6, 7], 8),
        (Some(4), &[1, 2], 5),
        (Some(1), &[1], 2),
        (Some(0), &[], 1),
    ] {
        let forked = fork(&*store, source, until).await;
        assert_eq!(seqs(&all_events(&*store, forked, &[]).await), expected, "until {until:?}");
        let prompt = store.thread(forked).await.unwrap().unwrap().first_prompt;
        assert_eq!(prompt.as_deref(), (!expected.is_empty()).then_some("1"), "until {until:?}");
        assert_eq!(append(&*store, forked, vec![trace_event(0)]).await.unwrap(), [next], "until {until:?}");
        // A copy of a copy and its rewinds do not affect another thread.
        let copy_of_copy = fork(&*store, forked, None).await;
        assert_eq!(seqs(&all_events(&*store, copy_of_copy, &[]).await), expected, "until {until:?}");
        rewind(&*store, forked, 1).await.unwrap();
        assert_eq!(seqs(&all_events(&*store, copy_of_copy, &[]).await), expected, "until {until:?}");
    }
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

pub async fn a_long_transcript_is_copied_whole(store: SharedStore) {
    let source = create(&*store).await;
    let events = (0..2_001).map(|n| if n % 3 == 0 { trace_event(n) } else { human("word") });
    append(&*store, source, events.collect()).await.unwrap();
    let fork = fork(&*store, source, None).await;
    let messages = |thread_id| {
        let store = store.clone();
        async move { seqs(&all_events(&*store, thread_id, &[Category::Message]).await) }
    };
    assert_eq!(messages(fork).await, messages(source).await);
    assert_eq!(store.thread(fork).await.unwrap().unwrap().message_count, 1_334);
}

pub async fn only_a_thread_without_events_accepts_a_copy(store: SharedStore) {
    let (source, used) = (create(&*store).await, create(&*store).await);
    append(&*store, source, vec![human("one")]).await.unwrap();
    append(&*store, used, vec![trace_event(0)]).await.unwrap();
    let again = thread();
    let again_id = again.thread_id;
    commit(&*store, vec![Write::CreateThread(again.clone())]).await.unwrap();
    append(&*store, again_id, vec![trace_event(0)]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id: again_id }, Write::CreateThread(again)])
        .await
        .unwrap();
    for into in [used, source, again_id] {
        let refused = commit(&*store, vec![Write::CopyEvents { from: source, until: None, into }]).await;
        assert!(matches!(refused, Err(Error::InvalidRequest { .. })), "{refused:?}");
    }
    let blank = create(&*store).await;
    for (from, into) in [(ThreadId::generate(), blank), (source, ThreadId::generate())] {
        let refused = commit(&*store, vec![Write::CopyEvents { from, until: None, into }]).await;
        assert!(matches!(refused, Err(Error::NotFound { what: "thread", .. })), "{refused:?}");
    }
    commit(&*store, vec![Write::CopyEvents { from: source, until: None, into: blank }]).await.unwrap();
    let twice = commit(&*store, vec![Write::CopyEvents { from: source, until: None, into: blank }]).await;
    assert!(matches!(twice, Err(Error::InvalidRequest { .. })), "{twice:?}");
}

pub async fn a_copy_outlives_its_source(store: SharedStore) {
    let source = create(&*store).await;
    append(&*store, source, vec![human("a rare word")]).await.unwrap();
    let stored = artifact(source, 1, b"bytes");
    commit(&*store, vec![Write::PutArtifact(stored.clone())]).await.unwrap();
    let fork = fork(&*store, source, None).await;
    assert_eq!(threads_with(&store, "rare").await.len(), 1, "the word is found once");
    commit(&*store, vec![Write::DeleteThread { thread_id: source }]).await.unwrap();
    assert_eq!(threads_with(&store, "rare").await, [fork]);
    let mine = store.artifact(fork, &stored.sha256).await.unwrap().unwrap();
    assert_eq!(mine, journal::Artifact { thread_id: fork, ..stored });
    assert_eq!(seqs(&all_events(&*store, fork, &[]).await), [1]);
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

/// Returns the threads in which a search finds the word.
async fn threads_with(store: &SharedStore, word: &str) -> Vec<ThreadId> {
    let mut threads =
        messages(&**store, word).await.into_iter().map(|(thread_id, _)| thread_id).collect::<Vec<_>>();
    threads.sort_unstable();
    threads
}
