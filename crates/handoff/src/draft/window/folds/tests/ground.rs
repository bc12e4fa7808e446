//! What a draft is checked against: the thread, what the person said about the draft, and what is proven of the summary
//! the thread began with.

use protocol::{
    Coverage, Handoff, HandoffId, HandoffStatus, HandoffSummary, ItemKind, Proposal, SCHEMA_VERSION,
    SummaryItem,
};
use runtime::{Frame, Item as StreamItem, Subscription};

use super::*;

fn item(text: &str) -> SummaryItem {
    SummaryItem {
        kind: ItemKind::Progress,
        text: text.to_owned(),
        refs: Vec::new(),
        verified: true,
        unfound: Vec::new(),
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
        tokens_used: 0,
        iteration: 0,
        created_at: Timestamp::UNIX_EPOCH,
        coverage: Coverage::default(),
        carry_over: protocol::CarryOver::default(),
    }
}

impl Journal {
    /// Makes the thread the child of a handoff that was accepted with `summary`.
    async fn inherit(&self, summary: HandoffSummary) {
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
            summary_md: crate::render(&summary),
            summary_json: summary,
            summary_sha256: accepted,
            feedback: None,
            created_at: Timestamp::UNIX_EPOCH,
        };
        self.commit(Write::PutProposal(proposal)).await;
    }

    /// Returns the names of `text` that a draft which says it is flagged for.
    async fn flagged(&self, folds: &Folds, text: &str, words: &[&str]) -> Vec<String> {
        let known = self.known(folds, None).await;
        known.selection(INPUT_TOKENS_MAX);
        let mut summary = summary(&[text]);
        known.ground(self.reading(), &mut summary, None, words).await.unwrap();
        summary.body.remove(0).unfound
    }
}

#[tokio::test]
async fn m6_what_was_unverified_once_stays_so_however_often_it_is_handed_over() {
    let mut inherited = summary(&["src/real.rs is done.", "src/invented.rs is next.", "`unclear_name` too."]);
    for (at, unfound) in [(1, vec!["src/invented.rs".to_owned()]), (2, Vec::new())] {
        (inherited.body[at].verified, inherited.body[at].unfound) = (false, unfound);
    }
    for lines in [&["U: Go on.", "A: Done."][..], &[][..]] {
        let journal = Journal::of(lines).await;
        journal.inherit(inherited.clone()).await;
        let folds = Folds::default();
        let text = "See src/real.rs, src/invented.rs, `unclear_name`, src/title.rs and src/tldr.rs.";
        for _ in 0..2 {
            let flagged = journal.flagged(&folds, text, &[]).await;
            assert_eq!(flagged, ["src/invented.rs", "unclear_name", "src/title.rs", "src/tldr.rs"]);
        }
        let known = journal.known(&folds, None).await;
        assert!(
            known
                .selection(INPUT_TOKENS_MAX)
                .summary_so_far
                .contains("src/invented.rs is next. (unverified)")
        );
        let (told, _) = known.extract(2_000);
        let told = crate::render::markdown(&told.title, &told.tldr, &told.body);
        assert!(!told.contains("invented") && !told.contains("unclear_name"), "{told}");
    }
    let journal = Journal::of(&["U: Create src/invented.rs."]).await;
    journal.inherit(inherited).await;
    let flagged = journal.flagged(&Folds::default(), "See src/invented.rs.", &[]).await;
    assert_eq!(flagged, [""; 0], "what is said in the thread proves it");
}

#[tokio::test]
async fn m6_what_the_person_said_about_the_draft_is_a_source() {
    let journal = Journal::of(&["U: Fix it.", "A: Done."]).await;
    let words = ["also mention src/a.rs", "and not `parse_all` but `parse_one`"];
    let text = "src/a.rs has parse_one; src/b.rs has not.";
    assert_eq!(journal.flagged(&Folds::default(), text, &words).await, ["src/b.rs"]);
    assert_eq!(journal.flagged(&Folds::default(), text, &[]).await, ["src/a.rs", "parse_one", "src/b.rs"]);
}

