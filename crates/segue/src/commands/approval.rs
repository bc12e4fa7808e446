//! The panel for tool calls that wait for a person: each call is shown with what it would do, and answered with a key.
//! What a call may do without asking is decided by the rules of the `tools` room.

use std::path::Path;

use agent::{Rule, Scope, is_in_place};
use protocol::decision::EditedAction;
use protocol::{ActionRequest, Decision, Decisions, Interrupt, InterruptStatus, ThreadId};
use serde_json::{Map, Value};
use terminal::calls::title;
use terminal::editor::{self, Edited};
use terminal::{Choice, Screen, Typed, ask_amid, ask_draft, diff, one_line, revealed, wrap};

use crate::commands::Context;
use crate::exit::{self, Code, Failure};

/// The wire name of what asks about tool calls.
pub(crate) const TOOL_APPROVAL: &str = "ToolApprovalMiddleware";
/// Lines of a command, a change or arguments that are shown at once; a key shows the rest.
const LINES_SHOWN_MAX: usize = 24;

/// What a person answered.
#[derive(Debug)]
pub(crate) enum Answered {
    /// What becomes of each call.
    Decided {
        /// One decision per call.
        decisions: Decisions,
        /// The rules they made on the way, as the calls offered them.
        remembered: Vec<(String, Scope)>,
    },
    /// The thread moves to this folder, and the calls are asked about again.
    GoOnHere,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Approve,
    Remember(Scope),
    ApproveAll,
    Edit,
    Reject,
    RejectAll,
    Respond,
    View,
    GoOnHere,
}

/// Returns whether the interrupt is about tool calls.
pub(crate) fn is_about_calls(interrupt: &Interrupt) -> bool {
    interrupt.payload.middleware_source == TOOL_APPROVAL
}

/// Returns the calls that are asked about: their ids and arguments.
pub(crate) fn calls(interrupt: &Interrupt) -> Vec<(String, Value)> {
    let requests = interrupt.payload.action_requests.iter();
    let call = |request: &ActionRequest| {
        Some((detail(request, "call_id")?.as_str()?.to_owned(), request.args.clone()))
    };
    requests.filter_map(call).collect()
}

/// Returns what to tell before a message is sent while calls wait for a decision; they are not made then.
pub(crate) async fn dropped(context: &Context, thread_id: ThreadId) -> Result<Option<String>, Failure> {
    let pending = context.agent.runs().pending_interrupts(thread_id).await?;
    let count = pending.iter().filter(|one| is_about_calls(one)).flat_map(calls).count();
    Ok(match count {
        0 => None,
        1 => Some("1 tool call that waited is dropped: a new message takes its place.".to_owned()),
        count => {
            Some(format!("{count} tool calls that waited are dropped: a new message takes their place."))
        }
    })
}

/// Asks about each call; `None` when the person leaves it for later, and nothing is decided then. What they go on to
/// type as a message goes to `typed`.
pub(crate) fn ask_person(
    context: &Context,
    interrupt: &Interrupt,
    typed: &mut Typed,
) -> Result<Option<Answered>, Failure> {
    let requests = &interrupt.payload.action_requests;
    let (mut decisions, mut remembered) = (Vec::new(), Vec::new());
    show_workspace(context, interrupt)?;
    // All are seen before any is answered: the second may be why the first is not wanted.
    if requests.len() > 1 {
        for (at, request) in requests.iter().enumerate() {
            show(context, request, CallPosition { number: at + 1, count: requests.len() })?;
        }
    }
    for (at, request) in requests.iter().enumerate() {
        let position = CallPosition { number: at + 1, count: requests.len() };
        if requests.len() == 1 {
            show(context, request, position)?;
        } else {
            context.screen.line(context.screen.style.bold(heading(request, position)))?;
        }
        match ask_one(context, interrupt, at, typed)? {
            None => return Ok(None),
            Some(One::Decided(decision)) => decisions.push(decision),
            Some(One::Remembered(scope)) => {
                decisions.push(approve());
                remembered.extend(rules(request).into_iter().map(|rule| (rule, scope)));
            }
            Some(One::All(decision)) => {
                decisions.resize(requests.len(), decision);
                break;
            }
            Some(One::GoOnHere) => return Ok(Some(Answered::GoOnHere)),
        }
    }
    Ok(Some(Answered::Decided { decisions: Decisions { decisions }, remembered }))
}

/// The answer to one call.
enum One {
    Decided(Decision),
    Remembered(Scope),
    All(Decision),
    GoOnHere,
}

