//! The MCP servers of the settings and of the project: which there are, a person's consent to the project's, and the ones
//! that were started. What a server may do is decided by the rules about tool calls.

use std::path::PathBuf;

use mcp::{Answer, Consents, Folders, Patience, Planned, ServerState, ServerStatus, Servers, Standing};

use crate::Result;
use crate::agent::Agent;
use crate::agent::services::AdminService;
use crate::home::create_private;

impl AdminService<'_> {
    /// Returns the servers that are written down, in `config.toml` and in the project's `.mcp.json`, and what comes of
    /// each. Nothing is started.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn mcp_plan(self) -> Result<Vec<Planned>> {
        let project = mcp::read_project(&self.agent.settings.workspace);
        let consents = Consents::read(&self.mcp_folder())?;
        let variable = |name: &str| std::env::var(name).ok();
        Ok(mcp::plan(&self.agent.config.mcp.servers, &project, &consents, &variable))
    }

    /// Keeps a person's answer about a server of the project. It counts from the next process on, and as long as the
    /// server's description stays as it is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn mcp_consent(self, server: &Planned, answer: Answer) -> Result<()> {
        let folder = self.made_mcp_folder()?;
        let mut consents = Consents::read(&folder)?;
        consents.record(server, answer);
        Ok(consents.write(&folder)?)
    }

    /// Starts the servers of that name, or all, waits for each, and tells how it is.
    ///
    /// # Errors
    /// When what is written down cannot be read.
    pub async fn mcp_test(self, name: Option<&str>) -> Result<Vec<ServerStatus>> {
        let mut plan = self.mcp_plan()?;
        plan.retain(|server| name.is_none_or(|name| server.name == name));
        let servers = Servers::connect(plan, &self.mcp_folders()?, Patience::AskAll).await;
        let status = servers.status();
        servers.close().await;
        Ok(status)
    }
}

impl Agent {
    /// Starts the servers that may be started; `None` when none is written down. What a person should know about the
    /// others is the second part.
    pub(crate) async fn start_servers(&self) -> Result<(Option<Servers>, Vec<String>)> {
        let plan = match self.admin().mcp_plan() {
            Ok(plan) => plan,
            // A file that cannot be read costs its servers, not the turn.
            Err(error) => return Ok((None, vec![format!("no MCP server is used: failed to {error}")])),
        };
        let notices = plan.iter().filter_map(notice).collect();
        if !plan.iter().any(|server| matches!(server.standing, Standing::Ready(_))) {
            return Ok((None, notices));
        }
        let servers = Servers::connect(plan, &self.admin().mcp_folders()?, Patience::UseKnown).await;
        let mut notices: Vec<String> = notices;
        notices.extend(
            servers.status().into_iter().filter(|server| server.state == ServerState::Failed).map(|server| {
                let why = server.error.unwrap_or_else(|| "it could not be reached".to_owned());
                format!("the MCP server `{}` is not there: {why}", server.name)
            }),
        );
        Ok((Some(servers), notices))
    }
}

impl AdminService<'_> {
    fn mcp_folders(self) -> Result<Folders> {
        Ok(Folders { workspace: self.agent.settings.workspace.clone(), kept: self.made_mcp_folder()? })
    }

    fn mcp_folder(self) -> PathBuf {
        self.agent.project_folder().join("mcp")
    }

    fn made_mcp_folder(self) -> Result<PathBuf> {
        let folder = self.mcp_folder();
        create_private(&folder)?;
        Ok(folder)
    }
}

fn notice(server: &Planned) -> Option<String> {
    let name = &server.name;
    match &server.standing {
        Standing::Unasked => Some(format!(
            "the project's MCP server `{name}` is not started: nobody has agreed to it yet (`segue mcp list`)"
        )),
        Standing::Broken(reason) => Some(format!("the MCP server `{name}` cannot be used: {reason}")),
        Standing::Ready(_) | Standing::Disabled | Standing::Shadowed | Standing::Refused => None,
    }
}
