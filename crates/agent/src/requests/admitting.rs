//! One request on its way to an admission: the thread is looked at once, and what was asked for becomes a beginning for the
//! runtime, or a run that has ended.

mod answers;

use std::sync::Arc;

use jiff::Timestamp;
use journal::{CheckpointRef, Superseded, ThreadPatch, Write};
use model::ChatModel;
use protocol::{
    Checkpoint, CheckpointId, Decisions, Interrupt, InterruptId, Message, RunId, RunRequest, Thread,
    ThreadId, ThreadStatus,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Admission, Admitted, BEFORE_AGENT_NODE, Channels, Driver, Head,
    MODEL_NODE, Origin, Start, TOOLS_NODE, Update,
};
use serde_json::Value;
use uuid::Uuid;

use self::answers::{Strictness, decided, matched};
use super::bounds::bind;
use super::ending::Outcome;
use super::fault::{
    AMBIGUOUS_RESUME, CONFIGURATION, EMPTY_INPUT, Fault, INVALID_DECISION, INVALID_UPDATE,
    UNKNOWN_CHECKPOINT, UNKNOWN_INTERRUPT, WORKSPACE,
};
use super::input::PutIn;
use super::messages::{Change, InputMessage};
use super::threads::{made, stamped};
use super::wanted::{Answers, Go, Wanted};
use super::{Begun, Work};
use crate::agent::Agent;
use crate::assembly::Purpose;
use crate::handoffs::look::handoff_of;
use crate::threads::back::takes_questions;
use crate::{Class, Error, Result};

/// The nodes of a turn, where a client may have its run begin.
const TURN_NODES: [&str; 5] = [BEFORE_AGENT_NODE, MODEL_NODE, AFTER_MODEL_NODE, TOOLS_NODE, AFTER_AGENT_NODE];

/// A request on its way to an admission.
pub(super) struct Admitting<'a> {
    pub(super) agent: &'a Agent,
    pub(super) run_id: RunId,
    /// The thread, as it was read.
    pub(super) thread: &'a Thread,
    pub(super) request: &'a RunRequest,
    pub(super) origin: Origin,
    pub(super) now: Timestamp,
}

/// Why a request did not lead to a run that works.
pub(super) enum Refused {
    /// The run ends with it.
    Fault(Fault),
    /// Nothing was written.
    Error(Error),
}

/// What an admission comes to, step by step.
pub(super) type Tried<T> = std::result::Result<T, Refused>;

