//! The part of a thread a handoff covers, read in pages: whatever its length, no more than a page is held. What is made
//! of the events is decided elsewhere.

use journal::{EventQuery, HandoffFilter, PAGE_ROWS_MAX, Store};
use protocol::{Category, Event, EventId, HandoffSummary, Seq, ThreadId};
use runtime::{Failure, Frame, Frames, StepContext};

use facts::{Item, What};

pub(crate) mod folds;

/// Events read at a time: enough that asking costs little, few enough that long ones fit.
const FOLD_PAGE_ROWS: usize = 250;
/// Messages from the beginning among which the first request is looked for.
const FIRST_REQUEST_WITHIN: usize = 200;

/// A thread that is read, and where it is told how far.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) thread_id: ThreadId,
    /// Where progress goes.
    pub(crate) frames: &'a Frames,
}

impl<'a> Reading<'a> {
    /// Returns the thread of a step.
    pub(crate) fn of(step: &'a StepContext<'_>) -> Self {
        Self { store: &**step.store, thread_id: step.thread_id, frames: step.frames }
    }
}

/// A part of a thread, from one event to the newest.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The last event before it.
    after: Seq,
    /// The person's first message when it lies before the window: what the work is for is always covered.
    goal: Option<Event>,
    /// Messages before that one.
    before_goal: u64,
    /// The other messages before the window.
    left_out: u64,
    /// The summary the thread began with, when it was handed over itself: its journal does not hold it.
    inherited: Option<Item>,
}

/// Takes what is read.
pub(crate) trait Reader: Send {
    /// Takes the next event.
    fn see(&mut self, item: &Item);

    /// Takes that the events up to `last` which were not given are left out, and how many of them are messages.
    fn left_out(&mut self, last: Seq, messages: u64);

    /// Returns whether nothing more needs to be read.
    fn is_done(&self) -> bool;
}

/// The newest event of the conversation that was read. What Segue noted of runs and handoffs after it is no part of
/// what a summary covers.
pub(crate) type End = (Seq, EventId);

impl Window {
    /// Returns the newest `messages` messages of the thread, or all of it.
    pub(crate) async fn of(thread: Reading<'_>, messages: Option<u64>) -> Result<Self, Failure> {
        let inherited = inherited(thread).await?;
        let Some(mut wanted) = messages else { return Ok(Self { inherited, ..Self::default() }) };
        let mut before = None;
        while wanted > 0 && before != Some(1) {
            let limit = usize::try_from(wanted).unwrap_or(PAGE_ROWS_MAX).min(FOLD_PAGE_ROWS);
            let query =
                EventQuery { before, categories: vec![Category::Message], limit, ..EventQuery::default() };
            let page = thread.store.events(thread.thread_id, query).await?;
            let Some(first) = page.first() else { break };
            before = Some(first.seq);
            wanted -= page.len() as u64;
        }
        let after = before.unwrap_or(1).saturating_sub(1);
        if after == 0 {
            return Ok(Self { inherited, ..Self::default() });
        }
        let goal = first_request(thread).await?.filter(|event| event.seq <= after);
        let messages_after = |seq| thread.store.messages_after(thread.thread_id, seq);
        let (all, inside) = tokio::try_join!(messages_after(0), messages_after(after))?;
        let before = all.saturating_sub(inside);
        let (before_goal, left_out) = match &goal {
            Some(goal) => {
                let left_out = messages_after(goal.seq).await?.saturating_sub(inside);
                (before.saturating_sub(left_out + 1), left_out)
            }
            None => (0, before),
        };
        Ok(Self { after, goal, before_goal, left_out, inherited })
    }

    /// Gives every event of the window to `reader`, in order, and returns where the conversation ends; `None` when
    /// nothing was said.
    pub(crate) async fn each(
        &self,
        thread: Reading<'_>,
        what: &str,
        reader: &mut impl Reader,
    ) -> Result<Option<End>, Failure> {
        if let Some(summary) = &self.inherited {
            reader.see(summary);
        }
        if let Some(goal) = &self.goal {
            reader.left_out(goal.seq - 1, self.before_goal);
            reader.see(&Item::from_event(goal));
        }
        reader.left_out(self.after, self.left_out);
        let mut page = Page::after(self.after, what);
        // The first and the last position count even where nothing was said.
        let mut unsaid: Vec<Item> = Vec::new();
        let mut end = None;
        while let Some(events) = page.next(thread).await? {
            for event in &events {
                let item = Item::from_event(event);
                if is_said(&item) {
                    unsaid.drain(..).for_each(|item| reader.see(&item));
                    reader.see(&item);
                    end = Some((event.seq, event.event_id));
                } else if end.is_none() {
                    unsaid.truncate(1);
                    unsaid.push(item);
                }
            }
            if reader.is_done() {
                break;
            }
        }
        unsaid.iter().for_each(|item| reader.see(item));
        Ok(end)
    }
}

