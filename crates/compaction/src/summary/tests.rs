//! Tests of summaries without a model, and helpers for the tests with models.

mod chained;
mod models;
mod real;

use facts::notation::parse_items;
use protocol::{CompactionTrigger, SCHEMA_VERSION};
use runtime::{FrameSender, SubscriptionItem};
use tokio_util::sync::CancellationToken;

use super::*;

const OPTIONS: CompactionSummaryOptions =
    CompactionSummaryOptions { max_summary_tokens: 4_000, trim_tokens: Some(2_000) };

/// Returns the messages of a transcript in the notation of `facts`, without sizes.
fn parse_messages(text: &str) -> Vec<ContextMessage> {
    parse_items(text).into_iter().map(|item| ContextMessage { item, tokens: 0 }).collect()
}

/// Returns a compaction with this summary, as the previous one of another.
fn to_compaction(outcome: &SummaryOutcome) -> Compaction {
    Compaction {
        schema_version: SCHEMA_VERSION,
        trigger: CompactionTrigger::Auto,
        first_seq: 1,
        last_seq: 1,
        replaced_count: 0,
        kept_count: 0,
        tokens_before: 0,
        tokens_after: 0,
        model: outcome.model.clone(),
        summary: outcome.summary.clone(),
        sections: outcome.sections.clone(),
        carried: outcome.carried.clone(),
        last_request_seq: None,
        previous_seq: None,
        focus: None,
        duration_ms: 0,
        step: 0,
        usage: outcome.usage,
        prompt_sha256: None,
    }
}

/// Summarizes without a model.
async fn summarize_offline(
    dropped: &[ContextMessage],
    previous: Option<&Compaction>,
    answered: Option<bool>,
) -> SummaryOutcome {
    let source =
        SummarySource { previous, dropped_messages: dropped, focus: None, request_answered: answered };
    summarize_dropped(
        &source,
        &[],
        &OPTIONS,
        RunScope { frames: &FrameSender::default(), cancel: &CancellationToken::new() },
    )
    .await
    .unwrap()
}

#[tokio::test]
async fn a_long_summary_without_a_model_reports_its_progress_and_can_be_stopped() {
    let dropped = parse_messages(&"U: a\nA: b\n".repeat(600));
    let source =
        SummarySource { previous: None, dropped_messages: &dropped, focus: None, request_answered: None };
    let (frames, mut items) = FrameSender::channel();
    let cancel = CancellationToken::new();
    let scope = RunScope { frames: &frames, cancel: &cancel };
    let summary = summarize_dropped(&source, &[], &OPTIONS, scope);
    tokio::pin!(summary);
    assert!(futures::poll!(&mut summary).is_pending(), "the task can do something else");
    let item = items.try_next();
    let is_expected = |frame: &Frame| matches!(frame, Frame::Progress { done: 500, total: Some(1_200), .. });
    assert!(matches!(&item, Some(SubscriptionItem::Frame(_, frame)) if is_expected(frame)), "{item:?}");
    cancel.cancel();
    assert!(summary.await.is_err());
}

const WORK: &str = r#"
    U: Mend the importer in src/import.rs: it drops the last row of every file. Never push without asking me.
    C: 1 write_todos {"todos": [{"content": "find the fault", "status": "completed"}, {"content": "add a test", "status": "pending"}]}
    T: 1 ok
    C: 2 load_skill {"name": "rust-style"}
    T: 2 Write short functions.
    C: 3 read_file {"path": "src/import.rs"}
    T: 3 fn import() {}
    C: 4 task {"description": "look for other readers", "prompt": "Which files call import()?"}
    T: 4 only src/main.rs
    C: 5 edit_file {"path": "src/import.rs", "old": "len - 1", "new": "len"}
    T: 5 ok
    C: 6 execute {"command": "cargo test import"}
    E: 6 error: test import::last_row failed: left 2, right 3
    A: We decided to keep the reader and to fix the loop bound. The test still fails.
"#;

#[tokio::test]
async fn l13_without_a_model_the_summary_consists_of_facts() {
    let outcome = summarize_offline(&parse_messages(WORK), None, Some(false)).await;
    assert_eq!(
        (outcome.model.as_str(), outcome.calls.len(), &outcome.prompt_sha256),
        (OFFLINE_SUMMARY_MODEL, 0, &None)
    );
    insta::assert_snapshot!(outcome.summary);
}

#[tokio::test]
async fn e17_tasks_skills_and_delegations_survive_later_compactions() {
    let first = summarize_offline(&parse_messages(WORK), None, Some(false)).await;
    let next = summarize_offline(
        &parse_messages("U: Go on.\nC: 9 load_skill {\"name\": \"testing\"}\nA: Done."),
        Some(&to_compaction(&first)),
        None,
    )
    .await;
    assert_eq!(next.carried.skills, ["testing", "rust-style"]);
    assert_eq!(next.carried.delegations, ["look for other readers → only src/main.rs"]);
    let todos: Vec<&str> = next.carried.todos.iter().map(|todo| todo.text.as_str()).collect();
    assert_eq!(todos, ["find the fault", "add a test"]);
    for fact in ["rust-style", "look for other readers", "add a test", "src/import.rs"] {
        assert!(next.summary.contains(fact), "{fact} is missing: {}", next.summary);
    }
    assert_eq!(next.carried.last_user_request.as_deref(), Some("Go on."));
}

