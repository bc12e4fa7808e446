//! Benchmarks a recall from a long conversation. Files are on the disk that holds the target folder.

use std::path::Path;
use std::sync::Arc;

use divan::Bencher;
use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use memory::{MessageFilter, RecallQuery, RecallResult, recall};
use protocol::{
    AssistantId, CarriedFacts, Coverage, EventType, Handoff, HandoffId, HandoffStatus, HandoffSummary,
    Message, NewEvent, ParentKind, Proposal, Thread, ThreadId,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Number of different words. Each is twice as rare as the word of half its number.
const VOCABULARY: u64 = 20_000;

fn main() {
    divan::main();
}

struct RecallBenchFixture {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    child: ThreadId,
    _folder: TempDir,
}

impl RecallBenchFixture {
    /// Creates a child of a thread with this number of messages of 10 to 150 words, and indexes them.
    fn new(messages: u64) -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = tempfile::tempdir_in(target).expect("the target folder is writable");
        let store = Arc::new(SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let [parent, child] = [ThreadId::generate(), ThreadId::generate()];
        let blank = |id| Thread::blank(id, AssistantId::default(), Timestamp::UNIX_EPOCH);
        let fixture = Self { runtime, store, child, _folder: folder };
        fixture.commit(vec![
            Write::CreateThread(blank(parent)),
            Write::CreateThread(Thread {
                parent_id: Some(parent),
                parent_kind: Some(ParentKind::Handoff),
                ..blank(child)
            }),
        ]);
        let mut random = RecallBenchRandom(1);
        for batch in 0..messages.div_ceil(1_000) {
            let count = (messages - batch * 1_000).min(1_000);
            let events = (0..count).map(|_| random.message()).collect();
            fixture.commit(vec![Write::Append { thread_id: parent, events }]);
        }
        fixture.commit(accepted_handoff_writes(parent, child, messages));
        fixture.runtime.block_on(fixture.store.update_search_index()).expect("the disk has room");
        fixture
    }

    fn commit(&self, writes: Vec<Write>) {
        let transaction = Transaction { fence: None, writes };
        self.runtime.block_on(self.store.commit(transaction)).expect("the disk has room");
    }

    fn recall(&self, text: &str) -> RecallResult {
        let query = RecallQuery::new(MessageFilter::Words(text.to_owned()));
        self.runtime.block_on(recall(&*self.store, self.child, &query)).expect("words")
    }
}

/// Returns the writes that record the handoff of a parent with this number of messages.
fn accepted_handoff_writes(
    parent_thread_id: ThreadId,
    child_thread_id: ThreadId,
    messages: u64,
) -> Vec<Write> {
    let (handoff_id, created_at) = (HandoffId::generate(), Timestamp::UNIX_EPOCH);
    let content = json!({"handoff_id": handoff_id});
    let event = NewEvent::new(EventType::HandoffAccepted, &content, created_at).expect("it is JSON");
    let handoff = Handoff {
        handoff_id,
        assistant_id: AssistantId::default(),
        parent_thread_id,
        child_thread_id,
        status: HandoffStatus::Cleaned,
        iteration: 0,
        goal: None,
        run_id: None,
        options: Value::Null,
        accepted_sha256: Some("0".repeat(64)),
        note: None,
        created_at,
        updated_at: created_at,
    };
    let summary_json = HandoffSummary {
        schema_version: 1,
        handoff_id,
        assistant_id: AssistantId::default(),
        parent_thread_id,
        child_thread_id: None,
        title: String::new(),
        tldr: String::new(),
        body: Vec::new(),
        model: "extractive".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at,
        coverage: Coverage { first_seq: 1, last_seq: messages, ..Coverage::default() },
        carried: CarriedFacts::default(),
    };
    let proposal = Proposal {
        handoff_id,
        iteration: 0,
        summary_json,
        package_md: String::new(),
        summary_sha256: "0".repeat(64),
        feedback: None,
        created_at,
    };
    vec![
        Write::CreateHandoff(handoff),
        Write::PutProposal(proposal),
        Write::Append { thread_id: parent_thread_id, events: vec![event] },
    ]
}

/// A deterministic generator of pseudo-random numbers.
struct RecallBenchRandom(u64);

impl RecallBenchRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a word. Word `n` is about `n` times as rare as the first.
    fn word(&mut self) -> String {
        let exponent = self.next() as f64 / (1_u64 << 31) as f64;
        format!("w{}", (VOCABULARY as f64).powf(exponent) as u64)
    }

    fn message(&mut self) -> NewEvent {
        let count = [10, 60, 150][self.next() as usize % 3];
        let text = (0..count).map(|_| self.word()).collect::<Vec<_>>().join(" ");
        NewEvent::from_message(&Message::ai(text), Timestamp::UNIX_EPOCH).expect("text is JSON")
    }
}

/// A question of names: each word is in a few hundred messages of a hundred thousand.
#[divan::bench(args = [10_000, 100_000])]
fn rare_words(bencher: Bencher<'_, '_>, messages: u64) {
    let fixture = RecallBenchFixture::new(messages);
    bencher.bench(|| fixture.recall("what is the w3000 of w5000 in w9000?"));
}

/// A natural question: a name, and words that up to a tenth of all messages contain.
#[divan::bench(args = [10_000, 100_000])]
fn usual_words(bencher: Bencher<'_, '_>, messages: u64) {
    let fixture = RecallBenchFixture::new(messages);
    bencher.bench(|| fixture.recall("what is the w100 of w400 in w9000?"));
}

/// The worst case: words that most messages contain.
#[divan::bench(args = [10_000, 100_000])]
fn words_of_most_messages(bencher: Bencher<'_, '_>, messages: u64) {
    let fixture = RecallBenchFixture::new(messages);
    bencher.bench(|| fixture.recall("w2 w4 w8 w16"));
}

#[divan::bench(args = [10_000, 100_000])]
fn a_range_in_the_middle(bencher: Bencher<'_, '_>, messages: u64) {
    let fixture = RecallBenchFixture::new(messages);
    let query = RecallQuery::new(MessageFilter::Range(messages / 2, messages));
    bencher.bench(|| fixture.runtime.block_on(recall(&*fixture.store, fixture.child, &query)));
}

/// The first search after a conversation was imported: it indexes the whole conversation.
#[divan::bench(args = [10_000], sample_count = 3)]
fn indexing_included(bencher: Bencher<'_, '_>, messages: u64) {
    bencher.bench(|| RecallBenchFixture::new(messages));
}
