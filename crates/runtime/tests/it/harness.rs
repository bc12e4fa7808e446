//! The harness of a test: a journal in memory, a graph with the test's hooks and tools, and a model that plays a
//! script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{EventQuery, SqliteStore, Store, Transaction, Write};
use model::ToolSpec;
use protocol::{
    ActionRequest, AssistantId, Checkpoint, Decisions, Event, InterruptPayload, Message, NewEvent,
    ReviewConfig, RunId, Thread, ThreadId,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, ActivityRegistry, AdmittedRun, BEFORE_AGENT_NODE, Breakpoints,
    Channels, ContextCache, Driver, DriverLimits, Edge, FrameSender, Graph, GraphUpdate, Hook, HookPoint,
    HooksNode, MODEL_NODE, ModelNode, RepeatSafety, RunAdmission, RunEnd, RunStart, StepEntry, TOOLS_NODE,
    Tool, ToolContext, ToolOutput, ToolsNode, has_tool_calls,
};
use serde_json::{Value, json};
use test_model::{Script, ScriptedServer};
use tokio_util::sync::CancellationToken;

/// The lease owner of this process.
pub const OWNER: &str = "test";

/// The tools and hooks of a graph.
pub type ToolsAndHooks = (Vec<Arc<dyn Tool>>, Vec<Arc<dyn Hook>>);

/// A thread with a driver and the scripted model that it talks to.
pub struct RuntimeHarness {
    pub store: Arc<dyn Store>,
    pub thread_id: ThreadId,
    pub driver: Driver,
    pub server: ScriptedServer,
}

impl RuntimeHarness {
    pub async fn new(script: Script, tools: Vec<Arc<dyn Tool>>, hooks: Vec<Arc<dyn Hook>>) -> Self {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory().unwrap());
        Self::with_store(store, script, (tools, hooks)).await
    }

    pub async fn with_store(store: Arc<dyn Store>, script: Script, (tools, hooks): ToolsAndHooks) -> Self {
        let server = ScriptedServer::start(script).unwrap();
        let thread_id = ThreadId::generate();
        let create = Write::CreateThread(blank_thread(thread_id));
        store.commit(Transaction { fence: None, writes: vec![create] }).await.unwrap();
        let driver = build_driver(&store, &server, (tools, hooks));
        Self { store, thread_id, driver, server }
    }

    /// Admits a run that starts with a user message.
    pub async fn admit_message(&self, text: &str) -> Checkpoint {
        let message = NewEvent::from_message(&Message::human(text), Timestamp::now()).unwrap();
        let update = GraphUpdate { events: vec![message], ..GraphUpdate::default() };
        let start = RunStart { update, ..RunStart::default() };
        runtime::admit_run(&*self.store, &self.driver.graph, &self.admission(), start)
            .await
            .unwrap()
            .checkpoint
    }

    /// Returns the admission of a new run of the thread.
    pub fn admission(&self) -> RunAdmission {
        RunAdmission {
            run_id: RunId::generate(),
            thread_id: self.thread_id,
            assistant_id: AssistantId::default(),
            model: None,
            lease: OWNER.into(),
            now: Timestamp::now(),
            origin: runtime::AdmissionSource::New,
            durability: Default::default(),
        }
    }

    /// Drives the run from the checkpoint to its end.
    pub async fn drive(&self, checkpoint: &Checkpoint, entry: StepEntry) -> RunEnd {
        let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
        self.driver.drive(AdmittedRun::new(checkpoint.clone(), entry), &frames, &cancel).await.unwrap()
    }

    /// Admits a user message and drives its run to its end.
    pub async fn send_message(&self, text: &str) -> RunEnd {
        let checkpoint = self.admit_message(text).await;
        self.drive(&checkpoint, StepEntry::Fresh).await
    }

    /// Answers question number `index` of `end`. Drives the run that resumes, if one does, and returns its
    /// outcome.
    pub async fn answer_interrupt(&self, end: &RunEnd, index: usize, decision: &str) -> Option<RunEnd> {
        let decisions = parse_decisions(decision);
        let interrupt = self.store.interrupt(end.interrupts[index].interrupt_id).await.unwrap().unwrap();
        let graph = &self.driver.graph;
        let answer = [(&interrupt, &decisions)];
        let with = GraphUpdate::default();
        let resumed =
            runtime::resume_run(&*self.store, graph, &self.admission(), &answer, with).await.unwrap();
        match resumed {
            Some(admitted) => {
                let (frames, cancel) = (FrameSender::default(), CancellationToken::new());
                Some(self.driver.drive(admitted, &frames, &cancel).await.unwrap())
            }
            None => None,
        }
    }

    /// Returns all events of the thread.
    pub async fn events(&self) -> Vec<Event> {
        self.store.events(self.thread_id, EventQuery::after(0, 500)).await.unwrap()
    }

    /// Returns the messages of the thread, one line each.
    pub async fn message_lines(&self) -> Vec<String> {
        self.events().await.iter().filter_map(Event::message).map(|message| message_line(&message)).collect()
    }
}

