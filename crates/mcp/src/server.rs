//! The lifecycle of one server across connections: it is connected on demand and connected again after its connection
//! was lost. A failed call affects only itself.

mod known_tools;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rmcp::model::JsonObject;
use runtime::{ToolContext, ToolOutput};
use sandbox::PrepareLaunch;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::plan::ServerDefinition;
use crate::connection::client::ProgressWatch;
use crate::connection::process::ServerProcessGroup;
use crate::connection::{CallFailure, ProcessContext, ServerConnection, ToolCallRequest};
use crate::servers::ServerFolders;
use crate::tool::listed_tool::{ListedTool, select_usable};
use crate::tool::{qualified_names, result};
use known_tools::KnownTools;

/// Shortest time between attempts to reach a failed server in the background. A call connects without this delay.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// A server that may be started.
pub(crate) struct McpServer {
    name: String,
    /// Lowercase hex SHA-256 of the configuration and the tool selection, which together determine the usable tools.
    sha256: String,
    definition: ServerDefinition,
    /// The folder in which the agent works.
    workspace: PathBuf,
    /// Prepares the sandbox of the program; `None` without a sandbox.
    sandbox: Option<PrepareLaunch>,
    /// The file for the server's standard error output.
    log: PathBuf,
    /// The file for the cached tool list.
    known_tools_path: PathBuf,
    /// The newest connection. The lock is held while connecting, so that concurrent calls share one attempt.
    connection: tokio::sync::Mutex<Option<Arc<ServerConnection>>>,
    report: Mutex<ServerReport>,
    /// The time of the last attempt to connect; `None` before the first.
    last_attempt_at: Mutex<Option<Instant>>,
    /// The processes of the newest connection.
    group: Mutex<ServerProcessGroup>,
}

/// The present state of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerReport {
    /// The health of the server.
    pub health: ServerHealth,
    /// The usable tools. The list is replaced only when the tools were listed again.
    pub tools: Arc<[ListedTool]>,
    /// Notices for the user about tools that are not usable.
    pub notices: Vec<String>,
}

/// The health of a server, by its last connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ServerHealth {
    /// No attempt to connect has ended yet.
    #[default]
    Unknown,
    /// The last attempt to connect succeeded.
    Healthy,
    /// The server could not be reached, or its connection was lost. The text gives the reason.
    Unreachable(String),
}

