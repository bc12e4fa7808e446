//! The parsers of answers as pure functions, for fuzz targets. Compiled only with the feature `fuzzing`; no program uses it.

use std::sync::Arc;

use protocol::AiMessage;

use super::event_parser::{EventParser, StreamItem};
use crate::chat::AnswerPart;
use crate::name::ModelName;
use crate::wire::{AnswerProgress, CallIds, new_decoder};

/// The result of parsing an event stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedEventStream {
    /// The data of the events, in order.
    pub events: Vec<String>,
    /// The number of comments.
    pub comments: usize,
    /// The reason why the stream cannot be parsed further, if it cannot.
    pub fault: Option<String>,
    /// The number of bytes that were scanned or copied.
    pub bytes_handled: usize,
}

/// Parses an event stream that arrives in these chunks. A line or an event of more than `event_bytes_max` bytes is a fault.
pub fn parse_event_stream<'c>(
    chunks: impl IntoIterator<Item = &'c [u8]>,
    event_bytes_max: usize,
) -> ParsedEventStream {
    let mut parser = EventParser::new(event_bytes_max);
    let mut parsed = ParsedEventStream::default();
    for chunk in chunks {
        let outcome = parser.feed(chunk);
        while let Some(item) = parser.pop_item() {
            match item {
                StreamItem::Event(data) => parsed.events.push(data),
                StreamItem::Comment => parsed.comments += 1,
            }
        }
        if let Err(fault) = outcome {
            parsed.fault = Some(format!("{fault:?}"));
            break;
        }
    }
    parsed.bytes_handled = parser.bytes_handled;
    parsed
}

/// The result of decoding the events of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedAnswer {
    /// The parts that the events add, in order.
    pub parts: Vec<AnswerPart>,
    /// The reason why an event cannot be read, or the failure that it reports.
    pub fault: Option<String>,
    /// The answer with everything that has arrived.
    pub message: AiMessage,
}

/// Decodes the data of events as the answer of this model, up to its end or its first fault.
pub fn decode_answer(model: &ModelName, events: &[String]) -> DecodedAnswer {
    let mut decoder = new_decoder(model, CallIds::for_conversation(Arc::default(), "generated".to_owned()));
    let (mut parts, mut fault) = (Vec::new(), None);
    for event in events {
        match decoder.feed(event) {
            Ok(added) => parts.extend(added),
            Err(error) => {
                fault = Some(format!("{error:?}"));
                break;
            }
        }
        if decoder.progress() == AnswerProgress::Complete {
            break;
        }
    }
    DecodedAnswer { parts, fault, message: decoder.finish() }
}
