//! The lookup of a server's program, without starting it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use secrecy::ExposeSecret;

use crate::config::plan::{ServerDefinition, ServerTransport};

impl ServerDefinition {
    /// Returns the server's command if no such program exists: for a path, no file; for a name, no executable file in a
    /// folder of `PATH`. Returns `None` if the program exists, and for a server that is reached by HTTP.
    ///
    /// The rules are those of a start: a path is relative to the server's folder, and a `PATH` in the server's
    /// variables replaces that of this process. Reads file metadata once for each folder of `PATH`.
    pub fn missing_command(&self, workspace: &Path) -> Option<&str> {
        let ServerTransport::Program { command, env, cwd, .. } = &self.transport else { return None };
        let path = Path::new(command);
        let exists = if path.components().count() > 1 {
            let folder = cwd.as_ref().map_or_else(|| workspace.to_owned(), |cwd| workspace.join(cwd));
            is_executable(&folder.join(path))
        } else {
            let own = env.get("PATH").map(|value| OsString::from(value.expose_secret()));
            let folders = own.or_else(|| env::var_os("PATH")).unwrap_or_default();
            env::split_paths(&folders).any(|folder| is_executable(&folder.join(path)))
        };
        (!exists).then_some(command.as_str())
    }
}

/// Returns whether the path is a file that may be executed.
#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns whether the path, with or without an extension of programs, is a file.
#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    let is_file = |path: &Path| fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    is_file(path)
        || ["exe", "com", "bat", "cmd"].iter().any(|extension| is_file(&path.with_added_extension(extension)))
}
