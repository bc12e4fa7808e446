//! Reads one agent.md and writes its managed block without touching any other byte. Deciding which summary
//! belongs in the block is the caller's task.

mod atomic_replace;
mod block_record;
pub(crate) mod cached_snapshot;
pub(crate) mod history;
pub(crate) mod project_notes;
mod redaction;
mod rewrite;
pub(crate) mod tamper_guard;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::SystemTime;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::edit::{self, AppliedChange, EDITED_BYTES_MAX, NotesChange};
use crate::file::atomic_replace::{LateWrites, OpenedFile, ReplaceOutcome, RetiredFile};
use crate::file::block_record::LockedBlockRecord;
use crate::file::cached_snapshot::{CachedSnapshot, FileStamp, ResolvedPath};
use crate::file::project_notes::NotesScope;
use crate::managed_block::{self, MalformedMarkers, MarkerProblem};
use crate::{Error, Result};

pub use rewrite::RewriteOutcome;

/// Maximum number of bytes read from an agent.md, 256 KiB. A larger file is read up to this limit and is never
/// written.
pub const AGENT_MD_BYTES_MAX: u64 = 256 * 1024;
/// Maximum number of merges of one change while another program keeps changing the file.
const ATTEMPTS_MAX: u32 = 64;
/// Maximum number of replaced files that are watched for late writes.
const RETIRED_MAX: usize = 64;

/// An agent.md on disk.
///
/// Create one value per file and process. It caches the last snapshot until the file changes, and it watches the
/// files it has replaced for late writes. Concurrent calls are serialized.
#[derive(Debug)]
pub struct AgentFile {
    /// The path as given, with links.
    path: PathBuf,
    /// Replaced files, oldest first. At most [`RETIRED_MAX`] are watched.
    retired: Mutex<VecDeque<RetiredFile>>,
    read_cache: Mutex<ReadCache>,
    /// Temporary files of killed processes are removed once, with the first lock.
    sweep_once: Once,
}

/// The cached snapshots of the file.
#[derive(Debug, Default)]
struct ReadCache {
    newest: Option<Arc<CachedSnapshot>>,
    /// The newest snapshot taken while the file existed.
    newest_existing: Option<Arc<CachedSnapshot>>,
}

/// Exclusive access to an agent.md: while this guard lives, no other writer of this program changes the file.
pub struct AgentFileGuard<'a> {
    file: &'a AgentFile,
    /// The file, with links resolved.
    target: PathBuf,
    retired: MutexGuard<'a, VecDeque<RetiredFile>>,
    /// The block record. It is stored in the lock file, so it also keeps the lock.
    record: LockedBlockRecord,
}

/// The action that a change wants to perform on the file, with the value to return to the caller.
pub(crate) enum FileAction<T> {
    /// Leave the file as it is.
    KeepFile(T),
    /// Replace the file with `bytes`.
    ReplaceFile { bytes: Vec<u8>, block: BlockIntent, report: T },
}

/// The texts of a change of the block.
struct BlockTexts<'a> {
    /// The whole file, of which a repair keeps a backup.
    old: &'a [u8],
    /// The file without the text of the block that a damaged marker leaves outside of it.
    notes: &'a [u8],
    /// The new text of the block.
    summary_md: &'a str,
}

/// The effect of a change on the managed block.
pub(crate) enum BlockIntent {
    /// The block stays as it is.
    KeepBlock,
    /// The block is to hold this text. `None` means that the file is to have no block.
    SetBlock(Option<String>),
}

/// A snapshot of an agent.md. A missing file reads as an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFileSnapshot {
    /// The content, up to [`AGENT_MD_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Says if the file continues after `bytes`.
    pub extent: ReadExtent,
    /// Lowercase hex SHA-256 of `bytes`.
    pub sha256: String,
    /// The text of the block; `None` without a block.
    pub block: Option<String>,
    /// The problems found in the block's markers; empty when they are well formed.
    pub problems: Vec<MarkerProblem>,
    /// The text that Segue last wrote into the block, if the markers have problems. Without a marker it is no part of a block,
    /// but belongs to one thread all the same.
    pub stray_text: Option<String>,
}

