//! The state machine of one run. [`TurnMachine`] takes the outcome of the previous effect and returns the next
//! effect to perform. It is pure: no I/O and no clock.

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
use crate::step::{Channels, GraphUpdate, KeyedAnswer, StepEntry, StepFailure};

/// The channel that holds the answers to the interrupts of the checkpoint's next node, from the admission until
/// the commit of that node's step.
pub(crate) const ANSWERS_CHANNEL: Channel<Vec<KeyedAnswer>> = Channel::new("_answers");

/// The channel that marks a thread whose next node may have been started by a process that is gone. It stays set
/// until a node with effects has completed a step. While a question is pending, [`PendingQuestions::entry`] holds
/// this information instead.
pub(crate) const RECOVERED_CHANNEL: Channel<bool> = Channel::new("_recovered");

/// The channel that marks a run as resumed at the node where the thread had stopped. The run does not stop again
/// at a breakpoint before that node. The run's first step removes the mark.
pub(crate) const RESUMED_CHANNEL: Channel<bool> = Channel::new("_goes_on");

/// The questions that a step of a node asked. They are stored in a channel of the node
/// ([`pending_questions_channel`]), because other runs may start and end on the thread before the answer arrives.
/// The interrupts' ids are derived from the step and the index of each key.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PendingQuestions {
    /// The number of the step that asked.
    pub step: u64,
    /// The keys of the questions within the node, in the order in which they were asked.
    pub keys: Vec<String>,
    /// The entry of the node that asked. `Recovered` if the node, or the nodes after it, may have been started
    /// before.
    pub entry: StepEntry,
}

/// Returns the channel that holds the pending questions of `node`.
pub(crate) fn pending_questions_channel(node: &str) -> Channel<PendingQuestions> {
    Channel::for_node("_asked", node)
}

/// Returns the id of the interrupt for the question number `index` (from 0) that `node` asked at `step`. The same
/// arguments always give the same id.
pub fn interrupt_id(run_id: RunId, step: u64, node: &str, index: usize) -> InterruptId {
    match index {
        0 => InterruptId::derive(run_id, step, node),
        index => InterruptId::derive(run_id, step, &format!("{node}#{index}")),
    }
}

/// The outcome of an effect, as the driver reports it.
#[derive(Debug)]
pub enum TurnInput {
    /// The node of [`TurnEffect::RunNode`] ran, with this result.
    Ran(Result<GraphUpdate, StepFailure>),
    /// The changes of [`TurnEffect::Commit`] are durable.
    Committed,
    /// The activity of [`TurnEffect::Perform`] was performed, with this result.
    Performed(Result<GraphUpdate, StepFailure>),
    /// A person stopped the run, or its time is up. Replaces `Ran`, with the update that the node returned, or
    /// `Committed`, with an empty update. Activities that were already decided on are still performed.
    Stop {
        /// The update of the node that was stopped.
        update: GraphUpdate,
        /// The status with which the run ends.
        status: RunStatus,
        /// The reason for the stop, for people.
        reason: String,
    },
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnding {
    /// The final status of the run.
    pub status: RunStatus,
    /// The reason why the run did not succeed, if it did not.
    pub failure: Option<RunFailure>,
    /// The questions that the run asks, if its status is interrupted.
    pub interrupts: Vec<InterruptPayload>,
}

impl RunEnding {
    /// Returns an ending without a failure and without questions.
    const fn with_status(status: RunStatus) -> Self {
        Self { status, failure: None, interrupts: Vec::new() }
    }

