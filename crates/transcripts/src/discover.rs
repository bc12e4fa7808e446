//! Discovery of session files in the default folders of the agents that are installed on this machine. Discovery lists
//! files without opening them. [`preview_session`] reads the start of one file. Nothing here imports a session.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::conversation::{ConversationInfo, TranscriptProblem, TranscriptSink};
use crate::detect::SessionFormat;
use crate::entry::TranscriptEntry;
use crate::error::{Error, SinkError};
use crate::source::TranscriptSource;

/// Maximum length of a title taken from the first text of a session, in characters.
const TITLE_CHARS_MAX: usize = 100;

/// Number of entries that a preview reads at most while it looks for a text of the user.
const PEEK_ENTRIES_MAX: usize = 200;

/// The folders from which the default locations of sessions follow. The caller reads them from the environment.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryRoots {
    /// The user's home folder.
    pub home: PathBuf,
    /// The current working folder, in which aider keeps its history.
    pub current_folder: PathBuf,
    /// The value of `CLAUDE_CONFIG_DIR`; `~/.claude` if not set.
    pub claude_config: Option<PathBuf>,
    /// The value of `CODEX_HOME`; `~/.codex` if not set.
    pub codex_home: Option<PathBuf>,
    /// The value of `XDG_DATA_HOME`; `~/.local/share` if not set.
    pub data_home: Option<PathBuf>,
}

/// A session file that discovery listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredSession {
    /// The format of the agent that uses the file's folder. The content is not checked.
    pub format: SessionFormat,
    /// The path of the file.
    pub path: PathBuf,
    /// The time of the last modification; `None` if the file system does not report it.
    pub modified: Option<Timestamp>,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The sessions that discovery listed, and the folders that could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryReport {
    /// The session files, newest first.
    pub sessions: Vec<DiscoveredSession>,
    /// The folders that could not be read.
    pub problems: Vec<TranscriptProblem>,
}

/// The metadata at the start of a session file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionPreview {
    /// The session's own title, else the first line of the first text that the user wrote, cut to 100 characters.
    pub title: Option<String>,
    /// The working folder of the session.
    pub workspace: Option<String>,
}

/// A folder in which one agent keeps its sessions.
struct SearchRoot {
    /// The format of the sessions.
    format: SessionFormat,
    /// The folder. It may be missing.
    root: PathBuf,
    /// Number of folder levels that are searched; 1 is the root without its subfolders.
    levels: usize,
    /// Returns whether a path has the file name of a session.
    is_session: fn(&Path) -> bool,
}

/// Lists the sessions below `roots`, newest first.
///
/// Missing folders are ignored, because few machines have every agent. Unreadable folders are reported as problems. The
/// call blocks on the file system; the depth of the search is limited for each agent.
pub fn discover_sessions(roots: &DiscoveryRoots) -> DiscoveryReport {
    let mut discovery = DiscoveryReport::default();
    for search in search_roots(roots) {
        list_sessions(&search, &search.root, search.levels, &mut discovery);
    }
    discovery.sessions.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
    discovery
}

/// Reads the start of a session file and returns its title and working folder.
///
/// Reading stops at the first conversation with a title, at the first text of the user, or after 200 entries.
///
/// # Errors
/// [`Error::Missing`], [`Error::Folder`], [`Error::Io`] or [`Error::Database`] if the file cannot be read.
pub fn preview_session(source: &TranscriptSource, format: SessionFormat) -> Result<SessionPreview, Error> {
    let mut sink = PreviewSink::default();
    match crate::read_conversations(source, format, &mut sink) {
        // The sink returns an error to stop the reader when the preview is complete.
        Ok(_) | Err(Error::Sink(_)) => Ok(sink.preview),
        Err(error) => Err(error),
    }
}

