//! All servers of an agent: started side by side, none able to hold up or bring down the others.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use runtime::Tool;
use tokio::task::JoinSet;

use crate::config::plan::{ConfigOrigin, PlannedServer, ServerReadiness};
use crate::server::{McpServer, ServerHealth, ServerReport};
use crate::tool::listed_tool::ListedTool;
use crate::tool::{ServerTool, qualified_names};

/// Where servers run and what is kept about them.
#[derive(Debug, Clone)]
pub struct ServerFolders {
    /// The folder the agent works in.
    pub workspace: PathBuf,
    /// The project's folder in the home folder, for logs and known tools; it must exist.
    pub state_folder: PathBuf,
}

/// Start-up policy for a server whose tools are known from the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartupWait {
    /// It is not: it starts meanwhile, and a call waits for it.
    UseCachedTools,
    /// Every server is waited for, to see how it is.
    WaitForAll,
}

/// The current state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpServerState {
    /// It answered when it was last reached.
    Ready,
    /// It is being started; its tools are those of the last time.
    Starting,
    /// It could not be reached, or was lost; the next call tries again.
    Failed,
    /// It is switched off.
    Disabled,
    /// `config.toml` has a server of the same name, which counts.
    Shadowed,
    /// It is the project's, and nobody has been asked about it.
    ConsentPending,
    /// It is the project's, and a person said no.
    ConsentRefused,
    /// Its description makes no sense.
    Invalid,
}

/// A server as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerStatus {
    /// Its name.
    pub name: String,
    /// The author of the configuration.
    pub origin: ConfigOrigin,
    /// The command line or address, as written.
    pub target: String,
    /// The current state.
    pub state: McpServerState,
    /// The names of its tools as models know them.
    pub tools: Vec<String>,
    /// Why it is not what it could be.
    pub error: Option<String>,
    /// Further notices for the person.
    pub notices: Vec<String>,
    /// Where what it complained about is kept.
    pub log: Option<PathBuf>,
}

/// The servers of an agent. Dropping them ends the programs that were started.
#[derive(Default)]
pub struct McpServers {
    planned: Vec<(PlannedServer, Option<Arc<McpServer>>)>,
    /// Those that nobody waits for.
    starting: Mutex<JoinSet<()>>,
    /// The tools as they were told of last.
    published: Mutex<PublishedTools>,
}

/// The tools of all servers, made from what each of them listed.
#[derive(Default)]
struct PublishedTools {
    listed: Vec<Arc<[ListedTool]>>,
    tools: Vec<Arc<dyn Tool>>,
}

impl McpServers {
    /// Starts the servers that are ready, side by side, each with its own deadline.
    pub async fn connect(plan: Vec<PlannedServer>, folders: &ServerFolders, patience: StartupWait) -> Self {
        let servers = plan.into_iter().map(|planned| {
            let server = if let ServerReadiness::Ready(definition) = &planned.readiness {
                let definition = definition.clone();
                let (workspace, kept) = (&folders.workspace, &folders.state_folder);
                Some(Arc::new(McpServer::new(&planned.name, &planned.sha256, definition, workspace, kept)))
            } else {
                None
            };
            (planned, server)
        });
        let planned: Vec<_> = servers.collect();
        let (mut starting, mut awaited) = (JoinSet::new(), JoinSet::new());
        for server in planned.iter().filter_map(|(_, server)| server.clone()) {
            let is_known = server.load_known_tools() && patience == StartupWait::UseCachedTools;
            let tasks = if is_known { &mut starting } else { &mut awaited };
            tasks.spawn(async move { server.connect().await });
        }
        let servers = Self { planned, starting: Mutex::new(starting), published: Mutex::default() };
        // A server whose start breaks off on a fault of ours is one that was not reached.
        while awaited.join_next().await.is_some() {}
        servers
    }

    /// Returns the tools of all servers, in the order of their names: the same ones until a server lists others.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let (servers, reports): (Vec<_>, Vec<_>) = self.reports().unzip();
        let mut told = self.published.lock();
        let is_as_told = told.listed.len() == reports.len()
            && told.listed.iter().zip(&reports).all(|(listed, report)| Arc::ptr_eq(listed, &report.tools));
        if !is_as_told {
            told.listed = reports.iter().map(|report| Arc::clone(&report.tools)).collect();
            told.tools = build_tools(&servers, &reports);
        }
        told.tools.clone()
    }

    /// Returns how each server is, in the order of their names.
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

    /// Asks the servers for their tools again that said theirs changed, and tries those again, meanwhile, that could
    /// not be reached. Meant for the beginning of a run.
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

    /// Lets the servers end by themselves for a moment, then ends them.
    pub async fn close(self) {
        self.starting.lock().abort_all();
        join_all(self.started_servers().map(|server| server.close())).await;
    }

    fn started_servers(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.planned.iter().filter_map(|(_, server)| server.as_ref())
    }

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

/// Returns the tools that the servers listed, in the order of their names.
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

/// Returns the names of each server's tools.
fn qualified_names(servers: &[&Arc<McpServer>], reports: &[ServerReport]) -> Vec<Vec<String>> {
    let pairs: Vec<(&str, &str)> = servers
        .iter()
        .zip(reports)
        .flat_map(|(server, report)| report.tools.iter().map(|tool| (server.name(), tool.name.as_str())))
        .collect();
    let mut names = qualified_names::qualify_names(&pairs).into_iter();
    reports.iter().map(|report| names.by_ref().take(report.tools.len()).collect()).collect()
}

fn server_state(standing: &ServerReadiness, health: ServerHealth) -> (McpServerState, Option<String>) {
    match (standing, health) {
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
