//! The shape of the graph, for whoever draws it: its nodes and where each leads. How it is walked is in `assembly`; a
//! test compares the two.

use compaction::COMPACTION_NODE;
use runtime::{AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, MODEL_NODE, TOOLS_NODE};
use serde::Serialize;

use crate::agent::Agent;

/// What stands before the first node.
pub(super) const START_NODE: &str = "__start__";
/// What stands behind the last one.
pub(super) const END_NODE: &str = "__end__";

const SUMMARIZATION_NODE: &str = "handoff_summarization";
const APPROVAL_NODE: &str = "handoff_approval";
const RESULT_NODE: &str = "handoff_result";
const MARK_NODE: &str = "mark_first_handoff_turn";
const CLEANUP_NODE: &str = "cleanup_handoff";

/// The nodes, in the order in which a turn comes to them; then those of a handoff.
const NODES: [&str; 13] = [
    START_NODE,
    BEFORE_AGENT_NODE,
    COMPACTION_NODE,
    MODEL_NODE,
    AFTER_MODEL_NODE,
    TOOLS_NODE,
    AFTER_AGENT_NODE,
    SUMMARIZATION_NODE,
    APPROVAL_NODE,
    RESULT_NODE,
    MARK_NODE,
    CLEANUP_NODE,
    END_NODE,
];

/// Where each leads; several from one node are chosen among.
const EDGES: [(&str, &[&str]); 12] = [
    (START_NODE, &[BEFORE_AGENT_NODE, COMPACTION_NODE, SUMMARIZATION_NODE, END_NODE]),
    (BEFORE_AGENT_NODE, &[MODEL_NODE]),
    (COMPACTION_NODE, &[MODEL_NODE, END_NODE]),
    (MODEL_NODE, &[AFTER_MODEL_NODE, COMPACTION_NODE]),
    (AFTER_MODEL_NODE, &[TOOLS_NODE, AFTER_AGENT_NODE]),
    (TOOLS_NODE, &[MODEL_NODE, COMPACTION_NODE, SUMMARIZATION_NODE]),
    (AFTER_AGENT_NODE, &[MARK_NODE, END_NODE]),
    (SUMMARIZATION_NODE, &[APPROVAL_NODE, RESULT_NODE, END_NODE]),
    (APPROVAL_NODE, &[SUMMARIZATION_NODE, RESULT_NODE, END_NODE]),
    (RESULT_NODE, &[MODEL_NODE, AFTER_AGENT_NODE, END_NODE]),
    (MARK_NODE, &[CLEANUP_NODE, END_NODE]),
    (CLEANUP_NODE, &[END_NODE]),
];

/// The graph as nodes and edges.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphShape {
    /// The names of its nodes, `__start__` and `__end__` among them.
    pub nodes: Vec<&'static str>,
    /// Where each leads.
    pub edges: Vec<GraphEdge>,
}

/// One way from a node to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GraphEdge {
    /// Where it begins.
    pub source: &'static str,
    /// Where it leads.
    pub target: &'static str,
    /// Whether it is one of several that the state chooses among.
    pub conditional: bool,
}

impl Agent {
    /// Returns the graph that runs of the agent walk.
    pub fn nodes(&self) -> GraphShape {
        let edges = EDGES.iter().flat_map(|(source, targets)| {
            let conditional = targets.len() > 1;
            targets.iter().map(move |target| GraphEdge { source, target, conditional })
        });
        GraphShape { nodes: NODES.to_vec(), edges: edges.collect() }
    }
}

/// Returns whether the graph has the node.
pub(super) fn is_node(name: &str) -> bool {
    NODES.contains(&name) && name != START_NODE && name != END_NODE
}

/// Returns the names of the graph's own nodes, for people.
pub(super) fn names() -> String {
    NODES[1..NODES.len() - 1].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_is_between_nodes_and_every_node_can_be_reached() {
        for (source, targets) in EDGES {
            assert!(NODES.contains(&source));
            assert!(targets.iter().all(|target| NODES.contains(target)), "{source}");
        }
        for node in &NODES[1..] {
            assert!(EDGES.iter().any(|(_, targets)| targets.contains(node)), "{node}");
        }
        for node in &NODES[..NODES.len() - 1] {
            assert!(EDGES.iter().any(|(source, _)| source == node), "{node}");
        }
    }
}
