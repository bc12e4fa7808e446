//! The server as clients meet it: the real binary, with requests written by hand.

mod authentication;
mod bad_requests;
pub mod client;
mod clients;
mod handoffs;
mod page;
mod read_api;
mod replicas;
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

/// A server with the model that suites in another language expect.
struct StagedServer {
    model: ScriptedServer,
    serving: ServeProcess,
    sandbox: TestSandbox,
}

impl StagedServer {
    /// Starts both; the script is in the folder of the suites.
    fn start(suites: &Path) -> Self {
        let script = std::fs::read_to_string(suites.join("model.json")).unwrap();
        let model = ScriptedServer::start(serde_json::from_str::<Script>(&script).unwrap()).unwrap();
        let sandbox = TestSandbox::new().with_model(&model);
        Self { serving: ServeProcess::start(&sandbox), model, sandbox }
    }
}

/// A model that says the same to everybody.
fn echo_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply { always: true, ..ScriptedReply::text("Heard.") }]))
        .unwrap()
}

/// A client that shows nothing.
fn anonymous_client(serving: &ServeProcess) -> ApiClient {
    ApiClient { addr: serving.announcement["addr"].as_str().unwrap().to_owned(), key: None }
}

/// A client that shows that key.
fn client_with_key(serving: &ServeProcess, key: &str) -> ApiClient {
    ApiClient { key: Some(key.to_owned()), ..anonymous_client(serving) }
}

/// A client of the person at the machine.
pub fn owner_client(serving: &ServeProcess) -> ApiClient {
    client_with_key(serving, &serving.owner_token())
}

/// Imports the small session over HTTP and returns its thread.
pub fn import_session(api: &ApiClient) -> String {
    let answer = api.send("POST", "/api/import?name=session.jsonl", &[], sample_session().as_bytes());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["threads"][0]["thread_id"].as_str().unwrap().to_owned()
}

/// Does a turn in the thread and returns the run's id.
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
fn k2_the_token_is_for_its_owner_alone_and_nothing_is_told_without_it() {
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
fn every_endpoint_of_our_own_stands_on_its_page() {
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
fn what_is_said_over_http_is_there_in_the_terminal_and_the_other_way_round() {
    let model = echo_server();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    run_turn(&api, &thread, "Is the kettle on?");
    assert_eq!(sandbox.threads()[0]["thread_id"], thread.as_str());
    let ended = sandbox.run(&["run", "-t", &thread, "-p", "And now?"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Heard.\n"), "{ended:?}");
    let page = api.get(&format!("/api/threads/{thread}/history")).json();
    let said: Vec<&str> = page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["content"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["Is the kettle on?", "Heard.", "And now?", "Heard."]);
}

#[test]
fn j5_a_turn_that_the_end_of_the_server_cut_off_goes_on_at_the_next_start() {
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
fn j5_a_second_signal_does_not_wait_for_what_will_not_stop() {
    let reply = ScriptedReply::text("Never.").with_gate("never", GatePosition::Start);
    let model = ScriptedServer::start(Script::new([ScriptedReply { always: true, ..reply }])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let mut command = sandbox.command(&["serve", "--addr", "127.0.0.1:0", "--show-token"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.by_ref().take(4).collect();
    let token = std::fs::read_to_string(sandbox.home().join("token")).unwrap();
    let addr = said[0].rsplit("http://").next().unwrap().to_owned();
    assert_eq!(
        said[1],
        format!("Page        http://{addr}/"),
        "a file is not told the token unless it is asked for"
    );
    assert!(said[2].contains(token.trim()) && said[3].ends_with("/docs"), "{said:?}");
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
    let asked = std::time::Instant::now();
    kill_process(process, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(asked.elapsed() < std::time::Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(sandbox.threads()[0]["status"], "busy", "the next start goes on with it");
}
