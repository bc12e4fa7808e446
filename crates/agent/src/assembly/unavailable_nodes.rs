//! Placeholder nodes of a turn for graphs that cannot run one.
//!
//! A graph that drops pending questions or rewinds a thread must still know the nodes of a turn, to find the
//! questions of the turn and its calls without results. That needs no model and no tools. Other graphs use
//! the placeholders because no model is usable; there a turn fails at the first of them.

use std::sync::Arc;

use async_trait::async_trait;
use compaction::COMPACTION_NODE;
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, Edge, FailureKind, Graph, GraphUpdate, MODEL_NODE,
    Node, StepContext, StepFailure, TOOLS_NODE,
};

/// The nodes of a turn at which a question can be pending.
const TURN_NODES: [&str; 6] =
    [BEFORE_AGENT_NODE, MODEL_NODE, COMPACTION_NODE, AFTER_MODEL_NODE, TOOLS_NODE, AFTER_AGENT_NODE];

/// A node of a turn that fails when it is executed.
struct UnavailableNode {
    /// The name of the node it replaces.
    name: &'static str,
    /// The failure of a run that reaches the node.
    failure: StepFailure,
}

#[async_trait]
impl Node for UnavailableNode {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<GraphUpdate, StepFailure> {
        Err(self.failure.clone())
    }
}

/// Adds the nodes of a turn as placeholders. A run that reaches one fails with `failure`.
pub(super) fn add_unavailable_turn_nodes(graph: Graph, failure: &StepFailure) -> Graph {
    let placeholder = |name| Arc::new(UnavailableNode { name, failure: failure.clone() });
    TURN_NODES.into_iter().fold(graph, |graph, name| graph.with_node(placeholder(name), Edge::End))
}

/// Returns the failure of a run that reaches a node of a turn although nothing was to be executed in its
/// thread.
pub(super) fn unexpected_turn_failure() -> StepFailure {
    StepFailure::new(FailureKind::Internal, "run a node of a turn: the thread was to become idle")
}
