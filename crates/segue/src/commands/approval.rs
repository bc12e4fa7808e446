//! The approval of tool calls: each pending call is shown with its effect, and the user answers with a key. The rules
//! of the crate `tools` decide which calls need approval.

use std::path::Path;

use agent::{PermissionRule, RuleScope, is_canonical_folder};
use protocol::decision::EditedAction;
use protocol::{ActionRequest, Decision, Decisions, Interrupt, InterruptStatus, ThreadId};
use serde_json::{Map, Value};
use terminal::editor::{self, EditOutcome};
use terminal::tool_calls::title;
use terminal::{
    KeyChoice, Screen, TypeAheadBuffer, ask_draft, ask_while_typing, diff, reveal_unsafe, sanitize_line, wrap,
};

use crate::commands::CommandContext;
use crate::exit::{self, CliFailure, ExitReason};

/// The `middleware_source` of interrupts that ask about tool calls.
pub(crate) const TOOL_APPROVAL: &str = "ToolApprovalMiddleware";
/// The most lines of a command, a diff or arguments that are shown at once. The key `v` shows all of them.
const LINES_SHOWN_MAX: usize = 24;

/// The user's answer to an interrupt.
#[derive(Debug)]
pub(crate) enum ApprovalAnswer {
    /// Every call was decided.
    Decided {
        /// One decision for each call, in the order of the calls.
        decisions: Decisions,
        /// The permission rules to remember and their scopes, each rule in the text form in which the call offered it.
        remembered_rules: Vec<(String, RuleScope)>,
    },
    /// The thread is to be moved to the current folder. Then the same calls are shown again.
    MoveHere,
}

/// The possible answers to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApprovalKey {
    /// Run the call as proposed.
    Approve,
    /// Run the call, and remember its permission rules for this scope.
    Remember(RuleScope),
    /// Run this call and all calls after it.
    ApproveAll,
    /// Edit the call, then run it.
    Edit,
    /// Reject the call, with an optional reason for the model.
    Reject,
    /// Reject this call and all calls after it.
    RejectAll,
    /// Give the model a result without running the call.
    Respond,
    /// Print the whole call and ask again.
    View,
    /// Move the thread to the current folder.
    MoveHere,
}

/// The prompt for the reason of a rejection.
const REASON_PROMPT: &str = "Reason (Enter for none)";

/// Returns whether the interrupt is about tool calls.
pub(crate) fn is_tool_approval(interrupt: &Interrupt) -> bool {
    interrupt.payload.middleware_source == TOOL_APPROVAL
}

/// Returns the ids and the arguments of an interrupt's calls, in order. Requests without a call id are omitted.
pub(crate) fn pending_calls(interrupt: &Interrupt) -> Vec<(String, Value)> {
    let requests = interrupt.payload.action_requests.iter();
    let call = |request: &ActionRequest| {
        Some((request_detail(request, "call_id")?.as_str()?.to_owned(), request.args.clone()))
    };
    requests.filter_map(call).collect()
}

/// Returns a notice for a message that is sent while tool calls are pending, because the message cancels these calls.
/// `None` if no call is pending.
pub(crate) async fn dropped_calls_notice(
    context: &CommandContext,
    thread_id: ThreadId,
) -> Result<Option<String>, CliFailure> {
    let pending = context.agent.runs().pending_interrupts(thread_id).await?;
    let count =
        pending.iter().filter(|interrupt| is_tool_approval(interrupt)).flat_map(pending_calls).count();
    Ok(match count {
        0 => None,
        1 => Some("Your message cancels 1 pending tool call.".to_owned()),
        count => Some(format!("Your message cancels {count} pending tool calls.")),
    })
}

