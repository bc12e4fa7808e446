//! Table tests of the view: the events of a handoff and the messages that represent them.

use jiff::Timestamp;
use protocol::{AssistantId, HandoffStatus, NewEvent, ThreadId};
use serde_json::json;

use super::*;
use crate::review::edit::tests::shown_summary as summary;

const THREAD: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

fn handoff_id() -> HandoffId {
    "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1c".parse().unwrap()
}

fn thread_id() -> ThreadId {
    THREAD.parse().unwrap()
}

/// Returns a handoff of the user `alice` with three proposals, of which the second is a refinement.
fn handoff_with_proposals() -> (Handoff, Vec<Proposal>) {
    let summary = summary();
    let owned: AssistantId = "agent@alice".parse().unwrap();
    let proposal = |iteration, feedback: Option<&str>| Proposal {
        handoff_id: handoff_id(),
        iteration,
        summary_json: protocol::HandoffSummary { assistant_id: owned.clone(), iteration, ..summary.clone() },
        package_md: format!("draft {iteration}"),
        summary_sha256: "ab".to_owned(),
        feedback: feedback.map(str::to_owned),
        created_at: Timestamp::UNIX_EPOCH,
    };
    let handoff = Handoff {
        handoff_id: handoff_id(),
        assistant_id: owned.clone(),
        parent_thread_id: thread_id(),
        child_thread_id: thread_id(),
        status: HandoffStatus::AwaitingDecision,
        iteration: 0,
        goal: None,
        run_id: None,
        options: json!({"goal": "ship"}),
        accepted_sha256: None,
        note: None,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
    };
    (handoff, vec![proposal(0, None), proposal(1, Some("shorter")), proposal(2, None)])
}

