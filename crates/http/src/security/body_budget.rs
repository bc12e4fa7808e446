//! The budget of request bodies: how many bytes of bodies the server reads and processes at the same time. With the limit of
//! values in a body, it bounds the memory that requests can take, however many clients send them.
//!
//! A body counts from before it is read until the response begins. Small bodies do not count, because the number of requests
//! bounds them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use langgraph::ApiError;
use parking_lot::Mutex;
use protocol::{OwnerScope, UserId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size up to which a body does not count, in bytes.
const SMALL_BODY_BYTES_MAX: usize = 64 << 10;
/// Maximum time that a request waits for the bodies of others.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The time after which a refused client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The budget of all bodies.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    /// The limit on a single body, which also is that of one user's bodies together, in bytes.
    body_bytes_max: usize,
    /// The bytes that are left.
    left: Arc<Semaphore>,
    /// The bytes of each user. Users without a body have no entry, so that the map does not grow without limit.
    by_user: Mutex<HashMap<UserId, usize>>,
}

/// The part of the budget that a request uses. Dropping it returns the part.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    /// The budget to which the part is returned.
    budget: Arc<BodyBudget>,
    /// The user; `None` for the local operator.
    user: Option<UserId>,
    /// The size in bytes.
    bytes: usize,
    /// The part of all bodies.
    _permit: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// Returns a budget of `total_bytes_max` bytes, of which a user can use those of one body.
    pub(crate) fn new(body_bytes_max: usize, total_bytes_max: usize) -> Arc<Self> {
        let total = total_bytes_max.max(body_bytes_max).min(Semaphore::MAX_PERMITS);
        Arc::new(Self { body_bytes_max, left: Arc::new(Semaphore::new(total)), by_user: Mutex::default() })
    }

    /// Acquires the part of the budget for a request with these headers. A body of unknown length counts as the longest one.
    /// Waits for other requests if the budget is used up. Returns `None` for a small body.
    ///
    /// # Errors
    /// 429 if the user's other bodies leave too little of the user's part, and 503 if other requests use the budget for too
    /// long.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        scope: &OwnerScope,
        headers: &HeaderMap,
    ) -> Result<Option<BodyPermit>, ApiError> {
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // Requests without a body have neither header.
        let is_chunked = headers.contains_key(axum::http::header::TRANSFER_ENCODING);
        let bytes: usize = length.unwrap_or(if is_chunked { self.body_bytes_max } else { 0 });
        if bytes <= SMALL_BODY_BYTES_MAX {
            return Ok(None);
        }
        // A longer body is refused without being read, or its endpoint has a limit of its own and writes it to a file.
        let bytes = bytes.min(self.body_bytes_max);
        let mut permit = self.acquire_for_user(scope, bytes)?;
        let acquired = Arc::clone(&self.left).acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
        let acquired = tokio::time::timeout(WAIT_MAX, acquired).await.ok().and_then(Result::ok);
        let Some(acquired) = acquired else {
            return Err(ApiError::unavailable("the server is processing too many large requests"));
        };
        permit._permit = Some(acquired);
        Ok(Some(permit))
    }

    /// Acquires a part of the user's budget without waiting.
    fn acquire_for_user(self: &Arc<Self>, scope: &OwnerScope, bytes: usize) -> Result<BodyPermit, ApiError> {
        let user = match scope {
            OwnerScope::Owner(user) => user.clone(),
            OwnerScope::Everyone => None,
        };
        if let Some(user) = &user {
            let mut by_user = self.by_user.lock();
            let used = by_user.get(user).copied().unwrap_or_default() + bytes;
            if used > self.body_bytes_max {
                return Err(ApiError::too_many("too many large requests at a time", RETRY_AFTER));
            }
            by_user.insert(user.clone(), used);
        }
        Ok(BodyPermit { budget: Arc::clone(self), user, bytes, _permit: None })
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        let Some(user) = &self.user else { return };
        let mut by_user = self.budget.by_user.lock();
        if let Some(used) = by_user.get_mut(user) {
            *used -= self.bytes;
            if *used == 0 {
                by_user.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use axum::http::header::TRANSFER_ENCODING;

    use super::*;

    /// The limit of a body in these tests.
    const BODY: usize = 4 * SMALL_BODY_BYTES_MAX;

    fn user(name: &str) -> OwnerScope {
        OwnerScope::Owner(Some(name.parse().unwrap()))
    }

    fn with_length(bytes: usize) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from(bytes))])
    }

    #[tokio::test(start_paused = true)]
    async fn i6_large_bodies_wait_for_each_other_and_small_ones_do_not() {
        let budget = BodyBudget::new(BODY, 2 * BODY);
        let first = budget.acquire(&user("ada"), &with_length(BODY)).await.unwrap();
        let chunked = HeaderMap::from_iter([(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))]);
        let _second = budget.acquire(&user("bob"), &chunked).await.unwrap();
        assert!(budget.acquire(&user("eve"), &with_length(SMALL_BODY_BYTES_MAX)).await.unwrap().is_none());
        assert!(budget.acquire(&user("eve"), &HeaderMap::new()).await.unwrap().is_none());
        let refused = budget.acquire(&OwnerScope::Owner(None), &with_length(BODY)).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 503);
        drop(first);
        assert!(budget.acquire(&OwnerScope::Owner(None), &with_length(BODY)).await.unwrap().is_some());
        assert_eq!(budget.by_user.lock().len(), 1, "only bob has a body");
    }

    #[tokio::test]
    async fn i6_a_user_can_use_the_bytes_of_one_body() {
        let budget = BodyBudget::new(BODY, 8 * BODY);
        let first = budget.acquire(&user("ada"), &with_length(BODY / 2 + 1)).await.unwrap();
        let refused = budget.acquire(&user("ada"), &with_length(BODY / 2)).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 429);
        assert!(budget.acquire(&user("bob"), &with_length(100 * BODY)).await.unwrap().is_some());
        drop(first);
        assert!(budget.acquire(&user("ada"), &with_length(BODY)).await.unwrap().is_some());
    }
}
