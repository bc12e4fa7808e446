//! Detection that another program has truncated the file of an open database. SQLite does not notice it: it reads the
//! number of pages from the log, and the pages that it has in its cache stay readable.
//!
//! The file itself is not opened here, because closing it would release the locks that SQLite holds in this process.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{log_path, mark, read_metadata};
use crate::{Error, Result};

/// The length of the header of a frame of the log. It begins with the number of the page.
const FRAME_HEADER_BYTES: usize = 24;

/// The result of comparing the length of a database file with its number of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileExtent {
    /// Every page is in the file or in the log.
    Whole,
    /// A page is missing.
    Truncated,
    /// It cannot be determined at the moment.
    Unknown,
}

/// Compares the length of the file with the number of pages of the database. A new connection reads that number, so this is
/// only for a file that has become shorter. A checkpoint after a `VACUUM` makes it shorter too.
pub(super) fn inspect_extent(database: &Path) -> FileExtent {
    match has_all_pages(database) {
        Ok(true) => FileExtent::Whole,
        Ok(false) => FileExtent::Truncated,
        Err(Error::Sqlite(error)) if is_damage(&error) => FileExtent::Truncated,
        Err(_) => FileExtent::Unknown,
    }
}

/// Returns whether every page of the database is in the file or in the log.
fn has_all_pages(database: &Path) -> Result<bool> {
    // For a new connection an empty file is a new database: it deletes the log, which has the newest transactions.
    if read_metadata(database)?.is_none_or(|file| file.len() == 0) {
        return Ok(false);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    super::keep(&connection)?;
    let read_number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0));
    let (pages, page_size) = (read_number("PRAGMA page_count")?, read_number("PRAGMA page_size")?);
    let frames = connection.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| {
        // SQLite reads a page from the file again once its frame was copied there.
        Ok(row.get::<_, i64>(2)?..row.get::<_, i64>(1)?)
    })?;
    // In this order, a checkpoint meanwhile only adds pages to the file that were in the log before.
    let logged = read_logged_pages(&log_path(database), i64::from(page_size), frames)
        .map_err(|source| Error::Io { path: log_path(database), source })?;
    let length = read_metadata(database)?.map_or(0, |file| file.len());
    let is_present = |page: u32| u64::from(page) * u64::from(page_size) <= length || logged.contains(&page);
    Ok((1..=pages).all(is_present))
}

/// Returns the numbers of the pages in a range of the frames of the log. Frames that are not there any more are left out.
fn read_logged_pages(log: &Path, page_size: i64, frames: Range<i64>) -> std::io::Result<BTreeSet<u32>> {
    let mut pages = BTreeSet::new();
    if frames.is_empty() {
        return Ok(pages);
    }
    let mut file = BufReader::new(File::open(log)?);
    file.seek(SeekFrom::Start(mark::HEADER_BYTES as u64))?;
    file.seek_relative(frames.start * (FRAME_HEADER_BYTES as i64 + page_size))?;
    let mut header = [0; FRAME_HEADER_BYTES];
    for _ in frames {
        if file.read_exact(&mut header).is_err() {
            break;
        }
        let [first, second, third, fourth, ..] = header;
        pages.insert(u32::from_be_bytes([first, second, third, fourth]));
        file.seek_relative(page_size)?;
    }
    Ok(pages)
}

/// Returns whether SQLite cannot read the database because pages are missing.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
