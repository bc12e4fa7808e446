//! How many there may be of something, such as of those who wait in all lines together: places, counted by owner. What they
//! are taken for is not its business.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::Scope;

use crate::error::Error;
use crate::limits::RETRY_AFTER;

/// The places there are.
#[derive(Debug)]
pub(crate) struct Places {
    taken: Mutex<Taken>,
    max: PlacesMax,
}

/// The most places there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacesMax {
    /// In all.
    pub(crate) all: usize,
    /// For one owner.
    pub(crate) owner: usize,
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
    pub(crate) fn new(max: PlacesMax) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), max })
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`Error::Full`] when there is none, for this owner or at all.
    pub(crate) fn take(self: &Arc<Self>, scope: &Scope) -> Result<Place, Error> {
        let mut taken = self.taken.lock();
        let own = taken.by_owner.get(scope).copied().unwrap_or_default();
        if taken.all >= self.max.all || own >= self.max.owner {
            return Err(Error::Full { retry_after: RETRY_AFTER });
        }
        Ok(self.seat(&mut taken, scope))
    }

    /// Takes a place whether there is one or not: for what an earlier process let wait, and for what stops others.
    pub(crate) fn take_anyway(self: &Arc<Self>, scope: &Scope) -> Place {
        self.seat(&mut self.taken.lock(), scope)
    }

    fn seat(self: &Arc<Self>, taken: &mut Taken, scope: &Scope) -> Place {
        taken.all += 1;
        *taken.by_owner.entry(scope.clone()).or_default() += 1;
        Place { places: Arc::clone(self), scope: scope.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all = taken.all.saturating_sub(1);
        if let Some(own) = taken.by_owner.get_mut(&self.scope) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.by_owner.remove(&self.scope);
            }
        }
    }
}
