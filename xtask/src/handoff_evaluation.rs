//! `cargo xtask eval-handoff`: builds the evaluation example of the crate `handoff` and passes it to a Python scorer,
//! which computes and prints the scores.

use std::path::Path;

use anyhow::bail;

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// The folder of the conversations, relative to the workspace. It is not part of the repository.
const DATA: &str = "../shared/data";
/// The scorer, relative to the workspace.
const SCORER: &str = "xtask/eval_handoff.py";
/// The example of the crate `handoff` that the scorer runs.
const EXAMPLE: &str = "eval_handoff";

/// Builds the example and runs the scorer. `--dev` selects the development build; all other arguments are passed to the
/// scorer.
///
/// # Errors
/// If Python or the conversations are missing, the build fails, or the scorer reports a score below its minimum.
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    if !root.join(DATA).is_dir() {
        bail!("score handoffs: the folder {DATA} with the conversations is missing; nothing was run");
    }
    if !CommandSpec::from_line("python3 --version").is_successful(root) {
        bail!("score handoffs: `python3` is not installed; nothing was run");
    }
    let (dev_args, scorer_args): (Vec<String>, Vec<String>) =
        args.iter().cloned().partition(|arg| arg == "--dev");
    let profile = if dev_args.is_empty() { "release" } else { "dev" };
    CommandSpec::from_line("cargo build --locked -p segue-handoff --example")
        .arg(EXAMPLE)
        .arg("--profile")
        .arg(profile)
        .run(root)?;
    let folder = if dev_args.is_empty() { "release" } else { "debug" };
    let binary = CargoMetadata::load(root)?.target_folder.join(folder).join("examples").join(EXAMPLE);
    CommandSpec::from_line("python3")
        .arg(SCORER)
        .arg(DATA)
        .arg(binary.to_string_lossy())
        .args(&scorer_args)
        .run(root)
}
