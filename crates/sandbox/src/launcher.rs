//! The launcher: the program that applies a policy to itself and then executes a command.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::{Error, SandboxPolicy};

/// The first argument of a launcher. The next one is the policy as JSON, or `probe`, and the rest is the command.
pub const LAUNCHER_ARGUMENT: &str = "__sandbox";
/// The argument that asks a launcher for its [`SandboxSupport`] instead of running a command.
const PROBE: &str = "probe";
/// The link to the program of a process. It leads to the running program even after an upgrade has replaced its file.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The exit code of a launcher that could not apply the policy or execute the command, as of a shell that cannot.
const FAILURE_CODE: u8 = 126;

/// True once this program has called [`run_launcher`].
static IS_LAUNCHER: AtomicBool = AtomicBool::new(false);

/// The parts of the sandbox that a system supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// The version of Landlock's interface; 0 if the kernel has no Landlock.
    pub landlock_abi: i32,
    /// Selects whether the filter of system calls works.
    pub has_filter: bool,
    /// Selects whether a process can have namespaces of its own.
    pub has_namespaces: bool,
    /// Selects whether macOS' `sandbox-exec` exists. It replaces the other parts.
    pub has_seatbelt: bool,
}

impl SandboxSupport {
    /// Returns whether commands can be restricted at all.
    pub const fn is_sufficient(self) -> bool {
        self.has_seatbelt || (self.landlock_abi > 0 && self.has_filter)
    }
}

/// A program that can start commands in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    program: PathBuf,
}

impl Launcher {
    /// Returns the running program as the launcher, or `None` if it has not called [`run_launcher`]. On macOS the
    /// launcher is a part of the system.
    pub fn of_this_program() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Some(Self::at("/usr/bin/sandbox-exec"));
        }
        IS_LAUNCHER.load(Ordering::Relaxed).then(|| Self::at(OWN_PROGRAM))
    }

    /// Returns the launcher at a path. Its `main` function must begin with [`run_launcher`].
    pub fn at(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Returns the beginning of a command line that runs the rest of the line by the policy.
    ///
    /// # Errors
    /// Returns [`Error::Policy`] if the policy cannot be passed on.
    pub fn prefix(&self, policy: &SandboxPolicy) -> Result<Vec<OsString>, Error> {
        #[cfg(target_os = "macos")]
        let args = ["-p".into(), crate::seatbelt::profile(policy).into()];
        #[cfg(not(target_os = "macos"))]
        let args = [LAUNCHER_ARGUMENT.into(), serde_json::to_string(policy).map_err(Error::Policy)?.into()];
        Ok([self.program.clone().into_os_string()].into_iter().chain(args).collect())
    }

    /// Returns the parts of the sandbox that work on this system. The first call runs the launcher, which tries them;
    /// it takes a few milliseconds and blocks. A launcher that cannot be run supports nothing.
    pub fn support(&self) -> SandboxSupport {
        static SUPPORT: OnceLock<SandboxSupport> = OnceLock::new();
        *SUPPORT.get_or_init(|| probe(&self.program))
    }
}

/// Runs the launcher to find out what it can apply.
fn probe(program: &Path) -> SandboxSupport {
    if cfg!(target_os = "macos") {
        return SandboxSupport { has_seatbelt: program.is_file(), ..SandboxSupport::default() };
    }
    let output = Command::new(program).args([LAUNCHER_ARGUMENT, PROBE]).stdin(Stdio::null()).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}

/// Makes this program a launcher: if its arguments are those of a launcher, applies the policy and executes the
/// command, and never returns to the caller's work: the caller must exit with the returned code. Returns `None`
/// otherwise.
///
/// Call it at the beginning of `main`, before other threads exist.
pub fn run_launcher() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(LAUNCHER_ARGUMENT)) {
        IS_LAUNCHER.store(true, Ordering::Relaxed);
        return None;
    }
    let failure = run_with_args(args.next(), args.collect());
    Some(match failure {
        None => ExitCode::SUCCESS,
        Some(error) => {
            eprintln!("segue: failed to {}", describe(&error));
            ExitCode::from(FAILURE_CODE)
        }
    })
}

/// Answers a probe, or executes the command by the policy. A return with an error means that nothing was executed.
#[cfg(target_os = "linux")]
fn run_with_args(policy: Option<OsString>, command: Vec<OsString>) -> Option<Error> {
    use std::os::unix::process::CommandExt;

    let policy = policy.unwrap_or_default();
    if policy == PROBE {
        let support = serde_json::to_string(&crate::linux::probe());
        println!("{}", support.unwrap_or_default());
        return None;
    }
    let policy: SandboxPolicy = match serde_json::from_slice(policy.as_encoded_bytes()) {
        Ok(policy) => policy,
        Err(error) => return Some(Error::Policy(error)),
    };
    if let Err(error) = crate::linux::apply(&policy) {
        return Some(error);
    }
    let (program, args) = command.split_first()?;
    let source = Command::new(program).args(args).exec();
    Some(Error::Execute { program: program.to_string_lossy().into_owned(), source })
}

/// Reports that the system has no sandbox of this kind.
#[cfg(not(target_os = "linux"))]
fn run_with_args(_policy: Option<OsString>, _command: Vec<OsString>) -> Option<Error> {
    Some(Error::Landlock)
}

/// Returns the text of an error with its causes.
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
