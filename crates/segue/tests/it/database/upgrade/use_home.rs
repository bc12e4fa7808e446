//! The check of a home: it is complete, and everything that was pending in it can be continued.

use serde_json::json;
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::SandboxedHome;
use super::fixture::{HomeManifest, HomeSubjects};
use crate::sandbox::TestSandbox;
use crate::serve::client::ApiClient;
use crate::server::ServeProcess;

/// Checks a home against its manifest, then uses it.
pub fn check_home(home: SandboxedHome, manifest: &HomeManifest) {
    let model =
        ScriptedServer::start(Script::new([ScriptedReply::text("The upgrade is done.").with_repeat()]))
            .unwrap();
    let SandboxedHome { sandbox, database: _database } = home;
    assert_no_failed_check(&sandbox);
    for output in &manifest.outputs {
        output.assert_still_given(&sandbox);
    }
    assert_eq!(sandbox.read_agent_md().as_deref(), Some(manifest.agent_md.as_str()));
    let subjects = &manifest.subjects;
    assert_eq!(
        sandbox.run(&["threads", "show", &subjects.deleted]).code,
        2,
        "a deleted thread stays deleted"
    );
    accept_pending_handoff(&sandbox, subjects);
    assert!(sandbox.json(&["uncompact", &subjects.compacted, "--json"])["marker_seq"].is_u64());
    let sandbox = sandbox.with_model(&model);
    answer_question(&sandbox, subjects);
    run_first_turn_of_child(&sandbox, &model, subjects);
    finish_served_runs(&sandbox, subjects);
    assert_no_failed_check(&sandbox);
}

/// Checks that `segue doctor` finds nothing wrong.
fn assert_no_failed_check(sandbox: &TestSandbox) {
    let checks = sandbox.json(&["doctor", "--json"]);
    let failed: Vec<_> =
        checks.as_array().unwrap().iter().filter(|check| check["verdict"] == "fail").collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Accepts the pending handoff as it was proposed.
fn accept_pending_handoff(sandbox: &TestSandbox, subjects: &HomeSubjects) {
    let shown = sandbox.json(&["handoff", "--show", &subjects.pending_handoff, "--json"]);
    let proposed = shown["proposals"].as_array().unwrap().last().unwrap();
    let accept = json!({"decisions": [{"type": "approve", "summary_sha256": proposed["summary_sha256"]}]});
    let file = sandbox.write_file("accept.json", accept.to_string());
    let report =
        sandbox.json(&["handoff", "--decide", &subjects.pending_handoff, "--decision-file", &file, "--json"]);
    assert_eq!(report["outcome"], "accepted", "{report}");
    assert_eq!(report["summary_md"], proposed["summary_md"], "{report}");
}

/// Approves the call of the pending question. The folder in which it was asked is gone, so the thread moves first.
fn answer_question(sandbox: &TestSandbox, subjects: &HomeSubjects) {
    if !sandbox.run(&["decide", &subjects.asking, "--here"]).stderr.contains("already") {
        let pending = sandbox.json(&["threads", "show", &subjects.asking, "--json"]);
        assert_eq!(pending["status"], "interrupted", "{pending}");
    }
    let done = sandbox.run(&["decide", &subjects.asking, "--approve"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "The upgrade is done.\n"), "{done:?}");
    assert!(sandbox.work_folder().join("asked.txt").exists(), "the call was made here");
}

/// Runs the first turn of the child of an accepted handoff: the model gets the summary.
fn run_first_turn_of_child(sandbox: &TestSandbox, model: &ScriptedServer, subjects: &HomeSubjects) {
    let shown = sandbox.json(&["threads", "show", &subjects.child, "--json"]);
    assert_eq!(shown["metadata"]["handoff"]["cleanup_required"], true, "{shown}");
    let calls = model.call_count();
    let output = sandbox.run(&["run", "-t", &subjects.child, "-p", "Go on."]);
    assert_eq!(output.code, 0, "{output:?}");
    let request = model.requests()[calls].body.to_string();
    let title = shown["name"].as_str().unwrap();
    assert!(request.contains(title), "{title}: {request}");
    let shown = sandbox.json(&["threads", "show", &subjects.child, "--json"]);
    assert_eq!(shown["metadata"]["handoff"]["cleanup_required"], false, "{shown}");
}

/// Starts a server: it resumes the active run of the server that was killed, then the queued one. It has the image
/// and accepts the key.
fn finish_served_runs(sandbox: &TestSandbox, subjects: &HomeSubjects) {
    let serving = ServeProcess::start(sandbox);
    let api = crate::serve::owner_client(&serving);
    for run in &subjects.runs {
        let joined = api.get(&format!("/threads/{}/runs/{run}/join", subjects.served));
        assert_eq!(joined.status, 200, "{}", joined.text());
        let row = api.get(&format!("/threads/{}/runs/{run}", subjects.served)).json();
        assert_eq!(row["status"], "success", "{row}");
    }
    let exported = sandbox.json(&["threads", "export", &subjects.served, "--format", "json"]).to_string();
    let (_, image) = exported.split_once("\"sha256\":\"").unwrap();
    let image = api.get(&format!("/api/threads/{}/artifacts/{}", subjects.served, &image[..64]));
    assert!(image.status == 200 && image.body.starts_with(b"\x89PNG"), "{}", image.text());
    let alice = ApiClient { key: Some(subjects.alice_key.clone()), ..api };
    let threads = alice.post("/threads/search", &json!({})).json();
    assert_eq!(threads.as_array().unwrap().len(), 1, "{threads}");
}
