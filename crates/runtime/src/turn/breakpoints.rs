//! Breakpoints: the nodes before and after which a run stops, because its client wants to look. What happens there is
//! the turn machine's business.

use std::collections::BTreeSet;

/// Where a run stops without being asked to by its nodes. It ends as interrupted and asks nothing; its checkpoint names the
/// node that comes next, and a run that begins at that node goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breakpoints {
    /// The nodes it stops before.
    pub before: Nodes,
    /// The nodes it stops after, when another follows.
    pub after: Nodes,
}

/// Some nodes of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nodes {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those of these names.
    These(BTreeSet<String>),
}

impl Nodes {
    /// Returns whether `node` is one of them.
    pub fn has(&self, node: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::These(names) => names.contains(node),
        }
    }
}
