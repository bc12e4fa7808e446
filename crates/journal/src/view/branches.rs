//! Branches of a thread: which events were visible at each point of its past, and which checkpoint preceded which,
//! derived from the events of rewinds. Nothing is read here; checkpoints that must be found are described by
//! [`PreviousPoint`].

use protocol::event::body::ThreadRewound;
use protocol::{CheckpointEntry, CheckpointId, CheckpointSource, Event, Message, Seq};

use super::{ViewEventKind, is_from_subagent};

/// A rewind of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RewindPoint {
    /// The seq of its event.
    pub seq: Seq,
    /// The last seq that stayed visible. Events between it and `seq` are superseded.
    pub keep_seq: Seq,
    /// The checkpoint to which the thread was rewound, if the event names one.
    pub checkpoint_id: Option<CheckpointId>,
}

impl RewindPoint {
    /// Returns the rewind that an event records, or `None` if it records none or cannot be parsed.
    pub fn from_event(event: &Event) -> Option<Self> {
        let ThreadRewound { keep_seq, checkpoint_id, .. } = event.body().ok()?;
        Some(Self { seq: event.seq, keep_seq, checkpoint_id })
    }

    /// Returns how the checkpoint to which the thread was rewound can be found.
    const fn origin(&self) -> PreviousPoint {
        match self.checkpoint_id {
            Some(checkpoint_id) => PreviousPoint::Named(checkpoint_id),
            None => PreviousPoint::Newest { until: self.keep_seq, visible_at: self.seq },
        }
    }
}

/// All rewinds of a thread, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchHistory {
    /// The rewinds.
    rewinds: Vec<RewindPoint>,
}

/// How the previous checkpoint of a checkpoint can be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousPoint {
    /// There is none.
    None,
    /// It is the checkpoint that was stored before.
    Stored,
    /// It is the checkpoint with this id, named by a rewind.
    Named(CheckpointId),
    /// It is the newest checkpoint at or before the seq `until` that was visible at the seq `visible_at`.
    Newest {
        /// The highest possible seq of the checkpoint.
        until: Seq,
        /// The seq at which the checkpoint must have been visible.
        visible_at: Seq,
    },
}

impl BranchHistory {
    /// Adds the rewind of an event, if it is one. Events must be added in ascending order.
    pub fn add_event(&mut self, event: &Event) {
        self.rewinds.extend(RewindPoint::from_event(event));
    }

    /// Returns the newest rewind after the seq `after` and up to `until`.
    pub fn newest_rewind(&self, after: Seq, until: Seq) -> Option<&RewindPoint> {
        let end = self.rewinds.partition_point(|rewind| rewind.seq <= until);
        self.rewinds[..end].last().filter(|rewind| rewind.seq > after)
    }

    /// Returns the events that were visible when `head_seq` was the last seq of the thread.
    pub fn visible_at(&self, head_seq: Seq) -> VisibleEvents {
        let end = self.rewinds.partition_point(|rewind| rewind.seq <= head_seq);
        let mut hidden: Vec<(Seq, Seq)> = Vec::new();
        for rewind in &self.rewinds[..end] {
            let (mut first, last) = (rewind.keep_seq.saturating_add(1), rewind.seq - 1);
            // The new range absorbs later ranges. If it begins inside a hidden range, it also absorbs that range.
            while let Some((before, _)) = hidden.last().copied().filter(|(_, until)| *until + 1 >= first) {
                first = first.min(before);
                hidden.pop();
            }
            if first <= last {
                hidden.push((first, last));
            }
        }
        VisibleEvents { head_seq, hidden_ranges: hidden }
    }

    /// Returns the checkpoint from which the current branch continues after `seq`, if a rewind names it. Several
    /// checkpoints can lie between the same two events, and only the rewind tells which of them the branch continues
    /// from.
    pub fn continued_from(&self, seq: Seq) -> Option<CheckpointId> {
        let visible = self.visible_at(Seq::MAX);
        let next =
            visible.visible_ranges().find(|(_, last)| *last > seq).map(|(first, _)| first.max(seq + 1))?;
        self.rewinds.iter().find(|rewind| rewind.seq == next)?.checkpoint_id
    }

    /// Returns how the predecessor of the checkpoint `point` can be found. `previous` is the checkpoint that was
    /// stored before it. A checkpoint that only records a rewind is skipped.
    pub fn previous_point(
        &self,
        previous: Option<&CheckpointEntry>,
        point: &CheckpointEntry,
    ) -> PreviousPoint {
        let after = previous.map_or(0, |previous| previous.head_seq);
        if let Some(rewind) = self.newest_rewind(after, point.head_seq) {
            return rewind.origin();
        }
        match previous {
            None => PreviousPoint::None,
            Some(previous) if previous.source == CheckpointSource::Rewind => {
                self.newest_rewind(0, previous.head_seq).map_or(PreviousPoint::None, RewindPoint::origin)
            }
            Some(_) => PreviousPoint::Stored,
        }
    }
}

/// The events that were visible at a point of a thread's past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleEvents {
    /// The last seq at that point.
    pub head_seq: Seq,
    /// Hidden ranges of seqs in ascending order. Both ends are inclusive, and ranges do not touch.
    hidden_ranges: Vec<(Seq, Seq)>,
}

impl VisibleEvents {
    /// Returns whether an event was visible.
    pub fn contains(&self, seq: Seq) -> bool {
        seq <= self.head_seq && self.hidden_range(seq).is_none()
    }

