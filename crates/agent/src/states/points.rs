//! Points: the places of a thread's past that clients can name, how they are found by their ids, and which came before
//! which. What a point holds is put together in `states`.

use jiff::Timestamp;
use journal::view::branches::{Before, Branches};
use journal::{CheckpointRef, Superseded};
use protocol::{CheckpointId, CheckpointSource, RunId, Seq, StepPoint, ThreadId};
use runtime::Channels;
use uuid::{Builder, Uuid};

use super::message::StateMessage;
use super::transcripts::Transcript;
use crate::agent::services::ThreadService;
use crate::{Error, Result, ThreadError};

/// The number of what a thread held before anything ran in it: what comes in first is -1.
const BASE_NUMBER: i64 = -2;

/// How many points are looked at in search of the one that a thread went back to; each is behind another rewind.
const LOOKS_MAX: usize = 10_000;

/// A place of a thread's past.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Point {
    /// The point after a step, an admission or a change.
    Stored(StepPoint),
    /// The point before what an admission brought in. It is not stored: its id is the one before the admission's, and
    /// what it holds ends where that begins.
    Input(StepPoint),
    /// What a thread held before anything ran in it: it was imported, or copied.
    Base {
        /// Its id, which tells where it ends.
        checkpoint_id: CheckpointId,
        /// The last message.
        seq: Seq,
        /// When that was said.
        created_at: Timestamp,
    },
}

impl Point {
    /// Returns what the thread held up to a message, before anything ran in it.
    pub(super) fn base(thread_id: ThreadId, last: &StateMessage) -> Self {
        Self::Base { checkpoint_id: base_id(thread_id, last), seq: last.seq, created_at: last.created_at }
    }

    /// Returns its id.
    pub(crate) fn id(&self) -> CheckpointId {
        match self {
            Self::Stored(point) => point.checkpoint_id,
            Self::Input(admission) => input_id(admission.checkpoint_id),
            Self::Base { checkpoint_id, .. } => *checkpoint_id,
        }
    }

    /// Returns the last event it has seen.
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

    /// Returns the node that was to be executed next.
    pub(crate) fn next(&self) -> Option<&str> {
        match self {
            Self::Stored(point) => point.next.as_deref(),
            Self::Input(_) | Self::Base { .. } => None,
        }
    }

    /// Returns the run that wrote it.
    pub(super) fn run_id(&self) -> Option<RunId> {
        match self {
            Self::Stored(point) | Self::Input(point) => Some(point.run_id).filter(|id| *id != no_run()),
            Self::Base { .. } => None,
        }
    }

    pub(super) const fn created_at(&self) -> Timestamp {
        match self {
            Self::Stored(point) | Self::Input(point) => point.created_at,
            Self::Base { created_at, .. } => *created_at,
        }
    }
}

/// Returns what stands in place of a run where a client wrote a point of a thread in which none ever ran.
pub(super) const fn no_run() -> RunId {
    RunId::from_uuid(Uuid::nil())
}

/// Returns whether an admission brought something in: there is a point before that then.
pub(super) const fn has_input(point: &StepPoint) -> bool {
    point.step == 0 && point.input_seq.is_some()
}

/// Returns the id of the point before what an admission brought in.
fn input_id(admission: CheckpointId) -> CheckpointId {
    CheckpointId::from_uuid(Uuid::from_u128(admission.uuid().as_u128().wrapping_sub(1)))
}

/// Returns the id of the admission before which the point of that id would be.
fn admission_id(input: CheckpointId) -> CheckpointId {
    CheckpointId::from_uuid(Uuid::from_u128(input.uuid().as_u128().wrapping_add(1)))
}

/// Returns the id of what a thread held up to a message: it sorts as the message's time does, and ends with its seq.
fn base_id(thread_id: ThreadId, last: &StateMessage) -> CheckpointId {
    let mut tail = [0; 10];
    tail[..6].copy_from_slice(&thread_id.uuid().as_bytes()[10..]);
    tail[6..].copy_from_slice(&u32::try_from(last.seq).unwrap_or(u32::MAX).to_be_bytes());
    let millis = u64::try_from(last.created_at.as_millisecond()).unwrap_or(0);
    CheckpointId::from_uuid(Builder::from_unix_timestamp_millis(millis, &tail).into_uuid())
}

/// Returns the seq with which the id of a thread's base ends.
fn seq_of_base(id: CheckpointId) -> Seq {
    // Truncation is meant: the lower 32 bits are the seq.
    Seq::from(id.uuid().as_u128() as u32)
}

/// Returns what the thread held before its oldest point, if it held anything.
pub(super) fn base_before(thread_id: ThreadId, oldest: &StepPoint, transcript: &Transcript) -> Option<Point> {
    let until = if has_input(oldest) {
        Point::Input(oldest.clone()).head_seq()
    } else {
        match oldest.source {
            // What a client put in says itself what was there before.
            CheckpointSource::Update => transcript.branches.newest(0, oldest.head_seq)?.keep_seq,
            CheckpointSource::Loop | CheckpointSource::Rewind => oldest.head_seq,
        }
    };
    let held = transcript.at(until);
    held.iter().rev().find(|last| !last.is_projected).map(|last| Point::base(thread_id, last))
}

