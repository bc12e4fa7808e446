//! Application of a transaction to the tables: its writes, in order. The engine begins and commits the surrounding
//! database transaction.

use protocol::event::body::ThreadRewound;
use protocol::event::metadata::EventMetadata;
use protocol::{Category, Checkpoint, CheckpointId, CheckpointSource, EventType, NewEvent, ThreadId};

use crate::engines::sql::SqlConnection;
use crate::tables::checkpoints::{CheckpointContext, RewindTarget};
use crate::tables::events::{self, AppendReceipt, pins, rewinds, transcript_copy};
use crate::tables::keyed_rows::{self, api_keys};
use crate::tables::memory::{facts, items, revisions, summaries, summary_removal};
use crate::tables::runs::{self, claims, feedback, requests};
use crate::tables::threads::RowQueue;
use crate::tables::{artifacts, checkpoints, handoffs, interrupts, replicas, search, threads};
use crate::{CommitReceipt, FencingToken, Result, RunClaim, Transaction, Write};

/// Applies the writes of one transaction in order, after checking its fencing token. Run requests are applied last,
/// because they refer to the rows of their runs.
pub(crate) fn apply_transaction(db: &SqlConnection, transaction: &Transaction) -> Result<CommitReceipt> {
    if let Some(fence) = &transaction.fence {
        runs::check_fence(db, fence)?;
    }
    let mut receipt = CommitReceipt::default();
    for write in &transaction.writes {
        match write {
            // The checkpoint is placed behind what the transaction has appended so far, because several steps may
            // become durable together.
            Write::PutCheckpoint(checkpoint) => {
                checkpoints::put_checkpoint(
                    db,
                    checkpoint,
                    checkpoint_context(checkpoint, transaction, &receipt),
                )?;
            }
            write => apply_write(db, write, &mut receipt)?,
        }
        // A queued change of a thread is in its cached head already.
        let is_cached = matches!(write, Write::UpdateThread { .. }) && RowQueue::of(db).is_some();
        if let Some(heads) = db.heads().filter(|_| write.effects().changes_heads && !is_cached) {
            heads.clear();
        }
    }
    for write in &transaction.writes {
        if let Write::PutRunRequest { run_id, thread_id, request } = write {
            requests::put(db, *run_id, *thread_id, request)?;
        }
    }
    Ok(receipt)
}

/// Returns the context of a checkpoint: the relevant events that the same transaction appended before it.
///
/// The input of an admitted run is its first message that is not a tool result. Tool results can precede it, because
/// the calls of an abandoned turn get theirs first.
fn checkpoint_context(
    checkpoint: &Checkpoint,
    transaction: &Transaction,
    receipt: &CommitReceipt,
) -> CheckpointContext {
    let mut context = CheckpointContext::default();
    if checkpoint.source == CheckpointSource::Loop && checkpoint.step > 0 {
        return context;
    }
    let mut seqs = receipt.seqs.iter();
    for write in &transaction.writes {
        let Write::Append { thread_id, events } = write else { continue };
        let Some(seqs) = seqs.next().filter(|_| *thread_id == checkpoint.thread_id) else { continue };
        for (event, seq) in events.iter().zip(seqs) {
            let is_input = event.event_type.category() == Category::Message
                && event.event_type != EventType::ToolMessage
                && event.run_id == Some(checkpoint.run_id)
                && EventMetadata::parse(event.metadata.as_ref()).again.is_none();
            if checkpoint.source == CheckpointSource::Loop && is_input && context.input_seq.is_none() {
                context.input_seq = Some(*seq);
            }
            if event.event_type == EventType::ThreadRewound {
                context.rewind = Some(RewindTarget { checkpoint_id: rewind_target(event) });
            }
        }
    }
    context
}

/// Returns the checkpoint that a `thread_rewound` event names as its target.
fn rewind_target(event: &NewEvent) -> Option<CheckpointId> {
    event.body::<ThreadRewound>()?.checkpoint_id
}

