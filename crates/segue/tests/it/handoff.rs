//! `segue handoff` without a terminal: flags, decision files, and their effects.

mod agent_requested;
mod demo;
mod draft_model;
mod growth;
mod interrupted_acceptance;
mod mirror;
mod preview;
mod recall;
mod review;

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use test_model::{Script, ScriptedFault, ScriptedReply, ScriptedServer};

use crate::sandbox::{ProgramOutput, TestSandbox};
use crate::terminal::PtyTerminal;

/// Returns the `edit` decision with these arguments.
pub fn edit_decision(args: Value) -> Value {
    json!({"type": "edit", "edited_action": {"name": "handoff_summary", "args": args}})
}

/// Returns a draft as a model answers it, with this title. It names only things that the session contains.
pub fn summary_draft(title: &str) -> ScriptedReply {
    let item = |kind: &str, text: &str, seq: u64| json!({"kind": kind, "text": text, "refs": [seq]});
    let body = [
        item("objective", "Find out why `retries_after_timeout` fails now and then.", 1),
        item("decision", "Never raise the timeout.", 1),
        item("next_step", "Do the same in src/backoff.rs.", 11),
    ];
    ScriptedReply::text(json!({"title": title, "tldr": "The clock is passed in.", "body": body}).to_string())
}

/// Requests a handoff of the session and leaves it pending.
pub fn leave_pending_handoff(sandbox: &TestSandbox) -> Value {
    let output = sandbox.run(&["handoff", &sandbox.write_session(), "--json"]);
    assert_eq!(output.code, 3, "{output:?}");
    let report = output.json();
    assert_eq!(report["outcome"], "pending");
    report
}

fn decide_handoff(sandbox: &TestSandbox, report: &Value, decision: &Value) -> ProgramOutput {
    let file = sandbox.write_file("decision.json", json!({"decisions": [decision]}).to_string());
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    sandbox.run(&["handoff", "--decide", id, "--decision-file", &file, "--json"])
}

fn assert_pending(sandbox: &TestSandbox, report: &Value) {
    let again = sandbox.run(&["handoff", report["thread_id"].as_str().unwrap(), "--json"]).json();
    assert_eq!(again["outcome"], "pending");
    assert_eq!(again["summary_sha256"], report["summary_sha256"]);
    assert_eq!(again["handoff"]["handoff_id"], report["handoff"]["handoff_id"]);
    assert_eq!(sandbox.read_agent_md(), None);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn g15_a_preview_shows_the_summary_and_leaves_no_thread_and_no_block() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--preview", "--json"]);
    assert_eq!(report["outcome"], "previewed");
    assert_eq!(report["child_thread_id"], Value::Null);
    assert_eq!(report["handoff"]["status"], "previewed");
    assert_eq!(report["coverage"]["first_seq"], 1);
    assert!(report["summary_md"].as_str().unwrap().contains("### Objective"));
    assert_eq!(sandbox.threads().len(), 0);
    assert_eq!(sandbox.read_agent_md(), None);
}

#[test]
fn g1_an_accept_without_asking_stores_and_injects_the_bytes_that_were_shown() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "do the backoff", "--apply", "--json"]);
    assert_eq!(report["outcome"], "accepted");
    assert_eq!(report["handoff"]["accepted_sha256"], report["summary_sha256"]);
    assert_eq!(report["handoff"]["goal"], "do the backoff");
    assert_eq!(report["summary_json"]["schema_version"], 2);
    assert_eq!(report["package_md"], report["summary_md"], "readers of version 1 find the same text");
    let files = &report["summary_json"]["carried"]["files"];
    assert!(!files["changed"].as_array().unwrap().is_empty() && files["deleted"].is_array(), "{report}");
    let block = sandbox.read_agent_md().unwrap();
    assert!(block.contains(report["summary_md"].as_str().unwrap().trim()), "{block}");
    let child = report["child_thread_id"].as_str().unwrap();
    assert!(sandbox.threads().iter().any(|thread| thread["thread_id"] == child));
    let next: Vec<&str> = report["next_command"].as_str().unwrap().split_whitespace().collect();
    assert_eq!(next[..3], ["segue", "chat", "-t"]);
    assert!(child.starts_with(next[3]), "{next:?}");
}

