//! One server over time: connected when it is needed, connected again when it was lost, its failures its own.

mod known_tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rmcp::model::JsonObject;
use runtime::{ToolContext, ToolOutput};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::plan::ServerDefinition;
use crate::connection::client::ProgressWatch;
use crate::connection::process::ServerProcessGroup;
use crate::connection::{CallFailure, ProcessContext, ServerConnection, ToolCallRequest};
use crate::tool::listed_tool::{ListedTool, select_usable};
use crate::tool::{qualified_names, result};
use known_tools::KnownTools;

/// How often a server that could not be reached is tried again without a call.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A server that may be started.
pub(crate) struct McpServer {
    name: String,
    /// The hash of all that decides which tools it has.
    sha256: String,
    definition: ServerDefinition,
    workspace: PathBuf,
    log: PathBuf,
    known_tools_path: PathBuf,
    /// Held while connecting, so that calls at the same time share one attempt.
    connection: tokio::sync::Mutex<Option<Arc<ServerConnection>>>,
    report: Mutex<ServerReport>,
    /// When it was last tried to connect.
    last_attempt_at: Mutex<Option<Instant>>,
    /// The processes of the newest connection.
    group: Mutex<ServerProcessGroup>,
}

/// The state of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerReport {
    /// The health of the server.
    pub health: ServerHealth,
    /// The tools that models are told of; another list only when they were listed anew.
    pub tools: Arc<[ListedTool]>,
    /// Notices for the person about tools that are not usable.
    pub notices: Vec<String>,
}

/// The health of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ServerHealth {
    /// It was not reached yet.
    #[default]
    Unknown,
    /// It answered when it was last reached.
    Healthy,
    /// It could not be reached; the text says why.
    Unreachable(String),
}

