//! A journal in memory, a graph with the hooks and tools a test gives, and a model that plays a script.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use journal::{EventQuery, Sqlite, Store, Transaction, Write};
use model::ToolSpec;
use protocol::{
    ActionRequest, AssistantId, Checkpoint, Decisions, Event, InterruptPayload, Message, NewEvent,
    ReviewConfig, RunId, Thread, ThreadId,
};
use runtime::{
    AFTER_AGENT_NODE, AFTER_MODEL_NODE, Activities, Admission, Admitted, BEFORE_AGENT_NODE, Breakpoints,
    Channels, Contexts, Driver, Edge, Entry, Frames, Graph, Hook, HooksNode, Limits, MODEL_NODE, ModelNode,
    Point, Repeat, RunEnd, Start, TOOLS_NODE, Tool, ToolContext, ToolOutput, ToolsNode, Update, wants_tools,
};
use serde_json::{Value, json};
use test_model::{Script, Server};
use tokio_util::sync::CancellationToken;

/// The name of this process in leases.
pub const OWNER: &str = "test";

/// The tools and hooks of a graph.
pub type Parts = (Vec<Arc<dyn Tool>>, Vec<Arc<dyn Hook>>);

pub struct World {
    pub store: Arc<dyn Store>,
    pub thread_id: ThreadId,
    pub driver: Driver,
    pub server: Server,
}

impl World {
    pub async fn new(script: Script, tools: Vec<Arc<dyn Tool>>, hooks: Vec<Arc<dyn Hook>>) -> Self {
        let store: Arc<dyn Store> = Arc::new(Sqlite::in_memory().unwrap());
        Self::over(store, script, (tools, hooks)).await
    }

    pub async fn over(store: Arc<dyn Store>, script: Script, (tools, hooks): Parts) -> Self {
        let server = Server::start(script).unwrap();
        let thread_id = ThreadId::generate();
        let create = Write::CreateThread(blank(thread_id));
        store.commit(Transaction { fence: None, writes: vec![create] }).await.unwrap();
        let driver = driver(&store, &server, (tools, hooks));
        Self { store, thread_id, driver, server }
    }

    /// Admits a run that begins with a person's message.
    pub async fn admit(&self, text: &str) -> Checkpoint {
        let message = NewEvent::message(&Message::human(text), Timestamp::now()).unwrap();
        let update = Update { events: vec![message], ..Update::default() };
        let start = Start { update, ..Start::default() };
        runtime::admit(&*self.store, &self.driver.graph, &self.admission(), start).await.unwrap().checkpoint
    }

    pub fn admission(&self) -> Admission {
        Admission {
            run_id: RunId::generate(),
            thread_id: self.thread_id,
            assistant_id: AssistantId::default(),
            model: None,
            lease: OWNER.into(),
            now: Timestamp::now(),
            origin: runtime::Origin::New,
            durability: Default::default(),
        }
    }

    pub async fn drive(&self, point: &Checkpoint, entry: Entry) -> RunEnd {
        let (frames, cancel) = (Frames::default(), CancellationToken::new());
        self.driver.drive(Admitted::at(point.clone(), entry), &frames, &cancel).await.unwrap()
    }

    pub async fn say(&self, text: &str) -> RunEnd {
        let point = self.admit(text).await;
        self.drive(&point, Entry::Fresh).await
    }

    /// Answers the `index`th question of `end`; returns how the run that goes on ended, once one does.
    pub async fn answer(&self, end: &RunEnd, index: usize, decision: &str) -> Option<RunEnd> {
        let decisions = decisions(decision);
        let interrupt = self.store.interrupt(end.interrupts[index].interrupt_id).await.unwrap().unwrap();
        let graph = &self.driver.graph;
        let answer = [(&interrupt, &decisions)];
        let with = Update::default();
        let resumed = runtime::resume(&*self.store, graph, &self.admission(), &answer, with).await.unwrap();
        match resumed {
            Some(admitted) => {
                let (frames, cancel) = (Frames::default(), CancellationToken::new());
                Some(self.driver.drive(admitted, &frames, &cancel).await.unwrap())
            }
            None => None,
        }
    }

