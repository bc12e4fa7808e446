//! What a decision about a proposal means. Pure: it reads the proposal and the decision, and changes nothing.

use protocol::{Decision, HandoffSummary, Interrupt, Proposal};
use runtime::Rejection;
use serde_json::{Map, Value};

use crate::limits::{FEEDBACK_BYTES_MAX, ITERATIONS_MAX};
use crate::review::edit;
use crate::review::payload::{ACTION_ALIAS, ACTION_NAME, SHOWN};

mod whole;

#[cfg(test)]
mod tests;

/// What a decision asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The proposal as it was shown.
    Accept,
    /// The person's own text.
    AcceptEdited(Box<Edited>),
    /// Another draft that follows this feedback.
    Refine(String),
    /// The text of an earlier iteration.
    Revert(u32),
    /// Another draft without feedback, by the model of that name if one is named.
    Redraft(Option<String>),
    /// No, and why.
    Decline(Option<String>),
    /// Nothing; it was only shown.
    Preview,
}

/// A summary a person changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edited {
    pub(crate) summary_json: HandoffSummary,
    pub(crate) summary_md: String,
}

/// Returns what `decision` asks for, given what was shown.
pub(crate) fn outcome(
    shown: &Proposal,
    refinements_left: u32,
    decision: &Decision,
) -> Result<Outcome, Rejection> {
    match decision {
        Decision::Approve { args, summary_sha256 } => {
            check_hash(shown, summary_sha256.as_deref())?;
            match args {
                Some(args) => {
                    check_hash(shown, args.get("summary_sha256").and_then(Value::as_str))?;
                    known(args, &TEXTS)?;
                    edited_markdown(shown, args)
                }
                None => Ok(Outcome::Accept),
            }
        }
        Decision::Edit { edited_action } => {
            if edited_action.name != ACTION_NAME && edited_action.name != ACTION_ALIAS {
                let name = &edited_action.name;
                return Err(Rejection::Invalid(format!(
                    "the edited action is `{name}`, expected `{ACTION_NAME}`"
                )));
            }
            let args = whole::in_contract(&edited_action.args)?;
            check_hash(shown, args.get("summary_sha256").and_then(Value::as_str))?;
            edited(shown, refinements_left, &args)
        }
        Decision::Reject { message } => Ok(Outcome::Decline(message.clone())),
        Decision::Preview {} => Ok(Outcome::Preview),
        Decision::Respond { .. } => Err(Rejection::Invalid(
            "a handoff is accepted, edited, refined or declined; it takes no response".to_owned(),
        )),
    }
}

fn check_hash(shown: &Proposal, given: Option<&str>) -> Result<(), Rejection> {
    match given {
        Some(hash) if hash != shown.summary_sha256 => Err(Rejection::Stale(format!(
            "summary_sha256 is not that of the current proposal (iteration {}); look at it again",
            shown.iteration
        ))),
        Some(_) | None => Ok(()),
    }
}

/// A client may send everything it was shown back, with what the person changed: what is as it was shown asks for
/// nothing, and a changed text counts before a changed feedback.
fn edited(shown: &Proposal, refinements_left: u32, args: &Map<String, Value>) -> Result<Outcome, Rejection> {
    known(args, &[TEXTS.as_slice(), &["summary_json"], &DRAFTS].concat())?;
    let has_text = args.contains_key("summary_json") || args.contains_key("summary_md");
    if let Some(json) = args.get("summary_json") {
        let edited = edit::from_json(&shown.summary_json, json)?;
        if edited.summary_md != shown.summary_md {
            return Ok(Outcome::AcceptEdited(Box::new(edited)));
        }
    }
    if args.contains_key("summary_md") {
        let outcome = edited_markdown(shown, args)?;
        if outcome != Outcome::Accept {
            return Ok(outcome);
        }
    }
    let is_shown = |key: &str| match (key, &args[key]) {
        ("feedback", Value::String(text)) => Some(text.as_str()) == shown.feedback.as_deref(),
        ("feedback", Value::Null) => true,
        _ => false,
    };
    let asked: Vec<&str> =
        DRAFTS.into_iter().filter(|key| args.contains_key(*key) && !(has_text && is_shown(key))).collect();
    match asked.as_slice() {
        [] if has_text => Ok(Outcome::Accept),
        [] => Err(Rejection::Invalid(
            "an edit needs `summary_json`, `summary_md`, `feedback`, `revert_to` or `redraft`".to_owned(),
        )),
        [_, _, ..] => Err(Rejection::Invalid(format!("an edit holds only one of `{}`", DRAFTS.join("`, `")))),
        [_] if shown.iteration + 1 >= ITERATIONS_MAX => Err(Rejection::Invalid(format!(
            "there are {ITERATIONS_MAX} drafts already: accept, edit the text yourself, or decline"
        ))),
        ["feedback"] => refine(text(args, "feedback")?, refinements_left),
        ["revert_to"] => revert(shown, &args["revert_to"]),
        [_] => redraft(&args["redraft"]),
    }
}

