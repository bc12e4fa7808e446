//! The install token: a secret in a file that only the local operator can read. Anyone who holds it acts as the local
//! operator. It is stored as plain text, because the operator copies it from the file; keys of users are stored as
//! hashes only.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::{Error, Result};

/// Number of random bytes in a token. Its text has two hex digits for each byte.
const TOKEN_BYTES: usize = 32;

/// The install token. `Debug` does not show it.
#[derive(Clone)]
pub struct InstallToken(SecretString);

impl fmt::Debug for InstallToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl InstallToken {
    /// Reads the token from the file. If there is no file, creates one with a new token that only its owner may read.
    ///
    /// # Errors
    /// [`Error::Token`] if the file cannot be read or created, if other users may read it, or if it holds no token.
    pub fn load_or_create(path: &Path) -> Result<Self> {
        let token_error = |reason: String| Error::Token { path: path.to_owned(), reason };
        match fs::symlink_metadata(path) {
            Ok(metadata) => check_private(path, &metadata).map_err(token_error)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_token_file(path).map_err(|error| token_error(error.to_string()))?;
            }
            Err(error) => return Err(token_error(error.to_string())),
        }
        let text = fs::read_to_string(path).map_err(|error| token_error(error.to_string()))?;
        let token = text.trim();
        let is_token = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_token {
            true => Ok(Self(token.into())),
            false => Err(token_error("it does not hold a token".to_owned())),
        }
    }

    /// Returns the token as text, to show it to the local operator.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns whether `candidate` is the token. The comparison takes constant time, so that its duration does not
    /// reveal a matching prefix.
    pub(crate) fn matches(&self, candidate: &str) -> bool {
        self.expose().as_bytes().ct_eq(candidate.as_bytes()).into()
    }
}

/// Checks that no other user of the machine can have read or created the file. Returns the reason if the check fails.
#[cfg(unix)]
fn check_private(path: &Path, metadata: &fs::Metadata) -> std::result::Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("other users may access it (its mode is {:o})", metadata.mode() & 0o777));
    }
    let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
    match folder.is_some_and(|folder| folder.uid() != metadata.uid()) {
        true => Err("its owner is not the owner of its folder".to_owned()),
        false => Ok(()),
    }
}

/// Checks that the path is a regular file.
#[cfg(not(unix))]
fn check_private(_: &Path, metadata: &fs::Metadata) -> std::result::Result<(), String> {
    if metadata.is_file() { Ok(()) } else { Err("it is not a regular file".to_owned()) }
}

/// Creates a token file atomically: writes a temporary file and links it under the final name. If two processes create
/// the file at the same time, the first one wins, and both read the same token afterwards.
fn create_token_file(path: &Path) -> io::Result<()> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let text = protocol::hex(&bytes);
    let temporary = path.with_extension(std::process::id().to_string());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&temporary)?;
    linked
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn k2_the_token_is_created_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = InstallToken::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(token.expose().len(), 64);
        let again = InstallToken::load_or_create(&path).unwrap();
        assert!(again.matches(token.expose()) && !again.matches("") && !again.matches(&"0".repeat(64)));
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn k6_a_token_that_others_can_read_or_create_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = InstallToken::load_or_create(&path).unwrap();
        let assert_refused = |reason: &str| {
            let text = InstallToken::load_or_create(&path).unwrap_err().to_string();
            assert!(text.contains(reason) && !text.contains(token.expose()), "{text}");
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_refused("other users may access it (its mode is 644)");
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        assert_refused("it is not a regular file");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_refused("it does not hold a token");
    }
}
