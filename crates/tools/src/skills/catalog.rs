//! Discovery of skills: folders with a SKILL.md. Of several skills with the same name, the one in the more specific
//! root is used. Only the front matter of a skill file is parsed here, never its body.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::skills::front_matter::{SkillFrontMatter, parse_front_matter, split_front_matter};
use crate::skills::missing_folders::{MissingFolder, MissingFolders, ParentVersions};

/// Name of the file that makes a folder a skill.
pub(super) const SKILL_FILE: &str = "SKILL.md";
/// Maximum number of entries of one root that are examined.
const FOLDERS_MAX: usize = 1_000;
/// Maximum number of bytes of a SKILL.md that are read: twice the maximum size of the front matter.
const PROBE_BYTES_MAX: u64 = 32 * 1024;

/// A folder whose sub-folders are skills.
#[derive(Debug)]
pub(super) struct SkillRoot {
    /// The folder. It may be missing.
    pub folder: PathBuf,
    /// The workspace. A skill whose folder contains the whole workspace is refused.
    pub workspace: PathBuf,
    /// Targets that symbolic links may have.
    pub links: LinkPolicy,
}

/// Allowed targets of the symbolic links in a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// Any target, because the root belongs to the user.
    Anywhere,
    /// Targets inside the workspace only, because the root comes with the project.
    Inside,
}

/// A usable skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name from the front matter.
    pub name: String,
    /// A description of what the skill does and when to use it.
    pub description: String,
    /// The skill's folder, with links resolved.
    pub folder: PathBuf,
}

/// The skills of all roots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillCatalog {
    /// Usable skills, sorted by name. Names are unique.
    pub skills: Vec<Skill>,
    /// Notices for the user about skills that are unusable, or hidden by another skill of the same name.
    pub notices: Vec<String>,
}

/// Path and modification time of each skill file, by root. Comparing two of them detects a change.
pub(super) type SkillFileVersions = Vec<Vec<(PathBuf, FileVersion)>>;

/// Lists the skill files of all roots with their versions. Reads no file content. A root in `missing` is listed only if the folder
/// in which it would appear has changed. Updates `missing`.
pub(super) fn skill_file_versions(
    roots: &[SkillRoot],
    missing: &mut MissingFolders,
    now: SystemTime,
) -> SkillFileVersions {
    missing.resize(roots.len(), None);
    let mut parents = ParentVersions::default();
    let roots = roots.iter().zip(missing.iter_mut());
    roots
        .map(|(root, missing)| {
            if missing.as_ref().is_some_and(|known| parents.is_still_missing(known)) {
                return Vec::new();
            }
            let files = list_skill_files(&root.folder);
            let is_absent = files.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
            *missing = if is_absent { MissingFolder::observe(&root.folder, now) } else { None };
            // A folder that cannot be read has no skills.
            files.unwrap_or_default()
        })
        .collect()
}

/// Loads the skills of the listed files. `file_versions` has one entry for each root, in the same order. A file that
/// cannot be used becomes a notice.
pub(super) fn load_catalog(roots: &[SkillRoot], file_versions: &SkillFileVersions) -> SkillCatalog {
    let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
    let mut notices = Vec::new();
    for (root, files) in roots.iter().zip(file_versions) {
        let mut root_skills: BTreeMap<String, Skill> = BTreeMap::new();
        for (file, _) in files {
            match read_skill(root, file) {
                Ok(skill) if root_skills.contains_key(&skill.name) => {
                    notices.push(format!(
                        "{}: another skill in this folder is named `{}`",
                        file.display(),
                        skill.name
                    ));
                }
                Ok(skill) => {
                    root_skills.insert(skill.name.clone(), skill);
                }
                Err(reason) => notices.push(format!("{}: the skill is left out: {reason}", file.display())),
            }
        }
        for (name, skill) in root_skills {
            let path = skill.folder.display().to_string();
            if let Some(hidden) = skills.insert(name.clone(), skill) {
                notices.push(format!("{}: the skill `{name}` is hidden by {path}", hidden.folder.display()));
            }
        }
    }
    SkillCatalog { skills: skills.into_values().collect(), notices }
}

/// The metadata that identify the content of a file without reading it. The modification time alone does not: some programs
/// set it to a fixed value, or to that of the file that they replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileVersion {
    /// The modification time.
    modified: SystemTime,
    /// The size in bytes.
    bytes: u64,
    /// The number of the file, and the time of the last change to its content, name or attributes (seconds and
    /// nanoseconds), which programs cannot set; zeros where they do not exist.
    identity: [i64; 3],
}

impl FileVersion {
    /// Returns the version of a file.
    pub(super) fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        Self {
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            bytes: metadata.len(),
            identity: identity(metadata),
        }
    }

    /// Returns whether the last change is at least this old at the time `now`. `false` if its time is not known.
    pub(super) fn is_settled(&self, now: SystemTime, age: Duration) -> bool {
        let [_, seconds, nanoseconds] = self.identity;
        let (Ok(seconds @ 1..), Ok(nanoseconds)) = (u64::try_from(seconds), u64::try_from(nanoseconds))
        else {
            return false;
        };
        let changed = Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanoseconds));
        let is_older = |time| now.duration_since(time).is_ok_and(|passed| passed >= age);
        SystemTime::UNIX_EPOCH.checked_add(changed).is_some_and(is_older) && is_older(self.modified)
    }
}

/// Returns the number and the change time of a file.
#[cfg(unix)]
fn identity(metadata: &std::fs::Metadata) -> [i64; 3] {
    use std::os::unix::fs::MetadataExt as _;
    [metadata.ino().cast_signed(), metadata.ctime(), metadata.ctime_nsec()]
}

/// Returns zeros, because files have neither on this system.
#[cfg(not(unix))]
const fn identity(_metadata: &std::fs::Metadata) -> [i64; 3] {
    [0; 3]
}

/// Lists the files `*/SKILL.md` of a folder, sorted by path.
fn list_skill_files(folder: &Path) -> std::io::Result<Vec<(PathBuf, FileVersion)>> {
    let files = std::fs::read_dir(folder)?.flatten().take(FOLDERS_MAX).filter_map(|entry| {
        let file = entry.path().join(SKILL_FILE);
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((file, FileVersion::from_metadata(&metadata)))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    Ok(files)
}

/// Reads one skill from its SKILL.md.
///
/// # Errors
/// Returns the reason if the file cannot be read, a link leads to a forbidden target, or the front matter is invalid.
fn read_skill(root: &SkillRoot, file: &Path) -> Result<Skill, String> {
    let failed = |error: std::io::Error| format!("it cannot be read: {error}");
    let file = file.canonicalize().map_err(failed)?;
    let workspace = root.workspace.canonicalize().map_err(failed)?;
    if root.links == LinkPolicy::Inside && !file.starts_with(&workspace) {
        return Err("it lies outside the workspace".to_owned());
    }
    let folder = file.parent().ok_or("it has no folder")?.to_owned();
    if workspace.starts_with(&folder) {
        return Err("its folder holds the whole workspace".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(&file).and_then(|file| file.take(PROBE_BYTES_MAX).read_to_end(&mut bytes)).map_err(failed)?;
    // The limit may cut a character of the body in two. The front matter ends long before.
    let text = String::from_utf8_lossy(&bytes);
    let (head, _) = split_front_matter(&text)?;
    let SkillFrontMatter { name, description } = parse_front_matter(head)?;
    Ok(Skill { name, description, folder })
}
