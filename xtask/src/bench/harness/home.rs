//! A home folder of the measured program, and its commands.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::super::session_generator;
use super::BenchContext;

/// The environment variables that a measured process does not inherit: keys of providers and settings of the user.
const REMOVED_VARIABLES: [&str; 7] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "SEGUE_DATABASE_URL",
    "SEGUE_LOG",
    "SEGUE_LOG_FILE",
    "SEGUE_ADDR",
];

/// A home folder with a workspace beside it.
#[derive(Debug, Clone)]
pub struct BenchHome {
    segue: PathBuf,
    folder: PathBuf,
}

impl BenchHome {
    /// Creates the folders in the folder of the benchmark.
    ///
    /// # Errors
    /// If they cannot be created.
    pub fn create(context: &BenchContext, name: &str) -> anyhow::Result<Self> {
        let home = Self { segue: context.programs.segue.clone(), folder: context.folder.join(name) };
        fs::create_dir_all(home.home_path())?;
        fs::create_dir_all(home.workspace())?;
        Ok(home)
    }

    /// Writes `config.toml`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn configure(&self, text: &str) -> anyhow::Result<()> {
        fs::write(self.home_path().join("config.toml"), text).context("write config.toml")
    }

    pub fn home_path(&self) -> PathBuf {
        self.folder.join("home")
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Imports a generated session and returns the id of its thread.
    ///
    /// # Errors
    /// If the import fails.
    pub fn import_session(&self, messages: usize) -> anyhow::Result<String> {
        let file = self.folder.join(format!("{messages}.jsonl"));
        write_session_file(&file, messages, messages)?;
        let output = self.run_command(&["import", &file.to_string_lossy(), "--json"])?;
        let report: Value = serde_json::from_str(&output).context("read the report of the import")?;
        let id = report["threads"][0]["thread_id"].as_str().context("the report names no thread")?;
        Ok(id.to_owned())
    }

    /// Imports `sessions` generated sessions of `messages` messages each.
    ///
    /// # Errors
    /// If the import fails.
    pub fn import_sessions(&self, sessions: usize, messages: usize) -> anyhow::Result<()> {
        let folder = self.folder.join("sessions");
        fs::create_dir_all(&folder)?;
        for name in 0..sessions {
            write_session_file(&folder.join(format!("{name}.jsonl")), name, messages)?;
        }
        self.run_command(&["import", &folder.to_string_lossy()]).map(drop)
    }

    /// Runs a command of the program and returns its standard output.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run_command(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.command(args).output().context("start segue")?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            bail!("`segue {}` exited with {}: {reason}", args.join(" "), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns a process of the program in this home and workspace.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.segue);
        for variable in REMOVED_VARIABLES {
            command.env_remove(variable);
        }
        command.args(args).current_dir(self.workspace()).stdin(Stdio::null());
        command.env("SEGUE_HOME", self.home_path()).env("HOME", &self.folder);
        command
    }
}

/// Writes a generated session to a file.
///
/// # Errors
/// If the file cannot be written.
pub fn write_session_file(path: &Path, name: usize, messages: usize) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    session_generator::write_session(&mut out, name, messages)?;
    out.flush().with_context(|| format!("write {}", path.display()))
}