    /// Returns the ending of a run that a failed step ended.
    fn from_failure(failure: StepFailure) -> Self {
        let reason = RunFailure { kind: failure.kind, message: failure.message, hint: failure.hint };
        Self { failure: Some(reason), ..Self::with_status(RunStatus::Error) }
    }
}

/// The next action of a run, for the driver to perform.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one effect exists at a time")]
pub enum TurnEffect {
    /// Run a node.
    RunNode {
        /// The name of the node.
        node: String,
        /// The answers to the node's questions, if the run resumed with answers.
        answers: Vec<KeyedAnswer>,
        /// `Recovered` if the node may have been started before.
        entry: StepEntry,
    },
    /// Commit an update in one transaction, together with the checkpoint.
    Commit {
        /// The changes of the step or activity.
        update: GraphUpdate,
        /// The run's outcome, if this is its last commit.
        ending: Option<RunEnding>,
    },
    /// Perform an activity.
    Perform(PendingActivity),
    /// Stop driving: the run has ended and its end is durable.
    Finish(RunEnding),
}

/// The effect whose outcome the machine waits for.
#[derive(Debug)]
enum TurnPhase {
    /// A node runs; the field is its name.
    Running(String),
    /// The first of the pending activities is performed.
    Performing,
    /// An update is committed; the field is the run's outcome, if this commit ends the run.
    Committing(Option<RunEnding>),
    /// The run has ended. This is also the phase while an input is being processed.
    Finished,
}

/// The points at which a run stops although its graph has a next node.
#[derive(Debug, Clone, Copy)]
pub struct TurnLimits<'g> {
    /// The most steps that the run may take.
    pub steps_max: u64,
    /// The breakpoints that the run's client has set.
    pub breakpoints: &'g Breakpoints,
}

/// The state machine of one run of the graph.
pub struct TurnMachine<'g> {
    graph: &'g Graph,
    limits: TurnLimits<'g>,
    phase: TurnPhase,
    /// `Recovered` while the next node may have been started before. Steps that changed nothing are not
    /// committed, and a node without effects proves nothing about the node after it, so only a step of a node
    /// with effects resets this.
    entry: StepEntry,
    last_node: String,
    /// The node of the last step; empty before the first.
    /// The number of steps so far. The admission does not count.
    pub step: u64,
    /// The state of the graph, with all steps so far.
    pub channels: Channels,
    /// The node to run next; `None` when the graph is idle.
    pub next: Option<String>,
    /// Activities that were decided on and are not confirmed yet, in the order in which they are performed.
    pub activities: VecDeque<PendingActivity>,
}

impl<'g> TurnMachine<'g> {
    /// Starts a run at its checkpoint, and returns the machine with the first effect. `entry` says whether the
    /// next node may have been started before; the checkpoint's state can say so, too.
    pub fn begin(
        graph: &'g Graph,
        checkpoint: &Checkpoint,
        limits: TurnLimits<'g>,
        entry: StepEntry,
    ) -> (Self, TurnEffect) {
        let entry = match RECOVERED_CHANNEL.is_set(&checkpoint.channels) {
            true => StepEntry::Recovered,
            false => entry,
        };
        let mut turn = Self {
            graph,
            limits,
            phase: TurnPhase::Finished,
            entry,
            last_node: String::new(),
            step: checkpoint.step,
            channels: checkpoint.channels.clone(),
            next: checkpoint.next.clone(),
            activities: checkpoint.activities.iter().cloned().collect(),
        };
        let effect = turn.next_effect();
        (turn, effect)
    }

    /// Returns the node of the last step, or an empty text before the first step.
    pub fn last_node(&self) -> &str {
        &self.last_node
    }