fn message_line(message: &Message) -> String {
    let calls: Vec<String> = message.tool_calls().map(|(id, name, _)| format!("{name}#{id}")).collect();
    let speaker = match message {
        Message::Human(_) => "U",
        Message::Ai(_) => "A",
        Message::Tool(result) => return format!("T#{}: {}", result.call_id, message.text()),
    };
    format!("{speaker}: {}{}", message.text(), calls.join(" "))
}

pub fn build_driver(
    store: &Arc<dyn Store>,
    server: &ScriptedServer,
    tools_and_hooks: ToolsAndHooks,
) -> Driver {
    build_retrying_driver(store, server, tools_and_hooks, 0)
}

/// Returns a driver whose model calls are retried `retries_max` times.
pub fn build_retrying_driver(
    store: &Arc<dyn Store>,
    server: &ScriptedServer,
    (tools, hooks): ToolsAndHooks,
    retries_max: usize,
) -> Driver {
    let settings = model::ProviderSettings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max,
        ..model::ProviderSettings::default()
    };
    let model_node = ModelNode {
        model: model::connect("anthropic/test".parse().unwrap(), settings).unwrap(),
        tools: tools.iter().map(|tool| tool.spec()).collect(),
        hooks: hooks.clone(),
        contexts: Arc::new(ContextCache::default()),
        too_large_hint: "start a new thread".into(),
    };
    let after_model =
        |channels: &Channels| Ok(Some(if has_tool_calls(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }));
    let hooks_node = |point| Arc::new(HooksNode { point, hooks: hooks.clone() });
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .with_node(hooks_node(HookPoint::BeforeAgent), Edge::To(MODEL_NODE))
        .with_node(Arc::new(model_node), Edge::To(AFTER_MODEL_NODE))
        .with_node(hooks_node(HookPoint::AfterModel), Edge::Conditional(after_model))
        .with_node(Arc::new(ToolsNode::new(tools, std::env::temp_dir(), hooks.clone())), Edge::To(MODEL_NODE))
        .with_node(hooks_node(HookPoint::AfterAgent), Edge::End);
    Driver {
        store: Arc::clone(store),
        graph: Arc::new(graph),
        activities: ActivityRegistry::default(),
        lease: OWNER.into(),
        limits: DriverLimits::default(),
        breakpoints: Breakpoints::default(),
        shutdown: Default::default(),
    }
}

/// Parses the list with this decision, given as JSON.
pub fn parse_decisions(decision: &str) -> Decisions {
    serde_json::from_str(&format!("{{\"decisions\":[{decision}]}}")).unwrap()
}

/// Returns the payload of a question by `source` about one action.
pub fn interrupt_payload(source: &str, action: &str) -> InterruptPayload {
    InterruptPayload {
        schema_version: 1,
        middleware_source: source.to_owned(),
        action_requests: vec![ActionRequest {
            name: action.to_owned(),
            description: "May it?".to_owned(),
            args: json!({}),
            details: None,
        }],
        review_configs: vec![ReviewConfig {
            action_name: action.to_owned(),
            allowed_decisions: vec!["approve".to_owned(), "reject".to_owned()],
        }],
        workspace: None,
    }
}

fn blank_thread(thread_id: ThreadId) -> Thread {
    Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH)
}

/// A tool that counts its calls. The test provides the result of a call.
pub struct CountingTool<F> {
    pub name: &'static str,
    pub repeat: RepeatSafety,
    pub calls: Arc<AtomicUsize>,
    pub call_result: F,
}

#[async_trait]
impl<F, P> Tool for CountingTool<F>
where
    F: Fn(Value, ToolContext) -> P + Send + Sync,
    P: Future<Output = ToolOutput> + Send,
{
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: "A tool.".to_owned(),
            parameters: json!({"type": "object"}),
        }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        self.repeat
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.call_result)(args.clone(), context.clone()).await
    }
}

/// Returns a tool whose result is its name, and the counter of its calls.
pub fn counting_tool(name: &'static str, repeat: RepeatSafety) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let call_result = move |_, _| async move { ToolOutput::success(name) };
    (Arc::new(CountingTool { name, repeat, calls: Arc::clone(&calls), call_result }), calls)
}

/// The notes of hooks, in order.
pub type HookNotes = Arc<Mutex<Vec<String>>>;
