//! That the list of tables is that of both engines' schemas, and that copies notice what they must.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use super::tables::TABLES;
use super::{End, Outcome, Step, Watch, copy};
use crate::Error;

/// What is not copied, each for its reason.
const LEFT_OUT: [&str; 4] = ["replicas", "schema_migrations", "segue_migrations", "search_index"];

/// Columns that begin anew.
const BEGUN_ANEW: [(&str, &str); 2] = [("thread_heads", "indexed_seq"), ("handoff_index", "is_due")];

/// Columns that PostgreSQL fills from others of the row.
const DERIVED: [(&str, &str); 2] = [("thread_heads", "owner"), ("threads", "owner")];

/// Returns the columns of each table that is to be copied, in the order of their names.
fn listed() -> BTreeMap<String, Vec<String>> {
    let columns = |table: &super::tables::Table| {
        // A number that SQLite keeps of every row, where it is a column in PostgreSQL.
        let of_both = table.columns.iter().map(|column| column.name.to_owned());
        let mut columns: Vec<String> = of_both.filter(|name| name != "rowid").collect();
        columns.extend(
            BEGUN_ANEW.iter().filter(|(of, _)| *of == table.name).map(|(_, column)| (*column).to_owned()),
        );
        columns.sort();
        columns
    };
    TABLES.iter().map(|table| (table.name.to_owned(), columns(table))).collect()
}

fn grouped(columns: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (table, column) in columns {
        let is_of_index = table.starts_with("search_index");
        let is_derived = DERIVED.contains(&(table.as_str(), column.as_str()));
        if !LEFT_OUT.contains(&table.as_str()) && !is_of_index && column != "rowid" && !is_derived {
            tables.entry(table).or_default().push(column);
        }
    }
    tables.values_mut().for_each(|columns| columns.sort());
    tables
}

#[test]
fn the_list_is_the_schema_of_sqlite() {
    let connection = crate::engines::sqlite::memory().unwrap();
    let mut statement = connection
        .prepare(
            "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_xinfo(t.name) c
             WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND c.hidden = 0",
        )
        .unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(listed(), grouped(found.map(|row| row.unwrap())));
    for table in TABLES {
        let mut statement =
            connection.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk").unwrap();
        let keys: Vec<String> =
            statement.query_map([table.name], |row| row.get(0)).unwrap().map(|key| key.unwrap()).collect();
        let listed: Vec<&str> = table.columns[..table.keys].iter().map(|column| column.name).collect();
        assert_eq!(listed, keys, "the key of {}", table.name);
    }
}

#[test]
fn the_list_is_the_schema_of_postgresql() {
    let database = test_postgres::Database::create().unwrap();
    let plain = crate::engines::postgres::Plain::open(&database.socket_url()).unwrap();
    let texts = |sql: &str| -> Vec<(String, String)> {
        let rows = plain.connection.query(sql, &[]).unwrap();
        rows.iter().map(|row| (row.text(0).unwrap().unwrap(), row.text(1).unwrap().unwrap())).collect()
    };
    let found = texts(
        "SELECT c.table_name::text, c.column_name::text FROM information_schema.columns c
         JOIN information_schema.tables t USING (table_schema, table_name)
         WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'",
    );
    assert_eq!(listed(), grouped(found));
    let numbered = texts(
        "SELECT table_name::text, column_name::text FROM information_schema.columns
         WHERE table_schema = 'public' AND is_identity = 'YES' ORDER BY 1",
    );
    let mut listed: Vec<(String, String)> = TABLES
        .iter()
        .filter_map(|table| table.numbered.map(|column| (table.name.to_owned(), column.to_owned())))
        .collect();
    listed.sort();
    assert_eq!(listed, numbered, "the numbers that the server gives out");
}

/// A file with these threads' heads in it.
fn filled(path: &Path, threads: std::ops::Range<i64>) {
    let plain = crate::engines::sqlite::Plain::open(path).unwrap();
    plain.connection.execute_batch("BEGIN").unwrap();
    for key in threads {
        plain
            .connection
            .execute(
                "INSERT INTO thread_heads (thread_key, thread_id, last_seq) VALUES (?1, ?2, 1)",
                (key, format!("thread {key}")),
            )
            .unwrap();
    }
    plain.connection.execute_batch("COMMIT").unwrap();
}

fn on_and_on() -> Watch {
    Box::new(|_| ControlFlow::Continue(()))
}

