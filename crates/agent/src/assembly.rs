//! The one graph, with its nodes and hooks in their one order. Everything a front end starts runs on it.
//!
//! A turn: `before_agent` → `model` → `after_model` → `tools` → `model` … → `after_agent` → what a child's first turn
//! leaves to do. The hooks around the model, outermost first:
//!
//! 1. `Instructions`: the standing instructions, the same bytes for a whole run.
//! 2. `ProjectNotes`: the project's AGENTS.md, as conventions.
//! 3. `skills`: the names of the skills there are.
//! 4. `TieredMemory`: recent summaries of medium-term memory, the same for a whole run. A sub-agent is told none.
//! 5. `AgentMemory`: agent.md, and a child's summary in its first turn. It is last of what is put into the request,
//!    for it changes most often, within a run too, and a provider's cache ends where a request first differs; summaries
//!    change between turns at most. It also guards the managed block against tool calls.
//! 6. `CallLimit`: how often one run may ask the model.
//! 7. `ToolApproval`: which calls of the answer run, which are asked about, which are refused.
//! 8. The hooks a program adds by `Agent::with_hook`.
//! 9. `Compaction`: whether the conversation is to be condensed first; it counts what the others have put together.
//!
//! Before a compaction takes effect, `MemoryFlush` queues the turns it condenses for memory, in the same transaction, and the hooks of
//! the configuration that are to be asked may refuse it.

mod asked;
mod call_limit;
mod flush;
mod instructions;
mod kept;
pub(crate) mod models;
mod project;
mod resting;
mod servers;
mod subagent;
pub(crate) mod toolbox;

use std::sync::Arc;
use std::time::Duration;

use compaction::{BeforeCompaction, COMPACTION_NODE, CompactTool, CompactionHook, CompactionNode, Compactor};
use handoff::{
    BlockClearing, Drafting, HandoffApproval, HandoffCleanup, HandoffResult, HandoffSummarization,
    HandoffTool, MarkFirstTurn,
};
use memory::{AgentMdHook, EditMemory, RecallTool, StoreTool, TieredMemoryHook};
use model::ChatModel;
use protocol::{AssistantId, Checkpoint};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Activities, BEFORE_AGENT_NODE, Breakpoints, Channel, Channels,
    Driver, Edge, Failure, FailureKind, Graph, Hook, HooksNode, Limits, MODEL_NODE, ModelNode, Point,
    TOOLS_NODE, Tool, ToolsNode,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tools::ToolApproval;
use user_hooks::Occasion;

use self::asked::Asked;
use self::call_limit::CallLimit;
use self::flush::MemoryFlush;
use self::instructions::Instructions;
pub(crate) use self::kept::Assemblies;
use self::kept::{Assembly, Parts};
use self::project::ProjectNotes;
use self::subagent::Task;
use self::toolbox::Reach;
use crate::agent::Agent;
use crate::{Error, Result};

/// What a model is told in the place of a folder where it has none.
const NO_WORKSPACE: &str = "none, and no commands: there is only what is said here, and your memory";

/// Channel: where the graph begins; the entry edge reads it.
const START_CHANNEL: Channel<GraphEntry> = Channel::new("_start");

/// Where the graph of a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GraphEntry {
    Turn,
    Handoff,
    Compaction,
}

/// The model of a run, and what compacts for it.
struct ModelAndCompactor<'a> {
    model: &'a Arc<dyn ChatModel>,
    compactor: &'a Arc<Compactor>,
}

/// What a run is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A person's message.
    Turn,
    /// A handoff.
    Handoff,
    /// A person wants the conversation condensed.
    Compaction,
    /// Only what an earlier run left to do.
    Rest,
    /// Nothing: what waits in the thread is dropped, or the thread goes back.
    Drop,
}

impl Purpose {
    /// Returns what a run with these channels is started for.
    pub(crate) fn of(channels: &Channels) -> runtime::Result<Self> {
        Ok(match START_CHANNEL.get(channels)? {
            Some(GraphEntry::Turn) => Self::Turn,
            Some(GraphEntry::Handoff) => Self::Handoff,
            Some(GraphEntry::Compaction) => Self::Compaction,
            None => Self::Rest,
        })
    }

