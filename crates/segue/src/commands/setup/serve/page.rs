//! The way to the page: its address, and a browser that is told to open it. The token is in the fragment of the address, which
//! browsers send to nobody; it is told to a person alone, never to a file or in the arguments of a program that others may
//! read.

use std::io::{self, IsTerminal, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use http::Auth;
use terminal::Screen;

/// Opens an address in the browser of the person at the machine.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The name of the document that leads a browser to the page.
const LEADING: &str = "open.html";

/// What is told of the page's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// The token, too: whoever opens it is let in.
    WithToken,
    /// Where it is; it asks for the token.
    WithoutToken,
}

impl Told {
    /// Returns what whoever reads there is told: a person sits at a terminal.
    pub(super) fn to_whom_reads(output: &impl IsTerminal) -> Self {
        if output.is_terminal() { Self::WithToken } else { Self::WithoutToken }
    }
}

/// Returns where the page of a server is.
pub(super) fn address(addr: SocketAddr, auth: &Auth, told: Told) -> String {
    match (auth, told) {
        (Auth::Token(token), Told::WithToken) => format!("http://{addr}/#token={}", token.expose()),
        (Auth::Token(_) | Auth::Keys | Auth::Open, _) => format!("http://{addr}/"),
    }
}

/// The document that leads to the page; it is gone with the server.
pub(super) struct Leading(PathBuf);

impl Drop for Leading {
    fn drop(&mut self) {
        // Whoever removed it before is right.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the page; where nothing can, says so. `folder` is the person's own.
pub(super) fn open(screen: &Screen, folder: &Path, address: &str) -> Option<Leading> {
    let opened = lead(folder, address);
    if let Err(error) = &opened {
        screen.note(format!("warning: failed to open the page with `{OPENER}`: {error}"));
    }
    opened.ok()
}

fn lead(folder: &Path, address: &str) -> io::Result<Leading> {
    let leading = leading(folder, address)?;
    let mut opener = Command::new(OPENER);
    let silent = opener.arg(&leading.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut opening = silent.spawn()?;
    // It is waited for, so that nothing is left of it; how it ends is between it and the person.
    drop(std::thread::spawn(move || opening.wait()));
    Ok(leading)
}

/// Writes a document that leads to the address, which only its owner can read: what a program is told as it is started can
/// be read by everybody on the machine.
fn leading(folder: &Path, address: &str) -> io::Result<Leading> {
    let mut document = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(document, "<!doctype html><meta charset=\"utf-8\"><title>Segue</title>")?;
    writeln!(document, "<meta http-equiv=\"refresh\" content=\"0; url={address}\">")?;
    let path = folder.join(LEADING);
    document.persist(&path)?;
    Ok(Leading(path))
}

#[cfg(test)]
mod tests {
    use http::Token;

    use super::*;

    #[test]
    fn k2_the_token_is_in_the_fragment_and_only_for_who_may_see_it() {
        let folder = tempfile::tempdir().unwrap();
        let token = Token::at(&folder.path().join("token")).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], 2024));
        let auth = Auth::Token(token.clone());
        let whole = address(addr, &auth, Told::WithToken);
        assert_eq!(whole, format!("http://127.0.0.1:2024/#token={}", token.expose()));
        assert_eq!(address(addr, &auth, Told::WithoutToken), "http://127.0.0.1:2024/");
        assert_eq!(address(addr, &Auth::Open, Told::WithToken), "http://127.0.0.1:2024/");
        assert_eq!(Told::to_whom_reads(&std::fs::File::open(folder.path()).unwrap()), Told::WithoutToken);
    }
}