#[test]
fn a_handoff_without_a_terminal_prints_the_summary_and_stays_pending() {
    let sandbox = TestSandbox::new();
    let output = sandbox.run(&["handoff", &sandbox.write_session()]);
    assert_eq!(output.code, 3);
    for part in [
        "Objective",
        " messages: ",
        "offline summary",
        "the handoff is pending. Decide with:\n  segue handoff --decide ",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    assert!(!output.stdout.contains('\u{1b}'), "no colour where no terminal is");
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
    assert_eq!(output.stderr, "");
}

#[test]
fn m1_the_interrupt_of_a_replaced_draft_does_not_decide_about_its_successor() {
    let sandbox = TestSandbox::new();
    let first = leave_pending_handoff(&sandbox);
    let own = first["package_md"].as_str().unwrap().replace("### Objective\n", "### Objective\n- Unseen.\n");
    let save = json!({"type": "edit", "edited_action": {"name": "handoff_summary",
        "args": {"package_md": own, "save_draft": true}}});
    let second = decide_handoff(&sandbox, &first, &save).json();
    assert_ne!(first["interrupt_id"], second["interrupt_id"], "{second}");
    let file = sandbox.write_file("accept.json", json!({"decisions": [{"type": "approve"}]}).to_string());
    let old = first["interrupt_id"].as_str().unwrap();
    for arguments in [&["--decision-file", file.as_str()][..], &["--apply"]] {
        let output = sandbox.run(&[&["handoff", "--decide", old][..], arguments, &["--json"]].concat());
        assert_eq!(output.code, 1, "{output:?}");
        assert!(output.stderr.contains("draft 2"), "{output:?}");
    }
    assert_eq!(sandbox.read_agent_md(), None);
    let current = second["interrupt_id"].as_str().unwrap();
    assert_eq!(sandbox.run(&["handoff", "--decide", current, "--apply", "--json"]).code, 0);
}

#[test]
fn m1_a_decision_from_a_file_accepts_what_was_shown_by_another_process() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let decision = json!({"type": "approve", "summary_sha256": report["summary_sha256"]});
    let accepted = decide_handoff(&sandbox, &report, &decision);
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
        let sandbox = TestSandbox::new();
        let report = leave_pending_handoff(&sandbox);
        let output = decide_handoff(&sandbox, &report, &decision);
        assert_eq!(output.code, 0, "{decision}: {output:?}");
        let decided = output.json();
        assert_eq!(decided["outcome"], outcome, "{decision}");
        assert_eq!(decided["child_thread_id"].is_null(), outcome != "accepted");
        if outcome == "accepted" {
            assert_eq!(decided["summary_json"]["title"], "Mine");
            assert!(sandbox.read_agent_md().unwrap().contains("only this"));
        }
    }
}

#[test]
fn an_unreadable_decision_file_fails_before_the_session_is_imported() {
    let sandbox = TestSandbox::new();
    let session = sandbox.write_session();
    sandbox.run(&["handoff", &session, "--decision-file", "/nowhere.json"]).assert_error(2, "/nowhere.json");
    sandbox.run(&["handoff", &session, "--decision-file", "/dev/zero"]).assert_error(2, "more than 8 MiB");
    sandbox
        .run_with(&["handoff", &session, "--decision-file", "-"], "no json")
        .assert_error(2, "read the decision");
    assert_eq!(sandbox.threads().len(), 0, "nothing was imported");
}

