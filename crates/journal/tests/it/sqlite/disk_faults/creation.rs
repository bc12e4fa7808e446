//! Faults while a journal is created. The next process creates it, or uses what was created.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use journal::{Error, SqliteStore, Store, Write};
use protocol::Thread;
use tempfile::TempDir;
use test_disk_faults::{DiskFault, DiskOperation, FaultyDisk, SurvivingWrites};

use super::sample;
use super::scenario::check_integrity;
use crate::conformance::fixtures::{commit, thread};

/// A folder without a journal, and the first row of the journal.
struct CreationFixture {
    /// The first thread.
    thread: Thread,
    /// The disk. It is dropped before its folder.
    disk: FaultyDisk,
    /// The folder.
    folder: TempDir,
}

impl CreationFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::attach(folder.path()).unwrap();
        Self { thread: thread(), disk, folder }
    }

    /// Returns the path of a journal that does not exist.
    fn free_path(&self) -> PathBuf {
        let folder = self.folder.path().join("case");
        let _ = fs::remove_dir_all(&folder);
        folder.join("segue.db")
    }

    /// Creates the journal with its first thread.
    async fn create_journal(&self, path: &Path) -> Result<(), Error> {
        let store = SqliteStore::open(path)?;
        commit(&store, vec![Write::CreateThread(self.thread.clone())]).await.map(drop)
    }

    /// Asserts that the next process can use the journal after a fault during its creation.
    async fn check_case(&self, fault: DiskFault, survivors: SurvivingWrites) {
        let path = self.free_path();
        self.disk.plan_fault(Some(fault));
        let created = self.create_journal(&path).await;
        let is_expected = matches!(created, Ok(()) | Err(Error::Io { .. } | Error::PermissionDenied { .. }));
        assert!(is_expected, "{fault:?}: {created:?}");
        self.disk.restart(survivors).unwrap();
        let store =
            SqliteStore::open(&path).unwrap_or_else(|error| panic!("{fault:?} {survivors:?}: {error:?}"));
        let stored = store.thread(self.thread.thread_id).await.unwrap();
        assert!(stored.is_some() || created.is_err(), "{fault:?} {survivors:?}: acknowledged and lost");
        check_integrity(&store).await;
        assert_eq!(file_mode(&path), 0o600, "{fault:?} {survivors:?}");
        drop(store);
        self.create_journal(&path).await.unwrap();
        let store = SqliteStore::open(&path).unwrap();
        assert!(store.thread(self.thread.thread_id).await.unwrap().is_some());
        check_integrity(&store).await;
    }
}

fn file_mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a3_a_journal_whose_creation_was_interrupted_is_complete_after_the_next_opening() {
    let fixture = CreationFixture::new();
    fixture.disk.plan_fault(None);
    fixture.create_journal(&fixture.free_path()).await.unwrap();
    let changes: Vec<u64> = sample(fixture.disk.change_count()).collect();
    assert!(changes.len() > 9, "{changes:?}");
    fixture.disk.restart(SurvivingWrites::All).unwrap();
    for change in changes {
        for survivors in
            [SurvivingWrites::All, SurvivingWrites::Synced, SurvivingWrites::Random { seed: change }]
        {
            fixture.check_case(DiskFault::PowerLoss { change }, survivors).await;
        }
    }
}

#[tokio::test]
async fn a3_k6_a_failed_creation_leaves_a_file_that_only_its_owner_can_read_after_the_next_opening() {
    let fixture = CreationFixture::new();
    fixture.disk.plan_fault(None);
    fixture.create_journal(&fixture.free_path()).await.unwrap();
    let operations = [DiskOperation::Open, DiskOperation::Read, DiskOperation::Write, DiskOperation::Sync];
    let counts = operations.map(|operation| fixture.disk.operation_count(operation));
    fixture.disk.restart(SurvivingWrites::All).unwrap();
    for (operation, count) in operations.into_iter().zip(counts) {
        for number in sample(count) {
            let fault = DiskFault::Failure { operation, number };
            fixture.check_case(fault, SurvivingWrites::All).await;
        }
    }
}
