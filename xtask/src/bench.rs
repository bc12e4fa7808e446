//! `cargo xtask bench`: runs the benches of every room that has some. The figures are printed by the benches.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::command::Command;

/// Runs the benches; `args` go to `cargo bench`.
///
/// # Errors
/// When no room has a bench, or one fails.
pub fn run(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let rooms = rooms_with_benches(&root.join("crates"))?;
    if rooms.is_empty() {
        bail!("run benches: no room has a `benches` folder");
    }
    // `--bench *` leaves the unit tests out, which `cargo bench` would run as benches of zero length.
    let command = Command::line("cargo bench --locked --bench *");
    rooms.iter().fold(command, |command, room| command.arg("-p").arg(room)).args(args).run(root)
}

fn rooms_with_benches(crates: &Path) -> anyhow::Result<Vec<String>> {
    let mut rooms = Vec::new();
    for entry in fs::read_dir(crates).with_context(|| format!("read {}", crates.display()))? {
        let entry = entry?;
        if entry.path().join("benches").is_dir() {
            rooms.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    rooms.sort();
    Ok(rooms)
}
