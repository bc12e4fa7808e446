//! All servers of an agent. They are started concurrently, and no server can delay or break another.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use runtime::Tool;
use sandbox::{NetworkAccess, PrepareLaunch};
use tokio::task::JoinSet;

use crate::config::plan::{ConfigOrigin, PlannedServer, ServerReadiness};
use crate::server::{McpServer, ServerHealth, ServerReport};
use crate::tool::listed_tool::ListedTool;
use crate::tool::{ServerTool, qualified_names};

/// The folders in which servers run and in which their files are stored.
#[derive(Debug, Clone)]
pub struct ServerFolders {
    /// The folder in which the agent works.
    pub workspace: PathBuf,
    /// The project's folder in the home folder, for logs and cached tool lists. It must exist.
    pub state_folder: PathBuf,
}

/// Start-up policy for servers whose tools are cached from an earlier process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupWait {
    /// Use the cached tools at once and start the server in the background. The first call waits for it.
    UseCachedTools,
    /// Wait for every server, to learn its actual state.
    WaitForAll,
}

/// The current state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpServerState {
    /// The last attempt to connect succeeded, and the connection has not failed since.
    Ready,
    /// The server is being started. Its tools are the cached ones.
    Starting,
    /// The server could not be reached, or its connection was lost. The next call connects again.
    Failed,
    /// The server is switched off in its configuration.
    Disabled,
    /// `config.toml` has a server of the same name, which is used instead of the project's.
    Shadowed,
    /// The project configures the server, and the user has not decided about it.
    ConsentPending,
    /// The project configures the server, and the user refused to start it.
    ConsentRefused,
    /// The configuration is invalid.
    Invalid,
}

/// The status of a server, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerStatus {
    /// The server's name.
    pub name: String,
    /// The author of the configuration.
    pub origin: ConfigOrigin,
    /// The command line or address in its source form, without the user's secrets.
    pub target: String,
    /// The current state.
    pub state: McpServerState,
    /// Qualified names of the server's tools.
    pub tools: Vec<String>,
    /// The reason why the server cannot be used, if there is one.
    pub error: Option<String>,
    /// Further notices for the user, for example about unusable tools.
    pub notices: Vec<String>,
    /// The file with the server's standard error output, if it exists.
    pub log: Option<PathBuf>,
}

/// The servers of an agent. Dropping the value kills the programs that were started; [`McpServers::close`] gives them
/// time to exit first.
#[derive(Default)]
pub struct McpServers {
    /// All configured servers, sorted by name. Only ready ones have an [`McpServer`].
    planned: Vec<(PlannedServer, Option<Arc<McpServer>>)>,
    /// Tasks that connect servers in the background.
    starting: Mutex<JoinSet<()>>,
    /// The tools that [`McpServers::tools`] returned last.
    published: Mutex<PublishedTools>,
}

/// The tools of all servers, with the tool lists from which they were built.
#[derive(Default)]
struct PublishedTools {
    /// The list of each started server. A changed list has another address.
    listed: Vec<Arc<[ListedTool]>>,
    /// Runtime tools, sorted by qualified name.
    tools: Vec<Arc<dyn Tool>>,
}

impl McpServers {
    /// Starts the ready servers concurrently, each with its own deadline, and waits for them according to `wait`. A
    /// server that fails is reported by [`Self::status`] and connected again by its next call. `sandbox_with` returns the
    /// function that prepares the sandbox of a server's program, for servers whose settings ask for one.
    ///
    /// Dropping the future stops the attempts, and kills programs that were started.
    pub async fn connect(
        plan: Vec<PlannedServer>,
        folders: &ServerFolders,
        wait: StartupWait,
        sandbox_with: impl Fn(NetworkAccess) -> PrepareLaunch + Send,
    ) -> Self {
        let servers = plan.into_iter().map(|planned| {
            let server = if let ServerReadiness::Ready(definition) = &planned.readiness {
                let definition = definition.clone();
                let sandbox = definition.sandbox.map(&sandbox_with);
                Some(Arc::new(McpServer::new(&planned.name, &planned.sha256, definition, folders, sandbox)))
            } else {
                None
            };
            (planned, server)
        });
        let planned: Vec<_> = servers.collect();
        let (mut starting, mut awaited) = (JoinSet::new(), JoinSet::new());
        for server in planned.iter().filter_map(|(_, server)| server.clone()) {
            let is_cached = server.load_known_tools() && wait == StartupWait::UseCachedTools;
            let tasks = if is_cached { &mut starting } else { &mut awaited };
            tasks.spawn(async move { server.connect().await });
        }
        let servers = Self { planned, starting: Mutex::new(starting), published: Mutex::default() };
        // A task that panicked leaves its server in the state "not reached", so its error is ignored here.
        while awaited.join_next().await.is_some() {}
        servers
    }

