//! Telling whether something touched the managed block, or the file itself, that may not, and putting it back; and taking
//! secrets out of what it added. Who did it is not known here.
//!
//! The block is what it was before, unless one of Segue's writers changed it meanwhile, in this process or another:
//! each notes under the file's lock what it makes the block hold, and when. So a change that is not noted is nobody's
//! of ours, and what is noted is never undone. Text outside the block is everybody's and stays, but for secrets that were
//! not there before.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::block::{self, mend};
use crate::file::reading::Reading;
use crate::file::record::{self, Record};
use crate::file::secrets;
use crate::file::{AgentFile, Holding, Intent, Snapshot, Step};
use crate::replace;
use crate::{Error, Extent, Result};

/// The file before something that may touch it.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// What Segue's writers noted; read first, so that what they do meanwhile is not missed.
    record: Option<Record>,
    reading: Arc<Reading>,
}

/// What was done to the file and is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The block was changed.
    Block,
    /// The file was deleted.
    File,
}

/// What was undone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Undone {
    /// What was put back.
    pub damage: Option<Damage>,
    /// Secrets that were taken out of what was added.
    pub withheld: u64,
}

impl AgentFile {
    /// Returns the file as it is, for [`Self::put_back`]. It costs a few looks at the file system.
    pub(crate) fn watch(&self) -> Result<Watch> {
        let target = self.known_target()?;
        let record = record::peek(&target);
        let reading = self.reading()?;
        if reading.place.target == target {
            return Ok(Watch { record, reading });
        }
        // The path leads elsewhere by now, and so do the notes.
        Ok(Watch { record: record::peek(&reading.place.target), reading })
    }

    /// Returns whether file and notes are as they were.
    pub(crate) fn is_as(&self, watch: &Watch) -> bool {
        self.watch().is_ok_and(|now| now.record == watch.record && now.reading.is_same(&watch.reading))
    }

    /// Puts back the block, or the file, if they are not what they may be after `watch`, and takes out secrets that came
    /// since; says what was wrong.
    pub(crate) fn put_back(&self, watch: &Watch) -> Result<Undone> {
        let link = self.put_back_link(watch)?;
        if watch.reading.snapshot.extent == Extent::Beginning && self.path.exists() {
            // What was not known to its end cannot tell how it should be, and nobody writes such a file.
            return Ok(Undone { damage: link, withheld: 0 });
        }
        let mut holding = self.hold()?;
        let noted = holding.record.present().filter(|noted| Some(*noted) != watch.record.as_ref()).cloned();
        let newest = self.newest_present().unwrap_or_else(|| Arc::clone(&watch.reading));
        let undone = self.replace_with(&mut holding, |found| {
            let judged = judge(&watch.reading, found, noted.as_ref(), &newest.snapshot);
            let text = judged.as_ref().map(|(_, bytes, _)| bytes.as_slice()).or(found).unwrap_or_default();
            let (clean, withheld) = match secrets::without_new(&watch.reading.snapshot.bytes, text) {
                Some((clean, withheld)) => (Some(clean), withheld),
                None => (None, 0),
            };
            Ok(match (judged, clean) {
                (None, None) => Step::Leave(Undone::default()),
                (None, Some(bytes)) => {
                    Step::Replace { bytes, block: Intent::Keep, report: Undone { damage: None, withheld } }
                }
                (Some((damage, bytes, block)), clean) => Step::Replace {
                    bytes: clean.unwrap_or(bytes),
                    block: Intent::Hold(block),
                    report: Undone { damage: Some(damage), withheld },
                },
            })
        })?;
        if undone.damage == Some(Damage::File) {
            self.restore_mode(&holding, &newest)?;
        }
        Ok(Undone { damage: link.or(undone.damage), ..undone })
    }

    fn known_target(&self) -> Result<PathBuf> {
        let kept = self.kept.lock();
        match &kept.newest {
            Some(newest) => Ok(newest.place.target.clone()),
            None => replace::resolve(&self.path),
        }
    }

    fn newest_present(&self) -> Option<Arc<Reading>> {
        self.kept.lock().present.clone()
    }

    /// A link that was removed is put back; the file it leads to may still be there.
    fn put_back_link(&self, watch: &Watch) -> Result<Option<Damage>> {
        match &watch.reading.place.link {
            Some(link) if self.path.symlink_metadata().is_err() => {
                make_link(link, &self.path).map_err(Error::on("link", &self.path))?;
                Ok(Some(Damage::File))
            }
            Some(_) | None => Ok(None),
        }
    }

    fn restore_mode(&self, holding: &Holding<'_>, newest: &Reading) -> Result<()> {
        let Some(permissions) = newest.permissions.clone() else { return Ok(()) };
        std::fs::set_permissions(&holding.target, permissions)
            .map_err(Error::on("set the mode of", &self.path))
    }
}

/// Returns what is wrong with what was found, and what is to be there instead: the file, and what its block holds.
fn judge(
    before: &Reading,
    found: Option<&[u8]>,
    noted: Option<&Record>,
    newest: &Snapshot,
) -> Option<(Damage, Vec<u8>, Option<String>)> {
    let old = &*before.snapshot;
    let due = noted.map_or_else(|| old.block.clone(), |noted| noted.block.clone());
    let Some(found) = found else {
        let was_there = before.stamp.is_some() || due.is_some();
        return was_there.then(|| (Damage::File, mend::mend(&old.bytes, &newest.bytes, due.as_deref()), due));
    };
    // What was not in order cannot tell how it should be; the next writer repairs it.
    if !old.problems.is_empty() {
        return None;
    }
    let is_whole = block::problems(found).is_empty();
    let present = block::current(found);
    if is_whole && present == due && (present.is_some() || old.block.is_none()) {
        return None;
    }
    let bytes = mend::mend(&old.bytes, found, due.as_deref());
    (bytes != found).then_some((Damage::Block, bytes, due))
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
