//! A person's own text of a summary, parsed from the Markdown they edited or from the JSON a client sent.
//!
//! The text itself is kept. Parsing finds the title, the TL;DR and the items in it; a text without that structure is
//! rejected with an error that names the line.
//!
//! The result is neutralized like the output of [`render`], so that the same text can be stored, shown and injected.

use std::cmp::Reverse;

use protocol::{HandoffSummary, LeftOutReason, RuleNote, RuleProblem, Seq, SummaryItem, SummaryItemKind};
use runtime::DecisionRejection;
use serde::Deserialize;
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::limits::{EDITED_ITEMS_MAX, TITLE_GRAPHEMES_MAX, TLDR_GRAPHEMES_MAX};
use crate::review::decide::EditedSummary;
use crate::review::edit::error::{EditError, LineLocation};
use crate::review::edit::marks::{confirmed_item, keep_marks, mended_item, replaces_unverified, user_item};
use crate::review::edit::parse::{EditedBullet, ParsedEdit};
use crate::review::edit::submitted_facts::submitted_facts;
use crate::review::edit::submitted_text::SubmittedText;
use crate::summary::message_use::{is_covered_message, reclassify_messages};
use crate::summary::offline_summary::open_tasks;
use crate::summary::render;
use crate::summary::render::facts::{FactSection, edited_facts, left_out_facts};
use crate::summary::rules;

mod error;
pub(crate) mod grounding;
pub(crate) mod marks;
mod parse;
mod submitted_facts;
pub(crate) mod submitted_text;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use parse::plain_text;

/// The maximum size of a summary that a person wrote, in tokens. It is larger than the drafting budget, which does not
/// apply to a person's text, but limited because the text goes into a prompt.
const EDITED_TOKENS_MAX: u64 = 4_000;
/// The maximum size of a submitted text in bytes, including comments. A larger text is rejected unread.
const SUBMITTED_BYTES_MAX: usize = 256 * 1024;

/// The value of the summary's `model` field when a person wrote the text.
pub(crate) const AUTHOR: &str = "user";

/// The parts that a person adds to a draft from the notes for its review, by index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AddedItems {
    /// Items that the draft left out or shortened.
    pub(crate) left_out: Vec<usize>,
    /// Topics that the text does not mention.
    pub(crate) topics: Vec<usize>,
    /// Rules that an earlier proposal contained and the text does not.
    pub(crate) rules: Vec<usize>,
    /// Entries of the facts that the text only counts or shortens.
    pub(crate) facts: Vec<usize>,
}

impl AddedItems {
    /// Returns the indexes, each once.
    pub(crate) fn without_duplicates(mut self) -> Self {
        for indexes in [&mut self.left_out, &mut self.topics, &mut self.rules, &mut self.facts] {
            indexes.sort_unstable();
            indexes.dedup();
        }
        self
    }
}

/// Returns the submitted text, cleaned and ready to be stored; `None` when it equals the shown text.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the text is too long, empty, contains a secret, or has an unclosed comment.
pub(crate) fn clean_submitted_text(
    shown_md: &str,
    text: &str,
) -> Result<Option<SubmittedText>, DecisionRejection> {
    // The shown text may be larger, because a person has added whole entries to it.
    if text.len() > SUBMITTED_BYTES_MAX.max(2 * shown_md.len()) {
        let tokens = model::tokens::estimate_tokens(text);
        return Err(EditError::TooLong { tokens, tokens_max: EDITED_TOKENS_MAX }.into());
    }
    // The text is searched as it was submitted: once an escape sequence has lost its first character, the rest of it would
    // divide a secret.
    check_no_new_secret(shown_md, text)?;
    let submitted = SubmittedText::new(text)?;
    if submitted.text.is_empty() {
        return Err(EditError::Empty.into());
    }
    Ok((!submitted.is_unchanged(shown_md)).then_some(submitted))
}

/// Returns the submitted title, normalized to one line.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when it is empty.
pub(crate) fn parse_title(text: &str) -> Result<String, DecisionRejection> {
    let title = render::normalize_line(text);
    if title.is_empty() { Err(EditError::EmptyTitle(None).into()) } else { Ok(title) }
}

