//! What Segue's own writers made of the block last, kept in the lock file beside agent.md. With it a change of another
//! process is told from a change that nobody may make. It says nothing about which summary is due: that is the
//! handoff's row.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::atomic_replace;
use crate::{Error, Result};

/// The most bytes of a record that are read; a summary is far shorter.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// The newest change of the block by one of Segue's writers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockRecord {
    /// Grows with every change, so that two changes to the same text differ.
    pub generation: u64,
    /// What the block is to hold; `None`: there is none.
    pub block: Option<String>,
    /// How far the writer has come.
    pub stage: WriteStage,
}

/// How far a writer has come with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WriteStage {
    /// The file may still hold what it held before.
    Writing,
    /// The file holds it.
    Written,
}

/// The record while this process holds the lock.
#[derive(Debug)]
pub(crate) struct LockedBlockRecord {
    file: File,
    current: Option<BlockRecord>,
}

/// Returns the record of `target` without the lock. One that is being written may be missing.
pub(crate) fn read_unlocked(target: &Path) -> Option<BlockRecord> {
    let mut bytes = Vec::new();
    File::open(atomic_replace::lock_path(target))
        .ok()?
        .take(RECORD_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    parse_record(&bytes)
}

impl LockedBlockRecord {
    /// Reads the record from the lock file.
    pub(crate) fn read(mut file: File) -> Self {
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| Read::by_ref(&mut file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes));
        // A record that cannot be read is one that is not there: what the block held is then the only guide.
        let current = read.ok().and_then(|_| parse_record(&bytes));
        Self { file, current }
    }

    pub(crate) const fn latest(&self) -> Option<&BlockRecord> {
        self.current.as_ref()
    }

    /// Notes what the block is about to hold. It is noted before the file is replaced: a process that looks in between
    /// must not take the new text for a stranger's.
    pub(crate) fn record_intent(&mut self, target: &Path, block: Option<String>) -> Result<()> {
        self.put_record(target, block, WriteStage::Writing)
    }

    /// Notes that the file holds what was begun.
    pub(crate) fn mark_written(&mut self, target: &Path) -> Result<()> {
        let block = self.current.as_ref().and_then(|record| record.block.clone());
        self.put_record(target, block, WriteStage::Written)
    }

    /// Puts back the record of before, for a file that could not be replaced.
    pub(crate) fn restore(&mut self, before: Option<BlockRecord>) {
        // The failure that led here is what is reported.
        let _ = self.write_record(before.as_ref());
        self.current = before;
    }

    /// Notes what the block holds, or is to hold, without a change of the file.
    pub(crate) fn record_block(&mut self, target: &Path, block: Option<String>) -> Result<()> {
        self.put_record(target, block, WriteStage::Written)
    }

    fn put_record(&mut self, target: &Path, block: Option<String>, stage: WriteStage) -> Result<()> {
        let generation = self.current.as_ref().map_or(0, |record| record.generation) + 1;
        let record = BlockRecord { generation, block, stage };
        self.write_record(Some(&record))
            .map_err(Error::from_io("write", &atomic_replace::lock_path(target)))?;
        self.current = Some(record);
        Ok(())
    }

    fn write_record(&mut self, record: Option<&BlockRecord>) -> io::Result<()> {
        let text = record.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        // Emptied first, so that nobody reads the beginning of one record and the end of another.
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)
    }
}

fn parse_record(bytes: &[u8]) -> Option<BlockRecord> {
    serde_json::from_slice(bytes).ok()
}
