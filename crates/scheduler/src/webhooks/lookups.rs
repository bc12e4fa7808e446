//! Finding out what names stand for. The system's way to do so occupies a thread until it gives up, however long ago whoever
//! asked has gone away, and the journal reads on threads of the same pool: so many at once, and so many of one owner. Where
//! the answers may lead is not decided here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::Scope;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LOOKUPS_MAX, RESOLVE_TIME_MAX};

/// The names that are looked up at the moment.
#[derive(Debug)]
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    /// Only owners whose names are looked up.
    by_owner: Mutex<HashMap<Scope, Arc<Semaphore>>>,
}

/// What came of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// What the name stands for.
    Addresses(Vec<SocketAddr>),
    /// Nothing that could be found in time.
    Nothing,
    /// Too many others are looked up.
    TooMany,
}

impl Default for Lookups {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(LOOKUPS_MAX.all)), by_owner: Mutex::default() }
    }
}

impl Lookups {
    /// Returns what the name stands for.
    pub(crate) async fn find(&self, scope: &Scope, name: String, port: u16) -> Found {
        let host = (name, port);
        let lookup = async move { tokio::net::lookup_host(host).await.map(Iterator::collect) };
        self.find_by(scope, lookup).await
    }

    async fn find_by(
        &self,
        scope: &Scope,
        lookup: impl Future<Output = std::io::Result<Vec<SocketAddr>>> + Send + 'static,
    ) -> Found {
        let Ok(permits) = tokio::time::timeout(RESOLVE_TIME_MAX, self.permits(scope)).await else {
            return Found::TooMany;
        };
        // Its places are taken until the system is done with it.
        let looking = tokio::spawn(async move {
            let found = lookup.await;
            drop(permits);
            found
        });
        match tokio::time::timeout(RESOLVE_TIME_MAX, looking).await {
            Ok(Ok(Ok(addresses))) => Found::Addresses(addresses),
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => Found::Nothing,
        }
    }

    /// Waits for a place of the owner's, and one of all; `None` only if there never will be one.
    async fn permits(&self, scope: &Scope) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let own = {
            let mut by_owner = self.by_owner.lock();
            // A place that is taken holds its owner's.
            by_owner.retain(|_, places| Arc::strong_count(places) > 1);
            Arc::clone(
                by_owner.entry(scope.clone()).or_insert_with(|| Arc::new(Semaphore::new(LOOKUPS_MAX.owner))),
            )
        };
        let own = own.acquire_owned().await.ok()?;
        Some((own, Arc::clone(&self.all).acquire_owned().await.ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Scope {
        Scope::Owner(Some(name.parse().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn k6_names_that_nobody_answers_for_take_no_more_than_their_owners_places() {
        let (lookups, slow, other) = (Lookups::default(), of("slow"), of("other"));
        let never = (0..LOOKUPS_MAX.owner).map(|_| lookups.find_by(&slow, std::future::pending()));
        let found: Vec<Found> = futures::future::join_all(never).await;
        assert!(found.iter().all(|found| *found == Found::Nothing), "{found:?}");
        // The system has not given up yet.
        assert_eq!(lookups.find_by(&slow, async { Ok(Vec::new()) }).await, Found::TooMany);
        let others = lookups.find_by(&other, async { Ok(Vec::new()) }).await;
        assert_eq!(others, Found::Addresses(Vec::new()));
    }
}
