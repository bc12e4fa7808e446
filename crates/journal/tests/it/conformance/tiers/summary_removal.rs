//! Removal of summaries: their turns become active again in every context that they had left, and no deleted text
//! remains.

use journal::{Error, RunPatch, Store, TurnQuery, TurnSummarization, Write};
use protocol::{
    ArchiveReason, AssistantId, EventType, LoggedMessage, RunStatus, Seq, SummaryId, ThreadId, TurnsArchived,
    TurnsRestored,
};

use super::memory_fixtures::{
    all_turns, append_turns, archive_event, current_version, newest_query, read_turns, search_summaries,
    summarization, summarize_turns, summary, summary_texts, turn_indexes,
};
use crate::conformance::SharedStore;
use crate::conformance::fixtures::{
    all_events, all_history, append, commit, create, create_run, event, fork, human, rewind,
};

pub async fn f7_restored_turns_are_active_and_their_summary_is_deleted(store: SharedStore) {
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 6).await;
    let retained = summarize_turns(&*store, thread_id, (1, 2), ("a heron", (1, 2))).await;
    let restored = summarize_turns(&*store, thread_id, (3, 4), ("a grebe", (3, 4))).await;
    assert_eq!(search_summaries(&*store, "grebe").await, [restored.id]);
    let restore = vec![Write::RestoreTurns {
        summary_ids: vec![restored.id, SummaryId::generate(), restored.id],
        scope: None,
    }];
    for _ in 0..2 {
        commit(&*store, restore.clone()).await.unwrap();
        assert_eq!(turn_indexes(&*store).await, (vec![3, 4, 5, 6], vec![1, 2]));
        assert_eq!(
            (search_summaries(&*store, "heron").await, search_summaries(&*store, "grebe").await),
            (vec![retained.id], vec![])
        );
    }
    let shown = all_history(&*store, thread_id, 3).await;
    assert_eq!(
        shown.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7],
        "not the second one"
    );
}

pub async fn f7_rewinding_turns_of_a_summary_or_its_event_dissolves_the_summary(store: SharedStore) {
    for (keep, active, summarised, withdrawn) in [
        // The rewind hides the summary's event: the turns are in the context again.
        (6, vec![1, 2, 3, 4, 5, 6], vec![], 0),
        (4, vec![1, 2, 3, 4], vec![], 2),
        // The rewind hides a turn of the summary: its other turns are active again.
        (2, vec![1, 2], vec![], 4),
        (0, vec![], vec![], 6),
        // The rewind hides only later events.
        (7, vec![4, 5, 6], vec![1, 2, 3], 2),
    ] {
        let thread_id = create(&*store).await;
        append_turns(&*store, thread_id, 6).await;
        let base = all_turns(&*store).await[0].turn_index - 1;
        let summary = summarize_turns(&*store, thread_id, (base + 1, base + 3), ("a heron", (1, 3))).await;
        append_turns(&*store, thread_id, 2).await;
        rewind(&*store, thread_id, keep).await.unwrap();
        let of_thread =
            TurnQuery { thread_id: Some(thread_id), ..TurnQuery::for_agent(AssistantId::default()) };
        let all = read_turns(&*store, of_thread).await;
        let of = |is_wanted: fn(&LoggedMessage) -> bool| -> Vec<u64> {
            all.iter().filter(|turn| is_wanted(turn)).map(|turn| turn.turn_index - base).collect()
        };
        assert_eq!(of(|turn| !turn.is_archived), active, "rewound to {keep}");
        assert_eq!(of(|turn| turn.summary_id.is_some()), summarised, "rewound to {keep}");
        let taken_back = of(|turn| turn.is_archived && turn.summary_id.is_none()).len();
        assert_eq!(taken_back, if keep == 6 || keep == 7 { 2 } else { withdrawn + 2 }, "rewound to {keep}");
        assert_eq!(search_summaries(&*store, "heron").await.contains(&summary.id), !summarised.is_empty());
        commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    }
}

