//! The tools of a process and the rules about them: made once, for the tools remember together which files were read, and
//! rules can be added while the process lives. What a rule says about a call is decided in the `tools` room.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use compaction::COMPACT_CONVERSATION;
use handoff::REQUEST_HANDOFF;
use mcp::Servers;
use memory::{RECALL, STORE};
use parking_lot::Mutex;
use protocol::AssistantId;
use runtime::{Review, Subject, Tool};
use serde::Serialize;
use tokio::sync::OnceCell;
use tools::permission::{self, Permissions, Rule, RuleBook, Scope, Verdict};
use tools::{Skills, SkillsFound};

use super::subagent::{self, TASK_TOOL};
use crate::agent::Agent;
use crate::agent::services::AdminService;
use crate::home::config::UserTools;
use crate::{Error, Result};

/// The folders whose tools are kept while no run uses them.
const TOOLBOXES_MAX: usize = 8;

/// The name of the tool that loads a skill.
const LOAD_SKILL: &str = "load_skill";

/// The tools there are, and the rules about them.
pub(crate) struct Toolbox {
    own: Vec<Arc<dyn Tool>>,
    /// The tools of those who have nothing of the machine.
    apart: Arc<[Arc<dyn Tool>]>,
    servers: Option<Servers>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) rules: Arc<RuleBook>,
    /// The tools as they were last.
    listed: Mutex<Arc<[Arc<dyn Tool>]>>,
    /// The tool that loads skills, where there are any.
    load_skill: Arc<dyn Tool>,
    /// What a person should know, until it was told.
    notices: Mutex<Vec<String>>,
}

impl Toolbox {
    /// Returns the tools as they are at present: servers and skills come and go. While they are the same, so is the list.
    pub(crate) async fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        let mut come = Vec::new();
        if !self.skills.found().skills.is_empty() {
            come.push(Arc::clone(&self.load_skill));
        }
        if let Some(servers) = &self.servers {
            servers.refresh().await;
            come.extend(servers.tools());
        }
        let present = || self.own.iter().chain(&come);
        let mut listed = self.listed.lock();
        let is_as_listed = listed.len() == self.own.len() + come.len()
            && listed.iter().zip(present()).all(|(listed, tool)| Arc::ptr_eq(listed, tool));
        if !is_as_listed {
            *listed = present().cloned().collect();
        }
        Arc::clone(&listed)
    }

    /// Returns what a person should know, once.
    pub(crate) fn notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock())
    }
}

/// The tools of the folders in which runs work beside the process's own, by folder.
#[derive(Default)]
pub(crate) struct Toolboxes {
    kept: Mutex<BTreeMap<PathBuf, Arc<OnceCell<Toolbox>>>>,
}

impl Toolboxes {
    /// Returns the tools of the folder. Those of other folders that no run uses are dropped where there are too many.
    pub(crate) fn of(&self, workspace: &Path) -> Arc<OnceCell<Toolbox>> {
        let mut kept = self.kept.lock();
        if kept.len() >= TOOLBOXES_MAX && !kept.contains_key(workspace) {
            kept.retain(|_, toolbox| Arc::strong_count(toolbox) > 1);
        }
        Arc::clone(kept.entry(workspace.to_owned()).or_default())
    }

    /// Takes all of them out.
    fn take(&self) -> Vec<Arc<OnceCell<Toolbox>>> {
        let mut kept = self.kept.lock();
        std::mem::take(&mut *kept).into_values().collect()
    }
}

/// What an assistant has of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The workspace, commands, skills and servers of tools.
    Machine,
    /// Nothing but its own conversations and memory.
    Conversation,
}

/// A tool, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it is for, as models read it.
    pub description: String,
    /// Where it comes from: `built in`, or `mcp`.
    pub source: &'static str,
    /// What becomes of a call about which no pattern says more: `allow`, `ask` or `deny`.
    pub rule: &'static str,
}

impl Agent {
    pub(crate) async fn toolbox(&self) -> Result<&Toolbox> {
        self.toolbox.get_or_try_init(async || self.make_toolbox().await).await
    }
}

impl AdminService<'_> {
    /// Returns what of the machine the agents of users may use.
    pub fn user_tools(self) -> UserTools {
        self.agent.config.serve.user_tools
    }
}

impl Agent {
    /// Returns what the assistant has of the machine: a user's is given what the settings say, for the workspace is not
    /// theirs.
    pub(crate) fn reach(&self, assistant_id: &AssistantId) -> Reach {
        match (assistant_id.owner(), self.admin().user_tools()) {
            (None, _) | (Some(_), UserTools::All) => Reach::Machine,
            (Some(_), UserTools::None) => Reach::Conversation,
        }
    }

    /// Returns the tools of the process that the assistant has.
    pub(super) async fn shared_tools(&self, assistant_id: &AssistantId) -> Result<Arc<[Arc<dyn Tool>]>> {
        let toolbox = self.toolbox().await?;
        match self.reach(assistant_id) {
            Reach::Machine => Ok(toolbox.tools().await),
            Reach::Conversation => Ok(Arc::clone(&toolbox.apart)),
        }
    }

