//! The nodes of a turn where none is run: a thread that drops what waits, or goes back, has to know which questions are of
//! its turn, and which calls were never made. No model and no tool is needed for that. A turn that has no model fails at
//! the first of them.

use std::sync::Arc;

use async_trait::async_trait;
use compaction::COMPACTION_NODE;
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, Edge, Failure, FailureKind, Graph, MODEL_NODE,
    Node, StepContext, TOOLS_NODE, Update,
};

/// What a turn's graph can ask at.
const TURN_NODES: [&str; 6] =
    [BEFORE_AGENT_NODE, MODEL_NODE, COMPACTION_NODE, AFTER_MODEL_NODE, TOOLS_NODE, AFTER_AGENT_NODE];

/// A node of a turn that is not run.
struct Unrun {
    name: &'static str,
    /// How a run fails that comes to it.
    failure: Failure,
}

#[async_trait]
impl Node for Unrun {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<Update, Failure> {
        Err(self.failure.clone())
    }
}

/// Adds the nodes of a turn; a run that comes to one fails with `failure`.
pub(super) fn with_turn(graph: Graph, failure: &Failure) -> Graph {
    let unrun = |name| Arc::new(Unrun { name, failure: failure.clone() });
    TURN_NODES.into_iter().fold(graph, |graph, name| graph.node(unrun(name), Edge::End))
}

/// Returns the failure of a run that comes to a node of a turn although its thread was to rest.
pub(super) fn unexpected() -> Failure {
    Failure::new(FailureKind::Internal, "run a node of a turn: the thread was to rest")
}
