//! The tool `task`: a sub-agent with its own context in its own thread. The thread's id is derived from the
//! call. A call that is repeated after a crash or with a person's answer therefore finds its thread and
//! resumes there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{EventQuery, Transaction, Write};
use model::ToolSpec;
use protocol::event::body::{RunInterrupted, SubagentEnded, ThreadCreated};
use protocol::{
    ActionRequest, AssistantId, Category, Decisions, Event, EventId, EventType, Interrupt, InterruptId,
    InterruptPayload, Message, NewEvent, ParentKind, Run, RunFailure, RunId, RunStatus, SubagentInterruptRef,
    Thread, ThreadId,
};
use runtime::{
    AdmittedRun, Driver, GraphUpdate, RepeatSafety, RunAdmission, RunEnd, RunStart, Tool, ToolContext,
    ToolOutput,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::assembly::RunPurpose;
use crate::home::lease::ProcessLeases;
use crate::workspace::reproposed_call_channels;
use crate::{ErrorClass, Result};

/// The description of the tool for models.
const TASK_DESCRIPTION: &str = include_str!("prompts/task.md");

/// The name of the tool.
pub(crate) const TASK_TOOL: &str = "task";

/// The delay before the call is tried again while the journal is unavailable.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Events per page when the answer or the question of a call is searched from the end of the thread.
const ANSWER_PAGE_ROWS: usize = 16;

/// The tool `task`, which gives a task to a sub-agent and returns its last message.
pub(crate) struct SubagentTool {
    /// The driver for runs of sub-agents. Its graph has no tool `task`, so that sub-agents do not nest.
    pub(crate) driver: Driver,
    /// The assistant that owns the threads of sub-agents.
    pub(crate) assistant_id: AssistantId,
    /// `provider/name` of the model.
    pub(crate) model: Option<String>,
    /// The leases of this process.
    pub(crate) leases: Arc<ProcessLeases>,
}

/// Returns the specification of the tool that a model receives.
pub(crate) fn task_tool_spec() -> ToolSpec {
    ToolSpec {
        name: TASK_TOOL.to_owned(),
        description: TASK_DESCRIPTION.trim().to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "The task in three to eight words, for people."},
                "prompt": {"type": "string", "description": "Everything the sub-agent needs to know, and what it is to report."}
            },
            "required": ["description", "prompt"],
            "additionalProperties": false
        }),
    }
}

/// The arguments of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskArgs {
    /// The task in a few words; it becomes the name of the thread.
    description: String,
    /// The message to the sub-agent.
    prompt: String,
}

#[async_trait]
impl Tool for SubagentTool {
    fn spec(&self) -> ToolSpec {
        task_tool_spec()
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    /// Returns a grace period that is longer than that of the sub-agent's own tools, so that the sub-agent
    /// stops first.
    fn stop_grace(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args = match TaskArgs::deserialize(args) {
            Ok(args) if !args.prompt.trim().is_empty() => args,
            Ok(_) => return ToolOutput::error("the prompt is empty; say what is to be done"),
            Err(error) => return ToolOutput::error(format!("bad arguments: {error}")),
        };
        let mut has_lost_lease = false;
        loop {
            let error = match self.run_call(&args, context).await {
                Ok(output) => return output,
                Err(error) => error,
            };
            // After a lost lease the call waits for the journal and resumes the sub-agent. If this process
            // has lost the calling run too, the driver drops this future.
            has_lost_lease |= error.is_lease_expired();
            let is_retried =
                has_lost_lease && matches!(error.class(), ErrorClass::Store | ErrorClass::Conflict);
            if !is_retried || context.cancel.is_cancelled() {
                return ToolOutput::error(format!("the sub-agent could not work: failed to {error}"));
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_DELAY) => {}
                () = context.cancel.cancelled() => {}
            }
        }
    }
}

/// The state of a call's sub-agent.
enum SubagentState {
    /// A run is admitted and ready to be driven.
    Running(AdmittedRun),
    /// Questions to a person are pending.
    Waiting(Vec<Interrupt>),
    /// The last run has ended.
    Ended(Run),
}

impl SubagentTool {
    /// Performs the call: starts or resumes the sub-agent and returns its result or its questions.
    async fn run_call(&self, args: &TaskArgs, context: &ToolContext) -> Result<ToolOutput> {
        let message_id = self.calling_message_id(context).await?;
        let thread_id = context.thread_id.for_subagent_call(message_id, &context.call_id);
        match self.attach_or_start(thread_id, args, context).await? {
            SubagentState::Waiting(interrupts) => {
                Ok(ToolOutput::with_interrupts(self.relayed_questions(interrupts, context)?))
            }
            SubagentState::Ended(run) => self.call_result(thread_id, run.status, run.failure, context).await,
            SubagentState::Running(admitted) => {
                let end = self.drive_subagent(admitted, context).await?;
                match end.status {
                    RunStatus::Interrupted => {
                        Ok(ToolOutput::with_interrupts(self.relayed_questions(end.interrupts, context)?))
                    }
                    status => self.call_result(thread_id, status, end.failure, context).await,
                }
            }
        }
    }

