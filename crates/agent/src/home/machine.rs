//! The identity of this machine, and whether a file lies on a file system that machines share. Callers decide
//! the consequences.

use std::path::Path;
use std::sync::OnceLock;

use crate::{HomeError, Result};

/// Returns an id that distinguishes this machine from others until it is rebooted. Containers of one machine
/// have the same id; they can share its files and see each other's locks.
pub(crate) fn machine_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| boot_id().unwrap_or_else(host_name))
}

/// Returns the kernel's id of the current boot; `None` on platforms other than Linux.
fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Returns the host name, the fallback where there is no boot id.
#[cfg(unix)]
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the host name, the fallback where there is no boot id.
#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "this machine".to_owned())
}

/// Checks that the file, or the nearest existing folder above it, is not on a network file system.
///
/// # Errors
/// [`HomeError::SharedBetweenMachines`] if it is on one, because locks there are not reliably visible to all
/// machines.
pub(crate) fn check_local_file_system(path: &Path) -> Result<()> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    match existing.and_then(network_file_system) {
        Some(name) => {
            let reason = format!("it lies on a network file system ({name})");
            Err(HomeError::SharedBetweenMachines { path: path.to_owned(), reason }.into())
        }
        None => Ok(()),
    }
}

/// Returns the name of the network file system that holds `path`. `None` for a local file system, and where
/// the kind is unknown.
#[cfg(target_os = "linux")]
fn network_file_system(path: &Path) -> Option<&'static str> {
    shared_file_system_name(u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()? & 0xffff_ffff)
}

/// Returns `None`, because the kind of a file system is only read on Linux.
#[cfg(not(target_os = "linux"))]
fn network_file_system(_path: &Path) -> Option<&'static str> {
    None
}

/// Returns the name of the file system with that magic number if several machines can mount it at the same
/// time. The numbers are those of `statfs(2)`.
#[cfg(target_os = "linux")]
const fn shared_file_system_name(kind: u64) -> Option<&'static str> {
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
    fn the_machine_id_is_stable_within_a_process() {
        assert!(!machine_id().is_empty());
        assert_eq!(machine_id(), machine_id());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn j6_network_file_systems_are_recognised() {
        assert_eq!(
            [0x6969, 0xff53_4d42, 0x0102_1997].map(shared_file_system_name),
            [Some("NFS"), Some("SMB"), Some("9p")]
        );
        assert_eq!([0xef53, 0x0102_1994, 0x794c_7630, 0x9123_683e].map(shared_file_system_name), [None; 4]);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(network_file_system(folder.path()), None);
    }
}