#[test]
fn g20_a_second_decision_is_a_conflict_that_names_the_outcome() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    assert_eq!(decide_handoff(&sandbox, &report, &json!({"type": "approve"})).code, 0);
    let second = decide_handoff(&sandbox, &report, &json!({"type": "reject"}));
    assert_eq!(second.code, 1, "{second:?}");
    let report_text: Value = serde_json::from_str(&second.stderr).unwrap();
    assert_eq!(report_text["error"]["code"], "conflict");
    assert!(
        report_text["error"]["message"].as_str().unwrap().contains("it is accepted already"),
        "{report_text}"
    );
    // The same thread can be handed off again. This is another handoff with its own decision.
    let again = sandbox.run(&["handoff", report["thread_id"].as_str().unwrap(), "--json"]).json();
    assert_ne!(again["handoff"]["handoff_id"], report["handoff"]["handoff_id"]);
}

#[test]
fn g19_a_file_refines_reverts_and_redrafts_and_each_proposal_is_reported() {
    let server = ScriptedServer::start(Script::new(["One", "Two", "Three"].map(summary_draft))).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let first = leave_pending_handoff(&sandbox);
    let steps = [
        (json!({"feedback": "Name the file."}), "Two", 2, 1),
        (json!({"revert_to": 0}), "One", 2, 0),
        (json!({"redraft": {}}), "Three", 2, 0),
    ];
    let mut interrupts = vec![first["interrupt_id"].clone()];
    for (n, (args, title, left, feedback)) in steps.into_iter().enumerate() {
        let output = decide_handoff(&sandbox, &first, &edit_decision(args.clone()));
        assert_eq!(output.code, 3, "{args}: {output:?}");
        let report = output.json();
        assert_eq!(
            (&report["outcome"], &report["iteration"]),
            (&json!("pending"), &json!(n + 1)),
            "{report}"
        );
        assert_eq!(report["summary_json"]["title"], title, "{args}");
        assert_eq!(report["remaining_refinements"], left, "{args}");
        assert_eq!(report["handoff"]["handoff_id"], first["handoff"]["handoff_id"]);
        assert_eq!(report["feedback_history"].as_array().unwrap().len(), feedback.max(1), "{report}");
        assert!(!interrupts.contains(&report["interrupt_id"]), "{args}: a new question");
        interrupts.push(report["interrupt_id"].clone());
    }
    assert_eq!(server.call_count(), 3);
    let offline =
        decide_handoff(&sandbox, &first, &edit_decision(json!({"redraft": {"model": "extractive"}}))).json();
    assert_eq!(offline["summary_json"]["model"], "extractive");
    assert_eq!((sandbox.threads().len(), sandbox.read_agent_md(), server.call_count()), (1, None, 3));

    let id = first["handoff"]["handoff_id"].as_str().unwrap();
    let shown = sandbox.json(&["handoff", "--show", id, "--json"]);
    let titles: Vec<&Value> = shown["proposals"].as_array().unwrap().iter().collect();
    assert_eq!((titles.len(), &shown["current_iteration"]), (5, &json!(4)));
    assert_eq!(titles[2]["summary_md"], titles[0]["summary_md"], "a revert proposes the same bytes");
    let accepted = decide_handoff(&sandbox, &first, &json!({"type": "approve"})).json();
    assert_eq!(accepted["summary_sha256"], offline["summary_sha256"]);
    assert!(sandbox.read_agent_md().unwrap().contains(offline["summary_md"].as_str().unwrap().trim()));
}

