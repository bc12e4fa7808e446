//! The sender of a request and the services as that sender sees them. Who sends a request, and whether it is let in, is
//! decided by the server that mounts these endpoints: it puts a [`Caller`] into the request's extensions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::Agent;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::Scope;
use scheduler::Dispatch;
use tokio_util::sync::CancellationToken;

use crate::fault::Fault;

/// The services behind the endpoints.
#[derive(Debug)]
pub struct Server {
    /// The scheduler of runs.
    pub dispatch: Arc<Dispatch>,
    /// The number of event streams that are open.
    pub streams: OpenStreams,
    /// Cancelled when the server is about to stop: streams that would never end, end.
    pub closing: CancellationToken,
}

/// The sender of a request: their scope, and the services behind the endpoints.
#[derive(Clone)]
pub struct Caller {
    /// The data they may see.
    pub scope: Scope,
    /// The agent as they see it.
    pub agent: Arc<Agent>,
    /// The services that all callers share.
    pub server: Arc<Server>,
}

impl Caller {
    /// Returns the caller of that scope.
    pub fn new(server: &Arc<Server>, scope: Scope) -> Self {
        Self { agent: server.dispatch.agent(&scope), scope, server: Arc::clone(server) }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Fault> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Fault::unauthorized("Not authenticated"))
    }
}

/// Counts event streams that are open.
#[derive(Debug, Clone, Default)]
pub struct OpenStreams(Arc<AtomicU64>);

/// An open stream. It is counted until it is dropped.
#[derive(Debug)]
pub struct OpenStream(OpenStreams);

impl OpenStreams {
    /// Counts a stream for as long as the returned value lives.
    pub fn open(&self) -> OpenStream {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    /// Returns how many streams are open.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
