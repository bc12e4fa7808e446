//! The tools a server had when it was last asked, kept in the project's folder, so that a first request need not wait
//! for a server to start. A server that is described otherwise is another server.

use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tool::listed_tool::ListedTool;

/// The most bytes that are kept and read.
const KNOWN_TOOLS_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The tools of a server as they were listed last.
#[derive(Serialize, Deserialize)]
pub(super) struct KnownTools {
    /// The hash of its description.
    pub sha256: String,
    /// The tools that models are told of.
    pub tools: Vec<ListedTool>,
    /// Notices for the person about tools that are not usable.
    pub notices: Vec<String>,
}

/// Returns what is known of the server described by `sha256`.
pub(super) fn read_known_tools(path: &Path, sha256: &str) -> Option<KnownTools> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(KNOWN_TOOLS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let known: KnownTools = serde_json::from_slice(&bytes).ok()?;
    (known.sha256 == sha256).then_some(known)
}

/// Keeps what is known. A failure costs the next start some time and nothing else.
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