/// Asks about one call until there is an answer.
fn ask_one(
    context: &Context,
    interrupt: &Interrupt,
    at: usize,
    typed: &mut Typed,
) -> Result<Option<One>, Failure> {
    let requests = &interrupt.payload.action_requests;
    let request = &requests[at];
    let choices = choices(interrupt, request, requests.len() - at);
    let (mut reason, mut result) = (String::new(), String::new());
    let screen = &context.screen;
    loop {
        let Some(key) = ask_amid(screen, &choices, "Decide later", typed)? else { return Ok(None) };
        let decision = match key {
            Key::Approve => Some(approve()),
            Key::ApproveAll => return Ok(Some(One::All(approve()))),
            Key::Remember(scope) => return Ok(Some(One::Remembered(scope))),
            Key::GoOnHere => return Ok(Some(One::GoOnHere)),
            Key::Edit => edit(context, request)?,
            Key::Reject => ask_draft(screen, "Why (Enter for no reason)", &mut reason)?.map(reject),
            Key::RejectAll => match ask_draft(screen, "Why (Enter for no reason)", &mut reason)? {
                Some(why) => return Ok(Some(One::All(reject(why)))),
                None => None,
            },
            Key::Respond => ask_draft(screen, "Answer in its place", &mut result)?
                .filter(|text| !text.trim().is_empty())
                .map(|message| Decision::Respond { message }),
            Key::View => {
                screen.lines(matter(screen, request))?;
                None
            }
        };
        if let Some(decision) = decision {
            return Ok(Some(One::Decided(decision)));
        }
    }
}

/// Returns the folder in which the calls are made.
fn workspace(interrupt: &Interrupt) -> Option<&Path> {
    interrupt.payload.workspace.as_deref().map(Path::new)
}

/// Returns whether the question waits and its folder is there.
pub(crate) fn is_made_when_approved(interrupt: &Interrupt) -> bool {
    interrupt.status == InterruptStatus::Pending && workspace(interrupt).is_none_or(is_in_place)
}

/// Returns a line for each call: what it does, and in which folder it is made.
pub(crate) fn call_lines(interrupt: &Interrupt) -> Vec<String> {
    let folder =
        workspace(interrupt).map(|folder| format!(" in {}", one_line(&revealed(&folder.to_string_lossy()))));
    let folder = folder.unwrap_or_default();
    let requests = interrupt.payload.action_requests.iter();
    requests.map(|request| format!("`{}`{folder}", title(&request.name, &request.args))).collect()
}

/// Shows the folder in which the calls are made once they are approved.
fn show_workspace(context: &Context, interrupt: &Interrupt) -> Result<(), Failure> {
    let Some(folder) = workspace(interrupt) else { return Ok(()) };
    let (screen, style) = (&context.screen, context.screen.style);
    let name = one_line(&revealed(&folder.to_string_lossy()));
    let columns = screen.text_columns();
    let line = |text: &str| wrap(text, columns, "", "  ");
    screen.line("")?;
    if !is_in_place(folder) {
        screen.line(style.bad(line(&format!("⚠ proposed in {name}, which does not exist here"))))?;
        let hint = "It is made there or nowhere. Go on here: it is asked about again for this folder.";
        return Ok(screen.line(style.dim(line(hint)))?);
    }
    match folder == context.agent.workspace() {
        true => screen.line(style.dim(line(&format!("in {name}"))))?,
        false => screen.line(style.warn(line(&format!("in {name}, which is not this folder"))))?,
    }
    Ok(())
}

fn approve() -> Decision {
    Decision::Approve { args: None, summary_sha256: None }
}

fn reject(why: String) -> Decision {
    Decision::Reject { message: Some(why.trim().to_owned()).filter(|why| !why.is_empty()) }
}

/// Returns the keys that the call accepts.
fn choices(interrupt: &Interrupt, request: &ActionRequest, left: usize) -> Vec<Choice<Key>> {
    let config = interrupt.payload.review_configs.iter().find(|config| config.action_name == request.name);
    let is_gone = workspace(interrupt).is_some_and(|folder| !is_in_place(folder));
    // Calls are made in the folder in which they were proposed, or not at all.
    let is_made = |name: &str| matches!(name, "approve" | "edit");
    let allows = |name: &str| {
        let is_allowed =
            config.is_none_or(|config| config.allowed_decisions.iter().any(|allowed| allowed == name));
        is_allowed && !(is_gone && is_made(name))
    };
    let mut choices = Vec::new();
    let mut add = |key, label, answer, is_there: bool| {
        if is_there {
            choices.push(Choice { key, label, answer });
        }
    };
    let remembers = allows("approve") && !rules(request).is_empty();
    add('y', "Approve", Key::Approve, allows("approve"));
    add('a', "Always in this session", Key::Remember(Scope::Session), remembers);
    add('p', "Always in this project", Key::Remember(Scope::Project), remembers);
    add('e', "Edit", Key::Edit, allows("edit"));
    add('h', "Go on here", Key::GoOnHere, is_gone);
    add('n', "Reject", Key::Reject, allows("reject"));
    add('r', "Answer instead", Key::Respond, allows("respond"));
    add('v', "View all", Key::View, true);
    add('*', "Approve all that are left", Key::ApproveAll, left > 1 && allows("approve"));
    add('-', "Reject all that are left", Key::RejectAll, left > 1 && allows("reject"));
    choices
}

