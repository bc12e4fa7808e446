//! Starts the loopback interface of a new network namespace, with one message of the routing protocol.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Length in bytes of the request: a message header of 16 bytes and a description of the interface of 16 bytes.
const REQUEST_BYTES: u32 = 32;
/// The type of a message that changes an interface, `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;
/// The flags of a request that is answered: `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// The number of the loopback interface, which is the first one of every network namespace.
const LOOPBACK_INDEX: i32 = 1;
/// The flag of an interface that is up, `IFF_UP`.
const IS_UP: u32 = 1;
/// Offset in bytes of the error number in an answer, after the message header.
const ANSWER_ERROR_OFFSET: usize = 16;

/// Starts the loopback interface.
///
/// # Errors
/// Returns the error of the system, for example if the process has no right to change its network.
pub(super) fn bring_up() -> io::Result<()> {
    // The default protocol is the one for routes and interfaces.
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut request = Vec::new();
    request.extend(REQUEST_BYTES.to_ne_bytes());
    request.extend(NEW_LINK.to_ne_bytes());
    request.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // The sequence number and the sender's port.
    request.extend([0; 8]);
    // The address family, padding and the type of the device.
    request.extend([0; 4]);
    request.extend(LOOPBACK_INDEX.to_ne_bytes());
    request.extend(IS_UP.to_ne_bytes());
    request.extend(IS_UP.to_ne_bytes());
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 64];
    rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let mut error = [0; 4];
    error.copy_from_slice(&answer[ANSWER_ERROR_OFFSET..ANSWER_ERROR_OFFSET + 4]);
    match i32::from_ne_bytes(error) {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number.abs())),
    }
}
