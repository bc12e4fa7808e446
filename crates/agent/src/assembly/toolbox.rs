//! The tools of a process and the rules about them: made once, for the tools remember together which files were read, and
//! rules can be added while the process lives. What a rule says about a call is decided in the `tools` room.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use compaction::COMPACT_CONVERSATION;
use handoff::REQUEST_HANDOFF;
use mcp::Servers;
use memory::{RECALL, STORE};
use runtime::{Frame, Frames, Review, Subject, Tool};
use serde::Serialize;
use tools::permission::{self, Permissions, Rule, RuleBook, Scope, Verdict};
use tools::{Skills, SkillsFound};

use super::subagent::{self, TASK_TOOL};
use crate::agent::Agent;
use crate::{Error, Result};

/// The name of the tool that loads a skill.
const LOAD_SKILL: &str = "load_skill";

/// The tools there are, and the rules about them.
pub(crate) struct Toolbox {
    own: Vec<Arc<dyn Tool>>,
    servers: Option<Servers>,
    pub(crate) skills: Arc<Skills>,
    pub(crate) rules: Arc<RuleBook>,
    /// What a person should know, until it was told.
    notices: Mutex<Vec<String>>,
}

impl Toolbox {
    /// Returns the tools as they are at present: servers and skills come and go.
    pub(crate) async fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools = self.own.clone();
        if !self.skills.found().skills.is_empty() {
            tools.push(self.skills.tool());
        }
        if let Some(servers) = &self.servers {
            servers.refresh().await;
            tools.extend(servers.tools());
        }
        tools
    }

    /// Tells what a person should know, once.
    pub(crate) fn tell(&self, frames: &Frames) {
        for text in self.notices.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            frames.send(Frame::Notice { text });
        }
    }
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
        notices.extend(self.summariser_problem());
        let skills = Arc::new(Skills::new(&self.settings.home.skills(), &self.settings.workspace));
        Ok(Toolbox { own, servers, skills, rules: Arc::new(rules), notices: Mutex::new(notices) })
    }

    fn permissions_file(&self) -> PathBuf {
        permission::project_file(self.settings.home.root(), &self.settings.workspace)
    }

    /// Returns the folder of this workspace in the home folder; it may not exist.
    pub(crate) fn project_folder(&self) -> PathBuf {
        let file = self.permissions_file();
        file.parent().map_or_else(|| file.clone(), std::path::Path::to_owned)
    }

    /// Returns the tools the model is offered.
    ///
    /// # Errors
    /// When the remembered rules cannot be read.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>> {
        let tools = self.main_tools(&self.settings.assistant_id, None).await?;
        let rules = self.toolbox().await?.rules.rules();
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
    pub async fn skills(&self) -> Result<Arc<SkillsFound>> {
        Ok(self.toolbox().await?.skills.found())
    }

    /// Remembers a rule that allows calls like one a person has approved.
    ///
    /// # Errors
    /// When the project's rules cannot be written.
    pub async fn remember_rule(&self, rule: Rule, scope: Scope) -> Result<()> {
        self.toolbox().await?.rules.remember(rule, scope).map_err(Error::from)
    }

    /// Lets the servers that were started end by themselves for a moment, then ends them.
    pub async fn close(mut self) {
        if let Some(servers) = self.toolbox.take().and_then(|toolbox| toolbox.servers) {
            servers.close().await;
        }
    }
}

/// Returns a word about each rule that names no tool: one that refuses calls would protect nothing. The tools of servers
/// come and go, and are not looked at.
fn misspelt(permissions: &Permissions, known: &[String]) -> Vec<String> {
    let rules = permissions.allow.iter().chain(&permissions.ask).chain(&permissions.deny);
    let unknown = rules
        .filter(|rule| !known.iter().any(|tool| rule.names(tool)) && !rule.to_string().starts_with("mcp__"));
    unknown.map(|rule| format!("the rule `{rule}` names no tool there is")).collect()
}
