//! Where one conversation goes: how much of it is stored, in which thread, and what is to be added there. Every entry is
//! stored under the digest of all up to it, so that one look-up tells whether a whole beginning is known.

use std::ops::Range;

use jiff::Timestamp;
use journal::{EventQuery, ImportSource, ImportedSoFar, Transaction, Write};
use protocol::{Category, NewEvent, Seq, Thread, ThreadId};
use serde_json::{Map, json};
use transcripts::{Conversation, Source};

use super::passes::Added;
use super::reader::{Keyed, written_at};
use crate::Result;
use crate::agent::Agent;

/// How a conversation is read once more.
#[derive(Debug)]
pub(super) struct Again {
    /// The key it is imported under then.
    pub(super) key: String,
    /// The thread that holds its beginning and cannot take the rest.
    pub(super) continues: Option<ThreadId>,
}

/// The place of one conversation.
pub(super) struct Place {
    /// The key of its session. Histories that left the one stored under it have keys that begin with it.
    pub(super) session: String,
    /// The thread it is in, or will be.
    pub(super) thread_id: ThreadId,
    /// Entries read.
    pub(super) seen: u64,
    /// What becomes of the next entries.
    pub(super) state: State,
    key: String,
    /// The thread to create, when there is none.
    blank: Thread,
}

/// What becomes of a conversation's next entries.
pub(super) enum State {
    /// All so far are stored.
    Comparing(ImportSource),
    /// They are new, and are added to what is stored: nothing, or so much.
    Appending(Option<ImportedSoFar>),
    /// They are passed over: it takes another reading.
    Again(Again),
}

/// Whether what is new may follow what is stored.
enum Growth {
    /// In the same thread.
    Here(ImportedSoFar),
    /// Another process stored more of it meanwhile: some of it is not new.
    Further(ImportSource),
    /// Not there: somebody went on in it, or does so now.
    Elsewhere,
    /// The thread was deleted a moment ago.
    Gone,
}

impl Place {
    /// Returns the place of a conversation of which nothing was read.
    pub(super) async fn find(
        agent: &Agent,
        source: &Source,
        session: String,
        Again { key, continues }: Again,
        conversation: Box<Conversation>,
    ) -> Result<Self> {
        let known = agent.store.import_source(&key).await?;
        let thread_id = known.as_ref().map_or_else(ThreadId::generate, |known| known.thread_id);
        let at = conversation.started_at.unwrap_or_else(|| written_at(source));
        let mut blank = Thread::blank(thread_id, agent.settings.assistant_id.clone(), at);
        blank.name.clone_from(&conversation.title);
        blank.metadata = provenance(&conversation, source, continues);
        let state = known.map_or(State::Appending(None), State::Comparing);
        Ok(Self { session, thread_id, seen: 0, state, key, blank: blank.stamped() })
    }

    /// Takes the next entries and stores those that are new, with how far it came, in one transaction.
    pub(super) async fn take(&mut self, agent: &Agent, mut batch: Vec<Keyed>) -> Result<Added> {
        let stored = self.compare(agent, &batch).await?;
        self.seen += batch.len() as u64;
        let fresh = batch.split_off(stored);
        match (&self.state, fresh.is_empty()) {
            (State::Appending(so_far), false) => self.append(agent, *so_far, fresh).await,
            (State::Appending(_) | State::Comparing(_) | State::Again(_), _) => Ok(Added::default()),
        }
    }

    /// Returns how many of the batch are stored, having found out whose history this is.
    async fn compare(&mut self, agent: &Agent, batch: &[Keyed]) -> Result<usize> {
        let mut from = 0;
        while let State::Comparing(known) = &self.state {
            let left = usize::try_from(known.entries.saturating_sub(self.seen)).unwrap_or(usize::MAX);
            let end = left.min(batch.len());
            let (at, continues) = match self.first_unknown(agent, known, batch, from..end).await? {
                Some(at) => (at, None),
                None if end == batch.len() => return Ok(end),
                None => match growth(agent, known).await? {
                    Growth::Here(so_far) => {
                        self.state = State::Appending(Some(so_far));
                        return Ok(end);
                    }
                    Growth::Further(known) => {
                        self.state = State::Comparing(known);
                        from = end;
                        continue;
                    }
                    Growth::Elsewhere => (end, Some(known.thread_id)),
                    Growth::Gone => {
                        self.state = State::Again(Again { key: self.session.clone(), continues: None });
                        return Ok(batch.len());
                    }
                },
            };
            self.leave(agent, &batch[at].chain, at, continues).await?;
            from = at + 1;
        }
        match self.state {
            State::Appending(_) => Ok(from),
            State::Comparing(_) | State::Again(_) => Ok(batch.len()),
        }
    }

