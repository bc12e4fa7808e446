//! The parsed form of requests, one line each.

use agent::MessageChange;
use protocol::{Message, RunId};
use serde_json::json;

use super::*;

/// Reads a request; what is said comes as text.
fn read(request: Value) -> Result<(RunAction, Vec<String>), String> {
    let request: RunRequest = serde_json::from_value(request).unwrap();
    let thread_id = ThreadId::from_uuid(RunId::generate().uuid());
    let wanted = read_request(&request, thread_id, Timestamp::UNIX_EPOCH)
        .map_err(|fault| format!("{}: {}", fault.kind, fault.message))?;
    let said = wanted.messages.iter().map(|message| match &message.change {
        MessageChange::Put(Message::Human(_)) => format!("U: {}", text(message)),
        MessageChange::Put(Message::Ai(_)) => format!("A: {}", text(message)),
        MessageChange::Put(Message::Tool(_)) => format!("T: {}", text(message)),
        MessageChange::Remove => format!("- {}", message.id.as_deref().unwrap()),
        MessageChange::RemoveAll => "- all".to_owned(),
    });
    Ok((wanted.action, said.collect()))
}

fn text(message: &InputMessage) -> String {
    let MessageChange::Put(said) = &message.change else { return String::new() };
    said.text()
}

#[track_caller]
fn check(request: Value, action: RunAction, said: &[&str]) {
    let shown = request.to_string();
    assert_eq!(read(request), Ok((action, said.iter().map(ToString::to_string).collect())), "{shown}");
}

#[track_caller]
fn check_refused(request: Value, why: &str) {
    let shown = request.to_string();
    let refused = read(request).unwrap_err();
    assert!(refused.starts_with("InvalidUpdateError: ") && refused.contains(why), "{shown}: {refused}");
}

#[test]
fn an_input_begins_a_turn_and_no_input_goes_on() {
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
fn a_command_wins_over_the_input_unless_it_commands_nothing() {
    let input = json!({"messages": "hi"});
    for nothing in [json!({}), json!({"resume": null, "goto": null, "update": null}), json!({"goto": []})] {
        check(json!({"input": input, "command": nothing}), RunAction::BeginTurn, &["U: hi"]);
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
fn a_place_to_go_is_a_node_with_or_without_input() {
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
    check_refused(json!({"command": {"goto": "model", "resume": true}}), "both an answer");
}

#[test]
fn an_answer_names_its_questions_when_all_its_keys_are_ids_of_interrupts() {
    let id = "0123456789abcdef0123456789abcdef";
    let named = |fields: Value| match read_answers(&fields) {
        InterruptAnswers::Named(named) => Some(named.len()),
        InterruptAnswers::Only(_) => None,
    };
    assert_eq!(named(json!({id: {"decisions": []}})), Some(1));
    assert_eq!(named(json!({})), Some(0));
    for only in [
        json!({"decisions": []}),
        json!({id: 1, "decisions": []}),
        json!({id.to_uppercase(): 1}),
        json!([id]),
        json!("yes"),
    ] {
        assert_eq!(named(only.clone()), None, "{only}");
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
