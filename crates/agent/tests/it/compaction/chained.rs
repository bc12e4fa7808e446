//! Ten compactions in a row over five thousand messages of real sessions, without a summariser that is any use: what was
//! planted and is a fact survives them all, and the history is the original.

use std::path::{Path, PathBuf};

use agent::{Agent, EXTRACTIVE};
use protocol::{AiMessage, Block, CarryOver, Compaction, Message, ThreadId, ToolMessage, ToolStatus};
use serde_json::json;
use test_model::{Reply, Script, Server};

use super::{agent_of, append, compacted_to, markers, sent, split};
use crate::world::{World, assert_paired, messages, quiet};

const MESSAGES: usize = 5_000;
const ROUNDS: usize = 10;
/// Messages that stay each time.
const KEPT: u64 = 20;

/// Returns the sessions there are; none where the data is absent.
fn sessions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open");
    let mut found = Vec::new();
    for kind in ["claude", "codex", "opencode", "copilot", "pi", "taubench"] {
        let Ok(files) = std::fs::read_dir(folder.join(kind)) else { return Vec::new() };
        found.extend(files.map(|file| file.unwrap().path()));
    }
    found.sort();
    found
}

/// Returns the messages of all sessions, one after the other, from the beginning again when there are too few.
async fn transcript(paths: &[PathBuf]) -> Vec<Message> {
    let world = World::new();
    let agent = world.agent();
    let (frames, cancel) = quiet();
    let report = agent.threads().import(paths, &frames, &cancel).await.unwrap();
    let mut all = Vec::new();
    for imported in &report.threads {
        all.extend(messages(&agent, imported.thread_id).await);
    }
    all.into_iter().cycle().take(MESSAGES).collect()
}

/// What is planted in a round: a rule, a file that is changed, a check that fails.
fn planted(round: usize) -> Vec<Message> {
    let call =
        |name: &str, args| Block::ToolCall { id: format!("{name}-{round}"), name: name.to_owned(), args };
    let result = |name: &str, text: &str, status| {
        Message::Tool(ToolMessage {
            id: None,
            call_id: format!("{name}-{round}"),
            name: Some(name.to_owned()),
            content: vec![Block::text(text)],
            status,
        })
    };
    let edit = call("edit_file", json!({"path": format!("planted/file_{round}.rs"), "old": "a", "new": "b"}));
    let check = call("execute", json!({"command": format!("cargo test -p planted_{round}")}));
    vec![
        Message::human(format!("Never drop the table ledger_{round}.")),
        Message::Ai(AiMessage { content: vec![edit], ..AiMessage::default() }),
        result("edit_file", "edited", ToolStatus::Success),
        Message::Ai(AiMessage { content: vec![check], ..AiMessage::default() }),
        result("execute", "test result: FAILED. 1 passed; 1 failed\nexit code: 101", ToolStatus::Error),
        Message::ai("It fails; that is for later."),
    ]
}

/// Returns the text by which each planted fact is known, with its name.
fn facts() -> impl Iterator<Item = (String, String)> {
    (0..ROUNDS).flat_map(|round| {
        [
            (format!("rule {round}"), format!("ledger_{round}.")),
            (format!("file {round}"), format!("planted/file_{round}.rs")),
            (format!("check {round}"), format!("planted_{round}")),
        ]
    })
}

/// Returns which of the facts a text holds.
fn held(text: &str) -> Vec<String> {
    facts().filter(|(_, told)| text.contains(told.as_str())).map(|(name, _)| name).collect()
}

fn told(carry_over: &CarryOver) -> String {
    serde_json::to_string(carry_over).unwrap()
}

/// Appends a tenth of the transcript at a time, with what is planted there, and condenses after each.
async fn chained(agent: &Agent, transcript: &[Message]) -> (ThreadId, Vec<Message>) {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let mut all = Vec::with_capacity(MESSAGES + 100);
    for (round, part) in transcript.chunks(MESSAGES / ROUNDS).enumerate() {
        let mut part = part.to_vec();
        part.splice(part.len() / 2..part.len() / 2, planted(round));
        append(agent, thread, &part).await;
        all.extend(part);
        compacted_to(agent, thread, KEPT).await;
    }
    (thread, all)
}

/// Returns the compaction of the same conversation in one go.
async fn single(agent: &Agent, all: &[Message]) -> Compaction {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for part in all.chunks(1_000) {
        append(agent, thread, part).await;
    }
    compacted_to(agent, thread, KEPT).await.compaction
}

#[tokio::test]
async fn e12_b1_ten_compactions_of_real_sessions_lose_no_fact_and_no_message() {
    let paths = sessions();
    if paths.is_empty() {
        println!("the sessions to try this on are not here");
        return;
    }
    let transcript = transcript(&paths).await;
    let garbage = Reply::text("lorem ipsum dolor sit amet").repeated();
    let server = Server::start(Script::new([garbage]).keeping(2)).unwrap();
    let world = World::new();
    let agent = agent_of(&world, &server, (1_000_000, ""));
    let (thread, all) = chained(&agent, &transcript).await;
    let markers = markers(&agent, thread).await;
    assert_eq!(markers.len(), ROUNDS);
    assert!(markers.iter().all(|(_, marker)| marker.model == EXTRACTIVE), "garbage is no summary");
    let last = &markers[ROUNDS - 1].1;
    // Where there is no model the extract is made at once.
    let once = single(&World::new().agent(), &all).await;
    for (what, chained, once) in [
        ("carry-over", told(&last.carry_over), told(&once.carry_over)),
        ("summary", last.summary.clone(), once.summary),
    ] {
        let (chained, once) = (held(&chained), held(&once));
        println!("{what}: chained {chained:?}, at once {once:?}");
        assert!(
            once.iter().all(|fact| chained.contains(fact)),
            "{what}: at once {once:?}, chained {chained:?}"
        );
    }
    let files =
        (0..ROUNDS).filter(|round| told(&last.carry_over).contains(&format!("planted/file_{round}.rs")));
    assert_eq!(files.count(), ROUNDS, "what was planted in the first round outlasts the tenth");
    assert_eq!(messages(&agent, thread).await, all, "b1: the history is the original");
    let replaced: u64 = markers.iter().map(|(_, marker)| marker.replaced_count).sum();
    assert_eq!(replaced + last.kept_count, all.len() as u64, "c3: every message is counted once");
    sent(&agent, thread, "Go on.").await;
    assert_paired(&split(&server).1.last().unwrap().body);
}
