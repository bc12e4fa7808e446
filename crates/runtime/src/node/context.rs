//! The contexts of the threads that are being worked in, kept between steps, so that a step reads what is new and not
//! the whole thread. The journal stays the truth: a kept context is used only as far as the journal still has its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use journal::view::context::{Beginning, changes_beginning};
use journal::{EventQuery, Store};
use model::tokens;
use protocol::{AiMessage, Block, Category, Event, EventId, Message, Seq, ThreadId, Usage};

/// Events read at a time.
const CONTEXT_PAGE_ROWS: usize = 500;

/// The most threads whose contexts are kept.
const CONTEXTS_MAX: usize = 8;

/// The most messages that are kept, all threads together; the newest context is kept whatever its length.
const CONTEXT_MESSAGES_MAX: usize = 200_000;

/// The most bytes of media that are sent with a request; the newest are.
const MEDIA_BYTES_MAX: usize = 20 * 1024 * 1024;

/// The contexts that were used last.
#[derive(Default)]
pub struct Contexts {
    kept: Mutex<Vec<Kept>>,
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
    /// Their size by [`tokens::of_message`].
    pub tokens: u64,
    /// What the provider reported of the newest request that held this context's beginning.
    pub reported: Option<Reported>,
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

/// What a provider reported of a request, beside what it was estimated to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// `provider/name` of the model.
    pub model: String,
    /// Tokens of the request and its answer.
    pub usage: Usage,
    /// What the messages of the request are by estimate.
    pub tokens_before: u64,
    /// The same with its answer.
    pub tokens_through: u64,
}

/// How many times an estimate may be off for the provider's count to be believed.
const CALIBRATION_MAX: f64 = 8.0;

impl Context {
    /// Returns about how many tokens a request with these messages is, when everything else in it is `frame_tokens` by
    /// estimate. Where the same model reported the size of an earlier request, only what came since is estimated, and by
    /// the measure of that report.
    pub fn request_tokens(&self, model: &str, frame_tokens: u64) -> u64 {
        let estimated = frame_tokens + self.tokens;
        let Some(reported) = self.reported.as_ref().filter(|reported| reported.model == model) else {
            return estimated;
        };
        let since = self.tokens.saturating_sub(reported.tokens_through);
        let measured = since as f64 * self.calibration(model, frame_tokens);
        // Truncation of a non-negative estimate is meant.
        reported.usage.total_tokens() + measured as u64
    }

    /// Returns by what an estimate is to be multiplied to be what `model` counts; 1 while it has not reported anything.
    pub fn calibration(&self, model: &str, frame_tokens: u64) -> f64 {
        match &self.reported {
            Some(reported) if reported.model == model => {
                let estimated = (frame_tokens + reported.tokens_before).max(1) as f64;
                (reported.usage.input_tokens as f64 / estimated).clamp(1.0 / CALIBRATION_MAX, CALIBRATION_MAX)
            }
            Some(_) | None => 1.0,
        }
    }

    /// Returns what the messages that stand for condensed ones are, by estimate.
    pub fn opening_tokens(&self) -> u64 {
        self.messages[..self.opening].iter().map(tokens::of_message).sum()
    }

