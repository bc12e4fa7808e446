//! A cache of thread transcripts, so that a snapshot costs only the new events and not the whole thread.
//!
//! A transcript contains every message of a thread, including rewound ones. The journal is append-only, so
//! each snapshot is a subset of the transcript. The journal remains the source of truth: a transcript is used
//! only as long as the journal still contains its last event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff::{QUESTION_EVENT_TYPES, handoff_messages};
use journal::view::branches::{BranchHistory, VisibleEvents};
use journal::{EventQuery, HandoffFilter, Store, SupersededVisibility};
use parking_lot::Mutex;
use protocol::{ContentBlock, Event, EventId, EventType, Handoff, Message, Proposal, Seq, ThreadId};

use super::message::{MediaByName, StateMessage};

/// Events per page.
const PAGE_ROWS: usize = 1_000;

/// The most transcripts in the cache.
const TRANSCRIPTS_MAX: usize = 256;

/// The most bytes of messages in the cache, for all threads together. The newest transcript is kept whatever
/// its size.
const TRANSCRIPT_BYTES_MAX: usize = 48 << 20;

/// The factor by which the text of a message is counted: the parsed form, the encoded form, and a reserve for
/// the overhead of both.
const TEXT_COPIES: usize = 3;

/// The most bytes of files that are loaded with the messages of one thread, in the order of the messages.
/// Files of further messages are only referenced.
const MEDIA_BYTES_MAX: usize = 8 << 20;

/// A substring of the JSON of every event that contains a file.
const MEDIA_JSON_MARKER: &str = r#""type":"media""#;

/// The most attempts to extend a shared transcript that other readers extend at the same time. After that,
/// the transcript is read separately.
const ATTEMPTS_MAX: u32 = 8;

/// The event types of a transcript, in addition to those of handoff questions.
const TRANSCRIPT_EVENT_TYPES: [EventType; 4] =
    [EventType::HumanMessage, EventType::AiMessage, EventType::ToolMessage, EventType::ThreadRewound];

/// A handoff with its proposals.
type HandoffWithProposals = (Handoff, Vec<Proposal>);

/// Rows that are read in addition to the events of a page.
#[derive(Default)]
struct PageExtras {
    /// The handoffs of the thread; empty if no event of the page refers to one.
    handoffs: Vec<HandoffWithProposals>,
    /// The bytes of files, by the seq of their message.
    media: BTreeMap<Seq, MediaByName>,
}

/// The cached transcripts.
#[derive(Default)]
pub(crate) struct TranscriptCache {
    /// At most [`TRANSCRIPTS_MAX`] transcripts, the most recently used one last.
    entries: Mutex<Vec<CachedTranscript>>,
}

/// A cached transcript with its thread and size.
struct CachedTranscript {
    /// The thread.
    thread_id: ThreadId,
    /// The transcript, shared with its readers.
    transcript: Arc<SharedTranscript>,
    /// Its size when it was last read.
    bytes: usize,
}

/// A transcript that several readers share.
#[derive(Default)]
struct SharedTranscript {
    /// The messages read so far.
    transcript: Mutex<ThreadTranscript>,
    /// Held while events are read. One reader at a time extends the transcript, so that the bytes of files
    /// are not loaded several times.
    read_lock: tokio::sync::Mutex<()>,
}

/// The last event of a [`ThreadTranscript`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TranscriptEnd {
    /// The seq of the event.
    seq: Seq,
    /// The id of the event, by which a deleted and recreated thread is detected.
    event_id: EventId,
}

impl TranscriptEnd {
    /// Returns the end after this event.
    const fn from_event(event: &Event) -> Self {
        Self { seq: event.seq, event_id: event.event_id }
    }
}

