//! One connection to a server: the handshake, the list of tools, and calls. A broken connection is not repaired;
//! [`crate::server`] decides when to open another one.

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
use sandbox::{PrepareLaunch, ProgramLaunch, ProgramStart};
use secrecy::ExposeSecret;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use self::client::{ClientSession, ProgressWatch};
use self::process::{OUTPUT_BYTES_MAX, ProgramSpec, ServerProcess, ServerProcessGroup};
use crate::config::plan::{ServerDefinition, ServerTransport};
use crate::tool::listed_tool::ListedTool;

/// Number of listed tools of one server from which on no further page is requested.
const LISTED_TOOLS_MAX: usize = 20_000;
/// Time limit of a call, however much progress it reports.
const CALL_TIME_MAX: Duration = Duration::from_secs(3_600);
/// Time for a server's program to exit by itself after its connection was closed.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);
/// Maximum number of characters of a server's error message that are passed on.
const ERROR_CHARS_MAX: usize = 2_000;

/// An open connection. Dropping it kills the server's program.
pub(crate) struct ServerConnection {
    /// The protocol session.
    session: RunningService<RoleClient, ClientSession>,
    /// The server's program; `None` over HTTP.
    process: Option<ServerProcess>,
}

/// The environment of a server's program: its folder, its log, and a handle for killing it.
pub(crate) struct ProcessContext<'a> {
    /// The workspace, in which the program runs by default.
    pub workspace: &'a Path,
    /// Prepares the sandbox of the program; `None` without a sandbox.
    pub sandbox: Option<&'a PrepareLaunch>,
    /// The file for the program's standard error output.
    pub log: &'a Path,
    /// Receives the process group as soon as the program is started, so that it can be killed during the handshake.
    pub group: &'a Mutex<ServerProcessGroup>,
}

/// One call of a tool.
pub(crate) struct ToolCallRequest<'a> {
    /// The tool, by the server's name for it.
    pub tool: &'a str,
    /// The call's arguments.
    pub args: JsonObject,
    /// The receiver of the call's progress notifications.
    pub watch: ProgressWatch,
    /// Cancels the call.
    pub cancel: &'a CancellationToken,
    /// Time limit without a progress notification.
    pub timeout: Duration,
}

/// The reason why a call has no result.
pub(crate) enum CallFailure {
    /// The server answered with an error.
    ServerError(String),
    /// The connection was lost. The effect of the call is unknown.
    ConnectionLost(String),
    /// The time limit passed, and the server was told to stop.
    TimedOut(Duration),
    /// The run was stopped, and the server was told to stop.
    Cancelled,
}

/// The reason why a handshake failed.
enum HandshakeFailure {
    /// The server supports only the lifecycle without an `initialize` request.
    InitializeUnsupported,
    /// Any other reason.
    Other(String),
}

