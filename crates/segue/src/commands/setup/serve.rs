//! `segue serve`: serves the agent over HTTP until a signal stops it. This file sets the address and the
//! authentication; the crate `http` decides which requests are allowed.

mod page;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agent::{Agent, CancellationToken};
use http::{
    AllowedOrigins, AuthMode, InstallToken, RecoveryReport, Scheduler, SchedulerError, SchedulerLimits,
    ServerSettings,
};
use serde_json::json;
use terminal::signals::SignalReceiver;
use terminal::{Screen, sanitize_line, sanitize_path, wrap};
use tokio::net::TcpListener;

use crate::cli::OutputFormat;
use crate::cli::serve::ServeArgs;
use crate::commands::CommandContext;
use crate::exit::{CliFailure, CommandResult, ExitReason};

/// The address of a server for which neither an option nor the environment names one.
const DEFAULT_ADDRESS: &str = "127.0.0.1:2024";

/// The environment variable with the address of the server.
const ADDRESS_VARIABLE: &str = "SEGUE_ADDR";

/// Time between two checks of the files of the database.
const DATABASE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The value that allows any origin or any host.
const WILDCARD: &str = "*";

/// The view of the page that a server opens, and its notices.
pub(crate) struct ServerPresentation {
    /// The route of the view, such as `/handoffs/ID`.
    pub(crate) route: String,
    /// The notice after the first signal.
    pub(crate) stopping_notice: &'static str,
    /// The notice after the server has stopped.
    pub(crate) stopped_notice: &'static str,
}

/// Performs `segue serve`.
///
/// # Errors
/// Fails like [`serve_until_signal`].
pub(crate) async fn run(context: CommandContext, args: ServeArgs) -> CommandResult {
    let presentation = ServerPresentation {
        route: page::HOME_ROUTE.to_owned(),
        stopping_notice: "Stopping after active runs have reached a durable step. Press Ctrl-C to stop at once.",
        stopped_notice: "Stopped. The next start resumes the active runs.",
    };
    serve_until_signal(context, args, presentation).await
}

/// Serves until a signal. The first signal stops the server gracefully: active runs reach a durable step first. A
/// second signal stops it at once.
///
/// # Errors
/// Fails if the arguments are invalid, the address cannot be used, or the scheduler or the server fails.
pub(crate) async fn serve_until_signal(
    context: CommandContext,
    args: ServeArgs,
    presentation: ServerPresentation,
) -> CommandResult {
    let mut signals = SignalReceiver::subscribe()?;
    let addr = resolve_address(&args.addr.clone().unwrap_or_else(default_address))?;
    let allowed_origins = parse_origins(&args.origins)?;
    if args.model.name.is_some() {
        check_model(&context.agent)?;
    }
    raise_open_file_limit();
    let settings = ServerSettings {
        allowed_hosts: args.hosts.clone(),
        allowed_origins,
        operators: args.operators.clone(),
        ..ServerSettings::new(resolve_auth(&context.agent, addr, &args).await?)
    };
    settings.check_exposure(addr)?;
    let listener = TcpListener::bind(addr).await.map_err(|error| listen_failure(addr, &error))?;
    let addr = listener.local_addr()?;
    let CommandContext { agent, screen, format, .. } = context;
    let (home, token_file) = (agent.home().root().to_owned(), agent.home().token_path());
    let ServerPresentation { route, stopping_notice, stopped_notice } = presentation;
    let announcement =
        ServerAnnouncement { addr, home, token_file, auth: settings.auth.clone(), route, args };
    let watched_agent = agent.clone();
    let scheduler = Scheduler::new(agent, SchedulerLimits::default());
    let recovered = scheduler.recover().await?;
    announcement.print_startup(&screen, format, &recovered)?;
    // The listener already accepts connections, so the browser's requests are answered once the server runs below.
    let open_page = || {
        let address = announcement.page_address(page::TokenVisibility::WithToken);
        page::open_page(&screen, &announcement.home, &address)
    };
    let _redirect_file = announcement.args.open.then(open_page);
    let shutdown = CancellationToken::new();
    let server = http::serve(listener, Arc::clone(&scheduler), settings, shutdown.clone());
    let mut server = std::pin::pin!(server);
    tokio::select! {
        result = &mut server => return Ok(result.map(|()| ExitReason::Success)?),
        // Nothing that the server writes would be kept, so there is nothing to wait for.
        lost = wait_for_lost_database(&watched_agent) => return Err(lost.into()),
        () = signals.recv() => shutdown.cancel(),
    }
    if format == OutputFormat::Text {
        screen.print_to_stderr(stopping_notice);
    }
    tokio::select! {
        result = server => result?,
        () = signals.recv() => scheduler.shutdown(Duration::ZERO).await,
    }
    if format == OutputFormat::Text {
        screen.print_to_stderr(stopped_notice);
    }
    Ok(ExitReason::Success)
}

