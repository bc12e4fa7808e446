//! Tests of the scan cache: a cached scan always equals a fresh scan, whatever happened to the thread.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{SqliteStore, Store, Transaction, Write};
use proptest::prelude::*;
use protocol::{AssistantId, EventType, NewEvent, Seq, Thread, ThreadId};
use runtime::FrameSender;
use serde_json::json;

use super::super::{FIRST_REQUEST_ROWS_MAX, ThreadSource, WINDOW_PAGE_ROWS};
use super::{CACHED_SCANS_MAX, PartBudget, ScanRequest, ThreadScanCache, WindowScan};
use crate::limits::INPUT_TOKENS_MAX;
use crate::summary::coverage::{CoverageCounts, count_coverage};
use crate::summary::select::TranscriptSelection;
use facts::TranscriptItemKind;
use facts::notation::parse_item;

mod ground;

/// A journal with one thread.
struct JournalFixture {
    store: SqliteStore,
    thread_id: ThreadId,
    frames: FrameSender,
}

/// Returns the event for a line of a transcript. In addition to the notation of `facts`, `N:` is an event of a run
/// and `?:` a message that cannot be read.
fn event(line: &str) -> NewEvent {
    let fact = |event_type, content| NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
    match line.split(':').next() {
        Some("N") => return fact(EventType::RunStarted, json!({})),
        Some("?") => return fact(EventType::AiMessage, json!({"content": 7})),
        _ => {}
    }
    let item = parse_item(1, line);
    let event = match &item.kind {
        TranscriptItemKind::Message(message) => {
            NewEvent::from_message(message, Timestamp::UNIX_EPOCH).unwrap()
        }
        TranscriptItemKind::Boundary => fact(EventType::ImportedBoundary, json!({})),
        TranscriptItemKind::ImportedSummary(text) => fact(EventType::ImportedSummary, json!({"text": text})),
        TranscriptItemKind::Note
        | TranscriptItemKind::Unreadable
        | TranscriptItemKind::Other
        | TranscriptItemKind::InheritedSummary { .. } => {
            unreachable!("the notation has no such line")
        }
    };
    event.with_metadata(&json!({"side": item.is_subagent, "injected": item.is_injected})).unwrap()
}

impl JournalFixture {
    async fn with_lines(lines: &[&str]) -> Self {
        let store = SqliteStore::in_memory().unwrap();
        let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
        let journal = Self { store, thread_id: thread.thread_id, frames: FrameSender::default() };
        journal.commit(Write::CreateThread(thread)).await;
        journal.append_lines(lines).await;
        journal
    }

    async fn commit(&self, write: Write) {
        self.store.commit(Transaction { fence: None, writes: vec![write] }).await.unwrap();
    }

    async fn append_lines(&self, lines: &[&str]) {
        let events = lines.iter().map(|line| event(line)).collect();
        self.commit(Write::Append { thread_id: self.thread_id, events }).await;
    }

    async fn rewind(&self, keep_seq: Seq) {
        self.commit(Write::Rewind { thread_id: self.thread_id, keep_seq, at: Timestamp::UNIX_EPOCH }).await;
    }

    fn source(&self) -> ThreadSource<'_> {
        ThreadSource { store: &self.store, thread_id: self.thread_id, frames: &self.frames }
    }

    async fn scan(&self, cache: &ThreadScanCache, goal: Option<&str>) -> WindowScan {
        cache.scan_thread(self.source(), ScanRequest { goal, ..ScanRequest::default() }).await.unwrap()
    }

    /// Checks the cached scan against a fresh one, and returns the counts of its coverage.
    async fn check_against_fresh_scan(&self, cache: &ThreadScanCache, goal: Option<&str>) -> CoverageCounts {
        let cached = self.scan(cache, goal).await;
        let fresh = self.scan(&ThreadScanCache::default(), goal).await;
        assert_eq!(cached.scan.facts(), fresh.scan.facts());
        assert_eq!(cached.selection(INPUT_TOKENS_MAX), fresh.selection(INPUT_TOKENS_MAX));
        assert_eq!(cached.offline_summary(300), fresh.offline_summary(300));
        assert_eq!(cached.carried_facts(), fresh.carried_facts());
        let budget = PartBudget { tokens_max: 30, parts_max: 3 };
        let divided = cached.divide_conversation(self.source(), budget).await.unwrap();
        assert_eq!(divided, fresh.divide_conversation(self.source(), budget).await.unwrap());
        count_coverage(&cached.offline_summary(300).1)
    }

    async fn messages(&self) -> u64 {
        self.store.messages_after(self.thread_id, 0).await.unwrap()
    }
}

