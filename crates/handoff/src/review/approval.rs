//! The node that asks for a decision, and turns the answer into what follows. It has no side effect: the rows of an accept
//! become durable with the answer, and what lies outside the journal is an activity performed after it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Store, Write};
use protocol::{
    Decision, Decisions, EventType, Handoff, HandoffId, HandoffStatus, Interrupt, NewEvent, Proposal,
    ToolStatus,
};
use runtime::{Ask, Channels, Failure, FailureKind, Node, Question, Rejection, StepContext, Update};
use serde_json::{Value, json};

use crate::accept;
use crate::draft::summarization::{Drafting, EXTRACTIVE, told};
use crate::lifecycle::log::Line;
use crate::lifecycle::{Step, moved};
use crate::request::{Asker, Metadata, Problem, cleared, keys};
use crate::review::decide::{self, Edited, Outcome};
use crate::review::payload::{Situation, payload};
use crate::{sha256_hex, tool};

/// The name of the node.
pub const APPROVAL_NODE: &str = "handoff_approval";

/// Asks for a decision about the stored proposal.
#[derive(Clone)]
pub struct HandoffApproval {
    /// How another draft would be made.
    pub drafting: Drafting,
    /// How often a proposal may be refined.
    pub max_refinements: u32,
}

#[async_trait]
impl Node for HandoffApproval {
    fn name(&self) -> &'static str {
        APPROVAL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let metadata = Metadata::read(step.channels).ok_or_else(lost)?;
        let handoff = step.store.handoff(metadata.handoff_id).await?.ok_or_else(lost)?;
        let mut proposals = step.store.proposals(metadata.handoff_id).await?;
        proposals.extend(unwritten(&step, metadata.handoff_id));
        let Some(decisions) = step.answer(APPROVAL_NODE) else {
            let problem = step.channels.get(keys::PROBLEM);
            let problem = problem.and_then(|value| serde_json::from_value(value.clone()).ok());
            let ask = self.ask(&step, &metadata, &proposals, problem).await?;
            return Ok(Update { asks: vec![ask], ..Update::default() });
        };
        let current = proposals.last().ok_or_else(lost)?;
        let left = self.remaining_refinements(&proposals);
        let outcome = decide::single(decisions)
            .and_then(|decision| decide::outcome(current, left, decision))
            .map_err(|rejection| Failure::new(FailureKind::Internal, rejection.to_string()))?;
        let (mut update, shown) = follow(&step, (&handoff, &proposals), outcome).await?;
        if let Some(shown) = shown {
            proposals.push(shown);
            update.asks.push(self.ask(&step, &metadata, &proposals, None).await?);
        }
        Ok(update)
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn question(&self) -> Question {
        // What is said in the parent meanwhile is counted as not covered; the proposal stays as it was shown.
        Question::OfThread
    }

    fn takes_unlisted(&self, decision: &Decision) -> bool {
        // At the cap `edit` is no longer listed, which takes feedback away and leaves a person's own text.
        matches!(decision, Decision::Edit { .. })
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        let (proposal, left) = decide::shown(interrupt)?;
        let can_refine = self.can_refine(&proposal);
        let no_model = || {
            let why =
                "no model is configured to redraft: edit the text yourself, or set one up (`segue models`)";
            Err(Rejection::Invalid(why.to_owned()))
        };
        // Without a model nothing is left, which is not because it was used up.
        let left = if can_refine { left } else { left.max(1) };
        match decide::outcome(&proposal, left, decide::single(decisions)?)? {
            Outcome::Refine(_) if !can_refine => no_model(),
            Outcome::Redraft(None) if self.drafting.model.is_none() => no_model(),
            Outcome::Redraft(Some(name)) => self.drafting.named(&name).map(drop).map_err(|problem| {
                Rejection::Invalid(format!("another draft by `{name}` cannot be made: {problem}"))
            }),
            Outcome::Accept
            | Outcome::AcceptEdited(_)
            | Outcome::Refine(_)
            | Outcome::Revert(_)
            | Outcome::Redraft(None)
            | Outcome::Decline(_)
            | Outcome::Preview => Ok(()),
        }
    }
}

impl HandoffApproval {
    /// Returns how often the newest of `proposals` may still be refined: never without a model.
    pub fn remaining_refinements(&self, proposals: &[Proposal]) -> u32 {
        match proposals.last() {
            Some(newest) if self.can_refine(newest) => {
                self.max_refinements.saturating_sub(refinements(proposals))
            }
            Some(_) | None => 0,
        }
    }

    /// A person may have had the proposal drafted by a model of their choice where none is configured.
    fn can_refine(&self, newest: &Proposal) -> bool {
        self.drafting.model.is_some()
            || matches!(self.drafting.named(&newest.summary_json.model), Ok(Some(_)))
    }