    pub async fn events(&self) -> Vec<Event> {
        self.store.events(self.thread_id, EventQuery::after(0, 500)).await.unwrap()
    }

    /// Returns what was said, a line each.
    pub async fn said(&self) -> Vec<String> {
        self.events().await.iter().filter_map(Event::message).map(|message| line(&message)).collect()
    }
}

fn line(message: &Message) -> String {
    let calls: Vec<String> = message.tool_calls().map(|(id, name, _)| format!("{name}#{id}")).collect();
    let who = match message {
        Message::Human(_) => "U",
        Message::Ai(_) => "A",
        Message::Tool(result) => return format!("T#{}: {}", result.call_id, message.text()),
    };
    format!("{who}: {}{}", message.text(), calls.join(" "))
}

pub fn driver(store: &Arc<dyn Store>, server: &Server, (tools, hooks): Parts) -> Driver {
    let settings = model::Settings {
        api_key: Some("test".into()),
        base_url: Some(server.url().to_owned()),
        retries_max: 0,
        ..model::Settings::default()
    };
    let asking = ModelNode {
        model: model::connect("anthropic/test".parse().unwrap(), settings).unwrap(),
        tools: tools.iter().map(|tool| tool.spec()).collect(),
        hooks: hooks.clone(),
        contexts: Arc::new(Contexts::default()),
        too_large_hint: "begin again",
    };
    let after_model =
        |channels: &Channels| Ok(Some(if wants_tools(channels)? { TOOLS_NODE } else { AFTER_AGENT_NODE }));
    let point = |point| Arc::new(HooksNode { point, hooks: hooks.clone() });
    let graph = Graph::new(Edge::To(BEFORE_AGENT_NODE))
        .node(point(Point::BeforeAgent), Edge::To(MODEL_NODE))
        .node(Arc::new(asking), Edge::To(AFTER_MODEL_NODE))
        .node(point(Point::AfterModel), Edge::When(after_model))
        .node(Arc::new(ToolsNode::new(tools, std::env::temp_dir(), hooks.clone())), Edge::To(MODEL_NODE))
        .node(point(Point::AfterAgent), Edge::End);
    Driver {
        store: Arc::clone(store),
        graph: Arc::new(graph),
        activities: Activities::default(),
        lease: OWNER.into(),
        limits: Limits::default(),
        breakpoints: Breakpoints::default(),
        halt: Default::default(),
    }
}

pub fn decisions(decision: &str) -> Decisions {
    serde_json::from_str(&format!("{{\"decisions\":[{decision}]}}")).unwrap()
}

pub fn question(source: &str, action: &str) -> InterruptPayload {
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

fn blank(thread_id: ThreadId) -> Thread {
    Thread::blank(thread_id, AssistantId::default(), Timestamp::UNIX_EPOCH)
}

/// A tool that counts its calls; what a call does is given.
pub struct Counting<F> {
    pub name: &'static str,
    pub repeat: Repeat,
    pub calls: Arc<AtomicUsize>,
    pub work: F,
}

#[async_trait]
impl<F, P> Tool for Counting<F>
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

    fn repeat(&self) -> Repeat {
        self.repeat
    }

    async fn call(&self, args: &Value, context: &ToolContext) -> ToolOutput {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.work)(args.clone(), context.clone()).await
    }
}

/// Returns a tool that answers with its name, and the count of its calls.
pub fn tool(name: &'static str, repeat: Repeat) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let work = move |_, _| async move { ToolOutput::success(name) };
    (Arc::new(Counting { name, repeat, calls: Arc::clone(&calls), work }), calls)
}

/// What hooks noted, in order.
pub type Notes = Arc<Mutex<Vec<String>>>;