#[test]
fn g4_an_outdated_draft_is_drafted_again_by_an_option_and_by_a_file() {
    let answer = ScriptedReply::text("Go on.");
    let server =
        ScriptedServer::start(Script::new([summary_draft("One"), answer, summary_draft("Two")])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let first = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (first["handoff"]["handoff_id"].as_str().unwrap(), first["thread_id"].as_str().unwrap());
    let refused = sandbox.run(&["handoff", "--decide", id, "--redraft"]);
    refused.assert_error(2, "the draft covers all messages");
    let alone = sandbox.run(&["handoff", thread, "--redraft"]);
    assert!(alone.code == 2 && alone.stderr.contains("--decide <ID>"), "{alone:?}");
    assert_eq!(sandbox.run(&["run", "-t", thread, "-p", "And the backoff?"]).code, 0);

    let shown = sandbox.run(&["handoff", "--decide", id]);
    assert!(shown.stdout.contains("2 newer messages are not covered: `n` redrafts with them."), "{shown:?}");
    let output = sandbox.run(&["handoff", "--decide", id, "--redraft", "--json"]);
    assert_eq!(output.code, 3, "{output:?}");
    let report = output.json();
    assert_eq!(
        (&report["iteration"], &report["uncovered_messages"], &report["remaining_refinements"]),
        (&json!(1), &json!(0), &first["remaining_refinements"])
    );
    assert_eq!((&report["summary_json"]["title"], server.call_count()), (&json!("Two"), 3));
    let old = json!({"type": "approve", "summary_sha256": first["summary_sha256"]});
    let late = decide_handoff(&sandbox, &first, &old);
    assert!(late.code == 1 && late.stderr.contains("draft 2 has replaced it"), "{late:?}");
    let accepted = decide_handoff(&sandbox, &first, &json!({"type": "approve"})).json();
    assert_eq!(accepted["summary_sha256"], report["summary_sha256"]);
}

#[test]
fn g5_a_refinement_that_fails_keeps_the_last_good_proposal_and_says_why() {
    let broken = ScriptedReply { always: true, ..ScriptedReply::fault(ScriptedFault::BrokenJson) };
    let server = ScriptedServer::start(Script::new([summary_draft("One"), broken])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let first = leave_pending_handoff(&sandbox);
    let output = decide_handoff(&sandbox, &first, &edit_decision(json!({"feedback": "Shorter."})));
    assert_eq!(output.code, 3, "{output:?}");
    let report = output.json();
    assert_eq!(report["summary_json"]["title"], "One");
    assert!(report["problem"].as_str().unwrap().starts_with("summarization failed: "), "{report}");
    assert_eq!(report["unused_feedback"], "Shorter.");
}

#[test]
fn pending_handoffs_are_listed_and_each_is_shown_with_all_its_drafts() {
    let sandbox = TestSandbox::new();
    assert!(sandbox.run(&["handoff", "--list"]).stdout.contains("No handoff is pending."));
    let report = leave_pending_handoff(&sandbox);
    let (id, thread) =
        (report["handoff"]["handoff_id"].as_str().unwrap(), report["thread_id"].as_str().unwrap());
    let fork = sandbox.json(&["threads", "fork", thread, "--json"]);
    assert_eq!(sandbox.run(&["handoff", fork["thread_id"].as_str().unwrap()]).code, 3);
    decide_handoff(&sandbox, &report, &edit_decision(json!({"redraft": {"model": "extractive"}})));

    let listed = sandbox.json(&["handoff", "--list", "--json"]);
    let threads: Vec<&Value> = listed.as_array().unwrap().iter().map(|one| &one["thread_id"]).collect();
    assert_eq!(threads, [&fork["thread_id"], &report["thread_id"]], "newest first");
    assert_eq!(
        (&listed[1]["handoff_id"], &listed[1]["status"], &listed[1]["iteration"]),
        (&report["handoff"]["handoff_id"], &json!("awaiting_decision"), &json!(1))
    );
    assert_eq!(listed[1]["title"], report["summary_json"]["title"]);
    assert!(listed[1]["age_seconds"].as_i64().unwrap() < 600, "{listed}");
    let output = sandbox.run(&["handoff", "--list", "--model", "anthropic/x"]);
    let rows: Vec<&str> = output.stdout.lines().collect();
    assert!(rows.len() == 3 && rows[0].starts_with("ID") && rows[2].contains("pending"), "{output:?}");
    let short = rows[2].split_whitespace().next().unwrap();
    assert!(id.starts_with(short), "{output:?}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{output:?}");

    let shown = sandbox.run(&["handoff", "--show", short]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in ["Handoff ", "Objective", "draft 2 (current)", "--draft N", "segue handoff --decide "] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let earlier = sandbox.run(&["handoff", "--show", short, "--draft", "1"]);
    assert!(earlier.stdout.contains("▸ draft 1  first draft"), "{earlier:?}");
    // The id of an interrupt names its handoff even after it was answered.
    let by_interrupt =
        sandbox.json(&["handoff", "--show", report["interrupt_id"].as_str().unwrap(), "--json"]);
    assert_eq!(by_interrupt["handoff"]["handoff_id"], id);
    assert_eq!(
        (by_interrupt["outcome"].as_str(), by_interrupt["pending"].is_object()),
        (Some("pending"), true)
    );

    let declined = sandbox.run_with(
        &["handoff", "--decide", short, thread, "--decision-file", "-", "--json"],
        r#"{"decisions":[{"type":"reject","message":"too early"}]}"#,
    );
    assert_eq!((declined.code, &declined.json()["outcome"]), (0, &json!("declined")));
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]).as_array().unwrap().len(), 1);
    let shown = sandbox.run(&["handoff", "--show", id]);
    assert!(shown.stdout.contains("declined") && shown.stdout.contains("note: too early"), "{shown:?}");
    assert!(!shown.stdout.contains("Decide with"), "{shown:?}");
}

