//! Giving back the space of what was deleted.

use super::ends::Opened;
use super::{End, blocking, check_whole, tables::TABLES};
use crate::Result;

/// Gives back the space of what was deleted: a file becomes smaller, and nothing of what was deleted is left in it; a server's
/// tables take it up again. Others may use the database meanwhile, but nobody writes to a file.
///
/// # Errors
/// When the database cannot be opened or written; [`crate::Error::Locked`] when another process went on reading what was deleted
/// from a file, which is in it as long as that does.
pub async fn shrink(end: End) -> Result<()> {
    blocking(move || {
        let opened = Opened::source(&end)?;
        let shrunk = check_whole(&opened.tables(), &opened.location()).and_then(|()| match &opened {
            // As long as the log has not gone into the file, what was deleted is still there.
            Opened::Sqlite(_) => opened.batch("VACUUM").and_then(|()| opened.settle()),
            Opened::Postgres(_) => {
                let names = TABLES.iter().map(|table| table.name).chain(["search_index"]);
                names.into_iter().try_for_each(|name| opened.batch(&format!("VACUUM {name}")))
            }
        });
        shrunk.map_err(|error| opened.told(error))
    })
    .await
}
