//! Handoffs over HTTP: request, refinement, refusal, decision, the child's first run, and decisions by
//! several clients at once.

use serde_json::{Value, json};
use test_model::{GatePosition, Script, ScriptedReply, ScriptedServer};

use super::client::{ApiClient, ApiResponse};
use super::{create_thread, import_session, owner_client, run_turn};
use crate::handoff::{edit_decision, summary_draft};
use crate::sandbox::TestSandbox;
use crate::server::ServeProcess;

fn request_handoff(api: &ApiClient, thread: &str, body: &Value) -> ApiResponse {
    api.post(&format!("/api/threads/{thread}/handoffs"), body)
}

fn decide_handoff(api: &ApiClient, handoff: &str, decision: &Value) -> ApiResponse {
    api.post(&format!("/api/handoffs/{handoff}/decision"), &json!({"decisions": [decision]}))
}

fn handoff_id(pending: &Value) -> &str {
    pending["handoff"]["handoff_id"].as_str().unwrap()
}

#[test]
fn g1_a_handoff_over_http_works_from_the_request_to_the_childs_first_run() {
    let model = ScriptedServer::start(Script::new([
        summary_draft("Retries"),
        ScriptedReply::text("I know what to do."),
        ScriptedReply::text("And on it goes."),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({"goal": "do the backoff"})).json();
    assert_eq!(pending["is_new"], true, "{pending}");
    assert_eq!(pending["handoff"]["outcome"], "pending");
    assert_eq!(pending["handoff"]["child_thread_id"], Value::Null);
    assert_eq!(pending["allowed_decisions"], json!(["approve", "edit", "reject", "preview"]));
    let interrupt = &pending["interrupt"];
    assert_eq!(interrupt["id"].as_str().unwrap().len(), 32);
    assert_eq!(interrupt["value"]["action_requests"][0]["name"], "handoff_summary");
    let proposal = &pending["proposal"];
    let coverage = &proposal["coverage"];
    let counted: u64 = ["verbatim", "summarized", "truncated", "excluded"]
        .iter()
        .map(|key| coverage[key].as_u64().unwrap())
        .sum();
    assert_eq!(coverage["messages"], counted);
    // A second request returns the same proposal without a call of the model.
    let repeated = request_handoff(&api, &parent, &json!({"goal": "do the backoff"})).json();
    assert_eq!(
        (&repeated["is_new"], &repeated["proposal"]["summary_sha256"]),
        (&json!(false), &proposal["summary_sha256"])
    );
    request_handoff(&api, &parent, &json!({"goal": "something else"})).assert_refused(409, "handoff");
    let decision = json!({"type": "approve", "summary_sha256": proposal["summary_sha256"]});
    let decided = decide_handoff(&api, handoff_id(&pending), &decision).json();
    assert_eq!(decided["outcome"], "accepted", "{decided}");
    let child = decided["child_thread_id"].as_str().unwrap();
    let summary = proposal["summary_md"].as_str().unwrap().trim();
    assert!(sandbox.read_agent_md().unwrap().contains(summary));
    run_turn(&api, child, "Go on.");
    run_turn(&api, child, "Go on.");
    let sent: Vec<String> = model.requests().iter().map(|request| request.body.to_string()).collect();
    let line = summary.lines().next().unwrap().trim_matches('*');
    assert!(sent[1].contains(line) && sent[2].contains(line), "{sent:?}");
    assert!(!sandbox.read_agent_md().unwrap().contains(summary));
    let lineage = api.get(&format!("/api/threads/{child}/lineage")).json();
    assert_eq!(lineage["root_thread_id"], parent.as_str());
    let threads = lineage["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[1]["parent_kind"]), (2, &json!("handoff")), "{lineage}");
    assert_eq!(threads[1]["handoff_id"], handoff_id(&pending));
    let listed = api.get("/api/handoffs?status=accepted").json();
    assert_eq!(listed["handoffs"][0]["child_thread_id"], child);
    assert_eq!(api.get("/api/handoffs").json()["handoffs"], json!([]));
}

#[test]
fn g19_previews_windows_refinements_edits_and_refusals_work_over_http() {
    let model = ScriptedServer::start(Script::new([
        summary_draft("Shown only"),
        summary_draft("First"),
        summary_draft("Second"),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let preview = request_handoff(&api, &parent, &json!({"preview": true, "messages": 4})).json();
    assert_eq!(
        (&preview["handoff"]["preview_only"], &preview["handoff"]["messages"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(
        decide_handoff(&api, handoff_id(&preview), &json!({"type": "preview"})).json()["outcome"],
        "previewed"
    );
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let next = decide_handoff(&api, handoff, &edit_decision(json!({"feedback": "name the files"}))).json();
    assert_eq!((&next["outcome"], &next["handoff"]["iteration"]), (&json!("pending"), &json!(1)), "{next}");
    assert_eq!(next["next"]["proposal"]["feedback"], "name the files");
    let review = api.get(&format!("/api/handoffs/{handoff}")).json();
    let proposals = review["proposals"].as_array().unwrap();
    assert_eq!((proposals.len(), &proposals[0]["diff"]), (2, &Value::Null), "{review}");
    let diff = proposals[1]["diff"].as_str().unwrap();
    assert!(diff.contains("First") && diff.contains("Second"), "{diff}");
    let edited = json!({"type": "approve", "args": {"title": "My own title"}});
    let decided = decide_handoff(&api, handoff, &edited).json();
    assert_eq!(decided["outcome"], "accepted", "{decided}");
    assert_eq!(decided["proposal"]["summary_json"]["title"], "My own title");
    let second = create_thread(&api);
    request_handoff(&api, &second, &json!({})).assert_refused(422, "it has no messages");
}

#[test]
fn g3_an_invalid_decision_leaves_the_handoff_pending() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let path = format!("/api/handoffs/{handoff}/decision");
    for (body, what) in [
        (json!({"decisions": []}), "decision"),
        (json!({"decisions": [{"type": "approve"}, {"type": "approve"}]}), "decision"),
        (json!({"decisions": [{"type": "accept"}]}), "accept"),
        (json!({"decisions": [{"type": "approve", "sha256": "ab"}]}), "sha256"),
        (json!({"decisions": [{"type": "approve", "summary_sha256": "00"}]}), ""),
        (json!({"decisions": [{"type": "edit"}]}), "edited_action"),
        (json!({"decisions": [edit_decision(json!({"feedback": "shorter"}))]}), ""),
        (json!({"decisions": {"type": "approve"}}), "decisions"),
        (json!([]), "decisions"),
    ] {
        api.post(&path, &body).assert_refused(422, what);
        let still = api.get(&format!("/api/handoffs/{handoff}")).json();
        assert_eq!(
            still["pending"]["proposal"]["summary_sha256"], pending["proposal"]["summary_sha256"],
            "{body}"
        );
    }
    api.send("POST", &path, &[], b"{\"decisions\": [").assert_refused(422, "decisions");
    assert_eq!(
        decide_handoff(&api, handoff, &json!({"type": "reject", "message": "no"})).json()["outcome"],
        "declined"
    );
    decide_handoff(&api, handoff, &json!({"type": "approve"})).assert_refused(409, "declined");
    assert_eq!(sandbox.read_agent_md(), None);
    assert_eq!(sandbox.threads().len(), 1);
}

#[test]
fn the_notes_of_an_edit_are_known_before_it_is_accepted() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let path = format!("/api/handoffs/{handoff}/edit-preview");
    let text = pending["proposal"]["summary_md"].as_str().unwrap();
    let own = format!("{text}\n### Next steps\n- Raise the timeout in src/ghost9.rs.\n");
    let edited = api.post(&path, &json!({"summary_md": own})).json();
    let notes = &edited["summary_json"]["notes"];
    assert_eq!(notes["names_by_user"], json!(["src/ghost9.rs"]), "{edited}");
    assert_eq!(notes["rules"][0]["problem"]["kind"], "contradicted", "{edited}");
    assert!(edited["summary_md"].as_str().unwrap().contains("src/ghost9.rs"), "{edited}");
    let rule = pending["proposal"]["summary_json"]["carried"]["rules"][0]["text"].as_str().unwrap();
    let bullet = format!("- {rule}\n");
    assert!(text.contains(&bullet), "{text}");
    let lost = api.post(&path, &json!({"summary_md": text.replace(&bullet, "")})).json();
    assert!(lost["restored_md"].as_str().unwrap().contains(&bullet), "{lost}");
    let unchanged = api.post(&path, &json!({"summary_md": text})).json();
    assert_eq!(unchanged["restored_md"], Value::Null, "{unchanged}");
    assert_eq!(unchanged["summary_sha256"], pending["proposal"]["summary_sha256"], "{unchanged}");
    api.post(&path, &json!({"summary_md": "no heading"})).assert_refused(422, "handoff");
    api.post(&path, &json!({"summary_md": own, "feedback": "x"})).assert_refused(422, "feedback");
    let review = api.get(&format!("/api/handoffs/{handoff}")).json();
    assert_eq!(review["proposals"].as_array().unwrap().len(), 1, "nothing was stored: {review}");
    decide_handoff(&api, handoff, &json!({"type": "reject"})).json();
    api.post(&path, &json!({"summary_md": own})).assert_refused(409, "declined");
}

#[test]
fn a_stopped_refinement_returns_its_feedback_as_unused() {
    let refined = summary_draft("Two").with_gate("draft", GatePosition::Start);
    let model = ScriptedServer::start(Script::new([summary_draft("One"), refined])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let refine = edit_decision(json!({"feedback": "name the suite"}));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refined = std::thread::scope(|scope| {
        let refining = scope.spawn(|| decide_handoff(&api, handoff, &refine));
        runtime.block_on(model.wait_for_calls(2));
        assert_eq!(sandbox.run(&["threads", "stop", &parent]).code, 0);
        refining.join().unwrap().json()
    });
    let next = &refined["next"];
    assert_eq!(
        (
            &refined["outcome"],
            &refined["run"]["status"],
            &next["unused_feedback"],
            &next["proposal"]["iteration"]
        ),
        (&json!("pending"), &json!("cancelled"), &json!("name the suite"), &json!(0)),
        "{refined}"
    );
}

#[test]
fn m16_names_and_first_messages_are_redacted_over_http() {
    let secret = format!("ghp_{}0123456789", "aB".repeat(13));
    let replies = [ScriptedReply::text("Used."), summary_draft("One")];
    let model = ScriptedServer::start(Script::new(replies)).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let thread = create_thread(&api);
    run_turn(&api, &thread, &format!("Use the key {secret} now."));
    request_handoff(&api, &thread, &json!({})).json();
    for path in [
        "/api/threads",
        "/api/handoffs",
        &format!("/api/threads/{thread}/lineage"),
        &format!("/api/threads/{thread}"),
    ] {
        let body = api.get(path).json().to_string();
        assert!(body.contains("Use the key [redacted]") && !body.contains(&secret), "{path}: {body}");
    }
}

#[test]
fn a_check_that_was_requested_from_a_model_says_that_there_is_none() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let path = format!("/api/handoffs/{}/probe", handoff_id(&pending));
    let requested = api.post(&path, &json!({"method": "model"})).json();
    assert_eq!(requested["problem"], "no model is configured", "{requested}");
    for body in [json!({"method": "text"}), json!({})] {
        assert_eq!(api.post(&path, &body).json()["problem"], Value::Null, "{body}");
    }
}

#[test]
fn g20_of_concurrent_decisions_the_first_wins_and_the_others_get_its_outcome() {
    let sandbox = TestSandbox::new();
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let answers: Vec<ApiResponse> = std::thread::scope(|scope| {
        let deciding: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| decide_handoff(&api, handoff, &json!({"type": "approve"}))))
            .collect();
        deciding.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let (won, lost): (Vec<&ApiResponse>, Vec<&ApiResponse>) =
        answers.iter().partition(|answer| answer.status == 200);
    assert_eq!(won.len(), 1, "{answers:?}");
    lost.iter().for_each(|answer| answer.assert_refused(409, "accepted"));
    assert_eq!(sandbox.threads().len(), 2);
    // A later decision in the terminal gets the same conflict.
    let file = sandbox.write_file("decision.json", json!({"decisions": [{"type": "reject"}]}).to_string());
    let late = sandbox.run(&["handoff", "--decide", handoff, "--decision-file", &file]);
    assert_eq!(late.code, 1, "{late:?}");
    assert!(late.stderr.contains("accepted already"), "{late:?}");
}

#[test]
fn g20_of_a_redraft_and_an_accept_of_the_outdated_draft_the_first_wins() {
    let answer = ScriptedReply::text("Go on.");
    let newer = summary_draft("Two").with_gate("draft", GatePosition::Start);
    let model = ScriptedServer::start(Script::new([summary_draft("One"), answer, newer])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let pending = request_handoff(&api, &parent, &json!({})).json();
    let handoff = handoff_id(&pending);
    let redraft = edit_decision(json!({"redraft": true}));
    decide_handoff(&api, handoff, &redraft).assert_refused(422, "the draft covers all messages");
    run_turn(&api, &parent, "And the backoff?");
    let shown = api.get(&format!("/api/handoffs/{handoff}")).json();
    assert_eq!(shown["pending"]["uncovered_messages"], 2, "{shown}");
    let old = json!({"type": "approve", "summary_sha256": pending["proposal"]["summary_sha256"]});
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (redrafted, accepted) = std::thread::scope(|scope| {
        let redrafting = scope.spawn(|| decide_handoff(&api, handoff, &redraft));
        runtime.block_on(model.wait_for_calls(3));
        let accepting = scope.spawn(|| decide_handoff(&api, handoff, &old));
        model.open_gate("draft");
        (redrafting.join().unwrap(), accepting.join().unwrap())
    });
    let redrafted = redrafted.json();
    assert_eq!(
        (&redrafted["outcome"], &redrafted["next"]["uncovered_messages"]),
        (&json!("pending"), &json!(0)),
        "{redrafted}"
    );
    accepted.assert_refused(409, "draft 2 has replaced it");
    let edited = json!({"title": "Mine", "summary_sha256": pending["proposal"]["summary_sha256"]});
    let preview = api.post(&format!("/api/handoffs/{handoff}/edit-preview"), &edited);
    preview.assert_refused(409, "draft 2 has replaced it");
    assert_eq!((sandbox.read_agent_md(), sandbox.threads().len()), (None, 1));
    // An answer to the interrupt of the outdated draft names a question that is not pending.
    let old_interrupt = pending["interrupt"]["id"].as_str().unwrap();
    let resume = json!({"assistant_id": "agent", "command": {"resume": {old_interrupt: {"decisions": [{"type": "approve"}]}}}});
    api.post(&format!("/threads/{parent}/runs/wait"), &resume);
    assert_eq!((sandbox.read_agent_md(), sandbox.threads().len()), (None, 1));
    let current =
        json!({"type": "approve", "summary_sha256": redrafted["next"]["proposal"]["summary_sha256"]});
    assert_eq!(decide_handoff(&api, handoff, &current).json()["outcome"], "accepted");
    decide_handoff(&api, handoff, &redraft).assert_refused(409, "accepted");
    assert_eq!(model.call_count(), 3);
}

#[test]
fn calls_that_wait_for_approval_are_cancelled_left_or_handed_over_by_an_accept() {
    for (choice, waits, is_listed) in
        [("cancel", false, false), ("leave", true, false), ("transfer", false, true)]
    {
        let call = ScriptedReply::call("w1", "write_file", json!({"path": "new.txt", "content": "words"}));
        let model = ScriptedServer::start(Script::new([call, summary_draft("One")])).unwrap();
        let sandbox = TestSandbox::new().with_model(&model);
        let serving = ServeProcess::start(&sandbox);
        let api = owner_client(&serving);
        let parent = create_thread(&api);
        run_turn(&api, &parent, "Write new.txt.");
        let pending = request_handoff(&api, &parent, &json!({})).json();
        let handoff = handoff_id(&pending);
        let accept = |choice: &str| {
            let sha = &pending["proposal"]["summary_sha256"];
            json!({"type": "approve", "summary_sha256": sha, "args": {"pending_approvals": choice}})
        };
        decide_handoff(&api, handoff, &accept("drop"))
            .assert_refused(422, "must be one of `copy`, `transfer`");
        let decided = decide_handoff(&api, handoff, &accept(choice)).json();
        assert_eq!(decided["outcome"], "accepted", "{decided}");
        let text = decided["proposal"]["summary_md"].as_str().unwrap();
        assert_eq!(text.contains("### Calls that wait for approval"), is_listed, "{choice}: {text}");
        assert_eq!(decided["handoff"]["accepted_sha256"], decided["proposal"]["summary_sha256"]);
        assert!(sandbox.read_agent_md().unwrap().contains(text.trim()), "{choice}");
        let status = &api.get(&format!("/threads/{parent}")).json()["status"];
        assert_eq!(status, if waits { "interrupted" } else { "idle" }, "{choice}");
    }
}

#[test]
fn m8_a_review_that_begins_in_the_terminal_is_refined_over_http_and_accepted_in_the_terminal() {
    let model =
        ScriptedServer::start(Script::new([summary_draft("First"), summary_draft("Second")])).unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let started = sandbox.run(&["handoff", &sandbox.write_session(), "--json"]);
    assert_eq!(started.code, 3, "{started:?}");
    let started = started.json();
    let handoff = started["handoff"]["handoff_id"].as_str().unwrap();
    let listed = api.get("/api/handoffs").json();
    assert_eq!(listed["handoffs"][0]["handoff_id"], handoff);
    let refined = decide_handoff(&api, handoff, &edit_decision(json!({"feedback": "name the files"}))).json();
    let sha = &refined["next"]["proposal"]["summary_sha256"];
    let text = refined["next"]["proposal"]["summary_md"].as_str().unwrap().trim();
    let preview = sandbox.json(&["handoff", "--show", handoff, "--json"]);
    assert_eq!(&preview["proposals"][1]["summary_sha256"], sha);
    let decision = json!({"decisions": [{"type": "approve", "summary_sha256": sha}]});
    let file = sandbox.write_file("decision.json", decision.to_string());
    let accepted = sandbox.json(&["handoff", "--decide", handoff, "--decision-file", &file, "--json"]);
    assert_eq!(accepted["outcome"], "accepted", "{accepted}");
    assert!(sandbox.read_agent_md().unwrap().contains(text));
    let review = api.get(&format!("/api/handoffs/{handoff}")).json();
    assert_eq!((&review["handoff"]["outcome"], &review["pending"]), (&json!("accepted"), &Value::Null));
    assert_eq!(&review["handoff"]["accepted_sha256"], sha);
    assert_eq!(model.call_count(), 2, "one call of the model a proposal");
}

#[test]
fn a_slow_handoff_is_queued_and_still_gets_its_response() {
    let model = ScriptedServer::start(Script::new([
        ScriptedReply::text("First.").with_gate("turn", GatePosition::Start),
        summary_draft("Behind the turn"),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&model);
    let serving = ServeProcess::start(&sandbox);
    let api = owner_client(&serving);
    let parent = import_session(&api);
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "user", "content": "wait"}]}});
    assert_eq!(api.post(&format!("/threads/{parent}/runs"), &body).status, 200);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(model.wait_for_calls(1));
    let pending = std::thread::scope(|scope| {
        let asking = scope.spawn(|| request_handoff(&api, &parent, &json!({})).json());
        model.open_gate("turn");
        asking.join().unwrap()
    });
    assert_eq!(pending["proposal"]["summary_json"]["title"], "Behind the turn", "{pending}");
    assert_eq!(pending["uncovered_messages"], 0);
}
