//! The paths that commands name: which of them are files of the work, and how a folder is put before them. The file system
//! is not consulted.

use crate::calls::files::same_file::is_absolute;
use crate::tool_use::normalize_path;

/// Returns whether a written path is a file of the work: not temporary, not a device, not a log, a plain name with an
/// extension.
pub(super) fn is_persistent_file(path: &str) -> bool {
    !is_temporary_file(path)
        && is_plain_path(path)
        && path.rsplit('/').next().is_some_and(|name| name.contains('.') && !matches!(name, "." | ".."))
}

/// Returns whether a path is temporary, a device or a log.
pub(crate) fn is_temporary_file(path: &str) -> bool {
    path.starts_with("/tmp/") || path.starts_with("/dev/") || path.ends_with(".log")
}

/// Returns whether a text has only characters of plain paths, and is no pattern or variable.
pub(super) fn is_plain_path(path: &str) -> bool {
    !path.is_empty()
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'-' | b'_' | b'~'))
}

/// Returns the normalized path of a file or folder that is named relative to `folder`. Without a folder, the name stays as
/// it is.
pub(crate) fn join_path(folder: &str, path: &str) -> String {
    let path = normalize_path(path);
    if folder.is_empty() || is_absolute(&path) || path.starts_with('~') {
        return path;
    }
    resolve_path(folder, &path)
}

/// Returns the path of `path` relative to `folder`, without a final slash and with `.` and `..` resolved as far as possible.
pub(super) fn resolve_path(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let is_rooted = is_absolute(path) || path.starts_with('~');
    let folder = if is_rooted { "" } else { folder };
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if folder.starts_with('/') || path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}
