//! An OpenTelemetry collector for tests: it accepts spans over OTLP/HTTP and stores them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span as Wire;
use prost::Message;
use serde_json::{Value, json};

/// Maximum time to wait for expected spans.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A decoded span.
#[derive(Debug, Clone)]
pub struct CollectedSpan {
    pub name: String,
    pub trace_id: String,
    pub span_id: String,
    pub parent_id: String,
    /// Trace id and span id of each link.
    pub links: Vec<(String, String)>,
    pub attributes: BTreeMap<String, Value>,
    /// Status message of a failed span.
    pub failure: Option<String>,
    /// Resource attributes of the exporting process.
    pub resource: BTreeMap<String, Value>,
}

/// Contents of all requests so far.
#[derive(Debug, Default)]
struct CollectedRequests {
    spans: Vec<CollectedSpan>,
    headers: Vec<String>,
    bytes: Vec<u8>,
}

/// A running collector.
pub struct TraceCollector {
    pub url: String,
    received: Arc<(Mutex<CollectedRequests>, Condvar)>,
}

impl TraceCollector {
    /// Starts a collector on a free port.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<(Mutex<CollectedRequests>, Condvar)>::default();
        let store = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = Arc::clone(&store);
                std::thread::spawn(move || serve_connection(&stream, &store));
            }
        });
        Self { url, received }
    }

    /// Waits until the condition is true of the received spans, and returns them.
    pub fn wait_for_spans(&self, is_enough: impl Fn(&[CollectedSpan]) -> bool) -> Vec<CollectedSpan> {
        let (received, changed) = &*self.received;
        let waiting = |received: &mut CollectedRequests| !is_enough(&received.spans);
        let (received, wait_result) =
            changed.wait_timeout_while(received.lock().unwrap(), WAIT_MAX, waiting).unwrap();
        let names: Vec<&str> = received.spans.iter().map(|span| span.name.as_str()).collect();
        assert!(!wait_result.timed_out(), "received only these spans: {names:?}");
        received.spans.clone()
    }

    /// Returns the header lines of all requests, in lower case.
    pub fn headers(&self) -> Vec<String> {
        self.received.0.lock().unwrap().headers.clone()
    }

    /// Returns whether the bytes of any request body contain this text.
    pub fn has_received(&self, text: &str) -> bool {
        let bytes = &self.received.0.lock().unwrap().bytes;
        bytes.windows(text.len()).any(|resource_spans| resource_spans == text.as_bytes())
    }
}

/// Answers all requests of one connection.
fn serve_connection(stream: &TcpStream, store: &(Mutex<CollectedRequests>, Condvar)) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        store_request(store, head, body);
        let mut stream = stream;
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
            )
            .unwrap();
    }
}

fn store_request(
    (received, changed): &(Mutex<CollectedRequests>, Condvar),
    head: Vec<String>,
    body: Vec<u8>,
) {
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let mut received = received.lock().unwrap();
    for resource_spans in request.resource_spans {
        let resource = decode_attributes(
            &resource_spans.resource.map(|resource| resource.attributes).unwrap_or_default(),
        );
        let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
        received.spans.extend(spans.map(|span| decode_span(span, &resource)));
    }
    received.headers.extend(head);
    received.bytes.extend(body);
    changed.notify_all();
}

fn decode_span(span: Wire, resource: &BTreeMap<String, Value>) -> CollectedSpan {
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "{span:?}");
    CollectedSpan {
        trace_id: format_hex(&span.trace_id),
        span_id: format_hex(&span.span_id),
        parent_id: format_hex(&span.parent_span_id),
        links: span
            .links
            .iter()
            .map(|link| (format_hex(&link.trace_id), format_hex(&link.span_id)))
            .collect(),
        attributes: decode_attributes(&span.attributes),
        failure: span.status.filter(|status| status.code == 2).map(|status| status.message),
        name: span.name,
        resource: resource.clone(),
    }
}

fn decode_attributes(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |pair: &KeyValue| pair.value.as_ref().map_or(Value::Null, decode_value);
    attributes.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

fn decode_value(value: &AnyValue) -> Value {
    match &value.value {
        Some(any_value::Value::StringValue(text)) => json!(text),
        Some(any_value::Value::BoolValue(value)) => json!(value),
        Some(any_value::Value::IntValue(number)) => json!(number),
        Some(any_value::Value::DoubleValue(number)) => json!(number),
        Some(any_value::Value::ArrayValue(items)) => items.values.iter().map(decode_value).collect(),
        _ => Value::Null,
    }
}

fn format_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
