//! Client for MCP (Model Context Protocol) servers, whose tools become runtime tools.
//!
//! [`plan_servers`] decides the readiness of each configured server: ready, disabled, or waiting for the user's
//! consent, because a project's `.mcp.json` can start programs that the user did not write. [`McpServers`] connects to
//! the ready servers independently of each other and returns their tools under qualified names (`mcp__server__tool`).
//! A failing server affects only its own calls. Text from a server is treated as untrusted data: bounded and
//! neutralized.
//!
//! Deliberately absent: asking the user, deciding which calls are allowed (the permission rules of the crate `tools`
//! apply to these tools too), resources and prompts of servers, and the server side of the protocol.

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

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