    /// Goes over to the history that left the one compared with at entry `at` of the batch.
    ///
    /// Its key is the digest at that entry: it stays the same however long either of them grows.
    async fn leave(
        &mut self,
        agent: &Agent,
        chain: &str,
        at: usize,
        continues: Option<ThreadId>,
    ) -> Result<()> {
        let key = format!("{}:{chain}", self.session);
        let known = agent.store.import_source(&key).await?;
        match known.filter(|known| known.entries > self.seen + at as u64) {
            Some(known) => {
                (self.key, self.thread_id) = (key, known.thread_id);
                self.state = State::Comparing(known);
            }
            // Entries that were taken for known ones are needed after all.
            None => self.state = State::Again(Again { key, continues }),
        }
        Ok(())
    }

    /// Returns the first entry in `range` of the batch that is not in the thread. Those before it are.
    async fn first_unknown(
        &self,
        agent: &Agent,
        known: &ImportSource,
        batch: &[Keyed],
        range: Range<usize>,
    ) -> Result<Option<usize>> {
        if range.is_empty() || self.is_stored(agent, known, batch, range.end - 1).await? {
            return Ok(None);
        }
        let (mut low, mut high) = (range.start, range.end - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.is_stored(agent, known, batch, middle).await? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }

    async fn is_stored(
        &self,
        agent: &Agent,
        known: &ImportSource,
        batch: &[Keyed],
        at: usize,
    ) -> Result<bool> {
        let chain = &batch[at].chain;
        if known.entries == self.seen + at as u64 + 1 {
            return Ok(*chain == known.chain);
        }
        Ok(agent.store.seq_of_key(known.thread_id, chain).await?.is_some())
    }

    /// Stores events behind what is stored, if that is still `so_far`; the first ones with their thread.
    async fn append(
        &mut self,
        agent: &Agent,
        so_far: Option<ImportedSoFar>,
        fresh: Vec<Keyed>,
    ) -> Result<Added> {
        let thread_id = self.thread_id;
        let source = ImportSource {
            source_key: self.key.clone(),
            thread_id,
            entries: self.seen,
            chain: fresh.last().map(|newest| newest.chain.clone()).unwrap_or_default(),
            updated_at: Timestamp::now(),
        };
        let events: Vec<NewEvent> = fresh.into_iter().map(|keyed| keyed.event).collect();
        let is_new = so_far.is_none();
        let mut writes = Vec::new();
        if is_new {
            writes.push(Write::CreateThread(self.blank.clone()));
        }
        writes.push(Write::PutImport { source, expected: so_far });
        writes.push(Write::Append { thread_id, events });
        match agent.store.commit(Transaction { fence: None, writes }).await {
            Ok(committed) => {
                let before = so_far.map_or(0, |so_far| so_far.last_seq);
                let last_seq = committed.seqs.iter().flatten().copied().fold(before, Seq::max);
                self.state = State::Appending(Some(ImportedSoFar { entries: self.seen, last_seq }));
                Ok(Added { events: committed.stored, is_new })
            }
            // Another process was first, or somebody spoke in the thread or deleted it: look again.
            Err(journal::Error::Differs { .. } | journal::Error::NotFound { .. }) => {
                self.state = State::Again(Again { key: self.session.clone(), continues: None });
                Ok(Added::default())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether what is new of a session may follow what is stored of it. It must not come behind what was said in
/// the thread since; a new name or a handoff of it are no reason.
async fn growth(agent: &Agent, known: &ImportSource) -> Result<Growth> {
    let (store, thread_id) = (&agent.store, known.thread_id);
    match store.import_source(&known.source_key).await? {
        Some(stored) if stored.thread_id != thread_id => return Ok(Growth::Gone),
        Some(stored) if stored.entries > known.entries => return Ok(Growth::Further(stored)),
        Some(_) => {}
        None => return Ok(Growth::Gone),
    }
    let Some(thread) = store.thread(thread_id).await? else { return Ok(Growth::Gone) };
    if !store.active_runs(Some(thread_id)).await?.is_empty() {
        return Ok(Growth::Elsewhere);
    }
    if thread.last_seq > known.entries {
        let imported = store.seq_of_key(thread_id, &known.chain).await?.unwrap_or_default();
        let said = EventQuery { categories: vec![Category::Message], ..EventQuery::after(imported, 1) };
        if !store.events(thread_id, said).await?.is_empty() {
            return Ok(Growth::Elsewhere);
        }
    }
    Ok(Growth::Here(ImportedSoFar { entries: known.entries, last_seq: thread.last_seq }))
}

/// Returns the metadata that tells where a thread came from.
fn provenance(
    conversation: &Conversation,
    source: &Source,
    continues: Option<ThreadId>,
) -> Map<String, serde_json::Value> {
    let mut told = json!({
        "format": conversation.format.as_str(),
        "name": conversation.name,
        "session_id": conversation.session_id,
        "parent_session": conversation.parent_session,
        "workspace": conversation.workspace,
        "model": conversation.model,
        "path": source.shown_as(),
    });
    if let Some(thread_id) = continues {
        told["continues"] = json!(thread_id);
    }
    Map::from_iter([("source".to_owned(), told)])
}
