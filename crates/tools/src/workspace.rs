//! Path resolution with containment: turns a path from a tool call into a real path inside the workspace, with symbolic
//! links resolved, and refuses paths that lead outside. It reads and changes no file.

pub(crate) mod confined_file;

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use self::confined_file::WorkspacePath;

/// The folder in which the agent works.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Absolute path of the folder, with links resolved.
    root: PathBuf,
}

impl Workspace {
    /// Returns the workspace at `root`, whose links are resolved once, here.
    ///
    /// # Errors
    /// Returns the message for the model if the folder does not exist or cannot be accessed.
    pub fn open(root: &Path) -> Result<Self, String> {
        let root = root.canonicalize().map_err(|error| format!("the workspace cannot be read: {error}"))?;
        Ok(Self { root })
    }

    /// Returns the workspace's absolute path, with links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the real absolute path of the existing file or folder that `path` names.
    ///
    /// # Errors
    /// Returns the message for the model if nothing exists at the path, or it leads outside the workspace.
    pub fn resolve_existing(&self, path: &str) -> Result<PathBuf, String> {
        let resolved = self.resolve(path)?.absolute();
        match resolved.symlink_metadata() {
            Ok(_) => Ok(resolved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no {path:?} in the workspace; ls or glob shows what there is"))
            }
            Err(error) => Err(format!("{path:?} cannot be read: {error}")),
        }
    }

    /// Returns the real path that `path` names. The file need not exist; components below a missing folder are taken
    /// literally. Links are resolved component by component, and a link may pass outside if the final path is inside.
    ///
    /// # Errors
    /// Returns the message for the model if the final path is outside the workspace, a link is broken, or a component
    /// cannot be read.
    pub fn resolve(&self, path: &str) -> Result<WorkspacePath, String> {
        let mut real = PathBuf::new();
        // Number of trailing components of `real` that do not exist.
        let mut missing = 0_usize;
        for component in self.root.join(path).components() {
            match component {
                Component::RootDir | Component::Prefix(_) => real.push(component),
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

    /// Returns the path, relative to the workspace, that a word of a command line names, or `None` if no such file
    /// exists inside the workspace.
    ///
    /// # Errors
    /// Returns the message for the model if the word names a path outside the workspace. A path that does not exist
    /// counts too, because a program may create it.
    pub fn resolve_word(&self, word: &str) -> Result<Option<PathBuf>, String> {
        match self.root.join(word).canonicalize() {
            Ok(real) => match real.strip_prefix(&self.root) {
                Ok(relative) => Ok(Some(relative.to_owned())),
                Err(_) => Err(outside_error(word)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.resolve(word).map(|_| None),
            Err(_) if self.is_outside(word) => Err(outside_error(word)),
            Err(_) => Ok(None),
        }
    }

    /// Returns `path` relative to the workspace, as tool output shows it. A path outside stays absolute.
    pub fn relative_path<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// Returns whether `path` leads outside by its components alone, without resolving links.
    fn is_outside(&self, path: &str) -> bool {
        let mut depth = 0_i64;
        let path = Path::new(path);
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        for component in relative.components() {
            match component {
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

/// The result of looking up one path component.
enum PathLookup {
    Exists,
    Missing,
}

/// Resolves the last component of `real` if it is a link. The components before it must be resolved already. `path` is
/// the path of the call, for error messages.
fn follow_link(real: &mut PathBuf, path: &str) -> Result<PathLookup, String> {
    match fs::symlink_metadata(&*real) {
        Ok(metadata) if metadata.is_symlink() => {
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

/// Returns the message for the model about a path outside the workspace.
fn outside_error(path: &str) -> String {
    format!("{path:?} is outside the workspace; only what is inside it can be read or changed")
}

#[cfg(test)]
mod tests;
