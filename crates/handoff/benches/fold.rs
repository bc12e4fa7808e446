//! Benchmarks of drafting over a synthetic thread, with the time and the memory of each part: facts, selection, offline
//! summary and grounding. Reading a thread from a store is not measured.

use std::sync::Arc;

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use facts::{FactCollector, GoalMatcher, TranscriptItem, TranscriptItemKind};
use handoff::{GroundingCheck, OfflineSummary, TranscriptSelector, build_offline_summary};
use jiff::Timestamp;
use protocol::message::{AiMessage, ContentBlock, Message, ToolMessage, ToolStatus};
use protocol::{AssistantId, Coverage, HandoffId, HandoffSummary, SCHEMA_VERSION, ThreadId};
use serde_json::json;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Returns a thread of debugging turns, each with a request, an answer, a call and a result of 2 kB.
fn thread(messages: u64) -> Vec<TranscriptItem> {
    (1..=messages)
        .map(|seq| TranscriptItem {
            seq,
            at: Timestamp::UNIX_EPOCH,
            kind: TranscriptItemKind::Message(message(seq)),
            is_subagent: false,
            is_injected: false,
            is_imported: false,
        })
        .collect()
}

/// Returns the message with that seq.
fn message(seq: u64) -> Message {
    let round = seq / 4;
    match seq % 8 {
        1 => Message::human(format!(
            "The worker in crates/sync/src/worker_{}.rs loses messages, see #{round}. Never change the wire format.",
            round % 50
        )),
        0 | 4 => Message::Tool(ToolMessage {
            id: None,
            call_id: format!("call-{}", seq - 1),
            name: Some("Bash".to_owned()),
            content: vec![ContentBlock::text(
                "running 12 tests, target/debug/deps, all fine here\n".repeat(40),
            )],
            status: if round.is_multiple_of(7) { ToolStatus::Error } else { ToolStatus::Success },
        }),
        3 | 7 => Message::Ai(AiMessage {
            content: vec![ContentBlock::ToolCall {
                id: format!("call-{seq}"),
                name: if seq % 8 == 3 { "Bash" } else { "Edit" }.to_owned(),
                args: json!({"command": "cargo test -p sync 2>&1 | tail -40", "file_path": format!("/app/src/file_{}.rs", round % 300)}),
            }],
            ..AiMessage::default()
        }),
        _ => Message::ai(format!(
            "I looked at send_batch and RetryPolicy. The acknowledgement comes before the flush, so a reconnect at step {round} \
             drops what was not written. I will move it behind the flush and add a test that cuts the connection."
        )),
    }
}

/// Scans a thread once for facts and selection, like a draft.
fn scanned(items: &[TranscriptItem], goal: Option<&Arc<GoalMatcher>>) -> (FactCollector, TranscriptSelector) {
    let mut collector = FactCollector::with_goal(goal.cloned());
    let mut selector = TranscriptSelector::new(48_000, goal.cloned());
    for item in items {
        collector.push(item);
        selector.visit(item);
    }
    (collector, selector)
}

fn goal() -> Arc<GoalMatcher> {
    Arc::new(GoalMatcher::new("make the retry of the worker in crates/sync/src/worker_7.rs configurable"))
}

/// A draft of a thread without a cached scan: the time of the whole draft, and its peak memory in addition to the
/// thread's.
#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn cold_draft(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let (collector, selector) = scanned(&items, None);
        let facts = collector.finish();
        (build_offline_summary(&facts, None, 300), selector.select(&facts, 4_000))
    });
}

/// A draft with a goal, without a cached scan.
#[divan::bench(args = [100, 10_000, 100_000])]
fn cold_draft_for_a_goal(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    let goal = goal();
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let (collector, selector) = scanned(&items, Some(&goal));
        let facts = collector.finish();
        (build_offline_summary(&facts, Some(&goal), 300), selector.select(&facts, 4_000))
    });
}

/// Another offline draft of a thread whose scan is cached except for the last messages.
#[divan::bench(args = [120, 5_000, 100_000])]
fn warm_extract(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages + 4);
    let (known, new) = items.split_at(messages as usize);
    let (collector, _) = scanned(known, None);
    bencher.with_inputs(|| collector.clone()).bench_local_values(|mut collector| {
        new.iter().for_each(|item| collector.push(item));
        let facts = collector.finish();
        (build_offline_summary(&facts, None, 300), facts.carried_facts())
    });
}

/// The selection for another draft by a model.
#[divan::bench(args = [(120, 4_000), (5_000, 4_000), (100_000, 4_000), (100_000, 48_000)])]
fn warm_selection(bencher: Bencher<'_, '_>, (messages, tokens_max): (u64, u64)) {
    let (collector, selector) = scanned(&thread(messages), None);
    let facts = collector.finish();
    bencher.bench_local(|| selector.select(&facts, tokens_max));
}

/// Grounding of a draft that needs only the selection and the facts in memory.
#[divan::bench]
fn ground(bencher: Bencher<'_, '_>) {
    let items = thread(5_000);
    let (collector, selector) = scanned(&items, None);
    let facts = collector.finish();
    let selection = selector.select(&facts, 4_000);
    let summary = summary(build_offline_summary(&facts, None, 300));
    bencher.bench_local(|| {
        let mut grounding = GroundingCheck::new(&summary, None);
        grounding.search_selection(&selection.requests);
        grounding.search_selection(&selection.events);
        grounding.search_facts(&facts);
        assert!(grounding.is_done());
        grounding.missing_names()
    });
}

/// Grounding of a draft with a name that the thread does not contain, which searches the whole thread.
#[divan::bench(args = [100, 10_000, 100_000])]
fn ground_an_invented_name(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    let mut summary = summary(build_offline_summary(&FactCollector::default().finish(), None, 300));
    summary.body[0].text.push_str(" See src/invented_name.rs.");
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let mut grounding = GroundingCheck::new(&summary, None);
        items.iter().for_each(|item| grounding.visit(item));
        grounding.missing_names()
    });
}

/// Grounding of another draft with the same name, which searches only the new messages.
#[divan::bench(args = [100, 10_000, 100_000])]
fn ground_an_invented_name_again(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages + 4);
    let (known, new) = items.split_at(messages as usize);
    let (collector, selector) = scanned(known, None);
    let facts = collector.finish();
    let selection = selector.select(&facts, 4_000);
    let mut summary = summary(build_offline_summary(&facts, None, 300));
    summary.body[0].text.push_str(" See src/invented_name.rs.");
    let mut grounding = GroundingCheck::new(&summary, None);
    known.iter().for_each(|item| grounding.visit(item));
    let missing = grounding.missing_patterns();
    bencher.bench_local(|| {
        let mut grounding = GroundingCheck::new(&summary, None);
        grounding.search_selection(&selection.requests);
        grounding.search_selection(&selection.events);
        grounding.search_facts(&facts);
        assert!(grounding.is_missing_only(&missing));
        new.iter().for_each(|item| grounding.visit(item));
        grounding.missing_names()
    });
}

fn summary(offline: OfflineSummary) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: offline.title,
        tldr: offline.tldr,
        body: offline.body,
        model: "extractive".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carried: offline.carried,
    }
}