    fn extend(&mut self, sent: Vec<(Seq, Message)>) {
        if sent.is_empty() {
            return;
        }
        // Nobody else holds them between steps, so that nothing is copied.
        let (messages, seqs) = (Arc::make_mut(&mut self.messages), Arc::make_mut(&mut self.seqs));
        for (seq, message) in sent {
            let tokens_before = self.tokens;
            self.tokens += tokens::of_message(&message);
            self.named.extend(message.content().iter().filter_map(|block| match block {
                Block::Media { sha256, .. } => sha256.clone(),
                _ => None,
            }));
            // What was reported of a request from before the context began anew says nothing of this one.
            if let Message::Ai(AiMessage { usage: Some(usage), model: Some(model), .. }) = &message
                && seq > self.beginning.changed_seq
                && usage.input_tokens > 0
            {
                let (model, tokens_through) = (model.clone(), self.tokens);
                self.reported = Some(Reported { model, usage: *usage, tokens_before, tokens_through });
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
    ///
    /// # Errors
    /// When the journal fails.
    pub async fn read(&self, store: &dyn Store, thread_id: ThreadId) -> journal::Result<Context> {
        let events = |query| store.events(thread_id, query);
        let mut context = match self.take(thread_id) {
            Some(kept) => match follow(kept, events).await? {
                Some(context) => context,
                None => whole(events).await?,
            },
            None => whole(events).await?,
        };
        if !context.named.is_empty() {
            context.fill_media(store, thread_id).await?;
        }
        self.keep(Kept { thread_id, context: context.clone() });
        Ok(context)
    }

    fn take(&self, thread_id: ThreadId) -> Option<Context> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|kept| kept.thread_id == thread_id)?;
        Some(kept.remove(at).context)
    }

    fn keep(&self, newest: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(newest);
        let messages = |kept: &[Kept]| kept.iter().map(|kept| kept.context.messages.len()).sum::<usize>();
        while kept.len() > CONTEXTS_MAX || (kept.len() > 1 && messages(&kept) > CONTEXT_MESSAGES_MAX) {
            kept.remove(0);
        }
    }
}

/// Returns the context with what was added to the journal since; `None` when its end is no longer there, or another
/// beginning was set.
async fn follow<F, P>(mut kept: Context, mut events: F) -> journal::Result<Option<Context>>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let Some((mut seq, mut event_id)) = kept.end else { return Ok(None) };
    loop {
        let query = EventQuery { after: Some(seq - 1), ..page_query() };
        let page = events(query).await?;
        let Some((end, new)) = page.split_first() else { return Ok(None) };
        if (end.seq, end.event_id) != (seq, event_id) || new.iter().any(changes_beginning) {
            return Ok(None);
        }
        let Some(last) = new.last() else { break };
        kept.extend(kept.beginning.project(new));
        (seq, event_id) = (last.seq, last.event_id);
        if page.len() < CONTEXT_PAGE_ROWS {
            break;
        }
    }
    kept.end = Some((seq, event_id));
    Ok(Some(kept))
}

/// Returns the thread's context. Pages are read from the newest back to where the context begins, never before it, but
/// for the person's request that was kept.
async fn whole<F, P>(mut events: F) -> journal::Result<Context>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let mut pages: Vec<Vec<Event>> = Vec::new();
    let mut before = None;
    let mut beginning = Beginning::default();
    loop {
        let page = events(EventQuery { before, ..page_query() }).await?;
        beginning.look(&page);
        let is_all = page.len() < CONTEXT_PAGE_ROWS;
        before = page.first().map(|event| event.seq);
        pages.push(page);
        if is_all || beginning.first_seq().is_some_and(|first| before.is_none_or(|before| before <= first)) {
            break;
        }
    }
    let request = match beginning.request_seq() {
        Some(seq) => {
            let only = EventQuery { after: Some(seq - 1), before: Some(seq + 1), ..page_query() };
            events(only).await?.into_iter().next()
        }
        None => None,
    };
    let end = pages.first().and_then(|page| page.last()).map(|event| (event.seq, event.event_id));
    let mut context = Context { end, ..Context::default() };
    let mut sent = beginning.opening(request.as_ref());
    context.opening = sent.len();
    sent.extend(pages.iter().rev().flat_map(|page| beginning.project(page)));
    context.beginning = beginning;
    context.extend(sent);
    Ok(context)
}

fn page_query() -> EventQuery {
    let categories = vec![Category::Message, Category::Middleware];
    EventQuery { categories, limit: CONTEXT_PAGE_ROWS, ..EventQuery::default() }
}

#[cfg(test)]
mod tests;
