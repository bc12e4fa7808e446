//! Handoffs that the agent requests without a terminal: the run stops, prints how to decide, and resumes
//! after the decision.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::handoff::summary_draft;
use crate::sandbox::{ProgramOutput, TestSandbox};

/// Returns a model that requests a handoff in its first answer, drafts the summary, and answers all later
/// requests.
fn handoff_requesting_server() -> ScriptedServer {
    let draft = ScriptedReply { always: true, ..summary_draft("One") };
    let asks = ScriptedReply::call("h1", "request_handoff", json!({"goal": "the backoff"}));
    let goes_on = ScriptedReply { always: true, ..ScriptedReply::text("I go on here.") };
    ScriptedServer::start(Script::new([
        draft.when_body_contains("You write the handoff summary"),
        asks,
        goes_on,
    ]))
    .unwrap()
}

fn run_until_interrupted(sandbox: &TestSandbox, more: &[&str]) -> Value {
    let mut args = vec!["run", "-p", "Find out why the test fails now and then.", "--json"];
    args.extend(more);
    let output = sandbox.run(&args);
    assert_eq!(output.code, 3, "{output:?}");
    serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap()
}

fn run_next_command(sandbox: &TestSandbox, result: &Value, more: &[&str]) -> ProgramOutput {
    let mut args: Vec<&str> = result["next_command"].as_str().unwrap().split(' ').skip(1).collect();
    args.extend(more);
    sandbox.run(&args)
}

#[test]
fn g2_a_run_that_stops_for_a_handoff_prints_how_to_decide() {
    let server = handoff_requesting_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let result = run_until_interrupted(&sandbox, &[]);
    assert_eq!(result["status"], "interrupted");
    let payload = &result["interrupts"][0]["payload"];
    assert_eq!(payload["middleware_source"], "HandoffApprovalMiddleware");
    let args = &payload["action_requests"][0]["args"];
    assert_eq!((&args["initiated_by"], &args["goal"]), (&json!("agent"), &json!("the backoff")));
    assert!(result["next_command"].as_str().unwrap().starts_with("segue handoff --decide "), "{result}");
    let accepted = run_next_command(&sandbox, &result, &["--approve", "--json"]);
    assert_eq!(accepted.code, 0, "{accepted:?}");
    let accepted = accepted.json();
    assert_eq!(
        (&accepted["outcome"], &accepted["summary_json"]["title"]),
        (&json!("accepted"), &json!("One"))
    );
    assert_eq!(sandbox.threads().len(), 2);
}

#[test]
fn g2_text_output_prints_the_same_instructions() {
    let server = handoff_requesting_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let output = sandbox.run(&["run", "-p", "Find out why the test fails now and then."]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.stderr.contains("needs a decision: handoff: One"), "{output:?}");
    assert!(output.stderr.contains("answer with: segue handoff --decide "), "{output:?}");
}

#[test]
fn g2_after_a_refusal_the_agent_continues_and_its_answer_is_printed() {
    let server = handoff_requesting_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let result = run_until_interrupted(&sandbox, &[]);
    let file = sandbox
        .write_file("d.json", json!({"decisions": [{"type": "reject", "message": "Not yet."}]}).to_string());
    let declined = run_next_command(&sandbox, &result, &["--decision-file", &file, "--json"]);
    assert_eq!(declined.code, 0, "{declined:?}");
    let declined = declined.json();
    assert_eq!((&declined["outcome"], &declined["answer"]), (&json!("declined"), &json!("I go on here.")));
    let messages = server.requests().last().unwrap().body["messages"].to_string();
    assert!(messages.contains("Declined by the person") && messages.contains("Not yet."), "{messages}");

    // The same without `--json`.
    let server = handoff_requesting_server();
    let sandbox = TestSandbox::new().with_model(&server);
    let result = run_until_interrupted(&sandbox, &[]);
    let file = sandbox.write_file("d.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    let declined = run_next_command(&sandbox, &result, &["--decision-file", &file]);
    assert!(
        declined.stdout.contains("Declined.") && declined.stdout.contains("I go on here."),
        "{declined:?}"
    );
}

#[test]
fn g2_no_policy_accepts_a_handoff() {
    for policy in ["allow", "deny", "ask"] {
        let server = handoff_requesting_server();
        let sandbox = TestSandbox::new().with_model(&server);
        let result = run_until_interrupted(&sandbox, &["--approve", policy]);
        assert_eq!(result["interrupts"].as_array().unwrap().len(), 1, "{policy}: {result}");
        let listed = sandbox.json(&["handoff", "--list", "--json"]);
        assert_eq!(listed[0]["status"], "awaiting_decision", "{policy}");
        assert_eq!((sandbox.threads().len(), sandbox.read_agent_md()), (1, None), "{policy}");
    }
}
