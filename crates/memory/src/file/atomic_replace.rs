//! Atomic replacement of one file under a lock, without losing concurrent writes of other programs. This module
//! does not interpret the file's content.
//!
//! A program that takes no lock may append while the new file is being written, or may have opened the old file
//! before the rename and write to it afterwards. The first case is detected by reading the file again right
//! before the rename. For the second case the old file is kept open as a [`RetiredFile`], and text written to it
//! is appended to the new file. One gap remains: a program that opened the file before the rename and writes
//! after this process last checked. The check happens after the folder has been synced to disk, and again at each
//! later write.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use crate::{AGENT_MD_BYTES_MAX, Error, Result, managed_block};

/// Maximum time to wait for another process to release the lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(30);
/// Maximum number of links followed for a missing target.
const LINKS_MAX: u32 = 16;
/// Suffix of temporary files. Their names begin with a dot and the name of the file they replace.
const TEMPORARY_SUFFIX: &str = ".segue-tmp";
/// Maximum number of attempts to open the lock file while other programs remove it.
const LOCK_FILES_MAX: u32 = 8;
/// Maximum number of times a growing file is read again before it is replaced.
const TAIL_READS_MAX: u32 = 8;
/// Number of extra reads of a file that ends with an incomplete line, and the pause between them.
const PARTIAL_LINE_READS_MAX: u32 = 20;
const PARTIAL_LINE_PAUSE: Duration = Duration::from_millis(1);
/// Maximum number of bytes read from a retired file, 16 MiB.
const LATE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// An open file with the content that was read from it.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub file: File,
    /// The content, from the beginning of the file.
    pub bytes: Vec<u8>,
}

/// A file that was replaced but that another program may still have open for writing.
#[derive(Debug)]
pub(crate) struct RetiredFile {
    opened_file: OpenedFile,
    /// Size and modification time at the last read.
    last_stat: Option<(u64, SystemTime)>,
}

/// The outcome of an attempt to replace a file.
#[derive(Debug)]
pub(crate) enum ReplaceOutcome {
    /// The file was replaced. Holds the replaced file, if there was one.
    Replaced(Option<RetiredFile>),
    /// The file changed since it was read; nothing was done.
    Stale,
}

/// The change of a file between being read and being replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TailState {
    /// The file is unchanged.
    Unchanged,
    /// Text was appended; the new file has it too.
    Appended,
    /// The file changed in another way.
    Conflicting,
}

/// The result of a check for late writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateWrites {
    /// Late text was found and appended to the file.
    Rescued,
    /// There was no late text.
    NoneFound,
}

/// Returns `path` with all links resolved. The target need not exist.
pub(crate) fn resolve_links(path: &Path) -> Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        match fs::canonicalize(&path) {
            Ok(target) => return Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::from_io("find", &path)(error)),
        }
        match fs::read_link(&path) {
            Ok(link) => path = parent_folder(&path).join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(Error::NotAFile { path })
}

/// Returns the file's content, or `None` when there is no file. Reads at most [`AGENT_MD_BYTES_MAX`] + 1 bytes,
/// so that the caller can detect a longer file.
pub(crate) fn read_file(path: &Path) -> Result<Option<OpenedFile>> {
    match fs::metadata(path) {
        // Opening a pipe would block until another program writes to it.
        Ok(metadata) if !metadata.is_file() => return Err(Error::NotAFile { path: path.to_path_buf() }),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::from_io("read", path)(error)),
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::from_io("read", path)(error)),
    };
    let bytes = read_all(&mut file, AGENT_MD_BYTES_MAX + 1).map_err(Error::from_io("read", path))?;
    Ok(Some(OpenedFile { file, bytes }))
}

/// Acquires the lock next to `target`. Creates the folder and the lock file when they are missing.
///
/// Dropping the returned file releases the lock. The lock file is never removed, because after a removal two
/// processes could lock two different files.
pub(crate) fn lock_target(target: &Path) -> Result<File> {
    let folder = parent_folder(target);
    create_private_folders(folder).map_err(Error::from_io("create", folder))?;
    let path = lock_path(target);
    for _ in 0..LOCK_FILES_MAX {
        let file = set_private_mode(OpenOptions::new().create(true).truncate(false).read(true).write(true))
            .open(&path)
            .map_err(Error::from_io("open", &path))?;
        let file = wait_for_lock(file, &path)?;
        // Another program may have removed the lock file during the wait; then other processes lock its
        // successor.
        if is_file_at(&file, &path) {
            return Ok(file);
        }
    }
    Err(Error::Locked { path, waited: Duration::ZERO })
}

/// Returns the path of the lock file of `target`.
pub(crate) fn lock_path(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_os_string();
    name.push(".lock");
    parent_folder(target).join(name)
}

