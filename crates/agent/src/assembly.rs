//! Assembly of the graph of a run: its nodes, and its hooks in their fixed order. Every run that a front end
//! starts uses it.
//!
//! A turn passes through `before_agent` → `model` → `after_model` → `tools` → `model` … → `after_agent`, and
//! then through the nodes that clean up after the first turn of a handoff's child thread. The hooks around
//! the model, outermost first:
//!
//! 1. `Instructions`: the standing instructions, the same bytes for a whole run.
//! 2. `ProjectNotes`: the `AGENTS.md` of the repository's root and of the folders down to the workspace, as conventions.
//! 3. `Skills`: the names of the available skills.
//! 4. `PinsHook`: the pins of the thread, which change only when a person changes them.
//! 5. `TieredMemoryHook`: recent summaries of medium-term memory, the same for a whole run. Sub-agents do not
//!    receive them.
//! 6. `AgentMdHook`: `agent.md`, and in a child thread the handoff summary. It adds the
//!    last part of the system prompt, because `agent.md` changes most often, even within a run, and a
//!    provider's prompt cache ends at the first difference between two requests. Summaries change at most
//!    between turns. The hook also protects the managed block from tool calls.
//! 7. `ModelCallLimit`: the most model calls of one run.
//! 8. `ToolApproval`: allows, asks about or refuses the tool calls of an answer.
//! 9. The hooks that a program adds with `Agent::with_hook`.
//! 10. `CompactionHook`: decides whether the conversation is compacted first. It is last, so that it counts
//!     everything that the other hooks added.
//!
//! Before a compaction takes effect, `MemoryFlush` queues the compacted messages for memory in the same
//! transaction, and the configured `compaction.before` hooks may veto the compaction.

mod call_limit;
mod graph_cache;
mod instructions;
mod memory_flush;
pub(crate) mod models;
pub(crate) mod project_notes;
mod run_purpose;
pub(crate) mod subagent;
pub(crate) mod toolbox;
mod unavailable_nodes;
mod veto_hook;

use std::sync::Arc;
use std::time::Duration;

use compaction::{BeforeCompactionHook, CompactConversationTool, CompactionHook, CompactionNode, Compactor};
use handoff::{
    ClearBlockActivity, DraftSettings, HandoffApproval, HandoffCleanup, HandoffResult, HandoffSummarization,
    HandoffTool, MarkFirstTurn,
};
use memory::{AgentMdHook, EditMemoryTool, MemoryScope, PinsHook, RecallTool, StoreTool, TieredMemoryHook};
use model::ChatModel;
use protocol::AssistantId;
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, ActivityRegistry, Breakpoints, Channels, Driver, DriverLimits, Edge,
    FailureKind, Graph, Hook, HookPoint, HooksNode, MODEL_NODE, ModelNode, StepFailure, TOOLS_NODE, Tool,
    ToolsNode,
};
use tokio_util::sync::CancellationToken;
use tools::ToolApproval;
use user_hooks::HookEvent;

use self::call_limit::ModelCallLimit;
pub(crate) use self::graph_cache::GraphCache;
use self::graph_cache::{AssembledGraph, GraphInputs};
use self::instructions::Instructions;
use self::memory_flush::MemoryFlush;
use self::project_notes::ProjectNotes;
pub(crate) use self::run_purpose::RunPurpose;
use self::run_purpose::entry_node;
use self::subagent::{SubagentTool, task_tool_spec};
use self::toolbox::AssistantAccess;
use self::veto_hook::VetoHook;
use crate::agent::Agent;
use crate::{Error, Result};

/// The text that replaces the path of the workspace in the prompt of an agent without access to the machine.
const NO_WORKSPACE_TEXT: &str = "none, and no commands: there is only what is said here, and your memory";

/// The model of a run, and the compactor for its conversation.
pub(crate) struct ModelAndCompactor<'a> {
    /// The model that answers in the run.
    model: &'a Arc<dyn ChatModel>,
    /// The compactor that keeps requests to this model within its window.
    compactor: &'a Arc<Compactor>,
}

/// The role of the agent that a graph is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentRole {
    /// The thread's own agent.
    Main,
    /// An agent that another agent gave a task to, in a thread of its own.
    Subagent,
}

