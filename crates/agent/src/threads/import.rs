//! Import: other agents' sessions into threads, streamed, repeatable, and without loss. Reading the files is done by
//! the `transcripts` room; which conversation goes where is found out by the files beside this one.

mod passes;
mod place;
mod reader;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::ThreadId;
use runtime::{Frames, RunScope};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;
use transcripts::discover::{self, Places, discover};
use transcripts::{Problem, Source};

use crate::agent::services::ThreadService;
use crate::{Class, Error, Result, ThreadError};

use passes::SourceImport;

/// What an import did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    /// The threads, in the order of the files.
    pub threads: Vec<ImportedThread>,
    /// What was damaged, and skipped or repaired.
    pub problems: Vec<ImportProblem>,
    /// Named files that could not be imported at all.
    pub failed: Vec<ImportProblem>,
    /// Files of a folder that hold no session.
    pub skipped: Vec<PathBuf>,
    /// Bytes read.
    pub bytes: u64,
}

/// One conversation of an import.
#[derive(Debug, Clone, Serialize)]
pub struct ImportedThread {
    /// The thread it is in.
    pub thread_id: ThreadId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The beginning of its first request.
    pub first_prompt: Option<String>,
    /// The format it was read from.
    pub format: String,
    /// The file.
    pub path: PathBuf,
    /// Events this import added.
    pub events_new: u64,
    /// Events of the session.
    pub events_total: u64,
    /// Whether the thread was created by this import.
    pub is_new: bool,
}

/// A session file of an agent that is installed on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundSession {
    /// The agent's format.
    pub format: String,
    /// The file.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Its size.
    pub bytes: u64,
    /// Its title, or the beginning of its first request.
    pub title: Option<String>,
    /// The folder it worked in.
    pub workspace: Option<String>,
}

/// One damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportProblem {
    /// The file.
    pub path: PathBuf,
    /// The line, where lines mean something.
    pub line: Option<u64>,
    /// What is wrong and what became of it.
    pub reason: String,
}

impl From<Problem> for ImportProblem {
    fn from(problem: Problem) -> Self {
        Self { path: problem.path, line: problem.line, reason: problem.reason }
    }
}

