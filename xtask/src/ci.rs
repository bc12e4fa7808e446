//! `cargo xtask test`, `ci`, `soak` and `quick`: runs checks and prints the time of each. The checks themselves are data, in
//! [`steps`]. The checks of the page are in [`page`], [`quick`] selects the crates that a change concerns, and [`fuzz`] runs fuzz
//! targets.

pub mod fuzz;
pub mod page;
pub mod quick;
mod steps;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};

use self::steps::{CiStep, TestCounts};
use crate::command::CommandSpec;

/// The name and the time of a step that has passed.
type StepTime = (String, Duration);

/// Installs missing tools if `tools` requests it and runs all checks, with small counts in the tests that have counts.
///
/// Two sequences of steps run at the same time: the compiler's, and those that need mostly one core or a download. The
/// tests follow, so that their summary is at the end of the output.
///
/// # Errors
/// If a step fails. The error contains its name and the command that repeats it.
pub fn run_tests(root: &Path, tools: MissingTools) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut times = Vec::new();
    if tools == MissingTools::Install {
        times.extend(run_in_order(root, &[steps::basic_tools()], &AtomicBool::new(false))?);
    }
    times.extend(run_side_by_side(root, &steps::compiler_steps(), &steps::other_steps(tools))?);
    times.extend(run_in_order(root, &steps::test_steps(TestCounts::Small), &AtomicBool::new(false))?);
    print_times(started.elapsed(), &times);
    Ok(())
}

/// Runs the tests with the full counts, all tests that can run with PostgreSQL as their store again with it, and the tests
/// in the browser repeatedly.
///
/// # Errors
/// As for [`run_tests`].
pub fn run_soak(root: &Path) -> anyhow::Result<()> {
    let started = Instant::now();
    let times = run_in_order(root, &steps::soak_steps(), &AtomicBool::new(false))?;
    print_times(started.elapsed(), &times);
    Ok(())
}

/// Returns the command that writes the upgrade fixture of this version. The tests that check this version's home write it.
pub fn upgrade_fixture() -> CommandSpec {
    CommandSpec::from_line("cargo nextest run --locked --workspace -E")
        .arg("test(/^database::upgrade::a_home_of_this_version/)")
        .env("SEGUE_WRITE_UPGRADE_FIXTURE", "1")
}

/// The treatment of tools that are not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingTools {
    /// They are installed.
    Install,
    /// The step that needs the tool fails.
    Fail,
}

/// Runs two sequences of steps at the same time. If a step fails, the other sequence ends after its current step.
fn run_side_by_side(root: &Path, first: &[CiStep], second: &[CiStep]) -> anyhow::Result<Vec<StepTime>> {
    let has_failed = AtomicBool::new(false);
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| run_in_order(root, second, &has_failed));
        let first = run_in_order(root, first, &has_failed);
        let second = second.join().unwrap_or_else(|_| Err(anyhow!("a step ended with a panic")));
        (first, second)
    });
    let mut times = first?;
    times.extend(second?);
    Ok(times)
}

/// Runs steps in order and prints the time of each. Stops at the first failure, or when `has_failed` is set elsewhere.
fn run_in_order(root: &Path, steps: &[CiStep], has_failed: &AtomicBool) -> anyhow::Result<Vec<StepTime>> {
    let mut times = Vec::new();
    for step in steps {
        if has_failed.load(Ordering::Relaxed) {
            break;
        }
        println!("── {}: {}", step.name, step.action.display_command());
        let started = Instant::now();
        if let Err(error) = step.action.run_action(root) {
            has_failed.store(true, Ordering::Relaxed);
            bail!(
                "step `{}` failed ({error:#}); repeat this step with: {}",
                step.name,
                step.action.display_command()
            );
        }
        println!("── {}: ok in {}", step.name, seconds_text(started.elapsed()));
        times.push((step.name.to_owned(), started.elapsed()));
    }
    Ok(times)
}

/// Prints the total time and the time of each step.
fn print_times(total: Duration, times: &[StepTime]) {
    let times: Vec<String> =
        times.iter().map(|(name, time)| format!("{name} {}", seconds_text(*time))).collect();
    println!("── all steps passed in {} ({})", seconds_text(total), times.join(", "));
}

fn seconds_text(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
