//! Turns that become summaries: a journal, a scripted small model, and what is left in a context, in the trace and in
//! the queue.

mod answers;
mod due;
mod facts;
mod killed;
mod many;
mod model_sees;
mod raced;
mod shown;
mod transfer;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use journal::{
    EventQuery, MemoryCounts, OutboxItem, OutboxQuery, RunPatch, SqliteStore, Store, Transaction, Write,
};
use memory::{
    AgentFile, AgentFileLookup, MemorySettings, SummarizationError, SummarizationHandoff,
    SummarizationWorker, SummarizedTurns, TRANSFER_OUTBOX_KIND,
};
use model::ChatModel;
use protocol::{
    AiMessage, AssistantId, ContentBlock, Event, EventType, LoggedMessage, Message, NewEvent, ParentKind,
    Run, RunId, RunStatus, Seq, Thread, ThreadId, ToolMessage, ToolStatus, TurnsArchived, Usage,
};
use runtime::{ContextCache, FrameSender};
use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};
use tokio_util::sync::CancellationToken;

/// The model that the threads are sent to.
const MODEL: &str = "anthropic/large";

/// A journal, and a small model that plays scripted replies.
pub struct TierFixture {
    pub store: Arc<dyn Store>,
    pub server: ScriptedServer,
    pub settings: MemorySettings,
    /// The context window of the small model in tokens.
    pub window: u64,
    /// The agent.md that facts are proposed for; without it, none are proposed.
    pub agent_md: Option<Arc<AgentFile>>,
    contexts: Arc<ContextCache>,
}

