//! The writer of a thread's event stream: numbers the events, filters them, and writes them in their envelopes.
//!
//! Every event takes a number, whether it is sent or not, so that a number means the same on every connection. A client
//! that reconnects names the last number that it has received (`since`). The number encodes a [`FramePosition`], from
//! which the stream continues; [`sequence_number`] describes the layout.

use std::sync::Arc;

use agent::{FRAME_COUNT_BITS, FramePosition};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use protocol::{InterruptId, RunId, Seq};
use serde::Serialize;

use super::filter::EventFilter;
use crate::sse;
use crate::streams::follow::StreamWriter;

/// The number of low bits that hold the ordinal of an event among the events of its frame.
const ORDINAL_BITS: u32 = 10;

/// The number of bits that hold the position after a stored event: the steps since it, and the frames since the last
/// step. Together with the ordinal they leave 26 bits for the `seq` of the stored event within the 53 bits that a
/// client can represent exactly, because JSON numbers are doubles in JavaScript.
const SUB_BITS: u32 = 17;

/// The number of bits among [`SUB_BITS`] that count the frames since a step: enough for the frames that a stream keeps.
/// The other bits count steps.
const FRAME_BITS: u32 = 13;

/// Returns the number of an event: `seq`, steps, frames and ordinal, from the highest bits to the lowest.
///
/// Numbers are ordered like positions, and the same position always has the same number. A count that exceeds its bits
/// is clamped; [`ChannelWriter`] then increments the previous number instead, so that numbers still increase.
pub(super) fn sequence_number(position: FramePosition, ordinal: u32) -> u64 {
    let steps = u64::from(position.sub >> FRAME_COUNT_BITS);
    let frames = u64::from(position.sub & ((1 << FRAME_COUNT_BITS) - 1));
    let sub = steps << FRAME_BITS | frames.min((1 << FRAME_BITS) - 1);
    let sub = sub.min((1 << SUB_BITS) - 1);
    let ordinal = u64::from(ordinal.min((1 << ORDINAL_BITS) - 1));
    position.seq << (SUB_BITS + ORDINAL_BITS) | sub << ORDINAL_BITS | ordinal
}

/// Returns the frame position that a number encodes.
fn position_of_number(number: u64) -> FramePosition {
    let sub = number >> ORDINAL_BITS & ((1 << SUB_BITS) - 1);
    let (steps, frames) = (sub >> FRAME_BITS, sub & ((1 << FRAME_BITS) - 1));
    let sub = u32::try_from(steps << FRAME_COUNT_BITS | frames).unwrap_or(u32::MAX);
    FramePosition { seq: number >> (SUB_BITS + ORDINAL_BITS), sub }
}

/// An event before it has its number.
#[derive(Debug)]
pub(super) struct ChannelEvent<'a, T> {
    /// The channel that a client has to name in its filter to receive the event.
    pub(super) channel: &'a str,
    /// The event's name on the wire. It is the name of the channel, except for `input.requested` on the channel
    /// `input`.
    pub(super) method: &'a str,
    /// The namespace of the event, relative to the writer's current one.
    pub(super) namespace: &'a [&'a str],
    /// The graph node that the event comes from, if it belongs to one.
    pub(super) node: Option<&'a str>,
    /// The data of the event, or a closure that builds it for an event that is sent.
    pub(super) data: T,
}

impl<'a, T> ChannelEvent<'a, T> {
    /// Returns an event that is named like its channel, in the current namespace and without a node.
    pub(super) const fn new(channel: &'a str, data: T) -> Self {
        Self { channel, method: channel, namespace: &[], node: None, data }
    }
}

/// The envelope of an event, as it is sent.
#[derive(Debug, Serialize)]
struct EventEnvelope<'a, T> {
    /// Always `event`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The id of the event: unique in the thread, and the same on every connection, so that clients can drop
    /// duplicates.
    #[serde(rename = "event_id")]
    key: String,
    /// The number of the event.
    seq: u64,
    /// The event's name.
    method: &'a str,
    params: EventParams<'a, T>,
}

/// The parameters of an event, as they are sent.
#[derive(Debug, Serialize)]
struct EventParams<'a, T> {
    /// The absolute namespace; empty for the run itself.
    namespace: &'a [&'a str],
    /// The time of the newest stored event before this one, in milliseconds since the Unix epoch.
    timestamp: i64,
    data: T,
    /// The graph node that the event comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

/// The writer of a thread's events for one client.
#[derive(Debug)]
pub(crate) struct ChannelWriter {
    /// The events that were written and not yet taken, as server-sent events.
    bytes: BytesMut,
    /// The client's filter.
    pub(super) filter: EventFilter,
    /// The run of the next events; `None` for events outside runs.
    run_id: Option<RunId>,
    /// The namespace of the next events within the run, segments separated by `|`; empty for the run itself.
    namespace: Arc<str>,
    /// The position of the frame that the next events come from.
    position: FramePosition,
    /// The ordinal of the next event among the events of its frame, from 0.
    next_ordinal: u32,
    /// A suffix of the event ids. It distinguishes replayed events from the live events that had the same position,
    /// because a client that has received the live ones would drop events with known ids.
    id_suffix: String,
    /// The number of the last event, sent or not.
    last_number: u64,
    /// The newest creation time of a stored event so far. It never decreases.
    clock: Timestamp,
    /// The interrupts of the current run that were sent.
    sent_interrupts: Vec<InterruptId>,
}

