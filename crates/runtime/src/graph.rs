//! The graph: named nodes and the edges between them. Walking it is the work of [`crate::Turn`].

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use protocol::{Decisions, Interrupt};

use crate::error::Rejection;
use crate::step::{Channels, Failure, StepContext, Update};

/// One kind of step.
#[async_trait]
pub trait Node: Send + Sync {
    /// Returns the node's name, unique in its graph; it is stored in checkpoints.
    fn name(&self) -> &'static str;

    /// Works out what the step changes.
    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure>;

    /// Checks an answer to an interrupt this node raised, before the answer is stored. The general rules (one
    /// decision an action, of an allowed type) hold already.
    fn check(&self, _interrupt: &Interrupt, _decisions: &Decisions) -> Result<(), Rejection> {
        Ok(())
    }
}

/// Where the graph goes after a node.
#[derive(Clone)]
pub enum Edge {
    /// Always to this node.
    To(&'static str),
    /// The graph is idle.
    End,
    /// Decided by the state; the function is pure. `None` ends.
    When(fn(&Channels) -> Option<&'static str>),
}

/// Named nodes and the edges between them.
#[derive(Clone, Default)]
pub struct Graph {
    entry: Option<Edge>,
    nodes: BTreeMap<&'static str, (Arc<dyn Node>, Edge)>,
}

impl Graph {
    /// Returns a graph that begins along `entry`.
    pub fn new(entry: Edge) -> Self {
        Self { entry: Some(entry), nodes: BTreeMap::new() }
    }

    /// Adds a node and the edge that leaves it.
    #[must_use]
    pub fn node(mut self, node: Arc<dyn Node>, then: Edge) -> Self {
        self.nodes.insert(node.name(), (node, then));
        self
    }

    /// Returns the node of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Node>> {
        self.nodes.get(name).map(|(node, _)| node)
    }

    /// Returns the first node for this state; `None` when there is nothing to do.
    pub fn first(&self, channels: &Channels) -> Option<String> {
        self.entry.as_ref().and_then(|edge| follow(edge, channels))
    }

    /// Returns the node after `name` for this state; `None` when the graph is idle.
    pub fn after(&self, name: &str, channels: &Channels) -> Option<String> {
        self.nodes.get(name).and_then(|(_, edge)| follow(edge, channels))
    }
}

fn follow(edge: &Edge, channels: &Channels) -> Option<String> {
    match edge {
        Edge::To(name) => Some((*name).to_owned()),
        Edge::End => None,
        Edge::When(choose) => choose(channels).map(str::to_owned),
    }
}