    /// Takes the outcome of the last effect and returns the next effect.
    ///
    /// An input that does not fit the last effect is a defect of the driver and fails the run as internal.
    pub fn advance(&mut self, input: TurnInput) -> TurnEffect {
        let phase = std::mem::replace(&mut self.phase, TurnPhase::Finished);
        match (phase, input) {
            (TurnPhase::Running(node), TurnInput::Ran(Ok(update))) => self.complete_step(&node, update),
            (
                TurnPhase::Running(_) | TurnPhase::Performing,
                TurnInput::Ran(Err(failure)) | TurnInput::Performed(Err(failure)),
            ) => self.fail_run(failure),
            (TurnPhase::Performing, TurnInput::Performed(Ok(update))) => {
                self.activities.pop_front();
                self.apply_update(&update);
                self.commit(update)
            }
            (TurnPhase::Committing(Some(ending)), TurnInput::Committed) => TurnEffect::Finish(ending),
            (TurnPhase::Committing(None), TurnInput::Committed) => self.next_effect(),
            (TurnPhase::Committing(Some(ending)), TurnInput::Stop { .. }) => TurnEffect::Finish(ending),
            (TurnPhase::Committing(None), TurnInput::Stop { .. }) if !self.activities.is_empty() => {
                self.next_effect()
            }
            // A step with questions or activities completes as it would without the stop, so that none is lost.
            (TurnPhase::Running(node), TurnInput::Stop { update, .. })
                if !update.interrupts.is_empty() || !update.activities.is_empty() =>
            {
                self.complete_step(&node, update)
            }
            (
                TurnPhase::Running(_) | TurnPhase::Committing(None),
                TurnInput::Stop { update, status, reason },
            ) => {
                // An empty update may mean that the node never ran, so the doubt about earlier attempts remains.
                if self.entry == StepEntry::Recovered && update.is_empty() {
                    RECOVERED_CHANNEL.set(&mut self.channels, &true);
                }
                self.apply_update(&update);
                let mut failure = RunFailure::new(FailureKind::from(status.as_str()), reason);
                if status == RunStatus::Timeout {
                    failure = failure.with_hint("send another message to continue, or raise the time limit");
                }
                self.end_run(update, RunEnding { status, failure: Some(failure), interrupts: Vec::new() })
            }
            (phase, input) => {
                let message = format!("advance a turn: {input:?} is not an outcome of {phase:?}");
                self.fail_run(StepFailure::new(FailureKind::Internal, message))
            }
        }
    }

    /// Completes the step of `node`: applies its update, finds the next node and commits. A step that changed
    /// nothing is not committed unless it ends the graph.
    fn complete_step(&mut self, node: &str, update: GraphUpdate) -> TurnEffect {
        self.step += 1;
        let had_answers = ANSWERS_CHANNEL.remove(&mut self.channels);
        pending_questions_channel(node).remove(&mut self.channels);
        RESUMED_CHANNEL.remove(&mut self.channels);
        self.apply_update(&update);
        if !update.is_empty() || had_answers {
            self.update_recovery(node);
        }
        if !update.interrupts.is_empty() {
            return self.raise_interrupts(node, update);
        }
        self.next = match update.jump {
            Some(node) => Some(node.to_owned()),
            None => match self.graph.next_node(node, &self.channels) {
                Ok(next) => next,
                Err(error) => return self.fail_at_edge(update, error),
            },
        };
        match (&self.next, update.is_empty() && !had_answers) {
            (Some(_), true) => self.next_effect(),
            _ => self.commit(update),
        }
    }

    /// Returns whether the next node may have been started before.
    pub const fn entry(&self) -> StepEntry {
        self.entry
    }

    /// Records, with the commit of `node`'s step, whether the next node may have been started before.
    fn update_recovery(&mut self, node: &str) {
        if self.entry == StepEntry::Fresh {
            return;
        }
        if self.graph.get(node).is_some_and(|node| node.has_effects()) {
            self.entry = StepEntry::Fresh;
            RECOVERED_CHANNEL.remove(&mut self.channels);
        } else {
            RECOVERED_CHANNEL.set(&mut self.channels, &true);
        }
    }

    /// Ends the run with the questions of `node`'s update, and stays at `node`, which runs again with the
    /// answers.
    fn raise_interrupts(&mut self, node: &str, update: GraphUpdate) -> TurnEffect {
        self.next = Some(node.to_owned());
        RECOVERED_CHANNEL.remove(&mut self.channels);
        let keys = update.interrupts.iter().map(|request| request.key.clone()).collect();
        let questions = PendingQuestions { step: self.step, keys, entry: self.entry };
        pending_questions_channel(node).set(&mut self.channels, &questions);
        let interrupts = update.interrupts.iter().map(|request| request.payload.clone()).collect();
        self.end_run(update, RunEnding { status: RunStatus::Interrupted, failure: None, interrupts })
    }

