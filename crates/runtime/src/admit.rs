//! Admission: the one transaction that begins or resumes a run. The person's words are journaled here, before any
//! model is called, exactly once.

use jiff::{SignedDuration, Timestamp};
use journal::{Store, Transaction, Write};
use protocol::{
    AssistantId, Block, Checkpoint, CheckpointId, Decisions, EventType, Interrupt, InterruptStatus, Message,
    NewEvent, Run, RunId, RunStatus, ThreadId, ThreadStatus, ToolMessage, ToolStatus, Usage,
};
use serde_json::json;

use crate::driver::Admitted;
use crate::error::{Error, Rejection};
use crate::graph::{Graph, Node, Question};
use crate::node::hooks::hook_channel;
use crate::node::model::DEFERRED_CHANNEL;
use crate::node::newest_answer;
use crate::node::tools::{CUT_OFF, TOOLS_NODE};
use crate::step::{Answer, Channels, Entry};
use crate::turn::{ANSWERS_CHANNEL, Asked, RECOVERED_CHANNEL, asked_channel, interrupt_id};
use crate::{Result, step::Update};

/// How long a run may stay silent before another process may take it over.
pub(crate) const LEASE: SignedDuration = SignedDuration::from_secs(30);

/// How often an admission is worked out again because another run came and went meanwhile.
pub const ATTEMPTS_MAX: u32 = 5;

/// What a model is told of a call that waited when the person went on without deciding.
const NOT_DONE: &str =
    "Not done: the person went on without answering what was asked about this call, or one beside it.";

/// What a model is told of a call that had begun and asked something itself.
const NOT_FINISHED: &str = "Not finished: the person went on without answering what was asked about this call, or one \
                            beside it. What was done until then stays.";

/// Who admits a run, and when.
#[derive(Debug, Clone)]
pub struct Admission {
    /// The new run's id.
    pub run_id: RunId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The assistant.
    pub assistant_id: AssistantId,
    /// `provider/name` of the model the run will use, if any.
    pub model: Option<String>,
    /// The name of this process in leases.
    pub owner: String,
    /// The present.
    pub now: Timestamp,
}

/// What a new run begins with.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Facts to journal and rows to change with the admission; the person's message is one of them.
    pub update: Update,
    /// State channels the graph's entry edge reads; they replace those of the checkpoint before.
    pub channels: Channels,
}

