//! The tools of a process and the permission rules for them. They are created once, because the tools share
//! the record of files that were read, and because rules can be added while the process lives. The `tools`
//! crate applies the rules to calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compaction::COMPACT_CONVERSATION;
use handoff::REQUEST_HANDOFF;
use mcp::McpServers;
use memory::{RECALL, STORE};
use parking_lot::Mutex;
use protocol::AssistantId;
use runtime::Tool;
use tokio::sync::OnceCell;
use tools::Skills;
use tools::permission::{self, ApprovalPolicy, Permissions, RuleBook, SandboxedCommands};

use super::subagent::TASK_TOOL;
use crate::Result;
use crate::agent::Agent;
use crate::home::config::UserTools;

/// The number of cached toolboxes above which unused ones are dropped.
const TOOLBOXES_MAX: usize = 8;

/// The name of the tool that loads a skill.
const LOAD_SKILL_TOOL: &str = "load_skill";

/// The tools of one workspace, and the permission rules for them.
pub(crate) struct Toolbox {
    /// The built-in tools and those that the embedding program added.
    built_in_tools: Vec<Arc<dyn Tool>>,
    /// The tools of assistants without access to the machine.
    restricted_tools: Arc<[Arc<dyn Tool>]>,
    /// The MCP servers; `None` if none may be started.
    servers: Option<McpServers>,
    /// The skills of the home folder and the workspace.
    pub(crate) skills: Arc<Skills>,
    /// The permission rules.
    pub(crate) rules: Arc<RuleBook>,
    /// The list that [`Self::tools`] returned last.
    current_tools: Mutex<Arc<[Arc<dyn Tool>]>>,
    /// The tool that loads skills. It is offered only while skills exist.
    load_skill: Arc<dyn Tool>,
    /// Notices for a person that have not been shown yet.
    notices: Mutex<Vec<String>>,
}

impl Toolbox {
    /// Returns the current tools. Tools of servers and skills can appear and disappear. While the tools are
    /// the same, so is the returned `Arc`, which the graph cache compares by identity.
    pub(crate) async fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        let mut dynamic_tools = Vec::new();
        if !self.skills.catalog().skills.is_empty() {
            dynamic_tools.push(Arc::clone(&self.load_skill));
        }
        if let Some(servers) = &self.servers {
            servers.refresh().await;
            dynamic_tools.extend(servers.tools());
        }
        let current = || self.built_in_tools.iter().chain(&dynamic_tools);
        let mut last_list = self.current_tools.lock();
        let is_unchanged = last_list.len() == self.built_in_tools.len() + dynamic_tools.len()
            && last_list.iter().zip(current()).all(|(last_list, tool)| Arc::ptr_eq(last_list, tool));
        if !is_unchanged {
            *last_list = current().cloned().collect();
        }
        Arc::clone(&last_list)
    }

    /// Takes the notices for a person, so that each is shown once.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }
}

/// The toolboxes of folders other than the process's own, by folder.
#[derive(Default)]
pub(crate) struct Toolboxes {
    /// The toolboxes, each created at its first use.
    toolboxes: Mutex<BTreeMap<PathBuf, Arc<OnceCell<Toolbox>>>>,
}

impl Toolboxes {
    /// Returns the toolbox of the folder. Drops the toolboxes that no run uses if there are [`TOOLBOXES_MAX`]
    /// or more.
    pub(crate) fn toolbox_for(&self, workspace: &Path) -> Arc<OnceCell<Toolbox>> {
        let mut toolboxes = self.toolboxes.lock();
        if toolboxes.len() >= TOOLBOXES_MAX && !toolboxes.contains_key(workspace) {
            toolboxes.retain(|_, toolbox| Arc::strong_count(toolbox) > 1);
        }
        Arc::clone(toolboxes.entry(workspace.to_owned()).or_default())
    }

    /// Removes and returns all toolboxes.
    fn take_all(&self) -> Vec<Arc<OnceCell<Toolbox>>> {
        let mut toolboxes = self.toolboxes.lock();
        std::mem::take(&mut *toolboxes).into_values().collect()
    }
}

/// The access of an assistant to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssistantAccess {
    /// Access to the workspace, commands, skills and MCP servers.
    Machine,
    /// Access to nothing but its own conversations and memory.
    Conversation,
}

impl Agent {
    /// Returns the toolbox of this agent's workspace. The first call starts the MCP servers.
    ///
    /// # Errors
    /// Fails if the remembered rules cannot be read.
    pub(crate) async fn toolbox(&self) -> Result<&Toolbox> {
        self.toolbox.get_or_try_init(async || self.build_toolbox().await).await
    }
}

