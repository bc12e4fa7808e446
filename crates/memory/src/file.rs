//! One agent.md: read it, and change the text of its block without touching anything else. Which summary belongs
//! there is not decided here.

pub(crate) mod reading;
mod record;
mod rewrite;
mod secrets;
pub(crate) mod watch;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::SystemTime;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use crate::block::{self, Malformed, Problem};
use crate::edit::{self, Applied, Change};
use crate::file::reading::{Place, Reading, Stamp};
use crate::file::record::Held;
use crate::replace::{self, Attempt, Content, Late, Retired};
use crate::{Error, Result};

pub use rewrite::Rewritten;

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
    retired: Mutex<VecDeque<Retired>>,
    kept: Mutex<Kept>,
    swept: Once,
}

/// What was read last.
#[derive(Debug, Default)]
struct Kept {
    newest: Option<Arc<Reading>>,
    /// The newest reading of a file that was there.
    present: Option<Arc<Reading>>,
}

/// The file while this process may change it.
pub(crate) struct Holding<'a> {
    target: PathBuf,
    retired: MutexGuard<'a, VecDeque<Retired>>,
    /// The record is in the lock file, and so this keeps the lock.
    record: Held,
}

/// What is to be done with a file.
pub(crate) enum Step<T> {
    /// Nothing.
    Leave(T),
    /// Another file takes its place.
    Replace { bytes: Vec<u8>, block: Intent, report: T },
}

/// What a change means for the block.
pub(crate) enum Intent {
    /// It stays as it is.
    Keep,
    /// It is to hold this; `None`: there is to be none.
    Hold(Option<String>),
}

/// What an agent.md held when it was read; a missing file is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The content, up to [`AGENT_MD_BYTES_MAX`].
    pub bytes: Vec<u8>,
    /// Whether the file goes on after `bytes`.
    pub extent: Extent,
    /// Lowercase hex SHA-256 of `bytes`.
    pub sha256: String,
    /// What the block holds; `None` without a block.
    pub block: Option<String>,
    /// What is wrong with the block's markers.
    pub problems: Vec<Problem>,
}

/// How much of a file was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// The beginning; the rest is beyond the limit.
    Beginning,
}

/// What a call did to the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Whether the file is another one.
    pub outcome: Outcome,
    /// What the block held before; `None` when there was no block.
    pub previous: Option<String>,
    /// The markers had to be repaired.
    pub repair: Option<Repair>,
}

/// Whether a call changed the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The block holds the text asked for.
    Changed,
    /// It already did; the file was left alone.
    Unchanged,
    /// There is no block, or one with a text that was not expected; the file was left alone.
    Left,
}

/// The markers of a file were put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A copy of the file as it was.
    pub backup: PathBuf,
    /// What was wrong.
    pub problems: Vec<Problem>,
}

impl Snapshot {
    fn of(bytes: Vec<u8>, extent: Extent) -> Self {
        Self {
            extent,
            sha256: protocol::sha256_hex(&bytes),
            block: block::current(&bytes),
            problems: block::problems(&bytes),
            bytes,
        }
    }
}

impl AgentFile {
    /// Returns the file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), retired: Mutex::default(), kept: Mutex::default(), swept: Once::new() }
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
    pub fn read(&self) -> Result<Arc<Snapshot>> {
        self.reading().map(|reading| Arc::clone(&reading.snapshot))
    }

    /// Makes the block hold `summary_md`, creating block, file and folder (0600, 0700) when they are missing.
    /// Doing it twice changes nothing more. `now` names the backup, should the markers need repair.
    ///
    /// # Errors
    /// When the file cannot be read or written; it is then as it was, and no temporary file is left.
    pub fn write_block(&self, summary_md: &str, now: Timestamp) -> Result<Written> {
        self.change(None, summary_md, now)
    }

