//! The transcripts of the threads whose states were read last, kept so that a state costs what is new and not the whole
//! thread. What is kept is all that was ever said, what rewinds took back too: the log only grows, and each state is a
//! part of it. The journal stays the truth: what is kept is used only as far as the journal still has its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff::{TOLD_TYPES, as_messages};
use journal::view::branches::{Branches, Sight};
use journal::{EventQuery, HandoffFilter, Store, Superseded};
use parking_lot::Mutex;
use protocol::{Block, Event, EventId, EventType, Handoff, Message, Proposal, Seq, ThreadId};

use super::message::{Media, StateMessage};

/// Events read at a time.
const PAGE_ROWS: usize = 1_000;

/// The most threads whose transcripts are kept.
const TRANSCRIPTS_MAX: usize = 256;

/// The most bytes of messages that are kept, all threads together; the newest transcript is kept whatever its size.
const TRANSCRIPT_BYTES_MAX: usize = 48 << 20;

/// How often the text of a message is kept: as it was parsed, and as a front end writes it, with room to grow for both.
const COPIES: usize = 3;

/// The most bytes of files that the messages of one thread are told with, in the order in which they were said; a message
/// with more only refers to its files.
const MEDIA_BYTES_MAX: usize = 8 << 20;

/// What is in the JSON of every event that has a file.
const MEDIA_MARK: &str = r#""type":"media""#;

/// How often a transcript that others read on at the same time is tried again before it is read for oneself.
const ATTEMPTS_MAX: u32 = 8;

/// The types of event a transcript is made of, beside those that tell of questions about handoffs.
const TYPES: [EventType; 4] =
    [EventType::HumanMessage, EventType::AiMessage, EventType::ToolMessage, EventType::ThreadRewound];

/// A handoff with its proposals.
type Told = (Handoff, Vec<Proposal>);

/// What is read beside the events of a page.
#[derive(Default)]
struct Beside {
    handoffs: Vec<Told>,
    /// The bytes of files, by the place of their message.
    media: BTreeMap<Seq, Media>,
}

/// The transcripts that were used last.
#[derive(Default)]
pub(crate) struct Transcripts {
    kept: Mutex<Vec<Kept>>,
}

struct Kept {
    thread_id: ThreadId,
    transcript: Arc<Shared>,
    bytes: usize,
}

/// A transcript that is kept.
#[derive(Default)]
struct Shared {
    transcript: Mutex<Transcript>,
    /// Who reads it on: one at a time, so that files are not read, and held, by several at once.
    reading: tokio::sync::Mutex<()>,
}

/// The event up to which a [`Transcript`] has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TranscriptEnd {
    seq: Seq,
    event_id: EventId,
}

impl TranscriptEnd {
    const fn of(event: &Event) -> Self {
        Self { seq: event.seq, event_id: event.event_id }
    }
}

/// Everything that was ever said in a thread, and where it went back.
#[derive(Default)]
pub(crate) struct Transcript {
    messages: Vec<Arc<StateMessage>>,
    pub(super) branches: Branches,
    /// The events that tell of questions about handoffs.
    told: Vec<Event>,
    bytes: usize,
    /// How many of them are bytes of files, before they are written.
    media_bytes: usize,
    /// The newest event it was made from.
    end: Option<TranscriptEnd>,
}

impl Transcript {
    /// Returns what was in sight when `head_seq` was the thread's last event.
    pub(super) fn at(&self, head_seq: Seq) -> Vec<Arc<StateMessage>> {
        self.within(&self.branches.sight_at(head_seq), 0)
    }

    /// Returns what is in sight and was said after `seq`.
    pub(super) fn after(&self, seq: Seq) -> Vec<Arc<StateMessage>> {
        self.within(&self.branches.sight_at(self.end_seq()), seq)
    }

    /// Returns the last seq that is known.
    pub(super) fn end_seq(&self) -> Seq {
        self.end.map_or(0, |end| end.seq)
    }

    /// Returns where it ends, and how many bytes of files are in it.
    fn reach(&self) -> (Option<TranscriptEnd>, usize) {
        (self.end, self.media_bytes)
    }

    /// Returns the message at that place, in sight or not.
    pub(super) fn said_at(&self, seq: Seq) -> Option<&Arc<StateMessage>> {
        let at = self.messages.binary_search_by_key(&seq, |message| message.seq).ok()?;
        self.messages.get(at)
    }

