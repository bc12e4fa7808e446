//! The file system that a command sees: private temporary and home folders, empty folders in place of those with data of
//! others, and files that are hidden or read-only. [`super::file_rules`] restricts the rest.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind, mount_change,
    mount_remount, move_mount, open_tree,
};

use crate::policy::{SCRATCH_TEMPORARY, TEMPORARY_FOLDER};
use crate::readable::{RESOLVER_FOLDERS, SYSTEM_FOLDERS};
use crate::{Error, NetworkAccess, SandboxPolicy};

/// Folders at the root, besides those of the system, that stay as they are. All others are empty in the sandbox, except
/// for the accessible paths in them: they contain data of users and sockets of services.
const UNMASKED_FOLDERS: &[&str] = &["/dev", "/var"];
/// A folder below the root with data of services, which is empty in the sandbox too.
const SERVICE_DATA: &str = "/var/lib";
/// Folders for temporary files, each with the name of the private folder in its place.
const TEMPORARY_FOLDERS: &[(&str, &str)] =
    &[(TEMPORARY_FOLDER, SCRATCH_TEMPORARY), ("/var/tmp", "var_tmp"), ("/dev/shm", "shm")];
/// Name of the private home folder below the scratch folder.
const SCRATCH_HOME: &str = "home";
/// Folders of the private home folder that a command can write, for caches and settings of tools. The home folder itself
/// cannot be written, so that a command that would save a file for the user fails instead of losing it.
const HOME_SCRATCH_FOLDERS: &[&str] = &[
    ".bun",
    ".cache",
    ".cargo",
    ".config",
    ".dotnet",
    ".gradle",
    ".local/share",
    ".local/state",
    ".m2",
    ".npm",
    ".nuget",
    ".yarn",
    "go",
];
/// The device that replaces a hidden file. On a mount without devices it cannot be opened, not even by root.
const NULL_DEVICE: &str = "/dev/null";
/// The folder of pseudo terminals.
const TERMINALS: &str = "/dev/pts";
/// Options of a new folder of pseudo terminals.
const TERMINALS_OPTIONS: &std::ffi::CStr = c"newinstance,ptmxmode=0666,mode=0620";
/// The table of mounts of this process.
const MOUNT_TABLE: &str = "/proc/self/mountinfo";
/// The column of the table with the mount point.
const MOUNT_POINT_COLUMN: usize = 4;

/// A folder whose content is replaced.
struct Mask {
    path: PathBuf,
    /// The private folder in its place; `None` for an empty one.
    scratch: Option<PathBuf>,
}

/// A path that stays accessible although a mask covers it.
struct KeptPath {
    path: PathBuf,
    access: KeptAccess,
    /// The mounts at the path, from before the masks.
    tree: OwnedFd,
}

/// The access to a kept path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptAccess {
    ReadOnly,
    Full,
}

/// Builds the file system of the policy. The process must be in a mount namespace of its own.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn build_view(policy: &SandboxPolicy) -> Result<(), Error> {
    let failed = |error: io::Error| Error::restriction("build the file system of the sandbox")(error);
    separate_mounts().map_err(failed)?;
    let masks = masks(policy);
    let kept = open_kept_paths(policy, &masks).map_err(failed)?;
    apply_masks(&masks).map_err(failed)?;
    attach_kept_paths(&kept).map_err(failed)?;
    restrict_files(policy).map_err(failed)?;
    // The terminals of other programs are not reachable. Without this right, the folder stays as it is.
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let _ = mount("devpts", TERMINALS, "devpts", flags, Some(TERMINALS_OPTIONS));
    Ok(())
}

/// Returns whether this process, in a mount namespace of its own, may change its mounts.
pub(super) fn is_permitted() -> bool {
    separate_mounts().is_ok() && mount_empty_folder(Path::new(TEMPORARY_FOLDER)).is_ok()
}

/// Returns the private folders that the command may write.
pub(super) fn scratch_targets(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let masks = masks(policy).into_iter().filter(|mask| mask.scratch.is_some());
    let targets = masks.flat_map(|mask| match policy.home.as_ref() == Some(&mask.path) {
        true => home_scratch_folders(&mask.path),
        false => vec![mask.path],
    });
    targets.collect()
}

