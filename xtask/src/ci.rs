//! The steps that every change has to pass, as data, and running them in order. What each one checks is decided by
//! the tool it calls; nothing is set up here.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::book;
use crate::command::CommandSpec;
use crate::tidy;

/// One step.
struct CiStep {
    name: &'static str,
    action: CiAction,
}

enum CiAction {
    Run(CommandSpec),
    Tidy,
    Book,
}

impl CiAction {
    /// Returns the command that repeats this step alone.
    fn display_command(&self) -> String {
        match self {
            Self::Run(command) => command.to_string(),
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::Book => "cargo xtask book".to_owned(),
        }
    }

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

/// The cheap steps come first, the tests last so that their closing line is the last thing on the screen.
fn ci_steps() -> Vec<CiStep> {
    let run = |name, command| CiStep { name, action: CiAction::Run(command) };
    vec![
        run("format", CommandSpec::from_line("cargo fmt --all --check")),
        CiStep { name: "tidy", action: CiAction::Tidy },
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

/// Of the tests from end to end those that say most of a store: of the queue and the HTTP API all, of the agent and the program
/// what is asked of them, what a crash leaves, handoffs and memory. All of them pass there, but with the others the command would
/// take longer than the half hour it may.
const POSTGRES_TEST_FILTER: &str = "package(/^segue-(scheduler|http)$/) \
     + package(segue-agent) & test(/^(crash::requests|handoff|memory|requests|states)::/) - test(/::(pathological|tree)::/) \
     + package(segue) & test(/^(handoff|memory|threads)::/) - test(/::m12_a_thousand/)";

/// Returns those tests once more, with everything they store on PostgreSQL. The journal's own tests run on both engines anyway. It
/// is the whole workspace that is named, as before: for some of its rooms alone, what they depend on would be built again.
fn postgres_tests() -> CommandSpec {
    CommandSpec::from_line("cargo nextest run --locked --workspace -E")
        .arg(format!("kind(test) & ({POSTGRES_TEST_FILTER})"))
        .env("SEGUE_TEST_STORE", "postgres")
}

/// Performs every step and stops at the first that fails.
///
/// # Errors
/// Names the step that failed and the command that repeats it alone.
pub fn run_steps(root: &Path) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for step in ci_steps() {
        println!("── {}: {}", step.name, step.action.display_command());
        let started = Instant::now();
        if let Err(error) = step.action.run_action(root) {
            bail!(
                "step `{}` failed ({error:#}); repeat it alone with: {}",
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
    fn every_step_can_be_repeated_alone() {
        let shown: Vec<String> = ci_steps().iter().map(|step| step.action.display_command()).collect();
        assert_eq!(
            shown,
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
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
