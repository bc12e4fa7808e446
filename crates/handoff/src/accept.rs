//! The acceptance service: the effects of an accepted handoff (contract §7).
//!
//! Acceptance is an idempotent saga keyed by the handoff's id. Part one ([`accept_update`]) is committed together
//! with the decision. Part two ([`Acceptance`]) is an activity that writes `agent.md`, outside the database. Each
//! part checks the handoff's status first and does only what is missing, so it can be repeated after a crash.

pub(crate) mod waiting_calls;

use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{HandoffFilter, HandoffPatch, Store, ThreadPatch, Write};
use memory::{AgentFile, BlockWrite, BlockWriteOutcome, ThreadPins};
use protocol::event::body::{HandoffAccepted, HandoffExpired, HandoffMerged, HandoffSeeded, ThreadCreated};
use protocol::{
    AssistantId, Handoff, HandoffId, HandoffMark, HandoffStatus, NewEvent, ParentKind, PendingActivity,
    Proposal, Thread, ThreadStatus,
};
use runtime::{Activity, Channels, FailureKind, Frame, FrameSender, GraphUpdate, StepFailure};
use serde_json::{Map, Value, json};

use crate::lifecycle::log::HandoffLogLine;
use crate::lifecycle::{HandoffAction, transition_write};
use crate::mirror::{self, SummaryMirror};
use crate::request::{HandoffOptions, tool};

/// The name of the activity in checkpoints.
pub const ACCEPT_ACTIVITY: &str = "accept_handoff";

/// The number of newest handoffs that the first query for a pending one reads. One of them is nearly always the result.
const NEWEST_HANDOFFS_FIRST: usize = 8;

/// A function that returns the `agent.md` of an assistant, the same value at every call.
pub type AgentFiles = dyn Fn(&AssistantId) -> Arc<AgentFile> + Send + Sync;

/// The acceptance activity. It also keeps the managed block in `agent.md` consistent with the pending handoffs.
#[derive(Clone)]
pub struct Acceptance {
    /// The store of threads and handoffs.
    pub store: Arc<dyn Store>,
    /// The `agent.md` of each assistant. There is one [`AgentFile`] for each file as long as the process lives, because
    /// it watches the files it has replaced for text that an editor still appends to them.
    pub agent_md: Arc<AgentFiles>,
    /// The export of accepted summaries to PostgreSQL.
    pub mirror: SummaryMirror,
}

#[async_trait]
impl Activity for Acceptance {
    fn name(&self) -> &'static str {
        ACCEPT_ACTIVITY
    }

    async fn perform(&self, args: &Value, frames: &FrameSender) -> Result<GraphUpdate, StepFailure> {
        let handoff_id = parse_handoff_id(args)?;
        let iteration = args.get("iteration").and_then(Value::as_u64).unwrap_or(0);
        // The outbox item was committed with the decision. Sending it happens in the background.
        self.mirror.send_pending();
        // A handoff that was deleted with its threads has nothing left to do.
        let Some(handoff) = self.store.handoff(handoff_id).await? else { return Ok(GraphUpdate::default()) };
        match handoff.status {
            HandoffStatus::Accepted => {
                self.seed_child(&handoff, &self.read_proposal(handoff_id, iteration).await?, frames).await
            }
            status => {
                HandoffLogLine::Skipped(&format!("its status is already {}", status.as_str()))
                    .log(&handoff, self.accepted_proposal(&handoff).await?.as_ref());
                Ok(GraphUpdate::default())
            }
        }
    }
}

/// Returns part one of the saga, which is committed together with the decision: the child thread, the handoff marks on
/// both threads, the status, the audit event, the outbox item, and the activity that performs part two.
///
/// # Errors
///
/// When the handoff does not await a decision, or the journal cannot be read.
pub(crate) async fn accept_update(
    store: &dyn Store,
    handoff: &Handoff,
    proposal: &Proposal,
    now: Timestamp,
) -> Result<GraphUpdate, StepFailure> {
    let parent = handoff.parent_thread_id;
    let accepted = HandoffAccepted {
        title: Some(proposal.summary_json.title.clone()),
        handoff_id: handoff.handoff_id,
        iteration: proposal.iteration,
        summary_sha256: proposal.summary_sha256.clone(),
        child_thread_id: handoff.child_thread_id,
    };
    let accepted = NewEvent::from_body(&accepted, now)?;
    let patch = HandoffPatch {
        iteration: Some(proposal.iteration),
        accepted_sha256: Some(proposal.summary_sha256.clone()),
        ..HandoffPatch::default()
    };
    let mut writes = vec![transition_write(handoff, HandoffAction::Accept, patch, now)?];
    writes.extend(child_writes(store, handoff, proposal, now).await?);
    writes.push(Write::UpdateThread { thread_id: parent, patch: parent_patch(store, handoff).await? });
    writes.push(mirror::enqueue_write(handoff, now, now));
    let args = json!({
        "handoff_id": handoff.handoff_id, "iteration": proposal.iteration,
        "summary_sha256": proposal.summary_sha256,
    });
    let activities = vec![PendingActivity { name: ACCEPT_ACTIVITY.to_owned(), args }];
    Ok(GraphUpdate { events: vec![accepted], writes, activities, ..GraphUpdate::default() })
}

