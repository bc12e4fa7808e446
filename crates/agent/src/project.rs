//! Projects: the repository, or else the folder, whose memory threads share. A project is found in the file system,
//! without a `git` process; the journal stores its path with each thread.

use std::io::Read;
use std::path::{Path, PathBuf};

use journal::{ProjectScope, Transaction, Write};
use memory::NotesScope;

use crate::agent::Agent;
use crate::{MemoryScope, Result};

/// The most bytes of a file of Git that are read.
const GIT_FILE_BYTES_MAX: u64 = 64 * 1024;

/// The most folders that are resolved in one transaction.
const FOLDERS_PER_COMMIT_MAX: usize = 64;

impl Agent {
    /// Returns the path of the project of the agent's folder.
    pub fn project(&self) -> String {
        project_name(&self.settings.workspace)
    }

    /// Returns the projects whose memory the agent uses unless a caller asks for more: that of its folder, or all if
    /// `memory.scope` is `assistant`.
    pub fn default_project_scope(&self) -> ProjectScope {
        match self.config.memory.scope {
            MemoryScope::Project => ProjectScope::Project(self.project()),
            MemoryScope::Assistant => ProjectScope::Any,
        }
    }

    /// Returns the notes of `agent.md` that conversations see: those of the project of the agent's folder and the personal
    /// ones, or all if `memory.scope` is `assistant`.
    pub fn notes_scope(&self) -> NotesScope {
        match self.config.memory.scope {
            MemoryScope::Project => NotesScope::Project(self.project()),
            MemoryScope::Assistant => NotesScope::AllProjects,
        }
    }

    /// Replaces the folders that an earlier version recorded for threads by their projects. It does nothing once all
    /// of them are replaced, and may stop between two transactions.
    pub(crate) async fn resolve_recorded_folders(&self) -> Result<()> {
        let folders = self.journal.unresolved_folders().await?;
        for folders in folders.chunks(FOLDERS_PER_COMMIT_MAX) {
            let resolve = |folder: &String| {
                let project = project_name(Path::new(folder));
                Write::ResolveFolder { folder: folder.clone(), project }
            };
            let writes = folders.iter().map(resolve).collect();
            self.journal.commit(Transaction { fence: None, writes }).await?;
        }
        Ok(())
    }
}

/// Returns the path of the project of a folder as the journal stores it.
pub(crate) fn project_name(folder: &Path) -> String {
    find_project(folder).to_string_lossy().into_owned()
}

/// Returns the folder and its ancestors up to the root of its repository, the root first. Without a repository, returns
/// the folder only.
pub(crate) fn folders_from_root(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut folders: Vec<PathBuf> = match folder.ancestors().position(is_worktree_root) {
        Some(depth) => folder.ancestors().take(depth + 1).map(Path::to_owned).collect(),
        None => vec![folder],
    };
    folders.reverse();
    folders
}

/// Returns the project of a folder: the main worktree of its repository, or else the folder.
///
/// All worktrees of a repository are one project, and a submodule is a project of its own. A folder that does not exist
/// any more belongs to the repository that its nearest existing ancestor is in.
fn find_project(folder: &Path) -> PathBuf {
    let existing = folder.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    let root = existing
        .as_deref()
        .and_then(|existing| existing.ancestors().find(|ancestor| is_worktree_root(ancestor)));
    match root {
        Some(root) => main_worktree(root).unwrap_or_else(|| root.to_owned()),
        None => folder.canonicalize().unwrap_or_else(|_| folder.to_owned()),
    }
}

/// Returns whether a folder is the root of a worktree.
fn is_worktree_root(folder: &Path) -> bool {
    let link = folder.join(".git");
    link.join("HEAD").is_file() || link.is_file() && linked_git_folder(folder).is_some()
}

/// Returns the folder that the file `.git` of a worktree names.
fn linked_git_folder(worktree: &Path) -> Option<PathBuf> {
    let text = read_git_file(&worktree.join(".git"))?;
    let target = text.lines().next()?.strip_prefix("gitdir:")?.trim();
    Some(worktree.join(target))
}