/// Waits until the file of the database is deleted, replaced or truncated, and returns the error that says so.
async fn wait_for_lost_database(agent: &Agent) -> agent::Error {
    let mut checks = tokio::time::interval(DATABASE_CHECK_INTERVAL);
    loop {
        checks.tick().await;
        match agent.admin().check_database() {
            Err(lost) if lost.is_database_lost() => return lost,
            // A file that cannot be inspected may be there again at the next check.
            Ok(()) | Err(_) => {}
        }
    }
}

/// Raises the limit of open files to the maximum that the system allows, because each connection uses a file
/// descriptor.
#[cfg(unix)]
fn raise_open_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, ..allowed };
    // If the limit cannot be raised, the server accepts fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Has no effect: other systems have no such limit.
#[cfg(not(unix))]
const fn raise_open_file_limit() {}

/// The data that the program prints when the server has started.
struct ServerAnnouncement {
    /// The address on which the server listens.
    addr: SocketAddr,
    /// The home folder.
    home: std::path::PathBuf,
    /// The file with the token.
    token_file: std::path::PathBuf,
    /// The way in which clients authenticate.
    auth: AuthMode,
    /// The route of the view of the page to which the address leads.
    route: String,
    /// The arguments of the command.
    args: ServeArgs,
}

impl ServerAnnouncement {
    /// Returns the URL of the web page.
    fn page_address(&self, visibility: page::TokenVisibility) -> String {
        page::page_address(self.addr, &self.auth, visibility, &self.route)
    }

    /// Prints the addresses, the authentication, and the number of runs that were recovered.
    fn print_startup(
        &self,
        screen: &Screen,
        format: OutputFormat,
        recovered: &RecoveryReport,
    ) -> Result<(), CliFailure> {
        let url = format!("http://{}", self.addr);
        let token = match &self.auth {
            AuthMode::Token(token) => Some(token),
            AuthMode::Keys | AuthMode::Disabled => None,
        };
        if format == OutputFormat::Json {
            screen.print_line(json!({
                "addr": self.addr, "url": url, "docs_url": format!("{url}/docs"),
                "page": self.page_address(page::TokenVisibility::WithoutToken),
                "auth": match &self.auth { AuthMode::Token(_) => "token", AuthMode::Keys => "keys", AuthMode::Disabled => "none" },
                "token_file": token.map(|_| &self.token_file),
                "token": token.filter(|_| self.args.show_token).map(InstallToken::expose),
                "resumed_runs": recovered.resumed, "waiting_runs": recovered.queued,
            }))?;
            return Ok(());
        }
        let style = screen.style;
        screen.print_line(format!("Serving at  {}", style.bold(&url)))?;
        let access = match (&self.auth, token) {
            (_, Some(token)) if self.args.show_token => format!("{}  (header x-api-key)", token.expose()),
            (_, Some(_)) => format!("in {}  (header x-api-key)", sanitize_path(&self.token_file)),
            (AuthMode::Keys, None) => {
                "API keys only; `segue keys list` lists them  (header x-api-key)".to_owned()
            }
            (AuthMode::Disabled | AuthMode::Token(_), None) => {
                "none: everybody on this machine has access".to_owned()
            }
        };
        let visibility = page::TokenVisibility::for_output(&std::io::stdout());
        screen.print_line(format!("Page        {}", self.page_address(visibility)))?;
        screen.print_line(format!("Token       {access}"))?;
        screen.print_line(format!("Docs        {url}/docs"))?;
        if let Some(text) = recovered_text(recovered) {
            screen.print_to_stderr(style.dim(wrap(&text, screen.text_columns(), "", "  ")));
        }
        Ok(())
    }
}

/// Returns a sentence about the runs of an earlier process; `None` if no run was recovered.
fn recovered_text(recovered: &RecoveryReport) -> Option<String> {
    let resumed = (recovered.resumed > 0).then(|| format!("{} resumed", count_runs(recovered.resumed)));
    let queued = (recovered.queued > 0).then(|| format!("{} queued again", count_runs(recovered.queued)));
    let parts: Vec<String> = resumed.into_iter().chain(queued).collect();
    (!parts.is_empty()).then(|| format!("From an earlier process: {}.", parts.join(", ")))
}

/// Returns a number of runs as text.
fn count_runs(runs: usize) -> String {
    crate::commands::import::format_count(runs as u64, "run")
}

/// Returns the way in which clients authenticate. Clients on other machines need an API key, because the token is only
/// for this machine.
///
/// # Errors
/// Fails if the address is reachable from other machines and no valid key exists.
async fn resolve_auth(agent: &Agent, addr: SocketAddr, args: &ServeArgs) -> Result<AuthMode, CliFailure> {
    if args.no_auth {
        return Ok(AuthMode::Disabled);
    }
    if addr.ip().is_loopback() {
        return Ok(AuthMode::Token(InstallToken::load_or_create(&agent.home().token_path())?));
    }
    let has_valid_key = agent.admin().keys().await?.iter().any(|key| key.revoked_at.is_none());
    match has_valid_key {
        true => Ok(AuthMode::Keys),
        false => {
            let problem = format!("serve at {addr}: there is no API key, so no client could authenticate");
            Err(CliFailure::new(ExitReason::Config, problem).with_hint(
                "create a key with `segue keys create USER`, or serve at 127.0.0.1, where the token in the home folder is enough",
            ))
        }
    }
}

