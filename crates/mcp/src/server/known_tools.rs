//! The cache of a server's tools in the project's folder, so that the first request of a process need not wait for the
//! server to start. The cache is valid for one configuration of the server only.

use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tool::listed_tool::ListedTool;

/// Maximum size of the cache file in bytes, for reading and writing.
const KNOWN_TOOLS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The tools that a server listed last.
#[derive(Serialize, Deserialize)]
pub(super) struct KnownTools {
    /// Lowercase hex SHA-256 of the server's configuration and tool selection.
    pub sha256: String,
    /// The usable tools.
    pub tools: Vec<ListedTool>,
    /// Notices for the user about tools that are not usable.
    pub notices: Vec<String>,
}

/// Reads the cache. Returns `None` if it is missing, unreadable, or belongs to another configuration than `sha256`.
pub(super) fn read_known_tools(path: &Path, sha256: &str) -> Option<KnownTools> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(KNOWN_TOOLS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let known: KnownTools = serde_json::from_slice(&bytes).ok()?;
    (known.sha256 == sha256).then_some(known)
}

/// Writes the cache atomically. Errors are ignored, because a missing cache only makes the next start slower.
pub(super) fn write_known_tools(path: &Path, known: &KnownTools) {
    let Ok(bytes) = serde_json::to_vec(known) else { return };
    let Some(folder) = path.parent() else { return };
    if bytes.len() as u64 > KNOWN_TOOLS_BYTES_MAX {
        return;
    }
    if let Ok(mut file) = tempfile::NamedTempFile::new_in(folder)
        && file.write_all(&bytes).is_ok()
    {
        let _ = file.persist(path);
    }
}