/// Returns the folder in which each agent keeps its sessions by default. OpenHands, SWE-agent and OpenAI message files
/// have no default folder.
fn search_roots(roots: &DiscoveryRoots) -> Vec<SearchRoot> {
    let home = |path: &str| roots.home.join(path);
    let claude = roots.claude_config.clone().unwrap_or_else(|| home(".claude"));
    let codex = roots.codex_home.clone().unwrap_or_else(|| home(".codex"));
    let data = roots.data_home.clone().unwrap_or_else(|| home(".local/share"));
    let search = |format, root, levels, is_session| SearchRoot { format, root, levels, is_session };
    vec![
        search(SessionFormat::Claude, claude.join("projects"), 2, is_jsonl),
        search(SessionFormat::Codex, codex.join("sessions"), 4, is_jsonl),
        search(SessionFormat::OpenCode, data.join("opencode/storage/session"), 2, |path| {
            has_name_prefix(path, "ses_") && has_extension(path, "json")
        }),
        search(SessionFormat::Pi, home(".pi/agent/sessions"), 2, is_jsonl),
        search(SessionFormat::Gemini, home(".gemini/tmp"), 3, |path| {
            has_name_prefix(path, "session-") && (has_extension(path, "json") || is_jsonl(path))
        }),
        search(SessionFormat::Copilot, home(".copilot/session-state"), 2, is_jsonl),
        search(SessionFormat::Aider, roots.current_folder.clone(), 1, |path| {
            path.ends_with(".aider.chat.history.md")
        }),
        search(SessionFormat::LangGraph, home(".deepagents"), 1, |path| path.ends_with("sessions.db")),
    ]
}

fn is_jsonl(path: &Path) -> bool {
    has_extension(path, "jsonl")
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|actual| actual == extension)
}

fn has_name_prefix(path: &Path, prefix: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
}

/// Adds the session files in `folder` and in up to `levels - 1` levels of subfolders. Symbolic links are not followed,
/// and empty files are left out.
fn list_sessions(search: &SearchRoot, folder: &Path, levels: usize, discovery: &mut DiscoveryReport) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            let reason = format!("skipped the folder: {error}");
            discovery.problems.push(TranscriptProblem { path: folder.to_owned(), line: None, reason });
            return;
        }
    };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let path = entry.path();
        if metadata.is_dir() && levels > 1 {
            list_sessions(search, &path, levels - 1, discovery);
        } else if metadata.is_file() && metadata.len() > 0 && (search.is_session)(&path) {
            let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
            discovery.sessions.push(DiscoveredSession {
                format: search.format,
                path,
                modified,
                bytes: metadata.len(),
            });
        }
    }
}

/// A sink that collects a preview and then stops the reader with [`PreviewComplete`].
#[derive(Default)]
struct PreviewSink {
    preview: SessionPreview,
    /// Number of entries received so far.
    entries: usize,
}

/// The error with which a [`PreviewSink`] stops the reader. It never reaches a caller of this crate.
#[derive(Debug, thiserror::Error)]
#[error("read more entries: the preview is complete")]
struct PreviewComplete;

impl TranscriptSink for PreviewSink {
    fn begin_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.preview =
            SessionPreview { title: conversation.title.clone(), workspace: conversation.workspace.clone() };
        if self.preview.title.is_some() { Err(PreviewComplete.into()) } else { Ok(()) }
    }

    fn push_entry(&mut self, entry: TranscriptEntry) -> Result<(), SinkError> {
        self.entries += 1;
        if let Some(line) =
            entry.human_text().and_then(|text| text.lines().find(|line| !line.trim().is_empty()))
        {
            self.preview.title = Some(line.trim().chars().take(TITLE_CHARS_MAX).collect());
            return Err(PreviewComplete.into());
        }
        if self.entries >= PEEK_ENTRIES_MAX { Err(PreviewComplete.into()) } else { Ok(()) }
    }

    fn end_conversation(&mut self, conversation: &ConversationInfo) -> Result<(), SinkError> {
        self.preview.title = self.preview.title.take().or_else(|| conversation.title.clone());
        Err(PreviewComplete.into())
    }

    fn report_problem(&mut self, _: TranscriptProblem) {}

    fn report_progress(&mut self, _: u64) {}
}
