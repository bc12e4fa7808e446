//! Branches: what of a thread was in sight at each point of its past, and which point came before which, found from the
//! events that tell of rewinds. Nothing is read here; points that must be looked for are named, not found.

use protocol::event::body::ThreadRewound;
use protocol::{CheckpointId, CheckpointSource, Event, Message, Seq, StepPoint};

use super::{Part, is_side};

/// A place where a thread went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// The event that tells of it.
    pub seq: Seq,
    /// The last event that stayed; everything between it and `seq` is out of sight from here on.
    pub keep_seq: Seq,
    /// The point that was gone back to, where one was named.
    pub checkpoint_id: Option<CheckpointId>,
}

impl Rewind {
    /// Returns what the event tells; `None` when it tells of something else, or cannot be read.
    pub fn of(event: &Event) -> Option<Self> {
        let ThreadRewound { keep_seq, checkpoint_id, .. } = event.body().ok()?;
        Some(Self { seq: event.seq, keep_seq, checkpoint_id })
    }

    /// Returns where the point is found that the thread went back to.
    const fn origin(&self) -> Before {
        match self.checkpoint_id {
            Some(checkpoint_id) => Before::Named(checkpoint_id),
            None => Before::Newest { until: self.keep_seq, seen_from: self.seq },
        }
    }
}

/// Every place where a thread went back, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Branches {
    rewinds: Vec<Rewind>,
}

/// Where the point before another one is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// There is none.
    Nothing,
    /// It is the one that was stored before it.
    Previous,
    /// It was named when the thread went back.
    Named(CheckpointId),
    /// Nobody named it: the newest one at or before `until` that was in sight at `seen_from`.
    Newest {
        /// The last event it may have seen.
        until: Seq,
        /// The event from which it must have been in sight.
        seen_from: Seq,
    },
}

impl Branches {
    /// Looks at an event; they come in ascending order.
    pub fn look(&mut self, event: &Event) {
        self.rewinds.extend(Rewind::of(event));
    }

    /// Returns the newest place after `after` and up to `until` where the thread went back.
    pub fn newest(&self, after: Seq, until: Seq) -> Option<&Rewind> {
        let end = self.rewinds.partition_point(|rewind| rewind.seq <= until);
        self.rewinds[..end].last().filter(|rewind| rewind.seq > after)
    }

    /// Returns what was in sight when `head_seq` was the thread's last event.
    pub fn sight_at(&self, head_seq: Seq) -> Sight {
        let end = self.rewinds.partition_point(|rewind| rewind.seq <= head_seq);
        let mut hidden: Vec<(Seq, Seq)> = Vec::new();
        for rewind in &self.rewinds[..end] {
            let (mut first, last) = (rewind.keep_seq.saturating_add(1), rewind.seq - 1);
            // What lies behind is hidden with it; what is kept of a hidden part is hidden already.
            while let Some((before, _)) = hidden.last().copied().filter(|(_, until)| *until + 1 >= first) {
                first = first.min(before);
                hidden.pop();
            }
            if first <= last {
                hidden.push((first, last));
            }
        }
        Sight { head_seq, hidden }
    }

    /// Returns the point that the thread, as it is seen at its end, went on from when `seq` was its last event, where one was
    /// named. Points that no event lies between have seen the same: only going on tells which of them is of its branch.
    pub fn went_on_from(&self, seq: Seq) -> Option<CheckpointId> {
        let sight = self.sight_at(Seq::MAX);
        let next = sight.stretches().find(|(_, last)| *last > seq).map(|(first, _)| first.max(seq + 1))?;
        self.rewinds.iter().find(|rewind| rewind.seq == next)?.checkpoint_id
    }

    /// Returns where the point before `point` is found; `previous` is the one that was stored before it. A point that only
    /// tells that the thread went back is passed over.
    pub fn before(&self, previous: Option<&StepPoint>, point: &StepPoint) -> Before {
        let after = previous.map_or(0, |previous| previous.head_seq);
        if let Some(rewind) = self.newest(after, point.head_seq) {
            return rewind.origin();
        }
        match previous {
            None => Before::Nothing,
            Some(previous) if previous.source == CheckpointSource::Rewind => {
                self.newest(0, previous.head_seq).map_or(Before::Nothing, Rewind::origin)
            }
            Some(_) => Before::Previous,
        }
    }
}

/// What of a thread was in sight at a point of its past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// The last event there was.
    pub head_seq: Seq,
    /// What was out of sight: both ends of each stretch, in order, with something between them.
    hidden: Vec<(Seq, Seq)>,
}

impl Sight {
    /// Returns whether the event was in sight.
    pub fn holds(&self, seq: Seq) -> bool {
        seq <= self.head_seq && self.hiding(seq).is_none()
    }

