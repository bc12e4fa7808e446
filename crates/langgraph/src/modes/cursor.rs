//! Ids of events, and what a client names by one when it comes back. An id is a place in the thread's journal, so that it
//! means the same whatever became of the stream it was read from.

use std::fmt;

use agent::FramePosition;
use protocol::Seq;

/// The id of one event of a stream: the place of the frame, and which of the events it became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) position: FramePosition,
    pub(crate) index: u32,
}

/// Where a client that comes back wants to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// At the beginning of what is kept.
    Beginning,
    /// Behind this event.
    After(EventId),
    /// Behind an event of another server: nothing is known of its place here.
    Foreign,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.position.seq, self.position.sub, self.index)
    }
}

impl Cursor {
    /// Returns the same in a thread whose last event is `last_seq`: a place behind that is one of another thread or server.
    pub(crate) fn clamp_to_thread(self, last_seq: Seq) -> Self {
        match self {
            Self::After(id) if id.position.seq > last_seq => Self::Foreign,
            Self::Beginning | Self::After(_) | Self::Foreign => self,
        }
    }

    /// Returns what `text`, a `Last-Event-ID`, names; `None` when it is no id of any server.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if ["-", "-1", "0", ""].contains(&text) {
            return Some(Self::Beginning);
        }
        let mut parts = text.split('-').map(str::parse::<u64>);
        let numbers = (parts.next(), parts.next(), parts.next(), parts.next());
        match numbers {
            (Some(Ok(seq)), Some(Ok(sub)), Some(Ok(n)), None) => {
                let (Ok(sub), Ok(n)) = (u32::try_from(sub), u32::try_from(n)) else {
                    return Some(Self::Foreign);
                };
                Some(Self::After(EventId { position: FramePosition { seq, sub }, index: n }))
            }
            (Some(Ok(_)), None | Some(Ok(_)), None, None) => Some(Self::Foreign),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_every_last_event_id_has_a_defined_meaning() {
        let id =
            |seq, sub, n| Some(Cursor::After(EventId { position: FramePosition { seq, sub }, index: n }));
        let cases = [
            ("-1", Some(Cursor::Beginning)),
            ("-", Some(Cursor::Beginning)),
            ("0", Some(Cursor::Beginning)),
            ("", Some(Cursor::Beginning)),
            (" 12-3-1 ", id(12, 3, 1)),
            ("0-1-0", id(0, 1, 0)),
            ("1763784000000-0", Some(Cursor::Foreign)),
            ("17", Some(Cursor::Foreign)),
            ("1-99999999999-0", Some(Cursor::Foreign)),
            ("12-3-1-4", None),
            ("12-3-x", None),
            ("abc", None),
            ("--", None),
            ("99999999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Cursor::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn i1_a_place_behind_the_end_of_a_thread_is_of_another_one() {
        let cursor = |text: &str| Cursor::parse(text).unwrap().clamp_to_thread(12);
        assert_eq!(
            cursor("12-3-1"),
            Cursor::After(EventId { position: FramePosition { seq: 12, sub: 3 }, index: 1 })
        );
        assert_eq!((cursor("13-0-0"), cursor("-1")), (Cursor::Foreign, Cursor::Beginning));
    }

    #[test]
    fn i2_an_id_reads_back_as_the_place_it_names() {
        let id = EventId { position: FramePosition { seq: 40, sub: 2 }, index: 1 };
        assert_eq!(Cursor::parse(&id.to_string()), Some(Cursor::After(id)));
        assert!(id < EventId { position: FramePosition { seq: 40, sub: 10 }, index: 0 });
    }
}
