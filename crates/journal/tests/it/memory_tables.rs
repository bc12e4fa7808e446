//! The memory tables as other programs read them in the SQLite file: their columns, and the erasure of deleted texts. The
//! conformance suite tests their meaning.

use std::path::Path;

use journal::{
    HealthCheckDepth, ProjectScope, SqliteStore, Store, SummaryQuery, TurnQuery, TurnSummarization, Write,
};
use protocol::{ArchiveReason, Thread};
use rusqlite::Connection;
use serde_json::json;

use crate::conformance::fixtures::{ai, all_events, append, at, commit, create, fork, human, rewind, thread};
use crate::conformance::tiers::memory_fixtures::{
    archive_event, current_version, newest_query, summarization,
};

/// Returns the names of the table's columns.
fn columns(raw: &Connection, table: &str) -> Vec<String> {
    let statement = raw.prepare(&format!("SELECT * FROM {table}")).unwrap();
    statement.column_names().map(str::to_owned).collect()
}

#[tokio::test]
async fn f6_other_programs_read_the_tables_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("q"), ai("a"), human("on")]).await.unwrap();
    let transfer = summarization(thread_id, (1, 2), "We began.");
    let id = transfer.summary.id.to_string();
    commit(&store, vec![Write::SummarizeTurns(transfer)]).await.unwrap();
    let raw = Connection::open(&path).unwrap();
    let contract = ["id", "agent_id", "summary_text", "turn_range_start", "turn_range_end", "created_at"];
    assert_eq!(columns(&raw, "medium_term_memory"), contract);
    let of_turns = columns(&raw, "turn_log");
    let contract = ["agent_id", "thread_id", "turn_index", "role", "content", "created_at", "archived"];
    assert_eq!(of_turns[..7], contract);
    assert_eq!(of_turns[7..], ["seq", "summary_id"], "the columns beyond the contract");
    let stored: (String, String, String, i64, i64, String) = raw
        .query_row("SELECT * FROM medium_term_memory", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .unwrap();
    let created_at = format!("{:.9}", at(5));
    assert_eq!(stored, (id.clone(), "agent".to_owned(), "We began.".to_owned(), 1, 2, created_at));
    let turns_sql =
        "SELECT group_concat(archived || ifnull(summary_id, '-'), ' ') FROM turn_log ORDER BY turn_index";
    let turns: String = raw.query_row(turns_sql, [], |row| row.get(0)).unwrap();
    assert_eq!(turns, format!("1{id} 1{id} 0-"));
    // Making a turn active again removes it from its summary.
    raw.execute("UPDATE turn_log SET archived = 0 WHERE turn_index = 2", []).unwrap();
    assert_eq!(raw.query_row(turns_sql, [], |row| row.get::<_, String>(0)).unwrap(), format!("1{id} 0- 0-"));
}

/// `VACUUM` may assign a new rowid to a row without an integer primary key.
#[tokio::test]
async fn f7_vacuum_keeps_the_references_between_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("q"), ai("a"), human("on")]).await.unwrap();
    let (first, second) =
        (summarization(thread_id, (1, 1), "a heron"), summarization(thread_id, (2, 3), "a grebe"));
    let retained = second.summary.id;
    let restore = Write::RestoreTurns { summary_ids: vec![first.summary.id], scope: None };
    commit(&store, vec![Write::SummarizeTurns(first), Write::SummarizeTurns(second), restore]).await.unwrap();
    drop(store);
    Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let turns = store.turns(TurnQuery::for_agent(Default::default())).await.unwrap();
    let summary_ids: Vec<_> = turns.iter().map(|turn| turn.summary_id).collect();
    assert_eq!(summary_ids, [None, Some(retained), Some(retained)]);
    commit(&store, vec![Write::RestoreTurns { summary_ids: vec![retained], scope: None }]).await.unwrap();
    assert_eq!(store.memory_counts(&Default::default()).await.unwrap().active_turns, 3);
}

/// Returns whether any file of the folder contains the text, ignoring ASCII case.
fn holds(folder: &Path, text: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().any(|path| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text.as_bytes()))
    })
}

/// A rewind dissolves a summary. Deleting the thread afterwards still erases the events that quote the summary.
#[tokio::test]
async fn k9_deletion_erases_rewound_texts_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let (deleted, retained) = (create(&store).await, create(&store).await);
    append(&store, deleted, vec![human("Tell me of the Xyloquartz."), ai("It was Zanzibarium.")])
        .await
        .unwrap();
    append(&store, retained, vec![human("Something else."), ai("Kettledrummer.")]).await.unwrap();
    let both = TurnSummarization {
        thread_id: None,
        thread_versions: vec![current_version(deleted), current_version(retained)],
        ..summarization(retained, (1, 4), "They spoke of Wobblestone.")
    };
    let announcement = |thread_id| {
        let events = vec![archive_event(&both.summary, ArchiveReason::Request, (1, 2))];
        Write::Append { thread_id, events }
    };
    commit(&store, vec![Write::SummarizeTurns(both.clone()), announcement(deleted), announcement(retained)])
        .await
        .unwrap();
    let fork = fork(&store, retained, None).await;
    rewind(&store, deleted, 1).await.unwrap();
    assert!(holds(folder.path(), "wobblestone"), "a rewind removes nothing");
    commit(&store, vec![Write::DeleteThread { thread_id: deleted }]).await.unwrap();
    store.update_search_index().await.unwrap();
    drop(store);
    Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
    for word in ["xyloquartz", "zanzibarium", "wobblestone"] {
        assert!(!holds(folder.path(), word), "{word}");
    }
    assert!(holds(folder.path(), "kettledrummer"));
    let store = SqliteStore::open(&path).unwrap();
    for thread_id in [retained, fork] {
        let events = all_events(&store, thread_id, &[]).await;
        assert_eq!(journal::view::context(&events).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2]);
    }
}