/// Applies one write. Checkpoints and run requests are applied by [`apply_transaction`].
fn apply_write(db: &SqlConnection, write: &Write, receipt: &mut CommitReceipt) -> Result<()> {
    match write {
        Write::CreateThread(thread) => threads::create_thread(db, thread),
        Write::UpdateThread { thread_id, patch } => threads::update_thread(db, *thread_id, patch),
        Write::SettleThread { thread_id } => threads::settle_status(db, *thread_id),
        Write::DeleteThread { thread_id } => threads::delete_thread(db, *thread_id, &mut receipt.deletions),
        Write::Append { thread_id, events } => append_events(db, *thread_id, events, receipt),
        Write::Rewind { thread_id, keep_seq, at } => rewinds::rewind(db, *thread_id, *keep_seq, *at),
        Write::CopyEvents { from, until, into } => transcript_copy::copy_transcript(db, *from, *into, *until),
        Write::PutArtifact(artifact) => artifacts::put(db, artifact),
        Write::QueueRun(run) => runs::queue_run(db, run),
        Write::AdmitRun(run) => runs::admit_run(db, run),
        Write::BeginRun(run) => runs::begin_run(db, run),
        Write::DeleteRun { run_id } => runs::delete_run(db, *run_id),
        Write::UpdateRun { run_id, patch } => runs::update_run(db, *run_id, patch),
        Write::RecordHeartbeat { replica, now } => replicas::record_heartbeat(db, replica, *now),
        Write::ResolveFolder { folder, project } => threads::projects::resolve_folder(db, folder, project),
        Write::ReleaseRuns { owner } => claims::release_runs(db, owner),
        Write::ReclaimRun { run_id, owner, now, lease_until } => {
            runs::reclaim_run(db, &FencingToken { run_id: *run_id, owner: owner.clone() }, *now, *lease_until)
        }
        Write::ClaimRuns(claim) => claim_runs(db, claim, receipt),
        Write::ExpectCheckpoint { thread_id, checkpoint_id } => {
            checkpoints::expect_checkpoint(db, *thread_id, *checkpoint_id)
        }
        Write::ExpectNoMessage { thread_id } => threads::expect_no_message(db, *thread_id),
        Write::ExpectPins { thread_id, last_change } => pins::expect_pins(db, *thread_id, *last_change),
        Write::ExpectUnchangedContext(version) => summaries::expect_unchanged_context(db, *version),
        Write::RestoreCheckpoint { thread_id, run_id } => {
            checkpoints::restore_checkpoint(db, *thread_id, *run_id)
        }
        Write::RaiseInterrupt(interrupt) => interrupts::raise(db, interrupt),
        Write::PutCheckpoint(_) | Write::PutRunRequest { .. } => Ok(()),
        Write::ResolveInterrupt { interrupt_id, decisions, at } => {
            interrupts::resolve(db, *interrupt_id, decisions.as_ref(), *at)
        }
        Write::ExpectPendingInterrupt { interrupt_id } => interrupts::expect_pending(db, *interrupt_id),
        Write::CreateHandoff(handoff) => handoffs::create(db, handoff),
        Write::TransitionHandoff { handoff_id, from, to, patch, at } => handoffs::transition(
            db,
            &handoffs::HandoffTransition { handoff_id: *handoff_id, from: *from, to: *to, patch, at: *at },
        ),
        Write::DeleteHandoff { handoff_id } => handoffs::delete_without_proposal(db, *handoff_id),
        Write::PutProposal(proposal) => handoffs::put_proposal(db, proposal),
        Write::PutFeedback(run_feedback) => feedback::put(db, run_feedback),
        Write::RemoveFeedback { thread_id, run_id, user_id } => {
            feedback::remove(db, *thread_id, *run_id, user_id)
        }
        Write::SummarizeTurns(summarization) => summaries::summarize_turns(db, summarization),
        Write::RestoreTurns { summary_ids, scope } => {
            summary_removal::restore_turns(db, summary_ids, scope.as_ref())
        }
        Write::PutEmbeddings(embeddings) => search::embeddings::store_embeddings(db, embeddings),
        Write::ProposeFact(fact) => facts::propose(db, fact),
        Write::DecideFact(decision) => facts::decide(db, decision),
        Write::RecordNotesRevision(revision) => revisions::record(db, revision),
        Write::PutItem(item) => items::put(db, item),
        Write::DeleteItem { namespace, key } => items::delete(db, namespace, key),
        Write::PutApiKey(key) => api_keys::put(db, key),
        Write::RevokeApiKey { key_id, at } => api_keys::revoke(db, key_id, *at),
        Write::PutOutboxItem(item) => keyed_rows::put_outbox_item(db, item),
        Write::UpdateOutboxItem { expected, payload, attempts } => {
            keyed_rows::update_outbox_item(db, expected, payload, *attempts)
        }
        Write::RemoveOutboxItem { kind, key, created_at } => {
            keyed_rows::remove_outbox_item(db, kind, key, *created_at)
        }
        Write::PutImport { source, expected } => keyed_rows::put_import(db, source, *expected),
    }
}

/// Claims runs and adds them to the receipt of the transaction.
fn claim_runs(db: &SqlConnection, claim: &RunClaim, receipt: &mut CommitReceipt) -> Result<()> {
    receipt.claimed_runs.extend(claims::claim_runs(db, claim)?);
    Ok(())
}

/// Appends events and adds the result to the receipt of the transaction.
fn append_events(
    db: &SqlConnection,
    thread_id: ThreadId,
    events: &[NewEvent],
    receipt: &mut CommitReceipt,
) -> Result<()> {
    let appended: AppendReceipt = events::append(db, thread_id, events)?;
    receipt.seqs.push(appended.seqs);
    receipt.new_seqs.push(appended.new_seqs);
    receipt.stored_events += appended.stored_events;
    Ok(())
}