    /// Returns what a graph is needed for that goes on at `node` in this state. A compaction that cannot be read is left to
    /// the node, which the graph of a turn has too and which fails the run.
    pub(crate) fn at(node: Option<&str>, channels: Option<&Channels>) -> Self {
        match node {
            Some(COMPACTION_NODE)
                if channels.is_some_and(|channels| compaction::is_whole_run(channels) == Ok(true)) =>
            {
                Self::Compaction
            }
            Some(COMPACTION_NODE) => Self::Turn,
            Some(BEFORE_AGENT_NODE | MODEL_NODE | AFTER_MODEL_NODE | TOOLS_NODE | AFTER_AGENT_NODE) => {
                Self::Turn
            }
            Some(_) => Self::Handoff,
            None => Self::Rest,
        }
    }

    /// Returns what a graph is needed for that goes on at `node` of a thread that stands at the checkpoint. A handoff that
    /// the agent asked for goes back into its turn.
    pub(crate) fn to_go_on(node: Option<&str>, checkpoint: Option<&Checkpoint>) -> Self {
        let channels = checkpoint.map(|point| &point.channels);
        match Self::at(node, channels) {
            Self::Handoff if channels.is_some_and(handoff::asked_by_agent) => Self::Turn,
            purpose => purpose,
        }
    }

    /// Returns the channels that tell the entry edge.
    pub(crate) fn channels(self) -> Channels {
        let mut channels = Channels::new();
        match self {
            Self::Turn => START_CHANNEL.set(&mut channels, &GraphEntry::Turn),
            Self::Handoff => START_CHANNEL.set(&mut channels, &GraphEntry::Handoff),
            Self::Compaction => START_CHANNEL.set(&mut channels, &GraphEntry::Compaction),
            Self::Rest | Self::Drop => START_CHANNEL.clear(&mut channels),
        }
        call_limit::CALLS_CHANNEL.clear(&mut channels);
        channels
    }
}

/// What a graph is built for: the thread's own agent, or one that was handed a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Main,
    Subagent,
}

impl Agent {
    /// Returns a driver for runs of `assistant_id` that use `model`. Only one that runs turns has tools, so that a
    /// handoff waits for no server of tools.
    pub(crate) async fn driver(
        &self,
        assistant_id: &AssistantId,
        model: Option<&Arc<dyn ChatModel>>,
        purpose: Purpose,
    ) -> Result<Driver> {
        let tools = match (model, purpose) {
            (Some(_), Purpose::Turn) => Some(self.shared_tools(assistant_id).await?),
            (Some(_) | None, _) => None,
        };
        let parts = Parts { assistant_id: assistant_id.clone(), model: model.cloned(), purpose, tools };
        let assembly = match self.assemblies.get(&parts) {
            Some(known) => known,
            None => {
                let new = self.assemble(&parts).await?;
                self.assemblies.keep(parts, new.clone());
                new
            }
        };
        self.driving(assembly).await
    }

    async fn assemble(&self, parts: &Parts) -> Result<Assembly> {
        let Parts { assistant_id, model, purpose, tools } = parts;
        let activities = self.activities();
        if *purpose == Purpose::Compaction {
            let compactor = Arc::new(self.compactor(model.as_ref()));
            let compaction = CompactionNode { compactor, before: self.before_compaction(assistant_id) };
            let graph = Graph::new(Edge::When(entry)).node(Arc::new(compaction), Edge::End);
            return Ok(Assembly { graph: Arc::new(graph), activities });
        }
        let (graph, after_result) = match (model, tools) {
            (Some(model), Some(tools)) => {
                (self.main_graph(assistant_id, model, tools).await?, Edge::When(handoff::after_result))
            }
            _ if *purpose == Purpose::Drop => {
                let graph = Graph::new(Edge::When(entry));
                (resting::with_turn(graph, &resting::unexpected()), Edge::End)
            }
            // Where no turn can go on, the call that asked for a handoff gets its result all the same.
            (Some(_) | None, _) => (Graph::new(Edge::When(entry)), Edge::End),
        };
        let graph = self.with_handoff(graph, model.as_ref()).node(Arc::new(HandoffResult), after_result);
        Ok(Assembly { graph: Arc::new(graph), activities })
    }

    /// Returns a driver for turns that have no model: what a person says is kept, and the turn fails with `problem`.
    pub(crate) async fn driver_without_model(&self, problem: &Error) -> Result<Driver> {
        let graph = resting::with_turn(Graph::new(Edge::When(entry)), &without_model(problem));
        let graph = self.with_handoff(graph, None).node(Arc::new(HandoffResult), Edge::End);
        self.driving(Assembly { graph: Arc::new(graph), activities: self.activities() }).await
    }