/// Asks about each call of an interrupt. Returns `None` if the user postpones the decision; then nothing is decided. A
/// message that the user types instead of an answer goes to `typed`.
///
/// # Errors
/// Fails if the terminal cannot be read or written.
pub(crate) fn ask_for_decisions(
    context: &CommandContext,
    interrupt: &Interrupt,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<ApprovalAnswer>, CliFailure> {
    let requests = &interrupt.payload.action_requests;
    let (mut decisions, mut remembered) = (Vec::new(), Vec::new());
    show_workspace(context, interrupt)?;
    // All calls are shown before the first question, because a later call may be the reason to reject an earlier one.
    if requests.len() > 1 {
        for (index, request) in requests.iter().enumerate() {
            show_call(context, request, CallPosition { number: index + 1, count: requests.len() })?;
        }
    }
    for (index, request) in requests.iter().enumerate() {
        let position = CallPosition { number: index + 1, count: requests.len() };
        if requests.len() == 1 {
            show_call(context, request, position)?;
        } else {
            context.screen.print_line(context.screen.style.bold(call_heading(request, position)))?;
        }
        match ask_about_call(context, interrupt, index, typed)? {
            None => return Ok(None),
            Some(CallAnswer::Decided(decision)) => decisions.push(decision),
            Some(CallAnswer::AllowByRule(scope)) => {
                decisions.push(approve_decision());
                remembered.extend(offered_rules(request).into_iter().map(|rule| (rule, scope)));
            }
            Some(CallAnswer::All(decision)) => {
                decisions.resize(requests.len(), decision);
                break;
            }
            Some(CallAnswer::MoveHere) => return Ok(Some(ApprovalAnswer::MoveHere)),
        }
    }
    Ok(Some(ApprovalAnswer::Decided { decisions: Decisions { decisions }, remembered_rules: remembered }))
}

/// The answer to the question about one call.
enum CallAnswer {
    /// A decision about this call only.
    Decided(Decision),
    /// Approve the call, and remember its rules for this scope.
    AllowByRule(RuleScope),
    /// The same decision for this call and all calls after it. Calls that were decided before keep their decisions.
    All(Decision),
    /// Move the thread to the current folder. Decisions about earlier calls are discarded.
    MoveHere,
}

/// Asks about the call at `index` until it is answered; `None` if the user postpones the answer.
fn ask_about_call(
    context: &CommandContext,
    interrupt: &Interrupt,
    index: usize,
    typed: &mut TypeAheadBuffer,
) -> Result<Option<CallAnswer>, CliFailure> {
    let requests = &interrupt.payload.action_requests;
    let request = &requests[index];
    let choices = call_choices(interrupt, request, requests.len() - index);
    let (mut reason, mut result) = (String::new(), String::new());
    let screen = &context.screen;
    loop {
        let Some(key) = ask_while_typing(screen, &choices, "Decide later", typed)? else { return Ok(None) };
        let decision = match key {
            ApprovalKey::Approve => Some(approve_decision()),
            ApprovalKey::ApproveAll => return Ok(Some(CallAnswer::All(approve_decision()))),
            ApprovalKey::Remember(scope) => return Ok(Some(CallAnswer::AllowByRule(scope))),
            ApprovalKey::MoveHere => return Ok(Some(CallAnswer::MoveHere)),
            ApprovalKey::Edit => edit_call(context, request)?,
            ApprovalKey::Reject => ask_draft(screen, REASON_PROMPT, &mut reason)?.map(reject_decision),
            ApprovalKey::RejectAll => match ask_draft(screen, REASON_PROMPT, &mut reason)? {
                Some(reason) => return Ok(Some(CallAnswer::All(reject_decision(reason)))),
                None => None,
            },
            ApprovalKey::Respond => ask_draft(screen, "Result to use instead of the call", &mut result)?
                .filter(|text| !text.trim().is_empty())
                .map(|message| Decision::Respond { message }),
            ApprovalKey::View => {
                screen.print_lines(call_detail_lines(screen, request))?;
                None
            }
        };
        if let Some(decision) = decision {
            return Ok(Some(CallAnswer::Decided(decision)));
        }
    }
}

/// Returns the folder in which the calls run, if the interrupt names one.
fn workspace(interrupt: &Interrupt) -> Option<&Path> {
    interrupt.payload.workspace.as_deref().map(Path::new)
}

/// Returns whether the interrupt is pending and its calls can run on this host, because their folder exists here.
pub(crate) fn can_run_when_approved(interrupt: &Interrupt) -> bool {
    interrupt.status == InterruptStatus::Pending && workspace(interrupt).is_none_or(is_canonical_folder)
}

/// Returns a line for each call: its title, and the folder in which it runs.
pub(crate) fn call_lines(interrupt: &Interrupt) -> Vec<String> {
    let folder = workspace(interrupt)
        .map(|folder| format!(" in {}", sanitize_line(&reveal_unsafe(&folder.to_string_lossy()))));
    let folder = folder.unwrap_or_default();
    let requests = interrupt.payload.action_requests.iter();
    requests.map(|request| format!("`{}`{folder}", title(&request.name, &request.args))).collect()
}

/// Prints the folder in which the calls run, with a warning if it does not exist or is not the current folder.
fn show_workspace(context: &CommandContext, interrupt: &Interrupt) -> Result<(), CliFailure> {
    let Some(folder) = workspace(interrupt) else { return Ok(()) };
    let (screen, style) = (&context.screen, context.screen.style);
    let name = sanitize_line(&reveal_unsafe(&folder.to_string_lossy()));
    let columns = screen.text_columns();
    let wrap_line = |text: &str| wrap(text, columns, "", "  ");
    screen.print_line("")?;
    if !is_canonical_folder(folder) {
        screen
            .print_line(style.bad(wrap_line(&format!("⚠ proposed in {name}, which does not exist here"))))?;
        let hint = "A call runs only in the folder in which it was proposed. “Continue here” moves the thread to this \
                    folder and asks again.";
        return Ok(screen.print_line(style.dim(wrap_line(hint)))?);
    }
    match folder == context.agent.workspace() {
        true => screen.print_line(style.dim(wrap_line(&format!("in {name}"))))?,
        false => screen.print_line(style.warn(wrap_line(&format!("in {name}, which is not this folder"))))?,
    }
    Ok(())
}

/// Returns the decision to run a call as proposed.
fn approve_decision() -> Decision {
    Decision::Approve { args: None, summary_sha256: None }
}

/// Returns the decision to reject a call. An empty reason counts as none.
fn reject_decision(reason: String) -> Decision {
    Decision::Reject { message: Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty()) }
}

