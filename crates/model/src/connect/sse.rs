//! Reading of an answer: bytes become events, and events become parts, within limits of silence and of size. The
//! decoder interprets the events.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use reqwest::Response;

use crate::chat::AnswerPart;
use crate::wire::{AnswerDecoder, AnswerFault, AnswerProgress};

/// The most bytes of one answer. A server that sends more is not sending an answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The time limit for reading the end of a body after the answer is complete.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// The reason why reading stopped.
#[derive(Debug)]
pub(super) enum ReadStop {
    /// No data arrived within the idle timeout.
    IdleTimeout,
    /// The connection broke.
    Closed,
    /// The answer is larger than [`ANSWER_BYTES_MAX`].
    TooLong,
    /// The stream ended before the answer was complete.
    Truncated,
    /// An event could not be read, or it reports a failure of the provider.
    Fault(AnswerFault),
}

impl fmt::Display for ReadStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IdleTimeout => "no data arrived",
            Self::Closed => "the connection closed in the middle of the answer",
            Self::TooLong => "the answer exceeds the size limit",
            Self::Truncated => "the stream ended before the answer was complete",
            Self::Fault(_) => "an event cannot be read",
        })
    }
}

impl std::error::Error for ReadStop {}

/// The events of a response body.
type SseStream = BoxStream<'static, Result<eventsource_stream::Event, EventStreamError<ReadStop>>>;

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
        let events = bound_body(body.boxed(), idle_timeout).eventsource().boxed();
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
    event: Option<Result<eventsource_stream::Event, EventStreamError<ReadStop>>>,
    decoder: &mut dyn AnswerDecoder,
) -> Result<DecodeStep, ReadStop> {
    let stop = match event {
        Some(Ok(event)) if event.data.trim().is_empty() => return Ok(DecodeStep::Continue(Vec::new())),
        Some(Ok(event)) => {
            let parts = decoder.feed(&event.data).map_err(ReadStop::Fault)?;
            return Ok(match decoder.progress() {
                AnswerProgress::Incomplete | AnswerProgress::MayEnd => DecodeStep::Continue(parts),
                AnswerProgress::Complete => DecodeStep::Finished(parts),
            });
        }
        Some(Err(EventStreamError::Transport(stop))) => stop,
        Some(Err(EventStreamError::Utf8(_))) => return Err(unreadable_event("the stream is not UTF-8")),
        Some(Err(EventStreamError::Parser(_))) => {
            return Err(unreadable_event("the stream is not made of events"));
        }
        None => ReadStop::Truncated,
    };
    match decoder.progress() {
        AnswerProgress::Incomplete => Err(stop),
        AnswerProgress::MayEnd | AnswerProgress::Complete => Ok(DecodeStep::Finished(Vec::new())),
    }
}

/// Returns the fault of a stream that is not an event stream.
fn unreadable_event(reason: &str) -> ReadStop {
    ReadStop::Fault(AnswerFault::Unreadable(reason.to_owned()))
}

/// Limits a body: it fails after `idle_timeout` without data, and over [`ANSWER_BYTES_MAX`] bytes. Every byte
/// counts as data, including comments and pings.
fn bound_body(
    body: BoxStream<'static, Result<Bytes, ReadStop>>,
    idle_timeout: Duration,
) -> impl Stream<Item = Result<Bytes, ReadStop>> + Send {
    stream::try_unfold((body, 0_u64), move |(mut body, read)| async move {
        let chunk =
            tokio::time::timeout(idle_timeout, body.next()).await.map_err(|_| ReadStop::IdleTimeout)?;
        let Some(chunk) = chunk.transpose()? else { return Ok(None) };
        let read = read + chunk.len() as u64;
        if read > ANSWER_BYTES_MAX {
            return Err(ReadStop::TooLong);
        }
        Ok(Some((chunk, (body, read))))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    /// Returns the items of a body whose chunks arrive after these delays in seconds.
    async fn read_with_pauses(pauses: &[u64]) -> Vec<Result<Bytes, ReadStop>> {
        let pauses: Vec<u64> = pauses.to_vec();
        let body = stream::iter(pauses).then(|seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Bytes::from_static(b": ping\n\n"))
        });
        bound_body(body.boxed(), LIMIT).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn pings_reset_the_idle_timeout_and_silence_does_not() {
        assert!(read_with_pauses(&[299, 299, 299, 0]).await.iter().all(Result::is_ok));
        let silent = read_with_pauses(&[1, 301, 1]).await;
        assert_eq!(silent.len(), 2, "nothing follows silence");
        assert!(matches!(silent[1], Err(ReadStop::IdleTimeout)));
    }

    #[tokio::test]
    async fn the_rest_of_a_body_is_read_after_its_answer_was_returned() {
        let event = |data: &str| eventsource_stream::Event { data: data.to_owned(), ..Default::default() };
        let (allow_end, end_allowed) = tokio::sync::oneshot::channel::<()>();
        let (report_end, ended) = tokio::sync::oneshot::channel::<()>();
        let remaining = stream::once(async move {
            end_allowed.await.expect("the test allows the end");
            report_end.send(()).expect("the test waits for it");
            Ok(event(""))
        });
        let events = stream::iter([Ok(event(r#"{"type":"message_stop"}"#))]).chain(remaining).boxed();
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

    #[tokio::test]
    async fn an_answer_over_the_size_limit_fails() {
        let megabyte = Bytes::from(vec![b'x'; 1 << 20]);
        let body = stream::repeat_with(move || Ok(megabyte.clone()));
        let read: Vec<Result<Bytes, ReadStop>> = bound_body(body.boxed(), LIMIT).collect().await;
        assert_eq!(read.len() as u64, (ANSWER_BYTES_MAX >> 20) + 1);
        assert!(matches!(read.last(), Some(Err(ReadStop::TooLong))));
    }
}
