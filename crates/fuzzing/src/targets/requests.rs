//! Bodies of requests that start runs or change the state of a thread. Any body is refused with a typed error that a client can show, or it
//! becomes an input within all limits, the same one again after it was stored in a queue, and its messages can be stored.

use agent::{InputMessage, MessageChange};
use jiff::Timestamp;
use protocol::{ContentBlock, FailureKind, NewEvent, RunRequest, ThreadId};
use serde_json::{Map, Value};

use super::{FuzzTarget, RepeatedInput};

/// The maximum length of the id of a message in bytes, as the crate `langgraph` documents it.
const ID_BYTES_MAX: usize = 256;

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "requests",
    check,
    parse,
    dictionary: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "\"\"",
        "\"\\ud800\"",
        "{\"input\":{\"messages\":[",
        "\"input\":",
        "\"messages\":",
        "{\"command\":{\"resume\":",
        "{\"command\":{\"update\":[[\"messages\",",
        "{\"command\":{\"goto\":{\"node\":\"model\",\"input\":{\"messages\":",
        "\"goto\":\"__end__\"",
        "{\"role\":\"user\",\"content\":",
        "{\"type\":\"ai\",\"tool_calls\":[",
        "{\"id\":\"c\",\"name\":\"ls\",\"args\":{}}",
        "{\"id\":\"c\",\"function\":{\"name\":\"ls\",\"arguments\":\"{}\"}}",
        "{\"type\":\"tool\",\"tool_call_id\":\"c\",\"content\":",
        "{\"type\":\"remove\",\"id\":\"__remove_all__\"}",
        "{\"lc\":1,\"type\":\"constructor\",\"id\":[\"HumanMessage\"],\"kwargs\":{",
        "{\"type\":\"text\",\"text\":\"a\"}",
        "{\"type\":\"image\",\"source_type\":\"base64\",\"mime_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}",
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,iVBORw0KGgo=\"}}",
        "{\"type\":\"file\",\"file\":{\"file_data\":\"data:a;base64,aGk=\"}}",
        "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"ls\",\"input\":{}}",
        "\"additional_kwargs\":{\"k\":1}",
        "\"content\":",
        "\"id\":\"m1\"",
        "[\"user\",\"hi\"]",
        "\"multitask_strategy\":\"reject\"",
        "\"checkpoint_id\":\"1ef4f797-8335-6428-8001-8a1503f9b875\"",
    ],
    repeated: &[
        RepeatedInput::between("{\"input\":{\"messages\":[", "\"a\",", "\"b\"]}}"),
        RepeatedInput::between(
            "{\"input\":{\"messages\":[",
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},",
            "\"b\"]}}",
        ),
        RepeatedInput::between(
            "{\"input\":{\"messages\":[{\"type\":\"human\",\"content\":[",
            "{\"type\":\"custom\",\"x\":[1]},",
            "{\"type\":\"text\",\"text\":\"a\"}]}]}}",
        ),
        RepeatedInput::between(
            "{\"input\":{\"messages\":[{\"type\":\"ai\",\"content\":[",
            "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"ls\",\"input\":{}},",
            "{\"type\":\"text\",\"text\":\"a\"}]}]}}",
        ),
        RepeatedInput::between(
            "{\"input\":{\"messages\":[{\"type\":\"human\",\"content\":[{\"type\":\"image\",\"base64\":\"",
            "iVBORw0K",
            "\"}]}]}}",
        ),
        RepeatedInput::between("{\"input\":", "[", ""),
        RepeatedInput::nested("[", "]"),
        RepeatedInput::between("{\"input\":", "{\"a\":", ""),
        RepeatedInput::between("{\"input\":{\"x\":\"", "\\u0041", "\"}}"),
        RepeatedInput::between("{\"command\":{\"goto\":[", "\"model\",", "\"model\"]}}"),
        RepeatedInput::between("{\"command\":{\"update\":[", "[\"messages\",\"a\"],", "[\"x\",1]]}}"),
    ],
};

fn check(input: &[u8]) {
    let request = match langgraph::extract::parse_json::<RunRequest>(input) {
        Ok(request) => request,
        Err(error) => {
            assert!(matches!(error.status().as_u16(), 413 | 422), "{}", error.status());
            assert!(!error.detail().is_empty(), "a refusal has a reason");
            return;
        }
    };
    let read = |request: &RunRequest| langgraph::read_request(request, thread_id(), Timestamp::UNIX_EPOCH);
    let stored = serde_json::to_string(&request).expect("a request has a JSON form");
    let queued: RunRequest = serde_json::from_str(&stored).expect("a stored request can be read");
    let outcome = read(&request);
    assert_eq!(read(&queued), outcome, "a queued request means what it meant at its arrival: {stored}");
    match outcome {
        Ok(input) => input.messages.iter().for_each(check_message),
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::InvalidUpdate, "{failure:?}");
            assert!(!failure.message.is_empty() && !failure.message.contains('\n'), "{failure:?}");
        }
    }
    let channels = request.input.as_ref().and_then(Value::as_object).cloned();
    check_state_update(channels, request.interrupt_before.first().map(String::as_str));
}

fn parse(input: &[u8]) {
    if let Ok(request) = langgraph::extract::parse_json::<RunRequest>(input) {
        let _ = langgraph::read_request(&request, thread_id(), Timestamp::UNIX_EPOCH);
    }
}

/// Checks that a message is within the limits, that its artifacts are those that it names, and that it can be stored.
fn check_message(input: &InputMessage) {
    if let Some(id) = &input.id {
        assert!(!id.is_empty() && id.len() <= ID_BYTES_MAX && !id.contains(char::is_control), "{id:?}");
    }
    let message = match &input.change {
        MessageChange::Put(message) => message,
        MessageChange::Remove => {
            assert!(input.id.is_some(), "a removal names a message");
            return;
        }
        MessageChange::RemoveAll => return,
    };
    let named: Vec<&str> = message.content().iter().filter_map(media_digest).collect();
    for artifact in &input.artifacts {
        assert_eq!(artifact.sha256, protocol::sha256_hex(&artifact.bytes));
        assert!(named.contains(&artifact.sha256.as_str()), "an artifact is named by its message");
    }
    let stored = NewEvent::from_message(message, Timestamp::UNIX_EPOCH).expect("a message has a JSON form");
    assert_eq!(protocol::lone_surrogate(stored.content.get()), None, "{}", stored.content);
}

/// Returns the digest of the media in a block.
fn media_digest(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Media { sha256, .. } => sha256.as_deref(),
        ContentBlock::Text { .. }
        | ContentBlock::Thinking { .. }
        | ContentBlock::ToolCall { .. }
        | ContentBlock::Opaque { .. } => None,
    }
}

/// Checks that an update of the state is refused with a reason, or has messages within the limits.
fn check_state_update(values: Option<Map<String, Value>>, as_node: Option<&str>) {
    match langgraph::read_state_update(thread_id(), values, as_node, None) {
        Ok(change) => change.messages.iter().for_each(check_message),
        Err(error) => assert_eq!(error.class(), agent::ErrorClass::User, "{error}"),
    }
}

/// Returns the id of the thread of all requests.
fn thread_id() -> ThreadId {
    "018f0000-0000-7000-8000-000000000001".parse().expect("the text is an id")
}
