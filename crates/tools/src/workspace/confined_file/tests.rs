//! Files and folders that are swapped between the check of a path and its use.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

struct PathFixture {
    outer: tempfile::TempDir,
    target: WorkspacePath,
}

impl PathFixture {
    /// Returns the target `src/a` in a workspace; beside it lies a folder `outside` with an `a` of its own.
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().canonicalize().unwrap().join("work");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir(outer.path().join("outside")).unwrap();
        fs::write(outer.path().join("outside/a"), "theirs").unwrap();
        fs::write(root.join("src/a"), "ours").unwrap();
        Self { outer, target: WorkspacePath::new(&root, PathBuf::from("src/a")) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join(name)
    }

    fn swap_folder(&self) {
        fs::rename(self.path("work/src"), self.path("work/moved")).unwrap();
        symlink(self.path("outside"), self.path("work/src")).unwrap();
    }

    fn foreign_text(&self) -> String {
        assert_eq!(fs::read_dir(self.path("outside")).unwrap().count(), 1);
        fs::read_to_string(self.path("outside/a")).unwrap()
    }
}

#[test]
fn k6_a_folder_that_became_a_link_is_not_passed() {
    let bench = PathFixture::new();
    bench.swap_folder();
    for folders in [FolderCreation::MustExist, FolderCreation::CreateMissing] {
        assert!(bench.target.open_parent(folders).is_err());
    }
    assert_eq!(bench.foreign_text(), "theirs");
}

#[test]
fn k6_a_folder_that_is_held_open_stays_the_same_whatever_takes_its_name() {
    let bench = PathFixture::new();
    let place = bench.target.open_parent(FolderCreation::MustExist).unwrap();
    bench.swap_folder();
    let found = place.read(100).unwrap().unwrap();
    assert_eq!(found.bytes, b"ours");
    assert_eq!(place.replace(Some(&found), b"new").unwrap(), FileReplaceOutcome::Replaced);
    assert_eq!(fs::read_to_string(bench.path("work/moved/a")).unwrap(), "new");
    assert_eq!(bench.foreign_text(), "theirs");
}

#[test]
fn k6_a_file_that_became_a_link_is_neither_read_nor_written() {
    let bench = PathFixture::new();
    let place = bench.target.open_parent(FolderCreation::MustExist).unwrap();
    let found = place.read(100).unwrap();
    fs::remove_file(bench.path("work/src/a")).unwrap();
    symlink(bench.path("outside/a"), bench.path("work/src/a")).unwrap();
    assert!(place.open().is_err());
    assert!(place.replace(found.as_ref(), b"new").is_err());
    assert_eq!(bench.foreign_text(), "theirs");
    assert_eq!(fs::read_dir(bench.path("work/src")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_file_that_someone_else_changed_meanwhile_is_left_alone() {
    let bench = PathFixture::new();
    let place = bench.target.open_parent(FolderCreation::MustExist).unwrap();
    let found = place.read(100).unwrap();
    fs::write(bench.path("work/src/a"), "someone else's").unwrap();
    assert_eq!(place.replace(found.as_ref(), b"new").unwrap(), FileReplaceOutcome::Stale);
    assert_eq!(place.replace(None, b"new").unwrap(), FileReplaceOutcome::Stale, "it was to be a new file");
    assert_eq!(fs::read_to_string(bench.path("work/src/a")).unwrap(), "someone else's");
    fs::remove_file(bench.path("work/src/a")).unwrap();
    assert_eq!(place.replace(found.as_ref(), b"new").unwrap(), FileReplaceOutcome::Stale, "it is gone");
    assert_eq!(place.replace(None, b"new").unwrap(), FileReplaceOutcome::Replaced);
    assert_eq!(fs::read_dir(bench.path("work/src")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_other_end() {
    let bench = PathFixture::new();
    fs::remove_file(bench.path("work/src/a")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(bench.path("work/src/a")).status().unwrap();
    assert!(made.success());
    let place = bench.target.open_parent(FolderCreation::MustExist).unwrap();
    assert!(place.open().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn k6_nobody_else_can_read_the_new_bytes_of_a_private_file_while_they_are_written() {
    let bench = PathFixture::new();
    let path = bench.path("work/src/a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let place = bench.target.open_parent(FolderCreation::MustExist).unwrap();
    let found = place.read(100).unwrap();
    let (started, stop) = (std::sync::Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
    let folder = bench.path("work/src");
    let modes = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut modes = Vec::new();
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&folder).unwrap().flatten() {
                    modes.extend(entry.metadata().ok().map(|found| found.mode() & 0o777));
                }
            }
            modes
        });
        started.wait();
        place.replace(found.as_ref(), &vec![b'x'; 8 << 20]).unwrap();
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}
