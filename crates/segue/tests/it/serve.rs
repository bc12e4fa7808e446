//! `segue serve`: the real binary, and requests written by hand.

mod authentication;
mod bad_requests;
pub mod client;
mod clients;
mod handoffs;
mod page;
mod ping;
mod read_api;
mod replicas;
mod round_trips;
mod web;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use crate::sandbox::{TestSandbox, sample_session};
use crate::server::ServeProcess;
use client::ApiClient;

/// A server with the scripted model that the suites in other languages expect.
struct StagedServer {
    model: ScriptedServer,
    serving: ServeProcess,
    sandbox: TestSandbox,
}

impl StagedServer {
    /// Starts the model and the server. The script is in the folder of the suites.
    fn start(suites: &Path) -> Self {
        let script = std::fs::read_to_string(suites.join("model.json")).unwrap();
        let model = ScriptedServer::start(serde_json::from_str::<Script>(&script).unwrap()).unwrap();
        let sandbox = TestSandbox::new().with_model(&model);
        Self { serving: ServeProcess::start(&sandbox), model, sandbox }
    }
}

/// Returns a model that gives the same answer to every request.
fn echo_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.") }]))
        .unwrap()
}

/// Returns a client without credentials.
fn anonymous_client(serving: &ServeProcess) -> ApiClient {
    ApiClient { addr: serving.announcement["addr"].as_str().unwrap().to_owned(), key: None }
}

/// Returns a client with this API key.
fn client_with_key(serving: &ServeProcess, key: &str) -> ApiClient {
    ApiClient { key: Some(key.to_owned()), ..anonymous_client(serving) }
}

/// Returns a client with the local owner's token.
pub fn owner_client(serving: &ServeProcess) -> ApiClient {
    client_with_key(serving, &serving.owner_token())
}

/// Imports the small session over HTTP and returns the id of its thread.
pub fn import_session(api: &ApiClient) -> String {
    let answer = api.send("POST", "/api/import?name=session.jsonl", &[], sample_session().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["threads"][0]["thread_id"].as_str().unwrap().to_owned()
}

/// Sends a message to the thread, waits for its run, and returns the run's id.
fn run_turn(api: &ApiClient, thread: &str, text: &str) -> String {
    let input = json!({"messages": [{"role": "user", "content": text}]});
    let body = json!({"assistant_id": "agent", "input": input});
    let answer = api.post(&format!("/threads/{thread}/runs/wait"), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json().get("__error__").is_none(), "{answer:?}");
    let place = answer.header("content-location").unwrap();
    place.rsplit('/').next().unwrap().to_owned()
}

/// Creates a thread and returns its id.
fn create_thread(api: &ApiClient) -> String {
    let answer = api.post("/threads", &json!({}));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["thread_id"].as_str().unwrap().to_owned()
}

#[test]
fn k2_only_the_owner_can_read_the_token_and_requests_without_it_are_refused() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let file = sandbox.home().join("token");
    assert_eq!(serving.announcement["token_file"], file.to_str().unwrap());
    assert_eq!(serving.announcement["token"], Value::Null);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(anonymous_client(&serving).get("/ok").json()["ok"], true);
    for path in ["/api/memory", "/api/agent", "/api/handoffs"] {
        assert_eq!(anonymous_client(&serving).get(path).status, 401, "{path}");
        assert_eq!(client_with_key(&serving, &"0".repeat(64)).get(path).status, 401, "{path}");
        assert_eq!(owner_client(&serving).get(path).status, 200, "{path}");
    }
    let checks = sandbox.json(&["doctor", "--json"]);
    let token = checks.as_array().unwrap().iter().find(|check| check["name"] == "token").unwrap();
    assert_eq!(token["verdict"], "ok", "{token}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(sandbox.run(&["doctor"]).stdout.contains("can be read by others"));
}

#[test]
fn every_segue_endpoint_is_documented_on_its_page() {
    const PAGE: &str = include_str!("../../../../docs/src/http.md");
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let document = anonymous_client(&serving).get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let own: Vec<&String> = paths.keys().filter(|path| path.starts_with("/api/")).collect();
    assert!(own.len() > 20, "{own:?}");
    for path in own {
        let written = path.replace("{thread_id}", "{id}").replace("{handoff_id}", "{id}");
        let last = written.rsplit('/').next().unwrap();
        assert!(PAGE.contains(&format!("{written}`")) || PAGE.contains(&format!("`…/{last}`")), "{path}");
    }
}

#[test]
fn the_terminal_and_http_share_their_threads() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    run_turn(&api, &thread, "Is the kettle on?");
    assert_eq!(sandbox.threads()[0]["thread_id"], thread.as_str());
    let output = sandbox.run(&["run", "-t", &thread, "-p", "And now?"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "Heard.\n"), "{output:?}");
    let page = api.get(&format!("/api/threads/{thread}/history")).json();
    let messages_of_thread: Vec<&str> = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(messages_of_thread, ["Is the kettle on?", "Heard.", "And now?", "Heard."]);
}

