//! The contexts of the threads that are being worked in, kept between steps, so that a step reads what is new and not
//! the whole thread. The journal stays the truth: a kept context is used only as far as the journal still has its end.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use journal::view::context::{Beginning, changes_beginning};
use journal::{EventQuery, Store};
use model::tokens;
use parking_lot::Mutex;
use protocol::{AiMessage, Block, Category, Event, EventId, Message, Seq, ThreadId};

/// Events read at a time.
const CONTEXT_PAGE_ROWS: usize = 500;

/// Events read at first, of a short thread all of them and of a kept context nearly always all that is new: so few are
/// had at once, without another thread that reads.
const CONTEXT_FIRST_ROWS: usize = 32;

/// The most threads whose contexts are kept: as many as may be worked in at the same time.
const CONTEXTS_MAX: usize = 512;

/// The most messages that are kept, all threads together; the newest context is kept whatever its length.
const CONTEXT_MESSAGES_MAX: usize = 200_000;

/// The most tokens that are kept, by estimate, all threads together but for the newest: about four bytes each.
const CONTEXT_TOKENS_MAX: u64 = 8_000_000;

/// The most bytes of media that are kept, all threads together but for the newest; what is not is read again.
const KEPT_MEDIA_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most bytes of media that are sent with a request; the newest are.
const MEDIA_BYTES_MAX: usize = 20 * 1024 * 1024;

/// The contexts that were used last.
#[derive(Default)]
pub struct Contexts {
    kept: Mutex<Vec<Kept>>,
    /// How many were let go.
    gone: AtomicUsize,
}

struct Kept {
    thread_id: ThreadId,
    context: Context,
}

/// What a model is to be sent of a thread: its messages, as the journal has them up to an event.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Context {
    /// The conversation.
    pub messages: Arc<Vec<Message>>,
    /// The event each of the messages comes from.
    pub seqs: Arc<Vec<Seq>>,
    /// Which of these a harness said in a person's name, in a session that was imported.
    pub injected: Arc<BTreeSet<Seq>>,
    /// Their size by [`tokens::of_message`].
    pub tokens: u64,
    /// How the model counts, by what it reported last.
    pub measure: Option<Measure>,
    /// Where it begins.
    pub beginning: Beginning,
    /// How many of the messages stand for what was condensed before; they come first.
    pub opening: usize,
    /// The bytes of the newest media in it, by their hash.
    pub media: BTreeMap<String, Arc<[u8]>>,
    /// The hashes of the media in it, oldest first.
    named: Vec<String>,
    /// The newest event it was made from.
    end: Option<(Seq, EventId)>,
}

/// How a model counts, beside what requests are estimated to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// `provider/name` of the model.
    pub model: String,
    /// How many tokens it counted in its newest request for each that was estimated.
    pub times: f64,
}

/// How far a provider's count is believed: no tokenizer makes less, or more, of what is estimated to be one token.
const TIMES_MIN: f64 = 0.5;
const TIMES_MAX: f64 = 8.0;

impl Context {
    /// Returns about how many tokens a request with this conversation is, as the model counts them, when everything else
    /// in it is `frame_tokens` by estimate.
    pub fn request_tokens(&self, model: &str, frame_tokens: u64) -> u64 {
        let estimated = frame_tokens + self.tokens + tokens::of_media(&self.media);
        // Truncation of a non-negative number is meant.
        (estimated as f64 * self.times(model)) as u64
    }

    /// Returns how many tokens `model` counts for each that is estimated; 1 while it has not reported anything.
    pub fn times(&self, model: &str) -> f64 {
        self.measure.as_ref().filter(|measure| measure.model == model).map_or(1.0, |measure| measure.times)
    }

    /// Returns what the messages that stand for condensed ones are, by estimate.
    pub fn opening_tokens(&self) -> u64 {
        self.messages[..self.opening].iter().map(tokens::of_message).sum()
    }

    /// Adds what is sent of these events.
    fn extend(&mut self, sent: Vec<(Seq, Message)>, injected: &BTreeSet<Seq>) {
        if sent.is_empty() {
            return;
        }
        // Nobody else holds them between steps, so that nothing is copied.
        let (messages, seqs) = (Arc::make_mut(&mut self.messages), Arc::make_mut(&mut self.seqs));
        for (seq, message) in sent {
            if injected.contains(&seq) {
                Arc::make_mut(&mut self.injected).insert(seq);
            }
            self.tokens += tokens::of_message(&message);
            self.named.extend(message.content().iter().filter_map(|block| match block {
                Block::Media { sha256, .. } => sha256.clone(),
                Block::Text { .. }
                | Block::Thinking { .. }
                | Block::ToolCall { .. }
                | Block::Opaque { .. } => None,
            }));
            if let Message::Ai(answer) = &message {
                self.measure = measure(answer).or(self.measure.take());
            }
            messages.push(message);
            seqs.push(seq);
        }
    }

    /// Reads the bytes of media that are new, and lets go of the oldest when they are too many. Media that nobody kept
    /// are left to be named only.
    async fn fill_media(&mut self, store: &dyn Store, thread_id: ThreadId) -> journal::Result<()> {
        let mut bytes = 0;
        let mut newest = BTreeMap::new();
        for sha256 in self.named.iter().rev() {
            if newest.contains_key(sha256) {
                continue;
            }
            let kept = match self.media.get(sha256) {
                Some(kept) => Arc::clone(kept),
                None => match store.artifact(thread_id, sha256).await? {
                    Some(artifact) => artifact.bytes.into(),
                    None => continue,
                },
            };
            bytes += kept.len();
            if bytes > MEDIA_BYTES_MAX {
                break;
            }
            newest.insert(sha256.clone(), kept);
        }
        self.media = newest;
        Ok(())
    }
}

