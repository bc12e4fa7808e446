//! Transcripts as tables: what happened to a handoff → the messages that stand for it.

use jiff::Timestamp;
use protocol::{AssistantId, HandoffStatus, NewEvent, ThreadId};
use serde_json::json;

use super::*;
use crate::review::edit::tests::shown as summary;

const THREAD: &str = "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1b";

fn handoff_id() -> HandoffId {
    "0192f0c1-2d3e-7a4b-8c5d-6e7f80910a1c".parse().unwrap()
}

fn thread_id() -> ThreadId {
    THREAD.parse().unwrap()
}

/// Returns a handoff of someone's with three proposals, the second of them refined.
fn known() -> (Handoff, Vec<Proposal>) {
    let summary = summary();
    let owned: AssistantId = "agent@alice".parse().unwrap();
    let proposal = |iteration, feedback: Option<&str>| Proposal {
        handoff_id: handoff_id(),
        iteration,
        summary_json: protocol::HandoffSummary { assistant_id: owned.clone(), iteration, ..summary.clone() },
        summary_md: format!("draft {iteration}"),
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

/// Returns the events of a thread; each content has the handoff's id added.
fn events(told: &[(EventType, Value)]) -> Vec<Event> {
    let handoff_id = handoff_id();
    let stored = |(at, (event_type, content)): (usize, &(EventType, Value))| {
        let mut content = content.clone();
        if *event_type != EventType::RunInterrupted {
            content["handoff_id"] = content.get("handoff_id").cloned().unwrap_or_else(|| json!(handoff_id));
        }
        let event = NewEvent::new(*event_type, &content, Timestamp::UNIX_EPOCH).unwrap();
        Event::stored(event, thread_id(), at as u64 + 1)
    };
    told.iter().enumerate().map(stored).collect()
}

/// Returns a message as a line: `3 call 0` or `4 error 0: Declined …`, the handoff's id left out.
fn line((seq, message): &(Seq, Message)) -> String {
    let place =
        |call_id: &str| call_id.strip_prefix(&format!("handoff-{}-", handoff_id())).unwrap().to_owned();
    match message {
        Message::Ai(_) => {
            let (call_id, name, args) = message.tool_calls().next().unwrap();
            assert_eq!((name, &args["feedback"]), ("handoff_summary", &json!("")));
            format!("{seq} call {}: {}", place(call_id), args["summary_md"].as_str().unwrap())
        }
        Message::Tool(result) => {
            let status = if result.status == ToolStatus::Success { "done" } else { "error" };
            format!("{seq} {status} {}: {}", place(&result.call_id), message.text())
        }
        Message::Human(_) => unreachable!("a person says nothing here"),
    }
}

#[track_caller]
fn check(told: &[(EventType, Value)], expected: &[&str]) {
    let (events, handoffs) = (events(told), [known()]);
    let messages = as_messages(&events, &handoffs);
    assert_eq!(messages.iter().map(line).collect::<Vec<_>>(), expected);
    for until in 0..events.len() {
        let earlier = as_messages(&events[..until], &handoffs);
        assert_eq!(messages[..earlier.len()], earlier, "more events add at the end only");
    }
}

/// The id of a question.
const QUESTION: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

fn proposed(iteration: u32) -> (EventType, Value) {
    (EventType::HandoffProposed, json!({"iteration": iteration, "summary_sha256": "5a"}))
}

fn asked() -> (EventType, Value) {
    (EventType::RunInterrupted, json!({"interrupt_ids": [QUESTION], "actions": ["handoff_summary"]}))
}

#[test]
fn g19_each_outcome_is_the_result_of_the_call_that_asked() {
    let accepted =
        format!("3 done 0: Accepted: the work goes on in thread {THREAD}, which begins with the summary.");
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
        (EventType::HandoffExpired, json!({}), "3 error 0: Given up: nobody decided about the handoff."),
        (EventType::HandoffFailed, json!({"reason": "it broke"}), "3 error 0: The handoff failed: it broke."),
    ] {
        check(&[proposed(0), asked(), (outcome, content)], &["2 call 0: draft 0", expected]);
    }
}

#[test]
fn g4_every_draft_that_is_asked_about_has_a_call_of_its_own() {
    let refined = (EventType::HandoffRefined, json!({"iteration": 0, "feedback": "shorter"}));
    let redrafted = (EventType::HandoffRefined, json!({"iteration": 1, "model": "openai/x"}));
    let reverted = (EventType::HandoffReverted, json!({"iteration": 2, "reverted_to": 0}));
    check(
        &[proposed(0), asked(), refined.clone(), proposed(1), asked(), reverted, asked()],
        &[
            "2 call 0: draft 0",
            "3 done 0: Refined: shorter",
            "5 call 1: draft 1",
            "6 done 1: Went back to draft 0.",
            "7 call 2: draft 2",
        ],
    );
    // Nothing usable came of it: the draft before is asked about again.
    check(
        &[proposed(0), asked(), refined, asked()],
        &["2 call 0: draft 0", "3 done 0: Refined: shorter", "4 call 0-4: draft 0"],
    );
    check(
        &[proposed(1), asked(), redrafted],
        &["2 call 1: draft 1", "3 done 1: Another draft was asked for, by openai/x."],
    );
}

#[test]
fn g2_what_is_no_question_about_a_known_handoff_is_left_out() {
    let approval = (EventType::RunInterrupted, json!({"interrupt_ids": [QUESTION], "actions": ["execute"]}));
    let breakpoint =
        (EventType::RunInterrupted, json!({"interrupt_ids": [], "actions": [], "next": "tools"}));
    let declined = (EventType::HandoffDeclined, json!({"message": "no"}));
    let elsewhere = (EventType::HandoffDeclined, json!({"handoff_id": THREAD}));
    check(&[approval.clone(), breakpoint, declined.clone()], &[]);
    check(&[proposed(0), declined.clone()], &[]);
    // A draft that is not stored, or of a handoff that is gone.
    check(&[proposed(9), asked(), declined.clone()], &[]);
    let gone =
        (EventType::HandoffProposed, json!({"handoff_id": THREAD, "iteration": 0, "summary_sha256": "5a"}));
    check(&[gone, asked(), elsewhere.clone()], &[]);
    // Another's outcome, and the same question raised again by a run that took over.
    check(
        &[proposed(0), asked(), elsewhere, approval, asked(), declined],
        &["2 call 0: draft 0", "6 error 0: Declined by the person: \u{201c}no\u{201d}."],
    );
}

#[test]
fn k1_a_call_shows_the_assistant_by_its_name_and_has_the_id_of_its_place() {
    let events = events(&[proposed(1), asked()]);
    let messages = as_messages(&events, &[known()]);
    let (_, Message::Ai(answer)) = &messages[0] else { panic!("a call") };
    assert_eq!(answer.id.as_deref(), Some(message_id(thread_id(), 2).as_str()));
    let (_, _, args) = messages[0].1.tool_calls().next().unwrap();
    assert!(!args.to_string().contains("alice"), "{args}");
    assert_eq!(
        (&args["assistant_id"], &args["goal"], &args["feedback_history"]),
        (&json!("agent"), &json!("ship"), &json!(["shorter"]))
    );
    assert!(args.get("remaining_refinements").is_none(), "what changes while it waits is not part of it");
}

#[test]
fn k1_a_question_about_a_handoff_shows_a_name_and_other_questions_stay_as_they_are() {
    let (_, proposals) = known();
    let mut question = payload(&proposals[0], &Situation::default()).unwrap();
    let mut other =
        InterruptPayload { middleware_source: "ToolApprovalMiddleware".to_owned(), ..question.clone() };
    let asked = other.clone();
    name_assistant(&mut question);
    name_assistant(&mut other);
    assert_eq!(other, asked);
    let args = &question.action_requests[0].args;
    assert_eq!(
        (&args["assistant_id"], &args["summary_json"]["assistant_id"]),
        (&json!("agent"), &json!("agent"))
    );
    assert!(args.get("feedback").is_none(), "only a form has an empty one");
}
