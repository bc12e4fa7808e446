//! The home folder: where everything Segue keeps lives, and with which permissions. Nothing is written outside it, but for a
//! journal that is elsewhere.

pub(crate) mod config;
pub(crate) mod database;
pub(crate) mod error;
pub(crate) mod keys;
pub(crate) mod lease;
mod locks;
pub(crate) mod machine;
pub(crate) mod moving;
mod replicas;

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use protocol::AssistantId;

use crate::{HomeError, Result};

/// The folder of the locks by which processes tell that they live.
const PROCESSES: &str = "processes";

/// `$SEGUE_HOME`, or `segue` in the platform's data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Returns the home that `SEGUE_HOME` names, or the platform's default. Nothing is created yet.
    ///
    /// # Errors
    /// When neither `SEGUE_HOME` nor a home folder of the user is known, or the path is not absolute.
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

    /// Creates the folder, readable by its owner only.
    ///
    /// # Errors
    /// When it cannot be created, or is not a folder.
    pub fn create(&self) -> Result<()> {
        create_private(&self.root)
    }

    /// Returns the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the database.
    pub fn database(&self) -> PathBuf {
        self.root.join("segue.db")
    }

    /// Returns the file of the install token, by which a server knows the person at the machine.
    pub fn token(&self) -> PathBuf {
        self.root.join("token")
    }

    /// Returns the folder of the skills that every workspace has.
    pub fn skills(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// Returns the settings.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// Returns the assistant's memory file.
    pub fn agent_md(&self, assistant_id: &AssistantId) -> PathBuf {
        self.root.join("agents").join(assistant_id.as_str()).join("agent.md")
    }

    /// Returns the folder of the locks by which processes tell that they live, unless the journal is a file elsewhere.
    pub(crate) fn processes(&self) -> PathBuf {
        self.root.join(PROCESSES)
    }
}

/// Creates a folder with mode 0700, and its missing parents.
pub(crate) fn create_private(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    Ok(builder.create(path).map_err(|error| HomeError::unusable(path, error))?)
}
