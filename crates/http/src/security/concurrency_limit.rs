//! Per-user concurrency limits, for example on requests and streams. Each user has a limit, and all users together have
//! a lower one than the server, so that the local operator always gets through. Rates are limited in `rate_limit`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use langgraph::ApiError;
use parking_lot::Mutex;
use protocol::{OwnerScope, UserId};

/// The time after which a refused user should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The limiter of all users.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimiter {
    /// Maximum number of permits of one user.
    per_user_max: usize,
    /// Maximum number of permits of all users together.
    total_max: usize,
    /// The permits in use. The lock is held only for the lookup, never across an `await`.
    usage: Mutex<ConcurrencyUsage>,
}

/// The number of permits in use.
#[derive(Debug, Default)]
struct ConcurrencyUsage {
    /// Permits of all users together.
    total: usize,
    /// Permits of each user. Users without a permit have no entry, so that the map does not grow without limit.
    by_user: HashMap<UserId, usize>,
}

/// A permit of a user. Dropping it returns it to its limiter.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit {
    /// The owner of the permit.
    user: UserId,
    /// The limiter to which the permit is returned.
    limiter: Arc<ConcurrencyLimiter>,
}

impl ConcurrencyLimiter {
    /// Returns a limiter with that many permits for each user, and for all users together.
    pub fn new(per_user_max: usize, total_max: usize) -> Arc<Self> {
        Arc::new(Self { per_user_max, total_max, usage: Mutex::default() })
    }

    /// Acquires a permit without waiting. Returns `None` for the local operator, who has no limit. `what` names the
    /// limited thing in the error.
    ///
    /// # Errors
    /// 429 if the limit of the user or of all users is reached.
    pub fn acquire(
        self: &Arc<Self>,
        scope: &OwnerScope,
        what: &str,
    ) -> Result<Option<ConcurrencyPermit>, ApiError> {
        let OwnerScope::Owner(Some(user)) = scope else { return Ok(None) };
        let mut usage = self.usage.lock();
        let user_permits = usage.by_user.get(user).copied().unwrap_or_default();
        if user_permits >= self.per_user_max || usage.total >= self.total_max {
            return Err(ApiError::too_many(format!("too many {what} at a time"), RETRY_AFTER));
        }
        usage.total += 1;
        usage.by_user.insert(user.clone(), user_permits + 1);
        Ok(Some(ConcurrencyPermit { user: user.clone(), limiter: Arc::clone(self) }))
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut usage = self.limiter.usage.lock();
        usage.total -= 1;
        if let Some(user_permits) = usage.by_user.get_mut(&self.user) {
            *user_permits -= 1;
            if *user_permits == 0 {
                usage.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_above_the_limit_is_refused_and_the_local_operator_never_is() {
        let limiter = ConcurrencyLimiter::new(2, 3);
        let user = |name: &str| OwnerScope::Owner(Some(name.parse().unwrap()));
        let take = |name: &str| limiter.acquire(&user(name), "requests");
        let first = take("ada").unwrap();
        let _second = take("ada").unwrap();
        assert!(take("ada").is_err(), "her own permits are used up");
        let _third = take("bob").unwrap();
        assert!(take("bob").is_err(), "all permits are used up");
        drop(first);
        assert!(take("ada").is_ok());
        assert!((0..9).all(|_| limiter.acquire(&OwnerScope::Owner(None), "requests").unwrap().is_none()));
        assert_eq!(limiter.usage.lock().by_user.len(), 2);
    }
}
