//! The description of a sandbox: plain data that a program passes to its launcher. Nothing here is applied.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::readable::home_folders;

/// The access of a command. All paths are absolute, with links resolved. Paths that do not exist are skipped.
///
/// System folders (`/usr`, `/etc` and the like), and toolchains and caches in the home folder, are readable in addition.
/// Everything else can neither be read nor written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// The folder in which the command starts.
    pub folder: PathBuf,
    /// Folders and files with full access.
    pub writable: Vec<PathBuf>,
    /// Folders and files that can be read and executed.
    pub readable: Vec<PathBuf>,
    /// Files and folders inside [`Self::writable`] that can only be read. Only [`Isolation::Namespaces`] enforces it.
    pub read_only: Vec<PathBuf>,
    /// Files and folders inside the accessible ones that cannot be opened. Only [`Isolation::Namespaces`] enforces it.
    pub hidden: Vec<PathBuf>,
    /// The private folder of this sandbox, which exists. It holds the temporary files of the command.
    pub scratch: PathBuf,
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// The access to the network.
    pub network: NetworkAccess,
    /// The mechanism.
    pub isolation: Isolation,
}

/// The access to the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkAccess {
    /// No network. With [`Isolation::Namespaces`], each command has a loopback interface of its own.
    #[default]
    Off,
    /// The network of the machine.
    On,
}

/// The mechanism that restricts a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Landlock and the filter of system calls, inside namespaces with private temporary folders, a private home folder
    /// and, without a network, a private loopback interface.
    Namespaces,
    /// Landlock and the filter of system calls alone, where the system permits no namespaces. Landlock can only allow,
    /// so [`SandboxPolicy::read_only`] and [`SandboxPolicy::hidden`] have no effect inside folders with more access.
    /// Without a network, a command cannot connect any socket.
    Landlock,
}

impl SandboxPolicy {
    /// Returns the folders and files outside the system's folders that can be read and executed: those of the policy,
    /// and the toolchains and caches in the home folder that exist.
    pub(crate) fn readable_paths(&self) -> Vec<PathBuf> {
        let home = self.home.as_deref().map(home_folders).into_iter().flatten();
        // Most of them do not exist. Each one costs a call here, and several where links are resolved and rules added.
        let existing = home.filter(|path| path.symlink_metadata().is_ok());
        self.readable.iter().cloned().chain(existing).collect()
    }

    /// Returns the folder that the command has as its folder for temporary files (`TMPDIR`).
    pub fn temporary_folder(&self) -> PathBuf {
        match self.isolation {
            Isolation::Namespaces => PathBuf::from(TEMPORARY_FOLDER),
            Isolation::Landlock => self.scratch.join(SCRATCH_TEMPORARY),
        }
    }
}

/// The folder for temporary files inside namespaces.
pub(crate) const TEMPORARY_FOLDER: &str = "/tmp";
/// The folder for temporary files below [`SandboxPolicy::scratch`].
pub(crate) const SCRATCH_TEMPORARY: &str = "tmp";
