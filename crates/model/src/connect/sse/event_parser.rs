//! The parser of an event stream (server-sent events): chunks of bytes become the data of events. Every byte is
//! scanned once, however the events are split into chunks. Time limits are enforced in `response_events`.

use std::collections::VecDeque;

/// The most bytes of one line, and of the data of one event. The largest legitimate events contain images.
pub(super) const EVENT_BYTES_MAX: usize = 32 << 20;

/// The byte order mark, with which a stream may begin.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The reason why a stream cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParseFault {
    /// A line or an event is larger than the limit.
    TooLarge,
    /// The data of an event is not UTF-8.
    NotUtf8,
}

/// An item of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StreamItem {
    /// The data of an event. Events without data are skipped, as the standard says.
    Event(String),
    /// A comment. Servers send comments as a sign of life.
    Comment,
}

/// An incremental parser. It keeps the incomplete line and the incomplete event at the end of the input.
pub(super) struct EventParser {
    /// The limit for a line and for an event, in bytes.
    event_bytes_max: usize,
    /// The incomplete line.
    line: Vec<u8>,
    /// The data of the incomplete event, with a line feed after every line.
    data: Vec<u8>,
    /// True if the input so far ends with a carriage return. A line feed after it ends no second line.
    ends_with_return: bool,
    /// True until the first line is complete.
    is_first_line: bool,
    /// The items that were not returned yet.
    items: VecDeque<StreamItem>,
    /// The bytes that were scanned or copied so far.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) bytes_handled: usize,
}

