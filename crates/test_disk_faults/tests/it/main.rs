//! The simulated disk as SQLite sees it: codes of failures, and what a database contains after a power loss.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};
use tempfile::TempDir;
use test_disk_faults::{DiskFault, DiskOperation, FaultyDisk, SurvivingWrites};

/// A folder on a simulated disk, with a closed database that has an empty table.
struct DiskFixture {
    /// The disk. It is dropped before its folder.
    disk: FaultyDisk,
    /// The path of the database.
    path: PathBuf,
    _folder: TempDir,
}

impl DiskFixture {
    fn create() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::attach(folder.path()).unwrap();
        let path = folder.path().canonicalize().unwrap().join("some.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE notes (text)").unwrap();
        drop(connection);
        disk.restart(SurvivingWrites::All).unwrap();
        Self { disk, path, _folder: folder }
    }

    fn open(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// Cuts the power while the connection is closed.
    fn lose_power(&self, connection: Connection, survivors: SurvivingWrites) {
        self.disk.plan_fault(Some(DiskFault::PowerLoss { change: 1 }));
        drop(connection);
        assert!(self.disk.has_failed());
        self.disk.restart(survivors).unwrap();
    }

    /// Returns the number of notes, and asserts that the database is intact.
    fn count_notes(&self) -> i64 {
        let connection = self.open();
        let problems: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(problems, "ok");
        connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap()
    }
}

fn insert(connection: &Connection) -> rusqlite::Result<usize> {
    connection.execute("INSERT INTO notes VALUES ('a note')", [])
}

/// Opens the database and inserts a note.
fn open_and_insert(path: &Path) -> rusqlite::Result<usize> {
    insert(&Connection::open(path)?)
}

#[test]
fn a_power_loss_drops_what_was_not_synced() {
    for (synchronous, survivors, expected) in [
        ("FULL", SurvivingWrites::Synced, 1),
        ("OFF", SurvivingWrites::Synced, 0),
        ("OFF", SurvivingWrites::All, 1),
    ] {
        let fixture = DiskFixture::create();
        let connection = fixture.open();
        connection.pragma_update(None, "synchronous", synchronous).unwrap();
        assert_eq!(insert(&connection), Ok(1));
        fixture.lose_power(connection, survivors);
        assert_eq!(fixture.count_notes(), expected, "{synchronous} {survivors:?}");
    }
}

#[test]
fn a_transaction_survives_a_power_loss_without_a_part_of_it() {
    for seed in 0..64 {
        let fixture = DiskFixture::create();
        let connection = fixture.open();
        connection.pragma_update(None, "synchronous", "OFF").unwrap();
        let texts = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
                     INSERT INTO notes SELECT hex(zeroblob(500)) FROM n";
        assert_eq!(connection.execute(texts, []), Ok(50));
        fixture.lose_power(connection, SurvivingWrites::Random { seed });
        let count = fixture.count_notes();
        assert!(count == 0 || count == 50, "seed {seed}: {count}");
    }
}

#[test]
fn an_operation_fails_once_with_the_code_that_sqlite_has_for_it() {
    for (operation, code) in [
        (DiskOperation::Open, ErrorCode::CannotOpen),
        (DiskOperation::Read, ErrorCode::SystemIoFailure),
        (DiskOperation::Write, ErrorCode::SystemIoFailure),
        (DiskOperation::Sync, ErrorCode::SystemIoFailure),
    ] {
        let fixture = DiskFixture::create();
        fixture.disk.plan_fault(Some(DiskFault::Failure { operation, number: 1 }));
        let error = open_and_insert(&fixture.path).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(code), "{operation:?}: {error}");
        assert!(fixture.disk.has_failed());
        assert_eq!(open_and_insert(&fixture.path), Ok(1), "{operation:?}");
        assert_eq!(fixture.count_notes(), 1, "{operation:?}");
    }
}

#[test]
fn a_full_disk_accepts_writes_again_after_a_repair() {
    let fixture = DiskFixture::create();
    let connection = fixture.open();
    fixture.disk.plan_fault(Some(DiskFault::FullDisk { write: 2 }));
    for _ in 0..3 {
        let error = insert(&connection).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    }
    assert_eq!(fixture.count_notes(), 0, "reading needs no space");
    fixture.disk.repair();
    assert_eq!(insert(&connection), Ok(1));
    drop(connection);
    assert_eq!(fixture.count_notes(), 1);
}

#[test]
fn a_torn_write_leaves_nothing_of_its_transaction() {
    let fixture = DiskFixture::create();
    let connection = fixture.open();
    // The header of the log and that of the first frame are written before the page of that frame.
    fixture.disk.plan_fault(Some(DiskFault::TornWrite { write: 3 }));
    assert!(insert(&connection).is_err());
    drop(connection);
    fixture.disk.restart(SurvivingWrites::All).unwrap();
    assert_eq!(fixture.count_notes(), 0);
}

#[test]
fn a_sync_that_is_ignored_makes_nothing_durable() {
    let fixture = DiskFixture::create();
    let connection = fixture.open();
    fixture.disk.plan_fault(Some(DiskFault::IgnoredSyncs { sync: 1 }));
    assert_eq!(insert(&connection), Ok(1));
    assert!(fixture.disk.has_failed());
    fixture.lose_power(connection, SurvivingWrites::Synced);
    assert_eq!(fixture.count_notes(), 0);
}

#[test]
fn a_deleted_file_is_there_again_if_its_folder_was_not_synced() {
    let fixture = DiskFixture::create();
    assert_eq!(open_and_insert(&fixture.path), Ok(1));
    let log = fixture.path.with_extension("db-wal");
    assert!(!log.exists(), "closing the database deletes its log");
    fixture.disk.restart(SurvivingWrites::Synced).unwrap();
    assert!(log.exists());
    assert_eq!(fixture.count_notes(), 1);
}

#[test]
fn databases_of_other_folders_are_not_affected() {
    let fixture = DiskFixture::create();
    let other_folder = tempfile::tempdir().unwrap();
    let other = other_folder.path().join("some.db");
    fixture.disk.plan_fault(Some(DiskFault::PowerLoss { change: 1 }));
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    assert_eq!(open_and_insert(&other), Ok(1));
    assert!(!fixture.disk.has_failed());
    assert_eq!((fixture.disk.change_count(), fixture.disk.operation_count(DiskOperation::Open)), (0, 0));
}
