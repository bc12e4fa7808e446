//! Guarantees of the SQLite backend beyond the trait: files, restarts, rows read by other crates, closing.

#[cfg(unix)]
mod disk_faults;
mod size;
mod wal;

use std::path::Path;
use std::sync::Arc;

use journal::{
    HealthCheckDepth, HistoryQuery, SqliteStore, Store, SupersededVisibility, ThreadFilter, Write,
    history_page,
};
use protocol::{Rating, RunFeedback};
use serde_json::json;

use crate::conformance::fixtures::{
    ai, all_events, all_history, append, checkpoint, commit, compaction_event, complete_run, create,
    create_run, feedback, fork, human, thread, tool_calls, tool_result, trace_event, undo_event,
};

#[cfg(unix)]
#[tokio::test]
async fn k6_only_the_owner_can_access_files_and_folders() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a").join("b");
    let store = SqliteStore::open(&home.join("segue.db")).unwrap();
    create(&store).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for (name, expected) in
        [("", 0o700), ("segue.db", 0o600), ("segue.db-wal", 0o600), ("segue.db-shm", 0o600)]
    {
        assert_eq!(mode(&home.join(name)), expected, "{name}");
    }
    assert_eq!(mode(&folder.path().join("a")), 0o700);
}

#[tokio::test]
async fn a2_seqs_continue_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let thread = thread();
    let thread_id = thread.thread_id;
    let create = || vec![Write::CreateThread(thread.clone())];
    let store = SqliteStore::open(&path).unwrap();
    commit(&store, create()).await.unwrap();
    assert_eq!(append(&store, thread_id, vec![human("one")]).await.unwrap(), [1]);
    let stored = all_events(&store, thread_id, &[]).await;
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(all_events(&store, thread_id, &[]).await, stored);
    assert_eq!(append(&store, thread_id, vec![trace_event(0)]).await.unwrap(), [2]);
    commit(&store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    commit(&store, create()).await.unwrap();
    assert_eq!(append(&store, thread_id, vec![trace_event(0)]).await.unwrap(), [3]);
}

#[test]
fn j5_closing_commits_queued_writes_and_refuses_later_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = runtime();
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let thread_id = first.block_on(create(&*store));
    let queued = Arc::clone(&store);
    // The result is never awaited: the runtime shuts down first.
    first.spawn(async move { append(&*queued, thread_id, vec![trace_event(0)]).await });
    first.block_on(tokio::task::yield_now());
    drop(first);
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(runtime().block_on(all_events(&store, thread_id, &[])).len(), 1);
}

#[tokio::test]
async fn a_step_stores_only_the_channels_that_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let run = create_run(&store, "one").await;
    for step in 0..30 {
        let channels = serde_json::Map::from_iter([
            ("todos".to_owned(), json!(step / 10)),
            ("_private".to_owned(), json!(step)),
        ]);
        let point = protocol::Checkpoint { channels, ..checkpoint(&run, step) };
        commit(&store, vec![Write::PutCheckpoint(point)]).await.unwrap();
    }
    let raw = rusqlite::Connection::open(&path).unwrap();
    let count = "SELECT count(*), count(channels) FROM steps";
    let counted = raw.query_row(count, [], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?)));
    assert_eq!(counted.unwrap(), (30, 3));
}

#[tokio::test]
async fn h4_listing_threads_reads_no_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("hello")]).await.unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE events").unwrap();
    let threads = store.threads(ThreadFilter::for_scope(protocol::OwnerScope::Everyone, 5)).await.unwrap();
    assert_eq!((threads[0].message_count, threads[0].first_prompt.as_deref()), (1, Some("hello")));
    assert_eq!(store.health(HealthCheckDepth::Counts).await.unwrap().events, 1);
}

#[tokio::test]
async fn two_stores_in_one_process_see_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let (one, two) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let thread_id = create(&one).await;
    for (number, store) in [&one, &two, &one, &two].into_iter().enumerate() {
        let seqs = append(store, thread_id, vec![trace_event(number as u64)]).await.unwrap();
        assert_eq!(seqs, [number as u64 + 1]);
    }
    assert_eq!(all_events(&one, thread_id, &[]).await, all_events(&two, thread_id, &[]).await);
}

#[tokio::test]
async fn a25_a_reload_during_a_run_sees_every_acknowledged_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let (writer, reader) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let run = create_run(&writer, "one").await;
    for number in 1..=20 {
        append(&writer, run.thread_id, vec![ai("text").with_run(run.run_id)]).await.unwrap();
        assert_eq!(all_history(&reader, run.thread_id, 50).await.len(), number);
    }
}

