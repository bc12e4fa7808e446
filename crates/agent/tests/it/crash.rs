//! Crash matrices. A scenario runs in a child process that aborts before or after each of its commits, or inside a tool. A
//! second process then continues the scenario, and its final state must equal that of a run without a crash.

mod compaction;
mod handoff;
mod memory;
mod recording_tool;
mod requests;
mod scenario;
mod turn;

use std::process::Command;

use crate::environment::TestEnvironment;

/// The environment variable with the folder of the child process's test environment.
const FOLDER_VARIABLE: &str = "SEGUE_TEST_FOLDER";
/// The environment variable with the name of the scenario to run.
const SCENARIO_VARIABLE: &str = "SEGUE_TEST_SCENARIO";
/// The environment variable with the commit boundary at which the child process aborts.
const BOUNDARY_VARIABLE: &str = "SEGUE_TEST_BOUNDARY";
/// The environment variable with the tool call in which the child process aborts: `before LINE` or `after LINE`.
const CALL_VARIABLE: &str = "SEGUE_TEST_CALL";

/// The point at which a process aborts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CrashPoint {
    /// A commit boundary: an even number lies before the commit of half that number, an odd number after it.
    Boundary(usize),
    /// A tool call, before or after its effect, in the format of [`CALL_VARIABLE`].
    Call(String),
}

/// The entry point of the child process, which runs a scenario until it crashes. Without the environment variables, as in
/// an ordinary test run, it does nothing.
#[tokio::test]
async fn process_that_dies() {
    let (Ok(folder), Ok(name)) = (std::env::var(FOLDER_VARIABLE), std::env::var(SCENARIO_VARIABLE)) else {
        return;
    };
    let boundary = std::env::var(BOUNDARY_VARIABLE).map_or(usize::MAX, |text| text.parse().unwrap());
    let environment = TestEnvironment::at(folder.into());
    if let Some(scenario) = compaction::SCENARIOS.into_iter().find(|scenario| scenario.name == name) {
        return compaction::run_until_crash(&environment, scenario, boundary).await;
    }
    if name == memory::SCENARIO {
        return memory::run_until_crash(&environment, boundary).await;
    }
    let is_named =
        |scenario: &requests::RequestScenario| name.strip_prefix("request: ") == Some(scenario.name);
    if let Some(scenario) = requests::SCENARIOS.iter().find(|scenario| is_named(scenario)) {
        return requests::run_until_crash(&environment, scenario, boundary).await;
    }
    match handoff::SCENARIOS.into_iter().find(|scenario| scenario.name == name) {
        Some(scenario) => handoff::run_until_crash(&environment, scenario, boundary).await,
        None => turn::run_until_crash(&environment, &name, boundary).await,
    }
}

/// Runs the scenario in a child process that aborts at `crash_point`. Returns whether the process aborted before the end of
/// the scenario. Panics if the child process panicked.
fn crashes_in_scenario(environment: &TestEnvironment, name: &str, crash_point: &CrashPoint) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "crash::process_that_dies", "--nocapture"]);
    process.env(FOLDER_VARIABLE, environment.folder()).env(SCENARIO_VARIABLE, name);
    match crash_point {
        CrashPoint::Boundary(boundary) => process.env(BOUNDARY_VARIABLE, boundary.to_string()),
        CrashPoint::Call(call) => process.env(CALL_VARIABLE, call),
    };
    let output = process.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{name}, {crash_point:?}: {stderr}");
    !output.status.success()
}
