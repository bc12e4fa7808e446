//! Pins on the command line and in a chat: pinning, listing, removal, wrong arguments, and the requests that contain them.

use serde_json::Value;
use test_model::{Script, ScriptedReply, ScriptedServer};

use crate::sandbox::TestSandbox;

/// Returns a sandbox with a thread of two turns, and its model.
fn sandbox_with_thread() -> (ScriptedServer, TestSandbox) {
    let reply = ScriptedReply { always: true, ..ScriptedReply::text("The port is 4711.\n") };
    let server = ScriptedServer::start(Script::new([reply])).unwrap();
    let sandbox = TestSandbox::new().with_model(&server);
    assert_eq!(sandbox.run(&["run", "-p", "Which port?"]).code, 0);
    (server, sandbox)
}

/// Returns the seq of the first message with this role.
fn seq_of(sandbox: &TestSandbox, role: &str) -> String {
    let history = sandbox.json(&["history", "last", "--json"]);
    let entries = history["entries"].as_array().unwrap().clone();
    entries.iter().find(|entry| entry["type"] == role).unwrap()["seq"].to_string()
}

fn texts(pins: &Value) -> Vec<&str> {
    pins.as_array().unwrap().iter().map(|pin| pin["text"].as_str().unwrap()).collect()
}

#[test]
fn texts_and_messages_are_pinned_listed_and_unpinned() {
    let (server, sandbox) = sandbox_with_thread();
    let answer = seq_of(&sandbox, "ai");
    let pinned = sandbox.json(&["pin", "last", "--message", &answer, "--json"]);
    assert_eq!((&pinned["pin"]["number"], &pinned["pin"]["author"]), (&1.into(), &"assistant".into()));
    assert_eq!((&pinned["was_pinned"], &pinned["withheld"]), (&false.into(), &0.into()));
    let pinned = sandbox.run(&["pin", "last", "No", "test", "may", "sleep."]);
    assert!(
        pinned.stdout.contains("Pinned:\n2 your text\n  No test may sleep.\n2 pins, about "),
        "{pinned:?}"
    );
    let listed = sandbox.json(&["pin", "last", "--json"]);
    assert_eq!(texts(&listed["pins"]), ["The port is 4711.", "No test may sleep."]);
    assert!(listed["pins"][1]["tokens"].as_u64().unwrap() > 2);
    assert_eq!(sandbox.run(&["run", "-c", "-p", "And now?"]).code, 0);
    let system = server.requests().pop().unwrap().body["system"].to_string();
    assert!(system.contains("No test may sleep.") && system.contains("The port is 4711."), "{system}");
    let context = sandbox.json(&["context", "last", "--json"]);
    let parts = context["parts"].as_array().unwrap();
    let part = parts.iter().find(|part| part["name"] == "Pins").unwrap_or_else(|| panic!("{context}"));
    assert!(part["tokens"].as_u64().unwrap() > 20, "{context}");
    let unpinned = sandbox.run(&["unpin", "last", "1"]);
    assert!(unpinned.stdout.starts_with("Unpinned:\n1 answer #"), "{unpinned:?}");
    let history = sandbox.run(&["history", "last"]).stdout;
    assert!(history.contains("Pin 2 added: “No test may sleep.”"), "{history}");
    assert!(history.contains("Pin 1 removed: “The port is 4711.”"), "{history}");
}

#[test]
fn what_cannot_be_pinned_is_refused_with_a_hint() {
    let (_server, sandbox) = sandbox_with_thread();
    let long = "x".repeat(4_001);
    for (args, what) in [
        (&["pin", "last", " "][..], "pin a text: it is empty"),
        (&["pin", "last", &long], "a pin has at most 4000"),
        (&["pin", "last", "--message", "999"], "pin message #999: the thread has no such message"),
        (&["pin", "last", "#999"], "pin message #999: the thread has no such message"),
        (&["unpin", "last", "7"], "unpin 7: the thread has no such pin"),
    ] {
        let output = sandbox.run(args);
        output.assert_error(2, what);
    }
    let usage = sandbox.run(&["pin", "last", "text", "--message", "1"]);
    assert_eq!(usage.code, 2, "{usage:?}");
}

#[test]
fn a_number_sign_and_a_number_pin_that_message_in_every_front_end() {
    let (_server, sandbox) = sandbox_with_thread();
    let answer = format!("#{}", seq_of(&sandbox, "ai"));
    let pinned = sandbox.json(&["pin", "last", &answer, "--json"]);
    assert_eq!(pinned["pin"]["text"], "The port is 4711.", "{pinned}");
    let in_chat = sandbox.run_with(&["chat", "-c"], &format!("/pin {answer}\n"));
    assert!(in_chat.stdout.contains("Pinned already:"), "{in_chat:?}");
    let text = sandbox.json(&["pin", "last", &format!("{answer} is the port"), "--json"]);
    assert_eq!(text["pin"]["message_seq"], Value::Null, "{text}");
}

#[test]
fn a_chat_pins_and_unpins() {
    let (server, sandbox) = sandbox_with_thread();
    let answer = seq_of(&sandbox, "ai");
    let lines = format!(
        "/pin Keep it small.\n/pin #{answer}\n/pin Keep it small.\n/pins\n/unpin 1\n/unpin\n/unpin 9\n/context\nand now?\n"
    );
    let output = sandbox.run_with(&["chat", "-c"], &lines);
    assert_eq!(output.code, 0, "{output:?}");
    for part in ["Pinned already:", "1 your text", &format!("2 answer #{answer}"), "Unpinned:", "pins"] {
        assert!(output.stdout.contains(part), "{part}: {output:?}");
    }
    for part in ["unpin: no number was given", "unpin 9: the thread has no such pin", "its pins are 2"] {
        assert!(output.stderr.contains(part), "{part}: {output:?}");
    }
    let system = server.requests().pop().unwrap().body["system"].to_string();
    assert!(system.contains("The port is 4711.") && !system.contains("Keep it small."), "{system}");
}

#[test]
fn a_new_chat_can_begin_with_a_pin() {
    let (server, sandbox) = sandbox_with_thread();
    let output = sandbox.run_with(&["chat"], "/pins\n/pin #1\n/pin Answer in French.\nHello.\n");
    assert_eq!(output.code, 0, "{output:?}");
    let body = server.requests().pop().unwrap().body;
    assert!(body["system"].to_string().contains("Answer in French."), "{body}");
    assert!(!body["messages"].to_string().contains("Which port?"), "it is a new thread: {body}");
}