/// Waits up to [`LOCK_WAIT_MAX`] for the lock on an open file.
fn wait_for_lock(file: File, path: &Path) -> Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::WouldBlock) => {}
        Err(fs::TryLockError::Error(error)) => return Err(Error::from_io("lock", path)(error)),
    }
    // `File::lock` has no timeout, so a separate thread waits. A lock acquired too late is released at once,
    // because the receiver is gone.
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("agent-md-lock".to_owned())
        .spawn(move || sender.send(file.lock().map(|()| file)))
        .map_err(Error::from_io("lock", path))?;
    match receiver.recv_timeout(LOCK_WAIT_MAX) {
        Ok(locked) => locked.map_err(Error::from_io("lock", path)),
        Err(_) => Err(Error::Locked { path: path.to_path_buf(), waited: LOCK_WAIT_MAX }),
    }
}

/// Removes temporary files of `target` that a killed process left. The caller must hold the lock.
pub(crate) fn remove_stale_temporaries(target: &Path) {
    let prefix = temporary_prefix(target);
    for entry in fs::read_dir(parent_folder(target)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&prefix) && name.ends_with(TEMPORARY_SUFFIX)) {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the prefix of the names of temporary files of `target`.
fn temporary_prefix(target: &Path) -> String {
    format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy())
}

/// Replaces `target` by a file with `bytes`, durably and in one rename. Text appended to `target` since it was read is
/// appended to the new file; any other change makes the attempt stale. The caller must hold the lock.
///
/// `read_as` is the file as the caller read it; `None` if it did not exist.
///
/// # Errors
/// When a file operation fails. `target` is then either the old file or, if only the sync of the folder failed, the new
/// one.
pub(crate) fn replace_file(
    target: &Path,
    mut read_as: Option<OpenedFile>,
    bytes: &[u8],
) -> Result<ReplaceOutcome> {
    let on = |action| Error::from_io(action, target);
    let folder = parent_folder(target);
    let mut temporary = tempfile::Builder::new()
        .prefix(&temporary_prefix(target))
        .suffix(TEMPORARY_SUFFIX)
        .tempfile_in(folder)
        .map_err(on("create a temporary file beside"))?;
    temporary.write_all(bytes).map_err(on("write"))?;
    if let Some(old) = &read_as {
        copy_metadata(target, old, &temporary)?;
    }
    temporary.as_file().sync_all().map_err(on("write"))?;
    let tail = copy_tail(target, read_as.as_mut(), &mut temporary)?;
    if tail == TailState::Conflicting {
        return Ok(ReplaceOutcome::Stale);
    }
    let persisted = match &read_as {
        Some(_) => temporary.persist(target),
        None => temporary.persist_noclobber(target),
    };
    match persisted {
        Ok(file) if tail == TailState::Appended => file.sync_data().map_err(on("write"))?,
        Ok(_) => {}
        Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => {
            return Ok(ReplaceOutcome::Stale);
        }
        Err(failed) => return Err(on("replace")(failed.error)),
    }
    sync_folder(folder).map_err(on("write the folder of"))?;
    Ok(ReplaceOutcome::Replaced(read_as.map(|content| RetiredFile { opened_file: content, last_stat: None })))
}

/// Appends to `target` the text written to `retired` since it was last read.
///
/// If the retired file was rewritten rather than appended to, the lines that `target` lacks are appended.
pub(crate) fn rescue_late_writes(target: &Path, retired: &mut RetiredFile) -> Result<LateWrites> {
    let on = |action| Error::from_io(action, target);
    let known = &retired.opened_file.bytes;
    let metadata = retired.opened_file.file.metadata().map_err(on("read what replaced"))?;
    let stat = metadata.modified().ok().map(|modified| (metadata.len(), modified));
    if stat.is_some() && stat == retired.last_stat {
        return Ok(LateWrites::NoneFound);
    }
    let file = &mut retired.opened_file.file;
    let bytes = read_to_line_end(known, || read_all(file, LATE_BYTES_MAX).map_err(on("read what replaced")))?;
    if bytes == *known {
        retired.last_stat = stat;
        return Ok(LateWrites::NoneFound);
    }
    let present = read_file(target)?.map(|content| content.bytes).unwrap_or_default();
    let mut tail = match bytes.strip_prefix(known.as_slice()) {
        Some(tail) => tail.to_vec(),
        None => missing_lines(&bytes, &present),
    };
    let begins_a_line = known.is_empty() || known.ends_with(b"\n");
    if begins_a_line && !present.is_empty() && !present.ends_with(b"\n") {
        tail.insert(0, b'\n');
    }
    // Append in place: a second replacement would open the same gap again.
    let mut file = OpenOptions::new().append(true).create(true).open(target).map_err(on("append to"))?;
    file.write_all(&tail).and_then(|()| file.sync_data()).map_err(on("append to"))?;
    retired.opened_file.bytes = bytes;
    Ok(LateWrites::Rescued)
}

