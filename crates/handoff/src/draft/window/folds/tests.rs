//! What is kept of a thread between drafts is what a fresh reading gives, whatever happened to the thread.

use std::sync::Arc;

use jiff::Timestamp;
use journal::{Sqlite, Store, Transaction, Write};
use proptest::prelude::*;
use protocol::{AssistantId, EventType, NewEvent, Seq, Thread, ThreadId};
use runtime::Frames;
use serde_json::json;

use super::super::{FIRST_REQUEST_WITHIN, FOLD_PAGE_ROWS, Reading};
use super::{FOLDS_MAX, Folds, Known, Part};
use crate::limits::INPUT_TOKENS_MAX;
use crate::summary::coverage::{Counts, counts};
use crate::summary::select::Selection;
use facts::What;
use facts::notation::item;

mod ground;

/// A journal with one thread.
struct Journal {
    store: Sqlite,
    thread_id: ThreadId,
    frames: Frames,
}

/// Returns the event of a transcript's line; `N:` is a fact of a run, `?:` a message that cannot be read.
fn event(line: &str) -> NewEvent {
    let fact = |event_type, content| NewEvent::new(event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
    match line.split(':').next() {
        Some("N") => return fact(EventType::RunStarted, json!({})),
        Some("?") => return fact(EventType::AiMessage, json!({"content": 7})),
        _ => {}
    }
    let item = item(1, line);
    let event = match &item.what {
        What::Message(message) => NewEvent::message(message, Timestamp::UNIX_EPOCH).unwrap(),
        What::Boundary => fact(EventType::ImportedBoundary, json!({})),
        What::ImportedSummary(text) => fact(EventType::ImportedSummary, json!({"text": text})),
        What::Note | What::Unread | What::Other | What::InheritedSummary { .. } => {
            unreachable!("no line is that")
        }
    };
    event.with_metadata(&json!({"side": item.side, "injected": item.injected})).unwrap()
}

impl Journal {
    async fn of(lines: &[&str]) -> Self {
        let store = Sqlite::in_memory().unwrap();
        let thread = Thread::blank(ThreadId::generate(), AssistantId::default(), Timestamp::UNIX_EPOCH);
        let journal = Self { store, thread_id: thread.thread_id, frames: Frames::default() };
        journal.commit(Write::CreateThread(thread)).await;
        journal.add(lines).await;
        journal
    }

    async fn commit(&self, write: Write) {
        self.store.commit(Transaction { fence: None, writes: vec![write] }).await.unwrap();
    }

    async fn add(&self, lines: &[&str]) {
        let events = lines.iter().map(|line| event(line)).collect();
        self.commit(Write::Append { thread_id: self.thread_id, events }).await;
    }

    async fn rewind(&self, keep_seq: Seq) {
        self.commit(Write::Rewind { thread_id: self.thread_id, keep_seq, at: Timestamp::UNIX_EPOCH }).await;
    }

    fn reading(&self) -> Reading<'_> {
        Reading { store: &self.store, thread_id: self.thread_id, frames: &self.frames }
    }

    async fn known(&self, folds: &Folds, goal: Option<&str>) -> Known {
        folds.known(self.reading(), Part { goal, ..Part::default() }).await.unwrap()
    }

    /// Checks what is kept against a fresh reading, and returns the numbers of what is covered.
    async fn checked(&self, folds: &Folds, goal: Option<&str>) -> Counts {
        let kept = self.known(folds, goal).await;
        let fresh = self.known(&Folds::default(), goal).await;
        assert_eq!(kept.fold.facts(), fresh.fold.facts());
        assert_eq!(kept.selection(INPUT_TOKENS_MAX), fresh.selection(INPUT_TOKENS_MAX));
        assert_eq!(kept.extract(300), fresh.extract(300));
        assert_eq!(kept.carry_over(), fresh.carry_over());
        counts(&kept.extract(300).1)
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

#[derive(Debug, Clone)]
enum Change {
    Add(Vec<usize>),
    Rewind(u64),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => prop::collection::vec(0..LINES.len(), 1..12).prop_map(Change::Add),
        1 => (0u64..40).prop_map(Change::Rewind),
    ]
}

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn m5_what_is_kept_is_what_a_fresh_reading_gives(
        changes in prop::collection::vec(change(), 1..6), for_goal in prop::bool::ANY,
    ) {
        block_on(async {
            let journal = Journal::of(&["U: Begin."]).await;
            let folds = Folds::default();
            let goal = for_goal.then_some("the lexer");
            for change in &changes {
                match change {
                    Change::Add(lines) => journal.add(&lines.iter().map(|line| LINES[*line]).collect::<Vec<_>>()).await,
                    Change::Rewind(keep_seq) => journal.rewind(*keep_seq).await,
                }
                let told = journal.checked(&folds, goal).await;
                assert_eq!(told.messages, told.verbatim + told.summarized + told.truncated + told.excluded);
                let last = journal.known(&folds, goal).await.extract(300).1.last_seq;
                let uncovered = journal.store.messages_after(journal.thread_id, last).await.unwrap();
                assert_eq!(told.messages + uncovered, journal.messages().await);
            }
        });
    }

    #[test]
    fn m5_the_messages_of_a_window_are_counted_with_those_before_it(
        lines in prop::collection::vec(0..LINES.len(), 1..60), messages in 1u64..30,
    ) {
        block_on(async {
            let journal = Journal::of(&["U: Begin."]).await;
            journal.add(&lines.iter().map(|line| LINES[*line]).collect::<Vec<_>>()).await;
            let part = Part { messages: Some(messages), ..Part::default() };
            let known = Folds::default().known(journal.reading(), part).await.unwrap();
            for coverage in [known.extract(300).1, known.selection(INPUT_TOKENS_MAX).coverage] {
                let told = counts(&coverage);
                let all = journal.messages().await;
                assert_eq!(told.messages, all, "from the first request on, all are counted");
                assert!(told.verbatim + told.summarized + told.truncated <= messages + 1, "{told:?}");
                assert_eq!((coverage.first_seq, told.messages), (1, told.excluded + told.verbatim + told.summarized + told.truncated));
            }
        });
    }
}