impl<E: Into<Error>> From<E> for Refused {
    fn from(error: E) -> Self {
        match error.into() {
            error @ Error::OtherWorkspace { .. } => Self::Fault(Fault::new(WORKSPACE, error.to_string())),
            error @ Error::NoModel { .. } => Self::Fault(Fault::new(CONFIGURATION, error.to_string())),
            Error::Runtime(runtime::Error::Rejected { interrupt_id, rejection }) => {
                let why = format!("failed to take the answer to interrupt {interrupt_id}: {rejection}");
                Self::Fault(Fault::new(INVALID_DECISION, why))
            }
            Error::Runtime(runtime::Error::Journal(journal::Error::AlreadyDecided { interrupt_id }))
            | Error::Journal(journal::Error::AlreadyDecided { interrupt_id }) => {
                let why = format!("not_pending: interrupt {interrupt_id} was answered by somebody else");
                Self::Fault(Fault::new(UNKNOWN_INTERRUPT, why))
            }
            error @ (Error::Expired { .. } | Error::Decided { .. } | Error::Redrafting { .. }) => {
                Self::Fault(Fault::new(UNKNOWN_INTERRUPT, format!("not_pending: failed to {error}")))
            }
            error if matches!(error.class(), Class::Config | Class::Model) => {
                Self::Fault(Fault::new(CONFIGURATION, format!("failed to {error}")))
            }
            error => Self::Error(error),
        }
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Admitting<'_> {
    /// Begins the run where the thread stands at `head`, or ends it where there is nothing to do.
    pub(super) async fn begin(&self, head: Option<Checkpoint>) -> Tried<Begun> {
        let wanted = Wanted::read(self.request, Some((self.thread_id(), self.now)))?;
        let fork = self.fork(head.as_ref());
        match wanted.go {
            Go::Turn => self.turn(head, wanted.messages, fork).await,
            Go::On => self.go_on(head, wanted.messages, fork).await,
            Go::At(node) => self.go_to(head, (node, wanted.messages), fork).await,
            Go::End => self.drop_waiting(head, wanted.messages).await,
            Go::Answer(answers) => self.answer(head, (answers, wanted.messages), fork).await,
        }
    }

    /// Begins a turn on a thread that is made with it; `None` where something else is asked for, and nothing was done.
    pub(super) async fn begin_turn_on_new(&self) -> Tried<Option<Begun>> {
        let wanted = Wanted::read(self.request, Some((self.thread_id(), self.now)))?;
        let is_said = |message: &InputMessage| matches!(message.change, Change::Put(Message::Human(_)));
        let is_turn = wanted.go == Go::Turn && self.request.checkpoint_id.is_none();
        if !is_turn || !wanted.messages.iter().all(is_said) || !self.are_new(&wanted.messages).await? {
            return Ok(None);
        }
        let mut put_in = self.put_in(wanted.messages, None).await?;
        put_in.update.writes.splice(0..0, made(self.thread)?);
        self.turn_with(None, put_in).await.map(Some)
    }

    fn thread_id(&self) -> ThreadId {
        self.thread.thread_id
    }

    /// Returns the point of the past that the request names; the head is none.
    fn fork(&self, head: Option<&Checkpoint>) -> Option<CheckpointId> {
        let named = self.request.checkpoint_id?;
        let is_head = head.is_some_and(|head| named == head.checkpoint_id);
        (!is_head).then_some(named)
    }

    /// Returns what waits. A thread at rest has nothing that does.
    async fn pending(&self) -> Result<Vec<Interrupt>> {
        match self.thread.status {
            ThreadStatus::Idle => Ok(Vec::new()),
            ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
                self.agent.pending(self.thread_id()).await
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
        self.start(Purpose::Turn, (head, put_in), Start { channels, ..Start::default() }).await
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
                    self.go_on_at(head, (node, put_in)).await
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
            Some(node) => self.go_on_at(head, (node, put_in)).await,
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

    /// Goes on at a node.
    async fn go_on_at(&self, head: Option<Checkpoint>, (node, put_in): (String, PutIn)) -> Tried<Begun> {
        let purpose = self.agent.purpose(self.thread_id(), Some(&node), head.as_ref()).await?;
        let channels = match purpose {
            Purpose::Turn => Purpose::Turn.channels(),
            Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop => Channels::new(),
        };
        self.start(purpose, (head, put_in), Start { node: Some(node), channels, ..Start::default() }).await
    }

    /// Goes to a node of the turn, wherever the thread stands. Calls are always looked at before they are made.
    async fn go_to(
        &self,
        head: Option<Checkpoint>,
        (node, messages): (String, Vec<InputMessage>),
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let Some(node) = TURN_NODES.into_iter().find(|known| *known == node) else {
            let shown: String = node.chars().take(80).collect();
            let nodes = TURN_NODES.join(", ");
            let unknown =
                format!("there is no node `{shown}` to go to; there are {nodes}, __start__ and __end__");
            return Err(Fault::new(INVALID_UPDATE, unknown).into());
        };
        let put_in = self.put_in(messages, fork).await?;
        if self.thread.message_count == 0 && put_in.update.events.is_empty() {
            return Err(nothing_put_in().into());
        }
        let stands_at = head.as_ref().and_then(|head| head.next.as_deref());
        let node = if node == TOOLS_NODE && stands_at != Some(TOOLS_NODE) { AFTER_MODEL_NODE } else { node };
        self.go_on_at(head, (node.to_owned(), put_in)).await
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
                .map_err(|failure| Fault::new(INVALID_UPDATE, failure.message))?;
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
        self.start(Purpose::Drop, (head, put_in), start).await
    }

    /// Admits a run that begins with `start`.
    async fn start(
        &self,
        purpose: Purpose,
        (head, put_in): (Option<Checkpoint>, PutIn),
        mut start: Start,
    ) -> Tried<Begun> {
        let agent = self.agent;
        let (mut driver, model) = self.driver(purpose).await?;
        bind(&mut driver, self.request)?;
        let PutIn { back_to, mut update, .. } = put_in;
        update.writes.extend(self.kept().await?);
        let leaves = head.as_ref().filter(|head| start.node.is_none() || start.node != head.next);
        if let (None, Some(head)) = (&back_to, leaves) {
            let mut channels = head.channels.clone();
            channels.retain(|key, _| !update.channels.get(key).is_some_and(Value::is_null));
            let waiting = handoff::left_waiting(&*agent.store, &channels, self.now).await?;
            update.events.splice(0..0, waiting);
        }
        if !takes_questions(back_to.as_ref()) {
            update.writes.extend(agent.taken_back(&self.pending().await?, self.now).await?);
        }
        start.update = update;
        start.back_to = back_to;
        start.head = Head::Read(head.map(Box::new));
        let admission = self.admission(model.as_ref(), &driver);
        let admitted = runtime::admit(&*agent.store, &driver.graph, &admission, start).await?;
        self.begun((driver, admitted), model.as_ref()).await
    }

    /// Answers what waits. Where other questions of the step still do, the run ends with the answers stored.
    async fn answer(
        &self,
        head: Option<Checkpoint>,
        (answers, messages): (Answers, Vec<InputMessage>),
        fork: Option<CheckpointId>,
    ) -> Tried<Begun> {
        let agent = self.agent;
        self.check_is_head(head.as_ref(), fork).await?;
        let pending = self.pending().await?;
        let of_step = of_step(&pending, head.as_ref());
        let strictness = match self.request.strict_resume {
            true => Strictness::Strict,
            false => Strictness::Lenient,
        };
        let answers = matched(answers, (&pending, &of_step), strictness)?;
        let Some(node) = answers.first().map(|(interrupt, _)| interrupt.node.clone()) else {
            return match pending.is_empty() {
                // What comes with an answer to nothing is put in all the same.
                true if !messages.is_empty() => self.go_on(head, messages, None).await,
                true => Ok(self.end(Outcome::Nothing, head, pending).await?),
                false => {
                    nothing_beside(&self.put_behind(messages).await?)?;
                    Ok(self.end(Outcome::Waiting, head, pending.clone()).await?)
                }
            };
        };
        if answers.iter().any(|(interrupt, _)| interrupt.node != node) {
            let why =
                "ambiguous: the answers are to questions of several steps; answer those of one at a time";
            return Err(Fault::new(AMBIGUOUS_RESUME, why).into());
        }
        let purpose = agent.purpose(self.thread_id(), Some(&node), head.as_ref()).await?;
        let (mut driver, model) = self.driver(purpose).await?;
        bind(&mut driver, self.request)?;
        let mut decisions = Vec::with_capacity(answers.len());
        for (interrupt, answer) in answers {
            decisions.push((interrupt, self.decisions(&driver, interrupt, &answer).await?));
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
            return Ok(self.answer_some(&decisions, (head, others)).await?);
        }
        with.writes.extend(self.kept().await?);
        let given: Vec<(&Interrupt, &Decisions)> =
            decisions.iter().map(|(interrupt, decisions)| (*interrupt, decisions)).collect();
        let admission = self.admission(model.as_ref(), &driver);
        match runtime::resume(&*agent.store, &driver.graph, &admission, &given, with).await? {
            Some(admitted) => self.begun((driver, admitted), model.as_ref()).await,
            // A question that nobody saw came up meanwhile.
            None => {
                let mut others = agent.pending(self.thread_id()).await?;
                others.retain(|interrupt| !is_answered(interrupt));
                if !others.iter().any(is_open) {
                    // It was answered as well: these are the last ones.
                    return Err(runtime::Error::Outrun.into());
                }
                is_alone?;
                Ok(self.answer_some(&decisions, (head, others)).await?)
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
                Err(Fault::new(INVALID_UPDATE, why).into())
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
                Err(Fault::new(UNKNOWN_INTERRUPT, why).into())
            }
            None => Err(unknown_point(fork).into()),
        }
    }

    /// Returns what an answer decides, once the node that asked would take it.
    async fn decisions(&self, driver: &Driver, interrupt: &Interrupt, answer: &Value) -> Tried<Decisions> {
        let agent = self.agent;
        agent.check_age(interrupt).await?;
        let decisions = decided(interrupt.interrupt_id, answer)?;
        let (thread_id, interrupt_id) = (self.thread_id(), interrupt.interrupt_id);
        let node = driver.graph.get(&interrupt.node).ok_or(Error::NoModel { thread_id })?;
        let rejected = |rejection| runtime::Error::Rejected { interrupt_id, rejection };
        runtime::check_decisions(&**node, interrupt, &decisions).map_err(rejected)?;
        node.check(interrupt, &decisions, &agent.store).await.map_err(rejected)?;
        Ok(decisions)
    }

    /// Returns the driver of the run, bounded by nothing but the settings, and the model it uses.
    async fn driver(&self, purpose: Purpose) -> Tried<(Driver, Option<Arc<dyn ChatModel>>)> {
        let model = match (self.agent.models.open(), purpose) {
            (Ok(None), Purpose::Turn) => return Err(Error::NoModel { thread_id: self.thread_id() }.into()),
            (opened, Purpose::Turn) => opened?,
            (opened, Purpose::Handoff | Purpose::Compaction | Purpose::Rest | Purpose::Drop) => {
                opened.unwrap_or(None)
            }
        };
        let driver = self.agent.driver(&self.thread.assistant_id, model.as_ref(), purpose).await?;
        Ok((driver, model))
    }

    fn admission(&self, model: Option<&Arc<dyn ChatModel>>, driver: &Driver) -> Admission {
        Admission {
            run_id: self.run_id,
            thread_id: self.thread_id(),
            assistant_id: self.thread.assistant_id.clone(),
            model: model.map(|model| model.name().to_string()),
            lease: driver.lease.clone(),
            now: self.now,
            origin: self.origin,
        }
    }

    async fn begun(&self, work: (Driver, Admitted), model: Option<&Arc<dyn ChatModel>>) -> Tried<Begun> {
        let run = self.row(model.map(|model| model.name().to_string())).await?;
        let (run_id, thread_id) = (self.run_id, self.thread_id());
        Ok(Begun { run, run_id, thread_id, work: Work::Driven(Box::new(work)) })
    }

    /// Returns the writes that keep what was asked and who is to be told, and say on the thread whose it is.
    async fn kept(&self) -> Result<Vec<Write>> {
        let (run_id, thread_id) = (self.run_id, self.thread_id());
        let request = Write::PutRunRequest { run_id, thread_id, request: Box::new(self.request.begun()) };
        let stamp = stamped(self.thread).map(|patch: ThreadPatch| Write::UpdateThread { thread_id, patch });
        let owed = self.agent.owed(run_id, self.request).await?;
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
fn nothing_beside(with: &Update) -> std::result::Result<(), Fault> {
    match with.events.is_empty() {
        true => Ok(()),
        false => {
            let why =
                "messages cannot be put in while questions of the step wait; answer all of them with it";
            Err(Fault::new(INVALID_UPDATE, why))
        }
    }
}

fn nothing_put_in() -> Fault {
    Fault::new(EMPTY_INPUT, "the thread is empty, and nothing was put in")
}

fn unknown_point(given: CheckpointId) -> Fault {
    Fault::new(UNKNOWN_CHECKPOINT, format!("failed to find checkpoint `{given}` in the thread"))
}
