//! The crash matrices: a road through the program, walked in a process that dies before or after each of its commits,
//! or inside a tool, and then walked again by another process from where the first one left it.

mod compaction;
mod handoff;
mod memory;
mod plot;
mod record;
mod requests;
mod turn;

use std::process::Command;

use crate::world::World;

/// Tells the process that dies where its world is.
const FOLDER: &str = "SEGUE_TEST_FOLDER";
/// Tells it which road to walk.
const ROAD: &str = "SEGUE_TEST_ROAD";
/// Tells it before or after which commit to die.
const BOUNDARY: &str = "SEGUE_TEST_BOUNDARY";
/// Tells it in which tool call to die: `before LINE` or `after LINE`.
const CALL: &str = "SEGUE_TEST_CALL";

/// Where a process dies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Death {
    /// An even number lies before the commit of half that number, an odd one after it.
    Boundary(usize),
    /// Before or after the effect of a call.
    Call(String),
}

/// The part that runs in a process of its own, and dies there. Without the variables there is nothing to do.
#[tokio::test]
async fn process_that_dies() {
    let (Ok(folder), Ok(road)) = (std::env::var(FOLDER), std::env::var(ROAD)) else { return };
    let boundary = std::env::var(BOUNDARY).map_or(usize::MAX, |text| text.parse().unwrap());
    let world = World::at(folder.into());
    if let Some(road) = compaction::ROADS.into_iter().find(|known| known.name == road) {
        return compaction::walk_to_death(&world, road, boundary).await;
    }
    if road == memory::ROAD {
        return memory::walk_to_death(&world, boundary).await;
    }
    let of_request = |known: &requests::Road| road.strip_prefix("request: ") == Some(known.name);
    if let Some(road) = requests::ROADS.iter().find(|known| of_request(known)) {
        return requests::walk_to_death(&world, road, boundary).await;
    }
    match handoff::ROADS.into_iter().find(|known| known.name == road) {
        Some(road) => handoff::walk_to_death(&world, road, boundary).await,
        None => turn::walk_to_death(&world, &road, boundary).await,
    }
}

/// Walks the road in a process of its own; says whether it died on the way.
fn dies(world: &World, road: &str, death: &Death) -> bool {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "crash::process_that_dies", "--nocapture"]);
    process.env(FOLDER, world.folder()).env(ROAD, road);
    match death {
        Death::Boundary(boundary) => process.env(BOUNDARY, boundary.to_string()),
        Death::Call(call) => process.env(CALL, call),
    };
    let output = process.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("panicked"), "{road}, {death:?}: {told}");
    !output.status.success()
}
