//! An isolated environment for a test: home folders, a session file, and the binary without the environment
//! of the host machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A temporary folder with everything that a test reads and writes.
pub struct TestSandbox {
    folder: tempfile::TempDir,
    /// Environment variables in addition to those of the folders.
    variables: Vec<(String, String)>,
    /// PostgreSQL database of the program, if the tests run on PostgreSQL.
    database: Option<test_postgres::TestDatabase>,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct ProgramOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl TestSandbox {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("user")).unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self {
            folder,
            variables: Vec::new(),
            database: test_postgres::TestDatabase::create_if_configured().unwrap(),
        }
    }

    /// Uses an SQLite file even when the tests run on PostgreSQL.
    pub fn with_file_database(mut self) -> Self {
        self.database = None;
        self
    }

    /// Returns the PostgreSQL database, if the sandbox has one.
    pub const fn database(&self) -> Option<&test_postgres::TestDatabase> {
        self.database.as_ref()
    }

    /// Changes the database directly, without the program.
    pub fn execute_sql(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql).unwrap(),
            None => {
                let database = rusqlite::Connection::open(self.home().join("segue.db")).unwrap();
                database.execute_batch(sql).unwrap();
            }
        }
    }

    /// Sets the environment variables that select the scripted server's model.
    pub fn with_model(mut self, server: &test_model::ScriptedServer) -> Self {
        self.set_variable("ANTHROPIC_BASE_URL", server.url());
        self.set_variable("ANTHROPIC_API_KEY", "test-key");
        self
    }

    /// Makes a review check its draft without a model, unless the test has settings of its own. A script then needs no replies
    /// to the questions of the check, which have tests of their own.
    pub fn check_drafts_without_model(&self) {
        let config = self.home().join("config.toml");
        let has_model = self.variables.iter().any(|(name, _)| name == "ANTHROPIC_API_KEY");
        if has_model && !config.exists() {
            fs::create_dir_all(self.home()).unwrap();
            fs::write(config, "[handoff]\nprobe = \"text\"\n").unwrap();
        }
    }

    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the program's home folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the working folder of the program.
    pub fn work_folder(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file into the working folder and returns its path.
    pub fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.work_folder().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Writes the sample session and returns its path.
    pub fn write_session(&self) -> String {
        self.write_file("session.jsonl", sample_session())
    }

    /// Returns the environment of the program, for a terminal.
    pub fn environment(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let mut all = vec![
            ("HOME".to_owned(), path("user")),
            ("SEGUE_HOME".to_owned(), path("home")),
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_default()),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
        ];
        let url =
            |database: &test_postgres::TestDatabase| ("SEGUE_DATABASE_URL".to_owned(), database.socket_url());
        all.extend(self.database.as_ref().map(url));
        all.extend(self.variables.iter().cloned());
        all
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary_path());
        command
            .args(args)
            .current_dir(self.work_folder())
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> ProgramOutput {
        self.command(args).output().unwrap().into()
    }

    /// Runs the program with `input` on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> ProgramOutput {
        let path = self.write_file("stdin", input);
        self.command(args).stdin(fs::File::open(path).unwrap()).output().unwrap().into()
    }

    /// Runs a command that must succeed and returns the JSON that it printed.
    pub fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Returns the JSON of all threads.
    pub fn threads(&self) -> Vec<Value> {
        self.json(&["threads", "list", "--json"]).as_array().unwrap().clone()
    }

    /// Returns the whole text of agent.md.
    pub fn read_agent_md(&self) -> Option<String> {
        fs::read_to_string(self.home().join("agents/agent/agent.md")).ok()
    }
}

impl ProgramOutput {
    /// Checks the exit code, and that standard error has one error line and one hint and nothing else.
    #[track_caller]
    pub fn assert_error(&self, code: i32, what: &str) {
        assert_eq!(self.code, code, "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(lines[0].starts_with("segue: failed to ") && lines[0].contains(what), "{self:?}");
        assert!(lines.len() == 2 && lines[1].starts_with("  hint: "), "{self:?}");
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl From<Output> for ProgramOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub fn binary_path() -> &'static Path {
    Path::new(assert_cmd::cargo::cargo_bin!("segue"))
}

/// Returns a short debugging session in the format of Claude Code.
pub fn sample_session() -> String {
    let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let result = |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let turns = [
        (
            "user",
            json!(
                "The test `retries_after_timeout` fails now and then. Never raise the timeout; find the cause."
            ),
        ),
        (
            "assistant",
            json!([{"type": "text", "text": "I will look at the test first."},
            call("c1", "Read", json!({"file_path": "/srv/kettle/src/retry.rs"}))]),
        ),
        ("user", json!([result("c1", "pub fn retry() { /* 40 lines */ }")])),
        ("assistant", json!([call("c2", "Bash", json!({"command": "cargo test retries_after_timeout"}))])),
        ("user", json!([result("c2", "test retries_after_timeout ... FAILED\nleft: 2, right: 3")])),
        (
            "assistant",
            json!([{"type": "text", "text": "The clock is read twice; I decided to pass it in."},
            call("c3", "Edit", json!({"file_path": "/srv/kettle/src/retry.rs", "old_string": "now()", "new_string": "clock.now()"}))]),
        ),
        ("user", json!([result("c3", "The file /srv/kettle/src/retry.rs has been updated.")])),
        ("assistant", json!([call("c4", "Bash", json!({"command": "cargo test retries_after_timeout"}))])),
        ("user", json!([result("c4", "test retries_after_timeout ... ok")])),
        (
            "assistant",
            json!([{"type": "text", "text": "The test passes. The backoff test still reads the clock twice."}]),
        ),
        ("user", json!("Good. Then do the same in src/backoff.rs and run the whole suite.")),
    ];
    let mut lines = String::new();
    for (at, (role, content)) in turns.iter().enumerate() {
        let parent = (at > 0).then(|| format!("00000000-0000-4000-8000-{:012}", at - 1));
        let line = json!({
            "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": "/srv/kettle", "version": "2.1.0",
            "sessionId": "11111111-2222-4333-8444-555555555555", "type": role,
            "uuid": format!("00000000-0000-4000-8000-{at:012}"),
            "timestamp": format!("2026-11-20T10:{at:02}:00.000Z"),
            "message": {"role": role, "content": content},
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    lines
}