impl Contexts {
    /// Returns what the model is to be sent of the thread.
    pub async fn read(&self, store: &dyn Store, thread_id: ThreadId) -> journal::Result<Context> {
        let events = |query| store.events(thread_id, query);
        let mut context = match self.take(thread_id) {
            Some(kept) => {
                let measure = kept.measure.clone();
                match follow(kept, events).await? {
                    Some(context) => context,
                    // How the model counts does not change with where the context begins.
                    None => {
                        let context = whole(events).await?;
                        Context { measure: context.measure.clone().or(measure), ..context }
                    }
                }
            }
            None => whole(events).await?,
        };
        if !context.named.is_empty() {
            context.fill_media(store, thread_id).await?;
        }
        self.keep(Kept { thread_id, context: context.clone() });
        Ok(context)
    }

    fn take(&self, thread_id: ThreadId) -> Option<Context> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|kept| kept.thread_id == thread_id)?;
        Some(kept.remove(at).context)
    }

    fn keep(&self, newest: Kept) {
        let mut kept = self.kept.lock();
        kept.push(newest);
        let mut messages: usize = kept.iter().map(|kept| kept.context.messages.len()).sum();
        let mut tokens: u64 = kept.iter().map(|kept| kept.context.tokens).sum();
        while kept.len() > 1
            && (kept.len() > CONTEXTS_MAX || messages > CONTEXT_MESSAGES_MAX || tokens > CONTEXT_TOKENS_MAX)
        {
            // Threads that are worked in take turns: the one that was used longest ago is the next to be wanted. Any but the
            // newest is as good as another.
            let at = scattered(self.gone.fetch_add(1, Ordering::Relaxed)) % (kept.len() - 1);
            let gone = kept.remove(at).context;
            messages -= gone.messages.len();
            tokens -= gone.tokens;
        }
        let mut bytes = 0;
        for (age, kept) in kept.iter_mut().rev().enumerate() {
            bytes += kept.context.media.values().map(|media| media.len()).sum::<usize>();
            if age > 0 && bytes > KEPT_MEDIA_BYTES_MAX {
                kept.context.media.clear();
            }
        }
    }
}

/// Returns a number that neighbours of `count` do not give away.
const fn scattered(count: usize) -> usize {
    let mixed = (count as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) as usize
}

/// Returns the context with what was added to the journal since; `None` when its end is no longer there, or another
/// beginning was set.
async fn follow<F, P>(mut kept: Context, mut events: F) -> journal::Result<Option<Context>>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let Some((mut seq, mut event_id)) = kept.end else { return Ok(None) };
    let mut limit = CONTEXT_FIRST_ROWS;
    loop {
        let query = EventQuery { after: Some(seq - 1), ..page_query(limit) };
        let page = events(query).await?;
        let Some((end, new)) = page.split_first() else { return Ok(None) };
        if (end.seq, end.event_id) != (seq, event_id) || new.iter().any(changes_beginning) {
            return Ok(None);
        }
        let Some(last) = new.last() else { break };
        kept.extend(kept.beginning.project(new), &injected(new).collect());
        (seq, event_id) = (last.seq, last.event_id);
        if page.len() < limit {
            break;
        }
        limit = CONTEXT_PAGE_ROWS;
    }
    kept.end = Some((seq, event_id));
    Ok(Some(kept))
}

/// Returns the events in which a harness said something in a person's name.
fn injected(events: &[Event]) -> impl Iterator<Item = Seq> {
    events.iter().filter(|event| event.parsed_metadata().injected).map(|event| event.seq)
}

/// Returns how the model counts that gave the answer; `None` when its provider did not say.
fn measure(answer: &AiMessage) -> Option<Measure> {
    let (usage, estimated) = (answer.usage?, answer.estimated_tokens?);
    let is_said = usage.input_tokens > 0 && estimated > 0;
    let times = (usage.input_tokens as f64 / estimated as f64).clamp(TIMES_MIN, TIMES_MAX);
    is_said.then_some(Measure { model: answer.model.clone()?, times })
}

/// Returns the thread's context. Pages are read from the newest back to where the context begins, never before it, but
/// for the person's request that was kept, and a marker whose content begins before the page.
async fn whole<F, P>(mut events: F) -> journal::Result<Context>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let mut pages: Vec<Vec<Event>> = Vec::new();
    let mut before = None;
    let mut beginning = Beginning::default();
    let mut limit = CONTEXT_FIRST_ROWS;
    loop {
        let page = events(EventQuery { before, ..page_query(limit) }).await?;
        beginning.look(&page);
        if let Some(seq) = beginning.marker_wanted() {
            let marker = events(only(seq)).await?;
            beginning.look_at_marker(marker.first());
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
        Some(seq) => events(only(seq)).await?.into_iter().next(),
        None => None,
    };
    let end = pages.first().and_then(|page| page.last()).map(|event| (event.seq, event.event_id));
    let mut context = Context { end, ..Context::default() };
    let mut sent = beginning.opening(request.as_ref());
    context.opening = sent.len();
    sent.extend(pages.iter().rev().flat_map(|page| beginning.project(page)));
    context.beginning = beginning;
    context.extend(sent, &pages.iter().flat_map(|page| injected(page)).collect());
    Ok(context)
}

fn only(seq: Seq) -> EventQuery {
    EventQuery { after: Some(seq - 1), before: Some(seq + 1), ..page_query(1) }
}

fn page_query(limit: usize) -> EventQuery {
    let categories = vec![Category::Message, Category::Middleware];
    EventQuery { categories, limit, ..EventQuery::default() }
}

#[cfg(test)]
mod tests;
