//! Answers to interrupts: which decisions are accepted, and the admission of the run that resumes with them.

use futures::future::BoxFuture;
use journal::{Store, Transaction, Write};
use protocol::event::body::RunStartKind;
use protocol::{Checkpoint, Decisions, Interrupt, InterruptStatus};

use super::{
    ADMISSION_ATTEMPTS_MAX, AnswerDurability, RunAdmission, admission_writes, commit_admission,
    expect_checkpoint_write, initial_checkpoint, is_head_conflict, run_admission_write, run_started_event,
};
use crate::Result;
use crate::driver::AdmittedRun;
use crate::error::{DecisionRejection, Error};
use crate::graph::{Graph, Node};
use crate::step::{Channels, GraphUpdate, KeyedAnswer, StepEntry};
use crate::turn::{
    ANSWERS_CHANNEL, PendingQuestions, RECOVERED_CHANNEL, RESUMED_CHANNEL, interrupt_id,
    pending_questions_channel,
};

/// Stores answers to questions of one step. If no question of the step remains open, admits a run that resumes at
/// the node that asked, and returns it.
///
/// The changes of `with` become durable together with the answers, and its channels are in the state when the
/// node runs. If other questions of the step are still open, there is no run for these changes, so nothing is
/// written unless `with` is empty. The caller has already checked the answers ([`check_decisions`]).
///
/// If the node is immediate, and `with` has no writes or the admission asks for [`AnswerDurability::WithStep`],
/// the answers and the admission are deferred and become durable with the node's step. Driving the run then fails
/// if they cannot be committed, with [`Error::HeadConflict`] if another run of the thread has started and ended
/// in the meantime. The caller may give the answers again.
///
/// # Errors
/// [`journal::Error::AlreadyDecided`] when an interrupt was already answered; nothing is written then.
pub fn resume_run<'a>(
    store: &'a dyn Store,
    graph: &'a Graph,
    admission: &'a RunAdmission,
    answers: &'a [(&'a Interrupt, &'a Decisions)],
    with: GraphUpdate,
) -> BoxFuture<'a, Result<Option<AdmittedRun>>> {
    journal::box_future(async move {
        let Some((interrupt, _)) = answers.first() else { return Ok(None) };
        let mut attempts = 0;
        loop {
            let head = store.checkpoint(admission.thread_id).await?;
            let channels = head.as_ref().map(|point| point.channels.clone()).unwrap_or_default();
            let mut questions = read_step_questions(store, interrupt, &channels).await?;
            for (id, question) in &mut questions {
                if let Some((_, given)) = answers.iter().find(|(answered, _)| answered.interrupt_id == *id) {
                    question.1 = Some((*given).clone());
                }
            }
            let mut first = resolve_writes(answers, admission);
            if questions.iter().any(|(_, (_, decided))| decided.is_none()) {
                if !with.is_empty() {
                    return Ok(None);
                }
                store.commit(Transaction { fence: None, writes: first }).await?;
                // Two clients may give the last two answers at the same time, and each transaction sees the other
                // answer as missing.
                return resume_answered(store, admission, interrupt).await;
            }
            let mut checkpoint = resumed_checkpoint(admission, interrupt, head.clone(), questions)?;
            checkpoint.channels.extend(with.channels.clone());
            checkpoint.channels.retain(|_, value| !value.is_null());
            first.extend([run_admission_write(admission), expect_checkpoint_write(admission, head.as_ref())]);
            first.extend(with.writes.clone());
            let mut events = with.events.clone();
            events.push(run_started_event(admission, RunStartKind::Resumed)?);
            let joins_step = with.writes.is_empty() || admission.durability == AnswerDurability::WithStep;
            if joins_step && graph.get(&interrupt.node).is_some_and(|node| node.is_immediate()) {
                let writes = admission_writes(admission, first, events, &checkpoint);
                let head_seq = head.map_or(0, |point| point.head_seq);
                return Ok(Some(AdmittedRun::with_deferred_admission(
                    Checkpoint { head_seq, ..checkpoint },
                    writes,
                )));
            }
            match commit_admission(store, admission, first, events, checkpoint).await {
                Ok(checkpoint) => return Ok(Some(AdmittedRun::new(checkpoint, StepEntry::Fresh))),
                Err(error) if is_head_conflict(&error) && attempts < ADMISSION_ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error),
            }
        }
    })
}

/// Returns the writes that store the answers.
fn resolve_writes(answers: &[(&Interrupt, &Decisions)], admission: &RunAdmission) -> Vec<Write> {
    let resolve = |(interrupt, decisions): &(&Interrupt, &Decisions)| Write::ResolveInterrupt {
        interrupt_id: interrupt.interrupt_id,
        decisions: Some((*decisions).clone()),
        at: admission.now,
    };
    answers.iter().map(resolve).collect()
}

/// Returns the first question of the step at which the thread stopped, if every question of that step is answered
/// and no run has resumed with the answers. Returns `None` if the checkpoint's record of the questions cannot be
/// read, because it is then unknown whether all of them are answered.
pub fn find_answered_interrupt<'a>(
    store: &'a dyn Store,
    checkpoint: &'a Checkpoint,
) -> BoxFuture<'a, Result<Option<Interrupt>>> {
    journal::box_future(async move {
        let Some(node) = checkpoint.next.as_deref() else { return Ok(None) };
        let id = interrupt_id(checkpoint.run_id, checkpoint.step, node, 0);
        let Some(first) = store.interrupt(id).await? else { return Ok(None) };
        let questions = match read_step_questions(store, &first, &checkpoint.channels).await {
            Err(Error::Channel(_)) => return Ok(None),
            questions => questions?,
        };
        let is_answered = pending_questions_channel(node).is_set(&checkpoint.channels)
            && questions.iter().all(|(_, (_, decided))| decided.is_some());
        Ok(is_answered.then_some(first))
    })
}

