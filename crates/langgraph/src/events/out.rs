//! The sending end of a thread's event stream: envelopes with their numbers, those nobody wants left out. Every event is
//! numbered whether it is sent or not, so that a number means the same on every connection.

use std::sync::Arc;

use agent::{Position, STEP_BITS};
use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use protocol::{InterruptId, RunId, Seq};
use serde::Serialize;

use super::filter::Filter;
use crate::sse;
use crate::streams::follow::StreamWriter;

/// Bits of a number for what one frame became.
const PART_BITS: u32 = 10;

/// Bits for what came since an event. With those of the seq they make a number that every client can hold exactly.
const SUB_BITS: u32 = 17;

/// Bits of these for the frames since a step: as many as a stream keeps.
const FRAME_BITS: u32 = 13;

/// Returns the number of a place: in order, and the same whenever the place is event.
pub(super) fn number(at: Position, part: u32) -> u64 {
    let (steps, frames) = (u64::from(at.sub >> STEP_BITS), u64::from(at.sub & ((1 << STEP_BITS) - 1)));
    let sub = steps << FRAME_BITS | frames.min((1 << FRAME_BITS) - 1);
    let sub = sub.min((1 << SUB_BITS) - 1);
    let part = u64::from(part.min((1 << PART_BITS) - 1));
    at.seq << (SUB_BITS + PART_BITS) | sub << PART_BITS | part
}

/// Returns the place of a number.
fn place(number: u64) -> Position {
    let sub = number >> PART_BITS & ((1 << SUB_BITS) - 1);
    let (steps, frames) = (sub >> FRAME_BITS, sub & ((1 << FRAME_BITS) - 1));
    let sub = u32::try_from(steps << STEP_BITS | frames).unwrap_or(u32::MAX);
    Position { seq: number >> (SUB_BITS + PART_BITS), sub }
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
    /// What it says.
    pub(super) data: T,
}

impl<'a, T> ChannelEvent<'a, T> {
    /// Returns an event of the run's root that has its channel's name.
    pub(super) const fn new(channel: &'a str, data: T) -> Self {
        Self { channel, method: channel, namespace: &[], node: None, data }
    }
}

#[derive(Debug, Serialize)]
struct Envelope<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "event_id")]
    key: String,
    seq: u64,
    method: &'a str,
    params: Params<'a, T>,
}

#[derive(Debug, Serialize)]
struct Params<'a, T> {
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
    pub(super) filter: Filter,
    run_id: Option<RunId>,
    /// Where within the run the next events come from, divided by `|`; nothing is its root.
    within: Arc<str>,
    at: Position,
    part: u32,
    /// What tells an event from the one that had its place before, for clients that know that one.
    mark: String,
    /// The number of the last event, sent or not.
    last: u64,
    clock: Timestamp,
    /// The questions of the run that were sent.
    asked: Vec<InterruptId>,
}

impl ChannelWriter {
    pub(crate) fn new(filter: Filter) -> Self {
        let (at, clock) = (Position::default(), Timestamp::UNIX_EPOCH);
        let (bytes, mark) = (BytesMut::new(), String::new());
        let (within, asked) = ("".into(), Vec::new());
        Self { bytes, filter, run_id: None, within, at, part: 0, mark, last: 0, clock, asked }
    }

    /// Says whose events follow.
    pub(crate) fn of(&mut self, run_id: RunId, since: Timestamp) {
        self.run_id = Some(run_id);
        self.clock = self.clock.max(since);
        self.asked.clear();
    }

    /// Notes that a question of the run is sent; returns whether it was not before.
    pub(super) fn note_question(&mut self, interrupt_id: InterruptId) -> bool {
        let is_new = !self.asked.contains(&interrupt_id);
        if is_new {
            self.asked.push(interrupt_id);
        }
        is_new
    }

    /// Says that what follows comes of no run, and was stored at `seq`. What came before is not gone back behind.
    pub(super) fn beside_runs(&mut self, seq: Seq) {
        self.run_id = None;
        if seq > self.at.seq {
            self.set_position(Position { seq, sub: 0 });
        }
    }

