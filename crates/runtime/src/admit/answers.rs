//! Answers to what a run asked: which are taken, and the admission of the run that goes on with them.

use journal::{Store, Transaction, Write};
use protocol::event::body::RunBeginning;
use protocol::{Checkpoint, Decisions, Interrupt, InterruptStatus};

use super::{
    ATTEMPTS_MAX, Admission, AnswerDurability, admitting, checkpoint, commit, expected, is_outrun, started,
    writes,
};
use crate::Result;
use crate::driver::Admitted;
use crate::error::{Error, Rejection};
use crate::graph::{Graph, Node};
use crate::step::{Answer, Channels, Entry, Update};
use crate::turn::{ANSWERS_CHANNEL, Asked, GOES_ON_CHANNEL, RECOVERED_CHANNEL, asked_channel, interrupt_id};

/// Stores answers to questions of one step. When they were the last ones it waits for, a run is admitted that resumes at
/// the node that asked, and is returned. `with` becomes durable together with them; a client's state among it is there
/// when the node runs. Where other questions of the step wait, there is no run that `with` could belong to: nothing is
/// written then, unless there is nothing `with` the answers. The caller has checked the answers.
///
/// Where that node is immediate, and nothing is to be written `with` them or [`AnswerDurability::WithStep`] is asked for,
/// answers and admission become durable with its step: it is driving the run that fails then, also with [`Error::Outrun`] when another run came and went meanwhile, and
/// the answers may be given again.
///
/// # Errors
/// [`journal::Error::AlreadyDecided`] when someone else answered first; nothing is written then.
pub async fn resume(
    store: &dyn Store,
    graph: &Graph,
    admission: &Admission,
    answers: &[(&Interrupt, &Decisions)],
    with: Update,
) -> Result<Option<Admitted>> {
    let Some((interrupt, _)) = answers.first() else { return Ok(None) };
    let mut attempts = 0;
    loop {
        let before = store.checkpoint(admission.thread_id).await?;
        let channels = before.as_ref().map(|point| point.channels.clone()).unwrap_or_default();
        let mut asked = asked(store, interrupt, &channels).await?;
        for (id, answer) in &mut asked {
            if let Some((_, given)) = answers.iter().find(|(of, _)| of.interrupt_id == *id) {
                answer.1 = Some((*given).clone());
            }
        }
        let mut first = resolving(answers, admission);
        if asked.iter().any(|(_, (_, decided))| decided.is_none()) {
            if !with.is_empty() {
                return Ok(None);
            }
            store.commit(Transaction { fence: None, writes: first }).await?;
            // Of two last answers that come at the same time, each may have seen the other missing.
            return begin_answered(store, admission, interrupt).await;
        }
        let mut checkpoint = resuming(admission, interrupt, before.clone(), asked)?;
        checkpoint.channels.extend(with.channels.clone());
        checkpoint.channels.retain(|_, value| !value.is_null());
        first.extend([admitting(admission), expected(admission, before.as_ref())]);
        first.extend(with.writes.clone());
        let mut events = with.events.clone();
        events.push(started(admission, RunBeginning::Resumed)?);
        let joins_step = with.writes.is_empty() || admission.durability == AnswerDurability::WithStep;
        if joins_step && graph.get(&interrupt.node).is_some_and(|node| node.is_immediate()) {
            let writes = writes(admission, first, events, &checkpoint);
            let head_seq = before.map_or(0, |point| point.head_seq);
            return Ok(Some(Admitted::owing(Checkpoint { head_seq, ..checkpoint }, writes)));
        }
        match commit(store, admission, first, events, checkpoint).await {
            Ok(checkpoint) => return Ok(Some(Admitted::at(checkpoint, Entry::Fresh))),
            Err(error) if is_outrun(&error) && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(error) => return Err(error),
        }
    }
}

fn resolving(answers: &[(&Interrupt, &Decisions)], admission: &Admission) -> Vec<Write> {
    let resolve = |(interrupt, decisions): &(&Interrupt, &Decisions)| Write::ResolveInterrupt {
        interrupt_id: interrupt.interrupt_id,
        decisions: Some((*decisions).clone()),
        at: admission.now,
    };
    answers.iter().map(resolve).collect()
}

