//! The budget of request bodies: how much memory the bodies take that the server reads and processes at the same time. With
//! the limit of values in a body, it bounds the memory that requests can take, however many clients send them.
//!
//! A body counts from before it is read until the response begins. Small bodies do not count, because the number of requests
//! bounds them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use langgraph::ApiError;
use parking_lot::Mutex;
use protocol::{OwnerScope, UserId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The size up to which a body does not count, in bytes.
const SMALL_BODY_BYTES_MAX: usize = 4 << 10;
/// The most memory that a body takes for each of its bytes: a value of seven bytes, such as `{"":0},`, takes 600 bytes.
const MEMORY_PER_BYTE_MAX: usize = 100;
/// The memory that a long text takes for each of its bytes, with all its copies.
const MEMORY_PER_TEXT_BYTE: usize = 8;
/// The memory that the values of a body take, at the limit of their number.
const VALUES_MEMORY_MAX: usize = langgraph::extract::JSON_VALUES_MAX * 600;
/// Maximum time that a request waits for the bodies of others.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The time after which a refused client should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The budget of all bodies.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    /// The limit of a single body, in bytes.
    body_bytes_max: usize,
    /// The memory that is left, in bytes.
    left: Arc<Semaphore>,
    /// The rest of each user's part, which is the memory of the largest body; `None` is the local operator. Users without a
    /// body have no live entry.
    by_user: Mutex<HashMap<Option<UserId>, Weak<Semaphore>>>,
}

/// The part of the budget that a request uses. Dropping it returns the part.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    /// The part of the user's budget.
    _user: OwnedSemaphorePermit,
    /// The part of the budget of all.
    _total: OwnedSemaphorePermit,
}

/// Returns the memory that a body of this size can take, in bytes.
fn memory_of_body(bytes: usize) -> usize {
    (bytes * MEMORY_PER_BYTE_MAX).min(bytes * MEMORY_PER_TEXT_BYTE + VALUES_MEMORY_MAX)
}

impl BodyBudget {
    /// Returns a budget for the memory of two bodies of the maximum size. A user can use that of one.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let total = (2 * memory_of_body(body_bytes_max)).min(Semaphore::MAX_PERMITS);
        Self { body_bytes_max, left: Arc::new(Semaphore::new(total)), by_user: Mutex::default() }
    }

    /// Acquires the part of the budget for a request with these headers. A body of unknown length counts as the longest one.
    /// Waits for other requests if the budget is used up. Returns `None` for a small body.
    ///
    /// # Errors
    /// 429 if other requests of the user use the user's part for too long, and 503 if the requests of all use the budget for too
    /// long.
    pub(crate) async fn acquire(
        &self,
        scope: &OwnerScope,
        headers: &HeaderMap,
    ) -> Result<Option<BodyPermit>, ApiError> {
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        // Requests without a body have neither header.
        let unknown = if headers.contains_key(TRANSFER_ENCODING) { self.body_bytes_max } else { 0 };
        let bytes: usize = length.unwrap_or(unknown);
        if bytes <= SMALL_BODY_BYTES_MAX {
            return Ok(None);
        }
        // A longer body is refused without being read.
        let memory = u32::try_from(memory_of_body(bytes.min(self.body_bytes_max))).unwrap_or(u32::MAX);
        let wait = |semaphore: Arc<Semaphore>| async move {
            let permit = tokio::time::timeout(WAIT_MAX, semaphore.acquire_many_owned(memory)).await;
            permit.ok().and_then(Result::ok)
        };
        let Some(user) = wait(self.part_of(scope)).await else {
            return Err(ApiError::too_many("too many large requests at a time", RETRY_AFTER));
        };
        let Some(total) = wait(Arc::clone(&self.left)).await else {
            return Err(ApiError::unavailable("the server is processing too many large requests"));
        };
        Ok(Some(BodyPermit { _user: user, _total: total }))
    }

    /// Returns the rest of a user's part.
    fn part_of(&self, scope: &OwnerScope) -> Arc<Semaphore> {
        let user = match scope {
            OwnerScope::Owner(user) => user.clone(),
            OwnerScope::Everyone => None,
        };
        let mut by_user = self.by_user.lock();
        if let Some(part) = by_user.get(&user).and_then(Weak::upgrade) {
            return part;
        }
        by_user.retain(|_, part| part.strong_count() > 0);
        let part = Arc::new(Semaphore::new(memory_of_body(self.body_bytes_max)));
        by_user.insert(user, Arc::downgrade(&part));
        part
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The limit of a body in these tests.
    const BODY: usize = 1 << 20;

    fn user(name: &str) -> OwnerScope {
        OwnerScope::Owner(Some(name.parse().unwrap()))
    }

    fn with_length(bytes: usize) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_LENGTH, HeaderValue::from(bytes))])
    }

    #[tokio::test(start_paused = true)]
    async fn i6_large_bodies_wait_for_each_other_and_small_ones_do_not() {
        let budget = BodyBudget::new(BODY);
        let first = budget.acquire(&user("ada"), &with_length(BODY)).await.unwrap();
        let chunked = HeaderMap::from_iter([(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))]);
        let _second = budget.acquire(&user("bob"), &chunked).await.unwrap();
        assert!(budget.acquire(&user("eve"), &with_length(SMALL_BODY_BYTES_MAX)).await.unwrap().is_none());
        assert!(budget.acquire(&user("eve"), &HeaderMap::new()).await.unwrap().is_none());
        let refused = budget.acquire(&OwnerScope::Owner(None), &with_length(BODY)).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), 503);
        drop(first);
        assert!(budget.acquire(&OwnerScope::Owner(None), &with_length(BODY)).await.unwrap().is_some());
        let users = budget.by_user.lock();
        let live = users.values().filter(|part| part.strong_count() > 0);
        assert_eq!(live.count(), 1, "only bob has a body");
    }

    #[tokio::test(start_paused = true)]
    async fn i6_a_caller_can_use_the_memory_of_one_body() {
        let budget = BodyBudget::new(BODY);
        for caller in [user("ada"), OwnerScope::Owner(None)] {
            let first = budget.acquire(&caller, &with_length(BODY / 2)).await.unwrap();
            let refused = budget.acquire(&caller, &with_length(BODY)).await.unwrap_err();
            assert_eq!(refused.status().as_u16(), 429);
            assert!(budget.acquire(&user("bob"), &with_length(100 * BODY)).await.unwrap().is_some());
            drop(first);
            assert!(budget.acquire(&caller, &with_length(BODY)).await.unwrap().is_some());
        }
    }

    #[test]
    fn i6_a_body_counts_as_the_memory_that_its_values_can_take() {
        assert_eq!(memory_of_body(350 << 10), (350 << 10) * MEMORY_PER_BYTE_MAX);
        assert_eq!(memory_of_body(32 << 20), (256 << 20) + VALUES_MEMORY_MAX);
    }
}