#[test]
fn g19_a_pending_handoff_is_reviewed_in_a_terminal_by_its_id() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let terminal = PtyTerminal::start(&sandbox, 80, &["handoff", "--decide", id]);
    let screen = terminal.wait_for("[Esc] Decide later");
    assert!(screen.contains("and is still pending") && screen.contains("Objective"), "{screen}");
    terminal.press_keys("a\r");
    let (code, screen) = terminal.end();
    assert!(code == 0 && screen.contains("Continue with: segue chat -t "), "{screen}");
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g20_of_several_concurrent_decisions_one_wins_and_the_others_are_refused() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let decline = sandbox.write_file("decline.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    let accepts = ["handoff", "--decide", id, "--apply"];
    let declines = ["handoff", "--decide", id, "--decision-file", &decline];
    let start =
        |args: &[&str]| sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = [start(&accepts), start(&declines), start(&accepts), start(&declines)];
    let output = running.map(|child| ProgramOutput::from(child.wait_with_output().unwrap()));
    assert_eq!(output.iter().filter(|one| one.code == 0).count(), 1, "{output:?}");
    for late in output.iter().filter(|one| one.code != 0) {
        assert_eq!(late.code, 1, "{late:?}");
        let reasons = [" already", "a run is working on it", "another process has an active run in it"];
        assert!(reasons.iter().any(|reason| late.stderr.contains(reason)), "{late:?}");
    }
    let is_accepted = output[0].code == 0 || output[2].code == 0;
    assert_eq!(sandbox.threads().len(), if is_accepted { 2 } else { 1 });
}

#[test]
fn the_chat_has_the_command_under_both_names() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let thread = report["thread_id"].as_str().unwrap();
    for line in ["/handoff --preview\n", "/threads handoff --preview\n"] {
        let chat = sandbox.run_with(&["chat", "-t", thread], line);
        assert!(chat.stdout.contains("Objective"), "{line}: {chat:?}");
        assert!(chat.stdout.contains("The handoff is pending"), "{line}: {chat:?}");
    }
}

