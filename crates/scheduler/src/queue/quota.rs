//! Global and per-owner quotas, for example on queued runs. A quota hands out permits and does not know what they are
//! used for.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::OwnerScope;

use crate::error::Error;
use crate::limits::RETRY_AFTER;

/// A quota: it counts permits in total and for each owner, and refuses those above its limits.
#[derive(Debug)]
pub(crate) struct Quota {
    usage: Mutex<QuotaUsage>,
    limits: QuotaLimits,
}

/// The limits of a quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaLimits {
    /// Maximum number of permits in total.
    pub(crate) global: usize,
    /// Maximum number of permits of one owner.
    pub(crate) per_owner: usize,
}

/// The number of permits in use.
#[derive(Debug, Default)]
struct QuotaUsage {
    global: usize,
    /// Only owners that hold at least one permit, so that the map does not grow with the number of users.
    by_owner: HashMap<OwnerScope, usize>,
}

/// A permit. Dropping it returns it to its quota.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    quota: Arc<Quota>,
    scope: OwnerScope,
}

impl Quota {
    /// Returns a quota with no permit in use.
    pub(crate) fn new(limits: QuotaLimits) -> Arc<Self> {
        Arc::new(Self { usage: Mutex::default(), limits })
    }

    /// Acquires a permit without waiting.
    ///
    /// # Errors
    /// [`Error::QueueFull`] if the limit is reached, for this owner or in total.
    pub(crate) fn acquire(self: &Arc<Self>, scope: &OwnerScope) -> Result<QuotaPermit, Error> {
        let mut usage = self.usage.lock();
        let owner_usage = usage.by_owner.get(scope).copied().unwrap_or_default();
        if usage.global >= self.limits.global || owner_usage >= self.limits.per_owner {
            return Err(Error::QueueFull { retry_after: RETRY_AFTER });
        }
        Ok(self.grant(&mut usage, scope))
    }

    /// Acquires a permit even above the limit. Used for runs that an earlier process left queued, and for requests that
    /// cancel other runs.
    pub(crate) fn acquire_over_limit(self: &Arc<Self>, scope: &OwnerScope) -> QuotaPermit {
        self.grant(&mut self.usage.lock(), scope)
    }

    /// Counts and returns a permit.
    fn grant(self: &Arc<Self>, usage: &mut QuotaUsage, scope: &OwnerScope) -> QuotaPermit {
        usage.global += 1;
        *usage.by_owner.entry(scope.clone()).or_default() += 1;
        QuotaPermit { quota: Arc::clone(self), scope: scope.clone() }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut usage = self.quota.usage.lock();
        usage.global = usage.global.saturating_sub(1);
        if let Some(own) = usage.by_owner.get_mut(&self.scope) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                usage.by_owner.remove(&self.scope);
            }
        }
    }
}