impl Agent {
    /// Returns a driver for runs of `assistant_id` with `model`. Reuses a cached graph if its inputs are
    /// unchanged. Only the graph of a turn has tools, so that a handoff does not wait for MCP servers.
    ///
    /// # Errors
    /// Fails if the tools cannot be set up, or if no lease can be taken.
    pub(crate) async fn driver(
        &self,
        assistant_id: &AssistantId,
        model: Option<&Arc<dyn ChatModel>>,
        purpose: RunPurpose,
    ) -> Result<Driver> {
        let tools = match (model, purpose) {
            (Some(_), RunPurpose::Turn) => Some(self.shared_tools(assistant_id).await?),
            (Some(_) | None, _) => None,
        };
        let inputs =
            GraphInputs { assistant_id: assistant_id.clone(), model: model.cloned(), purpose, tools };
        let assembly = match self.graph_cache.get(&inputs) {
            Some(cached) => cached,
            None => {
                let assembled = self.assemble_graph(&inputs).await?;
                self.graph_cache.insert(inputs, assembled.clone());
                assembled
            }
        };
        self.build_driver(assembly).await
    }

    /// Assembles the graph for these inputs and the activities that its nodes request.
    async fn assemble_graph(&self, inputs: &GraphInputs) -> Result<AssembledGraph> {
        let GraphInputs { assistant_id, model, purpose, tools } = inputs;
        let activities = self.activities();
        if *purpose == RunPurpose::Compaction {
            let compactor = Arc::new(self.compactor(model.as_ref()));
            let compaction = CompactionNode { compactor, before_hooks: self.compaction_hooks(assistant_id) };
            let graph = Graph::new(Edge::Conditional(entry_node)).with_node(Arc::new(compaction), Edge::End);
            return Ok(AssembledGraph { graph: Arc::new(graph), activities });
        }
        let (graph, after_result) = match (model, tools) {
            (Some(model), Some(tools)) => (
                self.main_graph(assistant_id, model, tools).await?,
                Edge::Conditional(handoff::route_after_result),
            ),
            _ if *purpose == RunPurpose::Discard => {
                let graph = Graph::new(Edge::Conditional(entry_node));
                (
                    unavailable_nodes::add_unavailable_turn_nodes(
                        graph,
                        &unavailable_nodes::unexpected_turn_failure(),
                    ),
                    Edge::End,
                )
            }
            // A turn cannot continue in this graph, but the tool call that requested a handoff still gets its
            // result.
            (Some(_) | None, _) => (Graph::new(Edge::Conditional(entry_node)), Edge::End),
        };
        let graph =
            self.add_handoff_nodes(graph, model.as_ref()).with_node(Arc::new(HandoffResult), after_result);
        Ok(AssembledGraph { graph: Arc::new(graph), activities })
    }

    /// Returns a driver for turns without a usable model. The person's message is stored, and the turn fails
    /// with `problem`.
    pub(crate) async fn driver_without_model(&self, problem: &Error) -> Result<Driver> {
        let graph = unavailable_nodes::add_unavailable_turn_nodes(
            Graph::new(Edge::Conditional(entry_node)),
            &no_model_failure(problem),
        );
        let graph = self.add_handoff_nodes(graph, None).with_node(Arc::new(HandoffResult), Edge::End);
        self.build_driver(AssembledGraph { graph: Arc::new(graph), activities: self.activities() }).await
    }

    /// Returns a driver that continues a turn with a rejection although no model is usable. The rejection is
    /// recorded, other calls of the answer are made as they were allowed, and the turn fails with `problem`
    /// at the model node.
    pub(crate) async fn driver_for_rejection(
        &self,
        assistant_id: &AssistantId,
        problem: &Error,
    ) -> Result<Driver> {
        let shared = self.shared_tools(assistant_id).await?;
        let tools = self.main_tools(assistant_id, None, &shared).await?;
        let hooks = self.turn_hooks(assistant_id, AgentRole::Main, &tools).await?;
        let approval = HooksNode { point: HookPoint::AfterModel, hooks: hooks.clone() };
        let tools_node = ToolsNode::new(tools, self.settings.workspace.clone(), hooks);
        let graph = unavailable_nodes::add_unavailable_turn_nodes(
            Graph::new(Edge::Conditional(entry_node)),
            &no_model_failure(problem),
        )
        .with_node(Arc::new(approval), Edge::Conditional(node_after_model))
        .with_node(Arc::new(tools_node), Edge::To(MODEL_NODE));
        let after_result = Edge::Conditional(handoff::route_after_result);
        let graph = self.add_handoff_nodes(graph, None).with_node(Arc::new(HandoffResult), after_result);
        self.build_driver(AssembledGraph { graph: Arc::new(graph), activities: self.activities() }).await
    }

    /// Returns the activities that the nodes of a graph can request.
    fn activities(&self) -> ActivityRegistry {
        let acceptance = self.acceptance_activity();
        ActivityRegistry::default()
            .with_activity(Arc::new(acceptance.clone()))
            .with_activity(Arc::new(ClearBlockActivity { acceptance }))
    }

