//! Reads the body of an answer: bytes to events to parts, with a limit on silence and on size. What an event means is
//! the decoder's business.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStreamError, Eventsource};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, Stream, StreamExt};
use reqwest::Response;

use crate::chat::Part;
use crate::wire::{Decoder, Fault, Progress};

/// Bytes of one answer at most; a server that sends more does not send an answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// How long the end of a body is waited for behind its answer.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Nothing arrived for too long.
    Silent,
    /// The connection broke.
    Closed,
    /// The answer is longer than any answer.
    TooLong,
    /// The stream ended before the answer did.
    Early,
    /// An event could not be read, or reports a failure.
    Fault(Fault),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "nothing arrived",
            Self::Closed => "the connection closed in the middle of the answer",
            Self::TooLong => "the answer has no end",
            Self::Early => "the stream ended before the answer did",
            Self::Fault(_) => "an event cannot be read",
        })
    }
}

impl std::error::Error for Stopped {}

type Events = BoxStream<'static, Result<eventsource_stream::Event, EventStreamError<Stopped>>>;

/// An answer that is being read.
pub(super) struct Reading {
    events: Events,
    /// `None` once the answer is over or reading stopped.
    decoder: Option<Box<dyn Decoder>>,
    ready: VecDeque<Part>,
}

impl Reading {
    pub(super) fn new(response: Response, decoder: Box<dyn Decoder>, silence_max: Duration) -> Self {
        let body = response.bytes_stream().map(|chunk| chunk.map_err(|_| Stopped::Closed));
        let events = bounded(body.boxed(), silence_max).eventsource().boxed();
        Self { events, decoder: Some(decoder), ready: VecDeque::new() }
    }

    /// Puts back a part that was taken.
    pub(super) fn put_back(&mut self, part: Part) {
        self.ready.push_front(part);
    }

    /// Returns the next part; `None` after the last one. After an error nothing follows.
    pub(super) async fn next(&mut self) -> Result<Option<Part>, Stopped> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Ok(Some(part));
            }
            let Some(mut decoder) = self.decoder.take() else { return Ok(None) };
            match step(self.events.next().await, decoder.as_mut())? {
                Step::On(parts) => {
                    self.ready.extend(parts);
                    self.decoder = Some(decoder);
                }
                Step::Over(parts) => {
                    self.ready.extend(parts);
                    self.ready.push_back(Part::Done(decoder.finish()));
                    read_to_end(std::mem::replace(&mut self.events, stream::empty().boxed()));
                }
            }
        }
    }
}

/// Reads what is left of a body whose answer is over, without making anyone wait: a connection that was read to its end
/// serves the next request, and one that was not is closed.
fn read_to_end(mut events: Events) {
    if matches!(events.next().now_or_never(), Some(None)) {
        return;
    }
    let rest = async move { while events.next().await.is_some_and(|event| event.is_ok()) {} };
    drop(tokio::spawn(tokio::time::timeout(END_WAIT_MAX, rest)));
}

enum Step {
    On(Vec<Part>),
    Over(Vec<Part>),
}

fn step(
    event: Option<Result<eventsource_stream::Event, EventStreamError<Stopped>>>,
    decoder: &mut dyn Decoder,
) -> Result<Step, Stopped> {
    let stopped = match event {
        Some(Ok(event)) if event.data.trim().is_empty() => return Ok(Step::On(Vec::new())),
        Some(Ok(event)) => {
            let parts = decoder.feed(&event.data).map_err(Stopped::Fault)?;
            return Ok(match decoder.progress() {
                Progress::Open | Progress::MayEnd => Step::On(parts),
                Progress::Over => Step::Over(parts),
            });
        }
        Some(Err(EventStreamError::Transport(stopped))) => stopped,
        Some(Err(EventStreamError::Utf8(_))) => return Err(unreadable("the stream is not UTF-8")),
        Some(Err(EventStreamError::Parser(_))) => return Err(unreadable("the stream is not made of events")),
        None => Stopped::Early,
    };
    match decoder.progress() {
        Progress::Open => Err(stopped),
        Progress::MayEnd | Progress::Over => Ok(Step::Over(Vec::new())),
    }
}

fn unreadable(reason: &str) -> Stopped {
    Stopped::Fault(Fault::Unreadable(reason.to_owned()))
}

/// Returns the body as it arrives, until it is too silent or too long. Silence is measured in bytes, so that comments
/// and pings count as life.
fn bounded(
    body: BoxStream<'static, Result<Bytes, Stopped>>,
    silence_max: Duration,
) -> impl Stream<Item = Result<Bytes, Stopped>> + Send {
    stream::try_unfold((body, 0_u64), move |(mut body, read)| async move {
        let chunk = tokio::time::timeout(silence_max, body.next()).await.map_err(|_| Stopped::Silent)?;
        let Some(chunk) = chunk.transpose()? else { return Ok(None) };
        let read = read + chunk.len() as u64;
        if read > ANSWER_BYTES_MAX {
            return Err(Stopped::TooLong);
        }
        Ok(Some((chunk, (body, read))))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    /// Returns what comes of chunks that arrive after these seconds each.
    async fn after(pauses: &[u64]) -> Vec<Result<Bytes, Stopped>> {
        let pauses: Vec<u64> = pauses.to_vec();
        let body = stream::iter(pauses).then(|seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Bytes::from_static(b": ping\n\n"))
        });
        bounded(body.boxed(), LIMIT).collect().await
    }

    #[tokio::test(start_paused = true)]
    async fn pings_are_life_and_silence_is_not() {
        assert!(after(&[299, 299, 299, 0]).await.iter().all(Result::is_ok));
        let silent = after(&[1, 301, 1]).await;
        assert_eq!(silent.len(), 2, "nothing follows silence");
        assert!(matches!(silent[1], Err(Stopped::Silent)));
    }

    #[tokio::test]
    async fn what_follows_an_answer_is_read_behind_it() {
        let event = |data: &str| eventsource_stream::Event { data: data.to_owned(), ..Default::default() };
        let (let_end, end) = tokio::sync::oneshot::channel::<()>();
        let (at_end, ended) = tokio::sync::oneshot::channel::<()>();
        let rest = stream::once(async move {
            end.await.expect("the test lets it end");
            at_end.send(()).expect("the test waits for it");
            Ok(event(""))
        });
        let events = stream::iter([Ok(event(r#"{"type":"message_stop"}"#))]).chain(rest).boxed();
        let name = "anthropic/m".parse().expect("a name");
        let decoder = crate::wire::decoder(&name, crate::wire::CallIds::of(Arc::default(), String::new()));
        let mut reading = Reading { events, decoder: Some(decoder), ready: VecDeque::new() };
        assert!(matches!(reading.next().await, Ok(Some(Part::Done(_)))), "nobody waits for the end");
        let_end.send(()).expect("the rest is being read");
        ended.await.expect("it is read to its end");
    }

    #[tokio::test]
    async fn an_answer_without_end_is_given_up() {
        let megabyte = Bytes::from(vec![b'x'; 1 << 20]);
        let body = stream::repeat_with(move || Ok(megabyte.clone()));
        let read: Vec<Result<Bytes, Stopped>> = bounded(body.boxed(), LIMIT).collect().await;
        assert_eq!(read.len() as u64, (ANSWER_BYTES_MAX >> 20) + 1);
        assert!(matches!(read.last(), Some(Err(Stopped::TooLong))));
    }
}