/// Returns the shown summary with another title.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the title is too long.
pub(crate) fn replace_title(
    shown: &HandoffSummary,
    title: String,
) -> Result<EditedSummary, DecisionRejection> {
    let mut summary = HandoffSummary { title, ..user_summary(shown) };
    keep_marks(shown, &mut summary);
    let package_md = render::render_summary(&summary);
    check_limits(shown, summary, package_md, TextLocations::default())
}

/// Parses a summary from the Markdown that a person edited, as [`clean_submitted_text`] returns it.
///
/// The text is not changed. A `title` that was submitted in a separate field takes precedence over one in the text.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when the text has no valid structure or exceeds a limit.
pub(crate) fn parse_markdown(
    shown: &HandoffSummary,
    submitted: SubmittedText,
    title: Option<String>,
) -> Result<EditedSummary, DecisionRejection> {
    let edit = ParsedEdit::parse(shown, &submitted)?;
    let mut summary = user_summary(shown);
    let mut locations = TextLocations::default();
    match (title, edit.title) {
        (Some(title), _) => summary.title = title,
        (None, Some((title, location))) => (summary.title, locations.title) = (title, Some(location)),
        (None, None) => {}
    }
    match edit.tldr {
        Some((tldr, location)) => (summary.tldr, locations.tldr) = (tldr, Some(location)),
        None if edit.is_tldr_removed => summary.tldr.clear(),
        None => {}
    }
    keep_marks(shown, &mut summary);
    let notes = &mut summary.notes;
    for (unfound, is_marked) in
        [(&mut notes.title_unfound, edit.is_title_marked), (&mut notes.tldr_unfound, edit.is_tldr_marked)]
    {
        if !is_marked {
            unfound.clear();
        }
    }
    let (mut body, mut item_locations): (Vec<SummaryItem>, Vec<LineLocation>) =
        match_items(shown, &edit.bullets).into_iter().unzip();
    if item_locations.len() > EDITED_ITEMS_MAX {
        locations.first_excess_item = Some(item_locations.swap_remove(EDITED_ITEMS_MAX));
    }
    body.sort_by_key(|item| item.kind);
    if shown.carried.is_in_markdown {
        summary.carried = edited_facts(&shown.carried, &edit.facts);
        let has_request = summary.carried.last_user_request.is_some();
        if let Some(state) = edit.request_state.filter(|_| has_request) {
            summary.carried.last_request_answered = state;
        }
    }
    check_limits(shown, HandoffSummary { body, ..summary }, submitted.text, locations)
}