/// Returns the folders of a home folder that a command can write.
fn home_scratch_folders(home: &Path) -> Vec<PathBuf> {
    HOME_SCRATCH_FOLDERS.iter().map(|name| home.join(name)).collect()
}

/// Stops the exchange of mounts with the namespace from which this one was copied.
fn separate_mounts() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// Returns the folders to replace, outer ones first. A folder inside a writable one stays as it is.
fn masks(policy: &SandboxPolicy) -> Vec<Mask> {
    let scratch = |name: &str| Some(policy.scratch.join(name));
    let empty = data_folders().into_iter().map(|path| (path, None));
    let temporary = TEMPORARY_FOLDERS.iter().map(|(path, name)| (PathBuf::from(path), scratch(name)));
    let home = policy.home.clone().map(|home| (home, scratch(SCRATCH_HOME)));
    let mut masks: Vec<Mask> = Vec::new();
    // The home folder comes first, because it may be one of the folders that would be empty.
    for (path, scratch) in home.into_iter().chain(temporary).chain(empty) {
        let Ok(path) = path.canonicalize() else { continue };
        let is_covered = policy.writable.iter().any(|writable| path.starts_with(writable));
        if path.is_dir() && !is_covered && !masks.iter().any(|mask| mask.path == path) {
            masks.push(Mask { path, scratch });
        }
    }
    masks.sort_by_key(|mask| depth(&mask.path));
    masks
}

/// Returns the folders with data of users and services. Links are left out, because their targets are listed, too, or
/// belong to the system.
fn data_folders() -> Vec<PathBuf> {
    let is_data = |path: &PathBuf| {
        let known = SYSTEM_FOLDERS.iter().chain(UNMASKED_FOLDERS);
        let is_known = known.map(Path::new).any(|known| path == known);
        !is_known && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
    };
    let root = fs::read_dir("/").into_iter().flatten().flatten().map(|entry| entry.path());
    root.filter(is_data).chain([PathBuf::from(SERVICE_DATA)]).collect()
}

/// Opens the accessible paths below masks, outer ones first. If a link below a mask leads to an accessible path, the path
/// becomes accessible in place of the link.
fn open_kept_paths(policy: &SandboxPolicy, masks: &[Mask]) -> io::Result<Vec<KeptPath>> {
    let resolver = RESOLVER_FOLDERS.iter().filter(|_| policy.network == NetworkAccess::On);
    let system = SYSTEM_FOLDERS.iter().chain(resolver).map(PathBuf::from);
    let readable = policy.readable_paths().into_iter().chain(system);
    let writable = policy.writable.iter().map(|path| (path.clone(), KeptAccess::Full));
    let mut paths: Vec<(PathBuf, KeptAccess)> = Vec::new();
    for (path, access) in writable.chain(readable.map(|path| (path, KeptAccess::ReadOnly))) {
        let Ok(real) = path.canonicalize() else { continue };
        for path in [path, real] {
            let is_masked = masks.iter().any(|mask| path.starts_with(&mask.path));
            let covers = |(kept, access): &(PathBuf, KeptAccess)| {
                *kept == path || (*access == KeptAccess::Full && path.starts_with(kept))
            };
            if is_masked && !paths.iter().any(covers) {
                paths.push((path, access));
            }
        }
    }
    paths.sort_by_key(|(path, _)| depth(path));
    paths.into_iter().map(|(path, access)| Ok(KeptPath { tree: clone_tree(&path)?, path, access })).collect()
}

/// Replaces the folders.
fn apply_masks(masks: &[Mask]) -> io::Result<()> {
    // The private folders are below a folder that is replaced, so they are opened first.
    let mut trees = Vec::new();
    for mask in masks {
        let tree = match &mask.scratch {
            Some(folder) => {
                fs::create_dir_all(folder)?;
                for inner in home_scratch_folders(folder).iter().filter(|_| folder.ends_with(SCRATCH_HOME)) {
                    fs::create_dir_all(inner)?;
                }
                Some(clone_tree(folder)?)
            }
            None => None,
        };
        trees.push((mask, tree));
    }
    for (mask, tree) in trees {
        match tree {
            // An outer mask may have removed the folder.
            Some(tree) => {
                fs::create_dir_all(&mask.path)?;
                attach(&tree, &mask.path)?;
            }
            None if mask.path.is_dir() => mount_empty_folder(&mask.path)?,
            None => {}
        }
    }
    Ok(())
}