impl McpServer {
    /// Returns the server, with the tools it had when it was last asked. Nothing is started.
    pub fn new(
        name: &str,
        sha256: &str,
        definition: ServerDefinition,
        workspace: &Path,
        folder: &Path,
    ) -> Self {
        let hash = &protocol::sha256_hex(name)[..8];
        let file =
            |ending: &str| folder.join(format!("{:.40}-{hash}.{ending}", qualified_names::legal_name(name)));
        Self {
            name: name.to_owned(),
            sha256: protocol::sha256_hex(format!("{sha256}{:?}", definition.tools)),
            definition,
            workspace: workspace.to_owned(),
            log: file("log"),
            known_tools_path: file("tools.json"),
            connection: tokio::sync::Mutex::new(None),
            report: Mutex::default(),
            last_attempt_at: Mutex::default(),
            group: Mutex::default(),
        }
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file that holds what the server complained about.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns what is known of the server.
    pub fn report(&self) -> ServerReport {
        self.report.lock().clone()
    }

    /// Takes over the tools that the server had when it was last asked; returns whether any are known.
    pub fn load_known_tools(&self) -> bool {
        let Some(known) = known_tools::read_known_tools(&self.known_tools_path, &self.sha256) else {
            return false;
        };
        let mut report = self.report.lock();
        (report.tools, report.notices) = (known.tools.into(), known.notices);
        true
    }

    /// Connects, unless there is a connection.
    pub async fn connect(&self) {
        // The report tells how it went.
        let _ = self.connection().await;
    }

    /// Returns whether the server is worth another attempt: it could not be reached, some time ago.
    pub fn is_retry_due(&self) -> bool {
        let is_ill = matches!(self.report.lock().health, ServerHealth::Unreachable(_));
        is_ill && self.last_attempt_at.lock().is_none_or(|attempted| attempted.elapsed() >= RETRY_INTERVAL)
    }

    /// Asks for the tools again if the server said that they changed. One that is being connected tells them anyway.
    pub async fn refresh(&self) {
        let connection = match self.connection.try_lock() {
            Ok(connection) => connection.clone(),
            Err(_) => None,
        };
        let Some(connection) = connection.filter(|connection| connection.take_tools_changed()) else {
            return;
        };
        match connection.list_tools(self.definition.start_timeout).await {
            Ok(tools) => self.store_tools(tools),
            Err(reason) => self.report.lock().notices.push(reason),
        }
    }

    /// Makes one call, over a new connection if the last one is gone.
    pub async fn call_tool(&self, tool: &str, args: JsonObject, context: &ToolContext) -> ToolOutput {
        let connection = tokio::select! {
            connection = self.connection() => connection,
            () = context.cancel.cancelled() => return ToolOutput::error("cancelled before the server was reached"),
        };
        let connection = match connection {
            Ok(connection) => connection,
            Err(reason) => {
                return ToolOutput::error(format!(
                    "The MCP server `{}` cannot be reached: {reason}.",
                    self.name
                ));
            }
        };
        let what = format!("{}/{tool}", self.name);
        let watch = ProgressWatch { frames: context.frames.clone(), label: what, activity: Notify::new() };
        let timeout = self.definition.call_timeout;
        match connection
            .call_tool(ToolCallRequest { tool, args, watch, cancel: &context.cancel, timeout })
            .await
        {
            Ok(answer) => result::to_tool_output(answer, context.thread_id, Timestamp::now()),
            Err(failure) => self.handle_failure(failure, &connection).await,
        }
    }

    /// Ends the server's processes at once.
    pub fn kill(&self) {
        self.group.lock().kill();
    }

    /// Lets the server end by itself for a moment, then ends it.
    pub async fn close(&self) {
        // One that is being connected is not waited for.
        let connection = self.connection.try_lock().ok().and_then(|mut connection| connection.take());
        if let Some(connection) = connection {
            connection.close().await;
        }
        self.kill();
    }

    /// Returns the connection; makes one attempt to open it if there is none, or none that is open.
    async fn connection(&self) -> Result<Arc<ServerConnection>, String> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        *slot = None;
        *self.last_attempt_at.lock() = Some(Instant::now());
        let place = ProcessContext { workspace: &self.workspace, log: &self.log, group: &self.group };
        match ServerConnection::open(&self.definition, &place).await {
            Ok((connection, tools)) => {
                self.store_tools(tools);
                Ok(Arc::clone(slot.insert(Arc::new(connection))))
            }
            Err(reason) => {
                self.report.lock().health = ServerHealth::Unreachable(reason.clone());
                Err(reason)
            }
        }
    }

    async fn handle_failure(&self, failure: CallFailure, connection: &Arc<ServerConnection>) -> ToolOutput {
        let name = &self.name;
        let text = match failure {
            CallFailure::ServerError(reason) => format!("The MCP server `{name}` refused the call: {reason}"),
            CallFailure::ConnectionLost(reason) => {
                self.drop_connection(connection).await;
                self.report.lock().health = ServerHealth::Unreachable(reason.clone());
                format!(
                    "The MCP server `{name}` was lost during the call: {reason}. The call may have had its effect or \
                     not. The next call starts the server again."
                )
            }
            CallFailure::TimedOut(time) => format!(
                "The MCP server `{name}` gave no sign of life for {} s and was told to stop. The call may have had \
                 its effect or not.",
                time.as_secs()
            ),
            CallFailure::Cancelled => "Cancelled; the server was told to stop.".to_owned(),
        };
        ToolOutput::error(text)
    }

    /// Drops a connection that is of no use any more, unless there is another already.
    async fn drop_connection(&self, connection: &Arc<ServerConnection>) {
        let mut slot = self.connection.lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *slot = None;
        }
    }

    fn store_tools(&self, listed: Vec<ListedTool>) {
        let (tools, notices) = select_usable(listed, self.definition.tools.as_deref());
        let known = KnownTools { sha256: self.sha256.clone(), tools, notices };
        known_tools::write_known_tools(&self.known_tools_path, &known);
        let (tools, notices) = (known.tools.into(), known.notices);
        *self.report.lock() = ServerReport { health: ServerHealth::Healthy, tools, notices };
    }
}
