//! The recipe of a fixture: the commands and requests that write a home with everything that an upgrade must keep.

use serde_json::{Value, json};
use test_model::{RequestMatcher, Script, ScriptedFault, ScriptedReply, ScriptedServer};

use super::SandboxedHome;
use super::fixture::{DatabaseEngine, HomeManifest, HomeSubjects, RecordedOutput};
use crate::sandbox::{ProgramOutput, TestSandbox, sample_session};
use crate::serve::client::ApiClient;
use crate::server::ServeProcess;

/// Number of records of the sample session of the repository that are imported.
const SESSION_RECORDS: usize = 60;

/// The settings. Without an expiry, the pending handoff can be accepted many years later. The next server waits for the end of
/// the killed server's lease.
const CONFIG: &str = "\
[handoff]
expires_after_days = 0
max_refinements = 5

[permissions]
allow = [\"write_file\", \"task\"]
ask = [\"execute\"]

[serve]
lease_seconds = 10
";

/// A skill of the user.
const SKILL: &str =
    "---\nname: herons\ndescription: How to count herons.\n---\nCount their legs and divide by two.\n";

/// An image of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A home in the making, with a model that only some of its commands use.
struct HomeWriter {
    home: SandboxedHome,
    model: ScriptedServer,
}

/// Writes a home and records what must be found in it.
pub fn write_home(engine: DatabaseEngine) -> (SandboxedHome, HomeManifest) {
    let mut writer = HomeWriter { home: SandboxedHome::empty(engine), model: start_model() };
    writer.write_files();
    let (compacted, child) = writer.write_imported_threads();
    let asking = writer.write_runs();
    writer.write_memory();
    let deleted = writer.write_deleted_thread();
    let pending_handoff = writer.write_pending_handoff();
    let alice_key = writer.write_users();
    let (served, runs) = writer.write_served_thread();
    let subjects =
        HomeSubjects { compacted, child, pending_handoff, asking, served, runs, deleted, alice_key };
    let manifest = writer.record_manifest(subjects);
    (writer.home, manifest)
}

/// Starts a model that outputs by the words of the request.
fn start_model() -> ScriptedServer {
    let when = |said: &str, reply: ScriptedReply| {
        let matcher = RequestMatcher { said: Some(said.to_owned()), ..RequestMatcher::default() };
        ScriptedReply { when: Some(matcher), ..reply }
    };
    let note = json!({"path": "note.txt", "content": "Herons have two legs.\n"});
    let task = json!({"description": "count the hens", "prompt": "Count the hens in the yard."});
    ScriptedServer::start(Script::new([
        when("Write the note", ScriptedReply::call("c1", "write_file", note)),
        when("Delegate this", ScriptedReply::call("c1", "task", task)),
        when("Ask me first", ScriptedReply::call("c1", "execute", json!({"command": "touch asked.txt"}))),
        when("Wait for me", ScriptedReply::fault(ScriptedFault::Hang).with_repeat()),
        ScriptedReply::text("Done: the heron stands in the reeds.").with_repeat(),
    ]))
    .unwrap()
}

impl HomeWriter {
    fn sandbox(&self) -> &TestSandbox {
        &self.home.sandbox
    }

    /// Runs a command that must succeed, without a model, and returns the JSON that it printed.
    fn json(&self, args: &[&str]) -> Value {
        self.sandbox().json(args)
    }

    /// Runs a command that may use the model.
    fn run_with_model(&self, args: &[&str]) -> ProgramOutput {
        let mut command = self.sandbox().command(args);
        command.env("ANTHROPIC_BASE_URL", self.model.url()).env("ANTHROPIC_API_KEY", "test-key");
        command.output().unwrap().into()
    }

    fn write_files(&self) {
        let home = self.sandbox().home();
        std::fs::create_dir_all(home.join("skills/herons")).unwrap();
        std::fs::write(home.join("config.toml"), CONFIG).unwrap();
        std::fs::write(home.join("skills/herons/SKILL.md"), SKILL).unwrap();
    }

    /// Imports a session and returns the id of its thread.
    fn import(&self, text: &str) -> String {
        let path = self.sandbox().write_file("session.jsonl", text);
        let report = self.json(&["import", &path, "--json"]);
        report["threads"][0]["thread_id"].as_str().unwrap().to_owned()
    }

    /// Imports a session, compacts its thread, and hands it off twice: to a child that has had its first turn, and to a child
    /// that has not. Returns the thread and the second child.
    fn write_imported_threads(&self) -> (String, String) {
        let session = include_str!("../../../../../../examples/flaky-test.jsonl");
        let session: String = session.split_inclusive('\n').take(SESSION_RECORDS).collect();
        let thread = self.import(&session);
        let fork =
            self.json(&["threads", "fork", &thread, "--json"])["thread_id"].as_str().unwrap().to_owned();
        self.json(&["threads", "rewind", &fork, "9", "--json"]);
        self.json(&["threads", "rename", &fork, "Grüße, 世界", "--json"]);
        let handed_off = |goal: &str| {
            let report = self.json(&["handoff", &thread, goal, "--apply", "--json"]);
            report["child_thread_id"].as_str().unwrap().to_owned()
        };
        let first_child = handed_off("find the cause");
        let turn = self.run_with_model(&["run", "-t", &first_child, "-p", "Go on."]);
        assert_eq!(turn.code, 0, "{turn:?}");
        assert_eq!(self.json(&["compact", &thread, "--json"])["outcome"], "condensed");
        (thread.clone(), handed_off("fix the test"))
    }

    /// Runs turns with tools, a sub-agent and a rating, and one that stops at a question. Returns the thread of the question.
    fn write_runs(&self) -> String {
        for prompt in ["Write the note about herons.", "Delegate this to a helper."] {
            let turn = self.run_with_model(&["run", "-p", prompt]);
            assert_eq!(turn.code, 0, "{turn:?}");
            self.json(&["feedback", "last", "up", "--comment", "well done", "--json"]);
        }
        let question = self.run_with_model(&["run", "-p", "Ask me first about the file.", "--json"]);
        assert_eq!(question.code, 3, "{question:?}");
        self.newest_thread()
    }

    /// Returns the id of the thread that was active last.
    fn newest_thread(&self) -> String {
        self.json(&["threads", "show", "last", "--json"])["thread_id"].as_str().unwrap().to_owned()
    }

    fn write_memory(&self) {
        self.json(&["remember", "The clock is passed in.", "--json"]);
        self.json(&[
            "store",
            "put",
            "notes.birds",
            "heron",
            "{\"legs\": 2, \"name\": \"Reiher, 鷺\"}",
            "--json",
        ]);
        self.json(&["store", "put", "notes.birds", "crane", "{\"legs\": 2}", "--json"]);
        self.json(&["store", "delete", "notes.birds", "crane", "--json"]);
        let summaries = self.json(&["memory", "summaries", "--everywhere", "--json"]);
        assert!(!summaries["summaries"].as_array().unwrap().is_empty());
    }

    fn write_deleted_thread(&self) -> String {
        let thread =
            self.import(&sample_session().replace("11111111", "22222222").replace("kettle", "quagga"));
        self.json(&["threads", "delete", &thread, "--yes", "--json"]);
        thread
    }

    /// Returns the id of a handoff that awaits a decision, of a thread of its own.
    fn write_pending_handoff(&self) -> String {
        let thread = self.import(&sample_session());
        let output = self.sandbox().run(&["handoff", &thread, "--json"]);
        assert_eq!(output.code, 3, "{output:?}");
        output.json()["handoff"]["handoff_id"].as_str().unwrap().to_owned()
    }

    /// Creates the keys of two users, one of which is revoked, and a thread of the other. Returns her key.
    fn write_users(&self) -> String {
        let key = |user: &str| self.json(&["keys", "create", user, "--label", "laptop", "--json"]);
        let (alice, bob) = (key("alice"), key("bob"));
        self.json(&["keys", "revoke", bob["key_id"].as_str().unwrap(), "--json"]);
        let session =
            self.sandbox().write_file("alice.jsonl", sample_session().replace("11111111", "33333333"));
        self.json(&["import", &session, "--assistant", "agent@alice", "--json"]);
        alice["key"].as_str().unwrap().to_owned()
    }

    /// Serves a thread: a turn with an image, a run that waits for the model, and a queued run. Then the server is killed.
    fn write_served_thread(&mut self) -> (String, [String; 2]) {
        let (url, key) = (self.model.url().to_owned(), "test-key");
        let mut command = self.sandbox().command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
        // The runs resume in this folder, so it must exist on every machine.
        command.current_dir("/").env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", key);
        let serving = ServeProcess::spawn(command);
        let api = crate::serve::owner_client(&serving);
        let thread = api.post("/threads", &json!({})).json()["thread_id"].as_str().unwrap().to_owned();
        let image = json!({"type": "image", "mime_type": "image/png", "base64": PIXEL});
        let content = json!([{"type": "text", "text": "What is on the picture?"}, image]);
        let answer = api.post(&format!("/threads/{thread}/runs/wait"), &run_body(&content));
        assert!(answer.status == 200 && answer.json().get("__error__").is_none(), "{}", answer.text());
        let calls = self.model.call_count();
        let active = start_run(&api, &thread, "Wait for me.");
        while self.model.call_count() == calls {
            std::thread::yield_now();
        }
        let queued = start_run(&api, &thread, "And then the cranes.");
        serving.signal(rustix::process::Signal::KILL);
        assert_eq!(serving.wait_for_exit(), None);
        (thread, [active, queued])
    }

    /// Records the output of the commands that read.
    fn record_manifest(&self, subjects: HomeSubjects) -> HomeManifest {
        let sandbox = self.sandbox();
        let record = |args: &[&str]| RecordedOutput::record(sandbox, args);
        let mut outputs = vec![
            record(&["threads", "list", "--json"]),
            record(&["threads", "list", "--assistant", "agent@alice", "--json"]),
            record(&["threads", "tree", "--json"]),
            record(&["handoff", "--list", "--json"]),
            record(&["handoff", "--show", &subjects.pending_handoff, "--json"]),
            record(&["handoff", "stats", "--json"]),
            record(&["keys", "list", "--json"]),
            record(&["store", "search", "--json"]),
            record(&["store", "namespaces", "--json"]),
            record(&["memory", "summaries", "--json"]),
            record(&["trace", &subjects.compacted, "--json"]),
            record(&["search", "heron reeds", "--limit", "100", "--json"]),
            record(&["search", "lease", "--kind", "message", "--limit", "100", "--json"]),
            record(&["search", "quagga", "--json"]),
        ];
        for assistant in ["agent", "agent@alice"] {
            let threads = self.json(&["threads", "list", "--assistant", assistant, "--json"]);
            for thread in threads.as_array().unwrap() {
                let id = thread["thread_id"].as_str().unwrap();
                outputs.push(record(&[
                    "threads",
                    "export",
                    id,
                    "--format",
                    "json",
                    "--assistant",
                    assistant,
                ]));
                outputs.push(record(&["memory", "trace", id, "--assistant", assistant, "--json"]));
            }
        }
        let agent_md = sandbox.read_agent_md().unwrap();
        HomeManifest { version: env!("CARGO_PKG_VERSION").to_owned(), subjects, agent_md, outputs }
    }
}

/// Returns the body of a request for a run.
fn run_body(content: &Value) -> Value {
    json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": content}]}})
}

/// Starts or queues a run and returns its id.
fn start_run(api: &ApiClient, thread: &str, text: &str) -> String {
    let mut body = run_body(&json!(text));
    body["multitask_strategy"] = "enqueue".into();
    let answer = api.post(&format!("/threads/{thread}/runs"), &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["run_id"].as_str().unwrap().to_owned()
}
