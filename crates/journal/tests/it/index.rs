//! The search index: an older database gets one when it is opened, and deleted rows leave nothing in it.

use std::ops::ControlFlow;
use std::path::Path;

use journal::copy::JournalLocation;
use journal::{HitLocation, IndexHit, IndexHitKind, PostgresStore, SqliteStore, Store, Write};
use protocol::{Handoff, HandoffStatus, StoredItem};
use rusqlite::Connection;

use crate::backends::POOL;
use crate::conformance::deletions::{begin_deletion, create_long};
use crate::conformance::fixtures::{append, commit, create, handoff, human, proposal, search_for};
use crate::conformance::memory::summarization;
use crate::older;

/// The pages of SQLite's index that mark rows as deleted whose terms are still in it.
const TERMS_OF_DELETED_ROWS: &str = "search_index_data WHERE id >= 1 << 53";

async fn kinds(store: &dyn Store, text: &str) -> Vec<IndexHitKind> {
    let kind = |hit: &IndexHit| match hit.location {
        HitLocation::Message { .. } => IndexHitKind::Message,
        HitLocation::Summary { .. } => IndexHitKind::Summary,
        HitLocation::Handoff { .. } => IndexHitKind::Handoff,
        HitLocation::Item { .. } => IndexHitKind::Item,
    };
    let kinds = vec![IndexHitKind::Message, IndexHitKind::Summary, IndexHitKind::Handoff, IndexHitKind::Item];
    let query = journal::SearchQuery { kinds, ..search_for(text) };
    let mut kinds: Vec<IndexHitKind> = store.search(query).await.unwrap().hits.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Creates a journal in which every kind of row has the same word. Returns it with its threads.
async fn create_filled(path: &Path) -> (SqliteStore, [protocol::ThreadId; 2]) {
    let store = SqliteStore::open(path).unwrap();
    let threads = fill(&store).await;
    (store, threads)
}

async fn fill(store: &dyn Store) -> [protocol::ThreadId; 2] {
    let (parent, child) = (create(store).await, create(store).await);
    append(store, parent, vec![human("a heron"), human("another heron")]).await.unwrap();
    let handoff = Handoff { child_thread_id: child, status: HandoffStatus::Declined, ..handoff(parent, 1) };
    let proposal_row = proposal(&handoff, 0, "count the herons");
    let item = StoredItem {
        namespace: vec!["birds".to_owned()],
        key: "heron".to_owned(),
        value: serde_json::Map::new(),
        created_at: jiff::Timestamp::UNIX_EPOCH,
        updated_at: jiff::Timestamp::UNIX_EPOCH,
    };
    let writes = vec![
        Write::SummarizeTurns(summarization(parent, (1, 2), "two herons")),
        Write::CreateHandoff(handoff),
        Write::PutProposal(proposal_row),
        Write::PutItem(item),
    ];
    commit(store, writes).await.unwrap();
    [parent, child]
}

const ALL: [IndexHitKind; 5] = [
    IndexHitKind::Message,
    IndexHitKind::Message,
    IndexHitKind::Summary,
    IndexHitKind::Handoff,
    IndexHitKind::Item,
];

#[tokio::test]
async fn an_older_database_gets_a_complete_search_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let (store, [parent, _]) = create_filled(&path).await;
    assert_eq!(kinds(&store, "heron").await, ALL);
    drop(store);
    for version in [2, 5] {
        older::make(&path, version);
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(kinds(&store, "heron").await, ALL, "{version}");
        assert_eq!(kinds(&store, "program").await, [], "rows indexed by older rules are removed");
    }
    for _ in 0..2 {
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(kinds(&store, "heron").await, ALL);
        let health = store.health(journal::HealthCheckDepth::Integrity).await.unwrap();
        assert_eq!((health.schema_version, health.problems), (older::NEWEST, Vec::new()));
    }
    let store = SqliteStore::open(&path).unwrap();
    append(&store, parent, vec![human("a late heron")]).await.unwrap();
    assert_eq!(kinds(&store, "late heron").await, [IndexHitKind::Message]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_postgres_database_gets_a_complete_search_index() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let url = database.socket_url();
    fill(&PostgresStore::open(&url, POOL).await.unwrap()).await;
    tokio::task::spawn_blocking({
        let url = url.clone();
        move || {
            let raw = postgres::Connection::open(&url.parse().unwrap()).unwrap();
            raw.batch_execute(
                "DROP TRIGGER medium_term_memory_added ON medium_term_memory;
                 DROP TRIGGER medium_term_memory_changed ON medium_term_memory;
                 DROP TRIGGER medium_term_memory_time ON medium_term_memory;
                 DROP FUNCTION segue_memory_added, segue_memory_changed, segue_memory_time, segue_summary_time;
                 DROP INDEX events_pins, summaries_of_project, summaries_project, thread_heads_project;
                 ALTER TABLE summaries DROP COLUMN agent_id, DROP COLUMN created_at, DROP COLUMN project_key;
                 ALTER TABLE thread_heads DROP COLUMN project_key;
                 ALTER TABLE events DROP COLUMN checksum;
                 DROP TABLE projects, embeddings, embedding_heads, embedding_models, memory_facts, memory_revisions;
                 DELETE FROM segue_migrations WHERE version > 1;
                 UPDATE search_index SET words = 'program';
                 UPDATE thread_heads SET indexed_seq = last_seq;
                 UPDATE handoff_index SET is_due = 0;",
            )
        }
    })
    .await
    .unwrap()
    .unwrap();
    let store = PostgresStore::open(&url, POOL).await.unwrap();
    assert_eq!(kinds(&store, "heron").await, ALL);
    assert_eq!(kinds(&store, "program").await, [], "rows indexed by older rules are removed");
}

#[tokio::test]
async fn k9_deleted_texts_have_no_row_in_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let (store, threads) = create_filled(&path).await;
    assert_eq!(kinds(&store, "heron").await, ALL);
    for thread_id in threads {
        commit(&store, vec![Write::DeleteThread { thread_id }]).await.unwrap();
    }
    let (namespace, key) = (vec!["birds".to_owned()], "heron".to_owned());
    commit(&store, vec![Write::DeleteItem { namespace, key }]).await.unwrap();
    assert_eq!(kinds(&store, "heron").await, []);
    let copy = folder.path().join("backup.db");
    let report = journal::copy::backup(
        JournalLocation::File(path.clone()),
        copy.clone(),
        Box::new(|_| ControlFlow::Continue(())),
    );
    report.await.unwrap().unwrap();
    let terms: i64 = Connection::open(&copy)
        .unwrap()
        .query_row(&format!("SELECT count(*) FROM {TERMS_OF_DELETED_ROWS}"), [], |row| row.get(0))
        .unwrap();
    assert_eq!(terms, 0, "a backup is purged");
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let count = |table: &str| -> i64 {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!((count("search_index_docsize"), count("handoff_index")), (0, 0));
    assert_eq!(count(TERMS_OF_DELETED_ROWS), 0, "the store purges before it closes");
    connection.execute("INSERT INTO search_index (search_index) VALUES ('integrity-check')", []).unwrap();
}

#[tokio::test]
async fn k9_a_cancelled_deletion_leaves_nothing_in_a_backup_and_in_the_file_when_the_store_closes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create_long(&store).await;
    drop(begin_deletion(&store, thread_id).await);
    let copy = folder.path().join("backup.db");
    let report = journal::copy::backup(
        JournalLocation::File(path.clone()),
        copy.clone(),
        Box::new(|_| ControlFlow::Continue(())),
    );
    report.await.unwrap().unwrap();
    drop(store);
    for file in [copy, path] {
        let connection = Connection::open(&file).unwrap();
        for table in ["events", "search_index_docsize", "turns", "outbox", TERMS_OF_DELETED_ROWS] {
            let sql = format!("SELECT count(*) FROM {table}");
            let rows: i64 = connection.query_row(&sql, [], |row| row.get(0)).unwrap();
            assert_eq!(rows, 0, "{table} of {}", file.display());
        }
    }
}
