//! `segue serve`: the agent over HTTP until somebody stops it. What a request may do is decided by the gateway; here it is
//! told where to listen and whom to let in.

mod page;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, CancellationToken};
use http::{Auth, Dispatch, DispatchError, Origins, Recovered, RunLimits, Settings, Token};
use serde_json::json;
use terminal::signals::Signals;
use terminal::{Screen, one_line, shown_path, wrap};
use tokio::net::TcpListener;

use crate::cli::Format;
use crate::cli::serve::Serve;
use crate::commands::Context;
use crate::exit::{Code, Failure, Outcome};

/// Any origin, or any host.
const ANY: &str = "*";

/// Performs the command.
pub(crate) async fn run(context: Context, args: Serve) -> Outcome {
    let addr = address(&args.addr)?;
    let allowed_origins = origins(&args.origins)?;
    if args.model.name.is_some() {
        check_model(&context.agent)?;
    }
    allow_open_files();
    let settings = Settings {
        allowed_hosts: args.hosts.clone(),
        allowed_origins,
        ..Settings::new(auth(&context.agent, addr, &args).await?)
    };
    settings.check(addr)?;
    let listener = TcpListener::bind(addr).await.map_err(|error| not_heard(addr, &error))?;
    let addr = listener.local_addr()?;
    let Context { agent, screen, format, .. } = context;
    let (home, token_file) = (agent.home().root().to_owned(), agent.home().token());
    let about = About { addr, home, token_file, auth: settings.auth.clone(), args };
    let dispatch = Dispatch::new(agent, RunLimits::default());
    let mut signals = Signals::take()?;
    let recovered = dispatch.recover().await?;
    about.tell(&screen, format, &recovered)?;
    // The listener takes connections from here on; they are answered as soon as the server works.
    let open = || page::open(&screen, &about.home, &about.page(page::Told::WithToken));
    let _leading = about.args.open.then(open);
    let shutdown = CancellationToken::new();
    let serving = http::serve(listener, Arc::clone(&dispatch), settings, shutdown.clone());
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => return Ok(ended.map(|()| Code::Done)?),
        () = signals.next() => shutdown.cancel(),
    }
    if format == Format::Text {
        screen.note("Stopping: running turns reach a durable step first. Ctrl-C stops at once.");
    }
    tokio::select! {
        ended = serving => ended?,
        () = signals.next() => dispatch.shutdown(Duration::ZERO).await,
    }
    if format == Format::Text {
        screen.note("Stopped. The next start goes on with what was under way.");
    }
    Ok(Code::Done)
}

/// Lets the process open as many files as the system allows it: each connection is one.
#[cfg(unix)]
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, ..allowed };
    // Where it stays as it was, the server takes fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(not(unix))]
const fn allow_open_files() {}

/// What is told of a server that has begun.
struct About {
    addr: SocketAddr,
    home: std::path::PathBuf,
    token_file: std::path::PathBuf,
    auth: Auth,
    args: Serve,
}

impl About {
    /// Returns where the page is.
    fn page(&self, told: page::Told) -> String {
        page::address(self.addr, &self.auth, told)
    }

    fn tell(&self, screen: &Screen, format: Format, recovered: &Recovered) -> Result<(), Failure> {
        let url = format!("http://{}", self.addr);
        let token = match &self.auth {
            Auth::Token(token) => Some(token),
            Auth::Keys | Auth::Open => None,
        };
        if format == Format::Json {
            screen.line(json!({
                "addr": self.addr, "url": url, "docs_url": format!("{url}/docs"),
                "page": self.page(page::Told::WithoutToken),
                "auth": match &self.auth { Auth::Token(_) => "token", Auth::Keys => "keys", Auth::Open => "none" },
                "token_file": token.map(|_| &self.token_file),
                "token": token.filter(|_| self.args.show_token).map(Token::expose),
                "resumed_runs": recovered.resumed, "waiting_runs": recovered.waiting,
            }))?;
            return Ok(());
        }
        let style = screen.style;
        screen.line(format!("Serving at  {}", style.bold(&url)))?;
        let access = match (&self.auth, token) {
            (_, Some(token)) if self.args.show_token => format!("{}  (header x-api-key)", token.expose()),
            (_, Some(_)) => format!("in {}  (header x-api-key)", shown_path(&self.token_file)),
            (Auth::Keys, None) => "keys only; `segue keys list` shows them  (header x-api-key)".to_owned(),
            (Auth::Open | Auth::Token(_), None) => "none: everybody on this machine is let in".to_owned(),
        };
        screen.line(format!("Page        {}", self.page(page::Told::to_whom_reads(&std::io::stdout()))))?;
        screen.line(format!("Token       {access}"))?;
        screen.line(format!("Docs        {url}/docs"))?;
        if let Some(text) = went_on(recovered) {
            screen.note(style.dim(wrap(&text, screen.text_columns(), "", "  ")));
        }
        Ok(())
    }
}