    /// Returns the graph of the thread's own agent, which can give tasks to sub-agents.
    async fn main_graph(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
        shared: &[Arc<dyn Tool>],
    ) -> Result<Graph> {
        // All of agent.md is part of every request, so compacting the conversation cannot make up for a large file.
        let too_large_hint = self.agent_file(assistant_id).oversize_advice();
        let compactor = Arc::new(Compactor { too_large_hint, ..self.compactor(Some(model)) });
        let tools = self
            .main_tools(assistant_id, Some(ModelAndCompactor { model, compactor: &compactor }), shared)
            .await?;
        let hooks = self.turn_hooks(assistant_id, AgentRole::Main, &tools).await?;
        let before = self.compaction_hooks(assistant_id);
        Ok(self.turn_graph(model, tools, hooks, CompactionNode { compactor, before_hooks: before }))
    }

    /// Returns the tools of the thread's own agent: the shared tools of the process, `edit_memory`,
    /// `request_handoff`, recall and the store. With a model there are also compaction and sub-agents.
    /// Sub-agents have the shared tools and recall.
    pub(crate) async fn main_tools(
        &self,
        assistant_id: &AssistantId,
        model: Option<ModelAndCompactor<'_>>,
        shared: &[Arc<dyn Tool>],
    ) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = shared.to_vec();
        tools.push(Arc::new(
            EditMemoryTool::new(self.agent_file(assistant_id))
                .with_scope(self.notes_scope())
                .with_history(self.notes_history(assistant_id)),
        ));
        tools.push(Arc::new(HandoffTool { assistant_id: assistant_id.clone() }));
        let recall = RecallTool { scope: self.config.memory.scope };
        tools.push(Arc::new(recall));
        let project = match self.config.memory.scope {
            MemoryScope::Project => Some(self.project()),
            MemoryScope::Assistant => None,
        };
        tools.push(Arc::new(StoreTool::new(assistant_id, project.as_deref())));
        if let Some(ModelAndCompactor { model, compactor }) = model {
            tools.push(Arc::new(CompactConversationTool { compactor: Arc::clone(compactor) }));
            let subagent_tools = shared.iter().cloned().chain([Arc::new(recall) as Arc<dyn Tool>]);
            tools.push(Arc::new(self.subagent_tool(assistant_id, model, subagent_tools.collect()).await?));
        }
        Ok(tools)
    }

    /// Returns the tool `task`, whose sub-agents use `model` and these tools.
    async fn subagent_tool(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<SubagentTool> {
        let compactor = Arc::new(self.compactor(Some(model)));
        let hooks = self.turn_hooks(assistant_id, AgentRole::Subagent, &tools).await?;
        let graph =
            self.turn_graph(model, tools, hooks, CompactionNode { compactor, before_hooks: Vec::new() });
        Ok(SubagentTool {
            // A sub-agent does not stop at shutdown on its own: a tool call is performed to its end.
            driver: Driver {
                shutdown: CancellationToken::new(),
                ..self
                    .build_driver(AssembledGraph {
                        graph: Arc::new(graph),
                        activities: ActivityRegistry::default(),
                    })
                    .await?
            },
            assistant_id: assistant_id.clone(),
            model: Some(model.name().to_string()),
            leases: Arc::clone(&self.leases),
        })
    }

    /// Returns a driver for the graph with the limits of the configuration and the lease of this process.
    ///
    /// # Errors
    /// Fails if no lease can be taken.
    async fn build_driver(&self, AssembledGraph { graph, activities }: AssembledGraph) -> Result<Driver> {
        let run = &self.config.run;
        let seconds_max = self.settings.limits.seconds_max.or(run.seconds_max);
        Ok(Driver {
            store: Arc::clone(&self.store),
            graph,
            activities,
            lease: self.leases.lease().await?.clone(),
            limits: DriverLimits { steps_max: run.steps_max, time_max: seconds_max.map(Duration::from_secs) },
            breakpoints: Breakpoints::default(),
            shutdown: self.halt_token.clone(),
        })
    }

    /// Returns the part of the graph in which turns run.
    fn turn_graph(
        &self,
        model: &Arc<dyn ChatModel>,
        tools: Vec<Arc<dyn Tool>>,
        mut hooks: Vec<Arc<dyn Hook>>,
        compaction: CompactionNode,
    ) -> Graph {
        hooks.push(Arc::new(CompactionHook { compactor: Arc::clone(&compaction.compactor) }));
        let point = |point| Arc::new(HooksNode { point, hooks: hooks.clone() });
        let too_large_hint = compaction.compactor.too_large_hint.clone();
        let model_node = self.model_node(model, &tools, hooks.clone(), too_large_hint);
        let workspace = self.settings.workspace.clone();
        Graph::new(Edge::Conditional(entry_node))
            .with_node(point(HookPoint::BeforeAgent), Edge::To(MODEL_NODE))
            .with_node(Arc::new(model_node), Edge::To(AFTER_MODEL_NODE))
            .with_node(Arc::new(compaction), Edge::To(MODEL_NODE))
            .with_node(point(HookPoint::AfterModel), Edge::Conditional(node_after_model))
            .with_node(Arc::new(ToolsNode::new(tools, workspace, hooks.clone())), Edge::To(MODEL_NODE))
            .with_node(point(HookPoint::AfterAgent), Edge::Conditional(handoff::route_after_turn))
    }

    /// Returns the hooks that run before a compaction takes effect, in order: the queueing for memory, the
    /// configured hooks, and those of the embedding program.
    fn compaction_hooks(&self, assistant_id: &AssistantId) -> Vec<Arc<dyn BeforeCompactionHook>> {
        let flush = MemoryFlush { assistant_id: assistant_id.clone() };
        let flush = self.config.memory.enabled.then(|| Arc::new(flush) as Arc<dyn BeforeCompactionHook>);
        let configured =
            self.user_hooks.iter().filter(|hook| hook.is_subscribed_to(HookEvent::CompactionBefore));
        let configured = configured
            .map(|hook| Arc::new(VetoHook { hook: Arc::clone(hook) }) as Arc<dyn BeforeCompactionHook>);
        flush.into_iter().chain(configured).chain(self.extra_compaction_hooks.iter().cloned()).collect()
    }

    /// Returns the node that calls `model` with these tools and hooks. `too_large_hint` is the advice for a request that is
    /// too large for a known reason.
    fn model_node(
        &self,
        model: &Arc<dyn ChatModel>,
        tools: &[Arc<dyn Tool>],
        hooks: Vec<Arc<dyn Hook>>,
        too_large_hint: Option<String>,
    ) -> ModelNode {
        ModelNode {
            model: Arc::clone(model),
            tools: tools.iter().map(|tool| tool.spec()).collect(),
            hooks,
            contexts: Arc::clone(&self.contexts),
            too_large_hint: match too_large_hint {
                Some(hint) => hint.into(),
                None => "`/handoff` continues in a short thread; `/rewind` shortens this one".into(),
            },
        }
    }

    /// Returns the model node of a turn, to preview the request that it would send. It writes nothing, so it takes no lease:
    /// the request has the description of the tool `task`, but no tool that could be called.
    pub(crate) async fn turn_model_node(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
    ) -> Result<ModelNode> {
        let compactor = Arc::new(self.compactor(Some(model)));
        let shared = self.shared_tools(assistant_id).await?;
        let mut tools = self.main_tools(assistant_id, None, &shared).await?;
        tools.push(Arc::new(CompactConversationTool { compactor }));
        let hooks = self.turn_hooks(assistant_id, AgentRole::Main, &tools).await?;
        let specs = tools.iter().map(|tool| tool.spec()).chain([task_tool_spec()]).collect();
        Ok(ModelNode { tools: specs, ..self.model_node(model, &tools, hooks, None) })
    }

    /// Returns the compactor for conversations with `model`. A configured compaction model summarizes first,
    /// and `model` second. If the configured model cannot be opened, the problem is recorded in the
    /// compactor.
    pub(crate) fn compactor(&self, model: Option<&Arc<dyn ChatModel>>) -> Compactor {
        let settings = self.config.compaction.clone();
        let configured = settings.model.as_deref().map(|name| self.models.open_named(name));
        let (configured, problem) = match configured {
            Some(Ok(configured)) => (Some(configured), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let is_different = |run: &&Arc<dyn ChatModel>| {
            configured.as_ref().is_none_or(|configured| configured.name() != run.name())
        };
        let summarizers = configured.iter().chain(model.filter(is_different)).cloned().collect();
        Compactor {
            model: model.cloned(),
            summarizers,
            summarizer_problem: problem,
            settings,
            contexts: Arc::clone(&self.contexts),
            request_sizes: Arc::clone(&self.request_sizes),
            too_large_hint: None,
        }
    }

    /// Adds the nodes of handoffs to the graph.
    fn add_handoff_nodes(&self, graph: Graph, model: Option<&Arc<dyn ChatModel>>) -> Graph {
        let approval = self.handoff_approval_node(model);
        let drafting = approval.drafting.clone();
        graph
            .with_node(
                Arc::new(HandoffSummarization { drafting }),
                Edge::Conditional(handoff::route_after_draft),
            )
            .with_node(Arc::new(approval), Edge::Conditional(handoff::route_after_decision))
            .with_node(Arc::new(MarkFirstTurn), Edge::Conditional(handoff::should_cleanup_handoff))
            .with_node(Arc::new(HandoffCleanup), Edge::End)
    }

    /// Returns the model that drafts handoffs: the one of the settings, else that of `handoff.model`, else `model`, the
    /// model of the run. A configured model that cannot be opened is replaced by the model of the run.
    fn drafting_model(&self, model: Option<&Arc<dyn ChatModel>>) -> Option<Arc<dyn ChatModel>> {
        let configured = self.settings.draft_model.as_ref().or(self.config.handoff.model.as_ref());
        let Some(name) = configured else { return model.cloned() };
        match self.models.open_summarizer(name) {
            Ok(opened) => opened,
            Err(error) => {
                tracing::warn!(model = %name, "handoffs are drafted by the model of the run: failed to {error}");
                model.cloned()
            }
        }
    }

    /// Returns the node that asks a person about proposals. `model`, the model of the run, drafts unless another one is
    /// configured for drafts.
    pub(crate) fn handoff_approval_node(&self, model: Option<&Arc<dyn ChatModel>>) -> HandoffApproval {
        let config = &self.config.handoff;
        let models = Arc::clone(&self.models);
        let drafting = DraftSettings {
            model: self.drafting_model(model),
            open_model: Arc::new(move |name| models.open_named(name).map_err(|error| error.to_string())),
            max_summary_tokens: config.max_summary_tokens,
            max_input_tokens: config.max_input_tokens,
            max_part_calls: config.max_part_calls,
            price: {
                let prices = self.config.prices.clone();
                Arc::new(move |model, usage| {
                    model::prices::find_price(model, &prices).map(|price| model::prices::cost(usage, &price))
                })
            },
            scan_cache: Arc::clone(&self.handoff_scan_cache),
        };
        HandoffApproval { drafting, max_refinements: config.max_refinements }
    }

    /// Returns the hooks of a turn in order. Hooks that add stable parts of the request come first, so that a
    /// provider's prompt cache is used.
    async fn turn_hooks(
        &self,
        assistant_id: &AssistantId,
        role: AgentRole,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Vec<Arc<dyn Hook>>> {
        let toolbox = self.toolbox().await?;
        let workspace = self.settings.workspace.clone();
        let calls_max = self.settings.limits.model_calls_max.unwrap_or(self.config.run.model_calls_max);
        let mut hooks: Vec<Arc<dyn Hook>> = match self.assistant_access(assistant_id) {
            AssistantAccess::Machine => vec![
                Arc::new(Instructions { workspace: workspace.to_string_lossy().into_owned(), role }),
                Arc::new(ProjectNotes::new(workspace.clone())),
                Arc::clone(&toolbox.skills) as Arc<dyn Hook>,
            ],
            AssistantAccess::Conversation => {
                vec![Arc::new(Instructions { workspace: NO_WORKSPACE_TEXT.to_owned(), role })]
            }
        };
        hooks.push(Arc::new(PinsHook));
        if role == AgentRole::Main && self.config.memory.enabled {
            hooks.push(Arc::new(TieredMemoryHook::new(&self.config.memory, assistant_id.clone())));
        }
        let agent_md = AgentMdHook::new(self.agent_file(assistant_id), self.config.handoff.keep.retention());
        hooks.push(Arc::new(agent_md.with_scope(self.notes_scope())));
        hooks.push(Arc::new(ModelCallLimit { calls_max }));
        let rules = Arc::clone(&toolbox.rules);
        let policy = self.settings.approval_policy;
        let approval = ToolApproval::new(tools, workspace, rules, policy);
        hooks.push(Arc::new(match self.assistant_access(assistant_id) {
            AssistantAccess::Machine => approval,
            AssistantAccess::Conversation => approval.without_workspace(),
        }));
        hooks.extend(self.extra_hooks.iter().cloned());
        Ok(hooks)
    }
}

/// Returns the failure of a turn that reaches the model node without a usable model.
fn no_model_failure(problem: &Error) -> StepFailure {
    StepFailure { hint: problem.hint(), ..StepFailure::new(FailureKind::Config, problem.failure_text()) }
}

/// Returns the node after `after_model`: the tools if the answer has calls to make, otherwise the end of the
/// turn.
fn node_after_model(channels: &Channels) -> runtime::NextNode {
    Ok(Some(if runtime::has_tool_calls(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
}