impl ServerConnection {
    /// Opens a connection and lists the server's tools, within the start timeout of `definition`. If the server does
    /// not support the `initialize` request, a second handshake uses the lifecycle mode `Discover`.
    ///
    /// Dropping the future kills a program that was started.
    ///
    /// # Errors
    /// Returns the reason if the program cannot be started, the handshake fails or the time limit passes.
    pub async fn open(
        definition: &ServerDefinition,
        context: &ProcessContext<'_>,
    ) -> Result<(Self, Vec<ListedTool>), String> {
        let deadline = Instant::now() + definition.start_timeout;
        let initialize = ClientLifecycleMode::Initialize;
        let connection = match Self::perform_handshake(definition, context, initialize, deadline).await {
            Err(HandshakeFailure::InitializeUnsupported) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let discover = ClientLifecycleMode::Discover { preferred_versions };
                Self::perform_handshake(definition, context, discover, deadline).await
            }
            other => other,
        };
        let connection = connection.map_err(|failure| match failure {
            HandshakeFailure::InitializeUnsupported => "it does not understand the protocol".to_owned(),
            HandshakeFailure::Other(reason) => reason,
        })?;
        let tools = connection.list_until(deadline).await?;
        Ok((connection, tools))
    }

    /// Starts the program or prepares the HTTP transport, and performs one handshake.
    async fn perform_handshake(
        definition: &ServerDefinition,
        context: &ProcessContext<'_>,
        lifecycle: ClientLifecycleMode,
        deadline: Instant,
    ) -> Result<Self, HandshakeFailure> {
        match &definition.transport {
            ServerTransport::Program { command, args, env, cwd } => {
                let workspace = context.workspace;
                let cwd = cwd.as_ref().map_or_else(|| workspace.to_owned(), |cwd| workspace.join(cwd));
                let program = ProgramSpec { command, args, env, cwd, log: context.log };
                let not_started = |error: &dyn std::fmt::Display| {
                    HandshakeFailure::Other(format!("`{command}` cannot be started: {error}"))
                };
                let launch = match context.sandbox {
                    Some(prepare) => {
                        prepare_launch(prepare, &program).await.map_err(|reason| not_started(&reason))?
                    }
                    None => ProgramLaunch::default(),
                };
                let (process, output, input) = ServerProcess::start(&program, &launch, context.group)
                    .map_err(|error| not_started(&error))?;
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input)
                    .with_max_line_length(OUTPUT_BYTES_MAX);
                let session = start_session(transport, lifecycle, deadline, Some(&process)).await?;
                Ok(Self { session, process: Some(process) })
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
                http_client::install_crypto_provider();
                let config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .custom_headers(custom)
                    .max_sse_event_size(OUTPUT_BYTES_MAX);
                let transport = StreamableHttpClientTransport::from_config(config);
                let session = start_session(transport, lifecycle, deadline, None).await?;
                Ok(Self { session, process: None })
            }
        }
    }

    /// Returns whether the session or its transport is closed, so that calls can no longer succeed.
    pub fn is_closed(&self) -> bool {
        self.session.is_closed() || self.session.is_transport_closed()
    }

    /// Returns whether the server announced a change of its tools since the last call of this function, and resets the
    /// flag.
    pub fn take_tools_changed(&self) -> bool {
        self.session.service().take_tools_changed()
    }

    /// Lists the server's tools, within `time`.
    ///
    /// # Errors
    /// Returns the reason if the server answers with an error, the connection is lost or the time passes.
    pub async fn list_tools(&self, time: Duration) -> Result<Vec<ListedTool>, String> {
        if let Some(process) = &self.process {
            process.reset_allowance();
        }
        self.list_until(Instant::now() + time).await
    }

    /// Requests all pages of the tool list until the deadline. A server without the capability `tools` has none.
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
                // An empty page and the limit end the list, because a faulty server may return cursors for ever.
                Some(next) if !is_empty && listed.len() < LISTED_TOOLS_MAX => cursor = Some(next),
                Some(_) | None => return Ok(listed),
            }
        }
    }

    /// Calls a tool and waits for its result.
    ///
    /// On a timeout or a cancellation, the server gets a cancel notification. Dropping the future sends none, and the
    /// server may continue.
    ///
    /// # Errors
    /// Returns the [`CallFailure`] if there is no result.
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
        let outcome = tokio::select! {
            biased;
            response = &mut handle.rx => Ok(response.unwrap_or(Err(ServiceError::TransportClosed))),
            () = call.cancel.cancelled() => Err(CallFailure::Cancelled),
            () = wait_for_silence(&watch.activity, call.timeout) => Err(CallFailure::TimedOut(call.timeout)),
            () = tokio::time::sleep(CALL_TIME_MAX) => Err(CallFailure::TimedOut(CALL_TIME_MAX)),
        };
        match outcome {
            Ok(response) => self.check_response(response).await,
            Err(failure) => {
                cancel_request(handle);
                Err(failure)
            }
        }
    }

    /// Returns the result in a response, or the failure that it stands for.
    async fn check_response(
        &self,
        response: Result<ServerResult, ServiceError>,
    ) -> Result<CallToolResult, CallFailure> {
        match response {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(CallFailure::ServerError("it requests input, which Segue does not support".to_owned()))
            }
            Ok(_) => Err(CallFailure::ServerError("its response does not follow the protocol".to_owned())),
            Err(ServiceError::McpError(error)) => Err(CallFailure::ServerError(format!(
                "{} (code {})",
                truncate_error(&error.message),
                error.code.0
            ))),
            Err(error) => Err(CallFailure::ConnectionLost(self.failure_text(error).await)),
        }
    }

    /// Returns the text of a failure for the user and the model. If the transport of a program has closed, the text
    /// gives the reason why the program ended, for which this waits at most a second.
    async fn failure_text(&self, error: ServiceError) -> String {
        match (error, &self.process) {
            (ServiceError::TransportClosed, Some(process)) => process.exit_reason().await,
            (ServiceError::TransportClosed, None) => "the connection is closed".to_owned(),
            (ServiceError::McpError(error), _) => truncate_error(&error.message),
            (ServiceError::TransportSend(error), _) => error_chain_text(&*error.error),
            (error, _) => error.to_string(),
        }
    }

    /// Closes the session, waits at most [`CLOSE_TIME_MAX`] for the program to exit, and then kills it.
    pub async fn close(&self) {
        self.session.cancellation_token().cancel();
        if let Some(process) = &self.process {
            process.stop_within(CLOSE_TIME_MAX).await;
        }
    }
}

/// Prepares the sandbox of a program on a blocking thread.
///
/// # Errors
/// Returns the reason if the program cannot be started in the sandbox.
async fn prepare_launch(prepare: &PrepareLaunch, program: &ProgramSpec<'_>) -> Result<ProgramLaunch, String> {
    let (prepare, folder, path) = (Arc::clone(prepare), program.cwd.clone(), program.path());
    let prepared =
        tokio::task::spawn_blocking(move || prepare(&ProgramStart { folder: &folder, program: &path }));
    prepared.await.unwrap_or_else(|_| Err("the sandbox cannot be prepared".to_owned()))
}

/// Performs the handshake over a transport. `process` is the program behind the transport; it supplies the reason if
/// the program ends during the handshake.
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
    let handshake = ClientSession::default().serve_with_lifecycle(transport, lifecycle);
    let error = match timeout_at(deadline, handshake).await {
        Ok(Ok(session)) => return Ok(session),
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

/// Waits until `activity` has not been notified for `time`.
async fn wait_for_silence(activity: &Notify, time: Duration) {
    while tokio::time::timeout(time, activity.notified()).await.is_ok() {}
}

/// Sends a cancel notification for a request, in the background, because the server may not read its input.
fn cancel_request(handle: RequestHandle<RoleClient>) {
    tokio::spawn(async move {
        let _ = handle.cancel(Some("nobody waits for the answer".to_owned())).await;
    });
}

/// Returns an error's text with the texts of its sources, without repetitions.
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

/// Returns the first [`ERROR_CHARS_MAX`] characters of an error's text.
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
    async fn activity_restarts_the_timeout() {
        let activity = Arc::new(Notify::new());
        let started_at = Instant::now();
        let wait = {
            let activity = Arc::clone(&activity);
            tokio::spawn(async move { wait_for_silence(&activity, Duration::from_secs(10)).await })
        };
        for _ in 0..5 {
            tokio::time::advance(Duration::from_secs(9)).await;
            activity.notify_one();
            tokio::task::yield_now().await;
        }
        wait.await.unwrap();
        assert_eq!(started_at.elapsed().as_secs(), 55);
    }
}
