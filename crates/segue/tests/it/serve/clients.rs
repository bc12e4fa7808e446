//! Unmodified clients of the Agent Server API against the real binary: the SDKs from PyPI and npm,
//! `RemoteGraph`, React's `useStream` in jsdom, `@langchain/react`, and a request generator that reads the
//! OpenAPI document. Their suites are in `tests/clients`; `cargo xtask test` installs their dependencies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_counts::count;

use super::StagedServer;

/// Version of the SDK that several JavaScript clients pin.
const CURRENT_SDK: &str = "@langchain/langgraph-sdk";
const AGENT_CHAT_UI: &str = "sdk-1.8.10";
const DEEP_AGENTS_UI: &str = "sdk-1.0.3";
const DEER_FLOW: &str = "sdk-1.6.0";
const TAGGED_LATEST: &str = "sdk-2.0.0";

impl StagedServer {
    /// Runs a suite and fails with its output if the suite fails.
    fn assert_suite_passes(&self, command: &mut Command) {
        command.args([self.serving.url(), &self.serving.owner_token(), self.model.url()]);
        assert_succeeds(command);
    }
}

fn assert_succeeds(command: &mut Command) {
    let output = command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask test` installs the clients"));
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{}", texts.concat());
}

fn suites_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

fn python_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients/bin/python")
}

fn run_python_suite(name: &str) {
    StagedServer::start(&suites_folder())
        .assert_suite_passes(Command::new(python_path()).arg(suites_folder().join(name)));
}

fn run_javascript_suite(name: &str, sdk: &str) {
    StagedServer::start(&suites_folder())
        .assert_suite_passes(Command::new("node").arg(suites_folder().join(name)).arg(sdk));
}

#[test]
fn the_python_sdk_works() {
    run_python_suite("python_sdk.py");
}

#[test]
fn remote_graph_works() {
    run_python_suite("remote_graph.py");
}

#[test]
fn the_javascript_sdk_works() {
    run_javascript_suite("javascript_sdk.mjs", CURRENT_SDK);
}

#[test]
fn the_javascript_sdk_that_npm_calls_the_latest_works() {
    run_javascript_suite("javascript_sdk.mjs", TAGGED_LATEST);
}

#[test]
fn an_old_javascript_sdk_works() {
    run_javascript_suite("javascript_sdk.mjs", DEEP_AGENTS_UI);
}

#[test]
fn use_stream_works() {
    run_javascript_suite("use_stream.mjs", CURRENT_SDK);
}

#[test]
fn use_stream_of_the_latest_tag_works() {
    run_javascript_suite("use_stream.mjs", TAGGED_LATEST);
}

#[test]
fn use_stream_of_agent_chat_ui_works() {
    run_javascript_suite("use_stream.mjs", AGENT_CHAT_UI);
}

#[test]
fn use_stream_of_deep_agents_ui_works() {
    run_javascript_suite("use_stream.mjs", DEEP_AGENTS_UI);
}

#[test]
fn use_stream_of_deer_flow_works() {
    run_javascript_suite("use_stream.mjs", DEER_FLOW);
}

#[test]
fn langchain_react_works() {
    run_javascript_suite("react.mjs", "@langchain/react");
}

#[test]
fn generated_requests_get_no_server_error_and_only_responses_of_the_schema() {
    let world = StagedServer::start(&suites_folder());
    let (url, key) = (world.serving.url(), world.serving.owner_token());
    let mut command = Command::new(python_path());
    command.args(["-m", "schemathesis.cli", "run", &format!("{url}/openapi.json")]);
    command.args(["--header", &format!("x-api-key: {key}")]);
    command.args([
        "--checks",
        "not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance",
    ]);
    command.args([
        "--max-examples",
        count("6", "20"),
        "--seed",
        "7",
        "--generation-deterministic",
        "--request-timeout",
        "20",
    ]);
    // Streams stay open by design, and deleting all threads would leave no data for the other requests.
    command.args(["--exclude-path-regex", "/stream"]);
    command.current_dir(world.sandbox.work_folder());
    assert_succeeds(&mut command);
}
