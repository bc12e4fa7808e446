//! Calls of one answer that are decided one at a time: the user decides some of them and defers the others, and another
//! interrupt asks about these.

use protocol::{Interrupt, RunStatus};
use runtime::DecisionRejection;
use serde_json::{Value, json};
use test_model::ScriptedReply;
use tools::permission::{ApprovalPolicy, RuleScope};

use super::{ApprovalFixture, decisions, write};

/// Starts a thread whose model writes the files `a`, `b` and `c` with the calls `c1`, `c2` and `c3`.
async fn request_three_writes() -> (ApprovalFixture, Interrupt) {
    let args = |path: &str| json!({"path": path, "content": "x\n"});
    let calls =
        write("c1", "a").with_call("c2", "write_file", args("b")).with_call("c3", "write_file", args("c"));
    let fixture =
        ApprovalFixture::new(vec![calls, ScriptedReply::text("Done.")], ("", ApprovalPolicy::Ask)).await;
    let mut interrupted = fixture.send_message("Go.").await;
    (fixture, interrupted.interrupts.remove(0))
}

/// Returns the calls that the interrupt asks about.
fn requested_calls(interrupt: &Interrupt) -> Vec<Value> {
    let requests = interrupt.payload.action_requests.iter();
    requests.map(|request| request.details.as_ref().unwrap()["call_id"].clone()).collect()
}

/// Resumes with the decisions, and returns the only interrupt at which the run stops.
async fn resume_until_question(
    fixture: &ApprovalFixture,
    interrupt: &Interrupt,
    decisions: Value,
) -> Interrupt {
    let mut end = fixture.resume(interrupt, decisions).await;
    assert_eq!((end.status, end.interrupts.len()), (RunStatus::Interrupted, 1));
    end.interrupts.remove(0)
}

#[tokio::test]
async fn g3_calls_of_one_interrupt_are_decided_one_at_a_time() {
    let (fixture, first) = request_three_writes().await;
    let (approve, defer) = (json!({"type": "approve"}), json!({"type": "defer"}));
    let second = resume_until_question(&fixture, &first, json!([approve, defer, defer])).await;
    assert_ne!(second.interrupt_id, first.interrupt_id);
    assert_eq!(requested_calls(&second), ["c2", "c3"]);
    let allowed = &second.payload.review_configs[0].allowed_decisions;
    assert_eq!(allowed, &["approve", "edit", "reject", "respond", "defer"]);
    assert!(!fixture.file("a").exists(), "no call is made before all are decided");

    let third = resume_until_question(&fixture, &second, json!([{"type": "reject"}, defer])).await;
    assert_eq!(requested_calls(&third), ["c3"]);
    let allowed = &third.payload.review_configs[0].allowed_decisions;
    assert_eq!(allowed, &["approve", "edit", "reject", "respond"], "the only call cannot be deferred");
    assert_eq!(fixture.results().await, ["c2: The person declined this call."]);

    let edited = json!({"type": "edit", "edited_action": {
        "name": "write_file", "args": {"path": "d", "content": "y\n"}
    }});
    assert_eq!(fixture.resume(&third, json!([edited])).await.status, RunStatus::Success);
    let made = ["a", "b", "c", "d"].map(|path| fixture.file(path).exists());
    assert_eq!(made, [true, false, false, true]);
    assert_eq!(fixture.results().await.len(), 3, "g2: every call has one result");
    assert_eq!(
        fixture.decision_events().await,
        ["c1 write_file approve person", "c2 write_file reject person", "c3 write_file edit person"]
    );
    assert_eq!(fixture.server.requests().len(), 2, "j2: no model call is repeated");
}

#[tokio::test]
async fn g3_an_answer_that_decides_nothing_leaves_the_interrupt_pending() {
    let (fixture, interrupt) = request_three_writes().await;
    let defer = json!({"type": "defer"});
    let refused = fixture.check(&interrupt, &decisions(json!([defer, defer, defer]))).await;
    assert!(
        matches!(&refused, Err(DecisionRejection::Invalid(text)) if text.contains("no call is decided")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_deferred_call_is_judged_by_the_rules_again() {
    let (fixture, interrupt) = request_three_writes().await;
    fixture.rule_book.remember("write_file(b)".parse().unwrap(), RuleScope::Session).unwrap();
    let (approve, defer) = (json!({"type": "approve"}), json!({"type": "defer"}));
    let next = resume_until_question(&fixture, &interrupt, json!([approve, defer, defer])).await;
    assert_eq!(requested_calls(&next), ["c3"], "a rule allows the other call");
    assert_eq!(fixture.resume(&next, json!([{"type": "reject"}])).await.status, RunStatus::Success);
    assert_eq!(["a", "b", "c"].map(|path| fixture.file(path).exists()), [true, true, false]);
}