    /// Returns the last visible seq at or before `seq`, or 0 if there is none.
    pub fn last_visible_seq(&self, seq: Seq) -> Seq {
        let seq = seq.min(self.head_seq);
        self.hidden_range(seq).map_or(seq, |(first, _)| first - 1)
    }

    /// Returns the visible ranges in ascending order. Both ends are inclusive.
    pub fn visible_ranges(&self) -> impl Iterator<Item = (Seq, Seq)> {
        let starts = std::iter::once(1).chain(self.hidden_ranges.iter().map(|(_, last)| last + 1));
        let ends = self.hidden_ranges.iter().map(|(first, _)| first - 1).chain([self.head_seq]);
        starts.zip(ends).filter(|(first, last)| first <= last)
    }

    /// Returns the hidden range that contains `seq`, or `None`.
    fn hidden_range(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let index = self.hidden_ranges.partition_point(|(_, last)| *last < seq);
        self.hidden_ranges.get(index).copied().filter(|(first, _)| *first <= seq)
    }
}

/// Returns the message that an event adds to the transcript of a thread. `None` if it adds none; messages of
/// sub-agents of an imported session are not part of the transcript.
pub fn transcript_message(event: &Event) -> Option<Message> {
    let is_message = ViewEventKind::of_event(event) == ViewEventKind::Message && !is_from_subagent(event);
    if is_message { event.message() } else { None }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{NewEvent, RunId, ThreadId};

    use super::*;

    fn branches(rewinds: &[(Seq, Seq)]) -> BranchHistory {
        let thread_id = ThreadId::generate();
        let mut branches = BranchHistory::default();
        for (seq, keep_seq) in rewinds {
            let rewound = ThreadRewound { keep_seq: *keep_seq, superseded: 1, checkpoint_id: None };
            let event = NewEvent::from_body(&rewound, Timestamp::UNIX_EPOCH).unwrap();
            branches.add_event(&Event::from_new(event, thread_id, *seq));
        }
        branches
    }

    #[test]
    fn b12_visible_events_are_those_that_no_earlier_rewind_has_hidden() {
        let check = |rewinds: &[(Seq, Seq)], head, expected: &[(Seq, Seq)]| {
            let visible = branches(rewinds).visible_at(head);
            assert_eq!(visible.visible_ranges().collect::<Vec<_>>(), expected, "{rewinds:?} at {head}");
            for seq in 1..=head + 1 {
                let is_visible = expected.iter().any(|(first, last)| (*first..=*last).contains(&seq));
                assert_eq!(visible.contains(seq), is_visible, "{seq} of {rewinds:?} at {head}");
                let last = (1..=seq).rev().find(|seq| visible.contains(*seq)).unwrap_or(0);
                assert_eq!(visible.last_visible_seq(seq), last, "{seq} of {rewinds:?} at {head}");
            }
        };
        check(&[], 5, &[(1, 5)]);
        check(&[], 0, &[]);
        check(&[(6, 3)], 5, &[(1, 5)]);
        check(&[(6, 3)], 6, &[(1, 3), (6, 6)]);
        check(&[(6, 3)], 9, &[(1, 3), (6, 9)]);
        check(&[(6, 0)], 9, &[(6, 9)]);
        // A rewind that keeps everything hides nothing.
        check(&[(6, 5)], 9, &[(1, 9)]);
        // A later rewind covers an earlier one.
        check(&[(6, 3), (10, 2)], 12, &[(1, 2), (10, 12)]);
        // A rewind to a point between two others.
        check(&[(6, 3), (10, 7)], 12, &[(1, 3), (6, 7), (10, 12)]);
        // A rewind into a hidden range keeps what was visible before that range.
        check(&[(6, 3), (10, 5)], 12, &[(1, 3), (10, 12)]);
        // A rewind to the event of the previous rewind.
        check(&[(6, 3), (10, 6)], 12, &[(1, 3), (6, 6), (10, 12)]);
        check(&[(6, 3), (10, 6), (14, 4)], 20, &[(1, 3), (14, 20)]);
    }

    #[test]
    fn b12_the_previous_checkpoint_is_the_stored_one_unless_a_rewind_lies_between() {
        let point = |head_seq, source| CheckpointEntry {
            checkpoint_id: CheckpointId::generate(),
            run_id: RunId::generate(),
            step: 0,
            head_seq,
            next: None,
            source,
            input_seq: None,
            number: 0,
            created_at: Timestamp::UNIX_EPOCH,
        };
        let branches = branches(&[(6, 3)]);
        let (stored, rewound) = (CheckpointSource::Loop, CheckpointSource::Rewind);
        let newest = PreviousPoint::Newest { until: 3, visible_at: 6 };
        let check = |previous: Option<CheckpointEntry>, now, expected| {
            assert_eq!(branches.previous_point(previous.as_ref(), &now), expected, "{previous:?} {now:?}");
        };
        check(None, point(2, stored), PreviousPoint::None);
        check(Some(point(2, stored)), point(5, stored), PreviousPoint::Stored);
        check(Some(point(5, stored)), point(8, stored), newest);
        check(Some(point(5, stored)), point(6, rewound), newest);
        check(Some(point(6, rewound)), point(8, stored), newest);
        check(Some(point(8, stored)), point(9, stored), PreviousPoint::Stored);
    }
}
