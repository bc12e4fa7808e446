//! A simulated disk for SQLite in tests: operations that fail, a full disk, torn writes, and power losses that drop what was
//! not synced. Only tests use this crate.
//!
//! A [`FaultyDisk`] is SQLite's file system for the databases of one folder. Their content is in real files, so that a program
//! which looks at the files finds what SQLite wrote. In addition, the disk knows which part of it was synced. It fails the
//! operation that a [`DiskFault`] names. After a power loss, [`FaultyDisk::restart`] leaves in the files what
//! [`SurvivingWrites`] selects.
//!
//! The simulation covers the database, its rollback journal and its write-ahead log. It does not cover locks, the shared memory
//! of the log (`-shm`), which SQLite builds again after a crash, temporary files, and files that a program writes without
//! SQLite. Nothing is synced to the real disk, which makes a scenario fast enough to be repeated for every operation.
//!
//! The crate knows nothing of Segue's tables. Its only module with unsafe code is `vfs`.

mod disk;
mod error;
mod fault;
mod file;
mod vfs;

use std::path::Path;

use parking_lot::{Mutex, MutexGuard};

pub use error::Error;
pub use fault::{DiskFault, DiskOperation, SurvivingWrites};

use disk::DISK;

/// Locked by the disk that exists.
static ATTACHED: Mutex<()> = Mutex::new(());

/// The simulated disk of one folder. A process has one at a time, because SQLite's file system belongs to the process.
///
/// Dropping it ends the simulation; databases that are open then must not be used further.
pub struct FaultyDisk {
    /// Released when the disk is dropped.
    _attached: MutexGuard<'static, ()>,
}

impl FaultyDisk {
    /// Simulates the disk for all databases below a folder that are opened from now on. Waits until no other disk exists in this
    /// process.
    ///
    /// # Errors
    /// [`Error::Registration`] if SQLite refuses the file system, and [`Error::File`] if the folder cannot be inspected.
    pub fn attach(folder: &Path) -> Result<Self, Error> {
        let attached = ATTACHED.lock();
        vfs::register()?;
        // SQLite passes paths without symbolic links.
        let folder = folder.canonicalize().map_err(|source| Error::file(folder, source))?;
        DISK.lock().attach(folder);
        Ok(Self { _attached: attached })
    }

    /// Plans a fault, or none, and begins to count operations again. The disk works until the fault is reached.
    pub fn plan_fault(&self, fault: Option<DiskFault>) {
        DISK.lock().plan_fault(fault);
    }

    /// Returns the number of operations of one kind since [`Self::plan_fault`], without those that a full disk or a power loss
    /// refuses.
    #[must_use]
    pub fn operation_count(&self, operation: DiskOperation) -> u64 {
        DISK.lock().operation_count(operation)
    }

    /// Returns the number of operations since [`Self::plan_fault`] for which [`DiskOperation::is_change`] is true.
    #[must_use]
    pub fn change_count(&self) -> u64 {
        DISK.lock().change_count()
    }

    /// Returns whether the planned fault was reached.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        DISK.lock().has_failed()
    }

    /// Ends a fault: a full disk has space again, and syncs have an effect again. What was not synced stays so.
    pub fn repair(&self) {
        DISK.lock().repair();
    }

    /// Starts the disk again after a power loss, or as if the power had failed now. The files get the content that survives.
    /// Every database must be closed before.
    ///
    /// # Errors
    /// [`Error::File`] if a file cannot be replaced.
    pub fn restart(&self, survivors: SurvivingWrites) -> Result<(), Error> {
        DISK.lock().restart(survivors)
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        DISK.lock().detach();
    }
}
