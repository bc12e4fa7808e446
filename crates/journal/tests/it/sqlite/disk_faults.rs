//! Faults of the disk below SQLite. A scenario is repeated, each time with another operation that fails, or with a power loss
//! before another change. Afterwards the journal has every acknowledged transaction exactly once, and the one without an
//! acknowledgement completely or not at all.
//!
//! Transactions are committed with `PRAGMA synchronous = FULL`, so an acknowledged transaction is one that was synced. The mark
//! of the write-ahead log is written without SQLite, and is not synced: after some power losses, the tests remove or cut it.

mod creation;
#[cfg(target_os = "linux")]
mod locks;
mod scenario;

use std::fs;
use std::path::{Path, PathBuf};

use journal::{Error, HealthCheckDepth, SqliteStore, Store};
use tempfile::TempDir;
use test_disk_faults::{DiskFault, DiskOperation, FaultyDisk, SurvivingWrites};

use self::scenario::{JournalState, Scenario, check_integrity};

/// The number of operations of a kind at which a fault is tested, if not at all of them.
const SAMPLE_SIZE: u64 = 16;

/// The reaction of the process to the first error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorReaction {
    /// It repeats what failed, and goes on.
    Repeat,
    /// It ends.
    Exit,
}

/// A repetition of the scenario with a fault.
#[derive(Debug, Clone, Copy)]
struct FaultCase {
    /// The fault.
    fault: DiskFault,
    /// The reaction of the process.
    reaction: ErrorReaction,
    /// The changes that the next process finds.
    survivors: SurvivingWrites,
}

impl FaultCase {
    /// Asserts that an error is one that tells a caller about the disk. A fault is never reported as damage.
    fn check_error(&self, error: &Error) {
        let is_expected = match self.fault {
            DiskFault::FullDisk { .. } => matches!(error, Error::DiskFull { .. }),
            DiskFault::Failure { operation: DiskOperation::Open, .. } => {
                matches!(error, Error::PermissionDenied { .. })
            }
            DiskFault::Failure { .. } => matches!(error, Error::Io { .. }),
            DiskFault::IgnoredSyncs { .. } | DiskFault::PowerLoss { .. } | DiskFault::TornWrite { .. } => {
                matches!(error, Error::Io { .. } | Error::PermissionDenied { .. })
            }
        };
        assert!(is_expected, "{self:?}: {error:?}");
    }

    /// Returns whether the process can read after the fault.
    fn can_read(&self) -> bool {
        match self.fault {
            DiskFault::FullDisk { .. } | DiskFault::Failure { .. } | DiskFault::IgnoredSyncs { .. } => true,
            DiskFault::PowerLoss { .. } | DiskFault::TornWrite { .. } => false,
        }
    }
}

/// The number of transactions that a process committed.
#[derive(Debug, Clone, Copy, Default)]
struct CommitProgress {
    /// Those that were acknowledged.
    acknowledged: usize,
    /// Those that were acknowledged, and the one that failed last.
    attempted: usize,
}

/// The scenario, and its states without faults.
struct FaultFixture {
    /// The scenario.
    scenario: Scenario,
    /// An empty journal.
    empty_journal: Vec<u8>,
    /// The states: the first one is before all transactions, and each other one after a transaction.
    states: Vec<JournalState>,
    /// The disk. It is dropped before its folder.
    disk: FaultyDisk,
    /// The folder of the databases.
    folder: TempDir,
}

