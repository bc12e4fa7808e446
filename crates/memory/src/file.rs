//! One agent.md: read it, and change the text of its block without touching anything else. Which summary belongs
//! there is not decided here.

mod block_record;
pub(crate) mod cached_snapshot;
mod redaction;
mod rewrite;
pub(crate) mod tamper_guard;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::SystemTime;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::atomic_replace::{self, LateWrites, OpenedFile, ReplaceOutcome, RetiredFile};
use crate::edit::{self, AppliedChange, NotesChange};
use crate::file::block_record::LockedBlockRecord;
use crate::file::cached_snapshot::{CachedSnapshot, FileStamp, ResolvedPath};
use crate::managed_block::{self, MalformedMarkers, MarkerProblem};
use crate::{Error, Result};

pub use rewrite::RewriteOutcome;

/// The most bytes of an agent.md that are read; a larger file is read up to here and not written.
pub const AGENT_MD_BYTES_MAX: u64 = 256 * 1024;
/// How often a change is merged again when another program changes the file meanwhile.
const ATTEMPTS_MAX: u32 = 64;
/// How many replaced files are watched for late writes.
const RETIRED_MAX: usize = 64;

/// An agent.md on disk. One value per file and process: it keeps what was read until the file is another one, and it
/// watches the files it replaced for late writes. Calls of several threads take turns.
#[derive(Debug)]
pub struct AgentFile {
    path: PathBuf,
    retired: Mutex<VecDeque<RetiredFile>>,
    read_cache: Mutex<ReadCache>,
    sweep_once: Once,
}

/// What was read last.
#[derive(Debug, Default)]
struct ReadCache {
    newest: Option<Arc<CachedSnapshot>>,
    /// The newest reading of a file that was there.
    newest_existing: Option<Arc<CachedSnapshot>>,
}

/// The file while this process may change it.
pub(crate) struct AgentFileGuard<'a> {
    target: PathBuf,
    retired: MutexGuard<'a, VecDeque<RetiredFile>>,
    /// The record is in the lock file, and so this keeps the lock.
    record: LockedBlockRecord,
}

/// What is to be done with a file.
pub(crate) enum FileAction<T> {
    /// Nothing.
    KeepFile(T),
    /// Another file takes its place.
    ReplaceFile { bytes: Vec<u8>, block: BlockIntent, report: T },
}

/// What a change means for the block.
pub(crate) enum BlockIntent {
    /// It stays as it is.
    KeepBlock,
    /// It is to hold this; `None`: there is to be none.
    SetBlock(Option<String>),
}

/// What an agent.md held when it was read; a missing file is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFileSnapshot {
    /// The content, up to [`AGENT_MD_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Whether the file goes on after `bytes`.
    pub extent: ReadExtent,
    /// Lowercase hex SHA-256 of `bytes`.
    pub sha256: String,
    /// What the block holds; `None` without a block.
    pub block: Option<String>,
    /// What is wrong with the block's markers.
    pub problems: Vec<MarkerProblem>,
}

/// How much of a file was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadExtent {
    /// All of it.
    #[default]
    Whole,
    /// The beginning; the rest is beyond the limit.
    Beginning,
}

/// What a call did to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockWrite {
    /// Whether the file is another one.
    pub outcome: BlockWriteOutcome,
    /// What the block held before; `None` when there was no block.
    pub previous: Option<String>,
    /// The markers had to be repaired.
    pub repair: Option<MarkerRepair>,
}

/// Whether a call changed the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockWriteOutcome {
    /// The block holds the text asked for.
    Changed,
    /// It already did; the file was left alone.
    Unchanged,
    /// There is no block, or one with a text that was not expected; the file was left alone.
    Skipped,
}

/// The markers of a file were put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerRepair {
    /// A copy of the file as it was.
    pub backup: PathBuf,
    /// What was wrong.
    pub problems: Vec<MarkerProblem>,
}

