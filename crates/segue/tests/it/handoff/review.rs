//! The review in a terminal: what is shown fits, nothing is decided by accident, and each answer does what it says.

mod own;

use std::fs;

use serde_json::json;
use test_model::{Fault, Reply, Script, Server};

use crate::sandbox::Sandbox;
use crate::terminal::Terminal;

const QUESTION: &str = "[Esc] Decide later";

fn ask(sandbox: &Sandbox, columns: u16) -> (Terminal, String) {
    let terminal = Terminal::start(sandbox, columns, &["handoff", &sandbox.session()]);
    let screen = terminal.wait_for(QUESTION);
    (terminal, screen)
}

/// A draft as a model answers it, of one sentence for each of three kinds.
fn draft(tldr: &str, next: &str) -> Reply {
    let item = |kind: &str, text: &str| json!({"kind": kind, "text": text, "refs": [1]});
    let body = [
        item("objective", "Find why `retries_after_timeout` fails now and then."),
        item("decision", "Never raise the timeout."),
        item("next_step", next),
    ];
    Reply::text(json!({"title": "Mend the retry test", "tldr": tldr, "body": body}).to_string())
        .tokens(1200, 34)
}

fn with_drafts(replies: impl IntoIterator<Item = Reply>) -> (Sandbox, Server) {
    let server = Server::start(Script::new(replies)).unwrap();
    (Sandbox::new().with_model(&server), server)
}

/// Answers with a key, once the question stands.
fn answer(terminal: &Terminal, key: &str) {
    terminal.wait_for(QUESTION);
    terminal.keys(&format!("{key}\r"));
}

#[test]
fn g5_a_person_sees_the_whole_summary_and_accepts_it_with_one_key() {
    for columns in [80, 120] {
        let sandbox = Sandbox::new();
        let (terminal, screen) = ask(&sandbox, columns);
        for part in [
            "Handoff of ",
            "Objective",
            " messages: ",
            "Carried over as facts:",
            "offline extract",
            "[a] Accept",
            "[e] Edit",
            "[D] Decline",
            "[d] Diff",
        ] {
            assert!(screen.contains(part), "{part} at {columns} columns:\n{screen}");
        }
        terminal.keys("a\r");
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(screen.contains("Accepted.") && screen.contains("Go on with: segue chat -t "), "{screen}");
        assert_eq!(sandbox.threads().len(), 2);
    }
}

#[test]
fn g5_enter_alone_decides_nothing_and_escape_leaves_it_pending() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("\r\r y");
    terminal.keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("the handoff waits. Come back with:"), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    let (terminal, screen) = ask(&sandbox, 80);
    assert!(screen.contains("and still waits"), "{screen}");
    terminal.keys("\t");
    terminal.wait_for("▸[a] Accept");
    terminal.keys("\r");
    assert_eq!(terminal.end().0, 0);
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g15_declining_asks_why_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("d\r");
    terminal.wait_for("There is no earlier draft to compare this one with.");
    answer(&terminal, "D");
    terminal.wait_for("Reason (Enter for none)");
    terminal.keys("too vague\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Declined. Nothing was changed"), "{screen}");
    assert_eq!(sandbox.threads().len(), 1);
    assert_eq!(sandbox.agent_md(), None);
}

#[test]
fn control_c_leaves_the_handoff_pending() {
    let sandbox = Sandbox::new();
    let (terminal, _) = ask(&sandbox, 80);
    terminal.keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
}

