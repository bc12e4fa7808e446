//! The sender of a request and the services as that sender sees them. Who sends a request, and whether it is let in, is
//! decided by the server that mounts these endpoints: it puts a [`Caller`] into the request's extensions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::Agent;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::OwnerScope;
use scheduler::Scheduler;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;

/// The services behind the endpoints.
#[derive(Debug)]
pub struct SharedServices {
    /// The scheduler of runs.
    pub scheduler: Arc<Scheduler>,
    /// The number of event streams that are open.
    pub open_streams: OpenStreams,
    /// Cancelled when the server is about to stop: streams that would never end, end.
    pub closing: CancellationToken,
}

/// The sender of a request: their scope, and the services behind the endpoints.
#[derive(Clone)]
pub struct Caller {
    /// The data they may see.
    pub scope: OwnerScope,
    /// The agent as they see it.
    pub agent: Arc<Agent>,
    /// The services that all callers share.
    pub server: Arc<SharedServices>,
}

impl Caller {
    /// Returns the caller of that scope.
    pub fn new(server: &Arc<SharedServices>, scope: OwnerScope) -> Self {
        Self { agent: server.scheduler.agent(&scope), scope, server: Arc::clone(server) }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::unauthorized("Not authenticated"))
    }
}

/// Counts event streams that are open.
#[derive(Debug, Clone, Default)]
pub struct OpenStreams(Arc<AtomicU64>);

/// An open stream. It is counted until it is dropped.
#[derive(Debug)]
pub struct OpenStreamGuard(OpenStreams);

impl OpenStreams {
    /// Counts a stream for as long as the returned value lives.
    pub fn open(&self) -> OpenStreamGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenStreamGuard(self.clone())
    }

    /// Returns how many streams are open.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
