//! One connection to a server: opening it, listing its tools, making a call. It is made once and not repaired; when to
//! make another is the [`crate::server`]'s decision.

pub(crate) mod client;
pub(crate) mod process;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_types::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, JsonObject,
    PaginatedRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{ClientInitializeError, RequestHandle, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};
use secrecy::ExposeSecret;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::client::{ClientSession, ProgressWatch};
use self::process::{OUTPUT_BYTES_MAX, ProgramSpec, ServerProcess, ServerProcessGroup};
use crate::config::plan::{ServerDefinition, ServerTransport};
use crate::tool::listed_tool::ListedTool;

/// The most tools of one server that are listed at all.
const LISTED_TOOLS_MAX: usize = 20_000;
/// How long a call may take in all, whatever progress it tells of.
const CALL_TIME_MAX: Duration = Duration::from_secs(3_600);
/// How long a server has to end by itself once it is no longer needed.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
/// The most characters of a server's error that are repeated.
const ERROR_CHARS_MAX: usize = 2_000;

/// An open connection. Dropping it ends the server's program.
pub(crate) struct ServerConnection {
    session: RunningService<RoleClient, ClientSession>,
    process: Option<ServerProcess>,
}

/// Where a server's program runs and writes its log, and who can end it.
pub(crate) struct ProcessContext<'a> {
    pub workspace: &'a Path,
    pub log: &'a Path,
    /// Told which processes the newest connection has.
    pub group: &'a Mutex<ServerProcessGroup>,
}

/// One call of a tool.
pub(crate) struct ToolCallRequest<'a> {
    /// The tool, by the server's name for it.
    pub tool: &'a str,
    pub args: JsonObject,
    /// The receivers of its progress notifications.
    pub watch: ProgressWatch,
    /// Cancelled when nobody waits any more.
    pub cancel: &'a CancellationToken,
    /// How long it may take without a sign of progress.
    pub timeout: Duration,
}

/// Why a call has no result.
pub(crate) enum CallFailure {
    /// The server answered with an error.
    ServerError(String),
    /// The connection is gone; nobody knows what the call had done.
    ConnectionLost(String),
    /// It took too long, and the server was told to stop.
    TimedOut(Duration),
    /// The run was stopped, and the server was told to stop.
    Cancelled,
}

/// Why a first word was not answered as it should be.
enum HandshakeFailure {
    /// The server speaks only the protocol that has no greeting.
    InitializeUnsupported,
    Other(String),
}