const LINES: [&str; 10] = [
    "U: Fix src/parser.rs, never touch the lexer.",
    "A: I looked at parse_all and decided on a table.",
    "C: 1 Edit {\"file_path\": \"src/parser.rs\"}",
    "T: 1 ok",
    "E: 1 error: cannot find src/lexer.rs",
    "N:",
    "S: a sub-agent's task",
    "I: injected",
    "?:",
    "B:",
];

/// A generated change of a thread.
#[derive(Debug, Clone)]
enum ThreadChange {
    /// Appends these of the [`LINES`].
    Add(Vec<usize>),
    /// Rewinds the thread to this seq.
    Rewind(u64),
}

fn change() -> impl Strategy<Value = ThreadChange> {
    prop_oneof![
        3 => prop::collection::vec(0..LINES.len(), 1..12).prop_map(ThreadChange::Add),
        1 => (0u64..40).prop_map(ThreadChange::Rewind),
    ]
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(test_counts::count(12, 48)))]

    #[test]
    fn m5_a_cached_scan_equals_a_fresh_scan(
        changes in prop::collection::vec(change(), 1..6), for_goal in prop::bool::ANY,
    ) {
        block_on(async {
            let journal = JournalFixture::with_lines(&["U: Begin."]).await;
            let cache = ThreadScanCache::default();
            let goal = for_goal.then_some("the lexer");
            for change in &changes {
                match change {
                    ThreadChange::Add(lines) => journal.append_lines(&lines.iter().map(|line| LINES[*line]).collect::<Vec<_>>()).await,
                    ThreadChange::Rewind(keep_seq) => journal.rewind(*keep_seq).await,
                }
                let counts = journal.check_against_fresh_scan(&cache, goal).await;
                journal.check_against_fresh_scan(&cache, Some("the parser")).await;
                assert_eq!(counts.messages, counts.verbatim + counts.summarized + counts.truncated + counts.excluded);
                let last = journal.scan(&cache, goal).await.offline_summary(300).1.last_seq;
                let uncovered = journal.store.messages_after(journal.thread_id, last).await.unwrap();
                assert_eq!(counts.messages + uncovered, journal.messages().await);
            }
        });
    }

    #[test]
    fn m5_the_messages_of_a_window_are_counted_with_those_before_it(
        lines in prop::collection::vec(0..LINES.len(), 1..60), messages in 1u64..30,
    ) {
        block_on(async {
            let journal = JournalFixture::with_lines(&["U: Begin."]).await;
            journal.append_lines(&lines.iter().map(|line| LINES[*line]).collect::<Vec<_>>()).await;
            let request = ScanRequest { messages: Some(messages), ..ScanRequest::default() };
            let scan = ThreadScanCache::default().scan_thread(journal.source(), request).await.unwrap();
            for coverage in [scan.offline_summary(300).1, scan.selection(INPUT_TOKENS_MAX).coverage] {
                let counts = count_coverage(&coverage);
                let all = journal.messages().await;
                assert_eq!(counts.messages, all, "from the first request on, all are counted");
                assert!(counts.verbatim + counts.summarized + counts.truncated <= messages + 1, "{counts:?}");
                assert_eq!((coverage.first_seq, counts.messages), (1, counts.excluded + counts.verbatim + counts.summarized + counts.truncated));
            }
        });
    }
}

#[tokio::test]
async fn m5_messages_before_a_window_are_excluded_wherever_the_first_request_is() {
    let far = FIRST_REQUEST_ROWS_MAX + 10;
    for (before, goal_covered) in [(0, 1), (3, 1), (far, 0)] {
        let mut lines = vec!["A: Welcome."; before];
        lines.push("U: Begin.");
        lines.extend(["N:", "A: Working."].repeat(400));
        let journal = JournalFixture::with_lines(&lines).await;
        let request = ScanRequest { messages: Some(20), ..ScanRequest::default() };
        let scan = ThreadScanCache::default().scan_thread(journal.source(), request).await.unwrap();
        for coverage in [scan.offline_summary(300).1, scan.selection(INPUT_TOKENS_MAX).coverage] {
            let counts = count_coverage(&coverage);
            let covered = counts.verbatim + counts.summarized + counts.truncated;
            assert_eq!((coverage.first_seq, coverage.last_seq), (1, lines.len() as Seq), "{before}");
            assert_eq!(counts.messages, journal.messages().await, "{before}");
            assert_eq!(covered, 20 + goal_covered, "{before}: {counts:?}");
            assert_eq!(counts.excluded, counts.messages - covered, "{before}: {counts:?}");
            assert_eq!(counts.other_events, 400, "{before}: {counts:?}");
        }
    }
}

