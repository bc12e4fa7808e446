//! Benchmarks of medium-term memory for an assistant with 100,000 messages in two threads: summarizing windows of growing
//! length (one commit, with one statement for all turns), restoring them, a page of turns, and the newest summaries. Also
//! a page of items out of many.

use std::path::Path;

use divan::Bencher;
use jiff::Timestamp;
use journal::{
    ItemQuery, SqliteStore, Store, SummaryQuery, ThreadVersion, Transaction, TurnQuery, TurnSummarization,
    Write,
};
use protocol::{AssistantId, MediumTermSummary, Message, NewEvent, StoredItem, SummaryId, Thread, ThreadId};
use serde_json::{Map, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Turns of the assistant, alternating between two threads.
const TURNS: u64 = 100_000;

/// Earlier turns that are already summarized, ten in each summary.
const OLD_TURNS: u64 = 20_000;

/// Number of stored items.
const ITEMS: usize = 10_000;

fn main() {
    divan::main();
}

/// A journal with active turns, summarized turns and stored items.
struct MemoryBench {
    runtime: Runtime,
    store: SqliteStore,
    /// The two threads between which the turns alternate.
    threads: [ThreadId; 2],
    /// Keeps the folder of the database until the fixture is dropped.
    _folder: TempDir,
}

/// Creates the journal with [`TURNS`] turns, the first [`OLD_TURNS`] of them summarized.
fn fixture() -> MemoryBench {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a writable folder");
    let store = SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let threads =
        [(); 2].map(|()| Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH));
    let ids = threads.each_ref().map(|thread| thread.thread_id);
    let fixture = MemoryBench { runtime, store, threads: ids, _folder: folder };
    fixture.commit(threads.map(Write::CreateThread).into());
    for first in (0..TURNS).step_by(2_000) {
        fixture.commit((first..first + 2_000).map(|turn| fixture.append_message(turn)).collect());
    }
    for first in (1..OLD_TURNS).step_by(1_000) {
        let windows =
            (first..first + 1_000).step_by(10).map(|first| fixture.summarization((first, first + 9), None));
        fixture.commit(windows.map(Write::SummarizeTurns).collect());
    }
    fixture
}

impl MemoryBench {
    /// Commits the writes in one transaction without a lease.
    fn commit(&self, writes: Vec<Write>) {
        let transaction = Transaction { fence: None, writes };
        self.runtime.block_on(self.store.commit(transaction)).expect("the disk has room");
    }

    /// Returns the write that appends the message of a turn.
    fn append_message(&self, turn: u64) -> Write {
        let text = format!("Turn {turn}: {}", "some words that people say ".repeat(12));
        let event = NewEvent::from_message(&Message::human(text), Timestamp::UNIX_EPOCH).expect("JSON");
        Write::Append { thread_id: self.threads[turn as usize % 2], events: vec![event] }
    }

    /// Returns a summarization of the turns `first..=last`: of one thread, or of both if `thread` is `None`.
    fn summarization(&self, (first, last): (u64, u64), thread: Option<usize>) -> TurnSummarization {
        let summary = MediumTermSummary {
            id: SummaryId::generate(),
            agent_id: AssistantId::default(),
            summary_text: "A sentence of the summary. ".repeat(60),
            turn_range_start: first,
            turn_range_end: last,
            created_at: Timestamp::now(),
        };
        let turns = last + 1 - first;
        let threads = thread.map_or(self.threads.to_vec(), |thread| vec![self.threads[thread]]);
        let planned = |thread_id| ThreadVersion { thread_id, last_seq: TURNS };
        let threads = threads.into_iter().map(planned).collect();
        let turns = if thread.is_some() { turns.div_ceil(2) } else { turns };
        TurnSummarization {
            summary,
            thread_id: thread.map(|thread| self.threads[thread]),
            turns,
            thread_versions: threads,
        }
    }

    /// Restores the turns of a summarization, so that it can be measured again.
    fn restore_turns(&self, transfer: &TurnSummarization) {
        self.commit(vec![Write::RestoreTurns { summary_ids: vec![transfer.summary.id], scope: None }]);
    }
}

/// Benchmarks summarizing a window of turns of all threads.
#[divan::bench(args = [100, 1_000, 10_000, 50_000], sample_count = 20, sample_size = 1)]
fn summarize_window(bencher: Bencher<'_, '_>, turns: u64) {
    measure_summarization(bencher, (OLD_TURNS + 1, OLD_TURNS + turns), None);
}

