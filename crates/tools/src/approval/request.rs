//! The question a person is asked about a call, in the shape that LangChain's human-in-the-loop clients know, with what
//! helps to decide in `details`. What follows from the answer is not known here.

use protocol::{ActionRequest, InterruptPayload, ReviewConfig, SCHEMA_VERSION};
use runtime::{Detail, Review, Subject, ToolCall};
use serde_json::{Value, json};

use super::visible::{Warning, visible, warnings};
use crate::permission::{Rules, suggestions};
use crate::shown::{abridged, shortened};

/// The wire name of the hook.
pub(super) const MIDDLEWARE_SOURCE: &str = "ToolApprovalMiddleware";
/// The decisions each call allows.
const DECISIONS: [&str; 4] = ["approve", "edit", "reject", "respond"];
/// The most bytes of a diff or command that are shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
/// The most characters of a command in the description.
const DESCRIPTION_CHARS_MAX: usize = 100;
/// The most warnings of one call.
const WARNINGS_MAX: usize = 20;

/// Returns the question about one call; the review says what it would do, and the rule why a person is asked.
pub(super) fn request(rules: &Rules, call: &ToolCall, review: &Review, rule: &str) -> ActionRequest {
    let mut found = Vec::new();
    for subject in &review.subjects {
        if let Subject::Path(path) = subject {
            found.extend(warnings("path", &path.to_string_lossy()));
        }
    }
    let mut details = json!({
        "call_id": call.id,
        "subjects": review.subjects.iter().map(subject).collect::<Vec<_>>(),
    });
    match &review.detail {
        Detail::Arguments => strings(&call.args, &mut |text| found.extend(warnings("argument", text))),
        Detail::Command(command) => {
            found.extend(warnings("command", command));
            details["command"] = shown(command, &mut found).into();
        }
        Detail::Diff(diff) => {
            found.extend(warnings("diff", diff));
            details["diff"] = shown(diff, &mut found).into();
        }
    }
    found.truncate(WARNINGS_MAX);
    details["warnings"] = json!(found);
    details["rule"] = rule.into();
    details["remember"] = json!(suggestions(rules, &call.name, review));
    let description = description(call, review);
    ActionRequest { name: call.name.clone(), description, args: call.args.clone(), details: Some(details) }
}

/// Returns one question about all the calls, with what is allowed of each in the same order. `workspace` is the folder in
/// which they are made.
pub(super) fn payload(action_requests: Vec<ActionRequest>, workspace: Option<String>) -> InterruptPayload {
    let review_configs = action_requests.iter().map(|request| ReviewConfig {
        action_name: request.name.clone(),
        allowed_decisions: DECISIONS.map(str::to_owned).to_vec(),
    });
    let review_configs = review_configs.collect();
    InterruptPayload {
        schema_version: SCHEMA_VERSION,
        middleware_source: MIDDLEWARE_SOURCE.to_owned(),
        action_requests,
        review_configs,
        workspace,
    }
}

fn description(call: &ToolCall, review: &Review) -> String {
    let path = review.subjects.iter().find_map(|subject| match subject {
        Subject::Path(path) => Some(visible(&path.to_string_lossy())),
        Subject::Command(_) | Subject::Url(_) => None,
    });
    match (&review.detail, path) {
        (Detail::Command(command), _) => {
            let line = visible(command.trim()).replace('\n', " ⏎ ");
            format!("Run: {}", shortened(&line, DESCRIPTION_CHARS_MAX))
        }
        (Detail::Diff(diff), Some(path)) if diff.starts_with("--- /dev/null") => format!("Create {path}"),
        (Detail::Diff(_), Some(path)) => format!("Change {path}"),
        (_, Some(path)) => format!("{} {path}", call.name),
        (Detail::Diff(_) | Detail::Arguments, None) => format!("Call {}", call.name),
    }
}

fn subject(subject: &Subject) -> Value {
    match subject {
        Subject::Path(path) => json!({"path": visible(&path.to_string_lossy())}),
        Subject::Command(command) => json!({"command": abridged(&visible(command), SHOWN_BYTES_MAX)}),
        Subject::Url(url) => json!({"url": visible(url)}),
    }
}

fn shown(text: &str, found: &mut Vec<Warning>) -> String {
    let text = visible(text);
    if text.len() > SHOWN_BYTES_MAX {
        found.insert(0, Warning::abridged(text.len()));
    }
    abridged(&text, SHOWN_BYTES_MAX)
}

fn strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
