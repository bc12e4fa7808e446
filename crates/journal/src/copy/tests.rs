//! Tests of the list of tables against both schemas, and of the detection of changes during a copy.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::tables::TABLES;
use super::{CopyOutcome, CopyPhase, JournalLocation, ProgressCallback, copy};
use crate::Error;

/// Tables that are not copied.
const EXCLUDED_TABLES: [&str; 4] = ["replicas", "schema_migrations", "segue_migrations", "search_index"];

/// Columns that are not copied but reset.
const RESET_COLUMNS: [(&str, &str); 2] = [("thread_heads", "indexed_seq"), ("handoff_index", "is_due")];

/// Columns that the engines generate from other columns.
const GENERATED_COLUMNS: [(&str, &str); 2] = [("thread_heads", "owner"), ("threads", "owner")];

/// Returns the sorted columns of each table of the list.
fn listed_columns() -> BTreeMap<String, Vec<String>> {
    let columns = |table: &super::tables::CopyTable| {
        // `rowid` is implicit in SQLite and a column in PostgreSQL.
        let names = table.columns.iter().map(|column| column.name.to_owned());
        let mut columns: Vec<String> = names.filter(|name| name != "rowid").collect();
        columns.extend(
            RESET_COLUMNS
                .iter()
                .filter(|(name, _)| *name == table.name)
                .map(|(_, column)| (*column).to_owned()),
        );
        columns.sort();
        columns
    };
    TABLES.iter().map(|table| (table.name.to_owned(), columns(table))).collect()
}

/// Groups the columns of a schema by table, without tables and columns that are not part of the list.
fn group_by_table(columns: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in columns {
        let is_index_table = table.starts_with("search_index");
        let is_generated = GENERATED_COLUMNS.contains(&(table.as_str(), column.as_str()));
        if !EXCLUDED_TABLES.contains(&table.as_str()) && !is_index_table && column != "rowid" && !is_generated
        {
            tables.entry(table).or_default().push(column);
        }
    }
    tables.values_mut().for_each(|columns| columns.sort());
    tables
}

#[test]
fn the_list_matches_the_schema_of_sqlite() {
    let connection = crate::engines::sqlite::open_in_memory().unwrap();
    let mut statement = connection
        .prepare(
            "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_xinfo(t.name) c
             WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND c.hidden = 0",
        )
        .unwrap();
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(listed_columns(), group_by_table(columns.map(|row| row.unwrap())));
    for table in TABLES {
        let mut statement =
            connection.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk").unwrap();
        let keys: Vec<String> =
            statement.query_map([table.name], |row| row.get(0)).unwrap().map(|key| key.unwrap()).collect();
        let listed: Vec<&str> = table.columns[..table.key_count].iter().map(|column| column.name).collect();
        assert_eq!(listed, keys, "the key of {}", table.name);
    }
}

#[test]
fn the_list_matches_the_schema_of_postgresql() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let copy_connection =
        crate::engines::postgres::PostgresCopyConnection::open(&database.socket_url()).unwrap();
    let texts = |sql: &str| -> Vec<(String, String)> {
        let rows = copy_connection.connection.query(sql, &[]).unwrap();
        rows.iter().map(|row| (row.text(0).unwrap().unwrap(), row.text(1).unwrap().unwrap())).collect()
    };
    let columns = texts(
        "SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c
         JOIN information_schema.tables t USING (table_schema, table_name)
         WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'",
    );
    assert_eq!(listed_columns(), group_by_table(columns));
    let identity_columns = texts(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = 'public' AND is_identity = 'YES' ORDER BY 1",
    );
    let mut listed: Vec<(String, String)> = TABLES
        .iter()
        .filter_map(|table| table.sequence_column.map(|column| (table.name.to_owned(), column.to_owned())))
        .collect();
    listed.sort();
    assert_eq!(listed, identity_columns, "identity columns");
}

/// Creates a file with the heads of these threads.
fn create_file(path: &Path, threads: std::ops::Range<i64>) {
    let copy_connection = crate::engines::sqlite::SqliteCopyConnection::open(path).unwrap();
    copy_connection.connection.execute_batch("BEGIN").unwrap();
    for key in threads {
        copy_connection
            .connection
            .execute(
                "INSERT INTO thread_heads (thread_key, thread_id, last_seq) VALUES (?1, ?2, 1)",
                (key, format!("thread {key}")),
            )
            .unwrap();
    }
    copy_connection.connection.execute_batch("COMMIT").unwrap();
}

/// Returns a callback that never stops a copy.
fn never_stop() -> ProgressCallback {
    Box::new(|_| ControlFlow::Continue(()))
}

