//! The files a summary refers to, as they are now: whether they are there, and the hash of their bytes. It looks inside
//! one folder only, writes nothing, and reads no file of unknown size.

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use protocol::{CarryOver, HandoffSummary, ReferencedFile};

use crate::limits::{REFERENCED_BYTES_MAX, REFERENCED_FILES_MAX};
use crate::summary::ground::names;

#[cfg(test)]
mod tests;

/// Bytes read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Returns the files that the items of `summary` name and those that were modified, at most [`REFERENCED_FILES_MAX`],
/// each with its state in `workspace`. It waits for the file system.
///
/// What lies outside the folder, by its path or through a link, is left out, and so is a bare file name that is not
/// found. A file over [`REFERENCED_BYTES_MAX`], and what is no file, has no hash.
pub fn referenced_files(summary: &HandoffSummary, workspace: &Path) -> Vec<ReferencedFile> {
    let Ok(root) = workspace.canonicalize() else { return Vec::new() };
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    for path in paths(summary) {
        if files.len() == REFERENCED_FILES_MAX {
            break;
        }
        let Some(inside) = inside(&path, workspace, &root) else { continue };
        if !seen.insert(inside.clone()) {
            continue;
        }
        files.extend(looked_at(path, &root.join(inside), &root));
    }
    files
}

/// Returns the paths of the items, then those of the files that were modified; a short name as the path it is short for.
fn paths(summary: &HandoffSummary) -> Vec<String> {
    let CarryOver { files_modified, files_read, .. } = &summary.carry_over;
    let known: Vec<&String> = files_modified.iter().chain(files_read).collect();
    let mut paths = Vec::new();
    for item in &summary.body {
        names::names(&item.text, |name| {
            let Some(path) = names::path_of(&name) else { return };
            let whole = known.iter().find(|known| ends_with(known, &path));
            paths.push(whole.map_or(path, |known| (*known).clone()));
        });
    }
    paths.extend(files_modified.iter().cloned());
    paths
}

fn ends_with(whole: &str, end: &str) -> bool {
    let end = end.trim_start_matches("./");
    whole
        .strip_suffix(end)
        .is_some_and(|folder| folder.is_empty() || folder.ends_with('/') || end.starts_with('/'))
}

/// Returns the path from the workspace on; `None` when it does not stay inside.
fn inside(path: &str, workspace: &Path, root: &Path) -> Option<PathBuf> {
    let path = Path::new(path);
    let relative = match path.is_absolute() {
        true => path.strip_prefix(workspace).or_else(|_| path.strip_prefix(root)).ok()?,
        false => path,
    };
    let mut inside = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !inside.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let is_home = inside.iter().next().is_some_and(|first| first == "~");
    (!is_home && inside.iter().next().is_some()).then_some(inside)
}

/// Returns the state of the file at `place`; `None` when it is outside after all, or nothing can be said of it.
fn looked_at(path: String, place: &Path, root: &Path) -> Option<ReferencedFile> {
    let real = match place.canonicalize() {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let is_bare = !path.contains('/');
            let is_link = place.symlink_metadata().is_ok();
            return (!is_bare && !is_link).then_some(ReferencedFile { path, exists: false, sha256: None });
        }
        Err(_) => return None,
    };
    real.starts_with(root).then(|| ReferencedFile { path, exists: true, sha256: sha256_of(&real) })
}

/// Returns the hash of a regular file that is not too large.
fn sha256_of(path: &Path) -> Option<String> {
    use sha2::Digest;
    // Opening anything but a regular file may wait for ever.
    let is_small_file = |data: std::fs::Metadata| data.is_file() && data.len() <= REFERENCED_BYTES_MAX;
    if !path.symlink_metadata().is_ok_and(is_small_file) {
        return None;
    }
    let mut file = File::open(path).ok()?.take(REFERENCED_BYTES_MAX + 1);
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer).ok()?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        hasher.update(&buffer[..read]);
    }
    (bytes <= REFERENCED_BYTES_MAX).then(|| protocol::hex(&hasher.finalize()))
}