/// Returns the writes that give the package to the child thread: they create the thread, or add the package to the thread of
/// another handoff. That thread waits for the cleanup of this handoff then, which completes the earlier ones too.
async fn child_writes(
    store: &dyn Store,
    handoff: &Handoff,
    proposal: &Proposal,
    now: Timestamp,
) -> Result<Vec<Write>, StepFailure> {
    let child_thread_id = handoff.child_thread_id;
    let options: HandoffOptions = serde_json::from_value(handoff.options.clone())?;
    if options.into.is_none() {
        let parent_thread_id = handoff.parent_thread_id;
        let origin = ThreadCreated::Handoff { handoff_id: handoff.handoff_id, parent_thread_id };
        let created = NewEvent::from_body(&origin, now)?;
        let mut writes = vec![
            Write::CreateThread(child_thread(handoff, proposal, now)?),
            Write::Append { thread_id: child_thread_id, events: vec![created] },
        ];
        writes.extend(pin_writes(handoff, proposal, &ThreadPins::default(), now)?);
        return Ok(writes);
    }
    let child = store.thread(child_thread_id).await?;
    // The answer was checked before; a message may have come since.
    if child.as_ref().is_some_and(|child| child.message_count > 0) {
        let text = format!("hand off into thread {child_thread_id}: it has messages already");
        let hint = "hand the thread off again and decline the proposal";
        return Err(StepFailure::new(FailureKind::InvalidDecision, text).with_hint(hint));
    }
    let mut patch = ThreadPatch::default();
    if child.and_then(|child| child.handoff_mark()).is_some_and(|mark| mark.pending) {
        patch.metadata.insert(HandoffMark::KEY.to_owned(), serde_json::to_value(pending_mark(handoff))?);
    }
    // The first write makes the transaction fail if the thread was deleted, or got its first message since it was read.
    let thread_id = child_thread_id;
    let merged = HandoffMerged {
        handoff_id: handoff.handoff_id,
        parent_thread_id: handoff.parent_thread_id,
        summary_sha256: proposal.summary_sha256.clone(),
        title: proposal.summary_json.title.clone(),
    };
    let events = vec![NewEvent::from_body(&merged, now)?];
    let mut writes = vec![
        Write::ExpectNoMessage { thread_id },
        Write::UpdateThread { thread_id, patch },
        Write::Append { thread_id, events },
    ];
    writes.extend(pin_writes(handoff, proposal, &ThreadPins::read(store, thread_id).await?, now)?);
    Ok(writes)
}

/// Returns the writes that make the pins of the accepted package pins of the child, which has the pins `own`.
fn pin_writes(
    handoff: &Handoff,
    proposal: &Proposal,
    own: &ThreadPins,
    now: Timestamp,
) -> Result<Vec<Write>, StepFailure> {
    let accepted = &proposal.summary_json.carried.pins;
    match own.hand_over(handoff.handoff_id, accepted, now) {
        Some(change) => Ok(own.change_writes(handoff.child_thread_id, &change, now)?),
        None => Ok(Vec::new()),
    }
}

/// Returns the metadata change of the parent thread.
///
/// A parent that is itself a child waiting for its first turn keeps its own mark, because that mark is what gets its
/// summary injected and cleared. Only `last_handoff` is set then.
async fn parent_patch(store: &dyn Store, handoff: &Handoff) -> Result<ThreadPatch, StepFailure> {
    let parent = store.thread(handoff.parent_thread_id).await?;
    let own_mark = parent.and_then(|parent| parent.handoff_mark());
    let is_cleanup_due = own_mark
        .is_some_and(|mark| mark.child_thread_id == handoff.parent_thread_id && mark.cleanup_required);
    let last = json!({"handoff_id": handoff.handoff_id, "child_thread_id": handoff.child_thread_id});
    let mut metadata = Map::from_iter([(HandoffMark::LAST_KEY.to_owned(), last)]);
    if !is_cleanup_due {
        metadata.insert(HandoffMark::KEY.to_owned(), serde_json::to_value(parent_mark(handoff))?);
    }
    Ok(ThreadPatch { metadata, ..ThreadPatch::default() })
}

