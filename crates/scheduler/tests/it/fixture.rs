//! The test fixture: a home folder, a scripted model, and schedulers over agents that use it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use agent::{Agent, AgentSettings, ApprovalPolicy, Frame, HomeFolder, SubscriptionItem};
use protocol::{Event, Message, OwnerScope, Run, RunId, RunRequest, RunStatus, ThreadId};
use scheduler::{
    CreatedRun, Error, IfNotExists, NewRun, RunReader, Scheduler, SchedulerLimits, SchedulerMetrics,
};
use serde_json::json;
use tempfile::TempDir;
use test_model::{Gate, GatePosition, Script, ScriptedReply, ScriptedServer};
use tokio::runtime::Runtime;

const MODEL: &str = "anthropic/claude-test";

/// The gate of [`gated_model`].
pub const GATE: &str = "gate";

/// The file with the URL of the fixture's database, if the tests use a database server.
const DATABASE_URL_FILE: &str = "database-url";

pub struct SchedulerFixture {
    folder: PathBuf,
    /// The database of the fixture, if the tests use a database server. Other processes read its URL from a file.
    _database: Option<test_postgres::TestDatabase>,
    _temp_dir: Option<TempDir>,
}

impl SchedulerFixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = test_postgres::TestDatabase::create_if_configured().unwrap();
        if let Some(database) = &database {
            std::fs::write(folder.path().join(DATABASE_URL_FILE), database.socket_url()).unwrap();
        }
        Self { folder: folder.path().to_owned(), _database: database, _temp_dir: Some(folder) }
    }

    /// Returns the fixture that another process created in that folder.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, _database: None, _temp_dir: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a configuration with which agents use `server` as their model.
    pub fn configure(&self, server: &ScriptedServer) {
        let home = self.home();
        home.create().unwrap();
        let url = server.url();
        let text = format!("[providers.anthropic]\nbase_url = \"{url}\"\napi_key = \"test\"\n");
        std::fs::write(home.config_path(), text).unwrap();
    }

    pub fn new_scheduler(&self, limits: SchedulerLimits) -> Arc<Scheduler> {
        Scheduler::new(self.agent(), limits)
    }

    pub fn agent(&self) -> Agent {
        self.agent_in("workspace")
    }

    /// Returns an agent whose workspace is that subfolder.
    pub fn agent_in(&self, workspace: &str) -> Agent {
        let workspace = self.folder.join(workspace);
        std::fs::create_dir_all(&workspace).unwrap();
        let url = std::fs::read_to_string(self.folder.join(DATABASE_URL_FILE)).ok();
        open_agent(AgentSettings {
            database: url.map(|url| url.parse().unwrap()),
            model: Some(MODEL.to_owned()),
            approval_policy: ApprovalPolicy::Allow,
            request_reader: langgraph::read_request,
            ..AgentSettings::new(self.home(), workspace)
        })
    }

    /// Returns a scheduler whose agent uses `server` as its model.
    pub fn scheduler_with_model(&self, server: &ScriptedServer) -> Arc<Scheduler> {
        self.configure(server);
        self.new_scheduler(SchedulerLimits::default())
    }

    fn home(&self) -> HomeFolder {
        HomeFolder::locate(Some(self.folder.join("home").as_os_str())).unwrap()
    }
}

/// Opens an agent on a runtime that lasts as long as the process. The agent's database connections belong to that
/// runtime, because the runtime of a test cannot drive them while the test blocks.
fn open_agent(settings: AgentSettings) -> Agent {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    let opened = std::thread::spawn(|| RUNTIME.block_on(Agent::open(settings)));
    opened.join().unwrap().unwrap()
}

/// The scope of the local operator.
pub static LOCAL: OwnerScope = OwnerScope::Owner(None);

/// The scope of the user Alice.
pub fn alice() -> OwnerScope {
    OwnerScope::Owner(Some("alice".parse().unwrap()))
}

/// Returns a model that gives the same answer to every request.
pub fn answering_model(text: &str) -> ScriptedServer {
    ScriptedServer::start(Script::new([ScriptedReply::text(text).with_repeat()])).unwrap()
}

/// Returns a model that answers at once, except for requests that contain `what`: their answers wait at [`GATE`].
pub fn gated_model(what: &str) -> ScriptedServer {
    let gated = gate_at_start(ScriptedReply::text("late").when_body_contains(what)).with_repeat();
    ScriptedServer::start(Script::new([gated, ScriptedReply::text("done").with_repeat()])).unwrap()
}

