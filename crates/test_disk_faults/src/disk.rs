//! The state of the simulated disk: it counts operations, lets them fail as planned, and keeps of each file what would survive a
//! power loss. It calls neither SQLite nor the real file system while SQLite works, except to read a file before its first use.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::{fs, io};

use parking_lot::Mutex;

use crate::error::Error;
use crate::fault::{DiskFault, DiskOperation, SurvivingWrites};
use crate::file::{FileChange, SimulatedFile, SurvivalRandom, first_half};

/// The disk of this process. The functions that SQLite calls receive no pointer to it.
pub(crate) static DISK: Mutex<SimulatedDisk> = Mutex::new(SimulatedDisk::new());

/// The reason for which the disk refuses an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskError {
    /// The operation failed.
    InputOutput,
    /// There is no space.
    NoSpace,
}

/// The admission of a write: the part of it that reaches the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteAdmission {
    /// The number of bytes, from the first one.
    pub(crate) accepted: usize,
    /// The reason for which the others are refused; `None` if all are accepted.
    pub(crate) refusal: Option<DiskError>,
}

/// The state of a file before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOrigin {
    /// It exists.
    Existing,
    /// It does not exist, so that opening it creates it.
    Missing,
}

/// The condition of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskCondition {
    /// It works.
    Working,
    /// It accepts no write.
    Full,
    /// It reports that syncs succeed, and does nothing.
    IgnoringSyncs,
    /// It has no power.
    Off,
}

/// The simulated disk.
pub(crate) struct SimulatedDisk {
    /// The folder whose files are simulated. `None` if there is no simulation.
    folder: Option<PathBuf>,
    /// The planned fault, until it is reached.
    fault: Option<DiskFault>,
    /// The condition.
    condition: DiskCondition,
    /// True once the planned fault was reached.
    has_failed: bool,
    /// The number of operations of each kind.
    counts: BTreeMap<DiskOperation, u64>,
    /// The files that were opened or deleted since the last restart.
    files: BTreeMap<PathBuf, SimulatedFile>,
}

