//! Points of a thread's past that clients can name: finding them by id, and finding the predecessor of each.
//! The module `states` builds their snapshots.

use jiff::Timestamp;
use journal::view::branches::{BranchHistory, PreviousPoint};
use journal::{CheckpointRef, SupersededVisibility};
use protocol::{CheckpointEntry, CheckpointId, CheckpointSource, RunId, Seq, ThreadId};
use runtime::Channels;
use uuid::{Builder, Uuid};

use super::message::StateMessage;
use super::transcript_cache::ThreadTranscript;
use crate::ThreadService;
use crate::{Error, Result, ThreadError};

/// The number of the state before anything ran in a thread. The first input has the number -1.
const BASE_NUMBER: i64 = -2;

/// The most checkpoints that are examined to find a predecessor. Each further one lies behind another rewind.
const POINTS_SCANNED_MAX: usize = 10_000;

/// A point of a thread's past.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HistoryPoint {
    /// The checkpoint after a step, an admission or a change.
    Stored(CheckpointEntry),
    /// The point before the input of an admission. It is not stored: its id is the one before the admission's
    /// id, and its messages end before the input.
    Input(CheckpointEntry),
    /// The state of an imported or copied thread before anything ran in it.
    Base {
        /// Its id, which encodes its last seq.
        checkpoint_id: CheckpointId,
        /// The seq of the last message.
        seq: Seq,
        /// The time of the last message.
        created_at: Timestamp,
    },
}

impl HistoryPoint {
    /// Returns the base point of a thread whose last message before anything ran in it is `last`.
    pub(super) fn base(thread_id: ThreadId, last: &StateMessage) -> Self {
        Self::Base { checkpoint_id: base_id(thread_id, last), seq: last.seq, created_at: last.created_at }
    }

    /// Returns the id of the point.
    pub(crate) fn id(&self) -> CheckpointId {
        match self {
            Self::Stored(point) => point.checkpoint_id,
            Self::Input(admission) => input_id(admission.checkpoint_id),
            Self::Base { checkpoint_id, .. } => *checkpoint_id,
        }
    }

    /// Returns the seq of the last event that is part of the point.
    pub(crate) fn head_seq(&self) -> Seq {
        match self {
            Self::Stored(point) => point.head_seq,
            Self::Input(admission) => admission.input_seq.unwrap_or(admission.head_seq).saturating_sub(1),
            Self::Base { seq, .. } => *seq,
        }
    }

    /// Returns its number along its branch.
    pub(super) const fn number(&self) -> i64 {
        match self {
            Self::Stored(point) => point.number,
            Self::Input(admission) => admission.number - 1,
            Self::Base { .. } => BASE_NUMBER,
        }
    }

    /// Returns the node that is next there; `None` if the thread is idle there, or if an input follows.
    pub(crate) fn next_node(&self) -> Option<&str> {
        match self {
            Self::Stored(point) => point.next.as_deref(),
            Self::Input(_) | Self::Base { .. } => None,
        }
    }

    /// Returns the run that wrote it; `None` if no run did.
    pub(super) fn run_id(&self) -> Option<RunId> {
        match self {
            Self::Stored(point) | Self::Input(point) => {
                Some(point.run_id).filter(|id| *id != placeholder_run_id())
            }
            Self::Base { .. } => None,
        }
    }

    /// Returns the time of its creation.
    pub(super) const fn created_at(&self) -> Timestamp {
        match self {
            Self::Stored(point) | Self::Input(point) => point.created_at,
            Self::Base { created_at, .. } => *created_at,
        }
    }
}

/// Returns the run id of checkpoints that a client wrote in a thread in which no run ever started. It is the
/// nil UUID.
pub(super) const fn placeholder_run_id() -> RunId {
    RunId::from_uuid(Uuid::nil())
}

/// Returns whether the checkpoint is that of an admission with input, so that there is a point before the
/// input.
pub(super) const fn has_input(point: &CheckpointEntry) -> bool {
    point.step == 0 && point.input_seq.is_some()
}

/// Returns the id of the point before the input of an admission.
fn input_id(admission: CheckpointId) -> CheckpointId {
    CheckpointId::from_uuid(Uuid::from_u128(admission.uuid().as_u128().wrapping_sub(1)))
}

/// Returns the id of the admission whose input the point would precede, if it is such a point.
fn admission_id(input: CheckpointId) -> CheckpointId {
    CheckpointId::from_uuid(Uuid::from_u128(input.uuid().as_u128().wrapping_add(1)))
}

