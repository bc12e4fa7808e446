//! What is told of a thread in a list, and of one alone. What is asked for a page is asked once, not for each row.

use std::collections::BTreeMap;

use agent::{RunFilter, Sort, Subagents, ThreadFilter};
use jiff::Timestamp;
use langgraph::{Caller, Fault, Interrupt};
use protocol::{HandoffId, ParentKind, Run, RunId, Seq, Thread, ThreadId, ThreadState};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::own::threads::workspace::CallWorkspace;

/// Characters of a title that is made of the first prompt.
const TITLE_CHARS_MAX: usize = 80;

/// Where the name of the agent is that a thread was imported from.
const SOURCE_KEY: &str = "source";

/// A thread in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadRow {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// What it is called: its name, or the beginning of its first prompt; `null` before anything was said.
    title: Option<String>,
    /// Its name.
    name: Option<String>,
    /// How it begins.
    first_prompt: Option<String>,
    /// `running`, `needs_you` when something waits for an answer, `stopped` when a person stopped the last run, `idle` or `error`.
    state: &'static str,
    /// The status of the Agent Server API: `busy`, `interrupted`, `idle` or `error`.
    status: &'static str,
    /// Its messages.
    message_count: u64,
    /// Its last position.
    #[schema(value_type = u64)]
    last_seq: Seq,
    /// Tokens that its runs took together; `null` when none ran here.
    tokens: Option<u64>,
    /// The thread it came from.
    #[schema(value_type = Option<String>, format = Uuid)]
    parent_id: Option<ThreadId>,
    /// How: `handoff` (with a summary), `fork` (with a copy) or `subagent`.
    parent_kind: Option<&'static str>,
    /// What that one is called.
    parent_title: Option<String>,
    /// The handoff it came from.
    #[schema(value_type = Option<String>, format = Uuid)]
    handoff_id: Option<HandoffId>,
    /// The handoff of it that waits for a decision, or is being drafted.
    #[schema(value_type = Option<String>, format = Uuid)]
    pending_handoff_id: Option<HandoffId>,
    /// The sort of session it was imported from; `null` when it was begun here.
    source: Option<String>,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When something last happened in it.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// One thread, with what waits in it and what works on it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadBody {
    /// The row.
    #[serde(flatten)]
    row: ThreadRow,
    /// What waits for an answer.
    interrupts: Vec<Interrupt>,
    /// Where the calls that wait for an answer are made; `null` when none wait.
    workspace: Option<CallWorkspace>,
    /// What the agent means to do, as it noted it.
    #[schema(value_type = Vec<Object>)]
    todos: Value,
    /// The run that works.
    active_run: Option<RunShape>,
    /// How many runs wait in line.
    pending_runs: usize,
    /// The run that began last, whether it works or has ended.
    last_run: Option<RunShape>,
}

/// A run, in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunShape {
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// `pending`, `running`, `success`, `error`, `interrupted`, `timeout` or `cancelled`.
    status: &'static str,
    /// Its model.
    model: Option<String>,
    /// Why it ended as it did.
    error: Option<String>,
    /// The sort of failure, such as `model`, `config` or `cancelled`.
    error_kind: Option<String>,
    /// What a person can do about it.
    hint: Option<String>,
    /// When it was begun.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<Run> for RunShape {
    fn from(run: Run) -> Self {
        let failure = run.failure;
        Self {
            run_id: run.run_id,
            status: run.status.as_str(),
            model: run.model,
            error_kind: failure.as_ref().map(|failure| failure.kind.to_string()),
            hint: failure.as_ref().and_then(|failure| failure.hint.clone()),
            error: failure.map(|failure| failure.message),
            created_at: run.created_at,
        }
    }
}

