//! The package of a handoff in sections, for a pane: the items with the places that they refer to, the facts, and what the
//! text leaves out.

use std::iter;

use agent::summary_heading;
use protocol::{Proposal, Seq, SummaryItem, SummaryItemKind};

use crate::ask::outline_pane::{OutlineItem, OutlinePane, OutlineSection};
use crate::render::facts::{fact_sections, markdown_of};
use crate::render::{coverage, notes};

/// Returns the pane of a proposal. Sections of items are open, long sections of facts are closed.
pub fn proposal_pane(proposal: &Proposal) -> OutlinePane {
    let summary = &proposal.summary_json;
    let mut sections = vec![OutlineSection {
        heading: "Summary".to_owned(),
        items: vec![text_item(&summary.tldr)],
        is_open: true,
    }];
    for kind in SummaryItemKind::ALL {
        let items = summary.body.iter().filter(|item| item.kind == kind);
        let items: Vec<OutlineItem> = items.flat_map(summary_items).collect();
        if !items.is_empty() {
            sections.push(OutlineSection { heading: summary_heading(kind).to_owned(), items, is_open: true });
        }
    }
    let markdown = markdown_of(proposal);
    for section in fact_sections(&markdown) {
        let items: Vec<OutlineItem> = section
            .entries
            .iter()
            .map(|entry| OutlineItem { refs: fact_places(proposal, entry), ..text_item(entry) })
            .collect();
        let is_open = items.len() <= ENTRIES_OPEN_MAX;
        sections.push(OutlineSection { heading: section.heading.to_owned(), items, is_open });
    }
    let warnings: Vec<OutlineItem> = warning_items(proposal);
    if !warnings.is_empty() {
        sections.insert(
            1,
            OutlineSection {
                heading: "May contradict your rules".to_owned(),
                items: warnings,
                is_open: true,
            },
        );
    }
    sections.push(OutlineSection {
        heading: "Coverage".to_owned(),
        items: vec![text_item(&coverage::render_line(&summary.coverage))],
        is_open: true,
    });
    let notes: Vec<OutlineItem> = note_items(proposal);
    if !notes.is_empty() {
        sections.push(OutlineSection {
            heading: "Not in this text".to_owned(),
            items: notes,
            is_open: false,
        });
    }
    OutlinePane::new(summary.title.clone(), sections)
}

/// The most entries of a section of facts that is open at first.
const ENTRIES_OPEN_MAX: usize = 4;

/// Returns an item without places.
fn text_item(text: &str) -> OutlineItem {
    OutlineItem { text: text.to_owned(), ..OutlineItem::default() }
}

/// Returns an item of the summary, one entry with its places for each of its lines. The last one has the mark.
fn summary_items(item: &SummaryItem) -> Vec<OutlineItem> {
    let mark = if item.verified { "" } else { SummaryItem::UNVERIFIED };
    let lines = item.lines_with_refs().into_iter();
    let mut lines: Vec<OutlineItem> =
        lines.map(|(text, refs)| OutlineItem { refs, ..text_item(text) }).collect();
    if let Some(last) = lines.last_mut() {
        last.text.push_str(mark);
    }
    lines
}

/// Returns the places of a fact: those of the rule with that text.
fn fact_places(proposal: &Proposal, entry: &str) -> Vec<Seq> {
    let rules = &proposal.summary_json.carried.rules;
    rules.iter().find(|rule| entry.contains(&rule.text)).map(|rule| rule.refs.clone()).unwrap_or_default()
}

/// Returns the warnings: parts that the model could not summarize, rules that a line of the text may contradict, with the
/// places of the rules, and open tasks that it tells as done.
fn warning_items(proposal: &Proposal) -> Vec<OutlineItem> {
    let claims = proposal.summary_json.notes.done_task_claims.iter();
    let warnings = proposal.summary_json.notes.rules.iter();
    let unsummarized = notes::unsummarized_line(&proposal.summary_json.notes);
    let unsummarized = unsummarized.as_deref().map(text_item).into_iter();
    let warnings = warnings
        .filter_map(|note| Some((notes::contradiction_line(note)?, note.rule.refs.clone())))
        .map(|(line, refs)| OutlineItem { refs, ..text_item(&line) })
        .chain(claims.map(|claim| text_item(&notes::done_task_line(claim))))
        .chain(notes::user_names_line(&proposal.summary_json.notes).as_deref().map(text_item));
    unsummarized.chain(warnings).collect()
}

/// Returns what the text leaves out, with its places.
fn note_items(proposal: &Proposal) -> Vec<OutlineItem> {
    let review_notes = &proposal.summary_json.notes;
    let left_out = review_notes.left_out.iter().map(|left_out| left_out.item.refs.clone());
    let topics = review_notes.topics.iter().map(|topic| vec![topic.first_seq]);
    let lost = notes::lost_rules(review_notes).map(|(_, rule)| rule.refs.clone());
    let entries = notes::note_entries(review_notes);
    entries
        .iter()
        .zip(left_out.chain(topics).chain(lost).chain(iter::repeat(Vec::new())))
        .map(|(entry, refs)| OutlineItem { refs, ..text_item(entry) })
        .collect()
}
