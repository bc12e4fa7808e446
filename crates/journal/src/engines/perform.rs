//! Performing a transaction: each of its writes is done to the tables, in order. When it begins and that it is committed is
//! the engine's matter.

use protocol::event::body::ThreadRewound;
use protocol::event::metadata::EventMetadata;
use protocol::{Category, Checkpoint, CheckpointId, CheckpointSource, EventType, NewEvent};

use crate::engines::sql::Connection;
use crate::tables::checkpoints::{Beside, WentBack};
use crate::tables::events::{self, Appended, copies, rewinds};
use crate::tables::keyed::{self, keys};
use crate::tables::memory::{dissolving, items, summaries};
use crate::tables::runs::{self, claims, feedback, requests};
use crate::tables::{artifacts, checkpoints, handoffs, interrupts, replicas, threads};
use crate::{Committed, Fence, Result, Transaction, Write};

/// Performs one transaction's writes in order. What runs were asked for comes last, because it needs their rows.
pub(crate) fn perform(connection: &Connection, transaction: &Transaction) -> Result<Committed> {
    if let Some(fence) = &transaction.fence {
        runs::check_fence(connection, fence)?;
    }
    let mut committed = Committed::default();
    for write in &transaction.writes {
        match write {
            // It is the point behind what was appended so far: several steps may become durable together.
            Write::PutCheckpoint(point) => {
                checkpoints::put(connection, point, beside(point, transaction, &committed))?;
            }
            write => apply(connection, write, &mut committed)?,
        }
        if let Some(heads) = connection.heads().filter(|_| write.effects().changes_heads) {
            heads.forget();
        }
    }
    for write in &transaction.writes {
        if let Write::PutRunRequest { run_id, thread_id, request } = write {
            requests::put(connection, *run_id, *thread_id, request)?;
        }
    }
    Ok(committed)
}

/// Returns what the appends before a checkpoint say about it. What came in with an admission is the first message of the run
/// that is no result of a tool: the calls of a turn that was given up have theirs before it.
fn beside(point: &Checkpoint, transaction: &Transaction, committed: &Committed) -> Beside {
    let mut beside = Beside::default();
    if point.source == CheckpointSource::Loop && point.step > 0 {
        return beside;
    }
    let mut seqs = committed.seqs.iter();
    for write in &transaction.writes {
        let Write::Append { thread_id, events } = write else { continue };
        let Some(seqs) = seqs.next().filter(|_| *thread_id == point.thread_id) else { continue };
        for (event, seq) in events.iter().zip(seqs) {
            let is_input = event.event_type.category() == Category::Message
                && event.event_type != EventType::ToolMessage
                && event.run_id == Some(point.run_id)
                && EventMetadata::read(event.metadata.as_ref()).again.is_none();
            if point.source == CheckpointSource::Loop && is_input && beside.input_seq.is_none() {
                beside.input_seq = Some(*seq);
            }
            if event.event_type == EventType::ThreadRewound {
                beside.went_back = Some(WentBack { to: back_to(event) });
            }
        }
    }
    beside
}

fn back_to(event: &NewEvent) -> Option<CheckpointId> {
    event.body::<ThreadRewound>()?.checkpoint_id
}

fn apply(connection: &Connection, write: &Write, committed: &mut Committed) -> Result<()> {
    match write {
        Write::CreateThread(thread) => threads::create(connection, thread),
        Write::UpdateThread { thread_id, patch } => threads::update(connection, *thread_id, patch),
        Write::SettleThread { thread_id } => threads::settle(connection, *thread_id),
        Write::DeleteThread { thread_id } => threads::delete(connection, *thread_id),
        Write::Append { thread_id, events } => {
            note_appended(committed, events::append(connection, *thread_id, events)?);
            Ok(())
        }
        Write::Rewind { thread_id, keep_seq, at } => rewinds::rewind(connection, *thread_id, *keep_seq, *at),
        Write::CopyEvents { from, until, into } => copies::copy(connection, *from, *into, *until),
        Write::PutArtifact(artifact) => artifacts::put(connection, artifact),
        Write::QueueRun(run) => runs::queue(connection, run),
        Write::AdmitRun(run) => runs::admit(connection, run),
        Write::BeginRun(run) => runs::begin(connection, run),
        Write::ForgetRun { run_id } => runs::forget(connection, *run_id),
        Write::UpdateRun { run_id, patch } => runs::update(connection, *run_id, patch),
        Write::Announce { replica, now } => replicas::announce(connection, replica, *now),
        Write::ReleaseRuns { owner } => claims::release(connection, owner),
        Write::ReclaimRun { run_id, owner, now, lease_until } => {
            let fence = Fence { run_id: *run_id, owner: owner.clone() };
            runs::reclaim(connection, &fence, *now, *lease_until)
        }
        Write::ClaimRuns(claim) => {
            committed.claimed.extend(claims::claim(connection, claim)?);
            Ok(())
        }
        Write::ExpectCheckpoint { thread_id, checkpoint_id } => {
            checkpoints::expect(connection, *thread_id, *checkpoint_id)
        }
        Write::ExpectContext(planned) => summaries::expect(connection, *planned),
        Write::RestoreCheckpoint { thread_id, run_id } => {
            checkpoints::restore(connection, *thread_id, *run_id)
        }
        Write::RaiseInterrupt(interrupt) => interrupts::raise(connection, interrupt),
        Write::PutCheckpoint(_) | Write::PutRunRequest { .. } => Ok(()),
        Write::ResolveInterrupt { interrupt_id, decisions, at } => {
            interrupts::resolve(connection, *interrupt_id, decisions.as_ref(), *at)
        }
        Write::ExpectPending { interrupt_id } => interrupts::expect(connection, *interrupt_id),
        Write::CreateHandoff(handoff) => handoffs::create(connection, handoff),
        Write::MoveHandoff { handoff_id, from, to, patch, at } => handoffs::advance(
            connection,
            &handoffs::Move { handoff_id: *handoff_id, from: *from, to: *to, patch, at: *at },
        ),
        Write::ForgetHandoff { handoff_id } => handoffs::forget(connection, *handoff_id),
        Write::PutProposal(proposal) => handoffs::put_proposal(connection, proposal),
        Write::PutFeedback(given) => feedback::put(connection, given),
        Write::RemoveFeedback { thread_id, run_id, user_id } => {
            feedback::remove(connection, *thread_id, *run_id, user_id)
        }
        Write::TransferTurns(transfer) => summaries::transfer(connection, transfer),
        Write::RestoreTurns { summary_ids, scope } => {
            dissolving::restore(connection, summary_ids, scope.as_ref())
        }
        Write::PutItem(item) => items::put(connection, item),
        Write::DeleteItem { namespace, key } => items::delete(connection, namespace, key),
        Write::PutKey(key) => keys::put(connection, key),
        Write::RevokeKey { key_id, at } => keys::revoke(connection, key_id, *at),
        Write::Enqueue(item) => keyed::enqueue(connection, item),
        Write::ChangeQueued { was, payload, attempts } => keyed::change(connection, was, payload, *attempts),
        Write::Dequeue { kind, key, created_at } => keyed::dequeue(connection, kind, key, *created_at),
        Write::PutImport { source, expected } => keyed::put_import(connection, source, *expected),
    }
}

fn note_appended(committed: &mut Committed, appended: Appended) {
    committed.seqs.push(appended.seqs);
    committed.new.push(appended.new);
    committed.stored += appended.stored;
}
