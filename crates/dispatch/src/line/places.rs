//! How many there may be of something, such as of those who wait in all lines together: places, counted by owner. What they
//! are taken for is not its business.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Scope;

use crate::error::Error;
use crate::limits::RETRY_AFTER;

/// The places there are.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    all_max: usize,
    owner_max: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Only owners who have some.
    by_owner: HashMap<Scope, usize>,
}

/// One place, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    scope: Scope,
}

impl Places {
    /// Returns so many free places, in all and for one owner.
    pub(crate) fn new((all_max, owner_max): (usize, usize)) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), all_max, owner_max })
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`Error::Full`] when there is none, for this owner or at all.
    pub(crate) fn take(self: &Arc<Self>, scope: &Scope) -> Result<Place, Error> {
        let mut taken = self.taken();
        let own = taken.by_owner.get(scope).copied().unwrap_or_default();
        if taken.all >= self.all_max || own >= self.owner_max {
            return Err(Error::Full { retry_after: RETRY_AFTER });
        }
        Ok(self.seat(&mut taken, scope))
    }

    /// Takes a place whether there is one or not: for what an earlier process let wait, and for what stops others.
    pub(crate) fn take_anyway(self: &Arc<Self>, scope: &Scope) -> Place {
        self.seat(&mut self.taken(), scope)
    }

    fn seat(self: &Arc<Self>, taken: &mut Taken, scope: &Scope) -> Place {
        taken.all += 1;
        *taken.by_owner.entry(scope.clone()).or_default() += 1;
        Place { places: Arc::clone(self), scope: scope.clone() }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_owner.get_mut(&self.scope) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_owner.remove(&self.scope);
            }
        }
    }
}
