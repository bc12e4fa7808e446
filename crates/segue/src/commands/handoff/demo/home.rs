//! The home folder of a demo: a temporary one, which is removed at the end however the demo ends, or one that the user
//! keeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agent::HomeFolder;
use parking_lot::Mutex;
use terminal::sanitize_path;

use crate::exit::{CliFailure, ExitReason};

/// The beginning of the name of a temporary home folder.
const FOLDER_PREFIX: &str = "segue-demo-";

/// The number of attempts to remove a folder. An attempt fails if the closing database changes the folder meanwhile.
const REMOVE_ATTEMPTS_MAX: usize = 10;

/// The temporary home folder of this process, while it exists. The action before a signal ends the process needs it, and
/// that action has no other access to the demo.
static TEMPORARY_HOME: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The home folder of a demo. Dropping it removes a temporary one.
#[derive(Debug)]
pub(super) struct DemoHome {
    /// The folder.
    pub(super) folder: HomeFolder,
    /// The fate of the folder at the end.
    retention: HomeRetention,
}

/// The fate of a demo's home folder at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HomeRetention {
    /// The folder is removed.
    Temporary,
    /// The folder is kept.
    Kept,
}

impl DemoHome {
    /// Creates a temporary home folder, or uses the folder that the user names.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or if the named folder is not empty.
    pub(super) fn create(kept: Option<&Path>) -> Result<Self, CliFailure> {
        match kept {
            Some(path) => {
                prepare_kept_folder(path)?;
                let folder = HomeFolder::locate(Some(path.as_os_str()))?;
                Ok(Self { folder, retention: HomeRetention::Kept })
            }
            None => {
                let mut registered = TEMPORARY_HOME.lock();
                let path = create_temporary_folder().map_err(|error| {
                    let folder = std::env::temp_dir();
                    let problem = format!("create a temporary folder in {}: {error}", sanitize_path(&folder));
                    CliFailure::new(ExitReason::Store, problem)
                        .with_hint("set TMPDIR to a folder that you can write to, or use `--keep DIR`")
                })?;
                *registered = Some(path.clone());
                let folder = HomeFolder::locate(Some(path.as_os_str()))?;
                Ok(Self { folder, retention: HomeRetention::Temporary })
            }
        }
    }

    /// Returns the path of a folder that is kept.
    pub(super) fn kept_path(&self) -> Option<&Path> {
        match self.retention {
            HomeRetention::Kept => Some(self.folder.root()),
            HomeRetention::Temporary => None,
        }
    }
}

impl Drop for DemoHome {
    fn drop(&mut self) {
        if self.retention == HomeRetention::Temporary {
            remove_temporary_home();
        }
    }
}

/// Creates a folder that only its owner can read.
fn create_temporary_folder() -> io::Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(FOLDER_PREFIX);
    #[cfg(unix)]
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    #[cfg(unix)]
    builder.permissions(permissions);
    Ok(builder.tempdir()?.keep())
}

/// Creates the folder to keep, readable only by its owner, or checks that it is empty.
///
/// # Errors
/// Fails if it contains something, or if it cannot be created or read.
fn prepare_kept_folder(path: &Path) -> Result<(), CliFailure> {
    let problem = match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => return Ok(()),
        Ok(false) => "the folder is not empty".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create_private_folder(path) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let problem = format!("keep the demo in {}: {problem}", sanitize_path(path));
    Err(CliFailure::new(ExitReason::User, problem).with_hint("name a folder that is new or empty"))
}

/// Creates a folder, and those above it, that only its owner can read.
fn create_private_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes the temporary home folder of this process, if it has one. A second caller waits until it is removed, so that a
/// signal cannot end the process in the middle of the removal.
pub(crate) fn remove_temporary_home() {
    let mut home = TEMPORARY_HOME.lock();
    let Some(path) = home.take() else { return };
    for _ in 0..REMOVE_ATTEMPTS_MAX {
        // The error may concern only a file that the closing database has removed meanwhile.
        let _ = fs::remove_dir_all(&path);
        if !path.exists() {
            return;
        }
    }
}
