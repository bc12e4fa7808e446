//! Event ids, and the cursor that a reconnecting client sends as `Last-Event-ID`.
//!
//! An event id is a position in the thread's journal. It stays valid after the stream from which the client read it
//! is gone, and in every process.

use std::fmt;

use agent::FramePosition;
use protocol::Seq;

/// The id of an event. Ids are ordered like the events of a stream. The text form is `<seq>-<sub>-<index>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// The position of the frame from which the event was made.
    pub(crate) position: FramePosition,
    /// The number of the event among those that can be made from one frame.
    pub(crate) index: u32,
}

/// The position at which a reconnecting client continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// The oldest frame that is available.
    Beginning,
    /// The first event after this one.
    After(EventId),
    /// The id of an event of another server or thread. Its position here is unknown.
    Foreign,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.position.seq, self.position.sub, self.index)
    }
}

impl Cursor {
    /// Returns the cursor for a thread whose last event is `last_seq`. An id after that event cannot be of this
    /// thread, and becomes [`Cursor::Foreign`].
    pub(crate) fn clamp_to_thread(self, last_seq: Seq) -> Self {
        match self {
            Self::After(id) if id.position.seq > last_seq => Self::Foreign,
            Self::Beginning | Self::After(_) | Self::Foreign => self,
        }
    }

    /// Parses a `Last-Event-ID`; returns `None` if it is malformed.
    ///
    /// An empty text, `-`, `-1` and `0` mean the beginning. One or two numbers, such as the ids of the reference
    /// server, are foreign, and so are three numbers of which one is out of range.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if ["-", "-1", "0", ""].contains(&text) {
            return Some(Self::Beginning);
        }
        let mut parts = text.split('-').map(str::parse::<u64>);
        let numbers = (parts.next(), parts.next(), parts.next(), parts.next());
        match numbers {
            (Some(Ok(seq)), Some(Ok(sub)), Some(Ok(index)), None) => {
                let (Ok(sub), Ok(index)) = (u32::try_from(sub), u32::try_from(index)) else {
                    return Some(Self::Foreign);
                };
                Some(Self::After(EventId { position: FramePosition { seq, sub }, index }))
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
    fn i1_an_id_after_the_end_of_the_thread_is_foreign() {
        let cursor = |text: &str| Cursor::parse(text).unwrap().clamp_to_thread(12);
        assert_eq!(
            cursor("12-3-1"),
            Cursor::After(EventId { position: FramePosition { seq: 12, sub: 3 }, index: 1 })
        );
        assert_eq!((cursor("13-0-0"), cursor("-1")), (Cursor::Foreign, Cursor::Beginning));
    }

    #[test]
    fn i2_an_id_parses_back_to_itself() {
        let id = EventId { position: FramePosition { seq: 40, sub: 2 }, index: 1 };
        assert_eq!(Cursor::parse(&id.to_string()), Some(Cursor::After(id)));
        assert!(id < EventId { position: FramePosition { seq: 40, sub: 10 }, index: 0 });
    }
}
