//! Tests that ten consecutive compactions of five thousand messages from real sessions lose no planted fact and change no
//! message, although the summarizer returns garbage and every summary is an offline summary.

use std::path::{Path, PathBuf};

use agent::{Agent, OFFLINE_SUMMARY_MODEL};
use protocol::{
    AiMessage, CarriedFacts, Compaction, ContentBlock, Message, ThreadId, ToolMessage, ToolStatus,
};
use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{agent_of, append, compact_keeping, send_message, split_requests, visible_markers};
use crate::environment::{TestEnvironment, assert_paired, messages, unwatched};

/// The length of the transcript without planted messages.
const MESSAGES: usize = 5_000;
/// The number of compactions.
const ROUNDS: usize = 10;
/// The maximum number of messages that each compaction keeps verbatim.
const KEPT_MESSAGES: u64 = 20;

/// Returns the session files of the shared test data, sorted. Returns no files where the data is absent.
fn session_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/open");
    let mut paths = Vec::new();
    for kind in ["claude", "codex", "opencode", "copilot", "pi", "taubench"] {
        let Ok(files) = std::fs::read_dir(folder.join(kind)) else { return Vec::new() };
        paths.extend(files.map(|file| file.unwrap().path()));
    }
    paths.sort();
    paths
}

/// Returns [`MESSAGES`] messages: those of all sessions in order, repeated from the beginning if there are too few.
async fn session_messages(paths: &[PathBuf]) -> Vec<Message> {
    let environment = TestEnvironment::new();
    let agent = environment.agent();
    let (frames, cancel) = unwatched();
    let report = agent.threads().import(paths, &frames, &cancel).await.unwrap();
    let mut all = Vec::new();
    for imported in &report.threads {
        all.extend(messages(&agent, imported.thread_id).await);
    }
    all.into_iter().cycle().take(MESSAGES).collect()
}

/// Returns the messages that are planted in a round: a rule, a changed file and a failing check.
fn planted_messages(round: usize) -> Vec<Message> {
    let call = |name: &str, args| ContentBlock::ToolCall {
        id: format!("{name}-{round}"),
        name: name.to_owned(),
        args,
    };
    let result = |name: &str, text: &str, status| {
        Message::Tool(ToolMessage {
            id: None,
            call_id: format!("{name}-{round}"),
            name: Some(name.to_owned()),
            content: vec![ContentBlock::text(text)],
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

/// Returns the name of each planted fact, and the text that identifies it.
fn planted_facts() -> impl Iterator<Item = (String, String)> {
    (0..ROUNDS).flat_map(|round| {
        [
            (format!("rule {round}"), format!("ledger_{round}.")),
            (format!("file {round}"), format!("planted/file_{round}.rs")),
            (format!("check {round}"), format!("planted_{round}")),
        ]
    })
}

/// Returns the names of the planted facts that a text contains.
fn facts_in(text: &str) -> Vec<String> {
    planted_facts().filter(|(_, fact)| text.contains(fact.as_str())).map(|(name, _)| name).collect()
}

/// Returns the carry-over as JSON text.
fn carried_facts_text(carried: &CarriedFacts) -> String {
    serde_json::to_string(carried).unwrap()
}

/// Appends the transcript in [`ROUNDS`] parts, each with planted messages, and compacts the thread after each part. Returns
/// the thread and all appended messages.
async fn compact_in_rounds(agent: &Agent, transcript: &[Message]) -> (ThreadId, Vec<Message>) {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    let mut all = Vec::with_capacity(MESSAGES + 100);
    for (round, part) in transcript.chunks(MESSAGES / ROUNDS).enumerate() {
        let mut part = part.to_vec();
        part.splice(part.len() / 2..part.len() / 2, planted_messages(round));
        append(agent, thread, &part).await;
        all.extend(part);
        compact_keeping(agent, thread, KEPT_MESSAGES).await;
    }
    (thread, all)
}

/// Appends all messages to a new thread and returns its only compaction.
async fn compact_at_once(agent: &Agent, all: &[Message]) -> Compaction {
    let thread = agent.threads().create(None).await.unwrap().thread_id;
    for part in all.chunks(1_000) {
        append(agent, thread, part).await;
    }
    compact_keeping(agent, thread, KEPT_MESSAGES).await.compaction
}

#[tokio::test]
async fn e12_b1_ten_compactions_of_real_sessions_lose_no_fact_and_no_message() {
    let paths = session_files();
    if paths.is_empty() {
        println!("skipped: the shared session data is absent");
        return;
    }
    let transcript = session_messages(&paths).await;
    let garbage = ScriptedReply::text("lorem ipsum dolor sit amet").with_repeat();
    let server = ScriptedServer::start(Script::new([garbage]).with_requests_kept(2)).unwrap();
    let environment = TestEnvironment::new();
    let agent = agent_of(&environment, &server, (1_000_000, ""));
    let (thread, all) = compact_in_rounds(&agent, &transcript).await;
    let markers = visible_markers(&agent, thread).await;
    assert_eq!(markers.len(), ROUNDS);
    assert!(markers.iter().all(|(_, marker)| marker.model == OFFLINE_SUMMARY_MODEL), "garbage is no summary");
    let last = &markers[ROUNDS - 1].1;
    // The agent has no model, so this compaction is an offline summary too.
    let once = compact_at_once(&TestEnvironment::new().agent(), &all).await;
    for (part, chained, once) in [
        ("carry-over", carried_facts_text(&last.carried), carried_facts_text(&once.carried)),
        ("summary", last.summary.clone(), once.summary),
    ] {
        let (chained, once) = (facts_in(&chained), facts_in(&once));
        println!("{part}: chained {chained:?}, at once {once:?}");
        assert!(
            once.iter().all(|fact| chained.contains(fact)),
            "{part}: at once {once:?}, chained {chained:?}"
        );
    }
    let files = (0..ROUNDS)
        .filter(|round| carried_facts_text(&last.carried).contains(&format!("planted/file_{round}.rs")));
    assert_eq!(
        files.count(),
        ROUNDS,
        "the carry-over of the tenth compaction names the planted files of all rounds"
    );
    assert_eq!(messages(&agent, thread).await, all, "b1: the history equals the appended messages");
    let replaced: u64 = markers.iter().map(|(_, marker)| marker.replaced_count).sum();
    assert_eq!(replaced + last.kept_count, all.len() as u64, "c3: every message is counted once");
    send_message(&agent, thread, "Go on.").await;
    assert_paired(&split_requests(&server).1.last().unwrap().body);
}
