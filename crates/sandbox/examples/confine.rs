//! Runs a command in the sandbox, with full access to the current folder:
//! `cargo run -p segue-sandbox --example confine -- sh -c 'ls ~'`.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use sandbox::{Isolation, Launcher, NetworkAccess, SandboxPolicy};

fn main() -> ExitCode {
    if let Some(failure) = sandbox::run_launcher() {
        return failure;
    }
    match run_confined() {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("failed to run the command: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replaces this process by the launcher, and returns only on a failure.
fn run_confined() -> io::Result<std::convert::Infallible> {
    let launcher = Launcher::of_this_program().ok_or(io::ErrorKind::Unsupported)?;
    let support = launcher.support();
    let folder = std::env::current_dir()?.canonicalize()?;
    let scratch = std::env::temp_dir().canonicalize()?.join(format!("confine-{}", std::process::id()));
    std::fs::create_dir(&scratch)?;
    let policy = SandboxPolicy {
        writable: vec![folder.clone()],
        folder,
        readable: Vec::new(),
        read_only: Vec::new(),
        hidden: Vec::new(),
        scratch,
        home: std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok()),
        network: NetworkAccess::Off,
        isolation: if support.has_namespaces { Isolation::Namespaces } else { Isolation::Landlock },
    };
    let prefix = launcher.prefix(&policy).map_err(io::Error::other)?;
    Err(Command::new(&prefix[0]).args(&prefix[1..]).args(std::env::args_os().skip(1)).exec())
}
