//! How long the ledger, the selection and the offline summary take over a synthetic thread. Reading it from a store is not measured.

use divan::{Bencher, counter::ItemsCount};
use handoff::{Item, Ledger, Selector, What, extract};
use jiff::Timestamp;
use protocol::message::{AiMessage, Block, Message, ToolMessage, ToolStatus};
use serde_json::json;

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

#[divan::bench(args = [1_000, 10_000, 100_000])]
fn fold(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let mut ledger = Ledger::default();
        items.iter().for_each(|item| ledger.push(item));
        ledger.finish()
    });
}

#[divan::bench(args = [1_000, 10_000, 100_000])]
fn select(bencher: Bencher<'_, '_>, messages: u64) {
    let items = thread(messages);
    let mut ledger = Ledger::default();
    items.iter().for_each(|item| ledger.push(item));
    let facts = ledger.finish();
    bencher.counter(ItemsCount::new(messages)).bench_local(|| {
        let mut selector = Selector::new(4_000, None);
        items.iter().for_each(|item| selector.see(item));
        selector.finish(&facts, 4_000)
    });
}

#[divan::bench(args = [300, 1_000])]
fn tell(bencher: Bencher<'_, '_>, tokens_max: u64) {
    let mut ledger = Ledger::default();
    thread(10_000).iter().for_each(|item| ledger.push(item));
    let facts = ledger.finish();
    bencher.bench_local(|| extract(&facts, None, tokens_max));
}
