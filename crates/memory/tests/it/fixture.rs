//! The fixture: a journal in memory, an agent.md in a temporary folder, a graph with the hook under test, and a
//! scripted model.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{EventQuery, SqliteStore, Store, Transaction, Write};
use memory::{AgentFile, AgentMdHook, EditMemoryTool};
use model::ToolSpec;
use protocol::{
    AssistantId, Event, Handoff, HandoffId, HandoffMark, HandoffStatus, Message, NewEvent, Proposal, RunId,
    RunStatus, Thread, ThreadId, ToolStatus,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, ActivityRegistry, BEFORE_AGENT_NODE, Breakpoints, Channels,
    ContextCache, Driver, DriverLimits, Edge, Frame, FrameSender, Graph, GraphUpdate, Hook, HookPoint,
    HooksNode, MODEL_NODE, ModelNode, RepeatSafety, RunAdmission, RunStart, SubscriptionItem, TOOLS_NODE,
    Tool, ToolContext, ToolOutput, ToolsNode, has_tool_calls,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio_util::sync::CancellationToken;

/// The name of this process in leases.
const OWNER: &str = "test";

/// The result of a run.
#[derive(Debug)]
pub struct FinishedRun {
    pub status: RunStatus,
    pub error: Option<String>,
    pub notices: Vec<String>,
}

pub struct AgentMdFixture {
    pub folder: TempDir,
    pub store: Arc<dyn Store>,
    pub server: ScriptedServer,
    pub file: Arc<AgentFile>,
    /// Hooks that run before the hook of agent.md.
    pub hooks: Vec<Arc<dyn Hook>>,
    tools: Vec<Arc<dyn Tool>>,
}

impl AgentMdFixture {
    /// Returns an agent that has `edit_memory` and these tools, and a model that plays these replies.
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>, tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), replies, |_| tools)
    }

    /// Like [`Self::new`], in this folder. The tools are created for the path of its agent.md.
    pub fn in_folder(
        folder: TempDir,
        replies: impl IntoIterator<Item = ScriptedReply>,
        tools: impl FnOnce(PathBuf) -> Vec<Arc<dyn Tool>>,
    ) -> Self {
        let path = folder.path().join("agent.md");
        let mut tools = tools(path.clone());
        let file = Arc::new(AgentFile::new(path));
        tools.push(Arc::new(EditMemoryTool::new(Arc::clone(&file))));
        Self {
            folder,
            store: Arc::new(SqliteStore::in_memory().unwrap()),
            server: ScriptedServer::start(Script::new(replies)).unwrap(),
            file,
            hooks: Vec::new(),
            tools,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("agent.md")
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    pub fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    /// Drops the cached state of the file, like a restart.
    pub fn forget_cached_file(&mut self) {
        self.file = Arc::new(AgentFile::new(self.path()));
    }

    pub async fn create_thread(&self) -> ThreadId {
        let thread_id = ThreadId::generate();
        self.commit(vec![Write::CreateThread(blank_thread(thread_id, Map::new()))]).await;
        thread_id
    }

    /// Creates a child that has had no turn yet, with an accepted summary that the file shows.
    pub async fn create_child_thread(&self, package_md: &str) -> ThreadId {
        let (parent, child, handoff_id) =
            (self.create_thread().await, ThreadId::generate(), HandoffId::generate());
        let now = Timestamp::UNIX_EPOCH;
        let mark = HandoffMark {
            handoff_id,
            source_thread_id: parent,
            child_thread_id: child,
            pending: true,
            cleanup_required: true,
            created_at: now,
            last_cleanup_at: None,
        };
        let metadata = Map::from_iter([(HandoffMark::KEY.to_owned(), serde_json::to_value(mark).unwrap())]);
        let sha256 = format!("hash of {package_md}");
        let handoff = Handoff {
            handoff_id,
            assistant_id: AssistantId::default(),
            parent_thread_id: parent,
            child_thread_id: child,
            status: HandoffStatus::Seeded,
            iteration: 0,
            goal: None,
            run_id: None,
            options: Value::Null,
            accepted_sha256: Some(sha256.clone()),
            note: None,
            created_at: now,
            updated_at: now,
        };
        let summary_json = json!({
            "schema_version": 1, "handoff_id": handoff_id, "assistant_id": "agent", "parent_thread_id": parent,
            "child_thread_id": child, "title": "T", "tldr": "t", "body": [], "model": "extractive",
            "model_run_id": null, "tokens_used": 0, "iteration": 0, "created_at": now,
            "coverage": {"first_seq": 1, "last_seq": 1, "verbatim": [], "summarized": [], "truncated": [], "excluded": []},
            "carried": {"last_user_request": null},
        });
        let proposal = Proposal {
            handoff_id,
            iteration: 0,
            summary_json: serde_json::from_value(summary_json).unwrap(),
            package_md: package_md.to_owned(),
            summary_sha256: sha256,
            feedback: None,
            created_at: now,
        };
        self.commit(vec![
            Write::CreateThread(Thread {
                parent_kind: Some(protocol::ParentKind::Handoff),
                ..blank_thread(child, metadata)
            }),
            Write::CreateHandoff(handoff),
            Write::PutProposal(proposal),
        ])
        .await;
        AgentFile::new(self.path()).write_block(package_md, now).unwrap();
        child
    }

    async fn commit(&self, writes: Vec<Write>) {
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    /// Runs a turn that begins with a message of the user.
    pub async fn run_turn(&self, thread_id: ThreadId, text: &str) -> FinishedRun {
        let driver = self.driver();
        let message = NewEvent::from_message(&Message::human(text), Timestamp::now()).unwrap();
        let update = GraphUpdate { events: vec![message], ..GraphUpdate::default() };
        let admission = RunAdmission {
            run_id: RunId::generate(),
            thread_id,
            assistant_id: AssistantId::default(),
            model: None,
            lease: OWNER.into(),
            now: Timestamp::now(),
            origin: runtime::AdmissionSource::New,
            durability: Default::default(),
        };
        let start = RunStart { update, ..RunStart::default() };
        let point = runtime::admit_run(&*self.store, &driver.graph, &admission, start).await.unwrap();
        let (frames, mut stream) = FrameSender::channel();
        let end = driver.drive(point, &frames, &CancellationToken::new()).await.unwrap();
        let mut notices = Vec::new();
        let mut error = None;
        while let Some(SubscriptionItem::Frame(_, frame)) = stream.next().await {
            match &*frame {
                Frame::Notice { text } => notices.push(text.clone()),
                Frame::RunEnded { failure, .. } => {
                    error = failure.as_ref().map(|failure| failure.message.clone());
                    break;
                }
                _ => {}
            }
        }
        FinishedRun { status: end.status, error, notices }
    }

    fn driver(&self) -> Driver {
        let mut hooks = self.hooks.clone();
        hooks.push(Arc::new(AgentMdHook::new(Arc::clone(&self.file), memory::SummaryRetention::default())));
        let settings = model::ProviderSettings {
            api_key: Some("test".into()),
            base_url: Some(self.server.url().to_owned()),
            retries_max: 0,
            ..model::ProviderSettings::default()
        };
        let asking = ModelNode {
            model: model::connect("anthropic/test".parse().unwrap(), settings).unwrap(),
            tools: self.tools.iter().map(|tool| tool.spec()).collect(),
            hooks: hooks.clone(),
            contexts: Arc::new(ContextCache::default()),
            too_large_hint: "begin again".into(),
        };
        let after_model = |channels: &Channels| {
            Ok(Some(if has_tool_calls(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }))
        };
        let point = |point| Arc::new(HooksNode { point, hooks: hooks.clone() });
        let tools = ToolsNode::new(self.tools.clone(), self.folder.path().to_owned(), hooks.clone());
        let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
            .with_node(point(HookPoint::BeforeAgent), Edge::To(MODEL_NODE))
            .with_node(Arc::new(asking), Edge::To(AFTER_MODEL_NODE))
            .with_node(point(HookPoint::AfterModel), Edge::Conditional(after_model))
            .with_node(Arc::new(tools), Edge::To(MODEL_NODE))
            .with_node(point(HookPoint::AfterAgent), Edge::End);
        Driver {
            store: Arc::clone(&self.store),
            graph: Arc::new(graph),
            activities: ActivityRegistry::default(),
            lease: OWNER.into(),
            limits: DriverLimits::default(),
            breakpoints: Breakpoints::default(),
            shutdown: Default::default(),
        }
    }

    pub async fn events(&self, thread_id: ThreadId) -> Vec<Event> {
        self.store.events(thread_id, EventQuery::after(0, 500)).await.unwrap()
    }

    /// Returns the results of tool calls: whether each failed, and its text.
    pub async fn tool_results(&self, thread_id: ThreadId) -> Vec<(ToolStatus, String)> {
        let messages = self.events(thread_id).await;
        let messages = messages.iter().filter_map(Event::message);
        messages
            .filter_map(|message| match &message {
                Message::Tool(result) => Some((result.status, message.text())),
                Message::Human(_) | Message::Ai(_) => None,
            })
            .collect()
    }

    /// Returns the sections about agent.md in the requests.
    pub fn system_prompts(&self) -> Vec<String> {
        let requests = self.server.requests();
        let system = requests.iter().map(|request| &request.body["system"]);
        system
            .map(|blocks| blocks.as_array().unwrap().last().unwrap()["text"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn blank_thread(thread_id: ThreadId, metadata: Map<String, Value>) -> Thread {
    Thread { metadata, ..Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH) }
}

/// A tool that performs an action on a path and reports success.
struct ActionTool<F> {
    name: &'static str,
    path: PathBuf,
    work: F,
}

#[async_trait]
impl<F: Fn(&PathBuf) + Send + Sync> Tool for ActionTool<F> {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: "A tool.".to_owned(),
            parameters: json!({"type": "object"}),
        }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    async fn call(&self, _args: &Value, _context: &ToolContext) -> ToolOutput {
        (self.work)(&self.path);
        ToolOutput::success("done")
    }
}

/// Returns a tool that does `work` with `path`.
pub fn action_tool(
    name: &'static str,
    path: PathBuf,
    work: impl Fn(&PathBuf) + Send + Sync + 'static,
) -> Arc<dyn Tool> {
    Arc::new(ActionTool { name, path, work })
}