/// Writes `bytes` to the first free name among `path`, `path-2`, `path-3`, …, and syncs the file. Returns the
/// name.
pub(crate) fn write_backup(path: &Path, bytes: &[u8]) -> Result<PathBuf> {
    let mut number = 1_u32;
    loop {
        let mut name = path.as_os_str().to_os_string();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let name = PathBuf::from(name);
        match set_private_mode(OpenOptions::new().create_new(true).write(true)).open(&name) {
            Ok(mut file) => {
                file.write_all(bytes)
                    .and_then(|()| file.sync_all())
                    .map_err(Error::from_io("write", &name))?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::from_io("create", &name)(error)),
        }
    }
}

/// Copies mode, owner and extended attributes of the old file to the new one.
fn copy_metadata(target: &Path, old: &OpenedFile, new: &NamedTempFile) -> Result<()> {
    let metadata = old.file.metadata().map_err(Error::from_io("read", target))?;
    if metadata.permissions().readonly() {
        return Err(Error::NotPermitted { path: target.to_path_buf() });
    }
    copy_owner(&metadata, new.as_file());
    copy_attributes(target, new.path());
    new.as_file().set_permissions(metadata.permissions()).map_err(Error::from_io("set the mode of", target))
}

/// Appends to `new` the text that `target` gained since it was read.
fn copy_tail(target: &Path, read_as: Option<&mut OpenedFile>, new: &mut NamedTempFile) -> Result<TailState> {
    let Some(known) = read_as else {
        return Ok(if read_file(target)?.is_none() { TailState::Unchanged } else { TailState::Conflicting });
    };
    let mut tail = TailState::Unchanged;
    for _ in 0..TAIL_READS_MAX {
        let read_again = || Ok(read_file(target)?.map(|content| content.bytes).unwrap_or_default());
        let current = read_to_line_end(&known.bytes, read_again)?;
        match current.strip_prefix(known.bytes.as_slice()) {
            Some([]) => return Ok(tail),
            Some(more) if is_within_limit(&current) => {
                new.write_all(more).map_err(Error::from_io("write", target))?
            }
            Some(_) | None => return Ok(TailState::Conflicting),
        }
        known.bytes = current;
        tail = TailState::Appended;
    }
    // Another program appends without a pause. The remaining text is rescued from the retired file later.
    Ok(tail)
}

/// Repeats `read` for a while until the text after `known` ends with a line break: a single write can become
/// visible in pieces, and the pieces of a line must not be split between two files.
fn read_to_line_end(known: &[u8], mut read: impl FnMut() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let mut bytes = read()?;
    for _ in 0..PARTIAL_LINE_READS_MAX {
        if bytes.len() <= known.len() || bytes.ends_with(b"\n") {
            break;
        }
        thread::sleep(PARTIAL_LINE_PAUSE);
        bytes = read()?;
    }
    Ok(bytes)
}

/// Returns the lines of `bytes` outside the block that `present` lacks.
fn missing_lines(bytes: &[u8], present: &[u8]) -> Vec<u8> {
    let present: HashSet<&[u8]> = present.split(|byte| *byte == b'\n').collect();
    let other = managed_block::remove_blocks(bytes);
    let missing = other.split(|byte| *byte == b'\n').filter(|line| !present.contains(line));
    missing.flat_map(|line| [line, b"\n".as_slice()].concat()).collect()
}

/// Returns whether `bytes` fits within [`AGENT_MD_BYTES_MAX`].
pub(crate) fn is_within_limit(bytes: &[u8]) -> bool {
    bytes.len() as u64 <= AGENT_MD_BYTES_MAX
}

/// Reads the file from its start, at most `bytes_max` bytes.
fn read_all(file: &mut File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    Read::by_ref(file).take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the folder of the path; `.` for a bare name.
fn parent_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// Returns whether `path` still names the open file.
fn is_file_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (file.metadata(), fs::metadata(path)) {
            (Ok(open), Ok(named)) => id(open) == id(named),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// Creates the folder and its missing parents with mode 0700.
fn create_private_folders(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Sets the mode of a file to be created to 0600.
fn set_private_mode(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Copies owner and group of the old file where the system permits it. Usually both files already belong to this
/// user.
fn copy_owner(old: &fs::Metadata, new: &File) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let same = new.metadata().is_ok_and(|new| new.uid() == old.uid() && new.gid() == old.gid());
        if !same {
            let _ =
                fchown(new, Some(old.uid()), Some(old.gid())).or_else(|_| fchown(new, None, Some(old.gid())));
        }
    }
    #[cfg(not(unix))]
    let _ = (old, new);
}

/// Copies extended attributes (access control lists, labels) where the system permits it.
fn copy_attributes(old: &Path, new: &Path) {
    #[cfg(unix)]
    for name in xattr::list(old).into_iter().flatten() {
        if let Ok(Some(value)) = xattr::get(old, &name) {
            let _ = xattr::set(new, &name, &value);
        }
    }
    #[cfg(not(unix))]
    let _ = (old, new);
}

/// Syncs the folder to disk, so that a rename in it is durable.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