impl ThreadBody {
    /// Returns what is told of a thread alone.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn of(caller: &Caller, thread: Thread) -> Result<Self, Fault> {
        let (agent, thread_id) = (&caller.agent, thread.thread_id);
        let around = Around::of(caller, std::slice::from_ref(&thread)).await?;
        let waiting = agent.runs().pending_interrupts(thread_id).await?;
        let todos = agent.threads().head_channels(thread_id).await?.remove("todos");
        let active = agent.runs().active(Some(thread_id)).await?;
        let queued = agent.runs().queued(Some(thread_id)).await?;
        let newest =
            RunFilter { thread_id: Some(thread_id), limit: queued.len() + 1, ..RunFilter::default() };
        let newest = agent.runs().list(newest).await?;
        let begun = newest.into_iter().find(|run| queued.iter().all(|other| other.run_id != run.run_id));
        Ok(Self {
            row: around.row(&thread),
            interrupts: waiting.iter().map(Interrupt::from).collect(),
            workspace: CallWorkspace::of(caller, &waiting),
            todos: todos.filter(Value::is_array).unwrap_or_else(|| Value::Array(Vec::new())),
            active_run: active.into_iter().next().map(RunShape::from),
            pending_runs: queued.len(),
            last_run: begun.map(RunShape::from),
        })
    }
}

/// What is told of the threads of a page beside their own rows.
#[derive(Debug)]
pub(super) struct Around {
    tokens: BTreeMap<ThreadId, u64>,
    states: BTreeMap<ThreadId, ThreadState>,
    pending: BTreeMap<ThreadId, HandoffId>,
    parents: BTreeMap<ThreadId, Option<String>>,
}

impl Around {
    /// Asks for it.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn of(caller: &Caller, threads: &[Thread]) -> Result<Self, Fault> {
        let ids: Vec<ThreadId> = threads.iter().map(|thread| thread.thread_id).collect();
        let tokens = caller.agent.threads().tokens(&ids).await?;
        let mut parents: Vec<ThreadId> = threads.iter().filter_map(|thread| thread.parent_id).collect();
        parents.sort_unstable();
        parents.dedup();
        let parents = match parents.len() {
            0 => Vec::new(),
            count => {
                let filter = ThreadFilter {
                    ids: parents,
                    subagents: Subagents::Shown,
                    order: Sort::NEWEST,
                    ..ThreadFilter::of(caller.scope.clone(), count)
                };
                caller.agent.threads().list(filter).await?
            }
        };
        Ok(Self {
            tokens,
            states: caller.agent.threads().display_states(threads).await?,
            pending: caller.agent.handoffs().waiting().await?,
            parents: parents.iter().map(|parent| (parent.thread_id, title(parent))).collect(),
        })
    }

    /// Returns the row of one of the threads.
    pub(super) fn row(&self, thread: &Thread) -> ThreadRow {
        let came_by = thread.handoff().filter(|mark| mark.child_thread_id == thread.thread_id);
        let source = thread.metadata.get(SOURCE_KEY).and_then(|source| source["format"].as_str());
        ThreadRow {
            thread_id: thread.thread_id,
            title: title(thread),
            name: thread.name.clone(),
            first_prompt: thread.first_prompt.clone(),
            state: state_of(thread, &self.states),
            status: thread.status.as_str(),
            message_count: thread.message_count,
            last_seq: thread.last_seq,
            tokens: self.tokens.get(&thread.thread_id).copied(),
            parent_id: thread.parent_id,
            parent_kind: thread.parent_kind.map(ParentKind::as_str),
            parent_title: thread.parent_id.and_then(|parent| self.parents.get(&parent).cloned().flatten()),
            handoff_id: came_by.map(|mark| mark.handoff_id),
            pending_handoff_id: self.pending.get(&thread.thread_id).copied(),
            source: source.map(str::to_owned),
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}

/// Returns the name of a thread's state.
pub(crate) fn state_of(thread: &Thread, states: &BTreeMap<ThreadId, ThreadState>) -> &'static str {
    agent::state_of(thread, states).as_str()
}

/// Returns what a thread is called.
fn title(thread: &Thread) -> Option<String> {
    let begins = || {
        let line = thread.first_prompt.as_deref()?.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(match line.chars().count() > TITLE_CHARS_MAX {
            true => line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect(),
            false => line.to_owned(),
        })
    };
    thread.name.clone().or_else(begins)
}