#[tokio::test]
async fn m6_what_segue_counted_or_noted_of_the_thread_proves_nothing() {
    let mut lines = vec!["U: Fix it.".to_owned()];
    for at in 0..1_180 {
        lines.push(format!("C: c{at} Bash {{\"command\": \"ls {}\"}}", "x".repeat(90)));
        lines.push(format!("T: c{at} ok"));
    }
    let journal = Journal::of(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let folds = Folds::default();
    let shown = journal.known(&folds, None).await.selection(INPUT_TOKENS_MAX);
    assert!(shown.events.contains("Bash ×1180") && shown.requests.contains("(last request, pending)"));
    let text = "1180 calls in the [1180] `Assistant` of `User`, `pending`.";
    let flagged = journal.flagged(&folds, text, &[]).await;
    assert_eq!(flagged, ["1180", "Assistant", "User", "pending"]);
}

/// Returns how often the reading of a page for a check was told.
fn pages(told: &mut Subscription) -> usize {
    let frames = std::iter::from_fn(|| told.try_next());
    let is_check = |item: &StreamItem| {
        let StreamItem::Frame(_, frame) = item else { return false };
        matches!(&**frame, Frame::Progress { what, .. } if what == "check the draft")
    };
    frames.filter(is_check).count()
}

#[tokio::test]
async fn a_name_that_is_nowhere_is_looked_for_once() {
    let lines: Vec<String> = (0..FOLD_PAGE_ROWS * 2 + 3).map(|at| format!("U: Do thing {at}.")).collect();
    let mut journal = Journal::of(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let (frames, mut told) = Frames::channel();
    journal.frames = frames;
    let folds = Folds::default();
    let checked = async |journal: &Journal, text: &str| journal.flagged(&folds, text, &[]).await;
    assert_eq!(checked(&journal, "See src/a.rs and src/b.rs.").await, ["src/a.rs", "src/b.rs"]);
    assert!(pages(&mut told) > 1, "all of it is read");
    journal.add(&["N:", "A: Done."]).await;
    for text in ["See src/b.rs and src/a.rs.", "See src/a.rs and src/b.rs."] {
        assert_eq!(checked(&journal, text).await.len(), 2);
    }
    assert_eq!(checked(&journal, "See src/b.rs.").await, ["src/b.rs"]);
    journal.add(&["A: I made src/b.rs."]).await;
    assert_eq!(checked(&journal, "See src/a.rs and src/b.rs.").await, ["src/a.rs"]);
    assert_eq!(checked(&journal, "See src/a.rs.").await, ["src/a.rs"]);
    assert_eq!(pages(&mut told), 0, "only what is new is read");
    assert_eq!(checked(&journal, "See src/a.rs and src/c.rs.").await, ["src/a.rs", "src/c.rs"]);
    assert!(pages(&mut told) > 1, "another name may be anywhere");
}

#[tokio::test]
async fn m6_a_name_is_flagged_again_when_what_had_it_was_taken_back() {
    let journal = Journal::of(&["U: Begin.", "A: Working."]).await;
    let folds = Folds::default();
    let text = "See src/a.rs.";
    assert_eq!(journal.flagged(&folds, text, &[]).await, ["src/a.rs"]);
    journal.add(&["U: Make src/a.rs."]).await;
    assert_eq!(journal.flagged(&folds, text, &[]).await, [""; 0]);
    journal.rewind(2).await;
    assert_eq!(journal.flagged(&folds, text, &[]).await, ["src/a.rs"]);
    journal.rewind(1).await;
    journal.add(&["A: src/a.rs is there.", "A: Done."]).await;
    assert_eq!(journal.flagged(&folds, text, &[]).await, [""; 0]);
}
