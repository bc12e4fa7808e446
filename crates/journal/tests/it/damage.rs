//! Unusable databases: each cause has its own error, and the file is not changed.

pub mod events;

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::{Error, EventQuery, HealthCheckDepth, SqliteOpenOptions, SqliteStore, Store, Write};
use tempfile::TempDir;

use crate::conformance::fixtures::{append, commit, create, human, search_for, thread};

/// Creates a folder with a database that has a thread of 2,000 messages. It has no write-ahead log, whose pages would
/// replace damaged ones.
async fn database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    let messages = (0..2_000).map(|number| human(&format!("{number} {}", "words ".repeat(40))));
    append(&store, thread_id, messages.collect()).await.unwrap();
    drop(store);
    rusqlite::Connection::open(&path).unwrap().execute_batch("SELECT count(*) FROM threads").unwrap();
    assert!(!path.with_extension("db-wal").exists());
    (folder, path)
}

/// Overwrites bytes of the file at `offset`.
fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Opens the database and returns the error.
fn open_error(path: &Path) -> Error {
    SqliteStore::open(path).err().unwrap()
}

#[tokio::test]
async fn a4_a_damaged_database_is_refused_and_not_changed() {
    type FileDamage = fn(&Path);
    let damages: [(&str, FileDamage); 6] = [
        ("not a database", |path| {
            fs::write(path, "just some text, long enough to be read ".repeat(40)).unwrap()
        }),
        ("a damaged header", |path| overwrite(path, 0, &[0xFF; 100])),
        ("a damaged schema", |path| overwrite(path, 100, &[0xFF; 3_900])),
        ("cut in half", |path| {
            let length = fs::metadata(path).unwrap().len();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length / 2).unwrap();
        }),
        ("emptied beside its log", |path| {
            fs::write(path, "").unwrap();
            fs::write(path.with_extension("db-wal"), "frames").unwrap();
        }),
        ("of another program", |path| {
            fs::remove_file(path).unwrap();
            rusqlite::Connection::open(path).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
        }),
    ];
    for (what, damage) in damages {
        let (_folder, path) = database().await;
        damage(&path);
        let before = fs::read(&path).unwrap();
        let error = open_error(&path);
        assert!(
            matches!(&error, Error::Corrupt { path: named, reason } if *named == path && !reason.is_empty()),
            "{what}: {error:?}"
        );
        assert!(fs::read(&path).unwrap() == before, "{what}");
    }
}

#[tokio::test]
async fn a4_damage_inside_the_file_is_reported_when_it_is_read() {
    let (_folder, path) = database().await;
    // The first pages have the schema; the pages in the middle have events.
    let middle = fs::metadata(&path).unwrap().len() / 2 / 4_096 * 4_096;
    overwrite(&path, middle, &[0xFF; 4_096 * 8]);
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = store.threads_by_prefix("", &protocol::OwnerScope::Everyone).await.unwrap()[0];
    let read = store.events(thread_id, EventQuery::after(0, 5_000)).await;
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    assert!(!store.health(HealthCheckDepth::Integrity).await.unwrap().problems.is_empty());
}

#[tokio::test]
async fn a4_nothing_is_written_to_a_file_after_damage_was_found_in_it() {
    let (_folder, path) = database().await;
    let middle = fs::metadata(&path).unwrap().len() / 2 / 4_096 * 4_096;
    overwrite(&path, middle, &[0xFF; 4_096 * 8]);
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = store.threads_by_prefix("", &protocol::OwnerScope::Everyone).await.unwrap()[0];
    append(&store, thread_id, vec![human("the damage is not known yet")]).await.unwrap();
    let files = || (fs::read(&path).unwrap(), fs::read(path.with_extension("db-wal")).unwrap());
    let before = files();
    assert!(store.events(thread_id, EventQuery::after(0, 5_000)).await.is_err());
    for result in [
        commit(&store, vec![Write::CreateThread(thread())]).await.map(drop),
        append(&store, thread_id, vec![human("more")]).await.map(drop),
        store.update_search_index().await,
    ] {
        assert!(matches!(result, Err(Error::Corrupt { .. })), "{result:?}");
    }
    assert!(store.search(search_for("words")).await.is_err());
    assert!(store.thread(thread_id).await.unwrap().is_some(), "what can be read is read");
    drop(store);
    assert!(files() == before);
}

