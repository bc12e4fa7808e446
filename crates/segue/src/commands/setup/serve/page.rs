//! The address of the web page, and opening it in a browser.
//!
//! The token is in the fragment of the address, which browsers do not send to servers. The token is shown only to a
//! user at a terminal. It is never written to an output file or passed in the arguments of a program, which other users
//! can read.

use std::io::{self, IsTerminal, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use http::AuthMode;
use terminal::Screen;

/// The program that opens a document in the user's browser.
const BROWSER_COMMAND: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// The name of the document that redirects a browser to the page.
const REDIRECT_FILE_NAME: &str = "open.html";

/// The route of the page's home view.
pub(crate) const HOME_ROUTE: &str = "/";

/// Selects whether an address contains the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenVisibility {
    /// The address contains the token: anyone who opens it is authenticated.
    WithToken,
    /// The address does not contain the token, and the page asks for it.
    WithoutToken,
}

impl TokenVisibility {
    /// Returns the visibility for an output: only a terminal shows the token.
    pub(super) fn for_output(output: &impl IsTerminal) -> Self {
        if output.is_terminal() { Self::WithToken } else { Self::WithoutToken }
    }
}

/// Returns the URL of a view of the web page. The view has the route `route`, such as `/handoffs/ID`.
pub(super) fn page_address(
    addr: SocketAddr,
    auth: &AuthMode,
    visibility: TokenVisibility,
    route: &str,
) -> String {
    let token = match (auth, visibility) {
        (AuthMode::Token(token), TokenVisibility::WithToken) => Some(token.expose()),
        (AuthMode::Token(_) | AuthMode::Keys | AuthMode::Disabled, _) => None,
    };
    match (token, route) {
        (Some(token), HOME_ROUTE) => format!("http://{addr}/#token={token}"),
        (Some(token), route) => format!("http://{addr}/#token={token}&route={route}"),
        (None, HOME_ROUTE) => format!("http://{addr}/"),
        (None, route) => format!("http://{addr}/#{route}"),
    }
}

/// A document that redirects to the page. It is deleted when this value is dropped, at the end of the server.
pub(super) struct RedirectFile(PathBuf);

impl Drop for RedirectFile {
    fn drop(&mut self) {
        // If the file was deleted already, nothing remains to be done.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Opens the page in a browser, and prints a warning if that fails. `folder` must be readable only by the user, because the
/// document in it contains the token.
pub(super) fn open_page(screen: &Screen, folder: &Path, address: &str) -> Option<RedirectFile> {
    let redirect = launch_browser(folder, address);
    if let Err(error) = &redirect {
        screen.print_to_stderr(format!("warning: failed to open the page with `{BROWSER_COMMAND}`: {error}"));
    }
    redirect.ok()
}

/// Starts the browser with a document that redirects to the address.
fn launch_browser(folder: &Path, address: &str) -> io::Result<RedirectFile> {
    let redirect = write_redirect_file(folder, address)?;
    let mut command = Command::new(BROWSER_COMMAND);
    let command = command.arg(&redirect.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn()?;
    // A thread waits for the process, so that it does not remain as a zombie. Its exit code does not matter here.
    drop(std::thread::spawn(move || process.wait()));
    Ok(redirect)
}

/// Writes a document that redirects to the address and that only its owner can read. The address is not an argument of the
/// browser's process, because every user of the machine can read those.
fn write_redirect_file(folder: &Path, address: &str) -> io::Result<RedirectFile> {
    let mut document = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(document, "<!doctype html><meta charset=\"utf-8\"><title>Segue</title>")?;
    writeln!(document, "<meta http-equiv=\"refresh\" content=\"0; url={address}\">")?;
    let path = folder.join(REDIRECT_FILE_NAME);
    document.persist(&path)?;
    Ok(RedirectFile(path))
}

#[cfg(test)]
mod tests {
    use http::InstallToken;

    use super::*;

    /// A file stands for a redirected stdout, which may be readable by others.
    #[test]
    fn k2_the_token_is_only_in_the_fragment_and_only_shown_on_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let token = InstallToken::load_or_create(&folder.path().join("token")).unwrap();
        let addr = SocketAddr::from(([127, 0, 0, 1], 2024));
        let auth = AuthMode::Token(token.clone());
        let secret = token.expose();
        let check = |auth: &AuthMode, visibility, route: &str, expected: &str| {
            let address = page_address(addr, auth, visibility, route);
            assert_eq!(address, format!("http://127.0.0.1:2024/{expected}"));
        };
        let (with, without) = (TokenVisibility::WithToken, TokenVisibility::WithoutToken);
        check(&auth, with, HOME_ROUTE, &format!("#token={secret}"));
        check(&auth, with, "/handoffs/1", &format!("#token={secret}&route=/handoffs/1"));
        check(&auth, without, HOME_ROUTE, "");
        check(&auth, without, "/handoffs/1", "#/handoffs/1");
        check(&AuthMode::Disabled, with, HOME_ROUTE, "");
        let file = std::fs::File::open(folder.path()).unwrap();
        assert_eq!(TokenVisibility::for_output(&file), TokenVisibility::WithoutToken);
    }
}
