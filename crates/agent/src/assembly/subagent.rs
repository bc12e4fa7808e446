//! The tool `task`: a sub-agent with a context of its own, in a thread of its own. The thread's id follows from the
//! call, so that the call made again, after a crash or with a person's answer, goes on where it was.

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
    InterruptPayload, Message, NewEvent, ParentKind, Run, RunFailure, RunId, RunStatus, SubagentQuestion,
    Thread, ThreadId,
};
use runtime::{Admission, Admitted, Driver, Repeat, RunEnd, Start, Tool, ToolContext, ToolOutput, Update};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::assembly::Purpose;
use crate::home::lease::Leases;
use crate::workspace::proposed_again;
use crate::{Class, Result};

const DESCRIPTION: &str = include_str!("prompts/task.md");

/// The name of the tool.
pub(crate) const TASK_TOOL: &str = "task";

/// How long it waits until it looks again for a journal that was away for as long as a lease.
const RETRY: Duration = Duration::from_millis(500);

/// Events read at a time on the way back to the answer or the question of a call.
const ANSWER_PAGE_ROWS: usize = 16;

/// Hands a task to a sub-agent.
pub(crate) struct Task {
    pub(crate) driver: Driver,
    pub(crate) assistant_id: AssistantId,
    pub(crate) model: Option<String>,
    pub(crate) leases: Arc<Leases>,
}

/// Returns the tool as it is described to a model.
pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: TASK_TOOL.to_owned(),
        description: DESCRIPTION.trim().to_owned(),
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    description: String,
    prompt: String,
}

#[async_trait]
impl Tool for Task {
    fn spec(&self) -> ToolSpec {
        spec()
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    /// Longer than the tools of the sub-agent have, so that it comes to its own end first.
    fn stop_grace(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        let args = match Args::deserialize(args) {
            Ok(args) if !args.prompt.trim().is_empty() => args,
            Ok(_) => return ToolOutput::error("the prompt is empty; say what is to be done"),
            Err(error) => return ToolOutput::error(format!("bad arguments: {error}")),
        };
        let mut is_let_go = false;
        loop {
            let error = match self.work(&args, context).await {
                Ok(output) => return output,
                Err(error) => error,
            };
            // It goes on when the journal is back; if this process has lost the run that calls, too, this is dropped.
            is_let_go |= error.is_lease_end();
            let is_tried_again = is_let_go && matches!(error.class(), Class::Store | Class::Conflict);
            if !is_tried_again || context.cancel.is_cancelled() {
                return ToolOutput::error(format!("the sub-agent could not work: failed to {error}"));
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = context.cancel.cancelled() => {}
            }
        }
    }
}

/// Where the sub-agent of a call stands.
enum Standing {
    /// Its run goes on from here.
    Runs(Admitted),
    /// It waits for a person.
    Waits(Vec<Interrupt>),
    /// It has come to its end.
    Ended(Run),
}

impl Task {
    async fn work(&self, args: &Args, context: &ToolContext) -> Result<ToolOutput> {
        let answer = self.answer_with(context).await?;
        let thread_id = context.thread_id.of_subagent(answer, &context.call_id);
        match self.take_up(thread_id, args, context).await? {
            Standing::Waits(interrupts) => Ok(ToolOutput::asking(self.asked(interrupts, context)?)),
            Standing::Ended(run) => self.report(thread_id, run.status, run.failure, context).await,
            Standing::Runs(admitted) => {
                let end = self.drive(admitted, context).await?;
                match end.status {
                    RunStatus::Interrupted => Ok(ToolOutput::asking(self.asked(end.interrupts, context)?)),
                    status => self.report(thread_id, status, end.failure, context).await,
                }
            }
        }
    }

    async fn take_up(&self, thread_id: ThreadId, args: &Args, context: &ToolContext) -> Result<Standing> {
        let store = &self.driver.store;
        if let Some(run) = store.active_runs(Some(thread_id)).await?.into_iter().next() {
            let now = self.leases.ended(&run).await?;
            let admitted =
                runtime::reclaim(&**store, &run, &self.driver.lease, runtime::Taken::Ended(now)).await?;
            return Ok(Standing::Runs(admitted));
        }
        let answers = self.answers(context).await?;
        let mut waiting = Vec::new();
        for interrupt in store.pending_interrupts(thread_id).await? {
            let Some(decisions) = answers.get(&interrupt.interrupt_id) else {
                let proposed = interrupt.payload.workspace.clone();
                if let Some(from) = proposed.filter(|from| Path::new(from) != context.workspace) {
                    return Ok(Standing::Runs(self.ask_again(&interrupt, &from, context).await?));
                }
                waiting.push(interrupt);
                continue;
            };
            let (graph, admission) = (&self.driver.graph, self.admission(thread_id));
            let (answer, with) = ([(&interrupt, decisions)], Update::default());
            let resumed = runtime::resume(&**store, graph, &admission, &answer, with).await?;
            if let Some(admitted) = resumed {
                return Ok(Standing::Runs(admitted));
            }
        }
        if !waiting.is_empty() {
            return Ok(Standing::Waits(waiting));
        }
        match store.checkpoint(thread_id).await? {
            Some(point) => match store.run(point.run_id).await? {
                Some(run) => Ok(Standing::Ended(run)),
                None => Err(journal::Error::NotFound { what: "run", id: point.run_id.to_string() }.into()),
            },
            None => self.begin(thread_id, args, context).await,
        }
    }

