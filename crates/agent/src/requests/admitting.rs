//! One request on its way to an admission: the thread is looked at once, and what was asked for becomes a beginning for the
//! runtime, or a run that has ended.

mod answers;
pub(super) mod bounds;
pub(super) mod ending;
mod input;
mod placing;
mod refused;

use protocol::{FailureKind, RunFailure};
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{CheckpointRef, Superseded, ThreadPatch, Write};
use model::ChatModel;
use protocol::{
    Checkpoint, CheckpointId, Decision, Decisions, Interrupt, InterruptId, Message, RunRequest, Thread,
    ThreadId, ThreadStatus,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Admission, AnswerDurability, BEFORE_AGENT_NODE, Channels, Driver,
    Head, MODEL_NODE, Start, TOOLS_NODE, Update,
};
use serde_json::Value;
use uuid::Uuid;

use self::answers::{Strictness, decided, matched};
use self::bounds::bind;
use self::ending::Outcome;
use self::input::PutIn;
use self::refused::Tried;
use super::action::{Answer, Answers, RunAction, RunInput};
use super::messages::{Change, InputMessage};
use super::threads::{made, stamped};
use super::{Beginning, Begun, PreparedStart, What, Work};
use crate::agent::Agent;
use crate::assembly::Purpose;
use crate::handoffs::look::handoff_of;
use crate::threads::back::takes_questions;
use crate::workspace::{home_of_first_turn, is_in_place};
use crate::{Class, Error, Result, RunError};

/// The nodes of a turn, where a client may have its run begin.
const TURN_NODES: [&str; 5] = [BEFORE_AGENT_NODE, MODEL_NODE, AFTER_MODEL_NODE, TOOLS_NODE, AFTER_AGENT_NODE];

/// A request on its way to an admission.
pub(super) struct Admitting<'a> {
    pub(super) agent: &'a Agent,
    pub(super) beginning: Beginning<'a>,
    /// The thread, as it was read.
    pub(super) thread: &'a Thread,
    pub(super) now: Timestamp,
}

/// A run that is worked out and not yet admitted.
struct RunPlan {
    purpose: Purpose,
    /// The folder in which it works.
    workspace: PathBuf,
    /// Where the thread stands.
    head: Option<Checkpoint>,
    put_in: PutIn,
    start: Start,
    subagents: SubagentQuestions,
}

/// What becomes of what sub-agents ask through the questions that the run takes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubagentQuestions {
    TakenBack,
    /// The sub-agents ask again.
    Kept,
}