/// Copies outside of any runtime.
fn moved(from: End, to: End, watch: Watch) -> crate::Result<super::Copied> {
    super::copy_now(&from, &to, super::Purpose::Move, watch)
}

/// When something happens in a copy.
const STEPS: [Step; 3] = [Step::Copy, Step::Compare, Step::Index];

fn heads(path: &Path) -> Vec<(i64, i64, Option<String>)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement = connection
        .prepare("SELECT thread_key, last_seq, status FROM thread_heads ORDER BY thread_key")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(|row| row.unwrap()).collect()
}

fn rows(path: &Path) -> Vec<(i64, i64)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut statement =
        connection.prepare("SELECT thread_key, last_seq FROM thread_heads ORDER BY thread_key").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(|row| row.unwrap()).collect()
}

#[tokio::test]
async fn a_copy_that_was_stopped_goes_on_and_what_changed_meanwhile_comes_over() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
    let ends = || (End::File(from.clone()), End::File(to.clone()));
    filled(&from, 1..10_000);
    let (source, target) = ends();
    let stopped = copy(source, target, Box::new(|_| ControlFlow::Break(()))).await.unwrap();
    assert_eq!((stopped.outcome, stopped.is_resumed), (Outcome::Stopped, false));
    assert!(stopped.rows > 0 && stopped.rows < 9_999, "{stopped:?}");
    let refused = crate::Sqlite::open(&to).err();
    assert!(matches!(&refused, Some(Error::Unfinished { .. })), "{refused:?}");

    let changed = "UPDATE thread_heads SET last_seq = 7 WHERE thread_key IN (3, 9999);
        DELETE FROM thread_heads WHERE thread_key = 4; INSERT INTO thread_heads (thread_key, thread_id) VALUES (4, 'other')";
    rusqlite::Connection::open(&from).unwrap().execute_batch(changed).unwrap();
    let (source, target) = ends();
    let whole = copy(source, target, on_and_on()).await.unwrap();
    assert_eq!((whole.outcome, whole.is_resumed, whole.changed_rows), (Outcome::Whole, true, 2), "{whole:?}");
    assert_eq!(rows(&from), rows(&to));
    assert!(crate::Sqlite::open(&to).is_ok());
}

