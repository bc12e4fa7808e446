//! Values that are computed from a scan for a budget. The drafts of one thread, its refinements and its estimates use a few
//! budgets again and again.

use std::sync::Arc;

use parking_lot::Mutex;

/// The maximum number of budgets whose values are kept.
const BUDGETS_MAX: usize = 3;

/// The values of the latest budgets. A clone shares the values and not the cache.
#[derive(Debug)]
pub(super) struct BudgetCache<K, T>(Mutex<Vec<(K, Arc<T>)>>);

impl<K, T> Default for BudgetCache<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone, T> Clone for BudgetCache<K, T> {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

impl<K: PartialEq, T> BudgetCache<K, T> {
    /// Returns the value of a budget, if it is kept.
    pub(super) fn get(&self, budget: &K) -> Option<Arc<T>> {
        self.0.lock().iter().find(|(cached, _)| cached == budget).map(|(_, value)| Arc::clone(value))
    }

    /// Keeps the value of a budget, in place of the oldest one if there are [`BUDGETS_MAX`], and returns it.
    pub(super) fn insert(&self, budget: K, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut values = self.0.lock();
        if values.len() == BUDGETS_MAX {
            values.remove(0);
        }
        values.push((budget, Arc::clone(&value)));
        value
    }

    /// Returns the value of a budget, and computes it if it is not kept.
    pub(super) fn get_or_compute(&self, budget: K, compute: impl FnOnce() -> T) -> Arc<T> {
        match self.get(&budget) {
            Some(value) => value,
            None => self.insert(budget, compute()),
        }
    }

    /// Changes all values. One that a clone shares is copied first.
    pub(super) fn update(&mut self, change: impl Fn(&mut T))
    where
        T: Clone,
    {
        self.0.get_mut().iter_mut().for_each(|(_, value)| change(Arc::make_mut(value)));
    }

    /// Returns the values that are kept.
    pub(super) fn values(&self) -> Vec<Arc<T>> {
        self.0.lock().iter().map(|(_, value)| Arc::clone(value)).collect()
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        self.0.get_mut().clear();
    }
}
