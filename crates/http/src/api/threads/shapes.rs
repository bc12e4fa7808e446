//! The JSON shapes of threads: the row of a list, and a single thread. Related data is read once for a page, not for
//! each row.

use std::collections::BTreeMap;

use agent::{RunFilter, SubagentVisibility, ThreadFilter, ThreadSort};
use jiff::Timestamp;
use langgraph::{ApiError, Caller, Interrupt};
use protocol::{HandoffId, ParentKind, Run, RunId, Seq, Thread, ThreadId, ThreadState};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::lineage::MergedParentShape;
use crate::api::threads::workspace::CallWorkspace;

/// Maximum length of a title that is made from the first message, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// The metadata key under which an import stores the format of its source.
const SOURCE_KEY: &str = "source";

/// A thread in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadRow {
    /// The thread.
    #[schema(value_type = String, format = Uuid)]
    thread_id: ThreadId,
    /// The title: the name, or the beginning of the first message; `null` if there is no message.
    title: Option<String>,
    /// The name, if one was given.
    name: Option<String>,
    /// The first message.
    first_prompt: Option<String>,
    /// `running`, `needs_you` if a question is pending, `stopped` if the user stopped the last run, `idle` or `error`.
    state: &'static str,
    /// The status of the Agent Server API: `busy`, `interrupted`, `idle` or `error`.
    status: &'static str,
    /// Number of messages.
    message_count: u64,
    /// The newest position of the thread.
    #[schema(value_type = u64)]
    last_seq: Seq,
    /// Total tokens used by the thread's runs; `null` if it has no run.
    tokens: Option<u64>,
    /// The parent thread.
    #[schema(value_type = Option<String>, format = Uuid)]
    parent_id: Option<ThreadId>,
    /// How the thread was created from its parent: `handoff` (with a summary), `fork` (with a copy) or `subagent`.
    parent_kind: Option<&'static str>,
    /// The title of the parent thread.
    parent_title: Option<String>,
    /// The handoff that created the thread.
    #[schema(value_type = Option<String>, format = Uuid)]
    handoff_id: Option<HandoffId>,
    /// The handoff of this thread that is being drafted or waits for a decision.
    #[schema(value_type = Option<String>, format = Uuid)]
    pending_handoff_id: Option<HandoffId>,
    /// The format of the session it was imported from; `null` if the thread was created here.
    source: Option<String>,
    /// The part of the session that is stored, if its import was interrupted; `null` if all of it is.
    incomplete_import: Option<IncompleteImportShape>,
    /// When the thread was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When the thread last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The part of an interrupted import that is stored. The next import of the session completes the thread.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IncompleteImportShape {
    /// Number of messages of the session that are stored.
    messages: u64,
    /// Number of messages of the session; `null` if they could not be counted.
    messages_total: Option<u64>,
    /// The thread that has the whole session, if this one was continued before the import was completed.
    #[schema(value_type = Option<String>, format = Uuid)]
    whole_thread_id: Option<ThreadId>,
    /// The counts and how to complete the thread, as one line of text.
    notice: String,
}

impl IncompleteImportShape {
    /// Returns the shape of the thread's mark; `None` if it has none.
    fn from_thread(thread: &Thread) -> Option<Self> {
        let mark = thread.incomplete_import()?;
        Some(Self {
            messages: mark.messages,
            messages_total: mark.messages_total,
            whole_thread_id: mark.whole_thread_id,
            notice: agent::incomplete_import_notice(thread)?,
        })
    }
}

/// A thread with its pending questions and its runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ThreadBody {
    /// The row.
    #[serde(flatten)]
    row: ThreadRow,
    /// The threads that were handed off into it after its parent.
    merged_parents: Vec<MergedParentShape>,
    /// The pending questions.
    interrupts: Vec<Interrupt>,
    /// The folder of the pending tool calls; `null` without such calls.
    workspace: Option<CallWorkspace>,
    /// The agent's list of todos.
    #[schema(value_type = Vec<Object>)]
    todos: Value,
    /// The active run.
    active_run: Option<RunShape>,
    /// Number of queued runs.
    pending_runs: usize,
    /// The newest run that has started, active or ended.
    last_run: Option<RunShape>,
}

/// A short form of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunShape {
    /// The run.
    #[schema(value_type = String, format = Uuid)]
    run_id: RunId,
    /// `pending`, `running`, `success`, `error`, `interrupted`, `timeout` or `cancelled`.
    status: &'static str,
    /// The model of the run.
    model: Option<String>,
    /// The failure message.
    error: Option<String>,
    /// The kind of failure, such as `model`, `config` or `cancelled`.
    error_kind: Option<String>,
    /// A suggested remedy for the user.
    hint: Option<String>,
    /// When the run was created.
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
    /// Loads the shape of a thread.
    ///
    /// # Errors
    /// If the journal fails.
    pub(super) async fn load(caller: &Caller, thread: Thread) -> Result<Self, ApiError> {
        let (agent, thread_id) = (&caller.agent, thread.thread_id);
        let context = RowContext::load(caller, std::slice::from_ref(&thread)).await?;
        let interrupts = agent.runs().pending_interrupts(thread_id).await?;
        let todos = agent.threads().head_channels(thread_id).await?.remove("todos");
        let active = agent.runs().active_runs(Some(thread_id)).await?;
        let queued = agent.runs().queued_runs(Some(thread_id)).await?;
        let filter =
            RunFilter { thread_id: Some(thread_id), limit: queued.len() + 1, ..RunFilter::default() };
        let newest = agent.runs().list(filter).await?;
        let last_started =
            newest.into_iter().find(|run| queued.iter().all(|other| other.run_id != run.run_id));
        Ok(Self {
            row: context.row(&thread),
            merged_parents: merged_parents(caller, &thread).await?,
            interrupts: interrupts.iter().map(Interrupt::from).collect(),
            workspace: CallWorkspace::from_interrupts(caller, &interrupts),
            todos: todos.filter(Value::is_array).unwrap_or_else(|| Value::Array(Vec::new())),
            active_run: active.into_iter().next().map(RunShape::from),
            pending_runs: queued.len(),
            last_run: last_started.map(RunShape::from),
        })
    }
}

