//! The state of the files that a summary refers to: whether each exists, and the hash of its content.
//!
//! Only files inside one folder are inspected. Nothing is written, and no file above a size limit is read.

use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use protocol::{CarriedFiles, HandoffSummary, ReferencedFile};

use crate::limits::{REFERENCED_BYTES_MAX, REFERENCED_FILES_MAX};
use crate::summary::ground::names;

#[cfg(test)]
mod tests;

/// The size of the read buffer in bytes.
const READ_BYTES: usize = 64 * 1024;
/// The number of files of which none exists, from which on the conversation was about a folder that is not here.
const ELSEWHERE_FILES_MIN: usize = 3;

/// Returns the state of the files that the items of `summary` name and of the modified files, at most
/// [`REFERENCED_FILES_MAX`].
///
/// Files outside `workspace`, by their path or through a symbolic link, are left out. A bare file name that does not
/// exist is left out too, because it may be short for any path. A file larger than [`REFERENCED_BYTES_MAX`] and
/// anything that is not a regular file get no hash.
///
/// The function blocks on the file system.
pub fn referenced_files(summary: &HandoffSummary, workspace: &Path) -> Vec<ReferencedFile> {
    let Ok(root) = workspace.canonicalize() else { return Vec::new() };
    let mut inspected = HashSet::new();
    let mut files = Vec::new();
    for path in named_paths(summary) {
        if files.len() == REFERENCED_FILES_MAX {
            break;
        }
        let Some(relative) = path_in_workspace(&path, workspace, &root) else { continue };
        if !inspected.insert(relative.clone()) {
            continue;
        }
        files.extend(inspect_file(path, &root.join(relative), &root));
    }
    // The conversation was about another folder, of which nothing is known here.
    let is_elsewhere = files.len() >= ELSEWHERE_FILES_MIN && files.iter().all(|file| !file.exists);
    if is_elsewhere { Vec::new() } else { files }
}

/// Returns the paths named in the items, then those of the modified files. A short path is replaced by the known file
/// it is the end of.
fn named_paths(summary: &HandoffSummary) -> Vec<String> {
    let CarriedFiles { changed, read, .. } = &summary.carried.files;
    let known: Vec<&String> = changed.iter().chain(read).collect();
    let mut paths = Vec::new();
    for item in &summary.body {
        names::scan_names(&item.text, |name| {
            let Some(path) = names::path_of(&name) else { return };
            // The draft has invented the file.
            if item.unfound.iter().any(|unfound| unfound == &path || unfound.ends_with(&format!("/{path}"))) {
                return;
            }
            let whole = known.iter().find(|known| is_path_suffix(known, &path));
            paths.push(whole.map_or(path, |known| (*known).clone()));
        });
    }
    paths.extend(changed.iter().cloned());
    paths
}

/// Returns whether `suffix` is the end of `path`, starting at a path component.
fn is_path_suffix(path: &str, suffix: &str) -> bool {
    let suffix = suffix.trim_start_matches("./");
    path.strip_suffix(suffix)
        .is_some_and(|folder| folder.is_empty() || folder.ends_with('/') || suffix.starts_with('/'))
}

/// Returns `path` relative to the workspace; `None` when it leaves the workspace, is the workspace itself, or begins
/// with `~`. `root` is the canonical path of `workspace`.
fn path_in_workspace(path: &str, workspace: &Path, root: &Path) -> Option<PathBuf> {
    let path = Path::new(path);
    let relative = match path.is_absolute() {
        true => path.strip_prefix(workspace).or_else(|_| path.strip_prefix(root)).ok()?,
        false => path,
    };
    let mut inside = PathBuf::new();
    for component in relative.components() {
        match component {
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

/// Returns the state of the file at `location`, reported under the name `path`; `None` when a link leads outside
/// `root` or the file system refuses access.
fn inspect_file(path: String, location: &Path, root: &Path) -> Option<ReferencedFile> {
    let real = match location.canonicalize() {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let is_bare = !path.contains('/');
            let is_link = location.symlink_metadata().is_ok();
            return (!is_bare && !is_link).then_some(ReferencedFile { path, exists: false, sha256: None });
        }
        Err(_) => return None,
    };
    real.starts_with(root).then(|| ReferencedFile { path, exists: true, sha256: sha256_of(&real) })
}

/// Returns the hash of a regular file of at most [`REFERENCED_BYTES_MAX`] bytes; `None` for anything else.
fn sha256_of(path: &Path) -> Option<String> {
    use sha2::Digest;
    // Opening a special file, such as a FIFO, may block for ever.
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
