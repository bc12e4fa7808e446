//! Compaction through the agent: when it happens, what it does to the next request, and what stays as it was.

mod before;
mod chained;
mod limits;
mod lineage;
mod manual;
mod overflow;
mod summariser;
mod trigger;
mod undo;

use std::sync::Arc;

use agent::{Agent, CompactionRequest, Condensed, Keep};
use async_trait::async_trait;
use jiff::Timestamp;
use journal::{Transaction, Write};
use model::ToolSpec;
use protocol::{
    AiMessage, Block, Compaction, Event, EventType, Message, NewEvent, RunStatus, Seq, ThreadId, ToolMessage,
    ToolStatus, Usage,
};
use runtime::{Repeat, Tool, ToolContext, ToolOutput};
use serde_json::{Value, json};
use test_model::{Recorded, Reply, Script, Server};

use crate::world::{MODEL, World, quiet};

/// Words of the summariser's prompt, by which its requests are known.
pub const PROMPT: &str = "You keep the record of a long conversation";

/// What begins the message that a summary is sent in.
pub const OPENING: &str = "<earlier_conversation_summary>";

/// A record as a model answers it.
pub const RECORD: &str = r#"{"goal":"Put every part in order.","constraints":["Never touch the billing table."],
"progress":["The first parts are in order."],"decisions":["The parts are looked at one after the other."],
"files":["src/part_1.rs: in order"],"errors":[],"pending":["Look at the parts that are left."],
"next_step":"Look at the next part."}"#;

/// What the first request of a filled thread says.
const RULE: &str = "Never touch the billing table.";

/// What the first answer of a filled thread says; no fact and no record holds it.
pub const SAID: &str = "The code word is walnut-17.";

/// A reply of the summariser, as often as it is asked for.
pub fn record() -> Reply {
    Reply::text(RECORD).tokens(700, 70).when_body_contains(PROMPT).repeated()
}

/// A reply of the agent's model whose tokens nobody reports, so that they are estimated.
pub fn unreported(reply: Reply) -> Reply {
    reply.tokens(0, 0)
}

/// A server that summarises with a good record and otherwise says that it is done.
pub fn good_server() -> Server {
    Server::start(Script::new([record(), unreported(Reply::text("Done.")).repeated()])).unwrap()
}

/// A world whose models take `window` tokens, with a `[compaction]` section.
pub fn configure(world: &World, server: &Server, (window, section): (u64, &str)) {
    world.configure_with(server, &format!("[compaction]\n{section}\n"));
    let path = world.home().config();
    let text = std::fs::read_to_string(&path).unwrap();
    let key = "api_key = \"test\"\n";
    std::fs::write(path, text.replace(key, &format!("{key}context_tokens = {window}\n"))).unwrap();
}

/// Returns an agent in such a world.
pub fn agent_of(world: &World, server: &Server, settings: (u64, &str)) -> Agent {
    configure(world, server, settings);
    world.agent_over(world.store(), MODEL)
}

/// Appends messages as they are.
pub async fn append(agent: &Agent, thread_id: ThreadId, messages: &[Message]) {
    let now = Timestamp::now();
    let events = messages.iter().map(|message| NewEvent::message(message, now).unwrap()).collect();
    let writes = vec![Write::Append { thread_id, events }];
    agent.store().commit(Transaction { fence: None, writes }).await.unwrap();
}

