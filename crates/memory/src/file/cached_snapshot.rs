//! A cached snapshot of agent.md, and its validation with `stat` alone. This module does not interpret the file's
//! content.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use crate::file::project_notes::NotesScope;
use crate::file::{AgentFileSnapshot, ReadExtent};
use crate::prompt::{PromptSection, build_prompt_section};

/// A file modified less than this before it was read may change again without a new modification time: the
/// coarsest file systems store times in steps of two seconds.
const TIMESTAMP_RESOLUTION_MAX: Duration = Duration::from_secs(2);

/// The metadata that identifies one version of a file without reading its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    /// Device and inode where the system has them. A replaced file has another pair.
    id: (u64, u64),
    size: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of content or attributes. Unlike `modified`, no program can set it.
    changed: Option<SystemTime>,
}

/// A snapshot, and the conditions under which it is still valid.
#[derive(Debug)]
pub(crate) struct CachedSnapshot {
    pub snapshot: Arc<AgentFileSnapshot>,
    /// `None` when the file did not exist.
    pub stamp: Option<FileStamp>,
    /// Says if an equal stamp proves equal content.
    trust: StampTrust,
    /// The file mode; `None` when the file did not exist.
    pub permissions: Option<Permissions>,
    /// The resolved path of the file at the time of the read.
    pub resolved_path: ResolvedPath,
    /// The prompt section of the content for the scope of its first use. Snapshots with the same content share it.
    prompt_section: Arc<OnceLock<(NotesScope, PromptSection)>>,
}

/// A resolved path.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResolvedPath {
    /// The file itself, with links resolved.
    pub target: PathBuf,
    /// The content of the link, when the path is a symbolic link.
    pub link: Option<PathBuf>,
}

/// Says if an equal stamp proves equal content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StampTrust {
    /// Every later change produces another stamp.
    Trusted,
    /// The file changed too recently before it was read, so its content must be compared.
    CompareContent,
}

/// The metadata of an existing file.
pub(crate) struct FileStat {
    /// Identifies the version of the content.
    pub(crate) stamp: FileStamp,
    /// The file mode; a restored file gets the same one.
    pub(crate) permissions: Permissions,
}

