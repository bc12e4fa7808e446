//! Connections: accepts them up to a limit, serves each in its own task, and drains them at shutdown. This module does
//! not interpret requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::write_timeout::WriteTimeoutStream;

/// Maximum time in which a client must send the head of a request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause after a failed accept, for example because the process has no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Maximum time for sending responses at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// The connections that are still open after accepting has ended.
pub(crate) struct OpenConnections(GracefulShutdown);

impl OpenConnections {
    /// Waits until the responses in progress are sent, for [`DRAIN_TIMEOUT`] at most. Connections of clients that do not
    /// read are closed.
    pub async fn drain(self) {
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.0.shutdown()).await;
    }
}

/// Accepts connections until `shutdown`, with at most `connections_max` open at a time. Further ones wait in the listen
/// backlog of the system.
pub(crate) async fn accept_connections(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    shutdown: &CancellationToken,
) -> OpenConnections {
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS)));
    let service = TowerToHyperService::new(router);
    let mut is_exhausted = false;
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => break,
        };
        match (permit, accepted) {
            (Ok(permit), Ok((stream, _))) => {
                is_exhausted = false;
                spawn_connection(stream, service.clone(), &graceful, permit);
            }
            (_, Err(error)) if is_client_error(&error) => {}
            (_, Err(error)) => {
                if !std::mem::replace(&mut is_exhausted, true) {
                    tracing::warn!(%error, "failed to accept a connection");
                }
                // An immediate retry would fail again.
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
            // The semaphore is never closed.
            (Err(_), Ok(_)) => break,
        }
    }
    OpenConnections(graceful)
}

/// Serves one connection in its own task. The permit is held until the connection is closed.
fn spawn_connection(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    graceful: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    // Without `TCP_NODELAY`, small frames of a stream would be delayed.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(WriteTimeoutStream::new(stream)), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A client that disconnects during a response is not an error of the server.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection was closed before its end");
        }
        drop(permit);
    });
}

/// Returns whether accepting failed because of one client, for example because it had disconnected already.
fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
