//! Decisions of clients about interrupts, in each form that clients send. Decisions that are accepted are exactly those that the
//! text lists, with their types; everything else is refused with a reason of one line. A field that is lost, a type that is
//! not known, or a second value of a field is never accepted in a request to `/api`.

use agent::{InterruptAnswers, ParsedAnswer, RunAction};
use jiff::Timestamp;
use protocol::decision::REASON_CHARS_MAX;
use protocol::{Decision, Decisions, InterruptId, RunCommand, RunRequest, ThreadId};
use serde_json::Value;

use super::{FuzzTarget, RepeatedInput};

/// The target.
pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "decisions",
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
        "3",
        "\"\"",
        "{\"decisions\":[",
        "\"decisions\":",
        "{\"type\":\"approve\"}",
        "{\"type\":\"approve\",\"summary_sha256\":\"ab\"}",
        "{\"type\":\"approve\",\"args\":{\"summary_md\":\"x\",\"title\":\"y\"}}",
        "{\"type\":\"edit\",\"edited_action\":{\"name\":\"handoff_summary\",\"args\":{\"feedback\":\"x\"}}}",
        "{\"type\":\"edit\",\"editedAction\":{\"name\":\"write_file\",\"args\":{}}}",
        "{\"type\":\"reject\"}",
        "{\"type\":\"reject\",\"message\":\"no\"}",
        "{\"type\":\"respond\",\"message\":\"x\"}",
        "{\"type\":\"preview\"}",
        "{\"type\":\"accept\"}",
        "\"type\":\"approve\",",
        "\"type\":\"Reject\",",
        "\"type\":",
        "\"message\":null",
        "\"id\":3,",
        "\"0123456789abcdef0123456789abcdef\":",
    ],
    repeated: &[
        RepeatedInput::between("{\"decisions\":[", "{\"type\":\"approve\"},", "{\"type\":\"reject\"}]}"),
        RepeatedInput::between(
            "{\"decisions\":[{\"type\":\"approve\",\"args\":{",
            "\"summary_md\":\"a\",",
            "\"title\":\"b\"}}]}",
        ),
        RepeatedInput::between("{\"decisions\":[{\"type\":\"", "x", "\"}]}"),
        RepeatedInput::between("{\"decisions\":[{\"type\":\"reject\",\"message\":\"", "\\n", "\"}]}"),
        RepeatedInput::between("{\"decisions\":", "[", ""),
    ],
};

fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    check_request(text);
    if let Ok(answer) = serde_json::from_str::<Value>(text) {
        check_answer(answer);
    }
}

fn parse(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = Decisions::parse_request(text);
        if let Ok(answer) = serde_json::from_str::<Value>(text) {
            drop(read_answer(answer));
        }
    }
}

/// Checks the decisions in the body of a request to `/api`.
fn check_request(text: &str) {
    let decisions = match Decisions::parse_request(text) {
        Ok(decisions) => decisions,
        Err(reason) => {
            let is_short = reason.chars().count() <= REASON_CHARS_MAX;
            assert!(is_short && !reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
            return;
        }
    };
    let given: Value = serde_json::from_str(text).expect("accepted decisions are JSON");
    // A field with the value `null` means the same as none.
    let fields = given.as_object().expect("accepted decisions are an object");
    let has_other = fields.iter().any(|(name, value)| name != "decisions" && !value.is_null());
    assert!(!has_other, "no other field is accepted: {text}");
    let listed = given["decisions"].as_array().expect("accepted decisions are listed");
    check_types(listed, &decisions);
    let written = serde_json::to_string(&decisions).expect("decisions have a JSON form");
    assert_eq!(Decisions::parse_request(&written).as_ref(), Ok(&decisions), "{written}");
    let plain: Decisions =
        serde_json::from_str(text).expect("a request is no stricter in what it understands");
    assert_eq!(plain, decisions);
}

/// Checks an answer in a run request of the Agent Server protocol.
fn check_answer(answer: Value) {
    match read_answer(answer.clone()) {
        None => assert!(answer.is_null(), "only `null` is no answer"),
        Some(InterruptAnswers::Only(parsed)) => check_parsed(&answer, &parsed),
        Some(InterruptAnswers::Named(named)) => {
            let fields = answer.as_object().expect("answers by interrupt are in an object");
            assert_eq!(fields.len(), named.len(), "every interrupt has its answer");
            for (name, given) in fields {
                let id: InterruptId = name.parse().expect("the name is an id");
                check_parsed(given, &named[&id]);
            }
        }
    }
}

/// Checks that an answer was accepted only if it lists decisions of known types.
fn check_parsed(given: &Value, parsed: &ParsedAnswer) {
    match parsed {
        Ok(decisions) => {
            let listed = match given {
                Value::Array(listed) => listed.as_slice(),
                Value::Object(fields) => match fields.get("decisions") {
                    Some(listed) => listed.as_array().expect("accepted decisions are listed"),
                    None => std::slice::from_ref(given),
                },
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => &[],
            };
            check_types(listed, decisions);
        }
        Err(reason) => assert!(!reason.0.is_empty(), "a refusal has a reason"),
    }
}

/// Checks that decisions are those that a client listed, in number and type.
fn check_types(listed: &[Value], decisions: &Decisions) {
    let given: Vec<Option<&str>> = listed.iter().map(|decision| decision["type"].as_str()).collect();
    let read: Vec<Option<&str>> = decisions.decisions.iter().map(Decision::type_name).map(Some).collect();
    assert_eq!(read, given);
}

/// Returns how a run request with this answer is understood; `None` if it has no answer.
fn read_answer(answer: Value) -> Option<InterruptAnswers> {
    let command = RunCommand { resume: Some(answer), update: None, goto: None };
    let request = RunRequest { command: Some(command), ..RunRequest::default() };
    let thread_id: ThreadId = "018f0000-0000-7000-8000-000000000001".parse().expect("the text is an id");
    let input = langgraph::read_request(&request, thread_id, Timestamp::UNIX_EPOCH);
    match input.expect("an answer never makes a request malformed").action {
        RunAction::Answer(answers) => Some(answers),
        RunAction::BeginTurn
        | RunAction::Continue
        | RunAction::GoToNode(_)
        | RunAction::DiscardPending
        | RunAction::Rehome(_) => None,
    }
}