/// Says what an earlier process left, if it left anything.
fn went_on(recovered: &Recovered) -> Option<String> {
    let resumed = (recovered.resumed > 0).then(|| format!("{} went on", count(recovered.resumed)));
    let waiting = (recovered.waiting > 0).then(|| format!("{} that waited begin", count(recovered.waiting)));
    let parts: Vec<String> = resumed.into_iter().chain(waiting).collect();
    (!parts.is_empty()).then(|| format!("From before: {}.", parts.join(", ")))
}

fn count(runs: usize) -> String {
    crate::commands::import::count(runs as u64, "run")
}

/// Returns how clients show who they are. From elsewhere that is by a key alone: the token is for this machine.
async fn auth(agent: &Agent, addr: SocketAddr, args: &Serve) -> Result<Auth, Failure> {
    if args.no_auth {
        return Ok(Auth::Open);
    }
    if addr.ip().is_loopback() {
        return Ok(Auth::Token(Token::at(&agent.home().token())?));
    }
    let is_valid = agent.admin().keys().await?.iter().any(|key| key.revoked_at.is_none());
    match is_valid {
        true => Ok(Auth::Keys),
        false => Err(Failure::new(Code::Config, format!("serve at {addr}: there is no key yet, so nobody could come in"))
            .with_hint(
                "make one with `segue keys create USER`, or serve at 127.0.0.1, where the token in the home folder is enough",
            )),
    }
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| {
        Failure::new(Code::User, format!("listen at `{}`: it is no address", one_line(text)))
            .with_hint("write HOST:PORT, such as 127.0.0.1:2024")
    })
}

fn not_heard(addr: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::new(Code::Config, format!("listen at {addr}: {error}"))
        .with_hint("stop what listens there, or choose another port with `--addr`")
}

/// Refuses to serve with a model that every run would fail with.
fn check_model(agent: &Agent) -> Result<(), Failure> {
    match agent.models().problem {
        Some(problem) => {
            let hint = "name a model that can be used with `--model`, or mend the setting; `segue models` shows those there are";
            Err(Failure::new(Code::Config, problem).with_hint(hint))
        }
        None => Ok(()),
    }
}

fn origins(given: &[String]) -> Result<Origins, Failure> {
    if given.iter().any(|origin| origin == ANY) {
        return Ok(Origins::Any);
    }
    match given.iter().find(|origin| !is_origin(origin)) {
        Some(wrong) => {
            let what = format!("allow pages of `{}`: it is no origin", one_line(wrong));
            Err(Failure::new(Code::User, what).with_hint(
                "write scheme and host, and the port if it has one, such as https://chat.example.org",
            ))
        }
        None if given.is_empty() => Ok(Origins::Loopback),
        None => Ok(Origins::These(given.to_vec())),
    }
}

/// Returns whether a browser could send this as where a page comes from: a scheme and a host, without a path.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
    host.is_some_and(|(_, host)| {
        !host.is_empty() && !host.contains(['/', '?', '#', '@']) && !host.contains(char::is_whitespace)
    })
}

impl From<http::Error> for Failure {
    fn from(error: http::Error) -> Self {
        Self::new(Code::Config, error.to_string()).with_hint(error.hint())
    }
}

impl From<DispatchError> for Failure {
    fn from(error: DispatchError) -> Self {
        match error {
            DispatchError::Agent(error) => error.into(),
            error => Self::new(Code::Internal, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        let read = |text: &str| origins(&[text.to_owned()]);
        for right in ["https://chat.example.org", "http://localhost:3000", "http://[::1]:3000"] {
            assert!(matches!(read(right), Ok(Origins::These(_))), "{right}");
        }
        for wrong in ["chat.example.org", "not an origin", "https://x.org/path", "https://", "ftp://x.org"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(address("127.0.0.1:2024").unwrap(), SocketAddr::from(([127, 0, 0, 1], 2024)));
        assert!(address("localhost:0").unwrap().ip().is_loopback());
        for wrong in ["2024", "127.0.0.1", "127.0.0.1:99999", "", ":x"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_star_among_the_origins_means_any() {
        let of =
            |given: &[&str]| origins(&given.iter().map(|&origin| origin.to_owned()).collect::<Vec<_>>()).ok();
        assert_eq!(of(&[]), Some(Origins::Loopback));
        assert_eq!(of(&["https://a.example", "*"]), Some(Origins::Any));
        let these = Origins::These(vec!["https://a.example".to_owned()]);
        assert_eq!(of(&["https://a.example"]), Some(these));
    }
}