impl Acceptance {
    /// Performs part two: writes the managed block, then returns the update that sets the status to `seeded`.
    ///
    /// A file that cannot be written does not undo the acceptance. The child gets its summary from the handoff's row,
    /// and the failure is shown, logged, and stored in the event and the row.
    async fn seed_child(
        &self,
        handoff: &Handoff,
        proposal: &Proposal,
        frames: &FrameSender,
    ) -> Result<GraphUpdate, StepFailure> {
        let file = (self.agent_md)(&handoff.assistant_id);
        let path = file.path().to_owned();
        let written = match self.is_newest_pending(handoff).await? {
            true => write_block(file, proposal.package_md.clone()).await.map(Some),
            false => Ok(None),
        };
        // Another process may have deleted the child before the block was written, by this call or by one that was interrupted.
        // It found no block to clear.
        let withdrawn = match self.is_pending(handoff).await? {
            true => Ok(None),
            false => self.withdraw_block(handoff).await,
        };
        match withdrawn {
            Ok(backup) => backup.iter().for_each(|backup| frames.send(replaced_edit_notice(backup))),
            Err(problem) => HandoffLogLine::NotReset(&problem).log(handoff, Some(proposal)),
        }
        if let Ok(Some(BlockWrite { repair: Some(repair), .. })) = &written {
            let backup = repair.backup.display();
            let text = format!(
                "The markers of the block in agent.md were repaired. The file before the repair is {backup}."
            );
            frames.send(Frame::Notice { text });
        }
        if let Ok(Some(BlockWrite { edit_backup: Some(backup), .. })) = &written {
            frames.send(replaced_edit_notice(backup));
        }
        if let Err(problem) = &written {
            HandoffLogLine::NotSeeded(problem).log(handoff, Some(proposal));
            frames.send(Frame::Notice {
                text: format!(
                    "Failed to {problem}. The new thread still gets its summary. Run `segue doctor` for details."
                ),
            });
        }
        let now = Timestamp::now();
        let note = written.err();
        let seeded = HandoffSeeded { handoff_id: handoff.handoff_id, file: path, error: note.clone() };
        let events = vec![NewEvent::from_body(&seeded, now)?];
        let patch = HandoffPatch { note, ..HandoffPatch::default() };
        let writes = vec![transition_write(handoff, HandoffAction::Seed, patch, now)?];
        HandoffLogLine::Succeeded.log(handoff, Some(proposal));
        Ok(GraphUpdate { events, writes, ..GraphUpdate::default() })
    }

