//! The home folder: the paths of all files that Segue keeps, and their permissions. Nothing is written
//! outside it, except a journal whose configured file is elsewhere and the process locks beside that file.

pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod lease;
pub(crate) mod machine;
mod process_locks;

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use protocol::AssistantId;

use crate::{HomeError, Result};

/// The name of the folder with the lock files of the running processes.
const PROCESS_LOCKS_FOLDER: &str = "processes";

/// The home folder: `$SEGUE_HOME`, or `segue` in the platform's data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeFolder {
    /// The absolute path of the folder.
    root: PathBuf,
}

impl HomeFolder {
    /// Returns the home folder that `segue_home` names, or the platform's default if it is unset or empty.
    /// Creates nothing.
    ///
    /// # Errors
    /// Fails if the path cannot be made absolute, or if neither it nor the home folder of the user is known.
    pub fn locate(segue_home: Option<&std::ffi::OsStr>) -> Result<Self> {
        let root = match segue_home {
            Some(path) if !path.is_empty() => {
                std::path::absolute(path).map_err(|error| HomeError::unusable(path.as_ref(), error))?
            }
            Some(_) | None => etcetera::choose_base_strategy()
                .map_err(|_| HomeError::unusable("~".as_ref(), "the user's home folder is not known"))?
                .data_dir()
                .join("segue"),
        };
        Ok(Self { root })
    }

    /// Creates the folder with mode 0700, so that only its owner can read it. An existing folder is checked instead.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or if the path exists and is not a folder. Fails with
    /// [`HomeError::ForeignOwner`] or [`HomeError::WritableByOthers`] if another user controls the folder, who could
    /// replace the database, the configuration and the commands in it.
    pub fn create(&self) -> Result<()> {
        create_private_folder(&self.root)?;
        Ok(check_control(&self.root)?)
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the database file.
    pub fn database_path(&self) -> PathBuf {
        self.root.join("segue.db")
    }

    /// Returns the path of the file with the install token, which authenticates the person at the machine to
    /// a server.
    pub fn token_path(&self) -> PathBuf {
        self.root.join("token")
    }

    /// Returns the folder of the skills that are available in every workspace.
    pub fn skills_path(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// Returns the path of `config.toml`.
    pub fn config_path(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// Returns the path of the assistant's `agent.md`.
    pub fn agent_md_path(&self, assistant_id: &AssistantId) -> PathBuf {
        self.root.join("agents").join(assistant_id.as_str()).join("agent.md")
    }

    /// Returns the folder of the process locks for a journal in the home folder or on a server.
    pub(crate) fn process_locks_path(&self) -> PathBuf {
        self.root.join(PROCESS_LOCKS_FOLDER)
    }
}

/// Creates a folder with mode 0700, and its missing parents with the same mode.
///
/// # Errors
/// Fails if the folder cannot be created, or if the path exists and is not a folder.
pub(crate) fn create_private_folder(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.create(path).map_err(|error| HomeError::from_io(path, &error))?)
}

/// Checks that only the user of this process can change the content of a folder.
#[cfg(unix)]
fn check_control(path: &Path) -> std::result::Result<(), HomeError> {
    use std::os::unix::fs::MetadataExt as _;
    const WRITE_BY_OTHERS: u32 = 0o022;
    let metadata = std::fs::metadata(path).map_err(|error| HomeError::from_io(path, &error))?;
    let path = || path.to_owned();
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(HomeError::ForeignOwner { path: path(), owner: metadata.uid() });
    }
    match metadata.mode() & WRITE_BY_OTHERS {
        0 => Ok(()),
        _ => Err(HomeError::WritableByOthers { path: path() }),
    }
}

/// Succeeds, because owners and modes of this kind exist on Unix only.
#[cfg(not(unix))]
const fn check_control(_path: &Path) -> std::result::Result<(), HomeError> {
    Ok(())
}
