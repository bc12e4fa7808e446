//! The errors of the mirror, and the advice for each. Retrying is decided in [`crate::mirror::state`].

use crate::mirror::settings::ATTEMPT_MAX;

/// A failure of the mirror. It never affects the acceptance of the handoff.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The journal, which holds the outbox, cannot be read or written.
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// The database cannot be reached, or it failed.
    #[error(transparent)]
    Database(#[from] postgres::Error),
    /// The database did not answer within the time of an attempt.
    #[error("reach the database: no answer within {} s", ATTEMPT_MAX.as_secs())]
    Timeout,
    /// The database user lacks a privilege.
    #[error("write the table thread_summaries: {reason}")]
    Denied {
        /// The message of the server.
        reason: String,
        /// The `GRANT` statement that the owner of the database would have to run.
        statement: String,
    },
    /// A table of that name exists with other columns.
    #[error("use the table thread_summaries: {found}")]
    WrongColumns {
        /// The columns it has, or the message of the server.
        found: String,
    },
    /// The server rejected a row because of its content.
    #[error("write a row of thread_summaries: {reason}")]
    Rejected {
        /// The message of the server.
        reason: String,
    },
}

impl Error {
    /// Returns whether the cause is a wrong setting rather than the database.
    pub const fn is_setting(&self) -> bool {
        matches!(
            self,
            Self::Database(postgres::Error::InvalidUrl(_) | postgres::Error::ConnectionRejected(_))
        )
    }

    /// Returns the advice for the person, in one line.
    pub fn hint(&self) -> String {
        match self {
            Self::Journal(_) => "run `segue doctor` to check the data".to_owned(),
            Self::Database(postgres::Error::InvalidUrl(_)) => {
                "write postgres://USER:PASSWORD@HOST:PORT/DATABASE into `[mirror] url` or SEGUE_MIRROR_URL, or `off`"
                    .to_owned()
            }
            Self::Database(postgres::Error::ConnectionRejected(_)) => {
                "check user, password, database and certificate in `[mirror] url` or SEGUE_MIRROR_URL".to_owned()
            }
            Self::Database(_) | Self::Timeout => {
                "nothing is lost: once the database is reachable, `segue handoff export flush` sends the pending summaries"
                    .to_owned()
            }
            Self::Denied { statement, .. } => {
                format!("have the database's owner run `{statement}`, then `segue handoff export flush`")
            }
            Self::WrongColumns { .. } => {
                "rename that table, or name another database in `[mirror] url`; then `segue handoff export flush`"
                    .to_owned()
            }
            Self::Rejected { .. } => {
                "the summary stays pending; `SEGUE_LOG=warn segue handoff export flush` names it".to_owned()
            }
        }
    }
}