impl AgentFileSnapshot {
    fn new(bytes: Vec<u8>, extent: ReadExtent) -> Self {
        Self {
            extent,
            sha256: protocol::sha256_hex(&bytes),
            block: managed_block::block_content(&bytes),
            problems: managed_block::marker_problems(&bytes),
            bytes,
        }
    }
}

impl AgentFile {
    /// Returns the file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            retired: Mutex::default(),
            read_cache: Mutex::default(),
            sweep_once: Once::new(),
        }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the file holds. An unchanged file costs a look at its metadata. Takes no lock: a replaced file is
    /// always whole.
    ///
    /// # Errors
    /// When there is something that cannot be read. A missing file is an empty one.
    pub fn read(&self) -> Result<Arc<AgentFileSnapshot>> {
        self.read_cached().map(|reading| Arc::clone(&reading.snapshot))
    }

    /// Makes the block hold `summary_md`, creating block, file and folder (0600, 0700) when they are missing.
    /// Doing it twice changes nothing more. `now` names the backup, should the markers need repair.
    ///
    /// # Errors
    /// When the file cannot be read or written; it is then as it was, and no temporary file is left.
    pub fn write_block(&self, summary_md: &str, now: Timestamp) -> Result<BlockWrite> {
        self.change_block(None, summary_md, now)
    }

    /// Makes the block hold `summary_md` if it holds `expected`, the text an earlier call was given. A block with
    /// another text belongs to someone else and is left alone; a missing one is not created.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn compare_and_swap_block(
        &self,
        expected: &str,
        summary_md: &str,
        now: Timestamp,
    ) -> Result<BlockWrite> {
        let expected = managed_block::normalize_content(expected);
        if self.read()?.block.is_none() {
            let noted = block_record::read_unlocked(&self.read_cached()?.resolved_path.target);
            if noted.and_then(|noted| noted.block).as_ref() != Some(&expected) {
                return Ok(BlockWrite { outcome: BlockWriteOutcome::Skipped, previous: None, repair: None });
            }
        }
        self.change_block(Some(&expected), summary_md, now)
    }

    /// Puts the placeholder in the place of `expected`, as [`Self::swap_block`] does.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn clear_block(&self, expected: &str, now: Timestamp) -> Result<BlockWrite> {
        self.compare_and_swap_block(expected, managed_block::PLACEHOLDER, now)
    }

    /// Returns what the file holds, with what was worked out about that content before.
    pub(crate) fn read_cached(&self) -> Result<Arc<CachedSnapshot>> {
        let mut kept = self.read_cache.lock();
        // Before the content: what changes after this look has another stamp, or one that is not trusted.
        let (at, found) = (SystemTime::now(), FileStamp::read(&self.path));
        if let (Ok(found), Some(newest)) = (&found, &kept.newest)
            && newest.is_current_for(found.as_ref().map(|stat| stat.stamp))
        {
            return Ok(Arc::clone(newest));
        }
        let target = atomic_replace::resolve_links(&self.path)?;
        let (bytes, extent) = self.load_file(&target)?;
        let place = ResolvedPath { target, link: std::fs::read_link(&self.path).ok() };
        let reading = match &kept.newest {
            Some(known) if known.has_content(&bytes, extent) => {
                known.with_stamp(found.ok().flatten(), place, at)
            }
            Some(_) | None => {
                CachedSnapshot::new(AgentFileSnapshot::new(bytes, extent), found.ok().flatten(), place, at)
            }
        };
        let reading = Arc::new(reading);
        if reading.stamp.is_some() {
            kept.newest_existing = Some(Arc::clone(&reading));
        }
        kept.newest = Some(Arc::clone(&reading));
        Ok(reading)
    }

    /// Applies `change` outside the block; parts that would touch it are refused, the others stay.
    pub(crate) fn edit_notes(&self, change: &NotesChange) -> Result<AppliedChange> {
        let mut holding = self.lock()?;
        self.replace_with(&mut holding, |found| {
            let applied = edit::apply_change(found.unwrap_or_default(), change);
            Ok(match applied.applied_count {
                0 => FileAction::KeepFile(applied),
                _ => FileAction::ReplaceFile {
                    bytes: applied.text.clone(),
                    block: BlockIntent::KeepBlock,
                    report: applied,
                },
            })
        })
    }

    fn load_file(&self, target: &Path) -> Result<(Vec<u8>, ReadExtent)> {
        let mut bytes = atomic_replace::read_file(target)?.map(|content| content.bytes).unwrap_or_default();
        if is_utf16(&bytes) {
            return Err(Error::Utf16 { path: self.path.clone() });
        }
        let limit = usize::try_from(AGENT_MD_BYTES_MAX).unwrap_or(usize::MAX);
        let extent = if bytes.len() > limit { ReadExtent::Beginning } else { ReadExtent::Whole };
        bytes.truncate(limit);
        Ok((bytes, extent))
    }

    /// Takes the lock, and brings back what was written to replaced files.
    pub(crate) fn lock(&self) -> Result<AgentFileGuard<'_>> {
        let target = atomic_replace::resolve_links(&self.path)?;
        let mut retired = self.retired.lock();
        let record = LockedBlockRecord::read(atomic_replace::lock_target(&target)?);
        self.sweep_once.call_once(|| atomic_replace::remove_stale_temporaries(&target));
        rescue_all_late_writes(&target, &mut retired)?;
        Ok(AgentFileGuard { target, retired, record })
    }

    /// Makes the block hold `summary_md`; with `expected`, only a block that holds that or the new text already.
    fn change_block(&self, expected: Option<&str>, summary_md: &str, now: Timestamp) -> Result<BlockWrite> {
        let mut holding = self.lock()?;
        let wanted = managed_block::normalize_content(summary_md);
        let mut done: Option<BlockWrite> = None;
        for _ in 0..ATTEMPTS_MAX {
            let target = holding.target.clone();
            let written = self.replace_with(&mut holding, |found| {
                let old = found.unwrap_or_default();
                let previous = managed_block::block_content(old);
                let is_due =
                    |expected| previous.as_deref().is_some_and(|text| text == expected || text == wanted);
                if !expected.is_none_or(is_due) {
                    return Ok(FileAction::KeepFile(BlockWrite {
                        outcome: BlockWriteOutcome::Skipped,
                        previous,
                        repair: None,
                    }));
                }
                let (bytes, repair) = self.render_with_block(&target, old, summary_md, now)?;
                if bytes == old {
                    return Ok(FileAction::KeepFile(BlockWrite {
                        outcome: BlockWriteOutcome::Unchanged,
                        previous,
                        repair,
                    }));
                }
                let report = BlockWrite { outcome: BlockWriteOutcome::Changed, previous, repair };
                Ok(FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::SetBlock(Some(wanted.clone())),
                    report,
                })
            })?;
            if written.outcome != BlockWriteOutcome::Changed {
                record_unwritten_block(&mut holding, &written, expected, &wanted)?;
                return Ok(done.unwrap_or(written));
            }
            done.get_or_insert(written);
            // What was rescued may hold markers; the next round sees to them.
            if rescue_all_late_writes(&holding.target, &mut holding.retired)? == LateWrites::NoneFound {
                break;
            }
        }
        done.ok_or_else(|| self.contended_error())
    }

    /// Returns `old` with its block holding `summary_md`, its markers repaired if they must be.
    fn render_with_block(
        &self,
        target: &Path,
        old: &[u8],
        summary_md: &str,
        now: Timestamp,
    ) -> Result<(Vec<u8>, Option<MarkerRepair>)> {
        match managed_block::replace_block(old, summary_md) {
            Ok(new) => Ok((new, None)),
            Err(MalformedMarkers { problems }) => {
                let new = managed_block::replace_block(&managed_block::repair_markers(old), summary_md)
                    .map_err(|source| Error::MalformedMarkers { path: self.path.clone(), source })?;
                let backup = atomic_replace::write_backup(&backup_path(target, now), old)?;
                Ok((new, Some(MarkerRepair { backup, problems })))
            }
        }
    }

    /// Does with the file what `make` says about its present content (`None`: there is no file), again when another
    /// program changes it meanwhile.
    pub(crate) fn replace_with<T>(
        &self,
        holding: &mut AgentFileGuard<'_>,
        mut make: impl FnMut(Option<&[u8]>) -> Result<FileAction<T>>,
    ) -> Result<T> {
        let before = holding.record.latest().cloned();
        for _ in 0..ATTEMPTS_MAX {
            let found = self.read_for_replacement(&holding.target)?;
            let (bytes, block, report) = match make(found.as_ref().map(|content| content.bytes.as_slice()))? {
                FileAction::KeepFile(report) => return Ok(report),
                FileAction::ReplaceFile { bytes, block, report } => (bytes, block, report),
            };
            let is_noted = match block {
                BlockIntent::KeepBlock => false,
                BlockIntent::SetBlock(block) => {
                    holding.record.record_intent(&holding.target, block)?;
                    true
                }
            };
            match atomic_replace::replace_file(&holding.target, found, &bytes) {
                Ok(ReplaceOutcome::Replaced(old)) => {
                    holding.retired.extend(old);
                    if is_noted {
                        holding.record.mark_written(&holding.target)?;
                    }
                    return Ok(report);
                }
                Ok(ReplaceOutcome::Stale) if is_noted => holding.record.restore(before.clone()),
                Ok(ReplaceOutcome::Stale) => {}
                Err(error) => {
                    if is_noted {
                        holding.record.restore(before);
                    }
                    return Err(error);
                }
            }
        }
        Err(self.contended_error())
    }

    /// Reads a file that is about to be replaced.
    fn read_for_replacement(&self, target: &Path) -> Result<Option<OpenedFile>> {
        let found = atomic_replace::read_file(target)?;
        match found.as_ref().map(|content| content.bytes.as_slice()) {
            Some(bytes) if !atomic_replace::is_within_limit(bytes) => {
                Err(Error::TooLarge { path: self.path.clone(), bytes_max: AGENT_MD_BYTES_MAX })
            }
            Some(bytes) if is_utf16(bytes) => Err(Error::Utf16 { path: self.path.clone() }),
            Some(_) | None => Ok(found),
        }
    }

    fn contended_error(&self) -> Error {
        Error::Contended { path: self.path.clone(), attempts: ATTEMPTS_MAX }
    }
}

