//! The part of a thread that a handoff covers, read from the journal page by page.
//!
//! At most one page of events is in memory, however long the thread is. An [`EventVisitor`] processes the events.

use journal::{EventQuery, HandoffFilter, PAGE_ROWS_MAX, Store};
use protocol::{Category, Event, EventId, HandoffSummary, Proposal, Seq, ThreadId};
use runtime::{Frame, FrameSender, StepContext, StepFailure};

use facts::{TranscriptItem, TranscriptItemKind};

pub(crate) mod inherited;
mod last_answer;
pub(crate) mod scan_cache;

/// The number of events in a page. It is large enough to make the cost of a query small, and small enough that a page
/// of long events fits in memory.
const WINDOW_PAGE_ROWS: usize = 250;
/// The number of messages from the beginning of the thread that are searched for the person's first request.
const FIRST_REQUEST_ROWS_MAX: usize = 200;

/// A thread to read, and the sender of progress frames.
#[derive(Clone, Copy)]
pub(crate) struct ThreadSource<'a> {
    /// The store that holds the thread.
    pub(crate) store: &'a dyn Store,
    /// The thread to read.
    pub(crate) thread_id: ThreadId,
    /// The sender that gets a progress frame after each page but the last.
    pub(crate) frames: &'a FrameSender,
}

impl<'a> ThreadSource<'a> {
    /// Returns the thread that the step belongs to.
    pub(crate) fn from_step(step: &'a StepContext<'_>) -> Self {
        Self { store: &**step.store, thread_id: step.thread_id, frames: step.frames }
    }
}

/// A suffix of a thread: the events after one position, up to the newest.
#[derive(Debug, Default)]
pub(crate) struct HandoffWindow {
    /// The seq of the last event before the window; 0 when the window is the whole thread.
    after: Seq,
    /// The person's first message, if it lies before the window. It is always covered, because it says what the work is
    /// for.
    first_request: Option<Event>,
    /// The number of messages before `first_request`.
    messages_before_first_request: u64,
    /// The number of other messages before the window.
    skipped_messages: u64,
    /// The summaries that the thread began with, if it is itself the child of a handoff. Its journal does not contain them.
    inherited: Vec<Proposal>,
}

/// A consumer of the events of a window.
pub(crate) trait EventVisitor: Send {
    /// Processes the next event.
    fn visit(&mut self, item: &TranscriptItem);

    /// Records that the events up to `last` that were not visited are not covered, and that `messages` of them are
    /// messages.
    fn skip_to(&mut self, last: Seq, messages: u64);

    /// Returns whether the visitor needs no more events. Reading stops after the current page then.
    fn is_done(&self) -> bool;
}

/// The position of an event. The id is part of it, so that a scan notices when a rewind has replaced the event of that seq.
pub(crate) type EventPosition = (Seq, EventId);

/// The end of a conversation that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConversationEnd {
    /// The newest conversation event. Events that Segue itself appended after it, about runs and handoffs, do not belong
    /// to the covered range.
    pub(crate) conversation: EventPosition,
    /// The newest event that was read, at which the next read begins.
    pub(crate) read: EventPosition,
}

