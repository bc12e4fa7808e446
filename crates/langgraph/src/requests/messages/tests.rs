//! Parsing of client messages in each of their forms.

use agent::{CLIENT_PROVIDER, client_fields};
use serde_json::json;

use super::*;

fn new_destination() -> Option<MessageDestination> {
    Some(MessageDestination { thread_id: ThreadId::generate(), received_at: Timestamp::UNIX_EPOCH })
}

/// Parses messages and returns each as its stored JSON. Asserts that validation without a destination has the same
/// result.
fn read(value: Value) -> Result<Vec<Value>, String> {
    let parsed = read_messages(&value, new_destination()).map_err(|error| error.to_string());
    let validated = read_messages(&value, None).map(drop).map_err(|error| error.to_string());
    assert_eq!(validated, parsed.as_ref().map(|_| ()).map_err(String::clone), "{value}");
    let parsed = parsed?;
    let render = |input: InputMessage| match input.change {
        MessageChange::Put(message) => serde_json::to_value(message).unwrap(),
        MessageChange::Remove => json!({"remove": input.id}),
        MessageChange::RemoveAll => json!("remove all"),
    };
    Ok(parsed.into_iter().map(render).collect())
}

#[track_caller]
fn check(value: Value, expected: Value) {
    let shown = value.to_string();
    assert_eq!(read(value).map(Value::Array), Ok(expected), "{shown}");
}

#[track_caller]
fn check_refused(value: Value, reason: &str) {
    let shown = value.to_string();
    assert_eq!(read(value), Err(reason.to_owned()), "{shown}");
}

fn human(text: &str) -> Value {
    json!({"type": "human", "content": [{"type": "text", "text": text}]})
}

/// Returns the block that stores the forms in which a client wrote the blocks of a content.
fn block_forms(forms: Value) -> Value {
    json!({"type": "opaque", "provider": "client", "raw": {"content": forms, "type": "message_fields"}})
}

#[test]
fn messages_are_parsed_in_each_form_that_clients_send() {
    check(json!("hi"), json!([human("hi")]));
    check(json!(["hi", "you"]), json!([human("hi"), human("you")]));
    check(json!([["user", "hi"]]), json!([human("hi")]));
    for role in ["user", "human"] {
        check(json!({"role": role, "content": "hi"}), json!([human("hi")]));
        let mut listed = human("hi");
        listed["content"].as_array_mut().unwrap().push(block_forms(json!([null])));
        check(json!([{"type": role, "content": [{"type": "text", "text": "hi"}]}]), json!([listed]));
    }
    let class = json!({"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"],
                       "kwargs": {"content": "hi", "id": "m1", "additional_kwargs": {}}});
    check(
        json!([class]),
        json!([{"type": "human", "id": "m1", "content": [{"type": "text", "text": "hi"}]}]),
    );
    check(
        json!([{"role": "assistant", "content": "", "tool_calls": [
            {"id": "c1", "name": "ls", "args": {"path": "."}, "type": "tool_call"},
            {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{\"path\":\"a\"}"}}]}]),
        json!([{"type": "ai", "content": [
            {"type": "tool_call", "id": "c1", "name": "ls", "args": {"path": "."}},
            {"type": "tool_call", "id": "c2", "name": "ls", "args": {"path": "a"}}]}]),
    );
    check(
        json!([{"type": "ai", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {}}]}]),
        json!([{"type": "ai", "content": [
            {"type": "tool_call", "id": "c1", "name": "ls", "args": {}},
            block_forms(json!([{"raw": {"type": "tool_use", "id": "c1", "name": "ls", "input": null}, "at": "/input", "call_id": "c1"}]))]}]),
    );
    check(
        json!([{"type": "tool", "tool_call_id": "c1", "content": "x", "name": "ls", "status": "error"}]),
        json!([{"type": "tool", "call_id": "c1", "name": "ls", "content": [{"type": "text", "text": "x"}], "status": "error"}]),
    );
    check(
        json!([{"type": "remove", "id": "m1"}, {"type": "remove", "id": "__remove_all__"}]),
        json!([{"remove": "m1"}, "remove all"]),
    );
    check(Value::Null, json!([]));
}

#[test]
fn fields_and_blocks_that_segue_does_not_interpret_are_stored_unchanged() {
    let custom = json!({"type": "my_block", "x": [1]});
    let sent =
        json!({"role": "developer", "content": ["a", custom], "name": "n", "additional_kwargs": {"k": 1}});
    let message = read_messages(&sent, new_destination()).unwrap().remove(0);
    let MessageChange::Put(message) = message.change else { panic!("{message:?}") };
    assert_eq!(message.text(), "a");
    assert_eq!(
        message.content()[1],
        ContentBlock::Opaque { provider: CLIENT_PROVIDER.to_owned(), raw: custom }
    );
    let fields = client_fields(&message).unwrap();
    assert_eq!(
        (&fields["name"], &fields["additional_kwargs"], &fields["as"]),
        (&json!("n"), &json!({"k": 1}), &json!("system"))
    );
    assert_eq!(client_fields(&Message::human("a")), None);
}