/// The part of a file that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadExtent {
    /// The whole file.
    #[default]
    Whole,
    /// Only the first [`AGENT_MD_BYTES_MAX`] bytes; the file is longer.
    Beginning,
}

/// The result of a write to the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockWrite {
    /// The effect on the file.
    pub outcome: BlockWriteOutcome,
    /// The block's previous text; `None` when there was no block.
    pub previous: Option<String>,
    /// The repair of the markers, when one was necessary.
    pub repair: Option<MarkerRepair>,
    /// The path of a backup of the file, if the write replaced a text in the block that another program or a person had put there.
    pub edit_backup: Option<PathBuf>,
}

impl BlockWrite {
    /// Returns the result of a call that left the file as it was.
    const fn without_change(outcome: BlockWriteOutcome, previous: Option<String>) -> Self {
        Self { outcome, previous, repair: None, edit_backup: None }
    }
}

/// The effect of a block write on the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockWriteOutcome {
    /// The file was replaced; the block now holds the requested text.
    Changed,
    /// The block already held the requested text; the file was left alone.
    Unchanged,
    /// There is no block, or its text is not the expected one; the file was left alone.
    Skipped,
}

/// A repair of malformed markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkerRepair {
    /// Path of a backup of the file before the repair.
    pub backup: PathBuf,
    /// The problems that were repaired.
    pub problems: Vec<MarkerProblem>,
}

