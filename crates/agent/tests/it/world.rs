//! A home folder of its own, a session to import, and an agent over a journal that can be made to crash.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::{Agent, CancellationToken, Frames, Home, PendingHandoff, Settings};
use async_trait::async_trait;
use journal::{
    Committed, EventQuery, HandoffFilter, Health, HealthDepth, ImportSource, OutboxItem, SearchHit, Sqlite,
    Store, ThreadFilter, Transaction,
};
use protocol::{
    Checkpoint, Decisions, Event, Handoff, HandoffId, Interrupt, InterruptId, Proposal, Run, RunId, Seq,
    Thread, ThreadId,
};
use scripted::{Reply, Script, Server};
use tempfile::TempDir;

pub struct World {
    folder: PathBuf,
    _removed_at_end: Option<TempDir>,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder: folder.path().to_owned(), _removed_at_end: Some(folder) }
    }

    /// Returns the world that another process made.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, _removed_at_end: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn home(&self) -> Home {
        Home::locate(Some(self.folder.join("home").as_os_str())).unwrap()
    }

    pub fn agent_md(&self) -> PathBuf {
        self.home().agent_md(&"agent".parse().unwrap())
    }

    pub fn read_agent_md(&self) -> String {
        std::fs::read_to_string(self.agent_md()).unwrap_or_default()
    }

    pub fn store(&self) -> Arc<dyn Store> {
        self.home().create().unwrap();
        Arc::new(Sqlite::open(&self.home().database()).unwrap())
    }

    /// Returns an agent without a model.
    pub fn agent(&self) -> Agent {
        self.agent_over(self.store(), "none")
    }

    /// Returns an agent that talks to `server`.
    pub fn agent_with(&self, server: &Server) -> Agent {
        self.configure(server);
        self.agent_over(self.store(), "anthropic/claude-test")
    }

    pub fn configure(&self, server: &Server) {
        self.home().create().unwrap();
        let text = format!("[providers.anthropic]\nbase_url = \"{}\"\napi_key = \"test\"\n", server.url());
        std::fs::write(self.home().config(), text).unwrap();
    }

    pub fn agent_over(&self, store: Arc<dyn Store>, model: &str) -> Agent {
        let workspace = self.folder.join("workspace");
        std::fs::create_dir_all(&workspace).unwrap();
        let settings = Settings {
            home: self.home(),
            workspace,
            assistant_id: "agent".parse().unwrap(),
            model: Some(model.to_owned()),
        };
        Agent::with_store(settings, store).unwrap()
    }

    /// Writes a small session of an agent and returns its path.
    pub fn session(&self) -> PathBuf {
        let path = self.folder.join("session.json");
        std::fs::write(&path, SESSION).unwrap();
        path
    }

    /// Writes a session like it about the files of `name`, which no other session names.
    pub fn session_of(&self, name: &str) -> PathBuf {
        let path = self.folder.join(format!("session-{name}.json"));
        std::fs::write(&path, SESSION.replace("every file", &format!("every file of {name}"))).unwrap();
        path
    }
}

/// A conversation of six messages: a request, a rule, a call, a failing check and an open question.
pub const SESSION: &str = r#"[
 {"role":"user","content":"The importer drops the last row of every file. Find out why and fix it in src/import.rs. Never change the file format."},
 {"role":"assistant","content":"I look at the reader first.","tool_calls":[{"id":"c1","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"src/import.rs\"}"}}]},
 {"role":"tool","tool_call_id":"c1","content":"fn rows(text: &str) -> Vec<&str> { text.split('\\n').collect() }"},
 {"role":"assistant","content":"The loop stops one row early because the count excludes the header.","tool_calls":[{"id":"c2","type":"function","function":{"name":"edit_file","arguments":"{\"path\":\"src/import.rs\",\"old\":\"a\",\"new\":\"b\"}"}}]},
 {"role":"tool","tool_call_id":"c2","content":"edited src/import.rs"},
 {"role":"user","content":"Good. Now add a test for a file with one row only, and tell me when it passes."}
]"#;

pub fn quiet() -> (Frames, CancellationToken) {
    (Frames::default(), CancellationToken::new())
}

pub fn decisions(json: &str) -> Decisions {
    serde_json::from_str(json).unwrap()
}

