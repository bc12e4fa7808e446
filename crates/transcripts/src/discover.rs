//! Finds the sessions of agents installed on this machine in their usual places. It lists files and looks into one only
//! when asked for its title; it imports nothing.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::conversation::{ConversationInfo, TranscriptProblem, TranscriptSink};
use crate::detect::SessionFormat;
use crate::entry::TranscriptEntry;
use crate::error::{Error, SinkError};
use crate::source::TranscriptSource;

/// The longest title that is made from a first text, in characters.
const TITLE_CHARS_MAX: usize = 100;

/// After how many entries without a person's text a file has no title.
const PEEK_ENTRIES_MAX: usize = 200;

/// Where agents may have put their sessions.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryRoots {
    /// The user's home folder.
    pub home: PathBuf,
    /// The folder the user works in.
    pub current_folder: PathBuf,
    /// `CLAUDE_CONFIG_DIR`, when set.
    pub claude_config: Option<PathBuf>,
    /// `CODEX_HOME`, when set.
    pub codex_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`, when set.
    pub data_home: Option<PathBuf>,
}

/// A session file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredSession {
    /// The agent it belongs to.
    pub format: SessionFormat,
    /// The file.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Its size.
    pub bytes: u64,
}

/// The sessions that were found, and the folders that could not be read.
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
    /// The session's title, else the start of the first text of a person.
    pub title: Option<String>,
    /// The folder it worked in.
    pub workspace: Option<String>,
}

/// A place to look in.
struct SearchRoot {
    format: SessionFormat,
    root: PathBuf,
    /// How many levels below the root the files may lie; 1 is the root itself.
    levels: usize,
    is_session: fn(&Path) -> bool,
}

/// Lists the sessions in `places`, newest first. Missing folders are normal; unreadable ones are reported.
pub fn discover_sessions(places: &DiscoveryRoots) -> DiscoveryReport {
    let mut discovery = DiscoveryReport::default();
    for place in search_roots(places) {
        list_sessions(&place, &place.root, place.levels, &mut discovery);
    }
    discovery.sessions.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
    discovery
}

/// Reads the start of a session file, up to the first text of a person.
///
/// # Errors
/// When the file cannot be read.
pub fn preview_session(source: &TranscriptSource, format: SessionFormat) -> Result<SessionPreview, Error> {
    let mut glance = PreviewSink::default();
    match crate::read_conversations(source, format, &mut glance) {
        // The glance itself stops the reading when it has seen enough.
        Ok(_) | Err(Error::Sink(_)) => Ok(glance.preview),
        Err(error) => Err(error),
    }
}

/// Returns the usual places.
fn search_roots(places: &DiscoveryRoots) -> Vec<SearchRoot> {
    let home = |path: &str| places.home.join(path);
    let claude = places.claude_config.clone().unwrap_or_else(|| home(".claude"));
    let codex = places.codex_home.clone().unwrap_or_else(|| home(".codex"));
    let data = places.data_home.clone().unwrap_or_else(|| home(".local/share"));
    let place = |format, root, levels, is_session| SearchRoot { format, root, levels, is_session };
    vec![
        place(SessionFormat::Claude, claude.join("projects"), 2, is_jsonl),
        place(SessionFormat::Codex, codex.join("sessions"), 4, is_jsonl),
        place(SessionFormat::OpenCode, data.join("opencode/storage/session"), 2, |path| {
            has_name_prefix(path, "ses_") && has_extension(path, "json")
        }),
        place(SessionFormat::Pi, home(".pi/agent/sessions"), 2, is_jsonl),
        place(SessionFormat::Gemini, home(".gemini/tmp"), 3, |path| {
            has_name_prefix(path, "session-") && (has_extension(path, "json") || is_jsonl(path))
        }),
        place(SessionFormat::Copilot, home(".copilot/session-state"), 2, is_jsonl),
        place(SessionFormat::Aider, places.current_folder.clone(), 1, |path| {
            path.ends_with(".aider.chat.history.md")
        }),
        place(SessionFormat::LangGraph, home(".deepagents"), 1, |path| path.ends_with("sessions.db")),
    ]
}

fn is_jsonl(path: &Path) -> bool {
    has_extension(path, "jsonl")
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn has_name_prefix(path: &Path, start: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(start))
}

/// Adds the session files in `folder` and, while `levels` last, in the folders below it. Links are not followed.
fn list_sessions(place: &SearchRoot, folder: &Path, levels: usize, discovery: &mut DiscoveryReport) {
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
            list_sessions(place, &path, levels - 1, discovery);
        } else if metadata.is_file() && metadata.len() > 0 && (place.is_session)(&path) {
            let modified = metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
            discovery.sessions.push(DiscoveredSession {
                format: place.format,
                path,
                modified,
                bytes: metadata.len(),
            });
        }
    }
}

/// Takes what a title needs, then stops the reading.
#[derive(Default)]
struct PreviewSink {
    preview: SessionPreview,
    entries: usize,
}

/// Why a glance stops the reading.
#[derive(Debug, thiserror::Error)]
#[error("read on: enough was seen")]
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