#[test]
fn b16_the_bytes_of_images_and_files_become_artifacts_that_the_message_names() {
    let png = "iVBORw0KGgo=";
    for block in [
        json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{png}")}}),
        json!({"type": "image_url", "image_url": format!("data:image/png;base64,{png}")}),
        json!({"type": "image", "source_type": "base64", "mime_type": "image/png", "data": png}),
        json!({"type": "image", "mimeType": "image/png", "base64": png}),
        json!({"type": "image", "mime_type": "image/png", "data": png.trim_end_matches('=')}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}}),
        json!({"type": "file", "file": {"file_data": format!("data:image/png;base64,{png}")}}),
    ] {
        let message =
            read_messages(&json!({"role": "user", "content": [block]}), new_destination()).unwrap().remove(0);
        let [artifact] = &*message.artifacts else { panic!("{block}: {message:?}") };
        assert_eq!(
            (artifact.media_type.as_str(), artifact.bytes.as_slice()),
            ("image/png", &b"\x89PNG\r\n\x1a\n"[..]),
            "{block}"
        );
        let MessageChange::Put(message) = message.change else { panic!("{block}") };
        let media = ContentBlock::Media {
            media_type: "image/png".to_owned(),
            sha256: Some(artifact.sha256.clone()),
            bytes: Some(8),
        };
        assert_eq!(message.content()[0], media, "{block}");
        let stored = serde_json::to_string(&message).unwrap();
        assert!(!stored.contains(png.trim_end_matches('=')), "the bytes are stored once: {stored}");
    }
    let link = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    check(
        json!({"role": "user", "content": [link]}),
        json!([{"type": "human", "content": [{"type": "opaque", "provider": "client", "raw": link}, block_forms(json!([null]))]}]),
    );
    check_refused(
        json!([{"role": "user", "content": [{"type": "image", "base64": "!"}]}]),
        "messages[0].content[0]: the data is not valid base64",
    );
    for bad in ["a", "abcde", "ab=cd", "a+b-", "ab\u{e4}", "ab cd", "aB"] {
        let block = json!({"type": "image", "base64": bad});
        check_refused(
            json!([{"role": "user", "content": [block]}]),
            "messages[0].content[0]: the data is not valid base64",
        );
    }
}

#[test]
fn the_error_of_a_malformed_message_names_its_path() {
    check_refused(json!(3), "messages: expected a message or a list of messages");
    check_refused(json!([3]), "messages[0]: expected a string, a pair or an object");
    check_refused(json!(["a", {}]), "messages[1]: has neither `role` nor `type`");
    check_refused(json!([{"role": "robot"}]), "messages[0]: unknown message type `robot`");
    check_refused(json!([["user"]]), "messages[0]: expected a pair of a role and a content");
    check_refused(
        json!({"role": "user", "content": {"a": 1}}),
        "messages.content: expected a string or a list of blocks",
    );
    check_refused(json!({"role": "user", "content": [{}]}), "messages.content[0]: `type` is required");
    check_refused(
        json!({"role": "user", "content": [{"type": "text"}]}),
        "messages.content[0]: `text` is required in a text block",
    );
    check_refused(json!({"role": "user", "content": "a", "id": 3}), "messages.id: expected a string");
    check_refused(
        json!({"role": "user", "content": "a", "id": "x".repeat(257)}),
        "messages.id: 257 bytes exceed the maximum of 256",
    );
    check_refused(
        json!([{"type": "tool", "content": "x"}]),
        "messages[0].tool_call_id: required in a tool message",
    );
    check_refused(
        json!([{"type": "ai", "tool_calls": [{"id": "c"}]}]),
        "messages[0].tool_calls[0]: `name` is required",
    );
    check_refused(
        json!([{"type": "ai", "tool_calls": [{"name": "c"}]}]),
        "messages[0].tool_calls[0]: `id` is required",
    );
    check_refused(json!([{"type": "ai", "tool_calls": 3}]), "messages[0].tool_calls: expected a list");
    check_refused(json!([{"type": "remove"}]), "messages[0]: `id` is required to remove a message");
    check_refused(
        Value::Array(vec!["x".into(); 5_001]),
        "messages: 5001 messages exceed the maximum of 5000",
    );
    let large = json!({"role": "user", "content": "a", "additional_kwargs": {"k": "x".repeat(70_000)}});
    assert!(read(large).unwrap_err().ends_with("bytes; the maximum is 65536"));
}
