//! The part of a thread a handoff covers, read in pages: whatever its length, no more than a page is held.

use journal::{EventQuery, HandoffFilter, PAGE_ROWS_MAX};
use protocol::{Category, Coverage, Event, Seq};
use runtime::{Failure, Frame, StepContext};

use crate::ledger::source::{Item, What};
use crate::ledger::{Facts, Ledger};
use crate::summary::coverage::{CoverageBuilder, Reach};

/// Events of a page when the newest one of the conversation is looked for.
const LAST_SAID_PAGE: usize = 64;
/// Messages from the beginning among which the first request is looked for.
const FIRST_REQUEST_WITHIN: usize = 200;

/// A part of a thread, from one event to the newest.
pub(crate) struct Window {
    /// The last event before it.
    after: Seq,
    /// The person's first message when it lies before the window: what the work is for is always covered.
    goal: Option<Event>,
    /// The summary the thread began with, when it was handed over itself: its journal does not hold it.
    inherited: Option<Item>,
    /// The newest event of the conversation when the draft began; what comes later is not covered.
    last: Seq,
}

/// What one reading of the window tells.
pub(crate) struct Known {
    pub(crate) facts: Facts,
    /// What the ledger covers: every message in a fact at most, everything else not at all.
    pub(crate) coverage: Coverage,
}

impl Window {
    /// Returns the newest `messages` messages of the thread, or all of it.
    pub(crate) async fn of(step: &StepContext<'_>, messages: Option<u64>) -> Result<Self, Failure> {
        let last = last_said(step).await?;
        let inherited = inherited(step).await?;
        let Some(mut wanted) = messages else { return Ok(Self { after: 0, goal: None, inherited, last }) };
        let mut before = last + 1;
        while wanted > 0 && before > 1 {
            let limit = usize::try_from(wanted).unwrap_or(PAGE_ROWS_MAX).min(PAGE_ROWS_MAX);
            let query = EventQuery {
                after: None,
                before: Some(before),
                categories: vec![Category::Message],
                limit,
                ..EventQuery::default()
            };
            let page = step.store.events(step.thread_id, query).await?;
            let Some(first) = page.first() else { break };
            before = first.seq;
            wanted -= page.len() as u64;
        }
        let after = before.saturating_sub(1);
        let goal = first_request(step).await?.filter(|event| event.seq <= after);
        Ok(Self { after, goal, inherited, last })
    }

    /// Folds the window into facts.
    pub(crate) async fn known(&self, step: &StepContext<'_>) -> Result<Known, Failure> {
        let mut ledger = Ledger::default();
        let mut coverage = CoverageBuilder::default();
        self.each(step, "read the thread", |item| {
            if item.seq > 0 {
                coverage.mark(item.seq, if item.is_message() { Reach::Summarized } else { Reach::Excluded });
            }
            ledger.push(item);
        })
        .await?;
        Ok(Known { facts: ledger.finish(), coverage: coverage.finish() })
    }

    /// Calls `see` with every event of the window, in order.
    pub(crate) async fn each(
        &self,
        step: &StepContext<'_>,
        what: &str,
        mut see: impl FnMut(&Item) + Send,
    ) -> Result<(), Failure> {
        if let Some(summary) = &self.inherited {
            see(summary);
        }
        if let Some(goal) = &self.goal {
            see(&Item::from_event(goal));
        }
        let mut after = self.after;
        while after < self.last {
            let query = EventQuery { before: Some(self.last + 1), ..EventQuery::after(after, PAGE_ROWS_MAX) };
            let page = step.store.events(step.thread_id, query).await?;
            let Some(newest) = page.last() else { break };
            after = newest.seq;
            for event in &page {
                see(&Item::from_event(event));
            }
            let (done, total) = (after - self.after, Some(self.last - self.after));
            step.frames.send(Frame::Progress { what: what.to_owned(), done, total });
        }
        Ok(())
    }
}

/// Returns the position of the newest event that belongs to the conversation: what Segue noted of runs and handoffs
/// after it is no part of what a summary covers. A thread in which nothing was said ends where it ends.
async fn last_said(step: &StepContext<'_>) -> Result<Seq, Failure> {
    let mut before = None;
    loop {
        let query = EventQuery {
            after: None,
            before,
            categories: Vec::new(),
            limit: LAST_SAID_PAGE,
            ..EventQuery::default()
        };
        let page = step.store.events(step.thread_id, query).await?;
        let said = |event: &&Event| {
            matches!(
                Item::from_event(event).what,
                What::Message(_) | What::Note | What::Boundary | What::ImportedSummary(_)
            )
        };
        if let Some(event) = page.iter().rev().find(said) {
            return Ok(event.seq);
        }
        match page.first() {
            Some(first) => before = Some(first.seq),
            None => return Ok(step.store.thread(step.thread_id).await?.map_or(0, |thread| thread.last_seq)),
        }
    }
}

/// Returns the summary that was accepted when the thread was created, as an event before its first.
async fn inherited(step: &StepContext<'_>) -> Result<Option<Item>, Failure> {
    let filter = HandoffFilter { child_thread_id: Some(step.thread_id), ..HandoffFilter::default() };
    let mut handoffs = step.store.handoffs(filter).await?.into_iter();
    let Some(handoff) = handoffs.find(|handoff| handoff.accepted_sha256.is_some()) else { return Ok(None) };
    let proposals = step.store.proposals(handoff.handoff_id).await?;
    let accepted =
        proposals.into_iter().find(|p| Some(&p.summary_sha256) == handoff.accepted_sha256.as_ref());
    Ok(accepted.map(|proposal| Item {
        seq: 0,
        at: proposal.created_at,
        what: What::ImportedSummary(proposal.summary_md),
        side: false,
        injected: false,
    }))
}

/// Returns the person's first message, if it is near the beginning, as it is in every thread a person began.
async fn first_request(step: &StepContext<'_>) -> Result<Option<Event>, Failure> {
    let query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_REQUEST_WITHIN) };
    let page = step.store.events(step.thread_id, query).await?;
    Ok(page.into_iter().find(|event| Item::from_event(event).user_text().is_some()))
}
