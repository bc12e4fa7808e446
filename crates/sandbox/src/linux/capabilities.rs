//! The capabilities of root that a command keeps: those about the owners of files, which Landlock still bounds.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::Error;

/// The capabilities that a command of root keeps, so that it can work with files of other users, as it is common in
/// containers.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Drops all capabilities except those of [`KEPT`] that this process has, and forbids that a program with the setuid
/// bit adds any. A process without capabilities stays as it is.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn drop_all_but_file_access() -> Result<(), Error> {
    for capability in CapabilitySet::all().iter().filter(|capability| !KEPT.contains(*capability)) {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The process has no right to change the set, or the kernel does not know the capability.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(Error::restriction("drop capabilities")(error)),
        }
    }
    let own = rustix::thread::capabilities(None).map_err(Error::restriction("read capabilities"))?;
    let sets = CapabilitySets {
        effective: own.effective & KEPT,
        permitted: own.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(Error::restriction("drop capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(Error::restriction("forbid new privileges"))
}
