//! Running one program with a bounded time and output, and ending all it started. Which program is not decided here.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::OUTPUT_BYTES_MAX;
use crate::workspace::Workspace;

/// The most bytes read from a program before it is ended.
const READ_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Variables that a program is given; none of them carries a secret.
const VARIABLES: &[&str] =
    &["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "TMPDIR", "TZ", "USER", "SystemRoot"];

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, with this status, or by a signal.
    Exited(Option<i32>),
    /// It ran too long.
    TooLong,
    /// It wrote too much.
    TooMuch,
    /// The run was cancelled.
    Cancelled,
}

/// What a program did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// What it wrote to both outputs, cut to a bound.
    pub text: String,
}

/// What one output held.
struct Captured {
    kept: Vec<u8>,
    total: usize,
}

/// Returns the program of that name on the search path; folders inside the workspace are left out.
pub(super) fn find_program(name: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    search_path(workspace)
        .into_iter()
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{name} is not installed on this machine"))
}

/// Returns a command in the workspace with a clean environment and no input.
pub(super) fn command(program: &Path, workspace: &Workspace) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(workspace.root())
        .env_clear()
        .envs(VARIABLES.iter().filter_map(|name| env::var_os(name).map(|value| (name, value))))
        .env("PATH", env::join_paths(search_path(workspace)).unwrap_or_default())
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// Runs the command to its end, or ends it and all it started.
pub(super) async fn run(
    mut command: Command,
    timeout: Duration,
    cancel: &CancellationToken,
) -> Result<Ran, String> {
    let mut child = command.spawn().map_err(|error| format!("the program cannot be started: {error}"))?;
    let group = Group::of(&child);
    let full = CancellationToken::new();
    let stdout = tokio::spawn(capture(child.stdout.take(), full.clone()));
    let stderr = tokio::spawn(capture(child.stderr.take(), full.clone()));
    let ended = tokio::select! {
        // A program whose output is no longer read ends at once; why it ended is asked first.
        biased;
        () = cancel.cancelled() => Ended::Cancelled,
        () = full.cancelled() => Ended::TooMuch,
        status = child.wait() => Ended::Exited(status.map_err(|error| error.to_string())?.code()),
        () = tokio::time::sleep(timeout) => Ended::TooLong,
    };
    // Whatever it left running holds the outputs open.
    drop(group);
    let _ = child.kill().await;
    let mut text = String::new();
    for output in [stdout, stderr] {
        let captured = output.await.map_err(|error| error.to_string())?;
        append(&mut text, &captured);
    }
    Ok(Ran { ended, text: text.trim_end().to_owned() })
}

/// Reads an output to its end, keeping the beginning; cancels `full` when there is too much.
async fn capture(output: Option<impl AsyncRead + Unpin>, full: CancellationToken) -> Captured {
    let mut captured = Captured { kept: Vec::new(), total: 0 };
    let Some(mut output) = output else {
        return captured;
    };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = output.read(&mut buffer).await {
        let room = OUTPUT_BYTES_MAX.saturating_sub(captured.kept.len());
        captured.kept.extend_from_slice(&buffer[..read.min(room)]);
        captured.total += read;
        if captured.total > READ_BYTES_MAX {
            full.cancel();
            break;
        }
    }
    captured
}

fn append(text: &mut String, captured: &Captured) {
    if !text.is_empty() && !text.ends_with('\n') && !captured.kept.is_empty() {
        text.push('\n');
    }
    text.push_str(&String::from_utf8_lossy(&captured.kept));
    let cut = captured.total - captured.kept.len();
    if cut > 0 {
        text.push_str(&format!("\n[{cut} more bytes left out]\n"));
    }
}

fn search_path(workspace: &Workspace) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter_map(|folder| folder.is_absolute().then(|| folder.canonicalize().ok())?)
        .filter(|folder| !folder.starts_with(workspace.root()))
        .collect()
}

/// The processes of one command. Dropping it ends them all.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
}

impl Group {
    fn of(child: &Child) -> Self {
        #[cfg(unix)]
        return Self { leader: child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) };
        #[cfg(not(unix))]
        {
            let _ = child;
            Self {}
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader {
            // It fails when all of them have ended.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}