/// All messages of a thread, and its rewinds.
#[derive(Default)]
pub(crate) struct ThreadTranscript {
    /// The messages, sorted by seq, including rewound ones.
    messages: Vec<Arc<StateMessage>>,
    /// The rewinds, which determine the visible events of each branch.
    pub(super) branches: BranchHistory,
    /// The events of questions about handoffs.
    handoff_events: Vec<Event>,
    /// The counted size in bytes.
    bytes: usize,
    /// The bytes of loaded files among them, as they were before encoding.
    media_bytes: usize,
    /// The last event that was read; `None` before the first.
    end: Option<TranscriptEnd>,
}

impl ThreadTranscript {
    /// Returns the messages that were visible when `head_seq` was the last event.
    pub(super) fn visible_at(&self, head_seq: Seq) -> Vec<Arc<StateMessage>> {
        self.messages_within(&self.branches.visible_at(head_seq), 0)
    }

    /// Returns the visible messages after `seq`.
    pub(super) fn visible_after(&self, seq: Seq) -> Vec<Arc<StateMessage>> {
        self.messages_within(&self.branches.visible_at(self.end_seq()), seq)
    }

    /// Returns the last seq of the current state, whose checkpoint was stored at `head_seq`. An import adds messages
    /// without a checkpoint; the messages of a run get theirs from the run.
    pub(super) fn end_of_current_state(&self, head_seq: Seq) -> Seq {
        let later = self.visible_after(head_seq);
        let messages = later.iter().filter(|message| !message.is_projected);
        messages.take_while(|message| message.run_id.is_none()).last().map_or(head_seq, |last| last.seq)
    }

    /// Returns the seq of the last event that was read.
    pub(super) fn end_seq(&self) -> Seq {
        self.end.map_or(0, |end| end.seq)
    }

    /// Returns the end of the transcript and the bytes of its loaded files.
    fn end_and_media_bytes(&self) -> (Option<TranscriptEnd>, usize) {
        (self.end, self.media_bytes)
    }

    /// Returns the message with that seq, visible or not.
    pub(super) fn message_at(&self, seq: Seq) -> Option<&Arc<StateMessage>> {
        let index = self.messages.binary_search_by_key(&seq, |message| message.seq).ok()?;
        self.messages.get(index)
    }

    /// Returns the messages of the visible events after `after`.
    fn messages_within(&self, visible: &VisibleEvents, after: Seq) -> Vec<Arc<StateMessage>> {
        let mut messages = Vec::new();
        for (first, last) in visible.visible_ranges().filter(|(_, last)| *last > after) {
            let first = first.max(after + 1);
            let from = self.messages.partition_point(|message| message.seq < first);
            let to = self.messages.partition_point(|message| message.seq <= last);
            messages.extend_from_slice(&self.messages[from..to]);
        }
        messages
    }

    /// Appends the messages of the events.
    fn extend(&mut self, events: &[Event], extras: &mut PageExtras) {
        let from = self.handoff_events.len();
        for event in events {
            self.branches.add_event(event);
            if event.kind().is_some_and(|kind| QUESTION_EVENT_TYPES.contains(&kind)) {
                self.bytes += event.content.get().len() + size_of::<Event>();
                self.handoff_events.push(event.clone());
            }
        }
        let mut projected = self.projected_messages(from, &extras.handoffs).into_iter().peekable();
        for event in events {
            while let Some((_, message)) = projected.next_if(|(seq, _)| *seq == event.seq) {
                self.bytes += cached_bytes(event);
                self.messages.push(Arc::new(StateMessage::projected_from(event, message)));
            }
            if let Some(message) = StateMessage::from_event(event) {
                let media = extras.media.remove(&event.seq).unwrap_or_default();
                let media_bytes: usize = media.values().map(|bytes| bytes.len()).sum();
                self.media_bytes += media_bytes;
                self.bytes += cached_bytes(event) + media_bytes.div_ceil(3) * 4;
                self.messages.push(Arc::new(message.with_media(media)));
            }
            self.end = Some(TranscriptEnd::from_event(event));
        }
    }

