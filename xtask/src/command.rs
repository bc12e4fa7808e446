//! A command as data: it can be run, and shown so that a person can repeat it. It decides nothing.

use std::fmt;
use std::path::Path;
use std::process::{Command as Process, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// A program, its arguments and the environment it needs beyond the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl CommandSpec {
    /// Returns the command of that program and arguments separated by spaces.
    pub fn from_line(line: &str) -> Self {
        let mut words = line.split_whitespace().map(str::to_owned);
        Self { program: words.next().unwrap_or_default(), args: words.collect(), env: Vec::new() }
    }

    /// Returns the command of that program, whose path may contain spaces.
    pub fn from_program(path: &Path) -> Self {
        Self { program: path.to_string_lossy().into_owned(), args: Vec::new(), env: Vec::new() }
    }

    /// Adds one argument, which may contain spaces.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: &[String]) -> Self {
        self.args.extend_from_slice(args);
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the command with its output on the terminal.
    ///
    /// # Errors
    /// When it cannot be started or ends with another status than 0.
    pub fn run(&self, folder: &Path) -> anyhow::Result<()> {
        let status = self.status(folder)?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }

    /// Runs the command with its output on the terminal and returns how it ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn status(&self, folder: &Path) -> anyhow::Result<ExitStatus> {
        self.to_process(folder).status().with_context(|| format!("start `{}`", self.program))
    }

    /// Runs the command and returns what it wrote to its standard output.
    ///
    /// # Errors
    /// When it cannot be started, ends with another status than 0, or writes something that is not text.
    pub fn output(&self, folder: &Path) -> anyhow::Result<String> {
        let output = self
            .to_process(folder)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("start `{}`", self.program))?;
        if !output.status.success() {
            bail!("`{self}` ended with {}", output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("read the output of `{self}`"))
    }

    /// Returns whether the command can be started and ends with status 0; its output is dropped.
    pub fn is_successful(&self, folder: &Path) -> bool {
        self.to_process(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn to_process(&self, folder: &Path) -> Process {
        let mut process = Process::new(&self.program);
        process.args(&self.args).current_dir(folder).stdin(Stdio::null());
        process.envs(self.env.iter().map(|(name, value)| (name, value)));
        process
    }
}

impl fmt::Display for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quote_word(value))?;
        }
        f.write_str(&quote_word(&self.program))?;
        for arg in &self.args {
            write!(f, " {}", quote_word(arg))?;
        }
        Ok(())
    }
}

fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_a_shell_reads_it() {
        let command = CommandSpec::from_line("cargo doc --workspace")
            .env("RUSTDOCFLAGS", "-D warnings")
            .arg("it's")
            .arg("");
        assert_eq!(command.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --workspace 'it'\''s' ''");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!CommandSpec::from_line("no-such-program-of-this-name").is_successful(Path::new(".")));
    }
}
