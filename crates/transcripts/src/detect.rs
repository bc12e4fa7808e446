//! Detection of the agent that wrote a file, from the first bytes of the file. The file name is used only where the
//! content fits two formats. Nothing here reads entries.

use std::io::Read;
use std::path::Path;

use crate::detect::outline::JsonOutline;
use crate::error::Error;
use crate::formats::aider::SESSION_START;
use crate::source::TranscriptSource;

pub(crate) mod outline;

/// Length of the start of a file that detection reads, in bytes.
const HEAD_BYTES: u64 = 64 * 1024;

/// Length of the start of a file that is searched for zero bytes, in bytes. A zero byte there marks the file as binary.
const BINARY_BYTES: usize = 8 * 1024;

/// The first bytes of every SQLite 3 database.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The supported formats, as listed in the hint of [`Error::Unrecognized`].
pub(crate) const FORMAT_NAMES: &str = "Claude Code, Codex, OpenCode, pi, Gemini CLI, Copilot CLI, aider, OpenHands, \
     SWE-agent, OpenAI chat messages and LangGraph checkpoints";

/// First bytes of binary file types that users pass by mistake, with the description that the error shows.
const MAGIC_BYTES: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

/// Values of `type` in Claude Code records that have neither a parent nor a message. A log may begin with one of them.
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
    /// The format of a session file, named after the agent that writes it.
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
        /// Messages of OpenAI's chat completions API: a bare list, or the result files of tau-bench and tau2-bench.
        OpenAi = "openai",
        /// LangGraph checkpoints in a SQLite database.
        LangGraph = "langgraph",
    }
}

impl SessionFormat {
    /// Returns whether session ids of this format are globally unique. LangGraph thread ids such as `1` and benchmark
    /// task ids such as `0` are not.
    pub(crate) const fn session_ids_are_unique(self) -> bool {
        match self {
            Self::Claude | Self::Codex | Self::OpenCode | Self::Pi | Self::Gemini | Self::Copilot => true,
            Self::Aider | Self::OpenHands | Self::SweAgent | Self::OpenAi | Self::LangGraph => false,
        }
    }
}

/// Returns the format of `source`. Reads at most 64 KiB of it.
///
/// A folder is accepted only if it holds single OpenHands events.
///
/// # Errors
/// - [`Error::Missing`], [`Error::Empty`] or [`Error::Io`] if there is nothing to read or the read fails.
/// - [`Error::Folder`] for any other folder, [`Error::Binary`] for binary data that is not a SQLite database.
/// - [`Error::Unrecognized`] for text of no supported format.
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
        return Err(Error::Binary { path: path(), looks_like: "it contains zero bytes" });
    }
    let text = trim_head(&head);
    if text.is_empty() && (head.len() as u64) < HEAD_BYTES {
        return Err(Error::Empty { path: path() });
    }
    let format = match text.first() {
        Some(b'{') => object_format(&JsonOutline::from_bytes(text), &source.name()),
        Some(b'[') => list_format(&JsonOutline::from_bytes(text), &source.name()),
        _ => is_aider_history(text, &source.name()).then_some(SessionFormat::Aider),
    };
    format.ok_or_else(|| Error::Unrecognized { path: path(), looks_like: describe_content(text) })
}

/// Returns the first 64 KiB of `source`, or all of it if it is shorter.
pub(crate) fn read_head(source: &TranscriptSource) -> Result<Vec<u8>, Error> {
    let mut head = Vec::new();
    source.open()?.take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| source.io_error(error))?;
    Ok(head)
}

/// Returns `head` without a leading UTF-8 byte order mark and white space.
fn trim_head(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// Returns whether a folder holds OpenHands events. These are files named by number, beginning with 0 or 1.
fn is_event_folder(folder: &Path) -> bool {
    ["0.json", "1.json"].iter().any(|name| folder.join(name).is_file())
}

/// Returns the format of a file that starts with an object: one large object, or one record per line.
///
/// The order of the tests matters. Formats with distinctive members come first, because later tests accept names such
/// as `messages` that several formats use.
fn object_format(outline: &JsonOutline, name: &str) -> Option<SessionFormat> {
    let has = |key| outline.has_member(1, key);
    let of_type = |value| outline.has_value(1, "type", value);
    let first_type = outline.first_value(1, "type").unwrap_or_default();
    if of_type("session_meta") || (has("payload") && has("timestamp")) {
        Some(SessionFormat::Codex)
    } else if first_type == "session.start" || (has("data") && has("parentId") && first_type.contains('.')) {
        Some(SessionFormat::Copilot)
    } else if first_type == "session" {
        Some(SessionFormat::Pi)
    } else if has("projectHash") || has("$set") || has("$rewindTo") {
        Some(SessionFormat::Gemini)
    } else if (has("info") && outline.has_value_start(2, "id", "ses_"))
        || (has("projectID") && outline.has_value_start(1, "id", "ses_"))
    {
        Some(SessionFormat::OpenCode)
    } else if has("simulations") || outline.has_member(2, "environment_info") {
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
    } else if has("messages") && outline.has_member(3, "role") {
        Some(if is_trajectory(name) { SessionFormat::SweAgent } else { SessionFormat::OpenAi })
    } else {
        None
    }
}

/// Returns the format of a file that starts with an array. Members of its elements are at depth 2.
fn list_format(outline: &JsonOutline, name: &str) -> Option<SessionFormat> {
    let has = |key| outline.has_member(2, key);
    if has("traj") || (has("task_id") && has("reward")) {
        Some(SessionFormat::OpenAi)
    } else if has("role") {
        // SWE-agent and OpenAI clients both write a bare list of messages. The file name decides, because the role
        // `user` marks tool output in the former and the user's text in the latter.
        Some(if is_trajectory(name) { SessionFormat::SweAgent } else { SessionFormat::OpenAi })
    } else if has("action") || has("observation") {
        Some(SessionFormat::OpenHands)
    } else if has("messages") && outline.has_member(4, "role") {
        Some(SessionFormat::OpenAi)
    } else {
        None
    }
}

/// Returns whether a file name is that of a SWE-agent or mini-swe-agent trajectory.
fn is_trajectory(name: &str) -> bool {
    name.ends_with(".traj") || name.ends_with(".traj.json")
}

/// Returns whether a text is a chat history of aider: a line starts a session, or the file has aider's file name.
fn is_aider_history(text: &[u8], name: &str) -> bool {
    text.split(|byte| *byte == b'\n').any(|line| line.starts_with(SESSION_START.as_bytes()))
        || name.ends_with(".aider.chat.history.md")
}

/// Returns a description of a text in no supported format, for the error message.
fn describe_content(text: &[u8]) -> &'static str {
    match text.first() {
        Some(b'<') => "an HTML or XML page",
        Some(b'{' | b'[') => "JSON of another program",
        Some(_) => "plain text",
        None => "white space",
    }
}