impl TierFixture {
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::with_store(Arc::new(SqliteStore::in_memory().unwrap()), replies)
    }

    pub fn with_store(store: Arc<dyn Store>, replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        let server = ScriptedServer::start(Script::new(replies)).unwrap();
        let (settings, contexts) = (MemorySettings::default(), Arc::default());
        Self { store, server, settings, window: 100_000, agent_md: None, contexts }
    }

    /// Connects to the small model.
    fn model(&self) -> Arc<dyn ChatModel> {
        let settings = model::ProviderSettings {
            api_key: Some("test".into()),
            base_url: Some(self.server.url().to_owned()),
            retries_max: 0,
            context_tokens: Some(self.window),
            ..model::ProviderSettings::default()
        };
        model::connect("anthropic/small".parse().unwrap(), settings).unwrap()
    }

    pub fn summarization(&self) -> SummarizationHandoff {
        let (store, settings) = (Arc::clone(&self.store), self.settings.clone());
        let agent_md =
            self.agent_md.clone().map(|file| -> AgentFileLookup { Arc::new(move |_| Arc::clone(&file)) });
        SummarizationHandoff { store, summarizer: Some(self.model()), settings, agent_md }
    }

    /// Like [`Self::summarization`], without a model.
    pub fn offline_summarization(&self) -> SummarizationHandoff {
        SummarizationHandoff { summarizer: None, ..self.summarization() }
    }

    pub fn worker(&self) -> SummarizationWorker {
        SummarizationWorker {
            summarization: Arc::new(self.summarization()),
            contexts: Arc::clone(&self.contexts),
            model: MODEL.to_owned(),
            window: None,
        }
    }

    pub async fn summarize_queue(&self) -> Result<Vec<SummarizedTurns>, SummarizationError> {
        self.worker().summarize_queue(&FrameSender::default(), &CancellationToken::new()).await
    }

    pub async fn create_thread(&self) -> ThreadId {
        self.create_thread_of("agent", |_| {}).await
    }

    pub async fn create_thread_of(&self, agent_id: &str, change: impl FnOnce(&mut Thread)) -> ThreadId {
        let thread_id = ThreadId::generate();
        let mut thread = Thread::blank(thread_id, agent_id.parse().unwrap(), timestamp(0));
        change(&mut thread);
        self.commit(vec![Write::CreateThread(thread)]).await;
        thread_id
    }

    pub async fn commit(&self, writes: Vec<Write>) {
        self.store.commit(Transaction { fence: None, writes }).await.unwrap();
    }

    pub async fn append(&self, thread_id: ThreadId, events: Vec<NewEvent>) -> Vec<Seq> {
        let writes = vec![Write::Append { thread_id, events }];
        self.store.commit(Transaction { fence: None, writes }).await.unwrap().seqs.remove(0)
    }

    /// Adds a conversation in its compact form, a minute a line: `U: …`, `A: …`, `C: …` an assistant that says that and
    /// calls a tool, `T: …` the tool's result.
    pub async fn append_lines(&self, thread_id: ThreadId, lines: &[&str]) -> Vec<Seq> {
        let minute = self.store.thread(thread_id).await.unwrap().unwrap().last_seq;
        let event = |(number, line): (u64, &&str)| {
            let at = timestamp(i64::try_from(minute + number).unwrap() * 60);
            NewEvent::from_message(&parse_line(line), at).unwrap()
        };
        self.append(thread_id, (1..).zip(lines).map(event).collect()).await
    }

    /// Admits a run. It stays active until [`Self::end_run`].
    pub async fn begin_run(&self, thread_id: ThreadId) -> RunId {
        let run = Run {
            run_id: RunId::generate(),
            thread_id,
            assistant_id: AssistantId::default(),
            status: RunStatus::Running,
            model: None,
            failure: None,
            lease_owner: Some("test".to_owned()),
            lease_until: Some(timestamp(1_000_000)),
            usage: Usage::default(),
            created_at: timestamp(0),
            updated_at: timestamp(0),
        };
        let run_id = run.run_id;
        self.commit(vec![Write::AdmitRun(run)]).await;
        run_id
    }

    pub async fn end_run(&self, run_id: RunId) {
        let patch = RunPatch { status: Some(RunStatus::Success), ..RunPatch::default() };
        self.commit(vec![Write::UpdateRun { run_id, patch }]).await;
    }

    pub async fn enqueue(&self, thread_id: ThreadId) {
        let item = self.transfer_item(thread_id, timestamp(9)).await;
        self.commit(vec![Write::PutOutboxItem(item)]).await;
    }

    pub async fn transfer_item(&self, thread_id: ThreadId, now: Timestamp) -> OutboxItem {
        memory::build_transfer_item(&*self.store, &agent_id(), thread_id, now).await.unwrap()
    }

    pub async fn queued_items(&self) -> Vec<OutboxItem> {
        self.store.outbox(OutboxQuery::for_kind(TRANSFER_OUTBOX_KIND, 10)).await.unwrap()
    }

    /// Appends the event of a compaction of everything up to `last_seq`.
    pub async fn compact(&self, thread_id: ThreadId, last_seq: Seq, request: Option<Seq>) -> Seq {
        let content = json!({
            "schema_version": 1, "trigger": "auto", "first_seq": 1, "last_seq": last_seq, "replaced_count": 1,
            "kept_count": 1, "tokens_before": 900, "tokens_after": 90, "model": "extractive",
            "summary": "condensed", "sections": {"goal": "g"}, "last_request_seq": request, "duration_ms": 1,
            "carry_over": {"last_request_answered": true},
        });
        let marker = NewEvent::new(EventType::Compacted, &content, timestamp(1)).unwrap();
        self.append(thread_id, vec![marker]).await[0]
    }

    pub async fn task_trace(&self, thread_id: ThreadId) -> Vec<LoggedMessage> {
        self.summarization().get_task_trace(thread_id, None, 5_000).await.unwrap()
    }

    /// Returns the texts of the messages that have no summary.
    pub async fn unarchived_texts(&self, thread_id: ThreadId) -> Vec<String> {
        let trace = self.task_trace(thread_id).await;
        trace.into_iter().filter(|turn| !turn.is_archived).map(|turn| turn.content).collect()
    }

    pub async fn counts(&self) -> MemoryCounts {
        self.store.memory_counts(&agent_id()).await.unwrap()
    }

    pub async fn events(&self, thread_id: ThreadId) -> Vec<Event> {
        self.store.events(thread_id, EventQuery::after(0, 5_000)).await.unwrap()
    }

    pub async fn archived_events(&self, thread_id: ThreadId) -> Vec<TurnsArchived> {
        let types = vec![EventType::TurnsArchived];
        let query = EventQuery { types, ..EventQuery::after(0, 5_000) };
        let archived = self.store.events(thread_id, query).await.unwrap();
        archived.iter().map(|event| serde_json::from_str(event.content.get()).unwrap()).collect()
    }

    /// Returns the texts of the thread's context, read without a cache.
    pub async fn context_texts(&self, thread_id: ThreadId) -> Vec<String> {
        let context = ContextCache::default().read_context(&*self.store, thread_id).await.unwrap();
        context.messages.iter().map(Message::text).collect()
    }

    /// Returns the texts of the requests to the small model.
    pub fn model_prompts(&self) -> Vec<String> {
        self.server.requests().iter().map(|request| request_text(&request.body["messages"])).collect()
    }
}

/// Returns all text of a part of a request.
pub fn request_text(body: &Value) -> String {
    match body {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(request_text).collect(),
        Value::Object(fields) => fields.values().map(request_text).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

pub fn agent_id() -> AssistantId {
    AssistantId::default()
}

/// Returns the time `second` seconds after 09:00 on 1 March 2026.
pub fn timestamp(second: i64) -> Timestamp {
    "2026-03-01T09:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn parse_line(line: &str) -> Message {
    let (sign, text) = line.split_once(": ").unwrap();
    let call_id = "c1".to_owned();
    match sign {
        "U" => Message::human(text),
        "A" => Message::ai(text),
        "C" => {
            let call = ContentBlock::ToolCall { id: call_id, name: "shell".to_owned(), args: json!({}) };
            Message::Ai(AiMessage { content: vec![ContentBlock::text(text), call], ..AiMessage::default() })
        }
        "T" => Message::Tool(ToolMessage {
            id: None,
            call_id,
            name: None,
            content: vec![ContentBlock::text(text)],
            status: ToolStatus::Success,
        }),
        other => unreachable!("no sign {other:?}"),
    }
}

/// Returns a reply with this text for every request.
pub fn repeated_reply(text: &str) -> ScriptedReply {
    ScriptedReply { always: true, ..ScriptedReply::text(text) }
}

pub fn mark_as_subagent(thread: &mut Thread) {
    thread.parent_kind = Some(ParentKind::Subagent);
}