/// A summary may cover turns of several threads.
pub async fn f7_dissolving_a_shared_summary_restores_the_turns_of_the_other_threads(store: SharedStore) {
    for is_deleted in [true, false] {
        let (one, two) = (create(&*store).await, create(&*store).await);
        append_turns(&*store, one, 2).await;
        append_turns(&*store, two, 2).await;
        let base = all_turns(&*store).await[0].turn_index - 1;
        let both = TurnSummarization {
            thread_id: None,
            turns: 4,
            thread_versions: vec![current_version(one), current_version(two)],
            summary: summary((base + 1, base + 4), "of both"),
        };
        let announcement = |thread_id| Write::Append {
            thread_id,
            events: vec![archive_event(&both.summary, ArchiveReason::Request, (1, 2))],
        };
        commit(&*store, vec![Write::SummarizeTurns(both.clone()), announcement(one), announcement(two)])
            .await
            .unwrap();
        append(&*store, two, vec![human("on")]).await.unwrap();
        match is_deleted {
            true => drop(commit(&*store, vec![Write::DeleteThread { thread_id: one }]).await.unwrap()),
            false => drop(rewind(&*store, one, 1).await.unwrap()),
        }
        let events = all_events(&*store, two, &[]).await;
        let sent: Vec<Seq> = journal::view::context(&events).iter().map(|(seq, _)| *seq).collect();
        assert_eq!(sent, [1, 2, 4], "its turns are in its context again");
        let of_two = TurnQuery { thread_id: Some(two), ..TurnQuery::for_agent(AssistantId::default()) };
        assert!(read_turns(&*store, of_two).await.iter().all(|turn| !turn.is_archived));
        assert_eq!(summary_texts(&*store, newest_query()).await, Vec::<String>::new());
        commit(&*store, vec![Write::DeleteThread { thread_id: two }]).await.unwrap();
    }
}

/// Summarizes the two turns of each thread into one summary and announces it in both threads.
async fn summarize_both(store: &dyn Store, threads: [ThreadId; 2], text: &str) -> SummaryId {
    let first = async |thread_id| {
        let of_thread =
            TurnQuery { thread_id: Some(thread_id), ..TurnQuery::for_agent(AssistantId::default()) };
        read_turns(store, of_thread).await[0].turn_index
    };
    let base = first(threads[0]).await;
    let summary = summary((base, base + 3), text);
    let announcements = threads.map(|thread_id| Write::Append {
        thread_id,
        events: vec![archive_event(&summary, ArchiveReason::Request, (1, 2))],
    });
    let id = summary.id;
    let both = TurnSummarization {
        summary,
        thread_id: None,
        turns: 4,
        thread_versions: threads.map(current_version).into(),
    };
    commit(store, [vec![Write::SummarizeTurns(both)], announcements.into()].concat()).await.unwrap();
    id
}

/// Returns the events that announced messages as restored to the thread's context.
async fn restored_seqs(store: &dyn Store, thread_id: ThreadId) -> Vec<(Seq, Vec<Seq>)> {
    let events = all_events(store, thread_id, &[]).await;
    let events = events.iter().filter(|event| event.kind() == Some(EventType::TurnsRestored));
    let read = |content: &str| serde_json::from_str::<TurnsRestored>(content).unwrap().archived_seqs;
    events.map(|event| (event.seq, read(event.content.get()))).collect()
}

/// Returns the seqs of the messages in the thread's context.
async fn context_seqs(store: &dyn Store, thread_id: ThreadId) -> Vec<Seq> {
    let events = all_events(store, thread_id, &[]).await;
    journal::view::context(&events).iter().map(|(seq, _)| *seq).collect()
}

