//! Commands in the sandbox, with the real binary: attacks of a hostile repository, the work of a developer, and requests
//! to run outside. A test is skipped, and says so, if the system cannot put a process into the sandbox.

mod attacks;
mod launcher;
mod outside;
mod programs;
mod work;

use std::fs;
use std::path::PathBuf;

use sandbox::{Launcher, SandboxSupport};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::{ProgramOutput, TestSandbox, binary_path};

/// A text in files that no command may read.
const PLANTED: &str = "planted-secret-text";

/// Returns what the system supports, or `None` with a printed reason if commands cannot be put into the sandbox.
fn support() -> Option<SandboxSupport> {
    let support = Launcher::at(binary_path()).support();
    if !support.is_sufficient() {
        println!("skipped: this system has no sandbox for commands: {support:?}");
        return None;
    }
    Some(support)
}

/// Returns what the system supports, or `None` with a printed reason if processes cannot have namespaces of their own.
fn namespaces() -> Option<SandboxSupport> {
    let support = support()?;
    if !support.has_namespaces {
        println!("skipped: this system permits no namespaces: {support:?}");
        return None;
    }
    Some(support)
}

/// A hostile repository with files around it that it must not reach.
struct HostileRepository {
    sandbox: TestSandbox,
    /// The model of the newest turn, which may go on after a decision.
    server: Option<ScriptedServer>,
}

impl HostileRepository {
    fn new() -> Self {
        let sandbox = TestSandbox::new();
        let fixture = Self { sandbox, server: None };
        for (path, text) in [
            ("user/.ssh/id_ed25519", PLANTED),
            ("user/.aws/credentials", PLANTED),
            ("user/.bashrc", "before"),
            ("user/notes.txt", PLANTED),
            ("outside", "before"),
            ("work/.env", PLANTED),
            ("work/config/server.key", PLANTED),
            ("work/src.txt", "open"),
        ] {
            let path = fixture.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let status =
            std::process::Command::new("git").args(["init", "-q"]).current_dir(fixture.path("work")).status();
        assert!(status.unwrap().success(), "the tests need git");
        fixture
    }

    /// Returns a path next to the workspace, the home folder of the user (`user`) and that of the program (`home`).
    fn path(&self, path: &str) -> PathBuf {
        self.sandbox.work_folder().parent().unwrap().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn write_config(&self, text: &str) {
        fs::create_dir_all(self.sandbox.home()).unwrap();
        fs::write(self.sandbox.home().join("config.toml"), text).unwrap();
    }

    /// Runs the command lines, one call after the other, and returns their results.
    fn run(&mut self, lines: &[&str]) -> Vec<String> {
        let calls: Vec<Value> = lines.iter().map(|line| json!({"command": line})).collect();
        let (output, results) = self.run_calls(&calls, "sandboxed");
        assert_eq!(output.code, 0, "{output:?}");
        results
    }

    /// Runs a turn in which the model makes these calls of `execute`, one in each answer. Returns the output of the
    /// program and the results.
    fn run_calls(&mut self, calls: &[Value], policy: &str) -> (ProgramOutput, Vec<String>) {
        let reply = |(index, args): (usize, &Value)| {
            ScriptedReply::call(format!("c{index}"), "execute", args.clone())
        };
        let end = ScriptedReply { always: true, ..ScriptedReply::text("Done.") };
        let server =
            ScriptedServer::start(Script::new(calls.iter().enumerate().map(reply).chain([end]))).unwrap();
        self.sandbox.set_variable("ANTHROPIC_BASE_URL", server.url());
        self.sandbox.set_variable("ANTHROPIC_API_KEY", "test-key-of-the-model");
        let output = self.sandbox.run(&["run", "-p", "go", "--approve", policy, "--json"]);
        let last = server.requests().last().unwrap().body["messages"].clone();
        let blocks = last.as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
        let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
        let results = results.map(|block| block["content"].to_string()).collect();
        self.server = Some(server);
        (output, results)
    }
}