    /// Removes the summary of `handoff` from the managed block in `agent.md`. The block then holds the newest other
    /// pending summary of the assistant, or the placeholder. A block that holds another text is not changed.
    ///
    /// Returns the backup of the file if a person or another program had edited the text in the block.
    ///
    /// # Errors
    ///
    /// One line that says what could not be read or written.
    pub fn withdraw_block<'a>(
        &'a self,
        handoff: &'a Handoff,
    ) -> BoxFuture<'a, Result<Option<PathBuf>, String>> {
        journal::box_future(async move {
            let failed = |error: journal::Error| error.to_string();
            let own = self.sent_proposals(handoff).await.map_err(failed)?;
            let other = match self.newest_other_pending(handoff).await.map_err(failed)? {
                Some(other) => {
                    let sent = self.sent_proposals(&other).await.map_err(failed)?.pop();
                    sent.map(|proposal| (other, proposal))
                }
                None => None,
            };
            let other_handoff = other.as_ref().map(|(handoff, _)| handoff.clone());
            let other = other.map(|(_, proposal)| proposal);
            let file = (self.agent_md)(&handoff.assistant_id);
            let now = Timestamp::now();
            let withdrawn = run_blocking(move || {
                // After an update the block usually holds the newest text. A process that exited in between left an older one.
                for own in own.iter().rev() {
                    let written = match &other {
                        Some(other) => {
                            file.compare_and_swap_block(&own.package_md, &other.package_md, now)?
                        }
                        None => file.clear_block(&own.package_md, now)?,
                    };
                    if written.outcome != BlockWriteOutcome::Skipped {
                        return Ok(written.edit_backup);
                    }
                }
                Ok(None)
            })
            .await?;
            // The other child may have been deleted, or have had its first turn, before the block got its summary.
            if let Some(other) = other_handoff
                && !self.is_pending(&other).await.map_err(failed)?
            {
                self.withdraw_block(&other).await?;
            }
            Ok(withdrawn)
        })
    }

    /// Returns the proposals that the child of `handoff` was or is sent, the newest last: the accepted one and its updates. The
    /// list is empty when the handoff is not accepted.
    async fn sent_proposals(&self, handoff: &Handoff) -> journal::Result<Vec<Proposal>> {
        let Some(sha256) = &handoff.accepted_sha256 else { return Ok(Vec::new()) };
        let mut proposals = self.store.proposals(handoff.handoff_id).await?;
        let accepted = proposals.iter().position(|proposal| proposal.summary_sha256 == *sha256);
        Ok(accepted.map(|first| proposals.split_off(first)).unwrap_or_default())
    }

    /// Returns the accepted proposal of `handoff`; `None` when it is not accepted.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn accepted_proposal<'a>(
        &'a self,
        handoff: &'a Handoff,
    ) -> BoxFuture<'a, journal::Result<Option<Proposal>>> {
        journal::box_future(async move {
            let Some(sha256) = &handoff.accepted_sha256 else { return Ok(None) };
            let proposals = self.store.proposals(handoff.handoff_id).await?;
            Ok(proposals.into_iter().find(|proposal| proposal.summary_sha256 == *sha256))
        })
    }

    /// Returns the newest handoff of the same assistant, other than `handoff`, whose child waits for its first turn.
    async fn newest_other_pending(&self, handoff: &Handoff) -> journal::Result<Option<Handoff>> {
        // The result is nearly always among the newest few handoffs; all of them are read only when it is not.
        for limit in [Some(NEWEST_HANDOFFS_FIRST), None] {
            let filter = HandoffFilter {
                assistant_id: Some(handoff.assistant_id.clone()),
                statuses: vec![HandoffStatus::Seeded],
                limit,
                ..HandoffFilter::default()
            };
            for candidate in self.store.handoffs(filter).await? {
                if candidate.handoff_id != handoff.handoff_id && self.is_pending(&candidate).await? {
                    return Ok(Some(candidate));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether the block has to hold the summary of this handoff: its child waits for its first turn, and no
    /// pending handoff of the assistant was requested later.
    ///
    /// This is true right after an acceptance, but it may be false when an acceptance is completed after a crash.
    async fn is_newest_pending(&self, handoff: &Handoff) -> journal::Result<bool> {
        let newer =
            self.newest_other_pending(handoff).await?.filter(|other| other.created_at > handoff.created_at);
        Ok(newer.is_none() && self.is_pending(handoff).await?)
    }

    /// Returns whether the child of `handoff` exists and waits for its first turn.
    async fn is_pending(&self, handoff: &Handoff) -> journal::Result<bool> {
        let child = self.store.thread(handoff.child_thread_id).await?;
        let mark = child.and_then(|child| child.handoff_mark());
        Ok(mark.is_some_and(|mark| mark.handoff_id == handoff.handoff_id && mark.pending))
    }

    /// Returns the stored proposal of that iteration.
    async fn read_proposal(&self, handoff_id: HandoffId, iteration: u64) -> Result<Proposal, StepFailure> {
        let proposals = self.store.proposals(handoff_id).await?;
        let proposal = proposals.into_iter().find(|proposal| u64::from(proposal.iteration) == iteration);
        proposal.ok_or_else(|| {
            StepFailure::new(
                FailureKind::Internal,
                format!("find proposal {iteration} of handoff {handoff_id}"),
            )
        })
    }
}

/// Returns the notice about a text in the block that a person wrote and that a write replaced.
pub(crate) fn replaced_edit_notice(backup: &Path) -> Frame {
    let backup = backup.display();
    let text = format!(
        "The block in agent.md had been edited; it belongs to handoffs and was replaced. The file with the edit is {backup}."
    );
    Frame::Notice { text }
}

/// Returns the `handoff_id` in the arguments of an activity.
///
/// # Errors
///
/// When it is missing or is not a handoff's id.
pub(crate) fn parse_handoff_id(args: &Value) -> Result<HandoffId, StepFailure> {
    let text = args.get("handoff_id").and_then(Value::as_str).unwrap_or_default();
    text.parse()
        .map_err(|error| StepFailure::new(FailureKind::Internal, format!("read an activity: {error}")))
}

/// Writes `summary` into the managed block, on a thread for blocking work.
async fn write_block(file: Arc<AgentFile>, summary: String) -> Result<BlockWrite, String> {
    run_blocking(move || file.write_block(&summary, Timestamp::now())).await
}

/// Runs `work` on Tokio's pool for blocking work and returns its error as one line. Once started, the work runs to its
/// end, even if the future is dropped.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, memory::Error> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("write the summary block: the writing thread panicked".to_owned()),
    }
}

/// Returns the child thread: blank, named after the summary's title, and marked as waiting for its first turn.
fn child_thread(handoff: &Handoff, proposal: &Proposal, now: Timestamp) -> Result<Thread, serde_json::Error> {
    let mark = serde_json::to_value(pending_mark(handoff))?;
    let metadata = Map::from_iter([(HandoffMark::KEY.to_owned(), mark)]);
    Ok(Thread {
        thread_id: handoff.child_thread_id,
        assistant_id: handoff.assistant_id.clone(),
        parent_id: Some(handoff.parent_thread_id),
        parent_kind: Some(ParentKind::Handoff),
        name: Some(proposal.summary_json.title.clone()),
        status: ThreadStatus::Idle,
        metadata,
        first_prompt: None,
        message_count: 0,
        last_seq: 0,
        created_at: now,
        updated_at: now,
        project: None,
    }
    .with_assistant_metadata())
}

/// Returns the handoff mark of a child that waits for its first turn.
fn pending_mark(handoff: &Handoff) -> HandoffMark {
    HandoffMark { pending: true, cleanup_required: true, ..parent_mark(handoff) }
}

/// Returns the handoff mark of the parent thread, for which nothing is pending.
fn parent_mark(handoff: &Handoff) -> HandoffMark {
    HandoffMark {
        handoff_id: handoff.handoff_id,
        source_thread_id: handoff.parent_thread_id,
        child_thread_id: handoff.child_thread_id,
        pending: false,
        cleanup_required: false,
        created_at: handoff.created_at,
        last_cleanup_at: None,
    }
}

/// Returns the writes that expire a pending handoff because its thread was rewound to a point before the request, so
/// that nobody can decide about it any more.
pub fn rewind_writes(handoff: &Handoff, at: Timestamp) -> Vec<Write> {
    expire_write(handoff, "the thread was rewound to a point before it", at).into_iter().collect()
}

/// Returns the writes that expire a handoff nobody decided about. `channels` is the state of the parent thread; a tool
/// call that waits there gets its result.
///
/// # Errors
///
/// When an event cannot be serialized.
pub fn expiry_writes(
    handoff: &Handoff,
    channels: &Channels,
    at: Timestamp,
) -> Result<Vec<Write>, serde_json::Error> {
    let mut events = vec![NewEvent::from_body(&HandoffExpired { handoff_id: handoff.handoff_id }, at)?];
    events.extend(tool::expired_call_result(channels, at)?);
    let append = Write::Append { thread_id: handoff.parent_thread_id, events };
    Ok(expire_write(handoff, UNDECIDED_NOTE, at).into_iter().chain([append]).collect())
}

/// The note of a handoff that expired because nobody decided about it in time.
pub const UNDECIDED_NOTE: &str = "nobody decided";

/// Returns the write that expires `handoff`; `None` when its status does not allow that.
fn expire_write(handoff: &Handoff, reason: &str, at: Timestamp) -> Option<Write> {
    let patch = HandoffPatch { note: Some(reason.to_owned()), ..HandoffPatch::default() };
    transition_write(handoff, HandoffAction::Expire, patch, at).ok()
}

/// Returns the writes that complete an accepted handoff whose child thread is being deleted: its status becomes
/// `cleaned` by way of `seeded`. They belong in the transaction of the deletion. The list is empty for any other
/// status.
pub fn child_deletion_writes(handoff: &Handoff, at: Timestamp) -> Vec<Write> {
    let patch = HandoffPatch { note: Some("the child was deleted".to_owned()), ..HandoffPatch::default() };
    let mut handoff = handoff.clone();
    let mut writes = Vec::new();
    for step in [HandoffAction::Seed, HandoffAction::Clean] {
        if let Ok(write) = transition_write(&handoff, step, patch.clone(), at) {
            handoff.status =
                if step == HandoffAction::Seed { HandoffStatus::Seeded } else { HandoffStatus::Cleaned };
            writes.push(write);
        }
    }
    writes
}

#[cfg(test)]
mod tests;