impl SimulatedDisk {
    /// Returns the state without a simulation.
    const fn new() -> Self {
        Self {
            folder: None,
            fault: None,
            condition: DiskCondition::Working,
            has_failed: false,
            counts: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }

    /// Begins the simulation for the files below a folder.
    pub(crate) fn attach(&mut self, folder: PathBuf) {
        *self = Self { folder: Some(folder), ..Self::new() };
    }

    /// Ends the simulation.
    pub(crate) fn detach(&mut self) {
        *self = Self::new();
    }

    /// Returns whether the file at a path is simulated.
    pub(crate) fn simulates(&self, path: &Path) -> bool {
        self.folder.as_deref().is_some_and(|folder| path.starts_with(folder))
    }

    /// Plans a fault, or none, and counts from zero.
    pub(crate) fn plan_fault(&mut self, fault: Option<DiskFault>) {
        self.repair();
        self.fault = fault;
        self.has_failed = false;
        self.counts.clear();
    }

    /// Ends the fault.
    pub(crate) fn repair(&mut self) {
        self.fault = None;
        self.condition = DiskCondition::Working;
    }

    /// Returns whether the planned fault was reached.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns the number of operations of a kind.
    pub(crate) fn operation_count(&self, operation: DiskOperation) -> u64 {
        self.counts.get(&operation).copied().unwrap_or(0)
    }

    /// Returns the number of changes.
    pub(crate) fn change_count(&self) -> u64 {
        self.counts.iter().filter(|(operation, _)| operation.is_change()).map(|(_, count)| count).sum()
    }

    /// Counts an operation, which may reach the planned fault.
    ///
    /// # Errors
    /// The reason for which the disk refuses the operation.
    pub(crate) fn admit(&mut self, operation: DiskOperation) -> Result<(), DiskError> {
        match self.condition {
            DiskCondition::Off => return Err(DiskError::InputOutput),
            DiskCondition::Full if operation == DiskOperation::Write => return Err(DiskError::NoSpace),
            DiskCondition::Working | DiskCondition::Full | DiskCondition::IgnoringSyncs => {}
        }
        *self.counts.entry(operation).or_default() += 1;
        let Some(fault) = self.fault.filter(|fault| self.is_reached(*fault, operation)) else {
            return Ok(());
        };
        self.fault = None;
        self.has_failed = true;
        let (condition, outcome) = match fault {
            DiskFault::Failure { .. } => (DiskCondition::Working, Err(DiskError::InputOutput)),
            DiskFault::FullDisk { .. } => (DiskCondition::Full, Err(DiskError::NoSpace)),
            DiskFault::IgnoredSyncs { .. } => (DiskCondition::IgnoringSyncs, Ok(())),
            DiskFault::PowerLoss { .. } | DiskFault::TornWrite { .. } => {
                (DiskCondition::Off, Err(DiskError::InputOutput))
            }
        };
        self.condition = condition;
        outcome
    }

    /// Returns whether an operation, which is counted already, reaches a fault.
    fn is_reached(&self, fault: DiskFault, operation: DiskOperation) -> bool {
        let is_number =
            |kind: DiskOperation, number: u64| operation == kind && self.operation_count(operation) == number;
        match fault {
            DiskFault::Failure { operation: kind, number } => is_number(kind, number),
            DiskFault::FullDisk { write } | DiskFault::TornWrite { write } => {
                is_number(DiskOperation::Write, write)
            }
            DiskFault::IgnoredSyncs { sync } => is_number(DiskOperation::Sync, sync),
            DiskFault::PowerLoss { change } => operation.is_change() && self.change_count() == change,
        }
    }

    /// Counts a write. The write that reaches a full disk or a tear is divided.
    pub(crate) fn admit_write(&mut self, offset: usize, length: usize) -> WriteAdmission {
        let divides = match self.fault {
            Some(DiskFault::FullDisk { .. } | DiskFault::TornWrite { .. }) => true,
            Some(
                DiskFault::Failure { .. } | DiskFault::IgnoredSyncs { .. } | DiskFault::PowerLoss { .. },
            )
            | None => false,
        };
        match self.admit(DiskOperation::Write) {
            Ok(()) => WriteAdmission { accepted: length, refusal: None },
            Err(refusal) => {
                let accepted = if divides { first_half(offset, length) } else { 0 };
                WriteAdmission { accepted, refusal: Some(refusal) }
            }
        }
    }

    /// Counts the opening of a file. Reads its content at the first time, when no connection has it open: closing a file releases
    /// the locks that SQLite holds on it.
    ///
    /// # Errors
    /// The reason for which the disk refuses to open it.
    pub(crate) fn begin_open(&mut self, path: &Path) -> Result<FileOrigin, DiskError> {
        self.admit(DiskOperation::Open)?;
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), SimulatedFile::new(fs::read(path).ok()));
        }
        Ok(if path.exists() { FileOrigin::Existing } else { FileOrigin::Missing })
    }

    /// Records a change that was applied to a real file.
    pub(crate) fn record(&mut self, path: &Path, change: FileChange) {
        self.files.entry(path.to_owned()).or_default().record(change);
    }

    /// Counts a sync, and makes the changes of a file durable. The first sync of a new file makes the entries of its folder
    /// durable too, as SQLite does for a journal.
    ///
    /// # Errors
    /// The reason for which the disk refuses the sync.
    pub(crate) fn sync(&mut self, path: &Path) -> Result<(), DiskError> {
        let outcome = self.admit(DiskOperation::Sync);
        match (outcome, self.condition) {
            (Ok(()), DiskCondition::Working | DiskCondition::Full) => {
                if self.files.entry(path.to_owned()).or_default().sync() {
                    self.sync_folder(path);
                }
            }
            (Err(_), DiskCondition::Working) => {
                self.files.entry(path.to_owned()).or_default().drop_unsynced();
            }
            (Ok(()), DiskCondition::IgnoringSyncs | DiskCondition::Off)
            | (Err(_), DiskCondition::Full | DiskCondition::IgnoringSyncs | DiskCondition::Off) => {}
        }
        outcome
    }

    /// Makes the entries of the folder of a file durable.
    pub(crate) fn sync_folder(&mut self, path: &Path) {
        for (other, file) in &mut self.files {
            if other.parent() == path.parent() {
                file.sync_name();
            }
        }
    }

    /// Gives all files the content that survives, and begins again without a fault.
    ///
    /// # Errors
    /// [`Error::File`] if a file cannot be replaced.
    pub(crate) fn restart(&mut self, survivors: SurvivingWrites) -> Result<(), Error> {
        self.plan_fault(None);
        let files = std::mem::take(&mut self.files);
        let mut random = match survivors {
            SurvivingWrites::All => return Ok(()),
            SurvivingWrites::Synced => None,
            SurvivingWrites::Random { seed } => Some(SurvivalRandom::new(seed)),
        };
        for (path, file) in files {
            let content = match &mut random {
                None => file.into_synced(),
                Some(random) => file.into_random(random),
            };
            replace_content(&path, content.as_deref()).map_err(|source| Error::file(&path, source))?;
        }
        Ok(())
    }
}

/// Replaces the content of a file, or deletes it. A file that has the content already is not written, so that its times of change
/// stay.
fn replace_content(path: &Path, content: Option<&[u8]>) -> io::Result<()> {
    let current = match fs::read(path) {
        Ok(current) => Some(current),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match content {
        same if same == current.as_deref() => Ok(()),
        Some(content) => fs::write(path, content),
        None => fs::remove_file(path),
    }
}
