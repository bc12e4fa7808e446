//! Answers that are under way: each holds its user's place until it was sent, and one that goes on for long is broken off
//! when the key it was asked for with is revoked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use agent::Agent;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

use super::places::Place;

/// How often the key of an answer that goes on is looked at again.
const KEY_LOOKED_AT_EVERY: Duration = Duration::from_secs(15);

/// The body of an answer.
pub(super) struct Open {
    body: Body,
    /// Ends when the answer may no longer go on.
    revoked: Option<Revoked>,
    _place: Option<Place>,
}

type Revoked = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The access key that a response stays open for.
pub(super) struct StreamKey {
    /// The agent whose journal holds the key.
    pub(super) agent: Arc<Agent>,
    /// The id of the key.
    pub(super) key_id: String,
}

impl Open {
    /// Returns the body of an answer to whoever has the key, if it needed one.
    pub(super) fn body(body: Body, place: Option<Place>, key: Option<StreamKey>) -> Body {
        // What is in memory as a whole is sent at once, or not at all.
        let is_long = body.size_hint().exact().is_none();
        let revoked = key.filter(|_| is_long).map(|StreamKey { agent, key_id }| -> Revoked {
            Box::pin(until_false(move || {
                let (agent, key_id) = (Arc::clone(&agent), key_id.clone());
                // A journal that fails for a moment revokes nothing.
                async move { agent.admin().is_key_valid(&key_id).await.unwrap_or(true) }
            }))
        });
        match (&revoked, &place) {
            (None, None) => body,
            _ => Body::new(Self { body, revoked, _place: place }),
        }
    }
}

/// Asks again and again, and ends when the answer is no.
async fn until_false<F: Future<Output = bool>>(is_valid: impl Fn() -> F) {
    loop {
        tokio::time::sleep(KEY_LOOKED_AT_EVERY).await;
        if !is_valid().await {
            return;
        }
    }
}

/// What an answer ends with when its key was revoked.
#[derive(Debug, thiserror::Error)]
#[error("the key was revoked")]
struct KeyRevoked;

impl HttpBody for Open {
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
            // What it is made from is let go at once.
            self.body = Body::empty();
            return Poll::Ready(Some(Err(axum::Error::new(KeyRevoked))));
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
    async fn k2_an_answer_that_goes_on_is_broken_off_when_its_key_is_revoked() {
        let looked = AtomicU32::new(0);
        let begun = tokio::time::Instant::now();
        until_false(|| async { looked.fetch_add(1, Ordering::Relaxed) < 3 }).await;
        assert_eq!((begun.elapsed(), looked.into_inner()), (4 * KEY_LOOKED_AT_EVERY, 4));

        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"one"))]);
        let endless = Body::from_stream(futures::StreamExt::chain(first, stream::pending()));
        let revoked: Revoked = Box::pin(tokio::time::sleep(KEY_LOOKED_AT_EVERY));
        let mut open = Open { body: endless, revoked: Some(revoked), _place: None };
        let mut next = async || poll_fn(|context| Pin::new(&mut open).poll_frame(context)).await;
        assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(next().await.unwrap().is_err(), "the client sees that it broke off");
        assert!(next().await.is_none());
    }
}