/// A cached context is refreshed from the events that were added since.
pub async fn f7_restored_turns_are_announced_in_their_threads(store: SharedStore) {
    for what in ["rewind", "delete", "restore"] {
        let threads @ [one, two] = [create(&*store).await, create(&*store).await];
        append_turns(&*store, one, 2).await;
        append_turns(&*store, two, 2).await;
        let id = summarize_both(&*store, threads, "of both").await;
        let changed_at = store.thread(two).await.unwrap().unwrap().updated_at;
        match what {
            "rewind" => drop(rewind(&*store, one, 1).await.unwrap()),
            "delete" => drop(commit(&*store, vec![Write::DeleteThread { thread_id: one }]).await.unwrap()),
            _ => drop(
                commit(&*store, vec![Write::RestoreTurns { summary_ids: vec![id], scope: None }])
                    .await
                    .unwrap(),
            ),
        }
        assert_eq!(restored_seqs(&*store, two).await, [(4, vec![3])], "{what}");
        assert_eq!(context_seqs(&*store, two).await, [1, 2], "{what}");
        assert_eq!(all_history(&*store, two, 9).await.len(), 2, "history does not display the event: {what}");
        assert_eq!(store.thread(two).await.unwrap().unwrap().updated_at, changed_at, "{what}");
        let of_one = restored_seqs(&*store, one).await;
        assert_eq!(
            of_one.len(),
            usize::from(what == "restore"),
            "a rewind or deletion adds no event to its own thread: {what}"
        );
        assert!(journal::view::context::is_context_change(
            all_events(&*store, two, &[]).await.last().unwrap()
        ));
    }
    // Undoing a compaction restores the compacted messages without another event.
    let thread_id = create(&*store).await;
    append_turns(&*store, thread_id, 2).await;
    let turn = all_turns(&*store).await.last().unwrap().turn_index;
    let compacted = summarization(thread_id, (turn, turn), "condensed");
    let (id, announcement) =
        (compacted.summary.id, archive_event(&compacted.summary, ArchiveReason::Compaction, (2, 2)));
    let append = Write::Append { thread_id, events: vec![announcement] };
    let restore = Write::RestoreTurns { summary_ids: vec![id], scope: None };
    commit(&*store, vec![Write::SummarizeTurns(compacted), append, restore]).await.unwrap();
    assert_eq!(restored_seqs(&*store, thread_id).await, []);
}

pub async fn f7_a_context_does_not_change_during_a_run(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let ended = |status| Write::UpdateRun {
        run_id: run.run_id,
        patch: RunPatch { status: Some(status), ..RunPatch::default() },
    };
    let (one, two) = (create(&*store).await, run.thread_id);
    append_turns(&*store, one, 2).await;
    append_turns(&*store, two, 2).await;
    commit(&*store, vec![ended(RunStatus::Success)]).await.unwrap();
    let id = summarize_both(&*store, [one, two], "of both").await;
    let next = crate::conformance::fixtures::run(two, "one");
    commit(&*store, vec![Write::AdmitRun(next.clone())]).await.unwrap();
    for write in [
        Write::RestoreTurns { summary_ids: vec![id], scope: None },
        Write::DeleteThread { thread_id: one },
        Write::Rewind { thread_id: one, keep_seq: 1, at: crate::conformance::fixtures::at(3) },
    ] {
        let refused = commit(&*store, vec![write]).await.unwrap_err();
        assert!(
            matches!(refused, Error::Busy { thread_id, run_id } if (thread_id, run_id) == (two, next.run_id))
        );
        assert_eq!(summary_texts(&*store, newest_query()).await, ["of both"]);
    }
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    commit(&*store, vec![Write::UpdateRun { run_id: next.run_id, patch }]).await.unwrap();
    rewind(&*store, one, 1).await.unwrap();
    assert_eq!(context_seqs(&*store, two).await, [1, 2]);
}