/// Returns the answers that the call allows. `undecided` is the number of calls without a decision, including this one.
fn call_choices(
    interrupt: &Interrupt,
    request: &ActionRequest,
    undecided: usize,
) -> Vec<KeyChoice<ApprovalKey>> {
    let config = interrupt.payload.review_configs.iter().find(|config| config.action_name == request.name);
    let is_missing = workspace(interrupt).is_some_and(|folder| !is_canonical_folder(folder));
    // A call runs only in the folder in which it was proposed, so without the folder it cannot be approved.
    let runs_call = |decision: &str| matches!(decision, "approve" | "edit");
    let allows = |decision: &str| {
        let is_allowed =
            config.is_none_or(|config| config.allowed_decisions.iter().any(|allowed| allowed == decision));
        is_allowed && !(is_missing && runs_call(decision))
    };
    let mut choices = Vec::new();
    let mut add = |key, label, answer, is_offered: bool| {
        if is_offered {
            choices.push(KeyChoice { key, label, answer });
        }
    };
    let has_rules = allows("approve") && !offered_rules(request).is_empty();
    add('y', "Approve", ApprovalKey::Approve, allows("approve"));
    add('a', "Always in this session", ApprovalKey::Remember(RuleScope::Session), has_rules);
    add('p', "Always in this project", ApprovalKey::Remember(RuleScope::Project), has_rules);
    add('e', "Edit", ApprovalKey::Edit, allows("edit"));
    add('h', "Continue here", ApprovalKey::MoveHere, is_missing);
    add('n', "Reject", ApprovalKey::Reject, allows("reject"));
    add('r', "Answer instead", ApprovalKey::Respond, allows("respond"));
    add('v', "View all", ApprovalKey::View, true);
    add('*', "Approve all remaining", ApprovalKey::ApproveAll, undecided > 1 && allows("approve"));
    add('-', "Reject all remaining", ApprovalKey::RejectAll, undecided > 1 && allows("reject"));
    choices
}

/// The position of a call among the calls of an interrupt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallPosition {
    /// The number of the call, from 1.
    number: usize,
    /// The number of calls.
    count: usize,
}

/// Returns the heading of a call: its position, if there are several calls, and its title.
fn call_heading(request: &ActionRequest, position: CallPosition) -> String {
    let CallPosition { number, count } = position;
    let position = if count > 1 { format!(" {number} of {count}") } else { String::new() };
    // A single command is printed in full below the heading, so its heading has only the tool's name.
    let title = match request_detail(request, "command") {
        Some(_) if count == 1 => sanitize_line(&reveal_unsafe(&request.name)),
        Some(_) | None => title(&reveal_unsafe(&request.name), &reveal_args(&request.args)),
    };
    format!("Call{position}: {title}")
}

/// Returns the arguments with invisible and bidirectional characters made visible in all texts and keys.
fn reveal_args(args: &Value) -> Value {
    match args {
        Value::String(text) => Value::from(reveal_unsafe(text).into_owned()),
        Value::Array(items) => items.iter().map(reveal_args).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (reveal_unsafe(key).into_owned(), reveal_args(value))).collect()
        }
        other => other.clone(),
    }
}

