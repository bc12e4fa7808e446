//! The profile of macOS' `sandbox-exec`, in its policy language. The profile denies everything that it does not name.

use std::fmt::Write as _;
use std::path::Path;

use crate::{NetworkAccess, SandboxPolicy};

/// The part of the profile that does not depend on the policy: processes, system information, and devices.
const BASE: &str = r#"(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.bsd.dirhelper")
  (global-name "com.apple.trustd.agent"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read-metadata)
(allow file-read* (literal "/") (subpath "/bin") (subpath "/sbin") (subpath "/usr") (subpath "/System")
  (subpath "/Library") (subpath "/Applications") (subpath "/opt") (subpath "/private/etc") (subpath "/dev")
  (subpath "/private/var/db/dyld") (subpath "/private/var/select"))
(allow file-write* file-ioctl (literal "/dev/null") (literal "/dev/tty") (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+$"))
"#;

/// Returns the profile of a policy. A later rule of a profile overrides an earlier one.
pub(crate) fn profile(policy: &SandboxPolicy) -> String {
    let mut profile = BASE.to_owned();
    for path in policy.readable_paths() {
        allow_path(&mut profile, "allow file-read*", &path);
    }
    for path in policy.writable.iter().chain([&policy.scratch]) {
        allow_path(&mut profile, "allow file-read* file-write*", path);
    }
    for path in &policy.read_only {
        allow_path(&mut profile, "deny file-write*", path);
    }
    for path in &policy.hidden {
        allow_path(&mut profile, "deny file-read* file-write*", path);
    }
    if policy.network == NetworkAccess::On {
        profile.push_str("(allow network* system-socket)\n(allow mach-lookup (global-name \"com.apple.SystemConfiguration.configd\"))\n");
    }
    profile
}

/// Appends a rule about a path and everything below it.
fn allow_path(profile: &mut String, rule: &str, path: &Path) {
    let path = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    let _ = writeln!(profile, "({rule} (subpath \"{path}\"))");
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Isolation;

    #[test]
    fn a_profile_denies_by_default_and_restricts_after_it_allows() {
        let policy = SandboxPolicy {
            folder: "/w".into(),
            writable: vec!["/w".into()],
            readable: vec!["/tools".into()],
            read_only: vec!["/w/.git/hooks".into()],
            hidden: vec![PathBuf::from("/w/\"x\".env")],
            scratch: "/scratch".into(),
            home: None,
            network: NetworkAccess::Off,
            isolation: Isolation::Landlock,
        };
        let text = profile(&policy);
        assert!(text.starts_with("(version 1)\n(deny default)\n") && !text.contains("network"), "{text}");
        let rules = text.strip_prefix(BASE).unwrap();
        assert_eq!(
            rules,
            "(allow file-read* (subpath \"/tools\"))\n\
             (allow file-read* file-write* (subpath \"/w\"))\n\
             (allow file-read* file-write* (subpath \"/scratch\"))\n\
             (deny file-write* (subpath \"/w/.git/hooks\"))\n\
             (deny file-read* file-write* (subpath \"/w/\\\"x\\\".env\"))\n"
        );
        let with_network = profile(&SandboxPolicy { network: NetworkAccess::On, ..policy });
        assert!(with_network.contains("(allow network* system-socket)"));
    }
}
