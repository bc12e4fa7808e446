//! The child process of a server that is reached through pipes: starts it, logs its standard error output, limits the
//! size of its standard output, and kills it together with its children. The protocol on the pipes is not parsed here.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{env, io};

use parking_lot::Mutex;
use sandbox::ProgramLaunch;
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Maximum number of bytes that a server may send from one request to the next. The connection of a server that sends
/// more is closed.
pub(crate) const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum size of a server's log file in bytes. A full file is emptied when the server is started again.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of bytes from the end of the standard error output that an error message contains.
const STDERR_TAIL_BYTES_MAX: usize = 512;
/// Time after a program's exit in which the rest of its standard error output is read.
const STDERR_TAIL_WAIT: Duration = Duration::from_millis(500);
/// Time to wait for a program's exit status after its output has ended.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// Environment variables that every server inherits. API keys of model providers are not among them.
const INHERITED_VARIABLES: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "APPDATA",
    "LOCALAPPDATA",
    "PATHEXT",
    "SystemRoot",
    "TEMP",
    "TMP",
    "USERPROFILE",
];

/// A program to start.
pub(crate) struct ProgramSpec<'a> {
    /// A path relative to `cwd`, or a name on the search path.
    pub command: &'a str,
    pub args: &'a [String],
    /// Variables added to the program's environment.
    pub env: &'a BTreeMap<String, SecretString>,
    /// The working directory.
    pub cwd: PathBuf,
    /// The file for the program's standard error output.
    pub log: &'a Path,
}

impl ProgramSpec<'_> {
    /// Returns the path to execute. A path with several components is relative to the working directory. A bare name is
    /// looked up in `PATH`.
    pub fn path(&self) -> PathBuf {
        match Path::new(self.command) {
            path if path.components().count() > 1 => self.cwd.join(path),
            path => path.to_owned(),
        }
    }
}

/// A running program. Dropping the value kills the program and its children.
pub(crate) struct ServerProcess {
    group: ServerProcessGroup,
    /// A description of the program's exit; `None` while it runs.
    exit_text: watch::Receiver<Option<String>>,
    allowance: Arc<OutputAllowance>,
}

/// A handle for killing the process group of one program. Clones share the group, which is killed at most once.
#[derive(Clone, Default)]
pub(crate) struct ServerProcessGroup {
    /// The id of the group; `None` once it was killed.
    #[cfg(unix)]
    leader: Arc<Mutex<Option<rustix::process::Pid>>>,
    /// Tells the supervising task to kill the program itself.
    stop: CancellationToken,
}

/// A program's standard output. Reading fails once the program has sent more than its allowance.
pub(crate) struct BoundedOutput {
    output: ChildStdout,
    allowance: Arc<OutputAllowance>,
}

/// The number of bytes that a program may still send.
struct OutputAllowance {
    bytes: AtomicUsize,
}

impl ServerProcess {
    /// Starts a program by `launch`, and returns it with its standard output and its standard input. `group` receives the
    /// handle of its process group. A log file that cannot be opened is not an error; the output is not logged then.
    ///
    /// # Errors
    /// Returns the I/O error if the program cannot be started.
    pub fn start(
        program: &ProgramSpec<'_>,
        launch: &ProgramLaunch,
        group: &Mutex<ServerProcessGroup>,
    ) -> io::Result<(Self, BoundedOutput, ChildStdin)> {
        let log = open_log(program.log).ok();
        let mut child = build_command(program, launch).spawn()?;
        let group = {
            let mut slot = group.lock();
            *slot = ServerProcessGroup::from_child(&child);
            slot.clone()
        };
        let missing = || io::Error::other("a pipe is missing");
        let (stdin, stdout) =
            (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (sender, exit_text) = watch::channel(None);
        tokio::spawn(supervise_child(child, stderr, log, group.clone(), sender));
        let allowance = Arc::new(OutputAllowance { bytes: AtomicUsize::new(OUTPUT_BYTES_MAX) });
        let bounded = BoundedOutput { output: stdout, allowance: Arc::clone(&allowance) };
        Ok((Self { group, exit_text, allowance }, bounded, stdin))
    }

    /// Restores the full allowance of [`OUTPUT_BYTES_MAX`] bytes. Called before each request.
    pub fn reset_allowance(&self) {
        self.allowance.bytes.store(OUTPUT_BYTES_MAX, Ordering::Relaxed);
    }

    /// Returns the reason why the program's output has ended: too much output, its exit, or a closed pipe. Waits at
    /// most [`EXIT_WAIT`] for the exit status.
    pub async fn exit_reason(&self) -> String {
        if self.allowance.bytes.load(Ordering::Relaxed) == 0 {
            return format!("it sent more than {OUTPUT_BYTES_MAX} bytes and was cut off");
        }
        let mut exit_text = self.exit_text.clone();
        let waited = tokio::time::timeout(EXIT_WAIT, exit_text.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(text)) => text.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => "it closed its output".to_owned(),
        }
    }

