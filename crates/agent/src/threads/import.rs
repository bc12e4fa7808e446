//! Import of other agents' sessions as threads. It is streamed, repeatable and lossless. The `transcripts`
//! crate reads the files; the modules here match conversations with threads.

mod background_index;
mod conversation_import;
pub(crate) mod incomplete;
mod message_counts;
mod reader;
pub(crate) mod scratch;
mod source_import;

use futures::future::BoxFuture;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::ThreadId;
use runtime::{FrameSender, RunScope};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;
use transcripts::discover::{self, DiscoveryRoots, discover_sessions};
use transcripts::{TranscriptProblem, TranscriptSource};

use crate::ThreadService;
use crate::{Error, ErrorClass, Result, ThreadError};

use background_index::finish_indexing;
use source_import::SourceImport;

/// The result of an import.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    /// The imported conversations, in the order of the files.
    pub threads: Vec<ImportedThread>,
    /// Damaged parts of files that were skipped or repaired.
    pub problems: Vec<SessionImportProblem>,
    /// Named files that could not be imported at all.
    pub failed: Vec<SessionImportProblem>,
    /// Files of a folder that contain no session.
    pub skipped: Vec<PathBuf>,
    /// The number of bytes read.
    pub bytes: u64,
}

/// An imported conversation.
#[derive(Debug, Clone, Serialize)]
pub struct ImportedThread {
    /// The thread that contains it.
    pub thread_id: ThreadId,
    /// The name of the thread.
    pub name: Option<String>,
    /// The beginning of its first prompt.
    pub first_prompt: Option<String>,
    /// The name of the session format.
    pub format: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The number of events that this import added.
    pub events_new: u64,
    /// The number of events of the session.
    pub events_total: u64,
    /// True if this import created the thread.
    pub is_new: bool,
}

/// A session file of another agent that was found on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundSession {
    /// The name of the session format.
    pub format: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The time of the last write to the file.
    pub modified: Option<Timestamp>,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The title of the session, or the beginning of its first prompt.
    pub title: Option<String>,
    /// The folder in which the session's agent worked.
    pub workspace: Option<String>,
}

/// A damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionImportProblem {
    /// The path of the file.
    pub path: PathBuf,
    /// The line number from 1; `None` for formats without lines.
    pub line: Option<u64>,
    /// The damage, and how the import handled it.
    pub reason: String,
}

impl From<TranscriptProblem> for SessionImportProblem {
    fn from(problem: TranscriptProblem) -> Self {
        Self { path: problem.path, line: problem.line, reason: problem.reason }
    }
}

