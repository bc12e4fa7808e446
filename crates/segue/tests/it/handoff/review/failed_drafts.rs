//! The review after a draft failed or was stopped: the reason and each way on are shown, and nothing is lost.

use serde_json::json;
use test_model::{ScriptedFault, ScriptedReply};

use super::{QUESTION, answer_question, draft_reply, start_review, start_with_replies, wait_for_sentence};
use crate::terminal::PtyTerminal;

#[test]
fn a_failed_draft_reports_the_reason_and_each_choice_works() {
    let fault = || ScriptedReply::text("I cannot write JSON today.");
    let (sandbox, server) = start_with_replies([
        fault(),
        fault(),
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        ScriptedReply::fault(ScriptedFault::Status {
            status: 400,
            headers: Default::default(),
            body: "{}".to_owned(),
        }),
    ]);
    let (terminal, screen) = start_review(&sandbox, 80);
    // The error is shown above the proposal, and again above the keys.
    assert_eq!(screen.matches("summarization failed: ").count(), 2, "{screen}");
    for way in [
        "[t] Try again",
        "[m] Another model",
        "Accept the offline summary",
        "Continue without a summary",
        "[D] Decline (stay here)",
    ] {
        assert!(screen.contains(way), "{way}: {screen}");
    }
    answer_question(&terminal, "t");
    terminal.wait_until("the second failure", |screen| {
        let after = screen.rsplit("→ Try again").next().unwrap_or_default();
        after.len() < screen.len() && after.contains("summarization failed: ") && after.contains(QUESTION)
    });
    answer_question(&terminal, "t");
    terminal.wait_for("Drafted by anthropic/");
    // A failed refinement keeps the last valid draft, and its feedback is included in the next
    // refinement.
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.press_keys("shorter please\r");
    wait_for_sentence(
        &terminal,
        "The last proposal is shown, unchanged. Your feedback was not used yet: shorter please",
    );
    answer_question(&terminal, "x");
    terminal.wait_until("the extract", |screen| {
        let after = screen.rsplit("→ Offline summary").next().unwrap_or_default();
        let is_answered = after.len() < screen.len();
        is_answered && after.contains("Written by the offline summary") && after.contains(QUESTION)
    });
    assert_eq!(server.call_count(), 4);
    terminal.press_keys("\x1b");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
}

#[test]
fn another_model_can_be_chosen_for_the_draft() {
    let (sandbox, server) = start_with_replies([
        ScriptedReply::text("no"),
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
    ]);
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "m");
    terminal.wait_for("Draft with");
    terminal.press_keys("\x1b[B\r");
    terminal.wait_for("Model> anthropic/");
    terminal.press_keys("claude-haiku-4-5\r");
    terminal.wait_for("Drafted by anthropic/claude-haiku-4-5");
    assert_eq!(server.requests()[1].body["model"], "claude-haiku-4-5");
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_models_name_can_be_typed_where_models_are_chosen() {
    let (sandbox, server) = start_with_replies([
        ScriptedReply::text("no"),
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
    ]);
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "m");
    terminal.wait_for("Draft with");
    terminal.press_keys("anthropic/claude-other\r");
    terminal.wait_for("Drafted by anthropic/claude-other");
    assert_eq!(server.requests()[1].body["model"], "claude-other");
    answer_question(&terminal, "a");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn continuing_without_a_summary_declines_the_handoff() {
    let (sandbox, _server) = start_with_replies([ScriptedReply::text("no")]);
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "s");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("Start a new thread with: segue chat"), "{screen}");
    assert_eq!((sandbox.threads().len(), sandbox.read_agent_md()), (1, None));
}

#[test]
fn control_c_while_drafting_leaves_nothing_behind() {
    let (sandbox, _server) = start_with_replies([ScriptedReply::fault(ScriptedFault::Hang)]);
    let terminal = PtyTerminal::start(&sandbox, 80, &["handoff", &sandbox.write_session()]);
    terminal.wait_for("draft with anthropic/");
    terminal.press_keys("\x03");
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert!(screen.contains("Stopped. No draft was kept.") && !screen.contains("failed"), "{screen}");
    assert_eq!(sandbox.json(&["handoff", "--list", "--json"]), json!([]));
}

#[test]
fn a_stopped_refinement_does_not_change_the_draft() {
    let (sandbox, _server) = start_with_replies([
        draft_reply("The clock is passed in.", "Do the same in src/backoff.rs."),
        ScriptedReply::fault(ScriptedFault::Hang),
    ]);
    let (terminal, _) = start_review(&sandbox, 80);
    answer_question(&terminal, "r");
    terminal.wait_for("Feedback");
    terminal.press_keys("shorter\r");
    terminal.wait_for("draft with anthropic/");
    terminal.press_keys("\x03");
    terminal.wait_for("Stopped; the proposal is unchanged.");
    answer_question(&terminal, "a");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
}