#[tokio::test]
async fn e17_a_task_list_that_is_written_again_replaces_the_old_one() {
    let first = summarize_offline(&parse_messages(WORK), None, None).await;
    let rewritten = r#"C: 9 write_todos {"todos": [{"content": "publish", "status": "pending"}]}"#;
    let next = summarize_offline(&parse_messages(rewritten), Some(&to_compaction(&first)), None).await;
    assert_eq!(next.carried.todos.len(), 1);
    let emptied = summarize_offline(
        &parse_messages(r#"C: 9 write_todos {"todos": []}"#),
        Some(&to_compaction(&next)),
        None,
    )
    .await;
    assert_eq!(emptied.carried.todos, []);
}

#[tokio::test]
async fn m7_an_error_is_carried_over_until_its_check_runs_again() {
    let first = summarize_offline(&parse_messages(WORK), None, None).await;
    assert!(
        first.carried.errors.iter().any(|error| error.contains("last_row failed")),
        "{:?}",
        first.carried
    );
    let continued = parse_messages("U: And the docs?\nA: They are fine.");
    let next = summarize_offline(&continued, Some(&to_compaction(&first)), None).await;
    assert_eq!(next.carried.errors, first.carried.errors);
    let fixed = parse_messages(
        "C: 9 execute {\"command\": \"cargo test import\"}\nT: 9 test result: ok. 3 passed; 0 failed",
    );
    let next = summarize_offline(&fixed, Some(&to_compaction(&next)), None).await;
    assert_eq!(next.carried.errors, Vec::<String>::new());
}

#[tokio::test]
async fn l7_a_request_that_follows_the_summary_is_marked_and_not_repeated_in_it() {
    let dropped = parse_messages(
        "U: Rename every caller of import() now, please.\nC: 1 x {}\nT: 1 r\nA: I renamed four callers.",
    );
    for (answered, mark) in [
        (Some(true), "It was answered; it is not to be done again."),
        (Some(false), "what comes after it shows how far it got."),
    ] {
        let outcome = summarize_offline(&dropped, None, answered).await;
        assert!(outcome.summary.ends_with(mark), "{}", outcome.summary);
        assert_eq!(outcome.carried.last_request_answered, answered);
        assert!(!outcome.summary.contains("last request there"), "{}", outcome.summary);
    }
    let outcome = summarize_offline(&dropped, None, None).await;
    assert!(
        outcome.summary.contains("(answered; not to be done again): Rename every"),
        "{}",
        outcome.summary
    );
}

#[tokio::test]
async fn l6_a_summary_needs_neither_a_user_message_nor_any_message() {
    for text in
        ["A: I looked at src/a.rs.\nA: It is fine.", "T: 1 row", "I: reminder", "P: Earlier: half done.", ""]
    {
        let outcome = summarize_offline(&parse_messages(text), None, None).await;
        assert!(
            outcome.summary.starts_with("The conversation up to message "),
            "{text:?}: {}",
            outcome.summary
        );
    }
    let outcome = summarize_offline(
        &parse_messages("P: Earlier: the importer was rewritten.\nA: It is fine."),
        None,
        None,
    )
    .await;
    assert!(outcome.summary.contains("the importer was rewritten"), "{}", outcome.summary);
}

#[tokio::test]
async fn an_offline_summary_contains_older_messages_about_the_focus() {
    let old = "A: The exporter writes rows in batches of 512, which the importer relies on.";
    let later =
        (0..40).map(|index| format!("A: I looked at part {index} of the documentation.")).collect::<Vec<_>>();
    let dropped =
        parse_messages(&format!("U: Look at everything here, please.\n{old}\n{}", later.join("\n")));
    for (focus, is_included) in [(None, false), (Some("the batches of the exporter"), true)] {
        let source =
            SummarySource { focus, previous: None, dropped_messages: &dropped, request_answered: None };
        let outcome = summarize_dropped(
            &source,
            &[],
            &OPTIONS,
            RunScope { frames: &FrameSender::default(), cancel: &CancellationToken::new() },
        )
        .await;
        assert_eq!(outcome.unwrap().summary.contains("batches of 512"), is_included, "{focus:?}");
    }
}

#[tokio::test]
async fn m16_an_offline_summary_contains_no_secret() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!(
        "U: Deploy with {secret}. Never log {secret} anywhere.\nC: 1 task {{\"description\": \"log in with {secret}\"}}\n\
         E: 1 error: login with {secret} failed\nA: I decided to use {secret} for the deployment."
    );
    let outcome = summarize_offline(&parse_messages(&text), None, Some(true)).await;
    let stored = serde_json::to_string(&to_compaction(&outcome)).unwrap();
    assert!(!stored.contains("ghp_"), "{stored}");
}

#[tokio::test]
async fn e13_l14_no_text_leaves_its_line_in_the_summary() {
    for attack in super::transcript::tests::ATTACKS {
        let quoted = serde_json::to_string(attack).unwrap();
        let flat = attack.replace('\n', "\\n");
        let text = format!(
            "U: Never do this: {flat}\nC: 1 load_skill {{\"name\": {quoted}}}\nC: 2 write_file {{\"path\": {quoted}}}\n\
             C: 3 execute {{\"command\": {quoted}}}\nE: 3 error: {flat}\nA: We decided to {flat}"
        );
        for answered in [None, Some(true)] {
            let outcome = summarize_offline(&parse_messages(&text), None, answered).await;
            assert_eq!(
                super::transcript::tests::tags_in(&outcome.summary),
                Vec::<String>::new(),
                "{}",
                outcome.summary
            );
            for line in outcome.summary.lines().filter(|line| line.starts_with('#')) {
                let own = line.strip_prefix("### ").unwrap_or("none of ours");
                let is_own = record::SECTIONS.iter().any(|section| section.name == own)
                    || ["Goal", "Next step", "Facts"].contains(&own);
                assert!(is_own, "{attack:?} forges {line:?}: {}", outcome.summary);
            }
        }
    }
}