/// The data of a page's rows that is not part of the threads themselves.
#[derive(Debug)]
pub(super) struct RowContext {
    /// Total tokens of each thread's runs.
    tokens: BTreeMap<ThreadId, u64>,
    states: BTreeMap<ThreadId, ThreadState>,
    /// The pending handoff of each parent thread.
    pending: BTreeMap<ThreadId, HandoffId>,
    /// The titles of the parent threads.
    parents: BTreeMap<ThreadId, Option<String>>,
}

impl RowContext {
    /// Loads the data for that page of threads, with one query for each kind of data.
    ///
    /// # Errors
    /// If the journal fails.
    pub(super) async fn load(caller: &Caller, threads: &[Thread]) -> Result<Self, ApiError> {
        let ids: Vec<ThreadId> = threads.iter().map(|thread| thread.thread_id).collect();
        let tokens = caller.agent.threads().run_tokens(&ids).await?;
        let mut parents: Vec<ThreadId> = threads.iter().filter_map(|thread| thread.parent_id).collect();
        parents.sort_unstable();
        parents.dedup();
        let parents = match parents.len() {
            0 => Vec::new(),
            count => {
                let filter = ThreadFilter {
                    ids: parents,
                    subagents: SubagentVisibility::Shown,
                    order: ThreadSort::NEWEST,
                    ..ThreadFilter::for_scope(caller.scope.clone(), count)
                };
                caller.agent.threads().list(filter).await?
            }
        };
        Ok(Self {
            tokens,
            states: caller.agent.threads().display_states(threads).await?,
            pending: caller.agent.handoffs().pending_by_thread().await?,
            parents: parents.iter().map(|parent| (parent.thread_id, thread_title(parent))).collect(),
        })
    }

    /// Returns the row of one of the loaded threads.
    pub(super) fn row(&self, thread: &Thread) -> ThreadRow {
        let origin_mark = thread.handoff_mark().filter(|mark| mark.child_thread_id == thread.thread_id);
        let source = thread.metadata.get(SOURCE_KEY).and_then(|source| source["format"].as_str());
        ThreadRow {
            thread_id: thread.thread_id,
            title: thread_title(thread),
            name: redacted(thread.name.as_deref()),
            first_prompt: redacted(thread.first_prompt.as_deref()),
            state: state_name(thread, &self.states),
            status: thread.status.as_str(),
            message_count: thread.message_count,
            last_seq: thread.last_seq,
            tokens: self.tokens.get(&thread.thread_id).copied(),
            parent_id: thread.parent_id,
            parent_kind: thread.parent_kind.map(ParentKind::as_str),
            parent_title: thread.parent_id.and_then(|parent| self.parents.get(&parent).cloned().flatten()),
            handoff_id: origin_mark.map(|mark| mark.handoff_id),
            pending_handoff_id: self.pending.get(&thread.thread_id).copied(),
            source: source.map(str::to_owned),
            incomplete_import: IncompleteImportShape::from_thread(thread),
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}

/// Returns the threads that were handed off into a thread after its parent, with their titles.
async fn merged_parents(caller: &Caller, thread: &Thread) -> Result<Vec<MergedParentShape>, ApiError> {
    let parents = caller.agent.handoffs().merged_parents(thread).await?;
    if parents.is_empty() {
        return Ok(Vec::new());
    }
    let filter = ThreadFilter {
        ids: parents.iter().map(|parent| parent.thread_id).collect(),
        order: ThreadSort::NEWEST,
        ..ThreadFilter::for_scope(caller.scope.clone(), parents.len())
    };
    let threads = caller.agent.threads().list(filter).await?;
    let title = |id: ThreadId| threads.iter().find(|thread| thread.thread_id == id).and_then(thread_title);
    Ok(MergedParentShape::list(&parents, title))
}

/// Returns the display state of a thread as a word.
pub(crate) fn state_name(thread: &Thread, states: &BTreeMap<ThreadId, ThreadState>) -> &'static str {
    agent::display_state(thread, states).as_str()
}

/// Returns the text without secrets.
pub(crate) fn redacted(text: Option<&str>) -> Option<String> {
    text.map(|text| agent::redact(text).into_owned())
}

/// Returns the name of a thread, or the first non-empty line of its first message, shortened. Secrets are redacted, because
/// titles stand in lists and above packages.
pub(crate) fn thread_title(thread: &Thread) -> Option<String> {
    let first_line = || {
        // Redacted before it is shortened: a key that is cut would not be recognized.
        let prompt = agent::redact(thread.first_prompt.as_deref()?);
        let line = prompt.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(match line.chars().count() > TITLE_CHARS_MAX {
            true => line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect(),
            false => line.to_owned(),
        })
    };
    redacted(thread.name.as_deref()).or_else(first_line)
}
