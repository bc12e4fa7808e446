//! The admission of one request: the thread's state is read once, and the request becomes a start for the
//! runtime, or a run that ends immediately.

pub(super) mod answers;
mod drivers;
pub(super) mod immediate_end;
mod input;
mod pending_answers;
pub(super) mod refusal;
pub(super) mod run_bounds;
mod run_workspace;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use journal::{CheckpointRef, SupersededVisibility, ThreadPatch, Write};
use model::ChatModel;
use protocol::{
    Checkpoint, CheckpointId, Decisions, FailureKind, Interrupt, Message, ParentKind, RunFailure, RunRequest,
    Thread, ThreadId, ThreadStatus,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, AnswerDurability, BEFORE_AGENT_NODE, Channels, Driver, ExpectedHead,
    GraphUpdate, KnownQuestions, MODEL_NODE, RunAdmission, RunStart, TOOLS_NODE,
};
use serde_json::Value;
use uuid::Uuid;

use self::answers::decisions_of_answer;
use self::immediate_end::ImmediateOutcome;
use self::input::InputPlan;
use self::refusal::{AdmissionResult, empty_input_failure, unknown_checkpoint_failure, unknown_node_failure};
use self::run_bounds::apply_bounds;
use super::{PreparedStart, RemainingWork, RunStartContent, RunStartSpec, StartedRun};
use crate::Result;
use crate::agent::Agent;
use crate::assembly::RunPurpose;
use crate::handoffs::queries::handoff_id_of;
use crate::runs::request::action::{InterruptAnswers, ParsedAnswer, RunAction, RunInput};
use crate::runs::request::client_threads::{assistant_patch, create_thread_writes};
use crate::runs::request::messages::{InputMessage, MessageChange};
use crate::threads::rollback::withdraws_questions;
use crate::workspace::{first_turn_workspace_write, is_canonical_folder};

/// The nodes of a turn at which a client may start a run.
const TURN_START_NODES: [&str; 5] =
    [BEFORE_AGENT_NODE, MODEL_NODE, AFTER_MODEL_NODE, TOOLS_NODE, AFTER_AGENT_NODE];

/// A request whose admission is being planned.
pub(super) struct RequestAdmission<'a> {
    /// The agent of the thread's owner.
    pub(super) agent: &'a Agent,
    /// The requested run.
    pub(super) spec: RunStartSpec<'a>,
    /// The thread, as of the time of the checkpoint.
    pub(super) thread: &'a Thread,
    /// The time of the admission.
    pub(super) now: Timestamp,
}

/// A planned run that is not admitted yet.
struct RunPlan {
    /// The purpose of the run, which determines its graph.
    purpose: RunPurpose,
    /// The folder in which the run works.
    workspace: PathBuf,
    /// The checkpoint of the thread for which the plan was made; `None` for a thread without one.
    head: Option<Checkpoint>,
    /// The messages that are put into the thread.
    input: InputPlan,
    /// The node and channels with which the run starts.
    start: RunStart,
    /// The treatment of the questions of sub-agents.
    subagents: SubagentQuestions,
}

/// The treatment of sub-agents' questions that are relayed by questions which the run withdraws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubagentQuestions {
    /// They are withdrawn too.
    Withdrawn,
    /// They stay pending, because the sub-agents ask them again.
    Kept,
}

