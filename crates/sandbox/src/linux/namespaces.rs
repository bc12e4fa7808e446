//! Namespaces of the process: mounts, System V IPC and, without a network, the network. It does not change any mount.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use rustix::thread::UnshareFlags;

use super::loopback;
use crate::{Error, NetworkAccess};

/// Moves this process into namespaces of its own. A process without the right to do so gets a user namespace too, in
/// which it keeps its user and group. Without a network, it gets a loopback interface of its own.
///
/// # Errors
/// Returns the error of the system, which may permit no user namespaces.
pub(super) fn enter(network: NetworkAccess) -> Result<(), Error> {
    let network_flag = match network {
        NetworkAccess::Off => UnshareFlags::NEWNET,
        NetworkAccess::On => UnshareFlags::empty(),
    };
    let flags = UnshareFlags::NEWNS | UnshareFlags::NEWIPC | network_flag;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    match unshare(flags) {
        Err(Errno::PERM) => {
            unshare(flags | UnshareFlags::NEWUSER).map_err(Error::restriction("create namespaces"))?;
            map_user(user, group).map_err(Error::restriction("map the user of the namespace"))?;
        }
        result => result.map_err(Error::restriction("create namespaces"))?,
    }
    if network == NetworkAccess::Off {
        loopback::bring_up().map_err(Error::restriction("start the loopback interface"))?;
    }
    Ok(())
}

/// Creates the namespaces.
#[expect(deprecated, reason = "the function without `unsafe` is sound without the flag FILES")]
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    rustix::thread::unshare(flags)
}

/// Maps the user and the group of this process to themselves. All others are unknown in the namespace.
fn map_user(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
