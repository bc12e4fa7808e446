//! `[handoff] model`: a model of its own drafts and refines handoffs.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{decide_handoff, edit_decision, summary_draft};
use crate::sandbox::TestSandbox;

/// Returns the models of all requests so far.
fn requested_models(server: &ScriptedServer) -> Vec<String> {
    let model = |body: &Value| body["model"].as_str().unwrap().to_owned();
    server.requests().iter().map(|request| model(&request.body)).collect()
}

#[test]
fn the_configured_model_drafts_and_refines_and_the_option_overrides_it() {
    let replies =
        [ScriptedReply::text("Hello."), summary_draft("one"), summary_draft("two"), summary_draft("three")];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    std::fs::create_dir_all(sandbox.home()).unwrap();
    let config = "model = \"anthropic/large\"\n[handoff]\nmodel = \"anthropic/small\"\n";
    std::fs::write(sandbox.home().join("config.toml"), config).unwrap();
    assert_eq!(sandbox.run(&["run", "-p", "hello"]).code, 0);
    let drafted = sandbox.run(&["handoff", "last", "--json"]).json();
    assert_eq!(drafted["summary_json"]["model"], "anthropic/small");
    assert_eq!(drafted["cost"]["draft_tokens"], 15);
    let refined = decide_handoff(&sandbox, &drafted, &edit_decision(json!({"feedback": "shorter"})));
    assert_eq!(refined.json()["summary_json"]["model"], "anthropic/small");
    let trace = sandbox.run(&["trace", drafted["handoff"]["run_id"].as_str().unwrap()]);
    assert!(trace.stdout.contains("chat small"), "{trace:?}");
    let declined = decide_handoff(&sandbox, &drafted, &json!({"type": "reject"}));
    assert_eq!(declined.code, 0, "{declined:?}");
    let other = sandbox.run(&["handoff", "last", "--model", "anthropic/other", "--json"]).json();
    assert_eq!(other["summary_json"]["model"], "anthropic/other");
    assert_eq!(requested_models(&server), ["large", "small", "small", "other"]);
}

#[test]
fn a_configured_draft_model_that_is_unusable_is_replaced_by_the_model_of_the_run() {
    let server = ScriptedServer::start(Script::new([summary_draft("one")])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    std::fs::create_dir_all(sandbox.home()).unwrap();
    let config = "model = \"anthropic/large\"\n[handoff]\nmodel = \"openai/without-key\"\n";
    std::fs::write(sandbox.home().join("config.toml"), config).unwrap();
    let drafted = sandbox.run(&["handoff", &sandbox.write_session(), "--json"]).json();
    assert_eq!(drafted["summary_json"]["model"], "anthropic/large");
    let doctor = sandbox.run(&["doctor"]);
    assert!(doctor.stdout.contains("handoff.model"), "{doctor:?}");
}
