//! Whole databases: brought up to date, copied, backed up. No agent is needed for it, and none may be open on what is copied
//! into. How it is done is the journal's matter.

use std::ops::ControlFlow;
use std::path::PathBuf;

use jiff::Timestamp;
use journal::moving::{self, BackedUp, Copied, End, Migrated, Progress, Step, Watch};
use runtime::{Frame, Frames};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::database::{self, Database};
use super::{Home, create_private};
use crate::Result;
use crate::agent::Settings;
use crate::agent::services::AdminService;

impl Settings {
    /// Returns where the journal is that an agent with these settings would open.
    ///
    /// # Errors
    /// When `config.toml` cannot be read.
    pub fn chosen_database(&self) -> Result<Database> {
        let config = Config::read(&self.home.config())?;
        database::choose(self.database.as_ref(), &config.database, &self.home.database())
    }
}

/// Returns a name for a backup made now, in a folder of the home that only its owner can read.
///
/// # Errors
/// When the folder cannot be made.
pub fn backup_path(home: &Home, now: Timestamp) -> Result<PathBuf> {
    let folder = home.root().join("backups");
    create_private(&folder)?;
    Ok(folder.join(format!("segue-{}.db", now.strftime("%Y%m%dT%H%M%SZ"))))
}

impl Database {
    fn end(&self) -> End {
        match self {
            Self::File(path) => End::File(path.clone()),
            Self::Server(url) => End::Server(url.expose_secret().to_owned()),
        }
    }

    /// Brings the schema up to date, making it where there is none; returns where the database is, too.
    ///
    /// # Errors
    /// When the database cannot be opened or written, or its schema is of a later version.
    pub async fn migrate(&self) -> Result<(String, Migrated)> {
        Ok(moving::migrate(self.end()).await?)
    }

    /// Copies the journal into another database, which must be empty or what an earlier call left unfinished.
    ///
    /// # Errors
    /// When a database cannot be opened, read or written, or cannot be copied into; the same call goes on.
    pub async fn copy_to(&self, to: &Self, frames: &Frames, cancel: &CancellationToken) -> Result<Copied> {
        Ok(moving::copy(self.end(), to.end(), watch("copy", frames, cancel)).await?)
    }

    /// Writes the journal, as it is at one moment, into a file that must not be there; `None` when it was stopped.
    ///
    /// # Errors
    /// When the journal cannot be read or the file cannot be written.
    pub async fn back_up(
        &self,
        path: PathBuf,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<Option<BackedUp>> {
        Ok(moving::backup(self.end(), path, watch("back up", frames, cancel)).await?)
    }
}

impl AdminService<'_> {
    /// Gives back the space of what was deleted from the journal.
    ///
    /// # Errors
    /// When the database cannot be opened or written.
    pub async fn shrink_journal(self) -> Result<()> {
        Ok(moving::shrink(self.agent.settings.chosen_database()?.end()).await?)
    }
}

/// Returns what tells how far the work is, and stops it when that is asked for.
fn watch(copying: &'static str, frames: &Frames, cancel: &CancellationToken) -> Watch {
    let (frames, cancel) = (frames.clone(), cancel.clone());
    Box::new(move |Progress { step, done, total }| {
        let what = match step {
            Step::Copy => copying,
            Step::Compare => "compare",
            Step::Index => "index",
        };
        frames.send(Frame::Progress { what: what.to_owned(), done: *done, total: Some(*total) });
        match cancel.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
}
