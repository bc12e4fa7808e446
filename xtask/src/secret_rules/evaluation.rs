//! `cargo xtask eval-secrets`: measures the redaction of secrets.
//!
//! The evaluation example of the crate `secrets` generates the texts, counts and compares with the bars. This module
//! builds and runs it.

use std::path::Path;

use anyhow::bail;

use crate::cargo_metadata::CargoMetadata;
use crate::command::CommandSpec;

/// The example of the crate `secrets` that measures.
const EXAMPLE: &str = "eval_secrets";
/// Real conversations without planted secrets, relative to the workspace. They are not part of the repository.
const CONVERSATIONS: &str = "../shared/data/open";

/// Builds the example and runs it, with the real conversations if they are present.
///
/// # Errors
/// If an argument is not `--dev`, the build fails, or a figure is below its bar.
pub fn run_evaluation(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let (profile, folder) = match args {
        [] => ("release", "release"),
        [dev] if dev == "--dev" => ("dev", "debug"),
        [other, ..] => bail!("measure the redaction: unknown argument `{other}`"),
    };
    let target = CargoMetadata::load(root)?.target_folder;
    CommandSpec::from_line("cargo build --locked -p segue-secrets --example")
        .arg(EXAMPLE)
        .arg("--profile")
        .arg(profile)
        .run(root)?;
    let binary = target.join(folder).join("examples").join(EXAMPLE);
    let conversations = root.join(CONVERSATIONS);
    let spec = CommandSpec::from_program(&binary);
    match conversations.is_dir() {
        true => spec.arg(conversations.to_string_lossy()).run(root),
        false => spec.run(root),
    }
}