impl Agent {
    /// Returns the access of an assistant to this machine. An assistant of a user has the configured access,
    /// because the workspace belongs to the person at the machine.
    pub(crate) fn assistant_access(&self, assistant_id: &AssistantId) -> AssistantAccess {
        match (assistant_id.owner(), self.admin().user_tools()) {
            (None, _) | (Some(_), UserTools::All) => AssistantAccess::Machine,
            (Some(_), UserTools::None) => AssistantAccess::Conversation,
        }
    }

    /// Returns the tools of the process that the assistant may use.
    pub(crate) async fn shared_tools(&self, assistant_id: &AssistantId) -> Result<Arc<[Arc<dyn Tool>]>> {
        let toolbox = self.toolbox().await?;
        match self.assistant_access(assistant_id) {
            AssistantAccess::Machine => Ok(toolbox.tools().await),
            AssistantAccess::Conversation => Ok(Arc::clone(&toolbox.restricted_tools)),
        }
    }

    /// Builds the toolbox of this agent's workspace: tools, rules, MCP servers and skills.
    async fn build_toolbox(&self) -> Result<Toolbox> {
        let home = self.settings.home.root();
        let settings = tools::ToolSettings {
            protected: vec![home.to_owned()],
            secrets: self.models.key_env_variables(),
            shell: self.config.run.shell,
            sandbox: self.config.sandbox.clone(),
        };
        let mut built_in_tools = tools::builtin_tools(settings);
        built_in_tools.extend(self.extra_tools.iter().cloned());
        let trusted = [TASK_TOOL, LOAD_SKILL_TOOL, REQUEST_HANDOFF, RECALL, STORE, COMPACT_CONVERSATION];
        let trusted = trusted.map(str::to_owned).to_vec();
        let permissions = &self.config.permissions;
        let rules = RuleBook::open(permissions, trusted.clone(), Some(self.permissions_file()))?
            .with_sandboxed_commands(self.sandboxed_commands());
        let (servers, mut notices) = self.start_mcp_servers().await?;
        let known = built_in_tools.iter().map(|tool| tool.spec().name);
        let known: Vec<String> = known.chain(trusted).chain([memory::EDIT_MEMORY.to_owned()]).collect();
        notices.extend(unknown_tool_warnings(&rules.rules().permissions, &known));
        notices.extend(self.memory().summarizer_problem());
        let skills = Arc::new(Skills::new(&self.settings.home.skills_path(), &self.settings.workspace));
        Ok(Toolbox {
            built_in_tools,
            restricted_tools: tools::tools_without_workspace().into(),
            servers,
            load_skill: skills.tool(),
            skills,
            rules: Arc::new(rules),
            current_tools: Mutex::new(Arc::new([])),
            notices: Mutex::new(notices),
        })
    }

    /// Returns the default for commands in the sandbox.
    fn sandboxed_commands(&self) -> SandboxedCommands {
        match self.settings.approval_policy {
            ApprovalPolicy::Sandboxed => SandboxedCommands::Allow,
            ApprovalPolicy::Ask | ApprovalPolicy::Deny | ApprovalPolicy::Allow => {
                self.config.sandbox.commands
            }
        }
    }

    /// Returns the path of the file with this workspace's remembered rules.
    fn permissions_file(&self) -> PathBuf {
        permission::project_rules_path(self.settings.home.root(), &self.settings.workspace)
    }

    /// Returns the folder of this workspace inside the home folder. It may not exist.
    pub(crate) fn project_folder(&self) -> PathBuf {
        let file = self.permissions_file();
        file.parent().map_or_else(|| file.clone(), std::path::Path::to_owned)
    }
}

impl Agent {
    /// Stops the MCP servers: gives them a moment to exit, then ends them. Agents that share the servers
    /// ([`Agent::scoped`]) keep them until the last agent is closed or dropped.
    pub async fn close(self) {
        let others = Arc::into_inner(self.toolboxes).map(|others| others.take_all()).unwrap_or_default();
        for toolbox in std::iter::once(self.toolbox).chain(others) {
            let toolbox = Arc::into_inner(toolbox).and_then(OnceCell::into_inner);
            if let Some(servers) = toolbox.and_then(|toolbox| toolbox.servers) {
                servers.close().await;
            }
        }
    }
}

/// Returns a warning for each rule that matches no known tool, because a misspelled deny rule would protect
/// nothing. Rules for tools of MCP servers are not checked, because those tools are not known in advance.
fn unknown_tool_warnings(permissions: &Permissions, known: &[String]) -> Vec<String> {
    let rules = permissions.allow.iter().chain(&permissions.ask).chain(&permissions.deny);
    let unmatched =
        rules.filter(|rule| !known.iter().any(|tool| rule.matches_tool(tool))).map(ToString::to_string);
    let unmatched = unmatched.filter(|rule| !rule.starts_with("mcp__"));
    unmatched.map(|rule| format!("the rule `{rule}` matches no tool")).collect()
}
