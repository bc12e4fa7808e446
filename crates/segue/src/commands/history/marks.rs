//! The markers around a page of history: in which of them a message was condensed, though it may be on another page, and
//! which of them were taken back since. It reads those events alone.

use std::collections::BTreeSet;

use agent::{HistoryEntry, HistoryItem, HistoryPage, HistoryQuery, Shown, Superseded};
use protocol::Seq;
use terminal::marker::{Fold, Standing};

use crate::commands::Context;
use crate::commands::history::stands_for;
use crate::exit::Failure;

/// Markers that are read at a time.
const READ_AT_ONCE: usize = 200;

/// The markers from the beginning of a page on.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    markers: Vec<HistoryEntry>,
    taken_back: BTreeSet<Seq>,
}

impl Marks {
    /// Returns the markers that a page needs to be told: where the page has none and nothing is opened, that is none.
    pub(crate) async fn around(
        context: &Context,
        page: &HistoryPage,
        fold: Fold,
        superseded: Superseded,
    ) -> Result<Self, Failure> {
        let mut marks = Self::default();
        let is_marker =
            |entry: &HistoryEntry| matches!(entry.what, HistoryItem::Marker(_) | HistoryItem::Archived(_));
        let Some(first) = page.entries.first() else { return Ok(marks) };
        if fold == Fold::Closed && !page.entries.iter().any(is_marker) {
            return Ok(marks);
        }
        let mut after = first.seq.saturating_sub(1);
        loop {
            let query = HistoryQuery {
                after_seq: Some(after),
                shown: Shown::Markers,
                superseded,
                limit: READ_AT_ONCE,
                ..HistoryQuery::default()
            };
            let read = context.agent.threads().history_page(page.thread_id, &query).await?;
            after = read.entries.last().map_or(after, |entry| entry.seq);
            read.entries.into_iter().for_each(|entry| marks.add(entry));
            if !read.has_more_after {
                return Ok(marks);
            }
        }
    }

    /// A compaction is taken back by undoing it, and by going back to before it. An undoing that is itself taken back by
    /// that undoes nothing.
    fn add(&mut self, entry: HistoryEntry) {
        match &entry.what {
            HistoryItem::Marker(_) | HistoryItem::Archived(_) => {
                if entry.is_superseded {
                    self.taken_back.insert(entry.seq);
                }
                self.markers.push(entry);
            }
            HistoryItem::Undone(undone) if !entry.is_superseded => {
                self.taken_back.insert(undone.marker_seq);
            }
            HistoryItem::Undone(_)
            | HistoryItem::Message(_)
            | HistoryItem::Boundary(_)
            | HistoryItem::Failed(_) => {}
        }
    }

    /// Returns what became of a marker.
    pub(crate) fn standing(&self, marker_seq: Seq) -> Standing {
        match self.taken_back.contains(&marker_seq) {
            true => Standing::TakenBack(marker_seq),
            false => Standing::Stands(marker_seq),
        }
    }

    /// Returns the marker in which an event was condensed, if it still is.
    pub(crate) fn condensed_in(&self, seq: Seq) -> Option<Seq> {
        self.standing_over(seq, |what| matches!(what, HistoryItem::Marker(_)))
    }

    /// Returns the marker with which an event went to memory, if it is still there.
    pub(crate) fn archived_in(&self, seq: Seq) -> Option<Seq> {
        self.standing_over(seq, |what| matches!(what, HistoryItem::Archived(_)))
    }

    /// Returns the first marker of a kind that stands for an event and was not taken back.
    fn standing_over(&self, seq: Seq, is_of_kind: impl Fn(&HistoryItem) -> bool) -> Option<Seq> {
        let covers = |entry: &&HistoryEntry| {
            is_of_kind(&entry.what)
                && stands_for(entry).is_some_and(|(first, last)| (first..=last).contains(&seq))
                && !self.taken_back.contains(&entry.seq)
        };
        self.markers.iter().find(covers).map(|entry| entry.seq)
    }

    /// Returns the markers in which events between the two were condensed, those that were taken back too.
    pub(super) fn covering(&self, first_seq: Option<Seq>, last_seq: Option<Seq>) -> Vec<HistoryEntry> {
        let (Some(first), Some(last)) = (first_seq, last_seq) else { return Vec::new() };
        let touches = |entry: &&HistoryEntry| {
            stands_for(entry).is_some_and(|(from, until)| from <= last && until >= first)
        };
        self.markers.iter().filter(touches).cloned().collect()
    }
}
