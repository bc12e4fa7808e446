//! Tests of compaction through the agent's public interface: triggers, the effect on the next request, and the unchanged
//! history. Also fixtures that the submodules share.

mod chained;
mod hooks;
mod limits;
mod lineage;
mod manual;
mod overflow;
mod pins;
mod summarizer;
mod trigger;
mod undo;

use std::sync::Arc;

use agent::{Agent, CompactionParameters, KeepPolicy, ThreadCompaction};
use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Transaction, Write};
use model::ToolSpec;
use protocol::{
    AiMessage, Compaction, ContentBlock, Event, EventType, Message, NewEvent, RunStatus, Seq, ThreadId,
    ToolMessage, ToolStatus, Usage,
};
use runtime::{RepeatSafety, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};
use test_model::{RecordedRequest, Script, ScriptedReply, ScriptedServer};

use crate::environment::{TEST_MODEL, TestEnvironment, unwatched};

/// A phrase of the summarizer's prompt, which identifies its requests.
pub const SUMMARIZER_PROMPT: &str = "You keep the record of a long conversation";

/// The opening tag of the message that carries a summary.
pub const SUMMARY_OPENING: &str = "<earlier_conversation_summary>";

/// A summary in the JSON format that the summarizer's prompt requires.
pub const RECORD: &str = r#"{"goal":"Put every part in order.","constraints":["Never touch the billing table."],
"progress":["The first parts are in order."],"decisions":["The parts are looked at one after the other."],
"files":["src/part_1.rs: in order"],"errors":[],"pending":["Look at the parts that are left."],
"next_step":"Look at the next part."}"#;

/// A rule in the first request of a filled thread.
const BILLING_RULE: &str = "Never touch the billing table.";

/// A sentence in the first answer of a filled thread. Neither the carry-over nor [`RECORD`] contains it.
pub const CODE_WORD_SENTENCE: &str = "The code word is walnut-17.";

/// Returns a valid reply of the summarizer, which repeats.
pub fn record_reply() -> ScriptedReply {
    ScriptedReply::text(RECORD).with_tokens(700, 70).when_body_contains(SUMMARIZER_PROMPT).with_repeat()
}

/// Returns the reply without reported usage, so that the agent estimates its tokens.
pub fn without_usage(reply: ScriptedReply) -> ScriptedReply {
    reply.with_tokens(0, 0)
}

/// Returns a server that answers the summarizer's prompt with [`RECORD`], and all other requests with "Done.".
pub fn good_server() -> ScriptedServer {
    ScriptedServer::start(Script::new([
        record_reply(),
        without_usage(ScriptedReply::text("Done.")).with_repeat(),
    ]))
    .unwrap()
}

/// Writes a configuration whose models have a context window of `window` tokens, with `section` below `[compaction]`.
pub fn configure(environment: &TestEnvironment, server: &ScriptedServer, (window, section): (u64, &str)) {
    environment.configure_with_extra(server, &format!("[compaction]\n{section}\n"));
    let path = environment.home().config_path();
    let text = std::fs::read_to_string(&path).unwrap();
    let key = "api_key = \"test\"\n";
    std::fs::write(path, text.replace(key, &format!("{key}context_tokens = {window}\n"))).unwrap();
}

/// Returns an agent with a configuration as [`configure`] writes it.
pub fn agent_of(environment: &TestEnvironment, server: &ScriptedServer, settings: (u64, &str)) -> Agent {
    configure(environment, server, settings);
    environment.agent_over(environment.store(), TEST_MODEL)
}

/// Appends messages to the thread without a run.
pub async fn append(agent: &Agent, thread_id: ThreadId, messages: &[Message]) {
    let now = Timestamp::now();
    let events = messages.iter().map(|message| NewEvent::from_message(message, now).unwrap()).collect();
    let writes = vec![Write::Append { thread_id, events }];
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
}

/// Returns the messages of the turns with these numbers. Each turn has four messages: a request, a call, a result of at
/// least `chars` characters, and an answer.
pub fn turns(numbers: std::ops::Range<usize>, chars: usize) -> Vec<Message> {
    let turn = |number: usize| {
        let call = ContentBlock::ToolCall {
            id: format!("call{number}"),
            name: "read_file".to_owned(),
            args: json!({"path": format!("src/part_{number}.rs")}),
        };
        let line = format!("let part = {number};\n");
        let result = Message::Tool(ToolMessage {
            id: None,
            call_id: format!("call{number}"),
            name: Some("read_file".to_owned()),
            content: vec![ContentBlock::text(line.repeat(chars / line.len() + 1))],
            status: ToolStatus::Success,
        });
        let request = match number {
            1 => format!("Request 1: look at part 1. {BILLING_RULE}"),
            _ => format!("Request {number}: look at part {number}."),
        };
        let answer = match number {
            1 => format!("Part 1 is in order. {CODE_WORD_SENTENCE}"),
            _ => format!("Part {number} is in order, as src/part_{number}.rs shows."),
        };
        [
            Message::human(request),
            Message::Ai(AiMessage { content: vec![call], ..AiMessage::default() }),
            result,
            Message::ai(answer),
        ]
    };
    numbers.flat_map(turn).collect()
}