impl<'a> ThreadService<'a> {
    /// Imports session files, folders of them, or standard input (`-`).
    ///
    /// If a session was imported before, only its new entries are added. A session whose history differs from
    /// the imported one becomes a new thread. So does a session that grew after its thread was continued
    /// here; `metadata.source.continues` of the new thread names that thread.
    ///
    /// If several paths are given, a file that cannot be read or contains no session is listed in
    /// [`ImportReport::failed`], and the others are imported. Cancelling stops between batches.
    ///
    /// Messages are indexed for searches while the import goes on. When it returns, all of them are, unless it failed or
    /// was cancelled.
    ///
    /// A session that does not fit into one transaction is stored in several. Until the last of them, its thread has the
    /// mark [`protocol::IncompleteImport`] in its metadata; the next import of the session completes the thread.
    ///
    /// # Errors
    /// Fails if the only path cannot be read or contains no session, or if the journal fails. Batches that
    /// were stored before are kept, and the same call resumes from there.
    pub fn import(
        self,
        paths: &'a [PathBuf],
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ImportReport>> {
        journal::box_future(async move {
            let mut report = ImportReport::default();
            for path in paths {
                match self.import_path(path, &mut report, RunScope { frames, cancel }).await {
                    Err(error) if error.class() == ErrorClass::User && paths.len() > 1 => {
                        let reason = error.to_string();
                        report.failed.push(SessionImportProblem { path: path.clone(), line: None, reason });
                    }
                    outcome => outcome?,
                }
                if cancel.is_cancelled() {
                    return Ok(report);
                }
            }
            finish_indexing(self.agent, report.bytes, RunScope { frames, cancel }).await;
            Ok(report)
        })
    }

    /// Imports one uploaded session from a temporary file, which is removed afterwards. Reports name it
    /// `name`. Its messages are indexed in the background, also after this returns.
    ///
    /// # Errors
    /// Fails if the file cannot be read to its end or contains no session, or if the journal fails. As with
    /// [`ThreadService::import`], batches that were stored before are kept.
    pub fn import_upload(
        self,
        file: NamedTempFile,
        name: &'a str,
        frames: &'a FrameSender,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ImportReport>> {
        journal::box_future(async move {
            let mut report = ImportReport::default();
            self.import_source(
                TranscriptSource::from_temp_file(file, name),
                &mut report,
                RunScope { frames, cancel },
            )
            .await?;
            Ok(report)
        })
    }

    /// Copies standard input into a temporary file of the home folder, which is removed with the source.
    async fn spool_standard_input(self) -> Result<TranscriptSource> {
        let name = "standard input";
        let home = self.agent.settings.home.root().to_owned();
        Ok(tokio::task::spawn_blocking(move || {
            TranscriptSource::from_reader(&mut std::io::stdin(), name, &home)
        })
        .await??)
    }

    /// Imports one path: standard input, a file, or a folder of files.
    async fn import_path(self, path: &Path, report: &mut ImportReport, scope: RunScope<'_>) -> Result<()> {
        if path.as_os_str() == "-" {
            let source = self.spool_standard_input().await?;
            return self.import_source(source, report, scope).await;
        }
        let source = TranscriptSource::from_file(path);
        match transcripts::detect_format(&source) {
            Err(transcripts::Error::Folder { .. }) => self.import_folder(path, report, scope).await,
            Ok(_) | Err(_) => self.import_source(source, report, scope).await,
        }
    }

    /// Searches this machine for sessions of other agents. Returns them newest first, with the titles of the
    /// newest `titled` ones, and the places that could not be searched.
    pub fn discover(self, titled: usize) -> (Vec<FoundSession>, Vec<SessionImportProblem>) {
        let discovery = discover_sessions(&self.session_locations());
        let sessions = discovery.sessions.into_iter().enumerate().map(|(index, session)| {
            let source = TranscriptSource::from_file(&session.path);
            let preview =
                if index < titled { discover::preview_session(&source, session.format).ok() } else { None };
            let preview = preview.unwrap_or_default();
            FoundSession {
                format: session.format.as_str().to_owned(),
                path: session.path,
                modified: session.modified,
                bytes: session.bytes,
                title: preview.title,
                workspace: preview.workspace,
            }
        });
        (sessions.collect(), discovery.problems.into_iter().map(SessionImportProblem::from).collect())
    }

    /// Returns the folders in which other agents store their sessions, considering their environment
    /// variables.
    fn session_locations(self) -> DiscoveryRoots {
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        DiscoveryRoots {
            home: etcetera::home_dir().unwrap_or_default(),
            current_folder: self.agent.settings.workspace.clone(),
            claude_config: folder("CLAUDE_CONFIG_DIR"),
            codex_home: folder("CODEX_HOME"),
            data_home: folder("XDG_DATA_HOME"),
        }
    }

    /// Imports all files below a folder. A damaged file is reported and does not stop the import of others.
    async fn import_folder(
        self,
        folder: &Path,
        report: &mut ImportReport,
        scope: RunScope<'_>,
    ) -> Result<()> {
        let (files, problems) = files_below(folder)?;
        report.problems.extend(problems);
        for path in files {
            match self.import_source(TranscriptSource::from_file(&path), report, scope).await {
                Ok(()) => {}
                Err(Error::Thread(ThreadError::Transcript(
                    transcripts::Error::Empty { .. }
                    | transcripts::Error::Binary { .. }
                    | transcripts::Error::Unrecognized { .. },
                ))) => report.skipped.push(path),
                Err(Error::Thread(ThreadError::Transcript(error))) => {
                    report.problems.push(SessionImportProblem {
                        path,
                        line: None,
                        reason: error.to_string(),
                    });
                }
                Err(error) => return Err(error),
            }
            if scope.cancel.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    /// Imports all conversations of one source.
    async fn import_source(
        self,
        source: TranscriptSource,
        report: &mut ImportReport,
        scope: RunScope<'_>,
    ) -> Result<()> {
        report.bytes += source.bytes();
        if self.agent.scratch_of.is_some() && report.bytes > scratch::SCRATCH_BYTES_MAX {
            let (path, bytes_max) = (source.display_name().to_owned(), scratch::SCRATCH_BYTES_MAX);
            return Err(ThreadError::TooLargeToPreview { path, bytes_max }.into());
        }
        SourceImport::new(self.agent, source, scope.cancel).run(report, scope).await
    }
}

/// Returns the files below `folder`, sorted by path, and the subfolders that cannot be listed. Symbolic links
/// to folders are not followed.
///
/// # Errors
/// Fails if `folder` itself cannot be listed.
fn files_below(folder: &Path) -> Result<(Vec<PathBuf>, Vec<SessionImportProblem>)> {
    let mut files = Vec::new();
    let mut problems = Vec::new();
    let mut folders = Vec::new();
    list_folder(folder, &mut files, &mut folders).map_err(|error| ThreadError::UnreadableInput {
        path: folder.to_owned(),
        reason: error.to_string(),
    })?;
    while let Some(path) = folders.pop() {
        if let Err(error) = list_folder(&path, &mut files, &mut folders) {
            let reason = format!("skipped the folder: {error}");
            problems.push(SessionImportProblem { path, line: None, reason });
        }
    }
    files.sort();
    Ok((files, problems))
}

/// Adds the entries of a folder to `files` and `folders`.
fn list_folder(folder: &Path, files: &mut Vec<PathBuf>, folders: &mut Vec<PathBuf>) -> std::io::Result<()> {
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
