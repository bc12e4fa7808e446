//! Several servers on one database, wherever that is, and runs that are under way in them.

mod stream_reader;

use std::collections::HashSet;

use rustix::process::Signal;
use serde_json::{Value, json};
use test_model::{Gate, GatePosition, Script, ScriptedReply, ScriptedServer};

use super::sandbox::TestSandbox;
use super::server::ServeProcess;
use crate::serve::client::{ApiClient, ApiResponse};

pub use stream_reader::{StreamReaders, StreamRecord};

/// The gate at which the last answers wait.
pub const FINAL_GATE: &str = "end";

/// The settings of all servers. A busy machine makes connections wait, and runs wait at gates for as long as a test takes.
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

/// Where the servers keep what happened.
pub enum FleetDatabase {
    /// In the home folder they share.
    Sqlite,
    /// In a database of their own, until this ends.
    Postgres(test_postgres::TestDatabase),
}

/// Servers of one model, on one database.
pub struct ServerFleet {
    pub sandbox: TestSandbox,
    pub model: ScriptedServer,
    pub servers: Vec<ServeProcess>,
    store: FleetDatabase,
}

/// A run, and its thread.
#[derive(Debug, Clone)]
pub struct FleetRun {
    pub thread: String,
    pub run: String,
}

/// A run as the journal has it.
#[derive(Debug)]
pub struct JournaledRun {
    /// The output of its tool calls in order; an interrupted call has none.
    pub results: Vec<String>,
    /// How its last answer is.
    pub answer: String,
    pub status: String,
}

impl ServerFleet {
    /// Starts so many servers whose leases have that length. In each run the model calls a tool so many times, which notes
    /// that it was called; then it answers, once the gate is open.
    pub fn start(store: FleetDatabase, count: usize, (lease_seconds, calls): (u32, usize)) -> Self {
        let note = |call: usize| {
            // What is printed and noted is like nothing else that is.
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

    /// Starts so many servers whose leases have that length, with a model that plays that script.
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

    /// Begins so many runs, each on a thread of its own, in that server.
    pub fn start_runs(&self, server: usize, count: usize) -> Vec<FleetRun> {
        let api = self.api(server);
        (0..count).map(|_| start_run(&api, "go", &["updates", "values"])).collect()
    }

    /// Puts a new server in the place of one, which goes on or not.
    pub fn replace_server(&mut self, server: usize) -> ServeProcess {
        std::mem::replace(&mut self.servers[server], ServeProcess::start(&self.sandbox))
    }

    /// Returns what the database says, one text a row, where it is one that can be asked.
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

    /// Reads what a server tells of a run from its beginning to its end, behind this call.
    pub fn follow_run(&self, server: usize, begun: &FleetRun) -> std::thread::JoinHandle<ApiResponse> {
        let (api, path) = (self.api(server), format!("/threads/{}/runs/{}/stream", begun.thread, begun.run));
        std::thread::spawn(move || api.send("GET", &path, &["last-event-id: -1"], b""))
    }

    /// Returns a figure of a server.
    pub fn metric(&self, server: usize, name: &str) -> u64 {
        let text = self.api(server).get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{text}"));
        line.trim().parse().unwrap()
    }

    /// Returns what was noted by all calls of the tool so far.
    pub fn noted_calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.sandbox.work_folder().join("noted")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until `what` holds.
    pub fn wait_until(&self, mut what: impl FnMut(&Self) -> bool) {
        while !what(self) {
            std::thread::yield_now();
        }
    }

    /// Waits for the run's end, and returns what the journal has of it, as that server sees it.
    pub fn journaled_run(&self, server: usize, begun: &FleetRun) -> JournaledRun {
        let api = self.api(server);
        let joined = api.get(&format!("/threads/{}/runs/{}/join", begun.thread, begun.run));
        assert_eq!(joined.status, 200, "{joined:?}");
        let row = api.get(&format!("/threads/{}/runs/{}", begun.thread, begun.run)).json();
        let state = api.get(&format!("/threads/{}/state", begun.thread)).json();
        let messages = state["values"]["messages"].as_array().unwrap_or_else(|| panic!("{state}"));
        let text = |message: &Value| message["content"].as_str().unwrap_or_default().trim().to_owned();
        let results = messages.iter().filter(|message| message["type"] == "tool").map(text).collect();
        let answer = messages.last().map(text).unwrap_or_default();
        JournaledRun { results, answer, status: row["status"].as_str().unwrap().to_owned() }
    }

    /// Checks that every run ended once, with each result, and that no call was made again whose result was stored.
    #[track_caller]
    pub fn assert_runs_complete(&self, server: usize, (runs, calls): (&[FleetRun], usize)) {
        let noted = self.noted_calls();
        let (mut stored, mut interrupted) = (HashSet::new(), 0);
        for begun in runs {
            let left = self.journaled_run(server, begun);
            assert_eq!(
                (left.status.as_str(), left.answer.as_str()),
                ("success", "Done."),
                "{begun:?} {left:?}"
            );
            assert_eq!(left.results.len(), calls, "{left:?}");
            for result in left.results {
                match noted.iter().find(|id| result.contains(id.as_str())) {
                    Some(id) => assert!(stored.insert(id.clone()), "a result is there twice"),
                    // Nobody knows whether it was made: it is not made again.
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

/// Begins a run that is asked this, on a thread of its own, and told in these modes.
pub fn start_run(api: &ApiClient, text: &str, modes: &[&str]) -> FleetRun {
    let body = json!({
        "assistant_id": "agent", "input": {"messages": [{"role": "user", "content": text}]},
        "stream_mode": modes, "stream_resumable": true,
    });
    let thread = api.post("/threads", &json!({})).json()["thread_id"].as_str().unwrap().to_owned();
    let run = api.post(&format!("/threads/{thread}/runs"), &body).json();
    FleetRun { thread, run: run["run_id"].as_str().unwrap().to_owned() }
}

/// Returns the ids of the events that were told, and the names of all.
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
