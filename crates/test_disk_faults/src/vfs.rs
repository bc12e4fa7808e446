//! The registration of the simulated disk as SQLite's default file system (VFS), and the functions that SQLite calls. They pass
//! operations on to the previous default and report them to [`crate::disk`], which decides about their outcome.
//!
//! A file is opened by the previous VFS, in the memory that SQLite provides for it. Then its table of methods is replaced by a
//! copy in which four methods are those of this module. So locks and shared memory are handled by the previous VFS alone. The
//! copy has version 2 of the table, in which SQLite does not map files into memory, so that it reads and writes them by methods.

#![expect(unsafe_code, reason = "SQLite calls its file system through C function pointers")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rusqlite::ffi::{self, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use crate::disk::{DISK, DiskError, FileOrigin};
use crate::error::Error;
use crate::fault::DiskOperation;
use crate::file::FileChange;

/// The name of the simulated VFS.
const VFS_NAME: &CStr = c"faulty-disk";
/// The newest version of the table of methods without memory-mapped files.
const METHODS_VERSION: c_int = 2;

/// The VFS that was the default before. It is set before the simulated one is registered.
static PREVIOUS_VFS: AtomicPtr<sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// The open files, by the address of SQLite's memory for them. An entry stays when its file is closed, until another file is
/// opened at the address.
static OPEN_FILES: Mutex<BTreeMap<usize, OpenFile>> = Mutex::new(BTreeMap::new());

/// The tables with methods of this module, by the address of the table that they replace.
static SIMULATED_METHODS: Mutex<BTreeMap<usize, &'static sqlite3_io_methods>> = Mutex::new(BTreeMap::new());

/// A file of the simulated disk that SQLite has opened.
#[derive(Clone)]
struct OpenFile {
    /// The methods of the previous VFS.
    methods: &'static sqlite3_io_methods,
    /// The path.
    path: Arc<Path>,
}

/// Registers the simulated disk as the default VFS of this process, once.
///
/// # Errors
/// [`Error::Registration`].
pub(crate) fn register() -> Result<(), Error> {
    static CODE: OnceLock<c_int> = OnceLock::new();
    match *CODE.get_or_init(register_vfs) {
        ffi::SQLITE_OK => Ok(()),
        code => Err(Error::Registration { code }),
    }
}

/// Registers a copy of the default VFS with functions of this module. Returns SQLite's code.
fn register_vfs() -> c_int {
    // SAFETY: a null pointer asks for the default VFS.
    let previous = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if previous.is_null() {
        return ffi::SQLITE_ERROR;
    }
    PREVIOUS_VFS.store(previous, Ordering::Release);
    // SAFETY: the pointer is not null, and SQLite never frees its default VFS.
    let previous = unsafe { *previous };
    let simulated = Box::leak(Box::new(sqlite3_vfs {
        pNext: ptr::null_mut(),
        zName: VFS_NAME.as_ptr(),
        xOpen: Some(open),
        xDelete: Some(delete),
        ..previous
    }));
    // SAFETY: the VFS and its name are never freed. The functions that it has from the previous VFS read nothing of a VFS that
    // differs in the copy: its name and its successor are read by SQLite only.
    unsafe { ffi::sqlite3_vfs_register(simulated, 1) }
}

/// Opens a file (`xOpen`).
unsafe extern "C" fn open(
    _vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a null pointer, for a temporary file, or a text that ends with a zero byte.
    let path = unsafe { simulated_path(name) };
    let Some(path) = path else {
        // SAFETY: the arguments are those of SQLite.
        return unsafe { open_previous(name, file, flags, out_flags) };
    };
    let begun = DISK.lock().begin_open(&path);
    let origin = match begun {
        Ok(origin) => origin,
        Err(error) => {
            // SAFETY: SQLite passes memory for the file. It does not close a file without methods.
            unsafe { (*file).pMethods = ptr::null() };
            return result_code(DiskOperation::Open, error);
        }
    };
    // SAFETY: the arguments are those of SQLite.
    let code = unsafe { open_previous(name, file, flags, out_flags) };
    if code == ffi::SQLITE_OK {
        if origin == FileOrigin::Missing {
            DISK.lock().record(&path, FileChange::Create);
        }
        // SAFETY: an open file has a table of methods, and the tables of the previous VFS are static.
        let methods: &'static sqlite3_io_methods = unsafe { &*(*file).pMethods };
        OPEN_FILES.lock().insert(file.addr(), OpenFile { methods, path: path.into() });
        // SAFETY: as above. The new table has the same methods, or methods of this module that accept a file of this address.
        unsafe { (*file).pMethods = simulated_methods(methods) };
    }
    code
}

/// Opens a file with the previous VFS.
///
/// # Safety
/// The arguments are those that SQLite passes to `xOpen`.
unsafe fn open_previous(
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let previous = PREVIOUS_VFS.load(Ordering::Acquire);
    // SAFETY: SQLite calls this module only after it was registered, and the pointer was set before.
    match unsafe { (*previous).xOpen } {
        // SAFETY: the caller guarantees the arguments.
        Some(open) => unsafe { open(previous, name, file, flags, out_flags) },
        None => ffi::SQLITE_CANTOPEN,
    }
}