    /// Says which frame the next events come of.
    pub(super) fn set_position(&mut self, position: Position) {
        self.at = position;
        self.part = 0;
        self.mark.clear();
    }

    /// Says that what follows is event instead of the frames of this place: under ids of its own.
    pub(super) fn retell(&mut self) {
        "~".clone_into(&mut self.mark);
    }

    /// Says that what follows stands at `position` for everything that was lost after `after`. However far the client says
    /// it is, it has had none of it.
    pub(super) fn instead(&mut self, after: Position, position: Position) {
        self.set_position(position);
        self.mark = format!("~{}-{}", after.seq, after.sub);
        self.last = self.last.max(self.filter.since);
    }

    /// Forgets the number that the client came with: it is none of this thread.
    pub(super) const fn forget_since(&mut self) {
        self.filter.since = 0;
    }

    /// Returns the place of what is event.
    pub(super) const fn place(&self) -> Position {
        self.at
    }

    /// Returns the place up to which the client has had everything: that of the last frame, or the one it came with.
    pub(super) fn had(&self) -> Position {
        self.at.max(place(self.filter.since))
    }

    /// Notes the moment of something that was stored.
    pub(super) fn clock(&mut self, at: Timestamp) {
        self.clock = self.clock.max(at);
    }

    /// Says from where within the run the next events come.
    pub(super) fn set_namespace(&mut self, namespace: &Arc<str>) {
        self.within = Arc::clone(namespace);
    }

    /// Writes an event of the channel, if it is wanted.
    pub(super) fn send<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        match self.filter.has(event.channel) {
            true => self.send_from_here(event),
            false => self.pass(),
        }
    }

    /// Writes a custom event of that name, if it is wanted.
    pub(super) fn send_custom<T: Serialize>(
        &mut self,
        name: &str,
        event: ChannelEvent<'_, impl FnOnce() -> T>,
    ) {
        match self.filter.has_custom(name) {
            true => self.send_from_here(event),
            false => self.pass(),
        }
    }

    fn send_from_here<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let within = Arc::clone(&self.within);
        let here = within.split('|').filter(|segment| !segment.is_empty());
        let namespace: Vec<&str> = here.chain(event.namespace.iter().copied()).collect();
        match self.filter.admits(&namespace) {
            true => self.write(ChannelEvent { namespace: &namespace, ..event }),
            false => self.pass(),
        }
    }

    /// Leaves out an event that this client's filter keeps from being made.
    pub(super) fn pass(&mut self) {
        self.count();
    }

    /// Numbers an event, sent or not; returns its place within the frame.
    fn count(&mut self) -> u32 {
        let part = self.part;
        self.last = number(self.at, part).max(self.last + 1);
        self.part += 1;
        part
    }

    fn write<T: Serialize>(&mut self, event: ChannelEvent<'_, impl FnOnce() -> T>) {
        let part = self.count();
        if self.last <= self.filter.since {
            return;
        }
        let Position { seq, sub } = self.at;
        let run = self.run_id.map(|run_id| run_id.to_string()).unwrap_or_default();
        let params = Params {
            namespace: event.namespace,
            timestamp: self.clock.as_millisecond(),
            data: (event.data)(),
            node: event.node,
        };
        let key = format!("{run}:{seq}-{sub}-{part}{}", self.mark);
        let envelope = Envelope { kind: "event", key, seq: self.last, method: event.method, params };
        sse::write(&mut self.bytes, event.method, &envelope, Some(self.last));
    }
}

impl StreamWriter for ChannelWriter {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s19_2_numbers_are_ordered_and_fit_into_a_double() {
        let at = |seq, sub, part| number(Position { seq, sub }, part);
        let step = |number: u32| number << STEP_BITS;
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
        assert_eq!(place(at(7, 12, 3)), Position { seq: 7, sub: 12 });
        assert_eq!(place(at(7, step(2) + 1, 3)), Position { seq: 7, sub: step(2) + 1 });
    }
}