#[test]
fn m8_refining_shows_what_changed_and_an_earlier_draft_comes_back_as_it_was() {
    let (sandbox, server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft("The clock is passed in.", "Pass the clock in src/backoff.rs, and run the whole suite."),
    ]);
    let (terminal, screen) = ask(&sandbox, 60);
    assert!(screen.contains("3 refinements are left.") && screen.contains("took 1234 tokens"), "{screen}");
    assert!(screen.contains("[D] Decline") && screen.contains("[d] Diff"), "{screen}");
    answer(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.keys("\r");
    terminal.wait_for("There is no feedback yet");
    terminal.keys("name the suite\r");
    let screen = terminal.wait_for("Changed: Next steps (+1 -1).");
    assert!(screen.contains("2 refinements are left.") && screen.contains("draft 2"), "{screen}");
    assert!(server.requests()[1].body.to_string().contains("name the suite"));
    answer(&terminal, "d");
    terminal.wait_until("both versions", |screen| {
        [
            "Draft 1 (-) and draft 2 (+):",
            "- - Do the same in src/backoff.rs.",
            "+ - Pass the clock in src/backoff.rs",
        ]
        .iter()
        .all(|part| screen.contains(part))
    });
    answer(&terminal, "l");
    terminal.wait_for("verbatim: read whole");
    answer(&terminal, "u");
    terminal.wait_for("Go back to");
    terminal.keys("\r");
    terminal.wait_for("draft 3");
    assert_eq!(server.calls(), 2, "going back asks no model");
    answer(&terminal, "a");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    let block = sandbox.agent_md().unwrap();
    assert!(block.contains("- Do the same in src/backoff.rs.") && !block.contains("whole suite"), "{block}");
}

#[test]
fn m6_a_name_that_was_never_said_is_marked_and_named() {
    let (sandbox, _server) =
        with_drafts([draft("The clock is passed in.", "Do the same in src/invented_file.rs.")]);
    let (terminal, screen) = ask(&sandbox, 60);
    assert!(screen.contains("Do the same in src/invented_file.rs. (unverified)"), "{screen}");
    let told = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("! unverified: not in the covered messages: src/invented_file.rs"), "{screen}");
    terminal.keys("\x1b");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn m8_what_another_client_had_refined_is_shown_before_it_can_be_accepted() {
    let (sandbox, _server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft("The clock is passed in.", "Run the whole suite."),
    ]);
    let (terminal, _) = ask(&sandbox, 100);
    let id = sandbox.json(&["handoff", "--list", "--json"])[0]["handoff_id"].as_str().unwrap().to_owned();
    let file = refinement(&sandbox, "name the suite");
    assert_eq!(sandbox.run(&["handoff", "--decide", &id, "--decision-file", &file]).code, 3);
    answer(&terminal, "a");
    terminal.wait_for("Changed: Next steps (+1 -1).");
    assert_eq!(sandbox.threads().len(), 1, "the old text is not accepted, nor the new one unseen");
    answer(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
    assert!(sandbox.agent_md().unwrap().contains("Run the whole suite."));
}

