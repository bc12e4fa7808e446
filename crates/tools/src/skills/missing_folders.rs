//! Folders of skills that do not exist. Most workspaces have none, and looking for each of them with every run costs more than
//! looking at the folders in which they would appear. Skills are not read here.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::skills::catalog::FileVersion;

/// Minimum age of the last change of a folder whose version is trusted. File systems round times, so a folder that was changed a
/// moment ago can change again without a new version.
const SETTLED_AGE: Duration = Duration::from_secs(3);

/// The missing folders of an agent, in the order of its roots; `None` for a root that has to be looked for.
pub(super) type MissingFolders = Vec<Option<MissingFolder>>;

/// A folder that did not exist. It does not exist as long as the folder in which it would appear stays the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MissingFolder {
    /// The innermost of its parents that exists.
    pub(super) parent: Arc<Path>,
    /// The version of this parent.
    version: FileVersion,
}

impl MissingFolder {
    /// Returns the record of a folder that was not found at the time `now`. `None` if it may appear without a change of the
    /// parent, such as behind a symbolic link, or if the parent was changed only just.
    pub(super) fn observe(folder: &Path, now: SystemTime) -> Option<Self> {
        let mut child = folder;
        for parent in folder.ancestors().skip(1) {
            // The version is older than the check of the child, so a child that appears later changes it.
            match parent.metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    let version = FileVersion::from_metadata(&metadata);
                    let is_missing =
                        child.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
                    let is_trusted = is_missing && version.is_settled(now, SETTLED_AGE);
                    return is_trusted.then(|| Self { parent: parent.into(), version });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => child = parent,
                Ok(_) | Err(_) => return None,
            }
        }
        None
    }
}

/// The versions of parents that were read within one pass over the roots, because several roots have the same parent.
#[derive(Debug, Default)]
pub(super) struct ParentVersions(Vec<(PathBuf, Option<FileVersion>)>);

impl ParentVersions {
    /// Returns whether a folder is still missing.
    pub(super) fn is_still_missing(&mut self, missing: &MissingFolder) -> bool {
        let known = self.0.iter().find(|(parent, _)| **parent == *missing.parent);
        let version = match known {
            Some((_, version)) => *version,
            None => {
                let version = missing.parent.metadata().ok();
                let version = version.map(|metadata| FileVersion::from_metadata(&metadata));
                self.0.push((missing.parent.to_path_buf(), version));
                version
            }
        };
        version == Some(missing.version)
    }

    /// Returns the number of parents that were read.
    #[cfg(test)]
    fn read_count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// Sets the modification time of a folder to the past, so that the next change to it is a new version even within the
    /// resolution of the file system. `later` is a time at which the folder has been settled for long.
    fn settle(folder: &Path) -> SystemTime {
        File::open(folder).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        SystemTime::now() + Duration::from_secs(3_600)
    }

    #[test]
    fn a_folder_stays_missing_until_its_innermost_existing_parent_changes() {
        let temporary = tempfile::tempdir().unwrap();
        let workspace = temporary.path();
        let folder = workspace.join(".agents/skills");
        let later = settle(workspace);
        let missing = MissingFolder::observe(&folder, later).unwrap();
        assert_eq!(&*missing.parent, workspace);
        let is_missing = |missing| ParentVersions::default().is_still_missing(missing);
        assert!(is_missing(&missing));
        fs::create_dir(workspace.join(".agents")).unwrap();
        assert!(!is_missing(&missing));
        settle(&workspace.join(".agents"));
        let missing = MissingFolder::observe(&folder, later).unwrap();
        assert_eq!(*missing.parent, *workspace.join(".agents"));
        fs::write(workspace.join("unrelated"), "").unwrap();
        assert!(is_missing(&missing), "a change elsewhere does not matter");
        fs::create_dir(&folder).unwrap();
        assert!(!is_missing(&missing));
        fs::remove_dir_all(workspace.join(".agents")).unwrap();
        assert!(!is_missing(&missing));
    }

    #[test]
    fn roots_with_the_same_parent_read_it_once() {
        let temporary = tempfile::tempdir().unwrap();
        let later = settle(temporary.path());
        let folders = [".segue/skills", ".agents/skills", ".claude/skills"];
        let missing = folders.map(|folder| MissingFolder::observe(&temporary.path().join(folder), later));
        let mut versions = ParentVersions::default();
        assert!(missing.iter().flatten().all(|missing| versions.is_still_missing(missing)));
        assert_eq!((missing.iter().flatten().count(), versions.read_count()), (3, 1));
    }

    #[test]
    fn a_recent_change_and_a_link_are_not_trusted() {
        let temporary = tempfile::tempdir().unwrap();
        let workspace = temporary.path();
        let folder = workspace.join(".agents/skills");
        let soon = workspace.metadata().unwrap().modified().unwrap() + Duration::from_secs(1);
        assert_eq!(MissingFolder::observe(&folder, soon), None, "the workspace is new");
        std::os::unix::fs::symlink(workspace.join("elsewhere"), workspace.join(".agents")).unwrap();
        let later = settle(workspace);
        assert_eq!(MissingFolder::observe(&folder, later), None, "the target can appear elsewhere");
        fs::write(workspace.join(".claude"), "").unwrap();
        assert_eq!(MissingFolder::observe(&workspace.join(".claude/skills"), later), None);
    }
}
