//! The checks as data: what `test`, `ci` and `soak` run, in which order.

use std::path::Path;

use anyhow::bail;

use super::{MissingTools, page};
use crate::book;
use crate::command::CommandSpec;
use crate::machine_setup;
use crate::tidy;

/// One check.
pub struct CiStep {
    /// The name in the output.
    pub name: &'static str,
    /// The check itself.
    pub action: CiAction,
}

/// The action of a check.
pub enum CiAction {
    /// Runs a command, which must succeed.
    Run(CommandSpec),
    /// Runs `tidy` in this process.
    Tidy,
    /// Renders and checks the book in this process.
    Book,
    /// Checks the page.
    Page,
    /// Installs the tools without which nothing can be compiled.
    BasicTools,
    /// Installs all tools of the tests.
    Tools,
}

impl CiAction {
    /// Returns the command with which the user can repeat this step.
    pub fn display_command(&self) -> String {
        match self {
            Self::Run(command) => command.to_string(),
            Self::Tidy => "cargo xtask tidy".to_owned(),
            Self::Book => "cargo xtask book".to_owned(),
            Self::Page => "cargo xtask page".to_owned(),
            Self::BasicTools | Self::Tools => "cargo xtask test".to_owned(),
        }
    }

    /// Performs the action.
    ///
    /// # Errors
    /// If the check fails or the command cannot be started.
    pub fn run_action(&self, root: &Path) -> anyhow::Result<()> {
        match self {
            Self::Run(command) => match command.status(root)? {
                status if status.success() => Ok(()),
                status => bail!("{status}"),
            },
            Self::Tidy => tidy::run_checks(root),
            Self::Book => book::build_book(root),
            Self::Page => page::check_if_changed(root),
            Self::BasicTools => machine_setup::set_up_basics(root),
            Self::Tools => machine_setup::set_up(root),
        }
    }
}

/// How often the tests repeat what they repeat: handoffs, runs, generated transcripts, processes that are killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestCounts {
    /// Enough to find what breaks often.
    Small,
    /// Enough to find what breaks rarely. The tests read this from the environment, with the crate `test_counts`.
    Full,
}

impl TestCounts {
    /// Adds the counts, and the profile of nextest with their time limits, to a command that runs tests.
    fn apply(self, command: CommandSpec) -> CommandSpec {
        match self {
            Self::Small => command,
            Self::Full => command.env("SEGUE_TEST_COUNTS", "full").env("PROPTEST_CASES", "256"),
        }
    }
}

/// The command that runs tests. Examples are not among its targets, because nothing runs them and each takes ten seconds to
/// link; clippy compiles them.
pub const RUN_TESTS: &str = "cargo nextest run --locked --workspace --lib --bins --tests";

/// How often `soak` repeats the tests in the browser.
const BROWSER_REPEATS: u32 = 10;

/// The nextest filter for the tests that `test` runs again on PostgreSQL: a test of each part that depends on the store.
/// The journal's own tests always run on both engines, and `soak` runs all tests on PostgreSQL.
pub const POSTGRES_SAMPLE: &str = "kind(test) & (package(segue-scheduler) & test(/^(order|stream)::/) \
     + package(segue-http) & test(/^(runs|isolation)::/) \
     + package(segue-agent) & test(/^(crash::requests|requests::resume)::/) \
     + package(segue) & test(/^threads::/))";

/// Returns the step that installs the tools without which nothing can be compiled.
pub fn basic_tools() -> CiStep {
    CiStep { name: "basic tools", action: CiAction::BasicTools }
}

/// Returns the steps that compile: cheap checks first. The last one builds the tests.
pub fn compiler_steps() -> Vec<CiStep> {
    vec![
        run("format", "cargo fmt --all --check"),
        CiStep { name: "tidy", action: CiAction::Tidy },
        run("clippy", "cargo clippy --locked --workspace --all-targets -- -D warnings"),
        CiStep {
            name: "docs",
            action: CiAction::Run(
                CommandSpec::from_line("cargo doc --locked --workspace --no-deps")
                    .env("RUSTDOCFLAGS", "-D warnings"),
            ),
        },
        run("build of the tests", "cargo test --quiet --locked --workspace --lib --bins --tests --no-run"),
    ]
}