/// Benchmarks summarizing turns of one thread that alternate with turns of the other thread.
#[divan::bench(args = [1_000, 10_000], sample_count = 20, sample_size = 1)]
fn summarize_thread(bencher: Bencher<'_, '_>, turns: u64) {
    measure_summarization(bencher, (OLD_TURNS + 1, OLD_TURNS + 2 * turns - 1), Some(0));
}

/// Measures the commit of a summarization and restores its turns after each sample.
fn measure_summarization(bencher: Bencher<'_, '_>, window: (u64, u64), thread: Option<usize>) {
    let fixture = fixture();
    let last = std::cell::RefCell::new(None::<TurnSummarization>);
    bencher
        .with_inputs(|| {
            if let Some(last) = last.take() {
                fixture.restore_turns(&last);
            }
            fixture.summarization(window, thread)
        })
        .bench_local_values(|transfer| {
            fixture.commit(vec![Write::SummarizeTurns(transfer.clone())]);
            last.replace(Some(transfer));
        });
}

#[divan::bench(args = [1_000, 10_000], sample_count = 20, sample_size = 1)]
fn restore_window(bencher: Bencher<'_, '_>, turns: u64) {
    let fixture = fixture();
    bencher
        .with_inputs(|| {
            let transfer = fixture.summarization((OLD_TURNS + 1, OLD_TURNS + turns), None);
            fixture.commit(vec![Write::SummarizeTurns(transfer.clone())]);
            transfer
        })
        .bench_local_values(|transfer| fixture.restore_turns(&transfer));
}

/// Benchmarks reading 500 turns in the middle: of the assistant, or of one thread after an event.
#[divan::bench(args = ["of the assistant", "of a thread"], sample_count = 50)]
fn page_of_turns(bencher: Bencher<'_, '_>, scope: &str) {
    let fixture = fixture();
    let thread_id = (scope == "of a thread").then_some(fixture.threads[0]);
    let all = TurnQuery { limit: 500, archived: Some(false), ..TurnQuery::for_agent(AssistantId::default()) };
    let query = match thread_id {
        Some(_) => TurnQuery { thread_id, after_seq: Some(TURNS / 4), ..all },
        None => TurnQuery { first: TURNS / 2, ..all },
    };
    bencher.bench_local(|| {
        let page =
            fixture.runtime.block_on(fixture.store.turns(query.clone())).expect("the database is readable");
        assert_eq!(page.len(), 500);
        page
    });
}

/// Benchmarks the newest 20 of 2,000 summaries, with or without excluding a thread. Each summary covers both threads.
#[divan::bench(args = ["all", "except those of a thread"], sample_count = 50)]
fn newest_summaries(bencher: Bencher<'_, '_>, which: &str) {
    let fixture = fixture();
    let except_thread = (which != "all").then_some(fixture.threads[0]);
    let query = SummaryQuery {
        agent_id: AssistantId::default(),
        project: journal::ProjectScope::Any,
        except_thread,
        offset: 0,
        limit: 20,
    };
    bencher.bench_local(|| {
        fixture.runtime.block_on(fixture.store.summaries(query.clone())).expect("the database is readable")
    });
}

/// Benchmarks a page of 10 of 10,000 items in 100 namespaces.
#[divan::bench(args = ["newest", "of a namespace", "by words"], sample_count = 50)]
fn page_of_items(bencher: Bencher<'_, '_>, which: &str) {
    let fixture = fixture();
    let item = |number: usize| StoredItem {
        namespace: vec!["users".to_owned(), format!("{}", number % 100)],
        key: format!("item-{number}"),
        value: Map::from_iter([(
            "text".to_owned(),
            json!(format!("Note {number} of some words that people keep")),
        )]),
        created_at: Timestamp::now(),
        updated_at: Timestamp::now(),
    };
    for first in (0..ITEMS).step_by(1_000) {
        fixture.commit((first..first + 1_000).map(|number| Write::PutItem(item(number))).collect());
    }
    let mut query = ItemQuery { limit: 10, ..ItemQuery::default() };
    match which {
        "of a namespace" => query.prefix = vec!["users".to_owned(), "7".to_owned()],
        "by words" => query.words = vec!["note".to_owned(), "4242".to_owned()],
        _ => {}
    }
    bencher.bench_local(|| {
        let page =
            fixture.runtime.block_on(fixture.store.items(query.clone())).expect("the database is readable");
        assert_eq!(page.len(), 10);
        page
    });
}