/// Returns the shown summary with items added: those that its draft left out, by their indexes in
/// [`ReviewNotes::left_out`](protocol::ReviewNotes::left_out), and one for each topic, by its index in
/// [`ReviewNotes::topics`](protocol::ReviewNotes::topics). Lost rules are added to the facts, by their indexes in
/// [`ReviewNotes::rules`](protocol::ReviewNotes::rules). Facts that the text counts or shortens are rendered whole, by their
/// indexes in [`ReviewNotes::left_out_facts`](protocol::ReviewNotes::left_out_facts). What is added is not among the notes any more.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when an index does not exist, or the summary exceeds a limit with the items.
pub(crate) fn add_items(
    shown: &HandoffSummary,
    added: &AddedItems,
) -> Result<EditedSummary, DecisionRejection> {
    let mut summary = user_summary(shown);
    for index in &added.left_out {
        let left_out = shown.notes.left_out.get(*index).ok_or(EditError::NoLeftOutItem(*index))?;
        let beginning = |item: &SummaryItem| item.text.trim_end_matches('…').trim_end().to_owned();
        let shortened = summary.body.iter_mut().find(|item| {
            left_out.reason == LeftOutReason::Shortened
                && item.kind == left_out.item.kind
                && left_out.item.text.starts_with(&beginning(item))
        });
        match shortened {
            Some(item) => *item = left_out.item.clone(),
            None if left_out.reason == LeftOutReason::LastAnswer => {
                let item = without_known_lines(&left_out.item, &summary.body);
                summary.body.push(item);
            }
            None => summary.body.push(left_out.item.clone()),
        }
    }
    for index in &added.topics {
        let topic = shown.notes.topics.get(*index).ok_or(EditError::NoTopic(*index))?;
        let text = topic.item_text();
        let item = user_item(shown, SummaryItemKind::Progress, &text);
        let line_refs = text.lines().enumerate();
        let line_refs = line_refs.map(|(line, _)| if line == 0 { vec![topic.first_seq] } else { Vec::new() });
        let line_refs = line_refs.collect();
        summary.body.push(SummaryItem { refs: vec![topic.first_seq], line_refs, ..item });
    }
    for index in &added.rules {
        let is_lost = |note: &&RuleNote| note.problem == RuleProblem::Lost;
        let lost = shown.notes.rules.get(*index).filter(is_lost);
        summary.carried.rules.push(lost.ok_or(EditError::NoLostRule(*index))?.rule.clone());
    }
    for index in &added.facts {
        let facts = shown.notes.left_out_facts.get(*index).ok_or(EditError::NoLeftOutFacts(*index))?;
        summary.carried.whole_entries.extend(facts.entries.iter().cloned());
    }
    let remaining = |added: &[usize], index: usize| !added.contains(&index);
    let notes = &mut summary.notes;
    notes.left_out = (0..)
        .zip(&shown.notes.left_out)
        .filter(|(index, _)| remaining(&added.left_out, *index))
        .map(|(_, item)| item.clone())
        .collect();
    notes.topics = (0..)
        .zip(&shown.notes.topics)
        .filter(|(index, _)| remaining(&added.topics, *index))
        .map(|(_, topic)| topic.clone())
        .collect();
    summary.body.sort_by_key(|item| item.kind);
    let package_md = render::render_summary(&summary);
    check_limits(shown, summary, package_md, TextLocations::default())
}

/// Returns an item without the lines that the body has already, unless it has all of them.
fn without_known_lines(item: &SummaryItem, body: &[SummaryItem]) -> SummaryItem {
    let is_known = |line: &&str| body.iter().any(|known| known.text.lines().any(|known| known == *line));
    let lines: Vec<&str> = item.text.lines().filter(|line| !is_known(line)).collect();
    if lines.is_empty() {
        return item.clone();
    }
    let line_refs = item.line_refs.iter().take(lines.len()).cloned().collect();
    SummaryItem { text: lines.join("\n"), line_refs, ..item.clone() }
}

/// Returns the accepted text, `edited` or else the shown one, without the calls that wait for an approval; `edited` itself if it
/// lists none.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when nothing but these calls is left.
pub(crate) fn remove_waiting_calls(
    shown: &HandoffSummary,
    edited: Option<EditedSummary>,
) -> Result<Option<EditedSummary>, DecisionRejection> {
    let accepted = edited.as_ref().map_or(shown, |edited| &edited.summary_json);
    if accepted.carried.pending_approvals.is_empty() {
        return Ok(edited);
    }
    let mut summary = user_summary(accepted);
    let written = edited.as_ref().map(|edited| &edited.package_md);
    let written = written.filter(|written| written.trim() != render::render_summary(&summary).trim());
    // A text that the person laid out themselves stays as it is, except for the section.
    let kept = written.map(|written| parse::remove_section(written, FactSection::PendingApprovals));
    summary.carried.pending_approvals.clear();
    let package_md = kept.unwrap_or_else(|| render::render_summary(&summary));
    check_limits(shown, summary, package_md, TextLocations::default()).map(Some)
}

