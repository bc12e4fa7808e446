//! The program of a server that is spoken to through pipes: starting it, keeping what it complains about, bounding what
//! it says, and ending it with all it started. What is said is not looked at here.

use std::collections::BTreeMap;
use std::ffi::OsString;
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
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The most bytes a server may send for one call, and between two calls; one that sends more is cut off.
pub(crate) const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The most bytes of a server's log file; a start begins a new one when it is full.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// The most bytes of a server's last words that an error repeats.
const STDERR_TAIL_BYTES_MAX: usize = 512;
/// How long after a program's end its last words are waited for.
const STDERR_TAIL_WAIT: Duration = Duration::from_millis(500);
/// How long a connection that broke off is waited for to say why.
const EXIT_WAIT: Duration = Duration::from_secs(1);
/// Variables of the environment that every server is given. Keys of models are not among them.
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
    pub command: &'a str,
    pub args: &'a [String],
    /// Variables added to its environment.
    pub env: &'a BTreeMap<String, SecretString>,
    pub cwd: PathBuf,
    /// Where it writes its complaints.
    pub log: &'a Path,
}

/// A program that was started. Dropping it ends it.
pub(crate) struct ServerProcess {
    group: ServerProcessGroup,
    /// How it ended, once it has.
    exit_text: watch::Receiver<Option<String>>,
    allowance: Arc<OutputAllowance>,
}

/// The processes of one program; any clone can end them, once.
#[derive(Clone, Default)]
pub(crate) struct ServerProcessGroup {
    #[cfg(unix)]
    leader: Arc<Mutex<Option<rustix::process::Pid>>>,
    stop: CancellationToken,
}

/// A program's output, which fails when it says too much.
pub(crate) struct BoundedOutput {
    output: ChildStdout,
    allowance: Arc<OutputAllowance>,
}

struct OutputAllowance {
    bytes: AtomicUsize,
}

impl ServerProcess {
    /// Starts a program and returns it with its output and its input. `group` is told which processes these are.
    pub fn start(
        program: &ProgramSpec<'_>,
        group: &Mutex<ServerProcessGroup>,
    ) -> io::Result<(Self, BoundedOutput, ChildStdin)> {
        let log = open_log(program.log).ok();
        let mut child = build_command(program).spawn()?;
        let group = {
            let mut slot = group.lock();
            *slot = ServerProcessGroup::from_child(&child);
            slot.clone()
        };
        let missing = || io::Error::other("a pipe is missing");
        let (stdin, stdout) =
            (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (sender, ended) = watch::channel(None);
        tokio::spawn(supervise_child(child, stderr, log, group.clone(), sender));
        let allowance = Arc::new(OutputAllowance { bytes: AtomicUsize::new(OUTPUT_BYTES_MAX) });
        let bounded = BoundedOutput { output: stdout, allowance: Arc::clone(&allowance) };
        Ok((Self { group, exit_text: ended, allowance }, bounded, stdin))
    }

    /// Lets the program say as much again as one call may.
    pub fn reset_allowance(&self) {
        self.allowance.bytes.store(OUTPUT_BYTES_MAX, Ordering::Relaxed);
    }

    /// Returns why nothing more comes from the program.
    pub async fn exit_reason(&self) -> String {
        if self.allowance.bytes.load(Ordering::Relaxed) == 0 {
            return format!("it sent more than {OUTPUT_BYTES_MAX} bytes and was cut off");
        }
        let mut ended = self.exit_text.clone();
        let waited = tokio::time::timeout(EXIT_WAIT, ended.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(how)) => how.clone().unwrap_or_default(),
            Ok(Err(_)) | Err(_) => "it closed its output".to_owned(),
        }
    }

    /// Waits for the program to end by itself, at most this long, then ends it.
    pub async fn stop_within(&self, time: Duration) {
        let mut ended = self.exit_text.clone();
        let _ = tokio::time::timeout(time, ended.wait_for(Option::is_some)).await;
        self.group.kill();
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.group.kill();
    }
}

impl ServerProcessGroup {
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

    /// Ends the processes that are left.
    pub fn kill(&self) {
        self.stop.cancel();
        #[cfg(unix)]
        if let Some(leader) = self.leader.lock().take() {
            // It fails when all of them have ended.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
    }
}

impl AsyncRead for BoundedOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        let take = |left: usize| Some(left.saturating_sub(read));
        let left = self.allowance.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        match left {
            Ok(left) | Err(left) if left > read => polled,
            Ok(_) | Err(_) => Poll::Ready(Err(io::Error::other("the server says too much"))),
        }
    }
}

fn build_command(program: &ProgramSpec<'_>) -> Command {
    // A relative path is meant from where the program runs; a bare name is looked up.
    let path = match Path::new(program.command) {
        path if path.components().count() > 1 => program.cwd.join(path).into_os_string(),
        path => OsString::from(path),
    };
    let mut command = Command::new(path);
    command
        .args(program.args)
        .current_dir(&program.cwd)
        .env_clear()
        .envs(INHERITED_VARIABLES.iter().filter_map(|name| env::var_os(name).map(|value| (name, value))))
        .envs(program.env.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// The log file of a server, and how much more may be written to it.
struct ServerLog {
    file: File,
    /// Bytes until [`LOG_BYTES_MAX`].
    bytes_left: u64,
}

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

/// Waits for the program's end, ends what it left behind, and tells how it went.
async fn supervise_child(
    mut child: Child,
    stderr: ChildStderr,
    log: Option<ServerLog>,
    group: ServerProcessGroup,
    ended: watch::Sender<Option<String>>,
) {
    let mut complaints = tokio::spawn(log_stderr(stderr, log));
    let status = tokio::select! {
        status = child.wait() => status,
        () = group.stop.cancelled() => child.kill().await.and(child.wait().await),
    };
    group.kill();
    let last_words = match tokio::time::timeout(STDERR_TAIL_WAIT, &mut complaints).await {
        Ok(Ok(words)) => words,
        Ok(Err(_)) | Err(_) => String::new(),
    };
    let mut how = match status {
        Ok(status) => format!("it ended with {status}"),
        Err(error) => format!("it ended: {error}"),
    };
    if !last_words.is_empty() {
        how.push_str(&format!("; its last words: {last_words}"));
    }
    ended.send_replace(Some(how));
}

/// Writes complaints to the log file as far as there is room, and returns the last line of them.
async fn log_stderr(mut stderr: ChildStderr, log: Option<ServerLog>) -> String {
    let (mut file, mut room) = log.map_or((None, 0), |log| (Some(log.file), log.bytes_left));
    let mut tail: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let part = &buffer[..read];
        let kept = &part[..read.min(usize::try_from(room).unwrap_or(usize::MAX))];
        if let Some(log) = &mut file {
            // A log that cannot be written is no reason to stop.
            let _ = log.write_all(kept);
        }
        room -= kept.len() as u64;
        tail.extend_from_slice(part);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES_MAX);
        tail.drain(..excess);
    }
    let text = String::from_utf8_lossy(&tail);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).collect()
}
