//! The markers around a page of history: which marker covers a message, also if the marker is on another page, and
//! which markers were undone. Only the events of markers are read, so a long thread costs few rows.

use std::collections::BTreeSet;

use agent::{HistoryEntry, HistoryFilter, HistoryItem, HistoryPage, HistoryQuery, SupersededVisibility};
use protocol::Seq;
use terminal::marker::{CardFold, CompactionStatus};

use crate::commands::CommandContext;
use crate::commands::history::covered_range;
use crate::exit::CliFailure;

/// The number of markers that one query reads. A thread with more markers takes several queries.
const PAGE_MARKERS: usize = 200;

/// The markers of a thread from the beginning of a page to the end of the thread.
#[derive(Debug, Default)]
pub(crate) struct CompactionMarkers {
    /// The markers of compactions and archived messages, in order.
    markers: Vec<HistoryEntry>,
    /// The numbers of the markers that were undone, or that a rewind has hidden.
    reverted: BTreeSet<Seq>,
}

impl CompactionMarkers {
    /// Loads the markers that are needed to show a page. Loads nothing if markers are closed and the page contains none.
    ///
    /// # Errors
    /// Fails if the journal cannot be read.
    pub(crate) async fn load_around(
        context: &CommandContext,
        page: &HistoryPage,
        fold: CardFold,
        superseded: SupersededVisibility,
    ) -> Result<Self, CliFailure> {
        let mut loaded = Self::default();
        let is_marker =
            |entry: &HistoryEntry| matches!(entry.item, HistoryItem::Marker(_) | HistoryItem::Archived(_));
        let Some(first) = page.entries.first() else { return Ok(loaded) };
        if fold == CardFold::Closed && !page.entries.iter().any(is_marker) {
            return Ok(loaded);
        }
        let mut after = first.seq.saturating_sub(1);
        loop {
            let query = HistoryQuery {
                after_seq: Some(after),
                filter: HistoryFilter::Markers,
                superseded,
                limit: PAGE_MARKERS,
                ..HistoryQuery::default()
            };
            let batch = context.agent.threads().history_page(page.thread_id, &query).await?;
            after = batch.entries.last().map_or(after, |entry| entry.seq);
            batch.entries.into_iter().for_each(|entry| loaded.add_event(entry));
            if !batch.has_more_after {
                return Ok(loaded);
            }
        }
    }

    /// Adds an event. A compaction is reverted by an undo, or by a rewind to before it. An undo that was itself rewound
    /// has no effect.
    fn add_event(&mut self, entry: HistoryEntry) {
        match &entry.item {
            HistoryItem::Marker(_) | HistoryItem::Archived(_) => {
                if entry.is_superseded {
                    self.reverted.insert(entry.seq);
                }
                self.markers.push(entry);
            }
            HistoryItem::Undone(undone) if !entry.is_superseded => {
                self.reverted.insert(undone.marker_seq);
            }
            HistoryItem::Undone(_)
            | HistoryItem::Message(_)
            | HistoryItem::Boundary(_)
            | HistoryItem::Failed(_)
            | HistoryItem::Audit(_)
            | HistoryItem::Damaged(_) => {}
        }
    }

    /// Returns whether the compaction with this marker is active or reverted.
    pub(crate) fn status_of(&self, marker_seq: Seq) -> CompactionStatus {
        match self.reverted.contains(&marker_seq) {
            true => CompactionStatus::Reverted(marker_seq),
            false => CompactionStatus::Active(marker_seq),
        }
    }

    /// Returns the number of the marker of the active compaction that covers an event.
    pub(crate) fn compacted_in(&self, seq: Seq) -> Option<Seq> {
        self.active_marker_over(seq, |item| matches!(item, HistoryItem::Marker(_)))
    }

    /// Returns the number of the marker of the memory summary that covers an event.
    pub(crate) fn archived_in(&self, seq: Seq) -> Option<Seq> {
        self.active_marker_over(seq, |item| matches!(item, HistoryItem::Archived(_)))
    }

    /// Returns the first marker of a kind that covers an event and is not reverted.
    fn active_marker_over(&self, seq: Seq, is_of_kind: impl Fn(&HistoryItem) -> bool) -> Option<Seq> {
        let covers = |entry: &&HistoryEntry| {
            is_of_kind(&entry.item)
                && covered_range(entry).is_some_and(|(first, last)| (first..=last).contains(&seq))
                && !self.reverted.contains(&entry.seq)
        };
        self.markers.iter().find(covers).map(|entry| entry.seq)
    }

    /// Returns the markers that cover an event of the range, including reverted ones.
    pub(super) fn markers_covering(
        &self,
        first_seq: Option<Seq>,
        last_seq: Option<Seq>,
    ) -> Vec<HistoryEntry> {
        let (Some(first), Some(last)) = (first_seq, last_seq) else { return Vec::new() };
        let overlaps = |entry: &&HistoryEntry| {
            covered_range(entry).is_some_and(|(from, until)| from <= last && until >= first)
        };
        self.markers.iter().filter(overlaps).cloned().collect()
    }
}