/// Parses a summary from the JSON that a client sent: `title`, `tldr`, `body` and, optionally, `carried`. All other
/// fields are those of the shown summary.
///
/// # Errors
///
/// [`DecisionRejection::Invalid`] when a field is missing, has another type, or exceeds a limit.
pub(crate) fn parse_json(shown: &HandoffSummary, json: &Value) -> Result<EditedSummary, DecisionRejection> {
    let missing = |name: &str| EditError::Field(name.to_owned());
    let field = |name: &str| json.get(name).ok_or_else(|| missing(name));
    check_json_size(shown, json)?;
    if json.get("schema_version").is_some_and(|version| !version.is_u64()) {
        return Err(missing("schema_version").into());
    }
    let text = |name: &str| field(name)?.as_str().map(render::normalize_line).ok_or_else(|| missing(name));
    let mut body: Vec<SummaryItem> =
        serde_json::from_value(field("body")?.clone()).map_err(|error| EditError::Body(error.to_string()))?;
    for item in &mut body {
        render::normalize_lines(&item.text)
            .trim_end_matches(SummaryItem::UNVERIFIED)
            .clone_into(&mut item.text);
    }
    let texts: Vec<String> = body.iter().map(|item| item.text.clone()).collect();
    for item in &mut body {
        let is_same = |known: &&SummaryItem| {
            known.kind == item.kind && render::normalize_lines(&known.text) == item.text
        };
        *item = match shown.body.iter().find(is_same) {
            Some(known) => known.clone(),
            None => {
                let (refs, false_refs) =
                    item.refs.iter().partition(|seq| is_covered_message(&shown.coverage, **seq));
                let own = match replaces_unverified(shown, &texts, item) {
                    true => mended_item(shown, item.kind, &item.text),
                    false => user_item(shown, item.kind, &item.text),
                };
                SummaryItem { refs, false_refs, ..own }
            }
        };
    }
    body.retain(|item| !item.text.is_empty());
    body.sort_by_key(|item| item.kind);
    let carried = match shown.carried.is_in_markdown {
        true => submitted_facts(shown, json)?,
        false => shown.carried.clone(),
    };
    let (title, tldr) = (text("title")?, text("tldr")?);
    let mut summary = HandoffSummary { title, tldr, body, carried, ..user_summary(shown) };
    keep_marks(shown, &mut summary);
    let package_md = render::render_summary(&summary);
    check_limits(shown, summary, package_md, TextLocations::default())
}

/// Checks that the JSON of an edit is not much longer than any valid one, before the work that its length costs.
fn check_json_size(shown: &HandoffSummary, json: &Value) -> Result<(), EditError> {
    let shown_bytes = serde_json::to_string(shown).map_or(0, |shown| shown.len());
    let text = json.to_string();
    if text.len() <= SUBMITTED_BYTES_MAX.max(2 * shown_bytes) {
        return Ok(());
    }
    Err(EditError::TooLong { tokens: model::tokens::estimate_tokens(&text), tokens_max: EDITED_TOKENS_MAX })
}

/// Returns the Markdown that is stored if `json`, a person's edit of the shown summary, is accepted.
///
/// # Errors
///
/// As for a decision with this `summary_json`.
pub fn edited_markdown(shown: &HandoffSummary, json: &Value) -> Result<String, DecisionRejection> {
    parse_json(shown, json).map(|edited| edited.package_md)
}

/// Returns the shown summary with the person as its author: its model is [`AUTHOR`], and it used no tokens.
fn user_summary(shown: &HandoffSummary) -> HandoffSummary {
    HandoffSummary { model: AUTHOR.to_owned(), model_run_id: None, tokens_used: 0, ..shown.clone() }
}

/// The lines of the submitted Markdown to name in errors. A location is `None` for a part that is unchanged or that
/// came in a separate field or as JSON.
#[derive(Debug, Default)]
struct TextLocations {
    /// The line of the title.
    title: Option<LineLocation>,
    /// The first line of the TL;DR.
    tldr: Option<LineLocation>,
    /// The first line of the first item above the limit.
    first_excess_item: Option<LineLocation>,
}

