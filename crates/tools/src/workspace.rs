//! Which paths a tool may touch: those inside the workspace, links resolved. What is done with them is not decided
//! here.

pub(crate) mod confined_file;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use self::confined_file::WorkspacePath;

/// The folder the agent works in, links resolved.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Returns the workspace at `root`.
    pub fn open(root: &Path) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("the workspace cannot be read: {error}"))?;
        Ok(Self { root })
    }

    /// Returns the folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the existing file or folder that `path` names; the error is what the model is told.
    pub fn resolve_existing(&self, path: &str) -> Result<PathBuf, String> {
        let found = self.resolve(path)?.absolute();
        match found.symlink_metadata() {
            Ok(_) => Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no {path:?} in the workspace; ls or glob shows what there is"))
            }
            Err(error) => Err(format!("{path:?} cannot be read: {error}")),
        }
    }

    /// Returns what `path` names, whether it exists or not; the error is what the model is told. Links are followed
    /// as long as they stay inside.
    pub fn resolve(&self, path: &str) -> Result<WorkspacePath, String> {
        let mut real = PathBuf::new();
        let mut missing = 0_usize;
        for part in self.root.join(path).components() {
            match part {
                Component::RootDir | Component::Prefix(_) => real.push(part),
                Component::CurDir => {}
                Component::ParentDir => {
                    missing = missing.saturating_sub(1);
                    real.pop();
                }
                Component::Normal(name) => {
                    real.push(name);
                    if missing > 0 {
                        missing += 1;
                    } else if let PathLookup::Missing = follow_link(&mut real, path)? {
                        missing = 1;
                    }
                }
            }
        }
        match real.strip_prefix(&self.root) {
            Ok(relative) => Ok(WorkspacePath::new(&self.root, relative.to_owned())),
            Err(_) => Err(outside_error(path)),
        }
    }

    /// Returns the path that a word of a command line names when there is something of that name; the error says
    /// that it is outside, whether it is there or not: a program may make what is not.
    pub fn resolve_word(&self, word: &str) -> Result<Option<PathBuf>, String> {
        match self.root.join(word).canonicalize() {
            Ok(found) => match found.strip_prefix(&self.root) {
                Ok(relative) => Ok(Some(relative.to_owned())),
                Err(_) => Err(outside_error(word)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.resolve(word).map(|_| None),
            Err(_) if self.is_outside(word) => Err(outside_error(word)),
            Err(_) => Ok(None),
        }
    }

    /// Returns `path` as it is shown: relative to the workspace.
    pub fn relative_path<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// Returns whether the text of `path` leads outside, links aside.
    fn is_outside(&self, path: &str) -> bool {
        let mut depth = 0_i64;
        let path = Path::new(path);
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        for part in relative.components() {
            match part {
                Component::Normal(_) => depth += 1,
                Component::ParentDir => depth -= 1,
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return true,
            }
            if depth < 0 {
                return true;
            }
        }
        false
    }
}

enum PathLookup {
    Exists,
    Missing,
}

/// Resolves the last part of `real`, whose other parts are no links.
fn follow_link(real: &mut PathBuf, path: &str) -> Result<PathLookup, String> {
    match fs::symlink_metadata(&*real) {
        Ok(found) if found.is_symlink() => {
            *real = real
                .canonicalize()
                .map_err(|_| format!("{path:?} passes a link that leads nowhere; name another path"))?;
            Ok(PathLookup::Exists)
        }
        Ok(_) => Ok(PathLookup::Exists),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(PathLookup::Missing),
        Err(error) => Err(format!("{path:?} cannot be read: {error}")),
    }
}

fn outside_error(path: &str) -> String {
    format!("{path:?} is outside the workspace; only what is inside it can be read or changed")
}

#[cfg(test)]
mod tests;