    async fn ask(
        &self,
        step: &StepContext<'_>,
        metadata: &Metadata,
        proposals: &[Proposal],
        problem: Option<Problem>,
    ) -> Result<Ask, Failure> {
        let current = proposals.last().ok_or_else(lost)?;
        let covered = current.summary_json.coverage.last_seq;
        let situation = Situation {
            options: metadata.options.clone(),
            uncovered_messages: step.store.messages_after(metadata.parent_thread_id, covered).await?,
            remaining_refinements: self.remaining_refinements(proposals),
            is_capped: refinements(proposals) >= self.max_refinements,
            feedback_history: proposals.iter().filter_map(|proposal| proposal.feedback.clone()).collect(),
            problem,
        };
        Ok(Ask { key: APPROVAL_NODE.to_owned(), payload: payload(current, &situation)? })
    }
}

/// Returns the proposals that were drafted just before, and become durable with the question about them.
fn unwritten(step: &StepContext<'_>, handoff_id: HandoffId) -> Option<Proposal> {
    step.unwritten.iter().find_map(|write| match write {
        Write::PutProposal(proposal) if proposal.handoff_id == handoff_id => Some(proposal.clone()),
        _ => None,
    })
}

/// Returns how often `proposals` were refined.
fn refinements(proposals: &[Proposal]) -> u32 {
    let used = proposals.iter().filter(|proposal| proposal.feedback.is_some()).count();
    u32::try_from(used).unwrap_or(u32::MAX)
}

/// Returns what a checked decision changes, and the proposal that is to be asked about next, when there is one at once.
async fn follow(
    step: &StepContext<'_>,
    (handoff, proposals): (&Handoff, &[Proposal]),
    outcome: Outcome,
) -> Result<(Update, Option<Proposal>), Failure> {
    let (handoff_id, current) = (handoff.handoff_id, proposals.last().ok_or_else(lost)?);
    let now = Timestamp::now();
    let update = match outcome {
        Outcome::Accept => accept(step, handoff, current, now).await?,
        Outcome::AcceptEdited(edited) => accept_edited(step, (handoff, current), *edited, now).await?,
        Outcome::Refine(feedback) => {
            let mut update = redraft((handoff, current), json!({"feedback": feedback}), now)?;
            let previous = current.summary_md.clone().into();
            update.channels.insert(keys::PREVIOUS_SUMMARY.to_owned(), previous);
            let history = history(step.channels, current, &feedback, now);
            update.channels.insert(keys::REFINEMENT_HISTORY.to_owned(), history);
            update.channels.insert(keys::FEEDBACK.to_owned(), feedback.into());
            update
        }
        Outcome::Redraft(model) => {
            let mut update = redraft((handoff, current), json!({"model": model}), now)?;
            if let Some(model) = model.as_ref().filter(|name| *name != EXTRACTIVE) {
                update.channels.insert(keys::MODEL.to_owned(), model.as_str().into());
            }
            update.channels.insert(keys::REDRAFT.to_owned(), json!({"model": model}));
            update
        }
        Outcome::Revert(to) => {
            let (update, reverted) = revert(handoff, proposals, to, now)?;
            return Ok((update, Some(reverted)));
        }
        Outcome::Decline(message) => {
            Line::Skipped("it was declined").of(handoff, Some(current));
            decline(handoff, message, now)?
        }
        Outcome::Preview => {
            Line::Skipped("it was previewed").of(handoff, Some(current));
            let event = NewEvent::new(EventType::HandoffPreviewed, &json!({"handoff_id": handoff_id}), now)?;
            rest(handoff, Step::Preview, event, None)?
        }
    };
    Ok((update, None))
}

/// A person's own text is stored as one more proposal, so that what is injected is always one.
async fn accept_edited(
    step: &StepContext<'_>,
    (handoff, current): (&Handoff, &Proposal),
    edited: Edited,
    now: Timestamp,
) -> Result<Update, Failure> {
    let mut summary_json = edited.summary_json;
    summary_json.iteration = current.iteration + 1;
    let proposal = Proposal {
        handoff_id: handoff.handoff_id,
        iteration: summary_json.iteration,
        summary_json,
        summary_sha256: sha256_hex(edited.summary_md.as_bytes()),
        summary_md: edited.summary_md,
        feedback: None,
        created_at: now,
    };
    let mut update = accept(step, handoff, &proposal, now).await?;
    update.writes.insert(0, Write::PutProposal(proposal));
    Ok(update)
}