    /// Returns a driver for turns that have no model and go on with a rejection: it is recorded, other calls of the answer
    /// are made as they were allowed, and the turn fails with `problem` where it would ask the model.
    pub(crate) async fn rejecting_driver(
        &self,
        assistant_id: &AssistantId,
        problem: &Error,
    ) -> Result<Driver> {
        let shared = self.shared_tools(assistant_id).await?;
        let tools = self.main_tools(assistant_id, None, &shared).await?;
        let hooks = self.hooks(assistant_id, Role::Main, &tools).await?;
        let approval = HooksNode { point: Point::AfterModel, hooks: hooks.clone() };
        let making = ToolsNode::new(tools, self.settings.workspace.clone(), hooks);
        let graph = resting::with_turn(Graph::new(Edge::When(entry)), &without_model(problem))
            .node(Arc::new(approval), Edge::When(after_model))
            .node(Arc::new(making), Edge::To(MODEL_NODE));
        let after_result = Edge::When(handoff::after_result);
        let graph = self.with_handoff(graph, None).node(Arc::new(HandoffResult), after_result);
        self.driving(Assembly { graph: Arc::new(graph), activities: self.activities() }).await
    }

    fn activities(&self) -> Activities {
        let acceptance = self.acceptance();
        Activities::default().with(Arc::new(acceptance.clone())).with(Arc::new(BlockClearing { acceptance }))
    }

    /// Returns the graph of the thread's own agent, which can hand tasks to sub-agents.
    async fn main_graph(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
        shared: &[Arc<dyn Tool>],
    ) -> Result<Graph> {
        let compactor = Arc::new(self.compactor(Some(model)));
        let tools = self.main_tools(assistant_id, Some(ModelAndCompactor { model, compactor: &compactor }), shared).await?;
        let hooks = self.hooks(assistant_id, Role::Main, &tools).await?;
        let before = self.before_compaction(assistant_id);
        Ok(self.turn_graph(model, tools, hooks, CompactionNode { compactor, before }))
    }

    /// Returns the tools of the thread's own agent: the shared ones of the process, its memory, recall, the store, the handoff and,
    /// where there is a model, compaction and sub-agents, which have those of the process, and recall.
    async fn main_tools(
        &self,
        assistant_id: &AssistantId,
        model: Option<ModelAndCompactor<'_>>,
        shared: &[Arc<dyn Tool>],
    ) -> Result<Vec<Arc<dyn Tool>>> {
        let mut tools = shared.to_vec();
        tools.push(Arc::new(EditMemory::new(self.agent_file(assistant_id))));
        tools.push(Arc::new(HandoffTool { assistant_id: assistant_id.clone() }));
        tools.push(Arc::new(RecallTool));
        tools.push(Arc::new(StoreTool::new(assistant_id)));
        if let Some(ModelAndCompactor { model, compactor }) = model {
            tools.push(Arc::new(CompactTool { compactor: Arc::clone(compactor) }));
            let own = shared.iter().cloned().chain([Arc::new(RecallTool) as Arc<dyn Tool>]);
            tools.push(Arc::new(self.task(assistant_id, model, own.collect()).await?));
        }
        Ok(tools)
    }