    /// Returns the messages that represent handoff questions and outcomes, for the events from index `from`
    /// on, on all branches. The message of an event depends only on the events that were visible there, not
    /// on later ones.
    fn projected_messages(&self, from: usize, handoffs: &[HandoffWithProposals]) -> Vec<(Seq, Message)> {
        let mut projected = Vec::new();
        let mut open: BTreeSet<Seq> = self.handoff_events[from..].iter().map(|event| event.seq).collect();
        while let Some(head) = open.pop_last().filter(|_| !handoffs.is_empty()) {
            let visible = self.branches.visible_at(head);
            let events: Vec<Event> =
                self.handoff_events.iter().filter(|event| visible.contains(event.seq)).cloned().collect();
            let messages = handoff_messages(&events, handoffs);
            projected.extend(messages.into_iter().filter(|(seq, _)| *seq == head || open.contains(seq)));
            for event in &events {
                open.remove(&event.seq);
            }
        }
        projected.sort_by_key(|(seq, _)| *seq);
        projected
    }

    /// Appends a page that was read from `from` on. Returns `false` if `from` is no longer the end, or if the
    /// journal no longer contains that event; in the latter case the transcript is cleared.
    fn append_page(&mut self, from: Option<TranscriptEnd>, page: &[Event], extras: &mut PageExtras) -> bool {
        if self.end != from {
            return false;
        }
        match (from, page.split_first()) {
            (None, _) => self.extend(page, extras),
            (Some(end), Some((first, new))) if TranscriptEnd::from_event(first) == end => {
                self.extend(new, extras);
            }
            (Some(_), _) => {
                *self = Self::default();
                return false;
            }
        }
        true
    }
}

impl TranscriptCache {
    /// Extends the thread's transcript with new events, and returns the result of `read` on it. The caller
    /// has checked that the thread exists and that the reader may see it.
    ///
    /// # Errors
    /// Fails only if the journal does.
    pub(super) async fn with_transcript<T>(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        read: impl FnOnce(&ThreadTranscript) -> T,
    ) -> journal::Result<T> {
        let shared = self.get_or_insert(thread_id);
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            let _read_guard = shared.read_lock.lock().await;
            let (from, media_bytes) = shared.transcript.lock().end_and_media_bytes();
            let page = read_page(store, thread_id, from).await?;
            let mut extras = read_page_extras(store, thread_id, from, &page, media_bytes).await?;
            let mut transcript = shared.transcript.lock();
            if !transcript.append_page(from, &page, &mut extras) {
                attempts += 1;
                continue;
            }
            if page.len() == PAGE_ROWS {
                continue;
            }
            let (result, bytes) = (read(&transcript), transcript.bytes);
            drop(transcript);
            self.trim(thread_id, bytes);
            return Ok(result);
        }
        let mut own = ThreadTranscript::default();
        loop {
            let page = read_page(store, thread_id, own.end).await?;
            let mut extras = read_page_extras(store, thread_id, own.end, &page, own.media_bytes).await?;
            if !own.append_page(own.end, &page, &mut extras) || page.len() < PAGE_ROWS {
                return Ok(read(&own));
            }
        }
    }

    /// Returns the cached transcript of the thread and marks it as the most recently used one. Adds an empty
    /// one if there is none.
    fn get_or_insert(&self, thread_id: ThreadId) -> Arc<SharedTranscript> {
        let mut entries = self.entries.lock();
        let index = entries.iter().position(|entry| entry.thread_id == thread_id);
        let entry = match index {
            Some(index) => entries.remove(index),
            None => CachedTranscript { thread_id, transcript: Arc::default(), bytes: 0 },
        };
        let transcript = Arc::clone(&entry.transcript);
        entries.push(entry);
        transcript
    }

    /// Records the size of the thread's transcript, and drops the least recently used transcripts beyond the
    /// limits.
    fn trim(&self, thread_id: ThreadId, bytes: usize) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.iter_mut().rev().find(|entry| entry.thread_id == thread_id) {
            entry.bytes = bytes;
        }
        let mut total: usize = entries.iter().map(|entry| entry.bytes).sum();
        while entries.len() > 1 && (entries.len() > TRANSCRIPTS_MAX || total > TRANSCRIPT_BYTES_MAX) {
            total -= entries.remove(0).bytes;
        }
    }
}

