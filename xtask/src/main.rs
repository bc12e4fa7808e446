//! The project's own commands: `cargo xtask test`, `ci`, `tidy`, `book`, `eval-handoff`, `eval-recall`, `bench`,
//! `pictures` and `bench-gateway`.
//!
//! This file reads the arguments and picks the command. It knows no rule and no step; nothing in Segue depends on
//! this crate, and this crate depends on no room.

mod bench;
mod book;
mod cargo_metadata;
mod ci;
mod command;
mod handoff_evaluation;
mod machine_setup;
mod pictures;
mod recall_evaluation;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "\
cargo xtask COMMAND

  test                  set up what the tests need on this machine, then everything of `ci`
  ci                    format, tidy, clippy, docs, tests; stops at the first failure
  tidy                  the house rules that a program can check
  book                  render the book in docs/ to target/book, and look at every link in it
  eval-handoff [ARG…]   score handoff summaries on the conversations in ../shared/data; ARGs go to the scorer
                        (--dev: with the development build)
  eval-recall [--dev]   evidence recall of `segue search` on the conversations in ../shared/data; fails below the bar
  bench [ROOM|program]  the figures of every room that has benches, then of the program; or of one alone
  pictures              capture the screenshots of the README and the book again, into docs/src/pictures
  bench-gateway         load on the served program: runs a second, latencies, memory, idle streams
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

fn dispatch(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let Some((name, rest)) = args.split_first() else {
        print!("{USAGE}");
        return Ok(());
    };
    match (name.as_str(), rest) {
        ("test", []) => {
            machine_setup::set_up(root)?;
            ci::run_steps(root)
        }
        ("ci", []) => ci::run_steps(root),
        ("tidy", []) => tidy::run_checks(root),
        ("book", []) => book::build_book(root),
        ("eval-handoff", _) => handoff_evaluation::run_evaluation(root, rest),
        ("eval-recall", _) => recall_evaluation::run_evaluation(root, rest),
        ("bench", _) => bench::run_benches(root, rest),
        ("pictures", []) => pictures::capture_pictures(root),
        ("bench-gateway", []) => bench::run_gateway(root),
        ("help" | "--help" | "-h", _) => {
            print!("{USAGE}");
            Ok(())
        }
        ("test" | "ci" | "tidy" | "book" | "pictures" | "bench-gateway", [extra, ..]) => {
            bail!("`{name}` takes no argument, got `{extra}`")
        }
        (other, _) => bail!("there is no command `{other}`\n\n{USAGE}"),
    }
}

/// Returns the folder of the workspace: the parent of this crate's.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("find the workspace: run `cargo xtask`")?;
    let root = Path::new(&manifest).parent().context("find the workspace above xtask")?;
    Ok(root.to_owned())
}