/// The position of a call among those that are asked about together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallPosition {
    /// The number of the call, from 1.
    number: usize,
    count: usize,
}

fn heading(request: &ActionRequest, position: CallPosition) -> String {
    let CallPosition { number, count } = position;
    let place = if count > 1 { format!(" {number} of {count}") } else { String::new() };
    // A command is shown below with every character of it.
    let title = match detail(request, "command") {
        Some(_) if count == 1 => one_line(&revealed(&request.name)),
        Some(_) | None => title(&revealed(&request.name), &all_revealed(&request.args)),
    };
    format!("Call{place}: {title}")
}

/// Returns the arguments with what hides in them made visible.
fn all_revealed(args: &Value) -> Value {
    match args {
        Value::String(text) => Value::from(revealed(text).into_owned()),
        Value::Array(items) => items.iter().map(all_revealed).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (revealed(key).into_owned(), all_revealed(value))).collect()
        }
        other => other.clone(),
    }
}

/// Shows what a call would do, as far as it fits, and what speaks against it.
pub(crate) fn show(
    context: &Context,
    request: &ActionRequest,
    position: CallPosition,
) -> Result<(), Failure> {
    let (screen, style) = (&context.screen, context.screen.style);
    let columns = screen.text_columns();
    screen.line("")?;
    screen.line(style.bold(wrap(&heading(request, position), columns, "", "  ")))?;
    if detail(request, "subagent").is_some() {
        screen.line(style.dim("asked for by a sub-agent"))?;
    }
    for warning in warnings(request) {
        screen.line(style.bad(wrap(&format!("⚠ {warning}"), columns, "", "  ")))?;
    }
    let lines = matter(screen, request);
    let shown = if lines.len() <= LINES_SHOWN_MAX + 1 { lines.len() } else { LINES_SHOWN_MAX };
    screen.lines(&lines[..shown])?;
    if shown < lines.len() {
        screen.line(style.warn(format!("… {} more lines: v shows them", lines.len() - shown)))?;
    }
    if let Some(rule) = detail(request, "rule").and_then(Value::as_str) {
        screen.line(style.dim(wrap(&format!("why it asks: {}", one_line(rule)), columns, "", "  ")))?;
    }
    let rules = rules(request);
    if !rules.is_empty() {
        let text = format!("“always” would remember: {}", one_line(&rules.join(", ")));
        screen.line(style.dim(wrap(&text, columns, "", "  ")))?;
    }
    Ok(())
}

/// Returns what there is to decide about: the command, the change, or the arguments.
fn matter(screen: &Screen, request: &ActionRequest) -> Vec<String> {
    if let Some(diff) = detail(request, "diff").and_then(Value::as_str) {
        return diff::unified(screen, &revealed(diff));
    }
    if let Some(command) = detail(request, "command").and_then(Value::as_str) {
        let lead = |at: usize| if at == 0 { "$ " } else { "  " };
        let lines = revealed(command);
        let lines = lines.lines().enumerate();
        return lines
            .flat_map(|(at, line)| {
                let wrapped = wrap_exactly(line, screen.columns.saturating_sub(4));
                wrapped
                    .into_iter()
                    .enumerate()
                    .map(move |(part, text)| format!("{}{text}", if part == 0 { lead(at) } else { "  " }))
            })
            .map(|line| screen.style.code(line))
            .collect();
    }
    let args = serde_json::to_string_pretty(&request.args).unwrap_or_default();
    revealed(&args).lines().map(|line| screen.style.code(line)).collect()
}

/// Returns a line in pieces that fit, with every blank of it: in a command they count.
fn wrap_exactly(line: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in line.chars() {
        let wide = terminal::width(c.encode_utf8(&mut [0; 4]));
        if used + wide > columns.max(10) {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
        used += wide;
    }
    pieces
}

fn detail<'a>(request: &'a ActionRequest, key: &str) -> Option<&'a Value> {
    request.details.as_ref()?.get(key).filter(|value| !value.is_null())
}

