//! Windows of logged messages, by index. Messages are not read here.

use protocol::ThreadId;

/// A window of an agent's logged messages: all messages from the lowest to the highest of the given indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnWindow {
    /// Indexes (`turn_index`) in any order. The window reaches from the lowest to the highest. Without an index, it is
    /// empty.
    pub indexes: Vec<u64>,
    /// Restricts the window to messages of this thread.
    pub thread_id: Option<ThreadId>,
}

impl TurnWindow {
    /// Returns the window from the lowest to the highest of these indexes, over all threads.
    pub fn from_indexes(indexes: impl IntoIterator<Item = u64>) -> Self {
        Self { indexes: indexes.into_iter().collect(), thread_id: None }
    }

    /// Restricts the window to messages of this thread.
    #[must_use]
    pub fn in_thread(mut self, thread_id: ThreadId) -> Self {
        self.thread_id = Some(thread_id);
        self
    }

    /// Returns the lowest and the highest index; `None` for an empty window.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        Some((*self.indexes.iter().min()?, *self.indexes.iter().max()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_a_window_reaches_from_the_lowest_index_to_the_highest_in_any_order() {
        for (indexes, bounds) in [
            (vec![], None),
            (vec![7], Some((7, 7))),
            (vec![1, 2, 3], Some((1, 3))),
            (vec![9, 4, 6, 4], Some((4, 9))),
            (vec![u64::MAX, 0], Some((0, u64::MAX))),
        ] {
            assert_eq!(TurnWindow::from_indexes(indexes.clone()).bounds(), bounds, "{indexes:?}");
        }
    }
}
