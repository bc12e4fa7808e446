//! The arguments of `segue serve` and `segue keys`.

use clap::{Args, Subcommand};
use protocol::UserId;

use super::Model;

/// Serve the agent over HTTP, to LangGraph clients and to Segue's own, and a page to browsers
///
/// Clients on this machine show the token in `$SEGUE_HOME/token`, which is made at the first start; others show a key that
/// `segue keys create` made. Ctrl-C or SIGTERM lets running turns reach a durable step, and the next start goes on with
/// them: that is how a server ends, so its exit code is 0.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2024")]
    pub(crate) addr: String,
    /// Page that a browser may call the server from, such as `https://chat.example.org`; `*` is any. Those of this machine may
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(crate) origins: Vec<String>,
    /// Name that requests may call the server by, beside addresses and localhost; `*` is any
    #[arg(long = "allow-host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
    /// Ask nobody who they are; only where nobody but this machine can connect
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Print the token, not only where it is
    #[arg(long, conflicts_with = "no_auth")]
    pub(crate) show_token: bool,
    /// Open the page in your browser once the server answers
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) model: Model,
}

/// Make, list and revoke the keys by which clients of the server show who they are
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key for a user, and print it: it cannot be shown again
    ///
    /// Each user has threads, memory and a store of their own. They have none of your tools, files and commands unless
    /// `[serve] user_tools = "all"` in config.toml gives them all of these: then they act on this machine as you.
    Create {
        /// The user: letters, digits, `_` and `-`
        user: UserId,
        /// What the key is for
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
    },
    /// List the keys there are
    List,
    /// Let nobody in with a key any more
    Revoke {
        /// The key's id, or the beginning of it
        #[arg(value_name = "ID")]
        key: String,
    },
}
