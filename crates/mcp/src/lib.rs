//! Talks to MCP servers; their tools as runtime tools.
//!
//! [`plan_servers`] decides what each configured server is: ready to be started, switched off, or waiting for a person's
//! consent, because the project's `.mcp.json` starts programs that somebody else wrote. [`McpServers`] connects to those
//! that are ready, each on its own, and hands out their tools under qualified names. Nothing a server does reaches
//! further than its own calls: whatever it says is data, bounded and escaped.
//!
//! Deliberately absent: asking a person, deciding which call is allowed (the rules of the `tools` room apply to these
//! tools as to all), resources and prompts of servers, and being a server.

mod config;
mod connection;
mod error;
mod server;
mod servers;
mod tool;

pub use config::ServerConfig;
pub use config::consent::{ConsentDecision, ProjectConsents};
pub use config::plan::{
    ConfigOrigin, PlannedServer, ServerDefinition, ServerReadiness, ServerTransport, plan_servers,
};
pub use config::project::{ProjectServers, read_project};
pub use error::Error;
pub use servers::{McpServerState, McpServerStatus, McpServers, ServerFolders, StartupWait};

/// The result type of this room.
pub type Result<T> = std::result::Result<T, Error>;
