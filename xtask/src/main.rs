//! The project's development commands: `cargo xtask test`, `ci`, `quick`, `soak`, `fuzz`, `tidy`, `guarantees`, `page`, `book`,
//! `upgrade-fixture`, `eval-handoff`, `eval-recall`, `eval-secrets`, `secret-rules`, `bench`, `pictures`,
//! `simulate-scale` and `bench-gateway`.
//!
//! This file parses the arguments and calls the module of the command. No crate of Segue depends on this crate, and
//! this crate depends on no crate of Segue. It runs them as programs.

mod bench;
mod book;
mod cargo_metadata;
mod ci;
mod command;
mod handoff_evaluation;
mod machine_setup;
mod pictures;
mod recall_evaluation;
mod secret_rules;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use ci::MissingTools;

/// The help text, printed without a command, by `help` and after an unknown command.
const USAGE: &str = "\
cargo xtask COMMAND

  test                  install the tools that the tests need, then run `ci`
  ci                    check format, house rules, spelling, book and lints, build docs and page, run all tests;
                        stop at the first failure
  quick                 check format and house rules; lint and test the crates that changed since `main`, and those
                        that use them, without the tests that take long
  soak                  run the tests with the full counts, all of them on PostgreSQL, and those in the browser
                        repeatedly
  fuzz TARGET [--seconds N] [--keep]
                        run a fuzz target of the crate `fuzzing` under libFuzzer, for a minute if N is not given;
                        `--keep` adds the inputs that reach new code to its corpus, which the tests replay
  tidy                  check the house rules
  guarantees            write the tests of each guarantee into docs/src/guarantees.md
  page                  check format, types, unit tests and build of the page
  book                  render the book in docs/ to target/book and check its links
  upgrade-fixture       write homes with this version, for the upgrade tests of later versions; once for each release
  eval-handoff [ARG…]   score handoff summaries of the conversations in ../shared/data; pass ARGs to the scorer;
                        `--model PROVIDER/NAME` scores the drafts of a model
                        (--dev: use the development build)
  eval-recall [--dev]   measure the evidence recall of `segue search` on the conversations in ../shared/data;
                        fail if it is below the minimum; `--embeddings URL MODEL` compares meaning too
  eval-secrets [--dev]  measure the recall and the false positives of the redaction of secrets; fail below the bars
  secret-rules FILE VERSION
                        convert gitleaks.toml of a release of gitleaks into the rules of the crate `secrets`
  bench [NAME…]         run the benchmarks of all crates, the program and the page, or those of a crate, of the
                        `program` or one benchmark of it (`--list`), of the `page`, or its `size`;
                        `--json FILE` writes the program's results, `--table FILE` prints such a file for the book,
                        `--against REV [--pairs N]` compares the results with those of a revision
  pictures              capture the screenshots of the README and the book into docs/src/pictures
  simulate-scale [--threads N] [--messages N] [--indexed N] [--partition]
                        fill a PostgreSQL journal with many threads, and measure requests there
  bench-gateway         measure the server under load: runs per second, latencies, memory, idle streams
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match workspace_root().and_then(|root| dispatch(&root, &args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that `args` name. Prints the help text if they are empty.
///
/// # Errors
/// If the command fails, is unknown, or takes no arguments and got one.
fn dispatch(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let Some((name, command_args)) = args.split_first() else {
        print!("{USAGE}");
        return Ok(());
    };
    match (name.as_str(), command_args) {
        ("test", []) => ci::run_tests(root, MissingTools::Install),
        ("ci", []) => ci::run_tests(root, MissingTools::Fail),
        ("quick", []) => ci::quick::run_quick(root),
        ("soak", []) => ci::run_soak(root),
        ("fuzz", _) => ci::fuzz::run_fuzzing(root, command_args),
        ("page", []) => ci::page::check_page(root),
        ("tidy", []) => tidy::run_checks(root),
        ("guarantees", []) => tidy::write_guarantees(root),
        ("book", []) => book::build_book(root),
        ("upgrade-fixture", []) => ci::upgrade_fixture().run(root),
        ("eval-handoff", _) => handoff_evaluation::run_evaluation(root, command_args),
        ("eval-recall", _) => recall_evaluation::run_evaluation(root, command_args),
        ("eval-secrets", _) => secret_rules::evaluation::run_evaluation(root, command_args),
        ("secret-rules", _) => secret_rules::convert_rules(root, command_args),
        ("bench", _) => bench::run_benches(root, command_args),
        ("pictures", []) => pictures::capture_pictures(root),
        ("simulate-scale", _) => bench::simulate_scale(root, command_args),
        ("bench-gateway", []) => bench::run_gateway(root),
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            Ok(())
        }
        (
            "test" | "ci" | "quick" | "soak" | "page" | "tidy" | "guarantees" | "book" | "upgrade-fixture"
            | "pictures" | "bench-gateway",
            [extra, ..],
        ) => {
            bail!("`{name}` takes no argument, got `{extra}`")
        }
        (unknown, _) => bail!("unknown command `{unknown}`\n\n{USAGE}"),
    }
}

/// Returns the folder of the workspace, which is the parent of this crate's folder.
///
/// # Errors
/// If the program was not started by cargo.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("find the workspace: run `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("find the workspace above xtask")?;
    Ok(root.to_owned())
}