/// Deletes a file (`xDelete`).
unsafe extern "C" fn delete(_vfs: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite passes a text that ends with a zero byte.
    let path = unsafe { simulated_path(name) };
    if path.is_some()
        && let Err(error) = DISK.lock().admit(DiskOperation::Delete)
    {
        return result_code(DiskOperation::Delete, error);
    }
    let previous = PREVIOUS_VFS.load(Ordering::Acquire);
    // SAFETY: SQLite calls this module only after it was registered, and the pointer was set before.
    let code = match unsafe { (*previous).xDelete } {
        // SAFETY: the arguments are those of SQLite.
        Some(delete) => unsafe { delete(previous, name, sync_folder) },
        None => ffi::SQLITE_IOERR_DELETE,
    };
    if code == ffi::SQLITE_OK
        && let Some(path) = path
    {
        let mut disk = DISK.lock();
        disk.record(&path, FileChange::Delete);
        if sync_folder != 0 {
            disk.sync_folder(&path);
        }
    }
    code
}

/// Reads from a file (`xRead`).
unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    buffer: *mut c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let admitted = DISK.lock().admit(DiskOperation::Read);
    if let Err(error) = admitted {
        return result_code(DiskOperation::Read, error);
    }
    match find_file(file).and_then(|open_file| open_file.methods.xRead) {
        // SAFETY: the arguments are those of SQLite, and the method belongs to the file.
        Some(read) => unsafe { read(file, buffer, length, offset) },
        None => ffi::SQLITE_IOERR_READ,
    }
}

/// Writes to a file (`xWrite`).
unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    buffer: *const c_void,
    length: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let Some(open_file) = find_file(file) else { return ffi::SQLITE_IOERR_WRITE };
    let Some(write) = open_file.methods.xWrite else { return ffi::SQLITE_IOERR_WRITE };
    let (Ok(byte_count), Ok(position)) = (usize::try_from(length), usize::try_from(offset)) else {
        return ffi::SQLITE_IOERR_WRITE;
    };
    // The disk stays locked, so that it records the changes of a file in their order.
    let mut disk = DISK.lock();
    let admission = disk.admit_write(position, byte_count);
    if let Ok(accepted @ 1..) = c_int::try_from(admission.accepted) {
        // SAFETY: the arguments are those of SQLite, with the same or a smaller length, and the method belongs to the file.
        let code = unsafe { write(file, buffer, accepted, offset) };
        if code != ffi::SQLITE_OK {
            return code;
        }
        // SAFETY: SQLite passes a buffer of at least this length.
        let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), admission.accepted) };
        disk.record(&open_file.path, FileChange::Write { offset: position, bytes: bytes.to_vec() });
    }
    admission.refusal.map_or(ffi::SQLITE_OK, |error| result_code(DiskOperation::Write, error))
}

/// Sets the length of a file (`xTruncate`).
unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    let Some(open_file) = find_file(file) else { return ffi::SQLITE_IOERR_TRUNCATE };
    let Some(truncate) = open_file.methods.xTruncate else { return ffi::SQLITE_IOERR_TRUNCATE };
    let Ok(byte_count) = usize::try_from(length) else { return ffi::SQLITE_IOERR_TRUNCATE };
    let mut disk = DISK.lock();
    if let Err(error) = disk.admit(DiskOperation::Truncate) {
        return result_code(DiskOperation::Truncate, error);
    }
    // SAFETY: the arguments are those of SQLite, and the method belongs to the file.
    let code = unsafe { truncate(file, length) };
    if code == ffi::SQLITE_OK {
        disk.record(&open_file.path, FileChange::Truncate { length: byte_count });
    }
    code
}

/// Makes the changes of a file durable on the simulated disk (`xSync`). The real file is not synced.
unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    let Some(open_file) = find_file(file) else { return ffi::SQLITE_IOERR_FSYNC };
    let synced = DISK.lock().sync(&open_file.path);
    synced.map_or_else(|error| result_code(DiskOperation::Sync, error), |()| ffi::SQLITE_OK)
}

/// Returns the path of a file if the disk simulates it.
///
/// # Safety
/// `name` is null, or points to a text that ends with a zero byte.
unsafe fn simulated_path(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller guarantees it.
    let name = unsafe { CStr::from_ptr(name) };
    let path = PathBuf::from(name.to_str().ok()?);
    DISK.lock().simulates(&path).then_some(path)
}

/// Returns the file that SQLite has opened at an address.
fn find_file(file: *mut sqlite3_file) -> Option<OpenFile> {
    OPEN_FILES.lock().get(&file.addr()).cloned()
}

/// Returns the table that replaces a table of methods.
fn simulated_methods(methods: &'static sqlite3_io_methods) -> &'static sqlite3_io_methods {
    let mut tables = SIMULATED_METHODS.lock();
    tables.entry(ptr::from_ref(methods).addr()).or_insert_with(|| {
        let table: &'static sqlite3_io_methods = Box::leak(Box::new(sqlite3_io_methods {
            iVersion: methods.iVersion.min(METHODS_VERSION),
            xRead: Some(read),
            xWrite: Some(write),
            xTruncate: Some(truncate),
            xSync: Some(sync),
            ..*methods
        }));
        table
    })
}

/// Returns SQLite's code for an operation that the disk refuses.
const fn result_code(operation: DiskOperation, error: DiskError) -> c_int {
    match (error, operation) {
        (DiskError::NoSpace, _) => ffi::SQLITE_FULL,
        (DiskError::InputOutput, DiskOperation::Open) => ffi::SQLITE_CANTOPEN,
        (DiskError::InputOutput, DiskOperation::Read) => ffi::SQLITE_IOERR_READ,
        (DiskError::InputOutput, DiskOperation::Write) => ffi::SQLITE_IOERR_WRITE,
        (DiskError::InputOutput, DiskOperation::Truncate) => ffi::SQLITE_IOERR_TRUNCATE,
        (DiskError::InputOutput, DiskOperation::Sync) => ffi::SQLITE_IOERR_FSYNC,
        (DiskError::InputOutput, DiskOperation::Delete) => ffi::SQLITE_IOERR_DELETE,
    }
}