/// Returns the main worktree of the repository of a linked worktree; `None` if `worktree` is the main worktree, or the
/// repository does not know the worktree. `worktree` is a canonical path.
///
/// A folder from an archive can contain any files of Git, and would be shown the memory of the project that they name. So
/// the repository must name the worktree, in a folder of its own.
fn main_worktree(worktree: &Path) -> Option<PathBuf> {
    let git_folder = linked_git_folder(worktree)?.canonicalize().ok()?;
    let common = git_folder.join(read_git_file(&git_folder.join("commondir"))?.trim()).canonicalize().ok()?;
    let named = git_folder.join(read_git_file(&git_folder.join("gitdir"))?.trim()).canonicalize().ok()?;
    if git_folder.parent() != Some(common.join("worktrees").as_path()) || named != worktree.join(".git") {
        return None;
    }
    match (common.file_name(), common.parent()) {
        (Some(name), Some(parent)) if name == ".git" => Some(parent.to_owned()),
        _ => Some(configured_worktree(&common).unwrap_or(common)),
    }
}

/// Returns the worktree that the configuration of a repository names, as for a submodule. `None` if that worktree does not
/// name the repository. `git_folder` is a canonical path.
fn configured_worktree(git_folder: &Path) -> Option<PathBuf> {
    let config = read_git_file(&git_folder.join("config"))?;
    let value = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "worktree").then(|| value.trim().to_owned())
    })?;
    let worktree = git_folder.join(value).canonicalize().ok()?;
    let is_mutual = linked_git_folder(&worktree)?.canonicalize().ok()? == git_folder;
    is_mutual.then_some(worktree)
}