    /// Returns the tools of all servers, sorted by qualified name. The tools are rebuilt only when a server's list
    /// changed. The call does not wait for servers.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let (servers, reports): (Vec<_>, Vec<_>) = self.reports().unzip();
        let mut published = self.published.lock();
        let is_current = published.listed.len() == reports.len()
            && published
                .listed
                .iter()
                .zip(&reports)
                .all(|(listed, report)| Arc::ptr_eq(listed, &report.tools));
        if !is_current {
            published.listed = reports.iter().map(|report| Arc::clone(&report.tools)).collect();
            published.tools = build_tools(&servers, &reports);
        }
        published.tools.clone()
    }

    /// Returns the status of each configured server, sorted by name.
    pub fn status(&self) -> Vec<McpServerStatus> {
        let (servers, reports): (Vec<_>, Vec<_>) = self.reports().unzip();
        let mut names = qualified_names(&servers, &reports).into_iter();
        let mut reports = reports.into_iter();
        let status = self.planned.iter().map(|(planned, server)| {
            let report = server.as_ref().and_then(|_| reports.next()).unwrap_or_default();
            let tools = server.as_ref().and_then(|_| names.next()).unwrap_or_default();
            let (state, error) = server_state(&planned.readiness, report.health);
            McpServerStatus {
                name: planned.name.clone(),
                origin: planned.origin,
                target: planned.target.clone(),
                state,
                tools,
                error,
                notices: report.notices,
                log: server.as_ref().map(|server| server.log().to_owned()).filter(|log| log.exists()),
            }
        });
        status.collect()
    }

    /// Lists the tools again of servers that announced a change, and waits for these lists. Servers that could not be
    /// reached are connected again in the background, if their last attempt is long enough ago. Call it at the
    /// beginning of a run.
    pub async fn refresh(&self) {
        {
            let mut starting = self.starting.lock();
            while starting.try_join_next().is_some() {}
            for server in self.started_servers().filter(|server| server.is_retry_due()) {
                let server = Arc::clone(server);
                starting.spawn(async move { server.connect().await });
            }
        }
        join_all(self.started_servers().map(|server| server.refresh())).await;
    }

    /// Closes all connections. Programs get a moment to exit by themselves and are killed then.
    pub async fn close(self) {
        self.starting.lock().abort_all();
        join_all(self.started_servers().map(|server| server.close())).await;
    }

    /// Returns the servers that are ready by the plan.
    fn started_servers(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.planned.iter().filter_map(|(_, server)| server.as_ref())
    }

    /// Returns the same servers with their present reports.
    fn reports(&self) -> impl Iterator<Item = (&Arc<McpServer>, ServerReport)> {
        self.started_servers().map(|server| (server, server.report()))
    }
}

impl Drop for McpServers {
    fn drop(&mut self) {
        self.starting.lock().abort_all();
        for server in self.started_servers() {
            server.kill();
        }
    }
}

/// Builds the runtime tools of all servers, sorted by qualified name.
fn build_tools(servers: &[&Arc<McpServer>], reports: &[ServerReport]) -> Vec<Arc<dyn Tool>> {
    let mut tools = Vec::new();
    for ((server, report), names) in servers.iter().zip(reports).zip(qualified_names(servers, reports)) {
        for (listed, name) in report.tools.iter().zip(names) {
            tools.push(ServerTool {
                spec: listed.spec(name, server.name()),
                name: listed.name.clone(),
                repeat: listed.repeat(),
                server: Arc::clone(server),
            });
        }
    }
    tools.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect()
}

/// Returns the qualified names of each server's tools, in the order of its list. All servers are named together,
/// because names must be unique among them.
fn qualified_names(servers: &[&Arc<McpServer>], reports: &[ServerReport]) -> Vec<Vec<String>> {
    let pairs: Vec<(&str, &str)> = servers
        .iter()
        .zip(reports)
        .flat_map(|(server, report)| report.tools.iter().map(|tool| (server.name(), tool.name.as_str())))
        .collect();
    let mut names = qualified_names::qualify_names(&pairs).into_iter();
    reports.iter().map(|report| names.by_ref().take(report.tools.len()).collect()).collect()
}

/// Returns the state of a server and the error to show with it.
fn server_state(readiness: &ServerReadiness, health: ServerHealth) -> (McpServerState, Option<String>) {
    match (readiness, health) {
        (ServerReadiness::Ready(_), ServerHealth::Healthy) => (McpServerState::Ready, None),
        (ServerReadiness::Ready(_), ServerHealth::Unknown) => (McpServerState::Starting, None),
        (ServerReadiness::Ready(_), ServerHealth::Unreachable(reason)) => {
            (McpServerState::Failed, Some(reason))
        }
        (ServerReadiness::Disabled, _) => (McpServerState::Disabled, None),
        (ServerReadiness::Shadowed, _) => {
            (McpServerState::Shadowed, Some("config.toml has a server of this name".to_owned()))
        }
        (ServerReadiness::ConsentPending, _) => (McpServerState::ConsentPending, None),
        (ServerReadiness::ConsentRefused, _) => (McpServerState::ConsentRefused, None),
        (ServerReadiness::Invalid(reason), _) => (McpServerState::Invalid, Some(reason.clone())),
    }
}