/// Copies on the current thread, without an async runtime.
fn copy_without_runtime(
    from: JournalLocation,
    to: JournalLocation,
    watch: ProgressCallback,
) -> crate::Result<super::CopyReport> {
    super::copy_blocking(&from, &to, super::CopyPurpose::Migration, watch)
}

/// All phases of a copy.
const PHASES: [CopyPhase; 3] = [CopyPhase::Copy, CopyPhase::Compare, CopyPhase::Index];

/// Returns the key, last seq and status of all thread heads.
fn read_heads(path: &Path) -> Vec<(i64, i64, Option<String>)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection
        .prepare("SELECT thread_key, last_seq, status FROM thread_heads ORDER BY thread_key")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

/// Returns the key and last seq of all thread heads.
fn read_rows(path: &Path) -> Vec<(i64, i64)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement =
        connection.prepare("SELECT thread_key, last_seq FROM thread_heads ORDER BY thread_key").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(|row| row.unwrap()).collect()
}

#[tokio::test]
async fn a_stopped_copy_is_resumed_and_later_changes_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
    let locations = || (JournalLocation::File(from.clone()), JournalLocation::File(to.clone()));
    create_file(&from, 1..10_000);
    let (source, target) = locations();
    let stopped = copy(source, target, Box::new(|_| ControlFlow::Break(()))).await.unwrap();
    assert_eq!((stopped.outcome, stopped.is_resumed), (CopyOutcome::Stopped, false));
    assert!(stopped.rows > 0 && stopped.rows < 9_999, "{stopped:?}");
    let refused = crate::SqliteStore::open(&to).err();
    assert!(matches!(&refused, Some(Error::UnfinishedCopy { .. })), "{refused:?}");

    let changed = "UPDATE thread_heads SET last_seq = 7 WHERE thread_key IN (3, 9999);
        DELETE FROM thread_heads WHERE thread_key = 4; INSERT INTO thread_heads (thread_key, thread_id) VALUES (4, 'other')";
    rusqlite::Connection::open(&from).unwrap().execute_batch(changed).unwrap();
    let (source, target) = locations();
    let whole = copy(source, target, never_stop()).await.unwrap();
    assert_eq!(
        (whole.outcome, whole.is_resumed, whole.changed_rows),
        (CopyOutcome::Whole, true, 2),
        "{whole:?}"
    );
    assert_eq!(read_rows(&from), read_rows(&to));
    assert!(crate::SqliteStore::open(&to).is_ok());
}

/// Returns a callback that runs `work` when a phase is reported for the first time.
fn run_once_at(step: CopyPhase, work: impl FnOnce() + Send + 'static) -> ProgressCallback {
    let mut work = Some(work);
    Box::new(move |progress| {
        if progress.step == step
            && let Some(work) = work.take()
        {
            work();
        }
        ControlFlow::Continue(())
    })
}

#[tokio::test]
async fn changes_of_the_source_during_a_copy_are_detected() {
    let changes = [
        "UPDATE thread_heads SET last_seq = 9 WHERE thread_key = 2",
        "UPDATE thread_heads SET status = 'busy' WHERE thread_key = 2",
        "UPDATE thread_heads SET status = CASE thread_key WHEN 2 THEN 'a' ELSE 'b' END WHERE thread_key < 4",
    ];
    for (change, step) in changes.into_iter().flat_map(|change| PHASES.map(|step| (change, step))) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
        create_file(&from, 1..10);
        let (source, target) = (JournalLocation::File(from.clone()), JournalLocation::File(to.clone()));
        let other = rusqlite::Connection::open(&from).unwrap();
        let meanwhile = run_once_at(step, move || other.execute_batch(change).unwrap());
        let first = copy(source.clone(), target.clone(), meanwhile).await.unwrap();
        assert_eq!(first.outcome, CopyOutcome::SourceChanged, "{step:?}: {change}");
        let second = copy(source, target, never_stop()).await.unwrap();
        assert_eq!(second.outcome, CopyOutcome::Whole, "{step:?}: {change}");
        assert!(second.changed_rows > 0, "{step:?}: {change}");
        assert_eq!(read_heads(&from), read_heads(&to), "{step:?}: {change}");
    }
}