#[test]
fn a_draft_that_failed_says_why_and_each_way_out_works() {
    let fault = || Reply::text("I cannot write JSON today.");
    let (sandbox, server) = with_drafts([
        fault(),
        fault(),
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        Reply::fault(Fault::Status { status: 400, headers: Default::default(), body: "{}".to_owned() }),
    ]);
    let (terminal, screen) = ask(&sandbox, 80);
    // Above the proposal, and again above the keys.
    assert_eq!(screen.matches("summarization failed: ").count(), 2, "{screen}");
    for way in [
        "[t] Try again",
        "[m] Another model",
        "Accept the offline extract",
        "Continue without a summary",
        "[D] Decline (stay here)",
    ] {
        assert!(screen.contains(way), "{way}: {screen}");
    }
    answer(&terminal, "t");
    terminal.wait_until("the second failure", |screen| {
        let after = screen.rsplit("→ Try again").next().unwrap_or_default();
        after.len() < screen.len() && after.contains("summarization failed: ") && after.contains(QUESTION)
    });
    answer(&terminal, "t");
    terminal.wait_for("Drafted by anthropic/");
    // A refinement that fails leaves the last good draft, and its feedback for the next one.
    answer(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.keys("shorter please\r");
    terminal.wait_for("Shown is the last proposal, as it was. Not worked in yet: shorter please");
    answer(&terminal, "x");
    terminal.wait_until("the extract", |screen| {
        let after = screen.rsplit("→ Offline extract").next().unwrap_or_default();
        let is_answered = after.len() < screen.len();
        is_answered && after.contains("Written by the offline extract") && after.contains(QUESTION)
    });
    assert_eq!(server.calls(), 4);
    terminal.keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
}

#[test]
fn feedback_that_was_not_worked_in_stands_in_the_next_asking_until_it_is() {
    let (sandbox, server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        Reply::text("no"),
        draft("The clock is passed in.", "Run the whole suite."),
    ]);
    let (terminal, _) = ask(&sandbox, 100);
    let asked = |times: usize, text: &str| {
        terminal.wait_until("the feedback", |screen| screen.matches(text).count() == times);
    };
    answer(&terminal, "r");
    asked(1, "Feedback> ");
    terminal.keys("name the suite\r");
    terminal.wait_for("Not worked in yet: name the suite");
    answer(&terminal, "r");
    asked(2, "Feedback> name the suite");
    terminal.keys(", please\r");
    terminal.wait_for("Changed: ");
    assert!(server.requests()[2].body.to_string().contains("name the suite, please"));
    answer(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

/// Writes the file of an answer that refines.
fn refinement(sandbox: &Sandbox, feedback: &str) -> String {
    let action = json!({"name": "handoff_summary", "args": {"feedback": feedback}});
    let decisions = json!({"decisions": [{"type": "edit", "edited_action": action}]});
    sandbox.file("decision.json", decisions.to_string())
}

#[test]
fn what_cannot_be_taken_while_another_client_works_is_asked_again_and_the_feedback_is_kept() {
    let (sandbox, _server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        Reply::fault(Fault::Hang),
    ]);
    let (terminal, _) = ask(&sandbox, 100);
    let listed = || sandbox.json(&["handoff", "--list", "--json"])[0].clone();
    let id = listed()["handoff_id"].as_str().unwrap().to_owned();
    let file = refinement(&sandbox, "by someone else");
    let mut other =
        sandbox.command(&["handoff", "--decide", &id, "--decision-file", &file, "--json"]).spawn().unwrap();
    while listed()["status"] != "drafting" {}
    answer(&terminal, "r");
    terminal.wait_for("Feedback> ");
    terminal.keys("name the suite\r");
    terminal.wait_for("Your feedback is kept: Refine begins with it.");
    answer(&terminal, "r");
    terminal.wait_for("Feedback> name the suite");
    terminal.keys("\x1b");
    terminal.wait_until("the question again", |screen| {
        screen.matches("→ Refine").count() == 2 && screen.contains(QUESTION)
    });
    terminal.keys("\x1b");
    let (code, screen) = terminal.end();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("Your feedback was not worked in:\n  name the suite"), "{screen}");
}

