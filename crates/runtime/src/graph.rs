//! The graph: named nodes and the edges between them. It contains no execution logic; [`crate::TurnMachine`]
//! walks it.

pub(crate) mod channel;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use journal::Store;
use protocol::{Decision, Decisions, Interrupt};

use crate::error::DecisionRejection;
use crate::graph::channel::ChannelError;
use crate::step::{Channels, GraphUpdate, StepContext, StepFailure};

/// The lifetime of a node's question: how long a pending interrupt of the node accepts an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionLifetime {
    /// Until the thread continues. Admitting a new message withdraws the question.
    Turn,
    /// For the life of the thread. Messages that arrive in the meantime do not withdraw the question.
    Thread,
}

/// A node of the graph. One execution of a node is one step of a run.
#[async_trait]
pub trait Node: Send + Sync {
    /// Returns the node's name. It is unique in its graph and stored in checkpoints, so it must not change.
    fn name(&self) -> &'static str;

    /// Computes the changes of one step. The node itself writes nothing; the driver commits the returned update.
    ///
    /// # Errors
    /// Returns a [`StepFailure`] when the step cannot be completed. The failure ends the run; its partial update
    /// is committed with the end of the run.
    async fn run(&self, step: StepContext<'_>) -> Result<GraphUpdate, StepFailure>;

    /// Returns whether the node accepts a decision whose type its question does not list. Listed types are always
    /// accepted. A node overrides this when one type stands for several answers and only some of them remain
    /// possible. Pure.
    fn can_accept_unlisted(&self, _decision: &Decision) -> bool {
        false
    }

    /// Validates the answer to an interrupt of this node before the answer is stored. [`crate::check_decisions`]
    /// has already checked the general rules: one decision for each action, of an allowed type. `_store` is for
    /// reading only.
    ///
    /// # Errors
    /// Returns the reason to reject the answer; the interrupt then stays pending.
    async fn validate_decisions(
        &self,
        _interrupt: &Interrupt,
        _decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), DecisionRejection> {
        Ok(())
    }

    /// Returns whether running the node can have an effect of its own. A node without effects only observes, and
    /// a step that changes nothing is not committed. The node after it may therefore have been started although
    /// the checkpoint still names this one, so this node's step does not end a recovery
    /// ([`StepEntry::Recovered`](crate::StepEntry)).
    fn has_effects(&self) -> bool {
        true
    }

    /// Returns whether the node computes its step from the state and the journal alone, without calling or
    /// awaiting anything else. The driver commits the step before such a node together with the node's own step,
    /// which saves a transaction. Until then those changes are in [`StepContext::deferred_writes`] and not in the
    /// store.
    fn is_immediate(&self) -> bool {
        false
    }

    /// Returns whether running the node in this state is certain to change nothing. The graph then skips the
    /// node, which saves the cost of a step. Pure.
    fn can_skip(&self, _channels: &Channels) -> bool {
        false
    }

    /// Returns how long the questions of this node can be answered.
    fn question_lifetime(&self) -> QuestionLifetime {
        QuestionLifetime::Turn
    }
}

/// The node that a conditional edge leads to; `None` ends the graph. Fails when the state cannot be read.
pub type NextNode = Result<Option<&'static str>, ChannelError>;

/// An edge of the graph: where execution continues after a node.
#[derive(Clone)]
pub enum Edge {
    /// Always leads to the node of this name.
    To(&'static str),
    /// Ends the graph: the agent is idle.
    End,
    /// Chooses the next node from the state, with a pure function. `None` ends the graph. A state that cannot be
    /// read fails the run.
    Conditional(fn(&Channels) -> NextNode),
}

/// A graph: its entry edge, and its nodes with the edge that leaves each of them.
#[derive(Clone, Default)]
pub struct Graph {
    entry: Option<Edge>,
    nodes: BTreeMap<&'static str, (Arc<dyn Node>, Edge)>,
}

impl Graph {
    /// Returns an empty graph whose execution starts along `entry`.
    pub fn new(entry: Edge) -> Self {
        Self { entry: Some(entry), nodes: BTreeMap::new() }
    }

    /// Adds a node and the edge that leaves it. A node of the same name is replaced.
    #[must_use]
    pub fn with_node(mut self, node: Arc<dyn Node>, then: Edge) -> Self {
        self.nodes.insert(node.name(), (node, then));
        self
    }

    /// Returns the node of that name, if the graph has one.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Node>> {
        self.nodes.get(name).map(|(node, _)| node)
    }

    /// Returns the name of the first node for this state, or `None` when there is nothing to execute.
    ///
    /// # Errors
    /// Fails when the state that a conditional edge depends on cannot be read.
    pub fn first_node(&self, channels: &Channels) -> Result<Option<String>, ChannelError> {
        self.walk_edges(self.entry.as_ref(), channels)
    }

    /// Returns the name of the node after `name` for this state, or `None` when the graph is idle.
    ///
    /// # Errors
    /// Fails as [`Self::first_node`] does.
    pub fn next_node(&self, name: &str, channels: &Channels) -> Result<Option<String>, ChannelError> {
        self.walk_edges(self.nodes.get(name).map(|(_, edge)| edge), channels)
    }

    /// Follows `edge` and skips every node that has nothing to do in this state. Each node is skipped at most
    /// once, so that a cycle of such nodes ends the graph instead of looping forever.
    fn walk_edges<'a>(
        &'a self,
        mut edge: Option<&'a Edge>,
        channels: &Channels,
    ) -> Result<Option<String>, ChannelError> {
        for _ in 0..=self.nodes.len() {
            let Some(current) = edge else { return Ok(None) };
            let Some(name) = follow_edge(current, channels)? else { return Ok(None) };
            match self.nodes.get(name.as_str()) {
                Some((node, next)) if node.can_skip(channels) => edge = Some(next),
                Some(_) | None => return Ok(Some(name)),
            }
        }
        Ok(None)
    }
}

/// Returns the name of the node that `edge` leads to in this state.
fn follow_edge(edge: &Edge, channels: &Channels) -> Result<Option<String>, ChannelError> {
    match edge {
        Edge::To(name) => Ok(Some((*name).to_owned())),
        Edge::End => Ok(None),
        Edge::Conditional(choose) => choose(channels).map(|name| name.map(str::to_owned)),
    }
}
