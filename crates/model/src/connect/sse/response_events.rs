//! The events of a response body, within limits of silence and of size. The idle timeout counts events and signs
//! of life, not bytes: a server that sends a line byte by byte does not keep a request alive.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use serde::Deserialize;
use tokio::time::Instant;

use super::ReadStop;
use super::event_parser::{EVENT_BYTES_MAX, EventParser, ParseFault, StreamItem};
use crate::wire::AnswerFault;

/// The most bytes of one answer. A server that sends more is not sending an answer: the longest answers of today, of 128,000
/// tokens with an event of 450 bytes for each, have half of it.
pub(super) const ANSWER_BYTES_MAX: u64 = 128 << 20;

/// The most events of one answer, eight for each of 128,000 tokens. An answer with more of them has no end.
pub(super) const ANSWER_EVENTS_MAX: u64 = 1 << 20;

/// The most JSON values of one event, estimated by the characters that begin or separate values. A decoded value takes at
/// least 32 bytes of memory, and may take only two bytes of the event. It allows eight for each of 128,000 tokens, because the
/// last event of an answer may contain all of it.
pub(super) const EVENT_VALUES_MAX: usize = 1 << 20;

/// The longest time with nothing but keep-alives, in idle timeouts. With the default idle timeout it is 20 minutes,
/// longer than any provider lets a request wait for its turn.
pub(super) const KEEP_ALIVE_TIMEOUTS_MAX: u32 = 10;

/// The most bytes of the data of a keep-alive event. Longer data is not parsed for a comparison.
const KEEP_ALIVE_BYTES_MAX: usize = 256;

/// The body of a response and the state of reading it.
struct ResponseEvents {
    /// The chunks of the body.
    body: BoxStream<'static, Result<Bytes, ReadStop>>,
    /// The parser of the events.
    parser: EventParser,
    /// The reason why the stream cannot be parsed further. It is reported after the events before it.
    fault: Option<ParseFault>,
    /// The bytes that were read.
    bytes_read: u64,
    /// The events that were read.
    events_read: u64,
    /// The longest time without an event or a keep-alive.
    idle_timeout: Duration,
    /// The time spent waiting since the last event or keep-alive.
    idle: Duration,
    /// The time spent waiting since the last event that is no keep-alive.
    without_progress: Duration,
}

/// Returns the data of the events of a body. The stream fails after `idle_timeout` without an event or a
/// keep-alive, after [`KEEP_ALIVE_TIMEOUTS_MAX`] times as long with nothing but keep-alives, over
/// [`ANSWER_BYTES_MAX`] bytes or [`ANSWER_EVENTS_MAX`] events, and when an event is too large or not UTF-8.
///
/// Keep-alives are comments, which DeepSeek and OpenRouter send while a request waits, and the events `ping` of
/// Anthropic and `keepalive` of OpenAI.
pub(super) fn read_events(
    body: BoxStream<'static, Result<Bytes, ReadStop>>,
    idle_timeout: Duration,
) -> impl Stream<Item = Result<String, ReadStop>> + Send {
    let events = ResponseEvents {
        body,
        parser: EventParser::new(EVENT_BYTES_MAX),
        fault: None,
        bytes_read: 0,
        events_read: 0,
        idle_timeout,
        idle: Duration::ZERO,
        without_progress: Duration::ZERO,
    };
    stream::try_unfold(events, |mut events| async move {
        let event = events.next_event().await?;
        Ok(event.map(|event| (event, events)))
    })
}

impl ResponseEvents {
    /// Returns the data of the next event, or `None` at the end of the body.
    async fn next_event(&mut self) -> Result<Option<String>, ReadStop> {
        loop {
            while let Some(item) = self.parser.pop_item() {
                self.idle = Duration::ZERO;
                if let StreamItem::Event(data) = item {
                    self.events_read += 1;
                    if self.events_read > ANSWER_EVENTS_MAX || has_too_many_values(&data) {
                        return Err(ReadStop::AnswerTooLarge);
                    }
                    if !is_keep_alive(&data) {
                        self.without_progress = Duration::ZERO;
                    }
                    return Ok(Some(data));
                }
            }
            match self.fault {
                None => {}
                Some(ParseFault::TooLarge) => return Err(ReadStop::EventTooLarge),
                Some(ParseFault::NotUtf8) => {
                    let reason = "the stream is not UTF-8".to_owned();
                    return Err(ReadStop::Fault(AnswerFault::Unreadable(reason)));
                }
            }
            let Some(chunk) = self.next_chunk().await? else { return Ok(None) };
            self.bytes_read += chunk.len() as u64;
            if self.bytes_read > ANSWER_BYTES_MAX {
                return Err(ReadStop::AnswerTooLarge);
            }
            self.fault = self.parser.feed(&chunk).err();
        }
    }