    /// Returns whether the run stops here because of a breakpoint before `next` or after the last node. A
    /// breakpoint before the node at which the run resumed does not count.
    fn is_at_breakpoint(&self, next: &str) -> bool {
        let Breakpoints { before, after } = self.limits.breakpoints;
        let is_resumed = RESUMED_CHANNEL.is_set(&self.channels) || ANSWERS_CHANNEL.is_set(&self.channels);
        (before.contains(next) && !is_resumed)
            || (!self.last_node.is_empty() && after.contains(&self.last_node))
    }

    /// Applies the channels and activities of an update. A `null` removes the channel.
    fn apply_update(&mut self, update: &GraphUpdate) {
        for (key, value) in &update.channels {
            match value {
                Value::Null => drop(self.channels.remove(key)),
                value => drop(self.channels.insert(key.clone(), value.clone())),
            }
        }
        self.activities.extend(update.activities.iter().cloned());
    }

    /// Commits an update. If nothing is left to do, or a breakpoint is reached, the same transaction ends the
    /// run.
    fn commit(&mut self, update: GraphUpdate) -> TurnEffect {
        match &self.next {
            None if self.activities.is_empty() => {
                return self.end_run(update, RunEnding::with_status(RunStatus::Success));
            }
            Some(next) if self.activities.is_empty() && self.is_at_breakpoint(next) => {
                return self.end_run(update, RunEnding::with_status(RunStatus::Interrupted));
            }
            Some(_) | None => {}
        }
        self.phase = TurnPhase::Committing(None);
        TurnEffect::Commit { update, ending: None }
    }

    /// Ends the run: commits an update together with the run's outcome.
    fn end_run(&mut self, update: GraphUpdate, ending: RunEnding) -> TurnEffect {
        self.phase = TurnPhase::Committing(Some(ending.clone()));
        TurnEffect::Commit { update, ending: Some(ending) }
    }

    /// Ends the run as failed, and keeps the partial changes of the failed step.
    fn fail_run(&mut self, mut failure: StepFailure) -> TurnEffect {
        let partial = std::mem::take(&mut *failure.partial);
        self.apply_update(&partial);
        self.end_run(partial, RunEnding::from_failure(failure))
    }

    /// Ends the run as failed after a completed step, because the next node cannot be determined. The changes of
    /// the step and those of the failure are kept.
    fn fail_at_edge(&mut self, mut update: GraphUpdate, error: ChannelError) -> TurnEffect {
        let mut failure = StepFailure::from(error);
        self.apply_update(&failure.partial);
        update.merge(std::mem::take(&mut *failure.partial));
        self.end_run(update, RunEnding::from_failure(failure))
    }

    /// Returns the next effect after a commit: the first pending activity, else the next node. The run ends if
    /// neither exists, at a breakpoint, and at the limit of steps.
    fn next_effect(&mut self) -> TurnEffect {
        if let Some(activity) = self.activities.front() {
            self.phase = TurnPhase::Performing;
            return TurnEffect::Perform(activity.clone());
        }
        let Some(node) = self.next.clone() else {
            return self.end_run(GraphUpdate::default(), RunEnding::with_status(RunStatus::Success));
        };
        if self.is_at_breakpoint(&node) {
            return self.end_run(GraphUpdate::default(), RunEnding::with_status(RunStatus::Interrupted));
        }
        if self.step >= self.limits.steps_max {
            let message = format!("the run reached its limit of {} steps", self.limits.steps_max);
            let failure = RunFailure::new(FailureKind::StepLimit, message)
                .with_hint("send another message to continue, or raise the step limit");
            let failure = Some(failure);
            return self.end_run(
                GraphUpdate::default(),
                RunEnding { status: RunStatus::Timeout, failure, interrupts: Vec::new() },
            );
        }
        let answers = match ANSWERS_CHANNEL.get(&self.channels) {
            Ok(answers) => answers.unwrap_or_default(),
            Err(error) => return self.fail_run(error.into()),
        };
        self.phase = TurnPhase::Running(node.clone());
        self.last_node.clone_from(&node);
        TurnEffect::RunNode { node, answers, entry: self.entry }
    }
}

#[cfg(test)]
mod tests;