/// Admits a run that begins at the graph's entry.
///
/// # Errors
/// [`journal::Error::Busy`] when another run of the thread is active; nothing is written then.
pub async fn admit(
    store: &dyn Store,
    graph: &Graph,
    admission: &Admission,
    start: Start,
) -> Result<Admitted> {
    let mut attempts = 0;
    loop {
        let before = store.checkpoint(admission.thread_id).await?;
        let update = start.update.clone();
        let mut channels = before.as_ref().map(|point| point.channels.clone()).unwrap_or_default();
        let withdrawn = withdraw(store, graph, admission, &mut channels).await?;
        channels.remove(ANSWERS_CHANNEL);
        channels.extend(start.channels.clone());
        channels.extend(update.channels);
        channels.retain(|_, value| !value.is_null());
        let mut activities = before.as_ref().map(|point| point.activities.clone()).unwrap_or_default();
        activities.extend(update.activities);
        let next = graph.first(&channels);
        let checkpoint = checkpoint(admission, channels, activities, next);
        let mut events = match withdrawn.told {
            Some(told) => not_done(store, admission, told).await?,
            None => Vec::new(),
        };
        events.extend(update.events);
        events.push(started(admission, "admitted")?);
        let mut writes = vec![Write::AdmitRun(run(admission)), expected(admission, before.as_ref())];
        writes.extend(withdrawn.writes);
        writes.extend(update.writes);
        match commit(store, admission, writes, events, &checkpoint).await {
            Ok(()) => return Ok(Admitted::at(checkpoint, Entry::Fresh)),
            Err(error) if is_outrun(&error) && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// What takes back the questions of a turn that nobody answered.
#[derive(Default)]
struct Withdrawal {
    writes: Vec<Write>,
    /// What the model is told of the calls that waited; `None` when no question was taken back.
    told: Option<&'static str>,
}

/// Takes back the questions of the turn that nobody answered: the thread goes on without them.
async fn withdraw(
    store: &dyn Store,
    graph: &Graph,
    admission: &Admission,
    channels: &mut Channels,
) -> Result<Withdrawal> {
    let (mut withdrawal, mut nodes) = (Withdrawal::default(), Vec::new());
    for interrupt in store.pending_interrupts(admission.thread_id).await? {
        // A graph that does not know the node does not run turns, so the turn that asked still waits.
        if graph.get(&interrupt.node).map(|node| node.question()) != Some(Question::OfTurn) {
            continue;
        }
        let entry = Asked::of(channels, &interrupt.node).map(|asked| asked.entry);
        withdrawal.told = Some(match withdrawal.told {
            // The calls may have been made by a process that is gone, before anybody was asked.
            _ if entry == Some(Entry::Recovered) => CUT_OFF,
            Some(told) => told,
            None if interrupt.node == TOOLS_NODE => NOT_FINISHED,
            None => NOT_DONE,
        });
        let (interrupt_id, at) = (interrupt.interrupt_id, admission.now);
        withdrawal.writes.push(Write::ResolveInterrupt { interrupt_id, decisions: None, at });
        nodes.push(interrupt.node);
    }
    for node in nodes {
        channels.remove(&asked_channel(&node));
        channels.remove(&hook_channel(&node));
        channels.remove(DEFERRED_CHANNEL);
    }
    Ok(withdrawal)
}

/// Returns the results of the calls that waited for an answer, or beside one that did.
async fn not_done(store: &dyn Store, admission: &Admission, told: &str) -> Result<Vec<NewEvent>> {
    let newest = newest_answer(store, admission.thread_id).await?;
    let calls = newest.answer.map(|answer| answer.content).unwrap_or_default();
    let open = calls.into_iter().filter_map(|block| match block {
        Block::ToolCall { id, name, .. } if !newest.answered.contains(&id) => Some((id, name)),
        _ => None,
    });
    open.map(|(call_id, name)| {
        let message = Message::Tool(ToolMessage {
            id: None,
            call_id,
            name: Some(name),
            content: vec![Block::text(told)],
            status: ToolStatus::Error,
        });
        Ok(NewEvent::message(&message, admission.now)?)
    })
    .collect()
}

/// Stores the answer to an interrupt. When it was the last one its step waits for, a run is admitted that resumes at
/// the node that asked, and is returned. The caller has checked the answer.
///
/// Where that node is immediate, answer and admission become durable with its step: it is driving the run that fails
/// then, also with [`Error::Outrun`] when another run came and went meanwhile, and the answer may be given again.
///
/// # Errors
/// [`journal::Error::AlreadyDecided`] when someone else answered first; nothing is written then.
pub async fn resume(
    store: &dyn Store,
    graph: &Graph,
    admission: &Admission,
    (interrupt, decisions): (&Interrupt, &Decisions),
) -> Result<Option<Admitted>> {
    let resolve = Write::ResolveInterrupt {
        interrupt_id: interrupt.interrupt_id,
        decisions: Some(decisions.clone()),
        at: admission.now,
    };
    let mut attempts = 0;
    loop {
        let before = store.checkpoint(admission.thread_id).await?;
        let channels = before.as_ref().map(|point| point.channels.clone()).unwrap_or_default();
        let mut answers = answers(store, interrupt, &channels).await?;
        for (id, answer) in &mut answers {
            if *id == interrupt.interrupt_id {
                answer.1 = Some(decisions.clone());
            }
        }
        if answers.iter().any(|(_, (_, decided))| decided.is_none()) {
            store.commit(Transaction { fence: None, writes: vec![resolve] }).await?;
            // Of two last answers that come at the same time, each may have seen the other missing.
            let begun = begin_answered(store, admission, interrupt).await?;
            return Ok(begun);
        }
        let checkpoint = resuming(admission, interrupt, before.clone(), answers)?;
        let first =
            vec![resolve.clone(), Write::AdmitRun(run(admission)), expected(admission, before.as_ref())];
        let events = vec![started(admission, "resumed")?];
        if graph.get(&interrupt.node).is_some_and(|node| node.is_immediate()) {
            let writes = writes(admission, first, events, &checkpoint);
            let head_seq = before.map_or(0, |point| point.head_seq);
            return Ok(Some(Admitted::owing(Checkpoint { head_seq, ..checkpoint }, writes)));
        }
        match commit(store, admission, first, events, &checkpoint).await {
            Ok(()) => return Ok(Some(Admitted::at(checkpoint, Entry::Fresh))),
            Err(error) if is_outrun(&error) && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Returns a question of the step at which the thread waits if everything that step asked is answered, and no run has
/// gone on with it.
///
/// # Errors
/// When the journal fails.
pub async fn answered(store: &dyn Store, checkpoint: &Checkpoint) -> Result<Option<Interrupt>> {
    let Some(node) = checkpoint.next.as_deref() else { return Ok(None) };
    let id = interrupt_id(checkpoint.run_id, checkpoint.step, (node, 0));
    let Some(first) = store.interrupt(id).await? else { return Ok(None) };
    let answers = answers(store, &first, &checkpoint.channels).await?;
    let is_answered = checkpoint.channels.contains_key(&asked_channel(node))
        && answers.iter().all(|(_, (_, decided))| decided.is_some());
    Ok(is_answered.then_some(first))
}

/// Admits the run that resumes at the node of `interrupt` if everything its step asked is answered and nobody has
/// begun it: the process that stored the last answer may have ended there.
///
/// # Errors
/// When the journal fails.
pub async fn begin_answered(
    store: &dyn Store,
    admission: &Admission,
    interrupt: &Interrupt,
) -> Result<Option<Admitted>> {
    let Some(before) = store.checkpoint(admission.thread_id).await? else { return Ok(None) };
    if !before.channels.contains_key(&asked_channel(&interrupt.node)) {
        return Ok(None);
    }
    let answers = answers(store, interrupt, &before.channels).await?;
    if answers.iter().any(|(_, (_, decided))| decided.is_none()) {
        return Ok(None);
    }
    let checkpoint = resuming(admission, interrupt, Some(before.clone()), answers)?;
    let writes = vec![Write::AdmitRun(run(admission)), expected(admission, Some(&before))];
    match commit(store, admission, writes, vec![started(admission, "resumed")?], &checkpoint).await {
        Ok(()) => Ok(Some(Admitted::at(checkpoint, Entry::Fresh))),
        Err(error) if is_outrun(&error) || matches!(error, Error::Journal(journal::Error::Busy { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// One question of a step: who asked, and what was decided.
type Decided = (protocol::InterruptId, (String, Option<Decisions>));

/// Returns what the step of `interrupt` asked, in order, with the answers there are.
async fn answers(store: &dyn Store, interrupt: &Interrupt, channels: &Channels) -> Result<Vec<Decided>> {
    let Some(Asked { step, keys, .. }) = Asked::of(channels, &interrupt.node) else {
        return Ok(vec![(interrupt.interrupt_id, (interrupt.node.clone(), interrupt.decisions.clone()))]);
    };
    let mut answers = Vec::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let id = interrupt_id(interrupt.run_id, step, (&interrupt.node, index));
        let decided = store.interrupt(id).await?.and_then(|asked| asked.decisions);
        answers.push((id, (key, decided)));
    }
    Ok(answers)
}

fn resuming(
    admission: &Admission,
    interrupt: &Interrupt,
    before: Option<Checkpoint>,
    answers: Vec<Decided>,
) -> Result<Checkpoint> {
    let (mut channels, activities) =
        before.map(|point| (point.channels, point.activities)).unwrap_or_default();
    let answers: Vec<Answer> = answers
        .into_iter()
        .filter_map(|(_, (key, decisions))| Some(Answer { key, decisions: decisions? }))
        .collect();
    channels.insert(ANSWERS_CHANNEL.to_owned(), serde_json::to_value(answers)?);
    if Asked::of(&channels, &interrupt.node).is_some_and(|asked| asked.entry == Entry::Recovered) {
        channels.insert(RECOVERED_CHANNEL.to_owned(), true.into());
    }
    channels.remove(&asked_channel(&interrupt.node));
    Ok(checkpoint(admission, channels, activities, Some(interrupt.node.clone())))
}

/// Returns the key of the event that asks a run to stop.
pub(crate) fn stop_key(run_id: RunId) -> String {
    format!("stop:{run_id}")
}

/// Writes into the journal that the run is to stop; the process that drives it looks there. A run that has ended
/// stays as it is.
///
/// # Errors
/// [`journal::Error::NotFound`] when there is no such run.
pub async fn request_stop(store: &dyn Store, run_id: RunId, now: Timestamp) -> Result<RunStatus> {
    let Some(run) = store.run(run_id).await? else {
        return Err(journal::Error::NotFound { what: "run", id: run_id.to_string() }.into());
    };
    if run.status.is_active() {
        let event = NewEvent::new(EventType::RunStopRequested, &json!({}), now)?;
        let event = event.in_run(run_id).keyed(stop_key(run_id));
        let writes = vec![Write::Append { thread_id: run.thread_id, events: vec![event] }];
        store.commit(Transaction { fence: None, writes }).await?;
    }
    Ok(run.status)
}

fn expected(admission: &Admission, before: Option<&Checkpoint>) -> Write {
    Write::ExpectCheckpoint {
        thread_id: admission.thread_id,
        checkpoint_id: before.map(|point| point.checkpoint_id),
    }
}

/// Returns whether another run came and went between reading the checkpoint and the admission.
pub(crate) const fn is_outrun(error: &Error) -> bool {
    matches!(error, Error::Journal(journal::Error::Differs { .. }))
}

/// Ends an active run whose process is gone and that cannot go on here, and leaves its thread usable.
///
/// # Errors
/// [`journal::Error::Fenced`] when its lease has not ended at `now`.
pub async fn give_up(store: &dyn Store, run: &Run, owner: &str, now: Timestamp) -> Result<()> {
    let why = "its process ended before it was done";
    let event = NewEvent::new(EventType::RunFailed, &json!({"kind": "store", "message": why}), now)?;
    let patch = journal::RunPatch {
        status: Some(RunStatus::Error),
        error: Some(why.to_owned()),
        at: Some(now),
        ..journal::RunPatch::default()
    };
    let thread =
        journal::ThreadPatch { status: Some(ThreadStatus::Error), ..journal::ThreadPatch::default() };
    let writes = vec![
        Write::ReclaimRun { run_id: run.run_id, owner: owner.to_owned(), now, lease_until: now + LEASE },
        Write::Append { thread_id: run.thread_id, events: vec![event.in_run(run.run_id)] },
        Write::UpdateRun { run_id: run.run_id, patch },
        Write::UpdateThread { thread_id: run.thread_id, patch: thread },
    ];
    store.commit(Transaction { fence: None, writes }).await?;
    Ok(())
}

/// Takes over an active run whose process is gone.
///
/// # Errors
/// [`journal::Error::Fenced`] when its lease has not ended at `now`.
pub async fn reclaim(store: &dyn Store, run: &Run, owner: &str, now: Timestamp) -> Result<Admitted> {
    let content = json!({"how": "taken over", "model": run.model});
    let started = NewEvent::new(EventType::RunStarted, &content, now)?.in_run(run.run_id);
    let writes = vec![
        Write::ReclaimRun { run_id: run.run_id, owner: owner.to_owned(), now, lease_until: now + LEASE },
        Write::Append { thread_id: run.thread_id, events: vec![started] },
    ];
    let committed = store.commit(Transaction { fence: None, writes }).await?;
    let checkpoint = store.checkpoint(run.thread_id).await?.ok_or_else(|| journal::Error::NotFound {
        what: "checkpoint of thread",
        id: run.thread_id.to_string(),
    })?;
    // The event gives what is streamed from here on places of its own.
    let head_seq = committed.seqs.iter().flatten().copied().max().unwrap_or(checkpoint.head_seq);
    Ok(Admitted::at(Checkpoint { head_seq, ..checkpoint }, Entry::Recovered))
}

/// Checks the rules every answer obeys: one decision an action, of a type the action allows or `node` takes all the same.
///
/// # Errors
/// The [`Rejection`]; the interrupt stays as it is.
pub fn check_decisions(
    node: &dyn Node,
    interrupt: &Interrupt,
    decisions: &Decisions,
) -> std::result::Result<(), Rejection> {
    if interrupt.status != InterruptStatus::Pending {
        return Err(Rejection::Stale(format!("it is {}", interrupt.status.as_str())));
    }
    let requests = &interrupt.payload.action_requests;
    if decisions.decisions.len() != requests.len() {
        return Err(Rejection::Count { given: decisions.decisions.len(), expected: requests.len() });
    }
    for (request, decision) in requests.iter().zip(&decisions.decisions) {
        let config =
            interrupt.payload.review_configs.iter().find(|config| config.action_name == request.name);
        let allowed = config.map(|config| config.allowed_decisions.clone()).unwrap_or_default();
        let is_listed = allowed.iter().any(|name| name == decision.type_name());
        if !is_listed && !node.takes_unlisted(decision) {
            let given = decision.type_name().to_owned();
            return Err(Rejection::NotAllowed { given, action: request.name.clone(), allowed });
        }
    }
    Ok(())
}

async fn commit(
    store: &dyn Store,
    admission: &Admission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: &Checkpoint,
) -> std::result::Result<(), Error> {
    store.commit(Transaction { fence: None, writes: writes(admission, first, events, checkpoint) }).await?;
    Ok(())
}

/// Returns the writes of an admission that begins with `first`.
fn writes(
    admission: &Admission,
    first: Vec<Write>,
    events: Vec<NewEvent>,
    checkpoint: &Checkpoint,
) -> Vec<Write> {
    let events = events.into_iter().map(|event| event.in_run(admission.run_id)).collect();
    let patch = journal::ThreadPatch {
        status: Some(ThreadStatus::Busy),
        updated_at: Some(admission.now),
        ..journal::ThreadPatch::default()
    };
    let mut writes = first;
    writes.push(Write::Append { thread_id: admission.thread_id, events });
    writes.push(Write::UpdateThread { thread_id: admission.thread_id, patch });
    writes.push(Write::PutCheckpoint(checkpoint.clone()));
    writes
}

fn started(admission: &Admission, how: &str) -> Result<NewEvent> {
    let content = json!({"how": how, "model": admission.model});
    Ok(NewEvent::new(EventType::RunStarted, &content, admission.now)?)
}

fn run(admission: &Admission) -> Run {
    Run {
        run_id: admission.run_id,
        thread_id: admission.thread_id,
        assistant_id: admission.assistant_id.clone(),
        status: RunStatus::Running,
        model: admission.model.clone(),
        error: None,
        lease_owner: Some(admission.owner.clone()),
        lease_until: Some(admission.now + LEASE),
        usage: Usage::default(),
        created_at: admission.now,
        updated_at: admission.now,
    }
}

fn checkpoint(
    admission: &Admission,
    channels: Channels,
    activities: Vec<protocol::PendingActivity>,
    next: Option<String>,
) -> Checkpoint {
    Checkpoint {
        checkpoint_id: CheckpointId::generate(),
        thread_id: admission.thread_id,
        run_id: admission.run_id,
        step: 0,
        head_seq: 0,
        next,
        channels,
        activities,
        created_at: admission.now,
    }
}