impl EventParser {
    /// Returns a parser that accepts lines and events of up to `event_bytes_max` bytes.
    pub(super) const fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            line: Vec::new(),
            data: Vec::new(),
            ends_with_return: false,
            is_first_line: true,
            items: VecDeque::new(),
            #[cfg(any(test, feature = "fuzzing"))]
            bytes_handled: 0,
        }
    }

    /// Returns the next complete item.
    pub(super) fn pop_item(&mut self) -> Option<StreamItem> {
        self.items.pop_front()
    }

    /// Takes the next bytes of the stream. Takes time in proportion to their number.
    ///
    /// # Errors
    /// Fails when a line or an event is too large, or not UTF-8. Nothing can be parsed after that.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<(), ParseFault> {
        let mut rest = chunk;
        if chunk.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.ends_with_return) && rest.first() == Some(&b'\n') {
            rest = &rest[1..];
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            self.push_to_line(&rest[..end])?;
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            match (is_return, rest.first()) {
                (true, Some(b'\n')) => rest = &rest[1..],
                (true, None) => self.ends_with_return = true,
                (true, Some(_)) | (false, _) => {}
            }
            self.end_line()?;
        }
        self.push_to_line(rest)
    }

    /// Appends bytes to the incomplete line.
    fn push_to_line(&mut self, piece: &[u8]) -> Result<(), ParseFault> {
        self.count_handled(piece.len());
        if self.line.len() + piece.len() > self.event_bytes_max {
            return Err(ParseFault::TooLarge);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// Interprets the line, which is complete.
    fn end_line(&mut self) -> Result<(), ParseFault> {
        let mut buffer = std::mem::take(&mut self.line);
        self.count_handled(buffer.len());
        let mut line = buffer.as_slice();
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        match line {
            [] => self.end_event()?,
            [b':', ..] => self.items.push_back(StreamItem::Comment),
            // The other fields carry nothing that a decoder reads.
            _ => {
                if let Some(value) = data_value(line) {
                    if self.data.len() + value.len() > self.event_bytes_max {
                        return Err(ParseFault::TooLarge);
                    }
                    self.data.extend_from_slice(value);
                    self.data.push(b'\n');
                }
            }
        }
        // The allocation is used for the next line.
        buffer.clear();
        self.line = buffer;
        Ok(())
    }

    /// Ends the event and makes it an item if it has data.
    fn end_event(&mut self) -> Result<(), ParseFault> {
        let mut data = std::mem::take(&mut self.data);
        if data.pop().is_some() {
            self.count_handled(data.len());
            let data = String::from_utf8(data).map_err(|_| ParseFault::NotUtf8)?;
            self.items.push_back(StreamItem::Event(data));
        }
        Ok(())
    }

    /// Adds to the number of bytes that were scanned or copied.
    #[cfg(any(test, feature = "fuzzing"))]
    const fn count_handled(&mut self, bytes: usize) {
        self.bytes_handled += bytes;
    }

    /// Does nothing. Only tests count bytes.
    #[cfg(not(any(test, feature = "fuzzing")))]
    const fn count_handled(&mut self, _bytes: usize) {}
}

/// Returns the value of a line if its field is `data`.
fn data_value(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(data: &str) -> StreamItem {
        StreamItem::Event(data.to_owned())
    }

    /// Returns the items of a stream that arrives in chunks of this size.
    fn parse(stream: &[u8], chunk_bytes: usize) -> Result<Vec<StreamItem>, ParseFault> {
        let mut parser = EventParser::new(64);
        let mut items = Vec::new();
        for chunk in stream.chunks(chunk_bytes) {
            parser.feed(chunk)?;
            items.extend(std::iter::from_fn(|| parser.pop_item()));
        }
        Ok(items)
    }

    #[test]
    fn events_are_parsed_as_the_standard_says_for_every_size_of_chunks() {
        for (stream, expected) in [
            ("data: a\n\n", vec![event("a")]),
            ("data:a\n\ndata:  b\n\n", vec![event("a"), event(" b")]),
            ("data: a\r\n\r\ndata: b\r\rdata: c\n\r\n", vec![event("a"), event("b"), event("c")]),
            ("\u{feff}data: a\n\n", vec![event("a")]),
            ("data: a\ndata\ndata: b\n\n", vec![event("a\n\nb")]),
            ("data\n\n", vec![event("")]),
            ("event: ping\nid: 1\nretry: 9\n\n", vec![]),
            ("event: x\ndata: a\nid: 1\n\n", vec![event("a")]),
            ("datas: a\n\nDATA: b\n\n", vec![]),
            (": hi\n\n:\ndata: a\n\n", vec![StreamItem::Comment, StreamItem::Comment, event("a")]),
            ("data: Grüße 🦀 今天\n\n", vec![event("Grüße 🦀 今天")]),
            ("data: a: b\n\n", vec![event("a: b")]),
            ("data: a\n", vec![]),
            ("data: a", vec![]),
            ("", vec![]),
            ("\n\n\n", vec![]),
        ] {
            for chunk_bytes in 1..=stream.len().max(1) {
                let items = parse(stream.as_bytes(), chunk_bytes);
                assert_eq!(items.as_ref(), Ok(&expected), "{stream:?} in chunks of {chunk_bytes}");
            }
        }
    }

    #[test]
    fn lines_and_events_over_the_limit_and_other_encodings_are_refused() {
        let fits = format!("data: {}\n\n", "x".repeat(58));
        assert_eq!(parse(fits.as_bytes(), 7).map(|items| items.len()), Ok(1));
        let long_line = format!("data: {}", "x".repeat(59));
        let long_comment = format!(": {}", "x".repeat(63));
        let long_event = "data: xxxxxxx\n".repeat(9);
        for stream in [long_line, long_comment, long_event] {
            for chunk_bytes in [1, 7, stream.len()] {
                assert_eq!(parse(stream.as_bytes(), chunk_bytes), Err(ParseFault::TooLarge), "{stream}");
            }
        }
        assert_eq!(parse(b"data: \xff\n\n", 3), Err(ParseFault::NotUtf8));
        assert_eq!(parse(b": \xff\n\ndata: a\n\n", 3), Ok(vec![StreamItem::Comment, event("a")]));
    }

    /// Returns the bytes that the parser handles for one event of this size, in chunks of 8 KiB.
    fn bytes_handled(event_bytes: usize) -> usize {
        let mut parser = EventParser::new(EVENT_BYTES_MAX);
        let stream = format!("data: {}\n\n", "x".repeat(event_bytes));
        for chunk in stream.as_bytes().chunks(8 << 10) {
            parser.feed(chunk).expect("the event fits");
        }
        assert_eq!(parser.pop_item(), Some(event(&stream[6..stream.len() - 2])));
        parser.bytes_handled
    }

    /// A parser that searched the whole incomplete line after every chunk would handle four times as many bytes
    /// for twice the size.
    #[test]
    fn the_work_for_an_event_grows_in_proportion_to_its_size() {
        let (small, large) = (bytes_handled(8 << 20), bytes_handled(16 << 20));
        assert!(small < 4 * (8 << 20), "{small}");
        assert!(large <= 2 * small, "{small} for half of the size, {large} for the whole");
    }
}
