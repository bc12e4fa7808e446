//! Migration of databases of older versions. The tests undo later migrations, and opening the file applies them again.

use std::path::Path;
use std::sync::Arc;

use journal::{
    ItemQuery, ProjectScope, ScopedStore, SqliteStore, Store, SummaryQuery, SupersededVisibility, Write,
};
use protocol::{CheckpointEntry, OwnerScope, StoredItem};
use rusqlite::Connection;
use serde_json::json;

use crate::conformance::fixtures::{
    ai, append, at, checkpoint, commit, create, event, human, run, thread, tool_result,
};
use crate::conformance::tiers::memory_fixtures::{newest_query, summarization, summary_texts};

/// The newest schema version.
pub const NEWEST: u32 = 11;

/// Undoes the third migration.
const SINCE_VERSION_2: &str = "
    DELETE FROM search_index WHERE rowid IN (SELECT handoff_key - (2 << 48) FROM handoff_index);
    DROP TRIGGER handoff_index_gone;
    DROP TABLE handoff_index;";

/// Undoes the fourth migration.
const SINCE_VERSION_3: &str = "
    DROP INDEX thread_heads_recent;
    ALTER TABLE thread_heads DROP COLUMN owner;
    CREATE INDEX thread_heads_recent ON thread_heads (updated_at DESC, thread_id DESC)
        WHERE updated_at IS NOT NULL AND in_subagent = 0;
    DROP INDEX threads_created;
    ALTER TABLE threads DROP COLUMN owner;
    CREATE INDEX threads_created ON threads (created_at DESC, thread_id DESC);
    DROP INDEX runs_active;
    CREATE UNIQUE INDEX runs_active ON runs (thread_key) WHERE status IN ('pending', 'running');
    DROP INDEX runs_queued;
    ALTER TABLE runs DROP COLUMN began;
    DROP TABLE run_requests;
    ALTER TABLE steps DROP COLUMN source;
    ALTER TABLE steps DROP COLUMN input_seq;
    ALTER TABLE steps DROP COLUMN number;
    ALTER TABLE checkpoints DROP COLUMN source;
    ALTER TABLE checkpoints DROP COLUMN number;
    DROP INDEX outbox_oldest;
    DROP TABLE checkpoints_left;
    DROP INDEX events_rewinds;
    DROP TABLE api_keys;";

/// Undoes the fifth migration.
const SINCE_VERSION_4: &str = "DROP TABLE replicas;";

/// Undoes the sixth migration. The index holds words that occur nowhere and is marked as complete.
const SINCE_VERSION_5: &str = "
    DROP TABLE search_index;
    CREATE VIRTUAL TABLE search_index USING fts5 (
        text, content = '', contentless_delete = 1, tokenize = 'porter unicode61');
    INSERT INTO search_index (rowid, text) SELECT thread_key << 32 | last_seq, 'words of another program' FROM thread_heads;
    UPDATE thread_heads SET indexed_seq = last_seq;
    UPDATE handoff_index SET is_due = 0;";

/// Undoes the seventh migration.
const SINCE_VERSION_6: &str = "
    DROP TRIGGER medium_term_memory_added;
    DROP TRIGGER medium_term_memory_changed;
    CREATE TABLE memory_rows AS SELECT * FROM medium_term_memory;
    CREATE TABLE summary_rows AS SELECT summary_key, id, turn_count, thread_key FROM summaries;
    CREATE TABLE thread_rows AS SELECT * FROM summary_threads;
    DROP TABLE summary_threads;
    DROP TABLE summaries;
    DROP TABLE medium_term_memory;
    CREATE TABLE medium_term_memory (
        id TEXT NOT NULL PRIMARY KEY, agent_id TEXT NOT NULL, summary_text TEXT NOT NULL,
        turn_range_start INTEGER NOT NULL, turn_range_end INTEGER NOT NULL, created_at TEXT NOT NULL) STRICT;
    CREATE INDEX medium_term_memory_recent ON medium_term_memory (agent_id, created_at DESC, id DESC);
    CREATE TABLE summaries (
        summary_key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE REFERENCES medium_term_memory (id) ON DELETE CASCADE,
        turn_count INTEGER NOT NULL DEFAULT 0, thread_key INTEGER NOT NULL DEFAULT 0) STRICT;
    CREATE TABLE summary_threads (
        thread_key INTEGER NOT NULL, last_seq INTEGER NOT NULL,
        summary_key INTEGER NOT NULL REFERENCES summaries (summary_key) ON DELETE CASCADE,
        PRIMARY KEY (thread_key, last_seq, summary_key)) STRICT, WITHOUT ROWID;
    CREATE INDEX summary_threads_summary ON summary_threads (summary_key);
    INSERT INTO medium_term_memory SELECT * FROM memory_rows;
    INSERT INTO summaries SELECT * FROM summary_rows;
    INSERT INTO summary_threads SELECT * FROM thread_rows;
    DROP TABLE memory_rows;
    DROP TABLE summary_rows;
    DROP TABLE thread_rows;
    DROP INDEX thread_heads_project;
    ALTER TABLE thread_heads DROP COLUMN project_key;
    DROP TABLE projects;";

