//! `cargo xtask ci`: the checks that every change must pass, as data, and a function that runs them in order. Missing
//! tools are not installed here; see [`crate::machine_setup`].

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::book;
use crate::command::CommandSpec;
use crate::tidy;

/// One check.
struct CiStep {
    /// The name in the output.
    name: &'static str,
    action: CiAction,
}

/// The action of a check.
enum CiAction {
    /// Runs a command, which must succeed.
    Run(CommandSpec),
    /// Runs `tidy` in this process.
    Tidy,
    /// Renders and checks the book in this process.
    Book,
}

impl CiAction {
    /// Returns the command with which the user can repeat this step.
    fn display_command(&self) -> String {
        match self {
            Self::Run(command) => command.to_string(),
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::Book => "cargo xtask book".to_owned(),
        }
    }

    /// Performs the action.
    ///
    /// # Errors
    /// If the check fails or the command cannot be started.
    fn run_action(&self, root: &Path) -> anyhow::Result<()> {
        match self {
            Self::Run(command) => match command.status(root)? {
                status if status.success() => Ok(()),
                status => bail!("{status}"),
            },
            Self::Tidy => tidy::run_checks(root),
            Self::Book => book::build_book(root),
        }
    }
}

/// Returns the steps in order: cheap checks first, and the tests last, so that their summary is at the end of the
/// output.
fn ci_steps() -> Vec<CiStep> {
    let run = |name, command| CiStep { name, action: CiAction::Run(command) };
    vec![
        run("format", CommandSpec::from_line("cargo fmt --all --check")),
        CiStep { name: "tidy", action: CiAction::Tidy },
        run("spelling", CommandSpec::from_line("target/typos/bin/typos --format brief")),
        CiStep { name: "book", action: CiAction::Book },
        run(
            "clippy",
            CommandSpec::from_line("cargo clippy --locked --workspace --all-targets -- -D warnings"),
        ),
        run(
            "docs",
            CommandSpec::from_line("cargo doc --locked --workspace --no-deps")
                .env("RUSTDOCFLAGS", "-D warnings"),
        ),
        run("page: format", CommandSpec::from_line("npm run --silent --prefix web format:check")),
        run("page: types", CommandSpec::from_line("npm run --silent --prefix web check")),
        run("page: tests", CommandSpec::from_line("npm test --silent --prefix web")),
        run(
            "page: build",
            CommandSpec::from_line("npm run --silent --prefix web build -- --outDir ../target/page"),
        ),
        run("page: as committed", CommandSpec::from_line("diff -r target/page crates/http/page")),
        run("tests", CommandSpec::from_line("cargo nextest run --locked --workspace")),
        run("tests on PostgreSQL", postgres_tests()),
    ]
}

/// The nextest filter for the end-to-end tests that depend most on the store.
///
/// It selects all tests of the queue and the HTTP API, and the tests of the agent and the program for requests,
/// crashes, handoffs, memory and threads. The other tests pass on PostgreSQL too, but with them the command would
/// exceed its limit of half an hour.
const POSTGRES_TEST_FILTER: &str = "package(/^segue-(scheduler|http)$/) \
     + package(segue-agent) & test(/^(crash::requests|handoff|memory|requests|states)::/) - test(/::(pathological|tree)::/) \
     + package(segue) & test(/^(handoff|memory|threads)::/) - test(/::m12_a_thousand/)";

/// Returns the command that runs the selected tests again with PostgreSQL as their store. The journal's own tests
/// always run on both engines.
///
/// The command names the whole workspace, because cargo would rebuild dependencies with other features for a part of
/// it.
fn postgres_tests() -> CommandSpec {
    CommandSpec::from_line("cargo nextest run --locked --workspace -E")
        .arg(format!("kind(test) & ({POSTGRES_TEST_FILTER})"))
        .env("SEGUE_TEST_STORE", "postgres")
}

/// Returns the command that writes the upgrade fixture of this version. The tests that check this version's home write it.
pub fn upgrade_fixture() -> CommandSpec {
    CommandSpec::from_line("cargo nextest run --locked --workspace -E")
        .arg("test(/^database::upgrade::a_home_of_this_version/)")
        .env("SEGUE_WRITE_UPGRADE_FIXTURE", "1")
}

/// Runs all steps in order and prints the time of each. Stops at the first failure.
///
/// # Errors
/// If a step fails. The error contains its name and the command that repeats it.
pub fn run_steps(root: &Path) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for step in ci_steps() {
        println!("── {}: {}", step.name, step.action.display_command());
        let started = Instant::now();
        if let Err(error) = step.action.run_action(root) {
            bail!(
                "step `{}` failed ({error:#}); repeat this step with: {}",
                step.name,
                step.action.display_command()
            );
        }
        times.push(format!("{} {}", step.name, seconds_text(started.elapsed())));
        println!("── {}: ok in {}", step.name, seconds_text(started.elapsed()));
    }
    println!("── all steps passed in {} ({})", seconds_text(begin.elapsed()), times.join(", "));
    Ok(())
}

fn seconds_text(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_command_that_repeats_it() {
        let shown: Vec<String> = ci_steps().iter().map(|step| step.action.display_command()).collect();
        assert_eq!(
            shown,
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "target/typos/bin/typos --format brief",
                "cargo xtask book",
                "cargo clippy --locked --workspace --all-targets -- -D warnings",
                "RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps",
                "npm run --silent --prefix web format:check",
                "npm run --silent --prefix web check",
                "npm test --silent --prefix web",
                "npm run --silent --prefix web build -- --outDir ../target/page",
                "diff -r target/page crates/http/page",
                "cargo nextest run --locked --workspace",
                format!(
                    "SEGUE_TEST_STORE=postgres cargo nextest run --locked --workspace -E 'kind(test) & ({POSTGRES_TEST_FILTER})'"
                )
                .as_str(),
            ]
        );
    }
}
