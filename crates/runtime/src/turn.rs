//! The turn machine: told what happened, it answers with the one thing to do next. Pure: no I/O, no clock.

pub(crate) mod breakpoints;

use std::collections::VecDeque;

use protocol::{
    Checkpoint, FailureKind, InterruptId, InterruptPayload, PendingActivity, RunFailure, RunId, RunStatus,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::breakpoints::Breakpoints;
use crate::graph::Graph;
use crate::graph::channel::{Channel, ChannelError};
use crate::step::{Answer, Channels, Entry, Failure, Update};

/// The channel that holds the answers to the interrupts of the node in `next`, from admission to the step's commit.
pub(crate) const ANSWERS_CHANNEL: Channel<Vec<Answer>> = Channel::new("_answers");

/// The channel that says that a node behind the checkpoint may have been begun by a process that is gone. It stays until
/// a node that acts has its step behind it; while a question waits, [`Asked`] keeps it.
pub(crate) const RECOVERED_CHANNEL: Channel<bool> = Channel::new("_recovered");

/// The channel that says that the run goes on at a node where the thread had stopped: it does not stop there again. It
/// goes with the first step.
pub(crate) const GOES_ON_CHANNEL: Channel<bool> = Channel::new("_goes_on");

/// What a node asked, in a channel of its own ([`asked_channel`]): other runs may come and go before the answer. The
/// interrupts' ids follow from the step and the places of the keys.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Asked {
    /// The step that asked.
    pub step: u64,
    /// Who asked within the node, in order.
    pub keys: Vec<String>,
    /// Whether what follows the node may have been begun before.
    pub entry: Entry,
}

/// Returns the channel that remembers what `node` asked, while it waits.
pub(crate) fn asked_channel(node: &str) -> Channel<Asked> {
    Channel::of_node("_asked", node)
}

/// Returns the id of the question that `node` asked at `step`, the `index`th of that step.
pub fn interrupt_id(run_id: RunId, step: u64, node: &str, index: usize) -> InterruptId {
    match index {
        0 => InterruptId::derive(run_id, step, node),
        index => InterruptId::derive(run_id, step, &format!("{node}#{index}")),
    }
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// The node ran.
    Ran(Result<Update, Failure>),
    /// The step, or the confirmation of an activity, is durable.
    Committed,
    /// The activity at the head of the queue was performed.
    Performed(Result<Update, Failure>),
    /// A person stopped the run or its time is up: instead of `Ran`, with what the node returned, or instead of
    /// `Committed`. Activities that were decided are performed all the same.
    Stop {
        /// What the node had produced.
        update: Update,
        /// How the run ends.
        status: RunStatus,
        /// Why.
        why: String,
    },
}

/// How a run comes to rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// The run's last status.
    pub status: RunStatus,
    /// Why, when it did not succeed.
    pub failure: Option<RunFailure>,
    /// What is asked, when it is interrupted.
    pub interrupts: Vec<InterruptPayload>,
}

impl Ending {
    const fn of(status: RunStatus) -> Self {
        Self { status, failure: None, interrupts: Vec::new() }
    }

    fn of_failure(failure: Failure) -> Self {
        let reason = RunFailure { kind: failure.kind, message: failure.message, hint: failure.hint };
        Self { failure: Some(reason), ..Self::of(RunStatus::Error) }
    }
}

/// What to do next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one effect exists at a time")]
pub enum Effect {
    /// Run this node.
    Run {
        /// The node.
        node: String,
        /// The answers to its interrupts, if the run resumed with them.
        answers: Vec<Answer>,
        /// Whether it may have been begun before.
        entry: Entry,
    },
    /// Make this durable, in one transaction, together with the checkpoint.
    Commit {
        /// What the step or activity changed.
        update: Update,
        /// Set when this is the run's last commit.
        ending: Option<Ending>,
    },
    /// Perform this activity.
    Perform(PendingActivity),
    /// The run is at rest.
    Rest(Ending),
}

#[derive(Debug)]
enum Phase {
    Running(String),
    Performing,
    Committing(Option<Ending>),
    Resting,
}

/// Where a run ends although its graph goes on.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'g> {
    /// The most steps it may take.
    pub steps_max: u64,
    /// Where its client wants to look.
    pub breakpoints: &'g Breakpoints,
}

