//! Damaged events: how a read handles them, and the results of verifying stored events.

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
