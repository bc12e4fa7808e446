//! One agent.md: read it, and change the text of its block without touching anything else. Which summary belongs
//! there is not decided here.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::block::{self, Malformed, Problem};
use crate::replace::{self, Attempt, Content, Late, Retired};
use crate::{Error, Result};

/// The most bytes of an agent.md that are read; a larger file is read up to here and not written.
pub const AGENT_MD_BYTES_MAX: u64 = 256 * 1024;
/// How often a change is merged again when another program changes the file meanwhile.
const ATTEMPTS_MAX: u32 = 64;
/// How many replaced files are watched for late writes.
const RETIRED_MAX: usize = 64;

/// An agent.md on disk. One value per file and process; calls of several threads take turns.
#[derive(Debug)]
pub struct AgentFile {
    path: PathBuf,
    retired: Mutex<VecDeque<Retired>>,
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

impl AgentFile {
    /// Returns the file at `path`, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), retired: Mutex::default() }
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the file holds. Takes no lock: a replaced file is always whole.
    ///
    /// # Errors
    /// When there is something that cannot be read. A missing file is an empty one.
    pub fn read(&self) -> Result<Snapshot> {
        let target = replace::resolve(&self.path)?;
        let mut bytes = replace::read(&target)?.map(|content| content.bytes).unwrap_or_default();
        let limit = usize::try_from(AGENT_MD_BYTES_MAX).unwrap_or(usize::MAX);
        let extent = if bytes.len() > limit { Extent::Beginning } else { Extent::Whole };
        bytes.truncate(limit);
        Ok(Snapshot {
            extent,
            sha256: sha256(&bytes),
            block: block::current(&bytes),
            problems: block::problems(&bytes),
            bytes,
        })
    }

    /// Makes the block hold `summary_md`, creating block, file and folder (0600, 0700) when they are missing.
    /// Doing it twice changes nothing more. `now` names the backup, should the markers need repair.
    ///
    /// # Errors
    /// When the file cannot be read or written; it is then as it was, and no temporary file is left.
    pub fn write_block(&self, summary_md: &str, now: Timestamp) -> Result<Written> {
        self.change(now, |_| Some(summary_md))
    }

    /// Makes the block hold `summary_md` if it holds `expected`, the text an earlier call was given. A block with
    /// another text belongs to someone else and is left alone; a missing one is not created.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn swap_block(&self, expected: &str, summary_md: &str, now: Timestamp) -> Result<Written> {
        if self.read()?.block.is_none() {
            return Ok(Written { outcome: Outcome::Left, previous: None, repair: None });
        }
        let (expected, wanted) = (block::content_of(expected), block::content_of(summary_md));
        self.change(now, |current| {
            current.filter(|text| *text == expected || *text == wanted).map(|_| summary_md)
        })
    }

    /// Puts the placeholder in the place of `expected`, as [`Self::swap_block`] does.
    ///
    /// # Errors
    /// As [`Self::write_block`].
    pub fn clear_block(&self, expected: &str, now: Timestamp) -> Result<Written> {
        self.swap_block(expected, block::PLACEHOLDER, now)
    }

    /// Makes the block hold what `decide` returns for its present text; `None` leaves the file alone.
    fn change<'a>(
        &self,
        now: Timestamp,
        decide: impl Fn(Option<&str>) -> Option<&'a str>,
    ) -> Result<Written> {
        let target = replace::resolve(&self.path)?;
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let _lock = replace::lock(&target)?;
        rescue(&target, &mut retired)?;
        let mut done = None;
        for _ in 0..ATTEMPTS_MAX {
            let found = self.read_writable(&target)?;
            let old = found.as_ref().map_or(&[][..], |content| content.bytes.as_slice());
            let previous = block::current(old);
            let Some(summary_md) = decide(previous.as_deref()) else {
                return Ok(done.unwrap_or(Written { outcome: Outcome::Left, previous, repair: None }));
            };
            let (new, repair) = match block::replace(old, summary_md) {
                Ok(new) => (new, None),
                Err(Malformed { problems }) => {
                    let new = block::replace(&block::repair(old), summary_md)
                        .map_err(|source| self.markers(source))?;
                    (
                        new,
                        Some(Repair {
                            backup: replace::keep_copy(&backup_path(&target, now), old)?,
                            problems,
                        }),
                    )
                }
            };
            if new == old {
                return Ok(done.unwrap_or(Written { outcome: Outcome::Unchanged, previous, repair: None }));
            }
            if let Attempt::Replaced(old) = replace::replace(&target, found, &new)? {
                done.get_or_insert(Written { outcome: Outcome::Changed, previous, repair });
                retired.extend(old);
                // What was rescued may hold markers; the next round sees to them.
                if rescue(&target, &mut retired)? == Late::Nothing {
                    break;
                }
            }
        }
        done.ok_or_else(|| Error::Contended { path: self.path.clone(), attempts: ATTEMPTS_MAX })
    }

    /// Reads a file that is about to be replaced.
    fn read_writable(&self, target: &Path) -> Result<Option<Content>> {
        let found = replace::read(target)?;
        match found.as_ref().map(|content| content.bytes.as_slice()) {
            Some(bytes) if !replace::fits(bytes) => {
                Err(Error::TooLarge { path: self.path.clone(), bytes_max: AGENT_MD_BYTES_MAX })
            }
            Some([0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => Err(Error::Encoding { path: self.path.clone() }),
            Some(_) | None => Ok(found),
        }
    }

    fn markers(&self, source: Malformed) -> Error {
        Error::Markers { path: self.path.clone(), source }
    }
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

/// Returns the lowercase hex SHA-256 of `bytes`.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
