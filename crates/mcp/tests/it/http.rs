//! Calls of a server over HTTP.

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

struct HttpFixtureServer {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl HttpFixtureServer {
    async fn at(address: &str) -> Self {
        let stop = CancellationToken::new();
        let config = StreamableHttpServerConfig::default().with_cancellation_token(stop.child_token());
        let service: StreamableHttpService<FixtureServer, LocalSessionManager> =
            StreamableHttpService::new(|| Ok(FixtureServer::new("plain")), Default::default(), config);
        let router = Router::new().nest_service("/mcp", service).layer(from_fn(with_key));
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

async fn with_key(request: Request, next: Next) -> Response {
    if request.headers().get("x-key").is_some_and(|key| key == "k") {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "who are you?").into_response()
}

#[tokio::test]
async fn a_tool_is_called_over_http() {
    let world = McpFixture::new();
    let served = HttpFixtureServer::at("127.0.0.1:0").await;
    let servers =
        world.connect(&[("s", served.server_config("k")), ("t", served.server_config("wrong"))]).await;
    assert_eq!(state(&servers, "s"), (McpServerState::Ready, String::new()));
    assert_eq!(world.call(&servers, "echo", "hello").await, "hello");
    let (state, reason) = state(&servers, "t");
    assert_eq!(state, McpServerState::Failed);
    assert!(reason.contains("401"), "{reason}");
    servers.close().await;
    served.stop().await;
}

#[tokio::test]
async fn a_server_that_went_away_and_came_back_is_found_again() {
    let world = McpFixture::new();
    let served = HttpFixtureServer::at("127.0.0.1:0").await;
    let address = served.address.to_string();
    let servers = world.connect(&[("s", served.server_config("k"))]).await;
    served.stop().await;
    let lost = world.call(&servers, "echo", "there?").await;
    assert!(lost.starts_with("error: The MCP server `s` "), "{lost}");
    let served = HttpFixtureServer::at(&address).await;
    assert_eq!(world.call(&servers, "echo", "there?").await, "there?");
    servers.close().await;
    served.stop().await;
}