/// Downgrades the database at `path` to the given schema version.
pub fn make(path: &Path, version: u32) {
    let raw = Connection::open(path).unwrap();
    for (migration, undo_sql) in [
        (10, "ALTER TABLE events DROP COLUMN checksum;"),
        (9, "DROP TABLE memory_facts; DROP TABLE memory_revisions;"),
        (8, "DROP TABLE embeddings; DROP TABLE embedding_heads; DROP TABLE embedding_models;"),
        (7, "DROP INDEX events_pins"),
        (6, SINCE_VERSION_6),
        (5, SINCE_VERSION_5),
        (4, SINCE_VERSION_4),
        (3, SINCE_VERSION_3),
        (2, SINCE_VERSION_2),
    ] {
        if version <= migration {
            raw.execute_batch(undo_sql).unwrap();
        }
    }
    raw.execute("DELETE FROM schema_migrations WHERE version > ?1", [version]).unwrap();
    raw.pragma_update(None, "user_version", version).unwrap();
}

async fn points(store: &SqliteStore, thread_id: protocol::ThreadId) -> Vec<CheckpointEntry> {
    store.checkpoints(thread_id, None, 50, SupersededVisibility::Shown).await.unwrap()
}

#[tokio::test]
async fn migration_numbers_the_points_of_an_older_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut threads = Vec::new();
    for number in 0..3 {
        let thread_id = create(&store).await;
        for turn in 0..3 {
            let run = run(thread_id, "one");
            let events = match (number + turn) % 3 {
                0 => vec![tool_result("c", "not done"), human("go on")],
                1 => vec![human("begin")],
                _ => Vec::new(),
            };
            let events = events.into_iter().map(|event| event.with_run(run.run_id)).collect();
            let writes = vec![
                Write::AdmitRun(run.clone()),
                Write::Append { thread_id, events },
                Write::PutCheckpoint(checkpoint(&run, 0)),
            ];
            commit(&store, writes).await.unwrap();
            append(&store, thread_id, vec![ai("so be it").with_run(run.run_id)]).await.unwrap();
            let patch =
                journal::RunPatch { status: Some(protocol::RunStatus::Success), ..Default::default() };
            let ended = Write::UpdateRun { run_id: run.run_id, patch };
            commit(&store, vec![Write::PutCheckpoint(checkpoint(&run, 1)), ended]).await.unwrap();
        }
        threads.push((thread_id, points(&store, thread_id).await));
    }
    let numbers: Vec<i64> = threads[0].1.iter().map(|point| point.number).collect();
    assert_eq!(numbers, [6, 5, 4, 3, 1, 0]);
    drop(store);
    make(&path, 3);
    let store = SqliteStore::open(&path).unwrap();
    for (thread_id, points_before) in threads {
        assert_eq!(points(&store, thread_id).await, points_before);
    }
    let problems = store.health(journal::HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}

#[tokio::test]
async fn k1_migration_keeps_the_local_operators_rows_and_distinguishes_rewinds_from_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let run = run(thread_id, "one");
    let rewound = protocol::EventType::ThreadRewound;
    let rewound = event(rewound, &serde_json::json!({"keep_seq": 1, "superseded": 1}));
    let events = vec![human("begin").with_run(run.run_id), ai("so be it").with_run(run.run_id)];
    let writes = vec![
        Write::AdmitRun(run.clone()),
        Write::Append { thread_id, events },
        Write::PutCheckpoint(checkpoint(&run, 0)),
        Write::Append { thread_id, events: vec![rewound] },
        Write::PutCheckpoint(checkpoint(&run, 1)),
        Write::Append { thread_id, events: vec![ai("again").with_run(run.run_id)] },
        Write::PutCheckpoint(checkpoint(&run, 2)),
    ];
    commit(&store, writes).await.unwrap();
    let items = ["@alice", "_@alice", "birds"].map(|label| StoredItem {
        namespace: vec![label.to_owned()],
        key: "heron".to_owned(),
        value: serde_json::Map::new(),
        created_at: at(1),
        updated_at: at(1),
    });
    commit(&store, items.iter().cloned().map(Write::PutItem).collect()).await.unwrap();
    drop(store);
    make(&path, 3);
    let store = SqliteStore::open(&path).unwrap();
    let sources: Vec<_> = points(&store, thread_id).await.iter().map(|point| point.source.as_str()).collect();
    assert_eq!(sources, ["loop", "rewind", "loop"]);
    let machine = ScopedStore::new(Arc::new(store), OwnerScope::Owner(None));
    let all = machine.items(ItemQuery { limit: 9, ..ItemQuery::default() }).await.unwrap();
    assert_eq!(all.len(), items.len(), "{all:?}");
}

