//! The tamper guard: detects unauthorized changes of the managed block or deletion of the file, restores them,
//! and redacts secrets that were added. It does not know which program made the change.
//!
//! The block may only change through one of Segue's writers, in this process or another. Each writer records the
//! new text of the block under the file's lock. A change without a record is therefore tampering, and a recorded
//! change is never undone. Text outside the block may be changed by anyone and stays, except for secrets that
//! were added.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic_replace;
use crate::file::block_record::{self, BlockRecord};
use crate::file::cached_snapshot::CachedSnapshot;
use crate::file::redaction;
use crate::file::{AgentFile, AgentFileGuard, AgentFileSnapshot, BlockIntent, FileAction};
use crate::managed_block::{self, restore};
use crate::{Error, ReadExtent, Result};

/// The state of the file before an operation that may change it.
#[derive(Debug, Clone)]
pub(crate) struct TamperBaseline {
    /// The block record. It is read before the file, so that a concurrent write by Segue is not missed.
    record: Option<BlockRecord>,
    cached: Arc<CachedSnapshot>,
}

/// The kind of tampering that was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TamperKind {
    /// The block was changed.
    Block,
    /// The file was deleted.
    File,
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TamperRepair {
    /// The tampering that was undone, if any.
    pub kind: Option<TamperKind>,
    /// Number of secrets redacted from added text.
    pub redacted_secrets: u64,
}

impl AgentFile {
    /// Returns the current state of the file, for [`Self::undo_tampering`]. Costs a few file system calls.
    pub(crate) fn take_baseline(&self) -> Result<TamperBaseline> {
        let target = self.cached_target()?;
        let record = block_record::read_unlocked(&target);
        let reading = self.read_cached()?;
        if reading.resolved_path.target == target {
            return Ok(TamperBaseline { record, cached: reading });
        }
        // The path resolves to another file by now, whose record is stored elsewhere.
        Ok(TamperBaseline {
            record: block_record::read_unlocked(&reading.resolved_path.target),
            cached: reading,
        })
    }

    /// Returns whether the file and the block record are unchanged since `watch`.
    pub(crate) fn is_unchanged_since(&self, watch: &TamperBaseline) -> bool {
        self.take_baseline()
            .is_ok_and(|now| now.record == watch.record && now.cached.is_same_file(&watch.cached))
    }

    /// Restores the block or the file when they were changed without a record since `watch`, and redacts secrets
    /// added since then. Returns what was repaired.
    pub(crate) fn undo_tampering(&self, watch: &TamperBaseline) -> Result<TamperRepair> {
        let link = self.restore_link(watch)?;
        if watch.cached.snapshot.extent == ReadExtent::Beginning && self.path.exists() {
            // The baseline holds only the beginning of the file, so it cannot be restored. Segue never writes
            // such a file either.
            return Ok(TamperRepair { kind: link, redacted_secrets: 0 });
        }
        let mut holding = self.lock()?;
        let noted = holding.record.latest().filter(|noted| Some(*noted) != watch.record.as_ref()).cloned();
        let newest = self.newest_existing().unwrap_or_else(|| Arc::clone(&watch.cached));
        let undone = self.replace_with(&mut holding, |found| {
            let judged = detect_tampering(&watch.cached, found, noted.as_ref(), &newest.snapshot);
            let text = judged.as_ref().map(|(_, bytes, _)| bytes.as_slice()).or(found).unwrap_or_default();
            let (clean, withheld) = match redaction::redact_new_secrets(&watch.cached.snapshot.bytes, text) {
                Some((clean, withheld)) => (Some(clean), withheld),
                None => (None, 0),
            };
            Ok(match (judged, clean) {
                (None, None) => FileAction::KeepFile(TamperRepair::default()),
                (None, Some(bytes)) => FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::KeepBlock,
                    report: TamperRepair { kind: None, redacted_secrets: withheld },
                },
                (Some((damage, bytes, block)), clean) => FileAction::ReplaceFile {
                    bytes: clean.unwrap_or(bytes),
                    block: BlockIntent::SetBlock(block),
                    report: TamperRepair { kind: Some(damage), redacted_secrets: withheld },
                },
            })
        })?;
        if undone.kind == Some(TamperKind::File) {
            self.restore_mode(&holding, &newest)?;
        }
        Ok(TamperRepair { kind: link.or(undone.kind), ..undone })
    }

    /// Returns the resolved path of the newest snapshot, or resolves the path when there is none.
    fn cached_target(&self) -> Result<PathBuf> {
        let kept = self.read_cache.lock();
        match &kept.newest {
            Some(newest) => Ok(newest.resolved_path.target.clone()),
            None => atomic_replace::resolve_links(&self.path),
        }
    }

    fn newest_existing(&self) -> Option<Arc<CachedSnapshot>> {
        self.read_cache.lock().newest_existing.clone()
    }

    /// Restores a removed symbolic link. The file that it points to may still exist.
    fn restore_link(&self, watch: &TamperBaseline) -> Result<Option<TamperKind>> {
        match &watch.cached.resolved_path.link {
            Some(link) if self.path.symlink_metadata().is_err() => {
                make_link(link, &self.path).map_err(Error::from_io("link", &self.path))?;
                Ok(Some(TamperKind::File))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Gives a restored file the mode it had before.
    fn restore_mode(&self, holding: &AgentFileGuard<'_>, newest: &CachedSnapshot) -> Result<()> {
        let Some(permissions) = newest.permissions.clone() else { return Ok(()) };
        std::fs::set_permissions(&holding.target, permissions)
            .map_err(Error::from_io("set the mode of", &self.path))
    }
}

/// Returns the kind of tampering and the content to restore: the file's bytes and the text of its block. Returns
/// `None` without tampering.
fn detect_tampering(
    before: &CachedSnapshot,
    found: Option<&[u8]>,
    noted: Option<&BlockRecord>,
    newest: &AgentFileSnapshot,
) -> Option<(TamperKind, Vec<u8>, Option<String>)> {
    let old = &*before.snapshot;
    let due = noted.map_or_else(|| old.block.clone(), |noted| noted.block.clone());
    let Some(found) = found else {
        let was_there = before.stamp.is_some() || due.is_some();
        return was_there.then(|| {
            (TamperKind::File, restore::restore_block(&old.bytes, &newest.bytes, due.as_deref()), due)
        });
    };
    // A malformed baseline cannot be restored; the next writer repairs the markers.
    if !old.problems.is_empty() {
        return None;
    }
    let is_whole = managed_block::marker_problems(found).is_empty();
    let present = managed_block::block_content(found);
    if is_whole && present == due && (present.is_some() || old.block.is_none()) {
        return None;
    }
    let bytes = restore::restore_block(&old.bytes, found, due.as_deref());
    (bytes != found).then_some((TamperKind::Block, bytes, due))
}

#[cfg(unix)]
fn make_link(to: &Path, at: &Path) -> std::io::Result<()> {
    if let Some(folder) = at.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> std::io::Result<()> {
    // Without symbolic links, the file itself is restored.
    Ok(())
}