    fn within(&self, sight: &Sight, after: Seq) -> Vec<Arc<StateMessage>> {
        let mut found = Vec::new();
        for (first, last) in sight.stretches().filter(|(_, last)| *last > after) {
            let first = first.max(after + 1);
            let from = self.messages.partition_point(|message| message.seq < first);
            let to = self.messages.partition_point(|message| message.seq <= last);
            found.extend_from_slice(&self.messages[from..to]);
        }
        found
    }

    fn extend(&mut self, events: &[Event], beside: &mut Beside) {
        let from = self.told.len();
        for event in events {
            self.branches.look(event);
            if event.kind().is_some_and(|kind| TOLD_TYPES.contains(&kind)) {
                self.bytes += event.content.get().len() + size_of::<Event>();
                self.told.push(event.clone());
            }
        }
        let mut projected = self.projected(from, &beside.handoffs).into_iter().peekable();
        for event in events {
            while let Some((_, message)) = projected.next_if(|(seq, _)| *seq == event.seq) {
                self.bytes += kept_bytes(event);
                self.messages.push(Arc::new(StateMessage::projected(event, message)));
            }
            if let Some(message) = StateMessage::of(event) {
                let media = beside.media.remove(&event.seq).unwrap_or_default();
                let media_bytes: usize = media.values().map(|bytes| bytes.len()).sum();
                self.media_bytes += media_bytes;
                self.bytes += kept_bytes(event) + media_bytes.div_ceil(3) * 4;
                self.messages.push(Arc::new(message.with_media(media)));
            }
            self.end = Some(TranscriptEnd::of(event));
        }
    }

    /// Returns the messages that stand for what is told of handoffs from the event `from` on, on whatever branch. What one
    /// event stands for follows from what was in sight there, whatever came later.
    fn projected(&self, from: usize, handoffs: &[Told]) -> Vec<(Seq, Message)> {
        let mut found = Vec::new();
        let mut open: BTreeSet<Seq> = self.told[from..].iter().map(|event| event.seq).collect();
        while let Some(head) = open.pop_last().filter(|_| !handoffs.is_empty()) {
            let sight = self.branches.sight_at(head);
            let events: Vec<Event> =
                self.told.iter().filter(|event| sight.holds(event.seq)).cloned().collect();
            let told = as_messages(&events, handoffs);
            found.extend(told.into_iter().filter(|(seq, _)| *seq == head || open.contains(seq)));
            for event in &events {
                open.remove(&event.seq);
            }
        }
        found.sort_by_key(|(seq, _)| *seq);
        found
    }

    /// Takes what was read on from `from`; returns whether that is where it ends. What was kept of a thread that is gone
    /// is forgotten.
    fn take(&mut self, from: Option<TranscriptEnd>, page: &[Event], beside: &mut Beside) -> bool {
        if self.end != from {
            return false;
        }
        match (from, page.split_first()) {
            (None, _) => self.extend(page, beside),
            (Some(end), Some((first, new))) if TranscriptEnd::of(first) == end => {
                self.extend(new, beside);
            }
            (Some(_), _) => {
                *self = Self::default();
                return false;
            }
        }
        true
    }
}