/// Prints a call: its heading, warnings, up to [`LINES_SHOWN_MAX`] lines of its effect, the reason why it needs
/// approval, and the rules that would allow it.
pub(crate) fn show_call(
    context: &CommandContext,
    request: &ActionRequest,
    position: CallPosition,
) -> Result<(), CliFailure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.text_columns();
    screen.print_line("")?;
    screen.print_line(style.bold(wrap(&call_heading(request, position), columns, "", "  ")))?;
    if request_detail(request, "subagent").is_some() {
        screen.print_line(style.dim("requested by a sub-agent"))?;
    }
    for warning in call_warnings(request) {
        screen.print_line(style.bad(wrap(&format!("⚠ {warning}"), columns, "", "  ")))?;
    }
    let lines = call_detail_lines(screen, request);
    let shown = if lines.len() <= LINES_SHOWN_MAX + 1 { lines.len() } else { LINES_SHOWN_MAX };
    screen.print_lines(&lines[..shown])?;
    if shown < lines.len() {
        screen.print_line(style.warn(format!("… {} more lines: v shows them", lines.len() - shown)))?;
    }
    if let Some(rule) = request_detail(request, "rule").and_then(Value::as_str) {
        screen.print_line(style.dim(wrap(&format!("reason: {}", sanitize_line(rule)), columns, "", "  ")))?;
    }
    let rules = offered_rules(request);
    if !rules.is_empty() {
        let text = format!("“Always” remembers: {}", sanitize_line(&rules.join(", ")));
        screen.print_line(style.dim(wrap(&text, columns, "", "  ")))?;
    }
    Ok(())
}

/// Returns the lines to decide on: the diff, the command, or the arguments as JSON. Invisible characters are made visible.
fn call_detail_lines(screen: &Screen, request: &ActionRequest) -> Vec<String> {
    if let Some(diff) = request_detail(request, "diff").and_then(Value::as_str) {
        return diff::render_unified(screen, &reveal_unsafe(diff));
    }
    if let Some(command) = request_detail(request, "command").and_then(Value::as_str) {
        let command = reveal_unsafe(command);
        return command
            .lines()
            .flat_map(|line| wrap_preserving_blanks(line, screen.columns.saturating_sub(4)))
            .enumerate()
            .map(|(index, text)| format!("{}{text}", if index == 0 { "$ " } else { "  " }))
            .map(|line| screen.style.code(line))
            .collect();
    }
    let args = serde_json::to_string_pretty(&request.args).unwrap_or_default();
    reveal_unsafe(&args).lines().map(|line| screen.style.code(line)).collect()
}

/// Returns a line broken into pieces of at most `columns` columns. Unlike [`wrap`], it preserves all blanks, because
/// they have a meaning in a command.
fn wrap_preserving_blanks(line: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let char_columns = terminal::width(c.encode_utf8(&mut [0; 4]));
        if used + char_columns > columns.max(10) {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
        used += char_columns;
    }
    pieces
}

/// Returns a field of the request's details; `null` counts as missing.
fn request_detail<'a>(request: &'a ActionRequest, key: &str) -> Option<&'a Value> {
    request.details.as_ref()?.get(key).filter(|value| !value.is_null())
}

/// Returns the warnings about a call. In the request, each is a text, or an object with a `text`.
fn call_warnings(request: &ActionRequest) -> Vec<String> {
    let warnings = request_detail(request, "warnings").and_then(Value::as_array).map(Vec::as_slice);
    let text = |warning: &Value| match warning {
        Value::String(text) => sanitize_line(text),
        other => sanitize_line(other.get("text").and_then(Value::as_str).unwrap_or(&other.to_string())),
    };
    warnings.unwrap_or_default().iter().map(text).collect()
}

