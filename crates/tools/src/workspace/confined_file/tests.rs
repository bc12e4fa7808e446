//! Races between the check of a path and its use: files and folders that are replaced in between.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A workspace and a target path in it.
struct PathFixture {
    outer: tempfile::TempDir,
    target: WorkspacePath,
}

impl PathFixture {
    /// Creates a workspace with the target file `src/a`, and next to it a folder `outside` with another file `a`.
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

    /// Replaces the folder `src` by a link to the folder `outside`.
    fn swap_folder(&self) {
        fs::rename(self.path("work/src"), self.path("work/moved")).unwrap();
        symlink(self.path("outside"), self.path("work/src")).unwrap();
    }

    /// Returns the text of the file outside, and checks that no other file was created there.
    fn foreign_text(&self) -> String {
        assert_eq!(fs::read_dir(self.path("outside")).unwrap().count(), 1);
        fs::read_to_string(self.path("outside/a")).unwrap()
    }
}

#[test]
fn k6_a_folder_that_became_a_link_is_not_followed() {
    let fixture = PathFixture::new();
    fixture.swap_folder();
    for folders in [FolderCreation::MustExist, FolderCreation::CreateMissing] {
        assert!(fixture.target.open_parent(folders).is_err());
    }
    assert_eq!(fixture.foreign_text(), "theirs");
}

#[test]
fn k6_an_open_folder_is_used_even_after_it_was_renamed() {
    let fixture = PathFixture::new();
    let entry = fixture.target.open_parent(FolderCreation::MustExist).unwrap();
    fixture.swap_folder();
    let snapshot = entry.read(100).unwrap().unwrap();
    assert_eq!(snapshot.bytes, b"ours");
    assert_eq!(entry.replace(Some(&snapshot), b"new").unwrap(), FileReplaceOutcome::Replaced);
    assert_eq!(fs::read_to_string(fixture.path("work/moved/a")).unwrap(), "new");
    assert_eq!(fixture.foreign_text(), "theirs");
}

#[test]
fn k6_a_file_that_became_a_link_is_neither_read_nor_written() {
    let fixture = PathFixture::new();
    let entry = fixture.target.open_parent(FolderCreation::MustExist).unwrap();
    let snapshot = entry.read(100).unwrap();
    fs::remove_file(fixture.path("work/src/a")).unwrap();
    symlink(fixture.path("outside/a"), fixture.path("work/src/a")).unwrap();
    assert!(entry.open().is_err());
    assert!(entry.replace(snapshot.as_ref(), b"new").is_err());
    assert_eq!(fixture.foreign_text(), "theirs");
    assert_eq!(fs::read_dir(fixture.path("work/src")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_file_that_another_process_changed_is_not_replaced() {
    let fixture = PathFixture::new();
    let entry = fixture.target.open_parent(FolderCreation::MustExist).unwrap();
    let snapshot = entry.read(100).unwrap();
    fs::write(fixture.path("work/src/a"), "someone else's").unwrap();
    assert_eq!(entry.replace(snapshot.as_ref(), b"new").unwrap(), FileReplaceOutcome::Stale);
    assert_eq!(
        entry.replace(None, b"new").unwrap(),
        FileReplaceOutcome::Stale,
        "the file was expected to be missing"
    );
    assert_eq!(fs::read_to_string(fixture.path("work/src/a")).unwrap(), "someone else's");
    fs::remove_file(fixture.path("work/src/a")).unwrap();
    assert_eq!(
        entry.replace(snapshot.as_ref(), b"new").unwrap(),
        FileReplaceOutcome::Stale,
        "the file was removed"
    );
    assert_eq!(entry.replace(None, b"new").unwrap(), FileReplaceOutcome::Replaced);
    assert_eq!(fs::read_dir(fixture.path("work/src")).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn a_named_pipe_is_refused_without_waiting_for_a_writer() {
    let fixture = PathFixture::new();
    fs::remove_file(fixture.path("work/src/a")).unwrap();
    let status = std::process::Command::new("mkfifo").arg(fixture.path("work/src/a")).status().unwrap();
    assert!(status.success());
    let entry = fixture.target.open_parent(FolderCreation::MustExist).unwrap();
    assert!(entry.open().unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn k6_a_private_file_is_never_readable_by_others_while_it_is_replaced() {
    let fixture = PathFixture::new();
    let path = fixture.path("work/src/a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let entry = fixture.target.open_parent(FolderCreation::MustExist).unwrap();
    let snapshot = entry.read(100).unwrap();
    let (started, stop) = (std::sync::Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
    let folder = fixture.path("work/src");
    let modes = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut modes = Vec::new();
            started.wait();
            while !stop.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&folder).unwrap().flatten() {
                    modes.extend(entry.metadata().ok().map(|metadata| metadata.mode() & 0o777));
                }
            }
            modes
        });
        started.wait();
        entry.replace(snapshot.as_ref(), &vec![b'x'; 8 << 20]).unwrap();
        stop.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    assert!(modes.iter().all(|mode| *mode == 0o600), "{modes:?}");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}
