//! What there is to work with: models, and the agent with its folder and tools.

use agent::{ModelStatus, ToolInfo};
use axum::Json;
use langgraph::{Caller, Fault};
use serde::Serialize;
use utoipa::ToSchema;

/// Which models can be used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelsBody {
    /// `provider/name` of the one in use; `null` means that handoffs are written by the offline extract.
    default: Option<String>,
    /// Where that was set; told to the person at the machine only.
    default_from: Option<String>,
    /// Why it cannot be used, when it cannot; told to the person at the machine only.
    problem: Option<String>,
    /// Every provider.
    providers: Vec<ProviderShape>,
}

/// One provider.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProviderShape {
    /// Its name, as used in `provider/name`.
    provider: String,
    /// Whether a model of it can be used.
    configured: bool,
    /// Where the key was found, or what is missing; told to the person at the machine only.
    reason: Option<String>,
}

impl From<ModelStatus> for ModelsBody {
    fn from(status: ModelStatus) -> Self {
        let providers = status.providers.into_iter().map(|found| ProviderShape {
            provider: found.provider,
            configured: found.configured,
            reason: Some(found.reason),
        });
        Self {
            default: status.default,
            default_from: status.default_from,
            problem: status.problem,
            providers: providers.collect(),
        }
    }
}

impl ModelsBody {
    /// Leaves out what tells of the machine: files, variables, addresses.
    fn for_users(self) -> Self {
        let providers = self.providers.into_iter().map(|found| ProviderShape { reason: None, ..found });
        let providers = providers.collect();
        Self { default: self.default, default_from: None, problem: None, providers }
    }
}

/// Returns which models can be used, and why others cannot
#[utoipa::path(get, path = "/api/models", tag = "segue", operation_id = "models",
    responses((status = 200, body = ModelsBody)))]
pub(crate) async fn models(caller: Caller) -> Json<ModelsBody> {
    let models = ModelsBody::from(caller.agent.models());
    Json(if caller.agent.user().is_some() { models.for_users() } else { models })
}

/// The agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentBody {
    /// The assistant's name.
    assistant_id: String,
    /// Whose it is; `null` means of the person at the machine.
    user_id: Option<String>,
    /// The folder its tools work in; told to the person at the machine only.
    workspace: Option<String>,
    /// `provider/name` of its model.
    model: Option<String>,
    /// What it can do.
    tools: Vec<ToolShape>,
    /// The version of the server.
    version: &'static str,
}

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolShape {
    /// Its name.
    name: String,
    /// What it is for.
    description: String,
    /// `built in` or `mcp`.
    source: &'static str,
    /// What becomes of a call about which no rule says more: `allow`, `ask` or `deny`.
    rule: &'static str,
}

impl From<ToolInfo> for ToolShape {
    fn from(tool: ToolInfo) -> Self {
        Self { name: tool.name, description: tool.description, source: tool.source, rule: tool.rule }
    }
}

/// Returns the agent: whose it is, where it works, what it can do
#[utoipa::path(get, path = "/api/agent", tag = "segue", operation_id = "agent",
    responses((status = 200, body = AgentBody)))]
pub(crate) async fn agent(caller: Caller) -> Result<Json<AgentBody>, Fault> {
    let agent = &caller.agent;
    Ok(Json(AgentBody {
        assistant_id: agent.assistant_id().name().to_owned(),
        user_id: agent.user().map(ToString::to_string),
        workspace: agent.user().is_none().then(|| agent.workspace().to_string_lossy().into_owned()),
        model: agent.models().default,
        tools: agent.admin().tools().await?.into_iter().map(ToolShape::from).collect(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