    /// Finds the state of the call's sub-agent and makes it ready.
    ///
    /// An active run is taken over once its lease has expired. A pending question with a person's answer
    /// resumes; one whose folder the parent thread has left is proposed again. A thread without a checkpoint
    /// is started.
    async fn attach_or_start(
        &self,
        thread_id: ThreadId,
        args: &TaskArgs,
        context: &ToolContext,
    ) -> Result<SubagentState> {
        let store = &self.driver.store;
        if let Some(run) = store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.leases.lease_end_time(&run).await?;
            let admitted = runtime::take_over_run(
                &**store,
                &run,
                &self.driver.lease,
                runtime::TakeoverReason::LeaseExpired(now),
            )
            .await?;
            return Ok(SubagentState::Running(admitted));
        }
        let answers = self.relayed_decisions(context).await?;
        let mut waiting = Vec::new();
        for interrupt in store.pending_interrupts(thread_id).await? {
            let Some(decisions) = answers.get(&interrupt.interrupt_id) else {
                let proposed = interrupt.payload.workspace.clone();
                if let Some(from) = proposed.filter(|from| Path::new(from) != context.workspace) {
                    return Ok(SubagentState::Running(
                        self.repropose_calls(&interrupt, &from, context).await?,
                    ));
                }
                waiting.push(interrupt);
                continue;
            };
            let (graph, admission) = (&self.driver.graph, self.admission(thread_id));
            let (answer, with) = ([(&interrupt, decisions)], GraphUpdate::default());
            let resumed = runtime::resume_run(&**store, graph, &admission, &answer, with).await?;
            if let Some(admitted) = resumed {
                return Ok(SubagentState::Running(admitted));
            }
        }
        if !waiting.is_empty() {
            return Ok(SubagentState::Waiting(waiting));
        }
        match store.checkpoint(thread_id).await? {
            Some(point) => match store.run(point.run_id).await? {
                Some(run) => Ok(SubagentState::Ended(run)),
                None => Err(journal::Error::NotFound { what: "run", id: point.run_id.to_string() }.into()),
            },
            None => self.start_subagent(thread_id, args, context).await,
        }
    }

    /// Proposes calls again that were proposed in a folder from which the thread has moved.
    async fn repropose_calls(
        &self,
        interrupt: &Interrupt,
        from: &str,
        context: &ToolContext,
    ) -> Result<AdmittedRun> {
        let mut channels = RunPurpose::Turn.entry_channels();
        channels.extend(reproposed_call_channels(interrupt, from, &context.workspace));
        let start = RunStart { node: Some(interrupt.node.clone()), channels, ..RunStart::default() };
        let admission = self.admission(interrupt.thread_id);
        Ok(runtime::admit_run(&*self.driver.store, &self.driver.graph, &admission, start).await?)
    }

    /// Returns the id of the AI message that contains the call. Unlike the run, the message stays the same
    /// when a person's answer resumes the call, so that the thread's id can be derived from it.
    async fn calling_message_id(&self, context: &ToolContext) -> Result<EventId> {
        let mut before = None;
        loop {
            let categories = vec![Category::Message];
            let query = EventQuery { before, categories, limit: ANSWER_PAGE_ROWS, ..EventQuery::default() };
            let page = self.driver.store.events(context.thread_id, query).await?;
            let answer = page.iter().rfind(|event| event.kind() == Some(EventType::AiMessage));
            match (answer, page.first()) {
                (Some(answer), _) => return Ok(answer.event_id),
                (None, Some(first)) => before = Some(first.seq),
                (None, None) => {
                    let id = context.call_id.clone();
                    return Err(journal::Error::NotFound { what: "the answer with call", id }.into());
                }
            }
        }
    }

    /// Returns a person's answers to the sub-agent's questions, by the sub-agent's interrupt. They are found
    /// through the interrupts of the parent's last interrupted run, because before a crash the sub-agent may
    /// have asked other questions since.
    async fn relayed_decisions(&self, context: &ToolContext) -> Result<BTreeMap<InterruptId, Decisions>> {
        let mut answers = BTreeMap::new();
        if context.answers.is_empty() {
            return Ok(answers);
        }
        let store = &self.driver.store;
        let categories = vec![Category::Lifecycle];
        let query = EventQuery { categories, limit: ANSWER_PAGE_ROWS, ..EventQuery::default() };
        let page = store.events(context.thread_id, query).await?;
        let interrupted = page.iter().rfind(|event| event.kind() == Some(EventType::RunInterrupted));
        let interrupted: RunInterrupted = interrupted.map(Event::body).transpose()?.unwrap_or_default();
        for id in interrupted.interrupt_ids {
            let Some(Interrupt { payload, decisions: Some(decisions), .. }) = store.interrupt(id).await?
            else {
                continue;
            };
            if let Some(question) = payload.action_requests.first().and_then(ActionRequest::subagent) {
                answers.insert(question.interrupt_id, decisions);
            }
        }
        Ok(answers)
    }

    /// Creates the thread of a sub-agent and admits its first run. The creation has a key, so that a
    /// repetition after a crash does not create it twice.
    async fn start_subagent(
        &self,
        thread_id: ThreadId,
        args: &TaskArgs,
        context: &ToolContext,
    ) -> Result<SubagentState> {
        let now = Timestamp::now();
        let mut thread = Thread::blank(thread_id, self.assistant_id.clone(), now);
        thread.name = Some(args.description.clone());
        thread.parent_id = Some(context.thread_id);
        thread.parent_kind = Some(ParentKind::Subagent);
        let origin =
            ThreadCreated::Subagent { run_id: Some(context.run_id), call_id: context.call_id.clone() };
        let created = NewEvent::from_body(&origin, now)?.with_key("created");
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events: vec![created] }];
        self.driver.store.commit(Transaction { fence: None, writes }).await?;
        let message = NewEvent::from_message(&Message::human(args.prompt.clone()), now)?;
        let update = GraphUpdate { events: vec![message], ..GraphUpdate::default() };
        let start = RunStart { update, channels: RunPurpose::Turn.entry_channels(), ..RunStart::default() };
        let store = &*self.driver.store;
        let admitted =
            runtime::admit_run(store, &self.driver.graph, &self.admission(thread_id), start).await?;
        Ok(SubagentState::Running(admitted))
    }

    /// Returns the admission of a new run in the sub-agent's thread.
    fn admission(&self, thread_id: ThreadId) -> RunAdmission {
        RunAdmission {
            run_id: RunId::generate(),
            thread_id,
            assistant_id: self.assistant_id.clone(),
            model: self.model.clone(),
            lease: self.driver.lease.clone(),
            now: Timestamp::now(),
            origin: runtime::AdmissionSource::New,
            durability: Default::default(),
        }
    }

    /// Drives the sub-agent's run and publishes its frames to subscribers of the parent's run.
    async fn drive_subagent(&self, admitted: AdmittedRun, context: &ToolContext) -> Result<RunEnd> {
        let frames = context.frames.for_subagent(&context.call_id, admitted.checkpoint.thread_id);
        Ok(self.driver.drive(admitted, &frames, &context.cancel).await?)
    }

    /// Returns the sub-agent's questions as questions of the parent, each with a reference to its origin.
    fn relayed_questions(
        &self,
        interrupts: Vec<Interrupt>,
        context: &ToolContext,
    ) -> Result<Vec<InterruptPayload>> {
        let mut payloads = Vec::with_capacity(interrupts.len());
        for Interrupt { thread_id, interrupt_id, mut payload, .. } in interrupts {
            let question = SubagentInterruptRef { call_id: context.call_id.clone(), thread_id, interrupt_id };
            for request in &mut payload.action_requests {
                request.set_subagent(&question)?;
            }
            payloads.push(payload);
        }
        Ok(payloads)
    }

    /// Returns the result of the call, which is the sub-agent's last message, with an event that records the
    /// sub-agent's end and usage.
    async fn call_result(
        &self,
        thread_id: ThreadId,
        status: RunStatus,
        failure: Option<RunFailure>,
        context: &ToolContext,
    ) -> Result<ToolOutput> {
        let run = match self.driver.store.checkpoint(thread_id).await? {
            Some(point) => self.driver.store.run(point.run_id).await?,
            None => None,
        };
        let ended = SubagentEnded {
            call_id: context.call_id.clone(),
            thread_id,
            status,
            usage: run.map(|run| run.usage).unwrap_or_default(),
            model: self.model.clone(),
        };
        let key = format!("subagent_ended:{}", context.call_id);
        let ended = NewEvent::from_body(&ended, Timestamp::now())?.with_key(key);
        let text = self.final_message(thread_id).await?;
        let output = match status {
            RunStatus::Success => ToolOutput::success(text),
            RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Timeout
            | RunStatus::Cancelled => {
                let reason = failure.map_or_else(|| status.as_str().to_owned(), |failure| failure.message);
                ToolOutput::error(format!("The sub-agent did not finish: {reason}. Its last words:\n{text}"))
            }
        };
        Ok(output.with_update(GraphUpdate { events: vec![ended], ..GraphUpdate::default() }))
    }

    /// Returns the text of the sub-agent's last non-empty AI message.
    async fn final_message(&self, thread_id: ThreadId) -> Result<String> {
        /// Messages that are searched from the end.
        const PAGE_ROWS: usize = 32;
        let categories = vec![Category::Message];
        let query = EventQuery { categories, limit: PAGE_ROWS, ..EventQuery::default() };
        let page = self.driver.store.events(thread_id, query).await?;
        let text = page.iter().rev().filter_map(Event::message).find_map(|message| match &message {
            Message::Ai(_) if !message.text().trim().is_empty() => Some(message.text()),
            Message::Ai(_) | Message::Human(_) | Message::Tool(_) => None,
        });
        Ok(text.unwrap_or_else(|| "(it said nothing)".to_owned()))
    }
}
