//! The context of a thread as the model gets it, and a cache of contexts between steps. With the cache, a step
//! reads only the new events of a thread. The journal stays the source of truth: a cached context is used only if
//! the journal still has the event at which it ends.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use journal::view::context::{ContextOutline, is_context_change};
use journal::{EventQuery, Store};
use model::tokens;
use parking_lot::Mutex;
use protocol::{AiMessage, Category, ContentBlock, Event, EventId, EventType, Message, Seq, ThreadId};

/// The number of events in a page.
const CONTEXT_PAGE_ROWS: usize = 500;

/// The number of events in the first page. It covers a short thread completely, and nearly always the new events
/// of a cached context. A page this small is read immediately, without another thread for the read.
const CONTEXT_FIRST_ROWS: usize = 32;

/// The most threads whose contexts are cached: as many as may have active runs at the same time.
const CONTEXTS_MAX: usize = 512;

/// The most messages that are cached for all threads together. The newest context is cached regardless of its
/// length.
const CONTEXT_MESSAGES_MAX: usize = 200_000;

/// The most tokens that are cached for all threads together except the newest, by estimate. A token takes about
/// four bytes.
const CONTEXT_TOKENS_MAX: u64 = 8_000_000;

/// The most bytes of media that are cached for all threads together except the newest. Other media are read
/// again.
const CACHED_MEDIA_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most bytes of media that are sent with a request. The newest media are sent.
const MEDIA_BYTES_MAX: usize = 20 * 1024 * 1024;

/// A cache of the most recently used contexts, by thread. It can be shared by all runs of a process.
#[derive(Default)]
pub struct ContextCache {
    /// The cached contexts, least recently used first.
    entries: Mutex<Vec<CachedContext>>,
    /// The number of evictions so far; the seed of the choice of the next one.
    evictions: AtomicUsize,
}

/// The cached context of one thread.
struct CachedContext {
    thread_id: ThreadId,
    context: ModelContext,
}

/// The context of a thread: the messages that a model is sent, computed from the journal up to one event.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct ModelContext {
    /// The messages, oldest first.
    pub messages: Arc<Vec<Message>>,
    /// The sequence number of the event of each message, in the same order.
    pub seqs: Arc<Vec<Seq>>,
    /// The sequence numbers of the messages that another agent's program wrote in a person's name, in an imported
    /// session.
    pub injected_seqs: Arc<BTreeSet<Seq>>,
    /// The size of the messages in tokens, by [`tokens::message_tokens`].
    pub tokens: u64,
    /// The calibration of the token estimates, from the newest usage that a model reported.
    pub calibration: Option<TokenCalibration>,
    /// The beginning of the context: where it starts, and what stands for the messages before that.
    pub beginning: ContextOutline,
    /// The number of messages at the start that stand for earlier ones; see [`Self::beginning`].
    pub summary_len: usize,
    /// The bytes of the newest media of the messages, by their sha256.
    pub media: BTreeMap<String, Arc<[u8]>>,
    /// The sha256 of the media of the messages, oldest first.
    media_hashes: Vec<String>,
    /// The newest event that the context was computed from.
    head: Option<(Seq, EventId)>,
}

/// A model's own token count in relation to the estimate.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenCalibration {
    /// The `provider/name` of the model.
    pub model: String,
    /// The tokens that the model counted in its newest request, divided by the estimated tokens.
    pub factor: f64,
}

/// The lower limit of a calibration factor. No tokenizer counts less than this for an estimated token.
const CALIBRATION_FACTOR_MIN: f64 = 0.5;
/// Maximum number of answers among which a calibration is looked for. Few answers have none.
const CALIBRATION_ANSWERS_MAX: usize = 8;
/// The upper limit of a calibration factor. No tokenizer counts more than this for an estimated token.
const CALIBRATION_FACTOR_MAX: f64 = 8.0;

impl ModelContext {
    /// Returns the approximate size of a request with these messages in tokens, as `model` counts them.
    /// `frame_tokens` is the estimated size of everything else in the request.
    pub fn request_tokens(&self, model: &str, frame_tokens: u64) -> u64 {
        let estimated = frame_tokens + self.tokens + tokens::media_tokens(&self.media);
        // The conversion truncates a non-negative number, as intended.
        (estimated as f64 * self.calibration_factor(model)) as u64
    }

    /// Returns the number of tokens that `model` counts for each estimated token; 1 while the model has not
    /// reported usage.
    pub fn calibration_factor(&self, model: &str) -> f64 {
        self.calibration
            .as_ref()
            .filter(|calibration| calibration.model == model)
            .map_or(1.0, |calibration| calibration.factor)
    }

    /// Returns the estimated size in tokens of the messages that stand for earlier ones.
    pub fn summary_tokens(&self) -> u64 {
        self.messages[..self.summary_len].iter().map(tokens::message_tokens).sum()
    }

