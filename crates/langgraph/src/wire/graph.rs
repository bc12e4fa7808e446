//! The names of the places in a graph that are no nodes.

use agent::GraphPlace;

/// The place before the graph's first node.
pub(crate) const START: &str = "__start__";
/// The place behind its last one.
pub(crate) const END: &str = "__end__";

/// Returns the name of the place.
pub(crate) const fn place_name(place: GraphPlace) -> &'static str {
    match place {
        GraphPlace::Entry => START,
        GraphPlace::Node(name) => name,
        GraphPlace::Exit => END,
    }
}