/// Checks a person's summary against the limits. One item is enough; the minimum of three applies to drafts only.
fn check_limits(
    shown: &HandoffSummary,
    mut summary_json: HandoffSummary,
    package_md: String,
    locations: TextLocations,
) -> Result<EditedSummary, DecisionRejection> {
    reclassify_messages(shown, &mut summary_json);
    rules::note_rules(&mut summary_json, &rules::known_rules(shown));
    summary_json.notes.done_task_claims = open_tasks::done_task_claims(&summary_json);
    summary_json.notes.left_out_facts = left_out_facts(&summary_json.carried);
    summary_json.notes.names_by_user.retain(|name| package_md.contains(name.as_str()));
    let HandoffSummary { title, tldr, body, .. } = &summary_json;
    if title.trim_matches(|c: char| c == '*' || c.is_whitespace()).is_empty() {
        return Err(EditError::EmptyTitle(None).into());
    }
    let graphemes = title.graphemes(true).count();
    if graphemes > TITLE_GRAPHEMES_MAX {
        return Err(EditError::TitleTooLong { location: locations.title, graphemes }.into());
    }
    let graphemes = tldr.graphemes(true).count();
    if graphemes > TLDR_GRAPHEMES_MAX {
        return Err(EditError::TldrTooLong { location: locations.tldr, graphemes }.into());
    }
    if body.iter().all(|item| item.text.trim().is_empty()) {
        return Err(EditError::NoItem.into());
    }
    if body.len() > EDITED_ITEMS_MAX {
        let count = EditError::TooManyItems(body.len());
        return Err(locations.first_excess_item.map_or(count, EditError::ExcessItem).into());
    }
    // The shown summary may exceed the limit if the person chose a larger drafting budget. Their edit may be as long.
    let tokens_max = EDITED_TOKENS_MAX.max(model::tokens::estimate_tokens(&render::render_summary(shown)));
    let tokens = model::tokens::estimate_tokens(&package_md);
    if tokens > tokens_max {
        return Err(EditError::TooLong { tokens, tokens_max }.into());
    }
    check_no_new_secret(&render::render_summary(shown), &package_md)?;
    Ok(EditedSummary { summary_json, package_md })
}

/// Fails with the first secret of a text that the shown text does not contain.
fn check_no_new_secret(shown_md: &str, edited_md: &str) -> Result<(), EditError> {
    let mut shown = secrets::find_secrets(shown_md);
    for secret in secrets::find_secrets(edited_md) {
        let known =
            shown.iter().position(|known| (&known.kind, &known.masked) == (&secret.kind, &secret.masked));
        match known {
            Some(index) => {
                shown.swap_remove(index);
            }
            None => {
                return Err(EditError::Secret {
                    line: secret.line,
                    kind: secret.kind,
                    masked: secret.masked,
                });
            }
        }
    }
    Ok(())
}

/// Groups bullets into items and returns each item with the line it starts on.
///
/// Bullets that equal a shown item become that item, with its references and its verified mark, because an edit
/// elsewhere does not concern it. Any other bullet becomes an item of the person's own; see [`user_item`]. Consecutive
/// tasks of the person's own are one item.
///
/// The cost is quadratic in the number of shown items, which is small.
fn match_items(shown: &HandoffSummary, mut bullets: &[EditedBullet]) -> Vec<(SummaryItem, LineLocation)> {
    let mut known: Vec<(&SummaryItem, Vec<String>)> =
        shown.body.iter().map(|item| (item, item_lines(item))).collect();
    let mut body: Vec<(SummaryItem, LineLocation)> = Vec::new();
    let mut in_own_tasks = false;
    while let Some(EditedBullet { kind, text, is_marked, location }) = bullets.first() {
        let matched = matching_items(&known, bullets);
        if !matched.is_empty() {
            for index in matched {
                let (item, lines) = &mut known[index];
                // The mark of an item is at its last line.
                let is_marked = bullets[lines.len() - 1].is_marked;
                let item = if is_marked { item.clone() } else { confirmed_item(item.clone()) };
                body.push((item, bullets[0].location.clone()));
                bullets = &bullets[lines.len()..];
                lines.clear();
            }
            in_own_tasks = false;
            continue;
        }
        let own_item = |is_marked: bool, text: &str, line_refs: Vec<Vec<Seq>>| {
            let own = match is_marked {
                true => mended_item(shown, *kind, text),
                false => confirmed_item(user_item(shown, *kind, text)),
            };
            with_line_refs(own, line_refs)
        };
        let refs = unchanged_line_refs(&known, *kind, text);
        // Consecutive tasks belong to one list, however many of its lines were edited.
        let list = body.last_mut().filter(|(last, _)| in_own_tasks && last.kind == *kind && is_task(text));
        match list {
            Some((list, _)) => {
                let lines = format!("{}\n{text}", list.text);
                let mut line_refs: Vec<Vec<Seq>> =
                    list.lines_with_refs().into_iter().map(|(_, refs)| refs).collect();
                line_refs.push(refs);
                *list = own_item(*is_marked || !list.verified, &lines, line_refs);
            }
            None => {
                body.push((own_item(*is_marked, text, vec![refs]), location.clone()));
            }
        }
        in_own_tasks = is_task(text);
        bullets = &bullets[1..];
    }
    body
}

