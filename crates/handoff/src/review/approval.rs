//! The node that asks for a decision, and turns the answer into what follows. It has no side effect: an accept is
//! an activity, performed after the answer is durable.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffPatch, Store, Write};
use protocol::{
    Decisions, EventType, Handoff, HandoffStatus, Interrupt, NewEvent, PendingActivity, Proposal, ThreadId,
};
use runtime::{Ask, Channels, Failure, FailureKind, Node, Question, Rejection, StepContext, Update};
use serde_json::{Value, json};

use crate::accept::ACCEPT_ACTIVITY;
use crate::lifecycle::{self, Step};
use crate::request::{Metadata, cleared, keys};
use crate::review::decide::{self, Outcome};
use crate::review::payload::{Situation, payload};
use crate::sha256_hex;

/// The name of the node.
pub const APPROVAL_NODE: &str = "handoff_approval";

/// Asks for a decision about the stored proposal.
pub struct HandoffApproval {
    /// How often a proposal may be refined.
    pub max_refinements: u32,
    /// Whether there is a model that can redraft.
    pub can_refine: bool,
}

#[async_trait]
impl Node for HandoffApproval {
    fn name(&self) -> &'static str {
        APPROVAL_NODE
    }

    async fn run(&self, step: StepContext<'_>) -> Result<Update, Failure> {
        let metadata = Metadata::read(step.channels).ok_or_else(lost)?;
        let handoff = step.store.handoff(metadata.handoff_id).await?.ok_or_else(lost)?;
        let proposals = step.store.proposals(metadata.handoff_id).await?;
        let current = proposals.last().ok_or_else(lost)?;
        match step.answer(APPROVAL_NODE) {
            None => {
                let situation = self.situation(&step, &metadata, &proposals).await?;
                let ask = Ask { key: APPROVAL_NODE.to_owned(), payload: payload(current, &situation)? };
                Ok(Update { asks: vec![ask], ..Update::default() })
            }
            Some(decisions) => {
                let left = self.refinements_left(&proposals);
                let outcome = decide::single(decisions)
                    .and_then(|decision| decide::outcome(current, left, decision))
                    .map_err(|rejection| Failure::new(FailureKind::Internal, rejection.to_string()))?;
                follow(step.channels, &handoff, current, outcome, Timestamp::now())
            }
        }
    }

    fn question(&self) -> Question {
        // What is said in the parent meanwhile is counted as not covered; the proposal stays as it was shown.
        Question::OfThread
    }

    async fn check(
        &self,
        interrupt: &Interrupt,
        decisions: &Decisions,
        _store: &Arc<dyn Store>,
    ) -> Result<(), Rejection> {
        let (proposal, left) = decide::shown(interrupt)?;
        let outcome = decide::outcome(&proposal, left, decide::single(decisions)?)?;
        match outcome {
            Outcome::Refine(_) if !self.can_refine => Err(Rejection::Invalid(
                "no model is configured to redraft: edit the text yourself, or set one up (`segue models`)"
                    .to_owned(),
            )),
            Outcome::Accept
            | Outcome::AcceptEdited(_)
            | Outcome::Refine(_)
            | Outcome::Decline(_)
            | Outcome::Preview => Ok(()),
        }
    }
}

impl HandoffApproval {
    fn refinements_left(&self, proposals: &[Proposal]) -> u32 {
        refinements_left(proposals, self.max_refinements)
    }

    async fn situation(
        &self,
        step: &StepContext<'_>,
        metadata: &Metadata,
        proposals: &[Proposal],
    ) -> Result<Situation, Failure> {
        let last_covered = proposals.last().map_or(0, |proposal| proposal.summary_json.coverage.last_seq);
        Ok(Situation {
            preview_only: metadata.options.preview_only,
            uncovered_messages: uncovered_messages(step.store, metadata.parent_thread_id, last_covered)
                .await?,
            remaining_refinements: if self.can_refine { self.refinements_left(proposals) } else { 0 },
            feedback_history: proposals.iter().filter_map(|proposal| proposal.feedback.clone()).collect(),
        })
    }
}

/// Returns how often the newest of `proposals` may still be refined.
pub fn refinements_left(proposals: &[Proposal], max_refinements: u32) -> u32 {
    let used = proposals.iter().filter(|proposal| proposal.feedback.is_some()).count();
    max_refinements.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
}

/// Returns how many messages came after `last_covered`.
///
/// # Errors
/// When the journal fails.
pub async fn uncovered_messages(
    store: &Arc<dyn Store>,
    thread_id: ThreadId,
    last_covered: protocol::Seq,
) -> journal::Result<u64> {
    let mut count = 0;
    let mut after = last_covered;
    loop {
        let query = journal::EventQuery {
            categories: vec![protocol::Category::Message],
            ..journal::EventQuery::after(after, journal::PAGE_ROWS_MAX)
        };
        let page = store.events(thread_id, query).await?;
        let Some(last) = page.last() else { return Ok(count) };
        after = last.seq;
        count += page.len() as u64;
    }
}

