//! The Landlock rules of a policy: files and devices, TCP ports, signals and abstract sockets.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::mounts;
use crate::readable::{RESOLVER_FOLDERS, SYSTEM_FOLDERS};
use crate::{Error, Isolation, NetworkAccess, SandboxPolicy};

/// The newest version of Landlock's interface whose rules are used. An older kernel enforces those that it knows.
const NEWEST_ABI: ABI = ABI::V6;
/// Devices that every command may use.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// Restricts this process, irrevocably, to the files of the policy. Without a network and without namespaces, it can
/// use no TCP port. It can send no signal to processes outside, and reach no abstract socket of theirs.
///
/// # Errors
/// Returns [`Error::Landlock`] if the kernel has no Landlock, and [`Error::Restriction`] if a rule cannot be applied.
pub(super) fn enforce(policy: &SandboxPolicy) -> Result<(), Error> {
    let failed = |error| Error::restriction("enforce the Landlock rules")(io::Error::other(error));
    match restrict(policy).map_err(failed)? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(Error::Landlock),
    }
}

/// Returns the version of Landlock's interface that the kernel has; 0 without Landlock. It restricts this process.
pub(super) fn probe_abi() -> i32 {
    let probe = || -> Result<_, RulesetError> {
        let rules = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?.create()?;
        let rules = rules.add_rules(path_beneath_rules(["/"], AccessFs::from_all(ABI::V1)))?;
        rules.restrict_self()
    };
    match probe().map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, kernel_abi }) => {
            kernel_abi.unwrap_or(effective_abi as i32)
        }
        Ok(LandlockStatus::NotEnabled | LandlockStatus::NotImplemented) | Err(_) => 0,
    }
}

/// Builds and enforces the rules.
fn restrict(policy: &SandboxPolicy) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(NEWEST_ABI);
    let read = AccessFs::from_read(NEWEST_ABI);
    let device: BitFlags<AccessFs> = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::ReadDir
        | AccessFs::Truncate
        | AccessFs::IoctlDev;
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(NEWEST_ABI))?;
    if policy.network == NetworkAccess::Off && policy.isolation == Isolation::Landlock {
        rules = rules.handle_access(AccessNet::from_all(NEWEST_ABI))?;
    }
    let resolver = RESOLVER_FOLDERS.iter().filter(|_| policy.network == NetworkAccess::On);
    let system = SYSTEM_FOLDERS.iter().chain(resolver).map(PathBuf::from);
    // Inside namespaces, folders with data of others are empty, so that all folders can be listed.
    let listable = ["/"].into_iter().filter(|_| policy.isolation == Isolation::Namespaces);
    let rules = rules
        .create()?
        .add_rules(path_beneath_rules(system.chain(policy.readable_paths()), read))?
        .add_rules(path_beneath_rules(writable_paths(policy), all))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(listable, AccessFs::ReadDir))?;
    Ok(rules.restrict_self()?.ruleset)
}

/// Returns the paths with full access: those of the policy, and the private folders.
fn writable_paths(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let mut paths = policy.writable.clone();
    match policy.isolation {
        Isolation::Namespaces => paths.extend(mounts::scratch_targets(policy)),
        Isolation::Landlock => paths.push(policy.scratch.clone()),
    }
    paths
}
