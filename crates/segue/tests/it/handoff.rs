//! Handing off without a terminal: flags, decision files, and what each leaves behind.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Asks for a handoff of the session and leaves it pending.
fn pending(sandbox: &Sandbox) -> Value {
    let ended = sandbox.run(&["handoff", &sandbox.session(), "--json"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let report = ended.json();
    assert_eq!(report["outcome"], "pending");
    report
}

fn decide(sandbox: &Sandbox, report: &Value, decision: &Value) -> crate::sandbox::Ended {
    let file = sandbox.file("decision.json", json!({"decisions": [decision]}).to_string());
    sandbox.run(&["handoff", report["thread_id"].as_str().unwrap(), "--decision-file", &file, "--json"])
}

fn assert_pending(sandbox: &Sandbox, report: &Value) {
    let again = sandbox.run(&["handoff", report["thread_id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(again["outcome"], "pending");
    assert_eq!(again["summary_sha256"], report["summary_sha256"]);
    assert_eq!(again["handoff"]["handoff_id"], report["handoff"]["handoff_id"]);
    assert_eq!(sandbox.agent_md(), None);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g15_a_preview_shows_the_summary_and_leaves_no_thread_and_no_block() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.session(), "--preview", "--json"]);
    assert_eq!(report["outcome"], "previewed");
    assert_eq!(report["child_thread_id"], Value::Null);
    assert_eq!(report["handoff"]["status"], "previewed");
    assert_eq!(report["coverage"]["first_seq"], 1);
    assert!(report["summary_md"].as_str().unwrap().contains("### Objective"));
    assert_eq!(sandbox.threads().len(), 1);
    assert_eq!(sandbox.agent_md(), None);
}

#[test]
fn g1_an_accept_without_asking_stores_and_injects_the_bytes_that_were_shown() {
    let sandbox = Sandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.session(), "do the backoff", "--apply", "--json"]);
    assert_eq!(report["outcome"], "accepted");
    assert_eq!(report["handoff"]["accepted_sha256"], report["summary_sha256"]);
    assert_eq!(report["handoff"]["goal"], "do the backoff");
    let block = sandbox.agent_md().unwrap();
    assert!(block.contains(report["summary_md"].as_str().unwrap().trim()), "{block}");
    let child = report["child_thread_id"].as_str().unwrap();
    assert!(sandbox.threads().iter().any(|thread| thread["thread_id"] == child));
    let next: Vec<&str> = report["next_command"].as_str().unwrap().split_whitespace().collect();
    assert_eq!(next[..3], ["segue", "chat", "-t"]);
    assert!(child.starts_with(next[3]), "{next:?}");
}

#[test]
fn a_handoff_nobody_can_decide_prints_the_summary_and_waits() {
    let sandbox = Sandbox::new();
    let ended = sandbox.run(&["handoff", &sandbox.session()]);
    assert_eq!(ended.code, 3);
    for part in [
        "Objective",
        "Covers ",
        " events: ",
        "offline extract",
        "the handoff waits. Come back with: segue handoff",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\u{1b}'), "no colour where no terminal is");
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ended.stdout);
    assert_eq!(ended.stderr, "");
}

#[test]
fn m1_a_decision_from_a_file_accepts_what_was_shown_by_another_process() {
    let sandbox = Sandbox::new();
    let report = pending(&sandbox);
    let decision = json!({"type": "approve", "summary_sha256": report["summary_sha256"]});
    let accepted = decide(&sandbox, &report, &decision);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    let accepted = accepted.json();
    assert_eq!(accepted["outcome"], "accepted");
    assert_eq!(accepted["summary_sha256"], report["summary_sha256"]);
    assert_eq!(accepted["summary_md"], report["summary_md"]);
}

#[test]
fn a_file_can_decline_edit_or_preview() {
    let edited = "**Mine**\nShort.\n\n### Objective\n- only this\n";
    let json =
        json!({"title": "Mine", "tldr": "Short.", "body": [{"kind": "objective", "text": "only this"}]});
    let edit =
        |args: Value| json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}});
    let cases = [
        (json!({"type": "reject", "message": "no"}), "declined"),
        (json!({"type": "preview"}), "previewed"),
        (json!({"type": "approve", "args": {"summary_md": edited}}), "accepted"),
        (edit(json!({"summary_json": json})), "accepted"),
    ];
    for (decision, outcome) in cases {
        let sandbox = Sandbox::new();
        let report = pending(&sandbox);
        let ended = decide(&sandbox, &report, &decision);
        assert_eq!(ended.code, 0, "{decision}: {ended:?}");
        let decided = ended.json();
        assert_eq!(decided["outcome"], outcome, "{decision}");
        assert_eq!(decided["child_thread_id"].is_null(), outcome != "accepted");
        if outcome == "accepted" {
            assert_eq!(decided["summary_json"]["title"], "Mine");
            assert!(sandbox.agent_md().unwrap().contains("only this"));
        }
    }
}