/// Returns the beginning of a file of Git, if it is text.
fn read_git_file(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(GIT_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a repository and returns its root.
    fn repository(root: &Path) -> PathBuf {
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        root.canonicalize().unwrap()
    }

    /// Creates a worktree of the repository as `git worktree add` does.
    fn linked_worktree(root: &Path, worktree: &Path) -> PathBuf {
        let git_folder = root.join(".git/worktrees/linked");
        fs::create_dir_all(&git_folder).unwrap();
        fs::create_dir_all(worktree).unwrap();
        fs::write(git_folder.join("commondir"), "../..\n").unwrap();
        fs::write(git_folder.join("gitdir"), format!("{}\n", worktree.join(".git").display())).unwrap();
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", git_folder.display())).unwrap();
        worktree.canonicalize().unwrap()
    }

    #[test]
    fn folders_and_worktrees_of_a_repository_are_one_project() {
        let folder = tempfile::tempdir().unwrap();
        let root = repository(&folder.path().join("app"));
        fs::create_dir_all(root.join("src/deep")).unwrap();
        let worktree = linked_worktree(&root, &folder.path().join("feature"));
        fs::create_dir(worktree.join("src")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(root.join("src"), &link).unwrap();
        for path in
            [root.clone(), root.join("src/deep"), worktree.join("src"), worktree, link, root.join(".git")]
        {
            assert_eq!(find_project(&path), root, "{}", path.display());
        }
        assert_eq!(
            folders_from_root(&root.join("src/deep")),
            [root.clone(), root.join("src"), root.join("src/deep")]
        );
    }

    #[test]
    fn a_folder_outside_of_a_repository_is_its_own_project() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().canonicalize().unwrap();
        fs::create_dir(plain.join("inner")).unwrap();
        fs::create_dir(plain.join(".git")).unwrap();
        assert_eq!(find_project(&plain.join("inner")), plain.join("inner"));
        assert_eq!(folders_from_root(&plain.join("inner")), [plain.join("inner")]);
    }

    #[test]
    fn a_submodule_is_its_own_project_together_with_its_worktrees() {
        let folder = tempfile::tempdir().unwrap();
        let root = repository(&folder.path().join("app"));
        let (module, submodule) = (root.join(".git/modules/lib"), root.join("lib"));
        fs::create_dir_all(module.join("worktrees/linked")).unwrap();
        fs::create_dir_all(submodule.join("src")).unwrap();
        fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(module.join("config"), "[core]\n\tworktree = ../../../lib\n").unwrap();
        fs::write(submodule.join(".git"), "gitdir: ../.git/modules/lib\n").unwrap();
        assert_eq!(find_project(&submodule.join("src")), submodule);
        let worktree = folder.path().join("lib-feature");
        fs::create_dir(&worktree).unwrap();
        let git_folder = module.join("worktrees/linked");
        fs::write(git_folder.join("commondir"), "../..\n").unwrap();
        fs::write(git_folder.join("gitdir"), worktree.join(".git").to_str().unwrap()).unwrap();
        fs::write(worktree.join(".git"), format!("gitdir: {}\n", git_folder.display())).unwrap();
        assert_eq!(find_project(&worktree), submodule);
    }

    #[test]
    fn worktrees_of_a_bare_repository_are_one_project() {
        let folder = tempfile::tempdir().unwrap();
        let bare = folder.path().canonicalize().unwrap().join("app.git");
        for name in ["one", "two"] {
            let (git_folder, worktree) = (bare.join("worktrees").join(name), folder.path().join(name));
            fs::create_dir_all(&git_folder).unwrap();
            fs::create_dir(&worktree).unwrap();
            fs::write(git_folder.join("commondir"), "../..\n").unwrap();
            fs::write(git_folder.join("gitdir"), worktree.join(".git").to_str().unwrap()).unwrap();
            fs::write(worktree.join(".git"), format!("gitdir: {}\n", git_folder.display())).unwrap();
            assert_eq!(find_project(&worktree), bare);
        }
    }

    #[test]
    fn a_folder_cannot_claim_a_repository_that_does_not_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = repository(&folder.path().join("app"));
        linked_worktree(&root, &folder.path().join("feature"));
        let claiming = folder.path().canonicalize().unwrap().join("claiming");
        fs::create_dir(&claiming).unwrap();
        fs::copy(folder.path().join("feature/.git"), claiming.join(".git")).unwrap();
        assert_eq!(find_project(&claiming), claiming);
    }

    #[test]
    fn a_folder_cannot_claim_a_repository_with_git_files_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = repository(&folder.path().join("app"));
        let claiming = folder.path().canonicalize().unwrap().join("claiming");
        let git_folder = claiming.join("git/worktrees/linked");
        fs::create_dir_all(&git_folder).unwrap();
        fs::write(claiming.join(".git"), "gitdir: git/worktrees/linked\n").unwrap();
        fs::write(git_folder.join("gitdir"), claiming.join(".git").to_str().unwrap()).unwrap();
        // A folder of worktrees outside of the repository that it names.
        fs::write(git_folder.join("commondir"), root.join(".git").to_str().unwrap()).unwrap();
        assert_eq!(find_project(&claiming), claiming);
        // A repository whose configuration names a worktree that belongs to another one.
        fs::write(git_folder.join("commondir"), "../..\n").unwrap();
        fs::write(claiming.join("git/config"), format!("[core]\n\tworktree = {}\n", root.display())).unwrap();
        assert_eq!(find_project(&claiming), claiming.join("git"));
        // A link to the file of a worktree that the repository knows.
        let worktree = linked_worktree(&root, &folder.path().join("feature"));
        fs::remove_file(claiming.join(".git")).unwrap();
        std::os::unix::fs::symlink(worktree.join(".git"), claiming.join(".git")).unwrap();
        assert_eq!(find_project(&claiming), claiming);
    }

    #[test]
    fn a_folder_that_is_gone_belongs_to_the_repository_that_it_was_in() {
        let folder = tempfile::tempdir().unwrap();
        let root = repository(&folder.path().join("app"));
        assert_eq!(find_project(&root.join("gone/deep")), root);
        assert_eq!(find_project(Path::new("/nowhere/app")), Path::new("/nowhere/app"));
    }
}