impl HandoffWindow {
    /// Returns the window of the newest `messages` messages of the thread, or of the whole thread for `None`.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn open(thread: ThreadSource<'_>, messages: Option<u64>) -> Result<Self, StepFailure> {
        let inherited = inherited_proposals(thread).await?;
        let Some(mut remaining) = messages else {
            return Ok(Self { inherited, ..Self::default() });
        };
        let mut before = None;
        while remaining > 0 && before != Some(1) {
            let limit = usize::try_from(remaining).unwrap_or(PAGE_ROWS_MAX).min(WINDOW_PAGE_ROWS);
            let query =
                EventQuery { before, categories: vec![Category::Message], limit, ..EventQuery::default() };
            let page = thread.store.events(thread.thread_id, query).await?;
            let Some(first) = page.first() else { break };
            before = Some(first.seq);
            remaining -= page.len() as u64;
        }
        let after = before.unwrap_or(1).saturating_sub(1);
        if after == 0 {
            return Ok(Self { inherited, ..Self::default() });
        }
        let first_request = first_request(thread).await?.filter(|event| event.seq <= after);
        let messages_after = |seq| thread.store.messages_after(thread.thread_id, seq);
        let (all, inside) = tokio::try_join!(messages_after(0), messages_after(after))?;
        let before = all.saturating_sub(inside);
        let (before_first, skipped) = match &first_request {
            Some(first_request) => {
                let skipped = messages_after(first_request.seq).await?.saturating_sub(inside);
                (before.saturating_sub(skipped + 1), skipped)
            }
            None => (0, before),
        };
        Ok(Self {
            after,
            first_request,
            messages_before_first_request: before_first,
            skipped_messages: skipped,
            inherited,
        })
    }

    /// Returns the summaries that the thread began with.
    pub(crate) fn inherited_summaries(&self) -> impl Iterator<Item = &HandoffSummary> {
        self.inherited.iter().map(|proposal| &proposal.summary_json)
    }

    /// Passes every event of the window to `visitor`, in order, and returns the end of the conversation; `None` when
    /// the window has no conversation event. Progress frames carry the label `what`.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub(crate) async fn visit_events(
        &self,
        thread: ThreadSource<'_>,
        what: &str,
        visitor: &mut impl EventVisitor,
    ) -> Result<Option<ConversationEnd>, StepFailure> {
        for proposal in &self.inherited {
            visitor.visit(&inherited_item(proposal));
        }
        if let Some(first_request) = &self.first_request {
            visitor.skip_to(first_request.seq - 1, self.messages_before_first_request);
            visitor.visit(&TranscriptItem::from_event(first_request));
        }
        visitor.skip_to(self.after, self.skipped_messages);
        let mut pager = ThreadPager::starting_after(self.after, what);
        // Of the events before the conversation, only the first and the last are passed on: their positions complete
        // the covered range, also in a window without a conversation. Later events outside it are gaps in that range.
        let mut pending: Vec<TranscriptItem> = Vec::new();
        let mut end: Option<ConversationEnd> = None;
        while let Some(events) = pager.next_page(thread).await? {
            for event in &events {
                let item = TranscriptItem::from_event(event);
                let read = (event.seq, event.event_id);
                if is_conversation(&item) {
                    pending.drain(..).for_each(|item| visitor.visit(&item));
                    visitor.visit(&item);
                    end = Some(ConversationEnd { conversation: read, read });
                } else if let Some(end) = &mut end {
                    end.read = read;
                } else {
                    pending.truncate(1);
                    pending.push(item);
                }
            }
            if visitor.is_done() {
                break;
            }
        }
        pending.iter().for_each(|item| visitor.visit(item));
        Ok(end)
    }
}

/// Passes every conversation event after `end` to `visitor` and returns the new end of the conversation.
///
/// Returns `None`, without having passed on an event, when the last event that was read does not exist any more because
/// the thread was rewound.
///
/// # Errors
///
/// When the journal cannot be read.
pub(crate) async fn visit_new_events(
    thread: ThreadSource<'_>,
    end: ConversationEnd,
    visitor: &mut impl EventVisitor,
) -> Result<Option<ConversationEnd>, StepFailure> {
    let mut pager = ThreadPager::starting_after(end.read.0 - 1, "read the thread");
    let mut newest = None;
    while let Some(events) = pager.next_page(thread).await? {
        let mut events = events.iter();
        if newest.is_none() {
            let first = events.next().map(|event| (event.seq, event.event_id));
            if first != Some(end.read) {
                return Ok(None);
            }
        }
        let mut reached = newest.unwrap_or(end);
        for event in events {
            let item = TranscriptItem::from_event(event);
            reached.read = (event.seq, event.event_id);
            if is_conversation(&item) {
                visitor.visit(&item);
                reached.conversation = reached.read;
            }
        }
        newest = Some(reached);
    }
    Ok(newest)
}

/// A cursor that reads a thread page by page.
struct ThreadPager<'a> {
    /// The label of the progress frames.
    progress_label: &'a str,
    /// The seq after which reading started.
    start: Seq,
    /// The seq after which the next page starts.
    after: Seq,
    /// The newest seq of the thread; it is read once, when a second page is needed.
    last_seq: Option<Seq>,
    /// True if the last page was returned.
    is_last: bool,
}