#[test]
fn m1_feedback_on_what_another_client_has_decided_is_shown_before_the_review_ends() {
    let (sandbox, _server) =
        with_drafts([draft("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    let (terminal, _) = ask(&sandbox, 100);
    let id = sandbox.json(&["handoff", "--list", "--json"])[0]["handoff_id"].as_str().unwrap().to_owned();
    let file = sandbox.file("decision.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    assert_eq!(sandbox.run(&["handoff", "--decide", &id, "--decision-file", &file]).code, 0);
    answer(&terminal, "r");
    terminal.wait_for("Feedback> ");
    terminal.keys("name the suite\r");
    let (code, screen) = terminal.end();
    assert_eq!(code, 1, "{screen}");
    assert!(screen.contains("Your feedback was not worked in:\n  name the suite"), "{screen}");
    assert!(screen.contains("it is declined already"), "{screen}");
}

#[test]
fn another_model_is_named_and_drafts() {
    let (sandbox, server) =
        with_drafts([Reply::text("no"), draft("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    let (terminal, _) = ask(&sandbox, 80);
    answer(&terminal, "m");
    terminal.wait_for("Draft with");
    terminal.keys("\x1b[B\r");
    terminal.wait_for("Model> anthropic/");
    terminal.keys("claude-haiku-4-5\r");
    terminal.wait_for("Drafted by anthropic/claude-haiku-4-5");
    assert_eq!(server.requests()[1].body["model"], "claude-haiku-4-5");
    answer(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_models_name_can_be_typed_where_models_are_chosen() {
    let (sandbox, server) =
        with_drafts([Reply::text("no"), draft("The clock is passed in.", "Do the same in src/backoff.rs.")]);
    let (terminal, _) = ask(&sandbox, 80);
    answer(&terminal, "m");
    terminal.wait_for("Draft with");
    terminal.keys("anthropic/claude-other\r");
    terminal.wait_for("Drafted by anthropic/claude-other");
    assert_eq!(server.requests()[1].body["model"], "claude-other");
    answer(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn g5_at_the_cap_refine_is_not_offered_and_it_says_why() {
    let (sandbox, _server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft("The clock is passed in.", "Run the whole suite."),
    ]);
    fs::create_dir_all(sandbox.home()).unwrap();
    fs::write(sandbox.home().join("config.toml"), "[handoff]\nmax_refinements = 1\n").unwrap();
    let (terminal, screen) = ask(&sandbox, 80);
    assert!(screen.contains("1 refinement is left."), "{screen}");
    answer(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.keys("\x1b");
    terminal
        .wait_until("the question again", |screen| screen.contains("→ Refine") && screen.contains(QUESTION));
    terminal.keys("r\r");
    terminal.wait_until("the second asking", |screen| screen.matches("Feedback> ").count() == 2);
    terminal.keys("name the suite\r");
    terminal.wait_for("No refinement is left: ");
    let screen = terminal.wait_for(QUESTION);
    assert!(!screen.contains("[r] Refine") && screen.contains("[u] Earlier draft"), "{screen}");
    answer(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn going_on_without_a_summary_declines_and_says_how() {
    let (sandbox, _server) = with_drafts([Reply::text("no")]);
    let (terminal, _) = ask(&sandbox, 80);
    answer(&terminal, "s");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("A blank thread begins with: segue chat"), "{screen}");
    assert_eq!((sandbox.threads().len(), sandbox.agent_md()), (1, None));
}

#[test]
fn control_c_while_drafting_leaves_nothing_behind() {
    let (sandbox, _server) = with_drafts([Reply::fault(Fault::Hang)]);
    let terminal = Terminal::start(&sandbox, 80, &["handoff", &sandbox.session()]);
    terminal.wait_for("draft with anthropic/");
    terminal.keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("Stopped; nothing was left behind.") && !screen.contains("failed"), "{screen}");
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]));
}

#[test]
fn a_refinement_that_is_stopped_leaves_the_draft_as_it_was() {
    let (sandbox, _server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        Reply::fault(Fault::Hang),
    ]);
    let (terminal, _) = ask(&sandbox, 80);
    answer(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.keys("shorter\r");
    terminal.wait_for("draft with anthropic/");
    terminal.keys("\x03");
    terminal.wait_for("Stopped; the proposal stays as it was shown.");
    answer(&terminal, "a");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
}

#[test]
fn in_plain_mode_nothing_is_drawn_over_and_questions_are_answered_by_the_line() {
    let (sandbox, _server) = with_drafts([
        draft("The clock is passed in.", "Do the same in src/backoff.rs."),
        draft("The clock is passed in.", "Run the whole suite."),
    ]);
    let terminal = Terminal::start(&sandbox, 60, &["--plain", "handoff", &sandbox.session()]);
    let line = "Choose a key, Enter for none> ";
    terminal.wait_for(line.trim_end());
    terminal.keys("accept the risk of it\n");
    terminal.wait_for("That is none of the keys.");
    terminal.keys("r\n");
    terminal.wait_for("Feedback>");
    terminal.keys("name the suite\n");
    terminal.wait_until("the question again", |screen| {
        let after = screen.rsplit("Changed: Next steps (+1 -1).").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(line.trim_end())
    });
    terminal.keys("d\n");
    terminal.wait_until("the question after the difference", |screen| {
        let after = screen.rsplit("Draft 1 (-) and draft 2 (+):").next().unwrap_or_default();
        after.len() < screen.len() && after.contains(line.trim_end())
    });
    terminal.keys("accept\n");
    let (code, printed) = terminal.end_printed();
    assert_eq!(code, 0, "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
    assert!(!printed.contains("You typed meanwhile") && printed.contains("Accepted."), "{printed}");
}

#[test]
fn a_deletion_is_asked_about_and_escape_keeps_the_thread() {
    let sandbox = Sandbox::new();
    sandbox.run(&["import", &sandbox.session()]);
    for (key, left) in [("\x1b", 1), ("n\r", 1), ("y\r", 0)] {
        let terminal = Terminal::start(&sandbox, 80, &["threads", "delete", "last"]);
        terminal.wait_for("[y] Delete");
        terminal.keys(key);
        assert_eq!(terminal.end().0, 0);
        assert_eq!(sandbox.threads().len(), left);
    }
}