#[tokio::test]
async fn another_draft_reads_only_new_events() {
    let lines: Vec<String> =
        (0..WINDOW_PAGE_ROWS * 2 + 3).map(|index| format!("U: Do thing {index}.")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let journal = JournalFixture::with_lines(&lines).await;
    let cache = ThreadScanCache::default();
    let first = journal.scan(&cache, None).await;
    let (end, address) = (first.scan.end.unwrap(), Arc::as_ptr(&first.scan));
    drop(first);
    journal.append_lines(&["N:", "N:"]).await;
    let same = journal.scan(&cache, None).await;
    assert_eq!(
        (same.scan.end.unwrap().conversation, Arc::as_ptr(&same.scan)),
        (end.conversation, address),
        "the thread has no new conversation event"
    );
    assert_eq!(same.scan.end.unwrap().read.0, end.read.0 + 2, "the two records are not read again");
    drop(same);
    journal.append_lines(&["A: Done."]).await;
    let more = journal.scan(&cache, None).await;
    assert_eq!(Arc::as_ptr(&more.scan), address, "the cached scan is extended in place");
    assert!(more.scan.facts().request_answered == Some(true));
}

#[tokio::test]
async fn a_draft_reads_no_record_of_earlier_drafts_again() {
    let journal = JournalFixture::with_lines(&["U: Fix the parser."]).await;
    let cache = ThreadScanCache::default();
    journal.scan(&cache, None).await;
    journal.append_lines(&["N:"; WINDOW_PAGE_ROWS * 2]).await;
    let (sender, mut frames) = FrameSender::channel();
    let source = ThreadSource { frames: &sender, ..journal.source() };
    // Every page but the last one is reported.
    let mut pages_before_last = async || {
        cache.scan_thread(source, ScanRequest::default()).await.unwrap();
        std::iter::from_fn(|| frames.try_next()).count()
    };
    assert_eq!((pages_before_last().await, pages_before_last().await), (2, 0));
}

#[tokio::test]
async fn another_draft_divides_a_long_conversation_without_reading_it_again() {
    let lines: Vec<String> = (0..WINDOW_PAGE_ROWS + 3).map(|index| format!("U: Do thing {index}.")).collect();
    let journal = JournalFixture::with_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cache = ThreadScanCache::default();
    let budget = PartBudget { tokens_max: 500, parts_max: 4 };
    let (sender, mut frames) = FrameSender::channel();
    let source = ThreadSource { frames: &sender, ..journal.source() };
    // Every page but the last one of a reading is reported.
    let mut divide = async || {
        let scan = journal.scan(&cache, None).await;
        let divided = scan.divide_conversation(source, budget).await.unwrap();
        let mut readings = 0;
        while let Some(item) = frames.try_next() {
            readings += usize::from(format!("{item:?}").contains("divide the conversation"));
        }
        (divided, readings)
    };
    let (first, readings) = divide().await;
    assert_eq!((first.parts.len(), readings), (4, 1));
    assert_eq!(divide().await, (first.clone(), 0));
    journal.append_lines(&["A: Done."]).await;
    let (more, readings) = divide().await;
    assert!(readings == 0 && more != first, "a new message is added to the divided conversation");
    let fresh = journal.scan(&ThreadScanCache::default(), None).await;
    assert_eq!(more, fresh.divide_conversation(source, budget).await.unwrap());
}

#[tokio::test]
async fn a_draft_with_a_new_goal_reads_the_thread_once_and_divides_nothing_again() {
    let lines: Vec<String> = (0..WINDOW_PAGE_ROWS + 3).map(|index| format!("U: Do thing {index}.")).collect();
    let journal = JournalFixture::with_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cache = ThreadScanCache::default();
    let budget = PartBudget { tokens_max: 500, parts_max: 4 };
    let (sender, mut frames) = FrameSender::channel();
    let source = ThreadSource { frames: &sender, ..journal.source() };
    // Every page but the last one of a reading is reported.
    let mut draft = async |goal| {
        let request = ScanRequest { goal, ..ScanRequest::default() };
        let scan = cache.scan_thread(source, request).await.unwrap();
        let divided = scan.divide_conversation(source, budget).await.unwrap();
        let mut labels = Vec::new();
        while let Some(item) = frames.try_next() {
            let text = format!("{item:?}");
            labels.extend(
                ["read the thread", "divide the conversation"]
                    .into_iter()
                    .filter(|label| text.contains(label)),
            );
        }
        (divided, labels)
    };
    let (first, labels) = draft(None).await;
    assert_eq!(labels, ["read the thread", "divide the conversation"]);
    assert_eq!(draft(Some("thing 7")).await, (first.clone(), vec!["read the thread"]));
    assert_eq!(draft(Some("thing 7")).await, (first.clone(), vec![]));
    assert_eq!(draft(None).await, (first, vec![]), "the scan without a goal is still cached");
}

#[tokio::test]
async fn the_number_of_cached_threads_is_limited() {
    let cache = ThreadScanCache::default();
    for _ in 0..CACHED_SCANS_MAX + 3 {
        let journal = JournalFixture::with_lines(&["U: Hi."]).await;
        journal.scan(&cache, None).await;
    }
    assert_eq!(cache.entries.lock().len(), CACHED_SCANS_MAX);
}

#[tokio::test]
async fn a_thread_without_a_conversation_can_be_scanned() {
    for lines in [&[][..], &["N:", "N:", "N:"]] {
        let journal = JournalFixture::with_lines(lines).await;
        let coverage = journal.scan(&ThreadScanCache::default(), None).await.offline_summary(300).1;
        assert_eq!((coverage.last_seq, count_coverage(&coverage).messages), (lines.len() as Seq, 0));
    }
}

/// Returns the lines of a thread whose turns are alternately about two topics. Each topic is longer than a small
/// budget.
fn about_two_things() -> Vec<String> {
    let mut lines = Vec::new();
    for turn in 0..60 {
        let (topic, file) = match turn % 2 {
            0 => ("billing invoices", format!("src/billing/invoice_{turn}.rs")),
            _ => ("login sessions", format!("src/login/session_{turn}.rs")),
        };
        lines.push(format!("U: Please improve step {turn} of the {topic}."));
        lines.push(format!("C: c{turn} Edit {{\"file_path\": \"{file}\"}}"));
        lines.push(format!("T: c{turn} ok"));
        lines.push(format!(
            "A: Step {turn} of the {topic} rounds up in {file}, which was the cause of the trouble there."
        ));
    }
    lines
}

#[tokio::test]
async fn m14_two_goals_select_different_ranges_and_items() {
    let lines = about_two_things();
    let journal = JournalFixture::with_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cache = ThreadScanCache::default();
    let billing = journal.scan(&cache, Some("finish the billing of invoices")).await;
    let login = journal.scan(&cache, Some("harden login sessions")).await;
    let ((billed, billed_coverage), (logged, logged_coverage)) =
        (billing.offline_summary(600), login.offline_summary(600));
    assert_ne!(billed_coverage, logged_coverage);
    let count = |text: &str, word: &str| text.matches(word).count();
    let body_text = |summary: &crate::OfflineSummary| {
        summary.body.iter().map(|item| item.text.clone()).collect::<String>()
    };
    assert!(
        count(&body_text(&billed), "invoice") > 2 * count(&body_text(&billed), "session"),
        "{}",
        body_text(&billed)
    );
    assert!(
        count(&body_text(&logged), "session") > 2 * count(&body_text(&logged), "invoice"),
        "{}",
        body_text(&logged)
    );
    let (billed, logged) = (billing.selection(1_500), login.selection(1_500));
    assert_ne!(billed.coverage, logged.coverage);
    let parts: [fn(&TranscriptSelection) -> &str; 2] =
        [|selection| &selection.requests, |selection| &selection.events];
    for part in parts {
        assert!(count(part(&billed), "billing") > count(part(&billed), "login"), "{}", part(&billed));
        assert!(count(part(&logged), "login") > count(part(&logged), "billing"), "{}", part(&logged));
    }
    for selection in [&billed, &logged] {
        assert!(model::tokens::fits(&selection.text(), 1_500));
        assert!(
            selection.events.contains("[240] Assistant: Step 59"),
            "the newest is always in: {}",
            selection.events
        );
    }
}

#[tokio::test]
async fn l7_the_last_request_is_verbatim_and_its_state_is_shown_everywhere() {
    let request = "Now rename the flag to --dry-run everywhere, and nothing else.";
    for (answer, state) in [(None, "pending"), (Some("A: Renamed."), "answered")] {
        let journal = JournalFixture::with_lines(&[
            "U: Build the tool with its flags, please.",
            "A: Built.",
            &format!("U: {request}"),
        ])
        .await;
        if let Some(answer) = answer {
            journal.append_lines(&[answer]).await;
        }
        let scan = journal.scan(&ThreadScanCache::default(), None).await;
        let (summary, coverage) = scan.offline_summary(300);
        assert!(summary.tldr.contains(state) || summary.tldr.contains("was answered"), "{}", summary.tldr);
        let line =
            summary.body.iter().find(|item| item.text.contains(request)).map(|item| item.text.to_lowercase());
        assert!(line.is_some_and(|line| line.contains(state)), "{:?}", summary.body);
        assert!(coverage.verbatim.iter().any(|(first, last)| (*first..=*last).contains(&3)), "{coverage:?}");
        let selection = scan.selection(INPUT_TOKENS_MAX);
        assert!(
            selection.requests.ends_with(&format!("[3] User (last request, {state}): {request}")),
            "{}",
            selection.requests
        );
        assert_eq!(scan.carried_facts().last_user_request.as_deref(), Some(request));
    }
}
