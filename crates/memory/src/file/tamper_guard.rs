//! The tamper guard: detects unauthorized changes of the managed block or deletion of the file, restores them,
//! and redacts secrets that were added. It does not know which program made the change.
//!
//! The block may only change through one of Segue's writers, in this process or another. Each writer records the
//! new text of the block under the file's lock. A change without a record is therefore tampering, and a recorded
//! change is never undone. Text outside the block may be changed by anyone and stays, except for secrets that
//! were added.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::atomic_replace;
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

    /// Returns whether the file and the block record are unchanged since `baseline`.
    pub(crate) fn is_unchanged_since(&self, baseline: &TamperBaseline) -> bool {
        self.take_baseline()
            .is_ok_and(|now| now.record == baseline.record && now.cached.is_same_file(&baseline.cached))
    }

    /// Restores the block or the file when they were changed without a record since `baseline`, and redacts secrets
    /// added since then. Returns the result of the repair. Blocks while another process holds the lock.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(crate) fn undo_tampering(&self, baseline: &TamperBaseline) -> Result<TamperRepair> {
        let link = self.restore_link(baseline)?;
        if baseline.cached.snapshot.extent == ReadExtent::Beginning && self.path.exists() {
            // The baseline holds only the beginning of the file, so it cannot be restored. Segue never writes
            // such a file either.
            return Ok(TamperRepair { kind: link, redacted_secrets: 0 });
        }
        let mut guard = self.lock()?;
        let new_record =
            guard.record.latest().filter(|record| Some(*record) != baseline.record.as_ref()).cloned();
        let newest = self.newest_existing().unwrap_or_else(|| Arc::clone(&baseline.cached));
        let repair = self.replace_with(&mut guard, |current| {
            let tampering =
                detect_tampering(&baseline.cached, current, new_record.as_ref(), &newest.snapshot);
            let text =
                tampering.as_ref().map(|(_, bytes, _)| bytes.as_slice()).or(current).unwrap_or_default();
            let (clean, redacted) = match redaction::redact_new_secrets(&baseline.cached.snapshot.bytes, text)
            {
                Some((clean, redacted)) => (Some(clean), redacted),
                None => (None, 0),
            };
            Ok(match (tampering, clean) {
                (None, None) => FileAction::KeepFile(TamperRepair::default()),
                (None, Some(bytes)) => FileAction::ReplaceFile {
                    bytes,
                    block: BlockIntent::KeepBlock,
                    report: TamperRepair { kind: None, redacted_secrets: redacted },
                },
                (Some((kind, bytes, block)), clean) => FileAction::ReplaceFile {
                    bytes: clean.unwrap_or(bytes),
                    block: BlockIntent::SetBlock(block),
                    report: TamperRepair { kind: Some(kind), redacted_secrets: redacted },
                },
            })
        })?;
        if repair.kind == Some(TamperKind::File) {
            self.restore_mode(&guard, &newest)?;
        }
        Ok(TamperRepair { kind: link.or(repair.kind), ..repair })
    }

    /// Returns the resolved path of the newest snapshot, or resolves the path when there is none.
    fn cached_target(&self) -> Result<PathBuf> {
        let cache = self.read_cache.lock();
        match &cache.newest {
            Some(newest) => Ok(newest.resolved_path.target.clone()),
            None => atomic_replace::resolve_links(&self.path),
        }
    }

    /// Returns the newest snapshot that was taken while the file existed.
    fn newest_existing(&self) -> Option<Arc<CachedSnapshot>> {
        self.read_cache.lock().newest_existing.clone()
    }

    /// Restores a removed symbolic link. The file that it points to may still exist.
    fn restore_link(&self, baseline: &TamperBaseline) -> Result<Option<TamperKind>> {
        match &baseline.cached.resolved_path.link {
            Some(link) if self.path.symlink_metadata().is_err() => {
                make_link(link, &self.path).map_err(Error::from_io("link", &self.path))?;
                Ok(Some(TamperKind::File))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Gives a restored file the mode it had before.
    fn restore_mode(&self, guard: &AgentFileGuard<'_>, newest: &CachedSnapshot) -> Result<()> {
        let Some(permissions) = newest.permissions.clone() else { return Ok(()) };
        std::fs::set_permissions(&guard.target, permissions)
            .map_err(Error::from_io("set the mode of", &self.path))
    }
}

/// Returns the kind of tampering and the content to restore: the file's bytes and the text of its block. Returns
/// `None` without tampering.
///
/// `before` is the baseline, `current` the file's content, or `None` if it is missing, and `new_record` a block
/// record that a writer made since the baseline. A deleted file is restored from the `newest` snapshot.
fn detect_tampering(
    before: &CachedSnapshot,
    current: Option<&[u8]>,
    new_record: Option<&BlockRecord>,
    newest: &AgentFileSnapshot,
) -> Option<(TamperKind, Vec<u8>, Option<String>)> {
    let old = &*before.snapshot;
    let expected = new_record.map_or_else(|| old.block.clone(), |record| record.block.clone());
    let Some(current) = current else {
        let has_existed = before.stamp.is_some() || expected.is_some();
        return has_existed.then(|| {
            let bytes = restore::restore_block(&old.bytes, &newest.bytes, expected.as_deref());
            (TamperKind::File, bytes, expected)
        });
    };
    // A malformed baseline cannot be restored; the next writer repairs the markers.
    if !old.problems.is_empty() {
        return None;
    }
    let is_well_formed = managed_block::marker_problems(current).is_empty();
    let present = managed_block::block_content(current);
    if is_well_formed && present == expected && (present.is_some() || old.block.is_none()) {
        return None;
    }
    let bytes = restore::restore_block(&old.bytes, current, expected.as_deref());
    (bytes != current).then_some((TamperKind::Block, bytes, expected))
}

/// Creates the symbolic link `path` with the target `target`, and its folder if necessary.
#[cfg(unix)]
fn make_link(target: &Path, path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> std::io::Result<()> {
    // Without symbolic links, the file itself is restored.
    Ok(())
}
