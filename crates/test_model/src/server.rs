//! The server: records each request and plays the next reply. It runs on its own thread, so that tests with and without an
//! async runtime can use it. Dropping it stops it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{oneshot, watch};

use crate::format::{SseEvent, WireFormat};
use crate::script::{Gate, GatePosition, Script, ScriptedEmbeddings, ScriptedFault, ScriptedReply};

/// The failure to start a server.
#[derive(Debug, thiserror::Error)]
#[error("start a scripted server on the loopback interface: {0}")]
pub struct Error(#[from] io::Error);

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers; names are lowercase.
    pub headers: BTreeMap<String, String>,
    /// The body as JSON, or as a string if it is not JSON.
    pub body: Value,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct ScriptedServer {
    url: String,
    shared: Arc<SharedPlayback>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the server's handlers share with the test.
#[derive(Debug)]
struct SharedPlayback {
    state: Mutex<PlaybackState>,
    /// Number of requests.
    calls: watch::Sender<usize>,
    /// Number of clients that disconnected while a reply hung or stalled.
    disconnects: watch::Sender<usize>,
    /// Number of connections.
    connections: watch::Sender<usize>,
    /// Names of the open gates.
    open_gates: watch::Sender<BTreeSet<String>>,
    /// The embedding model.
    embeddings: Option<ScriptedEmbeddings>,
}

/// The progress of the script.
#[derive(Debug)]
struct PlaybackState {
    /// The replies, each with a flag that is true when it is used up.
    replies: Vec<(ScriptedReply, bool)>,
    /// The newest requests, at most `requests_kept`.
    requests: VecDeque<RawRequest>,
    requests_kept: usize,
    /// Number of requests.
    calls: usize,
}

/// A request whose body is not parsed. Bodies are parsed on demand, because a benchmark sends many and reads few.
#[derive(Debug)]
struct RawRequest {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl RawRequest {
    fn to_recorded(&self) -> RecordedRequest {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes())));
        RecordedRequest {
            method: self.method.to_string(),
            path: self.uri.to_string(),
            headers: headers.collect(),
            body: self.body(),
        }
    }

    fn body(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&self.body).into_owned()))
    }
}

