//! Messages as clients write them, one line each.

use agent::{CLIENT_PROVIDER, client_fields};
use serde_json::json;

use super::*;

fn new_destination() -> Option<MessageDestination> {
    Some(MessageDestination { thread_id: ThreadId::generate(), received_at: Timestamp::UNIX_EPOCH })
}

/// Reads messages and tells each as its stored JSON.
fn read(value: Value) -> Result<Vec<Value>, String> {
    let read = read_messages(&value, new_destination()).map_err(|fault| fault.to_string());
    let looked_at = read_messages(&value, None).map(drop).map_err(|fault| fault.to_string());
    assert_eq!(looked_at, read.as_ref().map(|_| ()).map_err(String::clone), "{value}");
    let read = read?;
    let told = |message: InputMessage| match message.change {
        MessageChange::Put(said) => serde_json::to_value(said).unwrap(),
        MessageChange::Remove => json!({"remove": message.id}),
        MessageChange::RemoveAll => json!("remove all"),
    };
    Ok(read.into_iter().map(told).collect())
}

#[track_caller]
fn check(value: Value, expected: Value) {
    let shown = value.to_string();
    assert_eq!(read(value).map(Value::Array), Ok(expected), "{shown}");
}

#[track_caller]
fn check_refused(value: Value, why: &str) {
    let shown = value.to_string();
    assert_eq!(read(value), Err(why.to_owned()), "{shown}");
}

fn human(text: &str) -> Value {
    json!({"type": "human", "content": [{"type": "text", "text": text}]})
}

/// The block that keeps how the blocks of a content were written.
fn block_forms(forms: Value) -> Value {
    json!({"type": "opaque", "provider": "client", "raw": {"content": forms, "type": "message_fields"}})
}

#[test]
fn messages_are_read_in_every_form_that_clients_send() {
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
fn what_has_no_place_of_its_own_is_kept_as_it_was_sent() {
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
        let MessageChange::Put(said) = message.change else { panic!("{block}") };
        let named = ContentBlock::Media {
            media_type: "image/png".to_owned(),
            sha256: Some(artifact.sha256.clone()),
            bytes: Some(8),
        };
        assert_eq!(said.content()[0], named, "{block}");
        let kept = serde_json::to_string(&said).unwrap();
        assert!(!kept.contains(png.trim_end_matches('=')), "the bytes are kept once: {kept}");
    }
    let link = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
    check(
        json!({"role": "user", "content": [link]}),
        json!([{"type": "human", "content": [{"type": "opaque", "provider": "client", "raw": link}, block_forms(json!([null]))]}]),
    );
    check_refused(
        json!([{"role": "user", "content": [{"type": "image", "base64": "!"}]}]),
        "messages[0].content[0]: its bytes are not base64",
    );
    for bad in ["a", "abcde", "ab=cd", "a+b-", "ab\u{e4}", "ab cd", "aB"] {
        let block = json!({"type": "image", "base64": bad});
        check_refused(
            json!([{"role": "user", "content": [block]}]),
            "messages[0].content[0]: its bytes are not base64",
        );
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    check_refused(json!(3), "messages: expected a message or a list of messages");
    check_refused(json!([3]), "messages[0]: expected a text, a pair or an object");
    check_refused(json!(["a", {}]), "messages[1]: it has neither `role` nor `type`");
    check_refused(json!([{"role": "robot"}]), "messages[0]: `robot` is no type of message");
    check_refused(json!([["user"]]), "messages[0]: expected a pair of a role and a content");
    check_refused(
        json!({"role": "user", "content": {"a": 1}}),
        "messages.content: expected a text or a list of blocks",
    );
    check_refused(json!({"role": "user", "content": [{}]}), "messages.content[0]: a block has a `type`");
    check_refused(
        json!({"role": "user", "content": [{"type": "text"}]}),
        "messages.content[0]: a block of text has a `text`",
    );
    check_refused(json!({"role": "user", "content": "a", "id": 3}), "messages.id: expected a text");
    check_refused(
        json!({"role": "user", "content": "a", "id": "x".repeat(257)}),
        "messages.id: 257 bytes, the most is 256",
    );
    check_refused(
        json!([{"type": "tool", "content": "x"}]),
        "messages[0].tool_call_id: a result names the call it is of",
    );
    check_refused(
        json!([{"type": "ai", "tool_calls": [{"id": "c"}]}]),
        "messages[0].tool_calls[0]: a call has a `name`",
    );
    check_refused(
        json!([{"type": "ai", "tool_calls": [{"name": "c"}]}]),
        "messages[0].tool_calls[0]: a call has an `id`",
    );
    check_refused(json!([{"type": "ai", "tool_calls": 3}]), "messages[0].tool_calls: expected a list");
    check_refused(
        json!([{"type": "remove"}]),
        "messages[0]: it removes a message and names none: `id` is missing",
    );
    check_refused(Value::Array(vec!["x".into(); 5_001]), "messages: 5001 messages, the most is 5000");
    let large = json!({"role": "user", "content": "a", "additional_kwargs": {"k": "x".repeat(70_000)}});
    assert!(read(large).unwrap_err().ends_with("beside its content, the most is 65536"));
}