pub fn approve(pending: &PendingHandoff) -> Decisions {
    let sha256 = &pending.proposal.summary_sha256;
    decisions(&format!(r#"{{"decisions":[{{"type":"approve","summary_sha256":"{sha256}"}}]}}"#))
}

pub async fn import(world: &World, agent: &Agent) -> agent::Result<ThreadId> {
    let (frames, cancel) = quiet();
    let report = agent.import(&[world.session()], &frames, &cancel).await?;
    Ok(report.threads[0].thread_id)
}

/// Returns a server whose model answers every request with a text.
pub fn answering(text: &str) -> Server {
    Server::start(Script::new([Reply::text(text).repeated()])).unwrap()
}

/// Words of the drafting prompt, by which its requests are known.
pub const DRAFT_PROMPT: &str = "You write the handoff summary";

/// A draft as a model answers it; it names only what the session contains.
pub const DRAFT: &str = r#"{"title":"Importer drops the last row","tldr":"The loop is mended; a test for one row is still to be written.",
"body":[{"kind":"objective","text":"Find out why the importer drops the last row and fix it in src/import.rs.","refs":[1]},
{"kind":"decision","text":"Never change the file format.","refs":[1]},
{"kind":"next_step","text":"Add a test for a file with one row only.","refs":[6]}]}"#;

/// Returns a server whose model drafts when it is asked to, and answers everything else.
pub fn drafting_then_answering() -> Server {
    let draft = Reply::text(DRAFT).when_body_contains(DRAFT_PROMPT).repeated();
    Server::start(Script::new([draft, Reply::text("The test passes.").repeated()])).unwrap()
}

/// A journal whose process dies before or after one of its commits.
pub struct Dying {
    inner: Arc<dyn Store>,
    commits: AtomicUsize,
    lookups: AtomicUsize,
    boundary: usize,
}

impl Dying {
    /// Dies at `boundary`: an even one lies before the commit number `boundary / 2`, an odd one after it.
    pub fn at(inner: Arc<dyn Store>, boundary: usize) -> Arc<Self> {
        Arc::new(Self { inner, commits: AtomicUsize::new(0), lookups: AtomicUsize::new(0), boundary })
    }

    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns how often an event was looked up by its key.
    pub fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for Dying {
    async fn commit(&self, transaction: Transaction) -> journal::Result<Committed> {
        let number = self.commits.fetch_add(1, Ordering::SeqCst);
        if self.boundary == number * 2 {
            std::process::abort();
        }
        let done = self.inner.commit(transaction).await;
        if self.boundary == number * 2 + 1 {
            std::process::abort();
        }
        done
    }
    async fn thread(&self, thread_id: ThreadId) -> journal::Result<Option<Thread>> {
        self.inner.thread(thread_id).await
    }
    async fn threads(&self, filter: ThreadFilter) -> journal::Result<Vec<Thread>> {
        self.inner.threads(filter).await
    }
    async fn threads_by_prefix(&self, prefix: &str) -> journal::Result<Vec<ThreadId>> {
        self.inner.threads_by_prefix(prefix).await
    }
    async fn events(&self, thread_id: ThreadId, query: EventQuery) -> journal::Result<Vec<Event>> {
        self.inner.events(thread_id, query).await
    }
    async fn seq_of_key(&self, thread_id: ThreadId, event_key: &str) -> journal::Result<Option<Seq>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        self.inner.seq_of_key(thread_id, event_key).await
    }
    async fn search(&self, text: &str, limit: usize) -> journal::Result<Vec<SearchHit>> {
        self.inner.search(text, limit).await
    }
    async fn run(&self, run_id: RunId) -> journal::Result<Option<Run>> {
        self.inner.run(run_id).await
    }
    async fn active_runs(&self, thread_id: Option<ThreadId>) -> journal::Result<Vec<Run>> {
        self.inner.active_runs(thread_id).await
    }
    async fn checkpoint(&self, thread_id: ThreadId) -> journal::Result<Option<Checkpoint>> {
        self.inner.checkpoint(thread_id).await
    }
    async fn unfinished_checkpoints(&self) -> journal::Result<Vec<Checkpoint>> {
        self.inner.unfinished_checkpoints().await
    }
    async fn interrupt(&self, interrupt_id: InterruptId) -> journal::Result<Option<Interrupt>> {
        self.inner.interrupt(interrupt_id).await
    }
    async fn pending_interrupts(&self, thread_id: ThreadId) -> journal::Result<Vec<Interrupt>> {
        self.inner.pending_interrupts(thread_id).await
    }
    async fn handoff(&self, handoff_id: HandoffId) -> journal::Result<Option<Handoff>> {
        self.inner.handoff(handoff_id).await
    }
    async fn handoffs(&self, filter: HandoffFilter) -> journal::Result<Vec<Handoff>> {
        self.inner.handoffs(filter).await
    }
    async fn proposals(&self, handoff_id: HandoffId) -> journal::Result<Vec<Proposal>> {
        self.inner.proposals(handoff_id).await
    }
    async fn outbox(&self, kind: &str) -> journal::Result<Vec<OutboxItem>> {
        self.inner.outbox(kind).await
    }
    async fn import_source(&self, source_key: &str) -> journal::Result<Option<ImportSource>> {
        self.inner.import_source(source_key).await
    }
    async fn health(&self, depth: HealthDepth) -> journal::Result<Health> {
        self.inner.health(depth).await
    }
}