    /// Asks again about calls that were proposed in a folder from which the thread has moved.
    async fn ask_again(&self, interrupt: &Interrupt, from: &str, context: &ToolContext) -> Result<Admitted> {
        let mut channels = Purpose::Turn.channels();
        channels.extend(proposed_again(interrupt, from, &context.workspace));
        let start = Start { node: Some(interrupt.node.clone()), channels, ..Start::default() };
        let admission = self.admission(interrupt.thread_id);
        Ok(runtime::admit(&*self.driver.store, &self.driver.graph, &admission, start).await?)
    }

    /// Returns the answer that makes the call: unlike the run, it stays the same when a person's answer resumes the call.
    async fn answer_with(&self, context: &ToolContext) -> Result<EventId> {
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

    /// Returns what a person answered to the sub-agent's questions. The parent's questions name them: the sub-agent may
    /// have asked others since, before a crash.
    async fn answers(&self, context: &ToolContext) -> Result<BTreeMap<InterruptId, Decisions>> {
        let mut answers = BTreeMap::new();
        if context.answers.is_empty() {
            return Ok(answers);
        }
        let store = &self.driver.store;
        let categories = vec![Category::Lifecycle];
        let query = EventQuery { categories, limit: ANSWER_PAGE_ROWS, ..EventQuery::default() };
        let page = store.events(context.thread_id, query).await?;
        let asked = page.iter().rfind(|event| event.kind() == Some(EventType::RunInterrupted));
        let asked: RunInterrupted = asked.map(Event::body).transpose()?.unwrap_or_default();
        for id in asked.interrupt_ids {
            let Some(Interrupt { payload, decisions: Some(decisions), .. }) = store.interrupt(id).await?
            else {
                continue;
            };
            if let Some(asked) = payload.action_requests.first().and_then(ActionRequest::subagent) {
                answers.insert(asked.interrupt_id, decisions);
            }
        }
        Ok(answers)
    }

    async fn begin(&self, thread_id: ThreadId, args: &Args, context: &ToolContext) -> Result<Standing> {
        let now = Timestamp::now();
        let mut thread = Thread::blank(thread_id, self.assistant_id.clone(), now);
        thread.name = Some(args.description.clone());
        thread.parent_id = Some(context.thread_id);
        thread.parent_kind = Some(ParentKind::Subagent);
        let origin =
            ThreadCreated::Subagent { run_id: Some(context.run_id), call_id: context.call_id.clone() };
        let created = NewEvent::of(&origin, now)?.keyed("created");
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events: vec![created] }];
        self.driver.store.commit(Transaction { fence: None, writes }).await?;
        let message = NewEvent::message(&Message::human(args.prompt.clone()), now)?;
        let update = Update { events: vec![message], ..Update::default() };
        let start = Start { update, channels: Purpose::Turn.channels(), ..Start::default() };
        let store = &*self.driver.store;
        let admitted = runtime::admit(store, &self.driver.graph, &self.admission(thread_id), start).await?;
        Ok(Standing::Runs(admitted))
    }

    fn admission(&self, thread_id: ThreadId) -> Admission {
        Admission {
            run_id: RunId::generate(),
            thread_id,
            assistant_id: self.assistant_id.clone(),
            model: self.model.clone(),
            lease: self.driver.lease.clone(),
            now: Timestamp::now(),
            origin: runtime::Origin::New,
            durability: Default::default(),
        }
    }

    /// Drives the sub-agent, and tells those who watch the parent what it does.
    async fn drive(&self, admitted: Admitted, context: &ToolContext) -> Result<RunEnd> {
        let frames = context.frames.within(&context.call_id, admitted.checkpoint.thread_id);
        Ok(self.driver.drive(admitted, &frames, &context.cancel).await?)
    }

    /// Returns the sub-agent's questions as the parent's, marked with where they come from.
    fn asked(&self, interrupts: Vec<Interrupt>, context: &ToolContext) -> Result<Vec<InterruptPayload>> {
        let mut payloads = Vec::with_capacity(interrupts.len());
        for Interrupt { thread_id, interrupt_id, mut payload, .. } in interrupts {
            let question = SubagentQuestion { call_id: context.call_id.clone(), thread_id, interrupt_id };
            for request in &mut payload.action_requests {
                request.set_subagent(&question)?;
            }
            payloads.push(payload);
        }
        Ok(payloads)
    }

    /// Returns the sub-agent's last words as the call's result, with a record of how it ended.
    async fn report(
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
        let ended = NewEvent::of(&ended, Timestamp::now())?.keyed(key);
        let words = self.last_words(thread_id).await?;
        let output = match status {
            RunStatus::Success => ToolOutput::success(words),
            RunStatus::Pending
            | RunStatus::Running
            | RunStatus::Error
            | RunStatus::Interrupted
            | RunStatus::Timeout
            | RunStatus::Cancelled => {
                let why = failure.map_or_else(|| status.as_str().to_owned(), |failure| failure.message);
                ToolOutput::error(format!("The sub-agent did not finish: {why}. Its last words:\n{words}"))
            }
        };
        Ok(output.with_update(Update { events: vec![ended], ..Update::default() }))
    }

    async fn last_words(&self, thread_id: ThreadId) -> Result<String> {
        const PAGE_ROWS: usize = 32;
        let categories = vec![Category::Message];
        let query = EventQuery { categories, limit: PAGE_ROWS, ..EventQuery::default() };
        let page = self.driver.store.events(thread_id, query).await?;
        let words = page.iter().rev().filter_map(Event::message).find_map(|message| match &message {
            Message::Ai(_) if !message.text().trim().is_empty() => Some(message.text()),
            Message::Ai(_) | Message::Human(_) | Message::Tool(_) => None,
        });
        Ok(words.unwrap_or_else(|| "(it said nothing)".to_owned()))
    }
}