#[test]
fn j5_a_run_interrupted_by_a_shutdown_resumes_at_the_next_start() {
    let reply = ScriptedReply::text("Done at last.").with_gate("go", GatePosition::Start);
    let model = ScriptedServer::start(Script::new([ScriptedReply { always: true, ..reply }])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}});
    let run = api.post(&format!("/threads/{thread}/runs"), &body).json();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.wait_for_calls(1));
    serving.signal(Signal::INT);
    serving.signal(Signal::INT);
    assert_eq!(serving.wait_for_exit(), Some(0));
    model.open_gate("go");
    let serving = ServeProcess::start(&sandbox);
    assert_eq!(serving.announcement["resumed_runs"], 1);
    let run_id = run["run_id"].as_str().unwrap();
    let joined = owner_client(&serving).get(&format!("/threads/{thread}/runs/{run_id}/join")).json();
    assert_eq!(
        joined["messages"].as_array().unwrap().last().unwrap()["content"],
        "Done at last.",
        "{joined}"
    );
}

#[test]
fn k9_a_stopped_server_has_emptied_the_log_of_a_deleted_thread() {
    let sandbox = TestSandbox::new().with_file_database();
    let log = sandbox.home().join("segue.db-wal");
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    let text = "the code word is walnut ".repeat(100_000);
    let state = json!({"values": {"messages": [{"role": "user", "content": text}]}});
    assert_eq!(api.post(&format!("/threads/{thread}/state"), &state).status, 200);
    assert!(std::fs::metadata(&log).unwrap().len() > 1 << 20);
    assert_eq!(api.delete(&format!("/threads/{thread}")).status, 204);
    serving.signal(Signal::TERM);
    assert_eq!(serving.wait_for_exit(), Some(0));
    assert_eq!(std::fs::metadata(&log).map_or(0, |log| log.len()), 0);
}

#[test]
fn i6_bodies_of_millions_of_values_are_refused_with_little_memory() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    let arrays = "[],".repeat(9_000_000);
    let body = format!("{{\"assistant_id\":\"agent\",\"input\":{{\"x\":[{arrays}[]]}}}}");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let path = format!("/threads/{thread}/runs");
                let response = api.send("POST", &path, &["content-type: application/json"], body.as_bytes());
                response.assert_refused(413, "JSON values");
            });
        }
    });
    let peak = serving.peak_memory_kib() >> 10;
    assert!(peak < 200, "{peak} MiB");
    assert_eq!(api.get("/ok").status, 200);
}

#[test]
fn a1_a_server_whose_database_is_replaced_ends_and_acknowledges_nothing() {
    let sandbox = TestSandbox::new().with_file_database();
    let database = sandbox.home().join("segue.db");
    let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
    command.stderr(Stdio::piped());
    let serving = ServeProcess::spawn(command);
    let api = owner_client(&serving);
    create_thread(&api);
    std::fs::rename(&database, database.with_extension("moved")).unwrap();
    let refused = api.post("/threads", &json!({}));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(!refused.text().contains("segue.db"), "{}", refused.text());
    let (code, stderr) = serving.wait_for_failure();
    assert_eq!(code, Some(1));
    assert!(stderr.contains("was deleted or replaced") && stderr.contains("start segue again"), "{stderr}");
}

#[test]
fn a1_a_server_whose_database_is_truncated_ends_and_acknowledges_nothing() {
    let remainders: [fn(u64) -> u64; 2] = [|length| length / 2, |_| 0];
    for remainder in remainders {
        let sandbox = TestSandbox::new().with_file_database();
        let path = sandbox.home().join("segue.db");
        sandbox.threads();
        // The tables are in the file, and not only in its log.
        sandbox.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)");
        let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--json"]);
        command.stderr(Stdio::piped());
        let serving = ServeProcess::spawn(command);
        let api = owner_client(&serving);
        create_thread(&api);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(remainder(file.metadata().unwrap().len())).unwrap();
        let refused = api.post("/threads", &json!({}));
        assert_eq!(refused.status, 503, "{}", refused.text());
        let (code, stderr) = serving.wait_for_failure();
        assert_eq!(code, Some(1));
        assert!(stderr.contains("was truncated to") && stderr.contains("segue db salvage"), "{stderr}");
    }
}

#[test]
fn j5_a_second_signal_ends_the_server_without_waiting_for_runs() {
    let reply = ScriptedReply::text("Never.").with_gate("never", GatePosition::Start);
    let model = ScriptedServer::start(Script::new([ScriptedReply { always: true, ..reply }])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--show-token"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let startup_lines: Vec<String> = lines.by_ref().take(4).collect();
    let token = std::fs::read_to_string(sandbox.home().join("token")).unwrap();
    let addr = startup_lines[0].rsplit("http://").next().unwrap().to_owned();
    assert_eq!(
        startup_lines[1],
        format!("Page        http://{addr}/"),
        "the address has no token when standard output is not a terminal"
    );
    assert!(
        startup_lines[2].contains(token.trim()) && startup_lines[3].ends_with("/docs"),
        "{startup_lines:?}"
    );
    let api = ApiClient { addr, key: Some(token.trim().to_owned()) };
    let thread = create_thread(&api);
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "go"}]}});
    assert_eq!(api.post(&format!("/threads/{thread}/runs"), &body).status, 200);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.wait_for_calls(1));
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let process = Pid::from_child(&child);
    kill_process(process, Signal::TERM).unwrap();
    assert!(notes.next().unwrap().contains("Stopping"));
    let signalled_at = std::time::Instant::now();
    kill_process(process, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(signalled_at.elapsed() < std::time::Duration::from_secs(5), "{:?}", signalled_at.elapsed());
    assert_eq!(sandbox.threads()[0]["status"], "busy", "the next start resumes the run");
}