#[tokio::test]
async fn a20_two_hundred_runs_take_little_more_space_than_their_messages() {
    const RUNS: u64 = 200;
    /// Size of the rows of a run, its checkpoints, its events and its turns.
    const BYTES_PER_RUN: u64 = 1_024;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("segue.db")).unwrap();
    let thread_id = create(&store).await;
    let bytes = async || store.health(HealthCheckDepth::Counts).await.unwrap().bytes;
    let (before, mut middle) = (bytes().await, 0);
    for number in 0..RUNS {
        if number == RUNS / 2 {
            middle = bytes().await;
        }
        let events = vec![
            human("go"),
            tool_calls(&["a"]),
            tool_result("a", &"a line of it\n".repeat(200)),
            ai("done"),
        ];
        let run = complete_run(&store, thread_id, events).await;
        commit(&store, vec![Write::PutCheckpoint(checkpoint(&run, 1))]).await.unwrap();
    }
    let messages: u64 =
        all_events(&store, thread_id, &[]).await.iter().map(|event| event.content.get().len() as u64).sum();
    let grown = bytes().await - before;
    assert!(grown * 10 <= messages * 12 + RUNS * BYTES_PER_RUN * 10, "{grown} bytes for {messages}");
    let (first, second) = (middle - before, bytes().await - middle);
    assert!(second * 10 <= first * 11, "{first} bytes, then {second}");
}

#[tokio::test]
async fn d5_a_page_without_answers_reads_no_feedback() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let run = complete_run(&store, thread_id, vec![human("one"), ai("two"), human("three")]).await;
    commit(&store, vec![Write::PutFeedback(feedback(&run, Rating::Up, 1))]).await.unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE run_feedback").unwrap();
    let query = |limit| HistoryQuery {
        limit,
        feedback: Some(RunFeedback::LOCAL_USER.to_owned()),
        ..HistoryQuery::default()
    };
    assert_eq!(history_page(&store, thread_id, &query(1)).await.unwrap().entries.len(), 1);
    assert!(history_page(&store, thread_id, &query(2)).await.is_err());
}

/// A page reads only a few of the many copied runs, so the page is returned even if another run cannot be read.
#[tokio::test]
async fn d5_a_page_of_a_copy_reads_few_runs_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let source = create(&store).await;
    let events = || vec![human("one"), ai("two")];
    complete_run(&store, source, events()).await;
    let second = complete_run(&store, source, events()).await;
    for _ in 0..20 {
        complete_run(&store, source, events()).await;
    }
    let fork = fork(&store, source, None).await;
    let own = complete_run(&store, fork, events()).await;
    commit(&store, vec![Write::PutFeedback(feedback(&own, Rating::Up, 1))]).await.unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    let unreadable = "UPDATE runs SET status = 'of a later version' WHERE run_id = ?1";
    assert_eq!(raw.execute(unreadable, [second.run_id.uuid().as_bytes()]).unwrap(), 1);
    let query = HistoryQuery {
        limit: 500,
        feedback: Some(RunFeedback::LOCAL_USER.to_owned()),
        ..HistoryQuery::default()
    };
    let page = history_page(&store, fork, &query).await.unwrap();
    let feedback: Vec<_> = page.entries.iter().filter_map(|entry| entry.feedback.as_ref()).collect();
    assert!(matches!(feedback[..], [Some(rating)] if rating.run_id == own.run_id), "{feedback:?}");
}

/// SQLite's `data_version` changes on another connection with each commit. Reading does not change it.
#[tokio::test]
async fn b15_reading_history_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let run = complete_run(
        &store,
        thread_id,
        vec![human("one"), tool_calls(&["a"]), tool_result("a", "A"), ai("two")],
    )
    .await;
    commit(&store, vec![Write::PutFeedback(feedback(&run, Rating::Up, 1))]).await.unwrap();
    append(&store, thread_id, vec![compaction_event((1, 2), None, "S"), undo_event(5, Vec::new())])
        .await
        .unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let version = || other.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();
    let before = version();
    for superseded in [SupersededVisibility::Hidden, SupersededVisibility::Shown] {
        for limit in 1..=7 {
            let feedback = Some(RunFeedback::LOCAL_USER.to_owned());
            let query = HistoryQuery { limit, superseded, feedback, ..HistoryQuery::default() };
            history_page(&store, thread_id, &query).await.unwrap();
        }
    }
    store.run_events(thread_id, run.run_id, 0, 5).await.unwrap();
    store.feedback(thread_id, &[run.run_id], RunFeedback::LOCAL_USER).await.unwrap();
    assert_eq!(version(), before);
    append(&store, thread_id, vec![human("three")]).await.unwrap();
    assert_ne!(version(), before, "a change is seen");
}