impl ServerConnection {
    /// Opens a connection and lists the server's tools, both before `definition`'s start timeout ends.
    pub async fn open(
        definition: &ServerDefinition,
        place: &ProcessContext<'_>,
    ) -> Result<(Self, Vec<ListedTool>), String> {
        let deadline = Instant::now() + definition.start_timeout;
        let greeting = ClientLifecycleMode::Initialize;
        let connection = match Self::perform_handshake(definition, place, greeting, deadline).await {
            Err(HandshakeFailure::InitializeUnsupported) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                Self::perform_handshake(definition, place, discover, deadline).await
            }
            other => other,
        };
        let connection = connection.map_err(|refusal| match refusal {
            HandshakeFailure::InitializeUnsupported => "it does not understand the protocol".to_owned(),
            HandshakeFailure::Other(reason) => reason,
        })?;
        let tools = connection.list_until(deadline).await?;
        Ok((connection, tools))
    }

    async fn perform_handshake(
        definition: &ServerDefinition,
        place: &ProcessContext<'_>,
        lifecycle: ClientLifecycleMode,
        deadline: Instant,
    ) -> Result<Self, HandshakeFailure> {
        match &definition.transport {
            ServerTransport::Program { command, args, env, cwd } => {
                let cwd =
                    cwd.as_ref().map_or_else(|| place.workspace.to_owned(), |cwd| place.workspace.join(cwd));
                let program = ProgramSpec { command, args, env, cwd, log: place.log };
                let (process, output, input) =
                    ServerProcess::start(&program, place.group).map_err(|error| {
                        HandshakeFailure::Other(format!("`{command}` cannot be started: {error}"))
                    })?;
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input)
                    .with_max_line_length(OUTPUT_BYTES_MAX);
                let running = start_session(transport, lifecycle, deadline, Some(&process)).await?;
                Ok(Self { session: running, process: Some(process) })
            }
            ServerTransport::Http { url, headers } => {
                let mut custom = HashMap::new();
                for (name, value) in headers {
                    let value = HeaderValue::from_str(value.expose_secret()).map(|mut value| {
                        value.set_sensitive(true);
                        value
                    });
                    match (HeaderName::from_bytes(name.as_bytes()), value) {
                        (Ok(name), Ok(value)) => custom.insert(name, value),
                        (_, _) => {
                            return Err(HandshakeFailure::Other(format!("the header `{name}` is not legal")));
                        }
                    };
                }
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(custom)
                    .max_sse_event_size(OUTPUT_BYTES_MAX);
                let transport = StreamableHttpClientTransport::from_config(config);
                let running = start_session(transport, lifecycle, deadline, None).await?;
                Ok(Self { session: running, process: None })
            }
        }
    }

    /// Returns whether nothing can come of it any more.
    pub fn is_closed(&self) -> bool {
        self.session.is_closed() || self.session.is_transport_closed()
    }

    /// Returns whether the server said that its tools changed since this was asked last.
    pub fn take_tools_changed(&self) -> bool {
        self.session.service().take_tools_changed()
    }

    /// Lists the server's tools, within `time`.
    pub async fn list_tools(&self, time: Duration) -> Result<Vec<ListedTool>, String> {
        if let Some(process) = &self.process {
            process.reset_allowance();
        }
        self.list_until(Instant::now() + time).await
    }

    async fn list_until(&self, deadline: Instant) -> Result<Vec<ListedTool>, String> {
        if self.session.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
            return Ok(Vec::new());
        }
        let mut listed = Vec::new();
        let mut cursor = None;
        loop {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let page = match timeout_at(deadline, self.session.list_tools(Some(page))).await {
                Ok(Ok(page)) => page,
                Ok(Err(error)) => {
                    return Err(format!("its tools cannot be listed: {}", self.failure_text(error).await));
                }
                Err(_) => return Err("it did not list its tools in time".to_owned()),
            };
            let is_empty = page.tools.is_empty();
            listed.extend(page.tools.into_iter().map(ListedTool::from));
            match page.next_cursor {
                // A page that brings nothing, or one too many, ends the list of a server that never would.
                Some(next) if !is_empty && listed.len() < LISTED_TOOLS_MAX => cursor = Some(next),
                Some(_) | None => return Ok(listed),
            }
        }
    }

    /// Makes one call.
    pub async fn call_tool(&self, call: ToolCallRequest<'_>) -> Result<CallToolResult, CallFailure> {
        if let Some(process) = &self.process {
            process.reset_allowance();
        }
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.args);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let client = self.session.service();
        let watch = Arc::new(call.watch);
        let sent = client.send_watched(self.session.peer(), request, &watch).await;
        let mut handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(CallFailure::ConnectionLost(self.failure_text(error).await)),
        };
        let end = tokio::select! {
            biased;
            answer = &mut handle.rx => Ok(answer.unwrap_or(Err(ServiceError::TransportClosed))),
            () = call.cancel.cancelled() => Err(CallFailure::Cancelled),
            () = wait_for_silence(&watch.activity, call.timeout) => Err(CallFailure::TimedOut(call.timeout)),
            () = tokio::time::sleep(CALL_TIME_MAX) => Err(CallFailure::TimedOut(CALL_TIME_MAX)),
        };
        match end {
            Ok(answer) => self.check_response(answer).await,
            Err(failure) => {
                cancel_request(handle);
                Err(failure)
            }
        }
    }

    async fn check_response(
        &self,
        answer: Result<ServerResult, ServiceError>,
    ) -> Result<CallToolResult, CallFailure> {
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(CallFailure::ServerError("it asks for input, which Segue does not give".to_owned()))
            }
            Ok(_) => Err(CallFailure::ServerError("its answer is not what the protocol says".to_owned())),
            Err(ServiceError::McpError(error)) => Err(CallFailure::ServerError(format!(
                "{} (code {})",
                truncate_error(&error.message),
                error.code.0
            ))),
            Err(error) => Err(CallFailure::ConnectionLost(self.failure_text(error).await)),
        }
    }

    /// Returns what a person or a model can make of a failure.
    async fn failure_text(&self, error: ServiceError) -> String {
        match (error, &self.process) {
            (ServiceError::TransportClosed, Some(process)) => process.exit_reason().await,
            (ServiceError::TransportClosed, None) => "the connection is closed".to_owned(),
            (ServiceError::McpError(error), _) => truncate_error(&error.message),
            (ServiceError::TransportSend(error), _) => error_chain_text(&*error.error),
            (error, _) => error.to_string(),
        }
    }

    /// Lets the server end by itself for a moment, then ends it.
    pub async fn close(&self) {
        self.session.cancellation_token().cancel();
        if let Some(process) = &self.process {
            process.stop_within(CLOSE_TIME_MAX).await;
        }
    }
}