    /// Appends messages, each with the sequence number of its event, and updates the totals.
    fn append_messages(&mut self, messages: Vec<(Seq, Message)>, injected: &BTreeSet<Seq>) {
        if messages.is_empty() {
            return;
        }
        // Between steps no other owner shares these vectors, so `make_mut` copies nothing.
        let (own_messages, seqs) = (Arc::make_mut(&mut self.messages), Arc::make_mut(&mut self.seqs));
        for (seq, message) in messages {
            if injected.contains(&seq) {
                Arc::make_mut(&mut self.injected_seqs).insert(seq);
            }
            self.tokens += tokens::message_tokens(&message);
            self.media_hashes.extend(message.content().iter().filter_map(|block| match block {
                ContentBlock::Media { sha256, .. } => sha256.clone(),
                ContentBlock::Text { .. }
                | ContentBlock::Thinking { .. }
                | ContentBlock::ToolCall { .. }
                | ContentBlock::Opaque { .. } => None,
            }));
            if let Message::Ai(answer) = &message {
                self.calibration = token_calibration(answer).or(self.calibration.take());
                // The answer replaces the part of the one that broke off before it: the same request was sent again.
                if let Some(broken) = own_messages.pop_if(|last| is_incomplete(last)) {
                    seqs.pop();
                    self.tokens -= tokens::message_tokens(&broken);
                }
            }
            own_messages.push(message);
            seqs.push(seq);
        }
    }

    /// Reads the bytes of new media, and drops the oldest media over [`MEDIA_BYTES_MAX`]. Media whose bytes are
    /// not stored are only named in the request.
    async fn load_media(&mut self, store: &dyn Store, thread_id: ThreadId) -> journal::Result<()> {
        let mut bytes = 0;
        let mut newest = BTreeMap::new();
        for sha256 in self.media_hashes.iter().rev() {
            if newest.contains_key(sha256) {
                continue;
            }
            let bytes_of_media = match self.media.get(sha256) {
                Some(bytes_of_media) => Arc::clone(bytes_of_media),
                None => match store.artifact(thread_id, sha256).await? {
                    Some(artifact) => artifact.bytes.into(),
                    None => continue,
                },
            };
            bytes += bytes_of_media.len();
            if bytes > MEDIA_BYTES_MAX {
                break;
            }
            newest.insert(sha256.clone(), bytes_of_media);
        }
        self.media = newest;
        Ok(())
    }
}

impl ContextCache {
    /// Returns the context of the thread. Reads only new events if a cached context is still valid.
    ///
    /// # Errors
    /// Fails when the journal fails.
    pub fn read_context<'a>(
        &'a self,
        store: &'a dyn Store,
        thread_id: ThreadId,
    ) -> BoxFuture<'a, journal::Result<ModelContext>> {
        journal::box_future(async move {
            let events = |query| store.events(thread_id, query);
            let mut context = match self.take_cached(thread_id) {
                Some(cached) => match extend_from_journal(cached, events).await? {
                    Some(context) => context,
                    None => build_context(events).await?,
                },
                None => build_context(events).await?,
            };
            if !context.media_hashes.is_empty() {
                context.load_media(store, thread_id).await?;
            }
            self.insert_cached(CachedContext { thread_id, context: context.clone() });
            Ok(context)
        })
    }

    /// Removes and returns the cached context of the thread.
    fn take_cached(&self, thread_id: ThreadId) -> Option<ModelContext> {
        let mut entries = self.entries.lock();
        let index = entries.iter().position(|entry| entry.thread_id == thread_id)?;
        Some(entries.remove(index).context)
    }

    /// Adds a context as the newest, and evicts others while a limit is exceeded.
    fn insert_cached(&self, newest: CachedContext) {
        let mut entries = self.entries.lock();
        entries.push(newest);
        let mut messages: usize = entries.iter().map(|entry| entry.context.messages.len()).sum();
        let mut tokens: u64 = entries.iter().map(|entry| entry.context.tokens).sum();
        while entries.len() > 1
            && (entries.len() > CONTEXTS_MAX
                || messages > CONTEXT_MESSAGES_MAX
                || tokens > CONTEXT_TOKENS_MAX)
        {
            // Threads with active runs take turns, so evicting the least recently used context would evict the
            // one that is needed next. Any context except the newest is evicted with equal probability instead.
            let index = scramble(self.evictions.fetch_add(1, Ordering::Relaxed)) % (entries.len() - 1);
            let evicted = entries.remove(index).context;
            messages -= evicted.messages.len();
            tokens -= evicted.tokens;
        }
        let mut bytes = 0;
        for (age, entry) in entries.iter_mut().rev().enumerate() {
            bytes += entry.context.media.values().map(|media| media.len()).sum::<usize>();
            if age > 0 && bytes > CACHED_MEDIA_BYTES_MAX {
                entry.context.media.clear();
            }
        }
    }
}

/// Returns a pseudorandom number for `count`; consecutive counts give unrelated numbers.
const fn scramble(count: usize) -> usize {
    let mixed = (count as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) as usize
}

