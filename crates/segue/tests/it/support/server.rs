//! `segue serve` in a sandbox, on a port of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::sandbox::TestSandbox;

/// A running server; it ends with this value.
pub struct ServeProcess {
    child: Child,
    /// The server's announcement on its standard output.
    pub announcement: Value,
}

impl ServeProcess {
    /// Serves what is in the sandbox, and waits until it can be reached.
    pub fn start(sandbox: &TestSandbox) -> Self {
        let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(child.stdout.take().unwrap()).lines().next();
        let line = line.expect("the server says where it is").unwrap();
        Self { child, announcement: serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")) }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        self.announcement["url"].as_str().unwrap()
    }

    /// Returns the token of the local operator.
    pub fn owner_token(&self) -> String {
        let file = self.announcement["token_file"].as_str().unwrap();
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end and returns the exit code.
    pub fn wait_for_exit(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // One that has ended cannot be stopped again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
