//! Opening and replacing files below the workspace, folder by folder and never through a link, so that nothing that
//! is swapped in between the check of a path and its use leads outside. Which path a call means is not decided here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use xattr::FileExt;

/// How often another name for the temporary file is tried.
const NAMES_MAX: u32 = 64;

/// A file of the workspace, which need not exist: its real path, links resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspacePath {
    root: PathBuf,
    relative: PathBuf,
}

/// A folder that is held open, and a name in it.
#[derive(Debug)]
pub(crate) struct DirEntryRef {
    folder: OwnedFd,
    name: OsString,
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    file: File,
    version: FileVersion,
    pub bytes: Vec<u8>,
}

/// Creation of missing parent folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderCreation {
    /// They must exist.
    MustExist,
    /// Missing ones are made.
    CreateMissing,
}

/// The outcome of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileReplaceOutcome {
    /// The place holds the new bytes, durably.
    Replaced,
    /// Someone else changed it meanwhile; nothing was done.
    Stale,
}

/// A stamp that tells one state of a file from another without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl WorkspacePath {
    /// Returns the target at `relative` below `root`; neither passes a link.
    pub fn new(root: &Path, relative: PathBuf) -> Self {
        Self { root: root.to_owned(), relative }
    }

    /// Returns its path relative to the workspace.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns its absolute path.
    pub fn absolute(&self) -> PathBuf {
        self.root.join(&self.relative)
    }

    /// Opens the folder of the target.
    pub fn open_parent(&self, folders: FolderCreation) -> io::Result<DirEntryRef> {
        let name = self.relative.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(&self.root, flags, Mode::empty())?;
        for part in self.relative.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            folder = open_folder(&folder, part, folders)?;
        }
        Ok(DirEntryRef { folder, name })
    }
}

fn open_folder(parent: &OwnedFd, name: &OsStr, folders: FolderCreation) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(parent, name, flags, Mode::empty());
    match open() {
        Err(Errno::NOENT) if folders == FolderCreation::CreateMissing => {
            match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => rustix::fs::fsync(parent)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(open()?)
        }
        opened => Ok(opened?),
    }
}

impl DirEntryRef {
    /// Opens the file for reading; `None` when there is none. Anything but a regular file is an error, without
    /// waiting for the other end of a pipe.
    pub fn open(&self) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !kind.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Some(file))
    }

    /// Reads the file, up to `bytes_max` and one byte; `None` when there is none.
    pub fn read(&self, bytes_max: u64) -> io::Result<Option<FileSnapshot>> {
        let Some(mut file) = self.open()? else { return Ok(None) };
        let stamp = FileVersion::from_file(&file)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(bytes_max + 1).read_to_end(&mut bytes)?;
        Ok(Some(FileSnapshot { file, version: stamp, bytes }))
    }

    /// Puts a file with `bytes` in this place in one step, with mode, owner and attributes of the one it replaces.
    /// The bytes, the name and the folder are on the disk when it returns.
    pub fn replace(&self, old: Option<&FileSnapshot>, bytes: &[u8]) -> io::Result<FileReplaceOutcome> {
        // What was nobody else's to read stays so while it is written; the mode of the old file comes with the rest.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let (mut file, temporary) = self.create_temporary(Mode::from_raw_mode(mode))?;
        file.write_all(bytes)?;
        if let Some(old) = old {
            copy_metadata(&old.file, &file)?;
        }
        file.sync_all()?;
        if self.version()? != old.map(|old| old.version) {
            return Ok(FileReplaceOutcome::Stale);
        }
        rustix::fs::renameat(&self.folder, &temporary.name, &self.folder, &self.name)?;
        rustix::fs::fsync(&self.folder)?;
        temporary.keep();
        Ok(FileReplaceOutcome::Replaced)
    }

    fn create_temporary(&self, mode: Mode) -> io::Result<(File, TempFileGuard<'_>)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..NAMES_MAX {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".segue-{}-{count}.tmp", std::process::id()));
            match rustix::fs::openat(&self.folder, &name, flags, mode) {
                Ok(file) => {
                    return Ok((
                        File::from(file),
                        TempFileGuard { folder: &self.folder, name, is_kept: false },
                    ));
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns what is in this place; `None` for nothing.
    fn version(&self) -> io::Result<Option<FileVersion>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(file) => FileVersion::from_file(&File::from(file)).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A file that is removed again unless it gets its own name.
struct TempFileGuard<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    is_kept: bool,
}

impl TempFileGuard<'_> {
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for TempFileGuard<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = rustix::fs::unlinkat(self.folder.as_fd(), &self.name, AtFlags::empty());
        }
    }
}

impl FileVersion {
    fn from_file(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        })
    }
}

fn copy_metadata(old: &File, new: &File) -> io::Result<()> {
    let (was, is) = (old.metadata()?, new.metadata()?);
    if was.permissions().mode() & 0o222 == 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    if (was.uid(), was.gid()) != (is.uid(), is.gid()) {
        // Only the system's owner may give files away; the mode below is set all the same.
        let _ = fchown(new, Some(was.uid()), Some(was.gid())).or_else(|_| fchown(new, None, Some(was.gid())));
    }
    for name in old.list_xattr().into_iter().flatten() {
        if let Ok(Some(value)) = old.get_xattr(&name) {
            let _ = new.set_xattr(&name, &value);
        }
    }
    new.set_permissions(was.permissions())
}

#[cfg(test)]
mod tests;
