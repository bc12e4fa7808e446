//! What can go wrong on the way to the mirror, and what to do about it. Whether it is tried again is not decided here.

use crate::mirror::settings::ATTEMPT_MAX;

/// A failure of the mirror. The handoff it is about is accepted all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal, from which it is fed, cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The way to the database, or the database.
    #[error(transparent)]
    Database(#[from] postgres::Error),
    /// Nothing was answered.
    #[error("reach the database: no answer within {} s", ATTEMPT_MAX.as_secs())]
    Silent,
    /// The user may not do what is needed.
    #[error("write the table thread_summaries: {reason}")]
    Denied {
        /// What the server says.
        reason: String,
        /// What the owner of the database would have to run.
        statement: String,
    },
    /// There is a table of that name with other columns.
    #[error("use the table thread_summaries: {found}")]
    Columns {
        /// What it is instead.
        found: String,
    },
    /// The server does not take a row because of what is in it.
    #[error("write a row of thread_summaries: {reason}")]
    Rejected {
        /// What the server says.
        reason: String,
    },
}

impl Error {
    /// Returns whether a setting is wrong, and not the database.
    pub const fn is_setting(&self) -> bool {
        matches!(self, Self::Database(postgres::Error::Address(_) | postgres::Error::Refused(_)))
    }

    /// Returns what to do, in one line.
    pub fn hint(&self) -> String {
        match self {
            Self::Journal(_) => "`segue doctor` tells more about the data".to_owned(),
            Self::Database(postgres::Error::Address(_)) => {
                "write postgres://USER:PASSWORD@HOST:PORT/DATABASE into `[mirror] url` or SEGUE_MIRROR_URL, or `off`"
                    .to_owned()
            }
            Self::Database(postgres::Error::Refused(_)) => {
                "check user, password, database and certificate in `[mirror] url` or SEGUE_MIRROR_URL".to_owned()
            }
            Self::Database(_) | Self::Silent => {
                "nothing is lost: `segue mirror flush` sends what waits once the database is there".to_owned()
            }
            Self::Denied { statement, .. } => {
                format!("have the database's owner run `{statement}`, then `segue mirror flush`")
            }
            Self::Columns { .. } => {
                "rename that table, or name another database in `[mirror] url`; then `segue mirror flush`"
                    .to_owned()
            }
            Self::Rejected { .. } => "it waits; `SEGUE_LOG=warn segue mirror flush` tells which one".to_owned(),
        }
    }
}