/// Threads of an older database have the folder of their metadata, of their import or of an ancestor, until the program
/// replaces it by its project.
#[tokio::test]
async fn migration_assigns_threads_and_summaries_to_the_recorded_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let create_with = async |metadata: serde_json::Value, parent_id| {
        let metadata = metadata.as_object().unwrap().clone();
        let thread = protocol::Thread { metadata, parent_id, ..thread() };
        let thread_id = thread.thread_id;
        commit(&store, vec![Write::CreateThread(thread)]).await.unwrap();
        append(&store, thread_id, vec![human("a heron")]).await.unwrap();
        thread_id
    };
    let own = create_with(json!({"workspace": "/app/src"}), None).await;
    let child = create_with(json!({"workspace": null}), Some(own)).await;
    let grandchild = create_with(json!({}), Some(child)).await;
    let imported = create_with(json!({"source": {"workspace": "/app"}}), None).await;
    let elsewhere =
        create_with(json!({"workspace": "/other", "source": {"workspace": "/app"}}), Some(own)).await;
    let personal = create_with(json!({"workspace": 7, "source": "a text"}), None).await;
    for (turn, thread_id) in [(1, own), (4, imported), (6, personal)] {
        let transfer = summarization(thread_id, (turn, turn), &format!("summary {turn}"));
        commit(&store, vec![Write::SummarizeTurns(transfer)]).await.unwrap();
    }
    drop(store);
    make(&path, 6);
    let store = SqliteStore::open(&path).unwrap();
    let project = async |thread_id| store.thread(thread_id).await.unwrap().unwrap().project;
    let app = Some("/app".to_owned());
    let src = Some("/app/src".to_owned());
    assert_eq!(
        [project(own).await, project(child).await, project(grandchild).await],
        [src.clone(), src.clone(), src]
    );
    assert_eq!([project(imported).await, project(personal).await], [app.clone(), None]);
    assert_eq!(project(elsewhere).await.as_deref(), Some("/other"));
    assert_eq!(store.unresolved_folders().await.unwrap(), ["/app", "/app/src", "/other"]);
    let resolve =
        |folder: &str| Write::ResolveFolder { folder: folder.to_owned(), project: "/app".to_owned() };
    for _ in 0..2 {
        commit(&store, vec![resolve("/app/src"), resolve("/app")]).await.unwrap();
        assert_eq!(store.unresolved_folders().await.unwrap(), ["/other"]);
        assert_eq!(
            [project(own).await, project(grandchild).await, project(imported).await],
            [app.clone(), app.clone(), app.clone()]
        );
    }
    let texts = async |project| summary_texts(&store, SummaryQuery { project, ..newest_query() }).await;
    let mut of_app = texts(ProjectScope::Project("/app".to_owned())).await;
    of_app.sort_unstable();
    assert_eq!(of_app, ["summary 1", "summary 4"]);
    assert_eq!(texts(ProjectScope::Personal).await, ["summary 6"]);
    let problems = store.health(journal::HealthCheckDepth::Integrity).await.unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_migration_of_postgres_reads_the_folder_of_any_metadata() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let store = journal::PostgresStore::open(&database.socket_url(), crate::backends::POOL).await.unwrap();
    for metadata in [
        json!({"workspace": "/app", "note": "a NUL: \0"}),
        json!({"workspace": "/app", "note": "a backslash: \\u0000", "nuls": "\0\0"}),
    ] {
        let thread = protocol::Thread { metadata: metadata.as_object().unwrap().clone(), ..thread() };
        commit(&store, vec![Write::CreateThread(thread)]).await.unwrap();
    }
    let migration = include_str!("../../src/engines/postgres/migrations/0003_projects.sql");
    let start = migration.find("CREATE TEMPORARY TABLE thread_folders").unwrap();
    let end = start + migration[start..].find(";\n").unwrap();
    let statement = migration[start..end].replace("TEMPORARY TABLE", "TABLE").replace("ON COMMIT DROP ", "");
    database.execute(&statement).unwrap();
    assert_eq!(database.query_texts("SELECT folder FROM thread_folders").unwrap(), ["/app", "/app"]);
}
