//! Host name lookups with limits. The system's resolver blocks a thread until it gives up, even if the caller is gone,
//! and the journal's reads use threads of the same pool. So the number of lookups at once is limited, in total and for
//! each owner. Whether an address is allowed is decided by the caller.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::OwnerScope;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{LOOKUP_LIMITS, RESOLVE_TIMEOUT};

/// The resolver for host names.
#[derive(Debug)]
pub(crate) struct HostResolver {
    /// Permits for all lookups.
    global: Arc<Semaphore>,
    /// Permits of each owner with a lookup in progress.
    by_owner: Mutex<HashMap<OwnerScope, Arc<Semaphore>>>,
}

/// The result of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostLookup {
    /// The addresses of the name.
    Addresses(Vec<SocketAddr>),
    /// The name has no address, or the lookup failed or timed out.
    NotFound,
    /// The limit of concurrent lookups is reached.
    TooMany,
}

impl Default for HostResolver {
    fn default() -> Self {
        Self { global: Arc::new(Semaphore::new(LOOKUP_LIMITS.global)), by_owner: Mutex::default() }
    }
}

impl HostResolver {
    /// Resolves a name. Takes at most two times [`RESOLVE_TIMEOUT`]: once for a permit and once for the lookup.
    pub(crate) async fn resolve(&self, scope: &OwnerScope, name: String, port: u16) -> HostLookup {
        let host = (name, port);
        let lookup = async move { tokio::net::lookup_host(host).await.map(Iterator::collect) };
        self.resolve_with(scope, lookup).await
    }

    /// Executes the lookup within the limits.
    async fn resolve_with(
        &self,
        scope: &OwnerScope,
        lookup: impl Future<Output = std::io::Result<Vec<SocketAddr>>> + Send + 'static,
    ) -> HostLookup {
        let Ok(permits) = tokio::time::timeout(RESOLVE_TIMEOUT, self.acquire_permits(scope)).await else {
            return HostLookup::TooMany;
        };
        // The permits are held until the system's resolver is done, not only until the timeout.
        let lookup_task = tokio::spawn(async move {
            let result = lookup.await;
            drop(permits);
            result
        });
        match tokio::time::timeout(RESOLVE_TIMEOUT, lookup_task).await {
            Ok(Ok(Ok(addresses))) => HostLookup::Addresses(addresses),
            Ok(Ok(Err(_)) | Err(_)) | Err(_) => HostLookup::NotFound,
        }
    }

    /// Waits for a permit of the owner and a global one; `None` only if a semaphore is closed, which never happens.
    async fn acquire_permits(
        &self,
        scope: &OwnerScope,
    ) -> Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)> {
        let owner_permit = {
            let mut by_owner = self.by_owner.lock();
            // A permit holds an `Arc` of its semaphore, so semaphores without permits can be removed.
            by_owner.retain(|_, permits| Arc::strong_count(permits) > 1);
            Arc::clone(
                by_owner
                    .entry(scope.clone())
                    .or_insert_with(|| Arc::new(Semaphore::new(LOOKUP_LIMITS.per_owner))),
            )
        };
        let owner_permit = owner_permit.acquire_owned().await.ok()?;
        Some((owner_permit, Arc::clone(&self.global).acquire_owned().await.ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> OwnerScope {
        OwnerScope::Owner(Some(name.parse().unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn k6_lookups_without_a_response_use_no_more_than_the_permits_of_their_owner() {
        let (resolver, slow, other) = (HostResolver::default(), owner("slow"), owner("other"));
        let unanswered =
            (0..LOOKUP_LIMITS.per_owner).map(|_| resolver.resolve_with(&slow, std::future::pending()));
        let results: Vec<HostLookup> = futures::future::join_all(unanswered).await;
        assert!(results.iter().all(|results| *results == HostLookup::NotFound), "{results:?}");
        // The system's resolver has not given up yet.
        assert_eq!(resolver.resolve_with(&slow, async { Ok(Vec::new()) }).await, HostLookup::TooMany);
        let others = resolver.resolve_with(&other, async { Ok(Vec::new()) }).await;
        assert_eq!(others, HostLookup::Addresses(Vec::new()));
    }
}