/// Returns who does something at the first look at a step.
fn once_at(step: Step, work: impl FnOnce() + Send + 'static) -> Watch {
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
async fn what_is_written_to_the_source_while_it_is_copied_is_noticed() {
    let changes = [
        "UPDATE thread_heads SET last_seq = 9 WHERE thread_key = 2",
        "UPDATE thread_heads SET status = 'busy' WHERE thread_key = 2",
        "UPDATE thread_heads SET status = CASE thread_key WHEN 2 THEN 'a' ELSE 'b' END WHERE thread_key < 4",
    ];
    for (change, step) in changes.into_iter().flat_map(|change| STEPS.map(|step| (change, step))) {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from.db"), folder.path().join("to.db"));
        filled(&from, 1..10);
        let (source, target) = (End::File(from.clone()), End::File(to.clone()));
        let other = rusqlite::Connection::open(&from).unwrap();
        let meanwhile = once_at(step, move || other.execute_batch(change).unwrap());
        let first = copy(source.clone(), target.clone(), meanwhile).await.unwrap();
        assert_eq!(first.outcome, Outcome::SourceChanged, "{step:?}: {change}");
        let second = copy(source, target, on_and_on()).await.unwrap();
        assert_eq!(second.outcome, Outcome::Whole, "{step:?}: {change}");
        assert!(second.changed_rows > 0, "{step:?}: {change}");
        assert_eq!(heads(&from), heads(&to), "{step:?}: {change}");
    }
}

#[test]
fn that_somebody_lives_or_gives_out_a_number_is_no_change_of_the_source() {
    let database = test_postgres::Database::create().unwrap();
    let url = database.socket_url();
    let other = crate::engines::postgres::Plain::open(&url).unwrap();
    other
        .connection
        .batch(
            "INSERT INTO agents (agent_key, agent_id) VALUES (1, 'one'); CREATE SEQUENCE segue_turns_1;
             SELECT setval('segue_turns_1', 5)",
        )
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to.db");
    let meanwhile: Watch = Box::new(move |_| {
        let happens =
            "INSERT INTO replicas VALUES ('a', 'b', 'c') ON CONFLICT (owner) DO UPDATE SET machine = 'd';
            SELECT nextval('segue_turns_1')";
        other.connection.batch(happens).unwrap();
        ControlFlow::Continue(())
    });
    let copied = moved(End::Server(url.clone()), End::File(to.clone()), meanwhile).unwrap();
    assert_eq!((copied.outcome, copied.changed_rows), (Outcome::Whole, 0), "{copied:?}");
    let floor = |path: &Path| -> i64 {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.query_row("SELECT turn_floor FROM agents", [], |row| row.get(0)).unwrap()
    };
    assert!(floor(&to) > 5, "what was given out while it was copied is not given out again: {}", floor(&to));

    let changed = crate::engines::postgres::Plain::open(&url).unwrap();
    let head = "INSERT INTO thread_heads (thread_id, status) VALUES ('x', 'idle') ON CONFLICT (thread_id) DO UPDATE SET status = 'busy'";
    changed.connection.batch(head).unwrap();
    let (source, target) = (End::Server(url.clone()), End::File(folder.path().join("other.db")));
    let meanwhile = once_at(Step::Compare, move || changed.connection.batch(head).unwrap());
    let first = moved(source.clone(), target.clone(), meanwhile).unwrap();
    let second = moved(source, target, on_and_on()).unwrap();
    assert_eq!(
        (first.outcome, second.outcome, second.changed_rows),
        (Outcome::SourceChanged, Outcome::Whole, 1)
    );
}

#[test]
fn a_database_that_somebody_serves_is_not_copied_into() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from.db");
    filled(&from, 1..3);
    let database = test_postgres::Database::create().unwrap();
    let served = crate::engines::postgres::Plain::open(&database.socket_url()).unwrap();
    let lives = |seconds: i64| {
        let until = "to_char((clock_timestamp() + make_interval(secs => $1)) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US000\"Z\"')";
        let announced = format!(
            "INSERT INTO replicas VALUES ('a', 'b', {until}) ON CONFLICT (owner) DO UPDATE SET alive_until = excluded.alive_until"
        );
        served.connection.execute(&announced, &[seconds.into()]).unwrap();
    };
    let ends = || (End::File(from.clone()), End::Server(database.socket_url()));
    lives(600);
    let (source, target) = ends();
    let refused = moved(source, target, on_and_on()).unwrap_err();
    assert!(matches!(&refused, Error::Unfit { reason, .. } if reason.contains("uses it")), "{refused}");
    lives(-1);
    let (source, target) = ends();
    assert_eq!(moved(source, target, on_and_on()).unwrap().outcome, Outcome::Whole);
}

#[test]
fn a_log_that_somebody_reads_is_not_said_to_be_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    filled(&path, 1..3);
    let plain = crate::engines::sqlite::Plain::open(&path).unwrap();
    plain.connection.busy_timeout(std::time::Duration::ZERO).unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    assert_eq!(reader.query_row("SELECT count(*) FROM thread_heads", [], |row| row.get(0)), Ok(2));
    plain.connection.execute_batch("DELETE FROM thread_heads").unwrap();
    let told = plain.settle().unwrap_err();
    assert!(matches!(&told, Error::Locked { .. }), "{told}");
    reader.execute_batch("COMMIT").unwrap();
    plain.settle().unwrap();
    let log = std::fs::metadata(folder.path().join("segue.db-wal")).unwrap();
    assert_eq!(log.len(), 0);
}

#[tokio::test]
async fn a_database_that_is_not_empty_is_not_copied_into() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    filled(&path("from.db"), 1..3);
    filled(&path("full.db"), 1..2);
    let check = async |from: &str, to: &str, expected: &str| {
        let failed = copy(End::File(path(from)), End::File(path(to)), on_and_on()).await.unwrap_err();
        assert!(failed.to_string().contains(expected), "{from} to {to}: {failed}");
    };
    check("from.db", "full.db", "it is not empty").await;
    check("from.db", "from.db", "it is the database to copy").await;
    check("none.db", "to.db", "find the database").await;
    assert!(!path("none.db").exists() && !path("to.db").exists());
    let stop: Watch = Box::new(|_| ControlFlow::Break(()));
    copy(End::File(path("from.db")), End::File(path("half.db")), stop).await.unwrap();
    check("full.db", "half.db", "is not finished").await;
    check("half.db", "to.db", "is not finished").await;
}
