//! The facts in an edit of `summary_json`: those of the contract's version 2 in `carried`, or of version 1 in `carry_over`.

use protocol::{CarriedFacts, HandoffSummary, Seq};
use serde_json::{Map, Value};

use crate::review::edit::error::EditError;

/// The facts of version 1 that every client of it sends. What such a client leaves out of them was dropped.
const VERSION_1_FACTS: [&str; 6] =
    ["last_user_request", "todos", "files_read", "files_modified", "commands", "errors"];
/// The lists of [`CarriedFiles`](protocol::CarriedFiles).
const FILE_LISTS: [&str; 3] = ["changed", "read", "deleted"];

/// Returns the facts of an edit; those that were shown if it has none.
///
/// `carried` replaces all facts. `carry_over` replaces the facts of version 1 and whatever else it names: its client cannot keep a
/// rule or a goal that its version does not have.
///
/// # Errors
///
/// [`EditError::CarriedFacts`] when the facts have a wrong or unknown field, or are given in both versions.
pub(super) fn submitted_facts(shown: &HandoffSummary, json: &Value) -> Result<CarriedFacts, EditError> {
    let refuse = |reason: &str| EditError::CarriedFacts(reason.to_owned());
    let (submitted, is_version_1) = match (json.get("carried"), json.get("carry_over")) {
        (Some(_), Some(_)) => return Err(refuse("`carried` and `carry_over` are the same: send `carried`")),
        (Some(facts), None) => (facts, false),
        (None, Some(facts)) => (facts, true),
        (None, None) => return Ok(shown.carried.clone()),
    };
    let fields = submitted.as_object().ok_or_else(|| refuse("it is no object"))?;
    let files = fields.get("files").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    if let Some(unknown) = files.into_iter().find(|name| !FILE_LISTS.contains(&name.as_str())) {
        return Err(refuse(&format!("unknown field `files.{unknown}`")));
    }
    let submitted = if is_version_1 { with_later_facts(shown, fields)? } else { submitted.clone() };
    let facts: CarriedFacts =
        serde_json::from_value(submitted).map_err(|error| EditError::CarriedFacts(error.to_string()))?;
    if let Some(unknown) = facts.more.keys().find(|name| !shown.carried.more.contains_key(*name)) {
        return Err(refuse(&format!("unknown field `{unknown}`")));
    }
    Ok(with_covered_refs(shown, CarriedFacts { is_in_markdown: true, ..facts }))
}

/// Returns the facts that were shown, with those of version 1 replaced by `fields`.
fn with_later_facts(shown: &HandoffSummary, fields: &Map<String, Value>) -> Result<Value, EditError> {
    let shown_facts =
        serde_json::to_value(&shown.carried).map_err(|error| EditError::CarriedFacts(error.to_string()))?;
    let Value::Object(mut facts) = shown_facts else { return Ok(Value::Object(fields.clone())) };
    VERSION_1_FACTS.iter().for_each(|name| drop(facts.remove(*name)));
    if let Some(Value::Object(files)) = facts.get_mut("files") {
        files.retain(|name, _| name == "deleted");
    }
    facts.extend(fields.clone());
    Ok(Value::Object(facts))
}

/// Returns submitted facts without empty entries, and without references that neither the shown facts have nor the covered part
/// of the thread.
fn with_covered_refs(shown: &HandoffSummary, mut facts: CarriedFacts) -> CarriedFacts {
    let shown_refs = shown.carried.rules.iter().map(|rule| &rule.refs);
    let shown_refs: Vec<Seq> =
        shown_refs.chain(shown.carried.pins.iter().map(|pin| &pin.refs)).flatten().copied().collect();
    let covered = shown.coverage.first_seq..=shown.coverage.last_seq;
    facts.rules.retain(|rule| !rule.text.trim().is_empty());
    facts.pins.retain(|pin| !pin.text.trim().is_empty());
    let lists = [
        &mut facts.files.changed,
        &mut facts.files.read,
        &mut facts.files.deleted,
        &mut facts.in_use,
        &mut facts.commands,
        &mut facts.errors,
        &mut facts.skills,
        &mut facts.delegations,
        &mut facts.pending_approvals,
    ];
    lists.into_iter().for_each(|list| list.retain(|text| !text.trim().is_empty()));
    let refs = facts.rules.iter_mut().map(|rule| &mut rule.refs);
    for refs in refs.chain(facts.pins.iter_mut().map(|pin| &mut pin.refs)) {
        refs.retain(|seq| covered.contains(seq) || shown_refs.contains(seq));
    }
    facts
}
