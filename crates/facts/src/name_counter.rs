//! Counts names with bounded memory: the most used and the newest stay. What a name means is not known here.

use std::collections::HashMap;

use protocol::Seq;

use crate::facts::NameUsage;
use crate::limits::{NAME_BYTES_MAX, NAMES_COUNTED_MAX, NAMES_KEPT_MAX};

/// How often and how lately names were used.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameCounter {
    counts: HashMap<Box<str>, (u32, Seq)>,
}

impl NameCounter {
    /// Counts one use.
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

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Halves the number of names: those used once go first, the oldest first.
    fn prune(&mut self) {
        let mut order: Vec<(bool, Seq)> =
            self.counts.values().map(|(count, last)| (*count > 1, *last)).collect();
        order.sort_unstable();
        let middle = order[order.len() / 2];
        self.counts.retain(|_, (count, last)| (*count > 1, *last) > middle);
    }

    /// Returns the names by `order`, the largest first.
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

    /// Returns the most used names first.
    pub(crate) fn most_used_names(&self) -> Vec<NameUsage> {
        self.top_names_by(|count, last| (count, last))
    }

    /// Returns the latest used names first.
    pub(crate) fn latest_names(&self) -> Vec<NameUsage> {
        self.top_names_by(|count, last| (last, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_what_is_used_often_stays() {
        let mut tally = NameCounter::default();
        for seq in 1..50_000 {
            tally.count_use(&format!("name_{seq}"), seq);
            tally.count_use("often", seq);
        }
        assert!(tally.counts.len() <= NAMES_COUNTED_MAX);
        assert_eq!(tally.most_used_names()[0].text, "often");
        assert_eq!(tally.latest_names().len(), NAMES_KEPT_MAX);
    }
}
