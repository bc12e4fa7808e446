//! Maintenance of whole databases: migration, copy, backup and shrinking. These calls need no open agent, and
//! no agent may be open on the target of a copy. The `journal` crate does the work.

use futures::future::BoxFuture;
use std::ops::ControlFlow;
use std::path::PathBuf;

use jiff::Timestamp;
use journal::copy::{
    self, BackupReport, CopyPhase, CopyProgress, CopyReport, JournalLocation, ProgressCallback,
    SalvageReport, SchemaMigration,
};
use runtime::{Frame, FrameSender};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentSettings;
use crate::home::config::ConfigFile;
use crate::home::database::{self, DatabaseAddress};
use crate::home::{HomeFolder, create_private_folder};
use crate::{AdminService, Result};

impl AgentSettings {
    /// Returns the address of the database that an agent with these settings would open.
    ///
    /// # Errors
    /// Fails if `config.toml` cannot be read or its database URL is invalid.
    pub fn database_address(&self) -> Result<DatabaseAddress> {
        let config = ConfigFile::read(&self.home.config_path())?;
        database::choose_address(self.database.as_ref(), &config.database, &self.home.database_path())
    }

    /// Finds the secrets of `text` with the rules and the patterns that an agent with these settings would use. The
    /// patterns are installed for the whole process, as they are when an agent is opened.
    ///
    /// # Errors
    /// Fails if `config.toml` cannot be read or a pattern in it is invalid.
    pub fn find_secrets(&self, text: &str) -> Result<Vec<secrets::SecretReport>> {
        let path = self.home.config_path();
        secrets::install_patterns(ConfigFile::read(&path)?.secret_patterns(&path)?);
        Ok(secrets::find_secrets(text))
    }
}

/// Returns the path of a new backup with the given time in its name, in a folder of the home that only its
/// owner can read. Creates the folder.
///
/// # Errors
/// Fails if the folder cannot be created.
pub fn backup_path(home: &HomeFolder, now: Timestamp) -> Result<PathBuf> {
    let folder = home.root().join("backups");
    create_private_folder(&folder)?;
    Ok(folder.join(format!("segue-{}.db", now.strftime("%Y%m%dT%H%M%SZ"))))
}

impl DatabaseAddress {
    /// Converts the address into that of the `journal` crate.
    fn copy_endpoint(&self) -> JournalLocation {
        match self {
            Self::File(path) => JournalLocation::File(path.clone()),
            Self::Server(url) => JournalLocation::Server(url.expose_secret().to_owned()),
        }
    }

    /// Migrates the schema to the current version, and creates it in an empty database. Returns the location
    /// of the database and the applied migration.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or written, or if its schema is newer than this program.
    pub fn migrate<'a>(&'a self) -> BoxFuture<'a, Result<(String, SchemaMigration)>> {
        journal::box_future(async move { Ok(copy::migrate(self.copy_endpoint()).await?) })
    }

    /// Copies the journal into another database, which must be empty or the unfinished target of an earlier
    /// call. Sends progress frames.
    ///
    /// # Errors
    /// Fails if a database cannot be opened, read or written, or if the target is unsuitable. The same call
    /// resumes an interrupted copy.
    pub fn copy_to<'a>(
        &'a self,
        to: &'a Self,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CopyReport>> {
        journal::box_future(async move {
            Ok(copy::copy(
                self.copy_endpoint(),
                to.copy_endpoint(),
                progress_callback("copy", frames, cancel),
            )
            .await?)
        })
    }

    /// Writes a consistent copy of the journal into a new file. Sends progress frames, and returns `None` if
    /// it was cancelled.
    ///
    /// # Errors
    /// Fails if the journal cannot be read, the file exists, or the file cannot be written.
    pub fn back_up<'a>(
        &'a self,
        path: PathBuf,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Option<BackupReport>>> {
        journal::box_future(async move {
            Ok(copy::backup(self.copy_endpoint(), path, progress_callback("back up", frames, cancel)).await?)
        })
    }
}

/// Brings everything that can be read from a damaged SQLite file into a new file. The damaged file is not changed. Sends
/// progress frames, and returns `None` if it was cancelled.
///
/// # Errors
/// Fails if the new file exists or cannot be written, or if not even the schema of the damaged file can be read.
pub fn salvage_database<'a>(
    from: PathBuf,
    to: PathBuf,
    frames: &'a FrameSender,
    cancel: &'a CancellationToken,
) -> BoxFuture<'a, Result<Option<SalvageReport>>> {
    journal::box_future(async move {
        Ok(copy::salvage(from, to, progress_callback("salvage", frames, cancel)).await?)
    })
}

impl<'a> AdminService<'a> {
    /// Returns the disk space of deleted rows to the file system.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or written.
    pub fn shrink_journal(self) -> BoxFuture<'a, Result<()>> {
        Box::pin(
            async move { Ok(copy::shrink(self.agent.settings.database_address()?.copy_endpoint()).await?) },
        )
    }
}

/// Returns a callback that sends progress frames and breaks off the copy once `cancel` is cancelled.
fn progress_callback(
    copying: &'static str,
    frames: &FrameSender,
    cancel: &CancellationToken,
) -> ProgressCallback {
    let (frames, cancel) = (frames.clone(), cancel.clone());
    Box::new(move |CopyProgress { step, done, total }| {
        let what = match step {
            CopyPhase::Copy => copying,
            CopyPhase::Compare => "compare",
            CopyPhase::Index => "index",
        };
        frames.send(Frame::Progress { what: what.to_owned(), done: *done, total: Some(*total) });
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}
