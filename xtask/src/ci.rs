//! The steps that every change has to pass, as data, and running them in order. What each one checks is decided by
//! the tool it calls; nothing is set up here.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::book;
use crate::command::Command;
use crate::tidy;

/// One step.
struct Step {
    name: &'static str,
    action: Action,
}

enum Action {
    Run(Command),
    Tidy,
    Book,
}

impl Action {
    /// Returns the command that repeats this step alone.
    fn shown(&self) -> String {
        match self {
            Self::Run(command) => command.to_string(),
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::Book => "cargo xtask book".to_owned(),
        }
    }

    fn perform(&self, root: &Path) -> anyhow::Result<()> {
        match self {
            Self::Run(command) => match command.status(root)? {
                status if status.success() => Ok(()),
                status => bail!("{status}"),
            },
            Self::Tidy => tidy::run(root),
            Self::Book => book::build(root),
        }
    }
}

/// The cheap steps come first, the tests last so that their closing line is the last thing on the screen.
fn steps() -> Vec<Step> {
    let run = |name, command| Step { name, action: Action::Run(command) };
    vec![
        run("format", Command::line("cargo fmt --all --check")),
        Step { name: "tidy", action: Action::Tidy },
        Step { name: "book", action: Action::Book },
        run("clippy", Command::line("cargo clippy --locked --workspace --all-targets -- -D warnings")),
        run(
            "docs",
            Command::line("cargo doc --locked --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"),
        ),
        run("page: format", Command::line("npm run --silent --prefix web format:check")),
        run("page: types", Command::line("npm run --silent --prefix web check")),
        run("page: tests", Command::line("npm test --silent --prefix web")),
        run("page: build", Command::line("npm run --silent --prefix web build -- --outDir ../target/page")),
        run("page: as committed", Command::line("diff -r target/page crates/http/page")),
        run("tests", Command::line("cargo nextest run --locked --workspace")),
        run("tests on PostgreSQL", on_postgres()),
    ]
}

/// Of the tests from end to end those that say most of a store: of the queue and the HTTP API all, of the agent and the program
/// what is asked of them, what a crash leaves, handoffs and memory. All of them pass there, but with the others the command would
/// take longer than the half hour it may.
const ON_POSTGRES: &str = "package(/^segue-(scheduler|http)$/) \
     + package(segue-agent) & test(/^(crash::requests|handoff|memory|requests|states)::/) - test(/::(pathological|tree)::/) \
     + package(segue) & test(/^(handoff|memory|threads)::/) - test(/::m12_a_thousand/)";

/// Returns those tests once more, with everything they store on PostgreSQL. The journal's own tests run on both engines anyway. It
/// is the whole workspace that is named, as before: for some of its rooms alone, what they depend on would be built again.
fn on_postgres() -> Command {
    Command::line("cargo nextest run --locked --workspace -E")
        .arg(format!("kind(test) & ({ON_POSTGRES})"))
        .env("SEGUE_TEST_STORE", "postgres")
}

/// Performs every step and stops at the first that fails.
///
/// # Errors
/// Names the step that failed and the command that repeats it alone.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for step in steps() {
        println!("── {}: {}", step.name, step.action.shown());
        let started = Instant::now();
        if let Err(error) = step.action.perform(root) {
            bail!("step `{}` failed ({error:#}); repeat it alone with: {}", step.name, step.action.shown());
        }
        times.push(format!("{} {}", step.name, seconds(started.elapsed())));
        println!("── {}: ok in {}", step.name, seconds(started.elapsed()));
    }
    println!("── all steps passed in {} ({})", seconds(begin.elapsed()), times.join(", "));
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_can_be_repeated_alone() {
        let shown: Vec<String> = steps().iter().map(|step| step.action.shown()).collect();
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
                    "SEGUE_TEST_STORE=postgres cargo nextest run --locked --workspace -E 'kind(test) & ({ON_POSTGRES})'"
                )
                .as_str(),
            ]
        );
    }
}
