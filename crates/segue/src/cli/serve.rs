//! The arguments of `segue serve`, `segue ping` and `segue keys`.

use clap::{Args, Subcommand};
use http::ServerUrl;
use protocol::UserId;

use super::ModelArgs;

/// Serve the web page, the HTTP API and the LangGraph API
///
/// Clients on this machine authenticate with the token in `$SEGUE_HOME/token`, which the first start creates; other clients
/// with a key from `segue keys create`. Ctrl-C or SIGTERM stops the server with exit code 0 after each run has reached a
/// durable step; the next start resumes the runs.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:2024] [env: SEGUE_ADDR]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) addr: Option<String>,
    /// Origin from which browsers may call the server, such as `https://chat.example.org`, besides this machine's; `*` is any
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,
    /// Host name that requests may use, besides addresses and localhost; `*` is any
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// User whose keys may read `/metrics`
    #[arg(long = "operator", value_name = "USER")]
    pub(crate) operators: Vec<UserId>,
    /// Accept requests without authentication; only if no other machine can connect
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Print the token instead of the path of its file
    #[arg(long, conflicts_with = "no_auth")]
    pub(crate) show_token: bool,
    /// Open the page in your browser when it is ready
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

impl ServeArgs {
    /// Returns the arguments of a server on a free port of this machine that opens its page in the browser.
    pub(crate) fn on_free_port() -> Self {
        Self {
            addr: Some("127.0.0.1:0".to_owned()),
            origins: Vec::new(),
            hosts: Vec::new(),
            operators: Vec::new(),
            no_auth: false,
            show_token: false,
            open: true,
            model: ModelArgs { name: None },
        }
    }
}

/// Check that a running server works and can read its database
///
/// The command needs no key and no home folder, and waits five seconds for a response. Exit code 0: the server is healthy.
/// Exit code 1: it is not, or cannot be reached.
#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// The server: a URL, or HOST:PORT [default: 127.0.0.1:2024] [env: SEGUE_ADDR]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<ServerUrl>,
}

/// Create, list and revoke the API keys of the server's users
#[derive(Debug, Subcommand)]
pub(crate) enum ApiKeysCommand {
    /// Create a key for a user and print it; it cannot be shown again
    ///
    /// Each user has threads, memory and a store of their own. Users have no access to your tools, files and commands,
    /// unless `[serve] user_tools = "all"` in config.toml grants it: then they act on this machine as you.
    Create {
        /// The user: letters, digits, `_` and `-`
        user: UserId,
        /// A note on the purpose of the key
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List the keys
    List,
    /// Revoke a key: requests with it are refused
    Revoke {
        /// The key's id, or the beginning of it
        #[arg(value_name = "ID")]
        key: String,
    },
}