/// Returns the id of a base point. It sorts by the time of the last message and ends with its seq.
fn base_id(thread_id: ThreadId, last: &StateMessage) -> CheckpointId {
    let mut tail = [0; 10];
    tail[..6].copy_from_slice(&thread_id.uuid().as_bytes()[10..]);
    tail[6..].copy_from_slice(&u32::try_from(last.seq).unwrap_or(u32::MAX).to_be_bytes());
    let millis = u64::try_from(last.created_at.as_millisecond()).unwrap_or(0);
    CheckpointId::from_uuid(Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
}

/// Returns the seq in the id of a base point.
fn seq_of_base(id: CheckpointId) -> Seq {
    // The cast truncates on purpose: the seq is in the lower 32 bits.
    Seq::from(id.uuid().as_u128() as u32)
}

/// Returns the base point before the thread's oldest checkpoint; `None` if there are no messages before it.
pub(super) fn base_point_before(
    thread_id: ThreadId,
    oldest: &CheckpointEntry,
    transcript: &ThreadTranscript,
) -> Option<HistoryPoint> {
    let until = if has_input(oldest) {
        HistoryPoint::Input(oldest.clone()).head_seq()
    } else {
        match oldest.source {
            // The rewind that precedes a client's change names the events before the change.
            CheckpointSource::Update => transcript.branches.newest_rewind(0, oldest.head_seq)?.keep_seq,
            CheckpointSource::Loop | CheckpointSource::Rewind => oldest.head_seq,
        }
    };
    let messages = transcript.visible_at(until);
    messages.iter().rev().find(|last| !last.is_projected).map(|last| HistoryPoint::base(thread_id, last))
}

impl ThreadService<'_> {
    /// Returns the point with that id, on whatever branch it is.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] if there is none; otherwise fails only if the journal does.
    pub(crate) async fn point(self, thread_id: ThreadId, id: CheckpointId) -> Result<HistoryPoint> {
        let unknown = || Error::from(ThreadError::UnknownCheckpoint { thread_id, given: id });
        if let Some(point) = self.stored_point(thread_id, CheckpointRef::Id(id)).await? {
            return Ok(HistoryPoint::Stored(point));
        }
        let admission = self.stored_point(thread_id, CheckpointRef::Id(admission_id(id))).await?;
        if let Some(admission) = admission.filter(has_input) {
            return Ok(HistoryPoint::Input(admission));
        }
        let seq = seq_of_base(id);
        let last = self
            .agent
            .transcripts
            .with_transcript(&*self.agent.store, thread_id, |all| all.message_at(seq).cloned())
            .await?;
        let Some(last) = last.filter(|last| base_id(thread_id, last) == id) else { return Err(unknown()) };
        match self.stored_point(thread_id, CheckpointRef::Seq(seq)).await? {
            Some(_) => Err(unknown()),
            None => Ok(HistoryPoint::base(thread_id, &last)),
        }
    }

    /// Returns the point at which `seq` was the last event of the thread; `None` if the thread was empty
    /// there.
    pub(crate) async fn point_until(self, thread_id: ThreadId, seq: Seq) -> Result<Option<HistoryPoint>> {
        if let Some(point) = self.stored_point(thread_id, CheckpointRef::Seq(seq)).await? {
            return Ok(Some(HistoryPoint::Stored(point)));
        }
        let messages = self
            .agent
            .transcripts
            .with_transcript(&*self.agent.store, thread_id, |all| all.visible_at(seq))
            .await?;
        let last = messages.iter().rev().find(|last| !last.is_projected);
        Ok(last.map(|last| HistoryPoint::base(thread_id, last)))
    }

    /// Returns the channels of the thread at `seq`, and the checkpoint that they are from if it is not simply
    /// the newest visible one up to `seq`. The two differ if a later checkpoint with the same last event was
    /// created and the thread was rewound to before it.
    pub(crate) async fn state_at_seq(
        self,
        thread_id: ThreadId,
        seq: Seq,
    ) -> Result<(Option<CheckpointId>, Channels)> {
        let point =
            |reference| self.agent.store.checkpoint_at(thread_id, reference, SupersededVisibility::Hidden);
        let Some((newest, channels)) = point(CheckpointRef::Seq(seq)).await? else {
            return Ok((None, Channels::default()));
        };
        let head_seq = newest.head_seq;
        let find_origin = |all: &ThreadTranscript| all.branches.continued_from(head_seq);
        let origin =
            self.agent.transcripts.with_transcript(&*self.agent.store, thread_id, find_origin).await?;
        let Some(id) = origin.filter(|id| *id != newest.checkpoint_id) else { return Ok((None, channels)) };
        match point(CheckpointRef::Id(id)).await?.filter(|(origin, _)| origin.head_seq == head_seq) {
            Some((origin, channels)) => Ok((Some(origin.checkpoint_id), channels)),
            None => Ok((None, channels)),
        }
    }

    /// Returns a stored checkpoint, on whatever branch it is.
    async fn stored_point(
        self,
        thread_id: ThreadId,
        point: CheckpointRef,
    ) -> Result<Option<CheckpointEntry>> {
        let stored = self.agent.store.checkpoint_at(thread_id, point, SupersededVisibility::Shown).await?;
        Ok(stored.map(|(point, _)| point))
    }

    /// Returns the current point of the thread as clients see it; `None` if the thread has neither a
    /// checkpoint nor a message.
    pub(crate) async fn head_point(self, thread_id: ThreadId) -> Result<Option<HistoryPoint>> {
        let newest =
            self.agent.store.checkpoints(thread_id, None, 1, SupersededVisibility::Shown).await?.pop();
        if let Some(newest) = newest {
            return Ok(Some(HistoryPoint::Stored(newest)));
        }
        let messages = self
            .agent
            .transcripts
            .with_transcript(&*self.agent.store, thread_id, |all| all.visible_after(0))
            .await?;
        let last = messages.iter().rev().find(|last| !last.is_projected);
        Ok(last.map(|last| HistoryPoint::base(thread_id, last)))
    }

    /// Returns the id of the checkpoint before a stored one on its branch, ignoring the point before its
    /// input. `previous` is the checkpoint that was stored before it, on whatever branch.
    pub(super) async fn previous_checkpoint_id(
        self,
        thread_id: ThreadId,
        previous: Option<&CheckpointEntry>,
        point: &CheckpointEntry,
        branches: &BranchHistory,
    ) -> Result<Option<CheckpointId>> {
        let mut origin = branches.previous_point(previous, point);
        for _ in 0..POINTS_SCANNED_MAX {
            let (until, visible_from) = match origin {
                PreviousPoint::Stored => return Ok(previous.map(|point| point.checkpoint_id)),
                PreviousPoint::Named(checkpoint_id) => return Ok(Some(checkpoint_id)),
                PreviousPoint::None => return self.base_id_until(thread_id, point).await,
                PreviousPoint::Newest { until, visible_at: visible_from } => (until, visible_from),
            };
            let visible = branches.visible_at(visible_from);
            let until = visible.last_visible_seq(until);
            let candidate = match until {
                0 => None,
                _ => self.stored_point(thread_id, CheckpointRef::Seq(until)).await?,
            };
            origin = match candidate {
                None => return self.base_id_until(thread_id, point).await,
                Some(candidate) if !visible.contains(candidate.head_seq) => PreviousPoint::Newest {
                    until: visible.last_visible_seq(candidate.head_seq),
                    visible_at: visible_from,
                },
                Some(candidate) if candidate.source == CheckpointSource::Rewind => {
                    branches.previous_point(Some(&candidate), &candidate)
                }
                Some(candidate) => return Ok(Some(candidate.checkpoint_id)),
            };
        }
        Ok(None)
    }

    /// Returns the id of the base point before a checkpoint; `None` if there is none.
    async fn base_id_until(
        self,
        thread_id: ThreadId,
        point: &CheckpointEntry,
    ) -> Result<Option<CheckpointId>> {
        let base = |all: &ThreadTranscript| base_point_before(thread_id, point, all).map(|base| base.id());
        Ok(self.agent.transcripts.with_transcript(&*self.agent.store, thread_id, base).await?)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Message;

    use super::*;

    #[test]
    fn the_id_of_an_input_precedes_its_admission_and_is_found_again() {
        let admission = CheckpointId::generate();
        let input = input_id(admission);
        assert!(input < admission && input.to_string() < admission.to_string());
        assert_eq!(admission_id(input), admission);
    }

    #[test]
    fn the_id_of_a_base_encodes_its_last_seq_and_sorts_before_later_runs() {
        let thread_id = ThreadId::generate();
        for seq in [1, 77, u64::from(u32::MAX)] {
            let created_at = Timestamp::from_second(1_700_000_000).unwrap();
            let last = StateMessage::new("m".to_owned(), seq, None, Message::human("x"), created_at);
            let id = base_id(thread_id, &last);
            assert_eq!(seq_of_base(id), seq);
            assert_eq!(base_id(thread_id, &last), id);
            assert!(id.to_string() < CheckpointId::generate().to_string());
        }
    }
}