    /// Makes the block hold `summary_md` if it holds `expected`, the text an earlier call was given. A block with
    /// another text belongs to someone else and is left alone; a missing one is not created.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn swap_block(&self, expected: &str, summary_md: &str, now: Timestamp) -> Result<Written> {
        let expected = block::content_of(expected);
        if self.read()?.block.is_none() {
            let noted = record::peek(&self.reading()?.place.target);
            if noted.and_then(|noted| noted.block).as_ref() != Some(&expected) {
                return Ok(Written { outcome: Outcome::Left, previous: None, repair: None });
            }
        }
        self.change(Some(&expected), summary_md, now)
    }

    /// Puts the placeholder in the place of `expected`, as [`Self::swap_block`] does.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn clear_block(&self, expected: &str, now: Timestamp) -> Result<Written> {
        self.swap_block(expected, block::PLACEHOLDER, now)
    }

    /// Returns what the file holds, with what was worked out about that content before.
    pub(crate) fn reading(&self) -> Result<Arc<Reading>> {
        let mut kept = self.kept.lock();
        // Before the content: what changes after this look has another stamp, or one that is not trusted.
        let (at, found) = (SystemTime::now(), Stamp::of(&self.path));
        if let (Ok(found), Some(newest)) = (&found, &kept.newest)
            && newest.holds(found.as_ref().map(|stat| stat.stamp))
        {
            return Ok(Arc::clone(newest));
        }
        let target = replace::resolve(&self.path)?;
        let (bytes, extent) = self.load(&target)?;
        let place = Place { target, link: std::fs::read_link(&self.path).ok() };
        let reading = match &kept.newest {
            Some(known) if known.has_read(&bytes, extent) => known.again(found.ok().flatten(), place, at),
            Some(_) | None => Reading::new(Snapshot::of(bytes, extent), found.ok().flatten(), place, at),
        };
        let reading = Arc::new(reading);
        if reading.stamp.is_some() {
            kept.present = Some(Arc::clone(&reading));
        }
        kept.newest = Some(Arc::clone(&reading));
        Ok(reading)
    }

    /// Applies `change` outside the block; parts that would touch it are refused, the others stay.
    pub(crate) fn edit(&self, change: &Change) -> Result<Applied> {
        let mut holding = self.hold()?;
        self.replace_with(&mut holding, |found| {
            let applied = edit::apply(found.unwrap_or_default(), change);
            Ok(match applied.made {
                0 => Step::Leave(applied),
                _ => Step::Replace { bytes: applied.text.clone(), block: Intent::Keep, report: applied },
            })
        })
    }

    fn load(&self, target: &Path) -> Result<(Vec<u8>, Extent)> {
        let mut bytes = replace::read(target)?.map(|content| content.bytes).unwrap_or_default();
        if is_utf16(&bytes) {
            return Err(Error::Encoding { path: self.path.clone() });
        }
        let limit = usize::try_from(AGENT_MD_BYTES_MAX).unwrap_or(usize::MAX);
        let extent = if bytes.len() > limit { Extent::Beginning } else { Extent::Whole };
        bytes.truncate(limit);
        Ok((bytes, extent))
    }

    /// Takes the lock, and brings back what was written to replaced files.
    pub(crate) fn hold(&self) -> Result<Holding<'_>> {
        let target = replace::resolve(&self.path)?;
        let mut retired = self.retired.lock();
        let record = Held::read(replace::lock(&target)?);
        self.swept.call_once(|| replace::sweep(&target));
        rescue(&target, &mut retired)?;
        Ok(Holding { target, retired, record })
    }

    /// Makes the block hold `summary_md`; with `expected`, only a block that holds that or the new text already.
    fn change(&self, expected: Option<&str>, summary_md: &str, now: Timestamp) -> Result<Written> {
        let mut holding = self.hold()?;
        let wanted = block::content_of(summary_md);
        let mut done: Option<Written> = None;
        for _ in 0..ATTEMPTS_MAX {
            let target = holding.target.clone();
            let written = self.replace_with(&mut holding, |found| {
                let old = found.unwrap_or_default();
                let previous = block::current(old);
                let is_due =
                    |expected| previous.as_deref().is_some_and(|text| text == expected || text == wanted);
                if !expected.is_none_or(is_due) {
                    return Ok(Step::Leave(Written { outcome: Outcome::Left, previous, repair: None }));
                }
                let (bytes, repair) = self.with_block(&target, old, summary_md, now)?;
                if bytes == old {
                    return Ok(Step::Leave(Written { outcome: Outcome::Unchanged, previous, repair }));
                }
                let report = Written { outcome: Outcome::Changed, previous, repair };
                Ok(Step::Replace { bytes, block: Intent::Hold(Some(wanted.clone())), report })
            })?;
            if written.outcome != Outcome::Changed {
                settle(&mut holding, &written, expected, &wanted)?;
                return Ok(done.unwrap_or(written));
            }
            done.get_or_insert(written);
            // What was rescued may hold markers; the next round sees to them.
            if rescue(&holding.target, &mut holding.retired)? == Late::Nothing {
                break;
            }
        }
        done.ok_or_else(|| self.contended())
    }

    /// Returns `old` with its block holding `summary_md`, its markers repaired if they must be.
    fn with_block(
        &self,
        target: &Path,
        old: &[u8],
        summary_md: &str,
        now: Timestamp,
    ) -> Result<(Vec<u8>, Option<Repair>)> {
        match block::replace(old, summary_md) {
            Ok(new) => Ok((new, None)),
            Err(Malformed { problems }) => {
                let new = block::replace(&block::repair(old), summary_md)
                    .map_err(|source| Error::Markers { path: self.path.clone(), source })?;
                let backup = replace::keep_copy(&backup_path(target, now), old)?;
                Ok((new, Some(Repair { backup, problems })))
            }
        }
    }

    /// Does with the file what `make` says about its present content (`None`: there is no file), again when another
    /// program changes it meanwhile.
    pub(crate) fn replace_with<T>(
        &self,
        holding: &mut Holding<'_>,
        mut make: impl FnMut(Option<&[u8]>) -> Result<Step<T>>,
    ) -> Result<T> {
        let before = holding.record.present().cloned();
        for _ in 0..ATTEMPTS_MAX {
            let found = self.read_writable(&holding.target)?;
            let (bytes, block, report) = match make(found.as_ref().map(|content| content.bytes.as_slice()))? {
                Step::Leave(report) => return Ok(report),
                Step::Replace { bytes, block, report } => (bytes, block, report),
            };
            let is_noted = match block {
                Intent::Keep => false,
                Intent::Hold(block) => {
                    holding.record.begin(&holding.target, block)?;
                    true
                }
            };
            match replace::replace(&holding.target, found, &bytes) {
                Ok(Attempt::Replaced(old)) => {
                    holding.retired.extend(old);
                    if is_noted {
                        holding.record.finish(&holding.target)?;
                    }
                    return Ok(report);
                }
                Ok(Attempt::Stale) if is_noted => holding.record.take_back(before.clone()),
                Ok(Attempt::Stale) => {}
                Err(error) => {
                    if is_noted {
                        holding.record.take_back(before);
                    }
                    return Err(error);
                }
            }
        }
        Err(self.contended())
    }

    /// Reads a file that is about to be replaced.
    fn read_writable(&self, target: &Path) -> Result<Option<Content>> {
        let found = replace::read(target)?;
        match found.as_ref().map(|content| content.bytes.as_slice()) {
            Some(bytes) if !replace::fits(bytes) => {
                Err(Error::TooLarge { path: self.path.clone(), bytes_max: AGENT_MD_BYTES_MAX })
            }
            Some(bytes) if is_utf16(bytes) => Err(Error::Encoding { path: self.path.clone() }),
            Some(_) | None => Ok(found),
        }
    }

    fn contended(&self) -> Error {
        Error::Contended { path: self.path.clone(), attempts: ATTEMPTS_MAX }
    }
}

/// Notes what the block is to hold when the file was left as it was.
fn settle(holding: &mut Holding<'_>, written: &Written, expected: Option<&str>, wanted: &str) -> Result<()> {
    let noted = holding.record.present().and_then(|record| record.block.as_deref());
    let block = match written.outcome {
        Outcome::Unchanged if noted != Some(wanted) => Some(wanted.to_owned()),
        // The block shows something else, but nobody shall put back what was asked to go.
        Outcome::Left if expected.is_some() && noted == expected => {
            written.previous.as_ref().map(|_| wanted.to_owned())
        }
        Outcome::Unchanged | Outcome::Left | Outcome::Changed => return Ok(()),
    };
    let target = holding.target.clone();
    holding.record.settle(&target, block)
}

fn is_utf16(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

/// Brings what was written to replaced files back into `target`, and forgets the oldest of them.
fn rescue(target: &Path, retired: &mut VecDeque<Retired>) -> Result<Late> {
    let mut found = Late::Nothing;
    for file in retired.iter_mut() {
        if replace::rescue(target, file)? == Late::Rescued {
            found = Late::Rescued;
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