impl McpServer {
    /// Returns a server without a connection. `sha256` is the hash of its configuration. Its log and its cached tools are
    /// files in the state folder. Starts nothing and reads no file.
    pub fn new(
        name: &str,
        sha256: &str,
        definition: ServerDefinition,
        folders: &ServerFolders,
        sandbox: Option<PrepareLaunch>,
    ) -> Self {
        let hash = &protocol::sha256_hex(name)[..8];
        let file = |ending: &str| {
            let name = format!("{:.40}-{hash}.{ending}", qualified_names::legal_name(name));
            folders.state_folder.join(name)
        };
        Self {
            name: name.to_owned(),
            sha256: protocol::sha256_hex(format!("{sha256}{:?}", definition.tools)),
            definition,
            workspace: folders.workspace.clone(),
            sandbox,
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

    /// Returns the path of the file with the server's standard error output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the present state of the server.
    pub fn report(&self) -> ServerReport {
        self.report.lock().clone()
    }

    /// Loads the cached tools, and returns whether there was a cache for this configuration.
    pub fn load_known_tools(&self) -> bool {
        let Some(known) = known_tools::read_known_tools(&self.known_tools_path, &self.sha256) else {
            return false;
        };
        let mut report = self.report.lock();
        (report.tools, report.notices) = (known.tools.into(), known.notices);
        true
    }

    /// Connects to the server unless a connection is open. The result is in [`Self::report`].
    pub async fn connect(&self) {
        let _ = self.connection().await;
    }

    /// Returns whether a failed server should be connected again: its last attempt is at least [`RETRY_INTERVAL`] ago.
    pub fn is_retry_due(&self) -> bool {
        let is_unreachable = matches!(self.report.lock().health, ServerHealth::Unreachable(_));
        is_unreachable
            && self.last_attempt_at.lock().is_none_or(|attempted| attempted.elapsed() >= RETRY_INTERVAL)
    }

    /// Lists the tools again if the server announced that they changed. A server that is being connected at this moment
    /// is skipped, because connecting lists the tools anyway.
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

    /// Calls a tool and returns its output. Connects first if no connection is open. Failures become error outputs.
    ///
    /// A cancelled call tells the server to stop. If the connection is lost, the call is not repeated, because it may
    /// have had its effect.
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
        let label = format!("{}/{tool}", self.name);
        let watch = ProgressWatch { frames: context.frames.clone(), label, activity: Notify::new() };
        let timeout = self.definition.call_timeout;
        match connection
            .call_tool(ToolCallRequest { tool, args, watch, cancel: &context.cancel, timeout })
            .await
        {
            Ok(answer) => result::to_tool_output(answer, context.thread_id, Timestamp::now()),
            Err(failure) => self.handle_failure(failure, &connection).await,
        }
    }

    /// Kills the server's processes at once.
    pub fn kill(&self) {
        self.group.lock().kill();
    }

    /// Closes the connection, gives the server's program a moment to exit, and then kills it.
    pub async fn close(&self) {
        // If the lock is taken, the server is being connected. Its processes are killed without waiting.
        let connection = self.connection.try_lock().ok().and_then(|mut connection| connection.take());
        if let Some(connection) = connection {
            connection.close().await;
        }
        self.kill();
    }

    /// Returns the open connection, or makes one attempt to open a new one.
    ///
    /// # Errors
    /// Returns the reason if the attempt fails.
    async fn connection(&self) -> Result<Arc<ServerConnection>, String> {
        let mut slot = self.connection.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        *slot = None;
        *self.last_attempt_at.lock() = Some(Instant::now());
        let process = ProcessContext {
            workspace: &self.workspace,
            sandbox: self.sandbox.as_ref(),
            log: &self.log,
            group: &self.group,
        };
        match ServerConnection::open(&self.definition, &process).await {
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

    /// Returns the error output of a failed call, and drops a connection that was lost.
    async fn handle_failure(&self, failure: CallFailure, connection: &Arc<ServerConnection>) -> ToolOutput {
        let name = &self.name;
        let text = match failure {
            CallFailure::ServerError(reason) => format!("The MCP server `{name}` refused the call: {reason}"),
            CallFailure::ConnectionLost(reason) => {
                self.drop_connection(connection).await;
                self.report.lock().health = ServerHealth::Unreachable(reason.clone());
                format!(
                    "The connection to the MCP server `{name}` was lost during the call: {reason}. The call may or may \
                     not have had its effect. The next call connects again."
                )
            }
            CallFailure::TimedOut(time) => format!(
                "The MCP server `{name}` sent no response and no progress for {} s and was told to stop. The call may or \
                 may not have had its effect.",
                time.as_secs()
            ),
            CallFailure::Cancelled => "Cancelled; the server was told to stop.".to_owned(),
        };
        ToolOutput::error(text)
    }

    /// Drops a lost connection, unless another one has replaced it already.
    async fn drop_connection(&self, connection: &Arc<ServerConnection>) {
        let mut slot = self.connection.lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
            *slot = None;
        }
    }

    /// Publishes the tools that the server listed, and writes them to the cache.
    fn store_tools(&self, listed: Vec<ListedTool>) {
        let (tools, notices) = select_usable(listed, self.definition.tools.as_deref());
        let known = KnownTools { sha256: self.sha256.clone(), tools, notices };
        known_tools::write_known_tools(&self.known_tools_path, &known);
        let (tools, notices) = (known.tools.into(), known.notices);
        *self.report.lock() = ServerReport { health: ServerHealth::Healthy, tools, notices };
    }
}