impl ChannelWriter {
    /// Returns a writer that has not written anything.
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

    /// Starts the events of a run that was created at `since`.
    pub(crate) fn begin_run(&mut self, run_id: RunId, since: Timestamp) {
        self.run_id = Some(run_id);
        self.clock = self.clock.max(since);
        self.sent_interrupts.clear();
    }

    /// Marks an interrupt of the run as sent. Returns whether it had not been sent before.
    pub(super) fn mark_interrupt_sent(&mut self, interrupt_id: InterruptId) -> bool {
        let is_new = !self.sent_interrupts.contains(&interrupt_id);
        if is_new {
            self.sent_interrupts.push(interrupt_id);
        }
        is_new
    }

    /// Starts events that belong to no run and were stored at `seq`. The position never moves backwards.
    pub(super) fn leave_run(&mut self, seq: Seq) {
        self.run_id = None;
        if seq > self.position.seq {
            self.set_position(FramePosition { seq, sub: 0 });
        }
    }

    /// Sets the position of the frame that the next events come from.
    pub(super) fn set_position(&mut self, position: FramePosition) {
        self.position = position;
        self.next_ordinal = 0;
        self.id_suffix.clear();
    }

    /// Marks the next events as replayed from the journal, instead of the frames at this position. Their ids differ
    /// from those of the frames.
    pub(super) fn mark_replayed(&mut self) {
        "~".clone_into(&mut self.id_suffix);
    }

    /// Starts the events that replace all frames lost after `after`; they are numbered from `position`. They are sent
    /// whatever `since` the client named: even if the number lies after them, the client cannot have received them.
    pub(super) fn replace_lost_frames(&mut self, after: FramePosition, position: FramePosition) {
        self.set_position(position);
        self.id_suffix = format!("~{}-{}", after.seq, after.sub);
        self.last_number = self.last_number.max(self.filter.since);
    }

    /// Ignores the client's `since`, because it is not a number of this thread.
    pub(super) const fn forget_since(&mut self) {
        self.filter.since = 0;
    }

    /// Returns the position of the frame that the next events come from.
    pub(super) const fn position(&self) -> FramePosition {
        self.position
    }

    /// Returns the position up to which the client has received everything: the later one of the last frame and of the
    /// client's `since`.
    pub(super) fn client_position(&self) -> FramePosition {
        self.position.max(position_of_number(self.filter.since))
    }

    /// Advances the clock to the creation time of a stored event.
    pub(super) fn advance_clock(&mut self, created_at: Timestamp) {
        self.clock = self.clock.max(created_at);
    }

    /// Sets the namespace of the next events.
    pub(super) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.namespace = Arc::clone(namespace);
    }

    /// Writes an event if the client wants its channel and its namespace. The data is built only in that case.
    pub(super) fn send<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        match self.filter.has_channel(event.channel) {
            true => self.send_if_admitted(event),
            false => self.skip_event(),
        }
    }

    /// Writes a custom event with that name if the client wants the name and the namespace.
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

    /// Writes an event if the client wants its namespace, and takes its number in any case.
    fn send_if_admitted<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let current = Arc::clone(&self.namespace);
        let segments = current.split('|').filter(|segment| !segment.is_empty());
        let namespace: Vec<&str> = segments.chain(event.namespace.iter().copied()).collect();
        match self.filter.admits_namespace(&namespace) {
            true => self.write_event(ChannelEvent { namespace: &namespace, ..event }),
            false => self.skip_event(),
        }
    }

    /// Takes the number of an event that is not sent, because the client's filter excludes it or its data does not
    /// exist.
    pub(super) fn skip_event(&mut self) {
        self.take_ordinal();
    }

    /// Takes the next number. Returns the ordinal of the event within its frame.
    fn take_ordinal(&mut self) -> u32 {
        let ordinal = self.next_ordinal;
        self.last_number = sequence_number(self.position, ordinal).max(self.last_number + 1);
        self.next_ordinal += 1;
        ordinal
    }

    /// Writes an event with its number, unless the client has received that number.
    fn write_event<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let ordinal = self.take_ordinal();
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
        let key = format!("{run}:{seq}-{sub}-{ordinal}{}", self.id_suffix);
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
        let number = |seq, sub, ordinal| sequence_number(FramePosition { seq, sub }, ordinal);
        let step = |count: u32| count << FRAME_COUNT_BITS;
        let numbers = [
            number(1, 0, 0),
            number(1, 0, 1),
            number(1, 0, 5_000),
            number(1, 1, 0),
            number(1, 900_000, 0),
            number(1, step(1), 0),
            number(1, step(1) + 1, 0),
            number(1, step(9), 0),
            number(1, step(100), 0),
            number(2, 0, 0),
        ];
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(number((1 << 26) - 1, u32::MAX, u32::MAX) < 1 << 53);
        assert_eq!(position_of_number(number(7, 12, 3)), FramePosition { seq: 7, sub: 12 });
        assert_eq!(position_of_number(number(7, step(2) + 1, 3)), FramePosition { seq: 7, sub: step(2) + 1 });
    }
}
