//! Summaries without a model, and what the tests with one share.

mod chained;
mod models;
mod real;

use facts::notation::items;
use protocol::{CompactionTrigger, SCHEMA_VERSION};
use runtime::Frames;
use tokio_util::sync::CancellationToken;

use super::*;

const OPTIONS: Options = Options { max_summary_tokens: 4_000, trim_tokens: Some(2_000) };

fn units(text: &str) -> Vec<Unit> {
    items(text).into_iter().map(|item| Unit { item, tokens: 0 }).collect()
}

fn stored(told: &Told) -> Compaction {
    Compaction {
        schema_version: SCHEMA_VERSION,
        trigger: CompactionTrigger::Auto,
        first_seq: 1,
        last_seq: 1,
        replaced_count: 0,
        kept_count: 0,
        tokens_before: 0,
        tokens_after: 0,
        model: told.model.clone(),
        summary: told.summary.clone(),
        sections: told.sections.clone(),
        carry_over: told.carry_over.clone(),
        last_request_seq: None,
        previous_seq: None,
        focus: None,
        duration_ms: 0,
        step: 0,
        usage: told.usage,
        prompt_sha256: None,
    }
}

async fn extracted(dropped: &[Unit], previous: Option<&Compaction>, answered: Option<bool>) -> Told {
    let source = Source { previous, dropped, focus: None, answered };
    summarise(
        &source,
        &[],
        &OPTIONS,
        RunScope { frames: &Frames::default(), cancel: &CancellationToken::new() },
    )
    .await
    .unwrap()
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
async fn l13_without_a_model_the_summary_is_an_extract_of_facts() {
    let told = extracted(&units(WORK), None, Some(false)).await;
    assert_eq!((told.model.as_str(), told.calls.len(), &told.prompt_sha256), (EXTRACTIVE, 0, &None));
    insta::assert_snapshot!(told.summary);
}

#[tokio::test]
async fn e17_tasks_skills_and_delegations_outlive_the_next_compactions() {
    let first = extracted(&units(WORK), None, Some(false)).await;
    let next = extracted(
        &units("U: Go on.\nC: 9 load_skill {\"name\": \"testing\"}\nA: Done."),
        Some(&stored(&first)),
        None,
    )
    .await;
    assert_eq!(next.carry_over.skills, ["testing", "rust-style"]);
    assert_eq!(next.carry_over.delegations, ["look for other readers"]);
    let todos: Vec<&str> = next.carry_over.todos.iter().map(|todo| todo.text.as_str()).collect();
    assert_eq!(todos, ["find the fault", "add a test"]);
    for fact in ["rust-style", "look for other readers", "add a test", "src/import.rs"] {
        assert!(next.summary.contains(fact), "{fact} is missing: {}", next.summary);
    }
    assert_eq!(next.carry_over.last_user_request.as_deref(), Some("Go on."));
}

#[tokio::test]
async fn e17_a_task_list_that_is_written_anew_takes_the_place_of_the_old_one() {
    let first = extracted(&units(WORK), None, None).await;
    let anew = r#"C: 9 write_todos {"todos": [{"content": "publish", "status": "pending"}]}"#;
    let next = extracted(&units(anew), Some(&stored(&first)), None).await;
    assert_eq!(next.carry_over.todos.len(), 1);
    let emptied = extracted(&units(r#"C: 9 write_todos {"todos": []}"#), Some(&stored(&next)), None).await;
    assert_eq!(emptied.carry_over.todos, []);
}

#[tokio::test]
async fn m7_an_error_is_carried_until_its_check_was_run_again() {
    let first = extracted(&units(WORK), None, None).await;
    assert!(
        first.carry_over.errors.iter().any(|error| error.contains("last_row failed")),
        "{:?}",
        first.carry_over
    );
    let goes_on = units("U: And the docs?\nA: They are fine.");
    let next = extracted(&goes_on, Some(&stored(&first)), None).await;
    assert_eq!(next.carry_over.errors, first.carry_over.errors);
    let mended =
        units("C: 9 execute {\"command\": \"cargo test import\"}\nT: 9 test result: ok. 3 passed; 0 failed");
    let next = extracted(&mended, Some(&stored(&next)), None).await;
    assert_eq!(next.carry_over.errors, Vec::<String>::new());
}

#[tokio::test]
async fn l7_a_request_that_follows_is_marked_and_told_once() {
    let dropped = units(
        "U: Rename every caller of import() now, please.\nC: 1 x {}\nT: 1 r\nA: I renamed four callers.",
    );
    for (answered, mark) in [
        (Some(true), "It was answered; it is not to be done again."),
        (Some(false), "what comes after it shows how far it got."),
    ] {
        let told = extracted(&dropped, None, answered).await;
        assert!(told.summary.ends_with(mark), "{}", told.summary);
        assert_eq!(told.carry_over.last_request_answered, answered);
        assert!(!told.summary.contains("last request there"), "{}", told.summary);
    }
    let told = extracted(&dropped, None, None).await;
    assert!(told.summary.contains("(answered; not to be done again): Rename every"), "{}", told.summary);
}

#[tokio::test]
async fn l6_a_window_without_a_human_message_or_without_anything_gives_a_summary() {
    for text in
        ["A: I looked at src/a.rs.\nA: It is fine.", "T: 1 row", "I: reminder", "P: Earlier: half done.", ""]
    {
        let told = extracted(&units(text), None, None).await;
        assert!(told.summary.starts_with("The conversation up to message "), "{text:?}: {}", told.summary);
    }
    let told = extracted(&units("P: Earlier: the importer was rewritten.\nA: It is fine."), None, None).await;
    assert!(told.summary.contains("the importer was rewritten"), "{}", told.summary);
}

#[tokio::test]
async fn without_a_model_what_a_person_wants_kept_is_looked_for_in_what_is_older() {
    let old = "A: The exporter writes rows in batches of 512, which the importer relies on.";
    let later =
        (0..40).map(|at| format!("A: I looked at part {at} of the documentation.")).collect::<Vec<_>>();
    let dropped = units(&format!("U: Look at everything here, please.\n{old}\n{}", later.join("\n")));
    for (focus, is_told) in [(None, false), (Some("the batches of the exporter"), true)] {
        let source = Source { focus, previous: None, dropped: &dropped, answered: None };
        let told = summarise(
            &source,
            &[],
            &OPTIONS,
            RunScope { frames: &Frames::default(), cancel: &CancellationToken::new() },
        )
        .await;
        assert_eq!(told.unwrap().summary.contains("batches of 512"), is_told, "{focus:?}");
    }
}

#[tokio::test]
async fn m16_a_secret_outlives_no_extract() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let text = format!(
        "U: Deploy with {secret}. Never log {secret} anywhere.\nC: 1 task {{\"description\": \"log in with {secret}\"}}\n\
         E: 1 error: login with {secret} failed\nA: I decided to use {secret} for the deployment."
    );
    let told = extracted(&units(&text), None, Some(true)).await;
    let kept = serde_json::to_string(&stored(&told)).unwrap();
    assert!(!kept.contains("ghp_"), "{kept}");
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
            let told = extracted(&units(&text), None, answered).await;
            assert_eq!(
                super::transcript::tests::tags(&told.summary),
                Vec::<String>::new(),
                "{}",
                told.summary
            );
            for line in told.summary.lines().filter(|line| line.starts_with('#')) {
                let own = line.strip_prefix("### ").unwrap_or("none of ours");
                let is_own = record::SECTIONS.iter().any(|section| section.name == own)
                    || ["Goal", "Next step", "Facts"].contains(&own);
                assert!(is_own, "{attack:?} forges {line:?}: {}", told.summary);
            }
        }
    }
}