/// Returns a question of the step at which the thread waits if everything that step asked is answered, and no run has
/// gone on with it. Where the checkpoint's record of what was asked cannot be read, nothing says that all of it is.
pub async fn answered(store: &dyn Store, checkpoint: &Checkpoint) -> Result<Option<Interrupt>> {
    let Some(node) = checkpoint.next.as_deref() else { return Ok(None) };
    let id = interrupt_id(checkpoint.run_id, checkpoint.step, node, 0);
    let Some(first) = store.interrupt(id).await? else { return Ok(None) };
    let answers = match asked(store, &first, &checkpoint.channels).await {
        Err(Error::Channel(_)) => return Ok(None),
        answers => answers?,
    };
    let is_answered = asked_channel(node).is_set(&checkpoint.channels)
        && answers.iter().all(|(_, (_, decided))| decided.is_some());
    Ok(is_answered.then_some(first))
}

/// Admits the run that resumes at the node of `interrupt` if everything its step asked is answered and nobody has
/// begun it: the process that stored the last answer may have ended there.
pub async fn begin_answered(
    store: &dyn Store,
    admission: &Admission,
    interrupt: &Interrupt,
) -> Result<Option<Admitted>> {
    let Some(before) = store.checkpoint(admission.thread_id).await? else { return Ok(None) };
    if !asked_channel(&interrupt.node).is_set(&before.channels) {
        return Ok(None);
    }
    let answers = asked(store, interrupt, &before.channels).await?;
    if answers.iter().any(|(_, (_, decided))| decided.is_none()) {
        return Ok(None);
    }
    let checkpoint = resuming(admission, interrupt, Some(before.clone()), answers)?;
    let writes = vec![admitting(admission), expected(admission, Some(&before))];
    match commit(store, admission, writes, vec![started(admission, RunBeginning::Resumed)?], checkpoint).await
    {
        Ok(checkpoint) => Ok(Some(Admitted::at(checkpoint, Entry::Fresh))),
        Err(error) if is_outrun(&error) || matches!(error, Error::Journal(journal::Error::Busy { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// One question of a step: who asked, and what was decided.
type Decided = (protocol::InterruptId, (String, Option<Decisions>));

/// Returns what the step of `interrupt` asked, in order, with the answers there are.
async fn asked(store: &dyn Store, interrupt: &Interrupt, channels: &Channels) -> Result<Vec<Decided>> {
    let Some(Asked { step, keys, .. }) = asked_channel(&interrupt.node).get(channels)? else {
        return Ok(vec![(interrupt.interrupt_id, (interrupt.node.clone(), interrupt.decisions.clone()))]);
    };
    let mut answers = Vec::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let id = interrupt_id(interrupt.run_id, step, &interrupt.node, index);
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
    GOES_ON_CHANNEL.remove(&mut channels);
    let answers: Vec<Answer> = answers
        .into_iter()
        .filter_map(|(_, (key, decisions))| Some(Answer { key, decisions: decisions? }))
        .collect();
    ANSWERS_CHANNEL.set(&mut channels, &answers);
    let asked = asked_channel(&interrupt.node);
    if asked.get(&channels)?.is_some_and(|asked| asked.entry == Entry::Recovered) {
        RECOVERED_CHANNEL.set(&mut channels, &true);
    }
    asked.remove(&mut channels);
    Ok(checkpoint(admission, channels, activities, Some(interrupt.node.clone())))
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
        return Err(Rejection::NotPending(interrupt.status));
    }
    let requests = &interrupt.payload.action_requests;
    if decisions.decisions.len() != requests.len() {
        return Err(Rejection::Count { given: decisions.decisions.len(), expected: requests.len() });
    }
    for (at, (request, decision)) in requests.iter().zip(&decisions.decisions).enumerate() {
        let config = interrupt.payload.review_config(at);
        let allowed = config.map(|config| config.allowed_decisions.clone()).unwrap_or_default();
        let is_listed = allowed.iter().any(|name| name == decision.type_name());
        if !is_listed && !node.takes_unlisted(decision) {
            let given = decision.type_name().to_owned();
            return Err(Rejection::NotAllowed { given, action: request.name.clone(), allowed });
        }
    }
    Ok(())
}
