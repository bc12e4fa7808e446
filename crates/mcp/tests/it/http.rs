//! Calls to a server over HTTP.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use mcp::McpServerState;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fixture::FixtureServer;
use crate::world::{McpFixture, state};

/// A running HTTP server that requires the header `X-Key: k`.
struct HttpFixtureServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpFixtureServer {
    async fn start(address: &str) -> Self {
        let stop = CancellationToken::new();
        let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.child_token());
        let service: StreamableHttpService<FixtureServer, LocalSessionManager> =
            StreamableHttpService::new(|| Ok(FixtureServer::new("plain")), Default::default(), config);
        let router = Router::new().nest_service("/mcp", service).layer(from_fn(require_key));
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            axum::serve(listener, router).with_graceful_shutdown(stopped.cancelled_owned()).await.unwrap();
        });
        Self { address, stop, task }
    }

    fn server_config(&self, key: &str) -> Value {
        json!({"url": format!("http://{}/mcp", self.address), "headers": {"X-Key": key}})
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

async fn require_key(request: Request, next: Next) -> Response {
    if request.headers().get("x-key").is_some_and(|key| key == "k") {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "who are you?").into_response()
}

#[tokio::test]
async fn a_tool_is_called_over_http() {
    let world = McpFixture::new();
    let server = HttpFixtureServer::start("127.0.0.1:0").await;
    let servers =
        world.connect(&[("s", server.server_config("k")), ("t", server.server_config("wrong"))]).await;
    assert_eq!(state(&servers, "s"), (McpServerState::Ready, String::new()));
    assert_eq!(world.call(&servers, "echo", "hello").await, "hello");
    let (state, reason) = state(&servers, "t");
    assert_eq!(state, McpServerState::Failed);
    assert!(reason.contains("401"), "{reason}");
    servers.close().await;
    server.stop().await;
}

#[tokio::test]
async fn a_restarted_server_is_connected_again() {
    let world = McpFixture::new();
    let server = HttpFixtureServer::start("127.0.0.1:0").await;
    let address = server.address.to_string();
    let servers = world.connect(&[("s", server.server_config("k"))]).await;
    server.stop().await;
    let lost = world.call(&servers, "echo", "there?").await;
    assert!(lost.starts_with("error: The ") && lost.contains("MCP server `s` "), "{lost}");
    let server = HttpFixtureServer::start(&address).await;
    assert_eq!(world.call(&servers, "echo", "there?").await, "there?");
    servers.close().await;
    server.stop().await;
}
