//! Taking the words of what was deleted out of the index. The engine only notes which rows are gone; their words are in
//! the file until it merges what it has.

use rusqlite::Connection;

use crate::Result;

/// The most pages of the index, of about 4 KB, that are merged at once. Of a larger one the rest is merged by and by,
/// with what is indexed later.
const PAGES_MAX: i64 = 2_000;

/// Drops the words of deleted rows.
pub(crate) fn purge(connection: &Connection) -> Result<()> {
    connection
        .prepare_cached("INSERT INTO search_index (search_index, rank) VALUES ('merge', ?1)")?
        .execute([-PAGES_MAX])?;
    Ok(())
}
