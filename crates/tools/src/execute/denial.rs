//! The hint after a failed command that the sandbox may be the cause. Programs report a refused access only in their own
//! words, so the hint is worded as a possibility, and nothing depends on it.

use super::confinement::SandboxNetwork;

/// Parts of messages about a refused access, in lower case.
const ACCESS_MESSAGES: &[&str] = &[
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "device or resource busy",
    "eacces",
    "eperm",
    "erofs",
];
/// Parts of messages about a missing network, in lower case.
const NETWORK_MESSAGES: &[&str] = &[
    "network is unreachable",
    "could not resolve",
    "couldn't resolve",
    "name resolution",
    "name or service not known",
    "no such host",
    "enotfound",
    "eai_again",
    "enetunreach",
    "getaddrinfo",
];
/// Number of bytes from the end of an output that are searched.
const SEARCHED_BYTES_MAX: usize = 8 * 1024;

/// Returns the hint for the output of a command that failed in the sandbox, or `None` if the output does not look like
/// a refused access.
pub(super) fn hint(output: &str, network: SandboxNetwork) -> Option<String> {
    let start = output.ceil_char_boundary(output.len().saturating_sub(SEARCHED_BYTES_MAX));
    let text = output[start..].to_lowercase();
    let mentions = |messages: &[&str]| messages.iter().any(|message| text.contains(message));
    let cause = if network == SandboxNetwork::Off && mentions(NETWORK_MESSAGES) {
        "has no network"
    } else if mentions(ACCESS_MESSAGES) {
        "gives no access to files outside the workspace, to files of secrets and to git's own settings"
    } else {
        return None;
    };
    Some(format!(
        "[the command ran in a sandbox, which {cause}; this may be the cause. If it is needed, outside_sandbox asks the \
         person.]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_that_look_like_a_refused_access_get_a_hint() {
        let cause = |output: &str, network| {
            let hint = hint(output, network)?;
            Some(hint.contains("no network"))
        };
        assert_eq!(cause("curl: (6) Could not resolve host: example.org", SandboxNetwork::Off), Some(true));
        assert_eq!(cause("curl: (6) Could not resolve host: example.org", SandboxNetwork::On), None);
        assert_eq!(cause("sh: 1: cannot create /etc/x: Permission denied", SandboxNetwork::On), Some(false));
        assert_eq!(cause("error: test failed", SandboxNetwork::Off), None);
        let long = format!("Permission denied\n{}", "é".repeat(SEARCHED_BYTES_MAX));
        assert_eq!(cause(&long, SandboxNetwork::Off), None);
    }
}
