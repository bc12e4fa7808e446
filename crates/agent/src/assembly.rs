//! The one graph, with its nodes and hooks in their one order. Everything a front end starts runs on it.

mod instructions;

use std::sync::Arc;
use std::time::Duration;

use handoff::{
    BlockClearing, Drafting, HandoffApproval, HandoffCleanup, HandoffRequestNode, HandoffSummarization,
    MarkFirstTurn,
};
use memory::AgentMdHook;
use model::ChatModel;
use protocol::AssistantId;
use runtime::{
    Activities, Channels, Driver, Edge, Graph, Hook, Limits, MODEL_NODE, ModelNode, TOOLS_NODE, ToolsNode,
};
use serde_json::Value;

use self::instructions::Instructions;
use crate::Result;
use crate::agent::Agent;

/// Channel: what the run was started for; the entry edge reads it.
const START_CHANNEL: &str = "_start";

/// What a run is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A person's message.
    Turn,
    /// A handoff.
    Handoff,
    /// Only what an earlier run left to do.
    Rest,
}

impl Purpose {
    /// Returns the channels that tell the entry edge.
    pub(crate) fn channels(self) -> Channels {
        let value = match self {
            Self::Turn => Value::from("turn"),
            Self::Handoff => Value::from("handoff"),
            Self::Rest => Value::Null,
        };
        Channels::from_iter([(START_CHANNEL.to_owned(), value)])
    }
}

impl Agent {
    /// Returns a driver for runs of `assistant_id` that use `model`.
    pub(crate) fn driver(
        &self,
        assistant_id: &AssistantId,
        model: Option<&Arc<dyn ChatModel>>,
    ) -> Result<Driver> {
        let acceptance = self.acceptance();
        let activities = Activities::default()
            .with(Arc::new(acceptance.clone()))
            .with(Arc::new(BlockClearing { acceptance }));
        let run = &self.config.run;
        Ok(Driver {
            store: Arc::clone(&self.store),
            graph: Arc::new(self.graph(assistant_id, model)),
            activities,
            owner: self.owner()?.to_owned(),
            limits: Limits { steps_max: run.steps_max, time_max: run.seconds_max.map(Duration::from_secs) },
        })
    }

    fn graph(&self, assistant_id: &AssistantId, model: Option<&Arc<dyn ChatModel>>) -> Graph {
        let config = &self.config.handoff;
        let drafting = Drafting {
            model: model.cloned(),
            max_summary_tokens: config.max_summary_tokens,
            max_input_tokens: config.max_input_tokens,
        };
        let approval =
            HandoffApproval { max_refinements: config.max_refinements, can_refine: model.is_some() };
        let graph = Graph::new(Edge::When(entry))
            .node(Arc::new(HandoffRequestNode), Edge::To(handoff::SUMMARIZATION_NODE))
            .node(Arc::new(HandoffSummarization { drafting }), Edge::To(handoff::APPROVAL_NODE))
            .node(Arc::new(approval), Edge::When(handoff::after_decision));
        let tools = tools::read_only();
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        let workspace = self.settings.workspace.clone();
        let graph = graph
            .node(Arc::new(ToolsNode { tools, workspace }), Edge::To(MODEL_NODE))
            .node(Arc::new(MarkFirstTurn), Edge::When(handoff::should_cleanup_handoff))
            .node(Arc::new(HandoffCleanup), Edge::End);
        match model {
            Some(model) => {
                let hooks = self.hooks(assistant_id);
                let node = ModelNode { model: Arc::clone(model), tools: specs, hooks };
                graph.node(Arc::new(node), Edge::When(after_model))
            }
            None => graph,
        }
    }

    /// What completes a request to the model, in order: the stable part first, so that caches hit.
    fn hooks(&self, assistant_id: &AssistantId) -> Vec<Arc<dyn Hook>> {
        vec![
            Arc::new(Instructions { workspace: self.settings.workspace.clone() }),
            Arc::new(AgentMdHook { path: self.settings.home.agent_md(assistant_id) }),
        ]
    }
}

fn entry(channels: &Channels) -> Option<&'static str> {
    match channels.get(START_CHANNEL).and_then(Value::as_str) {
        Some("turn") => Some(MODEL_NODE),
        Some("handoff") => handoff::entry(channels),
        Some(_) | None => None,
    }
}

fn after_model(channels: &Channels) -> Option<&'static str> {
    if runtime::wants_tools(channels) { Some(TOOLS_NODE) } else { handoff::after_turn(channels) }
}