/// Returns the events of a thread, with the handoff's id added to each content that has none.
fn events(contents: &[(EventType, Value)]) -> Vec<Event> {
    let handoff_id = handoff_id();
    let stored = |(index, (event_type, content)): (usize, &(EventType, Value))| {
        let mut content = content.clone();
        if *event_type != EventType::RunInterrupted {
            content["handoff_id"] = content.get("handoff_id").cloned().unwrap_or_else(|| json!(handoff_id));
        }
        let event = NewEvent::new(*event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
        Event::from_new(event, thread_id(), index as u64 + 1)
    };
    contents.iter().enumerate().map(stored).collect()
}

/// Returns a message as a line without the handoff's id: `3 call 0: …` or `4 error 0: Declined …`.
fn describe_message((seq, message): &(Seq, Message)) -> String {
    let iteration =
        |call_id: &str| call_id.strip_prefix(&format!("handoff-{}-", handoff_id())).unwrap().to_owned();
    match message {
        Message::Ai(_) => {
            let (call_id, name, args) = message.tool_calls().next().unwrap();
            assert_eq!((name, &args["feedback"]), ("handoff_summary", &json!("")));
            format!("{seq} call {}: {}", iteration(call_id), args["summary_md"].as_str().unwrap())
        }
        Message::Tool(result) => {
            let status = if result.status == ToolStatus::Success { "done" } else { "error" };
            format!("{seq} {status} {}: {}", iteration(&result.call_id), message.text())
        }
        Message::Human(_) => unreachable!("the view has no messages of a person"),
    }
}

#[track_caller]
/// Checks the messages of the events, and that a prefix of the events gives a prefix of the messages.
fn check(contents: &[(EventType, Value)], expected: &[&str]) {
    let (events, handoffs) = (events(contents), [handoff_with_proposals()]);
    let messages = handoff_messages(&events, &handoffs);
    assert_eq!(messages.iter().map(describe_message).collect::<Vec<_>>(), expected);
    for until in 0..events.len() {
        let earlier = handoff_messages(&events[..until], &handoffs);
        assert_eq!(messages[..earlier.len()], earlier, "further events only append messages");
    }
}

/// The id of an interrupt.
const QUESTION: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn proposed(iteration: u32) -> (EventType, Value) {
    (EventType::HandoffProposed, json!({"iteration": iteration, "summary_sha256": "5a"}))
}

fn question_raised() -> (EventType, Value) {
    (EventType::RunInterrupted, json!({"interrupt_ids": [QUESTION], "actions": ["handoff_summary"]}))
}

#[test]
fn g19_each_outcome_is_the_result_of_the_call_of_its_question() {
    let accepted =
        format!("3 done 0: Accepted: the work continues in thread {THREAD}, which starts with the summary.");
    for (outcome, content, expected) in [
        (
            EventType::HandoffAccepted,
            json!({"iteration": 0, "summary_sha256": "5a", "child_thread_id": THREAD}),
            accepted.as_str(),
        ),
        (
            EventType::HandoffDeclined,
            json!({"message": "no"}),
            "3 error 0: Declined by the person: \u{201c}no\u{201d}.",
        ),
        (
            EventType::HandoffDeclined,
            json!({"message": null}),
            "3 error 0: Declined by the person: no reason was given.",
        ),
        (
            EventType::HandoffPreviewed,
            json!({}),
            "3 done 0: Previewed: the person has seen what would be carried over, and nothing was changed.",
        ),
        (EventType::HandoffExpired, json!({}), "3 error 0: Expired: nobody decided about the handoff."),
        (EventType::HandoffFailed, json!({"reason": "it broke"}), "3 error 0: The handoff failed: it broke."),
    ] {
        check(&[proposed(0), question_raised(), (outcome, content)], &["2 call 0: draft 0", expected]);
    }
}

#[test]
fn g4_every_question_about_a_draft_has_a_call_of_its_own() {
    let refined = (EventType::HandoffRefined, json!({"iteration": 0, "feedback": "shorter"}));
    let redrafted = (EventType::HandoffRefined, json!({"iteration": 1, "model": "openai/x"}));
    let reverted = (EventType::HandoffReverted, json!({"iteration": 2, "reverted_to": 0}));
    check(
        &[
            proposed(0),
            question_raised(),
            refined.clone(),
            proposed(1),
            question_raised(),
            reverted,
            question_raised(),
        ],
        &[
            "2 call 0: draft 0",
            "3 done 0: Refined: shorter",
            "5 call 1: draft 1",
            "6 done 1: Reverted to draft 0.",
            "7 call 2: draft 2",
        ],
    );
    // A failed refinement: the same draft is asked about again.
    check(
        &[proposed(0), question_raised(), refined, question_raised()],
        &["2 call 0: draft 0", "3 done 0: Refined: shorter", "4 call 0-4: draft 0"],
    );
    check(
        &[proposed(1), question_raised(), redrafted],
        &["2 call 1: draft 1", "3 done 1: Another draft by openai/x was requested."],
    );
}

#[test]
fn g2_other_events_and_questions_about_unknown_handoffs_are_left_out() {
    let approval = (EventType::RunInterrupted, json!({"interrupt_ids": [QUESTION], "actions": ["execute"]}));
    let breakpoint =
        (EventType::RunInterrupted, json!({"interrupt_ids": [], "actions": [], "next": "tools"}));
    let declined = (EventType::HandoffDeclined, json!({"message": "no"}));
    let of_other_handoff = (EventType::HandoffDeclined, json!({"handoff_id": THREAD}));
    check(&[approval.clone(), breakpoint, declined.clone()], &[]);
    check(&[proposed(0), declined.clone()], &[]);
    // A draft that is not stored, and a draft of a deleted handoff.
    check(&[proposed(9), question_raised(), declined.clone()], &[]);
    let of_deleted_handoff =
        (EventType::HandoffProposed, json!({"handoff_id": THREAD, "iteration": 0, "summary_sha256": "5a"}));
    check(&[of_deleted_handoff, question_raised(), of_other_handoff.clone()], &[]);
    // The outcome of another handoff, and the same question raised again by a run after a takeover.
    check(
        &[proposed(0), question_raised(), of_other_handoff, approval, question_raised(), declined],
        &["2 call 0: draft 0", "6 error 0: Declined by the person: \u{201c}no\u{201d}."],
    );
}

#[test]
fn k1_a_call_shows_the_name_of_the_assistant_and_its_message_id_follows_from_its_seq() {
    let events = events(&[proposed(1), question_raised()]);
    let messages = handoff_messages(&events, &[handoff_with_proposals()]);
    let (_, Message::Ai(answer)) = &messages[0] else { panic!("a call") };
    assert_eq!(answer.id.as_deref(), Some(message_id(thread_id(), 2).as_str()));
    let (_, _, args) = messages[0].1.tool_calls().next().unwrap();
    assert!(!args.to_string().contains("alice"), "{args}");
    assert_eq!(
        (&args["assistant_id"], &args["goal"], &args["feedback_history"]),
        (&json!("agent"), &json!("ship"), &json!(["shorter"]))
    );
    assert!(
        args.get("remaining_refinements").is_none(),
        "arguments that change while the question is open are left out"
    );
}

#[test]
fn k1_only_a_question_about_a_handoff_shows_the_name_of_the_assistant() {
    let (_, proposals) = handoff_with_proposals();
    let mut question = review_payload(&proposals[0], &ReviewContext::default()).unwrap();
    let mut other =
        InterruptPayload { middleware_source: "ToolApprovalMiddleware".to_owned(), ..question.clone() };
    let unchanged = other.clone();
    show_assistant_name(&mut question);
    show_assistant_name(&mut other);
    assert_eq!(other, unchanged);
    let args = &question.action_requests[0].args;
    assert_eq!(
        (&args["assistant_id"], &args["summary_json"]["assistant_id"]),
        (&json!("agent"), &json!("agent"))
    );
    assert!(args.get("feedback").is_none(), "only the form of a generic client has an empty feedback");
}
