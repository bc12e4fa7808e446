//! Running one command with a bounded time, and ending all it started when it is stopped. Which command is not decided
//! here.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::execute::output::ShellOutput;

/// How long a command has to end by itself once it was asked to.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);
/// How much is read at once.
const CHUNK_BYTES: usize = 32 * 1024;
/// The most bytes that are read of what is left in the pipe when the command has ended.
const DRAIN_BYTES_MAX: usize = 1024 * 1024;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandExit {
    /// By itself, with this status, or by a signal.
    Exited(Option<i32>),
    TimedOut,
    Cancelled,
}

/// Runs the command to its end, or ends it and all it started. What it leaves in the background goes on, and is no
/// longer listened to.
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
    // It holds the writing end open.
    drop(command);
    let mut group = ProcessGroup::from_child(&child);
    let mut running =
        OutputReader { pipe: Receiver::from_owned_fd(OwnedFd::from(reader))?, is_open: true, output };
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => CommandExit::Cancelled,
        () = tokio::time::sleep(timeout) => CommandExit::TimedOut,
        status = running.read_until_exit(&mut child) => CommandExit::Exited(status?),
    };
    if let CommandExit::Exited(_) = ended {
        group.leader = None;
    } else {
        group.signal(Signal::TERM);
        let _ = tokio::time::timeout(TERMINATION_GRACE, running.read_until_exit(&mut child)).await;
        group.signal(Signal::KILL);
        let _ = child.wait().await;
    }
    running.drain_pipe();
    Ok(ended)
}

/// A command whose output is being read.
struct OutputReader<'a> {
    pipe: Receiver,
    is_open: bool,
    output: &'a mut ShellOutput,
}

impl OutputReader<'_> {
    /// Reads until the command has ended; others may still hold the pipe open then.
    async fn read_until_exit(&mut self, child: &mut Child) -> io::Result<Option<i32>> {
        let mut piece = vec![0; CHUNK_BYTES];
        loop {
            tokio::select! {
                read = self.pipe.read(&mut piece), if self.is_open => match read {
                    Ok(count @ 1..) => self.output.push(&piece[..count]),
                    Ok(0) | Err(_) => self.is_open = false,
                },
                status = child.wait() => return Ok(status?.code()),
            }
        }
    }

    /// Takes what is in the pipe at this moment, without waiting for more.
    fn drain_pipe(&mut self) {
        let mut piece = vec![0; CHUNK_BYTES];
        let mut total = 0;
        while self.is_open && total < DRAIN_BYTES_MAX {
            // The system is asked, not the runtime: it may not have heard of the last bytes yet.
            match rustix::io::read(self.pipe.as_fd(), &mut piece) {
                Ok(count @ 1..) => {
                    self.output.push(&piece[..count]);
                    total += count;
                }
                Ok(0) | Err(_) => self.is_open = false,
            }
        }
    }
}

/// The processes of one command. Dropping it ends them all, unless the command has ended by itself.
struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    fn from_child(child: &Child) -> Self {
        Self { leader: child.id().and_then(|id| Pid::from_raw(id.cast_signed())) }
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // It fails when all of them have ended.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
