//! Giving back the space of what was deleted.

use super::ends::Opened;
use super::{End, blocking, check_whole, tables::TABLES};
use crate::Result;

/// Gives back the space of what was deleted: a file becomes smaller, and nothing of what was deleted is left in it; a server's
/// tables take it up again. Others may use the database meanwhile, but nobody writes to a file.
///
/// # Errors
/// When the database cannot be opened or written.
pub async fn shrink(end: End) -> Result<()> {
    blocking(move || {
        let opened = Opened::source(&end)?;
        let shrunk = check_whole(&opened.tables(), &opened.location()).and_then(|()| match &opened {
            Opened::Sqlite(_) => opened.batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);"),
            Opened::Postgres(_) => {
                opened.batch("SET statement_timeout = 0")?;
                let names = TABLES.iter().map(|table| table.name).chain(["search_index"]);
                names.into_iter().try_for_each(|name| opened.batch(&format!("VACUUM {name}")))
            }
        });
        shrunk.map_err(|error| opened.told(error))
    })
    .await
}
