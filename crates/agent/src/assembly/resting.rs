//! The nodes of a turn where none is run: a thread that drops what waits, or goes back, has to know which questions are of
//! its turn, and which calls were never made. No model and no tool is needed for that.

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
struct Unrun(&'static str);

#[async_trait]
impl Node for Unrun {
    fn name(&self) -> &'static str {
        self.0
    }

    async fn run(&self, _step: StepContext<'_>) -> Result<Update, Failure> {
        let why = format!("run node `{}` of a turn: the thread was to rest", self.0);
        Err(Failure::new(FailureKind::Internal, why))
    }
}

/// Adds the nodes of a turn.
pub(super) fn with_turn(graph: Graph) -> Graph {
    TURN_NODES.into_iter().fold(graph, |graph, name| graph.node(Arc::new(Unrun(name)), Edge::End))
}