/// Notes what the block is to hold when the file was left as it was.
fn record_unwritten_block(
    holding: &mut AgentFileGuard<'_>,
    written: &BlockWrite,
    expected: Option<&str>,
    wanted: &str,
) -> Result<()> {
    let noted = holding.record.latest().and_then(|record| record.block.as_deref());
    let block = match written.outcome {
        BlockWriteOutcome::Unchanged if noted != Some(wanted) => Some(wanted.to_owned()),
        // The block shows something else, but nobody shall put back what was asked to go.
        BlockWriteOutcome::Skipped if expected.is_some() && noted == expected => {
            written.previous.as_ref().map(|_| wanted.to_owned())
        }
        BlockWriteOutcome::Unchanged | BlockWriteOutcome::Skipped | BlockWriteOutcome::Changed => {
            return Ok(());
        }
    };
    let target = holding.target.clone();
    holding.record.record_block(&target, block)
}

fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Brings what was written to replaced files back into `target`, and forgets the oldest of them.
fn rescue_all_late_writes(target: &Path, retired: &mut VecDeque<RetiredFile>) -> Result<LateWrites> {
    let mut found = LateWrites::NoneFound;
    for file in retired.iter_mut() {
        if atomic_replace::rescue_late_writes(target, file)? == LateWrites::Rescued {
            found = LateWrites::Rescued;
        }
    }
    while retired.len() > RETIRED_MAX {
        retired.pop_front();
    }
    Ok(found)
}

fn backup_path(target: &Path, now: Timestamp) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".bak-{}", now.strftime("%Y%m%dT%H%M%SZ")));
    target.with_file_name(name)
}