impl RequestAdmission<'_> {
    /// Starts the run from the thread's checkpoint `head`, or ends it immediately if there is nothing to do.
    pub(super) async fn begin(&self, head: Option<Checkpoint>) -> AdmissionResult<StartedRun> {
        let input = match self.spec.content {
            RunStartContent::FromRequest => self.read_input()?,
            RunStartContent::Input(input) => input.clone(),
            RunStartContent::Prepared(prepared) => return self.admit_prepared(prepared).await,
        };
        let fork = self.fork_point(head.as_ref());
        match input.action {
            RunAction::BeginTurn => self.begin_turn(head, input.messages, fork).await,
            RunAction::Continue => self.continue_thread(head, input.messages, fork).await,
            RunAction::GoToNode(node) => self.go_to_node(head, node, input.messages, fork).await,
            RunAction::DiscardPending => self.discard_pending(head, input.messages).await,
            RunAction::Answer(answers) => self.answer_interrupts(head, answers, input.messages, fork).await,
            RunAction::Rehome(interrupt_id) => self.rehome_thread(head, interrupt_id).await,
        }
    }

    /// Starts a turn on a thread that is created in the same transaction. Returns `None` without effect if
    /// the request is not a turn with new messages of a person.
    pub(super) async fn begin_turn_on_new_thread(&self) -> AdmissionResult<Option<StartedRun>> {
        let request = self.spec.request;
        let input = match self.spec.content {
            RunStartContent::FromRequest => self.read_input()?,
            RunStartContent::Input(input) => input.clone(),
            RunStartContent::Prepared(_) => return Ok(None),
        };
        let is_human_message =
            |message: &InputMessage| matches!(message.change, MessageChange::Put(Message::Human(_)));
        let is_turn = input.action == RunAction::BeginTurn && request.checkpoint_id.is_none();
        if !is_turn
            || !input.messages.iter().all(is_human_message)
            || !self.has_only_new_messages(&input.messages).await?
        {
            return Ok(None);
        }
        let mut planned_input = self.plan_input(input.messages, None).await?;
        planned_input.update.writes.splice(0..0, create_thread_writes(self.thread)?);
        self.begin_turn_with_input(None, planned_input).await.map(Some)
    }

    /// Parses the input of the request.
    fn read_input(&self) -> std::result::Result<RunInput, RunFailure> {
        let request = self.spec.request;
        match request.rehome {
            true => Ok(RunInput::for_rehome(request.rehome_interrupt_id)),
            false => (self.agent.settings.request_reader)(request, self.thread_id(), self.now),
        }
    }

    /// Returns the id of the thread.
    fn thread_id(&self) -> ThreadId {
        self.thread.thread_id
    }

    /// Returns the past checkpoint that the request names. `None` if it names none, or names the current one.
    fn fork_point(&self, head: Option<&Checkpoint>) -> Option<CheckpointId> {
        let requested = self.spec.request.checkpoint_id?;
        let is_head = head.is_some_and(|head| requested == head.checkpoint_id);
        (!is_head).then_some(requested)
    }

    /// Returns the pending interrupts. An idle thread has none, so the journal is not read for it.
    async fn pending_interrupts(&self) -> Result<Vec<Interrupt>> {
        match self.thread.status {
            ThreadStatus::Idle => Ok(Vec::new()),
            ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error => {
                self.agent.runs().pending_interrupts(self.thread_id()).await
            }
        }
    }

    /// Starts a turn at the graph's entry with the messages.
    async fn begin_turn(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<StartedRun> {
        let planned_input = self.plan_input(messages, fork).await?;
        self.begin_turn_with_input(head, planned_input).await
    }

    /// Starts a turn at the graph's entry with the planned input. Refuses a turn on an empty thread without
    /// messages.
    async fn begin_turn_with_input(
        &self,
        head: Option<Checkpoint>,
        planned_input: InputPlan,
    ) -> AdmissionResult<StartedRun> {
        if self.thread.message_count == 0 && planned_input.update.events.is_empty() {
            return Err(empty_input_failure().into());
        }
        let mut channels = RunPurpose::Turn.entry_channels();
        channels.extend(handoff::turn_channels(self.thread));
        let workspace = self.run_workspace().await?;
        let start = RunStart { channels, ..RunStart::default() };
        let (purpose, subagents) = (RunPurpose::Turn, SubagentQuestions::Withdrawn);
        self.admit(RunPlan { purpose, workspace, head, input: planned_input, start, subagents }).await
    }

    /// Continues at the next node of the thread, or of a past checkpoint.
    async fn continue_thread(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<StartedRun> {
        let is_empty = messages.is_empty();
        let Some(fork) = fork else {
            let next = head.as_ref().and_then(|head| head.next.clone());
            let pending = self.pending_interrupts().await?;
            return match next {
                Some(_) if !pending.is_empty() && is_empty => {
                    Ok(self.end_immediately(ImmediateOutcome::StillWaiting, head, pending).await?)
                }
                Some(node) => {
                    let planned_input = self.plan_input(messages, None).await?;
                    self.continue_at_node(head, node, planned_input).await
                }
                None if !is_empty => {
                    let planned_input = self.plan_input(messages, None).await?;
                    self.admit_empty_run(head, planned_input).await
                }
                None if head.is_none() && self.thread.message_count == 0 => Err(empty_input_failure().into()),
                None => Ok(self.end_immediately(ImmediateOutcome::NothingToDo, head, pending).await?),
            };
        };
        let planned_input = match is_empty {
            true => self.plan_input(messages, Some(self.point_after_input(fork).await?)).await?,
            false => self.plan_input(messages, Some(fork)).await?,
        };
        match planned_input.next_node.clone().filter(|node| TURN_START_NODES.contains(&node.as_str())) {
            Some(node) => self.continue_at_node(head, node, planned_input).await,
            None => self.admit_empty_run(head, planned_input).await,
        }
    }

    /// Returns the checkpoint after the input that follows `fork`, or `fork` itself if no input follows it. A
    /// fork without new messages repeats the turn with the original input, which must therefore be included.
    async fn point_after_input(&self, fork: CheckpointId) -> AdmissionResult<CheckpointId> {
        let after_input = CheckpointId::from_uuid(Uuid::from_u128(fork.uuid().as_u128().wrapping_add(1)));
        let by_id = |id| CheckpointRef::Id(id);
        let checkpoint = self
            .agent
            .store
            .checkpoint_at(self.thread_id(), by_id(after_input), SupersededVisibility::Shown)
            .await?;
        let is_input = checkpoint.is_some_and(|(point, _)| point.step == 0 && point.input_seq.is_some());
        Ok(if is_input { after_input } else { fork })
    }

    /// Continues at a node. Pending calls are made in the folder in which they were proposed. If that folder
    /// does not exist, the calls are checked again in another folder before they are made.
    async fn continue_at_node(
        &self,
        head: Option<Checkpoint>,
        node: String,
        planned_input: InputPlan,
    ) -> AdmissionResult<StartedRun> {
        let purpose = RunPurpose::for_resume(Some(&node), head.as_ref());
        let run_id = head.as_ref().filter(|_| planned_input.rewind_target.is_none()).map(|head| head.run_id);
        let proposed =
            self.agent.run_workspace(self.thread, run_id).await?.filter(|folder| is_canonical_folder(folder));
        let (node, workspace) = match proposed {
            Some(workspace) => (node, workspace),
            None if node == TOOLS_NODE => (AFTER_MODEL_NODE.to_owned(), self.run_workspace().await?),
            None => (node, self.run_workspace().await?),
        };
        let channels = match purpose {
            RunPurpose::Turn => RunPurpose::Turn.entry_channels(),
            RunPurpose::Handoff
            | RunPurpose::Compaction
            | RunPurpose::PendingActivities
            | RunPurpose::Discard => Channels::new(),
        };
        let start = RunStart { node: Some(node), channels, ..RunStart::default() };
        let subagents = SubagentQuestions::Withdrawn;
        self.admit(RunPlan { purpose, workspace, head, input: planned_input, start, subagents }).await
    }

    /// Continues at a node of the turn that the client names. Calls are always checked before they are made:
    /// the tools node is replaced by the node before it, unless it is the next node anyway.
    async fn go_to_node(
        &self,
        head: Option<Checkpoint>,
        node: String,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<StartedRun> {
        let Some(node) = TURN_START_NODES.into_iter().find(|known| *known == node) else {
            let excerpt: String = node.chars().take(80).collect();
            let nodes = TURN_START_NODES.join(", ");
            let message = format!(
                "there is no node `{excerpt}` to continue at; the nodes are {nodes}, __start__ and __end__"
            );
            return Err(RunFailure::new(FailureKind::InvalidUpdate, message).into());
        };
        let planned_input = self.plan_input(messages, fork).await?;
        if self.thread.message_count == 0 && planned_input.update.events.is_empty() {
            return Err(empty_input_failure().into());
        }
        let next_node = head.as_ref().and_then(|head| head.next.as_deref());
        let node = if node == TOOLS_NODE && next_node != Some(TOOLS_NODE) { AFTER_MODEL_NODE } else { node };
        self.continue_at_node(head, node.to_owned(), planned_input).await
    }

    /// Drops pending work: questions are withdrawn, a pending handoff is declined, and the thread becomes
    /// idle.
    async fn discard_pending(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
    ) -> AdmissionResult<StartedRun> {
        let pending = self.pending_interrupts().await?;
        let mut planned_input = self.plan_input(messages, None).await?;
        for interrupt in &pending {
            let Some(handoff_id) = handoff_id_of(interrupt) else { continue };
            let (interrupt_id, at) = (interrupt.interrupt_id, self.now);
            planned_input.update.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
            let Some(pending_handoff) = self.agent.store.handoff(handoff_id).await? else { continue };
            let channels = head.as_ref().map(|head| &head.channels);
            let dismissal =
                handoff::dismiss_handoff(&pending_handoff, channels.unwrap_or(&Channels::new()), None, at)
                    .map_err(|failure| RunFailure::new(FailureKind::InvalidUpdate, failure.message))?;
            planned_input.update.merge(dismissal);
        }
        if head.is_none() && planned_input.update.events.is_empty() {
            return Ok(self.end_immediately(ImmediateOutcome::NothingToDo, head, pending).await?);
        }
        self.admit_empty_run(head, planned_input).await
    }

    /// Admits a run that executes no node. Only the effects of its admission remain, such as a rewind or the
    /// withdrawal of questions.
    async fn admit_empty_run(
        &self,
        head: Option<Checkpoint>,
        planned_input: InputPlan,
    ) -> AdmissionResult<StartedRun> {
        let start = RunStart { channels: RunPurpose::Discard.entry_channels(), ..RunStart::default() };
        let workspace = self.run_workspace().await?;
        let (purpose, subagents) = (RunPurpose::Discard, SubagentQuestions::Withdrawn);
        self.admit(RunPlan { purpose, workspace, head, input: planned_input, start, subagents }).await
    }

    /// Admits a planned run.
    async fn admit(&self, plan: RunPlan) -> AdmissionResult<StartedRun> {
        let RunPlan { purpose, workspace, head, input: planned_input, mut start, subagents } = plan;
        let agent = self.agent.with_workspace(&workspace);
        let (mut driver, model) = self.driver_or_fallback(&agent, purpose).await?;
        apply_bounds(&mut driver, self.spec.request)?;
        let InputPlan { rewind_target: rewind, mut update, .. } = planned_input;
        update.writes.extend(self.request_writes(&agent).await?);
        if purpose == RunPurpose::Turn {
            update.writes.extend(first_turn_workspace_write(self.thread, &workspace));
        }
        let left_head = head.as_ref().filter(|head| start.node.is_none() || start.node != head.next);
        if let (None, Some(head)) = (&rewind, left_head) {
            let mut channels = head.channels.clone();
            channels.retain(|key, _| !update.channels.get(key).is_some_and(Value::is_null));
            let unresolved_results =
                handoff::unresolved_call_result(&*agent.store, &channels, self.now).await?;
            update.events.splice(0..0, unresolved_results);
        }
        if subagents == SubagentQuestions::Withdrawn && !withdraws_questions(rewind.as_ref()) {
            update
                .writes
                .extend(agent.runs().withdrawal_writes(&self.pending_interrupts().await?, self.now).await?);
        }
        start.update = update;
        start.rewind = rewind;
        start.questions = match (self.thread.status, self.thread.parent_kind) {
            // A rollback of the parent's run can reopen the questions of a sub-agent's thread that is idle.
            (ThreadStatus::Idle, Some(ParentKind::Subagent)) => KnownQuestions::Unread,
            (ThreadStatus::Idle, _) => KnownQuestions::None,
            (ThreadStatus::Busy | ThreadStatus::Interrupted | ThreadStatus::Error, _) => {
                KnownQuestions::Unread
            }
        };
        start.head = ExpectedHead::Read(head.map(Box::new));
        let admission = self.admission(model.as_ref(), &driver);
        let admitted = runtime::admit_run(&*agent.store, &driver.graph, &admission, start).await?;
        self.started_run(RemainingWork::Drive(Box::new((driver, admitted))), model.as_ref()).await
    }

    /// Admits a run that is not a turn, with its prepared start.
    async fn admit_prepared(&self, prepared: &PreparedStart) -> AdmissionResult<StartedRun> {
        let (driver, model) = self.driver_or_fallback(self.agent, prepared.purpose).await?;
        let mut start = prepared.start.clone();
        start.update.writes.extend(self.request_writes(self.agent).await?);
        let admission = self.admission(model.as_ref(), &driver);
        let admitted = runtime::admit_run(&*self.agent.store, &driver.graph, &admission, start).await?;
        self.started_run(RemainingWork::Drive(Box::new((driver, admitted))), model.as_ref()).await
    }

    /// Answers pending interrupts and resumes the run. If other interrupts of the same step are still
    /// pending, the answers are stored and the run ends immediately.
    async fn answer_interrupts(
        &self,
        head: Option<Checkpoint>,
        answers: InterruptAnswers,
        messages: Vec<InputMessage>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<StartedRun> {
        let agent = self.agent;
        self.check_is_head(head.as_ref(), fork).await?;
        let pending = self.pending_interrupts().await?;
        let answers = self.match_pending(answers, &pending, head.as_ref()).await?;
        let Some(node) = answers.first().map(|(interrupt, _)| interrupt.node.clone()) else {
            return self.continue_unanswered(head, messages, pending).await;
        };
        if answers.iter().any(|(interrupt, _)| interrupt.node != node) {
            let message = "ambiguous: the answers are to questions of several steps; answer those of one step at a time";
            return Err(RunFailure::new(FailureKind::AmbiguousResume, message).into());
        }
        let mut decisions = Vec::with_capacity(answers.len());
        for (interrupt, answer) in answers {
            decisions.push((interrupt, self.decisions(interrupt, answer).await?));
        }
        let purpose = RunPurpose::for_resume(Some(&node), head.as_ref());
        let workspace = self.answers_workspace(&decisions).await?;
        let agent = &agent.with_workspace(&workspace);
        let (mut driver, model) = self.driver_for_answers(agent, purpose, &decisions).await?;
        apply_bounds(&mut driver, self.spec.request)?;
        for (interrupt, decisions) in &decisions {
            self.check_decisions(&driver, interrupt, decisions).await?;
        }
        let is_answered = |interrupt: &Interrupt| {
            decisions.iter().any(|(answered, _)| answered.interrupt_id == interrupt.interrupt_id)
        };
        let mut update = self.append_update(messages).await?;
        let no_messages = check_no_messages(&update);
        let is_open = |interrupt: &Interrupt| interrupt.node == node && !is_answered(interrupt);
        if pending.iter().any(is_open) {
            let others = pending.iter().filter(|interrupt| !is_answered(interrupt)).cloned().collect();
            no_messages?;
            return Ok(self.store_partial_answers(&decisions, head, others).await?);
        }
        update.writes.extend(self.request_writes(agent).await?);
        let answered: Vec<(&Interrupt, &Decisions)> =
            decisions.iter().map(|(interrupt, decisions)| (*interrupt, decisions)).collect();
        let admission = self.admission(model.as_ref(), &driver);
        match runtime::resume_run(&*agent.store, &driver.graph, &admission, &answered, update).await? {
            Some(admitted) => {
                self.started_run(RemainingWork::Drive(Box::new((driver, admitted))), model.as_ref()).await
            }
            // Another interrupt of the step was raised since the pending ones were read.
            None => {
                let mut others = agent.runs().pending_interrupts(self.thread_id()).await?;
                others.retain(|interrupt| !is_answered(interrupt));
                if !others.iter().any(is_open) {
                    // The other interrupt was answered too, so these answers are the last ones. The admission
                    // is planned again.
                    return Err(runtime::Error::HeadConflict.into());
                }
                no_messages?;
                Ok(self.store_partial_answers(&decisions, head, others).await?)
            }
        }
    }

    /// Handles answers of which none matches a pending interrupt. The run continues with the messages that
    /// came with them, or ends immediately.
    async fn continue_unanswered(
        &self,
        head: Option<Checkpoint>,
        messages: Vec<InputMessage>,
        pending: Vec<Interrupt>,
    ) -> AdmissionResult<StartedRun> {
        match pending.is_empty() {
            // Messages are put into the thread even if the answers that came with them have no question.
            true if !messages.is_empty() => self.continue_thread(head, messages, None).await,
            true => Ok(self.end_immediately(ImmediateOutcome::NothingToDo, head, pending).await?),
            false => {
                check_no_messages(&self.append_update(messages).await?)?;
                Ok(self.end_immediately(ImmediateOutcome::StillWaiting, head, pending).await?)
            }
        }
    }

    /// Returns the update that appends these messages. Messages that would change existing ones are refused,
    /// because the pending questions are about those and must not change with their answer.
    async fn append_update(&self, messages: Vec<InputMessage>) -> AdmissionResult<GraphUpdate> {
        let planned_input = self.plan_input(messages, None).await?;
        match planned_input.rewind_target {
            None => Ok(planned_input.update),
            Some(_) => {
                let message = "an answer cannot be combined with a change of existing messages";
                Err(RunFailure::new(FailureKind::InvalidUpdate, message).into())
            }
        }
    }

    /// Checks that an answer is not addressed to a past checkpoint. Questions there have been decided, or
    /// were withdrawn by a rewind.
    async fn check_is_head(
        &self,
        head: Option<&Checkpoint>,
        fork: Option<CheckpointId>,
    ) -> AdmissionResult<()> {
        let Some(fork) = fork else { return Ok(()) };
        let Some(head) = head else { return Err(unknown_checkpoint_failure(fork).into()) };
        let reference = CheckpointRef::Id(fork);
        match self.agent.store.checkpoint_at(self.thread_id(), reference, SupersededVisibility::Shown).await?
        {
            Some((point, _)) if point.next == head.next && point.head_seq == head.head_seq => Ok(()),
            Some(_) => {
                let message = format!(
                    "not_pending: the question at checkpoint {fork} was decided or withdrawn; start there without an answer \
                     to be asked again"
                );
                Err(RunFailure::new(FailureKind::UnknownInterrupt, message).into())
            }
            None => Err(unknown_checkpoint_failure(fork).into()),
        }
    }

    /// Returns the decisions of an answer. They are validated later by the node that asked.
    async fn decisions(&self, interrupt: &Interrupt, answer: ParsedAnswer) -> AdmissionResult<Decisions> {
        self.agent.handoffs().check_not_expired(interrupt).await?;
        let decisions = decisions_of_answer(interrupt.interrupt_id, answer)?;
        self.agent.handoffs().check_answer_mergeable(interrupt, &decisions).await?;
        Ok(decisions)
    }

    /// Checks that the node that raised the interrupt accepts the decisions.
    async fn check_decisions(
        &self,
        driver: &Driver,
        interrupt: &Interrupt,
        decisions: &Decisions,
    ) -> AdmissionResult<()> {
        let interrupt_id = interrupt.interrupt_id;
        let node = driver.graph.get(&interrupt.node).ok_or_else(|| unknown_node_failure(&interrupt.node))?;
        let rejected = |rejection| runtime::Error::Rejected { interrupt_id, rejection };
        runtime::check_decisions(&**node, interrupt, decisions).map_err(rejected)?;
        Ok(node.validate_decisions(interrupt, decisions, &self.agent.store).await.map_err(rejected)?)
    }

    /// Returns the admission of the run. A client's answer is durable at admission; that of a person at the
    /// terminal becomes durable with the first step.
    fn admission(&self, model: Option<&Arc<dyn ChatModel>>, driver: &Driver) -> RunAdmission {
        RunAdmission {
            run_id: self.spec.run_id,
            thread_id: self.thread_id(),
            assistant_id: self.thread.assistant_id.clone(),
            model: model.map(|model| model.name().to_string()),
            lease: driver.lease.clone(),
            now: self.now,
            origin: self.spec.origin,
            durability: match self.spec.content {
                RunStartContent::FromRequest => AnswerDurability::AtAdmission,
                RunStartContent::Input(_) | RunStartContent::Prepared(_) => AnswerDurability::WithStep,
            },
        }
    }

    /// Returns the started run with its row.
    async fn started_run(
        &self,
        work: RemainingWork,
        model: Option<&Arc<dyn ChatModel>>,
    ) -> AdmissionResult<StartedRun> {
        let run = self.run_row(model.map(|model| model.name().to_string())).await?;
        let (run_id, thread_id) = (self.spec.run_id, self.thread_id());
        Ok(StartedRun { run, run_id, thread_id, work })
    }

    /// Returns the writes that store the request, the assistant of the thread, and the webhook.
    async fn request_writes(&self, agent: &Agent) -> Result<Vec<Write>> {
        let (run_id, thread_id) = (self.spec.run_id, self.thread_id());
        let request =
            RunRequest { workspace: agent.workspace_name()?, ..self.spec.request.without_input_messages() };
        let request = Write::PutRunRequest { run_id, thread_id, request: Box::new(request) };
        let assistant =
            assistant_patch(self.thread).map(|patch: ThreadPatch| Write::UpdateThread { thread_id, patch });
        let webhook = self.agent.runs().webhook_write(run_id, self.spec.request).await?;
        Ok([request].into_iter().chain(assistant).chain(webhook).collect())
    }
}

/// Checks that no message comes with answers that leave other questions of the step open. A message after
/// their calls would make the runtime pass over the calls.
fn check_no_messages(update: &GraphUpdate) -> std::result::Result<(), RunFailure> {
    match update.events.is_empty() {
        true => Ok(()),
        false => {
            let message = "messages cannot be added while questions of the step are pending; answer all of them \
                           with the message";
            Err(RunFailure::new(FailureKind::InvalidUpdate, message))
        }
    }
}
