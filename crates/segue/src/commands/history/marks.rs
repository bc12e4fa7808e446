//! The markers around a page of history: in which of them a message was condensed, though it may be on another page, and
//! which of them were taken back since. It reads those events alone.

use std::collections::BTreeSet;

use agent::{EventQuery, HistoryEntry, HistoryItem, HistoryPage, Superseded};
use protocol::Seq;

use super::MARKERS;
use crate::commands::Context;
use crate::exit::Failure;
use crate::terminal::show::marker::{Fold, Standing};

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
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn around(
        context: &Context,
        page: &HistoryPage,
        (fold, superseded): (Fold, Superseded),
    ) -> Result<Self, Failure> {
        let mut marks = Self::default();
        let is_marker = |entry: &HistoryEntry| matches!(entry.what, HistoryItem::Marker(_));
        let Some(first) = page.entries.first() else { return Ok(marks) };
        if fold == Fold::Closed && !page.entries.iter().any(is_marker) {
            return Ok(marks);
        }
        let mut after = first.seq.saturating_sub(1);
        loop {
            let query =
                EventQuery { types: MARKERS.to_vec(), superseded, ..EventQuery::after(after, READ_AT_ONCE) };
            let events =
                context.agent.store().events(page.thread_id, query).await.map_err(agent::Error::from)?;
            let Some(last) = events.last() else { return Ok(marks) };
            after = last.seq;
            for entry in agent::history_of(&events) {
                match &entry.what {
                    HistoryItem::Marker(_) => marks.markers.push(entry),
                    HistoryItem::Undone(undone) => drop(marks.taken_back.insert(undone.marker_seq)),
                    HistoryItem::Message(_) | HistoryItem::Boundary(_) => {}
                }
            }
            if events.len() < READ_AT_ONCE {
                return Ok(marks);
            }
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
        let covers = |entry: &&HistoryEntry| match &entry.what {
            HistoryItem::Marker(marker) => (marker.first_seq..=marker.last_seq).contains(&seq),
            HistoryItem::Message(_) | HistoryItem::Boundary(_) | HistoryItem::Undone(_) => false,
        };
        let stands = |entry: &&HistoryEntry| !self.taken_back.contains(&entry.seq);
        self.markers.iter().filter(covers).find(stands).map(|entry| entry.seq)
    }

    /// Returns the markers in which events between the two were condensed, those that were taken back too.
    pub(super) fn covering(&self, first_seq: Option<Seq>, last_seq: Option<Seq>) -> Vec<HistoryEntry> {
        let (Some(first), Some(last)) = (first_seq, last_seq) else { return Vec::new() };
        let touches = |entry: &&HistoryEntry| match &entry.what {
            HistoryItem::Marker(marker) => marker.first_seq <= last && marker.last_seq >= first,
            HistoryItem::Message(_) | HistoryItem::Boundary(_) | HistoryItem::Undone(_) => false,
        };
        self.markers.iter().filter(touches).cloned().collect()
    }
}
