//! The write-ahead log while the database is closed: it is kept or checkpointed, and recovered or refused.

use std::fs;
use std::path::{Path, PathBuf};

use journal::{Error, HealthCheckDepth, SqliteStore, Store, Transaction, Write};
use protocol::ThreadId;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::conformance::fixtures::{all_events, append, create, human};

/// The longest log that is kept, in bytes.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// Creates a database with a thread of one short message, whose log is kept.
async fn database() -> (TempDir, PathBuf, ThreadId) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segue.db");
    drop(SqliteStore::open(&path).unwrap());
    let store = SqliteStore::open(&path).unwrap();
    let thread_id = create(&store).await;
    append(&store, thread_id, vec![human("hello")]).await.unwrap();
    drop(store);
    (folder, path, thread_id)
}

fn log_path(database: &Path) -> PathBuf {
    database.with_extension("db-wal")
}

fn log_length(database: &Path) -> u64 {
    fs::metadata(log_path(database)).map_or(0, |metadata| metadata.len())
}

async fn message_count(database: &Path, thread_id: ThreadId) -> usize {
    let store = SqliteStore::open(database).unwrap();
    assert_eq!(store.health(HealthCheckDepth::Integrity).await.unwrap().problems, Vec::<String>::new());
    all_events(&store, thread_id, &[]).await.len()
}

/// Copies `from` over the file `to`, again until its time of change differs from that of the log.
fn replace(to: &Path, from: &[u8]) {
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    loop {
        fs::write(to, from).unwrap();
        if modified(to) > modified(&log_path(to)) {
            return;
        }
    }
}

#[tokio::test]
async fn a3_a_short_log_is_kept_and_the_next_process_reads_it() {
    let (folder, path, thread_id) = database().await;
    assert!((1..=KEPT_BYTES_MAX).contains(&log_length(&path)), "{}", log_length(&path));
    let other = folder.path().join("other.db");
    fs::copy(&path, &other).unwrap();
    fs::copy(log_path(&path), log_path(&other)).unwrap();
    for database in [&path, &other] {
        assert_eq!(message_count(database, thread_id).await, 1);
    }
    let store = SqliteStore::open(&path).unwrap();
    append(&store, thread_id, vec![human("again")]).await.unwrap();
    drop(store);
    assert_eq!(message_count(&path, thread_id).await, 2);
}

#[tokio::test]
async fn a_long_log_is_checkpointed_when_the_database_is_closed() {
    let (folder, path, thread_id) = database().await;
    let store = SqliteStore::open(&path).unwrap();
    let messages = (0..40).map(|_| human(&"words ".repeat(10_000)));
    append(&store, thread_id, messages.collect()).await.unwrap();
    assert!(log_length(&path) > KEPT_BYTES_MAX);
    drop(store);
    assert_eq!(log_length(&path), 0);
    let alone = folder.path().join("alone.db");
    fs::copy(&path, &alone).unwrap();
    assert_eq!(message_count(&alone, thread_id).await, 41);
}

#[tokio::test]
async fn k9_a_short_log_that_contains_deleted_texts_is_not_kept() {
    let (_folder, path, thread_id) = database().await;
    let store = SqliteStore::open(&path).unwrap();
    append(&store, thread_id, vec![human("the code word is walnut-17")]).await.unwrap();
    store.commit(Transaction { fence: None, writes: vec![Write::DeleteThread { thread_id }] }).await.unwrap();
    drop(store);
    assert_eq!(log_length(&path), 0);
}

#[tokio::test]
async fn a1_nothing_is_acknowledged_after_a_file_of_the_open_database_was_replaced() {
    let actions: [fn(&Path); 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::rename(path, path.with_extension("moved")).unwrap(),
        |path| {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(&copy, path).unwrap();
        },
        |path| fs::remove_file(log_path(path)).unwrap(),
    ];
    for (number, action) in actions.into_iter().enumerate() {
        let (_folder, path, thread_id) = database().await;
        let store = SqliteStore::open(&path).unwrap();
        if number % 2 == 0 {
            append(&store, thread_id, vec![human("kept")]).await.unwrap();
        }
        assert!(store.check_database().is_ok());
        action(&path);
        let lost = append(&store, thread_id, vec![human("lost")]).await;
        assert!(matches!(lost, Err(Error::FileReplaced { .. })), "{number}: {lost:?}");
        assert!(matches!(store.check_database(), Err(Error::FileReplaced { .. })), "{number}");
    }
}

