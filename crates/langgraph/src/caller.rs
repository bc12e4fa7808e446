//! The authenticated sender of a request, and the services in that sender's scope. Authentication is the work of the
//! server that mounts these endpoints: it inserts a [`Caller`] into the extensions of each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agent::Agent;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use protocol::OwnerScope;
use scheduler::Scheduler;
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;

/// The services behind the endpoints, shared by all callers.
#[derive(Debug)]
pub struct SharedServices {
    /// The scheduler of runs.
    pub scheduler: Arc<Scheduler>,
    /// The number of event streams that are open.
    pub open_streams: OpenStreams,
    /// Cancelled when the server begins to shut down. Streams that would otherwise never end, such as those of
    /// threads, end then.
    pub closing: CancellationToken,
}

/// The authenticated sender of a request: the owner scope, and the services behind the endpoints. Cheap to clone.
#[derive(Clone)]
pub struct Caller {
    /// The scope of the data that the caller may see.
    pub scope: OwnerScope,
    /// The agent of that scope. All of its reads and writes are limited to the scope.
    pub agent: Arc<Agent>,
    /// The services that all callers share.
    pub server: Arc<SharedServices>,
    /// A fingerprint of the credential, the program and the page that sent the request.
    pub client: Arc<str>,
}

impl Caller {
    /// Returns the caller with that scope and that fingerprint of the client.
    pub fn new(server: &Arc<SharedServices>, scope: OwnerScope, client: Arc<str>) -> Self {
        Self { agent: server.scheduler.agent(&scope), scope, server: Arc::clone(server), client }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| ApiError::unauthorized("Not authenticated"))
    }
}

/// The number of open event streams, for metrics. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct OpenStreams(Arc<AtomicU64>);

/// A guard that counts one open stream until it is dropped.
#[derive(Debug)]
pub struct OpenStreamGuard(OpenStreams);

impl OpenStreams {
    /// Counts a stream until the returned guard is dropped.
    pub fn open(&self) -> OpenStreamGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenStreamGuard(self.clone())
    }

    /// Returns the number of open streams.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenStreamGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