/// Returns the context with the events that were added to the journal since. Returns `None` if the context's last
/// event is no longer in the journal, or if an event changed where the context begins.
async fn extend_from_journal<F, P>(
    mut context: ModelContext,
    mut events: F,
) -> journal::Result<Option<ModelContext>>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let Some((mut seq, mut event_id)) = context.head else { return Ok(None) };
    let mut limit = CONTEXT_FIRST_ROWS;
    loop {
        let query = EventQuery { after: Some(seq - 1), ..page_query(limit) };
        let page = events(query).await?;
        let Some((end, new)) = page.split_first() else { return Ok(None) };
        if (end.seq, end.event_id) != (seq, event_id) || new.iter().any(is_context_change) {
            return Ok(None);
        }
        let Some(last) = new.last() else { break };
        context.append_messages(context.beginning.project_messages(new), &injected_seqs(new).collect());
        (seq, event_id) = (last.seq, last.event_id);
        if page.len() < limit {
            break;
        }
        limit = CONTEXT_PAGE_ROWS;
    }
    context.head = Some((seq, event_id));
    Ok(Some(context))
}

/// Returns the sequence numbers of the events that another agent's program wrote in a person's name.
fn injected_seqs(events: &[Event]) -> impl Iterator<Item = Seq> {
    events.iter().filter(|event| event.parsed_metadata().injected).map(|event| event.seq)
}

/// Returns whether a message is the part of an answer that had arrived when the answer broke off or was stopped.
const fn is_incomplete(message: &Message) -> bool {
    matches!(message, Message::Ai(AiMessage { incomplete: true, .. }))
}

/// Returns the calibration from an answer, or `None` if the provider reported no usage.
fn token_calibration(answer: &AiMessage) -> Option<TokenCalibration> {
    let (usage, estimated) = (answer.usage?, answer.estimated_tokens?);
    let is_known = usage.input_tokens > 0 && estimated > 0;
    let factor =
        (usage.input_tokens as f64 / estimated as f64).clamp(CALIBRATION_FACTOR_MIN, CALIBRATION_FACTOR_MAX);
    is_known.then_some(TokenCalibration { model: answer.model.clone()?, factor })
}

/// Returns the context of the thread, computed from the journal. Pages are read backwards until the beginning of
/// the context. Events before that are read only for the kept request of the person, and for a boundary whose
/// content begins before its page.
async fn build_context<F, P>(mut events: F) -> journal::Result<ModelContext>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let mut pages: Vec<Vec<Event>> = Vec::new();
    let mut before = None;
    let mut beginning = ContextOutline::default();
    let mut limit = CONTEXT_FIRST_ROWS;
    loop {
        let page = events(EventQuery { before, ..page_query(limit) }).await?;
        beginning.scan_page(&page);
        if let Some(seq) = beginning.needed_marker_seq() {
            let marker = events(single_event_query(seq)).await?;
            beginning.scan_marker(marker.first());
        }
        let is_all = page.len() < limit;
        limit = CONTEXT_PAGE_ROWS;
        before = page.first().map(|event| event.seq);
        pages.push(page);
        if is_all || beginning.first_seq().is_some_and(|first| before.is_none_or(|before| before <= first)) {
            break;
        }
    }
    let request = match beginning.request_seq() {
        Some(seq) => events(single_event_query(seq)).await?.into_iter().next(),
        None => None,
    };
    let head = pages.first().and_then(|page| page.last()).map(|event| (event.seq, event.event_id));
    let mut context = ModelContext { head, ..ModelContext::default() };
    let mut messages = beginning.opening_messages(request.as_ref());
    context.summary_len = messages.len();
    messages.extend(pages.iter().rev().flat_map(|page| beginning.project_messages(page)));
    context.beginning = beginning;
    context.append_messages(messages, &pages.iter().flat_map(|page| injected_seqs(page)).collect());
    if context.calibration.is_none() && context.beginning.first_seq().is_some() {
        // The calibration stays valid although the context has a new beginning. It is read and not kept from an earlier
        // context, so that every process has the same.
        context.calibration = newest_calibration(&events(newest_answers_query()).await?);
    }
    Ok(context)
}

/// Returns the calibration of the newest answer that has one.
fn newest_calibration(answers: &[Event]) -> Option<TokenCalibration> {
    answers.iter().rev().find_map(|event| match event.message() {
        Some(Message::Ai(answer)) => token_calibration(&answer),
        Some(Message::Human(_) | Message::Tool(_)) | None => None,
    })
}

/// Returns the query for the newest answers, including those before the beginning of the context.
fn newest_answers_query() -> EventQuery {
    EventQuery { types: vec![EventType::AiMessage], ..page_query(CALIBRATION_ANSWERS_MAX) }
}

/// Returns the query for the event with this sequence number.
fn single_event_query(seq: Seq) -> EventQuery {
    EventQuery { after: Some(seq - 1), before: Some(seq + 1), ..page_query(1) }
}

/// Returns the query for a page of the events that a context is computed from.
fn page_query(limit: usize) -> EventQuery {
    let categories = vec![Category::Message, Category::Middleware];
    EventQuery { categories, limit, ..EventQuery::default() }
}

#[cfg(test)]
mod tests;