#[test]
fn plain_mode_is_selected_by_an_environment_variable() {
    let mut sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    sandbox.set_variable("SEGUE_PLAIN", "1");
    let id = report["handoff"]["handoff_id"].as_str().unwrap();
    let terminal = PtyTerminal::start(&sandbox, 80, &["handoff", "--decide", id, "--color", "always"]);
    terminal.wait_for("Choose a key");
    terminal.press_keys("a\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}') && printed.contains("Accepted."), "{printed:?}");
}

#[test]
fn conflicting_options_are_refused() {
    let sandbox = TestSandbox::new();
    for args in [
        &["handoff"][..],
        &["handoff", "--list", "last"],
        &["handoff", "--list", "--apply"],
        &["handoff", "--list", "--show", "01"],
        &["handoff", "--show", "01", "--decide", "01"],
        &["handoff", "--show", "01", "--preview"],
        &["handoff", "--decide", "01", "--messages", "3"],
        &["handoff", "--decide", "01", "last", "a", "goal"],
        &["handoff", "--decide", "01", "--apply", "--preview"],
        &["handoff", "last", "--draft", "1"],
        &["recall", "last"],
        &["recall", "last", "words", "--from", "1"],
        &["recall", "last", "--to", "1"],
    ] {
        let output = sandbox.run(args);
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{args:?}: {output:?}");
        assert!(!sandbox.home().exists(), "{args:?}: {output:?}");
    }
}

/// Returns every decision on the documentation page for scripts, in its order.
fn documented_decisions() -> Vec<Value> {
    let page = include_str!("../../../../docs/src/decisions.md");
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_decision_on_the_page_for_scripts_is_accepted() {
    let decisions = documented_decisions();
    assert!(decisions.len() > 10, "{decisions:?}");
    for mut decision in decisions {
        let server =
            ScriptedServer::start(Script::new([ScriptedReply { always: true, ..summary_draft("One") }]))
                .unwrap();
        let sandbox = TestSandbox::new().with_model(&server);
        let report = leave_pending_handoff(&sandbox);
        if decision.to_string().contains("revert_to") {
            assert_eq!(decide_handoff(&sandbox, &report, &edit_decision(json!({"redraft": {}}))).code, 3);
        }
        if decision["summary_sha256"].is_string() {
            decision["summary_sha256"] = report["summary_sha256"].clone();
        }
        let is_draft = ["feedback", "revert_to", "redraft", "save_draft"]
            .iter()
            .any(|key| !decision["edited_action"]["args"][key].is_null());
        let output = decide_handoff(&sandbox, &report, &decision);
        assert_eq!(output.code, if is_draft { 3 } else { 0 }, "{decision}: {output:?}");
    }
}

#[test]
fn a_preview_leaves_a_pending_handoff_pending() {
    let sandbox = TestSandbox::new();
    let report = leave_pending_handoff(&sandbox);
    let looked = sandbox.json(&["handoff", report["thread_id"].as_str().unwrap(), "--preview", "--json"]);
    assert_eq!(looked["outcome"], "pending");
    assert_pending(&sandbox, &report);
}

#[test]
fn a_session_can_come_from_standard_input_and_cover_only_the_newest_messages() {
    let sandbox = TestSandbox::new();
    let session = crate::sandbox::sample_session();
    let output = sandbox.run_with(&["handoff", "-", "--messages", "3", "--preview", "--json"], &session);
    assert_eq!(output.code, 0, "{output:?}");
    let report = output.json();
    assert_eq!(report["import"]["threads"][0]["events_new"], report["import"]["threads"][0]["events_total"]);
    let ranges = |how: &str| report["coverage"][how].as_array().unwrap().clone();
    let count = |how: &str| -> u64 {
        ranges(how).iter().map(|range| range[1].as_u64().unwrap() + 1 - range[0].as_u64().unwrap()).sum()
    };
    // The first user message is always included.
    assert!(count("verbatim") + count("summarized") + count("truncated") <= 4, "{}", report["coverage"]);
}

#[test]
fn a_failure_in_json_is_one_object_on_stderr() {
    let sandbox = TestSandbox::new();
    for args in [&["handoff", "0192", "--json"][..], &["handoff", "--json", "--nonsense"][..]] {
        let output = sandbox.run(args);
        assert_eq!(output.code, 2, "{output:?}");
        assert_eq!(output.stdout, "");
        let report: Value = serde_json::from_str(&output.stderr).unwrap();
        assert_eq!((&report["error"]["code"], &report["error"]["exit_code"]), (&json!("usage"), &json!(2)));
        assert!(report["error"]["message"].as_str().unwrap().starts_with("failed to "), "{report}");
        assert!(report["error"]["hint"].is_string(), "{report}");
    }
}

#[test]
fn the_newest_session_of_an_agent_on_this_machine_is_found() {
    let sandbox = TestSandbox::new();
    sandbox.run(&["handoff", "--latest"]).assert_error(2, "find a session");
    let folder = sandbox.work_folder().parent().unwrap().join("user/.claude/projects/-srv-kettle");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.jsonl"), crate::sandbox::sample_session()).unwrap();
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
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", example, "--apply", "--json"]);
    assert_eq!(report["outcome"], "accepted");
    assert_eq!(report["summary_json"]["model"], "extractive");
    assert_eq!(report["import"]["problems"].as_array().unwrap().len(), 0);
}

#[test]
fn an_update_without_a_terminal_reports_the_lines_that_wait_for_a_decision() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let child = report["child_thread_id"].as_str().unwrap();
    let parent = report["thread_id"].as_str().unwrap();
    let unchanged = sandbox.run(&["handoff", "update", child]);
    assert_eq!(unchanged.code, 0, "{unchanged:?}");
    // A newer request in the parent makes the line with the last request stale. No model answers it.
    sandbox.run(&["run", "-t", parent, "-p", "Leave the test, and use less memory."]);
    let open = sandbox.run(&["handoff", "update", child]);
    assert_eq!(open.code, 3, "{open:?}");
    let text = open.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("1 line contradicted by later work waits for a decision."), "{open:?}");
    let json = sandbox.run(&["handoff", "update", child, "--json"]);
    assert_eq!(
        (json.code, json.json()["packages"][0]["stale"].as_array().unwrap().len()),
        (3, 1),
        "{json:?}"
    );
    assert_eq!(sandbox.run(&["handoff", "update", child, "--apply"]).code, 0);
    assert_eq!(sandbox.run(&["handoff", "update", child]).code, 0);
}

