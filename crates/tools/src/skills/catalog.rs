//! Which skills there are: folders with a SKILL.md, the more specific place before the other. What they say is read
//! only as far as their head goes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::skills::front_matter::{SkillFrontMatter, parse_front_matter, split_front_matter};

/// The file that makes a folder a skill.
pub(super) const SKILL_FILE: &str = "SKILL.md";
/// The most folders of one place that are looked at.
const FOLDERS_MAX: usize = 1_000;
/// The most bytes of a SKILL.md that are read for its head.
const PROBE_BYTES_MAX: u64 = 32 * 1024;

/// A folder of skills.
#[derive(Debug)]
pub(super) struct SkillRoot {
    /// The folder; it may be missing.
    pub folder: PathBuf,
    /// The folder the agent works in; no skill holds it.
    pub workspace: PathBuf,
    /// Where links may lead.
    pub links: LinkPolicy,
}

/// Where links may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    /// Anywhere: the folder is the person's own.
    Anywhere,
    /// Nowhere outside the workspace.
    Inside,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// A description of what the skill does and when to use it.
    pub description: String,
    /// Its folder, links resolved.
    pub folder: PathBuf,
}

/// The skills that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillCatalog {
    /// By name.
    pub skills: Vec<Skill>,
    /// Notices for the person: skills that are unusable, or hidden by others.
    pub notices: Vec<String>,
}

/// The path and modification time of each skill file, which detect a change.
pub(super) type SkillFileTimes = Vec<Vec<(PathBuf, SystemTime)>>;

/// Looks at the folders, without reading files.
pub(super) fn skill_file_times(roots: &[SkillRoot]) -> SkillFileTimes {
    roots.iter().map(|root| list_skill_files(&root.folder)).collect()
}

/// Reads the skills that `stamp` saw.
pub(super) fn load_catalog(roots: &[SkillRoot], stamp: &SkillFileTimes) -> SkillCatalog {
    let mut skills: BTreeMap<String, Skill> = BTreeMap::new();
    let mut notices = Vec::new();
    for (root, files) in roots.iter().zip(stamp) {
        let mut here: BTreeMap<String, Skill> = BTreeMap::new();
        for (file, _) in files {
            match read_skill(root, file) {
                Ok(skill) if here.contains_key(&skill.name) => {
                    notices.push(format!(
                        "{}: another skill of this place is named `{}`",
                        file.display(),
                        skill.name
                    ));
                }
                Ok(skill) => {
                    here.insert(skill.name.clone(), skill);
                }
                Err(reason) => notices.push(format!("{}: the skill is left out: {reason}", file.display())),
            }
        }
        for (name, skill) in here {
            let path = skill.folder.display().to_string();
            if let Some(hidden) = skills.insert(name.clone(), skill) {
                notices.push(format!("{}: the skill `{name}` is hidden by {path}", hidden.folder.display()));
            }
        }
    }
    SkillCatalog { skills: skills.into_values().collect(), notices }
}

fn list_skill_files(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = entries.flatten().take(FOLDERS_MAX).filter_map(|entry| {
        let file = entry.path().join(SKILL_FILE);
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((file, metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

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
    // The end may cut a character of the body; the head is long over.
    let text = String::from_utf8_lossy(&bytes);
    let (head, _) = split_front_matter(&text)?;
    let SkillFrontMatter { name, description } = parse_front_matter(head)?;
    Ok(Skill { name, description, folder })
}
