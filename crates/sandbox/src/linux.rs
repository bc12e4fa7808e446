//! The sandbox of Linux. A policy is applied in an order in which each part still has the rights that it needs:
//! namespaces and mounts, capabilities, Landlock, and the filter of system calls last, because it forbids the others.

mod capabilities;
mod file_rules;
mod loopback;
mod mounts;
mod namespaces;
mod syscalls;

use std::env;

use crate::{Error, Isolation, NetworkAccess, SandboxPolicy, SandboxSupport};

/// Restricts this process by the policy.
///
/// # Errors
/// Returns the part that cannot be applied. The process may then be restricted in part and must not run the command.
pub(crate) fn apply(policy: &SandboxPolicy) -> Result<(), Error> {
    if policy.isolation == Isolation::Namespaces {
        namespaces::enter(policy.network)?;
        mounts::build_view(policy)?;
    }
    // The current folder still belongs to the mounts from before, which have none of the restrictions.
    env::set_current_dir(&policy.folder).map_err(Error::restriction("enter the folder of the command"))?;
    capabilities::drop_all_but_file_access()?;
    file_rules::enforce(policy)?;
    syscalls::install_filter(policy)
}

/// Tries each part of the sandbox on this process, and returns those that work.
pub(crate) fn probe() -> SandboxSupport {
    let has_namespaces = namespaces::enter(NetworkAccess::Off).is_ok() && mounts::is_permitted();
    let landlock_abi = file_rules::probe_abi();
    SandboxSupport { landlock_abi, has_filter: syscalls::is_permitted(), has_namespaces, has_seatbelt: false }
}
