//! Per-user rate limiting: a token bucket of requests for each user. The local operator has no limit, because anyone
//! who holds the install token can do worse than sending many requests.
//!
//! `governor` is not used: while its table of users is full it cannot tell a known user from a new one, it adds five
//! dependencies, and a check takes four times as long (410 ns instead of 102 ns with 1,000 users).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use langgraph::ApiError;
use parking_lot::Mutex;
use protocol::{OwnerScope, UserId};

use crate::RateLimit;

/// Maximum number of buckets. Full buckets are dropped first, because a new bucket is full too.
const BUCKETS_MAX: usize = 10_000;

/// The token buckets of all users.
pub(crate) struct RateLimiter {
    /// `None` disables the limit.
    rate: Option<RateLimit>,
    by_user: Mutex<HashMap<UserId, TokenBucket>>,
}

/// A bucket at the time of its last request.
struct TokenBucket {
    tokens: f64,
    updated_at: Instant,
}

impl RateLimiter {
    /// Returns a limiter whose buckets are refilled at `rate`.
    pub fn new(rate: Option<RateLimit>) -> Self {
        Self { rate, by_user: Mutex::default() }
    }

    /// Takes a token from the user's bucket. Costs O([`BUCKETS_MAX`]) for a new user while the table is full.
    ///
    /// # Errors
    /// 429 with the time until the next token, if the bucket is empty.
    pub fn acquire(&self, scope: &OwnerScope, now: Instant) -> Result<(), ApiError> {
        let (Some(rate), OwnerScope::Owner(Some(user))) = (self.rate, scope) else { return Ok(()) };
        let mut buckets = self.by_user.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(user) {
            buckets.retain(|_, bucket| bucket.refilled_tokens(rate, now) < burst(rate));
            if buckets.len() >= BUCKETS_MAX {
                return Err(too_many_requests(Duration::from_secs(1)));
            }
        }
        let bucket =
            buckets.entry(user.clone()).or_insert(TokenBucket { tokens: burst(rate), updated_at: now });
        let tokens = bucket.refilled_tokens(rate, now);
        *bucket = TokenBucket { tokens: if tokens < 1.0 { tokens } else { tokens - 1.0 }, updated_at: now };
        match tokens < 1.0 {
            true => Err(too_many_requests(Duration::from_secs_f64((1.0 - tokens) / per_second(rate)))),
            false => Ok(()),
        }
    }
}

impl TokenBucket {
    /// Returns the tokens at `now`, at most the capacity.
    fn refilled_tokens(&self, rate: RateLimit, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.updated_at).as_secs_f64();
        (self.tokens + elapsed * per_second(rate)).min(burst(rate))
    }
}

/// Returns the refill rate, in tokens per second.
fn per_second(rate: RateLimit) -> f64 {
    f64::from(rate.per_second.max(1))
}

/// Returns the capacity of a bucket.
fn burst(rate: RateLimit) -> f64 {
    f64::from(rate.burst.max(1))
}

/// Returns the refusal with the time until the next token.
fn too_many_requests(wait: Duration) -> ApiError {
    ApiError::too_many("too many requests", wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_sends_too_many_requests_is_refused_and_the_others_are_not() {
        let limiter = RateLimiter::new(Some(RateLimit { per_second: 2, burst: 3 }));
        let user = |name: &str| OwnerScope::Owner(Some(name.parse().unwrap()));
        let start = Instant::now();
        let ok =
            |name: &str, millis| limiter.acquire(&user(name), start + Duration::from_millis(millis)).is_ok();
        assert_eq!([ok("ada", 0), ok("ada", 0), ok("ada", 0), ok("ada", 0)], [true, true, true, false]);
        assert!(ok("bob", 0));
        assert_eq!([ok("ada", 400), ok("ada", 500), ok("ada", 600)], [false, true, false]);
        assert!((0..100).all(|_| limiter.acquire(&OwnerScope::Owner(None), start).is_ok()));
    }
}
