//! A sandbox for the commands of an agent: which files a process and its children may read and write, and whether they
//! reach the network.
//!
//! A [`SandboxPolicy`] describes the access. [`Launcher::prefix`] returns the beginning of a command line that applies
//! the policy to the command behind it. On Linux that is a program which has called [`run_launcher`] at its start: it
//! restricts itself with namespaces, Landlock and a filter of system calls, and then executes the command. The
//! restrictions cannot be undone and apply to every descendant. On macOS it is `sandbox-exec`.
//!
//! The launcher is a program of its own because code between `fork` and `exec` would have to be `unsafe`, and because
//! Landlock identifies processes by their rules: a thread with the command's rules, inside the agent's process, could
//! be traced by the command.
//!
//! Deliberately absent: any decision about which command may run, and a rule that is not enforced. If a part of the
//! policy cannot be applied, the command is not executed.

mod launch;
mod launcher;
#[cfg(target_os = "linux")]
mod linux;
mod policy;
#[cfg_attr(target_os = "macos", expect(dead_code, reason = "only some of the folders exist there"))]
mod readable;
#[cfg(any(target_os = "macos", test))]
mod seatbelt;

pub use launch::{PrepareLaunch, ProgramLaunch, ProgramStart};
pub use launcher::{LAUNCHER_ARGUMENT, Launcher, SandboxSupport, run_launcher};
pub use policy::{Isolation, NetworkAccess, SandboxPolicy};

/// The reason why a command cannot run in the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The policy cannot be passed to the launcher, for example because a path is not UTF-8.
    #[error("pass the sandbox policy to the launcher")]
    Policy(#[source] serde_json::Error),
    /// A restriction cannot be applied.
    #[error("apply the sandbox: {step}")]
    Restriction {
        /// The restriction, as an infinitive phrase.
        step: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The system cannot restrict processes: the kernel has no Landlock.
    #[error("apply the sandbox: the kernel has no Landlock")]
    Landlock,
    /// The command cannot be executed.
    #[error("execute {program}")]
    Execute {
        /// The program.
        program: String,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns a function that converts the error of a system call.
    #[cfg(target_os = "linux")]
    pub(crate) fn restriction<E: Into<std::io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::Restriction { step: step.into(), source: source.into() }
    }
}