impl FaultFixture {
    async fn create() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::attach(folder.path()).unwrap();
        let path = folder.path().join("empty.db");
        drop(SqliteStore::open(&path).unwrap());
        let empty_journal = fs::read(&path).unwrap();
        let scenario = Scenario::new();
        let mut fixture = Self { scenario, empty_journal, states: Vec::new(), disk, folder };
        fixture.states = fixture.collect_states().await;
        fixture
    }

    /// Returns the path of a new journal without threads.
    fn create_journal(&self) -> PathBuf {
        self.disk.restart(SurvivingWrites::All).unwrap();
        let folder = self.folder.path().join("case");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let path = folder.join("segue.db");
        fs::write(&path, &self.empty_journal).unwrap();
        path
    }

    /// Performs the scenario without a fault.
    async fn collect_states(&self) -> Vec<JournalState> {
        let path = self.create_journal();
        let mut states = Vec::new();
        for session_end in &self.scenario.session_ends {
            let store = SqliteStore::open(&path).unwrap();
            if states.is_empty() {
                states.push(self.scenario.read_state(&store).await);
            }
            while states.len() <= *session_end {
                let transaction = self.scenario.transactions[states.len() - 1].clone();
                store.commit(transaction).await.unwrap();
                states.push(self.scenario.read_state(&store).await);
            }
        }
        self.scenario.check_end(&SqliteStore::open(&path).unwrap()).await;
        states
    }

    /// Counts the operations of the scenario without a fault.
    async fn count_operations(&self) {
        let path = self.create_journal();
        self.disk.plan_fault(None);
        let fault = DiskFault::PowerLoss { change: u64::MAX };
        let survivors = SurvivingWrites::All;
        let case = FaultCase { fault, reaction: ErrorReaction::Exit, survivors };
        let progress = self.perform(&path, case).await;
        assert_eq!(progress.acknowledged, self.scenario.transactions.len());
        let syncs = self.disk.operation_count(DiskOperation::Sync);
        assert!(syncs >= progress.acknowledged as u64, "each transaction is synced: {syncs}");
    }

    /// Checks the failure of operations of one kind.
    async fn check_failures(&self, operation: DiskOperation, survivors: &[SurvivingWrites]) {
        self.count_operations().await;
        let mut cases = Vec::new();
        for number in sample(self.disk.operation_count(operation)) {
            let fault = DiskFault::Failure { operation, number };
            for reaction in [ErrorReaction::Repeat, ErrorReaction::Exit] {
                cases.extend(survivors.iter().map(|survivors| FaultCase {
                    fault,
                    reaction,
                    survivors: *survivors,
                }));
            }
        }
        self.check_cases(&cases).await;
    }

    /// Checks a power loss before each change.
    async fn check_power_losses(&self, survivors: impl Fn(u64) -> SurvivingWrites) {
        self.count_operations().await;
        let cases: Vec<_> = sample(self.disk.change_count())
            .map(|change| FaultCase {
                fault: DiskFault::PowerLoss { change },
                reaction: ErrorReaction::Exit,
                survivors: survivors(change),
            })
            .collect();
        self.check_cases(&cases).await;
    }

    /// Checks cases, nearly all of which must reach their fault: the number of operations varies a little with the time.
    async fn check_cases(&self, cases: &[FaultCase]) {
        let mut reached = 0;
        for case in cases {
            reached += usize::from(self.check_case(*case).await);
        }
        println!("{reached} of {} faults", cases.len());
        assert!(reached > 0 && reached * 10 >= cases.len() * 9, "{reached} of {} faults", cases.len());
    }

    /// Checks one case. Returns whether the fault was reached.
    async fn check_case(&self, case: FaultCase) -> bool {
        let path = self.create_journal();
        self.disk.plan_fault(Some(case.fault));
        let progress = self.perform(&path, case).await;
        let is_reached = self.disk.has_failed();
        self.disk.restart(case.survivors).unwrap();
        if let SurvivingWrites::Random { seed } = case.survivors {
            lose_mark(&path, seed);
        }
        self.check_recovery(&path, progress, case).await;
        is_reached
    }

    /// Performs the scenario as a process does, until it ends.
    async fn perform(&self, path: &Path, case: FaultCase) -> CommitProgress {
        let mut progress = CommitProgress::default();
        for session_end in &self.scenario.session_ends {
            let store = match SqliteStore::open(path) {
                Ok(store) => store,
                Err(error) => {
                    case.check_error(&error);
                    if case.reaction == ErrorReaction::Exit {
                        return progress;
                    }
                    self.disk.repair();
                    SqliteStore::open(path).unwrap_or_else(|error| panic!("{case:?}: {error:?}"))
                }
            };
            // The counts are read on a second connection, and the search index is written without an acknowledgement.
            let counts = store.health(HealthCheckDepth::Counts).await.map(drop);
            for outcome in [counts, store.update_search_index().await] {
                outcome.unwrap_or_else(|error| case.check_error(&error));
            }
            if !self.perform_session(&store, *session_end, case, &mut progress).await {
                return progress;
            }
        }
        progress
    }

    /// Commits transactions up to the end of a session. Returns whether the process goes on.
    async fn perform_session(
        &self,
        store: &SqliteStore,
        session_end: usize,
        case: FaultCase,
        progress: &mut CommitProgress,
    ) -> bool {
        while progress.acknowledged < session_end {
            let transaction = &self.scenario.transactions[progress.acknowledged];
            progress.attempted = progress.acknowledged + 1;
            if let Err(error) = store.commit(transaction.clone()).await {
                case.check_error(&error);
                if case.can_read() {
                    let state = self.scenario.read_state(store).await;
                    assert_same(&state, &self.states[progress.acknowledged], case);
                }
                if case.reaction == ErrorReaction::Exit {
                    return false;
                }
                self.disk.repair();
                let repeated = store.commit(transaction.clone()).await;
                repeated.unwrap_or_else(|error| panic!("{case:?}, repeated: {error:?}"));
            }
            progress.acknowledged += 1;
        }
        true
    }

    /// Asserts that the next process finds a journal with the acknowledged transactions, and can perform the others.
    async fn check_recovery(&self, path: &Path, progress: CommitProgress, case: FaultCase) {
        let store = SqliteStore::open(path).unwrap_or_else(|error| panic!("{case:?}: {error:?}"));
        let state = self.scenario.read_state(&store).await;
        let possible = progress.acknowledged..=progress.attempted.max(progress.acknowledged);
        let Some(committed) = possible.clone().find(|count| self.states[*count] == state) else {
            assert_same(&state, &self.states[*possible.end()], case);
            return;
        };
        check_integrity(&store).await;
        for transaction in &self.scenario.transactions[committed..] {
            let committed = store.commit(transaction.clone()).await;
            committed.unwrap_or_else(|error| panic!("{case:?}, continued: {error:?}"));
        }
        let state = self.scenario.read_state(&store).await;
        assert_same(&state, &self.states[self.scenario.transactions.len()], case);
        self.scenario.check_end(&store).await;
    }
}

