//! The locks of an open journal. Closing any file handle releases all locks that a process holds on the file, so a process must
//! not open the file of a journal besides SQLite.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use journal::{Error, HealthCheckDepth, SqliteStore, Store};
use test_disk_faults::{DiskFault, DiskOperation};

use super::FaultFixture;

/// Returns the number of locks that this process holds on a file.
fn count_locks(path: &Path) -> usize {
    let inode = format!(":{}", std::fs::metadata(path).unwrap().ino());
    let process = std::process::id().to_string();
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_ours = |lock: &&str| {
        let fields: Vec<_> = lock.split_whitespace().collect();
        fields.contains(&process.as_str()) && fields.iter().any(|field| field.ends_with(&inode))
    };
    locks.lines().filter(is_ours).count()
}

/// Without its locks, another process takes itself for the last one, and deletes the log when it exits.
#[tokio::test]
async fn j8_a_failure_to_open_a_second_connection_does_not_release_the_locks_of_the_first() {
    let fixture = FaultFixture::create().await;
    let path = fixture.create_journal();
    let store = SqliteStore::open(&path).unwrap();
    store.commit(fixture.scenario.transactions[0].clone()).await.unwrap();
    let locks = count_locks(&path);
    if locks == 0 {
        println!("not tested: the system does not list the locks of this process");
        return;
    }
    fixture.disk.plan_fault(Some(DiskFault::Failure { operation: DiskOperation::Open, number: 1 }));
    let refused = store.health(HealthCheckDepth::Counts).await;
    assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{refused:?}");
    assert!(fixture.disk.has_failed());
    assert_eq!(count_locks(&path), locks);
    assert_eq!(store.health(HealthCheckDepth::Counts).await.unwrap().threads, 1);
}