/// The state of one run of the graph.
pub struct Turn<'g> {
    graph: &'g Graph,
    bounds: Bounds<'g>,
    phase: Phase,
    /// Whether what comes next may have been begun before. A node that changed nothing is not remembered, and one that
    /// only looks on proves nothing about the one after it.
    entry: Entry,
    node: String,
    /// Steps so far, the admission not counted.
    pub step: u64,
    /// The state.
    pub channels: Channels,
    /// The node to execute next; `None` when the graph is idle.
    pub next: Option<String>,
    /// Activities decided and not confirmed.
    pub activities: VecDeque<PendingActivity>,
}

impl<'g> Turn<'g> {
    /// Takes up a run at its checkpoint; answers with the first thing to do.
    pub fn begin(
        graph: &'g Graph,
        checkpoint: &Checkpoint,
        bounds: Bounds<'g>,
        entry: Entry,
    ) -> (Self, Effect) {
        let entry = match RECOVERED_CHANNEL.is_set(&checkpoint.channels) {
            true => Entry::Recovered,
            false => entry,
        };
        let mut turn = Self {
            graph,
            bounds,
            phase: Phase::Resting,
            entry,
            node: String::new(),
            step: checkpoint.step,
            channels: checkpoint.channels.clone(),
            next: checkpoint.next.clone(),
            activities: checkpoint.activities.iter().cloned().collect(),
        };
        let effect = turn.proceed();
        (turn, effect)
    }

    /// Returns the node the last step ran; empty before the first.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Takes what happened and answers with the next thing to do.
    pub fn advance(&mut self, input: Input) -> Effect {
        let phase = std::mem::replace(&mut self.phase, Phase::Resting);
        match (phase, input) {
            (Phase::Running(node), Input::Ran(Ok(update))) => self.step_done(&node, update),
            (
                Phase::Running(_) | Phase::Performing,
                Input::Ran(Err(failure)) | Input::Performed(Err(failure)),
            ) => self.fail(failure),
            (Phase::Performing, Input::Performed(Ok(update))) => {
                self.activities.pop_front();
                self.apply(&update);
                self.commit(update)
            }
            (Phase::Committing(Some(ending)), Input::Committed) => Effect::Rest(ending),
            (Phase::Committing(None), Input::Committed) => self.proceed(),
            (Phase::Committing(Some(ending)), Input::Stop { .. }) => Effect::Rest(ending),
            (Phase::Committing(None), Input::Stop { .. }) if !self.activities.is_empty() => self.proceed(),
            // What the node asked a person or decided is kept as if nobody had stopped it.
            (Phase::Running(node), Input::Stop { update, .. })
                if !update.asks.is_empty() || !update.activities.is_empty() =>
            {
                self.step_done(&node, update)
            }
            (Phase::Running(_) | Phase::Committing(None), Input::Stop { update, status, why }) => {
                // A node that was not run may have been begun before.
                if self.entry == Entry::Recovered && update.is_empty() {
                    RECOVERED_CHANNEL.set(&mut self.channels, &true);
                }
                self.apply(&update);
                let failure = Some(RunFailure::new(FailureKind::from(status.as_str()), why));
                self.end(update, Ending { status, failure, interrupts: Vec::new() })
            }
            (phase, input) => {
                let message = format!("advance a turn: {input:?} is no answer to {phase:?}");
                self.fail(Failure::new(FailureKind::Internal, message))
            }
        }
    }

    fn step_done(&mut self, node: &str, update: Update) -> Effect {
        self.step += 1;
        let answered = ANSWERS_CHANNEL.remove(&mut self.channels);
        asked_channel(node).remove(&mut self.channels);
        GOES_ON_CHANNEL.remove(&mut self.channels);
        self.apply(&update);
        if !update.is_empty() || answered {
            self.settle(node);
        }
        if !update.asks.is_empty() {
            return self.ask(node, update);
        }
        self.next = match update.jump {
            Some(node) => Some(node.to_owned()),
            None => match self.graph.after(node, &self.channels) {
                Ok(next) => next,
                Err(error) => return self.fail_at_edge(update, error),
            },
        };
        match (&self.next, update.is_empty() && !answered) {
            (Some(_), true) => self.proceed(),
            _ => self.commit(update),
        }
    }

    /// Returns whether what comes next may have been begun before.
    pub const fn entry(&self) -> Entry {
        self.entry
    }