/// Admits the run that resumes at the node of `interrupt`, if every question of the step is answered and no run
/// has resumed yet. This is needed because the process that stored the last answer may have ended before it
/// admitted the run. Returns `None` if there is nothing to resume or another process was faster.
pub fn resume_answered<'a>(
    store: &'a dyn Store,
    admission: &'a RunAdmission,
    interrupt: &'a Interrupt,
) -> BoxFuture<'a, Result<Option<AdmittedRun>>> {
    journal::box_future(async move {
        let Some(head) = store.checkpoint(admission.thread_id).await? else { return Ok(None) };
        if !pending_questions_channel(&interrupt.node).is_set(&head.channels) {
            return Ok(None);
        }
        let questions = read_step_questions(store, interrupt, &head.channels).await?;
        if questions.iter().any(|(_, (_, decided))| decided.is_none()) {
            return Ok(None);
        }
        let checkpoint = resumed_checkpoint(admission, interrupt, Some(head.clone()), questions)?;
        let writes = vec![run_admission_write(admission), expect_checkpoint_write(admission, Some(&head))];
        match commit_admission(
            store,
            admission,
            writes,
            vec![run_started_event(admission, RunStartKind::Resumed)?],
            checkpoint,
        )
        .await
        {
            Ok(checkpoint) => Ok(Some(AdmittedRun::new(checkpoint, StepEntry::Fresh))),
            Err(error)
                if is_head_conflict(&error)
                    || matches!(error, Error::Journal(journal::Error::Busy { .. })) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    })
}

/// One question of a step: the interrupt's id, the key of the question within the node, and the decisions, if
/// there are any.
type StepQuestion = (protocol::InterruptId, (String, Option<Decisions>));

/// Returns the questions of the step that raised `interrupt`, in order, with the answers that are stored.
async fn read_step_questions(
    store: &dyn Store,
    interrupt: &Interrupt,
    channels: &Channels,
) -> Result<Vec<StepQuestion>> {
    let Some(PendingQuestions { step, keys, .. }) =
        pending_questions_channel(&interrupt.node).get(channels)?
    else {
        return Ok(vec![(interrupt.interrupt_id, (interrupt.node.clone(), interrupt.decisions.clone()))]);
    };
    let mut questions = Vec::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let id = interrupt_id(interrupt.run_id, step, &interrupt.node, index);
        let decided = store.interrupt(id).await?.and_then(|interrupt| interrupt.decisions);
        questions.push((id, (key, decided)));
    }
    Ok(questions)
}

/// Returns the first checkpoint of a run that resumes with the answers. It keeps the pending activities of
/// `before`, and the information that the node may have been started by a process that is gone.
fn resumed_checkpoint(
    admission: &RunAdmission,
    interrupt: &Interrupt,
    head: Option<Checkpoint>,
    answers: Vec<StepQuestion>,
) -> Result<Checkpoint> {
    let (mut channels, activities) = head.map(|point| (point.channels, point.activities)).unwrap_or_default();
    RESUMED_CHANNEL.remove(&mut channels);
    let answers: Vec<KeyedAnswer> = answers
        .into_iter()
        .filter_map(|(_, (key, decisions))| Some(KeyedAnswer { key, decisions: decisions? }))
        .collect();
    ANSWERS_CHANNEL.set(&mut channels, &answers);
    let questions_channel = pending_questions_channel(&interrupt.node);
    if questions_channel.get(&channels)?.is_some_and(|questions| questions.entry == StepEntry::Recovered) {
        RECOVERED_CHANNEL.set(&mut channels, &true);
    }
    questions_channel.remove(&mut channels);
    Ok(initial_checkpoint(admission, channels, activities, Some(interrupt.node.clone())))
}

/// Checks the rules for every answer: one decision for each action, of a type that the action allows or that
/// `node` accepts in addition.
///
/// # Errors
/// Returns the [`DecisionRejection`]. The interrupt stays as it is.
pub fn check_decisions(
    node: &dyn Node,
    interrupt: &Interrupt,
    decisions: &Decisions,
) -> std::result::Result<(), DecisionRejection> {
    if interrupt.status != InterruptStatus::Pending {
        return Err(DecisionRejection::NotPending(interrupt.status));
    }
    let requests = &interrupt.payload.action_requests;
    if decisions.decisions.len() != requests.len() {
        return Err(DecisionRejection::WrongCount {
            given: decisions.decisions.len(),
            expected: requests.len(),
        });
    }
    for (index, (request, decision)) in requests.iter().zip(&decisions.decisions).enumerate() {
        let config = interrupt.payload.review_config(index);
        let allowed = config.map(|config| config.allowed_decisions.clone()).unwrap_or_default();
        let is_listed = allowed.iter().any(|name| name == decision.type_name());
        if !is_listed && !node.can_accept_unlisted(decision) {
            let given = decision.type_name().to_owned();
            return Err(DecisionRejection::NotAllowed { given, action: request.name.clone(), allowed });
        }
    }
    Ok(())
}
