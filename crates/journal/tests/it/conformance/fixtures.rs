//! Row fixtures of the conformance suite. Values that no test depends on are filled in. Fixtures make no assertions about
//! a backend.

use jiff::Timestamp;
use journal::view::HistoryEntry;
use journal::{
    Artifact, CommitReceipt, EventQuery, HistoryQuery, HitLocation, IndexHit, Result, RunPatch, SearchQuery,
    Store, Transaction, WordMatchMode, Write, history_page,
};
use protocol::{
    AiMessage, AssistantId, Category, Checkpoint, CheckpointId, CheckpointSource, CompactionUndone,
    ContentBlock, Event, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary, Interrupt,
    InterruptId, InterruptPayload, InterruptStatus, Message, NewEvent, Proposal, Rating, Run, RunFeedback,
    RunId, RunStatus, Seq, Thread, ThreadId, ToolMessage, ToolStatus, Usage,
};
use serde_json::{Map, Value, json};

/// Returns a fixed base time plus `second` seconds.
pub fn at(second: i64) -> Timestamp {
    Timestamp::new(1_700_000_000 + second, 123_456_789).unwrap()
}

/// Returns a new thread of the default assistant.
pub fn thread() -> Thread {
    Thread::blank(ThreadId::generate(), AssistantId::default(), at(0))
}

/// Returns an active run of the thread, with a lease of `owner`.
pub fn run(thread_id: ThreadId, owner: &str) -> Run {
    Run {
        run_id: RunId::generate(),
        thread_id,
        assistant_id: AssistantId::default(),
        status: RunStatus::Running,
        model: Some("scripted/one".to_owned()),
        failure: None,
        lease_owner: Some(owner.to_owned()),
        lease_until: Some(at(60)),
        usage: Usage::default(),
        created_at: at(0),
        updated_at: at(0),
    }
}

/// Returns a checkpoint of the run with the given step number.
pub fn checkpoint(run: &Run, step: u64) -> Checkpoint {
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id: run.thread_id,
        run_id: run.run_id,
        step,
        head_seq: 0,
        next: Some("model".to_owned()),
        channels: Map::from_iter([("_private".to_owned(), json!({"a": [1, null]}))]),
        activities: Vec::new(),
        source: CheckpointSource::Loop,
        created_at: at(0),
    }
}

/// Returns a pending interrupt of the run, raised by `node`.
pub fn interrupt(run: &Run, node: &str, second: i64) -> Interrupt {
    Interrupt {
        interrupt_id: InterruptId::derive(run.run_id, 1, node),
        thread_id: run.thread_id,
        run_id: run.run_id,
        node: node.to_owned(),
        payload: InterruptPayload {
            schema_version: 1,
            middleware_source: "HandoffApprovalMiddleware".to_owned(),
            action_requests: Vec::new(),
            review_configs: Vec::new(),
            workspace: None,
        },
        status: InterruptStatus::Pending,
        decisions: None,
        created_at: at(second),
        resolved_at: None,
    }
}

/// Returns a handoff of the parent thread in its first status, requested at `second`.
pub fn handoff(parent_thread_id: ThreadId, second: i64) -> Handoff {
    Handoff {
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id,
        child_thread_id: ThreadId::generate(),
        status: HandoffStatus::Requested,
        iteration: 0,
        goal: Some("ship it".to_owned()),
        run_id: None,
        options: json!({"messages": 40}),
        accepted_sha256: None,
        note: None,
        created_at: at(second),
        updated_at: at(second),
    }
}

/// Returns a proposal of the handoff with the given iteration number.
pub fn proposal(handoff: &Handoff, iteration: u32, package_md: &str) -> Proposal {
    let summary_json: HandoffSummary = serde_json::from_value(json!({
        "schema_version": 1, "handoff_id": handoff.handoff_id, "assistant_id": handoff.assistant_id,
        "parent_thread_id": handoff.parent_thread_id, "child_thread_id": null, "title": "T", "tldr": "t",
        "body": [{"kind": "objective", "text": package_md, "refs": [1], "verified": true}],
        "model": "extractive", "model_run_id": null, "tokens_used": 0, "iteration": iteration,
        "created_at": handoff.created_at,
        "coverage": {"first_seq": 1, "last_seq": 2, "verbatim": [], "summarized": [], "truncated": [], "excluded": []},
        "carried": {"last_user_request": null},
    }))
    .unwrap();
    Proposal {
        handoff_id: handoff.handoff_id,
        iteration,
        summary_json,
        package_md: package_md.to_owned(),
        summary_sha256: format!("{:064x}", package_md.len()),
        feedback: None,
        created_at: at(1),
    }
}

