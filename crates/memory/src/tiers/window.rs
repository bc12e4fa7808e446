//! Windows of turns, by index. Turns are not read here.

use protocol::ThreadId;

/// Turns of an agent, by their indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnWindow {
    /// Indexes, in any order; the turns are those from the lowest to the highest. None means no turn.
    pub indexes: Vec<u64>,
    /// Only those of this thread.
    pub thread_id: Option<ThreadId>,
}

impl TurnWindow {
    /// Returns the window from the lowest of these to the highest.
    pub fn from_indexes(indexes: impl IntoIterator<Item = u64>) -> Self {
        Self { indexes: indexes.into_iter().collect(), thread_id: None }
    }

    /// Sets the thread.
    #[must_use]
    pub fn in_thread(mut self, thread_id: ThreadId) -> Self {
        self.thread_id = Some(thread_id);
        self
    }

    /// Returns the lowest and the highest index; `None` of an empty window.
    pub fn bounds(&self) -> Option<(u64, u64)> {
        Some((*self.indexes.iter().min()?, *self.indexes.iter().max()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_a_window_goes_from_the_lowest_index_to_the_highest_in_whatever_order() {
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
