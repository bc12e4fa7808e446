//! Threads: creation, changes, lists, prefixes, deletion, counters.

use journal::{
    Error, EventQuery, HandoffFilter, HealthCheckDepth, ImportSource, PAGE_ROWS_MAX, RunPatch, SortDirection,
    SubagentVisibility, ThreadFilter, ThreadPatch, ThreadSort, ThreadSortKey, Write,
};
use protocol::{
    AssistantId, HandoffStatus, Message, NewEvent, OwnerScope, ParentKind, Run, RunId, RunStatus, Thread,
    ThreadId, ThreadState, ThreadStatus, Usage,
};
use serde_json::{Map, Value, json};

use super::SharedStore;
use super::fixtures::{
    ai, all_events, append, at, checkpoint, commit, create, create_run, handoff, human, interrupt, proposal,
    seqs, thread, trace_event,
};

fn page(limit: usize) -> ThreadFilter {
    ThreadFilter::for_scope(OwnerScope::Everyone, limit)
}

fn ids(threads: &[Thread]) -> Vec<ThreadId> {
    threads.iter().map(|thread| thread.thread_id).collect()
}

pub async fn h1_prefixes_resolve(store: SharedStore) {
    for text in [
        "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b",
        "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1c",
        "f0000000-0000-7000-8000-000000000000",
    ] {
        let thread = Thread { thread_id: text.parse().unwrap(), ..thread() };
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    for (prefix, matches) in [
        ("", 3),
        ("0192f0c1", 2),
        ("0192F0C12D3E7", 2),
        ("0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1c", 1),
        ("0192f0c12d3e7a4b8c5d6e7f80910a1c", 1),
        ("0192f0c12d3e7a4b8c5d6e7f80910a1c0", 0),
        ("f", 1),
        ("e", 0),
        ("%", 0),
        ("../../x", 0),
        ("ä", 0),
    ] {
        assert_eq!(
            store.threads_by_prefix(prefix, &OwnerScope::Everyone).await.unwrap().len(),
            matches,
            "{prefix}"
        );
    }
}

pub async fn m2_a_transaction_for_a_thread_without_messages_fails_once_it_has_one(store: SharedStore) {
    let thread_id = create(&*store).await;
    let guarded = |name: &str| {
        let patch = ThreadPatch { name: Some(name.to_owned()), ..ThreadPatch::default() };
        vec![Write::UpdateThread { thread_id, patch }, Write::ExpectNoMessage { thread_id }]
    };
    append(&*store, thread_id, vec![trace_event(1)]).await.unwrap();
    commit(&*store, guarded("before")).await.unwrap();
    append(&*store, thread_id, vec![human("Go on.")]).await.unwrap();
    let refused = commit(&*store, guarded("after")).await.unwrap_err();
    assert!(refused.is_message_conflict() && !refused.is_checkpoint_conflict(), "{refused:?}");
    let stored = store.thread(thread_id).await.unwrap().unwrap();
    assert_eq!(stored.name.as_deref(), Some("before"), "nothing of the transaction is stored");
    let missing = Write::ExpectNoMessage { thread_id: ThreadId::generate() };
    assert!(matches!(commit(&*store, vec![missing]).await, Err(Error::NotFound { .. })));
}

pub async fn h2_creation_is_idempotent(store: SharedStore) {
    let first = Thread {
        name: Some("first".to_owned()),
        parent_id: Some(ThreadId::generate()),
        parent_kind: Some(ParentKind::Fork),
        metadata: Map::from_iter([("a".to_owned(), json!([1, {"b": null}]))]),
        updated_at: at(9),
        ..thread()
    };
    commit(&*store, vec![Write::CreateThread(first.clone())]).await.unwrap();
    append(&*store, first.thread_id, vec![trace_event(0)]).await.unwrap();
    let second = Thread { name: Some("second".to_owned()), ..first.clone() };
    commit(&*store, vec![Write::CreateThread(second.clone()), Write::CreateThread(second)]).await.unwrap();
    let stored = store.thread(first.thread_id).await.unwrap().unwrap();
    assert_eq!(stored, Thread { last_seq: 1, ..first });
    assert_eq!(store.thread(ThreadId::generate()).await.unwrap(), None);
}

pub async fn h2_metadata_is_patched_key_by_key(store: SharedStore) {
    let thread_id = create(&*store).await;
    let update = |metadata: Value, remove: &[&str]| {
        let metadata = metadata.as_object().unwrap().clone();
        let remove = remove.iter().map(|key| (*key).to_owned()).collect();
        Write::UpdateThread {
            thread_id,
            patch: ThreadPatch { metadata, remove_metadata: remove, ..ThreadPatch::default() },
        }
    };
    commit(&*store, vec![update(json!({"a": 1, "b": 2, "c": 3}), &[])]).await.unwrap();
    commit(&*store, vec![update(json!({"c": {"d": 4}, "e": null}), &["b", "unknown"])]).await.unwrap();
    let patch = ThreadPatch {
        name: Some("named".to_owned()),
        status: Some(ThreadStatus::Interrupted),
        ..ThreadPatch::default()
    };
    commit(&*store, vec![Write::UpdateThread { thread_id, patch }]).await.unwrap();
    let stored = store.thread(thread_id).await.unwrap().unwrap();
    assert_eq!(Value::Object(stored.metadata), json!({"a": 1, "c": {"d": 4}, "e": null}));
    assert_eq!((stored.name.as_deref(), stored.status), (Some("named"), ThreadStatus::Interrupted));
    assert_eq!(stored.updated_at, at(0), "a rename does not count as activity");
    let unknown = Write::UpdateThread { thread_id: ThreadId::generate(), patch: ThreadPatch::default() };
    assert!(matches!(commit(&*store, vec![unknown]).await, Err(Error::NotFound { .. })));
}

pub async fn h4_lists_are_ordered_and_paged(store: SharedStore) {
    let parent = create(&*store).await;
    let reviewer: AssistantId = "reviewer".parse().unwrap();
    let mut expected = Vec::new();
    for second in 1..=5 {
        let thread = Thread {
            created_at: at(100 - second),
            updated_at: at(second),
            assistant_id: if second == 3 { reviewer.clone() } else { AssistantId::default() },
            parent_id: (second > 3).then_some(parent),
            ..thread()
        };
        expected.push(thread.thread_id);
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    let recent: Vec<_> = expected.iter().rev().copied().chain([parent]).collect();
    let created: Vec<_> = expected.iter().copied().chain([parent]).collect();
    assert_eq!(ids(&store.threads(page(10)).await.unwrap()), recent);
    assert_eq!(ids(&store.threads(ThreadFilter { offset: 1, ..page(2) }).await.unwrap()), recent[1..3]);
    assert_eq!(
        ids(&store.threads(ThreadFilter { order: ThreadSort::NEWEST, ..page(10) }).await.unwrap()),
        created
    );
    let children = ThreadFilter { parent_id: Some(parent), ..page(10) };
    assert_eq!(ids(&store.threads(children).await.unwrap()), recent[..2]);
    let reviewed = ThreadFilter { assistant_id: Some(reviewer), ..page(10) };
    assert_eq!(ids(&store.threads(reviewed).await.unwrap()), recent[2..3]);
    for limit in [0, PAGE_ROWS_MAX + 1] {
        assert!(matches!(store.threads(page(limit)).await, Err(Error::InvalidRequest { .. })), "{limit}");
    }
    // An event moves its thread to the front of the list. An event with an older time does not move it back.
    let patch = ThreadPatch { updated_at: Some(at(0)), ..ThreadPatch::default() };
    commit(&*store, vec![Write::UpdateThread { thread_id: expected[0], patch }]).await.unwrap();
    append(&*store, expected[0], vec![NewEvent { created_at: at(50), ..trace_event(0) }, trace_event(1)])
        .await
        .unwrap();
    let first = store.threads(page(1)).await.unwrap();
    assert_eq!((first[0].thread_id, first[0].updated_at), (expected[0], at(50)));
}

pub async fn h4_a_list_has_the_threads_that_match_every_filter_field(store: SharedStore) {
    let notes = [
        json!({"graph": "agent", "tags": {"team": "red", "n": 1}}),
        json!({"graph": "agent", "tags": {"team": "blue", "n": 1.0}}),
        json!({"graph": "other", "tags": {"team": "red"}, "note": "a\u{0}b"}),
        json!({}),
    ];
    let statuses = [ThreadStatus::Idle, ThreadStatus::Busy, ThreadStatus::Error, ThreadStatus::Idle];
    let mut all = Vec::new();
    for (second, (notes, status)) in (1..).zip(notes.into_iter().zip(statuses)) {
        let metadata = notes.as_object().unwrap().clone();
        let thread = Thread { metadata, status, updated_at: at(second), ..thread() };
        all.push(thread.thread_id);
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    let having =
        |metadata: Value| ThreadFilter { metadata: metadata.as_object().unwrap().clone(), ..page(10) };
    let of_ids =
        |places: &[usize]| ThreadFilter { ids: places.iter().map(|at| all[*at]).collect(), ..page(10) };
    for (filter, expected) in [
        (page(10), &[3, 2, 1, 0][..]),
        (having(json!({"graph": "agent"})), &[1, 0]),
        (having(json!({"tags": {"n": 1}})), &[1, 0]),
        (having(json!({"tags": {"team": "red"}})), &[2, 0]),
        (having(json!({"tags": {"team": "red"}, "graph": "agent"})), &[0]),
        (having(json!({"tags": "red"})), &[]),
        (having(json!({"absent": null})), &[]),
        (of_ids(&[0, 2]), &[2, 0]),
        (ThreadFilter { ids: vec![ThreadId::generate()], ..page(10) }, &[]),
        (ThreadFilter { statuses: vec![ThreadStatus::Idle], ..page(10) }, &[3, 0]),
        (ThreadFilter { statuses: vec![ThreadStatus::Error, ThreadStatus::Busy], ..page(10) }, &[2, 1]),
        (ThreadFilter { statuses: vec![ThreadStatus::Interrupted], ..page(10) }, &[]),
        (ThreadFilter { statuses: vec![ThreadStatus::Idle], ..having(json!({"graph": "agent"})) }, &[0]),
        (ThreadFilter { without_metadata_key: Some("tags"), ..page(10) }, &[3]),
        (
            ThreadFilter {
                without_metadata_key: Some("graph"),
                statuses: vec![ThreadStatus::Busy],
                ..page(10)
            },
            &[],
        ),
    ] {
        let expected: Vec<ThreadId> = expected.iter().map(|at| all[*at]).collect();
        assert_eq!(ids(&store.threads(filter.clone()).await.unwrap()), expected, "{filter:?}");
        let count =
            store.thread_count(ThreadFilter { offset: 7, limit: 0, ..filter.clone() }, None).await.unwrap();
        assert_eq!(count, expected.len() as u64, "{filter:?}");
        for maximum in 1..=3 {
            let counted = store.thread_count(filter.clone(), Some(maximum)).await.unwrap();
            assert_eq!(counted, maximum.min(expected.len() as u64), "at most {maximum}: {filter:?}");
        }
        // Pages are full even if the filter excludes threads between their rows.
        for offset in 0..=expected.len() {
            let page = store.threads(ThreadFilter { offset, limit: 1, ..filter.clone() }).await.unwrap();
            assert_eq!(ids(&page), expected.iter().skip(offset).take(1).copied().collect::<Vec<_>>());
        }
    }
}

pub async fn h4_a_list_filters_threads_by_a_text_in_the_name_or_first_prompt(store: SharedStore) {
    let names = [Some("Mend the Kettle"), Some("100% of_it! \\ done"), None, Some("Äpfel und Überzüge")];
    let mut all = Vec::new();
    for (second, name) in (1..).zip(names) {
        let thread = Thread { name: name.map(str::to_owned), updated_at: at(second), ..thread() };
        all.push(thread.thread_id);
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    append(&*store, all[2], vec![human("why does my KETTLE leak?")]).await.unwrap();
    for (text, expected) in [
        ("kettle", &[2, 0][..]),
        ("KETTLE LEAK", &[2]),
        ("the k", &[0]),
        ("0% of_", &[1]),
        ("100%of", &[]),
        ("%", &[1]),
        ("_", &[1]),
        ("!", &[1]),
        ("\\", &[1]),
        ("äpfel", &[3]),
        ("überzüge", &[3]),
        ("Überzüge", &[3]),
        ("nothing", &[]),
        ("' OR 1=1 --", &[]),
    ] {
        let filter = ThreadFilter { text: Some(text.to_owned()), ..page(10) };
        let mut expected: Vec<ThreadId> = expected.iter().map(|at| all[*at]).collect();
        let mut thread_ids = ids(&store.threads(filter.clone()).await.unwrap());
        thread_ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(thread_ids, expected, "{text}");
        assert_eq!(store.thread_count(filter, None).await.unwrap(), expected.len() as u64, "{text}");
    }
}

pub async fn h4_one_query_returns_the_tokens_of_a_page_of_threads(store: SharedStore) {
    let (run, without) = (create_run(&*store, "one").await, create(&*store).await);
    let add_usage =
        Some(Usage { input_tokens: 7, output_tokens: 2, cache_read_tokens: 5, ..Usage::default() });
    for _ in 0..2 {
        let patch = RunPatch { add_usage, ..RunPatch::default() };
        commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    }
    let thread_ids = [run.thread_id, without, ThreadId::generate()];
    assert_eq!(store.thread_tokens(&thread_ids).await.unwrap(), [(run.thread_id, 18)]);
    let first = run.thread_id;
    assert!(matches!(
        store.thread_tokens(&vec![first; PAGE_ROWS_MAX + 1]).await,
        Err(Error::InvalidRequest { .. })
    ));
}

pub async fn h4_a_stopped_thread_is_distinguished_from_one_that_waits_for_a_decision(store: SharedStore) {
    let ended = |run: &Run, status| {
        let patch = RunPatch { status: Some(status), ..RunPatch::default() };
        Write::UpdateRun { run_id: run.run_id, patch }
    };
    let left_interrupted = |run: &Run| {
        let patch = ThreadPatch { status: Some(ThreadStatus::Interrupted), ..ThreadPatch::default() };
        vec![
            Write::PutCheckpoint(checkpoint(run, 1)),
            Write::UpdateThread { thread_id: run.thread_id, patch },
        ]
    };
    let stopped = create_run(&*store, "one").await;
    let mut writes = left_interrupted(&stopped);
    writes.push(ended(&stopped, RunStatus::Cancelled));
    commit(&*store, writes).await.unwrap();
    let asking = create_run(&*store, "one").await;
    let mut writes = left_interrupted(&asking);
    writes.push(Write::RaiseInterrupt(interrupt(&asking, "tools", 1)));
    writes.push(ended(&asking, RunStatus::Interrupted));
    commit(&*store, writes).await.unwrap();
    // One run was stopped, and the interrupt of another run is still pending.
    let both = create_run(&*store, "one").await;
    let mut writes = left_interrupted(&both);
    writes.push(Write::RaiseInterrupt(interrupt(&both, "tools", 1)));
    writes.push(ended(&both, RunStatus::Cancelled));
    commit(&*store, writes).await.unwrap();
    let idle = create(&*store).await;

    let mut expected = [
        (stopped.thread_id, ThreadState::Stopped),
        (asking.thread_id, ThreadState::NeedsInput),
        (both.thread_id, ThreadState::NeedsInput),
        (idle, ThreadState::Idle),
    ];
    let thread_ids: Vec<ThreadId> =
        expected.iter().map(|(id, _)| *id).chain([ThreadId::generate()]).collect();
    let mut states = store.thread_states(&thread_ids).await.unwrap();
    states.sort_unstable_by_key(|(id, _)| *id);
    expected.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(states, expected);
    assert!(store.thread_states(&[]).await.unwrap().is_empty());
    assert!(matches!(
        store.thread_states(&vec![idle; PAGE_ROWS_MAX + 1]).await,
        Err(Error::InvalidRequest { .. })
    ));

    for state in ThreadState::ALL {
        let filter = ThreadFilter { state: Some(state), ..page(10) };
        let in_state = expected.iter().filter(|(_, other)| *other == state);
        let in_state: Vec<ThreadId> = in_state.map(|(id, _)| *id).collect();
        let mut listed = ids(&store.threads(filter.clone()).await.unwrap());
        listed.sort_unstable();
        assert_eq!(listed, in_state, "{state:?}");
        assert_eq!(store.thread_count(filter, None).await.unwrap(), in_state.len() as u64, "{state:?}");
    }
    let second = ThreadFilter { state: Some(ThreadState::NeedsInput), offset: 1, ..page(1) };
    assert_eq!(store.threads(second).await.unwrap().len(), 1);
}

pub async fn h4_a_list_can_be_sorted_by_the_displayed_columns(store: SharedStore) {
    let statuses = [ThreadStatus::Idle, ThreadStatus::Busy, ThreadStatus::Interrupted, ThreadStatus::Error];
    let mut all = Vec::new();
    for ((updated, created), status) in [(1, 4), (2, 3), (3, 1), (4, 2)].into_iter().zip(statuses) {
        let thread = Thread { status, updated_at: at(updated), created_at: at(created), ..thread() };
        all.push(thread.thread_id);
        commit(&*store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    for (by, ascending) in [
        (ThreadSortKey::Updated, [0, 1, 2, 3]),
        (ThreadSortKey::Created, [2, 3, 1, 0]),
        (ThreadSortKey::Status, [1, 3, 0, 2]),
        (ThreadSortKey::Id, [0, 1, 2, 3]),
    ] {
        let mut expected = ascending.map(|at| all[at]);
        for direction in [SortDirection::Ascending, SortDirection::Descending] {
            let order = ThreadSort { by, direction };
            let listed = ids(&store.threads(ThreadFilter { order, ..page(10) }).await.unwrap());
            assert_eq!(listed, expected, "{order:?}");
            expected.reverse();
        }
    }
}

pub async fn k1_listing_threads_requires_an_owner_scope(store: SharedStore) {
    create(&*store).await;
    let unsaid = ThreadFilter { limit: 9, ..ThreadFilter::default() };
    // A store that is scoped to one owner implies the scope. Every other store refuses the request.
    for counted in [
        store.threads(unsaid.clone()).await.map(|threads| threads.len() as u64),
        store.thread_count(unsaid, None).await,
    ] {
        assert!(matches!(counted, Err(Error::InvalidRequest { what: "threads", .. }) | Ok(1)), "{counted:?}");
    }
}

pub async fn threads_of_sub_agents_are_listed_on_request(store: SharedStore) {
    let parent = create(&*store).await;
    let child = |parent_id, kind| Thread { parent_id: Some(parent_id), parent_kind: Some(kind), ..thread() };
    let task = child(parent, ParentKind::Subagent);
    let below = child(task.thread_id, ParentKind::Fork);
    let far_below = child(below.thread_id, ParentKind::Handoff);
    let sibling = child(parent, ParentKind::Fork);
    let hidden = [&task, &below, &far_below].map(|thread| thread.thread_id);
    let writes = [&task, &below, &far_below, &sibling].map(|thread| Write::CreateThread(thread.clone()));
    commit(&*store, writes.to_vec()).await.unwrap();
    append(&*store, task.thread_id, vec![NewEvent { created_at: at(50), ..human("hello") }]).await.unwrap();
    for order in [ThreadSort::default(), ThreadSort::NEWEST] {
        let listed = ids(&store.threads(ThreadFilter { order, ..page(9) }).await.unwrap());
        assert_eq!(listed, [sibling.thread_id, parent]);
        let all = ThreadFilter { order, subagents: SubagentVisibility::Shown, ..page(9) };
        let all = ids(&store.threads(all).await.unwrap());
        assert_eq!(all.len(), 5);
        assert!(hidden.iter().all(|id| all.contains(id)));
    }
    let children = ThreadFilter { parent_id: Some(parent), ..page(9) };
    assert_eq!(ids(&store.threads(children.clone()).await.unwrap()), [sibling.thread_id]);
    let children = ThreadFilter { subagents: SubagentVisibility::Shown, ..children };
    assert_eq!(ids(&store.threads(children).await.unwrap()), [task.thread_id, sibling.thread_id]);
    for id in hidden {
        assert_eq!(store.threads_by_prefix(&id.to_string(), &OwnerScope::Everyone).await.unwrap(), [id]);
        assert_eq!(store.thread(id).await.unwrap().unwrap().thread_id, id);
    }
    // Threads of its sub-agents stay hidden after the parent is deleted.
    commit(&*store, vec![Write::DeleteThread { thread_id: task.thread_id }]).await.unwrap();
    assert_eq!(ids(&store.threads(page(9)).await.unwrap()), [sibling.thread_id, parent]);
}

pub async fn a15_a18_counters_follow_the_messages(store: SharedStore) {
    let thread_id = create(&*store).await;
    let injected = human("a reminder").with_metadata(&json!({"injected": true})).unwrap();
    let side = human("for a sub-agent").with_metadata(&json!({"side": true})).unwrap();
    let image = NewEvent::from_message(
        &Message::Human(
            serde_json::from_value(json!({"content": [{"type": "media", "media_type": "image/png"}]}))
                .unwrap(),
        ),
        at(2),
    )
    .unwrap();
    append(&*store, thread_id, vec![trace_event(0), injected, side, image]).await.unwrap();
    assert_eq!(store.thread(thread_id).await.unwrap().unwrap().first_prompt, None);
    append(&*store, thread_id, vec![human("\n fix the test \n"), ai("Looking."), human("thanks")])
        .await
        .unwrap();
    let stored = store.thread(thread_id).await.unwrap().unwrap();
    assert_eq!(stored.first_prompt.as_deref(), Some("fix the test"));
    assert_eq!((stored.message_count, stored.last_seq, stored.updated_at), (6, 7, at(2)));
}

pub async fn a_first_prompt_is_cut_between_graphemes(store: SharedStore) {
    let thread_id = create(&*store).await;
    let family = "👩‍👩‍👧‍👦";
    append(&*store, thread_id, vec![human(&family.repeat(300))]).await.unwrap();
    let prompt = store.thread(thread_id).await.unwrap().unwrap().first_prompt.unwrap();
    assert_eq!(prompt, family.repeat(200));
}

pub async fn h3_deletion_removes_what_belongs_to_the_thread(store: SharedStore) {
    let run = create_run(&*store, "one").await;
    let thread_id = run.thread_id;
    let (as_parent, other) = (handoff(thread_id, 0), create(&*store).await);
    let as_child = protocol::Handoff { child_thread_id: thread_id, ..handoff(other, 0) };
    let raised = interrupt(&run, "approval", 1);
    let import = ImportSource {
        source_key: "key".to_owned(),
        thread_id,
        entries: 1,
        chain: String::new(),
        updated_at: at(0),
    };
    let writes = vec![
        Write::Append { thread_id, events: vec![human("one"), ai("two"), trace_event(3)] },
        Write::PutCheckpoint(checkpoint(&run, 1)),
        Write::RaiseInterrupt(raised.clone()),
        Write::CreateHandoff(as_parent.clone()),
        Write::PutProposal(proposal(&as_parent, 0, "text")),
        Write::CreateHandoff(as_child.clone()),
        Write::PutImport { source: import, expected: None },
    ];
    commit(&*store, writes).await.unwrap();
    append(&*store, other, vec![human("stays")]).await.unwrap();

    let busy = commit(&*store, vec![Write::DeleteThread { thread_id }]).await;
    assert!(matches!(busy, Err(Error::Busy { run_id, .. }) if run_id == run.run_id), "{busy:?}");
    let patch = journal::RunPatch { status: Some(RunStatus::Success), ..journal::RunPatch::default() };
    commit(&*store, vec![Write::UpdateRun { run_id: run.run_id, patch }]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();

    assert_eq!(store.thread(thread_id).await.unwrap(), None);
    assert!(store.events(thread_id, EventQuery::after(0, 9)).await.unwrap().is_empty());
    assert_eq!(store.run(run.run_id).await.unwrap(), None);
    assert_eq!(store.checkpoint(thread_id).await.unwrap(), None);
    assert_eq!(store.interrupt(raised.interrupt_id).await.unwrap(), None);
    assert_eq!(store.handoff(as_parent.handoff_id).await.unwrap(), None);
    assert!(store.proposals(as_parent.handoff_id).await.unwrap().is_empty());
    assert_eq!(store.import_source("key").await.unwrap(), None);
    assert!(store.threads_by_prefix(&thread_id.to_string(), &OwnerScope::Everyone).await.unwrap().is_empty());
    assert_eq!(ids(&store.threads(page(9)).await.unwrap()), [other]);
    // The handoff that seeded the thread stays with its parent for audit.
    let filter = HandoffFilter { child_thread_id: Some(thread_id), ..HandoffFilter::default() };
    assert_eq!(store.handoffs(filter).await.unwrap(), [as_child]);
    let health = store.health(HealthCheckDepth::Integrity).await.unwrap();
    assert_eq!((health.threads, health.events, health.problems), (1, 1, vec![]));
    let again = commit(&*store, vec![Write::DeleteThread { thread_id }]).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
}

pub async fn a26_a_deleted_thread_accepts_no_event(store: SharedStore) {
    let thread_id = create(&*store).await;
    commit(&*store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    let run = super::fixtures::run(thread_id, "late");
    let import = ImportSource {
        source_key: "key".to_owned(),
        thread_id,
        entries: 1,
        chain: String::new(),
        updated_at: at(0),
    };
    for write in [
        Write::Append { thread_id, events: vec![trace_event(0)] },
        Write::PutCheckpoint(checkpoint(&run, 1)),
        Write::RaiseInterrupt(interrupt(&run, "approval", 1)),
        Write::AdmitRun(run),
        Write::CreateHandoff(handoff(thread_id, 0)),
        Write::PutImport { source: import, expected: None },
        Write::UpdateThread { thread_id, patch: ThreadPatch::default() },
    ] {
        let refused = commit(&*store, vec![write.clone()]).await;
        assert!(matches!(refused, Err(Error::NotFound { what: "thread", .. })), "{write:?}: {refused:?}");
    }
    assert!(store.active_runs(None).await.unwrap().is_empty());
    let filter = HandoffFilter { statuses: vec![HandoffStatus::Requested], ..HandoffFilter::default() };
    assert!(store.handoffs(filter).await.unwrap().is_empty());
    assert_eq!(store.run(RunId::generate()).await.unwrap(), None);
}

pub async fn h3_a_deleted_thread_id_can_be_created_again(store: SharedStore) {
    let before = thread();
    let thread_id = before.thread_id;
    commit(&*store, vec![Write::CreateThread(before.clone())]).await.unwrap();
    append(&*store, thread_id, vec![human("old words").with_key("k"), ai("old answer")]).await.unwrap();
    commit(&*store, vec![Write::DeleteThread { thread_id }, Write::CreateThread(before.clone())])
        .await
        .unwrap();
    assert_eq!(store.thread(thread_id).await.unwrap(), Some(Thread { last_seq: 2, ..before }));
    assert!(all_events(&*store, thread_id, &[]).await.is_empty());
    assert_eq!(append(&*store, thread_id, vec![human("new words").with_key("k")]).await.unwrap(), [3]);
    assert_eq!(seqs(&all_events(&*store, thread_id, &[]).await), [3]);
    assert_eq!(store.thread(thread_id).await.unwrap().unwrap().first_prompt.as_deref(), Some("new words"));
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}