/// Creates a thread of 8 turns (32 messages) with results of at least `chars` characters.
pub async fn filled_thread(agent: &Agent, chars: usize) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(agent, thread, &turns(1..9, chars)).await;
    thread
}

/// Creates a thread of 34 messages for whose newest request the provider reported `tokens` input tokens.
pub async fn filled_thread_with_usage(agent: &Agent, tokens: u64) -> ThreadId {
    let thread = filled_thread(agent, 12_000).await;
    append(agent, thread, &[Message::human("So?")]).await;
    let answer = AiMessage {
        content: vec![ContentBlock::text("All parts are in order so far.")],
        usage: Some(Usage { input_tokens: tokens, output_tokens: 5, ..Usage::default() }),
        estimated_tokens: Some(agent.threads().context_report(thread).await.unwrap().tokens),
        model: Some(TEST_MODEL.to_owned()),
        ..AiMessage::default()
    };
    append(agent, thread, &[Message::Ai(answer)]).await;
    thread
}

/// Sends a message and asserts that the run succeeds.
#[track_caller]
pub fn send_message(agent: &Agent, thread: ThreadId, text: &str) -> impl Future<Output = runtime::RunEnd> {
    let caller = std::panic::Location::caller();
    async move {
        let (frames, cancel) = unwatched();
        let end = agent.runs().send_message(thread, text, &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{caller}: {end:?}");
        end
    }
}

/// Compacts the thread as `/compact` does, with default parameters.
pub async fn compact_thread(agent: &Agent, thread: ThreadId) -> agent::Result<ThreadCompaction> {
    let (frames, cancel) = unwatched();
    agent.threads().compact(thread, &CompactionParameters::default(), &frames, &cancel).await
}

/// Compacts the thread and keeps at most the newest `messages` messages.
pub async fn compact_keeping(agent: &Agent, thread: ThreadId, messages: u64) -> ThreadCompaction {
    let (frames, cancel) = unwatched();
    let request = CompactionParameters { focus: None, keep: Some(KeepPolicy::Messages(messages)) };
    agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap()
}

/// Returns the visible compaction boundaries with their sequence numbers.
pub async fn visible_markers(agent: &Agent, thread: ThreadId) -> Vec<(Seq, Compaction)> {
    let events = agent.threads().events(thread).await.unwrap();
    let markers = events.iter().filter(|event| event.kind() == Some(EventType::Compacted));
    markers.map(|event| (event.seq, serde_json::from_str(event.content.get()).unwrap())).collect()
}

/// Returns the contents of the thread's visible events of a type.
pub async fn events_of(agent: &Agent, thread: ThreadId, kind: EventType) -> Vec<Value> {
    let events = agent.threads().events(thread).await.unwrap();
    events.iter().filter(|event| event.kind() == Some(kind)).map(Event::content_value).collect()
}

/// Splits the server's requests into those with the summarizer's prompt and all others.
pub fn split_requests(server: &ScriptedServer) -> (Vec<RecordedRequest>, Vec<RecordedRequest>) {
    server.requests().into_iter().partition(|request| request.body.to_string().contains(SUMMARIZER_PROMPT))
}

/// Returns the messages of the newest request without the summarizer's prompt, as JSON text.
pub fn newest_request(server: &ScriptedServer) -> String {
    split_requests(server).1.last().unwrap().body["messages"].to_string()
}

/// A tool whose result has the number of characters that its argument requests.
pub struct LargeResultTool;

#[async_trait]
impl Tool for LargeResultTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "large".to_owned(),
            description: "Says a lot.".to_owned(),
            parameters: json!({"type": "object", "properties": {"chars": {"type": "integer"}}}),
        }
    }

    fn repeat_safety(&self) -> RepeatSafety {
        RepeatSafety::Safe
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        ToolOutput::success(large_result(usize::try_from(args["chars"].as_u64().unwrap()).unwrap()))
    }
}

/// Returns the result of [`LargeResultTool`] with `chars` characters.
pub fn large_result(chars: usize) -> String {
    let lines = (0..).map(|number| format!("line {number} says that all is well\n"));
    let mut text: String = lines.take(chars / 24 + 1).collect();
    text.truncate(chars);
    text
}

/// Returns a reply that calls [`LargeResultTool`].
pub fn large_call(id: &str, chars: usize) -> ScriptedReply {
    without_usage(ScriptedReply::call(id, "large", json!({"chars": chars})))
}

/// Returns an agent with [`LargeResultTool`], whose calls need no approval.
pub fn agent_with_large_tool(
    environment: &TestEnvironment,
    server: &ScriptedServer,
    (window, section): (u64, &str),
) -> Agent {
    let section =
        format!("{section}\n[permissions]\nallow = [\"large\", \"read_file\", \"compact_conversation\"]");
    agent_of(environment, server, (window, &section)).with_tool(Arc::new(LargeResultTool))
}
