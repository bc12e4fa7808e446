//! Connections: accepted up to a limit, each served on a task of its own, and ended in order. What is asked over them is
//! not looked at.

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

use super::patient::Patient;

/// How long a client may take to send the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// How long to wait before another connection is accepted when the machine has no more of something.
const EXHAUSTED_WAIT: Duration = Duration::from_millis(100);

/// How long answers may take to reach their clients at the end.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(3);

/// Connections that are still open.
pub(crate) struct Open(GracefulShutdown);

impl Open {
    /// Waits until the answers under way are sent, but not for clients that do not read.
    pub async fn end(self) {
        let _ = tokio::time::timeout(FLUSH_TIME_MAX, self.0.shutdown()).await;
    }
}

/// Accepts connections until `shutdown`, at most `most` at a time; further ones wait in the backlog of the system.
pub(crate) async fn accept(
    listener: TcpListener,
    router: Router,
    most: usize,
    shutdown: &CancellationToken,
) -> Open {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    let service = TowerToHyperService::new(router);
    let mut is_exhausted = false;
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = shutdown.cancelled() => break,
        };
        match (place, accepted) {
            (Ok(place), Ok((stream, _))) => {
                is_exhausted = false;
                spawn(stream, service.clone(), &graceful, place);
            }
            (_, Err(error)) if is_the_clients(&error) => {}
            (_, Err(error)) => {
                if !std::mem::replace(&mut is_exhausted, true) {
                    tracing::warn!(%error, "no connection can be accepted");
                }
                // Accepting again at once would fail again.
                tokio::time::sleep(EXHAUSTED_WAIT).await;
            }
            // The semaphore is never closed.
            (Err(_), Ok(_)) => break,
        }
    }
    Open(graceful)
}

fn spawn(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    graceful: &GracefulShutdown,
    place: OwnedSemaphorePermit,
) {
    // Small frames of a stream are not held back.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    let watched = graceful.watch(connection);
    tokio::spawn(async move {
        // A client that goes away in the middle is no failure of ours.
        if let Err(error) = watched.await {
            tracing::debug!(%error, "a connection broke off");
        }
        drop(place);
    });
}

/// Returns whether it was one client that failed, who went away before anybody came to the door.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}
