//! The mark of the write-ahead log: a small file next to the database with the number of frames that the log has had. If a
//! frame of the log is damaged, SQLite ignores it and all later ones without an error, and with them transactions that were
//! acknowledged. The mark is compared when the database is opened.
//!
//! The mark is written after a commit is durable, and is not synced itself. After a crash it can therefore be older than
//! the log, which then protects less, but never newer, so that a crash causes no false alarm. It names the log by its
//! salts, which SQLite changes each time it starts the log again; a mark of another log means nothing.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::log_path;
use crate::engines::sqlite::errors::DatabasePath;
use crate::{Error, Result};

/// The first bytes of a mark.
const MAGIC: [u8; 8] = *b"seguewal";
/// The length of a mark: its first bytes, the salts, the number of frames, and a checksum of these.
const MARK_BYTES: usize = 24;
/// The length of the header of a log.
pub(super) const HEADER_BYTES: usize = 32;
/// The position of the two salts in the header of a log.
const SALTS_OFFSET: usize = 16;

/// The two salts of a log.
type Salts = [[u8; 4]; 2];

/// A log and the number of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogPosition {
    /// The salts of the log.
    salts: Salts,
    /// Number of committed frames.
    frames: u32,
}

impl LogPosition {
    /// Returns the position of the log, or `None` if there is no log, or another process started it again meanwhile.
    fn read(connection: &Connection, log: &Path) -> rusqlite::Result<Option<Self>> {
        let Some(salts) = read_salts(log) else { return Ok(None) };
        let frames: i64 =
            connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?.query_row([], |row| row.get(1))?;
        let position = Self { salts, frames: u32::try_from(frames).unwrap_or(0) };
        // The frames are those of this log only if it was the same before and after.
        Ok((read_salts(log) == Some(salts)).then_some(position))
    }

    /// Returns the form in which the position is stored.
    fn encode(self) -> [u8; MARK_BYTES] {
        let mut mark = [0; MARK_BYTES];
        mark[..8].copy_from_slice(&MAGIC);
        mark[8..16].copy_from_slice(self.salts.as_flattened());
        mark[16..20].copy_from_slice(&self.frames.to_be_bytes());
        let checksum = crc32fast::hash(&mark[..20]);
        mark[20..].copy_from_slice(&checksum.to_be_bytes());
        mark
    }

    /// Reads a stored position. `None` if it is incomplete or damaged.
    fn decode(mark: &[u8]) -> Option<Self> {
        let (first, rest) = mark.split_first_chunk::<4>()?;
        let fields = rest.as_chunks::<4>().0;
        let &[second, first_salt, second_salt, frames, checksum] = fields else { return None };
        let is_mark = [*first, second].as_flattened() == MAGIC;
        let is_intact = crc32fast::hash(&mark[..20]) == u32::from_be_bytes(checksum);
        let position = Self { salts: [first_salt, second_salt], frames: u32::from_be_bytes(frames) };
        (is_mark && is_intact).then_some(position)
    }

    /// Returns whether the recovered log at `current` lacks frames that this earlier position had.
    fn is_lost_in(self, current: Self) -> bool {
        let is_same = match current.frames {
            // The header of the log may be damaged too. When SQLite starts a log again, it changes both salts.
            0 => self.salts.iter().zip(current.salts).any(|(salt, other)| *salt == other),
            _ => self.salts == current.salts,
        };
        is_same && current.frames < self.frames
    }
}

/// Returns the salts of a log; `None` if there is no log or it is empty.
fn read_salts(log: &Path) -> Option<Salts> {
    let mut header = [0; HEADER_BYTES];
    // SQLite locks other files, so closing this one releases none of its locks.
    std::io::Read::read_exact(&mut File::open(log).ok()?, &mut header).ok()?;
    let salts = header[SALTS_OFFSET..].as_chunks::<4>().0;
    Some([salts[0], salts[1]])
}

/// Returns the path of the mark.
fn mark_path(database: &Path) -> PathBuf {
    let mut mark = database.as_os_str().to_owned();
    mark.push("-mark");
    PathBuf::from(mark)
}

/// Checks that the log has all frames that its mark counts.
///
/// # Errors
/// [`Error::LostTransactions`] if it has fewer. Fails if the log cannot be read.
pub(in crate::engines::sqlite) fn check_frames(
    connection: &Connection,
    database: &DatabasePath,
) -> Result<()> {
    // The mark is read first, because other processes may write to the log meanwhile.
    let Some(mark) = std::fs::read(mark_path(&database.0)).ok().as_deref().and_then(LogPosition::decode)
    else {
        return Ok(());
    };
    match LogPosition::read(connection, &log_path(&database.0))? {
        Some(current) if mark.is_lost_in(current) => Err(Error::LostTransactions {
            path: database.0.clone(),
            frames: current.frames,
            expected: mark.frames,
        }),
        Some(_) | None => Ok(()),
    }
}

/// The mark of an open database.
#[derive(Debug)]
pub(in crate::engines::sqlite) struct LogMark {
    /// The path of the log.
    log: PathBuf,
    /// The path of the mark.
    path: PathBuf,
    /// The file, once it is open.
    file: Option<File>,
}

impl LogMark {
    /// Returns the mark of a database.
    pub(in crate::engines::sqlite) fn new(database: &DatabasePath) -> Self {
        Self { log: log_path(&database.0), path: mark_path(&database.0), file: None }
    }

    /// Records the position of the log after a durable commit. A failure only reduces the protection, so it is ignored.
    pub(in crate::engines::sqlite) fn update(&mut self, connection: &Connection) {
        if let Ok(Some(position)) = LogPosition::read(connection, &self.log)
            && let Err(error) = self.write(&position.encode())
        {
            tracing::debug!(%error, "failed to write the mark of the write-ahead log");
        }
    }

    /// Replaces the content of the file.
    fn write(&mut self, mark: &[u8]) -> std::io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                self.file.insert(options.open(&self.path)?)
            }
        };
        let mut file = file;
        std::io::Seek::rewind(&mut file)?;
        std::io::Write::write_all(&mut file, mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(first: u8, second: u8, frames: u32) -> LogPosition {
        LogPosition { salts: [[first; 4], [second; 4]], frames }
    }

    #[test]
    fn a_mark_with_any_changed_byte_is_ignored() {
        let mark = position(1, 2, 70_000).encode();
        assert_eq!(LogPosition::decode(&mark), Some(position(1, 2, 70_000)));
        for index in 0..MARK_BYTES {
            let mut changed = mark;
            changed[index] ^= 4;
            assert_eq!(LogPosition::decode(&changed), None, "{index}");
            assert_eq!(LogPosition::decode(&mark[..index]), None, "{index}");
        }
    }

    #[test]
    fn a4_fewer_frames_of_the_same_log_are_a_loss() {
        let mark = position(1, 2, 9);
        for (current, is_lost) in [
            (position(1, 2, 9), false),
            (position(1, 2, 12), false),
            (position(1, 2, 8), true),
            (position(1, 2, 0), true),
            (position(1, 7, 0), true),
            (position(7, 2, 0), true),
            (position(2, 7, 0), false),
            (position(2, 7, 3), false),
            (position(1, 7, 3), false),
        ] {
            assert_eq!(mark.is_lost_in(current), is_lost, "{current:?}");
        }
    }
}
