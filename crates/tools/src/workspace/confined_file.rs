//! Opening and atomically replacing files below the workspace without following links.
//!
//! Every folder on the way is opened relative to its parent with `O_NOFOLLOW`. If another process replaces a folder by
//! a link after the path was checked (a time-of-check to time-of-use race), the open fails instead of leading outside.
//! Resolving the path of a call is the task of [`super::Workspace`].

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

/// Number of names that are tried for a temporary file before creating it fails.
const NAMES_MAX: u32 = 64;

/// The real path of a file in the workspace, with links resolved. The file need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspacePath {
    /// Absolute path of the workspace.
    root: PathBuf,
    /// Path of the file, relative to `root`.
    relative: PathBuf,
}

/// An open folder and the name of an entry in it. The entry need not exist.
#[derive(Debug)]
pub(crate) struct DirEntryRef {
    folder: OwnedFd,
    name: OsString,
}

/// The content of a file with the version at which it was read.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    /// The open file; a replacement copies its mode, owner and extended attributes.
    file: File,
    version: FileVersion,
    /// The content, possibly cut at the caller's limit.
    pub bytes: Vec<u8>,
}

/// Handling of missing parent folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FolderCreation {
    /// A missing folder is an error.
    MustExist,
    /// Missing folders are created.
    CreateMissing,
}

/// The outcome of replacing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileReplaceOutcome {
    /// The file has the new content, and the content is durable.
    Replaced,
    /// Another process changed the file since it was read. Nothing was written.
    Stale,
}

/// A stamp that changes when a file is replaced or modified, so that a change is detected without reading the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    /// Size in bytes.
    size: u64,
    /// Modification time as seconds and nanoseconds since the Unix epoch.
    modified: (i64, i64),
}

impl WorkspacePath {
    /// Returns the path `relative` below `root`. The caller must have resolved the links of both.
    pub fn new(root: &Path, relative: PathBuf) -> Self {
        Self { root: root.to_owned(), relative }
    }

    /// Returns the path relative to the workspace.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns the absolute path.
    pub fn absolute(&self) -> PathBuf {
        self.root.join(&self.relative)
    }

    /// Opens the folder that contains the file, following no link below the workspace's root.
    ///
    /// # Errors
    /// Returns an error if a parent folder is missing (unless it is created), is a link or not a folder, or if the path
    /// names the workspace itself.
    pub fn open_parent(&self, folders: FolderCreation) -> io::Result<DirEntryRef> {
        let name = self.relative.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(&self.root, flags, Mode::empty())?;
        for component in self.relative.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = component else { return Err(io::ErrorKind::InvalidInput.into()) };
            folder = open_folder(&folder, name, folders)?;
        }
        Ok(DirEntryRef { folder, name })
    }
}

/// Opens the folder `name` in `parent` without following a link. A folder that is created is made durable with an
/// `fsync` of its parent.
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
    /// Opens the file for reading, or returns `None` if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the entry is a link or anything but a regular file. Opening a named pipe fails at once instead
    /// of waiting for a writer, because of `O_NONBLOCK`.
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
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Some(file))
    }

    /// Reads at most `bytes_max + 1` bytes of the file, or returns `None` if it does not exist. The extra byte tells
    /// the caller that the file is larger than `bytes_max`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`] and of reading.
    pub fn read(&self, bytes_max: u64) -> io::Result<Option<FileSnapshot>> {
        let Some(mut file) = self.open()? else { return Ok(None) };
        let version = FileVersion::from_file(&file)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(bytes_max + 1).read_to_end(&mut bytes)?;
        Ok(Some(FileSnapshot { file, version, bytes }))
    }

    /// Replaces the file with `bytes` atomically: writes a temporary file in the same folder and renames it. The new
    /// file gets the mode, owner and extended attributes of the old one. `old` is the file as it was read; `None`
    /// means that the file must not exist.
    ///
    /// Content and name are durable when the function returns (`fsync` of the file and of the folder). A change by
    /// another process is detected up to the moment before the rename; a change between that check and the rename is
    /// overwritten.
    ///
    /// # Errors
    /// Returns an error if the old file is read-only or an I/O operation fails. The temporary file is removed then.
    pub fn replace(&self, old: Option<&FileSnapshot>, bytes: &[u8]) -> io::Result<FileReplaceOutcome> {
        // The content of a private file must not be readable by others while it is written. The old file's mode is set
        // afterwards.
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

    /// Creates a temporary file in the folder, with a guard that removes it.
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

    /// Returns the version of the file that has the name at this moment, or `None` if there is none.
    fn version(&self) -> io::Result<Option<FileVersion>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(file) => FileVersion::from_file(&File::from(file)).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// A temporary file. Dropping the guard removes the file, unless it was renamed to its final name.
struct TempFileGuard<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    /// True once the file has its final name.
    is_kept: bool,
}

impl TempFileGuard<'_> {
    /// Disarms the guard after the rename.
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
    /// Reads the version of an open file.
    fn from_file(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// Copies owner, extended attributes and mode from the old file to the new one. Owner and attributes are copied as far
/// as the system allows.
///
/// # Errors
/// Returns an error if the old file is read-only: a rename would silently override that protection.
fn copy_metadata(old: &File, new: &File) -> io::Result<()> {
    let (old_metadata, new_metadata) = (old.metadata()?, new.metadata()?);
    if old_metadata.permissions().mode() & 0o222 == 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    let (uid, gid) = (old_metadata.uid(), old_metadata.gid());
    if (uid, gid) != (new_metadata.uid(), new_metadata.gid()) {
        // Usually only root may change a file's owner. The mode is set below even if this fails.
        let _ = fchown(new, Some(uid), Some(gid)).or_else(|_| fchown(new, None, Some(gid)));
    }
    for name in old.list_xattr().into_iter().flatten() {
        if let Ok(Some(value)) = old.get_xattr(&name) {
            let _ = new.set_xattr(&name, &value);
        }
    }
    new.set_permissions(old_metadata.permissions())
}

#[cfg(test)]
mod tests;
