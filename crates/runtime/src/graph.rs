//! The graph: named nodes and the edges between them. Walking it is the work of [`crate::Turn`].

pub(crate) mod channel;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{Decision, Decisions, Interrupt};

use crate::error::Rejection;
use crate::graph::channel::ChannelError;
use crate::step::{Channels, Failure, StepContext, Update};

/// How long a question of a node may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Until the thread goes on: a new message takes it back.
    OfTurn,
    /// At any time, whatever is said meanwhile.
    OfThread,
}

/// One kind of step.
#[async_trait]
pub trait Node: Send + Sync {
    /// Returns the node's name, unique in its graph; it is stored in checkpoints.
    fn name(&self) -> &'static str;

    /// Works out what the step changes.
    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure>;

    /// Returns whether the node takes a decision of a type that its question did not list. What is listed is always
    /// taken; a type may stand for several answers of which only some are left. Pure.
    fn takes_unlisted(&self, _decision: &Decision) -> bool {
        false
    }

    /// Checks an answer to an interrupt this node raised, before the answer is stored. The general rules (one
    /// decision an action, of an allowed type) hold already; the journal is there to be read.
    async fn check(
        &self,
        _interrupt: &Interrupt,
        _decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns whether the node does something of its own. One that only looks on may be passed without a trace, so that
    /// the node after it may have been begun although the checkpoint still names this one.
    fn acts(&self) -> bool {
        true
    }

    /// Returns whether the node works out its step at once, from the state and the journal alone: it calls nothing and
    /// waits for nothing. What the step before it changed becomes durable together with its own, which spares a
    /// transaction; until then it is in [`StepContext::unwritten`].
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns whether running the node in this state would certainly change nothing; the graph passes it by then, and
    /// what it would have cost is saved. Pure.
    fn is_idle(&self, _channels: &Channels) -> bool {
        false
    }

    /// Returns how long the questions of this node may be answered.
    fn question(&self) -> Question {
        Question::OfTurn
    }
}

/// Which node comes next; `None` ends.
pub type NextNode = Result<Option<&'static str>, ChannelError>;

/// Where the graph goes after a node.
#[derive(Clone)]
pub enum Edge {
    /// Always to this node.
    To(&'static str),
    /// The graph is idle.
    End,
    /// Decided by the state; the function is pure. `None` ends, and a state that cannot be read fails the run.
    When(fn(&Channels) -> NextNode),
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
    ///
    /// # Errors
    /// When the state that an edge depends on cannot be read.
    pub fn first(&self, channels: &Channels) -> Result<Option<String>, ChannelError> {
        self.walk(self.entry.as_ref(), channels)
    }

    /// Returns the node after `name` for this state; `None` when the graph is idle.
    ///
    /// # Errors
    /// As for [`Self::first`].
    pub fn after(&self, name: &str, channels: &Channels) -> Result<Option<String>, ChannelError> {
        self.walk(self.nodes.get(name).map(|(_, edge)| edge), channels)
    }

    /// Walks along `edge`, past the nodes that are idle. A circle of them would never end; each is passed once.
    fn walk<'a>(
        &'a self,
        mut edge: Option<&'a Edge>,
        channels: &Channels,
    ) -> Result<Option<String>, ChannelError> {
        for _ in 0..=self.nodes.len() {
            let Some(followed) = edge else { return Ok(None) };
            let Some(name) = follow(followed, channels)? else { return Ok(None) };
            match self.nodes.get(name.as_str()) {
                Some((node, next)) if node.is_idle(channels) => edge = Some(next),
                Some(_) | None => return Ok(Some(name)),
            }
        }
        Ok(None)
    }
}

fn follow(edge: &Edge, channels: &Channels) -> Result<Option<String>, ChannelError> {
    match edge {
        Edge::To(name) => Ok(Some((*name).to_owned())),
        Edge::End => Ok(None),
        Edge::When(choose) => choose(channels).map(|name| name.map(str::to_owned)),
    }
}