/// The messages of `turns` turns, four each: a request, a call, its result of `chars` characters, an answer.
pub fn turns(numbers: std::ops::Range<usize>, chars: usize) -> Vec<Message> {
    let turn = |number: usize| {
        let call = Block::ToolCall {
            id: format!("call{number}"),
            name: "read_file".to_owned(),
            args: json!({"path": format!("src/part_{number}.rs")}),
        };
        let line = format!("let part = {number};\n");
        let result = Message::Tool(ToolMessage {
            id: None,
            call_id: format!("call{number}"),
            name: Some("read_file".to_owned()),
            content: vec![Block::text(line.repeat(chars / line.len() + 1))],
            status: ToolStatus::Success,
        });
        let request = match number {
            1 => format!("Request 1: look at part 1. {RULE}"),
            _ => format!("Request {number}: look at part {number}."),
        };
        let answer = match number {
            1 => format!("Part 1 is in order. {SAID}"),
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

/// Makes a thread of 8 turns with results of `chars` characters.
pub async fn filled(agent: &Agent, chars: usize) -> ThreadId {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    append(agent, thread, &turns(1..9, chars)).await;
    thread
}

/// Makes such a thread whose newest request had so many tokens, as the provider reported.
pub async fn reported(agent: &Agent, tokens: u64) -> ThreadId {
    let thread = filled(agent, 12_000).await;
    append(agent, thread, &[Message::human("So?")]).await;
    let answer = AiMessage {
        content: vec![Block::text("All parts are in order so far.")],
        usage: Some(Usage { input_tokens: tokens, output_tokens: 5, ..Usage::default() }),
        estimated_tokens: Some(agent.threads().context_report(thread).await.unwrap().tokens),
        model: Some(MODEL.to_owned()),
        ..AiMessage::default()
    };
    append(agent, thread, &[Message::Ai(answer)]).await;
    thread
}

/// Sends a message; fails unless the turn succeeds.
#[track_caller]
pub fn sent(agent: &Agent, thread: ThreadId, text: &str) -> impl Future<Output = runtime::RunEnd> {
    let caller = std::panic::Location::caller();
    async move {
        let (frames, cancel) = quiet();
        let end = agent.runs().send(thread, text, &frames, &cancel).await.unwrap();
        assert_eq!(end.status, RunStatus::Success, "{caller}: {end:?}");
        end
    }
}

/// Condenses the thread as a person asks for it.
pub async fn compacted(agent: &Agent, thread: ThreadId) -> agent::Result<Condensed> {
    let (frames, cancel) = quiet();
    agent.threads().compact(thread, &CompactionRequest::default(), &frames, &cancel).await
}

/// Condenses all but the newest messages of the thread.
pub async fn compacted_to(agent: &Agent, thread: ThreadId, messages: u64) -> Condensed {
    let (frames, cancel) = quiet();
    let request = CompactionRequest { focus: None, keep: Some(Keep::Messages(messages)) };
    agent.threads().compact(thread, &request, &frames, &cancel).await.unwrap()
}

/// Returns the markers that are in sight.
pub async fn markers(agent: &Agent, thread: ThreadId) -> Vec<(Seq, Compaction)> {
    let events = agent.threads().events(thread).await.unwrap();
    let markers = events.iter().filter(|event| event.kind() == Some(EventType::Compacted));
    markers.map(|event| (event.seq, serde_json::from_str(event.content.get()).unwrap())).collect()
}

/// Returns the events of a type.
pub async fn events_of(agent: &Agent, thread: ThreadId, kind: EventType) -> Vec<Value> {
    let events = agent.threads().events(thread).await.unwrap();
    events.iter().filter(|event| event.kind() == Some(kind)).map(Event::content_value).collect()
}

/// Splits the requests into those of the summariser and the others.
pub fn split(server: &Server) -> (Vec<Recorded>, Vec<Recorded>) {
    server.requests().into_iter().partition(|request| request.body.to_string().contains(PROMPT))
}

/// Returns the messages of the newest request that was no summariser's, as text.
pub fn newest(server: &Server) -> String {
    split(server).1.last().unwrap().body["messages"].to_string()
}

/// A tool whose results are as long as it is asked for.
pub struct Large;

#[async_trait]
impl Tool for Large {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "large".to_owned(),
            description: "Says a lot.".to_owned(),
            parameters: json!({"type": "object", "properties": {"chars": {"type": "integer"}}}),
        }
    }

    fn repeat(&self) -> Repeat {
        Repeat::Safe
    }

    async fn call(&self, args: &Value, _context: &ToolContext) -> ToolOutput {
        ToolOutput::success(large(usize::try_from(args["chars"].as_u64().unwrap()).unwrap()))
    }
}

/// Returns what the tool says when so many characters are wanted.
pub fn large(chars: usize) -> String {
    let lines = (0..).map(|number| format!("line {number} says that all is well\n"));
    let mut text: String = lines.take(chars / 24 + 1).collect();
    text.truncate(chars);
    text
}

/// A call of that tool.
pub fn calls_large(id: &str, chars: usize) -> Reply {
    unreported(Reply::call(id, "large", json!({"chars": chars})))
}

/// Returns the agent with that tool, whose calls are allowed.
pub fn with_large(world: &World, server: &Server, (window, section): (u64, &str)) -> Agent {
    let section =
        format!("{section}\n[permissions]\nallow = [\"large\", \"read_file\", \"compact_conversation\"]");
    agent_of(world, server, (window, &section)).with_tool(Arc::new(Large))
}
