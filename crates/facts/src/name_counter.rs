//! A counter of names with bounded memory, which keeps the most used and the newest names. It does not interpret names.

use std::collections::HashMap;

use protocol::Seq;

use crate::facts::NameUsage;
use crate::limits::{NAME_BYTES_MAX, NAMES_COUNTED_MAX, NAMES_KEPT_MAX};

/// The number of uses and the last use of each name. It has at most [`NAMES_COUNTED_MAX`] names.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameCounter {
    /// Number of uses and `seq` of the last one, by name.
    counts: HashMap<Box<str>, (u32, Seq)>,
}

impl NameCounter {
    /// Counts one use of a name by the event `seq`. Names above [`NAME_BYTES_MAX`] bytes are ignored. A new name in a full
    /// counter drops about half of the names, so the amortized cost is constant.
    pub(crate) fn count_use(&mut self, name: &str, seq: Seq) {
        if name.len() > NAME_BYTES_MAX {
            return;
        }
        if let Some((count, last)) = self.counts.get_mut(name) {
            *count += 1;
            *last = seq;
            return;
        }
        if self.counts.len() >= NAMES_COUNTED_MAX {
            self.prune();
        }
        self.counts.insert(name.into(), (1, seq));
    }

    /// Undoes one use of a name. A name without uses is removed; the last use of another stays as it is.
    pub(crate) fn remove_use(&mut self, name: &str) {
        if let Some((count, _)) = self.counts.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(name);
            }
        }
    }

    /// Removes all names.
    pub(crate) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Removes about half of the names: first those that were used once, and of these the least recently used.
    fn prune(&mut self) {
        let mut order: Vec<(bool, Seq)> =
            self.counts.values().map(|(count, last)| (*count > 1, *last)).collect();
        order.sort_unstable();
        let median = order[order.len() / 2];
        self.counts.retain(|_, (count, last)| (*count > 1, *last) > median);
    }

    /// Returns the [`NAMES_KEPT_MAX`] names with the largest key, the largest first. `order` makes the key from the number
    /// of uses and the `seq` of the last use. Equal keys are sorted by name, so that the result is deterministic.
    fn top_names_by<K: Ord>(&self, order: impl Fn(u32, Seq) -> K) -> Vec<NameUsage> {
        let mut names: Vec<(&str, u32, Seq)> =
            self.counts.iter().map(|(name, (count, last))| (&**name, *count, *last)).collect();
        let compare = |a: &(&str, u32, Seq), b: &(&str, u32, Seq)| {
            order(b.1, b.2).cmp(&order(a.1, a.2)).then_with(|| a.0.cmp(b.0))
        };
        if names.len() > NAMES_KEPT_MAX {
            names.select_nth_unstable_by(NAMES_KEPT_MAX, compare);
            names.truncate(NAMES_KEPT_MAX);
        }
        names.sort_unstable_by(compare);
        names
            .into_iter()
            .map(|(text, count, last)| NameUsage { text: text.to_owned(), count, seq: last })
            .collect()
    }

    /// Returns the most used names, the most used first.
    pub(crate) fn most_used_names(&self) -> Vec<NameUsage> {
        self.top_names_by(|count, last| (count, last))
    }

    /// Returns the most recently used names, the latest first.
    pub(crate) fn latest_names(&self) -> Vec<NameUsage> {
        self.top_names_by(|count, last| (last, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_frequent_names_stay() {
        let mut counter = NameCounter::default();
        for seq in 1..50_000 {
            counter.count_use(&format!("name_{seq}"), seq);
            counter.count_use("often", seq);
        }
        assert!(counter.counts.len() <= NAMES_COUNTED_MAX);
        assert_eq!(counter.most_used_names()[0].text, "often");
        assert_eq!(counter.latest_names().len(), NAMES_KEPT_MAX);
    }
}