    /// Notes, with the commit of `node`'s step, whether the next node may still have been begun before.
    fn settle(&mut self, node: &str) {
        if self.entry == Entry::Fresh {
            return;
        }
        if self.graph.get(node).is_some_and(|node| node.acts()) {
            self.entry = Entry::Fresh;
            RECOVERED_CHANNEL.remove(&mut self.channels);
        } else {
            RECOVERED_CHANNEL.set(&mut self.channels, &true);
        }
    }

    fn ask(&mut self, node: &str, update: Update) -> Effect {
        self.next = Some(node.to_owned());
        RECOVERED_CHANNEL.remove(&mut self.channels);
        let keys = update.asks.iter().map(|ask| ask.key.clone()).collect();
        let asked = Asked { step: self.step, keys, entry: self.entry };
        asked_channel(node).set(&mut self.channels, &asked);
        let interrupts = update.asks.iter().map(|ask| ask.payload.clone()).collect();
        self.end(update, Ending { status: RunStatus::Interrupted, failure: None, interrupts })
    }

    /// Returns whether a client wants to look before `next` begins, or after the node before it.
    fn stops_before(&self, next: &str) -> bool {
        let Breakpoints { before, after } = self.bounds.breakpoints;
        let goes_on = GOES_ON_CHANNEL.is_set(&self.channels) || ANSWERS_CHANNEL.is_set(&self.channels);
        (before.has(next) && !goes_on) || (!self.node.is_empty() && after.has(&self.node))
    }

    fn apply(&mut self, update: &Update) {
        for (key, value) in &update.channels {
            match value {
                Value::Null => drop(self.channels.remove(key)),
                value => drop(self.channels.insert(key.clone(), value.clone())),
            }
        }
        self.activities.extend(update.activities.iter().cloned());
    }

    /// Commits, and ends the run in the same transaction when nothing is left to do.
    fn commit(&mut self, update: Update) -> Effect {
        match &self.next {
            None if self.activities.is_empty() => return self.end(update, Ending::of(RunStatus::Success)),
            Some(next) if self.activities.is_empty() && self.stops_before(next) => {
                return self.end(update, Ending::of(RunStatus::Interrupted));
            }
            Some(_) | None => {}
        }
        self.phase = Phase::Committing(None);
        Effect::Commit { update, ending: None }
    }

    fn end(&mut self, update: Update, ending: Ending) -> Effect {
        self.phase = Phase::Committing(Some(ending.clone()));
        Effect::Commit { update, ending: Some(ending) }
    }

    fn fail(&mut self, mut failure: Failure) -> Effect {
        let partial = std::mem::take(&mut *failure.partial);
        self.apply(&partial);
        self.end(partial, Ending::of_failure(failure))
    }

    /// Ends the run at a node behind which nobody knows where to go; what its step changed stays.
    fn fail_at_edge(&mut self, mut update: Update, error: ChannelError) -> Effect {
        let mut failure = Failure::from(error);
        self.apply(&failure.partial);
        update.merge(std::mem::take(&mut *failure.partial));
        self.end(update, Ending::of_failure(failure))
    }

    /// Goes on from a durable point: activities first, then the next node.
    fn proceed(&mut self) -> Effect {
        if let Some(activity) = self.activities.front() {
            self.phase = Phase::Performing;
            return Effect::Perform(activity.clone());
        }
        let Some(node) = self.next.clone() else {
            return self.end(Update::default(), Ending::of(RunStatus::Success));
        };
        if self.stops_before(&node) {
            return self.end(Update::default(), Ending::of(RunStatus::Interrupted));
        }
        if self.step >= self.bounds.steps_max {
            let why = format!("the run reached its limit of {} steps", self.bounds.steps_max);
            let failure = Some(RunFailure::new(FailureKind::StepLimit, why));
            return self.end(
                Update::default(),
                Ending { status: RunStatus::Timeout, failure, interrupts: Vec::new() },
            );
        }
        let answers = match ANSWERS_CHANNEL.get(&self.channels) {
            Ok(answers) => answers.unwrap_or_default(),
            Err(error) => return self.fail(error.into()),
        };
        self.phase = Phase::Running(node.clone());
        self.node.clone_from(&node);
        Effect::Run { node, answers, entry: self.entry }
    }
}

#[cfg(test)]
mod tests;