/// Returns what a checked decision changes.
fn follow(
    channels: &Channels,
    handoff: &Handoff,
    current: &Proposal,
    outcome: Outcome,
    now: Timestamp,
) -> Result<Update, Failure> {
    let id = handoff.handoff_id;
    match outcome {
        Outcome::Accept => accept(handoff, current.iteration, &current.summary_sha256),
        Outcome::AcceptEdited(edited) => {
            let iteration = current.iteration + 1;
            let mut summary_json = edited.summary_json;
            summary_json.iteration = iteration;
            let summary_sha256 = sha256_hex(edited.summary_md.as_bytes());
            let mut update = accept(handoff, iteration, &summary_sha256)?;
            let summary_md = edited.summary_md;
            update.writes.push(Write::PutProposal(Proposal {
                handoff_id: id,
                iteration,
                summary_json,
                summary_md,
                summary_sha256,
                feedback: None,
                created_at: now,
            }));
            let patch = HandoffPatch { iteration: Some(iteration), ..HandoffPatch::default() };
            let waiting = HandoffStatus::AwaitingDecision;
            update.writes.push(Write::MoveHandoff {
                handoff_id: id,
                from: waiting,
                to: waiting,
                patch,
                at: now,
            });
            Ok(update)
        }
        Outcome::Refine(feedback) => refine(channels, handoff, current, &feedback, now),
        Outcome::Decline(message) => {
            let content = json!({"handoff_id": id, "message": message});
            rest(handoff, Step::Decline, NewEvent::new(EventType::HandoffDeclined, &content, now)?, message)
        }
        Outcome::Preview => {
            let content = json!({"handoff_id": id});
            rest(handoff, Step::Preview, NewEvent::new(EventType::HandoffPreviewed, &content, now)?, None)
        }
    }
}

fn accept(handoff: &Handoff, iteration: u32, sha256: &str) -> Result<Update, Failure> {
    lifecycle::next(handoff.status, Step::Accept).map_err(illegal)?;
    let args = json!({"handoff_id": handoff.handoff_id, "iteration": iteration, "summary_sha256": sha256});
    let mut channels = cleared();
    channels.insert(keys::DECISION.to_owned(), json!({"type": "approve"}));
    channels.insert(keys::APPROVED.to_owned(), true.into());
    channels.insert(keys::CHILD.to_owned(), json!(handoff.child_thread_id));
    let activities = vec![PendingActivity { name: ACCEPT_ACTIVITY.to_owned(), args }];
    Ok(Update { channels, activities, ..Update::default() })
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

fn refine(
    channels: &Channels,
    handoff: &Handoff,
    current: &Proposal,
    feedback: &str,
    now: Timestamp,
) -> Result<Update, Failure> {
    let to = lifecycle::next(handoff.status, Step::Draft).map_err(illegal)?;
    let iteration = current.iteration + 1;
    let patch = HandoffPatch { iteration: Some(iteration), ..HandoffPatch::default() };
    let from = handoff.status;
    let mut update = Update::default();
    update.writes.push(Write::MoveHandoff { handoff_id: handoff.handoff_id, from, to, patch, at: now });
    update.channels.insert(keys::ITERATION.to_owned(), iteration.into());
    update.channels.insert(keys::FEEDBACK.to_owned(), feedback.into());
    update.channels.insert(keys::PREVIOUS_SUMMARY.to_owned(), current.summary_md.clone().into());
    update.channels.insert(keys::REFINEMENT_HISTORY.to_owned(), history(channels, current, feedback, now));
    Ok(update)
}

fn rest(handoff: &Handoff, step: Step, event: NewEvent, note: Option<String>) -> Result<Update, Failure> {
    let to = lifecycle::next(handoff.status, step).map_err(illegal)?;
    let patch = HandoffPatch { note, ..HandoffPatch::default() };
    let at = event.created_at;
    let write = Write::MoveHandoff { handoff_id: handoff.handoff_id, from: handoff.status, to, patch, at };
    let mut channels = cleared();
    let decision = if step == Step::Preview { "preview" } else { "reject" };
    channels.insert(keys::DECISION.to_owned(), json!({"type": decision}));
    channels.insert(keys::APPROVED.to_owned(), Value::Bool(false));
    Ok(Update { events: vec![event], channels, writes: vec![write], ..Update::default() })
}

fn lost() -> Failure {
    Failure::new(FailureKind::Internal, "find the proposal that waits for a decision")
}

fn illegal(error: lifecycle::IllegalTransition) -> Failure {
    Failure::new(FailureKind::Internal, error.to_string())
}