/// Returns the address of the server if no option names one: that of the environment, else [`DEFAULT_ADDRESS`]. An empty
/// variable counts as unset.
pub(super) fn default_address() -> String {
    let address = std::env::var(ADDRESS_VARIABLE).ok().filter(|address| !address.trim().is_empty());
    address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned())
}

/// Parses and resolves the address to listen on.
///
/// # Errors
/// Fails if the text is not an address or its host is unknown.
fn resolve_address(text: &str) -> Result<SocketAddr, CliFailure> {
    let address = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    address.ok_or_else(|| {
        CliFailure::new(
            ExitReason::User,
            format!("listen at `{}`: it is not an address", sanitize_line(text)),
        )
        .with_hint("write HOST:PORT, such as 127.0.0.1:2024")
    })
}

/// Returns the failure for an address on which the server cannot listen.
fn listen_failure(addr: SocketAddr, error: &std::io::Error) -> CliFailure {
    CliFailure::new(ExitReason::Config, format!("listen at {addr}: {error}"))
        .with_hint("stop the program that listens there, or choose another port with `--addr`")
}

/// Checks that the model of the arguments can be used; with an unusable model, every run would fail.
///
/// # Errors
/// Fails if the model cannot be used.
fn check_model(agent: &Agent) -> Result<(), CliFailure> {
    match agent.model_status().problem {
        Some(problem) => {
            let hint = "choose another model with `--model`, or correct the setting; `segue models` shows the problem";
            Err(CliFailure::new(ExitReason::Config, problem).with_hint(hint))
        }
        None => Ok(()),
    }
}

/// Returns the origins from which browsers may call the server.
///
/// # Errors
/// Fails if a text is not an origin.
fn parse_origins(origins: &[String]) -> Result<AllowedOrigins, CliFailure> {
    if origins.iter().any(|origin| origin == WILDCARD) {
        return Ok(AllowedOrigins::Any);
    }
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(invalid) => {
            let problem = format!("allow the origin `{}`: it is not an origin", sanitize_line(invalid));
            Err(CliFailure::new(ExitReason::User, problem).with_hint(
                "write the scheme and the host, and the port if it has one, such as https://chat.example.org",
            ))
        }
        None if origins.is_empty() => Ok(AllowedOrigins::Loopback),
        None => Ok(AllowedOrigins::Listed(origins.to_vec())),
    }
}

/// Returns whether a text has the form of an Origin header: a scheme and a host with an optional port, without a path.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
    host.is_some_and(|(_, host)| {
        !host.is_empty() && !host.contains(['/', '?', '#', '@']) && !host.contains(char::is_whitespace)
    })
}

impl From<http::Error> for CliFailure {
    fn from(error: http::Error) -> Self {
        let code = match &error {
            http::Error::Unreachable { .. } | http::Error::Unhealthy { .. } => ExitReason::Store,
            _ => ExitReason::Config,
        };
        Self::new(code, error.to_string()).with_hint(error.hint())
    }
}

impl From<SchedulerError> for CliFailure {
    fn from(error: SchedulerError) -> Self {
        match error {
            SchedulerError::Agent(error) => error.into(),
            error => Self::new(ExitReason::Internal, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        let parse = |text: &str| parse_origins(&[text.to_owned()]);
        for valid in ["https://chat.example.org", "http://localhost:3000", "http://[::1]:3000"] {
            assert!(matches!(parse(valid), Ok(AllowedOrigins::Listed(_))), "{valid}");
        }
        for invalid in ["chat.example.org", "not an origin", "https://x.org/path", "https://", "ftp://x.org"]
        {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(resolve_address("127.0.0.1:2024").unwrap(), SocketAddr::from(([127, 0, 0, 1], 2024)));
        assert!(resolve_address("localhost:0").unwrap().ip().is_loopback());
        for invalid in ["2024", "127.0.0.1", "127.0.0.1:99999", "", ":x"] {
            assert!(resolve_address(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn a_star_among_the_origins_allows_any_origin() {
        let parse = |origins: &[&str]| {
            let origins: Vec<String> = origins.iter().map(|&origin| origin.to_owned()).collect();
            parse_origins(&origins).ok()
        };
        assert_eq!(parse(&[]), Some(AllowedOrigins::Loopback));
        assert_eq!(parse(&["https://a.example", "*"]), Some(AllowedOrigins::Any));
        let listed = AllowedOrigins::Listed(vec!["https://a.example".to_owned()]);
        assert_eq!(parse(&["https://a.example"]), Some(listed));
    }
}