    async fn task(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Task> {
        let compactor = Arc::new(self.compactor(Some(model)));
        let hooks = self.hooks(assistant_id, Role::Subagent, &tools).await?;
        let graph = self.turn_graph(model, tools, hooks, CompactionNode { compactor, before: Vec::new() });
        Ok(Task {
            // A tool's work is done to its end.
            driver: Driver {
                halt: CancellationToken::new(),
                ..self.driving(Assembly { graph: Arc::new(graph), activities: Activities::default() }).await?
            },
            assistant_id: assistant_id.clone(),
            model: Some(model.name().to_string()),
            leases: Arc::clone(&self.leases),
        })
    }

    async fn driving(&self, Assembly { graph, activities }: Assembly) -> Result<Driver> {
        let run = &self.config.run;
        let seconds_max = self.settings.limits.seconds_max.or(run.seconds_max);
        Ok(Driver {
            store: Arc::clone(&self.store),
            graph,
            activities,
            lease: self.leases.lease().await?.clone(),
            limits: Limits { steps_max: run.steps_max, time_max: seconds_max.map(Duration::from_secs) },
            breakpoints: Breakpoints::default(),
            halt: self.halt.clone(),
        })
    }

    /// Returns the part of the graph that turns run on.
    fn turn_graph(
        &self,
        model: &Arc<dyn ChatModel>,
        tools: Vec<Arc<dyn Tool>>,
        mut hooks: Vec<Arc<dyn Hook>>,
        compaction: CompactionNode,
    ) -> Graph {
        hooks.push(Arc::new(CompactionHook { compactor: Arc::clone(&compaction.compactor) }));
        let point = |point| Arc::new(HooksNode { point, hooks: hooks.clone() });
        let asking = self.asking(model, &tools, hooks.clone());
        let workspace = self.settings.workspace.clone();
        Graph::new(Edge::When(entry))
            .node(point(Point::BeforeAgent), Edge::To(MODEL_NODE))
            .node(Arc::new(asking), Edge::To(AFTER_MODEL_NODE))
            .node(Arc::new(compaction), Edge::To(MODEL_NODE))
            .node(point(Point::AfterModel), Edge::When(after_model))
            .node(Arc::new(ToolsNode::new(tools, workspace, hooks.clone())), Edge::To(MODEL_NODE))
            .node(point(Point::AfterAgent), Edge::When(handoff::after_turn))
    }

    /// Returns who has a say before a conversation is condensed.
    fn before_compaction(&self, assistant_id: &AssistantId) -> Vec<Arc<dyn BeforeCompaction>> {
        let flush = MemoryFlush { assistant_id: assistant_id.clone() };
        let flush = self.config.memory.enabled.then(|| Arc::new(flush) as Arc<dyn BeforeCompaction>);
        let asked = self.user_hooks.iter().filter(|hook| hook.is_for(Occasion::CompactionBefore));
        let asked = asked.map(|hook| Arc::new(Asked { hook: Arc::clone(hook) }) as Arc<dyn BeforeCompaction>);
        flush.into_iter().chain(asked).chain(self.own_before.iter().cloned()).collect()
    }

    fn asking(
        &self,
        model: &Arc<dyn ChatModel>,
        tools: &[Arc<dyn Tool>],
        hooks: Vec<Arc<dyn Hook>>,
    ) -> ModelNode {
        ModelNode {
            model: Arc::clone(model),
            tools: tools.iter().map(|tool| tool.spec()).collect(),
            hooks,
            contexts: Arc::clone(&self.contexts),
            too_large_hint: "`/handoff` goes on in a short thread; `/rewind` takes this one back",
        }
    }

    /// Returns the node that would ask `model` in a turn, for a look at what it would send.
    pub(crate) async fn asking_node(
        &self,
        assistant_id: &AssistantId,
        model: &Arc<dyn ChatModel>,
    ) -> Result<ModelNode> {
        let compactor = Arc::new(self.compactor(Some(model)));
        let shared = self.shared_tools(assistant_id).await?;
        let tools = self.main_tools(assistant_id, Some(ModelAndCompactor { model, compactor: &compactor }), &shared).await?;
        let hooks = self.hooks(assistant_id, Role::Main, &tools).await?;
        Ok(self.asking(model, &tools, hooks))
    }

    /// Returns what condenses the conversations of `model`.
    pub(crate) fn compactor(&self, model: Option<&Arc<dyn ChatModel>>) -> Compactor {
        let settings = self.config.compaction.clone();
        let own = settings.model.as_deref().map(|name| self.models.named(name));
        let (own, problem) = match own {
            Some(Ok(own)) => (Some(own), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let is_other = |run: &&Arc<dyn ChatModel>| own.as_ref().is_none_or(|own| own.name() != run.name());
        let summarisers = own.iter().chain(model.filter(is_other)).cloned().collect();
        Compactor {
            model: model.cloned(),
            summarisers,
            problem,
            settings,
            contexts: Arc::clone(&self.contexts),
            sizes: Arc::clone(&self.sizes),
        }
    }

    /// Adds the part of the graph that handoffs run on.
    fn with_handoff(&self, graph: Graph, model: Option<&Arc<dyn ChatModel>>) -> Graph {
        let approval = self.approval(model);
        let drafting = approval.drafting.clone();
        graph
            .node(Arc::new(HandoffSummarization { drafting }), Edge::When(handoff::after_draft))
            .node(Arc::new(approval), Edge::When(handoff::after_decision))
            .node(Arc::new(MarkFirstTurn), Edge::When(handoff::should_cleanup_handoff))
            .node(Arc::new(HandoffCleanup), Edge::End)
    }

    /// Returns the node that asks about proposals, where `model` would draft them.
    pub(crate) fn approval(&self, model: Option<&Arc<dyn ChatModel>>) -> HandoffApproval {
        let config = &self.config.handoff;
        let models = Arc::clone(&self.models);
        let drafting = Drafting {
            model: model.cloned(),
            open_model: Arc::new(move |name| models.named(name).map_err(|error| error.to_string())),
            max_summary_tokens: config.max_summary_tokens,
            max_input_tokens: config.max_input_tokens,
            folds: Arc::clone(&self.folds),
        };
        HandoffApproval { drafting, max_refinements: config.max_refinements }
    }

    /// What takes part in a turn, in order: the stable part of a request first, so that caches hit.
    async fn hooks(
        &self,
        assistant_id: &AssistantId,
        role: Role,
        tools: &[Arc<dyn Tool>],
    ) -> Result<Vec<Arc<dyn Hook>>> {
        let toolbox = self.toolbox().await?;
        let workspace = self.settings.workspace.clone();
        let calls_max = self.settings.limits.model_calls_max.unwrap_or(self.config.run.model_calls_max);
        let mut hooks: Vec<Arc<dyn Hook>> = match self.reach(assistant_id) {
            Reach::Machine => vec![
                Arc::new(Instructions { workspace: workspace.to_string_lossy().into_owned(), role }),
                Arc::new(ProjectNotes { workspace: workspace.clone() }),
                Arc::clone(&toolbox.skills) as Arc<dyn Hook>,
            ],
            Reach::Conversation => vec![Arc::new(Instructions { workspace: NO_WORKSPACE.to_owned(), role })],
        };
        if role == Role::Main && self.config.memory.enabled {
            hooks.push(Arc::new(TieredMemoryHook::new(&self.config.memory, assistant_id.clone())));
        }
        hooks.push(Arc::new(AgentMdHook::new(self.agent_file(assistant_id))));
        hooks.push(Arc::new(CallLimit { calls_max }));
        let rules = Arc::clone(&toolbox.rules);
        let approve = self.settings.approve;
        let approval = ToolApproval::new(tools, workspace, rules, approve);
        hooks.push(Arc::new(match self.reach(assistant_id) {
            Reach::Machine => approval,
            Reach::Conversation => approval.without_workspace(),
        }));
        hooks.extend(self.own_hooks.iter().cloned());
        Ok(hooks)
    }
}

/// Returns the failure of a turn that comes to a model it does not have.
fn without_model(problem: &Error) -> Failure {
    Failure { hint: problem.hint(), ..Failure::new(FailureKind::Config, problem.failure_text()) }
}

fn entry(channels: &Channels) -> runtime::NextNode {
    match START_CHANNEL.get(channels)? {
        Some(GraphEntry::Turn) => Ok(Some(BEFORE_AGENT_NODE)),
        Some(GraphEntry::Handoff) => handoff::entry(channels),
        Some(GraphEntry::Compaction) => Ok(Some(COMPACTION_NODE)),
        None => Ok(None),
    }
}

fn after_model(channels: &Channels) -> runtime::NextNode {
    Ok(Some(if runtime::wants_tools(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
}

#[cfg(test)]
mod tests {
    use compaction::{Wanted, wanted_channels};
    use protocol::CompactionTrigger;

    use super::*;

    #[test]
    fn e9_a_turn_that_is_cut_off_while_it_is_condensed_stays_a_turn() {
        let wanted = |is_whole_run| Wanted {
            trigger: CompactionTrigger::Auto,
            focus: None,
            keep: None,
            frame_tokens: 0,
            is_whole_run,
        };
        // Whatever began the run before: an answer resumes a turn in the state that a handoff or a compaction left.
        for before in [Purpose::Turn, Purpose::Handoff, Purpose::Compaction, Purpose::Rest] {
            for (is_whole_run, purpose) in [(false, Purpose::Turn), (true, Purpose::Compaction)] {
                let mut channels = before.channels();
                channels.extend(wanted_channels(&wanted(is_whole_run)));
                assert_eq!(Purpose::at(Some(COMPACTION_NODE), Some(&channels)), purpose, "{before:?}");
            }
        }
        assert_eq!(Purpose::at(Some(COMPACTION_NODE), None), Purpose::Turn);
    }
}