/// Returns the references of a line that an item of the kind contains unchanged, although its other lines were edited. An
/// item whose references are not known by line has all of them for each line.
fn unchanged_line_refs(known: &[(&SummaryItem, Vec<String>)], kind: SummaryItemKind, line: &str) -> Vec<Seq> {
    let remaining = known.iter().filter(|(item, lines)| item.kind == kind && !lines.is_empty());
    for (item, lines) in remaining {
        let Some(index) = lines.iter().position(|known| known == line) else { continue };
        let is_by_line = item.line_refs.len() >= lines.len();
        return match item.lines_with_refs().into_iter().nth(index).filter(|_| is_by_line) {
            Some((_, refs)) => refs,
            None => item.refs.clone(),
        };
    }
    Vec::new()
}

/// Returns the item with the references of its lines.
fn with_line_refs(item: SummaryItem, line_refs: Vec<Vec<Seq>>) -> SummaryItem {
    let mut refs: Vec<Seq> = line_refs.iter().flatten().copied().collect();
    refs.sort_unstable();
    refs.dedup();
    let line_refs = if line_refs.len() > 1 && !refs.is_empty() { line_refs } else { Vec::new() };
    SummaryItem { refs, line_refs, ..item }
}

/// Returns the indexes of the shown items that the bullets start with: all remaining items of the kind in order, or
/// else the single item with the most lines. `known` holds each shown item with its lines; a matched item has no
/// lines left.
fn matching_items(known: &[(&SummaryItem, Vec<String>)], bullets: &[EditedBullet]) -> Vec<usize> {
    let Some(kind) = bullets.first().map(|bullet| bullet.kind) else { return Vec::new() };
    let mut of_kind: Vec<usize> = (0..known.len())
        .filter(|index| known[*index].0.kind == kind && !known[*index].1.is_empty())
        .collect();
    let all: Vec<&String> = of_kind.iter().flat_map(|index| &known[*index].1).collect();
    if is_prefixed_by(bullets, kind, &all) {
        return of_kind;
    }
    of_kind.sort_by_key(|index| Reverse(known[*index].1.len()));
    of_kind.retain(|index| is_prefixed_by(bullets, kind, &known[*index].1.iter().collect::<Vec<_>>()));
    of_kind.truncate(1);
    of_kind
}

/// Returns the bullets of a shown item in the form that parsing them produces.
fn item_lines(item: &SummaryItem) -> Vec<String> {
    let shown = render::render_markdown("", "", std::slice::from_ref(item));
    shown.lines().filter_map(|line| line.strip_prefix("- ")).map(plain_text).collect()
}

/// Returns whether the bullets start with `lines`, all under the heading of `kind`.
fn is_prefixed_by(bullets: &[EditedBullet], kind: SummaryItemKind, lines: &[&String]) -> bool {
    let mut pairs = bullets.iter().zip(lines);
    bullets.len() >= lines.len() && pairs.all(|(bullet, line)| bullet.kind == kind && bullet.text == **line)
}

fn is_task(text: &str) -> bool {
    ["[ ] ", "[x] "].iter().any(|task| text.starts_with(task))
}
