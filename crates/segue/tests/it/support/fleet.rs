//! Several servers on one database, SQLite or PostgreSQL, with active runs.

mod stream_reader;

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply, ScriptedServer};

use super::sandbox::TestSandbox;
use super::server::ServeProcess;
use crate::serve::client::{ApiClient, ApiResponse};

pub use stream_reader::{StreamReaders, StreamRecord};

/// Name of the gate at which the model's last answers wait.
pub const FINAL_GATE: &str = "end";

/// How long a write waits for the transactions of other servers before a paused server is taken for the cause.
const SQLITE_WAIT: Duration = Duration::from_secs(1);

/// Configuration of all servers. The time limits are long because connections are slow on a busy machine
/// and runs wait at gates as long as a test takes.
const CONFIG: &str = "
[serve]
lease_seconds = LEASE
[permissions]
allow = [\"execute\"]
[database]
wait_seconds = 60
[providers.anthropic]
idle_seconds = 600
";

/// The database that the servers share.
pub enum FleetDatabase {
    /// SQLite, in the shared home folder.
    Sqlite,
    /// PostgreSQL, in a database that is dropped together with this value.
    Postgres(test_postgres::TestDatabase),
}

/// Servers with one model on one database.
pub struct ServerFleet {
    pub sandbox: TestSandbox,
    pub model: ScriptedServer,
    pub servers: Vec<ServeProcess>,
    store: FleetDatabase,
}

/// A run and its thread.
#[derive(Debug, Clone)]
pub struct FleetRun {
    pub thread: String,
    pub run: String,
}

/// The journal's view of a run.
#[derive(Debug)]
pub struct JournaledRun {
    /// Outputs of the tool calls in order. An interrupted call has none.
    pub results: Vec<String>,
    /// Text of the last answer.
    pub answer: String,
    pub status: String,
}

impl ServerFleet {
    /// Starts `count` servers with leases of `lease_seconds`. In each run the model requests a recorded
    /// tool call `calls` times, then answers once the gate is open.
    pub fn start(store: FleetDatabase, count: usize, (lease_seconds, calls): (u32, usize)) -> Self {
        let note = |call: usize| {
            // Each call prints and records a unique id.
            let command = "id=$(cat /proc/sys/kernel/random/uuid); echo $id >> noted; sleep 0.1; echo $id";
            let call = (format!("c{call}"), call);
            ScriptedReply::text("I look.")
                .with_call(&call.0, "execute", json!({"command": command}))
                .when_turn_is(1, call.1)
        };
        let mut replies: Vec<ScriptedReply> = (1..=calls).map(|call| note(call).with_repeat()).collect();
        let gate = Some(Gate { name: FINAL_GATE.to_owned(), at: GatePosition::Start });
        replies.push(ScriptedReply { gate, ..ScriptedReply::text("Done.") }.with_repeat());
        Self::start_with_script(store, (count, lease_seconds), Script::new(replies))
    }

    /// Starts `count` servers with leases of `lease_seconds` and a model that plays the script.
    pub fn start_with_script(
        store: FleetDatabase,
        (count, lease_seconds): (usize, u32),
        script: Script,
    ) -> Self {
        let model = ScriptedServer::start(script).unwrap();
        let mut sandbox = TestSandbox::new().with_model(&model);
        if let FleetDatabase::Postgres(database) = &store {
            sandbox.set_variable("SEGUE_DATABASE_URL", &database.socket_url());
        }
        let config = CONFIG.replace("LEASE", &lease_seconds.to_string());
        std::fs::create_dir_all(sandbox.home()).unwrap();
        std::fs::write(sandbox.home().join("config.toml"), config).unwrap();
        let servers = (0..count).map(|_| ServeProcess::start(&sandbox)).collect();
        Self { sandbox, model, servers, store }
    }

    /// Starts `count` runs in a server, each on its own thread.
    pub fn start_runs(&self, server: usize, count: usize) -> Vec<FleetRun> {
        let api = self.api(server);
        (0..count).map(|_| start_run(&api, "go", &["updates", "values"])).collect()
    }

    /// Starts a new server at this index and returns the old one, which still runs if the test did not
    /// stop it.
    pub fn replace_server(&mut self, server: usize) -> ServeProcess {
        std::mem::replace(&mut self.servers[server], ServeProcess::start(&self.sandbox))
    }

    /// Returns the first column of the result as text. Panics for SQLite.
    pub fn query_rows(&self, sql: &str) -> Vec<String> {
        let FleetDatabase::Postgres(database) = &self.store else { panic!("{sql}: it is a file") };
        let url = database.socket_url().parse().unwrap();
        let connection = postgres::Connection::open(&url).unwrap();
        let rows = connection.query(sql, &[]).unwrap();
        rows.iter().map(|row| row.text(0).unwrap().unwrap_or_default()).collect()
    }

    pub fn api(&self, server: usize) -> ApiClient {
        crate::serve::owner_client(&self.servers[server])
    }

    pub fn signal(&self, server: usize, signal: Signal) {
        self.servers[server].signal(signal);
    }

    /// Pauses a server outside of its write transactions. A process that is paused inside one keeps the lock of a SQLite file,
    /// and no other process can write until it continues: nothing could take its runs over.
    pub fn pause(&self, server: usize) {
        loop {
            self.servers[server].pause();
            if matches!(self.store, FleetDatabase::Postgres(_)) || self.can_write_to_sqlite() {
                return;
            }
            self.signal(server, Signal::CONT);
        }
    }

    /// Returns whether a write transaction can begin within the time that the other servers need for theirs.
    fn can_write_to_sqlite(&self) -> bool {
        let connection = rusqlite::Connection::open(self.sandbox.home().join("segue.db")).unwrap();
        connection.busy_timeout(SQLITE_WAIT).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    }

    /// Follows the stream of a run from its first event to its end, in a background thread.
    pub fn follow_run(&self, server: usize, started: &FleetRun) -> std::thread::JoinHandle<ApiResponse> {
        let (api, path) =
            (self.api(server), format!("/threads/{}/runs/{}/stream", started.thread, started.run));
        std::thread::spawn(move || api.send("GET", &path, &["last-event-id: -1"], b""))
    }

    /// Returns the value of a metric of a server.
    pub fn metric(&self, server: usize, name: &str) -> u64 {
        let text = self.api(server).get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().parse().unwrap()
    }

    /// Returns the ids that all tool calls have recorded so far.
    pub fn noted_calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.sandbox.work_folder().join("noted")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the condition is true.
    pub fn wait_until(&self, mut what: impl FnMut(&Self) -> bool) {
        while !what(self) {
            std::thread::yield_now();
        }
    }

    /// Waits for the end of the run and returns the journal's view of it, read through this server.
    pub fn journaled_run(&self, server: usize, started: &FleetRun) -> JournaledRun {
        let api = self.api(server);
        let join_response = api.get(&format!("/threads/{}/runs/{}/join", started.thread, started.run));
        assert_eq!(join_response.status, 200, "{join_response:?}");
        let row = api.get(&format!("/threads/{}/runs/{}", started.thread, started.run)).json();
        let state = api.get(&format!("/threads/{}/state", started.thread)).json();
        let messages = state["values"]["messages"].as_array().unwrap_or_else(|| panic!("{state}"));
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().trim().to_owned();
        let results = messages.iter().filter(|message| message["type"] == "tool").map(text).collect();
        let answer = messages.last().map(text).unwrap_or_default();
        JournaledRun { results, answer, status: row["status"].as_str().unwrap().to_owned() }
    }

    /// Checks that every run ended once with all results, and that no call was repeated after its
    /// result was stored.
    #[track_caller]
    pub fn assert_runs_complete(&self, server: usize, (runs, calls): (&[FleetRun], usize)) {
        let noted = self.noted_calls();
        let (mut stored, mut interrupted) = (HashSet::new(), 0);
        for started in runs {
            let journaled = self.journaled_run(server, started);
            assert_eq!(
                (journaled.status.as_str(), journaled.answer.as_str()),
                ("success", "Done."),
                "{started:?} {journaled:?}"
            );
            assert_eq!(journaled.results.len(), calls, "{journaled:?}");
            for result in journaled.results {
                match noted.iter().find(|id| result.contains(id.as_str())) {
                    Some(id) => assert!(stored.insert(id.clone()), "a result is there twice"),
                    // It is unknown whether an interrupted call ran, so it is not
                    // repeated.
                    None => interrupted += 1,
                }
            }
        }
        let lost = noted.iter().filter(|id| !stored.contains(*id)).count();
        assert!(
            lost <= interrupted,
            "{lost} calls were made whose results are nowhere, {interrupted} were interrupted"
        );
        assert_eq!(noted.iter().collect::<HashSet<_>>().len(), noted.len());
    }
}

/// Starts a run with this message on a new thread, with these stream modes.
pub fn start_run(api: &ApiClient, text: &str, modes: &[&str]) -> FleetRun {
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
        "stream_mode": modes, "stream_resumable": true,
    });
    let thread = api.post("/threads", &json!({})).json()["thread_id"].as_str().unwrap().to_owned();
    let run = api.post(&format!("/threads/{thread}/runs"), &body).json();
    FleetRun { thread, run: run["run_id"].as_str().unwrap().to_owned() }
}

/// Returns the parsed ids of the events with an id, and the names of all events.
pub fn streamed_events(answer: &ApiResponse) -> (Vec<(u64, u64, u64)>, Vec<String>) {
    let (mut ids, mut names) = (Vec::new(), Vec::new());
    for line in answer.text().lines() {
        if let Some(id) = line.strip_prefix("id: ") {
            let parts: Vec<u64> = id.split('-').map(|part| part.parse().unwrap()).collect();
            ids.push((parts[0], parts[1], parts[2]));
        } else if let Some(name) = line.strip_prefix("event: ") {
            names.push(name.to_owned());
        }
    }
    (ids, names)
}