/// Speaks the first words over a transport.
async fn start_session<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    deadline: Instant,
    process: Option<&ServerProcess>,
) -> Result<RunningService<RoleClient, ClientSession>, HandshakeFailure>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let served = ClientSession::default().serve_with_lifecycle(transport, lifecycle);
    let error = match timeout_at(deadline, served).await {
        Ok(Ok(running)) => return Ok(running),
        Ok(Err(error)) => error,
        Err(_) => return Err(HandshakeFailure::Other("it did not answer in time".to_owned())),
    };
    match (error, process) {
        (ClientInitializeError::JsonRpcError(error), _)
            if matches!(
                error.code,
                ErrorCode::METHOD_NOT_FOUND | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
            ) =>
        {
            Err(HandshakeFailure::InitializeUnsupported)
        }
        (ClientInitializeError::JsonRpcError(error), _) => {
            Err(HandshakeFailure::Other(truncate_error(&error.message)))
        }
        (
            ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. },
            Some(process),
        ) => Err(HandshakeFailure::Other(process.exit_reason().await)),
        (ClientInitializeError::TransportError { error, .. }, None) => {
            Err(HandshakeFailure::Other(error_chain_text(&*error.error)))
        }
        (error, _) => Err(HandshakeFailure::Other(truncate_error(&error.to_string()))),
    }
}

/// Returns once there was no beat for `time`.
async fn wait_for_silence(beat: &Notify, time: Duration) {
    while tokio::time::timeout(time, beat.notified()).await.is_ok() {}
}

/// Tells the server that nobody waits for the answer. A server that does not listen is not waited for.
fn cancel_request(handle: RequestHandle<RoleClient>) {
    tokio::spawn(async move {
        let _ = handle.cancel(Some("nobody waits for the answer".to_owned())).await;
    });
}

/// Returns an error with what caused it.
fn error_chain_text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    truncate_error(&text)
}

fn truncate_error(text: &str) -> String {
    match text.char_indices().nth(ERROR_CHARS_MAX) {
        Some((end, _)) => format!("{} […]", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_starts_the_wait_anew() {
        let beat = Arc::new(Notify::new());
        let begun = Instant::now();
        let waiting = {
            let beat = Arc::clone(&beat);
            tokio::spawn(async move { wait_for_silence(&beat, Duration::from_secs(10)).await })
        };
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(9)).await;
            beat.notify_one();
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 55);
    }
}
