//! Response bodies with a guard: each holds its user's concurrency permit until it is sent, and a streamed one ends
//! with an error when the key of its request is revoked.
//!
//! Without the revocation check, a client could read an open stream for an unlimited time after its key was revoked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agent::Agent;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::concurrency_limit::ConcurrencyPermit;

/// Time between two validations of a streamed response's key. A revoked key is noticed after this time at the latest.
const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The body of a response, with its permit and its revocation check.
pub(super) struct GuardedBody {
    /// The wrapped body.
    body: Body,
    /// Completes when the key is revoked; `None` if no check is needed.
    revoked: Option<RevocationFuture>,
    /// The user's concurrency permit, which is returned when the body is dropped; `None` for the local operator.
    _permit: Option<ConcurrencyPermit>,
}

/// A future that completes when a key is revoked.
type RevocationFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The API key with which a streamed response was requested.
pub(super) struct StreamKey {
    /// The agent whose journal holds the key.
    pub(super) agent: Arc<Agent>,
    /// The id of the key.
    pub(super) key_id: String,
}

impl GuardedBody {
    /// Wraps a response body with a permit and, for a streamed body, the check of `key`.
    pub(super) fn wrap(body: Body, permit: Option<ConcurrencyPermit>, key: Option<StreamKey>) -> Body {
        // A body of known size is in memory and sent at once, so its key is not checked again.
        let is_streamed = body.size_hint().exact().is_none();
        let revoked = key.filter(|_| is_streamed).map(|StreamKey { agent, key_id }| -> RevocationFuture {
            Box::pin(wait_until_invalid(move || {
                let (agent, key_id) = (Arc::clone(&agent), key_id.clone());
                // A temporary failure of the journal must not revoke a key.
                async move { agent.admin().is_key_valid(&key_id).await.unwrap_or(true) }
            }))
        });
        match (&revoked, &permit) {
            (None, None) => body,
            _ => Body::new(Self { body, revoked, _permit: permit }),
        }
    }
}

/// Checks the key every [`KEY_CHECK_INTERVAL`] and returns when it is invalid.
async fn wait_until_invalid<F: Future<Output = bool>>(is_valid: impl Fn() -> F) {
    loop {
        tokio::time::sleep(KEY_CHECK_INTERVAL).await;
        if !is_valid().await {
            return;
        }
    }
}

/// The error with which a streamed response ends after its key was revoked.
#[derive(Debug, thiserror::Error)]
#[error("the key was revoked")]
struct KeyRevokedError;

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(revoked) = &mut self.revoked
            && revoked.as_mut().poll(context).is_ready()
        {
            self.revoked = None;
            // Dropping the body releases its sources at once.
            self.body = Body::empty();
            return Poll::Ready(Some(Err(axum::Error::new(KeyRevokedError))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn k2_a_streamed_response_ends_when_its_key_is_revoked() {
        let checks = AtomicU32::new(0);
        let started_at = tokio::time::Instant::now();
        wait_until_invalid(|| async { checks.fetch_add(1, Ordering::Relaxed) < 3 }).await;
        assert_eq!((started_at.elapsed(), checks.into_inner()), (4 * KEY_CHECK_INTERVAL, 4));

        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"one"))]);
        let endless = Body::from_stream(futures::StreamExt::chain(first, stream::pending()));
        let revoked: RevocationFuture = Box::pin(tokio::time::sleep(KEY_CHECK_INTERVAL));
        let mut guarded = GuardedBody { body: endless, revoked: Some(revoked), _permit: None };
        let mut next = async || poll_fn(|context| Pin::new(&mut guarded).poll_frame(context)).await;
        assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(next().await.unwrap().is_err(), "the client sees an error");
        assert!(next().await.is_none());
    }
}
