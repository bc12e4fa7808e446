//! The capabilities of the server: its models, and its agent with folder and tools.

use agent::{ModelStatus, ToolInfo};
use axum::Json;
use langgraph::{ApiError, Caller};
use serde::Serialize;
use utoipa::ToSchema;

/// The models that can be used.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelsBody {
    /// The default model as `provider/name`; `null` if handoffs use the offline summary.
    default: Option<String>,
    /// The setting that chose the default model. Only the local operator sees it.
    default_from: Option<String>,
    /// The reason why the default model cannot be used, if it cannot. Only the local operator sees it.
    problem: Option<String>,
    /// All providers.
    providers: Vec<ProviderShape>,
}

/// A model provider.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProviderShape {
    /// The name of the provider, as in `provider/name`.
    provider: String,
    /// True if its models can be used.
    configured: bool,
    /// The source of its API key, or the missing setting. Only the local operator sees it.
    reason: Option<String>,
}

impl From<ModelStatus> for ModelsBody {
    fn from(status: ModelStatus) -> Self {
        let providers = status.providers.into_iter().map(|provider| ProviderShape {
            provider: provider.provider,
            configured: provider.configured,
            reason: Some(provider.reason),
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
    /// Removes details of the machine (files, variables, addresses) for users other than the local operator.
    fn redacted_for_users(self) -> Self {
        let providers = self.providers.into_iter().map(|provider| ProviderShape { reason: None, ..provider });
        let providers = providers.collect();
        Self { default: self.default, default_from: None, problem: None, providers }
    }
}

/// Returns the models that can be used, and why others cannot
#[utoipa::path(get, path = "/api/models", tag = "segue", operation_id = "models",
    responses((status = 200, body = ModelsBody)))]
pub(crate) async fn list_models(caller: Caller) -> Json<ModelsBody> {
    let models = ModelsBody::from(caller.agent.model_status());
    Json(if caller.agent.user().is_some() { models.redacted_for_users() } else { models })
}

/// The agent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AgentBody {
    /// The assistant's name.
    assistant_id: String,
    /// The user whose agent it is; `null` for the local operator.
    user_id: Option<String>,
    /// The folder of its tools. Only the local operator sees it.
    workspace: Option<String>,
    /// Its model, as `provider/name`.
    model: Option<String>,
    /// Its tools.
    tools: Vec<ToolShape>,
    /// The version of the server.
    version: &'static str,
}

/// A tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolShape {
    /// The name of the tool.
    name: String,
    /// The description of the tool.
    description: String,
    /// `built in` or `mcp`.
    source: &'static str,
    /// The default rule for calls of the tool: `allow`, `ask` or `deny`.
    rule: &'static str,
}

impl From<ToolInfo> for ToolShape {
    fn from(tool: ToolInfo) -> Self {
        Self { name: tool.name, description: tool.description, source: tool.source, rule: tool.rule }
    }
}

/// Returns the agent with its user, folder, model and tools
#[utoipa::path(get, path = "/api/agent", tag = "segue", operation_id = "agent",
    responses((status = 200, body = AgentBody)))]
pub(crate) async fn get_agent(caller: Caller) -> Result<Json<AgentBody>, ApiError> {
    let agent = &caller.agent;
    Ok(Json(AgentBody {
        assistant_id: agent.assistant_id().name().to_owned(),
        user_id: agent.user().map(ToString::to_string),
        workspace: agent.user().is_none().then(|| agent.workspace().to_string_lossy().into_owned()),
        model: agent.model_status().default,
        tools: agent.admin().tools().await?.into_iter().map(ToolShape::from).collect(),
        version: env!("CARGO_PKG_VERSION"),
    }))
}
