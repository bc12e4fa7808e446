//! The MCP servers of the configuration and of the project: listing them, recording a person's consent to the
//! project's servers, testing and starting them. Permission rules decide which of their tools may be called.

use futures::future::BoxFuture;
use std::path::PathBuf;

use mcp::{
    ConsentDecision, McpServerState, McpServerStatus, McpServers, PlannedServer, ProjectConsents,
    ServerFolders, ServerReadiness, StartupWait,
};

use crate::AdminService;
use crate::Result;
use crate::agent::Agent;
use crate::home::create_private_folder;

impl<'a> AdminService<'a> {
    /// Returns the servers in `config.toml` and in the project's `.mcp.json`, each with whether it may be
    /// started. Starts nothing.
    ///
    /// # Errors
    /// Fails if the file of recorded consents cannot be read.
    pub fn planned_mcp_servers(self) -> Result<Vec<PlannedServer>> {
        let project = mcp::read_project(&self.agent.settings.workspace);
        let consents = ProjectConsents::read(&self.mcp_folder())?;
        let variable = |name: &str| std::env::var(name).ok();
        Ok(mcp::plan_servers(&self.agent.config.mcp.servers, &project, &consents, &variable))
    }

    /// Records a person's consent or refusal for a server of the project. It applies from the next process
    /// on, and only as long as the server's configuration is unchanged.
    ///
    /// # Errors
    /// Fails if the file of recorded consents cannot be read or written.
    pub fn record_mcp_consent(self, server: &PlannedServer, answer: ConsentDecision) -> Result<()> {
        let folder = self.create_mcp_folder()?;
        let mut consents = ProjectConsents::read(&folder)?;
        consents.record_decision(server, answer);
        Ok(consents.write(&folder)?)
    }

    /// Starts the server of that name, or all servers, waits until each has connected or failed, and returns
    /// their states. The servers are stopped again.
    ///
    /// # Errors
    /// Fails if the file of recorded consents cannot be read or the state folder cannot be created.
    pub fn test_mcp_servers(self, name: Option<&'a str>) -> BoxFuture<'a, Result<Vec<McpServerStatus>>> {
        journal::box_future(async move {
            let mut plan = self.planned_mcp_servers()?;
            plan.retain(|server| name.is_none_or(|name| server.name == name));
            let servers = self.agent.connect_mcp_servers(plan, StartupWait::WaitForAll).await?;
            let status = servers.status();
            servers.close().await;
            Ok(status)
        })
    }
}

impl Agent {
    /// Starts the servers that may be started; the first part is `None` if there are none. The second part
    /// contains notices for the person about the other servers.
    pub(crate) async fn start_mcp_servers(&self) -> Result<(Option<McpServers>, Vec<String>)> {
        let plan = match self.admin().planned_mcp_servers() {
            Ok(plan) => plan,
            // An unreadable file disables its servers but does not fail the turn.
            Err(error) => return Ok((None, vec![format!("no MCP server is used: failed to {error}")])),
        };
        let notices = plan.iter().filter_map(server_notice).collect();
        if !plan.iter().any(|server| matches!(server.readiness, ServerReadiness::Ready(_))) {
            return Ok((None, notices));
        }
        let servers = self.connect_mcp_servers(plan, StartupWait::UseCachedTools).await?;
        let mut notices: Vec<String> = notices;
        notices.extend(
            servers.status().into_iter().filter(|server| server.state == McpServerState::Failed).map(
                |server| {
                    let reason = server.error.unwrap_or_else(|| "it could not be reached".to_owned());
                    format!("the MCP server `{}` is not available: {reason}", server.name)
                },
            ),
        );
        Ok((Some(servers), notices))
    }

    /// Starts the servers of the plan. A server whose settings ask for the sandbox runs in one of its own.
    async fn connect_mcp_servers(&self, plan: Vec<PlannedServer>, wait: StartupWait) -> Result<McpServers> {
        let folders = self.admin().mcp_folders()?;
        let protected = [self.settings.home.root().to_owned()];
        let sandbox_with = |network| {
            let workspace = folders.workspace.clone();
            tools::sandbox_for_program(&self.config.sandbox, network, workspace, &protected)
        };
        Ok(McpServers::connect(plan, &folders, wait, sandbox_with).await)
    }
}

impl<'a> AdminService<'a> {
    /// Returns the workspace and the state folder that the servers use. Creates the state folder.
    fn mcp_folders(self) -> Result<ServerFolders> {
        Ok(ServerFolders {
            workspace: self.agent.settings.workspace.clone(),
            state_folder: self.create_mcp_folder()?,
        })
    }

    /// Returns the folder of the project's consents and server logs. It may not exist.
    fn mcp_folder(self) -> PathBuf {
        self.agent.project_folder().join("mcp")
    }

    /// Returns the folder of the project's consents and server logs, and creates it.
    fn create_mcp_folder(self) -> Result<PathBuf> {
        let folder = self.mcp_folder();
        create_private_folder(&folder)?;
        Ok(folder)
    }
}

/// Returns the notice for a person about a server that cannot be started; `None` if none is needed.
fn server_notice(server: &PlannedServer) -> Option<String> {
    let name = &server.name;
    match &server.readiness {
        ServerReadiness::ConsentPending => Some(format!(
            "the project's MCP server `{name}` is not started: it has not been approved yet (`segue mcp list`)"
        )),
        ServerReadiness::Invalid(reason) => Some(format!("the MCP server `{name}` cannot be used: {reason}")),
        ServerReadiness::Ready(_)
        | ServerReadiness::Disabled
        | ServerReadiness::Shadowed
        | ServerReadiness::ConsentRefused => None,
    }
}
