//! How long drafts take over a synthetic thread, and how much memory: the ledger, the selection, the offline summary and
//! its check. Reading a thread from a store is not measured.

use std::sync::Arc;

use divan::{AllocProfiler, Bencher, counter::ItemsCount};
use facts::{Goal, Item, Ledger, What};
use handoff::{Extract, Grounding, Selector, extract};
use jiff::Timestamp;
use protocol::message::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use protocol::{AssistantId, Coverage, HandoffId, HandoffSummary, SCHEMA_VERSION, ThreadId};
use serde_json::json;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// Returns a thread of debugging turns: a request, an answer, a call, a result of 2 kB.
fn thread(messages: u64) -> Vec<Item> {
    (1..=messages)
        .map(|seq| Item {
            seq,
            at: Timestamp::UNIX_EPOCH,
            what: What::Message(message(seq)),
            side: false,
            injected: false,
            imported: false,
        })
        .collect()
}

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
            content: vec![Block::text("running 12 tests, target/debug/deps, all fine here\n".repeat(40))],
            status: if round.is_multiple_of(7) { ToolStatus::Error } else { ToolStatus::Success },
        }),
        3 | 7 => Message::Ai(AiMessage {
            content: vec![Block::ToolCall {
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

/// Folds a thread the way a draft does: once, for facts and selection.
fn folded(items: &[Item], goal: Option<&Arc<Goal>>) -> (Ledger, Selector) {
    let mut ledger = Ledger::for_goal(goal.cloned());
    let mut selector = Selector::new(48_000, goal.cloned());
    for item in items {
        ledger.push(item);
        selector.see(item);
    }
    (ledger, selector)
}

fn goal() -> Arc<Goal> {
    Arc::new(Goal::of("make the retry of the worker in crates/sync/src/worker_7.rs configurable"))
}

/// A draft of a thread that nothing is known of: the time of all of it, and its peak memory beside the thread's own.
#[divan::bench(args = [100, 1_000, 10_000, 100_000])]
fn cold_draft(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let (ledger, selector) = folded(&items, None);
        let facts = ledger.finish();
        (extract(&facts, None, 300), selector.finish(&facts, 4_000))
    });
}

/// The same for a goal.
#[divan::bench(args = [100, 10_000, 100_000])]
fn cold_draft_for_a_goal(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    let goal = goal();
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let (ledger, selector) = folded(&items, Some(&goal));
        let facts = ledger.finish();
        (extract(&facts, Some(&goal), 300), selector.finish(&facts, 4_000))
    });
}

/// Another draft with the offline extract, of a thread that is known but for its last messages.
#[divan::bench(args = [120, 5_000, 100_000])]
fn warm_extract(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages + 4);
    let (known, new) = items.split_at(messages as usize);
    let (ledger, _) = folded(known, None);
    bencher.with_inputs(|| ledger.clone()).bench_local_values(|mut ledger| {
        new.iter().for_each(|item| ledger.push(item));
        let facts = ledger.finish();
        (extract(&facts, None, 300), facts.carry_over())
    });
}

/// What a model is shown in another draft.
#[divan::bench(args = [(120, 4_000), (5_000, 4_000), (100_000, 4_000), (100_000, 48_000)])]
fn warm_selection(bencher: Bencher<'_, '_>, (messages, tokens_max): (u64, u64)) {
    let (ledger, selector) = folded(&thread(messages), None);
    let facts = ledger.finish();
    bencher.bench_local(|| selector.finish(&facts, tokens_max));
}

/// Checking a draft against what its model was shown.
#[divan::bench]
fn ground(bencher: Bencher<'_, '_>) {
    let items = thread(5_000);
    let (ledger, selector) = folded(&items, None);
    let facts = ledger.finish();
    let shown = selector.finish(&facts, 4_000);
    let summary = summary(extract(&facts, None, 300));
    bencher.bench_local(|| {
        let mut grounding = Grounding::new(&summary, None);
        grounding.see_shown(&shown.requests);
        grounding.see_shown(&shown.events);
        grounding.see_facts(&facts);
        assert!(grounding.is_done());
        grounding.missing()
    });
}

/// Checking a draft that names something the thread does not have: all of it is read.
#[divan::bench(args = [100, 10_000, 100_000])]
fn ground_an_invented_name(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    let mut summary = summary(extract(&Ledger::default().finish(), None, 300));
    summary.body[0].text.push_str(" See src/invented_name.rs.");
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let mut grounding = Grounding::new(&summary, None);
        items.iter().for_each(|item| grounding.see(item));
        grounding.missing()
    });
}

/// Checking another draft that names the same: only what was said since is read.
#[divan::bench(args = [100, 10_000, 100_000])]
fn ground_an_invented_name_again(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages + 4);
    let (known, new) = items.split_at(messages as usize);
    let (ledger, selector) = folded(known, None);
    let facts = ledger.finish();
    let shown = selector.finish(&facts, 4_000);
    let mut summary = summary(extract(&facts, None, 300));
    summary.body[0].text.push_str(" See src/invented_name.rs.");
    let mut grounding = Grounding::new(&summary, None);
    known.iter().for_each(|item| grounding.see(item));
    let absent = grounding.absent();
    bencher.bench_local(|| {
        let mut grounding = Grounding::new(&summary, None);
        grounding.see_shown(&shown.requests);
        grounding.see_shown(&shown.events);
        grounding.see_facts(&facts);
        assert!(grounding.wants_only(&absent));
        new.iter().for_each(|item| grounding.see(item));
        grounding.missing()
    });
}

fn summary(told: Extract) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: told.title,
        tldr: told.tldr,
        body: told.body,
        model: "extractive".to_owned(),
        model_run_id: None,
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carry_over: told.carry_over,
    }
}