/// Returns a user message.
pub fn human(text: &str) -> NewEvent {
    NewEvent::from_message(&Message::human(text), at(1)).unwrap()
}

/// Returns a model message.
pub fn ai(text: &str) -> NewEvent {
    NewEvent::from_message(&Message::ai(text), at(1)).unwrap()
}

/// Returns a model message with a tool call for each id.
pub fn tool_calls(ids: &[&str]) -> NewEvent {
    let call = |id: &&str| ContentBlock::ToolCall {
        id: (*id).to_owned(),
        name: "read_file".to_owned(),
        args: json!({"path": *id}),
    };
    let message = AiMessage { content: ids.iter().map(call).collect(), ..AiMessage::default() };
    NewEvent::from_message(&Message::Ai(message), at(1)).unwrap()
}

/// Returns the result of the tool call with this id.
pub fn tool_result(call_id: &str, text: &str) -> NewEvent {
    let message = ToolMessage {
        id: None,
        call_id: call_id.to_owned(),
        name: None,
        content: vec![ContentBlock::text(text)],
        status: ToolStatus::Success,
    };
    NewEvent::from_message(&Message::Tool(message), at(1)).unwrap()
}

/// Returns the boundary event of a compaction of `first_seq..=last_seq`. The message `request` is kept verbatim.
pub fn compaction_event((first_seq, last_seq): (Seq, Seq), request: Option<Seq>, summary: &str) -> NewEvent {
    let content = json!({
        "schema_version": 1, "trigger": "auto", "first_seq": first_seq, "last_seq": last_seq,
        "replaced_count": 1, "kept_count": 1, "tokens_before": 900, "tokens_after": 90, "model": "extractive",
        "summary": summary, "sections": {"goal": "g"}, "carry_over": {}, "last_request_seq": request,
        "duration_ms": 1,
    });
    event(EventType::Compacted, &content)
}

/// Returns the event that undoes a compaction and restores the clipped results `clip_seqs`.
pub fn undo_event(marker_seq: Seq, clip_seqs: Vec<Seq>) -> NewEvent {
    event(EventType::CompactionUndone, &json!(CompactionUndone { marker_seq, clip_seqs }))
}

/// Returns the event that replaces the tool result at `seq` by a shorter text.
pub fn clip_event(seq: Seq, text: &str) -> NewEvent {
    let content = json!({"seq": seq, "call_id": "c", "sha256": "0".repeat(64), "bytes": 9, "text": text});
    event(EventType::ResultClipped, &content)
}

/// Returns the local operator's feedback on a run.
pub fn feedback(run: &Run, rating: Rating, second: i64) -> RunFeedback {
    RunFeedback {
        thread_id: run.thread_id,
        run_id: run.run_id,
        user_id: RunFeedback::LOCAL_USER.to_owned(),
        rating,
        comment: None,
        created_at: at(second),
        updated_at: at(second),
    }
}

/// Returns an event of the given type.
pub fn event(event_type: EventType, content: &Value) -> NewEvent {
    NewEvent::new(event_type, content, at(1)).unwrap()
}

/// Returns an artifact of the thread. `number` determines its hash, so that tests control its name.
pub fn artifact(thread_id: ThreadId, number: u8, bytes: &[u8]) -> Artifact {
    Artifact {
        thread_id,
        sha256: format!("{number:064x}"),
        media_type: "image/png".to_owned(),
        bytes: bytes.to_owned(),
        created_at: at(1),
    }
}

/// Returns an event that is in the trace but not in the displayed history.
pub fn trace_event(number: u64) -> NewEvent {
    NewEvent::new(EventType::MemoryRead, &json!({"sources": [], "number": number}), at(1)).unwrap()
}

/// Commits the writes in one transaction without a fencing token.
pub async fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<CommitReceipt> {
    store.commit(Transaction { fence: None, writes }).await
}

