//! Import: other agents' sessions into threads, streamed, repeatable, and without loss. Reading the files is done by
//! the `transcripts` room; here entries become events, in batches that are durable together with their place.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use journal::{ImportSource, ThreadPatch, Transaction, Write};
use protocol::{NewEvent, Thread, ThreadId};
use runtime::{Frame, Frames};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transcripts::discover::{self, Places, discover};
use transcripts::{Chain, Conversation, Entry, Problem, Sink, SinkError, Source};

use crate::agent::Agent;
use crate::turns::blank;
use crate::{Error, Result};

/// Events of one transaction; a crash loses at most the batch under way, and the next import continues after it.
const BATCH_EVENTS_MAX: usize = 2_048;
/// Bytes of content of one transaction.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Batches that may wait between the reader and the journal.
const BATCHES_WAITING_MAX: usize = 4;

/// What an import did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ImportReport {
    /// The threads, in the order of the files.
    pub threads: Vec<ImportedThread>,
    /// What was damaged, and skipped or repaired.
    pub problems: Vec<ImportProblem>,
    /// Files of a folder that hold no session.
    pub skipped: Vec<PathBuf>,
    /// Bytes read.
    pub bytes: u64,
}

/// One conversation of an import.
#[derive(Debug, Clone, Serialize)]
pub struct ImportedThread {
    /// The thread it is in.
    pub thread_id: ThreadId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The beginning of its first request.
    pub first_prompt: Option<String>,
    /// The format it was read from.
    pub format: String,
    /// The file.
    pub path: PathBuf,
    /// Events this import added.
    pub events_new: u64,
    /// Events of the session.
    pub events_total: u64,
    /// Whether the thread was created by this import.
    pub is_new: bool,
}

/// A session file of an agent that is installed on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FoundSession {
    /// The agent's format.
    pub format: String,
    /// The file.
    pub path: PathBuf,
    /// When it was last written.
    pub modified: Option<Timestamp>,
    /// Its size.
    pub bytes: u64,
    /// Its title, or the beginning of its first request.
    pub title: Option<String>,
    /// The folder it worked in.
    pub workspace: Option<String>,
}

/// One damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportProblem {
    /// The file.
    pub path: PathBuf,
    /// The line, where lines mean something.
    pub line: Option<u64>,
    /// What is wrong and what became of it.
    pub reason: String,
}

impl From<Problem> for ImportProblem {
    fn from(problem: Problem) -> Self {
        Self { path: problem.path, line: problem.line, reason: problem.reason }
    }
}

impl Agent {
    /// Imports session files, folders of them, or standard input (`-`). A session that was imported before gets
    /// what is new; one whose history differs becomes a thread of its own.
    ///
    /// # Errors
    /// When a named file cannot be read or holds no session, or the journal fails. What was imported before that
    /// stays; the same call goes on from there.
    pub async fn import(
        &self,
        paths: &[PathBuf],
        frames: &Frames,
        cancel: &CancellationToken,
    ) -> Result<ImportReport> {
        let mut report = ImportReport::default();
        for path in paths {
            if path.as_os_str() == "-" {
                let home = self.settings.home.root().to_owned();
                let spooled = move || Source::spool(&mut std::io::stdin().lock(), "standard input", &home);
                let source = tokio::task::spawn_blocking(spooled).await;
                let source = source
                    .map_err(|error| Error::Input { path: path.clone(), reason: error.to_string() })??;
                self.import_source(source, &mut report, (frames, cancel)).await?;
                continue;
            }
            let source = Source::file(path);
            match transcripts::detect(&source) {
                Err(transcripts::Error::Folder { .. }) => {
                    self.import_folder(path, &mut report, (frames, cancel)).await?;
                }
                Ok(_) | Err(_) => self.import_source(source, &mut report, (frames, cancel)).await?,
            }
            if cancel.is_cancelled() {
                break;
            }
        }
        Ok(report)
    }

    /// Returns the sessions of agents that are installed on this machine, newest first, with the titles of the
    /// newest `titled`, and what could not be looked at.
    pub fn discover(&self, titled: usize) -> (Vec<FoundSession>, Vec<ImportProblem>) {
        let discovery = discover(&self.places());
        let found = discovery.found.into_iter().enumerate().map(|(index, found)| {
            let source = Source::file(&found.path);
            let peek = if index < titled { discover::peek(&source, found.format).ok() } else { None };
            let peek = peek.unwrap_or_default();
            FoundSession {
                format: found.format.as_str().to_owned(),
                path: found.path,
                modified: found.modified,
                bytes: found.bytes,
                title: peek.title,
                workspace: peek.workspace,
            }
        });
        (found.collect(), discovery.problems.into_iter().map(ImportProblem::from).collect())
    }