#[tokio::test]
async fn rows_that_contradict_each_other_are_problems() {
    let (_folder, path) = database().await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(
        "DELETE FROM events WHERE seq = 77; UPDATE schema_migrations SET checksum = 'edited';
         DELETE FROM turns WHERE turn_index = 99;
         INSERT INTO superseded SELECT thread_key, 78, 79 FROM threads;
         INSERT INTO superseded SELECT thread_key, 80, 81 FROM threads;
         INSERT INTO artifacts SELECT thread_key, x'AB', 'image/png', 0 FROM threads;
         INSERT INTO artifact_bytes VALUES (x'CD', x'');
         INSERT INTO run_feedback SELECT thread_key, x'EF', 'local', 1, NULL, 0, 0 FROM threads;",
    )
    .unwrap();
    let problems =
        SqliteStore::open(&path).unwrap().health(HealthCheckDepth::Integrity).await.unwrap().problems;
    for part in [
        "has 1999 events, not 2000",
        "counts 2000 messages, not 1995",
        "turn 77 of agent agent has no event",
        "refers to turn 99, which does not refer back",
        "migration 1",
        "touch at 80",
        "artifact ab has no bytes",
        "artifact cd belong to no thread",
        "feedback on run ef",
    ] {
        assert!(problems.iter().any(|problem| problem.contains(part)), "{part}: {problems:?}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_folder, path) = database().await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 9_999).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, Error::NewerSchema { found: 9_999, .. }), "{error:?}");
}

#[test]
fn a_folder_is_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let error = open_error(folder.path());
    assert!(matches!(&error, Error::Io { path, .. } if path == folder.path()), "{error:?}");
    let below_a_file = folder.path().join("file");
    fs::write(&below_a_file, "").unwrap();
    let error = open_error(&below_a_file.join("segue.db"));
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_denied() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    match SqliteStore::open(&folder.path().join("segue.db")) {
        Err(error) => assert!(matches!(error, Error::PermissionDenied { .. }), "{error:?}"),
        Ok(_) => println!("not tested: this user may write everywhere"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_writes_continuously_does_not_block_others() {
    let (_folder, path) = database().await;
    let busy = Arc::new(SqliteStore::open(&path).unwrap());
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let busy = Arc::clone(&busy);
            tokio::spawn(async move {
                let thread_id = create(&*busy).await;
                loop {
                    let messages = (0..500).map(|number| human(&format!("{number}")));
                    append(&*busy, thread_id, messages.collect()).await.unwrap();
                }
            })
        })
        .collect();
    let other = SqliteStore::open(&path).unwrap();
    for _ in 0..10 {
        commit(&other, vec![Write::CreateThread(thread())]).await.unwrap();
    }
    writers.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_lock_that_exceeds_the_timeout_is_reported_and_harms_nothing() {
    let (_folder, path) = database().await;
    let options = SqliteOpenOptions { lock_wait: Duration::from_millis(20) };
    let store = SqliteStore::open_with(&path, options.clone()).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = commit(&store, vec![Write::CreateThread(thread())]).await;
    assert!(matches!(&refused, Err(error @ Error::Locked { .. }) if error.is_retryable()), "{refused:?}");
    let search = store.search(search_for("words")).await;
    assert!(matches!(search, Err(Error::Locked { .. })), "{search:?}");
    assert_eq!(store.health(HealthCheckDepth::Counts).await.unwrap().threads, 1, "reads still succeed");
    SqliteStore::open_with(&path, options).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    commit(&store, vec![Write::CreateThread(thread())]).await.unwrap();
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
}
