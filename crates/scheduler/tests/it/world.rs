//! A home folder, a scripted model, and a dispatch over an agent that talks to it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use agent::{Agent, Frame, Home, Item, Policy, Settings};
use protocol::{Event, Message, Run, RunId, RunRequest, RunStatus, Scope, ThreadId};
use scheduler::{Created, Dispatch, Error, Figures, IfNotExists, Limits, Live, NewRun};
use serde_json::json;
use tempfile::TempDir;
use test_model::{Gate, Place, Reply, Script, Server};
use tokio::runtime::Runtime;

const MODEL: &str = "anthropic/claude-test";

/// The gate of [`gated`].
pub const GATE: &str = "gate";

/// The file that has the URL of a world's database, where that is on a server.
const URL: &str = "database-url";

pub struct World {
    folder: PathBuf,
    /// Where it keeps what happened, when that is to be on a server; other processes read its URL from a file.
    _database: Option<test_postgres::Database>,
    _removed_at_end: Option<TempDir>,
}

impl World {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = test_postgres::Database::where_wanted().unwrap();
        if let Some(database) = &database {
            std::fs::write(folder.path().join(URL), database.socket_url()).unwrap();
        }
        Self { folder: folder.path().to_owned(), _database: database, _removed_at_end: Some(folder) }
    }

    /// Returns the world that another process made.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, _database: None, _removed_at_end: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes settings by which agents talk to `server`.
    pub fn configure(&self, server: &Server) {
        let home = self.home();
        home.create().unwrap();
        let url = server.url();
        let text = format!("[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"test\"\n");
        std::fs::write(home.config(), text).unwrap();
    }

    pub fn dispatch(&self, limits: Limits) -> Arc<Dispatch> {
        Dispatch::new(self.agent(), limits)
    }

    pub fn agent(&self) -> Agent {
        self.agent_in("workspace")
    }

    /// Returns an agent that works in that folder.
    pub fn agent_in(&self, workspace: &str) -> Agent {
        let workspace = self.folder.join(workspace);
        std::fs::create_dir_all(&workspace).unwrap();
        let url = std::fs::read_to_string(self.folder.join(URL)).ok();
        opened(Settings {
            database: url.map(|url| url.parse().unwrap()),
            model: Some(MODEL.to_owned()),
            approve: Policy::Allow,
            read_request: langgraph::read_request,
            ..Settings::new(self.home(), workspace)
        })
    }

    /// Returns a dispatch over the model `server` plays.
    pub fn over(&self, server: &Server) -> Arc<Dispatch> {
        self.configure(server);
        self.dispatch(Limits::default())
    }

    fn home(&self) -> Home {
        Home::locate(Some(self.folder.join("home").as_os_str())).unwrap()
    }
}

/// Opens an agent. Its connections to a server are kept on a runtime that lasts as long as the process: a test's own has no
/// time for them where it waits for the agent.
fn opened(settings: Settings) -> Agent {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let opened = std::thread::spawn(|| RUNTIME.block_on(Agent::open(settings)));
    opened.join().unwrap().unwrap()
}

/// The person at the machine.
pub static LOCAL: Scope = Scope::Owner(None);

pub fn alice() -> Scope {
    Scope::Owner(Some("alice".parse().unwrap()))
}

/// Returns a model that answers everything.
pub fn answering(text: &str) -> Server {
    Server::start(Script::new([Reply::text(text).repeated()])).unwrap()
}

/// Returns a model that answers at once, but for requests that contain `what`: their answers wait at [`GATE`].
pub fn gated(what: &str) -> Server {
    let waiting = at_gate(Reply::text("late").when_body_contains(what)).repeated();
    Server::start(Script::new([waiting, Reply::text("done").repeated()])).unwrap()
}

pub fn at_gate(reply: Reply) -> Reply {
    Reply { gate: Some(Gate { name: GATE.to_owned(), at: Place::Start }), ..reply }
}

pub fn saying(text: &str) -> RunRequest {
    let input = json!({"messages": [{"role": "user", "content": text}]});
    RunRequest { input: Some(input), ..RunRequest::default() }
}

pub fn on(thread_id: ThreadId, request: RunRequest) -> NewRun {
    NewRun { thread_id: Some(thread_id), request, if_not_exists: IfNotExists::Create }
}

/// Says something in the thread, which is made if it is not there.
pub async fn say(dispatch: &Arc<Dispatch>, thread_id: ThreadId, text: &str) -> Created {
    dispatch.create(&LOCAL, on(thread_id, saying(text))).await.unwrap()
}

pub async fn join(dispatch: &Arc<Dispatch>, created: &Created) -> Run {
    dispatch.join(&LOCAL, created.run.thread_id, created.run.run_id).await.unwrap()
}

pub async fn row(dispatch: &Arc<Dispatch>, run_id: RunId) -> Option<Run> {
    dispatch.agent(&LOCAL).store().run(run_id).await.unwrap()
}

pub async fn status(dispatch: &Arc<Dispatch>, created: &Created) -> Option<RunStatus> {
    row(dispatch, created.run.run_id).await.map(|run| run.status)
}

/// Reads to the end.
pub async fn frames(live: &mut Live) -> Vec<Item> {
    let mut items = Vec::new();
    while let Some(item) = live.next().await {
        items.push(item);
    }
    items
}

/// Reads until the run's message is stored, so that its model is being asked.
pub async fn begun(live: &mut Live) {
    while let Some(item) = live.next().await {
        if matches!(&item, Item::Frame(_, frame) if matches!(**frame, Frame::StepStarted { .. })) {
            return;
        }
    }
    unreachable!("the run ended before it began a step");
}

pub fn ended(items: &[Item]) -> Vec<RunStatus> {
    let status = |item: &Item| match item {
        Item::Frame(_, frame) => match **frame {
            Frame::RunEnded { status, .. } => Some(status),
            _ => None,
        },
        Item::Gap { .. } => None,
    };
    items.iter().filter_map(status).collect()
}

pub async fn events(dispatch: &Arc<Dispatch>, thread_id: ThreadId) -> Vec<Event> {
    dispatch.agent(&LOCAL).threads().events(thread_id).await.unwrap()
}

/// Returns what is in sight in the thread, as lines.
pub async fn said(dispatch: &Arc<Dispatch>, thread_id: ThreadId) -> Vec<String> {
    let messages = events(dispatch, thread_id).await.into_iter().filter_map(|event| event.message());
    messages
        .map(|message| match &message {
            Message::Human(_) => format!("U: {}", message.text()),
            Message::Ai(_) => format!("A: {}", message.text()),
            Message::Tool(_) => format!("T: {}", message.text()),
        })
        .collect()
}

pub fn is_busy<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

/// Waits until nothing works or waits.
pub async fn idle(dispatch: &Dispatch) {
    while !matches!(dispatch.figures(), Figures { working: 0, waiting: 0, .. }) {
        tokio::task::yield_now().await;
    }
}

/// Waits until the run's row says that it works.
pub async fn working(dispatch: &Arc<Dispatch>, run_id: RunId) {
    while row(dispatch, run_id).await.unwrap().status != RunStatus::Running {
        tokio::task::yield_now().await;
    }
}

/// Polls once.
pub async fn polled<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Waits until nobody holds the dispatch, so that its process counts as gone.
pub async fn gone(dispatch: Arc<Dispatch>) {
    let left = Arc::downgrade(&dispatch);
    drop(dispatch);
    while left.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}
