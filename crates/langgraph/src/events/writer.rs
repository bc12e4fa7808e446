//! The sending end of a thread's event stream: envelopes with their numbers, those nobody wants left out. Every event is
//! numbered whether it is sent or not, so that a number means the same on every connection.

use std::sync::Arc;

use agent::{FRAME_COUNT_BITS, FramePosition};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use protocol::{InterruptId, RunId, Seq};
use serde::Serialize;

use super::filter::EventFilter;
use crate::sse;
use crate::streams::follow::StreamWriter;

/// Bits of a number for what one frame became.
const ORDINAL_BITS: u32 = 10;

/// Bits for what came since an event. With those of the seq they make a number that every client can hold exactly.
const SUB_BITS: u32 = 17;

/// Bits of these for the frames since a step: as many as a stream keeps.
const FRAME_BITS: u32 = 13;

/// Returns the number of a place: in order, and the same whenever the place is event.
pub(super) fn sequence_number(at: FramePosition, part: u32) -> u64 {
    let (steps, frames) =
        (u64::from(at.sub >> FRAME_COUNT_BITS), u64::from(at.sub & ((1 << FRAME_COUNT_BITS) - 1)));
    let sub = steps << FRAME_BITS | frames.min((1 << FRAME_BITS) - 1);
    let sub = sub.min((1 << SUB_BITS) - 1);
    let part = u64::from(part.min((1 << ORDINAL_BITS) - 1));
    at.seq << (SUB_BITS + ORDINAL_BITS) | sub << ORDINAL_BITS | part
}

/// Returns the place of a number.
fn position_of_number(number: u64) -> FramePosition {
    let sub = number >> ORDINAL_BITS & ((1 << SUB_BITS) - 1);
    let (steps, frames) = (sub >> FRAME_BITS, sub & ((1 << FRAME_BITS) - 1));
    let sub = u32::try_from(steps << FRAME_COUNT_BITS | frames).unwrap_or(u32::MAX);
    FramePosition { seq: number >> (SUB_BITS + ORDINAL_BITS), sub }
}

/// One event before it has its number.
#[derive(Debug)]
pub(super) struct ChannelEvent<'a, T> {
    /// The channel that clients get it by.
    pub(super) channel: &'a str,
    /// Its sort, which is the name on the wire.
    pub(super) method: &'a str,
    /// Where it comes from; the root is empty.
    pub(super) namespace: &'a [&'a str],
    /// The node it comes from.
    pub(super) node: Option<&'a str>,
    /// The data of the event.
    pub(super) data: T,
}

impl<'a, T> ChannelEvent<'a, T> {
    /// Returns an event of the run's root that has its channel's name.
    pub(super) const fn new(channel: &'a str, data: T) -> Self {
        Self { channel, method: channel, namespace: &[], node: None, data }
    }
}

#[derive(Debug, Serialize)]
struct EventEnvelope<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "event_id")]
    key: String,
    seq: u64,
    method: &'a str,
    params: EventParams<'a, T>,
}

#[derive(Debug, Serialize)]
struct EventParams<'a, T> {
    namespace: &'a [&'a str],
    timestamp: i64,
    data: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

/// The events of a thread, as they are written for one client.
#[derive(Debug)]
pub(crate) struct ChannelWriter {
    bytes: BytesMut,
    pub(super) filter: EventFilter,
    run_id: Option<RunId>,
    /// Where within the run the next events come from, divided by `|`; nothing is its root.
    namespace: Arc<str>,
    position: FramePosition,
    next_ordinal: u32,
    /// A suffix that tells an event from the one that had its position before, for clients that know that one.
    id_suffix: String,
    /// The number of the last event, sent or not.
    last_number: u64,
    clock: Timestamp,
    /// The questions of the run that were sent.
    sent_interrupts: Vec<InterruptId>,
}

impl ChannelWriter {
    pub(crate) fn new(filter: EventFilter) -> Self {
        let (position, clock) = (FramePosition::default(), Timestamp::UNIX_EPOCH);
        let (bytes, id_suffix) = (BytesMut::new(), String::new());
        let (namespace, sent_interrupts) = ("".into(), Vec::new());
        Self {
            bytes,
            filter,
            run_id: None,
            namespace,
            position,
            next_ordinal: 0,
            id_suffix,
            last_number: 0,
            clock,
            sent_interrupts,
        }
    }

    /// Says whose events follow.
    pub(crate) fn begin_run(&mut self, run_id: RunId, since: Timestamp) {
        self.run_id = Some(run_id);
        self.clock = self.clock.max(since);
        self.sent_interrupts.clear();
    }

    /// Notes that a question of the run is sent; returns whether it was not before.
    pub(super) fn mark_interrupt_sent(&mut self, interrupt_id: InterruptId) -> bool {
        let is_new = !self.sent_interrupts.contains(&interrupt_id);
        if is_new {
            self.sent_interrupts.push(interrupt_id);
        }
        is_new
    }