/// Returns the steps that need no compiler.
pub fn other_steps(tools: MissingTools) -> Vec<CiStep> {
    let mut steps = match tools {
        MissingTools::Install => vec![CiStep { name: "tools", action: CiAction::Tools }],
        MissingTools::Fail => Vec::new(),
    };
    steps.extend([
        run("spelling", "target/typos/bin/typos --format brief"),
        CiStep { name: "book", action: CiAction::Book },
        CiStep { name: "page", action: CiAction::Page },
    ]);
    steps
}

/// Returns the steps that run all tests, and a part of them again with PostgreSQL as their store.
///
/// The commands name the whole workspace, because cargo would rebuild dependencies with other features for a part of it.
pub fn test_steps(counts: TestCounts) -> Vec<CiStep> {
    let tests = CommandSpec::from_line(RUN_TESTS);
    vec![
        CiStep { name: "tests", action: CiAction::Run(counts.apply(tests)) },
        CiStep {
            name: "tests on PostgreSQL",
            action: CiAction::Run(counts.apply(on_postgres(POSTGRES_SAMPLE))),
        },
    ]
}

/// Returns the steps of `soak`. Its tests are compiled with optimisation, because they take longer to run than to compile.
pub fn soak_steps() -> Vec<CiStep> {
    let soak = |command: CommandSpec| {
        TestCounts::Full.apply(command.args(&["--cargo-profile=soak", "--profile=soak"].map(str::to_owned)))
    };
    let browser = CommandSpec::from_line(RUN_TESTS)
        .arg(format!("--stress-count={BROWSER_REPEATS}"))
        .arg("-E")
        .arg("package(segue) & test(/^serve::web::/)");
    vec![
        CiStep {
            name: "tests with full counts",
            action: CiAction::Run(soak(CommandSpec::from_line(RUN_TESTS))),
        },
        CiStep { name: "all tests on PostgreSQL", action: CiAction::Run(soak(on_postgres("kind(test)"))) },
        CiStep { name: "tests in the browser, repeated", action: CiAction::Run(soak(browser)) },
    ]
}

fn run(name: &'static str, line: &str) -> CiStep {
    CiStep { name, action: CiAction::Run(CommandSpec::from_line(line)) }
}

/// Returns the command that runs the selected tests with PostgreSQL as their store.
fn on_postgres(filter: &str) -> CommandSpec {
    CommandSpec::from_line(RUN_TESTS).arg("-E").arg(filter).env("SEGUE_TEST_STORE", "postgres")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(steps: &[CiStep]) -> Vec<String> {
        steps.iter().map(|step| step.action.display_command()).collect()
    }

    #[test]
    fn every_step_has_a_command_that_repeats_it() {
        assert_eq!(
            commands(&compiler_steps()),
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo clippy --locked --workspace --all-targets -- -D warnings",
                "RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps",
                "cargo test --quiet --locked --workspace --lib --bins --tests --no-run",
            ]
        );
        assert_eq!(
            commands(&other_steps(MissingTools::Fail)),
            ["target/typos/bin/typos --format brief", "cargo xtask book", "cargo xtask page"]
        );
    }

    #[test]
    fn test_and_soak_run_the_same_tests_with_other_counts() {
        let small = commands(&test_steps(TestCounts::Small));
        assert_eq!(small[0], RUN_TESTS);
        assert!(small[1].starts_with("SEGUE_TEST_STORE=postgres "), "{small:?}");
        let full = commands(&soak_steps());
        assert_eq!(
            full[..2],
            [
                format!(
                    "SEGUE_TEST_COUNTS=full PROPTEST_CASES=256 {RUN_TESTS} --cargo-profile=soak --profile=soak"
                ),
                format!(
                    "SEGUE_TEST_STORE=postgres SEGUE_TEST_COUNTS=full PROPTEST_CASES=256 {RUN_TESTS} -E 'kind(test)' \
                     --cargo-profile=soak --profile=soak"
                ),
            ]
        );
        assert!(full[2].contains("--stress-count=10"), "{full:?}");
    }
}
