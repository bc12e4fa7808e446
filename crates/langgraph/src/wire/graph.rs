//! The names of the places in a graph that are no nodes.

use agent::GraphVertex;

/// The place before the graph's first node.
pub(crate) const START_NODE: &str = "__start__";
/// The place behind its last one.
pub(crate) const END_NODE: &str = "__end__";

/// Returns the name of the place.
pub(crate) const fn node_name(place: GraphVertex) -> &'static str {
    match place {
        GraphVertex::Entry => START_NODE,
        GraphVertex::Node(name) => name,
        GraphVertex::Exit => END_NODE,
    }
}
