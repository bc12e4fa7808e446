//! The install token: a secret in a file that only the person at the machine can read. Whoever shows it is that person.
//! It is kept as it is, because the file is how a person gets at it; the keys of users are kept as hashes only.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::{Error, Result};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The install token.
#[derive(Clone)]
pub struct Token(SecretString);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads the token in the file; makes one, for its owner's eyes only, when there is none.
    ///
    /// # Errors
    /// [`Error::Token`] when the file cannot be read or made, when others may read it, or when it holds no token.
    pub fn at(path: &Path) -> Result<Self> {
        let refused = |reason: String| Error::Token { path: path.to_owned(), reason };
        match fs::symlink_metadata(path) {
            Ok(found) => private(path, &found).map_err(refused)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(path).map_err(|error| refused(error.to_string()))?;
            }
            Err(error) => return Err(refused(error.to_string())),
        }
        let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
        let token = text.trim();
        let is_token = token.len() == 2 * TOKEN_BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_token {
            true => Ok(Self(token.into())),
            false => Err(refused("it holds no token".to_owned())),
        }
    }

    /// Returns the token itself, to be shown to the person at the machine.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Returns whether that is the token. It takes the same time wherever they differ.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.expose().as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// Checks that nobody else can have read or placed the file.
#[cfg(unix)]
fn private(path: &Path, found: &fs::Metadata) -> std::result::Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        return Err(format!("others may read it (its mode is {:o})", found.mode() & 0o777));
    }
    let folder = path.parent().and_then(|folder| fs::metadata(folder).ok());
    match folder.is_some_and(|folder| folder.uid() != found.uid()) {
        true => Err("it belongs to somebody else".to_owned()),
        false => Ok(()),
    }
}

#[cfg(not(unix))]
fn private(_: &Path, found: &fs::Metadata) -> std::result::Result<(), String> {
    if found.is_file() { Ok(()) } else { Err("it is no file".to_owned()) }
}

/// Makes a token. It is there as a whole or not at all, and of two processes that make one the first wins.
fn make(path: &Path) -> io::Result<()> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let text = protocol::hex(&bytes);
    let draft = path.with_extension(std::process::id().to_string());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = writeln!(file, "{text}").and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    fs::remove_file(&draft)?;
    linked
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn k2_the_token_is_made_once_and_only_its_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::at(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(token.expose().len(), 64);
        let again = Token::at(&path).unwrap();
        assert!(again.is(token.expose()) && !again.is("") && !again.is(&"0".repeat(64)));
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn k6_a_token_that_others_can_read_or_place_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::at(&path).unwrap();
        let refused = |reason: &str| {
            let text = Token::at(&path).unwrap_err().to_string();
            assert!(text.contains(reason) && !text.contains(token.expose()), "{text}");
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        refused("others may read it (its mode is 644)");
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        refused("it is no file");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        refused("it holds no token");
    }
}
