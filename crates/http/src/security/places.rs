//! How much of something users may have at a time: each so much, and all of them together less than there is, so that the
//! person at the machine always finds a place. How often they may come is counted elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use langgraph::Fault;
use parking_lot::Mutex;
use protocol::{Scope, UserId};

/// When a user who has too much may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The places of all users.
#[derive(Debug)]
pub(crate) struct Places {
    each_max: usize,
    all_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<UserId, usize>,
}

/// A place that is taken; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    user: UserId,
    places: Arc<Places>,
}

impl Places {
    /// Returns so many places for each user, and so many for all of them.
    pub fn new(each_max: usize, all_max: usize) -> Arc<Self> {
        Arc::new(Self { each_max, all_max, taken: Mutex::default() })
    }

    /// Takes a place of the user, or refuses; `what` is what there is too much of. `None` for the person at the machine, who
    /// has no limit.
    pub fn take(self: &Arc<Self>, scope: &Scope, what: &str) -> Result<Option<Place>, Fault> {
        let Scope::Owner(Some(user)) = scope else { return Ok(None) };
        let mut taken = self.taken.lock();
        let own = taken.of.get(user).copied().unwrap_or_default();
        if own >= self.each_max || taken.all >= self.all_max {
            return Err(Fault::too_many(format!("too many {what} at a time"), RETRY_AFTER));
        }
        taken.all += 1;
        taken.of.insert(user.clone(), own + 1);
        Ok(Some(Place { user: user.clone(), places: Arc::clone(self) }))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(own) = taken.of.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.of.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_too_much_waits_and_the_person_at_the_machine_never_does() {
        let places = Places::new(2, 3);
        let user = |name: &str| Scope::Owner(Some(name.parse().unwrap()));
        let take = |name: &str| places.take(&user(name), "requests");
        let first = take("ada").unwrap();
        let _second = take("ada").unwrap();
        assert!(take("ada").is_err(), "her own are taken");
        let _third = take("bob").unwrap();
        assert!(take("bob").is_err(), "all are taken");
        drop(first);
        assert!(take("ada").is_ok());
        assert!((0..9).all(|_| places.take(&Scope::Owner(None), "requests").unwrap().is_none()));
        assert_eq!(places.taken.lock().of.len(), 2);
    }
}