#[test]
fn a_second_accept_of_the_same_thread_into_a_child_is_refused_with_the_reason() {
    let sandbox = TestSandbox::new();
    let report = sandbox.json(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let child = report["child_thread_id"].as_str().unwrap();
    let other =
        sandbox.write_file("other.jsonl", crate::sandbox::sample_session().replace("retries", "repeats"));
    let args = ["handoff", &other, "--into", child, "--apply"];
    let start = || sandbox.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let racers = [start(), start()].map(|process| process.wait_with_output().unwrap());
    assert_eq!(racers.iter().filter(|output| output.status.success()).count(), 1, "{racers:?}");
    // The loser is refused because the winner has the package in or still has a run in the parent.
    for output in racers.iter().filter(|output| !output.status.success()) {
        let problem = match output.status.code() {
            Some(2) => "it has a summary of the same thread already",
            _ => "another process has an active run in it",
        };
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(problem), "{error}");
    }
    sandbox.run(&args).assert_error(2, "it has a summary of the same thread already");
}

#[test]
fn an_accepted_handoff_whose_block_cannot_be_written_says_so_in_json() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.home().join("agents/agent/agent.md")).unwrap();
    let output = sandbox.run(&["handoff", &sandbox.write_session(), "--apply", "--json"]);
    let report = output.json();
    assert_eq!((output.code, &report["outcome"]), (0, &json!("accepted")), "{output:?}");
    let problem = report["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("it is not a regular file. The new thread still gets its summary."), "{report}");
}