/// Returns numbers from 1 to `count`: all of them with full counts, else about [`SAMPLE_SIZE`] at equal distances.
fn sample(count: u64) -> impl Iterator<Item = u64> {
    let distance = count.div_ceil(test_counts::count(SAMPLE_SIZE, u64::MAX)).max(1);
    (1..=count).step_by(usize::try_from(distance).unwrap())
}

/// Asserts that two states are equal, and shows the rows that are not.
#[track_caller]
fn assert_same(state: &JournalState, expected: &JournalState, case: FaultCase) {
    let missing: Vec<_> = expected.iter().filter(|row| !state.contains(row)).collect();
    let additional: Vec<_> = state.iter().filter(|row| !expected.contains(row)).collect();
    assert!(state == expected, "{case:?}: missing {missing:#?}, additional {additional:#?}");
}

/// Removes the mark of the log, cuts it, or leaves it as it is.
fn lose_mark(database: &Path, seed: u64) {
    let mark = database.with_extension("db-mark");
    let Ok(bytes) = fs::read(&mark) else { return };
    match seed % 3 {
        0 => fs::remove_file(&mark).unwrap(),
        1 => fs::write(&mark, &bytes[..bytes.len() / 2]).unwrap(),
        _ => {}
    }
}

#[tokio::test]
async fn a3_a8_a_failed_read_changes_nothing() {
    FaultFixture::create().await.check_failures(DiskOperation::Read, &[SurvivingWrites::All]).await;
}

#[tokio::test]
async fn a3_a8_of_a_transaction_whose_write_fails_no_part_is_stored() {
    FaultFixture::create().await.check_failures(DiskOperation::Write, &[SurvivingWrites::All]).await;
}