impl Transcripts {
    /// Returns what `look` finds in the thread's transcript, which is read on first. The caller has made sure that the
    /// thread is there, and is this reader's to see.
    ///
    /// # Errors
    /// When the journal fails.
    pub(super) async fn look<T>(
        &self,
        store: &dyn Store,
        thread_id: ThreadId,
        look: impl FnOnce(&Transcript) -> T,
    ) -> journal::Result<T> {
        let kept = self.kept(thread_id);
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            let _reading = kept.reading.lock().await;
            let (from, had) = kept.transcript.lock().reach();
            let page = page(store, thread_id, from).await?;
            let mut beside = beside(store, thread_id, from, &page, had).await?;
            let mut transcript = kept.transcript.lock();
            if !transcript.take(from, &page, &mut beside) {
                attempts += 1;
                continue;
            }
            if page.len() == PAGE_ROWS {
                continue;
            }
            let (found, bytes) = (look(&transcript), transcript.bytes);
            drop(transcript);
            self.trim(thread_id, bytes);
            return Ok(found);
        }
        let mut own = Transcript::default();
        loop {
            let page = page(store, thread_id, own.end).await?;
            let mut beside = beside(store, thread_id, own.end, &page, own.media_bytes).await?;
            if !own.take(own.end, &page, &mut beside) || page.len() < PAGE_ROWS {
                return Ok(look(&own));
            }
        }
    }

    /// Returns what is kept of the thread, as the one that was used last.
    fn kept(&self, thread_id: ThreadId) -> Arc<Shared> {
        let mut all = self.kept.lock();
        let at = all.iter().position(|kept| kept.thread_id == thread_id);
        let kept = match at {
            Some(at) => all.remove(at),
            None => Kept { thread_id, transcript: Arc::default(), bytes: 0 },
        };
        let transcript = Arc::clone(&kept.transcript);
        all.push(kept);
        transcript
    }

    /// Notes how large the thread's transcript is, and lets go of the oldest when there is too much.
    fn trim(&self, thread_id: ThreadId, bytes: usize) {
        let mut all = self.kept.lock();
        if let Some(kept) = all.iter_mut().rev().find(|kept| kept.thread_id == thread_id) {
            kept.bytes = bytes;
        }
        let mut total: usize = all.iter().map(|kept| kept.bytes).sum();
        while all.len() > 1 && (all.len() > TRANSCRIPTS_MAX || total > TRANSCRIPT_BYTES_MAX) {
            total -= all.remove(0).bytes;
        }
    }
}

fn kept_bytes(event: &Event) -> usize {
    event.content.get().len() * COPIES + size_of::<StateMessage>()
}

/// Reads the events behind `from`, after that one itself, which tells whether it is there still.
async fn page(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
) -> journal::Result<Vec<Event>> {
    let query = EventQuery {
        types: TYPES.into_iter().chain(TOLD_TYPES).collect(),
        superseded: Superseded::Shown,
        ..EventQuery::after(from.map_or(0, |end| end.seq - 1), PAGE_ROWS)
    };
    store.events(thread_id, query).await
}

/// Reads what the new events of the page need beside themselves. `had` bytes of files are in the transcript already.
async fn beside(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
    page: &[Event],
    had: usize,
) -> journal::Result<Beside> {
    let handoffs = told(store, thread_id, from, page).await?;
    let (mut media, mut left) = (BTreeMap::new(), MEDIA_BYTES_MAX.saturating_sub(had));
    let is_new = |event: &&Event| from.is_none_or(|end| event.seq > end.seq);
    for event in page.iter().filter(is_new).filter(|event| has_media(event)) {
        let Some(message) = event.message() else { continue };
        let files: Vec<(&String, usize)> = message.content().iter().filter_map(file).collect();
        let bytes: usize = files.iter().map(|(_, bytes)| bytes).sum();
        if bytes > left {
            continue;
        }
        let mut found = Media::new();
        for (sha256, _) in files {
            let artifact = store.artifact(thread_id, sha256).await?;
            found.extend(artifact.map(|artifact| (sha256.clone(), Arc::new(artifact.bytes))));
        }
        left -= bytes;
        media.insert(event.seq, found);
    }
    Ok(Beside { handoffs, media })
}

/// Returns whether the event may have a file in it, whose bytes a [`StateMessage`] of a state has and one made of the
/// event has not.
pub fn has_media(event: &Event) -> bool {
    event.content.get().contains(MEDIA_MARK)
}

fn file(block: &Block) -> Option<(&String, usize)> {
    match block {
        Block::Media { sha256, bytes, .. } => {
            Some((sha256.as_ref()?, usize::try_from((*bytes)?).unwrap_or(usize::MAX)))
        }
        Block::Text { .. } | Block::Thinking { .. } | Block::ToolCall { .. } | Block::Opaque { .. } => None,
    }
}

/// Returns the thread's handoffs with their proposals, where the new events of the page tell of any.
async fn told(
    store: &dyn Store,
    thread_id: ThreadId,
    from: Option<TranscriptEnd>,
    page: &[Event],
) -> journal::Result<Vec<Told>> {
    let is_new = |event: &&Event| from.is_none_or(|end| event.seq > end.seq);
    let tells = |event: &Event| event.kind().is_some_and(|kind| TOLD_TYPES.contains(&kind));
    if !page.iter().filter(is_new).any(tells) {
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
