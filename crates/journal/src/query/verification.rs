//! Damaged events: how a read handles them, and the results of verifying stored events.

use std::collections::BTreeMap;

use protocol::{Event, Seq, ThreadId};

/// The `event_type` of the event that a read returns in place of a damaged one ([`DamageHandling::Mark`]). No stored event
/// has it.
pub(crate) const DAMAGED_EVENT_TYPE: &str = "segue:damaged";

/// The handling of damaged events by a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DamageHandling {
    /// The read fails with [`crate::Error::DamagedEvent`].
    #[default]
    Refuse,
    /// The read returns an event with the seq of the damaged one, and no content ([`is_damaged`]). Its time may be wrong.
    Mark,
}

/// Returns whether a read returned this event in place of a damaged one.
pub fn is_damaged(event: &Event) -> bool {
    event.event_type == DAMAGED_EVENT_TYPE
}

/// An event whose stored form has changed since it was stored, or cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct DamagedEvent {
    /// The thread.
    pub thread_id: ThreadId,
    /// The seq of the event.
    pub seq: Seq,
}

/// A position among all events, in the order in which they were stored, and the direction in which they are verified from
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerificationPosition {
    /// The events after this row, oldest first.
    After(u64),
    /// The events before this row, newest first.
    Before(u64),
}

impl VerificationPosition {
    /// The position from which all events are verified, oldest first.
    pub const OLDEST: Self = Self::After(0);
    /// The position from which all events are verified, newest first.
    pub const NEWEST: Self = Self::Before(u64::MAX);
}

/// The result of verifying a batch of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventVerification {
    /// Number of events that were read.
    pub events: u64,
    /// Number of these that have no checksum, because an earlier version of Segue stored them. Of these only the form was
    /// checked.
    pub unchecked: u64,
    /// The damaged events, in the order in which they were read.
    pub damaged: Vec<DamagedEvent>,
    /// The position from which the next batch is verified, in the same direction; `None` if there are no more events.
    pub next: Option<VerificationPosition>,
}

/// Maximum number of threads that a [`DamageReport`] lists.
const THREADS_MAX: usize = 100;
/// Maximum number of ranges of damaged events that are listed for a thread.
const RANGES_MAX: usize = 10;

/// The results of all batches of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DamageReport {
    /// Number of verified events.
    pub events: u64,
    /// Number of these that have no checksum.
    pub unchecked: u64,
    /// The seqs of the damaged events of each thread.
    threads: BTreeMap<ThreadId, Vec<Seq>>,
}

impl DamageReport {
    /// Adds the result of a batch.
    pub fn add_batch(&mut self, batch: &EventVerification) {
        self.events += batch.events;
        self.unchecked += batch.unchecked;
        for DamagedEvent { thread_id, seq } in &batch.damaged {
            self.threads.entry(*thread_id).or_default().push(*seq);
        }
    }

    /// Returns a text for each thread with damaged events, at most a hundred.
    pub fn problems(&self) -> Vec<String> {
        let describe = |(thread_id, seqs): (&ThreadId, &Vec<Seq>)| {
            format!("damaged events of thread {thread_id}: {}", describe_seqs(seqs))
        };
        self.threads.iter().take(THREADS_MAX).map(describe).collect()
    }
}

/// Returns seqs as text, with consecutive ones as a range, and at most [`RANGES_MAX`] ranges.
fn describe_seqs(seqs: &[Seq]) -> String {
    let mut seqs = seqs.to_vec();
    seqs.sort_unstable();
    let describe_range = |range: &[Seq]| match range {
        [] => String::new(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first}–{last}"),
    };
    let ranges = seqs.chunk_by(|left, right| left + 1 == *right);
    let texts: Vec<String> = ranges.clone().take(RANGES_MAX).map(describe_range).collect();
    let omission = if ranges.count() > RANGES_MAX { ", …" } else { "" };
    format!("{}{omission}", texts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_events_are_listed_in_ranges() {
        assert_eq!(describe_seqs(&[7, 5, 6, 9, 1]), "1, 5–7, 9");
        let even: Vec<Seq> = (0..11).map(|number| number * 2).collect();
        assert_eq!(describe_seqs(&even), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, …");
    }
}
