//! Which paths a tool may touch: those inside the workspace, links resolved. What is done with them is not decided
//! here.

use std::io;
use std::path::{Component, Path, PathBuf};

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
    pub fn find(&self, path: &str) -> Result<PathBuf, String> {
        match self.root.join(path).canonicalize() {
            Ok(found) if found.starts_with(&self.root) => Ok(found),
            Ok(_) => Err(outside(path)),
            Err(_) if self.leaves(path) => Err(outside(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("there is no {path:?} in the workspace; ls or glob shows what there is"))
            }
            Err(error) => Err(format!("{path:?} cannot be read: {error}")),
        }
    }

    /// Checks a word of a command line: it may be anything but a path to something outside.
    pub fn check_word(&self, word: &str) -> Result<(), String> {
        match self.root.join(word).canonicalize() {
            Ok(found) if found.starts_with(&self.root) => Ok(()),
            Ok(_) => Err(outside(word)),
            // What is not there cannot be read; a pattern such as /api/v1 is no path.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(_) if self.leaves(word) => Err(outside(word)),
            Err(_) => Ok(()),
        }
    }

    /// Returns `path` as it is shown: relative to the workspace.
    pub fn shown<'a>(&self, path: &'a Path) -> &'a Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// Returns whether the text of `path` leads outside, links aside.
    fn leaves(&self, path: &str) -> bool {
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

fn outside(path: &str) -> String {
    format!("{path:?} is outside the workspace; only what is inside it can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn k6_no_path_leads_out_of_the_workspace() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("work");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(outer.path().join("secret"), "s").unwrap();
        std::fs::write(root.join("src/a.rs"), "a").unwrap();
        std::os::unix::fs::symlink(outer.path(), root.join("up")).unwrap();
        std::os::unix::fs::symlink("src/a.rs", root.join("inner")).unwrap();
        let workspace = Workspace::open(&root).unwrap();
        let inside = root.canonicalize().unwrap().join("src/a.rs");
        for path in ["src/a.rs", "./src/../src/a.rs", "inner", inside.to_str().unwrap()] {
            assert_eq!(workspace.find(path).unwrap(), inside);
            assert_eq!(workspace.check_word(path), Ok(()));
        }
        for path in ["../secret", "/etc/passwd", "up/secret", "up", "src/../../secret", "..", "/"] {
            assert!(workspace.find(path).unwrap_err().contains("outside the workspace"), "{path}");
            assert!(workspace.check_word(path).is_err(), "{path}");
        }
        assert!(workspace.find("../missing").unwrap_err().contains("outside the workspace"));
        assert!(workspace.find("missing").unwrap_err().contains("there is no"));
        for word in ["/api/v1", "HEAD~1", "*.rs", "a\0b", ""] {
            assert_eq!(workspace.check_word(word), Ok(()), "{word}");
        }
    }
}
