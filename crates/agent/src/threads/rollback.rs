//! Rolling a thread back to an earlier point: the effects on pending handoffs and questions, and the writes
//! that restore the state. Callers choose the point and what continues from it.

use jiff::Timestamp;
use journal::Write;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Handoff, HandoffStatus, NewEvent, RunId, Seq, ThreadId,
};
use runtime::RewindRequest;

use crate::Result;
use crate::ThreadService;

/// The side effects of a rollback.
#[derive(Debug, Default)]
pub(crate) struct RollbackEffects {
    /// The number of messages that are hidden.
    pub(crate) superseded_count: u64,
    /// The handoffs that are withdrawn, because they were requested after the point.
    pub(crate) withdrawn_handoffs: Vec<Handoff>,
    /// The writes that withdraw those handoffs, and the questions of sub-agents after the point.
    pub(crate) writes: Vec<Write>,
}

/// Returns whether a rollback withdraws the pending questions of the thread's turn. Questions are raised at
/// the end of a turn, so that hiding any message hides them too.
pub(crate) fn withdraws_questions(rewind: Option<&RewindRequest>) -> bool {
    rewind.is_some_and(|rewind| rewind.superseded > 0)
}

impl ThreadService<'_> {
    /// Returns the side effects of a rollback to `keep_seq`.
    pub(crate) async fn rollback_effects(
        self,
        thread_id: ThreadId,
        keep_seq: Seq,
        now: Timestamp,
    ) -> Result<RollbackEffects> {
        let superseded = self.agent.store.messages_after(thread_id, keep_seq).await?;
        let withdrawn = self.handoffs_requested_after(thread_id, keep_seq).await?;
        let mut writes: Vec<Write> =
            withdrawn.iter().flat_map(|handoff| handoff::rewind_writes(handoff, now)).collect();
        if superseded > 0 {
            writes.extend(
                self.agent
                    .runs()
                    .withdrawal_writes(&self.agent.runs().pending_interrupts(thread_id).await?, now)
                    .await?,
            );
        }
        Ok(RollbackEffects { superseded_count: superseded, withdrawn_handoffs: withdrawn, writes })
    }

    /// Returns the pending handoffs of the thread that were requested after `seq`.
    async fn handoffs_requested_after(self, thread_id: ThreadId, seq: Seq) -> Result<Vec<Handoff>> {
        let filter = journal::HandoffFilter {
            parent_thread_id: Some(thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..journal::HandoffFilter::default()
        };
        let mut requested = Vec::new();
        for handoff in self.agent.store.handoffs(filter).await? {
            let key = handoff::requested_key(handoff.handoff_id);
            if self
                .agent
                .store
                .seq_of_event_key(thread_id, &key)
                .await?
                .is_some_and(|requested_seq| requested_seq > seq)
            {
                requested.push(handoff);
            }
        }
        Ok(requested)
    }
}

/// A planned rollback of a thread on which no run is active.
#[derive(Debug, Default)]
pub(crate) struct RollbackPlan {
    /// The target, and the channels of the state there.
    pub(crate) target: RewindRequest,
    /// Other writes of the same transaction, from [`RollbackEffects`].
    pub(crate) extra_writes: Vec<Write>,
    /// Events that are appended after the rollback.
    pub(crate) following_events: Vec<NewEvent>,
    /// The next node of the state there.
    pub(crate) next_node: Option<String>,
}

impl RollbackPlan {
    /// Returns the writes that undo the latest run, which left the thread at `head`. The checkpoint from
    /// before the run is restored.
    pub(crate) fn restore_writes(
        self,
        thread_id: ThreadId,
        run_id: RunId,
        head: &Checkpoint,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let Self { target, extra_writes, following_events, next_node: _ } = self;
        let (rewind, rewind_event) = target.rewind_write_and_event(thread_id, now)?;
        let checkpoint_id = Some(head.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id }, rewind];
        writes.extend(extra_writes);
        writes.push(Write::Append {
            thread_id,
            events: [rewind_event].into_iter().chain(following_events).collect(),
        });
        writes.push(Write::RestoreCheckpoint { thread_id, run_id });
        Ok(writes)
    }

    /// Returns the writes that roll the thread back from `head` with a new checkpoint of source `Rewind`. A
    /// thread without a checkpoint gets none.
    pub(crate) fn rollback_writes(
        self,
        thread_id: ThreadId,
        head: Option<Checkpoint>,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let Self { target, extra_writes, following_events, next_node } = self;
        let (rewind, rewind_event) = target.rewind_write_and_event(thread_id, now)?;
        let checkpoint_id = head.as_ref().map(|head| head.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id }, rewind];
        writes.extend(extra_writes);
        writes.push(Write::Append {
            thread_id,
            events: [rewind_event].into_iter().chain(following_events).collect(),
        });
        // The new checkpoint keeps pending activities, because they were decided and must still be performed.
        writes.extend(head.map(|head| {
            Write::PutCheckpoint(Checkpoint {
                checkpoint_id: CheckpointId::generate(),
                step: head.step + 1,
                next: next_node,
                channels: target.channels,
                source: CheckpointSource::Rewind,
                created_at: now,
                ..head
            })
        }));
        Ok(writes)
    }
}
