//! Tests of handoffs in clients that only show messages and forms: a pending handoff is shown as a tool call without a
//! result, and a form that sends all shown fields back decides it.

use agent::{Agent, Error, HandoffError, PendingHandoff, RunError};
use handoff::{QUESTION_EVENT_TYPES, handoff_messages};
use journal::{EventQuery, HandoffFilter};
use protocol::{Decisions, Message};
use serde_json::{Map, Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::pending_handoff;
use crate::environment::{DRAFT, TestEnvironment, decisions, unwatched};

/// Returns one line for each tool call and each result that the parent's transcript shows for handoffs.
async fn call_lines(environment: &TestEnvironment, pending: &PendingHandoff) -> Vec<String> {
    let (store, parent) = (environment.store(), pending.handoff.parent_thread_id);
    let query = EventQuery { types: QUESTION_EVENT_TYPES.to_vec(), ..EventQuery::after(0, 500) };
    let events = store.events(parent, query).await.unwrap();
    let filter = HandoffFilter { parent_thread_id: Some(parent), ..HandoffFilter::default() };
    let mut handoffs = Vec::new();
    for handoff in store.handoffs(filter).await.unwrap() {
        let proposals = store.proposals(handoff.handoff_id).await.unwrap();
        handoffs.push((handoff, proposals));
    }
    let line = |message: &Message| match message {
        Message::Tool(result) => format!("{}: {}", call_position(&result.call_id), message.text()),
        Message::Ai(_) | Message::Human(_) => {
            message.tool_calls().map(|(id, name, _)| format!("{} calls {name}", call_position(id))).collect()
        }
    };
    handoff_messages(&events, &handoffs).iter().map(|(_, message)| line(message)).collect()
}

/// Returns the last component of a call id, which is the iteration of the proposal.
fn call_position(call_id: &str) -> &str {
    call_id.rsplit('-').next().unwrap()
}

/// Returns the decisions of a form that shows the interrupt's arguments, with changed `fields`. The form sends all fields,
/// and sends objects and arrays as JSON text.
fn form_decisions(pending: &PendingHandoff, fields: &Value) -> Decisions {
    let mut args = handoff::editable_args(&pending.interrupt.payload.action_requests[0].args);
    for (key, value) in fields.as_object().unwrap() {
        args[key] = value.clone();
    }
    let as_text = |(key, value): (&String, &Value)| match value {
        Value::Object(_) | Value::Array(_) => (key.clone(), Value::String(format!("{value:#}"))),
        value => (key.clone(), value.clone()),
    };
    let args: Map<String, Value> = args.as_object().unwrap().iter().map(as_text).collect();
    let action = json!({"name": "approve_handoff", "args": args});
    decisions(&json!({"decisions": [{"type": "edit", "edited_action": action}]}).to_string())
}

/// Sends the decisions of a form with changed `fields`.
async fn decide(
    agent: &Agent,
    pending: &PendingHandoff,
    fields: &Value,
) -> agent::Result<agent::HandoffOutcome> {
    let (frames, cancel) = unwatched();
    agent
        .handoffs()
        .decide(pending.handoff.handoff_id, &form_decisions(pending, fields), &frames, &cancel)
        .await
}

#[tokio::test]
async fn g19_a_form_refines_a_handoff_and_accepts_it_unchanged() {
    let environment = TestEnvironment::new();
    let shorter = DRAFT.replace("last row\"", "last row, shorter\"");
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::text(DRAFT),
        ScriptedReply::text(shorter),
        ScriptedReply::text("Well."),
    ]))
    .unwrap();
    let (agent, first) = pending_handoff(environment.agent_with(&server), &environment).await;
    assert_eq!(call_lines(&environment, &first).await, ["0 calls handoff_summary"]);
    let refined = decide(&agent, &first, &json!({"feedback": "Shorter."})).await.unwrap();
    let second = refined.next.unwrap();
    assert_eq!(
        call_lines(&environment, &second).await,
        ["0 calls handoff_summary", "0: Refined: Shorter.", "1 calls handoff_summary"]
    );
    // A form that still shows the first draft cannot decide about the second.
    let stale = first.interrupt.payload.action_requests[0].args["summary_sha256"].clone();
    let refused = decide(&agent, &second, &json!({"summary_sha256": stale})).await.unwrap_err();
    assert!(matches!(refused, Error::Handoff(HandoffError::Superseded { .. })), "{refused:?}");

    let accepted = decide(&agent, &second, &json!({})).await.unwrap();
    assert_eq!(accepted.proposal.summary_sha256, second.proposal.summary_sha256);
    let child = accepted.child_thread_id.unwrap();
    let lines = call_lines(&environment, &second).await;
    assert_eq!(
        lines[3..],
        [format!("1: Accepted: the work continues in thread {child}, which starts with the summary.")]
    );
    // These calls are only displayed: the requests to the parent's model do not contain them.
    let (frames, cancel) = unwatched();
    agent.runs().send_message(second.handoff.parent_thread_id, "Go on.", &frames, &cancel).await.unwrap();
    let sent = server.requests().last().unwrap().body["messages"].to_string();
    assert!(!sent.contains("handoff_summary") && !sent.contains("handoff-"), "{sent}");
}

#[tokio::test]
async fn g19_a_form_accepts_an_edited_text_and_invalid_decisions_are_refused() {
    for (fields, title) in [
        (json!({"summary_md": "**Mine**\n\n### Objective\n- Go on."}), "Mine"),
        (json!({"title": "Mine too"}), "Mine too"),
    ] {
        let environment = TestEnvironment::new();
        let server = ScriptedServer::start(Script::new([ScriptedReply::text(DRAFT)])).unwrap();
        let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
        let decided = decide(&agent, &pending, &fields).await.unwrap();
        assert_eq!(decided.proposal.summary_json.title, title);
        assert_eq!(call_lines(&environment, &pending).await.len(), 2);
    }
    let environment = TestEnvironment::new();
    let server = ScriptedServer::start(Script::new([ScriptedReply::text(DRAFT)])).unwrap();
    let (agent, pending) = pending_handoff(environment.agent_with(&server), &environment).await;
    let (frames, cancel) = unwatched();
    let id = pending.handoff.handoff_id;
    for invalid in [
        r#"{"type":"respond","message":"Why?"}"#,
        r#"{"type":"edit","edited_action":{"name":"ls","args":{}}}"#,
    ] {
        let invalid = decisions(&format!("{{\"decisions\":[{invalid}]}}"));
        let refused = agent.handoffs().decide(id, &invalid, &frames, &cancel).await.unwrap_err();
        assert!(
            matches!(refused, Error::Run(RunError::Runtime(runtime::Error::Rejected { .. }))),
            "{refused:?}"
        );
    }
    let reject = decisions(r#"{"decisions":[{"type":"reject","message":"Not yet."}]}"#);
    agent.handoffs().decide(id, &reject, &frames, &cancel).await.unwrap();
    let lines = call_lines(&environment, &pending).await;
    assert_eq!(lines[1..], ["0: Declined by the person: \u{201c}Not yet.\u{201d}."]);
}