/// Refuses a field that is neither one of `fields` nor shown in the question, for it is a misspelt one: taking the rest
/// would do something the person did not mean. A client may send back everything it was shown.
fn known(args: &Map<String, Value>, fields: &[&str]) -> Result<(), Rejection> {
    let unknown = |key: &&String| !fields.contains(&key.as_str()) && !SHOWN.contains(&key.as_str());
    match args.keys().find(unknown) {
        Some(key) => Err(Rejection::Invalid(format!("unknown field `{key}`; known: {}", fields.join(", ")))),
        None => Ok(()),
    }
}

/// The fields that a person's own text comes in.
const TEXTS: [&str; 2] = ["summary_md", "title"];

/// What of an edit asks for another proposal.
const DRAFTS: [&str; 3] = ["feedback", "revert_to", "redraft"];

fn refine(feedback: Option<&str>, refinements_left: u32) -> Result<Outcome, Rejection> {
    match feedback.map(str::trim) {
        None | Some("") => {
            Err(Rejection::Invalid("the feedback is empty: say what should change".to_owned()))
        }
        Some(_) if refinements_left == 0 => Err(Rejection::Invalid(
            "no refinement is left: accept, edit the text yourself, or decline".to_owned(),
        )),
        Some(long) if long.len() > FEEDBACK_BYTES_MAX => Err(Rejection::Invalid(format!(
            "the feedback has {} bytes, at most {FEEDBACK_BYTES_MAX} are allowed: say it more shortly, or edit the text",
            long.len()
        ))),
        Some(feedback) => Ok(Outcome::Refine(feedback.to_owned())),
    }
}

fn revert(shown: &Proposal, to: &Value) -> Result<Outcome, Rejection> {
    match to.as_u64().and_then(|to| u32::try_from(to).ok()) {
        Some(to) if to < shown.iteration => Ok(Outcome::Revert(to)),
        Some(to) if to == shown.iteration => {
            Err(Rejection::Invalid(format!("iteration {to} is the one that is shown")))
        }
        Some(_) | None => Err(Rejection::Invalid(format!(
            "there is no iteration {to}; the newest is {}, the first is 0",
            shown.iteration
        ))),
    }
}

fn redraft(how: &Value) -> Result<Outcome, Rejection> {
    let misspelt = how.as_object().and_then(|how| how.keys().find(|key| *key != "model"));
    if let Some(key) = misspelt {
        return Err(Rejection::Invalid(format!("unknown field `{key}` in `redraft`; known: model")));
    }
    match (how.as_object(), how.get("model")) {
        (Some(_), None | Some(Value::Null)) => Ok(Outcome::Redraft(None)),
        (Some(_), Some(Value::String(name))) if !name.trim().is_empty() => {
            Ok(Outcome::Redraft(Some(name.trim().to_owned())))
        }
        _ => Err(Rejection::Invalid("`redraft` is `{}` or `{\"model\": \"provider/name\"}`".to_owned())),
    }
}

/// Other keys belong to the client; without a change the proposal is accepted as it was shown.
fn edited_markdown(shown: &Proposal, args: &Map<String, Value>) -> Result<Outcome, Rejection> {
    let title = text(args, "title")?.map(edit::title).transpose()?;
    let own = match text(args, "summary_md")? {
        Some(own) => edit::own_text(&shown.summary_md, own)?,
        None => None,
    };
    let edited = match (own, title) {
        (Some(own), title) => edit::from_markdown(&shown.summary_json, own, title)?,
        (None, Some(title)) if title != shown.summary_json.title => {
            edit::with_title(&shown.summary_json, title)?
        }
        (None, Some(_) | None) => return Ok(Outcome::Accept),
    };
    Ok(Outcome::AcceptEdited(Box::new(edited)))
}

fn text<'a>(args: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, Rejection> {
    match args.get(key) {
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Rejection::Invalid(format!("`{key}` must be text"))),
        None => Ok(None),
    }
}

/// Returns the one decision of an answer that was checked.
pub(crate) fn single(decisions: &protocol::Decisions) -> Result<&Decision, Rejection> {
    match decisions.decisions.as_slice() {
        [decision] => Ok(decision),
        other => Err(Rejection::Count { given: other.len(), expected: 1 }),
    }
}

/// Returns the proposal an interrupt shows, as far as a decision needs it.
pub(crate) fn shown(interrupt: &Interrupt) -> Result<Proposal, Rejection> {
    let unreadable = || Rejection::Invalid("the stored interrupt cannot be read".to_owned());
    let args = &interrupt.payload.action_requests.first().ok_or_else(unreadable)?.args;
    let text = |key: &str| args.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(unreadable);
    let summary: HandoffSummary = args
        .get("summary_json")
        .and_then(|json| serde_json::from_value(json.clone()).ok())
        .ok_or_else(unreadable)?;
    Ok(Proposal {
        handoff_id: summary.handoff_id,
        iteration: summary.iteration,
        summary_md: text("summary_md")?,
        summary_sha256: text("summary_sha256")?,
        feedback: text("feedback").ok(),
        created_at: interrupt.created_at,
        summary_json: summary,
    })
}