impl ThreadService<'_> {
    /// Imports session files, folders of them, or standard input (`-`). A session that was imported before gets
    /// what is new; one whose history differs becomes a thread of its own, and so does one that grew after somebody
    /// spoke in its thread (`metadata.source.continues` names that thread then).
    ///
    /// A named file that cannot be read or holds no session is among [`ImportReport::failed`]; the others are imported.
    ///
    /// # Errors
    /// When the only named file cannot be read or holds no session, or the journal fails. What was imported before
    /// that stays; the same call goes on from there.
    pub async fn import(
        self,
        paths: &[PathBuf],
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        for path in paths {
            match self.import_path(path, &mut report, RunScope { frames, cancel }).await {
                Err(error) if error.class() == Class::User && paths.len() > 1 => {
                    let reason = error.to_string();
                    report.failed.push(ImportProblem { path: path.clone(), line: None, reason });
                }
                done => done?,
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        Ok(report)
    }

    /// Imports one session that somebody sent, and that was written into a temporary file, which goes; reports call it
    /// `name`.
    ///
    /// # Errors
    /// When it cannot be read to its end or holds no session, or the journal fails. As in [`ThreadService::import`], what was
    /// imported before that stays.
    pub async fn import_sent(
        self,
        file: NamedTempFile,
        name: &str,
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        self.import_source(Source::spooled(file, name), &mut report, RunScope { frames, cancel }).await?;
        Ok(report)
    }

    /// Writes standard input into a temporary file of the home folder, gone with the source.
    async fn standard_input(self) -> Result<Source> {
        let name = "standard input";
        let home = self.agent.settings.home.root().to_owned();
        Ok(tokio::task::spawn_blocking(move || Source::spool(&mut std::io::stdin(), name, &home)).await??)
    }

    async fn import_path(self, path: &Path, report: &mut ImportReport, scope: RunScope<'_>) -> Result<()> {
        if path.as_os_str() == "-" {
            let source = self.standard_input().await?;
            return self.import_source(source, report, scope).await;
        }
        let source = Source::file(path);
        match transcripts::detect(&source) {
            Err(transcripts::Error::Folder { .. }) => self.import_folder(path, report, scope).await,
            Ok(_) | Err(_) => self.import_source(source, report, scope).await,
        }
    }

    /// Returns the sessions of agents that are installed on this machine, newest first, with the titles of the
    /// newest `titled`, and what could not be looked at.
    pub fn discover(self, titled: usize) -> (Vec<FoundSession>, Vec<ImportProblem>) {
        let discovery = discover(&self.places());
        let found = discovery.found.into_iter().enumerate().map(|(index, found)| {
            let source = Source::file(&found.path);
            let peek = if index < titled { discover::peek(&source, found.format).ok() } else { None };
            let peek = peek.unwrap_or_default();
            FoundSession {
                format: found.format.as_str().to_owned(),
                path: found.path,
                modified: found.modified,
                bytes: found.bytes,
                title: peek.title,
                workspace: peek.workspace,
            }
        });
        (found.collect(), discovery.problems.into_iter().map(ImportProblem::from).collect())
    }

    fn places(self) -> Places {
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Places {
            home: etcetera::home_dir().unwrap_or_default(),
            current_folder: self.agent.settings.workspace.clone(),
            claude_config: folder("CLAUDE_CONFIG_DIR"),
            codex_home: folder("CODEX_HOME"),
            data_home: folder("XDG_DATA_HOME"),
        }
    }

    /// Imports the files below a folder; what is wrong with one of them is reported and the others are imported.
    async fn import_folder(
        self,
        folder: &Path,
        report: &mut ImportReport,
        scope: RunScope<'_>,
    ) -> Result<()> {
        let (files, problems) = files_below(folder)?;
        report.problems.extend(problems);
        for path in files {
            match self.import_source(Source::file(&path), report, scope).await {
                Ok(()) => {}
                Err(Error::Thread(ThreadError::Transcript(
                    transcripts::Error::Empty { .. }
                    | transcripts::Error::Binary { .. }
                    | transcripts::Error::Unrecognized { .. },
                ))) => report.skipped.push(path),
                Err(Error::Thread(ThreadError::Transcript(error))) => {
                    report.problems.push(ImportProblem { path, line: None, reason: error.to_string() });
                }
                Err(error) => return Err(error),
            }
            if scope.cancel.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn import_source(
        self,
        source: Source,
        report: &mut ImportReport,
        scope: RunScope<'_>,
    ) -> Result<()> {
        report.bytes += source.bytes();
        SourceImport::new(self.agent, source).run(report, scope).await
    }
}

/// Returns the files below `folder`, in the order of their names, and the folders that cannot be listed; links to
/// folders are not followed.
///
/// # Errors
/// When `folder` itself cannot be listed.
fn files_below(folder: &Path) -> Result<(Vec<PathBuf>, Vec<ImportProblem>)> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut folders = Vec::new();
    list(folder, &mut files, &mut folders)
        .map_err(|error| ThreadError::Input { path: folder.to_owned(), reason: error.to_string() })?;
    while let Some(path) = folders.pop() {
        if let Err(error) = list(&path, &mut files, &mut folders) {
            let reason = format!("left out the folder: {error}");
            problems.push(ImportProblem { path, line: None, reason });
        }
    }
    files.sort();
    Ok((files, problems))
}

/// Adds what a folder holds to `files` and `folders`.
fn list(folder: &Path, files: &mut Vec<PathBuf>, folders: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            folders.push(entry.path());
        } else if kind.is_file() || entry.path().is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