#[test]
fn g3_a_decision_that_cannot_be_taken_leaves_the_handoff_pending() {
    let refine =
        json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": {"feedback": "  "}}});
    let cases = [
        (json!({"type": "accept"}).to_string(), "read the decision"),
        (json!({"type": "approve", "summary_sha256": "00"}).to_string(), "summary_sha256"),
        (refine.to_string(), "feedback is empty"),
        ("{}".to_owned(), "read the decision"),
    ];
    let sandbox = Sandbox::new();
    let report = pending(&sandbox);
    let thread = report["thread_id"].as_str().unwrap();
    for (decision, what) in cases {
        let file = sandbox.file("decision.json", format!("{{\"decisions\":[{decision}]}}"));
        sandbox.run(&["handoff", thread, "--decision-file", &file]).assert_told(2, what);
        assert_pending(&sandbox, &report);
    }
    sandbox
        .run_with(&["handoff", thread, "--decision-file", "-"], "no json")
        .assert_told(2, "read the decision");
    sandbox.run(&["handoff", thread, "--decision-file", "/nowhere.json"]).assert_told(2, "/nowhere.json");
    assert_pending(&sandbox, &report);
}

#[test]
fn g20_a_second_decision_is_a_conflict_that_names_the_outcome() {
    let sandbox = Sandbox::new();
    let report = pending(&sandbox);
    let first = decide(&sandbox, &report, &json!({"type": "approve"}));
    assert_eq!(first.code, 0);
    // The same thread can be handed off again; that is another handoff with its own decision.
    let again = sandbox.run(&["handoff", report["thread_id"].as_str().unwrap(), "--json"]).json();
    assert_ne!(again["handoff"]["handoff_id"], report["handoff"]["handoff_id"]);
}

#[test]
fn a_preview_of_a_handoff_that_waits_does_not_end_it() {
    let sandbox = Sandbox::new();
    let report = pending(&sandbox);
    let looked = sandbox.json(&["handoff", report["thread_id"].as_str().unwrap(), "--preview", "--json"]);
    assert_eq!(looked["outcome"], "pending");
    assert_pending(&sandbox, &report);
}

#[test]
fn a_session_can_come_from_standard_input_and_cover_only_the_newest_messages() {
    let sandbox = Sandbox::new();
    let session = crate::sandbox::session();
    let ended = sandbox.run_with(&["handoff", "-", "--messages", "3", "--preview", "--json"], &session);
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.json();
    assert_eq!(report["import"]["threads"][0]["events_new"], report["import"]["threads"][0]["events_total"]);
    let ranges = |how: &str| report["coverage"][how].as_array().unwrap().clone();
    let count = |how: &str| -> u64 {
        ranges(how).iter().map(|range| range[1].as_u64().unwrap() + 1 - range[0].as_u64().unwrap()).sum()
    };
    // The first request is always in.
    assert!(count("verbatim") + count("summarized") + count("truncated") <= 4, "{}", report["coverage"]);
}

#[test]
fn a_failure_in_json_is_one_object_on_stderr() {
    let sandbox = Sandbox::new();
    for args in [&["handoff", "0192", "--json"][..], &["handoff", "--json", "--nonsense"][..]] {
        let ended = sandbox.run(args);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert_eq!(ended.stdout, "");
        let told: Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!((&told["error"]["code"], &told["error"]["exit_code"]), (&json!("usage"), &json!(2)));
        assert!(told["error"]["message"].as_str().unwrap().starts_with("failed to "), "{told}");
        assert!(told["error"]["hint"].is_string(), "{told}");
    }
}

#[test]
fn the_newest_session_of_an_agent_on_this_machine_is_found() {
    let sandbox = Sandbox::new();
    sandbox.run(&["handoff", "--latest"]).assert_told(2, "find a session");
    let folder = sandbox.work().parent().unwrap().join("user/.claude/projects/-srv-kettle");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.jsonl"), crate::sandbox::session()).unwrap();
    let report = sandbox.json(&["handoff", "--latest", "fix", "it", "--preview", "--json"]);
    assert_eq!(report["handoff"]["goal"], "fix it");
    let found = sandbox.json(&["import", "--discover", "--json"]);
    assert_eq!(found["sessions"].as_array().unwrap().len(), 1, "{found}");
}

#[test]
fn the_example_of_the_readme_is_handed_off_offline() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flaky-test.jsonl");
    if !std::path::Path::new(example).exists() {
        println!("skipped: {example} is not there");
        return;
    }
    let sandbox = Sandbox::new();
    let report = sandbox.json(&["handoff", example, "--apply", "--json"]);
    assert_eq!(report["outcome"], "accepted");
    assert_eq!(report["summary_json"]["model"], "extractive");
    assert_eq!(report["import"]["problems"].as_array().unwrap().len(), 0);
}
