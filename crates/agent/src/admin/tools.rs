//! The tools and skills of the agent, and the permission rules for tool calls. The `tools` crate applies the rules.

use futures::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;

use runtime::{CallReview, CallSubject};
use serde::Serialize;
use tools::SkillCatalog;
use tools::permission::{self, PermissionRule, PermissionVerdict, RuleScope};

use crate::assembly::subagent;
use crate::home::config::UserTools;
use crate::{AdminService, Error, Result};

/// A tool in the list of tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// The description that models receive.
    pub description: String,
    /// Its source: `built in` or `mcp`.
    pub source: &'static str,
    /// The default verdict for a call that no pattern matches: `allow`, `ask` or `deny`.
    pub rule: &'static str,
}

impl<'a> AdminService<'a> {
    /// Returns the access of the users' agents to this machine.
    pub fn user_tools(self) -> UserTools {
        self.agent.config.serve.user_tools
    }

    /// Returns the tools that the model is offered, each with its default verdict.
    ///
    /// # Errors
    /// Fails if the remembered rules cannot be read.
    pub fn tools(self) -> BoxFuture<'a, Result<Vec<ToolInfo>>> {
        journal::box_future(async move {
            let toolbox = self.agent.toolbox().await?;
            let assistant_id = &self.agent.settings.assistant_id;
            let tools = self
                .agent
                .main_tools(assistant_id, None, &self.agent.shared_tools(assistant_id).await?)
                .await?;
            let rules = toolbox.rules.rules();
            let specs = tools.iter().map(|tool| tool.spec()).chain([subagent::task_tool_spec()]);
            let info = specs.map(|spec| {
                let source = if spec.name.starts_with("mcp__") { "mcp" } else { "built in" };
                // An ellipsis is a command and path that no pattern matches, so that the tool's default verdict
                // results.
                let subject = match spec.name.as_str() {
                    "execute" => CallSubject::Command("\u{2026}".to_owned()),
                    _ => CallSubject::Path("\u{2026}".into()),
                };
                let review = CallReview { subjects: vec![subject], ..CallReview::default() };
                let rule = match permission::decide_call(&rules, &spec.name, &review) {
                    PermissionVerdict::Allow { .. } => "allow",
                    PermissionVerdict::Ask { .. } => "ask",
                    PermissionVerdict::Deny { .. } => "deny",
                };
                ToolInfo { name: spec.name, description: spec.description, source, rule }
            });
            Ok(info.collect())
        })
    }

    /// Returns the available skills, and the problems of unusable ones.
    ///
    /// # Errors
    /// Fails if the remembered rules cannot be read, because the toolbox cannot be built then.
    pub fn skills(self) -> BoxFuture<'a, Result<Arc<SkillCatalog>>> {
        journal::box_future(async move { Ok(self.agent.toolbox().await?.skills.catalog()) })
    }

    /// Adds a permission rule for calls in `workspace`, like one that a person approved there.
    ///
    /// # Errors
    /// Fails if the toolbox cannot be built, or if the file of the project's rules cannot be written.
    pub fn remember_rule(
        self,
        workspace: &'a Path,
        rule: PermissionRule,
        scope: RuleScope,
    ) -> BoxFuture<'a, Result<()>> {
        journal::box_future(async move {
            let agent = self.agent.with_workspace(workspace);
            agent.toolbox().await?.rules.remember(rule, scope).map_err(Error::from)
        })
    }
}