    /// Waits for the next chunk within the time limits. Only time spent here counts, so a slow reader of the
    /// events does not use up the limits.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, ReadStop> {
        let progress_timeout = self.idle_timeout.saturating_mul(KEEP_ALIVE_TIMEOUTS_MAX);
        let idle_left = self.idle_timeout.saturating_sub(self.idle);
        let progress_left = progress_timeout.saturating_sub(self.without_progress);
        let started_at = Instant::now();
        let chunk =
            tokio::time::timeout(idle_left.min(progress_left), self.body.next()).await.map_err(|_| {
                let after = if idle_left <= progress_left { self.idle_timeout } else { progress_timeout };
                ReadStop::IdleTimeout { after }
            })?;
        let waited = started_at.elapsed();
        self.idle += waited;
        self.without_progress += waited;
        chunk.transpose()
    }
}

/// Returns whether the data of an event has more than [`EVENT_VALUES_MAX`] JSON values. Separators in texts count too.
fn has_too_many_values(data: &str) -> bool {
    let separates = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    data.len() > EVENT_VALUES_MAX && data.bytes().filter(separates).count() > EVENT_VALUES_MAX
}

/// Returns whether the data of an event only says that the server is alive.
fn is_keep_alive(data: &str) -> bool {
    #[derive(Deserialize)]
    struct EventKind<'d> {
        #[serde(rename = "type", borrow)]
        kind: &'d str,
    }
    data.len() <= KEEP_ALIVE_BYTES_MAX
        && (data.trim().is_empty()
            || serde_json::from_str::<EventKind<'_>>(data)
                .is_ok_and(|event| matches!(event.kind, "ping" | "keepalive")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);
    const ANTHROPIC_PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    const OPENAI_PING: &str = "data: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n";
    const DELTA: &str = "data: {\"type\":\"content_block_delta\"}\n\n";

    /// Returns the result of reading a body that consists of these chunks, each after a delay in seconds, and then
    /// stays silent.
    async fn read_with_pauses(
        chunks: impl IntoIterator<Item = (u64, &'static str)>,
    ) -> (usize, ReadStop, u64) {
        let chunks: Vec<(u64, &str)> = chunks.into_iter().collect();
        let body = stream::iter(chunks)
            .then(|(seconds, chunk)| async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(Bytes::from_static(chunk.as_bytes()))
            })
            .chain(stream::pending());
        let started_at = Instant::now();
        let mut items: Vec<Result<String, ReadStop>> = read_events(body.boxed(), LIMIT).collect().await;
        let stop = items.pop().expect("reading stops").expect_err("the body has no end");
        assert!(items.iter().all(Result::is_ok), "nothing follows a failure");
        (items.len(), stop, started_at.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn events_and_keep_alives_reset_the_idle_timeout_and_bytes_do_not() {
        for chunk in [": ping\n\n", ANTHROPIC_PING, OPENAI_PING, DELTA] {
            let (_, stop, seconds) = read_with_pauses([(299, chunk), (299, chunk), (299, chunk)]).await;
            assert!(matches!(stop, ReadStop::IdleTimeout { after } if after == LIMIT), "{chunk}: {stop:?}");
            assert_eq!(seconds, 3 * 299 + 300, "{chunk}");
        }
        for chunk in ["x", "data: x\n", "event: ping\n", "\n"] {
            let (_, stop, seconds) = read_with_pauses(std::iter::repeat_n((100, chunk), 9)).await;
            assert!(matches!(stop, ReadStop::IdleTimeout { after } if after == LIMIT), "{chunk}: {stop:?}");
            assert_eq!(seconds, 300, "{chunk}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alives_alone_do_not_extend_an_answer_for_ever() {
        for chunk in [": keep-alive\n\n", ANTHROPIC_PING, OPENAI_PING] {
            let (_, stop, seconds) = read_with_pauses(std::iter::repeat_n((100, chunk), 99)).await;
            let limit = LIMIT * KEEP_ALIVE_TIMEOUTS_MAX;
            assert!(matches!(stop, ReadStop::IdleTimeout { after } if after == limit), "{chunk}: {stop:?}");
            assert_eq!(seconds, limit.as_secs(), "{chunk}");
        }
        let (events, stop, seconds) = read_with_pauses(std::iter::repeat_n((100, DELTA), 99)).await;
        assert!(matches!(stop, ReadStop::IdleTimeout { after } if after == LIMIT), "{stop:?}");
        assert_eq!((events, seconds), (99, 9_900 + 300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_does_not_use_up_the_idle_timeout() {
        let body = stream::iter([DELTA, DELTA, DELTA].map(|chunk| Ok(Bytes::from_static(chunk.as_bytes()))));
        let mut events = std::pin::pin!(read_events(body.boxed(), LIMIT));
        for _ in 0..3 {
            tokio::time::sleep(LIMIT * 20).await;
            assert!(matches!(events.next().await, Some(Ok(_))));
        }
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn events_before_a_damaged_one_are_read_also_if_they_arrive_together() {
        let text = b"data: a\n\ndata: b\n\ndata: \xff\n\n";
        for chunk_bytes in [1, 4, text.len()] {
            let chunks: Vec<_> =
                text.chunks(chunk_bytes).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            let items: Vec<_> = read_events(stream::iter(chunks).boxed(), LIMIT).collect().await;
            assert!(
                matches!(&items[..], [Ok(a), Ok(b), Err(ReadStop::Fault(_))] if a == "a" && b == "b"),
                "{items:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_answer_or_an_event_over_its_size_limit_fails() {
        let read = |chunk: Vec<u8>| async move {
            let chunk = Bytes::from(chunk);
            let body = stream::repeat_with(move || Ok(chunk.clone()));
            let items: Vec<Result<String, ReadStop>> = read_events(body.boxed(), LIMIT).collect().await;
            (items.len(), items.into_iter().last().expect("it fails"))
        };
        let (count, last) = read([b"data: ".as_slice(), &[b'x'; 1 << 20], b"\n\n"].concat()).await;
        assert!(matches!(last, Err(ReadStop::AnswerTooLarge)), "{last:?}");
        assert_eq!(count as u64, ANSWER_BYTES_MAX >> 20);
        let (count, last) = read(vec![b'x'; 1 << 20]).await;
        assert!(matches!(last, Err(ReadStop::EventTooLarge)), "{last:?}");
        assert_eq!(count, 1);
    }

    #[tokio::test]
    async fn an_answer_with_too_many_events_or_values_fails() {
        let read = |chunk: Vec<u8>| async move {
            let chunk = Bytes::from(chunk);
            let body = stream::repeat_with(move || Ok(chunk.clone()));
            let events = read_events(body.boxed(), LIMIT);
            events
                .fold((0, None), |(count, _), event| {
                    let (count, stop) = match event {
                        Ok(_) => (count + 1, None),
                        Err(stop) => (count, Some(stop)),
                    };
                    std::future::ready((count, stop))
                })
                .await
        };
        let (count, stop) = read(b"data: x\n\n".repeat(1 << 10)).await;
        assert!(matches!(stop, Some(ReadStop::AnswerTooLarge)), "{stop:?}");
        assert_eq!(count, ANSWER_EVENTS_MAX);
        for values in [EVENT_VALUES_MAX, EVENT_VALUES_MAX + 1] {
            let event = [b"data: ".as_slice(), &b"[".repeat(values), b"\n\n"].concat();
            let fitting = ANSWER_BYTES_MAX / event.len() as u64;
            let (count, stop) = read(event).await;
            assert!(matches!(stop, Some(ReadStop::AnswerTooLarge)), "{stop:?}");
            assert_eq!(count, if values == EVENT_VALUES_MAX { fitting } else { 0 });
        }
    }
}