#[tokio::test]
async fn m5_all_before_a_window_is_excluded_wherever_the_first_request_is() {
    let far = FIRST_REQUEST_WITHIN + 10;
    for (before, goal_covered) in [(0, 1), (3, 1), (far, 0)] {
        let mut lines = vec!["A: Welcome."; before];
        lines.push("U: Begin.");
        lines.extend(["N:", "A: Working."].repeat(400));
        let journal = Journal::of(&lines).await;
        let part = Part { messages: Some(20), ..Part::default() };
        let known = Folds::default().known(journal.reading(), part).await.unwrap();
        for coverage in [known.extract(300).1, known.selection(INPUT_TOKENS_MAX).coverage] {
            let told = counts(&coverage);
            let covered = told.verbatim + told.summarized + told.truncated;
            assert_eq!((coverage.first_seq, coverage.last_seq), (1, lines.len() as Seq), "{before}");
            assert_eq!(told.messages, journal.messages().await, "{before}");
            assert_eq!(covered, 20 + goal_covered, "{before}: {told:?}");
            assert_eq!(told.excluded, told.messages - covered, "{before}: {told:?}");
            assert_eq!(told.other_events, 400, "{before}: {told:?}");
        }
    }
}

#[tokio::test]
async fn another_draft_reads_only_what_is_new() {
    let lines: Vec<String> = (0..FOLD_PAGE_ROWS * 2 + 3).map(|at| format!("U: Do thing {at}.")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let journal = Journal::of(&lines).await;
    let folds = Folds::default();
    let first = journal.known(&folds, None).await;
    let (end, place) = (first.fold.end, Arc::as_ptr(&first.fold));
    drop(first);
    journal.add(&["N:", "N:"]).await;
    let same = journal.known(&folds, None).await;
    assert_eq!((same.fold.end, Arc::as_ptr(&same.fold)), (end, place), "nothing was said");
    drop(same);
    journal.add(&["A: Done."]).await;
    let more = journal.known(&folds, None).await;
    assert_eq!(Arc::as_ptr(&more.fold), place, "what was kept is gone on with");
    assert!(more.fold.facts().is_answered);
}

#[tokio::test]
async fn no_more_threads_are_kept_than_the_limit() {
    let folds = Folds::default();
    for _ in 0..FOLDS_MAX + 3 {
        let journal = Journal::of(&["U: Hi."]).await;
        journal.known(&folds, None).await;
    }
    assert_eq!(folds.kept.lock().len(), FOLDS_MAX);
}

#[tokio::test]
async fn an_empty_thread_is_known_too() {
    for lines in [&[][..], &["N:", "N:", "N:"]] {
        let journal = Journal::of(lines).await;
        let coverage = journal.known(&Folds::default(), None).await.extract(300).1;
        assert_eq!((coverage.last_seq, counts(&coverage).messages), (lines.len() as Seq, 0));
    }
}

/// A thread of turns about two things in turn, each longer than a small budget.
fn about_two_things() -> Vec<String> {
    let mut lines = Vec::new();
    for turn in 0..60 {
        let (what, file) = match turn % 2 {
            0 => ("billing invoices", format!("src/billing/invoice_{turn}.rs")),
            _ => ("login sessions", format!("src/login/session_{turn}.rs")),
        };
        lines.push(format!("U: Please improve step {turn} of the {what}."));
        lines.push(format!("C: c{turn} Edit {{\"file_path\": \"{file}\"}}"));
        lines.push(format!("T: c{turn} ok"));
        lines.push(format!(
            "A: Step {turn} of the {what} rounds up in {file}, which was the cause of the trouble there."
        ));
    }
    lines
}

#[tokio::test]
async fn m14_two_goals_select_different_ranges_and_items() {
    let lines = about_two_things();
    let journal = Journal::of(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let folds = Folds::default();
    let billing = journal.known(&folds, Some("finish the billing of invoices")).await;
    let login = journal.known(&folds, Some("harden login sessions")).await;
    let ((billed, billed_coverage), (logged, logged_coverage)) = (billing.extract(600), login.extract(600));
    assert_ne!(billed_coverage, logged_coverage);
    let count = |text: &str, word: &str| text.matches(word).count();
    let told =
        |extract: &crate::Extract| extract.body.iter().map(|item| item.text.clone()).collect::<String>();
    assert!(count(&told(&billed), "invoice") > 2 * count(&told(&billed), "session"), "{}", told(&billed));
    assert!(count(&told(&logged), "session") > 2 * count(&told(&logged), "invoice"), "{}", told(&logged));
    let (billed, logged) = (billing.selection(1_500), login.selection(1_500));
    assert_ne!(billed.coverage, logged.coverage);
    let parts: [fn(&Selection) -> &str; 2] = [|selection| &selection.requests, |selection| &selection.events];
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
async fn l7_the_last_request_is_verbatim_and_marked_in_all_that_is_told() {
    let request = "Now rename the flag to --dry-run everywhere, and nothing else.";
    for (answer, state) in [(None, "pending"), (Some("A: Renamed."), "answered")] {
        let journal = Journal::of(&[
            "U: Build the tool with its flags, please.",
            "A: Built.",
            &format!("U: {request}"),
        ])
        .await;
        if let Some(answer) = answer {
            journal.add(&[answer]).await;
        }
        let known = journal.known(&Folds::default(), None).await;
        let (extract, coverage) = known.extract(300);
        assert!(extract.tldr.contains(state) || extract.tldr.contains("was answered"), "{}", extract.tldr);
        let line =
            extract.body.iter().find(|item| item.text.contains(request)).map(|item| item.text.to_lowercase());
        assert!(line.is_some_and(|line| line.contains(state)), "{:?}", extract.body);
        assert!(coverage.verbatim.iter().any(|(first, last)| (*first..=*last).contains(&3)), "{coverage:?}");
        let shown = known.selection(INPUT_TOKENS_MAX);
        assert!(
            shown.requests.ends_with(&format!("[3] User (last request, {state}): {request}")),
            "{}",
            shown.requests
        );
        assert_eq!(known.carry_over().last_user_request.as_deref(), Some(request));
    }
}