/// A file system treats data as written after a failed sync, so that a later sync may succeed without them.
#[tokio::test]
async fn a3_a8_nothing_is_acknowledged_that_a_failed_sync_has_lost() {
    let survivors = [SurvivingWrites::All, SurvivingWrites::Synced];
    FaultFixture::create().await.check_failures(DiskOperation::Sync, &survivors).await;
}

#[tokio::test]
async fn a3_a_file_that_cannot_be_opened_for_a_moment_loses_nothing() {
    FaultFixture::create().await.check_failures(DiskOperation::Open, &[SurvivingWrites::All]).await;
}

#[tokio::test]
async fn a3_a_log_that_cannot_be_deleted_or_cut_is_used_again() {
    let fixture = FaultFixture::create().await;
    for operation in [DiskOperation::Delete, DiskOperation::Truncate] {
        fixture.check_failures(operation, &[SurvivingWrites::All, SurvivingWrites::Synced]).await;
    }
}

#[tokio::test]
async fn a3_a8_a_full_disk_is_named_reading_goes_on_and_writing_continues_once_there_is_space() {
    let fixture = FaultFixture::create().await;
    fixture.count_operations().await;
    let mut cases = Vec::new();
    for write in sample(fixture.disk.operation_count(DiskOperation::Write)) {
        let (fault, survivors) = (DiskFault::FullDisk { write }, SurvivingWrites::All);
        let reactions = [ErrorReaction::Repeat, ErrorReaction::Exit];
        cases.extend(reactions.map(|reaction| FaultCase { fault, reaction, survivors }));
    }
    fixture.check_cases(&cases).await;
}

#[tokio::test]
async fn a3_no_torn_write_is_read_as_a_record() {
    let fixture = FaultFixture::create().await;
    fixture.count_operations().await;
    let mut cases = Vec::new();
    for write in sample(fixture.disk.operation_count(DiskOperation::Write)) {
        let (fault, reaction) = (DiskFault::TornWrite { write }, ErrorReaction::Exit);
        let survivors = [SurvivingWrites::All, SurvivingWrites::Random { seed: write }];
        cases.extend(survivors.map(|survivors| FaultCase { fault, reaction, survivors }));
    }
    fixture.check_cases(&cases).await;
}

#[tokio::test]
async fn a3_acknowledged_transactions_survive_the_end_of_the_process_at_any_change() {
    FaultFixture::create().await.check_power_losses(|_| SurvivingWrites::All).await;
}

#[tokio::test]
async fn a3_acknowledged_transactions_survive_a_power_loss_that_drops_all_unsynced_writes() {
    FaultFixture::create().await.check_power_losses(|_| SurvivingWrites::Synced).await;
}

#[tokio::test]
async fn a3_acknowledged_transactions_survive_a_power_loss_that_keeps_any_unsynced_writes() {
    let fixture = FaultFixture::create().await;
    for round in 0..test_counts::count(1_u64, 2) {
        let seed = |change: u64| change.wrapping_mul(8) + round;
        fixture.check_power_losses(|change| SurvivingWrites::Random { seed: seed(change) }).await;
    }
}

/// No program can prevent this loss. The mark of the log shows it as long as the log was not started again.
#[tokio::test]
async fn a4_acknowledged_transactions_that_a_disk_lost_after_their_sync_are_reported() {
    let fixture = FaultFixture::create().await;
    let path = fixture.create_journal();
    let store = SqliteStore::open(&path).unwrap();
    for (number, transaction) in fixture.scenario.transactions[..6].iter().enumerate() {
        if number == 3 {
            fixture.disk.plan_fault(Some(DiskFault::IgnoredSyncs { sync: 1 }));
        }
        store.commit(transaction.clone()).await.unwrap();
    }
    drop(store);
    assert!(fixture.disk.has_failed());
    fixture.disk.restart(SurvivingWrites::Synced).unwrap();
    let error = SqliteStore::open(&path).err();
    assert!(matches!(error, Some(Error::LostTransactions { .. })), "{error:?}");
    // Without its mark, the rest of the log is used: the transactions that were synced.
    fs::remove_file(path.with_extension("db-mark")).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert!(fixture.scenario.read_state(&store).await == fixture.states[3]);
    check_integrity(&store).await;
}
