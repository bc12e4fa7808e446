//! Feedback on runs and traces of runs, from the command line.

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use super::{compacting_server, history_entries, long_thread};
use crate::sandbox::TestSandbox;

/// Returns the id and the feedback of each run that can be rated, in order.
fn rateable_runs(sandbox: &TestSandbox) -> Vec<(String, Value)> {
    let answers = history_entries(sandbox).into_iter().filter(|entry| entry.get("feedback").is_some());
    answers.map(|entry| (entry["run_id"].as_str().unwrap().to_owned(), entry["feedback"].clone())).collect()
}

#[test]
fn d2_d6_feedback_belongs_to_the_shown_run_even_after_a_compaction() {
    let server = compacting_server();
    let sandbox = long_thread(TestSandbox::new().with_model(&server), 12);
    for prompt in ["one", "two", "three"] {
        assert_eq!(sandbox.run(&["run", "-c", "-p", prompt]).code, 0);
    }
    let runs = rateable_runs(&sandbox);
    assert_eq!(runs.len(), 3, "imported answers are of no run: {runs:?}");
    assert!(runs.iter().all(|(_, feedback)| feedback.is_null()), "{runs:?}");
    let output = sandbox.run(&["feedback", &runs[1].0[..18], "down", "--comment", "too\nlong"]);
    assert_eq!((output.code, output.stdout), (0, format!("Run {} rated down: too long\n", &runs[1].0[..18])));
    let given = sandbox.json(&["feedback", "last", "up", "--json"]);
    assert_eq!((&given["run_id"], &given["feedback"]["rating"]), (&json!(runs[2].0), &json!(1)));
    // A compaction is a run of its own without an answer to rate.
    assert_eq!(sandbox.run(&["compact", "last", "--keep", "2"]).code, 0);
    let ratings: Vec<Value> =
        rateable_runs(&sandbox).into_iter().map(|(_, given)| given["rating"].clone()).collect();
    assert_eq!(ratings, [Value::Null, json!(-1), json!(1)]);
    let history_text = sandbox.run(&["history", "last"]).stdout;
    for (run, thumb) in [(&runs[0], ""), (&runs[1], " · 👎 “too long”"), (&runs[2], " · 👍")] {
        assert!(
            history_text.contains(&format!("\nrun {}{thumb}\n", &run.0[..18])),
            "{thumb}: {history_text}"
        );
    }
    // The opposite rating replaces the first one, and `none` removes it.
    let repeated = sandbox.json(&["feedback", "last", "down", "--json"]);
    assert_eq!(repeated["feedback"]["created_at"], given["feedback"]["created_at"]);
    assert_eq!(sandbox.json(&["feedback", "last", "none", "--json"])["feedback"], Value::Null);
    assert_eq!(sandbox.run(&["feedback", "last", "none"]).code, 0, "a second time too");
    assert!(rateable_runs(&sandbox)[2].1.is_null());
}

#[test]
fn d1_a_comment_needs_a_rating_and_has_a_limit() {
    let server = compacting_server();
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "one"]).code, 0);
    sandbox
        .run(&["feedback", "last", "none", "--comment", "why"])
        .assert_error(2, "a comment needs a rating");
    let long = "x".repeat(2_001);
    let output = sandbox.run(&["feedback", "last", "up", "--comment", &long]);
    assert!(output.code == 2 && output.stderr.contains("2000"), "{output:?}");
}

#[test]
fn f7_a_trace_prints_every_event_of_a_run_on_its_own_line() {
    let server = ScriptedServer::start(Script::new([
        ScriptedReply::call("c1", "read_file", json!({"path": "note.txt"})),
        ScriptedReply::text("It says hi.\n").with_tokens(12_000, 50),
    ]))
    .unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    sandbox.write_file("note.txt", "hi there\n");
    assert_eq!(sandbox.run(&["run", "-p", "what does\nit say?"]).code, 0);
    let output = sandbox.run(&["trace", "last", "--events"]);
    assert_eq!(output.code, 0, "{output:?}");
    for part in [
        "· success",
        "human_message         what does it say?",
        "→ read_file note.txt",
        "read_file · 1 line",
        "It says hi. · 12.0k in, 50 out",
        "run_ended",
    ] {
        assert!(output.stdout.contains(part), "{part}: {}", output.stdout);
    }
    let lines = sandbox.run(&["trace", "last", "--events", "--json"]).stdout;
    let events: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len() + 1, output.stdout.lines().count(), "one a line, below the run");
    assert!(events.windows(2).all(|pair| pair[0]["seq"].as_u64() < pair[1]["seq"].as_u64()));
    // Events that were undone later still belong to the trace of their run.
    assert_eq!(sandbox.run(&["threads", "rewind", "last", "1"]).code, 0);
    let run_id = events[0]["run_id"].as_str().unwrap();
    let after = sandbox.run(&["trace", run_id, "--events", "--json"]).stdout;
    assert_eq!(after.lines().count(), events.len());
}
