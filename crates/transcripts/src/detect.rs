//! Which agent wrote a file, decided from its first bytes. The name of the file decides only where the content leaves
//! two readings open.

use std::io::Read;
use std::path::Path;

use crate::detect::outline::JsonOutline;
use crate::error::Error;
use crate::formats::aider::SESSION_START;
use crate::source::TranscriptSource;

pub(crate) mod outline;

/// How much of a file is looked at.
const HEAD_BYTES: u64 = 64 * 1024;

/// How far into a file a zero byte shows that it is not text.
const BINARY_BYTES: usize = 8 * 1024;

/// The first bytes of every SQLite 3 database.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The formats as an error names them.
pub(crate) const FORMAT_NAMES: &str = "Claude Code, Codex, OpenCode, pi, Gemini CLI, Copilot CLI, aider, OpenHands, \
     SWE-agent, OpenAI chat messages and LangGraph checkpoints";

/// First bytes of files that people take for session files.
const MAGIC_BYTES: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// Types of Claude Code records that carry neither a parent nor a message.
const CLAUDE_TYPES: [&str; 8] = [
    "file-history-snapshot",
    "queue-operation",
    "permission-mode",
    "last-prompt",
    "pr-link",
    "custom-title",
    "agent-name",
    "summary",
];

protocol::named_enum! {
    /// The agent whose session files have this form.
    pub enum SessionFormat {
        /// Claude Code.
        Claude = "claude",
        /// Codex CLI.
        Codex = "codex",
        /// OpenCode.
        OpenCode = "opencode",
        /// pi.
        Pi = "pi",
        /// Gemini CLI.
        Gemini = "gemini",
        /// GitHub Copilot CLI.
        Copilot = "copilot",
        /// aider.
        Aider = "aider",
        /// OpenHands.
        OpenHands = "openhands",
        /// SWE-agent and mini-swe-agent.
        SweAgent = "sweagent",
        /// Messages of OpenAI's chat completions, bare or in result files of tau-bench and tau2-bench.
        OpenAi = "openai",
        /// LangGraph checkpoints in SQLite.
        LangGraph = "langgraph",
    }
}

impl SessionFormat {
    /// Returns whether two sessions of this format never share an id; LangGraph's `1` and a benchmark's `0` do.
    pub(crate) const fn session_ids_are_unique(self) -> bool {
        match self {
            Self::Claude | Self::Codex | Self::OpenCode | Self::Pi | Self::Gemini | Self::Copilot => true,
            Self::Aider | Self::OpenHands | Self::SweAgent | Self::OpenAi | Self::LangGraph => false,
        }
    }
}

/// Returns the format of `source`.
///
/// # Errors
/// [`Error::Missing`], [`Error::Empty`], [`Error::Folder`], [`Error::Binary`] or [`Error::Unrecognized`], each naming
/// the source; [`Error::Io`] when it cannot be read.
pub fn detect_format(source: &TranscriptSource) -> Result<SessionFormat, Error> {
    let path = || source.display_name().to_owned();
    if source.path().is_dir() {
        return if is_event_folder(source.path()) {
            Ok(SessionFormat::OpenHands)
        } else {
            Err(Error::Folder { path: path() })
        };
    }
    let head = read_head(source)?;
    if head.starts_with(SQLITE_MAGIC) {
        return Ok(SessionFormat::LangGraph);
    }
    if let Some((_, looks_like)) = MAGIC_BYTES.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Error::Binary { path: path(), looks_like });
    }
    if head[..head.len().min(BINARY_BYTES)].contains(&0) {
        return Err(Error::Binary { path: path(), looks_like: "it holds zero bytes" });
    }
    let text = trim_head(&head);
    if text.is_empty() && (head.len() as u64) < HEAD_BYTES {
        return Err(Error::Empty { path: path() });
    }
    let found = match text.first() {
        Some(b'{') => object_format(&JsonOutline::from_bytes(text), &source.name()),
        Some(b'[') => list_format(&JsonOutline::from_bytes(text), &source.name()),
        _ => is_aider_history(text, &source.name()).then_some(SessionFormat::Aider),
    };
    found.ok_or_else(|| Error::Unrecognized { path: path(), looks_like: describe_content(text) })
}

