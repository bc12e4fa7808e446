//! Telling whether something touched the managed block, or the file itself, that may not, and putting it back; and taking
//! secrets out of what it added. Who did it is not known here.
//!
//! The block is what it was before, unless one of Segue's writers changed it meanwhile, in this process or another:
//! each notes under the file's lock what it makes the block hold, and when. So a change that is not noted is nobody's
//! of ours, and what is noted is never undone. Text outside the block is everybody's and stays, but for secrets that were
//! not there before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic_replace;
use crate::file::block_record::{self, BlockRecord};
use crate::file::cached_snapshot::CachedSnapshot;
use crate::file::redaction;
use crate::file::{AgentFile, AgentFileGuard, AgentFileSnapshot, BlockIntent, FileAction};
use crate::managed_block::{self, restore};
use crate::{Error, ReadExtent, Result};

/// The file before something that may touch it.
#[derive(Debug, Clone)]
pub(crate) struct TamperBaseline {
    /// What Segue's writers noted; read first, so that what they do meanwhile is not missed.
    record: Option<BlockRecord>,
    cached: Arc<CachedSnapshot>,
}

/// What was done to the file and is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TamperKind {
    /// The block was changed.
    Block,
    /// The file was deleted.
    File,
}

/// What was undone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TamperRepair {
    /// What was put back.
    pub kind: Option<TamperKind>,
    /// Secrets that were taken out of what was added.
    pub redacted_secrets: u64,
}

impl AgentFile {
    /// Returns the file as it is, for [`Self::put_back`]. It costs a few looks at the file system.
    pub(crate) fn take_baseline(&self) -> Result<TamperBaseline> {
        let target = self.cached_target()?;
        let record = block_record::read_unlocked(&target);
        let reading = self.read_cached()?;
        if reading.resolved_path.target == target {
            return Ok(TamperBaseline { record, cached: reading });
        }
        // The path leads elsewhere by now, and so do the notes.
        Ok(TamperBaseline {
            record: block_record::read_unlocked(&reading.resolved_path.target),
            cached: reading,
        })
    }

    /// Returns whether file and notes are as they were.
    pub(crate) fn is_unchanged_since(&self, watch: &TamperBaseline) -> bool {
        self.take_baseline()
            .is_ok_and(|now| now.record == watch.record && now.cached.is_same_file(&watch.cached))
    }

    /// Puts back the block, or the file, if they are not what they may be after `watch`, and takes out secrets that came
    /// since; says what was wrong.
    pub(crate) fn undo_tampering(&self, watch: &TamperBaseline) -> Result<TamperRepair> {
        let link = self.restore_link(watch)?;
        if watch.cached.snapshot.extent == ReadExtent::Beginning && self.path.exists() {
            // What was not known to its end cannot tell how it should be, and nobody writes such a file.
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

    /// A link that was removed is put back; the file it leads to may still be there.
    fn restore_link(&self, watch: &TamperBaseline) -> Result<Option<TamperKind>> {
        match &watch.cached.resolved_path.link {
            Some(link) if self.path.symlink_metadata().is_err() => {
                make_link(link, &self.path).map_err(Error::from_io("link", &self.path))?;
                Ok(Some(TamperKind::File))
            }
            Some(_) | None => Ok(None),
        }
    }

    fn restore_mode(&self, holding: &AgentFileGuard<'_>, newest: &CachedSnapshot) -> Result<()> {
        let Some(permissions) = newest.permissions.clone() else { return Ok(()) };
        std::fs::set_permissions(&holding.target, permissions)
            .map_err(Error::from_io("set the mode of", &self.path))
    }
}

/// Returns what is wrong with what was found, and what is to be there instead: the file, and what its block holds.
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
    // What was not in order cannot tell how it should be; the next writer repairs it.
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
    // Without a link the file itself is put back.
    Ok(())
}
