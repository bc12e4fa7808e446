//! Server-sent events: how one is written, and the response that carries them. What is sent, and when, is decided by
//! whoever gives the body.

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, BytesMut};
use futures::Stream;
use serde::Serialize;

/// How often a client that waits is told that the server is there.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// The heartbeat: a comment, which is not an event.
pub(crate) const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The last event of a stream that is over.
pub(crate) const END_EVENT: &[u8] = b"event: end\ndata: null\n\n";

/// Bytes gathered before they are handed over, so that a burst of events costs one write.
pub(crate) const CHUNK_BYTES: usize = 32 * 1024;

/// Writes one event behind what is in `out`. Only values that are JSON are given, and JSON never breaks a line.
pub(crate) fn write_event(
    out: &mut BytesMut,
    name: impl Display,
    data: &impl Serialize,
    id: Option<impl Display>,
) {
    use std::fmt::Write;
    let begun = out.len();
    let written = write!(out, "event: {name}\ndata: ").is_ok()
        && serde_json::to_writer(out.writer(), data).is_ok()
        && match id {
            Some(id) => write!(out, "\nid: {id}\n\n").is_ok(),
            None => write!(out, "\n\n").is_ok(),
        };
    if !written {
        // Half an event would be taken for a whole one.
        out.truncate(begun);
    }
}

/// Returns the response that sends `chunks` as they come; its head goes out at once.
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

/// Returns the heartbeat's clock: regular for as long as the stream lives, whatever else is sent.
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

    fn written(name: &str, data: &serde_json::Value, id: Option<&str>) -> String {
        let mut out = BytesMut::new();
        write_event(&mut out, name, data, id);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn s8_an_event_is_name_data_and_id_each_on_one_line() {
        assert_eq!(
            written("values", &json!({"text": "one\ntwo\r\n"}), Some("4-1-0")),
            "event: values\ndata: {\"text\":\"one\\ntwo\\r\\n\"}\nid: 4-1-0\n\n"
        );
        assert_eq!(written("end", &json!(null), None), "event: end\ndata: null\n\n");
        assert_eq!(written("end", &json!(null), None).as_bytes(), END_EVENT);
    }

    #[tokio::test(start_paused = true)]
    async fn i3_the_heartbeat_is_regular_from_the_first_to_the_last() {
        let begun = tokio::time::Instant::now();
        let mut heartbeat = heartbeat_interval();
        for beat in 1..=100u32 {
            heartbeat.tick().await;
            assert_eq!(begun.elapsed(), HEARTBEAT_INTERVAL * beat);
            // Whatever is sent in between takes its time and shifts nothing.
            tokio::time::advance(Duration::from_millis(u64::from(beat) * 49)).await;
        }
    }
}