impl ThreadService<'_> {
    /// Returns the point of that id, whatever branch it is on.
    ///
    /// # Errors
    /// [`ThreadError::UnknownCheckpoint`] when there is none.
    pub(crate) async fn point(self, thread_id: ThreadId, id: CheckpointId) -> Result<Point> {
        let unknown = || Error::from(ThreadError::UnknownCheckpoint { thread_id, given: id });
        if let Some(point) = self.stored_point(thread_id, CheckpointRef::Id(id)).await? {
            return Ok(Point::Stored(point));
        }
        let admission = self.stored_point(thread_id, CheckpointRef::Id(admission_id(id))).await?;
        if let Some(admission) = admission.filter(has_input) {
            return Ok(Point::Input(admission));
        }
        let seq = seq_of_base(id);
        let last = self
            .agent
            .transcripts
            .look(&*self.agent.store, thread_id, |all| all.said_at(seq).cloned())
            .await?;
        let Some(last) = last.filter(|last| base_id(thread_id, last) == id) else { return Err(unknown()) };
        match self.stored_point(thread_id, CheckpointRef::Seq(seq)).await? {
            Some(_) => Err(unknown()),
            None => Ok(Point::base(thread_id, &last)),
        }
    }

    /// Returns where the thread stood when `seq` was its last event; `None` where it held nothing.
    pub(crate) async fn point_until(self, thread_id: ThreadId, seq: Seq) -> Result<Option<Point>> {
        if let Some(point) = self.stored_point(thread_id, CheckpointRef::Seq(seq)).await? {
            return Ok(Some(Point::Stored(point)));
        }
        let held = self.agent.transcripts.look(&*self.agent.store, thread_id, |all| all.at(seq)).await?;
        let last = held.iter().rev().find(|last| !last.is_projected);
        Ok(last.map(|last| Point::base(thread_id, last)))
    }

    /// Returns the state in which the thread stood at `seq`, and the point of that state where it is not simply the newest
    /// one up to there: one that saw as much was made later, and the thread went back behind it.
    pub(crate) async fn stood_at(
        self,
        thread_id: ThreadId,
        seq: Seq,
    ) -> Result<(Option<CheckpointId>, Channels)> {
        let point = |at| self.agent.store.checkpoint_at(thread_id, at, Superseded::Hidden);
        let Some((newest, channels)) = point(CheckpointRef::Seq(seq)).await? else {
            return Ok((None, Channels::default()));
        };
        let head_seq = newest.head_seq;
        let look = |all: &Transcript| all.branches.went_on_from(head_seq);
        let named = self.agent.transcripts.look(&*self.agent.store, thread_id, look).await?;
        let Some(id) = named.filter(|id| *id != newest.checkpoint_id) else { return Ok((None, channels)) };
        match point(CheckpointRef::Id(id)).await?.filter(|(named, _)| named.head_seq == head_seq) {
            Some((named, channels)) => Ok((Some(named.checkpoint_id), channels)),
            None => Ok((None, channels)),
        }
    }

    async fn stored_point(self, thread_id: ThreadId, point: CheckpointRef) -> Result<Option<StepPoint>> {
        let found = self.agent.store.checkpoint_at(thread_id, point, Superseded::Shown).await?;
        Ok(found.map(|(point, _)| point))
    }

    /// Returns the newest point of the thread as clients see it; `None` where there is neither a point nor a message.
    pub(crate) async fn head_point(self, thread_id: ThreadId) -> Result<Option<Point>> {
        let newest = self.agent.store.checkpoints(thread_id, None, 1, Superseded::Shown).await?.pop();
        if let Some(newest) = newest {
            return Ok(Some(Point::Stored(newest)));
        }
        let held = self.agent.transcripts.look(&*self.agent.store, thread_id, |all| all.after(0)).await?;
        let last = held.iter().rev().find(|last| !last.is_projected);
        Ok(last.map(|last| Point::base(thread_id, last)))
    }

    /// Returns the id of the point before a stored one, what it brought in not counted; `previous` is the one that was
    /// stored before it.
    pub(super) async fn before(
        self,
        thread_id: ThreadId,
        previous: Option<&StepPoint>,
        point: &StepPoint,
        branches: &Branches,
    ) -> Result<Option<CheckpointId>> {
        let mut origin = branches.before(previous, point);
        for _ in 0..LOOKS_MAX {
            let (until, seen_from) = match origin {
                Before::Previous => return Ok(previous.map(|point| point.checkpoint_id)),
                Before::Named(checkpoint_id) => return Ok(Some(checkpoint_id)),
                Before::Nothing => return self.base_until(thread_id, point).await,
                Before::Newest { until, seen_from } => (until, seen_from),
            };
            let sight = branches.sight_at(seen_from);
            let until = sight.last_until(until);
            let found = match until {
                0 => None,
                _ => self.stored_point(thread_id, CheckpointRef::Seq(until)).await?,
            };
            origin = match found {
                None => return self.base_until(thread_id, point).await,
                Some(found) if !sight.holds(found.head_seq) => {
                    Before::Newest { until: sight.last_until(found.head_seq), seen_from }
                }
                Some(found) if found.source == CheckpointSource::Rewind => {
                    branches.before(Some(&found), &found)
                }
                Some(found) => return Ok(Some(found.checkpoint_id)),
            };
        }
        Ok(None)
    }

    async fn base_until(self, thread_id: ThreadId, point: &StepPoint) -> Result<Option<CheckpointId>> {
        let base = |all: &Transcript| base_before(thread_id, point, all).map(|base| base.id());
        Ok(self.agent.transcripts.look(&*self.agent.store, thread_id, base).await?)
    }
}

#[cfg(test)]
mod tests {
    use protocol::Message;

    use super::*;

    #[test]
    fn the_id_of_an_input_sorts_right_before_its_admission_and_is_found_again() {
        let admission = CheckpointId::generate();
        let input = input_id(admission);
        assert!(input < admission && input.to_string() < admission.to_string());
        assert_eq!(admission_id(input), admission);
    }

    #[test]
    fn the_id_of_a_base_tells_where_it_ends_and_sorts_before_what_runs_later() {
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
