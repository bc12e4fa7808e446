//! The sandbox of a picture: temporary folders with the sample session, and an environment without keys, in which
//! clock, time zone, language and fonts are fixed.
//!
//! libfaketime sets the clock. Dates are then the same in every run, and so are the first digits of ids, which encode
//! the time. No picture has to be masked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

/// The sample session, relative to the workspace and to the sandbox's working folder.
pub const SESSION: &str = "examples/flaky-test.jsonl";
/// The time at which each program starts: half an hour after the last message of [`SESSION`].
const CLOCK: &str = "@2026-09-08 07:00:00";
/// The folder with a subfolder for each architecture.
const LIBRARY_FOLDER: &str = "/usr/lib";
/// The multi-threaded libfaketime, relative to the architecture's folder.
const CLOCK_LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// The fontconfig file that chooses the fonts of Chromium.
const FONTS: &str = include_str!("fonts.conf");

/// The folders and the environment of a picture. Dropping it removes the folders.
pub struct Sandbox {
    folder: TempDir,
    /// The path of `segue`.
    program: PathBuf,
    /// The path of libfaketime.
    clock_library: PathBuf,
}

impl Sandbox {
    /// Creates the folders.
    ///
    /// # Errors
    /// If a folder or file cannot be written, or libfaketime is not installed.
    pub fn new(root: &Path, program: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("create a temporary folder")?;
        let sandbox = Self { folder, program: program.to_owned(), clock_library: locate_clock_library()? };
        for folder in [sandbox.user(), sandbox.work().join("examples"), sandbox.output()] {
            fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let session = root.join(SESSION);
        fs::copy(&session, sandbox.session()).with_context(|| format!("copy {}", session.display()))?;
        fs::write(sandbox.fonts(), FONTS).context("write the fontconfig file")?;
        Ok(sandbox)
    }

    /// Returns the working folder of `segue`.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns the path of the copied sample session.
    pub fn session(&self) -> PathBuf {
        self.work().join(SESSION)
    }

    /// Returns a folder for the output of other programs. It is empty at first.
    pub fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// Returns the path of `segue` and the variables that fix its clock. Other programs run with the real clock.
    pub fn program(&self) -> (&Path, Vec<(&'static str, String)>) {
        let clock = vec![
            ("LD_PRELOAD", self.clock_library.to_string_lossy().into_owned()),
            ("FAKETIME", CLOCK.to_owned()),
            // Timeouts need the real monotonic clock.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        (&self.program, clock)
    }

    /// Returns the environment of all programs, without the variables that fix the clock.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut environment = vec![
            ("HOME", path(self.user())),
            ("SEGUE_HOME", path(self.folder.path().join("home"))),
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("TERM", "xterm-256color".to_owned()),
            ("COLORTERM", "truecolor".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("FONTCONFIG_FILE", path(self.fonts())),
        ];
        environment.extend(std::env::var("CHROMIUM").ok().map(|browser| ("CHROMIUM", browser)));
        environment
    }

    /// Runs `segue` without a terminal and waits for its exit.
    ///
    /// # Errors
    /// If `segue` cannot be started or fails. The error contains its standard error.
    pub fn run(&self, args: &[&str]) -> anyhow::Result<()> {
        let (program, clock) = self.program();
        let mut command = Command::new(program);
        command.args(args).current_dir(self.work()).stdin(Stdio::null());
        command.env_clear().envs(self.environment()).envs(clock);
        let output = command.output().with_context(|| format!("start {}", program.display()))?;
        if !output.status.success() {
            let written = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("`segue {}` exited with {}: {}", args.join(" "), output.status, written.trim());
        }
        Ok(())
    }

    /// Returns the home folder of all programs.
    fn user(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    /// Returns the path of the fontconfig file.
    fn fonts(&self) -> PathBuf {
        self.folder.path().join("fonts.conf")
    }
}

/// Returns the path of libfaketime, whose folder depends on the architecture.
fn locate_clock_library() -> anyhow::Result<PathBuf> {
    let folders = fs::read_dir(LIBRARY_FOLDER).with_context(|| format!("read {LIBRARY_FOLDER}"))?;
    let mut libraries = folders.filter_map(Result::ok).map(|folder| folder.path().join(CLOCK_LIBRARY));
    libraries.find(|library| library.is_file()).with_context(|| {
        format!("find {CLOCK_LIBRARY} in {LIBRARY_FOLDER}; the Debian package `libfaketime` contains it")
    })
}
