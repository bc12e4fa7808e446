//! The shape of the graph, for whoever draws it: its nodes and where each leads. How it is walked is in `assembly`.

use compaction::COMPACTION_NODE;
use runtime::{AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, MODEL_NODE, TOOLS_NODE};

use self::GraphPlace::{Entry, Exit, Node};
use crate::agent::services::AdminService;

const SUMMARIZATION_NODE: &str = "handoff_summarization";
const APPROVAL_NODE: &str = "handoff_approval";
const RESULT_NODE: &str = "handoff_result";
const MARK_NODE: &str = "mark_first_handoff_turn";
const CLEANUP_NODE: &str = "cleanup_handoff";

/// The nodes, in the order in which a turn comes to them; then those of a handoff.
const NODES: [&str; 11] = [
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
];

/// A place in the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphPlace {
    /// Before the first node.
    Entry,
    /// A node.
    Node(&'static str),
    /// Behind the last node.
    Exit,
}

/// Where each leads; several from one node are chosen among.
const EDGES: [(GraphPlace, &[GraphPlace]); 12] = [
    (Entry, &[Node(BEFORE_AGENT_NODE), Node(COMPACTION_NODE), Node(SUMMARIZATION_NODE), Exit]),
    (Node(BEFORE_AGENT_NODE), &[Node(MODEL_NODE)]),
    (Node(COMPACTION_NODE), &[Node(MODEL_NODE), Exit]),
    (Node(MODEL_NODE), &[Node(AFTER_MODEL_NODE), Node(COMPACTION_NODE)]),
    (Node(AFTER_MODEL_NODE), &[Node(TOOLS_NODE), Node(AFTER_AGENT_NODE)]),
    (Node(TOOLS_NODE), &[Node(MODEL_NODE), Node(COMPACTION_NODE), Node(SUMMARIZATION_NODE)]),
    (Node(AFTER_AGENT_NODE), &[Node(MARK_NODE), Exit]),
    (Node(SUMMARIZATION_NODE), &[Node(APPROVAL_NODE), Node(RESULT_NODE), Exit]),
    (Node(APPROVAL_NODE), &[Node(SUMMARIZATION_NODE), Node(RESULT_NODE), Exit]),
    (Node(RESULT_NODE), &[Node(MODEL_NODE), Node(AFTER_AGENT_NODE), Exit]),
    (Node(MARK_NODE), &[Node(CLEANUP_NODE), Exit]),
    (Node(CLEANUP_NODE), &[Exit]),
];

/// The graph as places and edges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphShape {
    /// Its places, the entry first and the exit last.
    pub places: Vec<GraphPlace>,
    /// Where each leads.
    pub edges: Vec<GraphEdge>,
}

/// One way from a place to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEdge {
    /// Where it begins.
    pub source: GraphPlace,
    /// Where it leads.
    pub target: GraphPlace,
    /// Whether it is one of several that the state chooses among.
    pub conditional: bool,
}

impl AdminService<'_> {
    /// Returns the graph that runs of the agent walk.
    pub fn graph_shape(self) -> GraphShape {
        let edges = EDGES.iter().flat_map(|(source, targets)| {
            let conditional = targets.len() > 1;
            targets.iter().map(move |target| GraphEdge { source: *source, target: *target, conditional })
        });
        let nodes = NODES.into_iter().map(Node);
        GraphShape {
            places: [Entry].into_iter().chain(nodes).chain([Exit]).collect(),
            edges: edges.collect(),
        }
    }
}

/// Returns whether the graph has the node.
pub(super) fn is_node(name: &str) -> bool {
    NODES.contains(&name)
}

/// Returns the names of the graph's nodes, for people.
pub(super) fn names() -> String {
    NODES.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_is_between_nodes_and_every_node_can_be_reached() {
        let is_known = |place: &GraphPlace| match place {
            Node(name) => is_node(name),
            Entry | Exit => true,
        };
        for (source, targets) in EDGES {
            assert!(is_known(&source) && targets.iter().all(is_known), "{source:?}");
        }
        for node in NODES.into_iter().map(Node).chain([Exit]) {
            assert!(EDGES.iter().any(|(_, targets)| targets.contains(&node)), "{node:?}");
        }
        for node in NODES.into_iter().map(Node).chain([Entry]) {
            assert!(EDGES.iter().any(|(source, _)| *source == node), "{node:?}");
        }
    }
}
