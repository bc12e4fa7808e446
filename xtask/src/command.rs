//! A command as data. It can be run, and printed so that the user can repeat it in a shell.

use std::env;
use std::fmt;
use std::path::Path;
use std::process::{Command as Process, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// A program with its arguments and additional environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// A path, or a name that is looked up in `PATH`.
    program: String,
    args: Vec<String>,
    /// Variables that are set in addition to the caller's environment.
    env: Vec<(String, String)>,
}

impl CommandSpec {
    /// Returns the command in `line`: the program and its arguments, separated by spaces. Quotes have no meaning.
    pub fn from_line(line: &str) -> Self {
        let mut words = line.split_whitespace().map(str::to_owned);
        Self { program: words.next().unwrap_or_default(), args: words.collect(), env: Vec::new() }
    }

    /// Returns a command without arguments. The path of the program may contain spaces.
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

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs the command in `folder` with its output on the terminal.
    ///
    /// # Errors
    /// If it cannot be started, or exits with a status other than 0.
    pub fn run(&self, folder: &Path) -> anyhow::Result<()> {
        let status = self.status(folder)?;
        if !status.success() {
            bail!("`{self}` exited with {status}");
        }
        Ok(())
    }

    /// Runs the command in `folder` with its output on the terminal and returns its exit status.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn status(&self, folder: &Path) -> anyhow::Result<ExitStatus> {
        self.to_process(folder).status().with_context(|| format!("start `{}`", self.program))
    }

    /// Runs the command in `folder` and returns its standard output. Its standard error is shown on the terminal.
    ///
    /// # Errors
    /// If it cannot be started, exits with a status other than 0, or writes output that is not UTF-8.
    pub fn output(&self, folder: &Path) -> anyhow::Result<String> {
        let output = self
            .to_process(folder)
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("start `{}`", self.program))?;
        if !output.status.success() {
            bail!("`{self}` exited with {}", output.status);
        }
        String::from_utf8(output.stdout).with_context(|| format!("read the output of `{self}`"))
    }

    /// Runs the command in `folder` and returns its exit status and what it printed: standard output, then standard error.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn output_of_any(&self, folder: &Path) -> anyhow::Result<(ExitStatus, String)> {
        let output = self.to_process(folder).output().with_context(|| format!("start `{}`", self.program))?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok((output.status, text.concat()))
    }

    /// Returns whether the command can be started and exits with status 0. Its output is dropped.
    pub fn is_successful(&self, folder: &Path) -> bool {
        self.to_process(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Returns the process to start, without standard input.
    fn to_process(&self, folder: &Path) -> Process {
        let mut process = Process::new(&self.program);
        process.args(&self.args).current_dir(folder).stdin(Stdio::null());
        for (name, _) in env::vars_os().filter(|(name, _)| is_cargo_package_variable(&name.to_string_lossy()))
        {
            process.env_remove(name);
        }
        process.envs(self.env.iter().map(|(name, value)| (name, value)));
        process
    }
}

/// Returns whether `cargo run` sets this variable to describe `xtask` itself. A build script that depends on such a variable
/// (ring's does) would run again, and with it everything that uses its crate would be compiled again, whenever `cargo xtask`
/// and a `cargo` from the shell take turns.
fn is_cargo_package_variable(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Formats the command for a POSIX shell.
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

/// Returns a word for a POSIX shell, in single quotes if necessary.
fn quote_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_printed_in_the_syntax_of_a_shell() {
        let command = CommandSpec::from_line("cargo doc --workspace")
            .env("RUSTDOCFLAGS", "-D warnings")
            .arg("it's")
            .arg("");
        assert_eq!(command.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo doc --workspace 'it'\''s' ''");
    }

    #[test]
    fn a_command_does_not_see_the_variables_that_describe_xtask() {
        let output = CommandSpec::from_line("env").output(Path::new(".")).expect("`env` runs");
        assert!(output.contains("PATH="), "{output}");
        assert!(!output.contains("CARGO_PKG_") && !output.contains("CARGO_MANIFEST_"), "{output}");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!CommandSpec::from_line("no-such-program-of-this-name").is_successful(Path::new(".")));
    }
}
