//! The interpretation of a decision about a proposal (contract §6). All functions are pure: they read the proposal
//! and the decision, and return an outcome or a rejection.

use model::untrusted_text::strip_hidden_characters;
use protocol::{Decision, HandoffSummary, Interrupt, Proposal};
use runtime::DecisionRejection;
use serde_json::{Map, Value};

use crate::accept::waiting_calls::WaitingCalls;
use crate::limits::{FEEDBACK_BYTES_MAX, ITERATIONS_MAX};
use crate::review::edit;
use crate::review::edit::submitted_text::SubmittedText;
use crate::review::payload::{ACTION_ALIAS, ACTION_NAME, PAYLOAD_FIELDS};

mod form_args;

#[cfg(test)]
mod tests;

/// The meaning of a decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DecisionOutcome {
    /// Accept the proposal as it was shown.
    Accept(WaitingCalls),
    /// Accept the person's own text.
    AcceptEdited(Box<EditedSummary>, WaitingCalls),
    /// Store the person's own text as a proposal that awaits a decision.
    SaveEdited(Box<EditedSummary>),
    /// Draft again, following this feedback.
    Refine(String),
    /// Store the person's own text as a proposal, and draft again from it, following this feedback.
    RefineEdited(Box<EditedSummary>, String),
    /// Go back to the text of this earlier iteration.
    Revert(u32),
    /// Draft again without feedback, by the named model if there is one.
    Redraft(Option<String>),
    /// Draft again so that the newer messages are covered too, and keep the person's changes.
    CoverNewer,
    /// Decline the proposal, for this reason if there is one.
    Decline(Option<String>),
    /// End the handoff, because the person only wanted to see the summary.
    Preview,
}

/// A summary that a person edited.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EditedSummary {
    /// The summary, with the items found in the text.
    pub(crate) summary_json: HandoffSummary,
    /// The text as it is stored, shown and injected.
    pub(crate) package_md: String,
}

/// Returns the meaning of `decision` about the proposal `shown`, when `refinements_left` refinements remain.
///
/// # Errors
///
/// [`DecisionRejection`]: [`Stale`](DecisionRejection::Stale) when the decision names another text than the current
/// one, [`Invalid`](DecisionRejection::Invalid) for an unknown field, a wrong type or a value above a limit.
pub(crate) fn decision_outcome(
    shown: &Proposal,
    refinements_left: u32,
    decision: &Decision,
) -> Result<DecisionOutcome, DecisionRejection> {
    match decision {
        Decision::Approve { args, summary_sha256 } => {
            check_hash(shown, summary_sha256.as_deref())?;
            match args {
                Some(args) => {
                    check_hash(shown, args.get(Decision::SUMMARY_HASH_ARG).and_then(Value::as_str))?;
                    check_known_fields(args, &[TEXT_FIELDS.as_slice(), &[WAITING_CALLS_FIELD]].concat())?;
                    if args.contains_key("feedback") && !is_echoed_feedback(shown, args) {
                        return Err(DecisionRejection::Invalid(
                            "an approval cannot hold `feedback`: send it with the decision `edit`".to_owned(),
                        ));
                    }
                    let choice = waiting_calls_field(args)?.unwrap_or_default();
                    accept_outcome(shown, edited_summary(shown, args)?, choice)
                }
                None => Ok(DecisionOutcome::Accept(WaitingCalls::default())),
            }
        }
        Decision::Edit { edited_action } => {
            if edited_action.name != ACTION_NAME && edited_action.name != ACTION_ALIAS {
                let name = &edited_action.name;
                return Err(DecisionRejection::Invalid(format!(
                    "the edited action is `{name}`, expected `{ACTION_NAME}`"
                )));
            }
            let args = form_args::normalize_args(&edited_action.args)?;
            check_hash(shown, args.get(Decision::SUMMARY_HASH_ARG).and_then(Value::as_str))?;
            edit_outcome(shown, refinements_left, &args)
        }
        Decision::Reject { message } => Ok(DecisionOutcome::Decline(checked_reason(message.as_deref())?)),
        Decision::Preview {} => Ok(DecisionOutcome::Preview),
        Decision::Respond { .. } => Err(DecisionRejection::Invalid(
            "a handoff is accepted, edited, refined or declined; it takes no response".to_owned(),
        )),
        Decision::Defer {} => Err(DecisionRejection::Invalid(
            "a handoff has only one action, which cannot be deferred; it stays pending until it is decided"
                .to_owned(),
        )),
    }
}