impl AgentFileSnapshot {
    /// Returns the content with the notes of other projects as empty lines, so that lines keep their numbers.
    pub fn visible_lines(&self, scope: &NotesScope) -> String {
        let mut visible = self.bytes.clone();
        for range in project_notes::hidden_ranges(&self.bytes, scope) {
            visible[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        String::from_utf8_lossy(&visible).into_owned()
    }

    fn new(bytes: Vec<u8>, extent: ReadExtent) -> Self {
        Self {
            extent,
            sha256: protocol::sha256_hex(&bytes),
            block: managed_block::block_content(&bytes),
            problems: managed_block::marker_problems(&bytes),
            stray_text: None,
            bytes,
        }
    }
}

impl<'a> AgentFileGuard<'a> {
    /// Returns the handle to the file.
    pub(crate) const fn file(&self) -> &'a AgentFile {
        self.file
    }

    /// Replaces the file while it stays locked. See [`AgentFile::replace_with`].
    pub(crate) fn replace<T>(
        &mut self,
        make: impl FnMut(Option<&[u8]>) -> Result<FileAction<T>>,
    ) -> Result<T> {
        self.file.replace_with(self, make)
    }

    /// Applies `change` to the notes of this scope. Parts that would touch the block or other notes are refused; the
    /// others are applied.
    pub(crate) fn edit_notes(&mut self, scope: &NotesScope, change: &NotesChange) -> Result<AppliedChange> {
        self.replace(|current| {
            let applied = edit::apply_change(current.unwrap_or_default(), scope, change);
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
}

impl AgentFile {
    /// Returns a handle to the file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            retired: Mutex::default(),
            read_cache: Mutex::default(),
            sweep_once: Once::new(),
        }
    }

    /// Returns the path as it was given to [`Self::new`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a snapshot of the file.
    ///
    /// An unchanged file costs only a check of its metadata. No lock is needed, because files are replaced
    /// atomically.
    ///
    /// # Errors
    /// When the file exists but cannot be read. A missing file reads as an empty one.
    pub fn read(&self) -> Result<Arc<AgentFileSnapshot>> {
        self.read_cached().map(|reading| Arc::clone(&reading.snapshot))
    }

    /// Returns what a person can do about a request that is too large because of this file, as a clause without a period;
    /// `None` if the file is within the size up to which notes may be added, or does not exist.
    pub fn oversize_advice(&self) -> Option<String> {
        let bytes = std::fs::metadata(&self.path).ok()?.len();
        (bytes > EDITED_BYTES_MAX as u64).then(|| {
            format!(
                "shorten {} with an editor: it is part of every request and has {bytes} bytes; {EDITED_BYTES_MAX} is the limit",
                self.path.display()
            )
        })
    }

    /// Writes `summary_md` into the block. Creates the block, the file (mode 0600) and its folder (mode 0700)
    /// when they are missing.
    ///
    /// The operation is idempotent. `now` is used for the name of the backup if the markers need a repair.
    ///
    /// # Errors
    /// When the file cannot be read or written. The file is then unchanged, and no temporary file remains.
    pub fn write_block(&self, summary_md: &str, now: Timestamp) -> Result<BlockWrite> {
        self.change_block(None, summary_md, now)
    }

    /// Writes `summary_md` into the block if the block holds `expected`, the text given to an earlier call, or a version of it
    /// that a person or another program edited. The file before the edit is lost is kept as a backup; see [`BlockWrite::edit_backup`].
    ///
    /// A block that another writer of this program gave another text is left alone. A missing block is not created.
    ///
    /// # Errors
    /// See [`Self::write_block`].
    pub fn compare_and_swap_block(
        &self,
        expected: &str,
        summary_md: &str,
        now: Timestamp,
    ) -> Result<BlockWrite> {
        let expected = managed_block::normalize_content(expected);
        if self.read()?.block.is_none() {
            let record = block_record::read_unlocked(&self.read_cached()?.resolved_path.target);
            if record.and_then(|record| record.block).as_ref() != Some(&expected) {
                return Ok(BlockWrite::without_change(BlockWriteOutcome::Skipped, None));
            }
        }
        self.change_block(Some(&expected), summary_md, now)
    }

    /// Replaces `expected` with the placeholder, with the rules of [`Self::compare_and_swap_block`].
    ///
    /// # Errors
    /// See [`Self::write_block`].
    pub fn clear_block(&self, expected: &str, now: Timestamp) -> Result<BlockWrite> {
        self.compare_and_swap_block(expected, managed_block::PLACEHOLDER, now)
    }

    /// Returns the current snapshot with the values already derived from it, from the cache when the file is
    /// unchanged.
    pub(crate) fn read_cached(&self) -> Result<Arc<CachedSnapshot>> {
        let mut cache = self.read_cache.lock();
        // Read the stamp before the content: a later change gets another stamp, or one that is not trusted.
        let (at, stat) = (SystemTime::now(), FileStamp::read(&self.path));
        if let (Ok(stat), Some(newest)) = (&stat, &cache.newest)
            && newest.is_current_for(stat.as_ref().map(|stat| stat.stamp))
        {
            return Ok(Arc::clone(newest));
        }
        let target = atomic_replace::resolve_links(&self.path)?;
        let (bytes, extent) = self.load_file(&target)?;
        let resolved_path = ResolvedPath { target, link: std::fs::read_link(&self.path).ok() };
        let stat = stat.ok().flatten();
        let snapshot = match &cache.newest {
            Some(newest) if newest.has_content(&bytes, extent) => newest.with_stamp(stat, resolved_path, at),
            Some(_) | None => {
                let mut snapshot = AgentFileSnapshot::new(bytes, extent);
                if !snapshot.problems.is_empty() {
                    let record = block_record::read_unlocked(&resolved_path.target);
                    snapshot.stray_text = record.and_then(|record| record.block);
                }
                CachedSnapshot::new(snapshot, stat, resolved_path, at)
            }
        };
        let snapshot = Arc::new(snapshot);
        if snapshot.stamp.is_some() {
            cache.newest_existing = Some(Arc::clone(&snapshot));
        }
        cache.newest = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    /// Reads at most [`AGENT_MD_BYTES_MAX`] bytes. Refuses UTF-16.
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

    /// Acquires the lock, removes stale temporary files once, and rescues late writes to replaced files.
    pub(crate) fn lock(&self) -> Result<AgentFileGuard<'_>> {
        let target = atomic_replace::resolve_links(&self.path)?;
        let mut retired = self.retired.lock();
        let record = LockedBlockRecord::read(atomic_replace::lock_target(&target)?);
        self.sweep_once.call_once(|| atomic_replace::remove_stale_temporaries(&target));
        rescue_all_late_writes(&target, &mut retired)?;
        Ok(AgentFileGuard { file: self, target, retired, record })
    }

    /// Writes `summary_md` into the block. With `expected`, only if the block holds `expected` or already holds
    /// `summary_md`.
    fn change_block(&self, expected: Option<&str>, summary_md: &str, now: Timestamp) -> Result<BlockWrite> {
        let mut guard = self.lock()?;
        let wanted = managed_block::normalize_content(summary_md);
        let mut first_write: Option<BlockWrite> = None;
        for _ in 0..ATTEMPTS_MAX {
            let target = guard.target.clone();
            let recorded = guard.record.latest().and_then(|record| record.block.clone());
            let written = self.replace_with(&mut guard, |current| {
                let old = current.unwrap_or_default();
                let previous = managed_block::block_content(old);
                let has_expected =
                    |expected| previous.as_deref().is_some_and(|text| text == expected || text == wanted);
                // The record says what this program last wrote. Any other text is an edit of it, or was there before.
                let is_edited = previous.as_ref().is_some_and(|text| {
                    recorded.as_ref() != Some(text)
                        && !text.trim().is_empty()
                        && !is_own_text(text, expected, &wanted)
                });
                let is_own_edited = is_edited && recorded.as_deref() == expected;
                // A damaged marker leaves the text outside of a block.
                let own = expected.or(recorded.as_deref()).filter(|_| previous.is_none());
                let without_own = own.and_then(|own| managed_block::remove_own_text(old, own));
                if !is_own_edited && !expected.is_none_or(has_expected) && without_own.is_none() {
                    let unchanged = BlockWrite::without_change(BlockWriteOutcome::Skipped, previous);
                    return Ok(FileAction::KeepFile(unchanged));
                }
                let texts = BlockTexts { old, notes: without_own.as_deref().unwrap_or(old), summary_md };
                let (bytes, repair) = self.render_with_block(&target, texts, now)?;
                if bytes == old {
                    let unchanged = BlockWrite::without_change(BlockWriteOutcome::Unchanged, previous);
                    return Ok(FileAction::KeepFile(BlockWrite { repair, ..unchanged }));
                }
                // The backup of a repair is the same file.
                let edit_backup = match is_edited && repair.is_none() {
                    true => Some(atomic_replace::write_backup(&backup_path(&target, now), old)?),
                    false => None,
                };
                let report =
                    BlockWrite { outcome: BlockWriteOutcome::Changed, previous, repair, edit_backup };
                Ok(FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::SetBlock(Some(wanted.clone())),
                    report,
                })
            })?;
            if written.outcome != BlockWriteOutcome::Changed {
                record_unwritten_block(&mut guard, &written, expected, &wanted)?;
                return Ok(first_write.unwrap_or(written));
            }
            first_write.get_or_insert(written);
            // Rescued lines may contain markers; the next round of the loop handles them.
            if rescue_all_late_writes(&guard.target, &mut guard.retired)? == LateWrites::NoneFound {
                break;
            }
        }
        first_write.ok_or_else(|| self.contended_error())
    }

    /// Returns the notes with the summary in their block. Malformed markers are repaired first, after writing a backup of
    /// the file.
    fn render_with_block(
        &self,
        target: &Path,
        texts: BlockTexts<'_>,
        now: Timestamp,
    ) -> Result<(Vec<u8>, Option<MarkerRepair>)> {
        let BlockTexts { old, notes, summary_md } = texts;
        match managed_block::replace_block(notes, summary_md) {
            Ok(new) => Ok((new, None)),
            Err(MalformedMarkers { problems }) => {
                let new = managed_block::replace_block(&managed_block::repair_markers(notes), summary_md)
                    .map_err(|source| Error::MalformedMarkers { path: self.path.clone(), source })?;
                let backup = atomic_replace::write_backup(&backup_path(target, now), old)?;
                Ok((new, Some(MarkerRepair { backup, problems })))
            }
        }
    }

    /// Reads the file, asks `make` for an action on its content (`None` when there is no file), and performs it.
    /// Repeats this while another program changes the file, up to [`ATTEMPTS_MAX`] times.
    pub(crate) fn replace_with<T>(
        &self,
        guard: &mut AgentFileGuard<'_>,
        mut make: impl FnMut(Option<&[u8]>) -> Result<FileAction<T>>,
    ) -> Result<T> {
        let before = guard.record.latest().cloned();
        for _ in 0..ATTEMPTS_MAX {
            let current = self.read_for_replacement(&guard.target)?;
            let (bytes, block, report) = match make(current.as_ref().map(|file| file.bytes.as_slice()))? {
                FileAction::KeepFile(report) => return Ok(report),
                FileAction::ReplaceFile { bytes, block, report } => (bytes, block, report),
            };
            let is_recorded = match block {
                BlockIntent::KeepBlock => false,
                BlockIntent::SetBlock(block) => {
                    guard.record.record_intent(&guard.target, block)?;
                    true
                }
            };
            match atomic_replace::replace_file(&guard.target, current, &bytes) {
                Ok(ReplaceOutcome::Replaced(old)) => {
                    guard.retired.extend(old);
                    if is_recorded {
                        guard.record.mark_written(&guard.target)?;
                    }
                    return Ok(report);
                }
                Ok(ReplaceOutcome::Stale) if is_recorded => guard.record.restore(before.clone()),
                Ok(ReplaceOutcome::Stale) => {}
                Err(error) => {
                    if is_recorded {
                        guard.record.restore(before);
                    }
                    return Err(error);
                }
            }
        }
        Err(self.contended_error())
    }

    /// Reads a file that is about to be replaced. Refuses UTF-16 and files longer than [`AGENT_MD_BYTES_MAX`].
    fn read_for_replacement(&self, target: &Path) -> Result<Option<OpenedFile>> {
        let opened = atomic_replace::read_file(target)?;
        match opened.as_ref().map(|file| file.bytes.as_slice()) {
            Some(bytes) if !atomic_replace::is_within_limit(bytes) => {
                // The file is read only up to the limit.
                let bytes = std::fs::metadata(target).map_or(bytes.len() as u64, |file| file.len());
                Err(Error::TooLarge { path: self.path.clone(), bytes, bytes_max: AGENT_MD_BYTES_MAX })
            }
            Some(bytes) if is_utf16(bytes) => Err(Error::Utf16 { path: self.path.clone() }),
            Some(_) | None => Ok(opened),
        }
    }

    /// Returns the error for a file that kept changing.
    fn contended_error(&self) -> Error {
        Error::Contended { path: self.path.clone(), attempts: ATTEMPTS_MAX }
    }
}

/// Returns whether the text of a block is one that this program writes: the placeholder, or one of the texts of this call.
fn is_own_text(text: &str, expected: Option<&str>, wanted: &str) -> bool {
    text == managed_block::PLACEHOLDER || text == wanted || Some(text) == expected
}

/// Updates the block record after a call that left the file as it was.
fn record_unwritten_block(
    guard: &mut AgentFileGuard<'_>,
    written: &BlockWrite,
    expected: Option<&str>,
    wanted: &str,
) -> Result<()> {
    let recorded = guard.record.latest().and_then(|record| record.block.as_deref());
    let block = match written.outcome {
        BlockWriteOutcome::Unchanged if recorded != Some(wanted) => Some(wanted.to_owned()),
        // The block holds another text. Clear the record, so that the tamper guard does not restore a text that
        // was meant to be removed.
        BlockWriteOutcome::Skipped if expected.is_some() && recorded == expected => {
            written.previous.as_ref().map(|_| wanted.to_owned())
        }
        BlockWriteOutcome::Unchanged | BlockWriteOutcome::Skipped | BlockWriteOutcome::Changed => {
            return Ok(());
        }
    };
    let target = guard.target.clone();
    guard.record.record_block(&target, block)
}

/// Returns whether the content begins with the byte order mark of UTF-16.
fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Appends late writes to replaced files to `target`, and stops watching the oldest of them beyond
/// [`RETIRED_MAX`].
fn rescue_all_late_writes(target: &Path, retired: &mut VecDeque<RetiredFile>) -> Result<LateWrites> {
    let mut result = LateWrites::NoneFound;
    for file in retired.iter_mut() {
        if atomic_replace::rescue_late_writes(target, file)? == LateWrites::Rescued {
            result = LateWrites::Rescued;
        }
    }
    while retired.len() > RETIRED_MAX {
        retired.pop_front();
    }
    Ok(result)
}

/// Returns the path of a backup: the file's name with the time in UTC.
fn backup_path(target: &Path, now: Timestamp) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".bak-{}", now.strftime("%Y%m%dT%H%M%SZ")));
    target.with_file_name(name)
}