impl<'a> ThreadPager<'a> {
    /// Returns a cursor before the first event after `after`.
    fn starting_after(after: Seq, progress_label: &'a str) -> Self {
        Self { progress_label, start: after, after, last_seq: None, is_last: false }
    }

    /// Returns the next page, or `None` at the end. Sends a progress frame after every page but the last.
    async fn next_page(&mut self, thread: ThreadSource<'_>) -> Result<Option<Vec<Event>>, StepFailure> {
        if self.is_last {
            return Ok(None);
        }
        let events =
            thread.store.events(thread.thread_id, EventQuery::after(self.after, WINDOW_PAGE_ROWS)).await?;
        self.is_last = events.len() < WINDOW_PAGE_ROWS;
        let Some(newest) = events.last() else { return Ok(None) };
        self.after = newest.seq;
        if !self.is_last {
            if self.last_seq.is_none() {
                self.last_seq = thread.store.thread(thread.thread_id).await?.map(|thread| thread.last_seq);
            }
            let total = self.last_seq.map(|last| last.max(self.after) - self.start);
            let what = self.progress_label.to_owned();
            thread.frames.send(Frame::Progress { what, done: self.after - self.start, total });
        }
        Ok(Some(events))
    }
}

/// Returns whether an event is part of the conversation, unlike records of runs, handoffs and other operations.
fn is_conversation(item: &TranscriptItem) -> bool {
    match item.kind {
        TranscriptItemKind::Message(_)
        | TranscriptItemKind::Unreadable
        | TranscriptItemKind::Note
        | TranscriptItemKind::Boundary
        | TranscriptItemKind::ImportedSummary(_)
        | TranscriptItemKind::InheritedSummary { .. } => true,
        TranscriptItemKind::Other => false,
    }
}

/// Returns the accepted proposals that the thread began with, the oldest first; none when it is not the child of a handoff.
async fn inherited_proposals(thread: ThreadSource<'_>) -> Result<Vec<Proposal>, StepFailure> {
    let filter = HandoffFilter { child_thread_id: Some(thread.thread_id), ..HandoffFilter::default() };
    let mut accepted = Vec::new();
    // The journal returns the newest handoff first.
    for handoff in thread.store.handoffs(filter).await?.into_iter().rev() {
        let Some(sha256) = &handoff.accepted_sha256 else { continue };
        let proposals = thread.store.proposals(handoff.handoff_id).await?;
        // A proposal after the accepted one is that package with lines that a person updated.
        let is_accepted = proposals.iter().any(|proposal| proposal.summary_sha256 == *sha256);
        accepted.extend(proposals.into_iter().last().filter(|_| is_accepted));
    }
    Ok(accepted)
}

/// Returns the summary that the thread began with, as an event with seq 0.
fn inherited_item(proposal: &Proposal) -> TranscriptItem {
    TranscriptItem {
        seq: 0,
        at: proposal.created_at,
        kind: TranscriptItemKind::InheritedSummary {
            grounded: verified_text(&proposal.summary_json),
            text: proposal.package_md.clone(),
        },
        is_subagent: false,
        is_injected: false,
        is_imported: false,
    }
}

/// Returns the verified items of a summary, one a line.
///
/// Title and TL;DR are left out because they are never checked. Unverified items are left out because a person accepted
/// them as unverified; the next summary must not present them as facts.
fn verified_text(summary: &HandoffSummary) -> String {
    let items = summary.body.iter().filter(|item| item.verified);
    items.map(|item| item.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the person's first message, if it is among the first [`FIRST_REQUEST_ROWS_MAX`] messages. In a thread that a
/// person started it always is.
async fn first_request(thread: ThreadSource<'_>) -> Result<Option<Event>, StepFailure> {
    let query =
        EventQuery { categories: vec![Category::Message], ..EventQuery::after(0, FIRST_REQUEST_ROWS_MAX) };
    let page = thread.store.events(thread.thread_id, query).await?;
    Ok(page.into_iter().find(|event| TranscriptItem::from_event(event).user_text().is_some()))
}
