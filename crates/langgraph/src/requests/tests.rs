//! Parsing of run requests: each request with its action and its messages.

use agent::MessageChange;
use protocol::{Message, RunId};
use serde_json::json;

use super::*;

/// Parses a request. Each message is rendered as one line: `U:`, `A:` or `T:` with its text, or `-` with a removed id.
fn read(request: Value) -> Result<(RunAction, Vec<String>), String> {
    let request: RunRequest = serde_json::from_value(request).unwrap();
    let thread_id = ThreadId::from_uuid(RunId::generate().uuid());
    let input = read_request(&request, thread_id, Timestamp::UNIX_EPOCH)
        .map_err(|failure| format!("{}: {}", failure.kind, failure.message))?;
    let lines = input.messages.iter().map(|message| match &message.change {
        MessageChange::Put(Message::Human(_)) => format!("U: {}", text(message)),
        MessageChange::Put(Message::Ai(_)) => format!("A: {}", text(message)),
        MessageChange::Put(Message::Tool(_)) => format!("T: {}", text(message)),
        MessageChange::Remove => format!("- {}", message.id.as_deref().unwrap()),
        MessageChange::RemoveAll => "- all".to_owned(),
    });
    Ok((input.action, lines.collect()))
}

fn text(message: &InputMessage) -> String {
    let MessageChange::Put(message) = &message.change else { return String::new() };
    message.text()
}

#[track_caller]
fn check(request: Value, action: RunAction, messages: &[&str]) {
    let shown = request.to_string();
    assert_eq!(read(request), Ok((action, messages.iter().map(ToString::to_string).collect())), "{shown}");
}

#[track_caller]
fn check_refused(request: Value, reason: &str) {
    let shown = request.to_string();
    let error = read(request).unwrap_err();
    assert!(error.starts_with("InvalidUpdateError: ") && error.contains(reason), "{shown}: {error}");
}

#[test]
fn an_input_starts_a_turn_and_no_input_continues() {
    check(json!({}), RunAction::Continue, &[]);
    check(json!({"input": null}), RunAction::Continue, &[]);
    check(json!({"input": {}}), RunAction::BeginTurn, &[]);
    check(json!({"input": {"messages": []}}), RunAction::BeginTurn, &[]);
    check(json!({"input": {"messages": null, "files": {"a": "b"}}}), RunAction::BeginTurn, &[]);
    check(json!({"input": {"messages": "hi"}}), RunAction::BeginTurn, &["U: hi"]);
    check_refused(json!({"input": "hi"}), "expected an object");
    check_refused(json!({"input": ["hi"]}), "expected an object");
    check_refused(json!({"input": {"messages": 3}}), "messages: expected a message");
}

#[test]
fn a_command_takes_precedence_over_the_input_unless_it_is_empty() {
    let input = json!({"messages": "hi"});
    for empty in [json!({}), json!({"resume": null, "goto": null, "update": null}), json!({"goto": []})] {
        check(json!({"input": input, "command": empty}), RunAction::BeginTurn, &["U: hi"]);
    }
    check(json!({"input": input, "command": {"goto": "__end__"}}), RunAction::DiscardPending, &[]);
    check(
        json!({"input": {}, "command": {"goto": "__end__", "update": null}}),
        RunAction::DiscardPending,
        &[],
    );
    check(json!({"command": {"update": {"messages": "more", "x": 1}}}), RunAction::Continue, &["U: more"]);
    check(json!({"command": {"update": [["messages", "a"], ["todos", []]]}}), RunAction::Continue, &["U: a"]);
    check_refused(json!({"command": {"update": 3}}), "`command.update`");
    check_refused(json!({"command": {"update": [["messages"]]}}), "`command.update`");
}

#[test]
fn a_goto_names_one_node_with_or_without_input() {
    let node = || RunAction::GoToNode("model".to_owned());
    check(json!({"command": {"goto": "model"}}), node(), &[]);
    check(json!({"command": {"goto": ["model"]}}), node(), &[]);
    check(json!({"command": {"goto": ["model", "model"]}}), node(), &[]);
    check(json!({"command": {"goto": "__start__"}}), RunAction::BeginTurn, &[]);
    check(json!({"command": {"goto": {"node": "model", "input": {"messages": "x"}}}}), node(), &["U: x"]);
    check(
        json!({"command": {"update": {"messages": "a"}, "goto": [{"node": "model", "input": {"messages": "x"}}]}}),
        node(),
        &["U: a", "U: x"],
    );
    check_refused(json!({"command": {"goto": ["model", "tools"]}}), "one node at a time");
    check_refused(json!({"command": {"goto": 3}}), "the name of a node");
    check_refused(json!({"command": {"goto": {"input": {}}}}), "`node` is missing");
    check_refused(json!({"command": {"goto": "model", "resume": true}}), "cannot be combined");
}

#[test]
fn an_answer_is_by_interrupt_if_all_of_its_keys_are_interrupt_ids() {
    let id = "0123456789abcdef0123456789abcdef";
    let named = |fields: Value| match read_answers(&fields) {
        InterruptAnswers::Named(named) => Some(named.len()),
        InterruptAnswers::Only(_) => None,
    };
    assert_eq!(named(json!({id: {"decisions": []}})), Some(1));
    assert_eq!(named(json!({})), Some(0));
    for single in [
        json!({"decisions": []}),
        json!({id: 1, "decisions": []}),
        json!({id.to_uppercase(): 1}),
        json!([id]),
        json!("yes"),
    ] {
        assert_eq!(named(single.clone()), None, "{single}");
    }
    check(
        json!({"command": {"resume": {}}}),
        RunAction::Answer(InterruptAnswers::Named(BTreeMap::new())),
        &[],
    );
    check(
        json!({"command": {"resume": "yes"}}),
        RunAction::Answer(InterruptAnswers::Only(read_answer(&"yes".into()))),
        &[],
    );
    check(
        json!({"input": {"messages": "hi"}, "command": {"resume": false}}),
        RunAction::Answer(InterruptAnswers::Only(read_answer(&false.into()))),
        &[],
    );
}