fn truncate(path: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Copies the log of a database that is open into its file.
fn checkpoint(path: &Path) {
    let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
    let is_blocked: bool = Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    assert!(!is_blocked);
}

#[tokio::test]
async fn a1_nothing_is_acknowledged_after_the_file_of_the_open_database_was_truncated() {
    let remainders: [fn(u64) -> u64; 4] = [|_| 0, |_| 50, |length| length / 2, |length| length - length / 4];
    for (number, remainder) in remainders.into_iter().enumerate() {
        for has_log in [false, true] {
            let (_folder, path, thread_id) = database().await;
            let store = SqliteStore::open(&path).unwrap();
            checkpoint(&path);
            if has_log {
                append(&store, thread_id, vec![human("kept")]).await.unwrap();
            }
            assert!(store.check_database().is_ok());
            truncate(&path, remainder(fs::metadata(&path).unwrap().len()));
            let rest = fs::read(&path).unwrap();
            for _ in 0..2 {
                let lost = append(&store, thread_id, vec![human("lost")]).await;
                assert!(matches!(lost, Err(Error::FileTruncated { .. })), "{number} {has_log}: {lost:?}");
                let check = store.check_database();
                assert!(matches!(check, Err(Error::FileTruncated { .. })), "{number} {has_log}: {check:?}");
            }
            drop(store);
            assert!(fs::read(&path).unwrap() == rest, "nothing was written to the rest of the file");
            assert!(!has_log || log_length(&path) > 0, "the log with the newest transactions is kept");
        }
    }
}

#[tokio::test]
async fn a_truncated_file_is_noticed_without_a_commit() {
    let (_folder, path, thread_id) = database().await;
    let store = SqliteStore::open(&path).unwrap();
    append(&store, thread_id, vec![human("kept")]).await.unwrap();
    checkpoint(&path);
    assert!(store.check_database().is_ok());
    truncate(&path, 0);
    assert!(matches!(store.check_database(), Err(Error::FileTruncated { length: 0, .. })));
    let read = store.health(HealthCheckDepth::Counts).await;
    assert!(matches!(read, Err(Error::FileTruncated { .. })), "{read:?}");
    drop(store);
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_vacuum_of_another_process_is_no_truncation() {
    let (_folder, path, thread_id) = database().await;
    let store = SqliteStore::open(&path).unwrap();
    let large = create(&store).await;
    let messages = |count| (0..count).map(|_| human(&"words ".repeat(10_000))).collect();
    append(&store, large, messages(40)).await.unwrap();
    checkpoint(&path);
    assert!(store.check_database().is_ok());
    let length = fs::metadata(&path).unwrap().len();
    store
        .commit(Transaction { fence: None, writes: vec![Write::DeleteThread { thread_id: large }] })
        .await
        .unwrap();
    Connection::open(&path).unwrap().execute_batch("VACUUM").unwrap();
    checkpoint(&path);
    assert!(fs::metadata(&path).unwrap().len() < length / 2);
    // The pages that the database gets are in the log only.
    append(&store, thread_id, messages(3)).await.unwrap();
    assert!(store.check_database().is_ok());
    drop(store);
    assert_eq!(message_count(&path, thread_id).await, 4);
}

#[tokio::test]
async fn without_its_log_a_file_is_intact_up_to_the_last_checkpoint() {
    let (folder, path, thread_id) = database().await;
    let alone = folder.path().join("alone.db");
    fs::copy(&path, &alone).unwrap();
    assert_eq!(message_count(&alone, thread_id).await, 0, "only the schema was checkpointed");
    // Other programs that close the database last checkpoint it.
    Connection::open(&path).unwrap().execute_batch("SELECT count(*) FROM threads").unwrap();
    assert_eq!(log_length(&path), 0);
    fs::copy(&path, &alone).unwrap();
    assert_eq!(message_count(&alone, thread_id).await, 1);
}

#[tokio::test]
async fn a4_a_log_next_to_a_restored_backup_is_refused_and_nothing_is_changed() {
    let (folder, path, thread_id) = database().await;
    let backup = folder.path().join("backup.db");
    Connection::open(&path).unwrap().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    let backup = fs::read(backup).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..6 {
        let message = human(&format!("{number} {}", "words ".repeat(500)));
        append(&store, create(&store).await, vec![message]).await.unwrap();
    }
    drop(store);
    assert!(log_length(&path) > 0);
    replace(&path, &backup);
    for _ in 0..2 {
        let error = SqliteStore::open(&path).err().unwrap();
        assert!(
            matches!(&error, Error::Corrupt { reason, .. } if reason.contains("delete the old -wal and -shm")),
            "{error:?}"
        );
        assert!(fs::read(&path).unwrap() == backup);
    }
    fs::remove_file(log_path(&path)).unwrap();
    fs::remove_file(path.with_extension("db-shm")).unwrap();
    assert_eq!(message_count(&path, thread_id).await, 1);
}

#[tokio::test]
async fn a4_a_file_that_was_written_again_with_its_own_content_keeps_its_log() {
    let (_folder, path, thread_id) = database().await;
    replace(&path, &fs::read(&path).unwrap());
    assert_eq!(message_count(&path, thread_id).await, 1);
}

#[tokio::test]
async fn a4_a_log_without_its_file_is_not_deleted() {
    let (folder, path, thread_id) = database().await;
    let moved = folder.path().join("moved.db");
    fs::rename(&path, &moved).unwrap();
    let log = fs::read(log_path(&path)).unwrap();
    let error = SqliteStore::open(&path).err().unwrap();
    assert!(matches!(&error, Error::Corrupt { reason, .. } if reason.contains("is missing")), "{error:?}");
    assert!(!path.exists() && fs::read(log_path(&path)).unwrap() == log);
    fs::rename(&moved, &path).unwrap();
    assert_eq!(message_count(&path, thread_id).await, 1);
}

/// Each connection reads the whole schema, so a process that performs one command has only one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn small_reads_between_commits_need_no_second_connection() {
    let (_folder, path, thread_id) = database().await;
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..5 {
        append(&store, thread_id, vec![human(&format!("{number}"))]).await.unwrap();
        assert_eq!(all_events(&store, thread_id, &[]).await.len(), number + 2);
        assert!(store.thread(thread_id).await.unwrap().is_some());
    }
    let path = fs::canonicalize(&path).unwrap();
    let open_files = fs::read_dir("/proc/self/fd").unwrap();
    let links = open_files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    assert_eq!(links.filter(|link| *link == path).count(), 1);
}

fn mark_path(database: &Path) -> PathBuf {
    database.with_extension("db-mark")
}

#[tokio::test]
async fn a4_a_flipped_bit_in_the_log_is_reported_and_nothing_is_changed() {
    let (folder, path, thread_id) = database().await;
    let log = fs::read(log_path(&path)).unwrap();
    // The header has 32 bytes, and each frame has a header of 24 bytes and a page.
    let positions = (0..32).step_by(5).chain((32..log.len()).step_by(997)).chain([log.len() - 1]);
    for (number, position) in positions.enumerate() {
        let damaged = folder.path().join(format!("{number}.db"));
        let mut bytes = log.clone();
        bytes[position] ^= 1 << (number % 8);
        fs::copy(&path, &damaged).unwrap();
        fs::write(log_path(&damaged), &bytes).unwrap();
        fs::copy(mark_path(&path), mark_path(&damaged)).unwrap();
        let before = fs::read(&damaged).unwrap();
        let error = SqliteStore::open(&damaged).err();
        assert!(matches!(error, Some(Error::LostTransactions { .. })), "byte {position}: {error:?}");
        assert!(fs::read(&damaged).unwrap() == before && fs::read(log_path(&damaged)).unwrap() == bytes);
        // Without its mark, the rest of the log is used.
        fs::remove_file(mark_path(&damaged)).unwrap();
        drop(SqliteStore::open(&damaged).unwrap());
    }
    assert_eq!(message_count(&path, thread_id).await, 1);
}

#[tokio::test]
async fn a4_a_mark_of_an_earlier_log_is_no_alarm() {
    let (_folder, path, thread_id) = database().await;
    let marks = |path: &Path| fs::read(mark_path(path)).unwrap();
    let old = marks(&path);
    // The log is deleted after a checkpoint, and the next one has fewer frames.
    Connection::open(&path).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert_eq!(message_count(&path, thread_id).await, 1);
    let store = SqliteStore::open(&path).unwrap();
    append(&store, thread_id, vec![human("again")]).await.unwrap();
    drop(store);
    assert_ne!(marks(&path), old);
    fs::write(mark_path(&path), &old).unwrap();
    assert_eq!(message_count(&path, thread_id).await, 2);
    // A mark that a crash left half-written is ignored.
    fs::write(mark_path(&path), &old[..11]).unwrap();
    assert_eq!(message_count(&path, thread_id).await, 2);
}

#[cfg(unix)]
#[tokio::test]
async fn k6_the_mark_can_be_read_by_its_owner_only() {
    let (_folder, path, _) = database().await;
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(mark_path(&path)).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}
