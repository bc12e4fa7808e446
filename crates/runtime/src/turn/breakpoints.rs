//! Breakpoints: nodes before or after which a client wants a run to stop. [`crate::TurnMachine`] decides when a
//! run has reached one.

use std::collections::BTreeSet;

/// The breakpoints of a run. A run that reaches one ends as interrupted without asking a question. Its checkpoint
/// names the next node, and a run that starts at that node continues past the breakpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breakpoints {
    /// The nodes to stop before.
    pub before: NodeSet,
    /// The nodes to stop after, if another node follows.
    pub after: NodeSet,
}

/// A set of nodes of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NodeSet {
    /// No node.
    #[default]
    None,
    /// All nodes.
    All,
    /// The nodes of these names.
    Named(BTreeSet<String>),
}

impl NodeSet {
    /// Returns whether the set contains `node`.
    pub fn contains(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Named(names) => names.contains(node),
        }
    }
}