/// Checks that the hash in a decision, if there is one, is the hash of the proposal that was shown.
fn check_hash(shown: &Proposal, given: Option<&str>) -> Result<(), DecisionRejection> {
    match given {
        Some(hash) if hash != shown.summary_sha256 => Err(DecisionRejection::Stale(format!(
            "summary_sha256 is not the hash of the current proposal (iteration {}); review it again",
            shown.iteration
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Returns the meaning of an edit.
///
/// A client may send back everything that it was shown, together with the changes. An unchanged field has no effect.
/// A changed text without changed feedback is accepted, unless the client only wants to save it.
fn edit_outcome(
    shown: &Proposal,
    refinements_left: u32,
    args: &Map<String, Value>,
) -> Result<DecisionOutcome, DecisionRejection> {
    let fields =
        [TEXT_FIELDS.as_slice(), &[WAITING_CALLS_FIELD], &REDRAFT_FIELDS, &[SAVE_FIELD, ADD_FIELD]].concat();
    check_known_fields(args, &fields)?;
    let has_text = TEXT_FIELDS.iter().any(|key| args.contains_key(*key));
    let is_saved = save_field(args)?;
    let (edited, is_saved) = match args.get(ADD_FIELD) {
        Some(_) if args.contains_key(SAVE_FIELD) && !is_saved => {
            return Err(DecisionRejection::Invalid(format!(
                "`{ADD_FIELD}` always saves: leave `{SAVE_FIELD}` out"
            )));
        }
        Some(added) => (Some(summary_with_added_items(shown, args, added)?), true),
        None => (edited_summary(shown, args)?, is_saved),
    };
    let is_echoed = |key: &str| key == "feedback" && is_echoed_feedback(shown, args);
    let requested: Vec<&str> =
        REDRAFT_FIELDS.into_iter().filter(|key| args.contains_key(*key) && !is_echoed(key)).collect();
    let waiting_calls = waiting_calls_field(args)?;
    if waiting_calls.is_some() && (is_saved || !requested.is_empty()) {
        return Err(DecisionRejection::Invalid(format!(
            "`{WAITING_CALLS_FIELD}` goes with an accept: leave it out here"
        )));
    }
    let waiting_calls = waiting_calls.unwrap_or_default();
    // Each proposal that this edit stores takes one of the remaining iterations.
    let added = u32::from(edited.is_some()) + u32::from(!requested.is_empty());
    if (is_saved || !requested.is_empty()) && shown.iteration + added >= ITERATIONS_MAX {
        return Err(DecisionRejection::Invalid(format!(
            "there are {ITERATIONS_MAX} drafts already: accept, edit the text yourself, or decline"
        )));
    }
    match (edited, requested.as_slice()) {
        (_, [_, _, ..]) => Err(DecisionRejection::Invalid(format!(
            "an edit holds only one of `{}`",
            REDRAFT_FIELDS.join("`, `")
        ))),
        (Some(edited), ["feedback"]) => {
            let feedback = checked_feedback(text_field(args, "feedback")?, refinements_left)?;
            Ok(DecisionOutcome::RefineEdited(Box::new(edited), feedback))
        }
        (Some(_), [key]) => Err(DecisionRejection::Invalid(format!(
            "an edit with a text of your own cannot hold `{key}`, which would replace the text"
        ))),
        (Some(edited), []) if is_saved => Ok(DecisionOutcome::SaveEdited(Box::new(edited))),
        (Some(edited), []) => accept_outcome(shown, Some(edited), waiting_calls),
        (None, _) if is_saved => Err(DecisionRejection::Invalid(format!(
            "`{SAVE_FIELD}` needs a changed `package_md`, `title` or `summary_json`"
        ))),
        (None, []) if has_text => accept_outcome(shown, None, waiting_calls),
        (None, []) => Err(DecisionRejection::Invalid(
            "an edit needs `summary_json`, `package_md`, `title`, `feedback`, `add`, `revert_to` or `redraft`"
                .to_owned(),
        )),
        (None, ["feedback"]) => {
            checked_feedback(text_field(args, "feedback")?, refinements_left).map(DecisionOutcome::Refine)
        }
        (None, ["revert_to"]) => revert_outcome(shown, &args["revert_to"]),
        (None, [_]) => redraft_outcome(&args["redraft"]),
    }
}

/// Returns the outcome of an accept: of the person's text `edited`, or of the shown one. `waiting_calls` may take the calls that
/// wait for an approval out of the text; then the text is the person's own.
fn accept_outcome(
    shown: &Proposal,
    edited: Option<EditedSummary>,
    waiting_calls: WaitingCalls,
) -> Result<DecisionOutcome, DecisionRejection> {
    let edited = match waiting_calls.is_listed() {
        true => edited,
        false => edit::remove_waiting_calls(&shown.summary_json, edited)?,
    };
    let lists_calls = |summary: &HandoffSummary| !summary.carried.pending_approvals.is_empty();
    let was_removed = edited.as_ref().is_some_and(|edited| !lists_calls(&edited.summary_json));
    if waiting_calls == WaitingCalls::Transfer && was_removed && lists_calls(&shown.summary_json) {
        return Err(DecisionRejection::Invalid(format!(
            "your text does not list the calls that wait for approval: to hand them over, keep them; else \
             `{WAITING_CALLS_FIELD}` is `cancel` or `leave`"
        )));
    }
    Ok(match edited {
        Some(edited) => DecisionOutcome::AcceptEdited(Box::new(edited), waiting_calls),
        None => DecisionOutcome::Accept(waiting_calls),
    })
}

/// Returns the argument [`WAITING_CALLS_FIELD`].
fn waiting_calls_field(args: &Map<String, Value>) -> Result<Option<WaitingCalls>, DecisionRejection> {
    let parse = |value: &Value| {
        WaitingCalls::parse(value).map_err(|values| {
            DecisionRejection::Invalid(format!("`{WAITING_CALLS_FIELD}` must be one of {values}"))
        })
    };
    args.get(WAITING_CALLS_FIELD).map(parse).transpose()
}

/// Returns the person's own text in the arguments of an edit or approval; `None` when it is absent or equals what was shown.
///
/// # Errors
///
/// As for a decision with these arguments.
pub(crate) fn edited_text(
    shown: &Proposal,
    args: &Map<String, Value>,
) -> Result<Option<EditedSummary>, DecisionRejection> {
    let args = form_args::normalize_args(args)?;
    check_hash(shown, args.get(Decision::SUMMARY_HASH_ARG).and_then(Value::as_str))?;
    check_known_fields(&args, &TEXT_FIELDS)?;
    edited_summary(shown, &args)
}

/// Returns the person's own text in an edit; `None` when it is absent or equals what was shown.
fn edited_summary(
    shown: &Proposal,
    args: &Map<String, Value>,
) -> Result<Option<EditedSummary>, DecisionRejection> {
    let edited_json = match args.get("summary_json") {
        Some(json) => Some(edit::parse_json(&shown.summary_json, json)?),
        None => None,
    };
    let edited_json = edited_json.filter(|edited| edited.package_md != shown.package_md);
    match (edited_json, edited_markdown(shown, args)?) {
        (Some(json), Some(markdown)) if json.package_md.trim() != markdown.package_md.trim() => {
            Err(DecisionRejection::Invalid(
                "`summary_json` and `package_md` (or `title`) were both changed, in different ways: send one of them"
                    .to_owned(),
            ))
        }
        (Some(edited), _) | (None, Some(edited)) => Ok(Some(edited)),
        (None, None) => Ok(None),
    }
}

/// Returns whether `feedback` is what the client was shown and sent back with everything else: a client that sends both forms
/// of the text sends all arguments. Any other feedback is meant, also if it repeats the last one.
fn is_echoed_feedback(shown: &Proposal, args: &Map<String, Value>) -> bool {
    let has_both_forms =
        args.contains_key("summary_json") && MARKDOWN_FIELDS.iter().any(|key| args.contains_key(*key));
    has_both_forms
        && match args.get("feedback") {
            Some(Value::String(text)) => Some(text.as_str()) == shown.feedback.as_deref(),
            Some(Value::Null) => true,
            Some(_) | None => false,
        }
}

/// Returns the shown summary with the items of the argument [`ADD_FIELD`].
fn summary_with_added_items(
    shown: &Proposal,
    args: &Map<String, Value>,
    added: &Value,
) -> Result<EditedSummary, DecisionRejection> {
    if edited_summary(shown, args)?.is_some() {
        return Err(DecisionRejection::Invalid(format!(
            "`{ADD_FIELD}` adds to the draft as it was shown: save your own text first"
        )));
    }
    let added: edit::AddedItems = serde_json::from_value(added.clone()).map_err(|error| {
        DecisionRejection::Invalid(format!(
            "`{ADD_FIELD}` is `{{\"left_out\": [index], \"topics\": [index], \"rules\": [index], \
             \"facts\": [index]}}`: {error}"
        ))
    })?;
    let added = added.without_duplicates();
    if added == edit::AddedItems::default() {
        return Err(DecisionRejection::Invalid(format!("`{ADD_FIELD}` names nothing to add")));
    }
    edit::add_items(&shown.summary_json, &added)
}

/// Returns the argument [`SAVE_FIELD`]: whether the text is only stored.
fn save_field(args: &Map<String, Value>) -> Result<bool, DecisionRejection> {
    match args.get(SAVE_FIELD) {
        Some(Value::Bool(is_saved)) => Ok(*is_saved),
        Some(_) => Err(DecisionRejection::Invalid(format!("`{SAVE_FIELD}` must be true or false"))),
        None => Ok(false),
    }
}

/// Checks that every argument is one of `fields` or a field of the interrupt payload, which a client may send back.
///
/// Any other field is rejected as misspelled, because ignoring it would do something else than the person meant.
fn check_known_fields(args: &Map<String, Value>, fields: &[&str]) -> Result<(), DecisionRejection> {
    let unknown = |key: &&String| !fields.contains(&key.as_str()) && !PAYLOAD_FIELDS.contains(&key.as_str());
    let Some(key) = args.keys().find(unknown) else { return Ok(()) };
    let [_, old_name] = MARKDOWN_FIELDS;
    let known: Vec<&str> = fields.iter().copied().filter(|name| *name != old_name).collect();
    Err(DecisionRejection::Invalid(format!("unknown field `{key}`; known: {}", known.join(", "))))
}

/// The arguments that carry a person's own text.
const TEXT_FIELDS: [&str; 4] = ["package_md", "title", "summary_json", "summary_md"];

/// The arguments that carry the package as Markdown: its name, and its name of version 1.
const MARKDOWN_FIELDS: [&str; 2] = ["package_md", "summary_md"];

/// The argument of an accept that says what becomes of the calls that wait for an approval.
const WAITING_CALLS_FIELD: &str = "pending_approvals";

/// The argument of an edit that stores the person's text as a proposal without accepting it.
const SAVE_FIELD: &str = "save_draft";

/// The argument of an edit that adds what the draft left out, and stores the result as a proposal without accepting it.
const ADD_FIELD: &str = "add";

/// The arguments of an edit that request another proposal. An edit may have only one of them.
const REDRAFT_FIELDS: [&str; 3] = ["feedback", "revert_to", "redraft"];

/// Returns the argument `feedback`, checked against its limits.
fn checked_feedback(feedback: Option<&str>, refinements_left: u32) -> Result<String, DecisionRejection> {
    let has_text = |text: &&str| !strip_hidden_characters(text).trim().is_empty();
    match feedback.map(str::trim).filter(has_text) {
        None => Err(DecisionRejection::Invalid("the feedback is empty: say what should change".to_owned())),
        Some(_) if refinements_left == 0 => Err(DecisionRejection::Invalid(
            "no refinement is left: accept, edit the text yourself, or decline".to_owned(),
        )),
        Some(long) if long.len() > FEEDBACK_BYTES_MAX => Err(DecisionRejection::Invalid(format!(
            "the feedback has {} bytes, at most {FEEDBACK_BYTES_MAX} are allowed: shorten it, or edit the text",
            long.len()
        ))),
        Some(feedback) => Ok(secrets::redact(feedback).into_owned()),
    }
}

/// Returns the reason of a decline, with its secrets redacted.
fn checked_reason(reason: Option<&str>) -> Result<Option<String>, DecisionRejection> {
    match reason {
        Some(long) if long.len() > FEEDBACK_BYTES_MAX => Err(DecisionRejection::Invalid(format!(
            "the reason has {} bytes, at most {FEEDBACK_BYTES_MAX} are allowed: shorten it",
            long.len()
        ))),
        reason => Ok(reason.map(|reason| secrets::redact(reason).into_owned())),
    }
}

/// Returns the outcome of the argument `revert_to`, which names an earlier iteration.
fn revert_outcome(shown: &Proposal, to: &Value) -> Result<DecisionOutcome, DecisionRejection> {
    match to.as_u64().and_then(|to| u32::try_from(to).ok()) {
        Some(to) if to < shown.iteration => Ok(DecisionOutcome::Revert(to)),
        Some(to) if to == shown.iteration => {
            Err(DecisionRejection::Invalid(format!("iteration {to} is the current one")))
        }
        Some(_) | None => Err(DecisionRejection::Invalid(format!(
            "there is no iteration {to}; the newest is {}, the first is 0",
            shown.iteration
        ))),
    }
}

/// Returns the outcome of the argument `redraft`: `true` for a draft that also covers the newer messages, or an object
/// that may name a model.
fn redraft_outcome(redraft: &Value) -> Result<DecisionOutcome, DecisionRejection> {
    if *redraft == Value::Bool(true) {
        return Ok(DecisionOutcome::CoverNewer);
    }
    let unknown = redraft.as_object().and_then(|fields| fields.keys().find(|key| *key != "model"));
    if let Some(key) = unknown {
        return Err(DecisionRejection::Invalid(format!("unknown field `{key}` in `redraft`; known: model")));
    }
    match (redraft.as_object(), redraft.get("model")) {
        (Some(_), None | Some(Value::Null)) => Ok(DecisionOutcome::Redraft(None)),
        (Some(_), Some(Value::String(name))) if !name.trim().is_empty() => {
            Ok(DecisionOutcome::Redraft(Some(name.trim().to_owned())))
        }
        _ => Err(DecisionRejection::Invalid(
            "`redraft` is `true` (cover the newer messages), `{}` or `{\"model\": \"provider/name\"}`"
                .to_owned(),
        )),
    }
}

/// Returns the summary with the arguments [`MARKDOWN_FIELDS`] and `title`; `None` when none changes it.
fn edited_markdown(
    shown: &Proposal,
    args: &Map<String, Value>,
) -> Result<Option<EditedSummary>, DecisionRejection> {
    let title = text_field(args, "title")?.map(edit::parse_title).transpose()?;
    let edited = match (changed_markdown(shown, args)?, title) {
        (Some(submitted), title) => edit::parse_markdown(&shown.summary_json, submitted, title)?,
        (None, Some(title)) if title != shown.summary_json.title => {
            edit::replace_title(&shown.summary_json, title)?
        }
        (None, Some(_) | None) => return Ok(None),
    };
    Ok(Some(edited))
}

/// Returns the Markdown that the person changed; `None` when it is absent or equals what was shown. A client that sends back all
/// arguments sends it twice, and the person may have changed either.
fn changed_markdown(
    shown: &Proposal,
    args: &Map<String, Value>,
) -> Result<Option<SubmittedText>, DecisionRejection> {
    let mut changed: Option<SubmittedText> = None;
    for field in MARKDOWN_FIELDS {
        let Some(submitted) = text_field(args, field)? else { continue };
        let Some(text) = edit::clean_submitted_text(&shown.package_md, submitted)? else { continue };
        if changed.is_some_and(|other| other.text != text.text) {
            let [name, old_name] = MARKDOWN_FIELDS;
            return Err(DecisionRejection::Invalid(format!(
                "`{name}` and `{old_name}` were both changed, in different ways: send one of them"
            )));
        }
        changed = Some(text);
    }
    Ok(changed)
}

/// Returns the argument `key`, which must be a string; `None` when it is absent.
fn text_field<'a>(args: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, DecisionRejection> {
    match args.get(key) {
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(DecisionRejection::Invalid(format!("`{key}` must be text"))),
        None => Ok(None),
    }
}

/// Returns the only decision of an answer.
///
/// # Errors
///
/// [`DecisionRejection::WrongCount`] when the answer does not have exactly one.
pub(crate) fn single_decision(decisions: &protocol::Decisions) -> Result<&Decision, DecisionRejection> {
    match decisions.decisions.as_slice() {
        [decision] => Ok(decision),
        other => Err(DecisionRejection::WrongCount { given: other.len(), expected: 1 }),
    }
}

/// Returns the proposal that an interrupt shows, restored from its payload.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the payload cannot be read.
pub(crate) fn shown_proposal(interrupt: &Interrupt) -> Result<Proposal, DecisionRejection> {
    let unreadable = || DecisionRejection::Invalid("the stored interrupt cannot be read".to_owned());
    let args = &interrupt.payload.action_requests.first().ok_or_else(unreadable)?.args;
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(unreadable);
    let summary: HandoffSummary = args
        .get("summary_json")
        .and_then(|json| serde_json::from_value(json.clone()).ok())
        .ok_or_else(unreadable)?;
    Ok(Proposal {
        handoff_id: summary.handoff_id,
        iteration: summary.iteration,
        package_md: text("summary_md")?,
        summary_sha256: text("summary_sha256")?,
        feedback: text("feedback").ok(),
        created_at: interrupt.created_at,
        summary_json: summary,
    })
}
