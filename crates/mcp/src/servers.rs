//! All servers of an agent: started side by side, none able to hold up or bring down the others.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use parking_lot::Mutex;
use runtime::Tool;
use tokio::task::JoinSet;

use crate::config::plan::{Planned, Source, Standing};
use crate::server::{Health, Report, Server};
use crate::tool::spec::Listed;
use crate::tool::{ServerTool, names};

/// Where servers run and what is kept about them.
#[derive(Debug, Clone)]
pub struct Folders {
    /// The folder the agent works in.
    pub workspace: PathBuf,
    /// The project's folder in the home folder, for logs and known tools; it must exist.
    pub kept: PathBuf,
}

/// Whether a server is waited for whose tools are known from the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It is not: it starts meanwhile, and a call waits for it.
    UseKnown,
    /// Every server is waited for, to see how it is.
    AskAll,
}

/// What a server is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerState {
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
    Unasked,
    /// It is the project's, and a person said no.
    Refused,
    /// Its description makes no sense.
    Broken,
}

/// A server as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// Who wrote it down.
    pub source: Source,
    /// What it starts or reaches, as written.
    pub what: String,
    /// What it is at the moment.
    pub state: ServerState,
    /// The names of its tools as models know them.
    pub tools: Vec<String>,
    /// Why it is not what it could be.
    pub error: Option<String>,
    /// What a person should know beside that.
    pub notices: Vec<String>,
    /// Where what it complained about is kept.
    pub log: Option<PathBuf>,
}

/// The servers of an agent. Dropping them ends the programs that were started.
#[derive(Default)]
pub struct Servers {
    planned: Vec<(Planned, Option<Arc<Server>>)>,
    /// Those that nobody waits for.
    starting: Mutex<JoinSet<()>>,
    /// The tools as they were told of last.
    told: Mutex<Told>,
}

/// The tools of all servers, made from what each of them listed.
#[derive(Default)]
struct Told {
    listed: Vec<Arc<[Listed]>>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Servers {
    /// Starts the servers that are ready, side by side, each with its own deadline.
    pub async fn connect(plan: Vec<Planned>, folders: &Folders, patience: Patience) -> Self {
        let servers = plan.into_iter().map(|planned| {
            let server = if let Standing::Ready(definition) = &planned.standing {
                let definition = definition.clone();
                let (workspace, kept) = (&folders.workspace, &folders.kept);
                Some(Arc::new(Server::new(&planned.name, &planned.sha256, definition, workspace, kept)))
            } else {
                None
            };
            (planned, server)
        });
        let planned: Vec<_> = servers.collect();
        let (mut starting, mut awaited) = (JoinSet::new(), JoinSet::new());
        for server in planned.iter().filter_map(|(_, server)| server.clone()) {
            let is_known = server.recall() && patience == Patience::UseKnown;
            let tasks = if is_known { &mut starting } else { &mut awaited };
            tasks.spawn(async move { server.connect().await });
        }
        let servers = Self { planned, starting: Mutex::new(starting), told: Mutex::default() };
        // A server whose start breaks off on a fault of ours is one that was not reached.
        while awaited.join_next().await.is_some() {}
        servers
    }

    /// Returns the tools of all servers, in the order of their names: the same ones until a server lists others.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let (servers, reports): (Vec<_>, Vec<_>) = self.reports().unzip();
        let mut told = self.told.lock();
        let is_as_told = told.listed.len() == reports.len()
            && told.listed.iter().zip(&reports).all(|(listed, report)| Arc::ptr_eq(listed, &report.tools));
        if !is_as_told {
            told.listed = reports.iter().map(|report| Arc::clone(&report.tools)).collect();
            told.tools = made(&servers, &reports);
        }
        told.tools.clone()
    }

    /// Returns how each server is, in the order of their names.
    pub fn status(&self) -> Vec<ServerStatus> {
        let (servers, reports): (Vec<_>, Vec<_>) = self.reports().unzip();
        let mut names = qualified(&servers, &reports).into_iter();
        let mut reports = reports.into_iter();
        let status = self.planned.iter().map(|(planned, server)| {
            let report = server.as_ref().and_then(|_| reports.next()).unwrap_or_default();
            let tools = server.as_ref().and_then(|_| names.next()).unwrap_or_default();
            let (state, error) = state(&planned.standing, report.health);
            ServerStatus {
                name: planned.name.clone(),
                source: planned.source,
                what: planned.what.clone(),
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
            for server in self.started().filter(|server| server.is_due()) {
                let server = Arc::clone(server);
                starting.spawn(async move { server.connect().await });
            }
        }
        join_all(self.started().map(|server| server.refresh())).await;
    }

    /// Lets the servers end by themselves for a moment, then ends them.
    pub async fn close(self) {
        self.starting.lock().abort_all();
        join_all(self.started().map(|server| server.close())).await;
    }

    fn started(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.planned.iter().filter_map(|(_, server)| server.as_ref())
    }

    fn reports(&self) -> impl Iterator<Item = (&Arc<Server>, Report)> {
        self.started().map(|server| (server, server.report()))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.starting.lock().abort_all();
        for server in self.started() {
            server.end();
        }
    }
}

/// Returns the tools that the servers listed, in the order of their names.
fn made(servers: &[&Arc<Server>], reports: &[Report]) -> Vec<Arc<dyn Tool>> {
    let mut tools = Vec::new();
    for ((server, report), names) in servers.iter().zip(reports).zip(qualified(servers, reports)) {
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
fn qualified(servers: &[&Arc<Server>], reports: &[Report]) -> Vec<Vec<String>> {
    let pairs: Vec<(&str, &str)> = servers
        .iter()
        .zip(reports)
        .flat_map(|(server, report)| report.tools.iter().map(|tool| (server.name(), tool.name.as_str())))
        .collect();
    let mut names = names::qualified(&pairs).into_iter();
    reports.iter().map(|report| names.by_ref().take(report.tools.len()).collect()).collect()
}

fn state(standing: &Standing, health: Health) -> (ServerState, Option<String>) {
    match (standing, health) {
        (Standing::Ready(_), Health::Well) => (ServerState::Ready, None),
        (Standing::Ready(_), Health::Unknown) => (ServerState::Starting, None),
        (Standing::Ready(_), Health::Ill(reason)) => (ServerState::Failed, Some(reason)),
        (Standing::Disabled, _) => (ServerState::Disabled, None),
        (Standing::Shadowed, _) => {
            (ServerState::Shadowed, Some("config.toml has a server of this name".to_owned()))
        }
        (Standing::Unasked, _) => (ServerState::Unasked, None),
        (Standing::Refused, _) => (ServerState::Refused, None),
        (Standing::Broken(reason), _) => (ServerState::Broken, Some(reason.clone())),
    }
}