#[tokio::test]
async fn k9_deletion_erases_all_texts_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let (deleted, retained) = (create(&store).await, create(&store).await);
    append(
        &store,
        deleted,
        vec![human("Before that."), human("Tell me of the Xyloquartz."), ai("It was Zanzibarium.")],
    )
    .await
    .unwrap();
    append(&store, retained, vec![human("Something else."), ai("Kettledrummer."), human("On.")])
        .await
        .unwrap();
    for (thread_id, window, text) in
        [(deleted, (2, 3), "They spoke of Wobblestone."), (retained, (4, 5), "They spoke of Marmaladia.")]
    {
        let transfer = summarization(thread_id, window, text);
        let archived = archive_event(&transfer.summary, ArchiveReason::Budget, (1, 2));
        let append = Write::Append { thread_id, events: vec![archived] };
        commit(&store, vec![Write::SummarizeTurns(transfer), append]).await.unwrap();
    }
    // One summary covers both threads. The event in the other thread and the copy of that event quote it.
    let both = TurnSummarization {
        thread_id: None,
        turns: 2,
        thread_versions: vec![current_version(deleted), current_version(retained)],
        ..summarization(retained, (1, 6), "Of Dingleberg.")
    };
    let archived = archive_event(&both.summary, ArchiveReason::Request, (3, 3));
    let append = Write::Append { thread_id: retained, events: vec![archived] };
    commit(&store, vec![Write::SummarizeTurns(both), append]).await.unwrap();
    let fork = fork(&store, retained, None).await;
    let item = |key: &str| protocol::StoredItem {
        namespace: vec!["n".to_owned()],
        key: key.to_owned(),
        value: serde_json::from_value(json!({"text": format!("{key} of Quibbleford")})).unwrap(),
        created_at: at(1),
        updated_at: at(1),
    };
    commit(&store, vec![Write::PutItem(item("a"))]).await.unwrap();
    store.update_search_index().await.unwrap();
    let delete = Write::DeleteItem { namespace: vec!["n".to_owned()], key: "a".to_owned() };
    commit(&store, vec![Write::DeleteThread { thread_id: deleted }, delete]).await.unwrap();
    drop(store);
    Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
    for word in ["kettledrummer", "marmaladia"] {
        assert!(holds(folder.path(), word), "{word}");
    }
    for word in ["xyloquartz", "zanzibarium", "wobblestone", "dingleberg", "quibbleford"] {
        assert!(!holds(folder.path(), word), "{word}");
    }
    let store = SqliteStore::open(&path).unwrap();
    let turns = store.turns(TurnQuery::for_agent(Default::default())).await.unwrap();
    let turn_states: Vec<(u64, bool)> =
        turns.iter().map(|turn| (turn.turn_index, turn.is_archived)).collect();
    assert_eq!(turn_states, [(4, true), (5, true), (6, false)]);
    for thread_id in [retained, fork] {
        let events = all_events(&store, thread_id, &[]).await;
        assert_eq!(journal::view::context(&events).iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3]);
    }
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}

/// Other programs insert, change and delete summaries by the columns of the contract alone.
#[tokio::test]
async fn f6_a_summary_that_another_program_writes_is_one_of_the_agents_summaries() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread = Thread { project: Some("/app".to_owned()), ..thread() };
    let thread_id = thread.thread_id;
    commit(&store, vec![Write::CreateThread(thread)]).await.unwrap();
    append(&store, thread_id, vec![human("q"), ai("a")]).await.unwrap();
    let raw = Connection::open(&path).unwrap();
    let insert = "INSERT INTO medium_term_memory (agent_id, summary_text, turn_range_start, turn_range_end, created_at) VALUES";
    let rows = "('agent', 'of the app', 1, 2, '2026-03-01 10:20:30'), ('agent', 'of none', 90, 99, CURRENT_TIMESTAMP)";
    assert_eq!(raw.execute(&format!("{insert} {rows}"), []).unwrap(), 2);
    let listed = async |project| store.summaries(SummaryQuery { project, ..newest_query() }).await.unwrap();
    let of_app = listed(ProjectScope::Project("/app".to_owned())).await;
    assert_eq!(of_app.len(), 1);
    assert_eq!(of_app[0].summary.summary_text, "of the app");
    assert_eq!(of_app[0].summary.created_at, "2026-03-01T10:20:30Z".parse().unwrap());
    assert_eq!(listed(ProjectScope::Personal).await[0].summary.summary_text, "of none");
    let update = "UPDATE medium_term_memory SET summary_text = 'changed', created_at = '2027-01-01T00:00:00Z'
        WHERE agent_id = 'agent' AND turn_range_start = 1";
    assert_eq!(raw.execute(update, []).unwrap(), 1);
    let changed = listed(ProjectScope::Any).await;
    assert_eq!(changed[0].summary.summary_text, "changed");
    assert_eq!(listed(ProjectScope::Project("/app".to_owned())).await[0].summary, changed[0].summary);
    assert_eq!(raw.execute("DELETE FROM medium_term_memory", []).unwrap(), 2);
    assert_eq!(listed(ProjectScope::Any).await, []);
    assert_eq!(store.memory_counts(&Default::default()).await.unwrap().summaries, 0);
}