impl Admitting<'_> {
    /// Begins the run where the thread stands at `head`, or ends it where there is nothing to do.
    pub(super) async fn begin(&self, head: Option<Checkpoint>) -> Tried<Begun> {
        let input = match self.beginning.what {
            What::Requested => self.requested()?,
            What::Given(input) => input.clone(),
            What::Prepared(prepared) => return self.prepared(prepared).await,
        };
        let fork = self.fork(head.as_ref());
        match input.action {
            RunAction::BeginTurn => self.turn(head, input.messages, fork).await,
            RunAction::Continue => self.go_on(head, input.messages, fork).await,
            RunAction::GoTo(node) => self.go_to(head, node, input.messages, fork).await,
            RunAction::DropPending => self.drop_waiting(head, input.messages).await,
            RunAction::Answer(answers) => self.answer(head, answers, input.messages, fork).await,
            RunAction::Rehome(interrupt_id) => self.rehome(head, interrupt_id).await,
        }
    }

    /// Begins a turn on a thread that is made with it; `None` where something else is asked for, and nothing was done.
    pub(super) async fn begin_turn_on_new(&self) -> Tried<Option<Begun>> {
        let (request, input) = (self.beginning.request, self.requested()?);
        let is_said = |message: &InputMessage| matches!(message.change, Change::Put(Message::Human(_)));
        let is_turn = input.action == RunAction::BeginTurn && request.checkpoint_id.is_none();
        if !is_turn || !input.messages.iter().all(is_said) || !self.are_new(&input.messages).await? {
            return Ok(None);
        }
        let mut put_in = self.put_in(input.messages, None).await?;
        put_in.update.writes.splice(0..0, made(self.thread)?);
        self.turn_with(None, put_in).await.map(Some)
    }

    /// Reads what the request asks for.
    fn requested(&self) -> std::result::Result<RunInput, RunFailure> {
        let request = self.beginning.request;
        match request.rehome {
            true => Ok(RunInput::rehome(request.rehome_interrupt_id)),
            false => (self.agent.settings.read_request)(request, self.thread_id(), self.now),
        }
    }

    fn thread_id(&self) -> ThreadId {
        self.thread.thread_id
    }

    /// Returns the point of the past that the request names; the head is none.
    fn fork(&self, head: Option<&Checkpoint>) -> Option<CheckpointId> {
        let named = self.beginning.request.checkpoint_id?;
        let is_head = head.is_some_and(|head| named == head.checkpoint_id);
        (!is_head).then_some(named)
    }

    /// Returns what waits. A thread at rest has nothing that does.
    async fn pending(&self) -> Result<Vec<Interrupt>> {
        match self.thread.status {
            ThreadStatus::Idle => Ok(Vec::new()),
            ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
                self.agent.runs().pending_interrupts(self.thread_id()).await
            }
        }
    }

    /// A turn: the messages go in, and the graph begins at its entry.
    async fn turn(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let put_in = self.put_in(messages, fork).await?;
        self.turn_with(head, put_in).await
    }

    async fn turn_with(&self, head: Option<Checkpoint>, put_in: PutIn) -> Tried<Begun> {
        if self.thread.message_count == 0 && put_in.update.events.is_empty() {
            return Err(nothing_put_in().into());
        }
        let mut channels = Purpose::Turn.channels();
        channels.extend(handoff::turn_channels(self.thread));
        let workspace = self.workspace().await?;
        let start = Start { channels, ..Start::default() };
        let (purpose, subagents) = (Purpose::Turn, SubagentQuestions::TakenBack);
        self.admit(RunPlan { purpose, workspace, head, put_in, start, subagents }).await
    }

    /// Goes on where the thread, or a point of its past, stands.
    async fn go_on(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let is_empty = messages.is_empty();
        let Some(fork) = fork else {
            let next = head.as_ref().and_then(|head| head.next.clone());
            let pending = self.pending().await?;
            return match next {
                Some(_) if !pending.is_empty() && is_empty => {
                    Ok(self.end(Outcome::Waiting, head, pending).await?)
                }
                Some(node) => {
                    let put_in = self.put_in(messages, None).await?;
                    self.go_on_at(head, node, put_in).await
                }
                None if !is_empty => {
                    let put_in = self.put_in(messages, None).await?;
                    self.rest(head, put_in).await
                }
                None if head.is_none() && self.thread.message_count == 0 => Err(nothing_put_in().into()),
                None => Ok(self.end(Outcome::Nothing, head, pending).await?),
            };
        };
        let put_in = match is_empty {
            true => self.put_in(messages, Some(self.behind_input(fork).await?)).await?,
            false => self.put_in(messages, Some(fork)).await?,
        };
        match put_in.next.clone().filter(|node| TURN_NODES.contains(&node.as_str())) {
            Some(node) => self.go_on_at(head, node, put_in).await,
            None => self.rest(head, put_in).await,
        }
    }

    /// Returns the point behind the input, where `fork` is the one before it: nothing is put in anew, so that what was put
    /// in there is.
    async fn behind_input(&self, fork: CheckpointId) -> Tried<CheckpointId> {
        let behind = CheckpointId::from_uuid(Uuid::from_u128(fork.uuid().as_u128().wrapping_add(1)));
        let at = |id| CheckpointRef::Id(id);
        let found = self.agent.store.checkpoint_at(self.thread_id(), at(behind), Superseded::Shown).await?;
        let is_input = found.is_some_and(|(point, _)| point.step == 0 && point.input_seq.is_some());
        Ok(if is_input { behind } else { fork })
    }

    /// Goes on at a node. Calls that wait there are made in the folder in which they were proposed; where that does not
    /// exist, they are looked at again in another one.
    async fn go_on_at(&self, head: Option<Checkpoint>, node: String, put_in: PutIn) -> Tried<Begun> {
        let purpose = Purpose::to_go_on(Some(&node), head.as_ref());
        let run_id = head.as_ref().filter(|_| put_in.back_to.is_none()).map(|head| head.run_id);
        let proposed = self.agent.workspace_of_run(self.thread, run_id).await?.filter(|at| is_in_place(at));
        let (node, workspace) = match proposed {
            Some(workspace) => (node, workspace),
            None if node == TOOLS_NODE => (AFTER_MODEL_NODE.to_owned(), self.workspace().await?),
            None => (node, self.workspace().await?),
        };
        let channels = match purpose {
            Purpose::Turn => Purpose::Turn.channels(),
            Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop => Channels::new(),
        };
        let start = Start { node: Some(node), channels, ..Start::default() };
        let subagents = SubagentQuestions::TakenBack;
        self.admit(RunPlan { purpose, workspace, head, put_in, start, subagents }).await
    }

    /// Goes to a node of the turn, wherever the thread stands. Calls are always looked at before they are made.
    async fn go_to(
        &self,
        head: Option<Checkpoint>,
        node: String,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let Some(node) = TURN_NODES.into_iter().find(|known| *known == node) else {
            let shown: String = node.chars().take(80).collect();
            let nodes = TURN_NODES.join(", ");
            let unknown =
                format!("there is no node `{shown}` to go to; there are {nodes}, __start__ and __end__");
            return Err(RunFailure::new(FailureKind::InvalidUpdate, unknown).into());
        };
        let put_in = self.put_in(messages, fork).await?;
        if self.thread.message_count == 0 && put_in.update.events.is_empty() {
            return Err(nothing_put_in().into());
        }
        let stands_at = head.as_ref().and_then(|head| head.next.as_deref());
        let node = if node == TOOLS_NODE && stands_at != Some(TOOLS_NODE) { AFTER_MODEL_NODE } else { node };
        self.go_on_at(head, node.to_owned(), put_in).await
    }

    /// Drops what waits: questions are withdrawn, a handoff is declined, and the thread is at rest.
    async fn drop_waiting(&self, head: Option<Checkpoint>, messages: Vec<InputMessage>) -> Tried<Begun> {
        let pending = self.pending().await?;
        let mut put_in = self.put_in(messages, None).await?;
        for interrupt in &pending {
            let Some(handoff_id) = handoff_of(interrupt) else { continue };
            let (interrupt_id, at) = (interrupt.interrupt_id, self.now);
            put_in.update.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
            let Some(waiting) = self.agent.store.handoff(handoff_id).await? else { continue };
            let channels = head.as_ref().map(|head| &head.channels);
            let aside = handoff::put_aside(&waiting, channels.unwrap_or(&Channels::new()), None, at)
                .map_err(|failure| RunFailure::new(FailureKind::InvalidUpdate, failure.message))?;
            put_in.update.merge(aside);
        }
        if head.is_none() && put_in.update.events.is_empty() {
            return Ok(self.end(Outcome::Nothing, head, pending).await?);
        }
        self.rest(head, put_in).await
    }

    /// Begins a run that has nothing to do but what its admission does: the thread goes back, or drops what waits.
    async fn rest(&self, head: Option<Checkpoint>, put_in: PutIn) -> Tried<Begun> {
        let start = Start { channels: Purpose::Drop.channels(), ..Start::default() };
        let workspace = self.workspace().await?;
        let (purpose, subagents) = (Purpose::Drop, SubagentQuestions::TakenBack);
        self.admit(RunPlan { purpose, workspace, head, put_in, start, subagents }).await
    }

    /// Admits a run as it was planned.
    async fn admit(&self, plan: RunPlan) -> Tried<Begun> {
        let RunPlan { purpose, workspace, head, put_in, mut start, subagents } = plan;
        let agent = self.agent.in_workspace(&workspace);
        let (mut driver, model) = self.driver_of(&agent, purpose).await?;
        bind(&mut driver, self.beginning.request)?;
        let PutIn { back_to, mut update, .. } = put_in;
        update.writes.extend(self.kept(&agent).await?);
        if purpose == Purpose::Turn {
            update.writes.extend(home_of_first_turn(self.thread, &workspace));
        }
        let leaves = head.as_ref().filter(|head| start.node.is_none() || start.node != head.next);
        if let (None, Some(head)) = (&back_to, leaves) {
            let mut channels = head.channels.clone();
            channels.retain(|key, _| !update.channels.get(key).is_some_and(Value::is_null));
            let waiting = handoff::left_waiting(&*agent.store, &channels, self.now).await?;
            update.events.splice(0..0, waiting);
        }
        if subagents == SubagentQuestions::TakenBack && !takes_questions(back_to.as_ref()) {
            update.writes.extend(agent.runs().taken_back(&self.pending().await?, self.now).await?);
        }
        start.update = update;
        start.back_to = back_to;
        start.head = Head::Read(head.map(Box::new));
        let admission = self.admission(model.as_ref(), &driver);
        let admitted = runtime::admit(&*agent.store, &driver.graph, &admission, start).await?;
        self.begun(Work::Driven(Box::new((driver, admitted))), model.as_ref()).await
    }

    /// Admits a run that is not a turn.
    async fn prepared(&self, prepared: &PreparedStart) -> Tried<Begun> {
        let (driver, model) = self.driver_of(self.agent, prepared.purpose).await?;
        let mut start = prepared.start.clone();
        start.update.writes.extend(self.kept(self.agent).await?);
        let admission = self.admission(model.as_ref(), &driver);
        let admitted = runtime::admit(&*self.agent.store, &driver.graph, &admission, start).await?;
        self.begun(Work::Driven(Box::new((driver, admitted))), model.as_ref()).await
    }

    /// Answers what waits. Where other questions of the step still do, the run ends with the answers stored.
    async fn answer(
        &self,
        head: Option<Checkpoint>,
        answers: Answers,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let agent = self.agent;
        self.check_is_head(head.as_ref(), fork).await?;
        let pending = self.pending().await?;
        let of_step = of_step(&pending, head.as_ref());
        let strictness = match self.beginning.request.strict_resume {
            true => Strictness::Strict,
            false => Strictness::Lenient,
        };
        let answers = matched(answers, &pending, &of_step, strictness)?;
        let Some(node) = answers.first().map(|(interrupt, _)| interrupt.node.clone()) else {
            return self.answer_nothing(head, messages, pending).await;
        };
        if answers.iter().any(|(interrupt, _)| interrupt.node != node) {
            let why =
                "ambiguous: the answers are to questions of several steps; answer those of one at a time";
            return Err(RunFailure::new(FailureKind::AmbiguousResume, why).into());
        }
        let mut decisions = Vec::with_capacity(answers.len());
        for (interrupt, answer) in answers {
            decisions.push((interrupt, self.decisions(interrupt, answer).await?));
        }
        let purpose = Purpose::to_go_on(Some(&node), head.as_ref());
        let workspace = self.workspace_of_answers(&decisions).await?;
        let agent = &agent.in_workspace(&workspace);
        let (mut driver, model) = self.driver_of_answers(agent, purpose, &decisions).await?;
        bind(&mut driver, self.beginning.request)?;
        for (interrupt, decisions) in &decisions {
            self.check(&driver, interrupt, decisions).await?;
        }
        let is_answered = |interrupt: &Interrupt| {
            decisions.iter().any(|(answered, _)| answered.interrupt_id == interrupt.interrupt_id)
        };
        let mut with = self.put_behind(messages).await?;
        let is_alone = nothing_beside(&with);
        let is_open = |interrupt: &Interrupt| interrupt.node == node && !is_answered(interrupt);
        if pending.iter().any(is_open) {
            let others = pending.iter().filter(|interrupt| !is_answered(interrupt)).cloned().collect();
            is_alone?;
            return Ok(self.answer_some(&decisions, head, others).await?);
        }
        with.writes.extend(self.kept(agent).await?);
        let given: Vec<(&Interrupt, &Decisions)> =
            decisions.iter().map(|(interrupt, decisions)| (*interrupt, decisions)).collect();
        let admission = self.admission(model.as_ref(), &driver);
        match runtime::resume(&*agent.store, &driver.graph, &admission, &given, with).await? {
            Some(admitted) => self.begun(Work::Driven(Box::new((driver, admitted))), model.as_ref()).await,
            // A question that nobody saw came up meanwhile.
            None => {
                let mut others = agent.runs().pending_interrupts(self.thread_id()).await?;
                others.retain(|interrupt| !is_answered(interrupt));
                if !others.iter().any(is_open) {
                    // It was answered as well: these are the last ones.
                    return Err(runtime::Error::Outrun.into());
                }
                is_alone?;
                Ok(self.answer_some(&decisions, head, others).await?)
            }
        }
    }

    /// Ends a run whose answers answer no pending question, or continues with the messages that came with them.
    async fn answer_nothing(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        pending: Vec<Interrupt>,
    ) -> Tried<Begun> {
        match pending.is_empty() {
            // Messages that come with an answer to nothing are put in all the same.
            true if !messages.is_empty() => self.go_on(head, messages, None).await,
            true => Ok(self.end(Outcome::Nothing, head, pending).await?),
            false => {
                nothing_beside(&self.put_behind(messages).await?)?;
                Ok(self.end(Outcome::Waiting, head, pending).await?)
            }
        }
    }

    /// Returns what puts these messages behind those there are. What was asked is of those, which cannot change with the
    /// answer.
    async fn put_behind(&self, messages: Vec<InputMessage>) -> Tried<Update> {
        let put_in = self.put_in(messages, None).await?;
        match put_in.back_to {
            None => Ok(put_in.update),
            Some(_) => {
                let why = "an answer cannot come with a change of messages that are there already";
                Err(RunFailure::new(FailureKind::InvalidUpdate, why).into())
            }
        }
    }

    /// Checks that an answer is for what waits, and not for a point of the past: what was asked there was decided, or is
    /// out of sight.
    async fn check_is_head(&self, head: Option<&Checkpoint>, fork: Option<CheckpointId>) -> Tried<()> {
        let Some(fork) = fork else { return Ok(()) };
        let Some(head) = head else { return Err(unknown_point(fork).into()) };
        let at = CheckpointRef::Id(fork);
        match self.agent.store.checkpoint_at(self.thread_id(), at, Superseded::Shown).await? {
            Some((point, _)) if point.next == head.next && point.head_seq == head.head_seq => Ok(()),
            Some(_) => {
                let why = format!(
                    "not_pending: what was asked at checkpoint {fork} was decided or taken back; begin there without an answer \
                     to be asked again"
                );
                Err(RunFailure::new(FailureKind::UnknownInterrupt, why).into())
            }
            None => Err(unknown_point(fork).into()),
        }
    }

    /// Returns what an answer decides. Whether the node that asked takes it is not looked at.
    async fn decisions(&self, interrupt: &Interrupt, answer: Answer) -> Tried<Decisions> {
        self.agent.handoffs().check_age(interrupt).await?;
        Ok(decided(interrupt.interrupt_id, answer)?)
    }

    /// Checks that the node that asked takes the decisions.
    async fn check(&self, driver: &Driver, interrupt: &Interrupt, decisions: &Decisions) -> Tried<()> {
        let interrupt_id = interrupt.interrupt_id;
        let node = driver.graph.get(&interrupt.node).ok_or_else(|| unknown_node(&interrupt.node))?;
        let rejected = |rejection| runtime::Error::Rejected { interrupt_id, rejection };
        runtime::check_decisions(&**node, interrupt, decisions).map_err(rejected)?;
        Ok(node.check(interrupt, decisions, &self.agent.store).await.map_err(rejected)?)
    }

    /// Returns the driver of the run, bounded by nothing but the settings, and the model it uses.
    ///
    /// # Errors
    /// When a turn has no model that can be used.
    async fn driver(&self, agent: &Agent, purpose: Purpose) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        let model = match (agent.models.open(), purpose) {
            (Ok(None), Purpose::Turn) => return Err(RunError::NoModel(self.thread_id()).into()),
            (opened, Purpose::Turn) => opened?,
            (opened, Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop) => {
                opened.unwrap_or(None)
            }
        };
        let driver = agent.driver(&self.thread.assistant_id, model.as_ref(), purpose).await?;
        Ok((driver, model))
    }

    /// Returns the driver of a run as [`Self::driver`] does; where a turn has no model that can be used, that of a turn which
    /// keeps what was put in and fails.
    async fn driver_of(
        &self,
        agent: &Agent,
        purpose: Purpose,
    ) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        match self.driver(agent, purpose).await {
            Err(error) if is_without_model(purpose, &error) => {
                Ok((agent.driver_without_model(&error).await?, None))
            }
            driver => driver,
        }
    }

    /// Returns the driver of a run as [`Self::driver`] does; where a turn has no model that can be used and everything is
    /// rejected, that of a turn which records the rejection and fails. A sub-agent's question needs a model all the same.
    async fn driver_of_answers(
        &self,
        agent: &Agent,
        purpose: Purpose,
        answers: &[(&Interrupt, Decisions)],
    ) -> Result<(Driver, Option<Arc<dyn ChatModel>>)> {
        let is_reject = |decision: &Decision| matches!(decision, Decision::Reject { .. });
        let is_rejection = answers
            .iter()
            .all(|(interrupt, given)| interrupt.node != TOOLS_NODE && given.decisions.iter().all(is_reject));
        match self.driver(agent, purpose).await {
            Err(error) if is_rejection && is_without_model(purpose, &error) => {
                Ok((agent.rejecting_driver(&self.thread.assistant_id, &error).await?, None))
            }
            driver => driver,
        }
    }

    fn admission(&self, model: Option<&Arc<dyn ChatModel>>, driver: &Driver) -> Admission {
        Admission {
            run_id: self.beginning.run_id,
            thread_id: self.thread_id(),
            assistant_id: self.thread.assistant_id.clone(),
            model: model.map(|model| model.name().to_string()),
            lease: driver.lease.clone(),
            now: self.now,
            origin: self.beginning.origin,
            durability: match self.beginning.what {
                What::Requested => AnswerDurability::AtAdmission,
                What::Given(_) | What::Prepared(_) => AnswerDurability::WithStep,
            },
        }
    }

    async fn begun(&self, work: Work, model: Option<&Arc<dyn ChatModel>>) -> Tried<Begun> {
        let run = self.row(model.map(|model| model.name().to_string())).await?;
        let (run_id, thread_id) = (self.beginning.run_id, self.thread_id());
        Ok(Begun { run, run_id, thread_id, work })
    }

    /// Returns the writes that keep what was asked and who is to be told, and say on the thread whose it is.
    async fn kept(&self, agent: &Agent) -> Result<Vec<Write>> {
        let (run_id, thread_id) = (self.beginning.run_id, self.thread_id());
        let request = RunRequest { workspace: agent.named_workspace()?, ..self.beginning.request.begun() };
        let request = Write::PutRunRequest { run_id, thread_id, request: Box::new(request) };
        let stamp = stamped(self.thread).map(|patch: ThreadPatch| Write::UpdateThread { thread_id, patch });
        let owed = self.agent.runs().owed(run_id, self.beginning.request).await?;
        Ok([request].into_iter().chain(stamp).chain(owed).collect())
    }
}