    async fn make_toolbox(&self) -> Result<Toolbox> {
        let home = self.settings.home.root();
        let settings =
            tools::Settings { protected: vec![home.to_owned()], secrets: self.models.key_variables() };
        let mut own = tools::all(settings);
        own.extend(self.own_tools.iter().cloned());
        let trusted = [TASK_TOOL, LOAD_SKILL, REQUEST_HANDOFF, RECALL, STORE, COMPACT_CONVERSATION];
        let trusted = trusted.map(str::to_owned).to_vec();
        let permissions = &self.config.permissions;
        let rules = RuleBook::open(permissions, trusted.clone(), Some(self.permissions_file()))?;
        let (servers, mut notices) = self.start_servers().await?;
        let known = own.iter().map(|tool| tool.spec().name);
        let known: Vec<String> = known.chain(trusted).chain([memory::EDIT_MEMORY.to_owned()]).collect();
        notices.extend(misspelt(&rules.rules().permissions, &known));
        notices.extend(self.memory().summariser_problem());
        let skills = Arc::new(Skills::new(&self.settings.home.skills(), &self.settings.workspace));
        Ok(Toolbox {
            own,
            apart: tools::apart().into(),
            servers,
            load_skill: skills.tool(),
            skills,
            rules: Arc::new(rules),
            listed: Mutex::new(Arc::new([])),
            notices: Mutex::new(notices),
        })
    }

    fn permissions_file(&self) -> PathBuf {
        permission::project_file(self.settings.home.root(), &self.settings.workspace)
    }

    /// Returns the folder of this workspace in the home folder; it may not exist.
    pub(crate) fn project_folder(&self) -> PathBuf {
        let file = self.permissions_file();
        file.parent().map_or_else(|| file.clone(), std::path::Path::to_owned)
    }
}

impl AdminService<'_> {
    /// Returns the tools the model is offered.
    ///
    /// # Errors
    /// When the remembered rules cannot be read.
    pub async fn tools(self) -> Result<Vec<ToolInfo>> {
        let toolbox = self.agent.toolbox().await?;
        let assistant_id = &self.agent.settings.assistant_id;
        let tools =
            self.agent.main_tools(assistant_id, None, &self.agent.shared_tools(assistant_id).await?).await?;
        let rules = toolbox.rules.rules();
        let specs = tools.iter().map(|tool| tool.spec()).chain([subagent::spec()]);
        let info = specs.map(|spec| {
            let source = if spec.name.starts_with("mcp__") { "mcp" } else { "built in" };
            // A call about something no pattern names.
            let subject = match spec.name.as_str() {
                "execute" => Subject::Command("\u{2026}".to_owned()),
                _ => Subject::Path("\u{2026}".into()),
            };
            let review = Review { subjects: vec![subject], ..Review::default() };
            let rule = match permission::decide(&rules, &spec.name, &review) {
                Verdict::Allow { .. } => "allow",
                Verdict::Ask { .. } => "ask",
                Verdict::Deny { .. } => "deny",
            };
            ToolInfo { name: spec.name, description: spec.description, source, rule }
        });
        Ok(info.collect())
    }

    /// Returns the skills there are, and what is wrong with others.
    ///
    /// # Errors
    /// When the toolbox cannot be made.
    pub async fn skills(self) -> Result<Arc<SkillsFound>> {
        Ok(self.agent.toolbox().await?.skills.found())
    }

    /// Remembers a rule that allows calls in `workspace` like one a person has approved there.
    ///
    /// # Errors
    /// When the project's rules cannot be written.
    pub async fn remember_rule(self, workspace: &Path, rule: Rule, scope: Scope) -> Result<()> {
        let agent = self.agent.in_workspace(workspace);
        agent.toolbox().await?.rules.remember(rule, scope).map_err(Error::from)
    }
}

impl Agent {
    /// Lets the servers that were started end by themselves for a moment, then ends them. Agents that share them
    /// ([`Agent::scoped`]) use them until the last one is closed or dropped.
    pub async fn close(self) {
        let others = Arc::into_inner(self.toolboxes).map(|others| others.take()).unwrap_or_default();
        for toolbox in std::iter::once(self.toolbox).chain(others) {
            let toolbox = Arc::into_inner(toolbox).and_then(OnceCell::into_inner);
            if let Some(servers) = toolbox.and_then(|toolbox| toolbox.servers) {
                servers.close().await;
            }
        }
    }
}

/// Returns a word about each rule that names no tool: one that refuses calls would protect nothing. The tools of servers
/// come and go, and are not looked at.
fn misspelt(permissions: &Permissions, known: &[String]) -> Vec<String> {
    let rules = permissions.allow.iter().chain(&permissions.ask).chain(&permissions.deny);
    let unknown = rules.filter(|rule| !known.iter().any(|tool| rule.names(tool))).map(ToString::to_string);
    let unknown = unknown.filter(|named| !named.starts_with("mcp__"));
    unknown.map(|named| format!("the rule `{named}` names no tool there is")).collect()
}
