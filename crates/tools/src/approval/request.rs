//! The approval request for tool calls, in the shape that LangChain's human-in-the-loop clients expect. The additional
//! field `details` holds the diff or command, warnings, and suggested rules. Applying the answer is the task of
//! [`super::decisions`].

use protocol::{ActionRequest, InterruptPayload, ReviewConfig, SCHEMA_VERSION};
use runtime::{CallReview, CallSubject, Confinement, ReviewDetail, ToolCall};
use serde_json::{Value, json};

use super::text_warnings::{TextWarning, escape_hidden_characters, find_warnings};
use crate::permission::{PermissionRules, suggest_rules};
use crate::truncation::{truncate_line, truncate_middle};

/// Wire name of the hook (`middleware_source`).
pub(super) const MIDDLEWARE_SOURCE: &str = "ToolApprovalMiddleware";
/// Decisions that a client can take about each call.
const ALLOWED_DECISIONS: [&str; 4] = ["approve", "edit", "reject", "respond"];
/// Decision with which a client leaves a call undecided. It is allowed if the interrupt has another call to decide.
const DEFER_DECISION: &str = "defer";
/// Maximum number of bytes of a diff or command in a request.
const DETAIL_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of characters of a command in the description.
const DESCRIPTION_CHARS_MAX: usize = 100;
/// The argument in which a call states why it would run outside the sandbox.
const REASON_ARGUMENT: &str = "description";
/// Maximum number of warnings about one call.
const WARNINGS_MAX: usize = 20;

/// Returns the approval request for one call. `review` is its effect, and `rule` the reason why it needs approval.
pub(super) fn action_request(
    rules: &PermissionRules,
    call: &ToolCall,
    review: &CallReview,
    rule: &str,
) -> ActionRequest {
    let mut warnings = Vec::new();
    for subject in &review.subjects {
        if let CallSubject::Path(path) = subject {
            warnings.extend(find_warnings("path", &path.to_string_lossy()));
        }
    }
    let mut details = json!({
        "call_id": call.id,
        "subjects": review.subjects.iter().map(subject_json).collect::<Vec<_>>(),
    });
    match &review.detail {
        ReviewDetail::Arguments => {
            visit_strings(&call.args, &mut |text| warnings.extend(find_warnings("argument", text)))
        }
        ReviewDetail::Command(command) => {
            warnings.extend(find_warnings("command", command));
            details["command"] = visible_text(command, &mut warnings).into();
        }
        ReviewDetail::Diff(diff) => {
            warnings.extend(find_warnings("diff", diff));
            details["diff"] = visible_text(diff, &mut warnings).into();
        }
    }
    if review.confinement == Confinement::Declined {
        warnings.insert(0, TextWarning::for_outside_sandbox(stated_reason(call)));
        details["outside_sandbox"] = true.into();
    }
    warnings.truncate(WARNINGS_MAX);
    details["warnings"] = json!(warnings);
    details["rule"] = rule.into();
    details["remember"] = json!(suggest_rules(rules, &call.name, review));
    let description = description(call, review);
    ActionRequest { name: call.name.clone(), description, args: call.args.clone(), details: Some(details) }
}

/// Returns the payload of one interrupt about all the calls. The review configs, with the allowed decisions, are in the
/// order of the requests. `workspace` is the folder in which the calls will run.
pub(super) fn interrupt_payload(
    action_requests: Vec<ActionRequest>,
    workspace: Option<String>,
) -> InterruptPayload {
    let deferral = (action_requests.len() > 1).then_some(DEFER_DECISION);
    let allowed: Vec<String> = ALLOWED_DECISIONS.into_iter().chain(deferral).map(str::to_owned).collect();
    let review_configs = action_requests
        .iter()
        .map(|request| ReviewConfig { action_name: request.name.clone(), allowed_decisions: allowed.clone() })
        .collect();
    InterruptPayload {
        schema_version: SCHEMA_VERSION,
        middleware_source: MIDDLEWARE_SOURCE.to_owned(),
        action_requests,
        review_configs,
        workspace,
    }
}

/// Returns the reason that a call states for running outside the sandbox.
fn stated_reason(call: &ToolCall) -> &str {
    call.args.get(REASON_ARGUMENT).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the one-line description of a call, such as `Run: cargo test`.
fn description(call: &ToolCall, review: &CallReview) -> String {
    let path = review.subjects.iter().find_map(|subject| match subject {
        CallSubject::Path(path) => Some(escape_hidden_characters(&path.to_string_lossy())),
        CallSubject::Command(_) | CallSubject::Url(_) => None,
    });
    match (&review.detail, path) {
        (ReviewDetail::Command(command), _) => {
            let line = escape_hidden_characters(command.trim()).replace('\n', " ⏎ ");
            let verb = match review.confinement {
                Confinement::Declined => "Run outside the sandbox",
                Confinement::Sandboxed | Confinement::None => "Run",
            };
            format!("{verb}: {}", truncate_line(&line, DESCRIPTION_CHARS_MAX))
        }
        (ReviewDetail::Diff(diff), Some(path)) if diff.starts_with("--- /dev/null") => {
            format!("Create {path}")
        }
        (ReviewDetail::Diff(_), Some(path)) => format!("Change {path}"),
        (_, Some(path)) => format!("{} {path}", call.name),
        (ReviewDetail::Diff(_) | ReviewDetail::Arguments, None) => format!("Call {}", call.name),
    }
}

/// Returns a subject as JSON, with hidden characters escaped.
fn subject_json(subject: &CallSubject) -> Value {
    match subject {
        CallSubject::Path(path) => json!({"path": escape_hidden_characters(&path.to_string_lossy())}),
        CallSubject::Command(command) => {
            json!({"command": truncate_middle(&escape_hidden_characters(command), DETAIL_BYTES_MAX)})
        }
        CallSubject::Url(url) => json!({"url": escape_hidden_characters(url)}),
    }
}

/// Returns the text with hidden characters escaped, truncated in the middle. A truncation adds a warning in front of
/// the others.
fn visible_text(text: &str, warnings: &mut Vec<TextWarning>) -> String {
    let text = escape_hidden_characters(text);
    if text.len() > DETAIL_BYTES_MAX {
        warnings.insert(0, TextWarning::for_truncation(text.len()));
    }
    truncate_middle(&text, DETAIL_BYTES_MAX)
}

/// Calls `visit` with every string value in `value`. Object keys are not visited.
fn visit_strings(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter().for_each(|item| visit_strings(item, visit)),
        Value::Object(fields) => fields.values().for_each(|field| visit_strings(field, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