/// Returns the questions of the step at which the thread stands.
fn of_step(pending: &[Interrupt], head: Option<&Checkpoint>) -> Vec<InterruptId> {
    let node = head.and_then(|head| head.next.as_deref());
    let asked = pending.iter().filter(|interrupt| Some(interrupt.node.as_str()) == node);
    asked.map(|interrupt| interrupt.interrupt_id).collect()
}

/// Checks that no message comes with answers that leave questions open: the calls they are about would be passed over
/// once one is behind them.
fn nothing_beside(with: &Update) -> std::result::Result<(), RunFailure> {
    match with.events.is_empty() {
        true => Ok(()),
        false => {
            let why =
                "messages cannot be put in while questions of the step wait; answer all of them with it";
            Err(RunFailure::new(FailureKind::InvalidUpdate, why))
        }
    }
}

/// Returns whether the error is that of a turn which has no model that can be used.
fn is_without_model(purpose: Purpose, error: &Error) -> bool {
    purpose == Purpose::Turn && matches!(error.class(), Class::Config | Class::Model)
}

/// Returns the failure of an answer to a question of a node that the graph does not have.
fn unknown_node(node: &str) -> RunFailure {
    let shown: String = node.chars().take(80).collect();
    let what = format!("the question was asked by the node `{shown}`, which is unknown here");
    RunFailure {
        hint: Some("send a message: that withdraws the question".to_owned()),
        ..RunFailure::new(FailureKind::InvalidDecision, what)
    }
}

fn nothing_put_in() -> RunFailure {
    RunFailure::new(FailureKind::EmptyInput, "the thread is empty, and nothing was put in")
}

fn unknown_point(given: CheckpointId) -> RunFailure {
    RunFailure::new(
        FailureKind::UnknownCheckpoint,
        format!("failed to find checkpoint `{given}` in the thread"),
    )
}