    /// Waits at most `time` for the program to exit by itself, and then kills what is left of its process group.
    pub async fn stop_within(&self, time: Duration) {
        let mut exit_text = self.exit_text.clone();
        let _ = tokio::time::timeout(time, exit_text.wait_for(Option::is_some)).await;
        self.group.kill();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.group.kill();
    }
}

impl ServerProcessGroup {
    /// Returns the handle of the group that `child` leads.
    fn from_child(child: &Child) -> Self {
        #[cfg(unix)]
        let leader = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed()));
        #[cfg(not(unix))]
        let _ = child;
        Self {
            #[cfg(unix)]
            leader: Arc::new(Mutex::new(leader)),
            stop: CancellationToken::new(),
        }
    }

    /// Kills the processes of the group that still run. Repeated calls have no effect, so a reused process id is never
    /// signalled.
    pub fn kill(&self) {
        self.stop.cancel();
        #[cfg(unix)]
        if let Some(leader) = self.leader.lock().take() {
            // The system call fails if all processes have ended.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl AsyncRead for BoundedOutput {
    /// Reads from the pipe and subtracts the number of bytes from the allowance.
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        let subtract = |left: usize| Some(left.saturating_sub(read));
        let before_read = self.allowance.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
        match before_read {
            Ok(left) | Err(left) if left > read => polled,
            Ok(_) | Err(_) => Poll::Ready(Err(io::Error::other("the server sent too much output"))),
        }
    }
}

/// Builds the command: a minimal environment plus the program's own variables, pipes for all streams, and its own
/// process group.
fn build_command(program: &ProgramSpec<'_>, launch: &ProgramLaunch) -> Command {
    let (executable, first_args) = launch.command_line(program.path().into_os_string());
    let mut command = Command::new(executable);
    command
        .args(first_args)
        .args(program.args)
        .current_dir(&program.cwd)
        .env_clear()
        .envs(INHERITED_VARIABLES.iter().filter_map(|name| env::var_os(name).map(|value| (name, value))))
        .envs(program.env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for name in launch.removed_variables {
        command.env_remove(name);
    }
    command.envs(launch.variables.iter().map(|(name, value)| (name, value)));
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// The open log file of a server.
struct ServerLog {
    file: File,
    /// Number of bytes that can be written until the file has [`LOG_BYTES_MAX`].
    bytes_left: u64,
}

/// Opens the log file for appending, with mode 0600, and empties it if it is full.
fn open_log(path: &Path) -> io::Result<ServerLog> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes >= LOG_BYTES_MAX {
        file.set_len(0)?;
        bytes = 0;
    }
    Ok(ServerLog { file, bytes_left: LOG_BYTES_MAX - bytes })
}

/// Waits for the program's exit or the stop signal, kills the rest of its process group, and publishes the exit text:
/// the status and the last line of standard error output.
async fn supervise_child(
    mut child: Child,
    stderr: ChildStderr,
    log: Option<ServerLog>,
    group: ServerProcessGroup,
    exit_text: watch::Sender<Option<String>>,
) {
    let mut stderr_task = tokio::spawn(log_stderr(stderr, log));
    let status = tokio::select! {
        status = child.wait() => status,
        () = group.stop.cancelled() => child.kill().await.and(child.wait().await),
    };
    group.kill();
    let last_line = match tokio::time::timeout(STDERR_TAIL_WAIT, &mut stderr_task).await {
        Ok(Ok(line)) => line,
        Ok(Err(_)) | Err(_) => String::new(),
    };
    let mut text = match status {
        Ok(status) => format!("it ended with {status}"),
        Err(error) => format!("it ended: {error}"),
    };
    if !last_line.is_empty() {
        text.push_str(&format!("; last error output: {last_line}"));
    }
    exit_text.send_replace(Some(text));
}

/// Copies standard error output to the log file until the file is full, and returns the last line that is not blank,
/// without control characters. The pipe is read to its end in any case, so that the program never blocks on it.
async fn log_stderr(mut stderr: ChildStderr, log: Option<ServerLog>) -> String {
    let (mut file, mut bytes_left) = log.map_or((None, 0), |log| (Some(log.file), log.bytes_left));
    let mut tail: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let chunk = &buffer[..read];
        let logged = &chunk[..read.min(usize::try_from(bytes_left).unwrap_or(usize::MAX))];
        if let Some(log) = &mut file {
            // A log that cannot be written must not stop the server.
            let _ = log.write_all(logged);
        }
        bytes_left -= logged.len() as u64;
        tail.extend_from_slice(chunk);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES_MAX);
        tail.drain(..excess);
    }
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).collect()
}
