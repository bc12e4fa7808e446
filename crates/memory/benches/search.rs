//! Benchmarks a search over everything in a journal of a million messages, and the size of the index. Files
//! are on the disk that holds the target folder; the journal is filled once, which takes a few minutes.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use divan::Bencher;
use jiff::{Timestamp, ToSpan};
use journal::{HealthCheckDepth, SqliteStore, Store, Transaction, Write};
use memory::{SearchRequest, SearchResults, search};
use protocol::{AssistantId, Message, NewEvent, Thread, ThreadId};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Number of messages, and number of messages of each thread.
const MESSAGES: u64 = 1_000_000;
const MESSAGES_PER_THREAD: u64 = 500;
/// Number of different words. Word `n` is about `n` times as rare as the first.
const VOCABULARY: u64 = 200_000;
/// Number of different questions, used in rotation.
const QUESTIONS: usize = 97;

static FIXTURE: LazyLock<SearchBenchFixture> = LazyLock::new(SearchBenchFixture::new);

fn main() {
    divan::main();
}

struct SearchBenchFixture {
    runtime: Runtime,
    store: Arc<SqliteStore>,
    threads: Vec<ThreadId>,
    _folder: TempDir,
}

impl SearchBenchFixture {
    fn new() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = tempfile::tempdir_in(target).expect("the target folder is writable");
        let store = Arc::new(SqliteStore::open(&folder.path().join("segue.db")).expect("an empty folder"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let mut fixture = Self { runtime, store, threads: Vec::new(), _folder: folder };
        let mut random = SearchBenchRandom(1);
        for number in 0..MESSAGES / MESSAGES_PER_THREAD {
            fixture.add_thread(number, &mut random);
        }
        let before = fixture.bytes();
        let begun = Instant::now();
        fixture.runtime.block_on(fixture.store.update_search_index()).expect("the disk has room");
        let (took, growth) = (begun.elapsed(), fixture.bytes() - before);
        println!(
            "{MESSAGES} messages, {} bytes each; the index adds {} bytes each and took {took:.1?}",
            before / MESSAGES,
            growth / MESSAGES
        );
        fixture
    }

    /// Adds a thread of messages with 4 to 90 words, one minute apart.
    fn add_thread(&mut self, number: u64, random: &mut SearchBenchRandom) {
        let thread_id = ThreadId::generate();
        let hours = i64::try_from(number).expect("it is small");
        let begun = Timestamp::UNIX_EPOCH + (hours * 10).hours();
        let message = |minute: u64| {
            let count = [4, 12, 25, 90][random.next() as usize % 4];
            let text = (0..count).map(|_| random.word(0)).collect::<Vec<_>>().join(" ");
            let message = if minute.is_multiple_of(2) { Message::human(text) } else { Message::ai(text) };
            let at = begun + i64::try_from(minute).expect("it is small").minutes();
            NewEvent::from_message(&message, at).expect("text is JSON")
        };
        let events = (0..MESSAGES_PER_THREAD).map(message).collect();
        let thread = Thread::blank(thread_id, AssistantId::default(), begun);
        let writes = vec![Write::CreateThread(thread), Write::Append { thread_id, events }];
        let transaction = Transaction { fence: None, writes };
        self.runtime.block_on(self.store.commit(transaction)).expect("the disk has room");
        self.threads.push(thread_id);
    }

    fn bytes(&self) -> u64 {
        self.runtime.block_on(self.store.health(HealthCheckDepth::Counts)).expect("it is sound").bytes
    }

    fn search(&self, request: &SearchRequest) -> SearchResults {
        self.runtime.block_on(search(&*self.store, request)).expect("words")
    }
}

/// A deterministic generator of pseudo-random numbers.
struct SearchBenchRandom(u64);

impl SearchBenchRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// Returns a word. A higher `rarity`, from 0 to 9, gives a rarer word.
    fn word(&mut self, rarity: u32) -> String {
        let part = self.next() as f64 / (1_u64 << 31) as f64;
        let exponent = f64::from(rarity) / 10.0 + part * (1.0 - f64::from(rarity) / 10.0);
        format!("w{}", (VOCABULARY as f64).powf(exponent) as u64)
    }

    /// Returns a question of 3 to 8 words. The first has at least the given rarity; the others have natural
    /// frequencies.
    fn question(&mut self, rarity: u32) -> String {
        let count = 2 + self.next() % 6;
        let others = (0..count).map(|_| self.word(0)).collect::<Vec<_>>().join(" ");
        format!("{} {others}", self.word(rarity))
    }
}

/// Runs one search for each question.
fn run_queries(bencher: Bencher<'_, '_>, requests: Vec<SearchRequest>) {
    let fixture = &*FIXTURE;
    let next = AtomicUsize::new(0);
    bencher.bench(|| fixture.search(&requests[next.fetch_add(1, Ordering::Relaxed) % requests.len()]));
}

fn questions(rarity: u32) -> Vec<SearchRequest> {
    let mut random = SearchBenchRandom(u64::from(rarity) + 7);
    (0..QUESTIONS).map(|_| SearchRequest::new(random.question(rarity))).collect()
}

/// Questions with at least one rare word, like nearly all real questions.
#[divan::bench(sample_count = 291, sample_size = 1)]
fn question_with_a_telling_word(bencher: Bencher<'_, '_>) {
    run_queries(bencher, questions(6));
}

/// Questions of words with natural frequencies. Some have no word that is rarer than one in a hundred.
#[divan::bench(sample_count = 291, sample_size = 1)]
fn question_of_words_as_they_come(bencher: Bencher<'_, '_>) {
    run_queries(bencher, questions(0));
}

/// The worst case: each word is in a tenth to most of all messages.
#[divan::bench(sample_count = 291, sample_size = 1)]
fn question_of_usual_words_alone(bencher: Bencher<'_, '_>) {
    let mut random = SearchBenchRandom(3);
    let question = |_| (0..5).map(|_| format!("w{}", 1 + random.next() % 30)).collect::<Vec<_>>().join(" ");
    run_queries(bencher, (0..QUESTIONS).map(question).map(SearchRequest::new).collect());
}

/// A question about a single thread.
#[divan::bench(sample_count = 291, sample_size = 1)]
fn question_about_one_thread(bencher: Bencher<'_, '_>) {
    let of_thread = |(at, request)| SearchRequest {
        thread_id: Some(FIXTURE.threads[at * 19 % FIXTURE.threads.len()]),
        ..request
    };
    run_queries(bencher, questions(6).into_iter().enumerate().map(of_thread).collect());
}

/// A question restricted to the newest tenth of the time span.
#[divan::bench(sample_count = 291, sample_size = 1)]
fn question_since(bencher: Bencher<'_, '_>) {
    let threads = MESSAGES / MESSAGES_PER_THREAD;
    let hours = i64::try_from(threads * 9).expect("it is small");
    let since = Some(Timestamp::UNIX_EPOCH + hours.hours());
    run_queries(
        bencher,
        questions(6).into_iter().map(|request| SearchRequest { since, ..request }).collect(),
    );
}