    /// Says that what follows comes of no run, and was stored at `seq`. What came before is not gone back behind.
    pub(super) fn leave_run(&mut self, seq: Seq) {
        self.run_id = None;
        if seq > self.position.seq {
            self.set_position(FramePosition { seq, sub: 0 });
        }
    }

    /// Says which frame the next events come of.
    pub(super) fn set_position(&mut self, position: FramePosition) {
        self.position = position;
        self.next_ordinal = 0;
        self.id_suffix.clear();
    }

    /// Says that what follows is event instead of the frames of this place: under ids of its own.
    pub(super) fn mark_replayed(&mut self) {
        "~".clone_into(&mut self.id_suffix);
    }

    /// Says that what follows stands at `position` for everything that was lost after `after`. However far the client says
    /// it is, it has had none of it.
    pub(super) fn replace_lost_frames(&mut self, after: FramePosition, position: FramePosition) {
        self.set_position(position);
        self.id_suffix = format!("~{}-{}", after.seq, after.sub);
        self.last_number = self.last_number.max(self.filter.since);
    }

    /// Forgets the number that the client came with: it is none of this thread.
    pub(super) const fn forget_since(&mut self) {
        self.filter.since = 0;
    }

    /// Returns the place of what is event.
    pub(super) const fn position(&self) -> FramePosition {
        self.position
    }

    /// Returns the place up to which the client has had everything: that of the last frame, or the one it came with.
    pub(super) fn client_position(&self) -> FramePosition {
        self.position.max(position_of_number(self.filter.since))
    }

    /// Notes the moment of something that was stored.
    pub(super) fn advance_clock(&mut self, at: Timestamp) {
        self.clock = self.clock.max(at);
    }

    /// Says from where within the run the next events come.
    pub(super) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.namespace = Arc::clone(namespace);
    }

    /// Writes an event of the channel, if it is wanted.
    pub(super) fn send<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        match self.filter.has_channel(event.channel) {
            true => self.send_if_admitted(event),
            false => self.skip_event(),
        }
    }

    /// Writes a custom event of that name, if it is wanted.
    pub(super) fn send_custom<T: Serialize>(
        &mut self,
        name: &str,
        event: ChannelEvent<'_, impl FnOnce() -> T>,
    ) {
        match self.filter.has_custom(name) {
            true => self.send_if_admitted(event),
            false => self.skip_event(),
        }
    }

    fn send_if_admitted<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let within = Arc::clone(&self.namespace);
        let here = within.split('|').filter(|segment| !segment.is_empty());
        let namespace: Vec<&str> = here.chain(event.namespace.iter().copied()).collect();
        match self.filter.admits_namespace(&namespace) {
            true => self.write_event(ChannelEvent { namespace: &namespace, ..event }),
            false => self.skip_event(),
        }
    }

    /// Leaves out an event that this client's filter keeps from being made.
    pub(super) fn skip_event(&mut self) {
        self.take_ordinal();
    }

    /// Numbers an event, sent or not; returns its place within the frame.
    fn take_ordinal(&mut self) -> u32 {
        let part = self.next_ordinal;
        self.last_number = sequence_number(self.position, part).max(self.last_number + 1);
        self.next_ordinal += 1;
        part
    }

    fn write_event<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let part = self.take_ordinal();
        if self.last_number <= self.filter.since {
            return;
        }
        let FramePosition { seq, sub } = self.position;
        let run = self.run_id.map(|run_id| run_id.to_string()).unwrap_or_default();
        let params = EventParams {
            namespace: event.namespace,
            timestamp: self.clock.as_millisecond(),
            data: (event.data)(),
            node: event.node,
        };
        let key = format!("{run}:{seq}-{sub}-{part}{}", self.id_suffix);
        let envelope =
            EventEnvelope { kind: "event", key, seq: self.last_number, method: event.method, params };
        sse::write_event(&mut self.bytes, event.method, &envelope, Some(self.last_number));
    }
}

impl StreamWriter for ChannelWriter {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn take_bytes(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn write_raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_2_numbers_are_ordered_and_fit_into_a_double() {
        let at = |seq, sub, part| sequence_number(FramePosition { seq, sub }, part);
        let step = |number: u32| number << FRAME_COUNT_BITS;
        let places = [
            at(1, 0, 0),
            at(1, 0, 1),
            at(1, 0, 5_000),
            at(1, 1, 0),
            at(1, 900_000, 0),
            at(1, step(1), 0),
            at(1, step(1) + 1, 0),
            at(1, step(9), 0),
            at(1, step(100), 0),
            at(2, 0, 0),
        ];
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
        assert!(at((1 << 26) - 1, u32::MAX, u32::MAX) < 1 << 53);
        assert_eq!(position_of_number(at(7, 12, 3)), FramePosition { seq: 7, sub: 12 });
        assert_eq!(position_of_number(at(7, step(2) + 1, 3)), FramePosition { seq: 7, sub: step(2) + 1 });
    }
}
