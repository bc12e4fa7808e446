//! How often a user may come: a bucket of tokens for each, filled as time goes by. The person at the machine has none: who
//! holds the install token can do worse than asking often.
//!
//! `governor` is not used: while its table of users is full it cannot tell one it knows from a new one, it is five crates more,
//! and a check takes four times as long (410 against 102 ns with 1,000 users).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use langgraph::Fault;
use parking_lot::Mutex;
use protocol::{Scope, UserId};

use crate::Rate;

/// Users whose buckets are kept. Full ones are forgotten first: a new bucket is full.
const BUCKETS_MAX: usize = 10_000;

/// The buckets of all users.
pub(crate) struct Buckets {
    rate: Option<Rate>,
    of: Mutex<HashMap<UserId, Bucket>>,
}

struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Buckets {
    /// Returns buckets that are filled at `rate`.
    pub fn new(rate: Option<Rate>) -> Self {
        Self { rate, of: Mutex::default() }
    }

    /// Takes a token of the user, or refuses and says when there is one.
    pub fn take(&self, scope: &Scope, now: Instant) -> Result<(), Fault> {
        let (Some(rate), Scope::Owner(Some(user))) = (self.rate, scope) else { return Ok(()) };
        let mut buckets = self.of.lock();
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(user) {
            buckets.retain(|_, bucket| bucket.filled(rate, now) < burst(rate));
            if buckets.len() >= BUCKETS_MAX {
                return Err(refused(Duration::from_secs(1)));
            }
        }
        let bucket = buckets.entry(user.clone()).or_insert(Bucket { tokens: burst(rate), at: now });
        let tokens = bucket.filled(rate, now);
        *bucket = Bucket { tokens: if tokens < 1.0 { tokens } else { tokens - 1.0 }, at: now };
        match tokens < 1.0 {
            true => Err(refused(Duration::from_secs_f64((1.0 - tokens) / per_second(rate)))),
            false => Ok(()),
        }
    }
}

impl Bucket {
    fn filled(&self, rate: Rate, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.tokens + passed * per_second(rate)).min(burst(rate))
    }
}

fn per_second(rate: Rate) -> f64 {
    f64::from(rate.per_second.max(1))
}

fn burst(rate: Rate) -> f64 {
    f64::from(rate.burst.max(1))
}

fn refused(wait: Duration) -> Fault {
    Fault::too_many("too many requests: slow down", wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_comes_too_often_waits_and_the_others_do_not() {
        let buckets = Buckets::new(Some(Rate { per_second: 2, burst: 3 }));
        let user = |name: &str| Scope::Owner(Some(name.parse().unwrap()));
        let start = Instant::now();
        let ok =
            |name: &str, millis| buckets.take(&user(name), start + Duration::from_millis(millis)).is_ok();
        assert_eq!([ok("ada", 0), ok("ada", 0), ok("ada", 0), ok("ada", 0)], [true, true, true, false]);
        assert!(ok("bob", 0));
        assert_eq!([ok("ada", 400), ok("ada", 500), ok("ada", 600)], [false, true, false]);
        assert!((0..100).all(|_| buckets.take(&Scope::Owner(None), start).is_ok()));
    }
}