/// Attaches the kept paths where they were, and makes those read-only that a command may only read, with all mounts in
/// them.
fn attach_kept_paths(kept: &[KeptPath]) -> io::Result<()> {
    for KeptPath { path, tree, .. } in kept {
        create_mount_point(path, tree)?;
        attach(tree, path)?;
    }
    let read_only = |point: &Path| {
        let covering = kept.iter().filter(|kept| point.starts_with(&kept.path));
        covering.max_by_key(|kept| depth(&kept.path)).is_some_and(|kept| kept.access == KeptAccess::ReadOnly)
    };
    for point in mount_points()?.iter().filter(|point| read_only(point)) {
        remount(point, MountFlags::RDONLY)?;
    }
    Ok(())
}

/// Makes files of accessible folders read-only or hides them.
fn restrict_files(policy: &SandboxPolicy) -> io::Result<()> {
    let read_only: Vec<&PathBuf> = policy.read_only.iter().filter(|path| path.exists()).collect();
    for folder in renamable_parents(policy, &read_only) {
        mount_bind(folder, folder)?;
    }
    for path in read_only {
        mount_bind(path, path)?;
        remount(path, MountFlags::RDONLY)?;
    }
    for path in &policy.hidden {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                mount_empty_folder(path)?;
                remount(path, MountFlags::RDONLY)?;
            }
            Ok(metadata) if metadata.is_file() => {
                mount_bind(NULL_DEVICE, path)?;
                remount(path, MountFlags::RDONLY | MountFlags::NODEV)?;
            }
            // A link leads to a path that is hidden itself or inaccessible.
            Ok(_) => {}
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the folders between the writable paths and the read-only ones, outer ones first. A command could rename such
/// a folder and create another one in its place, unless the folder is a mount point.
fn renamable_parents<'a>(policy: &SandboxPolicy, read_only: &[&'a PathBuf]) -> Vec<&'a Path> {
    let is_inside_writable =
        |path: &&Path| policy.writable.iter().any(|writable| path.starts_with(writable) && *path != writable);
    let parents = read_only.iter().flat_map(|path| path.ancestors().skip(1));
    let mut parents: Vec<&Path> = parents.filter(is_inside_writable).collect();
    parents.sort_by_key(|path| (depth(path), *path));
    parents.dedup();
    parents
}

/// Returns a copy of the mounts at a path.
fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Attaches a copy of mounts at a path.
fn attach(tree: &OwnedFd, path: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Creates the folder or the empty file at which a copy of mounts is attached, if it does not exist.
fn create_mount_point(path: &Path, tree: &OwnedFd) -> io::Result<()> {
    let mode = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode);
    if mode.is_dir() {
        return fs::create_dir_all(path);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().append(true).create(true).open(path).map(drop)
}

/// Mounts an empty folder of this process alone.
fn mount_empty_folder(path: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", path, "tmpfs", flags, Some(c"mode=0755,size=1m"))?)
}

/// Adds flags to the mount at a path.
fn remount(path: &Path, flags: MountFlags) -> io::Result<()> {
    let current = statvfs(path)?.f_flag;
    // A user namespace may not remove these flags, and a remount that does not repeat them would.
    let kept = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| current.contains(*flag)).map(|(_, flag)| flag);
    let flags = kept.fold(MountFlags::BIND | flags, |flags, flag| flags | flag);
    Ok(mount_remount(path, flags, c"")?)
}

/// Returns the mount points of this process.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    let table = fs::read(MOUNT_TABLE)?;
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let point = line.split(|byte| *byte == b' ').nth(MOUNT_POINT_COLUMN)?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(&unescape(point))))
    });
    Ok(points.collect())
}

/// Decodes the octal escapes of a path in the table of mounts, such as `\040` for a space.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    bytes
}

/// Returns the number of components of a path.
fn depth(path: &Path) -> usize {
    path.components().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_of_the_mount_table_are_decoded() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"/a\0"), br"/a\0");
    }
}