    fn places(&self) -> Places {
        let folder = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Places {
            home: etcetera::home_dir().unwrap_or_default(),
            current_folder: self.settings.workspace.clone(),
            claude_config: folder("CLAUDE_CONFIG_DIR"),
            codex_home: folder("CODEX_HOME"),
            data_home: folder("XDG_DATA_HOME"),
        }
    }

    async fn import_folder(
        &self,
        folder: &Path,
        report: &mut ImportReport,
        context: (&Frames, &CancellationToken),
    ) -> Result<()> {
        for path in files_below(folder)? {
            match self.import_source(Source::file(&path), report, context).await {
                Ok(()) => {}
                Err(Error::Transcript(
                    transcripts::Error::Empty { .. }
                    | transcripts::Error::Binary { .. }
                    | transcripts::Error::Unrecognized { .. },
                )) => report.skipped.push(path),
                Err(Error::Transcript(error)) => {
                    report.problems.push(ImportProblem { path, line: None, reason: error.to_string() });
                }
                Err(error) => return Err(error),
            }
            if context.1.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn import_source(
        &self,
        source: Source,
        report: &mut ImportReport,
        context: (&Frames, &CancellationToken),
    ) -> Result<()> {
        report.bytes += source.bytes();
        let source = std::sync::Arc::new(source);
        let mut pass = Pass::new(self, &source, HashMap::new());
        let diverged = pass.run(report, context).await?;
        if !diverged.is_empty() {
            // Entries that were taken for known ones are needed after all: read them again, under their own keys.
            Pass::new(self, &source, diverged).run(report, context).await?;
        }
        Ok(())
    }
}

/// What the reader tells the importer.
enum Told {
    Begin(Box<Conversation>),
    Batch(Vec<(String, NewEvent)>),
    End(Box<Conversation>),
    Problem(Problem),
    Progress(u64),
}

/// The sink that runs on the reading thread.
struct Teller {
    sender: mpsc::Sender<Told>,
    cancel: CancellationToken,
    format: transcripts::Format,
    chain: Chain,
    batch: Vec<(String, NewEvent)>,
    batch_bytes: usize,
    fallback: Timestamp,
}

impl Teller {
    fn tell(&self, told: Told) -> std::result::Result<(), SinkError> {
        if self.cancel.is_cancelled() {
            return Err("it was stopped".into());
        }
        self.sender.blocking_send(told).map_err(|_| "the importer stopped".into())
    }

    fn flush(&mut self) -> std::result::Result<(), SinkError> {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() { Ok(()) } else { self.tell(Told::Batch(batch)) }
    }
}

impl Sink for Teller {
    fn begin(&mut self, conversation: &Conversation) -> std::result::Result<(), SinkError> {
        self.chain = Chain::default();
        self.format = conversation.format;
        self.fallback = conversation.started_at.unwrap_or(self.fallback);
        self.tell(Told::Begin(Box::new(conversation.clone())))
    }

    fn entry(&mut self, entry: Entry) -> std::result::Result<(), SinkError> {
        let key = self.chain.push(&entry);
        let event = entry.into_event(self.format, self.fallback)?;
        self.fallback = event.created_at;
        self.batch_bytes += event.content.get().len();
        self.batch.push((key.clone(), event.keyed(key)));
        if self.batch.len() >= BATCH_EVENTS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn end(&mut self, conversation: &Conversation) -> std::result::Result<(), SinkError> {
        self.flush()?;
        self.tell(Told::End(Box::new(conversation.clone())))
    }

    fn problem(&mut self, problem: Problem) {
        // A cancelled import has nobody to tell.
        let _ = self.tell(Told::Problem(problem));
    }

    fn progress(&mut self, bytes: u64) {
        let _ = self.tell(Told::Progress(bytes));
    }
}

/// One reading of a source.
struct Pass<'a> {
    agent: &'a Agent,
    source: &'a std::sync::Arc<Source>,
    /// Keys of sessions whose history differs from what is stored, and the keys they are imported under. When not
    /// empty, only these are imported.
    only: HashMap<String, String>,
}

/// Where one conversation goes.
struct Place {
    key: String,
    known: Option<ImportSource>,
    thread_id: ThreadId,
    seen: u64,
    chain: String,
    new: u64,
    state: PlaceState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceState {
    /// Entries so far are those stored.
    Comparing,
    /// What comes is new.
    Appending,
    /// The stored history is another one.
    Diverged,
    /// Not wanted in this pass.
    Ignored,
}

impl<'a> Pass<'a> {
    fn new(agent: &'a Agent, source: &'a std::sync::Arc<Source>, only: HashMap<String, String>) -> Self {
        Self { agent, source, only }
    }

    /// Reads the source to its end; returns the sessions that need another pass under other keys.
    async fn run(
        &mut self,
        report: &mut ImportReport,
        (frames, cancel): (&Frames, &CancellationToken),
    ) -> Result<HashMap<String, String>> {
        let (sender, mut receiver) = mpsc::channel(BATCHES_WAITING_MAX);
        let (source, stop) = (std::sync::Arc::clone(self.source), cancel.clone());
        let reader = tokio::task::spawn_blocking(move || {
            let format = transcripts::detect(&source)?;
            let mut teller = Teller {
                sender,
                cancel: stop,
                format,
                chain: Chain::default(),
                batch: Vec::new(),
                batch_bytes: 0,
                fallback: written_at(&source),
            };
            transcripts::read(&source, format, &mut teller)
        });
        let mut diverged = HashMap::new();
        let mut place: Option<Place> = None;
        while let Some(told) = receiver.recv().await {
            match told {
                Told::Begin(conversation) => place = Some(self.begin(&conversation).await?),
                Told::Batch(batch) => {
                    if let Some(place) = place.as_mut() {
                        self.batch(place, batch).await?;
                    }
                }
                Told::End(conversation) => {
                    if let Some(place) = place.take() {
                        diverged.extend(self.end(place, &conversation, report).await?);
                    }
                }
                Told::Problem(problem) if self.only.is_empty() => report.problems.push(problem.into()),
                Told::Problem(_) => {}
                Told::Progress(done) => {
                    let what = format!("import {}", self.source.shown_as().display());
                    frames.send(Frame::Progress { what, done, total: Some(self.source.bytes()) });
                }
            }
        }
        match reader.await {
            Ok(Err(error)) if !cancel.is_cancelled() => Err(error.into()),
            Ok(_) => Ok(diverged),
            Err(error) => {
                Err(Error::Input { path: self.source.shown_as().to_owned(), reason: error.to_string() })
            }
        }
    }

    async fn begin(&self, conversation: &Conversation) -> Result<Place> {
        let natural = conversation.source_key();
        let (key, wanted) = match self.only.get(&natural) {
            Some(key) => (key.clone(), true),
            None => (natural, self.only.is_empty()),
        };
        let known = self.agent.store.import_source(&key).await?;
        let state = match &known {
            _ if !wanted => PlaceState::Ignored,
            Some(known) if known.entries > 0 => PlaceState::Comparing,
            Some(_) | None => PlaceState::Appending,
        };
        let thread_id = known.as_ref().map_or_else(ThreadId::generate, |known| known.thread_id);
        if state == PlaceState::Appending && known.is_none() {
            self.create(thread_id, &key, conversation).await?;
        }
        Ok(Place { key, known, thread_id, seen: 0, chain: String::new(), new: 0, state })
    }

    async fn create(&self, thread_id: ThreadId, key: &str, conversation: &Conversation) -> Result<()> {
        let now = Timestamp::now();
        let at = conversation.started_at.unwrap_or_else(|| written_at(self.source));
        let mut thread =
            blank(thread_id, self.agent.settings.assistant_id.clone(), conversation.title.clone(), at);
        thread.metadata = provenance(conversation, self.source.shown_as());
        let writes =
            vec![Write::CreateThread(thread), Write::PutImport(place_of(key, thread_id, 0, "", now))];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        Ok(())
    }

    async fn batch(&self, place: &mut Place, batch: Vec<(String, NewEvent)>) -> Result<()> {
        let mut fresh = Vec::new();
        for (chain, event) in batch {
            place.seen += 1;
            match place.state {
                PlaceState::Appending => fresh.push(event),
                PlaceState::Comparing => self.compare(place, &chain).await?,
                PlaceState::Diverged | PlaceState::Ignored => {}
            }
            place.chain = chain;
        }
        let Some(newest) = fresh.last() else { return Ok(()) };
        let (now, thread_id) = (Timestamp::now(), place.thread_id);
        let patch = ThreadPatch { updated_at: Some(newest.created_at), ..ThreadPatch::default() };
        let writes = vec![
            Write::Append { thread_id, events: fresh },
            Write::UpdateThread { thread_id, patch },
            Write::PutImport(place_of(&place.key, thread_id, place.seen, &place.chain, now)),
        ];
        place.new += self.agent.store.commit(Transaction { fence: None, writes }).await?.stored;
        Ok(())
    }

    /// At the last stored entry, tells whether this file continues it or is another history.
    async fn compare(&self, place: &mut Place, chain: &str) -> Result<()> {
        let Some(known) = place.known.as_ref().filter(|known| known.entries == place.seen) else {
            return Ok(());
        };
        if known.chain == chain {
            place.state = PlaceState::Appending;
            return Ok(());
        }
        place.key = format!("{}:{chain}", place.key);
        place.state = PlaceState::Diverged;
        let other = self.agent.store.import_source(&place.key).await?;
        if let Some(other) = other.filter(|other| other.entries >= place.seen) {
            place.thread_id = other.thread_id;
            place.state =
                if other.entries == place.seen { PlaceState::Appending } else { PlaceState::Comparing };
            place.known = Some(other);
        }
        Ok(())
    }

    async fn end(
        &self,
        mut place: Place,
        conversation: &Conversation,
        report: &mut ImportReport,
    ) -> Result<Option<(String, String)>> {
        if place.state == PlaceState::Comparing && !place.chain.is_empty() {
            // Shorter than what is stored: an earlier copy of it, or another history.
            if self.agent.store.seq_of_key(place.thread_id, &place.chain).await?.is_none() {
                place.key = format!("{}:{}", place.key, place.chain);
                place.state = PlaceState::Diverged;
            }
        }
        match place.state {
            PlaceState::Ignored => return Ok(None),
            PlaceState::Diverged => return Ok(Some((conversation.source_key(), place.key))),
            PlaceState::Comparing | PlaceState::Appending => {}
        }
        let is_new = place.known.is_none();
        if is_new && place.seen == 0 {
            let writes = vec![Write::DeleteThread { thread_id: place.thread_id }];
            self.agent.store.commit(Transaction { fence: None, writes }).await?;
            return Ok(None);
        }
        let thread = self.finish(&place, conversation).await?;
        report.threads.push(ImportedThread {
            thread_id: place.thread_id,
            name: thread.name,
            first_prompt: thread.first_prompt,
            format: conversation.format.as_str().to_owned(),
            path: self.source.shown_as().to_owned(),
            events_new: place.new,
            events_total: place.seen,
            is_new,
        });
        Ok(None)
    }

    /// Names the thread as the session was named, unless it has a name.
    async fn finish(&self, place: &Place, conversation: &Conversation) -> Result<Thread> {
        let thread = self.agent.thread(place.thread_id).await?;
        if thread.name.is_some() || conversation.title.is_none() {
            return Ok(thread);
        }
        let patch = ThreadPatch { name: conversation.title.clone(), ..ThreadPatch::default() };
        let writes = vec![Write::UpdateThread { thread_id: place.thread_id, patch }];
        self.agent.store.commit(Transaction { fence: None, writes }).await?;
        self.agent.thread(place.thread_id).await
    }
}

/// Returns when the file was last written: the time of entries that have none.
fn written_at(source: &Source) -> Timestamp {
    let modified = source.path().metadata().and_then(|metadata| metadata.modified()).ok();
    modified.and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_else(Timestamp::now)
}

fn place_of(key: &str, thread_id: ThreadId, entries: u64, chain: &str, now: Timestamp) -> ImportSource {
    ImportSource { source_key: key.to_owned(), thread_id, entries, chain: chain.to_owned(), updated_at: now }
}

fn provenance(conversation: &Conversation, path: &Path) -> Map<String, Value> {
    let source = json!({
        "format": conversation.format.as_str(),
        "name": conversation.name,
        "session_id": conversation.session_id,
        "parent_session": conversation.parent_session,
        "workspace": conversation.workspace,
        "model": conversation.model,
        "path": path,
    });
    Map::from_iter([("source".to_owned(), source)])
}

/// Returns the files below `folder`, in the order of their names; links to folders are not followed.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = |error: std::io::Error| Error::Input { path: folder.clone(), reason: error.to_string() };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() || entry.path().is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
