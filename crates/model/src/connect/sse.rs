//! Reading of an answer: bytes become events, and events become parts, within limits of silence and of size. The
//! decoder interprets the events.

mod event_parser;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod response_events;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use reqwest::Response;

use crate::chat::AnswerPart;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress};
use event_parser::EVENT_BYTES_MAX;
use response_events::read_events;

/// The time limit for reading the end of a body after the answer is complete.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// The reason why reading stopped.
#[derive(Debug)]
pub(super) enum ReadStop {
    /// No event arrived within a time limit.
    IdleTimeout {
        /// The time limit.
        after: Duration,
    },
    /// The connection broke.
    Closed,
    /// The answer has more bytes, events or values than an answer can have.
    AnswerTooLarge,
    /// An event of the answer is larger than [`EVENT_BYTES_MAX`].
    EventTooLarge,
    /// The stream ended before the answer was complete.
    Truncated,
    /// An event could not be read, or it reports a failure of the provider.
    Fault(AnswerFault),
}

impl fmt::Display for ReadStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IdleTimeout { .. } => "no event arrived",
            Self::Closed => "the connection closed in the middle of the answer",
            Self::AnswerTooLarge | Self::Fault(AnswerFault::TooLarge) => "the answer exceeds the size limit",
            Self::EventTooLarge => {
                return write!(f, "an event exceeds the size limit of {} MiB", EVENT_BYTES_MAX >> 20);
            }
            Self::Truncated => "the stream ended before the answer was complete",
            Self::Fault(_) => "an event cannot be read",
        })
    }
}

impl std::error::Error for ReadStop {}

/// The data of the events of a response body.
type SseStream = BoxStream<'static, Result<String, ReadStop>>;

/// A reader of one answer.
pub(super) struct AnswerReader {
    /// The events that were not read yet.
    events: SseStream,
    /// The decoder of the events; `None` once the answer is complete or reading stopped.
    decoder: Option<Box<dyn AnswerDecoder>>,
    /// Parts that were decoded and not returned yet.
    pending_parts: VecDeque<AnswerPart>,
}

impl AnswerReader {
    /// Returns a reader for the body of `response`.
    pub(super) fn new(response: Response, decoder: Box<dyn AnswerDecoder>, idle_timeout: Duration) -> Self {
        let body = response.bytes_stream().map(|chunk| chunk.map_err(|_| ReadStop::Closed));
        let events = read_events(body.boxed(), idle_timeout).boxed();
        Self { events, decoder: Some(decoder), pending_parts: VecDeque::new() }
    }

    /// Puts a part back, so that the next call of [`Self::next`] returns it.
    pub(super) fn put_back(&mut self, part: AnswerPart) {
        self.pending_parts.push_front(part);
    }

    /// Returns the next part, or `None` after the last one. After an error it returns `None`.
    pub(super) async fn next(&mut self) -> Result<Option<AnswerPart>, ReadStop> {
        loop {
            if let Some(part) = self.pending_parts.pop_front() {
                return Ok(Some(part));
            }
            let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
            match decode_event(self.events.next().await, decoder.as_mut())? {
                DecodeStep::Continue(parts) => {
                    self.pending_parts.extend(parts);
                    self.decoder = Some(decoder);
                }
                DecodeStep::Finished(parts) => {
                    self.pending_parts.extend(parts);
                    self.pending_parts.push_back(AnswerPart::Done(decoder.finish()));
                    drain_body(std::mem::replace(&mut self.events, stream::empty().boxed()));
                }
            }
        }
    }
}

/// Reads the rest of a body whose answer is complete, without delaying the caller. An HTTP connection is reused
/// only if its body was read to the end.
fn drain_body(mut events: SseStream) {
    if matches!(events.next().now_or_never(), Some(None)) {
        return;
    }
    let remaining = async move { while events.next().await.is_some_and(|event| event.is_ok()) {} };
    drop(tokio::spawn(tokio::time::timeout(END_WAIT_MAX, remaining)));
}

/// The result of decoding one event.
enum DecodeStep {
    /// The answer is incomplete. Contains the new parts.
    Continue(Vec<AnswerPart>),
    /// The answer is complete. Contains its last parts.
    Finished(Vec<AnswerPart>),
}

/// Decodes one event, or decides whether the answer is complete when the stream ended (`None`) or failed.
fn decode_event(
    event: Option<Result<String, ReadStop>>,
    decoder: &mut dyn AnswerDecoder,
) -> Result<DecodeStep, ReadStop> {
    let stop = match event {
        Some(Ok(data)) if data.trim().is_empty() => return Ok(DecodeStep::Continue(Vec::new())),
        Some(Ok(data)) => {
            let parts = decoder.feed(&data).map_err(ReadStop::Fault)?;
            return Ok(match decoder.progress() {
                AnswerProgress::Incomplete | AnswerProgress::MayEnd => DecodeStep::Continue(parts),
                AnswerProgress::Complete => DecodeStep::Finished(parts),
            });
        }
        // A stream that cannot be parsed is not an answer, even if the answer could end here.
        Some(Err(stop @ ReadStop::Fault(_))) => return Err(stop),
        Some(Err(stop)) => stop,
        None => ReadStop::Truncated,
    };
    match decoder.progress() {
        AnswerProgress::Incomplete => Err(stop),
        AnswerProgress::MayEnd | AnswerProgress::Complete => Ok(DecodeStep::Finished(Vec::new())),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn the_rest_of_a_body_is_read_after_its_answer_was_returned() {
        let (allow_end, end_allowed) = tokio::sync::oneshot::channel::<()>();
        let (report_end, ended) = tokio::sync::oneshot::channel::<()>();
        let remaining = stream::once(async move {
            end_allowed.await.expect("the test allows the end");
            report_end.send(()).expect("the test waits for it");
            Ok(String::new())
        });
        let events = stream::iter([Ok(r#"{"type":"message_stop"}"#.to_owned())]).chain(remaining).boxed();
        let name = "anthropic/m".parse().expect("a name");
        let decoder = crate::wire::new_decoder(
            &name,
            crate::wire::CallIds::for_conversation(Arc::default(), String::new()),
        );
        let mut reader = AnswerReader { events, decoder: Some(decoder), pending_parts: VecDeque::new() };
        assert!(
            matches!(reader.next().await, Ok(Some(AnswerPart::Done(_)))),
            "the answer does not wait for the end"
        );
        allow_end.send(()).expect("the rest of the body is being read");
        ended.await.expect("the body is read to its end");
    }
}