/// Returns the reply with [`GATE`] before its first word.
pub fn gate_at_start(reply: ScriptedReply) -> ScriptedReply {
    ScriptedReply { gate: Some(Gate { name: GATE.to_owned(), at: GatePosition::Start }), ..reply }
}

/// Returns a request with one message of the user.
pub fn user_request(text: &str) -> RunRequest {
    let input = json!({"messages": [{"role": "user", "content": text}]});
    RunRequest { input: Some(input), ..RunRequest::default() }
}

/// Returns a submission of the request on the thread, which is created if it does not exist.
pub fn new_run_on(thread_id: ThreadId, request: RunRequest) -> NewRun {
    NewRun { thread_id: Some(thread_id), request, if_not_exists: IfNotExists::Create }
}

/// Creates a run with a message in the thread, which is created if it does not exist.
pub async fn submit_message(scheduler: &Arc<Scheduler>, thread_id: ThreadId, text: &str) -> CreatedRun {
    scheduler.create_run(&LOCAL, new_run_on(thread_id, user_request(text))).await.unwrap()
}

/// Waits until the run has ended and returns its row.
pub async fn join(scheduler: &Arc<Scheduler>, created: &CreatedRun) -> Run {
    scheduler.join_run(&LOCAL, created.run.thread_id, created.run.run_id).await.unwrap()
}

/// Returns the row of a run; `None` if it does not exist.
pub async fn run_row(scheduler: &Arc<Scheduler>, run_id: RunId) -> Option<Run> {
    scheduler.agent(&LOCAL).store().run(run_id).await.unwrap()
}

/// Returns the status in the row of a run.
pub async fn run_status(scheduler: &Arc<Scheduler>, created: &CreatedRun) -> Option<RunStatus> {
    run_row(scheduler, created.run.run_id).await.map(|run| run.status)
}

/// Returns all items up to the end of the stream.
pub async fn read_to_end(reader: &mut RunReader) -> Vec<SubscriptionItem> {
    let mut items = Vec::new();
    while let Some(item) = reader.next().await {
        items.push(item);
    }
    items
}

/// Reads until the first step has started: the run's message is stored, and the model is called.
pub async fn wait_for_first_step(reader: &mut RunReader) {
    while let Some(item) = reader.next().await {
        if matches!(&item, SubscriptionItem::Frame(_, frame) if matches!(**frame, Frame::StepStarted { .. }))
        {
            return;
        }
    }
    unreachable!("the run ended before its first step");
}

/// Returns the statuses in the frames that end a run.
pub fn end_statuses(items: &[SubscriptionItem]) -> Vec<RunStatus> {
    let status = |item: &SubscriptionItem| match item {
        SubscriptionItem::Frame(_, frame) => match **frame {
            Frame::RunEnded { status, .. } => Some(status),
            _ => None,
        },
        SubscriptionItem::Gap { .. } => None,
    };
    items.iter().filter_map(status).collect()
}

/// Returns all events of a thread.
pub async fn events(scheduler: &Arc<Scheduler>, thread_id: ThreadId) -> Vec<Event> {
    scheduler.agent(&LOCAL).threads().events(thread_id).await.unwrap()
}

/// Returns the messages of the thread as lines with `U:`, `A:` or `T:`.
pub async fn transcript_lines(scheduler: &Arc<Scheduler>, thread_id: ThreadId) -> Vec<String> {
    let messages = events(scheduler, thread_id).await.into_iter().filter_map(|event| event.message());
    messages
        .map(|message| match &message {
            Message::Human(_) => format!("U: {}", message.text()),
            Message::Ai(_) => format!("A: {}", message.text()),
            Message::Tool(_) => format!("T: {}", message.text()),
        })
        .collect()
}

/// Returns whether the result is the error of a busy thread.
pub fn is_busy<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Busy { .. }))
}

/// Waits until nothing is active or queued.
pub async fn wait_until_idle(scheduler: &Scheduler) {
    while !matches!(scheduler.metrics(), SchedulerMetrics { busy_threads: 0, queued: 0, .. }) {
        tokio::task::yield_now().await;
    }
}

/// Waits until the run's row says that it is running.
pub async fn wait_until_running(scheduler: &Arc<Scheduler>, run_id: RunId) {
    while run_row(scheduler, run_id).await.unwrap().status != RunStatus::Running {
        tokio::task::yield_now().await;
    }
}

/// Polls the future once and returns its output if it is ready.
pub async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

/// Waits until the scheduler has been dropped, so that its process counts as dead.
pub async fn drop_scheduler(scheduler: Arc<Scheduler>) {
    let weak = Arc::downgrade(&scheduler);
    drop(scheduler);
    while weak.strong_count() > 0 {
        tokio::task::yield_now().await;
    }
}