#[test]
fn heartbeats_and_sequence_numbers_are_no_change_of_the_source() {
    let database = test_postgres::TestDatabase::create().unwrap();
    let url = database.socket_url();
    let other = crate::engines::postgres::PostgresCopyConnection::open(&url).unwrap();
    other
        .connection
        .batch_execute(
            "INSERT INTO agents (agent_key, agent_id) VALUES (1, 'one'); CREATE SEQUENCE segue_turns_1;
             SELECT setval('segue_turns_1', 5)",
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to.db");
    let meanwhile: ProgressCallback = Box::new(move |_| {
        let sql =
            "INSERT INTO replicas VALUES ('a', 'b', 'c') ON CONFLICT (owner) DO UPDATE SET machine = 'd';
            SELECT nextval('segue_turns_1')";
        other.connection.batch_execute(sql).unwrap();
        ControlFlow::Continue(())
    });
    let copied = copy_without_runtime(
        JournalLocation::Server(url.clone()),
        JournalLocation::File(to.clone()),
        meanwhile,
    )
    .unwrap();
    assert_eq!((copied.outcome, copied.changed_rows), (CopyOutcome::Whole, 0), "{copied:?}");
    let floor = |path: &Path| -> i64 {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.query_row("SELECT turn_floor FROM agents", [], |row| row.get(0)).unwrap()
    };
    assert!(floor(&to) > 5, "numbers assigned during the copy are not assigned again: {}", floor(&to));

    let changed = crate::engines::postgres::PostgresCopyConnection::open(&url).unwrap();
    let head = "INSERT INTO thread_heads (thread_id, status) VALUES ('x', 'idle') ON CONFLICT (thread_id) DO UPDATE SET status = 'busy'";
    changed.connection.batch_execute(head).unwrap();
    let (source, target) =
        (JournalLocation::Server(url.clone()), JournalLocation::File(folder.path().join("other.db")));
    let meanwhile = run_once_at(CopyPhase::Compare, move || changed.connection.batch_execute(head).unwrap());
    let first = copy_without_runtime(source.clone(), target.clone(), meanwhile).unwrap();
    let second = copy_without_runtime(source, target, never_stop()).unwrap();
    assert_eq!(
        (first.outcome, second.outcome, second.changed_rows),
        (CopyOutcome::SourceChanged, CopyOutcome::Whole, 1)
    );
}

#[test]
fn a_database_in_use_is_no_target_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from.db");
    create_file(&from, 1..3);
    let database = test_postgres::TestDatabase::create().unwrap();
    let server_connection =
        crate::engines::postgres::PostgresCopyConnection::open(&database.socket_url()).unwrap();
    let set_alive_for = |seconds: i64| {
        let until = "to_char((clock_timestamp() + make_interval(secs => $1)) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US000\"Z\"')";
        let heartbeat = format!(
            "INSERT INTO replicas VALUES ('a', 'b', {until}) ON CONFLICT (owner) DO UPDATE SET alive_until = excluded.alive_until"
        );
        server_connection.connection.execute(&heartbeat, &[seconds.into()]).unwrap();
    };
    let locations = || (JournalLocation::File(from.clone()), JournalLocation::Server(database.socket_url()));
    set_alive_for(600);
    let (source, target) = locations();
    let refused = copy_without_runtime(source, target, never_stop()).unwrap_err();
    assert!(
        matches!(&refused, Error::UnsuitableTarget { reason, .. } if reason.contains("uses it")),
        "{refused}"
    );
    set_alive_for(-1);
    let (source, target) = locations();
    assert_eq!(copy_without_runtime(source, target, never_stop()).unwrap().outcome, CopyOutcome::Whole);
}

#[test]
fn a_checkpoint_fails_while_another_process_reads_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    create_file(&path, 1..3);
    let copy_connection = crate::engines::sqlite::SqliteCopyConnection::open(&path).unwrap();
    copy_connection.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(reader.query_row("SELECT count(*) FROM thread_heads", [], |row| row.get(0)), Ok(2));
    copy_connection.connection.execute_batch("DELETE FROM thread_heads").unwrap();
    let error = copy_connection.checkpoint_wal().unwrap_err();
    assert!(matches!(&error, Error::Locked { .. }), "{error}");
    reader.execute_batch("COMMIT").unwrap();
    copy_connection.checkpoint_wal().unwrap();
    let log = std::fs::metadata(folder.path().join("segue.db-wal")).unwrap();
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn only_an_empty_database_is_a_target_of_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    create_file(&path("from.db"), 1..3);
    create_file(&path("full.db"), 1..2);
    let check = async |from: &str, to: &str, expected: &str| {
        let failed = copy(JournalLocation::File(path(from)), JournalLocation::File(path(to)), never_stop())
            .await
            .unwrap_err();
        assert!(failed.to_string().contains(expected), "{from} to {to}: {failed}");
    };
    check("from.db", "full.db", "it is not empty").await;
    check("from.db", "from.db", "it is the database to copy").await;
    check("none.db", "to.db", "find the database").await;
    assert!(!path("none.db").exists() && !path("to.db").exists());
    let stop: ProgressCallback = Box::new(|_| ControlFlow::Break(()));
    copy(JournalLocation::File(path("from.db")), JournalLocation::File(path("half.db")), stop).await.unwrap();
    check("full.db", "half.db", "is not finished").await;
    check("half.db", "to.db", "is not finished").await;
}