impl FileStamp {
    /// Returns the stamp and the mode of the file at `path`, or `None` without a file.
    pub(crate) fn read(path: &Path) -> io::Result<Option<FileStat>> {
        match fs::metadata(path) {
            Ok(metadata) => {
                Ok(Some(FileStat { stamp: Self::from(&metadata), permissions: metadata.permissions() }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether every change after `at` is certain to produce another stamp.
    fn is_trustworthy(&self, at: SystemTime) -> bool {
        let newest = self.changed.or(self.modified);
        // A modification time in the future proves nothing.
        newest
            .and_then(|newest| at.duration_since(newest).ok())
            .is_some_and(|age| age > TIMESTAMP_RESOLUTION_MAX)
    }
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (id, changed) = {
            use std::os::unix::fs::MetadataExt;
            let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
            let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
            (
                (metadata.dev(), metadata.ino()),
                SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos)),
            )
        };
        #[cfg(not(unix))]
        let (id, changed) = ((0, 0), None);
        Self { id, size: metadata.len(), modified: metadata.modified().ok(), changed }
    }
}

impl CachedSnapshot {
    /// Returns a snapshot read at `at`, after its stamp was taken.
    pub(crate) fn new(
        snapshot: AgentFileSnapshot,
        stat: Option<FileStat>,
        resolved_path: ResolvedPath,
        at: SystemTime,
    ) -> Self {
        let unstamped = Self {
            snapshot: Arc::new(snapshot),
            stamp: None,
            trust: StampTrust::CompareContent,
            permissions: None,
            resolved_path: ResolvedPath::default(),
            prompt_section: Arc::default(),
        };
        unstamped.with_stamp(stat, resolved_path, at)
    }

    /// Returns the same content with a newer stamp, read at `at`. Keeps the values already derived from the
    /// content.
    pub(crate) fn with_stamp(
        &self,
        stat: Option<FileStat>,
        resolved_path: ResolvedPath,
        at: SystemTime,
    ) -> Self {
        let (stamp, permissions) = stat.map(|stat| (stat.stamp, stat.permissions)).unzip();
        let trust = match stamp {
            Some(stamp) if !stamp.is_trustworthy(at) => StampTrust::CompareContent,
            // The file was created between the stamp and the read.
            None if !self.snapshot.bytes.is_empty() => StampTrust::CompareContent,
            Some(_) | None => StampTrust::Trusted,
        };
        let (snapshot, section) = (Arc::clone(&self.snapshot), Arc::clone(&self.prompt_section));
        Self { snapshot, stamp, trust, permissions, resolved_path, prompt_section: section }
    }

    /// Returns whether the snapshot holds exactly this content.
    pub(crate) fn has_content(&self, bytes: &[u8], extent: ReadExtent) -> bool {
        self.snapshot.extent == extent && self.snapshot.bytes == bytes
    }

    /// Returns whether a file with this stamp still has the content of the snapshot.
    pub(crate) fn is_current_for(&self, stamp: Option<FileStamp>) -> bool {
        self.stamp == stamp && self.trust == StampTrust::Trusted
    }

    /// Returns whether both snapshots show the same version of the file, or both show none.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let is_same_content = Arc::ptr_eq(&self.snapshot, &other.snapshot)
            || self.has_content(&other.snapshot.bytes, other.snapshot.extent);
        is_same_content && self.stamp.is_some() == other.stamp.is_some()
    }

    /// Returns the prompt section for a thread without a summary. It is built once per snapshot, because a process has
    /// one scope.
    pub(crate) fn prompt_section(&self, scope: &NotesScope) -> PromptSection {
        let build = || build_prompt_section(&self.snapshot, scope, &[]);
        let (cached_scope, section) = self.prompt_section.get_or_init(|| (scope.clone(), build()));
        if cached_scope == scope { section.clone() } else { build() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(changed: Option<u64>, modified: u64) -> FileStamp {
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        FileStamp { id: (1, 2), size: 3, modified: Some(time(modified)), changed: changed.map(time) }
    }

    #[test]
    fn f1_a_stamp_is_trusted_once_every_later_edit_must_have_another() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        for (changed, modified, settled) in [
            (Some(90), 90, true),
            (Some(97), 97, true),
            (Some(98), 98, false),
            (Some(100), 100, false),
            // The clock of the file system is ahead.
            (Some(200), 200, false),
            // A program set the modification time to the past, or to the future.
            (Some(100), 10, false),
            (Some(90), 200, true),
            // Without a time of change, the modification time is used.
            (None, 90, true),
            (None, 99, false),
        ] {
            assert_eq!(stamp(changed, modified).is_trustworthy(at), settled, "{changed:?} {modified}");
        }
    }

    #[test]
    fn f1_a_snapshot_is_valid_only_for_its_own_stamp() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let folder = tempfile::tempdir().unwrap();
        let permissions = fs::metadata(folder.path()).unwrap().permissions();
        let reading = |stamp: FileStamp| {
            CachedSnapshot::new(
                AgentFileSnapshot::default(),
                Some(FileStat { stamp, permissions: permissions.clone() }),
                ResolvedPath::default(),
                at,
            )
        };
        let old = stamp(Some(10), 10);
        assert!(reading(old).is_current_for(Some(old)));
        for other in [
            FileStamp { id: (1, 3), ..old },
            FileStamp { size: 4, ..old },
            stamp(Some(11), 10),
            stamp(Some(10), 11),
        ] {
            assert!(!reading(old).is_current_for(Some(other)), "{other:?}");
        }
        assert!(!reading(old).is_current_for(None));
        let fresh = stamp(Some(99), 99);
        assert!(!reading(fresh).is_current_for(Some(fresh)));
        assert!(
            CachedSnapshot::new(AgentFileSnapshot::default(), None, ResolvedPath::default(), at)
                .is_current_for(None)
        );
    }
}
