//! Measures the time and the memory of a transfer without a model, for a window of many messages. It does not check the
//! summary; the tests do that.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use journal::{SqliteStore, Store, Transaction, Write};
use memory::{MemorySettings, SummarizationHandoff, TurnWindow};
use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};

/// Default number of messages; an argument overrides it.
const TURNS: u64 = 10_000;
/// Number of events of one transaction.
const EVENTS: u64 = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let turns = std::env::args().nth(1).map_or(Ok(TURNS), |turns| turns.parse())?;
    let folder = tempfile::tempdir()?;
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&folder.path().join("segue.db"))?);
    append_turns(&*store, turns).await?;
    let tiers =
        SummarizationHandoff { store, summarizer: None, settings: MemorySettings::default(), agent_md: None };
    let before = peak_kib();
    let begun = Instant::now();
    let summary = tiers.transfer(&AssistantId::default(), &TurnWindow::from_indexes([1, turns])).await?;
    let took = begun.elapsed();
    let again = Instant::now();
    let repeated = tiers.transfer(&AssistantId::default(), &TurnWindow::from_indexes([1, turns])).await?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{turns} turns in {took:.1?}, again in {:.1?} ({repeated:?})", again.elapsed())?;
    if let (Some(before), Some(after)) = (before, peak_kib()) {
        writeln!(out, "peak memory {before} KiB before, {after} KiB after")?;
    }
    writeln!(out, "{}", summary.map(|summary| summary.summary_text).unwrap_or_default())?;
    Ok(())
}

/// Fills a thread with messages of about 700 characters.
async fn append_turns(store: &dyn Store, turns: u64) -> Result<(), Box<dyn std::error::Error>> {
    let (thread_id, begun) = (ThreadId::generate(), Timestamp::UNIX_EPOCH);
    let thread = Thread::blank(thread_id, AssistantId::default(), begun);
    store.commit(Transaction { fence: None, writes: vec![Write::CreateThread(thread)] }).await?;
    for batch in 0..turns.div_ceil(EVENTS) {
        let mut events = Vec::new();
        for number in batch * EVENTS..((batch + 1) * EVENTS).min(turns) {
            let said = format!(
                "In step {number} we looked at src/part_{}.rs with Priya and decided to keep its rows as they are. ",
                number % 97
            );
            let text = said.repeat(7);
            let message = if number.is_multiple_of(2) { Message::human(text) } else { Message::ai(text) };
            let at = begun + SignedDuration::from_mins(i64::try_from(number)?);
            events.push(NewEvent::from_message(&message, at)?);
        }
        store.commit(Transaction { fence: None, writes: vec![Write::Append { thread_id, events }] }).await?;
    }
    Ok(())
}

/// Returns the peak memory of the process, on systems that report it.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
