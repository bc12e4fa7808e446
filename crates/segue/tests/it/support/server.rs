//! `segue serve` in a sandbox, on a free port.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::sandbox::TestSandbox;

/// A running server. Dropping this value stops it.
pub struct ServeProcess {
    child: Child,
    /// Line that the server printed on its standard output when it was ready.
    pub announcement: Value,
}

impl ServeProcess {
    /// Starts a server in the sandbox and waits until it accepts connections.
    pub fn start(sandbox: &TestSandbox) -> Self {
        Self::spawn(sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--json"]))
    }

    /// Starts a server with a command, which contains `--json`, and waits until it accepts connections.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next();
        let line = line.expect("the server says where it is").unwrap();
        Self { child, announcement: serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")) }
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> &str {
        self.announcement["url"].as_str().unwrap()
    }

    /// Returns the token of the local owner.
    pub fn owner_token(&self) -> String {
        let file = self.announcement["token_file"].as_str().unwrap();
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the execution of the server until it receives `CONT`. Returns once all of its threads have stopped.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        while !self.has_stopped() {
            std::thread::yield_now();
        }
    }

    /// Returns whether the state of every thread in `/proc/PID/task/TID/stat` is `T` (stopped). It is the first field after
    /// the name, which is in parentheses.
    fn has_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads.map(|thread| thread.unwrap().path().join("stat")).all(|file| {
            // A thread that has just ended has no file any more.
            let Ok(text) = std::fs::read_to_string(file) else { return true };
            text.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
        })
    }

    /// Returns the most memory that the server has used at any time, in KiB.
    pub fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Waits for the server to exit, and returns its exit code and its standard error, which the command piped.
    pub fn wait_for_failure(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }

    /// Waits for the server to exit and returns its exit code.
    pub fn wait_for_exit(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // A server that has already exited cannot be stopped again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
