//! The block record: the text that Segue's writers last gave the managed block. It is stored in the lock file
//! next to agent.md. It lets the tamper guard distinguish a write by another Segue process from tampering. It
//! does not say which summary is current; the handoff's row does.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::file::atomic_replace;
use crate::{Error, Result};

/// Maximum number of bytes read from a record. A summary is far shorter.
const RECORD_BYTES_MAX: u64 = 1024 * 1024;

/// The newest change of the block by one of Segue's writers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BlockRecord {
    /// Incremented with every change, so that two changes to the same text differ.
    pub generation: u64,
    /// The intended text of the block; `None` when there is to be no block.
    pub block: Option<String>,
    /// The progress of the write.
    pub stage: WriteStage,
}

/// The progress of a block write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WriteStage {
    /// The write was announced; the file may still have the previous content.
    Writing,
    /// The file has been replaced.
    Written,
}

/// The record while this process holds the lock.
#[derive(Debug)]
pub(crate) struct LockedBlockRecord {
    file: File,
    current: Option<BlockRecord>,
}

/// Reads the record of `target` without the lock. Returns `None` when it is missing or another process is writing
/// it.
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
    /// Reads the record from the locked file.
    pub(crate) fn read(mut file: File) -> Self {
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| Read::by_ref(&mut file).take(RECORD_BYTES_MAX).read_to_end(&mut bytes));
        // An unreadable record counts as missing: then the block's own content is the only reference.
        let current = read.ok().and_then(|_| parse_record(&bytes));
        Self { file, current }
    }

    /// Returns the newest record, if any.
    pub(crate) const fn latest(&self) -> Option<&BlockRecord> {
        self.current.as_ref()
    }

    /// Records the block's text before the file is replaced. Otherwise a process that reads the file between the
    /// two writes would mistake the new text for tampering.
    pub(crate) fn record_intent(&mut self, target: &Path, block: Option<String>) -> Result<()> {
        self.put_record(target, block, WriteStage::Writing)
    }

    /// Records that the file has been replaced with the announced text.
    pub(crate) fn mark_written(&mut self, target: &Path) -> Result<()> {
        let block = self.current.as_ref().and_then(|record| record.block.clone());
        self.put_record(target, block, WriteStage::Written)
    }

    /// Restores the earlier record after a replacement that failed.
    pub(crate) fn restore(&mut self, before: Option<BlockRecord>) {
        // The error that led here is the one that gets reported.
        let _ = self.write_record(before.as_ref());
        self.current = before;
    }

    /// Records the block's text, current or intended, without changing the file.
    pub(crate) fn record_block(&mut self, target: &Path, block: Option<String>) -> Result<()> {
        self.put_record(target, block, WriteStage::Written)
    }

    /// Writes a record with the next generation.
    fn put_record(&mut self, target: &Path, block: Option<String>, stage: WriteStage) -> Result<()> {
        let generation = self.current.as_ref().map_or(0, |record| record.generation) + 1;
        let record = BlockRecord { generation, block, stage };
        self.write_record(Some(&record))
            .map_err(Error::from_io("write", &atomic_replace::lock_path(target)))?;
        self.current = Some(record);
        Ok(())
    }

    /// Replaces the content of the lock file. `None` empties it.
    fn write_record(&mut self, record: Option<&BlockRecord>) -> io::Result<()> {
        let text = record.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        // Truncate first, so that no reader sees the beginning of one record and the end of another.
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&text)
    }
}

/// Parses a record. An empty or incomplete file has none.
fn parse_record(bytes: &[u8]) -> Option<BlockRecord> {
    serde_json::from_slice(bytes).ok()
}
