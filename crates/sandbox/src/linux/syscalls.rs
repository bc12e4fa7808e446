//! The filter of system calls: those by which a process could leave the sandbox or attack the kernel fail with `EPERM`.
//! Files are not its business.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use crate::{Error, Isolation, NetworkAccess, SandboxPolicy};

/// System calls that always fail: tracing and reading other processes, mounts, kernel modules and programs, keys,
/// restarts, clocks, and interfaces that bypass this filter (`io_uring`).
const FORBIDDEN: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];
/// System calls of x86-64 alone that always fail.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_ON_THIS_MACHINE: &[c_long] = &[libc::SYS_ioperm, libc::SYS_iopl];
/// System calls of this machine alone that always fail.
#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_ON_THIS_MACHINE: &[c_long] = &[];
/// The bit that marks the system calls of the x32 interface, which most kernels of x86-64 don't have. Without their
/// numbers in the filter, they would bypass it.
#[cfg(target_arch = "x86_64")]
const X32_BIT: c_long = 0x4000_0000;
/// System calls whose x32 variant has a number of its own: `ptrace`, `kexec_load`, `process_vm_readv` and
/// `process_vm_writev`.
#[cfg(target_arch = "x86_64")]
const FORBIDDEN_X32: &[c_long] = &[521, 528, 539, 540];
/// The flags of `clone` and `unshare` that create namespaces.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];
/// The request of `ioctl` that puts characters into the input of a terminal, and the one that pastes a selection.
const TERMINAL_INJECTIONS: &[u64] = &[0x5412, 0x541c];

/// The rules of a filter, by system call. A call without conditions always matches.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filter for this process and all its descendants. It cannot be removed.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn install_filter(policy: &SandboxPolicy) -> Result<(), Error> {
    let failed = |error: io::Error| Error::restriction("install the filter of system calls")(error);
    let forbidden = rules(policy).and_then(|rules| compile(rules, libc::EPERM)).map_err(failed)?;
    // The flags of `clone3` are in memory, which a filter cannot read. C libraries use `clone` instead if the kernel
    // does not have it.
    let absent = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = compile(absent, libc::ENOSYS).map_err(failed)?;
    for program in [&absent, &forbidden] {
        apply_filter(program).map_err(|error| failed(io::Error::other(error)))?;
    }
    Ok(())
}

/// Returns whether a filter can be installed. It installs one that forbids nothing that is needed.
pub(super) fn is_permitted() -> bool {
    let rules = Rules::from([(libc::SYS_kexec_load, Vec::new())]);
    compile(rules, libc::EPERM).is_ok_and(|program| apply_filter(&program).is_ok())
}

/// Compiles a filter in which the rules fail with `errno`.
fn compile(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let failure = SeccompAction::Errno(errno.cast_unsigned());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, failure, machine).map_err(io::Error::other)?;
    filter.try_into().map_err(|error: seccompiler::BackendError| io::Error::other(error))
}

/// Returns the rules of a policy.
fn rules(policy: &SandboxPolicy) -> io::Result<Rules> {
    let mut rules: Rules =
        FORBIDDEN.iter().chain(FORBIDDEN_ON_THIS_MACHINE).map(|call| (*call, Vec::new())).collect();
    let namespaces = NAMESPACE_FLAGS
        .iter()
        .map(|flag| {
            let flag = u64::from(flag.cast_unsigned());
            rule(&[(0, SeccompCmpOp::MaskedEq(flag), flag)])
        })
        .collect::<io::Result<Vec<_>>>()?;
    rules.insert(libc::SYS_clone, namespaces.clone());
    rules.insert(libc::SYS_unshare, namespaces);
    let injections = TERMINAL_INJECTIONS.iter().map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, injections.collect::<io::Result<_>>()?);
    rules.insert(libc::SYS_socket, socket_rules(policy)?);
    if policy.network == NetworkAccess::Off && policy.isolation == Isolation::Landlock {
        // Sockets of services outside, such as those of a container engine, are files that Landlock does not cover.
        rules.insert(libc::SYS_connect, Vec::new());
        rules.insert(libc::SYS_sendto, vec![rule(&[(4, SeccompCmpOp::Ne, 0)])?]);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let x32: Rules = rules.iter().map(|(call, rules)| (call | X32_BIT, rules.clone())).collect();
        rules.extend(x32);
        rules.extend(FORBIDDEN_X32.iter().map(|call| (call | X32_BIT, Vec::new())));
    }
    Ok(rules)
}

/// Returns the rules for new sockets. Only local and internet sockets and the reading of network interfaces are
/// allowed, and without a network and without a network namespace, no internet sockets.
fn socket_rules(policy: &SandboxPolicy) -> io::Result<Vec<SeccompRule>> {
    let [unix, internet, internet6, netlink] =
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
            .map(|family| u64::from(family.cast_unsigned()));
    let other = [unix, internet, internet6, netlink].map(|family| (0, SeccompCmpOp::Ne, family));
    let route = u64::from(libc::NETLINK_ROUTE.cast_unsigned());
    let mut rules =
        vec![rule(&other)?, rule(&[(0, SeccompCmpOp::Eq, netlink), (2, SeccompCmpOp::Ne, route)])?];
    if policy.network == NetworkAccess::Off && policy.isolation == Isolation::Landlock {
        rules.push(rule(&[(0, SeccompCmpOp::Eq, internet)])?);
        rules.push(rule(&[(0, SeccompCmpOp::Eq, internet6)])?);
    }
    Ok(rules)
}

/// Returns a rule that matches a call if all conditions hold. A condition compares an argument, by its index.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        // The upper half of an argument that the kernel reads as an `int` is not part of it. A pointer has both.
        let length = match operator {
            SeccompCmpOp::Ne if *argument == 4 => SeccompCmpArgLen::Qword,
            _ => SeccompCmpArgLen::Dword,
        };
        SeccompCondition::new(*argument, length, operator.clone(), *value)
    };
    let conditions = conditions.iter().map(condition).collect::<Result<_, _>>().map_err(io::Error::other)?;
    SeccompRule::new(conditions).map_err(io::Error::other)
}