/// Returns what shows the text of iteration `to` again, and the proposal that does.
fn revert(
    handoff: &Handoff,
    proposals: &[Proposal],
    to: u32,
    now: Timestamp,
) -> Result<(Update, Proposal), Failure> {
    let current = proposals.last().ok_or_else(lost)?;
    let mut proposal = proposals.iter().find(|proposal| proposal.iteration == to).ok_or_else(lost)?.clone();
    proposal.iteration = current.iteration + 1;
    proposal.summary_json.iteration = proposal.iteration;
    // Nobody was paid for it again.
    proposal.summary_json.tokens_used = 0;
    proposal.feedback = None;
    proposal.created_at = now;
    let content =
        json!({"handoff_id": handoff.handoff_id, "iteration": proposal.iteration, "reverted_to": to});
    let events = vec![NewEvent::new(EventType::HandoffReverted, &content, now)?];
    let channels = Channels::from_iter([
        (keys::PROPOSAL.to_owned(), told(&proposal)),
        (keys::PROBLEM.to_owned(), Value::Null),
    ]);
    let patch = HandoffPatch { iteration: Some(proposal.iteration), ..HandoffPatch::default() };
    let writes = vec![Write::PutProposal(proposal.clone()), moved(handoff, Step::Revert, patch, now)?];
    Ok((Update { events, channels, writes, ..Update::default() }, proposal))
}

async fn accept(
    step: &StepContext<'_>,
    handoff: &Handoff,
    proposal: &Proposal,
    now: Timestamp,
) -> Result<Update, Failure> {
    let mut update = accept::accepted(&**step.store, handoff, proposal, now).await?;
    update.channels.extend(cleared());
    update.channels.insert(keys::DECISION.to_owned(), json!({"type": "approve"}));
    update.channels.insert(keys::APPROVED.to_owned(), true.into());
    update.channels.insert(keys::CHILD.to_owned(), json!(handoff.child_thread_id));
    Ok(update)
}

/// Returns what was refined so far, this time included.
fn history(channels: &Channels, current: &Proposal, feedback: &str, now: Timestamp) -> Value {
    let mut entries =
        channels.get(keys::REFINEMENT_HISTORY).and_then(Value::as_array).cloned().unwrap_or_default();
    entries.push(json!({
        "iteration": current.iteration, "feedback": feedback, "summary_md": current.summary_md, "timestamp": now,
    }));
    Value::Array(entries)
}

/// Returns what begins another draft, whatever it is to follow.
fn redraft(
    (handoff, current): (&Handoff, &Proposal),
    mut asked: Value,
    now: Timestamp,
) -> Result<Update, Failure> {
    let iteration = current.iteration + 1;
    asked["handoff_id"] = json!(handoff.handoff_id);
    asked["iteration"] = current.iteration.into();
    let patch = HandoffPatch { iteration: Some(iteration), ..HandoffPatch::default() };
    let mut update = Update::default();
    update.events.push(NewEvent::new(EventType::HandoffRefined, &asked, now)?);
    update.writes.push(moved(handoff, Step::Draft, patch, now)?);
    update.channels.insert(keys::ITERATION.to_owned(), iteration.into());
    update.channels.insert(keys::PROBLEM.to_owned(), Value::Null);
    Ok(update)
}

/// Returns what ends a pending handoff of a thread with these channels, because a person put everything aside that waits
/// there: it is declined, and a call of the agent that asked for it has its result. One that was cut off before its first
/// proposal is given up. The question about it is the caller's to withdraw.
///
/// # Errors
/// When the handoff is decided already.
pub fn put_aside(
    handoff: &Handoff,
    channels: &Channels,
    message: Option<String>,
    now: Timestamp,
) -> Result<Update, Failure> {
    let mut update = match handoff.status {
        HandoffStatus::AwaitingDecision => decline(handoff, message.clone(), now)?,
        _ => {
            let content = json!({"handoff_id": handoff.handoff_id});
            let event = NewEvent::new(EventType::HandoffExpired, &content, now)?;
            rest(handoff, Step::Expire, event, message.clone())?
        }
    };
    if let Some(asker) = Asker::read(channels).filter(|asker| asker.handoff_id == handoff.handoff_id) {
        let text = tool::declined(message.as_deref());
        update.merge(tool::answered(&asker, ToolStatus::Error, text, now)?);
    }
    Ok(update)
}

fn decline(handoff: &Handoff, message: Option<String>, now: Timestamp) -> Result<Update, Failure> {
    let content = json!({"handoff_id": handoff.handoff_id, "message": message});
    let event = NewEvent::new(EventType::HandoffDeclined, &content, now)?;
    rest(handoff, Step::Decline, event, message)
}

fn rest(handoff: &Handoff, step: Step, event: NewEvent, note: Option<String>) -> Result<Update, Failure> {
    let patch = HandoffPatch { note, ..HandoffPatch::default() };
    let write = moved(handoff, step, patch, event.created_at)?;
    let mut channels = cleared();
    let decision = if step == Step::Preview { "preview" } else { "reject" };
    channels.insert(keys::DECISION.to_owned(), json!({"type": decision}));
    channels.insert(keys::APPROVED.to_owned(), Value::Bool(false));
    Ok(Update { events: vec![event], channels, writes: vec![write], ..Update::default() })
}

fn lost() -> Failure {
    Failure::new(FailureKind::Internal, "find the proposal that waits for a decision")
}