/// Gives every event after `end` to `reader` and returns the new end; `None` when the thread does not have the old one
/// any more, and nothing was given.
pub(crate) async fn follow(
    thread: Reading<'_>,
    end: End,
    reader: &mut impl Reader,
) -> Result<Option<End>, Failure> {
    let mut page = Page::after(end.0 - 1, "read the thread");
    let mut newest = None;
    while let Some(events) = page.next(thread).await? {
        let mut events = events.iter();
        if newest.is_none() {
            newest = events.next().map(|event| (event.seq, event.event_id)).filter(|first| *first == end);
            if newest.is_none() {
                return Ok(None);
            }
        }
        for event in events {
            let item = Item::from_event(event);
            if is_said(&item) {
                reader.see(&item);
                newest = Some((event.seq, event.event_id));
            }
        }
    }
    Ok(newest)
}

/// Reads a thread page by page.
struct Page<'a> {
    what: &'a str,
    first: Seq,
    after: Seq,
    last: Option<Seq>,
    is_last: bool,
}

impl<'a> Page<'a> {
    fn after(after: Seq, what: &'a str) -> Self {
        Self { what, first: after, after, last: None, is_last: false }
    }

    /// Returns the next page, and tells how far the reading is when there are several.
    async fn next(&mut self, thread: Reading<'_>) -> Result<Option<Vec<Event>>, Failure> {
        if self.is_last {
            return Ok(None);
        }
        let events =
            thread.store.events(thread.thread_id, EventQuery::after(self.after, FOLD_PAGE_ROWS)).await?;
        self.is_last = events.len() < FOLD_PAGE_ROWS;
        let Some(newest) = events.last() else { return Ok(None) };
        self.after = newest.seq;
        if !self.is_last {
            if self.last.is_none() {
                self.last = thread.store.thread(thread.thread_id).await?.map(|thread| thread.last_seq);
            }
            let total = self.last.map(|last| last.max(self.after) - self.first);
            let what = self.what.to_owned();
            thread.frames.send(Frame::Progress { what, done: self.after - self.first, total });
        }
        Ok(Some(events))
    }
}

/// Returns whether an event belongs to the conversation.
fn is_said(item: &Item) -> bool {
    match item.what {
        What::Message(_)
        | What::Unread
        | What::Note
        | What::Boundary
        | What::ImportedSummary(_)
        | What::InheritedSummary { .. } => true,
        What::Other => false,
    }
}

/// Returns the summary that was accepted when the thread was created, as an event before its first.
async fn inherited(thread: Reading<'_>) -> Result<Option<Item>, Failure> {
    let filter = HandoffFilter { child_thread_id: Some(thread.thread_id), ..HandoffFilter::default() };
    let mut handoffs = thread.store.handoffs(filter).await?.into_iter();
    let Some(handoff) = handoffs.find(|handoff| handoff.accepted_sha256.is_some()) else { return Ok(None) };
    let proposals = thread.store.proposals(handoff.handoff_id).await?;
    let accepted =
        proposals.into_iter().find(|p| Some(&p.summary_sha256) == handoff.accepted_sha256.as_ref());
    Ok(accepted.map(|proposal| Item {
        seq: 0,
        at: proposal.created_at,
        what: What::InheritedSummary { proven: proven(&proposal.summary_json), text: proposal.summary_md },
        side: false,
        injected: false,
        imported: false,
    }))
}

/// Returns what of a summary is proven. Title and TL;DR are never checked, and of an item that names what nobody said
/// nothing counts: a person accepted it as unverified, and the next summary must not tell it as a fact.
fn proven(summary: &HandoffSummary) -> String {
    let items = summary.body.iter().filter(|item| item.verified);
    items.map(|item| item.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the person's first message, if it is near the beginning, as it is in every thread a person began.
async fn first_request(thread: Reading<'_>) -> Result<Option<Event>, Failure> {
    let query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_REQUEST_WITHIN) };
    let page = thread.store.events(thread.thread_id, query).await?;
    Ok(page.into_iter().find(|event| Item::from_event(event).user_text().is_some()))
}
