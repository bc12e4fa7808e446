//! Tests of the evidence for grounding: the thread, the person's texts about the draft, and the verified items of the
//! summary that the thread began with.

use protocol::{
    Coverage, Handoff, HandoffId, HandoffStatus, HandoffSummary, Proposal, SCHEMA_VERSION, SummaryItem,
    SummaryItemKind,
};
use runtime::{Frame, FrameSubscription, SubscriptionItem as StreamItem};

use super::*;

fn item(text: &str) -> SummaryItem {
    SummaryItem {
        kind: SummaryItemKind::Progress,
        text: text.to_owned(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
}

fn summary(texts: &[&str]) -> HandoffSummary {
    HandoffSummary {
        schema_version: SCHEMA_VERSION,
        handoff_id: HandoffId::generate(),
        assistant_id: AssistantId::default(),
        parent_thread_id: ThreadId::generate(),
        child_thread_id: None,
        title: "Look at src/title.rs".to_owned(),
        tldr: "It is in src/tldr.rs.".to_owned(),
        body: texts.iter().map(|text| item(text)).collect(),
        model: "scripted/model".to_owned(),
        model_run_id: None,
        run_id: None,
        notes: protocol::ReviewNotes::default(),
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carried: protocol::CarriedFacts::default(),
    }
}

impl JournalFixture {
    /// Stores an accepted handoff with `summary`, whose child is this thread.
    async fn insert_inherited_summary(&self, summary: HandoffSummary) {
        let (handoff_id, accepted) = (summary.handoff_id, "accepted".to_owned());
        let handoff = Handoff {
            handoff_id,
            assistant_id: AssistantId::default(),
            parent_thread_id: self.thread_id,
            child_thread_id: self.thread_id,
            status: HandoffStatus::Accepted,
            iteration: 0,
            goal: None,
            run_id: None,
            options: json!({}),
            accepted_sha256: Some(accepted.clone()),
            note: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        };
        self.commit(Write::CreateHandoff(handoff)).await;
        let proposal = Proposal {
            handoff_id,
            iteration: 0,
            package_md: crate::render_summary(&summary),
            summary_json: summary,
            summary_sha256: accepted,
            feedback: None,
            created_at: Timestamp::UNIX_EPOCH,
        };
        self.commit(Write::PutProposal(proposal)).await;
    }

    /// Returns the names in `text` that grounding does not find, when `text` is the item of a draft and `words` are the
    /// person's texts about it.
    async fn unverified_items(
        &self,
        cache: &ThreadScanCache,
        text: &str,
        user_texts: &[&str],
    ) -> Vec<String> {
        let scan = self.scan(cache, None).await;
        scan.selection(INPUT_TOKENS_MAX);
        let mut summary = summary(&[text]);
        scan.ground_summary(self.source(), &mut summary, None, user_texts).await.unwrap();
        summary.body.remove(0).unfound
    }
}

#[tokio::test]
async fn m6_an_unverified_name_stays_unverified_in_later_handoffs() {
    let mut inherited = summary(&["src/real.rs is done.", "src/invented.rs is next.", "`unclear_name` too."]);
    for (index, unfound) in [(1, vec!["src/invented.rs".to_owned()]), (2, Vec::new())] {
        (inherited.body[index].verified, inherited.body[index].unfound) = (false, unfound);
    }
    for lines in [&["U: Go on.", "A: Done."][..], &[][..]] {
        let journal = JournalFixture::with_lines(lines).await;
        journal.insert_inherited_summary(inherited.clone()).await;
        let cache = ThreadScanCache::default();
        let text = "See src/real.rs, src/invented.rs, `unclear_name`, src/title.rs and src/tldr.rs.";
        for _ in 0..2 {
            let unfound = journal.unverified_items(&cache, text, &[]).await;
            assert_eq!(unfound, ["src/invented.rs", "unclear_name", "src/title.rs", "src/tldr.rs"]);
        }
        let scan = journal.scan(&cache, None).await;
        assert!(
            scan.selection(INPUT_TOKENS_MAX).summary_so_far.contains("src/invented.rs is next. (unverified)")
        );
        let (told, _) = scan.offline_summary(2_000);
        let told = crate::render::render_markdown(&told.title, &told.tldr, &told.body);
        assert!(!told.contains("invented") && !told.contains("unclear_name"), "{told}");
    }
    let journal = JournalFixture::with_lines(&["U: Create src/invented.rs."]).await;
    journal.insert_inherited_summary(inherited).await;
    let unfound = journal.unverified_items(&ThreadScanCache::default(), "See src/invented.rs.", &[]).await;
    assert_eq!(unfound, [""; 0], "the thread itself contains the name");
}

#[tokio::test]
async fn m1_a_second_generation_keeps_the_topic_and_claims_nothing_that_it_does_not_know() {
    let inherited = summary(&["The lid is mended."]);
    for (lines, title) in [
        (&["U: hi", "A: Hello, how can I help?"][..], "Look at src/title.rs"),
        (
            &["U: Translate the manual of the coffee grinder into Finnish.", "A: Done."][..],
            "Translate the manual of the coffee grinder into Finnish",
        ),
    ] {
        let journal = JournalFixture::with_lines(lines).await;
        journal.insert_inherited_summary(inherited.clone()).await;
        let (told, _) = journal.scan(&ThreadScanCache::default(), None).await.offline_summary(2_000);
        assert_eq!(told.title, title);
        let text = crate::render::render_markdown(&told.title, &told.tldr, &told.body);
        assert!(!text.contains("no open task") && !text.contains("No changed file"), "{text}");
    }
}

#[tokio::test]
async fn m6_the_persons_texts_about_the_draft_are_evidence() {
    let journal = JournalFixture::with_lines(&["U: Fix it.", "A: Done."]).await;
    let words = ["also mention src/a.rs", "and not `parse_all` but `parse_one`"];
    let text = "src/a.rs has parse_one; src/b.rs has not.";
    assert_eq!(journal.unverified_items(&ThreadScanCache::default(), text, &words).await, ["src/b.rs"]);
    assert_eq!(
        journal.unverified_items(&ThreadScanCache::default(), text, &[]).await,
        ["src/a.rs", "parse_one", "src/b.rs"]
    );
}

#[tokio::test]
async fn m6_counts_and_labels_added_by_segue_are_no_evidence() {
    let mut lines = vec!["U: Fix it.".to_owned()];
    for index in 0..1_180 {
        lines.push(format!("C: c{index} Bash {{\"command\": \"ls {}\"}}", "x".repeat(90)));
        lines.push(format!("T: c{index} ok"));
    }
    let journal = JournalFixture::with_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let cache = ThreadScanCache::default();
    let selection = journal.scan(&cache, None).await.selection(INPUT_TOKENS_MAX);
    assert!(
        selection.events.contains("Bash ×1180") && selection.requests.contains("(last request, pending)")
    );
    let text = "1180 calls in the [1180] `Assistant` of `User`, `pending`.";
    let unfound = journal.unverified_items(&cache, text, &[]).await;
    assert_eq!(unfound, ["1180", "Assistant", "User", "pending"]);
}

/// Returns the number of progress frames about pages that were read for grounding.
fn count_pages(subscription: &mut FrameSubscription) -> usize {
    let frames = std::iter::from_fn(|| subscription.try_next());
    let is_check = |item: &StreamItem| {
        let StreamItem::Frame(_, frame) = item else { return false };
        matches!(&**frame, Frame::Progress { what, .. } if what == "check the draft")
    };
    frames.filter(is_check).count()
}

#[tokio::test]
async fn a_name_that_is_missing_is_searched_in_the_whole_thread_only_once() {
    let lines: Vec<String> =
        (0..WINDOW_PAGE_ROWS * 2 + 3).map(|index| format!("U: Do thing {index}.")).collect();
    let mut journal = JournalFixture::with_lines(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (frames, mut subscription) = FrameSender::channel();
    journal.frames = frames;
    let cache = ThreadScanCache::default();
    let checked =
        async |journal: &JournalFixture, text: &str| journal.unverified_items(&cache, text, &[]).await;
    assert_eq!(checked(&journal, "See src/a.rs and src/b.rs.").await, ["src/a.rs", "src/b.rs"]);
    assert!(count_pages(&mut subscription) > 1, "the whole thread is read");
    journal.append_lines(&["N:", "A: Done."]).await;
    for text in ["See src/b.rs and src/a.rs.", "See src/a.rs and src/b.rs."] {
        assert_eq!(checked(&journal, text).await.len(), 2);
    }
    assert_eq!(checked(&journal, "See src/b.rs.").await, ["src/b.rs"]);
    journal.append_lines(&["A: I made src/b.rs."]).await;
    assert_eq!(checked(&journal, "See src/a.rs and src/b.rs.").await, ["src/a.rs"]);
    assert_eq!(checked(&journal, "See src/a.rs.").await, ["src/a.rs"]);
    assert_eq!(count_pages(&mut subscription), 0, "only new events are read");
    assert_eq!(checked(&journal, "See src/a.rs and src/c.rs.").await, ["src/a.rs", "src/c.rs"]);
    assert!(count_pages(&mut subscription) > 1, "another name requires a search of the whole thread");
}

#[tokio::test]
async fn m6_a_name_is_unverified_again_after_a_rewind_removed_its_message() {
    let journal = JournalFixture::with_lines(&["U: Begin.", "A: Working."]).await;
    let cache = ThreadScanCache::default();
    let text = "See src/a.rs.";
    assert_eq!(journal.unverified_items(&cache, text, &[]).await, ["src/a.rs"]);
    journal.append_lines(&["U: Make src/a.rs."]).await;
    assert_eq!(journal.unverified_items(&cache, text, &[]).await, [""; 0]);
    journal.rewind(2).await;
    assert_eq!(journal.unverified_items(&cache, text, &[]).await, ["src/a.rs"]);
    journal.rewind(1).await;
    journal.append_lines(&["A: src/a.rs is there.", "A: Done."]).await;
    assert_eq!(journal.unverified_items(&cache, text, &[]).await, [""; 0]);
}