    /// Returns the last seq at or before `seq` that was not hidden; 0 when there is none.
    pub fn last_until(&self, seq: Seq) -> Seq {
        let seq = seq.min(self.head_seq);
        self.hiding(seq).map_or(seq, |(first, _)| first - 1)
    }

    /// Returns the stretches that were in sight, both ends of each, in order.
    pub fn stretches(&self) -> impl Iterator<Item = (Seq, Seq)> {
        let starts = std::iter::once(1).chain(self.hidden.iter().map(|(_, last)| last + 1));
        let ends = self.hidden.iter().map(|(first, _)| first - 1).chain([self.head_seq]);
        starts.zip(ends).filter(|(first, last)| first <= last)
    }

    fn hiding(&self, seq: Seq) -> Option<(Seq, Seq)> {
        let at = self.hidden.partition_point(|(_, last)| *last < seq);
        self.hidden.get(at).copied().filter(|(first, _)| *first <= seq)
    }
}

/// Returns the message that the event adds to a thread's transcript; `None` when it adds none, as what a sub-agent of an
/// imported session said does not.
pub fn transcript_message(event: &Event) -> Option<Message> {
    let is_message = Part::of(event) == Part::Message && !is_side(event);
    if is_message { event.message() } else { None }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use protocol::{NewEvent, RunId, ThreadId};

    use super::*;

    fn branches(rewinds: &[(Seq, Seq)]) -> Branches {
        let thread_id = ThreadId::generate();
        let mut branches = Branches::default();
        for (seq, keep_seq) in rewinds {
            let rewound = ThreadRewound { keep_seq: *keep_seq, superseded: 1, checkpoint_id: None };
            let event = NewEvent::of(&rewound, Timestamp::UNIX_EPOCH).unwrap();
            branches.look(&Event::stored(event, thread_id, *seq));
        }
        branches
    }

    #[test]
    fn b12_what_was_in_sight_at_a_point_is_what_no_rewind_up_to_it_had_hidden() {
        let check = |rewinds: &[(Seq, Seq)], head, expected: &[(Seq, Seq)]| {
            let sight = branches(rewinds).sight_at(head);
            assert_eq!(sight.stretches().collect::<Vec<_>>(), expected, "{rewinds:?} at {head}");
            for seq in 1..=head + 1 {
                let is_in_sight = expected.iter().any(|(first, last)| (*first..=*last).contains(&seq));
                assert_eq!(sight.holds(seq), is_in_sight, "{seq} of {rewinds:?} at {head}");
                let last = (1..=seq).rev().find(|seq| sight.holds(*seq)).unwrap_or(0);
                assert_eq!(sight.last_until(seq), last, "{seq} of {rewinds:?} at {head}");
            }
        };
        check(&[], 5, &[(1, 5)]);
        check(&[], 0, &[]);
        check(&[(6, 3)], 5, &[(1, 5)]);
        check(&[(6, 3)], 6, &[(1, 3), (6, 6)]);
        check(&[(6, 3)], 9, &[(1, 3), (6, 9)]);
        check(&[(6, 0)], 9, &[(6, 9)]);
        // One that keeps everything hides nothing.
        check(&[(6, 5)], 9, &[(1, 9)]);
        // A later one covers an earlier one.
        check(&[(6, 3), (10, 2)], 12, &[(1, 2), (10, 12)]);
        // It goes back to between two others.
        check(&[(6, 3), (10, 7)], 12, &[(1, 3), (6, 7), (10, 12)]);
        // What it keeps of a hidden part is what was in sight before it.
        check(&[(6, 3), (10, 5)], 12, &[(1, 3), (10, 12)]);
        // Behind the one before it, right at its event.
        check(&[(6, 3), (10, 6)], 12, &[(1, 3), (6, 6), (10, 12)]);
        check(&[(6, 3), (10, 6), (14, 4)], 20, &[(1, 3), (14, 20)]);
    }

    #[test]
    fn b12_the_point_before_is_the_one_stored_before_unless_the_thread_went_back_between() {
        let point = |head_seq, source| StepPoint {
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
        let newest = Before::Newest { until: 3, seen_from: 6 };
        let check = |previous: Option<StepPoint>, now, expected| {
            assert_eq!(branches.before(previous.as_ref(), &now), expected, "{previous:?} {now:?}");
        };
        check(None, point(2, stored), Before::Nothing);
        check(Some(point(2, stored)), point(5, stored), Before::Previous);
        check(Some(point(5, stored)), point(8, stored), newest);
        check(Some(point(5, stored)), point(6, rewound), newest);
        check(Some(point(6, rewound)), point(8, stored), newest);
        check(Some(point(8, stored)), point(9, stored), Before::Previous);
    }
}
