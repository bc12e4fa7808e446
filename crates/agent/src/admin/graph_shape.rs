//! The shape of the graph for clients that draw it: its nodes and edges. The executable graph is assembled in
//! `assembly`.

use compaction::COMPACTION_NODE;
use runtime::{AFTER_AGENT_NODE, AFTER_MODEL_NODE, BEFORE_AGENT_NODE, MODEL_NODE, TOOLS_NODE};

use self::GraphVertex::{Entry, Exit, Node};
use crate::AdminService;

/// The name of the node that drafts a handoff.
const SUMMARIZATION_NODE: &str = "handoff_summarization";
/// The name of the node that asks for a decision about a handoff.
const APPROVAL_NODE: &str = "handoff_approval";
/// The name of the node that gives the agent's request of a handoff its result.
const RESULT_NODE: &str = "handoff_result";
/// The name of the node that records the first complete turn of a handoff's child thread.
const MARK_NODE: &str = "mark_first_handoff_turn";
/// The name of the node that clears the handoff's block after that turn.
const CLEANUP_NODE: &str = "cleanup_handoff";

/// The names of all nodes: those of a turn in the order of execution, then those of a handoff.
const NODE_NAMES: [&str; 11] = [
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

/// A vertex of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphVertex {
    /// The entry, before the first node.
    Entry,
    /// A node.
    Node(&'static str),
    /// The exit, after the last node.
    Exit,
}

/// The edges from each vertex. If a vertex has several, the state decides which one is taken.
const EDGES: [(GraphVertex, &[GraphVertex]); 12] = [
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

/// The graph as vertices and edges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphShape {
    /// The vertices: the entry, the nodes, and the exit.
    pub vertices: Vec<GraphVertex>,
    /// The edges.
    pub edges: Vec<GraphEdge>,
}

/// An edge between two vertices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEdge {
    /// Its start.
    pub source: GraphVertex,
    /// Its end.
    pub target: GraphVertex,
    /// True if it is one of several edges from its start.
    pub conditional: bool,
}

impl AdminService<'_> {
    /// Returns the shape of the graph in which runs of the agent are executed.
    pub fn graph_shape(self) -> GraphShape {
        let edges = EDGES.iter().flat_map(|(source, targets)| {
            let conditional = targets.len() > 1;
            targets.iter().map(move |target| GraphEdge { source: *source, target: *target, conditional })
        });
        let nodes = NODE_NAMES.into_iter().map(Node);
        GraphShape {
            vertices: [Entry].into_iter().chain(nodes).chain([Exit]).collect(),
            edges: edges.collect(),
        }
    }
}

/// Returns whether the graph has a node of that name.
pub(crate) fn is_node(name: &str) -> bool {
    NODE_NAMES.contains(&name)
}

/// Returns the names of all nodes as one text, for error messages.
pub(crate) fn node_names() -> String {
    NODE_NAMES.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_connects_known_nodes_and_every_node_is_reachable() {
        let is_known = |vertex: &GraphVertex| match vertex {
            Node(name) => is_node(name),
            Entry | Exit => true,
        };
        for (source, targets) in EDGES {
            assert!(is_known(&source) && targets.iter().all(is_known), "{source:?}");
        }
        for node in NODE_NAMES.into_iter().map(Node).chain([Exit]) {
            assert!(EDGES.iter().any(|(_, targets)| targets.contains(&node)), "{node:?}");
        }
        for node in NODE_NAMES.into_iter().map(Node).chain([Entry]) {
            assert!(EDGES.iter().any(|(source, _)| *source == node), "{node:?}");
        }
    }
}
