//! The crash matrices: a road through the program, walked in a process that dies before or after each of its commits,
//! or inside a tool, and then walked again by another process from where the first one left it.

mod compaction;
mod handoff;
mod memory;
mod recording_tool;
mod requests;
mod scenario;
mod turn;

use std::process::Command;

use crate::environment::TestEnvironment;

/// Tells the process that dies where its world is.
const FOLDER_VARIABLE: &str = "SEGUE_TEST_FOLDER";
/// Tells it which road to walk.
const SCENARIO_VARIABLE: &str = "SEGUE_TEST_ROAD";
/// Tells it before or after which commit to die.
const BOUNDARY_VARIABLE: &str = "SEGUE_TEST_BOUNDARY";
/// Tells it in which tool call to die: `before LINE` or `after LINE`.
const CALL_VARIABLE: &str = "SEGUE_TEST_CALL";

/// Where a process dies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CrashPoint {
    /// An even number lies before the commit of half that number, an odd one after it.
    Boundary(usize),
    /// Before or after the effect of a call.
    Call(String),
}

/// The part that runs in a process of its own, and dies there. Without the variables there is nothing to do.
#[tokio::test]
async fn process_that_dies() {
    let (Ok(folder), Ok(road)) = (std::env::var(FOLDER_VARIABLE), std::env::var(SCENARIO_VARIABLE)) else {
        return;
    };
    let boundary = std::env::var(BOUNDARY_VARIABLE).map_or(usize::MAX, |text| text.parse().unwrap());
    let world = TestEnvironment::at(folder.into());
    if let Some(road) = compaction::SCENARIOS.into_iter().find(|known| known.name == road) {
        return compaction::run_until_crash(&world, road, boundary).await;
    }
    if road == memory::SCENARIO {
        return memory::run_until_crash(&world, boundary).await;
    }
    let of_request = |known: &requests::RequestScenario| road.strip_prefix("request: ") == Some(known.name);
    if let Some(road) = requests::SCENARIOS.iter().find(|known| of_request(known)) {
        return requests::run_until_crash(&world, road, boundary).await;
    }
    match handoff::SCENARIOS.into_iter().find(|known| known.name == road) {
        Some(road) => handoff::run_until_crash(&world, road, boundary).await,
        None => turn::run_until_crash(&world, &road, boundary).await,
    }
}

/// Walks the road in a process of its own; says whether it died on the way.
fn crashes_in_scenario(world: &TestEnvironment, road: &str, death: &CrashPoint) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "crash::process_that_dies", "--nocapture"]);
    process.env(FOLDER_VARIABLE, world.folder()).env(SCENARIO_VARIABLE, road);
    match death {
        CrashPoint::Boundary(boundary) => process.env(BOUNDARY_VARIABLE, boundary.to_string()),
        CrashPoint::Call(call) => process.env(CALL_VARIABLE, call),
    };
    let output = process.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("panicked"), "{road}, {death:?}: {told}");
    !output.status.success()
}
