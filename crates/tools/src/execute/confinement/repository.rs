//! The files of git that a command in the sandbox needs outside the workspace, and those in which a command could leave
//! a program for git to start later.

use std::fs;
use std::path::{Path, PathBuf};

/// Name of git's folder, or of the file that names it.
const GIT: &str = ".git";
/// Files and folders of a repository that name programs to start. Commands can only read them.
const PROGRAM_FILES: &[&str] = &["config", "config.worktree", "hooks"];
/// Files of a worktree's folder in the repository that name programs to start, or other folders.
const WORKTREE_FILES: &[&str] = &["config.worktree", "commondir", "gitdir"];
/// Folders of a repository to which a commit in another worktree writes.
const COMMIT_FOLDERS: &[&str] = &["objects", "refs", "logs"];
/// Maximum number of submodules whose files are protected.
const SUBMODULES_MAX: usize = 100;

/// The paths of a repository, with links resolved.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RepositoryPaths {
    /// Folders outside the workspace that a commit writes.
    pub writable: Vec<PathBuf>,
    /// Folders outside the workspace that git reads.
    pub readable: Vec<PathBuf>,
    /// Files and folders that name programs.
    pub read_only: Vec<PathBuf>,
}

/// Returns the paths of the repository that contains the workspace `root`. A repository whose folder contains the home
/// folder is not one for work, and left out.
pub(super) fn find(root: &Path, home: Option<&Path>) -> RepositoryPaths {
    let contains_home = |folder: &Path| home.is_some_and(|home| home.starts_with(folder));
    let folders = root.ancestors().take_while(|folder| *folder == root || !contains_home(folder));
    let Some((folder, git)) = folders.map(|folder| (folder, folder.join(GIT))).find(|(_, git)| git.exists())
    else {
        return RepositoryPaths::default();
    };
    let mut paths = if git.is_dir() { own_repository(&git) } else { worktree(&git).unwrap_or_default() };
    if folder != root {
        paths.readable.push(folder.to_owned());
    }
    match (git.is_dir(), folder == root) {
        (true, true) => {}
        (true, false) => paths.writable.push(git),
        // The file names the repository, so it decides which programs git starts.
        (false, _) => paths.read_only.push(git),
    }
    paths
}

/// Returns the paths of a repository whose folder is `git`, and of its submodules.
fn own_repository(git: &Path) -> RepositoryPaths {
    let mut read_only = program_files(git);
    let modules = fs::read_dir(git.join("modules")).into_iter().flatten().flatten().take(SUBMODULES_MAX);
    read_only.extend(modules.flat_map(|module| program_files(&module.path())));
    RepositoryPaths { read_only, ..RepositoryPaths::default() }
}

/// Returns the files in a folder of git that name programs. The folder of hooks is created if it is missing, because
/// only an existing folder can be protected.
fn program_files(git: &Path) -> Vec<PathBuf> {
    if git.join("HEAD").is_file() {
        let _ = fs::create_dir(git.join("hooks"));
    }
    PROGRAM_FILES.iter().map(|name| git.join(name)).filter(|path| path.exists()).collect()
}

/// Returns the paths of the repository to which the worktree with the file `git` belongs, or `None` if the repository
/// does not name this worktree. The check matters because the file belongs to the workspace: it could name any folder
/// of the user.
fn worktree(git: &Path) -> Option<RepositoryPaths> {
    let text = fs::read_to_string(git).ok()?;
    let folder = git.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let named = fs::read_to_string(folder.join("gitdir")).ok()?;
    if folder.join(named.trim()).canonicalize().ok()? != git.canonicalize().ok()? {
        return None;
    }
    let common = fs::read_to_string(folder.join("commondir")).ok()?;
    let common = folder.join(common.trim()).canonicalize().ok()?;
    let mut writable: Vec<PathBuf> = COMMIT_FOLDERS.iter().map(|name| common.join(name)).collect();
    let read_only = WORKTREE_FILES.iter().map(|name| folder.join(name)).filter(|path| path.exists());
    let read_only = read_only.collect();
    writable.push(folder);
    Some(RepositoryPaths { writable, readable: vec![common], read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a repository in `folder/main` with the worktree `folder/tree`, as git does.
    fn worktree_of(folder: &Path) -> (PathBuf, PathBuf) {
        let (git, tree) = (folder.join("main/.git"), folder.join("tree"));
        let own = git.join("worktrees/tree");
        for path in [&own, &git.join("objects"), &git.join("refs"), &tree] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        (git, tree)
    }

    #[test]
    fn a_worktree_may_commit_and_its_repository_keeps_its_settings() {
        let folder = tempfile::tempdir().unwrap();
        let (git, tree) = worktree_of(&folder.path().canonicalize().unwrap());
        let own = git.join("worktrees/tree");
        let paths = find(&tree, None);
        assert_eq!(paths.writable, [git.join("objects"), git.join("refs"), git.join("logs"), own.clone()]);
        assert_eq!(
            (paths.readable, paths.read_only),
            (vec![git], vec![own.join("commondir"), own.join("gitdir"), tree.join(".git")])
        );
    }

    #[test]
    fn k6_a_git_file_cannot_name_a_folder_that_does_not_name_the_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let (_, tree) = worktree_of(&folder.path().canonicalize().unwrap());
        let other = folder.path().canonicalize().unwrap().join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(tree.join(".git"), other.join(".git")).unwrap();
        let paths = find(&other, None);
        assert_eq!((paths.writable, paths.readable), (vec![], vec![]));
        assert_eq!(paths.read_only, [other.join(".git")]);
    }

    #[test]
    fn a_repository_around_the_workspace_is_readable_unless_it_is_the_home_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let work = root.join("part");
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir(&work).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(root.join(".git/config"), "").unwrap();
        let paths = find(&work, None);
        assert_eq!((paths.writable, paths.readable), (vec![root.join(".git")], vec![root.clone()]));
        assert_eq!(paths.read_only, [root.join(".git/config"), root.join(".git/hooks")]);
        assert_eq!(find(&work, Some(&root)), RepositoryPaths::default());
    }
}
