//! The faults that a test plans. The module `disk` gives them their effects.

/// An operation of SQLite on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskOperation {
    /// A file is opened, and created if it does not exist.
    Open,
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// The length of a file is set.
    Truncate,
    /// The changes of a file are made durable.
    Sync,
    /// A file is deleted.
    Delete,
}

impl DiskOperation {
    /// Returns whether the operation can change what a power loss leaves.
    #[must_use]
    pub const fn is_change(self) -> bool {
        match self {
            Self::Open | Self::Read => false,
            Self::Write | Self::Truncate | Self::Sync | Self::Delete => true,
        }
    }
}

/// A fault of the disk. Operations are counted from 1, and the count begins when the fault is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// One operation fails, and later ones succeed. It has no effect, except that a sync that fails drops the changes which it
    /// should have made durable: they can be read, but no later sync makes them durable. File systems treat such data as
    /// written.
    Failure {
        /// The kind of the operation.
        operation: DiskOperation,
        /// The number of the operation among those of its kind.
        number: u64,
    },
    /// The disk is full from one write on, until [`crate::FaultyDisk::repair`]. The first half of that write still has space.
    FullDisk {
        /// The number of the write.
        write: u64,
    },
    /// From one sync on, syncs report success and have no effect, until [`crate::FaultyDisk::repair`].
    IgnoredSyncs {
        /// The number of the sync.
        sync: u64,
    },
    /// The power fails before one change ([`DiskOperation::is_change`]): that operation and all later ones fail, until
    /// [`crate::FaultyDisk::restart`].
    PowerLoss {
        /// The number of the change.
        change: u64,
    },
    /// The power fails during one write, after its first half. A write within one sector is not divided, and has no effect.
    TornWrite {
        /// The number of the write.
        write: u64,
    },
}

/// The changes that a file has after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SurvivingWrites {
    /// All changes, as if only the process had ended.
    All,
    /// Only changes that were synced.
    Synced,
    /// Changes that were synced, and of the others any combination of whole changes and single sectors. The seed determines it.
    /// So later changes may survive although earlier ones do not.
    Random {
        /// The seed.
        seed: u64,
    },
}
