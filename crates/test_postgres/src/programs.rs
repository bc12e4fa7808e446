//! Finds PostgreSQL's programs and runs them, as an unprivileged user if the test runs as root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// The folder in which Debian and its derivatives install the programs of each version.
const DEBIAN_FOLDER: &str = "/usr/lib/postgresql";
/// The users that the programs can run as when a test runs as root, which they refuse. The first that exists is used.
const UNPRIVILEGED_USERS: [&str; 2] = ["postgres", "nobody"];

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemUser {
    pub uid: u32,
    pub gid: u32,
}

/// The programs of one version of PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresPrograms {
    folder: PathBuf,
    /// The user that the programs run as; `None` for the user of the test.
    pub user: Option<SystemUser>,
}

impl PostgresPrograms {
    /// Finds the programs in PATH, else the newest version that Debian has installed.
    ///
    /// # Errors
    /// If PostgreSQL or `flock` is not installed, or the test runs as root and there is no unprivileged user.
    pub fn find() -> Result<Self, Error> {
        let missing = Error::ProgramMissing {
            program: "initdb",
            package: "PostgreSQL 15 or later (Debian: postgresql)",
        };
        let folder = find_in_path("initdb").or_else(find_newest_debian).ok_or(missing)?;
        find_in_path("flock").ok_or(Error::ProgramMissing { program: "flock", package: "util-linux" })?;
        let user = match rustix::process::geteuid().is_root() {
            false => None,
            true => Some(find_unprivileged_user().ok_or(Error::NoUnprivilegedUser)?),
        };
        Ok(Self { folder, user })
    }

    /// Runs one of the programs in a folder, as the owner of the server. The program gets no `PG…` variables, which could
    /// point it to another server.
    pub fn run_program<A: AsRef<OsStr>>(
        &self,
        program: &str,
        folder: &Path,
        args: &[A],
    ) -> Result<(), Error> {
        let path = self.folder.join(program);
        let mut command = Command::new(if path.exists() { path.as_os_str() } else { program.as_ref() });
        command.args(args).current_dir(folder).env("LC_ALL", "C");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        run_command(command)
    }
}

/// Runs a command and waits for its end.
///
/// # Errors
/// If it cannot be started or fails, with its standard error.
pub fn run_command(mut command: Command) -> Result<(), Error> {
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Error::Program { program: command.get_program().to_string_lossy().into_owned(), output })
}

/// Returns the folder of a program in PATH. Symbolic links are resolved, so that the folder has the other programs too.
fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let file = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())?;
    Some(fs::canonicalize(file).ok()?.parent()?.to_owned())
}

/// Returns the folder with the programs of the newest version that Debian has installed.
fn find_newest_debian() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN_FOLDER).ok()?.flatten();
    let numbered = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let folder = entry.path().join("bin");
        folder.join("initdb").is_file().then_some((version, folder))
    });
    numbered.max().map(|(_, folder)| folder)
}

/// Returns the first of [`UNPRIVILEGED_USERS`] that exists.
fn find_unprivileged_user() -> Option<SystemUser> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    UNPRIVILEGED_USERS.iter().find_map(|name| parse_user(&users, name))
}

/// Returns the user and group numbers of a user in the text of `/etc/passwd`.
fn parse_user(users: &str, name: &str) -> Option<SystemUser> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some(SystemUser { uid: numbers.next()?.parse().ok()?, gid: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let users =
            "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:\npostgres:x:101:104:,,,:/var:/bin/bash\n";
        assert_eq!(parse_user(users, "postgres"), Some(SystemUser { uid: 101, gid: 104 }));
        assert_eq!(parse_user(users, "nobody"), None);
    }
}
