//! The unverified marks of a text that a person edited, without the conversation: names that the draft had invented stay
//! unverified, and so do names that the person wrote in their place.
//!
//! [`super::grounding`] looks for these names in the conversation afterwards and removes the marks of those it finds.

use std::iter;

use protocol::{HandoffSummary, Proposal, SummaryItem, SummaryItemKind};

use crate::review::edit::AUTHOR;
use crate::summary::ground::GroundingCheck;
use crate::summary::render;

/// The share of an item's words, in percent, that another one has to contain to be the same item with changed words.
const CHANGED_PERCENT: usize = 50;

/// Returns an item that the person wrote. What they wrote themselves counts as verified, but names that the draft had invented
/// stay unverified, however the sentence around them was changed.
pub(super) fn user_item(shown: &HandoffSummary, kind: SummaryItemKind, text: &str) -> SummaryItem {
    item_with_names(kind, text, kept_unfound(shown, text))
}

/// Returns an item that the person made of an unverified one. Names that they wrote in the place of invented ones are
/// unverified too, unless the verified parts of the draft contain them.
pub(super) fn mended_item(shown: &HandoffSummary, kind: SummaryItemKind, text: &str) -> SummaryItem {
    item_with_names(kind, text, suspected_names(shown, text))
}

/// Returns the item as verified, because the person removed its mark.
pub(super) fn confirmed_item(item: SummaryItem) -> SummaryItem {
    SummaryItem { verified: true, unfound: Vec::new(), ..item }
}

/// Updates the names in the title and the TL;DR that are unfound; see [`user_item`] and [`mended_item`].
pub(super) fn keep_marks(shown: &HandoffSummary, edited: &mut HandoffSummary) {
    let names = |before: &str, unfound: &[String], after: &str| match before == after || unfound.is_empty() {
        true => kept_unfound(shown, after),
        false => suspected_names(shown, after),
    };
    edited.notes.title_unfound = names(&shown.title, &shown.notes.title_unfound, &edited.title);
    edited.notes.tldr_unfound = names(&shown.tldr, &shown.notes.tldr_unfound, &edited.tldr);
}

/// Returns whether the item was made of an unverified item that is not among the edited `texts` any more: it has most of
/// its words.
pub(super) fn replaces_unverified(shown: &HandoffSummary, texts: &[String], item: &SummaryItem) -> bool {
    let words = words(&item.text);
    let unverified = shown.body.iter().filter(|before| !before.verified && before.kind == item.kind);
    unverified.filter(|before| !texts.contains(&render::normalize_lines(&before.text))).any(|before| {
        let before = self::words(&before.text);
        let common = before.iter().filter(|word| words.contains(word)).count();
        common * 100 >= before.len() * CHANGED_PERCENT
    })
}

/// Returns the names that drafts of a handoff have invented and that the person has not confirmed, from all its proposals in
/// their order. A person confirms a name by removing the mark of the part that contains it; a text without the name confirms
/// nothing.
pub(crate) fn invented_names(proposals: &[Proposal]) -> Vec<String> {
    let mut invented: Vec<String> = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for proposal in proposals {
        let summary = &proposal.summary_json;
        let unfound = unfound_names(summary);
        if summary.model == AUTHOR {
            let text = render::render_body(summary);
            let is_confirmed = |name: &String| {
                before.contains(name) && !unfound.contains(name) && text.contains(name.as_str())
            };
            invented.retain(|name| !is_confirmed(name));
        }
        invented.extend(unfound.iter().cloned());
        before = unfound;
    }
    invented.sort_unstable();
    invented.dedup();
    invented
}

/// Returns a text of the person without the names that drafts have invented, so that it is no evidence of them.
pub(crate) fn without_names(text: &str, names: &[String]) -> String {
    names.iter().fold(text.to_owned(), |text, name| without_name(&text, name))
}

/// Returns a text without a name. A longer word that contains the name stays.
fn without_name(text: &str, name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut kept = String::with_capacity(text.len());
    let mut end = 0;
    for (start, name) in text.match_indices(name) {
        let (before, after) = (&text[..start], &text[start + name.len()..]);
        if before.ends_with(is_part) || after.starts_with(is_part) {
            continue;
        }
        kept.push_str(&text[end..start]);
        kept.push(' ');
        end = start + name.len();
    }
    kept.push_str(&text[end..]);
    kept
}

/// Returns the names that the summary marks as unfound.
pub(super) fn unfound_names(summary: &HandoffSummary) -> Vec<String> {
    let items = summary.body.iter().flat_map(|item| &item.unfound);
    items.chain(&summary.notes.title_unfound).chain(&summary.notes.tldr_unfound).cloned().collect()
}

/// Returns an item in which these names are unfound.
fn item_with_names(kind: SummaryItemKind, text: &str, unfound: Vec<String>) -> SummaryItem {
    SummaryItem {
        kind,
        text: text.to_owned(),
        refs: Vec::new(),
        verified: unfound.is_empty(),
        unfound,
        line_refs: Vec::new(),
        false_refs: Vec::new(),
    }
}

/// Returns the names in `text` that the shown draft contained and that were not found in the covered messages.
fn kept_unfound(shown: &HandoffSummary, text: &str) -> Vec<String> {
    let mut kept = unfound_names(shown);
    kept.retain(|name| text.contains(name.as_str()));
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Returns the names in `text` that are unfound, and those that no verified part of the draft contains.
fn suspected_names(shown: &HandoffSummary, text: &str) -> Vec<String> {
    let mut check = GroundingCheck::from_texts(iter::once(text), None);
    let notes = &shown.notes;
    let heads = [(&shown.title, &notes.title_unfound), (&shown.tldr, &notes.tldr_unfound)].into_iter();
    let heads = heads.filter(|(_, unfound)| unfound.is_empty()).map(|(head, _)| head);
    let items = shown.body.iter().filter(|item| item.verified).map(|item| &item.text);
    heads.chain(items).for_each(|known| check.search_user_text(known));
    check.search_user_text(&render::facts_markdown(&shown.carried));
    let mut names = kept_unfound(shown, text);
    names.extend(check.missing_names().into_iter().flat_map(|(_, names)| names));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the words of a text in lowercase.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_evidence_of_itself_and_longer_words_stay() {
        let names = ["mara".to_owned(), "src/late.rs".to_owned()];
        let text = "mara and marathon, see src/late.rs:12, not src/late.rst";
        assert_eq!(without_names(text, &names), "  and marathon, see  :12, not src/late.rst");
    }
}