impl ScriptedServer {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// If no port can be bound, or the thread cannot be started.
    pub fn start(script: Script) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let replies = script.replies.into_iter().map(|reply| (reply, false)).collect();
        let requests_kept = script.requests_kept.unwrap_or(usize::MAX);
        let state = Mutex::new(PlaybackState { replies, requests: VecDeque::new(), requests_kept, calls: 0 });
        let shared = Arc::new(SharedPlayback {
            state,
            calls: watch::Sender::new(0),
            disconnects: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            open_gates: watch::Sender::new(BTreeSet::new()),
            embeddings: script.embeddings,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let app = Router::new()
            .fallback(handle_request)
            .layer(DefaultBodyLimit::disable())
            .with_state(shared.clone());
        let arriving = shared.clone();
        let thread = std::thread::Builder::new().name("scripted".to_owned()).spawn(move || {
            runtime.block_on(async {
                let serve = async {
                    let listener = tokio::net::TcpListener::from_std(listener)?.tap_io(move |connection| {
                        arriving.connections.send_modify(|connections| *connections += 1);
                        // Small pieces are sent at once. If the option fails, the server is only slower.
                        let _ = connection.set_nodelay(true);
                    });
                    axum::serve(listener, app).await
                };
                tokio::select! {
                    // This ends only if the listener fails. Clients then see their connections fail.
                    _ = serve => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { url, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the base URL of the server, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the recorded requests in order: all, or the newest if the script limits them.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.state.lock().requests.iter().map(RawRequest::to_recorded).collect()
    }

    /// Returns the number of requests so far.
    pub fn call_count(&self) -> usize {
        self.shared.state.lock().calls
    }

    /// Returns the number of connections so far.
    pub fn connection_count(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Opens a gate for all replies that wait at it and all later ones. A request to `/gates/NAME` does the same.
    pub fn open_gate(&self, gate: &str) {
        self.shared.open_gate(gate);
    }

    /// Waits until the server has received `count` requests in total.
    pub async fn wait_for_calls(&self, count: usize) {
        // This fails only without a sender, and `self` owns one.
        let _ = self.shared.calls.subscribe().wait_for(|calls| *calls >= count).await;
    }

    /// Waits until `count` clients in total have disconnected while a reply hung or stalled.
    pub async fn wait_for_disconnects(&self, count: usize) {
        // This fails only without a sender, and `self` owns one.
        let _ = self.shared.disconnects.subscribe().wait_for(|disconnects| *disconnects >= count).await;
    }

    /// Blocks while the server runs, which is until the process is killed or the listener fails.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed there.
            let _ = thread.join();
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SharedPlayback {
    /// Records a request. Returns its number, and the reply for it if the script has one.
    fn take_reply(&self, request: RawRequest, format: WireFormat) -> (usize, Option<ScriptedReply>) {
        let path = request.uri.to_string();
        let body = OnceCell::new();
        let read = || body.get_or_init(|| request.body());
        let mut played = self.state.lock();
        let accepts =
            |reply: &ScriptedReply| reply.when.as_ref().is_none_or(|when| when.accepts(&path, format, read));
        let reply =
            played.replies.iter_mut().find(|(reply, used)| !used && accepts(reply)).map(|(reply, used)| {
                *used = !reply.always;
                reply.clone()
            });
        (self.record_request(&mut played, request), reply)
    }

    /// Records a request, and returns its number.
    fn record_request(&self, played: &mut PlaybackState, request: RawRequest) -> usize {
        played.requests.push_back(request);
        if played.requests.len() > played.requests_kept {
            played.requests.pop_front();
        }
        played.calls += 1;
        self.calls.send_replace(played.calls);
        played.calls
    }

    /// Opens a gate.
    fn open_gate(&self, gate: &str) {
        self.open_gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Waits until the reply's gate is open, if the gate is at this position.
    async fn wait_at_gate(&self, gate: Option<&Gate>, position: GatePosition) {
        if let Some(gate) = gate.filter(|gate| gate.at == position) {
            // This fails only without a sender, and `self` owns one.
            let _ = self.open_gates.subscribe().wait_for(|open| open.contains(&gate.name)).await;
        }
    }
}

/// A guard inside a hanging reply. It is dropped when the client disconnects, and then counts the disconnect.
struct HangGuard(Arc<SharedPlayback>);

impl Drop for HangGuard {
    fn drop(&mut self) {
        self.0.disconnects.send_modify(|disconnects| *disconnects += 1);
    }
}

/// Handles a request: opens a gate, or plays the reply for the request. Without a reply, the response is a status 500 that
/// clients may retry at once.
async fn handle_request(
    State(shared): State<Arc<SharedPlayback>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(gate) = uri.path().strip_prefix("/gates/") {
        shared.open_gate(gate);
        return StatusCode::NO_CONTENT.into_response();
    }
    if let Some(model) = shared.embeddings.clone().filter(|_| uri.path().ends_with("/embeddings")) {
        return embed(shared, model, RawRequest { method, uri, headers, body }).await;
    }
    let Some(format) = WireFormat::from_path(uri.path()) else {
        return (StatusCode::NOT_FOUND, format!("no wire format is served at {}", uri.path()))
            .into_response();
    };
    match shared.take_reply(RawRequest { method, uri, headers, body }, format) {
        (number, Some(reply)) => {
            shared.wait_at_gate(reply.gate.as_ref(), GatePosition::Start).await;
            play_reply(format, &reply, number, shared).await
        }
        (number, None) => {
            let text = format!("the script has no reply for request {number}");
            let body = serde_json::json!({"error": {"message": text}}).to_string();
            (StatusCode::INTERNAL_SERVER_ERROR, [("retry-after", "0")], body).into_response()
        }
    }
}

/// Answers a request for embeddings in OpenAI's format.
async fn embed(shared: Arc<SharedPlayback>, model: ScriptedEmbeddings, request: RawRequest) -> Response {
    let body = request.body();
    let number = shared.record_request(&mut shared.state.lock(), request);
    if let Some(fault) = model.fault.clone().filter(|_| number > model.answers_before_fault) {
        let reply = ScriptedReply { fault: Some(fault), ..ScriptedReply::default() };
        return play_reply(WireFormat::Chat, &reply, number, shared).await;
    }
    let texts: Vec<&str> = match &body["input"] {
        Value::String(text) => vec![text],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => return (StatusCode::BAD_REQUEST, "`input` is no text").into_response(),
    };
    let is_too_long = |text: &&str| model.words_max.is_some_and(|max| text.split_whitespace().count() > max);
    if texts.iter().any(is_too_long) {
        return (StatusCode::BAD_REQUEST, "the input is too long").into_response();
    }
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| serde_json::json!({"object": "embedding", "index": index, "embedding": model.vector(text)}))
        .collect();
    let words: usize = texts.iter().map(|text| text.split_whitespace().count()).sum();
    let usage = serde_json::json!({"prompt_tokens": words, "total_tokens": words});
    let answer = serde_json::json!({"object": "list", "model": body["model"], "data": data, "usage": usage});
    ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response()
}

/// Returns the response of a reply, with its fault if it has one.
async fn play_reply(
    format: WireFormat,
    reply: &ScriptedReply,
    number: usize,
    shared: Arc<SharedPlayback>,
) -> Response {
    let events = format.events(reply, number);
    let content = events.content;
    match &reply.fault {
        None => match &reply.gate {
            Some(gate) if gate.at == GatePosition::End => {
                stream_response(reply, content, StreamEnding::Gated(shared, gate.clone(), events.end))
            }
            Some(_) | None => stream_response(
                reply,
                content.into_iter().chain(events.end).collect(),
                StreamEnding::Complete,
            ),
        },
        Some(ScriptedFault::Cut) => stream_response(reply, content, StreamEnding::Complete),
        Some(ScriptedFault::Half) => stream_response(reply, content, StreamEnding::Reset),
        Some(ScriptedFault::Stall) => stream_response(reply, content, StreamEnding::Never(HangGuard(shared))),
        Some(ScriptedFault::Empty) => stream_response(reply, Vec::new(), StreamEnding::Complete),
        Some(ScriptedFault::BrokenJson) => {
            let broken = SseEvent { name: None, data: "{\"type\":".to_owned() };
            stream_response(reply, content.into_iter().chain([broken]).collect(), StreamEnding::Complete)
        }
        Some(ScriptedFault::Overloaded) => stream_response(
            reply,
            content.into_iter().chain([format.overloaded_event()]).collect(),
            StreamEnding::Complete,
        ),
        Some(ScriptedFault::RepeatedEnd) => {
            let twice = events.end.into_iter().flat_map(|event| [event.clone(), event]);
            stream_response(reply, content.into_iter().chain(twice).collect(), StreamEnding::Complete)
        }
        Some(ScriptedFault::Hang) => {
            let _guard = HangGuard(shared);
            std::future::pending().await
        }
        Some(ScriptedFault::Status { status, headers, body }) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = (status, body.clone()).into_response();
            response.headers_mut().remove(CONTENT_TYPE);
            for (name, value) in headers {
                if let (Ok(name), Ok(value)) = (name.parse::<axum::http::HeaderName>(), value.parse()) {
                    response.headers_mut().insert(name, value);
                }
            }
            response
        }
    }
}

/// The end of a stream.
enum StreamEnding {
    /// A regular end of the body.
    Complete,
    /// A connection reset.
    Reset,
    /// No end until the client disconnects.
    Never(HangGuard),
    /// These events once the gate is open, then a regular end.
    Gated(Arc<SharedPlayback>, Gate, Vec<SseEvent>),
}

/// Returns a response that streams the events, in the pieces that the reply specifies, and then ends as specified.
fn stream_response(reply: &ScriptedReply, events: Vec<SseEvent>, ending: StreamEnding) -> Response {
    let chunks: Vec<Bytes> = match reply.piece_bytes {
        None => events.iter().map(|event| Bytes::from(event.to_wire())).collect(),
        Some(size) => {
            let wire: String = events.iter().map(SseEvent::to_wire).collect();
            wire.as_bytes().chunks(size.max(1)).map(Bytes::copy_from_slice).collect()
        }
    };
    // Yielding lets the connection write each piece on its own, so that none is lost when a fault follows.
    let chunks = stream::iter(chunks).then(|chunk| async move {
        tokio::task::yield_now().await;
        Ok::<_, io::Error>(chunk)
    });
    let body = match ending {
        StreamEnding::Complete => Body::from_stream(chunks),
        StreamEnding::Reset => {
            let broken = stream::once(async {
                tokio::task::yield_now().await;
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            });
            Body::from_stream(chunks.chain(broken))
        }
        StreamEnding::Never(guard) => {
            let never = stream::once(async move {
                let _guard = guard;
                std::future::pending().await
            });
            Body::from_stream(chunks.chain(never))
        }
        StreamEnding::Gated(shared, gate, end) => {
            let end = stream::once(async move {
                shared.wait_at_gate(Some(&gate), GatePosition::End).await;
                Ok(Bytes::from(end.iter().map(SseEvent::to_wire).collect::<String>()))
            });
            Body::from_stream(chunks.chain(end))
        }
    };
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}