/// Appends events to a thread and returns their seqs.
pub async fn append(store: &dyn Store, thread_id: ThreadId, events: Vec<NewEvent>) -> Result<Vec<Seq>> {
    let committed = commit(store, vec![Write::Append { thread_id, events }]).await?;
    Ok(committed.seqs.into_iter().next().unwrap())
}

/// Rewinds a thread as a caller does, together with its `rewound` event. Returns the seq of that event.
pub async fn rewind(store: &dyn Store, thread_id: ThreadId, keep_seq: Seq) -> Result<Vec<Seq>> {
    let superseded = store.messages_after(thread_id, keep_seq).await?;
    let content = json!({"keep_seq": keep_seq, "superseded": superseded});
    let writes = vec![
        Write::Rewind { thread_id, keep_seq, at: at(3) },
        Write::Append { thread_id, events: vec![event(EventType::ThreadRewound, &content)] },
    ];
    Ok(commit(store, writes).await?.seqs.remove(0))
}

/// Returns a query that requires every word of `text` and has no other filter.
pub fn search_for(text: &str) -> SearchQuery {
    let words = text.split_whitespace().map(str::to_owned).collect();
    SearchQuery { words, match_mode: WordMatchMode::All, limit: 50, ..SearchQuery::default() }
}

/// Returns the messages that contain every word of `text`.
pub async fn messages(store: &dyn Store, text: &str) -> Vec<(ThreadId, Seq)> {
    let hits = store.search(search_for(text)).await.unwrap().hits;
    let place = |hit: IndexHit| match hit.location {
        HitLocation::Message { thread_id, seq, .. } => Some((thread_id, seq)),
        HitLocation::Summary { .. } | HitLocation::Handoff { .. } | HitLocation::Item { .. } => None,
    };
    hits.into_iter().filter_map(place).collect()
}

/// Creates a thread and returns its id.
pub async fn create(store: &dyn Store) -> ThreadId {
    let thread = thread();
    let thread_id = thread.thread_id;
    commit(store, vec![Write::CreateThread(thread)]).await.unwrap();
    thread_id
}

/// Creates a thread with an active run.
pub async fn create_run(store: &dyn Store, owner: &str) -> Run {
    let run = run(create(store).await, owner);
    commit(store, vec![Write::AdmitRun(run.clone())]).await.unwrap();
    run
}

/// Commits a run of the thread from its admission to its end, with these events.
pub async fn complete_run(store: &dyn Store, thread_id: ThreadId, events: Vec<NewEvent>) -> Run {
    let run = run(thread_id, "one");
    let events = events.into_iter().map(|event| event.with_run(run.run_id)).collect();
    let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
    let writes = vec![
        Write::AdmitRun(run.clone()),
        Write::Append { thread_id, events },
        Write::UpdateRun { run_id: run.run_id, patch },
    ];
    commit(store, writes).await.unwrap();
    run
}

/// Copies a thread into a new one.
pub async fn fork(store: &dyn Store, from: ThreadId, until: Option<Seq>) -> ThreadId {
    let fork = thread();
    let into = fork.thread_id;
    let writes = vec![Write::CreateThread(fork), Write::CopyEvents { from, until, into }];
    commit(store, writes).await.unwrap();
    into
}

/// Reads the whole history of a thread, in pages from the newest back.
pub async fn all_history(store: &dyn Store, thread_id: ThreadId, limit: usize) -> Vec<HistoryEntry> {
    let mut entries: Vec<HistoryEntry> = Vec::new();
    loop {
        let before_seq = entries.first().map(|entry| entry.seq);
        let query = HistoryQuery { before_seq, limit, ..HistoryQuery::default() };
        let page = history_page(store, thread_id, &query).await.unwrap();
        assert!(
            page.entries.len() == limit || !page.has_more_before,
            "a page is full unless it is the last one"
        );
        assert_eq!(page.has_more_after, before_seq.is_some());
        entries.splice(0..0, page.entries);
        if !page.has_more_before {
            return entries;
        }
    }
}

/// Reads every event of a thread, in pages.
pub async fn all_events(store: &dyn Store, thread_id: ThreadId, categories: &[Category]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event.seq);
        let query = EventQuery { categories: categories.to_vec(), ..EventQuery::after(after, 97) };
        let page = store.events(thread_id, query).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// Returns the seqs of the events.
pub fn seqs(events: &[Event]) -> Vec<Seq> {
    events.iter().map(|event| event.seq).collect()
}
