//! Going back: what becomes of what a thread asked and had asked for behind the place it goes back to, and the state it rests
//! in there. Which place that is, and what goes on from it, is not decided here.

use jiff::Timestamp;
use journal::Write;
use protocol::{
    Checkpoint, CheckpointId, CheckpointSource, Handoff, HandoffStatus, NewEvent, RunId, Seq, ThreadId,
};
use runtime::BackTo;

use crate::Result;
use crate::agent::services::ThreadService;

/// What goes with a thread's going back.
#[derive(Debug, Default)]
pub(crate) struct GoneWith {
    /// How many messages get out of sight.
    pub(crate) superseded: u64,
    /// The handoffs that are given up: they were asked for behind the place.
    pub(crate) given_up: Vec<Handoff>,
    /// What gives them up, and takes back what sub-agents asked behind the place.
    pub(crate) writes: Vec<Write>,
}

/// Returns whether the questions of the thread's turn are behind the place it goes back to, and are taken back with what
/// is: they stand at the end, so that they go with the messages before them.
pub(crate) fn takes_questions(back: Option<&BackTo>) -> bool {
    back.is_some_and(|back| back.superseded > 0)
}

impl ThreadService<'_> {
    /// Returns what goes with the thread's going back to `keep_seq`.
    pub(crate) async fn gone_with(
        self,
        thread_id: ThreadId,
        keep_seq: Seq,
        now: Timestamp,
    ) -> Result<GoneWith> {
        let superseded = self.agent.store.messages_after(thread_id, keep_seq).await?;
        let given_up = self.asked_after(thread_id, keep_seq).await?;
        let mut writes: Vec<Write> =
            given_up.iter().flat_map(|handoff| handoff::rewound(handoff, now)).collect();
        if superseded > 0 {
            writes.extend(
                self.agent
                    .runs()
                    .taken_back(&self.agent.runs().pending_interrupts(thread_id).await?, now)
                    .await?,
            );
        }
        Ok(GoneWith { superseded, given_up, writes })
    }

    /// Returns the thread's pending handoff if it was asked about after `seq`.
    async fn asked_after(self, thread_id: ThreadId, seq: Seq) -> Result<Vec<Handoff>> {
        let filter = journal::HandoffFilter {
            parent_thread_id: Some(thread_id),
            statuses: HandoffStatus::ALL.into_iter().filter(|status| status.is_pending()).collect(),
            ..journal::HandoffFilter::default()
        };
        let mut asked = Vec::new();
        for handoff in self.agent.store.handoffs(filter).await? {
            let key = handoff::requested_key(handoff.handoff_id);
            if self.agent.store.seq_of_key(thread_id, &key).await?.is_some_and(|at| at > seq) {
                asked.push(handoff);
            }
        }
        Ok(asked)
    }
}

/// A thread's going back between two runs.
#[derive(Debug, Default)]
pub(crate) struct GoingBack {
    /// Where to, and the state there.
    pub(crate) back: BackTo,
    /// What is written with it.
    pub(crate) beside: Vec<Write>,
    /// What is said behind it.
    pub(crate) said: Vec<NewEvent>,
    /// The node that is next there.
    pub(crate) next: Option<String>,
}

impl GoingBack {
    /// Returns what is written where the run that began last is taken back, which left the thread at `head`: it stands where
    /// it stood.
    pub(crate) fn restoring(
        self,
        thread_id: ThreadId,
        run_id: RunId,
        head: &Checkpoint,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let Self { back, beside, said, next: _ } = self;
        let (rewind, told) = back.told(thread_id, now)?;
        let checkpoint_id = Some(head.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id }, rewind];
        writes.extend(beside);
        writes.push(Write::Append { thread_id, events: [told].into_iter().chain(said).collect() });
        writes.push(Write::RestoreCheckpoint { thread_id, run_id });
        Ok(writes)
    }

    /// Returns what is written where the thread stands at `head`. One without a state gets none.
    pub(crate) fn writes(
        self,
        thread_id: ThreadId,
        head: Option<Checkpoint>,
        now: Timestamp,
    ) -> Result<Vec<Write>> {
        let Self { back, beside, said, next } = self;
        let (rewind, told) = back.told(thread_id, now)?;
        let checkpoint_id = head.as_ref().map(|head| head.checkpoint_id);
        let mut writes = vec![Write::ExpectCheckpoint { thread_id, checkpoint_id }, rewind];
        writes.extend(beside);
        writes.push(Write::Append { thread_id, events: [told].into_iter().chain(said).collect() });
        // What is decided and not yet done stays to be done.
        writes.extend(head.map(|head| {
            Write::PutCheckpoint(Checkpoint {
                checkpoint_id: CheckpointId::generate(),
                step: head.step + 1,
                next,
                channels: back.channels,
                source: CheckpointSource::Rewind,
                created_at: now,
                ..head
            })
        }));
        Ok(writes)
    }
}
