//! The pictures of the page. A script drives Chromium against `segue serve`; this module runs the script and reads the
//! files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::Picture;
use super::palette::Scheme;
use super::sandbox::Sandbox;

/// The script, relative to the workspace.
const SCRIPT: &str = "web/pictures/pages.mjs";
/// The pictures that the script writes.
const NAMES: [&str; 3] = ["page-thread", "page-handoff-review", "page-lineage"];

/// Captures all pictures of the page.
///
/// # Errors
/// If the script fails, or a picture is missing. The script writes the reason for its failure to standard error.
pub fn capture_all(root: &Path, program: &Path) -> anyhow::Result<Vec<Picture>> {
    let sandbox = Sandbox::new(root, program)?;
    run_script(root, &sandbox)?;
    let mut pictures = Vec::new();
    for name in NAMES {
        for scheme in Scheme::ALL {
            let path = sandbox.output().join(format!("{name}-{}.png", scheme.name()));
            quantize(&path).with_context(|| format!("capture the picture `{name}`"))?;
            let bytes = fs::read(&path).with_context(|| format!("capture the picture `{name}`"))?;
            pictures.push(Picture::new(name, scheme, "png", bytes));
        }
    }
    Ok(pictures)
}

/// Runs the script with the folders, the session and the command that starts `segue` with a fixed clock.
fn run_script(root: &Path, sandbox: &Sandbox) -> anyhow::Result<()> {
    let (program, clock) = sandbox.program();
    let mut command = Command::new("node");
    command.arg(SCRIPT).arg(sandbox.output()).arg(sandbox.session()).arg("env");
    // The script sets the clock of Chromium itself, so these variables must not reach it.
    command.args(clock.iter().map(|(name, value)| format!("{name}={value}"))).arg(program);
    command.current_dir(root).stdin(Stdio::null()).env_clear().envs(sandbox.environment());
    let status = command.status().context("start `node`")?;
    if !status.success() {
        bail!("capture the pictures of the page: `node {SCRIPT}` exited with {status}");
    }
    Ok(())
}

/// Reduces a PNG file to a palette of at most 256 colours. The file shrinks to about a third, and text looks the same.
fn quantize(path: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("pngquant");
    command.args(["--force", "--strip", "--speed=1", "--quality=80-100", "--output"]).arg(path).arg(path);
    let status = command.status().context("start `pngquant`")?;
    if !status.success() {
        bail!("reduce the colours of {}: `pngquant` exited with {status}", path.display());
    }
    Ok(())
}