/// Returns the permission rules that together would allow the call without asking.
fn offered_rules(request: &ActionRequest) -> Vec<String> {
    let rules = request_detail(request, "remember").and_then(Value::as_array).map(Vec::as_slice);
    rules.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Stores the rules that the user chose to remember, for the folder of the calls. If a rule cannot be stored, that
/// failure is printed, and the call runs anyway.
///
/// # Errors
/// Fails only if the output is closed.
pub(crate) async fn store_rules(
    context: &CommandContext,
    interrupt: &Interrupt,
    rules: &[(String, RuleScope)],
) -> Result<(), CliFailure> {
    let (admin, folder) = (context.agent.admin(), workspace(interrupt));
    let folder = folder.unwrap_or_else(|| context.agent.workspace());
    for (rule, scope) in rules {
        let stored = match rule.parse::<PermissionRule>() {
            Ok(rule) => admin.remember_rule(folder, rule, *scope).await.map_err(CliFailure::from),
            Err(error) => Err(CliFailure::new(ExitReason::Internal, format!("read the rule: {error}"))),
        };
        match stored {
            Ok(()) => {}
            Err(CliFailure::Reported(failure)) => exit::print_failure(&failure, context.format),
            Err(closed @ CliFailure::OutputClosed) => return Err(closed),
        }
    }
    Ok(())
}

/// Opens an editor on the command of a call, or on all its arguments. Returns the edited call as a decision; `None` if
/// the user changed nothing or the result cannot be used.
fn edit_call(context: &CommandContext, request: &ActionRequest) -> Result<Option<Decision>, CliFailure> {
    let folder = context.agent.home().root();
    // Only a tool that declares it in the details has a shell command. The `command` of another tool is an ordinary argument.
    let is_command = request_detail(request, "command").is_some();
    let command = request.args.get("command").filter(|_| is_command).and_then(Value::as_str);
    let (head, text) = match command {
        Some(command) => (
            "Edit the command, save, and close the editor. This approves the edited command.",
            command.to_owned(),
        ),
        None => (
            "Edit the arguments, save, and close the editor. This approves the edited call.",
            serde_json::to_string_pretty(&request.args)?,
        ),
    };
    let edited = match editor::edit_text(folder, head, &text).map_err(CliFailure::from) {
        Ok(EditOutcome::Changed { text, .. }) => text,
        Ok(EditOutcome::Unchanged) => {
            context.screen.print_line("Nothing was changed.")?;
            return Ok(None);
        }
        Err(CliFailure::Reported(failure)) => {
            exit::print_failure(&failure, context.format);
            return Ok(None);
        }
        Err(closed @ CliFailure::OutputClosed) => return Err(closed),
    };
    let args: Map<String, Value> = match command {
        Some(_) => {
            let mut args = request.args.as_object().cloned().unwrap_or_default();
            args.insert("command".to_owned(), Value::from(edited.trim_end()));
            args
        }
        None => match serde_json::from_str(&edited) {
            Ok(args) => args,
            Err(error) => {
                context
                    .screen
                    .print_line(context.screen.style.bad(format!("This is not a JSON object: {error}")))?;
                return Ok(None);
            }
        },
    };
    let edited_action = EditedAction { name: request.name.clone(), args };
    Ok(Some(Decision::Edit { edited_action }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use terminal::{Audience, CursorMode, Style};

    use super::*;

    /// Returns a request to run a command, with these details.
    fn request(details: Value) -> ActionRequest {
        ActionRequest {
            name: "execute".to_owned(),
            description: "Run a command".to_owned(),
            args: json!({"command": "ls  -l"}),
            details: Some(details),
        }
    }

    #[test]
    fn k5_invisible_characters_of_a_call_are_shown() {
        let screen =
            Screen { style: Style::Plain, columns: 60, audience: Audience::Person, cursor: CursorMode::Free };
        let command = request(json!({"command": "rm -rf \u{202e}txt.exe\necho  two"}));
        assert_eq!(call_detail_lines(&screen, &command), ["$ rm -rf ‹U+202E›txt.exe", "  echo  two"]);
        let diff = request(json!({"diff": "@@ -1 +1 @@\n-a\n+b\u{200b}\u{2066}\n"}));
        assert_eq!(call_detail_lines(&screen, &diff)[2], "+b\u{200b}‹U+2066›");
        let other = request(json!({}));
        assert_eq!(call_detail_lines(&screen, &other), ["{", "  \"command\": \"ls  -l\"", "}"]);
        let warned =
            request(json!({"warnings": ["one\u{1b}[2J", {"kind": "bidi", "line": 1, "text": "two"}]}));
        assert_eq!(call_warnings(&warned), ["one", "two"]);
    }

    #[test]
    fn k5_invisible_characters_in_the_heading_of_a_call_are_shown() {
        let mut call = request(json!({}));
        call.name = "mcp__x__put".to_owned();
        call.args = json!({"to": "a\u{202e}b", "list": ["\u{1b}[2J"]});
        let heading = call_heading(&call, CallPosition { number: 1, count: 1 });
        assert!(heading.contains("‹U+202E›b") && heading.contains("‹U+001B›[2J"), "{heading}");
    }

    #[test]
    fn a_long_command_is_wrapped_without_losing_characters() {
        let line = "x".repeat(150) + " y";
        assert_eq!(wrap_preserving_blanks(&line, 56).concat(), line);
        assert_eq!(wrap_preserving_blanks("", 56), [""]);
    }
}
