//! This machine, as far as it matters to who shares a file with whom. What follows from it is decided elsewhere.

use std::path::Path;
use std::sync::OnceLock;

use crate::{HomeError, Result};

/// Returns what tells this machine from others while it is up. Containers of one machine share it, as they share its files.
pub(crate) fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| boot().unwrap_or_else(host))
}

/// Returns the kernel's name for the time since it was started, where it has one.
fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".to_owned())
}

/// Checks that no other machine can have the file open, or the folder it is to be in.
///
/// # Errors
/// [`HomeError::Shared`] when it lies on a network file system: locks are not seen there by all who need to see them.
pub(crate) fn check(path: &Path) -> Result<()> {
    let there = path.ancestors().find(|place| place.exists());
    match there.and_then(network_file_system) {
        Some(name) => {
            let reason = format!("it lies on a network file system ({name})");
            Err(HomeError::Shared { path: path.to_owned(), reason }.into())
        }
        None => Ok(()),
    }
}

/// Returns the name of the network file system that `path` lies on; `None` for a local one, and where it cannot be told.
#[cfg(target_os = "linux")]
fn network_file_system(path: &Path) -> Option<&'static str> {
    name_of(u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()? & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn network_file_system(_path: &Path) -> Option<&'static str> {
    None
}

/// Returns the name of the file system of that number, if several machines may have it open. The numbers are those of
/// `statfs(2)`.
#[cfg(target_os = "linux")]
const fn name_of(kind: u64) -> Option<&'static str> {
    match kind {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("SMB"),
        0x0102_1997 => Some("9p"),
        0x5346_414f => Some("AFS"),
        0x00c3_6400 => Some("Ceph"),
        0x0bd0_0bd0 => Some("Lustre"),
        0x0116_1970 => Some("GFS2"),
        0x7461_636f => Some("OCFS2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_keeps_its_name_while_it_is_up() {
        assert!(!id().is_empty());
        assert_eq!(id(), id());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn j6_file_systems_that_several_machines_share_are_known() {
        assert_eq!([0x6969, 0xff53_4d42, 0x0102_1997].map(name_of), [Some("NFS"), Some("SMB"), Some("9p")]);
        assert_eq!([0xef53, 0x0102_1994, 0x794c_7630, 0x9123_683e].map(name_of), [None; 4]);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(network_file_system(folder.path()), None);
    }
}
