//! Server-sent events: their serialization, the heartbeat, and the response that carries them. The content and the
//! order of the events are decided by the module that provides the response's body.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, BytesMut};
use futures::Stream;
use serde::Serialize;

/// Interval of the heartbeat, which shows a waiting client that the connection is alive.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// The bytes of a heartbeat. They are an SSE comment, so that clients do not see an event.
pub(crate) const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The bytes of the last event of a stream that ended regularly. A client that does not receive it reconnects.
pub(crate) const END_EVENT: &[u8] = b"event: end\ndata: null\n\n";

/// Bytes of events after which a chunk is sent. Available events are collected up to here, so that a burst of events
/// costs one write.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

/// Appends one event to `out`, with `data` serialized as JSON.
///
/// JSON on one line contains no line breaks, so that one `data:` line is enough. If `data` cannot be serialized,
/// nothing is appended.
pub(crate) fn write_event(
    out: &mut BytesMut,
    name: impl Display,
    data: &impl Serialize,
    id: Option<impl Display>,
) {
    use std::fmt::Write;
    let start = out.len();
    let written = write!(out, "event: {name}\ndata: ").is_ok()
        && serde_json::to_writer(out.writer(), data).is_ok()
        && match id {
            Some(id) => write!(out, "\nid: {id}\n\n").is_ok(),
            None => write!(out, "\n\n").is_ok(),
        };
    if !written {
        // A client would take the incomplete event for a complete one.
        out.truncate(start);
    }
}

/// Returns the response that sends each chunk as soon as it is available.
///
/// The head of the response is sent at once. The headers forbid caching, and buffering by nginx (`X-Accel-Buffering`).
pub(crate) fn event_stream_response(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures::StreamExt;
    let body = Body::from_stream(chunks.map(Ok::<_, Infallible>));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}

/// Returns the timer of the heartbeat. Its first tick is due after one interval; it ticks at fixed times, independent
/// of the events that are sent in between, and skips ticks that were missed.
pub(crate) fn heartbeat_interval() -> tokio::time::Interval {
    let mut interval =
        tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    interval
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render_event(name: &str, data: &serde_json::Value, id: Option<&str>) -> String {
        let mut out = BytesMut::new();
        write_event(&mut out, name, data, id);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn s8_an_event_is_name_data_and_id_each_on_one_line() {
        assert_eq!(
            render_event("values", &json!({"text": "one\ntwo\r\n"}), Some("4-1-0")),
            "event: values\ndata: {\"text\":\"one\\ntwo\\r\\n\"}\nid: 4-1-0\n\n"
        );
        assert_eq!(render_event("end", &json!(null), None), "event: end\ndata: null\n\n");
        assert_eq!(render_event("end", &json!(null), None).as_bytes(), END_EVENT);
    }

    #[tokio::test(start_paused = true)]
    async fn i3_the_heartbeat_is_regular_from_the_first_to_the_last() {
        let start = tokio::time::Instant::now();
        let mut heartbeat = heartbeat_interval();
        for beat in 1..=100u32 {
            heartbeat.tick().await;
            assert_eq!(start.elapsed(), HEARTBEAT_INTERVAL * beat);
            // The time that events take in between does not shift later ticks.
            tokio::time::advance(Duration::from_millis(u64::from(beat) * 49)).await;
        }
    }
}