/// Returns the first bytes of `source`.
pub(crate) fn read_head(source: &TranscriptSource) -> Result<Vec<u8>, Error> {
    let mut head = Vec::new();
    source.open()?.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| source.io_error(error))?;
    Ok(head)
}

/// Returns `head` without byte order mark and white space at its start.
fn trim_head(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// Returns whether a folder holds OpenHands events: files named by number.
fn is_event_folder(folder: &Path) -> bool {
    ["0.json", "1.json"].iter().any(|name| folder.join(name).is_file())
}

/// Returns the format of a file that starts with an object: one large object, or one record per line.
fn object_format(shape: &JsonOutline, name: &str) -> Option<SessionFormat> {
    let has = |key| shape.has_member(1, key);
    let of_type = |value| shape.has_value(1, "type", value);
    let first_type = shape.first_value(1, "type").unwrap_or_default();
    if of_type("session_meta") || (has("payload") && has("timestamp")) {
        Some(SessionFormat::Codex)
    } else if first_type == "session.start" || (has("data") && has("parentId") && first_type.contains('.')) {
        Some(SessionFormat::Copilot)
    } else if first_type == "session" {
        Some(SessionFormat::Pi)
    } else if has("projectHash") || has("$set") || has("$rewindTo") {
        Some(SessionFormat::Gemini)
    } else if (has("info") && shape.has_value_start(2, "id", "ses_"))
        || (has("projectID") && shape.has_value_start(1, "id", "ses_"))
    {
        Some(SessionFormat::OpenCode)
    } else if has("simulations") || shape.has_member(2, "environment_info") {
        Some(SessionFormat::OpenAi)
    } else if has("parentUuid")
        || has("leafUuid")
        || has("isSidechain")
        || (has("sessionId") && has("message"))
        || CLAUDE_TYPES.iter().any(|value| of_type(value))
    {
        Some(SessionFormat::Claude)
    } else if has("trajectory") || has("trajectory_format") || (has("history") && has("environment")) {
        Some(SessionFormat::SweAgent)
    } else if has("instance_id")
        || (has("issue") && (has("history") || has("instruction")))
        || ((has("action") || has("observation")) && (has("source") || has("args") || has("extras")))
    {
        Some(SessionFormat::OpenHands)
    } else if has("messages") && shape.has_member(3, "role") {
        Some(if is_trajectory(name) { SessionFormat::SweAgent } else { SessionFormat::OpenAi })
    } else {
        None
    }
}

/// Returns the format of a file that starts with a list.
fn list_format(shape: &JsonOutline, name: &str) -> Option<SessionFormat> {
    let has = |key| shape.has_member(2, key);
    if has("traj") || (has("task_id") && has("reward")) {
        Some(SessionFormat::OpenAi)
    } else if has("role") {
        // Both write a bare list of messages; only the name tells whose words the user's are.
        Some(if is_trajectory(name) { SessionFormat::SweAgent } else { SessionFormat::OpenAi })
    } else if has("action") || has("observation") {
        Some(SessionFormat::OpenHands)
    } else if has("messages") && shape.has_member(4, "role") {
        Some(SessionFormat::OpenAi)
    } else {
        None
    }
}

fn is_trajectory(name: &str) -> bool {
    name.ends_with(".traj") || name.ends_with(".traj.json")
}

/// Returns whether a text is aider's history: a session starts in it, or it has the history's own name.
fn is_aider_history(text: &[u8], name: &str) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.starts_with(SESSION_START.as_bytes()))
        || name.ends_with(".aider.chat.history.md")
}

/// Returns what a text that no reader takes seems to be.
fn describe_content(text: &[u8]) -> &'static str {
    match text.first() {
        Some(b'<') => "an HTML or XML page",
        Some(b'{' | b'[') => "JSON of another program",
        Some(_) => "plain text",
        None => "white space",
    }
}