/// A copy keeps its archive event when the source is rewound. Only deleting the source removes the text.
pub async fn k9_in_a_copy_the_archive_event_of_a_deleted_thread_hides_nothing(store: SharedStore) {
    let threads @ [one, two] = [create(&*store).await, create(&*store).await];
    append_turns(&*store, one, 2).await;
    append_turns(&*store, two, 2).await;
    summarize_both(&*store, threads, "of the heron").await;
    append_turns(&*store, two, 4).await;
    // The event states that no message before seq 6 is in the context.
    let own = summarization(two, (5, 6), "of the grebe");
    let archived = archive_event(&own.summary, ArchiveReason::Budget, (4, 5));
    let archived: TurnsArchived = serde_json::from_str(archived.content.get()).unwrap();
    let archived = TurnsArchived { context_from: Some(6), ..archived };
    let archived = event(EventType::TurnsArchived, &serde_json::to_value(archived).unwrap());
    let events = vec![archived];
    commit(&*store, vec![Write::SummarizeTurns(own), Write::Append { thread_id: two, events }])
        .await
        .unwrap();
    let fork = fork(&*store, two, None).await;
    append(&*store, fork, vec![human("on")]).await.unwrap();
    assert_eq!(
        (context_seqs(&*store, two).await, context_seqs(&*store, fork).await),
        (vec![6, 7], vec![6, 7, 9])
    );
    rewind(&*store, one, 1).await.unwrap();
    assert_eq!(
        context_seqs(&*store, two).await,
        [1, 2, 4, 5, 6, 7],
        "threads of the summary have their turns again"
    );
    assert_eq!(context_seqs(&*store, fork).await, [6, 7, 9], "the copy is unchanged");
    commit(&*store, vec![Write::DeleteThread { thread_id: one }]).await.unwrap();
    assert_eq!(
        context_seqs(&*store, fork).await,
        [1, 2, 6, 7, 9],
        "the event of the remaining summary still hides its messages"
    );
    assert_eq!(restored_seqs(&*store, fork).await, [(10, vec![3])]);
    let words =
        |events: Vec<protocol::Event>| events.iter().any(|event| event.content.get().contains("heron"));
    for thread_id in [two, fork] {
        assert!(!words(all_events(&*store, thread_id, &[]).await));
    }
}

pub async fn k9_deleting_a_thread_deletes_the_events_and_summaries_that_quote_it(store: SharedStore) {
    let (retained, deleted) = (create(&*store).await, create(&*store).await);
    append_turns(&*store, retained, 2).await;
    append_turns(&*store, deleted, 2).await;
    let remaining = summarize_turns(&*store, retained, (1, 2), ("a heron", (1, 2))).await;
    summarize_turns(&*store, deleted, (3, 4), ("a grebe", (1, 2))).await;
    commit(&*store, vec![Write::DeleteThread { thread_id: deleted }]).await.unwrap();
    assert_eq!(summary_texts(&*store, newest_query()).await, ["a heron"]);
    assert_eq!(
        (search_summaries(&*store, "heron").await, search_summaries(&*store, "grebe").await),
        (vec![remaining.id], vec![])
    );
    assert_eq!(turn_indexes(&*store).await, (vec![], vec![1, 2]));
}

/// A copy has the events. The turns in memory still belong to the source.
pub async fn b12_a_copy_neither_owns_nor_dissolves_summaries(store: SharedStore) {
    let source = create(&*store).await;
    append_turns(&*store, source, 4).await;
    let summary = summarize_turns(&*store, source, (1, 2), ("a heron", (1, 2))).await;
    let (fork, early) = (fork(&*store, source, None).await, fork(&*store, source, Some(4)).await);
    let context = async |thread_id| {
        let events = all_events(&*store, thread_id, &[]).await;
        journal::view::context(&events)
            .into_iter()
            .map(|(seq, message)| (seq, message.text()))
            .collect::<Vec<_>>()
    };
    assert_eq!(context(fork).await, context(source).await);
    assert_eq!(context(early).await.len(), 4, "the copy ends before the summarization");
    append(&*store, fork, vec![human("on")]).await.unwrap();
    rewind(&*store, fork, 3).await.unwrap();
    assert_eq!(context(fork).await.len(), 3, "the fork's context has the turns again");
    assert_eq!(
        turn_indexes(&*store).await,
        (vec![3, 4], vec![1, 2]),
        "the turns in memory belong to the source"
    );
    commit(&*store, vec![Write::DeleteThread { thread_id: fork }]).await.unwrap();
    assert_eq!(search_summaries(&*store, "heron").await, [summary.id]);
}
