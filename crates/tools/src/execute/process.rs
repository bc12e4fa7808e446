//! Runs one command with a time limit and stops its whole process group on a timeout or cancellation. It does not
//! decide which command may run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::execute::output::ShellOutput;

/// Time between SIGTERM and SIGKILL when a command is stopped.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// Size in bytes of the read buffer.
const CHUNK_BYTES: usize = 32 * 1024;
/// Maximum number of bytes that are read from the pipe after the command has ended. A background child may still write
/// to it without end.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// The way in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandExit {
    /// The command exited with this status, or was ended by a signal that did not come from here (`None`).
    Exited(Option<i32>),
    /// The time limit passed, and the command was stopped.
    TimedOut,
    /// The call was cancelled, and the command was stopped.
    Cancelled,
}

/// Runs the command until it exits, the time limit passes or the call is cancelled. Standard output and standard error
/// go to `output` in the order in which they were written.
///
/// On a timeout or cancellation, the process group gets SIGTERM and after [`TERMINATION_GRACE`] SIGKILL. Background
/// children of a command that exits by itself continue to run; their output is no longer read. Dropping the future
/// kills the process group.
///
/// # Errors
/// Returns the I/O error if the command cannot be started or waited for.
pub(super) async fn run_command(
    mut command: Command,
    timeout: Duration,
    cancel: &CancellationToken,
    output: &mut ShellOutput,
) -> io::Result<CommandExit> {
    // One pipe for both outputs keeps their order.
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command owns copies of the pipe's write end. The pipe reports its end only when they are closed.
    drop(command);
    let mut group = ProcessGroup::from_child(&child);
    let mut output_reader =
        OutputReader { pipe: Receiver::from_owned_fd(OwnedFd::from(reader))?, is_open: true, output };
    let exit = tokio::select! {
        biased;
        () = cancel.cancelled() => CommandExit::Cancelled,
        () = tokio::time::sleep(timeout) => CommandExit::TimedOut,
        status = output_reader.read_until_exit(&mut child) => CommandExit::Exited(status?),
    };
    if let CommandExit::Exited(_) = exit {
        group.leader = None;
    } else {
        group.signal(Signal::TERM);
        let _ = tokio::time::timeout(TERMINATION_GRACE, output_reader.read_until_exit(&mut child)).await;
        group.signal(Signal::KILL);
        let _ = child.wait().await;
    }
    output_reader.drain_pipe();
    Ok(exit)
}

/// The reading end of a command's output pipe.
struct OutputReader<'a> {
    pipe: Receiver,
    /// False once the pipe has ended or failed.
    is_open: bool,
    /// The receiver of the bytes.
    output: &'a mut ShellOutput,
}

impl OutputReader<'_> {
    /// Reads output until the command exits, and returns its status. Background children may still have the pipe open
    /// then, so the end of the pipe is not awaited.
    async fn read_until_exit(&mut self, child: &mut Child) -> io::Result<Option<i32>> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            tokio::select! {
                read = self.pipe.read(&mut chunk), if self.is_open => match read {
                    Ok(count @ 1..) => self.output.push(&chunk[..count]),
                    Ok(0) | Err(_) => self.is_open = false,
                },
                status = child.wait() => return Ok(status?.code()),
            }
        }
    }

    /// Reads the bytes that are in the pipe at this moment, without waiting for more. The pipe is non-blocking.
    fn drain_pipe(&mut self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut total = 0;
        while self.is_open && total < DRAIN_BYTES_MAX {
            // This calls the system directly, because Tokio may not have polled the readiness of the last bytes yet.
            match rustix::io::read(self.pipe.as_fd(), &mut chunk) {
                Ok(count @ 1..) => {
                    self.output.push(&chunk[..count]);
                    total += count;
                }
                Ok(0) | Err(_) => self.is_open = false,
            }
        }
    }
}

/// The process group of one command. Dropping it kills the group, unless the command has exited by itself.
struct ProcessGroup {
    /// The id of the group; `None` once the command has exited by itself.
    leader: Option<Pid>,
}

impl ProcessGroup {
    /// Returns the group that `child` leads.
    fn from_child(child: &Child) -> Self {
        Self { leader: child.id().and_then(|id| Pid::from_raw(id.cast_signed())) }
    }

    /// Sends a signal to all processes of the group.
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // The system call fails if all processes have ended.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
