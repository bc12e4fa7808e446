//! `cargo xtask eval-handoff`: builds the evaluation program of the `handoff` room and gives it to the scorer. The
//! scores are the scorer's; nothing is computed here.

use std::path::Path;

use anyhow::bail;

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

const DATA: &str = "../shared/data";
const SCORER: &str = "xtask/eval_handoff.py";
const EXAMPLE: &str = "eval_handoff";

/// Builds, runs and prints; arguments other than `--dev` go to the scorer.
///
/// # Errors
/// When Python or the conversations are absent, the build fails, or the scorer says that a bar is missed.
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    if !root.join(DATA).is_dir() {
        bail!("score handoffs: the conversations are not at {DATA} (beside the checkout); nothing was run");
    }
    if !CommandSpec::from_line("python3 --version").is_successful(root) {
        bail!("score handoffs: `python3` is not installed; nothing was run");
    }
    let (dev, rest): (Vec<String>, Vec<String>) = args.iter().cloned().partition(|arg| arg == "--dev");
    let profile = if dev.is_empty() { "release" } else { "dev" };
    CommandSpec::from_line("cargo build --locked -p segue-handoff --example")
        .arg(EXAMPLE)
        .arg("--profile")
        .arg(profile)
        .run(root)?;
    let folder = if dev.is_empty() { "release" } else { "debug" };
    let binary = CargoMetadata::load(root)?.target_folder.join(folder).join("examples").join(EXAMPLE);
    CommandSpec::from_line("python3")
        .arg(SCORER)
        .arg(DATA)
        .arg(binary.to_string_lossy())
        .args(&rest)
        .run(root)
}
