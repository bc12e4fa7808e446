//! One source into threads, in as many readings as it takes: which conversation is which, and which have to be read
//! once more. What is stored of each is found out by its [`Place`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use journal::{ThreadPatch, Transaction, Write};
use protocol::{Thread, ThreadId};
use runtime::{Frame, RunScope};
use transcripts::{Conversation, Source};

use super::place::{Again, Place, State};
use super::reader::{Reader, Told};
use super::{ImportProblem, ImportReport, ImportedThread};
use crate::Result;
use crate::agent::Agent;

/// Readings of one source. Two do, unless other processes import the same sessions or talk in their threads meanwhile.
const PASSES_MAX: usize = 8;

/// Conversations that have to be read once more, by the key of their session.
type Waiting = BTreeMap<String, Again>;

/// What this import added to a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Added {
    /// Events.
    pub(super) events: u64,
    /// Whether it created the thread.
    pub(super) is_new: bool,
}

/// The import of one source.
pub(super) struct SourceImport<'a> {
    agent: &'a Agent,
    source: Arc<Source>,
    added: HashMap<ThreadId, Added>,
}

impl<'a> SourceImport<'a> {
    /// Returns an import that has read nothing.
    pub(super) fn new(agent: &'a Agent, source: Source) -> Self {
        Self { agent, source: Arc::new(source), added: HashMap::new() }
    }

    /// Imports every conversation; one that finds no place in [`PASSES_MAX`] readings is reported.
    pub(super) async fn run(mut self, report: &mut ImportReport, scope: RunScope<'_>) -> Result<()> {
        let mut waiting = self.pass(None, report, scope).await?;
        for _ in 1..PASSES_MAX {
            if waiting.is_empty() || scope.cancel.is_cancelled() {
                return Ok(());
            }
            waiting = self.pass(Some(waiting), report, scope).await?;
        }
        for key in waiting.into_keys() {
            let reason = format!("left out {key}: its thread keeps changing; import it again");
            report.problems.push(self.problem(reason));
        }
        Ok(())
    }

    /// Reads the source to its end: all of it, or the conversations of `only`. Returns those that have to be read again.
    async fn pass(
        &mut self,
        mut only: Option<Waiting>,
        report: &mut ImportReport,
        RunScope { frames, cancel }: RunScope<'_>,
    ) -> Result<Waiting> {
        let is_first = only.is_none();
        let mut reader = Reader::start(Arc::clone(&self.source), cancel.clone());
        let mut begun: HashMap<String, u64> = HashMap::new();
        let mut waiting = Waiting::new();
        let mut place: Option<Place> = None;
        while let Some(told) = reader.next().await {
            match told {
                Told::Begin(conversation) => {
                    let session = session_key(&conversation, &mut begun);
                    place = self.begin(session, conversation, only.as_mut()).await?;
                }
                Told::Batch(batch) => {
                    if let Some(place) = place.as_mut() {
                        let added = place.take(self.agent, batch).await?;
                        let so_far = self.added.entry(place.thread_id).or_default();
                        so_far.events += added.events;
                        so_far.is_new |= added.is_new;
                    }
                }
                Told::End(conversation) => {
                    if let Some(place) = place.take() {
                        waiting.extend(self.end(place, &conversation, report).await?);
                    }
                }
                Told::Problem(problem) if is_first => report.problems.push(problem.into()),
                Told::Problem(_) => {}
                Told::Progress(done) => {
                    let what = format!("import {}", self.source.shown_as().display());
                    frames.send(Frame::Progress { what, done, total: Some(self.source.bytes()) });
                }
            }
        }
        match reader.finish().await {
            Err(error) if !cancel.is_cancelled() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if !cancel.is_cancelled() {
            let gone = only.into_iter().flatten().map(|(key, _)| format!("left out {key}: the file changed"));
            report.problems.extend(gone.map(|reason| self.problem(reason)));
        }
        Ok(waiting)
    }

    /// Returns the place of a conversation; `None` when this reading is not about it.
    async fn begin(
        &self,
        session: String,
        conversation: Box<Conversation>,
        only: Option<&mut Waiting>,
    ) -> Result<Option<Place>> {
        let again = match only {
            None => Again { key: session.clone(), continues: None },
            Some(only) => match only.remove(&session) {
                Some(again) => again,
                None => return Ok(None),
            },
        };
        Ok(Some(Place::find(self.agent, &self.source, session, again, conversation).await?))
    }

    /// Reports the thread of a conversation, or returns how it has to be read again.
    async fn end(
        &self,
        place: Place,
        conversation: &Conversation,
        report: &mut ImportReport,
    ) -> Result<Option<(String, Again)>> {
        match place.state {
            State::Again(again) => return Ok(Some((place.session, again))),
            State::Appending(None) => return Ok(None),
            State::Comparing(_) | State::Appending(Some(_)) => {}
        }
        let thread = self.named(place.thread_id, conversation).await?;
        let added = self.added.get(&place.thread_id).copied().unwrap_or_default();
        report.threads.push(ImportedThread {
            thread_id: place.thread_id,
            name: thread.name,
            first_prompt: thread.first_prompt,
            format: conversation.format.as_str().to_owned(),
            path: self.source.shown_as().to_owned(),
            events_new: added.events,
            events_total: place.seen,
            is_new: added.is_new,
        });
        Ok(None)
    }

    /// Names the thread as the session was named, unless it has a name, and returns it.
    async fn named(&self, thread_id: ThreadId, conversation: &Conversation) -> Result<Thread> {
        let thread = self.agent.thread(thread_id).await?;
        if thread.name.is_some() || conversation.title.is_none() {
            return Ok(thread);
        }
        let patch = ThreadPatch { name: conversation.title.clone(), ..ThreadPatch::default() };
        let writes = vec![Write::UpdateThread { thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(thread_id).await
    }

    fn problem(&self, reason: String) -> ImportProblem {
        ImportProblem { path: self.source.shown_as().to_owned(), line: None, reason }
    }
}

/// Returns the key of a conversation's session. Conversations of one file may have no better key than how they
/// begin; those that begin alike are told apart by their order.
fn session_key(conversation: &Conversation, begun: &mut HashMap<String, u64>) -> String {
    let key = conversation.source_key();
    let count = begun.entry(key.clone()).or_default();
    *count += 1;
    if *count == 1 { key } else { format!("{key}#{count}") }
}
