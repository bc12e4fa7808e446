//! The contexts of the threads that are being worked in, kept between steps, so that a step reads what is new and not
//! the whole thread. The journal stays the truth: a kept context is used only as far as the journal still has its end.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use journal::{EventQuery, Store, view};
use model::tokens;
use protocol::{Block, Category, Event, EventId, Message, Seq, ThreadId};

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
    /// Their size by [`tokens::of_message`].
    pub tokens: u64,
    /// The bytes of the newest media in it, by their hash.
    pub media: BTreeMap<String, Arc<[u8]>>,
    /// The hashes of the media in it, oldest first.
    named: Vec<String>,
    /// The newest event it was made from.
    end: Option<(Seq, EventId)>,
}

impl Context {
    fn extend(&mut self, messages: Vec<Message>) {
        for message in &messages {
            self.tokens += tokens::of_message(message);
            self.named.extend(message.content().iter().filter_map(|block| match block {
                Block::Media { sha256, .. } => sha256.clone(),
                _ => None,
            }));
        }
        if !messages.is_empty() {
            // Nobody else holds them between steps, so that nothing is copied.
            Arc::make_mut(&mut self.messages).extend(messages);
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
        if (end.seq, end.event_id) != (seq, event_id) || new.iter().any(view::begins_context) {
            return Ok(None);
        }
        let Some(last) = new.last() else { break };
        kept.extend(view::context(new));
        (seq, event_id) = (last.seq, last.event_id);
        if page.len() < CONTEXT_PAGE_ROWS {
            break;
        }
    }
    kept.end = Some((seq, event_id));
    Ok(Some(kept))
}

/// Returns the thread's context. Pages are read from the newest back to where the context begins, never before it,
/// and only their messages are kept.
async fn whole<F, P>(mut events: F) -> journal::Result<Context>
where
    F: FnMut(EventQuery) -> P,
    P: Future<Output = journal::Result<Vec<Event>>>,
{
    let mut pages = Vec::new();
    let mut before = None;
    let mut end = None;
    loop {
        let page = events(EventQuery { before, ..page_query() }).await?;
        let is_all = page.len() < CONTEXT_PAGE_ROWS || page.iter().any(view::begins_context);
        before = page.first().map(|event| event.seq);
        end = end.or(page.last().map(|event| (event.seq, event.event_id)));
        pages.push(view::context(&page));
        if is_all {
            break;
        }
    }
    let mut context = Context { end, ..Context::default() };
    context.extend(pages.into_iter().rev().flatten().collect());
    Ok(context)
}

fn page_query() -> EventQuery {
    let categories = vec![Category::Message, Category::Middleware];
    EventQuery { categories, limit: CONTEXT_PAGE_ROWS, ..EventQuery::default() }
}

#[cfg(test)]
mod tests;