/// Returns the bytes that the message of an event is counted with.
fn cached_bytes(event: &Event) -> usize {
    event.content.get().len() * TEXT_COPIES + size_of::<StateMessage>()
}

/// Reads a page of events that starts with the event `from` itself, so that the caller can check whether it
/// still exists.
async fn read_page(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
) -> journal::Result<Vec<Event>> {
    let query = EventQuery {
        types: TRANSCRIPT_EVENT_TYPES.into_iter().chain(QUESTION_EVENT_TYPES).collect(),
        superseded: SupersededVisibility::Shown,
        ..EventQuery::after(from.map_or(0, |end| end.seq - 1), PAGE_ROWS)
    };
    store.events(thread_id, query).await
}

/// Reads the handoffs and files that the new events of the page need. `loaded_bytes` are the bytes of files
/// that the transcript already contains.
async fn read_page_extras(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
    page: &[Event],
    loaded_bytes: usize,
) -> journal::Result<PageExtras> {
    let handoffs = handoffs_in_page(store, thread_id, from, page).await?;
    let (mut media, mut remaining) = (BTreeMap::new(), MEDIA_BYTES_MAX.saturating_sub(loaded_bytes));
    let is_new = |event: &&Event| from.is_none_or(|end| event.seq > end.seq);
    for event in page.iter().filter(is_new).filter(|event| has_media(event)) {
        let Some(message) = event.message() else { continue };
        let files: Vec<(&String, usize)> = message.content().iter().filter_map(media_file).collect();
        let bytes: usize = files.iter().map(|(_, bytes)| bytes).sum();
        if bytes > remaining {
            continue;
        }
        let mut loaded = MediaByName::new();
        for (sha256, _) in files {
            let artifact = store.artifact(thread_id, sha256).await?;
            loaded.extend(artifact.map(|artifact| (sha256.clone(), Arc::new(artifact.bytes))));
        }
        remaining -= bytes;
        media.insert(event.seq, loaded);
    }
    Ok(PageExtras { handoffs, media })
}

/// Returns whether the event may contain a file. A [`StateMessage`] of a snapshot has the bytes of its files;
/// one that is made from an event with [`StateMessage::from_event`] has not.
pub fn has_media(event: &Event) -> bool {
    event.content.get().contains(MEDIA_JSON_MARKER)
}

/// Returns the hash and the size of the file of a content block; `None` for other blocks.
fn media_file(block: &ContentBlock) -> Option<(&String, usize)> {
    match block {
        ContentBlock::Media { sha256, bytes, .. } => {
            Some((sha256.as_ref()?, usize::try_from((*bytes)?).unwrap_or(usize::MAX)))
        }
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Opaque { .. } => None,
    }
}

/// Returns the thread's handoffs with their proposals if the new events of the page refer to any.
async fn handoffs_in_page(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
    page: &[Event],
) -> journal::Result<Vec<HandoffWithProposals>> {
    let is_new = |event: &&Event| from.is_none_or(|end| event.seq > end.seq);
    let is_of_handoff = |event: &Event| event.kind().is_some_and(|kind| QUESTION_EVENT_TYPES.contains(&kind));
    if !page.iter().filter(is_new).any(is_of_handoff) {
        return Ok(Vec::new());
    }
    let filter = HandoffFilter { parent_thread_id: Some(thread_id), ..HandoffFilter::default() };
    let mut handoffs = Vec::new();
    for handoff in store.handoffs(filter).await? {
        let proposals = store.proposals(handoff.handoff_id).await?;
        handoffs.push((handoff, proposals));
    }
    Ok(handoffs)
}
