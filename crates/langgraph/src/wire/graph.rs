//! The names of a graph's vertices on the wire, including the two ends, which are not nodes.

use agent::GraphVertex;

/// The name of the entry, before the first node.
pub(crate) const START_NODE: &str = "__start__";
/// The name of the exit, after the last node.
pub(crate) const END_NODE: &str = "__end__";

/// Returns the name of the vertex.
pub(crate) const fn node_name(vertex: GraphVertex) -> &'static str {
    match vertex {
        GraphVertex::Entry => START_NODE,
        GraphVertex::Node(name) => name,
        GraphVertex::Exit => END_NODE,
    }
}