fn warnings(request: &ActionRequest) -> Vec<String> {
    let warnings = detail(request, "warnings").and_then(Value::as_array).map(Vec::as_slice);
    let text = |warning: &Value| match warning {
        Value::String(text) => one_line(text),
        other => one_line(other.get("text").and_then(Value::as_str).unwrap_or(&other.to_string())),
    };
    warnings.unwrap_or_default().iter().map(text).collect()
}

/// Returns the rules that together would allow the call the next time.
fn rules(request: &ActionRequest) -> Vec<String> {
    let rules = detail(request, "remember").and_then(Value::as_array).map(Vec::as_slice);
    rules.unwrap_or_default().iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Makes the rules hold in the folder of the calls that a person made on the way; one that cannot be kept is told, and
/// the call is made all the same.
pub(crate) async fn remember(
    context: &Context,
    interrupt: &Interrupt,
    rules: &[(String, Scope)],
) -> Result<(), Failure> {
    let (admin, folder) = (context.agent.admin(), workspace(interrupt));
    let folder = folder.unwrap_or_else(|| context.agent.workspace());
    for (rule, scope) in rules {
        let kept = match rule.parse::<Rule>() {
            Ok(rule) => admin.remember_rule(folder, rule, *scope).await.map_err(Failure::from),
            Err(error) => Err(Failure::new(Code::Internal, format!("read the rule: {error}"))),
        };
        match kept {
            Ok(()) => {}
            Err(Failure::Told(told)) => exit::tell(&told, context.format),
            Err(closed @ Failure::OutputClosed) => return Err(closed),
        }
    }
    Ok(())
}

/// Lets the person change the command, or all the arguments; `None` when they leave them as they are.
fn edit(context: &Context, request: &ActionRequest) -> Result<Option<Decision>, Failure> {
    let folder = context.agent.home().root();
    // Only a tool that says so takes a shell command; another one's argument of that name is one of many.
    let is_command = detail(request, "command").is_some();
    let command = request.args.get("command").filter(|_| is_command).and_then(Value::as_str);
    let (head, text) = match command {
        Some(command) => {
            ("Change the command, save, and close the editor: that approves it.", command.to_owned())
        }
        None => (
            "Change the arguments, save, and close the editor: that approves the call.",
            serde_json::to_string_pretty(&request.args)?,
        ),
    };
    let edited = match editor::edit(folder, head, &text).map_err(Failure::from) {
        Ok(Edited::Text { text, .. }) => text,
        Ok(Edited::Unchanged) => {
            context.screen.line("Nothing was changed.")?;
            return Ok(None);
        }
        Err(Failure::Told(told)) => {
            exit::tell(&told, context.format);
            return Ok(None);
        }
        Err(closed @ Failure::OutputClosed) => return Err(closed),
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
                context.screen.line(context.screen.style.bad(format!("This is no JSON object: {error}")))?;
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
    use terminal::{Audience, Cursor, Style};

    use super::*;

    fn request(details: Value) -> ActionRequest {
        ActionRequest {
            name: "execute".to_owned(),
            description: "Run a command".to_owned(),
            args: json!({"command": "ls  -l"}),
            details: Some(details),
        }
    }

    #[test]
    fn k5_what_a_call_hides_is_shown() {
        let screen =
            Screen { style: Style::Plain, columns: 60, audience: Audience::Person, cursor: Cursor::Free };
        let command = request(json!({"command": "rm -rf \u{202e}txt.exe\necho  two"}));
        assert_eq!(matter(&screen, &command), ["$ rm -rf ‹U+202E›txt.exe", "  echo  two"]);
        let diff = request(json!({"diff": "@@ -1 +1 @@\n-a\n+b\u{200b}\u{2066}\n"}));
        assert_eq!(matter(&screen, &diff)[2], "+b\u{200b}‹U+2066›");
        let other = request(json!({}));
        assert_eq!(matter(&screen, &other), ["{", "  \"command\": \"ls  -l\"", "}"]);
        let warned =
            request(json!({"warnings": ["one\u{1b}[2J", {"kind": "bidi", "line": 1, "text": "two"}]}));
        assert_eq!(warnings(&warned), ["one", "two"]);
    }

    #[test]
    fn k5_a_heading_hides_nothing() {
        let mut call = request(json!({}));
        call.name = "mcp__x__put".to_owned();
        call.args = json!({"to": "a\u{202e}b", "list": ["\u{1b}[2J"]});
        let heading = heading(&call, CallPosition { number: 1, count: 1 });
        assert!(heading.contains("‹U+202E›b") && heading.contains("‹U+001B›[2J"), "{heading}");
    }

    #[test]
    fn a_long_command_is_shown_whole() {
        let line = "x".repeat(150) + " y";
        assert_eq!(wrap_exactly(&line, 56).concat(), line);
        assert_eq!(wrap_exactly("", 56), [""]);
    }
}
