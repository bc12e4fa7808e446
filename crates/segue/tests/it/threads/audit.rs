//! The history shows what happened to a thread besides its messages (S81).

use serde_json::{Value, json};
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;

/// Returns the type and the text of each entry that is not a message.
fn audit_entries(history: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = history["entries"].as_array().unwrap().iter();
    entries
        .map(|entry| (text(entry, "type"), text(entry, "text")))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

#[test]
fn s81_the_history_shows_names_handoffs_approvals_and_failed_runs() {
    let replies = [
        ScriptedReply::call("c1", "execute", json!({"command": "rm -r /srv/kettle"})),
        ScriptedReply::text("Not done."),
        ScriptedReply::status(400, "{}"),
    ];
    let server = ScriptedServer::start(Script::new(replies)).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    let refused = sandbox.run(&["run", "--approve", "deny", "-p", "clean up"]);
    assert_eq!(refused.code, 0, "{refused:?}");
    let thread = sandbox.threads()[0]["thread_id"].as_str().unwrap().to_owned();
    assert_ne!(sandbox.run(&["run", "-t", &thread, "-p", "and now?"]).code, 0);
    for name in ["Kettle", "The lid"] {
        assert_eq!(sandbox.run(&["threads", "rename", &thread, name]).code, 0);
    }
    let offline = |args: &[&str]| {
        let all: Vec<&str> =
            ["handoff", &thread, "--model", "extractive"].iter().chain(args).copied().collect();
        sandbox.run(&all)
    };
    let decline = json!({"decisions": [{"type": "reject", "message": "too early"}]}).to_string();
    let decline = sandbox.write_file("decline.json", decline);
    assert_eq!(offline(&["--decision-file", &decline]).code, 0);
    let accepted = offline(&["mend", "it", "--apply", "--json"]).json();
    let (child, title) = (accepted["child_thread_id"].as_str().unwrap(), &accepted["summary_json"]["title"]);
    let history = sandbox.json(&["history", &thread, "--json"]);
    let entries = audit_entries(&history);
    let decided = &entries[0];
    assert_eq!(decided.0, "tool_call_decided");
    assert!(decided.1.starts_with("Call of `execute` refused by "), "{decided:?}");
    let failed = &entries[1];
    assert!(failed.0 == "run_failed" && failed.1.starts_with("Run failed: "), "{failed:?}");
    let pair = |kind: &str, text: String| (kind.to_owned(), text);
    let expected = [
        pair("thread_renamed", "Thread renamed to “Kettle”".to_owned()),
        pair("thread_renamed", "Thread renamed from “Kettle” to “The lid”".to_owned()),
        pair("handoff_requested", "Handoff requested by a person".to_owned()),
        pair("handoff_declined", "Handoff declined: too early".to_owned()),
        pair("handoff_requested", "Handoff requested by a person: mend it".to_owned()),
        pair(
            "handoff_accepted",
            format!(
                "Handoff accepted: the work continues in thread {} “{}”",
                &child[..13],
                title.as_str().unwrap()
            ),
        ),
    ];
    assert_eq!(entries[2..], expected);
    let text = sandbox.run(&["history", &thread]).stdout;
    assert!(text.contains("── Handoff declined: too early #"), "{text}");
    assert_eq!(text.matches("failed: ").count(), 1, "a failed run is shown once: {text}");
    let rewound = sandbox.run(&["threads", "rewind", &thread, "1"]);
    assert_eq!(rewound.code, 0, "{rewound:?}");
    let after = audit_entries(&sandbox.json(&["history", &thread, "--json"]));
    assert_eq!(after.len(), 1, "{after:?}");
    assert!(after[0].0 == "thread_rewound" && after[0].1.starts_with("Thread rewound to #"), "{after:?}");
    let markers = sandbox.json(&["history", &thread, "--markers", "--json"]);
    assert_eq!(audit_entries(&markers), []);
}
